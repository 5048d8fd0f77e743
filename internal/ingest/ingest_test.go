package ingest_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/internal/audit"
	"github.com/tclk-audit/tclk-audit/internal/ingest"
	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/store"
)

// sameAsAudit checks that the store says of every contract what an audit of the
// files says.
func sameAsAudit(t *testing.T, s *store.Store, rules fold.Rules, paths ...string) int {
	t.Helper()
	res, err := audit.Run(t.Context(), paths, audit.Options{Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Reader()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	items, err := r.Contracts(store.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	bad := 0
	for want := range res.Contracts() {
		if n == len(items) {
			t.Errorf("the store lists %d contracts, and not %v", n, want.ID)
			break
		}
		got, err := r.Fold(items[n], nil)
		if err != nil {
			t.Fatal(err)
		}
		n++
		if d := cmp.Diff(want, got, cmpopts.IgnoreFields(fold.Finding{}, "Order"), cmpopts.EquateEmpty(), cmpopts.EquateComparable(protocol.Statement{})); d != "" {
			t.Errorf("contract %v (store: %v): -audit +store\n%s", want.ID, items[n-1].Contract, d)
			if bad++; bad > 3 {
				t.Fatal("and more")
			}
		}
	}
	if n != len(items) {
		t.Errorf("the store lists %d contracts, an audit %d", len(items), n)
	}
	return n
}

func open(t *testing.T, dir string, rules fold.Rules) *store.Store {
	t.Helper()
	s, err := store.Open(dir, store.Options{Rules: &rules})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func load(t *testing.T, s *store.Store, paths ...string) *ingest.Result {
	t.Helper()
	res, err := ingest.Run(context.Background(), s, paths, ingest.Options{Venue: "file"})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestStoreSaysWhatAnAuditSays(t *testing.T) {
	var dirs []string
	for _, pattern := range []string{"../../testdata/conformance/corpus/*", "../../testdata/cases/*", "../../testdata/conformance/extras/*", "../../testdata/demo"} {
		m, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range m {
			if st, err := os.Stat(d); err == nil && (st.IsDir() || filepath.Ext(d) == ".jsonl") {
				dirs = append(dirs, d)
			}
		}
	}
	if len(dirs) == 0 {
		t.Fatal("no transcripts")
	}
	for _, d := range dirs {
		t.Run(filepath.Base(d), func(t *testing.T) {
			s := open(t, t.TempDir(), fold.Rules{})
			defer s.Close()
			load(t, s, d)
			sameAsAudit(t, s, fold.Rules{}, d)
		})
	}
}
