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
	shown bool // standard error is a terminal
	begun time.Time
	mu    sync.Mutex
	bar   *progressbar.ProgressBar
}

func (a *app) newProgress() *progress {
	return &progress{a: a, shown: isTerminal(a.stderr), begun: time.Now()}
}

// set says how many bytes are done, of how many (-1: unknown).
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
			progressbar.OptionSetDescription("reading"),
			progressbar.OptionShowBytes(true),
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
