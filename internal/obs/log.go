package obs

import (
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/tclk-audit/tclk-audit/internal/report"
)

// The kinds of records that are limited each for itself.
const (
	kindNotice   = "notice"
	kindSerious  = "serious-notice"
	kindLost     = "lost-rows"
	kindReset    = "room-reset"
	kindDeadline = "deadline"
)

const (
	// logBurst is how many records of one kind about one venue are written in
	// logEvery. The next one after says how many were dropped.
	logBurst = 30
	logEvery = time.Minute
	// maxText is how many bytes of a text are logged.
	maxText = 400
	// maxLimited is how many kinds and venues are limited apart from each other.
	maxLimited = 256
)

// NewLogger returns a logger that writes one line for each record: JSON where
// format is "json", else text. Strings and errors are made printable ASCII on
// the way, whatever they hold.
func NewLogger(w io.Writer, format string, level slog.Leveler) *slog.Logger {
	o := &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		switch v := a.Value.Any().(type) {
		case string:
			a.Value = slog.StringValue(clean(v))
		case error:
			a.Value = slog.StringValue(clean(v.Error()))
		case fmt.Stringer:
			if a.Value.Kind() == slog.KindAny {
				a.Value = slog.StringValue(clean(v.String()))
			}
		}
		return a
	}}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// clean makes a text printable, and cuts a long one.
func clean(s string) string {
	if len(s) > maxText {
		s = fmt.Sprintf("%s... (%d bytes)", s[:maxText], len(s))
	}
	return report.Printable(s)
}

// limiter lets some records of each kind pass in a time.
type limiter struct {
	mu    sync.Mutex
	kinds map[[2]string]*limited
}

type limited struct {
	since   time.Time
	passed  int
	dropped int64 // since one passed
}

// pass reports whether a record may be written, and how many were dropped
// before it.
func (l *limiter) pass(kind, venue string, now time.Time) (dropped int64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := [2]string{kind, venue}
	if l.kinds[k] == nil && len(l.kinds) >= maxLimited {
		k[1] = ""
	}
	c := l.kinds[k]
	if c == nil {
		c = &limited{since: now}
		l.kinds[k] = c
	}
	if now.Sub(c.since) >= logEvery {
		c.since, c.passed = now, 0
	}
	if c.passed >= logBurst {
		c.dropped++
		return 0, false
	}
	c.passed++
	dropped, c.dropped = c.dropped, 0
	return dropped, true
}
