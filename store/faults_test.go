package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/tclk-audit/tclk-audit/internal/gen"
	"github.com/tclk-audit/tclk-audit/store"
)

// pieces are the files of a small corpus, a few in each piece. A piece is one
// window when it is ingested.
func pieces(t *testing.T) [][]string {
	t.Helper()
	dir := corpus(t, func(o *gen.Options) { o.Contracts = 30; o.Layout = gen.PerRoom })
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil || len(files) < 12 {
		t.Fatal(err, len(files))
	}
	return slices.Collect(slices.Chunk(files, (len(files)+5)/6))
}

// fillPieces ingests piece by piece; told is called when one is acknowledged.
// The store is opened anew for some, and its tables are compacted once, so that
// every kind of file is made, renamed and removed.
func fillPieces(fs vfs.FS, dir string, all [][]string, told func(done int)) error {
	for i, piece := range all {
		s, err := fill(fs, dir, piece...)
		if err != nil {
			return err
		}
		told(i + 1)
		if i == 2 {
			err = s.Settle()
		}
		if err = errors.Join(err, s.Close()); err != nil {
			return err
		}
	}
	return nil
}

// states are the contents of a store before the first piece, and after each.
func states(t *testing.T, all [][]string) (list []content) {
	t.Helper()
	fs := vfs.NewMem()
	s, err := store.Open("store", store.Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	list = append(list, contentOf(t, fs, "store"))
	for _, piece := range all {
		mustFill(t, fs, "store", piece...)
		list = append(list, contentOf(t, fs, "store"))
	}
	return list
}

// recovers checks that a store which met with an accident holds the first
// pieces, at least as many as were acknowledged, and nothing else, and that it
// takes in the others as if nothing had happened.
func recovers(t *testing.T, fs vfs.FS, dir string, all [][]string, want []content, acknowledged int) {
	t.Helper()
	s, err := store.Open(dir, store.Options{FS: fs})
	if err != nil {
		t.Fatalf("opening what is left: %v", err)
	}
	sound(t, s, 0)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	is := contentOf(t, fs, dir)
	holds := slices.IndexFunc(want, func(c content) bool { return is.differ(c) == "" })
	if holds < acknowledged {
		t.Fatalf("%d pieces were acknowledged, and it holds %d; %s", acknowledged, holds, want[acknowledged].differ(is))
	}
	if err := fillPieces(fs, dir, all, func(int) {}); err != nil {
		t.Fatalf("going on: %v", err)
	}
	if d := want[len(all)].differ(contentOf(t, fs, dir)); d != "" {
		t.Fatal(d)
	}
}

// TestPowerLoss takes the disk as a loss of power leaves it, before or after
// any of its operations: what was not synced is gone, or some of it is.
func TestPowerLoss(t *testing.T) {
	all := pieces(t)
	want := states(t, all)
	type crash struct {
		n, percent   int
		fs           *vfs.MemFS
		acknowledged int
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	total := 0
	for round := range pick(2, 4, 100) {
		var crashes []crash
		var mu sync.Mutex
		done := 0
		mem := vfs.NewCrashableMem()
		fs := &faultFS{FS: mem}
		chosen := map[int64]bool{}
		for range 12 {
			chosen[rng.Int64N(int64(max(total, 200)))] = true
		}
		look := func(n int64, _, _ string) error {
			mu.Lock()
			defer mu.Unlock()
			if !chosen[n] {
				return nil
			}
			percent := 0
			if round%2 == 1 {
				percent = rng.IntN(101)
			}
			clone := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng})
			crashes = append(crashes, crash{int(n), percent, clone, done})
			return nil
		}
		fs.before = look
		if round%3 == 2 {
			fs.before, fs.after = nil, look
		}
		err := fillPieces(fs, "a/store", all, func(n int) {
			mu.Lock()
			defer mu.Unlock()
			done = n
		})
		if err != nil {
			t.Fatal(err)
		}
		total = int(fs.n.Load())
		for _, c := range crashes {
			t.Run(fmt.Sprintf("%d/%d-%d%%", round, c.n, c.percent), func(t *testing.T) {
				recovers(t, c.fs, "a/store", all, want, c.acknowledged)
			})
		}
	}
	t.Logf("%d operations", total)
}

// The ways in which an operation fails.
const (
	failsBefore = "before" // without effect
	failsAfter  = "after"  // having taken effect
	failsFull   = "full"   // the disk is full from there on
)

func faultChild(mode, at, dir string, files []string) error {
	k, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return err
	}
	fs := &faultFS{FS: vfs.Default}
	fail := func(n int64, op, path string) error {
		if n == k {
			fmt.Println("failing", op, filepath.Base(path))
			return syscall.EIO
		}
		return nil
	}
	switch mode {
	case failsBefore:
		fs.before = fail
	case failsAfter:
		fs.after = fail
	case failsFull:
		fs.before = func(n int64, op, path string) error {
			if n >= k && op != "remove" && op != "sync" && op != "rename" {
				return syscall.ENOSPC
			}
			return nil
		}
	}
	var all [][]string
	for _, f := range files {
		all = append(all, strings.Split(f, ","))
	}
	err = fillPieces(fs, dir, all, func(n int) { fmt.Println("done", n) })
	fmt.Println("operations", fs.n.Load())
	return err
}

// runFault runs a child in which one operation fails.
func runFault(t *testing.T, mode string, k int, dir string, all [][]string) (stdout, stderr string, err error) {
	t.Helper()
	args := []string{mode, strconv.Itoa(k), dir}
	for _, p := range all {
		args = append(args, strings.Join(p, ","))
	}
	cmd := command(t, "fault", args...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	err = cmd.Wait()
	if ctx.Err() != nil {
		t.Fatalf("it hung\n%s%s", out.String(), errs.String())
	}
	return out.String(), errs.String(), err
}

func lastNumber(out, word string) (n int) {
	for line := range strings.Lines(out) {
		if v, ok := strings.CutPrefix(line, word+" "); ok {
			n, _ = strconv.Atoi(strings.TrimSpace(v))
		}
	}
	return n
}

// TestFaults has each operation on the disk fail in turn, each in a process of
// its own, since some leave Pebble no way to go on. To die is right, if the
// process says why; what it leaves must be right, too.
func TestFaults(t *testing.T) {
	all := pieces(t)
	want := states(t, all)
	out, stderr, err := runFault(t, failsBefore, 0, filepath.Join(t.TempDir(), "store"), all)
	total := lastNumber(out, "operations")
	if err != nil || total == 0 {
		t.Fatal(err, out, stderr)
	}
	step := pick(37, 17, 1)
	from := 1 + rand.IntN(step)
	t.Logf("%d operations, every %d from %d", total, step, from)
	slots := make(chan struct{}, max(2, runtime.GOMAXPROCS(0)))
	var wg sync.WaitGroup
	for _, mode := range []string{failsBefore, failsAfter, failsFull} {
		for k := from; k <= total+5; k += step {
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				t.Run(fmt.Sprintf("%s/%d", mode, k), func(t *testing.T) { fault(t, mode, k, all, want) })
			})
		}
	}
	wg.Wait()
}

func fault(t *testing.T, mode string, k int, all [][]string, want []content) {
	dir := filepath.Join(t.TempDir(), "store")
	out, stderr, err := runFault(t, mode, k, dir, all)
	defer func() {
		if t.Failed() {
			t.Logf("standard output:\n%sstandard error:\n%s", out, stderr)
		}
	}()
	if err != nil {
		switch {
		case strings.Contains(stderr, "goroutine "):
			t.Error("it ended with a trace of the stack")
		case mode == failsFull && !strings.Contains(stderr, "free some space"):
			t.Error("it does not say that the disk is full and what to do")
		case mode != failsFull && !strings.Contains(stderr, syscall.EIO.Error()):
			t.Error("it does not say what failed")
		case strings.Contains(stderr, "is damaged"):
			t.Error("it takes an error of the disk for damage")
		}
	}
	recovers(t, vfs.Default, dir, all, want, lastNumber(out, "done"))
	_ = os.RemoveAll(dir)
}
