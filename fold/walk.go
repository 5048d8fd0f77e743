package fold

import (
	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/verify"
)

// walked is one step of a contract's history as the machine saw it.
type walked struct {
	row     *row // nil for the offer and the accept
	order   uint64
	ts      int64
	typ     protocol.FrameType
	out     Outcome
	ignored bool
	cascade int32 // index+1 of the refused step that this one follows from
}

// counted reports whether the step is a frame that counted.
func (s *walked) counted() bool { return s.out.OK && !s.ignored }

// transition reports whether the step moved the status.
func (s *walked) transition() bool {
	return s.counted() && s.typ != protocol.TypeReceipt && s.typ != protocol.TypeHeartbeat
}

// walker folds one contract after another without allocating.
type walker struct {
	state     State
	offer     protocol.Offer // without nonce and job
	steps     []walked
	accepted  bool // the accept counted
	acceptIdx int
	lockRoot  int32 // index+1 of the refusal to which later ones go back
	endRoot   int32
	omitted   int // rows that were not kept
	offerer   uint32
	acceptor  uint32
}

// from which history a contract is folded
type historyOf uint8

const (
	dealRoom historyOf = iota
	boardRoom
)

// walk folds contract i: its offer, its accept, then the rows of its deal room
// or, for the shadow, the board's frames that name it. The steps stand in
// w.steps until the next walk.
func (a *Auditor) walk(w *walker, i uint32, src historyOf, reference bool) {
	a.walkOffer(w, i, a.accepts.at(i).offer, src, reference)
}

// walkOffer is walk with the offer named.
func (a *Auditor) walkOffer(w *walker, i, offer uint32, src historyOf, reference bool) {
	ac := a.accepts.at(i)
	o := a.offers.at(offer)
	*w = walker{steps: w.steps[:0], offer: w.offer, offerer: o.from, acceptor: ac.from}
	a.unpackOffer(&w.offer, a.arena.get(o.body), o.id, a.did(o.from), o.ts, false)
	w.state = State{Status: protocol.Proposed, Offer: &w.offer}
	w.steps = append(w.steps, walked{order: o.order, ts: o.ts, typ: protocol.TypeOffer, out: okOutcome})
	tooLate := ac.flags&flagTooLate != 0 && !reference
	if tooLate {
		c := a.rows.at(a.closings[ac.offer].cancel)
		w.state.Status = protocol.Cancelled
		w.steps = append(w.steps, walked{row: c, order: c.order, ts: c.ts, typ: protocol.TypeCancel, out: okOutcome})
	}
	w.acceptIdx = len(w.steps)
	out := guarded(okOutcome, o.margin(w.state.Offer, ac))
	switch {
	case tooLate:
		out = refuse(protocol.WrongStatus, "accept in status cancelled")
	case ac.flags&flagLate != 0:
		out.OK, out.Reason, out.Detail = false, protocol.OfferExpired, "the offer has expired"
	case a.opts.Rules.FirstAccept && o.bound != i && o.bound != 0:
		out = refuse(protocol.WrongStatus, "accept in status accepted")
	default:
		w.accepted = true
	}
	w.state.bind(a.did(ac.from), a.acceptKey(i, ac), ac.statement, ac.id)
	if w.accepted {
		w.state.Status = protocol.Accepted
	}
	w.steps = append(w.steps, walked{order: ac.order, ts: ac.ts, typ: protocol.TypeAccept, out: out})
	if tooLate {
		if receipt := a.closings[ac.offer].receipt; receipt != 0 {
			r := a.rows.at(receipt)
			w.steps = append(w.steps, walked{row: r, order: r.order, ts: r.ts, typ: protocol.TypeReceipt, out: okOutcome})
		}
	}
	head := a.boardOf(ac).head
	if src == dealRoom {
		head = 0
		if ri, ok := a.roomByName[roomNameOf(ac.id)]; ok {
			head = a.rooms.at(ri).head
		}
	}
	rules := a.opts.Rules
	rules.Reference = rules.Reference || reference
	for ; head != 0; head = a.rows.at(head).next {
		r := a.rows.at(head)
		if r.flags&flagFiller != 0 {
			w.omitted += int(r.size)
			continue
		}
		if r.flags&flagHidden != 0 && !reference {
			continue
		}
		s := walked{row: r, order: r.order, ts: r.ts, typ: r.typ}
		a.judgeRow(w, &s, src, rules, reference)
		w.steps = append(w.steps, s)
	}
}

// acceptKey gives the payment key that an accept names.
func (a *Auditor) acceptKey(i uint32, ac *accept) protocol.Point {
	if ac.flags&flagKey == 0 {
		return protocol.Point{}
	}
	return a.acceptKeys[i]
}

// boardOf gives a contract's frames on the board.
func (a *Auditor) boardOf(ac *accept) onBoard {
	if ac.board == 0 {
		return onBoard{}
	}
	return *a.boards.at(ac.board)
}

func (o *offer) margin(f *protocol.Offer, ac *accept) int64 { return f.ExpiresMs - ac.ts }

// foldable reports whether a kept row's record counts.
func (a *Auditor) foldable(r *row) bool {
	return r.class == verify.Authentic || r.class == verify.Repaired && a.opts.Rules.RepairNonces
}

func (a *Auditor) judgeRow(w *walker, s *walked, src historyOf, rules Rules, reference bool) {
	r := s.row
	reason := r.reason
	if reference && r.flags&flagRefOnly != 0 {
		reason = protocol.ReasonNone
	}
	switch {
	case !a.foldable(r):
		s.out.Reason = r.reason
		if r.class == verify.Repaired {
			s.out.Reason = protocol.SignatureInvalid
		}
	case reason.Ignored():
		s.out, s.ignored = Outcome{OK: true, Reason: reason}, true
		return
	case reason != protocol.ReasonNone:
		s.out.Reason = reason
	case src == dealRoom && (!w.accepted || r.typ == protocol.TypeOffer || r.typ == protocol.TypeAccept):
		s.out = refuse(protocol.WrongRoom, r.typ.String()+" must be posted in "+protocol.BoardRoom)
		if !w.accepted && r.typ != protocol.TypeOffer && r.typ != protocol.TypeAccept {
			s.cascade = int32(w.acceptIdx) + 1
		}
		return
	case r.flags&flagReplay != 0 && !rules.Reference:
		// SPEC §4: a replay moves nothing, also where the frame would fit by now.
		try := w.state
		s.out = rules.step(&try, Event{Frame: a.rowFrame(r), AtMs: r.ts})
		if s.out.OK {
			s.out = refuse(protocol.WrongStatus, "a replay: the same record stands earlier")
			return
		}
	default:
		s.out = rules.step(&w.state, Event{Frame: a.rowFrame(r), AtMs: r.ts})
	}
	if !s.out.OK && (r.from == w.offerer || r.from == w.acceptor) {
		w.trace(s)
	}
}

// trace finds the root of a refusal: a later frame that only fails because an
// earlier one was refused or is missing points at that one.
func (w *walker) trace(s *walked) {
	here := int32(len(w.steps)) + 1
	reason, st := s.out.Reason, w.state.Status
	switch s.typ {
	case protocol.TypeLock:
		if st == protocol.Accepted {
			w.lockRoot = here
		}
	case protocol.TypeReveal, protocol.TypeRefund:
		if reason == protocol.WrongStatus && st == protocol.Accepted {
			w.missingLock(s, here)
		} else if st == protocol.Locked {
			w.endRoot = here
		}
	case protocol.TypeReceipt:
		if reason != protocol.NotTerminal {
			return
		}
		if st == protocol.Accepted {
			w.missingLock(s, here)
		} else if w.endRoot != 0 {
			s.cascade = w.endRoot
		}
	}
}

func (w *walker) missingLock(s *walked, here int32) {
	if w.lockRoot != 0 {
		s.cascade = w.lockRoot
		return
	}
	w.lockRoot = here
	s.out.Detail += ": no lock stands before it"
}

// rowFrame unpacks a kept row's frame; it is valid until the next call.
func (a *Auditor) rowFrame(r *row) protocol.Frame {
	u := unpacker{a.arena.get(r.body)}
	a.skipNotes(r, &u)
	return a.scratch.unpackFrame(&u, r.typ, a.did(r.from))
}

// notes are what a kept row's body holds before its frame.
type notes struct {
	nick, detail, text string
}

func (a *Auditor) rowNotes(r *row) (n notes) {
	u := unpacker{a.arena.get(r.body)}
	if r.flags&flagNick != 0 {
		n.nick = u.str()
	}
	n.detail = u.str()
	if a.opts.KeepText {
		n.text = u.str()
	}
	return n
}

func (a *Auditor) skipNotes(r *row, u *unpacker) {
	if r.flags&flagNick != 0 {
		u.take(int(u.uint()))
	}
	u.take(int(u.uint()))
	if a.opts.KeepText {
		u.take(int(u.uint()))
	}
}
