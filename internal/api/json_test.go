package api_test

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tclk-audit/tclk-audit/internal/api"
	"github.com/tclk-audit/tclk-audit/internal/audit"
	"github.com/tclk-audit/tclk-audit/internal/testkit"
	"github.com/tclk-audit/tclk-audit/store"
)

// partyOf names a party of the store's first contract.
func partyOf(t testing.TB, h http.Handler) string {
	t.Helper()
	var list struct{ Contracts []struct{ Payer string } }
	if err := json.Unmarshal([]byte(mustAsk(t, h, "/v1/contracts?format=json&limit=1")), &list); err != nil {
		t.Fatal(err)
	}
	return list.Contracts[0].Payer
}

func lines(s string) []string { return slices.Collect(strings.Lines(s)) }

func schema(t *testing.T, name string) *testkit.Schema {
	t.Helper()
	s, err := testkit.LoadSchema("../../docs/" + name + ".schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestContractsAreWhatVerifySays compares the contracts with an audit of the
// files, byte for byte, and offers with its counts.
func TestContractsAreWhatVerifySays(t *testing.T) {
	for _, dir := range exports(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			h := api.New(filled(t, dir), api.Options{})
			want, got := verifyLines(t, dir), lines(mustAsk(t, h, "/v1/contracts?format=jsonl"))
			if len(want) != len(got) {
				t.Fatalf("%d contracts, an audit has %d", len(got), len(want))
			}
			for i := range want {
				if same, ok := strings.CutPrefix(got[i], strings.TrimSuffix(want[i], "}\n")); !ok || !strings.HasPrefix(same, `,"venue":"file","revision":`) {
					t.Errorf("the store says\n%san audit\n%s", got[i], want[i])
				}
			}
			r, err := audit.Run(t.Context(), []string{dir}, audit.Options{})
			if err != nil {
				t.Fatal(err)
			}
			o := r.Summary().Offers
			for word, n := range map[string]int64{"proposed": o.Proposed, "bound": o.Bound, "cancelled": o.Cancelled, "expired": o.Expired} {
				if got := len(lines(mustAsk(t, h, "/v1/offers?format=jsonl&status="+word))); got != int(n) {
					t.Errorf("%d offers are %s, an audit has %d", got, word, n)
				}
			}
		})
	}
}

func TestSchemasHold(t *testing.T) {
	for _, dir := range []string{demo, corpus(t, nil)} {
		s := filled(t, dir)
		h := api.New(s, api.Options{})
		check := func(name, def, text string) {
			if err := schema(t, name).Check(def, text); err != nil {
				t.Errorf("%s %s: %v\n%.2000s", name, def, err, text)
			}
		}
		check("contracts", "", mustAsk(t, h, "/v1/contracts?format=json"))
		for _, line := range lines(mustAsk(t, h, "/v1/contracts?format=jsonl&limit=50")) {
			check("contracts", "contract", line)
			var c struct{ Contract string }
			if err := json.Unmarshal([]byte(line), &c); err != nil {
				t.Fatal(err)
			}
			check("show", "", mustAsk(t, h, "/v1/contracts/"+c.Contract+"?format=json&sightings=all"))
		}
		check("offers", "", mustAsk(t, h, "/v1/offers?format=json"))
		check("party", "", mustAsk(t, h, "/v1/parties/"+partyOf(t, h)+"?format=json"))
		check("status", "", mustAsk(t, h, "/v1/status?format=json"))
		check("rooms", "", mustAsk(t, h, "/v1/rooms?format=json"))
		for _, line := range lines(mustAsk(t, h, "/v1/rooms?format=jsonl")) {
			check("rooms", "entry", line)
			var r struct{ Room string }
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatal(err)
			}
			check("records", "", mustAsk(t, h, "/v1/rooms/"+r.Room+"/records?format=json"))
		}
		check("findings", "", mustAsk(t, h, "/v1/findings?format=json"))
		check("findings", "", mustAsk(t, h, "/v1/findings?format=json&code=gap"))
		for _, line := range lines(mustAsk(t, h, "/v1/events")) {
			check("events", "", line)
		}
		check("events", "page", mustAsk(t, h, "/v1/events?format=json"))
	}
}

// TestContractSchemaIsVerifys holds that the two describe the same contract.
func TestContractSchemaIsVerifys(t *testing.T) {
	of := func(name string) map[string]any {
		return schema(t, name).Root["$defs"].(map[string]any)["contract"].(map[string]any)["properties"].(map[string]any)
	}
	for _, name := range []string{"contracts", "show"} {
		more := maps.Clone(of(name))
		delete(more, "venue")
		delete(more, "revision")
		if !reflect.DeepEqual(more, of("verify")) {
			t.Errorf("%s.schema.json describes another contract", name)
		}
	}
}

func TestRefusals(t *testing.T) {
	h := api.New(filled(t, demo), api.Options{})
	public := api.New(filled(t, demo), api.Options{Public: true, MaxItems: 1})
	for _, c := range []struct {
		h          http.Handler
		path       string
		status     int
		exit, word string
	}{
		{h, "/v1/contracts?status=paid", 400, "2", "claimed"},
		{h, "/v1/contracts?finding=x", 400, "2", "secret-exposed"},
		{h, "/v1/contracts?sort=size", 400, "2", "deadline"},
		{h, "/v1/contracts?since=yesterday", 400, "2", "RFC 3339"},
		{h, "/v1/contracts?colour=1", 400, "2", "color"},
		{h, "/v1/contracts?party=bob", 400, "2", "did:key"},
		{h, "/v1/contracts/0x12345", 400, "2", "8 or more"},
		{h, "/v1/contracts/0x00000000", 404, "3", "in sight"},
		{h, "/v1/parties/did:key:z6MkrtxY5oCBWoKbUkWToTvWWMiQi2ceLKUWudVzaCVrGtV5", 404, "3", "in sight"},
		{h, "/v1/rooms/mb-p-tclk-0000000000000000/records", 404, "3", "in sight"},
		{h, "/v1/rooms/A/records", 400, "2", "room"},
		{h, "/v1/nothing", 404, "2", "/v1/contracts"},
		{h, "/v1/events?format=sse", 400, "2", "jsonl"},
		{h, "/v1/events?wait=1", 400, "2", "since"},
		{h, "/v1/events?since=1&from=2", 400, "2", "one of them"},
		{public, "/v1/contracts/0xc24afe77?sightings=all", 400, "2", "venue"},
		{public, "/v1/contracts/0xc24afe77?secrets=1", 400, "2", "not shown"},
		{public, "/v1/rooms/tclk-offers/records?format=export", 400, "2", "not shown"},
	} {
		body, exit, res := ask(t, c.h, c.path)
		if res.StatusCode != c.status || exit != c.exit || !strings.Contains(body, c.word) {
			t.Errorf("%s: status %d, exit %s, %q", c.path, res.StatusCode, exit, body)
		}
	}
	if n := len(lines(mustAsk(t, public, "/v1/contracts?format=jsonl&limit=0"))); n != 1 {
		t.Errorf("a public server gave %d contracts", n)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/status", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: status %d", w.Code)
	}
	if _, exit, _ := ask(t, h, "/v1/contracts/0xc24afe77"); exit != "3" {
		t.Errorf("an indeterminate contract: exit %s", exit)
	}
	if _, exit, _ := ask(t, h, "/v1/contracts/0xfd5e4c2f"); exit != "0" {
		t.Errorf("an established contract: exit %s", exit)
	}
}

// TestFilters compares each filter with a look at all contracts, and the quick
// way of listing by status with the slow one.
func TestFilters(t *testing.T) {
	s := filled(t, corpus(t, nil))
	h := api.New(s, api.Options{})
	type contract struct {
		Contract, Status, Binding, Payer, Payee string
		Chosen                                  bool
		Outlook                                 struct{ Code string }
		Findings                                []struct{ Code string }
		Steps                                   []struct{ TsMs int64 }
	}
	list := func(query string) (all []contract) {
		for _, line := range lines(mustAsk(t, h, "/v1/contracts?format=jsonl&"+query)) {
			var c contract
			if err := json.Unmarshal([]byte(line), &c); err != nil {
				t.Fatal(err)
			}
			all = append(all, c)
		}
		return all
	}
	all := list("")
	did := all[len(all)/2].Payer
	for query, passes := range map[string]func(contract) bool{
		"status=locked,claimed":          func(c contract) bool { return c.Status == "locked" || c.Status == "claimed" },
		"status=none":                    func(c contract) bool { return c.Status == "" },
		"outlook=lapsed&outlook=settled": func(c contract) bool { return c.Outlook.Code == "lapsed" || c.Outlook.Code == "settled" },
		"binding=superseded":             func(c contract) bool { return c.Binding == "superseded" },
		"binding=chosen":                 func(c contract) bool { return c.Chosen },
		"party=" + did:                   func(c contract) bool { return c.Payer == did || c.Payee == did },
		"finding=gap,deal-room-not-in-sight": func(c contract) bool {
			return slices.ContainsFunc(c.Findings, func(f struct{ Code string }) bool {
				return f.Code == "gap" || f.Code == "deal-room-not-in-sight"
			})
		},
		"limit=1000": func(contract) bool { return true },
	} {
		var want []string
		for _, c := range all {
			if passes(c) {
				want = append(want, c.Contract)
			}
		}
		var got []string
		for _, c := range list(query) {
			got = append(got, c.Contract)
		}
		if len(want) == 0 || !slices.Equal(got, want) {
			t.Errorf("%s: %d contracts, want %d", query, len(got), len(want))
		}
	}
	r, err := s.Reader()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, sort := range []store.Order{store.ByAccept, store.ByDeadline} {
		for _, limit := range []int{1, 7, 60, 5000} {
			quick, n, err := r.List(store.Filter{Sort: sort, Limit: limit})
			if err != nil {
				t.Fatal(err)
			}
			slow, m, err := r.List(store.Filter{Sort: sort, Limit: limit, Keep: func(*store.Item) bool { return true }})
			if err != nil {
				t.Fatal(err)
			}
			if n != m || n != len(all) || !slices.EqualFunc(quick, slow, func(a, b store.Item) bool { return reflect.DeepEqual(a, b) }) {
				t.Errorf("sort %d, limit %d: the two ways differ (%d, %d of %d)", sort, limit, n, m, len(all))
			}
		}
	}
}

// TestOverSocket asks over a unix socket while another venue is being read in.
func TestOverSocket(t *testing.T) {
	s := filled(t, demo)
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: api.New(s, api.Options{})} //nolint:gosec // a test
	go func() { _ = srv.Serve(l) }()
	dir := corpus(t, nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		add(t, s, "other", dir)
	}()
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", l.Addr().String())
	}}}
	ended := false
	for n := 0; !ended || n < 3; n++ {
		select {
		case <-done:
			ended = true
		default:
		}
		for path, exit := range map[string]string{
			"/v1/contracts?format=jsonl&venue=file": "0", "/v1/status": "0", "/v1/contracts/0xc24afe77?sightings=all": "3", "/v1/events": "0",
			"/v1/offers": "0", "/v1/rooms/tclk-offers/records?venue=file": "0", "/v1/contracts/0x00000000": "3", "/v1/contracts?status=x": "2",
		} {
			res, err := client.Get("http://store" + path)
			if err != nil {
				t.Fatal(err)
			}
			_, err = io.Copy(io.Discard, res.Body)
			if err != nil || res.Body.Close() != nil {
				t.Fatal(err)
			}
			got := res.Trailer.Get(api.ExitHeader) + res.Header.Get(api.ExitHeader)
			if got != exit {
				t.Errorf("%s: exit %q, want %q: %v", path, got, exit, res.Trailer)
			}
		}
	}
	if err := srv.Close(); err != nil {
		t.Fatal(err)
	}
	h := api.New(s, api.Options{})
	if body, _, res := ask(t, h, "/v1/rooms/tclk-offers/records"); res.StatusCode != 400 || !strings.Contains(body, "other") {
		t.Errorf("the board of two venues: status %d, %s", res.StatusCode, body)
	}
	for _, path := range []string{"/v1/contracts?limit=0", "/v1/offers?limit=0", "/v1/events?format=text", "/v1/status", "/v1/rooms/tclk-offers/records?venue=other&text=1"} {
		for _, c := range []byte(mustAsk(t, h, path)) {
			if c != '\n' && (c < 0x20 || c > 0x7e) {
				t.Fatalf("%s holds byte %#x", path, c)
			}
		}
	}
}
