package watch

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/store"
)

// Options say what is watched, and how. The zero value of each field but Venues
// stands for its default.
type Options struct {
	Venues []Venue
	// Settle is how far conclusions that need no row stay behind the venue's
	// clock, since rows may come late: an outlook that says refundable, say.
	// Negative: not at all. 0: 60 s.
	Settle time.Duration
	// WarnBefore is how long before its refund deadline a lock without a reveal
	// is told of. Negative: never. 0: 10 min.
	WarnBefore time.Duration
	Listener   Listener
}

// Venue is one venue that is watched.
type Venue struct {
	Alias  string // what the store calls it
	Origin string // as https://technocore.chat
	// Rooms are followed besides those of contracts.
	Rooms []string
	// Notes looks through the venue's state notes for deal rooms. Anybody can
	// write them: they are hints.
	Notes bool
	// Live is how many rooms are read in turn, beside the board and Rooms. The
	// others wait. 0: 2,000.
	Live int
	// Linger is how long a room is read after its contract came to an end, for
	// receipts. 0: 1 h.
	Linger time.Duration
	// Share is the part of the venue's read budget that is used. 0: 0.8.
	Share float64
	// ReadsPerMinute stands in place of the budget that the venue publishes; 0:
	// what it publishes.
	ReadsPerMinute int
	// BoardEvery is how often the board is read. 0: 5 s.
	BoardEvery time.Duration
	// HotEvery is how often a room is read that a deadline is near for, and
	// ColdEvery how seldom any is, budget permitting. 0: 20 s and 150 s.
	HotEvery  time.Duration
	ColdEvery time.Duration
	// HotBefore is how long before its refund deadline a lock makes its room a
	// hot one. 0: 15 min.
	HotBefore time.Duration
	Transport http.RoundTripper // nil: one of the client's own
}

const (
	defaultSettle     = time.Minute
	defaultWarnBefore = 10 * time.Minute
	defaultLive       = 2000
	defaultLinger     = time.Hour
	defaultBoardEvery = 5 * time.Second
	defaultHotEvery   = 20 * time.Second
	defaultColdEvery  = 150 * time.Second
	defaultHotBefore  = 15 * time.Minute
)

const (
	minEvery   = 100 * time.Millisecond // any interval of reads
	maxVenues  = 16
	maxNamed   = 1000 // rooms named for one venue
	maxLive    = 100_000
	minWarning = 30 * time.Second // the venue's clock is known to some seconds
)

// Check says what is wrong with the options; nil for nothing.
func (o Options) Check() error {
	o, err := o.withDefaults()
	for i := range o.Venues {
		if err == nil {
			_, err = newSite(nil, o.Venues[i])
		}
	}
	return err
}

// withDefaults checks the options and fills them in.
func (o Options) withDefaults() (Options, error) {
	switch {
	case len(o.Venues) == 0:
		return o, errors.New("watch: there is no venue to watch: name one")
	case len(o.Venues) > maxVenues:
		return o, fmt.Errorf("watch: %d venues: at most %d can be watched", len(o.Venues), maxVenues)
	}
	pick := func(d *time.Duration, byDefault time.Duration) {
		if *d == 0 {
			*d = byDefault
		}
		*d = max(*d, 0)
	}
	pick(&o.Settle, defaultSettle)
	pick(&o.WarnBefore, defaultWarnBefore)
	if o.WarnBefore > 0 && o.WarnBefore < minWarning {
		return o, fmt.Errorf("watch: a warning %s before a deadline: give at least %s, or 0 for none", o.WarnBefore, minWarning)
	}
	o.Venues = slices.Clone(o.Venues)
	for i := range o.Venues {
		v := &o.Venues[i]
		if err := v.fill(); err != nil {
			return o, err
		}
		for _, other := range o.Venues[:i] {
			if other.Alias == v.Alias {
				return o, fmt.Errorf("watch: two venues have the alias %s: give each its own", v.Alias)
			}
			if other.Origin == v.Origin {
				return o, fmt.Errorf("watch: %s and %s are the same venue: its budget is one", other.Alias, v.Alias)
			}
		}
	}
	return o, nil
}

func (v *Venue) fill() error {
	if !store.ValidVenue(v.Alias) {
		return fmt.Errorf("watch: %q is no alias of a venue: it is 1 to 32 of a-z, 0-9 and -", v.Alias)
	}
	if len(v.Rooms) > maxNamed {
		return fmt.Errorf("watch: %d rooms are named for %s: at most %d can be", len(v.Rooms), v.Alias, maxNamed)
	}
	for _, room := range v.Rooms {
		if !protocol.ValidRoom(room) {
			return fmt.Errorf("watch: %q is no name of a room: it is 1 to 48 of a-z, 0-9, - and _, and begins with a letter or digit", room)
		}
	}
	if v.Live < 0 || v.Live > maxLive {
		return fmt.Errorf("watch: %d live rooms for %s: give 1 to %d", v.Live, v.Alias, maxLive)
	}
	if v.Share != 0 && !(v.Share > 0 && v.Share <= 1) || v.ReadsPerMinute < 0 {
		return fmt.Errorf("watch: a share of %v of %d reads a minute for %s: give a share above 0 and at most 1", v.Share, v.ReadsPerMinute, v.Alias)
	}
	if v.Live == 0 {
		v.Live = defaultLive
	}
	for _, d := range [...]struct {
		name      string
		at        *time.Duration
		byDefault time.Duration
	}{
		{"board-every", &v.BoardEvery, defaultBoardEvery}, {"hot-every", &v.HotEvery, defaultHotEvery},
		{"cold-every", &v.ColdEvery, defaultColdEvery}, {"hot-before", &v.HotBefore, defaultHotBefore}, {"linger", &v.Linger, defaultLinger},
	} {
		if *d.at == 0 {
			*d.at = d.byDefault
		}
		if *d.at < minEvery {
			return fmt.Errorf("watch: %s of %s is %s: give at least %s", d.name, v.Alias, *d.at, minEvery)
		}
	}
	return nil
}

// DefaultAlias is the alias of a venue that was given none: the host of its
// origin with all that no alias can hold made a dash.
func DefaultAlias(origin string) string {
	u, err := url.Parse(origin)
	if err != nil {
		return ""
	}
	b := []byte(u.Host)
	for i, c := range b {
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
		case 'A' <= c && c <= 'Z':
			b[i] = c - 'A' + 'a'
		default:
			b[i] = '-'
		}
	}
	return string(b[:min(len(b), 32)])
}
