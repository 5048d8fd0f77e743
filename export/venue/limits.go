package venue

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// maxReads is the greatest read budget that is believed, requests a minute.
const maxReads = 1_000_000

// Limits are what a venue says of itself, with the venue software's defaults
// for what it does not say.
type Limits struct {
	Version string // as published, "" where unknown
	Found   bool   // at least one of the two documents was read
	Source  string // what was found, in words of this package
	Firm    bool   // both documents were read, and neither was a copy that an edge had stored

	ReadsPerMinute int           // the read budget of one address, of which a client takes its share; or what Options.ReadsPerMinute put in its place
	Published      int           // the read budget as published, 0 if it was not
	MaxWait        time.Duration // longest wait of a long poll
	WaitersPerIP   int           // long polls at once, for each of the venue's processes

	Stillborn     time.Duration // a room with at most one row and no write for so long may be deleted
	Retention     time.Duration // any other room
	RoomRingBytes int64         // when a room's file is longer, the older half is dropped

	// What a venue of this version has; all true where the version is unknown.
	Exports     bool // /r/<room>/export, from 0.11
	Signatures  bool // rows carry their signature, from 0.11
	Generations bool // pages and exports carry a generation, and seq goes on after a room was deleted, from 0.11
}

func defaultLimits() Limits {
	return Limits{
		ReadsPerMinute: 120,
		MaxWait:        10 * time.Second,
		WaitersPerIP:   4,
		Stillborn:      24 * time.Hour,
		Retention:      7 * 24 * time.Hour,
		RoomRingBytes:  10 << 20,
		Exports:        true,
		Signatures:     true,
		Generations:    true,
	}
}

// Limits returns what the last Discover found, or the defaults.
func (c *Client) Limits() Limits {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.limits
}

// perMinute is this client's share of the read budget.
func (c *Client) perMinute(l Limits) float64 { return c.opts.Share * float64(l.ReadsPerMinute) }

func (c *Client) override(l *Limits) {
	if c.opts.ReadsPerMinute > 0 {
		l.ReadsPerMinute = c.opts.ReadsPerMinute
	}
}

// Discover asks the venue for its limits and sets the budget accordingly. It
// may be called again, when a venue was restarted, say.
//
// /config says more and comes first; /.well-known/agent.json fills what it
// leaves open. Of two read budgets the smaller counts, because either document
// can be a copy that an edge kept. What neither says is the venue software's
// default; a client that found limits before keeps them when it finds none.
//
// The limits returned are always fit for use. The error says that ctx ended, or
// that no request got any answer.
func (c *Client) Discover(ctx context.Context) (Limits, error) {
	var found said
	var source []string
	var errs []error
	stored := false
	for _, d := range [...]struct {
		path  string
		parse func([]byte) (said, error)
	}{
		{"/config", parseConfig},
		{"/.well-known/agent.json", parseAgent},
	} {
		body, r, _, err := c.get(ctx, ask{path: d.path, free: true, kind: kindJSON, within: pageTime, max: maxDocument})
		if err == nil {
			doc, bad := d.parse(body)
			if err = bad; err == nil {
				found.fill(doc)
				if r.Fallback {
					stored = true
					source = append(source, d.path+" (a stored copy)")
				} else {
					source = append(source, d.path)
				}
				continue
			}
			err = &BodyError{d.path, BodyShape, bad.Error()}
		}
		if ctx.Err() != nil {
			return c.Limits(), err
		}
		source = append(source, "no "+d.path+" ("+why(err)+")")
		errs = append(errs, err)
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.limits
	if found.any || !l.Found {
		l = found.limits()
		c.override(&l)
	}
	l.Source = strings.Join(source, ", ")
	l.Firm = len(errs) == 0 && !stored
	switch {
	case !found.any && l.Found:
		l.Source += ": kept what was found before"
	case !found.any:
		l.Source += ": defaults"
	}
	c.limits = l
	c.budget.setFull(c.perMinute(l))
	if len(errs) == 2 {
		var first, second *NetworkError
		if errors.As(errs[0], &first) && errors.As(errs[1], &second) {
			return l, errs[0]
		}
	}
	return l, nil
}

// why is a short reason for Limits.Source.
func why(err error) string {
	var (
		status   *StatusError
		body     *BodyError
		redirect *RedirectError
	)
	switch {
	case errors.As(err, &status):
		return "status " + strconv.Itoa(status.Code)
	case errors.As(err, &redirect):
		return "status " + strconv.Itoa(redirect.Code)
	case errors.As(err, &body):
		return body.Detail
	case errors.As(err, new(*LimitedError)):
		return "status 429"
	case errors.As(err, new(*CutError)):
		return "the answer was cut short"
	}
	return "no answer"
}

// said is what a document says; nil and "" where it says nothing of use.
type said struct {
	any       bool
	version   string
	reads     *float64
	wait      *float64 // seconds
	waiters   *float64
	stillborn *float64 // seconds
	retention *float64 // seconds
	ring      *float64 // bytes
}

// fill takes from other what s does not have.
func (s *said) fill(other said) {
	s.any = s.any || other.any
	if s.version == "" {
		s.version = other.version
	}
	if s.reads != nil && other.reads != nil && *other.reads < *s.reads {
		s.reads = other.reads
	}
	for _, f := range [...]struct{ mine, theirs **float64 }{
		{&s.reads, &other.reads}, {&s.wait, &other.wait}, {&s.waiters, &other.waiters},
		{&s.stillborn, &other.stillborn}, {&s.retention, &other.retention}, {&s.ring, &other.ring},
	} {
		if *f.mine == nil {
			*f.mine = *f.theirs
		}
	}
}

func (s *said) limits() Limits {
	l := defaultLimits()
	l.Found, l.Version = s.any, s.version
	if s.reads != nil {
		l.Published = int(*s.reads)
		l.ReadsPerMinute = l.Published
	}
	for _, d := range [...]struct {
		from *float64
		to   *time.Duration
	}{{s.wait, &l.MaxWait}, {s.stillborn, &l.Stillborn}, {s.retention, &l.Retention}} {
		if d.from != nil {
			*d.to = time.Duration(*d.from * float64(time.Second))
		}
	}
	if s.waiters != nil {
		l.WaitersPerIP = int(*s.waiters)
	}
	if s.ring != nil {
		l.RoomRingBytes = int64(*s.ring)
	}
	if major, minor, ok := parseVersion(s.version); ok && major == 0 && minor < 11 {
		l.Exports, l.Signatures, l.Generations = false, false, false
	}
	return l
}

// parseVersion reads the first two numbers of a version.
func parseVersion(v string) (major, minor int, ok bool) {
	parts := strings.SplitN(v, ".", 3)
	if len(parts) < 2 {
		return 0, 0, false
	}
	minorText := strings.TrimRight(parts[1], "+-abcdefghijklmnopqrstuvwxyz_")
	a, errA := strconv.ParseUint(parts[0], 10, 16)
	b, errB := strconv.ParseUint(minorText, 10, 16)
	return int(a), int(b), errA == nil && errB == nil
}

// plainVersion refuses what could not be shown in a log.
func plainVersion(v string) string {
	if len(v) > 64 {
		return ""
	}
	for i := range len(v) {
		c := v[i]
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.IndexByte(".+-_", c) >= 0) {
			return ""
		}
	}
	return v
}

// A knob is a number in a document: its name there, where it goes, and what it
// must be at least and at most. A number outside is not believed.
type knob struct {
	to          **float64
	least, most float64
}

// parseConfig reads /config.
func parseConfig(text []byte) (said, error) {
	var s said
	err := s.parse(text, "settings", map[string]knob{
		"rate_read":          {&s.reads, 1, maxReads},
		"max_wait":           {&s.wait, 0, 600},
		"max_waiters_per_ip": {&s.waiters, 0, 10_000},
		"stillborn_seconds":  {&s.stillborn, 60, maxAge},
	})
	return s, err
}

// parseAgent reads /.well-known/agent.json.
func parseAgent(text []byte) (said, error) {
	var s said
	err := s.parse(text, "limits", map[string]knob{
		"reads_per_minute_per_ip": {&s.reads, 1, maxReads},
		"long_poll_seconds":       {&s.wait, 0, 600},
		"retention_seconds":       {&s.retention, 60, maxAge},
		"room_ring_bytes":         {&s.ring, 1, 1 << 40},
	})
	return s, err
}

// maxAge is ten years in seconds.
const maxAge = 315_360_000

// parse reads the version and the numbers of one member. A number of the wrong
// kind or size counts as missing.
func (s *said) parse(text []byte, member string, knobs map[string]knob) error {
	if !utf8.Valid(text) {
		return errors.New("the document is not UTF-8")
	}
	shape := true
	ok := walk(text, func(name string, value []byte) bool {
		switch name {
		case "version":
			if v, ok := unquote(value); ok {
				s.version = plainVersion(v)
			}
		case member:
			s.any = true
			shape = walk(value, func(name string, value []byte) bool {
				k, known := knobs[name]
				if !known {
					return true
				}
				v, err := strconv.ParseFloat(string(value), 64)
				if err == nil && !math.IsNaN(v) && v >= k.least && v <= k.most {
					*k.to = &v
				}
				return true
			})
		}
		return true
	})
	switch {
	case !ok:
		return errors.New("the document is not JSON")
	case !s.any || !shape:
		return fmt.Errorf("the document has no object %s", member)
	}
	return nil
}
