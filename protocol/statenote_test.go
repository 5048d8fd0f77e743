package protocol

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestConformanceStateNotes(t *testing.T) {
	for _, v := range extras[struct {
		Value  string
		Parsed *struct {
			Status  string
			RailRef string
		}
	}](t, "state-notes.jsonl") {
		got, ok := ParseStateNote(v.Value)
		if ok != (v.Parsed != nil) {
			t.Errorf("%q: ok = %v", v.Value, ok)
			continue
		}
		if !ok {
			continue
		}
		if got.Status.String() != v.Parsed.Status || got.RailRef != v.Parsed.RailRef {
			t.Errorf("%q: got %+v", v.Value, got)
		}
		if back, err := FormatStateNote(got); err != nil || back != v.Value {
			t.Errorf("%q: written back as %q, %v", v.Value, back, err)
		}
	}
}

func TestParseStateNote(t *testing.T) {
	for _, word := range []string{"proposed", "accepted", "locked", "claimed", "refunded", "cancelled"} {
		if got, ok := ParseStateNote(word); !ok || got.Status.String() != word || got.RailRef != "" {
			t.Errorf("%s: got %+v, %v", word, got, ok)
		}
	}
	for _, value := range []string{"none", "locked ", " locked", "locked\n", "locked\tx", "lockedx", "canceled", "locked a\x7f", "locked a\x00"} {
		if got, ok := ParseStateNote(value); ok {
			t.Errorf("%q: read as %+v", value, got)
		}
	}
}

func TestFormatStateNoteRefuses(t *testing.T) {
	for _, v := range []StateNoteValue{
		{},
		{Status: StatusNone, RailRef: "x"},
		{Status: Cancelled + 1},
		{Status: Locked, RailRef: "a b"},
		{Status: Locked, RailRef: "é"},
		{Status: Locked, RailRef: strings.Repeat("r", 257)},
	} {
		if got, err := FormatStateNote(v); err == nil {
			t.Errorf("%+v is written as %q", v, got)
		}
	}
}

func TestStateNoteRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := StateNoteValue{
			Status:  Status(rapid.IntRange(int(Proposed), int(Cancelled)).Draw(t, "status")),
			RailRef: rapid.StringMatching(`[!-~]{0,256}`).Draw(t, "ref"),
		}
		value, err := FormatStateNote(v)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := ParseStateNote(value); !ok || got != v {
			t.Fatalf("%+v is written %q and read %+v, %v", v, value, got, ok)
		}
	})
}

func FuzzParseStateNote(f *testing.F) {
	for _, s := range []string{"locked", "locked escrow-1", "locked  x", "", "refunded ~", "claimed \xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		v, ok := ParseStateNote(value)
		if !ok {
			return
		}
		if back, err := FormatStateNote(v); err != nil || back != value {
			t.Fatalf("%q is read %+v and written %q, %v", value, v, back, err)
		}
	})
}
