package store_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/store"
)

// answers are what a store says of its contracts.
func answers(s *store.Store) (string, error) {
	r, err := s.Reader()
	if err != nil {
		return "", err
	}
	defer r.Close()
	items, err := r.Contracts(store.Filter{})
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, i := range items {
		c, err := r.Fold(i, nil)
		if err != nil {
			return "", err
		}
		text, err := json.Marshal([]any{i, c})
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "%s\n", text)
	}
	return b.String(), nil
}

// harm is one way to damage a file. It reports false where the file is left as
// it is.
type harm struct {
	name string
	do   func(b []byte) (out []byte, remove bool)
}

func harms(rng *rand.Rand, size int) (list []harm) {
	cut := func(n int) {
		list = append(list, harm{fmt.Sprintf("cut to %d", n), func(b []byte) ([]byte, bool) { return b[:n], false }})
	}
	flip := func(at int) {
		bit := byte(1) << rng.IntN(8)
		list = append(list, harm{fmt.Sprintf("flip bit %#x of byte %d", bit, at), func(b []byte) ([]byte, bool) {
			b = bytes.Clone(b)
			b[at] ^= bit
			return b, false
		}})
	}
	if size > 0 {
		cut(0)
		cut(size - 1)
		flip(0)
		flip(size - 1)
		for range pick(2, 5, 60) {
			cut(rng.IntN(size))
			flip(rng.IntN(size))
		}
	}
	return append(list, harm{"remove", func([]byte) ([]byte, bool) { return nil, true }})
}

// TestDamage damages each file of a closed store, one at a time. What the store
// says then is right, or it says which file is damaged and what to do.
func TestDamage(t *testing.T) {
	all := pieces(t)
	whole := filepath.Join(t.TempDir(), "store")
	if err := fillPieces(vfs.Default, whole, all[:4], func(int) {}); err != nil {
		t.Fatal(err)
	}
	// The last pieces stand in tables of level 0 and in the write-log.
	mustFill(t, vfs.Default, whole, all[4]...)
	mustFill(t, vfs.Default, whole, all[5]...)
	full := contentOf(t, vfs.Default, whole)
	s, err := store.Open(whole, store.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	want, err := answers(s)
	if err := errors.Join(err, s.Close()); err != nil || want == "" {
		t.Fatal(err)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	files, err := filepath.Glob(filepath.Join(whole, "db", "*"))
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]int{}
	for _, path := range append(files, filepath.Join(whole, store.MarkName)) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name, err := filepath.Rel(whole, path)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range harms(rng, len(b)) {
			t.Run(name+"/"+h.name, func(t *testing.T) {
				fs := copyToMem(t, whole)
				out, remove := h.do(b)
				if err := fs.Remove("store/" + name); err != nil {
					t.Fatal(err)
				}
				if !remove {
					f, err := fs.Create("store/"+name, vfs.WriteCategoryUnspecified)
					if err != nil {
						t.Fatal(err)
					}
					if _, err := f.Write(bytes.Clone(out)); err != nil {
						t.Fatal(err)
					}
					if err := f.Close(); err != nil {
						t.Fatal(err)
					}
				}
				told[damaged(t, fs, all, want, full)]++
			})
		}
	}
	t.Log(told)
	for _, what := range []string{"right", "damaged", "behind"} {
		if told[what] == 0 {
			t.Errorf("no damage led to %q", what)
		}
	}
}

// copyToMem copies a store into memory.
func copyToMem(t *testing.T, dir string) *vfs.MemFS {
	t.Helper()
	fs := vfs.NewMem()
	if ok, err := vfs.Clone(vfs.Default, fs, dir, "store"); err != nil || !ok {
		t.Fatal(ok, err)
	}
	return fs
}

// damaged looks at a store that may be, and says what came of it.
func damaged(t *testing.T, fs vfs.FS, all [][]string, want string, full content) string {
	t.Helper()
	isDamage := func(err error) bool {
		var d *store.DamagedError
		if !errors.As(err, &d) {
			return false
		}
		if d.File == "" || d.Do == "" {
			t.Errorf("it does not say which file, or what to do: %#v", d)
		}
		if testing.Verbose() {
			t.Log(d, "-", d.Do)
		}
		return true
	}
	// First as the read commands do.
	s, err := store.Open("store", store.Options{FS: fs, ReadOnly: true})
	if isDamage(err) {
		return "damaged"
	} else if err != nil {
		t.Fatal(err)
	}
	behind := s.Behind()
	found := s.Check(t.Context())
	said, err := answers(s)
	switch {
	case isDamage(err):
		if behind == nil && found == nil {
			t.Error("a check does not find it")
		}
	case err != nil:
		t.Fatal(err)
	case found == nil && said != want:
		t.Fatal("wrong answers")
	}
	if err := s.Close(); err != nil && !isDamage(err) {
		t.Fatal(err)
	}
	switch {
	case behind != nil:
		var b *store.BehindError
		if !errors.As(behind, &b) && !isDamage(behind) || b != nil && b.Acked <= b.Log {
			t.Fatalf("%#v", behind)
		}
		if s, err = store.Open("store", store.Options{FS: fs}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.NewWriter(); err == nil {
			t.Fatal("it writes on")
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if s, err = store.Open("store", store.Options{FS: fs, AcceptLoss: true}); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	case isDamage(found):
		return "damaged"
	case found != nil:
		t.Fatal(found)
	}
	if err := fillPieces(fs, "store", all, func(int) {}); err != nil {
		t.Fatal(err)
	}
	if d := full.differ(contentOf(t, fs, "store")); d != "" {
		t.Fatal(d)
	}
	if behind != nil {
		return "behind"
	}
	return "right"
}

// TestHoleInLog has a store without an entry, as where one of several write-logs
// was lost: Pebble does not miss one from among them, and the mark does not
// either where the last one is there.
func TestHoleInLog(t *testing.T) {
	all := pieces(t)
	fs := vfs.NewMem()
	s, err := fill(fs, "store", all[0]...)
	if err != nil {
		t.Fatal(err)
	}
	log, _ := s.Held()
	if err := errors.Join(s.DeleteEntry(log/2), s.Close()); err != nil {
		t.Fatal(err)
	}
	_, err = store.Open("store", store.Options{FS: fs})
	var d *store.DamagedError
	if !errors.As(err, &d) {
		t.Fatal(err)
	}
}

func TestLocked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := store.Open(dir, store.Options{}); !errors.Is(err, store.ErrLocked) {
		t.Errorf("in this process: %v", err)
	}
	// Pebble's lock keeps readers out as well: they ask the one that has it open.
	for _, how := range []string{"read", "write"} {
		out, err := command(t, "open", dir, how).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "another process has it open: "+dir) {
			t.Errorf("to %s in another process: %v %s", how, err, out)
		}
	}
}

func TestVersions(t *testing.T) {
	number := func(n uint64) []byte { return binary.AppendUvarint(nil, n) }
	reference := fold.Rules{Reference: true}
	for _, c := range []struct {
		name, key string
		value     []byte
		opts      store.Options
		want      any // pointer to the error's type, nil for none
	}{
		{"newer format", "format", number(store.Format + 1), store.Options{}, new(*store.VersionError)},
		{"newer format, read only", "format", number(store.Format + 1), store.Options{ReadOnly: true}, new(*store.VersionError)},
		{"no format", "format", nil, store.Options{}, new(*store.DamagedError)},
		{"other fold", "fold", number(store.FoldVersion + 1), store.Options{}, new(*store.StaleError)},
		{"other fold, rebuilding", "fold", number(store.FoldVersion + 1), store.Options{Rebuilding: true}, nil},
		{"other rules", "rules", []byte(reference.String()), store.Options{Rules: new(fold.Rules)}, new(*store.StaleError)},
		{"its own rules", "rules", []byte(reference.String()), store.Options{}, nil},
		{"unknown rules", "rules", []byte("spec+tomorrow"), store.Options{}, new(*store.StaleError)},
		{"unknown rules, rebuilding", "rules", []byte("spec+tomorrow"), store.Options{Rebuilding: true, Rules: new(fold.Rules)}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.opts.FS = vfs.NewMem()
			s, err := store.Open("store", store.Options{FS: c.opts.FS})
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(s.SetMeta(c.key, c.value), s.Close()); err != nil {
				t.Fatal(err)
			}
			s, err = store.Open("store", c.opts)
			if c.want == nil {
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			} else if !errors.As(err, c.want) {
				t.Fatalf("%T: %v", err, err)
			} else {
				t.Log(err)
			}
		})
	}
}

// TestNoStore opens what is none, or cannot be one.
func TestNoStore(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	sealed := filepath.Join(dir, "sealed")
	if err := os.Mkdir(sealed, 0o555); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, dir string
		opts      store.Options
		words     string
	}{
		{"to read", dir, store.Options{ReadOnly: true}, "there is none in this folder"},
		{"to rebuild", filepath.Join(dir, "nowhere"), store.Options{Rebuilding: true}, "there is none in this folder"},
		{"a file", file, store.Options{}, "a store is a folder"},
		{"below a file", filepath.Join(file, "store"), store.Options{}, "a store is a folder"},
		{"no right to write", filepath.Join(sealed, "store"), store.Options{}, "see that this user may write there"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.dir == filepath.Join(sealed, "store") && os.Geteuid() == 0 {
				t.Skip("root may write anywhere")
			}
			s, err := store.Open(c.dir, c.opts)
			if err == nil {
				t.Fatal("it opened", s.Close())
			}
			if !strings.Contains(err.Error(), c.words) || !strings.Contains(err.Error(), c.dir) {
				t.Fatal(err)
			}
		})
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Error("something was made", left, err)
	}
}

// TestGivenUp has a writer give up an open window: the next one begins where the
// store stands.
func TestGivenUp(t *testing.T) {
	all := pieces(t)
	fs := vfs.NewMem()
	s, err := fill(fs, "store", all[0]...)
	if err != nil {
		t.Fatal(err)
	}
	log, _ := s.Held()
	w, err := s.NewWriter()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Begin(store.Source{Venue: "other", Path: "x"}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if now, _ := s.Held(); now != log {
		t.Errorf("the store holds %d entries, and says %d", log, now)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := fillPieces(fs, "store", all, func(int) {}); err != nil {
		t.Fatal(err)
	}
	if d := states(t, all)[len(all)].differ(contentOf(t, fs, "store")); d != "" {
		t.Fatal(d)
	}
}
