package obs

import (
	"context"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tclk-audit/tclk-audit/export"
	"github.com/tclk-audit/tclk-audit/export/venue"
	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/internal/audit"
	"github.com/tclk-audit/tclk-audit/internal/ingest"
	"github.com/tclk-audit/tclk-audit/internal/watch"
	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/store"
)

// sample is one line of a scrape.
type sample struct {
	family string
	labels [][2]string
	value  float64
	count  uint64 // of a histogram; value is its sum
}

// scrape is what a registry gave: samples by name{label="value",...}.
type scrape map[string]sample

type seenFamily struct {
	name, help string
	typ        Type
}

func gather(t *testing.T, g prometheus.Gatherer) (scrape, []seenFamily) {
	t.Helper()
	list, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	s := scrape{}
	var seen []seenFamily
	for _, f := range list {
		seen = append(seen, seenFamily{f.GetName(), f.GetHelp(), Type(strings.ToLower(f.GetType().String()))})
		for _, m := range f.GetMetric() {
			one := sample{family: f.GetName()}
			var parts []string
			for _, l := range m.GetLabel() {
				one.labels = append(one.labels, [2]string{l.GetName(), l.GetValue()})
				parts = append(parts, l.GetName()+`="`+l.GetValue()+`"`)
			}
			switch {
			case m.GetCounter() != nil:
				one.value = m.GetCounter().GetValue()
			case m.GetGauge() != nil:
				one.value = m.GetGauge().GetValue()
			case m.GetHistogram() != nil:
				one.value, one.count = m.GetHistogram().GetSampleSum(), m.GetHistogram().GetSampleCount()
			}
			key := strings.TrimPrefix(f.GetName(), Prefix)
			if len(parts) > 0 {
				key += "{" + strings.Join(parts, ",") + "}"
			}
			s[key] = one
		}
	}
	return s, seen
}

// want compares samples with what they have to be.
func (s scrape) want(t *testing.T, values map[string]float64) {
	t.Helper()
	for key, v := range values {
		if got, ok := s[key]; !ok {
			t.Errorf("%s is absent, want %g", key, v)
		} else if got.value != v {
			t.Errorf("%s is %g, want %g", key, got.value, v)
		}
	}
}

func (s scrape) absent(t *testing.T, families ...string) {
	t.Helper()
	for key, one := range s {
		if slices.Contains(families, strings.TrimPrefix(one.family, Prefix)) {
			t.Errorf("%s is %g, want it absent", key, one.value)
		}
	}
}

func (s scrape) sum(family string) (n float64) {
	for _, one := range s {
		if one.family == Prefix+family {
			n += one.value
		}
	}
	return n
}

func page(t *testing.T, ob *Observer) (code int, body string) {
	t.Helper()
	w := httptest.NewRecorder()
	ob.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Code, w.Body.String()
}

func newStore(t *testing.T) *store.Store {
	t.Helper()
	s, err := store.Open(t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

const casesDir = "../../testdata/cases"

// cases are the folders of bundled exports, by the alias that a test gives them.
func cases(t *testing.T) (aliases []string, dirs map[string]string) {
	t.Helper()
	list, err := os.ReadDir(casesDir)
	if err != nil {
		t.Fatal(err)
	}
	dirs = map[string]string{}
	for _, d := range list {
		if d.IsDir() {
			alias := "case-" + d.Name()[:2]
			aliases = append(aliases, alias)
			dirs[alias] = filepath.Join(casesDir, d.Name())
		}
	}
	return aliases, dirs
}

func read(t *testing.T, s *store.Store, alias, dir string) {
	t.Helper()
	if _, err := ingest.Run(context.Background(), s, []string{dir}, ingest.Options{Venue: alias, Cores: 1}); err != nil {
		t.Fatal(err)
	}
}

func newObserver(t *testing.T, o Options) (*Observer, *prometheus.Registry) {
	t.Helper()
	reg := prometheus.NewRegistry()
	o.Registerer = reg
	ob, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ob.fresh = 0
	t.Cleanup(ob.Close)
	return ob, reg
}

// judged judges lines as rows of a room.
func judged(t *testing.T, room string, lines ...string) []audit.Judged {
	t.Helper()
	var raws []export.RawRow
	for i, l := range lines {
		raws = append(raws, export.RawRow{Bytes: []byte(l), Size: int64(len(l)), Line: int64(i + 1)})
	}
	var state audit.State
	rows, err := audit.NewJudge(fold.Rules{}).Rows(room, raws, &state)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// full makes an Observer whose every family has samples.
func full(t *testing.T) (*Observer, *prometheus.Registry) {
	t.Helper()
	s := newStore(t)
	_, dirs := cases(t)
	read(t, s, "demo", dirs["case-01"])
	now := time.Now()
	state := watch.State{At: now, Rows: 3, Venues: []watch.VenueState{{
		Alias: "demo", Origin: "https://venue.example", Caught: now.Add(-time.Second), Lag: 7, Live: 3, Waiting: 2,
		Limits: venue.Limits{Version: "0.14.5", Found: true, Exports: true, Signatures: true},
		Budget: venue.Budget{Full: 96, Limit: 48, Left: 12, Waiting: 1, Paused: now.Add(time.Minute), TooMany: 2},
		Needs:  map[string]int{"hot": 1, "open": 2},
		Classes: map[watch.Class]watch.ClassState{
			watch.ClassBoard: {Rooms: 1, Oldest: 2 * time.Second},
			watch.ClassDeal:  {Rooms: 5, Unread: 1, Oldest: time.Minute, Overdue: time.Second, Disabled: 1},
			watch.ClassOther: {Rooms: 1, Unread: 1},
		},
		Failing: 1,
	}}}
	ob, reg := newObserver(t, Options{
		Version: "v1.2.3", Store: s, State: func() watch.State { return state },
		HTTP: func() HTTP { return HTTP{Answers: [5]int64{0, 10, 1, 2, 3}, Open: 1, Streams: 1} },
	})
	l := ob.Listener()
	l.Request("demo", "page", "ok", 20*time.Millisecond)
	l.Store.Window(store.WindowInfo{Entries: 5, Folding: time.Millisecond, Commit: 2 * time.Millisecond, Mark: time.Millisecond})
	rows := judged(t, protocol.BoardRoom, `{"seq":1,"ts":"2026-11-30T16:00:46.458101Z","from":"visitor","text":"hello"}`, `{"seq":`)
	for i := range rows {
		l.Row("demo", watch.ClassBoard, &rows[i])
	}
	return ob, reg
}
