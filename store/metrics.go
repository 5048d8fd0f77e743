package store

import "github.com/tclk-audit/tclk-audit/verify"

// Metrics are the counters of a store: what Status says without what it looks
// through rooms for.
type Metrics struct {
	Entries, Events, Ticks uint64
	Sources                int64
	Rows                   map[verify.Class]int64 // by signature class; Unchecked stands for malformed rows that are not torn
	Torn                   int64
	Again                  int64 // sightings that said nothing new; they are among Rows and Torn
	RowBytes               int64 // of all rows, with their line ends
	UnusableBytes          int64 // kept of rows that cannot be used
	WithoutBytes           int64 // rows whose bytes were not kept, for a limit
	Pruned                 int64

	// The high-water mark as the file beside the database has it. Where it cannot
	// be read both are 0 and Behind says why.
	MarkEntries, MarkEvents uint64
	Behind                  error // a *BehindError, or a *DamagedError of the mark

	DiskBytes, WALBytes int64
	Venues              []VenueMetrics
}

// VenueMetrics are the counters of one venue.
type VenueMetrics struct {
	Alias    string
	ClockMs  *int64 // the greatest time of a row that counts, Unix ms; nil where there is none
	Funnel   Funnel
	Coverage map[CoverageCode]int64 // each code, how often it happened
	LostRows int64

	Gaps          int64  // holes of the board
	Held, Missing uint64 // its seqs in sight, by whether a row is there
}

// Metrics reads the store's counters. It is cheap however large the store is:
// beside counters it looks at the holes of the boards alone.
func (r *Reader) Metrics() (*Metrics, error) {
	st := &r.state
	db := r.s.db.Metrics()
	m := &Metrics{
		Entries: st.log, Events: st.events, Ticks: st.ticks, Sources: int64(st.sources), Rows: map[verify.Class]int64{},
		Torn: st.rows[5], Again: st.rows[6], RowBytes: st.bytes, UnusableBytes: st.unused, WithoutBytes: st.noBytes, Pruned: st.pruned,
		Behind: r.s.behind, DiskBytes: int64(db.DiskSpaceUsage()), WALBytes: int64(db.WAL.PhysicalSize),
	}
	for c := verify.Unchecked; c <= verify.Invalid; c++ {
		m.Rows[c] = st.rows[c]
	}
	mark, err := readMark(r.s.fs, r.s.path(markName))
	if err != nil && m.Behind == nil {
		return nil, err
	}
	m.MarkEntries, m.MarkEvents = mark.log, mark.events
	for _, v := range r.venues {
		vm := VenueMetrics{Alias: v.alias, Funnel: v.funnel, LostRows: v.lost, Coverage: map[CoverageCode]int64{}}
		if v.hasClock {
			vm.ClockMs = &v.clock
		}
		for _, c := range CoverageCodes() {
			vm.Coverage[c] = v.coverage[c]
		}
		if err := r.board(v); err != nil {
			return nil, err
		}
		vm.Held, vm.Missing, vm.Gaps = v.holes()
		m.Venues = append(m.Venues, vm)
	}
	return m, nil
}

// holes counts the board's seqs in sight by whether a row is there, and the
// holes between them.
func (v *venue) holes() (held, missing uint64, holes int64) {
	for i, g := range v.ranges {
		held += g.to - g.from + 1
		var lacks uint64
		switch {
		case i == 0:
			if g.gen == v.first.gen && v.first.seq < g.from {
				lacks = g.from - v.first.seq
			}
		case v.ranges[i-1].gen != g.gen && g.from <= v.ranges[i-1].to:
			lacks = g.from - 1
		default:
			lacks = g.from - v.ranges[i-1].to - 1
		}
		missing += lacks
		if lacks > 0 {
			holes++
		}
	}
	return held, missing, holes
}

// OutlookCodes lists all outlook codes.
func OutlookCodes() []OutlookCode {
	list := make([]OutlookCode, 0, len(outlookCodes)-1)
	for c := range outlookCodes[1:] {
		list = append(list, OutlookCode(c+1))
	}
	return list
}
