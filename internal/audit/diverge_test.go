package audit_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/internal/audit"
	"github.com/tclk-audit/tclk-audit/internal/testkit"
	"github.com/tclk-audit/tclk-audit/protocol"
)

// Where the reference would end a contract otherwise, the audit names both
// ends, and its own stands.
func TestRulesDiverge(t *testing.T) {
	march2 := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC).UnixMilli()
	keys := testkit.NewKeys(1)
	venue := func() (*testkit.Deal, *testkit.Room, *testkit.Room) {
		d := testkit.NewDeal(testkit.NewRand(1, "diverge"), keys.Party(0), keys.Party(1), testkit.Terms{NowMs: march2})
		return d, testkit.NewBoard(), d.NewRoom()
	}
	// write2 writes the rooms after edit changed the deal room's text.
	write2 := func(t *testing.T, board, room *testkit.Room, edit func(string) string) string {
		t.Helper()
		dir := write(t, board)
		if err := os.WriteFile(filepath.Join(dir, room.Name+".jsonl"), []byte(edit(string(room.JSONL()))), 0o666); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	same := func(s string) string { return s }
	for _, tc := range []struct {
		name            string
		post            func(t *testing.T) (*testkit.Deal, string)
		spec, reference protocol.Status
		evidence        fold.EvidenceAxis
		exit            int
		diverges        bool
	}{
		{
			name: "a frame with a member twice",
			post: func(t *testing.T) (*testkit.Deal, string) {
				d, board, room := venue()
				d.Open(board, march2)
				line := protocol.CanonicalLine(d.Lock())
				room.PostText(d.Payer, march2+10_000, strings.Replace(line, `"rail":`, `"rail":"x402","rail":`, 1))
				return d, write2(t, board, room, same)
			},
			spec: protocol.Accepted, reference: protocol.Locked, evidence: fold.Complete, diverges: true,
		},
		{
			name: "a row with a member twice",
			post: func(t *testing.T) (*testkit.Deal, string) {
				d, board, room := venue()
				d.Open(board, march2)
				room.Post(d.Payer, march2+10_000, d.Lock())
				return d, write2(t, board, room, func(s string) string { return strings.Replace(s, `{"seq":1,`, `{"seq":7,"seq":1,`, 1) })
			},
			spec: protocol.Accepted, reference: protocol.Locked, evidence: fold.Incomplete, exit: audit.ExitWrong, diverges: true,
		},
		{
			name: "a row of the 30th of February",
			post: func(t *testing.T) (*testkit.Deal, string) {
				d, board, room := venue()
				d.Open(board, march2)
				room.Post(d.Payer, march2+10_000, d.Lock())
				room.Post(d.Payee, march2+20_000, d.Reveal())
				return d, write2(t, board, room, func(s string) string {
					i := strings.LastIndex(s, "2026-03-02T")
					return s[:i] + "2026-02-30T" + s[i+len("2026-03-02T"):]
				})
			},
			spec: protocol.Locked, reference: protocol.Claimed, evidence: fold.Incomplete, exit: audit.ExitWrong, diverges: true,
		},
		{
			name: "a cancel on the board",
			post: func(t *testing.T) (*testkit.Deal, string) {
				d, board, room := venue()
				board.Post(d.Offerer.Signer, march2, d.Offer)
				board.Post(d.Offerer.Signer, march2+500, d.CancelOffer(""))
				board.Post(d.Acceptor.Signer, march2+1000, d.Accept)
				room.Post(d.Payer, march2+10_000, d.Lock())
				return d, write2(t, board, room, same)
			},
			spec: protocol.Cancelled, reference: protocol.Locked, evidence: fold.Complete, diverges: true,
		},
		{
			name: "nothing that either reads otherwise",
			post: func(t *testing.T) (*testkit.Deal, string) {
				d, board, room := venue()
				d.Open(board, march2)
				room.Post(d.Payer, march2+10_000, d.Lock())
				return d, write2(t, board, room, same)
			},
			spec: protocol.Locked, reference: protocol.Locked, evidence: fold.Complete,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d, dir := tc.post(t)
			r := run(t, fold.Rules{}, dir)
			c := r.Contract(d.ID())
			if c == nil {
				t.Fatal("the contract is not listed")
			}
			var details []string
			for _, f := range c.Findings {
				if f.Code == fold.RulesDiverge {
					details = append(details, f.Detail)
				}
			}
			want := "status " + tc.spec.String() + " under spec, " + tc.reference.String() + " under the reference's rules"
			if tc.diverges != (len(details) == 1 && details[0] == want) {
				t.Errorf("rules-diverge %q, want %q (%v)", details, want, tc.diverges)
			}
			if c.Status != tc.spec || c.Evidence != tc.evidence {
				t.Errorf("%s, %s; want %s, %s", c.Status, c.Evidence, tc.spec, tc.evidence)
			}
			j := r.Judge(fold.Anomaly)
			j.Contract(c)
			if exit := j.Exit(); exit != tc.exit {
				t.Errorf("exit %d, want %d", exit, tc.exit)
			}
			if c := run(t, fold.Rules{Reference: true}, dir).Contract(d.ID()); c == nil || c.Status != tc.reference {
				t.Errorf("under the reference's rules: %+v, want %s", c, tc.reference)
			}
		})
	}
}
