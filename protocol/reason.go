package protocol

// Reason says why a record or frame did not count. The list is closed: a code
// never changes its meaning or its number, and new codes are only appended.
// ReasonNone, the zero value, means that nothing was wrong.
type Reason uint8

// The reasons, in the order of the reference table (record, line, binding,
// state machine).
const (
	ReasonNone Reason = 0

	// Record (SPEC §2).
	RowNotJSON       Reason = 1  // the row is not one JSON object on one line
	RowField         Reason = 2  // a row field is missing or of the wrong type
	RowTime          Reason = 3  // ts missing, not RFC 3339 with a zone, or out of range
	RoomName         Reason = 4  // the room is not ^[a-z0-9][a-z0-9_-]{0,47}$
	Unsigned         Reason = 5  // no nonce or no signature
	NonceForm        Reason = 6  // the nonce is not canonical decimal
	SignatureForm    Reason = 7  // not 86 canonical base64url characters
	SenderNotDID     Reason = 8  // from is not an Ed25519 did:key
	SignatureInvalid Reason = 9  // the signature does not verify in this room
	NotAFrame        Reason = 10 // the text does not start with "tclk1 " (ignored, no defect)
	OtherVersion     Reason = 11 // "tclk", digits and a space, but not "tclk1 " (ignored)

	// Line and frame (SPEC §3).
	LineTooLong     Reason = 12 // over 4096 characters
	LineNotASCII    Reason = 13 // a byte outside 0x20–0x7e
	FrameNotJSON    Reason = 14 // the rest of the line is not one JSON value
	FrameNotObject  Reason = 15 // … not an object
	DuplicateMember Reason = 16 // an object has a member twice, at any depth
	UnknownType     Reason = 17 // type is missing or not one of the eight
	UnknownField    Reason = 18 // a member the type does not have, at top level or in job / presig
	MissingField    Reason = 19 // a required member is absent
	BadField        Reason = 20 // wrong shape, range or enum
	DeadlineOrder   Reason = 21 // claimByMs ≥ refundAfterMs
	PointNeedsKey   Reason = 22 // point offer without paymentKey
	PointInvalid    Reason = 23 // a key or statement is not on the curve
	OfferIDMismatch Reason = 24 // id is not the hash of the offer

	// Binding (SPEC §2).
	SenderMismatch Reason = 25 // the frame's from is not the record's
	WrongRoom      Reason = 26 // a good frame in a room that cannot carry it
	NoContract     Reason = 27 // no offer or contract that this frame could belong to is in sight

	// State machine (SPEC §4).
	AlreadyOpen            Reason = 28 // the offer id is open already
	WrongStatus            Reason = 29 // the type is not possible in this status
	OtherOffer             Reason = 30 // accept.ref names a different offer
	OwnOffer               Reason = 31 // the offerer accepts its own offer
	OfferExpired           Reason = 32 // row time ≥ expiresMs
	ContractIDMismatch     Reason = 33 // contract does not derive from offer and accept
	AcceptorKeyMissing     Reason = 34 // point lock, accept without paymentKey
	StatementKind          Reason = 35 // the statement does not fit the lock kind
	OtherContract          Reason = 36 // the frame names a different contract
	NotPayer               Reason = 37 // only the payer locks and refunds
	NotPayee               Reason = 38 // only the payee reveals
	NotParty               Reason = 39 // cancel, receipt or heartbeat from a non-party
	RailNotOffered         Reason = 40 // lock.rail is not in the offer's set
	RefundWindowOpen       Reason = 41 // lock or reveal at or after refundAfterMs
	RefundWindowClosed     Reason = 42 // refund before refundAfterMs
	OtherRailRef           Reason = 43 // ref present and not the lock's
	WrongSecret            Reason = 44 // the secret does not open the statement
	NotTerminal            Reason = 45 // receipt before a terminal status
	OutcomeMismatch        Reason = 46 // receipt outcome is not the contract's
	ReceiptRailMismatch    Reason = 47 // receipt rail is not the contract's
	ReceiptRefMismatch     Reason = 48 // receipt ref is not the lock's
	ReceiptRailOnCancelled Reason = 49 // a cancelled contract's receipt names a rail or ref

	reasonEnd = 50
)

var reasonText = [reasonEnd]string{
	ReasonNone: "",
	RowNotJSON: "row-not-json", RowField: "row-field", RowTime: "row-time", RoomName: "room-name",
	Unsigned: "unsigned", NonceForm: "nonce-form", SignatureForm: "signature-form",
	SenderNotDID: "sender-not-did", SignatureInvalid: "signature-invalid",
	NotAFrame: "not-a-frame", OtherVersion: "other-version",
	LineTooLong: "line-too-long", LineNotASCII: "line-not-ascii", FrameNotJSON: "frame-not-json",
	FrameNotObject: "frame-not-object", DuplicateMember: "duplicate-member", UnknownType: "unknown-type",
	UnknownField: "unknown-field", MissingField: "missing-field", BadField: "bad-field",
	DeadlineOrder: "deadline-order", PointNeedsKey: "point-needs-key", PointInvalid: "point-invalid",
	OfferIDMismatch: "offer-id-mismatch",
	SenderMismatch:  "sender-mismatch", WrongRoom: "wrong-room", NoContract: "no-contract",
	AlreadyOpen: "already-open", WrongStatus: "wrong-status", OtherOffer: "other-offer", OwnOffer: "own-offer",
	OfferExpired: "offer-expired", ContractIDMismatch: "contract-id-mismatch",
	AcceptorKeyMissing: "acceptor-key-missing", StatementKind: "statement-kind", OtherContract: "other-contract",
	NotPayer: "not-payer", NotPayee: "not-payee", NotParty: "not-party", RailNotOffered: "rail-not-offered",
	RefundWindowOpen: "refund-window-open", RefundWindowClosed: "refund-window-closed",
	OtherRailRef: "other-rail-ref", WrongSecret: "wrong-secret", NotTerminal: "not-terminal",
	OutcomeMismatch: "outcome-mismatch", ReceiptRailMismatch: "receipt-rail-mismatch",
	ReceiptRefMismatch: "receipt-ref-mismatch", ReceiptRailOnCancelled: "receipt-rail-on-cancelled",
}

// String returns the kebab-case code, the only form of a reason that goes into
// JSON, metric labels and comparisons. ReasonNone is the empty string.
func (r Reason) String() string {
	if int(r) < len(reasonText) {
		return reasonText[r]
	}
	return "unknown-reason"
}

// Ignored reports whether the reason marks a row that is no frame and no
// defect: chat, deliverables, other protocol versions.
func (r Reason) Ignored() bool { return r == NotAFrame || r == OtherVersion }

// Reasons lists every reason but ReasonNone, in table order.
func Reasons() []Reason {
	all := make([]Reason, 0, reasonEnd-1)
	for r := Reason(1); r < reasonEnd; r++ {
		all = append(all, r)
	}
	return all
}
