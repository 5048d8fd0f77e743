// Package venue reads rooms from a venue over HTTP.
//
// A venue is a public message board: rooms with numbered rows, and notes. Its
// board and deal rooms are where tclk/1 contracts are made. This package is the
// reader that a watcher leans on for months, so it asks politely and believes
// little:
//
//   - it only reads: each request is a GET of a path that does not write, with
//     names that are checked before an address is made of them;
//   - it only speaks to one origin, and follows no redirect;
//   - all calls of a [Client] share a token bucket of the venue's own shape at a
//     share of what the venue publishes, and a 429 makes all of them wait;
//   - an answer is used whole or not at all: it has to be of the right type and
//     shape, within limits of size and time, and an export has to reach as far
//     as the room is known to have come.
//
// Venues from 0.7 to 0.14 are read. What an older one lacks shows in [Limits],
// in Page.HasGeneration and in [ErrNoExport].
//
// A stale answer of a cache cannot be told from a fresh one here. Query.Bust
// keeps caches out of it.
package venue

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tclk-audit/tclk-audit/protocol"
)

// Time limits of one request, counted from when its token was there.
const (
	pageTime   = 20 * time.Second // also documents and notes
	waitExtra  = 15 * time.Second // beyond what a long poll asks for
	exportTime = 2 * time.Minute
	stallTime  = 15 * time.Second // a body that gives no byte for so long is cut
	drainTime  = 2 * time.Second  // for the rest of an answer that is not used, to keep the connection
)

// Size limits of an answer as text, bytes.
const (
	maxPage       = 4 << 20 // a page of a room, a list of keys
	maxDocument   = 1 << 20
	maxNote       = 64 << 10
	defaultExport = 16 << 20
	mostExport    = 1 << 30
	maxDrain      = 8 << 10
	maxHeader     = 64 << 10
	maxPlace      = 2048
)

const (
	defaultShare = 0.8
	maxConns     = 16 // to the origin
	maxExports   = 2  // at once: each is held in memory whole
)

// Options say which venue a client reads and how. Only Origin must be given.
type Options struct {
	// Origin is the only host ever contacted, as "https://technocore.chat":
	// scheme http or https, no path, query or user. Proxies named in the
	// environment are used.
	Origin string
	// Share is the part of the published read budget that this client takes,
	// above 0 and at most 1. 0: 0.8.
	Share float64
	// ReadsPerMinute is used in place of what the venue publishes, and still
	// multiplied by Share. 0: ask the venue.
	ReadsPerMinute int
	// UserAgent is sent with each request. "": "tclk-audit".
	UserAgent string
	// Transport carries the requests. nil: one of the client's own.
	Transport http.RoundTripper
	// MaxExport limits an export, bytes as text, at most 1 GiB. 0: 16 MiB.
	MaxExport int64
}

// Client reads one venue. It is safe for concurrent use. Its own transport has
// at most 16 connections, so more calls at once than that wait, within their
// time, for one.
type Client struct {
	origin    string
	opts      Options
	transport http.RoundTripper
	budget    *budget
	bust      atomic.Uint64
	exports   chan struct{} // one for each export that is held in memory

	mu     sync.Mutex
	limits Limits
}

// New makes a client. It sends nothing: until Discover is called, the budget is
// that of a venue with default settings.
func New(o Options) (*Client, error) {
	origin, err := parseOrigin(o.Origin)
	if err != nil {
		return nil, err
	}
	if o.Share == 0 {
		o.Share = defaultShare
	}
	if !(o.Share > 0 && o.Share <= 1) {
		return nil, fmt.Errorf("venue: a share of %v of the read budget: give one above 0 and at most 1", o.Share)
	}
	if o.ReadsPerMinute < 0 || o.ReadsPerMinute > maxReads {
		return nil, fmt.Errorf("venue: %d reads a minute: give 1 to %d, or 0 to ask the venue", o.ReadsPerMinute, maxReads)
	}
	if o.MaxExport < 0 || o.MaxExport > mostExport {
		return nil, fmt.Errorf("venue: an export limit of %d bytes: give 1 to %d, or 0 for %d", o.MaxExport, mostExport, defaultExport)
	}
	if o.MaxExport == 0 {
		o.MaxExport = defaultExport
	}
	if o.UserAgent == "" {
		o.UserAgent = "tclk-audit"
	}
	for i := range len(o.UserAgent) {
		if c := o.UserAgent[i]; c < 0x20 || c > 0x7e || len(o.UserAgent) > 256 {
			return nil, errors.New("venue: the user agent must be at most 256 printable ASCII characters")
		}
	}
	c := &Client{origin: origin, opts: o, transport: o.Transport, exports: make(chan struct{}, maxExports)}
	if c.transport == nil {
		c.transport = newTransport()
	}
	c.limits = defaultLimits()
	c.limits.Source = "defaults: not asked yet"
	c.override(&c.limits)
	c.budget = newBudget(c.perMinute(c.limits))
	// A client that was just started must not ask for what the one before it
	// left in a cache.
	c.bust.Store(uint64(time.Now().UnixMilli()))
	return c, nil
}

// Close closes connections that nothing uses. Calls under way go on.
func (c *Client) Close() {
	if t, ok := c.transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// Origin returns the origin, as "https://technocore.chat".
func (c *Client) Origin() string { return c.origin }

// Ready says how long until a call could be sent without waiting for a token,
// 0 for now. Calls that wait already come first.
func (c *Client) Ready() time.Duration { return c.budget.ready() }

// Budget says what is left of the read budget, and how often it was too much.
func (c *Client) Budget() Budget { return c.budget.state() }

func parseOrigin(s string) (string, error) {
	fail := func(what string) (string, error) {
		return "", fmt.Errorf("venue: the origin %s %s: give one like https://technocore.chat", strconv.QuoteToASCII(s), what)
	}
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return fail("is no URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return fail("is neither http nor https")
	case u.User != nil:
		return fail("names a user")
	case u.Hostname() == "" || u.Opaque != "":
		return fail("names no host")
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.ForceQuery || strings.Contains(s, "#"):
		return fail("has more than scheme, host and port")
	}
	if p := u.Port(); p != "" {
		if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 {
			return fail("has no such port")
		}
	}
	return u.Scheme + "://" + strings.TrimSuffix(strings.ToLower(u.Host), ":"), nil
}

// newTransport has few connections and drops them before the venue does, which
// is after 5 s.
func newTransport() *http.Transport {
	h1 := new(http.Protocols)
	h1.SetHTTP1(true)
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    10 * time.Second,
		MaxConnsPerHost:        maxConns,
		MaxIdleConnsPerHost:    4,
		IdleConnTimeout:        4 * time.Second,
		MaxResponseHeaderBytes: maxHeader,
		DisableCompression:     true, // get unpacks gzip itself, within limits
		Protocols:              h1,
	}
}

// Reply says how an answer came.
type Reply struct {
	URL      string
	Fetched  time.Time     // when it began to come, by the clock here
	Date     time.Time     // its Date header: the venue's clock, to the second; zero if none
	SHA256   [32]byte      // of the body as text
	Bytes    int64         // of the body as text
	Fallback bool          // an edge gave a stored answer, because the venue gave none (X-Origin-Fallback)
	Age      time.Duration // how long a cache says it has held it
}

// ask is one request.
type ask struct {
	path   string // and query
	free   bool   // the venue does not charge it
	kind   string // the Content-Type that must come
	within time.Duration
	max    int64 // bytes as text
	export bool
}

const (
	kindJSON  = "application/json"
	kindText  = "text/plain"
	kindLines = "application/x-ndjson"
)

// get sends a request once a token is there, and returns the whole body as
// text. It follows no redirect: it asks the transport itself, which never does.
func (c *Client) get(ctx context.Context, a ask) (body []byte, r Reply, h http.Header, err error) {
	if err := c.budget.take(ctx, a.free); err != nil {
		return nil, r, nil, fmt.Errorf("venue: GET %s: while it waited for the read budget: %w", a.path, err)
	}
	slow := fmt.Errorf("it was not whole after %s", a.within)
	reqCtx, stop := context.WithTimeoutCause(ctx, a.within, slow)
	defer stop()
	reqCtx, cancel := context.WithCancelCause(reqCtx)
	defer cancel(nil)

	r.URL = c.origin + a.path
	req, err := http.NewRequestWithContext(reqCtx, http.MethodGet, r.URL, nil)
	if err != nil {
		return nil, r, nil, fmt.Errorf("venue: GET %s: %w", a.path, err)
	}
	req.Header.Set("User-Agent", c.opts.UserAgent)
	req.Header.Set("Accept-Encoding", "gzip")
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, r, nil, fmt.Errorf("venue: GET %s: %w", a.path, ctx.Err())
		}
		if reqCtx.Err() != nil {
			err = context.Cause(reqCtx)
		}
		return nil, r, nil, &NetworkError{a.path, err}
	}
	defer resp.Body.Close()
	h = resp.Header
	r.Fetched = time.Now()
	r.Date, _ = http.ParseTime(h.Get("Date"))
	r.Fallback = h.Get("X-Origin-Fallback") == "1"
	r.Age, _ = seconds(h.Get("Age"))

	if err := c.refused(a, resp); err != nil {
		drain(resp.Body, cancel)
		return nil, r, h, err
	}
	b := newBody(resp, a, cancel)
	defer b.close()
	body, err = b.read()
	if err == nil {
		r.SHA256, r.Bytes = sha256.Sum256(body), int64(len(body))
		return body, r, h, nil
	}
	var cut *CutError
	if errors.As(err, &cut) {
		if ctx.Err() != nil {
			return nil, r, h, fmt.Errorf("venue: GET %s: %w", a.path, ctx.Err())
		}
		if reqCtx.Err() != nil {
			cut.Err = context.Cause(reqCtx)
		}
	}
	return nil, r, h, err
}

// refused looks at the status and the type of an answer before its body.
func (c *Client) refused(a ask, resp *http.Response) error {
	kind := strings.ToLower(strings.TrimSpace(resp.Header.Get("Content-Type")))
	html := strings.HasPrefix(kind, "text/html") || strings.HasPrefix(kind, "application/xhtml")
	switch code := resp.StatusCode; {
	case code == http.StatusTooManyRequests:
		after := retryAfter(resp.Header)
		c.budget.refused(after)
		return &LimitedError{a.path, after}
	case code >= 300 && code <= 399:
		place := resp.Header.Get("Location")
		return &RedirectError{a.path, code, place[:min(len(place), maxPlace)]}
	case code != http.StatusOK:
		return &StatusError{Asked: a.path, Code: code, HTML: html, export: a.export}
	case html:
		return &BodyError{a.path, BodyHTML, "the answer is HTML, not " + a.kind}
	case !strings.HasPrefix(kind, a.kind):
		return &BodyError{a.path, BodyType, "the answer is not " + a.kind}
	}
	return nil
}

// retryAfter reads how long a 429 asks to wait.
func retryAfter(h http.Header) time.Duration {
	v := strings.TrimSpace(h.Get("Retry-After"))
	if d, ok := seconds(v); ok {
		return min(max(d, time.Second), maxPause)
	}
	if t, err := http.ParseTime(v); err == nil {
		// The sender's clock says what its time means, if it tells it.
		now := time.Now()
		if date, err := http.ParseTime(h.Get("Date")); err == nil {
			now = date
		}
		return min(max(t.Sub(now), time.Second), maxPause)
	}
	return defaultPause
}

// seconds reads a header that is a count of seconds, and takes at most maxAge.
func seconds(v string) (time.Duration, bool) {
	n, err := strconv.ParseUint(strings.TrimSpace(v), 10, 64)
	return time.Duration(min(n, maxAge)) * time.Second, err == nil
}

// checkName guards every path: what passes has no character that means
// anything in a URL, so no name can make another path of it.
func checkName(what, name string) error {
	if !protocol.ValidRoom(name) {
		return &NameError{what, name}
	}
	return nil
}
