package report

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/internal/testkit"
	"github.com/tclk-audit/tclk-audit/protocol"
)

func loadSchema(t *testing.T) *testkit.Schema {
	t.Helper()
	s, err := testkit.LoadSchema("../../docs/verify.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSchemaListsEveryCode(t *testing.T) {
	s := loadSchema(t)
	enum := func(path ...string) []string {
		var v any = s.Root["$defs"]
		for _, p := range path {
			v = v.(map[string]any)[p]
		}
		var out []string
		for _, w := range v.([]any) {
			if w != nil {
				out = append(out, w.(string))
			}
		}
		return out
	}
	var reasons, codes []string
	for _, r := range protocol.Reasons() {
		reasons = append(reasons, r.String())
	}
	for _, c := range fold.Codes() {
		codes = append(codes, c.String())
	}
	for _, c := range []struct {
		name      string
		got, want []string
	}{
		{"step.reason", enum("step", "properties", "reason", "enum"), reasons},
		{"rejected", enum("rejected", "propertyNames", "enum"), reasons},
		{"finding.code", enum("finding", "properties", "code", "enum"), codes},
		{"findingCounts", enum("findingCounts", "propertyNames", "enum"), codes},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s lists %v, the code has %v", c.name, c.got, c.want)
		}
	}
}

// TestSchemaChecker makes sure that the checker refuses what it should.
func TestSchemaChecker(t *testing.T) {
	s := loadSchema(t)
	good := string(AppendContractLine(nil, claimed(), Show{}))
	if err := s.Check("contract", good); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, from, to string }{
		{"unknown member", `"flips":null`, `"flips":null,"x":1`},
		{"missing member", `"flips":null,`, ``},
		{"wrong word", `"status":"claimed"`, `"status":"paid"`},
		{"wrong type", `"stepsOmitted":0`, `"stepsOmitted":"0"`},
		{"negative", `"stepsOmitted":0`, `"stepsOmitted":-1`},
		{"not an id", `"contract":"0x`, `"contract":"0X`},
		{"inside a step", `"ignored":false`, `"ignored":null`},
	} {
		bad := strings.Replace(good, c.from, c.to, 1)
		if bad == good {
			t.Fatalf("%s: %s does not occur", c.name, c.from)
		}
		if err := s.Check("contract", bad); err == nil {
			t.Errorf("%s: accepted", c.name)
		}
	}
}

// TestProgramFitsSchema validates what the program printed about bundled
// exports, as its own golden tests hold it.
func TestProgramFitsSchema(t *testing.T) {
	s := loadSchema(t)
	files, err := filepath.Glob("../../cmd/tclk-audit/testdata/json/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden file of the program: %v", err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Check("", string(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
