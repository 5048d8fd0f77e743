package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Server answers questions about a store that this process holds.
type Server struct {
	dir   string
	http  *http.Server
	quit  context.CancelFunc
	busy  sync.WaitGroup // handlers that have not returned
	close sync.Once
	err   error
	done  chan error
}

// Serve makes the socket in dir and answers on it with h, in the background,
// until it is closed.
func Serve(dir string, h http.Handler) (*Server, error) {
	l, err := listen(dir)
	if err != nil {
		return nil, err
	}
	ctx, quit := context.WithCancel(context.Background())
	s := &Server{dir: dir, quit: quit, done: make(chan error, 1)}
	s.http = &http.Server{
		Handler:           http.MaxBytesHandler(s.counted(h), maxBody),
		ReadHeaderTimeout: readTimeout,
		ReadTimeout:       readTimeout,
		IdleTimeout:       readTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          log.New(io.Discard, "", 0), // standard error is the command's
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	go func() { s.done <- s.http.Serve(&bounded{Listener: l, free: make(chan struct{}, maxConnections)}) }()
	return s, nil
}

// counted is h, and Close knows when it has returned.
func (s *Server) counted(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.busy.Add(1)
		defer s.busy.Done()
		h.ServeHTTP(w, r)
	})
}

// Close removes the socket, waits for answers that are under way until ctx is
// done, and cuts the rest. When it returns nothing uses the store for an answer
// any more. It may be called more than once.
func (s *Server) Close(ctx context.Context) error {
	s.close.Do(func() {
		err := os.Remove(filepath.Join(s.dir, Name))
		if errors.Is(err, os.ErrNotExist) {
			err = nil
		}
		if s.http.Shutdown(ctx) != nil {
			// Handlers are told, and their connections are gone.
			s.quit()
			err = errors.Join(err, s.http.Close())
		}
		s.quit()
		s.busy.Wait()
		if served := <-s.done; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		s.err = err
	})
	return s.err
}

// bounded accepts a connection when fewer than its bound are open.
type bounded struct {
	net.Listener
	free chan struct{}
}

func (b *bounded) Accept() (net.Conn, error) {
	c, err := b.Listener.Accept()
	if err != nil {
		return nil, err
	}
	b.free <- struct{}{}
	return &conn{Conn: c, release: sync.OnceFunc(func() { <-b.free })}, nil
}

// conn bounds how long one write may take, and says when it is closed.
type conn struct {
	net.Conn
	release func()
}

func (c *conn) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

func (c *conn) Close() error {
	c.release()
	return c.Conn.Close()
}

// WithBackup adds to the handlers of a store the one that copies it: POST
// /v1/backup?dir= an absolute path.
func WithBackup(h http.Handler, backup func(dir string) error) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", h)
	mux.HandleFunc("POST /v1/backup", func(w http.ResponseWriter, r *http.Request) {
		dir := r.URL.Query().Get("dir")
		if !filepath.IsAbs(dir) {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, "%q is no absolute path\n", dir)
			return
		}
		if err := backup(dir); err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprintln(w, err)
			return
		}
		w.Header().Set(ExitHeader, "0")
	})
	return mux
}
