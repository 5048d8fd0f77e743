package export

import (
	"encoding/binary"
	"math/bits"
	"strconv"
	"unicode/utf8"
)

// MaxRowDepth is how deep objects and arrays may lie in each other in a row.
// The venue's rows have depth 1. A deeper row is malformed; the bound is what
// keeps the recursion of the parser small.
const MaxRowDepth = 64

// fault says why a text is not the JSON that it should be.
type fault uint8

const (
	faultNone   fault = iota
	faultSyntax       // a byte that no JSON could have there
	faultEnd          // the text ends where it must go on: it may have been cut
	faultUTF8         // a string that is not UTF-8
	faultDepth        // deeper than MaxRowDepth
)

// parser is a strict JSON scanner over one text. It checks everything that
// RFC 8259 asks, and by default what I-JSON asks too: UTF-8 and no member
// twice. Its methods take the index where a thing begins and return the index
// behind it, or -1 with fault and at set.
type parser struct {
	b       []byte
	scratch []byte // unescaped strings are appended here

	replaceUTF8 bool // take invalid UTF-8 as U+FFFD instead of refusing it
	lastWins    bool // do not look for repeated members

	fault     fault
	at        int
	duplicate int // index of the first repeated member's name, -1 if none
}

func (p *parser) fail(f fault, at int) int {
	if at >= len(p.b) {
		f = faultEnd
	}
	p.fault, p.at = f, at
	return -1
}

// space skips JSON's white space.
func (p *parser) space(i int) int {
	for i < len(p.b) && isSpace(p.b[i]) {
		i++
	}
	return i
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special marks the bytes of a word that a JSON string does not hold as they
// are, or that need a look: quote, backslash, control characters and all but
// ASCII. The word is eight bytes of the text, the first in the lowest place,
// and the mark is the top bit of the byte's place. A borrow can mark a byte
// wrongly, but only above one that is marked rightly: the lowest mark is exact.
func special(w uint64) uint64 {
	quote := w ^ '"'*ones
	slash := w ^ '\\'*ones
	return ((quote-ones)&^quote | (slash-ones)&^slash | (w-0x20*ones)&^w | w) & highs
}

// before counts the bytes before the lowest mark.
func before(marks uint64) int { return bits.TrailingZeros64(marks) / 8 }

// skipString checks a string whose opening quote stands before i.
func (p *parser) skipString(i int) (end int, escaped bool) {
	b, start, high := p.b, i, false
	for {
		for i+8 <= len(b) {
			if marks := special(binary.LittleEndian.Uint64(b[i:])); marks != 0 {
				i += before(marks)
				break
			}
			i += 8
		}
		if i >= len(b) {
			return p.fail(faultEnd, i), escaped
		}
		switch c := b[i]; {
		case c == '"':
			if high && !p.replaceUTF8 && !utf8.Valid(b[start:i]) {
				return p.fail(faultUTF8, start), escaped
			}
			return i + 1, escaped
		case c == '\\':
			escaped = true
			if i = p.escape(i); i < 0 {
				return i, escaped
			}
		case c < 0x20:
			return p.fail(faultSyntax, i), escaped
		default:
			high = high || c >= 0x80
			i++
		}
	}
}

// escape checks the escape whose backslash stands at i.
func (p *parser) escape(i int) int {
	b := p.b
	if i+1 >= len(b) {
		return p.fail(faultEnd, len(b))
	}
	switch b[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2
	case 'u':
		for k := i + 2; k < i+6; k++ {
			if k >= len(b) || hexValue(b[k]) < 0 {
				return p.fail(faultSyntax, k)
			}
		}
		return i + 6
	}
	return p.fail(faultSyntax, i+1)
}

func hexValue(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// stringValue checks a string whose opening quote stands before i and returns
// what it holds: a piece of the text itself where nothing is escaped, else a
// piece of the scratch buffer. A lone surrogate becomes U+FFFD, which is what
// a signer's UTF-8 encoder made of it.
func (p *parser) stringValue(i int) (value []byte, end int) {
	b, start, high := p.b, i, false
	for {
		for i+8 <= len(b) {
			if marks := special(binary.LittleEndian.Uint64(b[i:])); marks != 0 {
				i += before(marks)
				break
			}
			i += 8
		}
		if i >= len(b) {
			return nil, p.fail(faultEnd, i)
		}
		switch c := b[i]; {
		case c == '"':
			if high && !utf8.Valid(b[start:i]) {
				if !p.replaceUTF8 {
					return nil, p.fail(faultUTF8, start)
				}
				from := len(p.scratch)
				p.scratch = appendValidUTF8(p.scratch, b[start:i])
				return p.scratch[from:len(p.scratch):len(p.scratch)], i + 1
			}
			return b[start:i:i], i + 1
		case c == '\\':
			return p.unescape(start, i)
		case c < 0x20:
			return nil, p.fail(faultSyntax, i)
		default:
			high = high || c >= 0x80
			i++
		}
	}
}

// unescape goes on with a string that begins at start and has its first escape
// at i.
func (p *parser) unescape(start, i int) (value []byte, end int) {
	b := p.b
	// No escape is shorter than what it stands for, so the rest of the text
	// and one word of slack is room enough; invalid UTF-8 is the exception
	// and goes another way.
	need := len(b) - start + 8
	dst := p.scratch
	if cap(dst)-len(dst) < need {
		dst = append(dst, make([]byte, need)...)[:len(dst)]
	}
	from := len(dst)
	out := dst[from : from+need]
	n := copy(out, b[start:i])
	high := false
	for k := start; k < i; k++ {
		high = high || b[k] >= 0x80
	}
	for {
		for i+8 <= len(b) {
			w := binary.LittleEndian.Uint64(b[i:])
			binary.LittleEndian.PutUint64(out[n:], w)
			if marks := special(w); marks != 0 {
				run := before(marks)
				i, n = i+run, n+run
				break
			}
			i, n = i+8, n+8
		}
		if i >= len(b) {
			return nil, p.fail(faultEnd, i)
		}
		switch c := b[i]; {
		case c == '"':
			if high && !utf8.Valid(out[:n]) {
				if !p.replaceUTF8 {
					return nil, p.fail(faultUTF8, start)
				}
				fixed := appendValidUTF8(nil, out[:n])
				p.scratch = append(dst[:from], fixed...)
				return p.scratch[from:len(p.scratch):len(p.scratch)], i + 1
			}
			p.scratch = dst[:from+n]
			return p.scratch[from : from+n : from+n], i + 1
		case c == '\\':
			if i+1 < len(b) && b[i+1] != 'u' {
				plain := simpleEscape[b[i+1]]
				if plain == 0 {
					return nil, p.fail(faultSyntax, i+1)
				}
				out[n] = plain
				i, n = i+2, n+1
				continue
			}
			next := p.escape(i)
			if next < 0 {
				return nil, -1
			}
			r := hexRune(b[i+2:])
			if r >= 0xD800 && r <= 0xDBFF && next+1 < len(b) && b[next] == '\\' && b[next+1] == 'u' {
				second := p.escape(next)
				if second < 0 {
					return nil, -1
				}
				if low := hexRune(b[next+2:]); low >= 0xDC00 && low <= 0xDFFF {
					r, next = 0x10000+(r-0xD800)<<10+(low-0xDC00), second
				}
			}
			// EncodeRune writes U+FFFD for a surrogate.
			i, n = next, n+utf8.EncodeRune(out[n:], r)
		case c < 0x20:
			return nil, p.fail(faultSyntax, i)
		default:
			high = high || c >= 0x80
			out[n] = c
			i, n = i+1, n+1
		}
	}
}

var simpleEscape = [256]byte{
	'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t',
}

func hexRune(s []byte) rune {
	return rune(hexValue(s[0])<<12 | hexValue(s[1])<<8 | hexValue(s[2])<<4 | hexValue(s[3]))
}

// appendValidUTF8 appends s with every maximal invalid part replaced by one
// U+FFFD, as the Encoding Standard and Unicode 3.9 (D93b) have it. Go's own
// conversion makes one U+FFFD of each byte instead.
func appendValidUTF8(dst, s []byte) []byte {
	for len(s) > 0 {
		r, size := utf8.DecodeRune(s)
		if r == utf8.RuneError && size == 1 {
			size = invalidPart(s)
			dst = append(dst, "\uFFFD"...)
		} else {
			dst = append(dst, s[:size]...)
		}
		s = s[size:]
	}
	return dst
}

// invalidPart measures the longest prefix of s that begins a character and
// does not end it, at least one byte.
func invalidPart(s []byte) int {
	low, high, rest := byte(0x80), byte(0xBF), 0
	switch c := s[0]; {
	case c >= 0xC2 && c <= 0xDF:
		rest = 1
	case c >= 0xE0 && c <= 0xEF:
		rest = 2
		if c == 0xE0 {
			low = 0xA0
		} else if c == 0xED {
			high = 0x9F
		}
	case c >= 0xF0 && c <= 0xF4:
		rest = 3
		if c == 0xF0 {
			low = 0x90
		} else if c == 0xF4 {
			high = 0x8F
		}
	}
	n := 1
	for n <= rest && n < len(s) && s[n] >= low && s[n] <= high {
		low, high = 0x80, 0xBF
		n++
	}
	return n
}

// number checks a number that begins at i.
func (p *parser) number(i int) int {
	b := p.b
	if b[i] == '-' {
		i++
	}
	switch {
	case i < len(b) && b[i] == '0':
		i++
	case i < len(b) && b[i] >= '1' && b[i] <= '9':
		i = p.digits(i)
	default:
		return p.fail(faultSyntax, i)
	}
	if i < len(b) && b[i] == '.' {
		if i = p.someDigits(i + 1); i < 0 {
			return i
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		return p.someDigits(i)
	}
	return i
}

func (p *parser) digits(i int) int {
	for i < len(p.b) && p.b[i] >= '0' && p.b[i] <= '9' {
		i++
	}
	return i
}

func (p *parser) someDigits(i int) int {
	end := p.digits(i)
	if end == i {
		return p.fail(faultSyntax, i)
	}
	return end
}

func (p *parser) literal(i int, word string) int {
	for k := range len(word) {
		if i+k >= len(p.b) || p.b[i+k] != word[k] {
			return p.fail(faultSyntax, i+k)
		}
	}
	return i + len(word)
}

// skipValue checks any value that begins at i, depth levels deep.
func (p *parser) skipValue(i, depth int) int {
	if i >= len(p.b) {
		return p.fail(faultEnd, i)
	}
	switch c := p.b[i]; {
	case c == '"':
		end, _ := p.skipString(i + 1)
		return end
	case c == '{' || c == '[':
		if depth >= MaxRowDepth {
			return p.fail(faultDepth, i)
		}
		if c == '{' {
			return p.skipObject(i+1, depth+1)
		}
		return p.skipArray(i+1, depth+1)
	case c == '-' || c >= '0' && c <= '9':
		return p.number(i)
	case c == 't':
		return p.literal(i, "true")
	case c == 'f':
		return p.literal(i, "false")
	case c == 'n':
		return p.literal(i, "null")
	}
	return p.fail(faultSyntax, i)
}

func (p *parser) skipArray(i, depth int) int {
	if i = p.space(i); i < len(p.b) && p.b[i] == ']' {
		return i + 1
	}
	for {
		if i = p.skipValue(p.space(i), depth); i < 0 {
			return i
		}
		if i = p.space(i); i < len(p.b) && p.b[i] == ']' {
			return i + 1
		}
		if i >= len(p.b) || p.b[i] != ',' {
			return p.fail(faultSyntax, i)
		}
		i++
	}
}

func (p *parser) skipObject(i, depth int) int {
	var names nameSet
	if i = p.space(i); i < len(p.b) && p.b[i] == '}' {
		return i + 1
	}
	for {
		name, at, value := p.memberName(p.space(i))
		if value < 0 {
			return value
		}
		if !p.lastWins && names.add(name) {
			p.repeated(at)
		}
		if i = p.skipValue(value, depth); i < 0 {
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

// memberName reads a member's name at i and the colon behind it. It returns
// the name, where it stands and where the value begins.
func (p *parser) memberName(i int) (name []byte, at, value int) {
	if i >= len(p.b) || p.b[i] != '"' {
		return nil, i, p.fail(faultSyntax, i)
	}
	name, end := p.stringValue(i + 1)
	if end < 0 {
		return nil, i, end
	}
	end = p.space(end)
	if end >= len(p.b) || p.b[end] != ':' {
		return nil, i, p.fail(faultSyntax, end)
	}
	return name, i, p.space(end + 1)
}

func (p *parser) repeated(at int) {
	if p.duplicate < 0 {
		p.duplicate = at
	}
}

// nameSet finds a repeated member name without allocating for small objects,
// and without a quadratic cost for large ones.
type nameSet struct {
	few  [8][]byte
	n    int
	many map[string]struct{}
}

// add takes a name and reports whether it was there already.
func (s *nameSet) add(name []byte) bool {
	if s.many != nil {
		if _, ok := s.many[string(name)]; ok {
			return true
		}
		s.many[string(name)] = struct{}{}
		return false
	}
	for _, known := range s.few[:s.n] {
		if string(known) == string(name) {
			return true
		}
	}
	if s.n < len(s.few) {
		s.few[s.n] = name
		s.n++
		return false
	}
	s.many = make(map[string]struct{}, 2*len(s.few))
	for _, known := range s.few {
		s.many[string(known)] = struct{}{}
	}
	s.many[string(name)] = struct{}{}
	return false
}

// describe says what is wrong, without a word of the text itself.
func (p *parser) describe() string {
	switch p.fault {
	case faultEnd:
		return "not JSON: it ends before the object is complete"
	case faultUTF8:
		return "not JSON: the string at byte " + strconv.Itoa(p.at) + " is not UTF-8"
	case faultDepth:
		return "nested deeper than " + strconv.Itoa(MaxRowDepth) + " levels"
	}
	return "not JSON: unexpected byte at " + strconv.Itoa(p.at)
}
