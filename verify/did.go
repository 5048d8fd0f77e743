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

// keysPerGeneration bounds one half of a keyTable. A busy board holds some
// 80,000 distinct keys, which one half takes.
const keysPerGeneration = 96 << 10

// keyTable remembers decoded keys by their did:key. It keeps two generations:
// when the current one is full it becomes the old one and the old one is
// dropped; a key that is used moves back to the current one. So a flood of
// fresh keys costs memory only up to the bound, and keys in use stay.
type keyTable struct {
	current, old map[keyTail]*key
}

// key is a public key as a signature check wants it.
type key struct {
	raw   [32]byte // as the did:key spells it; what the signature hashes
	point keyPoint
}

// get returns the key that a did:key names, nil if it is none.
func (t *keyTable) get(did []byte) *key {
	if len(did) != didLen || string(did[:len(didPrefix)]) != didPrefix {
		return nil
	}
	tail := keyTail(did[len(didPrefix):])
	if k := t.current[tail]; k != nil {
		return k
	}
	k := t.old[tail]
	if k == nil {
		raw, ok := DecodeDID(did)
		if !ok {
			return nil
		}
		k = &key{raw: raw}
		k.point.set(&k.raw)
	}
	if t.current == nil || len(t.current) >= keysPerGeneration {
		t.old, t.current = t.current, make(map[keyTail]*key)
	}
	t.current[tail] = k
	return k
}
