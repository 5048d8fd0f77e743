package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/tclk-audit/tclk-audit/internal/api"
	"github.com/tclk-audit/tclk-audit/internal/gen"
)

// entries gives the entries of a page by the member that holds them, as text,
// and the cursor of the next.
func entries(t testing.TB, body, member string) (list []string, next string) {
	t.Helper()
	var page map[string]json.RawMessage
	if err := json.Unmarshal([]byte(body), &page); err != nil {
		t.Fatalf("%v\n%s", err, body)
	}
	var raw []json.RawMessage
	if err := json.Unmarshal(page[member], &raw); err != nil {
		t.Fatalf("%s: %v\n%s", member, err, body)
	}
	for _, r := range raw {
		list = append(list, string(r))
	}
	if err := json.Unmarshal(page["next"], &next); err != nil {
		t.Fatal(err)
	}
	return list, next
}

// TestPagesMakeTheList reads each list page by page, by the member next and by
// the header Link, and compares with the list in one piece.
func TestPagesMakeTheList(t *testing.T) {
	s := filled(t, corpus(t, nil))
	add(t, s, "other", corpus(t, func(o *gen.Options) { o.Seed, o.Contracts = 8, 20 }))
	h := api.New(s, api.Options{Public: true, MaxItems: 5000, Items: 500})
	for path, member := range map[string]string{
		"/v1/contracts?": "contracts", "/v1/contracts?sort=deadline&": "contracts", "/v1/contracts?sort=revision&": "contracts",
		"/v1/contracts?status=locked,accepted&": "contracts", "/v1/contracts?finding=gap&venue=file&": "contracts",
		"/v1/contracts?since=2026-09-05T09:30:00Z&": "contracts", "/v1/offers?": "offers", "/v1/offers?status=bound&": "offers", "/v1/offers?venue=other&": "offers",
		"/v1/rooms?": "rooms", "/v1/rooms?class=deal&gaps=1&": "rooms", "/v1/rooms?class=board,other&": "rooms",
		"/v1/findings?code=superseded&code=gap&": "contracts", "/v1/events?": "events", "/v1/events?from=7&": "events",
		"/v1/rooms/tclk-offers/records?venue=file&": "records", "/v1/rooms/" + busyRoom(t, h) + "/records?venue=file&": "records",
	} {
		whole, next := entries(t, mustAsk(t, h, path+"limit=0"), member)
		if len(whole) == 0 || next != "" {
			t.Errorf("%s: %d entries, next %q", path, len(whole), next)
		}
		for _, limit := range []int{1, 2, 7, len(whole) - 1, len(whole), len(whole) + 1} {
			if limit < 1 || len(whole)/limit > 60 {
				continue
			}
			to := fmt.Sprintf("%slimit=%d", path, limit)
			var got []string
			for pages := 0; ; pages++ {
				body, _, res := ask(t, h, to)
				list, next := entries(t, body, member)
				if got = append(got, list...); len(list) > limit || next != "" && len(list) < limit || pages > len(whole) {
					t.Fatalf("%s: a page of %d", to, len(list))
				}
				link := res.Header.Get("Link")
				if next == "" {
					if link != "" {
						t.Errorf("%s: at the end Link is %s", to, link)
					}
					break
				}
				query, ok := strings.CutSuffix(link, `>; rel="next"`)
				query, also := strings.CutPrefix(query, "<?")
				values, err := url.ParseQuery(query)
				if !ok || !also || err != nil || values.Get("after") != next {
					t.Fatalf("%s: next is %s, Link %s", to, next, link)
				}
				before, _, _ := strings.Cut(to, "?")
				to = before + "?" + query
			}
			if !slices.Equal(got, whole) {
				t.Errorf("%s by %d: %d entries, want %d", path, limit, len(got), len(whole))
			}
		}
	}
	// Lines have the same pages.
	for path, format := range map[string]string{"/v1/contracts": "jsonl", "/v1/offers": "jsonl", "/v1/rooms": "jsonl", "/v1/events": "jsonl"} {
		_, _, res := ask(t, h, path+"?limit=2&format="+format)
		if link := res.Header.Get("Link"); !strings.Contains(link, "after=") {
			t.Errorf("%s: Link is %q", path, link)
		}
	}
	for _, path := range []string{"/v1/contracts?after=AAAA", "/v1/contracts?after=%00", "/v1/findings?after=AAAA"} {
		if body, _, res := ask(t, h, path); res.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: status %d\n%s", path, res.StatusCode, body)
		}
	}
	// A cursor belongs to its question.
	_, next := entries(t, mustAsk(t, h, "/v1/contracts?limit=1"), "contracts")
	for _, path := range []string{"/v1/offers?after=", "/v1/contracts?sort=deadline&after=", "/v1/contracts?status=locked&after="} {
		if body, _, res := ask(t, h, path+next); res.StatusCode != http.StatusBadRequest || !strings.Contains(body, "no cursor of this list") {
			t.Errorf("%s: status %d\n%s", path, res.StatusCode, body)
		}
	}
}

// busyRoom is the deal room with the most rows.
func busyRoom(t testing.TB, h http.Handler) string {
	t.Helper()
	var list struct {
		Rooms []struct {
			Room string
			Rows int
		}
	}
	if err := json.Unmarshal([]byte(mustAsk(t, h, "/v1/rooms?class=deal&venue=file")), &list); err != nil {
		t.Fatal(err)
	}
	best := list.Rooms[0]
	for _, r := range list.Rooms {
		if r.Rows > best.Rows {
			best = r
		}
	}
	if best.Rows < 4 {
		t.Fatalf("the busiest room has %d rows", best.Rows)
	}
	return best.Room
}

// TestRecordsAreTheRoom compares the rows of a board and its rooms as JSON with
// those of the text.
func TestRecordsAreTheRoom(t *testing.T) {
	h := api.New(filled(t, demo), api.Options{})
	for _, room := range []string{"tclk-offers", "mb-p-tclk-c24afe77f62cd4cb"} {
		var got []string
		list, _ := entries(t, mustAsk(t, h, "/v1/rooms/"+room+"/records?format=json"), "records")
		for _, e := range list {
			var r struct {
				Seq    int
				Sha256 string
			}
			if err := json.Unmarshal([]byte(e), &r); err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprint(r.Seq, " ", r.Sha256[:16]))
		}
		var want []string
		for _, line := range lines(mustAsk(t, h, "/v1/rooms/"+room+"/records"))[1:] {
			if f := strings.Fields(line); len(f) == 6 {
				want = append(want, f[0]+" "+f[5])
			}
		}
		if len(want) < 2 || !slices.Equal(got, want) {
			t.Errorf("%s: %q, the text has %q", room, got, want)
		}
	}
}

// TestRoomsAndFindingsAreCounted compares both with what the contracts and the
// status say.
func TestRoomsAndFindingsAreCounted(t *testing.T) {
	h := api.New(filled(t, corpus(t, nil)), api.Options{})
	var status struct {
		Venues []struct {
			Board      struct{ Held, Missing uint64 }
			DealRooms  struct{ Rooms, Rows, WithGaps int }
			OtherRooms int
		}
	}
	if err := json.Unmarshal([]byte(mustAsk(t, h, "/v1/status?format=json")), &status); err != nil {
		t.Fatal(err)
	}
	var rooms struct {
		Rooms []struct {
			Room, Class string
			Rows        uint64
			Missing     struct{ Before, Within, Behind uint64 }
			Contracts   []string
		}
	}
	if err := json.Unmarshal([]byte(mustAsk(t, h, "/v1/rooms?format=json")), &rooms); err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	withGaps, rows := 0, 0
	for _, r := range rooms.Rooms {
		counts[r.Class]++
		missing := r.Missing.Before + r.Missing.Within + r.Missing.Behind
		switch r.Class {
		case "board":
			if b := status.Venues[0].Board; b.Held != r.Rows || b.Missing != missing {
				t.Errorf("the board has %d rows and lacks %d, the status says %+v", r.Rows, missing, b)
			}
		case "deal":
			rows += int(r.Rows)
			if missing > 0 {
				withGaps++
			}
			for _, c := range r.Contracts {
				if r.Room != "mb-p-tclk-"+c[2:18] {
					t.Errorf("%s is said to be of %s", r.Room, c)
				}
			}
		}
	}
	d := status.Venues[0].DealRooms
	if counts["board"] != 1 || counts["deal"] != d.Rooms || counts["other"] != status.Venues[0].OtherRooms || withGaps != d.WithGaps || rows != d.Rows || withGaps == 0 {
		t.Errorf("the rooms are %v with %d rows, %d with gaps; the status says %+v", counts, rows, withGaps, status.Venues[0])
	}
	if n := len(lines(mustAsk(t, h, "/v1/rooms?format=jsonl&gaps=1&class=deal"))); n != withGaps {
		t.Errorf("%d rooms with gaps, want %d", n, withGaps)
	}

	want := map[string]int{}
	for _, line := range lines(mustAsk(t, h, "/v1/contracts?format=jsonl")) {
		var c struct{ Findings []struct{ Code string } }
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			t.Fatal(err)
		}
		has := map[string]bool{}
		for _, f := range c.Findings {
			has[f.Code] = true
		}
		for code := range has {
			want[code]++
		}
	}
	list, _ := entries(t, mustAsk(t, h, "/v1/findings?format=json"), "findings")
	for _, e := range list {
		var f struct {
			Code      string
			Contracts int
		}
		if err := json.Unmarshal([]byte(e), &f); err != nil {
			t.Fatal(err)
		}
		if f.Contracts != want[f.Code] {
			t.Errorf("%d contracts have %s, want %d", f.Contracts, f.Code, want[f.Code])
		}
		of, _ := entries(t, mustAsk(t, h, "/v1/findings?format=json&code="+f.Code), "contracts")
		if len(of) != f.Contracts {
			t.Errorf("%d contracts with %s are listed, want %d", len(of), f.Code, f.Contracts)
		}
	}
}

// TestETags holds that an answer keeps its ETag until the store changes, and that
// questions, forms and stores do not share one.
func TestETags(t *testing.T) {
	s := filled(t, demo)
	h := api.New(s, api.Options{Public: true, MaxItems: 5000, Items: 500})
	request := func(h http.Handler, path, etag string) *http.Response {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		r.Header.Set("If-None-Match", etag)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code == http.StatusNotModified && w.Body.Len() > 0 {
			t.Errorf("%s: 304 with a body", path)
		}
		return w.Result()
	}
	paths := []string{
		"/v1/contracts", "/v1/contracts?limit=1", "/v1/contracts?format=jsonl", "/v1/contracts/0xc24afe77", "/v1/offers", "/v1/rooms",
		"/v1/rooms/tclk-offers/records", "/v1/rooms/tclk-offers/records?venue=file", "/v1/findings", "/v1/events", "/v1/parties/" + partyOf(t, h),
	}
	tags := map[string]string{}
	for _, path := range paths {
		tag := request(h, path, "").Header.Get("ETag")
		if tag == "" || tags[tag] != "" {
			t.Errorf("%s has the ETag %s of %q", path, tag, tags[tag])
		}
		tags[tag] = path
		if res := request(h, path, tag); res.StatusCode != http.StatusNotModified || res.Header.Get("ETag") != tag || res.Header.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: status %d, %v", path, res.StatusCode, res.Header)
		}
		if res := request(api.New(s, api.Options{Public: true}), path, tag); res.StatusCode != http.StatusOK {
			t.Errorf("%s: another server says %d", path, res.StatusCode)
		}
	}
	if tag := request(h, "/v1/contracts?format=text", "").Header.Get("ETag"); tag != "" {
		t.Errorf("text has the ETag %s", tag)
	}
	add(t, s, "file", corpus(t, nil))
	for tag, path := range tags {
		if res := request(h, path, tag); res.StatusCode == http.StatusNotModified {
			t.Errorf("%s: the same after the store has changed", path)
		}
	}
}
