package double_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tclk-audit/tclk-audit/internal/testkit"
	"github.com/tclk-audit/tclk-audit/internal/testkit/double"
	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/verify"
)

// page is the JSON view of a room.
type page struct {
	Room       string
	Count      int
	First      *uint64 `json:"first_seq"`
	Last       uint64  `json:"last_seq"`
	Generation *uint64
	Messages   []struct {
		Seq   uint64
		Ts    string
		From  string
		Text  string
		Nonce json.Number
		Sig   string
	}
	Posted *struct{ Seq uint64 }
	Held   *bool `json:"wait_held"`
}

// do sends a request to the venue without a connection.
func do(v *double.Venue, method, target, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	v.ServeHTTP(w, httptest.NewRequest(method, target, strings.NewReader(body)))
	return w
}

func read(t *testing.T, v *double.Venue, target string) page {
	t.Helper()
	w := do(v, "GET", target, "")
	if w.Code != 200 || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("%s: %d %s\n%s", target, w.Code, w.Header().Get("Content-Type"), w.Body)
	}
	var p page
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatalf("%s: %v\n%s", target, err, w.Body)
	}
	return p
}

func (p page) seqs() []uint64 {
	s := []uint64{}
	for _, m := range p.Messages {
		s = append(s, m.Seq)
	}
	return s
}

func span(first, last uint64) []uint64 {
	s := []uint64{}
	for ; first <= last; first++ {
		s = append(s, first)
	}
	return s
}

func fill(v *double.Venue, room string, n int) {
	for i := range n {
		v.Say(room, "a", fmt.Sprintf("row %d", i+1))
	}
}

var profiles = []double.Profile{double.V07, double.V011, double.V0145}

// eachProfile runs a test under every version, with budgets out of its way.
func eachProfile(t *testing.T, f func(t *testing.T, p double.Profile, v *double.Venue, c *clock)) {
	for _, p := range profiles {
		t.Run(p.Version(), func(t *testing.T) {
			c := &clock{}
			c.set("2026-09-01T00:00:00Z")
			f(t, p, double.New(double.Options{Profile: p, ReadPerMin: 1e6, WritePerMin: 1e6, RoomsPerDay: 1e6, Now: c.now}), c)
		})
	}
}

func TestSinceGivesTheNewest(t *testing.T) {
	eachProfile(t, func(t *testing.T, p double.Profile, v *double.Venue, _ *clock) {
		fill(v, "gap", 300)
		for query, want := range map[string][]uint64{
			"since=50&limit=200":          span(101, 300),
			"since=250&limit=200":         span(251, 300),
			"since=290&limit=3":           span(298, 300),
			"":                            span(251, 300),
			"limit=0":                     span(300, 300),
			"limit=-4":                    span(251, 300),
			"limit=1000":                  span(101, 300),
			"limit=2&limit=1":             span(300, 300),
			"since=x&limit=1":             span(300, 300),
			"since=-1&limit=1":            span(300, 300),
			"since=%20298%20":             span(299, 300),
			"since=%2B298":                span(299, 300),
			"since=2_98":                  span(299, 300),
			"since=_298&limit=1":          span(300, 300),
			"since=99999999999999999999":  span(1, 0),
			"since=300":                   span(1, 0),
			"before=3&order=asc&offset=1": span(251, 300),
		} {
			got := read(t, v, "/r/gap?format=json&"+query)
			if !slices.Equal(got.seqs(), want) {
				t.Errorf("%q: rows %v, want %v", query, got.seqs(), want)
			}
			if len(want) > 0 && (*got.First != want[0] || got.Last != want[len(want)-1] || got.Count != len(want)) {
				t.Errorf("%q: count %d, first %d, last %d", query, got.Count, *got.First, got.Last)
			}
		}
		if got, want := v.Room("gap"), (double.RoomInfo{Alive: true, Life: 1, Seq: 300, First: 1, Rows: 300}); got.First != want.First || got.Rows != want.Rows {
			t.Errorf("the room holds %+v", got)
		}
	})
}

func TestReadBudget(t *testing.T) {
	eachProfile(t, func(t *testing.T, p double.Profile, v *double.Venue, _ *clock) {
		for range 100 {
			v.Say("big", "a", strings.Repeat("𝄞", 4096))
		}
		if got := read(t, v, "/r/big?format=json&limit=200"); got.Count != 63 || *got.First != 38 {
			t.Errorf("%d of 100 rows of 16 KB, from %d", got.Count, *got.First)
		}
	})
}

func TestSeqAfterReap(t *testing.T) {
	eachProfile(t, func(t *testing.T, p double.Profile, v *double.Venue, _ *clock) {
		fill(v, "reapme", 5)
		v.Reap("reapme")
		wantLast := uint64(9)
		if p == double.V0145 {
			wantLast = 5
		}
		if got := read(t, v, "/r/reapme?format=json&since=9"); got.Count != 0 || got.Last != wantLast {
			t.Errorf("a reaped room, since=9: %+v", got)
		}
		if got := read(t, v, "/r/reapme?format=json"); got.Last != 0 {
			t.Errorf("a reaped room without since ends at %d", got.Last)
		}
		v.Say("reapme", "a", "reborn")
		got := read(t, v, "/r/reapme?format=json&since=5")
		if p == double.V07 {
			if got.Count != 0 || got.Last != 5 {
				t.Errorf("seq did not restart, or since was not echoed: %+v", got)
			}
		} else if !slices.Equal(got.seqs(), []uint64{6}) || *got.Generation != 2 {
			t.Errorf("the new life: %+v", got)
		}
		held := v.Held("reapme")
		if len(held) != 6 || held[4].End != double.Reaped || held[5].End != double.Readable || held[5].Life != 2 {
			t.Errorf("held: %+v", held)
		}
	})
}

func TestReaper(t *testing.T) {
	eachProfile(t, func(t *testing.T, p double.Profile, v *double.Venue, c *clock) {
		fill(v, "single", 1)
		fill(v, "pair", 2)
		c.add(25 * time.Hour)
		if !v.Room("single").Alive {
			t.Error("a room was deleted without a write")
		}
		do(v, "GET", "/kv/x/y/set/z", "") // any write
		if v.Room("single").Alive || !v.Room("pair").Alive {
			t.Error("after 25 h: the room with one row lives, or that with two is gone")
		}
		c.add(7*24*time.Hour - time.Hour - 25*time.Hour)
		v.Say("other", "a", "x")
		if !v.Room("pair").Alive {
			t.Error("a room of two rows was deleted before 7 days")
		}
		c.add(27 * time.Hour)
		v.Say("pair", "a", "the write that revives it")
		if got := v.Room("pair"); got.Life != 2 || got.Rows != 1 {
			t.Errorf("the write that came too late did not begin a new life: %+v", got)
		}
	})
}

func TestReaperIsNotDue(t *testing.T) {
	c := &clock{}
	c.set("2026-09-01T00:00:00Z")
	v := double.New(double.Options{Now: c.now, Stillborn: time.Minute})
	v.Say("single", "a", "x")
	c.add(9 * time.Minute)
	v.Say("other", "a", "x")
	if !v.Room("single").Alive {
		t.Error("the reaper ran twice within 10 minutes")
	}
	c.add(time.Minute)
	v.Say("other", "a", "x")
	if v.Room("single").Alive {
		t.Error("the reaper did not run when it was due")
	}
}

func TestUnknownRoomIsEmpty(t *testing.T) {
	eachProfile(t, func(t *testing.T, p double.Profile, v *double.Venue, _ *clock) {
		got := read(t, v, "/r/nobody?format=json&since=0")
		if got.Count != 0 || got.First != nil || got.Messages == nil {
			t.Errorf("%+v", got)
		}
		if p == double.V07 != (got.Generation == nil) {
			t.Errorf("generation %v under %s", got.Generation, p.Version())
		}
	})
}

func TestEmptyPageOfOldVersion(t *testing.T) {
	v := double.New(double.Options{Profile: double.V07})
	w := do(v, "GET", "/r/tclk-offers?format=json", "")
	const want = "{\n \"room\": \"tclk-offers\",\n \"count\": 0,\n \"first_seq\": null,\n \"last_seq\": 0,\n \"messages\": []\n}\n"
	if got := w.Body.String(); got != want || len(got) != 93 || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("%s%q", w.Header(), got)
	}
}

func TestStampsRunBackwards(t *testing.T) {
	eachProfile(t, func(t *testing.T, p double.Profile, v *double.Venue, c *clock) {
		v.Say("r", "a", "first")
		v.Say("r", "b", "late", double.Late(44*time.Minute))
		got := read(t, v, "/r/r?format=json")
		if got.Messages[1].Ts != "2026-08-31T23:16:00.000000Z" || got.Messages[1].Seq != 2 {
			t.Errorf("%+v", got.Messages)
		}
		v.SetFaults(double.Faults{LateShare: 0.5, LateMax: time.Hour})
		fill(v, "r", 200)
		inversions := 0
		held := v.Held("r")
		for i := 3; i < len(held); i++ {
			if held[i].Stamp.Before(held[i-1].Stamp) {
				inversions++
			}
			if held[i].Seq != held[i-1].Seq+1 {
				t.Fatalf("seq %d after %d", held[i].Seq, held[i-1].Seq)
			}
		}
		if inversions < 20 {
			t.Errorf("%d inversions", inversions)
		}
	})
}

func TestWaitSlots(t *testing.T) {
	for _, p := range profiles {
		synctest.Test(t, func(t *testing.T) {
			v := double.New(double.Options{Profile: p})
			w := double.Pipe(v)
			defer w.Close()
			var all sync.WaitGroup
			var mu sync.Mutex
			took := map[time.Duration]int{}
			held := map[string]int{}
			for range 6 {
				all.Go(func() {
					start := time.Now()
					resp, err := w.Client.Get(w.Origin + "/r/r?format=json&since=0&wait=10")
					if err != nil {
						t.Error(err)
						return
					}
					defer resp.Body.Close()
					var pg page
					if err := json.NewDecoder(resp.Body).Decode(&pg); err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					defer mu.Unlock()
					took[time.Since(start)]++
					if pg.Held == nil {
						held["absent"]++
					} else {
						held[fmt.Sprint(*pg.Held)]++
					}
				})
			}
			all.Wait()
			if took[0] != 2 || took[10*time.Second] != 4 {
				t.Errorf("%s: six waits took %v", p.Version(), took)
			}
			if p == double.V07 && held["absent"] != 6 || p != double.V07 && (held["true"] != 4 || held["false"] != 2) {
				t.Errorf("%s: wait_held %v", p.Version(), held)
			}
			if s := v.Stats(); s.WaitersHigh != 4 || s.Refusals != 2 {
				t.Errorf("%s: %d waiters, %d refused", p.Version(), s.WaitersHigh, s.Refusals)
			}
		})
	}
}

func TestWaitNeedsSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := double.New(double.Options{})
		start := time.Now()
		read(t, v, "/r/r?format=json&wait=5")
		v.Say("r", "a", "x")
		read(t, v, "/r/r?format=json&wait=5&since=0")
		read(t, v, "/r/r?format=json&wait=junk&since=1")
		read(t, v, "/r/r?format=json&wait=-1&since=1")
		read(t, v, "/r/r?format=json&wait=nan&since=1")
		if d := time.Since(start); d != 0 {
			t.Errorf("waited %v", d)
		}
		read(t, v, "/r/r?format=json&wait=0.25&since=1")
		if d := time.Since(start); d != 250*time.Millisecond {
			t.Errorf("a wait of 0.25 s took %v", d)
		}
	})
}

func TestNoncesInRows(t *testing.T) {
	eachProfile(t, func(t *testing.T, p double.Profile, v *double.Venue, _ *clock) {
		for _, nonce := range []string{"0007", "9999999999999999999"} {
			did, sig := signed("payer", nonce, "text")
			w := do(v, "GET", "/r/"+dealRoom+"/say-signed/"+did+"/"+sig+"/"+nonce+"/text?format=json", "")
			if w.Code != 200 {
				t.Fatalf("nonce %s: %s", nonce, w.Body)
			}
		}
		rows := read(t, v, "/r/"+dealRoom+"?format=json").Messages
		if rows[0].Nonce != "7" || rows[1].Nonce != "9999999999999999999" {
			t.Errorf("%+v", rows)
		}
		for i, row := range rows {
			rec := protocol.Record{Room: dealRoom, From: []byte(row.From), Nonce: []byte(row.Nonce), Sig: []byte(row.Sig), Text: []byte(row.Text)}
			switch {
			case p == double.V07 && row.Sig != "":
				t.Errorf("row %d has a signature", i)
			case p != double.V07 && verify.Strict(&rec) != (i == 1):
				t.Errorf("row %d verifies as stored: %v", i, verify.Strict(&rec))
			}
		}
		did, sig := signed("payer", "12", "text two")
		if w := do(v, "GET", "/r/"+dealRoom+"/say-signed/"+did+"/"+sig+"/12/text%20two", ""); w.Code != 400 {
			t.Errorf("a nonce after the greatest: %d %s", w.Code, w.Body)
		}
	})
}

func TestExport(t *testing.T) {
	eachProfile(t, func(t *testing.T, p double.Profile, v *double.Venue, _ *clock) {
		fill(v, "r", 3)
		v.InsertTorn("r", `{"seq":99,"ts":"torn`)
		fill(v, "r", 1)
		w := do(v, "GET", "/r/r/export?since=3&limit=1", "")
		if p == double.V07 {
			if w.Code != 404 {
				t.Errorf("status %d", w.Code)
			}
			return
		}
		lines := strings.Split(w.Body.String(), "\n")
		if len(lines) != 6 || lines[3] != `{"seq":99,"ts":"torn` || lines[5] != "" || !strings.HasPrefix(lines[4], `{"seq":4,`) {
			t.Errorf("%q", lines)
		}
		if got := read(t, v, "/r/r?format=json").seqs(); !slices.Equal(got, span(1, 4)) {
			t.Errorf("the view beside a torn line: %v", got)
		}
		head := do(v, "HEAD", "/r/r/export", "")
		if head.Body.Len() != 0 || head.Header().Get("X-Room-Generation") != "1" {
			t.Errorf("HEAD: %v %q", head.Header(), head.Body)
		}
	})
}

func TestRing(t *testing.T) {
	eachProfile(t, func(t *testing.T, p double.Profile, v *double.Venue, c *clock) {
		text := strings.Repeat("𝄞", 4016)
		cut := c.now()
		for n := 1; v.Room("big").First <= 1; n++ {
			if n > 700 {
				t.Fatal("the ring never closed")
			}
			c.add(time.Second)
			cut = c.now()
			v.Say("big", "a", text)
		}
		info := v.Room("big")
		if info.Bytes > 5<<20 || info.Bytes < 5<<20-17<<10 || info.Seq-info.First+1 != uint64(info.Rows) {
			t.Errorf("after the cut: %+v", info)
		}
		for _, l := range v.Held("big") {
			if l.Seq < info.First && (l.End != double.Overwritten || !l.Gone.Equal(cut)) || l.Seq >= info.First && l.End != double.Readable {
				t.Fatalf("seq %d: %v at %v", l.Seq, l.End, l.Gone)
			}
		}
	})
}

func TestOldVersionKeepsFewRows(t *testing.T) {
	v := double.New(double.Options{Profile: double.V07, KeepRows: 20, RingBytes: 10_000})
	for v.Stats().Compactions == 0 {
		v.Say("r", "a", "xxxxxxxxxxxxxxxx")
	}
	if got := v.Room("r").Rows; got != 20 {
		t.Errorf("%d rows are left", got)
	}
}

func TestSqueeze(t *testing.T) {
	v := double.New(double.Options{MaxRooms: 1000, TotalBytes: 20_000_000})
	fill(v, "r", 400)
	v.Squeeze(true)
	v.Say("r", "a", "one more")
	if got := v.Room("r").Bytes; got > 10_000 {
		t.Errorf("%d bytes are left of a room whose share is 20000", got)
	}
}

func TestGenerationLagsBehind(t *testing.T) {
	c := &clock{}
	c.set("2026-09-01T00:00:00Z")
	v := double.New(double.Options{Now: c.now, BumpDelay: time.Second})
	v.Say("r", "a", "one")
	v.Reap("r")
	c.add(time.Minute)
	v.Say("r", "a", "two")
	if got := read(t, v, "/r/r?format=json"); *got.Generation != 1 || got.Count != 1 {
		t.Errorf("before the bump: %+v", got)
	}
	c.add(time.Second)
	if got := read(t, v, "/r/r?format=json"); *got.Generation != 2 {
		t.Errorf("after the bump: %+v", got)
	}
}

func TestExportOfTwoLives(t *testing.T) {
	var v *double.Venue
	v = double.New(double.Options{OnExport: func(room string) {
		v.Reap(room)
		v.Say(room, "a", "the next life")
	}})
	v.Say("r", "a", "the first life")
	w := do(v, "GET", "/r/r/export", "")
	if w.Header().Get("X-Room-Generation") != "2" || !strings.Contains(w.Body.String(), "the first life") {
		t.Errorf("%v\n%s", w.Header(), w.Body)
	}
}

func TestBudget(t *testing.T) {
	c := &clock{}
	c.set("2026-09-01T00:00:00Z")
	v := double.New(double.Options{ReadPerMin: 24, Now: c.now})
	codes := map[int]int{}
	for _, target := range []string{"/r/a?format=json", "/r/BAD", "/r/a/export", "/nope", "/config", "/healthz", "/.well-known/agent.json", "/kv/a/b", "/kv/a", "/rooms"} {
		for range 4 {
			codes[do(v, "GET", target, "").Code]++
		}
	}
	// Six of the ten targets cost a token, bad names among them.
	if codes[200] != 28 || codes[400] != 4 || codes[404] != 8 || codes[429] != 0 {
		t.Errorf("%v", codes)
	}
	w := do(v, "GET", "/r/a?format=json", "")
	if w.Code != 429 || w.Header().Get("Retry-After") != "2" || !strings.HasPrefix(w.Body.String(), "429 rate limited: the read budget for your IP (24/min) is spent.") {
		t.Errorf("%d %v\n%s", w.Code, w.Header(), w.Body)
	}
	c.add(2500 * time.Millisecond)
	if w := do(v, "GET", "/r/a?format=json", ""); w.Code != 200 {
		t.Errorf("after 2.5 s: %d", w.Code)
	}
	s := v.Stats()
	if cl := s.Clients["192.0.2.1"]; s.Limited != 1 || cl.Reads != 25 || cl.Limited != 1 {
		t.Errorf("%+v", s)
	}
}

func TestRoomsPerDay(t *testing.T) {
	v := double.New(double.Options{RoomsPerDay: 2})
	for i, want := range []int{200, 200, 429} {
		w := do(v, "GET", fmt.Sprintf("/r/room%d/say/a/x", i), "")
		if w.Code != want {
			t.Errorf("room %d: %d", i, w.Code)
		}
		if want == 429 && w.Header().Get("Retry-After") != "43200" {
			t.Errorf("Retry-After %s", w.Header().Get("Retry-After"))
		}
	}
}

func TestWrites(t *testing.T) {
	key := testkit.NewKeys(1).Signer(0)
	sign := func(room, nonce, text string) string {
		r := protocol.Record{Room: room, Nonce: []byte(nonce), Text: []byte(text)}
		verify.Sign(key.Key, &r)
		return string(r.Sig)
	}
	signedBody := func(nonce string, text string) string {
		return fmt.Sprintf(`{"did":%q,"sig":%q,"nonce":%s,"text":%q}`, key.DID, sign("r", strings.Trim(nonce, `"`), text), nonce, text)
	}
	eachProfile(t, func(t *testing.T, p double.Profile, v *double.Venue, _ *clock) {
		strict := 200
		if p >= double.V011 {
			strict = 400
		}
		for _, tc := range []struct {
			method, target, body string
			want                 int
		}{
			{"GET", "/r/r/say/nick/a%20b%2Fc//d", "", 200},
			{"POST", "/r/r", `{"from":"nick","text":"hello"}`, 200},
			{"POST", "/r/r", `{"text":"hello"}`, strict},
			{"POST", "/r/r", `{`, 400},
			{"POST", "/r/r", `{"from":"nick","text":""}`, 400},
			{"POST", "/r/r", `{"from":"nick","text":"` + strings.Repeat("x", 4097) + `"}`, 400},
			{"POST", "/r/r", strings.Repeat("x", 262_145), 413},
			{"POST", "/r/r", signedBody(`"1"`, "one"), 200},
			{"POST", "/r/r", signedBody(`2`, "two"), strict},
			{"POST", "/r/r", signedBody(`"1"`, "again"), 400},
			{"POST", "/r/r", strings.Replace(signedBody(`"9"`, "nine"), "nine", "ten", 1), 403},
			{"GET", "/r/r/say-signed/" + key.DID + "/" + sign("r", "5", "five") + "/5/five", "", 200},
			{"GET", "/r/r/say-signed/did:key:x/" + sign("r", "6", "six") + "/6/six", "", 400},
			{"GET", "/r/r/say-signed/" + key.DID + "/abc/6/six", "", 400},
			{"GET", "/r/r/say-signed/" + key.DID + "/" + sign("r", "6", "six") + "/x6/six", "", 400},
			{"GET", "/r/mb-r/say/nick/x", "", 403},
			{"GET", "/r/events/say/nick/x", "", 403},
			{"GET", "/r/r/say/NICK/x", "", 400},
			{"GET", "/r/a%2Fb", "", 404},
			{"GET", "/r/a%0A", "", 404},
			{"DELETE", "/r/r", "", 405},
			{"POST", "/r/r/say/nick/x", "", 405},
		} {
			if w := do(v, tc.method, tc.target, tc.body); w.Code != tc.want {
				t.Errorf("%s %.60s %.60s: %d, want %d\n%s", tc.method, tc.target, tc.body, w.Code, tc.want, w.Body)
			} else if w.Code != 200 && w.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
				t.Errorf("%s %s: an error of type %s", tc.method, tc.target, w.Header().Get("Content-Type"))
			}
		}
		if first := read(t, v, "/r/r?format=json").Messages[0].Text; first != "a b/c//d" {
			t.Errorf("stored %q", first)
		}
		before := v.Room("r").Rows
		w := do(v, "HEAD", "/r/r/say/nick/by%20head", "")
		if posted := v.Room("r").Rows - before; (posted == 1) != (p < double.V0145) || (w.Code == 405) != (p == double.V0145) {
			t.Errorf("HEAD on a say URL: %d, %d rows", w.Code, posted)
		}
		reply := read(t, v, "/r/r/say/nick/last?format=json")
		if reply.Posted == nil || reply.Posted.Seq != reply.Last {
			t.Errorf("the reply to a write: %+v", reply)
		}
	})
}

func TestDuplicates(t *testing.T) {
	eachProfile(t, func(t *testing.T, p double.Profile, v *double.Venue, c *clock) {
		say := func(text string) int {
			return do(v, "POST", "/r/dupes", `{"from":"a","text":"`+text+`"}`).Code
		}
		for i := range 7 {
			want := 200
			if i >= 5 && p >= double.V011 {
				want = 422
			}
			if got := say("The same long text  again"); got != want {
				t.Errorf("copy %d: %d, want %d", i+1, got, want)
			}
			if got := say("gm"); got != 200 {
				t.Errorf("gm %d: %d", i+1, got)
			}
		}
		c.add(time.Minute)
		if got := say("the SAME long text again"); got != 200 {
			t.Errorf("after the window: %d", got)
		}
	})
}

func TestTrailingSlash(t *testing.T) {
	v := double.New(double.Options{})
	w := do(v, "GET", "http://venue.test/r/x/?a=b", "")
	if w.Code != 307 || w.Header().Get("Location") != "http://venue.test/r/x?a=b" || w.Body.Len() != 0 {
		t.Errorf("%d %v %q", w.Code, w.Header(), w.Body)
	}
}

func TestNotes(t *testing.T) {
	eachProfile(t, func(t *testing.T, p double.Profile, v *double.Venue, _ *clock) {
		if w := do(v, "GET", "/kv/tclk-ab?format=json", ""); strings.Join(strings.Fields(w.Body.String()), "") != `{"ns":"tclk-ab","keys":[]}` {
			t.Errorf("an empty namespace: %s", w.Body)
		}
		for _, tc := range []struct {
			target string
			want   int
		}{
			{"/kv/tclk-ab/k1/set/locked", 200},
			{"/kv/tclk-ab/k1/set/x?if_absent=1", 409},
			{"/kv/tclk-ab/k1/set/claimed?if=locked", 200},
			{"/kv/tclk-ab/k1/set/refunded?if=locked", 409},
			{"/kv/tclk-ab/none", 404},
		} {
			if w := do(v, "GET", tc.target, ""); w.Code != tc.want {
				t.Errorf("%s: %d %s", tc.target, w.Code, w.Body)
			}
		}
		w := do(v, "GET", "/kv/tclk-ab/k1?format=json", "")
		if lines := strings.Split(w.Body.String(), "\n"); lines[1] != "" || lines[2] != "claimed" {
			t.Errorf("%q", lines)
		}
	})
}

func TestEdgeCache(t *testing.T) {
	c := &clock{}
	c.set("2026-09-01T00:00:00Z")
	v := double.New(double.Options{EdgeCache: true, Now: c.now})
	count := func(query string) int { return read(t, v, "/r/r?format=json"+query).Count }
	if n := count(""); n != 0 {
		t.Fatal(n)
	}
	v.Say("r", "a", "x")
	c.add(5 * time.Second)
	if n := count(""); n != 0 {
		t.Errorf("5 s later the stable URL shows %d rows, want the stale answer", n)
	}
	if n := count("&n=1"); n != 1 {
		t.Errorf("another URL shows %d rows", n)
	}
	if n := count(""); n != 1 {
		t.Errorf("after the cache fetched anew: %d rows", n)
	}
	v.Say("r", "a", "y")
	c.add(7 * time.Second)
	if n := count(""); n != 2 {
		t.Errorf("7 s later: %d rows", n)
	}
	v.Say("r", "a", "z")
	if w := do(v, "GET", "/r/r/export", ""); strings.Count(w.Body.String(), "\n") != 3 {
		t.Errorf("an export came from the cache")
	}
}

func TestUpgrade(t *testing.T) {
	v := double.New(double.Options{Profile: double.V07})
	key := testkit.NewKeys(1).Signer(0)
	v.SaySigned("r", key, "before")
	v.Upgrade(double.V0145)
	v.SaySigned("r", key, "after")
	got := read(t, v, "/r/r?format=json")
	if *got.Generation != 0 || got.Messages[0].Sig != "" || got.Messages[1].Sig == "" {
		t.Errorf("%+v", got)
	}
}

func TestDishonestVenue(t *testing.T) {
	v := double.New(double.Options{})
	fill(v, "r", 4)
	raw := strings.Replace(string(v.File("r")[1].Raw), "row 2", "row B", 1)
	if !v.RewriteRow("r", 2, []byte(raw)) || !v.DropRow("r", 3) || v.DropRow("r", 9) {
		t.Fatal("an operation on a row that is there was refused, or the reverse")
	}
	got := read(t, v, "/r/r?format=json")
	if !slices.Equal(got.seqs(), []uint64{1, 2, 4}) || got.Messages[1].Text != "row B" {
		t.Errorf("%+v", got)
	}
	ends := map[double.End]int{}
	for _, l := range v.Held("r") {
		ends[l.End]++
	}
	if ends[double.Replaced] != 1 || ends[double.Dropped] != 1 || ends[double.Readable] != 3 {
		t.Errorf("%v", ends)
	}
	v.ResetSeq("r")
	fill(v, "r", 1)
	if got := read(t, v, "/r/r?format=json"); got.Last != 1 || *got.Generation != 1 {
		t.Errorf("after the volume was lost: %+v", got)
	}
}

func TestLimitsArePublished(t *testing.T) {
	eachProfile(t, func(t *testing.T, p double.Profile, _ *double.Venue, _ *clock) {
		v := double.New(double.Options{Profile: p, ReadPerMin: 600})
		var agent struct {
			Version string
			Limits  map[string]any
		}
		if err := json.Unmarshal(do(v, "GET", "/.well-known/agent.json", "").Body.Bytes(), &agent); err != nil {
			t.Fatal(err)
		}
		if agent.Version != p.Version() || agent.Limits["reads_per_minute_per_ip"] != 600.0 || agent.Limits["long_poll_seconds"] != 10.0 {
			t.Errorf("%+v", agent)
		}
		if got := do(v, "GET", "/config", "").Code; (got == 404) != (p == double.V07) {
			t.Errorf("/config: %d", got)
		}
	})
}

// A query must never be refused, whatever is in it.
func FuzzQuery(f *testing.F) {
	for _, s := range []string{"since=2", "limit=-1", "wait=1e999&since=0&wait=0", "format=JSON;limit=3", "since=0x10", "limit=１"} {
		f.Add(s)
	}
	v := double.New(double.Options{ReadPerMin: 1 << 40, MaxWait: time.Nanosecond})
	fill(v, "r", 3)
	f.Fuzz(func(t *testing.T, raw string) {
		req := httptest.NewRequest("GET", "/r/r", nil)
		req.URL.RawQuery = raw
		w := httptest.NewRecorder()
		v.ServeHTTP(w, req)
		if w.Code != 200 {
			t.Errorf("%d", w.Code)
		}
	})
}

// What a fault does to the read of a room, seen by an ordinary client.
func TestFaults(t *testing.T) {
	type seen struct {
		status int
		body   string
		header http.Header
		err    error
	}
	for f := double.RateLimited; f <= double.Hang; f++ {
		t.Run(f.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := double.New(double.Options{})
				fill(v, "r", 100)
				v.SetFaults(double.Faults{Share: map[double.Fault]float64{f: 1}, BombBytes: 4 << 20})
				w := double.Pipe(v)
				defer w.Close()
				w.Client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
				path := "/r/r?format=json&limit=200"
				switch f {
				case double.TornExport, double.ShortExport:
					path = "/r/r/export"
				case double.RefuseSlot:
					path = "/r/r?format=json&since=100&wait=10"
				}
				start := time.Now()
				var s seen
				resp, err := w.Client.Get(w.Origin + path)
				if s.err = err; err == nil {
					b, err := io.ReadAll(resp.Body)
					resp.Body.Close()
					s = seen{resp.StatusCode, string(b), resp.Header, err}
				}
				took := time.Since(start)
				var ok bool
				switch f {
				case double.RateLimited:
					ok = s.status == 429 && s.header.Get("Retry-After") == "1"
				case double.ServerError:
					ok = s.status == 500 && s.body == "Internal Server Error"
				case double.Unavailable:
					ok = s.status == 503 && resp.Close && s.body == "Service Unavailable" && s.header.Get("Retry-After") == ""
				case double.BadGateway:
					ok = s.status == 502 && strings.HasPrefix(s.body, "<html>")
				case double.EdgeTimeout:
					ok = s.status == 524 && strings.HasPrefix(s.header.Get("Content-Type"), "text/html")
				case double.OriginFallback:
					ok = s.status == 200 && s.header.Get("X-Origin-Fallback") == "1" && !strings.Contains(s.body, "seq")
				case double.Redirect:
					u, err := url.Parse(s.header.Get("Location"))
					ok = s.status == 302 && err == nil && u.Host == "elsewhere.invalid"
				case double.Bomb:
					ok = s.status == 200 && len(s.body) == 4<<20
				case double.EmptyBody:
					ok = s.status == 200 && s.body == "" && s.err == nil
				case double.WrongType:
					ok = s.status == 200 && strings.HasPrefix(s.header.Get("Content-Type"), "text/html") && json.Valid([]byte(s.body))
				case double.CutBody:
					ok = s.err != nil
				case double.TornExport:
					ok = s.err == nil && !strings.HasSuffix(s.body, "\n") && strings.Contains(s.body, "row 99")
				case double.ShortExport:
					ok = s.err == nil && strings.HasSuffix(s.body, "\n") && !strings.Contains(s.body, "row 99")
				case double.SlowBody:
					ok = s.err == nil && json.Valid([]byte(s.body)) && took > 500*time.Millisecond
				case double.RefuseSlot:
					ok = s.status == 200 && strings.Contains(s.body, `"wait_held":false`) && took == 0
				case double.Hang:
					ok = s.err != nil && took == time.Minute
				}
				if !ok || v.Stats().Faults[f.String()] < 1 {
					t.Errorf("after %v: %d %v %v %.80q", took, s.status, s.header, s.err, s.body)
				}
			})
		})
	}
}
