package fold_test

import (
	"fmt"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/internal/testkit"
	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/verify"
)

// copies folds two copies of one deal room, the first read first.
func copies(t *testing.T, s *scene, d *testkit.Deal, first, second []*testkit.Row) *fold.Contract {
	t.Helper()
	a := fold.New(s.opts)
	v := verify.New()
	for source, rows := range [][]*testkit.Row{s.board.Rows, first, second} {
		for _, r := range rows {
			f := s.row(v, r)
			f.Source = uint32(source)
			a.Add(f)
		}
	}
	a.Finish()
	return one(t, a, d)
}

// A copy of a room with a spoilt signature does not hide the true row of the
// other copy, whichever is read first.
func TestSpoiltCopyDoesNotHideTheTrueRow(t *testing.T) {
	for _, spoiltFirst := range []bool{true, false} {
		t.Run(fmt.Sprint("spoilt first ", spoiltFirst), func(t *testing.T) {
			s := newScene()
			d, room := s.opened(testkit.Terms{})
			lock := room.Post(d.Payer, epoch+10_000, d.Lock())
			reveal := room.Post(d.Payee, epoch+20_000, d.Reveal())
			bad := *lock
			bad.Sig = append([]byte(nil), reveal.Sig...)
			good, spoilt := []*testkit.Row{lock, reveal}, []*testkit.Row{&bad, reveal}
			c := copies(t, s, d, good, spoilt)
			if spoiltFirst {
				c = copies(t, s, d, spoilt, good)
			}
			if c.Status != protocol.Claimed {
				t.Errorf("status %s, want claimed", c.Status)
			}
		})
	}
}

// Which of two sightings is the replay is told by the room's order, not by the
// order in which copies are read.
func TestReplayAcrossCopies(t *testing.T) {
	for _, youngFirst := range []bool{true, false} {
		t.Run(fmt.Sprint("young copy first ", youngFirst), func(t *testing.T) {
			s := newScene()
			d, room := s.opened(testkit.Terms{})
			hello := room.PostText(d.Payer, epoch+5_000, "hello")
			lock := room.Post(d.Payer, epoch+10_000, d.Lock())
			beat := room.Post(d.Payer, epoch+15_000, d.Heartbeat(d.Payer, ""))
			replay := room.Replay(hello, epoch+20_000)
			last := room.PostText(s.stranger(0), epoch+25_000, "bye")
			old, young := []*testkit.Row{hello, lock, beat}, []*testkit.Row{beat, replay, last}
			c := copies(t, s, d, old, young)
			if youngFirst {
				c = copies(t, s, d, young, old)
			}
			wantFate(t, c, protocol.Locked, fold.Complete, fold.Open)
			if f := wantFinding(t, c, fold.Replay, fold.Info); f.Seq != nil && *f.Seq != replay.Seq {
				t.Errorf("the replay is seq %d, want %d", *f.Seq, replay.Seq)
			}
		})
	}
}

// A room's rows may come in any number of overlapping copies, in any order: as
// long as they hold the same rows, the contract is that of one copy.
func TestOverlappingCopiesAreOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		w.drawRows(t, 24)
		v := verify.New()
		// split hands the rooms to the auditor in the pieces that cut tells.
		split := func(cut func(rows []*testkit.Row) [][]*testkit.Row) *fold.Auditor {
			a := fold.New(w.opts)
			for _, r := range w.board.Rows {
				a.Add(w.row(v, r))
			}
			for _, name := range w.names {
				a.Room(name)
				for source, piece := range cut(w.rooms[name].Rows) {
					for _, r := range piece {
						f := w.row(v, r)
						f.Source = uint32(source + 1)
						a.Add(f)
					}
				}
			}
			a.Finish()
			return a
		}
		want := contracts(split(func(rows []*testkit.Row) [][]*testkit.Row { return [][]*testkit.Row{rows} }))
		got := contracts(split(func(rows []*testkit.Row) (pieces [][]*testkit.Row) {
			from := 0
			for from < len(rows) {
				to := rapid.IntRange(from+1, len(rows)).Draw(t, "to")
				pieces = append(pieces, rows[rapid.IntRange(0, from).Draw(t, "from"):to])
				from = to
			}
			return rapid.Permutation(pieces).Draw(t, "order")
		}))
		if diff := gocmp.Diff(want, got, compareStatements); diff != "" {
			t.Errorf("one copy (-), several (+):\n%s", diff)
		}
	})
}
