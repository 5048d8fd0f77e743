package ingest_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/internal/audit"
	"github.com/tclk-audit/tclk-audit/internal/ingest"
	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/store"
)

// auditOf is what an audit says of every contract, in its order.
func auditOf(t *testing.T, rules fold.Rules, paths []string) []*fold.Contract {
	t.Helper()
	res, err := audit.Run(t.Context(), paths, audit.Options{Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	return slices.Collect(res.Contracts())
}

// sameAsAudit checks that the store says of every contract what an audit of the
// files says.
func sameAsAudit(t *testing.T, s *store.Store, rules fold.Rules, paths ...string) {
	t.Helper()
	compare(t, s, auditOf(t, rules, paths))
}

func compare(t *testing.T, s *store.Store, want []*fold.Contract) {
	t.Helper()
	r, err := s.Reader()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	items, err := r.Contracts(store.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	bad := 0
	for n, w := range want {
		if n == len(items) {
			t.Errorf("the store lists %d contracts, and not %v", n, w.ID)
			break
		}
		got, err := r.Fold(items[n], nil)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(w, got, cmpopts.IgnoreFields(fold.Finding{}, "Order"), cmpopts.EquateEmpty(), cmpopts.EquateComparable(protocol.Statement{})); d != "" {
			t.Errorf("contract %v (store: %v): -audit +store\n%s", w.ID, items[n].Contract, d)
			if bad++; bad > 2 {
				t.Fatal("and more")
			}
		}
		// What lists and events go by is what the fold says now.
		if i := &items[n]; i.Status != got.Status || i.Evidence != got.Evidence || i.Verdict != got.Verdict || i.Binding != got.Binding ||
			i.Chosen != got.Chosen || i.Outlook.String() != got.Outlook.Code || i.Late != got.Late || i.Findings != bits(got) {
			t.Errorf("contract %v: the store's record is stale: %+v", w.ID, i.Brief)
			if bad++; bad > 2 {
				t.Fatal("and more")
			}
		}
	}
	if len(want) < len(items) {
		t.Errorf("the store lists %d contracts, an audit %d", len(items), len(want))
	}
}

func bits(c *fold.Contract) (b uint64) {
	for i := range c.Findings {
		b |= 1 << c.Findings[i].Code
	}
	return b
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
