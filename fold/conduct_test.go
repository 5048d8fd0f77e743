package fold_test

import (
	"testing"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/internal/testkit"
	"github.com/tclk-audit/tclk-audit/protocol"
)

// A secret in sight exposes every contract with its statement, also one whose
// accept stands after the reveal.
func TestExposureReachesLaterAccepts(t *testing.T) {
	s := newScene()
	d, room := s.opened(testkit.Terms{})
	s.board.Post(d.Payer, epoch+10_000, d.Lock())
	s.board.Post(d.Payee, epoch+20_000, d.Reveal()) // in the wrong room, but in sight
	other := testkit.NewDeal(s.rand, s.keys.Party(3), s.keys.Party(4), testkit.Terms{})
	other.Accept.Statement = d.Accept.Statement
	other.Seal()
	other.Open(s.board, epoch+30_000)
	deals := other.NewRoom()
	deals.Post(other.Payer, epoch+40_000, other.Lock())
	a := s.audit(room, deals)
	if len(found(one(t, a, d), fold.SecretExposed)) == 0 {
		t.Error("the first contract's secret is in sight")
	}
	wantFinding(t, one(t, a, other), fold.SecretExposed, fold.Anomaly)
}

// One signer's frames that cannot both be true.
func TestEquivocation(t *testing.T) {
	relock := func(change func(*protocol.Lock)) func(s *scene) (*testkit.Deal, []*testkit.Room) {
		return func(s *scene) (*testkit.Deal, []*testkit.Room) {
			d, _ := s.deal(testkit.Terms{Rails: []string{"paper", "x402"}})
			d.Open(s.board, epoch)
			room := d.NewRoom()
			room.Post(d.Payer, epoch+10_000, d.Lock())
			l := d.Lock()
			change(l)
			room.PostText(d.Payer, epoch+11_000, protocol.CanonicalLine(l))
			return rooms(d, room)
		}
	}
	locked := fate{protocol.Locked, fold.Complete, fold.Open}
	claimed := fate{protocol.Claimed, fold.Complete, fold.Established}
	yes := []find{{fold.Equivocation, fold.Anomaly}}
	no := []fold.Code{fold.Equivocation}
	receipts := func(second func(*protocol.Receipt)) func(s *scene) (*testkit.Deal, []*testkit.Room) {
		return func(s *scene) (*testkit.Deal, []*testkit.Room) {
			d, room := s.claimed()
			room.Post(d.Payer, epoch+30_000, d.Receipt(d.Payer, protocol.Claimed))
			r := d.Receipt(d.Payer, protocol.Claimed)
			second(r)
			room.PostText(d.Payer, epoch+31_000, protocol.CanonicalLine(r))
			return rooms(d, room)
		}
	}
	tell(t, []story{
		{name: "two locks with two refs", post: relock(func(l *protocol.Lock) { l.Ref = "other" }), fate: locked, finds: yes},
		{name: "two locks on two rails", post: relock(func(l *protocol.Lock) { l.Rail = "x402" }), fate: locked, finds: yes},
		{name: "the lock again", post: relock(func(*protocol.Lock) {}), fate: locked, lacks: no},
		{name: "the lock again, its rail in another spelling", post: relock(func(l *protocol.Lock) { l.Rail = "PaperRail" }), fate: locked, lacks: no},
		{
			name: "a reveal and a cancel",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.claimed()
				room.Post(d.Payee, epoch+30_000, d.Cancel(d.Payee, ""))
				return rooms(d, room)
			},
			fate: claimed, finds: yes,
		},
		{
			name: "a cancel in one room and a lock in the other",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.locked()
				s.board.Post(d.Payer, epoch+11_000, d.Cancel(d.Payer, ""))
				return rooms(d, room)
			},
			fate: locked, finds: yes,
		},
		{
			name: "one party cancels, the other locks",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.locked()
				room.Post(d.Payee, epoch+11_000, d.Cancel(d.Payee, ""))
				return rooms(d, room)
			},
			fate: locked, lacks: no,
		},
		{
			name: "a wrong and then the right secret",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.locked()
				wrong := d.Reveal()
				wrong.Secret[0] ^= 1
				room.Post(d.Payee, epoch+11_000, wrong)
				room.Post(d.Payee, epoch+20_000, d.Reveal())
				return rooms(d, room)
			},
			fate: claimed, lacks: no,
			steps: []string{"+offer", "+accept", "+lock", "-reveal wrong-secret", "+reveal"},
		},
		{name: "two receipts with two outcomes", post: receipts(func(r *protocol.Receipt) { r.Outcome = protocol.Refunded }), fate: claimed, finds: yes},
		{name: "two receipts on two rails", post: receipts(func(r *protocol.Receipt) { r.Rail = "x402" }), fate: claimed, finds: yes},
		{name: "two receipts with two refs", post: receipts(func(r *protocol.Receipt) { r.Ref = "other" }), fate: claimed, finds: yes},
		{name: "the receipt again, without rail and ref", post: receipts(func(r *protocol.Receipt) { r.Rail, r.Ref = "", "" }), fate: claimed, lacks: no},
		{
			name: "a refund after the reveal is refused, and no equivocation",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.claimed()
				room.Post(d.Payer, refundA, d.Refund())
				return rooms(d, room)
			},
			fate: claimed, lacks: no,
			steps: []string{"+offer", "+accept", "+lock", "+reveal", "-refund wrong-status"},
		},
		{
			name: "a stranger's two locks",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.opened(testkit.Terms{})
				for _, ref := range []string{"a", "b"} {
					l := d.Lock()
					l.From, l.Ref = s.stranger(0).DID, ref
					room.Post(s.stranger(0), epoch+10_000, l)
				}
				return rooms(d, room)
			},
			fate: fate{protocol.Accepted, fold.Complete, fold.Open}, lacks: no,
		},
		{
			name: "a party's frames for two contracts",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.locked()
				other := d.Rival(s.keys.Party(2))
				s.board.Post(other.Acceptor.Signer, epoch+2000, other.Accept)
				r := other.NewRoom()
				r.Post(d.Payer, epoch+11_000, other.Cancel(d.Payer, ""))
				return d, []*testkit.Room{room, r}
			},
			fate: locked, lacks: no,
		},
	})
}

// The secret of a contract that is not claimed stands in sight.
func TestSecretExposed(t *testing.T) {
	tell(t, []story{
		{
			name: "a reveal before the lock",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.opened(testkit.Terms{})
				room.Post(d.Payee, epoch+5_000, d.Reveal())
				room.Post(d.Payer, epoch+10_000, d.Lock())
				return rooms(d, room)
			},
			fate:  fate{protocol.Locked, fold.Complete, fold.Open},
			finds: []find{{fold.SecretExposed, fold.Anomaly}},
		},
		{
			name: "a reveal that is refused too late",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.locked()
				room.Post(d.Payee, refundA, d.Reveal())
				room.Post(d.Payer, refundA+1, d.Refund())
				return rooms(d, room)
			},
			fate:  fate{protocol.Refunded, fold.Complete, fold.Established},
			finds: []find{{fold.SecretExposed, fold.Notice}},
		},
		{
			name: "a point lock's witness on the board",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.opened(testkit.Terms{Lock: protocol.LockPoint})
				room.Post(d.Payer, epoch+10_000, d.Lock())
				s.board.Post(d.Payee, epoch+20_000, d.Reveal())
				return rooms(d, room)
			},
			fate:  fate{protocol.Locked, fold.Complete, fold.Open},
			finds: []find{{fold.SecretExposed, fold.Anomaly}},
		},
		{
			name: "a stranger reveals it",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.locked()
				room.Post(s.stranger(0), epoch+11_000, underName(d.Reveal(), s.stranger(0).DID))
				return rooms(d, room)
			},
			fate:  fate{protocol.Locked, fold.Complete, fold.Open},
			finds: []find{{fold.SecretExposed, fold.Anomaly}},
		},
		{
			name: "a wrong secret",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.locked()
				r := d.Reveal()
				r.Secret[0] ^= 1
				room.Post(d.Payee, epoch+11_000, r)
				return rooms(d, room)
			},
			fate:  fate{protocol.Locked, fold.Complete, fold.Open},
			lacks: []fold.Code{fold.SecretExposed},
		},
		{
			name:  "claimed",
			post:  func(s *scene) (*testkit.Deal, []*testkit.Room) { return rooms(s.claimed()) },
			fate:  fate{protocol.Claimed, fold.Complete, fold.Established},
			lacks: []fold.Code{fold.SecretExposed},
		},
		{
			name: "one secret opens two legs, and one is claimed",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.locked()
				leg := testkit.NewDeal(s.rand, s.keys.Party(3), s.keys.Party(4), testkit.Terms{})
				leg.Accept.Statement, leg.Secret = d.Accept.Statement, d.Secret
				leg.Seal()
				leg.Open(s.board, epoch+1_500)
				r := leg.NewRoom()
				r.Post(leg.Payer, epoch+10_000, leg.Lock())
				r.Post(leg.Payee, epoch+20_000, leg.Reveal())
				return d, []*testkit.Room{room, r}
			},
			fate:  fate{protocol.Locked, fold.Complete, fold.Open},
			finds: []find{{fold.SecretExposed, fold.Notice}, {fold.SharedKeyOrStatement, fold.Info}},
		},
	})
}

// Keys and statements can be copied: it is said, and nothing follows from it.
func TestSharedKeysAndStatements(t *testing.T) {
	tell(t, []story{
		{
			name: "both sides name one key",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, _ := s.deal(testkit.Terms{Lock: protocol.LockPoint})
				d.Accept.PaymentKey = d.Offer.PaymentKey
				d.Seal()
				d.Open(s.board, epoch)
				return rooms(d, d.NewRoom())
			},
			fate:  fate{protocol.Accepted, fold.Complete, fold.Open},
			finds: []find{{fold.SharedKeyOrStatement, fold.Info}},
		},
		{
			name: "a stranger copies the payee's key",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.opened(testkit.Terms{Lock: protocol.LockPoint})
				other := testkit.NewDeal(s.rand, s.keys.Party(3), s.keys.Party(4), testkit.Terms{Lock: protocol.LockPoint})
				other.Accept.PaymentKey = d.Accept.PaymentKey
				other.Seal()
				other.Open(s.board, epoch+3000)
				return d, []*testkit.Room{room, other.NewRoom()}
			},
			fate:  fate{protocol.Accepted, fold.Complete, fold.Open},
			finds: []find{{fold.SharedKeyOrStatement, fold.Info}},
		},
		{
			name: "other keys, other statements",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.opened(testkit.Terms{Lock: protocol.LockPoint})
				other := testkit.NewDeal(s.rand, s.keys.Party(3), s.keys.Party(4), testkit.Terms{Lock: protocol.LockPoint})
				other.Open(s.board, epoch+3000)
				return d, []*testkit.Room{room, other.NewRoom()}
			},
			fate:  fate{protocol.Accepted, fold.Complete, fold.Open},
			lacks: []fold.Code{fold.SharedKeyOrStatement},
		},
	})
}

// A claim after claimByMs counts, and says so.
func TestLateReveal(t *testing.T) {
	for _, late := range []int64{0, 1} {
		s := newScene()
		d, room := s.locked()
		room.Post(d.Payee, claimBy+late, d.Reveal())
		c := one(t, s.audit(room), d)
		wantFate(t, c, protocol.Claimed, fold.Complete, fold.Established)
		if c.Late != (late > 0) || len(found(c, fold.LateReveal)) != int(late) {
			t.Errorf("%d ms after claimByMs: late %v, %d findings", late, c.Late, len(found(c, fold.LateReveal)))
		}
	}
}

// A line in another spelling of itself counts, and says so.
func TestNoncanonicalLine(t *testing.T) {
	s := newScene()
	d, room := s.locked()
	line := protocol.CanonicalLine(d.Reveal())
	room.PostText(d.Payee, epoch+20_000, line[:7]+" "+line[7:])
	c := one(t, s.audit(room), d)
	wantFate(t, c, protocol.Claimed, fold.Complete, fold.Established)
	if f := wantFinding(t, c, fold.NoncanonicalLine, fold.Info); *f.Seq != 2 {
		t.Errorf("%+v", f)
	}
}

// Where the reference would end a contract otherwise, both ends are named; what
// the rules in force say stands.
func TestRulesDiverge(t *testing.T) {
	// twice has a member twice, with its last value right: the reference reads it.
	twice := func(d *testkit.Deal) string {
		return `tclk1 {"contract":"` + d.ID().String() + `","from":"` + d.Payer.DID + `","rail":"x","rail":"flop-htlc","ref":"` + d.Ref + `","type":"lock"}`
	}
	tell(t, []story{
		{
			name: "a lock with a member twice",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.opened(testkit.Terms{})
				room.PostText(d.Payer, epoch+10_000, twice(d))
				return rooms(d, room)
			},
			fate:  fate{protocol.Accepted, fold.Complete, fold.Open},
			finds: []find{{fold.RulesDiverge, fold.Notice}},
			check: func(t *testing.T, _ *scene, c *fold.Contract) {
				if d := found(c, fold.RulesDiverge)[0].Detail; d != "status accepted under spec, locked under the reference's rules" {
					t.Error(d)
				}
				if s := c.Steps[2]; s.Reason != protocol.DuplicateMember || s.Rail != "" || s.Type != protocol.TypeNone {
					t.Errorf("%+v", c.Steps[2])
				}
			},
		},
		{
			name:  "the reference's rules read it",
			rules: fold.Rules{Reference: true},
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.opened(testkit.Terms{})
				room.PostText(d.Payer, epoch+10_000, twice(d))
				return rooms(d, room)
			},
			fate:  fate{protocol.Locked, fold.Complete, fold.Open},
			lacks: []fold.Code{fold.RulesDiverge},
		},
		{
			name: "a stranger's frame with a member twice changes nothing",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.opened(testkit.Terms{})
				room.PostText(s.stranger(0), epoch+10_000, twice(d))
				return rooms(d, room)
			},
			fate:  fate{protocol.Accepted, fold.Complete, fold.Open},
			lacks: []fold.Code{fold.RulesDiverge},
		},
		{
			name: "a row that is malformed, but not for the reference",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.locked()
				s.tweak(room.Post(d.Payee, epoch+20_000, d.Reveal()), func(r *fold.Row) { r.Hidden = true })
				return rooms(d, room)
			},
			fate:     fate{protocol.Locked, fold.Incomplete, fold.Indeterminate},
			possible: []protocol.Status{protocol.Claimed, protocol.Refunded},
			steps:    []string{"+offer", "+accept", "+lock"},
			finds:    []find{{fold.RulesDiverge, fold.Notice}},
		},
	})
}
