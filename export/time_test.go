package export

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseTime(t *testing.T) {
	tests := []struct {
		ts   string
		ms   int64 // -1: refused
		roll int64 // the answer with roll-over where it differs, -1: the same
	}{
		{"2026-09-02T10:00:00Z", 1788343200000, -1},
		{"2026-09-02T12:30:00.5+02:30", 1788343200500, -1},
		{"2026-09-02T10:00:00.1239999Z", 1788343200123, -1},
		{"2026-09-02T10:00:00.9999999999999999999Z", 1788343200999, -1},
		{"2026-09-02T10:00:00-00:00", 1788343200000, -1},
		{"2026-09-02T10:00:00.12Z", 1788343200120, -1},
		{"2026-09-02T10:00:00.000000Z", 1788343200000, -1},
		{"2026-09-02T00:00:00+23:59", 1788220860000, -1},
		{"2026-09-02T23:59:59-23:59", 1788479939000, -1},
		{"2028-02-29T00:00:00Z", 1835395200000, -1},
		{"2000-02-29T00:00:00Z", 951782400000, -1},
		{"9999-12-31T23:59:59.999Z", 253402300799999, -1},
		{"9999-12-31T23:59:59.999-23:59", 253402387139999, -1},
		{"1970-01-01T00:00:00Z", 0, -1},
		{"1969-12-31T23:00:00-01:00", 0, -1},

		{"2027-02-29T00:00:00Z", -1, 1803859200000},
		{"2027-02-30T00:00:00Z", -1, 1803945600000},
		{"2027-02-31T23:59:59.999999Z", -1, 1804118399999},
		{"2027-04-31T00:00:00Z", -1, 1809129600000},
		{"2100-02-29T00:00:00Z", -1, 4107542400000},

		{"1969-12-31T23:59:59Z", -1, -1},
		{"1969-12-31T23:59:59.9999Z", -1, -1},
		{"0000-01-01T00:00:00Z", -1, -1},
		{"0000-03-01T00:00:00Z", -1, -1},
		{"1970-01-01T00:00:00+00:01", -1, -1},
		{"1970-01-01T00:00:00.999+00:01", -1, -1},
		{"2026-09-02 10:00:00Z", -1, -1},
		{"2026-09-02T10:00:00", -1, -1},
		{"2026-09-02T10:00:60Z", -1, -1},
		{"2026-09-02T24:00:00Z", -1, -1},
		{"2026-13-02T10:00:00Z", -1, -1},
		{"2026-09-32T10:00:00Z", -1, -1},
		{"2026-00-10T10:00:00Z", -1, -1},
		{"2026-01-00T10:00:00Z", -1, -1},
		{"02026-09-02T10:00:00Z", -1, -1},
		{"+002026-09-02T10:00:00Z", -1, -1},
		{"-2026-09-02T10:00:00Z", -1, -1},
		{"2026-09-02T10:00:00z", -1, -1},
		{"2026-09-02t10:00:00Z", -1, -1},
		{"2026-09-02T10:00:00.Z", -1, -1},
		{"2026-09-02T10:00:00.", -1, -1},
		{"2026-09-02T10:00:00.5", -1, -1},
		{"2026-09-02T10:00Z", -1, -1},
		{"2026-09-02T10:00:00,5Z", -1, -1},
		{"2026-09-02T10:00:00+24:00", -1, -1},
		{"2026-09-02T10:00:00+01:60", -1, -1},
		{"2026-09-02T10:00:00+0100", -1, -1},
		{"2026-09-02T10:00:00+01", -1, -1},
		{"2026-09-02T10:00:00+01:0", -1, -1},
		{"2026-09-02T10:00:00+01:000", -1, -1},
		{"2026-09-02T10:00:00ZZ", -1, -1},
		{"2026-09-02T10:00:00Z\n", -1, -1},
		{" 2026-09-02T10:00:00Z", -1, -1},
		{"٢026-09-02T10:00:00Z", -1, -1},
		{"2026-9-2T10:00:00.000Z", -1, -1},
		{"20x6-09-02T10:00:00Z", -1, -1},
		{"2026-09-02T10:0/:00Z", -1, -1},
		{"2026-09-02T10:00:00+0a:00", -1, -1},
		{"Wed, 02 Sep 2026 10:00:00 GMT", -1, -1},
		{"1788343200000", -1, -1},
		{"now", -1, -1},
		{"", -1, -1},
	}
	for _, test := range tests {
		for _, rollOver := range []bool{false, true} {
			want := test.ms
			if rollOver && test.roll >= 0 {
				want = test.roll
			}
			ms, ok := ParseTime([]byte(test.ts), rollOver)
			if ok != (want >= 0) || ok && ms != want {
				t.Errorf("%q, roll over %v: %d %v, want %d", test.ts, rollOver, ms, ok, want)
			}
		}
	}
}

// grammar is the form of a time, written another way.
var grammar = regexp.MustCompile(`^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]+)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`)

// otherTime reads a time with the standard library's calendar.
func otherTime(ts string, rollOver bool) (int64, bool) {
	if !grammar.MatchString(ts) {
		return 0, false
	}
	digits := func(s string) (n int) {
		for _, c := range s {
			n = 10*n + int(c-'0')
		}
		return n
	}
	zone := strings.LastIndexAny(ts, "Z+-")
	offset := 0
	if z := ts[zone:]; z != "Z" {
		offset = 60*digits(z[1:3]) + digits(z[4:6])
		if z[0] == '-' {
			offset = -offset
		}
	}
	nanos := digits((strings.TrimPrefix(ts[19:zone], ".") + "000000000")[:9])
	year, month, day := digits(ts[0:4]), digits(ts[5:7]), digits(ts[8:10])
	d := time.Date(year, time.Month(month), day, digits(ts[11:13]), digits(ts[14:16]), digits(ts[17:19]), nanos, time.UTC)
	if !rollOver && d.Day() != day {
		return 0, false
	}
	d = d.Add(-time.Duration(offset) * time.Minute)
	return d.UnixMilli(), d.Unix() >= 0
}

func TestParseTimeAgreesWithTheCalendar(t *testing.T) {
	form := rapid.StringMatching(`[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,12})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])`)
	rapid.Check(t, func(t *rapid.T) {
		ts, rollOver := form.Draw(t, "ts"), rapid.Bool().Draw(t, "rollOver")
		want, wantOK := otherTime(ts, rollOver)
		ms, ok := ParseTime([]byte(ts), rollOver)
		if ok != wantOK || ok && ms != want {
			t.Fatalf("%s: %d %v, want %d %v", ts, ms, ok, want, wantOK)
		}
	})
}

// Every day from 1969 to 2101, so that no leap rule is missed.
func TestParseTimeEveryDay(t *testing.T) {
	end := time.Date(2101, 1, 1, 0, 0, 0, 0, time.UTC)
	for d := time.Date(1969, 12, 1, 12, 0, 0, 0, time.UTC); d.Before(end); d = d.AddDate(0, 0, 1) {
		ms, ok := ParseTime([]byte(d.Format(time.RFC3339)), false)
		if ok != (d.Year() >= 1970) || ok && ms != d.UnixMilli() {
			t.Fatalf("%v: %d %v", d, ms, ok)
		}
	}
}

func FuzzParseTime(f *testing.F) {
	for _, name := range []string{"53-malformed-timestamps/tclk-offers.jsonl", "57-timestamp-forms/mb-p-tclk-906ece826bc00343.jsonl"} {
		text, err := os.ReadFile("../testdata/conformance/corpus/" + name)
		if err != nil {
			f.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`"ts":"([^"\\]*)"`).FindAllStringSubmatch(string(text), -1) {
			f.Add(m[1], false)
			f.Add(m[1], true)
		}
	}
	f.Fuzz(func(t *testing.T, ts string, rollOver bool) {
		want, wantOK := otherTime(ts, rollOver)
		ms, ok := ParseTime([]byte(ts), rollOver)
		if ok != wantOK || ok && ms != want {
			t.Fatalf("%q: %d %v, want %d %v", ts, ms, ok, want, wantOK)
		}
	})
}
