package fold_test

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/internal/testkit"
	"github.com/tclk-audit/tclk-audit/protocol"
)

// plainFold is a second fold, written straight from the protocol's text with
// maps and without regard to cost: which contracts there are, how each ends,
// and what became of each of its rows.
type plainFold struct {
	rules fold.Rules
	board []*testkit.Row
	rooms map[string][]*testkit.Row
	again map[*testkit.Row]bool // the same record stands earlier
}

// plainContract is one contract as the plain fold sees it.
type plainContract struct {
	Status protocol.Status
	Steps  []string
}

func newPlainFold(w *world) *plainFold {
	p := &plainFold{rules: w.opts.Rules, board: w.board.Rows, rooms: map[string][]*testkit.Row{}, again: map[*testkit.Row]bool{}}
	known := map[protocol.RecordID]bool{}
	note := func(rows []*testkit.Row) {
		for _, r := range rows {
			if r.Sig != nil {
				p.again[r] = known[r.ID()]
				known[r.ID()] = true
			}
		}
	}
	note(w.board.Rows)
	for name, room := range w.rooms {
		p.rooms[name] = room.Rows
		note(room.Rows)
	}
	return p
}

// read gives what a signed row holds: a frame of its sender, or why it is none.
func (p *plainFold) read(r *testkit.Row) (protocol.Frame, protocol.Reason) {
	if r.Sig == nil {
		return nil, protocol.Unsigned
	}
	d := protocol.Decode(string(r.Text), p.rules.Decode())
	if d.Frame == nil {
		return nil, d.Reason
	}
	if d.Frame.Sender() != string(r.From) {
		return d.Frame, protocol.SenderMismatch
	}
	return d.Frame, protocol.ReasonNone
}

// moves reports whether the row may move something: a replay may not, except
// under the reference's rules.
func (p *plainFold) moves(r *testkit.Row) bool { return p.rules.Reference || !p.again[r] }

// handshake is one listed accept.
type handshake struct {
	offer    *protocol.Offer // nil: not in sight
	accept   *protocol.Accept
	at       int // its place on the board
	refused  protocol.Reason
	cancel   *testkit.Row
	receipts []*testkit.Row
}

// handshakes goes over the board once.
func (p *plainFold) handshakes() (list []*handshake) {
	offers := map[protocol.ID]*protocol.Offer{}
	cancels := map[protocol.ID]*testkit.Row{}
	receipts := map[protocol.ID][]*testkit.Row{}
	bound := map[protocol.ID]bool{}
	listed := map[protocol.ID]*handshake{}
	for i, r := range p.board {
		f, reason := p.read(r)
		if reason != protocol.ReasonNone {
			continue
		}
		switch f := f.(type) {
		case *protocol.Offer:
			if offers[f.ID] == nil {
				offers[f.ID] = f
			}
		case *protocol.Cancel:
			o := offers[f.Contract]
			if o != nil && o.From == f.From && cancels[o.ID] == nil && p.moves(r) && !p.rules.Reference {
				cancels[o.ID] = r
			}
		case *protocol.Receipt:
			o := offers[f.Contract]
			if o != nil && o.From == f.From && cancels[o.ID] != nil && f.Outcome == protocol.Cancelled && f.Rail == "" && f.Ref == "" && p.moves(r) {
				receipts[o.ID] = append(receipts[o.ID], r)
			}
		case *protocol.Accept:
			o, prior := offers[f.Ref], listed[f.Contract]
			h := &handshake{offer: o, accept: f, at: i}
			switch {
			case o == nil:
				if prior == nil {
					listed[f.Contract] = h
					list = append(list, h)
				}
				continue
			case prior != nil && prior.offer != nil:
				continue
			case f.From == o.From, f.Contract != protocol.ContractID(o, f), f.Statement.Kind() != o.Lock, o.Lock == protocol.LockPoint && f.PaymentKey.IsZero():
				continue
			case cancels[o.ID] != nil:
				h.refused, h.cancel = protocol.WrongStatus, cancels[o.ID]
			case r.TsMs >= o.ExpiresMs:
				h.refused = protocol.OfferExpired
			case bound[o.ID] && p.rules.FirstAccept:
				h.refused = protocol.WrongStatus
			default:
				bound[o.ID] = true
			}
			if prior != nil {
				for k := range list {
					if list[k] == prior {
						list = append(list[:k], list[k+1:]...)
						break
					}
				}
			}
			listed[f.Contract] = h
			list = append(list, h)
		}
	}
	var kept []*handshake
	for _, h := range list {
		if h.offer == nil && offers[h.accept.Ref] != nil && p.fromTheStart(h.at) {
			continue // it stood before its offer, and opened nothing
		}
		if h.cancel != nil {
			h.receipts = receipts[h.offer.ID]
		}
		kept = append(kept, h)
	}
	return kept
}

// fromTheStart reports whether every place of the board up to a row is known.
func (p *plainFold) fromTheStart(at int) bool {
	next := uint64(1)
	for _, r := range p.board[:at+1] {
		if r.Seq != next {
			return false
		}
		next++
	}
	return true
}

func (p *plainFold) contracts() map[protocol.ID]plainContract {
	all := map[protocol.ID]plainContract{}
	for _, h := range p.handshakes() {
		all[h.accept.Contract] = p.contract(h)
	}
	return all
}

func (p *plainFold) contract(h *handshake) (c plainContract) {
	rows := p.rooms[protocol.DealRoom(h.accept.Contract)]
	if h.offer == nil {
		c.Steps = []string{"-accept no-contract"}
		for _, r := range rows {
			f, reason := p.read(r)
			if reason == protocol.ReasonNone {
				reason = protocol.NoContract
			}
			c.step(f, reason)
		}
		return c
	}
	onBoard := p.boardDecides(h, rows)
	m := &plainMachine{offer: h.offer, accept: h.accept, reference: p.rules.Reference}
	c.Steps = []string{"+offer"}
	if h.cancel != nil {
		m.status = protocol.Cancelled
		c.Steps = append(c.Steps, "+cancel")
	}
	c.step(h.accept, h.refused)
	switch {
	case h.refused == protocol.ReasonNone:
		m.status = protocol.Accepted
	case h.cancel == nil:
		m.status = protocol.Proposed
	}
	if len(h.receipts) > 0 {
		c.Steps = append(c.Steps, "+receipt")
	}
	if onBoard {
		rows = p.partyFrames(h)
	}
	for _, r := range rows {
		f, reason := p.read(r)
		if reason == protocol.ReasonNone {
			switch {
			case !onBoard && (h.refused != protocol.ReasonNone || f.Type() <= protocol.TypeAccept):
				reason = protocol.WrongRoom
			case p.moves(r):
				reason = m.apply(f, r.TsMs)
			default:
				try := *m
				if reason = try.apply(f, r.TsMs); reason == protocol.ReasonNone {
					reason = protocol.WrongStatus
				}
			}
		}
		c.step(f, reason)
	}
	c.Status = m.status
	return c
}

// partyFrames are the board's frames for a contract, by its parties, after its
// accept.
func (p *plainFold) partyFrames(h *handshake) (rows []*testkit.Row) {
	for _, r := range p.board[h.at+1:] {
		f, reason := p.read(r)
		if reason != protocol.ReasonNone || f.Type() <= protocol.TypeAccept || contractOf(f) != h.accept.Contract {
			continue
		}
		if f.Sender() == h.offer.From || f.Sender() == h.accept.From {
			rows = append(rows, r)
		}
	}
	return rows
}

func (p *plainFold) boardDecides(h *handshake, room []*testkit.Row) bool {
	if !p.rules.OfferRoom {
		return false
	}
	for _, r := range room {
		if r.Sig != nil && (string(r.From) == h.offer.From || string(r.From) == h.accept.From) {
			return false
		}
	}
	return len(p.partyFrames(h)) > 0
}

func contractOf(f protocol.Frame) protocol.ID {
	switch f := f.(type) {
	case *protocol.Lock:
		return f.Contract
	case *protocol.Reveal:
		return f.Contract
	case *protocol.Refund:
		return f.Contract
	case *protocol.Cancel:
		return f.Contract
	case *protocol.Receipt:
		return f.Contract
	case *protocol.Heartbeat:
		return f.Contract
	}
	return protocol.ID{}
}

func (c *plainContract) step(f protocol.Frame, reason protocol.Reason) {
	typ := "?"
	if f != nil {
		typ = f.Type().String()
	}
	switch {
	case reason.Ignored():
		c.Steps = append(c.Steps, "~"+reason.String())
	case reason == protocol.ReasonNone:
		c.Steps = append(c.Steps, "+"+typ)
	default:
		c.Steps = append(c.Steps, "-"+typ+" "+reason.String())
	}
}

// plainMachine is SPEC §4 from the accept on.
type plainMachine struct {
	offer     *protocol.Offer
	accept    *protocol.Accept
	reference bool
	status    protocol.Status
	rail, ref string
}

func (m *plainMachine) apply(f protocol.Frame, at int64) protocol.Reason {
	payer, payee := m.offer.From, m.accept.From
	if m.offer.Role == protocol.RolePayee {
		payer, payee = payee, payer
	}
	party := f.Sender() == payer || f.Sender() == payee
	mine := contractOf(f) == m.accept.Contract
	terminal := m.status == protocol.Claimed || m.status == protocol.Refunded || m.status == protocol.Cancelled
	windowOpen := at >= m.offer.RefundAfterMs
	switch f := f.(type) {
	case *protocol.Lock:
		switch {
		case m.status != protocol.Accepted:
			return protocol.WrongStatus
		case !mine:
			return protocol.OtherContract
		case f.From != payer:
			return protocol.NotPayer
		case windowOpen:
			return protocol.RefundWindowOpen
		case !protocol.RailOffered(m.offer.Rails, f.Rail):
			return protocol.RailNotOffered
		}
		m.status, m.rail, m.ref = protocol.Locked, f.Rail, f.Ref
	case *protocol.Reveal:
		switch {
		case m.status != protocol.Locked:
			return protocol.WrongStatus
		case !mine:
			return protocol.OtherContract
		case f.Ref != "" && f.Ref != m.ref:
			return protocol.OtherRailRef
		case f.From != payee:
			return protocol.NotPayee
		case windowOpen:
			return protocol.RefundWindowOpen
		case !m.accept.Statement.Opens(f.Secret):
			return protocol.WrongSecret
		}
		m.status = protocol.Claimed
	case *protocol.Refund:
		switch {
		case m.status != protocol.Locked:
			return protocol.WrongStatus
		case !mine:
			return protocol.OtherContract
		case f.Ref != "" && f.Ref != m.ref:
			return protocol.OtherRailRef
		case f.From != payer:
			return protocol.NotPayer
		case !windowOpen:
			return protocol.RefundWindowClosed
		}
		m.status = protocol.Refunded
	case *protocol.Cancel:
		switch {
		case m.status == protocol.Proposed:
			return protocol.OtherContract // then it must name the offer
		case m.status != protocol.Accepted:
			return protocol.WrongStatus
		case !mine:
			return protocol.OtherContract
		case !party:
			return protocol.NotParty
		}
		m.status = protocol.Cancelled
	case *protocol.Heartbeat:
		switch {
		case m.status != protocol.Accepted && m.status != protocol.Locked:
			return protocol.WrongStatus
		case !mine:
			return protocol.OtherContract
		case !party:
			return protocol.NotParty
		}
	case *protocol.Receipt:
		sameRail := protocol.SameRail(f.Rail, m.rail)
		if m.reference {
			sameRail = f.Rail == m.rail
		}
		switch {
		case !terminal:
			return protocol.NotTerminal
		case !mine:
			return protocol.OtherContract
		case !party:
			return protocol.NotParty
		case f.Outcome != m.status:
			return protocol.OutcomeMismatch
		case m.status == protocol.Cancelled && (f.Rail != "" || f.Ref != ""):
			return protocol.ReceiptRailOnCancelled
		case m.status != protocol.Cancelled && f.Rail != "" && !sameRail:
			return protocol.ReceiptRailMismatch
		case m.status != protocol.Cancelled && f.Ref != "" && f.Ref != m.ref:
			return protocol.ReceiptRefMismatch
		}
	}
	return protocol.ReasonNone
}

// drawJunk posts what no honest client would: unsigned rows, broken and
// repeated members, accepts that derive nothing, broken seals.
func (w *world) drawJunk(t *rapid.T, now int64) {
	for range rapid.IntRange(0, 8).Draw(t, "junk rows") {
		now += rapid.Int64Range(0, 300).Draw(t, "ms")
		d := rapid.SampledFrom(w.deals).Draw(t, "deal")
		room := w.room(d.RoomName())
		if rapid.IntRange(0, 2).Draw(t, "board") == 0 {
			room = w.board
		}
		who, f := w.drawFrame(t, d)
		line := protocol.CanonicalLine(f)
		switch rapid.IntRange(0, 6).Draw(t, "junk") {
		case 0:
			if room != w.board { // on the board it would leave a hole
				room.PostText(who, now, line).Sig = nil
			}
		case 1:
			room.PostText(who, now, line[:len(line)-1]+`,"type":"`+f.Type().String()+`"}`)
		case 2:
			room.PostText(who, now, line[:len(line)/2])
		case 3:
			a := *d.Accept
			a.Nonce = "00aa11bb"
			w.board.PostText(d.Acceptor.Signer, now, protocol.CanonicalLine(&a))
		case 4:
			own := d.Rival(d.Offerer)
			w.board.Post(d.Offerer.Signer, now, own.Accept)
		case 5:
			c := d.CancelOffer("")
			c.From = d.Acceptor.DID
			w.board.Post(d.Acceptor.Signer, now, c)
		default:
			w.board.Post(d.Offerer.Signer, now, &protocol.Receipt{From: d.Offerer.DID, Contract: d.Offer.ID, Outcome: protocol.Cancelled})
		}
	}
}

// The fold and the plain fold agree on which contracts there are, how each
// ends, and what became of each row, whatever was posted.
func TestFoldAgreesWithThePlainFold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		w.drawRows(t, 16)
		w.drawJunk(t, epoch+500)
		w.drawRows(t, 16)
		want := newPlainFold(w).contracts()
		got := map[protocol.ID]plainContract{}
		for c := range w.fold(w.plainOrder()).Contracts() {
			pc := plainContract{Status: c.Status}
			for i := range c.Steps {
				s := c.Steps[i]
				s.CascadeOf = nil
				if !s.OK && s.Reason < protocol.SenderMismatch {
					s.Type = protocol.TypeNone // no frame, whatever the line tried to be
				}
				pc.Steps = append(pc.Steps, brief(&s))
			}
			got[c.ID] = pc
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("rules %s: plain fold (-), fold (+):\n%s", w.opts.Rules, diff)
		}
	})
}
