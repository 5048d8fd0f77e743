package export

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tclk-audit/tclk-audit/protocol"
)

// tree writes files, and links where the text begins with "-> ".
func tree(t testing.TB, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, ok := strings.CutPrefix(text, "-> "); ok {
			err = os.Symlink(filepath.FromSlash(target), path)
		} else {
			err = os.WriteFile(path, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// listing writes what Open found, in its order, relative to root.
func listing(root string, inputs []*Input, skipped []Skipped) []string {
	short := func(p string) string {
		return strings.TrimPrefix(strings.TrimPrefix(filepath.ToSlash(p), filepath.ToSlash(root)), "/")
	}
	var out []string
	for _, in := range inputs {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s: %s %s", short(in.Path), in.NameRoom, in.NameRoomFrom)))
	}
	for _, s := range skipped {
		out = append(out, fmt.Sprintf("%s: skipped, %s", short(s.Path), s.Reason))
	}
	return out
}

func TestOpenFolder(t *testing.T) {
	const deal = "mb-p-tclk-0123456789abcdef"
	lines := rowA + "\n" + rowB + "\n"
	tests := []struct {
		name  string
		files map[string]string
		want  []string
	}{
		{"rooms by file", map[string]string{
			"tclk-offers.jsonl": lines, deal + ".jsonl.gz": string(gz([]byte(lines))), "other.json": page, "x.jsonl.zst": string(zst([]byte(lines))),
			"UPPER.JSONL": lines,
		}, []string{"UPPER.JSONL:", deal + ".jsonl.gz: " + deal + " file", "other.json:", "tclk-offers.jsonl: tclk-offers file", "x.jsonl.zst:"}},
		{"rooms by folder", map[string]string{
			"tclk-offers/2026.jsonl": lines, deal + "/rehearsal.json": indent(t, page, " "), "misc/notes.jsonl": lines, "a/b/c/tclk-offers/x.jsonl": lines,
		}, []string{"a/b/c/tclk-offers/x.jsonl: tclk-offers folder", deal + "/rehearsal.json: " + deal + " folder", "misc/notes.jsonl:", "tclk-offers/2026.jsonl: tclk-offers folder"}},
		{"the file's name goes before the folder's", map[string]string{"tclk-offers/" + deal + ".jsonl": lines},
			[]string{"tclk-offers/" + deal + ".jsonl: " + deal + " file"}},
		{"empty rooms are in sight", map[string]string{
			"a.jsonl": "", "b.jsonl": "\n\n", "c.json": none, "d.json": "[]", "e.jsonl.gz": string(gz(nil)), "f.jsonl.gz": "",
		}, []string{"a.jsonl:", "b.jsonl:", "c.json:", "d.json:", "e.jsonl.gz:", "f.jsonl.gz:"}},
		{"other names", map[string]string{
			"readme.txt": "x", "a.jsonl.bak": lines, "a.ndjson": lines, ".json": lines, "a.json.tar": "x", "jsonl": lines, "a.jsonl.gz.gz": "x", "a.jsonl": lines,
		}, []string{"a.jsonl:", ".json: skipped, other-name", "a.json.tar: skipped, other-name", "a.jsonl.bak: skipped, other-name",
			"a.jsonl.gz.gz: skipped, other-name", "a.ndjson: skipped, other-name", "jsonl: skipped, other-name", "readme.txt: skipped, other-name"}},
		{"notes", map[string]string{"kv/tclk-ab/x/rows.jsonl": lines, "x/kv/rows.jsonl": lines, "kv.jsonl": lines},
			[]string{"kv.jsonl:", "kv: skipped, notes", "x/kv: skipped, notes"}},
		{"other JSON", map[string]string{
			"a.json": `{"version":1,"files":{"x":{"seq":1,"ts":"","from":"","text":""}}}`, "b.json": "[1,2,3]", "c.jsonl": `{"rail":"paper"}` + "\n" + `{"rail":"x"}` + "\n",
			"d.json": "null", "e.json": `"text"`, "f.json": indent(t, `{"a":[{"b":1}],"messages":5}`, "  "), "g.json": `{"rooms":[{"room":"x","last_seq":5}]}`,
			"h.json": `[{"type":"offer","from":"did:key:x","nonce":"00"}]`, "i.json": "[[1],{}]",
			"long.json":  `{"a":"` + strings.Repeat("x", 3<<20) + `"}`,
			"long2.json": "{\n \"a\": [\n" + strings.Repeat("  {\"b\": 1},\n", 100_000) + "  1\n ]\n}\n",
			"long3.json": "[" + strings.Repeat("1,", 1<<20) + "1]",
			"cut.json":   `{"a":"` + strings.Repeat("x", 300<<10), "z.jsonl.gz": string(gz([]byte(`{"a":1}`))),
		}, []string{"a.json: skipped, not-rows", "b.json: skipped, not-rows", "c.jsonl: skipped, not-rows", "cut.json: skipped, not-rows", "d.json: skipped, not-rows", "e.json: skipped, not-rows",
			"f.json: skipped, not-rows", "g.json: skipped, not-rows", "h.json: skipped, not-rows", "i.json: skipped, not-rows",
			"long.json: skipped, not-rows", "long2.json: skipped, not-rows", "long3.json: skipped, not-rows", "z.jsonl.gz: skipped, not-rows"}},
		{"rows with faults are rows", map[string]string{
			"a.jsonl": `{"seq":null,"ts":"x","from":"","text":""}` + "\n", "b.jsonl": "{\"seq\":99,\"ts\":\"torn", "c.jsonl": "<html>502</html>",
			"d.jsonl": "garbage\n" + rowA + "\n", "e.jsonl": "null\n{}\n" + rowA + "\n", "f.json": "[null," + rowA + "]", "g.jsonl": `{"ts":"","from":"","text":""}`,
			"h.jsonl": `{"seq":1,"ts":"","text":"` + strings.Repeat("x", 3<<20) + `"}`, "i.json": `{"room":"r","messages":[{"a":1}]}`,
			"j.json": `{"room":"r","messages":[`, "k.jsonl.gz": "\x1f\x8b damaged and long", "l.jsonl": `{"seq":`,
		}, []string{"a.jsonl:", "b.jsonl:", "c.jsonl:", "d.jsonl:", "e.jsonl:", "f.json:", "g.jsonl:", "h.jsonl:", "i.json:", "j.json:", "k.jsonl.gz:", "l.jsonl:"}},
		{"other forms", map[string]string{"a.jsonl.gz": string(gz(gz([]byte(lines)))), "b.jsonl": "PK\x03\x04"},
			[]string{"a.jsonl.gz: skipped, other-form", "b.jsonl: skipped, other-form"}},
		{"links", map[string]string{
			"a.jsonl": "-> data/rows.jsonl", "data/rows.jsonl": lines, "b": "-> data", "tclk-offers.jsonl": "-> elsewhere.txt", "elsewhere.txt": lines,
		}, []string{"a.jsonl:", "tclk-offers.jsonl: tclk-offers file", "data: skipped, already-listed", "elsewhere.txt: skipped, other-name", "b/rows.jsonl: skipped, already-listed"}},
		{"links in a circle", map[string]string{"x/up": "-> ..", "x/self": "-> .", "x/a.jsonl": lines, "y": "-> x"},
			[]string{"x/a.jsonl:", "x/self: skipped, already-listed", "x/up: skipped, already-listed", "y: skipped, already-listed"}},
		{"a link to nowhere without a name for rows", map[string]string{"a.txt": "-> gone", "a.jsonl": lines}, []string{"a.jsonl:", "a.txt: skipped, not-a-file"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			root := tree(t, test.files)
			inputs, skipped, err := Open([]string{root}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			got, want := listing(root, inputs, skipped), test.want
			if test.name == "links" {
				// Links and what they lead to are both there: only the order
				// among the skipped is not the point.
				got, want = sorted(got), sorted(want)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			for _, s := range skipped {
				if s.Detail == "" {
					t.Errorf("%s is skipped without a word", s.Path)
				}
			}
		})
	}
}

func sorted(s []string) []string {
	out := append([]string(nil), s...)
	for i := range out {
		for k := i; k > 0 && out[k] < out[k-1]; k-- {
			out[k], out[k-1] = out[k-1], out[k]
		}
	}
	return out
}

func TestOpenOrder(t *testing.T) {
	root := tree(t, map[string]string{"b/2.jsonl": rowA, "b/10.jsonl": rowA, "b-1/x.jsonl": rowA, "a.jsonl": rowA, "c.jsonl": rowA})
	inputs, _, err := Open([]string{filepath.Join(root, "c.jsonl"), "-", root}, Options{Stdin: strings.NewReader(rowA)})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"c.jsonl:", "-:", "a.jsonl:", "b/10.jsonl:", "b/2.jsonl:", "b-1/x.jsonl:"}
	if diff := cmp.Diff(want, listing(root, inputs, nil)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	rows, _, _, err := readAll(inputs[1])
	if err != nil || sketch(rows) != "1 a1" || inputs[1].Size != -1 {
		t.Errorf("standard input: %s %v", sketch(rows), err)
	}
}

// Files that are named are read whatever they are called and hold.
func TestOpenNamedFiles(t *testing.T) {
	root := tree(t, map[string]string{"rows.txt": rowA + "\n", "other.json": "{\n \"a\": 1\n}\n", "kv/note.jsonl": rowB + "\n", "dump": "[" + rowC + "]"})
	var paths []string
	for _, name := range []string{"rows.txt", "other.json", "kv/note.jsonl", "dump", "rows.txt"} {
		paths = append(paths, filepath.Join(root, name))
	}
	inputs, skipped, err := Open(paths, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(inputs) != 4 || len(skipped) != 1 || skipped[0].Reason != SkipAgain {
		t.Fatal(listing(root, inputs, skipped))
	}
	for i, want := range []string{"1 a1", "1 row-field", "1 b2", "1 c3"} {
		rows, _, _, err := readAll(inputs[i])
		if err != nil || sketch(rows) != want {
			t.Errorf("%s: %s %v, want %s", inputs[i].Path, sketch(rows), err, want)
		}
	}
}

func TestRoomOfName(t *testing.T) {
	const deal = "mb-p-tclk-0123456789abcdef"
	tests := []struct {
		path, room string
		from       RoomFrom
		fallback   string
	}{
		{"/x/tclk-offers.jsonl", "tclk-offers", RoomFromFile, "tclk-offers"},
		{"/x/" + deal + ".jsonl.gz", deal, RoomFromFile, deal},
		{"/x/" + deal + ".JSON.ZST", deal, RoomFromFile, deal},
		{"/x/" + deal, deal, RoomFromFile, deal},
		{"/" + deal + "/rehearsal.json", deal, RoomFromFolder, "rehearsal"},
		{"/" + deal + "/A B.json", deal, RoomFromFolder, deal},
		{"/x/deal_0xc2e1c808.jsonl", "", RoomUnknown, "deal_0xc2e1c808"},
		{"/x/tclk-offers.2026.jsonl", "", RoomUnknown, "x"},
		{"/x/Tclk-Offers.jsonl", "", RoomUnknown, "x"},
		{"/x/mb-p-tclk-0123456789ABCDEF.jsonl", "", RoomUnknown, "x"},
		{"/x/mb-p-tclk-0123456789abcde.jsonl", "", RoomUnknown, "mb-p-tclk-0123456789abcde"},
		{"/X/Y.jsonl", "", RoomUnknown, ""},
		{"/tclk-offers/sub/Y.jsonl", "", RoomUnknown, "sub"},
	}
	for _, test := range tests {
		room, from, fallback := roomOfName(filepath.FromSlash(test.path))
		if room != test.room || from != test.from || fallback != test.fallback {
			t.Errorf("%s: %q %q %q, want %q %q %q", test.path, room, from, fallback, test.room, test.from, test.fallback)
		}
	}
	// The folder counts also where the path does not show it.
	dir := filepath.Join(t.TempDir(), deal)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	if room, from, _ := roomOfName("A.jsonl"); room != deal || from != RoomFromFolder {
		t.Errorf("%q %q", room, from)
	}
}

func TestInputRoom(t *testing.T) {
	in := Input{NameRoom: "tclk-offers", NameRoomFrom: RoomFromFile, FallbackRoom: "tclk-offers"}
	flagged := in
	flagged.opts.Room = "flag-room"
	unnamed := Input{FallbackRoom: "x"}
	tests := []struct {
		in        Input
		row, page string
		room      string
		from      string
	}{
		{flagged, "row-room", "page-room", "flag-room", "flag"},
		{in, "row-room", "page-room", "row-room", "row"},
		{in, "", "page-room", "page-room", "page"},
		{in, "", "", "tclk-offers", "file"},
		{unnamed, "", "", "", ""},
	}
	for _, test := range tests {
		room, from := test.in.Room(test.row, test.page)
		if room != test.room || from.String() != test.from {
			t.Errorf("%q %q, want %q %q", room, from, test.room, test.from)
		}
	}
}

func TestOpenErrors(t *testing.T) {
	root := tree(t, map[string]string{"a.jsonl": rowA, "gone.jsonl": "-> nowhere", "x/loop.jsonl": "-> loop.jsonl"})
	tests := []struct {
		name  string
		paths []string
		opts  Options
		words []string
		is    error
	}{
		{"missing", []string{filepath.Join(root, "nope")}, Options{}, []string{"cannot read", "nope", "check the spelling"}, fs.ErrNotExist},
		{"missing among others", []string{filepath.Join(root, "a.jsonl"), filepath.Join(root, "nope")}, Options{}, []string{"nope"}, fs.ErrNotExist},
		{"a link to nowhere", []string{root}, Options{}, []string{"gone.jsonl", "link"}, fs.ErrNotExist},
		{"a link to itself", []string{filepath.Join(root, "x")}, Options{}, []string{"loop.jsonl"}, nil},
		{"no standard input", []string{"-"}, Options{}, []string{"standard input"}, nil},
		{"standard input twice", []string{"-", "-"}, Options{Stdin: strings.NewReader("")}, []string{"twice"}, nil},
		{"no room", []string{root}, Options{Room: "No Room\x1b[2J"}, []string{"not a room name", "sha256"}, nil},
		{"negative limit", []string{root}, Options{Limits: Limits{LineBytes: -1}}, []string{"negative"}, nil},
	}
	for _, test := range tests {
		inputs, skipped, err := Open(test.paths, test.opts)
		if err == nil || inputs != nil || skipped != nil {
			t.Errorf("%s: no error", test.name)
			continue
		}
		for _, word := range test.words {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %v (want %q)", test.name, err, word)
			}
		}
		if test.is != nil && !errors.Is(err, test.is) {
			t.Errorf("%s: %v is not %v", test.name, err, test.is)
		}
		if strings.ContainsRune(err.Error(), '\x1b') {
			t.Errorf("%s: %q", test.name, err)
		}
	}
}

func TestUnreadableFile(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root reads everything")
	}
	root := tree(t, map[string]string{"a.jsonl": rowA})
	path := filepath.Join(root, "a.jsonl")
	if err := os.Chmod(path, 0); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open([]string{root}, Options{}); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "the right to read it") {
		t.Errorf("%v", err)
	}
}

func TestFileThatVanishes(t *testing.T) {
	root := tree(t, map[string]string{"a.jsonl": rowA})
	inputs, _, err := Open([]string{root}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(inputs[0].Path); err != nil {
		t.Fatal(err)
	}
	if _, err := inputs[0].Reader(); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "cannot open") {
		t.Errorf("%v", err)
	}
}

func TestFolderLimits(t *testing.T) {
	files := map[string]string{}
	for i := range 20 {
		files[fmt.Sprintf("r%02d.jsonl", i)] = rowA
		files[fmt.Sprintf("s%02d.txt", i)] = ""
	}
	root := tree(t, files)
	var limit *LimitError
	if _, _, err := Open([]string{root}, Options{Limits: Limits{Files: 39}}); !errors.As(err, &limit) || limit.Limit != LimitFiles || !strings.Contains(err.Error(), "--max-files") {
		t.Errorf("%v", err)
	}
	if inputs, skipped, err := Open([]string{root}, Options{Limits: Limits{Files: 40}}); err != nil || len(inputs) != 20 || len(skipped) != 20 {
		t.Errorf("%v", err)
	}
	deep := tree(t, map[string]string{strings.Repeat("d/", folderDepth+1) + "a.jsonl": rowA})
	if _, _, err := Open([]string{deep}, Options{}); !errors.As(err, &limit) || limit.Limit != LimitFolders {
		t.Errorf("%v", err)
	}
}

// A pipe or a socket among the files must not be opened: reading it would wait
// for ever.
func TestIrregularFiles(t *testing.T) {
	root := tree(t, map[string]string{"a.jsonl": rowA})
	l, err := net.Listen("unix", filepath.Join(root, "s.jsonl"))
	if err != nil {
		t.Skip("no unix sockets here:", err)
	}
	defer l.Close()
	inputs, skipped, err := Open([]string{root}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"a.jsonl:", "s.jsonl: skipped, not-a-file"}
	if diff := cmp.Diff(want, listing(root, inputs, skipped)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// A named pipe is read, once, without looking at it first.
func TestNamedDevice(t *testing.T) {
	if _, err := os.Stat(os.DevNull); err != nil {
		t.Skip("no null device:", err)
	}
	inputs, _, err := Open([]string{os.DevNull, os.DevNull}, Options{})
	if err != nil || len(inputs) != 2 || inputs[0].Size != -1 {
		t.Fatal(inputs, err)
	}
	if rows, _, sum, err := readAll(inputs[0]); err != nil || len(rows) != 0 || sum.Cut != CutNone {
		t.Errorf("%v %+v %v", rows, sum, err)
	}
}

// Codes go into reports and must not change.
func TestWords(t *testing.T) {
	var got []string
	for f := RoomUnknown; f <= RoomFromName+1; f++ {
		got = append(got, f.String())
	}
	for k := RowNormal; k <= RowTooLong+1; k++ {
		got = append(got, k.String())
	}
	for c := CutNone; c <= CutCompressed+1; c++ {
		got = append(got, c.String())
	}
	for c := Plain; c <= Zstd+1; c++ {
		got = append(got, c.String())
	}
	for s := SkipName; s <= SkipAgain+1; s++ {
		got = append(got, s.String())
	}
	for l := LimitDecompressed; l <= LimitFolders+1; l++ {
		got = append(got, l.String())
	}
	want := []string{
		"", "flag", "row", "page", "file", "folder", "found", "name", "unknown",
		"normal", "torn", "too-long", "unknown",
		"", "no-final-newline", "torn-line", "torn-page", "torn-compression", "unknown",
		"", "gzip", "zstd", "unknown",
		"other-name", "notes", "not-rows", "other-form", "not-a-file", "already-listed", "unknown",
		"decompressed-bytes", "compression-ratio", "page-bytes", "files", "folder-depth", "unknown",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestMessagesAreSafe(t *testing.T) {
	const evil = "a\x1b[2J\nb.jsonl"
	if got, want := (Position{Path: evil, Line: 7}).String(), `"a\x1b[2J\nb.jsonl":7`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for l := LimitDecompressed; l <= LimitFolders+1; l++ {
		if msg := (&LimitError{Path: evil, Limit: l}).Error(); strings.ContainsAny(msg, "\x1b\n") {
			t.Errorf("%q", msg)
		}
	}
	for _, err := range []error{
		&FormError{Path: evil, What: "x", Do: "y"}, &DamagedError{Path: evil, Err: errors.New("x")}, fileError("read", evil, &fs.PathError{Path: evil, Err: fs.ErrNotExist}),
	} {
		if strings.ContainsAny(err.Error(), "\x1b\n") {
			t.Errorf("%q", err)
		}
	}
	if got, want := (Position{Path: "tclk-offers.jsonl", Line: 2}).String(), "tclk-offers.jsonl:2"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// The conformance corpus as a folder of folders: rooms are named by their
// files, and what is expected of them is skipped.
func TestOpenCorpus(t *testing.T) {
	inputs, skipped, err := Open([]string{"../testdata/conformance/corpus"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../testdata/conformance/corpus/*/*.jsonl")
	if err != nil || len(inputs) != len(files) {
		t.Fatalf("%d inputs, want %d, %v", len(inputs), len(files), err)
	}
	for i, in := range inputs {
		if in.Path != files[i] {
			t.Errorf("%s, want %s", in.Path, files[i])
		}
		stem := strings.TrimSuffix(filepath.Base(in.Path), ".jsonl")
		if in.FallbackRoom != stem || stem != "lobby" && (in.NameRoom != stem || in.NameRoomFrom != RoomFromFile) || stem == "lobby" && in.NameRoom != "" {
			t.Errorf("%s: %q %v, else %q", in.Path, in.NameRoom, in.NameRoomFrom, in.FallbackRoom)
		}
	}
	for _, s := range skipped {
		if s.Reason != SkipNotRows || filepath.Ext(s.Path) != ".json" {
			t.Errorf("%+v", s)
		}
	}
	if len(skipped) < 60 {
		t.Errorf("%d skipped", len(skipped))
	}
}

// Real rows from the live venue, where they are at hand.
func TestRealData(t *testing.T) {
	const real = "../../shared/data/real"
	if _, err := os.Stat(real); err != nil {
		t.Skip("no real rows here")
	}
	inputs, skipped, err := Open([]string{real}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"board-2026-09-05/tclk-offers.jsonl: tclk-offers file", "board-2026-09-10/tclk-offers.jsonl: tclk-offers file",
		"deal-0xc2e1c808/deal_0xc2e1c808.jsonl:",
		"rehearsal-swap/mb-p-tclk-57a15be390ad4733/rehearsal.json: mb-p-tclk-57a15be390ad4733 folder",
		"rehearsal-swap/mb-p-tclk-f9b7b56103f8268f/rehearsal.json: mb-p-tclk-f9b7b56103f8268f folder",
		"rehearsal-swap/tclk-offers/rehearsal.jsonl: tclk-offers folder",
		"README.md: skipped, other-name", "golden-vectors.json: skipped, not-rows", "rehearsal-swap/kv: skipped, notes",
	}
	if diff := cmp.Diff(want, listing(real, inputs, skipped)); diff != "" {
		t.Fatalf("-want +got\n%s", diff)
	}
	counts := []int{71, 30, 5, 3, 3, 4}
	for i, in := range inputs {
		rows, pages, sum, err := readAll(in)
		if err != nil || len(rows) != counts[i] || sum.Cut != CutNone {
			t.Errorf("%s: %d rows, want %d, cut %q, %v", in.Path, len(rows), counts[i], sum.Cut, err)
		}
		for _, row := range rows {
			p, rec := row.parse(ParseRules{})
			if p.Reason != protocol.ReasonNone {
				t.Errorf("%s: %v: %s", in.Path, row, p.Detail)
			}
			room, from := in.Room(p.Room, row.PageRoom)
			if !protocol.ValidRoom(room) || i == 2 && from != RoomFromRow || (i == 3 || i == 4) && (from != RoomFromPage || row.Generation != 1) {
				t.Errorf("%s: room %q from %q, generation %d", in.Path, room, from, row.Generation)
			}
			if rec.Seq == 0 || rec.TsMs < 1788000000000 || len(rec.Text) == 0 {
				t.Errorf("%s: %+v", in.Path, rec)
			}
		}
		if want := map[int]int{3: 1, 4: 1}[i]; len(pages) != want {
			t.Errorf("%s: %d pages", in.Path, len(pages))
		}
	}
}
