package protocol

import (
	"encoding/json"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestExactInteger(t *testing.T) {
	type answer struct {
		v  int64
		ok bool
	}
	no := answer{}
	yes := func(v int64) answer { return answer{v, true} }
	const ms = 1788346800000
	for raw, want := range map[string]struct{ exact, double answer }{
		"0": {yes(0), yes(0)}, "-0": {yes(0), yes(0)}, "0.000": {yes(0), yes(0)}, "0e999999999999999999999": {yes(0), yes(0)},
		"1": {yes(1), yes(1)}, "-1": {yes(-1), yes(-1)}, "10e-1": {yes(1), yes(1)}, "0.1e1": {yes(1), yes(1)}, "1.5": {no, no}, "-1.5e1": {yes(-15), yes(-15)},
		"1788346800000": {yes(ms), yes(ms)}, "1788346800000.0": {yes(ms), yes(ms)}, "1.7883468e12": {yes(ms), yes(ms)}, "17883468E5": {yes(ms), yes(ms)},
		"1788346800000.00000001": {no, yes(ms)}, "1788346800000.5": {no, no}, "1788346799999.99999999": {no, yes(ms)},
		"9007199254740991": {yes(maxExact), yes(maxExact)}, "-9007199254740991": {yes(-maxExact), yes(-maxExact)},
		"9007199254740991.4": {no, yes(maxExact)}, "9007199254740991.6": {no, no}, "9007199254740992": {no, no}, "9007199254740993": {no, no},
		"-9007199254740992": {no, no}, "9.007199254740991e15": {yes(maxExact), yes(maxExact)}, "90071992547409910e-1": {yes(maxExact), yes(maxExact)},
		"9999999999999999": {no, no}, "1e15": {yes(1e15), yes(1e15)}, "1e16": {no, no}, "1e400": {no, no}, "-1e400": {no, no},
		"1e-400": {no, yes(0)}, "5e-324": {no, no}, "2e-324": {no, yes(0)}, "123456789012345678901234567890": {no, no},
		"1e99999999999999999999": {no, no}, "1e-99999999999999999999": {no, yes(0)},
		"1" + strings.Repeat("0", 300) + "e-300": {yes(1), yes(1)}, "0." + strings.Repeat("0", 300) + "1e301": {yes(1), yes(1)},
		"1." + strings.Repeat("0", 3000) + "1": {no, yes(1)}, "100000000000000000000000000000e-29": {yes(1), yes(1)},
	} {
		for _, c := range []struct {
			byDouble bool
			want     answer
		}{{false, want.exact}, {true, want.double}} {
			v, ok := ExactInteger([]byte(raw), c.byDouble)
			if ok != c.want.ok || ok && v != c.want.v {
				t.Errorf("%.40s by double %v: %d %v, want %d %v", raw, c.byDouble, v, ok, c.want.v, c.want.ok)
			}
		}
	}
}

// checkExactInteger holds ExactInteger against rationals and doubles.
func checkExactInteger(t tester, raw string) {
	t.Helper()
	for _, byDouble := range []bool{false, true} {
		v, ok := ExactInteger([]byte(raw), byDouble)
		want, wantOK := naiveInteger(raw, byDouble)
		if ok != wantOK || ok && v != want {
			t.Errorf("%s by double %v: %d %v, want %d %v", raw, byDouble, v, ok, want, wantOK)
		}
	}
}

func TestExactIntegerAgainstRationals(t *testing.T) {
	number := rapid.Custom(func(t *rapid.T) string {
		s := rapid.StringMatching(`-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?`).Draw(t, "number")
		if rapid.Bool().Draw(t, "near the limit") {
			v := new(big.Int).SetInt64(maxExact)
			v.Add(v, big.NewInt(rapid.Int64Range(-3, 3).Draw(t, "off")))
			s = v.String() + rapid.SampledFrom([]string{"", ".0", ".4", ".5", ".6", "e0", "0e-1", "00000e-5"}).Draw(t, "tail")
		}
		return s
	})
	rapid.Check(t, func(t *rapid.T) { checkExactInteger(t, number.Draw(t, "number")) })
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Int64Range(-maxExact, maxExact).Draw(t, "v")
		for _, byDouble := range []bool{false, true} {
			if got, ok := ExactInteger(strconv.AppendInt(nil, v, 10), byDouble); !ok || got != v {
				t.Fatalf("%d reads as %d %v", v, got, ok)
			}
		}
	})
}

func FuzzExactInteger(f *testing.F) {
	for _, c := range decodeCases(f) {
		for _, word := range strings.FieldsFunc(c.Line, func(r rune) bool { return strings.ContainsRune("{}[]:,", r) }) {
			if json.Valid([]byte(word)) && word[0] != '"' {
				f.Add(word)
			}
		}
	}
	f.Fuzz(func(t *testing.T, raw string) {
		if !json.Valid([]byte(raw)) || len(raw) > 500 || !strings.ContainsRune("-0123456789", rune(raw[0])) || strings.ContainsAny(raw, " \t\r\n") {
			return
		}
		checkExactInteger(t, raw)
	})
}
