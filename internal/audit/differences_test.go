package audit_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/internal/audit"
	"github.com/tclk-audit/tclk-audit/protocol"
)

const (
	differencesPage = "../../docs/differences.md"
	decodeLines     = "../../testdata/conformance/decode.jsonl"
)

// Under the spec's rules the conformance corpus comes out as in the reference,
// except for the differences that the page lists: each of them is there, and
// there is no other.
func TestSpecDiffersFromTheReferenceAsListed(t *testing.T) {
	page := readPage(t)
	var got []string
	for _, dir := range folders(t) {
		got = append(got, corpusDifferences(t, dir)...)
	}
	compareRows(t, page.tables["In the corpus"], got)
	compareRows(t, page.tables["Lines that decode otherwise"], decodeDifferences(t))
}

// Every row names a point, every point is one of the first table, and every
// point that says it is in the corpus is.
func TestDifferencesPage(t *testing.T) {
	page := readPage(t)
	shown := map[string]map[string]bool{}
	for name, rows := range page.tables {
		if name != "In the corpus" && name != "Lines that decode otherwise" {
			continue
		}
		for _, row := range rows {
			point, where := row[len(row)-1], row[0]
			if shown[point] == nil {
				shown[point] = map[string]bool{}
			}
			shown[point][where] = true
		}
	}
	points := append(slices.Clone(page.tables["Under `spec` only"]), page.tables["Under both rule sets"]...)
	if len(points) < 10 {
		t.Fatalf("%d points on the page", len(points))
	}
	folder := regexp.MustCompile(`^\d\d-[a-z0-9-]+$`)
	for _, p := range points {
		id, shownBy := p[0], p[len(p)-1]
		if !strings.Contains(p[len(p)-2], "§") {
			t.Errorf("%s names no section that it follows", id)
		}
		var listed []string
		for _, word := range strings.Fields(strings.ReplaceAll(shownBy, ",", " ")) {
			if folder.MatchString(word) {
				if _, err := os.Stat(filepath.Join(corpus, word)); err != nil {
					t.Errorf("%s: %v", id, err)
				}
				listed = append(listed, word)
			} else if path, _, _ := strings.Cut(word, ":"); strings.Contains(path, "_test.go") {
				src, err := os.ReadFile("../../" + path)
				if err != nil {
					t.Errorf("%s: %v", id, err)
				} else if _, name, ok := strings.Cut(word, ":"); ok && !bytes.Contains(src, []byte("func "+name+"(")) {
					t.Errorf("%s: no test %s in %s", id, name, path)
				}
			}
		}
		for where := range shown[id] {
			if folder.MatchString(where) && !slices.Contains(listed, where) {
				t.Errorf("%s does not say that %s shows it", id, where)
			}
		}
		delete(shown, id)
	}
	for id := range shown {
		t.Errorf("%q is no point of the page", id)
	}
}

// pageTables are the tables of a Markdown page, by the heading above them:
// rows of cells, without back quotes and without the table's own heading.
type pageTables struct{ tables map[string][][]string }

func readPage(t *testing.T) pageTables {
	t.Helper()
	b, err := os.ReadFile(differencesPage)
	if err != nil {
		t.Fatal(err)
	}
	p := pageTables{map[string][][]string{}}
	heading, body := "", false
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "#"):
			heading, body = strings.TrimSpace(strings.TrimLeft(line, "#")), false
		case !strings.HasPrefix(line, "|"):
			body = false
		case strings.HasPrefix(line, "| ---"):
			body = true
		case body:
			var row []string
			for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
				row = append(row, strings.ReplaceAll(strings.TrimSpace(cell), "`", ""))
			}
			p.tables[heading] = append(p.tables[heading], row)
		}
	}
	return p
}

// compareRows holds a table, whose last column is the point, against what was
// found.
func compareRows(t *testing.T, table [][]string, got []string) {
	t.Helper()
	listed := map[string]bool{}
	for _, row := range table {
		line := strings.Join(row[:len(row)-1], " | ")
		if listed[line] {
			t.Errorf("listed twice: %s", line)
		}
		listed[line] = true
	}
	for _, line := range got {
		if !listed[line] {
			t.Errorf("%s does not list: %s", differencesPage, line)
		}
		delete(listed, line)
	}
	for line := range listed {
		t.Errorf("%s lists what is not so: %s", differencesPage, line)
	}
}

// more is what else the reference says of a contract.
type more struct {
	Contracts []struct {
		Contract string `json:"contract"`
		State    *struct {
			PayerDid string `json:"payerDid"`
			PayeeDid string `json:"payeeDid"`
			Rail     string `json:"rail"`
			RailRef  string `json:"railRef"`
		} `json:"state"`
		Outlook *struct {
			Code string `json:"code"`
		} `json:"outlook"`
	} `json:"contracts"`
}

// corpusDifferences says where the spec's answers on one folder of the corpus
// differ from the reference's.
func corpusDifferences(t *testing.T, dir string) (diff []string) {
	t.Helper()
	name := filepath.Base(dir)
	files, err := filepath.Glob(dir + "/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %v, %d files", dir, err, len(files))
	}
	want := readExpected(t, dir)
	var also more
	if b, err := os.ReadFile(filepath.Join(dir, "expected.json")); err != nil {
		t.Fatal(err)
	} else if err := json.Unmarshal(b, &also); err != nil {
		t.Fatal(err)
	}
	r := run(t, fold.Rules{}, files...)
	say := func(subject, where, spec, reference string) {
		diff = append(diff, strings.Join([]string{name, subject, where, spec, reference}, " | "))
	}

	// Rows that cannot be used.
	type line struct {
		file string
		n    int64
	}
	set := map[line]bool{}
	for file, f := range want.Files {
		for _, m := range f.Malformed {
			set[line{file, m.Line}] = true
		}
	}
	for _, m := range r.Malformed {
		l := line{filepath.Base(m.Where.Path), m.Where.Line}
		if !set[l] {
			say(strings.TrimSuffix(l.file, ".jsonl"), fmt.Sprintf("line %d", l.n), "malformed: "+m.Reason.String(), "read")
		}
		delete(set, l)
	}
	for l := range set {
		say(strings.TrimSuffix(l.file, ".jsonl"), fmt.Sprintf("line %d", l.n), "read", "malformed")
	}

	// Offers. The reference counts none; its rules do.
	if spec, ref := offers(r), offers(run(t, fold.Rules{Reference: true}, files...)); spec != ref {
		say("-", "offers", spec, ref)
	}

	listed := map[string]*fold.Contract{}
	for c := range r.Contracts() {
		listed[c.ID.String()] = c
	}
	for i, w := range want.Contracts {
		g := listed[w.Contract]
		delete(listed, w.Contract)
		short := w.Contract[:10]
		if w.Status == nil {
			switch {
			case g == nil:
				say(short, "status", "not listed", "none")
			case g.Status != protocol.StatusNone:
				say(short, "status", g.Status.String(), "none")
			}
			continue
		}
		if g == nil {
			say(short, "status", "not listed", *w.Status)
			continue
		}
		status := g.Status.String()
		if g.Status == protocol.StatusNone {
			status = "none"
		}
		if status != *w.Status {
			say(short, "status", status, *w.Status)
		} else if s := also.Contracts[i].State; s != nil &&
			(g.Rail != s.Rail || g.RailRef != s.RailRef || s.PayeeDid != "" && (g.Payer != s.PayerDid || g.Payee != s.PayeeDid)) {
			say(short, "state", fmt.Sprint(g.Rail, g.RailRef, g.Payer, g.Payee), fmt.Sprint(*s))
		} else if o := also.Contracts[i].Outlook; o != nil && o.Code != g.Outlook.Code {
			say(short, "outlook", g.Outlook.Code, o.Code)
		}

		// Steps. Either side may have some that the other has not.
		next := 0
		for _, s := range g.Steps {
			at := next
			for at < len(w.Steps) && (w.Steps[at].Room != s.Room || w.Steps[at].Seq != s.Seq) {
				at++
			}
			if at == len(w.Steps) {
				say(short, place(s.Room, s.Seq), judged(s.OK, s.Ignored, s.Reason.String()), "no step")
				continue
			}
			for _, x := range w.Steps[next:at] {
				say(short, place(x.Room, x.Seq), "no step", judged(x.OK, x.Ignored, mapped(x.Code, deref(x.Type))[0]))
			}
			x := w.Steps[at]
			next = at + 1
			codes := mapped(x.Code, deref(x.Type))
			if s.OK != x.OK || s.Ignored != x.Ignored || !x.OK && !has(codes, s.Reason.String()) {
				say(short, place(s.Room, s.Seq), judged(s.OK, s.Ignored, s.Reason.String()), judged(x.OK, x.Ignored, codes[0]))
			}
		}
		for _, x := range w.Steps[next:] {
			say(short, place(x.Room, x.Seq), "no step", judged(x.OK, x.Ignored, mapped(x.Code, deref(x.Type))[0]))
		}
	}
	for id, c := range listed {
		say(id[:10], "status", c.Status.String(), "not listed")
	}
	return diff
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func place(room string, seq uint64) string {
	if room != protocol.BoardRoom {
		room = "deal room"
	}
	return fmt.Sprintf("%s %d", room, seq)
}

func judged(ok, ignored bool, code string) string {
	switch {
	case ignored:
		return "ignored"
	case ok:
		return "counts"
	}
	return "refused: " + code
}

func offers(r *audit.Result) string {
	o := r.Summary().Offers
	return fmt.Sprintf("%d: %d bound, %d proposed, %d cancelled, %d expired", o.Total, o.Bound, o.Proposed, o.Cancelled, o.Expired)
}

// decodeDifferences says which lines the spec decodes otherwise than the
// reference.
func decodeDifferences(t *testing.T) (diff []string) {
	t.Helper()
	b, err := os.ReadFile(decodeLines)
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for text := range strings.Lines(string(b)) {
		var w struct {
			Name      string  `json:"name"`
			Line      string  `json:"line"`
			OK        bool    `json:"ok"`
			Code      string  `json:"code"`
			Type      *string `json:"type"`
			Canonical *string `json:"canonical"`
		}
		if err := json.Unmarshal([]byte(text), &w); err != nil {
			t.Fatal(err)
		}
		lines++
		d := protocol.Decode(w.Line, protocol.DecodeRules{})
		ok := d.Frame != nil
		same := ok == w.OK
		if same && ok {
			canonical := protocol.CanonicalLine(d.Frame)
			same = d.Frame.Type().String() == deref(w.Type) && (w.Canonical == nil || *w.Canonical == canonical)
		} else if same {
			same = has(mapped(w.Code, deref(w.Type)), d.Reason.String())
		}
		if !same {
			diff = append(diff, strings.Join([]string{
				w.Name, strings.Replace(judged(ok, false, d.Reason.String()), "counts", "decodes", 1),
				strings.Replace(judged(w.OK, false, mapped(w.Code, deref(w.Type))[0]), "counts", "decodes", 1),
			}, " | "))
		}
	}
	if lines < 300 {
		t.Fatalf("only %d lines to decode", lines)
	}
	return diff
}
