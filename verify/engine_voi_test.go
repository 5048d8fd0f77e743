//go:build !novoi

package verify

import (
	"fmt"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/tclk-audit/tclk-audit/protocol"
)

// equationsOf decodes well-formed rows.
func equationsOf(t *testing.T, v *Verifier, rows []protocol.Record) []equation {
	t.Helper()
	eqs := make([]equation, len(rows))
	for i := range rows {
		var sig [64]byte
		key, reason := v.forms(&rows[i], &sig)
		if reason != protocol.ReasonNone || !eqs[i].set(key, &sig, v.covered(&rows[i], key, &sig, rows[i].Nonce)) {
			t.Fatalf("row %d cannot be decoded: %v", i, reason)
		}
	}
	return eqs
}

// Somebody who knows the weights of a batch can add errors that cancel under
// them. The batch so made has other weights, so it must fail, whichever part of
// the rows the errors are put into.
func TestWeightsCannotBeForeseen(t *testing.T) {
	v := New()
	rows := signedRows(3, 2)
	eqs := equationsOf(t, v, rows)
	if !v.engine.allHold(eqs) {
		t.Fatal("honest rows do not hold")
	}
	weight := func(i int) *big.Int {
		var b [32]byte
		if err := v.engine.weights[i].ToBytes(b[:]); err != nil {
			t.Fatal(err)
		}
		return fromLittleEndian(b[:])
	}
	z0, z1 := weight(0), weight(1)
	if z0.BitLen() > 128 || z0.BitLen() < 64 || z0.Cmp(z1) == 0 {
		t.Fatalf("weights %x and %x", z0, z1)
	}
	shift := func(s *[32]byte, by *big.Int) {
		n := add(fromLittleEndian(s[:]), by)
		*s = littleEndian(n.Mod(n, orderL))
	}
	shift(&eqs[0].s, z1)
	shift(&eqs[1].s, new(big.Int).Neg(z0))
	if z0a := z0; v.engine.allHold(eqs) || weight(0).Cmp(z0a) == 0 {
		t.Error("errors that cancel under the weights of the honest batch pass in s")
	}

	// The same through the messages: with another message the hash, and with
	// it every weight, is another.
	changed := signedRows(3, 2)
	changed[2].Text = append(changed[2].Text, '.')
	Sign(testKey(fmt.Sprint("bench", 2*7919%2)), &changed[2])
	if v.engine.allHold(equationsOf(t, v, changed)); weight(0).Cmp(z0) == 0 {
		t.Error("the weight of row 0 does not depend on row 2")
	}
	// And the same rows have the same weights, so that an audit can be repeated.
	if v.engine.allHold(equationsOf(t, v, rows)); weight(0).Cmp(z0) != 0 {
		t.Error("the same batch got another weight")
	}
}

// A sum of products, kept wide, is what math/big makes of it.
func TestWide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w wide
		sum := new(big.Int)
		limb := rapid.OneOf(rapid.Uint64(), rapid.SampledFrom([]uint64{0, 1, 1<<64 - 1, 1 << 63}))
		for range rapid.IntRange(0, 20).Draw(t, "terms") {
			z0, z1 := limb.Draw(t, "z0"), limb.Draw(t, "z1")
			x := [32]byte(rapid.OneOf(rapid.SliceOfN(rapid.Byte(), 32, 32), rapid.Just(make([]byte, 32))).Draw(t, "x"))
			if rapid.Bool().Draw(t, "largest x") {
				for i := range x {
					x[i] = 0xff
				}
			}
			w.addProduct(z0, z1, &x)
			z := add(new(big.Int).SetUint64(z0), new(big.Int).Lsh(new(big.Int).SetUint64(z1), 64))
			sum.Add(sum, mul(z, fromLittleEndian(x[:])))
		}
		reduced := w.reduce()
		var got [32]byte
		if err := reduced.ToBytes(got[:]); err != nil {
			t.Fatal(err)
		}
		if want := littleEndian(sum.Mod(sum, orderL)); got != want {
			t.Fatalf("%x, want %x", got, want)
		}
	})
}

// Few tables are kept, and none is used for another key.
func TestTables(t *testing.T) {
	v := New()
	for i := range 100 {
		r := row("0123", "tables")
		Sign(testKey(fmt.Sprint("table", i%40)), &r)
		r.Nonce = []byte("123")
		if nonce, ok, _ := v.Repair(&r, NewBudget(50)); !ok || nonce != "0123" {
			t.Errorf("row %d: %q, %v", i, nonce, ok)
		}
	}
	for i, m := range v.engine.tables {
		for _, other := range v.engine.tables[i+1:] {
			if m.key == nil || m.key == other.key {
				t.Fatal("a slot is empty, or two hold one key")
			}
		}
	}
}

// rowAllocations is how many allocations a row of a batch may cost.
const rowAllocations = 0.1
