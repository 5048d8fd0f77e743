// Package verify judges whether a row was signed by the key that it names.
//
// On the board every signed row carries a did:key, a nonce and an Ed25519
// signature over room|nonce|text. This package answers, for one row or for
// many at once, whether that signature holds in that room; it finds out when a
// row fails only because somebody lost digits of its nonce or put it into
// another room; and it signs rows, for tests and clients. It knows nothing of
// frames or contracts.
//
// The rule is ZIP-215 (cofactored, non-canonical encodings of A and R
// accepted, s < L): the reference fold's rule, and the only common one under
// which a batch and a single check can never disagree. Strict gives the
// narrower answer of crypto/ed25519, which is the venue's.
//
// The package is pure: no clock, no goroutine, no randomness, no I/O. Built
// with the tag novoi it uses another Ed25519 library: slower, same answers.
package verify

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"slices"

	"github.com/tclk-audit/tclk-audit/protocol"
)

// Class says what a row's signature is worth. The zero value means that
// nobody has looked yet.
type Class uint8

// The classes. The numbers are stable: stores keep them.
const (
	Unchecked Class = 0
	Authentic Class = 1 // the signature holds for the row as written
	Repaired  Class = 2 // it holds only with the nonce spelled otherwise
	Unsigned  Class = 3 // there is no nonce or no signature to check
	Invalid   Class = 4 // a form is wrong, or the signature does not hold
)

var classText = [...]string{"unchecked", "authentic", "repaired", "unsigned", "invalid"}

// String returns the word for the class, as reports and stores use it.
func (c Class) String() string {
	if int(c) < len(classText) {
		return classText[c]
	}
	return "unknown-class"
}

// Result is the judgement on one row. Check and CheckBatch set Class (never
// Repaired), Reason and NotStrict; the other fields are for a caller that goes on to
// Repair and OtherRoom, so that all that is known of a row travels together.
type Result struct {
	Class Class
	// Reason is ReasonNone for Authentic, Unsigned for Unsigned; for Invalid
	// it is RoomName, NonceForm, SignatureForm, SenderNotDID or
	// SignatureInvalid; for Repaired it is SignatureInvalid.
	Reason protocol.Reason
	// NotStrict marks an Authentic row that crypto/ed25519 and the venue refuse.
	NotStrict   bool
	SignedNonce string // Repaired: the nonce that the signature covers
	OtherRoom   string // Invalid: a room in which the signature holds, if one was found
	Untried     bool   // Invalid: the budget ran out before every candidate was tried
}

// Verifier judges rows. It keeps the keys it has decoded and scratch space for
// one batch (about 2 MB), so reuse it; it is not for concurrent use: make one
// for each worker, all of them with the same Keys. What it has seen before
// changes what an answer costs, never the answer.
type Verifier struct {
	keys      *Keys
	found     []*key           // of the rows of a CheckBatch, where keys had them
	fresh     map[keyTail]*key // decoded since, not yet among keys
	engine    engine
	pace      pace
	room      string // the last room found well-formed
	preimage  []byte
	equations []equation
	rows      []int // rows[i] is the row that equations[i] came from
}

// New returns a Verifier that has seen nothing, with Keys of its own.
func New() *Verifier { return NewSharing(NewKeys(alone{})) }

// NewSharing returns a Verifier that has seen nothing but what keys hold.
func NewSharing(keys *Keys) *Verifier {
	return &Verifier{keys: keys, fresh: make(map[keyTail]*key), pace: newPace()}
}

// Check judges one row (SPEC §2). It tries no repair. Reasons are looked for
// in this order: RoomName, Unsigned, NonceForm, SignatureForm, SenderNotDID,
// SignatureInvalid. A nil Nonce or Sig is absent; an empty one is malformed.
func (v *Verifier) Check(r *protocol.Record) Result {
	var sig [64]byte
	key, reason := v.forms(r, &sig)
	if reason != protocol.ReasonNone {
		return refused(reason)
	}
	var eq equation
	if !eq.set(key, &sig, v.covered(r, key, &sig, r.Nonce)) || !eq.holds() {
		return refused(protocol.SignatureInvalid)
	}
	return Result{Class: Authentic, NotStrict: !Strict(r)}
}

// CheckBatch judges rs[i] into out[i], exactly as Check would, at a fraction of
// the cost: rows are checked many at a time, and only where such a batch fails
// one by one. len(out) must equal len(rs). It is cheapest for some thousands
// of rows a call; rows of one key share work.
func (v *Verifier) CheckBatch(rs []protocol.Record, out []Result) {
	out = out[:len(rs)]
	v.find(rs)
	defer v.share()
	for next := 0; next < len(rs); {
		want := v.pace.want(len(rs) - next)
		if grow := want - len(v.equations); grow > 0 {
			v.equations = append(v.equations, make([]equation, grow)...)
			v.rows = append(v.rows, make([]int, grow)...)
		}
		n := 0
		for ; next < len(rs) && n < want; next++ {
			var sig [64]byte
			key, reason := v.formsOf(&rs[next], &sig, v.found[next])
			if reason != protocol.ReasonNone {
				out[next] = refused(reason)
				continue
			}
			if !v.equations[n].set(key, &sig, v.covered(&rs[next], key, &sig, rs[next].Nonce)) {
				out[next] = refused(protocol.SignatureInvalid)
				continue
			}
			v.rows[n] = next
			n++
		}
		v.settle(n, rs, out)
	}
}

// settle answers for the first n equations: together if they are worth it and
// all hold, else one by one.
func (v *Verifier) settle(n int, rs []protocol.Record, out []Result) {
	batched := n >= leastBatch && !v.pace.resting()
	if batched && v.engine.allHold(v.equations[:n]) {
		v.pace.held(n)
		for _, row := range v.rows[:n] {
			out[row] = Result{Class: Authentic}
		}
		v.strict(n, rs, out)
		return
	}
	good := 0
	for i, row := range v.rows[:n] {
		if !v.equations[i].holds() {
			out[row] = refused(protocol.SignatureInvalid)
			continue
		}
		out[row] = Result{Class: Authentic}
		v.equations[good], v.equations[i] = v.equations[i], v.equations[good]
		v.rows[good], v.rows[i] = row, v.rows[good]
		good++
	}
	v.strict(good, rs, out)
	if batched {
		v.pace.failed(n)
	} else {
		v.pace.single(n)
	}
}

// strict marks those of the first n rows, all authentic, that crypto/ed25519
// refuses. Such rows are rare, and checking each row a second time would cost
// more than all the rest: so the engine is asked first whether the n can hold
// any.
func (v *Verifier) strict(n int, rs []protocol.Record, out []Result) {
	if n > fewRows && v.engine.allStrict(v.equations[:n]) {
		return
	}
	for _, row := range v.rows[:n] {
		out[row].NotStrict = !Strict(&rs[row])
	}
}

// fewRows is the number of rows up to which checking each is cheaper than
// asking about all.
const fewRows = 6

// begin gives a zero Verifier Keys of its own.
func (v *Verifier) begin() {
	if v.keys == nil {
		*v = *New()
	}
}

// find looks up the keys of many rows, so that the lock is taken once for all.
func (v *Verifier) find(rs []protocol.Record) {
	v.begin()
	v.found = slices.Grow(v.found[:0], len(rs))[:len(rs)]
	v.keys.lock.Lock()
	defer v.keys.lock.Unlock()
	for i := range rs {
		v.found[i] = v.keys.find(rs[i].From)
	}
}

// share puts the keys that were decoded meanwhile among those that all know.
// Where two Verifiers decoded the same key, either will do.
func (v *Verifier) share() {
	if len(v.fresh) == 0 {
		return
	}
	v.keys.lock.Lock()
	defer v.keys.lock.Unlock()
	for tail, k := range v.fresh {
		k.number, k.shared = v.keys.count, true
		v.keys.count++
		v.keys.put(tail, k)
	}
	clear(v.fresh)
}

// decode returns the key that a did:key names, nil if it is none.
func (v *Verifier) decode(did []byte) *key {
	tail, ok := tailOf(did)
	if !ok {
		return nil
	}
	k := v.fresh[tail]
	if k == nil {
		raw, ok := DecodeDID(did)
		if !ok {
			return nil
		}
		k = &key{raw: raw, number: len(v.fresh)}
		k.point.set(&k.raw)
		v.fresh[tail] = k
	}
	return k
}

// forms judges everything about a row but the signature itself, and decodes
// what the signature check needs.
func (v *Verifier) forms(r *protocol.Record, sig *[64]byte) (*key, protocol.Reason) {
	v.begin()
	v.keys.lock.Lock()
	found := v.keys.find(r.From)
	v.keys.lock.Unlock()
	defer v.share()
	return v.formsOf(r, sig, found)
}

// formsOf is forms with the row's key where it was found, else nil.
func (v *Verifier) formsOf(r *protocol.Record, sig *[64]byte, found *key) (*key, protocol.Reason) {
	// Rows come in runs of one room, so the last good name is nearly always
	// the next one too.
	if r.Room != v.room || r.Room == "" {
		if !protocol.ValidRoom(r.Room) {
			return nil, protocol.RoomName
		}
		v.room = r.Room
	}
	if r.Nonce == nil || r.Sig == nil {
		return nil, protocol.Unsigned
	}
	if !NonceForm(r.Nonce) {
		return nil, protocol.NonceForm
	}
	if !decodeSignature(sig, r.Sig) {
		return nil, protocol.SignatureForm
	}
	if found == nil {
		if found = v.decode(r.From); found == nil {
			return nil, protocol.SenderNotDID
		}
	}
	return found, protocol.ReasonNone
}

// covered returns R|A|message, the bytes whose SHA-512 enters the equation,
// with the nonce spelled as given. They are good until the next call.
func (v *Verifier) covered(r *protocol.Record, key *key, sig *[64]byte, nonce []byte) []byte {
	v.preimage = append(v.preimage[:0], sig[:32]...)
	v.preimage = append(v.preimage, key.raw[:]...)
	v.preimage = r.AppendMessage(v.preimage, nonce)
	return v.preimage
}

func refused(reason protocol.Reason) Result {
	if reason == protocol.Unsigned {
		return Result{Class: Unsigned, Reason: reason}
	}
	return Result{Class: Invalid, Reason: reason}
}

// Strict reports whether the row is in good form and crypto/ed25519 accepts
// its signature. Whatever Strict accepts, Check accepts; the reverse does not
// hold, and a row that only Check accepts cannot have passed the venue.
func Strict(r *protocol.Record) bool {
	if !protocol.ValidRoom(r.Room) || r.Nonce == nil || r.Sig == nil || !NonceForm(r.Nonce) {
		return false
	}
	sig, ok := DecodeSignature(r.Sig)
	if !ok {
		return false
	}
	key, ok := DecodeDID(r.From)
	return ok && ed25519.Verify(key[:], r.AppendMessage(nil, r.Nonce), sig[:])
}

// Sign signs the row as its author would: From becomes the did:key of priv and
// Sig the signature over Room, Nonce and Text, which the caller has set. It
// does not judge them, so that tests can sign what no venue would store. Like
// crypto/ed25519 it panics if priv is not 64 bytes.
func Sign(priv ed25519.PrivateKey, r *protocol.Record) {
	sig := ed25519.Sign(priv, r.AppendMessage(nil, r.Nonce))
	r.From = []byte(EncodeDID([32]byte(priv[32:])))
	r.Sig = base64.RawURLEncoding.AppendEncode(nil, sig)
}

// NonceForm reports whether the nonce is canonical decimal: 0, or digits of
// any number that do not begin with 0.
func NonceForm(nonce []byte) bool {
	if len(nonce) == 0 || nonce[0] == '0' && len(nonce) > 1 {
		return false
	}
	for _, c := range nonce {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// DecodeSignature reads a signature text: exactly 86 characters of unpadded
// base64url, the last of them one of A, Q, g and w. Sixteen spellings of that
// last character carry the same bytes; only the one with no spare bit set is
// accepted, so that a signature has one text.
func DecodeSignature(sig []byte) (raw [64]byte, ok bool) {
	ok = decodeSignature(&raw, sig)
	return raw, ok
}

func decodeSignature(raw *[64]byte, sig []byte) bool {
	if len(sig) != 86 {
		return false
	}
	var bad byte
	for i := range 21 {
		q := sig[i*4 : i*4+4 : i*4+4]
		a, b, c, d := sextets[q[0]], sextets[q[1]], sextets[q[2]], sextets[q[3]]
		bad |= a | b | c | d
		raw[i*3] = a<<2 | b>>4
		raw[i*3+1] = b<<4 | c>>2
		raw[i*3+2] = c<<6 | d
	}
	a, b := sextets[sig[84]], sextets[sig[85]]
	raw[63] = a<<2 | b>>4
	return (bad|a|b)&notSextet == 0 && b&0x0f == 0
}

// notSextet marks a byte outside the base64url alphabet in sextets. The six
// low bits are for values, so one OR over a text shows whether any was bad.
const notSextet = 0x80

var sextets = func() (table [256]byte) {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	for c := range table {
		table[c] = notSextet
		if i := bytes.IndexByte([]byte(alphabet), byte(c)); i >= 0 {
			table[c] = byte(i)
		}
	}
	return table
}()
