package main

import (
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
)

// barAfter is how long work must last before a progress bar is worth showing.
const barAfter = time.Second

// progress is a bar on standard error: only on a terminal, and only once the
// work has lasted for barAfter.
type progress struct {
	a     *app
	what  string
	bytes bool // what is counted
	shown bool // standard error is a terminal
	begun time.Time
	mu    sync.Mutex
	bar   *progressbar.ProgressBar
}

func (a *app) newProgress(what string, bytes bool) *progress {
	return &progress{a: a, what: what, bytes: bytes, shown: isTerminal(a.stderr), begun: time.Now()}
}

// set says how much is done, of how many (-1: unknown).
func (p *progress) set(done, total int64) {
	if !p.shown {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar == nil {
		if time.Since(p.begun) < barAfter {
			return
		}
		p.bar = progressbar.NewOptions64(total,
			progressbar.OptionSetWriter(p.a.stderr),
			progressbar.OptionSetDescription(p.what),
			progressbar.OptionShowBytes(p.bytes),
			progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionClearOnFinish(),
			progressbar.OptionFullWidth(),
		)
	}
	_ = p.bar.Set64(done)
}

func (p *progress) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		_ = p.bar.Finish()
		_ = p.bar.Clear()
		p.bar = nil
	}
}
