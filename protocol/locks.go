package protocol

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
)

// Valid reports whether the point is on the curve: a SEC1-compressed
// secp256k1 point, 02 or 03 and an x coordinate below the field prime that the
// curve has (SPEC §3). The zero value, which means "absent", is not valid.
func (p Point) Valid() bool {
	var x, y2 secp256k1.FieldVal
	if p[0] != 2 && p[0] != 3 || x.SetByteSlice(p[1:]) {
		return false
	}
	// The y of a point is a square root, and dear. That it exists is all that is
	// asked: x³+7 must be a square, which its Jacobi symbol tells.
	y2.SquareVal(&x).Mul(&x).AddInt(7).Normalize()
	return isSquare(y2.Bytes())
}

// jacobian decompresses the point with Z = 1.
func (p Point) jacobian() (j secp256k1.JacobianPoint, ok bool) {
	if p[0] != 2 && p[0] != 3 {
		return j, false
	}
	if overflow := j.X.SetByteSlice(p[1:]); overflow {
		return j, false
	}
	if !secp256k1.DecompressY(&j.X, p[0] == 3, &j.Y) {
		return j, false
	}
	j.Z.SetInt(1)
	return j, true
}

// compressPoint writes a point in its 33 bytes; false for the point at infinity,
// which has no compressed form.
func compressPoint(j *secp256k1.JacobianPoint) (p Point, ok bool) {
	if j.Z.IsZero() || (j.X.IsZero() && j.Y.IsZero()) {
		return p, false
	}
	j.ToAffine()
	p[0] = 2
	if j.Y.IsOdd() {
		p[0] = 3
	}
	j.X.PutBytesUnchecked(p[1:])
	return p, true
}

// scalarFrom reads a big-endian scalar; false for 0 and for anything not below
// the group order, which the protocol never reduces silently.
func scalarFrom(b [32]byte) (k secp256k1.ModNScalar, ok bool) {
	overflow := k.SetBytes(&b)
	return k, overflow == 0 && !k.IsZero()
}

// Valid reports whether the scalar is in 1 … n−1.
func (s Scalar) Valid() bool {
	_, ok := scalarFrom(s)
	return ok
}

// Point returns the scalar times the generator: the public key of a private
// key. It is false for 0 and for scalars not below the group order. The
// multiplication is not constant-time.
func (s Scalar) Point() (Point, bool) {
	k, ok := scalarFrom(s)
	if !ok {
		return Point{}, false
	}
	var j secp256k1.JacobianPoint
	secp256k1.ScalarBaseMultNonConst(&k, &j)
	return compressPoint(&j)
}

// Point returns the point of a point lock's statement; false for other
// statements.
func (s Statement) Point() (Point, bool) {
	if s.n != 33 {
		return Point{}, false
	}
	return s.b, true
}

// Valid reports whether a lock can be opened under the statement at all: any
// 32 bytes of a hash lock, a point on the curve of a point lock.
func (s Statement) Valid() bool {
	if s.n == 33 {
		return Point(s.b).Valid()
	}
	return s.n == 32
}

// Opens reports whether the secret opens the statement (SPEC §3.4):
// sha256(secret) equals it, or secret·G is its point. A secret that is 0 or not
// below the group order opens no point statement, and nothing opens an absent
// statement or a point that is not on the curve.
func (s Statement) Opens(secret Secret) bool {
	switch s.n {
	case 32:
		digest := sha256.Sum256(secret[:])
		return digest == [32]byte(s.b[:32])
	case 33:
		want, ok := Point(s.b).jacobian()
		if !ok {
			return false
		}
		k, ok := scalarFrom(secret)
		if !ok {
			return false
		}
		var got secp256k1.JacobianPoint
		secp256k1.ScalarBaseMultNonConst(&k, &got)
		// Comparing the points spares the inversion that compressing costs.
		return got.EquivalentNonConst(&want)
	}
	return false
}

// GenerateHashLock mints a 32-byte preimage from r and the statement that it
// opens (SPEC §3.2). The payee keeps the secret until it claims. r must be a
// cryptographic random source, crypto/rand.Reader outside tests; the error is
// r's.
func GenerateHashLock(r io.Reader) (Secret, Statement, error) {
	var secret Secret
	if err := fill(r, secret[:]); err != nil {
		return Secret{}, Statement{}, fmt.Errorf("protocol: mint a hash lock: %w", err)
	}
	return secret, HashStatement(sha256.Sum256(secret[:])), nil
}

// GeneratePointLock mints a scalar witness from r and the point statement that
// it opens (SPEC §3.2). The payee keeps the witness until it claims. r must be
// a cryptographic random source; the error is r's.
func GeneratePointLock(r io.Reader) (Secret, Statement, error) {
	k, p, err := mintKey(r)
	if err != nil {
		return Secret{}, Statement{}, fmt.Errorf("protocol: mint a point lock: %w", err)
	}
	return Secret(k), PointStatement(p), nil
}

// GeneratePaymentKey mints a secp256k1 key pair for the paymentKey of an offer
// or accept: the private scalar and its point. r must be a cryptographic random
// source; the error is r's.
func GeneratePaymentKey(r io.Reader) (Scalar, Point, error) {
	k, p, err := mintKey(r)
	if err != nil {
		return Scalar{}, Point{}, fmt.Errorf("protocol: mint a payment key: %w", err)
	}
	return k, p, nil
}

func mintKey(r io.Reader) (Scalar, Point, error) {
	k, err := mintScalar(r)
	if err != nil {
		return Scalar{}, Point{}, err
	}
	s := Scalar(k.Bytes())
	p, ok := s.Point()
	if !ok {
		return Scalar{}, Point{}, errBrokenRandom
	}
	return s, p, nil
}

// maxScalarDraws bounds the draws for one scalar. A sound source misses once in
// about 2^128 draws, so a second miss already means a broken one.
const maxScalarDraws = 8

var errBrokenRandom = errors.New("the random source gave no scalar in 1…n−1; use crypto/rand.Reader")

// mintScalar draws a scalar in 1 … n−1 by rejection, so that no value is
// likelier than another.
func mintScalar(r io.Reader) (secp256k1.ModNScalar, error) {
	var b [32]byte
	for range maxScalarDraws {
		if err := fill(r, b[:]); err != nil {
			return secp256k1.ModNScalar{}, err
		}
		if k, ok := scalarFrom(b); ok {
			return k, nil
		}
	}
	return secp256k1.ModNScalar{}, errBrokenRandom
}

// maxEmptyReads bounds how often a source may answer with neither bytes nor an
// error.
const maxEmptyReads = 100

// fill reads exactly len(b) bytes.
func fill(r io.Reader, b []byte) error {
	if r == nil {
		return errors.New("no random source was given; pass crypto/rand.Reader")
	}
	empty := 0
	for have := 0; have < len(b); {
		n, err := r.Read(b[have:])
		if n < 0 || n > len(b)-have {
			return errors.New("the random source claims to have read more than was asked for")
		}
		have += n
		if have == len(b) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("the random source gave %d of %d bytes: %w", have, len(b), err)
		}
		if n == 0 {
			if empty++; empty >= maxEmptyReads {
				return fmt.Errorf("the random source gave %d of %d bytes and then nothing", have, len(b))
			}
		}
	}
	return nil
}
