package api

import (
	"fmt"

	"github.com/tclk-audit/tclk-audit/internal/report"
	"github.com/tclk-audit/tclk-audit/store"
)

func (h *handler) rooms(q *query, out *reply) error {
	format := q.format(formatText, formatJSON, formatLines)
	f := store.RoomFilter{Venue: q.venue(), Gaps: q.flag("gaps")}
	for _, w := range q.words("class", store.ClassBoard.String(), store.ClassDeal.String(), store.ClassOther.String()) {
		for _, c := range [...]store.RoomClass{store.ClassBoard, store.ClassDeal, store.ClassOther} {
			if c.String() == w {
				f.Class = append(f.Class, c)
			}
		}
	}
	limit, color := q.listLimit(format == formatText), q.private("color")
	f.After = q.after()
	if err := q.done(); err != nil {
		return err
	}
	r, err := h.s.Reader()
	if err != nil {
		return err
	}
	defer r.Close()
	if err := q.same(out, r, format); err != nil {
		return err
	}
	each := func(take func(*store.RoomInfo) error) (mark []byte, err error) {
		n := 0
		for i, err := range r.Rooms(f) {
			if err == nil {
				err = out.alive(n)
			}
			if err != nil {
				return nil, err
			}
			if n++; limit > 0 && n > limit || out.full() {
				return mark, nil
			}
			if err := take(i); err != nil {
				return nil, err
			}
			mark = i.Mark
		}
		return nil, nil
	}
	switch format {
	case formatJSON:
		out.kind = oneObject
		j := report.NewEncoder(out, true)
		j.Open('{')
		j.String("schema", RoomsSchema)
		j.Key("rooms")
		j.Open('[')
		mark, err := each(func(i *store.RoomInfo) error {
			j.Element()
			roomJSON(j, i)
			return j.Err()
		})
		if err != nil {
			return err
		}
		j.Close(']')
		j.StringOrNull("next", q.cursor(out, mark))
		j.Close('}')
		return endJSON(j)
	case formatLines:
		out.kind = jsonLines
		j := report.NewEncoder(out, false)
		mark, err := each(func(i *store.RoomInfo) error {
			roomJSON(j, i)
			return j.EndLine()
		})
		if err != nil {
			return err
		}
		q.cursor(out, mark)
		return j.Flush()
	}
	out.kind = plainText
	t := table{
		p:    report.NewPage(out, color),
		head: report.Head("ROOM", "CLASS", "GENERATION", "ROWS", "SEQ", "HEAD", "MISSING", "LAST ROW", "CONTRACT", "WHAT HAPPENED"),
	}
	venues := len(r.VenueNames()) > 1
	if venues {
		t.head = append(t.head, report.Head("VENUE")...)
	}
	mark, err := each(func(i *store.RoomInfo) error {
		row := roomRow(i)
		if venues {
			row = append(row, report.Left(i.Venue))
		}
		return t.add(row)
	})
	if err != nil {
		return err
	}
	if mark != nil {
		q.cursor(out, mark)
		if err := t.end(-1, "", ""); err != nil {
			return err
		}
		t.p.Line("the first ", report.Count(int64(t.shown)), "; a greater limit shows more, 0 all")
		return t.p.Flush()
	}
	return t.end(t.shown, "room", "rooms")
}

func roomRow(i *store.RoomInfo) []report.Cell {
	numbers, generation, head, at, contract := "", "", "", "", ""
	if i.Rows > 0 {
		numbers = fmt.Sprintf("%d-%d", i.First, i.Last)
	}
	if i.Generation > 0 {
		generation = fmt.Sprint(i.Generation)
	}
	if i.Head > 0 {
		head = fmt.Sprint(i.Head)
	}
	if i.LastMs != 0 {
		at = report.Clock(i.LastMs)
	}
	if len(i.Contracts) > 0 {
		contract = report.ShortID(i.Contracts[0])
	}
	if len(i.Contracts) > 1 {
		contract += fmt.Sprintf(" and %d more", len(i.Contracts)-1)
	}
	happened := ""
	if n := len(i.Coverage); n > 0 {
		happened = i.Coverage[n-1].Code.String()
		if i.Covered > 1 {
			happened += fmt.Sprintf(" and %d before", i.Covered-1)
		}
	}
	return []report.Cell{
		report.Left(report.Printable(i.Room)), report.Left(i.Class.String()), report.Dash(generation), report.Number(int64(i.Rows)),
		report.Dash(numbers), report.Dash(head), report.Number(int64(i.Missing.Sum())), report.Dash(at), report.Dash(contract), report.Dash(happened),
	}
}

func roomJSON(j *report.Encoder, i *store.RoomInfo) {
	number := func(name string, n uint64) {
		if n == 0 {
			j.Key(name)
			j.Null()
			return
		}
		j.Uint(name, n)
	}
	j.Open('{')
	j.String("venue", i.Venue)
	j.String("room", i.Room)
	j.String("class", i.Class.String())
	number("generation", i.Generation)
	j.Uint("rows", i.Rows)
	number("firstSeq", i.First)
	number("lastSeq", i.Last)
	number("head", i.Head)
	j.IntOrNull("lastRowMs", seen(i.LastMs))
	missingJSON(j, &i.Missing)
	j.Key("contracts")
	j.Open('[')
	for _, id := range i.Contracts {
		j.IDText(id)
	}
	j.Close(']')
	j.Uint("covered", i.Covered)
	j.Key("coverage")
	j.Open('[')
	for n := range i.Coverage {
		j.Element()
		coverageJSON(j, &i.Coverage[n])
	}
	j.Close(']')
	j.Close('}')
}

// missingJSON says which numbers have no row.
func missingJSON(j *report.Encoder, m *store.Missing) {
	j.Key("missing")
	j.Open('{')
	j.Uint("before", m.Before)
	j.Uint("within", m.Within)
	j.Uint("behind", m.Behind)
	j.Close('}')
}
