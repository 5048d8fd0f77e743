package verify

import (
	"crypto/sha512"
	"math/big"
	"slices"
)

// A third judge beside two libraries: ZIP-215 written down from its definition
// over math/big, with nothing in common with either. Slow, and plain to read.

var (
	fieldP = sub(new(big.Int).Lsh(big.NewInt(1), 255), big.NewInt(19))
	orderL = add(new(big.Int).Lsh(big.NewInt(1), 252), decimal("27742317777372353535851937790883648493"))
	curveD = mod(mul(big.NewInt(-121665), inverse(big.NewInt(121666))))
	basePt = func() affine {
		y := mod(mul(big.NewInt(4), inverse(big.NewInt(5))))
		p, _ := decodePoint(littleEndian(y))
		return p
	}()
)

func add(a, b *big.Int) *big.Int  { return new(big.Int).Add(a, b) }
func sub(a, b *big.Int) *big.Int  { return new(big.Int).Sub(a, b) }
func mul(a, b *big.Int) *big.Int  { return new(big.Int).Mul(a, b) }
func mod(a *big.Int) *big.Int     { return new(big.Int).Mod(a, fieldP) }
func inverse(a *big.Int) *big.Int { return new(big.Int).ModInverse(mod(a), fieldP) }
func decimal(s string) *big.Int   { n, _ := new(big.Int).SetString(s, 10); return n }

func littleEndian(n *big.Int) (b [32]byte) {
	n.FillBytes(b[:])
	slices.Reverse(b[:])
	return b
}

func fromLittleEndian(b []byte) *big.Int {
	r := slices.Clone(b)
	slices.Reverse(r)
	return new(big.Int).SetBytes(r)
}

// affine is a point (x, y) of −x² + y² = 1 + dx²y².
type affine struct{ x, y *big.Int }

// decodePoint takes y modulo p, whatever it is, and any sign bit (ZIP-215).
func decodePoint(b [32]byte) (affine, bool) {
	sign := b[31] >> 7
	b[31] &= 0x7f
	y := mod(fromLittleEndian(b[:]))
	yy := mod(mul(y, y))
	ratio := mod(mul(sub(yy, big.NewInt(1)), inverse(add(mul(curveD, yy), big.NewInt(1)))))
	x := new(big.Int).ModSqrt(ratio, fieldP)
	if x == nil {
		return affine{}, false
	}
	if byte(x.Bit(0)) != sign {
		x = mod(new(big.Int).Neg(x))
	}
	return affine{x, y}, true
}

// encode gives the canonical form.
func (p affine) encode() [32]byte {
	b := littleEndian(p.y)
	b[31] |= byte(p.x.Bit(0)) << 7
	return b
}

// homogeneous is (X/Z, Y/Z), so that a long sum needs one inversion.
type homogeneous struct{ x, y, z *big.Int }

func (p affine) wide() homogeneous { return homogeneous{p.x, p.y, big.NewInt(1)} }

func (p homogeneous) plus(q homogeneous) homogeneous {
	a := mod(mul(p.z, q.z))
	b := mod(mul(a, a))
	c, d := mod(mul(p.x, q.x)), mod(mul(p.y, q.y))
	e := mod(mul(curveD, mul(c, d)))
	f, g := sub(b, e), add(b, e)
	cross := sub(sub(mul(add(p.x, p.y), add(q.x, q.y)), c), d)
	return homogeneous{mod(mul(mod(mul(a, f)), cross)), mod(mul(mod(mul(a, g)), add(d, c))), mod(mul(f, g))}
}

func (p homogeneous) times(n *big.Int) homogeneous {
	sum := homogeneous{big.NewInt(0), big.NewInt(1), big.NewInt(1)}
	for i := n.BitLen() - 1; i >= 0; i-- {
		sum = sum.plus(sum)
		if n.Bit(i) == 1 {
			sum = sum.plus(p)
		}
	}
	return sum
}

func (p homogeneous) affine() affine {
	i := inverse(p.z)
	return affine{mod(mul(p.x, i)), mod(mul(p.y, i))}
}

func (p homogeneous) negated() homogeneous {
	return homogeneous{mod(new(big.Int).Neg(p.x)), p.y, p.z}
}

func (p homogeneous) isIdentity() bool { return p.x.Sign() == 0 && p.y.Cmp(p.z) == 0 }

// challenge is k = SHA-512(R|A|message) modulo the group order.
func challenge(r, a, message []byte) *big.Int {
	h := sha512.Sum512(slices.Concat(r, a, message))
	return new(big.Int).Mod(fromLittleEndian(h[:]), orderL)
}

// zip215 is the rule: s < L, and 8(sB − R − kA) is the neutral element.
func zip215(key [32]byte, message []byte, sig [64]byte) bool {
	s := fromLittleEndian(sig[32:])
	a, okA := decodePoint(key)
	r, okR := decodePoint([32]byte(sig[:32]))
	if !okA || !okR || s.Cmp(orderL) >= 0 {
		return false
	}
	k := challenge(sig[:32], key[:], message)
	rest := basePt.wide().times(s).plus(r.wide().negated()).plus(a.wide().times(k).negated())
	return rest.times(big.NewInt(8)).isIdentity()
}

// torsion returns the eight points of small order, the neutral element first.
func torsion() []affine {
	// Any point times L is of small order; look for one of order 8.
	for y := int64(2); ; y++ {
		p, ok := decodePoint(littleEndian(big.NewInt(y)))
		if !ok {
			continue
		}
		t := p.wide().times(orderL)
		if t.times(big.NewInt(4)).isIdentity() {
			continue
		}
		var all []affine
		for i := range int64(8) {
			all = append(all, t.times(big.NewInt(i)).affine())
		}
		return all
	}
}

// smallOrderEncodings returns every 32 bytes that decode to a point of small
// order: 8 canonical forms and 6 others.
func smallOrderEncodings() [][32]byte {
	var all [][32]byte
	for _, p := range torsion() {
		all = append(all, p.encode())
	}
	known := slices.Clone(all)
	for _, p := range torsion() {
		for _, y := range []*big.Int{p.y, add(p.y, fieldP)} {
			if y.BitLen() > 255 {
				continue
			}
			for sign := range byte(2) {
				b := littleEndian(y)
				b[31] |= sign << 7
				q, ok := decodePoint(b)
				if ok && q.wide().times(big.NewInt(8)).isIdentity() && !slices.Contains(known, b) {
					known = append(known, b)
					all = append(all, b)
				}
			}
		}
	}
	return all
}
