package double

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// clientKey is an address as one worker knows it.
type clientKey struct {
	ip     string
	worker int
}

// client holds the three budgets of an address.
type client struct {
	read, write, create bucket
}

// bucket is a token bucket, full at first, that fills all the time.
type bucket struct {
	tokens float64
	size   float64
	per    time.Duration // in which it fills
	at     time.Time
}

// take takes a token. Where there is none it takes nothing and says in how long
// there will be one.
func (b *bucket) take(now time.Time) (wait time.Duration, ok bool) {
	b.tokens = min(b.size, b.tokens+float64(now.Sub(b.at))/float64(b.per)*b.size)
	b.at = now
	if b.tokens >= 1 {
		b.tokens--
		return 0, true
	}
	return time.Duration((1 - b.tokens) / b.size * float64(b.per)), false
}

func (v *Venue) client(c *call) *client {
	k := clientKey{c.ip, c.worker}
	cl := v.clients[k]
	if cl == nil {
		full := func(n int, per time.Duration) bucket {
			return bucket{tokens: float64(n), size: float64(n), per: per, at: c.now}
		}
		cl = &client{full(v.opt.ReadPerMin, time.Minute), full(v.opt.WritePerMin, time.Minute), full(v.opt.RoomsPerDay, 24*time.Hour)}
		v.clients[k] = cl
	}
	return cl
}

// chargeRead takes a read token, or answers 429.
func (c *call) chargeRead() (reply, bool) {
	v := c.v
	v.mu.Lock()
	defer v.mu.Unlock()
	b := &v.client(c).read
	wait, ok := b.take(c.now)
	st := v.counts.Clients[c.ip]
	if ok {
		if st.Reads == 0 || b.tokens < st.Lowest {
			st.Lowest = b.tokens
		}
		st.Reads++
		c.left = int(b.tokens)
	} else {
		st.Limited++
		v.counts.Limited++
	}
	v.counts.Clients[c.ip] = st
	if ok {
		return reply{}, true
	}
	return c.limited("read", "writes are a separate budget and are unaffected", v.opt.ReadPerMin, "min", wait), false
}

// chargeWrite takes a write token, or answers 429.
func (c *call) chargeWrite() (reply, bool) {
	v := c.v
	v.mu.Lock()
	defer v.mu.Unlock()
	wait, ok := v.client(c).write.take(c.now)
	st := v.counts.Clients[c.ip]
	if ok {
		st.Writes++
	} else {
		st.Limited++
		v.counts.Limited++
	}
	v.counts.Clients[c.ip] = st
	if ok {
		return reply{}, true
	}
	return c.limited("write", "reads are a separate budget and are unaffected", v.opt.WritePerMin, "min", wait), false
}

// limited is the answer to a request beyond a budget.
func (c *call) limited(what, open string, most int, per string, wait time.Duration) reply {
	seconds := max(1, int(math.RoundToEven(wait.Seconds())))
	unit := "minute"
	every := 60 / float64(most)
	if per == "day" {
		unit, every = "day", 86400/float64(most)
	}
	r := refuse(429, fmt.Sprintf(`rate limited: the %s budget for your IP (%d/%s) is spent.
retry after: %ds — the bucket refills continuously (one token every %ds), so waiting longer buys a bigger burst, up to %d.
still open: %s, and these paths are never rate limited: /, /llms.txt, /config, /healthz, /.well-known/agent.json.
cheaper pattern: wait for news with ?since=<seq>&wait=10, which is one read however long it waits.
the enforced numbers are also published at /.well-known/agent.json under limits (per %s).`,
		what, most, per, seconds, max(1, int(math.RoundToEven(every))), most, open, unit))
	r.retryAfter = seconds
	return r
}

// takeSlot takes a slot for a long-poll.
func (c *call) takeSlot() bool {
	v := c.v
	v.mu.Lock()
	defer v.mu.Unlock()
	k := clientKey{c.ip, c.worker}
	if c.fault == RefuseSlot || v.waiting[k] >= max(0, v.opt.WaitersPerIP) || v.held[c.worker] >= max(0, v.opt.WaitersTotal) {
		v.counts.Refusals++
		return false
	}
	v.waiting[k]++
	v.held[c.worker]++
	all := 0
	for _, n := range v.held {
		all += n
	}
	v.counts.WaitersHigh = max(v.counts.WaitersHigh, all)
	return true
}

func (c *call) freeSlot() {
	v := c.v
	v.mu.Lock()
	defer v.mu.Unlock()
	k := clientKey{c.ip, c.worker}
	if v.waiting[k]--; v.waiting[k] == 0 {
		delete(v.waiting, k)
	}
	v.held[c.worker]--
}

// budgetFooter is what the text lanes append when the budget runs low.
func (c *call) budgetFooter() string {
	most := c.opt.ReadPerMin
	if c.left*4 >= most || c.profile >= V0145 && c.left%8 != 0 {
		return ""
	}
	return fmt.Sprintf("# budget: %d of %d reads left this minute (the JSON lane does not say)\n", c.left, most)
}

// copyAllowed is the duplicate filter. It counts the copy if it is taken.
func (c *call) copyAllowed(room, text string) bool {
	v := c.v
	norm := normal(text)
	if v.profile < V011 || v.opt.DupeWindow < 0 || len([]rune(norm)) < v.opt.DupeMinLength {
		return true
	}
	k := fmt.Sprintf("%d|%s|%s", c.worker, room, norm)
	fresh := v.copies[k][:0:0]
	for _, t := range v.copies[k] {
		if c.now.Sub(t) < v.opt.DupeWindow {
			fresh = append(fresh, t)
		}
	}
	if len(fresh) >= v.opt.DupeMaxCopies {
		v.copies[k] = fresh
		return false
	}
	if len(v.copies) > 1<<16 {
		clear(v.copies)
	}
	v.copies[k] = append(fresh, c.now)
	return true
}

// normal is the form in which texts are compared.
func normal(text string) string {
	return strings.Join(strings.Fields(strings.ToLower(sweep(text))), " ")
}
