package protocol

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
)

// MaxShares is the largest committee that a secret is split for.
const MaxShares = 255

// SplitSecret splits the preimage of a hash lock into n shares for a unanimous
// committee, 2 ≤ n ≤ MaxShares (SPEC §8.2). The XOR of all shares is the
// preimage; any fewer say nothing about it. One share that goes missing means
// that nobody can claim and the deal refunds. r must be a cryptographic random
// source.
func SplitSecret(secret Secret, n int, r io.Reader) ([]Secret, error) {
	if err := checkShares(n); err != nil {
		return nil, fmt.Errorf("protocol: split a secret: %w", err)
	}
	shares := make([]Secret, n)
	last := secret
	for i := range n - 1 {
		if err := fill(r, shares[i][:]); err != nil {
			return nil, fmt.Errorf("protocol: split a secret: %w", err)
		}
		xorInto(&last, &shares[i])
	}
	shares[n-1] = last
	if err := checkSplit(secret, shares); err != nil {
		return nil, fmt.Errorf("protocol: split a secret: %w", err)
	}
	return shares, nil
}

// CombineSecret joins the shares of SplitSecret, in any order (SPEC §8.2).
// Shares carry no mark of their committee: with one missing, foreign or wrong
// the result is another preimage, so test it with [Statement.Opens]. No shares,
// more than MaxShares or one share given twice are errors.
func CombineSecret(shares ...Secret) (Secret, error) {
	if err := checkCombine(shares); err != nil {
		return Secret{}, fmt.Errorf("protocol: combine a secret: %w", err)
	}
	var whole Secret
	for i := range shares {
		xorInto(&whole, &shares[i])
	}
	return whole, nil
}

func xorInto(dst, src *Secret) {
	for i := range dst {
		dst[i] ^= src[i]
	}
}

// SplitWitness splits the scalar witness of a point lock into n shares for a
// unanimous committee, 2 ≤ n ≤ MaxShares (SPEC §8.2). The sum of all shares
// modulo the group order is the witness. Each share is itself in 1 … n−1 of the
// group. r must be a cryptographic random source; a witness out of range is an
// error.
func SplitWitness(witness Secret, n int, r io.Reader) ([]Secret, error) {
	if err := checkShares(n); err != nil {
		return nil, fmt.Errorf("protocol: split a witness: %w", err)
	}
	whole, ok := scalarFrom(witness)
	if !ok {
		return nil, errors.New("protocol: split a witness: the witness is 0 or not below the group order")
	}
	shares := make([]Secret, n)
	for range maxScalarDraws {
		last := whole
		for i := range n - 1 {
			k, err := mintScalar(r)
			if err != nil {
				return nil, fmt.Errorf("protocol: split a witness: %w", err)
			}
			shares[i] = k.Bytes()
			last.Add(k.Negate())
		}
		if last.IsZero() {
			continue
		}
		shares[n-1] = last.Bytes()
		if err := checkSplit(witness, shares); err != nil {
			return nil, fmt.Errorf("protocol: split a witness: %w", err)
		}
		return shares, nil
	}
	return nil, fmt.Errorf("protocol: split a witness: %w", errBrokenRandom)
}

// CombineWitness joins the shares of SplitWitness, or scalars that the jurors
// minted on their own, in any order (SPEC §8.2). Shares carry no mark of their
// committee: test the result with [Statement.Opens]. No shares, more than
// MaxShares, one share given twice, a share out of range or a sum of 0 are
// errors.
func CombineWitness(shares ...Secret) (Secret, error) {
	if err := checkCombine(shares); err != nil {
		return Secret{}, fmt.Errorf("protocol: combine a witness: %w", err)
	}
	var whole secp256k1.ModNScalar
	for i := range shares {
		k, ok := scalarFrom(shares[i])
		if !ok {
			return Secret{}, fmt.Errorf("protocol: combine a witness: share %d is 0 or not below the group order", i+1)
		}
		whole.Add(&k)
	}
	if whole.IsZero() {
		return Secret{}, errors.New("protocol: combine a witness: the shares add up to 0, which opens nothing")
	}
	return whole.Bytes(), nil
}

func checkShares(n int) error {
	if n < 2 || n > MaxShares {
		return fmt.Errorf("%d shares asked for, 2 to %d are possible", n, MaxShares)
	}
	return nil
}

// checkSplit catches a random source that would hand the whole to one juror, or
// one share to two.
func checkSplit(whole Secret, shares []Secret) error {
	if err := checkCombine(shares); err != nil || slices.Contains(shares, whole) {
		return errors.New("the random source repeats itself; use crypto/rand.Reader")
	}
	return nil
}

func checkCombine(shares []Secret) error {
	if len(shares) == 0 || len(shares) > MaxShares {
		return fmt.Errorf("%d shares given, 1 to %d are possible", len(shares), MaxShares)
	}
	// A share given twice hides that another is missing, and with XOR it
	// cancels itself out.
	seen := make(map[Secret]int, len(shares))
	for i, s := range shares {
		if first, twice := seen[s]; twice {
			return fmt.Errorf("shares %d and %d are the same", first+1, i+1)
		}
		seen[s] = i
	}
	return nil
}
