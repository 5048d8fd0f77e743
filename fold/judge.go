package fold

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/verify"
)

// nonceMark is a signer's greatest nonce so far in a room, and where it stood.
type nonceMark struct {
	top     uint64
	gen     uint64
	pos     uint64 // in bytes of rows
	counted bool   // the row was a counted step
}

// judging gathers what is said of one contract while it is built.
type judging struct {
	a        *Auditor
	c        *Contract
	h        *Holder
	i        uint32
	ac       *accept
	o        *offer // nil where the offer is not in sight
	rm       *room  // nil where the deal room is not in sight
	w        *walker
	src      historyOf
	end      uint64 // order of the terminal step, MaxUint64 where there is none
	worst    EvidenceAxis
	nonParty int // rows of non-parties among the steps so far
}

func (j *judging) lower(e EvidenceAxis) { j.worst = max(j.worst, e) }

// find adds a finding about the contract. seq 0 with room "" means no row.
func (j *judging) find(code Code, sev Severity, order uint64, roomName string, seq *uint64, detail string) {
	if sev == SeverityNone {
		sev = codeTable[code].base
	}
	j.c.Findings = append(j.c.Findings, Finding{
		Code: code, Severity: sev, Contract: j.c.ID, Offer: j.c.Offer, Room: roomName, Seq: seq, Detail: detail, Order: order,
	})
}

// about is find for the accept's row.
func (j *judging) about(code Code, detail string) {
	j.find(code, SeverityNone, j.ac.order, protocol.BoardRoom, j.h.seq(j.ac.seq), detail)
}

// contract builds the full answer for one accept in h.
func (a *Auditor) contract(i uint32, h *Holder) *Contract {
	ac := a.accepts.at(i)
	name := roomNameOf(ac.id)
	c := h.reset()
	c.ID, c.Room = ac.id, name.String()
	j := &h.judging
	*j = judging{a: a, h: h, c: c, i: i, ac: ac, end: math.MaxUint64, worst: Complete, w: &a.walker}
	if ri, ok := a.roomByName[name]; ok && a.rooms.at(ri).inSight {
		j.rm = a.rooms.at(ri)
	}
	if ac.offer == 0 {
		c.Offer = a.orphans[i]
		j.orphan()
	} else {
		j.o = a.offers.at(ac.offer)
		c.Offer = j.o.id
		j.judge()
	}
	slices.SortStableFunc(c.Findings, func(x, y Finding) int { return cmp.Compare(x.Order, y.Order) })
	c.Evidence = j.worst
	switch {
	case c.Evidence == Conflicting:
		c.Verdict = Contradicted
	case c.Evidence == Incomplete:
		c.Verdict = Indeterminate
	case c.Status.Terminal():
		c.Verdict = Established
	default:
		c.Verdict = Open
	}
	if c.Verdict != Indeterminate {
		c.Possible = c.Possible[:0]
	}
	return c
}

// orphan is a contract of which only the accept is in sight.
func (j *judging) orphan() {
	a, c, ac := j.a, j.c, j.ac
	j.lower(Incomplete)
	c.Outlook = OutlookAt(protocol.StatusNone, 0, 0, nil)
	c.Possible = append(c.Possible,
		protocol.Proposed, protocol.Accepted, protocol.Locked, protocol.Claimed, protocol.Refunded, protocol.Cancelled)
	j.h.setAsOf(ac.seq, ac.ts)
	c.LeansOn = append(c.LeansOn, "missing-rows")
	j.about(OfferNotInSight, "the offer that this accept names is not among the rows")
	if offer := a.refAccepts[j.i]; offer != 0 {
		a.walkOffer(j.w, j.i, offer, dealRoom, true)
		j.find(RulesDiverge, SeverityNone, ac.order, "", nil,
			"no status under "+a.opts.Rules.String()+", whose decoding refuses the offer; "+j.w.state.Status.String()+" under the reference's rules")
	}
	root := ac.record
	c.Steps = append(c.Steps, Step{
		Room: protocol.BoardRoom, Generation: uint64(ac.gen), Seq: ac.seq, TsMs: ac.ts, Type: protocol.TypeAccept, From: a.did(ac.from),
		Reason: protocol.NoContract, Detail: "the offer is not in sight", Record: ac.record, Text: a.text(ac.order), HasText: a.opts.KeepText,
	})
	if j.rm == nil {
		j.about(DealRoomNotInSight, "the contract's deal room is not among the inputs")
		return
	}
	if !a.ownsRoom(ac) {
		return
	}
	for k := j.rm.head; k != 0; k = a.rows.at(k).next {
		r := a.rows.at(k)
		if r.flags&flagFiller != 0 {
			c.StepsOmitted += int(r.size)
			continue
		}
		if r.flags&flagHidden != 0 || j.omit(r) {
			continue
		}
		w := walked{row: r, order: r.order, ts: r.ts, typ: r.typ, out: Outcome{Reason: r.reason}}
		switch {
		case !a.foldable(r):
		case r.reason.Ignored():
			w.out.OK, w.ignored = true, true
		case r.reason == protocol.ReasonNone:
			w.out = refuse(protocol.NoContract, "no contract is open yet")
		}
		s := j.step(&w, dealRoom)
		if w.out.Reason == protocol.NoContract {
			s.CascadeOf = &root
		}
		c.Steps = append(c.Steps, s)
	}
	for _, f := range a.roomFindings(j.rm, c.ID, nil) {
		f.Offer = c.Offer
		c.Findings = append(c.Findings, f)
	}
}

func (j *judging) judge() {
	a, c, ac, w := j.a, j.c, j.ac, j.w
	c.Statement = ac.statement

	src := dealRoom
	if ac.board != 0 {
		a.walk(w, j.i, boardRoom, false)
		c.Shadow = w.state.Status
		c.ShadowSteps = j.steps(c.ShadowSteps, boardRoom)
		if a.boardDecides(j.i, ac) {
			src = boardRoom
		}
	}
	j.src = src
	diverged := j.referenceStatus(src)
	a.walk(w, j.i, src, false)
	st := &w.state
	c.Lock, c.Amount, c.Asset = st.Offer.Lock, st.Offer.Amount, st.Offer.Asset
	c.ClaimByMs, c.RefundAfterMs, c.ExpiresMs = st.Offer.ClaimByMs, st.Offer.RefundAfterMs, st.Offer.ExpiresMs
	c.Status, c.Payer, c.Payee, c.PayerKey = st.Status, st.Payer, st.Payee, st.PayerKey
	c.Rail, c.RailRef, c.Late = st.Rail, st.RailRef, st.Late
	if st.Rail != "" {
		c.Presig, c.Settlement = "absent", Unverified
		if st.Presig != nil {
			p := *st.Presig
			c.Presig, c.PreSignature = "present", &p
		}
		if noValue(st.Rail) {
			c.Settlement = NoValue
			j.about(NoValueRail, "rail "+Show(st.Rail)+" moves nothing of value")
		}
	}
	for k := range w.steps {
		if w.steps[k].transition() && c.Status.Terminal() {
			j.end = w.steps[k].order
		}
	}
	c.Steps = j.steps(c.Steps, src)
	j.receipts()
	j.binding()
	c.Outlook = OutlookAt(c.Status, c.ExpiresMs, c.RefundAfterMs, a.clock())
	j.asOf(src)
	j.rowEvidence()
	j.roomEvidence(src)
	j.boardEvidence(src)
	j.timeEvidence()
	j.conduct()
	if diverged != protocol.StatusNone && diverged != c.Status {
		j.find(RulesDiverge, SeverityNone, ac.order, "", nil,
			"status "+c.Status.String()+" under "+a.opts.Rules.String()+", "+diverged.String()+" under the reference's rules")
	}
	j.leansOn(src)
}

// referenceStatus folds the contract as the reference would where that can
// make a difference, else StatusNone.
func (j *judging) referenceStatus(src historyOf) protocol.Status {
	a := j.a
	if a.opts.Rules.Reference {
		return protocol.StatusNone
	}
	differs := j.ac.flags&flagTooLate != 0
	head := a.boardOf(j.ac).head
	if src == dealRoom {
		if head = 0; j.rm != nil {
			head = j.rm.head
		}
	}
	for k := head; k != 0 && !differs; k = a.rows.at(k).next {
		// The reference lets a replay count where it fits by now.
		differs = a.rows.at(k).flags&(flagRefOnly|flagHidden|flagReplay) != 0
	}
	if !differs {
		return protocol.StatusNone
	}
	a.walk(j.w, j.i, src, true)
	return j.w.state.Status
}

// omit reports whether a row of a non-party is beyond what steps show.
func (j *judging) omit(r *row) bool {
	party := r.from != 0 && (r.from == j.ac.from || j.o != nil && r.from == j.o.from)
	if party {
		return false
	}
	j.nonParty++
	if j.nonParty > StepLimit {
		j.c.StepsOmitted++
		return true
	}
	return false
}

// steps turns the walk's steps into the contract's.
func (j *judging) steps(list []Step, src historyOf) []Step {
	w := j.w
	j.nonParty, j.c.StepsOmitted = 0, 0
	list = slices.Grow(list, len(w.steps))
	for k := range w.steps {
		s := &w.steps[k]
		if s.row != nil && k > w.acceptIdx && j.omit(s.row) {
			continue
		}
		list = append(list, j.step(s, src))
	}
	j.c.StepsOmitted += w.omitted
	return list
}

func (j *judging) step(s *walked, src historyOf) Step {
	a := j.a
	st := Step{
		Type: s.typ, TsMs: s.ts, OK: s.out.OK, Ignored: s.ignored, Reason: s.out.Reason, Detail: s.out.Detail,
		HasText: a.opts.KeepText,
	}
	if s.out.Guarded {
		st.MarginMs = j.h.int(s.out.MarginMs)
	}
	if s.cascade != 0 {
		rec := j.record(&j.w.steps[s.cascade-1])
		st.CascadeOf = &rec
	}
	r := s.row
	if r == nil {
		st.Room = protocol.BoardRoom
		if s.typ == protocol.TypeOffer {
			st.Generation, st.Seq, st.From, st.Record, st.Text = uint64(j.o.gen), j.o.seq, a.did(j.o.from), j.o.record, a.text(j.o.order)
		} else {
			st.Generation, st.Seq, st.From, st.Record, st.Text = uint64(j.ac.gen), j.ac.seq, a.did(j.ac.from), j.ac.record, a.text(j.ac.order)
		}
		return st
	}
	if r.flags&flagRefOnly != 0 && !s.out.OK && s.out.Reason == r.reason {
		st.Type = protocol.TypeNone // the line does not decode under the rules in force
	}
	n := a.rowNotes(r)
	st.Room = j.c.Room
	if src == boardRoom || j.ac.flags&flagTooLate != 0 && j.closed(r) {
		st.Room = protocol.BoardRoom
	}
	st.Generation, st.Seq, st.Record = r.gen, r.seq, r.record
	st.From = a.did(r.from)
	if r.from == 0 {
		st.From = n.nick
	}
	st.Text = n.text
	if st.Detail == "" && !st.OK {
		st.Detail = n.detail
		if r.class == verify.Invalid && n.detail != "" {
			st.Detail = "the signature verifies in " + n.detail
		}
	}
	if a.foldable(r) && r.typ > protocol.TypeAccept && (r.reason == protocol.ReasonNone || r.flags&flagRefOnly != 0 && s.out.OK) {
		switch f := a.rowFrame(r).(type) {
		case *protocol.Lock:
			st.Rail, st.Ref = f.Rail, f.Ref
		case *protocol.Reveal:
			secret := f.Secret
			st.Ref, st.Secret = f.Ref, &secret
		case *protocol.Refund:
			st.Ref = f.Ref
		case *protocol.Receipt:
			st.Rail, st.Ref, st.Outcome = f.Rail, f.Ref, f.Outcome
		}
	}
	return st
}

// closed reports whether a row is one of those that closed the offer on the
// board.
func (j *judging) closed(r *row) bool {
	c := j.a.closings[j.ac.offer]
	return c.cancel != 0 && r == j.a.rows.at(c.cancel) || c.receipt != 0 && r == j.a.rows.at(c.receipt)
}

func (j *judging) record(s *walked) protocol.RecordID {
	switch {
	case s.row != nil:
		return s.row.record
	case s.typ == protocol.TypeOffer:
		return j.o.record
	}
	return j.ac.record
}

func (j *judging) receipts() {
	for k := range j.c.Steps {
		s := &j.c.Steps[k]
		if s.Type == protocol.TypeReceipt && s.OK {
			j.c.Receipts = append(j.c.Receipts, Receipt{
				Room: s.Room, Seq: s.Seq, TsMs: s.TsMs, From: s.From, Outcome: s.Outcome, Rail: s.Rail, Ref: s.Ref, Record: s.Record,
			})
		}
	}
}

func (j *judging) binding() {
	c, ac, o := j.c, j.ac, j.o
	if ac.flags&(flagLate|flagTooLate) != 0 {
		return
	}
	c.Binding = Bound
	if o.bound != j.i {
		c.Binding, c.BoundTo = Superseded, j.a.accepts.at(o.bound).id
		j.about(SupersededAccept, "an earlier accept of the offer was valid: "+c.BoundTo.String()+" is bound")
	}
	c.Chosen = ac.result.locked && o.locks == 1
	if c.Binding == Superseded && ac.result.locked {
		sev, detail := Notice, "a lock counts in the deal room of a superseded accept"
		if n := j.payerLocks(); n > 1 {
			sev, detail = Anomaly, fmt.Sprintf("one payer has counted locks on %d contracts of one offer", n)
		}
		seq := ac.seq
		j.find(LockOnSuperseded, sev, ac.order, protocol.BoardRoom, &seq, detail)
	}
	if ac.flags&flagLapsedAtBirth != 0 {
		j.about(LapsedAtBirth, "accepted when the refund window was open already: it can never be locked")
	}
	if c.Payer == j.a.did(ac.from) {
		j.about(PayerMinted, "the payer accepted, so the statement came from the payer")
	}
}

// payerLocks counts the offer's contracts with a counted lock by this payer.
func (j *judging) payerLocks() int {
	if j.a.told != nil {
		return j.a.told.PayerLocks
	}
	payer := j.ac.from
	if j.c.Payer != j.a.did(payer) {
		payer = j.o.from
	}
	return int(j.a.payerLocks[payerLock{j.ac.offer, payer}])
}

func (j *judging) asOf(src historyOf) {
	j.h.setAsOf(j.ac.seq, j.ac.ts)
	if src == dealRoom {
		if j.rm != nil && j.rm.track.seen {
			j.h.setAsOf(j.rm.track.last, j.rm.track.lastTs)
		}
		return
	}
	if last := j.a.boardOf(j.ac).tail; last != 0 {
		r := j.a.rows.at(last)
		j.h.setAsOf(r.seq, r.ts)
	}
}

// rowEvidence looks at the rows on the board: the offer's, the accept's, and
// the cancel's where one closed the offer before the accept.
func (j *judging) rowEvidence() {
	type boardRow struct {
		flags flag
		order uint64
		seq   uint64
		what  string
	}
	var room [3]boardRow
	rows := append(room[:0], boardRow{j.o.flags, j.o.order, j.o.seq, "offer"}, boardRow{j.ac.flags, j.ac.order, j.ac.seq, "accept"})
	if j.ac.flags&flagTooLate != 0 {
		c := j.a.rows.at(j.a.closings[j.ac.offer].cancel)
		rows = append(rows, boardRow{c.flags, c.order, c.seq, "cancel"})
	}
	if j.ac.flags&flagLost != 0 {
		j.lower(Incomplete)
		j.c.Possible = append(j.c.Possible, protocol.Accepted, protocol.Locked, protocol.Claimed, protocol.Refunded, protocol.Cancelled)
		j.c.Possible = slices.DeleteFunc(j.c.Possible, func(s protocol.Status) bool { return s == j.c.Status })
	}
	for _, r := range rows {
		if r.flags&(flagAnyConflict|flagNonceOrder|flagNotStrict|flagNoncanonical) == 0 {
			continue
		}
		seq := r.seq
		if r.flags&flagAnyConflict != 0 {
			j.lower(Conflicting)
			j.find(ConflictingMetadata, SeverityNone, r.order, protocol.BoardRoom, &seq, "copies of the "+r.what+"'s row contradict each other")
		}
		if r.flags&flagNonceOrder != 0 {
			j.lower(Conflicting)
			j.find(NonceOrder, Anomaly, r.order, protocol.BoardRoom, &seq, "the sender's nonce fell while seq rose")
		}
		if r.flags&flagNotStrict != 0 && (j.ac.result.locked || j.a.opts.Exact) {
			if j.ac.result.locked {
				j.lower(Conflicting)
			}
			j.find(SignatureNotStrict, SeverityNone, r.order, protocol.BoardRoom, &seq, notStrictDetail)
		}
		if r.flags&flagNoncanonical != 0 && r.what == "accept" { // the others are listed with the board's rows
			j.find(NoncanonicalLine, SeverityNone, r.order, protocol.BoardRoom, &seq, noncanonicalDetail)
		}
	}
}

const notStrictDetail = "the signature holds under ZIP-215 only: the venue itself would have refused the row"

// roomEvidence looks at the deal room: holes, order, rows that cannot be.
func (j *judging) roomEvidence(src historyOf) {
	a, c, rm, w := j.a, j.c, j.rm, j.w
	bears := w.accepted // else nothing in the deal room can change the status
	if !bears && a.beginningLost(j.ac) && j.actedInRoom() {
		// The accept in sight may be somebody's replay of one that was in time
		// and is not in sight: the parties went on as if it had been.
		j.lower(Incomplete)
		for s := protocol.Proposed; s <= protocol.Cancelled; s++ {
			if s != c.Status {
				c.Possible = append(c.Possible, s)
			}
		}
	}
	if rm == nil {
		if bears {
			j.lower(Incomplete)
			j.about(DealRoomNotInSight, "the contract's deal room is not among the inputs: its status is only a lower bound")
			c.Possible = j.possible(src)
		}
		return
	}
	for _, f := range a.roomFindings(rm, c.ID, j) {
		f.Offer = c.Offer
		c.Findings = append(c.Findings, f)
	}
	t := &rm.track
	end := j.end
	if src == boardRoom {
		// Any row of a party in the deal room would have taken the decision
		// away from the board.
		end = math.MaxUint64
	}
	before := func(at uint64) bool { return at != 0 && at-1 <= end }
	if bears {
		if before(rm.conflict) || before(rm.impossible) || before(t.disorder) {
			j.lower(Conflicting)
		}
		incomplete := false
		if rm.holeHead != 0 && a.holes.at(rm.holeHead).order <= end {
			incomplete = true
		}
		if startsAfterFirst(t) {
			incomplete = true
		}
		open := !c.Status.Terminal() || src == boardRoom
		if open && t.unfilled != 0 && t.unfilledSeq > t.top {
			incomplete = true
		}
		if open && rm.headMissing() {
			incomplete = true
		}
		if open && (a.cuts[rm.source-1] && rm.source != 0 || rm.manySource && len(a.cuts) > 0) {
			incomplete = true
		}
		if j.unfolded() {
			incomplete = true
		}
		if incomplete {
			j.lower(Incomplete)
			c.Possible = j.possible(src)
		}
	}
}

// actedInRoom reports whether a party has a row in the deal room, or could have:
// the room is not in sight whole.
func (j *judging) actedInRoom() bool {
	if j.rm == nil || j.rm.holeHead != 0 || startsAfterFirst(&j.rm.track) || j.rm.track.unfilled != 0 {
		return true
	}
	for k := j.rm.head; k != 0; k = j.a.rows.at(k).next {
		if r := j.a.rows.at(k); r.class == verify.Authentic && r.flags&flagHidden == 0 && j.byParty(r) {
			return true
		}
	}
	return false
}

// unfolded reports a party's row with a repaired nonce that does not count and
// could have changed the outcome.
func (j *judging) unfolded() bool {
	if j.a.opts.Rules.RepairNonces {
		return false
	}
	for k := range j.w.steps {
		s := &j.w.steps[k]
		if s.row != nil && s.row.class == verify.Repaired && s.order <= j.end && j.byParty(s.row) {
			return true
		}
	}
	return false
}

func (j *judging) byParty(r *row) bool {
	return r.from != 0 && (r.from == j.ac.from || r.from == j.o.from)
}

// headMissing reports whether the room has rows behind the last one in sight.
func (rm *room) headMissing() bool { return rm.headSeq > max(rm.track.top, rm.track.last) }

func startsAfterFirst(t *tracker) bool { return t.seen && t.first > 1 && t.firstGen < 2 }

// boardEvidence looks for a gap that could hide a cancel of the offer.
func (j *judging) boardEvidence(src historyOf) {
	a, c := j.a, j.c
	if a.opts.Rules.Reference {
		return // its fold does not see the board's cancels
	}
	missing := a.boardMisses(j.o.holes, j.o.order, j.ac.holes, j.ac.order)
	if at := a.closings[j.ac.offer].repaired; at != 0 && at < j.ac.order && !a.opts.Rules.RepairNonces {
		j.lower(Incomplete)
		if !slices.Contains(c.Possible, protocol.Cancelled) && c.Status != protocol.Cancelled {
			c.Possible = append(c.Possible, protocol.Cancelled)
			slices.Sort(c.Possible)
		}
	}
	if src == boardRoom {
		// On the board the rest of the history can have holes, too.
		for _, at := range a.boardHoles {
			missing = missing || at > j.o.order && at <= j.end
		}
		missing = missing || a.board.unfilled != 0 && !c.Status.Terminal()
	} else if missing && src == dealRoom {
		for k := j.w.acceptIdx + 1; k < len(j.w.steps); k++ {
			if s := &j.w.steps[k]; s.counted() && s.row.from == j.o.from {
				missing = false // the offerer went on: it had not cancelled
				break
			}
		}
	}
	if !missing || j.w.state.Status == protocol.Cancelled && j.ac.flags&flagTooLate != 0 {
		return
	}
	j.lower(Incomplete)
	if c.Status != protocol.Cancelled && !slices.Contains(c.Possible, protocol.Cancelled) {
		c.Possible = append(c.Possible, protocol.Cancelled)
		slices.Sort(c.Possible)
	}
	seq := j.ac.seq
	j.find(Gap, SeverityNone, j.ac.order, protocol.BoardRoom, &seq, "rows are missing on the board between offer and accept: they could hold a cancel")
}

// timeEvidence compares the times of the counted steps with each other and
// with the senders' own clocks.
func (j *judging) timeEvidence() {
	c, w := j.c, j.w
	var latest *walked
	for k := range w.steps {
		s := &w.steps[k]
		if !s.counted() {
			continue
		}
		if latest != nil && s.ts < latest.ts {
			fell := latest.ts - s.ts
			seq := j.seq(s)
			detail := "the time falls by " + strconv.FormatInt(fell, 10) + " ms between counted steps"
			for _, g := range []*walked{latest, s} {
				if g.out.Guarded && fell > g.out.MarginMs && s.order <= j.end {
					detail += ", more than a deadline's margin"
					j.lower(Incomplete)
					if flip := j.flipped(g); flip != protocol.StatusNone && flip != c.Status && !slices.Contains(c.Possible, flip) {
						c.Possible = append(c.Possible, flip)
						slices.Sort(c.Possible)
					}
					break
				}
			}
			j.find(TimeViolation, SeverityNone, s.order, j.room(s), &seq, detail)
		}
		if latest == nil || s.ts > latest.ts {
			latest = s
		}
	}
	j.uncorroborated()
}

// flipped is the status that the contract would have had if the step's
// deadline guard had said no.
func (j *judging) flipped(s *walked) protocol.Status {
	switch s.typ {
	case protocol.TypeAccept:
		return protocol.Proposed
	case protocol.TypeLock:
		return protocol.Accepted
	case protocol.TypeReveal, protocol.TypeRefund:
		return protocol.Locked
	}
	return protocol.StatusNone
}

func (j *judging) seq(s *walked) uint64 {
	switch {
	case s.row != nil:
		return s.row.seq
	case s.typ == protocol.TypeOffer:
		return j.o.seq
	}
	return j.ac.seq
}

func (j *judging) room(s *walked) string {
	if s.row == nil || j.src == boardRoom || j.ac.flags&flagTooLate != 0 && j.closed(s.row) {
		return protocol.BoardRoom
	}
	return j.c.Room
}

// plainClock is how far a sender's other rows may be from their nonces, read
// as Unix times, for the nonces to pass as that sender's clock: ms.
const plainClock = 10 * 60 * 1000

// uncorroborated reports rows that a deadline guard judged whose time is off their sender's own
// clock-like nonces by more than the deadline margin.
func (j *judging) uncorroborated() {
	w := j.w
	for k := range w.steps {
		s := &w.steps[k]
		if s.row == nil || !s.out.Guarded || s.row.flags&flagReplay != 0 {
			continue
		}
		margin := max(s.out.MarginMs, -s.out.MarginMs)
		off, ok := clockOffset(s.row)
		if !ok {
			continue
		}
		var others []int64
		for m := range w.steps {
			t := &w.steps[m]
			if m != k && t.row != nil && t.row.from == s.row.from && t.row.class == verify.Authentic && t.row.flags&flagReplay == 0 && t.row.record != s.row.record {
				if d, ok := clockOffset(t.row); ok {
					others = append(others, d)
				}
			}
		}
		if len(others) == 0 {
			continue
		}
		slices.Sort(others)
		usual := others[len(others)/2]
		if usual > plainClock || usual < -plainClock {
			continue
		}
		if d := off - usual; d > margin || -d > margin {
			seq := s.row.seq
			j.find(TimeUncorroborated, SeverityNone, s.order, j.room(s), &seq,
				fmt.Sprintf("the row's time is %d ms off its sender's own nonce clock, the deadline's margin is %d ms", d, margin))
		}
	}
}

// clockOffset is row time minus nonce, where the nonce looks like Unix time in
// ms, µs or ns of this century.
func clockOffset(r *row) (int64, bool) {
	n := r.nonce
	switch {
	case n >= 1e12 && n < 1e13:
	case n >= 1e15 && n < 1e16:
		n /= 1e3
	case n >= 1e18 && n < 1e19:
		n /= 1e6
	default:
		return 0, false
	}
	return r.ts - int64(n), true
}

// conduct reports what parties and strangers did.
func (j *judging) conduct() {
	a, c, ac := j.a, j.c, j.ac
	if c.Late {
		for k := range j.w.steps {
			if s := &j.w.steps[k]; s.typ == protocol.TypeReveal && s.counted() {
				seq := s.row.seq
				j.find(LateReveal, SeverityNone, s.order, j.room(s), &seq,
					"claimed "+strconv.FormatInt(s.ts-c.ClaimByMs, 10)+" ms after claimByMs")
			}
		}
	}
	if ac.board != 0 {
		first, b := ac.order, a.boardOf(ac)
		if b.head != 0 {
			first = a.rows.at(b.head).order
		}
		j.find(WrongRoom, SeverityNone, first, protocol.BoardRoom, nil,
			strconv.Itoa(int(b.rows))+" frames of this contract stand on the board, where they cannot count")
		for k := b.head; k != 0; k = a.rows.at(k).next {
			if r := a.rows.at(k); r.typ == protocol.TypeCancel && r.flags&flagReplay == 0 {
				seq := r.seq
				j.find(CancelNamesNoOffer, SeverityNone, r.order, protocol.BoardRoom, &seq, cancelsNothing)
			}
		}
	}
	for _, e := range a.elsewhereBy[ac.id] {
		j.find(WrongRoom, SeverityNone, ac.order, e.room, nil,
			strconv.Itoa(int(e.n))+" frames of this contract stand in "+e.room+", where they cannot count")
	}
	j.equivocation()
	if ac.flags&flagExposed != 0 && c.Status != protocol.Claimed {
		sev, detail := Notice, "a reveal in sight opens this contract's statement"
		switch {
		case j.siblingClaimed():
			detail += "; it claimed another contract with the same statement"
		case c.Status == protocol.Locked:
			sev = Anomaly
			detail += " while the contract is locked"
		}
		j.find(SecretExposed, sev, a.exposedBy[j.i]-1, "", nil, detail)
	}
	if ac.flags&flagSharedStatement != 0 {
		j.about(SharedKeyOrStatement, "another contract in sight has the same statement")
	}
	w := &j.w.state
	if !w.PayerKey.IsZero() && w.PayerKey == w.PayeeKey {
		j.about(SharedKeyOrStatement, "both sides name the same payment key")
	} else if a.told != nil && a.told.SharedKey || a.sharedKey(w.PayerKey) || a.sharedKey(w.PayeeKey) {
		j.about(SharedKeyOrStatement, "another contract in sight has the same payment key")
	}
}

type elsewhere struct {
	room string
	n    uint32
}

// sharedKey reports whether more than one contract names the payment key.
func (a *Auditor) sharedKey(k protocol.Point) bool {
	return !k.IsZero() && a.paymentKeys[k]&moreContracts != 0
}

// siblingClaimed reports whether another contract with this statement is
// claimed.
func (j *judging) siblingClaimed() bool {
	if j.a.told != nil {
		return j.a.told.SiblingClaimed
	}
	n := j.a.claimed[statementKey(j.ac.statement)]
	return n > 1 || n == 1 && j.ac.result.status != protocol.Claimed
}

// said is what one party's authenticated frames for a contract claim.
type said struct {
	lock, cancel, reveal, refund, receipt *row
	rail, ref                             string
	outcome                               protocol.Status
	receiptRail, receiptRef               string
	told                                  bool
}

// equivocation reports a signer whose own frames for this contract cannot both
// be true. A wrong and then a right secret, or a repeat, is none.
func (j *judging) equivocation() {
	var heads [2]uint32 // of the deal room's rows and of the board's
	if j.rm != nil {
		heads[0] = j.rm.head
	}
	heads[1] = j.a.boardOf(j.ac).head
	if heads == [2]uint32{} {
		return
	}
	var sides [2]said
	for n, head := range heads {
		onBoard := n == 1
		for k := head; k != 0; k = j.a.rows.at(k).next {
			r := j.a.rows.at(k)
			if r.reason != protocol.ReasonNone || !j.a.foldable(r) || !j.byParty(r) || r.flags&flagHidden != 0 || r.typ <= protocol.TypeAccept {
				continue
			}
			f := j.a.rowFrame(r)
			if c, ok := protocol.ContractOf(f); !ok || c != j.c.ID {
				continue
			}
			side := &sides[0]
			if r.from == j.ac.from {
				side = &sides[1]
			}
			if side.told {
				continue
			}
			if what := side.contradicts(f, r); what != "" {
				side.told = true
				seq := r.seq
				room := j.c.Room
				if onBoard {
					room = protocol.BoardRoom
				}
				j.find(Equivocation, SeverityNone, r.order, room, &seq, "one signer's frames cannot both be true: "+what)
			}
		}
	}
}

func (s *said) contradicts(f protocol.Frame, r *row) string {
	switch f := f.(type) {
	case *protocol.Lock:
		if s.lock != nil && (f.Ref != s.ref || !protocol.SameRail(f.Rail, s.rail)) {
			return "two locks with different rails or refs"
		}
		if s.cancel != nil {
			return "a cancel and a lock"
		}
		s.lock, s.rail, s.ref = r, f.Rail, f.Ref
	case *protocol.Cancel:
		switch {
		case s.reveal != nil:
			return "a reveal and a cancel"
		case s.lock != nil:
			return "a lock and a cancel"
		case s.refund != nil:
			return "a refund and a cancel"
		}
		s.cancel = r
	case *protocol.Reveal:
		if s.cancel != nil {
			return "a cancel and a reveal"
		}
		s.reveal = r
	case *protocol.Refund:
		if s.cancel != nil {
			return "a cancel and a refund"
		}
		s.refund = r
	case *protocol.Receipt:
		if s.receipt != nil {
			switch {
			case f.Outcome != s.outcome:
				return "two receipts with different outcomes"
			case f.Rail != "" && s.receiptRail != "" && !protocol.SameRail(f.Rail, s.receiptRail):
				return "two receipts with different rails"
			case f.Ref != "" && s.receiptRef != "" && f.Ref != s.receiptRef:
				return "two receipts with different refs"
			}
		}
		s.receipt, s.outcome = r, f.Outcome
		s.receiptRail, s.receiptRef = cmp.Or(f.Rail, s.receiptRail), cmp.Or(f.Ref, s.receiptRef)
	}
	return ""
}

// leansOn lists the unsigned facts that the verdict uses.
func (j *judging) leansOn(src historyOf) {
	c := j.c
	guardedStep, inRoom := false, 0
	for k := range j.w.steps {
		s := &j.w.steps[k]
		guardedStep = guardedStep || s.out.Guarded
		if s.row != nil && s.counted() {
			inRoom++
		}
	}
	if guardedStep {
		c.LeansOn = append(c.LeansOn, "ts")
	}
	if j.rm != nil {
		c.LeansOn = append(c.LeansOn, "seq")
	}
	if inRoom > 1 || c.Binding != BindingNone && j.o.flags&flagRaced != 0 {
		c.LeansOn = append(c.LeansOn, "row-order")
	}
	// A renumbered deletion cannot be seen: completeness is the venue's word.
	c.LeansOn = append(c.LeansOn, "missing-rows")
}
