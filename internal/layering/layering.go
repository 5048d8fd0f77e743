// Package layering checks which package may import which, and that the pure
// packages stay pure.
//
// The protocol, the signature checks and the fold decide what a transcript
// proves. They can only be trusted, tested and replayed if they depend on
// nothing but their arguments: no clock, no goroutine, no file, no state that
// one call leaves for the next. A reader of the code cannot see that at a
// glance; this package can. [Table] says what each package may import, and
// [Check] compares the module with it. The check is one of the tests that
// `go test ./...` runs.
//
// Only direct imports are judged. The transitive set says little: fmt itself
// imports os.
package layering

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A Kind names the rule that a [Violation] breaks.
type Kind string

// The rules.
const (
	NoRow         Kind = "no row"         // a package that the table does not know
	NoPackage     Kind = "no package"     // a row without a package
	Hidden        Kind = "hidden"         // Go files in a folder that the default build does not list
	OwnImport     Kind = "own import"     // a package of this module that the row does not allow
	ThirdImport   Kind = "third import"   // another module's package that the row does not allow
	TestImport    Kind = "test import"    // the same two, in a _test.go file
	TestkitImport Kind = "testkit import" // the test kit outside tests, the generator and the simulated market
	Cgo           Kind = "cgo"            // import "C": every build is without cgo
	StdImport     Kind = "std import"     // pure: a standard-library package outside the allow-list
	Effect        Kind = "effect"         // pure: a function of an allowed package that does I/O
	Clock         Kind = "clock"          // pure: a use of the clock, a timer or a sleep
	Goroutine     Kind = "goroutine"      // pure: a go statement
	MutableVar    Kind = "mutable var"    // pure: a package variable changed outside init
)

// A Violation is one place where the module breaks a rule.
type Violation struct {
	Kind Kind
	Pkg  string // package path within the module; "." is the root
	Pos  string // file:line relative to the module root, or empty
	Msg  string
}

func (v Violation) String() string {
	if v.Pos == "" {
		return fmt.Sprintf("%s: %s: %s", v.Pkg, v.Kind, v.Msg)
	}
	return fmt.Sprintf("%s: %s: %s", v.Pos, v.Kind, v.Msg)
}

// listed is the part of `go list -json` that the check reads.
type listed struct {
	ImportPath     string
	Dir            string
	GoFiles        []string
	CgoFiles       []string
	IgnoredGoFiles []string // left out of the default build by a build tag
	TestGoFiles    []string
	XTestGoFiles   []string
}

// Check compares the module whose go.mod lies in root with the table and
// returns what it found wrong, in the order of `go list`. It runs the go
// command, but resolves no import, so it needs neither the network nor the
// module cache. The error is for a module that could not be read at all.
func Check(root string, table []Row) ([]Violation, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("layering: %w", err)
	}
	module, err := goOutput(root, "list", "-m")
	if err != nil {
		return nil, err
	}
	c := checker{root: root, module: strings.TrimSpace(string(module)), rows: map[string]Row{}}
	for _, r := range table {
		if _, dup := c.rows[r.Pkg]; dup {
			return nil, fmt.Errorf("layering: two rows for %s", r.Pkg)
		}
		c.rows[r.Pkg] = r
	}

	out, err := goOutput(root, "list", "-find", "-json=ImportPath,Dir,GoFiles,CgoFiles,IgnoredGoFiles,TestGoFiles,XTestGoFiles", "./...")
	if err != nil {
		return nil, err
	}
	dirs := map[string]bool{}
	seen := map[string]bool{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("layering: output of go list: %w", err)
		}
		dirs[p.Dir] = true
		rel := c.rel(p.ImportPath)
		seen[rel] = true
		row, ok := c.rows[rel]
		if !ok {
			c.add(NoRow, rel, "", "the package has no row in the table of internal/layering")
			continue
		}
		if err := c.pkg(p, row); err != nil {
			return nil, err
		}
	}
	for _, r := range table {
		if !seen[r.Pkg] {
			c.add(NoPackage, r.Pkg, "", "the table has a row, but the module has no such package")
		}
	}
	if err := c.hidden(dirs); err != nil {
		return nil, err
	}
	return c.found, nil
}

type checker struct {
	root   string
	module string
	rows   map[string]Row
	found  []Violation
}

func (c *checker) add(k Kind, pkg, pos, format string, args ...any) {
	c.found = append(c.found, Violation{Kind: k, Pkg: pkg, Pos: pos, Msg: fmt.Sprintf(format, args...)})
}

// rel turns an import path of this module into the path that rows use.
func (c *checker) rel(importPath string) string {
	if importPath == c.module {
		return "."
	}
	return strings.TrimPrefix(importPath, c.module+"/")
}

// pkg judges one package: the imports of all its files, including those that
// build tags leave out, and for a pure one the code as well.
func (c *checker) pkg(p listed, row Row) error {
	fset := token.NewFileSet()
	parse := func(names []string) ([]*ast.File, error) {
		var files []*ast.File
		for _, name := range names {
			path := filepath.Join(p.Dir, name)
			src, err := os.ReadFile(path)
			if err != nil {
				return nil, fmt.Errorf("layering: %w", err)
			}
			show, err := filepath.Rel(c.root, path)
			if err != nil {
				return nil, fmt.Errorf("layering: %w", err)
			}
			f, err := parser.ParseFile(fset, filepath.ToSlash(show), src, parser.SkipObjectResolution)
			if err != nil {
				return nil, fmt.Errorf("layering: %w", err)
			}
			files = append(files, f)
		}
		return files, nil
	}

	var tagged, taggedTests []string
	for _, name := range p.IgnoredGoFiles {
		if strings.HasSuffix(name, "_test.go") {
			taggedTests = append(taggedTests, name)
		} else {
			tagged = append(tagged, name)
		}
	}
	plain, err := parse(slices.Concat(p.GoFiles, p.CgoFiles))
	if err != nil {
		return err
	}
	alternative, err := parse(tagged)
	if err != nil {
		return err
	}
	tests, err := parse(slices.Concat(p.TestGoFiles, p.XTestGoFiles, taggedTests))
	if err != nil {
		return err
	}

	for _, f := range plain {
		c.imports(fset, f, row, row.Third)
	}
	for _, f := range alternative {
		c.imports(fset, f, row, slices.Concat(row.Third, row.ThirdTagged))
	}
	for _, f := range tests {
		c.testImports(fset, f, row)
	}
	if row.Pure {
		files := slices.Concat(plain, alternative)
		for _, f := range files {
			c.pureFile(fset, f, row)
		}
		c.mutableVars(fset, files, row)
	}
	return nil
}

// imports judges the imports of a file that is not a test.
func (c *checker) imports(fset *token.FileSet, f *ast.File, row Row, third []string) {
	for _, spec := range f.Imports {
		path, pos := importPath(spec), position(fset, spec.Pos())
		switch {
		case path == "C":
			c.add(Cgo, row.Pkg, pos, "cgo is not used: every build must work with CGO_ENABLED=0")
		case c.inModule(path):
			own := c.rel(path)
			if kit := slices.Contains(testkits, own); kit && !row.Testkit {
				c.add(TestkitImport, row.Pkg, pos, "%s is for _test.go files, the corpus generator and the simulated market alone", own)
			} else if !kit && !slices.Contains(row.Own, own) {
				c.add(OwnImport, row.Pkg, pos, "%s may not import %s", row.Pkg, own)
			}
		case isThird(path):
			if !inModules(path, third) {
				c.add(ThirdImport, row.Pkg, pos, "%s may not import %s", row.Pkg, path)
			}
		default:
			if row.Pure && !slices.Contains(pureStd, path) {
				c.add(StdImport, row.Pkg, pos, "the pure package %s may not import %s", row.Pkg, path)
			}
		}
	}
}

// testImports judges the imports of a test file: what the package itself may
// import, itself, the test kit, and the test libraries.
func (c *checker) testImports(fset *token.FileSet, f *ast.File, row Row) {
	for _, spec := range f.Imports {
		path, pos := importPath(spec), position(fset, spec.Pos())
		switch {
		case path == "C":
			c.add(Cgo, row.Pkg, pos, "cgo is not used: every build must work with CGO_ENABLED=0")
		case c.inModule(path):
			own := c.rel(path)
			if own != row.Pkg && !slices.Contains(testkits, own) && !slices.Contains(row.Own, own) && !slices.Contains(row.TestOwn, own) {
				c.add(TestImport, row.Pkg, pos, "tests of %s may not import %s", row.Pkg, own)
			}
		case isThird(path):
			if !inModules(path, row.Third) && !inModules(path, row.ThirdTagged) && !inModules(path, testThird) {
				c.add(TestImport, row.Pkg, pos, "tests of %s may not import %s", row.Pkg, path)
			}
		}
	}
}

// pureFile looks for what a pure package must not do. It judges the use of a
// function, not only its call: `now := time.Now` is a clock as well.
func (c *checker) pureFile(fset *token.FileSet, f *ast.File, row Row) {
	names := map[string]string{} // local name of an import → its path
	for _, spec := range f.Imports {
		path := importPath(spec)
		name := packageName(path)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		if name == "." {
			// The names of a dot import cannot be told from local ones here.
			c.add(Effect, row.Pkg, position(fset, spec.Pos()), "the pure package %s may not dot-import %s", row.Pkg, path)
		}
		names[name] = path
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			c.add(Goroutine, row.Pkg, position(fset, n.Pos()), "the pure package %s starts a goroutine", row.Pkg)
		case *ast.CallExpr:
			if id, ok := n.Fun.(*ast.Ident); ok && (id.Name == "print" || id.Name == "println") {
				c.add(Effect, row.Pkg, position(fset, n.Pos()), "the pure package %s calls %s", row.Pkg, id.Name)
			}
		case *ast.SelectorExpr:
			id, ok := n.X.(*ast.Ident)
			if !ok {
				return true
			}
			path := names[id.Name]
			switch {
			case path == "time" && slices.Contains(clockNames, n.Sel.Name):
				c.add(Clock, row.Pkg, position(fset, n.Pos()), "the pure package %s uses time.%s", row.Pkg, n.Sel.Name)
			case slices.Contains(effectNames[path], n.Sel.Name):
				c.add(Effect, row.Pkg, position(fset, n.Pos()), "the pure package %s uses %s.%s", row.Pkg, path, n.Sel.Name)
			case pureOnly[path] != nil && !slices.Contains(pureOnly[path], n.Sel.Name):
				c.add(Effect, row.Pkg, position(fset, n.Pos()), "the pure package %s uses %s.%s; allowed: %s", row.Pkg, path, n.Sel.Name, strings.Join(pureOnly[path], ", "))
			}
		}
		return true
	})
}

// mutableVars looks for package variables that a function other than init
// changes: by assignment (of the variable, an element or a field), by ++, or
// by the builtins clear, delete and copy. A change through a method or a
// pointer taken elsewhere is beyond a syntax check.
func (c *checker) mutableVars(fset *token.FileSet, files []*ast.File, row Row) {
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{
		Importer: noImports{},
		// The imports are empty and files of two build-tag sets are checked as
		// one, so errors are expected; names still resolve.
		Error: func(error) {},
	}
	pkg, _ := conf.Check(c.module+"/"+row.Pkg, fset, files, info)
	isPkgVar := func(e ast.Expr) (*ast.Ident, bool) {
		id := rootIdent(e)
		if id == nil {
			return nil, false
		}
		v, ok := info.Uses[id].(*types.Var)
		return id, ok && v.Parent() == pkg.Scope()
	}
	report := func(e ast.Expr) {
		if id, ok := isPkgVar(e); ok {
			c.add(MutableVar, row.Pkg, position(fset, e.Pos()), "the package variable %s changes after init", id.Name)
		}
	}
	for _, f := range files {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if ok && fn.Recv == nil && fn.Name.Name == "init" {
				continue
			}
			// Function literals in a var declaration may run later, so those
			// are searched too.
			ast.Inspect(d, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.AssignStmt:
					if n.Tok != token.DEFINE {
						for _, lhs := range n.Lhs {
							report(lhs)
						}
					}
				case *ast.IncDecStmt:
					report(n.X)
				case *ast.RangeStmt:
					if n.Tok == token.ASSIGN {
						if n.Key != nil {
							report(n.Key)
						}
						if n.Value != nil {
							report(n.Value)
						}
					}
				case *ast.CallExpr:
					if id, ok := n.Fun.(*ast.Ident); ok && len(n.Args) > 0 {
						if _, builtin := info.Uses[id].(*types.Builtin); builtin && slices.Contains([]string{"clear", "delete", "copy"}, id.Name) {
							report(n.Args[0])
						}
					}
				}
				return true
			})
		}
	}
}

// hidden finds folders with Go files that `go list ./...` passed over, because
// build tags exclude all of them: code that no other check here would see.
// Nested modules, testdata and names the go command ignores are left alone.
func (c *checker) hidden(dirs map[string]bool) error {
	return filepath.WalkDir(c.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("layering: %w", err)
		}
		name := d.Name()
		if d.IsDir() {
			if path == c.root {
				return nil
			}
			if name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
				return filepath.SkipDir
			}
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil {
				return filepath.SkipDir
			}
			return nil
		}
		dir := filepath.Dir(path)
		if strings.HasSuffix(name, ".go") && !strings.HasPrefix(name, ".") && !strings.HasPrefix(name, "_") && !dirs[dir] {
			dirs[dir] = true // say it once a folder
			rel, err := filepath.Rel(c.root, dir)
			if err != nil {
				return fmt.Errorf("layering: %w", err)
			}
			c.add(Hidden, filepath.ToSlash(rel), "", "the folder has Go files, but `go list ./...` does not list it")
		}
		return nil
	})
}

// noImports gives every import an empty package, so that a package can be
// type-checked alone.
type noImports struct{}

func (noImports) Import(path string) (*types.Package, error) {
	p := types.NewPackage(path, packageName(path))
	p.MarkComplete()
	return p, nil
}

var majorVersion = regexp.MustCompile(`^v[0-9]+$`)

// packageName guesses the name of a package from its path: the last element
// that is not a major version. It is right for the standard library.
func packageName(importPath string) string {
	name := path.Base(importPath)
	if majorVersion.MatchString(name) {
		name = path.Base(path.Dir(importPath))
	}
	return name
}

// rootIdent returns x for x, x.f, x[i], *x, x[i:j] and any mix of them.
func rootIdent(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.SliceExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		default:
			return nil
		}
	}
}

func (c *checker) inModule(path string) bool {
	return path == c.module || strings.HasPrefix(path, c.module+"/")
}

// isThird says whether path is another module's: the first element of a
// standard-library path has no dot.
func isThird(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return strings.Contains(first, ".")
}

func inModules(path string, modules []string) bool {
	return slices.ContainsFunc(modules, func(m string) bool {
		return path == m || strings.HasPrefix(path, m+"/")
	})
}

func importPath(spec *ast.ImportSpec) string {
	path, err := strconv.Unquote(spec.Path.Value)
	if err != nil { // the parser has accepted the literal
		return spec.Path.Value
	}
	return path
}

func position(fset *token.FileSet, p token.Pos) string {
	at := fset.Position(p)
	return fmt.Sprintf("%s:%d", at.Filename, at.Line)
}

func goOutput(dir string, args ...string) ([]byte, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("layering: go %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}
