package report

import (
	"io"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/protocol"
)

// Encoder writes JSON member by member for the forms of other packages, with
// the fences of this one: whatever a string holds, the output is printable
// ASCII. Members stand in the order in which they are written.
type Encoder struct {
	e   encoder
	out sink
}

// NewEncoder returns an Encoder that writes to w, indented by one space a level
// or all on one line.
func NewEncoder(w io.Writer, indent bool) *Encoder {
	return &Encoder{e: encoder{indent: indent, first: true}, out: sink{w: w}}
}

// Open begins an object or an array.
func (j *Encoder) Open(bracket byte) { j.e.open(bracket) }

// Close ends what Open began.
func (j *Encoder) Close(bracket byte) { j.e.close(bracket) }

// Element makes room for the next element of an array.
func (j *Encoder) Element() {
	if len(j.e.buf) >= flushAt {
		j.e.buf = j.out.flush(j.e.buf)
	}
	j.e.element()
}

// Key begins a member. The name is one of ours and needs no escape.
func (j *Encoder) Key(name string) { j.e.key(name) }

// Null writes null.
func (j *Encoder) Null() { j.e.null() }

// Bool writes a member.
func (j *Encoder) Bool(name string, v bool) {
	j.e.key(name)
	j.e.bool(v)
}

// Int writes a member.
func (j *Encoder) Int(name string, v int64) {
	j.e.key(name)
	j.e.int(v)
}

// Uint writes a member.
func (j *Encoder) Uint(name string, v uint64) {
	j.e.key(name)
	j.e.uint(v)
}

// IntOrNull writes a member that is null for nil.
func (j *Encoder) IntOrNull(name string, v *int64) {
	j.e.key(name)
	j.e.intOrNull(v)
}

// String writes a member.
func (j *Encoder) String(name, s string) {
	j.e.key(name)
	j.e.string(s)
}

// StringOrNull writes a member that is null for "".
func (j *Encoder) StringOrNull(name, s string) {
	j.e.key(name)
	j.e.stringOrNull(s)
}

// Text writes an element of an array.
func (j *Encoder) Text(s string) {
	j.e.element()
	j.e.string(s)
}

// ID writes a member, null for the zero id.
func (j *Encoder) ID(name string, id protocol.ID) {
	j.e.key(name)
	j.e.idOrNull(id)
}

// IDText writes an element of an array.
func (j *Encoder) IDText(id protocol.ID) {
	j.e.element()
	j.e.id(id)
}

// Hash writes a member: hex without 0x, null for the zero hash.
func (j *Encoder) Hash(name string, h [32]byte) {
	j.e.key(name)
	if h == ([32]byte{}) {
		j.e.null()
		return
	}
	j.e.hash(h)
}

// Contract writes a contract as an object, with what more writes as its last
// members.
func (j *Encoder) Contract(c *fold.Contract, show Show, more func()) {
	j.e.open('{')
	j.e.members(c, show)
	more()
	j.e.close('}')
}

// EndLine ends a line of JSON lines, or the document.
func (j *Encoder) EndLine() error {
	j.e.buf = append(j.e.buf, '\n')
	j.e.first = true
	if len(j.e.buf) >= flushAt {
		j.e.buf = j.out.flush(j.e.buf)
	}
	return j.out.err
}

// Err is the first error of the writer.
func (j *Encoder) Err() error { return j.out.err }

// Flush writes what was gathered.
func (j *Encoder) Flush() error {
	j.e.buf = j.out.flush(j.e.buf)
	return j.out.err
}

// Page writes text for a person: aligned tables, headings and lines.
type Page struct{ p page }

// NewPage returns a Page that writes to w.
func NewPage(w io.Writer, color bool) *Page { return &Page{page{sink: sink{w: w}, color: color}} }

// Cell is one field of a table. Its text is ours, or has gone through one of
// the functions that make a stranger's fit to be shown.
type Cell struct{ c cell }

// Left is a field of text.
func Left(s string) Cell { return Cell{left(s)} }

// Dash is a field of text, and a dash where there is none.
func Dash(s string) Cell { return Cell{left(orDash(s))} }

// Number is a number, aligned to the right.
func Number(n int64) Cell { return Cell{counted(n)} }

// VerdictCell shows a verdict in its colour.
func VerdictCell(v fold.Verdict) Cell { return Cell{verdictCell(v)} }

// FindingsCell shows how many findings there are, and the gravest severity.
func FindingsCell(all []fold.Finding) Cell {
	worst := fold.SeverityNone
	for i := range all {
		worst = max(worst, all[i].Severity)
	}
	c := severityCell(worst)
	if len(all) > 0 {
		c.text = number(int64(len(all))) + " " + c.text
	}
	return Cell{c}
}

// Head is the head of a table.
func Head(names ...string) []Cell {
	row := make([]Cell, len(names))
	for i, n := range names {
		row[i] = Cell{styled(n, dim)}
	}
	return row
}

// Heading writes an empty line and a heading.
func (p *Page) Heading(s string) { p.p.heading(s) }

// Line writes the parts as one line.
func (p *Page) Line(parts ...string) { p.p.line(parts...) }

// Table writes rows with aligned columns; where the first row is a Head, a
// column of numbers has its name on the right, too.
func (p *Page) Table(rows [][]Cell) {
	cells := make([][]cell, len(rows))
	for i, row := range rows {
		for k, c := range row {
			if i == 0 && len(rows) > 1 && k < len(rows[1]) {
				c.c.right = rows[1][k].c.right
			}
			cells[i] = append(cells[i], c.c)
		}
	}
	p.p.table(cells)
}

// Err is the first error of the writer.
func (p *Page) Err() error { return p.p.err }

// Flush writes what was gathered.
func (p *Page) Flush() error {
	p.p.buf = p.p.flush(p.p.buf)
	return p.p.err
}

// ShortID shows the first 16 digits of an id: those that name its deal room.
func ShortID(id [32]byte) string { return shortHex(id) }

// ShortDID shows enough of a did:key to tell signers apart.
func ShortDID(did string) string {
	if did == "" {
		return "-"
	}
	return shortDID(did)
}

// Word shows a stranger's word: as it is if it is plain, else by its length and
// the start of its hash.
func Word(s string) string { return wordOrDash(s) }

// Clock shows Unix ms as UTC to the millisecond.
func Clock(ms int64) string { return clock(ms) }

// Count writes an integer with a comma between thousands.
func Count(n int64) string { return number(n) }

// Plural writes a count with its noun.
func Plural(n int64, one, many string) string { return plural(n, one, many) }

// Span shows a duration in ms in the two units that matter, and exactly.
func Span(ms int64) string { return span(ms) }

// Brief shows a duration in ms in the unit that matters.
func Brief(ms int64) string {
	switch {
	case ms < 1000:
		return number(ms) + " ms"
	case ms < 120_000:
		return number(ms/1000) + " s"
	case ms < 7_200_000:
		return number(ms/60_000) + " min"
	case ms < 172_800_000:
		return number(ms/3_600_000) + " h"
	}
	return number(ms/86_400_000) + " d"
}
