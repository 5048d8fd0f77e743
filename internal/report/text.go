package report

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
)

// style is how a piece of text looks on a terminal that shows colour.
type style uint8

const (
	plain style = iota
	bold
	dim
	green
	yellow
	red
)

var styleCode = [...]string{bold: "1", dim: "2", green: "32", yellow: "33", red: "31"}

// page gathers text for a person. Everything that reaches it is printable
// ASCII; only the styles above add escape sequences, and only with colour on.
type page struct {
	sink
	buf   []byte
	color bool
}

func (p *page) text(st style, s string) {
	if st == plain || !p.color {
		p.buf = append(p.buf, s...)
		return
	}
	p.buf = append(p.buf, "\x1b["...)
	p.buf = append(p.buf, styleCode[st]...)
	p.buf = append(p.buf, 'm')
	p.buf = append(p.buf, s...)
	p.buf = append(p.buf, "\x1b[0m"...)
}

// line writes the parts as one line.
func (p *page) line(parts ...string) {
	for _, s := range parts {
		p.buf = append(p.buf, s...)
	}
	p.buf = append(p.buf, '\n')
	if len(p.buf) >= flushAt {
		p.buf = p.flush(p.buf)
	}
}

// heading writes an empty line and a heading.
func (p *page) heading(s string) {
	p.buf = append(p.buf, '\n')
	p.text(bold, s)
	p.buf = append(p.buf, '\n')
}

func (p *page) end() error {
	p.flush(p.buf)
	return p.err
}

// cell is one field of a table.
type cell struct {
	text  string
	style style
	right bool
}

func left(s string) cell                { return cell{text: s} }
func right(s string) cell               { return cell{text: s, right: true} }
func styled(s string, st style) cell    { return cell{text: s, style: st} }
func counted[N ~int64 | ~int](n N) cell { return right(number(int64(n))) }

// table writes rows with aligned columns, two spaces apart and indented by two.
func (p *page) table(rows [][]cell) {
	var width []int
	for _, row := range rows {
		for i, c := range row {
			if i == len(width) {
				width = append(width, 0)
			}
			width[i] = max(width[i], len(c.text))
		}
	}
	for _, row := range rows {
		p.row(row, width)
	}
}

// row writes one row; the last cell is not padded, so no line ends in spaces.
func (p *page) row(row []cell, width []int) {
	p.buf = append(p.buf, ' ', ' ')
	for i, c := range row {
		if i > 0 {
			p.buf = append(p.buf, ' ', ' ')
		}
		pad := width[i] - len(c.text)
		if c.right {
			p.spaces(pad)
		}
		p.text(c.style, c.text)
		if !c.right && i < len(row)-1 {
			p.spaces(pad)
		}
	}
	p.buf = append(p.buf, '\n')
	if len(p.buf) >= flushAt {
		p.buf = p.flush(p.buf)
	}
}

func (p *page) spaces(n int) {
	for range n {
		p.buf = append(p.buf, ' ')
	}
}

// number writes an integer with a comma between thousands.
func number(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// plural writes a count with its noun.
func plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return number(n) + " " + many
}

// plainWord reports whether s can be shown as it is: ^[A-Za-z0-9_.:-]{1,66}$.
func plainWord(s string) bool {
	if len(s) < 1 || len(s) > 66 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
			c == '_' || c == '.' || c == ':' || c == '-') {
			return false
		}
	}
	return true
}

// word shows a stranger's word: as it is if it is plain, else by its length
// and the start of its hash.
func word(s string) string {
	if plainWord(s) {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return "text(" + strconv.Itoa(len(s)) + " bytes, sha256 " + hex.EncodeToString(sum[:4]) + "...)"
}

// Printable makes text of ours (a detail, a path, an error) printable ASCII
// whatever it holds. It is a second fence behind the code that wrote the text.
func Printable(s string) string {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			q := strconv.QuoteToASCII(typewriter.Replace(s))
			return strings.ReplaceAll(strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`), `\\`, `\`)
		}
	}
	return s
}

// typewriter spells the signs that our own sentences use in ASCII.
var typewriter = strings.NewReplacer("\u2013", "-", "\u2014", "-", "\u2026", "...", "\u2264", "<=", "\u2265", ">=", "\u2260", "!=", "\u2192", "->", "\u2016", "||")

// quoted shows a stored line where the user asked for it.
func quoted(s string) string { return string(AppendString(nil, s)) }

// shortHex shows the first 16 digits of an id: those that name its deal room.
func shortHex(id [32]byte) string { return "0x" + hex.EncodeToString(id[:8]) }

// shortDID shows enough of a did:key to tell signers apart; a legend holds the
// whole.
func shortDID(did string) string {
	const prefix = "did:key:"
	if !strings.HasPrefix(did, prefix) || len(did) < len(prefix)+16 || !plainWord(did) {
		return word(did)
	}
	key := did[len(prefix):]
	return key[:8] + ".." + key[len(key)-4:]
}

// clock shows Unix ms as UTC to the millisecond.
func clock(ms int64) string {
	return time.UnixMilli(ms).UTC().Format("2006-01-02 15:04:05.000Z")
}

// span shows a duration in the two units that matter, and exactly.
func span(ms int64) string {
	exact := " (" + number(ms) + " ms)"
	if ms < 0 {
		ms = -ms
	}
	const second, minute, hour, day = 1000, 60_000, 3_600_000, 86_400_000
	two := func(big int64, bigName string, small int64, smallName string) string {
		s := number(ms/big) + " " + bigName
		if rest := ms % big / small; rest > 0 {
			s += " " + strconv.FormatInt(rest, 10) + " " + smallName
		}
		return s + exact
	}
	switch {
	case ms < second:
		return strconv.FormatInt(ms, 10) + " ms"
	case ms < minute:
		s := strconv.FormatFloat(float64(ms)/second, 'f', 3, 64)
		return strings.TrimRight(strings.TrimRight(s, "0"), ".") + " s" + exact
	case ms < hour:
		return two(minute, "min", second, "s")
	case ms < day:
		return two(hour, "h", minute, "min")
	}
	return two(day, "d", hour, "h")
}
