package serve_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tclk-audit/tclk-audit/internal/ingest"
	"github.com/tclk-audit/tclk-audit/internal/serve"
)

func TestHostsAndOrigins(t *testing.T) {
	s := start(t, demo, func(o *serve.Options) {
		o.AllowHosts, o.AllowOrigins = []string{"Audit.example.org"}, []string{"https://board.example"}
	})
	port := s.Addr().String()[strings.LastIndexByte(s.Addr().String(), ':'):]
	for _, c := range []struct {
		host, origin, path string
		status             int
		cors               string
	}{
		{"", "", "/healthz", 200, ""},
		{"localhost", "", "/healthz", 200, ""},
		{"LOCALHOST." + port, "", "/healthz", 200, ""},
		{"[::1]" + port, "", "/healthz", 200, ""},
		{"[::1]", "", "/healthz", 200, ""},
		{"audit.example.org", "", "/healthz", 200, ""},
		{"audit.example.org:443", "", "/api/v1/status", 200, ""},
		{"evil.example", "", "/healthz", 421, ""},
		{"evil.example", "", "/", 421, ""},
		{"evil.example" + port, "", "/api/v1/status", 421, ""},
		{"127.0.0.1.evil.example", "", "/metrics", 421, ""},
		{"localhost.evil.example", "", "/metrics", 421, ""},
		{"127.0.0.2", "", "/metrics", 421, ""},
		{"[::1", "", "/metrics", 421, ""},
		{"", s.base, "/api/v1/status", 200, ""},
		{"audit.example.org", "https://audit.example.org", "/api/v1/status", 200, ""},
		{"", "https://board.example", "/api/v1/status", 200, "https://board.example"},
		{"", "https://board.example", "/api/v1/nothing", 404, "https://board.example"},
		{"", "http://board.example", "/api/v1/status", 403, ""},
		{"", "https://evil.example", "/api/v1/status", 403, ""},
		{"", "https://board.example.evil.example", "/api/v1/openapi.json", 403, ""},
		{"", "null", "/api/v1/status", 403, ""},
		{"", "http://localhost", "/api/v1/status", 403, ""},
		{"", "https://evil.example", "/healthz", 200, ""},
	} {
		var headers []string
		if c.host != "" {
			headers = append(headers, "Host", c.host)
		}
		if c.origin != "" {
			headers = append(headers, "Origin", c.origin)
		}
		res, _ := s.get(t, c.path, headers...)
		if res.StatusCode != c.status || res.Header.Get("Access-Control-Allow-Origin") != c.cors {
			t.Errorf("%s of %q from %q: status %d, CORS %q", c.path, c.host, c.origin, res.StatusCode, res.Header.Get("Access-Control-Allow-Origin"))
		}
	}
	if n := s.Counts().Misdirected; n != 12 {
		t.Errorf("%d requests are counted as misdirected", n)
	}
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	s := filled(t, demo)
	for _, o := range []serve.Options{
		{AllowHosts: []string{"https://x.example"}}, {AllowHosts: []string{""}}, {AllowOrigins: []string{"x.example"}},
		{AllowOrigins: []string{"https://x.example/"}}, {AllowOrigins: []string{"*"}}, {Addr: "127.0.0.1:99999"}, {Addr: "nowhere"},
	} {
		if o.Addr == "" {
			o.Addr = "127.0.0.1:0"
		}
		o.Store = s
		if srv, err := serve.Listen(o); err == nil {
			t.Errorf("%+v is taken", o)
			_ = srv.Close(t.Context())
		}
	}
}

func TestWhatEveryAnswerSays(t *testing.T) {
	s := start(t, demo, nil)
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"GET", "/", "", 200},
		{"HEAD", "/", "", 200},
		{"GET", "/healthz", "", 200},
		{"GET", "/readyz", "", 200},
		{"GET", "/metrics", "", 200},
		{"GET", "/api/v1/contracts", "", 200},
		{"HEAD", "/api/v1/contracts", "", 200},
		{"HEAD", "/api/v1/events?format=sse", "", 200},
		{"GET", "/api/v1/contracts?status=x", "", 400},
		{"GET", "/api/v1/nothing", "", 404},
		{"GET", "/api/v2/contracts", "", 404},
		{"GET", "/nothing", "", 404},
		{"GET", "/v1/contracts", "", 404},
		{"GET", "/debug/pprof/", "", 404},
		{"GET", "/debug/pprof/cmdline", "", 404},
		{"POST", "/api/v1/backup?dir=/x", "", 405},
		{"POST", "/api/v1/contracts", "", 405},
		{"PUT", "/", "", 405},
		{"DELETE", "/api/v1/contracts/0xc24afe77", "", 405},
		{"OPTIONS", "/api/v1/contracts", "", 405},
		{"TRACE", "/", "", 405},
		{"GET", "/api/v1/contracts", "x", 413},
	} {
		req := s.request(t, c.method, c.path)
		if c.body != "" {
			req.Body, req.ContentLength = io.NopCloser(strings.NewReader(c.body)), int64(len(c.body))
		}
		res, err := s.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil || res.Body.Close() != nil || c.method == "HEAD" && len(body) > 0 {
			t.Errorf("%s %s: %v, %q", c.method, c.path, err, body)
		}
		if res.StatusCode != c.status {
			t.Errorf("%s %s: status %d", c.method, c.path, res.StatusCode)
		}
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'", "Cross-Origin-Resource-Policy": "same-origin",
			"Access-Control-Allow-Origin": "",
		} {
			if got := res.Header.Get(name); got != want {
				t.Errorf("%s %s: %s is %q", c.method, c.path, name, got)
			}
		}
		if len(res.Trailer) > 0 || res.Header.Get("Trailer") != "" {
			t.Errorf("%s %s has trailers", c.method, c.path)
		}
		if c.status == 405 && res.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s %s: Allow is %q", c.method, c.path, res.Header.Get("Allow"))
		}
		if c.status >= 400 && res.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %s: a refusal is %s", c.method, c.path, res.Header.Get("Content-Type"))
		}
	}
	if res, body := s.get(t, "/api/v1/contracts?status=x", "Accept", "text/plain"); res.StatusCode != 400 || !strings.Contains(body, "\nhint: there are none, ") {
		t.Errorf("a refusal as text is %q", body)
	}
	if _, body := s.get(t, "/api/v1/status"); strings.Contains(body, s.store.Dir()) {
		t.Error("the status tells where the store lies")
	}
	profiles := start(t, demo, func(o *serve.Options) { o.PProf, o.Metrics = true, nil })
	for path, status := range map[string]int{"/debug/pprof/": 200, "/debug/pprof/heap": 200, "/metrics": 404} {
		if res, _ := profiles.get(t, path); res.StatusCode != status {
			t.Errorf("%s: status %d", path, res.StatusCode)
		}
	}
}

func TestReady(t *testing.T) {
	var late atomic.Bool
	s := start(t, demo, func(o *serve.Options) {
		o.Ready = func() (bool, string) { return !late.Load(), "the board is 12 s behind\x1b[2J" }
	})
	if res, body := s.get(t, "/readyz"); res.StatusCode != 200 || body != "ready\n" {
		t.Errorf("status %d, %q", res.StatusCode, body)
	}
	late.Store(true)
	res, body := s.get(t, "/readyz")
	if res.StatusCode != 503 || !strings.HasPrefix(body, "not ready: the board is 12 s behind") || strings.Contains(body, "\x1b") {
		t.Errorf("status %d, %q", res.StatusCode, body)
	}
	if res, _ := s.get(t, "/healthz"); res.StatusCode != 200 {
		t.Errorf("status %d", res.StatusCode)
	}
}

func TestPanicIsNoCrash(t *testing.T) {
	var told atomic.Value
	s := start(t, demo, func(o *serve.Options) {
		o.Metrics = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Has("late") {
				_, _ = io.WriteString(w, "begun\n")
			}
			panic("the secret word")
		})
		o.Failed = func(err error) { told.Store(err.Error()) }
	})
	res, body := s.get(t, "/metrics")
	if res.StatusCode != 500 || strings.Contains(body, "secret") || strings.Contains(body, ".go") {
		t.Errorf("status %d, %q", res.StatusCode, body)
	}
	if said, _ := told.Load().(string); !strings.Contains(said, "the secret word") || !strings.Contains(said, "serve_test.go") {
		t.Errorf("whoever runs it is told %q", said)
	}
	// An answer that had begun is cut, so that nobody takes it for whole.
	if res, err := s.client.Do(s.request(t, http.MethodGet, "/metrics?late=1")); err == nil {
		if _, err := io.ReadAll(res.Body); err == nil {
			t.Error("a cut answer ends well")
		}
		_ = res.Body.Close()
	}
	if n := s.Counts().Panics; n < 2 { // the client asks again where a connection was cut
		t.Errorf("%d panics are counted", n)
	}
	if res, _ := s.get(t, "/healthz"); res.StatusCode != 200 {
		t.Errorf("after it: status %d", res.StatusCode)
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	s := start(t, demo, func(o *serve.Options) { o.MaxConnections = 3 })
	var held []net.Conn
	dial := func() net.Conn {
		c, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	ask := func(c net.Conn) int {
		if _, err := fmt.Fprintf(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.StatusCode == http.StatusServiceUnavailable && res.Header.Get("Retry-After") == "" {
			t.Error("nobody says when to ask again")
		}
		_, _ = io.Copy(io.Discard, res.Body)
		return res.StatusCode
	}
	for range 3 {
		held = append(held, dial())
		if status := ask(held[len(held)-1]); status != 200 {
			t.Errorf("within the bound: status %d", status)
		}
	}
	if status := ask(dial()); status != 503 {
		t.Errorf("beyond the bound: status %d", status)
	}
	if n := s.Counts().Refused; n != 1 {
		t.Errorf("%d refused connections are counted", n)
	}
	_ = held[0].Close()
	for range 200 {
		if status := ask(dial()); status == 200 {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Error("a place that was given back is not given again")
}

// message is one of a stream.
type message struct{ id, event, data string }

// messages reads a stream.
func messages(t testing.TB, res *http.Response) <-chan message {
	t.Helper()
	if kind := res.Header.Get("Content-Type"); res.StatusCode != http.StatusOK || kind != "text/event-stream" {
		t.Fatalf("status %d, %s", res.StatusCode, kind)
	}
	list := make(chan message, 1000)
	go func() {
		defer close(list)
		defer res.Body.Close()
		var m message
		lines := bufio.NewScanner(res.Body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch name {
			case "id":
				m.id = value
			case "event":
				m.event = value
			case "data":
				m.data = value
			case "":
				if m.event != "" {
					list <- m
				}
				m = message{}
			}
		}
	}()
	return list
}

// TestStreamFollowsTheStore follows a store while another board is read into it,
// goes on where a stream was left, and compares with the list.
func TestStreamFollowsTheStore(t *testing.T) {
	s := start(t, demo, nil)
	res, err := s.client.Do(s.request(t, http.MethodGet, "/api/v1/events", "Accept", "text/event-stream"))
	if err != nil {
		t.Fatal(err)
	}
	stream := messages(t, res)
	if _, err := ingest.Run(t.Context(), s.store, []string{corpus(t)}, ingest.Options{Venue: "other"}); err != nil {
		t.Fatal(err)
	}
	last, err := s.store.LastEvent()
	if err != nil || last < 50 {
		t.Fatalf("%d events, %v", last, err)
	}
	_, whole := s.get(t, "/api/v1/events?format=jsonl&limit=0")
	want := strings.Split(strings.TrimSpace(whole), "\n")
	for n := uint64(1); n <= last; n++ {
		m := <-stream
		if m.id != strconv.FormatUint(n, 10) || m.data != want[n-1] || !strings.Contains(m.data, `"kind":"`+m.event+`"`) {
			t.Fatalf("message %d is %+v, the list has\n%s", n, m, want[n-1])
		}
	}
	res, err = s.client.Do(s.request(t, http.MethodGet, "/api/v1/events?format=sse&since=1", "Last-Event-ID", strconv.FormatUint(last-2, 10)))
	if err != nil {
		t.Fatal(err)
	}
	resumed := messages(t, res)
	for n := last - 1; n <= last; n++ {
		if m := <-resumed; m.id != strconv.FormatUint(n, 10) {
			t.Fatalf("it goes on with %+v, want %d", m, n)
		}
	}
	began := time.Now()
	s.close(t)
	for _, list := range []<-chan message{stream, resumed} {
		m := <-list
		if want := fmt.Sprintf(`{"reason":"the server ends","since":%d}`, last); m.event != "end" || m.data != want {
			t.Errorf("the last message is %+v, want %s", m, want)
		}
		if m, more := <-list; more {
			t.Errorf("behind the last message stands %+v", m)
		}
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("closing took %v", took)
	}
}

func TestCloseEndsWaits(t *testing.T) {
	s := start(t, demo, nil)
	last, err := s.store.LastEvent()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan string)
	go func() {
		res, err := s.client.Get(fmt.Sprintf("%s/api/v1/events?wait=30&since=%d", s.base, last))
		if err != nil {
			done <- err.Error()
			return
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		done <- fmt.Sprint(res.StatusCode, " ", err, string(body))
	}()
	for s.Counts().Requests == 0 {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(50 * time.Millisecond)
	began := time.Now()
	s.close(t)
	said := <-done
	if took := time.Since(began); took > 3*time.Second || !strings.HasPrefix(said, "200 <nil>") || !strings.Contains(said, `"events": []`) {
		t.Errorf("closing took %v, and the answer is %s", took, said)
	}
}

// TestStreamsAreBounded opens as many streams as there may be.
func TestStreamsAreBounded(t *testing.T) {
	s := start(t, demo, nil)
	ctx, quit := context.WithCancel(t.Context())
	defer quit()
	refused := false
	for n := range 65 {
		res, err := s.client.Do(s.request(t, http.MethodGet, "/api/v1/events?format=sse&since=1000").WithContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if refused = res.StatusCode == http.StatusServiceUnavailable; refused != (n == 64) {
			t.Fatalf("stream %d: status %d", n+1, res.StatusCode)
		}
	}
	if res, body := s.get(t, "/api/v1/events?wait=1&since=1000"); res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a wait beside them: status %d, %s", res.StatusCode, body)
	}
	if res, _ := s.get(t, "/api/v1/events"); res.StatusCode != http.StatusOK {
		t.Errorf("a list beside them: status %d", res.StatusCode)
	}
}
