package store

import (
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// diskFS ends the process where the write-log, a manifest or the like cannot be
// written, or a folder not be synced. Pebble does that as well, but where it
// begins a new log it dies of unlocking a mutex twice, and where opening fails
// of a compaction that goes on without its caches: without a word on the disk.
// Errors of tables come back from a flush or a compaction.
type diskFS struct {
	vfs.FS
	closing atomic.Bool // then errors are returned
	fatal   func(error)
}

func (f *diskFS) Unwrap() vfs.FS { return f.FS }

func (f *diskFS) look(err error) error {
	if err != nil && !f.closing.Load() {
		f.fatal(err)
	}
	return err
}

func (f *diskFS) file(name string, file vfs.File, err error) (vfs.File, error) {
	if strings.HasSuffix(name, ".sst") {
		return file, err
	}
	if f.look(err) != nil {
		return file, err
	}
	return &diskFile{file, f}, nil
}

func (f *diskFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.Create(name, c)
	return f.file(name, file, err)
}

func (f *diskFS) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.ReuseForWrite(from, to, c)
	return f.file(to, file, err)
}

func (f *diskFS) Rename(from, to string) error { return f.look(f.FS.Rename(from, to)) }

func (f *diskFS) OpenDir(name string) (vfs.File, error) {
	d, err := f.FS.OpenDir(name)
	if err != nil {
		return d, err
	}
	return &diskFile{d, f}, nil
}

type diskFile struct {
	vfs.File
	fs *diskFS
}

func (f *diskFile) Write(b []byte) (int, error) {
	n, err := f.File.Write(b)
	return n, f.fs.look(err)
}

func (f *diskFile) Sync() error     { return f.fs.look(f.File.Sync()) }
func (f *diskFile) SyncData() error { return f.fs.look(f.File.SyncData()) }

func (f *diskFile) SyncTo(n int64) (bool, error) {
	full, err := f.File.SyncTo(n)
	return full, f.fs.look(err)
}
