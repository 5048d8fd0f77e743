//go:build novoi

package verify

import (
	"crypto/ed25519"

	"github.com/hdevalence/ed25519consensus"
)

// keyPoint is empty: this library decodes keys itself, each time.
type keyPoint struct{}

func (*keyPoint) set(*[32]byte) {}

// equation is one signature and what it covers.
type equation struct {
	key     *key
	sig     [64]byte
	message []byte
}

// set takes a signature over what preimage says behind its first 64 bytes,
// which are R and A.
func (e *equation) set(key *key, sig *[64]byte, preimage []byte) bool {
	e.key, e.sig = key, *sig
	e.message = append(e.message[:0], preimage[64:]...)
	return true
}

// holds checks one equation.
func (e *equation) holds() bool {
	return ed25519consensus.Verify(ed25519.PublicKey(e.key.raw[:]), e.message, e.sig[:])
}

type engine struct{}

// allHold checks all equations at once.
func (engine) allHold(eqs []equation) bool {
	batch := ed25519consensus.NewPreallocatedBatchVerifier(len(eqs))
	for i := range eqs {
		batch.Add(ed25519.PublicKey(eqs[i].key.raw[:]), eqs[i].message, eqs[i].sig[:])
	}
	return batch.Verify()
}

// allStrict cannot tell cheaply whether crypto/ed25519 accepts all of them.
func (engine) allStrict([]equation) bool { return false }

// trial is one signature that many messages are tried under.
type trial struct{ eq equation }

// trial prepares to try about n messages.
func (engine) trial(t *trial, key *key, sig *[64]byte, n int) bool {
	t.eq.key, t.eq.sig = key, *sig
	return true
}

// covers reports whether the signature holds over another preimage, R|A|message.
func (t *trial) covers(preimage []byte) bool {
	t.eq.set(t.eq.key, &t.eq.sig, preimage)
	return t.eq.holds()
}
