package protocol

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestConformanceCapability(t *testing.T) {
	for _, v := range extras[struct {
		Note  string
		Rails []Rail
	}](t, "capability.jsonl") {
		got, ok := ParseCapability(v.Note)
		if ok != (v.Rails != nil) || !slices.Equal(got, v.Rails) {
			t.Errorf("%q: got %v, %v; want %v", v.Note, got, ok, v.Rails)
		}
	}
}

func TestParseCapability(t *testing.T) {
	for _, c := range []struct {
		name, note string
		want       []Rail
	}{
		{"after other lines", "name: bob\nspeaks tclk1:x402\nbye", []Rail{RailX402}},
		{"no-break space before it", "hi\u00a0tclk1:x402", []Rail{RailX402}},
		{"inside a word", "xtclk1:x402", nil},
		{"a space inside the list", "tclk1:paper, x402", nil},
		{"the first token decides", "tclk1:acme tclk1:x402", nil},
		{"another version beside it", "tclk2:paper tclk1:x402", []Rail{RailX402}},
		{"capital prefix", "TCLK1:x402", nil},
		{"all rails", "tclk1:x402,paper,near-htlc,memory,flop-htlc,evm-htlc,btc-htlc", Rails()},
		{"a note as long as the venue keeps", strings.Repeat("\U0001f600", 8181) + " tclk1:x402", []Rail{RailX402}},
		{"one over the bound", strings.Repeat(" ", 4*8192-10) + "tclk1:paper", nil},
		{"at the bound", strings.Repeat(" ", 4*8192-11) + "tclk1:paper", []Rail{RailPaper}},
	} {
		got, ok := ParseCapability(c.note)
		if ok != (c.want != nil) || !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, %v", c.name, got, ok)
		}
	}
}

func TestFormatCapability(t *testing.T) {
	got, err := FormatCapability([]string{"X402", "PaperRail", "paper"})
	if err != nil || got != "tclk1:paper,x402" {
		t.Errorf("got %q, %v", got, err)
	}
	for _, c := range []struct {
		rails []string
		want  error
	}{
		{nil, ErrNoRails},
		{[]string{"paper", ""}, ErrEmptyRail},
		{[]string{"paper_rail"}, ErrMalformedRail},
		{[]string{"acme"}, ErrUnknownRail},
	} {
		if got, err := FormatCapability(c.rails); got != "" || !errors.Is(err, c.want) {
			t.Errorf("%q: got %q, %v", c.rails, got, err)
		}
	}
}

func TestCapabilityRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rails := railLists().Draw(t, "rails")
		token, err := FormatCapability(rails)
		want, errSet := NormalizeRails(rails)
		if (err == nil) != (errSet == nil) {
			t.Fatalf("%q: token %v, set %v", rails, err, errSet)
		}
		if err != nil {
			return
		}
		note := rapid.SampledFrom([]string{"", "hello ", "line\n"}).Draw(t, "before") + token +
			rapid.SampledFrom([]string{"", " bye", "\n"}).Draw(t, "after")
		if got, ok := ParseCapability(note); !ok || !slices.Equal(got, want) {
			t.Fatalf("%q: got %v, %v", note, got, ok)
		}
	})
}

func FuzzParseCapability(f *testing.F) {
	for _, s := range []string{"tclk1:paper,x402", "x tclk1:x402 y", "tclk1:", "tclk1:,", "tclk1:acme tclk1:paper", "\xff tclk1:paper"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, note string) {
		rails, ok := ParseCapability(note)
		if !ok {
			if len(rails) > 0 {
				t.Fatalf("refused, but gives %v", rails)
			}
			return
		}
		words := make([]string, len(rails))
		for i, r := range rails {
			words[i] = string(r)
		}
		token, err := FormatCapability(words)
		if err != nil {
			t.Fatal(err)
		}
		if again, ok := ParseCapability(token); !ok || !slices.Equal(again, rails) {
			t.Fatalf("%v writes %q, which reads %v", rails, token, again)
		}
	})
}
