package store

import (
	"context"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

const MarkName = markName

// Acknowledged reads the high-water mark of a store.
func Acknowledged(fs vfs.FS, dir string) (log uint64, err error) {
	m, err := readMark(fs, fs.PathJoin(dir, markName))
	return m.log, err
}

// Held is how far the log and the events go.
func (s *Store) Held() (log, events uint64) { return s.state.log, s.state.events }

// Settle moves everything into tables of the last level.
func (s *Store) Settle() error {
	if err := s.db.Flush(); err != nil {
		return err
	}
	return s.db.Compact(context.Background(), []byte{0}, []byte{255}, false)
}

// SetMeta sets a key as another program may have.
func (s *Store) SetMeta(name string, v []byte) error { return s.db.Set(metaKey(name), v, pebble.Sync) }

// DeleteEntry takes an entry from the middle of the log.
func (s *Store) DeleteEntry(pos uint64) error { return s.db.Delete(logKey(nil, pos), pebble.Sync) }
