package audit_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tclk-audit/tclk-audit/fold"
)

// A page without rows that says that the room has some is no empty room.
func TestEmptyPageOfARoomWithRows(t *testing.T) {
	dir := t.TempDir()
	board, err := os.ReadFile("../../testdata/cases/01-clean-claimed/tclk-offers.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("tclk-offers.jsonl", string(board))
	for _, tc := range []struct {
		last    string
		verdict fold.Verdict
	}{{"5", fold.Indeterminate}, {"0", fold.Open}} {
		write("mb-p-tclk-0ad9e8bd2b42150a.json",
			`{"room":"mb-p-tclk-0ad9e8bd2b42150a","count":0,"first_seq":null,"last_seq":`+tc.last+`,"generation":1,"messages":[]}`+"\n")
		r := run(t, fold.Rules{}, dir)
		n := 0
		for c := range r.Contracts() {
			if n++; c.Verdict != tc.verdict {
				t.Errorf("last_seq %s: %s, %s, possible %v; want %s", tc.last, c.Evidence, c.Verdict, c.Possible, tc.verdict)
			}
		}
		if n != 1 {
			t.Errorf("%d contracts", n)
		}
	}
}
