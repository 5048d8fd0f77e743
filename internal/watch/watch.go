package watch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tclk-audit/tclk-audit/export"
	"github.com/tclk-audit/tclk-audit/internal/audit"
	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/store"
)

const (
	// commitAfter is how long rows of deal rooms are gathered before they are
	// committed. Rows of the board are at once.
	commitAfter = 500 * time.Millisecond
	// drainTime is how long answers that are under way are waited for when the
	// watcher is to stop. The rest of its ten seconds is for the store.
	drainTime = 5 * time.Second
	stateTime = time.Second // how old State may be
)

// Watcher follows venues into a store.
type Watcher struct {
	o      Options
	store  *store.Store
	writer *store.Writer
	judge  *audit.Judge
	sites  []*site

	results chan *result
	reloads chan reload
	asks    sync.WaitGroup

	now     func() time.Time
	once    bool
	running bool
	began   time.Time
	failed  error
	unread  int // rooms that a single pass could not read

	soiled time.Time // since when something waits to be committed
	urgent bool
	raws   []export.RawRow
	row    store.Row
	rows   int64

	pass Pass

	mu      sync.Mutex
	state   State
	stated  time.Time
	changes chan struct{} // closed at the next commit
}

// New makes a watcher over a store that is open for writing. Run it once.
func New(s *store.Store, o Options) (*Watcher, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	w := &Watcher{
		o: o, store: s, judge: audit.NewJudge(s.Rules()), results: make(chan *result, maxVenues*(maxAsked+1)),
		reloads: make(chan reload), now: time.Now, changes: make(chan struct{}),
	}
	for _, v := range o.Venues {
		site, err := newSite(w, v)
		if err != nil {
			return nil, err
		}
		w.sites = append(w.sites, site)
	}
	return w, nil
}

// Run watches until ctx ends, and then stops within ten seconds: it waits for a
// moment for the answers that are under way, and commits what they brought. Its
// error is one of the store.
func (w *Watcher) Run(ctx context.Context) error {
	_, err := w.work(ctx, false)
	return err
}

// Once reads the board and every room that matters one time, and returns what
// it saw.
func (w *Watcher) Once(ctx context.Context) (*Pass, error) { return w.work(ctx, true) }

// Pass is what a single pass saw.
type Pass struct {
	Rows         int64 // stored
	Malformed    int64
	Torn         int64
	Forged       int64 // signatures that do not hold
	Lost         int64 // rows that are known to be lost, but for those before the first look
	Contracts    int   // written
	Contradicted int   // of them, those whose evidence contradicts itself
	Unread       int   // rooms that could not be read

	verdicts map[protocol.ID]bool // by contract: contradicted
}

// Exit is the exit code that a pass leads to: that of an audit of what it saw.
func (p *Pass) Exit() int {
	switch {
	case p.Unread > 0:
		return audit.ExitNotFinished
	case p.Malformed > 0 || p.Forged > 0 || p.Contradicted > 0:
		return audit.ExitWrong
	case p.Torn > 0:
		return audit.ExitCannotTell
	}
	return audit.ExitClean
}

func (w *Watcher) work(ctx context.Context, once bool) (pass *Pass, err error) {
	w.once, w.began = once, w.now()
	if w.writer, err = w.store.NewWriter(); err != nil {
		return nil, err
	}
	asking, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer func() {
		cancel()
		w.asks.Wait()
		for _, s := range w.sites {
			s.client.Close()
		}
		err = errors.Join(err, w.writer.Close())
	}()
	l := w.o.Listener.Store
	told := l.Contract
	l.Contract = func(i *store.Item) {
		if told != nil {
			told(i)
		}
		w.contract(i)
	}
	w.writer.Listen(l)
	settings := store.Settings{GraceMs: w.o.Settle.Milliseconds(), WarnMs: w.o.WarnBefore.Milliseconds()}
	for _, s := range w.sites {
		if err := w.writer.Set(s.o.Alias, settings); err != nil {
			return nil, err
		}
	}
	if err := w.commit(); err != nil {
		return nil, err
	}
	for _, s := range w.sites {
		if err := s.load(); err != nil {
			return nil, err
		}
	}
	w.running = true
	defer func() { w.running = false }()
	if err := w.loop(ctx, asking); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, w.drain(cancel)
	}
	return w.pass.end(w.unread), nil
}

// loop sends requests and takes in what they bring, until ctx ends or a single
// pass is over.
func (w *Watcher) loop(ctx, asking context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now := w.now()
		wake := stateTime
		idle := true
		for _, s := range w.sites {
			s.review(now)
			wake = min(wake, s.dispatch(asking, now))
			idle = idle && s.asked == 0 && !s.asking
		}
		if err := w.settle(now, idle && w.once); err != nil {
			return err
		}
		if w.once && idle && w.over() {
			return nil
		}
		if !w.soiled.IsZero() {
			wake = min(wake, commitAfter)
		}
		w.snapshot(now, false)
		timer.Reset(max(wake, time.Millisecond))
		select {
		case <-ctx.Done():
			return nil
		case r := <-w.reloads:
			r.done <- w.reload(r.o)
		case res := <-w.results:
			if err := w.take(res); err != nil {
				return err
			}
		case <-timer.C:
		}
	}
}

// take takes in a result, and those that wait behind it.
func (w *Watcher) take(res *result) error {
	for {
		if err := res.s.handle(res); err != nil {
			return err
		}
		if w.failed != nil {
			return w.failed
		}
		if w.urgent {
			if err := w.commit(); err != nil {
				return err
			}
		}
		select {
		case res = <-w.results:
		default:
			return nil
		}
	}
}

// over reports whether a single pass has nothing left to do.
func (w *Watcher) over() bool {
	for _, s := range w.sites {
		if s.asked > 0 || s.board.queue != nil || len(s.fresh.rooms)+len(s.hot.rooms)+len(s.young.rooms)+len(s.rest.rooms)+len(s.waiting) > 0 ||
			s.o.Notes && s.space < namespaces {
			return false
		}
	}
	return true
}

// drain waits a moment for the answers that are under way, and commits.
func (w *Watcher) drain(cancel func()) error {
	deadline := time.NewTimer(drainTime)
	defer deadline.Stop()
	stop := time.AfterFunc(drainTime/2, cancel)
	defer stop.Stop()
	left := func() (n int) {
		for _, s := range w.sites {
			n += s.asked
		}
		return n
	}
	for left() > 0 {
		select {
		case res := <-w.results:
			if err := w.take(res); err != nil {
				return err
			}
			continue
		case <-deadline.C:
		}
		break
	}
	if err := w.commit(); err != nil {
		return err
	}
	now := w.now()
	for _, s := range w.sites {
		late := 0
		for _, r := range s.rooms {
			if r.queue != nil && r.due.Before(now) || r.waits {
				late++
			}
		}
		w.o.Listener.notice(s.o.Alias, s.o.Alias, false, fmt.Sprintf("stopped: %d rooms were followed, of which %d were due; %d answers were not waited for", len(s.rooms), late, s.asked))
	}
	w.snapshot(now, true)
	return nil
}

// run asks in a goroutine of its own; the loop takes in what comes.
func (w *Watcher) run(ctx context.Context, res *result, ask func(context.Context)) {
	w.asks.Go(func() {
		begun := time.Now()
		ask(ctx)
		res.took = time.Since(begun)
		w.results <- res
	})
}

// soil notes that something is to be committed.
func (w *Watcher) soil(r *room) {
	if w.soiled.IsZero() {
		w.soiled = w.now()
	}
	if r.class == ClassBoard {
		w.urgent = true
	}
}

// settle commits what has waited long enough, and tells the store how far the
// venues' clocks have come.
func (w *Watcher) settle(now time.Time, all bool) error {
	for _, s := range w.sites {
		// It goes on while the venue answers nothing.
		heard := s.heard + now.Sub(s.heardAt).Milliseconds()
		if s.heard > 0 && heard >= max(s.clocked, s.ts)+clockStep.Milliseconds() {
			s.clocked = heard
			if err := w.writer.Clock(s.o.Alias, heard); err != nil {
				return err
			}
			if w.soiled.IsZero() {
				w.soiled = now
			}
		}
	}
	if w.soiled.IsZero() || !all && now.Sub(w.soiled) < commitAfter {
		return nil
	}
	return w.commit()
}

func (w *Watcher) commit() error {
	w.soiled, w.urgent = time.Time{}, false
	if err := w.writer.Tick(); err != nil {
		return err
	}
	now := w.now()
	for _, s := range w.sites {
		s.settleMoved(now)
	}
	w.mu.Lock()
	close(w.changes)
	w.changes = make(chan struct{})
	w.mu.Unlock()
	return w.failed
}

// Changed returns a channel that is closed at the next commit.
func (w *Watcher) Changed() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changes
}

// contract is told of what was concluded about a contract.
func (w *Watcher) contract(i *store.Item) {
	if w.once {
		w.pass.contract(i)
	}
	for _, s := range w.sites {
		if s.o.Alias == i.Venue {
			s.contract(i)
		}
	}
}

// stored is told of a row that was stored.
func (w *Watcher) stored(s *site, r *room, j *audit.Judged) {
	w.rows++
	w.pass.row(j)
	if l := &w.o.Listener; l.Row != nil {
		l.Row(s.o.Alias, r.class, j)
	}
}

type reload struct {
	o    Options
	done chan error
}

// Reload puts other rooms and limits in force: Rooms, Notes, Live, Linger,
// Share, ReadsPerMinute and the intervals of the venues that are watched. All
// else stays as it is, and is refused where it differs.
func (w *Watcher) Reload(ctx context.Context, o Options) error {
	r := reload{o, make(chan error, 1)}
	select {
	case w.reloads <- r:
		return <-r.done
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *Watcher) reload(o Options) error {
	o, err := o.withDefaults()
	if err != nil {
		return err
	}
	if len(o.Venues) != len(w.sites) || o.Settle != w.o.Settle || o.WarnBefore != w.o.WarnBefore {
		return errors.New("watch: venues and times of conclusions cannot change while it runs: start it again")
	}
	for i, v := range o.Venues {
		if v.Alias != w.sites[i].o.Alias || v.Origin != w.sites[i].o.Origin {
			return fmt.Errorf("watch: venue %s cannot change while it runs: start it again", w.sites[i].o.Alias)
		}
	}
	now := w.now()
	for i, v := range o.Venues {
		s := w.sites[i]
		v.Transport = s.o.Transport
		if v.Share != s.o.Share || v.ReadsPerMinute != s.o.ReadsPerMinute {
			if err := s.client.SetBudget(v.Share, v.ReadsPerMinute); err != nil {
				return err
			}
		}
		s.o = v
		named := map[string]bool{}
		for _, name := range v.Rooms {
			named[name] = true
			s.name(name, now)
		}
		for _, r := range s.rooms {
			if r.named && !named[r.name] && r.class != ClassBoard {
				r.named = false
				if r.class == ClassOther || r.deal.status == 0 {
					r.hint = true
				}
			}
			s.place(r, now)
		}
		s.ranked = time.Time{}
	}
	w.o.Venues = o.Venues
	return nil
}
