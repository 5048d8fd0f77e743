package protocol

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

// surrogateEscape is what a strict reader refuses when it stands alone, and this
// one must let through.
var surrogateEscape = regexp.MustCompile(`\\u[dD][89a-fA-F]`)

// scanAll reads a text as one JSON value.
func scanAll(b []byte) (ok, repeated bool) {
	var s scanner
	s.reset(b)
	_, next, ok := s.value(s.space(0))
	return ok && s.space(next) == len(b), s.repeated
}

// checkScan holds the scanner against two other readers of JSON.
func checkScan(t tester, b []byte) {
	t.Helper()
	ok, repeated := scanAll(b)
	if want := json.Valid(b); ok != want {
		t.Errorf("%q: scanned %v, encoding/json says %v", b, ok, want)
		return
	}
	if utf8.Valid(b) && !surrogateEscape.Match(b) {
		loose := jsontext.Value(b).IsValid(jsontext.AllowDuplicateNames(true))
		strict := jsontext.Value(b).IsValid()
		if ok != loose || (ok && !repeated) != strict {
			t.Errorf("%q: scanned %v, repeats %v; jsontext says %v, strictly %v", b, ok, repeated, loose, strict)
		}
	}
	if firstUnprintable(b) < 0 {
		// The short cuts for printable text change nothing.
		quick := scanner{b: b, printable: true, plain: bytes.IndexByte(b, '\\') < 0}
		_, next, quickOK := quick.value(quick.space(0))
		if quickOK = quickOK && quick.space(next) == len(b); quickOK != ok || ok && quick.repeated != repeated {
			t.Errorf("%q: scanned %v, by the short cuts %v", b, ok, quickOK)
		}
	}
	if ok {
		checkValues(t, b)
	}
}

// checkValues compares what the scanner finds in a valid text with what
// encoding/json finds there.
func checkValues(t tester, b []byte) {
	t.Helper()
	s := scanner{b: b}
	switch i := s.space(0); s.b[i] {
	case '"':
		v, _, _ := s.value(i)
		got, _ := appendUnescaped(nil, b[v.start:v.end])
		var want string
		if err := json.Unmarshal(b, &want); err != nil {
			t.Errorf("%q: %v", b, err)
		}
		if utf8.Valid(b) && utf8.Valid(got) && string(got) != want {
			t.Errorf("%q: read %q, want %q", b, got, want)
		}
		if utf8.Valid(b) {
			if n, _ := parseNaive(string(b)); units(string(got)) != n.text {
				t.Errorf("%q: read the units %x, want %x", b, units(string(got)), n.text)
			}
		}
	case '{':
		got := map[string]string{}
		s.object(i+1, func(name []byte, _ bool, v value) {
			raw := b[v.start:v.end]
			if v.kind == kindString {
				raw = b[v.start-1 : v.end+1]
			}
			got[string(name)] = string(raw)
		})
		var want map[string]json.RawMessage
		if err := json.Unmarshal(b, &want); err != nil {
			t.Errorf("%q: %v", b, err)
		}
		for name, raw := range got {
			if utf8.ValidString(name) && utf8.Valid(b) && raw != string(want[name]) {
				t.Errorf("%q: member %q is %q, want %q", b, name, raw, want[name])
			}
		}
		if utf8.Valid(b) && !surrogateEscape.Match(b) && len(got) != len(want) {
			t.Errorf("%q: %d members, want %d", b, len(got), len(want))
		}
	}
}

var scanSeeds = []string{
	"", " ", "0", "-0", "01", "1.", ".5", "+1", "-", "1e", "1e+", "1E-0", "1e5", "0.0", "00", "1_0", "0x1", "Infinity", "NaN",
	"true", "tru", "truee", "false", "nul", "null", "nullnull", `""`, `"`, `"\`, `"\"`, `"\u"`, `"\u00"`, `"\u00g0"`, `"\u00E9"`, `"\x"`,
	`"a\/b\b\f\n\r\t\"\\"`, "\"\x1f\"", "\"\x7f\"", "\"\n\"", `"\ud83d\ude00"`, `"\ud83d"`, `"\ude00\ud83d"`, `"\ud83d\u0041"`, "\"é\"", "\"\xff\"",
	"[]", "[ ]", "[,]", "[1,]", "[1 2]", "[1,2]", "[", "]", "[]]", "{}", "{ }", "{,}", `{"a"}`, `{"a":}`, `{"a":1,}`, `{"a":1 "b":2}`,
	`{"a":1,"b":2}`, `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `{"a":{"b":[{"c":1,"c":1}]}}`, `{a:1}`, `{'a':1}`, `{"a":1}x`, "\ufeff{}",
	"\t\r\n [1]\v", `[{"a":1},{"a":1}]`, `{"":{"":{"":[]}}}`, `{"a":[1,{"b":"}"}],"c":"]"}`, `["\u2028"]`, "[1]\x00", "/**/1",
	`{"a":0,"b":0,"c":0,"d":0,"e":0,"f":0,"g":0,"h":0,"i":0,"j":0}`, `{"j":0,"b":0,"c":0,"d":0,"e":0,"f":0,"g":0,"h":0,"i":0,"j":0}`,
}

func TestScanner(t *testing.T) {
	for _, s := range scanSeeds {
		checkScan(t, []byte(s))
	}
	for _, c := range decodeCases(t) {
		checkScan(t, []byte(strings.TrimPrefix(c.Line, LinePrefix)))
	}
}

func TestScannerAgainstOtherReaders(t *testing.T) {
	token := rapid.OneOf(rapid.SampledFrom(scanSeeds), rapid.SampledFrom([]string{
		"{", "}", "[", "]", ",", ":", `"a"`, `"b"`, `"\u0061"`, "1", "-2.5e+3", " ", "true", "null",
	}), rapid.SampledFrom([]string{`{"a":`, `,"b":`, `],`, `},`, `[{`}), rapid.Map(rapid.Byte(), func(b byte) string { return string([]byte{b}) }))
	rapid.Check(t, func(t *rapid.T) {
		checkScan(t, []byte(strings.Join(rapid.SliceOfN(token, 1, 12).Draw(t, "tokens"), "")))
	})
}

func TestScannerHoldsNothingBack(t *testing.T) {
	var s scanner
	s.reset([]byte(`{"a":{"b":1,"c":[{"d":1}]}}`))
	if _, _, ok := s.value(0); !ok {
		t.Fatal("not read")
	}
	s.reset(nil)
	for _, name := range s.names[:cap(s.names)] {
		if name != nil {
			t.Errorf("the scanner still holds %q of a text that it has read", name)
		}
	}
}

// An escape is canonical where writing the string again gives the same escape.
func TestCanonicalEscapes(t *testing.T) {
	check := func(t tester, raw string) {
		text, canonical := appendUnescaped(nil, []byte(raw))
		written := appendString(nil, string(text))
		if canonical != (string(written) == `"`+raw+`"`) {
			t.Errorf("%q reads as %q, which is written %q; canonical %v", raw, text, written, canonical)
		}
		if !isWTF8(string(text)) {
			t.Errorf("%q reads as %q, which is no WTF-8", raw, text)
		}
	}
	for _, escape := range []string{`\"`, `\\`, `\/`, `\b`, `\f`, `\n`, `\r`, `\t`} {
		check(t, escape)
	}
	for u := range 0x10000 {
		check(t, string(appendUnitEscape(nil, rune(u))))
	}
	piece := rapid.OneOf(rapid.SampledFrom([]string{`\"`, `\\`, `\/`, `\b`, `\n`, "a", "~", `\ud83d`, `\ude00`, `\uD83D`, `\uDE00`, `\u00e9`, `\u00E9`, `\u007f`, `\u0041`}),
		rapid.Map(genUnit, func(u uint16) string { return string(appendUnitEscape(nil, rune(u))) }))
	rapid.Check(t, func(t *rapid.T) { check(t, strings.Join(rapid.SliceOf(piece).Draw(t, "pieces"), "")) })
}

func TestFirstUnprintable(t *testing.T) {
	naive := func(b []byte) int {
		return bytes.IndexFunc(b, func(r rune) bool { return r < 0x20 || r > 0x7e })
	}
	for c := range 256 {
		for n := range 20 {
			for at := range n {
				b := bytes.Repeat([]byte("a"), n)
				b[at] = byte(c)
				if got := firstUnprintable(b); got != naive(b) {
					t.Fatalf("%q: %d, want %d", b, got, naive(b))
				}
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOf(rapid.OneOf(rapid.ByteRange(0x1e, 0x22), rapid.ByteRange(0x7c, 0x82), rapid.Byte())).Draw(t, "bytes")
		if got := firstUnprintable(b); got != naive(b) {
			t.Fatalf("%q: %d, want %d", b, got, naive(b))
		}
	})
}

func TestUTF16Length(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "abc": 3, "é": 1, "日本": 2, "😀": 2, "a😀b": 4, "\xed\xa0\x80": 1, "\xed\xa0\xbd\xed\xb8\x80": 2,
		// One mark for each longest run of bytes that could have begun a
		// character.
		"\xff": 1, "\x80": 1, "\xc3": 1, "\xe2\x82": 1, "\xe2\x82a": 2, "\xf0\x9f\x98": 1, "\xf0\x9f\x98\xff": 2,
		"\xc0\xaf": 2, "\xe0\x80\xaf": 3, "\xf0\x80\x80\xaf": 4, "\xf4\x90\x80\x80": 4, "\xf5\x80": 2, "\xe0\xa0": 1, "\xf4\x8f": 1,
	} {
		if got := utf16Length([]byte(text), 100); got != want {
			t.Errorf("%q has %d units, want %d", text, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "text")
		if got, want := utf16Length([]byte(s), 1<<30), len(utf16.Encode([]rune(s))); got != want {
			t.Fatalf("%q has %d units, want %d", s, got, want)
		}
	})
	if got := utf16Length(bytes.Repeat([]byte("a"), 1000), 10); got <= 10 || got > 12 {
		t.Errorf("counting went on to %d, beyond a limit of 10", got)
	}
}

func FuzzScanner(f *testing.F) {
	for _, s := range scanSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if bytes.Count(b, []byte("["))+bytes.Count(b, []byte("{")) < 9000 { // the others give up at 10,000 levels
			checkScan(t, b)
		}
	})
}
