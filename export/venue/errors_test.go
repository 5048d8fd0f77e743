package venue

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// hostile is what no error may show as it is.
const hostile = "<script>\x1b[31mlevel=info msg=\"owned\"\r\n"

func zipped(text string) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	io.WriteString(w, text)
	w.Close()
	return b.Bytes()
}

// respond makes a handler for one answer.
func respond(code int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		io.WriteString(w, body)
	}
}

// Every kind of answer that is of no use, and what a caller learns from it.
func TestErrors(t *testing.T) {
	const jsonType, textType, htmlType = "application/json", "text/plain; charset=utf-8", "text/html; charset=utf-8"
	type check func(error) bool
	status := func(code int, html, permanent bool) check {
		return func(err error) bool {
			var e *StatusError
			return errors.As(err, &e) && e.Code == code && e.HTML == html && e.Permanent() == permanent && e.Asked == "/r/x?format=json&since=0"
		}
	}
	bodyKind := func(kind BodyKind) check {
		return func(err error) bool {
			var e *BodyError
			return errors.As(err, &e) && e.Kind == kind && e.Asked == "/r/x?format=json&since=0"
		}
	}
	limited := func(after time.Duration) check {
		return func(err error) bool {
			var e *LimitedError
			return errors.As(err, &e) && e.RetryAfter == after
		}
	}
	redirect := func(code int) check {
		return func(err error) bool {
			var e *RedirectError
			return errors.As(err, &e) && e.Code == code
		}
	}
	cut := func(err error) bool {
		var e *CutError
		return errors.As(err, &e) && errors.Is(err, io.ErrUnexpectedEOF)
	}
	network := func(err error) bool { return errors.As(err, new(*NetworkError)) }
	big := strings.Replace(emptyPage, "}", `,"a":"`+strings.Repeat("a", maxPage)+`"}`, 1)

	for _, tc := range []struct {
		name      string
		h         http.HandlerFunc
		want      check
		temporary bool
	}{
		{"400", respond(400, "400 bad name "+hostile, "Content-Type", textType), status(400, false, true), false},
		{"403", respond(403, hostile, "Content-Type", textType), status(403, false, true), false},
		{"403 of an edge", respond(403, hostile, "Content-Type", htmlType), status(403, true, false), true},
		{"404", respond(404, hostile, "Content-Type", textType), status(404, false, true), false},
		{"405", respond(405, hostile, "Content-Type", textType), status(405, false, true), false},
		{"410", respond(410, hostile, "Content-Type", textType), status(410, false, true), false},
		{"204", respond(204, ""), status(204, false, false), true},
		{"431", respond(431, "", "Content-Type", textType), status(431, false, false), true},
		{"500", respond(500, hostile, "Content-Type", textType), status(500, false, false), true},
		{"503", respond(503, hostile, "Content-Type", textType, "Connection", "close"), status(503, false, false), true},
		{"524", respond(524, hostile, "Content-Type", htmlType), status(524, true, false), true},
		{"429", respond(429, hostile, "Content-Type", textType, "Retry-After", "2"), limited(2 * time.Second), true},
		{"429 without a time", respond(429, hostile, "Content-Type", textType), limited(defaultPause), true},
		{"307", respond(307, "", "Location", "http://elsewhere.example/"+strings.Repeat("a", 5000)), redirect(307), true},
		{"301", respond(301, "", "Location", "https://elsewhere.example/<script>\xff"), redirect(301), false},
		{"304", respond(304, ""), redirect(304), true},
		{"HTML with 200", respond(200, hostile, "Content-Type", htmlType), bodyKind(BodyHTML), true},
		{"text with 200", respond(200, emptyPage, "Content-Type", textType), bodyKind(BodyType), true},
		{"no JSON", respond(200, hostile, "Content-Type", jsonType), bodyKind(BodyNotJSON), true},
		{"another room", respond(200, strings.Replace(emptyPage, `"x"`, `"y"`, 1), "Content-Type", jsonType), bodyKind(BodyShape), true},
		{"too long", respond(200, big, "Content-Type", jsonType), bodyKind(BodyLimit), false},
		{"too long by its header", respond(200, big, "Content-Type", jsonType, "Content-Length", fmt.Sprint(len(big)+wireExtra)), bodyKind(BodyLimit), false},
		{"empty gzip without end", respond(200, strings.Repeat(string(zipped("")), maxPage/20), "Content-Type", jsonType, "Content-Encoding", "gzip"), bodyKind(BodyLimit), false},
		{"too long unpacked", respond(200, string(zipped(big)), "Content-Type", jsonType, "Content-Encoding", "gzip"), bodyKind(BodyLimit), false},
		{"brotli", respond(200, "\x0b\x02\x80", "Content-Type", jsonType, "Content-Encoding", "br"), bodyKind(BodyCompression), true},
		{"gzip twice", respond(200, "", "Content-Type", jsonType, "Content-Encoding", "gzip, gzip"), bodyKind(BodyCompression), true},
		{"no gzip", respond(200, hostile+hostile, "Content-Type", jsonType, "Content-Encoding", "gzip"), bodyKind(BodyCompression), true},
		{"damaged gzip", respond(200, string(damage(zipped(emptyPage))), "Content-Type", jsonType, "Content-Encoding", "gzip"), bodyKind(BodyCompression), true},
		{"cut gzip", respond(200, string(zipped(emptyPage)[:30]), "Content-Type", jsonType, "Content-Encoding", "gzip"), cut, true},
		{"empty gzip", respond(200, "", "Content-Type", jsonType, "Content-Encoding", "gzip"), cut, true},
		{"cut", respond(200, emptyPage, "Content-Type", jsonType, "Content-Length", "1000"), cut, true},
		{"hung up", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, network, true},
		{"no HTTP", func(w http.ResponseWriter, r *http.Request) {
			conn, _, _ := w.(http.Hijacker).Hijack()
			io.WriteString(conn, hostile+"\r\n\r\n")
			conn.Close()
		}, network, true},
		{"long headers", respond(200, emptyPage, "Content-Type", jsonType, "X-Long", strings.Repeat("a", 2*maxHeader)), network, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := serve(t, tc.h)
			p, err := c.Room(t.Context(), "x", Query{})
			if p != nil || err == nil || !tc.want(err) {
				t.Fatalf("%+v, %T %v", p, err, err)
			}
			if body := new(BodyError); errors.As(err, &body) && body.Kind.String() == "unknown" {
				t.Error("a kind without a code")
			}
			if Temporary(err) != tc.temporary {
				t.Errorf("temporary: %v", Temporary(err))
			}
			if Temporary(fmt.Errorf("room x: %w", err)) != tc.temporary {
				t.Error("not so when it is wrapped")
			}
			plain(t, err)
		})
	}
}

func damage(b []byte) []byte {
	b[len(b)-6] ^= 1 // in the checksum
	return b
}

// plain checks that an error can go into a log: it says what was asked, on one
// line, and nothing of what a stranger wrote.
func plain(t *testing.T, err error) {
	t.Helper()
	s := err.Error()
	if len(s) > 700 || strings.Contains(s, "<script>\x1b") || strings.Contains(s, "owned\"\r") || strings.Contains(s, "elsewhere") || !strings.HasPrefix(s, "venue: ") || !strings.Contains(s, "/r/x") {
		t.Errorf("%q", s)
	}
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			t.Errorf("%q", s)
			break
		}
	}
}

// No redirect is followed, to another host or to the same.
func TestRedirectElsewhere(t *testing.T) {
	asked := 0
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { asked++ }))
	defer other.Close()
	mine := 0
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mine++
		to := other.URL + r.URL.Path
		if mine%2 == 0 {
			to = "/r/x/say/nick/hello"
		}
		http.Redirect(w, r, to, []int{301, 302, 303, 307, 308}[mine%5])
	})
	ctx := t.Context()
	for range 5 {
		_, e1 := c.Room(ctx, "x", Query{})
		_, e2 := c.Export(ctx, "x", 0, func([]byte, uint64, bool) error { return nil })
		_, e3 := c.NoteKeys(ctx, "x")
		_, _, e4 := c.Note(ctx, "x", "y")
		for _, err := range []error{e1, e2, e3, e4} {
			if e := new(RedirectError); !errors.As(err, &e) || e.Place == "" {
				t.Errorf("%v", err)
			}
		}
		if l, err := c.Discover(ctx); err != nil || l.Found {
			t.Errorf("%+v, %v", l, err)
		}
	}
	if asked != 0 || mine != 5*6 {
		t.Errorf("the other host got %d requests, this one %d", asked, mine)
	}
}

// A venue that cannot show that it is the one named is not asked anything.
func TestStrangersCertificate(t *testing.T) {
	asked := false
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { asked = true }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	c := client(t, Options{Origin: s.URL})
	_, err := c.Room(t.Context(), "x", Query{})
	if !errors.As(err, new(*NetworkError)) || !strings.Contains(err.Error(), "certificate") || asked {
		t.Errorf("asked: %v, %v", asked, err)
	}
	plain(t, err)
}

func TestNameErrors(t *testing.T) {
	c := client(t, Options{Transport: carry(func(r *http.Request) (*http.Response, error) {
		t.Errorf("asked %s", r.URL)
		return nil, io.EOF
	})})
	_, e1 := c.Room(t.Context(), hostile, Query{})
	_, e2 := c.NoteKeys(t.Context(), "UPPER")
	_, _, e3 := c.Note(t.Context(), "ok", "")
	_, e4 := c.Export(t.Context(), "a/../b", 0, nil)
	for i, err := range []error{e1, e2, e3, e4} {
		var e *NameError
		if !errors.As(err, &e) || e.What != []string{"room", "namespace", "key", "room"}[i] || Temporary(err) || strings.ContainsAny(err.Error(), "\x1b<\n") {
			t.Errorf("%q", err)
		}
	}
	if b := c.Budget(); b.Taken != 0 {
		t.Errorf("%+v", b)
	}
}

// A bomb is cut off long before it is unpacked, also where the limit alone
// would let it pass; rows that somebody chose to compress well are read.
func TestBomb(t *testing.T) {
	send := func(body []byte) *Client {
		s := httptest.NewServer(respond(200, string(body), "Content-Type", kindLines, "Content-Encoding", "gzip"))
		c := client(t, Options{Origin: s.URL, MaxExport: mostExport})
		t.Cleanup(func() { c.Close(); s.Close() })
		return c
	}
	nothing := func([]byte, uint64, bool) error { return nil }

	var e *BodyError
	_, err := send(zipped(strings.Repeat("\n", 16<<20))).Export(t.Context(), "x", 0, nothing)
	if !errors.As(err, &e) || e.Kind != BodyLimit || !strings.Contains(err.Error(), "bomb") || Temporary(err) {
		t.Errorf("%v", err)
	}

	var rows strings.Builder
	for i := range 150 {
		fmt.Fprintf(&rows, `{"seq":%d,"ts":"2026-11-30T16:00:%02d.077710Z","from":"a","text":"%s"}`+"\n", i+1, i%60, strings.Repeat("😀", 4096))
	}
	packed := zipped(rows.String())
	if rows.Len() < 200*len(packed) || rows.Len() < ratioFloor {
		t.Fatalf("%d bytes of %d are no hard case", len(packed), rows.Len())
	}
	x, err := send(packed).Export(t.Context(), "x", 150, nothing)
	if err != nil || x.Lines != 150 || x.Bytes != int64(rows.Len()) {
		t.Errorf("%d bytes for %d: %+v, %v", len(packed), rows.Len(), x, err)
	}
}

// trickle answers with a byte now and then, without end.
func trickle(w http.ResponseWriter, r *http.Request, code int, kind string, every time.Duration) {
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(code)
	for r.Context().Err() == nil {
		io.WriteString(w, "\n")
		w.(http.Flusher).Flush()
		select {
		case <-time.After(every):
		case <-r.Context().Done():
		}
	}
}

// What never ends is given up in time, and the caller is told how.
func TestSlow(t *testing.T) {
	hang := func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	room := func(q Query) func(context.Context, *Client) error {
		return func(ctx context.Context, c *Client) error { _, err := c.Room(ctx, "x", q); return err }
	}
	export := func(ctx context.Context, c *Client) error {
		_, err := c.Export(ctx, "x", 0, func([]byte, uint64, bool) error { return nil })
		return err
	}
	for _, tc := range []struct {
		name  string
		h     http.HandlerFunc
		call  func(context.Context, *Client) error
		after time.Duration
		cut   bool
		says  string
	}{
		{"page, no answer", hang, room(Query{}), 20 * time.Second, false, "not whole after 20s"},
		{"long poll, no answer", hang, room(Query{Wait: 10 * time.Second}), 25 * time.Second, false, "not whole after 25s"},
		{"export, no answer", hang, export, 2 * time.Minute, false, "not whole after 2m0s"},
		{"page, stalled", func(w http.ResponseWriter, r *http.Request) { trickle(w, r, 200, kindJSON, time.Hour) }, room(Query{}), 15 * time.Second, true, "no byte came for 15s"},
		{"page, trickling", func(w http.ResponseWriter, r *http.Request) { trickle(w, r, 200, kindJSON, 3*time.Second) }, room(Query{}), 20 * time.Second, true, "not whole after 20s"},
		{"export, stalled", func(w http.ResponseWriter, r *http.Request) { trickle(w, r, 200, kindLines, time.Hour) }, export, 15 * time.Second, true, "no byte came for 15s"},
		{"export, trickling", func(w http.ResponseWriter, r *http.Request) { trickle(w, r, 200, kindLines, 14*time.Second) }, export, 2 * time.Minute, true, "not whole after 2m0s"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := pipe(t, tc.h)
				begin := time.Now()
				err := tc.call(t.Context(), c)
				if took := time.Since(begin); took != tc.after {
					t.Errorf("after %s: %v", took, err)
				}
				if err == nil || errors.As(err, new(*CutError)) != tc.cut || errors.As(err, new(*NetworkError)) == tc.cut ||
					!Temporary(err) || !strings.Contains(err.Error(), tc.says) {
					t.Fatalf("%v", err)
				}
				plain(t, err)
			})
		})
	}
}

// The rest of an answer that is of no use is not waited for.
func TestSlowRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := pipe(t, func(w http.ResponseWriter, r *http.Request) { trickle(w, r, 500, kindText, time.Second) })
		begin := time.Now()
		_, err := c.Room(t.Context(), "x", Query{})
		if took := time.Since(begin); !errors.As(err, new(*StatusError)) || took != drainTime {
			t.Errorf("after %s: %v", took, err)
		}
	})
}

// The caller's own end is told from the venue's.
func TestCallersEnd(t *testing.T) {
	headers := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", kindJSON)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
	for _, h := range []http.HandlerFunc{headers, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }} {
		synctest.Test(t, func(t *testing.T) {
			c := pipe(t, h)
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(3*time.Second, cancel)
			_, err := c.Room(ctx, "x", Query{})
			if !errors.Is(err, context.Canceled) || Temporary(err) {
				t.Errorf("cancelled: %v", err)
			}
			ctx, cancel = context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			_, err = c.Room(ctx, "x", Query{})
			if !errors.Is(err, context.DeadlineExceeded) || !Temporary(err) || errors.As(err, new(*CutError)) || errors.As(err, new(*NetworkError)) {
				t.Errorf("deadline: %v", err)
			}
			plain(t, err)
		})
	}
}

// A connection is used again after an answer that was of no use.
func TestConnectionKept(t *testing.T) {
	addrs := map[string]bool{}
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		addrs[r.RemoteAddr] = true
		http.Error(w, "404 no note", 404)
	})
	for range 5 {
		if _, found, err := c.Note(t.Context(), "a", "b"); found || err != nil {
			t.Fatal(err)
		}
	}
	if len(addrs) != 1 {
		t.Errorf("%d connections", len(addrs))
	}
}

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                  "plain",
		`dial "x"`:               `dial "x"`,
		"a\nb\x1b[31mé":          `a\nb\x1b[31m\u00e9`,
		"\xff":                   `\xff`,
		strings.Repeat("a", 400): strings.Repeat("a", 300) + "...",
	} {
		if got := printable(in); got != want {
			t.Errorf("%q: %s", in, got)
		}
	}
}
