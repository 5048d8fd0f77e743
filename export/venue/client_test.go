package venue

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// carry is a transport without a network.
type carry func(*http.Request) (*http.Response, error)

func (f carry) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answer makes a response for carry.
func answer(r *http.Request, code int, kind, body string) *http.Response {
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {kind}}, Request: r,
		ContentLength: int64(len(body)), Body: io.NopCloser(strings.NewReader(body)),
	}
}

// serve starts a server on a socket and a client for it.
func serve(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(h)
	c := client(t, Options{Origin: s.URL})
	t.Cleanup(func() { c.Close(); s.Close() })
	return c
}

func client(t *testing.T, o Options) *Client {
	t.Helper()
	if o.Origin == "" {
		o.Origin = "https://venue.example"
	}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// pipe starts a server without sockets, so that a bubble's clock can run.
func pipe(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	l := &listener{conns: make(chan net.Conn), done: make(chan struct{})}
	s := &http.Server{Handler: h, ErrorLog: nil}
	go s.Serve(l)
	tr := newTransport()
	tr.Proxy = nil
	tr.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		mine, theirs := net.Pipe()
		select {
		case l.conns <- theirs:
			return mine, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	t.Cleanup(func() { tr.CloseIdleConnections(); s.Close() })
	return client(t, Options{Origin: "http://venue.example", Transport: tr})
}

type listener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}
func (l *listener) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *listener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// capture is an answer of a real venue.
type capture struct {
	path string // and query
	resp *http.Response
	body []byte
}

// captures reads the answers in testdata that a GET brought.
func captures(t testing.TB) []capture {
	t.Helper()
	text, err := os.ReadFile("testdata/captures.txt")
	if err != nil {
		t.Fatal(err)
	}
	var all []capture
	for _, part := range strings.Split(string(text), "--- REQUEST: curl ")[1:] {
		request, rest, _ := strings.Cut(part, "\n")
		if strings.HasPrefix(request, "-") {
			continue // another method
		}
		u, err := url.Parse(request)
		if err != nil {
			t.Fatal(err)
		}
		head, body, _ := strings.Cut(rest, "\n\n")
		body = strings.TrimSuffix(body, "\n") // that of the listing
		head = strings.Replace(head, "Transfer-Encoding: chunked", fmt.Sprint("Content-Length: ", len(body)), 1)
		resp, err := http.ReadResponse(bufio.NewReader(strings.NewReader(strings.ReplaceAll(head, "\n", "\r\n")+"\r\n\r\n"+body)), nil)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatalf("%s: %v", request, err)
		}
		all = append(all, capture{u.RequestURI(), resp, whole})
	}
	if len(all) < 12 {
		t.Fatalf("%d captures", len(all))
	}
	return all
}

// A venue that answers what a real one answered.
func replay(t *testing.T) *Client {
	byPath := map[string]capture{}
	for _, c := range captures(t) {
		byPath[c.path] = c
	}
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		c, ok := byPath[r.URL.RequestURI()]
		if !ok {
			http.Error(w, "404 no route matched.", 404)
			return
		}
		for name, v := range c.resp.Header {
			w.Header()[name] = v
		}
		w.WriteHeader(c.resp.StatusCode)
		w.Write(c.body)
	})
}

func TestCapturedPages(t *testing.T) {
	c, ctx := replay(t), t.Context()
	yes := true
	for _, tc := range []struct {
		room        string
		q           Query
		rows        int
		first, last uint64
		generation  uint64
		held        *bool
	}{
		{"tclk-offers", Query{Since: -1, Limit: 2}, 0, 0, 0, 0, nil},
		{"mb-p-tclk-fedcba9876543210", Query{Since: -1}, 3, 1, 3, 1, nil},
		{"mb-p-tclk-fedcba9876543210", Query{Since: 3}, 0, 0, 3, 1, nil},
		{"mb-p-tclk-fedcba9876543210", Query{Since: 3, Wait: 600 * time.Millisecond}, 0, 0, 3, 1, &yes},
		{"mb-p-tclk-0000000000000000", Query{Since: 0}, 0, 0, 0, 0, nil},
		{"gap", Query{Since: 50, Limit: 2}, 2, 300, 301, 1, nil},
		{"events", Query{Since: -1, Limit: 2}, 2, 12, 13, 1, nil},
	} {
		p, err := c.Room(ctx, tc.room, tc.q)
		if err != nil {
			t.Errorf("%s %+v: %v", tc.room, tc.q, err)
			continue
		}
		if p.Room != tc.room || len(p.Rows) != tc.rows || p.FirstSeq != tc.first || p.LastSeq != tc.last ||
			!p.HasGeneration || p.Generation != tc.generation || (p.WaitHeld == nil) != (tc.held == nil) ||
			tc.held != nil && *p.WaitHeld != *tc.held {
			t.Errorf("%s %+v: %+v", tc.room, tc.q, p)
		}
		if got := p.Date.Format(time.DateTime); !strings.HasPrefix(got, "2026-11-30 16:0") {
			t.Errorf("%s: the venue's clock says %s", tc.room, got)
		}
		if since := time.Since(p.Fetched); since < 0 || since > time.Minute {
			t.Errorf("fetched %s ago", since)
		}
	}
}

// The rows of a page are the lines of the export, byte by byte, whether the
// page is one line, as from 0.14.4, or indented, as before.
func TestRowsAreExportLines(t *testing.T) {
	const room = "mb-p-tclk-fedcba9876543210"
	c, ctx := replay(t), t.Context()
	var lines []string
	var seqs []uint64
	e, err := c.Export(ctx, room, 3, func(line []byte, seq uint64, ok bool) error {
		if !ok {
			t.Errorf("unreadable: %s", line)
		}
		lines, seqs = append(lines, string(line)), append(seqs, seq)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if e.Room != room || e.Generation != 1 || !e.HasGeneration || e.FirstSeq != 1 || e.LastSeq != 3 || e.Lines != 3 || e.Unreadable != 0 {
		t.Errorf("%+v", e)
	}
	text := strings.Join(lines, "\n") + "\n"
	if e.Bytes != int64(len(text)) || e.SHA256 != sha256.Sum256([]byte(text)) || e.URL != c.Origin()+"/r/"+room+"/export" {
		t.Errorf("%+v", e.Reply)
	}

	p, err := c.Room(ctx, room, Query{Since: -1})
	if err != nil {
		t.Fatal(err)
	}
	page := `{"room":"` + room + `","count":3,"first_seq":1,"last_seq":3,"messages":[` + strings.Join(lines, ",") + "]}"
	old, kind, what := parsePage(indent(t, page), room)
	if kind != 0 {
		t.Fatal(what)
	}
	if old.HasGeneration {
		t.Error("a page without a generation has one")
	}
	for _, p := range []*Page{p, old} {
		if len(p.Rows) != 3 {
			t.Fatalf("%d rows", len(p.Rows))
		}
		for i, r := range p.Rows {
			if string(r.Raw) != lines[i] || r.Seq != seqs[i] {
				t.Errorf("row %d is %s\nthe line is %s", r.Seq, r.Raw, lines[i])
			}
		}
	}
}

func TestCapturedRest(t *testing.T) {
	c, ctx := replay(t), t.Context()

	e, err := c.Export(ctx, "reapme", 6, func([]byte, uint64, bool) error { return nil })
	if err != nil || e.Generation != 2 || e.FirstSeq != 6 || e.LastSeq != 6 || e.Lines != 1 {
		t.Errorf("a room in its second life: %+v, %v", e, err)
	}
	e, err = c.Export(ctx, "mb-p-tclk-0000000000000000", 0, func([]byte, uint64, bool) error { return errors.New("a line") })
	if err != nil || e.Generation != 0 || !e.HasGeneration || e.Lines != 0 || e.LastSeq != 0 {
		t.Errorf("a room that never was: %+v, %v", e, err)
	}

	value, found, err := c.Note(ctx, "tclk-ab", "0123456789abcd")
	if value != "locked" || !found || err != nil {
		t.Errorf("the note: %q, %v, %v", value, found, err)
	}
	value, found, err = c.Note(ctx, "tclk-ab", "ffffffffffffff")
	if value != "" || found || err != nil {
		t.Errorf("a note that is not there: %q, %v, %v", value, found, err)
	}

	l, err := c.Discover(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if !l.Found || l.Version != "0.14.5+port-of-0.7.0" || l.ReadsPerMinute != 1_000_000 || l.Published != 1_000_000 ||
		l.MaxWait != 10*time.Second || l.WaitersPerIP != 4 || l.Stillborn != 24*time.Hour || !l.Exports ||
		l.Source != "/config, no /.well-known/agent.json (status 404)" {
		t.Errorf("%+v", l)
	}
	if b := c.Budget(); b.Full != 800_000 {
		t.Errorf("%+v", b)
	}
}

func TestOptions(t *testing.T) {
	for origin, want := range map[string]string{
		"https://technocore.chat":       "https://technocore.chat",
		"https://Technocore.chat/":      "https://technocore.chat",
		"http://127.0.0.1:8767":         "http://127.0.0.1:8767",
		"http://[::1]:8767":             "http://[::1]:8767",
		"":                              "",
		"technocore.chat":               "",
		"ftp://technocore.chat":         "",
		"unix:///run/x":                 "",
		"https://":                      "",
		"https://:443":                  "",
		"https://u@technocore.chat":     "",
		"https://u:p@technocore.chat":   "",
		"https://technocore.chat/r":     "",
		"https://technocore.chat?x":     "",
		"https://technocore.chat?":      "",
		"https://technocore.chat#x":     "",
		"https://technocore.chat#":      "",
		"https://technocore.chat:0":     "",
		"https://technocore.chat:x":     "",
		"https://technocore.chat:99999": "",
		"https://x\n":                   "",
	} {
		c, err := New(Options{Origin: origin})
		switch {
		case want == "" && err == nil:
			t.Errorf("%q was taken", origin)
		case want == "" && strings.ContainsAny(err.Error(), "\n\x00"):
			t.Errorf("%q", err)
		case want != "" && (err != nil || c.Origin() != want):
			t.Errorf("%q: %v", origin, err)
		}
	}
	for _, o := range []Options{
		{Share: -0.1}, {Share: 1.01}, {ReadsPerMinute: -1}, {ReadsPerMinute: 2_000_000},
		{MaxExport: -1}, {MaxExport: 1 << 40}, {UserAgent: "a\r\nX: y"}, {UserAgent: strings.Repeat("a", 300)},
	} {
		o.Origin = "http://venue.example"
		if _, err := New(o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}

// allowed are the only requests that may ever be made.
var allowed = regexp.MustCompile(`^(/r/[a-z0-9][a-z0-9_-]{0,47}(\?format=json(&since=\d+)?(&limit=\d+)?(&wait=[\d.]+)?(&n=\d+)?|/export)` +
	`|/kv/[a-z0-9][a-z0-9_-]{0,47}(\?format=json|/[a-z0-9][a-z0-9_-]{0,47})|/config|/\.well-known/agent\.json)$`)

// askAll calls everything with the same names.
func askAll(c *Client, room, ns, key string, q Query) (sent int) {
	ctx := context.Background()
	c.Discover(ctx)
	_, e1 := c.Room(ctx, room, q)
	_, e2 := c.Export(ctx, room, 0, func([]byte, uint64, bool) error { return nil })
	_, e3 := c.NoteKeys(ctx, ns)
	_, _, e4 := c.Note(ctx, ns, key)
	for _, err := range []error{e1, e2, e3, e4} {
		if !errors.As(err, new(*NameError)) {
			sent++
		}
	}
	return sent + 2
}

// recorder is a client whose requests are checked against allowed.
func recorder(t interface {
	Helper()
	Errorf(string, ...any)
	Fatal(...any)
}) (c *Client, sent *int) {
	t.Helper()
	sent = new(int)
	c, err := New(Options{Origin: "https://venue.example", ReadsPerMinute: maxReads, Share: 1, Transport: carry(func(r *http.Request) (*http.Response, error) {
		*sent++
		if r.Method != "GET" || r.URL.Scheme != "https" || r.URL.Host != "venue.example" || r.Host != "venue.example" ||
			r.URL.User != nil || r.URL.Fragment != "" || r.Body != nil || !allowed.MatchString(r.URL.RequestURI()) {
			t.Errorf("asked: %s %q", r.Method, r.URL)
		}
		return answer(r, 404, "text/plain", "404"), nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	return c, sent
}

func TestPaths(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, sent := recorder(t)
		name := rapid.OneOf(
			rapid.StringMatching(`[a-z0-9][a-z0-9_-]{0,47}`),
			rapid.StringMatching(`[a-z0-9][a-z0-9_/%.?#&=\\ -]{0,50}`),
			rapid.String(),
			rapid.SampledFrom([]string{"x/say/nick/hello", "x/say-signed/d/s/1/t", "..", ".", "x/set/y", "x%2Fsay", "x\n", "x?", "", "-x", strings.Repeat("x", 49)}))
		want := askAll(c, name.Draw(t, "room"), name.Draw(t, "ns"), name.Draw(t, "key"), Query{
			Since: rapid.Int64().Draw(t, "since"), Limit: rapid.Int().Draw(t, "limit"),
			Wait: time.Duration(rapid.Int64().Draw(t, "wait")), Bust: rapid.Bool().Draw(t, "bust"),
		})
		if *sent != want {
			t.Errorf("%d requests, and %d calls whose names are good", *sent, want)
		}
	})
}

func FuzzPaths(f *testing.F) {
	f.Add("tclk-offers", "tclk-ab", "0123456789abcd", int64(5), 200, int64(time.Second), true)
	f.Add("x/say/nick/hello", "a/b/set/c", "k/set/v", int64(-1), -1, int64(-1), false)
	f.Fuzz(func(t *testing.T, room, ns, key string, since int64, limit int, wait int64, bust bool) {
		c, _ := recorder(t)
		askAll(c, room, ns, key, Query{since, limit, time.Duration(wait), bust})
	})
}

func TestQueries(t *testing.T) {
	var got []string
	c := client(t, Options{Transport: carry(func(r *http.Request) (*http.Response, error) {
		got = append(got, r.URL.RequestURI())
		return answer(r, 404, "text/plain", ""), nil
	})})
	for _, q := range []Query{
		{Since: -1}, {}, {Since: 7, Limit: 1000}, {Since: 7, Wait: time.Hour}, {Since: 7, Wait: 1500 * time.Millisecond},
		{Since: -1, Limit: -5, Wait: -1}, {Since: 1 << 62, Wait: time.Microsecond},
	} {
		c.Room(t.Context(), "x", q)
	}
	want := []string{
		"/r/x?format=json", "/r/x?format=json&since=0", "/r/x?format=json&since=7&limit=200",
		"/r/x?format=json&since=7&wait=10", "/r/x?format=json&since=7&wait=1.5",
		"/r/x?format=json", "/r/x?format=json&since=4611686018427387904",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("asked:\n%s", strings.Join(got, "\n"))
	}

	got = nil
	for range 2 {
		c.Room(t.Context(), "x", Query{Since: -1, Bust: true})
	}
	if got[0] == got[1] || !strings.HasPrefix(got[0], "/r/x?format=json&n=") {
		t.Errorf("a cache could answer: %q", got)
	}
}

// What goes out says who asks and that gzip is welcome, and nothing else.
func TestHeaders(t *testing.T) {
	var got http.Header
	c := serve(t, func(w http.ResponseWriter, r *http.Request) { got = r.Header })
	c.Room(t.Context(), "x", Query{})
	if len(got) != 2 || got.Get("User-Agent") != "tclk-audit" || got.Get("Accept-Encoding") != "gzip" {
		t.Errorf("%v", got)
	}
}

func TestReplyHeaders(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.Header().Set("X-Origin-Fallback", "1")
		w.Header().Set("Age", "77")
		io.WriteString(w, emptyPage)
	})
	p, err := c.Room(t.Context(), "x", Query{})
	if err != nil || !p.Fallback || p.Age != 77*time.Second || p.Bytes != int64(len(emptyPage)) {
		t.Errorf("%+v, %v", p, err)
	}
}

const emptyPage = `{"room":"x","count":0,"first_seq":null,"last_seq":0,"messages":[]}`

// Many callers at once, against a real server: for the race detector, and to
// see that every call gets its own answer.
func TestConcurrent(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		room := strings.Split(r.URL.Path, "/")[2]
		if strings.HasSuffix(r.URL.Path, "/export") {
			w.Header().Set("Content-Type", kindLines)
			fmt.Fprintf(w, `{"seq":1,"text":"%s"}`+"\n", room)
			return
		}
		w.Header().Set("Content-Type", kindJSON)
		fmt.Fprintf(w, `{"room":"%s","count":1,"first_seq":4,"last_seq":4,"messages":[{"seq":4}]}`, room)
	})
	var wg sync.WaitGroup
	for i := range 20 {
		room := fmt.Sprint("room", i)
		wg.Go(func() {
			if _, err := c.Room(t.Context(), room, Query{}); err != nil {
				t.Error(err)
			}
			var got []byte
			_, err := c.Export(t.Context(), room, 0, func(line []byte, _ uint64, _ bool) error {
				got = bytes.Clone(line)
				return nil
			})
			if want := `{"seq":1,"text":"` + room + `"}`; err != nil || string(got) != want {
				t.Errorf("%s: %s, %v", room, got, err)
			}
			c.Ready()
			c.Budget()
			c.Limits()
		})
	}
	wg.Wait()
	if b := c.Budget(); b.Taken != 40 || b.Waiting != 0 {
		t.Errorf("%+v", b)
	}
}
