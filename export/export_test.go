package export

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tclk-audit/tclk-audit/protocol"
)

// got is a row as a test compares it: parsed, with all that the caller sees.
type got struct {
	Line, Offset, Size int64
	Kind               RowKind
	Bytes              string
	PageRoom           string
	Generation         uint64
}

func (g got) String() string {
	b := g.Bytes
	if len(b) > 60 {
		b = b[:30] + "…" + b[len(b)-28:]
	}
	return strconv.FormatInt(g.Line, 10) + "@" + strconv.FormatInt(g.Offset, 10) + " " + g.Kind.String() + " " +
		strconv.FormatInt(g.Size, 10) + " " + g.PageRoom + "/" + strconv.FormatUint(g.Generation, 10) + " " + strconv.Quote(b)
}

// readAll reads an input to its end.
func readAll(in *Input) (rows []got, pages []Page, sum Summary, err error) {
	r, err := in.Reader()
	if err != nil {
		return nil, nil, Summary{}, err
	}
	var c Chunk
	for {
		err := r.Next(&c)
		if err != nil {
			if len(c.Rows) > 0 || len(c.Pages) > 0 {
				return nil, nil, Summary{}, errors.New("rows together with an error")
			}
			if err == io.EOF {
				err = nil
			}
			return rows, pages, r.Summary(), err
		}
		for _, row := range c.Rows {
			rows = append(rows, got{row.Line, row.Offset, row.Size, row.Kind, string(row.Bytes), row.PageRoom, row.Generation})
		}
		pages = append(pages, c.Pages...)
	}
}

// readText reads a text that is kept in memory.
func readText(t testing.TB, text string, opts Options) ([]got, []Page, Summary) {
	t.Helper()
	in, err := NewInput("test", strings.NewReader(text), opts)
	if err != nil {
		t.Fatal(err)
	}
	rows, pages, sum, err := readAll(in)
	if err != nil {
		t.Fatal(err)
	}
	return rows, pages, sum
}

// parse parses a row as the audit does.
func (g got) parse(rules ParseRules) (Parsed, protocol.Record) {
	raw := RawRow{Bytes: []byte(g.Bytes), Kind: g.Kind, Size: g.Size}
	var scratch []byte
	var rec protocol.Record
	p := raw.Parse(rules, &scratch, &rec)
	return p, rec
}

// corpusFile is one export of the conformance corpus and what the reference
// says of it.
type corpusFile struct {
	path    string
	records int
	bad     []int64
}

func corpus(t testing.TB) []corpusFile {
	t.Helper()
	folders, err := filepath.Glob("../testdata/conformance/corpus/*/expected.json")
	if err != nil || len(folders) == 0 {
		t.Fatalf("no conformance corpus: %v", err)
	}
	var all []corpusFile
	for _, path := range folders {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var expected struct {
			Files map[string]struct {
				Records   int
				Malformed []struct{ Line int64 }
			}
		}
		if err := json.Unmarshal(text, &expected); err != nil {
			t.Fatal(err)
		}
		for name, f := range expected.Files {
			cf := corpusFile{path: filepath.Join(filepath.Dir(path), name), records: f.Records}
			for _, m := range f.Malformed {
				cf.bad = append(cf.bad, m.Line)
			}
			all = append(all, cf)
		}
	}
	return all
}

func TestCorpusAgainstReference(t *testing.T) {
	malformed := 0
	for _, f := range corpus(t) {
		inputs, _, err := Open([]string{f.path}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		rows, _, sum, err := readAll(inputs[0])
		if err != nil {
			t.Fatal(err)
		}
		var bad []int64
		good := 0
		for _, row := range rows {
			if p, _ := row.parse(ReferenceRules()); p.Reason != protocol.ReasonNone {
				bad = append(bad, row.Line)
			} else {
				good++
			}
		}
		if good != f.records || !equal(bad, f.bad) {
			t.Errorf("%s: %d records, malformed lines %v; the reference has %d, %v", f.path, good, bad, f.records, f.bad)
		}
		if sum.Rows+sum.Blank != sum.Lines {
			t.Errorf("%s: %d rows and %d blank lines of %d", f.path, sum.Rows, sum.Blank, sum.Lines)
		}
		malformed += len(bad)
	}
	if malformed == 0 {
		t.Error("the corpus holds no malformed row: this test shows nothing")
	}
}

func equal(a, b []int64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
