package export

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tclk-audit/tclk-audit/protocol"
)

// record is a parsed row as forms are compared by it: where it stood and in
// which bytes may differ, what it says may not.
type record struct {
	Rec        protocol.Record
	Room, Page string
	Generation uint64
	Bad        string
	Torn       bool
}

func records(rows []got) []record {
	var out []record
	for _, row := range rows {
		p, rec := row.parse(ParseRules{})
		r := record{Rec: rec, Room: p.Room, Page: row.PageRoom, Generation: row.Generation, Torn: p.Torn}
		if p.Reason != protocol.ReasonNone {
			r.Rec, r.Bad = protocol.Record{}, p.Reason.String()
		}
		out = append(out, r)
	}
	return out
}

const (
	rowA = `{"seq":1,"ts":"2026-09-02T10:00:00Z","from":"a","text":"one"}`
	rowB = `{"seq":2,"ts":"2026-09-02T10:00:01Z","from":"b","text":"two {\"x\":[1,2]} \\"}`
	rowC = `{"from":"c","nonce":3,"seq":3,"sig":"QQ","text":"three","ts":"2026-09-02T10:00:02Z"}`
	page = `{"room":"tclk-offers","count":2,"first_seq":1,"last_seq":2,"generation":4,"messages":[` + rowA + `,` + rowB + `]}`
	none = `{"room":"tclk-offers","count":0,"first_seq":null,"last_seq":0,"generation":0,"messages":[]}`
)

// sketch writes rows in one line each, for tables.
func sketch(rows []got) string {
	var b strings.Builder
	for _, row := range rows {
		p, rec := row.parse(ParseRules{})
		fmt.Fprintf(&b, "%d ", row.Line)
		switch {
		case p.Torn:
			b.WriteString("torn")
		case p.Reason != protocol.ReasonNone:
			b.WriteString(p.Reason.String())
		default:
			fmt.Fprintf(&b, "%s%d", rec.From, rec.Seq)
		}
		if row.PageRoom != "" || row.Generation != 0 {
			fmt.Fprintf(&b, " in %s/%d", row.PageRoom, row.Generation)
		}
		b.WriteString("; ")
	}
	return strings.TrimSuffix(b.String(), "; ")
}

func indent(t testing.TB, text, by string) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(text), "", by); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestForms(t *testing.T) {
	const inPage = "a1 in tclk-offers/4; 1 b2 in tclk-offers/4"
	tests := []struct {
		name, text, want string
		pages            int
		cut              Cut
		blank            int64
	}{
		{name: "nothing"},
		{name: "only blank lines", text: "\n \t\r\n\n", blank: 3},
		{name: "lines", text: rowA + "\n" + rowB + "\n" + rowC + "\n", want: "1 a1; 2 b2; 3 c3"},
		{name: "lines with CR and space", text: rowA + "\r\n" + rowB + " \t\r\n  " + rowC + "\r\n", want: "1 a1; 2 b2; 3 c3"},
		{name: "byte order mark at the start", text: "\uFEFF" + rowA + "\n" + rowB + "\n", want: "1 a1; 2 b2"},
		{name: "byte order mark later", text: rowA + "\n\uFEFF" + rowB + "\n", want: "1 a1; 2 row-not-json"},
		{name: "byte order mark alone", text: "\uFEFF", blank: 1},
		{name: "blank lines between", text: "\n" + rowA + "\n\n \u00a0\u2028\u3000\uFEFF\v\f\n" + rowB + "\n\n", want: "2 a1; 5 b2", blank: 4},
		{name: "lines that only look blank", text: rowA + "\n\u0085\n\u200b\n\x00\n", want: "1 a1; 2 row-not-json; 3 row-not-json; 4 row-not-json"},
		{name: "no final newline", text: rowA + "\n" + rowB, want: "1 a1; 2 b2", cut: CutNewline},
		{name: "no final newline, other order", text: rowA + "\n" + rowC, want: "1 a1; 2 c3", cut: CutNewline},
		{name: "last line torn", text: rowA + "\n" + rowB[:40], want: "1 a1; 2 torn", cut: CutLine},
		{name: "last line torn, other order", text: rowA + "\n" + rowC[:20], want: "1 a1; 2 torn", cut: CutLine},
		{name: "last line no JSON", text: rowA + "\n<html>", want: "1 a1; 2 torn", cut: CutLine},
		{name: "no line end behind spaces", text: rowA + "\n   ", want: "1 a1", blank: 1},
		{name: "fragment in the middle", text: rowA + "\n{\"seq\":99,\"ts\":\"torn\n" + rowB + "\n", want: "1 a1; 2 torn; 3 b2"},
		{name: "lone braces in the middle", text: rowA + "\n{\n" + rowC + "\n{\n{\n" + rowB + "\n", want: "1 a1; 2 torn; 3 c3; 4 torn; 5 torn; 6 b2"},
		{name: "fragments of rows in other order",
			text: "{\"from\":\n" + rowC + "\n{\"from\":\"c\",\n" + rowC + "\n{\"from\"\n" + rowC + "\n{\"from\":\"c\",\"x\":{\"y\":[\n" + rowC + "\n" + rowA + "\n",
			want: "1 torn; 2 c3; 3 torn; 4 c3; 5 torn; 6 c3; 7 torn; 8 c3; 9 a1"},
		{name: "other JSON between", text: rowA + "\nnull\n[]\n1\n\"x\"\n{}\n" + rowB + "\n",
			want: "1 a1; 2 row-not-json; 3 row-not-json; 4 row-not-json; 5 row-not-json; 6 row-field; 7 b2"},
		{name: "garbage first", text: "garbage\n[1]\n" + rowA + "\n", want: "1 row-not-json; 2 row-not-json; 3 a1"},

		{name: "page", text: page + "\n", want: "1 " + inPage, pages: 1},
		{name: "page without final newline", text: page, want: "1 " + inPage, pages: 1},
		{name: "empty page", text: none, pages: 1},
		{name: "page with posted behind", text: strings.TrimSuffix(page, "}") + `,"posted":` + rowB + `}`, want: "1 " + inPage, pages: 1},
		{name: "page without generation", text: `{"room":"r","messages":[` + rowA + `]}`, want: "1 a1 in r/0", pages: 1},
		{name: "page without room", text: `{"messages":[` + rowA + `],"generation":3}`, want: "1 a1 in /3", pages: 1},
		{name: "page with sorted members", text: `{"count":1,"generation":4,"messages":[` + rowA + `],"room":"r"}`, want: "1 a1 in r/4", pages: 1},
		{name: "page with room and generation of other types", text: `{"room":5,"generation":"x","messages":[` + rowA + `]}`, want: "1 a1", pages: 1},
		{name: "page of an escaped room", text: `{"room":"\u0072","messages":[` + rowA + `]}`, want: "1 a1 in r/0", pages: 1},
		{name: "page with other things in messages", text: `{"room":"r","messages":[null,` + rowA + `,5,[` + rowA + `],"x"]}`,
			want: "1 row-not-json in r/0; 1 a1 in r/0; 1 row-not-json in r/0; 1 row-not-json in r/0; 1 row-not-json in r/0", pages: 1},
		{name: "pages on lines", text: page + "\n" + none + "\n" + page + "\n", want: "1 " + inPage + "; 3 a1 in tclk-offers/4; 3 b2 in tclk-offers/4", pages: 3},
		{name: "pages on one line", text: none + page + " " + page, want: "1 " + inPage + "; 1 " + inPage, pages: 3},
		{name: "rows and pages mixed", text: rowC + "\n" + page + "\n" + rowA + "\n\n" + page + "\n",
			want: "1 c3; 2 a1 in tclk-offers/4; 2 b2 in tclk-offers/4; 3 a1; 5 a1 in tclk-offers/4; 5 b2 in tclk-offers/4", pages: 2, blank: 1},
		{name: "indented pages", text: indent(t, page, " ") + "\n" + indent(t, none, "\t") + "\n" + indent(t, page, "") + "\n",
			want: "8 a1 in tclk-offers/4; 14 b2 in tclk-offers/4; 37 a1 in tclk-offers/4; 43 b2 in tclk-offers/4", pages: 3},
		{name: "indented page with CR", text: strings.ReplaceAll(indent(t, page, "  "), "\n", "\r\n"), want: "8 a1 in tclk-offers/4; 14 b2 in tclk-offers/4", pages: 1},
		{name: "indented page behind rows", text: rowC + "\n" + indent(t, page, " ") + "\n" + rowC + "\n", want: "1 c3; 9 a1 in tclk-offers/4; 15 b2 in tclk-offers/4; 23 c3", pages: 1},
		{name: "one row a line in a page", text: `{"room":"r","messages":[` + "\n" + rowA + ",\n" + rowB + "\n]}\n", want: "2 a1 in r/0; 3 b2 in r/0", pages: 1},
		{name: "room twice in a page", text: `{"room":"r","room":"s","messages":[` + rowA + `]}` + "\n" + rowB + "\n", want: "1 duplicate-member; 2 b2"},
		{name: "room again behind the messages", text: `{"room":"r","generation":1,"messages":[` + rowA + `],"room":"s"}` + "\n" + rowB + "\n",
			want: "1 a1 in r/1; 1 row-not-json; 2 b2", pages: 1},
		{name: "messages again", text: `{"room":"r","generation":1,"messages":[` + rowA + `],"messages":[` + rowC + `]}` + "\n" + rowB + "\n",
			want: "1 a1 in r/1; 1 row-not-json; 2 b2", pages: 1},
		{name: "no value behind the messages", text: `{"room":"r","generation":1,"messages":[` + rowA + `],"x":,"y":1}` + "\n" + rowC + "\n",
			want: "1 a1 in r/1; 1 row-not-json; 2 c3", pages: 1},
		{name: "no value before the messages", text: `{"x":,"messages":[` + rowA + `]}` + "\n" + rowC + "\n", want: "1 row-not-json; 2 c3"},
		{name: "page torn and another behind", text: `{"room":"r","messages":[` + rowA + `,{"seq":9,"ts` + "\n" + page + "\n",
			want: "1 a1 in r/0; 1 torn in r/0; 2 a1 in tclk-offers/4; 2 b2 in tclk-offers/4", pages: 2},
		{name: "page torn between tokens and rows behind", text: `{"room":"r","messages":[` + rowA + `,{"seq":9,` + "\n" + rowB + "\n" + rowC + "\n",
			want: "1 a1 in r/0; 1 torn in r/0; 2 b2; 3 c3", pages: 1},
		{name: "page torn behind a row and rows behind", text: `{"room":"r","messages":[` + rowA + "\n" + rowB + "\n" + rowC + "\n",
			want: "1 a1 in r/0; 2 torn in r/0; 2 b2; 3 c3", pages: 1},
		{name: "page with a missing comma", text: `{"room":"r","messages":[` + rowA + rowB + `]}` + "\n" + rowC + "\n",
			want: "1 a1 in r/0; 1 row-not-json; 2 c3", pages: 1},
		{name: "seq before messages is a row", text: `{"seq":1,"messages":[],"ts":"2026-09-02T10:00:00Z","from":"a","text":"one"}` + "\n", want: "1 a1"},
		{name: "page cut in the header", text: rowA + "\n" + `{"room":"r","mess`, want: "1 a1; 2 torn", cut: CutLine},
		{name: "page cut between rows", text: `{"room":"r","messages":[` + rowA + `,`, want: "1 a1 in r/0; 1 torn in r/0", pages: 1, cut: CutPage},
		{name: "page cut in a row", text: `{"room":"r","messages":[` + rowA + `,` + rowB[:30], want: "1 a1 in r/0; 1 torn in r/0", pages: 1, cut: CutPage},
		{name: "page cut behind the rows", text: `{"room":"r","messages":[` + rowA + `]`, want: "1 a1 in r/0; 1 torn in r/0", pages: 1, cut: CutPage},
		{name: "page cut in a trailing member", text: `{"room":"r","messages":[` + rowA + `],"posted":{"se`, want: "1 a1 in r/0; 1 torn in r/0", pages: 1, cut: CutPage},
		{name: "indented page cut in the header", text: "{\n \"room\": \"r\",\n", want: "1 torn", cut: CutPage},

		{name: "array", text: "[" + rowA + "," + rowB + "," + rowC + "]", want: "1 a1; 1 b2; 1 c3"},
		{name: "array, one row a line", text: "[\n" + rowA + ",\n" + rowC + "\n]\n", want: "2 a1; 3 c3"},
		{name: "array, one row a line, first on the first", text: " [" + rowA + ",\n" + rowC + "]\n", want: "1 a1; 2 c3"},
		{name: "indented array", text: indent(t, "["+rowA+","+rowC+"]", "  "), want: "2 a1; 8 c3"},
		{name: "array of pages", text: "[" + page + "," + none + "," + rowC + "," + page + "]", want: "1 " + inPage + "; 1 c3; 1 " + inPage, pages: 3},
		{name: "indented array of pages", text: indent(t, "["+none+","+page+"]", " "), want: "17 a1 in tclk-offers/4; 23 b2 in tclk-offers/4", pages: 2},
		{name: "empty array", text: "[ ]\n"},
		{name: "array of other things", text: `[1,"x",{},[` + rowA + `],` + rowA + `]`, want: "1 row-not-json; 1 row-not-json; 1 row-field; 1 row-not-json; 1 a1"},
		{name: "arrays one behind another", text: "[" + rowA + "]\n[" + rowC + "]\n", want: "1 a1; 2 c3"},
		{name: "array cut", text: "[" + rowA + ",\n", want: "1 a1; 2 torn", cut: CutPage},
		{name: "array cut in a row", text: "[" + rowA + ",\n" + rowC[:50], want: "1 a1; 2 torn", cut: CutPage},
		{name: "array with something behind", text: "[" + rowA + "] x\n" + rowC + "\n", want: "1 a1; 1 row-not-json; 2 c3"},
		{name: "trailing comma in an array", text: "[" + rowA + ",]\n", want: "1 a1; 1 row-not-json"},

		{name: "indented rows", text: indent(t, rowA, " ") + "\n" + indent(t, rowC, " ") + "\n", want: "1 a1; 7 c3"},
		{name: "indented other JSON", text: "{\n \"a\": {\n  \"b\": [\n   {\n    \"c\": 1\n   }\n  ]\n }\n}\n" + rowA + "\n", want: "1 row-field; 10 a1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, chunk := range []int{1, 7, 100, 0} {
				rows, pages, sum := readText(t, test.text, Options{ChunkBytes: chunk})
				if s := sketch(rows); s != test.want {
					t.Errorf("chunks of %d:\n got %s\nwant %s", chunk, s, test.want)
				}
				if len(pages) != test.pages || sum.Cut != test.cut || sum.Blank != test.blank {
					t.Errorf("chunks of %d: %d pages, cut %q, %d blank; want %d, %q, %d", chunk, len(pages), sum.Cut, sum.Blank, test.pages, test.cut, test.blank)
				}
				checkReading(t, test.text, rows, sum)
			}
		})
	}
}

// checkReading checks what holds for every reading of a text.
func checkReading(t rapid.TB, text string, rows []got, sum Summary) {
	t.Helper()
	last := int64(-1)
	for _, row := range rows {
		if row.Offset < last || row.Offset > int64(len(text)) {
			t.Fatalf("offset %d behind %d: %v", row.Offset, last, row)
		}
		last = row.Offset
		if line := 1 + int64(strings.Count(text[:row.Offset], "\n")); row.Line != line {
			t.Fatalf("line %d, want %d: %v", row.Line, line, row)
		}
		if !strings.HasPrefix(text[row.Offset:], row.Bytes) {
			t.Fatalf("not what stands there: %v", row)
		}
		if row.Kind != RowTooLong && row.Size != int64(len(row.Bytes)) {
			t.Fatalf("size: %v", row)
		}
	}
	lines := int64(strings.Count(text, "\n"))
	if text != "" && !strings.HasSuffix(text, "\n") {
		lines++
	}
	digest := sha256.Sum256([]byte(text))
	if sum.Lines != lines || sum.Rows != int64(len(rows)) || sum.SHA256 != hex.EncodeToString(digest[:]) ||
		sum.Bytes != int64(len(text)) || sum.Decompressed != int64(len(text)) || sum.Compression != Plain {
		t.Fatalf("summary %+v of %d lines, %d rows, %d bytes", sum, lines, len(rows), len(text))
	}
}

// forms writes the same rows in every form, and says whether the form keeps
// the page's room.
func forms(t testing.TB, rows []string) map[string]string {
	lines := strings.Join(rows, "\n") + "\n"
	if len(rows) == 0 {
		lines = ""
	}
	all := strings.Join(rows, ",")
	half := len(rows) / 2
	page := func(rows []string) string {
		return `{"room":"r-1","count":` + fmt.Sprint(len(rows)) + `,"first_seq":null,"last_seq":0,"generation":9,"messages":[` + strings.Join(rows, ",") + `]}`
	}
	out := map[string]string{
		"lines":          lines,
		"lines with CR":  strings.ReplaceAll(lines, "\n", "\r\n"),
		"blank lines":    strings.ReplaceAll(lines, "\n", "\n\n \n"),
		"array":          "[" + all + "]",
		"array of lines": "[\n" + strings.Join(rows, ",\n") + "\n]\n",
		"indented array": indent(t, "["+all+"]", "\t"),
		"page":           page(rows),
		"sorted page":    `{"count":0,"generation":9,"messages":[` + all + `],"room":"r-1"}`,
		"pages":          page(rows[:half]) + "\n" + page(rows[half:]) + "\n",
		"pages in a row": page(rows[:half]) + page(nil) + page(rows[half:]),
		"indented pages": indent(t, page(rows[:half]), " ") + "\n" + indent(t, page(rows[half:]), "    ") + "\n",
		"flat page":      indent(t, page(rows), "") + "\n",
		"array of pages": "[" + page(rows[:half]) + "," + page(rows[half:]) + "]",
	}
	var pretty strings.Builder
	for _, row := range rows {
		pretty.WriteString(indent(t, row, "  ") + "\n")
	}
	out["indented rows"] = pretty.String()
	return out
}

// All forms of the same rows give the same records, whatever the size of the
// chunks and however they are compressed.
func TestFormsAgree(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var rows []string
		for range rapid.IntRange(0, 6).Draw(rt, "rows") {
			rows = append(rows, jsonRow(rt))
		}
		chunk := rapid.SampledFrom([]int{1, 3, 64, 500, 4096, 0}).Draw(rt, "chunk")
		var plain []record
		for _, row := range rows {
			plain = append(plain, records([]got{{Bytes: row}})...)
		}
		for name, text := range forms(t, rows) {
			want := plain
			if strings.Contains(name, "page") {
				want = nil
				for _, r := range plain {
					r.Page, r.Generation = "r-1", 9
					want = append(want, r)
				}
			}
			for _, packed := range [][]byte{[]byte(text), gz([]byte(text)), zst([]byte(text))} {
				in, err := NewInput(name, iotest.HalfReader(bytes.NewReader(packed)), Options{ChunkBytes: chunk})
				if err != nil {
					rt.Fatal(err)
				}
				rows, _, sum, err := readAll(in)
				if err != nil {
					rt.Fatal(err)
				}
				if diff := cmp.Diff(want, records(rows)); diff != "" {
					rt.Fatalf("%s (%s), chunks of %d: -want +got\n%s\n%s", name, sum.Compression, chunk, diff, text)
				}
				if sum.Cut != CutNone || sum.Decompressed != int64(len(text)) || sum.Bytes != int64(len(packed)) {
					rt.Fatalf("%s: %+v", name, sum)
				}
			}
		}
	})
}

// A file that was cut off anywhere gives the rows before the cut and, if it
// was not between two rows, a torn row: never a malformed one, never another.
func TestCutAnywhere(t *testing.T) {
	rows := []string{rowA, rowB, rowC, `{"ts":"2026-09-02T10:00:03Z","seq":4,"from":"é","text":"\ud83d\ude00 € {[","x":{"y":[{"z":1}]}}`}
	for name, text := range forms(t, rows) {
		full, _, _ := readText(t, text, Options{})
		want := records(full)
		for n := range len(text) {
			for _, chunk := range []int{5, 0}[n%2:][:1] {
				cut, _, sum := readText(t, text[:n], Options{ChunkBytes: chunk})
				recs := records(cut)
				if len(recs) > 0 && recs[len(recs)-1].Torn {
					recs = recs[:len(recs)-1]
					if sum.Cut == CutNone {
						t.Fatalf("%s cut at %d: torn, but not cut", name, n)
					}
				} else if sum.Cut == CutNone && strings.Contains(name, "array") && n > 0 && len(bytes.TrimSpace([]byte(text[n:]))) > 0 {
					t.Fatalf("%s cut at %d: not noticed", name, n)
				}
				if len(recs) > len(want) {
					t.Fatalf("%s cut at %d: %d rows of %d", name, n, len(recs), len(want))
				}
				for i := range recs {
					// A page cut before its end may not have named its room yet.
					recs[i].Page, recs[i].Generation = want[i].Page, want[i].Generation
					if !cmp.Equal(recs[i], want[i]) {
						t.Fatalf("%s cut at %d: row %d: %s", name, n, i, cmp.Diff(want[i], recs[i]))
					}
				}
			}
		}
	}
}

// Compressed files that break off give the rows before, and say so, also where
// the break falls between two rows.
func TestCutCompressed(t *testing.T) {
	text := boardRows(500)
	for _, packed := range [][]byte{gz([]byte(text)), zst([]byte(text))} {
		for _, n := range []int{1, 2, 3, 5, 9, 30, len(packed) / 2, len(packed) - 1} {
			path := filepath.Join(t.TempDir(), "tclk-offers.jsonl.gz")
			if packed[0] != 0x1f {
				path = filepath.Join(t.TempDir(), "tclk-offers.jsonl.zst")
			}
			if err := os.WriteFile(path, packed[:n], 0o644); err != nil {
				t.Fatal(err)
			}
			inputs, _, err := Open([]string{path}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			rows, _, sum, err := readAll(inputs[0])
			if err != nil {
				t.Fatalf("%s cut at %d: %v", path, n, err)
			}
			digest := sha256.Sum256(packed[:n])
			if sum.Cut != CutCompressed || sum.SHA256 != hex.EncodeToString(digest[:]) {
				t.Errorf("%s cut at %d: %+v", path, n, sum)
			}
			for i, row := range rows {
				if p, rec := row.parse(ParseRules{}); !(p.Torn && i == len(rows)-1) && rec.Seq != uint64(i+1) {
					t.Errorf("%s cut at %d: row %d: %+v", path, n, i, p)
				}
			}
		}
	}
	// An empty file with a compressed name is no empty room.
	path := filepath.Join(t.TempDir(), "tclk-offers.jsonl.gz")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	inputs, _, err := Open([]string{path}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, sum, err := readAll(inputs[0]); err != nil || sum.Cut != CutCompressed {
		t.Errorf("empty .gz: %+v %v", sum, err)
	}
}

func TestCompressedForms(t *testing.T) {
	text := rowA + "\n" + rowB + "\n"
	skippable := "\x50\x2a\x4d\x18\x03\x00\x00\x00abc"
	for name, packed := range map[string]string{
		"two gzip members":   string(gz([]byte(rowA+"\n"))) + string(gz([]byte(rowB+"\n"))),
		"empty gzip member":  string(gz(nil)) + string(gz([]byte(text))),
		"two zstd frames":    string(zst([]byte(rowA+"\n"))) + string(zst([]byte(rowB+"\n"))),
		"skippable frame":    skippable + string(zst([]byte(text))),
		"plain":              text,
		"member in a row":    string(gz([]byte(rowA+"\n"+rowB[:20]))) + string(gz([]byte(rowB[20:]+"\n"))),
		"gzip named as zstd": string(gz([]byte(text))),
	} {
		path := filepath.Join(t.TempDir(), "tclk-offers.jsonl.zst")
		if err := os.WriteFile(path, []byte(packed), 0o644); err != nil {
			t.Fatal(err)
		}
		inputs, _, err := Open([]string{path}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		rows, _, sum, err := readAll(inputs[0])
		if err != nil || sketch(rows) != "1 a1; 2 b2" || sum.Cut != CutNone {
			t.Errorf("%s: %s %+v %v", name, sketch(rows), sum, err)
		}
	}
}

func TestDamagedCompression(t *testing.T) {
	text := boardRows(3000)
	flip := func(b []byte, at int) []byte {
		b = bytes.Clone(b)
		b[at] ^= 0x55
		return b
	}
	packedGz, packedZst := gz([]byte(text)), zst([]byte(text))
	for name, packed := range map[string][]byte{
		"gzip checksum":         flip(packedGz, len(packedGz)-6),
		"gzip middle":           flip(packedGz, len(packedGz)/2),
		"garbage behind gzip":   append(bytes.Clone(packedGz), "garbage and more"...),
		"zstd checksum":         flip(packedZst, len(packedZst)-1),
		"zstd header":           append([]byte(zstdMagic), "garbage and more"...),
		"gzip header":           []byte("\x1f\x8bgarbage and more"),
		"garbage behind a zstd": append(bytes.Clone(packedZst), "garbage"...),
	} {
		in, err := NewInput("x", bytes.NewReader(packed), Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, _, sum, err := readAll(in)
		var damaged *DamagedError
		if !errors.As(err, &damaged) || damaged.Path != "x" || sum.SHA256 != "" {
			t.Errorf("%s: %v, %+v", name, err, sum)
		}
	}
}

func TestOtherForms(t *testing.T) {
	nested := []byte(rowA + "\n")
	for range 10 {
		nested = gz(nested)
	}
	tar := make([]byte, 1024)
	copy(tar, "tclk-offers.jsonl")
	copy(tar[257:], "ustar")
	for what, text := range map[string][]byte{
		"compressed twice": nested,
		"a zip archive":    []byte("PK\x03\x04…"),
		"a tar archive":    gz(tar),
		"UTF-16 text":      []byte("\xff\xfe{\x00"),
	} {
		in, err := NewInput("x", bytes.NewReader(text), Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, _, _, err = readAll(in)
		var form *FormError
		if !errors.As(err, &form) || form.What != what || !strings.Contains(err.Error(), form.Do) {
			t.Errorf("%s: %v", what, err)
		}
	}
	mixed := zst(gz([]byte(rowA + "\n")))
	in, _ := NewInput("x", bytes.NewReader(mixed), Options{})
	var form *FormError
	if _, _, _, err := readAll(in); !errors.As(err, &form) {
		t.Errorf("gzip in zstd: %v", err)
	}
}

// A zstd frame says how much memory it wants. What is over the limit is refused
// before it is given any.
func TestZstdWindow(t *testing.T) {
	// A frame header without content size, window 2^31: exponent 21, mantissa 0.
	frame := zstdMagic + "\x00" + string([]byte{21 << 3}) + strings.Repeat("\x00", 20)
	in, err := NewInput("x", strings.NewReader(frame), Options{})
	if err != nil {
		t.Fatal(err)
	}
	var form *FormError
	if _, _, _, err := readAll(in); !errors.As(err, &form) || !strings.Contains(err.Error(), "128 MiB") {
		t.Errorf("%v", err)
	}
}

func TestLongRows(t *testing.T) {
	long := func(n int) string {
		return `{"seq":9,"ts":"2026-09-02T10:00:00Z","from":"a","text":"` + strings.Repeat("x", n) + `"}`
	}
	fits := long(1000 - len(long(0)))
	limits := Limits{LineBytes: 1000}
	tests := []struct {
		name, text, want string
		size             int64
	}{
		{"fits", fits + "\n" + rowA + "\n", "1 a9; 2 a1", 0},
		{"one byte over", long(1001-len(long(0))) + "\n" + rowA + "\n", "1 row-not-json; 2 a1", 1001},
		{"far over", rowA + "\n" + long(100_000) + "\n" + rowB + "\n", "1 a1; 2 row-not-json; 3 b2", int64(len(long(100_000)))},
		{"no JSON", strings.Repeat("x", 5000) + "\n" + rowA + "\n", "1 row-not-json; 2 a1", 5000},
		{"other order", `{"x":"` + strings.Repeat("x", 5000) + `",` + rowA[1:] + "\n" + rowA + "\n", "1 row-not-json; 2 a1", int64(5000 + 7 + len(rowA))},
		{"last, no line end", rowA + "\n" + long(5000), "1 a1; 2 row-not-json", int64(len(long(5000)))},
		{"in a page", `{"room":"r","generation":1,"messages":[` + rowA + `,` + long(5000) + `,` + rowB + `]}` + "\n" + rowC + "\n",
			"1 a1 in r/1; 1 row-not-json in r/1; 1 b2 in r/1; 2 c3", int64(len(long(5000)))},
		{"in an array", `[` + rowA + `,` + long(5000) + `,` + rowB + `]`, "1 a1; 1 row-not-json; 1 b2", int64(len(long(5000)))},
		{"a long string in an array", `[` + rowA + `,"` + strings.Repeat("x", 4998) + `",` + rowB + `]`, "1 a1; 1 row-not-json; 1 b2", 5000},
		{"in an indented array", "[\n " + rowA + ",\n " + long(5000) + ",\n " + rowB + "\n]\n", "2 a1; 3 row-not-json; 4 b2", int64(len(long(5000)))},
		{"indented other JSON", "{\n \"a\": \"" + strings.Repeat("x", 3000) + "\",\n \"b\": 1\n}\n" + rowA + "\n", "1 row-not-json; 5 a1", int64(len("{\n \"a\": \"\",\n \"b\": 1\n}") + 3000)},
		{"cut in a page", `{"room":"r","generation":1,"messages":[` + long(5000)[:4000], "1 row-not-json in r/1; 1 torn in r/1", 4000},
		{"torn in an indented page", "{\"room\":\"r\",\"generation\":1,\"messages\":[\n" + long(5000)[:4000] + "\n" + rowA + "\n", "2 row-not-json in r/1; 3 a1", 4000},
		{"page header", `{"x":"` + strings.Repeat("x", 5000) + `",` + page[1:] + "\n" + rowA + "\n", "1 row-not-json; 2 a1", int64(5000 + 7 + len(page))},
		{"many spaces are no row", rowA + strings.Repeat(" ", 100) + "\n" + strings.Repeat(" ", 5000) + "\n" + rowB + "\n", "1 a1; 3 b2", 0},
		{"many spaces in an array", "[" + strings.Repeat(" ", 5000) + rowA + strings.Repeat("\n", 5000) + "," + rowB + "]", "1 a1; 5001 b2", 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, chunk := range []int{1, 300, 2000, 1 << 20} {
				rows, _, sum := readText(t, test.text, Options{ChunkBytes: chunk, Limits: limits})
				if s := sketch(rows); s != test.want {
					t.Errorf("chunks of %d:\n got %s\nwant %s", chunk, s, test.want)
				}
				checkReading(t, test.text, rows, sum)
				var size, count int64
				for _, row := range rows {
					if row.Kind == RowTooLong {
						size, count = row.Size, count+1
						if p, _ := row.parse(ParseRules{}); !strings.Contains(p.Detail, fmt.Sprint(size)) || !strings.Contains(p.Detail, "--max-line") {
							t.Error(p.Detail)
						}
					}
				}
				if size != test.size || sum.TooLong != count {
					t.Errorf("chunks of %d: size %d, %d too long, want %d", chunk, size, sum.TooLong, test.size)
				}
			}
		})
	}
}

// repeat is an endless text without the memory for it.
type repeat struct {
	head string
	unit []byte
	n    int64
	tail string
}

func (r *repeat) Read(p []byte) (int, error) {
	switch {
	case r.head != "":
		n := copy(p, r.head)
		r.head = r.head[n:]
		return n, nil
	case r.n > 0:
		n := copy(p[:min(int64(len(p)), r.n)], r.unit)
		r.n -= int64(n)
		return n, nil
	case r.tail != "":
		n := copy(p, r.tail)
		r.tail = r.tail[n:]
		return n, nil
	}
	return 0, io.EOF
}

// A line of a gigabyte, wherever it stands, costs time but no memory.
func TestHugeLine(t *testing.T) {
	size := int64(1 << 30)
	if testing.Short() {
		size = 64 << 20
	}
	unit := bytes.Repeat([]byte("x"), 64<<10)
	for _, test := range []struct{ name, head, tail, want string }{
		{"row", rowA + "\n" + `{"seq":2,"text":"`, "\"}\n" + rowB + "\n", "1 a1; 2 row-not-json; 3 b2"},
		{"element", `{"room":"r","messages":[` + rowA + `,{"seq":2,"text":"`, `"},` + rowB + "]}", "1 a1 in r/0; 1 row-not-json in r/0; 1 b2 in r/0"},
	} {
		in, err := NewInput("x", &repeat{head: test.head, unit: unit, n: size, tail: test.tail}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		rows, _, sum, err := readAll(in)
		runtime.ReadMemStats(&after)
		if err != nil || sketch(rows) != test.want || sum.TooLong != 1 {
			t.Errorf("%s: %s %+v %v", test.name, sketch(rows), sum, err)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 100<<20 {
			t.Errorf("%s: %d MiB allocated", test.name, used>>20)
		}
		size = min(size, 128<<20)
	}
}

// Looking ahead must not make the time grow with the square of the input.
func TestHostileNestingTakesLinearTime(t *testing.T) {
	for _, line := range []string{
		"{\n", " {\n", " {\"a\":[\n", " {\"a\":[{\n", "{\"messages\":[\n", " {\"messages\":[\n", " {\"messages\":[{\"a\":[\n", "{\"messages\":[{\n",
		" {\"a\":1,\n\"b\":[\n", "[", "[\n", "[{\"messages\":[", "{\"messages\":[]}", "{\"a\":\"\\", " \n", "{}", "{\"seq\":",
	} {
		for _, end := range []string{"", "\n{\n", "\n]\n"} {
			took := func(size int) time.Duration {
				text := strings.Repeat(line, size/len(line)) + end
				start := time.Now()
				_, _, _ = readText(t, text, Options{})
				_, _, _ = readText(t, text, Options{ChunkBytes: 64 << 10, Limits: Limits{LineBytes: 64 << 10}})
				return time.Since(start)
			}
			small := min(took(32<<10), took(32<<10), took(32<<10))
			if large := took(256 << 10); large > 40*small && large > 2*time.Second {
				if again := took(256 << 10); again > 40*small {
					t.Errorf("%q: 256 KiB take %v, 32 KiB take %v", line, again, small)
				}
			}
		}
	}
}

// A page whose room stands behind its messages is read ahead, but not without
// end.
func TestLatePageRoom(t *testing.T) {
	rows := strings.TrimSuffix(strings.ReplaceAll(boardRows(200), "\n", ","), ",")
	late := `{"generation":2,"messages":[` + rows + `],"room":"r"}` + "\n" + rowA + "\n"
	for _, chunk := range []int{100, 1 << 20} {
		got, pages, sum := readText(t, late, Options{ChunkBytes: chunk})
		if len(got) != 201 || got[0].PageRoom != "r" || got[199].PageRoom != "r" || got[200].PageRoom != "" || pages[0].Room != "r" {
			t.Errorf("%d rows, pages %v", len(got), pages)
		}
		checkReading(t, late, got, sum)

		in, err := NewInput("x", strings.NewReader(late), Options{ChunkBytes: chunk, Limits: Limits{PageBytes: 50_000}})
		if err != nil {
			t.Fatal(err)
		}
		got, _, _, err = readAll(in)
		var limit *LimitError
		if !errors.As(err, &limit) || limit.Limit != LimitPage || limit.Max != 50_000 || !strings.Contains(err.Error(), "--max-page") {
			t.Errorf("chunks of %d: %v", chunk, err)
		}
		if len(got) != 200 {
			t.Errorf("chunks of %d: %d rows before the error", chunk, len(got))
		}
	}
	// A long page of a venue that knows no generations is no such page.
	old := `{"room":"r","messages":[` + rows + `]}`
	got, _, sum := readText(t, old, Options{ChunkBytes: 1000, Limits: Limits{PageBytes: 50_000}})
	if len(got) != 200 || got[199].PageRoom != "r" {
		t.Errorf("%d rows", len(got))
	}
	checkReading(t, old, got, sum)
}

func TestDecompressionLimits(t *testing.T) {
	bomb := func(mib int) []byte {
		var text bytes.Buffer
		unit := bytes.Repeat([]byte{' '}, 1<<20)
		for range mib {
			text.Write(unit)
		}
		return zst(text.Bytes())
	}
	for _, test := range []struct {
		name   string
		packed []byte
		limits Limits
		want   Limit
		flag   string
	}{
		{"bytes", gz([]byte(boardRows(3000))), Limits{DecompressedBytes: 1 << 20}, LimitDecompressed, "--max-decompressed"},
		{"ratio", bomb(100), Limits{}, LimitRatio, "--max-ratio"},
		{"ratio below the floor", bomb(60), Limits{}, 0, ""},
		{"ratio allowed", bomb(100), Limits{Ratio: 1 << 40}, 0, ""},
		{"bytes allowed", gz([]byte(boardRows(3000))), Limits{}, 0, ""},
	} {
		in, err := NewInput("x", bytes.NewReader(test.packed), Options{Limits: test.limits})
		if err != nil {
			t.Fatal(err)
		}
		rows, _, sum, err := readAll(in)
		var limit *LimitError
		switch {
		case test.want == 0 && err != nil:
			t.Errorf("%s: %v", test.name, err)
		case test.want != 0 && (!errors.As(err, &limit) || limit.Limit != test.want || limit.Path != "x" || !strings.Contains(err.Error(), test.flag)):
			t.Errorf("%s: %v", test.name, err)
		case test.want != 0 && sum.SHA256 != "":
			t.Errorf("%s: a digest of half a file", test.name)
		case test.name == "bytes" && len(rows) == 0:
			t.Errorf("%s: no rows before the limit", test.name)
		}
	}
	// No limit on what is not compressed.
	plain := boardRows(3000)
	rows, _, _ := readText(t, plain, Options{Limits: Limits{DecompressedBytes: 1000}})
	if len(rows) != 3000 {
		t.Errorf("%d rows", len(rows))
	}
}

// Chunk boundaries follow from the text and the chunk size alone, not from how
// the reads fall; and chunks that stay within bounds are reused.
func TestChunksAreDeterministic(t *testing.T) {
	text := boardRows(300) + page + "\n" + boardRows(50)
	shape := func(stream io.Reader) (sizes []int) {
		in, err := NewInput("x", stream, Options{ChunkBytes: 10_000})
		if err != nil {
			t.Fatal(err)
		}
		r, err := in.Reader()
		if err != nil {
			t.Fatal(err)
		}
		var c Chunk
		for {
			err := r.Next(&c)
			if err == io.EOF {
				return sizes
			}
			if err != nil {
				t.Fatal(err)
			}
			sizes = append(sizes, len(c.Rows))
			if cap(c.buf) > 30_000 {
				t.Fatalf("a chunk of %d bytes", cap(c.buf))
			}
		}
	}
	want := shape(strings.NewReader(text))
	if len(want) < 10 {
		t.Fatalf("%d chunks only", len(want))
	}
	for name, stream := range map[string]io.Reader{
		"one byte at a time": iotest.OneByteReader(strings.NewReader(text)),
		"halves":             iotest.HalfReader(strings.NewReader(text)),
		"data with the end":  iotest.DataErrReader(strings.NewReader(text)),
		"gzip":               bytes.NewReader(gz([]byte(text))),
	} {
		if got := shape(stream); !cmp.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func TestReadErrorAfterRows(t *testing.T) {
	broken := errors.New("the disk is on fire")
	for _, text := range []string{rowA + "\n" + rowB + "\n" + rowC[:30], `{"room":"r","messages":[` + rowA + "," + rowB + "," + rowC[:30]} {
		in, err := NewInput("x", io.MultiReader(strings.NewReader(text), iotest.ErrReader(broken)), Options{ChunkBytes: 700})
		if err != nil {
			t.Fatal(err)
		}
		// The first read looks at more than there is: the error comes at once.
		if _, err := in.Reader(); !errors.Is(err, broken) {
			t.Errorf("%v", err)
		}
		padded := strings.Repeat(" ", 1000) + text
		in, err = NewInput("x", io.MultiReader(strings.NewReader(padded), iotest.ErrReader(broken)), Options{ChunkBytes: 700})
		if err != nil {
			t.Fatal(err)
		}
		rows, _, sum, err := readAll(in)
		if !errors.Is(err, broken) || len(rows) != 2 || sum.SHA256 != "" {
			t.Errorf("%s: %v", sketch(rows), err)
		}
		if !strings.Contains(err.Error(), "cannot read x") || !strings.Contains(err.Error(), "try again") {
			t.Errorf("%v", err)
		}
	}
}

func TestReaderLife(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tclk-offers.jsonl")
	text := boardRows(100)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	inputs, _, err := Open([]string{path}, Options{ChunkBytes: 5000})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // a file can be read again
		rows, _, sum, err := readAll(inputs[0])
		if err != nil || len(rows) != 100 || sum.Bytes != int64(len(text)) {
			t.Fatal(len(rows), sum, err)
		}
	}
	r, err := inputs[0].Reader()
	if err != nil {
		t.Fatal(err)
	}
	var c Chunk
	if err := r.Next(&c); err != nil || len(c.Rows) == 0 {
		t.Fatal(err)
	}
	if n := r.Consumed(); n < 2500 || n > int64(len(text)) {
		t.Errorf("%d bytes consumed", n)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if err := r.Next(&c); err == nil || err == io.EOF || len(c.Rows) != 0 {
		t.Errorf("after Close: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	in, err := NewInput("x", strings.NewReader(rowA), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := readAll(in); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Reader(); err == nil {
		t.Error("a stream was read twice")
	}
}

func FuzzReader(f *testing.F) {
	for _, text := range []string{
		page, none + "\n" + rowA + "\n", rowA + "\n" + rowB[:20] + "\n" + rowC, "[" + rowA + ",\n" + rowC + "]", indent(f, page, " "),
		indent(f, "["+page+","+rowC+"]", ""), "{\n\"a\":{\n\"b\":[\n{\"seq\":1}", `{"messages":[1,"x",{"y":[}],"room":"r"}`, "\uFEFF \n\u00a0\n",
		"{\"a\":\n{\"b\":1}\n", "[[],{}]x", `{"room":"r","messages":[],"room":"s"}`,
	} {
		f.Add([]byte(text))
	}
	for _, name := range []string{"54-null-and-odd-rows/tclk-offers.jsonl", "54-null-and-odd-rows/mb-p-tclk-d511e89901258247.jsonl", "01-claimed-hash-payer/tclk-offers.jsonl"} {
		text, err := os.ReadFile("../testdata/conformance/corpus/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if compressionOf(data) != Plain || checkForm("", data) != nil {
			return // another form: its own tests
		}
		checkChunks(t, string(data))
	})
}

// checkChunks reads a text in chunks of several sizes and checks that all give
// the same, and what holds for every reading.
func checkChunks(t rapid.TB, text string) {
	limits := Limits{LineBytes: 200, PageBytes: 300}
	var first []got
	var firstErr error
	var firstSum Summary
	for i, chunk := range []int{1 << 16, 1, 50, 333} {
		in, err := NewInput("x", strings.NewReader(text), Options{ChunkBytes: chunk, Limits: limits})
		if err != nil {
			t.Fatal(err)
		}
		rows, _, sum, err := readAll(in)
		var limit *LimitError
		if err != nil && !errors.As(err, &limit) {
			t.Fatal(err)
		}
		if err == nil {
			checkReading(t, text, rows, sum)
		}
		if i == 0 {
			first, firstErr, firstSum = rows, err, sum
			checkLines(t, text, rows, limits.LineBytes)
		} else if !cmp.Equal(first, rows) || (err == nil) != (firstErr == nil) || err == nil && sum != firstSum {
			t.Fatalf("%q\nchunks of %d: %v %v %+v\nchunks of 65536: %v %v %+v", text, chunk, rows, err, sum, first, firstErr, firstSum)
		}
	}
}

// Any heap of pieces of the forms is read alike in chunks of any size.
func TestPiecesInAnyOrder(t *testing.T) {
	pieces := []string{
		"\n", "\n", " ", ",", `"x":,`, "{", "}", "[", "]", ":", `"`, `\`, `"a"`, "1", "null", "\r\n", "\u00a0", "\xff", "\uFEFF",
		rowA, rowC, rowA + "\n", rowC + "\n", rowA + ",", rowA[:20], rowC[:20], page, none, `{"seq"`, `{"seq":1`,
		`{"room":"r","generation":1,"messages":[`, `{"room":"r","messages":[`, `{"messages":[`, `],"room":"r"}`, `],"posted":{}}`, "]}",
		"[\n", "{\n", "\n]", "\n}", "\n{", `"room":"s",`, `"generation":2,`, `"messages":[`, `"` + strings.Repeat("x", 150) + `"`, strings.Repeat(" ", 120),
	}
	rapid.Check(t, func(t *rapid.T) {
		checkChunks(t, strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 14).Draw(t, "pieces"), ""))
	})
}

// checkLines compares with a splitter of lines, where all lines begin like
// rows of the venue or are blank.
func checkLines(t rapid.TB, text string, rows []got, limit int) {
	var want []string
	for _, line := range strings.SplitAfter(text, "\n") {
		bare := strings.TrimLeft(strings.TrimSuffix(line, "\n"), " \t\r")
		switch {
		case strings.HasPrefix(bare, `{"seq"`):
			if len(bare) > limit {
				return
			}
			want = append(want, strings.TrimRight(bare, " \t\r\n"))
		case bare != "":
			return
		}
	}
	if len(rows) != len(want) {
		t.Fatalf("%d rows, want %d", len(rows), len(want))
	}
	for i := range rows {
		if rows[i].Bytes != want[i] || rows[i].Kind == RowTooLong {
			t.Fatalf("row %d: %v, want %q", i, rows[i], want[i])
		}
	}
}
