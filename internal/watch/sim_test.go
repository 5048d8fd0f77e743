package watch

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tclk-audit/tclk-audit/internal/testkit"
	"github.com/tclk-audit/tclk-audit/internal/testkit/double"
	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/store"
)

// sim is a venue in simulated time with agents that trade on it, and a watcher.
type sim struct {
	t      *testing.T
	rnd    *rand.Rand
	v      *double.Venue
	wire   *double.Wire
	dir    string
	deals  []*simDeal
	keys   *testkit.Keys
	source *testkit.Rand
}

type simDeal struct {
	*testkit.Deal
	step int
	at   time.Time // of its next step
}

func newSim(t *testing.T, seed uint64, o double.Options) *sim {
	o.Seed = seed
	v := double.New(o)
	s := &sim{
		t: t, rnd: rand.New(rand.NewPCG(seed, 1)), v: v, wire: double.Pipe(v), dir: t.TempDir(), keys: testkit.NewKeys(seed),
		source: testkit.NewRand(seed, "sim"),
	}
	return s
}

func (s *sim) options() Options {
	return Options{
		Settle: -1,
		Venues: []Venue{{Alias: "sim", Origin: s.wire.Origin, Transport: s.wire.Transport}},
		Listener: Listener{Notice: func(venue, about string, serious bool, text string) {
			if os.Getenv("TCLK_NOTICES") != "" {
				s.t.Logf("%s %s %v %s", time.Now().Format("15:04:05"), about, serious, text)
			}
		}},
	}
}

// open opens the store.
func (s *sim) open() *store.Store {
	s.t.Helper()
	st, err := store.Open(s.dir, store.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	return st
}

// watch runs a watcher until it is stopped.
func (s *sim) watch(st *store.Store, o Options) (w *Watcher, stop func()) {
	s.t.Helper()
	w, err := New(st, o)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	return w, func() {
		s.t.Helper()
		cancel()
		begun := time.Now()
		if err := <-done; err != nil {
			s.t.Errorf("Run: %v", err)
		}
		if d := time.Since(begun); d > 10*time.Second {
			s.t.Errorf("it took %s to stop", d)
		}
	}
}

// trade lets agents act for a while: each second some rows.
func (s *sim) trade(d time.Duration, perSecond float64) {
	end := time.Now().Add(d)
	for time.Now().Before(end) {
		time.Sleep(time.Duration(s.rnd.ExpFloat64() / perSecond * float64(time.Second)))
		s.act()
	}
}

func (s *sim) late() []double.WriteOption {
	if s.rnd.IntN(5) == 0 {
		return []double.WriteOption{double.Late(time.Duration(s.rnd.IntN(20_000)) * time.Millisecond)}
	}
	return nil
}

func (s *sim) act() {
	now := time.Now()
	for _, d := range s.deals {
		if d.step > 0 && now.After(d.at) {
			s.advance(d)
			return
		}
	}
	switch s.rnd.IntN(6) {
	case 0, 1:
		n := s.rnd.IntN(20)
		d := testkit.NewDeal(s.source, s.keys.Party(n), s.keys.Party(n+1+s.rnd.IntN(10)), testkit.Terms{
			NowMs: now.UnixMilli(), Expires: 120_000, ClaimBy: 300_000 + s.rnd.Int64N(600_000), Refund: 1_000_000 + s.rnd.Int64N(600_000),
		})
		s.v.Post(protocol.BoardRoom, d.Offerer.Signer, d.Offer, s.late()...)
		s.v.Post(protocol.BoardRoom, d.Acceptor.Signer, d.Accept, s.late()...)
		s.deals = append(s.deals, &simDeal{d, 1, now.Add(time.Duration(s.rnd.IntN(60_000)) * time.Millisecond)})
		if s.rnd.IntN(6) == 0 {
			r := d.Rival(s.keys.Party(40))
			s.v.Post(protocol.BoardRoom, r.Acceptor.Signer, r.Accept)
			s.deals = append(s.deals, &simDeal{r, 1, now.Add(time.Minute)})
		}
	case 2:
		s.v.Say(protocol.BoardRoom, "visitor", fmt.Sprintf("hello \u00e9 <b>%d</b>", s.rnd.IntN(1000)))
	default:
		s.v.SaySigned(protocol.BoardRoom, s.keys.Signer(s.rnd.IntN(50)), fmt.Sprintf("chat %d %0*d", s.rnd.Uint64(), s.rnd.IntN(400)+1, 7))
	}
}

func (s *sim) advance(d *simDeal) {
	wait := func() time.Time { return time.Now().Add(time.Duration(s.rnd.IntN(240_000)) * time.Millisecond) }
	room := d.RoomName()
	switch d.step {
	case 1:
		if s.rnd.IntN(5) == 0 {
			d.step = -1 // it comes to nothing
			return
		}
		s.v.Post(room, d.Payer, d.Deal.Lock(), s.late()...)
	case 2:
		if s.rnd.IntN(4) == 0 {
			s.v.SaySigned(room, s.keys.Signer(60), "a stranger")
		}
		s.v.Post(room, d.Payee, d.Reveal())
	case 3:
		s.v.Post(room, d.Payer, d.Receipt(d.Payer, protocol.Claimed))
		d.step = -1
		return
	}
	d.step++
	d.at = wait()
}

// allowed are the ends of rows that an honest venue makes.
func lossy(e double.End) bool { return e == double.Overwritten || e == double.Reaped }

// compare holds what the store has against what the venue ever held.
func (s *sim) compare(st *store.Store) (lost int) {
	t := s.t
	t.Helper()
	r, err := st.Reader()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, name := range s.v.Rooms() {
		rows, err := r.Room("sim", name)
		if err != nil {
			t.Fatal(err)
		}
		have := map[string]int{}
		if rows != nil {
			for rec, err := range rows.All() {
				if err != nil {
					t.Fatal(err)
				}
				have[string(rec.Raw)]++
			}
		}
		cover, err := r.Coverages("sim", name, 0)
		if err != nil {
			t.Fatal(err)
		}
		known := protocol.BoardRoom == name || name == "lobby"
		if protocol.IsDealRoom(name) {
			items, err := r.Contracts(store.Filter{Venue: "sim", Prefix: name[len(name)-16:]})
			if err != nil {
				t.Fatal(err)
			}
			known = len(items) > 0
		}
		held := map[string]bool{}
		for _, l := range s.v.Held(name) {
			held[string(l.Raw)] = true
			if !l.Parses() || !known {
				continue
			}
			switch n := have[string(l.Raw)]; {
			case n > 1:
				t.Errorf("%s seq %d is there %d times", name, l.Seq, n)
			case n == 1:
			case !lossy(l.End) && s.v.Profile() != double.V07: // there, what a read skips cannot be had
				t.Errorf("%s seq %d of generation %d, which the venue has, is not in the store", name, l.Seq, l.Generation)
			case !slices.ContainsFunc(cover, func(c store.CoverageEntry) bool {
				// Only from 0.14.4 on does a venue say how far a room had come.
				return c.Code.Lost() && c.From <= l.Seq && l.Seq <= c.To || c.Code == store.RoomReaped && c.Generation == l.Generation && s.v.Profile() != double.V0145 ||
					c.Code == store.SeqRestarted && s.v.Profile() == double.V07
			}):
				t.Errorf("%s seq %d of generation %d (%s %s after it came) is not in the store, and no loss says so: %+v", name, l.Seq, l.Generation, l.End, l.Gone.Sub(l.Time), cover)
			default:
				lost++
			}
		}
		for raw := range have {
			if !held[raw] {
				t.Errorf("%s: the store has a row that the venue never held: %q", name, raw)
			}
		}
		if t.Failed() {
			items, _ := r.Contracts(store.Filter{Venue: "sim", Prefix: name[max(0, len(name)-16):]})
			t.Logf("%+v; read %+v", items, s.v.Reads(name))
			t.Logf("%s: %+v", name, cover)
			return lost
		}
	}
	status, err := r.Status()
	if err != nil {
		t.Fatal(err)
	}
	if status.Again > 0 {
		t.Errorf("%d rows are in the store twice", status.Again)
	}
	return lost
}

// sound holds the store against its own log.
func (s *sim) sound(st *store.Store) {
	s.t.Helper()
	if err := st.Rebuild(context.Background(), true, nil); err != nil {
		s.t.Errorf("rebuild: %v", err)
	}
}

func seeds(t *testing.T, n int) []uint64 {
	if testing.Short() {
		n = 4
	}
	if s := os.Getenv("TCLK_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return []uint64{seed}
	}
	var list []uint64
	for i := range n {
		list = append(list, uint64(i+1))
	}
	if n, err := strconv.Atoi(os.Getenv("TCLK_LONG")); err == nil {
		for range n {
			list = append(list, rand.Uint64())
		}
	}
	return list
}

var profiles = []double.Profile{double.V07, double.V011, double.V0145}

// Whatever a venue does, the store ends with all that could be had, and says of
// the rest that it is lost.
func TestSimulation(t *testing.T) {
	for _, seed := range seeds(t, 30) {
		profile := profiles[seed%3]
		t.Run(fmt.Sprintf("%s/%d", profile.Version(), seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { simulate(t, seed, profile) })
		})
	}
}

func simulate(t *testing.T, seed uint64, profile double.Profile) {
	rnd := rand.New(rand.NewPCG(seed, 2))
	o := double.Options{
		Profile: profile, ReadPerMin: 600, RingBytes: 40<<10 + rnd.IntN(400<<10), Idle: 20 * time.Minute, Stillborn: 15 * time.Minute,
		ReapEvery: time.Minute, BumpDelay: time.Duration(rnd.IntN(2)) * 2 * time.Second, EdgeCache: rnd.IntN(2) == 0, Workers: 1 + rnd.IntN(2),
	}
	s := newSim(t, seed, o)
	defer s.wire.Close()
	st := s.open()
	opts := s.options()
	opts.Venues[0].ColdEvery = time.Minute
	if profile == double.V07 {
		opts.Venues[0].Rooms = []string{"lobby"}
	}
	s.trade(time.Duration(rnd.IntN(120))*time.Second, 2)
	_, stop := s.watch(st, opts)
	share := map[double.Fault]float64{}
	for f := double.RateLimited; f <= double.Hang; f++ {
		if f != double.Bomb {
			share[f] = rnd.Float64() * 0.03
		}
	}
	s.v.SetFaults(double.Faults{Share: share, LateShare: 0.05, LateMax: 10 * time.Minute, TornShare: 0.002})
	for range 5 {
		s.trade(time.Duration(rnd.IntN(90))*time.Second, 0.5+rnd.Float64()*5)
		switch rnd.IntN(5) {
		case 0:
			s.v.Compact(protocol.BoardRoom)
		case 1:
			s.v.SetFaults(double.Faults{Share: map[double.Fault]float64{double.Unavailable: 1}})
			s.trade(time.Minute, 4)
			s.v.SetFaults(double.Faults{Share: share, LateShare: 0.05, LateMax: 10 * time.Minute})
		case 2:
			stop()
			if err := st.Close(); err != nil {
				t.Fatal(err)
			}
			s.trade(time.Duration(rnd.IntN(120))*time.Second, 2)
			st = s.open()
			_, stop = s.watch(st, opts)
		case 3:
			if rooms := s.v.Rooms(); len(rooms) > 0 {
				s.v.Reap(rooms[rnd.IntN(len(rooms))])
			}
		case 4:
			if n := len(s.deals); n > 0 {
				s.v.Reap(s.deals[rnd.IntN(n)].RoomName())
			}
		}
		if profile == double.V07 {
			s.v.Say("lobby", "visitor", "hello "+hex.EncodeToString([]byte(fmt.Sprint(rnd.Uint64()))))
		}
	}
	s.v.SetFaults(double.Faults{})
	time.Sleep(10 * time.Minute)
	stop()
	lost := s.compare(st)
	s.sound(st)
	t.Logf("%d rooms, %d deals, %d rows lost", len(s.v.Rooms()), len(s.deals), lost)
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
}
