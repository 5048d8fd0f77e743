package lint

import (
	"bytes"
	"go/format"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestGofmt(t *testing.T) {
	n := 0
	for _, path := range repoFiles(t) {
		if !strings.HasSuffix(path, ".go") || inTestdata(path) {
			continue
		}
		n++
		src := read(t, path)
		want, err := format.Source(src)
		if err != nil {
			t.Errorf("%s: %v", path, err)
		} else if !bytes.Equal(src, want) {
			t.Errorf("%s is not gofmt'ed; run: gofmt -w %s", path, path)
		}
	}
	if n == 0 {
		t.Error("no Go file found")
	}
}

func TestVet(t *testing.T) {
	skipSlow(t)
	silent(t, root, "go", "vet", "./...")
	silent(t, root, "go", "vet", "-tags", "novoi", "./...")
	silent(t, filepath.Join(root, toolsPath), "go", "vet", "./...")
}

func TestStaticcheck(t *testing.T) {
	skipSlow(t)
	pinned := []string{"tool", "-modfile=" + toolsPath + "/go.mod", "staticcheck"}
	silent(t, root, "go", append(pinned, "./...")...)
	silent(t, root, "go", append(pinned, "-tags", "novoi", "./...")...)
	silent(t, filepath.Join(root, toolsPath), "go", "tool", "staticcheck", "./...")
}

func TestModTidy(t *testing.T) {
	skipSlow(t)
	silent(t, root, "go", "mod", "tidy", "-diff")
	silent(t, filepath.Join(root, toolsPath), "go", "mod", "tidy", "-diff")
}

// A rule about words: what must not be in a file, and in which files.
type wordRule struct {
	name string
	re   *regexp.Regexp
	in   func(path string) bool
}

var wordRules = []wordRule{
	{
		// A path of the machine that a file was written on means nothing on
		// the reader's. A letter, dot or bracket before the slash makes it
		// part of another path.
		name: "machine path",
		re:   regexp.MustCompile(`(?:^|[^\w.\-)}])/(?:work|tmp|root|home)/`),
		in:   func(string) bool { return true },
	},
	{
		name: "unfinished work",
		re:   regexp.MustCompile(`\b(?:TO` + `DO|FIX` + `ME|XX` + `X)\b`),
		in: func(path string) bool {
			return strings.HasSuffix(path, ".go") || strings.HasSuffix(path, ".sh") || filepath.Base(path) == "Makefile"
		},
	},
}

// banned returns the rules that a line of a file breaks.
func banned(path, line string) []string {
	var names []string
	for _, r := range wordRules {
		if r.in(path) && r.re.MatchString(line) {
			names = append(names, r.name)
		}
	}
	return names
}

func TestBannedWords(t *testing.T) {
	for _, path := range repoFiles(t) {
		if inTestdata(path) {
			continue
		}
		src := read(t, path)
		if bytes.IndexByte(src, 0) >= 0 {
			continue // binary
		}
		n := 0
		for line := range strings.Lines(string(src)) {
			n++
			for _, name := range banned(path, line) {
				t.Errorf("%s:%d: %s: %s", path, n, name, strings.TrimSpace(line))
			}
		}
	}
}

// The rules themselves: a rule that matches nothing would pass every file.
func TestWordRules(t *testing.T) {
	for _, tc := range []struct {
		path, line, want string
	}{
		{"a.go", "// see /wo" + "rk/main/x", "machine path"},
		{"README.md", "`/tm" + "p/x`", "machine path"},
		{"a.sh", "cd=/ro" + "ot/x", "machine path"},
		{"a.txt", "/ho" + "me/somebody/x", "machine path"},
		{"a.go", "// TO" + "DO: more", "unfinished work"},
		{"a.go", "x() // FIX" + "ME(me)", "unfinished work"},
		{"Makefile", "# XX" + "X", "unfinished work"},

		{"a.go", "filepath.Join(tmp, \"x\")", ""},
		{"a.go", "\"../shared/work/x\" ./tmp/x $(dir)/tmp/x", ""},
		{"a.go", "https://example.org/root/x", ""},
		{"README.md", "TO" + "DO lists are not code", ""},
		{"a.go", "MAXX" + "XL", ""},
	} {
		if got := strings.Join(banned(tc.path, tc.line), ", "); got != tc.want {
			t.Errorf("%s: %q: got %q, want %q", tc.path, tc.line, got, tc.want)
		}
	}
}
