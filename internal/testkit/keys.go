package testkit

import (
	"crypto/ed25519"
	"sync"

	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/verify"
)

// Signer is an Ed25519 key of the venue's signed lane.
type Signer struct {
	DID string // did:key, 56 characters
	Key ed25519.PrivateKey
}

// Party is who takes part in a deal: a signer and the secp256k1 payment key that
// it names in point locks.
type Party struct {
	*Signer
	keys  *Keys
	index int
}

// Payment returns the party's payment key: private scalar and public point.
func (p Party) Payment() (protocol.Scalar, protocol.Point) { return p.keys.Payment(p.index) }

// keyLimit bounds the keys that Keys holds: some 30 MB.
const keyLimit = 1 << 17

// Keys derives any number of keys from a seed. A key depends on the seed and its
// index alone. Keys are made when first asked for and then kept, up to a bound;
// beyond it the kept ones are dropped and derived anew when needed. It may be
// used by several goroutines.
type Keys struct {
	seed  uint64
	limit int

	mu       sync.Mutex
	signers  map[int]*Signer
	payments map[int]payment
}

type payment struct {
	scalar protocol.Scalar
	point  protocol.Point
}

// NewKeys returns the keys of a seed.
func NewKeys(seed uint64) *Keys {
	return &Keys{seed: seed, limit: keyLimit, signers: map[int]*Signer{}, payments: map[int]payment{}}
}

// Signer returns the signer of an index. Equal indexes give equal keys, though
// not always the same pointer.
func (k *Keys) Signer(index int) *Signer {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.signers[index]
	if s == nil {
		seed := digest("ed25519", k.seed, uint64(index))
		priv := ed25519.NewKeyFromSeed(seed[:])
		s = &Signer{DID: verify.EncodeDID([32]byte(priv[32:])), Key: priv}
		if len(k.signers) >= k.limit {
			clear(k.signers)
		}
		k.signers[index] = s
	}
	return s
}

// Party returns the party of an index: the signer and the payment key of that
// index.
func (k *Keys) Party(index int) Party { return Party{k.Signer(index), k, index} }

// Payment returns the payment key of an index: private scalar and public point.
func (k *Keys) Payment(index int) (protocol.Scalar, protocol.Point) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p, ok := k.payments[index]
	if !ok {
		var err error
		source := NewRand(k.seed, "secp256k1").Fork(uint64(index))
		if p.scalar, p.point, err = protocol.GeneratePaymentKey(source); err != nil {
			panic("testkit: a Rand never fails: " + err.Error())
		}
		if len(k.payments) >= k.limit {
			clear(k.payments)
		}
		k.payments[index] = p
	}
	return p.scalar, p.point
}
