package control_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tclk-audit/tclk-audit/internal/control"
)

func serve(t *testing.T, dir string, h http.HandlerFunc) *control.Server {
	t.Helper()
	s, err := control.Serve(dir, h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// handler answers in each way that a handler may.
func handler(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/header":
		w.Header().Set(control.ExitHeader, "1")
		fmt.Fprint(w, "one")
	case "/trailer":
		w.Header().Set("Trailer", control.ExitHeader)
		fmt.Fprint(w, strings.Repeat("long ", 10_000))
		w.Header().Set(control.ExitHeader, "3")
	case "/late":
		fmt.Fprint(w, "late")
		w.(http.Flusher).Flush()
		w.Header().Set(http.TrailerPrefix+control.ExitHeader, "0")
	case "/empty":
		w.Header().Set(control.ExitHeader, "0")
	case "/bad":
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, "no such word")
	case "/endless":
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, strings.Repeat("x", 1<<20))
	case "/failed":
		w.Header().Set("Trailer", control.ExitHeader+", "+control.ErrorHeader+", "+control.WarningHeader)
		fmt.Fprint(w, "half of")
		w.(http.Flusher).Flush()
		w.Header().Set(control.ExitHeader, "4")
		w.Header().Set(control.ErrorHeader, "a bad block")
		w.Header().Add(control.WarningHeader, "one")
		w.Header().Add(control.WarningHeader, "two")
	case "/none":
		fmt.Fprint(w, "no code")
	case "/code":
		w.Header().Set(control.ExitHeader, "many")
	case "/cut":
		fmt.Fprint(w, "half of")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	case "/query":
		w.Header().Set(control.ExitHeader, "0")
		fmt.Fprint(w, r.Method, r.URL.RawQuery)
	}
}

// TestSameAnswer holds that it makes no difference who answers.
func TestSameAnswer(t *testing.T) {
	dir := t.TempDir()
	serve(t, dir, handler)
	for _, c := range []struct {
		target, out string
		want        control.Answer
		err         string
	}{
		{"/header", "one", control.Answer{Status: 200, Exit: 1}, ""},
		{"/trailer", strings.Repeat("long ", 10_000), control.Answer{Status: 200, Exit: 3}, ""},
		{"/late", "late", control.Answer{Status: 200}, ""},
		{"/empty", "", control.Answer{Status: 200}, ""},
		{"/bad", "", control.Answer{Status: 400, Said: "no such word"}, ""},
		{"/endless", "", control.Answer{Status: 404, Said: strings.Repeat("x", 64<<10)}, ""},
		{"/failed", "half of", control.Answer{Status: 200, Exit: 4, Failed: "a bad block", Warnings: []string{"one", "two"}}, ""},
		{"/none", "no code", control.Answer{}, "cut short"},
		{"/code", "", control.Answer{}, "no exit code"},
		{"/cut", "half of", control.Answer{}, "cut short"},
		{"/query?a=1&b=%20", "GETa=1&b=%20", control.Answer{Status: 200}, ""},
	} {
		for who, ask := range map[string]func(io.Writer) (control.Answer, error){
			"the same process": func(out io.Writer) (control.Answer, error) {
				return control.Ask(t.Context(), http.HandlerFunc(handler), "GET", c.target, out)
			},
			"another one": func(out io.Writer) (control.Answer, error) {
				return control.NewClient(dir).Ask(t.Context(), "GET", c.target, out)
			},
		} {
			var out bytes.Buffer
			got, err := ask(&out)
			switch {
			case c.err != "":
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("%s of %s: error %v, want %q", c.target, who, err, c.err)
				}
			case err != nil || !cmp.Equal(got, c.want):
				t.Errorf("%s of %s: %+v, %v; want %+v", c.target, who, got, err, c.want)
			}
			if out.String() != c.out {
				t.Errorf("%s of %s prints %.40q, want %.40q", c.target, who, out.String(), c.out)
			}
		}
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, syscall.EPIPE }

func TestReaderGone(t *testing.T) {
	dir := t.TempDir()
	serve(t, dir, handler)
	if _, err := control.Ask(t.Context(), http.HandlerFunc(handler), "GET", "/trailer", broken{}); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("the same process: %v", err)
	}
	if _, err := control.NewClient(dir).Ask(t.Context(), "GET", "/trailer", broken{}); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("another one: %v", err)
	}
}

func TestSocket(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, control.Name)
	ask := func() error {
		_, err := control.NewClient(dir).Ask(t.Context(), "GET", "/empty", io.Discard)
		return err
	}
	if err := ask(); !errors.Is(err, control.ErrNobody) {
		t.Errorf("nobody there: %v", err)
	}

	// What a process that was killed leaves behind.
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := errors.Join(l.Close(), os.Mkdir(filepath.Join(dir, ".control"), 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := ask(); !errors.Is(err, control.ErrNobody) {
		t.Errorf("a dead process: %v", err)
	}
	if control.NewClient(dir).Answers(t.Context()) {
		t.Error("a dead process answers")
	}

	s := serve(t, dir, handler)
	if err := ask(); err != nil || !control.NewClient(dir).Answers(t.Context()) {
		t.Error(err)
	}
	st, err := os.Lstat(path)
	if err != nil || st.Mode() != os.ModeSocket|0o600 {
		t.Errorf("the socket is %v, %v", st.Mode(), err)
	}
	if _, err := control.Serve(dir, nil); err == nil || !strings.Contains(err.Error(), "another process answers") {
		t.Errorf("a second one: %v", err)
	}
	if err := errors.Join(s.Close(t.Context()), s.Close(t.Context())); err != nil {
		t.Error(err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}

	// Somebody's file is not taken for a dead socket.
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := control.Serve(dir, nil); err == nil || !strings.Contains(err.Error(), "no socket") {
		t.Errorf("a file of that name: %v", err)
	}
}

func TestLongPath(t *testing.T) {
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Skip("no way around here")
	}
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 30))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	serve(t, dir, handler)
	if _, err := control.NewClient(dir).Ask(t.Context(), "GET", "/empty", io.Discard); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(filepath.Join(dir, control.Name)); err != nil {
		t.Error(err)
	}
}

// TestClose holds that Close waits for an answer as long as its context lasts,
// cuts it then, and returns when no handler runs any more.
func TestClose(t *testing.T) {
	for name, patient := range map[string]bool{"patient": true, "not patient": false} {
		begun, over := make(chan struct{}), make(chan struct{})
		dir := t.TempDir()
		s := serve(t, dir, func(w http.ResponseWriter, r *http.Request) {
			defer close(over)
			fmt.Fprint(w, "half")
			w.(http.Flusher).Flush()
			close(begun)
			if patient {
				time.Sleep(20 * time.Millisecond)
				w.Header().Set(http.TrailerPrefix+control.ExitHeader, "0")
				return
			}
			<-r.Context().Done()
		})
		asked := make(chan error, 1)
		go func() {
			_, err := control.NewClient(dir).Ask(t.Context(), "GET", "/", io.Discard)
			asked <- err
		}()
		<-begun
		ctx, cancel := context.WithCancel(t.Context())
		if !patient {
			cancel()
		}
		if err := s.Close(ctx); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
		select {
		case <-over:
		default:
			t.Errorf("%s: a handler still runs", name)
		}
		if err := <-asked; errors.Is(err, control.ErrCut) == patient {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBounds holds that what is too large is refused, and that more questions
// than are answered at once wait for their turn.
func TestBounds(t *testing.T) {
	dir := t.TempDir()
	serve(t, dir, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			return
		}
		w.Header().Set(control.ExitHeader, "0")
	})
	if _, err := control.NewClient(dir).Ask(t.Context(), "GET", "/?"+strings.Repeat("a", 1<<20), io.Discard); err == nil {
		// The server may answer or hang up; either way it did not work.
		a, _ := control.NewClient(dir).Ask(t.Context(), "GET", "/?"+strings.Repeat("a", 1<<20), io.Discard)
		if a.Status == http.StatusOK {
			t.Error("a question of a megabyte was answered")
		}
	}
	c := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", filepath.Join(dir, control.Name))
	}}}
	resp, err := c.Post("http://store/", "text/plain", strings.NewReader(strings.Repeat("a", 1<<20)))
	if err == nil {
		if resp.StatusCode == http.StatusOK {
			t.Error("a body of a megabyte was read")
		}
		_ = resp.Body.Close()
	}
	c.CloseIdleConnections()

	const many = 50
	var conns [many]net.Conn
	for i := range conns {
		if conns[i], err = net.Dial("unix", filepath.Join(dir, control.Name)); err != nil {
			t.Fatal(err)
		}
	}
	asked := make(chan error, 1)
	go func() {
		_, err := control.NewClient(dir).Ask(t.Context(), "GET", "/", io.Discard)
		asked <- err
	}()
	select {
	case <-asked:
		t.Error("more questions than the bound are answered at once")
	case <-time.After(50 * time.Millisecond):
	}
	for _, c := range conns {
		_ = c.Close()
	}
	if err := <-asked; err != nil {
		t.Error(err)
	}
}

func TestBackup(t *testing.T) {
	dir := t.TempDir()
	var into string
	fail := error(nil)
	h := control.WithBackup(http.HandlerFunc(handler), func(d string) error { into = d; return fail })
	ask := func(method, target string) control.Answer {
		a, err := control.Ask(t.Context(), h, method, target, io.Discard)
		if err != nil {
			t.Error(err)
		}
		return a
	}
	if a := ask("POST", "/v1/backup?dir="+dir); a.Status != 200 || into != dir {
		t.Errorf("%+v into %q", a, into)
	}
	if a := ask("POST", "/v1/backup?dir=here"); a.Status != 400 {
		t.Errorf("a relative path: %+v", a)
	}
	fail = errors.New("the disk is full")
	if a := ask("POST", "/v1/backup?dir="+dir); a.Status != 500 || !strings.Contains(a.Said, "full") {
		t.Errorf("an error: %+v", a)
	}
	if a := ask("GET", "/header"); a.Exit != 1 {
		t.Errorf("another question: %+v", a)
	}
}
