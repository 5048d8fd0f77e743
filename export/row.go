package export

import (
	"fmt"
	"strconv"

	"github.com/tclk-audit/tclk-audit/protocol"
)

// ParseRules switches the points where the reference implementation reads rows
// more loosely than this project does. The zero value is the project's own
// reading.
type ParseRules struct {
	LastDuplicateWins  bool // a repeated member keeps its last value, instead of a malformed row
	NumbersByDouble    bool // seq is judged by its nearest double, instead of its exact value
	DatesRollOver      bool // 30 February is 2 March, instead of a malformed row
	ReplaceInvalidUTF8 bool // each maximal invalid part becomes U+FFFD, instead of a malformed row
}

// ReferenceRules returns the reference implementation's reading of rows.
func ReferenceRules() ParseRules {
	return ParseRules{LastDuplicateWins: true, NumbersByDouble: true, DatesRollOver: true, ReplaceInvalidUTF8: true}
}

// maxSeq is the largest seq, 2^53−1: the largest integer that every JSON
// reader keeps exactly.
const maxSeq = 1<<53 - 1

// member is a member of a row object that ParseRow knows.
type member uint8

const (
	memberSeq member = iota
	memberTs
	memberFrom
	memberText
	memberNonce
	memberSig
	memberRoom
	memberCount
	memberOther = memberCount // any other
)

func memberOf(name []byte) member {
	switch string(name) {
	case "seq":
		return memberSeq
	case "ts":
		return memberTs
	case "from":
		return memberFrom
	case "text":
		return memberText
	case "nonce":
		return memberNonce
	case "sig":
		return memberSig
	case "room":
		return memberRoom
	}
	return memberOther
}

type valueKind uint8

const (
	valueAbsent valueKind = iota
	valueNull
	valueString
	valueNumber
	valueOther
)

type field struct {
	kind valueKind
	val  []byte // a string's bytes, a number's token
}

// ParseRow parses one row: a JSON object with seq, ts, from, text and, on
// signed rows, nonce and sig (SPEC §2). JSON's white space may stand around
// it. Members that a row does not have are allowed, since archives add some.
//
// It fills rec's Seq, TsMs, From, Nonce, Sig and Text and leaves Room and
// Generation to the caller. room is the row's own room member, unchecked, and
// "" where there is none. A nonce that is a JSON number is taken digit by
// digit, whatever its form; a nonce or sig of null counts as absent (nil).
//
// The slices in rec point into line, or into *scratch where a string was
// escaped. ParseRow only appends to *scratch, so one scratch can serve a whole
// chunk: reset it to length 0 when the records are no longer used. It must not
// be nil.
//
// reason is ReasonNone, RowNotJSON, DuplicateMember, RowField or RowTime;
// detail then says what is wrong, without any text of the row, and rec holds
// nothing of use.
func ParseRow(line []byte, rules ParseRules, scratch *[]byte, rec *protocol.Record) (room string, reason protocol.Reason, detail string) {
	p := parser{
		b: line, scratch: *scratch, duplicate: -1,
		replaceUTF8: rules.ReplaceInvalidUTF8, lastWins: rules.LastDuplicateWins,
	}
	var fields [memberCount]field
	ok := p.row(&fields)
	*scratch = p.scratch
	if !ok {
		return "", protocol.RowNotJSON, p.describeRow()
	}
	if p.duplicate >= 0 {
		return "", protocol.DuplicateMember, "a member stands twice in one object (byte " + strconv.Itoa(p.duplicate) + ")"
	}

	seq := &fields[memberSeq]
	switch seq.kind {
	case valueNumber:
		v, ok := protocol.ExactInteger(seq.val, rules.NumbersByDouble)
		if !ok || v < 0 {
			return "", protocol.RowField, "seq is not an integer from 0 to " + strconv.Itoa(maxSeq)
		}
		rec.Seq = uint64(v)
	case valueAbsent:
		return "", protocol.RowField, "seq is missing"
	default:
		return "", protocol.RowField, "seq is not a number"
	}

	switch ts := &fields[memberTs]; ts.kind {
	case valueString:
		ms, ok := ParseTime(ts.val, rules.DatesRollOver)
		if !ok {
			return "", protocol.RowTime, "ts is not an RFC 3339 time with a zone, at or after 1970"
		}
		rec.TsMs = ms
	case valueAbsent:
		return "", protocol.RowTime, "ts is missing"
	default:
		return "", protocol.RowTime, "ts is not a string"
	}

	switch from := &fields[memberFrom]; from.kind {
	case valueString:
		rec.From = from.val
	case valueAbsent:
		return "", protocol.RowField, "from is missing"
	default:
		return "", protocol.RowField, "from is not a string"
	}

	switch text := &fields[memberText]; text.kind {
	case valueString:
		rec.Text = text.val
	case valueAbsent:
		return "", protocol.RowField, "text is missing"
	default:
		return "", protocol.RowField, "text is not a string"
	}

	switch nonce := &fields[memberNonce]; nonce.kind {
	case valueOther:
		return "", protocol.RowField, "nonce is neither a number nor a string"
	default:
		rec.Nonce = nonce.val
	}

	switch sig := &fields[memberSig]; sig.kind {
	case valueNumber, valueOther:
		return "", protocol.RowField, "sig is not a string"
	default:
		rec.Sig = sig.val
	}

	switch r := &fields[memberRoom]; r.kind {
	case valueAbsent, valueNull:
		return "", protocol.ReasonNone, ""
	case valueString:
		// Rows of one file name one room, and callers reuse records.
		switch string(r.val) {
		case rec.Room:
			return rec.Room, protocol.ReasonNone, ""
		case protocol.BoardRoom:
			return protocol.BoardRoom, protocol.ReasonNone, ""
		}
		return string(r.val), protocol.ReasonNone, ""
	default:
		return "", protocol.RowField, "room is not a string"
	}
}

// row scans one row object and nothing else.
func (p *parser) row(fields *[memberCount]field) bool {
	i := p.space(0)
	if i >= len(p.b) || p.b[i] != '{' {
		p.fail(faultSyntax, i)
		return false
	}
	if i = p.rowMembers(i+1, fields); i < 0 {
		return false
	}
	if i = p.space(i); i < len(p.b) {
		p.fail(faultSyntax, i)
		return false
	}
	return true
}

func (p *parser) rowMembers(i int, fields *[memberCount]field) int {
	var others nameSet
	if i = p.space(i); i < len(p.b) && p.b[i] == '}' {
		return i + 1
	}
	for {
		name, at, value := p.memberName(p.space(i))
		if value < 0 {
			return value
		}
		m := memberOf(name)
		if m == memberOther {
			if !p.lastWins && others.add(name) {
				p.repeated(at)
			}
			i = p.skipValue(value, 1)
		} else {
			f := &fields[m]
			if f.kind != valueAbsent && !p.lastWins {
				p.repeated(at)
			}
			i = p.fieldValue(value, f)
		}
		if i < 0 {
			return i
		}
		if i = p.space(i); i < len(p.b) && p.b[i] == '}' {
			return i + 1
		}
		if i >= len(p.b) || p.b[i] != ',' {
			return p.fail(faultSyntax, i)
		}
		i++
	}
}

func (p *parser) fieldValue(i int, f *field) (end int) {
	f.val = nil
	if i < len(p.b) {
		switch c := p.b[i]; {
		case c == '"':
			f.kind = valueString
			f.val, end = p.stringValue(i + 1)
			return end
		case c == '-' || c >= '0' && c <= '9':
			if end = p.number(i); end >= 0 {
				f.kind, f.val = valueNumber, p.b[i:end:end]
			}
			return end
		case c == 'n':
			f.kind = valueNull
			return p.literal(i, "null")
		}
	}
	f.kind = valueOther
	return p.skipValue(i, 1)
}

// describeRow says why a line is not one JSON object.
func (p *parser) describeRow() string {
	if i := p.space(0); i < len(p.b) && p.b[i] != '{' {
		other := parser{b: p.b, replaceUTF8: p.replaceUTF8, lastWins: true}
		if end := other.skipValue(i, 0); end >= 0 && other.space(end) == len(p.b) {
			return "JSON, but not an object"
		}
	}
	return p.describe()
}

// Torn reports whether line is the beginning of a row that was cut off: a JSON
// object that is in order as far as it goes and ends too early. A crash of the
// venue leaves such a fragment on a line of its own.
func Torn(line []byte) bool {
	p := parser{b: line, replaceUTF8: true, lastWins: true}
	if i := p.space(0); i >= len(line) || line[i] != '{' {
		return false
	}
	return p.skipValue(p.space(0), 0) < 0 && p.fault == faultEnd
}

// complete reports whether line is one whole JSON object.
func complete(line []byte) bool {
	p := parser{b: line, replaceUTF8: true, lastWins: true}
	i := p.space(0)
	if i >= len(line) || line[i] != '{' {
		return false
	}
	end := p.skipValue(i, 0)
	return end >= 0 && p.space(end) == len(line)
}

// Parsed is the outcome of RawRow.Parse.
type Parsed struct {
	Room   string          // the row's own room member, "" when it has none
	Reason protocol.Reason // why the row is malformed, ReasonNone when it is not
	Detail string          // particulars, safe to show; "" when in order
	Torn   bool            // the row is malformed because it was cut off
}

// Parse parses a row that a Reader found; see ParseRow for rules, scratch and
// rec. A row that the Reader could not hand out whole is malformed as
// RowNotJSON.
func (r *RawRow) Parse(rules ParseRules, scratch *[]byte, rec *protocol.Record) Parsed {
	switch r.Kind {
	case RowTorn:
		return Parsed{Reason: protocol.RowNotJSON, Detail: "cut off: the input ends or breaks inside it", Torn: true}
	case RowTooLong:
		return Parsed{Reason: protocol.RowNotJSON, Detail: fmt.Sprintf("%d bytes long, over the limit: raise --max-line to read it", r.Size)}
	}
	room, reason, detail := ParseRow(r.Bytes, rules, scratch, rec)
	return Parsed{
		Room: room, Reason: reason, Detail: detail,
		Torn: reason == protocol.RowNotJSON && Torn(r.Bytes),
	}
}
