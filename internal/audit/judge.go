package audit

import (
	"sync"

	"github.com/tclk-audit/tclk-audit/export"
	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/verify"
)

// Judge judges rows that come some at a time, each from a room that is certain:
// what a Scan says of the rows of a file, it says of the rows of a reply. It is
// not for concurrent use.
type Judge struct {
	w   *worker
	j   job
	out []Judged
}

// NewJudge returns a Judge under the rules.
func NewJudge(rules fold.Rules) *Judge {
	w := newWorker(rules, nil, verify.NewKeys(new(sync.Mutex)))
	w.lazy = true
	return &Judge{w: w, j: job{parts: make([]part, 1), used: 1}}
}

// Rows judges rows of one room, in its order. state is what the room's rows
// before them have left, the zero value for none, and is brought up to date. What
// is returned is valid until the next call and as long as the rows' bytes are;
// RoomFrom is export.RoomFromPage. It fails where room is no name of a room.
func (g *Judge) Rows(room string, rows []export.RawRow, state *State) ([]Judged, error) {
	ex, err := export.NewInput(room, nil, export.Options{Room: room})
	if err != nil {
		return nil, err
	}
	in := &input{Input: ex}
	p := &g.j.parts[0]
	*p = part{input: in, chunk: export.Chunk{Rows: rows}}
	g.j.rows = len(rows)
	g.w.do(&g.j)
	g.out = g.out[:0]
	for i := range rows {
		raw, it := &rows[i], &g.j.items[i]
		if it.malformed == protocol.ReasonNone || it.hidden {
			state.Search = it.search
			g.w.settle(state, &it.row)
		}
		g.out = append(g.out, Judged{
			Row: it.row, Raw: raw.Bytes, RawSize: raw.Size, Line: raw.Line, Offset: raw.Offset, Index: int64(i),
			RoomFrom: export.RoomFromPage, Malformed: it.malformed, Detail: it.detail, Torn: it.torn, TooLong: it.tooLong, After: *state,
		})
	}
	return g.out, nil
}
