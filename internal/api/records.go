package api

import (
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/tclk-audit/tclk-audit/internal/report"
	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/store"
)

const formatExport = "export"

func (h *handler) records(q *query, out *reply) error {
	formats := []string{formatText, formatJSON, formatExport}
	if h.o.Public {
		if q.values.Get("format") == formatExport {
			q.fail("stored rows are not shown here", "ask for "+formatJSON+" or "+formatText)
		}
		formats = formats[:2]
	}
	format := q.format(formats...)
	venue, texts, limit, after := q.venue(), q.private("text"), q.limit(0), q.after()
	name := q.r.PathValue("room")
	paged := format == formatJSON || h.o.Public
	if after != nil && !paged {
		q.fail("after goes with the format "+formatJSON+" here", "ask for it, or without after")
	}
	if !protocol.ValidRoom(name) {
		q.fail(fmt.Sprintf("%q is no room", name), "a room is 1 to 48 of a-z, 0-9, _ and -, and begins with a letter or digit")
	}
	if err := q.done(); err != nil {
		return err
	}
	r, err := h.s.Reader()
	if err != nil {
		return err
	}
	defer r.Close()
	if paged {
		if err := q.same(out, r, format); err != nil {
			return err
		}
		if venue, err = roomVenue(r, venue, name); err != nil {
			return err
		}
		p := rowPage{q: q, r: r, out: out, venue: venue, room: name, after: after, limit: limit}
		if format == formatJSON {
			return p.json()
		}
		return p.text()
	}
	room, err := findRoom(r, venue, name)
	if err != nil {
		return err
	}
	if format == formatExport {
		return exportRoom(room, limit, out)
	}
	out.kind = plainText
	t := table{p: report.NewPage(out, false), head: report.Head("SEQ", "TIME", "CLASS", "BYTES", "SHA256")}
	lives := len(room.Generations) > 1
	if lives {
		t.head = append(t.head, report.Head("GENERATION")...)
	}
	if texts {
		t.head = append(t.head, report.Head("ROW")...)
	}
	all := 0
	for rec, err := range room.All() {
		if err == nil {
			err = out.alive(all)
		}
		if err != nil {
			return err
		}
		if all++; limit > 0 && all > limit {
			if err := t.end(-1, "", ""); err != nil {
				return err
			}
			t.p.Line("the first ", report.Count(int64(t.shown)), "; a greater limit shows more, 0 all")
			return t.p.Flush()
		}
		if err := t.add(recordRow(rec, lives, texts)); err != nil {
			return err
		}
	}
	return t.end(all, "row", "rows")
}

func findRoom(r *store.Reader, venue, name string) (*store.RoomRows, error) {
	alias, err := roomVenue(r, venue, name)
	if err != nil {
		return nil, err
	}
	return r.Room(alias, name)
}

// roomVenue finds the venue that has a room.
func roomVenue(r *store.Reader, venue, name string) (string, error) {
	found := ""
	for _, v := range r.VenueNames() {
		if venue != "" && v != venue {
			continue
		}
		has, err := r.HasRoom(v, name)
		switch {
		case err != nil:
			return "", err
		case !has:
		case found != "":
			return "", badRequest("several venues have the room "+name, "give venue: "+found+" or "+v)
		default:
			found = v
		}
	}
	if found == "" {
		return "", notFound("no room "+name+" is in sight", "'tclk-audit rooms' lists those that are")
	}
	return found, nil
}

// rowPage is a page of the rows that have a place in the room's order.
type rowPage struct {
	q           *query
	r           *store.Reader
	out         *reply
	venue, room string
	after       []byte
	limit       int
}

// each calls f with the rows of the page, and gives the mark of the last where
// there are more.
func (p *rowPage) each(f func(*store.Record) error) (mark []byte, err error) {
	n := 0
	for row, err := range p.r.RowsAfter(p.venue, p.room, p.after) {
		if err == nil {
			err = p.out.alive(n)
		}
		if err != nil {
			return nil, err
		}
		if n++; p.limit > 0 && n > p.limit || p.out.full() {
			return mark, nil
		}
		if err := f(&row.Record); err != nil {
			return nil, err
		}
		mark = row.Mark
	}
	return nil, nil
}

func (p *rowPage) json() error {
	p.out.kind = oneObject
	j := report.NewEncoder(p.out, true)
	j.Open('{')
	j.String("schema", RecordsSchema)
	j.String("venue", p.venue)
	j.String("room", p.room)
	j.Key("records")
	j.Open('[')
	mark, err := p.each(func(r *store.Record) error {
		j.Element()
		rowJSON(j, r)
		return j.Err()
	})
	if err != nil {
		return err
	}
	j.Close(']')
	j.StringOrNull("next", p.q.cursor(p.out, mark))
	j.Close('}')
	return endJSON(j)
}

func (p *rowPage) text() error {
	p.out.kind = plainText
	t := table{p: report.NewPage(p.out, false), head: report.Head("SEQ", "TIME", "CLASS", "BYTES", "SHA256", "GENERATION")}
	mark, err := p.each(func(r *store.Record) error { return t.add(recordRow(r, true, false)) })
	if err != nil {
		return err
	}
	if mark == nil {
		return t.end(t.shown, "row", "rows")
	}
	p.q.cursor(p.out, mark)
	if err := t.end(-1, "", ""); err != nil {
		return err
	}
	t.p.Line("the first ", report.Count(int64(t.shown)), " of these; there are more")
	return t.p.Flush()
}

// rowJSON writes a row of a room; what a malformed row does not say is null.
func rowJSON(j *report.Encoder, r *store.Record) {
	j.Open('{')
	j.Uint("position", r.Position)
	j.Hash("record", r.ID)
	j.Uint("generation", r.Generation)
	if r.Kind == store.RecordMalformed {
		for _, name := range [...]string{"seq", "tsMs"} {
			j.Key(name)
			j.Null()
		}
	} else {
		j.Uint("seq", r.Seq)
		j.Int("tsMs", r.TsMs)
	}
	j.String("class", rowClass(r))
	j.StringOrNull("reason", r.Reason.String())
	j.Int("bytes", r.Size)
	j.Hash("sha256", r.Hash)
	j.Bool("kept", r.Raw != nil)
	j.Close('}')
}

func rowClass(r *store.Record) string {
	switch {
	case r.Torn:
		return "torn"
	case r.Kind == store.RecordMalformed || r.Hidden:
		return "malformed"
	}
	return r.Class.String()
}

func recordRow(r *store.Record, lives, texts bool) []report.Cell {
	class, seq, at := rowClass(r), report.Number(int64(r.Seq)), report.Clock(r.TsMs)
	if r.Kind == store.RecordMalformed {
		seq, at = report.Dash(""), "-"
	}
	row := []report.Cell{seq, report.Left(at), report.Left(class), report.Number(r.Size), report.Left(hex.EncodeToString(r.Hash[:8]))}
	if lives {
		row = append(row, report.Number(int64(r.Generation)))
	}
	if texts {
		text := "not kept"
		if r.Raw != nil {
			text = string(report.AppendString(nil, string(r.Raw)))
		}
		row = append(row, report.Left(text))
	}
	return row
}

// exportRoom writes the rows as they were read. A room of one life is one row a
// line; where a line cannot say what a page can, its life or how far the room
// reaches, pages hold the rows.
func exportRoom(room *store.RoomRows, limit int, out *reply) error {
	out.kind = jsonLines
	e := exporter{out: out, room: room}
	for rec, err := range room.All() {
		if err == nil {
			err = out.alive(int(e.rows))
		}
		if err == nil {
			err = e.row(rec)
		}
		if err != nil {
			return err
		}
		if limit > 0 && e.rows == int64(limit) {
			break
		}
	}
	if err := e.end(); err != nil {
		return err
	}
	if e.lost > 0 {
		out.warn("%s left out: their bytes were not kept, or fit no page", report.Plural(e.lost, "row is", "rows are"))
	}
	if room.Conflicts > 0 {
		out.warn("copies of the room disagree at %s: which one lacks a row does not show in one file", report.Plural(room.Conflicts, "row", "rows"))
	}
	return nil
}

type exporter struct {
	out  *reply
	room *store.RoomRows
	buf  []byte
	gen  uint64
	page bool // a page is open
	rows int64
	lost int64
}

func (e *exporter) paged() bool { return len(e.room.Generations) > 1 || e.room.Head > 0 }

func (e *exporter) row(r *store.Record) error {
	if r.Raw == nil || e.paged() && r.Kind == store.RecordMalformed {
		e.lost++
		return nil
	}
	if e.paged() {
		gen := r.Generation
		if len(e.room.Generations) == 1 {
			gen = e.room.Generations[0]
		}
		switch {
		case !e.page || gen != e.gen:
			e.closePage()
			e.openPage(gen)
		default:
			e.buf = append(e.buf, ",\n"...)
		}
		e.buf = append(e.buf, r.Raw...)
	} else {
		e.buf = append(append(e.buf, r.Raw...), '\n')
	}
	e.rows++
	if len(e.buf) < 64<<10 {
		return nil
	}
	return e.flush()
}

func (e *exporter) openPage(gen uint64) {
	e.page, e.gen = true, gen
	e.buf = append(e.buf, `{"room":"`+e.room.Room+`",`...)
	if gen != 0 {
		e.buf = append(e.buf, `"generation":`+strconv.FormatUint(gen, 10)+","...)
	}
	if e.room.Head > 0 {
		e.buf = append(e.buf, `"last_seq":`+strconv.FormatUint(e.room.Head, 10)+","...)
	}
	e.buf = append(e.buf, "\"messages\":[\n"...)
}

func (e *exporter) closePage() {
	if e.page {
		e.buf = append(e.buf, "\n]}\n"...)
	}
	e.page = false
}

func (e *exporter) end() error {
	if e.paged() && e.rows == 0 {
		e.openPage(0)
	}
	e.closePage()
	return e.flush()
}

func (e *exporter) flush() error {
	if len(e.buf) == 0 {
		return nil
	}
	_, err := e.out.Write(e.buf)
	e.buf = e.buf[:0]
	return err
}
