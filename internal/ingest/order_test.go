package ingest_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/internal/gen"
	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/store"
)

// rebuilt checks that the log gives the same conclusions again.
func rebuilt(t *testing.T, s *store.Store) {
	t.Helper()
	if err := s.Rebuild(t.Context(), true, nil); err != nil {
		t.Fatal(err)
	}
}

func generate(t *testing.T, change func(*gen.Options)) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "corpus")
	o := gen.Defaults()
	o.Out = dir
	change(&o)
	if _, err := gen.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	return dir
}

// pieces cuts each room of a corpus into runs of rows, each a file in a folder of
// its own, and now and then two runs that overlap.
func pieces(t *testing.T, rng *rand.Rand, dir string, overlap bool) (paths []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatal(err, len(files))
	}
	out := t.TempDir()
	n := 0
	write := func(name string, lines [][]byte) {
		n++
		folder := filepath.Join(out, fmt.Sprintf("%04d", n))
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, bytes.Join(lines, nil), 0o644); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		lines := bytes.SplitAfter(text, []byte("\n"))
		lines = lines[:len(lines)-1]
		name := filepath.Base(f)
		cuts := 1 + rng.IntN(3)
		if strings.HasPrefix(name, protocol.BoardRoom) {
			cuts = 2 + rng.IntN(6)
		}
		for from, k := 0, cuts; k > 0; k-- {
			to := from + (len(lines)-from)/k
			if k > 1 && to < len(lines) && rng.IntN(2) == 0 {
				to += rng.IntN(len(lines) - to)
			}
			begin := from
			if overlap && begin > 0 && rng.IntN(3) == 0 {
				begin -= rng.IntN(min(begin, 5) + 1) // rows that another piece has, too
			}
			write(name, lines[begin:to])
			from = to
		}
	}
	return paths
}

// TestAnyOrder ingests the pieces of hostile boards in random order, many at a
// time or one by one, and demands what an audit of the whole says.
func TestAnyOrder(t *testing.T) {
	seeds, base := 50, uint64(1)
	if testing.Short() {
		seeds = 5
	}
	if os.Getenv("TCLK_LONG") != "" {
		seeds = 500
		if n, err := strconv.Atoi(os.Getenv("TCLK_LONG")); err == nil && n > 1 {
			seeds = n
		}
	}
	if os.Getenv("TCLK_LONG") != "" {
		base = rand.Uint64()
	}
	if v := os.Getenv("TCLK_SEED"); v != "" { // one that failed before
		n, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		base, seeds = n, 1
	}
	for k := range seeds {
		seed := base + uint64(k)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			rules := fold.Rules{
				OfferRoom: rng.IntN(4) == 0, FirstAccept: rng.IntN(4) == 0, RepairNonces: rng.IntN(3) == 0, Reference: rng.IntN(5) == 0,
			}
			// Where two records share a seq, and pieces overlap there, the order of
			// the pieces decides which of them an audit sees twice.
			overlap := rng.IntN(2) == 0
			dir := generate(t, func(o *gen.Options) {
				o.Seed = seed
				o.Contracts = 20 + rng.IntN(40)
				o.Keys = 10
				o.Noise = anyNoise(t, !overlap)
			})
			paths := pieces(t, rng, dir, overlap)
			want := auditOf(t, rules, paths)
			rng.Shuffle(len(paths), func(i, j int) { paths[i], paths[j] = paths[j], paths[i] })
			s := open(t, t.TempDir(), rules)
			defer s.Close()
			for left := paths; len(left) > 0; {
				n := 1 + rng.IntN(min(len(left), 6))
				load(t, s, left[:n]...)
				left = left[n:]
			}
			compare(t, s, want)
			rebuilt(t, s)
		})
	}
}

// anyNoise is all noise but what makes a file disagree with its own seqs: there
// the order of the file decides, and a file cut in pieces is another file.
func anyNoise(t *testing.T, conflicting bool) gen.Noise {
	t.Helper()
	kinds := "all,swaps=0,duplicates=0"
	if !conflicting {
		kinds += ",conflicting=0"
	}
	n, err := gen.ParseNoise(kinds)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestRebuild(t *testing.T) {
	dir := generate(t, func(o *gen.Options) { o.Contracts = 400 })
	s := open(t, t.TempDir(), fold.Rules{})
	defer s.Close()
	load(t, s, dir)
	rebuilt(t, s)
	if err := s.Rebuild(t.Context(), false, nil); err != nil {
		t.Fatal(err)
	}
	sameAsAudit(t, s, fold.Rules{}, dir)
	rebuilt(t, s)
	again := load(t, s, dir)
	if again.Counts.Rows != 0 || again.Counts.Events != 0 || again.Sources != 0 {
		t.Errorf("twice the same files: %+v", again)
	}
	var diff *store.DifferenceError
	if errors.As(s.Rebuild(t.Context(), true, nil), &diff) {
		t.Error(diff)
	}
}

// TestGrown ingests the beginnings of files and then the files, rows out of
// order, repeats and broken lines included: a copy that agrees as far as it goes
// says nothing against the other.
func TestGrown(t *testing.T) {
	seeds := 8
	if testing.Short() {
		seeds = 2
	}
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 7))
			dir := generate(t, func(o *gen.Options) {
				o.Seed, o.Contracts, o.Keys = 300+seed, 40, 12
				noise, err := gen.ParseNoise("all,swaps=0.5,duplicates=0.3,torn=0")
				if err != nil {
					t.Fatal(err)
				}
				o.Noise = noise
			})
			s := open(t, t.TempDir(), fold.Rules{})
			defer s.Close()
			whole := open(t, t.TempDir(), fold.Rules{})
			defer whole.Close()
			load(t, whole, dir)
			want := auditOf(t, fold.Rules{}, []string{dir})
			compare(t, whole, want)

			short := t.TempDir()
			files, err := filepath.Glob(filepath.Join(dir, "mb-p-tclk-*.jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range files {
				text, err := os.ReadFile(f)
				if err != nil {
					t.Fatal(err)
				}
				lines := bytes.SplitAfter(text, []byte("\n"))
				text = bytes.Join(lines[:rng.IntN(len(lines))], nil)
				if err := os.WriteFile(filepath.Join(short, filepath.Base(f)), text, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			load(t, s, short)
			load(t, s, dir)
			compare(t, s, want)
			rebuilt(t, s)
		})
	}
}
