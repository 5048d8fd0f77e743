package protocol

import (
	"crypto/sha256"
	"encoding/hex"
)

// The domains of the two ids (SPEC §3.1, §3.2): what is hashed before the JSON.
const (
	offerDomain    = "FLOP::tclk::v1|offer|"
	contractDomain = "FLOP::tclk::v1|contract|"
)

// OfferID computes the offer's id (SPEC §3.1): sha256 over
// "FLOP::tclk::v1|offer|" and the canonical JSON of the offer without its id
// member. The ID field of o is not read. o must not be nil.
func OfferID(o *Offer) ID {
	var stack [1024]byte
	b := append(stack[:0], offerDomain...)
	return sha256.Sum256(appendOffer(b, o, false))
}

// ContractID computes the id of the contract that an accept makes of an offer
// (SPEC §3.2): sha256 over "FLOP::tclk::v1|contract|" and the canonical JSON of
// {"accept":…,"offer":…}, where the accept is its from, nonce, paymentKey (if
// any), ref and statement, and the offer is whole, id included. Neither
// a.Contract nor whether a.Ref is o.ID is looked at. Neither may be nil.
func ContractID(o *Offer, a *Accept) ID {
	var stack [1024]byte
	b := appendOffer(appendContractHead(stack[:0], a), o, true)
	return sha256.Sum256(append(b, '}'))
}

// ContractIDOf is ContractID for who has the offer's canonical JSON at hand, as
// [AppendCanonical] makes it and as a canonical line holds it behind its prefix.
func ContractIDOf(canonicalOffer []byte, a *Accept) ID {
	var stack [1024]byte
	b := append(appendContractHead(stack[:0], a), canonicalOffer...)
	return sha256.Sum256(append(b, '}'))
}

// appendContractHead appends what is hashed before the offer.
func appendContractHead(b []byte, a *Accept) []byte {
	b = append(b, contractDomain...)
	b = append(b, `{"accept":`...)
	b = appendAccept(b, a, false)
	return append(b, `,"offer":`...)
}

// String returns 0x and 64 lower-case hex digits.
func (id ID) String() string { return string(appendHex(make([]byte, 0, 66), id[:])) }

// ParseID reads 0x and 64 lower-case hex digits, and nothing else.
func ParseID(s string) (id ID, ok bool) {
	ok = decodeHex(id[:], s)
	return id, ok
}

// String returns 0x and 66 lower-case hex digits.
func (p Point) String() string { return string(appendHex(make([]byte, 0, 68), p[:])) }

// ParsePoint reads 0x and 66 lower-case hex digits, and nothing else. Whether
// they are a point of the curve is for [Point.Valid] to say.
func ParsePoint(s string) (p Point, ok bool) {
	ok = decodeHex(p[:], s)
	return p, ok
}

// String returns 0x and 64 lower-case hex digits. What it shows opens a lock:
// keep it out of logs until it stands in the room.
func (s Secret) String() string { return string(appendHex(make([]byte, 0, 66), s[:])) }

// ParseSecret reads 0x and 64 lower-case hex digits, and nothing else.
func ParseSecret(s string) (secret Secret, ok bool) {
	ok = decodeHex(secret[:], s)
	return secret, ok
}

// String returns 0x and 64 lower-case hex digits.
func (s Scalar) String() string { return string(appendHex(make([]byte, 0, 66), s[:])) }

// ParseScalar reads 0x and 64 lower-case hex digits, and nothing else. Whether
// the value is below the group order is for [Scalar.Valid] to say.
func ParseScalar(s string) (scalar Scalar, ok bool) {
	ok = decodeHex(scalar[:], s)
	return scalar, ok
}

// String returns 0x and 64 or 66 lower-case hex digits, or "" when absent.
func (s Statement) String() string {
	if s.n == 0 {
		return ""
	}
	return string(appendHex(make([]byte, 0, 68), s.b[:s.n]))
}

// ParseStatement reads 0x and 64 lower-case hex digits (a hash statement) or 66
// (a point statement), and nothing else. Whether a point is on the curve is for
// [Statement.Valid] to say.
func ParseStatement(s string) (Statement, bool) { return parseStatement(s) }

func parseStatement[T string | []byte](s T) (st Statement, ok bool) {
	switch len(s) {
	case 2 + 2*32:
		st.n = 32
	case 2 + 2*33:
		st.n = 33
	default:
		return Statement{}, false
	}
	if !decodeHex(st.b[:st.n], s) {
		return Statement{}, false
	}
	return st, true
}

// String returns 64 lower-case hex digits, without 0x.
func (id RecordID) String() string { return hex.EncodeToString(id[:]) }

// ParseFrameType reads the wire word of a frame type; TypeNone for any other
// word.
func ParseFrameType(s string) FrameType {
	switch s {
	case "offer":
		return TypeOffer
	case "accept":
		return TypeAccept
	case "lock":
		return TypeLock
	case "reveal":
		return TypeReveal
	case "refund":
		return TypeRefund
	case "cancel":
		return TypeCancel
	case "receipt":
		return TypeReceipt
	case "heartbeat":
		return TypeHeartbeat
	}
	return TypeNone
}

// ParseRole reads the wire word of a role; RoleNone for any other word.
func ParseRole(s string) Role {
	switch s {
	case "payer":
		return RolePayer
	case "payee":
		return RolePayee
	}
	return RoleNone
}

// ParseLockKind reads the wire word of a lock kind; LockNone for any other word.
func ParseLockKind(s string) LockKind {
	switch s {
	case "hash":
		return LockHash
	case "point":
		return LockPoint
	}
	return LockNone
}

// ParseStatus reads the protocol's word for a status; StatusNone for any other
// word.
func ParseStatus(s string) Status {
	switch s {
	case "proposed":
		return Proposed
	case "accepted":
		return Accepted
	case "locked":
		return Locked
	case "claimed":
		return Claimed
	case "refunded":
		return Refunded
	case "cancelled":
		return Cancelled
	}
	return StatusNone
}

// hexValue maps a lower-case hex digit to its value and every other byte to
// 0xff.
var hexValue = func() (t [256]byte) {
	for i := range t {
		t[i] = 0xff
	}
	for i := range byte(16) {
		t[hexDigit[i]] = i
	}
	return t
}()

const hexDigit = "0123456789abcdef"

// decodeHex reads 0x and exactly two lower-case hex digits for each byte of
// dst.
func decodeHex[T string | []byte](dst []byte, s T) bool {
	if len(s) != 2+2*len(dst) || s[0] != '0' || s[1] != 'x' {
		return false
	}
	var seen byte
	for i := range dst {
		hi, lo := hexValue[s[2+2*i]], hexValue[s[3+2*i]]
		seen |= hi | lo
		dst[i] = hi<<4 | lo
	}
	return seen <= 0x0f
}

func isLowerHex[T string | []byte](s T) bool {
	var seen byte
	for i := range len(s) {
		seen |= hexValue[s[i]]
	}
	return seen <= 0x0f
}

func appendHex(dst, src []byte) []byte {
	dst = append(dst, '0', 'x')
	return hex.AppendEncode(dst, src)
}

// ContractOf returns the contract that a frame names (SPEC §3). An offer names
// none; a cancel of an open offer names the offer in its place (SPEC §3.5).
func ContractOf(f Frame) (ID, bool) {
	switch f := f.(type) {
	case *Accept:
		return f.Contract, true
	case *Lock:
		return f.Contract, true
	case *Reveal:
		return f.Contract, true
	case *Refund:
		return f.Contract, true
	case *Cancel:
		return f.Contract, true
	case *Receipt:
		return f.Contract, true
	case *Heartbeat:
		return f.Contract, true
	}
	return ID{}, false
}
