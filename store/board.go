package store

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// venue is what the store keeps in memory of one message board.
type venue struct {
	no       uint8
	alias    string
	clock    int64 // the greatest time of a row that counts, Unix ms
	hasClock bool
	heard    int64 // how far the clock has come by other means, Unix ms; 0: nothing was heard
	settings Settings
	funnel   Funnel
	coverage [len(coverageCodes)]int64 // by code: how often it happened
	lost     int64                     // rows

	// The board: its places in order of generation and seq.
	any      bool
	first    place // the first row in sight
	last     place // the last one
	unfilled bool  // what stands last is not held
	loaded   bool  // a reader has read the ranges
	ranges   []span
	lacks    []lack
	widest   uint64 // the longest lack
}

// span is a run of filled seqs of the board.
type span struct{ gen, from, to uint64 }

// lack is a run of seqs that one source passed over.
type lack struct {
	gen, from, to uint64
	source        uint32
}

// Funnel counts what became of a venue's offers.
type Funnel struct {
	Offers    int64
	Bound     int64    // offers with a valid accept
	Contracts int64    // accepts from which a contract id derives, and those whose offer is not in sight
	ByStatus  [7]int64 // contracts by protocol.Status; none: the offer is not in sight
	Receipted int64    // contracts with a receipt that counts

	// Contracts by what was concluded of them, by the codes of the store and of
	// fold; 0 where the offer is not in sight.
	ByOutlook  [len(outlookCodes)]int64
	ByBinding  [3]int64
	ByEvidence [4]int64
	Chosen     int64
}

// count adds a contract's conclusions n times.
func (f *Funnel) count(b *Brief, n int64) {
	f.ByStatus[b.Status] += n
	f.Receipted += n * receipted(b)
	f.ByOutlook[b.Outlook] += n
	f.ByBinding[b.Binding] += n
	f.ByEvidence[b.Evidence] += n
	if b.Chosen {
		f.Chosen += n
	}
}

// counts are all that a funnel counts, in the order in which they are kept.
func (f *Funnel) counts() (list []*int64) {
	list = append(list, &f.Offers, &f.Bound, &f.Contracts, &f.Receipted, &f.Chosen)
	for _, by := range [...][]int64{f.ByStatus[:], f.ByOutlook[:], f.ByBinding[:], f.ByEvidence[:]} {
		for i := range by {
			list = append(list, &by[i])
		}
	}
	return list
}

func (v *venue) append(dst []byte) []byte {
	dst = appendBytes(dst, v.alias)
	dst = appendBool(dst, v.hasClock)
	for _, n := range [...]int64{v.clock, v.heard, v.settings.GraceMs, v.settings.WarnMs} {
		dst = binary.AppendVarint(dst, n)
	}
	for _, n := range v.funnel.counts() {
		dst = binary.AppendVarint(dst, *n)
	}
	dst = binary.AppendVarint(dst, v.lost)
	for _, n := range v.coverage[1:] {
		dst = binary.AppendVarint(dst, n)
	}
	dst = appendBool(appendBool(dst, v.any), v.unfilled)
	return appendPlace(appendPlace(dst, v.first), v.last)
}

func readVenue(no uint8, b []byte) (*venue, error) {
	d := dec{b: b}
	v := &venue{no: no, alias: d.string(), hasClock: d.byte() != 0, clock: d.int()}
	v.heard, v.settings.GraceMs, v.settings.WarnMs = d.int(), d.int(), d.int()
	for _, n := range v.funnel.counts() {
		*n = d.int()
	}
	v.lost = d.int()
	for i := range v.coverage[1:] {
		v.coverage[i+1] = d.int()
	}
	v.any, v.unfilled = d.byte() != 0, d.byte() != 0
	v.first, v.last = d.place(), d.place()
	return v, d.err
}

// find returns the index of the first range that ends at or after the seq.
func (v *venue) find(gen, seq uint64) int {
	i, _ := slices.BinarySearchFunc(v.ranges, span{gen: gen, from: seq}, func(s, t span) int {
		return cmp.Or(cmp.Compare(s.gen, t.gen), cmp.Compare(s.to, t.from))
	})
	return i
}

// fill notes that a seq of the board is held. It returns the index of the range
// that holds it now, and whether anything changed; joined tells that the range
// now reaches what were two, so that a hole is gone.
func (v *venue) fill(gen, seq uint64) (at int, changed, joined bool) {
	i := v.find(gen, seq)
	if i < len(v.ranges) && v.ranges[i].gen == gen && v.ranges[i].from <= seq {
		return i, false, false
	}
	before := i > 0 && v.ranges[i-1].gen == gen && v.ranges[i-1].to+1 == seq
	behind := i < len(v.ranges) && v.ranges[i].gen == gen && v.ranges[i].from == seq+1
	switch {
	case before && behind:
		v.ranges[i-1].to = v.ranges[i].to
		v.ranges = slices.Delete(v.ranges, i, i+1)
		return i - 1, true, true
	case before:
		v.ranges[i-1].to = seq
		return i - 1, true, false
	case behind:
		v.ranges[i].from = seq
		return i, true, false
	}
	v.ranges = slices.Insert(v.ranges, i, span{gen, seq, seq})
	return i, true, false
}

// hole reports whether rows are missing between range i-1 and range i.
func (v *venue) hole(i int) bool {
	a, b := v.ranges[i-1], v.ranges[i]
	switch {
	case a.gen == b.gen:
		return true
	case b.from <= a.to: // an old venue counts from 1 again
		return b.from > 1
	}
	return b.from > a.to+1
}

// holesBefore counts the holes of the board before a filled place. Only its
// being zero, and differences, mean anything.
func (v *venue) holesBefore(gen, seq uint64) uint32 {
	n := uint32(0)
	if len(v.ranges) > 0 && v.ranges[0].gen == v.first.gen && v.first.seq < v.ranges[0].from {
		n++ // the first rows in sight fill nothing
	}
	at := min(v.find(gen, seq), len(v.ranges)-1)
	for i := at; i > 0; i-- {
		if v.ranges[i-1].gen == v.ranges[i].gen {
			// Within one generation every border is a hole: no need to look.
			first, _ := slices.BinarySearchFunc(v.ranges[:i], v.ranges[i].gen, func(s span, g uint64) int { return cmp.Compare(s.gen, g) })
			n += uint32(i - first)
			i = first
			if i == 0 {
				break
			}
		}
		if v.hole(i) {
			n++
		}
	}
	return n
}

// lacking reports whether a source other than the given one passed over the
// place.
func (v *venue) lacking(gen, seq uint64, source uint32) bool {
	i, _ := slices.BinarySearchFunc(v.lacks, lack{gen: gen, from: seq}, compareLacks)
	for ; i < len(v.lacks) && v.lacks[i].gen == gen && v.lacks[i].from == seq; i++ {
		if v.lacks[i].source != source {
			return true
		}
	}
	for i--; i >= 0; i-- {
		l := &v.lacks[i]
		if l.gen != gen || l.from+v.widest < seq {
			return false
		}
		if i < len(v.lacks) && l.to >= seq && l.from <= seq && l.source != source {
			return true
		}
	}
	return false
}

func compareLacks(a, b lack) int {
	return cmp.Or(cmp.Compare(a.gen, b.gen), cmp.Compare(a.from, b.from), cmp.Compare(a.source, b.source))
}

func (v *venue) addLack(l lack) {
	i, found := slices.BinarySearchFunc(v.lacks, l, compareLacks)
	if !found {
		v.lacks = slices.Insert(v.lacks, i, l)
		v.widest = max(v.widest, l.to-l.from+1)
	}
}

// nonceWindow is how far back the venue compares a key's nonces, in bytes of
// rows: see fold.NonceWindow.
const nonceWindow = 1 << 20

// nonceValue reads a canonical decimal nonce; what does not fit is the greatest
// value, so that two such nonces never seem to fall.
func nonceValue(n []byte) uint64 {
	var v uint64
	for _, c := range n {
		if c < '0' || c > '9' || v > (^uint64(0)-uint64(c-'0'))/10 {
			return ^uint64(0)
		}
		v = v*10 + uint64(c-'0')
	}
	return v
}
