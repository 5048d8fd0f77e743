package fold

import (
	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/verify"
)

// BoardWatch works out, row by row, what the board's rows say of each other, as
// a store that keeps excerpts does.
type BoardWatch struct {
	opts   Options
	t      tracker
	w      NonceWindow
	seen   map[protocol.RecordID]bool
	order  uint64
	before *Row
}

func NewBoardWatch(o Options) *BoardWatch {
	return &BoardWatch{opts: o, seen: map[protocol.RecordID]bool{}}
}

// See takes the next row, and marks it and the one before where they contradict
// each other.
func (b *BoardWatch) See(r *Row) (f BoardFacts) {
	if r.Hidden {
		return f
	}
	b.order++
	signed := r.Verify.Class == verify.Authentic || r.Verify.Class == verify.Repaired
	f.Replay = signed && b.seen[r.ID]
	b.seen[r.ID] = b.seen[r.ID] || signed
	_, _, disorder, conflict := b.t.seqRules(r.Record.Generation, r.Record.Seq, r.ID, r.Record.TsMs, b.order,
		signed || r.Verify.Class == verify.Unsigned && !r.IsDID)
	if conflict != 0 {
		b.before.Conflict |= conflict
		if r.Conflict == 0 {
			r.Conflict = conflict
		}
	}
	if counts := (&Auditor{opts: b.opts}).counts(r); !counts || f.Replay || disorder {
		b.w.Skip(r.Size)
	} else {
		f.NonceFell = b.w.Add(prefix(r.Key[:]), nonceValue(r.Record.Nonce), r.Size)
	}
	f.Holes = uint32(b.t.holes)
	b.before = r
	return f
}

// Malformed notes a row of the board that could not be used.
func (b *BoardWatch) Malformed() { b.t.unfilled = 1 }

func (b *BoardWatch) First() uint64  { return b.t.first }
func (b *BoardWatch) Holes() uint32  { return uint32(b.t.holes) }
func (b *BoardWatch) Unfilled() bool { return b.t.unfilled != 0 }

// RoomTaken reports whether an orphan does not speak for its deal room.
func (a *Auditor) RoomTaken(id protocol.ID) bool {
	i := a.findAccept(&id)
	return i != 0 && !a.ownsRoom(a.accepts.at(i))
}

// Siblings gives the other accepts with the contract's point, and the row of the
// board, from 0, that listed each; see Excerpt.Sibling.
func (a *Auditor) Siblings(id protocol.ID) map[protocol.ID]int {
	i := a.findAccept(&id)
	if i == 0 || a.accepts.at(i).statement.Kind() != protocol.LockPoint {
		return nil
	}
	list := map[protocol.ID]int{}
	ac := a.accepts.at(i)
	for k := uint32(1); k <= a.accepts.len(); k++ {
		x := a.accepts.at(k)
		if x.statement != ac.statement || x.id == id {
			continue
		}
		at := a.exposedBy[k]
		if x.offer != 0 && at > x.order+1 && at < ac.order+1 {
			continue
		}
		if _, ok := list[x.id]; !ok {
			list[x.id] = int(x.order) - 1
		}
	}
	return list
}
