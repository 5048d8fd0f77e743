package venue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// bucket is the venue's own: full at first, one minute's worth, refilled all
// the time. A refused request costs nothing.
type bucket struct {
	mu     sync.Mutex
	size   float64
	tokens float64
	last   time.Time
	times  []time.Time // of all requests
	over   int         // refused
}

func newBucket(perMinute int) *bucket {
	return &bucket{size: float64(perMinute), tokens: float64(perMinute), last: time.Now()}
}

func (b *bucket) RoundTrip(r *http.Request) (*http.Response, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.tokens = min(b.size, b.tokens+now.Sub(b.last).Seconds()*b.size/60)
	b.last = now
	b.times = append(b.times, now)
	if b.tokens < 1-1e-9 {
		b.over++
		resp := answer(r, 429, kindText, "429")
		resp.Header.Set("Retry-After", "2")
		return resp, nil
	}
	b.tokens--
	return answer(r, 200, kindJSON, emptyPage), nil
}

// Whatever the callers do, the venue's bucket never runs dry: not at the
// start, not after silence, not with many callers, not at a share of 1. And the
// share is used: callers that ask without pause get all of it.
func TestBucketBelowVenues(t *testing.T) {
	type step struct {
		callers, calls int
		idle           time.Duration
	}
	rapid.Check(t, func(rt *rapid.T) {
		reads := rapid.SampledFrom([]int{1, 2, 7, 24, 120, 600}).Draw(rt, "reads")
		share := rapid.SampledFrom([]float64{0.3, 0.8, 1}).Draw(rt, "share")
		steps := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) step {
			return step{
				rapid.IntRange(1, 8).Draw(rt, "callers"), rapid.IntRange(1, 60).Draw(rt, "calls"),
				time.Duration(rapid.IntRange(0, 180).Draw(rt, "idle")) * time.Second,
			}
		}), 1, 5).Draw(rt, "steps")
		failed := ""
		synctest.Test(t, func(t *testing.T) {
			venue := newBucket(reads)
			c := client(t, Options{Transport: venue, ReadsPerMinute: reads, Share: share})
			begin, sent := time.Now(), 0
			var idle time.Duration
			for _, s := range steps {
				var wg sync.WaitGroup
				for range s.callers {
					wg.Go(func() {
						for range s.calls {
							c.Room(t.Context(), "x", Query{})
						}
					})
				}
				wg.Wait()
				sent += s.callers * s.calls
				time.Sleep(s.idle)
				idle += s.idle
			}
			perSecond := share * float64(reads) / 60
			// At the latest when the bucket was empty from the start.
			if most := time.Duration(float64(sent+1)/perSecond*1e9) + idle; time.Since(begin) > most {
				failed = fmt.Sprintf("%d calls took %s, not at most %s", sent, time.Since(begin), most)
			}
			if b := c.Budget(); venue.over > 0 || b.TooMany > 0 || int(b.Taken) != sent || len(venue.times) != sent || b.Waiting != 0 {
				failed = fmt.Sprintf("%d of %d requests were too many: %+v", venue.over, sent, b)
			}
		})
		if failed != "" {
			rt.Fatal(failed)
		}
	})
}

// A process that is started again and again does not spend a full bucket each
// time.
func TestFirstTokens(t *testing.T) {
	for _, tc := range []struct {
		reads, at int
	}{{600, 60}, {120, 60}, {24, 19}, {1, 1}} {
		synctest.Test(t, func(t *testing.T) {
			venue := newBucket(1e6)
			c := client(t, Options{Transport: venue, ReadsPerMinute: tc.reads})
			for range tc.at + 1 {
				c.Room(t.Context(), "x", Query{})
			}
			for i, at := range venue.times {
				if late := at.After(venue.times[0]); late != (i >= tc.at) {
					t.Errorf("%d reads a minute: request %d was sent %s after the first", tc.reads, i+1, at.Sub(venue.times[0]))
				}
			}
		})
	}
}

// Ready tells the truth: after so long, and not before, a call is sent at once.
func TestReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		venue := newBucket(1e6)
		c := client(t, Options{Transport: venue, ReadsPerMinute: 60, Share: 1})
		call := func() time.Duration {
			begin := time.Now()
			if _, err := c.Room(t.Context(), "x", Query{}); err != nil {
				t.Fatal(err)
			}
			return time.Since(begin)
		}
		for range 60 {
			if c.Ready() != 0 || call() != 0 {
				t.Fatal("a token was there, and the call waited")
			}
		}
		for range 100 {
			d := c.Ready()
			if d <= 0 || d > time.Second+time.Microsecond {
				t.Fatalf("ready in %s", d)
			}
			sleep := time.Duration(rand.Int64N(int64(2 * time.Second)))
			time.Sleep(sleep)
			waited := call()
			if want := max(0, d-sleep); waited < want-time.Microsecond || waited > want+time.Microsecond {
				t.Fatalf("ready in %s, and after %s the call waited for %s", d, sleep, waited)
			}
			time.Sleep(c.Ready())
			if waited := call(); waited > time.Microsecond {
				t.Fatalf("waited for %s when it was ready", waited)
			}
		}
	})
}

// Calls get their tokens in the order they came, one that gives up leaves its
// place, and Ready counts those that wait.
func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		venue := newBucket(1e6)
		c := client(t, Options{Transport: venue, ReadsPerMinute: 1, Share: 1})
		c.Room(t.Context(), "x", Query{})
		begin := time.Now()
		done := make(map[int]time.Duration)
		var mu sync.Mutex
		var wg sync.WaitGroup
		for i := range 4 {
			ctx, cancel := t.Context(), context.CancelFunc(func() {})
			if i == 1 {
				ctx, cancel = context.WithTimeout(ctx, 30*time.Second)
			}
			wg.Go(func() {
				defer cancel()
				_, err := c.Room(ctx, "x", Query{})
				if (err != nil) != (i == 1) || i == 1 && (!errors.Is(err, context.DeadlineExceeded) || !Temporary(err)) {
					t.Errorf("call %d: %v", i, err)
				}
				mu.Lock()
				done[i] = time.Since(begin).Round(time.Second)
				mu.Unlock()
			})
			synctest.Wait()
		}
		if d := c.Ready().Round(time.Second); d != 5*time.Minute || c.Budget().Waiting != 4 {
			t.Errorf("ready in %s, %+v", d, c.Budget())
		}
		wg.Wait()
		for i, want := range []time.Duration{time.Minute, 30 * time.Second, 2 * time.Minute, 3 * time.Minute} {
			if done[i] != want {
				t.Errorf("call %d was done after %s, not %s", i, done[i], want)
			}
		}
	})
}

// After a 429 nothing is sent until its time is over, then at half the rate,
// and after five minutes at the full rate again.
func TestTooMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refuse := 3
		var times []time.Time
		c := client(t, Options{ReadsPerMinute: 100, Transport: carry(func(r *http.Request) (*http.Response, error) {
			times = append(times, time.Now())
			if len(times) <= refuse {
				resp := answer(r, 429, kindText, "429")
				resp.Header.Set("Retry-After", "7")
				return resp, nil
			}
			return answer(r, 200, kindJSON, emptyPage), nil
		})})
		call := func() error {
			_, err := c.Room(t.Context(), "x", Query{})
			return err
		}
		if b := c.Budget(); b.Full != 80 || b.Limit != 80 || b.Left != 60 || !b.Paused.IsZero() {
			t.Errorf("%+v", b)
		}
		begin := time.Now()
		if err := call(); !errors.As(err, new(*LimitedError)) {
			t.Fatal(err)
		}
		b := c.Budget()
		if b.Full != 80 || b.Limit != 40 || b.Left != 0 || b.TooMany != 1 || b.Paused.Before(begin.Add(7*time.Second)) || b.Paused.After(begin.Add(8*time.Second)) {
			t.Errorf("%+v", b)
		}
		if d := c.Ready(); d < 7*time.Second || d > 8*time.Second {
			t.Errorf("ready in %s", d)
		}

		// The next ones wait for it; free documents do as well.
		ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
		if _, err := c.Discover(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		cancel()
		call()
		if gap := times[1].Sub(times[0]); gap < 7*time.Second || gap > 8*time.Second {
			t.Errorf("asked again after %s", gap)
		}
		if b := c.Budget(); b.Limit != 20 || b.TooMany != 2 {
			t.Errorf("%+v", b)
		}
		call()
		if b := c.Budget(); b.Limit != 20 || b.TooMany != 3 {
			t.Errorf("%+v", b)
		}

		// 20 a minute, in the first half minute after the pause.
		if err := call(); err != nil {
			t.Fatal(err)
		}
		resumed := time.Now()
		for range 4 {
			call()
		}
		if took := time.Since(resumed); took < 4*time.Second || took > 14*time.Second {
			t.Errorf("4 calls took %s", took)
		}
		last := 0.0
		for range 10 {
			time.Sleep(time.Minute)
			b := c.Budget()
			if b.Limit < last || b.Limit > last+10 && last > 0 {
				t.Errorf("from %v to %v in a minute", last, b.Limit)
			}
			last = b.Limit
		}
		if last != 80 {
			t.Errorf("still at %v after ten minutes", last)
		}
		if b := c.Budget(); b.Left > 80 || b.TooMany != 3 || !b.Paused.IsZero() {
			t.Errorf("%+v", b)
		}
	})
}

// Requests that were under way together and are refused together lower the
// rate once; there is a floor below which no 429 lowers it.
func TestTooManyTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := client(t, Options{ReadsPerMinute: 1000, Transport: carry(func(r *http.Request) (*http.Response, error) {
			time.Sleep(time.Second)
			return answer(r, 429, kindText, "429"), nil
		})})
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() { c.Room(t.Context(), "x", Query{}) })
		}
		wg.Wait()
		if b := c.Budget(); b.Limit != 400 || b.TooMany != 10 {
			t.Errorf("%+v", b)
		}
		for range 20 {
			c.Room(t.Context(), "x", Query{})
		}
		if b := c.Budget(); b.Limit != 200 || b.TooMany != 30 {
			t.Errorf("%+v", b)
		}
	})
}

func TestRetryAfter(t *testing.T) {
	for _, tc := range []struct {
		value, date string
		want        time.Duration
	}{
		{"2", "", 2 * time.Second},
		{" 2 ", "", 2 * time.Second},
		{"0", "", time.Second},
		{"43200", "", maxPause},
		{"99999999999999999999", "", defaultPause},
		{"", "", defaultPause},
		{"-5", "", defaultPause},
		{"soon", "", defaultPause},
		{"Mon, 30 Nov 2026 16:04:30 GMT", "Mon, 30 Nov 2026 16:04:00 GMT", 30 * time.Second},
		{"Mon, 30 Nov 2026 16:03:00 GMT", "Mon, 30 Nov 2026 16:04:00 GMT", time.Second},
		{"Mon, 30 Nov 2026 19:04:00 GMT", "Mon, 30 Nov 2026 16:04:00 GMT", maxPause},
	} {
		h := http.Header{}
		h.Set("Retry-After", tc.value)
		h.Set("Date", tc.date)
		if got := retryAfter(h); got != tc.want {
			t.Errorf("%q: %s, not %s", tc.value, got, tc.want)
		}
	}
}
