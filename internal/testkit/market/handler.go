package market

import (
	"encoding/json"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tclk-audit/tclk-audit/internal/testkit/double"
	"github.com/tclk-audit/tclk-audit/protocol"
)

// maxLooks bounds the reads whose time is kept.
const maxLooks = 1 << 20

// looks is who read what when.
type looks struct {
	mu    sync.Mutex
	kept  int
	rooms map[string]*look

	open, opened int64
}

// look is how one room was read.
type look struct {
	at   []time.Time
	lags []time.Duration
	seen uint64 // all rows up to this one were brought
}

// read takes in a read that was answered with 200.
func (l *looks) read(room string, at time.Time, head uint64, whole bool, lag time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kept++; l.kept > maxLooks {
		return
	}
	if l.rooms == nil {
		l.rooms = map[string]*look{}
	}
	n := l.rooms[room]
	if n == nil {
		n = &look{}
		l.rooms[room] = n
	}
	n.at = append(n.at, at)
	if room == protocol.BoardRoom {
		n.lags = append(n.lags, lag)
	}
	if whole {
		n.seen = max(n.seen, head)
	}
}

func (l *looks) seen(room string) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.rooms[room]; n != nil {
		return n.seen
	}
	return 0
}

func (l *looks) rows(rooms []string) (rows uint64, unread int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range rooms {
		if n := l.rooms[name]; n != nil {
			rows += n.seen
		} else {
			unread++
		}
	}
	return rows, unread
}

func (l *looks) connections() (open, opened int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open, l.opened
}

func (l *looks) fill(r *Reads) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.rooms[r.Room]
	if n == nil {
		return
	}
	r.Reads, r.First, r.Last = int64(len(n.at)), n.at[0].UnixMilli(), n.at[len(n.at)-1].UnixMilli()
	r.Brought = n.seen
	r.At = make([]int64, len(n.at))
	for i, t := range n.at {
		r.At[i] = t.UnixMilli()
		if i > 0 {
			r.Longest = max(r.Longest, r.At[i]-r.At[i-1])
		}
	}
	for _, d := range n.lags {
		r.Lags = append(r.Lags, d.Milliseconds())
	}
}

// answer notes the status that a handler gives.
type answer struct {
	http.ResponseWriter
	status int
}

func (a *answer) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// pageRows is the most that one view of a room shows.
const pageRows = 200

// ServeHTTP answers as the venue does, and notes how rooms are read.
func (m *Market) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	room, export := strings.TrimPrefix(r.URL.Path, "/r/"), false
	if room, export = strings.CutSuffix(room, "/export"); room == r.URL.Path || strings.Contains(room, "/") || r.Method != http.MethodGet {
		m.v.ServeHTTP(w, r)
		return
	}
	head := m.v.Room(room).Seq // a row that comes meanwhile counts as not brought
	a := &answer{w, http.StatusOK}
	m.v.ServeHTTP(a, r)
	if a.status != http.StatusOK {
		return
	}
	now := time.Now()
	// A view shows the newest rows after since: where there are more, the older
	// ones are skipped, and this read does not bring the room up to date.
	since, _ := strconv.ParseUint(r.URL.Query().Get("since"), 10, 64)
	whole := export || since <= head && head <= since+pageRows
	var lag time.Duration
	if seen := m.looks.seen(room); room == protocol.BoardRoom && head > seen {
		lag = m.boardAge(seen+1, now)
	}
	m.looks.read(room, now, head, whole, lag)
}

// Row is one row that a room held.
type Row struct {
	Seq        uint64 `json:"seq"`
	Generation uint64 `json:"generation"`
	TimeMs     int64  `json:"timeMs"` // when it became readable
	End        string `json:"end"`    // readable, or why it is not
	Raw        string `json:"raw"`
}

// Handler serves the venue, and the truth about it under /_market/: stats,
// reads?prefix=NAME and held?room=NAME, as JSON. The venue knows nothing of
// requests for those.
func (m *Market) Handler() http.Handler {
	mux := http.NewServeMux()
	reply := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v) // whoever asked has gone
	}
	mux.HandleFunc("GET /_market/stats", func(w http.ResponseWriter, _ *http.Request) { reply(w, m.Stats()) })
	mux.HandleFunc("GET /_market/reads", func(w http.ResponseWriter, r *http.Request) { reply(w, m.Reads(r.URL.Query().Get("prefix"))) })
	mux.HandleFunc("GET /_market/held", func(w http.ResponseWriter, r *http.Request) {
		rows := []Row{}
		for _, l := range m.v.Held(r.URL.Query().Get("room")) {
			rows = append(rows, Row{l.Seq, l.Generation, l.Time.UnixMilli(), l.End.String(), string(l.Raw)})
		}
		reply(w, rows)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Not by the mux: it would clean paths that the venue answers in its own way.
		if strings.HasPrefix(r.URL.Path, "/_market/") {
			mux.ServeHTTP(w, r)
			return
		}
		m.ServeHTTP(w, r)
	})
}

// Server is an HTTP server for Handler, with the limits of the venue's.
func (m *Market) Server() *http.Server {
	s := double.Server(m.v)
	s.Handler = m.Handler()
	noted := s.ConnState
	s.ConnState = func(c net.Conn, state http.ConnState) {
		noted(c, state)
		m.looks.mu.Lock()
		defer m.looks.mu.Unlock()
		switch state {
		case http.StateNew:
			m.looks.open++
			m.looks.opened++
		case http.StateClosed, http.StateHijacked:
			m.looks.open--
		}
	}
	return s
}
