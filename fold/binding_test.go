package fold_test

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/internal/testkit"
	"github.com/tclk-audit/tclk-audit/protocol"
)

// race is two accepts of one offer, the first one second.
func (s *scene) race() (first, second *testkit.Deal) {
	first, _ = s.opened(testkit.Terms{})
	second = first.Rival(s.keys.Party(2))
	s.board.Post(second.Acceptor.Signer, epoch+2000, second.Accept)
	return first, second
}

// bond is what the audit says of a contract among its offer's accepts.
type bond struct {
	Status  protocol.Status
	Binding fold.Binding
	BoundTo protocol.ID
	Chosen  bool
}

func bonds(t *testing.T, a *fold.Auditor, deals ...*testkit.Deal) (list []bond) {
	t.Helper()
	for _, d := range deals {
		c := one(t, a, d)
		list = append(list, bond{c.Status, c.Binding, c.BoundTo, c.Chosen})
	}
	return list
}

func wantBonds(t *testing.T, got []bond, want ...bond) {
	t.Helper()
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("bindings (-want +got):\n%s", diff)
	}
}

// The first valid accept is bound, later ones are superseded; the payer may
// lock either, and the only one it locks is chosen.
func TestCompetingAccepts(t *testing.T) {
	t.Run("no lock", func(t *testing.T) {
		s := newScene()
		x, y := s.race()
		a := s.audit(x.NewRoom(), y.NewRoom())
		wantBonds(t, bonds(t, a, x, y), bond{protocol.Accepted, fold.Bound, protocol.ID{}, false}, bond{protocol.Accepted, fold.Superseded, x.ID(), false})
		wantFinding(t, one(t, a, y), fold.SupersededAccept, fold.Info)
		wantNoFinding(t, one(t, a, x), fold.SupersededAccept, fold.LockOnSuperseded)
		if o := a.Summary().Offers; o != (fold.OfferCounts{Total: 1, Bound: 1}) {
			t.Errorf("offers %+v", o)
		}
	})
	t.Run("a lock on the bound one", func(t *testing.T) {
		s := newScene()
		x, y := s.race()
		room := x.NewRoom()
		room.Post(x.Payer, epoch+10_000, x.Lock())
		a := s.audit(room, y.NewRoom())
		wantBonds(t, bonds(t, a, x, y), bond{protocol.Locked, fold.Bound, protocol.ID{}, true}, bond{protocol.Accepted, fold.Superseded, x.ID(), false})
	})
	t.Run("a lock on the superseded one", func(t *testing.T) {
		s := newScene()
		x, y := s.race()
		room := y.NewRoom()
		room.Post(y.Payer, epoch+10_000, y.Lock())
		a := s.audit(x.NewRoom(), room)
		wantBonds(t, bonds(t, a, x, y), bond{protocol.Accepted, fold.Bound, protocol.ID{}, false}, bond{protocol.Locked, fold.Superseded, x.ID(), true})
		wantFinding(t, one(t, a, y), fold.LockOnSuperseded, fold.Notice)
	})
	t.Run("one payer locks both", func(t *testing.T) {
		s := newScene()
		x, y := s.race()
		rx, ry := x.NewRoom(), y.NewRoom()
		rx.Post(x.Payer, epoch+10_000, x.Lock())
		ry.Post(y.Payer, epoch+11_000, y.Lock())
		a := s.audit(rx, ry)
		wantBonds(t, bonds(t, a, x, y), bond{protocol.Locked, fold.Bound, protocol.ID{}, false}, bond{protocol.Locked, fold.Superseded, x.ID(), false})
		wantFinding(t, one(t, a, y), fold.LockOnSuperseded, fold.Anomaly)
		wantFate(t, one(t, a, y), protocol.Locked, fold.Complete, fold.Open)
	})
	t.Run("two payers lock their own", func(t *testing.T) {
		s := newScene()
		x, _ := s.opened(testkit.Terms{Role: protocol.RolePayee})
		y := x.Rival(s.keys.Party(2))
		s.board.Post(y.Acceptor.Signer, epoch+2000, y.Accept)
		rx, ry := x.NewRoom(), y.NewRoom()
		rx.Post(x.Payer, epoch+10_000, x.Lock())
		ry.Post(y.Payer, epoch+11_000, y.Lock())
		wantFinding(t, one(t, s.audit(rx, ry), y), fold.LockOnSuperseded, fold.Notice)
	})
	t.Run("first-accept", func(t *testing.T) {
		s := newScene()
		s.opts.Rules.FirstAccept = true
		x, y := s.race()
		room := y.NewRoom()
		room.Post(y.Payer, epoch+10_000, y.Lock())
		a := s.audit(x.NewRoom(), room)
		wantBonds(t, bonds(t, a, x, y), bond{protocol.Accepted, fold.Bound, protocol.ID{}, false}, bond{protocol.Proposed, fold.Superseded, x.ID(), false})
		wantSteps(t, one(t, a, y), "+offer", "-accept wrong-status", "-lock wrong-room cascade")
		if d := one(t, a, y).Steps[1].Detail; d != "accept in status accepted" {
			t.Errorf("the accept is refused with %q", d)
		}
	})
	t.Run("one acceptor accepts twice", func(t *testing.T) {
		s := newScene()
		x, _ := s.opened(testkit.Terms{})
		y := x.Rival(x.Acceptor)
		s.board.Post(y.Acceptor.Signer, epoch+2000, y.Accept)
		a := s.audit(x.NewRoom(), y.NewRoom())
		wantBonds(t, bonds(t, a, x, y), bond{protocol.Accepted, fold.Bound, protocol.ID{}, false}, bond{protocol.Accepted, fold.Superseded, x.ID(), false})
	})
	t.Run("a late accept binds nothing and blocks nobody", func(t *testing.T) {
		s := newScene()
		x, room := s.deal(testkit.Terms{})
		y := x.Rival(s.keys.Party(2))
		s.board.Post(x.Offerer.Signer, epoch, x.Offer)
		s.board.Post(x.Acceptor.Signer, expires, x.Accept)
		s.board.Post(y.Acceptor.Signer, expires-1, y.Accept) // the venue's time goes back a little
		room.Post(x.Payer, expires+1000, x.Lock())
		a := s.audit(room, y.NewRoom())
		wantBonds(t, bonds(t, a, x, y), bond{protocol.Proposed, fold.BindingNone, protocol.ID{}, false}, bond{protocol.Accepted, fold.Bound, protocol.ID{}, false})
		c := one(t, a, x)
		wantSteps(t, c, "+offer", "-accept offer-expired", "-lock wrong-room cascade")
		wantFate(t, c, protocol.Proposed, fold.Complete, fold.Open)
		if m := c.Steps[1].MarginMs; m == nil || *m != 0 {
			t.Errorf("the late accept's margin is %v, want 0", m)
		}
		if at := c.Steps[2].CascadeOf; at == nil || *at != c.Steps[1].Record {
			t.Error("the lock's refusal does not go back to the accept")
		}
	})
	t.Run("a contract id that does not derive opens nothing and blocks nobody", func(t *testing.T) {
		s := newScene()
		x, _ := s.deal(testkit.Terms{})
		y := x.Rival(s.keys.Party(2))
		s.board.Post(x.Offerer.Signer, epoch, x.Offer)
		wrong := *y.Accept
		wrong.Contract = x.ID() // claims the other's contract
		s.board.Post(y.Acceptor.Signer, epoch+500, &wrong)
		s.board.Post(x.Acceptor.Signer, epoch+1000, x.Accept)
		a := s.audit(x.NewRoom())
		wantBonds(t, bonds(t, a, x), bond{protocol.Accepted, fold.Bound, protocol.ID{}, false})
		if n := a.Summary().Contracts; n != 1 {
			t.Errorf("%d contracts, want 1", n)
		}
		if n := a.Summary().Rejected[protocol.ContractIDMismatch]; n != 1 {
			t.Errorf("%d accepts with a wrong contract id, want 1", n)
		}
	})
	t.Run("the accept again is a replay", func(t *testing.T) {
		s := newScene()
		x, _ := s.opened(testkit.Terms{})
		s.board.Replay(s.board.Rows[1], epoch+2000)
		s.board.PostText(x.Acceptor.Signer, epoch+3000, protocol.CanonicalLine(x.Accept))
		a := s.audit(x.NewRoom())
		wantBonds(t, bonds(t, a, x), bond{protocol.Accepted, fold.Bound, protocol.ID{}, false})
		if n := a.Summary().Rejected[protocol.WrongStatus]; n != 2 {
			t.Errorf("%d accepts of an open contract, want 2", n)
		}
		if n := a.Summary().Duplicate; n != 1 {
			t.Errorf("%d duplicates, want the one replay", n)
		}
	})
	t.Run("the offer again is a replay", func(t *testing.T) {
		s := newScene()
		x, _ := s.opened(testkit.Terms{})
		s.board.PostText(x.Offerer.Signer, epoch+3000, protocol.CanonicalLine(x.Offer))
		a := s.audit(x.NewRoom())
		if c := one(t, a, x); c.Steps[0].Seq != 1 {
			t.Errorf("the offer's row is seq %d, want the first", c.Steps[0].Seq)
		}
		if n := a.Summary().Rejected[protocol.AlreadyOpen]; n != 1 {
			t.Errorf("%d offers that are open already, want 1", n)
		}
	})
	t.Run("another's copy of the offer is not the offer", func(t *testing.T) {
		s := newScene()
		x, _ := s.deal(testkit.Terms{})
		s.board.Post(s.stranger(0), epoch-1000, x.Offer)
		x.Open(s.board, epoch)
		a := s.audit(x.NewRoom())
		if c := one(t, a, x); c.Steps[0].Seq != 2 || c.Steps[0].From != x.Offerer.DID {
			t.Errorf("the offer's row is %+v", c.Steps[0])
		}
		if n := a.Summary().Rejected[protocol.SenderMismatch]; n != 1 {
			t.Errorf("%d frames under another's name, want 1", n)
		}
	})
	t.Run("the offerer's own accept", func(t *testing.T) {
		s := newScene()
		x, _ := s.deal(testkit.Terms{})
		own := x.Rival(x.Offerer)
		s.board.Post(x.Offerer.Signer, epoch, x.Offer)
		s.board.Post(x.Offerer.Signer, epoch+500, own.Accept)
		a := s.audit()
		if a.Contract(own.ID()) != nil || a.Summary().Rejected[protocol.OwnOffer] != 1 {
			t.Error("an accept of one's own offer opened a contract")
		}
		if o := a.Summary().Offers; o != (fold.OfferCounts{Total: 1, Proposed: 1}) {
			t.Errorf("offers %+v", o)
		}
	})
}

// An accept that stands before its offer. Where the board's beginning is in
// sight, it opened nothing; where it is not, the offer's first row may be lost.
func TestAcceptBeforeItsOffer(t *testing.T) {
	post := func(skip uint64, again bool) (*scene, *testkit.Deal, *fold.Auditor) {
		s := newScene()
		d, room := s.deal(testkit.Terms{})
		s.board.Skip(skip)
		s.board.Post(d.Acceptor.Signer, epoch, d.Accept)
		s.board.Post(d.Offerer.Signer, epoch+1000, d.Offer)
		if again {
			s.board.PostText(d.Acceptor.Signer, epoch+2000, protocol.CanonicalLine(d.Accept))
		}
		return s, d, s.audit(room)
	}
	t.Run("board from its first row", func(t *testing.T) {
		_, d, a := post(0, false)
		if a.Contract(d.ID()) != nil {
			t.Error("a contract is listed")
		}
		if n := a.Summary().Rejected[protocol.NoContract]; n != 1 {
			t.Errorf("%d accepts without an offer, want 1", n)
		}
		if o := a.Summary().Offers; o != (fold.OfferCounts{Total: 1, Proposed: 1}) {
			t.Errorf("offers %+v", o)
		}
	})
	t.Run("and posted again after it", func(t *testing.T) {
		_, d, a := post(0, true)
		c := one(t, a, d)
		wantFate(t, c, protocol.Accepted, fold.Complete, fold.Open)
		if c.Steps[1].Seq != 3 {
			t.Errorf("the accept's row is seq %d, want the one after the offer", c.Steps[1].Seq)
		}
	})
	t.Run("board that begins in mid-ring", func(t *testing.T) {
		_, d, a := post(1000, false)
		c := one(t, a, d)
		wantFate(t, c, protocol.StatusNone, fold.Incomplete, fold.Indeterminate)
		wantFinding(t, c, fold.OfferNotInSight, fold.Info)
	})
	t.Run("mid-ring, and posted again after it", func(t *testing.T) {
		_, d, a := post(1000, true)
		c := one(t, a, d)
		if c.Status != protocol.Accepted || c.Verdict != fold.Indeterminate {
			t.Errorf("%s, %s: the offer that the first accept answered may be lost", c.Status, c.Verdict)
		}
		if n := a.Summary().Contracts; n != 1 {
			t.Errorf("%d contracts, want 1", n)
		}
	})
}

// What an offer's terms say of every contract on it, whatever follows.
func TestTermsFindings(t *testing.T) {
	tell(t, []story{
		{
			name: "the payee opened",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				return rooms(s.opened(testkit.Terms{Role: protocol.RolePayee}))
			},
			fate:  fate{protocol.Accepted, fold.Complete, fold.Open},
			finds: []find{{fold.PayerMinted, fold.Notice}},
			check: func(t *testing.T, s *scene, c *fold.Contract) {
				if c.Payer != s.payee().DID || c.Payee != s.payer().DID {
					t.Error("the acceptor of a payee's offer is the payer")
				}
			},
		},
		{
			name:  "the payer opened",
			post:  func(s *scene) (*testkit.Deal, []*testkit.Room) { return rooms(s.opened(testkit.Terms{})) },
			fate:  fate{protocol.Accepted, fold.Complete, fold.Open},
			lacks: []fold.Code{fold.PayerMinted, fold.LapsedAtBirth, fold.NoValueRail},
		},
		{
			name: "accepted when the refund window is open",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.deal(testkit.Terms{Expires: 5_000_000})
				s.board.Post(d.Offerer.Signer, epoch, d.Offer)
				s.board.Post(d.Acceptor.Signer, refundA, d.Accept)
				room.Post(d.Payer, refundA+1, d.Lock())
				return rooms(d, room)
			},
			fate:  fate{protocol.Accepted, fold.Complete, fold.Open},
			steps: []string{"+offer", "+accept", "-lock refund-window-open"},
			finds: []find{{fold.LapsedAtBirth, fold.Notice}},
			check: func(t *testing.T, _ *scene, c *fold.Contract) {
				if c.Outlook.Code != fold.Lapsed {
					t.Errorf("outlook %s", c.Outlook.Code)
				}
			},
		},
		{
			name: "accepted just before the refund window opens",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.deal(testkit.Terms{Expires: 5_000_000})
				s.board.Post(d.Offerer.Signer, epoch, d.Offer)
				s.board.Post(d.Acceptor.Signer, refundA-1, d.Accept)
				return rooms(d, room)
			},
			fate:  fate{protocol.Accepted, fold.Complete, fold.Open},
			lacks: []fold.Code{fold.LapsedAtBirth},
		},
	})
}

// A rail that moves nothing of value is never taken for settlement.
func TestSettlement(t *testing.T) {
	for _, tc := range []struct {
		rail string
		want fold.Settlement
	}{
		{"paper", fold.NoValue}, {"PaperRail", fold.NoValue}, {"memory", fold.NoValue},
		{"flop-htlc", fold.Unverified}, {"x402", fold.Unverified}, {"old.rail", fold.Unverified},
	} {
		s := newScene()
		d, room := s.opened(testkit.Terms{Rails: []string{tc.rail}})
		if c := one(t, s.audit(room), d); c.Settlement != fold.SettlementNone || c.Rail != "" || c.Presig != "" {
			t.Errorf("%s, no lock: settlement %s", tc.rail, c.Settlement)
		}
		room.Post(d.Payer, epoch+10_000, d.Lock())
		room.Post(d.Payee, epoch+20_000, d.Reveal())
		c := one(t, s.audit(room), d)
		if c.Settlement != tc.want || c.Rail != tc.rail || c.RailRef != d.Ref || c.Presig != "absent" {
			t.Errorf("%s: settlement %s, rail %q, presig %q", tc.rail, c.Settlement, c.Rail, c.Presig)
		}
		if n := len(found(c, fold.NoValueRail)); (n == 1) != (tc.want == fold.NoValue) {
			t.Errorf("%s: %d findings no-value-rail", tc.rail, n)
		}
	}
}

// A pre-signature is reported as present or absent; it is never a guard.
func TestPreSignatureIsNoGuard(t *testing.T) {
	s := newScene()
	d, room := s.opened(testkit.Terms{Lock: protocol.LockPoint})
	l := d.PresignedLock([]byte("claim"))
	l.Presig.S[5] ^= 1
	room.Post(d.Payer, epoch+10_000, l)
	room.Post(d.Payee, epoch+20_000, d.Reveal())
	c := one(t, s.audit(room), d)
	wantFate(t, c, protocol.Claimed, fold.Complete, fold.Established)
	if c.Presig != "present" || c.PreSignature == nil || *c.PreSignature != *l.Presig {
		t.Errorf("presig %q %+v", c.Presig, c.PreSignature)
	}
}
