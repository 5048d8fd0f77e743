package fold_test

import (
	"fmt"
	"testing"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/internal/testkit"
	"github.com/tclk-audit/tclk-audit/protocol"
)

// Under offer-room, as elsewhere, nothing after the terminal step lowers the
// evidence.
func TestOfferRoomBoardGapAfterTheEnd(t *testing.T) {
	s := newScene()
	s.opts.Rules.OfferRoom = true
	d, room := s.opened(testkit.Terms{})
	s.board.Post(d.Payer, epoch+10_000, d.Lock())
	s.board.Post(d.Payee, epoch+20_000, d.Reveal())
	s.board.PostText(s.stranger(0), epoch+30_000, "hello")
	wantFate(t, one(t, s.audit(room), d), protocol.Claimed, fold.Complete, fold.Established)
	s.board.Skip(1)
	s.board.PostText(s.stranger(0), epoch+40_000, "hello")
	wantFate(t, one(t, s.audit(room), d), protocol.Claimed, fold.Complete, fold.Established)
}

// Under offer-room a hole in the deal room may hold a party's row, which would
// take the contract away from the board: it counts wherever the board ended,
// and whichever room is read first.
func TestOfferRoomDealRoomHole(t *testing.T) {
	s := newScene()
	s.opts.Rules.OfferRoom = true
	d, room := s.opened(testkit.Terms{})
	s.board.Post(d.Payer, epoch+10_000, d.Lock())
	s.board.Post(d.Payee, epoch+20_000, d.Reveal())
	room.PostText(s.stranger(0), epoch+30_000, "hello")
	room.Skip(1)
	room.PostText(s.stranger(0), epoch+40_000, "hello")
	c := one(t, s.audit(room), d)
	wantFate(t, c, protocol.Claimed, fold.Incomplete, fold.Indeterminate)
}

// Under offer-room the reference's fold is compared with the same switch on.
func TestOfferRoomDoesNotDiverge(t *testing.T) {
	s := newScene()
	s.opts.Rules.OfferRoom = true
	d, room := s.opened(testkit.Terms{})
	s.board.Post(d.Payer, epoch+10_000, d.Lock())
	s.board.Post(d.Payee, epoch+20_000, d.Reveal())
	who := s.stranger(0)
	room.PostText(who, epoch+30_000, fmt.Sprintf(`tclk1 {"contract":"%s","from":"%s","nonce":"00aa11bb","nonce":"00aa11bb","type":"heartbeat"}`, d.ID(), who.DID))
	wantNoFinding(t, one(t, s.audit(room), d), fold.RulesDiverge)
}

// offer-room: one room or the other, never a union. The board decides only
// where the deal room holds no authenticated row of a party.
func TestOfferRoom(t *testing.T) {
	onBoard := func(s *scene) (*testkit.Deal, *testkit.Room) {
		d, room := s.opened(testkit.Terms{})
		s.board.Post(d.Payer, epoch+10_000, d.Lock())
		s.board.Post(d.Payee, epoch+20_000, d.Reveal())
		s.board.Post(d.Payer, epoch+30_000, d.Receipt(d.Payer, protocol.Claimed))
		return d, room
	}
	byBoard := fate{protocol.Claimed, fold.Complete, fold.Established}
	byRoom := fate{protocol.Accepted, fold.Complete, fold.Open}
	rules := fold.Rules{OfferRoom: true}
	tell(t, []story{
		{
			name: "empty deal room", rules: rules,
			post:  func(s *scene) (*testkit.Deal, []*testkit.Room) { return rooms(onBoard(s)) },
			fate:  byBoard,
			steps: []string{"+offer", "+accept", "+lock", "+reveal", "+receipt"},
			check: func(t *testing.T, _ *scene, c *fold.Contract) {
				if c.Shadow != protocol.Claimed || len(c.Receipts) != 1 || c.Receipts[0].Room != protocol.BoardRoom || c.Steps[3].Room != protocol.BoardRoom {
					t.Errorf("shadow %s, receipts %+v", c.Shadow, c.Receipts)
				}
			},
		},
		{
			name: "deal room not in sight: a party's row may stand in it", rules: rules,
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, _ := onBoard(s)
				return d, nil
			},
			fate:     fate{protocol.Claimed, fold.Incomplete, fold.Indeterminate},
			possible: []protocol.Status{protocol.Accepted, protocol.Locked, protocol.Refunded, protocol.Cancelled},
		},
		{
			name: "strangers' rows in the deal room decide nothing", rules: rules,
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := onBoard(s)
				room.PostText(s.stranger(0), epoch+5_000, "hello")
				return rooms(d, room)
			},
			fate: byBoard,
		},
		{
			name: "any row of a party decides for the deal room", rules: rules,
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := onBoard(s)
				room.PostText(d.Payee, epoch+40_000, "a deliverable")
				return rooms(d, room)
			},
			fate:  byRoom,
			steps: []string{"+offer", "+accept", "~not-a-frame"},
		},
		{
			name: "unsigned rows of a party decide nothing", rules: rules,
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := onBoard(s)
				room.PostText(d.Payee, epoch+40_000, "a deliverable").Sig = nil
				return rooms(d, room)
			},
			fate:     fate{protocol.Claimed, fold.Incomplete, fold.Indeterminate},
			possible: []protocol.Status{protocol.Accepted, protocol.Locked, protocol.Refunded, protocol.Cancelled},
		},
		{
			name: "a stranger's frame on the board decides nothing", rules: rules,
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.opened(testkit.Terms{})
				s.board.Post(s.stranger(0), epoch+10_000, underName(d.Lock(), s.stranger(0).DID))
				return rooms(d, room)
			},
			fate: byRoom,
		},
		{
			name: "a gap on the board before the terminal step", rules: rules,
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.opened(testkit.Terms{})
				s.board.Post(d.Payer, epoch+10_000, d.Lock())
				s.board.Skip(1)
				s.board.Post(d.Payee, epoch+20_000, d.Reveal())
				return rooms(d, room)
			},
			fate:     fate{protocol.Claimed, fold.Incomplete, fold.Indeterminate},
			possible: []protocol.Status{protocol.Cancelled},
		},
	})
}

// Findings about steps name the room in which the steps stand.
func TestFindingsNameTheBoard(t *testing.T) {
	s := newScene()
	s.opts.Rules.OfferRoom = true
	d, room := s.opened(testkit.Terms{})
	s.board.Post(d.Payer, claimBy+2_000, d.Lock())
	s.board.PostNonce(d.Payee, claimBy+1_000, "9", protocol.CanonicalLine(d.Reveal()))
	c := one(t, s.audit(room), d)
	for _, code := range []fold.Code{fold.LateReveal, fold.TimeViolation} {
		if f := wantFinding(t, c, code, fold.Notice); f.Room != protocol.BoardRoom {
			t.Errorf("%s at %s %d, the reveal stands on the board", code, f.Room, *f.Seq)
		}
	}
}
