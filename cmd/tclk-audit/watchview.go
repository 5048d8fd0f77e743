package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/tclk-audit/tclk-audit/internal/obs"
	"github.com/tclk-audit/tclk-audit/internal/report"
	"github.com/tclk-audit/tclk-audit/internal/watch"
	"github.com/tclk-audit/tclk-audit/store"
)

// watchView tells how watch goes: a block on a terminal that is drawn again and
// again, or logs.
type watchView struct {
	a      *app
	live   bool
	logger *slog.Logger

	mu    sync.Mutex
	last  []string // what happened last, newest last
	drawn int      // lines of the block
	rows  int64
	at    time.Time
}

const (
	viewEvents = 6 // of what happened last
	viewEvery  = time.Second
	viewWidth  = 100
)

func (a *app) newView(c *watchConfig) *watchView {
	f := c.flags
	v := &watchView{a: a, live: f.logFormat.value == "auto" && isTerminal(a.stderr) && !f.once}
	format := f.logFormat.value
	if format == "auto" {
		format = "json"
	}
	var level slog.Level
	_ = level.UnmarshalText([]byte(f.logLevel.value)) // it is one of those allowed
	var out io.Writer = a.stderr
	if v.live {
		out, format = lineWriter{v}, "text"
		level = max(level, slog.LevelWarn)
	}
	v.logger = obs.NewLogger(out, format, level)
	return v
}

// lineWriter shows log lines among what happened last.
type lineWriter struct{ v *watchView }

func (w lineWriter) Write(b []byte) (int, error) {
	w.v.happened(strings.TrimSpace(string(b)))
	return len(b), nil
}

func (v *watchView) happened(line string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.last = append(v.last, report.Printable(line))
	if len(v.last) > viewEvents {
		v.last = v.last[1:]
	}
}

// listener shows contracts that change beside telling l.
func (v *watchView) listener(l watch.Listener) watch.Listener {
	if !v.live {
		return l
	}
	contract := l.Store.Contract
	l.Store.Contract = func(i *store.Item) {
		if contract != nil {
			contract(i)
		}
		v.happened(fmt.Sprintf("%s  %s  %s, %s", time.Now().Format("15:04:05"), report.ShortID(i.Contract), i.Status, i.Outlook))
	}
	return l
}

// run draws the block until the function that it returns is called.
func (v *watchView) run(ctx context.Context, w *watch.Watcher) (stop func()) {
	if !v.live {
		return func() {}
	}
	quit, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(viewEvery)
		defer tick.Stop()
		for {
			v.draw(w.State())
			select {
			case <-quit.Done():
				return
			case <-tick.C:
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

func (v *watchView) draw(st watch.State) {
	v.mu.Lock()
	defer v.mu.Unlock()
	var lines []string
	rate := 0.0
	if d := st.At.Sub(v.at).Seconds(); !v.at.IsZero() && d > 0 {
		rate = float64(st.Rows-v.rows) / d
	}
	if st.At.After(v.at) {
		v.rows, v.at = st.Rows, st.At
	}
	for i := range st.Venues {
		s := &st.Venues[i]
		lag := "not read yet"
		if !s.Caught.IsZero() {
			lag = fmt.Sprintf("read %s ago", st.At.Sub(s.Caught).Round(time.Second))
		}
		lines = append(lines,
			fmt.Sprintf("%s  board %s, %d rows behind; %d rooms live, %d waiting", s.Alias, lag, s.Lag, s.Live, s.Waiting),
			fmt.Sprintf("  budget %.0f of %.0f a minute, %.0f left; refused %d times; failing %d", s.Budget.Limit, s.Budget.Full, s.Budget.Left, s.Budget.TooMany, s.Failing))
	}
	lines = append(lines, fmt.Sprintf("rows %s, %.1f a second", report.Count(st.Rows), rate))
	lines = append(lines, v.last...)
	var b strings.Builder
	if v.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", v.drawn)
	}
	for _, l := range lines {
		b.WriteString("\x1b[2K" + l[:min(len(l), viewWidth)] + "\n")
	}
	for range v.drawn - len(lines) {
		b.WriteString("\x1b[2K\n")
	}
	v.drawn = max(v.drawn, len(lines))
	_, _ = io.WriteString(v.a.stderr, b.String()) // a terminal that is gone shows nothing
}
