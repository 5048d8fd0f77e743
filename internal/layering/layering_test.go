package layering

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The rule itself, on this module.
func TestLayering(t *testing.T) {
	found, err := Check("../..", Table)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range found {
		t.Error(v)
	}
}

// A row that could never match, or a pure package that leans on an impure
// one, is a mistake in the table.
func TestTable(t *testing.T) {
	rows := map[string]Row{}
	for _, r := range Table {
		rows[r.Pkg] = r
	}
	for _, r := range Table {
		for _, own := range slices.Concat(r.Own, r.TestOwn) {
			o, ok := rows[own]
			switch {
			case !ok:
				t.Errorf("%s may import %s, which has no row", r.Pkg, own)
			case own == r.Pkg:
				t.Errorf("%s may import itself", r.Pkg)
			case slices.Contains(testkits, own):
				t.Errorf("%s: %s is allowed by Testkit alone", r.Pkg, own)
			case strings.HasPrefix(own, "cmd/"):
				t.Errorf("%s may import %s: nobody imports cmd", r.Pkg, own)
			case r.Pure && !o.Pure && slices.Contains(r.Own, own):
				t.Errorf("%s is pure and may import %s, which is not", r.Pkg, own)
			}
		}
		if r.Testkit && r.Pkg != gen && r.Pkg != "internal/market" && !slices.Contains(testkits, r.Pkg) {
			t.Errorf("%s may import the test kit; only %s and the simulated market may", r.Pkg, gen)
		}
	}
}

// seed writes a module with the path of this one that has an empty package
// for every row of the table, then the given files over it.
func seed(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module "+modulePath+"\n\ngo 1.26\n")
	for _, r := range Table {
		write(r.Pkg+"/doc.go", "package "+filepath.Base(strings.ReplaceAll(r.Pkg, "-", ""))+"\n")
	}
	for name, text := range files {
		write(name, text)
	}
	return root
}

const modulePath = "github.com/tclk-audit/tclk-audit"

func TestCleanModule(t *testing.T) {
	root := seed(t, map[string]string{
		"protocol/x.go": `package protocol
import (
	"errors"
	"io"
	"math/rand/v2"
	secp "github.com/decred/dcrd/dcrec/secp256k1/v4"
)
var ErrX = errors.New("x")
var table = map[int]int{1: 2}
var order [4]byte
var stream = rand.NewChaCha8
func init() { order[1] = 1; table[3] = 4 }
type T struct{ table int }
func F(r io.Reader) (int, error) {
	var b [8]byte
	order := b
	order[2]++
	t := T{}
	t.table = 3
	_, err := io.ReadFull(r, b[:])
	_ = secp.S256
	return table[1], err
}
`,
		"protocol/x_test.go": `package protocol_test
import (
	"os"
	"testing"
	"time"
	"` + modulePath + `/protocol"
	"` + modulePath + `/internal/testkit"
	"pgregory.net/rapid"
)
var last time.Time
func TestX(t *testing.T) { go func() { last = time.Now() }() }
`,
		"verify/voi.go":     "//go:build !novoi\n\npackage verify\nimport _ \"github.com/oasisprotocol/curve25519-voi/primitives/ed25519\"\n",
		"verify/novoi.go":   "//go:build novoi\n\npackage verify\nimport _ \"github.com/hdevalence/ed25519consensus\"\n",
		"internal/gen/x.go": "package gen\nimport _ \"" + modulePath + "/internal/testkit\"\n",
		// Not of this module, or nothing the go command would build.
		"internal/tools/go.mod":         "module " + modulePath + "/internal/tools\n",
		"internal/tools/x.go":           "package tools\nimport _ \"github.com/spf13/cobra\"\n",
		"protocol/testdata/broken/x.go": "package broken\nimport _ \"os\"\n",
		"cmd/tclk-audit/x.go":           "package tclkaudit\nimport (\n_ \"os\"\n_ \"time\"\n_ \"golang.org/x/term\"\n)\nfunc f() { go f() }\n",
	})
	found, err := Check(root, Table)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range found {
		t.Errorf("in a module without a violation: %s", v)
	}
}

// Each rule is broken once, and seen.
func TestSeededViolations(t *testing.T) {
	pure := func(imports, body string) string {
		return "package protocol\nimport (\n" + imports + "\n)\n" + body
	}
	cases := []struct {
		name string
		file string
		text string
		want Kind
		pos  string // where, if the violation is in a file
	}{
		{"package without row", "ledger/x.go", "package ledger\n", NoRow, ""},
		{"folder that tags hide", "ledger/x.go", "//go:build never\n\npackage ledger\n", Hidden, ""},

		{"upward import", "verify/x.go", "package verify\nimport _ \"" + modulePath + "/fold\"\n", OwnImport, "verify/x.go:2"},
		{"import of cmd", "internal/report/x.go", "package report\nimport _ \"" + modulePath + "/cmd/tclk-audit\"\n", OwnImport, "internal/report/x.go:2"},
		{"import of a package without row", "fold/x.go", "package fold\nimport _ \"" + modulePath + "/util\"\n", OwnImport, "fold/x.go:2"},

		{"another module", "fold/x.go", "package fold\nimport _ \"golang.org/x/sync/errgroup\"\n", ThirdImport, "fold/x.go:2"},
		{"a module whose path only starts alike", "export/x.go", "package export\nimport _ \"github.com/klauspost/compressed\"\n", ThirdImport, "export/x.go:2"},
		{"a module of the tagged files in the default build", "verify/x.go", "package verify\nimport _ \"github.com/hdevalence/ed25519consensus\"\n", ThirdImport, "verify/x.go:2"},
		{"another module in a tagged file", "verify/x.go", "//go:build novoi\n\npackage verify\nimport _ \"github.com/spf13/cobra\"\n", ThirdImport, "verify/x.go:4"},
		{"a test library in shipped code", "export/x.go", "package export\nimport _ \"github.com/google/go-cmp/cmp\"\n", ThirdImport, "export/x.go:2"},

		{"upward import in a test", "protocol/x_test.go", "package protocol_test\nimport _ \"" + modulePath + "/fold\"\n", TestImport, "protocol/x_test.go:2"},
		{"another module in a test", "protocol/x_test.go", "package protocol\nimport _ \"github.com/spf13/cobra\"\n", TestImport, "protocol/x_test.go:2"},

		{"test kit in shipped code", "cmd/tclk-audit/x.go", "package tclkaudit\nimport _ \"" + modulePath + "/internal/testkit\"\n", TestkitImport, "cmd/tclk-audit/x.go:2"},
		{"the venue's double in shipped code", "internal/api/x.go", "package api\nimport _ \"" + modulePath + "/internal/testkit/double\"\n", TestkitImport, "internal/api/x.go:2"},

		{"cgo", "export/x.go", "package export\nimport \"C\"\n", Cgo, "export/x.go:2"},

		{"file access", "protocol/x.go", pure(`"os"`, "var _ = os.Args"), StdImport, "protocol/x.go:3"},
		{"randomness", "protocol/x.go", pure(`"crypto/rand"`, "var _ = rand.Text"), StdImport, "protocol/x.go:3"},
		{"log", "protocol/x.go", pure(`"log"`, ""), StdImport, "protocol/x.go:3"},
		{"structured log", "protocol/x.go", pure(`"log/slog"`, ""), StdImport, "protocol/x.go:3"},
		{"locks", "protocol/x.go", pure(`"sync"`, ""), StdImport, "protocol/x.go:3"},
		{"context", "fold/x.go", "package fold\nimport _ \"context\"\n", StdImport, "fold/x.go:2"},
		{"std import in a tagged file", "verify/x.go", "//go:build novoi\n\npackage verify\nimport _ \"os\"\n", StdImport, "verify/x.go:4"},

		{"print to stdout", "protocol/x.go", pure(`"fmt"`, `func f() { fmt.Println("x") }`), Effect, "protocol/x.go:5"},
		{"print builtin", "protocol/x.go", pure("", `func f() { println("x") }`), Effect, "protocol/x.go:5"},
		{"more of io than the reader", "protocol/x.go", pure(`"io"`, `func f(w io.Writer) {}`), Effect, "protocol/x.go:5"},
		{"randomness that the runtime seeds", "protocol/x.go", pure(`"math/rand/v2"`, `var n = rand.IntN(3)`), Effect, "protocol/x.go:5"},
		{"dot import", "protocol/x.go", pure(`. "fmt"`, ""), Effect, "protocol/x.go:3"},

		{"now", "protocol/x.go", pure(`"time"`, "var _ = time.Now()"), Clock, "protocol/x.go:5"},
		{"now as a value, renamed import", "protocol/x.go", pure(`clock "time"`, "var now = clock.Now"), Clock, "protocol/x.go:5"},
		{"sleep", "protocol/x.go", pure(`"time"`, "func f() { time.Sleep(1) }"), Clock, "protocol/x.go:5"},
		{"since", "protocol/x.go", pure(`"time"`, "func f(t time.Time) any { return time.Since(t) }"), Clock, "protocol/x.go:5"},
		{"timer", "protocol/x.go", pure(`"time"`, "var _ = time.NewTimer"), Clock, "protocol/x.go:5"},
		{"clock in a tagged file", "verify/x.go", "//go:build novoi\n\npackage verify\nimport \"time\"\nvar _ = time.Now\n", Clock, "verify/x.go:5"},

		{"go statement", "protocol/x.go", pure("", "func f() { go f() }"), Goroutine, "protocol/x.go:5"},
		{"go statement in a literal", "fold/x.go", "package fold\nvar f = func() { go func() {}() }\n", Goroutine, "fold/x.go:2"},

		{"assignment", "protocol/x.go", pure("", "var n int; func f() { n = 1 }"), MutableVar, "protocol/x.go:5"},
		{"addition", "protocol/x.go", pure("", "var n int; func f() { n += 1 }"), MutableVar, "protocol/x.go:5"},
		{"increment", "protocol/x.go", pure("", "var n int; func f() { n++ }"), MutableVar, "protocol/x.go:5"},
		{"map element", "protocol/x.go", pure("", "var m = map[int]int{}; func f() { m[1] = 1 }"), MutableVar, "protocol/x.go:5"},
		{"field through a pointer", "protocol/x.go", pure("", "type t struct{ n int }; var p = &t{}; func f() { (*p).n = 1 }"), MutableVar, "protocol/x.go:5"},
		{"part of an array", "protocol/x.go", pure("", "var a [4]byte; func f() { copy(a[1:], \"x\") }"), MutableVar, "protocol/x.go:5"},
		{"delete", "protocol/x.go", pure("", "var m = map[int]int{}; func f() { delete(m, 1) }"), MutableVar, "protocol/x.go:5"},
		{"range variable", "protocol/x.go", pure("", "var n int; func f() { for n = range 3 {} }"), MutableVar, "protocol/x.go:5"},
		{"in a method", "protocol/x.go", pure("", "type t int; var n int; func (t) init() { n = 1 }"), MutableVar, "protocol/x.go:5"},
		{"in a literal", "protocol/x.go", pure("", "var n int; var f = func() { n = 1 }"), MutableVar, "protocol/x.go:5"},
		{"beside unresolved imports", "protocol/x.go", pure(`"github.com/decred/dcrd/dcrec/secp256k1/v4"`, "var k secp256k1.Key; func f() { k = secp256k1.New() }"), MutableVar, "protocol/x.go:5"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			found, err := Check(seed(t, map[string]string{tc.file: tc.text}), Table)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(found, func(v Violation) bool { return v.Kind == tc.want && v.Pos == tc.pos }) {
				t.Errorf("want a %q at %q; found %v", tc.want, tc.pos, found)
			}
		})
	}
}

func TestVarOfAnotherFile(t *testing.T) {
	root := seed(t, map[string]string{
		"verify/a.go": "//go:build !novoi\n\npackage verify\nvar engine int\n",
		"verify/b.go": "package verify\nfunc set() { engine = 1 }\n",
	})
	found, err := Check(root, Table)
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 1 || found[0].Kind != MutableVar || found[0].Pos != "verify/b.go:2" {
		t.Errorf("want one %q at verify/b.go:2; found %v", MutableVar, found)
	}
}

func TestRowWithoutPackage(t *testing.T) {
	root := seed(t, nil)
	if err := os.RemoveAll(filepath.Join(root, "fold")); err != nil {
		t.Fatal(err)
	}
	found, err := Check(root, Table)
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 1 || found[0].Kind != NoPackage || found[0].Pkg != "fold" {
		t.Errorf("want one %q for fold; found %v", NoPackage, found)
	}
}

func TestUnreadableModule(t *testing.T) {
	for name, root := range map[string]string{
		"no go.mod":    t.TempDir(),
		"syntax error": seed(t, map[string]string{"fold/x.go": "package fold\nfunc {\n"}),
	} {
		if found, err := Check(root, Table); err == nil {
			t.Errorf("%s: no error; found %v", name, found)
		}
	}
	if _, err := Check(seed(t, nil), append(slices.Clone(Table), Table[0])); err == nil {
		t.Error("a table with two rows for one package was accepted")
	}
}
