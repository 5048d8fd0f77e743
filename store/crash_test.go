package store_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/tclk-audit/tclk-audit/internal/gen"
	"github.com/tclk-audit/tclk-audit/internal/ingest"
	"github.com/tclk-audit/tclk-audit/store"
)

// long is for the runs that take minutes.
var long = os.Getenv("TCLK_LONG") != ""

// pick chooses how much a test does: under -short, as a rule, and in the long run.
func pick(short, rule, most int) int {
	switch {
	case long:
		return most
	case testing.Short():
		return short
	}
	return rule
}

// childEnv names what a child of these tests does: the test binary runs itself
// again, so that there is a process to kill.
const childEnv = "TCLK_STORE_CHILD"

func TestMain(m *testing.M) {
	what := os.Getenv(childEnv)
	if what == "" {
		os.Exit(m.Run())
	}
	if err := child(what, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func child(what string, args []string) error {
	switch what {
	case "ingest": // dir, paths
		return ingestChild(args[0], args[1:])
	case "fault": // mode, at, dir, paths
		return faultChild(args[0], args[1], args[2], args[3:])
	case "open": // dir, "read" or "write"
		_, err := store.Open(args[0], store.Options{ReadOnly: args[1] == "read"})
		return err
	}
	return fmt.Errorf("no such child: %q", what)
}

// command runs the test binary as a child.
func command(t *testing.T, what string, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, args...)
	cmd.Env = append(os.Environ(), childEnv+"="+what)
	return cmd
}

// raced reports whether the race detector is on.
func raced() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// die ends the process where the database cannot go on, as the program does.
func die(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// corpus makes up a board and its deal rooms. Sources are told apart by when
// their files were written, so tests that compare stores share the files.
func corpus(t *testing.T, change func(*gen.Options)) string {
	t.Helper()
	o := gen.Defaults()
	o.Seed, o.Keys, o.Out = 7, 40, filepath.Join(t.TempDir(), "corpus")
	change(&o)
	if _, err := gen.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	return o.Out
}

// fill reads the paths into a store, and leaves it open.
func fill(fs vfs.FS, dir string, paths ...string) (*store.Store, error) {
	s, err := store.Open(dir, store.Options{FS: fs, Fatal: die})
	if err != nil {
		return nil, err
	}
	if _, err := ingest.Run(context.Background(), s, paths, ingest.Options{Venue: "file"}); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func mustFill(t *testing.T, fs vfs.FS, dir string, paths ...string) {
	t.Helper()
	s, err := fill(fs, dir, paths...)
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// content is every key and value of a closed store's database.
type content map[string]string

func contentOf(t *testing.T, fs vfs.FS, dir string) content {
	t.Helper()
	c := content{}
	db, err := pebble.Open(fs.PathJoin(dir, "db"), &pebble.Options{FS: fs, ReadOnly: true, Logger: quiet{}})
	if err != nil {
		t.Fatal(err)
	}
	it, err := db.NewIter(nil)
	if err != nil {
		t.Fatal(err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		c[string(it.Key())] = string(it.Value())
	}
	if err := errors.Join(it.Error(), it.Close(), db.Close()); err != nil {
		t.Fatal(err)
	}
	return c
}

type quiet struct{}

func (quiet) Infof(string, ...any)      {}
func (quiet) Errorf(string, ...any)     {}
func (quiet) Fatalf(f string, a ...any) { panic(fmt.Sprintf(f, a...)) }

// differ tells the first keys that two databases do not share.
func (c content) differ(o content) string {
	var keys []string
	for k, v := range c {
		if w, ok := o[k]; !ok || v != w {
			keys = append(keys, k)
		}
	}
	for k := range o {
		if _, ok := c[k]; !ok {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return ""
	}
	slices.Sort(keys)
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d keys differ:", len(keys), len(c))
	for _, k := range keys[:min(len(keys), 4)] {
		fmt.Fprintf(&b, "\n%q: %.200q, and not %.200q", k, c[k], o[k])
	}
	return b.String()
}

// sound checks that a store holds what it acknowledged, and all of it.
func sound(t *testing.T, s *store.Store, acknowledged uint64) {
	t.Helper()
	if err := s.Behind(); err != nil {
		t.Fatal(err)
	}
	if log, _ := s.Held(); log < acknowledged {
		t.Fatalf("the store holds %d entries, and %d were acknowledged", log, acknowledged)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func ingestChild(dir string, paths []string) error {
	s, err := store.Open(dir, store.Options{Fatal: die})
	if err != nil {
		return err
	}
	_, err = ingest.Run(context.Background(), s, paths, ingest.Options{Venue: "file", Committed: func(store.WindowCounts) {
		log, _ := s.Held()
		fmt.Println("committed", log)
	}})
	return errors.Join(err, s.Close())
}

// TestKilled kills the process that fills a store, at random moments, and has
// the next one go on, until the store is full. It must equal one that nobody
// disturbed, key by key.
func TestKilled(t *testing.T) {
	if raced() {
		t.Skip("what is killed is another process, of which the race detector says nothing; it only takes long")
	}
	kills := pick(12, 20, 120)
	files := corpus(t, func(o *gen.Options) { o.Rows = int64(pick(5_000, 8_000, 30_000)); o.Layout = gen.PerRoom })
	want := filepath.Join(t.TempDir(), "undisturbed")
	mustFill(t, vfs.Default, want, files)
	full := contentOf(t, vfs.Default, want)

	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	killed, stores := 0, 0
	for killed < kills {
		dir := filepath.Join(t.TempDir(), "store")
		stores++
		for killAndLook(t, rng, dir, files) {
			killed++
		}
		if d := full.differ(contentOf(t, vfs.Default, dir)); d != "" {
			t.Fatalf("after %d kills: %s", killed, d)
		}
	}
	t.Logf("killed %d times, %d stores, %d keys each", killed, stores, len(full))
}

// killAndLook runs an ingest and kills it. It returns false where the work was
// done before that.
func killAndLook(t *testing.T, rng *rand.Rand, dir, files string) bool {
	t.Helper()
	cmd := command(t, "ingest", dir, files)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// Some die at any moment of the first half second, some around the commit of
	// a window.
	windows := rng.IntN(3)
	delay := time.Duration(rng.Int64N(int64(40 * time.Millisecond)))
	if windows == 0 {
		delay = time.Duration(rng.Int64N(int64(500 * time.Millisecond)))
	}
	told := make(chan uint64)
	go func() {
		defer close(told)
		for sc := bufio.NewScanner(out); sc.Scan(); {
			if log, err := strconv.ParseUint(strings.TrimPrefix(sc.Text(), "committed "), 10, 64); err == nil {
				told <- log
			}
		}
	}()
	var acknowledged uint64
	timer := time.NewTimer(delay)
	if windows > 0 {
		timer.Stop()
	}
	for open := true; open; {
		select {
		case <-timer.C:
			_ = cmd.Process.Kill() // it may have ended by itself
		case log, ok := <-told:
			if open = ok; !ok {
				break
			}
			acknowledged = log
			if windows--; windows == 0 {
				timer.Reset(delay)
			}
		}
	}
	if err := cmd.Wait(); err == nil {
		return false
	} else if cmd.ProcessState.Exited() {
		t.Fatalf("the child failed: %v\n%s", err, stderr.String())
	}
	if acknowledged > 0 {
		mark, err := store.Acknowledged(vfs.Default, dir)
		if err != nil || mark < acknowledged {
			t.Fatalf("the mark says %d, the process told of %d: %v", mark, acknowledged, err)
		}
		acknowledged = mark
	}
	s, err := store.Open(dir, store.Options{ReadOnly: true})
	if acknowledged == 0 && errors.Is(err, store.ErrNoStore) {
		return true
	}
	if err != nil {
		t.Fatal(err)
	}
	sound(t, s, acknowledged)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return true
}
