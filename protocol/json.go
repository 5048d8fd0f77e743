package protocol

import (
	"bytes"
	"encoding/binary"
	"slices"
	"unicode/utf8"
)

// valueKind tells JSON values apart as far as frames need it.
type valueKind uint8

const (
	kindString valueKind = iota + 1
	kindNumber
	kindTrue
	kindFalse
	kindNull
	kindArray
	kindObject
)

// value is where one JSON value stands in the text: for a string what lies
// between its quotes, else the whole token.
type value struct {
	kind       valueKind
	escaped    bool // a string with a backslash in it
	start, end int
}

// scanner reads JSON as RFC 8259 defines it, and notices on the way what a
// second pass would otherwise have to look for. It never recurses: a text may
// nest as deep as it is long. Lone surrogates in \u escapes are let through, as
// JavaScript does; so are bytes from 0x80 up, which its callers judge.
//
// The methods take the index of the next byte and return the index behind what
// they read, or the index where the text stops being JSON, and false.
type scanner struct {
	b         []byte
	printable bool // every byte is known to lie in 0x20–0x7e
	plain     bool // there is known to be no backslash
	spaced    bool // white space between tokens was seen
	repeated  bool // an object has a member twice
	open      []int
	names     [][]byte // the member names of the open objects, decoded
}

// inArray marks an array in scanner.open; for an object the entry is the index
// in scanner.names where its names begin.
const inArray = -1

func (s *scanner) reset(b []byte) {
	s.b = b
	s.printable, s.plain, s.spaced, s.repeated = false, false, false, false
	s.open = s.open[:0]
	s.dropNames(0)
}

// dropNames forgets the names from the given index on, and the text they alias.
func (s *scanner) dropNames(from int) {
	clear(s.names[from:])
	s.names = s.names[:from]
}

// at returns the byte at i, or 0, which is no token's first byte, at the end.
func (s *scanner) at(i int) byte {
	if i < len(s.b) {
		return s.b[i]
	}
	return 0
}

func (s *scanner) space(i int) int {
	if i < len(s.b) && s.b[i] > ' ' {
		return i
	}
	return s.skipSpace(i)
}

func (s *scanner) skipSpace(i int) int {
	for ; i < len(s.b); i++ {
		switch s.b[i] {
		case ' ', '\t', '\n', '\r':
			s.spaced = true
		default:
			return i
		}
	}
	return i
}

// text reads a string from behind its opening quote and returns the index of
// the closing one.
func (s *scanner) text(i int) (end int, escaped, ok bool) {
	n := bytes.IndexByte(s.b[i:], '"')
	if s.printable && n >= 0 && (s.plain || bytes.IndexByte(s.b[i:i+n], '\\') < 0) {
		return i + n, false, true
	}
	for ; i < len(s.b); i++ {
		switch c := s.b[i]; {
		case c == '"':
			return i, escaped, true
		case c < ' ':
			return i, escaped, false
		case c == '\\':
			escaped = true
			i++
			switch s.at(i) {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				if i+4 >= len(s.b) {
					return len(s.b), escaped, false
				}
				for _, c := range s.b[i+1 : i+5] {
					if !isHexDigit(c) {
						return i, escaped, false
					}
				}
				i += 4
			default:
				return i, escaped, false
			}
		}
	}
	return i, escaped, false
}

func isHexDigit(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// value reads any value whose first byte is at i.
func (s *scanner) value(i int) (v value, next int, ok bool) {
	v.start = i
	switch s.at(i) {
	case '"':
		v.kind, v.start = kindString, i+1
		v.end, v.escaped, ok = s.text(i + 1)
		if !ok {
			return v, v.end, false
		}
		return v, v.end + 1, true
	case '{':
		v.kind = kindObject
		v.end, ok = s.container(i)
	case '[':
		v.kind = kindArray
		v.end, ok = s.container(i)
	case 't':
		v.kind = kindTrue
		v.end, ok = s.word(i, "true")
	case 'f':
		v.kind = kindFalse
		v.end, ok = s.word(i, "false")
	case 'n':
		v.kind = kindNull
		v.end, ok = s.word(i, "null")
	default:
		v.kind = kindNumber
		v.end, ok = s.number(i)
	}
	return v, v.end, ok
}

func (s *scanner) word(i int, w string) (int, bool) {
	if len(s.b)-i >= len(w) && string(s.b[i:i+len(w)]) == w {
		return i + len(w), true
	}
	return i, false
}

func (s *scanner) number(i int) (int, bool) {
	if s.at(i) == '-' {
		i++
	}
	if s.at(i) == '0' {
		i++
	} else {
		var ok bool
		if i, ok = s.digits(i); !ok {
			return i, false
		}
	}
	if s.at(i) == '.' {
		var ok bool
		if i, ok = s.digits(i + 1); !ok {
			return i, false
		}
	}
	if c := s.at(i); c == 'e' || c == 'E' {
		i++
		if c := s.at(i); c == '+' || c == '-' {
			i++
		}
		return s.digits(i)
	}
	return i, true
}

// digits reads one digit or more.
func (s *scanner) digits(i int) (int, bool) {
	start := i
	for i < len(s.b) && '0' <= s.b[i] && s.b[i] <= '9' {
		i++
	}
	return i, i > start
}

// object reads the members of an object from behind its opening brace and shows
// each to visit, name decoded. Whether a name repeats is for visit to notice.
func (s *scanner) object(i int, visit func(name []byte, escaped bool, v value)) (next int, ok bool) {
	if i = s.space(i); s.at(i) == '}' {
		return i + 1, true
	}
	for {
		name, escaped, next, ok := s.name(i)
		if !ok {
			return next, false
		}
		v, next, ok := s.value(s.space(next))
		if !ok {
			return next, false
		}
		visit(name, escaped, v)
		i = s.space(next)
		switch s.at(i) {
		case ',':
			i = s.space(i + 1)
		case '}':
			return i + 1, true
		default:
			return i, false
		}
	}
}

// name reads a member's name and the colon behind it.
func (s *scanner) name(i int) (name []byte, escaped bool, next int, ok bool) {
	if s.at(i) != '"' {
		return nil, false, i, false
	}
	end, escaped, ok := s.text(i + 1)
	if !ok {
		return nil, escaped, end, false
	}
	name = s.b[i+1 : end]
	if escaped {
		name, _ = appendUnescaped(nil, name)
	}
	if i = s.space(end + 1); s.at(i) != ':' {
		return nil, escaped, i, false
	}
	return name, escaped, i + 1, true
}

// container reads an array or an object and everything in it, and notes where
// an object repeats a member.
func (s *scanner) container(i int) (next int, ok bool) {
	floor := len(s.open)
	for {
		// Here a value begins.
		switch c := s.at(i); c {
		case '[':
			s.open = append(s.open, inArray)
			if i = s.space(i + 1); s.at(i) != ']' {
				continue
			}
		case '{':
			s.open = append(s.open, len(s.names))
			if i = s.space(i + 1); s.at(i) != '}' {
				if i, ok = s.innerName(i); !ok {
					return i, false
				}
				continue
			}
		default:
			if _, i, ok = s.value(i); !ok {
				return i, false
			}
		}
		// Here one has ended. Close what ends with it, up to the comma that
		// leads to the next one.
		for {
			i = s.space(i)
			top := s.open[len(s.open)-1]
			c := s.at(i)
			if c == ',' {
				i = s.space(i + 1)
				if top != inArray {
					if i, ok = s.innerName(i); !ok {
						return i, false
					}
				}
				break
			}
			if top == inArray && c != ']' || top != inArray && c != '}' {
				return i, false
			}
			i++
			if top != inArray {
				s.closeNames(top)
			}
			s.open = s.open[:len(s.open)-1]
			if len(s.open) == floor {
				return i, true
			}
		}
	}
}

func (s *scanner) innerName(i int) (int, bool) {
	name, _, next, ok := s.name(i)
	if !ok {
		return next, false
	}
	s.names = append(s.names, name)
	return s.space(next), true
}

// closeNames ends an object whose names begin at the given index.
func (s *scanner) closeNames(from int) {
	if hasRepeat(s.names[from:]) {
		s.repeated = true
	}
	s.dropNames(from)
}

// hasRepeat reports whether a name is there twice. It may sort the names.
func hasRepeat(names [][]byte) bool {
	const few = 8
	if len(names) > few {
		// Sorting keeps a line of hundreds of names from costing their square.
		slices.SortFunc(names, bytes.Compare)
		for i := 1; i < len(names); i++ {
			if bytes.Equal(names[i-1], names[i]) {
				return true
			}
		}
		return false
	}
	for i := 1; i < len(names); i++ {
		for j := range i {
			if bytes.Equal(names[i], names[j]) {
				return true
			}
		}
	}
	return false
}

// appendUnescaped appends what the content of a scanned JSON string stands for,
// as WTF-8: UTF-8 in which a lone surrogate has its three bytes. canonical tells
// whether every escape is the one that [AppendCanonical] would write.
func appendUnescaped(dst, raw []byte) (out []byte, canonical bool) {
	canonical = true
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		if c != '\\' {
			dst = append(dst, c)
			continue
		}
		i++
		switch c = raw[i]; c {
		case '"', '\\':
			dst = append(dst, c)
		case '/':
			dst = append(dst, c)
			canonical = false
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			unit, lower := hexUnit(raw[i+1:])
			i += 4
			if !lower || !escapedAsUnit(unit) {
				canonical = false
			}
			if isHighSurrogate(unit) && i+6 < len(raw) && raw[i+1] == '\\' && raw[i+2] == 'u' {
				if low, lower := hexUnit(raw[i+3:]); isLowSurrogate(low) {
					i += 6
					canonical = canonical && lower
					dst = utf8.AppendRune(dst, 0x10000+(unit-0xd800)<<10+(low-0xdc00))
					continue
				}
			}
			dst = appendUnit(dst, unit)
		}
	}
	return dst, canonical
}

// hexUnit reads four hex digits; lower tells that none is a capital.
func hexUnit(digits []byte) (unit rune, lower bool) {
	lower = true
	for _, c := range digits[:4] {
		switch {
		case c <= '9':
			c -= '0'
		case c <= 'F':
			c -= 'A' - 10
			lower = false
		default:
			c -= 'a' - 10
		}
		unit = unit<<4 | rune(c)
	}
	return unit, lower
}

// escapedAsUnit reports whether the canonical form writes the UTF-16 unit as
// \uxxxx, and not as itself or as one of the short escapes.
func escapedAsUnit(unit rune) bool {
	switch unit {
	case '\b', '\t', '\n', '\f', '\r':
		return false
	}
	return unit < ' ' || unit >= 0x80
}

func isHighSurrogate(unit rune) bool { return 0xd800 <= unit && unit <= 0xdbff }
func isLowSurrogate(unit rune) bool  { return 0xdc00 <= unit && unit <= 0xdfff }

// appendUnit appends one UTF-16 unit as WTF-8. AppendRune alone would put
// U+FFFD in the place of a lone surrogate, and give another id.
func appendUnit(dst []byte, unit rune) []byte {
	if unit < 0xd800 || unit > 0xdfff {
		return utf8.AppendRune(dst, unit)
	}
	return append(dst, 0xe0|byte(unit>>12), 0x80|byte(unit>>6)&0x3f, 0x80|byte(unit)&0x3f)
}

// decodeWTF8 reads one code point or lone surrogate of WTF-8. Bytes that are
// none of both give U+FFFD and size 1.
func decodeWTF8[T string | []byte](s T) (c rune, size int) {
	if len(s) >= 3 && s[0] == 0xed && s[1]&0xe0 == 0xa0 && s[2]&0xc0 == 0x80 {
		return 0xd000 | rune(s[1]&0x3f)<<6 | rune(s[2]&0x3f), 3
	}
	var b [utf8.UTFMax]byte
	return utf8.DecodeRune(b[:copy(b[:], s)])
}

// firstUnprintable returns the index of the first byte outside 0x20–0x7e, or −1.
func firstUnprintable(b []byte) int {
	const (
		ones = 0x0101010101010101
		high = 0x8080808080808080
	)
	i := 0
	for ; i+8 <= len(b); i += 8 {
		// Eight at once: the high bit of a byte of x is set from 0x80 up, that
		// of x+1 from 0x7f up, that of x−0x20 below 0x20. A carry or borrow
		// starts only at a byte that is caught already.
		x := binary.LittleEndian.Uint64(b[i:])
		if (x|(x+ones)|(x-ones*0x20))&high != 0 {
			break
		}
	}
	for ; i < len(b); i++ {
		if b[i] < 0x20 || b[i] > 0x7e {
			return i
		}
	}
	return -1
}

// utf16Length counts the UTF-16 units of a text, which is what the venue and
// the reference call characters. It stops counting soon after limit.
func utf16Length(b []byte, limit int) int {
	n := 0
	for i := 0; i < len(b) && n <= limit; {
		size := unitBytes(b[i:])
		i += size
		n++
		if size == 4 {
			n++
		}
	}
	return n
}

// unitBytes returns how many bytes the first code point of a text takes, a lone
// surrogate counted as one; for bytes that are no UTF-8 the longest run that a
// reader replaces by one U+FFFD.
func unitBytes(b []byte) int {
	need := 0
	low, high := byte(0x80), byte(0xbf) // what the second byte may be
	switch c := b[0]; {
	case c < 0xc2 || c > 0xf4:
		return 1
	case c < 0xe0:
		need = 2
	case c < 0xf0:
		need = 3
		if c == 0xe0 {
			low = 0xa0
		}
	default:
		need = 4
		if c == 0xf0 {
			low = 0x90
		} else if c == 0xf4 {
			high = 0x8f
		}
	}
	size := 1
	for size < need && size < len(b) && low <= b[size] && b[size] <= high {
		low, high = 0x80, 0xbf
		size++
	}
	return size
}
