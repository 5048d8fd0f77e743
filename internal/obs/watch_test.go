package obs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tclk-audit/tclk-audit/internal/testkit"
	"github.com/tclk-audit/tclk-audit/internal/testkit/double"
	"github.com/tclk-audit/tclk-audit/internal/watch"
	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/store"
)

// A watcher follows a small market; what the metrics say is what happened
// there.
func TestWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := double.New(double.Options{ReadPerMin: 600})
		wire := double.Pipe(v)
		defer wire.Close()
		st, err := store.Open(t.TempDir(), store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var w *watch.Watcher
		var out bytes.Buffer
		ob, reg := newObserver(t, Options{Store: st, Log: NewLogger(&out, "json", slog.LevelInfo), State: func() watch.State {
			if w == nil {
				return watch.State{}
			}
			return w.State()
		}})
		s, _ := gather(t, reg)
		s.absent(t, "venue_up", "room_lag_rows", "watch_state_timestamp_seconds", "last_commit_timestamp_seconds", "rows_total")

		w, err = watch.New(st, watch.Options{
			Settle: -1, Listener: ob.Listener(),
			Venues: []watch.Venue{{Alias: "sim", Origin: wire.Origin, Transport: wire.Transport}},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		v.SetFaults(double.Faults{Hook: func(r *http.Request) double.Fault { return double.Unavailable }})
		go func() { done <- w.Run(ctx) }()
		time.Sleep(time.Minute)
		s, _ = gather(t, reg)
		s.want(t, map[string]float64{`venue_up{venue="sim"}`: 0, `rooms_unread{class="board",venue="sim"}`: 1, `store_up`: 1})
		s.absent(t, "room_lag_rows", "room_last_success_age_seconds", "board_caught_up_timestamp_seconds", "venue_info", "venue_exports", "venue_clock_timestamp_seconds")
		if s[`venue_requests_total{ask="page",code="server-error",venue="sim"}`].value == 0 {
			t.Error("no failure was counted")
		}

		v.SetFaults(double.Faults{})
		time.Sleep(time.Minute)
		keys, rnd := testkit.NewKeys(1), testkit.NewRand(1, "market")
		deal := func(n int, terms testkit.Terms) *testkit.Deal {
			terms.NowMs = time.Now().UnixMilli()
			d := testkit.NewDeal(rnd, keys.Party(n), keys.Party(n+1), terms)
			v.Post(protocol.BoardRoom, d.Offerer.Signer, d.Offer)
			v.Post(protocol.BoardRoom, d.Acceptor.Signer, d.Accept)
			return d
		}
		timely := deal(1, testkit.Terms{})
		late := deal(11, testkit.Terms{ClaimBy: 60_000})
		dangling := deal(21, testkit.Terms{ClaimBy: 300_000, Refund: 900_000})
		broken := deal(31, testkit.Terms{})
		for i := range 5 {
			v.Say(protocol.BoardRoom, "visitor", fmt.Sprintf("hello %d", i))
		}
		v.SaySigned(protocol.BoardRoom, keys.Signer(50), "tclk1 {")
		time.Sleep(5 * time.Second)
		for _, d := range []*testkit.Deal{timely, late, dangling} {
			v.Post(d.RoomName(), d.Payer, d.Lock())
		}
		time.Sleep(100 * time.Second)
		v.Post(timely.RoomName(), timely.Payee, timely.Reveal())
		v.Post(late.RoomName(), late.Payee, late.Reveal())
		broken.Rail = "elsewhere-htlc"
		v.Post(broken.RoomName(), broken.Payer, broken.Lock())
		v.Post(broken.RoomName(), broken.Payee, broken.Reveal())
		time.Sleep(6 * time.Minute)

		s, _ = gather(t, reg)
		closed(t, s)
		written := len(v.Held(protocol.BoardRoom))
		for _, d := range []*testkit.Deal{timely, late, dangling, broken} {
			written += len(v.Held(d.RoomName()))
		}
		if n := s.sum("rows_total"); n != float64(written) {
			t.Errorf("%g rows were counted, the venue has %d", n, written)
		}
		s.want(t, map[string]float64{
			`venue_up{venue="sim"}`:                                                   1,
			`room_lag_rows{class="board",venue="sim"}`:                                0,
			`rows_total{class="board",signature="authentic",venue="sim"}`:             9,
			`rows_total{class="board",signature="unsigned",venue="sim"}`:              5,
			`rows_total{class="deal",signature="authentic",venue="sim"}`:              7,
			`frames_total{result="decoded",type="offer",venue="sim"}`:                 4,
			`frames_total{result="decoded",type="lock",venue="sim"}`:                  4,
			`frames_total{result="undecodable",type="none",venue="sim"}`:              1,
			`rejections_total{cascade="false",reason="unsigned",venue="sim"}`:         5,
			`rejections_total{cascade="true",reason="wrong-status",venue="sim"}`:      1,
			`rejections_total{cascade="false",reason="frame-not-json",venue="sim"}`:   1,
			`rejections_total{cascade="false",reason="rail-not-offered",venue="sim"}`: 1,
			`steps_total{result="counted",type="lock",venue="sim"}`:                   3,
			`steps_total{result="rejected",type="lock",venue="sim"}`:                  1,
			`steps_total{result="counted",type="reveal",venue="sim"}`:                 2,
			`steps_total{result="cascaded",type="reveal",venue="sim"}`:                1,
			`late_reveals_total{venue="sim"}`:                                         1,
			`deadline_warnings_total{venue="sim"}`:                                    1,
			`contracts{status="claimed",venue="sim"}`:                                 2,
			`contracts{status="locked",venue="sim"}`:                                  1,
			`contracts{status="accepted",venue="sim"}`:                                1,
			`contracts{status="none",venue="sim"}`:                                    0,
			`contracts_by_binding{binding="bound",venue="sim"}`:                       4,
			`offers{state="bound",venue="sim"}`:                                       4,
			`board_gaps{venue="sim"}`:                                                 0,
			`rows_lost_total{venue="sim"}`:                                            0,
			`venue_exports{venue="sim"}`:                                              1,
			`venue_signatures{venue="sim"}`:                                           1,
			`venue_info{venue="sim",version="0.14.5"}`:                                1,
			`rooms{class="deal",venue="sim"}`:                                         4,
		})
		if h := s[`lock_to_reveal_seconds{venue="sim"}`]; h.count != 2 || h.value != 200 {
			t.Errorf("lock to reveal: %d of %g s in all, want 2 of 200", h.count, h.value)
		}
		// 1800 s and 60 s from the offer on, less 105 s each.
		if h := s[`reveal_margin_seconds{venue="sim"}`]; h.count != 2 || h.value != 1695-45 {
			t.Errorf("margins: %d of %g s in all, want 2 of 1650", h.count, h.value)
		}
		if age := s[`room_last_success_age_seconds{class="board",venue="sim"}`].value; age > 6 {
			t.Errorf("the board was read %g s ago", age)
		}
		if s["store_log_position"].value == 0 || s["store_log_position"].value != s["store_acknowledged_log_position"].value {
			t.Errorf("log position %g, acknowledged %g", s["store_log_position"].value, s["store_acknowledged_log_position"].value)
		}
		// The first entry of a log is of the making of the store.
		if n := s["window_entries"]; n.count == 0 || n.value != s["store_log_position"].value-1 {
			t.Errorf("windows held %g entries, the log has %g", n.value, s["store_log_position"].value)
		}

		// Rows that the board's ring drops unseen are lost, and the venue is down.
		v.SetFaults(double.Faults{Share: map[double.Fault]float64{double.Unavailable: 1}})
		for i := range 20 {
			v.Say(protocol.BoardRoom, "visitor", fmt.Sprintf("unseen %d %0400d", i, 0))
		}
		v.Compact(protocol.BoardRoom)
		unseen := 0.0
		for _, l := range v.Held(protocol.BoardRoom) {
			if l.Seq > 14 && l.End == double.Overwritten {
				unseen++
			}
		}
		time.Sleep(5 * time.Minute)
		s, _ = gather(t, reg)
		s.want(t, map[string]float64{`venue_up{venue="sim"}`: 0})
		s.absent(t, "room_lag_rows")
		if age := s[`room_last_success_age_seconds{class="board",venue="sim"}`].value; age < 290 {
			t.Errorf("after five minutes without an answer the board was read %g s ago", age)
		}
		v.SetFaults(double.Faults{})
		time.Sleep(2 * time.Minute)
		s, _ = gather(t, reg)
		lost := s[`rows_lost_total{venue="sim"}`].value
		if lost == 0 || lost != unseen {
			t.Errorf("%g rows are lost, the ring dropped %g unseen", lost, unseen)
		}
		s.want(t, map[string]float64{
			`venue_up{venue="sim"}`: 1, `coverage_events_total{event="overwritten",venue="sim"}`: 1,
			`board_gaps{venue="sim"}`: 1, `board_missing_rows{venue="sim"}`: lost,
		})

		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		s, _ = gather(t, reg)
		s.want(t, map[string]float64{`venue_up{venue="sim"}`: 0, `rows_lost_total{venue="sim"}`: lost})
		s.absent(t, "room_lag_rows", "room_last_success_age_seconds", "rooms", "venue_budget_left_requests")
		ob.Close()
		if err := st.Close(); err != nil {
			t.Error(err)
		}
		s, _ = gather(t, reg)
		closed(t, s)
		s.want(t, map[string]float64{`store_up`: 0})
		s.absent(t, "contracts", "rows_lost_total", "store_log_position")

		wantRecords(t, out.String(), map[string]string{
			"refund deadline near, no reveal seen": dangling.ID().String(), "rows are lost": `"room":"tclk-offers"`, "notice": "stopped:",
		})
	})
}

// wantRecords looks for a record of each message that holds a text.
func wantRecords(t *testing.T, log string, want map[string]string) {
	t.Helper()
	seen := map[string]bool{}
	for line := range strings.Lines(log) {
		var r struct{ Msg, Level string }
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if text, ok := want[r.Msg]; ok && strings.Contains(line, text) {
			seen[r.Msg] = true
		}
	}
	for msg, text := range want {
		if !seen[msg] {
			t.Errorf("no record %q has %s:\n%s", msg, text, log)
		}
	}
}
