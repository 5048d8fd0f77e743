package verify

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tclk-audit/tclk-audit/protocol"
)

// damaged signs a row under one nonce and writes another.
func damaged(signed, written string) protocol.Record {
	r := row(signed, "a row whose nonce was damaged")
	Sign(testKey("repair"), &r)
	r.Nonce = []byte(written)
	return r
}

func spelled(written string) (all []string) {
	var s spellings
	s.of([]byte(written))
	for s.next() {
		all = append(all, string(s.text))
	}
	return all
}

// throughDouble writes an integer as programs do that hold it in a double:
// exactly, or its shortest digits filled up with zeros, as JavaScript does.
func throughDouble(nonce string) (exact, shortest string) {
	f, err := strconv.ParseFloat(nonce, 64)
	if err != nil {
		panic(err)
	}
	whole, _ := big.NewFloat(f).Int(nil)
	digits, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'e', -1, 64), "e+")
	digits = strings.Replace(digits, ".", "", 1)
	n, _ := strconv.Atoi(exponent)
	return whole.String(), digits + strings.Repeat("0", n+1-len(digits))
}

func TestRepair(t *testing.T) {
	for _, c := range []struct{ name, signed, written string }{
		{"three zeros lost", "0007", "7"},
		{"as long as nonces get", "0000000000000000007", "7"},
		{"zero", "00", "0"},
		{"one zero before a time", "01788343200123", "1788343200123"},
		{"written by JavaScript", "1789061374248692577", "1789061374248692500"},
		{"written exactly", "1789061374248692577", "1789061374248692480"},
		{"signed rounded, kept in full", "1789061374248692500", "1789061374248692577"},
		{"the least of its double", "1789061374248692353", "1789061374248692500"},
		{"the greatest of its double", "1789061374248692607", "1789061374248692500"},
		{"18 digits", "123456789012345678", "123456789012345680"},
		{"17 digits", "12345678901234567", "12345678901234568"},
		{"17 digits from 16", "9999999999999999", "10000000000000000"},
		{"2^63", "9223372036854775807", "9223372036854775808"},
		{"over 2^63", "9999999999999998975", "9999999999999997952"},
		{"half way, to the even double", "9999999999999998976", "10000000000000000000"},
		{"the largest nonce, by JavaScript", "9999999999999999999", "10000000000000000000"},
		{"17 digits and a zero", "012345678901234567", "12345678901234567"},
	} {
		r := damaged(c.signed, c.written)
		v := New()
		if got := v.Check(&r); got != verdict(false) {
			t.Fatalf("%s: %+v for the row as written", c.name, got)
		}
		b := NewBudget(5000)
		nonce, ok, untried := v.Repair(&r, b)
		if nonce != c.signed || !ok || untried {
			t.Errorf("%s: Repair = %q, %v, %v, want %q", c.name, nonce, ok, untried, c.signed)
		}
		// With just as many checks it is found, with one less it is not.
		need := 5000 - b.Left()
		if nonce, ok, untried := v.Repair(&r, NewBudget(need)); nonce != c.signed || !ok || untried {
			t.Errorf("%s: with %d checks: %q, %v, %v", c.name, need, nonce, ok, untried)
		}
		less := NewBudget(need - 1)
		if nonce, ok, untried := v.Repair(&r, less); nonce != "" || ok || !untried || less.Left() != 0 {
			t.Errorf("%s: with %d checks: %q, %v, %v, %d left", c.name, need-1, nonce, ok, untried, less.Left())
		}
		if string(r.Nonce) != c.written {
			t.Errorf("%s: the row now reads %s", c.name, r.Nonce)
		}
	}
	for _, c := range []struct{ name, signed, written string }{
		{"too long for the venue", "00000000000000000007", "7"},
		{"another number", "8", "7"},
		{"the next double below", "1789061374248692352", "1789061374248692500"},
		{"the next double above", "1789061374248692608", "1789061374248692500"},
		{"16 digits and doubles", "9007199254740993", "9007199254740992"},
		{"a zero too many", "1", "10"},
		{"a sign", "+7", "7"},
		{"over the largest nonce", "10000000000000000001", "10000000000000000000"},
		{"40 digits", "1", strings.Repeat("9", 40)},
	} {
		r := damaged(c.signed, c.written)
		if nonce, ok, untried := New().Repair(&r, NewBudget(5000)); ok || untried || nonce != "" {
			t.Errorf("%s: Repair = %q, %v, %v, want none", c.name, nonce, ok, untried)
		}
	}
}

// Rows that no nonce can save: nothing is found, and where the signature cannot
// be decoded nothing is spent.
func TestRepairHopeless(t *testing.T) {
	forged := damaged("7", "7")
	spoil(&forged)
	b := NewBudget(100)
	if nonce, ok, untried := New().Repair(&forged, b); ok || untried || nonce != "" || b.Left() != 100-18 {
		t.Errorf("forged: %q, %v, %v, %d left of 100", nonce, ok, untried, b.Left())
	}
	if nonce, ok, untried := New().Repair(&forged, NewBudget(0)); ok || !untried || nonce != "" {
		t.Errorf("forged, no budget: %q, %v, %v", nonce, ok, untried)
	}
	if NewBudget(-5).Left() != 0 {
		t.Error("a budget below nothing")
	}
}

// The candidates are the zero-padded spellings and the integers of the same
// double, each once; math/big says which those are.
func TestSpellings(t *testing.T) {
	if got, want := spelled("1788343200123"), []string{"01788343200123", "001788343200123", "0001788343200123", "00001788343200123", "000001788343200123", "0000001788343200123"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := spelled("1789061374248692500"); len(got) != 254 || got[0] != "1789061374248692499" || got[1] != "1789061374248692501" {
		t.Errorf("%d spellings, %q …", len(got), got[:2])
	}
	rapid.Check(t, func(t *rapid.T) {
		digits := rapid.IntRange(1, 22).Draw(t, "digits")
		written := rapid.StringMatching(fmt.Sprintf("[1-9][0-9]{%d}", digits-1)).Draw(t, "written")
		if rapid.Bool().Draw(t, "near a power of two") {
			n := new(big.Int).Lsh(big.NewInt(1), uint(rapid.IntRange(54, 64).Draw(t, "power")))
			written = n.Add(n, big.NewInt(int64(rapid.IntRange(-3000, 3000).Draw(t, "beside")))).String()
		}
		got := spelled(written)
		if len(got) > nonceDigits+2049 {
			t.Fatalf("%d spellings of %s", len(got), written)
		}
		seen := map[string]bool{written: true}
		for _, s := range got {
			if seen[s] || len(s) > nonceDigits {
				t.Fatalf("%s for %s: twice, or too long", s, written)
			}
			seen[s] = true
		}
		want := map[string]bool{written: true}
		for n := len(written); n < nonceDigits; n++ {
			want[strings.Repeat("0", n+1-len(written))+written] = true
		}
		if value, _ := new(big.Int).SetString(written, 10); len(written) >= 17 && value.IsUint64() {
			same, _ := new(big.Float).SetInt(value).Float64()
			for d := int64(-2100); d <= 2100; d++ {
				n := add(value, big.NewInt(d))
				if f, _ := new(big.Float).SetInt(n).Float64(); f == same && len(n.String()) <= nonceDigits {
					want[n.String()] = true
				}
			}
		}
		if len(seen) != len(want) {
			t.Fatalf("%d spellings of %s, want %d", len(seen)-1, written, len(want)-1)
		}
		for s := range want {
			if !seen[s] {
				t.Fatalf("%s is not tried for %s", s, written)
			}
		}
		var s spellings
		if s.of([]byte(written)); s.count < len(got) {
			t.Fatalf("%d spellings of %s, %d announced", len(got), written, s.count)
		}
	})
}

// Whatever a double did to a nonce, or a venue to its zeros, is undone.
func TestRepairLaws(t *testing.T) {
	v := New()
	rapid.Check(t, func(t *rapid.T) {
		signed := rapid.StringMatching(`[1-9][0-9]{16,18}`).Draw(t, "signed")
		exact, shortest := throughDouble(signed)
		written := rapid.SampledFrom([]string{exact, shortest}).Draw(t, "written")
		if rapid.Bool().Draw(t, "zeros") {
			written = rapid.StringMatching(`[1-9][0-9]{0,15}`).Draw(t, "number")
			signed = strings.Repeat("0", rapid.IntRange(1, nonceDigits-len(written)).Draw(t, "zeros lost")) + written
		}
		if signed == written {
			return
		}
		r := damaged(signed, written)
		if nonce, ok, _ := v.Repair(&r, NewBudget(5000)); nonce != signed || !ok {
			t.Fatalf("Repair = %q, %v, want %q from %s", nonce, ok, signed, written)
		}
	})
}

func TestOtherRoom(t *testing.T) {
	rows := signedRows(2, 2)
	home := rows[0].Room
	rows[0].Room = "lobby"
	rooms := []string{"lobby", "Bad Name", "", "mb-p-tclk-0000000000000000", home, "after"}
	v := New()
	b := NewBudget(10)
	if room, untried := v.OtherRoom(&rows[0], rooms, b); room != home || untried || b.Left() != 8 {
		t.Errorf("%q, %v, %d left; want %q after two checks", room, untried, b.Left(), home)
	}
	if room, untried := v.OtherRoom(&rows[0], rooms, NewBudget(1)); room != "" || !untried {
		t.Errorf("with one check: %q, %v", room, untried)
	}
	// Names that are passed over cost nothing, so nothing was left untried.
	if room, untried := v.OtherRoom(&rows[0], rooms[:3], NewBudget(0)); room != "" || untried {
		t.Errorf("no room to try: %q, %v", room, untried)
	}
	if room, untried := v.OtherRoom(&rows[0], nil, NewBudget(5)); room != "" || untried {
		t.Errorf("no rooms: %q, %v", room, untried)
	}
	spoil(&rows[0])
	b = NewBudget(10)
	if room, untried := v.OtherRoom(&rows[0], rooms, b); room != "" || untried || b.Left() != 7 {
		t.Errorf("forged: %q, %v, %d left", room, untried, b.Left())
	}
	if rows[0].Room != "lobby" {
		t.Errorf("the row now stands in %s", rows[0].Room)
	}
}

// One verifier for many keys and rows in turn, as a whole board needs it.
func TestRepairsInTurn(t *testing.T) {
	v := New()
	for i := range 60 {
		key := testKey(fmt.Sprint("turn", i%20))
		r := row(fmt.Sprintf("0%d", 1788343200123+int64(i)), "in turn")
		Sign(key, &r)
		r.Nonce = r.Nonce[1:]
		if nonce, ok, _ := v.Repair(&r, NewBudget(20)); !ok || nonce != "0"+string(r.Nonce) {
			t.Errorf("row %d: %q, %v", i, nonce, ok)
		}
		r.Room = "lobby"
		if nonce, ok, _ := v.Repair(&r, NewBudget(20)); ok {
			t.Errorf("row %d in another room: %q", i, nonce)
		}
	}
}
