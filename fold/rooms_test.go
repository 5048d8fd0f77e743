package fold_test

import (
	"testing"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/internal/testkit"
	"github.com/tclk-audit/tclk-audit/protocol"
)

// SPEC §2: offers and accepts belong on the board, all else in the deal room.
// What stands elsewhere is counted and shown, and moves nothing.
func TestFramesInTheWrongRoom(t *testing.T) {
	open := fate{protocol.Accepted, fold.Complete, fold.Open}
	tell(t, []story{
		{
			name: "the whole deal on the board",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.opened(testkit.Terms{})
				s.board.Post(d.Payer, epoch+10_000, d.Lock())
				s.board.Post(d.Payee, epoch+20_000, d.Reveal())
				return rooms(d, room)
			},
			fate:  open,
			steps: []string{"+offer", "+accept"},
			finds: []find{{fold.WrongRoom, fold.Info}, {fold.SecretExposed, fold.Notice}},
			check: func(t *testing.T, _ *scene, c *fold.Contract) {
				if c.Shadow != protocol.Claimed || len(c.ShadowSteps) != 4 || c.ShadowSteps[2].Room != protocol.BoardRoom {
					t.Errorf("shadow %s, %d steps", c.Shadow, len(c.ShadowSteps))
				}
				if f := found(c, fold.WrongRoom)[0]; f.Detail != "2 frames of this contract stand on the board, where they cannot count" || f.Room != protocol.BoardRoom {
					t.Errorf("%+v", f)
				}
				if c.Settlement != fold.SettlementNone || c.Rail != "" {
					t.Error("a lock on the board gave the contract a rail")
				}
			},
		},
		{
			name:  "nothing on the board, no shadow",
			post:  func(s *scene) (*testkit.Deal, []*testkit.Room) { return rooms(s.claimed()) },
			fate:  fate{protocol.Claimed, fold.Complete, fold.Established},
			lacks: []fold.Code{fold.WrongRoom},
			check: func(t *testing.T, _ *scene, c *fold.Contract) {
				if c.Shadow != protocol.StatusNone || c.ShadowSteps != nil {
					t.Errorf("shadow %s", c.Shadow)
				}
			},
		},
		{
			name: "two stories in two rooms: the deal room decides",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.opened(testkit.Terms{})
				s.board.Post(d.Payer, epoch+10_000, d.Lock())
				s.board.Post(d.Payee, epoch+20_000, d.Reveal())
				room.Post(d.Payer, epoch+30_000, d.Lock())
				return rooms(d, room)
			},
			fate:  fate{protocol.Locked, fold.Complete, fold.Open},
			finds: []find{{fold.SecretExposed, fold.Anomaly}},
			lacks: []fold.Code{fold.Equivocation},
		},
		{
			name: "strangers' frames on the board give a count, and a shadow without a step",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.opened(testkit.Terms{})
				s.board.Post(s.stranger(0), epoch+10_000, underName(d.Heartbeat(d.Payer, ""), s.stranger(0).DID))
				return rooms(d, room)
			},
			fate:  open,
			finds: []find{{fold.WrongRoom, fold.Info}},
			check: func(t *testing.T, _ *scene, c *fold.Contract) {
				if c.Shadow != protocol.Accepted || len(c.ShadowSteps) != 2 {
					t.Errorf("shadow %q, %d steps", c.Shadow, len(c.ShadowSteps))
				}
			},
		},
		{
			name: "offer and accept in the deal room",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.opened(testkit.Terms{})
				room.Post(d.Offerer.Signer, epoch+10_000, d.Offer)
				room.Post(d.Acceptor.Signer, epoch+11_000, d.Accept)
				return rooms(d, room)
			},
			fate:  open,
			steps: []string{"+offer", "+accept", "-offer wrong-room", "-accept wrong-room"},
		},
		{
			name: "frames in another contract's deal room and in a public room",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.opened(testkit.Terms{})
				other := testkit.NewRoom("mb-p-tclk-0123456789abcdef")
				other.Post(d.Payer, epoch+10_000, d.Lock())
				lobby := testkit.NewRoom("lobby")
				lobby.Post(d.Payer, epoch+10_000, d.Lock())
				lobby.Post(d.Payee, epoch+20_000, d.Heartbeat(d.Payee, ""))
				return d, []*testkit.Room{room, other, lobby}
			},
			fate:  open,
			steps: []string{"+offer", "+accept"},
			check: func(t *testing.T, _ *scene, c *fold.Contract) {
				var got []string
				for _, f := range found(c, fold.WrongRoom) {
					got = append(got, f.Room+": "+f.Detail)
				}
				if len(got) != 2 || got[0] != "lobby: 2 frames of this contract stand in lobby, where they cannot count" ||
					got[1] != "mb-p-tclk-0123456789abcdef: 1 frames of this contract stand in mb-p-tclk-0123456789abcdef, where they cannot count" {
					t.Errorf("%q", got)
				}
			},
		},
		{
			name: "another contract's frame in this deal room",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.opened(testkit.Terms{})
				other := d.Rival(s.keys.Party(2))
				room.Post(d.Payer, epoch+10_000, other.Lock())
				return rooms(d, room)
			},
			fate:  open,
			steps: []string{"+offer", "+accept", "-lock other-contract"},
		},
		{
			name: "a frame under another's name, chat, other versions, broken lines",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.opened(testkit.Terms{})
				room.Post(s.stranger(0), epoch+10_000, d.Lock())
				room.PostText(d.Payee, epoch+11_000, "result: https://files.example/r.txt")
				room.PostText(d.Payee, epoch+12_000, "tclk2 {}")
				room.PostText(d.Payee, epoch+13_000, "tclk1 {}")
				room.PostText(d.Payee, epoch+14_000, "tclk1 hello")
				return rooms(d, room)
			},
			fate:  open,
			steps: []string{"+offer", "+accept", "-lock sender-mismatch", "~not-a-frame", "~other-version", "-? unknown-type", "-? frame-not-json"},
			check: func(t *testing.T, s *scene, c *fold.Contract) {
				if sum := s.audit().Summary(); sum.Contracts != 1 {
					t.Errorf("%d contracts", sum.Contracts)
				}
			},
		},
	})
}

// What the summary counts of rows that move nothing.
func TestSummaryCounts(t *testing.T) {
	s := newScene()
	d, room := s.opened(testkit.Terms{})
	room.PostText(d.Payee, epoch+10_000, "a deliverable")
	room.PostText(d.Payee, epoch+11_000, "tclk2 {}")
	room.PostText(d.Payee, epoch+12_000, "tclk1 hello")
	room.Post(s.stranger(0), epoch+13_000, d.Lock())
	room.Post(d.Payer, epoch+14_000, d.Lock())
	room.Post(d.Payee, epoch+15_000, d.Reveal())
	room.Post(d.Payee, epoch+16_000, d.Receipt(d.Payee, protocol.Claimed))
	room.PostText(d.Payee, epoch+17_000, "unsigned").Sig = nil
	sum := s.audit(room).Summary()
	if sum.NotFrames != 2 || sum.Rejected[protocol.FrameNotJSON] != 1 || sum.Rejected[protocol.SenderMismatch] != 1 || len(sum.Rejected) != 2 {
		t.Errorf("%d not frames, rejected %v", sum.NotFrames, sum.Rejected)
	}
	if sum.Decoded != [9]int64{protocol.TypeOffer: 1, protocol.TypeAccept: 1, protocol.TypeLock: 2, protocol.TypeReveal: 1, protocol.TypeReceipt: 1} {
		t.Errorf("decoded %v", sum.Decoded)
	}
	if sum.Contracts != 1 || sum.ByStatus[protocol.Claimed] != 1 || sum.Receipted != 1 {
		t.Errorf("%+v", sum)
	}
	if sum.ClockMs == nil || *sum.ClockMs != epoch+16_000 {
		t.Errorf("clock %v: the unsigned row's time is nobody's word", sum.ClockMs)
	}
}

// Receipts count only after the end, and early ones are not revived.
func TestReceipts(t *testing.T) {
	s := newScene()
	d, room := s.locked()
	room.Post(d.Payer, epoch+11_000, d.Receipt(d.Payer, protocol.Claimed))
	room.Post(d.Payee, epoch+20_000, d.Reveal())
	other := d.Receipt(s.stranger(0), protocol.Claimed)
	room.Post(s.stranger(0), epoch+21_000, other)
	bare := d.Receipt(d.Payee, protocol.Claimed)
	bare.Rail, bare.Ref = "", ""
	last := room.Post(d.Payee, epoch+22_000, bare)
	c := one(t, s.audit(room), d)
	wantSteps(t, c, "+offer", "+accept", "+lock", "-receipt not-terminal", "+reveal", "-receipt not-party", "+receipt")
	if len(c.Receipts) != 1 || c.Receipts[0].Seq != last.Seq || c.Receipts[0].From != d.Payee.DID {
		t.Errorf("receipts %+v", c.Receipts)
	}
}
