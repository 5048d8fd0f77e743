package audit_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/internal/audit"
	"github.com/tclk-audit/tclk-audit/protocol"
)

// expected is what the reference implementation says of one folder.
type expected struct {
	Files map[string]struct {
		Records   int64 `json:"records"`
		Malformed []struct {
			Line int64 `json:"line"`
		} `json:"malformed"`
	} `json:"files"`
	Contracts []struct {
		Contract string  `json:"contract"`
		Status   *string `json:"status"`
		Steps    []struct {
			Room    string  `json:"room"`
			Seq     uint64  `json:"seq"`
			Type    *string `json:"type"`
			OK      bool    `json:"ok"`
			Ignored bool    `json:"ignored"`
			Code    string  `json:"code"`
			Reason  string  `json:"reason"`
		} `json:"steps"`
		State *struct {
			PayerDid string `json:"payerDid"`
			Rail     string `json:"rail"`
			RailRef  string `json:"railRef"`
		} `json:"state"`
	} `json:"contracts"`
}

// ours maps the reference's codes to this project's, where they differ; some
// stand for two.
var ours = map[string][]string{
	"not-tclk": {"not-a-frame", "other-version"}, "ignored": {"not-a-frame", "other-version"},
	"too-long": {"line-too-long"}, "non-ascii": {"line-not-ascii"}, "bad-json": {"frame-not-json"},
	"not-object": {"frame-not-object"}, "bad-point": {"point-invalid"},
	"payment-key-missing": {"point-needs-key", "acceptor-key-missing"}, "from-mismatch": {"sender-mismatch"},
	"bad-nonce": {"nonce-form"}, "bad-sig-encoding": {"signature-form"}, "bad-did": {"sender-not-did"},
	"bad-signature": {"signature-invalid"}, "expired": {"offer-expired"}, "bad-statement": {"statement-kind"},
	"wrong-party": {"not-payer", "not-payee"}, "non-party": {"not-party"},
	"lock-too-late": {"refund-window-open"}, "reveal-too-late": {"refund-window-open"},
	"refund-too-early": {"refund-window-closed"}, "ref-mismatch": {"other-rail-ref"}, "bad-secret": {"wrong-secret"},
	"receipt-on-cancelled": {"receipt-rail-on-cancelled"},
}

func mapped(code, typ string) []string {
	if code == "wrong-status" && typ == "receipt" {
		return []string{"not-terminal"}
	}
	if m, ok := ours[code]; ok {
		return m
	}
	return []string{code}
}

func has(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

const corpus = "../../testdata/conformance/corpus"

func folders(t *testing.T) []string {
	t.Helper()
	dirs, err := filepath.Glob(corpus + "/*/expected.json")
	if err != nil || len(dirs) < 50 {
		t.Fatalf("the corpus is not there: %v, %d folders", err, len(dirs))
	}
	for i := range dirs {
		dirs[i] = filepath.Dir(dirs[i])
	}
	return dirs
}

func readExpected(t *testing.T, dir string) (e expected) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &e); err != nil {
		t.Fatal(err)
	}
	return e
}

func run(t *testing.T, rules fold.Rules, paths ...string) *audit.Result {
	t.Helper()
	r, err := audit.Run(context.Background(), paths, audit.Options{Rules: rules, Cores: 2})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Under the reference's rules every contract of the corpus ends as in the
// reference, and every step gets its answer for its reason.
func TestReferenceRulesAgreeWithTheReference(t *testing.T) {
	for _, dir := range folders(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			e := readExpected(t, dir)
			files, _ := filepath.Glob(dir + "/*.jsonl")
			r := run(t, fold.Rules{Reference: true}, files...)
			listed := map[string]*fold.Contract{}
			for c := range r.Contracts() {
				listed[c.ID.String()] = c
			}
			for _, want := range e.Contracts {
				got := listed[want.Contract]
				delete(listed, want.Contract)
				if want.Status == nil {
					if got != nil && got.Status != protocol.StatusNone {
						t.Errorf("%s: status %s, want none", want.Contract, got.Status)
					}
					continue
				}
				if got == nil {
					t.Errorf("%s: not listed, want %s", want.Contract, *want.Status)
					continue
				}
				if got.Status.String() != *want.Status {
					t.Errorf("%s: status %s, want %s", want.Contract, got.Status, *want.Status)
				}
				if len(got.Steps) != len(want.Steps) {
					t.Errorf("%s: %d steps, want %d", want.Contract, len(got.Steps), len(want.Steps))
					continue
				}
				for i, w := range want.Steps {
					g := got.Steps[i]
					if g.Room != w.Room || g.Seq != w.Seq || g.OK != w.OK || g.Ignored != w.Ignored {
						t.Errorf("%s step %d: %s/%d ok %v ignored %v (%s), want %s/%d ok %v ignored %v (%s)",
							want.Contract[:10], i, g.Room, g.Seq, g.OK, g.Ignored, g.Reason, w.Room, w.Seq, w.OK, w.Ignored, w.Reason)
					}
					typ := ""
					if w.Type != nil {
						typ = *w.Type
						if g.Type.String() != typ {
							t.Errorf("%s step %d: type %q, want %q", want.Contract[:10], i, g.Type, typ)
						}
					}
					if w.Code != "" && !has(mapped(w.Code, typ), g.Reason.String()) {
						t.Errorf("%s step %d: reason %s, want %v (%s)", want.Contract[:10], i, g.Reason, mapped(w.Code, typ), w.Reason)
					}
				}
				if want.State != nil && want.State.Rail != "" && (got.Rail != want.State.Rail || got.RailRef != want.State.RailRef) {
					t.Errorf("%s: rail %q ref %q, want %q %q", want.Contract[:10], got.Rail, got.RailRef, want.State.Rail, want.State.RailRef)
				}
			}
			for id, c := range listed {
				t.Errorf("%s is listed with status %q, the reference does not know it", id, c.Status)
			}
			for _, in := range r.Inputs {
				f, listed := e.Files[filepath.Base(in.Path)]
				if listed && in.Rows != f.Records+int64(len(f.Malformed)) {
					t.Errorf("%s: %d rows, want %d and %d malformed ones", in.Path, in.Rows, f.Records, len(f.Malformed))
				}
			}
			malformed := map[string]int{}
			for _, m := range r.Malformed {
				malformed[filepath.Base(m.Where.Path)]++
			}
			for name, f := range e.Files {
				if malformed[name] != len(f.Malformed) {
					t.Errorf("%s: %d malformed rows, want %d", name, malformed[name], len(f.Malformed))
				}
			}
		})
	}
}

// Two offers of the corpus decode by the nearest double only: their contracts
// have no status under the spec, and the audit says that the reference has one.
func TestOfferThatOnlyTheReferenceDecodes(t *testing.T) {
	r := run(t, fold.Rules{}, corpus+"/43-offer-numbers")
	diverge := map[string]string{}
	for c := range r.Contracts() {
		for _, f := range c.Findings {
			if f.Code == fold.RulesDiverge {
				diverge[c.ID.String()[:10]] = c.Status.String() + ": " + f.Detail
			}
		}
	}
	want := ": no status under spec, whose decoding refuses the offer; locked under the reference's rules"
	if len(diverge) != 2 || diverge["0x69e56a10"] != want || diverge["0x88de247c"] != want {
		t.Errorf("rules-diverge: %v", diverge)
	}
}
