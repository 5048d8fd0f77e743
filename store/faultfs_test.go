package store_test

import (
	"os"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// faultFS counts the operations that change a file system and asks, before and
// after each of them, whether it is to fail. pebble's own errorfs cannot have
// one fail that took effect.
type faultFS struct {
	vfs.FS
	n      atomic.Int64
	before func(n int64, op, path string) error
	after  func(n int64, op, path string) error
}

func (f *faultFS) do(op, path string, what func() error) error {
	n := f.n.Add(1)
	if f.before != nil {
		if err := f.before(n, op, path); err != nil {
			return &os.PathError{Op: op, Path: path, Err: err}
		}
	}
	if err := what(); err != nil {
		return err
	}
	if f.after != nil {
		if err := f.after(n, op, path); err != nil {
			return &os.PathError{Op: op, Path: path, Err: err}
		}
	}
	return nil
}

func (f *faultFS) file(op, path string, what func() (vfs.File, error)) (vfs.File, error) {
	var file vfs.File
	err := f.do(op, path, func() (err error) {
		file, err = what()
		return err
	})
	if err != nil {
		if file != nil {
			_ = file.Close() // of what took effect and is said to have failed
		}
		return nil, err
	}
	return &faultFile{file, f, path}, nil
}

func (f *faultFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return f.file("create", name, func() (vfs.File, error) { return f.FS.Create(name, c) })
}

func (f *faultFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return f.file("open for writing", name, func() (vfs.File, error) { return f.FS.OpenReadWrite(name, c, o...) })
}

func (f *faultFS) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return f.file("reuse", to, func() (vfs.File, error) { return f.FS.ReuseForWrite(from, to, c) })
}

func (f *faultFS) OpenDir(name string) (vfs.File, error) {
	d, err := f.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &faultFile{d, f, name}, nil
}

func (f *faultFS) Link(from, to string) error {
	return f.do("link", to, func() error { return f.FS.Link(from, to) })
}

func (f *faultFS) Rename(from, to string) error {
	return f.do("rename", to, func() error { return f.FS.Rename(from, to) })
}

func (f *faultFS) Remove(name string) error {
	return f.do("remove", name, func() error { return f.FS.Remove(name) })
}

func (f *faultFS) RemoveAll(name string) error {
	return f.do("remove", name, func() error { return f.FS.RemoveAll(name) })
}

func (f *faultFS) MkdirAll(name string, mode os.FileMode) error {
	return f.do("make folder", name, func() error { return f.FS.MkdirAll(name, mode) })
}

func (f *faultFS) Unwrap() vfs.FS { return f.FS }

type faultFile struct {
	vfs.File
	fs   *faultFS
	path string
}

func (f *faultFile) Write(b []byte) (n int, err error) {
	err = f.fs.do("write", f.path, func() (err error) {
		n, err = f.File.Write(b)
		return err
	})
	return n, err
}

func (f *faultFile) WriteAt(b []byte, at int64) (n int, err error) {
	err = f.fs.do("write", f.path, func() (err error) {
		n, err = f.File.WriteAt(b, at)
		return err
	})
	return n, err
}

func (f *faultFile) Sync() error { return f.fs.do("sync", f.path, f.File.Sync) }

func (f *faultFile) SyncData() error { return f.fs.do("sync", f.path, f.File.SyncData) }

func (f *faultFile) SyncTo(n int64) (full bool, err error) {
	err = f.fs.do("sync", f.path, func() (err error) {
		full, err = f.File.SyncTo(n)
		return err
	})
	return full, err
}
