package verify

import (
	"encoding/binary"
	"math/bits"
	"strings"
)

// An Ed25519 did:key is "did:key:z" and the base58btc text of 0xed 0x01 and
// the 32 key bytes. Read as one number those 34 bytes lie between 58^46 and
// 58^47, so the text always has 47 digits and 56 characters in all; the two
// leading bytes fix its first digits to "6Mk".
const (
	didPrefix = "did:key:z6Mk"
	didLen    = 56
	didDigits = 47
	multicode = 0xed01
)

const (
	base58Alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
	// Ten base58 digits are the most that fit in 64 bits, so numbers are
	// taken and given ten digits at a time.
	groupDigits = 10
	group       = 58 * 58 * 58 * 58 * 58 * 58 * 58 * 58 * 58 * 58
)

const notBase58 = 0xff

var base58Digits = func() (table [256]byte) {
	for c := range table {
		table[c] = notBase58
		if i := strings.IndexByte(base58Alphabet, byte(c)); i >= 0 {
			table[c] = byte(i)
		}
	}
	return table
}()

// DecodeDID reads an Ed25519 did:key (SPEC §2): exactly 56 characters, did:key:z
// and base58btc of 0xed 0x01 and 32 bytes. Each key has one text and each text
// one key. Whether the 32 bytes are a point on the curve is not asked here.
func DecodeDID(did []byte) (key [32]byte, ok bool) {
	if len(did) != didLen || string(did[:len(didPrefix)]) != didPrefix {
		return key, false
	}
	digits := did[didLen-didDigits:]
	var n [5]uint64 // little-endian limbs; 58^47 < 2^276
	for len(digits) > 0 {
		take := min(groupDigits, len(digits))
		var value, scale uint64 = 0, 1
		for _, c := range digits[:take] {
			d := base58Digits[c]
			if d == notBase58 {
				return key, false
			}
			value = value*58 + uint64(d)
			scale *= 58
		}
		carry := value
		for i := range n {
			hi, lo := bits.Mul64(n[i], scale)
			var c uint64
			n[i], c = bits.Add64(lo, carry, 0)
			carry = hi + c
		}
		digits = digits[take:]
	}
	if n[4] != multicode {
		return key, false
	}
	for i := range 4 {
		binary.BigEndian.PutUint64(key[i*8:], n[3-i])
	}
	return key, true
}

// EncodeDID writes the did:key of an Ed25519 public key, 56 characters.
func EncodeDID(key [32]byte) string {
	n := [5]uint64{4: multicode}
	for i := range 4 {
		n[3-i] = binary.BigEndian.Uint64(key[i*8:])
	}
	var did [didLen]byte
	copy(did[:], didPrefix)
	for end := didLen; end > didLen-didDigits; end -= groupDigits {
		var rem uint64
		for i := len(n) - 1; i >= 0; i-- {
			n[i], rem = bits.Div64(rem, n[i], group)
		}
		for i := end - 1; i >= max(end-groupDigits, didLen-didDigits); i-- {
			did[i] = base58Alphabet[rem%58]
			rem /= 58
		}
	}
	return string(did[:])
}

// keyTail is what differs between two did:keys, enough to look one up.
type keyTail [didLen - len(didPrefix)]byte

// keysPerGeneration bounds one generation of Keys. A busy board holds some
// 80,000 distinct keys, which one takes.
const keysPerGeneration = 96 << 10

// Keys are the decoded keys that several Verifiers share, in two generations:
// when the current one is full it becomes the old one and the old one is
// dropped; a key that is used moves back to the current one. So a flood of
// fresh keys costs memory only up to the bound, 196,608 keys and some 60 MB, and
// keys in use stay.
type Keys struct {
	lock         Locker
	current, old map[keyTail]*key
	count        int // of all keys so far
}

// Locker is what Verifiers in several goroutines need to share Keys, such as a
// sync.Mutex.
type Locker interface {
	Lock()
	Unlock()
}

// NewKeys returns Keys that hold none yet, guarded by lock.
func NewKeys(lock Locker) *Keys { return &Keys{lock: lock} }

// alone is the lock of Keys that nobody shares.
type alone struct{}

func (alone) Lock()   {}
func (alone) Unlock() {}

// key is a public key as a signature check wants it. Once it is among the Keys
// it no longer changes.
type key struct {
	raw    [32]byte // as the did:key spells it; what the signature hashes
	point  keyPoint
	number int  // spreads the keys of a batch: the order in which they were decoded
	shared bool // it is among the Keys
}

// tailOf returns what differs between a did:key and others, false if did cannot
// be one.
func tailOf(did []byte) (tail keyTail, ok bool) {
	if len(did) != didLen || string(did[:len(didPrefix)]) != didPrefix {
		return tail, false
	}
	return keyTail(did[len(didPrefix):]), true
}

// find returns a key that is remembered, else nil. The lock must be held.
func (s *Keys) find(did []byte) *key {
	tail, ok := tailOf(did)
	if !ok {
		return nil
	}
	if k := s.current[tail]; k != nil {
		return k
	}
	k := s.old[tail]
	if k != nil {
		s.put(tail, k)
	}
	return k
}

// put remembers a key. The lock must be held.
func (s *Keys) put(tail keyTail, k *key) {
	if s.current == nil || len(s.current) >= keysPerGeneration {
		s.old, s.current = s.current, make(map[keyTail]*key)
	}
	s.current[tail] = k
}
