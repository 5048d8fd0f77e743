// Vulncheck looks for known vulnerabilities in what a module uses, without the
// vulnerability service: the database comes as a Go module, so the module
// proxy is all that is needed, and the same commit gets the same answer every
// day.
//
// It fails when a vulnerable package of another module is imported, whether or
// not the vulnerable function is called: calls are found by analysis, which can
// miss some. It only lists what no change here could make safer: findings in
// the standard library, which the user's own Go patch release fixes, and
// findings in packages that nothing here imports.
//
// Run it in its own module and name the module to check:
//
//	go run -C internal/tools ./vulncheck ../..
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// The database: Go's vulnerability reports, and the day they were taken. To
// take newer ones, ask for the version with
// `go list -m golang.org/x/vulndb@latest` and write it here and in
// docs/dependencies.md.
const vulndb = "golang.org/x/vulndb@v0.0.0-20261105234957-e22db6528018"

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: vulncheck MODULE_DIR")
		os.Exit(2)
	}
	ok, err := run(os.Args[1], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "vulncheck:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

// run checks the module in dir and reports to w. It returns whether the gate
// is passed; an error means that there is no answer.
func run(dir string, w io.Writer) (ok bool, err error) {
	reports, err := database()
	if err != nil {
		return false, err
	}
	// A folder of reports without an index is read as it is.
	db := url.URL{Scheme: "file", Path: filepath.ToSlash(reports)}
	out, err := command("go", "tool", "govulncheck", "-C", dir, "-test", "-format", "json", "-db", db.String(), "./...")
	if err != nil {
		return false, err
	}
	res, err := parse(bytes.NewReader(out))
	if err != nil {
		return false, err
	}
	fmt.Fprintf(w, "%s\n", vulndb)
	return judge(res, w), nil
}

// database fetches the reports, unless the module cache has them, and returns
// their folder.
func database() (string, error) {
	out, err := command("go", "mod", "download", "-json", vulndb)
	if err != nil {
		return "", err
	}
	var m struct{ Dir string }
	if err := json.Unmarshal(out, &m); err != nil {
		return "", fmt.Errorf("output of go mod download: %w", err)
	}
	dir := filepath.Join(m.Dir, "data", "osv")
	reports, err := filepath.Glob(filepath.Join(dir, "GO-*.json"))
	if err != nil {
		return "", err
	}
	if len(reports) == 0 {
		return "", fmt.Errorf("%s has no reports in %s", vulndb, dir)
	}
	return dir, nil
}

// A level says how close a vulnerability is to the code: its module is
// required, its package is imported, or its function is called.
type level int

const (
	required level = iota
	imported
	called
)

func (l level) String() string {
	return [...]string{"required", "imported", "called"}[l]
}

type finding struct {
	id      string
	module  string
	version string
	fixed   string // empty: no version fixes it
	level   level
}

// standard says whether the finding is in Go itself.
func (f finding) standard() bool { return f.module == "stdlib" || f.module == "toolchain" }

// gates says whether the finding must fail the check.
func (f finding) gates() bool { return !f.standard() && f.level > required }

type result struct {
	modules  int
	goIs     string
	findings []finding         // one per vulnerability and module, at the closest level
	summary  map[string]string // vulnerability → one line
}

// parse reads govulncheck's JSON messages.
func parse(r io.Reader) (result, error) {
	res := result{summary: map[string]string{}}
	type key struct{ id, module string }
	found := map[key]finding{}
	for dec := json.NewDecoder(r); ; {
		var m struct {
			SBOM *struct {
				GoVersion string `json:"go_version"`
				Modules   []struct{ Path string }
			}
			OSV *struct {
				ID      string
				Summary string
			}
			Finding *struct {
				OSV   string
				Fixed string `json:"fixed_version"`
				Trace []struct{ Module, Version, Package, Function string }
			}
		}
		if err := dec.Decode(&m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return result{}, fmt.Errorf("output of govulncheck: %w", err)
		}
		switch {
		case m.SBOM != nil:
			res.modules, res.goIs = len(m.SBOM.Modules), m.SBOM.GoVersion
		case m.OSV != nil:
			res.summary[m.OSV.ID] = m.OSV.Summary
		case m.Finding != nil:
			if len(m.Finding.Trace) == 0 {
				return result{}, fmt.Errorf("output of govulncheck: finding %s without a trace", m.Finding.OSV)
			}
			at := m.Finding.Trace[0]
			f := finding{id: m.Finding.OSV, module: at.Module, version: at.Version, fixed: m.Finding.Fixed}
			switch {
			case at.Function != "":
				f.level = called
			case at.Package != "":
				f.level = imported
			}
			k := key{f.id, f.module}
			if old, ok := found[k]; !ok || f.level > old.level {
				found[k] = f
			}
		}
	}
	// A run that looked at nothing finds nothing: that is not a pass.
	if res.modules == 0 {
		return result{}, errors.New("govulncheck named no module that it looked at")
	}
	for _, f := range found {
		res.findings = append(res.findings, f)
	}
	slices.SortFunc(res.findings, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.module, b.module), cmp.Compare(a.id, b.id))
	})
	return res, nil
}

// judge prints the findings and returns whether none of them gates.
func judge(res result, w io.Writer) bool {
	gating, standard := 0, 0
	idle := map[string]int{} // module that is only required → findings
	for _, f := range res.findings {
		verdict := "listed"
		switch {
		case f.gates():
			verdict = "FAIL"
			gating++
		case f.standard():
			standard++
		default:
			idle[f.module+" "+f.version]++
			continue
		}
		fixed := "no fixed version"
		if f.fixed != "" {
			fixed = "fixed in " + f.fixed
		}
		fmt.Fprintf(w, "%-6s  %s  %s %s, %s, %s: %s\n", verdict, f.id, f.module, f.version, f.level, fixed, res.summary[f.id])
	}
	for _, m := range slices.Sorted(maps.Keys(idle)) {
		fmt.Fprintf(w, "listed  %s: %d in packages that nothing here imports\n", m, idle[m])
	}
	fmt.Fprintf(w, "%d modules looked at; findings in other modules: %d; in the standard library of %s: %d\n",
		res.modules, gating, res.goIs, standard)
	return gating == 0
}

func command(name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s%s", name, strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()), bytes.TrimSpace(out))
	}
	return out, nil
}
