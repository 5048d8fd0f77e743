package obs

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tclk-audit/tclk-audit/internal/ingest"
	"github.com/tclk-audit/tclk-audit/store"
)

// What the metrics say of a store is what its lists say.
func TestStored(t *testing.T) {
	s := newStore(t)
	aliases, dirs := cases(t)
	for _, alias := range aliases {
		read(t, s, alias, dirs[alias])
	}
	_, reg := newObserver(t, Options{Store: s})
	got, _ := gather(t, reg)
	closed(t, got)

	r, err := s.Reader()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	items, err := r.Contracts(store.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{}
	for i := range items {
		it := &items[i]
		at := `venue="` + it.Venue + `"}`
		want[`contracts{status="`+word(it.Status.String())+`",`+at]++
		want[`contracts_by_binding{binding="`+word(it.Binding.String())+`",`+at]++
		want[`contracts_by_evidence{evidence="`+word(it.Evidence.String())+`",`+at]++
	}
	for _, alias := range aliases {
		bound, all := 0.0, 0.0
		for o, err := range r.Offers(store.OfferFilter{Venue: alias}) {
			if err != nil {
				t.Fatal(err)
			}
			all++
			if o.Status == store.OfferBound {
				bound++
			}
		}
		want[`offers{state="bound",venue="`+alias+`"}`], want[`offers{state="unbound",venue="`+alias+`"}`] = bound, all-bound
	}
	got.want(t, want)
	for _, family := range []string{"contracts", "contracts_by_outlook", "contracts_by_binding", "contracts_by_evidence"} {
		if n := got.sum(family); n != float64(len(items)) {
			t.Errorf("%s has %g contracts, the store %d", family, n, len(items))
		}
	}
	status, err := r.Status()
	if err != nil {
		t.Fatal(err)
	}
	got.want(t, map[string]float64{
		`store_rows{signature="authentic"}`: float64(status.Authentic), `store_rows{signature="repaired"}`: float64(status.Repaired),
		`store_rows{signature="unsigned"}`: float64(status.Unsigned), `store_rows{signature="invalid"}`: float64(status.Invalid),
		`store_rows{signature="malformed"}`: float64(status.Malformed), `store_rows{signature="torn"}`: float64(status.Torn),
		`store_log_position`: float64(status.Entries), `store_event_number`: float64(status.Events),
		`store_acknowledged_log_position`: float64(status.Entries), `store_acknowledged_event_number`: float64(status.Events),
		`store_row_bytes`: float64(status.RowBytes), `store_behind`: 0, `store_up`: 1,
		`contracts{status="claimed",venue="case-01"}`: 1,
	})
	if status.Invalid == 0 || status.Malformed == 0 || status.Repaired == 0 {
		t.Errorf("the cases have no row of some class: %+v", status)
	}
}

// Scrapes while a writer writes see a store that only grows.
func TestScrapeWhileWriting(t *testing.T) {
	s := newStore(t)
	ob, reg := newObserver(t, Options{Store: s})
	ctx, stop := context.WithCancel(context.Background())
	var scrapers sync.WaitGroup
	for range 3 {
		scrapers.Go(func() {
			last := 0.0
			for ctx.Err() == nil {
				got, _ := gather(t, reg)
				if at := got["store_log_position"].value; at < last {
					t.Errorf("the log went from %g to %g", last, at)
				} else {
					last = at
				}
				if got["store_up"].value != 1 {
					t.Error("the store could not be read")
				}
			}
		})
	}
	l := ob.Listener()
	aliases, dirs := cases(t)
	for _, alias := range aliases {
		if _, err := ingest.Run(context.Background(), s, []string{dirs[alias]}, ingest.Options{Venue: alias, Cores: 1}); err != nil {
			t.Error(err)
		}
		l.Request(alias, "page", "ok", 1)
		l.Store.Window(store.WindowInfo{Entries: 1})
	}
	stop()
	scrapers.Wait()
	code, body := page(t, ob)
	if code != 200 || !strings.Contains(body, Prefix+`venue_requests_total{ask="page",code="ok",venue="case-01"} 1`) {
		t.Errorf("status %d: %s", code, body)
	}
}

// What was read serves the scrapes of the next second, and no longer.
func TestScrapesShare(t *testing.T) {
	s := newStore(t)
	ob, reg := newObserver(t, Options{Store: s})
	_, dirs := cases(t)
	ob.fresh = time.Hour
	first, _ := gather(t, reg)
	read(t, s, "case-01", dirs["case-01"])
	second, _ := gather(t, reg)
	if a, b := first["store_log_position"].value, second["store_log_position"].value; a != b {
		t.Errorf("the store was read twice within the time: log position %g and %g", a, b)
	}
	ob.fresh = 0
	third, _ := gather(t, reg)
	if a, b := second["store_log_position"].value, third["store_log_position"].value; a >= b {
		t.Errorf("log position %g after %g: what was read is kept too long", b, a)
	}
}
