package protocol

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
)

// Signature is a completed Schnorr signature, a nonce point and a scalar: what a
// settlement rail sees, and what an adaptor [PreSignature] becomes (SPEC §3.3).
//
// UNAUDITED. The adaptor functions of this package are reference cryptography,
// there to show and to check the cycle of pre-sign, adapt and extract. They are
// not constant-time, and no value should ride on them (SPEC §7).
//
// They are full Schnorr over secp256k1 with compressed 33-byte points, not
// BIP-340. With key x, public key P = x·G, statement Y = y·G, a random k and
// R = k·G:
//
//	c   = sha256(R+Y ‖ P ‖ message) mod n
//	pre = (R,   k + c·x)        s·G = R + c·P
//	sig = (R+Y, k + c·x + y)    s·G = R+Y + c·P
//
// Whoever holds both learns y as the difference of their scalars.
type Signature struct {
	Nonce Point
	S     Scalar
}

// challenge is c for the nonce point of the completed signature.
func challenge(nonce, pub Point, msg []byte) secp256k1.ModNScalar {
	h := sha256.New()
	h.Write(nonce[:])
	h.Write(pub[:])
	h.Write(msg)
	var c secp256k1.ModNScalar
	c.SetByteSlice(h.Sum(nil))
	return c
}

// PreSign makes the payer's adaptor pre-signature over a rail's claim message
// under a point lock's statement (SPEC §3.3). UNAUDITED, see [Signature].
// The holder of the statement's witness completes it with [Adapt]. key must be
// in 1 … n−1 and statement on the curve. r must be a cryptographic random
// source; its bytes are hashed together with the key and the message, so that
// one that repeats itself does not give the key away.
func PreSign(key Scalar, msg []byte, statement Point, r io.Reader) (PreSignature, error) {
	x, ok := scalarFrom(key)
	if !ok {
		return PreSignature{}, errors.New("protocol: pre-sign: the key is 0 or not below the group order")
	}
	y, ok := statement.jacobian()
	if !ok {
		return PreSignature{}, errors.New("protocol: pre-sign: the statement is not a point on the curve")
	}
	pub, _ := key.Point()
	var fresh [32]byte
	if err := fill(r, fresh[:]); err != nil {
		return PreSignature{}, fmt.Errorf("protocol: pre-sign: %w", err)
	}
	for try := range byte(maxScalarDraws) {
		k, ok := preSignNonce(key, &fresh, statement, msg, try)
		if !ok {
			continue
		}
		var rj, sum secp256k1.JacobianPoint
		secp256k1.ScalarBaseMultNonConst(&k, &rj)
		secp256k1.AddNonConst(&rj, &y, &sum)
		full, ok := compressPoint(&sum)
		if !ok {
			continue
		}
		c := challenge(full, pub, msg)
		s := c.Mul(&x).Add(&k)
		if s.IsZero() {
			continue
		}
		nonce, _ := compressPoint(&rj)
		return PreSignature{Nonce: nonce, S: s.Bytes()}, nil
	}
	return PreSignature{}, fmt.Errorf("protocol: pre-sign: %w", errBrokenRandom)
}

// preSignNonce derives k. Every part but the message has a fixed length.
func preSignNonce(key Scalar, fresh *[32]byte, statement Point, msg []byte, try byte) (secp256k1.ModNScalar, bool) {
	h := sha256.New()
	h.Write([]byte("FLOP::tclk::v1|presign-nonce|"))
	h.Write([]byte{try})
	h.Write(key[:])
	h.Write(fresh[:])
	h.Write(statement[:])
	h.Write(msg)
	return scalarFrom([32]byte(h.Sum(nil)))
}

// VerifyPreSignature reports whether pre is a pre-signature by pub, the payer's
// paymentKey, over msg under the statement (SPEC §3.3). UNAUDITED, see
// [PreSignature]. A true answer means that the witness of the statement
// completes it to a signature that verifies. Points off the curve and scalars
// outside 1 … n−1 are false. Which msg a rail signs stands in no transcript.
func VerifyPreSignature(pub Point, msg []byte, statement Point, pre PreSignature) bool {
	full, ok := addPoints(pre.Nonce, statement)
	return ok && schnorrHolds(pub, msg, full, pre.Nonce, pre.S)
}

// VerifySignature reports whether sig is a Schnorr signature by pub over msg,
// in the form that [Adapt] makes. UNAUDITED, see [Signature]. Points off the
// curve and scalars outside 1 … n−1 are false.
func VerifySignature(pub Point, msg []byte, sig Signature) bool {
	return schnorrHolds(pub, msg, sig.Nonce, sig.Nonce, sig.S)
}

// schnorrHolds is s·G = nonce + c·pub, with the challenge over full.
func schnorrHolds(pub Point, msg []byte, full, nonce Point, s Scalar) bool {
	p, ok := pub.jacobian()
	if !ok {
		return false
	}
	n, ok := nonce.jacobian()
	if !ok {
		return false
	}
	k, ok := scalarFrom(s)
	if !ok {
		return false
	}
	c := challenge(full, pub, msg)
	var left, right secp256k1.JacobianPoint
	secp256k1.ScalarBaseMultNonConst(&k, &left)
	secp256k1.ScalarMultNonConst(&c, &p, &right)
	secp256k1.AddNonConst(&right, &n, &right)
	return left.EquivalentNonConst(&right)
}

// Adapt completes a pre-signature with the witness of its statement
// (SPEC §3.3). UNAUDITED, see [Signature]. It does not know the payer's key
// or the message: the payee runs [VerifyPreSignature] before it relies on a
// pre-signature. A witness outside 1 … n−1 or a malformed pre-signature is an
// error.
func Adapt(pre PreSignature, witness Secret) (Signature, error) {
	y, ok := scalarFrom(witness)
	if !ok {
		return Signature{}, errors.New("protocol: adapt: the witness is 0 or not below the group order")
	}
	s, ok := scalarFrom(pre.S)
	if !ok {
		return Signature{}, errors.New("protocol: adapt: the pre-signature's scalar is 0 or not below the group order")
	}
	statement, _ := Scalar(witness).Point()
	full, ok := addPoints(pre.Nonce, statement)
	if !ok {
		return Signature{}, errors.New("protocol: adapt: the pre-signature's nonce is not on the curve or cancels the statement")
	}
	if s.Add(&y).IsZero() {
		return Signature{}, errors.New("protocol: adapt: the completed scalar is 0; the pre-signature was made for this witness to fail")
	}
	return Signature{Nonce: full, S: s.Bytes()}, nil
}

// ExtractWitness recovers the witness of a statement from a pre-signature and
// the signature that it was completed to (SPEC §3.3). UNAUDITED, see
// [PreSignature]. It is false unless the signature's nonce is the
// pre-signature's plus the statement, so that it really is this pre-signature's
// completion, and the result opens the statement.
func ExtractWitness(pre PreSignature, sig Signature, statement Point) (Secret, bool) {
	full, ok := addPoints(pre.Nonce, statement)
	if !ok || full != sig.Nonce {
		return Secret{}, false
	}
	before, ok := scalarFrom(pre.S)
	if !ok {
		return Secret{}, false
	}
	after, ok := scalarFrom(sig.S)
	if !ok {
		return Secret{}, false
	}
	witness := Secret(after.Add(before.Negate()).Bytes())
	if !PointStatement(statement).Opens(witness) {
		return Secret{}, false
	}
	return witness, true
}

// addPoints adds two points; false where one is not on the curve or the sum is
// the point at infinity.
func addPoints(a, b Point) (Point, bool) {
	ja, ok := a.jacobian()
	if !ok {
		return Point{}, false
	}
	jb, ok := b.jacobian()
	if !ok {
		return Point{}, false
	}
	var sum secp256k1.JacobianPoint
	secp256k1.AddNonConst(&ja, &jb, &sum)
	return compressPoint(&sum)
}
