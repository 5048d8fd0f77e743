package audit_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tclk-audit/tclk-audit/export"
	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/internal/audit"
	"github.com/tclk-audit/tclk-audit/internal/gen"
	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/verify"
)

// event is one call of a sink, kept.
type event struct {
	What     string
	Path     string
	Room     string
	RoomFrom export.RoomFrom
	Row      audit.Judged
	Frames   [2]string
	Page     export.Page
	Sum      export.Summary
}

// keeper is a sink that copies all it is given.
type keeper struct {
	events []event
	full   int // fail when that many events are there; 0: never
}

var errFull = errors.New("full")

func (k *keeper) add(in *audit.ScanInput, e event) error {
	if k.full > 0 && len(k.events) == k.full {
		return errFull
	}
	e.Path, e.Room, e.RoomFrom = in.Path, in.Room, in.RoomFrom
	k.events = append(k.events, e)
	return nil
}

func (k *keeper) Begin(in *audit.ScanInput) error { return k.add(in, event{What: "begin"}) }

func (k *keeper) Page(in *audit.ScanInput, p export.Page) error {
	return k.add(in, event{What: "page", Page: p})
}

func (k *keeper) End(in *audit.ScanInput, sum export.Summary) error {
	return k.add(in, event{What: "end", Sum: sum})
}

func (k *keeper) Rows(in *audit.ScanInput, rows []audit.Judged) error {
	for _, r := range rows {
		e := event{What: "row"}
		for i, d := range []*protocol.Decoded{&r.Row.Line, &r.Row.Reference} {
			if d.Frame != nil {
				frame, err := json.Marshal(d.Frame)
				if err != nil {
					return err
				}
				e.Frames[i] = string(frame)
				d.Frame = nil
			}
		}
		rec := &r.Row.Record
		for _, b := range []*[]byte{&r.Raw, &rec.From, &rec.Nonce, &rec.Sig, &rec.Text} {
			*b = bytes.Clone(*b)
		}
		e.Row = r
		if err := k.add(in, e); err != nil {
			return err
		}
	}
	return nil
}

func (k *keeper) rows() (rows []*audit.Judged) {
	for i := range k.events {
		if k.events[i].What == "row" {
			rows = append(rows, &k.events[i].Row)
		}
	}
	return rows
}

func scan(t *testing.T, o audit.ScanOptions, paths ...string) *keeper {
	t.Helper()
	k := &keeper{}
	if _, err := audit.Scan(t.Context(), paths, o, k); err != nil {
		t.Fatal(err)
	}
	return k
}

// generated writes a board and its deal rooms.
func generated(t *testing.T, change func(*gen.Options)) string {
	t.Helper()
	o := gen.Defaults()
	o.Seed, o.Contracts, o.Noise, o.Out = 5, 300, gen.AllNoise(), filepath.Join(t.TempDir(), "corpus")
	change(&o)
	if _, err := gen.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(o.Out, "manifest.json")); err != nil {
		t.Fatal(err)
	}
	return o.Out
}

func tempFile(t *testing.T, name string, text []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func readAll(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func packed(t *testing.T, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func noise(t *testing.T, setting string) gen.Noise {
	t.Helper()
	n, err := gen.ParseNoise(setting)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

var roomMember = regexp.MustCompile(`,"room":"[^"]*"|"room":"[^"]*",`)

// awkward writes files in which a row's judgement may come to depend on more
// than the row: the budget for repairs runs dry, rooms are found by trying.
func awkward(t *testing.T) map[string]string {
	t.Helper()
	made.Do(func() { makeAwkward(t) })
	files := map[string]string{}
	for name, f := range awkwardFiles {
		files[name] = tempFile(t, f.name, f.text)
	}
	return files
}

var (
	made         sync.Once
	awkwardFiles map[string]namedText
)

type namedText struct {
	name string
	text []byte
}

func makeAwkward(t *testing.T) {
	t.Helper()
	contracts := 600
	if testing.Short() {
		contracts = 200
	}
	single := func(change func(*gen.Options)) []byte {
		dir := generated(t, func(o *gen.Options) { o.Single, o.Contracts = true, contracts; change(o) })
		return readAll(t, filepath.Join(dir, "all.jsonl"))
	}
	all := single(func(o *gen.Options) { o.Seed = 6 })
	bad := single(func(o *gen.Options) { o.BadSignatures = true })
	rounded := single(func(o *gen.Options) { o.Noise = noise(t, "live,rounded-nonce=1,padded-nonce=1") })
	var pages bytes.Buffer
	for lines := bytes.SplitAfter(rounded, []byte("\n")); len(lines) > 0; {
		n := min(50, len(lines))
		fmt.Fprintf(&pages, `{"room":"tclk-offers","last_seq":7,"generation":2,"messages":[%s]}`+"\n",
			bytes.TrimSuffix(bytes.Join(slices.DeleteFunc(slices.Clone(lines[:n]), func(l []byte) bool { return len(l) == 0 }), []byte(",")), []byte(",")))
		pages.WriteString(`{"room":"mb-p-tclk-0ad9e8bd2b42150a","last_seq":0,"messages":[]}` + "\n")
		lines = lines[n:]
	}
	awkwardFiles = map[string]namedText{
		"all noise":       {"all.jsonl", all},
		"bad signatures":  {"bad.jsonl", bad},
		"rounded nonces":  {"rounded.jsonl.gz", packed(t, rounded)},
		"without rooms":   {"dump.jsonl", roomMember.ReplaceAll(all, nil)},
		"bad, no rooms":   {"bad.jsonl", roomMember.ReplaceAll(bad, nil)},
		"misnamed":        {"lobby.jsonl", roomMember.ReplaceAll(rounded, nil)},
		"pages":           {"pages.json", pages.Bytes()},
		"over-long, torn": {"tclk-offers.jsonl", []byte(string(all[:20_000]) + "\n" + strings.Repeat("x", 3<<20) + "\n\n" + string(all[:30_011]))},
	}
}

func testdata(t *testing.T) (files []string) {
	t.Helper()
	err := filepath.WalkDir("../../testdata", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) < 100 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	return files
}

// A scan finds the rows that a run finds. Only how far repairs go differs.
func TestScanCountsLikeRun(t *testing.T) {
	paths := map[string][]string{"per room": {generated(t, func(*gen.Options) {})}}
	for name, path := range awkward(t) {
		paths[name] = []string{path}
	}
	for _, file := range testdata(t) {
		paths[file] = []string{file}
	}
	dirs, _ := filepath.Glob("../../testdata/*/*")
	for _, dir := range append(dirs, folders(t)...) {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			paths[dir] = []string{dir}
		}
	}
	for name, paths := range paths {
		for _, rules := range []fold.Rules{{}, {Reference: true}} {
			want := run(t, rules, paths...)
			k := scan(t, audit.ScanOptions{Rules: rules, Cores: 2}, paths...)
			var got audit.RowCounts
			untried := false // then the two may differ in what is repaired
			for _, r := range k.rows() {
				got.Total++
				switch {
				case r.Torn:
					got.Torn++
				case r.Malformed != protocol.ReasonNone:
					got.Malformed++
				case r.Row.Verify.Class == verify.Authentic:
					got.Authentic++
				case r.Row.Verify.Class == verify.Repaired:
					got.Repaired++
				case r.Row.Verify.Class == verify.Unsigned:
					got.Unsigned++
				default:
					got.Invalid++
					untried = untried || r.Row.Verify.Untried
				}
			}
			w := want.Rows
			w.Duplicate, w.NotFrames = 0, 0
			if untried {
				w.Invalid, w.Repaired = w.Invalid+w.Repaired-got.Repaired, got.Repaired
			}
			if got != w {
				t.Errorf("%s: scanned %+v, run %+v", name, got, w)
			}
			inputs := map[string]audit.Input{}
			for _, in := range want.Inputs {
				inputs[in.Path] = in
			}
			for _, e := range k.events {
				if in := inputs[e.Path]; e.What == "end" && (e.Sum.SHA256 != in.SHA256 || e.Sum.Cut != in.Cut || e.Sum.Rows != in.Rows) {
					t.Errorf("%s: %+v, run %+v", name, e.Sum, in)
				}
			}
		}
	}
}

// Rows come in the input's order, with their numbers, places and bytes.
func TestScanKeepsTheOrder(t *testing.T) {
	for name, path := range awkward(t) {
		k := scan(t, audit.ScanOptions{Cores: 2}, path)
		text := readAll(t, path)
		offset := int64(-1)
		for i, r := range k.rows() {
			if r.Index != int64(i) || r.Offset <= offset {
				t.Fatalf("%s: row %d has number %d and stands at %d, behind one at %d", name, i, r.Index, r.Offset, offset)
			}
			offset = r.Offset
			if strings.HasSuffix(path, ".gz") {
				continue
			}
			if !bytes.Equal(text[offset:offset+int64(len(r.Raw))], r.Raw) || int64(len(r.Raw)) != r.RawSize && !r.TooLong {
				t.Fatalf("%s: row %d is not what stands at %d", name, i, offset)
			}
			if line := int64(bytes.Count(text[:offset], []byte("\n"))) + 1; i%100 == 0 && r.Line != line {
				t.Fatalf("%s: row %d in line %d, not %d", name, i, r.Line, line)
			}
		}
		if name == "pages" && k.events[1].What != "page" {
			t.Errorf("a page comes behind its rows")
		}
	}
}

// resumed scans a file as if its first n rows were known already.
func resumed(t *testing.T, path string, cores, n int, whole []event) {
	t.Helper()
	at, last := 1, audit.Judged{}
	for i := range whole {
		if r := &whole[i]; r.What == "row" && r.Row.Index == int64(n-1) {
			at, last = i+1, r.Row
		}
	}
	checked := false
	k := scan(t, audit.ScanOptions{Cores: cores, Resume: func(*audit.ScanInput) (audit.Skip, error) {
		return audit.Skip{Rows: int64(n), State: last.After, Check: func(raw []byte) error {
			if checked = true; !bytes.Equal(raw, last.Raw) {
				t.Errorf("%s: the last of %d skipped rows is said to be %q", path, n, raw)
			}
			return nil
		}}, nil
	}}, path)
	if checked != (n > 0) {
		t.Errorf("%s: %d rows skipped, checked: %v", path, n, checked)
	}
	want := append(slices.Clone(whole[:1]), whole[at:]...)
	if diff := first(want, k.events); diff != "" {
		t.Fatalf("%s, %d cores, resumed behind %d rows: %s", path, cores, n, diff)
	}
}

// first tells where two scans begin to differ.
func first(want, got []event) string {
	for i := range min(len(want), len(got)) {
		if !reflect.DeepEqual(want[i], got[i]) {
			return fmt.Sprintf("event %d:\n%s", i, cmp.Diff(want[i], got[i]))
		}
	}
	if len(want) != len(got) {
		return fmt.Sprintf("%d events, want %d", len(got), len(want))
	}
	return ""
}

// Where a scan was resumed, and on how many cores, cannot be told from its rows.
func TestScanResumesExactly(t *testing.T) {
	for _, file := range testdata(t) {
		whole := scan(t, audit.ScanOptions{Cores: 2}, file)
		rows := len(whole.rows())
		for n := 0; n <= rows; n += 1 + rows/4 {
			resumed(t, file, 1, n, whole.events)
		}
	}
	for name, path := range awkward(t) {
		t.Run(name, func(t *testing.T) {
			whole := scan(t, audit.ScanOptions{Cores: 2}, path)
			rows := whole.rows()
			dry, found := 0, 0
			for _, r := range rows {
				if r.Row.Verify.Untried {
					dry++
				}
				if r.RoomFrom == export.RoomFromFound {
					found++
				}
			}
			t.Logf("%d rows, %d untried, %d in rooms found, %+v", len(rows), dry, found, rows[len(rows)-1].After)
			parts := 12
			if testing.Short() {
				parts = 3
			}
			for i := range parts + 1 {
				resumed(t, path, 1+i%2, min(len(rows), i*(len(rows)/parts+7)), whole.events)
			}
		})
	}
}

// A file that has grown gives the rows that it would have given at once.
func TestScanOfAGrownFile(t *testing.T) {
	for name, path := range awkward(t) {
		text := readAll(t, path)
		if filepath.Ext(path) != ".jsonl" {
			continue
		}
		whole := scan(t, audit.ScanOptions{Cores: 2}, path)
		rows := whole.rows()
		r := rows[len(rows)*2/3]
		grown := tempFile(t, filepath.Base(path), text[:r.Offset])
		before := scan(t, audit.ScanOptions{Cores: 2}, grown).rows()
		if len(before) != int(r.Index) {
			t.Fatalf("%s: %d rows, want %d", name, len(before), r.Index)
		}
		for i := range before {
			if !reflect.DeepEqual(rows[i], before[i]) {
				t.Fatalf("%s: row %d:\n%s", name, i, cmp.Diff(rows[i], before[i]))
			}
		}
		resumed(t, path, 2, len(before), whole.events)
	}
}

// What is said of an input does not depend on those beside it.
func TestScanOfManyInputs(t *testing.T) {
	dir := generated(t, func(o *gen.Options) { o.Contracts = 60 })
	for _, path := range awkward(t) {
		if err := os.Rename(path, filepath.Join(dir, fmt.Sprint("x", len(readAll(t, path)), filepath.Base(path)))); err != nil {
			t.Fatal(err)
		}
	}
	var paths []string
	board := []string{protocol.BoardRoom} // the rooms in sight are not those of one file
	all := scan(t, audit.ScanOptions{Cores: 2, Rooms: board}, dir)
	for _, e := range all.events {
		if e.What == "begin" {
			paths = append(paths, e.Path)
		}
	}
	isDeal := func(path string) bool { return strings.HasPrefix(filepath.Base(path), "mb-p-tclk-") }
	if !slices.IsSortedFunc(paths, func(x, y string) int {
		if isDeal(x) != isDeal(y) {
			return map[bool]int{false: -1, true: 1}[isDeal(x)]
		}
		return strings.Compare(x, y)
	}) {
		t.Errorf("order of the inputs: %q", paths)
	}
	var alone []event
	for i, path := range paths {
		k := scan(t, audit.ScanOptions{Cores: 1, Rooms: board}, path)
		for j := range k.events {
			if k.events[j].What == "row" {
				k.events[j].Row.Row.Source = uint32(i)
			}
		}
		alone = append(alone, k.events...)
	}
	if diff := first(alone, all.events); diff != "" {
		t.Error(diff)
	}

	// Known inputs are not read at all.
	some := scan(t, audit.ScanOptions{Rooms: board, Resume: func(in *audit.ScanInput) (audit.Skip, error) {
		return audit.Skip{All: in.Index%2 == 0}, nil
	}}, dir)
	rest := slices.DeleteFunc(alone, func(e event) bool { return slices.Index(paths, e.Path)%2 == 0 })
	if diff := first(rest, some.events); diff != "" {
		t.Error(diff)
	}
}

func TestScanOfStdin(t *testing.T) {
	path := filepath.Join("../../testdata/demo/tclk-offers.jsonl")
	for _, text := range [][]byte{readAll(t, path), packed(t, readAll(t, path))} {
		got := scan(t, audit.ScanOptions{Room: "tclk-offers", Stdin: bytes.NewReader(text)}, "-").rows()
		want := scan(t, audit.ScanOptions{Room: "tclk-offers"}, path).rows()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	// Nothing tells the room: it is found.
	k := scan(t, audit.ScanOptions{Stdin: bytes.NewReader(readAll(t, path))}, "-")
	if b := k.events[0]; b.Room != protocol.BoardRoom || b.RoomFrom != export.RoomFromFound {
		t.Errorf("room %q, %v", b.Room, b.RoomFrom)
	}
}

// What stops the work comes behind the rows before it.
func TestScanStops(t *testing.T) {
	const demo = "../../testdata/demo"
	board := readAll(t, filepath.Join(demo, "tclk-offers.jsonl"))
	long := tempFile(t, "tclk-offers.jsonl.gz", packed(t, bytes.Repeat(board, 200)))
	k := &keeper{}
	var limit *export.LimitError
	_, err := audit.Scan(t.Context(), []string{demo, long}, audit.ScanOptions{Cores: 2, Limits: export.Limits{DecompressedBytes: 100 * int64(len(board))}}, k)
	if !errors.As(err, &limit) || limit.Path != long {
		t.Errorf("error %v, want a limit", err)
	}
	rows := 0
	for _, e := range k.events {
		if e.Path == long {
			rows++
		}
	}
	if lines := bytes.Count(board, []byte("\n")); rows < 90*lines {
		t.Errorf("%d rows before the limit, want those of 100 × %d", rows, lines)
	}

	for full := 1; full < 20; full++ {
		if _, err := audit.Scan(t.Context(), []string{demo}, audit.ScanOptions{}, &keeper{full: full}); !errors.Is(err, errFull) {
			t.Fatalf("a sink full at %d events: %v", full, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := audit.Scan(ctx, []string{demo}, audit.ScanOptions{}, &keeper{}); !errors.Is(err, context.Canceled) {
		t.Errorf("after the context's end: %v", err)
	}
	if _, err := audit.Scan(t.Context(), []string{"no such file"}, audit.ScanOptions{}, &keeper{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of no file: %v", err)
	}
	// The input is shorter than it was, or another.
	for _, rows := range []int64{1, 1_000_000} {
		_, err := audit.Scan(t.Context(), []string{demo}, audit.ScanOptions{Resume: func(*audit.ScanInput) (audit.Skip, error) {
			return audit.Skip{Rows: rows, Check: func(last []byte) error {
				if (last == nil) != (rows > 1) {
					t.Errorf("the last of %d rows is %q", rows, last)
				}
				return errFull
			}}, nil
		}}, &keeper{})
		if !errors.Is(err, errFull) {
			t.Errorf("a check that fails: %v", err)
		}
	}
}
