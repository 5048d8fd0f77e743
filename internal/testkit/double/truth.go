package double

import (
	"encoding/json"
	"maps"
	"slices"
	"time"
)

// End is why a row stopped being readable.
type End int

// The ends of a row.
const (
	Readable    End = iota // it can still be had, by export at least
	Overwritten            // the ring was cut
	Reaped                 // the room was deleted
	Replaced               // a dishonest venue wrote another row in its place
	Dropped                // a dishonest venue left it out
	Wiped                  // the volume was lost
)

// String is one word for the end.
func (e End) String() string {
	return [...]string{"readable", "overwritten", "reaped", "replaced", "dropped", "wiped"}[e]
}

// Line is one line that a room held.
type Line struct {
	Life       int    // of the room, from 1; a reap ends one
	Generation uint64 // as the venue publishes it for that life; 0 before V011
	Seq        uint64
	Raw        []byte    // the stored line without its newline. Not to be changed
	Stamp      time.Time // its ts
	Time       time.Time // when it became readable
	End        End
	Gone       time.Time // when it stopped being readable, else zero

	ok         bool // it parses
	from, text string
}

// Parses tells that the line is a row and not a torn fragment.
func (l *Line) Parses() bool { return l.ok }

func (l *Line) gone(why End, now time.Time) {
	if l.End == Readable {
		l.End, l.Gone = why, now
	}
}

// Held returns every line that the room ever held, in the order in which they
// were written, through all lives.
func (v *Venue) Held(room string) []Line {
	v.mu.Lock()
	defer v.mu.Unlock()
	r := v.rooms[room]
	if r == nil {
		return nil
	}
	out := make([]Line, len(r.ever))
	for i, l := range r.ever {
		out[i] = *l
	}
	return out
}

// File returns the lines that the room holds now.
func (v *Venue) File(room string) []Line {
	v.mu.Lock()
	defer v.mu.Unlock()
	r := v.rooms[room]
	if r == nil {
		return nil
	}
	out := make([]Line, len(r.rows))
	for i, l := range r.rows {
		out[i] = *l
	}
	return out
}

// Rooms returns the names of all rooms that ever were, sorted.
func (v *Venue) Rooms() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Sorted(maps.Keys(v.rooms))
}

// RoomInfo is how a room stands.
type RoomInfo struct {
	Alive      bool // it has a file
	Life       int
	Generation uint64 // as a reader sees it now; 0 before V011
	Seq        uint64 // the last one given
	First      uint64 // the first seq that can be had; 0 for none
	Rows       int
	Bytes      int
}

// Room says how a room stands.
func (v *Venue) Room(name string) RoomInfo {
	v.mu.Lock()
	defer v.mu.Unlock()
	r := v.rooms[name]
	if r == nil {
		return RoomInfo{}
	}
	i := RoomInfo{Alive: r.alive, Life: r.life, Generation: r.shownGeneration(v.opt.Now()), Seq: r.seq, Rows: len(r.rows), Bytes: r.bytes}
	for _, l := range r.rows {
		if l.ok {
			i.First = l.Seq
			break
		}
	}
	return i
}

// RoomReads is how a room was read: views and exports that were answered with
// 200.
type RoomReads struct {
	Reads   int64
	Exports int64
	First   time.Time
	Last    time.Time
	Longest time.Duration // between two reads
}

// maxLooked bounds the rooms whose reads are counted.
const maxLooked = 1 << 20

// Reads says how a room was read. The room need not exist.
func (v *Venue) Reads(room string) RoomReads {
	v.mu.Lock()
	defer v.mu.Unlock()
	if n := v.looked[room]; n != nil {
		return *n
	}
	return RoomReads{}
}

// MarkReads forgets the longest time between two reads of each room, so that
// what follows is measured alone.
func (v *Venue) MarkReads() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, n := range v.looked {
		n.Longest = 0
	}
}

func (v *Venue) look(room string, export bool, now time.Time) {
	n := v.looked[room]
	if n == nil {
		if len(v.looked) >= maxLooked {
			return
		}
		n = &RoomReads{First: now, Last: now}
		v.looked[room] = n
	}
	n.Reads++
	if export {
		n.Exports++
	}
	n.Longest = max(n.Longest, now.Sub(n.Last))
	n.Last = now
}

// Stats counts what the venue was asked and did.
type Stats struct {
	Requests    map[string]int64 // by kind: room, export, rooms, notes, note, config, agent, document, say, set, none
	Faults      map[string]int64 // injected, by name
	Clients     map[string]ClientStats
	Limited     int64 // 429s for an exceeded budget, reads and writes
	Connections int64 // that Serve and Pipe took
	WaitersHigh int   // most long-polls held at one time
	Refusals    int64 // long-polls that got no slot
	Rows        int64 // lines ever written
	Compactions int64
	Reaps       int64
	BytesSent   int64 // of bodies, before compression
	EdgeHits    int64 // answers of the shared cache
}

// ClientStats counts the requests of one client address.
type ClientStats struct {
	Reads   int64   // that were charged
	Writes  int64   // that were charged
	Limited int64   // 429s for an exceeded budget
	Lowest  float64 // read tokens that were left when fewest were, of one worker
}

// Stats returns the counters.
func (v *Venue) Stats() Stats {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.counts
	s.Requests, s.Faults, s.Clients = maps.Clone(s.Requests), maps.Clone(s.Faults), maps.Clone(s.Clients)
	return s
}

// Compact cuts a room to half of the ring's limit now. If it is no larger,
// it is cut to half of its own size.
func (v *Venue) Compact(room string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if r := v.rooms[room]; r != nil && r.alive {
		v.compact(r, min(v.opt.RingBytes, r.bytes)/2, v.opt.Now())
	}
}

// Reap deletes a room now, as the reaper does.
func (v *Venue) Reap(room string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if r := v.rooms[room]; r != nil && r.alive {
		v.reap(r, v.opt.Now())
	}
}

// Squeeze says whether the rooms are held to their share of the whole, as they
// are when all rooms together are too large. The next pass of the reaper judges
// that anew.
func (v *Venue) Squeeze(on bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.pressed = on
}

// RewriteRow is a dishonest venue: it puts another line in the place of the row
// with a seq. It reports whether there is such a row.
func (v *Venue) RewriteRow(name string, seq uint64, raw []byte) bool {
	return v.tamper(name, seq, func(r *room, i int, now time.Time) []*Line {
		old := r.rows[i]
		old.gone(Replaced, now)
		l := &Line{Life: r.life, Generation: r.generation, Raw: slices.Clone(raw), Stamp: old.Stamp, Time: now, from: old.from, text: old.text}
		l.Seq, l.ok = parse(l.Raw)
		r.ever = append(r.ever, l)
		return append(append(slices.Clone(r.rows[:i]), l), r.rows[i+1:]...)
	})
}

// DropRow is a dishonest venue: it leaves a row out from now on. It reports
// whether there is such a row.
func (v *Venue) DropRow(name string, seq uint64) bool {
	return v.tamper(name, seq, func(r *room, i int, now time.Time) []*Line {
		r.rows[i].gone(Dropped, now)
		return append(slices.Clone(r.rows[:i]), r.rows[i+1:]...)
	})
}

func (v *Venue) tamper(name string, seq uint64, change func(r *room, i int, now time.Time) []*Line) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	r := v.rooms[name]
	if r == nil {
		return false
	}
	i := slices.IndexFunc(r.rows, func(l *Line) bool { return l.ok && l.Seq == seq })
	if i < 0 {
		return false
	}
	before := r.bytes
	r.rows = change(r, i, v.opt.Now())
	r.bytes = 0
	for _, l := range r.rows {
		r.bytes += len(l.Raw) + 1
	}
	v.bytes += int64(r.bytes - before)
	return true
}

// InsertTorn appends a fragment on a line of its own, as a crash leaves it. The
// fragment has the seq that the next row takes.
func (v *Venue) InsertTorn(room, fragment string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := v.opt.Now()
	if r := v.rooms[room]; r != nil && r.alive {
		v.place(r, &Line{Life: r.life, Generation: r.generation, Raw: []byte(fragment), Stamp: now, Time: now}, now)
	}
}

// ResetSeq wipes the volume: all rows of the room are gone, and with them the
// bookkeeping, so that the next row has seq 1 and generation 1.
func (v *Venue) ResetSeq(room string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	r := v.rooms[room]
	if r == nil {
		return
	}
	for _, l := range r.rows {
		l.gone(Wiped, v.opt.Now())
	}
	v.bytes -= int64(r.bytes)
	if r.alive {
		v.alive--
	}
	r.alive, r.rows, r.bytes, r.nonces, r.seq, r.generation = false, nil, 0, nil, 0, 0
}

// SetNote writes a note without budget.
func (v *Venue) SetNote(ns, key, value string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.setNote(ns, key, value, v.opt.Now())
}

// parse reads the seq of a line, as the venue does that skips what is no row.
func parse(raw []byte) (seq uint64, ok bool) {
	var row struct {
		Seq *uint64 `json:"seq"`
	}
	if json.Unmarshal(raw, &row) != nil || row.Seq == nil {
		return 0, false
	}
	return *row.Seq, true
}
