package lint

import (
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const dependenciesDoc = "docs/dependencies.md"

type goMod struct {
	Require []struct {
		Path     string
		Version  string
		Indirect bool
	}
	Tool []struct{ Path string }
}

func readGoMod(t *testing.T, dir string) goMod {
	t.Helper()
	var m goMod
	if err := json.Unmarshal(output(t, dir, "go", "mod", "edit", "-json"), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// dependencyRows reads the tables of the dependency page: heading → module →
// the other cells of its row.
func dependencyRows(t *testing.T, text string) map[string]map[string][]string {
	t.Helper()
	rows := map[string]map[string][]string{}
	heading := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if h, ok := strings.CutPrefix(line, "## "); ok {
			heading = h
			rows[heading] = map[string][]string{}
			continue
		}
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		module := strings.Trim(cells[0], "`")
		if heading == "" {
			t.Fatalf("%s: %s stands before the first heading", dependenciesDoc, module)
		}
		if _, dup := rows[heading][module]; dup {
			t.Errorf("%s: two rows for %s", dependenciesDoc, module)
		}
		rows[heading][module] = cells[1:]
	}
	return rows
}

// compareVersions says what differs between the page's rows and the versions
// in use.
func compareVersions(rows map[string][]string, use map[string]string) []string {
	var diff []string
	for module, cells := range rows {
		version, used := use[module]
		switch {
		case !used:
			diff = append(diff, module+" is on the page, but not a direct dependency")
		case len(cells) != 4 || slices.Contains(cells, ""):
			diff = append(diff, module+" needs version, licence, why, and what keeps it replaceable")
		case cells[0] != version:
			diff = append(diff, module+" is "+cells[0]+" on the page and "+version+" in use")
		}
	}
	for module, version := range use {
		if _, ok := rows[module]; !ok {
			diff = append(diff, module+" "+version+" is used, but not on the page")
		}
	}
	slices.Sort(diff)
	return diff
}

func TestDependenciesPage(t *testing.T) {
	rows := dependencyRows(t, string(read(t, dependenciesDoc)))

	// Opened here, so that a change of either file runs the test again.
	read(t, "go.mod")
	read(t, toolsPath+"/go.mod")

	direct := map[string]string{}
	for _, r := range readGoMod(t, root).Require {
		if !r.Indirect {
			direct[r.Path] = r.Version
		}
	}
	listed := map[string][]string{}
	for _, heading := range []string{"In the program", "In tests only"} {
		if len(rows[heading]) == 0 {
			t.Errorf("%s: no row under %q", dependenciesDoc, heading)
		}
		for module, cells := range rows[heading] {
			if _, dup := listed[module]; dup {
				t.Errorf("%s: %s has two rows", dependenciesDoc, module)
			}
			listed[module] = cells
		}
	}
	for _, d := range compareVersions(listed, direct) {
		t.Errorf("%s and go.mod: %s", dependenciesDoc, d)
	}

	tools := map[string]string{}
	toolsMod := readGoMod(t, filepath.Join(root, toolsPath))
	for _, tool := range toolsMod.Tool {
		for _, r := range toolsMod.Require {
			if strings.HasPrefix(tool.Path, r.Path+"/") {
				tools[r.Path] = r.Version
			}
		}
	}
	// The vulnerability database is data, so no go.mod can require it.
	pin := regexp.MustCompile(`(?m)^const vulndb = "(\S+)@(\S+)"$`).FindStringSubmatch(string(read(t, toolsPath+"/vulncheck/main.go")))
	if pin == nil {
		t.Fatal("no pin of the vulnerability database in " + toolsPath + "/vulncheck")
	}
	tools[pin[1]] = pin[2]
	for _, d := range compareVersions(rows["Tools"], tools) {
		t.Errorf("%s and %s: %s", dependenciesDoc, toolsPath, d)
	}
}

// The comparison itself sees each kind of difference.
func TestCompareVersions(t *testing.T) {
	rows := dependencyRows(t, strings.Join([]string{
		"## In the program",
		"| module | version | licence | why | replaceable |",
		"| --- | --- | --- | --- | --- |",
		"| `x.org/same` | v1.0.0 | MIT | because | one file |",
		"| `x.org/old` | v1.0.0 | MIT | because | one file |",
		"| `x.org/gone` | v1.0.0 | MIT | because | one file |",
		"| `x.org/bare` | v1.0.0 | MIT | because | |",
	}, "\n"))
	got := compareVersions(rows["In the program"], map[string]string{
		"x.org/same": "v1.0.0", "x.org/old": "v1.0.1", "x.org/new": "v1.0.0", "x.org/bare": "v1.0.0",
	})
	want := []string{
		"x.org/bare needs version, licence, why, and what keeps it replaceable",
		"x.org/gone is on the page, but not a direct dependency",
		"x.org/new v1.0.0 is used, but not on the page",
		"x.org/old is v1.0.0 on the page and v1.0.1 in use",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

var (
	fence      = regexp.MustCompile("(?ms)^```.*?^```$")
	mdLink     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	makeInText = regexp.MustCompile("(?m)(?:`|^\\$ )make ([a-z][a-z-]*)|^make ([a-z][a-z-]*)(?:\\s+#.*)?$")
	makeTarget = regexp.MustCompile(`(?m)^([a-z][a-z-]*):`)
	hasScheme  = regexp.MustCompile(`^[a-z]+:`)
)

// brokenLinks returns the relative links of a Markdown file that lead to no
// file. Links to other sites are not followed.
func brokenLinks(rel, text string, exists func(rel string) bool) []string {
	var broken []string
	for _, m := range mdLink.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		target, _, _ := strings.Cut(m[1], "#")
		if target == "" || hasScheme.MatchString(target) {
			continue
		}
		if !exists(path.Join(path.Dir(rel), target)) {
			broken = append(broken, m[1])
		}
	}
	return broken
}

func TestDocLinks(t *testing.T) {
	for _, rel := range repoFiles(t) {
		if !strings.HasSuffix(rel, ".md") || inTestdata(rel) {
			continue
		}
		for _, link := range brokenLinks(rel, string(read(t, rel)), func(rel string) bool {
			_, err := os.Stat(filepath.Join(root, filepath.FromSlash(rel)))
			return err == nil
		}) {
			t.Errorf("%s: the link %s leads nowhere", rel, link)
		}
	}
}

func TestBrokenLinks(t *testing.T) {
	text := "[a](b.md) [c](../gone.md#x) [d](#here) [e](https://example.org/x)\n```\n[f](gone.md)\n```\n"
	got := brokenLinks("docs/a.md", text, func(rel string) bool { return rel == "docs/b.md" })
	if want := []string{"../gone.md#x"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Every `make x` that the docs tell a reader to run is a target.
func TestDocMakeTargets(t *testing.T) {
	targets := map[string]bool{}
	for _, m := range makeTarget.FindAllStringSubmatch(string(read(t, "Makefile")), -1) {
		targets[m[1]] = true
	}
	for _, want := range []string{"demo", "test", "bench", "fuzz"} {
		if !targets[want] {
			t.Errorf("the Makefile has no target %s", want)
		}
	}
	for _, rel := range repoFiles(t) {
		if !strings.HasSuffix(rel, ".md") || inTestdata(rel) {
			continue
		}
		for _, m := range makeInText.FindAllStringSubmatch(string(read(t, rel)), -1) {
			if target := m[1] + m[2]; !targets[target] {
				t.Errorf("%s says `make %s`, which the Makefile does not have", rel, target)
			}
		}
	}
}
