package obs

import (
	"regexp"
	"slices"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/internal/watch"
	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/store"
)

// Prefix begins the name of every family but those of the Go runtime and of the
// process.
const Prefix = "tclk_audit_"

// Type is the type of a family, in the words of the exposition format.
type Type string

// The types.
const (
	Counter   Type = "counter"
	Gauge     Type = "gauge"
	Histogram Type = "histogram"
)

// Label is a label of a family, and what it can say.
type Label struct {
	Name string
	// Values is the closed list of its values. Where it is nil, Form says what
	// they look like.
	Values []string
	Form   *regexp.Regexp
}

// Allows reports whether the label can have the value.
func (l *Label) Allows(value string) bool {
	if l.Values != nil {
		return slices.Contains(l.Values, value)
	}
	return l.Form.MatchString(value)
}

// Family is a family of metrics.
type Family struct {
	Name    string // with Prefix
	Type    Type
	Help    string
	Labels  []Label
	Buckets []float64 // upper bounds, of a histogram
}

func (f *Family) labelNames() []string {
	names := make([]string, len(f.Labels))
	for i := range f.Labels {
		names[i] = f.Labels[i].Name
	}
	return names
}

// Families lists all families, in the order of docs/metrics.md. Dashboards and
// alerts can rely on them.
func Families() []Family {
	list := make([]Family, len(families))
	for i, f := range families {
		list[i] = *f
	}
	return list
}

var families []*Family

func family(name string, t Type, help string, labels ...Label) *Family {
	f := &Family{Name: Prefix + name, Type: t, Help: help, Labels: labels}
	families = append(families, f)
	return f
}

func histogram(name, help string, buckets []float64, labels ...Label) *Family {
	f := family(name, Histogram, help, labels...)
	f.Buckets = buckets
	return f
}

// none is the value of a label where there is nothing to say.
const none = "none"

// The results of rows and of steps.
const (
	resultDecoded     = "decoded"
	resultUndecodable = "undecodable"
	resultIgnored     = "ignored"
	resultCounted     = "counted"
	resultRejected    = "rejected"
	resultCascaded    = "cascaded"
)

const (
	rowMalformed = "malformed"
	rowTorn      = "torn"
)

// words are what the values of an enumeration are called; the empty word of its
// zero value is none.
func words[T interface{ String() string }](values ...T) []string {
	list := make([]string, len(values))
	for i, v := range values {
		list[i] = word(v.String())
	}
	return list
}

func word(s string) string {
	if s == "" {
		return none
	}
	return s
}

// upTo lists the values of an enumeration from its zero value.
func upTo[T ~uint8](last T) (list []T) {
	for v := T(0); v <= last; v++ {
		list = append(list, v)
	}
	return list
}

// The labels.
var (
	byVenue    = Label{Name: "venue", Form: regexp.MustCompile(`^[a-z0-9-]{1,32}$`)}
	byStatus   = Label{Name: "status", Values: words(upTo(protocol.Cancelled)...)}
	byOutlook  = Label{Name: "outlook", Values: append([]string{none}, words(store.OutlookCodes()...)...)}
	byBinding  = Label{Name: "binding", Values: words(upTo(fold.Superseded)...)}
	byEvidence = Label{Name: "evidence", Values: words(upTo(fold.Conflicting)...)}
	byOffer    = Label{Name: "state", Values: []string{"bound", "unbound"}}
	byType     = Label{Name: "type", Values: words(upTo(protocol.TypeHeartbeat)...)}
	byRead     = Label{Name: "result", Values: []string{resultDecoded, resultUndecodable, resultIgnored}}
	byStep     = Label{Name: "result", Values: []string{resultCounted, resultIgnored, resultRejected, resultCascaded}}
	byReason   = Label{Name: "reason", Values: words(protocol.Reasons()...)}
	byRoot     = Label{Name: "cascade", Values: []string{"false", "true"}}
	bySigned   = Label{Name: "signature", Values: []string{"authentic", "repaired", "unsigned", "invalid", rowMalformed, rowTorn}}
	byClass    = Label{Name: "class", Values: classes()}
	byCoverage = Label{Name: "event", Values: words(store.CoverageCodes()...)}
	byNeed     = Label{Name: "need", Values: watch.Needs()}
	byAsk      = Label{Name: "ask", Values: watch.Asks()}
	byCode     = Label{Name: "code", Values: watch.Codes()}
	byKind     = Label{Name: "kind", Values: []string{kindNotice, kindSerious, kindLost, kindReset, kindDeadline}}
	byAnswer   = Label{Name: "answer", Values: []string{"1xx", "2xx", "3xx", "4xx", "5xx"}}
	ofVersion  = Label{Name: "version", Form: regexp.MustCompile(`^[0-9A-Za-z.+_-]{1,64}$`)}
	ofRules    = Label{Name: "rules", Form: regexp.MustCompile(`^(spec|reference)(\+[a-z-]{1,20}){0,3}$`)}
	ofFold     = Label{Name: "fold", Form: regexp.MustCompile(`^[0-9]{1,6}$`)}
	ofGo       = Label{Name: "go", Form: regexp.MustCompile(`^[0-9A-Za-z.+_-]{1,64}$`)}
)

func classes() (list []string) {
	for _, c := range watch.Classes() {
		list = append(list, string(c))
	}
	return list
}

const (
	minute = 60.0
	hour   = 60 * minute
	day    = 24 * hour
)

var (
	workBuckets    = []float64{0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10}
	requestBuckets = []float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}
	entryBuckets   = []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536}
	revealBuckets  = []float64{10, 30, minute, 2 * minute, 5 * minute, 10 * minute, 20 * minute, 30 * minute, hour, 2 * hour, 4 * hour, 8 * hour, day, 2 * day, 4 * day, 7 * day}
	marginBuckets  = []float64{
		-day, -4 * hour, -hour, -10 * minute, -minute, 0, 10, 30, minute, 2 * minute, 5 * minute, 10 * minute, 20 * minute, 30 * minute,
		hour, 2 * hour, 4 * hour, 8 * hour, day, 2 * day, 4 * day, 7 * day,
	}
)

// What the store holds. It survives a restart.
var (
	famContracts  = family("contracts", Gauge, "Contracts in the store by status; none: the offer is not in sight.", byVenue, byStatus)
	famOutlook    = family("contracts_by_outlook", Gauge, "Contracts in the store by outlook at the clock that conclusions follow; none: nothing was concluded.", byVenue, byOutlook)
	famBinding    = family("contracts_by_binding", Gauge, "Contracts in the store by binding; none: the accept did not count.", byVenue, byBinding)
	famEvidence   = family("contracts_by_evidence", Gauge, "Contracts in the store by evidence; none: nothing was concluded.", byVenue, byEvidence)
	famReceipted  = family("contracts_receipted", Gauge, "Contracts in the store with a receipt that counts.", byVenue)
	famOffers     = family("offers", Gauge, "Offers in the store by whether a valid accept is in sight.", byVenue, byOffer)
	famClock      = family("venue_clock_timestamp_seconds", Gauge, "The venue's clock: the greatest time of a row that counts. Absent before there is one.", byVenue)
	famGaps       = family("board_gaps", Gauge, "Holes between the rows of the board that are held.", byVenue)
	famHeld       = family("board_held_rows", Gauge, "Seqs of the board in sight whose row is held.", byVenue)
	famMissing    = family("board_missing_rows", Gauge, "Seqs of the board in sight whose row is not held.", byVenue)
	famLost       = family("rows_lost_total", Counter, "Rows that are known to be lost, but for those before the first look at a room.", byVenue)
	famCoverage   = family("coverage_events_total", Counter, "What happened to rooms beside their rows: rows that were lost, and histories that do not go on.", byVenue, byCoverage)
	famStoreRows  = family("store_rows", Gauge, "Rows in the store's log by signature class, of all venues.", bySigned)
	famAgain      = family("store_sightings", Gauge, "Rows in the store's log that said nothing new.")
	famLog        = family("store_log_position", Gauge, "Position of the last entry of the store's log.")
	famEvents     = family("store_event_number", Gauge, "Number of the newest event.")
	famAckLog     = family("store_acknowledged_log_position", Gauge, "Position up to which the log was acknowledged, as the high-water mark on the disk says.")
	famAckEvents  = family("store_acknowledged_event_number", Gauge, "Number up to which events were acknowledged, as the high-water mark on the disk says.")
	famBehind     = family("store_behind", Gauge, "1 where the store held less than it acknowledged when it was opened.")
	famDisk       = family("store_disk_bytes", Gauge, "Bytes that the store takes on the disk.")
	famWAL        = family("store_write_log_bytes", Gauge, "Bytes of the store's write-log on the disk.")
	famRowBytes   = family("store_row_bytes", Gauge, "Bytes of all rows of the log, with their line ends.")
	famUnusable   = family("store_unusable_bytes", Gauge, "Bytes kept of rows that cannot be used.")
	famNoBytes    = family("store_rows_without_bytes", Gauge, "Rows whose bytes were not kept, for a limit.")
	famPruned     = family("store_pruned_rows", Gauge, "Rows whose bytes were pruned.")
	famStoreUp    = family("store_up", Gauge, "1 where the store's counters could be read; where it is 0 they are absent.")
	famCommitTime = family("last_commit_timestamp_seconds", Gauge, "When a window was last committed, by the machine's clock. Absent before the first one.")
)

// What this process did since it began.
var (
	famRows       = family("rows_total", Counter, "Rows that were stored, by signature class and by class of the room.", byVenue, bySigned, byClass)
	famFrames     = family("frames_total", Counter, "Rows with a signature that holds: decoded frames, lines that try to be one and do not decode, and ignored lines.", byVenue, byType, byRead)
	famSteps      = family("steps_total", Counter, "Rows as steps of a contract, each when its row was stored: counted, ignored, rejected for itself, or cascaded from another rejection.", byVenue, byType, byStep)
	famRejections = family("rejections_total", Counter, "Rows by why they are not used, and steps by why they do not count. Cascades follow from another rejection.", byVenue, byReason, byRoot)
	famToReveal   = histogram("lock_to_reveal_seconds", "Time from a counted lock to its reveal, by the venue's times.", revealBuckets, byVenue)
	famMargin     = histogram("reveal_margin_seconds", "Time that was left until claimByMs at a counted reveal; below zero it was late.", marginBuckets, byVenue)
	famLate       = family("late_reveals_total", Counter, "Counted reveals after claimByMs.", byVenue)
	famWarnings   = family("deadline_warnings_total", Counter, "Warnings that a lock's refund deadline comes near without a reveal.", byVenue)
	famFold       = histogram("fold_duration_seconds", "Time to fold the contracts that a window touched.", workBuckets)
	famCommit     = histogram("commit_duration_seconds", "Time to commit a window to the disk.", workBuckets)
	famMark       = histogram("mark_duration_seconds", "Time to write the high-water mark to the disk.", workBuckets)
	famEntries    = histogram("window_entries", "Entries of the log in a window.", entryBuckets)
	famRequests   = family("venue_requests_total", Counter, "Requests that ended, by what was asked and how they ended.", byVenue, byAsk, byCode)
	famTook       = histogram("venue_request_duration_seconds", "Time that a request took, waiting for the budget included.", requestBuckets, byVenue, byAsk)
	famDropped    = family("log_records_dropped_total", Counter, "Records that were left out of the log for its rate limit.", byKind)
)

// How the watcher stands.
var (
	famUp        = family("venue_up", Gauge, "1 where the venue answers. 0 where nothing was read yet, 5 requests failed in a row, or the watcher has not said for 30 s how it stands.", byVenue)
	famLag       = family("room_lag_rows", Gauge, "Rows of the board that were seen to be there and are not read. Absent before the first look, and where the venue is down.", byVenue, byClass)
	famSuccess   = family("room_last_success_age_seconds", Gauge, "Time since the last success, of the room of the class that was read longest ago. Absent where none was read.", byVenue, byClass)
	famOverdue   = family("room_overdue_seconds", Gauge, "How long overdue the read of the room is that is due longest; 0 where none is. Absent where none was read.", byVenue, byClass)
	famCaught    = family("board_caught_up_timestamp_seconds", Gauge, "When the board was last read to its end, by the machine's clock. Absent before.", byVenue)
	famRooms     = family("rooms", Gauge, "Rooms that are known.", byVenue, byClass)
	famUnread    = family("rooms_unread", Gauge, "Rooms that were never read.", byVenue, byClass)
	famDisabled  = family("rooms_disabled", Gauge, "Rooms that the venue refuses for good.", byVenue, byClass)
	famLive      = family("rooms_live", Gauge, "Rooms that are read in turn, beside the board and those named by the user.", byVenue)
	famWaiting   = family("rooms_waiting", Gauge, "Rooms that wait to be read in turn.", byVenue)
	famNeeds     = family("rooms_by_need", Gauge, "Rooms that are read in turn, by what they are needed for.", byVenue, byNeed)
	famFailing   = family("venue_failures_in_a_row", Gauge, "Requests that failed since the last one that did not.", byVenue)
	famTooMany   = family("venue_too_many_requests_total", Counter, "Answers with status 429.", byVenue)
	famFull      = family("venue_budget_full_requests", Gauge, "Requests that the client's share of the venue's budget allows in one minute.", byVenue)
	famLimit     = family("venue_budget_limit_requests", Gauge, "Requests that the client allows itself in one minute now: fewer after a 429.", byVenue)
	famLeft      = family("venue_budget_left_requests", Gauge, "Requests that could be sent at once.", byVenue)
	famQueued    = family("venue_budget_waiting_requests", Gauge, "Requests that wait for the budget.", byVenue)
	famPaused    = family("venue_paused_seconds", Gauge, "How long no request will be sent, after a 429.", byVenue)
	famExports   = family("venue_exports", Gauge, "1 where the venue has exports. Absent before its limits were read.", byVenue)
	famSigned    = family("venue_signatures", Gauge, "1 where the venue's rows carry signatures. Absent before its limits were read.", byVenue)
	famVenue     = family("venue_info", Gauge, "1, with the version that the venue publishes; unknown: it publishes none. Absent before its limits were read.", byVenue, ofVersion)
	famStateTime = family("watch_state_timestamp_seconds", Gauge, "When the watcher last said how it stands, by the machine's clock. Absent before.")
	famBuild     = family("build_info", Gauge, "1, with the version of the program, the rules in force, the version of the fold, and the release of Go.", ofVersion, ofRules, ofFold, ofGo)
)

// The HTTP surface, where there is one.
var (
	famAnswers = family("http_requests_total", Counter, "Requests to this process that were answered, by class of status.", byAnswer)
	famOpen    = family("http_requests_open", Gauge, "Requests to this process that are under way.")
	famStreams = family("http_streams_open", Gauge, "Streams of events to clients that are open.")
)
