package fold_test

import (
	"testing"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/internal/testkit"
	"github.com/tclk-audit/tclk-audit/protocol"
)

// An accept after the cancel finds a cancelled offer, whatever its time.
func TestExpiredAcceptAfterCancel(t *testing.T) {
	s := newScene()
	d, _ := s.deal(testkit.Terms{})
	s.board.Post(d.Offerer.Signer, epoch, d.Offer)
	s.board.Post(d.Offerer.Signer, epoch+1000, d.CancelOffer(""))
	s.board.Post(d.Acceptor.Signer, d.Offer.ExpiresMs, d.Accept)
	c := one(t, s.audit(), d)
	wantSteps(t, c, "+offer", "+cancel", "-accept wrong-status")
	if c.Status != protocol.Cancelled {
		t.Errorf("status %s, want cancelled", c.Status)
	}
}

// The cancel that closes an offer is a row of the contract that comes too late:
// what is wrong with the row is wrong with the verdict.
func TestCancelRowIsEvidence(t *testing.T) {
	for _, tc := range []struct {
		name  string
		tweak func(*fold.Row)
		nonce string
	}{
		{"a copy lacks it", func(r *fold.Row) { r.Conflict = fold.ConflictMissing }, "1788600001000"},
		{"its nonce falls", nil, "5"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene()
			d, _ := s.deal(testkit.Terms{})
			s.board.Post(d.Offerer.Signer, epoch, d.Offer)
			cancel := s.board.PostNonce(d.Offerer.Signer, epoch+1000, tc.nonce, protocol.CanonicalLine(d.CancelOffer("")))
			s.board.Post(d.Acceptor.Signer, epoch+2000, d.Accept)
			s.tweak(cancel, tc.tweak)
			if tc.tweak == nil {
				delete(s.tweaks, cancel)
			}
			wantFate(t, one(t, s.audit(), d), protocol.Cancelled, fold.Conflicting, fold.Contradicted)
		})
	}
}

// A cancel on the board that names a contract cancels nothing, whoever sends
// it, and is reported.
func TestStrangersCancelOnTheBoardIsReported(t *testing.T) {
	s := newScene()
	d, room := s.opened(testkit.Terms{})
	c := d.Cancel(s.stranger(0), "")
	s.board.Post(s.stranger(0), epoch+2000, c)
	a := s.audit(room)
	n := len(found(one(t, a, d), fold.CancelNamesNoOffer))
	for _, f := range a.Findings() {
		if f.Code == fold.CancelNamesNoOffer {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d findings cancel-names-no-offer, want one", n)
	}
}

// Under the reference's rules a cancel on the board cancels nothing, so a gap
// cannot hide one that does.
func TestReferenceBoardGap(t *testing.T) {
	s := newScene()
	s.opts.Rules.Reference = true
	d, room := s.deal(testkit.Terms{})
	s.board.Post(d.Offerer.Signer, epoch, d.Offer)
	s.board.Skip(1)
	s.board.Post(d.Acceptor.Signer, epoch+2000, d.Accept)
	wantFate(t, one(t, s.audit(room), d), protocol.Accepted, fold.Complete, fold.Open)
}

// Cancels in every place: on the board before the accept they close the offer,
// in the deal room they close the contract, anywhere else they do nothing.
func TestCancels(t *testing.T) {
	offered := func(s *scene) (*testkit.Deal, *testkit.Room) {
		d, room := s.deal(testkit.Terms{})
		s.board.Post(d.Offerer.Signer, epoch, d.Offer)
		return d, room
	}
	open := fate{protocol.Accepted, fold.Complete, fold.Open}
	cancelled := fate{protocol.Cancelled, fold.Complete, fold.Established}
	tell(t, []story{
		{
			name: "the offerer cancels its offer before the accept",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := offered(s)
				s.board.Post(d.Offerer.Signer, epoch+500, d.CancelOffer("no more"))
				s.board.Post(d.Acceptor.Signer, epoch+1000, d.Accept)
				room.Post(d.Payer, epoch+10_000, d.Lock())
				return rooms(d, room)
			},
			fate:  cancelled,
			steps: []string{"+offer", "+cancel", "-accept wrong-status", "-lock wrong-room cascade"},
			lacks: []fold.Code{fold.CancelNamesNoOffer, fold.WrongRoom},
			check: func(t *testing.T, _ *scene, c *fold.Contract) {
				if c.Binding != fold.BindingNone || c.Outlook.Code != fold.CancelledEnd {
					t.Errorf("binding %q, outlook %s", c.Binding, c.Outlook.Code)
				}
				if s := c.Steps[1]; s.Room != protocol.BoardRoom || s.Seq != 2 {
					t.Errorf("the cancel stands at %s %d", s.Room, s.Seq)
				}
				f := found(c, fold.RulesDiverge)
				if len(f) != 1 || f[0].Detail != "status cancelled under spec, locked under the reference's rules" {
					t.Errorf("%+v", f)
				}
			},
		},
		{
			name:  "the reference does not see the board's cancel",
			rules: fold.Rules{Reference: true},
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := offered(s)
				s.board.Post(d.Offerer.Signer, epoch+500, d.CancelOffer(""))
				s.board.Post(d.Acceptor.Signer, epoch+1000, d.Accept)
				room.Post(d.Payer, epoch+10_000, d.Lock())
				return rooms(d, room)
			},
			fate:  fate{protocol.Locked, fold.Complete, fold.Open},
			steps: []string{"+offer", "+accept", "+lock"},
			lacks: []fold.Code{fold.RulesDiverge},
		},
		{
			name: "receipts for a cancelled offer",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := offered(s)
				receipt := &protocol.Receipt{From: d.Offerer.DID, Contract: d.Offer.ID, Outcome: protocol.Cancelled}
				s.board.Post(d.Offerer.Signer, epoch+400, receipt) // too early
				s.board.Post(d.Offerer.Signer, epoch+500, d.CancelOffer(""))
				stranger := *receipt
				stranger.From = s.stranger(0).DID
				s.board.Post(s.stranger(0), epoch+600, &stranger)
				claimed, railed := *receipt, *receipt
				claimed.Outcome, railed.Rail = protocol.Claimed, "paper"
				s.board.Post(d.Offerer.Signer, epoch+700, &claimed)
				s.board.Post(d.Offerer.Signer, epoch+800, &railed)
				s.board.PostText(d.Offerer.Signer, epoch+900, protocol.CanonicalLine(receipt))
				s.board.Post(d.Acceptor.Signer, epoch+1000, d.Accept)
				return rooms(d, room)
			},
			fate:  cancelled,
			steps: []string{"+offer", "+cancel", "-accept wrong-status", "+receipt"},
			check: func(t *testing.T, s *scene, c *fold.Contract) {
				if len(c.Receipts) != 1 || c.Receipts[0].Seq != 7 || c.Receipts[0].Room != protocol.BoardRoom || c.Receipts[0].Outcome != protocol.Cancelled {
					t.Errorf("receipts %+v", c.Receipts)
				}
				sum := s.audit().Summary()
				for _, r := range []protocol.Reason{protocol.NotTerminal, protocol.NotParty, protocol.OutcomeMismatch, protocol.ReceiptRailOnCancelled} {
					if sum.Rejected[r] != 1 {
						t.Errorf("%d receipts refused as %s, want 1", sum.Rejected[r], r)
					}
				}
			},
		},
		{
			name: "the offerer cancels its offer after an accept",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.opened(testkit.Terms{})
				s.board.Post(d.Offerer.Signer, epoch+1500, d.CancelOffer(""))
				late := d.Rival(s.keys.Party(2))
				s.board.Post(late.Acceptor.Signer, epoch+2000, late.Accept)
				return d, []*testkit.Room{room, late.NewRoom()}
			},
			fate:  open,
			steps: []string{"+offer", "+accept"},
			check: func(t *testing.T, s *scene, c *fold.Contract) {
				if c.Binding != fold.Bound {
					t.Errorf("binding %q", c.Binding)
				}
				n := 0
				for o := range s.audit().Contracts() {
					if o.ID != c.ID {
						n++
						wantFate(t, o, protocol.Cancelled, fold.Complete, fold.Established)
						wantSteps(t, o, "+offer", "+cancel", "-accept wrong-status")
					}
				}
				if n != 1 {
					t.Errorf("%d later accepts are listed, want 1", n)
				}
			},
		},
		{
			name: "the acceptor-to-be cancels the offer",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := offered(s)
				s.board.Post(d.Acceptor.Signer, epoch+500, &protocol.Cancel{From: d.Acceptor.DID, Contract: d.Offer.ID})
				s.board.Post(d.Acceptor.Signer, epoch+1000, d.Accept)
				return rooms(d, room)
			},
			fate: open,
		},
		{
			name: "a cancel of the offer under the offerer's name",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := offered(s)
				s.board.Post(s.stranger(0), epoch+500, d.CancelOffer(""))
				s.board.Post(d.Acceptor.Signer, epoch+1000, d.Accept)
				return rooms(d, room)
			},
			fate: open,
		},
		{
			name: "a cancel of the offer in a deal room",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.opened(testkit.Terms{})
				room.Post(d.Offerer.Signer, epoch+2000, d.CancelOffer(""))
				return rooms(d, room)
			},
			fate:  open,
			steps: []string{"+offer", "+accept", "-cancel other-contract"},
		},
		{
			name: "a party cancels the contract on the board",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.opened(testkit.Terms{})
				s.board.Post(d.Payee, epoch+2000, d.Cancel(d.Payee, ""))
				return rooms(d, room)
			},
			fate:  open,
			finds: []find{{fold.CancelNamesNoOffer, fold.Notice}, {fold.WrongRoom, fold.Info}},
			check: func(t *testing.T, _ *scene, c *fold.Contract) {
				if c.Shadow != protocol.Cancelled {
					t.Errorf("shadow %q", c.Shadow)
				}
			},
		},
		{
			name: "the payee cancels the contract in its deal room",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.opened(testkit.Terms{})
				room.Post(d.Payee, epoch+2000, d.Cancel(d.Payee, ""))
				room.Post(d.Payer, epoch+3000, d.Lock())
				room.Post(d.Payer, epoch+4000, d.Receipt(d.Payer, protocol.Cancelled))
				return rooms(d, room)
			},
			fate:  cancelled,
			steps: []string{"+offer", "+accept", "+cancel", "-lock wrong-status", "+receipt"},
			lacks: []fold.Code{fold.CancelNamesNoOffer, fold.Equivocation},
		},
		{
			name: "a cancel after the lock",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.locked()
				room.Post(d.Payee, epoch+12_000, d.Cancel(d.Payee, ""))
				return rooms(d, room)
			},
			fate:  fate{protocol.Locked, fold.Complete, fold.Open},
			steps: []string{"+offer", "+accept", "+lock", "-cancel wrong-status"},
		},
	})
}

// A cancel that closes no open offer of its sender is reported and refused.
func TestCancelsThatNameNoOffer(t *testing.T) {
	for _, tc := range []struct {
		name   string
		cancel func(s *scene, d *testkit.Deal)
		reason protocol.Reason
	}{
		{"an unknown id", func(s *scene, d *testkit.Deal) {
			s.board.Post(d.Offerer.Signer, epoch+500, &protocol.Cancel{From: d.Offerer.DID, Contract: otherID})
		}, protocol.NoContract},
		{"another's offer", func(s *scene, d *testkit.Deal) {
			s.board.Post(s.stranger(0), epoch+500, &protocol.Cancel{From: s.stranger(0).DID, Contract: d.Offer.ID})
		}, protocol.NotParty},
		{"an offer that is cancelled", func(s *scene, d *testkit.Deal) {
			s.board.Post(d.Offerer.Signer, epoch+500, d.CancelOffer(""))
			s.board.Post(d.Offerer.Signer, epoch+600, d.CancelOffer("again"))
		}, protocol.WrongStatus},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene()
			d, _ := s.deal(testkit.Terms{})
			s.board.Post(d.Offerer.Signer, epoch, d.Offer)
			tc.cancel(s, d)
			a := s.audit()
			n := 0
			for _, f := range a.Findings() {
				if f.Code == fold.CancelNamesNoOffer {
					n++
					if f.Severity != fold.Notice || *f.Seq != s.board.Seq {
						t.Errorf("%+v", f)
					}
				}
			}
			if n != 1 || a.Summary().Rejected[tc.reason] != 1 {
				t.Errorf("%d findings, %d refused as %s; want one each", n, a.Summary().Rejected[tc.reason], tc.reason)
			}
		})
	}
}

// Offers are counted by what became of them.
func TestOfferCounts(t *testing.T) {
	s := newScene()
	s.opened(testkit.Terms{})
	gone, _ := s.deal(testkit.Terms{})
	s.board.Post(gone.Offerer.Signer, epoch+1500, gone.Offer)
	s.board.Post(gone.Offerer.Signer, epoch+1600, gone.CancelOffer(""))
	idle, _ := s.deal(testkit.Terms{})
	s.board.Post(idle.Offerer.Signer, epoch+1700, idle.Offer)
	short, _ := s.deal(testkit.Terms{Expires: 1})
	s.board.Post(short.Offerer.Signer, epoch+1800, short.Offer)
	want := fold.OfferCounts{Total: 4, Proposed: 1, Bound: 1, Cancelled: 1, Expired: 1}
	if got := s.audit().Summary().Offers; got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
