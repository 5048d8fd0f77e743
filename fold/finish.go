package fold

import (
	"cmp"
	"iter"
	"slices"

	"github.com/tclk-audit/tclk-audit/protocol"
)

const moreContracts = 1 << 31

// Finish ends the reading: call it once, after the last Add. It folds every
// contract, so that what contracts of one offer or one statement say of each
// other is known before any is reported.
func (a *Auditor) Finish() {
	if a.finished {
		return
	}
	a.finished = true
	if a.hasClock {
		a.sum.ClockMs = &a.clockMs
	}
	a.dropLateOffers()
	for _, e := range a.exposures {
		a.expose(e.named, e.secret, e.order)
	}
	a.exposures = nil
	a.mergeRooms()
	a.claimed, a.payerLocks = map[uint64]uint32{}, map[payerLock]uint32{}
	a.paymentKeys = map[protocol.Point]uint32{}
	for i := uint32(1); i <= a.accepts.len(); i++ {
		ac := a.accepts.at(i)
		if ac.flags&flagDropped != 0 {
			continue
		}
		a.sum.Contracts++
		if ac.offer == 0 {
			a.sum.ByStatus[protocol.StatusNone]++
			a.countOrphanRows(ac)
			continue
		}
		a.foldQuick(i, ac)
		a.sum.ByStatus[ac.result.status]++
	}
	a.finishRooms()
	a.countOffers()
	a.shareOut()
}

// shareOut fills in what contracts look up and would else fill in lazily, so
// that views can build them side by side.
func (a *Auditor) shareOut() {
	for i := uint32(1); i <= a.keyList.len(); i++ {
		a.did(i)
	}
	a.elsewhereBy = map[protocol.ID][]elsewhere{}
	for k, n := range a.elsewhere {
		a.elsewhereBy[k.contract] = append(a.elsewhereBy[k.contract], elsewhere{k.room, n})
	}
	for _, l := range a.elsewhereBy {
		slices.SortFunc(l, func(x, y elsewhere) int { return cmp.Compare(x.room, y.room) })
	}
}

// dropLateOffers takes those accepts from the list whose offer turned up after
// them: they opened nothing.
func (a *Auditor) dropLateOffers() {
	for i := uint32(1); i <= a.accepts.len(); i++ {
		ac := a.accepts.at(i)
		if ac.offer != 0 || ac.flags&flagDropped != 0 {
			continue
		}
		// Where the board's beginning is not in sight, the row in sight may be a
		// replay of the offer that the accept answered.
		if ref := a.orphans[i]; a.findOffer(&ref) != 0 && !a.beginningLost(ac) {
			a.dropOrphan(i)
			a.sum.Rejected[protocol.NoContract]++
		}
	}
}

func (a *Auditor) foldQuick(i uint32, ac *accept) {
	if a.boardOnly(ac) {
		a.quickBoard(i, ac)
		return
	}
	w := &a.walker
	a.walk(w, i, dealRoom, false)
	if !a.isRoomMate(ac) {
		for k := range w.steps {
			s := &w.steps[k]
			if s.row != nil && !s.out.OK && s.out.Reason >= protocol.SenderMismatch && s.row.reason == protocol.ReasonNone && s.row.flags&flagHidden == 0 {
				a.sum.Rejected[s.out.Reason]++
			} else if s.row != nil && s.row.reason == protocol.SenderMismatch {
				a.sum.Rejected[protocol.SenderMismatch]++
			}
		}
	}
	if a.boardDecides(i, ac) {
		a.walk(w, i, boardRoom, false)
	}
	for k := range w.steps {
		if w.steps[k].typ == protocol.TypeReceipt && w.steps[k].counted() {
			a.sum.Receipted++
			break
		}
	}
	st := &w.state
	ac.result = quick{status: st.Status, locked: st.Rail != ""}
	if ac.result.locked {
		o := a.offers.at(ac.offer)
		o.locks++
		payer := ac.from
		if st.Offer.Role == protocol.RolePayer {
			payer = o.from
		}
		a.payerLocks[payerLock{ac.offer, payer}]++
	}
	if st.Status == protocol.Claimed {
		a.claimed[statementKey(ac.statement)]++
	}
	a.noteKey(i, st.PayerKey)
	a.noteKey(i, st.PayeeKey)
}

// boardOnly reports whether nothing after the accept is in sight.
func (a *Auditor) boardOnly(ac *accept) bool {
	if ac.board != 0 || ac.flags&flagTooLate != 0 {
		return false
	}
	ri, ok := a.roomByName[roomNameOf(ac.id)]
	return !ok || a.rooms.at(ri).head == 0
}

// quickBoard is foldQuick for a contract of which only offer and accept are in
// sight: their flags say it all.
func (a *Auditor) quickBoard(i uint32, ac *accept) {
	switch {
	case ac.flags&flagLate != 0, a.opts.Rules.FirstAccept && a.offers.at(ac.offer).bound != i:
		ac.result.status = protocol.Proposed
	default:
		ac.result.status = protocol.Accepted
	}
	a.noteKey(i, packedKey(a.arena.get(a.offers.at(ac.offer).body)))
	a.noteKey(i, a.acceptKey(i, ac))
}

func (a *Auditor) noteKey(i uint32, k protocol.Point) {
	if k.IsZero() {
		return
	}
	if first, ok := a.paymentKeys[k]; !ok {
		a.paymentKeys[k] = i
	} else if first&^moreContracts != i {
		a.paymentKeys[k] = first | moreContracts
	}
}

// isRoomMate reports whether another contract counts the room's refusals.
func (a *Auditor) isRoomMate(ac *accept) bool { return ac.chain != 0 }

func noValue(rail string) bool {
	r, err := protocol.NormalizeRail(rail)
	return err == nil && !r.MovesValue()
}

// boardDecides reports whether the offer-room rule hands the contract to the
// board: one room or the other, never a union.
func (a *Auditor) boardDecides(i uint32, ac *accept) bool {
	// A stranger's frame on the board decides nothing.
	if !a.opts.Rules.OfferRoom || a.boardOf(ac).kept == 0 {
		return false
	}
	ri, ok := a.roomByName[roomNameOf(ac.id)]
	if !ok {
		return true
	}
	offerer := a.offers.at(ac.offer).from
	for k := a.rooms.at(ri).head; k != 0; k = a.rows.at(k).next {
		r := a.rows.at(k)
		if a.foldable(r) && r.flags&flagHidden == 0 && (r.from == ac.from || r.from == offerer) {
			return false
		}
	}
	return true
}

// countOrphanRows counts the frames of a deal room whose offer is not in sight.
func (a *Auditor) countOrphanRows(ac *accept) {
	if !a.ownsRoom(ac) {
		return
	}
	if ri, ok := a.roomByName[roomNameOf(ac.id)]; ok {
		a.refuseAll(a.rooms.at(ri))
	}
}

// ownsRoom reports whether an orphaned accept is the one to speak for its deal
// room: contract ids that nothing derives can name any room, and many the same.
func (a *Auditor) ownsRoom(ac *accept) bool {
	if a.told != nil && a.told.RoomTaken {
		return false
	}
	name := roomNameOf(ac.id)
	i := a.orphanByRoom[name]
	return a.acceptIndex[prefix(name[:])] == 0 && i != 0 && a.accepts.at(i).id == ac.id
}

func (a *Auditor) refuseAll(rm *room) {
	for k := rm.head; k != 0; k = a.rows.at(k).next {
		r := a.rows.at(k)
		if !a.foldable(r) || r.flags&flagHidden != 0 {
			continue
		}
		switch r.reason {
		case protocol.ReasonNone:
			a.sum.Rejected[protocol.NoContract]++
		case protocol.SenderMismatch:
			a.sum.Rejected[protocol.SenderMismatch]++
		}
	}
}

// finishRooms reports the deal rooms that no accept in sight belongs to.
func (a *Auditor) finishRooms() {
	for i := uint32(1); i <= a.rooms.len(); i++ {
		rm := a.rooms.at(i)
		if rm.head == 0 || a.liveAccept(rm.name) {
			continue
		}
		a.refuseAll(rm)
		first := a.rows.at(rm.head)
		fd := Finding{
			Code: NoAnchor, Room: rm.name.String(), Order: first.order,
			Detail: "a deal room without its offer and accept: nothing in it can be judged",
		}
		for k := rm.head; k != 0; k = a.rows.at(k).next {
			if r := a.rows.at(k); r.reason == protocol.ReasonNone && a.foldable(r) && r.typ > protocol.TypeAccept {
				if c, ok := protocol.ContractOf(a.rowFrame(r)); ok && roomNameOf(c) == rm.name {
					fd.Contract = c
					break
				}
			}
		}
		a.found(fd)
		for _, f := range a.roomFindings(rm, fd.Contract, nil) {
			a.found(f)
		}
	}
}

func (a *Auditor) liveAccept(name roomName) bool {
	return a.acceptIndex[prefix(name[:])] != 0 || a.orphanByRoom[name] != 0
}

// clock is the time for outlooks.
func (a *Auditor) clock() *int64 {
	if a.opts.NowMs != nil {
		return a.opts.NowMs
	}
	return a.sum.ClockMs
}

func (a *Auditor) countOffers() {
	now := a.clock()
	c := &a.sum.Offers
	for i := uint32(1); i <= a.offers.len(); i++ {
		o := a.offers.at(i)
		if o.flags&flagRefOnly != 0 {
			continue
		}
		c.Total++
		switch {
		case o.bound != 0:
			c.Bound++
		case o.flags&flagClosed != 0 && !a.opts.Rules.Reference:
			c.Cancelled++
		case now != nil && *now >= packedExpiry(a.arena.get(o.body), o.ts):
			c.Expired++
		default:
			c.Proposed++
		}
	}
}

// View returns an auditor that shares everything this one has folded, for
// building contracts on another goroutine. Call it after Finish.
func (a *Auditor) View() *Auditor {
	v := *a
	v.pack, v.scratch, v.walker, v.nonces = packer{}, frames{}, walker{}, nil
	return &v
}

// Len is how many places Slot has.
func (a *Auditor) Len() int { return int(a.accepts.len()) }

// Slot builds the contract in a place, from 0, in board order of the accepts,
// in h, until h is used again; nil where an accept turned out to open nothing.
func (a *Auditor) Slot(i int, h *Holder) *Contract {
	if a.accepts.at(uint32(i)+1).flags&flagDropped != 0 {
		return nil
	}
	return a.contract(uint32(i)+1, h)
}

// Contracts yields every contract in board order of its accept. Each is built
// when it is asked for and not kept. Call it after Finish.
func (a *Auditor) Contracts() iter.Seq[*Contract] {
	return func(yield func(*Contract) bool) {
		for i := range a.Len() {
			if c := a.Slot(i, new(Holder)); c != nil && !yield(c) {
				return
			}
		}
	}
}

// Find returns the ids of the contracts in sight that begin with the given
// lower-case hex digits (without 0x), in board order; at most limit of them.
func (a *Auditor) Find(prefix string, limit int) []protocol.ID {
	var ids []protocol.ID
	for i := uint32(1); i <= a.accepts.len() && len(ids) < limit; i++ {
		ac := a.accepts.at(i)
		if ac.flags&flagDropped != 0 {
			continue
		}
		if hasHexPrefix(ac.id, prefix) && !slices.Contains(ids, ac.id) {
			ids = append(ids, ac.id)
		}
	}
	return ids
}

func hasHexPrefix(id protocol.ID, prefix string) bool {
	const digits = "0123456789abcdef"
	if len(prefix) > 2*len(id) {
		return false
	}
	for i := 0; i < len(prefix); i++ {
		v := id[i/2]
		if i%2 == 0 {
			v >>= 4
		}
		if prefix[i] != digits[v&15] {
			return false
		}
	}
	return true
}

// Contract returns one contract, nil where it is not in sight.
func (a *Auditor) Contract(id protocol.ID) *Contract {
	if i := a.findAccept(&id); i != 0 {
		return a.contract(i, new(Holder))
	}
	return nil
}
