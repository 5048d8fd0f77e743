// Bench measures the speed and the memory of tclk-audit as its users meet them:
// whole processes, started anew for every figure, reading generated boards.
//
// It prints ratios and never judges them, but for the soak of the watcher: a slow
// machine, or a busy one, fails nothing. Beside each ratio stands its target. Both sides of a ratio run in
// turn (A B A B …), the ratio is taken of each pair of neighbours, and the
// median of the pairs is printed with its range, so that a machine whose speed
// drifts moves both sides alike. docs/benchmarks.md says what each figure means
// and how to repeat it by hand.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// sections are the parts of the benchmark, in the order they run in. hostile and
// soak run only when they are asked for.
var sections = []string{"floor", "cores", "flat", "bad", "memory", "store", "hostile", "soak"}

// config is what the flags say.
type config struct {
	rows    int64
	pairs   int
	keep    string
	floor   string
	program string
	only    map[string]bool

	soakConfig soakConfig
}

func (c *config) wants(section string) bool { return c.only[section] }

func main() {
	if len(os.Args) > 1 {
		if run, ok := baselines[os.Args[1]]; ok {
			if err := run(os.Args[2:], os.Stdout); err != nil {
				fmt.Fprintf(os.Stderr, "bench: %s: %v\n", os.Args[1], err)
				os.Exit(1)
			}
			return
		}
	}
	c, err := parseFlags(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, c, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parseFlags(args []string, stderr io.Writer) (config, error) {
	var c config
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Int64Var(&c.rows, "rows", 1_000_000, "rows of the largest board, at least 1000; the other sizes follow from it")
	fs.IntVar(&c.pairs, "pairs", 5, "pairs of runs a ratio")
	quick := fs.Bool("quick", false, "a rough answer: -rows 100000 -pairs 3")
	fs.StringVar(&c.keep, "keep", "", "keep the generated boards in this `folder` and use those in it")
	fs.StringVar(&c.floor, "floor", filepath.FromSlash("../shared/bench/floor"), "`folder` with the source of the floor program")
	fs.StringVar(&c.program, "program", "", "measure this built `file` and not the tree's tclk-audit")
	c.soakConfig = soakDefaults
	fs.DurationVar(&c.soakConfig.time, "for", soakDefaults.time, "soak for so long, after a warm-up")
	fs.IntVar(&c.soakConfig.rooms, "rooms", soakDefaults.rooms, "live rooms of the soak; a tenth of them are hot")
	hostile := fs.Bool("hostile", false, "also measure hostile inputs; needs some 4 GB of disk")
	only := fs.String("only", "", "only these `sections`, with commas between: "+strings.Join(sections, ", "))
	if err := fs.Parse(args); err != nil {
		return c, err
	}
	set := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { set[f.Name] = true })
	if *quick && !set["rows"] {
		c.rows = 100_000
	}
	if *quick && !set["pairs"] {
		c.pairs = 3
	}
	err := func() (err error) {
		if fs.NArg() > 0 {
			return fmt.Errorf("bench takes flags only, not %q", fs.Arg(0))
		}
		if c.rows < 1000 || c.rows > 1_000_000_000 || c.pairs < 1 || c.pairs > 1000 {
			return errors.New("-rows must be between 1000 and 1000000000, -pairs between 1 and 1000")
		}
		if o := &c.soakConfig; o.time < 10*time.Second || o.time > 24*time.Hour || o.rooms < 10 || o.rooms > 5000 {
			return errors.New("-for must be between 10s and 24h, -rooms between 10 and 5000")
		}
		c.soakConfig.hot = c.soakConfig.rooms / 10
		c.only, err = parseOnly(*only, *hostile)
		return err
	}()
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		fs.Usage()
	}
	return c, err
}

// parseOnly reads the value of -only: which sections run.
func parseOnly(list string, hostile bool) (map[string]bool, error) {
	only := map[string]bool{}
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		switch {
		case name == "":
		case slices.Contains(sections, name):
			only[name] = true
		default:
			return nil, fmt.Errorf("-only %q: no such section; there are %s", name, strings.Join(sections, ", "))
		}
	}
	if len(only) == 0 {
		for _, name := range sections {
			only[name] = name != "hostile" && name != "soak"
		}
	}
	if hostile {
		only["hostile"] = true
	}
	return only, nil
}

// bench is one run of the benchmark.
type bench struct {
	config
	out     io.Writer
	self    string // this program, for the baselines
	work    string // folder that goes away in the end
	corpora string // folder of the boards
	checked map[string]bool
}

func run(ctx context.Context, c config, out io.Writer) (err error) {
	b := &bench{config: c, out: out, checked: map[string]bool{}}
	if b.self, err = os.Executable(); err != nil {
		return err
	}
	if b.work, err = os.MkdirTemp("", "tclk-audit-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.work)) }()
	b.corpora = filepath.Join(b.work, "boards")
	if c.keep != "" {
		if b.corpora, err = filepath.Abs(c.keep); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(b.corpora, 0o777); err != nil {
		return err
	}
	if b.program == "" {
		b.program = filepath.Join(b.work, "tclk-audit")
		if err := build(ctx, ".", "./cmd/tclk-audit", b.program); err != nil {
			return fmt.Errorf("%w (run it in the root of the repository)", err)
		}
	}
	b.header(ctx)
	for _, s := range []struct {
		wanted bool
		run    func(context.Context) error
	}{
		{c.wants("floor") || c.wants("cores"), b.floorAndCores},
		{c.wants("flat"), b.flat},
		{c.wants("bad"), b.bad},
		{c.wants("memory"), b.memory},
		{c.wants("store"), b.store},
		{c.wants("hostile"), b.hostile},
		{c.wants("soak"), b.soak},
	} {
		if !s.wanted {
			continue
		}
		if err := s.run(ctx); err != nil {
			return err
		}
	}
	b.say("\nload average at the end: %s", loadAverage())
	return nil
}

func (b *bench) say(format string, args ...any) { fmt.Fprintf(b.out, format+"\n", args...) }

func (b *bench) header(ctx context.Context) {
	version := "unknown"
	if out, err := exec.CommandContext(ctx, b.program, "version").Output(); err == nil {
		version, _, _ = strings.Cut(string(out), "\n")
	}
	b.say("%s", version)
	b.say("%s/%s, %d cores, %s, load average %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), cpuModel(), loadAverage())
	b.say("%d rows, medians of %d pairs; whole processes; MB are 10^6 bytes, RSS is the peak", b.rows, b.pairs)
	b.say("\"others\" is the share of the machine that other programs took meanwhile")
}

// build compiles a package of the module in dir.
func build(ctx context.Context, dir, pkg, to string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", to, pkg)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s in %s: %w\n%s", pkg, dir, err, firstBytes(out, 2000))
	}
	return nil
}

func firstBytes(b []byte, n int) []byte { return b[:min(n, len(b))] }

// seconds rounds for a table.
func seconds(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()) }
