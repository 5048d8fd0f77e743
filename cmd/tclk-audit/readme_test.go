package main

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/protocol"
)

const (
	offerLine = `tclk1 {"amount":"2500","asset":"TEST","claimByMs":1780001800000,"expiresMs":1780001200000,` +
		`"from":"did:key:z6MkrtxY5oCBWoKbUkWToTvWWMiQi2ceLKUWudVzaCVrGtV5",` +
		`"id":"0xeb452f68c457a1eaca756ddec9aa3090b1a7cc6a354c98033e39e00ea0671fbf","lock":"hash",` +
		`"nonce":"aa00bb11cc22dd33","rails":["paper"],"refundAfterMs":1780003600000,"role":"payer","type":"offer"}`
	me = "did:key:z6MkgsLhsq7ZeevjGzYD83JMG9SDJafjZVPUPSQWb6Uqhm78"
)

// The snippet of the README.
func Example_readme() {
	read := protocol.Decode(offerLine, protocol.DecodeRules{})
	offer, ok := read.Frame.(*protocol.Offer)
	if !ok {
		fmt.Println("no offer:", read.Reason, read.Detail)
		return
	}
	secret, statement, err := protocol.GenerateHashLock(rand.Reader)
	if err != nil {
		fmt.Println(err)
		return
	}
	accept, err := protocol.NewAccept(rand.Reader, offer, me, statement, protocol.Point{})
	if err != nil {
		fmt.Println("cannot accept:", err)
		return
	}
	line, err := protocol.Encode(accept) // sign it and post it on the board
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(offer.Amount, offer.Asset, "on", offer.Rails)
	fmt.Println(strings.HasPrefix(line, "tclk1 "), protocol.IsDealRoom(protocol.DealRoom(accept.Contract)))
	fmt.Println(statement.Opens(secret)) // keep it until the lock stands on the rail
	// Output:
	// 2500 TEST on [paper]
	// true true
	// true
}

const repoRoot = "../.."

func readme(t *testing.T) string { return readFile(t, filepath.Join(repoRoot, "README.md")) }

// block is a fenced block of a Markdown page.
type block struct {
	language string
	lines    []string
}

func blocks(page string) (all []block) {
	var b *block
	for line := range strings.Lines(page) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case b == nil && strings.HasPrefix(line, "```"):
			b = &block{language: line[3:]}
		case b != nil && line == "```":
			all, b = append(all, *b), nil
		case b != nil:
			b.lines = append(b.lines, line)
		}
	}
	return all
}

// tables are the tables of a Markdown page by the heading above them: rows of
// cells, the table's own heading left out.
func tables(page string) map[string][][]string {
	all := map[string][][]string{}
	heading, body, fenced := "", false, false
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		switch {
		case fenced:
		case strings.HasPrefix(line, "#"):
			heading, body = strings.TrimSpace(strings.TrimLeft(line, "#")), false
		case !strings.HasPrefix(line, "|"):
			body = false
		case strings.HasPrefix(line, "| ---"):
			body = true
		case body:
			var row []string
			for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
				row = append(row, strings.TrimSpace(cell))
			}
			all[heading] = append(all[heading], row)
		}
	}
	return all
}

// inRepo makes a folder from which the paths of the README lead to the bundled
// exports, and in which its examples may write.
func inRepo(t *testing.T) {
	t.Helper()
	testdata, err := filepath.Abs(filepath.Join(repoRoot, "testdata"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(testdata, filepath.Join(dir, "testdata")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
}

// TestReadmeExamples runs every command that the README shows and compares its
// standard output. A line "..." stands for any number of lines.
func TestReadmeExamples(t *testing.T) {
	page := readme(t)
	inRepo(t)
	ran := 0
	for _, b := range blocks(page) {
		if b.language != "console" {
			continue
		}
		code := -1
		for i := 0; i < len(b.lines); {
			command, ok := strings.CutPrefix(b.lines[i], "$ ")
			if !ok {
				t.Fatalf("output without a command: %s", b.lines[i])
			}
			i++
			begin := i
			for i < len(b.lines) && !strings.HasPrefix(b.lines[i], "$ ") {
				i++
			}
			want := b.lines[begin:i]
			if command == "echo $?" {
				if len(want) != 1 || want[0] != strconv.Itoa(code) {
					t.Errorf("the command before %q ends with %d, the README says %q", command, code, want)
				}
				continue
			}
			args := words(t, command)
			if args[0] != "tclk-audit" {
				t.Errorf("cannot run %s", command)
				continue
			}
			var out, says string
			code, out, says = invoke(t, "", args[1:]...)
			ran++
			if got := strings.Split(strings.TrimSuffix(out, "\n"), "\n"); !matches(got, want) {
				t.Errorf("the README shows another output of\n$ %s\n%s%s", command, out, says)
			}
		}
	}
	if ran < 5 {
		t.Errorf("only %d commands run", ran)
	}
}

// words splits a command as a shell would: at spaces outside of single quotes.
func words(t *testing.T, command string) []string {
	t.Helper()
	var all []string
	for i, piece := range strings.Split(command, "'") {
		if i%2 == 1 {
			all = append(all, piece)
		} else {
			all = append(all, strings.Fields(piece)...)
		}
	}
	if strings.Count(command, "'")%2 != 0 || len(all) == 0 {
		t.Fatalf("cannot split %q", command)
	}
	return all
}

func matches(got, want []string) bool {
	if len(want) == 0 {
		return len(got) == 0
	}
	if want[0] == "..." {
		for skip := 0; skip <= len(got); skip++ {
			if matches(got[skip:], want[1:]) {
				return true
			}
		}
		return false
	}
	return len(got) > 0 && got[0] == want[0] && matches(got[1:], want[1:])
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		got, want string
		ok        bool
	}{
		{"a b", "a b", true}, {"a b", "a", false}, {"a", "a b", false}, {"a b", "b a", false},
		{"a b c", "... c", true}, {"a b c", "a ...", true}, {"a b c", "a ... c", true}, {"a c", "a ... c", true},
		{"a b c", "... b", false}, {"a b c", "a ... d ...", false},
	} {
		if matches(strings.Fields(c.got), strings.Fields(c.want)) != c.ok {
			t.Errorf("%q and %q: want %v", c.got, c.want, c.ok)
		}
	}
}

// TestReadmeSnippet holds that the README's Go is the example above, which is
// compiled and run, with its output.
func TestReadmeSnippet(t *testing.T) {
	source := readFile(t, "readme_test.go")
	_, body, ok := strings.Cut(source, "func Example_readme() {\n")
	if !ok {
		t.Fatal("no example")
	}
	body, output, _ := strings.Cut(body, "\t// Output:\n")
	output, _, _ = strings.Cut(output, "\n}")
	for _, want := range []struct{ language, text, indent string }{
		{"go", body, "\t"},
		{"text", output, "\t// "},
	} {
		var lines []string
		for line := range strings.Lines(want.text) {
			lines = append(lines, strings.TrimSuffix(strings.TrimPrefix(line, want.indent), "\n"))
		}
		if !slices.ContainsFunc(blocks(readme(t)), func(b block) bool {
			return b.language == want.language && slices.Equal(b.lines, lines)
		}) {
			t.Errorf("the README has no %s block\n%s", want.language, strings.Join(lines, "\n"))
		}
	}
}

// TestReadmeFlags holds each table of flags: the flags of the program with
// their defaults, all of them and no other.
func TestReadmeFlags(t *testing.T) {
	const shared = "Flags of verify and explain"
	byHeading := tables(readme(t))
	a := &app{}
	root := a.root()
	known := map[string]bool{"help": true, "version": true}
	for _, cmd := range root.Commands() {
		if cmd.Hidden || cmd.Name() == "help" || cmd.Name() == "completion" {
			continue
		}
		rows := slices.Clone(byHeading["tclk-audit "+cmd.Name()])
		if cmd.Name() == "verify" || cmd.Name() == "explain" {
			rows = append(rows, byHeading[shared]...)
		}
		documented := map[string]string{}
		for _, row := range rows {
			name, _, _ := strings.Cut(strings.Trim(row[0], "`"), " ")
			if _, twice := documented[name]; twice {
				t.Errorf("%s: %s stands twice", cmd.Name(), name)
			}
			documented[name] = strings.Trim(row[1], "`")
		}
		for _, f := range visited(cmd.LocalFlags().VisitAll) {
			if f.Hidden || f.Name == "help" {
				continue
			}
			known[f.Name] = true
			want := f.DefValue
			if want == "" || want == "false" || want == "[]" {
				want = "-"
			}
			got, ok := documented["--"+f.Name]
			switch {
			case !ok:
				t.Errorf("the README does not list --%s of %s", f.Name, cmd.Name())
			case got != want:
				t.Errorf("--%s of %s has the default %q, the README says %q", f.Name, cmd.Name(), want, got)
			}
			delete(documented, "--"+f.Name)
		}
		for name := range documented {
			t.Errorf("%s has no flag %s", cmd.Name(), name)
		}
	}
	for _, doc := range []string{"README.md", "docs/architecture.md", "docs/differences.md", "CHANGELOG.md"} {
		page := readFile(t, filepath.Join(repoRoot, doc))
		for _, m := range regexp.MustCompile("(?:^|[\\s`(])--([a-z][a-z-]*)").FindAllStringSubmatch(page, -1) {
			if !known[m[1]] {
				t.Errorf("%s speaks of --%s, which no command has", doc, m[1])
			}
		}
		for _, m := range regexp.MustCompile("(?:`|\\$ )tclk-audit ([a-z]+)").FindAllStringSubmatch(page, -1) {
			if !slices.ContainsFunc(append(root.Commands(), &cobra.Command{Use: "help"}), func(c *cobra.Command) bool { return c.Name() == m[1] }) {
				t.Errorf("%s speaks of tclk-audit %s, which does not exist", doc, m[1])
			}
		}
	}
}

// TestReadmeTables holds the README's closed lists against the program's.
func TestReadmeTables(t *testing.T) {
	all := tables(readme(t))
	column := func(heading string, i int) (cells []string) {
		for _, row := range all[heading] {
			cells = append(cells, strings.Trim(row[i], "`"))
		}
		return cells
	}

	var codes, kinds []string
	for _, c := range fold.Codes() {
		codes, kinds = append(codes, c.String()), append(kinds, c.Kind().String())
	}
	if got := column("Findings", 0); !slices.Equal(got, codes) {
		t.Errorf("the README's findings are\n%q, the program's\n%q", got, codes)
	}
	if got := column("Findings", 1); !slices.Equal(got, kinds) {
		t.Errorf("the README's kinds of findings are\n%q, the program's\n%q", got, kinds)
	}

	if got, want := column("Rules", 0), []string{fold.SwitchOfferRoom, fold.SwitchFirstAccept, fold.SwitchRepairNonces}; !slices.Equal(got, want) {
		t.Errorf("the README's switches are %q, the program's %q", got, want)
	}
	if got, want := column("Exit codes", 0), []string{"4", "2", "1", "3", "0"}; !slices.Equal(got, want) {
		t.Errorf("the README's exit codes are %q, want %q", got, want)
	}

	var schema struct{ Required []string }
	if err := json.Unmarshal([]byte(readFile(t, filepath.Join(repoRoot, "docs/verify.schema.json"))), &schema); err != nil {
		t.Fatal(err)
	}
	if got := column("JSON", 0); len(got) == 0 || !slices.Equal(got, schema.Required) {
		t.Errorf("the README's members are %q, the schema's %q", got, schema.Required)
	}
	said := strings.Join(strings.Fields(readme(t)), " ")
	for _, word := range []string{
		fold.AwaitingAccept, fold.OfferHasLapsed, fold.OpenToLock, fold.Lapsed, fold.Funded, fold.Refundable, fold.Settled, fold.NoClock,
	} {
		if !strings.Contains(said, "`"+word+"`") {
			t.Errorf("the README does not name the outlook %s", word)
		}
	}
}

// TestArchitectureLimits holds the limits that the architecture page states
// against the constants that it names.
func TestArchitectureLimits(t *testing.T) {
	rows := tables(readFile(t, filepath.Join(repoRoot, "docs/architecture.md")))["Limits"]
	if len(rows) < 15 {
		t.Fatalf("%d limits", len(rows))
	}
	packages := map[string]*types.Package{}
	for _, row := range rows {
		dir, name, ok := strings.Cut(strings.Trim(row[2], "`"), ".")
		if !ok {
			t.Errorf("%s: %q is no constant", row[0], row[2])
			continue
		}
		if packages[dir] == nil {
			packages[dir] = constants(t, filepath.Join(repoRoot, filepath.FromSlash(dir)))
		}
		c, ok := packages[dir].Scope().Lookup(name).(*types.Const)
		if !ok {
			t.Errorf("%s: %s has no constant %s", row[0], dir, name)
			continue
		}
		got, _ := constant.Int64Val(constant.ToInt(c.Val()))
		if want, ok := quantity(row[1]); !ok || got != want {
			t.Errorf("%s: the page says %q, %s.%s is %d", row[0], row[1], dir, name, got)
		}
	}
}

// quantity reads the number that a cell begins with: digits with commas, and
// perhaps KiB, MiB or GiB.
func quantity(cell string) (int64, bool) {
	fields := strings.Fields(cell)
	if len(fields) < 2 {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.ReplaceAll(fields[0], ",", ""), 10, 64)
	if err != nil {
		return 0, false
	}
	for _, u := range sizeUnits {
		if strings.Trim(fields[1], ",") == u.name {
			n *= u.bytes
		}
	}
	if d := durations[strings.Trim(fields[1], ",")]; d > 0 {
		n *= int64(d)
	}
	return n, true
}

// durations are the units of time on the page.
var durations = map[string]time.Duration{"ms": time.Millisecond, "s": time.Second, "min": time.Minute, "h": time.Hour}

// noImports lets constants be computed without the packages that a file
// imports, but for the units of package time.
type noImports struct{}

func (noImports) Import(path string) (*types.Package, error) {
	if path == "time" {
		p := types.NewPackage(path, path)
		for name, d := range map[string]time.Duration{"Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute, "Hour": time.Hour} {
			p.Scope().Insert(types.NewConst(token.NoPos, p, name, types.Typ[types.UntypedInt], constant.MakeInt64(int64(d))))
		}
		p.MarkComplete()
		return p, nil
	}
	return nil, fmt.Errorf("%s is not needed", path)
}

// constants type-checks a package as far as its constants go.
func constants(t *testing.T, dir string) *types.Package {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	config := types.Config{Importer: noImports{}, Error: func(error) {}, IgnoreFuncBodies: true}
	pkg, _ := config.Check(dir, fset, files, nil) // errors: what is imported is unknown
	return pkg
}
