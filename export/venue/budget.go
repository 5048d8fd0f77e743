package venue

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// firstTokens is the most that a client begins with: a process that is
	// started again and again must not spend a full bucket each time.
	firstTokens = 60
	// lowestFactor is how far 429s lower the rate at most.
	lowestFactor = 1.0 / 4
	// easeEvery and easeBy are how the rate rises again: by a twentieth of the
	// full rate every 30 s, so from a half to the whole in five minutes.
	easeEvery = 30 * time.Second
	easeBy    = 0.05
	// defaultPause is for a 429 that does not say how long.
	defaultPause = 10 * time.Second
	// maxPause bounds what a Retry-After can ask for.
	maxPause = 15 * time.Minute
	// jitter is added to each Retry-After, because the venue rounds it, and so
	// that several clients do not come back as one.
	jitter = time.Second
)

// Budget says what a client may still ask for. Rates are requests a minute.
type Budget struct {
	Full    float64   // the client's share of the venue's budget
	Limit   float64   // what it allows itself now, lower after a 429
	Left    float64   // requests that could be sent at once
	Waiting int       // calls that wait for a token
	Paused  time.Time // no request before this time, zero where there is no pause
	Taken   int64     // requests charged so far
	TooMany int64     // answers with 429 so far
}

// budget is a token bucket of the venue's shape: it holds one minute's worth
// and is refilled all the time. Every 429 halves it, once for each pause, and it
// grows back slowly.
type budget struct {
	turn chan struct{} // held by the call that takes the next token: one sleeps, the others queue

	mu      sync.Mutex
	lim     *rate.Limiter
	full    float64   // tokens a minute
	factor  float64   // of full, what is in force
	eased   time.Time // when factor last changed
	paused  time.Time
	waiting int
	taken   int64
	tooMany int64
}

func newBudget(perMinute float64) *budget {
	b := &budget{turn: make(chan struct{}, 1), full: perMinute, factor: 1}
	b.lim = rate.NewLimiter(b.shape())
	now := time.Now()
	b.lim.AllowN(now, max(0, b.lim.Burst()-firstTokens))
	return b
}

// shape is the rate and the capacity in force. The bucket can always hold one
// token, or nothing could ever be sent.
func (b *budget) shape() (rate.Limit, int) {
	perMinute := b.full * b.factor
	return rate.Limit(perMinute / 60), max(1, int(perMinute))
}

func (b *budget) reshape(now time.Time) {
	limit, burst := b.shape()
	b.lim.SetLimitAt(now, limit)
	b.lim.SetBurstAt(now, burst)
}

// setFull changes the full rate. Tokens in hand stay, as far as they fit.
func (b *budget) setFull(perMinute float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.full != perMinute {
		b.full = perMinute
		b.reshape(time.Now())
	}
}

// ease lets the rate rise by the steps that are due.
func (b *budget) ease(now time.Time) {
	if b.factor >= 1 {
		return
	}
	steps := now.Sub(b.eased) / easeEvery
	if steps < 1 {
		return
	}
	b.factor = min(1, b.factor+float64(steps)*easeBy)
	b.eased = b.eased.Add(steps * easeEvery)
	b.reshape(now)
}

// refused takes note of a 429.
func (b *budget) refused(after time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.ease(now)
	b.tooMany++
	// Requests that were under way together are refused together: that is one
	// fault, not several.
	if !now.Before(b.paused) {
		b.factor = max(lowestFactor, b.factor/2)
	}
	until := now.Add(after + time.Duration(rand.Float64()*float64(jitter)))
	if until.After(b.paused) {
		b.paused = until
	}
	b.eased = b.paused
	b.reshape(now)
	// The venue has nothing left for us, whatever our own count says.
	b.lim.AllowN(now, max(0, int(b.lim.TokensAt(now))))
}

// next takes a token if there is one, else says how long to wait for it. With
// free set only a pause is waited for.
func (b *budget) next(free bool) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.ease(now)
	if d := b.paused.Sub(now); d > 0 {
		return d
	}
	if free {
		return 0
	}
	if b.lim.AllowN(now, 1) {
		b.taken++
		return 0
	}
	return max(1, b.until(now, 1))
}

// until is the time to the n-th token.
func (b *budget) until(now time.Time, n float64) time.Duration {
	missing := n - b.lim.TokensAt(now)
	if missing <= 0 {
		return 0
	}
	return time.Duration(math.Ceil(missing/float64(b.lim.Limit())*float64(time.Second))) + 1
}

// take waits for a token, and for the end of a pause, within ctx.
func (b *budget) take(ctx context.Context, free bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if free {
		return b.wait(ctx, true)
	}
	b.queue(1)
	defer b.queue(-1)
	select {
	case b.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-b.turn }()
	return b.wait(ctx, false)
}

func (b *budget) wait(ctx context.Context, free bool) error {
	for {
		d := b.next(free)
		if d == 0 {
			return nil
		}
		t := time.NewTimer(d)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		}
	}
}

func (b *budget) queue(n int) {
	b.mu.Lock()
	b.waiting += n
	b.mu.Unlock()
}

func (b *budget) ready() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.ease(now)
	return max(0, b.paused.Sub(now), b.until(now, float64(1+b.waiting)))
}

func (b *budget) state() Budget {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.ease(now)
	s := Budget{
		Full: b.full, Limit: b.full * b.factor, Left: max(0, b.lim.TokensAt(now)),
		Waiting: b.waiting, Taken: b.taken, TooMany: b.tooMany,
	}
	if b.paused.After(now) {
		s.Paused, s.Left = b.paused, 0
	}
	return s
}

// SetBudget puts another share of the venue's budget in force, or another budget
// in place of the published one: both as in Options.
func (c *Client) SetBudget(share float64, readsPerMinute int) error {
	if share == 0 {
		share = defaultShare
	}
	if !(share > 0 && share <= 1) || readsPerMinute < 0 || readsPerMinute > maxReads {
		return fmt.Errorf("venue: a share of %v of %d reads a minute: give a share above 0 and at most 1, and at most %d reads", share, readsPerMinute, maxReads)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opts.Share, c.opts.ReadsPerMinute = share, readsPerMinute
	l := c.limits
	switch {
	case readsPerMinute > 0:
		l.ReadsPerMinute = readsPerMinute
	case l.Published > 0:
		l.ReadsPerMinute = l.Published
	default:
		l.ReadsPerMinute = defaultLimits().ReadsPerMinute
	}
	c.limits = l
	c.budget.setFull(c.perMinute(l))
	return nil
}
