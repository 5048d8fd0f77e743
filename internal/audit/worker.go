package audit

import (
	"slices"

	"github.com/tclk-audit/tclk-audit/export"
	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/verify"
)

// The cost of repairs and hints, counted in signature checks: a fixed
// allowance for the whole run, plus a share of what the rows of a chunk cost
// anyway. A row that a batch settles costs about a fifth of a single check.
// Together they stay under 0.4 of a file's plain verification.
const (
	repairFloor     = 4_096
	shareOfFailed   = 0.28
	shareOfVerified = 0.06
)

// item is one row of a chunk, judged, or the end of an input.
type item struct {
	row       fold.Row
	input     *input
	end       *export.Summary // of the input, whose rows are all before this item
	line      int64
	offset    int64
	size      int64
	roomFrom  export.RoomFrom
	malformed protocol.Reason // why it could not be used; the row then holds the room only
	detail    string
	torn      bool
	tooLong   bool
	hidden    bool   // malformed, but usable as the reference reads it
	search    Search // as it stands behind a row with a record
}

// part is one chunk of an input, or its end.
type part struct {
	input *input
	chunk export.Chunk
	ends  bool // it holds no rows, but the summary
	sum   export.Summary
	// consumed is how many stored bytes the input had given when the chunk
	// was read.
	consumed int64
	first    int64  // the number of its first row within the input
	skip     int    // how many of its rows are not to be judged
	search   Search // as it stands in front of the others
	from, to int    // its records in the job
}

// Search is how the search for the rooms of a chunk's rows has gone so far.
type Search struct{ Tried, Hits int }

// hopeless tells that this is no dump of several rooms: the rows are just bad.
func (s Search) hopeless() bool { return s.Tried > 64 && s.Hits*4 < s.Tried }

// job is a piece of work in the pipeline: a chunk of a large input, or many
// small inputs at once, since signatures are cheap only in large batches. It
// owns all that its items point into.
type job struct {
	parts []part
	used  int // how many of parts
	rows  int

	items   []item
	records []protocol.Record
	results []verify.Result
	at      []int // records[i] belongs to items[at[i]]
	scratch []byte
	done    chan struct{}
}

// input is an export.Input with what the run finds out about it.
type input struct {
	*export.Input
	out       *Input
	index     uint32
	foundRoom string // by trying signatures
	read      int64  // stored bytes reported as done
	open      *export.Reader
	first     *export.Chunk // already read
	boardGen  uint64        // the first row of the board in it
	boardSeq  uint64
	hasBoard  bool
	rows      int64 // read so far
	resume    Skip  // what of it is known already
	scan      *ScanInput
}

// number counts the rows of the input's next chunk and marks those to skip.
func (in *input) number(p *part) {
	n := int64(len(p.chunk.Rows))
	p.first, p.skip, p.search = in.rows, int(min(max(in.resume.Rows-in.rows, 0), n)), Search{}
	if p.skip > 0 {
		p.search = in.resume.State.Search
	}
	in.rows += n
}

// room decides a row's room.
func (in *input) room(row, page string) (string, export.RoomFrom) {
	name, from := in.Input.Room(row, page)
	switch {
	case from != export.RoomUnknown:
		return name, from
	case in.foundRoom != "":
		return in.foundRoom, export.RoomFromFound
	case in.FallbackRoom != "":
		return in.FallbackRoom, export.RoomFromName
	}
	return "", export.RoomUnknown
}

// worker judges the rows of chunks. Each has its own caches, but for the keys.
type worker struct {
	rules     fold.Rules
	parse     export.ParseRules
	verifier  *verify.Verifier
	decoder   *protocol.Decoder
	reference *protocol.Decoder
	rooms     []string // rooms in sight, for hints
	lazy      bool     // repairs are left to others
}

func newWorker(rules fold.Rules, rooms []string, keys *verify.Keys) *worker {
	w := &worker{rules: rules, verifier: verify.NewSharing(keys), decoder: protocol.NewDecoder(rules.Decode()), rooms: rooms}
	if rules.Reference {
		w.parse = export.ReferenceRules()
	} else {
		w.reference = protocol.NewDecoder(protocol.ReferenceRules())
	}
	return w
}

func (w *worker) do(j *job) {
	if need := j.rows + j.used; cap(j.items) < need {
		j.items = make([]item, 0, need+need/8)
		j.records = make([]protocol.Record, 0, cap(j.items))
		j.results = make([]verify.Result, cap(j.items))
		j.at = make([]int, 0, cap(j.items))
	}
	j.items, j.records, j.at = j.items[:0], j.records[:0], j.at[:0]
	if cap(j.scratch) == 0 {
		need := 0
		for k := range j.parts[:j.used] {
			for i := range j.parts[k].chunk.Rows {
				need += len(j.parts[k].chunk.Rows[i].Bytes)
			}
		}
		// Text is some two thirds of a row, and unescaped it is shorter still.
		// Growing in the middle would waste the earlier piece.
		j.scratch = make([]byte, 0, need/5*4)
	}
	j.scratch = j.scratch[:0]
	for k := range j.parts[:j.used] {
		p := &j.parts[k]
		p.from, p.to = len(j.records), len(j.records)
		if p.ends {
			j.items = append(j.items, item{input: p.input, end: &p.sum})
			continue
		}
		for i := range p.chunk.Rows[p.skip:] {
			w.parseRow(j, p.input, &p.chunk.Rows[p.skip+i])
		}
		p.to = len(j.records)
	}
	j.results = j.results[:len(j.records)]
	w.verifier.CheckBatch(j.records, j.results)
	for k := range j.parts[:j.used] {
		w.findRooms(j, &j.parts[k])
	}
	if !w.lazy {
		w.explain(j)
	}
	for k, i := range j.at {
		it := &j.items[i]
		it.row.Record, it.row.Verify = j.records[k], j.results[k]
		w.finishRow(&it.row)
	}
}

func (w *worker) parseRow(j *job, in *input, raw *export.RawRow) {
	j.items = append(j.items, item{input: in, line: raw.Line, offset: raw.Offset, size: raw.Size, tooLong: raw.Kind == export.RowTooLong})
	it := &j.items[len(j.items)-1]
	rec := protocol.Record{Generation: raw.Generation}
	p := raw.Parse(w.parse, &j.scratch, &rec)
	if p.Reason != protocol.ReasonNone {
		it.malformed, it.detail, it.torn = p.Reason, p.Detail, p.Torn
		it.row.Record.Room, it.roomFrom = in.room("", raw.PageRoom)
		if w.rules.Reference || p.Torn || it.tooLong {
			return
		}
		// The reference may well read it: then the two can come to differ.
		rec = protocol.Record{Generation: raw.Generation}
		if p = raw.Parse(export.ReferenceRules(), &j.scratch, &rec); p.Reason != protocol.ReasonNone {
			return
		}
		it.hidden = true
	}
	rec.Room, it.roomFrom = in.room(p.Room, raw.PageRoom)
	if it.hidden && !protocol.IsDealRoom(rec.Room) {
		it.hidden = false
		return
	}
	it.row.Size, it.row.Hidden, it.row.Source = int(raw.Size)+1, it.hidden, in.index
	j.records = append(j.records, rec)
	j.at = append(j.at, len(j.items)-1)
}

// findRooms gives rows of an input whose room was only guessed another chance:
// a dump without room members may hold the board and deal rooms together.
func (w *worker) findRooms(j *job, p *part) {
	s := p.search
	for k := p.from; k < p.to; k++ {
		r := &j.results[k]
		it := &j.items[j.at[k]]
		guessed := it.roomFrom == export.RoomFromFound || it.roomFrom == export.RoomFromName || it.roomFrom == export.RoomUnknown
		if guessed && r.Class == verify.Invalid && (r.Reason == protocol.SignatureInvalid || r.Reason == protocol.RoomName) && !s.hopeless() {
			s.Tried++
			if w.findRoom(&j.records[k], r) {
				it.roomFrom = export.RoomFromFound
				s.Hits++
			}
		}
		it.search = s
	}
}

// findRoom moves a row into the room that its text speaks for, if its signature
// holds there.
func (w *worker) findRoom(rec *protocol.Record, r *verify.Result) bool {
	moved := *rec
	for _, room := range w.likelyRooms(rec) {
		moved.Room = room
		if v := w.verifier.Check(&moved); v.Class == verify.Authentic {
			*rec, *r = moved, v
			return true
		}
	}
	return false
}

// likelyRooms are the rooms that a row's own text speaks for.
func (w *worker) likelyRooms(rec *protocol.Record) []string {
	rooms := make([]string, 0, 2)
	if d := w.decoder.Decode(rec.Text); d.Frame != nil {
		if c, ok := protocol.ContractOf(d.Frame); ok {
			if room := protocol.DealRoom(c); room != rec.Room {
				rooms = append(rooms, room)
			}
		}
	}
	if rec.Room != protocol.BoardRoom {
		rooms = append(rooms, protocol.BoardRoom)
	}
	return rooms
}

// explain looks for the likely cause of each failed signature, within the
// chunk's share of the cost.
func (w *worker) explain(j *job) {
	failed := 0
	for k := range j.results {
		if j.results[k].Reason == protocol.SignatureInvalid {
			failed++
		}
	}
	if failed == 0 {
		return
	}
	b := verify.NewBudget(int(shareOfFailed*float64(failed) + shareOfVerified*float64(len(j.results)-failed)))
	for k := range j.results {
		if r := &j.results[k]; r.Reason == protocol.SignatureInvalid {
			w.repair(&j.records[k], r, b)
		}
	}
}

func (w *worker) repair(rec *protocol.Record, r *verify.Result, b *verify.Budget) {
	if b.Left() == 0 {
		r.Untried = true
		return
	}
	nonce, ok, untried := w.verifier.Repair(rec, b)
	if ok {
		r.Class, r.SignedNonce, r.Untried = verify.Repaired, nonce, false
		return
	}
	r.OtherRoom, r.Untried = "", untried
	if room, left := w.verifier.OtherRoom(rec, w.likelyRooms(rec), b); room != "" {
		r.OtherRoom, r.Untried = room, false
		return
	} else if left {
		r.Untried = true
		return
	}
	if room, left := w.verifier.OtherRoom(rec, w.rooms, b); room != "" {
		r.OtherRoom, r.Untried = room, false
	} else {
		r.Untried = r.Untried || left
	}
}

// settle adds a row's share to the budget of its input, and looks for the
// likely cause of a failed signature as far as that goes. It does so in the
// order of the rows, so that a row owes nothing to those behind it.
func (w *worker) settle(state *State, row *fold.Row) {
	switch {
	case row.Verify.Class == verify.Authentic:
		state.Balance += percent * shareOfVerified
	case row.Verify.Reason == protocol.SignatureInvalid:
		state.Balance += percent * shareOfFailed
		if state.left() < wholeSearch {
			row.Verify.Untried = true
			return
		}
		b := verify.NewBudget(state.left())
		w.repair(&row.Record, &row.Verify, b)
		state.Balance -= percent * int64(state.left()-b.Left())
		if row.Verify.Class == verify.Repaired {
			w.finishRow(row)
		}
	}
}

// finishRow fills in what the fold wants to know of a verified row.
func (w *worker) finishRow(r *fold.Row) {
	r.ID = r.Record.ID()
	r.Key, r.IsDID = verify.DecodeDID(r.Record.From)
	r.NotStrict = r.Verify.NotStrict
	if r.Verify.Class != verify.Authentic && r.Verify.Class != verify.Repaired {
		return
	}
	r.Line = w.decoder.Decode(r.Record.Text)
	if w.reference != nil && r.Line.Frame == nil && (r.Line.Reason == protocol.DuplicateMember || r.Line.Reason == protocol.BadField) {
		r.Reference = w.reference.Decode(r.Record.Text)
	}
	if r.Hidden && r.Line.Frame == nil {
		r.Line = r.Reference
	}
}

// peekRoom tries to find the room of an input that nothing names, on its first
// rows: the board, the deal rooms of the contracts that its frames name, and
// the rooms of the other inputs.
func (w *worker) peekRoom(in *input, rows []export.RawRow) {
	const tryRows, tryRooms = 16, 256
	var signed []protocol.Record
	candidates := []string{protocol.BoardRoom}
	add := func(room string) {
		if len(candidates) < tryRooms && !slices.Contains(candidates, room) {
			candidates = append(candidates, room)
		}
	}
	for i := range rows {
		if len(signed) == tryRows {
			break
		}
		var scratch []byte
		var rec protocol.Record
		if p := rows[i].Parse(w.parse, &scratch, &rec); p.Reason != protocol.ReasonNone || rec.Sig == nil || rec.Nonce == nil {
			continue
		} else if _, from := in.Input.Room(p.Room, rows[i].PageRoom); from != export.RoomUnknown {
			continue
		}
		signed = append(signed, rec)
		for _, room := range w.likelyRooms(&rec) {
			add(room)
		}
	}
	if len(signed) == 0 {
		return
	}
	for _, room := range w.rooms {
		add(room)
	}
	if in.FallbackRoom != "" {
		add(in.FallbackRoom)
	}
	for _, room := range candidates {
		for i := range signed {
			signed[i].Room = room
			if w.verifier.Check(&signed[i]).Class == verify.Authentic {
				in.foundRoom = room
				return
			}
		}
	}
}
