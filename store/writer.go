package store

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/tclk-audit/tclk-audit/export"
	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/verify"
)

const (
	// WindowRows is how many entries a window gathers before it is full.
	WindowRows = 4096
	// UnusableRoomBytes and UnusableBytes are how many bytes of rows that cannot
	// be used are kept, for each room and in all. Of rows beyond them the
	// sha256 and the length are kept.
	UnusableRoomBytes = 4 << 20
	UnusableBytes     = 1 << 30
)

// Source is where rows come from: a file, or a URL.
type Source struct {
	Venue    string // the venue's alias
	Path     string // path or URL
	Room     string // the room that the user gave, "" for none
	NameRoom string // the room that the path says, "" for none
	Size     int64  // stored bytes, -1 where not known
	TimeMs   int64  // when it was fetched, for a file when it was written, Unix ms

	venueNo uint8
}

// Cursor says how far a source has been read.
type Cursor struct {
	Number uint32
	Rows   int64  // so many of its rows are in the store
	State  []byte // what the reader gave with the last of them
	Last   [8]byte
	Done   bool // it has been read to its end
}

// Row is one row of a source, judged.
type Row struct {
	fold.Row
	Raw       []byte // its exact bytes without line end; of an over-long row the first of them
	RawSize   int64
	Index     int64 // 0-based number of the row within the source
	Line      int64 // 1-based
	Offset    int64 // bytes
	RoomFrom  export.RoomFrom
	Malformed protocol.Reason // why it could not be parsed; only Record.Room and Generation are set then
	Detail    string
	Torn      bool
	TooLong   bool
}

// Writer appends to a store. It is not for concurrent use, and one store has
// one at a time.
type Writer struct {
	s      *Store
	log    *pebble.Batch // the entries of the log
	idx    *pebble.Batch // all else, and what is read while a window is open
	p      *projector
	filter filter

	first   uint64   // position of the window's first entry
	window  [][]byte // its entries
	k       key
	val     []byte
	sources map[uint32]*sourceRec
	dirty   map[uint32]bool
	added   WindowCounts
	failed  error

	listener Listener

	lists     *pebble.Iterator // over the lists that no fold changes, while the window is folded
	replaying *Store           // the log is that store's: only what follows from it is written
}

// WindowCounts says what a writer has added since it was made.
type WindowCounts struct {
	Rows       int64 // rows read
	New        int64 // records not seen before
	Again      int64 // sightings of records that the store had
	Unusable   int64 // rows without a signature that holds, or malformed
	Contracts  int64 // contracts not seen before
	Changed    int64 // contracts seen before whose conclusions changed, counted once a window
	Events     int64
	Bytes      int64 // of rows
	WithoutRaw int64 // rows whose bytes were not kept, for a limit
}

// NewWriter begins writing. It refuses with a *BehindError where the store holds
// less than it acknowledged.
func (s *Store) NewWriter() (*Writer, error) {
	if err := s.mayWrite(); err != nil {
		return nil, err
	}
	w := &Writer{s: s, sources: map[uint32]*sourceRec{}, dirty: map[uint32]bool{}}
	w.p = newProjector(w)
	if err := errors.Join(w.p.load(), w.filter.load(s)); err != nil {
		return nil, err
	}
	w.begin()
	s.writing = true
	return w, nil
}

func (s *Store) mayWrite() error {
	switch {
	case s.opts.ReadOnly:
		return errors.New("store: it was opened for reading only")
	case s.behind != nil:
		return s.behind
	case s.writing:
		return errors.New("store: it has a writer already")
	}
	return nil
}

func (w *Writer) begin() {
	w.log, w.idx = w.s.db.NewBatch(), w.s.db.NewIndexedBatch()
	w.first, w.window = w.s.state.log+1, w.window[:0]
}

// Close gives up the open window, if there is one, and ends the writing.
func (w *Writer) Close() error {
	if w.idx == nil {
		return nil
	}
	w.s.writing = false
	err := errors.Join(w.log.Close(), w.idx.Close())
	w.log, w.idx = nil, nil
	if (len(w.window) > 0 || w.failed != nil) && w.replaying == nil {
		err = errors.Join(err, w.s.reload())
	}
	return err
}

// Counts says what was added so far.
func (w *Writer) Counts() WindowCounts { return w.added }

// venue returns the venue's number and makes it known.
func (w *Writer) venue(alias string) (uint8, error) {
	if !ValidVenue(alias) {
		return 0, fmt.Errorf("store: %q is no venue alias", alias)
	}
	if n := w.s.venueNo(alias); n != 0 {
		return n, nil
	}
	if len(w.s.venues) == maxVenues {
		return 0, fmt.Errorf("store: it holds %d venues, and no more", maxVenues)
	}
	v := &venue{no: uint8(len(w.s.venues) + 1), alias: alias}
	w.s.mu.Lock()
	w.s.venues = append(w.s.venues, v)
	w.s.mu.Unlock()
	return v.no, nil
}

// appendEntry appends to the log.
func (w *Writer) appendEntry(e *entry) (pos uint64, err error) {
	w.s.state.log++
	pos = w.s.state.log
	b := e.append(make([]byte, 0, 64+len(e.raw)))
	w.window = append(w.window, b)
	if w.replaying != nil {
		return pos, nil
	}
	return pos, w.log.Set(logKey(w.val, pos), b, nil)
}

// entry reads an entry of the log, one of the open window too.
func (w *Writer) entry(pos uint64) (entry, error) {
	if pos >= w.first && pos < w.first+uint64(len(w.window)) {
		return readEntry(w.window[pos-w.first])
	}
	if w.replaying != nil {
		return w.replaying.entry(pos)
	}
	return w.s.entry(pos)
}

// sourceLookBack is how many of the newest sources are looked at for one that
// was not read to its end.
const sourceLookBack = 64

// Find looks for a source of which an earlier run read a part.
func (w *Writer) Find(src Source) (cur Cursor, found bool, err error) {
	src.venueNo = w.s.venueNo(src.Venue)
	for n := w.s.state.sources; n > 0 && n+sourceLookBack > w.s.state.sources; n-- {
		rec, err := w.source(n)
		if err != nil {
			return Cursor{}, false, err
		}
		if !rec.done && rec.same(&src) {
			return Cursor{Number: n, Rows: rec.rows, State: rec.state, Last: rec.last}, true, nil
		}
	}
	return Cursor{}, false, nil
}

func (s *Source) same(o *Source) bool {
	return s.venueNo == o.venueNo && s.Path == o.Path && s.Room == o.Room && s.NameRoom == o.NameRoom && s.Size == o.Size && s.TimeMs == o.TimeMs
}

// Begin makes a source known: its rows follow.
func (w *Writer) Begin(src Source) (Cursor, error) {
	no, err := w.venue(src.Venue)
	if err != nil {
		return Cursor{}, err
	}
	src.venueNo = no
	return w.newSource(src)
}

func (w *Writer) newSource(src Source) (Cursor, error) {
	w.s.state.sources++
	n := w.s.state.sources
	pos, err := w.appendEntry(&entry{kind: entrySource, venue: src.venueNo, where: Where{Source: n}})
	if err != nil {
		return Cursor{}, err
	}
	w.sources[n], w.dirty[n] = &sourceRec{Source: src, begun: pos, no: n}, true
	return Cursor{Number: n}, nil
}

func (w *Writer) source(n uint32) (*sourceRec, error) {
	if rec := w.sources[n]; rec != nil {
		return rec, nil
	}
	rec, err := w.s.sourceRec(n)
	if err != nil {
		return nil, err
	}
	rec.no = n
	w.sources[n] = rec
	return rec, nil
}

// Add appends one row. Rows of a source come in its order.
func (w *Writer) Add(source uint32, r *Row) error {
	rec, err := w.source(source)
	if err != nil {
		return err
	}
	rec.rows++
	w.dirty[source] = true
	rec.lastRaw = r.Raw
	w.added.Rows++
	w.added.Bytes += int64(len(r.Raw)) + 1
	w.s.state.bytes += int64(len(r.Raw)) + 1
	e := entry{
		venue: rec.venueNo, where: Where{source, r.Index, r.Line, r.Offset},
		room: r.Record.Room, gen: r.Record.Generation, roomFrom: r.RoomFrom, raw: r.Raw,
	}
	if r.Hidden {
		e.flags |= rowHidden
	}
	if r.Malformed != protocol.ReasonNone && !r.Hidden {
		return w.addBad(rec, r, &e)
	}
	e.kind, e.class, e.reason = entryRow, r.Verify.Class, r.Verify.Reason
	e.signedNonce, e.otherRoom = r.Verify.SignedNonce, r.Verify.OtherRoom
	if r.NotStrict {
		e.flags |= rowNotStrict
	}
	if r.Verify.Untried {
		e.flags |= rowUntried
	}
	r.Row.Source = source
	if r.Hidden {
		w.s.state.rows[0]++
	} else {
		w.s.state.rows[e.class]++
	}
	usable := e.class == verify.Authentic || e.class == verify.Repaired
	id := r.ID
	if !usable {
		w.added.Unusable++
		id = unusableID(e.room, e.gen, r.Record.Seq, hashOf(r.Raw))
	}
	at := place{r.Record.Generation, r.Record.Seq, 0}
	opens, known, have, err := w.identity(e.venue, &r.Row, id)
	if err != nil {
		return err
	}
	var bytes8 uint64
	if known || !opens {
		h := hashOf(r.Raw)
		bytes8 = binary.BigEndian.Uint64(h[:])
	}
	if known && samePlace(have.at, at) && have.ts == r.Record.TsMs && have.bytes == bytes8 && have.from != source {
		w.added.Again++
		w.s.state.rows[6]++
		pos, err := w.appendEntry(&entry{kind: entrySame, venue: e.venue, where: e.where, gen: e.gen, roomFrom: e.roomFrom, first: have.at.pos})
		if err != nil {
			return err
		}
		return w.p.again(rec, r.Record.Room, at, pos)
	}
	if known {
		e.flags |= rowAgain
		w.added.Again++
	} else {
		w.added.New++
	}
	if !usable {
		if err := w.keepUnusable(&e, &r.Row); err != nil {
			return err
		}
	}
	pos, err := w.appendEntry(&e)
	if err != nil {
		return err
	}
	at.pos = pos
	return w.p.row(rec, &r.Row, id, identity{at: at, ts: r.Record.TsMs, bytes: bytes8, from: source})
}

// samePlace reports whether two sightings stand at one place. A source that
// does not know generations leaves them 0.
func samePlace(a, b place) bool {
	return a.seq == b.seq && (a.gen == b.gen || a.gen == 0 || b.gen == 0)
}

// unusableID names a row without a signature that holds: by room, generation,
// seq and the sha256 of its bytes.
func unusableID(room string, gen, seq uint64, raw [32]byte) protocol.RecordID {
	b := appendBytes([]byte{'u'}, room)
	b = binary.BigEndian.AppendUint64(b, gen)
	b = binary.BigEndian.AppendUint64(b, seq)
	return hashOf(append(b, raw[:]...))
}

// keepUnusable leaves the bytes of a row out where a limit is met.
func (w *Writer) keepUnusable(e *entry, r *fold.Row) error {
	held, err := w.unusable(e.venue, e.room)
	if err != nil {
		return err
	}
	n := uint64(len(e.raw))
	if held+n > UnusableRoomBytes || uint64(w.s.state.unused)+n > UnusableBytes {
		e.raw = noBytes(e.raw, r)
		e.flags |= rowNoBytes
		w.added.WithoutRaw++
		w.s.state.noBytes++
		return nil
	}
	return w.countUnusable(e.venue, e.room, n)
}

// unusable is how many bytes are kept of a room's rows that cannot be used.
func (w *Writer) unusable(venue uint8, name string) (uint64, error) {
	room := roomKey(name)
	v, err := w.getIdx(w.k.of(keyUnusable, venue).bytes(room[:]).b)
	if err != nil || v == nil {
		return 0, err
	}
	d := dec{b: v}
	return d.uint(), d.err
}

func (w *Writer) countUnusable(venue uint8, name string, n uint64) error {
	held, err := w.unusable(venue, name)
	if err != nil {
		return err
	}
	w.s.state.unused += int64(n)
	w.val = binary.AppendUvarint(w.val[:0], held+n)
	room := roomKey(name)
	return w.idx.Set(w.k.of(keyUnusable, venue).bytes(room[:]).b, w.val, nil)
}

func (w *Writer) addBad(rec *sourceRec, r *Row, e *entry) error {
	w.added.Unusable++
	if r.Torn {
		w.s.state.rows[5]++
	} else {
		w.s.state.rows[0]++
	}
	e.kind, e.reason, e.detail, e.torn, e.tooLong, e.size = entryBad, r.Malformed, r.Detail, r.Torn, r.TooLong, r.RawSize
	if err := w.keepUnusable(e, &r.Row); err != nil {
		return err
	}
	pos, err := w.appendEntry(e)
	if err != nil {
		return err
	}
	return w.p.bad(rec, e, pos)
}

// identity looks for the first sighting of a row. opens tells that the row is
// found by the offer or contract that it opens, and needs no key of its own.
func (w *Writer) identity(venue uint8, r *fold.Row, id protocol.RecordID) (opens, known bool, i identity, err error) {
	if opens, known, i, err = w.p.known(venue, r); opens || err != nil {
		return opens, known, i, err
	}
	v, err := w.getIdx(w.k.of(keyIdentity, venue).bytes(id[:half]).b)
	if err != nil || v == nil {
		return false, false, i, err
	}
	i, err = readIdentity(v)
	return false, err == nil, i, err
}

// getIdx reads a key as the open window has it; nil where there is none. The
// value is good until the next call.
func (w *Writer) getIdx(k []byte) ([]byte, error) {
	if w.filter.absent(k) {
		return nil, nil
	}
	v, closer, err := w.idx.Get(k)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	} else if err != nil {
		return nil, w.s.explain(err)
	}
	if w.p.got = append(w.p.got[:0], v...); w.p.got == nil {
		w.p.got = []byte{} // there, and empty
	}
	return w.p.got, closer.Close()
}

// Room says that a room is in sight although it may hold no row, and that it
// has rows up to last, where last is not 0.
func (w *Writer) Room(source uint32, room string, gen, last uint64) error {
	rec, err := w.source(source)
	if err != nil {
		return err
	}
	e := entry{kind: entryRoom, venue: rec.venueNo, where: Where{Source: source}, room: room, gen: gen, seq: last}
	if _, err := w.appendEntry(&e); err != nil {
		return err
	}
	return w.p.room(rec, room, gen, last)
}

// End says that a source was read to its end: how many rows it had, the sha256
// of its bytes in hex, and whether it ends too early. room is its room where it holds
// one alone.
func (w *Writer) End(source uint32, rows int64, sha256 string, cut export.Cut, room string) error {
	rec, err := w.source(source)
	if err != nil {
		return err
	}
	var digest [32]byte
	if n, err := hex.Decode(digest[:], []byte(sha256)); err != nil || n != len(digest) {
		return fmt.Errorf("store: %q is no sha256", sha256)
	}
	e := entry{kind: entryEnd, venue: rec.venueNo, where: Where{Source: source}, rows: rows, digest: digest, cut: cut, room: room}
	if _, err := w.appendEntry(&e); err != nil {
		return err
	}
	return w.ended(rec, &e)
}

func (w *Writer) ended(rec *sourceRec, e *entry) error {
	if err := w.unfollow(rec, e.where.Source); err != nil {
		return err
	}
	rec.done, rec.digest, rec.cut, rec.state = true, e.digest, byte(e.cut), nil
	w.dirty[e.where.Source] = true
	if e.cut != export.CutNone {
		return w.p.cut(rec, e.where.Source, e.room)
	}
	return nil
}

// State keeps what the reader of a source wants to find again after a restart.
// It is called before the bytes of the row added last are used for another.
func (w *Writer) State(source uint32, state []byte) error {
	rec, err := w.source(source)
	if err != nil {
		return err
	}
	rec.state = append(rec.state[:0], state...)
	h := hashOf(rec.lastRaw)
	copy(rec.last[:], h[:])
	return nil
}

// Full reports whether the window has gathered enough. A caller that wants the
// same events from the same sources, however often it was killed, ends its
// windows here and at the end of its work, and nowhere else.
func (w *Writer) Full() bool { return len(w.window) >= WindowRows }

// Tick ends the window: it folds what the window touches, and commits all of it
// durably.
func (w *Writer) Tick() error {
	if w.failed != nil {
		return w.failed
	}
	if err := w.tick(); err != nil {
		w.failed = err
		return err
	}
	return nil
}

func (w *Writer) tick() error {
	if len(w.window) == 0 && w.replaying == nil {
		return nil
	}
	if err := w.s.failing(); err != nil {
		return err
	}
	if _, err := w.appendEntry(&entry{kind: entryTick}); err != nil {
		return err
	}
	w.s.state.ticks++
	info := WindowInfo{Entries: len(w.window)}
	begun := time.Now()
	err := w.p.fold()
	if w.lists != nil {
		err = errors.Join(err, w.lists.Close())
		w.lists = nil
	}
	if err != nil {
		return err
	}
	if err := w.flushMeta(); err != nil {
		return err
	}
	// No key stands in both.
	if err := w.log.Apply(w.idx, nil); err != nil {
		return w.s.explain(err)
	}
	folded := time.Now()
	if err := w.log.Commit(pebble.Sync); err != nil {
		return w.s.explain(err)
	}
	committed := time.Now()
	if err := w.s.acknowledge(); err != nil {
		return err
	}
	if err := errors.Join(w.log.Close(), w.idx.Close()); err != nil {
		return w.s.explain(err)
	}
	if w.listener.Window != nil {
		info.Folding, info.Commit, info.Mark = folded.Sub(begun), committed.Sub(folded), time.Since(committed)
		w.listener.Window(info)
	}
	w.begin()
	return nil
}

// flushMeta writes counters, venues and cursors into the window.
func (w *Writer) flushMeta() error {
	w.val = w.s.state.append(w.val[:0])
	if err := w.idx.Set(metaKey(metaState), w.val, nil); err != nil {
		return err
	}
	for _, v := range w.s.venues {
		w.val = v.append(w.val[:0])
		if err := w.idx.Set(venueKey(int(v.no)), w.val, nil); err != nil {
			return err
		}
	}
	numbers := make([]uint32, 0, len(w.dirty))
	for n := range w.dirty {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	for _, n := range numbers {
		rec := w.sources[n]
		w.val = rec.append(w.val[:0])
		if err := w.idx.Set(sourceKey(nil, n), w.val, nil); err != nil {
			return err
		}
		if rec.done && rec.digest != ([32]byte{}) {
			k := rec.digestKey(rec.digest)
			size := binary.BigEndian.AppendUint64([]byte{keySize, rec.venueNo}, uint64(rec.Size))
			if err := errors.Join(w.idx.Set(k, binary.BigEndian.AppendUint32(nil, n), nil), w.idx.Set(size, nil, nil)); err != nil {
				return err
			}
		}
		if rec.done {
			delete(w.sources, n)
		}
	}
	clear(w.dirty)
	return nil
}

// HasSize reports whether a source of the venue with that many bytes was read to
// its end: else there is no need to look for its bytes.
func (s *Store) HasSize(venue string, size int64) (bool, error) {
	no := s.venueNo(venue)
	if no == 0 {
		return false, nil
	}
	v, err := s.get(binary.BigEndian.AppendUint64([]byte{keySize, no}, uint64(size)))
	return v != nil, err
}

// Known returns the number of a source of the venue with these bytes that was
// read to its end in the same room, 0 where there is none.
func (s *Store) Known(src Source, digest [32]byte) (uint32, error) {
	if src.venueNo = s.venueNo(src.Venue); src.venueNo == 0 {
		return 0, nil
	}
	v, err := s.get(src.digestKey(digest))
	if err != nil || len(v) != 4 {
		return 0, err
	}
	return binary.BigEndian.Uint32(v), nil
}

// digestKey finds a source by its bytes, and by what else decides the rooms of
// its rows.
func (s *Source) digestKey(digest [32]byte) []byte {
	k := append([]byte{keyDigest, s.venueNo}, digest[:]...)
	h := hashOf(appendBytes(appendBytes(nil, s.Room), s.NameRoom))
	return append(k, h[:8]...)
}

func (s *Store) sourceRec(n uint32) (*sourceRec, error) {
	v, err := s.get(sourceKey(nil, n))
	if err != nil {
		return nil, err
	}
	if v == nil {
		return nil, &DamagedError{File: s.path("db"), Err: fmt.Errorf("source %d is not there", n), Do: doRestore}
	}
	rec, err := readSourceRec(v)
	if err != nil {
		return nil, &DamagedError{File: s.path("db"), Err: fmt.Errorf("source %d: %w", n, err), Do: doRestore}
	}
	return &rec, nil
}

// entry reads an entry of the log.
func (s *Store) entry(pos uint64) (entry, error) {
	v, err := s.get(logKey(nil, pos))
	if err != nil {
		return entry{}, err
	}
	e, err := readEntry(v)
	if err != nil {
		return entry{}, &DamagedError{File: s.path("db"), Err: fmt.Errorf("entry %d of the log: %w", pos, err), Do: doRestore}
	}
	return e, nil
}
