package export

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tclk-audit/tclk-audit/protocol"
)

func TestParseRowFields(t *testing.T) {
	const ok = `"ts":"2026-09-02T10:00:00.471972Z","from":"alice","text":"hi"`
	const ms = 1788343200471
	base := protocol.Record{Seq: 7, TsMs: ms, From: []byte("alice"), Text: []byte("hi")}
	with := func(f func(*protocol.Record)) *protocol.Record {
		r := base
		f(&r)
		return &r
	}
	nonce := func(s string) *protocol.Record { return with(func(r *protocol.Record) { r.Nonce = []byte(s) }) }
	text := func(s string) *protocol.Record { return with(func(r *protocol.Record) { r.Text = []byte(s) }) }

	tests := []struct {
		name   string
		row    string
		want   *protocol.Record // nil: malformed
		room   string
		reason protocol.Reason
		// reference is set where the reference reads the row otherwise.
		reference *protocol.Record
	}{
		{name: "plain", row: `{"seq":7,` + ok + `}`, want: &base},
		{name: "any order, spaces, line ends", row: " { \"text\" : \"hi\" ,\n\"from\":\"alice\",\t\"seq\":7,\r\n\"ts\":\"2026-09-02T10:00:00.471Z\" } \r", want: &base},
		{name: "unknown members", row: `{"seq":7,` + ok + `,"_from":"x","a":{"b":[1,{"c":null}]}}`, want: &base},
		{name: "name with an escape", row: `{"s\u0065q":7,` + ok + `}`, want: &base},

		{name: "seq 1.0", row: `{"seq":7.0,` + ok + `}`, want: &base},
		{name: "seq 70e-1", row: `{"seq":70e-1,` + ok + `}`, want: &base},
		{name: "seq -0", row: `{"seq":-0,` + ok + `}`, want: with(func(r *protocol.Record) { r.Seq = 0 })},
		{name: "seq greatest", row: `{"seq":9007199254740991,` + ok + `}`, want: with(func(r *protocol.Record) { r.Seq = 9007199254740991 })},
		{name: "seq nearly 7", row: `{"seq":7.00000000000000000001,` + ok + `}`, reason: protocol.RowField, reference: &base},
		{name: "seq too large", row: `{"seq":9007199254740992,` + ok + `}`, reason: protocol.RowField},
		{name: "seq negative", row: `{"seq":-1,` + ok + `}`, reason: protocol.RowField},
		{name: "seq a fraction", row: `{"seq":3.5,` + ok + `}`, reason: protocol.RowField},
		{name: "seq a string", row: `{"seq":"7",` + ok + `}`, reason: protocol.RowField},
		{name: "seq null", row: `{"seq":null,` + ok + `}`, reason: protocol.RowField},
		{name: "seq missing", row: `{` + ok + `}`, reason: protocol.RowField},
		{name: "Seq is not seq", row: `{"Seq":7,` + ok + `}`, reason: protocol.RowField},
		{name: "seq 07", row: `{"seq":07,` + ok + `}`, reason: protocol.RowNotJSON},
		{name: "seq +7", row: `{"seq":+7,` + ok + `}`, reason: protocol.RowNotJSON},
		{name: "seq NaN", row: `{"seq":NaN,` + ok + `}`, reason: protocol.RowNotJSON},

		{name: "ts missing", row: `{"seq":7,"from":"alice","text":"hi"}`, reason: protocol.RowTime},
		{name: "ts null", row: `{"seq":7,"ts":null,"from":"alice","text":"hi"}`, reason: protocol.RowTime},
		{name: "ts number", row: `{"seq":7,"ts":1788343200471,"from":"alice","text":"hi"}`, reason: protocol.RowTime},
		{name: "ts with a line end", row: `{"seq":7,"ts":"2026-09-02T10:00:00.471Z\n","from":"alice","text":"hi"}`, reason: protocol.RowTime},
		{name: "ts spelled with escapes", row: `{"seq":7,"ts":"2026-09-02\u005410:00:00.471Z","from":"alice","text":"hi"}`, want: &base},
		{name: "ts 30 February", row: `{"seq":7,"ts":"2027-02-30T00:00:00Z","from":"alice","text":"hi"}`, reason: protocol.RowTime,
			reference: with(func(r *protocol.Record) { r.TsMs = 1803945600000 })},

		{name: "from missing", row: `{"seq":7,"ts":"2026-09-02T10:00:00.471Z","text":"hi"}`, reason: protocol.RowField},
		{name: "from null", row: `{"seq":7,"ts":"2026-09-02T10:00:00.471Z","from":null,"text":"hi"}`, reason: protocol.RowField},
		{name: "from empty", row: `{"seq":7,"ts":"2026-09-02T10:00:00.471Z","from":"","text":"hi"}`, want: with(func(r *protocol.Record) { r.From = []byte{} })},
		{name: "text missing", row: `{"seq":7,"ts":"2026-09-02T10:00:00.471Z","from":"alice"}`, reason: protocol.RowField},
		{name: "text object", row: `{"seq":7,"ts":"2026-09-02T10:00:00.471Z","from":"alice","text":{}}`, reason: protocol.RowField},
		{name: "text empty", row: `{"seq":7,"ts":"2026-09-02T10:00:00.471Z","from":"alice","text":""}`, want: text("")},

		{name: "nonce number", row: `{"seq":7,` + ok + `,"nonce":9999999999999999999}`, want: nonce("9999999999999999999")},
		{name: "nonce above 2^53 keeps its digits", row: `{"seq":7,` + ok + `,"nonce":9007199254740993}`, want: nonce("9007199254740993")},
		{name: "nonce of forty digits", row: `{"seq":7,` + ok + `,"nonce":9999999999999999999999999999999999999999}`, want: nonce("9999999999999999999999999999999999999999")},
		{name: "nonce 1e3", row: `{"seq":7,` + ok + `,"nonce":1e3}`, want: nonce("1e3")},
		{name: "nonce 7.0", row: `{"seq":7,` + ok + `,"nonce":7.0}`, want: nonce("7.0")},
		{name: "nonce -0", row: `{"seq":7,` + ok + `,"nonce":-0}`, want: nonce("-0")},
		{name: "nonce string", row: `{"seq":7,` + ok + `,"nonce":"0007"}`, want: nonce("0007")},
		{name: "nonce empty string is there", row: `{"seq":7,` + ok + `,"nonce":""}`, want: nonce("")},
		{name: "nonce null is absent", row: `{"seq":7,` + ok + `,"nonce":null,"sig":null}`, want: &base},
		{name: "nonce true", row: `{"seq":7,` + ok + `,"nonce":true}`, reason: protocol.RowField},
		{name: "nonce array", row: `{"seq":7,` + ok + `,"nonce":[]}`, reason: protocol.RowField},
		{name: "nonce 007", row: `{"seq":7,` + ok + `,"nonce":007}`, reason: protocol.RowNotJSON},
		{name: "sig string", row: `{"seq":7,` + ok + `,"sig":"QQ"}`, want: with(func(r *protocol.Record) { r.Sig = []byte("QQ") })},
		{name: "sig number", row: `{"seq":7,` + ok + `,"sig":1}`, reason: protocol.RowField},
		{name: "sig false", row: `{"seq":7,` + ok + `,"sig":false}`, reason: protocol.RowField},
		{name: "room", row: `{"seq":7,` + ok + `,"room":"tclk-offers"}`, want: &base, room: "tclk-offers"},
		{name: "room unchecked", row: `{"seq":7,` + ok + `,"room":"Lobby"}`, want: &base, room: "Lobby"},
		{name: "room null", row: `{"seq":7,` + ok + `,"room":null}`, want: &base},
		{name: "room number", row: `{"seq":7,` + ok + `,"room":1}`, reason: protocol.RowField},

		{name: "escapes", row: `{"seq":7,"ts":"2026-09-02T10:00:00.471Z","from":"alice","text":"\"\\\/\b\f\n\r\t\u0041\u00e9\u20ac\ud83d\ude00"}`,
			want: text("\"\\/\b\f\n\r\tA\u00e9\u20ac\U0001F600")},
		{name: "raw UTF-8", row: `{"seq":7,"ts":"2026-09-02T10:00:00.471Z","from":"alice","text":"é € 😀"}`, want: text("é € 😀")},
		{name: "raw UTF-8 beside escapes", row: `{"seq":7,"ts":"2026-09-02T10:00:00.471Z","from":"alice","text":"é\n€\\😀"}`, want: text("é\n€\\😀")},
		{name: "lone surrogates", row: `{"seq":7,"ts":"2026-09-02T10:00:00.471Z","from":"alice","text":"a\ud800b\udc00\ud800\ud83d\ude00"}`,
			want: text("a\uFFFDb\uFFFD\uFFFD\U0001F600")},
		{name: "escaped NUL and DEL", row: `{"seq":7,"ts":"2026-09-02T10:00:00.471Z","from":"alice","text":"\u0000\u007f"}`, want: text("\x00\x7f")},
		{name: "raw control character", row: "{\"seq\":7," + ok + ",\"x\":\"a\tb\"}", reason: protocol.RowNotJSON},
		{name: "raw control character in a field", row: "{\"seq\":7,\"from\":\"a\x01\"," + ok + "}", reason: protocol.RowNotJSON},
		{name: "escape that is none", row: `{"seq":7,` + ok + `,"sig":"\x41"}`, reason: protocol.RowNotJSON},
		{name: "escape with three digits", row: `{"seq":7,` + ok + `,"sig":"\u041"}`, reason: protocol.RowNotJSON},

		{name: "invalid UTF-8", row: "{\"seq\":7,\"ts\":\"2026-09-02T10:00:00.471Z\",\"from\":\"alice\",\"text\":\"a\xe2\x82b\xff\xf0\x9f\x98c\xed\xa0\x80\xc0\xaf\"}",
			reason: protocol.RowNotJSON, reference: text("a\uFFFDb\uFFFD\uFFFDc" + strings.Repeat("\uFFFD", 5))},
		{name: "invalid UTF-8 beside escapes", row: "{\"seq\":7,\"ts\":\"2026-09-02T10:00:00.471Z\",\"from\":\"alice\",\"text\":\"\\n\xe2\x82\\u0080\xff\"}",
			reason: protocol.RowNotJSON, reference: text("\n\uFFFD\u0080\uFFFD")},
		{name: "invalid UTF-8 in an unknown member", row: "{\"seq\":7," + ok + ",\"x\":\"\xff\"}", reason: protocol.RowNotJSON, reference: &base},
		{name: "invalid UTF-8 in a name", row: "{\"seq\":7," + ok + ",\"x\xff\":1}", reason: protocol.RowNotJSON, reference: &base},
		{name: "invalid UTF-8 outside of strings", row: "{\"seq\":7," + ok + ",\xff}", reason: protocol.RowNotJSON},

		{name: "escape cut in a pair", row: `{"seq":7,` + ok + `,"sig":"\ud83d\u12"}`, reason: protocol.RowNotJSON},
		{name: "upper-case escape", row: `{"seq":7,"ts":"2026-09-02T10:00:00.471Z","from":"alice","text":"\u00E9\uD83D\uDE00"}`, want: text("é😀")},
		{name: "member twice", row: `{"seq":6,` + ok + `,"seq":7}`, reason: protocol.DuplicateMember, reference: &base},
		{name: "member twice, bad first", row: `{"seq":null,` + ok + `,"seq":7}`, reason: protocol.DuplicateMember, reference: &base},
		{name: "member twice, spelled otherwise", row: `{"seq":6,` + ok + `,"\u0073eq":7}`, reason: protocol.DuplicateMember, reference: &base},
		{name: "nonce twice, null last", row: `{"seq":7,` + ok + `,"nonce":1,"nonce":null}`, reason: protocol.DuplicateMember, reference: &base},
		{name: "unknown member twice", row: `{"seq":7,` + ok + `,"x":1,"x":1}`, reason: protocol.DuplicateMember, reference: &base},
		{name: "unknown member twice, far apart", row: `{"seq":7,` + ok + `,"x":1,"1":0,"2":0,"3":0,"4":0,"5":0,"6":0,"7":0,"8":0,"9":0,"x":1}`, reason: protocol.DuplicateMember, reference: &base},
		{name: "member twice at depth", row: `{"seq":7,` + ok + `,"x":[{"y":{"a":1,"b":2,"a":3}}]}`, reason: protocol.DuplicateMember, reference: &base},
		{name: "__proto__ is a name like any other", row: `{"seq":7,` + ok + `,"__proto__":1,"constructor":2}`, want: &base},

		{name: "null", row: `null`, reason: protocol.RowNotJSON},
		{name: "array", row: `[]`, reason: protocol.RowNotJSON},
		{name: "string", row: `"x"`, reason: protocol.RowNotJSON},
		{name: "empty object", row: `{}`, reason: protocol.RowField},
		{name: "prose", row: `not json`, reason: protocol.RowNotJSON},
		{name: "nothing", row: ``, reason: protocol.RowNotJSON},
		{name: "byte order mark", row: "\uFEFF{\"seq\":7," + ok + "}", reason: protocol.RowNotJSON},
		{name: "no-break space behind", row: "{\"seq\":7," + ok + "}\u00a0", reason: protocol.RowNotJSON},
		{name: "two rows on a line", row: `{"seq":7,` + ok + `}{"seq":8,` + ok + `}`, reason: protocol.RowNotJSON},
		{name: "trailing comma", row: `{"seq":7,` + ok + `,}`, reason: protocol.RowNotJSON},
		{name: "missing comma", row: `{"seq":7 ` + ok + `}`, reason: protocol.RowNotJSON},
		{name: "single quotes", row: `{'seq':7,` + ok + `}`, reason: protocol.RowNotJSON},
		{name: "deep enough", row: `{"seq":7,` + ok + `,"x":` + strings.Repeat("[", MaxRowDepth-1) + strings.Repeat("]", MaxRowDepth-1) + `}`, want: &base},
		{name: "too deep", row: `{"seq":7,` + ok + `,"x":` + strings.Repeat("[", MaxRowDepth) + strings.Repeat("]", MaxRowDepth) + `}`, reason: protocol.RowNotJSON},
		{name: "100,000 deep", row: `{"seq":7,` + ok + `,"x":` + strings.Repeat(`{"x":`, 100_000) + `1` + strings.Repeat("}", 100_000) + `}`, reason: protocol.RowNotJSON},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			check := func(rules ParseRules, want *protocol.Record) {
				t.Helper()
				var scratch []byte
				var rec protocol.Record
				room, reason, detail := ParseRow([]byte(test.row), rules, &scratch, &rec)
				if want == nil {
					if test.reason == protocol.ReasonNone || reason != test.reason || detail == "" {
						t.Errorf("%+v: %v (%s), want %v with a detail", rules, reason, detail, test.reason)
					}
					return
				}
				if reason != protocol.ReasonNone || detail != "" || room != test.room {
					t.Fatalf("%+v: %v (%s), room %q", rules, reason, detail, room)
				}
				if diff := cmp.Diff(want, &rec); diff != "" {
					t.Errorf("%+v: -want +got\n%s", rules, diff)
				}
			}
			check(ParseRules{}, test.want)
			reference := test.reference
			if reference == nil {
				reference = test.want
			}
			check(ReferenceRules(), reference)
		})
	}
}

// Invalid UTF-8 becomes what a browser's decoder makes of it: one U+FFFD for
// each maximal part (the table of Unicode 3.9 and of the Encoding Standard).
func TestReplaceInvalidUTF8(t *testing.T) {
	for in, want := range map[string]string{
		"":                                     "",
		"plain é€😀":                            "plain é€😀",
		"\x80":                                 "\uFFFD",
		"\xC0\xAF":                             "\uFFFD\uFFFD",
		"\xC2":                                 "\uFFFD",
		"\xC2\x41":                             "\uFFFDA",
		"\xDF\xC2\x80":                         "\uFFFD\u0080",
		"\xE0\x80\x80":                         "\uFFFD\uFFFD\uFFFD",
		"\xE0\xA0":                             "\uFFFD",
		"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41": "\uFFFD\uFFFD\uFFFD\uFFFDA",
		"\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41": strings.Repeat("\uFFFD", 8) + "A",
		"\xEF\xBF":                             "\uFFFD",
		"\xF0\x80\x80\x41":                     "\uFFFD\uFFFD\uFFFDA",
		"\xF0\x90\x80":                         "\uFFFD",
		"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42": strings.Repeat("\uFFFD", 5) + "A\uFFFD\uFFFDB",
		"\xF4\x8F\xBF":                         "\uFFFD",
		"\xF5\x80":                             "\uFFFD\uFFFD",
		"\xF8\x88\x80\x80\x80":                 strings.Repeat("\uFFFD", 5),
		"\uFFFD":                               "\uFFFD",
	} {
		if got := string(appendValidUTF8(nil, []byte(in))); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// Each switch of the rules must move its own point and no other.
func TestParseRulesAreSeparate(t *testing.T) {
	rows := []string{
		`{"seq":1,"seq":1,"ts":"2027-02-01T00:00:00Z","from":"a","text":""}`,
		`{"seq":1.00000000000000000001,"ts":"2027-02-01T00:00:00Z","from":"a","text":""}`,
		`{"seq":1,"ts":"2027-02-30T00:00:00Z","from":"a","text":""}`,
		"{\"seq\":1,\"ts\":\"2027-02-01T00:00:00Z\",\"from\":\"a\",\"text\":\"\xff\"}",
	}
	rules := []ParseRules{{LastDuplicateWins: true}, {NumbersByDouble: true}, {DatesRollOver: true}, {ReplaceInvalidUTF8: true}}
	for i, row := range rows {
		for k, rule := range rules {
			var scratch []byte
			var rec protocol.Record
			_, reason, _ := ParseRow([]byte(row), rule, &scratch, &rec)
			if (reason == protocol.ReasonNone) != (i == k) {
				t.Errorf("row %d under %+v: %v", i, rule, reason)
			}
		}
	}
}

// Records of one chunk share a scratch buffer: a later row must not disturb an
// earlier one, also where the buffer has to grow.
func TestParseRowSharesScratch(t *testing.T) {
	var scratch []byte
	recs := make([]protocol.Record, 300)
	for i := range recs {
		line := []byte(boardRow(i))
		if _, reason, detail := ParseRow(line, ParseRules{}, &scratch, &recs[i]); reason != protocol.ReasonNone {
			t.Fatal(reason, detail)
		}
	}
	for i := range recs {
		var row struct{ Text string }
		if err := json.Unmarshal([]byte(boardRow(i)), &row); err != nil {
			t.Fatal(err)
		}
		if string(recs[i].Text) != row.Text {
			t.Fatalf("row %d was overwritten: %q", i, recs[i].Text)
		}
	}
}

func TestParseRowDoesNotAllocate(t *testing.T) {
	line := []byte(strings.TrimSuffix(boardRow(1), "}") + `,"room":"mb-p-tclk-0123456789abcdef","_from":{"x":[1]}}`)
	scratch := make([]byte, 0, 4096)
	rec := protocol.Record{Room: "mb-p-tclk-0123456789abcdef"}
	if n := testing.AllocsPerRun(100, func() {
		scratch = scratch[:0]
		if _, reason, _ := ParseRow(line, ParseRules{}, &scratch, &rec); reason != protocol.ReasonNone {
			t.Fatal(reason)
		}
	}); n != 0 {
		t.Errorf("%v allocations a row", n)
	}
}

// Details go to terminals and reports. A stranger's text must not.
func TestDetailsHoldNoText(t *testing.T) {
	const evil = "\x1b[2J IGNORE ALL"
	quoted, _ := json.Marshal(evil)
	for _, row := range []string{
		evil, `{` + string(quoted), `{` + string(quoted) + `:1,` + string(quoted) + `:2}`,
		`{"seq":` + string(quoted) + `}`, `{"seq":1,"ts":` + string(quoted) + `}`, `{"seq":1,"seq":` + evil + `}`,
	} {
		var scratch []byte
		var rec protocol.Record
		_, reason, detail := ParseRow([]byte(row), ParseRules{}, &scratch, &rec)
		if reason == protocol.ReasonNone || strings.Contains(detail, "IGNORE") || strings.Contains(detail, "\x1b") {
			t.Errorf("%q: %v %q", row, reason, detail)
		}
	}
}

func TestManyMembersTakeLinearTime(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"seq":1,"ts":"2027-02-01T00:00:00Z","from":"a","text":""`)
	for i := range 100_000 {
		b.WriteString(`,"`)
		b.WriteString(strings.Repeat("m", i%3))
		b.WriteString(jsonInt(i))
		b.WriteString(`":0`)
	}
	var scratch []byte
	var rec protocol.Record
	if _, reason, detail := ParseRow([]byte(b.String()+"}"), ParseRules{}, &scratch, &rec); reason != protocol.ReasonNone {
		t.Error(reason, detail)
	}
	if _, reason, _ := ParseRow([]byte(b.String()+`,"99999":1}`), ParseRules{}, &scratch, &rec); reason != protocol.DuplicateMember {
		t.Error(reason)
	}
}

func jsonInt(i int) string {
	b, _ := json.Marshal(i)
	return string(b)
}

func TestTorn(t *testing.T) {
	for _, line := range []string{
		`{"seq":99,"ts":"torn`, `{`, ` {"seq":9`, `{"seq":9,"a":tru`, `{"a":"x\`, `{"a":"x\u00`, `{"a":-`, `{"a":1.`, `{"a":1e`,
		`{"a":{"b":[1,`, "{\"a\":\"\xe2\x82", `{"text":"tclk1 {\"a\":1}`,
	} {
		if !Torn([]byte(line)) {
			t.Errorf("%q is not torn", line)
		}
	}
	for _, line := range []string{``, ` `, `not json`, `[`, `"x`, `{}`, `{"a":1}x`, `{x`, `{"a"x`, `{"a":01`, `{,`, `{"a":"\x`, "{\"a\":\"\x01"} {
		if Torn([]byte(line)) {
			t.Errorf("%q is torn", line)
		}
	}
}

// Whatever part of a row a crash leaves, it is a torn row and not a malformed
// one, and a whole row is not torn.
func TestEveryPrefixOfARowIsTorn(t *testing.T) {
	rows := []string{
		boardRow(3),
		`{"from":"é€😀","x":[true,false,null,{"y":-1.5e+10}],"text":"\ud83d\ude00\\\"","seq":0}`,
	}
	for _, row := range rows {
		for n := 1; n < len(row); n++ {
			if !Torn([]byte(row[:n])) {
				t.Fatalf("not torn: %q", row[:n])
			}
		}
		if Torn([]byte(row)) || !complete([]byte(row)) {
			t.Fatalf("torn: %q", row)
		}
	}
}

// jsonRow makes rows with every kind of text, through an encoder that is not
// ours.
func jsonRow(t *rapid.T) string {
	text := rapid.String()
	row := map[string]any{
		"seq":  rapid.Uint64Range(0, maxSeq).Draw(t, "seq"),
		"ts":   "2026-09-02T10:00:00.471Z",
		"from": text.Draw(t, "from"),
		"text": text.Draw(t, "text"),
	}
	if rapid.Bool().Draw(t, "signed") {
		row["nonce"] = json.Number(rapid.StringMatching(`0|[1-9][0-9]{0,25}`).Draw(t, "nonce"))
		row["sig"] = text.Draw(t, "sig")
	}
	if rapid.Bool().Draw(t, "extra") {
		row["x"+text.Draw(t, "name")] = map[string]any{text.Draw(t, "inner"): []any{1.5, nil, text.Draw(t, "value")}}
	}
	b, err := json.Marshal(row)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestParseRowAgreesWithEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		row := jsonRow(t)
		var want struct {
			Seq        uint64
			From, Text string
			Nonce      *json.Number
			Sig        *string
		}
		if err := json.Unmarshal([]byte(row), &want); err != nil {
			t.Fatal(err)
		}
		var scratch []byte
		var rec protocol.Record
		_, reason, detail := ParseRow([]byte(row), ParseRules{}, &scratch, &rec)
		if reason != protocol.ReasonNone {
			t.Fatal(row, reason, detail)
		}
		if rec.Seq != want.Seq || string(rec.From) != want.From || string(rec.Text) != want.Text ||
			(rec.Nonce == nil) != (want.Nonce == nil) || (rec.Sig == nil) != (want.Sig == nil) {
			t.Fatalf("%s: %+v", row, rec)
		}
		if want.Nonce != nil && (string(rec.Nonce) != want.Nonce.String() || string(rec.Sig) != *want.Sig) {
			t.Fatalf("%s: %+v", row, rec)
		}
	})
}

// strictJSON asks another strict decoder.
func strictJSON(line []byte, duplicates bool) (valid bool) {
	v := jsontext.Value(line)
	return utf8.Valid(line) && v.IsValid(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(duplicates))
}

func FuzzParseRow(f *testing.F) {
	seedLines(f)
	f.Add([]byte(`{"seq":1,"ts":"2027-02-01T00:00:00Z","from":"a","text":"\ud800\udc00","x":{"a":1,"a":2}}`))
	f.Add([]byte("{\"seq\":1,\"ts\":\"2027-02-01T00:00:00Z\",\"from\":\"a\",\"text\":\"\xe2\x82\"}"))
	f.Add([]byte(strings.Repeat(`{"x":`, 70)))
	f.Fuzz(func(t *testing.T, line []byte) {
		var scratch []byte
		var rec protocol.Record
		_, reason, detail := ParseRow(line, ParseRules{}, &scratch, &rec)
		if (reason == protocol.ReasonNone) != (detail == "") {
			t.Fatalf("%v with detail %q", reason, detail)
		}
		if strings.HasPrefix(detail, "nested deeper") {
			return
		}
		trimmed := strings.TrimLeft(string(line), " \t\r\n")
		object := strings.HasPrefix(trimmed, "{")
		wantJSON := object && strictJSON(line, true)
		if isRow := reason != protocol.RowNotJSON; isRow != wantJSON {
			t.Fatalf("%q: %v (%s), but JSON object: %v", line, reason, detail, wantJSON)
		}
		if wantJSON && (reason == protocol.DuplicateMember) == strictJSON(line, false) {
			t.Fatalf("%q: %v (%s)", line, reason, detail)
		}
		if Torn(line) && (wantJSON || !object) {
			t.Fatalf("%q is torn", line)
		}
		if reason == protocol.ReasonNone {
			if !utf8.Valid(rec.Text) || !utf8.Valid(rec.From) {
				t.Fatalf("%q: text is not UTF-8", line)
			}
			var want struct {
				Text  string         `json:"text"`
				From  string         `json:"from"`
				Nonce jsontext.Value `json:"nonce"`
				Sig   *string        `json:"sig"`
			}
			if err := jsonv2.Unmarshal(line, &want, jsontext.AllowInvalidUTF8(true)); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			if string(rec.Text) != want.Text || string(rec.From) != want.From ||
				(rec.Sig == nil) != (want.Sig == nil) || want.Sig != nil && string(rec.Sig) != *want.Sig {
				t.Fatalf("%q: %+v, want %+v", line, rec, want)
			}
			if want.Nonce.Kind() == '0' && string(rec.Nonce) != string(want.Nonce) {
				t.Fatalf("%q: nonce %q, want %q", line, rec.Nonce, want.Nonce)
			}
		}
		// The reference reads more, never less and never otherwise.
		var loose protocol.Record
		var scratch2 []byte
		_, looseReason, _ := ParseRow(line, ReferenceRules(), &scratch2, &loose)
		if reason == protocol.ReasonNone && (looseReason != reason || !cmp.Equal(rec, loose)) {
			t.Fatalf("%q: %v %+v, but %+v under reference rules", line, looseReason, rec, loose)
		}
	})
}

// seedLines adds lines of the conformance corpus.
func seedLines(f *testing.F) {
	for _, name := range []string{
		"54-null-and-odd-rows/tclk-offers.jsonl", "54-null-and-odd-rows/mb-p-tclk-d511e89901258247.jsonl",
		"55-seq-shapes/mb-p-tclk-326cf28b16bc1c69.jsonl", "56-nonce-shapes/mb-p-tclk-978425967b53f277.jsonl",
		"44-job-id-unicode/tclk-offers.jsonl",
	} {
		text, err := os.ReadFile("../testdata/conformance/corpus/" + name)
		if err != nil {
			f.Fatal(err)
		}
		for _, line := range strings.Split(string(text), "\n") {
			f.Add([]byte(line))
		}
	}
}
