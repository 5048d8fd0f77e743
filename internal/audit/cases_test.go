package audit_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/protocol"
)

// answer is what the audit must say of one contract of a case.
type answer struct {
	id       string // the contract's first digits
	fate     string // status, evidence, verdict, binding (and chosen)
	possible string
	steps    []string // "+lock", "-reveal refund-window-open", "~not-a-frame"
	finds    []string // all findings of the contract, code and severity, sorted
}

// Public faults of readers and venues, one folder each: what is right.
func TestCases(t *testing.T) {
	const (
		deal    = "0x0ad9e8bd2b42150a"
		rival   = "0x4b157b6feef74937"
		noValue = "no-value-rail info"
		unseen  = "deal-room-not-in-sight info"
	)
	happy := []string{"+offer", "+accept", "+lock", "+reveal"}
	cases := []struct {
		folder    string
		rules     fold.Rules
		exit      int
		asked     int // the exit code where the first contract is asked for
		contracts []answer
		loose     []string // findings that belong to no contract
		rejected  map[protocol.Reason]int64
	}{
		{folder: "01-clean-claimed", contracts: []answer{{
			deal, "claimed complete established bound chosen", "", append(slices.Clone(happy), "+receipt"), []string{noValue},
		}}},
		{folder: "02-dropped-row-flip", asked: 3, contracts: []answer{{
			deal, "refunded incomplete indeterminate bound chosen", "claimed", []string{"+offer", "+accept", "+lock", "+refund"}, []string{"gap notice", noValue},
		}}},
		{folder: "03-dropped-row-renumbered", contracts: []answer{{
			deal, "refunded complete established bound chosen", "", []string{"+offer", "+accept", "+lock", "+refund"}, []string{noValue},
		}}},
		{folder: "05-ts-edit-flip", contracts: []answer{{
			deal, "refunded complete established bound chosen", "", []string{"+offer", "+accept", "+lock", "-reveal refund-window-open", "+refund"},
			[]string{noValue, "secret-exposed notice"},
		}}, rejected: map[protocol.Reason]int64{protocol.RefundWindowOpen: 1}},
		{folder: "07-racing-accepts", contracts: []answer{
			{deal, "claimed complete established bound chosen", "", happy, []string{noValue}},
			{rival, "accepted incomplete indeterminate superseded", "locked claimed refunded cancelled", []string{"+offer", "+accept"}, []string{unseen, "superseded info"}},
		}},
		{folder: "09-lock-on-losing-accept", asked: 3, contracts: []answer{
			{deal, "accepted incomplete indeterminate bound", "locked claimed refunded cancelled", []string{"+offer", "+accept"}, []string{unseen}},
			{rival, "locked complete open superseded chosen", "", []string{"+offer", "+accept", "+lock"}, []string{"lock-on-superseded notice", noValue, "superseded info"}},
		}},
		{folder: "11-reveal-after-claimBy", contracts: []answer{{
			deal, "claimed complete established bound chosen late", "", happy, []string{"late-reveal notice", noValue},
		}}},
		{folder: "12-reveal-at-refundAfter", asked: 3, contracts: []answer{{
			deal, "locked complete open bound chosen", "", []string{"+offer", "+accept", "+lock", "-reveal refund-window-open"},
			[]string{noValue, "secret-exposed anomaly"},
		}}, rejected: map[protocol.Reason]int64{protocol.RefundWindowOpen: 1}},
		{folder: "13-early-refund", contracts: []answer{{
			deal, "claimed complete established bound chosen late", "", []string{"+offer", "+accept", "+lock", "-refund refund-window-closed", "+reveal"},
			[]string{"late-reveal notice", noValue},
		}}, rejected: map[protocol.Reason]int64{protocol.RefundWindowClosed: 1}},
		{folder: "15-receipt-before-terminal", contracts: []answer{{
			deal, "claimed complete established bound chosen", "", []string{"+offer", "+accept", "+lock", "-receipt not-terminal", "+reveal"}, []string{noValue},
		}}, rejected: map[protocol.Reason]int64{protocol.NotTerminal: 1}},
		{folder: "17-deal-on-board", asked: 3, contracts: []answer{{
			deal, "accepted incomplete indeterminate bound shadow:claimed", "locked claimed refunded cancelled", []string{"+offer", "+accept"},
			[]string{unseen, "secret-exposed notice", "wrong-room info"},
		}}, rejected: map[protocol.Reason]int64{protocol.WrongRoom: 2}},
		{folder: "17-deal-on-board", rules: fold.Rules{OfferRoom: true}, asked: 3, contracts: []answer{{
			deal, "claimed incomplete indeterminate bound chosen shadow:claimed", "accepted locked refunded cancelled", happy,
			[]string{unseen, noValue, "wrong-room info"},
		}}, rejected: map[protocol.Reason]int64{protocol.WrongRoom: 2}},
		{folder: "19-reveal-wrong-room-signature", exit: 1, asked: 1, contracts: []answer{{
			deal, "locked incomplete indeterminate bound chosen", "claimed refunded", []string{"+offer", "+accept", "+lock", "-? signature-invalid"},
			[]string{"gap notice", noValue, "signed-for-other-room notice"},
		}}},
		{folder: "21-rail-alias", contracts: []answer{{
			"0x0e93de23dd1addd0", "claimed complete established bound chosen", "", append(slices.Clone(happy), "+receipt"), []string{noValue},
		}}},
		{folder: "21-rail-alias", rules: fold.Rules{Reference: true}, contracts: []answer{{
			"0x0e93de23dd1addd0", "claimed complete established bound chosen", "", append(slices.Clone(happy), "-receipt receipt-rail-mismatch"), []string{noValue},
		}}, rejected: map[protocol.Reason]int64{protocol.ReceiptRailMismatch: 1}},
		{folder: "22-accept-after-refundAfter", asked: 3, contracts: []answer{{
			"0xc7ff7cc758", "accepted incomplete indeterminate bound outlook:lapsed", "cancelled", []string{"+offer", "+accept"}, []string{unseen, "lapsed-at-birth notice"},
		}}},
		{folder: "24-leading-zero-nonce", asked: 3, contracts: []answer{{
			deal, "locked incomplete indeterminate bound chosen", "claimed", []string{"+offer", "+accept", "+lock", "-reveal signature-invalid"},
			[]string{noValue, "nonce-repaired notice"},
		}}},
		{folder: "24-leading-zero-nonce", rules: fold.Rules{RepairNonces: true}, contracts: []answer{{
			deal, "claimed complete established bound chosen", "", happy, []string{noValue, "nonce-repaired notice"},
		}}},
		{folder: "25-noncanonical-json", contracts: []answer{{
			deal, "claimed complete established bound chosen", "", happy, []string{noValue, "noncanonical-line info"},
		}}},
		{folder: "27-deliverable-lines", contracts: []answer{{
			deal, "claimed complete established bound chosen", "", []string{"+offer", "+accept", "+lock", "~not-a-frame", "+reveal"}, []string{noValue},
		}}},
		{folder: "29-tclk2-row", asked: 3, contracts: []answer{{
			deal, "locked complete open bound chosen", "", []string{"+offer", "+accept", "+lock", "~other-version"}, []string{noValue},
		}}},
		{folder: "30-bad-time", exit: 1, asked: 1, contracts: []answer{{
			deal, "locked incomplete indeterminate bound chosen", "claimed refunded", []string{"+offer", "+accept", "+lock"}, []string{"gap notice", noValue},
		}}},
		{folder: "32-accept-missing-contract", rejected: map[protocol.Reason]int64{protocol.MissingField: 1}},
	}
	tested := map[string]bool{}
	for _, tc := range cases {
		tested[tc.folder] = true
		t.Run(tc.folder+" "+tc.rules.String(), func(t *testing.T) {
			r := run(t, tc.rules, filepath.Join("../../testdata/cases", tc.folder))
			board, one := r.Judge(fold.Anomaly), r.Judge(fold.Anomaly)
			var got []answer
			for c := range r.Contracts() {
				board.Contract(c)
				if len(got) == 0 {
					one.Contract(c)
					one.Asked(c)
				}
				if len(got) < len(tc.contracts) {
					if want := tc.contracts[len(got)].id; !strings.HasPrefix(c.ID.String(), want) {
						t.Errorf("contract %s, want %s", c.ID, want)
					}
				}
				got = append(got, say(c))
				if !slices.Contains(c.LeansOn, "ts") || !slices.Contains(c.LeansOn, "missing-rows") {
					t.Errorf("leans on %v", c.LeansOn)
				}
			}
			want := slices.Clone(tc.contracts)
			for i := range want {
				want[i].id = ""
			}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(answer{})); diff != "" {
				t.Errorf("contracts (-want +got):\n%s", diff)
			}
			if exit := board.Exit(); exit != tc.exit {
				t.Errorf("exit %d, want %d", exit, tc.exit)
			}
			if exit := one.Exit(); len(got) > 0 && exit != tc.asked {
				t.Errorf("asked for the contract: exit %d, want %d", exit, tc.asked)
			}
			var loose []string
			for _, f := range r.Findings() {
				loose = append(loose, f.Code.String()+" "+f.Severity.String())
			}
			if diff := cmp.Diff(tc.loose, loose); diff != "" {
				t.Errorf("findings of no contract (-want +got):\n%s", diff)
			}
			rejected := tc.rejected
			if rejected == nil {
				rejected = map[protocol.Reason]int64{}
			}
			if diff := cmp.Diff(rejected, r.Summary().Rejected); diff != "" {
				t.Errorf("rejected frames (-want +got):\n%s", diff)
			}
		})
	}
	folders, _ := filepath.Glob("../../testdata/cases/*")
	for _, f := range folders {
		if !tested[filepath.Base(f)] {
			t.Errorf("%s has no expectation", f)
		}
	}
}

// say is the answer that a contract holds, without its id.
func say(c *fold.Contract) (a answer) {
	words := []string{c.Status.String(), c.Evidence.String(), c.Verdict.String(), c.Binding.String()}
	if c.Chosen {
		words = append(words, "chosen")
	}
	if c.Late {
		words = append(words, "late")
	}
	if c.Shadow != protocol.StatusNone {
		words = append(words, "shadow:"+c.Shadow.String())
	}
	if c.Outlook.Code == fold.Lapsed {
		words = append(words, "outlook:lapsed")
	}
	a.fate = strings.Join(words, " ")
	var possible []string
	for _, s := range c.Possible {
		possible = append(possible, s.String())
	}
	a.possible = strings.Join(possible, " ")
	for i := range c.Steps {
		s := &c.Steps[i]
		typ := s.Type.String()
		if typ == "" {
			typ = "?"
		}
		switch {
		case s.Ignored:
			a.steps = append(a.steps, "~"+s.Reason.String())
		case s.OK:
			a.steps = append(a.steps, "+"+typ)
		default:
			a.steps = append(a.steps, "-"+typ+" "+s.Reason.String())
		}
	}
	for _, f := range c.Findings {
		a.finds = append(a.finds, f.Code.String()+" "+f.Severity.String())
	}
	slices.Sort(a.finds)
	return a
}

// The margins of a deal whose outcome hangs on time: how far each row was from
// the other answer.
func TestMarginsOfATimeSensitiveDeal(t *testing.T) {
	margins := func(folder string) (list []int64) {
		for c := range run(t, fold.Rules{}, "../../testdata/cases/"+folder).Contracts() {
			for _, s := range c.Steps {
				if s.MarginMs != nil {
					list = append(list, *s.MarginMs)
				}
			}
		}
		return list
	}
	for _, tc := range []struct {
		folder string
		want   []int64
	}{
		{"05-ts-edit-flip", []int64{1_080_000, 3_360_000, 0, 60_000}},
		{"12-reveal-at-refundAfter", []int64{1_080_000, 3_360_000, 0}},
		{"13-early-refund", []int64{1_080_000, 3_360_000, -1, 1}},
		{"22-accept-after-refundAfter", []int64{1_200_000}},
	} {
		if diff := cmp.Diff(tc.want, margins(tc.folder)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.folder, diff)
		}
	}
}
