package venue

import (
	"encoding/json"
	"strconv"
)

// maxDepth is how deep JSON may be nested. The venue's answers are three deep.
const maxDepth = 64

// scanner walks over JSON text and hands out the raw text of values. It holds
// to RFC 8259; that the text is UTF-8 is for the caller to check. Numbers stay
// text: a nonce has 19 digits, and no float holds those.
type scanner struct {
	b []byte
	i int
}

func (s *scanner) spaces() {
	for s.i < len(s.b) && isSpace(s.b[s.i]) {
		s.i++
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// eat takes the byte c, and white space before it.
func (s *scanner) eat(c byte) bool {
	s.spaces()
	if s.i < len(s.b) && s.b[s.i] == c {
		s.i++
		return true
	}
	return false
}

// ended reports whether nothing but white space is left.
func (s *scanner) ended() bool {
	s.spaces()
	return s.i == len(s.b)
}

// value takes one value of any kind and returns its text.
func (s *scanner) value(depth int) ([]byte, bool) {
	s.spaces()
	from := s.i
	if from == len(s.b) || depth > maxDepth {
		return nil, false
	}
	ok := false
	switch c := s.b[from]; {
	case c == '{':
		ok = s.object(depth, func(_, _ []byte) bool { return true })
	case c == '[':
		ok = s.array(depth, func([]byte) bool { return true })
	case c == '"':
		ok = s.string()
	case c == 't':
		ok = s.word("true")
	case c == 'f':
		ok = s.word("false")
	case c == 'n':
		ok = s.word("null")
	default:
		ok = s.number()
	}
	return s.b[from:s.i], ok
}

// object takes an object and gives the text of each name and value to f, until
// f returns false.
func (s *scanner) object(depth int, f func(name, value []byte) bool) bool {
	if !s.eat('{') {
		return false
	}
	if s.eat('}') {
		return true
	}
	for {
		s.spaces()
		from := s.i
		if !s.string() {
			return false
		}
		name := s.b[from:s.i]
		if !s.eat(':') {
			return false
		}
		value, ok := s.value(depth + 1)
		if !ok || !f(name, value) {
			return false
		}
		if s.eat('}') {
			return true
		}
		if !s.eat(',') {
			return false
		}
	}
}

// array is object for arrays.
func (s *scanner) array(depth int, f func(value []byte) bool) bool {
	if !s.eat('[') {
		return false
	}
	if s.eat(']') {
		return true
	}
	for {
		value, ok := s.value(depth + 1)
		if !ok || !f(value) {
			return false
		}
		if s.eat(']') {
			return true
		}
		if !s.eat(',') {
			return false
		}
	}
}

func (s *scanner) word(w string) bool {
	if len(s.b)-s.i < len(w) || string(s.b[s.i:s.i+len(w)]) != w {
		return false
	}
	s.i += len(w)
	return true
}

func (s *scanner) string() bool {
	if s.i == len(s.b) || s.b[s.i] != '"' {
		return false
	}
	for s.i++; s.i < len(s.b); s.i++ {
		switch c := s.b[s.i]; {
		case c == '"':
			s.i++
			return true
		case c < 0x20:
			return false
		case c == '\\':
			if s.i++; s.i == len(s.b) {
				return false
			}
			switch s.b[s.i] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				for range 4 {
					if s.i++; s.i == len(s.b) || !isHex(s.b[s.i]) {
						return false
					}
				}
			default:
				return false
			}
		}
	}
	return false
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

func (s *scanner) number() bool {
	if s.i < len(s.b) && s.b[s.i] == '-' {
		s.i++
	}
	if s.i < len(s.b) && s.b[s.i] == '0' {
		s.i++
	} else if !s.digits() {
		return false
	}
	if s.i < len(s.b) && s.b[s.i] == '.' {
		s.i++
		if !s.digits() {
			return false
		}
	}
	if s.i < len(s.b) && (s.b[s.i] == 'e' || s.b[s.i] == 'E') {
		s.i++
		if s.i < len(s.b) && (s.b[s.i] == '+' || s.b[s.i] == '-') {
			s.i++
		}
		return s.digits()
	}
	return true
}

func (s *scanner) digits() bool {
	from := s.i
	for s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9' {
		s.i++
	}
	return s.i > from
}

// walk goes through text that must be one object.
func walk(text []byte, f func(name string, value []byte) bool) bool {
	s := scanner{b: text}
	return s.object(0, func(name, value []byte) bool {
		n, ok := unquote(name)
		return ok && f(n, value)
	}) && s.ended()
}

// unquote is what a JSON string says.
func unquote(raw []byte) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	for _, c := range raw {
		if c == '\\' {
			var v string
			err := json.Unmarshal(raw, &v)
			return v, err == nil
		}
	}
	return string(raw[1 : len(raw)-1]), true
}

// whole reads a JSON number that is written as an integer from 0 to 2^64-1.
func whole(raw []byte) (uint64, bool) {
	for _, c := range raw {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	v, err := strconv.ParseUint(string(raw), 10, 64)
	return v, err == nil
}

func isNull(raw []byte) bool { return string(raw) == "null" }

// rowSeq reads the seq of a row. ok is false where the text is no object, or
// has no integer seq, or two.
func rowSeq(text []byte) (seq uint64, ok bool) {
	found := 0
	object := walk(text, func(name string, value []byte) bool {
		if name == "seq" {
			found++
			seq, ok = whole(value)
		}
		return true
	})
	if !object || found != 1 || !ok {
		return 0, false
	}
	return seq, true
}

// compact appends JSON text without the white space between its tokens.
func compact(dst, text []byte) []byte {
	inside := false
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case inside && c == '\\':
			dst = append(dst, c)
			i++
			c = text[i]
		case c == '"':
			inside = !inside
		case !inside && isSpace(c):
			continue
		}
		dst = append(dst, c)
	}
	return dst
}
