// Package serve is the HTTP server that shows a store to others: monitoring asks
// it whether all is well, dashboards and programs read contracts and follow
// events, and nobody can change anything through it.
//
//	/                      what there is, as text
//	/healthz               200 while the process answers
//	/readyz                200 when the store is up to date, else 503 and why
//	/metrics               for Prometheus, where there are any
//	/api/v1/...            the questions of package api
//	/api/v1/openapi.json   the OpenAPI document of all this
//	/debug/pprof/          profiles, only if asked for
//
// It is written to be reached by strangers. A web page cannot read it through
// the browser of somebody who can reach it: the Host header must name this
// server, and a request from another origin is refused. Whatever a reader can
// hold on to is bounded: connections, headers, how long one write may take.
package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/pprof"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tclk-audit/tclk-audit/docs"
	"github.com/tclk-audit/tclk-audit/internal/api"
	"github.com/tclk-audit/tclk-audit/internal/report"
	"github.com/tclk-audit/tclk-audit/store"
)

// The bounds of the server.
const (
	// DefaultAddr is where it listens unless told otherwise: this machine alone
	// can reach it.
	DefaultAddr = "127.0.0.1:9464"

	MaxItems = 5_000 // entries of a list in one answer
	Items    = 500   // where no limit is given

	defaultConnections = 128      // open at once; see Options.MaxConnections
	overConnections    = 32       // beyond those, which are told 503; others are closed at once
	maxHeader          = 16 << 10 // bytes of a request's line and headers
	headerSeconds      = 5        // to send them
	idleSeconds        = 60       // between two requests of a connection
	writeSeconds       = 30       // of one write; a stream has many
)

// Options say what is served, and to whom.
type Options struct {
	Addr  string       // where to listen, host:port; "": DefaultAddr
	Store *store.Store // closed after the server
	// Changed gives a channel that is closed at the next commit. Nil: those that
	// wait for events look once a second.
	Changed func() <-chan struct{}
	// Ready says whether the store is up to date, and if not why, in words for
	// anybody. Nil: always.
	Ready   func() (ready bool, why string)
	Metrics http.Handler // of /metrics; nil: there is no such path
	// AllowHosts are further names that a request may give as its host, without
	// port.
	AllowHosts []string
	// AllowOrigins are the origins whose web pages may read the API, as in
	// https://example.org.
	AllowOrigins   []string
	PProf          bool
	MaxConnections int         // open at once; 0: 128
	Failed         func(error) // told of what no answer says: panics, errors of the store; nil: nobody is
}

// Counts are what the server has met since it began.
type Counts struct {
	Requests    int64 // all, refused ones too
	Refused     int64 // connections beyond the bound, told 503 or closed
	Misdirected int64 // for a host or from an origin that is not allowed
	Panics      int64 // of handlers
}

// Server is a running server.
type Server struct {
	o       Options
	addr    net.Addr
	http    *http.Server
	hosts   map[string]bool
	origins map[string]bool
	quit    context.CancelFunc
	ending  chan struct{}
	busy    sync.WaitGroup
	close   sync.Once
	err     error
	done    chan struct{} // closed when it accepts no more
	served  error         // why

	requests, refused, misdirected, panics atomic.Int64
}

// Listen begins to listen and answers in the background until the server is
// closed. It fails where it cannot listen, or an option makes no sense.
func Listen(o Options) (*Server, error) {
	if o.Addr == "" {
		o.Addr = DefaultAddr
	}
	if o.MaxConnections <= 0 {
		o.MaxConnections = defaultConnections
	}
	if o.Failed == nil {
		o.Failed = func(error) {}
	}
	s := &Server{o: o, hosts: map[string]bool{}, origins: map[string]bool{}, ending: make(chan struct{}), done: make(chan struct{})}
	for _, name := range o.AllowHosts {
		host := hostname(name)
		if host == "" || strings.ContainsAny(name, "/@ ") {
			return nil, fmt.Errorf("serve: %q is no host name: give one as in audit.example.org", name)
		}
		s.hosts[host] = true
	}
	for _, origin := range o.AllowOrigins {
		if _, ok := originHost(origin); !ok {
			return nil, fmt.Errorf("serve: %q is no origin: give one as in https://example.org", origin)
		}
		s.origins[strings.ToLower(origin)] = true
	}
	l, err := net.Listen("tcp", o.Addr)
	if err != nil {
		return nil, fmt.Errorf("serve: cannot listen on %s: %w", o.Addr, err)
	}
	s.addr = l.Addr()
	for _, name := range []string{"localhost", "127.0.0.1", "::1", hostname(o.Addr), hostname(s.addr.String())} {
		s.hosts[name] = true
	}
	delete(s.hosts, "") // of an address without a host, as in :9464
	ctx, quit := context.WithCancel(context.Background())
	s.quit = quit
	s.http = &http.Server{
		Handler:           s.guard(s.routes()),
		ReadHeaderTimeout: headerSeconds * time.Second,
		ReadTimeout:       headerSeconds * time.Second,
		IdleTimeout:       idleSeconds * time.Second,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          log.New(io.Discard, "", 0), // what a stranger sends is no news
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext:       func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
	}
	go func() {
		s.served = s.http.Serve(&listener{Listener: l, s: s})
		close(s.done)
	}()
	return s, nil
}

// Addr is where it listens.
func (s *Server) Addr() net.Addr { return s.addr }

// Done is closed when the server accepts no more connections: it was closed, or
// its listener failed, which Close tells.
func (s *Server) Done() <-chan struct{} { return s.done }

// Counts returns what it has met.
func (s *Server) Counts() Counts {
	return Counts{Requests: s.requests.Load(), Refused: s.refused.Load(), Misdirected: s.misdirected.Load(), Panics: s.panics.Load()}
}

// Close ends streams and waits at once, lets other answers end until ctx is
// done, and cuts the rest. When it returns, nothing uses the store any more. It
// may be called more than once.
func (s *Server) Close(ctx context.Context) error {
	s.close.Do(func() {
		close(s.ending)
		var err error
		if s.http.Shutdown(ctx) != nil {
			s.quit()
			err = s.http.Close()
		}
		s.quit()
		s.busy.Wait()
		<-s.done
		if !errors.Is(s.served, http.ErrServerClosed) {
			err = errors.Join(err, fmt.Errorf("serve: listening on %s: %w", s.addr, s.served))
		}
		s.err = err
	})
	return s.err
}

// prefix is where the API begins.
const prefix = "/api"

// paths are those of the server itself, beside the API's; what is said of each
// stands on the index.
func (s *Server) paths() []struct {
	path, says string
	h          http.HandlerFunc
} {
	list := []struct {
		path, says string
		h          http.HandlerFunc
	}{
		{"/{$}", "this page", s.index},
		{"/healthz", "whether the process answers", health},
		{"/readyz", "whether the store is up to date", s.ready},
		{prefix + "/v1/openapi.json", "the OpenAPI document", openAPI},
	}
	if s.o.Metrics != nil {
		list = append(list, struct {
			path, says string
			h          http.HandlerFunc
		}{"/metrics", "metrics for Prometheus", s.o.Metrics.ServeHTTP})
	}
	return list
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	for _, p := range s.paths() {
		mux.HandleFunc(p.path, p.h)
	}
	mux.Handle(prefix+"/v1/", http.StripPrefix(prefix, api.New(s.o.Store, api.Options{
		Public: true, MaxItems: MaxItems, Items: Items, Changed: s.o.Changed, Ending: s.ending, Failed: s.o.Failed,
	})))
	if s.o.PProf {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		api.Refuse(w, r, http.StatusNotFound, "there is nothing at this path", "GET / lists what there is")
	})
	return mux
}

func text(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body+"\n") // the reader has gone: nobody is left to tell
}

func (s *Server) index(w http.ResponseWriter, _ *http.Request) {
	lines := []string{"tclk-audit: what a transcript of tclk/1 contracts proves. Nothing can be changed here.", ""}
	for _, p := range s.paths() {
		lines = append(lines, fmt.Sprintf("%-30s%s", strings.TrimSuffix(p.path, "{$}"), p.says))
	}
	for _, p := range api.Paths() {
		lines = append(lines, prefix+p)
	}
	text(w, http.StatusOK, strings.Join(lines, "\n"))
}

func health(w http.ResponseWriter, _ *http.Request) { text(w, http.StatusOK, "ok") }

func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	if s.o.Ready != nil {
		if ready, why := s.o.Ready(); !ready {
			text(w, http.StatusServiceUnavailable, "not ready: "+report.Printable(why))
			return
		}
	}
	text(w, http.StatusOK, "ready")
}

func openAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-cache")
	_, _ = w.Write(docs.OpenAPI) // the reader has gone: nobody is left to tell
}

// stack is how much of a panic's stack is told.
const stack = 4 << 10 // bytes

// recovered makes a handler's panic a refusal, or cuts the answer where it had
// begun.
func (s *Server) recovered(w *writer, r *http.Request) {
	p := recover()
	if p == nil {
		return
	}
	if p != http.ErrAbortHandler { //nolint:errorlint // it is this very value
		s.panics.Add(1)
		trace := debug.Stack()
		s.o.Failed(fmt.Errorf("serve: a handler panicked: %v\n%s", p, trace[:min(len(trace), stack)]))
	}
	if w.began {
		panic(http.ErrAbortHandler)
	}
	api.Refuse(w, r, http.StatusInternalServerError, "the question could not be answered", "who runs the server finds the cause in its log")
}

// writer knows whether an answer has begun.
type writer struct {
	http.ResponseWriter
	began bool
}

func (w *writer) WriteHeader(status int) {
	w.began = true
	w.ResponseWriter.WriteHeader(status)
}

func (w *writer) Write(p []byte) (int, error) {
	w.began = true
	return w.ResponseWriter.Write(p)
}

// Unwrap lets a http.ResponseController reach the connection.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
