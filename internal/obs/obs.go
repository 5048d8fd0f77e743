// Package obs says how a watcher stands: in metrics for Prometheus, and in log
// records for an operator.
//
// An Observer is told of what the watcher does by its Listener, asks it how it
// stands and reads the store's counters when it is scraped. Every family, label
// and label value is of a closed list: nothing that a stranger writes on a board
// becomes a label, and nothing of it reaches the log but lengths, hashes, and
// names that follow the venue's grammar. What could not be read is absent, never
// zero. docs/metrics.md is the list.
package obs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/internal/audit"
	"github.com/tclk-audit/tclk-audit/internal/watch"
	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/store"
	"github.com/tclk-audit/tclk-audit/verify"
)

const (
	// cacheTime is how long what was read of the store serves further scrapes.
	cacheTime = time.Second
	// scrapeTime is how long one scrape may take, and maxScrapes how many there
	// may be at once: beyond them the answer is 503.
	scrapeTime = 10 * time.Second
	maxScrapes = 8
)

// Options of an Observer. All but Version may be left out.
type Options struct {
	Version string       // of the program
	Store   *store.Store // what it holds is read when it is scraped, until Close
	// State says how the watcher stands: watch.Watcher.State. The zero State
	// stands for a watcher that does not run yet.
	State func() watch.State
	// HTTP says how the process's own HTTP surface stands.
	HTTP func() HTTP
	// Registerer takes the metrics. It has to be a prometheus.Gatherer as well,
	// as a Registry is. nil: a new registry.
	Registerer prometheus.Registerer
	Log        *slog.Logger // nil: nothing is logged
}

// HTTP is how an HTTP surface stands.
type HTTP struct {
	Answers [5]int64 // by class of status: 1xx to 5xx, since the start
	Open    int      // requests under way
	Streams int      // of them, streams of events
}

// Observer keeps the metrics of a watcher and writes its log. It is safe for
// concurrent use.
type Observer struct {
	o      Options
	log    *slog.Logger
	limit  limiter
	gather prometheus.Gatherer

	rows, frames, steps, rejections, late, warnings, requests, dropped *prometheus.CounterVec
	toReveal, margin, took                                             *prometheus.HistogramVec
	fold, commit, mark, entries                                        prometheus.Histogram

	lastCommit atomic.Int64 // Unix ns; 0: none

	fresh time.Duration // cacheTime

	met sync.Map // venues whose counters are there

	mu     sync.Mutex // held while the store is read: the watcher's goroutine takes none
	closed bool
	read   *store.Metrics // nil where the store could not be read
	readAt time.Time
	failed string // the last failure that was logged
}

// New makes an Observer and registers all its metrics, with those of the Go
// runtime and of the process. It fails where the registerer has one of them
// already.
func New(o Options) (*Observer, error) {
	if o.Registerer == nil {
		o.Registerer = prometheus.NewRegistry()
	}
	gather, ok := o.Registerer.(prometheus.Gatherer)
	if !ok {
		return nil, errors.New("obs: the registerer cannot gather what it registers: give a prometheus.Registry")
	}
	ob := &Observer{o: o, log: o.Log, gather: gather, fresh: cacheTime, limit: limiter{kinds: map[[2]string]*limited{}}}
	if ob.log == nil {
		ob.log = slog.New(slog.DiscardHandler)
	}
	var made []prometheus.Collector
	counter := func(f *Family) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: f.Name, Help: f.Help}, f.labelNames())
		made = append(made, c)
		return c
	}
	histograms := func(f *Family) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: f.Name, Help: f.Help, Buckets: f.Buckets}, f.labelNames())
		made = append(made, h)
		return h
	}
	single := func(f *Family) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: f.Name, Help: f.Help, Buckets: f.Buckets})
		made = append(made, h)
		return h
	}
	ob.rows, ob.frames, ob.steps, ob.rejections = counter(famRows), counter(famFrames), counter(famSteps), counter(famRejections)
	ob.late, ob.warnings, ob.requests, ob.dropped = counter(famLate), counter(famWarnings), counter(famRequests), counter(famDropped)
	ob.toReveal, ob.margin, ob.took = histograms(famToReveal), histograms(famMargin), histograms(famTook)
	ob.fold, ob.commit, ob.mark, ob.entries = single(famFold), single(famCommit), single(famMark), single(famEntries)
	for _, kind := range byKind.Values {
		ob.dropped.WithLabelValues(kind)
	}
	made = append(made, &standing{ob: ob, descs: descs()}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, c := range made {
		if err := o.Registerer.Register(c); err != nil {
			return nil, fmt.Errorf("obs: registering metrics: %w", err)
		}
	}
	return ob, nil
}

// Close ends the reading of the store: what it holds is absent from then on.
// Call it before the store is closed.
func (ob *Observer) Close() {
	ob.mu.Lock()
	defer ob.mu.Unlock()
	ob.closed, ob.read = true, nil
}

// Handler serves the metrics.
func (ob *Observer) Handler() http.Handler {
	return promhttp.HandlerFor(ob.gather, promhttp.HandlerOpts{
		ErrorLog: scrapeLog{ob.log}, ErrorHandling: promhttp.HTTPErrorOnError, MaxRequestsInFlight: maxScrapes, Timeout: scrapeTime,
	})
}

type scrapeLog struct{ log *slog.Logger }

func (l scrapeLog) Println(v ...any) {
	l.log.Error("metrics could not be served", "error", clean(fmt.Sprint(v...)))
}

// Listener tells the Observer of what the watcher does.
func (ob *Observer) Listener() watch.Listener {
	return watch.Listener{
		Request: ob.request, Row: ob.row, Coverage: ob.coverage, Notice: ob.notice,
		Store: store.Listener{Step: ob.step, Deadline: ob.deadline, Window: ob.window},
	}
}

// meet makes the counters of a venue stand at zero, so that their first rise is
// seen to be one. It reports whether the venue can have counters.
func (ob *Observer) meet(venue string) bool {
	if !store.ValidVenue(venue) {
		return false
	}
	if _, met := ob.met.LoadOrStore(venue, true); met {
		return true
	}
	for _, class := range byClass.Values {
		for _, signed := range bySigned.Values {
			ob.rows.WithLabelValues(venue, signed, class)
		}
	}
	for _, typ := range byType.Values[1:] {
		for _, result := range []string{resultDecoded, resultUndecodable} {
			ob.frames.WithLabelValues(venue, typ, result)
		}
		for _, result := range byStep.Values {
			if result != resultIgnored {
				ob.steps.WithLabelValues(venue, typ, result)
			}
		}
	}
	for _, result := range []string{resultUndecodable, resultIgnored} {
		ob.frames.WithLabelValues(venue, none, result)
	}
	ob.steps.WithLabelValues(venue, none, resultIgnored)
	for _, reason := range protocol.Reasons() {
		ob.rejections.WithLabelValues(venue, reason.String(), "false")
		if ofStep(reason) {
			ob.rejections.WithLabelValues(venue, reason.String(), "true")
		}
	}
	for _, ask := range byAsk.Values {
		ob.took.WithLabelValues(venue, ask)
		for _, code := range byCode.Values {
			ob.requests.WithLabelValues(venue, ask, code)
		}
	}
	ob.late.WithLabelValues(venue)
	ob.warnings.WithLabelValues(venue)
	ob.toReveal.WithLabelValues(venue)
	ob.margin.WithLabelValues(venue)
	return true
}

// ofStep reports whether a reason is one that a contract gives. All others are a
// row's own: it has them whatever contract it is for.
func ofStep(r protocol.Reason) bool { return r >= protocol.SenderMismatch }

func (ob *Observer) request(venue, ask, code string, took time.Duration) {
	if !byAsk.Allows(ask) || !byCode.Allows(code) || !ob.meet(venue) {
		return
	}
	ob.requests.WithLabelValues(venue, ask, code).Inc()
	ob.took.WithLabelValues(venue, ask).Observe(took.Seconds())
	ob.log.LogAttrs(context.Background(), slog.LevelDebug, "request ended",
		slog.String("venue", venue), slog.String("ask", ask), slog.String("code", code), slog.Float64("seconds", took.Seconds()))
}

func (ob *Observer) row(venue string, class watch.Class, j *audit.Judged) {
	if !ob.meet(venue) {
		return
	}
	signed, reason := rowMalformed, j.Malformed
	switch {
	case j.Torn:
		signed = rowTorn
	case j.Malformed != protocol.ReasonNone:
	default:
		v := &j.Row.Verify
		signed = v.Class.String()
		if v.Class != verify.Authentic && v.Class != verify.Repaired {
			reason = v.Reason
			break
		}
		line := &j.Row.Line
		reason = line.Reason
		result := resultUndecodable
		switch {
		case line.Frame != nil:
			result = resultDecoded
		case line.Reason.Ignored():
			result = resultIgnored
		}
		ob.frames.WithLabelValues(venue, word(line.Type.String()), result).Inc()
	}
	ob.rows.WithLabelValues(venue, signed, string(class)).Inc()
	if reason != protocol.ReasonNone {
		ob.rejections.WithLabelValues(venue, reason.String(), "false").Inc()
	}
}

func (ob *Observer) step(venue string, c *fold.Contract, s *fold.Step) {
	if !ob.meet(venue) {
		return
	}
	result := resultCounted
	switch {
	case s.Ignored:
		result = resultIgnored
	case s.CascadeOf != nil:
		result = resultCascaded
	case !s.OK:
		result = resultRejected
	}
	ob.steps.WithLabelValues(venue, word(s.Type.String()), result).Inc()
	if !s.OK && ofStep(s.Reason) {
		ob.rejections.WithLabelValues(venue, s.Reason.String(), strconv.FormatBool(s.CascadeOf != nil)).Inc()
	}
	if s.Type == protocol.TypeReveal && s.OK && !s.Ignored {
		ob.reveal(venue, c, s)
	}
}

func (ob *Observer) reveal(venue string, c *fold.Contract, s *fold.Step) {
	seconds := func(ms int64) float64 { return float64(ms) / 1000 }
	ob.margin.WithLabelValues(venue).Observe(seconds(c.ClaimByMs - s.TsMs))
	if s.TsMs > c.ClaimByMs {
		ob.late.WithLabelValues(venue).Inc()
	}
	for i := range c.Steps {
		if lock := &c.Steps[i]; lock.Type == protocol.TypeLock && lock.OK {
			// Times of rows may run backwards: rows count by their order.
			ob.toReveal.WithLabelValues(venue).Observe(seconds(max(s.TsMs-lock.TsMs, 0)))
			return
		}
	}
}

func (ob *Observer) deadline(e *store.Event) {
	if !ob.meet(e.Venue) {
		return
	}
	ob.warnings.WithLabelValues(e.Venue).Inc()
	message := "refund deadline near, no reveal seen"
	if e.ClockMs >= e.DeadlineMs {
		message = "refund window open, no reveal seen"
	}
	ob.write(slog.LevelWarn, kindDeadline, e.Venue, message,
		slog.String("contract", e.Contract.String()), slog.Time("deadline", time.UnixMilli(e.DeadlineMs).UTC()),
		slog.Float64("seconds", float64(e.DeadlineMs-e.ClockMs)/1000))
}

func (ob *Observer) window(w store.WindowInfo) {
	ob.entries.Observe(float64(w.Entries))
	ob.fold.Observe(w.Folding.Seconds())
	ob.commit.Observe(w.Commit.Seconds())
	ob.mark.Observe(w.Mark.Seconds())
	ob.lastCommit.Store(time.Now().UnixNano())
}

func (ob *Observer) coverage(venue string, class watch.Class, c store.Coverage) {
	level, kind, msg := slog.LevelInfo, kindReset, "the room is not what it was"
	if c.Code.Lost() {
		level, kind, msg = slog.LevelWarn, kindLost, "rows are lost"
	}
	ob.write(level, kind, venue, msg, slog.String("event", c.Code.String()), slog.String("class", string(class)), slog.String("room", name(c.Room)),
		slog.Uint64("generation", c.Generation), slog.Uint64("from", c.From), slog.Uint64("to", c.To), slog.String("seen", clean(c.Evidence)))
}

func (ob *Observer) notice(venue, about string, serious bool, text string) {
	level, kind := slog.LevelInfo, kindNotice
	if serious {
		level, kind = slog.LevelWarn, kindSerious
	}
	ob.write(level, kind, venue, "notice", slog.String("about", name(about)), slog.String("text", clean(text)))
}

// name is a room or an alias as it can be logged.
func name(s string) string {
	if protocol.ValidRoom(s) || store.ValidVenue(s) {
		return s
	}
	return fmt.Sprintf("no name (%d bytes)", len(s))
}

// write writes a record, where its kind may have another one.
func (ob *Observer) write(level slog.Level, kind, venue, msg string, attrs ...slog.Attr) {
	if !ob.log.Enabled(context.Background(), level) {
		return
	}
	venue = name(venue)
	dropped, ok := ob.limit.pass(kind, venue, time.Now())
	if !ok {
		ob.dropped.WithLabelValues(kind).Inc()
		return
	}
	attrs = append([]slog.Attr{slog.String("venue", venue)}, attrs...)
	if dropped > 0 {
		attrs = append(attrs, slog.Int64("dropped", dropped))
	}
	ob.log.LogAttrs(context.Background(), level, msg, attrs...)
}

// buildLabels are the values of the build's labels.
func (ob *Observer) buildLabels() []string {
	rules := fold.Rules{}
	if ob.o.Store != nil {
		rules = ob.o.Store.Rules()
	}
	return []string{plain(&ofVersion, ob.o.Version), rules.String(), strconv.Itoa(store.FoldVersion), plain(&ofGo, runtime.Version())}
}

// plain is a value that the label allows; another one is unknown.
func plain(l *Label, value string) string {
	if l.Allows(value) {
		return value
	}
	return "unknown"
}
