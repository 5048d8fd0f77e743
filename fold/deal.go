package fold

import (
	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/verify"
)

// addDeal keeps one row of a deal room. The room is folded in Finish, when the
// board is known: the two may come in either order.
func (a *Auditor) addDeal(name roomName, r *Row, counts, replay bool) {
	rm := a.room(name)
	rm.inSight = true
	if rm.source == 0 {
		rm.source = r.Source + 1
	} else if rm.source != r.Source+1 {
		rm.manySource = true
	}
	flags := conflictFlags(r.Conflict)
	if r.Hidden {
		flags |= flagHidden
		rm.track.unfilled, rm.track.unfilledSeq = a.order+1, r.Record.Seq
	} else {
		fills := r.Verify.Class == verify.Authentic || r.Verify.Class == verify.Repaired
		from, to, disorder, conflict := rm.track.seqRules(r.Record.Generation, r.Record.Seq, r.ID, r.Record.TsMs, a.order, fills)
		if from|to != 0 {
			a.addHole(rm, from, to)
		}
		if fills && len(a.hazyEnd) > 0 {
			delete(a.hazyEnd, hazyKey{name, r.Source})
		}
		flags |= conflictFlags(conflict)
		if conflict != 0 && rm.tail != 0 {
			// Of two that contradict each other either may be the false one.
			if t := a.rows.at(rm.tail); t.order == rm.track.beforeOrder {
				t.flags |= conflictFlags(conflict)
				if rm.conflict == 0 {
					rm.conflict = t.order + 1
				}
			}
		}
		if disorder {
			flags |= flagDisorder
		}
		if _, bad := impossible(r, true); bad {
			flags |= flagImpossible
			if rm.impossible == 0 {
				rm.impossible = a.order + 1
			}
		}
	}
	if flags&flagAnyConflict != 0 && rm.conflict == 0 {
		rm.conflict = a.order + 1
	}
	if replay {
		flags |= flagReplay
	}
	if r.NotStrict {
		flags |= flagNotStrict
	}
	if r.Verify.Class == verify.Repaired {
		flags |= flagRepaired
	}
	if r.Line.Frame != nil && !r.Line.Canonical {
		flags |= flagNoncanonical
	}
	if counts && !r.Hidden && !replay {
		a.dealFrame(name, r)
	}
	if !a.mayBeParty(name, r) {
		if rm.kept >= StepLimit {
			a.limit("rows of non-parties in one deal room")
			a.fill(rm, r)
			return
		}
		rm.kept++
		flags |= flagNonParty
	}
	a.chain(rm, a.keepRow(r, flags))
}

// chain appends a kept row to its room.
func (a *Auditor) chain(rm *room, i uint32) {
	if rm.tail == 0 {
		rm.head = i
	} else {
		a.rows.at(rm.tail).next = i
	}
	rm.tail = i
}

// fill notes a row that is not kept: that it stood there, for the count of
// omitted steps and for comparing copies of the room.
func (a *Auditor) fill(rm *room, r *Row) {
	seq, gen := r.Record.Seq, r.Record.Generation
	fills := r.Verify.Class == verify.Authentic || r.Verify.Class == verify.Repaired
	if rm.tail != 0 {
		t := a.rows.at(rm.tail)
		if t.flags&flagFiller != 0 && t.source == r.Source && t.gen == gen && (!fills || uint64(t.ts)+1 == seq) {
			t.size++
			t.nonce += uint64(r.Size)
			if fills {
				t.ts = int64(seq)
			}
			return
		}
	}
	i, k := a.rows.add()
	*k = row{seq: seq, ts: int64(seq), gen: gen, order: a.order, source: r.Source, flags: flagFiller, size: 1, nonce: uint64(r.Size)}
	if !fills {
		k.ts-- // it fills nothing
	}
	a.chain(rm, i)
}

// dealFrame looks at a counted row's frame for what does not wait for Finish:
// a secret that it publishes, and a contract that lives elsewhere.
func (a *Auditor) dealFrame(name roomName, r *Row) {
	f := r.Line.Frame
	if f == nil || f.Sender() != string(r.Record.From) {
		return
	}
	c, ok := protocol.ContractOf(f)
	if !ok {
		return
	}
	if roomNameOf(c) != name || f.Type() == protocol.TypeAccept {
		a.misplaced(f, r.Record.Room)
	} else if rv, ok := f.(*protocol.Reveal); ok {
		a.exposed(rv)
	}
}

func roomNameOf(contract protocol.ID) (name roomName) {
	copy(name[:], contract[:])
	return name
}

// mayBeParty reports whether the row's sender is a party of a contract of the
// room, or whether that cannot be told yet.
func (a *Auditor) mayBeParty(name roomName, r *Row) bool {
	if !r.IsDID {
		return false
	}
	i := a.acceptIndex[prefix(name[:])]
	from := a.knownKey(r)
	known := i != 0
	for ; i != 0; i = a.accepts.at(i).chain {
		if a.isParty(a.accepts.at(i), from) {
			return true
		}
	}
	return !known
}

func (a *Auditor) addHole(rm *room, from, to uint64) {
	if rm.holeCount >= HoleLimit {
		h := a.holes.at(rm.holeTail)
		h.to = to
		a.limit("holes of one deal room")
		return
	}
	i, h := a.holes.add()
	*h = hole{from: from, to: to, order: a.order}
	if rm.holeTail == 0 {
		rm.holeHead = i
	} else {
		a.holes.at(rm.holeTail).next = i
	}
	rm.holeTail = i
	rm.holeCount++
}
