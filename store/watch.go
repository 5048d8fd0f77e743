package store

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/protocol"
)

// CoverageCode says what happened to a room beside its rows: rows that were
// lost, or a history that does not go on as it was. The numbers are stable.
type CoverageCode uint8

// The codes. Up to LostUnreadable rows were lost, and from LifeBegan on the room
// is not what it was.
const (
	LostBeforeRetention CoverageCode = 1 // older than what the venue still had when the room was first read
	LostOverwritten     CoverageCode = 2 // the room's ring dropped them before they were read
	LostReaped          CoverageCode = 3 // of a life of the room that ended unread
	LostWindow          CoverageCode = 4 // skipped by a read, at a venue that exports nothing: they may never have been there
	LostUnreadable      CoverageCode = 5 // the export has lines in their place that are no rows
	LifeBegan           CoverageCode = 6 // the room was made anew: its generation is another one
	SeqRestarted        CoverageCode = 7 // its seqs count from a lower number again
	RoomReaped          CoverageCode = 8 // the venue removed it
	RowRewritten        CoverageCode = 9 // a row is not what it was when it was first read
)

var coverageCodes = [...]string{
	"", "before-retention", "overwritten", "reaped-unread", "window-skip", "unreadable", "life-began", "seq-restarted", "room-reaped", "row-rewritten",
}

// String returns the code's word.
func (c CoverageCode) String() string {
	if int(c) < len(coverageCodes) {
		return coverageCodes[c]
	}
	return ""
}

// Lost reports whether the code is about rows that were lost.
func (c CoverageCode) Lost() bool { return c >= LostBeforeRetention && c <= LostUnreadable }

// CoverageCodes lists all codes.
func CoverageCodes() []CoverageCode {
	list := make([]CoverageCode, 0, len(coverageCodes)-1)
	for c := range coverageCodes[1:] {
		list = append(list, CoverageCode(c+1))
	}
	return list
}

// Coverage is something that happened to a room beside its rows.
type Coverage struct {
	Code       CoverageCode
	Room       string
	Generation uint64 // of the life that it is about, 0 where not known
	From, To   uint64 // the seqs that it is about, both included; 0 and 0 for none
	TsMs       int64  // time of the last row before it, Unix ms; 0 where there is none
	Evidence   string // what was seen, in words of ours: at most maxEvidence bytes are kept
}

const maxEvidence = 512

// Fetch is one reply of a venue: where the rows of its source came from that
// follow it in the log.
type Fetch struct {
	TimeMs     int64  // when it was fetched, by the clock of the machine, Unix ms
	Generation uint64 // of the room as the reply says, 0 where it does not
	First      uint64 // seqs of its first and last row
	Last       uint64
	Rows       int
	Bytes      int64    // of its body as text
	SHA256     [32]byte // of the same
	Request    string   // path and query
}

// Settings say how a watched venue is concluded about.
type Settings struct {
	// GraceMs is how far conclusions that need no row stay behind the venue's
	// clock, ms: rows may come late.
	GraceMs int64
	// WarnMs is how long before its refund deadline a lock without a reveal is
	// told of, ms. 0: never.
	WarnMs int64
}

// Set puts settings of a venue in force. Where they are in force nothing is
// written.
func (w *Writer) Set(venue string, s Settings) error {
	no, err := w.venue(venue)
	if err != nil {
		return err
	}
	if w.s.venues[no-1].settings == s {
		return nil
	}
	e := entry{kind: entrySettings, venue: no, settings: s}
	pos, err := w.appendEntry(&e)
	if err != nil {
		return err
	}
	return w.p.other(&e, pos)
}

// Clock notes how far a venue's clock has come by other means than a row. It
// makes warnings due, and concludes nothing.
func (w *Writer) Clock(venue string, ms int64) error {
	no, err := w.venue(venue)
	if err != nil {
		return err
	}
	e := entry{kind: entryClock, venue: no, ms: ms}
	pos, err := w.appendEntry(&e)
	if err != nil {
		return err
	}
	return w.p.other(&e, pos)
}

// Follow begins a source that has no end of its own: the rows of one room, as
// they come. Tails finds it again. src.Room names the room.
func (w *Writer) Follow(src Source) (Cursor, error) {
	cur, err := w.Begin(src)
	if err != nil {
		return cur, err
	}
	room := roomKey(src.Room)
	return cur, w.p.set(w.k.of(keyTail, w.s.venueNo(src.Venue)).bytes(room[:]).b, binary.BigEndian.AppendUint32(nil, cur.Number))
}

// unfollow forgets that a source is followed.
func (w *Writer) unfollow(rec *sourceRec, source uint32) error {
	if rec.Size >= 0 || rec.Room == "" || w.replaying != nil {
		return nil
	}
	room := roomKey(rec.Room)
	k := slices.Clone(w.k.of(keyTail, rec.venueNo).bytes(room[:]).b)
	v, err := w.getIdx(k)
	if err != nil || len(v) != 4 || binary.BigEndian.Uint32(v) != source {
		return err
	}
	return w.idx.Delete(k, nil)
}

// Tail is a source that is followed, and how far it was read.
type Tail struct {
	Source
	Cursor
}

// Tails lists the sources of a venue that are followed.
func (s *Store) Tails(venue string) (list []Tail, err error) {
	no := s.venueNo(venue)
	if no == 0 {
		return nil, nil
	}
	err = s.scan([]byte{keyTail, no}, func(k, v []byte) (bool, error) {
		if len(v) != 4 {
			return false, s.damagedKey(k, errors.New("it is no number"))
		}
		rec, err := s.sourceRec(binary.BigEndian.Uint32(v))
		if err != nil {
			return false, err
		}
		src := rec.Source
		src.Venue = venue
		list = append(list, Tail{src, Cursor{Number: binary.BigEndian.Uint32(v), Rows: rec.rows, State: rec.state, Last: rec.last}})
		return true, nil
	})
	return list, err
}

// Fetch notes a reply. The rows of the source that follow are from it.
func (w *Writer) Fetch(source uint32, f Fetch) error {
	rec, err := w.source(source)
	if err != nil {
		return err
	}
	_, err = w.appendEntry(&entry{
		kind: entryFetch, venue: rec.venueNo, where: Where{Source: source}, ms: f.TimeMs, gen: f.Generation, seq: f.First, to: f.Last,
		rows: int64(f.Rows), size: f.Bytes, digest: f.SHA256, word: f.Request,
	})
	return err
}

// Cover notes what happened to a room. The source is the one that follows it.
func (w *Writer) Cover(source uint32, c Coverage) error {
	rec, err := w.source(source)
	if err != nil {
		return err
	}
	w.dirty[source] = true
	e := entry{
		kind: entryCoverage, venue: rec.venueNo, where: Where{Source: source}, room: c.Room, gen: c.Generation, seq: c.From, to: c.To,
		coverage: c.Code, ms: c.TsMs, word: c.Evidence[:min(len(c.Evidence), maxEvidence)],
	}
	pos, err := w.appendEntry(&e)
	if err != nil {
		return err
	}
	return w.p.cover(rec, &e, pos)
}

// cover takes in what happened to a room.
func (p *projector) cover(src *sourceRec, e *entry, pos uint64) error {
	v := p.venue(src.venueNo)
	if int(e.coverage) < len(v.coverage) {
		v.coverage[e.coverage]++
	}
	if e.coverage.Lost() && e.coverage != LostBeforeRetention && e.to >= e.seq && e.to > 0 {
		v.lost += int64(e.to - e.seq + 1)
	}
	// The next row stands behind a hole: the source has not passed it over.
	src.hazy = true
	if e.coverage.Lost() && e.coverage != LostBeforeRetention && e.to > 0 && e.room != protocol.BoardRoom {
		if err := p.room(src, e.room, e.gen, e.to); err != nil {
			return err
		}
	}
	room := roomKey(e.room)
	if err := p.set(p.k.of(keyCoverage, src.venueNo).bytes(room[:]).u64(pos).b, []byte{byte(e.coverage)}); err != nil {
		return err
	}
	p.w.s.state.events++
	p.w.added.Events++
	ev := Event{Kind: EventCoverage, Cause: pos, Coverage: e.coverage}
	p.val = ev.append(p.val[:0], v.no)
	return p.putEvent(p.val)
}

// other takes in an entry of no source.
func (p *projector) other(e *entry, _ uint64) error {
	if e.venue == 0 {
		return nil
	}
	v := p.venue(e.venue)
	switch e.kind {
	case entryClock:
		v.heard = max(v.heard, e.ms)
	case entrySettings:
		v.settings = e.settings
		delete(p.warned, v.no)
	}
	return nil
}

// warnings tells of the locks whose refund deadline comes near without a
// reveal, each once.
func (p *projector) warnings(v *venue) error {
	written := func(l lockDue) bool { return l.venue == v.no }
	if v.settings.WarnMs <= 0 {
		p.locks = slices.DeleteFunc(p.locks, written)
		return nil
	}
	now := v.heard
	if v.hasClock {
		now = max(now, v.clock)
	}
	horizon := uint64(max(now+v.settings.WarnMs, 0))
	var due []protocol.ID
	for _, l := range p.locks {
		if written(l) && l.due <= horizon {
			due = append(due, l.id)
		}
	}
	p.locks = slices.DeleteFunc(p.locks, written)
	if from := p.warned[v.no]; from <= horizon {
		start := slices.Clone(p.k.of(keyStatus, v.no).byte(byte(protocol.Locked)).u64(from).b)
		end := slices.Clone(p.k.of(keyStatus, v.no).byte(byte(protocol.Locked)).u64(horizon + 1).b)
		err := p.w.scanRange(start, end, func(k, _ []byte) (bool, error) {
			due = append(due, protocol.ID(k[3+8:]))
			return true, nil
		})
		if err != nil {
			return err
		}
		p.warned[v.no] = horizon
	}
	var list []lockDue
	for _, id := range due {
		rec, err := p.contract(v.no, id)
		if err != nil {
			return err
		}
		if rec == nil || !rec.folded || rec.warned || rec.sum.Status != protocol.Locked || rec.sum.Outlook.String() != fold.Funded {
			continue
		}
		if l := (lockDue{v.no, uint64(rec.sum.RefundAfterMs), id}); !slices.Contains(list, l) {
			list = append(list, l)
		}
	}
	slices.SortFunc(list, func(a, b lockDue) int {
		return cmp.Or(cmp.Compare(a.due, b.due), slices.Compare(a.id[:], b.id[:]))
	})
	for _, l := range list {
		rec, err := p.contract(v.no, l.id)
		if err != nil {
			return err
		}
		next := *rec
		next.warned = true
		p.w.s.state.events++
		p.w.added.Events++
		next.revision++
		e := Event{
			Kind: EventDeadline, Contract: l.id, Cause: p.w.s.state.log, Revision: next.revision, Previous: rec.event,
			DeadlineMs: rec.sum.RefundAfterMs, ClockMs: now,
		}
		p.val = e.append(p.val[:0], v.no)
		if err := p.putEvent(p.val); err != nil {
			return err
		}
		next.event = p.w.s.state.events
		if p.w.listener.Deadline != nil {
			e.Number, e.Venue = next.event, v.alias
			p.w.listener.Deadline(&e)
		}
		p.putContract(v.no, l.id, &next)
		p.w.changed(v, l.id, &next)
	}
	return nil
}

// lockDue is a lock whose deadline may come near.
type lockDue struct {
	venue uint8
	due   uint64 // Unix ms
	id    protocol.ID
}

// Listener is told what a writer does, on its goroutine. Nil functions are not
// called.
type Listener struct {
	// Contract is told of a contract whose conclusions were written.
	Contract func(i *Item)
	// Step is told of a step of a contract whose row came with this window, once
	// a window. Both are good until it returns.
	Step func(venue string, c *fold.Contract, s *fold.Step)
	// Deadline is told of each warning that a lock's refund deadline comes near
	// without a reveal, before its window is committed.
	Deadline func(e *Event)
	// Window is told of each committed window.
	Window func(w WindowInfo)
}

// WindowInfo says what a window held and what it took.
type WindowInfo struct {
	Entries int           // of the log
	Folding time.Duration // of the contracts that it touched
	Commit  time.Duration // of the batch, to the disk
	Mark    time.Duration // of the high-water mark, to the disk
}

// Listen sets who is told of what the writer does.
func (w *Writer) Listen(l Listener) { w.listener = l }

func (w *Writer) changed(v *venue, id protocol.ID, rec *contractRec) {
	if w.listener.Contract == nil {
		return
	}
	w.listener.Contract(&Item{
		Venue: v.alias, Contract: id, Offer: rec.offer, Revision: rec.revision, Brief: rec.sum, no: v.no, at: rec.stands(), event: rec.event,
	})
}

// toldStep is a step that the listener has heard of in this window.
type toldStep struct {
	contract protocol.ID
	record   protocol.RecordID
}

// newSteps tells the listener of the steps whose rows are of the open window.
func (p *projector) newSteps(v *venue, c *fold.Contract) {
	if p.w.listener.Step == nil {
		return
	}
	for i := range c.Steps {
		s := &c.Steps[i]
		if pos, ok := p.cases.ids[s.Record]; !ok || pos < p.w.first {
			continue
		}
		t := toldStep{c.ID, s.Record}
		if p.told[t] {
			continue
		}
		p.told[t] = true
		p.w.listener.Step(v.alias, c, s)
	}
}

// CoverageEntry is an entry of coverage in the log.
type CoverageEntry struct {
	Coverage
	Position uint64
	Venue    string
}

// Coverages lists what happened to a room of a venue; of all its rooms where
// room is "". Rooms come in the order of their keys, each oldest first, at most
// limit entries from behind the position after within a room.
func (r *Reader) Coverages(venue, room string, limit int) (list []CoverageEntry, err error) {
	for _, v := range r.venues {
		if v.alias != venue {
			continue
		}
		var k key
		k.of(keyCoverage, v.no)
		if room != "" {
			name := roomKey(room)
			k.bytes(name[:])
		}
		err = r.scan(k.b, func(key, _ []byte) (bool, error) {
			pos := binary.BigEndian.Uint64(key[len(key)-8:])
			e, err := r.entry(pos)
			if err != nil {
				return false, err
			}
			if e.kind != entryCoverage {
				return false, r.damaged(key, fmt.Errorf("entry %d of the log is of kind %d", pos, e.kind))
			}
			list = append(list, CoverageEntry{e.covered(), pos, v.alias})
			return limit <= 0 || len(list) < limit, nil
		})
	}
	return list, err
}

// CoverageAt reads an entry of coverage.
func (r *Reader) CoverageAt(pos uint64) (c CoverageEntry, ok bool, err error) {
	e, err := r.entry(pos)
	if err != nil || e.kind != entryCoverage {
		return c, false, err
	}
	c = CoverageEntry{e.covered(), pos, ""}
	if n := int(e.venue); n > 0 && n <= len(r.venues) {
		c.Venue = r.venues[n-1].alias
	}
	return c, true, nil
}

// Fetched finds the reply that a row or sighting came with; ok is false where
// its source is none that was fetched reply by reply, or the reply is too far
// back in the log.
func (r *Reader) Fetched(rec *Record) (f Fetch, ok bool, err error) {
	if rec.Where.Source == 0 || rec.Position < 2 {
		return f, false, nil
	}
	src, err := r.s.sourceRec(rec.Where.Source)
	if err != nil || src.Size >= 0 || src.begun == 0 {
		return f, false, err
	}
	from := max(src.begun, rec.Position-min(rec.Position, lookBack))
	it, err := r.snap.NewIter(&pebble.IterOptions{LowerBound: logKey(nil, from), UpperBound: logKey(nil, rec.Position)})
	if err != nil {
		return f, false, r.s.explain(err)
	}
	for valid := it.Last(); valid; valid = it.Prev() {
		val := it.Value()
		if len(val) == 0 || entryKind(val[0]) != entryFetch {
			continue
		}
		e, err := readEntry(val)
		if err != nil {
			return f, false, errors.Join(r.damaged(slices.Clone(it.Key()), err), it.Close())
		}
		if e.where.Source == rec.Where.Source {
			f = Fetch{
				TimeMs: e.ms, Generation: e.gen, First: e.seq, Last: e.to, Rows: int(e.rows), Bytes: e.size, SHA256: e.digest,
				Request: strings.Clone(e.word),
			}
			ok = true
			break
		}
	}
	return f, ok, r.s.explain(errors.Join(it.Error(), it.Close()))
}

func (e *entry) covered() Coverage {
	return Coverage{Code: e.coverage, Room: e.room, Generation: e.gen, From: e.seq, To: e.to, TsMs: e.ms, Evidence: e.word}
}

// concludes is the clock that conclusions follow: the venue's, less the grace
// for rows that come late.
func (v *venue) concludes() int64 { return max(v.clock-v.settings.GraceMs, math.MinInt64/2) }
