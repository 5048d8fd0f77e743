package fold_test

import (
	"testing"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/internal/testkit"
	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/verify"
)

// The missing row may be a lock with another ref than the one in sight.
func TestPossibleKnowsAHiddenLock(t *testing.T) {
	s := newScene()
	d, room := s.opened(testkit.Terms{})
	room.PostText(s.stranger(0), epoch+5_000, "hello")
	room.Skip(1)
	room.Post(d.Payer, epoch+10_000, d.Lock())
	r := d.Reveal()
	r.Ref = "the ref of another lock"
	room.Post(d.Payee, epoch+20_000, r)
	c := one(t, s.audit(room), d)
	wantFate(t, c, protocol.Locked, fold.Incomplete, fold.Indeterminate)
	wantPossible(t, c, protocol.Claimed, protocol.Cancelled)
}

// Where a row is missing, possible lists what it could have led to, and nothing
// that it could not.
func TestPossible(t *testing.T) {
	hidden := func(before, after func(d *testkit.Deal, room *testkit.Room), n uint64) func(s *scene) (*testkit.Deal, []*testkit.Room) {
		return func(s *scene) (*testkit.Deal, []*testkit.Room) {
			d, room := s.opened(testkit.Terms{})
			room.PostText(s.stranger(0), epoch+1_500, "hello")
			before(d, room)
			room.Skip(n)
			after(d, room)
			return rooms(d, room)
		}
	}
	none := func(*testkit.Deal, *testkit.Room) {}
	lock := func(d *testkit.Deal, room *testkit.Room) { room.Post(d.Payer, epoch+10_000, d.Lock()) }
	reveal := func(d *testkit.Deal, room *testkit.Room) { room.Post(d.Payee, epoch+20_000, d.Reveal()) }
	chat := func(at int64) func(d *testkit.Deal, room *testkit.Room) {
		return func(d *testkit.Deal, room *testkit.Room) { room.PostText(d.Payee, at, "done?") }
	}
	refund := func(d *testkit.Deal, room *testkit.Room) { room.Post(d.Payer, refundA, d.Refund()) }
	cancel := func(d *testkit.Deal, room *testkit.Room) { room.Post(d.Payee, epoch+20_000, d.Cancel(d.Payee, "")) }
	at := func(s protocol.Status) fate { return fate{s, fold.Incomplete, fold.Indeterminate} }
	tell(t, []story{
		{name: "one row before a lock", post: hidden(none, lock, 1), fate: at(protocol.Locked), possible: []protocol.Status{protocol.Cancelled}},
		{
			name: "two rows before a lock", post: hidden(none, lock, 2), fate: at(protocol.Locked),
			possible: []protocol.Status{protocol.Claimed, protocol.Cancelled},
		},
		{
			name: "one row of an accepted contract", post: hidden(none, chat(epoch+30_000), 1), fate: at(protocol.Accepted),
			possible: []protocol.Status{protocol.Locked, protocol.Cancelled},
		},
		{
			name: "two rows of an accepted contract", post: hidden(none, chat(epoch+30_000), 2), fate: at(protocol.Accepted),
			possible: []protocol.Status{protocol.Locked, protocol.Claimed, protocol.Cancelled},
		},
		{
			name: "two rows, seen after the refund window opened", post: hidden(none, chat(refundA), 2), fate: at(protocol.Accepted),
			possible: []protocol.Status{protocol.Locked, protocol.Claimed, protocol.Refunded, protocol.Cancelled},
		},
		{name: "one row after a lock", post: hidden(lock, chat(epoch+30_000), 1), fate: at(protocol.Locked), possible: []protocol.Status{protocol.Claimed}},
		{
			name: "one row after a lock, seen at refundAfterMs", post: hidden(lock, chat(refundA), 1), fate: at(protocol.Locked),
			possible: []protocol.Status{protocol.Claimed, protocol.Refunded},
		},
		{
			name: "one row after a lock, once the refund window was open",
			post: hidden(func(d *testkit.Deal, room *testkit.Room) { lock(d, room); chat(refundA)(d, room) }, chat(refundA+1_000), 1),
			fate: at(protocol.Locked), possible: []protocol.Status{protocol.Refunded},
		},
		{name: "one row between lock and refund", post: hidden(lock, refund, 1), fate: at(protocol.Refunded), possible: []protocol.Status{protocol.Claimed}},
		{name: "one row before a cancel", post: hidden(none, cancel, 1), fate: at(protocol.Cancelled), possible: []protocol.Status{protocol.Locked}},
		{
			name: "the lock itself may be missing", post: hidden(none, reveal, 1), fate: at(protocol.Accepted),
			possible: []protocol.Status{protocol.Locked, protocol.Claimed, protocol.Cancelled},
		},
	})
}

// A malformed row or a torn end may have been a true row.
func TestUnreadableRows(t *testing.T) {
	fold1 := func(post func(s *scene, a *fold.Auditor, add func(*testkit.Row), d *testkit.Deal, room *testkit.Room)) *fold.Contract {
		s := newScene()
		d, room := s.opened(testkit.Terms{})
		a := fold.New(s.opts)
		v := verify.New()
		add := func(r *testkit.Row) { a.Add(s.row(v, r)) }
		for _, r := range s.board.Rows {
			add(r)
		}
		post(s, a, add, d, room)
		a.Finish()
		return a.Contract(d.ID())
	}
	t.Run("at the end of an open contract", func(t *testing.T) {
		c := fold1(func(_ *scene, a *fold.Auditor, add func(*testkit.Row), d *testkit.Deal, room *testkit.Room) {
			add(room.Post(d.Payer, epoch+10_000, d.Lock()))
			a.Malformed(room.Name, 0)
		})
		wantFate(t, c, protocol.Locked, fold.Incomplete, fold.Indeterminate)
		wantPossible(t, c, protocol.Claimed, protocol.Refunded)
	})
	t.Run("after the terminal step", func(t *testing.T) {
		c := fold1(func(_ *scene, a *fold.Auditor, add func(*testkit.Row), d *testkit.Deal, room *testkit.Room) {
			add(room.Post(d.Payer, epoch+10_000, d.Lock()))
			add(room.Post(d.Payee, epoch+20_000, d.Reveal()))
			a.Malformed(room.Name, 0)
		})
		wantFate(t, c, protocol.Claimed, fold.Complete, fold.Established)
	})
	t.Run("a room of nothing else", func(t *testing.T) {
		c := fold1(func(_ *scene, a *fold.Auditor, _ func(*testkit.Row), _ *testkit.Deal, room *testkit.Room) {
			a.Malformed(room.Name, 0)
		})
		wantFate(t, c, protocol.Accepted, fold.Incomplete, fold.Indeterminate)
		wantPossible(t, c, protocol.Locked, protocol.Claimed, protocol.Refunded, protocol.Cancelled)
	})
	t.Run("in between, where its seq is not missing", func(t *testing.T) {
		c := fold1(func(_ *scene, a *fold.Auditor, add func(*testkit.Row), d *testkit.Deal, room *testkit.Room) {
			a.Malformed(room.Name, 0)
			add(room.Post(d.Payer, epoch+10_000, d.Lock()))
		})
		wantFate(t, c, protocol.Locked, fold.Complete, fold.Open)
	})
	t.Run("in a room that nobody can tell", func(t *testing.T) {
		c := fold1(func(_ *scene, a *fold.Auditor, add func(*testkit.Row), d *testkit.Deal, room *testkit.Room) {
			add(room.Post(d.Payer, epoch+10_000, d.Lock()))
			a.Malformed("", 0)
		})
		wantFate(t, c, protocol.Locked, fold.Incomplete, fold.Indeterminate)
	})
	t.Run("in another room", func(t *testing.T) {
		c := fold1(func(_ *scene, a *fold.Auditor, add func(*testkit.Row), d *testkit.Deal, room *testkit.Room) {
			add(room.Post(d.Payer, epoch+10_000, d.Lock()))
			a.Malformed("lobby", 0)
			a.Malformed("mb-p-tclk-0123456789abcdef", 0)
		})
		wantFate(t, c, protocol.Locked, fold.Complete, fold.Open)
	})
}
