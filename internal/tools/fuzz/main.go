// Fuzz runs every fuzz target of a module for a given time, one after the
// other. It finds the targets itself, so none can be forgotten.
//
// Run it in its own module and name the module to fuzz:
//
//	go run -C internal/tools ./fuzz -time 3s ../..
//
// It ends with the first target that fails. The go command then says where it
// wrote the failing input; that file belongs in the repository with the fix.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

func main() {
	each := flag.Duration("time", 10*time.Minute, "how long each target runs")
	only := flag.String("run", "", "only targets whose `name` matches this regular expression")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: fuzz [-time DURATION] [-run REGEXP] MODULE_DIR")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(flag.Arg(0), *each, *only, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "fuzz:", err)
		os.Exit(1)
	}
}

func run(root string, each time.Duration, only string, w io.Writer) error {
	match, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	targets, err := find(root)
	if err != nil {
		return err
	}
	targets = slices.DeleteFunc(targets, func(t target) bool { return !match.MatchString(t.name) })
	if len(targets) == 0 {
		return errors.New("no fuzz target found")
	}
	for i, t := range targets {
		fmt.Fprintf(w, "%d/%d %s %s for %s: ", i+1, len(targets), t.pkg, t.name, each)
		out, err := fuzz(root, t, each)
		if err != nil && stoppedLate(out) {
			fmt.Fprint(w, "stopped late by the go command, again: ")
			out, err = fuzz(root, t, each)
		}
		if err != nil {
			fmt.Fprintln(w, "FAIL")
			return fmt.Errorf("%s in %s: %w\n%s", t.name, t.pkg, err, out)
		}
		fmt.Fprintln(w, lastCount(out))
	}
	return nil
}

type target struct {
	pkg  string // folder relative to the root, as the go command wants it
	name string
}

var declaration = regexp.MustCompile(`(?m)^func (Fuzz[\p{Lu}\d_]\w*|Fuzz)\(\w+ \*testing\.F\)`)

// find returns the targets in the test files of the module in root, by folder
// and name.
func find(root string) ([]target, error) {
	var targets []target
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			name := d.Name()
			if path == root {
				return nil
			}
			if name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
				return filepath.SkipDir
			}
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil {
				return filepath.SkipDir // a module of its own
			}
			return nil
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		for _, m := range declaration.FindAllStringSubmatch(string(src), -1) {
			targets = append(targets, target{pkg: "./" + filepath.ToSlash(dir), name: m[1]})
		}
		return nil
	})
	return targets, err
}

func fuzz(root string, t target, each time.Duration) (string, error) {
	// No other test of the package runs, and vet has run before.
	cmd := exec.Command("go", "test", "-vet=off", "-run=^$", "-fuzz=^"+t.name+"$", "-fuzztime="+each.String(), t.pkg)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// stoppedLate recognises a failure of the go command, not of the target: a
// worker was still busy when the time was up. A defect leaves a failing input,
// or a worker that crashed.
func stoppedLate(out string) bool {
	return strings.Contains(out, "context deadline exceeded") &&
		!strings.Contains(out, "Failing input written to") &&
		!strings.Contains(out, "panic:") &&
		!strings.Contains(out, "fuzzing process hung or terminated unexpectedly")
}

var count = regexp.MustCompile(`execs: (\d+)`)

// lastCount says how many inputs a target has seen. The go command counts none
// while it still goes through the seeds, which can take a busy machine longer
// than a short run lasts.
func lastCount(out string) string {
	all := count.FindAllStringSubmatch(out, -1)
	if len(all) == 0 {
		return "not beyond its seeds, ok"
	}
	return all[len(all)-1][1] + " inputs, ok"
}
