package audit_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/internal/testkit"
	"github.com/tclk-audit/tclk-audit/protocol"
)

// write puts rooms into a new folder, one file each.
func write(t *testing.T, rooms ...*testkit.Room) string {
	t.Helper()
	dir := t.TempDir()
	if err := testkit.WriteFolder(dir, rooms...); err != nil {
		t.Fatal(err)
	}
	return dir
}

// claimed is a venue with one claimed deal.
func claimed() (d *testkit.Deal, board, room *testkit.Room) {
	keys := testkit.NewKeys(1)
	d = testkit.NewDeal(testkit.NewRand(1, "copies"), keys.Party(0), keys.Party(1), testkit.Terms{})
	board = testkit.NewBoard()
	d.Open(board, testkit.Epoch)
	room = d.NewRoom()
	room.Post(d.Payer, testkit.Epoch+10_000, d.Lock())
	room.Post(d.Payee, testkit.Epoch+20_000, d.Reveal())
	return d, board, room
}

// Two copies of a venue give the verdict that one gives.
func TestTwoGoodCopies(t *testing.T) {
	d, board, room := claimed()
	r := run(t, fold.Rules{}, write(t, board, room), write(t, board, room))
	c := r.Contract(d.ID())
	if c == nil || c.Status != protocol.Claimed || c.Verdict != fold.Established || len(c.Steps) != 4 {
		t.Errorf("%+v", c)
	}
}

// A second copy with a spoilt signature takes nothing from the first, whichever
// comes first.
func TestSpoiltCopy(t *testing.T) {
	spoil := func(r *testkit.Room, i int) *testkit.Room {
		x := *r
		x.Rows = append([]*testkit.Row(nil), r.Rows...)
		row := *x.Rows[i]
		row.Sig = append([]byte(nil), r.Rows[(i+1)%len(r.Rows)].Sig...)
		x.Rows[i] = &row
		return &x
	}
	d, board, room := claimed()
	for _, tc := range []struct {
		name  string
		board *testkit.Room
		room  *testkit.Room
	}{
		{"accept", spoil(board, 1), room},
		{"lock", board, spoil(room, 0)},
	} {
		for _, order := range []string{"ab", "ba"} {
			t.Run(tc.name+" "+order, func(t *testing.T) {
				a, b := write(t, board, room), write(t, tc.board, tc.room)
				if order == "ba" {
					a, b = b, a
				}
				r := run(t, fold.Rules{}, a, b)
				c := r.Contract(d.ID())
				if c == nil {
					t.Fatal("the contract is not listed")
				}
				if c.Status != protocol.Claimed {
					t.Errorf("status %s, want claimed", c.Status)
				}
			})
		}
	}
}

// A copy that lacks a row which it should have contradicts the other copy.
func TestCopyWithADroppedRow(t *testing.T) {
	d, board, room := claimed()
	room.Post(d.Payer, testkit.Epoch+30_000, d.Receipt(d.Payer, protocol.Claimed))
	dropped := *room
	dropped.Rows = append([]*testkit.Row{room.Rows[0]}, room.Rows[2:]...)
	r := run(t, fold.Rules{}, write(t, board, room), write(t, board, &dropped))
	c := r.Contract(d.ID())
	if c == nil || c.Status != protocol.Claimed || c.Verdict != fold.Contradicted {
		t.Errorf("%+v", c)
	}
}

// An empty room file is a room in sight.
func TestEmptyRoomIsInSight(t *testing.T) {
	d, board, room := claimed()
	dir := write(t, board)
	if err := os.WriteFile(filepath.Join(dir, room.Name+".jsonl"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	c := run(t, fold.Rules{}, dir).Contract(d.ID())
	if c == nil || c.Status != protocol.Accepted || c.Verdict != fold.Open {
		t.Errorf("%+v", c)
	}
	c = run(t, fold.Rules{}, write(t, board)).Contract(d.ID())
	if c == nil || c.Status != protocol.Accepted || c.Verdict != fold.Indeterminate {
		t.Errorf("%+v", c)
	}
}
