package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// The places of the board stand in chunks: a run of neighbours behind the key of
// its first. A board has a million rows a day, and most are only appended.

const (
	chunkRows  = 256 // a chunk at the end of the board that has so many is closed
	chunkSplit = 512 // a chunk that grows to so many by late rows is cut in two
)

// chunk is a run of places of one generation, in order.
type chunk []placedRow

type placedRow struct {
	at place
	br boardRow
}

func (c chunk) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(c)))
	seq, pos := uint64(0), uint64(0)
	for i := range c {
		r := &c[i]
		dst = binary.AppendUvarint(dst, r.at.seq-seq)
		dst = binary.AppendVarint(dst, int64(r.at.pos-pos))
		dst = r.br.append(dst)
		seq, pos = r.at.seq, r.at.pos
	}
	return dst
}

// readChunk decodes a chunk from its key and value.
func readChunk(k, v []byte) (c chunk, err error) {
	if len(k) != 2+24 {
		return nil, errShort
	}
	gen := binary.BigEndian.Uint64(k[2:])
	d := dec{b: v}
	n := d.uint()
	if n > uint64(len(v)) {
		return nil, errShort
	}
	c = make(chunk, n)
	seq, pos := uint64(0), uint64(0)
	for i := range c {
		seq += d.uint()
		pos += uint64(d.int())
		c[i] = placedRow{place{gen, seq, pos}, d.boardRow()}
	}
	return c, d.err
}

// find returns where a place stands in the chunk, or would.
func (c chunk) find(at place) (int, bool) {
	return slices.BinarySearchFunc(c, at, func(r placedRow, at place) int {
		switch {
		case r.at.less(at):
			return -1
		case at.less(r.at):
			return 1
		}
		return 0
	})
}

// places reads the board's places from what an iterator gives.
type places struct {
	newIter func(*pebble.IterOptions) (*pebble.Iterator, error)
	explain func(error) error
	damaged func(k []byte, err error) error
	venue   uint8
	tail    chunk // the end of the board where it is not written yet
	near    chunk // a reader's last: lists go along the board
	keeps   bool  // what is read does not change: keep it in near
}

// each calls f with the places from one on, in order, until it answers false.
func (p *places) each(from place, f func(at place, br *boardRow) (bool, error)) error {
	give := func(c chunk) (bool, error) {
		i, _ := c.find(from)
		for ; i < len(c); i++ {
			if more, err := f(c[i].at, &c[i].br); err != nil || !more {
				return false, err
			}
		}
		return true, nil
	}
	it, err := p.iter()
	if err != nil {
		return err
	}
	more := true
	var k key
	ok := it.SeekLT(after(k.of(keyBoard, p.venue).place(from).b))
	if !ok {
		ok = it.First()
	}
	for ; ok && more; ok = it.Next() {
		var c chunk
		if c, err = readChunk(it.Key(), it.Value()); err != nil {
			err = p.damaged(bytes.Clone(it.Key()), err)
			break
		}
		if len(p.tail) > 0 && c[0].at == p.tail[0].at {
			break // an older state of the tail
		}
		if more, err = give(c); err != nil {
			break
		}
	}
	if err = errors.Join(err, p.explain(it.Error()), it.Close()); err != nil || !more {
		return err
	}
	_, err = give(p.tail)
	return err
}

func (p *places) iter() (*pebble.Iterator, error) {
	prefix := []byte{keyBoard, p.venue}
	it, err := p.newIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: after(prefix)})
	return it, p.explain(err)
}

// back returns the place so many bytes of rows before another.
func (p *places) back(from place, size int) (at place, err error) {
	at = from
	walk := func(c chunk) bool {
		i, _ := c.find(from)
		for i--; i >= 0 && size >= 0; i-- {
			size -= int(c[i].br.size)
			at = c[i].at
		}
		return size >= 0
	}
	if !walk(p.tail) {
		return at, nil
	}
	it, err := p.iter()
	if err != nil {
		return at, err
	}
	var k key
	for ok := it.SeekLT(after(k.of(keyBoard, p.venue).place(from).b)); ok; ok = it.Prev() {
		c, e := readChunk(it.Key(), it.Value())
		if e != nil {
			err = p.damaged(bytes.Clone(it.Key()), e)
			break
		}
		if len(p.tail) > 0 && c[0].at == p.tail[0].at {
			continue
		}
		if !walk(c) {
			break
		}
	}
	return at, errors.Join(err, p.explain(it.Error()), it.Close())
}

// chunkOf returns the chunk that a place stands in or would be put into, nil
// where it lies before all.
func (p *places) chunkOf(at place) (c chunk, isTail bool, err error) {
	if len(p.tail) > 0 && !at.less(p.tail[0].at) {
		return p.tail, true, nil
	}
	if n := len(p.near); n > 0 && !at.less(p.near[0].at) && !p.near[n-1].at.less(at) {
		return p.near, false, nil
	}
	it, err := p.iter()
	if err != nil {
		return nil, false, err
	}
	var k key
	if it.SeekLT(after(k.of(keyBoard, p.venue).place(at).b)) {
		if c, err = readChunk(it.Key(), it.Value()); err != nil {
			err = p.damaged(bytes.Clone(it.Key()), err)
		}
	}
	err = errors.Join(err, p.explain(it.Error()), it.Close())
	if len(c) > 0 && c[0].at.gen != at.gen {
		c = nil
	}
	if p.keeps && err == nil {
		p.near = c
	}
	return c, false, err
}

// get reads one place.
func (p *places) get(at place) (br boardRow, found bool, err error) {
	c, _, err := p.chunkOf(at)
	if err != nil {
		return br, false, err
	}
	i, found := c.find(at)
	if found {
		br = c[i].br
	}
	return br, found, nil
}

// placesOf gives the board's places as the open window has them.
func (w *Writer) placesOf(no uint8) *places {
	return &places{newIter: w.idx.NewIter, explain: w.s.explain, damaged: w.s.damagedKey, venue: no, tail: w.p.tail(no).chunk}
}

func (r *Reader) placesOf(no uint8) *places {
	for len(r.places) <= int(no) {
		r.places = append(r.places, &places{
			newIter: r.snap.NewIter, explain: r.s.explain, damaged: r.damaged, venue: uint8(len(r.places)), keeps: true,
		})
	}
	return r.places[no]
}

// putPlace writes a row's place.
func (p *projector) putPlace(no uint8, at place, br boardRow, late bool) error {
	t := p.tail(no)
	row := placedRow{at, br}
	if !late {
		if n := len(t.chunk); n >= chunkRows || n > 0 && t.chunk[0].at.gen != at.gen {
			if err := p.putChunk(no, t.chunk); err != nil {
				return err
			}
			t.chunk = make(chunk, 0, chunkRows)
		}
		t.chunk = append(t.chunk, row)
		t.dirty = true
		return nil
	}
	c, isTail, err := p.w.placesOf(no).chunkOf(at)
	switch {
	case err != nil:
		return err
	case c == nil:
		return p.putChunk(no, chunk{row})
	}
	i, found := c.find(at)
	if found {
		return nil
	}
	c = slices.Insert(c, i, row)
	if isTail {
		if len(c) >= chunkSplit {
			if err := p.putChunk(no, c[:len(c)/2]); err != nil {
				return err
			}
			c = slices.Clone(c[len(c)/2:])
		}
		t.chunk, t.dirty = c, true
		return nil
	}
	if len(c) >= chunkSplit {
		if err := p.putChunk(no, c[len(c)/2:]); err != nil {
			return err
		}
		c = c[:len(c)/2]
	}
	return p.putChunk(no, c)
}

// putChunk writes a chunk where reads of the open window find it.
func (p *projector) putChunk(no uint8, c chunk) error {
	p.val = c.append(p.val[:0])
	return p.set(p.k.of(keyBoard, no).place(c[0].at).b, p.val)
}

// changePlace changes the flags of a row of the board. It reports whether there
// is such a row and it was changed.
func (p *projector) changePlace(no uint8, at place, change func(*boardRow)) (changed bool, err error) {
	c, isTail, err := p.w.placesOf(no).chunkOf(at)
	if err != nil {
		return false, err
	}
	i, found := c.find(at)
	if !found {
		return false, nil
	}
	before := c[i].br
	change(&c[i].br)
	if c[i].br == before {
		return false, nil
	}
	p.cache.rows.drop(at.pos)
	if isTail {
		p.tail(no).dirty = true
		return true, nil
	}
	return true, p.putChunk(no, c)
}

// flushTails writes the ends of the boards.
func (p *projector) flushTails() error {
	for _, v := range p.w.s.venues {
		t := p.tail(v.no)
		if !t.dirty || len(t.chunk) == 0 {
			continue
		}
		t.dirty = false
		p.val = t.chunk.append(p.val[:0])
		if err := p.setLater(p.k.of(keyBoard, v.no).place(t.chunk[0].at).b, p.val); err != nil {
			return err
		}
	}
	return nil
}

// loadTail reads the end of a board.
func (p *projector) loadTail(no uint8) error {
	ps := p.w.s.placesOf(no)
	it, err := ps.iter()
	if err != nil {
		return err
	}
	if it.Last() {
		c, e := readChunk(it.Key(), it.Value())
		if e != nil {
			err = p.w.s.damagedKey(bytes.Clone(it.Key()), e)
		}
		p.tail(no).chunk = c
	}
	return errors.Join(err, ps.explain(it.Error()), it.Close())
}

func (s *Store) placesOf(no uint8) *places {
	return &places{newIter: s.db.NewIter, explain: s.explain, damaged: s.damagedKey, venue: no}
}
