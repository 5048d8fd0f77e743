package double

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// idleTime is how long the venue keeps a connection on which nothing happens.
const idleTime = 5 * time.Second

// Server returns an HTTP server for the venue with the venue's own limits.
func Server(v *Venue) *http.Server {
	return &http.Server{
		Handler:     v,
		IdleTimeout: idleTime,
		ErrorLog:    log.New(io.Discard, "", 0),
		ConnState: func(_ net.Conn, s http.ConnState) {
			if s == http.StateNew {
				v.mu.Lock()
				v.counts.Connections++
				v.mu.Unlock()
			}
		},
	}
}

// Serve serves the venue on a port of this machine until the test ends and
// returns its URL.
func Serve(t testing.TB, v *Venue) (url string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen on a port of 127.0.0.1: %v", err)
	}
	s := Server(v)
	done := make(chan error, 1)
	go func() { done <- s.Serve(ln) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serve the venue: %v", err)
		}
	})
	return "http://" + ln.Addr().String()
}

// Wire is a venue behind connections in memory. Everything about it stays in
// the synctest bubble that made it; Close ends its goroutines.
type Wire struct {
	Origin string // http://venue.test
	// Transport reaches the venue, whatever the host. IdleConnTimeout is 4 s.
	Transport *http.Transport
	Client    *http.Client // over Transport

	server *http.Server
	listen *listener
	done   chan error
}

// listener hands over the far ends of connections in memory.
type listener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// Pipe serves the venue on connections in memory.
func Pipe(v *Venue) *Wire {
	w := &Wire{
		Origin: "http://venue.test",
		server: Server(v),
		listen: &listener{conns: make(chan net.Conn), closed: make(chan struct{})},
		done:   make(chan error, 1),
	}
	w.Transport = &http.Transport{DialContext: w.Dial, IdleConnTimeout: 4 * time.Second}
	w.Client = &http.Client{Transport: w.Transport}
	go func() { w.done <- w.server.Serve(w.listen) }()
	return w
}

// Dial makes a connection to the venue, for a transport of the caller's. It
// takes no notice of network and address.
func (w *Wire) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case w.listen.conns <- far:
		return near, nil
	case <-w.listen.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Close closes the connections, those of Transport too, and waits until the
// server has ended.
func (w *Wire) Close() {
	w.Transport.CloseIdleConnections()
	w.server.Close()
	<-w.done
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *listener) Addr() net.Addr { return address{} }

type address struct{}

func (address) Network() string { return "pipe" }
func (address) String() string  { return "venue.test:80" }
