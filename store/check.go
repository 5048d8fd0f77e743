package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"github.com/cockroachdb/pebble/v2/sstable"
)

// Check reads the whole store and looks at every checksum and every value:
// damage to what nobody has read yet is found here. It returns a *DamagedError
// for what it finds first. Whether the conclusions are those that the log gives
// is Rebuild's to say.
func (s *Store) Check(ctx context.Context) error {
	if err := s.Behind(); err != nil {
		return err
	}
	snap := s.db.NewSnapshot()
	defer snap.Close()
	if err := s.checkTables(ctx); err != nil {
		return err
	}
	b, closer, err := snap.Get(metaKey(metaState))
	if err != nil {
		return s.explain(err)
	}
	state, err := readState(b)
	if err = errors.Join(err, closer.Close()); err != nil {
		return s.damagedKey(metaKey(metaState), err)
	}
	it, err := snap.NewIter(nil)
	if err != nil {
		return s.explain(err)
	}
	counts := map[byte]uint64{}
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		if n++; n%4096 == 0 && ctx.Err() != nil {
			return errors.Join(ctx.Err(), it.Close())
		}
		k := it.Key()
		v, err := it.ValueAndErr()
		if err != nil {
			break // the iterator's own error says why
		}
		counts[k[0]]++
		if k[0] == keyEvent {
			if len(k) != 9 || binary.BigEndian.Uint64(k[1:]) != counts[keyEvent] {
				return errors.Join(s.damagedKey(k, fmt.Errorf("number %d should stand here", counts[keyEvent])), it.Close())
			}
			// The chunk's first event is counted by its key.
			_, err := eachEvent(0, v, func(n uint64, b []byte) (bool, error) {
				counts[keyEvent] += min(n, 1)
				_, _, err := readEvent(b)
				return err == nil, err
			})
			if err != nil {
				return errors.Join(s.damagedKey(k, err), it.Close())
			}
			continue
		}
		if err := checkValue(k, v); err != nil {
			return errors.Join(s.damagedKey(k, err), it.Close())
		}
		// Without gaps: what is missing would be missed in silence.
		if kind := k[0]; kind == keyLog && (len(k) != 9 || binary.BigEndian.Uint64(k[1:]) != counts[kind]) {
			return errors.Join(s.damagedKey(k, fmt.Errorf("number %d should stand here", counts[kind])), it.Close())
		}
	}
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		return s.explain(err)
	}
	for _, c := range []struct {
		kind byte
		what string
		want uint64
	}{{keyLog, "entries of the log", state.log}, {keyEvent, "events", state.events}, {keySource, "sources", uint64(state.sources)}} {
		if counts[c.kind] != c.want {
			return &DamagedError{File: s.path("db"), Err: fmt.Errorf("it holds %d %s, and not %d", counts[c.kind], c.what, c.want), Do: doRestore}
		}
	}
	return nil
}

// checkTables compares every block of every table with its checksum, those of
// indexes and filters too, which a scan does not read.
func (s *Store) checkTables(ctx context.Context) error {
	// A snapshot does not hold on to tables, an iterator does.
	hold, err := s.db.NewIter(nil)
	if err != nil {
		return s.explain(err)
	}
	defer hold.Close()
	levels, err := s.db.SSTables()
	if err != nil {
		return s.explain(err)
	}
	for _, tables := range levels {
		for i := range tables {
			if err := ctx.Err(); err != nil {
				return err
			}
			path := s.fs.PathJoin(s.path("db"), fmt.Sprintf("%06d.sst", tables[i].BackingSSTNum))
			if err := s.checkTable(ctx, path); err != nil && !errors.Is(err, os.ErrNotExist) {
				// One that has gone was compacted in the meantime.
				return &DamagedError{File: path, Err: err, Do: doRestore}
			}
		}
	}
	return nil
}

func (s *Store) checkTable(ctx context.Context, path string) error {
	f, err := s.fs.Open(path)
	if err != nil {
		return err
	}
	readable, err := sstable.NewSimpleReadable(f)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	r, err := sstable.NewReader(ctx, readable, s.engine().MakeReaderOptions())
	if err != nil {
		return errors.Join(err, readable.Close())
	}
	return errors.Join(r.ValidateBlockChecksums(), r.Close())
}

// checkValue decodes a value.
func checkValue(k, v []byte) (err error) {
	if len(k) < 2 {
		return errShort
	}
	size := func(n int) {
		if len(v) != n {
			err = fmt.Errorf("the value has %d bytes, and not %d", len(v), n)
		}
	}
	switch k[0] {
	case keyMeta:
		return checkMeta(string(k[1:]), v)
	case keyLog:
		_, err = readEntry(v)
	case keySource:
		_, err = readSourceRec(v)
	case keyDigest:
		size(4)
	case keyRange, keyLack:
		size(8)
	case keyIdentity:
		_, err = readIdentity(v)
	case keyBoard:
		_, err = readChunk(k, v)
	case keyRoom:
		_, err = readRoomRec(v)
	case keyLeans:
		size(24)
	case keyAccept:
		size(32)
	case keyOffer:
		_, err = readOfferRec(v)
	case keyContract:
		_, err = readContractRec(v)
	case keyState, keyPoint:
		if len(v) > 0 {
			_, err = readShare(v)
		}
	case keyUnusable:
		d := dec{b: v}
		d.uint()
		err = d.err
	}
	return err
}

func checkMeta(name string, v []byte) (err error) {
	switch {
	case name == metaState:
		_, err = readState(v)
	case name == metaRules:
		_, err = parseRules(string(v))
	case len(name) > len(metaVenue) && name[:len(metaVenue)] == metaVenue:
		_, err = readVenue(1, v)
	}
	return err
}
