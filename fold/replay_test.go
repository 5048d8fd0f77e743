package fold_test

import (
	"testing"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/internal/testkit"
	"github.com/tclk-audit/tclk-audit/protocol"
)

// SPEC §4: duplicates and replays are rejections without state change. A
// stranger who posts a party's old row again moves nothing.
func TestReplayMovesNothing(t *testing.T) {
	t.Run("reveal before the lock", func(t *testing.T) {
		s := newScene()
		d, room := s.opened(testkit.Terms{})
		early := room.Post(d.Payee, epoch+10_000, d.Reveal())
		room.Post(d.Payer, epoch+20_000, d.Lock())
		room.Replay(early, epoch+30_000)
		c := one(t, s.audit(room), d)
		if c.Status != protocol.Locked {
			t.Errorf("status %s, want locked: the replay is a rejection", c.Status)
		}
	})
	t.Run("receipt before the end", func(t *testing.T) {
		s := newScene()
		d, room := s.opened(testkit.Terms{})
		early := room.Post(d.Payer, epoch+10_000, d.Receipt(d.Payer, protocol.Claimed))
		room.Post(d.Payer, epoch+20_000, d.Lock())
		room.Post(d.Payee, epoch+30_000, d.Reveal())
		room.Replay(early, epoch+40_000)
		if c := one(t, s.audit(room), d); len(c.Receipts) != 0 {
			t.Errorf("the early receipt was revived by its replay")
		}
	})
}

// The same on the board: a replayed row moves nothing, whoever posts it.
func TestReplayOnTheBoardMovesNothing(t *testing.T) {
	t.Run("cancel before its offer", func(t *testing.T) {
		s := newScene()
		d, room := s.deal(testkit.Terms{})
		early := s.board.Post(d.Offerer.Signer, epoch-1000, d.CancelOffer(""))
		s.board.Post(d.Offerer.Signer, epoch, d.Offer)
		s.board.Replay(early, epoch+500)
		s.board.Post(d.Acceptor.Signer, epoch+1000, d.Accept)
		wantFate(t, one(t, s.audit(room), d), protocol.Accepted, fold.Complete, fold.Open)
	})
	t.Run("receipt before the cancel", func(t *testing.T) {
		s := newScene()
		d, room := s.deal(testkit.Terms{})
		s.board.Post(d.Offerer.Signer, epoch, d.Offer)
		early := s.board.Post(d.Offerer.Signer, epoch+100, &protocol.Receipt{From: d.Offerer.DID, Contract: d.Offer.ID, Outcome: protocol.Cancelled})
		s.board.Post(d.Offerer.Signer, epoch+200, d.CancelOffer(""))
		s.board.Replay(early, epoch+500)
		s.board.Post(d.Acceptor.Signer, epoch+1000, d.Accept)
		if c := one(t, s.audit(room), d); len(c.Receipts) != 0 {
			t.Error("the early receipt was revived by its replay")
		}
	})
	t.Run("reveal before the lock, where the board decides", func(t *testing.T) {
		s := newScene()
		s.opts.Rules.OfferRoom = true
		d, room := s.opened(testkit.Terms{})
		early := s.board.Post(d.Payee, epoch+10_000, d.Reveal())
		s.board.Post(d.Payer, epoch+20_000, d.Lock())
		s.board.Replay(early, epoch+30_000)
		wantFate(t, one(t, s.audit(room), d), protocol.Locked, fold.Complete, fold.Open)
	})
	t.Run("reveal before the lock, in the shadow", func(t *testing.T) {
		s := newScene()
		d, room := s.opened(testkit.Terms{})
		early := s.board.Post(d.Payee, epoch+10_000, d.Reveal())
		s.board.Post(d.Payer, epoch+20_000, d.Lock())
		s.board.Replay(early, epoch+30_000)
		if c := one(t, s.audit(room), d); c.Shadow != protocol.Locked {
			t.Errorf("shadow %s, want locked", c.Shadow)
		}
	})
}

// A replay is a fact, named once, and nobody's fault.
func TestReplayIsAFinding(t *testing.T) {
	s := newScene()
	d, room := s.claimed()
	room.Replay(room.Rows[0], epoch+30_000)
	a := s.audit(room)
	c := one(t, a, d)
	wantFate(t, c, protocol.Claimed, fold.Complete, fold.Established)
	wantFinding(t, c, fold.Replay, fold.Info)
	wantSteps(t, c, "+offer", "+accept", "+lock", "+reveal", "-lock wrong-status")
	if n := a.Summary().Duplicate; n != 1 {
		t.Errorf("%d duplicates, want 1", n)
	}
}

// The reference lets a replayed frame count where it fits by then: where that
// changes the end, the rules diverge.
func TestReplayDiverges(t *testing.T) {
	post := func(rules fold.Rules) *fold.Contract {
		s := newScene()
		s.opts.Rules = rules
		d, room := s.opened(testkit.Terms{})
		early := room.Post(d.Payee, epoch+10_000, d.Reveal())
		room.Post(d.Payer, epoch+20_000, d.Lock())
		room.Replay(early, epoch+30_000)
		return one(t, s.audit(room), d)
	}
	if c := post(fold.Rules{Reference: true}); c.Status != protocol.Claimed {
		t.Fatalf("the reference's rules say %s here, want claimed", c.Status)
	}
	c := post(fold.Rules{})
	if c.Status != protocol.Locked {
		t.Errorf("status %s", c.Status)
	}
	wantFinding(t, c, fold.RulesDiverge, fold.Notice)
}
