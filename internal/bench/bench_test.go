package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tclk-audit/tclk-audit/export"
	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/verify"
)

// TestMain lets the test program be a baseline, as the benchmark itself is, and
// a program that takes much memory.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "hog" {
		var held [][]byte
		for range 200 {
			held = append(held, bytes.Repeat([]byte{1}, 8<<20))
			time.Sleep(5 * time.Millisecond)
		}
		fmt.Println(len(held), held[0][0])
		return
	}
	if len(os.Args) > 1 {
		if run, ok := baselines[os.Args[1]]; ok {
			if err := run(os.Args[2:], os.Stdout); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			return
		}
	}
	os.Exit(m.Run())
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		in   []float64
		want float64
	}{
		{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 1, 2, 100}, 3},
	} {
		before := slices.Clone(c.in)
		if got := median(c.in); got != c.want {
			t.Errorf("median(%v) = %v, want %v", c.in, got, c.want)
		}
		if !slices.Equal(before, c.in) {
			t.Errorf("median changed its argument: %v", c.in)
		}
	}
}

// The ratio is that of the pairs: a machine that gets slower changes both sides
// of a pair, and the ratio of the medians would not be the same.
func TestRatioIsOfPairs(t *testing.T) {
	r := ratioOf([]float64{10, 40, 9}, []float64{20, 50, 10})
	if got, want := r.String(), "0.80 (0.50-0.90)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := ratioOf([]float64{1, 2}, []float64{0, -1}).String(); got != "-" {
		t.Errorf("a ratio to nothing is %s", got)
	}
	if got := ratioOf([]float64{1, 2}, []float64{0, 4}).String(); got != "0.50 (0.50-0.50)" {
		t.Errorf("a pair without a quotient counts: %s", got)
	}
}

func TestPerRowTakesTheStartOff(t *testing.T) {
	run := series{{wall: 1100 * time.Millisecond, cpu: 2 * time.Second}, {wall: 600 * time.Millisecond}}
	empty := series{{wall: 100 * time.Millisecond, cpu: time.Second}, {wall: 100 * time.Millisecond}}
	if got := perRow(run, empty, 1000, wall); !near(got, []float64{1e-3, 0.5e-3}) {
		t.Errorf("wall: %v", got)
	}
	if got := perRow(run, empty, 1000, cpu); !near(got[:1], []float64{1e-3}) {
		t.Errorf("cpu: %v", got)
	}
}

func near(got, want []float64) bool {
	return slices.EqualFunc(got, want, func(a, b float64) bool { return a-b < 1e-12 && b-a < 1e-12 })
}

func TestMean(t *testing.T) {
	m := mean([]sample{
		{wall: time.Second, cpu: 4 * time.Second, rss: 10, others: 0.25},
		{wall: 3 * time.Second, cpu: 2 * time.Second, rss: 30, others: 0.75, exit: 1},
	})
	want := sample{wall: 2 * time.Second, cpu: 3 * time.Second, rss: 30, others: 0.5, exit: 1}
	if m != want {
		t.Errorf("got %+v, want %+v", m, want)
	}
}

func TestParseOnly(t *testing.T) {
	all, err := parseOnly("", false)
	if err != nil || all["hostile"] || !all["floor"] || !all["memory"] {
		t.Errorf("by default: %v, %v", all, err)
	}
	if all, _ = parseOnly("", true); !all["hostile"] || !all["flat"] {
		t.Errorf("with -hostile: %v", all)
	}
	some, err := parseOnly(" bad, cores ", false)
	if err != nil || len(some) != 2 || !some["bad"] || !some["cores"] {
		t.Errorf("two: %v, %v", some, err)
	}
	if _, err := parseOnly("floor,speed", false); err == nil || !strings.Contains(err.Error(), "memory") {
		t.Errorf("an unknown section: %v", err)
	}
}

func TestFlags(t *testing.T) {
	for _, c := range []struct {
		args  string
		rows  int64
		pairs int
		ok    bool
	}{
		{"", 1_000_000, 5, true},
		{"-quick", 100_000, 3, true},
		{"-quick -pairs 7", 100_000, 7, true},
		{"-quick -rows 5000", 5000, 3, true},
		{"-rows 0", 0, 0, false},
		{"-pairs 0", 0, 0, false},
		{"-only nothing", 0, 0, false},
		{"floor", 0, 0, false},
	} {
		got, err := parseFlags(strings.Fields(c.args), io.Discard)
		if (err == nil) != c.ok || c.ok && (got.rows != c.rows || got.pairs != c.pairs) {
			t.Errorf("%q: %+v, %v", c.args, got, err)
		}
	}
}

func TestParseBusy(t *testing.T) {
	got, ok := parseBusy("cpu  100 20 30 4000 500 6 7 8 900 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n")
	if want := 1710 * time.Millisecond; !ok || got != want {
		t.Errorf("got %v, %v, want %v", got, ok, want)
	}
	for _, bad := range []string{"", "cpu 1 2", "cpu0 1 2 3 4 5 6 7 8", "cpu a 2 3 4 5 6 7 8"} {
		if _, ok := parseBusy(bad); ok {
			t.Errorf("%q was understood", bad)
		}
	}
}

func TestPrintable(t *testing.T) {
	if got := printable("  a\x1b[2Jb\u202e é", 100); got != "a?[2Jb? ?" {
		t.Errorf("got %q", got)
	}
	if got := printable(strings.Repeat("x", 50), 10); got != "xxxxxxxxxx..." {
		t.Errorf("got %q", got)
	}
}

func TestLastLine(t *testing.T) {
	for _, c := range []struct {
		writes []string
		want   string
	}{
		{nil, ""}, {[]string{"a\nb\n"}, "b"}, {[]string{"a\nb"}, "b"}, {[]string{"a", "b\n", "c", "d", "\n"}, "cd"}, {[]string{"a\n", "\n"}, ""},
	} {
		var l lastLine
		for _, w := range c.writes {
			if n, err := l.Write([]byte(w)); n != len(w) || err != nil {
				t.Fatal(n, err)
			}
		}
		if got := string(l.line()); got != c.want {
			t.Errorf("%q: last line %q, want %q", c.writes, got, c.want)
		}
	}
}

func TestSummaryMustMatchTheCorpus(t *testing.T) {
	line := []byte(`{"schema":"tclk-audit.verify-summary/1","rows":{"total":10,"authentic":9}}`)
	if err := checkSummary(line, &corpus{rows: 10, signed: 9}); err != nil {
		t.Error(err)
	}
	for _, c := range []corpus{{rows: 11, signed: 9}, {rows: 10, signed: 10}} {
		if checkSummary(line, &c) == nil {
			t.Errorf("%+v matches", c)
		}
	}
	if checkSummary([]byte(`{"contract":"0x"}`), &corpus{}) == nil {
		t.Error("a contract is taken for a summary")
	}
	check := checkRows(5, 5)
	if err := check("5 rows, 5 signed, 3 distinct, 0.01 s\n"); err != nil {
		t.Error(err)
	}
	for _, other := range []string{"", "5 rows, 4 signed", "4 rows, 5 signed"} {
		if check(other) == nil {
			t.Errorf("%q is right", other)
		}
	}
}

// writeBoard writes rows of the board, every third with a signature that does
// not hold.
func writeBoard(t *testing.T, rows int) string {
	t.Helper()
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	var out bytes.Buffer
	for i := range rows {
		r := protocol.Record{Room: protocol.BoardRoom, Nonce: fmt.Append(nil, 1000+i), Text: fmt.Appendf(nil, `say "%d"`, i)}
		verify.Sign(key, &r)
		text := string(r.Text)
		if i%3 == 0 {
			text += "!"
		}
		line, err := json.Marshal(map[string]any{
			"seq": i + 1, "ts": "2026-09-05T09:20:00Z", "from": string(r.From), "text": text,
			"nonce": json.Number(r.Nonce), "sig": string(r.Sig),
		})
		if err != nil {
			t.Fatal(err)
		}
		out.Write(append(line, '\n'))
	}
	path := filepath.Join(t.TempDir(), "tclk-offers.jsonl")
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestBaselines runs both baselines as the benchmark does: as processes, whose
// answers are checked.
func TestBaselines(t *testing.T) {
	path := writeBoard(t, 2500)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	got, err := rounds(t.Context(), 2,
		contender{name: "a", argv: []string{self, standIn, "-cores", "2", path}, check: checkRows(2500, 1666)},
		contender{name: "b", argv: []string{self, singly, path}, check: checkRows(2500, 1666), repeat: 2},
	)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		s := got[name]
		if len(s) != 2 || s.wall() <= 0 || s.cpu() <= 0 {
			t.Errorf("%s: %+v", name, s)
		}
		if runtime.GOOS == "linux" && s.rss() < 1e6 {
			t.Errorf("%s: peak of %v bytes", name, s.rss())
		}
	}
	wrong := contender{name: "a", argv: []string{self, singly, path}, check: checkRows(2500, 2500)}
	if _, err := rounds(t.Context(), 1, wrong); err == nil {
		t.Error("a baseline that found bad signatures passes for one that found none")
	}
	missing := contender{name: "a", argv: []string{self, singly, path + "x"}}
	if _, err := rounds(t.Context(), 1, missing); err == nil || !strings.Contains(err.Error(), "exit code 1") {
		t.Errorf("a baseline without its file: %v", err)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells how much memory another process holds")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s, _, err := measureUpTo(t.Context(), 64<<20, []string{self, "hog"}, nil)
	if !errors.Is(err, errMemory) || s.exit != -1 {
		t.Errorf("1.6 GB in 64 MB: %+v, %v", s, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, _, err := measure(ctx, []string{self, "hog"}, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("out of time: %v", err)
	}
}

// TestHostileFiles holds that the hostile files are what their names say.
func TestHostileFiles(t *testing.T) {
	var buf bytes.Buffer
	if err := longLine(100_000)(&buf); err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(buf.String(), "\n")
	if len(lines) != 3 || len(lines[0]) < 100_000 || lines[1] != goodRow {
		t.Errorf("%d lines", len(lines))
	}
	for _, line := range lines[:2] {
		var rec protocol.Record
		var scratch []byte
		if _, reason, detail := export.ParseRow([]byte(line), export.ParseRules{}, &scratch, &rec); reason != protocol.ReasonNone {
			t.Errorf("not a row: %v, %s", reason, detail)
		}
	}

	for _, within := range []bool{false, true} {
		buf.Reset()
		if err := deep(500, within)(&buf); err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(buf.String(), "\n")
		if !json.Valid([]byte(first)) || !strings.Contains(first, strings.Repeat("[", 500)+"]") {
			t.Errorf("within a row %v: not 500 arrays", within)
		}
	}

	buf.Reset()
	if err := bomb(10, oneRow(1e6))(&buf); err != nil {
		t.Fatal(err)
	}
	if buf.Len() > 10_000 {
		t.Errorf("the bomb has %d bytes", buf.Len())
	}
	var r io.Reader = &buf
	for range 10 {
		z, err := gzip.NewReader(r)
		if err != nil {
			t.Fatal(err)
		}
		r = z
	}
	text, err := io.ReadAll(r)
	if err != nil || len(text) < 900_000 || !strings.HasPrefix(string(text), goodRow) {
		t.Errorf("%d bytes within, %v", len(text), err)
	}
}

func TestLongRows(t *testing.T) {
	var buf bytes.Buffer
	if err := bomb(1, longRows(4e6))(&buf); err != nil {
		t.Fatal(err)
	}
	stored := buf.Len()
	z, err := gzip.NewReader(&buf)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	rows := bytes.SplitAfter(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
	if len(rows) != 4 {
		t.Errorf("%d rows", len(rows))
	}
	seen := map[string]bool{}
	for _, row := range rows {
		var rec protocol.Record
		var scratch []byte
		if _, reason, detail := export.ParseRow(row, export.ParseRules{}, &scratch, &rec); reason != protocol.ReasonNone || len(rec.Text) < 800_000 || len(row) > 1<<20 {
			t.Errorf("a row of %d bytes: %v, %s", len(row), reason, detail)
		}
		seen[string(rec.Text)] = true
	}
	if ratio := len(text) / stored; len(seen) != len(rows) || ratio < 100 || ratio >= 1000 {
		t.Errorf("%d texts, packed %d times smaller", len(seen), ratio)
	}
}

func TestKeptCorpusIsUsed(t *testing.T) {
	dir := t.TempDir()
	b := &bench{config: config{program: filepath.Join(dir, "no such program")}, out: io.Discard, corpora: dir}
	if _, err := b.corpus(t.Context(), "board"); err == nil {
		t.Error("a board came of nothing")
	}
	if err := os.Mkdir(filepath.Join(dir, "board"), 0o700); err != nil {
		t.Fatal(err)
	}
	manifest := `{"stats":{"rows":7,"boardRows":5,"offers":3,"contracts":2},"rows":{"authentic":4}}`
	if err := os.WriteFile(filepath.Join(dir, "board", "manifest.json"), []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := b.corpus(t.Context(), "board")
	if err != nil || c.rows != 5 || c.all != 7 || c.offers != 3 || c.deals != 2 || c.signed != 4 {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestAnswer(t *testing.T) {
	got := answer("a bomb", "\n  rules   spec\n  rows    1 row\n  frames  none\n", "tclk-audit: warning\nhint\n")
	if want := "a bomb:\n    rules   spec\n    rows    1 row\n    tclk-audit: warning"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := answer("a bomb", "", "tclk-audit: gzip within gzip\n"); got != "a bomb:\n    tclk-audit: gzip within gzip" {
		t.Errorf("got %q", got)
	}
}
