package protocol

import (
	"errors"
	"slices"
	"strconv"
)

// LinePrefix opens every tclk/1 frame line. It is the version (SPEC §3).
const LinePrefix = "tclk1 "

// MaxLineLength is the length of the longest frame line in characters, prefix
// included: the venue's cap for a message (SPEC §2).
const MaxLineLength = 4096

// CanonicalLine returns the one line that stands for the frame: "tclk1 " and its
// canonical JSON. Unlike [Encode] it checks nothing: the line of a frame that
// was decoded from odd but valid bytes may be too long or hold a DEL, and then
// may not be sent. f must not be nil.
func CanonicalLine(f Frame) string {
	var stack [1024]byte
	return string(AppendCanonical(append(stack[:0], LinePrefix...), f))
}

// AppendCanonical appends the frame's canonical JSON, without the prefix, to dst
// (SPEC §3): members in the order of their names, no white space, absent
// optional members left out, JavaScript's string escapes, and \uxxxx in
// lower-case digits for every UTF-16 unit from 0x80 up. Ids and contracts hash
// these bytes. It checks nothing; f must not be nil.
func AppendCanonical(dst []byte, f Frame) []byte {
	switch f := f.(type) {
	case *Offer:
		return appendOffer(dst, f, true)
	case *Accept:
		return appendAccept(dst, f, true)
	case *Lock:
		return appendLock(dst, f)
	case *Reveal:
		dst = appendContractFrom(dst, f.Contract, f.From)
		dst = appendOptional(dst, `,"ref":`, f.Ref)
		dst = appendBytes(dst, `,"secret":"`, f.Secret[:])
		return append(dst, `,"type":"reveal"}`...)
	case *Refund:
		dst = appendContractFrom(dst, f.Contract, f.From)
		dst = appendOptional(dst, `,"reason":`, f.Reason)
		dst = appendOptional(dst, `,"ref":`, f.Ref)
		return append(dst, `,"type":"refund"}`...)
	case *Cancel:
		dst = appendContractFrom(dst, f.Contract, f.From)
		dst = appendOptional(dst, `,"reason":`, f.Reason)
		return append(dst, `,"type":"cancel"}`...)
	case *Receipt:
		dst = appendContractFrom(dst, f.Contract, f.From)
		dst = appendString(append(dst, `,"outcome":`...), f.Outcome.String())
		dst = appendOptional(dst, `,"rail":`, f.Rail)
		dst = appendOptional(dst, `,"ref":`, f.Ref)
		return append(dst, `,"type":"receipt"}`...)
	case *Heartbeat:
		dst = appendContractFrom(dst, f.Contract, f.From)
		dst = appendString(append(dst, `,"nonce":`...), f.Nonce)
		dst = appendOptional(dst, `,"note":`, f.Note)
		return append(dst, `,"type":"heartbeat"}`...)
	}
	return dst
}

func appendOffer(dst []byte, o *Offer, withID bool) []byte {
	dst = appendString(append(dst, `{"amount":`...), o.Amount)
	dst = appendString(append(dst, `,"asset":`...), o.Asset)
	dst = strconv.AppendInt(append(dst, `,"claimByMs":`...), o.ClaimByMs, 10)
	dst = strconv.AppendInt(append(dst, `,"expiresMs":`...), o.ExpiresMs, 10)
	dst = appendString(append(dst, `,"from":`...), o.From)
	if withID {
		dst = appendBytes(dst, `,"id":"`, o.ID[:])
	}
	if o.Job != nil {
		dst = append(dst, `,"job":{`...)
		if o.Job.Context != "" {
			dst = append(appendString(append(dst, `"context":`...), o.Job.Context), ',')
		}
		dst = appendString(append(dst, `"id":`...), o.Job.ID)
		dst = append(appendString(append(dst, `,"proto":`...), o.Job.Proto), '}')
	}
	dst = appendString(append(dst, `,"lock":`...), o.Lock.String())
	dst = appendString(append(dst, `,"nonce":`...), o.Nonce)
	dst = appendKey(dst, o.PaymentKey)
	dst = append(dst, `,"rails":[`...)
	for i, r := range o.Rails {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, r)
	}
	dst = strconv.AppendInt(append(dst, `],"refundAfterMs":`...), o.RefundAfterMs, 10)
	dst = appendString(append(dst, `,"role":`...), o.Role.String())
	return append(dst, `,"type":"offer"}`...)
}

// appendAccept appends an accept; without its contract and type where the
// contract id is computed.
func appendAccept(dst []byte, a *Accept, whole bool) []byte {
	if whole {
		dst = appendContractFrom(dst, a.Contract, a.From)
	} else {
		dst = appendString(append(dst, `{"from":`...), a.From)
	}
	dst = appendString(append(dst, `,"nonce":`...), a.Nonce)
	dst = appendKey(dst, a.PaymentKey)
	dst = appendBytes(dst, `,"ref":"`, a.Ref[:])
	dst = appendBytes(dst, `,"statement":"`, a.Statement.b[:a.Statement.n])
	if whole {
		dst = append(dst, `,"type":"accept"`...)
	}
	return append(dst, '}')
}

func appendLock(dst []byte, l *Lock) []byte {
	dst = appendContractFrom(dst, l.Contract, l.From)
	if l.Presig != nil {
		dst = appendBytes(dst, `,"presig":{"nonce":"`, l.Presig.Nonce[:])
		dst = append(appendBytes(dst, `,"s":"`, l.Presig.S[:]), '}')
	}
	dst = appendString(append(dst, `,"rail":`...), l.Rail)
	dst = appendString(append(dst, `,"ref":`...), l.Ref)
	return append(dst, `,"type":"lock"}`...)
}

// appendContractFrom opens every frame but an offer.
func appendContractFrom(dst []byte, contract ID, from string) []byte {
	dst = appendBytes(dst, `{"contract":"`, contract[:])
	return appendString(append(dst, `,"from":`...), from)
}

func appendKey(dst []byte, key Point) []byte {
	if key.IsZero() {
		return dst
	}
	return appendBytes(dst, `,"paymentKey":"`, key[:])
}

// appendBytes appends a member whose value is 0x and hex digits; the name comes
// with the value's opening quote.
func appendBytes(dst []byte, name string, b []byte) []byte {
	return append(appendHex(append(dst, name...), b), '"')
}

// appendOptional appends a member unless its value is "", which means absent.
func appendOptional(dst []byte, name, s string) []byte {
	if s == "" {
		return dst
	}
	return appendString(append(dst, name...), s)
}

// appendString appends a WTF-8 string as a canonical JSON string. A byte that is
// no WTF-8 becomes \ufffd.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	plain := 0 // where the run of bytes that stand for themselves begins
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c < 0x80 && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(dst, s[plain:i]...)
		if c >= 0x80 {
			r, size := decodeWTF8(s[i:])
			i += size
			if r >= 0x10000 {
				r -= 0x10000
				dst = appendUnitEscape(dst, 0xd800+r>>10)
				r = 0xdc00 + r&0x3ff
			}
			dst = appendUnitEscape(dst, r)
		} else {
			i++
			switch c {
			case '"', '\\':
				dst = append(dst, '\\', c)
			case '\b':
				dst = append(dst, `\b`...)
			case '\t':
				dst = append(dst, `\t`...)
			case '\n':
				dst = append(dst, `\n`...)
			case '\f':
				dst = append(dst, `\f`...)
			case '\r':
				dst = append(dst, `\r`...)
			default:
				dst = appendUnitEscape(dst, rune(c))
			}
		}
		plain = i
	}
	return append(append(dst, s[plain:]...), '"')
}

func appendUnitEscape(dst []byte, unit rune) []byte {
	return append(dst, '\\', 'u', hexDigit[unit>>12&15], hexDigit[unit>>8&15], hexDigit[unit>>4&15], hexDigit[unit&15])
}

// isWTF8 reports whether a string is what decoding a JSON string can give:
// UTF-8 but for lone surrogates, of which no two make a pair. Only such a string
// comes back unchanged from a line.
func isWTF8(s string) bool {
	high := false
	for i := 0; i < len(s); {
		r, size := decodeWTF8(s[i:])
		if size == 1 && s[i] >= 0x80 || high && isLowSurrogate(r) {
			return false
		}
		high = isHighSurrogate(r)
		i += size
	}
	return true
}

// EncodeError is why [Encode] refuses a frame.
type EncodeError struct {
	Reason Reason // the reason for which a reader would refuse the line; BadField for a rail or string that only new emission refuses
	Detail string // the particulars, without a stranger's text
	Err    error  // the rail's fault, else nil: ErrMalformedRail, ErrUnknownRail, ErrRailAlias, ErrRepeatedRail
}

// Error implements error.
func (e *EncodeError) Error() string {
	return "protocol: encode: " + e.Reason.String() + ": " + e.Detail
}

// Unwrap returns Err.
func (e *EncodeError) Unwrap() error { return e.Err }

// What a new frame's rails must not be, beside malformed or unknown.
var (
	ErrRailAlias    = errors.New("protocol: rail id is an alias")
	ErrRepeatedRail = errors.New("protocol: rails repeat an id")
)

// Encode returns the line that announces a new frame: [CanonicalLine], once the
// frame has passed every check of [Decode] and those that SPEC §5 adds for new
// emission. Each rail must be a registered canonical id, and an offer names none
// twice; the order of rails is left alone, since it is part of the id. Strings
// must be UTF-8 but for lone surrogates. A line over 4096 characters or with a
// byte outside 0x20–0x7e (a DEL in a string) is refused. The error is an
// *EncodeError, or says that f is nil.
//
// A frame that was decoded from an old line may be refused here, and its
// CanonicalLine still is its canonical form.
func Encode(f Frame) (string, error) {
	if isNilFrame(f) {
		return "", errors.New("protocol: encode: the frame is nil")
	}
	line := CanonicalLine(f)
	if d := Decode(line, DecodeRules{}); d.Reason != ReasonNone {
		return "", &EncodeError{Reason: d.Reason, Detail: d.Detail}
	}
	for _, s := range freeTexts(f) {
		if !isWTF8(s) {
			return "", &EncodeError{Reason: BadField, Detail: "a string is not UTF-8"}
		}
	}
	if err := checkNewRails(f); err != nil {
		return "", err
	}
	return line, nil
}

func isNilFrame(f Frame) bool {
	switch f := f.(type) {
	case *Offer:
		return f == nil
	case *Accept:
		return f == nil
	case *Lock:
		return f == nil
	case *Reveal:
		return f == nil
	case *Refund:
		return f == nil
	case *Cancel:
		return f == nil
	case *Receipt:
		return f == nil
	case *Heartbeat:
		return f == nil
	}
	return true
}

// freeTexts lists the strings of a frame whose form is free.
func freeTexts(f Frame) []string {
	switch f := f.(type) {
	case *Offer:
		if f.Job != nil {
			return []string{f.Job.Proto, f.Job.ID, f.Job.Context}
		}
	case *Lock:
		return []string{f.Ref}
	case *Reveal:
		return []string{f.Ref}
	case *Refund:
		return []string{f.Ref, f.Reason}
	case *Cancel:
		return []string{f.Reason}
	case *Receipt:
		return []string{f.Ref}
	case *Heartbeat:
		return []string{f.Note}
	}
	return nil
}

func checkNewRails(f Frame) error {
	switch f := f.(type) {
	case *Offer:
		for i, r := range f.Rails {
			if err := checkNewRail(r); err != nil {
				return err
			}
			if slices.Contains(f.Rails[:i], r) {
				return &EncodeError{Reason: BadField, Detail: "rails name " + r + " twice", Err: ErrRepeatedRail}
			}
		}
	case *Lock:
		return checkNewRail(f.Rail)
	case *Receipt:
		if f.Rail != "" {
			return checkNewRail(f.Rail)
		}
	}
	return nil
}

// checkNewRail takes a rail in its registered spelling only: to rewrite it here
// would change what the sender signs.
func checkNewRail(s string) error {
	r, err := NormalizeRail(s)
	if err != nil {
		return &EncodeError{Reason: BadField, Detail: err.Error(), Err: err}
	}
	if string(r) != s {
		return &EncodeError{Reason: BadField, Detail: "the rail " + safeText(s) + " is an alias; use " + string(r), Err: ErrRailAlias}
	}
	return nil
}
