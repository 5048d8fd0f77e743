package protocol

import (
	"encoding/binary"
	"math/bits"
)

// primeLimbs is the prime of secp256k1's field, least significant limb first.
var primeLimbs = [4]uint64{0xfffffffefffffc2f, ^uint64(0), ^uint64(0), ^uint64(0)}

// isSquare reports whether a big-endian number below the field prime has a
// square root in the field; 0 has. It computes the Jacobi symbol with the
// binary algorithm, several times faster than the root itself. Its time depends
// on its argument: it is for public points only.
func isSquare(b *[32]byte) bool {
	var a [4]uint64
	for i := range a {
		a[i] = binary.BigEndian.Uint64(b[24-8*i:])
	}
	n := primeLimbs
	flip := uint64(0) // its low bit: the symbol so far is −1
	for a != ([4]uint64{}) {
		zeros := shiftOdd(&a)
		// (2/n) is −1 where n is 3 or 5 modulo 8.
		flip ^= uint64(zeros) & ((n[0] >> 1) ^ (n[0] >> 2))
		if less(&a, &n) {
			// Reciprocity: the sign turns where both are 3 modulo 4.
			flip ^= (a[0] & n[0]) >> 1
			a, n = n, a
		}
		subtract(&a, &n)
	}
	return flip&1 == 0
}

// shiftOdd divides a, which is not 0, by two until it is odd, and returns how
// often.
func shiftOdd(a *[4]uint64) (zeros int) {
	for a[0] == 0 {
		a[0], a[1], a[2], a[3] = a[1], a[2], a[3], 0
		zeros += 64
	}
	k := bits.TrailingZeros64(a[0])
	a[0] = a[0]>>k | a[1]<<(64-k)
	a[1] = a[1]>>k | a[2]<<(64-k)
	a[2] = a[2]>>k | a[3]<<(64-k)
	a[3] >>= k
	return zeros + k
}

func less(a, b *[4]uint64) bool {
	_, borrow := bits.Sub64(a[0], b[0], 0)
	_, borrow = bits.Sub64(a[1], b[1], borrow)
	_, borrow = bits.Sub64(a[2], b[2], borrow)
	_, borrow = bits.Sub64(a[3], b[3], borrow)
	return borrow != 0
}

func subtract(a, b *[4]uint64) {
	var borrow uint64
	a[0], borrow = bits.Sub64(a[0], b[0], 0)
	a[1], borrow = bits.Sub64(a[1], b[1], borrow)
	a[2], borrow = bits.Sub64(a[2], b[2], borrow)
	a[3], _ = bits.Sub64(a[3], b[3], borrow)
}
