package main

import (
	"cmp"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// verdictObject is what a consumer reads from verify --json.
type verdictObject struct {
	Rules     string
	Rows      map[string]int64
	Frames    struct{ Decoded, Rejected map[string]int64 }
	Contracts []struct {
		Contract, Evidence, Settlement, Verdict string
		Status, Binding, Shadow                 *string
		Possible, LeansOn                       []string
		Chosen, Late                            *bool
		Outlook                                 *struct{ Code string }
		Steps                                   []struct {
			Type, Reason *string
			OK, Ignored  bool
			MarginMs     *int64
		}
		Receipts []struct{ Outcome string }
		Findings []struct{ Code, Severity string }
	}
	Findings []struct {
		Code, Severity string
		Contract       *string
	}
	Verdict *string
	Exit    int
}

func verifyJSON(t *testing.T, args ...string) (v verdictObject, code int) {
	t.Helper()
	code, stdout, stderr := invoke(t, "", append([]string{"verify", "--json"}, args...)...)
	if err := json.Unmarshal([]byte(stdout), &v); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, stderr)
	}
	if v.Exit != code {
		t.Errorf("%v: exit says %d, the process %d", args, v.Exit, code)
	}
	return v, code
}

func str(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// TestCases holds what each bundled case shows: the kinds of fault that
// readers of the board have met. A contract is named by its first digits.
func TestCases(t *testing.T) {
	const first, second = "0x0ad9e8bd2b42150a", "0x4b157b6feef74937"
	type contract struct {
		prefix, status, evidence, verdict string
		possible                          string   // all of them
		findings                          []string // all of at least notice, and those named
		refused                           string   // type and reason of the steps that do not count
		asked                             int      // exit code of verify --contract
	}
	for _, c := range []struct {
		folder    string
		rules     string
		exit      int
		contracts []contract
	}{
		{"01-clean-claimed", "", 0, []contract{
			{first, "claimed", "complete", "established", "", []string{"no-value-rail"}, "", 0},
		}},
		{"02-dropped-row-flip", "", 0, []contract{
			{first, "refunded", "incomplete", "indeterminate", "claimed", []string{"gap"}, "", 3},
		}},
		// A renumbered deletion cannot be seen in the file; the human forms say so.
		{"03-dropped-row-renumbered", "", 0, []contract{
			{first, "refunded", "complete", "established", "", nil, "", 0},
		}},
		{"05-ts-edit-flip", "", 0, []contract{
			{first, "refunded", "complete", "established", "", []string{"secret-exposed"}, "reveal refund-window-open", 0},
		}},
		{"07-racing-accepts", "", 0, []contract{
			{first, "claimed", "complete", "established", "", nil, "", 0},
			{second, "accepted", "incomplete", "indeterminate", "locked claimed refunded cancelled", []string{"superseded"}, "", 3},
		}},
		{"09-lock-on-losing-accept", "", 0, []contract{
			{first, "accepted", "incomplete", "indeterminate", "locked claimed refunded cancelled", nil, "", 3},
			{second, "locked", "complete", "open", "", []string{"superseded", "lock-on-superseded"}, "", 3},
		}},
		{"11-reveal-after-claimBy", "", 0, []contract{
			{first, "claimed", "complete", "established", "", []string{"late-reveal"}, "", 0},
		}},
		{"12-reveal-at-refundAfter", "", 0, []contract{
			{first, "locked", "complete", "open", "", []string{"secret-exposed"}, "reveal refund-window-open", 3},
		}},
		{"13-early-refund", "", 0, []contract{
			{first, "claimed", "complete", "established", "", []string{"late-reveal"}, "refund refund-window-closed", 0},
		}},
		{"15-receipt-before-terminal", "", 0, []contract{
			{first, "claimed", "complete", "established", "", nil, "receipt not-terminal", 0},
		}},
		{"17-deal-on-board", "", 0, []contract{
			{first, "accepted", "incomplete", "indeterminate", "locked claimed refunded cancelled", []string{"wrong-room", "deal-room-not-in-sight", "secret-exposed"}, "", 3},
		}},
		{"17-deal-on-board", "offer-room", 0, []contract{
			{first, "claimed", "incomplete", "indeterminate", "*", nil, "", 3},
		}},
		{"19-reveal-wrong-room-signature", "", 1, []contract{
			{first, "locked", "incomplete", "indeterminate", "claimed refunded", []string{"gap", "signed-for-other-room"}, "- signature-invalid", 1},
		}},
		{"21-rail-alias", "", 0, []contract{
			{"0x0e93de23dd1addd0", "claimed", "complete", "established", "", nil, "", 0},
		}},
		{"22-accept-after-refundAfter", "", 0, []contract{
			{"0xc7ff7cc7584c8be1", "accepted", "incomplete", "indeterminate", "cancelled", []string{"lapsed-at-birth"}, "", 3},
		}},
		{"24-leading-zero-nonce", "", 0, []contract{
			{first, "locked", "incomplete", "indeterminate", "claimed", []string{"nonce-repaired"}, "reveal signature-invalid", 3},
		}},
		{"24-leading-zero-nonce", "repair-nonces", 0, []contract{
			{first, "claimed", "complete", "established", "", []string{"nonce-repaired"}, "", 0},
		}},
		{"25-noncanonical-json", "", 0, []contract{
			{first, "claimed", "complete", "established", "", []string{"noncanonical-line"}, "", 0},
		}},
		{"27-deliverable-lines", "", 0, []contract{
			{first, "claimed", "complete", "established", "", nil, "", 0},
		}},
		{"29-tclk2-row", "", 0, []contract{
			{first, "locked", "complete", "open", "", nil, "", 3},
		}},
		{"30-bad-time", "", 1, []contract{
			{first, "locked", "incomplete", "indeterminate", "claimed refunded", []string{"gap"}, "", 1},
		}},
		{"32-accept-missing-contract", "", 0, nil},
	} {
		name := c.folder
		args := []string{casesDir + c.folder}
		if c.rules != "" {
			name += " under " + c.rules
			args = append(args, "--rule", c.rules)
		}
		t.Run(name, func(t *testing.T) {
			v, code := verifyJSON(t, args...)
			if code != c.exit {
				t.Errorf("exit %d, want %d", code, c.exit)
			}
			if len(v.Contracts) != len(c.contracts) {
				t.Fatalf("%d contracts, want %d", len(v.Contracts), len(c.contracts))
			}
			for i, want := range c.contracts {
				got := v.Contracts[i]
				if !strings.HasPrefix(got.Contract, want.prefix) {
					t.Errorf("contract %s, want %s", got.Contract, want.prefix)
				}
				if str(got.Status) != want.status || got.Evidence != want.evidence || got.Verdict != want.verdict {
					t.Errorf("%s: %s, %s, %s; want %s, %s, %s", want.prefix,
						str(got.Status), got.Evidence, got.Verdict, want.status, want.evidence, want.verdict)
				}
				if p := strings.Join(got.Possible, " "); p != want.possible && want.possible != "*" {
					t.Errorf("%s: possible %q, want %q", want.prefix, p, want.possible)
				}
				for _, f := range got.Findings {
					if f.Severity != "info" && !slices.Contains(want.findings, f.Code) && want.possible != "*" {
						t.Errorf("%s: unexpected %s %s", want.prefix, f.Severity, f.Code)
					}
				}
				for _, code := range want.findings {
					if !slices.ContainsFunc(got.Findings, func(f struct{ Code, Severity string }) bool { return f.Code == code }) {
						t.Errorf("%s: no finding %s", want.prefix, code)
					}
				}
				var refused []string
				for _, s := range got.Steps {
					if !s.OK {
						refused = append(refused, cmp.Or(str(s.Type), "-")+" "+str(s.Reason))
					}
				}
				if r := strings.Join(refused, ", "); r != want.refused {
					t.Errorf("%s: refused %q, want %q", want.prefix, r, want.refused)
				}
				asked, code := verifyJSON(t, append(args, "--contract", want.prefix)...)
				if code != want.asked || len(asked.Contracts) != 1 || asked.Contracts[0].Contract != got.Contract {
					t.Errorf("%s: asked for, exit %d with %d contracts, want %d with one", want.prefix, code, len(asked.Contracts), want.asked)
				}
			}
		})
	}
}

// TestCaseDetails holds what single cases show beside status and findings.
func TestCaseDetails(t *testing.T) {
	get := func(folder string, args ...string) verdictObject {
		v, _ := verifyJSON(t, append([]string{casesDir + folder}, args...)...)
		return v
	}
	clean := get("01-clean-claimed")
	if c := clean.Contracts[0]; c.Settlement != "no-value" || len(c.Receipts) != 1 || str(c.Binding) != "bound" || !*c.Chosen || *c.Late {
		t.Errorf("01: %+v", c)
	}
	if c := get("03-dropped-row-renumbered").Contracts[0]; !slices.Contains(c.LeansOn, "seq") || !slices.Contains(c.LeansOn, "ts") {
		t.Errorf("03 leans on %v", c.LeansOn)
	}
	if s := get("05-ts-edit-flip").Contracts[0].Steps[3]; s.MarginMs == nil || *s.MarginMs != 0 {
		t.Error("05: the reveal's margin is not 0")
	}
	races := get("07-racing-accepts").Contracts
	if str(races[0].Binding) != "bound" || str(races[1].Binding) != "superseded" || *races[1].Chosen {
		t.Error("07: binding")
	}
	if c := get("07-racing-accepts", "--rule", "first-accept"); len(c.Contracts) != 2 || str(c.Contracts[1].Steps[1].Reason) != "wrong-status" {
		t.Error("07 under first-accept: the second accept counts")
	}
	chosen := get("09-lock-on-losing-accept").Contracts
	if *chosen[0].Chosen || !*chosen[1].Chosen {
		t.Error("09: the locked accept is not the chosen one")
	}
	if c := get("11-reveal-after-claimBy").Contracts[0]; !*c.Late {
		t.Error("11: not late")
	}
	if c := get("17-deal-on-board").Contracts[0]; str(c.Shadow) != "claimed" {
		t.Errorf("17: shadow %q", str(c.Shadow))
	}
	if v := get("19-reveal-wrong-room-signature"); v.Rows["invalid"] != 1 {
		t.Error("19: no invalid row")
	}
	if c := get("21-rail-alias").Contracts[0]; len(c.Receipts) != 1 {
		t.Error("21: the receipt with the alias does not count")
	}
	if c := get("21-rail-alias", "--rules", "reference").Contracts[0]; len(c.Receipts) != 0 {
		t.Error("21 under the reference's rules: the receipt counts")
	}
	if c := get("22-accept-after-refundAfter").Contracts[0]; c.Outlook.Code != "lapsed" {
		t.Errorf("22: outlook %s", c.Outlook.Code)
	}
	if v := get("24-leading-zero-nonce"); v.Rows["repaired"] != 1 || v.Rows["invalid"] != 0 {
		t.Errorf("24: rows %v", v.Rows)
	}
	for _, folder := range []string{"27-deliverable-lines", "29-tclk2-row"} {
		v := get(folder)
		if !slices.ContainsFunc(v.Contracts[0].Steps, func(s struct {
			Type, Reason *string
			OK, Ignored  bool
			MarginMs     *int64
		}) bool {
			return s.OK && s.Ignored
		}) || v.Rows["notFrames"] != 1 {
			t.Errorf("%s: no ignored step", folder)
		}
	}
	if v := get("30-bad-time"); v.Rows["malformed"] != 1 || v.Rows["authentic"] != 3 {
		t.Errorf("30: rows %v", v.Rows)
	}
	if v := get("32-accept-missing-contract"); v.Frames.Rejected["missing-field"] != 1 || v.Verdict != nil {
		t.Errorf("32: rejected %v", v.Frames.Rejected)
	}
	if v := get("01-clean-claimed", "--now", "1780001000000"); v.Contracts[0].Outlook.Code != "settled" {
		t.Error("--now changes a settled outlook")
	}
	if v := get("22-accept-after-refundAfter", "--now", "2026-01-01T00:00:00Z"); v.Contracts[0].Outlook.Code != "open" {
		t.Errorf("--now before the refund window: outlook %s", v.Contracts[0].Outlook.Code)
	}
}

// TestHumanFormsSayWhatIsNotProven: no reader may take a verdict for more than
// it is.
func TestHumanFormsSayWhatIsNotProven(t *testing.T) {
	for _, args := range [][]string{
		{"verify", casesDir + "03-dropped-row-renumbered"},
		{"verify", casesDir + "03-dropped-row-renumbered", "--contract", "0x0ad9e8bd"},
		{"explain", casesDir + "03-dropped-row-renumbered", "0x0ad9e8bd"},
	} {
		_, out, _ := invoke(t, "", args...)
		for _, want := range []string{"renumbered", "frame is never money"} {
			if !strings.Contains(out, want) {
				t.Errorf("%v does not say %q", args, want)
			}
		}
	}
}

// TestJSONGolden holds the bytes of verify --json. That they fit
// docs/verify.schema.json is checked where the schema's checker is.
func TestJSONGolden(t *testing.T) {
	for _, folder := range []string{"01-clean-claimed", "02-dropped-row-flip", "17-deal-on-board", "19-reveal-wrong-room-signature"} {
		_, out, _ := invoke(t, "", "verify", "--json", casesDir+folder)
		golden(t, filepath.Join("testdata", "json", folder+".json"), out)
		if _, again, _ := invoke(t, "", "verify", "--json", "--cores", "1", casesDir+folder); again != out {
			t.Errorf("%s: another number of cores gives other bytes", folder)
		}
	}
}

// TestJSONLHoldsTheSame compares the lines with the object.
func TestJSONLHoldsTheSame(t *testing.T) {
	for _, folder := range []string{"07-racing-accepts", "19-reveal-wrong-room-signature", "32-accept-missing-contract"} {
		_, object, _ := invoke(t, "", "verify", "--json", casesDir+folder)
		_, lines, _ := invoke(t, "", "verify", "--jsonl", casesDir+folder)
		var whole, last map[string]any
		if err := json.Unmarshal([]byte(object), &whole); err != nil {
			t.Fatal(err)
		}
		all := strings.Split(strings.TrimSuffix(lines, "\n"), "\n")
		contracts, _ := whole["contracts"].([]any)
		if len(all) != len(contracts)+1 {
			t.Fatalf("%s: %d lines for %d contracts", folder, len(all), len(contracts))
		}
		for i, want := range contracts {
			var got any
			if err := json.Unmarshal([]byte(all[i]), &got); err != nil {
				t.Fatal(err)
			}
			a, _ := json.Marshal(got)
			b, _ := json.Marshal(want)
			if string(a) != string(b) {
				t.Errorf("%s: line %d is %s, the object has %s", folder, i+1, a, b)
			}
		}
		if err := json.Unmarshal([]byte(all[len(all)-1]), &last); err != nil {
			t.Fatal(err)
		}
		for member := range whole {
			switch member {
			case "schema", "contracts", "findings":
				continue
			}
			a, _ := json.Marshal(last[member])
			b, _ := json.Marshal(whole[member])
			if string(a) != string(b) {
				t.Errorf("%s: the summary's %s is %s, the object has %s", folder, member, a, b)
			}
		}
		n := 0.0
		for _, v := range last["findingCounts"].(map[string]any) {
			n += v.(float64)
		}
		if all := whole["findings"].([]any); int(n) != len(all) {
			t.Errorf("%s: the summary counts %v findings, the object has %d", folder, n, len(all))
		}
	}
}
