package double

import (
	"net/http"
	"time"
)

// Fault is one way in which an answer goes wrong.
type Fault int

// The faults. What one does is said for a read; a hook may ask for it on any
// request.
const (
	NoFault        Fault = iota
	RateLimited          // 429 with Retry-After, though the budget is not spent
	ServerError          // 500, text
	Unavailable          // 503, chunked text, Connection: close, no Retry-After
	BadGateway           // 502 with HTML
	EdgeTimeout          // 524 with HTML
	OriginFallback       // 200 with a stored document and X-Origin-Fallback: 1
	Redirect             // 302 to another host
	Bomb                 // a small gzip body that unpacks to Faults.BombBytes of newlines
	EmptyBody            // 200 with nothing in it
	WrongType            // the right body as text/html
	CutBody              // the connection breaks in the middle of the body
	TornExport           // an export that ends, properly, in the middle of a line
	ShortExport          // an export that ends, properly, at an earlier line
	SlowBody             // the body drips
	RefuseSlot           // no slot for a long-poll
	Hang                 // no answer until the client gives up, or Faults.HangFor
	numFaults
)

var faultNames = [numFaults]string{
	"none", "rate-limited", "server-error", "unavailable", "bad-gateway", "edge-timeout", "origin-fallback", "redirect",
	"bomb", "empty-body", "wrong-type", "cut-body", "torn-export", "short-export", "slow-body", "refuse-slot", "hang",
}

// String is the fault's name in Stats.Faults.
func (f Fault) String() string { return faultNames[f] }

// Faults says what goes wrong. The zero value is a venue that works.
type Faults struct {
	// Share is how often each fault strikes a read that it can strike, 0 … 1. The
	// faults are drawn in their order, and the first that strikes is taken.
	Share map[Fault]float64
	// Hook, if set, chooses for each request, writes too. NoFault leaves the
	// choice to Share. It runs without any lock.
	Hook func(*http.Request) Fault

	RedirectTo string        // scheme and host; http://elsewhere.invalid
	BombBytes  int64         // 256 MiB
	DripEvery  time.Duration // between two pieces of a slow body; 200 ms
	DripBytes  int           // of each piece; a sixteenth of the body and at least 1
	HangFor    time.Duration // 60 s

	// LateShare of the rows that are written get a stamp of up to LateMax before
	// they become visible.
	LateShare float64
	LateMax   time.Duration
	// TornShare of the rows that are written leave a torn fragment before them.
	TornShare float64
}

// SetFaults changes what goes wrong, from the next request on.
func (v *Venue) SetFaults(f Faults) {
	if f.RedirectTo == "" {
		f.RedirectTo = "http://elsewhere.invalid"
	}
	def(&f.BombBytes, 256<<20)
	def(&f.DripEvery, 200*time.Millisecond)
	def(&f.HangFor, time.Minute)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.faults = f
}

// lateness draws how much older than now the stamp of a row is.
func (v *Venue) lateness() time.Duration {
	if v.faults.LateShare <= 0 || v.random.Float64() >= v.faults.LateShare {
		return 0
	}
	return time.Duration(v.random.Float64() * float64(v.faults.LateMax))
}

// drawFault chooses what goes wrong with a request.
func (c *call) drawFault() Fault {
	v := c.v
	v.mu.Lock()
	hook := v.faults.Hook
	v.mu.Unlock()
	f := NoFault
	if hook != nil {
		f = hook(c.r)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	c.faults = v.faults
	if f == NoFault && !c.route.writes {
		for i := RateLimited; i < numFaults; i++ {
			share := v.faults.Share[i]
			if share <= 0 || (i == TornExport || i == ShortExport) && c.route.kind != "export" || i == RefuseSlot && c.route.kind != "room" {
				continue
			}
			if v.random.Float64() < share {
				f = i
				break
			}
		}
	}
	if f != NoFault {
		v.counts.Faults[f.String()]++
	}
	return f
}

// broken is the answer that a fault gives in place of the right one.
func (c *call) broken() (reply, bool) {
	switch c.fault {
	case RateLimited:
		return c.limited("read", "writes are a separate budget and are unaffected", c.opt.ReadPerMin, "min", time.Second), true
	case ServerError:
		return reply{status: 500, ctype: textPlain, cache: noStore, body: []byte("Internal Server Error")}, true
	case Unavailable:
		return unavailable(), true
	case BadGateway:
		return page(502, "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1></center>\r\n<hr><center>cloudflare</center>\r\n</body>\r\n</html>\r\n"), true
	case EdgeTimeout:
		return page(524, "<!DOCTYPE html>\n<html><head><title>technocore.chat | 524: A timeout occurred</title></head><body><h1>A timeout occurred <span>Error code 524</span></h1></body></html>\n"), true
	case OriginFallback:
		r := c.document()
		if c.route.kind == "config" || c.route.kind == "agent" {
			r = c.stored()
		}
		r.header = append(r.header, [2]string{"X-Origin-Fallback", "1"})
		return r, true
	case Redirect:
		return reply{status: 302, cache: noStore, header: [][2]string{{"Location", c.faults.RedirectTo + c.r.URL.RequestURI()}}}, true
	case EmptyBody:
		return reply{status: 200, ctype: "application/json", cache: noStore}, true
	}
	return reply{}, false
}

func page(status int, html string) reply {
	return reply{status: status, ctype: "text/html; charset=UTF-8", cache: "private, max-age=0, no-store", body: []byte(html)}
}

func unavailable() reply {
	return reply{status: 503, ctype: textPlain, body: []byte("Service Unavailable"), chunked: true, header: [][2]string{{"Connection", "close"}}}
}
