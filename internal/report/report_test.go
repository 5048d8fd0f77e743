package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/protocol"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs (-want +got); run with -update if it should:\n%s", path, diff)
	}
}

func render(t *testing.T, form func(io.Writer) error) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := form(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// forms renders one run, and the story of one of its contracts, in every form.
func forms(t *testing.T, run func() *Run, story *fold.Contract, show Show) map[string][]byte {
	t.Helper()
	text := func(r *Run, o TextOptions) []byte {
		return render(t, func(w io.Writer) error { _, err := Text(w, r, o); return err })
	}
	return map[string][]byte{
		"verify.json":   render(t, func(w io.Writer) error { _, err := JSON(w, run(), show); return err }),
		"verify.jsonl":  render(t, func(w io.Writer) error { _, err := JSONL(w, run(), show); return err }),
		"verify.txt":    text(run(), TextOptions{Show: show}),
		"all.txt":       text(run(), TextOptions{Show: show, All: true}),
		"asked.txt":     text(run().asked(story), TextOptions{Show: show}),
		"explain.txt":   render(t, func(w io.Writer) error { return Explain(w, story, ExplainOptions{Show: show, Rules: "spec"}) }),
		"contract.json": render(t, func(w io.Writer) error { return ContractJSON(w, story, show) }),
	}
}

func TestGolden(t *testing.T) {
	for name, out := range forms(t, board, flipped(), Show{}) {
		golden(t, name, out)
	}
	for _, c := range []struct {
		name string
		c    *fold.Contract
	}{{"claimed", claimed()}, {"contradicted", torn()}, {"late-accept", lateAccept()}, {"orphan", orphan()}} {
		golden(t, "explain-"+c.name+".txt", render(t, func(w io.Writer) error {
			return Explain(w, c.c, ExplainOptions{Rules: "spec"})
		}))
	}
	golden(t, "color.txt", render(t, func(w io.Writer) error {
		_, err := Text(w, board(), TextOptions{Color: true, All: true})
		return err
	}))
}

func TestEmptyRun(t *testing.T) {
	empty := func() *Run {
		return &Run{Rules: "spec", Contracts: func(func(*fold.Contract) bool) {}, Exit: func() int { return 0 }}
	}
	s := loadSchema(t)
	out := forms(t, empty, claimed(), Show{})
	if err := s.Check("", string(out["verify.json"])); err != nil {
		t.Error(err)
	}
	if err := s.Check("summary", string(out["verify.jsonl"])); err != nil {
		t.Error(err)
	}
	golden(t, "empty.txt", out["verify.txt"])
}

// TestSchemaHolds validates every JSON form, and that members stand in the
// schema's order and each object is strict JSON.
func TestSchemaHolds(t *testing.T) {
	s := loadSchema(t)
	for _, show := range []Show{{}, {Secrets: true, Text: true}} {
		out := forms(t, board, flipped(), show)
		if err := s.Check("", string(out["verify.json"])); err != nil {
			t.Error(err)
		}
		if err := s.Check("contract", string(out["contract.json"])); err != nil {
			t.Error(err)
		}
		lines := strings.SplitAfter(strings.TrimSuffix(string(out["verify.jsonl"]), "\n"), "\n")
		for _, line := range lines[:len(lines)-1] {
			if err := s.Check("contract", line); err != nil {
				t.Error(err)
			}
		}
		if err := s.Check("summary", lines[len(lines)-1]); err != nil {
			t.Error(err)
		}
		for name, b := range out {
			if strings.HasSuffix(name, ".json") {
				if v := jsontext.Value(b); !v.IsValid() {
					t.Errorf("%s is not strict JSON", name)
				}
			}
		}
	}
}

// TestMembersOfTheInterface holds the members and their order, which no
// version of the schema may change.
func TestMembersOfTheInterface(t *testing.T) {
	out := forms(t, board, claimed(), Show{})
	top := names(t, out["verify.json"], 1)
	if want := []string{"schema", "rules", "inputs", "rows", "frames", "offers", "contracts", "findings", "verdict", "exit"}; !slices.Equal(top, want) {
		t.Errorf("top level has %v, want %v", top, want)
	}
	contract := names(t, out["contract.json"], 1)
	want := strings.Fields(`contract offer room status evidence settlement verdict asOf possible leansOn flips binding
		boundTo chosen shadow outlook payer payee lock amount asset rail railRef presig late steps stepsOmitted receipts findings`)
	if !slices.Equal(contract, want) {
		t.Errorf("a contract has %v, want %v", contract, want)
	}
	for member, want := range map[string]string{
		"inputs":   "path room roomFrom rows sha256 firstSeq lastSeq",
		"rows":     "total authentic repaired unsigned invalid malformed torn duplicate notFrames",
		"frames":   "decoded rejected",
		"decoded":  "offer accept lock reveal refund cancel receipt heartbeat",
		"offers":   "total proposed bound cancelled expired",
		"outlook":  "code msRemaining atMs",
		"steps":    "room seq tsMs type from ok ignored reason detail cascadeOf marginMs record",
		"asOf":     "seq tsMs",
		"findings": "code kind severity contract offer room seq detail",
		"receipts": "room seq tsMs from outcome rail ref record",
	} {
		if got := membersOf(t, out["verify.json"], member); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s has %v, want %s", member, got, want)
		}
	}
}

// names lists the member names at one depth of a JSON text, in order.
func names(t *testing.T, text []byte, depth int) []string {
	t.Helper()
	var out []string
	d := jsontext.NewDecoder(bytes.NewReader(text))
	for {
		tok, err := d.ReadToken()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		kind, n := d.StackIndex(d.StackDepth())
		if d.StackDepth() == depth && kind == '{' && n%2 == 1 && tok.Kind() == '"' {
			out = append(out, tok.String())
		}
	}
}

// membersOf lists the member names of the first object under a name.
func membersOf(t *testing.T, text []byte, name string) []string {
	t.Helper()
	d := jsontext.NewDecoder(bytes.NewReader(text))
	for {
		tok, err := d.ReadToken()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		kind, n := d.StackIndex(d.StackDepth())
		if kind != '{' || n%2 != 1 || tok.Kind() != '"' || tok.String() != name {
			continue
		}
		v, err := d.ReadValue()
		if err != nil {
			t.Fatal(err)
		}
		if v.Kind() == '[' {
			var list []jsontext.Value
			if err := json.Unmarshal(v, &list); err != nil {
				t.Fatal(err)
			}
			if len(list) == 0 {
				continue
			}
			v = list[0]
		}
		if v.Kind() != '{' {
			continue
		}
		return names(t, v, 1)
	}
}

func TestFindingsInInputOrder(t *testing.T) {
	var got struct {
		Findings []struct{ Code, Detail string }
	}
	out := render(t, func(w io.Writer) error { _, err := JSON(w, board(), Show{}); return err })
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	var codes []string
	for _, f := range got.Findings {
		codes = append(codes, f.Code)
	}
	want := []string{
		"room-found", "conflicting-metadata", "gap", "gap", "offer-not-in-sight",
		"no-value-rail", "lock-on-superseded", "wrong-room", "gap",
	}
	if !slices.Equal(codes, want) {
		t.Errorf("findings are %v, want %v", codes, want)
	}
	if last := got.Findings[len(got.Findings)-1].Detail; !strings.HasPrefix(last, "41 more") {
		t.Errorf("the last finding does not say how many were left out: %q", last)
	}
}

func TestVerdictOfARun(t *testing.T) {
	for _, c := range []struct {
		name string
		run  *Run
		want string
	}{
		{"worst of all", board(), `"verdict":"contradicted"`},
		{"asked", board().asked(flipped()), `"verdict":"indeterminate"`},
		{"two", &Run{Contracts: slices.Values([]*fold.Contract{claimed(), lateAccept()}), Exit: func() int { return 0 }}, `"verdict":"open"`},
		{"one", &Run{Contracts: slices.Values([]*fold.Contract{claimed()}), Exit: func() int { return 0 }}, `"verdict":"established"`},
		{"none", &Run{Contracts: func(func(*fold.Contract) bool) {}, Exit: func() int { return 0 }}, `"verdict":null`},
	} {
		out := render(t, func(w io.Writer) error { _, err := JSONL(w, c.run, Show{}); return err })
		if !bytes.Contains(out, []byte(c.want)) {
			t.Errorf("%s: no %s in %s", c.name, c.want, out)
		}
	}
}

// TestSecretsAndTextStayHidden checks what no form may show unless asked.
func TestSecretsAndTextStayHidden(t *testing.T) {
	secret := protocol.ID(*claimed().Steps[3].Secret).String()
	const text = "here is the report"
	for name, out := range forms(t, func() *Run { return board() }, claimed(), Show{}) {
		if bytes.Contains(out, []byte(secret)) || bytes.Contains(out, []byte(text)) {
			t.Errorf("%s shows a secret or a stored line unasked", name)
		}
	}
	for _, form := range []string{"verify.json", "verify.jsonl", "asked.txt", "explain.txt", "contract.json"} {
		if out := forms(t, board, claimed(), Show{Secrets: true})[form]; !bytes.Contains(out, []byte(secret)) {
			t.Errorf("%s does not show the secret that was asked for", form)
		}
		if out := forms(t, board, flipped(), Show{Text: true})[form]; !bytes.Contains(out, []byte(text)) {
			t.Errorf("%s does not show the text that was asked for", form)
		}
	}
}

func TestLongListsAreBounded(t *testing.T) {
	run := board()
	run.Contracts = func(yield func(*fold.Contract) bool) {
		for range 10_000 {
			if !yield(torn()) {
				return
			}
		}
	}
	run.Inputs = slices.Repeat(run.Inputs, 500)
	run.Skipped = slices.Repeat(run.Skipped, 500)
	out := render(t, func(w io.Writer) error { _, err := Text(w, run, TextOptions{}); return err })
	if n := bytes.Count(out, []byte{'\n'}); n > 200 {
		t.Errorf("the view has %d lines", n)
	}
	for _, want := range []string{"and 9,950 more", "and 980 more", "and 480 more skipped", "(10,000 of 10,000)"} {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("no %q", want)
		}
	}
}

// failing fails after some bytes.
type failing struct{ left int }

func (f *failing) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

var errFull = errors.New("no space")

func TestWriteErrors(t *testing.T) {
	many := func(n *int) iter.Seq[*fold.Contract] {
		return func(yield func(*fold.Contract) bool) {
			for *n = 0; *n < 10_000; *n++ {
				if !yield(torn()) {
					return
				}
			}
		}
	}
	for name, form := range map[string]func(io.Writer, *Run) error{
		"json":  func(w io.Writer, r *Run) error { _, err := JSON(w, r, Show{}); return err },
		"jsonl": func(w io.Writer, r *Run) error { _, err := JSONL(w, r, Show{}); return err },
		"all":   func(w io.Writer, r *Run) error { _, err := Text(w, r, TextOptions{All: true}); return err },
	} {
		for _, left := range []int{0, 200_000} {
			run, n := board(), 0
			run.Contracts = many(&n)
			if err := form(&failing{left: left}, run); !errors.Is(err, errFull) {
				t.Errorf("%s: the write error is lost: %v", name, err)
			}
			if n > 9_000 {
				t.Errorf("%s: went on for %d contracts after the write failed", name, n)
			}
		}
	}
	if err := Explain(&failing{}, claimed(), ExplainOptions{}); !errors.Is(err, errFull) {
		t.Errorf("explain: the write error is lost: %v", err)
	}
}

func TestWords(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"paper", "paper"},
		{"escrow:7_a.B-9", "escrow:7_a.B-9"},
		{strings.Repeat("a", 66), strings.Repeat("a", 66)},
		{strings.Repeat("a", 67), "text(67 bytes, sha256 6116c09f...)"},
		{"", "text(0 bytes, sha256 e3b0c442...)"},
		{"a b", "text(3 bytes, sha256 c8687a08...)"},
		{"\x1b[31m", "text(5 bytes, sha256 83a73878...)"},
		{"<b>", "text(3 bytes, sha256 507ca5a2...)"},
	} {
		if got := word(c.in); got != c.want {
			t.Errorf("word(%q) = %q, want %q", c.in, got, c.want)
		}
	}
}

func TestSpans(t *testing.T) {
	for _, c := range []struct {
		ms   int64
		want string
	}{
		{0, "0 ms"},
		{999, "999 ms"},
		{1_000, "1 s (1,000 ms)"},
		{4_200, "4.2 s (4,200 ms)"},
		{59_999, "59.999 s (59,999 ms)"},
		{60_000, "1 min (60,000 ms)"},
		{61_000, "1 min 1 s (61,000 ms)"},
		{3_600_000, "1 h (3,600,000 ms)"},
		{5_000_000, "1 h 23 min (5,000,000 ms)"},
		{86_400_000, "1 d (86,400,000 ms)"},
		{90_000_000, "1 d 1 h (90,000,000 ms)"},
		{1<<53 - 1, "104,249,991 d 8 h (9,007,199,254,740,991 ms)"},
	} {
		if got := span(c.ms); got != c.want {
			t.Errorf("span(%d) = %q, want %q", c.ms, got, c.want)
		}
	}
}

// BenchmarkJSONL says what one contract costs as a line.
func BenchmarkJSONL(b *testing.B) {
	c := claimed()
	buf := AppendContractLine(nil, c, Show{})
	b.SetBytes(int64(len(buf)))
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendContractLine(buf[:0], c, Show{})
	}
}
