package venue

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// indent prints JSON as the venue did up to 0.14.3.
func indent(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(text), "", " "); err != nil {
		t.Fatal(err)
	}
	return append(b.Bytes(), '\n')
}

func TestPages(t *testing.T) {
	page := func(s string) string {
		return `{"room":"x","count":1,"first_seq":4,"last_seq":4,"messages":[` + s + `]}`
	}
	for _, tc := range []struct {
		text string
		kind BodyKind // 0: sound
	}{
		{page(`{"seq":4}`), 0},
		{" \r\n\t" + page(`{"seq":4}`) + "\n", 0},
		{page(`{"se\u0071":4}`), 0},
		{page(`{"seq":4,"b":[true,false]}`), 0},
		{page(`{"seq":4,"nonce":9999999999999999999,"text":"\ud83d\ude00 é"}`), 0},
		{strings.Replace(page(`{"seq":4}`), `"room"`, `"new":{"a":[1,2.5e-3,null]},"room"`, 1), 0},
		{strings.Replace(page(`{"seq":4}`), `"room"`, `"generation":null,"wait_held":null,"room"`, 1), 0},
		{`{"messages":[],"last_seq":18446744073709551615,"first_seq":null,"count":0,"room":"x"}`, 0},

		{``, BodyNotJSON},
		{`null`, BodyNotJSON},
		{`[]`, BodyNotJSON},
		{emptyPage + "{}", BodyNotJSON},
		{emptyPage[:len(emptyPage)-1], BodyNotJSON},
		{strings.Replace(emptyPage, "null", "nul", 1), BodyNotJSON},
		{strings.Replace(emptyPage, "null", "NaN", 1), BodyNotJSON},
		{strings.Replace(emptyPage, ":0", ":00", 1), BodyNotJSON},
		{strings.Replace(emptyPage, ",", ",,", 1), BodyNotJSON},
		{page("{\"seq\":4,\"text\":\"\xff\"}"), BodyNotJSON},
		{page("{\"seq\":4,\"text\":\"a\nb\"}"), BodyNotJSON},
		{page(`{"seq":4,"text":"\x"}`), BodyNotJSON},
		{page(`{"seq":4,"text":"\u00g0"}`), BodyNotJSON},
		{page(`{"seq":4,"text":"`), BodyNotJSON},
		{page(`{"seq":4,"text":"\`), BodyNotJSON},
		{page(`{"seq":4,"n":1.}`), BodyNotJSON},
		{page(`{"seq":4,"n":1e}`), BodyNotJSON},
		{page(`{"seq":4,"n":-}`), BodyNotJSON},
		{page(`{"seq":4,"b":tru}`), BodyNotJSON},
		{page(`{"seq":4,"b":[true,false}`), BodyNotJSON},
		{page(`{"seq" 4}`), BodyNotJSON},
		{page(`{seq:4}`), BodyNotJSON},
		{page(`{"seq":4,}`), BodyNotJSON},
		{page(`{"seq":4,"text":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`), BodyNotJSON},

		{strings.Replace(emptyPage, `"x"`, `"y"`, 1), BodyShape},
		{strings.Replace(emptyPage, `"x"`, `null`, 1), BodyShape},
		{strings.Replace(emptyPage, `"room"`, `"Room"`, 1), BodyShape},
		{strings.Replace(emptyPage, `"count":0,`, ``, 1), BodyShape},
		{strings.Replace(emptyPage, `"first_seq":null,`, ``, 1), BodyShape},
		{strings.Replace(emptyPage, `"last_seq":0,`, ``, 1), BodyShape},
		{strings.Replace(emptyPage, `,"messages":[]`, ``, 1), BodyShape},
		{strings.Replace(emptyPage, `[]`, `null`, 1), BodyShape},
		{strings.Replace(emptyPage, `[]`, `{}`, 1), BodyShape},
		{strings.Replace(emptyPage, `null`, `1`, 1), BodyShape},
		{strings.Replace(emptyPage, `"count":0`, `"count":1`, 1), BodyShape},
		{strings.Replace(emptyPage, `"count":0`, `"count":0.0`, 1), BodyShape},
		{strings.Replace(emptyPage, `"count":0`, `"count":-0`, 1), BodyShape},
		{strings.Replace(emptyPage, `"count":0`, `"count":"0"`, 1), BodyShape},
		{strings.Replace(emptyPage, `"count":0`, `"count":18446744073709551616`, 1), BodyShape},
		{strings.Replace(emptyPage, `"count":0`, `"count":0,"count":0`, 1), BodyShape},
		{strings.Replace(emptyPage, `}`, `,"messages":[]}`, 1), BodyShape},
		{strings.Replace(emptyPage, `}`, `,"generation":1.5}`, 1), BodyShape},
		{strings.Replace(emptyPage, `}`, `,"wait_held":1}`, 1), BodyShape},
		{page(`{"seq":5}`), BodyShape},
		{page(`{"seq":4},{"seq":5}`), BodyShape},
		{page(`4`), BodyShape},
		{page(`{}`), BodyShape},
		{page(`{"seq":"4"}`), BodyShape},
		{page(`{"seq":4.0}`), BodyShape},
		{page(`{"seq":-4}`), BodyShape},
		{page(`{"seq":4,"seq":4}`), BodyShape},
		{page(`{"Seq":4}`), BodyShape},
		{`{"room":"x","count":2,"first_seq":4,"last_seq":4,"messages":[{"seq":4},{"seq":4}]}`, BodyShape},
		{`{"room":"x","count":2,"first_seq":5,"last_seq":4,"messages":[{"seq":5},{"seq":4}]}`, BodyShape},
		{`{"room":"x","count":2,"first_seq":4,"last_seq":9,"messages":[{"seq":4},{"seq":5}]}`, BodyShape},
	} {
		p, kind, what := parsePage([]byte(tc.text), "x")
		if kind != tc.kind || (p == nil) != (kind != 0) || (what == "") != (kind == 0) {
			t.Errorf("%s\n%s %q, not %s", tc.text, kind, what, tc.kind)
		}
	}
}

func TestRawRow(t *testing.T) {
	const row = "{ \"seq\" : 4 ,\n\t\"text\" : \" a \\\" b \\\\\" , \"u\":\"\\u00e9 é <&>\u2028\", \"nonce\": 9999999999999999999 , \"n\": [ 1.50e+3 , { } ] }"
	const want = "{\"seq\":4,\"text\":\" a \\\" b \\\\\",\"u\":\"\\u00e9 é <&>\u2028\",\"nonce\":9999999999999999999,\"n\":[1.50e+3,{}]}"
	p, _, what := parsePage([]byte(`{"room":"x","count":1,"first_seq":4,"last_seq":4,"messages":[ `+row+` ]}`), "x")
	if p == nil || string(p.Rows[0].Raw) != want {
		t.Errorf("%s %+v", what, p)
	}
}

// lenient are the referee's rules: as ours, which leave repeated members to
// those who read them, and lone surrogates to those who decode them. UTF-8 is
// checked apart.
var lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// refereePage is a page as a library reads it.
type refereePage struct {
	rows []string // compact
	json bool
}

func referee(text []byte) (p refereePage) {
	if !jsontext.Value(text).IsValid(lenient...) || jsontext.Value(text).Kind() != '{' {
		return p
	}
	p.json = true
	d := jsontext.NewDecoder(bytes.NewReader(text), lenient...)
	d.ReadToken()
	for d.PeekKind() != '}' {
		name, _ := d.ReadToken()
		if s := name.String(); s != "messages" || d.PeekKind() != '[' {
			d.SkipValue()
			continue
		}
		d.ReadToken()
		for d.PeekKind() != ']' {
			v, _ := d.ReadValue()
			v = v.Clone()
			v.Compact(lenient...)
			p.rows = append(p.rows, string(v))
		}
		d.ReadToken()
	}
	return p
}

func depth(text []byte) (deepest int) {
	n := 0
	for _, c := range text {
		switch c {
		case '{', '[':
			n++
			deepest = max(deepest, n)
		case '}', ']':
			n--
		}
	}
	return deepest
}

func FuzzPage(f *testing.F) {
	for _, c := range captures(f) {
		if strings.HasPrefix(c.path, "/r/") {
			f.Add(c.body)
			if bytes.HasPrefix(c.body, []byte("{")) && bytes.Count(c.body, []byte("\n")) == 1 {
				f.Add(indent(f, string(c.body)))
			}
		}
	}
	f.Add([]byte(emptyPage))
	f.Add([]byte(`{"room":"x","count":1,"first_seq":4,"last_seq":4,"generation":2,"messages":[{"seq":4,"t":"\ud800 \/"}]}`))
	rooms := []string{"x", "gap", "events", "tclk-offers", "mb-p-tclk-fedcba9876543210"}
	f.Fuzz(func(t *testing.T, text []byte) {
		if depth(text) > maxDepth {
			return
		}
		want := referee(text)
		for _, room := range rooms {
			p, kind, what := parsePage(text, room)
			if (kind == 0) != (p != nil) || (what == "") != (p != nil) {
				t.Fatalf("%v %s %q", p, kind, what)
			}
			valid := bytes.Equal(bytes.ToValidUTF8(text, nil), text)
			if (kind == BodyNotJSON) != (!want.json || !valid) {
				t.Fatalf("%s %q, and the referee says JSON: %v", kind, what, want.json)
			}
			if p == nil {
				continue
			}
			if len(p.Rows) != len(want.rows) {
				t.Fatalf("%d rows, and the referee has %d", len(p.Rows), len(want.rows))
			}
			last := uint64(0)
			for i, r := range p.Rows {
				if string(r.Raw) != want.rows[i] {
					t.Fatalf("row %s, and the referee has %s", r.Raw, want.rows[i])
				}
				if seq, ok := lineSeq(r.Raw); !ok || seq != r.Seq || i > 0 && seq <= last {
					t.Fatalf("seq %d of %s", r.Seq, r.Raw)
				}
				last = r.Seq
			}
			if p.LastSeq < last {
				t.Fatalf("%+v", p)
			}
		}
	})
}

func FuzzLine(f *testing.F) {
	f.Add([]byte(`{"seq":99,"ts":"torn`))
	f.Add([]byte(`{"seq":6,"ts":"2026-11-30T16:00:12.077710Z","from":"a","text":"reborn"}`))
	f.Add([]byte(`{"seq":6,"seq":7}`))
	f.Add([]byte(`{"a":{"seq":6}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		if depth(line) > maxDepth {
			return
		}
		seq, ok := lineSeq(line)
		var want []string
		if v := jsontext.Value(line); v.IsValid(lenient...) && v.Kind() == '{' {
			d := jsontext.NewDecoder(bytes.NewReader(line), lenient...)
			d.ReadToken()
			for d.PeekKind() != '}' {
				name, _ := d.ReadToken()
				isSeq := name.String() == "seq"
				value, _ := d.ReadValue()
				if isSeq {
					want = append(want, string(value))
				}
			}
		}
		if ok && (len(want) != 1 || fmt.Sprint(seq) != want[0]) {
			t.Fatalf("seq %d, and the referee has %q", seq, want)
		}
		if !ok && len(want) == 1 && bytes.Equal(bytes.ToValidUTF8(line, nil), line) {
			if _, plain := whole([]byte(want[0])); plain {
				t.Fatalf("no seq, and the referee has %q", want)
			}
		}
	})
}
