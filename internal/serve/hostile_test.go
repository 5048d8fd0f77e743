package serve_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tclk-audit/tclk-audit/internal/api"
	"github.com/tclk-audit/tclk-audit/internal/testkit"
	"github.com/tclk-audit/tclk-audit/protocol"
)

// evil is text that does harm where it is shown as it is; in a frame no line can
// carry DEL.
const (
	evil      = "\x1b[2J\x1b]0;owned\x07<script>alert(1)</script>&\x7f\u009b\u202e\u2028\r\ndata: owned\n\nevent: owned\n"
	evilFrame = "\x1b[2J\x07<script>alert(1)</script>&\u009b\u202e\u2028\r\ndata: owned\n\nevent: owned\n"
)

// hostile writes a board and a deal room with harm in everything that a stranger
// or a party can write, and returns the folder and the contract.
func hostile(t testing.TB) (dir string, contract protocol.ID) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "export\x1b[0m<b>")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	keys := testkit.NewKeys(1)
	deal := testkit.NewDeal(testkit.NewRand(1, "hostile"), keys.Party(0), keys.Party(1), testkit.Terms{})
	deal.Offer.Job = &protocol.Job{Proto: "a2a<b>", ID: evilFrame, Context: evilFrame}
	deal.Seal()
	board := testkit.NewBoard()
	deal.Open(board, testkit.Epoch)
	board.Say("nick", testkit.Epoch+2_000, evil)
	board.Say(strings.Repeat("<b>"+evil, 200), testkit.Epoch+3_000, evil)
	board.PostText(keys.Signer(2), testkit.Epoch+4_000, `x","from":"y`+evil)
	board.Line(`{"seq":` + evil)
	board.PostText(keys.Signer(2), testkit.Epoch+5_000, `tclk1 {"type":"<b>`+evil+`"}`)
	room := deal.NewRoom()
	lock := deal.Lock()
	lock.Ref = "<script>alert(1)</script>"
	room.Post(deal.Payer, testkit.Epoch+10_000, lock)
	room.PostText(keys.Signer(3), testkit.Epoch+11_000, evil)
	room.Line(`{"seq":"<b>` + evil)
	room.Post(deal.Payee, testkit.Epoch+12_000, deal.Heartbeat(deal.Payee, evilFrame))
	room.Post(deal.Payee, testkit.Epoch+13_000, deal.Cancel(deal.Payee, evilFrame))
	reveal := deal.Reveal()
	reveal.Ref = lock.Ref
	room.Post(deal.Payee, testkit.Epoch+14_000, reveal)
	if err := testkit.WriteFolder(dir, board, room); err != nil {
		t.Fatal(err)
	}
	return dir, deal.ID()
}

// harmless reports what an answer shows that must not be shown. Markup does no
// harm in plain text, which no browser takes for another kind.
func harmless(kind, body string) string {
	for _, c := range []byte(body) {
		if c != '\n' && (c < 0x20 || c > 0x7e) {
			return string([]byte{c})
		}
	}
	for _, word := range []string{"<script", "<b>", "\ndata: owned", "\nevent: owned"} {
		if strings.Contains(body, word) && !(word[0] == '<' && strings.HasPrefix(kind, "text/plain")) {
			return word
		}
	}
	return ""
}

// TestHostileBoard asks for everything about a board that means harm, and with
// harm in the questions.
func TestHostileBoard(t *testing.T) {
	dir, id := hostile(t)
	s := start(t, dir, nil)
	doc := document(t)
	party := ""
	for _, path := range s.Paths() {
		to := strings.NewReplacer("{id}", id.String(), "{room}", protocol.DealRoom(id)).Replace(path)
		if strings.Contains(to, "{did}") {
			if party = testkit.NewKeys(1).Party(0).DID; party == "" {
				t.Fatal("no party")
			}
			to = strings.ReplaceAll(to, "{did}", party)
		}
		queries := []string{""}
		if strings.HasPrefix(path, "/api/v1/") {
			queries = append(queries, "?format=text", "?format=jsonl", "?format=json", "?limit=1",
				"?"+url.Values{evil: {evil}}.Encode(), "?"+url.Values{"venue": {evil}, "format": {"text"}}.Encode(),
				"?"+url.Values{"after": {evil}}.Encode(), "?"+url.Values{"format": {evil}}.Encode(), "?%zz", "?;")
		}
		for _, q := range queries {
			res, body := s.get(t, to+q)
			if res.StatusCode >= 500 || q == "" && res.StatusCode != 200 {
				t.Errorf("%s%s: status %d\n%s", to, q, res.StatusCode, body)
			}
			if bad := harmless(res.Header.Get("Content-Type"), body); bad != "" && !strings.HasSuffix(path, "openapi.json") {
				t.Errorf("%s%s shows %q", to, q, bad)
			}
			checkAnswer(t, doc, path, res, body)
			for name, values := range res.Header {
				if bad := harmless("", strings.Join(values, "")); bad != "" {
					if name != "Link" || bad != "<" {
						t.Errorf("%s%s: the header %s shows %q", to, q, name, bad)
					}
				}
			}
		}
	}
	for _, path := range []string{
		"/api/v1/contracts/" + url.PathEscape(evil), "/api/v1/parties/" + url.PathEscape(evil), "/api/v1/rooms/" + url.PathEscape(evil) + "/records",
		"/" + url.PathEscape(evil), "/api/v1/rooms/tclk-offers/records", "/api/v1/rooms/tclk-offers/records?format=text",
	} {
		res, body := s.get(t, path)
		if bad := harmless(res.Header.Get("Content-Type"), body); bad != "" || res.StatusCode >= 500 {
			t.Errorf("%s: status %d, shows %q", path, res.StatusCode, bad)
		}
	}
	res, err := s.client.Do(s.request(t, http.MethodGet, "/api/v1/events?format=sse"))
	if err != nil {
		t.Fatal(err)
	}
	stream := messages(t, res)
	s.close(t)
	for m := range stream {
		if m.event == "owned" || harmless("", m.data) != "" {
			t.Errorf("the stream says %+v", m)
		}
	}
}

// FuzzQuestions asks whatever there is with any query and headers: no question
// makes a failure of the server, and none is answered raw.
func FuzzQuestions(f *testing.F) {
	dir, _ := hostile(f)
	ending := make(chan struct{}) // nobody waits for long
	close(ending)
	h := api.New(filled(f, dir), api.Options{Public: true, MaxItems: 50, Items: 20, Ending: ending, Failed: func(err error) { f.Error(err) }})
	paths := api.Paths()
	for i := range paths {
		for _, q := range []string{
			"", "format=text&limit=0", "limit=1&after=AAAA", "since=2&wait=9", "status=locked,none&status=x", "venue=file&class=deal&gaps=1",
			"code=gap&code=superseded", "from=18446744073709551615", "format=sse&format=json", "party=did:key:z6Mk", "%00=%ff&;", "sort=deadline",
		} {
			f.Add(uint8(i), "tclk-offers", q, "*/*", `"x"`)
		}
	}
	f.Fuzz(func(t *testing.T, path uint8, name, query, accept, tag string) {
		to := paths[int(path)%len(paths)]
		for _, part := range []string{"{id}", "{did}", "{room}"} {
			to = strings.ReplaceAll(to, part, url.PathEscape(name))
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/status", nil)
		u, err := url.ParseRequestURI(to + "?" + query)
		if err != nil {
			return // no server passes it on
		}
		r.URL = u
		r.Header.Set("Accept", accept)
		r.Header.Set("If-None-Match", tag)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code >= 500 {
			t.Fatalf("%s?%s: status %d\n%s", to, query, w.Code, w.Body)
		}
		if bad := harmless(w.Header().Get("Content-Type"), w.Body.String()); bad != "" && w.Code/100 != 3 { // the mux redirects paths that are not clean
			t.Fatalf("%s?%s shows %q", to, query, bad)
		}
	})
}
