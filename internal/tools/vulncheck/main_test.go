package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const sbom = `{"SBOM":{"go_version":"go1.26.8","modules":[{"path":"example.org/x"},{"path":"stdlib"}]}}` + "\n"

func TestJudge(t *testing.T) {
	for _, tc := range []struct {
		name  string
		in    string
		ok    bool
		lines []string
	}{
		{"nothing found", sbom, true, []string{"2 modules looked at; findings in other modules: 0; in the standard library of go1.26.8: 0"}},
		{
			"standard library, called",
			sbom + `{"osv":{"id":"GO-1","summary":"Boom in os"}}
{"finding":{"osv":"GO-1","fixed_version":"v1.26.9","trace":[{"module":"stdlib","version":"v1.26.8","package":"os","function":"Open"}]}}`,
			true,
			[]string{"listed  GO-1  stdlib v1.26.8, called, fixed in v1.26.9: Boom in os", "findings in other modules: 0; in the standard library of go1.26.8: 1"},
		},
		{
			"go command",
			sbom + `{"finding":{"osv":"GO-1","trace":[{"module":"toolchain","version":"v1.26.8"}]}}`,
			true, []string{"listed  GO-1  toolchain v1.26.8"},
		},
		{
			"third party, only required",
			sbom + `{"finding":{"osv":"GO-2","fixed_version":"v0.4.0","trace":[{"module":"example.org/dep","version":"v0.3.0"}]}}
{"finding":{"osv":"GO-3","trace":[{"module":"example.org/dep","version":"v0.3.0"}]}}`,
			true, []string{"listed  example.org/dep v0.3.0: 2 in packages that nothing here imports", "findings in other modules: 0;"},
		},
		{
			"third party, imported, without a cure",
			sbom + `{"finding":{"osv":"GO-2","trace":[{"module":"example.org/dep","version":"v0.3.0"}]}}
{"finding":{"osv":"GO-2","trace":[{"module":"example.org/dep","version":"v0.3.0","package":"example.org/dep/p"}]}}`,
			false, []string{"FAIL    GO-2  example.org/dep v0.3.0, imported, no fixed version"},
		},
		{
			"closest level wins, whatever the order",
			sbom + `{"finding":{"osv":"GO-2","trace":[{"module":"example.org/dep","version":"v0.3.0","package":"example.org/dep/p","function":"F"}]}}
{"finding":{"osv":"GO-2","trace":[{"module":"example.org/dep","version":"v0.3.0"}]}}`,
			false, []string{"called"},
		},
		{
			"third party beside the standard library",
			sbom + `{"finding":{"osv":"GO-1","trace":[{"module":"stdlib","version":"v1.26.8"}]}}
{"finding":{"osv":"GO-2","fixed_version":"v0.4.0","trace":[{"module":"example.org/dep","version":"v0.3.0","package":"example.org/dep/p"}]}}`,
			false, []string{
				"listed  GO-1  stdlib v1.26.8, required",
				"FAIL    GO-2  example.org/dep v0.3.0, imported, fixed in v0.4.0",
				"findings in other modules: 1; in the standard library of go1.26.8: 1",
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			res, err := parse(strings.NewReader(tc.in))
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			if ok := judge(res, &out); ok != tc.ok {
				t.Errorf("passed: %v, want %v", ok, tc.ok)
			}
			for _, line := range tc.lines {
				if !strings.Contains(out.String(), line) {
					t.Errorf("no %q in:\n%s", line, out.String())
				}
			}
		})
	}
}

// An answer about nothing must not pass the gate.
func TestNoAnswer(t *testing.T) {
	for _, in := range []string{
		"",
		`{"config":{"protocol_version":"v1.0.0"}}`,
		`{"SBOM":{"go_version":"go1.26.8"}}`,
		sbom + `{"finding":{"osv":"GO-1"}}`,
		sbom + `{"finding":`,
	} {
		if res, err := parse(strings.NewReader(in)); err == nil {
			t.Errorf("%q: no error; %+v", in, res)
		}
	}
}

// The whole check, on a module that calls a function with a known defect.
func TestVulnerableModule(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: fetches an old module and runs govulncheck")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":  "module example.org/x\n\ngo 1.26\n",
		"main.go": "package main\n\nimport \"golang.org/x/text/language\"\n\nfunc main() { language.ParseAcceptLanguage(\"en\") }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	get := exec.CommandContext(t.Context(), "go", "get", "golang.org/x/text@v0.3.5")
	get.Dir = dir
	if out, err := get.CombinedOutput(); err != nil {
		t.Fatalf("go get: %v\n%s", err, out)
	}
	var out strings.Builder
	ok, err := run(dir, &out)
	if err != nil {
		t.Fatal(err)
	}
	if ok || !strings.Contains(out.String(), "FAIL    GO-2021-0113  golang.org/x/text v0.3.5, called, fixed in v0.3.7") {
		t.Errorf("passed: %v\n%s", ok, out.String())
	}
}
