// Package double is a venue in the memory of a test: an http.Handler that
// answers as the message board technocore.chat does, from its first readable
// version to the newest, with everything that makes it hard to read.
//
// A room is a file of rows that only grows at its end, is cut to its newer half
// when it is full, and is deleted when nobody writes to it. Readers get windows
// of it, under a budget. The double keeps what a real venue forgets: every row
// that a room ever held, and when it stopped being readable, so that a test can
// compare what a reader kept with what there was to be had.
//
// Tests write to it directly ([Venue.Say], [Venue.SaySigned], [Venue.Post],
// [Venue.PostRaw]) or over HTTP, make it misbehave with [Faults], and make it
// lie with the operations of admin.go. [Serve] puts it on a real socket,
// [Pipe] on connections in memory, which a synctest bubble needs.
//
// What it leaves out of the real venue: brotli, the ownership of rooms, the
// Unicode compatibility forms in the duplicate filter, and the long documents.
package double

import (
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// Profile is the version whose behaviour the double shows.
type Profile int

// The profiles, oldest first. The zero value of Options takes V0145.
const (
	V07   Profile = 1 // 0.7.0: no export, sig, generation, wait_held or duplicate filter; seq restarts
	V011  Profile = 2 // 0.11: all of those, in indented JSON; since is echoed
	V0145 Profile = 3 // 0.14.5: compact JSON, since clamped to the head, gzip
)

// Version is the version string that the profile publishes.
func (p Profile) Version() string {
	switch p {
	case V07:
		return "0.7.0"
	case V011:
		return "0.11.0"
	default:
		return "0.14.5"
	}
}

// Options are a venue's knobs. A zero value stands for the venue's default,
// which is named beside each. What can be turned off is off when negative.
type Options struct {
	Profile Profile // V0145

	ReadPerMin  int // reads a minute for each client address; 120
	WritePerMin int // writes a minute for each client address; 30
	RoomsPerDay int // rooms that an address may create a day; 20
	Workers     int // processes that count budgets, waiters and copies each for itself; 1
	MaxConns    int // requests at one time, beyond them 503; 128

	MaxWait      time.Duration // longest long-poll; 10 s
	WaitPoll     time.Duration // how often a long-poll looks; 500 ms
	WaitersPerIP int           // long-polls held for one address; 4, negative for none
	WaitersTotal int           // long-polls held in all; 64, negative for none

	RingBytes  int   // bytes of a room before it is cut to half; 10 MiB
	KeepRows   int   // most rows that a cut leaves; 5000 under V07, else no limit
	TotalBytes int64 // bytes of all rooms from which the rooms are squeezed; 5 GiB
	MaxRooms   int   // 5120
	ReadBudget int   // newest bytes of a room that a JSON read looks at; 1 MiB

	Idle      time.Duration // a room without a write for so long is deleted; 7 days
	Stillborn time.Duration // the same, of a room with one row; 24 h
	ReapEvery time.Duration // least time between two passes of the reaper; 10 min, 5 min before V0145
	Ephemeral time.Duration // life of the rows in rooms of class e; 15 min

	DupeWindow    time.Duration // 60 s, negative for no duplicate filter
	DupeMinLength int           // characters below which a text is exempt; 16
	DupeMaxCopies int           // copies that pass; 5

	EdgeSeconds int  // how long replies are marked fresh for a shared cache; 1, negative for no-store
	EdgeCache   bool // a shared cache stands in front; see also Venue.SetEdgeCache

	// BumpDelay is how long the first row of a new life shows under the old
	// generation; 0.
	BumpDelay time.Duration
	// OnExport, if set, runs between the snapshot of an export and the reading of
	// its generation, without any lock.
	OnExport func(room string)

	// IPHeader names the header that carries the client's address; "" for the
	// address of the connection.
	IPHeader string
	// Now is the venue's clock; time.Now. Waiting goes by timers of package time
	// all the same.
	Now  func() time.Time
	Seed uint64 // of the random faults and of the choice of worker
}

const (
	maxLimit     = 200
	defaultLimit = 50
	replyRows    = 20 // of the view that answers a write
	maxText      = 4096
	maxNote      = 8192
	maxPost      = 262_144 // bytes
	postTime     = 10 * time.Second
	maxHeaders   = 48
	maxHeaderLen = 8192
)

func def[T int | int64 | time.Duration](v *T, byDefault T) {
	if *v == 0 {
		*v = byDefault
	}
}

// New makes a venue without rooms.
func New(o Options) *Venue {
	if o.Profile == 0 {
		o.Profile = V0145
	}
	def(&o.ReadPerMin, 120)
	def(&o.WritePerMin, 30)
	def(&o.RoomsPerDay, 20)
	def(&o.Workers, 1)
	def(&o.MaxConns, 128)
	def(&o.MaxWait, 10*time.Second)
	def(&o.WaitPoll, 500*time.Millisecond)
	def(&o.WaitersPerIP, 4)
	def(&o.WaitersTotal, 64)
	def(&o.RingBytes, 10<<20)
	if o.Profile == V07 {
		def(&o.KeepRows, 5000)
		def(&o.ReapEvery, 5*time.Minute)
	}
	if o.Profile == V011 {
		def(&o.ReapEvery, 5*time.Minute)
	}
	def(&o.TotalBytes, 5<<30)
	def(&o.MaxRooms, 5120)
	def(&o.ReadBudget, 1<<20)
	def(&o.Idle, 7*24*time.Hour)
	def(&o.Stillborn, 24*time.Hour)
	def(&o.ReapEvery, 10*time.Minute)
	def(&o.Ephemeral, 15*time.Minute)
	def(&o.DupeWindow, time.Minute)
	def(&o.DupeMinLength, 16)
	def(&o.DupeMaxCopies, 5)
	def(&o.EdgeSeconds, 1)
	if o.Now == nil {
		o.Now = time.Now
	}
	v := &Venue{
		opt:     o,
		profile: o.Profile,
		edgeOn:  o.EdgeCache,
		random:  rand.New(rand.NewPCG(o.Seed, 0x646f75626c65)),
		rooms:   map[string]*room{},
		notes:   map[string]map[string]note{},
		edge:    map[string]edgeEntry{},
		looked:  map[string]*RoomReads{},
		copies:  map[string][]time.Time{},
		clients: map[clientKey]*client{},
		waiting: map[clientKey]int{},
		held:    map[int]int{},
		counts:  Stats{Requests: map[string]int64{}, Faults: map[string]int64{}, Clients: map[string]ClientStats{}},
	}
	return v
}

// Venue is a venue in memory. It may be used by several goroutines.
type Venue struct {
	opt Options

	mu       sync.Mutex
	profile  Profile
	random   *rand.Rand
	rooms    map[string]*room
	alive    int // rooms that have a file
	bytes    int64
	notes    map[string]map[string]note
	lastReap time.Time
	pressed  bool // the rooms are squeezed

	faults  Faults
	edgeOn  bool
	edge    map[string]edgeEntry
	copies  map[string][]time.Time // worker, room and text → when copies were taken
	clients map[clientKey]*client
	waiting map[clientKey]int
	held    map[int]int // worker → long-polls held

	running int // requests
	looked  map[string]*RoomReads
	counts  Stats
}

var _ http.Handler = (*Venue)(nil)

// Profile is the version whose behaviour the venue shows now.
func (v *Venue) Profile() Profile {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.profile
}

// Upgrade makes the venue show another version from now on, over the rooms that
// it has. Rows written before it keep the form that they have.
func (v *Venue) Upgrade(p Profile) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.profile = p
}

// SetReadPerMin changes the read budget. Buckets that exist are filled anew.
func (v *Venue) SetReadPerMin(n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.opt.ReadPerMin = n
	clear(v.clients)
}

// SetEdgeCache puts a shared cache in front of the venue, or takes it away.
func (v *Venue) SetEdgeCache(on bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.edgeOn = on
	clear(v.edge)
}
