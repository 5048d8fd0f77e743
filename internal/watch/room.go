package watch

import (
	"container/heap"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/internal/audit"
	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/store"
)

// room is one room that is followed, or waits to be.
type room struct {
	name  string
	class Class
	named bool // the user asked for it
	hint  bool // a note or an accept without its offer speaks for it, nothing else

	// how far it was read, and where that is kept
	tail   tail
	source uint32 // in the store; 0: nothing was read
	deal   deal

	// when it is read
	need       need // when it was last placed
	live       bool // it has one of the places of live rooms
	waits      bool // for one
	queue      *queue
	index      int // in its queue
	due        time.Time
	asked      bool // a request is under way
	failed     int  // in a row
	retry      time.Time
	refused    bool // for good, as the venue says
	tries      int  // exports that failed in a row
	tried      time.Time
	triedFirst time.Time
	rewrote    time.Time // when it was last stored anew because a row was another one
	polls      int
	export     bool // the next request is for the export
	atLeast    uint64
	probe      probe
	floor      uint64    // what probeFloor found
	known      time.Time // since when
	read       time.Time // last success
	active     time.Time // when rows last came, or it became known
	ended      time.Time // when its contract was seen to be at an end
	disabled   bool      // the venue refuses it for good
}

// probe is what the next read of a room is to find out.
type probe uint8

const (
	probeNone  probe = iota
	probeBare        // its newest rows, whatever was read before
	probeFloor       // how far a room that is gone had come
	probeGone        // whether it is gone still
)

// tail is how far a room was read: all that a restarted watcher needs.
type tail struct {
	Cursor     uint64      `json:"cursor"`     // the last seq that was read, 0 for none
	Hash       string      `json:"hash"`       // of the row there: 16 hex digits of its sha256
	Generation uint64      `json:"generation"` // of the room
	Says       bool        `json:"says"`       // the venue says generations
	TsMs       int64       `json:"tsMs"`       // of the row there
	Rows       int64       `json:"rows"`       // of the source so far
	Bytes      int64       `json:"bytes"`
	Gone       bool        `json:"gone"` // the venue has removed it
	ReadMs     int64       `json:"readMs"`
	Judge      audit.State `json:"judge"`
}

func rowHash(raw []byte) string {
	h := sha256.Sum256(raw)
	return hex.EncodeToString(h[:8])
}

func (t *tail) encode() []byte {
	b, err := json.Marshal(t)
	if err != nil {
		panic(err) // numbers and strings alone
	}
	return b
}

func readTail(b []byte) (t tail, err error) {
	if err = json.Unmarshal(b, &t); err != nil {
		err = fmt.Errorf("watch: the cursor of a room cannot be read: %w", err)
	}
	return t, err
}

// deal is what the room's contract needs of the watcher.
type deal struct {
	status     protocol.Status
	refundMs   int64
	bound      bool
	superseded bool
}

// about takes in what was concluded about a contract of the room. Where there
// are several, which takes 2^32 tries, the one that changed last counts.
func (d *deal) about(i *store.Item) {
	next := deal{status: i.Status, refundMs: i.RefundAfterMs, bound: i.Binding == fold.Bound, superseded: i.Binding == fold.Superseded}
	*d = next
}

func terminal(s protocol.Status) bool {
	return s == protocol.Claimed || s == protocol.Refunded || s == protocol.Cancelled
}

// need orders rooms: the lower, the sooner.
type need uint8

const (
	needBoard  need = iota
	needHot         // a lock whose refund deadline is near
	needFresh       // never read, of a bound contract or named by the user
	needLocked      // a lock
	needOpen        // accepted, a lock would still count
	needRaced       // of a superseded accept
	needLapsed      // accepted, too late to lock; a lock whose refund window is open
	needEnded       // at an end: receipts may come
	needHint        // nothing but a hint speaks for it
)

var needWords = [...]string{"board", "hot", "fresh", "locked", "open", "superseded", "lapsed", "ended", "hint"}

// refundLinger is how long a room with a lock is read after its refund window
// opened: the refund may still come.
const refundLinger = 24 * time.Hour

// needs says what a room is needed for, and whether it can be let go.
func (s *site) needs(r *room, now time.Time) (n need, letGo bool) {
	clock := s.clock(now)
	switch {
	case r.class == ClassBoard:
		return needBoard, false
	case r.source == 0 && !r.hint && !r.deal.superseded && (r.named || clock-r.deal.refundMs < s.o.Linger.Milliseconds()):
		n = needFresh
	case r.hint:
		n = needHint
	case r.named && r.deal.status == protocol.StatusNone:
		n = needOpen
	case terminal(r.deal.status):
		n = needEnded
	case r.deal.status == protocol.Locked:
		left := time.Duration(r.deal.refundMs-clock) * time.Millisecond
		switch {
		case left > s.o.HotBefore:
			n = needLocked
		case left > -s.o.HotEvery:
			n = needHot
		default:
			n = needLapsed
		}
	case r.deal.refundMs <= clock:
		n = needLapsed
	case r.deal.superseded:
		n = needRaced
	default:
		n = needOpen
	}
	if r.named || r.source == 0 {
		return n, false
	}
	switch n {
	case needEnded:
		return n, !r.ended.IsZero() && now.Sub(r.ended) > s.o.Linger
	case needLapsed:
		after := s.o.Linger
		if r.deal.status == protocol.Locked {
			after = refundLinger
		}
		return n, time.Duration(clock-r.deal.refundMs)*time.Millisecond > after && now.Sub(r.active) > s.o.Linger
	case needHint:
		return n, now.Sub(r.active) > s.o.Linger
	}
	return n, false
}

// coldest is how seldom a room is read at most, over ColdEvery: what matters
// little, or has been quiet for long.
const coldest = 4

// interval is how long after a read the room is read again. It grows with the
// time in which nothing happened.
func (s *site) interval(r *room, n need, now time.Time) time.Duration {
	switch n {
	case needBoard:
		// It takes half of the budget at most.
		return max(s.o.BoardEvery, time.Duration(float64(2*time.Minute)/max(s.client.Budget().Full, 0.1)))
	case needHot:
		return s.o.HotEvery
	}
	most := s.o.ColdEvery
	if n >= needLapsed {
		most *= coldest
	}
	quiet := now.Sub(r.active)
	return min(max(quiet/4, s.o.HotEvery), most)
}

// queue has rooms that wait for their turn, the one that is due first in front.
type queue struct{ rooms []*room }

func (q *queue) Len() int           { return len(q.rooms) }
func (q *queue) Less(i, j int) bool { return q.rooms[i].due.Before(q.rooms[j].due) }
func (q *queue) Swap(i, j int) {
	q.rooms[i], q.rooms[j] = q.rooms[j], q.rooms[i]
	q.rooms[i].index, q.rooms[j].index = i, j
}
func (q *queue) Push(x any) {
	r := x.(*room)
	r.index, r.queue = len(q.rooms), q
	q.rooms = append(q.rooms, r)
}
func (q *queue) Pop() any {
	r := q.rooms[len(q.rooms)-1]
	q.rooms[len(q.rooms)-1] = nil
	q.rooms = q.rooms[:len(q.rooms)-1]
	r.queue = nil
	return r
}

func (q *queue) first() *room {
	if len(q.rooms) == 0 {
		return nil
	}
	return q.rooms[0]
}

// leave takes a room out of the queue that it is in.
func (r *room) leave() {
	if r.queue != nil {
		heap.Remove(r.queue, r.index)
	}
}

// enter puts a room into a queue, where it is due at a time.
func (r *room) enter(q *queue, due time.Time) {
	r.leave()
	r.due = due
	heap.Push(q, r)
}
