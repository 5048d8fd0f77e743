package fold

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/verify"
)

// addBoard folds one row of the board: offers and accepts open contracts,
// cancels close offers, and frames that belong into deal rooms are kept for
// the shadow fold only.
func (a *Auditor) addBoard(r *Row, counts, replay bool) {
	// Unsigned chat is normal here and fills its place. A row that claims a
	// did:key and cannot be verified may stand where a cancel stood.
	fills := r.Verify.Class == verify.Authentic || r.Verify.Class == verify.Repaired ||
		r.Verify.Class == verify.Unsigned && !r.IsDID
	from, to, disorder, conflict := a.board.seqRules(r.Record.Generation, r.Record.Seq, r.ID, r.Record.TsMs, a.order, fills)
	if from|to != 0 {
		a.rowFinding(Gap, r, missing(from, to))
		if a.opts.Rules.OfferRoom {
			a.boardHoles = append(a.boardHoles, a.order)
		}
		a.openHole(boardHole{a.board.topGen, from, to, a.order})
	}
	if disorder && fills {
		a.fillHole(a.board.gen, r.Record.Seq)
	}
	if disorder && !replay {
		a.rowFinding(OrderViolation, r, "seq does not rise")
	}
	if conflict != 0 {
		a.blameBefore(conflict)
		if r.Conflict == 0 {
			r.Conflict = conflict
			a.rowFinding(ConflictingMetadata, r, conflictDetail(conflict))
		}
	}
	if !counts {
		a.window.Skip(r.Size)
		a.uncounted(r)
		return
	}
	var flags flag
	if replay || disorder {
		a.window.Skip(r.Size)
	} else if a.window.Add(prefix(r.Key[:]), nonceValue(r.Record.Nonce), r.Size) {
		flags |= flagNonceOrder
	}
	a.boardRow(r, flags, replay)
}

// uncounted folds a row of the board that does not count.
func (a *Auditor) uncounted(r *Row) {
	if c, ok := r.Line.Frame.(*protocol.Cancel); ok && r.Verify.Class == verify.Repaired {
		a.repairedCancel(c, r)
	}
}

// boardRow folds a row of the board that counts, when it is known how it stands
// to the board's other rows.
func (a *Auditor) boardRow(r *Row, flags flag, replay bool) {
	f := r.Line.Frame
	if f == nil {
		a.boardNonceOrder(r, flags)
		if o, ok := r.Reference.Frame.(*protocol.Offer); ok && o.From == string(r.Record.From) {
			a.addRefOffer(o, r)
		}
		return
	}
	flags |= conflictFlags(r.Conflict)
	if replay {
		flags |= flagReplay
	}
	if !r.Line.Canonical {
		flags |= flagNoncanonical
	}
	if r.NotStrict {
		flags |= flagNotStrict
	}
	if r.Verify.Class == verify.Repaired {
		flags |= flagRepaired
	}
	reason := protocol.SenderMismatch
	if f.Sender() == string(r.Record.From) {
		switch f := f.(type) {
		case *protocol.Offer:
			reason = a.addOffer(f, r, flags)
		case *protocol.Accept:
			reason = a.addAccept(f, r, flags)
		case *protocol.Cancel:
			reason = a.boardCancel(f, r, flags, replay)
		case *protocol.Receipt:
			reason = a.boardReceipt(f, r, flags, replay)
		case *protocol.Reveal:
			a.exposed(f)
			reason = a.boardFrame(f, f.Contract, r, flags)
		default:
			c, _ := protocol.ContractOf(f)
			reason = a.boardFrame(f, c, r, flags)
		}
	}
	if reason != protocol.ReasonNone {
		a.sum.Rejected[reason]++
		a.boardNonceOrder(r, flags)
	}
}

// openHoleLimit is how many of the board's latest holes are kept for rows that
// come out of order: the venue's own disorder is between neighbours.
const openHoleLimit = 4096

func (a *Auditor) openHole(h boardHole) {
	if len(a.openHoles) >= 2*openHoleLimit {
		a.openHoles = append(a.openHoles[:0], a.openHoles[openHoleLimit:]...)
	}
	a.openHoles = append(a.openHoles, h)
}

// fillHole takes a seq out of the hole that it lies in: the row stands there,
// although out of order. A hole that is filled whole was none.
func (a *Auditor) fillHole(gen, seq uint64) {
	for i := len(a.openHoles) - 1; i >= 0; i-- {
		h := &a.openHoles[i]
		if h.gen != gen || seq < h.from || seq > h.to {
			continue
		}
		order := h.order
		switch {
		case h.from == h.to:
			a.openHoles = slices.Delete(a.openHoles, i, i+1)
		case seq == h.from:
			h.from++
		case seq == h.to:
			h.to--
		default:
			rest := boardHole{gen, seq + 1, h.to, order}
			h.to = seq - 1
			a.openHoles = slices.Insert(a.openHoles, i+1, rest)
		}
		if !slices.ContainsFunc(a.openHoles, func(h boardHole) bool { return h.order == order }) {
			at, _ := slices.BinarySearch(a.closedHoles, order)
			a.closedHoles = slices.Insert(a.closedHoles, at, order)
			a.boardHoles = slices.DeleteFunc(a.boardHoles, func(o uint64) bool { return o == order })
			a.unfind(Gap, order)
		}
		return
	}
}

// unfind takes back what was found at a row.
func (a *Auditor) unfind(c Code, order uint64) {
	for i := len(a.findings) - 1; i >= 0 && a.findings[i].Order >= order; i-- {
		if f := &a.findings[i]; f.Code == c && f.Order == order && f.Room == protocol.BoardRoom {
			a.findings = slices.Delete(a.findings, i, i+1)
			a.kept[c]--
			return
		}
	}
}

// boardMisses reports whether rows of the board are missing between two of its
// rows: after is 0 for its beginning.
func (a *Auditor) boardMisses(before uint32, after uint64, holes uint32, at uint64) bool {
	if holes <= before {
		return false
	}
	from, _ := slices.BinarySearch(a.closedHoles, after+1)
	to, _ := slices.BinarySearch(a.closedHoles, at+1)
	return int(holes-before) > to-from
}

// repairedCancel notes a cancel that would close its offer if its nonce, which
// was repaired, counted.
func (a *Auditor) repairedCancel(f *protocol.Cancel, r *Row) {
	if oi := a.findOffer(&f.Contract); oi != 0 && f.From == string(r.Record.From) && a.offers.at(oi).from == a.knownKey(r) {
		if end := a.closings[oi]; end.repaired == 0 {
			end.repaired = a.order
			a.closings[oi] = end
		}
	}
}

// blameBefore marks the row before this one, if it is an offer's or accept's:
// of two that contradict each other either may be the false one.
func (a *Auditor) blameBefore(c Conflict) {
	before := a.board.beforeOrder
	if n := a.offers.len(); n > 0 && a.offers.at(n).order == before {
		a.offers.at(n).flags |= conflictFlags(c)
	}
	if n := a.accepts.len(); n > 0 && a.accepts.at(n).order == before {
		a.accepts.at(n).flags |= conflictFlags(c)
	}
	if n := a.rows.len(); n > 0 && a.rows.at(n).order == before {
		a.rows.at(n).flags |= conflictFlags(c)
	}
}

func (a *Auditor) boardNonceOrder(r *Row, flags flag) {
	if flags&flagNonceOrder != 0 {
		a.rowFinding(NonceOrder, r, "the sender's nonce fell while seq rose")
	}
}

func missing(from, to uint64) string {
	if from == to {
		return fmt.Sprintf("seq %d is missing", from)
	}
	return fmt.Sprintf("seq %d to %d are missing", from, to)
}

func (a *Auditor) addOffer(f *protocol.Offer, r *Row, flags flag) protocol.Reason {
	if a.findOffer(&f.ID) != 0 {
		return protocol.AlreadyOpen
	}
	i, o := a.offers.add()
	a.pack.b = a.pack.b[:0]
	a.packOffer(&a.pack, f, r.Record.TsMs)
	*o = offer{
		id: f.ID, record: r.ID, seq: r.Record.Seq, gen: uint32(r.Record.Generation), ts: r.Record.TsMs, order: a.order,
		holes: uint32(a.board.holes), body: a.arena.put(a.pack.b), from: a.key(r), flags: flags,
		chain: a.offerIndex[prefix(f.ID[:])],
	}
	a.offerIndex[prefix(f.ID[:])] = i
	if json, ok := bytes.CutPrefix(r.Record.Text, []byte(protocol.LinePrefix)); ok && r.Line.Canonical {
		a.recent.put(i, json)
	}
	a.keepText(r)
	return protocol.ReasonNone
}

// addRefOffer keeps an offer that these rules refuse and the reference takes,
// to find out where contracts end differently for it.
func (a *Auditor) addRefOffer(f *protocol.Offer, r *Row) {
	if a.findOffer(&f.ID) != 0 || a.refOffers[f.ID] != 0 {
		return
	}
	if len(a.refOffers) >= PendingLimit {
		a.limit("offers that only the reference decodes")
		return
	}
	i, o := a.offers.add()
	a.pack.b = a.pack.b[:0]
	a.packOffer(&a.pack, f, r.Record.TsMs)
	*o = offer{
		id: f.ID, record: r.ID, seq: r.Record.Seq, ts: r.Record.TsMs, order: a.order,
		body: a.arena.put(a.pack.b), from: a.key(r), flags: flagRefOnly,
	}
	a.refOffers[f.ID] = i
}

// refAccept notes an accept of such an offer that the reference would take.
func (a *Auditor) refAccept(i uint32, f *protocol.Accept, ts int64) {
	oi := a.refOffers[f.Ref]
	if oi == 0 {
		return
	}
	o := a.offers.at(oi)
	a.unpackOffer(&a.openOffer, a.arena.get(o.body), o.id, a.did(o.from), o.ts, true)
	s := State{Status: protocol.Proposed, Offer: &a.openOffer}
	out := Rules{Reference: true}.step(&s, Event{Frame: f, AtMs: ts})
	switch out.Reason {
	case protocol.OfferExpired:
		a.accepts.at(i).flags |= flagLate
	case protocol.ReasonNone:
	default:
		return
	}
	a.refAccepts[i] = oi
}

// keepText keeps the stored line of an offer or accept where texts are wanted.
func (a *Auditor) keepText(r *Row) {
	if !a.opts.KeepText {
		return
	}
	a.pack.b = a.pack.b[:0]
	a.pack.bytes(r.Record.Text)
	a.texts[a.order] = a.arena.put(a.pack.b)
}

func (a *Auditor) text(order uint64) string {
	r := a.texts[order]
	if r == 0 {
		return ""
	}
	u := unpacker{a.arena.get(r)}
	return u.str()
}

func (a *Auditor) addAccept(f *protocol.Accept, r *Row, flags flag) protocol.Reason {
	prior := a.findAccept(&f.Contract)
	oi := a.findOffer(&f.Ref)
	if oi == 0 {
		if prior != 0 {
			return protocol.NoContract
		}
		// Rooms are rings: the offer may have gone. It is listed, not judged.
		i, _ := a.newAccept(f, r, flags, 0)
		a.orphans[i] = f.Ref
		a.refAccept(i, f, r.Record.TsMs)
		return protocol.ReasonNone
	}
	if prior != 0 && a.accepts.at(prior).offer != 0 {
		return protocol.WrongStatus // the contract is open: a replay
	}
	o := a.offers.at(oi)
	canonical := a.recent.get(oi)
	a.unpackOffer(&a.openOffer, a.arena.get(o.body), o.id, a.did(o.from), o.ts, canonical == nil)
	s := State{Status: protocol.Proposed, Offer: &a.openOffer}
	out := a.opts.Rules.step(&s, Event{Frame: f, AtMs: r.Record.TsMs, offerJSON: canonical})
	reason := out.Reason
	switch {
	case (out.OK || reason == protocol.OfferExpired) && o.flags&flagClosed != 0 && !a.opts.Rules.Reference:
		flags |= flagTooLate
		reason = protocol.WrongStatus
	case out.OK:
		if r.Record.TsMs >= s.Offer.RefundAfterMs {
			flags |= flagLapsedAtBirth
		}
	case reason == protocol.OfferExpired:
		flags |= flagLate
	default:
		return reason
	}
	if prior != 0 {
		// The same accept stood before its offer: that row opened nothing.
		a.dropOrphan(prior)
		if a.beginningLost(a.accepts.at(prior)) {
			flags |= flagLost
		}
		a.sum.Rejected[protocol.NoContract]++
	}
	i, ac := a.newAccept(f, r, flags, oi)
	if o.flags&flagListed != 0 {
		o.flags |= flagRaced
	}
	o.flags |= flagListed
	if flags&(flagLate|flagTooLate) == 0 {
		if o.bound == 0 {
			o.bound = i
		} else if a.opts.Rules.FirstAccept {
			reason = protocol.WrongStatus
		}
	}
	key := statementKey(f.Statement)
	if older := a.statements[key]; older != 0 {
		ac.sameStmt = older
		if old := a.accepts.at(older); old.statement == ac.statement {
			old.flags |= flagSharedStatement
			ac.flags |= flagSharedStatement
		}
	}
	a.statements[key] = i
	return reason
}

// dropOrphan takes an accept without an offer from the list.
func (a *Auditor) dropOrphan(i uint32) {
	ac := a.accepts.at(i)
	ac.flags |= flagDropped
	delete(a.orphanByID, ac.id)
	if name := roomNameOf(ac.id); a.orphanByRoom[name] == i {
		delete(a.orphanByRoom, name)
	}
}

// beginningLost reports whether the board may have held rows before the accept
// that are not in sight.
func (a *Auditor) beginningLost(ac *accept) bool {
	return a.board.first > 1 || a.boardMisses(0, 0, ac.holes, ac.order)
}

// newAccept lists a contract. offer is 0 where it is not in sight.
func (a *Auditor) newAccept(f *protocol.Accept, r *Row, flags flag, offer uint32) (uint32, *accept) {
	i, ac := a.accepts.add()
	*ac = accept{
		id: f.Contract, record: r.ID, statement: f.Statement,
		seq: r.Record.Seq, gen: uint32(r.Record.Generation), ts: r.Record.TsMs, order: a.order, holes: uint32(a.board.holes),
		offer: offer, from: a.key(r), flags: flags,
	}
	if offer == 0 {
		a.orphanByID[f.Contract] = i
		if name := roomNameOf(f.Contract); a.orphanByRoom[name] == 0 {
			a.orphanByRoom[name] = i
		}
	} else {
		ac.chain = a.acceptIndex[prefix(f.Contract[:])]
		a.acceptIndex[prefix(f.Contract[:])] = i
	}
	if !f.PaymentKey.IsZero() {
		a.acceptKeys[i] = f.PaymentKey
		ac.flags |= flagKey
	}
	a.keepText(r)
	return i, ac
}

const cancelsNothing = "a cancel on the board whose contract is not an open offer of its sender: it cancels nothing"

// boardCancel handles a cancel on the board. Under the spec it closes the open
// offer that it names; under the reference's rules the board's cancels are not
// seen.
func (a *Auditor) boardCancel(f *protocol.Cancel, r *Row, flags flag, replay bool) protocol.Reason {
	reason := protocol.NoContract
	if oi := a.findOffer(&f.Contract); oi != 0 {
		reason = protocol.NotParty
		if a.offers.at(oi).from == a.knownKey(r) {
			reason = protocol.WrongStatus
			// SPEC §4: a replay moves nothing.
			if a.closings[oi].cancel == 0 && (!replay || a.opts.Rules.Reference) {
				end := a.closings[oi]
				end.cancel = a.keepRow(r, flags)
				a.closings[oi] = end
				a.offers.at(oi).flags |= flagClosed
				if a.opts.Rules.Reference {
					return protocol.WrongRoom
				}
				return protocol.ReasonNone
			}
		}
	} else if i := a.findAccept(&f.Contract); i != 0 {
		reason = a.boardFrame(f, f.Contract, r, flags)
		if a.isParty(a.accepts.at(i), a.knownKey(r)) {
			return reason // the finding is the contract's
		}
	}
	if !replay {
		seq := r.Record.Seq
		fd := Finding{Code: CancelNamesNoOffer, Room: r.Record.Room, Seq: &seq, Order: a.order, Detail: cancelsNothing}
		switch reason {
		case protocol.NoContract:
		case protocol.WrongRoom:
			fd.Contract = f.Contract
		default:
			fd.Offer = f.Contract
		}
		a.found(fd)
	}
	return reason
}

// boardReceipt lets the author of a cancelled offer acknowledge it where the
// cancel stands: such a receipt names the offer.
func (a *Auditor) boardReceipt(f *protocol.Receipt, r *Row, flags flag, replay bool) protocol.Reason {
	oi := a.findOffer(&f.Contract)
	if oi == 0 {
		return a.boardFrame(f, f.Contract, r, flags)
	}
	end := a.closings[oi]
	switch {
	case a.offers.at(oi).from != a.knownKey(r):
		return protocol.NotParty
	case end.cancel == 0 || a.opts.Rules.Reference:
		return protocol.NotTerminal
	case f.Outcome != protocol.Cancelled:
		return protocol.OutcomeMismatch
	case f.Rail != "" || f.Ref != "":
		return protocol.ReceiptRailOnCancelled
	case replay:
		return protocol.WrongStatus // SPEC §4: a replay moves nothing
	}
	if end.receipt == 0 {
		end.receipt = a.keepRow(r, flags)
		a.closings[oi] = end
	}
	return protocol.ReasonNone
}

// boardFrame keeps a post-accept frame that stands on the board: it cannot
// count, but the shadow fold shows what it would have meant.
func (a *Auditor) boardFrame(f protocol.Frame, contract protocol.ID, r *Row, flags flag) protocol.Reason {
	i := a.findAccept(&contract)
	if i == 0 {
		return protocol.NoContract
	}
	ac := a.accepts.at(i)
	if ac.board == 0 {
		ac.board, _ = a.boards.add()
	}
	b := a.boards.at(ac.board)
	b.rows++
	if !a.isParty(ac, a.knownKey(r)) {
		return protocol.WrongRoom
	}
	if b.kept >= StepLimit {
		a.limit("board frames of one contract")
		return protocol.WrongRoom
	}
	b.kept++
	ri := a.keepRow(r, flags)
	if b.tail == 0 {
		b.head = ri
	} else {
		a.rows.at(b.tail).next = ri
	}
	b.tail = ri
	return protocol.WrongRoom
}

func (a *Auditor) isParty(ac *accept, from uint32) bool {
	return from != 0 && (from == ac.from || ac.offer != 0 && from == a.offers.at(ac.offer).from)
}

// keepRow stores what a later fold needs of a row.
func (a *Auditor) keepRow(r *Row, flags flag) uint32 {
	i, k := a.rows.add()
	*k = row{
		record: r.ID, seq: r.Record.Seq, gen: r.Record.Generation, ts: r.Record.TsMs, order: a.order,
		nonce: nonceValue(r.Record.Nonce), size: uint32(r.Size), class: r.Verify.Class, reason: r.Verify.Reason, flags: flags, source: r.Source,
	}
	p := &a.pack
	p.b = p.b[:0]
	if r.IsDID {
		k.from = a.key(r)
	} else {
		k.flags |= flagNick
		nick := r.Record.From
		if !protocol.ValidRoom(string(nick)) {
			nick = nil // not the venue's grammar for nicknames: never shown
		}
		p.bytes(nick)
	}
	detail := ""
	switch {
	case !a.counts(r):
		switch {
		case r.Verify.Class == verify.Repaired:
			detail = repairedDetail(r.Verify.SignedNonce)
		case r.Verify.OtherRoom != "":
			detail = r.Verify.OtherRoom
		}
		// An unfolded row of a party may still have been a true one.
		k.typ = packable(r.Line.Frame)
	case r.Line.Reason != protocol.ReasonNone:
		k.reason, detail = r.Line.Reason, r.Line.Detail
		if r.Verify.Class == verify.Repaired {
			detail = repairedDetail(r.Verify.SignedNonce) + "; " + detail
		}
		if r.Reference.Frame != nil && r.Reference.Frame.Sender() == string(r.Record.From) {
			k.flags |= flagRefOnly
			k.typ = packable(r.Reference.Frame)
		}
	case r.Line.Frame.Sender() != string(r.Record.From):
		k.reason, detail = protocol.SenderMismatch, r.Line.Frame.Type().String()+".from is not the record's sender"
		k.typ = r.Line.Frame.Type()
	default:
		k.reason = protocol.ReasonNone
		if r.Verify.Class == verify.Repaired {
			detail = repairedDetail(r.Verify.SignedNonce)
		}
		k.typ = r.Line.Frame.Type()
	}
	p.str(detail)
	if a.opts.KeepText {
		p.bytes(r.Record.Text)
	}
	switch {
	case k.flags&flagRefOnly != 0:
		packFrame(p, r.Reference.Frame)
	case r.Line.Frame != nil:
		packFrame(p, r.Line.Frame)
	}
	k.body = a.arena.put(p.b)
	return i
}

func packable(f protocol.Frame) protocol.FrameType {
	if f == nil {
		return protocol.TypeNone
	}
	return f.Type()
}
