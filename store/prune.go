package store

import (
	"context"
	"encoding/binary"

	"github.com/cockroachdb/pebble/v2"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/verify"
)

// pruneBatch is how many rows go in one atomic step.
const pruneBatch = 4096

// Pruned says what a Prune took away.
type Pruned struct {
	Unsigned  int64 // rows without a signature
	Invalid   int64 // whose signature does not hold
	Malformed int64 // that could not be parsed, torn ones too
	Bytes     int64 // of all of them
}

// Prune drops the bytes of rows that cannot be used and are older than a time,
// Unix ms: those that are unsigned, whose signature does not hold, or that could
// not be parsed. Their entries stay, with the sha256 and the length of what was
// there. A row is as old as its own time says; one that has none is as old as
// its source.
//
// A row that counts, or that would count under other rules, is never touched,
// and no conclusion changes. Each step is atomic and durable, so that a Prune that
// is cut short can be run again.
func (s *Store) Prune(ctx context.Context, beforeMs int64) (p Pruned, err error) {
	if err := s.mayWrite(); err != nil {
		return p, err
	}
	r := pruning{s: s, before: beforeMs, rows: *newRowReader(s.rules), freed: map[string]uint64{}}
	for from := logKey(nil, 0); from != nil; {
		if err := ctx.Err(); err != nil {
			return r.gone, err
		}
		if from, err = r.step(from); err != nil {
			return r.gone, err
		}
	}
	if r.gone.Bytes == 0 {
		return r.gone, nil
	}
	// What was overwritten is gone only when its files are; a write-log that is
	// kept for reuse goes when the store is opened next.
	return r.gone, s.explain(s.db.Compact(ctx, []byte{keyLog}, []byte{keyLog + 1}, false))
}

type pruning struct {
	s      *Store
	before int64
	rows   rowReader
	gone   Pruned
	freed  map[string]uint64 // bytes, by the key that counts them for a room
	source sourceRec
	number uint32 // of source
}

// step prunes the next rows of the log and returns where to go on, nil at its
// end.
func (r *pruning) step(from []byte) (next []byte, err error) {
	b := r.s.db.NewBatch()
	defer b.Close()
	state, gone, n := r.s.state, r.gone, 0
	clear(r.freed)
	it, err := r.s.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: after([]byte{keyLog})})
	if err != nil {
		return nil, r.s.explain(err)
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		if n == pruneBatch {
			next = append(next, it.Key()...)
			break
		}
		e, err := readEntry(it.Value())
		if err != nil {
			return nil, r.s.damagedKey(it.Key(), err)
		}
		old, row, err := r.old(&e)
		if err != nil {
			return nil, r.s.damagedKey(it.Key(), err)
		}
		if !old {
			continue
		}
		n++
		size := int64(len(e.raw))
		switch {
		case e.kind == entryBad:
			gone.Malformed++
		case e.class == verify.Unsigned:
			gone.Unsigned++
		default:
			gone.Invalid++
		}
		gone.Bytes += size
		state.unused -= size
		state.noBytes++
		state.pruned++
		room := roomKey(e.room)
		r.freed[string(append([]byte{keyUnusable, e.venue}, room[:]...))] += uint64(size)
		e.raw, e.flags = noBytes(e.raw, row), e.flags|rowNoBytes
		if err := b.Set(it.Key(), e.append(nil), nil); err != nil {
			return nil, err
		}
	}
	if err := it.Error(); err != nil {
		return nil, r.s.explain(err)
	}
	if n == 0 {
		return nil, nil
	}
	if err := r.count(b, state); err != nil {
		return nil, err
	}
	if err := b.Commit(pebble.Sync); err != nil {
		return nil, r.s.explain(err)
	}
	r.s.state, r.gone = state, gone
	return next, nil
}

// count notes in the batch how much room there is for unusable rows now.
func (r *pruning) count(b *pebble.Batch, state state) error {
	for k, freed := range r.freed {
		v, err := r.s.get([]byte(k))
		if err != nil {
			return err
		}
		d := dec{b: v}
		held := d.uint()
		if held > freed {
			err = b.Set([]byte(k), binary.AppendUvarint(nil, held-freed), nil)
		} else {
			err = b.Delete([]byte(k), nil)
		}
		if err != nil {
			return err
		}
	}
	return b.Set(metaKey(metaState), state.append(nil), nil)
}

// old reports whether the entry is a row to prune, and returns what is kept of
// it.
func (r *pruning) old(e *entry) (bool, *fold.Row, error) {
	if e.flags&rowNoBytes != 0 {
		return false, nil, nil
	}
	row := new(fold.Row)
	switch {
	case e.kind == entryBad:
	case e.kind == entryRow && (e.class == verify.Unsigned || e.class == verify.Invalid):
		r.rows.reset()
		if err := r.rows.read(e, row); err != nil {
			return false, nil, err
		}
		if ms := row.Record.TsMs; ms > 0 {
			return ms < r.before, row, nil
		}
	default:
		return false, nil, nil
	}
	if r.number != e.where.Source {
		rec, err := r.s.sourceRec(e.where.Source)
		if err != nil {
			return false, nil, err
		}
		r.source, r.number = *rec, e.where.Source
	}
	return r.source.TimeMs < r.before, row, nil
}
