package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/internal/testkit"
	"github.com/tclk-audit/tclk-audit/internal/testkit/double"
	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/store"
)

// events lists the events of a store.
func events(t *testing.T, st *store.Store) (list []store.Event) {
	t.Helper()
	r, err := st.Reader()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for e, err := range r.Events(1) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, e)
	}
	return list
}

// deal makes an offer and an accept on the board.
func (s *sim) deal(refund time.Duration) *testkit.Deal {
	d := testkit.NewDeal(s.source, s.keys.Party(1), s.keys.Party(2), testkit.Terms{
		NowMs: time.Now().UnixMilli(), ClaimBy: refund.Milliseconds() - 1000, Refund: refund.Milliseconds(),
	})
	s.v.Post(protocol.BoardRoom, d.Offerer.Signer, d.Offer)
	s.v.Post(protocol.BoardRoom, d.Acceptor.Signer, d.Accept)
	return d
}

// A lock without a reveal is told of before its refund deadline, whatever the
// grace, and also where no row comes that would move the venue's clock.
func TestWarning(t *testing.T) {
	for _, settle := range []time.Duration{-1, time.Minute, 2 * time.Hour} {
		for _, warn := range []time.Duration{30 * time.Second, 10 * time.Minute, 3 * time.Hour} {
			for _, busy := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/%v", settle, warn, busy), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { testWarning(t, settle, warn, busy) })
				})
			}
		}
	}
}

func testWarning(t *testing.T, settle, warn time.Duration, busy bool) {
	const refund = 20 * time.Minute
	s := newSim(t, 1, double.Options{ReadPerMin: 600})
	defer s.wire.Close()
	st := s.open()
	defer st.Close()
	d := s.deal(refund)
	s.v.Post(d.RoomName(), d.Payer, d.Lock())
	claimed := s.deal(refund)
	s.v.Post(claimed.RoomName(), claimed.Payer, claimed.Lock())
	o := s.options()
	o.Settle, o.WarnBefore = settle, warn
	told := map[protocol.ID]time.Time{} // before the window is committed: half a second early
	o.Listener.Store.Deadline = func(e *store.Event) { told[e.Contract] = time.Now() }
	w, stop := s.watch(st, o)
	begun := time.Now()
	var talk sync.WaitGroup
	defer talk.Wait()
	if busy {
		talk.Go(func() {
			for time.Since(begun) < 3*refund/2 {
				time.Sleep(7 * time.Second)
				s.v.SaySigned(protocol.BoardRoom, s.keys.Signer(9), "chat at "+time.Now().String())
			}
		})
	}
	time.Sleep(10 * time.Second)
	s.v.Post(claimed.RoomName(), claimed.Payee, claimed.Reveal())
	time.Sleep(3*refund/2 - time.Since(begun))
	stop()
	if s.t.Failed() {
		t.Logf("%+v", w.State())
	}
	at, ok := told[d.ID()]
	deadline := time.UnixMilli(d.Offer.RefundAfterMs)
	switch {
	case !ok:
		t.Fatal("nothing was told")
	case !at.Before(deadline):
		t.Errorf("it was told %s after the deadline", at.Sub(deadline))
	case warn < refund && deadline.Sub(at) > warn+time.Second:
		t.Errorf("it was told %s before the deadline, and %s was asked for", deadline.Sub(at), warn)
	case warn < refund && deadline.Sub(at) < warn-25*time.Second:
		t.Errorf("it was told only %s before the deadline, and %s was asked for", deadline.Sub(at), warn)
	}
	n := map[protocol.ID]int{}
	refundable := false
	for _, e := range events(t, st) {
		switch e.Kind {
		case store.EventDeadline:
			n[e.Contract]++
		case store.EventOutlook:
			refundable = refundable || e.Contract == d.ID() && e.Is.Outlook.String() == fold.Refundable
		}
	}
	if n[d.ID()] != 1 {
		t.Errorf("it was told %d times", n[d.ID()])
	}
	if warn < refund && n[claimed.ID()] != 0 {
		t.Error("a contract that was claimed in time was told of")
	}
	// Conclusions follow the rows' times: without rows there is none, and with a
	// grace it comes by so much later.
	if want := busy && settle < refund; refundable != want {
		t.Errorf("its outlook became refundable: %v", refundable)
	}
	s.sound(st)
}

// What is wrong with the options is said.
func TestOptions(t *testing.T) {
	good := Venue{Alias: "a", Origin: "https://a.example"}
	for _, c := range []struct {
		name string
		o    Options
		want string
	}{
		{"no venue", Options{}, "no venue"},
		{"good", Options{Venues: []Venue{good}}, ""},
		{"no alias", Options{Venues: []Venue{{Origin: "https://a.example"}}}, "no alias"},
		{"twice", Options{Venues: []Venue{good, good}}, "two venues"},
		{"room", Options{Venues: []Venue{{Alias: "a", Origin: "https://a.example", Rooms: []string{"A b"}}}}, "no name of a room"},
		{"origin", Options{Venues: []Venue{{Alias: "a", Origin: "ftp://a.example"}}}, "neither http nor https"},
		{"warning", Options{Venues: []Venue{good}, WarnBefore: time.Second}, "at least 30s"},
		{"interval", Options{Venues: []Venue{{Alias: "a", Origin: "https://a.example", BoardEvery: 1}}}, "board-every"},
		{"live", Options{Venues: []Venue{{Alias: "a", Origin: "https://a.example", Live: -1}}}, "live rooms"},
	} {
		err := c.o.Check()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// covered lists the codes of what happened to a room.
func covered(t *testing.T, st *store.Store, room string) (codes []string) {
	t.Helper()
	r, err := st.Reader()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	list, err := r.Coverages("sim", room, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list {
		codes = append(codes, fmt.Sprintf("%s %d-%d", c.Code, c.From, c.To))
	}
	return codes
}

// Each thing that can happen to a room is told for what it is.
func TestCoverage(t *testing.T) {
	for _, c := range []struct {
		name   string
		before func(s *sim, room string) // it was watched
		during func(s *sim, room string)
		want   []string
	}{
		{"all is well", func(s *sim, room string) { s.say(room, 3) }, func(s *sim, room string) { s.say(room, 3) }, nil},
		{"it begins late", func(s *sim, room string) { s.say(room, 20); s.v.Compact(room) }, func(s *sim, room string) {}, []string{"before-retention 1-11"}},
		{"the ring overtakes", func(s *sim, room string) { s.say(room, 3) }, func(s *sim, room string) {
			s.away(func() { s.say(room, 40); s.v.Compact(room) })
		}, []string{"overwritten 4-22"}},
		{"a new life", func(s *sim, room string) { s.say(room, 3) }, func(s *sim, room string) { s.v.Reap(room); time.Sleep(10 * time.Minute); s.say(room, 2) },
			[]string{"room-reaped 0-0", "life-began 0-0"}},
		{"a life that nobody saw", func(s *sim, room string) { s.say(room, 3) }, func(s *sim, room string) {
			s.away(func() { s.say(room, 4); s.v.Reap(room); s.say(room, 2) })
		}, []string{"life-began 0-0", "reaped-unread 4-7"}},
		{"rows that went with the room", func(s *sim, room string) { s.say(room, 3) }, func(s *sim, room string) {
			s.away(func() { s.say(room, 4); s.v.Reap(room) })
		}, []string{"room-reaped 0-0", "reaped-unread 4-7"}},
		{"a wiped volume", func(s *sim, room string) { s.say(room, 9) }, func(s *sim, room string) {
			s.away(func() { s.v.ResetSeq(room); s.say(room, 4) })
		}, []string{"seq-restarted 0-0"}},
		{"a rewritten row", func(s *sim, room string) { s.say(room, 3) }, func(s *sim, room string) {
			s.v.RewriteRow(room, 3, []byte(`{"seq":3,"ts":"2000-01-01T00:00:01.000000Z","from":"forger","text":"never said"}`))
		}, []string{"row-rewritten 3-3"}},
		{"a torn fragment", func(s *sim, room string) { s.say(room, 3) }, func(s *sim, room string) {
			s.v.InsertTorn(room, `{"seq":4,"ts":"torn`)
			s.say(room, 2)
		}, nil},
		{"a row that is not there", func(s *sim, room string) { s.say(room, 3) }, func(s *sim, room string) {
			s.away(func() { s.say(room, 5); s.v.DropRow(room, 6) })
		}, []string{"unreadable 6-6"}},
		{"more rows than one read gives", func(s *sim, room string) { s.say(room, 3) }, func(s *sim, room string) { s.away(func() { s.say(room, 500) }) }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const room = "lobby"
				s := newSim(t, 1, double.Options{ReadPerMin: 600})
				defer s.wire.Close()
				st := s.open()
				defer st.Close()
				c.before(s, room)
				o := s.options()
				o.Venues[0].Rooms = []string{room}
				_, stop := s.watch(st, o)
				time.Sleep(5 * time.Minute)
				c.during(s, room)
				time.Sleep(20 * time.Minute)
				stop()
				if got := covered(t, st, room); !slices.Equal(got, c.want) {
					t.Errorf("it was told %q, and not %q", got, c.want)
				}
				s.sound(st)
			})
		})
	}
}

func (s *sim) say(room string, n int) {
	for range n {
		s.v.SaySigned(room, s.keys.Signer(s.rnd.IntN(9)), fmt.Sprintf("row %d", s.rnd.Uint64()))
		time.Sleep(time.Millisecond)
	}
}

// away is a while in which the venue answers nothing.
func (s *sim) away(f func()) {
	s.v.SetFaults(double.Faults{Share: map[double.Fault]float64{double.Unavailable: 1}})
	time.Sleep(time.Minute)
	f()
	time.Sleep(time.Minute)
	s.v.SetFaults(double.Faults{})
}

// The venue's budget is never exceeded, the board is read in time, a room is
// read soon after its accept, and those that a deadline is near for often.
func TestSchedule(t *testing.T) {
	if testing.Short() {
		t.Skip("half an hour of 450 rooms: too long under the race detector")
	}
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, 3, double.Options{ReadPerMin: 600, MaxRooms: 20000})
		defer s.wire.Close()
		st := s.open()
		defer st.Close()
		var hot, cold []*testkit.Deal
		for i := range 450 {
			refund := 6 * time.Hour
			if i < 50 {
				refund = 35 * time.Minute
			}
			d := s.deal(refund)
			s.v.Post(d.RoomName(), d.Payer, d.Lock())
			if i < 50 {
				hot = append(hot, d)
			} else {
				cold = append(cold, d)
			}
		}
		_, stop := s.watch(st, s.options())
		time.Sleep(21 * time.Minute) // the deadlines are near, and what was new is not any more
		fresh := map[string]time.Time{}
		before := map[string]double.RoomReads{}
		for _, d := range slices.Concat(hot, cold) {
			before[d.RoomName()] = s.v.Reads(d.RoomName())
		}
		for range 600 {
			time.Sleep(time.Second)
			if s.rnd.IntN(4) == 0 {
				fresh[s.deal(6*time.Hour).RoomName()] = time.Now()
			}
			s.say(protocol.BoardRoom, 10)
		}
		time.Sleep(10 * time.Second)
		stop()
		for _, d := range hot {
			if n := s.v.Reads(d.RoomName()).Reads - before[d.RoomName()].Reads; n < 25 {
				t.Errorf("a room with a deadline was read %d times in ten minutes", n)
			}
		}
		for _, d := range cold {
			if n := s.v.Reads(d.RoomName()).Reads - before[d.RoomName()].Reads; n < 3 {
				t.Errorf("a quiet room was read %d times in ten minutes", n)
			}
		}
		late := 0
		for room, at := range fresh {
			if r := s.v.Reads(room); r.Reads == 0 || r.First.Sub(at) > 10*time.Second {
				late++
			}
		}
		if late > 2 { // those of the last seconds
			t.Errorf("of %d new rooms %d were not read within ten seconds", len(fresh), late)
		}
		if r := s.v.Reads(protocol.BoardRoom); r.Longest > 10*time.Second {
			t.Errorf("the board was not read for %s", r.Longest)
		}
		stats := s.v.Stats()
		if stats.Limited > 0 {
			t.Errorf("the budget was exceeded %d times", stats.Limited)
		}
		for _, c := range stats.Clients {
			if max := int64(31 * 480); c.Reads > max+480 {
				t.Errorf("%d reads in 31 minutes", c.Reads)
			}
		}
		s.compare(st)
	})
}

// Of more rooms than can be read in turn, those that are needed most are.
func TestLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, 3, double.Options{ReadPerMin: 600})
		defer s.wire.Close()
		st := s.open()
		defer st.Close()
		var late, soon []*testkit.Deal
		for range 30 {
			d := s.deal(6 * time.Hour)
			s.v.Post(d.RoomName(), d.Payer, d.Lock())
			late = append(late, d)
		}
		for range 10 {
			d := s.deal(20 * time.Minute)
			s.v.Post(d.RoomName(), d.Payer, d.Lock())
			soon = append(soon, d)
		}
		o := s.options()
		o.Venues[0].Live = 10
		w, stop := s.watch(st, o)
		time.Sleep(15 * time.Minute)
		if v := w.State().Venues[0]; v.Live != 10 || v.Waiting != 30 {
			t.Errorf("%d rooms are live and %d wait", v.Live, v.Waiting)
		}
		for _, d := range soon {
			if n := s.v.Reads(d.RoomName()).Reads; n < 10 {
				t.Errorf("a room whose deadline is near was read %d times", n)
			}
		}
		// Let in at last: the rooms of contracts that came to an end are let go.
		for _, d := range soon {
			s.v.Post(d.RoomName(), d.Payee, d.Reveal())
		}
		time.Sleep(2 * time.Hour)
		stop()
		n := 0
		for _, d := range late {
			if s.v.Reads(d.RoomName()).Reads > 0 {
				n++
			}
		}
		if n < 10 {
			t.Errorf("of the rooms that waited %d were read", n)
		}
	})
}

// A pass reads the board and each room one time, and says what it saw.
func TestOnce(t *testing.T) {
	for _, c := range []struct {
		name   string
		spoil  func(s *sim, d *testkit.Deal)
		exit   int
		faults map[double.Fault]float64
	}{
		{"clean", func(*sim, *testkit.Deal) {}, 0, nil},
		{"forged", func(s *sim, d *testkit.Deal) {
			s.v.PostRaw(d.RoomName(), d.Payer.DID, "77", strings.Repeat("A", 86), "forged")
		}, 1, nil},
		{"away", func(*sim, *testkit.Deal) {}, 4, map[double.Fault]float64{double.Unavailable: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSim(t, 5, double.Options{ReadPerMin: 600})
				defer s.wire.Close()
				st := s.open()
				defer st.Close()
				var last *testkit.Deal
				for range 20 {
					last = s.deal(time.Hour)
					s.v.Post(last.RoomName(), last.Payer, last.Lock())
				}
				c.spoil(s, last)
				s.v.SetFaults(double.Faults{Share: c.faults})
				w, err := New(st, s.options())
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
				defer cancel()
				p, err := w.Once(ctx)
				if err != nil || p == nil {
					t.Fatalf("%+v, %v", p, err)
				}
				if p.Exit() != c.exit {
					t.Errorf("exit %d, and not %d: %+v", p.Exit(), c.exit, p)
				}
				if c.faults == nil && p.Contracts != 20 {
					t.Errorf("%d contracts", p.Contracts)
				}
				if c.exit == 0 {
					s.compare(st)
				}
			})
		})
	}
}

// Two watchers on one store are refused, and only the venue is ever asked.
func TestOrigin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, 5, double.Options{ReadPerMin: 600})
		defer s.wire.Close()
		st := s.open()
		defer st.Close()
		s.deal(time.Hour)
		s.v.SetFaults(double.Faults{Share: map[double.Fault]float64{double.Redirect: 0.3}})
		o := s.options()
		var hosts []string
		o.Venues[0].Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodGet || strings.Contains(r.URL.Path, "/say") || strings.Contains(r.URL.Path, "/set/") {
				t.Errorf("%s %s", r.Method, r.URL)
			}
			hosts = append(hosts, r.URL.Host)
			return s.wire.Transport.RoundTrip(r)
		})
		_, stop := s.watch(st, o)
		time.Sleep(time.Minute)
		if _, err := store.Open(s.dir, store.Options{}); !errors.Is(err, store.ErrLocked) {
			t.Errorf("a second one: %v", err)
		}
		stop()
		slices.Sort(hosts)
		if hosts = slices.Compact(hosts); len(hosts) != 1 {
			t.Errorf("it asked %v", hosts)
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// State notes are hints: a room that only they speak for is read.
func TestNotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, 7, double.Options{ReadPerMin: 600})
		defer s.wire.Close()
		st := s.open()
		defer st.Close()
		d := testkit.NewDeal(s.source, s.keys.Party(1), s.keys.Party(2), testkit.Terms{})
		s.v.Post(d.RoomName(), d.Payer, d.Lock())
		hex := strings.TrimPrefix(d.RoomName(), "mb-p-tclk-")
		s.v.SetNote("tclk-"+hex[:2], hex[2:], "locked")
		s.v.SetNote("tclk-"+hex[:2], "no-key-of-a-room", "x")
		s.v.SetNote("tclk-ff", strings.Repeat("g", 14), "x")
		o := s.options()
		_, stop := s.watch(st, o)
		time.Sleep(2 * time.Hour)
		stop()
		if n := s.v.Reads(d.RoomName()).Reads; n > 0 {
			t.Errorf("without --notes it was read %d times", n)
		}
		o.Venues[0].Notes = true
		w, stop := s.watch(st, o)
		time.Sleep(2 * time.Hour)
		stop()
		if n := s.v.Reads(d.RoomName()).Reads; n == 0 {
			t.Error("it was not read")
		}
		if v := w.State().Venues[0]; v.Classes[ClassDeal].Rooms > 1 {
			t.Errorf("%d rooms are followed", v.Classes[ClassDeal].Rooms)
		}
		if n := s.v.Stats().Requests["note"]; n > 0 {
			t.Errorf("%d notes were read: their keys say all", n)
		}
		r, err := st.Reader()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if rows, err := r.Room("sim", d.RoomName()); err != nil || rows == nil {
			t.Errorf("the room is not in the store: %v", err)
		}
	})
}

// Several venues in one store have budgets and rooms of their own.
func TestVenues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newSim(t, 8, double.Options{ReadPerMin: 600})
		defer a.wire.Close()
		b := newSim(t, 9, double.Options{ReadPerMin: 60, Profile: double.V011})
		defer b.wire.Close()
		st := a.open()
		defer st.Close()
		o := a.options()
		o.Venues = append(o.Venues, Venue{Alias: "second", Origin: "http://second.test", Transport: b.wire.Transport})
		w, stop := a.watch(st, o)
		for range 30 {
			a.trade(5*time.Second, 1)
			b.trade(5*time.Second, 1)
		}
		b.v.SetFaults(double.Faults{Share: map[double.Fault]float64{double.Unavailable: 1}})
		a.trade(5*time.Minute, 2)
		st2 := w.State()
		if lag, ok := st2.Lag(); !ok || lag < 4*time.Minute {
			t.Errorf("a venue that is away lags by %s", lag)
		}
		if d := st2.At.Sub(st2.Venues[0].Caught); d > 15*time.Second {
			t.Errorf("the other one lags by %s", d)
		}
		b.v.SetFaults(double.Faults{})
		time.Sleep(15 * time.Minute)
		stop()
		a.compare(st)
		for _, s := range []*sim{a, b} {
			if n := s.v.Stats().Limited; n > 0 {
				t.Errorf("a budget was exceeded %d times", n)
			}
		}
		r, err := st.Reader()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		items, err := r.Contracts(store.Filter{Venue: "second"})
		if err != nil || len(items) < len(b.deals)/2 {
			t.Errorf("%d contracts of the second venue, of %d: %v", len(items), len(b.deals), err)
		}
		a.sound(st)
	})
}

// Rooms and limits change while it runs, and what cannot change is refused.
func TestReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, 10, double.Options{ReadPerMin: 600})
		defer s.wire.Close()
		st := s.open()
		defer st.Close()
		s.say("lobby", 2)
		o := s.options()
		w, stop := s.watch(st, o)
		defer stop()
		time.Sleep(time.Minute)
		if n := s.v.Reads("lobby").Reads; n > 0 {
			t.Errorf("a room that nobody named was read %d times", n)
		}
		next := s.options()
		next.Venues[0].Rooms = []string{"lobby"}
		next.Venues[0].ReadsPerMinute = 300
		if err := w.Reload(t.Context(), next); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		if n := s.v.Reads("lobby").Reads; n == 0 {
			t.Error("the room that was named is not read")
		}
		if b := w.State().Venues[0].Budget; b.Full != 240 {
			t.Errorf("the budget is %v", b.Full)
		}
		for name, change := range map[string]func(o *Options){
			"another venue": func(o *Options) { o.Venues[0].Origin = "http://other.test" },
			"no venue":      func(o *Options) { o.Venues = nil },
			"two":           func(o *Options) { o.Venues = append(o.Venues, Venue{Alias: "b", Origin: "http://b.test"}) },
			"the grace":     func(o *Options) { o.Settle = time.Hour },
			"a bad room":    func(o *Options) { o.Venues[0].Rooms = []string{"NO"} },
		} {
			bad := s.options()
			change(&bad)
			if err := w.Reload(t.Context(), bad); err == nil {
				t.Errorf("%s: taken", name)
			}
		}
		if err := w.Reload(t.Context(), s.options()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		before := s.v.Reads("lobby").Reads
		time.Sleep(2 * time.Hour)
		if n := s.v.Reads("lobby").Reads; n > before {
			t.Errorf("a room that is not named any more was read %d times", n-before)
		}
	})
}

// A Date header that cannot be true warns of nothing and lets no room go.
func TestSkew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, 11, double.Options{ReadPerMin: 600})
		defer s.wire.Close()
		st := s.open()
		defer st.Close()
		d := s.deal(6 * time.Hour)
		s.v.Post(d.RoomName(), d.Payer, d.Lock())
		o := s.options()
		o.Venues[0].Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			res, err := s.wire.Transport.RoundTrip(r)
			if err == nil {
				res.Header.Set("Date", "Fri, 01 Jan 2100 00:00:00 GMT")
			}
			return res, err
		})
		said := 0
		o.Listener.Notice = func(_, _ string, serious bool, text string) {
			if serious && strings.Contains(text, "Date") {
				said++
			}
		}
		_, stop := s.watch(st, o)
		time.Sleep(3 * time.Hour)
		before := s.v.Reads(d.RoomName()).Reads
		time.Sleep(time.Hour)
		stop()
		if n := s.v.Reads(d.RoomName()).Reads - before; n < 20 {
			t.Errorf("the room was read %d times in an hour", n)
		}
		for _, e := range events(t, st) {
			if e.Kind == store.EventDeadline {
				t.Error("it was warned")
			}
		}
		if said != 1 {
			t.Errorf("it was said %d times", said)
		}
	})
}

// With a jump of the clock rooms are let go while a window is folded: the store
// is what its log gives all the same.
func TestLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, 12, double.Options{ReadPerMin: 600})
		defer s.wire.Close()
		st := s.open()
		defer st.Close()
		for range 5 {
			d := s.deal(time.Hour)
			s.v.Post(d.RoomName(), d.Payer, d.Lock())
		}
		w, stop := s.watch(st, s.options())
		time.Sleep(2 * time.Hour)
		s.v.SaySigned(protocol.BoardRoom, s.keys.Signer(9), "early", double.Late(-30*time.Hour))
		time.Sleep(time.Minute)
		stop()
		if n := w.State().Venues[0].Classes[ClassDeal].Rooms; n > 0 {
			t.Errorf("%d rooms are followed still", n)
		}
		s.sound(st)
	})
}

// What stands in front of a venue refuses things for a while: nothing is given up
// for that, and nothing is called lost that can be had.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name   string
		code   int
		refuse func(path string) bool
	}{
		{"one export", 404, func(path string) bool { return path == "/r/lobby/export" }},
		{"all exports", 503, func(path string) bool { return strings.HasSuffix(path, "/export") }},
		{"all deal rooms", 404, func(path string) bool { return strings.HasPrefix(path, "/r/mb-p-") }},
		{"all rooms", 403, func(path string) bool { return strings.HasPrefix(path, "/r/") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSim(t, 13, double.Options{ReadPerMin: 600})
				defer s.wire.Close()
				st := s.open()
				defer st.Close()
				s.say("lobby", 3)
				o := s.options()
				o.Venues[0].Rooms = []string{"lobby"}
				until := time.Now().Add(8 * time.Minute)
				o.Venues[0].Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
					if time.Now().Before(until) && time.Until(until) < 7*time.Minute && c.refuse(r.URL.Path) {
						return &http.Response{
							StatusCode: c.code, Header: http.Header{"Content-Type": {"text/plain"}}, Body: io.NopCloser(strings.NewReader("no")), Request: r,
						}, nil
					}
					return s.wire.Transport.RoundTrip(r)
				})
				_, stop := s.watch(st, o)
				time.Sleep(90 * time.Second)
				s.say("lobby", 300)
				s.say(protocol.BoardRoom, 300)
				d := s.deal(6 * time.Hour)
				s.v.Post(d.RoomName(), d.Payer, d.Lock())
				time.Sleep(10 * time.Minute)
				s.v.Post(d.RoomName(), d.Payee, d.Reveal())
				time.Sleep(40 * time.Minute)
				stop()
				for _, room := range []string{"lobby", protocol.BoardRoom, d.RoomName()} {
					if got := covered(t, st, room); len(got) > 0 {
						t.Errorf("%s: it was told %q", room, got)
					}
				}
				s.compare(st)
				s.sound(st)
			})
		})
	}
}

// A room that was never read is read after a restart, also where its contract's
// time is over.
func TestNeverRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, 14, double.Options{ReadPerMin: 600})
		defer s.wire.Close()
		st := s.open()
		defer st.Close()
		var deals []*testkit.Deal
		for range 10 {
			d := s.deal(20 * time.Minute)
			s.v.Post(d.RoomName(), d.Payer, d.Lock())
			s.v.Post(d.RoomName(), d.Payee, d.Reveal())
			deals = append(deals, d)
		}
		s.v.SetFaults(double.Faults{Hook: func(r *http.Request) double.Fault {
			if strings.HasPrefix(r.URL.Path, "/r/mb-p-") {
				return double.Unavailable
			}
			return double.NoFault
		}})
		_, stop := s.watch(st, s.options())
		time.Sleep(time.Minute)
		stop()
		time.Sleep(3 * time.Hour)
		s.say(protocol.BoardRoom, 3)
		_, stop = s.watch(st, s.options())
		time.Sleep(time.Minute)
		stop()
		s.v.SetFaults(double.Faults{})
		_, stop = s.watch(st, s.options())
		time.Sleep(10 * time.Minute)
		stop()
		r, err := st.Reader()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		items, err := r.Contracts(store.Filter{Status: []protocol.Status{protocol.Claimed}})
		if err != nil || len(items) != len(deals) {
			t.Errorf("%d of %d are claimed: %v", len(items), len(deals), err)
		}
	})
}
