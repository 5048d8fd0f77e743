package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Backup copies the store, as it stands now, into a new folder that is a store
// itself. It may run beside a Writer and beside readers. Files of the database
// never change once they are written; on the same disk they are shared, not
// copied.
//
// The copy is made next to dir and moved there when it is whole, so that a
// folder of that name is always a good backup.
func (s *Store) Backup(dir string) (err error) {
	switch {
	case s.opts.ReadOnly:
		return errors.New("store: it was opened for reading only")
	case s.behind != nil:
		return s.behind // the copy would not know of the loss
	}
	fs, part := s.fs, dir+".part"
	if within(dir, s.dir) {
		return fmt.Errorf("store: backing up into %s: it lies within the store, and would go with it: name a folder outside", dir)
	}
	for _, path := range [...]string{dir, part} {
		if _, err := fs.Stat(path); err == nil {
			return fmt.Errorf("store: backing up into %s: %w", path, os.ErrExist)
		} else if !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("store: backing up: %w", err)
		}
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, fs.RemoveAll(part))
		}
	}()
	if err := s.checkpoint(fs.PathJoin(part, "db")); err != nil {
		return fmt.Errorf("store: backing up into %s: %w", part, err)
	}
	// Opening the copy shows that it can be, and gives it the mark that it lacks.
	b, err := Open(part, Options{FS: s.fs, Rebuilding: true, AcceptLoss: true, Fatal: s.opts.Fatal})
	if err != nil {
		return fmt.Errorf("store: the backup does not open: %w", err)
	}
	if err := b.Close(); err != nil {
		return fmt.Errorf("store: the backup does not close: %w", err)
	}
	if err := fs.Rename(part, dir); err != nil {
		return fmt.Errorf("store: backing up into %s: %w", dir, err)
	}
	for _, path := range [...]string{dir, fs.PathDir(dir)} {
		if err := syncDir(s, path); err != nil {
			return fmt.Errorf("store: backing up into %s: %w", dir, err)
		}
	}
	return nil
}

// within reports whether a path lies in a folder, or is it.
func within(path, dir string) bool {
	p, err1 := filepath.Abs(path)
	d, err2 := filepath.Abs(dir)
	if err1 != nil || err2 != nil {
		return false
	}
	rel, err := filepath.Rel(d, p)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

func syncDir(s *Store, path string) error {
	d, err := s.fs.OpenDir(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
