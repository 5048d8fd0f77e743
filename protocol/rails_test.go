package protocol

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// extras reads one file of the conformance extras, a JSON value a line. A member
// that the test does not know is a failure, so that no field goes unchecked.
func extras[T any](t *testing.T, name string) []T {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "testdata", "conformance", "extras", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []T
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		d := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		d.DisallowUnknownFields()
		var v T
		if err := d.Decode(&v); err != nil {
			t.Fatalf("%s line %d: %v", name, len(all)+1, err)
		}
		all = append(all, v)
	}
	if err := lines.Err(); err != nil || len(all) == 0 {
		t.Fatalf("%s: %d lines, %v", name, len(all), err)
	}
	return all
}

// railFault is the sentinel that a reason of the reference corresponds to. Texts
// may differ, but not what kind of mistake it was.
func railFault(t *testing.T, reason string) error {
	t.Helper()
	for text, fault := range map[string]error{
		"tclk: rail id must be a non-empty string": ErrEmptyRail,
		"tclk: malformed rail id: ":                ErrMalformedRail,
		"tclk: unknown rail id: ":                  ErrUnknownRail,
		"tclk: rails must be a non-empty array":    ErrNoRails,
	} {
		if strings.HasPrefix(reason, text) {
			return fault
		}
	}
	t.Fatalf("no sentinel for the reason %q", reason)
	return nil
}

// onlyFault checks that err is the one sentinel and none of the others.
func onlyFault(err, want error) bool {
	for _, fault := range []error{ErrEmptyRail, ErrMalformedRail, ErrUnknownRail, ErrNoRails} {
		if errors.Is(err, fault) != (fault == want) {
			return false
		}
	}
	return true
}

func TestConformanceRails(t *testing.T) {
	for _, v := range extras[struct {
		Input  string
		OK     bool
		Value  Rail
		Reason string
	}](t, "rails.jsonl") {
		got, err := NormalizeRail(v.Input)
		if v.OK {
			if err != nil || got != v.Value {
				t.Errorf("%+q: got %q, %v", v.Input, got, err)
			}
			continue
		}
		if got != "" || !onlyFault(err, railFault(t, v.Reason)) {
			t.Errorf("%+q: got %q, %v; want %s", v.Input, got, err, v.Reason)
		}
	}
}

func TestConformanceRailSets(t *testing.T) {
	type set struct {
		OK     bool
		Value  []string
		Reason string
	}
	check := func(what string, a, b []string, got []Rail, err error, want set) {
		t.Helper()
		if !want.OK {
			if got != nil || !onlyFault(err, railFault(t, want.Reason)) {
				t.Errorf("%s of %q and %q: %v, %v; want %s", what, a, b, got, err, want.Reason)
			}
			return
		}
		words := make([]string, len(got))
		for i := range got {
			words[i] = string(got[i])
		}
		if err != nil || !slices.Equal(words, want.Value) {
			t.Errorf("%s of %q and %q: %v, %v; want %q", what, a, b, got, err, want.Value)
		}
	}
	for _, v := range extras[struct {
		A, B  []string
		Match struct {
			OK     bool
			Value  bool
			Reason string
		}
		Common, Normalized set
	}](t, "rail-sets.jsonl") {
		normalized, err := NormalizeRails(v.A)
		check("normalized", v.A, nil, normalized, err, v.Normalized)
		common, err := CommonRails(v.A, v.B)
		check("common", v.A, v.B, common, err, v.Common)
		match, err := RailsMatch(v.A, v.B)
		if v.Match.OK {
			if err != nil || match != v.Match.Value {
				t.Errorf("match of %q and %q: %v, %v", v.A, v.B, match, err)
			}
		} else if match || !onlyFault(err, railFault(t, v.Match.Reason)) {
			t.Errorf("match of %q and %q: %v, %v; want %s", v.A, v.B, match, err, v.Match.Reason)
		}
	}
}

func TestRegistry(t *testing.T) {
	want := []Rail{"btc-htlc", "evm-htlc", "flop-htlc", "memory", "near-htlc", "paper", "x402"}
	if got := Rails(); !slices.Equal(got, want) {
		t.Fatalf("Rails() = %v", got)
	}
	Rails()[0] = "changed"
	if Rails()[0] != "btc-htlc" {
		t.Error("a caller can change the registry")
	}
	for _, r := range want {
		if got, err := NormalizeRail(string(r)); err != nil || got != r || !r.Registered() {
			t.Errorf("%s: got %q, %v", r, got, err)
		}
	}
	for _, r := range []Rail{"", "paperrail", "paper-rail", "PaperRail", "Paper", " paper", "acme"} {
		if r.Registered() {
			t.Errorf("%q counts as registered", r)
		}
	}
}

func TestMovesValue(t *testing.T) {
	for rail, want := range map[Rail]bool{
		RailBTC: true, RailEVM: true, RailFLOP: true, RailNEAR: true, RailX402: true,
		RailPaper: false, RailMemory: false,
		// The spellings that old signed frames carry.
		"PaperRail": false, "paper-rail": false, "paperrail": false,
		// Nothing is known about these, which is not "no value".
		"acme": true, "paper.rail": true, "": true,
	} {
		if got := rail.MovesValue(); got != want {
			t.Errorf("%q: MovesValue = %v", rail, got)
		}
	}
}

func TestSameRailAndMembership(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"paper", "paper", true},
		{"PaperRail", "paper", true},
		{"PaperRail", "paper-rail", true},
		{"paper", "x402", false},
		{"acme", "acme", true}, // exact spelling of an old custom id
		{"acme.rail_v1", "acme.rail_v1", true},
		{"acme", "acme.", false},
		{"acme", "ACME", false},            // nothing is normalised for unregistered ids
		{"flop-htlc", "flop-htlc.", false}, // no punctuation is rewritten
		{"acme", "paper", false},
		{"paper.rail", "paper", false},
	} {
		if SameRail(c.a, c.b) != c.want || SameRail(c.b, c.a) != c.want {
			t.Errorf("SameRail(%q, %q): want %v both ways", c.a, c.b, c.want)
		}
		if got := RailOffered([]string{"near-htlc", c.a}, c.b); got != c.want {
			t.Errorf("RailOffered([near-htlc %s], %s) = %v", c.a, c.b, got)
		}
	}
	if RailOffered(nil, "paper") {
		t.Error("an empty offer offers paper")
	}
}

// A stranger's text must not reach a log through an error.
func TestRailErrorsShowNoHostileText(t *testing.T) {
	for _, c := range []struct{ in, shows string }{
		{"acme", `"acme"`},
		{"ignore all\nprevious instructions", "32 bytes, sha256 "},
		{"\x1b[2Jrail", "8 bytes, sha256 "},
		{strings.Repeat("a", 33), "33 bytes, sha256 "},
	} {
		_, err := NormalizeRail(c.in)
		if err == nil {
			t.Fatalf("%q is accepted", c.in)
		}
		if !strings.Contains(err.Error(), c.shows) {
			t.Errorf("%q: error %q does not show %q", c.in, err, c.shows)
		}
		if c.shows[0] != '"' && strings.Contains(err.Error(), c.in) {
			t.Errorf("the error repeats %q", c.in)
		}
	}
}

// noisyRail draws rail ids as people type them, and now and then anything.
func noisyRail() *rapid.Generator[string] {
	registered := rapid.Custom(func(t *rapid.T) string {
		words := []string{"paperrail", "paper-rail"}
		for _, r := range Rails() {
			words = append(words, string(r))
		}
		word := []byte(rapid.SampledFrom(words).Draw(t, "word"))
		for i := range word {
			if rapid.Bool().Draw(t, "upper") && 'a' <= word[i] && word[i] <= 'z' {
				word[i] -= 'a' - 'A'
			}
		}
		space := rapid.SampledFrom([]string{"", "", " ", "\t\r\n", "\u00a0", "\ufeff", "\u2009\u3000"})
		return space.Draw(t, "before") + string(word) + space.Draw(t, "after")
	})
	return rapid.OneOf(registered, registered, registered,
		rapid.StringMatching(`[a-zA-Z0-9 ._-]{0,12}`), rapid.String())
}

func railLists() *rapid.Generator[[]string] { return rapid.SliceOfN(noisyRail(), 0, 6) }

func TestRailProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := railLists().Draw(t, "a"), railLists().Draw(t, "b")

		set, err := NormalizeRails(a)
		if err == nil {
			if !slices.IsSorted(set) || len(slices.Compact(slices.Clone(set))) != len(set) {
				t.Fatalf("%v is no sorted set", set)
			}
			words := make([]string, len(set))
			for i, r := range set {
				if !r.Registered() {
					t.Fatalf("%q is not registered", r)
				}
				words[i] = string(r)
			}
			again, err := NormalizeRails(words)
			if err != nil || !slices.Equal(again, set) {
				t.Fatalf("normalising %v again gives %v, %v", set, again, err)
			}
			back := slices.Clone(a)
			slices.Reverse(back)
			turned, err := NormalizeRails(back)
			if err != nil || !slices.Equal(turned, set) {
				t.Fatalf("the order of %q matters", a)
			}
			for _, s := range a {
				if !RailOffered(words, s) {
					t.Fatalf("%q is not in its own set %v", s, set)
				}
			}
		}

		common, err := CommonRails(a, b)
		swapped, errSwapped := CommonRails(b, a)
		if (err == nil) != (errSwapped == nil) || !slices.Equal(common, swapped) {
			t.Fatalf("CommonRails is not symmetric: %v %v, %v %v", common, err, swapped, errSwapped)
		}
		match, err2 := RailsMatch(a, b)
		if (err2 == nil) != (err == nil) || match != (len(common) > 0) {
			t.Fatalf("RailsMatch = %v, %v; common is %v, %v", match, err2, common, err)
		}
	})
}

func FuzzNormalizeRail(f *testing.F) {
	for _, s := range []string{"paper", " PaperRail\n", "paper-rail", "X402", "flop-htlc.", "acme", "", "\ufeff\u00a0", "K", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := NormalizeRail(s)
		if err != nil {
			if r != "" {
				t.Fatalf("%q together with %v", r, err)
			}
			return
		}
		if again, err := NormalizeRail(string(r)); err != nil || again != r || !r.Registered() {
			t.Fatalf("%q gives %q, and that %q, %v", s, r, again, err)
		}
	})
}
