package audit_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tclk-audit/tclk-audit/export"
	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/internal/audit"
	"github.com/tclk-audit/tclk-audit/protocol"
)

const real = "../../../shared/data/real"

// Rows that a live venue stored. They are third parties' words and not part of
// the project: where they are not at hand, there is nothing to test.
func TestRealRows(t *testing.T) {
	if _, err := os.Stat(real); err != nil {
		t.Skip("no real rows here")
	}
	neutral := func(t *testing.T, path string) string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(real, path))
		if err != nil {
			t.Fatal(err)
		}
		copied := filepath.Join(t.TempDir(), "rows.jsonl")
		if err := os.WriteFile(copied, b, 0o666); err != nil {
			t.Fatal(err)
		}
		return copied
	}
	count := func(r *audit.Result, code fold.Code) (n int) {
		for _, f := range r.Findings() {
			if f.Code == code {
				n++
			}
		}
		return n
	}
	settled := func(t *testing.T, r *audit.Result, want int) {
		t.Helper()
		n := 0
		j := r.Judge(fold.Anomaly)
		for c := range r.Contracts() {
			n++
			j.Contract(c)
			if c.Status != protocol.Claimed || c.Verdict != fold.Established || c.Settlement != fold.NoValue || c.Binding != fold.Bound {
				t.Errorf("%s: %s %s %s %s", c.ID, c.Status, c.Verdict, c.Settlement, c.Binding)
			}
		}
		if n != want || j.Exit() != audit.ExitClean {
			t.Errorf("%d contracts, want %d; exit %d", n, want, j.Exit())
		}
		if r.Rows.Authentic != r.Rows.Total {
			t.Errorf("rows %+v", r.Rows)
		}
	}
	t.Run("a deal in one file of two rooms", func(t *testing.T) {
		settled(t, run(t, fold.Rules{}, filepath.Join(real, "deal-0xc2e1c808")), 1)
		settled(t, run(t, fold.Rules{}, neutral(t, "deal-0xc2e1c808/deal_0xc2e1c808.jsonl")), 1)
	})
	t.Run("a swap of two legs", func(t *testing.T) {
		r := run(t, fold.Rules{}, filepath.Join(real, "rehearsal-swap"))
		settled(t, r, 2)
		for c := range r.Contracts() {
			shared := 0
			for _, f := range c.Findings {
				if f.Code == fold.SharedKeyOrStatement {
					shared++
				}
				if f.Code == fold.SecretExposed {
					t.Errorf("%s is claimed: %s", c.ID, f.Detail)
				}
			}
			if shared == 0 {
				t.Errorf("%s: nothing says that one secret opens both legs", c.ID)
			}
		}
	})
	t.Run("a piece of the board", func(t *testing.T) {
		path := filepath.Join(real, "board-2026-09-05/tclk-offers.jsonl")
		r := run(t, fold.Rules{}, path)
		want := audit.RowCounts{Total: 71, Authentic: 69, Repaired: 2, NotFrames: r.Rows.NotFrames}
		if r.Rows != want {
			t.Errorf("rows %+v, want %+v", r.Rows, want)
		}
		if n := count(r, fold.NonceRepaired); n != 2 {
			t.Errorf("%d findings nonce-repaired, want 2", n)
		}
		if in := r.Inputs[0]; in.Room != protocol.BoardRoom || in.RoomFrom == export.RoomFromFound || count(r, fold.RoomFound) != 0 {
			t.Errorf("room %q", in.Room)
		}
		found := run(t, fold.Rules{}, neutral(t, "board-2026-09-05/tclk-offers.jsonl"))
		if found.Rows != r.Rows || found.Inputs[0].Room != protocol.BoardRoom || found.Inputs[0].RoomFrom != export.RoomFromFound || count(found, fold.RoomFound) != 1 {
			t.Errorf("under a neutral name: rows %+v, room %q", found.Rows, found.Inputs[0].Room)
		}
		ids := func(r *audit.Result) (list []string) {
			for c := range r.Contracts() {
				list = append(list, c.ID.String()+" "+c.Status.String()+" "+c.Verdict.String())
			}
			return list
		}
		if !slices.Equal(ids(r), ids(found)) {
			t.Errorf("under a neutral name: %v, want %v", ids(found), ids(r))
		}
		if all := run(t, fold.Rules{RepairNonces: true}, path); all.Rows != r.Rows {
			t.Errorf("rows %+v", all.Rows)
		}
	})
	t.Run("a piece of the board with nicknames", func(t *testing.T) {
		r := run(t, fold.Rules{}, filepath.Join(real, "board-2026-09-10"))
		if r.Rows.Total != 30 || r.Rows.Invalid+r.Rows.Malformed+r.Rows.Torn+r.Rows.Repaired != 0 || r.Rows.Unsigned == 0 {
			t.Errorf("rows %+v", r.Rows)
		}
		if n := r.Summary().Rejected[protocol.MissingField]; n == 0 {
			t.Error("no accept without a contract was refused")
		}
	})
}
