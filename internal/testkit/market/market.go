// Package market is a small market that trades on the venue of the tests: agents
// who make offers, accept them, lock, reveal, refund and cancel, some too late
// and some not at all, among chat, mistakes and hostile strangers.
//
// It knows what its agents did, so that what a watcher concluded can be held
// against it: the status that the rows of each contract establish, which rows
// each room holds, and when each room was read. [New] puts the contracts that are
// there from the start on the venue, [Market.Run] trades, and [Market.Handler]
// serves the venue, with the truth under /_market/.
package market

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/tclk-audit/tclk-audit/internal/testkit"
	"github.com/tclk-audit/tclk-audit/internal/testkit/double"
	"github.com/tclk-audit/tclk-audit/protocol"
)

// Options say how lively the market is.
type Options struct {
	Offers float64       // accepts a second; 0: none
	Board  float64       // rows a second on the board in all, filled up with chat; 0: no chat
	Rooms  int           // contracts that are locked from the start
	Hot    int           // so many of them have their refund deadline at Near
	Near   time.Duration // 0: 14 min, within what a watcher takes for near
	// Life is how long after its offer the refund deadline of a new deal is; the
	// other deadlines come before in proportion. 0: 1 h.
	Life time.Duration
	Seed uint64
}

const (
	defaultNear = 14 * time.Minute
	defaultLife = time.Hour
	farDeadline = 24 * time.Hour // refund, of what is there from the start
	parties     = 40
	strangers   = 10 // with the keys after those of the parties
)

// Market is a market on a venue.
type Market struct {
	v     *double.Venue
	o     Options
	keys  *testkit.Keys
	begun time.Time
	looks looks

	mu       sync.Mutex
	source   *testkit.Rand
	agenda   agenda
	made     uint64 // entries of the agenda
	deals    []*deal
	rooms    map[string]*deal
	byScript map[string]int
	rows     map[string]int // by class of the room
	board    []time.Time    // when the row of seq i+1 became readable
	chatFrom time.Time
	chatOver int // rows on the board when Run began
	ended    time.Time
}

// New makes a market, and the contracts that are there from the start.
func New(v *double.Venue, o Options) *Market {
	if o.Near == 0 {
		o.Near = defaultNear
	}
	if o.Life == 0 {
		o.Life = defaultLife
	}
	m := &Market{
		v: v, o: o, keys: testkit.NewKeys(o.Seed), begun: time.Now(), source: testkit.NewRand(o.Seed, "market"),
		rooms: map[string]*deal{}, byScript: map[string]int{}, rows: map[string]int{},
	}
	for i := range o.Rooms {
		// The hot ones are spread evenly over all.
		hot := (i+1)*o.Hot/o.Rooms > i*o.Hot/o.Rooms
		m.standing(hot)
	}
	return m
}

// entry is something that an agent means to do.
type entry struct {
	at time.Time
	n  uint64 // of two at one time the older comes first
	do func(now time.Time)
}

type agenda []entry

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return a[i].at.Before(a[j].at) || a[i].at.Equal(a[j].at) && a[i].n < a[j].n
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(entry)) }
func (a *agenda) Pop() any {
	last := (*a)[len(*a)-1]
	(*a)[len(*a)-1] = entry{}
	*a = (*a)[:len(*a)-1]
	return last
}

// plan puts something on the agenda.
func (m *Market) plan(at time.Time, do func(now time.Time)) {
	m.made++
	heap.Push(&m.agenda, entry{at, m.made, do})
}

// Run trades until ctx ends. It is called once.
func (m *Market) Run(ctx context.Context) {
	m.mu.Lock()
	now := time.Now()
	m.chatFrom, m.chatOver = now, len(m.board)
	if m.o.Offers > 0 {
		m.plan(now, m.arrive)
	}
	if m.o.Board > 0 {
		m.plan(now, m.fill)
	}
	m.mu.Unlock()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			m.mu.Lock()
			m.ended = time.Now()
			m.mu.Unlock()
			return
		case <-timer.C:
		}
		m.mu.Lock()
		wait := time.Hour
		for len(m.agenda) > 0 {
			now := time.Now()
			if wait = m.agenda[0].at.Sub(now); wait > 0 {
				break
			}
			heap.Pop(&m.agenda).(entry).do(now)
			if ctx.Err() != nil {
				break
			}
		}
		m.mu.Unlock()
		timer.Reset(max(wait, 0))
	}
}

// arrive opens a deal, and plans the next one so that accepts come at random
// with the rate of the options.
func (m *Market) arrive(now time.Time) {
	accepts := m.open(now)
	mean := time.Duration(float64(max(accepts, 1)) / m.o.Offers * float64(time.Second))
	m.plan(now.Add(m.about(mean)), m.arrive)
}

// fill adds chat where the board has fewer rows than it should.
func (m *Market) fill(now time.Time) {
	for float64(len(m.board)-m.chatOver) < now.Sub(m.chatFrom).Seconds()*m.o.Board {
		m.noise(protocol.BoardRoom)
	}
	m.plan(now.Add(time.Duration(float64(time.Second)/m.o.Board)), m.fill)
}

// between draws a time.
func (m *Market) between(lo, hi time.Duration) time.Duration {
	return time.Duration(m.source.Between(int64(lo), int64(max(lo, hi))))
}

// about draws a time from 0 to twice the mean.
func (m *Market) about(mean time.Duration) time.Duration { return m.between(0, 2*mean) }

// put posts a frame.
func (m *Market) put(room string, by *testkit.Signer, f protocol.Frame) {
	m.v.Post(room, by, f)
	m.count(room)
}

func (m *Market) count(room string) {
	class := m.class(room)
	m.rows[class]++
	if class == ClassBoard {
		m.board = append(m.board, time.Now())
	}
}

// The classes of rooms, as the market sees them.
const (
	ClassBoard = "board"
	ClassHot   = "hot"  // locked from the start, with its refund deadline near
	ClassCold  = "cold" // locked from the start, with a far one
	ClassNew   = "new"  // of a deal that was made since
	ClassRival = "rival"
	ClassVoid  = "void" // of an accept that does not count: nobody needs to read it
	ClassOther = "other"
)

func (m *Market) class(room string) string {
	if room == protocol.BoardRoom {
		return ClassBoard
	}
	if d := m.rooms[room]; d != nil {
		return d.class
	}
	return ClassOther
}
