package obs

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/internal/watch"
	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/store"
	"github.com/tclk-audit/tclk-audit/verify"
)

const (
	// stateAge is how old a watcher's word of how it stands may be. It gives one
	// each second, unless the disk holds it up.
	stateAge = 30 * time.Second
	// downAfter is how many requests fail in a row at a venue that is down.
	downAfter = 5
)

// standing collects what is read when the metrics are scraped: the store's
// counters and how the watcher stands.
type standing struct {
	ob    *Observer
	descs map[*Family]*prometheus.Desc
}

// descs describes the families that are read when the metrics are scraped.
func descs() map[*Family]*prometheus.Desc {
	m := map[*Family]*prometheus.Desc{}
	counted := map[*Family]bool{
		famRows: true, famFrames: true, famSteps: true, famRejections: true, famToReveal: true, famMargin: true, famLate: true, famWarnings: true,
		famFold: true, famCommit: true, famMark: true, famEntries: true, famRequests: true, famTook: true, famDropped: true,
	}
	for _, f := range families {
		if !counted[f] {
			m[f] = prometheus.NewDesc(f.Name, f.Help, f.labelNames(), nil)
		}
	}
	return m
}

// Describe implements prometheus.Collector.
func (s *standing) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range s.descs {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (s *standing) Collect(ch chan<- prometheus.Metric) {
	give := func(f *Family, v float64, labels ...string) {
		t := prometheus.GaugeValue
		if f.Type == Counter {
			t = prometheus.CounterValue
		}
		ch <- prometheus.MustNewConstMetric(s.descs[f], t, v, labels...)
	}
	give(famBuild, 1, s.ob.buildLabels()...)
	if at := s.ob.lastCommit.Load(); at != 0 {
		give(famCommitTime, float64(at)/1e9)
	}
	if s.ob.o.Store != nil {
		m := s.ob.metrics()
		give(famStoreUp, truth(m != nil))
		if m != nil {
			stored(give, m)
		}
	}
	if s.ob.o.State != nil {
		st := s.ob.o.State()
		s.ob.watched(give, &st, time.Now())
	}
	if s.ob.o.HTTP != nil {
		h := s.ob.o.HTTP()
		for i, n := range h.Answers {
			give(famAnswers, float64(n), byAnswer.Values[i])
		}
		give(famOpen, float64(h.Open))
		give(famStreams, float64(h.Streams))
	}
}

type giver func(f *Family, v float64, labels ...string)

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// metrics reads the store's counters; nil where that fails. Scrapes that come
// together share what one reads.
func (ob *Observer) metrics() *store.Metrics {
	ob.mu.Lock()
	defer ob.mu.Unlock()
	if ob.closed {
		return nil
	}
	if !ob.readAt.IsZero() && time.Since(ob.readAt) < ob.fresh {
		return ob.read
	}
	m, err := readStore(ob.o.Store)
	ob.read, ob.readAt = m, time.Now()
	text := ""
	if err != nil {
		text = clean(err.Error())
		if text != ob.failed {
			ob.log.Error("the store's counters could not be read", "error", text)
		}
	}
	ob.failed = text
	return m
}

func readStore(s *store.Store) (*store.Metrics, error) {
	r, err := s.Reader()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return r.Metrics()
}

// stored gives what the store holds.
func stored(give giver, m *store.Metrics) {
	for i := range m.Venues {
		v := &m.Venues[i]
		if !store.ValidVenue(v.Alias) {
			continue
		}
		f := &v.Funnel
		for i, n := range f.ByStatus {
			give(famContracts, float64(n), v.Alias, word(protocol.Status(i).String()))
		}
		for i, n := range f.ByOutlook {
			give(famOutlook, float64(n), v.Alias, word(store.OutlookCode(i).String()))
		}
		for i, n := range f.ByBinding {
			give(famBinding, float64(n), v.Alias, word(fold.Binding(i).String()))
		}
		for i, n := range f.ByEvidence {
			give(famEvidence, float64(n), v.Alias, word(fold.EvidenceAxis(i).String()))
		}
		give(famReceipted, float64(f.Receipted), v.Alias)
		give(famOffers, float64(f.Bound), v.Alias, "bound")
		give(famOffers, float64(f.Offers-f.Bound), v.Alias, "unbound")
		if v.ClockMs != nil {
			give(famClock, float64(*v.ClockMs)/1000, v.Alias)
		}
		give(famGaps, float64(v.Gaps), v.Alias)
		give(famHeld, float64(v.Held), v.Alias)
		give(famMissing, float64(v.Missing), v.Alias)
		give(famLost, float64(v.LostRows), v.Alias)
		for code, n := range v.Coverage {
			give(famCoverage, float64(n), v.Alias, code.String())
		}
	}
	for _, c := range []verify.Class{verify.Authentic, verify.Repaired, verify.Unsigned, verify.Invalid} {
		give(famStoreRows, float64(m.Rows[c]), c.String())
	}
	give(famStoreRows, float64(m.Rows[verify.Unchecked]), rowMalformed)
	give(famStoreRows, float64(m.Torn), rowTorn)
	give(famAgain, float64(m.Again))
	give(famLog, float64(m.Entries))
	give(famEvents, float64(m.Events))
	if m.Behind == nil || m.MarkEntries > 0 {
		give(famAckLog, float64(m.MarkEntries))
		give(famAckEvents, float64(m.MarkEvents))
	}
	give(famBehind, truth(m.Behind != nil))
	give(famDisk, float64(m.DiskBytes))
	give(famWAL, float64(m.WALBytes))
	give(famRowBytes, float64(m.RowBytes))
	give(famUnusable, float64(m.UnusableBytes))
	give(famNoBytes, float64(m.WithoutBytes))
	give(famPruned, float64(m.Pruned))
}

// watched gives how the watcher stands.
func (ob *Observer) watched(give giver, st *watch.State, now time.Time) {
	if st.At.IsZero() {
		return
	}
	give(famStateTime, unix(st.At))
	old := now.Sub(st.At) > stateAge
	for i := range st.Venues {
		v := &st.Venues[i]
		if !ob.meet(v.Alias) {
			continue
		}
		up := !old && v.Failing < downAfter && (!v.Caught.IsZero() || v.Limits.Found)
		give(famUp, truth(up), v.Alias)
		if !v.Caught.IsZero() {
			give(famCaught, unix(v.Caught), v.Alias)
		}
		if old {
			continue
		}
		ob.rooms(give, v, up)
		give(famFailing, float64(v.Failing), v.Alias)
		b := &v.Budget
		give(famTooMany, float64(b.TooMany), v.Alias)
		give(famFull, b.Full, v.Alias)
		give(famLimit, b.Limit, v.Alias)
		give(famLeft, b.Left, v.Alias)
		give(famQueued, float64(b.Waiting), v.Alias)
		give(famPaused, max(b.Paused.Sub(now), 0).Seconds(), v.Alias)
		if v.Limits.Found {
			give(famExports, truth(v.Limits.Exports), v.Alias)
			give(famSigned, truth(v.Limits.Signatures), v.Alias)
			give(famVenue, 1, v.Alias, plain(&ofVersion, v.Limits.Version))
		}
	}
}

func (ob *Observer) rooms(give giver, v *watch.VenueState, up bool) {
	if up && (!v.Caught.IsZero() || v.Lag > 0) {
		give(famLag, float64(v.Lag), v.Alias, string(watch.ClassBoard))
	}
	for class, c := range v.Classes {
		word := string(class)
		if !byClass.Allows(word) {
			continue
		}
		give(famRooms, float64(c.Rooms), v.Alias, word)
		give(famUnread, float64(c.Unread), v.Alias, word)
		give(famDisabled, float64(c.Disabled), v.Alias, word)
		// A class without a room that is read in turn has no age.
		if c.Rooms > c.Unread && c.Rooms > c.Disabled && (class != watch.ClassDeal || v.Live > 0) {
			give(famSuccess, c.Oldest.Seconds(), v.Alias, word)
			give(famOverdue, c.Overdue.Seconds(), v.Alias, word)
		}
	}
	give(famLive, float64(v.Live), v.Alias)
	give(famWaiting, float64(v.Waiting), v.Alias)
	for _, need := range byNeed.Values {
		give(famNeeds, float64(v.Needs[need]), v.Alias, need)
	}
}

func unix(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }
