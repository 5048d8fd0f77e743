// Package control carries questions to the process that holds a store: plain
// HTTP on a unix socket in the store's folder, which only the user who runs the
// process can reach.
//
// Whoever may open the store asks its handlers directly (Ask); whoever finds it
// taken asks the process that has it (Client.Ask). Both get the same answer:
// what the command prints, and around it, in headers or trailers, with which
// code it ends and what it says on standard error. Under another status than 200
// the body is for standard error, too.
package control

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// The headers and trailers of an answer.
const (
	ExitHeader    = "Tclk-Exit"    // with which code the command ends; without it the answer was cut short
	ErrorHeader   = "Tclk-Error"   // what went wrong once the answer had begun
	WarningHeader = "Tclk-Warning" // worth knowing beside it
)

const (
	maxConnections = 16       // beyond them a question waits
	maxHeader      = 16 << 10 // bytes
	maxBody        = 4 << 10  // bytes of a question; none has a body so far
	maxSaid        = 64 << 10 // bytes of an answer that is not 200
	readTimeout    = 10 * time.Second
	writeTimeout   = 10 * time.Minute // of one write: a person may read page by page
)

// Answer is what was answered beside the bytes that were printed.
type Answer struct {
	Status   int
	Exit     int
	Said     string // the body, where the status is not 200
	Failed   string // what cut it short, "" for nothing
	Warnings []string
}

// ErrCut says that an answer has no end.
var ErrCut = errors.New("control: the answer was cut short")

// answer reads what stands around the body. Where the handler is of this
// process, what it gave as trailers stands among its headers.
func answer(status int, said string, headers ...http.Header) (Answer, error) {
	a := Answer{Status: status, Said: said}
	code := ""
	for _, h := range headers {
		for _, prefix := range [...]string{"", http.TrailerPrefix} {
			code += h.Get(prefix + ExitHeader)
			a.Failed += h.Get(prefix + ErrorHeader)
			a.Warnings = append(a.Warnings, h.Values(prefix+WarningHeader)...)
		}
	}
	if code == "" && status != http.StatusOK {
		return a, nil
	} else if code == "" {
		return a, ErrCut
	}
	n, err := strconv.ParseUint(code, 10, 7)
	if err != nil {
		return a, fmt.Errorf("control: %q is no exit code", code)
	}
	a.Exit = int(n)
	return a, nil
}

// Ask puts a question to a handler of this process and copies the answer to out
// as it comes.
func Ask(ctx context.Context, h http.Handler, method, target string, out io.Writer) (_ Answer, err error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://store"+target, nil)
	if err != nil {
		return Answer{}, err
	}
	w := &printer{out: out, header: http.Header{}}
	defer func() {
		if r := recover(); r == http.ErrAbortHandler {
			err = errors.Join(w.err, ctx.Err(), ErrCut)
		} else if r != nil {
			panic(r)
		}
	}()
	h.ServeHTTP(w, req)
	w.WriteHeader(http.StatusOK)
	if err := errors.Join(w.err, ctx.Err()); err != nil {
		return Answer{}, err
	}
	return answer(w.status, w.said.String(), w.header)
}

// printer is a ResponseWriter on standard output.
type printer struct {
	out    io.Writer
	header http.Header
	status int
	said   bytes.Buffer
	err    error // of out
}

func (w *printer) Header() http.Header { return w.header }
func (w *printer) Flush()              {}

func (w *printer) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

func (w *printer) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.status != http.StatusOK {
		w.said.Write(p[:min(len(p), maxSaid-w.said.Len())])
		return len(p), nil
	}
	n, err := w.out.Write(p)
	if err != nil {
		w.err = err
	}
	return n, err
}

// Client asks the process that holds the store in a folder.
type Client struct{ dir string }

// NewClient returns a client for the store in dir. It does not connect yet.
func NewClient(dir string) *Client { return &Client{dir} }

// ErrNobody says that no process answers in the folder.
var ErrNobody = errors.New("control: no process answers")

// Answers reports whether a process answers in the folder.
func (c *Client) Answers(ctx context.Context) bool {
	conn, err := dial(ctx, c.dir)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// Ask puts a question and copies the answer to out as it comes. It fails with
// ErrNobody where no process answers.
func (c *Client) Ask(ctx context.Context, method, target string, out io.Writer) (Answer, error) {
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := dial(ctx, c.dir)
			if err != nil {
				return nil, fmt.Errorf("%w in %s: %w", ErrNobody, c.dir, err)
			}
			return conn, nil
		},
	}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, method, "http://store"+target, nil)
	if err != nil {
		return Answer{}, err
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return Answer{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		said, err := io.ReadAll(io.LimitReader(resp.Body, maxSaid))
		if err != nil {
			return Answer{}, fmt.Errorf("%w: %w", ErrCut, err)
		}
		return answer(resp.StatusCode, string(said), resp.Header)
	}
	w := &printer{out: out, header: resp.Header}
	if _, err := io.Copy(w, resp.Body); err != nil {
		if w.err != nil || ctx.Err() != nil {
			return Answer{}, errors.Join(w.err, ctx.Err())
		}
		return Answer{}, fmt.Errorf("%w: %w", ErrCut, err)
	}
	return answer(resp.StatusCode, "", resp.Header, resp.Trailer)
}
