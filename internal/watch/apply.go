package watch

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tclk-audit/tclk-audit/export"
	"github.com/tclk-audit/tclk-audit/export/venue"
	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/store"
	"github.com/tclk-audit/tclk-audit/verify"
)

// line is one line of an export, or one row of a page.
type line struct {
	seq uint64
	ok  bool // it is a row with a seq
	raw []byte
}

const (
	pageRows = 200 // the most that a venue gives at once
	// exportTries is how often in a row an export may fail before a room goes on
	// without it.
	exportTries = 8
	// floorSeq is above every seq that a room can have.
	floorSeq = 1 << 53
	// maxSkew is how far a Date header may be from this machine's clock. It can
	// be anybody's that stands between here and the venue.
	maxSkew = time.Hour
	// judgeRows is how many rows are judged at once.
	judgeRows = 512
)

// hear takes in what a reply says of the venue's clock. A reply that a cache or
// an edge gave says nothing.
func (s *site) hear(r *venue.Reply) {
	if r.Date.IsZero() || r.Fallback || r.Age > 0 {
		return
	}
	if d := r.Date.Sub(r.Fetched); d.Abs() > maxSkew {
		if !s.skewed {
			s.skewed = true
			s.w.o.Listener.notice(s.o.Alias, s.o.Alias, true,
				fmt.Sprintf("the venue's Date header is %s off this machine's clock, and is not believed: where no signed row comes, warnings come late", d.Round(time.Second)))
		}
		return
	}
	s.skewed = false
	if ms := r.Date.UnixMilli(); ms > s.heard {
		s.heard, s.heardAt = ms, r.Fetched
	}
}

// whole asks for all that the venue has of a room: of a venue without exports,
// for its newest rows.
func (s *site) whole(r *room, q venue.Query, atLeast uint64) bool {
	switch {
	case s.exports && s.mayExport(r, s.w.now()):
		r.export, r.atLeast = true, atLeast
	case q.Since >= 0:
		r.probe = probeBare
	default:
		return false
	}
	return true
}

// mayExport reports whether a room's export is asked for: where it fails again
// and again, for ten minutes, the room goes on without it, and it is tried anew
// every ten minutes.
func (s *site) mayExport(r *room, now time.Time) bool {
	return r.tries < exportTries || now.Sub(r.triedFirst) < exportAgain || now.Sub(r.tried) > exportAgain
}

// page takes in a page of a room.
func (s *site) page(r *room, q venue.Query, p *venue.Page) error {
	t := &r.tail
	gen := t.Generation
	if p.HasGeneration {
		gen = p.Generation
	}
	asked := r.probe
	r.probe = probeNone
	if asked == probeFloor {
		s.floor(r, q, p)
		return nil
	}
	lines := make([]line, len(p.Rows))
	for i, row := range p.Rows {
		lines[i] = line{row.Seq, true, row.Raw}
	}
	fetch := s.fetched(&p.Reply, gen)
	again := r.source != 0 && q.Since >= 0 && t.Cursor > 0 && uint64(q.Since) == t.Cursor-1 // the row at the cursor is among those asked for
	changed := r.source != 0 && p.HasGeneration && t.Says && gen != t.Generation
	if len(lines) == 0 {
		switch {
		case asked == probeGone && t.Gone && !changed:
			return s.unreadUpTo(r, r.floor)
		case r.source == 0:
			return s.empty(r, gen, p.HasGeneration)
		case asked == probeBare:
			return s.gone(r, gen, p.HasGeneration)
		case t.Gone && !changed:
			return nil
		case changed, again, p.LastSeq < t.Cursor && !again:
			if s.whole(r, q, 0) {
				return nil
			}
			return s.gone(r, gen, p.HasGeneration)
		}
		return nil
	}
	first := lines[0].seq
	inRow := lines[len(lines)-1].seq-first == uint64(len(lines)-1)
	switch {
	case asked == probeBare:
	case changed && first > 1, !inRow, // from 1 on in a row, there is no more to be had
		again && (first != t.Cursor || rowHash(lines[0].raw) != t.Hash),
		!again && first > t.Cursor+1:
		if again && first == t.Cursor+1 && inRow && !changed {
			break // the row at the cursor is one too many for the page
		}
		if s.exports && s.whole(r, q, p.LastSeq) {
			return nil
		}
		if again && first <= t.Cursor && s.whole(r, q, 0) {
			return nil
		}
	}
	return s.take(r, lines, gen, p.HasGeneration, false, fetch)
}

// floor takes in how far a room had come that is gone. Another look has to show
// that it is gone still: the number may be that of a new life.
func (s *site) floor(r *room, q venue.Query, p *venue.Page) {
	if t := &r.tail; len(p.Rows) == 0 && p.LastSeq < uint64(q.Since) && p.LastSeq > t.Cursor && p.Generation == t.Generation {
		r.floor, r.probe = p.LastSeq, probeGone
	}
}

// unreadUpTo takes in that rows were lost when a room was removed.
func (s *site) unreadUpTo(r *room, last uint64) error {
	t := &r.tail
	err := s.cover(r, store.LostReaped, t.Generation, t.Cursor+1, last, "the room had come to the last of them when it was removed")
	t.Cursor, t.Hash = last, ""
	return errors.Join(err, s.keep(r))
}

func (s *site) fetched(r *venue.Reply, gen uint64) store.Fetch {
	return store.Fetch{
		TimeMs: r.Fetched.UnixMilli(), Generation: gen, Bytes: r.Bytes, SHA256: r.SHA256,
		Request: strings.TrimPrefix(r.URL, s.client.Origin()),
	}
}

// empty takes in a first look at a room without rows.
func (s *site) empty(r *room, gen uint64, says bool) error {
	t := &r.tail
	t.Generation, t.Says = gen, says
	if err := s.follow(r); err != nil {
		return err
	}
	if r.class == ClassDeal {
		if err := s.w.writer.Room(r.source, r.name, gen, 0); err != nil {
			return err
		}
	}
	if gen > 0 {
		if err := s.unread(r, gen); err != nil {
			return err
		}
	}
	return s.keep(r)
}

// unread takes in that a room had rows of which none was read.
func (s *site) unread(r *room, gen uint64) error {
	r.tail.Gone, r.probe = true, probeFloor
	return s.cover(r, store.RoomReaped, gen, 0, 0, "it has no rows, and had some in this generation")
}

// gone takes in that a room that had rows has none.
func (s *site) gone(r *room, gen uint64, says bool) error {
	t := &r.tail
	if r.source == 0 {
		return s.empty(r, gen, says)
	}
	if (t.Gone || t.Cursor == 0) && t.Generation == gen {
		return nil
	}
	if t.Gone || t.Cursor == 0 {
		// Another life came and went.
		t.Generation, t.Says = gen, says
		var err error
		if gen > 0 {
			err = s.unread(r, gen)
		}
		return errors.Join(err, s.keep(r))
	}
	err := s.cover(r, store.RoomReaped, t.Generation, 0, 0, fmt.Sprintf("it has no rows; the last that was read is %d", t.Cursor))
	t.Gone = true
	switch {
	case !says:
		// Its seqs will count from 1 again.
		t.Cursor, t.Hash = 0, ""
		t.Generation++
	case gen == 0:
		t.Cursor, t.Hash = 0, ""
		t.Generation, t.Says = 0, true
	default:
		r.probe = probeFloor
	}
	return errors.Join(err, s.keep(r))
}

// exported takes in a whole export.
func (s *site) exported(r *room, e *venue.Export, lines []line) error {
	r.export, r.tries = false, 0
	gen := r.tail.Generation
	if e.HasGeneration {
		gen = e.Generation
	}
	if e.FirstSeq == 0 {
		return s.gone(r, gen, e.HasGeneration)
	}
	return s.take(r, lines, gen, e.HasGeneration, true, s.fetched(&e.Reply, gen))
}

// take brings what was read of a room together with what was read before.
// whole tells that the lines are all that the venue has.
func (s *site) take(r *room, lines []line, gen uint64, says, whole bool, f store.Fetch) error {
	t := &r.tail
	first, last, at := bounds(lines, t.Cursor)
	if first == 0 {
		return nil
	}
	lost := store.LostWindow
	if whole {
		lost = store.LostOverwritten
	}
	known := r.source != 0
	if !known {
		t.Generation, t.Says = gen, says
		if err := s.follow(r); err != nil {
			return err
		}
	}
	changed := known && says && t.Says && gen != t.Generation
	from, anew := t.Cursor, t.Gone
	// A source ends with what is said of it: what follows is of the next one.
	cover := func(code store.CoverageCode, gen, from, to uint64, format string, args ...any) error {
		anew = true
		return s.cover(r, code, gen, from, to, fmt.Sprintf(format, args...))
	}
	if changed || t.Gone {
		lost = store.LostReaped
	}
	var err error
	switch {
	case t.Cursor == 0 && first > 1 && !known:
		err = s.cover(r, store.LostBeforeRetention, gen, 1, first-1, fmt.Sprintf("the first row that there is has seq %d", first))
	case t.Cursor == 0 && first > 1:
		err = cover(lost, gen, 1, first-1, "the first row that there is has seq %d", first)
	case t.Cursor == 0:
	case at >= 0 && t.Hash != "" && rowHash(lines[at].raw) != t.Hash:
		was, is := t.Hash, rowHash(lines[at].raw)
		if now := s.w.now(); !changed && says && now.Sub(r.rewrote) < rewriteAgain {
			// It was told, and what else is there was stored: that has an end.
			t.Hash = is
			break
		}
		r.rewrote, from = s.w.now(), 0
		switch {
		case !says:
			err = cover(store.SeqRestarted, gen, 0, 0, "the row at seq %d is another one: its sha256 began with %s and begins with %s", t.Cursor, was, is)
			gen = t.Generation + 1
			if first > 1 {
				err = errors.Join(err, cover(lost, gen, 1, first-1, "the first row that there is has seq %d", first))
			}
		case changed:
			err = cover(store.SeqRestarted, gen, 0, 0, "generation %d begins at seq %d; generation %d had come to %d", gen, first, t.Generation, t.Cursor)
		default:
			err = cover(store.RowRewritten, gen, t.Cursor, t.Cursor, "its sha256 began with %s and begins with %s", was, is)
		}
	case at >= 0 && changed:
		err = cover(store.LifeBegan, gen, 0, 0, "its first rows were read as rows of generation %d", t.Generation)
	case at >= 0:
	case last < t.Cursor:
		from = 0
		err = cover(store.SeqRestarted, gen, 0, 0, "its last row has seq %d; rows up to %d were read before", last, t.Cursor)
		if !says {
			gen = t.Generation + 1
		}
		if first > 1 {
			err = errors.Join(err, cover(lost, gen, 1, first-1, "the first row that there is has seq %d", first))
		}
	case first > t.Cursor:
		if changed {
			err = cover(store.LifeBegan, gen, 0, 0, "generation %d became %d", t.Generation, gen)
		}
		if first > t.Cursor+1 {
			err = errors.Join(err, cover(lost, t.Generation, t.Cursor+1, first-1, "the first row that there is has seq %d", first))
		}
	}
	if err != nil {
		return err
	}
	if anew && known {
		if err := s.split(r); err != nil {
			return err
		}
	}
	t.Generation, t.Says, t.Gone = gen, says, false
	switch {
	case from == 0:
		t.Cursor, t.Hash = 0, ""
	case first > from+1:
		t.Cursor, t.Hash = first-1, "" // what lies between is told of
	}
	return s.add(r, lines, from, f)
}

// bounds finds the first and the last seq of the lines, and the line with a seq.
func bounds(lines []line, cursor uint64) (first, last uint64, at int) {
	at = -1
	for i := range lines {
		if !lines[i].ok {
			continue
		}
		if first == 0 {
			first = lines[i].seq
		}
		last = max(last, lines[i].seq)
		if lines[i].seq == cursor {
			at = i
		}
	}
	return first, last, at
}

// add stores the rows above a seq, and the unreadable lines among them.
func (s *site) add(r *room, lines []line, from uint64, f store.Fetch) error {
	var rows []line
	var bad []line // since the last row
	for _, l := range lines {
		switch {
		case !l.ok:
			bad = append(bad, l)
			continue
		case l.seq <= from:
			bad = nil
			continue
		}
		rows = append(append(rows, bad...), l)
		bad = nil
	}
	n := 0
	for _, l := range rows {
		if l.ok {
			if f.First == 0 {
				f.First = l.seq
			}
			f.Last = l.seq
			n++
		}
	}
	if n == 0 {
		return s.keep(r)
	}
	f.Rows = n
	r.active = s.w.now()
	if err := s.w.writer.Fetch(r.source, f); err != nil {
		return err
	}
	for len(rows) > 0 {
		// A piece ends in front of a hole.
		n, next := 0, r.tail.Cursor+1
		for n < len(rows) && n < judgeRows {
			if l := &rows[n]; l.ok {
				if l.seq > next && !(r.tail.Cursor == 0 && n == 0) && next != 1 {
					break
				}
				next = l.seq + 1
			}
			n++
		}
		if n == 0 {
			l := &rows[0]
			if err := s.cover(r, store.LostUnreadable, r.tail.Generation, r.tail.Cursor+1, l.seq-1, "the venue has no row there that can be read"); err != nil {
				return err
			}
			if err := s.split(r); err != nil {
				return err
			}
			r.tail.Cursor, r.tail.Hash = l.seq-1, ""
			if err := s.w.writer.Fetch(r.source, f); err != nil {
				return err
			}
			continue
		}
		if err := s.judge(r, rows[:n]); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// judge judges rows, stores them and moves the cursor.
func (s *site) judge(r *room, lines []line) error {
	t := &r.tail
	raws := s.w.raws[:0]
	for _, l := range lines {
		raws = append(raws, export.RawRow{Bytes: l.raw, Size: int64(len(l.raw)), Line: t.Rows + int64(len(raws)) + 1, Offset: t.Bytes, Generation: t.Generation})
		t.Bytes += int64(len(l.raw)) + 1
	}
	s.w.raws = raws
	judged, err := s.w.judge.Rows(r.name, raws, &t.Judge)
	if err != nil {
		return err
	}
	for i := range judged {
		j := &judged[i]
		row := &s.w.row
		*row = store.Row{
			Row: j.Row, Raw: j.Raw, RawSize: j.RawSize, Index: t.Rows, Line: j.Line, Offset: j.Offset, RoomFrom: j.RoomFrom,
			Malformed: j.Malformed, Detail: j.Detail, Torn: j.Torn, TooLong: j.TooLong,
		}
		t.Rows++
		if err := s.w.writer.Add(r.source, row); err != nil {
			return err
		}
		if lines[i].ok {
			if lines[i].seq >= t.Cursor {
				t.Cursor, t.Hash = lines[i].seq, rowHash(lines[i].raw)
			}
		}
		if j.Malformed == protocol.ReasonNone {
			t.TsMs = j.Row.Record.TsMs
		}
		if j.Row.Verify.Class == verify.Authentic {
			s.ts = max(s.ts, t.TsMs) // as the store sees the venue's clock
		}
		s.w.stored(s, r, j)
	}
	return s.keep(r)
}

// keep writes down how far a room was read, and ends the window where it is
// full.
func (s *site) keep(r *room) error {
	r.tail.ReadMs = s.w.now().UnixMilli()
	if err := s.w.writer.State(r.source, r.tail.encode()); err != nil {
		return err
	}
	s.w.soil(r)
	if s.w.writer.Full() {
		return s.w.commit()
	}
	return nil
}

// follow begins a source for a room.
func (s *site) follow(r *room) error {
	cur, err := s.w.writer.Follow(store.Source{
		Venue: s.o.Alias, Path: s.client.Origin() + "/r/" + r.name, Room: r.name, Size: -1, TimeMs: s.w.now().UnixMilli(),
	})
	r.source = cur.Number
	r.tail.Rows, r.tail.Bytes = 0, 0
	return err
}

// split ends the source of a room and begins another: its rows do not follow on
// from what was read before.
func (s *site) split(r *room) error {
	if err := s.end(r); err != nil {
		return err
	}
	return s.follow(r)
}

// noDigest is the digest of a source that is no file.
var noDigest = strings.Repeat("0", 64)

func (s *site) end(r *room) error {
	return s.w.writer.End(r.source, r.tail.Rows, noDigest, export.CutNone, r.name)
}

// cover writes down what happened to a room beside its rows.
func (s *site) cover(r *room, code store.CoverageCode, gen, from, to uint64, evidence string) error {
	c := store.Coverage{Code: code, Room: r.name, Generation: gen, From: from, To: to, TsMs: r.tail.TsMs, Evidence: evidence}
	if err := s.w.writer.Cover(r.source, c); err != nil {
		return err
	}
	s.w.soil(r)
	if code.Lost() && code != store.LostBeforeRetention && to > 0 {
		s.w.pass.Lost += int64(to - from + 1)
	}
	if l := &s.w.o.Listener; l.Coverage != nil {
		l.Coverage(s.o.Alias, r.class, c)
	}
	return nil
}

// clock estimates the venue's clock, Unix ms.
func (s *site) clock(now time.Time) int64 {
	if s.heard == 0 {
		if s.ts == 0 {
			return now.UnixMilli()
		}
		return s.ts
	}
	return max(s.ts, s.heard+now.Sub(s.heardAt).Milliseconds())
}
