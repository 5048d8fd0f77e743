package api_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tclk-audit/tclk-audit/internal/api"
)

// slowWriter takes its time for what is written.
type slowWriter struct {
	mu   sync.Mutex
	head http.Header
	body strings.Builder
	each time.Duration
}

func (w *slowWriter) Header() http.Header { return w.head }
func (w *slowWriter) WriteHeader(int)     {}
func (w *slowWriter) Flush()              {}

func (w *slowWriter) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "event: ") {
		time.Sleep(w.each)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.body.Write(p)
}

func (w *slowWriter) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.body.String()
}

// TestStreamTimes holds, by a clock that is made up, when a stream says that it
// still lives, and which readers it cuts.
func TestStreamTimes(t *testing.T) {
	s := filled(t, demo)
	for _, c := range []struct {
		each, reads time.Duration
		beats       int
		last        string
	}{
		{0, 62 * time.Second, 4, ": still here\n\n"},
		{5 * time.Second, 70 * time.Second, 4, ": still here\n\n"},
		{25 * time.Second, time.Hour, 0, "event: end\ndata: {\"reason\":\"the reader is too slow\",\"since\":13}\n\n"},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := api.New(s, api.Options{Public: true, Ending: make(chan struct{})})
			ctx, quit := context.WithTimeout(context.Background(), c.reads)
			defer quit()
			w := &slowWriter{head: http.Header{}, each: c.each}
			h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/events?format=sse", nil))
			if n := strings.Count(w.String(), "still here"); n != c.beats || !strings.HasSuffix(w.String(), c.last) {
				t.Errorf("a reader that takes %v: %d heartbeats, and at the end\n%s", c.each, n, w.String()[max(0, w.body.Len()-200):])
			}
		})
	}
}

// TestWaits holds how long a question with wait takes.
func TestWaits(t *testing.T) {
	s := filled(t, demo)
	last, err := s.LastEvent()
	if err != nil {
		t.Fatal(err)
	}
	behind := "&since=" + strconv.FormatUint(last, 10)
	for _, c := range []struct {
		query  string
		took   time.Duration
		events int
	}{
		{"wait=5" + behind, 5 * time.Second, 0},
		{"wait=99" + behind, 30 * time.Second, 0},
		{"wait=0" + behind, 0, 0},
		{"wait=3&from=1000", 3 * time.Second, 0},
		{"wait=5", 0, int(last)},
		{"wait=5&limit=2&since=" + strconv.FormatUint(last-3, 10), 0, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			list, _ := entries(t, mustAsk(t, api.New(s, api.Options{Public: true, Ending: make(chan struct{})}), "/v1/events?"+c.query), "events")
			if took := time.Since(began); took != c.took || len(list) != c.events {
				t.Errorf("%s: %d events after %v, want %d after %v", c.query, len(list), took, c.events, c.took)
			}
		})
	}
}

// TestCommitWakes holds that a commit wakes those who wait, where somebody tells
// of it, and that it ends their wait.
func TestCommitWakes(t *testing.T) {
	s := filled(t, demo)
	last, err := s.LastEvent()
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	changed, asked := make(chan struct{}), make(chan struct{}, 100)
	h := api.New(s, api.Options{Public: true, Ending: make(chan struct{}), Changed: func() <-chan struct{} {
		mu.Lock()
		defer mu.Unlock()
		asked <- struct{}{}
		return changed
	}})
	answer := make(chan string)
	go func() {
		answer <- mustAsk(t, h, "/v1/events?wait=30&limit=1&since="+strconv.FormatUint(last, 10))
	}()
	<-asked
	add(t, s, "file", corpus(t, nil))
	select {
	case <-answer:
		t.Error("it looked by itself")
	default:
	}
	mu.Lock()
	close(changed)
	changed = make(chan struct{})
	mu.Unlock()
	if list, _ := entries(t, <-answer, "events"); len(list) != 1 || !strings.Contains(list[0], `"number": `+strconv.FormatUint(last+1, 10)+",") {
		t.Errorf("the answer is %q", list)
	}
}
