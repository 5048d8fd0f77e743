package market

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tclk-audit/tclk-audit/internal/testkit/double"
	"github.com/tclk-audit/tclk-audit/protocol"
)

// The rows that a market says it wrote are there, and every way in which a deal
// can go is gone by some.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := double.New(double.Options{})
		m := New(v, Options{Offers: 0.5, Board: 3, Rooms: 30, Hot: 3, Life: 2 * time.Minute, Seed: 7})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		if s := m.Stats(); !s.Trading || s.Scripts[scriptStanding] != 30 || s.Contracts["locked"] != 30 {
			t.Errorf("before it runs: %+v", s)
		}
		m.Run(ctx)
		s := m.Stats()
		held := map[string]int{}
		for _, room := range v.Rooms() {
			if room != "events" {
				held[m.class(room)] += len(v.Held(room))
			}
		}
		if fmt.Sprint(held) != fmt.Sprint(s.Rows) {
			t.Errorf("the venue holds %v, the market wrote %v", held, s.Rows)
		}
		if n := held[ClassBoard] - 60; n < 1750 || n > 1850 {
			t.Errorf("%d rows on the board in ten minutes, not three a second", n)
		}
		if n := len(m.Contracts()) - 30; n < 240 || n > 360 {
			t.Errorf("%d accepts in ten minutes, not one in two seconds", n)
		}
		for _, script := range append(scripts, scriptRival) {
			if s.Scripts[script] == 0 {
				t.Errorf("no deal was %s: %v", script, s.Scripts)
			}
		}
		for status := protocol.Proposed; status <= protocol.Cancelled; status++ {
			if s.Contracts[status.String()] == 0 {
				t.Errorf("no contract is %s: %v", status, s.Contracts)
			}
		}
		if s.Trading {
			t.Error("it trades after its end")
		}
	})
}

// The handler counts what is read, and asking it for that costs nothing.
func TestHandler(t *testing.T) {
	v := double.New(double.Options{ReadPerMin: 4})
	m := New(v, Options{Rooms: 4, Hot: 1})
	s := httptest.NewServer(m.Handler())
	defer s.Close()
	get := func(path string, to any) int {
		t.Helper()
		res, err := http.Get(s.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		if to != nil {
			if err := json.Unmarshal(b, to); err != nil {
				t.Fatalf("%s: %v\n%s", path, err, b)
			}
		}
		return res.StatusCode
	}
	var stats Stats
	for range 10 {
		get("/_market/stats", &stats)
	}
	if stats.Reads != 0 || stats.Unread != 5 || stats.RowsRead != 0 {
		t.Errorf("before the first read: %+v", stats)
	}
	for _, path := range []string{"/r/tclk-offers?format=json&since=0", "/r/tclk-offers/export", "/r/" + m.Contracts()[0].Room, "/r/never-was"} {
		if status := get(path, nil); status != 200 && status != 404 {
			t.Errorf("%s: status %d", path, status)
		}
	}
	if status := get("/r/tclk-offers", nil); status != http.StatusTooManyRequests {
		t.Errorf("beyond the budget: status %d", status)
	}
	get("/_market/stats", &stats)
	if stats.Reads != 4 || stats.Limited != 1 || stats.Unread != 3 || stats.RowsRead != 8+1 || stats.LeastLeft >= 1 {
		t.Errorf("after four reads and one too many: %+v", stats)
	}
	var reads []Reads
	get("/_market/reads?prefix=tclk-", &reads)
	if len(reads) != 1 || reads[0].Class != ClassBoard || reads[0].Reads != 2 || len(reads[0].At) != 2 || len(reads[0].Lags) != 2 || reads[0].Lags[1] != 0 {
		t.Errorf("reads of the board: %+v", reads)
	}
	reads = nil
	get("/_market/reads", &reads)
	classes := map[string]int{}
	for _, r := range reads {
		classes[r.Class]++
		if r.Class != ClassBoard && (r.Accepted == 0 || (r.First == 0) != (r.Reads == 0)) {
			t.Errorf("%+v", r)
		}
	}
	if classes[ClassHot] != 1 || classes[ClassCold] != 3 {
		t.Errorf("classes of rooms: %v", classes)
	}
	var rows []Row
	get("/_market/held?room=tclk-offers", &rows)
	if len(rows) != 8 || rows[7].Seq != 8 || rows[7].End != "readable" || !json.Valid([]byte(rows[7].Raw)) {
		t.Errorf("held: %+v", rows)
	}
	if get("/_market/nothing", nil) != http.StatusNotFound {
		t.Error("there is something at /_market/nothing")
	}
}
