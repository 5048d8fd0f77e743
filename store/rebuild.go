package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/verify"
)

// DifferenceError says that the store's conclusions are not what its log gives.
type DifferenceError struct {
	Key       []byte // the first key that differs
	Have      []byte // its value in the store, nil where it is not there
	Want      []byte // the value that the log gives, nil for none
	Different uint64 // keys that differ, all told
}

// Error names the first difference.
func (e *DifferenceError) Error() string {
	what := "has another value"
	switch {
	case e.Have == nil:
		what = "is not there"
	case e.Want == nil:
		what = "should not be there"
	}
	return fmt.Sprintf("store: the log gives other conclusions: key %x %s; %d keys differ", e.Key, what, e.Different)
}

// Rebuild folds the log again, from its beginning, under the rules of the open
// store. With check it folds aside, compares every derived key byte by byte and
// changes nothing: a difference is a *DifferenceError. Else what it made takes
// the place of the old conclusions.
//
// progress, if set, is told how many of the log's entries are done.
func (s *Store) Rebuild(ctx context.Context, check bool, progress func(done, total uint64)) (err error) {
	switch {
	case s.opts.ReadOnly:
		return errors.New("store: it was opened for reading only")
	case s.behind != nil:
		return s.behind
	case s.writing:
		return errors.New("store: it has a writer")
	}
	if s.was.Reference != s.rules.Reference {
		return errors.New("store: what counts as a row was decided under the other base rules when it was read: ingest the sources into a new store")
	}
	side := s.path("rebuild")
	if err := s.fs.RemoveAll(side); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("store: removing %s: %w", side, err)
	}
	fresh, err := Open(side, Options{Rules: &s.rules, FS: s.opts.FS, Fatal: s.opts.Fatal})
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, fresh.Close(), s.fs.RemoveAll(side))
	}()
	if err := fresh.replay(ctx, s, progress); err != nil {
		return err
	}
	if check {
		return s.compare(ctx, fresh)
	}
	return s.adopt(ctx, fresh)
}

// replay derives everything from another store's log, window by window.
func (s *Store) replay(ctx context.Context, from *Store, progress func(done, total uint64)) error {
	w, err := s.NewWriter()
	if err != nil {
		return err
	}
	defer w.Close()
	w.replaying = from
	s.state.log = 0
	w.rewind()
	it, err := from.db.NewIter(&pebble.IterOptions{LowerBound: []byte{keyLog}, UpperBound: []byte{keyLog + 1}})
	if err != nil {
		return from.explain(err)
	}
	defer it.Close()
	p := player{w: w, from: from}
	total := from.state.log
	for ok := it.First(); ok; ok = it.Next() {
		pos := binary.BigEndian.Uint64(it.Key()[1:])
		if pos != s.state.log+1 {
			return &DamagedError{File: from.path("db"), Err: fmt.Errorf("entry %d of the log is not there", s.state.log+1), Do: doRestore}
		}
		if err := p.play(slices.Clone(it.Value())); err != nil {
			return err
		}
		if pos%4096 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			if progress != nil {
				progress(pos, total)
			}
		}
	}
	if err := from.explain(it.Error()); err != nil {
		return err
	}
	if s.state.log != total {
		return &DamagedError{File: from.path("db"), Err: fmt.Errorf("the log ends at entry %d, and not at %d", s.state.log, total), Do: doRestore}
	}
	if progress != nil {
		progress(total, total)
	}
	return nil
}

// rewind begins before the first entry of the log, as a replay does.
func (w *Writer) rewind() {
	w.log.Close()
	w.idx.Close()
	w.begin()
}

// player hands the entries of a log to a writer as they were first written.
type player struct {
	w    *Writer
	from *Store
	rows *rowReader
}

func (p *player) play(b []byte) error {
	e, err := readEntry(b)
	if err != nil {
		return &DamagedError{File: p.from.path("db"), Err: fmt.Errorf("entry %d of the log: %w", p.w.s.state.log+1, err), Do: doRestore}
	}
	w := p.w
	if e.venue != 0 {
		// Venues are numbered as their first source comes, as they were before.
		for int(e.venue) > len(w.s.venues) {
			if len(w.s.venues) >= len(p.from.venues) {
				return &DamagedError{File: p.from.path("db"), Err: errors.New("an entry of the log names no venue"), Do: doRestore}
			}
			v := &venue{no: uint8(len(w.s.venues) + 1), alias: p.from.venues[len(w.s.venues)].alias}
			w.s.venues = append(w.s.venues, v)
		}
	}
	if e.kind == entryTick {
		return p.w.tick()
	}
	w.s.state.log++
	pos := w.s.state.log
	w.window = append(w.window, b)
	if p.rows == nil {
		p.rows = newRowReader(w.s.rules)
	}
	switch e.kind {
	case entrySource:
		rec, err := p.from.sourceRec(e.where.Source)
		if err != nil {
			return err
		}
		w.s.state.sources = max(w.s.state.sources, e.where.Source)
		w.sources[e.where.Source], w.dirty[e.where.Source] = &sourceRec{Source: rec.Source, begun: rec.begun, no: e.where.Source}, true
		return nil
	case entryRules:
		return nil
	}
	if e.kind == entryClock || e.kind == entrySettings {
		return w.p.other(&e, pos)
	}
	rec, err := w.source(e.where.Source)
	if err != nil {
		return err
	}
	w.dirty[e.where.Source] = true
	switch e.kind {
	case entryRow:
		rec.rows++
		return p.row(rec, &e, pos)
	case entrySame:
		rec.rows++
		w.s.state.rows[6]++
		first, err := w.entry(e.first)
		if err != nil {
			return err
		}
		var r fold.Row
		p.rows.reset()
		if err := p.rows.read(&first, &r); err != nil {
			return p.from.damagedEntry(pos, err)
		}
		w.s.state.bytes += rawSize(&first)
		return w.p.again(rec, first.room, place{e.gen, r.Record.Seq, 0}, pos)
	case entryBad:
		rec.rows++
		w.s.state.bytes += rawSize(&e)
		if e.torn {
			w.s.state.rows[5]++
		} else {
			w.s.state.rows[0]++
		}
		if err := p.unusable(&e); err != nil {
			return err
		}
		return w.p.bad(rec, &e, pos)
	case entryRoom:
		return w.p.room(rec, e.room, e.gen, e.seq)
	case entryEnd:
		return w.ended(rec, &e)
	case entryCoverage:
		return w.p.cover(rec, &e, pos)
	}
	return nil
}

// rawSize is how many bytes an entry's row has, with its line end.
func rawSize(e *entry) int64 {
	if e.flags&rowNoBytes != 0 && len(e.raw) >= 40 {
		return int64(binary.BigEndian.Uint64(e.raw[32:])) + 1
	}
	return int64(len(e.raw)) + 1
}

func (p *player) unusable(e *entry) error {
	if e.flags&rowNoBytes != 0 {
		p.w.s.state.noBytes++
		return nil
	}
	return p.w.countUnusable(e.venue, e.room, uint64(len(e.raw)))
}

func (p *player) row(rec *sourceRec, e *entry, pos uint64) error {
	w := p.w
	var r fold.Row
	p.rows.reset()
	if err := p.rows.read(e, &r); err != nil {
		return p.from.damagedEntry(pos, err)
	}
	w.s.state.bytes += rawSize(e)
	if r.Hidden {
		w.s.state.rows[0]++
	} else {
		w.s.state.rows[e.class]++
	}
	id := r.ID
	hash := hashOf(e.raw)
	if e.flags&rowNoBytes != 0 {
		copy(hash[:], e.raw)
	}
	if e.class != verify.Authentic && e.class != verify.Repaired {
		id = unusableID(e.room, e.gen, r.Record.Seq, hash)
		if err := p.unusable(e); err != nil {
			return err
		}
	}
	at := place{e.gen, r.Record.Seq, pos}
	return w.p.row(rec, &r, id, identity{at: at, ts: r.Record.TsMs, bytes: binary.BigEndian.Uint64(hash[:]), from: e.where.Source})
}

func (s *Store) damagedEntry(pos uint64, err error) error {
	return &DamagedError{File: s.path("db"), Err: fmt.Errorf("entry %d of the log: %w", pos, err), Do: doRestore}
}

// compare looks for derived keys that differ from another store's.
func (s *Store) compare(ctx context.Context, want *Store) error {
	var diff *DifferenceError
	for _, kind := range derived {
		bounds := &pebble.IterOptions{LowerBound: []byte{kind}, UpperBound: []byte{kind + 1}}
		a, err := s.db.NewIter(bounds)
		if err != nil {
			return s.explain(err)
		}
		b, err := want.db.NewIter(bounds)
		if err != nil {
			return errors.Join(want.explain(err), a.Close())
		}
		haveA, haveB := a.First(), b.First()
		for n := 0; haveA || haveB; n++ {
			if n%65536 == 0 && ctx.Err() != nil {
				return errors.Join(ctx.Err(), a.Close(), b.Close())
			}
			c := 0
			switch {
			case !haveB:
				c = -1
			case !haveA:
				c = 1
			default:
				c = bytes.Compare(a.Key(), b.Key())
			}
			if c == 0 && !bytes.Equal(a.Value(), b.Value()) || c != 0 {
				if diff == nil {
					diff = &DifferenceError{}
					if c <= 0 {
						diff.Key, diff.Have = slices.Clone(a.Key()), append([]byte{}, a.Value()...)
					}
					if c >= 0 {
						diff.Key, diff.Want = slices.Clone(b.Key()), append([]byte{}, b.Value()...)
					}
				}
				diff.Different++
			}
			if c <= 0 {
				haveA = a.Next()
			}
			if c >= 0 {
				haveB = b.Next()
			}
		}
		if err := errors.Join(a.Error(), b.Error(), a.Close(), b.Close()); err != nil {
			return s.explain(err)
		}
	}
	if diff != nil {
		return diff
	}
	return nil
}

// adoptBytes is how much goes into one batch when conclusions are replaced.
const adoptBytes = 4 << 20

// adopt replaces the derived keys by another store's. A flag says that this is
// under way: a store that is killed in between is rebuilt again before use.
func (s *Store) adopt(ctx context.Context, from *Store) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b := s.db.NewBatch()
	var err error
	for _, kind := range derived {
		err = errors.Join(err, b.DeleteRange([]byte{kind}, []byte{kind + 1}, nil))
	}
	// Until all is there the fold's version says that there is none.
	err = errors.Join(err, b.Set(metaKey(metaFold), binary.AppendUvarint(nil, 0), nil), b.Commit(pebble.Sync))
	if err != nil {
		return s.explain(err)
	}
	for _, kind := range derived {
		if err := s.copyKind(from, kind); err != nil {
			return err
		}
	}
	// Of the rest, what follows from the log: counters and venues.
	last := s.db.NewBatch()
	state := from.state
	state.pruned = s.state.pruned
	if s.was != s.rules {
		// From here on these are the rules. The log says so.
		state.log++
		e := entry{kind: entryRules, word: s.rules.String()}
		err = last.Set(logKey(nil, state.log), e.append(nil), nil)
	}
	err = errors.Join(err,
		last.Set(metaKey(metaFold), binary.AppendUvarint(nil, FoldVersion), nil),
		last.Set(metaKey(metaRules), []byte(s.rules.String()), nil),
		last.Set(metaKey(metaState), state.append(nil), nil))
	for _, v := range from.venues {
		err = errors.Join(err, last.Set(venueKey(int(v.no)), v.append(nil), nil))
	}
	if err = errors.Join(err, last.Commit(pebble.Sync)); err != nil {
		return s.explain(err)
	}
	s.mu.Lock()
	s.state, s.venues, s.was = state, nil, s.rules
	s.mu.Unlock()
	return errors.Join(s.loadVenues(), s.acknowledge())
}

func (s *Store) copyKind(from *Store, kind byte) error {
	it, err := from.db.NewIter(&pebble.IterOptions{LowerBound: []byte{kind}, UpperBound: []byte{kind + 1}})
	if err != nil {
		return from.explain(err)
	}
	b := s.db.NewBatch()
	for ok := it.First(); ok; ok = it.Next() {
		if err := b.Set(it.Key(), it.Value(), nil); err != nil {
			return errors.Join(err, it.Close())
		}
		if b.Len() >= adoptBytes {
			if err := b.Commit(pebble.NoSync); err != nil {
				return errors.Join(s.explain(err), it.Close())
			}
			b.Reset()
		}
	}
	return s.explain(errors.Join(it.Error(), it.Close(), b.Commit(pebble.NoSync), b.Close()))
}
