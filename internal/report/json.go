package report

import (
	"encoding/hex"
	"strconv"
	"unicode/utf8"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/protocol"
)

// encoder appends JSON to a buffer. It knows nothing of types: whoever calls
// it writes the members in the order that the schema lists them, so the bytes
// are the same for the same values. There is no reflection, because a day's
// board is some hundred thousand objects.
type encoder struct {
	buf    []byte
	indent bool // one space a level, else all on one line
	depth  int
	first  bool // nothing stands in the innermost bracket yet
}

func (e *encoder) open(bracket byte) {
	e.buf = append(e.buf, bracket)
	e.depth++
	e.first = true
}

func (e *encoder) close(bracket byte) {
	e.depth--
	if e.indent && !e.first {
		e.newline()
	}
	e.buf = append(e.buf, bracket)
	e.first = false
}

func (e *encoder) newline() {
	e.buf = append(e.buf, '\n')
	for range e.depth {
		e.buf = append(e.buf, ' ')
	}
}

// element makes room for the next element of an array or member of an object.
func (e *encoder) element() {
	if !e.first {
		e.buf = append(e.buf, ',')
	}
	e.first = false
	if e.indent && e.depth > 0 {
		e.newline()
	}
}

// key starts a member. The name is one of ours and needs no escape.
func (e *encoder) key(name string) {
	e.element()
	e.buf = append(e.buf, '"')
	e.buf = append(e.buf, name...)
	e.buf = append(e.buf, '"', ':')
	if e.indent {
		e.buf = append(e.buf, ' ')
	}
}

func (e *encoder) null()            { e.buf = append(e.buf, "null"...) }
func (e *encoder) bool(v bool)      { e.buf = strconv.AppendBool(e.buf, v) }
func (e *encoder) int(v int64)      { e.buf = strconv.AppendInt(e.buf, v, 10) }
func (e *encoder) uint(v uint64)    { e.buf = strconv.AppendUint(e.buf, v, 10) }
func (e *encoder) string(s string)  { e.buf = AppendString(e.buf, s) }
func (e *encoder) id(id [32]byte)   { e.hex("\"0x", id[:]) }
func (e *encoder) hash(id [32]byte) { e.hex("\"", id[:]) }

func (e *encoder) hex(prefix string, b []byte) {
	e.buf = append(e.buf, prefix...)
	e.buf = hex.AppendEncode(e.buf, b)
	e.buf = append(e.buf, '"')
}

// word writes a string of ours that needs no escape, or null for "".
func (e *encoder) word(s string) {
	if s == "" {
		e.null()
		return
	}
	e.buf = append(e.buf, '"')
	e.buf = append(e.buf, s...)
	e.buf = append(e.buf, '"')
}

// stringOrNull writes null for "".
func (e *encoder) stringOrNull(s string) {
	if s == "" {
		e.null()
		return
	}
	e.string(s)
}

// idOrNull writes null for the zero id, which no sha256 gives.
func (e *encoder) idOrNull(id protocol.ID) {
	if id == (protocol.ID{}) {
		e.null()
		return
	}
	e.id(id)
}

func (e *encoder) intOrNull(v *int64) {
	if v == nil {
		e.null()
		return
	}
	e.int(*v)
}

func (e *encoder) uintOrNull(v *uint64) {
	if v == nil {
		e.null()
		return
	}
	e.uint(*v)
}

// plainByte marks the bytes that stand for themselves in a JSON string of
// ours: printable ASCII without the quote, the backslash and what could be
// taken for markup.
var plainByte = func() (t [256]bool) {
	for c := byte(0x20); c < 0x7f; c++ {
		t[c] = c != '"' && c != '\\' && c != '<' && c != '>' && c != '&'
	}
	return
}()

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string of printable ASCII alone. Controls,
// DEL, <, >, & and everything beyond ASCII are escaped, so the line can be
// shown on a terminal and pasted into a web page. A lone surrogate in WTF-8
// keeps its code; any other byte that is no UTF-8 becomes U+FFFD.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if plainByte[c] {
			i++
			continue
		}
		dst = append(dst, s[start:i]...)
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
			i++
		case c == '\n':
			dst = append(dst, '\\', 'n')
			i++
		case c == '\r':
			dst = append(dst, '\\', 'r')
			i++
		case c == '\t':
			dst = append(dst, '\\', 't')
			i++
		case c < utf8.RuneSelf:
			dst = appendUnit(dst, uint32(c))
			i++
		default:
			r, size := runeWTF8(s[i:])
			if r >= 0x10000 {
				r -= 0x10000
				dst = appendUnit(dst, 0xd800+uint32(r>>10))
				dst = appendUnit(dst, 0xdc00+uint32(r&0x3ff))
			} else {
				dst = appendUnit(dst, uint32(r))
			}
			i += size
		}
		start = i
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

func appendUnit(dst []byte, u uint32) []byte {
	return append(dst, '\\', 'u', hexDigits[u>>12&15], hexDigits[u>>8&15], hexDigits[u>>4&15], hexDigits[u&15])
}

// runeWTF8 decodes the first character of s, a lone surrogate's three bytes
// included.
func runeWTF8(s string) (rune, int) {
	r, size := utf8.DecodeRuneInString(s)
	if r == utf8.RuneError && size <= 1 && len(s) >= 3 &&
		s[0] == 0xed && s[1]&0xe0 == 0xa0 && s[2]&0xc0 == 0x80 {
		return 0xd000 | rune(s[1]&0x3f)<<6 | rune(s[2]&0x3f), 3
	}
	return r, size
}

// contract writes one contract, every member in the schema's order.
func (e *encoder) contract(c *fold.Contract, show Show) {
	e.open('{')
	e.members(c, show)
	e.close('}')
}

// members writes what stands between the braces of a contract.
func (e *encoder) members(c *fold.Contract, show Show) {
	inSight := c.Status != protocol.StatusNone
	e.key("contract")
	e.id(c.ID)
	e.key("offer")
	e.idOrNull(c.Offer)
	e.key("room")
	e.stringOrNull(c.Room)
	e.key("status")
	e.word(c.Status.String())
	e.key("evidence")
	e.word(c.Evidence.String())
	e.key("settlement")
	e.word(c.Settlement.String())
	e.key("verdict")
	e.word(c.Verdict.String())
	e.key("asOf")
	if c.AsOf == nil {
		e.null()
	} else {
		e.open('{')
		e.key("seq")
		e.uint(c.AsOf.Seq)
		e.key("tsMs")
		e.int(c.AsOf.TsMs)
		e.close('}')
	}
	e.key("possible")
	e.open('[')
	for _, s := range c.Possible {
		e.element()
		e.word(s.String())
	}
	e.close(']')
	e.key("leansOn")
	e.open('[')
	for _, s := range c.LeansOn {
		e.element()
		e.string(s)
	}
	e.close(']')
	e.key("flips")
	e.null()
	e.key("binding")
	e.word(c.Binding.String())
	e.key("boundTo")
	if c.Binding == fold.Superseded {
		e.idOrNull(c.BoundTo)
	} else {
		e.null()
	}
	e.key("chosen")
	if c.Binding == fold.BindingNone {
		e.null()
	} else {
		e.bool(c.Chosen)
	}
	e.key("shadow")
	e.word(c.Shadow.String())
	e.key("outlook")
	e.outlook(&c.Outlook)
	e.key("payer")
	e.stringOrNull(c.Payer)
	e.key("payee")
	e.stringOrNull(c.Payee)
	e.key("lock")
	e.word(c.Lock.String())
	e.key("amount")
	e.stringOrNull(c.Amount)
	e.key("asset")
	e.stringOrNull(c.Asset)
	e.key("rail")
	e.stringOrNull(c.Rail)
	e.key("railRef")
	e.stringOrNull(c.RailRef)
	e.key("presig")
	e.stringOrNull(c.Presig)
	e.key("late")
	if inSight {
		e.bool(c.Late)
	} else {
		e.null()
	}
	e.key("steps")
	e.open('[')
	for i := range c.Steps {
		e.element()
		e.step(&c.Steps[i], show)
	}
	e.close(']')
	e.key("stepsOmitted")
	e.int(int64(c.StepsOmitted))
	e.key("receipts")
	e.open('[')
	for i := range c.Receipts {
		e.element()
		e.receipt(&c.Receipts[i])
	}
	e.close(']')
	e.key("findings")
	e.open('[')
	for i := range c.Findings {
		e.element()
		e.finding(&c.Findings[i])
	}
	e.close(']')
}

func (e *encoder) outlook(o *fold.Outlook) {
	if o.Code == "" {
		e.null()
		return
	}
	e.open('{')
	e.key("code")
	e.string(o.Code)
	e.key("msRemaining")
	if o.MsRemaining == 0 {
		e.null() // the outlook does not change by itself
	} else {
		e.int(o.MsRemaining)
	}
	e.key("atMs")
	e.intOrNull(o.AtMs)
	e.close('}')
}

func (e *encoder) step(s *fold.Step, show Show) {
	e.open('{')
	e.key("room")
	e.stringOrNull(s.Room)
	e.key("seq")
	e.uint(s.Seq)
	e.key("tsMs")
	e.int(s.TsMs)
	e.key("type")
	e.word(s.Type.String())
	e.key("from")
	e.stringOrNull(s.From)
	e.key("ok")
	e.bool(s.OK)
	e.key("ignored")
	e.bool(s.Ignored)
	e.key("reason")
	e.word(s.Reason.String())
	e.key("detail")
	e.stringOrNull(s.Detail)
	e.key("cascadeOf")
	if s.CascadeOf == nil {
		e.null()
	} else {
		e.hash(*s.CascadeOf)
	}
	e.key("marginMs")
	e.intOrNull(s.MarginMs)
	e.key("record")
	e.hash(s.Record)
	if show.Secrets {
		e.key("secret")
		if s.Secret == nil {
			e.null()
		} else {
			e.id(*s.Secret)
		}
	}
	if show.Text {
		e.key("text")
		if s.HasText {
			e.string(s.Text)
		} else {
			e.null()
		}
	}
	e.close('}')
}

func (e *encoder) receipt(r *fold.Receipt) {
	e.open('{')
	e.key("room")
	e.stringOrNull(r.Room)
	e.key("seq")
	e.uint(r.Seq)
	e.key("tsMs")
	e.int(r.TsMs)
	e.key("from")
	e.stringOrNull(r.From)
	e.key("outcome")
	e.word(r.Outcome.String())
	e.key("rail")
	e.stringOrNull(r.Rail)
	e.key("ref")
	e.stringOrNull(r.Ref)
	e.key("record")
	e.hash(r.Record)
	e.close('}')
}

func (e *encoder) finding(f *fold.Finding) {
	e.open('{')
	e.key("code")
	e.word(f.Code.String())
	e.key("kind")
	e.word(f.Code.Kind().String())
	e.key("severity")
	e.word(f.Severity.String())
	e.key("contract")
	e.idOrNull(f.Contract)
	e.key("offer")
	e.idOrNull(f.Offer)
	e.key("room")
	e.stringOrNull(f.Room)
	e.key("seq")
	e.uintOrNull(f.Seq)
	e.key("detail")
	e.stringOrNull(f.Detail)
	e.close('}')
}
