package fold

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/verify"
)

// copyOf is one input's rows of a deal room, in their own order.
type copyOf struct {
	source uint32
	rows   []uint32
	next   int
	at     place // of the next row, never falling
	last   place
}

// place orders rows of one room.
type place struct{ gen, seq uint64 }

func (p place) compare(o place) int {
	return cmp.Or(cmp.Compare(p.gen, o.gen), cmp.Compare(p.seq, o.seq))
}

// mergeCopies puts the rows of a deal room that came from several inputs into
// one order, by generation and seq, the same record at the same place once.
// Each input keeps its own order. What the copies say against each other is
// marked on the rows.
func (a *Auditor) mergeCopies(rm *room) {
	copies := a.copies(rm)
	orders := make([]uint64, 0, 16)
	var merged []uint32
	for {
		var c *copyOf
		for i := range copies {
			if o := &copies[i]; o.next < len(o.rows) && (c == nil || o.at.compare(c.at) < 0) {
				c = o
			}
		}
		if c == nil {
			break
		}
		i := c.rows[c.next]
		r := a.rows.at(i)
		at := place{r.gen, r.seq}
		inOrder := at == c.at
		a.advance(c)
		orders = append(orders, r.order)
		if r.flags&(flagHidden|flagFiller) == 0 {
			for k := range copies {
				switch o := &copies[k]; {
				case o == c:
				case inOrder:
					a.compareCopies(rm, r, at, o)
				default:
					a.dropTwin(r, at, o)
				}
			}
		}
		merged = append(merged, i)
	}
	slices.Sort(orders)
	ids := map[protocol.RecordID]bool{}
	rm.head, rm.tail = 0, 0
	rm.holeHead, rm.holeTail, rm.holeCount = 0, 0, 0
	rm.conflict, rm.impossible = 0, 0
	rm.track = tracker{}
	order := a.order
	var before *row // the row before in the merged order
	for n, i := range merged {
		r := a.rows.at(i)
		r.next, r.order = 0, orders[n]
		a.chain(rm, i)
		a.order = r.order
		if r.flags&(flagHidden|flagFiller) == 0 && a.foldable(r) {
			// Which sighting is the replay depends on the merged order.
			r.flags &^= flagReplay
			if ids[r.record] {
				r.flags |= flagReplay
			}
			ids[r.record] = true
		}
		a.retrack(rm, r, before)
		before = r
	}
	a.order = order
	unread := uint64(math.MaxUint64)
	for i := range copies {
		c := &copies[i]
		if at, ok := a.hazyEnd[hazyKey{rm.name, c.source}]; ok && c.last.compare(place{rm.track.topGen, rm.track.top}) >= 0 {
			// The copy that reaches furthest ends with rows that could not be read.
			unread = min(unread, at)
		}
	}
	if unread != math.MaxUint64 {
		rm.track.unfilled, rm.track.unfilledSeq = max(unread, rm.track.lastOrder)+1, math.MaxUint64
	}
}

// mergeRooms merges the copies of the rooms that came from several inputs.
func (a *Auditor) mergeRooms() {
	// An input that holds nothing of a room but rows that could not be read: they
	// may have stood anywhere, also behind all others.
	unplaced := map[*room]uint64{}
	for hk := range a.hazy {
		i, ok := a.roomByName[hk.room]
		if !ok || a.rooms.at(i).head == 0 {
			continue
		}
		rm := a.rooms.at(i)
		alone := true
		for k := rm.head; k != 0 && alone; k = a.rows.at(k).next {
			alone = a.rows.at(k).source != hk.source
		}
		if alone {
			unplaced[rm] = max(unplaced[rm], a.hazyEnd[hk])
		}
	}
	for i := uint32(1); i <= a.rooms.len(); i++ {
		if rm := a.rooms.at(i); rm.manySource {
			a.mergeCopies(rm)
		}
	}
	for rm, at := range unplaced {
		rm.track.unfilled, rm.track.unfilledSeq = max(at, rm.track.lastOrder)+1, math.MaxUint64
	}
}

// copies takes a room's rows apart by input. Where only one generation is
// known, the rows that do not say belong to it.
func (a *Auditor) copies(rm *room) []copyOf {
	var copies []copyOf
	index := map[uint32]int{}
	gens := map[uint64]bool{}
	for i := rm.head; i != 0; i = a.rows.at(i).next {
		r := a.rows.at(i)
		k, ok := index[r.source]
		if !ok {
			k = len(copies)
			index[r.source] = k
			copies = append(copies, copyOf{source: r.source})
		}
		copies[k].rows = append(copies[k].rows, i)
		if r.gen != 0 {
			gens[r.gen] = true
		}
	}
	a.dateRows(rm, gens)
	for k := range copies {
		c := &copies[k]
		for _, i := range c.rows {
			r := a.rows.at(i)
			to := r.seq
			if r.flags&flagFiller != 0 {
				to = max(to, uint64(r.ts))
			}
			if p := (place{r.gen, to}); p.compare(c.last) > 0 {
				c.last = p
			}
		}
		c.at = place{a.rows.at(c.rows[0]).gen, a.rows.at(c.rows[0]).seq}
	}
	return copies
}

// dateRows gives the rows that do not say their generation the one that they
// fall into: a venue that counts generations goes on counting seq, so each life
// holds the seqs from its first to the next one's.
func (a *Auditor) dateRows(rm *room, gens map[uint64]bool) {
	if len(gens) == 0 {
		return
	}
	first := map[uint64]uint64{}
	for i := rm.head; i != 0; i = a.rows.at(i).next {
		if r := a.rows.at(i); r.gen != 0 {
			if at, ok := first[r.gen]; !ok || r.seq < at {
				first[r.gen] = r.seq
			}
		}
	}
	known := slices.Sorted(maps.Keys(gens))
	for i := rm.head; i != 0; i = a.rows.at(i).next {
		r := a.rows.at(i)
		if r.gen != 0 {
			continue
		}
		r.gen = known[0]
		for _, g := range known[1:] {
			if first[g] <= r.seq {
				r.gen = g
			}
		}
	}
}

func (a *Auditor) advance(c *copyOf) {
	c.next++
	if c.next < len(c.rows) {
		r := a.rows.at(c.rows[c.next])
		if p := (place{r.gen, r.seq}); p.compare(c.at) > 0 {
			c.at = p
		}
	}
}

// compareCopies looks at the place of r in another copy: the same record there
// is dropped, another one contradicts, and so does none where that copy goes
// on before and after.
func (a *Auditor) compareCopies(rm *room, r *row, at place, o *copyOf) {
	if o.next < len(o.rows) {
		other := a.rows.at(o.rows[o.next])
		if (place{other.gen, other.seq}) == at && other.flags&(flagHidden|flagFiller) == 0 {
			if other.record == r.record {
				if other.ts != r.ts {
					r.flags |= flagConflictTime
				}
				if !a.foldable(r) && a.foldable(other) {
					// The signature is spoilt in one copy only: the other counts.
					order, flags := r.order, r.flags&flagAnyConflict
					*r = *other
					r.order, r.flags = order, r.flags|flags
				}
				a.advance(o)
				return
			}
			r.flags |= flagConflictRecord
			other.flags |= flagConflictRecord
			return
		}
	}
	if a.hazy[hazyKey{rm.name, o.source}] || o.next == 0 || o.next >= len(o.rows) {
		return
	}
	before, after := a.rows.at(o.rows[o.next-1]), a.rows.at(o.rows[o.next])
	to := before.seq
	if before.flags&flagFiller != 0 {
		to = max(to, uint64(before.ts))
	}
	if (place{before.gen, to}).compare(at) < 0 && at.compare(place{after.gen, after.seq}) < 0 && before.gen == after.gen {
		r.flags |= flagConflictMissing
	}
}

// dropTwin passes over the same record in another copy, where both have it out
// of order at the same place.
func (a *Auditor) dropTwin(r *row, at place, o *copyOf) {
	if o.next >= len(o.rows) {
		return
	}
	other := a.rows.at(o.rows[o.next])
	if (place{other.gen, other.seq}) != at || other.flags&(flagHidden|flagFiller) != 0 || other.record != r.record {
		return
	}
	if other.ts != r.ts {
		r.flags |= flagConflictTime
	}
	a.advance(o)
}

// retrack follows one row of the merged order.
func (a *Auditor) retrack(rm *room, r, before *row) {
	if r.flags&flagHidden != 0 {
		rm.track.unfilled, rm.track.unfilledSeq = r.order+1, r.seq
		return
	}
	if r.flags&flagFiller != 0 {
		to := uint64(r.ts)
		if to < r.seq {
			return // it fills nothing
		}
		if r.seq > rm.track.last || !rm.track.seen {
			if from, to, _, _ := rm.track.seqRules(r.gen, r.seq, protocol.RecordID{}, 0, r.order, true); from|to != 0 {
				a.addHole(rm, from, to)
			}
		}
		rm.track.top = max(rm.track.top, to)
		return
	}
	fills := r.class == verify.Authentic || r.class == verify.Repaired
	from, to, disorder, conflict := rm.track.seqRules(r.gen, r.seq, r.record, r.ts, r.order, fills)
	if from|to != 0 {
		a.addHole(rm, from, to)
	}
	r.flags &^= flagDisorder
	if disorder {
		r.flags |= flagDisorder
	}
	r.flags |= conflictFlags(conflict)
	if conflict != 0 && before != nil && before.order == rm.track.beforeOrder {
		// Of two that contradict each other either may be the false one.
		before.flags |= conflictFlags(conflict)
		if rm.conflict == 0 {
			rm.conflict = before.order + 1
		}
	}
	if r.flags&flagAnyConflict != 0 && rm.conflict == 0 {
		rm.conflict = r.order + 1
	}
	if r.flags&flagImpossible != 0 && rm.impossible == 0 {
		rm.impossible = r.order + 1
	}
}
