package protocol

// FrameType is one of the eight frame types (SPEC §3). The zero value is none.
type FrameType uint8

// The frame types. The numbers are stable: stores keep them.
const (
	TypeNone      FrameType = 0
	TypeOffer     FrameType = 1
	TypeAccept    FrameType = 2
	TypeLock      FrameType = 3
	TypeReveal    FrameType = 4
	TypeRefund    FrameType = 5
	TypeCancel    FrameType = 6
	TypeReceipt   FrameType = 7
	TypeHeartbeat FrameType = 8
)

var frameTypeText = [...]string{"", "offer", "accept", "lock", "reveal", "refund", "cancel", "receipt", "heartbeat"}

// String returns the wire word of the type, or "" for none.
func (t FrameType) String() string {
	if int(t) < len(frameTypeText) {
		return frameTypeText[t]
	}
	return ""
}

// Role says which side of the contract the offer's sender takes (SPEC §3.1).
type Role uint8

// The two roles; the zero value is none.
const (
	RoleNone  Role = 0
	RolePayer Role = 1
	RolePayee Role = 2
)

// String returns the wire word of the role.
func (r Role) String() string {
	switch r {
	case RolePayer:
		return "payer"
	case RolePayee:
		return "payee"
	}
	return ""
}

// LockKind is the kind of statement that a contract locks under (SPEC §3.1).
type LockKind uint8

// The two lock kinds; the zero value is none.
const (
	LockNone  LockKind = 0
	LockHash  LockKind = 1
	LockPoint LockKind = 2
)

// String returns the wire word of the lock kind.
func (k LockKind) String() string {
	switch k {
	case LockHash:
		return "hash"
	case LockPoint:
		return "point"
	}
	return ""
}

// Status is a contract's state (SPEC §4). The zero value is none: no offer yet.
type Status uint8

// The statuses. Claimed, refunded and cancelled are terminal. The numbers are
// stable: stores keep them.
const (
	StatusNone Status = 0
	Proposed   Status = 1
	Accepted   Status = 2
	Locked     Status = 3
	Claimed    Status = 4
	Refunded   Status = 5
	Cancelled  Status = 6
)

var statusText = [...]string{"", "proposed", "accepted", "locked", "claimed", "refunded", "cancelled"}

// String returns the protocol's word for the status, or "" for none.
func (s Status) String() string {
	if int(s) < len(statusText) {
		return statusText[s]
	}
	return ""
}

// Terminal reports whether no frame can change the status any more.
func (s Status) Terminal() bool { return s == Claimed || s == Refunded || s == Cancelled }

// ID is an offer id or a contract id: a sha256 digest, written 0x + 64
// lower-case hex digits (SPEC §3.1, §3.2).
type ID [32]byte

// Secret is what opens a lock: a 32-byte preimage or a scalar witness,
// big-endian (SPEC §3.4). Written 0x + 64 lower-case hex digits.
type Secret [32]byte

// Scalar is a 32-byte big-endian secp256k1 scalar as the wire carries it.
type Scalar [32]byte

// Point is a SEC1-compressed secp256k1 point, 33 bytes, written 0x + 66
// lower-case hex digits. The zero value means "absent".
type Point [33]byte

// IsZero reports whether the point is absent.
func (p Point) IsZero() bool { return p == Point{} }

// Statement is what a contract locks under: the sha256 of a preimage (32
// bytes) or a point (33 bytes). The zero value means "absent".
type Statement struct {
	n uint8
	b [33]byte
}

// HashStatement makes the statement of a hash lock from a sha256 digest.
func HashStatement(digest [32]byte) Statement {
	s := Statement{n: 32}
	copy(s.b[:], digest[:])
	return s
}

// PointStatement makes the statement of a point lock.
func PointStatement(p Point) Statement { return Statement{n: 33, b: p} }

// Kind tells which lock kind the statement fits: hash for 32 bytes, point for
// 33, none when absent.
func (s Statement) Kind() LockKind {
	switch s.n {
	case 32:
		return LockHash
	case 33:
		return LockPoint
	}
	return LockNone
}

// Bytes returns the 32 or 33 bytes of the statement in a new slice.
func (s Statement) Bytes() []byte { return append([]byte(nil), s.b[:s.n]...) }

// AppendBytes appends the 32 or 33 bytes of the statement.
func (s Statement) AppendBytes(dst []byte) []byte { return append(dst, s.b[:s.n]...) }

// Frame is one of *Offer, *Accept, *Lock, *Reveal, *Refund, *Cancel, *Receipt
// and *Heartbeat; no other type implements it.
type Frame interface {
	// Type tells which of the eight frames it is.
	Type() FrameType
	// Sender is the frame's from member: a did:key of 56 characters.
	Sender() string
	sealed()
}

// Offer opens a contract (SPEC §3.1). Strings hold WTF-8: a lone surrogate in
// a job string is kept as its three bytes, so that the id survives.
type Offer struct {
	From          string   // did:key, 56 characters
	Role          Role     // the side From takes
	Amount        string   // decimal integer, rail-native minimal units, any length
	Asset         string   // 1–32 of [A-Za-z0-9_-]
	Lock          LockKind // hash or point
	Rails         []string // as spelled on the wire, order and repeats kept
	ClaimByMs     int64    // Unix ms; reveals after it are late
	RefundAfterMs int64    // Unix ms; the refund window opens here
	ExpiresMs     int64    // Unix ms; accepts at or after it are refused
	Nonce         string   // 8–64 lower-case hex digits
	ID            ID       // sha256 over the canonical offer without id
	PaymentKey    Point    // required for point locks, else optional
	Job           *Job     // optional binding to an external job
}

// Job binds a contract to an external protocol's job (SPEC §6).
type Job struct {
	Proto   string // e.g. "a2a", "acp"
	ID      string
	Context string // "" when absent
}

// Accept closes the terms (SPEC §3.2).
type Accept struct {
	From       string
	Ref        ID // the offer's id
	Statement  Statement
	Contract   ID
	Nonce      string
	PaymentKey Point // required for point locks, else optional
}

// Lock announces that the money is locked on a rail (SPEC §3.3).
type Lock struct {
	From     string
	Contract ID
	Rail     string
	Ref      string
	Presig   *PreSignature
}

// PreSignature is a Schnorr adaptor pre-signature as lock.presig carries it:
// a nonce point and a scalar (SPEC §3.3).
type PreSignature struct {
	Nonce Point
	S     Scalar
}

// Reveal claims by publishing the secret (SPEC §3.4). Ref is "" when absent.
type Reveal struct {
	From     string
	Contract ID
	Ref      string
	Secret   Secret
}

// Refund takes the money back after refundAfterMs (SPEC §3.5). Ref and Reason
// are "" when absent.
type Refund struct {
	From     string
	Contract ID
	Ref      string
	Reason   string
}

// Cancel ends a contract before any lock (SPEC §3.5). Before an accept,
// Contract holds the offer's id. Reason is "" when absent.
type Cancel struct {
	From     string
	Contract ID
	Reason   string
}

// Receipt acknowledges a terminal status (SPEC §3.5). Outcome is Claimed,
// Refunded or Cancelled. Rail and Ref are "" when absent.
type Receipt struct {
	From     string
	Contract ID
	Outcome  Status
	Rail     string
	Ref      string
}

// Heartbeat is a signed sign of life (SPEC §3.6). Note is "" when absent.
type Heartbeat struct {
	From     string
	Contract ID
	Nonce    string
	Note     string
}

// Type implements Frame.
func (*Offer) Type() FrameType { return TypeOffer }

// Type implements Frame.
func (*Accept) Type() FrameType { return TypeAccept }

// Type implements Frame.
func (*Lock) Type() FrameType { return TypeLock }

// Type implements Frame.
func (*Reveal) Type() FrameType { return TypeReveal }

// Type implements Frame.
func (*Refund) Type() FrameType { return TypeRefund }

// Type implements Frame.
func (*Cancel) Type() FrameType { return TypeCancel }

// Type implements Frame.
func (*Receipt) Type() FrameType { return TypeReceipt }

// Type implements Frame.
func (*Heartbeat) Type() FrameType { return TypeHeartbeat }

// Sender implements Frame.
func (f *Offer) Sender() string { return f.From }

// Sender implements Frame.
func (f *Accept) Sender() string { return f.From }

// Sender implements Frame.
func (f *Lock) Sender() string { return f.From }

// Sender implements Frame.
func (f *Reveal) Sender() string { return f.From }

// Sender implements Frame.
func (f *Refund) Sender() string { return f.From }

// Sender implements Frame.
func (f *Cancel) Sender() string { return f.From }

// Sender implements Frame.
func (f *Receipt) Sender() string { return f.From }

// Sender implements Frame.
func (f *Heartbeat) Sender() string { return f.From }

func (*Offer) sealed()     {}
func (*Accept) sealed()    {}
func (*Lock) sealed()      {}
func (*Reveal) sealed()    {}
func (*Refund) sealed()    {}
func (*Cancel) sealed()    {}
func (*Receipt) sealed()   {}
func (*Heartbeat) sealed() {}
