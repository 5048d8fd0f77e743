package double

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	textPlain = "text/plain; charset=utf-8"
	noStore   = "no-store"
)

// reply is an answer before it is sent.
type reply struct {
	status     int
	ctype      string
	cache      string
	body       []byte
	lines      []*Line // of an export, in place of the body
	export     bool
	robots     bool // X-Robots-Tag
	chunked    bool
	public     bool // a shared cache may keep it
	retryAfter int  // seconds, 0 for none
	header     [][2]string
}

// refuse is an error: text, whatever was asked for.
func refuse(status int, text string) reply {
	return reply{status: status, ctype: textPlain, cache: noStore, robots: true, body: []byte(strconv.Itoa(status) + " " + text + "\n")}
}

// call is one request.
type call struct {
	v       *Venue
	w       http.ResponseWriter
	r       *http.Request
	now     time.Time
	profile Profile
	opt     Options
	ip      string
	worker  int
	route   route
	fault   Fault
	faults  Faults
	left    int // read tokens
}

// ServeHTTP implements http.Handler.
func (v *Venue) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{v: v, w: w, r: r, now: v.opt.Now(), ip: v.address(r)}
	v.mu.Lock()
	c.profile, c.opt = v.profile, v.opt
	c.worker = v.random.IntN(v.opt.Workers)
	v.running++
	full := v.running > v.opt.MaxConns
	v.mu.Unlock()
	defer func() {
		v.mu.Lock()
		v.running--
		v.mu.Unlock()
	}()
	c.route = c.find()
	v.mu.Lock()
	v.counts.Requests[c.route.kind]++
	v.mu.Unlock()
	if full {
		c.send(unavailable())
		return
	}
	c.fault = c.drawFault()
	if c.fault == Hang {
		c.pause(c.faults.HangFor)
		panic(http.ErrAbortHandler)
	}
	if rep, ok := c.broken(); ok {
		c.send(rep)
		return
	}
	c.send(c.cached())
}

func (v *Venue) address(r *http.Request) string {
	if v.opt.IPHeader != "" {
		if ip := r.Header.Get(v.opt.IPHeader); ip != "" {
			return ip
		}
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// answer is what the venue itself says, behind any cache.
func (c *call) answer() reply {
	if n, size := headerSize(c.r.Header); n > maxHeaders || size > maxHeaderLen {
		return refuse(431, "request headers too large")
	}
	return c.route.run(c)
}

func headerSize(h http.Header) (n, size int) {
	for name, values := range h {
		for _, v := range values {
			n++
			size += len(name) + len(v)
		}
	}
	return n, size
}

// edgeEntry is an answer in the shared cache.
type edgeEntry struct {
	rep reply
	at  time.Time
}

// maxEdge bounds the shared cache.
const maxEdge = 4096

// cached answers from the shared cache where one stands in front: for a second
// as it is, and for five more while it fetches anew.
func (c *call) cached() reply {
	v := c.v
	v.mu.Lock()
	on := v.edgeOn && v.opt.EdgeSeconds > 0 && (c.r.Method == http.MethodGet || c.r.Method == http.MethodHead)
	key := c.r.URL.RequestURI()
	old, had := v.edge[key]
	v.mu.Unlock()
	if !on {
		return c.answer()
	}
	fresh := time.Duration(v.opt.EdgeSeconds) * time.Second
	age := c.now.Sub(old.at)
	if had && age <= fresh {
		return c.hit(old, age)
	}
	rep := c.answer()
	v.mu.Lock()
	if rep.public && rep.status == 200 {
		if len(v.edge) >= maxEdge {
			clear(v.edge)
		}
		v.edge[key] = edgeEntry{rep, c.now}
	}
	v.mu.Unlock()
	if had && age <= 6*fresh {
		return c.hit(old, age)
	}
	return rep
}

func (c *call) hit(e edgeEntry, age time.Duration) reply {
	c.v.mu.Lock()
	c.v.counts.EdgeHits++
	c.v.mu.Unlock()
	rep := e.rep
	rep.header = append(rep.header[:len(rep.header):len(rep.header)], [2]string{"Age", strconv.Itoa(int(age / time.Second))}, [2]string{"Cf-Cache-Status", "HIT"})
	return rep
}

// minGzip is the least body that is worth compressing.
const minGzip = 500

// send sends an answer, with the fault that strikes its body.
func (c *call) send(rep reply) {
	h := c.w.Header()
	h.Set("Date", c.v.opt.Now().UTC().Format(http.TimeFormat))
	set := func(name, value string) {
		if value != "" {
			h.Set(name, value)
		}
	}
	set("Cache-Control", rep.cache)
	set("Content-Type", rep.ctype)
	if rep.ctype == "" {
		h["Content-Type"] = nil // or net/http guesses one
	}
	if rep.robots {
		h.Set("X-Robots-Tag", "noindex")
	}
	if rep.export || rep.ctype == textPlain {
		h.Set("X-Content-Type-Options", "nosniff")
	}
	if rep.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(rep.retryAfter))
	}
	for _, kv := range rep.header {
		h.Set(kv[0], kv[1])
	}
	if c.profile >= V0145 {
		h.Set("Vary", "Accept-Encoding")
	}

	size := int64(len(rep.body))
	lines := rep.lines
	tail := []byte(nil) // of a torn export
	switch {
	case c.fault == WrongType:
		h.Set("Content-Type", "text/html; charset=utf-8")
	case c.fault == ShortExport && rep.export && len(lines) > 0:
		lines = lines[:len(lines)-1-len(lines)/8]
	case c.fault == TornExport && rep.export && len(lines) > 0:
		last := lines[len(lines)-1].Raw
		lines, tail = lines[:len(lines)-1], last[:len(last)/2+1]
	}
	if rep.export {
		size = int64(len(tail))
		for _, l := range lines {
			size += int64(len(l.Raw)) + 1
		}
	}

	if c.fault == Bomb {
		h.Set("Content-Encoding", "gzip")
		c.w.WriteHeader(200)
		if c.r.Method != http.MethodHead {
			bomb(c.w, c.faults.BombBytes)
		}
		return
	}
	zip := c.profile >= V0145 && size >= minGzip && rep.status == 200 && acceptsGzip(c.r)
	switch {
	case zip:
		h.Set("Content-Encoding", "gzip")
	case !rep.export && !rep.chunked:
		h.Set("Content-Length", strconv.FormatInt(size, 10))
	}
	c.w.WriteHeader(rep.status)
	if c.r.Method == http.MethodHead {
		return
	}

	out := &drip{c: c, w: c.w, cut: -1}
	if c.fault == CutBody && size > 0 {
		out.cut = size / 2
		if zip {
			out.cut = size / 16 // of the compressed bytes
		}
	}
	if c.fault == SlowBody {
		out.piece = c.faults.DripBytes
		if out.piece <= 0 {
			out.piece = max(1, int(size/16))
		}
	}
	dst := io.Writer(out)
	var z *gzip.Writer
	if zip {
		z, _ = gzip.NewWriterLevel(out, gzip.BestSpeed)
		dst = z
	}
	c.body(dst, rep, lines, tail)
	if z != nil {
		z.Close()
	}
	if out.cut >= 0 {
		out.breakOff()
	}
	if rep.chunked || rep.export {
		http.NewResponseController(c.w).Flush()
	}
	c.v.mu.Lock()
	c.v.counts.BytesSent += size
	c.v.mu.Unlock()
}

func (c *call) body(dst io.Writer, rep reply, lines []*Line, tail []byte) {
	if !rep.export {
		dst.Write(rep.body)
		return
	}
	buf := make([]byte, 0, 64<<10)
	for _, l := range lines {
		if len(buf)+len(l.Raw)+1 > cap(buf) {
			if _, err := dst.Write(buf); err != nil {
				return
			}
			buf = buf[:0]
		}
		buf = append(append(buf, l.Raw...), '\n')
	}
	dst.Write(append(buf, tail...))
}

// drip passes a body on whole, in pieces, or up to where it breaks.
type drip struct {
	c     *call
	w     http.ResponseWriter
	piece int   // bytes at a time, 0 for all
	cut   int64 // bytes until the connection breaks, -1 for never
}

func (d *drip) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		q := p
		if d.piece > 0 {
			q = q[:min(d.piece, len(q))]
		}
		if d.cut >= 0 && int64(len(q)) > d.cut {
			d.w.Write(q[:d.cut])
			d.breakOff()
		}
		if _, err := d.w.Write(q); err != nil {
			return 0, err
		}
		if d.cut >= 0 {
			d.cut -= int64(len(q))
		}
		if p = p[len(q):]; d.piece > 0 {
			http.NewResponseController(d.w).Flush()
			if !d.c.pause(d.c.faults.DripEvery) {
				return 0, context.Canceled
			}
		}
	}
	return n, nil
}

// breakOff breaks the connection once what was written is out.
func (d *drip) breakOff() {
	http.NewResponseController(d.w).Flush()
	panic(http.ErrAbortHandler)
}

// pause waits. It reports whether the client is still there.
func (c *call) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.r.Context().Done():
		return false
	}
}

func acceptsGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",") {
		name, q, _ := strings.Cut(strings.TrimSpace(part), ";")
		if name == "gzip" && strings.ReplaceAll(q, " ", "") != "q=0" {
			return true
		}
	}
	return false
}

// bomb writes n newlines, compressed.
func bomb(w io.Writer, n int64) {
	const piece = 1 << 20
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write(bytes.Repeat([]byte("\n"), piece))
	z.Close()
	for ; n > 0; n -= piece {
		if _, err := w.Write(b.Bytes()); err != nil {
			return
		}
	}
}
