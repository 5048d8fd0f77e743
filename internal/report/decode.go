package report

import "github.com/tclk-audit/tclk-audit/protocol"

// AppendDecoded appends one line's decoding as a JSON object on one line, with
// a newline: ok, type, reason, detail, findings, canonical, frame. typ is what
// the line itself says its type is, "" for nothing. The frame is the canonical
// object; it holds the sender's own words, escaped.
func AppendDecoded(dst []byte, d *protocol.Decoded, typ string) []byte {
	ok := d.Frame != nil
	e := &encoder{buf: dst, first: true}
	e.open('{')
	e.key("ok")
	e.bool(ok)
	e.key("type")
	e.stringOrNull(typ)
	e.key("reason")
	e.word(d.Reason.String())
	e.key("detail")
	e.stringOrNull(d.Detail)
	e.key("findings")
	e.open('[')
	if ok && !d.Canonical {
		e.element()
		e.string("noncanonical-line")
	}
	e.close(']')
	if ok {
		line := protocol.CanonicalLine(d.Frame)
		e.key("canonical")
		e.string(line)
		e.key("frame")
		e.canonical(line[len("tclk1 "):])
	} else {
		e.key("canonical")
		e.null()
		e.key("frame")
		e.null()
	}
	e.close('}')
	return append(e.buf, '\n')
}

// canonical writes a canonical frame object. It is JSON in ASCII already; what
// could be taken for markup, and DEL, can only stand within its strings, where
// an escape means the same.
func (e *encoder) canonical(object string) {
	for i := range len(object) {
		switch c := object[i]; c {
		case '<', '>', '&', 0x7f:
			e.buf = appendUnit(e.buf, uint32(c))
		default:
			e.buf = append(e.buf, c)
		}
	}
}
