package store

import (
	"context"

	"github.com/cockroachdb/pebble/v2"
)

func (s *Store) checkpoint(dir string) error {
	return s.explain(s.db.Checkpoint(dir, pebble.WithFlushedWAL()))
}

// Compact rewrites the database so that it takes as little room as it can. It
// returns the bytes that its files took before and take afterwards.
func (s *Store) Compact(ctx context.Context) (before, after int64, err error) {
	if err := s.mayWrite(); err != nil {
		return 0, 0, err
	}
	before = s.liveBytes()
	err = s.db.Compact(ctx, []byte{0}, []byte{0xff}, true)
	return before, s.liveBytes(), s.explain(err)
}

// liveBytes is what the files take that the database needs.
func (s *Store) liveBytes() int64 {
	m := s.db.Metrics()
	return int64(m.WAL.PhysicalSize + m.Table.Local.LiveSize)
}
