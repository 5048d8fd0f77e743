package gen

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"strconv"

	"github.com/tclk-audit/tclk-audit/internal/testkit"
	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/verify"
)

// A seal turns a record that has room, nonce and text into a row of the
// signer's. All but the first damage something; each leaves one row class.

func sealProperly(r *protocol.Record, by *testkit.Signer) { verify.Sign(by.Key, r) }

// sealUnsigned is a row of a key from before the venue kept signatures.
func sealUnsigned(r *protocol.Record, by *testkit.Signer) { r.From = []byte(by.DID) }

// sealAs signs with one key and claims another.
func sealAs(did string) func(*protocol.Record, *testkit.Signer) {
	return func(r *protocol.Record, by *testkit.Signer) {
		verify.Sign(by.Key, r)
		r.From = []byte(did)
	}
}

// sealThenEdit puts a digit behind a mark of the text after signing it.
func sealThenEdit(mark string) func(*protocol.Record, *testkit.Signer) {
	return func(r *protocol.Record, by *testkit.Signer) {
		verify.Sign(by.Key, r)
		r.Text = bytes.Replace(r.Text, []byte(mark), []byte(mark+"9"), 1)
	}
}

func sealForRoom(room string) func(*protocol.Record, *testkit.Signer) {
	return func(r *protocol.Record, by *testkit.Signer) {
		stored := r.Room
		r.Room = room
		verify.Sign(by.Key, r)
		r.Room = stored
	}
}

// sealPadded signs the nonce with leading zeros, which the venue drops.
func sealPadded(r *protocol.Record, by *testkit.Signer) {
	stored := r.Nonce
	r.Nonce = append([]byte("000"), stored...)
	verify.Sign(by.Key, r)
	r.Nonce = stored
}

// sealRounded signs a nonce and stores what a float makes of it, as JavaScript
// prints it: the shortest digits that name the double, and zeros.
func sealRounded(r *protocol.Record, by *testkit.Signer) {
	verify.Sign(by.Key, r)
	f, err := strconv.ParseFloat(string(r.Nonce), 64)
	if err != nil {
		return // not reached: the planner's nonces are decimal
	}
	r.Nonce = strconv.AppendFloat(nil, f, 'f', -1, 64)
}

// sealOther signs another text: a good signature that does not cover the row.
func sealOther(r *protocol.Record, by *testkit.Signer) {
	if by.Key == nil { // the weak key: S = 1 fits nothing
		r.From = []byte(by.DID)
		r.Sig = base64.RawURLEncoding.AppendEncode(nil, append([]byte{0: 1, 32: 1}, make([]byte, 31)...))
		return
	}
	text := r.Text
	r.Text = append(append([]byte(nil), text...), '.')
	verify.Sign(by.Key, r)
	r.Text = text
}

const oddDIDs = 2

// oddSeals each misspell one thing that has one right spelling.
// The first oddDIDs of them misspell the sender.
var oddSeals = []func(*protocol.Record, *testkit.Signer){
	func(r *protocol.Record, by *testkit.Signer) { // a did:key of another curve
		verify.Sign(by.Key, r)
		r.From = []byte("did:key:zQ3s" + by.DID[len("did:key:z6Mk"):])
	},
	func(r *protocol.Record, by *testkit.Signer) {
		verify.Sign(by.Key, r)
		r.From = r.From[:55]
	},
	func(r *protocol.Record, by *testkit.Signer) { // a spare bit set: the same bytes to a lax decoder
		verify.Sign(by.Key, r)
		r.Sig[85] = map[byte]byte{'A': 'B', 'Q': 'R', 'g': 'h', 'w': 'x'}[r.Sig[85]]
	},
	func(r *protocol.Record, by *testkit.Signer) {
		verify.Sign(by.Key, r)
		r.Sig = append(r.Sig, "=="...)
	},
	func(r *protocol.Record, by *testkit.Signer) {
		verify.Sign(by.Key, r)
		r.Sig = r.Sig[:85]
	},
	func(r *protocol.Record, by *testkit.Signer) { // the other alphabet
		verify.Sign(by.Key, r)
		raw, _ := verify.DecodeSignature(r.Sig)
		raw[0], raw[1], raw[2] = 0xfb, 0xff, 0xbf
		r.Sig = base64.RawStdEncoding.AppendEncode(nil, raw[:])
	},
	func(r *protocol.Record, by *testkit.Signer) {
		verify.Sign(by.Key, r)
		raw, _ := verify.DecodeSignature(r.Sig)
		r.Sig = hex.AppendEncode(nil, raw[:])
	},
	func(r *protocol.Record, by *testkit.Signer) { // stored as it was signed, zeros and all
		r.Nonce = append([]byte("00"), r.Nonce...)
		verify.Sign(by.Key, r)
	},
	func(r *protocol.Record, by *testkit.Signer) {
		r.Nonce = append([]byte(nil), r.Nonce...)
		r.Nonce = append(r.Nonce, ".0"...)
		verify.Sign(by.Key, r)
	},
	func(r *protocol.Record, by *testkit.Signer) {
		r.Nonce = append([]byte("-"), r.Nonce...)
		verify.Sign(by.Key, r)
	},
	func(r *protocol.Record, by *testkit.Signer) { // s + L: the same signature to who does not look
		verify.Sign(by.Key, r)
		raw, _ := verify.DecodeSignature(r.Sig)
		addOrder(raw[32:])
		r.Sig = base64.RawURLEncoding.AppendEncode(nil, raw[:])
	},
}

// addOrder adds the order of Ed25519's group to a little-endian scalar below it.
func addOrder(s []byte) {
	order := [32]byte{
		0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14,
		31: 0x10,
	}
	carry := 0
	for i := range s {
		sum := int(s[i]) + int(order[i]) + carry
		s[i], carry = byte(sum), sum>>8
	}
}

// weakSigner has a public key of order eight. Under the cofactored rule its
// signature with R the neutral element and S = 0 covers every text; under the
// strict rule only one text in eight.
var weakSigner = &testkit.Signer{DID: verify.EncodeDID([32]byte{
	0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67, 0x0f,
	0x2a, 0x20, 0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a,
})}

// sealWeak finds a nonce at or shortly after the record's for which the strict
// rule refuses the weak key's signature.
func sealWeak(r *protocol.Record, by *testkit.Signer) {
	r.From = []byte(by.DID)
	r.Sig = base64.RawURLEncoding.AppendEncode(nil, append([]byte{1}, make([]byte, 63)...))
	n, err := strconv.ParseUint(string(r.Nonce), 10, 64)
	if err != nil {
		return // not reached: the planner's nonces are decimal
	}
	for verify.Strict(r) {
		n++
		r.Nonce = strconv.AppendUint(nil, n, 10)
	}
}
