package protocol

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// DecodeRules selects what a decoder does where readers are known to differ.
// The zero value is this package's reading of the SPEC.
type DecodeRules struct {
	// LastDuplicateWins keeps the last value of a member that an object has
	// twice. Otherwise such a line is DuplicateMember at whatever depth, since
	// two readers would see two frames in it.
	LastDuplicateWins bool
	// NumbersByDouble judges a number field by its nearest IEEE double instead
	// of its exact value: see [ExactInteger].
	NumbersByDouble bool
}

// ReferenceRules returns the rules by which the reference implementation reads,
// for comparing with it.
func ReferenceRules() DecodeRules {
	return DecodeRules{LastDuplicateWins: true, NumbersByDouble: true}
}

// Decoded is what a line turned out to be.
type Decoded struct {
	Frame  Frame  // nil unless Reason is ReasonNone
	Reason Reason // NotAFrame and OtherVersion are ignored rows, no defects
	// Type is the frame's type; also of a refused line, where its type member
	// is one of the eight words.
	Type FrameType
	// Detail says in a sentence what is wrong, for a reader. It holds no text of
	// the line but short plain words. It is "" for frames and ignored lines.
	Detail string
	// Canonical tells that a frame's line is byte-equal to CanonicalLine(Frame).
	// It is false for lines that are no frames.
	Canonical bool
	// DuplicateMember tells that an object in the line had a member twice. It is
	// set under LastDuplicateWins only; else the reason says it.
	DuplicateMember bool
}

// Decoder decodes frame lines. It keeps scratch memory and remembers which
// points it has found to be on the curve, in a table of fixed size, so one
// decoder should see many lines. It is not for concurrent use: make one for each
// worker. The zero value reads by the SPEC and remembers no points.
type Decoder struct {
	rules     DecodeRules
	points    *pointTable
	useTable  bool
	scan      scanner
	members   [fieldCount]value // of the frame, where have says so
	have      fieldSet
	unknown   string // shows the first unknown member's name, safely
	inner     [maxInner]value
	canonical bool   // nothing but white space could still tell the line from its canonical form
	text      []byte // the strings that the frame will hold
	rails     []span
	scratch   []byte
	reason    Reason
	detail    string
}

// span is where a string stands in Decoder.text.
type span struct{ start, end int }

func (s span) of(text string) string { return text[s.start:s.end] }

// NewDecoder returns a decoder for the given rules. It takes about 0.3 MB once
// it meets the first point.
func NewDecoder(rules DecodeRules) *Decoder { return &Decoder{rules: rules, useTable: true} }

// Decode decodes one line by the given rules: a convenience for single lines.
// See [Decoder.Decode].
func Decode(line string, rules DecodeRules) Decoded {
	d := Decoder{rules: rules}
	return d.Decode([]byte(line))
}

// Decode reads one line, the whole text of a record, prefix included (SPEC §3).
// It is fail-closed: a frame of a known type with a member too many, a member
// missing or a value of the wrong form is refused, never mended. The checks run
// in this order, and the first that fails gives the reason: prefix, length, bytes
// outside 0x20–0x7e, JSON, object, repeated members, type, unknown members,
// missing members, the form of each member, then an offer's deadlines and
// payment key, points, and last the offer's id.
//
// The frame shares no memory with line. Any bytes may be passed: nothing recurses,
// and the worst line of 4096 characters takes about a tenth of a millisecond.
func (d *Decoder) Decode(line []byte) Decoded {
	if len(line) < len(LinePrefix) || string(line[:len(LinePrefix)]) != LinePrefix {
		if isOtherVersion(line) {
			return Decoded{Reason: OtherVersion}
		}
		return Decoded{Reason: NotAFrame}
	}
	d.reason, d.detail = ReasonNone, ""
	if len(line) > MaxLineLength && utf16Length(line, MaxLineLength) > MaxLineLength {
		d.fail(LineTooLong, "the line has more than "+strconv.Itoa(MaxLineLength)+" characters")
		return d.refused(lineFrameType(line))
	}
	if i := firstUnprintable(line); i >= 0 {
		d.fail(LineNotASCII, fmt.Sprintf("byte 0x%02x at offset %d of the line is outside 0x20–0x7e", line[i], i))
		return d.refused(lineFrameType(line))
	}
	d.begin(line)
	defer d.end()
	if !d.scanLine() {
		return d.refused(TypeNone)
	}
	t := d.frameType()
	if d.scan.repeated && !d.rules.LastDuplicateWins {
		d.fail(DuplicateMember, "an object in the frame has a member twice, so two readers could see two frames")
		return d.refused(t)
	}
	if t == TypeNone || !d.checkMembers(t) {
		return d.refused(t)
	}
	f := d.build(t)
	if d.reason != ReasonNone {
		return d.refused(t)
	}
	return Decoded{Frame: f, Type: t, Canonical: d.isCanonical(), DuplicateMember: d.scan.repeated}
}

func (d *Decoder) begin(line []byte) {
	d.scan.reset(line)
	d.scan.printable = true
	d.scan.plain = bytes.IndexByte(line, '\\') < 0
	d.have, d.unknown, d.canonical = 0, "", true
	d.text, d.rails = d.text[:0], d.rails[:0]
}

// end drops what aliases the caller's line.
func (d *Decoder) end() {
	d.scan.reset(nil)
}

func (d *Decoder) refused(t FrameType) Decoded {
	return Decoded{
		Reason: d.reason, Type: t, Detail: d.detail,
		DuplicateMember: d.scan.repeated && d.rules.LastDuplicateWins,
	}
}

// fail notes why the line is refused; the first reason stands.
func (d *Decoder) fail(r Reason, detail string) {
	if d.reason == ReasonNone {
		d.reason, d.detail = r, detail
	}
}

// isCanonical holds once every member has been looked at. Together with the
// members in the order of their names, each escape and number in its one form
// and no optional member empty, the absence of white space leaves no way to
// write the same frame.
func (d *Decoder) isCanonical() bool { return d.canonical && !d.scan.spaced }

// isOtherVersion reports whether the line starts with "tclk", digits and a
// space.
func isOtherVersion(line []byte) bool {
	if len(line) < 4 || string(line[:4]) != LinePrefix[:4] {
		return false
	}
	i := 4
	for i < len(line) && '0' <= line[i] && line[i] <= '9' {
		i++
	}
	return i > 4 && i < len(line) && line[i] == ' '
}

// field is a member that some frame type has at top level. The numbers follow
// the order of the names, which is the canonical order.
type field uint8

const (
	fAmount field = iota
	fAsset
	fClaimByMs
	fContract
	fExpiresMs
	fFrom
	fID
	fJob
	fLock
	fNonce
	fNote
	fOutcome
	fPaymentKey
	fPresig
	fRail
	fRails
	fReason
	fRef
	fRefundAfterMs
	fRole
	fSecret
	fStatement
	fType
	fieldCount
)

var fieldNames = [fieldCount]string{
	"amount", "asset", "claimByMs", "contract", "expiresMs", "from", "id", "job", "lock", "nonce", "note", "outcome",
	"paymentKey", "presig", "rail", "rails", "reason", "ref", "refundAfterMs", "role", "secret", "statement", "type",
}

// fieldOf finds the field of a member's name; fieldCount for any other name.
func fieldOf(name []byte) field {
	switch string(name) {
	case "amount":
		return fAmount
	case "asset":
		return fAsset
	case "claimByMs":
		return fClaimByMs
	case "contract":
		return fContract
	case "expiresMs":
		return fExpiresMs
	case "from":
		return fFrom
	case "id":
		return fID
	case "job":
		return fJob
	case "lock":
		return fLock
	case "nonce":
		return fNonce
	case "note":
		return fNote
	case "outcome":
		return fOutcome
	case "paymentKey":
		return fPaymentKey
	case "presig":
		return fPresig
	case "rail":
		return fRail
	case "rails":
		return fRails
	case "reason":
		return fReason
	case "ref":
		return fRef
	case "refundAfterMs":
		return fRefundAfterMs
	case "role":
		return fRole
	case "secret":
		return fSecret
	case "statement":
		return fStatement
	case "type":
		return fType
	}
	return fieldCount
}

// fieldSet is a set of fields, one bit each.
type fieldSet uint32

func (s fieldSet) has(f field) bool { return s>>f&1 != 0 }

// list names the fields of the set for a sentence.
func (s fieldSet) list() string {
	var names []string
	for ; s != 0; s &= s - 1 {
		names = append(names, fieldNames[bits.TrailingZeros32(uint32(s))])
	}
	return strings.Join(names, ", ")
}

// frameShapes holds the required and optional members of each type (SPEC §3).
var frameShapes = [...]struct{ required, optional fieldSet }{
	TypeOffer: {
		required: 1<<fType | 1<<fFrom | 1<<fRole | 1<<fAmount | 1<<fAsset | 1<<fLock | 1<<fRails |
			1<<fClaimByMs | 1<<fRefundAfterMs | 1<<fExpiresMs | 1<<fNonce | 1<<fID,
		optional: 1<<fPaymentKey | 1<<fJob,
	},
	TypeAccept: {
		required: 1<<fType | 1<<fFrom | 1<<fRef | 1<<fStatement | 1<<fContract | 1<<fNonce,
		optional: 1 << fPaymentKey,
	},
	TypeLock: {
		required: 1<<fType | 1<<fFrom | 1<<fContract | 1<<fRail | 1<<fRef,
		optional: 1 << fPresig,
	},
	TypeReveal: {
		required: 1<<fType | 1<<fFrom | 1<<fContract | 1<<fSecret,
		optional: 1 << fRef,
	},
	TypeRefund: {
		required: 1<<fType | 1<<fFrom | 1<<fContract,
		optional: 1<<fRef | 1<<fReason,
	},
	TypeCancel: {
		required: 1<<fType | 1<<fFrom | 1<<fContract,
		optional: 1 << fReason,
	},
	TypeReceipt: {
		required: 1<<fType | 1<<fFrom | 1<<fContract | 1<<fOutcome,
		optional: 1<<fRail | 1<<fRef,
	},
	TypeHeartbeat: {
		required: 1<<fType | 1<<fFrom | 1<<fContract | 1<<fNonce,
		optional: 1 << fNote,
	},
}

// scanLine reads the JSON of the line and keeps where each known member's value
// stands; the last one of a repeated member.
func (d *Decoder) scanLine() bool {
	s := &d.scan
	start := s.space(len(LinePrefix))
	next, ok := start, false
	object := s.at(start) == '{'
	if object {
		last := -1
		next, ok = s.object(start+1, func(name []byte, escaped bool, v value) {
			f := fieldOf(name)
			if f == fieldCount {
				// Kept to find repeats; the frame is refused either way.
				if len(s.names) == 0 {
					d.unknown = safeText(string(name))
				}
				s.names = append(s.names, name)
				return
			}
			if escaped || int(f) <= last {
				d.canonical = false
			}
			last = int(f)
			if d.have.has(f) {
				s.repeated = true
			}
			d.have |= 1 << f
			d.members[f] = v
		})
		s.closeNames(0)
	} else {
		_, next, ok = s.value(start)
	}
	if ok {
		next = s.space(next)
	}
	if !ok || next != len(s.b) {
		d.fail(FrameNotJSON, "what follows the prefix is not one JSON value: it breaks at offset "+strconv.Itoa(next)+" of the line")
		return false
	}
	if !object {
		d.fail(FrameNotObject, "what follows the prefix is JSON, but not an object")
		return false
	}
	return true
}

// frameType reads the type member; it notes UnknownType unless it is one of the
// eight words.
func (d *Decoder) frameType() FrameType {
	if !d.have.has(fType) {
		d.failType("the frame has no type")
		return TypeNone
	}
	v := d.members[fType]
	if v.kind != kindString {
		d.failType("the frame's type is not a string")
		return TypeNone
	}
	t := ParseFrameType(string(d.content(v)))
	if t == TypeNone {
		d.failType("unknown frame type: " + safeText(string(d.content(v))))
	}
	return t
}

// failType yields to a repeated member, which is looked for first.
func (d *Decoder) failType(detail string) {
	if !d.scan.repeated || d.rules.LastDuplicateWins {
		d.fail(UnknownType, detail)
	}
}

func (d *Decoder) checkMembers(t FrameType) bool {
	shape := &frameShapes[t]
	if d.unknown != "" {
		d.fail(UnknownField, "a member that "+t.String()+" does not have: "+d.unknown)
		return false
	}
	if extra := d.have &^ (shape.required | shape.optional); extra != 0 {
		d.fail(UnknownField, "a member that "+t.String()+" does not have: "+extra.list())
		return false
	}
	if missing := shape.required &^ d.have; missing != 0 {
		d.fail(MissingField, t.String()+" lacks "+missing.list())
		return false
	}
	return true
}

func (d *Decoder) build(t FrameType) Frame {
	switch t {
	case TypeOffer:
		return d.offer()
	case TypeAccept:
		return d.accept()
	case TypeLock:
		return d.lock()
	case TypeReveal:
		return d.reveal()
	case TypeRefund:
		return d.refund()
	case TypeCancel:
		return d.cancel()
	case TypeReceipt:
		return d.receipt()
	case TypeHeartbeat:
		return d.heartbeat()
	}
	return nil
}

// The builders below check every member first and allocate when all is well.
// Each returns nil when something is not; the reason is noted then.

func (d *Decoder) offer() Frame {
	from := d.did()
	role := d.role()
	amount := d.grammar(fAmount, isAmount, "a decimal integer from 1 up, without leading zeros, as a string")
	asset := d.grammar(fAsset, isAsset, "1 to 32 of A-Z, a-z, 0-9, _ and -")
	kind := d.lockKind()
	d.wireRails()
	claimBy := d.unixMs(fClaimByMs)
	refundAfter := d.unixMs(fRefundAfterMs)
	expires := d.unixMs(fExpiresMs)
	nonce := d.nonce()
	key := d.point(fPaymentKey)
	job, hasJob := d.job()
	if d.reason == ReasonNone && claimBy >= refundAfter {
		d.fail(DeadlineOrder, "claimByMs must lie before refundAfterMs")
	}
	if d.reason == ReasonNone && kind == LockPoint && !d.have.has(fPaymentKey) {
		d.fail(PointNeedsKey, "an offer with a point lock needs a paymentKey")
	}
	d.onCurve(fPaymentKey, key)
	if d.reason != ReasonNone {
		return nil
	}
	text := string(d.text)
	o := &Offer{
		From: from.of(text), Role: role, Amount: amount.of(text), Asset: asset.of(text), Lock: kind,
		ClaimByMs: claimBy, RefundAfterMs: refundAfter, ExpiresMs: expires, Nonce: nonce.of(text), PaymentKey: key,
	}
	o.Rails = make([]string, len(d.rails))
	for i, r := range d.rails {
		o.Rails[i] = r.of(text)
	}
	if hasJob {
		o.Job = &Job{Proto: job.proto.of(text), ID: job.id.of(text), Context: job.context.of(text)}
	}
	o.ID = d.offerID(o)
	// The id is compared and not parsed: whatever else stands there, it is not
	// the hash of the offer.
	var id ID
	if v := d.members[fID]; v.kind != kindString || !decodeHex(id[:], d.content(v)) || id != o.ID {
		d.fail(OfferIDMismatch, "the offer's id is not the hash of the offer, which is "+o.ID.String())
		return nil
	}
	return o
}

// offerID hashes the offer. Where the line is canonical so far, the canonical
// offer without its id is the line but for that member.
func (d *Decoder) offerID(o *Offer) ID {
	d.scratch = append(d.scratch[:0], offerDomain...)
	id := d.members[fID]
	if id.kind == kindString && d.isCanonical() {
		const name = `"id":"`
		line := d.scan.b
		d.scratch = append(d.scratch, line[len(LinePrefix):id.start-len(name)]...)
		d.scratch = append(d.scratch, line[id.end+len(`",`):]...)
	} else {
		d.scratch = appendOffer(d.scratch, o, false)
	}
	return sha256.Sum256(d.scratch)
}

func (d *Decoder) accept() Frame {
	from := d.did()
	var ref, contract ID
	d.hex32(fRef, ref[:])
	st := d.statement()
	d.hex32(fContract, contract[:])
	nonce := d.nonce()
	key := d.point(fPaymentKey)
	if p, ok := st.Point(); ok {
		d.onCurve(fStatement, p)
	}
	d.onCurve(fPaymentKey, key)
	if d.reason != ReasonNone {
		return nil
	}
	text := string(d.text)
	return &Accept{
		From: from.of(text), Ref: ref, Statement: st, Contract: contract, Nonce: nonce.of(text), PaymentKey: key,
	}
}

func (d *Decoder) lock() Frame {
	from := d.did()
	var contract ID
	d.hex32(fContract, contract[:])
	rail := d.wireRail(fRail)
	ref := d.words(fRef)
	presig := d.presig()
	if d.reason != ReasonNone {
		return nil
	}
	text := string(d.text)
	return &Lock{From: from.of(text), Contract: contract, Rail: rail.of(text), Ref: ref.of(text), Presig: presig}
}

func (d *Decoder) reveal() Frame {
	from := d.did()
	var contract ID
	d.hex32(fContract, contract[:])
	ref := d.words(fRef)
	var secret Secret
	d.hex32(fSecret, secret[:])
	if d.reason != ReasonNone {
		return nil
	}
	text := string(d.text)
	return &Reveal{From: from.of(text), Contract: contract, Ref: ref.of(text), Secret: secret}
}

func (d *Decoder) refund() Frame {
	from := d.did()
	var contract ID
	d.hex32(fContract, contract[:])
	ref := d.words(fRef)
	reason := d.words(fReason)
	if d.reason != ReasonNone {
		return nil
	}
	text := string(d.text)
	return &Refund{From: from.of(text), Contract: contract, Ref: ref.of(text), Reason: reason.of(text)}
}

func (d *Decoder) cancel() Frame {
	from := d.did()
	var contract ID
	d.hex32(fContract, contract[:])
	reason := d.words(fReason)
	if d.reason != ReasonNone {
		return nil
	}
	text := string(d.text)
	return &Cancel{From: from.of(text), Contract: contract, Reason: reason.of(text)}
}

func (d *Decoder) receipt() Frame {
	from := d.did()
	var contract ID
	d.hex32(fContract, contract[:])
	outcome := d.outcome()
	rail := d.wireRail(fRail)
	ref := d.words(fRef)
	if d.reason != ReasonNone {
		return nil
	}
	text := string(d.text)
	return &Receipt{From: from.of(text), Contract: contract, Outcome: outcome, Rail: rail.of(text), Ref: ref.of(text)}
}

func (d *Decoder) heartbeat() Frame {
	from := d.did()
	var contract ID
	d.hex32(fContract, contract[:])
	nonce := d.nonce()
	note := d.words(fNote)
	if d.reason != ReasonNone {
		return nil
	}
	text := string(d.text)
	return &Heartbeat{From: from.of(text), Contract: contract, Nonce: nonce.of(text), Note: note.of(text)}
}

// content returns what a string stands for. It is good until the next call.
func (d *Decoder) content(v value) []byte {
	raw := d.scan.b[v.start:v.end]
	if !v.escaped {
		return raw
	}
	var canonical bool
	d.scratch, canonical = appendUnescaped(d.scratch[:0], raw)
	d.canonical = d.canonical && canonical
	return d.scratch
}

// keep puts a string among those that the frame will hold.
func (d *Decoder) keep(s []byte) span {
	start := len(d.text)
	d.text = append(d.text, s...)
	return span{start, len(d.text)}
}

// member returns a member's value; false when the frame does not have it or is
// refused already.
func (d *Decoder) member(f field) (value, bool) {
	return d.members[f], d.have.has(f) && d.reason == ReasonNone
}

// bad refuses a value for its form. name is a member's name, with that of the
// object around it where there is one.
func (d *Decoder) bad(name string, v value, want string) {
	if d.reason == ReasonNone {
		d.fail(BadField, name+" must be "+want+"; it is "+d.describe(v))
	}
}

// describe says what a value is without showing more of it than a plain word.
func (d *Decoder) describe(v value) string {
	switch v.kind {
	case kindString:
		if v.start == v.end {
			return "an empty string"
		}
		return "the string " + safeText(string(d.content(v)))
	case kindNumber:
		return "the number " + safeText(string(d.scan.b[v.start:v.end]))
	case kindTrue, kindFalse:
		return "a boolean"
	case kindArray:
		return "an array"
	case kindObject:
		return "an object"
	}
	return "null"
}

// grammar reads a string member of a closed form.
func (d *Decoder) grammar(f field, fits func([]byte) bool, want string) span {
	v, ok := d.member(f)
	if !ok {
		return span{}
	}
	if v.kind == kindString {
		if s := d.content(v); fits(s) {
			return d.keep(s)
		}
	}
	d.bad(fieldNames[f], v, want)
	return span{}
}

func (d *Decoder) did() span {
	return d.grammar(fFrom, isDID[[]byte], "did:key:z6Mk and 44 base58 characters")
}

func (d *Decoder) nonce() span {
	return d.grammar(fNonce, isFrameNonce, "8 to 64 lower-case hex digits")
}

const wantRail = "a rail: 1 to 64 of a-z, 0-9, ., _ and -, the first a letter or digit"

func (d *Decoder) wireRail(f field) span { return d.grammar(f, isWireRail, wantRail) }

const wantWords = "a string that is not empty"

// words reads a string member of free form.
func (d *Decoder) words(f field) span {
	v, ok := d.member(f)
	if !ok {
		return span{}
	}
	return d.freeText(fieldNames[f], v)
}

func (d *Decoder) freeText(name string, v value) span {
	if v.kind != kindString || v.start == v.end {
		d.bad(name, v, wantWords)
		return span{}
	}
	return d.keep(d.content(v))
}

const wantHex32 = "0x and 64 lower-case hex digits"

func (d *Decoder) hex32(f field, dst []byte) {
	if v, ok := d.member(f); ok && (v.kind != kindString || !decodeHex(dst, d.content(v))) {
		d.bad(fieldNames[f], v, wantHex32)
	}
}

const wantPoint = "0x and 66 lower-case hex digits"

func (d *Decoder) point(f field) (p Point) {
	if v, ok := d.member(f); ok && (v.kind != kindString || !decodeHex(p[:], d.content(v))) {
		d.bad(fieldNames[f], v, wantPoint)
	}
	return p
}

func (d *Decoder) statement() (st Statement) {
	v, ok := d.member(fStatement)
	if !ok {
		return st
	}
	if v.kind == kindString {
		if st, ok = parseStatement(d.content(v)); ok {
			return st
		}
	}
	d.bad("statement", v, "0x and 64 or 66 lower-case hex digits")
	return st
}

// onCurve refuses a point member that is present and not a point of the curve.
func (d *Decoder) onCurve(f field, p Point) {
	if _, ok := d.member(f); ok && !d.isOnCurve(p) {
		d.fail(PointInvalid, fieldNames[f]+" is not a compressed point of secp256k1")
	}
}

func (d *Decoder) role() Role {
	v, ok := d.member(fRole)
	if !ok {
		return RoleNone
	}
	if v.kind == kindString {
		if r := ParseRole(string(d.content(v))); r != RoleNone {
			return r
		}
	}
	d.bad("role", v, "payer or payee")
	return RoleNone
}

func (d *Decoder) lockKind() LockKind {
	v, ok := d.member(fLock)
	if !ok {
		return LockNone
	}
	if v.kind == kindString {
		if k := ParseLockKind(string(d.content(v))); k != LockNone {
			return k
		}
	}
	d.bad("lock", v, "hash or point")
	return LockNone
}

func (d *Decoder) outcome() Status {
	v, ok := d.member(fOutcome)
	if !ok {
		return StatusNone
	}
	if v.kind == kindString {
		if s := ParseStatus(string(d.content(v))); s.Terminal() {
			return s
		}
	}
	d.bad("outcome", v, "claimed, refunded or cancelled")
	return StatusNone
}

func (d *Decoder) unixMs(f field) int64 {
	v, ok := d.member(f)
	if !ok {
		return 0
	}
	if v.kind == kindNumber {
		raw := d.scan.b[v.start:v.end]
		if ms, ok := ExactInteger(raw, d.rules.NumbersByDouble); ok && ms > 0 {
			if _, plain := plainInteger(raw); !plain {
				d.canonical = false
			}
			return ms
		}
	}
	d.bad(fieldNames[f], v, "Unix milliseconds, an integer in 1…2^53−1")
	return 0
}

// wireRails reads the rails into d.rails.
func (d *Decoder) wireRails() {
	v, ok := d.member(fRails)
	if !ok {
		return
	}
	s := &d.scan
	i := v.start + 1
	if v.kind == kindArray {
		i = s.space(i)
	}
	if v.kind != kindArray || s.at(i) == ']' {
		d.bad("rails", v, "an array that is not empty")
		return
	}
	// The array was found to be JSON before, so only its elements are in
	// question.
	for {
		r, next, _ := s.value(i)
		if r.kind != kindString || !isWireRail(d.content(r)) {
			d.bad("each of rails", r, wantRail)
			return
		}
		d.rails = append(d.rails, d.keep(d.content(r)))
		if i = s.space(next); s.at(i) == ']' {
			return
		}
		i = s.space(i + 1)
	}
}

// maxInner is how many members a nested object can have.
const maxInner = 3

// jobSpans is where a job's strings stand.
type jobSpans struct{ context, id, proto span }

// job reads the optional job (SPEC §6).
func (d *Decoder) job() (job jobSpans, ok bool) {
	have, ok := d.nested(fJob, "context", "id", "proto")
	if !ok {
		return job, false
	}
	if missing := 0b110 &^ have; missing != 0 {
		name := "id"
		if missing&0b010 == 0 {
			name = "proto"
		}
		d.fail(MissingField, "job lacks "+name)
		return job, false
	}
	if have&0b001 != 0 {
		job.context = d.freeText("job.context", d.inner[0])
	}
	job.id = d.freeText("job.id", d.inner[1])
	job.proto = d.freeText("job.proto", d.inner[2])
	return job, true
}

// presig reads a lock's optional pre-signature (SPEC §3.3). It is held to the
// form of its parts, a point and a scalar; whether it verifies is not asked.
func (d *Decoder) presig() *PreSignature {
	have, ok := d.nested(fPresig, "nonce", "s")
	if !ok {
		return nil
	}
	if missing := 0b11 &^ have; missing != 0 {
		name := "nonce"
		if missing&0b01 == 0 {
			name = "s"
		}
		d.fail(MissingField, "presig lacks "+name)
		return nil
	}
	var p PreSignature
	if v := d.inner[0]; v.kind != kindString || !decodeHex(p.Nonce[:], d.content(v)) {
		d.bad("presig.nonce", v, wantPoint)
	}
	if v := d.inner[1]; v.kind != kindString || !decodeHex(p.S[:], d.content(v)) || !p.S.Valid() {
		d.bad("presig.s", v, wantHex32+", a scalar above 0 and below the group order")
	}
	if d.reason == ReasonNone && !d.isOnCurve(p.Nonce) {
		d.fail(PointInvalid, "presig.nonce is not a compressed point of secp256k1")
	}
	if d.reason != ReasonNone {
		return nil
	}
	return &p
}

// nested reads a member that is an object with no other members than the named
// ones, given in canonical order, into d.inner. have has a bit for each that is
// there. It is false when the member is absent or refused.
func (d *Decoder) nested(f field, names ...string) (have uint, ok bool) {
	v, ok := d.member(f)
	if !ok {
		return 0, false
	}
	if v.kind != kindObject {
		d.bad(fieldNames[f], v, "an object")
		return 0, false
	}
	last := -1
	d.scan.object(v.start+1, func(name []byte, escaped bool, v value) {
		i := len(names) - 1
		for i >= 0 && string(name) != names[i] {
			i--
		}
		if i < 0 {
			if d.reason == ReasonNone {
				d.fail(UnknownField, "a member that "+fieldNames[f]+" does not have: "+safeText(string(name)))
			}
			return
		}
		if escaped || i <= last {
			d.canonical = false
		}
		last = i
		have |= 1 << i
		d.inner[i] = v
	})
	return have, d.reason == ReasonNone
}

// pointSlots is the size of a decoder's table of points: what honest boards
// reuse, and no more than a cache holds.
const pointSlots = 1 << 15

// pointTable remembers whether points are on the curve, which takes a square
// root to find out. A point has one slot, by the low bits of its x coordinate;
// who crowds a slot on purpose gains no more than no table would cost.
type pointTable [pointSlots]struct {
	point        Point
	known, valid bool
}

func (d *Decoder) isOnCurve(p Point) bool {
	if !d.useTable {
		return p.Valid()
	}
	if d.points == nil {
		d.points = new(pointTable)
	}
	slot := &d.points[(uint(p[31])<<8|uint(p[32]))%pointSlots]
	if !slot.known || slot.point != p {
		slot.point, slot.known, slot.valid = p, true, p.Valid()
	}
	return slot.valid
}

// LineType returns the string member "type" of the JSON object that follows the
// first six characters of any line, whatever those are, and whatever else is
// wrong with the line: the type that a sender meant. It is false where no such
// object or member is there. The word is a stranger's: quote it before showing
// it.
func LineType(line string) (string, bool) {
	return lineType([]byte(line))
}

func lineType(line []byte) (string, bool) {
	i := 0
	for units := 0; units < len(LinePrefix); units++ {
		if i >= len(line) {
			return "", false
		}
		size := unitBytes(line[i:])
		if size == 4 {
			units++
		}
		if units >= len(LinePrefix) {
			return "", false // the cut splits a surrogate pair
		}
		i += size
	}
	s := scanner{b: line[i:]}
	i = s.space(0)
	if s.at(i) != '{' {
		return "", false
	}
	var last value
	next, ok := s.object(i+1, func(name []byte, _ bool, v value) {
		if string(name) == "type" {
			last = v
		}
	})
	if !ok || s.space(next) != len(s.b) || last.kind != kindString {
		return "", false
	}
	word, _ := appendUnescaped(nil, s.b[last.start:last.end])
	return string(word), true
}

// lineFrameType is the type of a line that is refused before its JSON is read.
func lineFrameType(line []byte) FrameType {
	word, _ := lineType(line)
	return ParseFrameType(word)
}
