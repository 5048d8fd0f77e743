package ingest_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/internal/audit"
	"github.com/tclk-audit/tclk-audit/internal/gen"
	"github.com/tclk-audit/tclk-audit/internal/ingest"
	"github.com/tclk-audit/tclk-audit/store"
)

// hostile makes a board with every kind of odd row, and returns its folder.
func hostile(t *testing.T) string {
	t.Helper()
	o := gen.Defaults()
	o.Contracts, o.Out = 40, filepath.Join(t.TempDir(), "corpus")
	var err error
	if o.Noise, err = gen.ParseNoise("all"); err != nil {
		t.Fatal(err)
	}
	if _, err := gen.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	return o.Out
}

func check(t *testing.T, s *store.Store) {
	t.Helper()
	if err := s.Rebuild(t.Context(), true, nil); err != nil {
		t.Error(err)
	}
}

// events lists the ids of all events.
func events(t *testing.T, s *store.Store) (ids []string) {
	t.Helper()
	r, err := s.Reader()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for e, err := range r.Events(1) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, e.ID())
	}
	return ids
}

func TestBackup(t *testing.T) {
	corpus, dir := hostile(t), t.TempDir()
	s := open(t, filepath.Join(dir, "store"), fold.Rules{})
	defer s.Close()
	res := load(t, s, corpus)
	if want, err := audit.Run(t.Context(), []string{corpus}, audit.Options{}); err != nil || res.Malformed != want.Rows.Malformed || res.Torn < want.Rows.Torn {
		t.Errorf("%+v, an audit: %+v, %v", res, want.Rows, err)
	}
	if res.Exit() != 1 || res.Malformed == 0 || res.Forged == 0 || res.Torn == 0 {
		t.Errorf("%+v", res)
	}
	to := filepath.Join(dir, "backup")
	if err := s.Backup(to); err != nil {
		t.Fatal(err)
	}
	if err := s.Backup(to); !errors.Is(err, os.ErrExist) {
		t.Errorf("a second one into the same folder: %v", err)
	}
	want := events(t, s)

	// What comes later is not in it.
	load(t, s, "../../testdata/demo")
	if err := os.RemoveAll(to + ".part"); err != nil {
		t.Fatal(err)
	}
	b, err := store.Open(to, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.Behind(); err != nil {
		t.Error(err)
	}
	if got := events(t, b); strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("%d events, not %d", len(got), len(want))
	}
	check(t, b)
	sameAsAudit(t, b, fold.Rules{}, corpus)
	load(t, b, "../../testdata/demo")
	check(t, b)
}

// TestBackupBesideWriter copies a store at each window of a writer.
func TestBackupBesideWriter(t *testing.T) {
	corpus, dir := hostile(t), t.TempDir()
	s := open(t, filepath.Join(dir, "store"), fold.Rules{})
	defer s.Close()
	n := 0
	_, err := ingest.Run(t.Context(), s, []string{corpus}, ingest.Options{Venue: "file", Committed: func(store.WindowCounts) {
		n++
		if err := s.Backup(filepath.Join(dir, "backup")); err != nil {
			t.Error(err)
		}
	}})
	if err != nil || n == 0 {
		t.Fatal(n, err)
	}
	b := open(t, filepath.Join(dir, "backup"), fold.Rules{})
	defer b.Close()
	sameAsAudit(t, b, fold.Rules{}, corpus)
}

func TestFailedBackup(t *testing.T) {
	s := open(t, t.TempDir(), fold.Rules{})
	defer s.Close()
	load(t, s, "../../testdata/demo")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Backup(filepath.Join(file, "backup")); err == nil {
		t.Error("a backup within a file")
	}
	if err := s.Backup(file); !errors.Is(err, os.ErrExist) {
		t.Errorf("a backup in place of a file: %v", err)
	}
}

// TestReaders holds that readers do not stand in each other's way, and that a
// writer is alone.
func TestReaders(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("a reader is alone here")
	}
	dir := t.TempDir()
	s := open(t, dir, fold.Rules{})
	load(t, s, "../../testdata/demo")
	if _, err := store.Open(dir, store.Options{ReadOnly: true}); !errors.Is(err, store.ErrLocked) {
		t.Errorf("a reader beside a writer: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var two [2]*store.Store
	for i := range two {
		var err error
		if two[i], err = store.Open(dir, store.Options{ReadOnly: true}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range two {
		if _, err := store.Open(dir, store.Options{}); !errors.Is(err, store.ErrLocked) {
			t.Errorf("a writer beside %d readers: %v", 2-i, err)
		}
		if len(events(t, two[i])) == 0 {
			t.Error("no events")
		}
		if err := two[i].Close(); err != nil {
			t.Error(err)
		}
	}
	if err := open(t, dir, fold.Rules{}).Close(); err != nil {
		t.Error(err)
	}
}

func TestCompact(t *testing.T) {
	corpus, dir := hostile(t), t.TempDir()
	s := open(t, dir, fold.Rules{})
	defer s.Close()
	load(t, s, corpus)
	before, after, err := s.Compact(t.Context())
	if err != nil || before <= 0 || after <= 0 {
		t.Errorf("%d, %d, %v", before, after, err)
	}
	check(t, s)
	sameAsAudit(t, s, fold.Rules{}, corpus)
}

// TestPrune holds that pruning takes the bytes of unusable rows away, from the
// disk too, and nothing else.
func TestPrune(t *testing.T) {
	corpus, dir := hostile(t), t.TempDir()
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { s.Close() }()
	const mark = `not a row, but words that must go: 7d0e41`
	bad := filepath.Join(t.TempDir(), "tclk-offers.jsonl")
	if err := os.WriteFile(bad, []byte(mark+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	load(t, s, corpus, bad)
	want := events(t, s)
	if p, err := s.Prune(t.Context(), 1); err != nil || p != (store.Pruned{}) {
		t.Errorf("before the first row: %+v, %v", p, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Prune(ctx, 1<<52); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	p, err := s.Prune(t.Context(), 1<<52)
	if err != nil || p.Unsigned == 0 || p.Invalid == 0 || p.Malformed == 0 || p.Bytes == 0 {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := s.Prune(t.Context(), 1<<52); err != nil || p != (store.Pruned{}) {
		t.Errorf("again: %+v, %v", p, err)
	}
	check(t, s)
	sameAsAudit(t, s, fold.Rules{}, corpus, bad)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// Opening it takes write-logs away that are not needed any more.
	if err := open(t, dir, fold.Rules{}).Close(); err != nil {
		t.Fatal(err)
	}
	if files := holding(t, dir, mark); len(files) > 0 {
		t.Errorf("the bytes still stand in %q", files)
	}
	if s, err = store.Open(dir, store.Options{}); err != nil {
		t.Fatal(err)
	}
	// The same rows again are known, although their bytes are gone.
	res := load(t, s, corpus)
	if res.Counts.Rows != 0 {
		t.Errorf("known files are read again: %+v", res.Counts)
	}
	if err := s.Rebuild(t.Context(), false, nil); err != nil {
		t.Error(err)
	}
	if got := events(t, s); strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("%d other events, not %d", len(got), len(want))
	}
}

// holding lists the files below dir that hold a text. Tables are compressed, but
// only where that makes them smaller.
func holding(t *testing.T, dir, text string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(text)) {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
