package audit

import (
	"path/filepath"
	"testing"

	"github.com/tclk-audit/tclk-audit/internal/gen"
)

// TestAgreesWithTheGenerator audits generated corpora and compares with what
// the plan of each intended, reached without any auditing.
func TestAgreesWithTheGenerator(t *testing.T) {
	for name, change := range map[string]func(*gen.Options){
		"no noise":   func(o *gen.Options) { o.Noise = gen.Noise{} },
		"live":       func(o *gen.Options) {},
		"all":        func(o *gen.Options) { o.Noise = gen.AllNoise() },
		"single":     func(o *gen.Options) { o.Noise, o.Single = gen.AllNoise(), true },
		"one file":   func(o *gen.Options) { o.Noise, o.Layout = gen.AllNoise(), gen.OneFile },
		"board only": func(o *gen.Options) { o.Noise, o.DealRooms = gen.AllNoise(), false },
	} {
		t.Run(name, func(t *testing.T) {
			o := gen.Defaults()
			o.Seed, o.Contracts, o.Out = 3, 600, filepath.Join(t.TempDir(), "corpus")
			change(&o)
			if _, err := gen.Run(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			m, err := gen.ReadManifest(filepath.Join(o.Out, "manifest.json"))
			if err != nil {
				t.Fatal(err)
			}
			r, err := Run(t.Context(), []string{o.Out}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			rows := r.Rows
			if rows.Authentic != m.Rows.Authentic || rows.Unsigned != m.Rows.Unsigned || rows.Malformed != m.Rows.Malformed ||
				rows.Torn != m.Rows.Torn || rows.Duplicate != m.Rows.Duplicate ||
				rows.Repaired > m.Rows.Repaired || rows.Repaired+rows.Invalid != m.Rows.Repaired+m.Rows.Invalid { // repairs have a budget
				t.Errorf("rows %+v, intended %+v", rows, m.Rows)
			}
			want := map[string]gen.Contract{}
			for _, c := range m.Contracts {
				want[c.Contract] = c
			}
			for c := range r.Contracts() {
				w, ok := want[c.ID.String()]
				if !ok {
					t.Errorf("%s was not intended", c.ID)
					continue
				}
				delete(want, c.ID.String())
				if c.Status.String() != w.Status || c.Binding.String() != w.Binding || c.Chosen != w.Chosen || c.Late != w.Late {
					t.Errorf("%s (%s): %v %v chosen %v late %v, intended %+v", c.ID, w.Story, c.Status, c.Binding, c.Chosen, c.Late, w)
				}
				if w.Shadow != "" && c.Shadow.String() != w.Shadow {
					t.Errorf("%s (%s): shadow %v, intended %s", c.ID, w.Story, c.Shadow, w.Shadow)
				}
				if w.Evidence != "" && (c.Evidence.String() != w.Evidence || c.Verdict.String() != w.Verdict) {
					t.Errorf("%s (%s): %v, %v, intended %s, %s", c.ID, w.Story, c.Evidence, c.Verdict, w.Evidence, w.Verdict)
				}
				for _, code := range w.Findings {
					if code == "nonce-repaired" {
						continue // repairs have a budget
					}
					found := false
					for _, f := range c.Findings {
						found = found || f.Code.String() == code
					}
					if !found {
						t.Errorf("%s (%s): no finding %s", c.ID, w.Story, code)
					}
				}
			}
			if len(want) > 0 {
				t.Errorf("%d intended contracts are not listed", len(want))
			}
		})
	}
}
