package protocol

import (
	"crypto/sha256"
	"encoding/binary"
	"math/big"
	"testing"
)

// Valid gives the answer that taking the square root gives, for x coordinates
// all over the field and at its ends.
func TestValidAgreesWithTheRoot(t *testing.T) {
	try := func(x [32]byte) {
		t.Helper()
		for _, sign := range []byte{0, 1, 2, 3, 4, 0xff} {
			p := Point{0: sign}
			copy(p[1:], x[:])
			if _, want := p.jacobian(); p.Valid() != want {
				t.Fatalf("%x: valid %v, the root says %v", p, p.Valid(), want)
			}
		}
	}
	valid := 0
	n := 20_000
	for i := range n {
		x := sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(i)))
		try(x)
		p := Point{0: 2}
		copy(p[1:], x[:])
		if p.Valid() {
			valid++
		}
	}
	if valid < n*45/100 || valid > n*55/100 {
		t.Errorf("%d of %d random x are on the curve", valid, n)
	}
	prime, _ := new(big.Int).SetString("fffffffffffffffffffffffffffffffffffffffffffffffffffffffefffffc2f", 16)
	for d := int64(-300); d <= 300; d++ {
		for _, base := range []*big.Int{new(big.Int), prime, new(big.Int).Lsh(big.NewInt(1), 64), new(big.Int).Lsh(big.NewInt(1), 192)} {
			v := new(big.Int).Add(base, big.NewInt(d))
			if v.Sign() < 0 || v.BitLen() > 256 {
				continue
			}
			var x [32]byte
			v.FillBytes(x[:])
			try(x)
		}
	}
}

// The symbol agrees with math/big's.
func TestIsSquare(t *testing.T) {
	prime, _ := new(big.Int).SetString("fffffffffffffffffffffffffffffffffffffffffffffffffffffffefffffc2f", 16)
	check := func(v *big.Int) {
		t.Helper()
		var b [32]byte
		v.FillBytes(b[:])
		if got, want := isSquare(&b), big.Jacobi(v, prime) >= 0; got != want {
			t.Fatalf("%x: %v, want %v", b, got, want)
		}
	}
	for i := range 5000 {
		h := sha256.Sum256(binary.BigEndian.AppendUint64([]byte("square"), uint64(i)))
		v := new(big.Int).SetBytes(h[:])
		check(v.Mod(v, prime))
		check(new(big.Int).Rsh(v, uint(i%250)))
		check(new(big.Int).Mod(new(big.Int).Lsh(v, uint(i%250)), prime))
	}
	for i := int64(0); i < 1000; i++ {
		check(big.NewInt(i))
		check(new(big.Int).Sub(prime, big.NewInt(i+1)))
	}
}

func BenchmarkPointValid(b *testing.B) {
	x := sha256.Sum256([]byte("x"))
	p := Point{0: 2}
	copy(p[1:], x[:])
	for b.Loop() {
		p.Valid()
	}
}
