package gen

import (
	"strconv"

	"github.com/tclk-audit/tclk-audit/internal/testkit"
	"github.com/tclk-audit/tclk-audit/protocol"
)

// class is what an auditor's signature check should make of a row.
type class uint8

const (
	authentic class = iota
	repaired        // verifies with another spelling of its nonce
	unsigned
	invalid
	malformed // not a row
	torn      // the beginning of a row
	classEnd
)

// entry is one line of the corpus on its way from a story to a file. A story
// fills the first part; the planner gives it its place when its time comes.
// From then on nothing changes it, and any core may sign and write it.
type entry struct {
	atMs  int64
	order uint64 // decides between entries of one moment
	room  *room

	by    actor          // who signs; none where nick or raw is set
	nick  string         // sender of an unsigned row
	frame protocol.Frame // what is said, or
	text  string         // the same where it is no frame, or not a canonical one
	raw   func(seq uint64, tsMs int64) string

	// seal signs the record in a way of its own; nil signs it properly. It must
	// depend on its arguments alone.
	seal  func(*protocol.Record, *testkit.Signer)
	class class

	of        *entry // an earlier entry whose record this repeats …
	inPlace   bool   // … at the same seq and time
	skip      uint64 // seqs that are missing before this one
	sameSeq   bool   // takes the seq of the row before
	swap      bool   // stands in the file after the row that follows it
	shiftMs   int64  // ts is off by so much
	uncounted bool   // takes no seq: a fragment
	then      func(*entry)

	seq    uint64
	tsMs   int64
	micros int
	nonce  string
	open   bool // makes the room's file and writes nothing
	last   bool // nothing more comes in this room
	cut    bool // no newline: the end of the file is missing
}

// actor is somebody who writes: a party and its place among the planner's
// clocks. The zero actor is nobody.
type actor struct {
	testkit.Party
	clock int
}

// room is what the planner knows about one room while rows for it are still to
// come.
type room struct {
	name   string
	board  bool
	seq    uint64
	lastUs int64
	due    int // entries that wait for their time
	held   *entry

	holes  uint64 // places that no authenticated row fills, so far
	unread uint64 // malformed rows since the last authenticated one
}

// planner tells the stories and brings their entries into the order of the
// venue's clock.
type planner struct {
	o    Options
	keys *testkit.Keys
	rand *testkit.Rand // of the rows' places
	tale *testkit.Rand // of the stories, each of which has a fork

	queue queue
	order uint64
	board *room
	emit  func(*entry)

	nonces []uint64 // the last nonce of each clock
	owed   [noiseKinds]int64
	turn   map[string]int // how often each rotating variant was used

	told     uint64 // stories
	planned  int64  // contracts of the stories told so far
	boardDue int64  // board rows of the stories told so far
	nowMs    int64
	cut      bool   // the board's last line is
	doubts   uint64 // board rows that may hide a cancel, other than seq holes

	stats    Stats
	classes  [classEnd]int64
	repeats  int64
	noise    [noiseKinds]int64
	stories  map[string]int64
	statuses map[string]int64
	kept     []*outcome
}

// The clocks beyond the keys: actors who are nobody's party.
const (
	weakClock  = iota // the key that verifies anything
	archiveMan        // an outsider with nanosecond nonces
	extraClocks
)

func newPlanner(o Options) *planner {
	p := &planner{
		o: o, keys: testkit.NewKeys(o.Seed), rand: testkit.NewRand(o.Seed, "plan"),
		tale:   testkit.NewRand(o.Seed, "story"),
		board:  &room{name: protocol.BoardRoom, board: true},
		nonces: make([]uint64, o.Keys+extraClocks),
		turn:   map[string]int{}, stories: map[string]int64{}, statuses: map[string]int64{},
		nowMs: o.StartMs,
	}
	for i := range p.owed {
		p.owed[i] = int64(p.rand.IntN(perMillion))
	}
	return p
}

// gapMs is the mean time between two stories: with some two and a half board
// rows a story it gives the live board's four or five rows a second.
const gapMs = 540

// run plans the whole corpus and hands each entry to emit, in file order. It
// stops early when stop says so.
func (p *planner) run(emit func(*entry), stop func() bool) {
	p.emit = emit
	next := p.o.StartMs
	for !stop() {
		more := p.wantsMore()
		if more && (p.queue.empty() || next <= p.queue.first().atMs) {
			p.tell(next)
			next += p.rand.Between(0, 2*gapMs)
			continue
		}
		if p.queue.empty() {
			break
		}
		p.place(p.queue.pop())
	}
	p.finishBoard()
}

func (p *planner) wantsMore() bool {
	if p.o.Rows > 0 {
		return p.boardDue < p.o.Rows
	}
	return p.planned < int64(p.o.Contracts)
}

// finishBoard ends the board with a line cut off, where torn rows are wanted.
func (p *planner) finishBoard() {
	i := kindByName("torn")
	if p.o.Noise.rates[i] == 0 {
		return
	}
	p.noise[i]++
	p.cut = true
	e := &entry{room: p.board, raw: tornLine, class: torn, cut: true, seq: p.board.seq + 1, tsMs: p.nowMs}
	p.count(e)
	p.emit(e)
}

// schedule puts an entry into the queue. Entries of deal rooms are dropped where
// the corpus has no deal rooms.
func (p *planner) schedule(e *entry) {
	if e.room.board {
		p.boardDue++
	} else if !p.o.DealRooms {
		return
	}
	p.order++
	e.order = p.order
	e.atMs = max(e.atMs, p.nowMs)
	e.room.due++
	p.queue.push(e)
}

// place gives an entry its seq, time and nonce, which is when it happens.
func (p *planner) place(e *entry) {
	p.nowMs = e.atMs
	r := e.room
	r.due--
	if e.open {
		e.last = r.due == 0
		p.emit(e)
		return
	}
	switch {
	case e.inPlace:
		e.seq, e.tsMs, e.micros = e.of.seq, e.of.tsMs, e.of.micros
	default:
		p.takeSeq(e)
		p.takeTime(e)
	}
	p.takeNonce(e)
	p.judge(e)
	p.count(e)
	if e.then != nil {
		e.then(e)
	}
	held := r.held
	if e.swap && held == nil && r.due > 0 {
		r.held = e
		return
	}
	r.held = nil
	e.last = r.due == 0 && !r.board && held == nil
	p.emit(e)
	if held != nil {
		held.last = r.due == 0 && !r.board
		p.emit(held)
	}
}

func (p *planner) takeSeq(e *entry) {
	r := e.room
	if e.uncounted {
		e.seq = r.seq + 1
		return
	}
	if e.skip > 0 {
		r.seq += e.skip
		r.holes++
	}
	if !e.sameSeq {
		r.seq++
	}
	e.seq = r.seq
}

// takeTime stamps an entry: its millisecond is the plan's, since deadlines are
// judged by it; within the room microseconds rise as far as that allows.
func (p *planner) takeTime(e *entry) {
	r := e.room
	us := max(e.atMs*1000+p.rand.Between(0, 999), r.lastUs+1)
	us = min(us, e.atMs*1000+999)
	r.lastUs = us
	e.tsMs, e.micros = us/1000, int(us%1000)
	e.tsMs += e.shiftMs
}

func (p *planner) takeNonce(e *entry) {
	switch {
	case e.of != nil:
		e.nonce = e.of.nonce
	case e.by.Signer != nil && e.nonce == "":
		e.nonce = p.nextNonce(e.by, e.atMs)
	}
}

// nextNonce is what an actor's software counts with: mostly a clock in ms, here
// and there one in µs or ns, or a plain counter. It rises in every room at once.
func (p *planner) nextNonce(a actor, atMs int64) string {
	last := p.nonces[a.clock]
	n := last + 1
	if unit := nonceUnit(a.clock, p.o.Keys); unit > 0 {
		early := p.rand.Between(50, 1200) // signed before it was stamped
		n = max(n, uint64(atMs-early)*unit+uint64(p.rand.IntN(int(unit))))
		if unit == nanos {
			n |= 1 // never one that a double holds exactly
		}
	}
	p.nonces[a.clock] = n
	return strconv.FormatUint(n, 10)
}

const nanos = 1_000_000

// nonceUnit is how often an actor's clock ticks in a ms, 0 for a counter.
func nonceUnit(clock, keys int) uint64 {
	switch {
	case clock == keys+archiveMan:
		return nanos
	case clock >= keys:
		return 1000
	case clock%10 == 6:
		return 1000
	case clock%10 == 7:
		return nanos
	case clock%10 == 8:
		return 0
	}
	return 1
}

// judge keeps track of what the room's rows prove so far.
func (p *planner) judge(e *entry) {
	r := e.room
	if e.inPlace {
		return
	}
	switch e.class {
	case authentic, repaired:
		if r.unread > 0 {
			r.holes++
			r.unread = 0
		}
		if r.board && e.class == repaired {
			p.doubts++ // who does not try the repair sees no row here
		}
	case unsigned:
		if r.board && e.nick != "" {
			break // unsigned chat is normal on the board
		}
		fallthrough
	case invalid:
		if r.board {
			p.doubts++
		} else {
			r.holes++
		}
	case malformed, torn:
		if r.board {
			p.doubts++
		} else {
			r.unread++
		}
	}
}

func (p *planner) count(e *entry) {
	p.stats.Rows++
	if e.room.board {
		p.stats.BoardRows++
	} else {
		p.stats.DealRows++
	}
	c := e.class
	if p.o.BadSignatures && (c == authentic || c == repaired) {
		c = invalid
	}
	p.classes[c]++
	if e.of != nil {
		p.repeats++
	}
}

// queue is a binary heap of entries by time, then by the order they were
// planned in.
type queue struct{ heap []*entry }

func (q *queue) empty() bool   { return len(q.heap) == 0 }
func (q *queue) first() *entry { return q.heap[0] }

func before(a, b *entry) bool {
	return a.atMs < b.atMs || a.atMs == b.atMs && a.order < b.order
}

func (q *queue) push(e *entry) {
	h := append(q.heap, e)
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 2
		if before(h[up], e) {
			break
		}
		h[i] = h[up]
		i = up
	}
	h[i] = e
	q.heap = h
}

func (q *queue) pop() *entry {
	h := q.heap
	top, e := h[0], h[len(h)-1]
	h[len(h)-1] = nil
	h = h[:len(h)-1]
	q.heap = h
	if len(h) == 0 {
		return top
	}
	i := 0
	for {
		down := 2*i + 1
		if down >= len(h) {
			break
		}
		if down+1 < len(h) && before(h[down+1], h[down]) {
			down++
		}
		if before(e, h[down]) {
			break
		}
		h[i] = h[down]
		i = down
	}
	h[i] = e
	return top
}
