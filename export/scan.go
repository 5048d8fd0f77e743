package export

import (
	"bytes"
	"encoding/binary"
	"unicode/utf8"

	"github.com/tclk-audit/tclk-audit/protocol"
)

// scanState says how far a structural scan came.
type scanState uint8

const (
	scanDone scanState = iota // the value is complete
	scanMore                  // the text ends inside the value
	scanBad                   // the text cannot go on like this: it was cut or is no JSON
)

// skipper finds the end of a JSON value by its brackets and quotes alone. It
// checks no more than that, because ParseRow does; but it notices two signs
// that the value was cut off and another line follows: a line end within a
// string, and a line that begins with a brace, without indentation, within a
// row. So a cut row does not swallow the rows behind it. A skipper can be fed
// piece by piece.
type skipper struct {
	depth    int
	started  bool
	scalar   bool // a number, a literal or worse
	inside   bool // in a string
	escaped  bool // behind a backslash
	elements bool // within an array of rows: a line may begin with a brace
	deepest  int  // a greater depth is scanBad, 0 for any
	prev     byte // the last byte of the piece before
}

const (
	classPlain = iota
	classQuote
	classOpen
	classClose
	classBetween // comma, colon or white space
)

var classOf = func() (t [256]uint8) {
	t['"'] = classQuote
	t['{'], t['['] = classOpen, classOpen
	t['}'], t[']'] = classClose, classClose
	for _, c := range ",: \t\r\n" {
		t[c] = classBetween
	}
	return t
}()

// feed takes the next piece of the text. On scanDone n is the index behind the
// value, on scanBad that of the byte that cannot be, else len(b).
func (s *skipper) feed(b []byte) (n int, state scanState) {
	n, state = s.scan(b)
	if n > 0 {
		s.prev = b[n-1]
	}
	return n, state
}

func (s *skipper) scan(b []byte) (n int, state scanState) {
	i := 0
	if !s.started {
		if len(b) == 0 {
			return 0, scanMore
		}
		s.started = true
		switch classOf[b[0]] {
		case classQuote:
			s.inside = true
			i = 1
		case classOpen:
			s.depth = 1
			i = 1
		default:
			s.scalar = true
		}
	}
	if s.scalar {
		for ; i < len(b); i++ {
			if c := classOf[b[i]]; c == classBetween || c == classClose {
				return i, scanDone
			}
		}
		return i, scanMore
	}
	for i < len(b) {
		if s.inside {
			if !s.escaped {
				if i = stringStop(b, i); i == len(b) {
					break
				}
				switch b[i] {
				case '"':
					i++
					if s.inside = false; s.depth == 0 {
						return i, scanDone
					}
					continue
				case '\n':
					return i, scanBad
				}
				s.escaped = true
				if i++; i == len(b) {
					break
				}
			}
			if b[i] == '\n' {
				return i, scanBad
			}
			s.escaped = false
			i++
			continue
		}
		switch classOf[b[i]] {
		case classQuote:
			s.inside = true
		case classOpen:
			if b[i] == '{' && !s.elements {
				prev := s.prev
				if i > 0 {
					prev = b[i-1]
				}
				if prev == '\n' {
					return i, scanBad
				}
			}
			if s.depth++; s.depth == s.deepest+1 && s.deepest > 0 {
				return i, scanBad
			}
		case classClose:
			if s.depth--; s.depth == 0 {
				return i + 1, scanDone
			}
		}
		i++
	}
	return i, scanMore
}

// stringStop finds the next byte at or after i that matters within a string:
// a quote, a backslash or a line end.
func stringStop(b []byte, i int) int {
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		quote, slash, line := w^'"'*ones, w^'\\'*ones, w^'\n'*ones
		if marks := ((quote-ones)&^quote | (slash-ones)&^slash | (line-ones)&^line) & highs; marks != 0 {
			return i + before(marks)
		}
	}
	for i < len(b) && b[i] != '"' && b[i] != '\\' && b[i] != '\n' {
		i++
	}
	return i
}

// skipValue finds the end of the value that begins at b[0].
func skipValue(b []byte) (n int, state scanState) { return skipper{}.skip(b) }

func (s skipper) skip(b []byte) (n int, state scanState) {
	n, state = s.feed(b)
	if state == scanDone && n == 0 {
		state = scanBad // a comma, a colon or a bracket that closes
	}
	return n, state
}

// object is what a scan of an object's members found, up to its messages
// array or, where that is missing, to its end.
type object struct {
	state    scanState
	end      int  // the index behind the object, or behind the [ of messages
	messages bool // it is a page: a messages array stands before any seq
	seq      bool // it has a seq: a row
	head     pageHead
}

// pageHead is what a page says of its messages.
type pageHead struct {
	room     string
	gen      uint64
	last     uint64 // last_seq, 0 when it does not say before its messages
	hasRoom  bool
	hasGen   bool
	repeated bool // room, generation or messages stands twice
}

// take notes a member of a page if it is one that matters. value is its raw
// text.
func (h *pageHead) take(name string, value []byte) {
	switch name {
	case "room":
		h.repeated = h.repeated || h.hasRoom
		h.hasRoom = true
		p := parser{b: value, replaceUTF8: true}
		if value[0] == '"' {
			if text, end := p.stringValue(1); end == len(value) {
				h.room = string(text)
			}
		}
	case "generation":
		h.repeated = h.repeated || h.hasGen
		h.hasGen = true
		h.gen = count(value)
	case "last_seq":
		h.last = count(value)
	}
}

// count reads a JSON number that counts something, 0 where it is none.
func count(value []byte) uint64 {
	p := parser{b: value}
	if c := value[0]; c >= '0' && c <= '9' && p.number(0) == len(value) {
		if v, ok := protocol.ExactInteger(value, false); ok {
			return uint64(v)
		}
	}
	return 0
}

// scanObject looks through the object that begins at b[0], to tell a page from
// a row and to find where the object ends. With whole set it goes on to the
// end of a row; otherwise it stops at a seq.
//
// A line end is taken only where a printer of indented JSON puts one, not
// around a colon. So a row that was cut off behind a colon or a comma does not
// swallow the line that follows it.
//
// A caller that gets scanBad goes on with the next line and may look through
// the same bytes again. Values deeper than rows are therefore scanBad: no byte
// is within reach of more than MaxRowDepth such looks.
func scanObject(b []byte, whole bool) (o object) {
	i := 1
	for {
		i = skipSpaces(b, i)
		if i == len(b) {
			return o.stop(scanMore, i)
		}
		if b[i] == '}' {
			return o.stop(scanDone, i+1)
		}
		name, value, state := scanName(b, i)
		if state != scanDone {
			return o.stop(state, value)
		}
		switch {
		case name == "seq":
			if o.seq = true; !whole {
				return o.stop(scanDone, value)
			}
		case name == "messages" && b[value] == '[' && !o.seq:
			o.messages = true
			return o.stop(scanDone, value+1)
		}
		n, state := skipper{deepest: MaxRowDepth}.skip(b[value:])
		if state != scanDone {
			return o.stop(state, value+n)
		}
		o.head.take(name, b[value:value+n])
		i = skipSpaces(b, value+n)
		switch {
		case i == len(b):
			return o.stop(scanMore, i)
		case b[i] == ',':
			i++
		case b[i] != '}':
			return o.stop(scanBad, i)
		}
	}
}

func (o object) stop(state scanState, end int) object {
	o.state, o.end = state, end
	return o
}

// scanName reads the member name at b[i] and the colon behind it, which stand
// on one line. Names with escapes are of no interest here and come out empty.
func scanName(b []byte, i int) (name string, value int, state scanState) {
	if b[i] != '"' {
		return "", i, scanBad
	}
	n, state := skipValue(b[i:])
	if state != scanDone {
		return "", i + n, state
	}
	raw := b[i+1 : i+n-1]
	for i += n; i < len(b) && (b[i] == ' ' || b[i] == '\t'); i++ {
	}
	if i == len(b) {
		return "", i, scanMore
	}
	if b[i] != ':' {
		return "", i, scanBad
	}
	for i++; i < len(b) && (b[i] == ' ' || b[i] == '\t'); i++ {
	}
	if i == len(b) {
		return "", i, scanMore
	}
	if b[i] == '\n' || b[i] == '\r' {
		return "", i, scanBad
	}
	switch string(raw) {
	case "seq":
		name = "seq"
	case "messages":
		name = "messages"
	case "room":
		name = "room"
	case "generation":
		name = "generation"
	case "last_seq":
		name = "last_seq"
	}
	return name, i, scanDone
}

// scanTail looks behind the messages of a page, whose first byte behind the [
// is b[0], for members that stand there.
func scanTail(b []byte, head *pageHead) scanState {
	s := skipper{started: true, depth: 1, elements: true, deepest: 1 + MaxRowDepth}
	i, state := s.feed(b)
	if state != scanDone {
		return state
	}
	for {
		i = skipSpaces(b, i)
		if i == len(b) {
			return scanMore
		}
		if b[i] == '}' {
			return scanDone
		}
		if b[i] != ',' {
			return scanBad
		}
		if i = skipSpaces(b, i+1); i == len(b) {
			return scanMore
		}
		name, value, state := scanName(b, i)
		if state != scanDone {
			return state
		}
		n, state := skipValue(b[value:])
		if state != scanDone {
			return state
		}
		head.take(name, b[value:value+n])
		i = value + n
	}
}

func skipSpaces(b []byte, i int) int {
	for i < len(b) && isSpace(b[i]) {
		i++
	}
	return i
}

// beginsRow reports whether b begins with what the venue writes at the start
// of every row. Such a line or element is a row and needs no closer look.
func beginsRow(b []byte) bool { return len(b) >= 6 && string(b[:6]) == `{"seq"` }

// blank reports whether a line holds nothing but white space as JavaScript's
// String.trim has it, which is what the reference skips. A line with U+0085 or
// U+200B is not blank.
func blank(line []byte) bool {
	for i := 0; i < len(line); {
		c := line[i]
		if c < utf8.RuneSelf {
			if c != ' ' && (c < '\t' || c > '\r') {
				return false
			}
			i++
			continue
		}
		r, size := utf8.DecodeRune(line[i:])
		switch {
		case r == 0xA0, r == 0x1680, r >= 0x2000 && r <= 0x200A, r == 0x2028, r == 0x2029,
			r == 0x202F, r == 0x205F, r == 0x3000, r == 0xFEFF:
		default:
			return false
		}
		i += size
	}
	return true
}

// trimRight cuts JSON's white space off the end.
func trimRight(b []byte) []byte {
	for len(b) > 0 && isSpace(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}

func countLines(b []byte) int64 { return int64(bytes.Count(b, []byte{'\n'})) }
