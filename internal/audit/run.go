package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/tclk-audit/tclk-audit/export"
	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/verify"
)

const (
	// chunkBytes is how much text a worker judges at once: long runs make
	// signature batches cheap.
	chunkBytes = 3 << 19
	// smallChunkBytes is the same where many inputs are merged at once.
	smallChunkBytes = 256 << 10
	manyStreams     = 4
	// hintRooms bounds how many rooms in sight a failed signature is tried in.
	hintRooms = 64
)

// run is one audit in progress.
type run struct {
	opts   Options
	res    *Result
	inputs []*input
	rooms  []string // rooms in sight by the inputs' names, for hints

	total  int64
	done   int64
	merged int64 // sightings of one record at one place in several inputs
	floor  *verify.Budget
	keys   *verify.Keys // of all workers
	fixer  *worker      // repairs beyond a chunk's share, in order
	lazy   bool         // the workers repair nothing
}

// key is where on the board an input stands. Inputs are merged by it.
type key struct{ gen, seq uint64 }

func (k key) compare(o key) int {
	if k.gen == 0 || o.gen == 0 {
		// One does not say. A venue that counts generations goes on counting
		// seq, so that seq alone tells.
		return cmp.Compare(k.seq, o.seq)
	}
	return cmp.Or(cmp.Compare(k.gen, o.gen), cmp.Compare(k.seq, o.seq))
}

// stream is a run of inputs that are read one after another.
type stream struct {
	inputs []*input
	jobs   chan *job // in order; closed at the end
	free   chan *job
	// look, if set, is given the first rows of an input as they are read.
	look func(in *input, rows []export.RawRow)

	cur   *job
	next  int // the item of cur that comes next
	at    key // of that item, never falling
	prev  key // of the last row of the board
	known bool
	begun bool
	ended bool
	hazy  bool // a malformed row stood since prev: a record may hide in it
}

func (r *run) do(ctx context.Context, inputs []*export.Input) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	board, deals, err := r.prepare(inputs)
	defer r.close()
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	work := make(chan *job)
	r.workers(ctx, g, work)
	g.Go(func() error {
		defer close(work)
		readers, ctx := errgroup.WithContext(ctx)
		begin := func(s *stream) {
			readers.Go(func() error { return r.read(ctx, s, work) })
		}
		if err := r.merge(ctx, board, begin); err != nil {
			cancel()
			return errors.Join(readers.Wait(), err)
		}
		if err := r.merge(ctx, deals, begin); err != nil {
			cancel()
			return errors.Join(readers.Wait(), err)
		}
		return readers.Wait()
	})
	err = g.Wait()
	if err != nil {
		return firstCause(err)
	}
	r.inputFindings()
	return nil
}

// workers starts the workers; they end when work is closed.
func (r *run) workers(ctx context.Context, g *errgroup.Group, work <-chan *job) {
	for range r.opts.Cores {
		g.Go(func() error {
			w := newWorker(r.opts.Rules, r.rooms, r.keys)
			w.lazy = r.lazy
			for {
				select {
				case j, ok := <-work:
					if !ok {
						return nil
					}
					w.do(j)
					j.done <- struct{}{}
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		})
	}
}

// firstCause drops the cancellations that another error caused.
func firstCause(err error) error {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		for _, e := range joined.Unwrap() {
			if !errors.Is(e, context.Canceled) {
				return firstCause(e)
			}
		}
	}
	return err
}

// roomsInSight lists the rooms in which failed signatures are tried.
func (r *run) roomsInSight(inputs []*export.Input) {
	for _, in := range inputs {
		if in.NameRoom != "" && len(r.rooms) < hintRooms {
			r.rooms = append(r.rooms, in.NameRoom)
		}
	}
	if r.opts.Room != "" {
		r.rooms = append(r.rooms, r.opts.Room)
	}
	if !slices.Contains(r.rooms, protocol.BoardRoom) {
		r.rooms = append(r.rooms, protocol.BoardRoom)
	}
}

// prepare puts the inputs in reading order and makes the streams: one for each
// input that can hold rows of the board, one for all deal rooms.
func (r *run) prepare(inputs []*export.Input) (board, deals []*stream, err error) {
	r.roomsInSight(inputs)
	r.keys = verify.NewKeys(new(sync.Mutex))
	r.fixer = newWorker(r.opts.Rules, r.rooms, r.keys)
	r.floor = verify.NewBudget(repairFloor)
	var rest []*input
	for _, ex := range inputs {
		in := &input{Input: ex}
		name, _ := ex.Room("", "")
		if protocol.IsDealRoom(name) {
			rest = append(rest, in)
			r.res.auditor.Room(name)
			continue
		}
		r.inputs = append(r.inputs, in)
	}
	for _, in := range r.inputs {
		if err := r.peek(in, len(r.inputs) <= manyStreams); err != nil {
			return nil, nil, err
		}
	}
	if len(r.inputs) > manyStreams {
		// Inputs that begin earlier on the board are opened earlier; those
		// that have no row of it come first.
		slices.SortStableFunc(r.inputs, func(x, y *input) int {
			return key{x.boardGen, x.boardSeq}.compare(key{y.boardGen, y.boardSeq})
		})
	}
	for _, in := range r.inputs {
		board = append(board, &stream{inputs: []*input{in}, at: key{in.boardGen, in.boardSeq}})
	}
	r.inputs = append(r.inputs, rest...)
	r.res.Inputs = make([]Input, len(r.inputs))
	for i, in := range r.inputs {
		in.index, in.out = uint32(i), &r.res.Inputs[i]
		in.out.Path, in.out.index = in.Path, in.index
		in.out.Room, in.out.RoomFrom = in.room("", "")
	}
	if len(rest) > 0 {
		deals = []*stream{{inputs: rest}}
	}
	return board, deals, nil
}

// peek reads the beginning of an input that may hold rows of the board: where
// on the board it begins, and in which room it is if nothing says so. keep says
// to go on from there later, and not to begin anew.
func (r *run) peek(in *input, keep bool) error {
	rd, err := in.Reader()
	if err != nil {
		return err
	}
	c := new(export.Chunk)
	if err := rd.Next(c); err != nil && err != io.EOF {
		rd.Close()
		return err
	}
	if name, _ := in.room("", ""); name == "" || in.NameRoom == "" {
		r.fixer.peekRoom(in, c.Rows)
	}
	var scratch []byte
	for i := range c.Rows {
		var rec protocol.Record
		scratch = scratch[:0]
		if p := c.Rows[i].Parse(r.fixer.parse, &scratch, &rec); p.Reason == protocol.ReasonNone {
			if room, _ := in.room(p.Room, c.Rows[i].PageRoom); room == protocol.BoardRoom {
				in.hasBoard, in.boardGen, in.boardSeq = true, c.Rows[i].Generation, rec.Seq
				break
			}
		}
	}
	if keep || in.Size < 0 { // of a stream, what is read is read
		in.open, in.first = rd, c
		return nil
	}
	return rd.Close()
}

// close closes what peek left open and nobody has read to its end.
func (r *run) close() {
	for _, in := range r.inputs {
		if in.open != nil {
			in.open.Close()
		}
	}
}

// jobBytes is how much text of small inputs goes into one job, jobParts how many
// chunks, and jobRows how many rows, after the chunk that meets it.
const (
	jobBytes = 512 << 10
	jobParts = 256
	jobRows  = 4096
)

// read puts the chunks of a stream's inputs into the pipeline, in order.
func (r *run) read(ctx context.Context, s *stream, work chan<- *job) error {
	defer close(s.jobs)
	var j *job
	bytes := 0
	send := func() error {
		if j == nil {
			return nil
		}
		full := j
		j, bytes = nil, 0
		select {
		case s.jobs <- full:
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case work <- full:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	// next gives the place for one more chunk.
	next := func() (*part, error) {
		if j == nil {
			select {
			case j = <-s.free:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			j.used, j.rows = 0, 0
		}
		if j.used == len(j.parts) {
			j.parts = append(j.parts, part{})
		}
		j.used++
		return &j.parts[j.used-1], nil
	}
	for _, in := range s.inputs {
		rd := in.open
		if rd == nil {
			var err error
			if rd, err = in.Reader(); err != nil {
				return errors.Join(err, send())
			}
		}
		for begins, ends := true, false; !ends; begins = false {
			p, err := next()
			if err != nil {
				rd.Close()
				return err
			}
			p.input, p.ends = in, false
			if in.first != nil {
				p.chunk, in.first = *in.first, nil
			} else if err := rd.Next(&p.chunk); err == io.EOF {
				p.ends, p.sum = true, rd.Summary()
			} else if err != nil {
				rd.Close()
				j.used--
				return errors.Join(err, send()) // what stands before it counts
			}
			if s.look != nil && begins {
				s.look(in, p.chunk.Rows)
			}
			in.number(p)
			p.consumed = rd.Consumed()
			j.rows += len(p.chunk.Rows)
			ends = p.ends
			// The text is what a job keeps in memory; the stored bytes it comes
			// from may be a thousand times fewer.
			bytes += p.chunk.Size()
			if bytes >= jobBytes || j.used >= jobParts || j.rows >= jobRows {
				if err := send(); err != nil {
					rd.Close()
					return err
				}
			}
		}
		if err := rd.Close(); err != nil {
			return err
		}
	}
	return send()
}

// merge feeds streams into the auditor, the row that comes first on the board
// first. A stream is begun when the others have come to where it begins.
func (r *run) merge(ctx context.Context, streams []*stream, begin func(*stream)) error {
	live := slices.Clone(streams)
	for len(live) > 0 {
		s := live[0]
		for _, o := range live[1:] {
			if o.at.compare(s.at) < 0 {
				s = o
			}
		}
		if !s.begun {
			r.start(s, len(streams))
			begin(s)
		}
		if err := r.pull(ctx, s); err != nil {
			return err
		}
		if s.ended {
			live = slices.DeleteFunc(live, func(o *stream) bool { return o == s })
			continue
		}
		if len(live) == 1 {
			// Nothing to merge with: take all that is there.
			for s.next < len(s.cur.items) {
				r.take(s, nil)
			}
			continue
		}
		if !r.isFirst(s, live) {
			continue // its place was only guessed
		}
		if it := &s.cur.items[s.next]; it.malformed == protocol.ReasonNone && it.row.Record.Room == protocol.BoardRoom {
			if err := r.takeAlike(ctx, s, live, begin, len(streams)); err != nil {
				return err
			}
			continue
		}
		r.take(s, nil)
	}
	return nil
}

func counts(row *fold.Row) bool {
	return row.Verify.Class == verify.Authentic || row.Verify.Class == verify.Repaired
}

func (r *run) isFirst(s *stream, live []*stream) bool {
	for _, o := range live {
		if o != s && o.at.compare(s.at) < 0 {
			return false
		}
	}
	return true
}

// start makes a stream's jobs. All jobs of a run together bound its memory: one
// is read, one is folded, and each worker has one, with some to spare where they
// are many, since jobs end in the order they began.
func (r *run) start(s *stream, streams int) {
	n := 2 + r.opts.Cores + r.opts.Cores/4
	if streams > manyStreams {
		n = 3
	}
	s.begun = true
	s.jobs, s.free = make(chan *job, n), make(chan *job, n)
	for range n {
		s.free <- &job{done: make(chan struct{}, 1)}
	}
}

// pull makes sure that s.cur.items[s.next] exists, or that the stream ended.
func (r *run) pull(ctx context.Context, s *stream) error {
	for s.cur == nil || s.next >= len(s.cur.items) {
		if s.cur != nil {
			s.free <- s.cur
			s.cur = nil
		}
		select {
		case j, ok := <-s.jobs:
			if !ok {
				s.ended = true
				return ctx.Err()
			}
			select {
			case <-j.done:
			case <-ctx.Done():
				return ctx.Err()
			}
			s.cur, s.next = j, 0
			r.pages(j)
			r.progress(j)
			for len(j.items) > 0 && s.next < len(j.items) && j.items[s.next].end != nil {
				r.endInput(&j.items[s.next])
				s.next++
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.place()
	return nil
}

// place computes the merge key of the next item: an input keeps its own order,
// so the key never falls, and rows of other rooms stay where they are.
func (s *stream) place() {
	it := &s.cur.items[s.next]
	if it.malformed != protocol.ReasonNone || it.row.Record.Room != protocol.BoardRoom {
		if !s.known {
			s.at = key{}
		}
		return
	}
	k := key{it.row.Record.Generation, it.row.Record.Seq}
	if !s.known || k.compare(s.at) > 0 {
		s.at = k
	}
	s.known = true
}

// progress reports how far the reading has come.
func (r *run) progress(j *job) {
	for k := range j.parts[:j.used] {
		p := &j.parts[k]
		r.done += p.consumed - p.input.read
		p.input.read = p.consumed
	}
	if r.opts.Progress != nil {
		r.opts.Progress(r.done, r.total)
	}
}

// pages puts the rooms of pages in sight, also of those without rows.
func (r *run) pages(j *job) {
	for k := range j.parts[:j.used] {
		for _, p := range j.parts[k].chunk.Pages {
			if room, _ := j.parts[k].input.room("", p.Room); room != "" {
				r.res.auditor.Head(room, p.LastSeq)
			}
		}
	}
}

// takeAlike takes the next row of s, a row of the board, and the sightings of
// the same place in the other inputs.
func (r *run) takeAlike(ctx context.Context, s *stream, live []*stream, begin func(*stream), streams int) error {
	it := &s.cur.items[s.next]
	place := key{it.row.Record.Generation, it.row.Record.Seq}
	inOrder := place == s.at
	var conflict fold.Conflict
	var same []*stream
	for _, o := range live {
		if o == s || !inOrder {
			continue
		}
		if o.begun && o.cur != nil && !o.ended {
			// fine
		} else if o.at.compare(place) == 0 {
			if !o.begun {
				r.start(o, streams)
				begin(o)
			}
			// What stands before its first row of the board comes before that.
			for {
				if err := r.pull(ctx, o); err != nil {
					return err
				}
				if o.ended {
					break
				}
				if it := &o.cur.items[o.next]; it.malformed == protocol.ReasonNone && it.row.Record.Room == protocol.BoardRoom {
					break
				}
				r.take(o, nil)
			}
		}
		if o.ended || o.cur == nil || o.next >= len(o.cur.items) {
			continue
		}
		other := &o.cur.items[o.next]
		if other.malformed != protocol.ReasonNone || other.row.Record.Room != protocol.BoardRoom {
			continue
		}
		at := key{other.row.Record.Generation, other.row.Record.Seq}
		switch {
		case at.compare(place) == 0 && other.row.ID == it.row.ID:
			same = append(same, o)
			if other.row.Record.TsMs != it.row.Record.TsMs {
				conflict |= fold.ConflictTime
			}
		case at.compare(place) == 0:
			conflict |= fold.ConflictRecord
			other.row.Conflict |= fold.ConflictRecord
		case o.known && !o.hazy && o.prev.compare(place) < 0 && o.prev != (key{}) && place.compare(at) < 0 && o.prev.gen == at.gen:
			conflict |= fold.ConflictMissing
		}
	}
	it.row.Conflict |= conflict
	// Where a copy's signature is spoilt, the copy that counts is taken.
	best := s
	for _, o := range same {
		if !counts(&best.cur.items[best.next].row) && counts(&o.cur.items[o.next].row) {
			best = o
		}
	}
	best.cur.items[best.next].row.Conflict |= conflict
	r.take(best, nil)
	for _, o := range append(same, s) {
		if o != best {
			r.take(o, best)
		}
	}
	return nil
}

// take hands the next item of a stream to the auditor. twin is the stream that
// already handed in the same record at the same place.
func (r *run) take(s *stream, twin *stream) {
	it := &s.cur.items[s.next]
	in := it.input
	s.next++
	r.count(in, it)
	if it.malformed != protocol.ReasonNone {
		s.hazy = true
		r.res.auditor.Malformed(it.row.Record.Room, in.index)
		r.listMalformed(in, it)
		if it.hidden {
			r.res.auditor.Add(&it.row)
		}
	} else {
		row := &it.row
		if row.Record.Room == protocol.BoardRoom {
			s.prev, s.hazy = key{row.Record.Generation, row.Record.Seq}, false
		}
		if twin != nil {
			r.merged++
		} else {
			r.res.auditor.Add(row)
		}
	}
	for s.next < len(s.cur.items) && s.cur.items[s.next].end != nil {
		r.endInput(&s.cur.items[s.next])
		s.next++
	}
	if s.next < len(s.cur.items) {
		s.place()
	}
}

// count classes one row of the input.
func (r *run) count(in *input, it *item) {
	c, out := &r.res.Rows, in.out
	c.Total++
	out.Rows++
	if it.malformed != protocol.ReasonNone {
		switch {
		case it.torn:
			c.Torn++
		default:
			c.Malformed++
		}
		if it.tooLong {
			r.res.tooLong++
		}
		return
	}
	row := &it.row
	if row.Verify.Untried && r.floor.Left() > 0 {
		r.fixer.repair(&row.Record, &row.Verify, r.floor)
		if row.Verify.Class == verify.Repaired {
			r.fixer.finishRow(row)
		}
	}
	room := row.Record.Room
	switch {
	case out.rooms == 0:
		out.rooms, out.Room, out.RoomFrom = 1, room, it.roomFrom
		out.FirstSeq = seqPtr(row.Record.Seq)
	case out.rooms == 1 && out.Room != room:
		out.rooms, out.Room, out.FirstSeq, out.LastSeq = 2, "", nil, nil
	}
	if out.rooms == 1 {
		out.last = row.Record.Seq
		out.LastSeq = &out.last
	}
	switch row.Verify.Class {
	case verify.Authentic:
		c.Authentic++
		out.checked++
	case verify.Repaired:
		c.Repaired++
		out.checked++
	case verify.Unsigned:
		c.Unsigned++
	default:
		c.Invalid++
		if it.roomFrom != export.RoomFromName && it.roomFrom != export.RoomUnknown {
			r.res.wrongSigs++
		}
		if row.Verify.Reason == protocol.SignatureInvalid {
			out.checked++
			out.failed++
			if row.Verify.Untried {
				out.untried++
			}
		}
	}
}

func (r *run) listMalformed(in *input, it *item) {
	if it.torn {
		r.res.auditor.Finding(fold.Finding{
			Code: fold.TornLine, Room: it.row.Record.Room,
			Detail: fmt.Sprintf("%s: a line was cut off", in.place(it)),
		})
	}
	if len(r.res.Malformed) < MalformedLimit {
		r.res.Malformed = append(r.res.Malformed, MalformedRow{
			Where: export.Position{Path: in.Path, Line: it.line, Offset: it.offset}, Reason: it.malformed, Detail: it.detail, Torn: it.torn,
		})
	}
}

func (in *input) place(it *item) string {
	return export.Position{Path: in.Path, Line: it.line, Offset: it.offset}.String()
}

// endInput takes note of what an input was.
func (r *run) endInput(it *item) {
	out := it.input.out
	out.SHA256, out.Cut = it.end.SHA256, it.end.Cut
	r.res.Bytes += it.end.Bytes
	if out.Cut == export.CutNone {
		return
	}
	room, _ := it.input.room("", "")
	if out.rooms == 1 {
		room = out.Room
	} else if out.rooms > 1 {
		room = ""
	}
	r.res.auditor.Malformed(room, out.index)
	r.res.tornInputs++
	switch out.Cut {
	case export.CutNewline:
		r.res.auditor.Finding(fold.Finding{
			Code: fold.TornLine, Room: room,
			Detail: "the final line end is missing: what came after the last row may be missing, too",
		})
	case export.CutCompressed:
		r.res.auditor.Finding(fold.Finding{
			Code: fold.TornLine, Room: room, Detail: "the compressed stream breaks off: what came after is not in sight",
		})
	}
}

// inputFindings says what is to be said of each input as a whole.
func (r *run) inputFindings() {
	for i := range r.res.Inputs {
		in := &r.res.Inputs[i]
		if in.RoomFrom == export.RoomFromFound {
			detail := "the room was found by trying signatures"
			if in.rooms > 1 {
				detail = "the rooms were found by trying signatures"
			}
			r.res.auditor.Finding(fold.Finding{Code: fold.RoomFound, Room: in.Room, Detail: detail})
		}
		// Nearly every row: nine of ten, and more than a stray one or two.
		if in.failed >= 3 && in.failed*10 >= in.checked*9 {
			r.res.auditor.Finding(fold.Finding{
				Code: fold.RoomDoubtful, Room: in.Room,
				Detail: fmt.Sprintf("%d of %d signatures fail in this room: the room is probably wrong, and the rows not forged", in.failed, in.checked),
			})
		}
		if in.untried > 0 {
			r.res.auditor.Finding(fold.Finding{
				Code: fold.HintsNotTried, Room: in.Room,
				Detail: plural(in.untried, "row was", "rows were") + " left without a search for the cause of the failed signature",
			})
		}
	}
}
