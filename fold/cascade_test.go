package fold_test

import (
	"testing"

	"github.com/tclk-audit/tclk-audit/internal/testkit"
	"github.com/tclk-audit/tclk-audit/protocol"
)

// A stranger's refused frame is nobody's root cause.
func TestStrangersRefusalIsNoRoot(t *testing.T) {
	s := newScene()
	d, room := s.opened(testkit.Terms{})
	junk := d.Lock()
	junk.From = s.stranger(0).DID
	room.Post(s.stranger(0), epoch+10_000, junk)
	room.Post(d.Payee, epoch+20_000, d.Reveal())
	room.Post(d.Payee, epoch+30_000, d.Receipt(d.Payee, protocol.Claimed))
	wantSteps(t, one(t, s.audit(room), d), "+offer", "+accept", "-lock not-payer", "-reveal wrong-status", "-receipt not-terminal cascade")
}

// One cause, one anomaly: refusals that follow from an earlier refusal, or
// from a frame that is missing, point at their root.
func TestCascades(t *testing.T) {
	for _, tc := range []struct {
		name  string
		post  func(s *scene) (*testkit.Deal, *testkit.Room)
		steps []string
		roots map[int]int // step → the step that it follows from
	}{
		{
			name: "reveal and receipt with no lock",
			post: func(s *scene) (*testkit.Deal, *testkit.Room) {
				d, room := s.opened(testkit.Terms{})
				room.Post(d.Payee, epoch+20_000, d.Reveal())
				room.Post(d.Payer, epoch+30_000, d.Receipt(d.Payer, protocol.Claimed))
				return d, room
			},
			steps: []string{"+offer", "+accept", "-reveal wrong-status", "-receipt not-terminal cascade"},
			roots: map[int]int{3: 2},
		},
		{
			name: "receipt alone",
			post: func(s *scene) (*testkit.Deal, *testkit.Room) {
				d, room := s.opened(testkit.Terms{})
				room.Post(d.Payer, epoch+30_000, d.Receipt(d.Payer, protocol.Claimed))
				return d, room
			},
			steps: []string{"+offer", "+accept", "-receipt not-terminal"},
		},
		{
			name: "a refused lock and what follows",
			post: func(s *scene) (*testkit.Deal, *testkit.Room) {
				d, room := s.opened(testkit.Terms{})
				l := d.Lock()
				l.Rail = "x402"
				room.Post(d.Payer, epoch+10_000, l)
				room.Post(d.Payee, epoch+20_000, d.Reveal())
				room.Post(d.Payer, refundA, d.Refund())
				room.Post(d.Payer, refundA+1, d.Receipt(d.Payer, protocol.Claimed))
				return d, room
			},
			steps: []string{"+offer", "+accept", "-lock rail-not-offered", "-reveal wrong-status cascade", "-refund wrong-status cascade", "-receipt not-terminal cascade"},
			roots: map[int]int{3: 2, 4: 2, 5: 2},
		},
		{
			name: "a refused reveal and its receipt",
			post: func(s *scene) (*testkit.Deal, *testkit.Room) {
				d, room := s.locked()
				room.Post(d.Payee, refundA, d.Reveal())
				room.Post(d.Payee, refundA+1, d.Receipt(d.Payee, protocol.Claimed))
				return d, room
			},
			steps: []string{"+offer", "+accept", "+lock", "-reveal refund-window-open", "-receipt not-terminal cascade"},
			roots: map[int]int{4: 3},
		},
		{
			name: "an early receipt has no other cause",
			post: func(s *scene) (*testkit.Deal, *testkit.Room) {
				d, room := s.locked()
				room.Post(d.Payer, epoch+11_000, d.Receipt(d.Payer, protocol.Claimed))
				room.Post(d.Payee, epoch+20_000, d.Reveal())
				return d, room
			},
			steps: []string{"+offer", "+accept", "+lock", "-receipt not-terminal", "+reveal"},
		},
		{
			name: "two refusals of their own",
			post: func(s *scene) (*testkit.Deal, *testkit.Room) {
				d, room := s.locked()
				room.Post(d.Payer, epoch+11_000, d.Refund())
				r := d.Reveal()
				r.Secret[1] ^= 1
				room.Post(d.Payee, epoch+12_000, r)
				return d, room
			},
			steps: []string{"+offer", "+accept", "+lock", "-refund refund-window-closed", "-reveal wrong-secret"},
		},
		{
			name: "everything under an accept that came too late",
			post: func(s *scene) (*testkit.Deal, *testkit.Room) {
				d, room := s.deal(testkit.Terms{})
				s.board.Post(d.Offerer.Signer, epoch, d.Offer)
				s.board.Post(d.Acceptor.Signer, expires, d.Accept)
				room.Post(d.Payer, expires+1, d.Lock())
				room.Post(d.Payee, expires+2, d.Reveal())
				room.PostText(d.Payee, expires+3, "tclk1 hello")
				return d, room
			},
			steps: []string{"+offer", "-accept offer-expired", "-lock wrong-room cascade", "-reveal wrong-room cascade", "-? frame-not-json"},
			roots: map[int]int{2: 1, 3: 1},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene()
			d, room := tc.post(s)
			c := one(t, s.audit(room), d)
			wantSteps(t, c, tc.steps...)
			for i := range c.Steps {
				root, want := tc.roots[i]
				got := c.Steps[i].CascadeOf
				switch {
				case want != (got != nil):
					t.Errorf("step %d: cascade %v, want %v", i, got != nil, want)
				case want && *got != c.Steps[root].Record:
					t.Errorf("step %d does not go back to step %d", i, root)
				}
			}
		})
	}
}
