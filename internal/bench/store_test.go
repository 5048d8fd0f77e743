package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestStoreSection runs the section on tiny boards: every process does what it
// was asked for, and every table has its rows.
func TestStoreSection(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program and runs it some thirty times")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The path of a socket must be short.
	work, err := os.MkdirTemp("", "bench-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(work); err != nil {
			t.Error(err)
		}
	})
	program := filepath.Join(work, "tclk-audit")
	if err := build(t.Context(), filepath.Join("..", ".."), "./cmd/tclk-audit", program); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	b := &bench{
		config: config{rows: 1000, pairs: 1, program: program},
		out:    &out, self: self, work: work, corpora: work, checked: map[string]bool{},
	}
	if err := b.store(t.Context()); err != nil {
		t.Fatal(err, out.String())
	}
	for start, want := range map[string]int{"300 keys ": 2, "80000 keys ": 2, "with deal rooms ": 3, "a day's board ": 3} {
		if got := strings.Count(out.String(), "\n"+start); got != want {
			t.Errorf("%d rows of %q, want %d", got, start, want)
		}
	}
	if _, err := os.Stat(filepath.Join(work, "store")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the store is still there: %v", err)
	}
	if t.Failed() {
		t.Log(out.String())
	}
}

func TestCheckIngest(t *testing.T) {
	const first, again = `{"inputs":{"read":1,"known":0},"rows":{"read":10}}`, `{"inputs":{"read":0,"known":1},"rows":{"read":0}}`
	for _, c := range []struct {
		rows, known int64
		said        string
		ok          bool
	}{
		{10, 0, first, true}, {0, 1, again, true}, {11, 0, first, false}, {10, 1, first, false}, {0, 1, first, false},
		{0, 0, `{}`, false}, {0, 0, "", false},
	} {
		if err := checkIngest(c.rows, c.known)(c.said); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestAskNeedsAStore(t *testing.T) {
	for _, args := range [][]string{nil, {"a", "b"}, {filepath.Join(t.TempDir(), "none")}} {
		if runAsk(args, io.Discard) == nil {
			t.Errorf("%q were asked", args)
		}
	}
}

func TestWriteLog(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "db"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, size := range map[string]int{"000001.log": 10, "000002.log": 5, "000003.sst": 100} {
		if err := os.WriteFile(filepath.Join(dir, "db", name), make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if log, all := writeLog(dir), stored(dir); log != 15 || all != 115 {
		t.Errorf("%v of %v bytes are the write-log", log, all)
	}
}

// What prepares a run comes before each run, and its failure is the run's.
func TestBefore(t *testing.T) {
	path := writeBoard(t, 10)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	c := contender{name: "a", argv: []string{self, singly, path}, repeat: 2, before: func() error { n++; return nil }}
	if _, err := rounds(t.Context(), 3, c); err != nil || n != 6 {
		t.Errorf("prepared %d of 6 runs, %v", n, err)
	}
	failed := errors.New("no room")
	c.before = func() error { return failed }
	if _, err := rounds(t.Context(), 1, c); !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
}
