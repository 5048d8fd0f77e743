package fold

import (
	"math"

	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/verify"
)

// statuses is a set of protocol.Status, one bit each.
type statuses uint8

func (s statuses) has(x protocol.Status) bool { return s&(1<<x) != 0 }

func (s *statuses) add(x protocol.Status) { *s |= 1 << x }

// missingRow gives the statuses that up to n missing rows of the parties lead
// to, standing at a time between from and to (Unix ms).
func missingRow(s statuses, n uint64, refundAfterMs, from, to int64) statuses {
	for range min(n, 3) {
		next := s
		if s.has(protocol.Accepted) {
			next.add(protocol.Cancelled)
			if from < refundAfterMs {
				next.add(protocol.Locked)
			}
		}
		if s.has(protocol.Locked) {
			if from < refundAfterMs {
				next.add(protocol.Claimed)
			}
			if to >= refundAfterMs {
				next.add(protocol.Refunded)
			}
		}
		s = next
	}
	return s
}

// possible lists the statuses other than the contract's own that missing rows
// could lead to, in the order of the protocol: the rows in sight are folded on
// every status that a row in a hole could have led to.
func (j *judging) possible(src historyOf) []protocol.Status {
	a, c := j.a, j.c
	s := statuses(1 << protocol.Accepted)
	prev := j.ac.ts
	if j.rm == nil || src == boardRoom {
		s = missingRow(s, math.MaxUint64, c.RefundAfterMs, prev, math.MaxInt64)
		if src == boardRoom {
			s.add(c.Status)
		}
		return j.others(s)
	}
	t := &j.rm.track
	h := j.rm.holeHead
	hidden := startsAfterFirst(t) // a row of the parties may stand before
	if startsAfterFirst(t) {
		first := int64(math.MaxInt64)
		if j.rm.head != 0 {
			first = a.rows.at(j.rm.head).ts
		}
		s = missingRow(s, t.first-1, c.RefundAfterMs, prev, first)
	}
	for k := range j.w.steps {
		st := &j.w.steps[k]
		if st.row == nil || k <= j.w.acceptIdx {
			continue
		}
		for h != 0 && a.holes.at(h).order <= st.order {
			g := a.holes.at(h)
			s = missingRow(s, g.to-g.from+1, c.RefundAfterMs, prev, st.ts)
			h = g.next
			hidden = true
		}
		s = j.applyTo(s, st, hidden)
		prev = st.ts
	}
	for ; h != 0; h = a.holes.at(h).next {
		g := a.holes.at(h)
		s = missingRow(s, g.to-g.from+1, c.RefundAfterMs, prev, math.MaxInt64)
	}
	if t.unfilled != 0 && t.unfilledSeq > t.top {
		n := uint64(math.MaxUint64)
		if t.unfilledSeq != math.MaxUint64 {
			n = t.unfilledSeq - t.top
		}
		s = missingRow(s, n, c.RefundAfterMs, prev, math.MaxInt64)
	}
	if j.rm.headMissing() {
		s = missingRow(s, j.rm.headSeq-t.top, c.RefundAfterMs, prev, math.MaxInt64)
	}
	if j.rm.source != 0 && a.cuts[j.rm.source-1] || j.rm.manySource && len(a.cuts) > 0 {
		s = missingRow(s, math.MaxUint64, c.RefundAfterMs, prev, math.MaxInt64)
	}
	return j.others(s)
}

func (j *judging) others(s statuses) []protocol.Status {
	list := j.c.Possible[:0]
	for x := protocol.Proposed; x <= protocol.Cancelled; x++ {
		if s.has(x) && x != j.c.Status {
			list = append(list, x)
		}
	}
	return list
}

// applyTo folds one row in sight on every status of the set. A row that does
// not count as it stands, but could, keeps both answers.
func (j *judging) applyTo(s statuses, st *walked, hidden bool) statuses {
	a, r := j.a, st.row
	repaired := r.class == verify.Repaired && !a.opts.Rules.RepairNonces
	if r.typ <= protocol.TypeAccept || r.flags&flagHidden != 0 ||
		!repaired && (!a.foldable(r) || r.reason != protocol.ReasonNone) {
		return s
	}
	f := a.rowFrame(r)
	var out statuses
	for x := protocol.Proposed; x <= protocol.Cancelled; x++ {
		if !s.has(x) {
			continue
		}
		try := j.w.state
		try.Status = x
		a.opts.Rules.step(&try, Event{Frame: f, AtMs: r.ts})
		out.add(try.Status)
		if hidden || !j.w.state.hasLock() {
			// A lock that is missing may have named any ref.
			try = j.w.state
			try.Status = x
			switch f := f.(type) {
			case *protocol.Reveal:
				try.RailRef = f.Ref
			case *protocol.Refund:
				try.RailRef = f.Ref
			}
			a.opts.Rules.step(&try, Event{Frame: f, AtMs: r.ts})
			out.add(try.Status)
		}
		if repaired {
			out.add(x)
		}
	}
	return out
}

func (s *State) hasLock() bool { return s.Rail != "" }
