package watch

import (
	"time"

	"github.com/tclk-audit/tclk-audit/export/venue"
	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/internal/audit"
	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/store"
	"github.com/tclk-audit/tclk-audit/verify"
)

// State is how the watcher stands, at most about a second ago.
type State struct {
	At     time.Time
	Rows   int64 // stored since it was started
	Venues []VenueState
}

// VenueState is how a venue stands.
type VenueState struct {
	Alias   string
	Origin  string
	Limits  venue.Limits
	Budget  venue.Budget
	ClockMs int64 // the venue's clock as far as it is known, Unix ms
	// Caught is when the board was last read to its end, zero where it was not
	// yet, and Lag how many of its rows were seen to be there and are not read.
	Caught  time.Time
	Lag     int64
	Live    int // rooms that are read in turn
	Waiting int // rooms that wait to be
	Needs   map[string]int
	Classes map[Class]ClassState
	Failing int // requests that failed in a row
}

// ClassState is how the rooms of a class stand.
type ClassState struct {
	Rooms    int
	Unread   int           // never read
	Oldest   time.Duration // since the last success, of the room that was read longest ago
	Overdue  time.Duration // of the room that is due longest
	Disabled int           // refused for good
}

// State says how the watcher stands.
func (w *Watcher) State() State {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state
}

// Lag is how long ago the board was read to its end last, of the venue where it
// is longest; ok is false where one was not yet.
func (s *State) Lag() (lag time.Duration, ok bool) {
	ok = len(s.Venues) > 0
	for i := range s.Venues {
		if s.Venues[i].Caught.IsZero() {
			ok = false
			continue
		}
		lag = max(lag, s.At.Sub(s.Venues[i].Caught))
	}
	return lag, ok
}

func (w *Watcher) snapshot(now time.Time, must bool) {
	if !must && now.Sub(w.stated) < stateTime {
		return
	}
	w.stated = now
	st := State{At: now, Rows: w.rows}
	for _, s := range w.sites {
		st.Venues = append(st.Venues, s.state(now))
	}
	w.mu.Lock()
	w.state = st
	w.mu.Unlock()
}

func (s *site) state(now time.Time) VenueState {
	v := VenueState{
		Alias: s.o.Alias, Origin: s.client.Origin(), Limits: s.limits, Budget: s.client.Budget(), ClockMs: max(s.heard, s.ts), Caught: s.caught, Lag: s.lag,
		Live: s.live, Waiting: len(s.waiting), Needs: map[string]int{}, Classes: map[Class]ClassState{}, Failing: s.failures,
	}
	for _, r := range s.rooms {
		c := v.Classes[r.class]
		c.Rooms++
		if r.source == 0 {
			c.Unread++
		}
		if r.disabled || r.refused {
			c.Disabled++
		} else if r.live || r.class != ClassDeal {
			c.Oldest = max(c.Oldest, now.Sub(r.readAt(now)))
			if r.queue != nil {
				c.Overdue = max(c.Overdue, now.Sub(r.due))
			}
		}
		v.Classes[r.class] = c
		if r.live {
			v.Needs[needWords[r.need]]++
		}
	}
	return v
}

func (p *Pass) row(j *audit.Judged) {
	p.Rows++
	switch {
	case j.Torn:
		p.Torn++
	case j.Malformed != protocol.ReasonNone:
		p.Malformed++
	case j.Row.Verify.Class == verify.Invalid:
		p.Forged++
	}
}

func (p *Pass) contract(i *store.Item) {
	if p.verdicts == nil {
		p.verdicts = map[protocol.ID]bool{}
	}
	p.verdicts[i.Contract] = i.Verdict == fold.Contradicted
}

func (p *Pass) end(unread int) *Pass {
	p.Unread, p.Contracts = unread, len(p.verdicts)
	for _, contradicted := range p.verdicts {
		if contradicted {
			p.Contradicted++
		}
	}
	return p
}
