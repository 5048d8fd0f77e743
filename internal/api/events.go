package api

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tclk-audit/tclk-audit/internal/report"
	"github.com/tclk-audit/tclk-audit/store"
)

const formatStream = "sse"

// eventPage is which events a question is about.
type eventPage struct {
	from  uint64
	limit int
}

// cursorOf is the mark of an event.
func cursorOf(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

func (h *handler) events(q *query, out *reply) error {
	formats := []string{formatLines, formatText, formatJSON}
	if h.o.Ending != nil {
		formats = append(formats, formatStream)
	}
	format := q.format(formats...)
	if h.o.Ending != nil && !q.values.Has("format") && strings.Contains(q.r.Header.Get("Accept"), eventStream) {
		format = formatStream
	}
	q.begins = []string{"from", "since", "wait"}
	from, since, after := q.number("from", 1), q.number("since", 0), q.after()
	limit, wait := q.limit(0), uint64(0)
	if h.o.Ending != nil {
		wait = q.number("wait", 0)
	}
	given := 0
	for _, name := range [...]string{"from", "since", "after"} {
		if q.values.Has(name) {
			given++
		}
	}
	switch {
	case given > 1:
		q.fail("from, since and after do not go together", "give one of them")
	case q.values.Has("since"):
		from = since + 1
	case len(after) == 8:
		from = binary.BigEndian.Uint64(after) + 1
	}
	if format == formatStream {
		if q.values.Has("limit") || q.values.Has("wait") {
			q.fail("a stream has neither limit nor wait", "ask without them")
		}
		if id := q.r.Header.Get("Last-Event-ID"); id != "" {
			n, err := strconv.ParseUint(id, 10, 53)
			if err != nil {
				q.fail(fmt.Sprintf("Last-Event-ID %q is no event's number", id), "give the id of an event of this stream")
			}
			from = n + 1
		}
	}
	if wait > waitSeconds {
		wait = waitSeconds
	}
	if err := q.done(); err != nil {
		return err
	}
	if format == formatStream {
		return h.stream(q, out, max(from, 1))
	}
	if wait > 0 && q.r.Method == http.MethodGet {
		if err := h.await(out, from, time.Duration(wait)*time.Second); err != nil {
			return err
		}
	}
	r, err := h.s.Reader()
	if err != nil {
		return err
	}
	defer r.Close()
	if wait == 0 {
		if err := q.same(out, r, format); err != nil {
			return err
		}
	}
	return q.eventList(r, out, format, eventPage{from, limit})
}

func (q *query) eventList(r *store.Reader, out *reply, format string, ask eventPage) error {
	j := report.NewEncoder(out, format == formatJSON)
	p := report.NewPage(out, false)
	switch format {
	case formatText:
		out.kind = plainText
	case formatLines:
		out.kind = jsonLines
	default:
		out.kind = oneObject
		j.Open('{')
		j.String("schema", EventsSchema)
		j.Key("events")
		j.Open('[')
	}
	n := 0
	var mark []byte
	for e, err := range r.Events(ask.from) {
		if err == nil {
			err = out.alive(n)
		}
		if err != nil {
			return err
		}
		cause, err := r.Record(e.Cause)
		if err != nil {
			return err
		}
		switch format {
		case formatText:
			err = eventLine(p, &e, &cause)
		case formatLines:
			eventJSON(j, &e, &cause)
			err = j.EndLine()
		default:
			j.Element()
			eventJSON(j, &e, &cause)
			err = j.Err()
		}
		if err != nil {
			return err
		}
		if n++; n == ask.limit || out.full() {
			if e.Number < r.LastEvent() {
				mark = cursorOf(e.Number)
			}
			break
		}
	}
	next := q.cursor(out, mark)
	switch format {
	case formatText:
		return p.Flush()
	case formatLines:
		return j.Flush()
	}
	j.Close(']')
	j.Uint("last", r.LastEvent())
	j.StringOrNull("next", next)
	j.Close('}')
	return endJSON(j)
}

func eventLine(p *report.Page, e *store.Event, cause *store.Record) error {
	contract, what := report.ShortID(e.Contract), change(e)
	if e.Kind == store.EventCoverage && cause.Coverage != nil {
		contract, what = pad("-", len(contract)), coverageText(cause.Coverage)
	}
	line := pad(strconv.FormatUint(e.Number, 10), 9) + "  " + pad(causeTime(cause), 24) + "  " + contract + "  " +
		pad(e.Kind.String(), 8) + "  " + what
	p.Line(strings.TrimRight(line, " "))
	return p.Err()
}

func pad(s string, n int) string { return s + strings.Repeat(" ", max(0, n-len(s))) }

// change says in words what an event changed.
func change(e *store.Event) string {
	arrow := func(from, to string) string { return dash(from) + " -> " + dash(to) }
	switch e.Kind {
	case store.EventOpened:
		s := dash(e.Is.Status.String()) + ", " + dash(e.Is.Verdict.String())
		if codes := codeWords(e.Added); len(codes) > 0 {
			s += ", " + strings.Join(codes, " ")
		}
		return s
	case store.EventStatus, store.EventRevised:
		return arrow(e.Was.Status.String(), e.Is.Status.String())
	case store.EventOutlook:
		return arrow(e.Was.Outlook.String(), e.Is.Outlook.String())
	case store.EventBinding:
		return arrow(bindingText(e.Was), bindingText(e.Is))
	case store.EventEvidence:
		return arrow(evidenceText(e.Was), evidenceText(e.Is))
	case store.EventFinding:
		var parts []string
		for _, c := range codeWords(e.Added) {
			parts = append(parts, "+"+c)
		}
		for _, c := range codeWords(e.Removed) {
			parts = append(parts, "-"+c)
		}
		return strings.Join(parts, " ")
	case store.EventDeadline:
		if e.ClockMs >= e.DeadlineMs {
			return "the refund window is open, and nothing is revealed"
		}
		return "refund opens in " + report.Span(e.DeadlineMs-e.ClockMs) + ", and nothing is revealed"
	}
	return ""
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func bindingText(c store.Conclusion) string {
	if c.Chosen {
		return dash(c.Binding.String()) + ", chosen"
	}
	return c.Binding.String()
}

func evidenceText(c store.Conclusion) string {
	return dash(c.Evidence.String()) + ", " + dash(c.Verdict.String())
}

func codeWords(bits uint64) (words []string) {
	for _, c := range store.Codes(bits) {
		words = append(words, c.String())
	}
	return words
}

// causeText names the record that made an event.
func causeText(r *store.Record) string {
	switch r.Kind {
	case store.RecordRow, store.RecordSighting:
		return report.Printable(r.Room) + " seq " + report.Count(int64(r.Seq)) + " (" + hex.EncodeToString(r.ID[:4]) + "..)"
	case store.RecordTick:
		return "the venue's clock"
	}
	s := r.Kind.String()
	if r.Room != "" {
		s += " in " + report.Printable(r.Room)
	}
	return s
}

func causeTime(r *store.Record) string {
	if r.TsMs == 0 {
		return "-"
	}
	return report.Clock(r.TsMs)
}

func eventJSON(j *report.Encoder, e *store.Event, cause *store.Record) {
	j.Open('{')
	j.Uint("number", e.Number)
	j.String("id", e.ID())
	j.String("kind", e.Kind.String())
	j.String("venue", e.Venue)
	if e.Kind == store.EventCoverage {
		j.Key("contract")
		j.Null()
	} else {
		j.ID("contract", e.Contract)
	}
	j.Uint("revision", e.Revision)
	if e.Previous == 0 {
		j.Key("previous")
		j.Null()
	} else {
		j.Uint("previous", e.Previous)
	}
	j.Key("cause")
	causeJSON(j, cause)
	j.Key("from")
	switch e.Kind {
	case store.EventOpened, store.EventReceipt, store.EventFinding, store.EventDeadline, store.EventCoverage:
		j.Null()
	default:
		conclusionJSON(j, e.Kind, e.Was)
	}
	j.Key("to")
	switch e.Kind {
	case store.EventReceipt, store.EventFinding, store.EventDeadline, store.EventCoverage:
		j.Null()
	default:
		conclusionJSON(j, e.Kind, e.Is)
	}
	for _, l := range []struct {
		name string
		bits uint64
	}{{"added", e.Added}, {"removed", e.Removed}} {
		j.Key(l.name)
		j.Open('[')
		for _, c := range codeWords(l.bits) {
			j.Text(c)
		}
		j.Close(']')
	}
	j.Key("deadline")
	if e.Kind == store.EventDeadline {
		j.Open('{')
		j.Int("refundAfterMs", e.DeadlineMs)
		j.Int("clockMs", e.ClockMs)
		j.Int("msRemaining", e.DeadlineMs-e.ClockMs)
		j.Close('}')
	} else {
		j.Null()
	}
	j.Key("coverage")
	if c := cause.Coverage; e.Kind == store.EventCoverage && c != nil {
		coverageJSON(j, c)
	} else {
		j.Null()
	}
	j.Close('}')
}

// coverageJSON writes what happened to a room beside its rows.
func coverageJSON(j *report.Encoder, c *store.Coverage) {
	j.Open('{')
	j.String("code", c.Code.String())
	j.String("room", c.Room)
	j.Uint("generation", c.Generation)
	from, to, at := int64(c.From), int64(c.To), c.TsMs
	orNull := func(n *int64) *int64 {
		if *n == 0 {
			return nil
		}
		return n
	}
	j.IntOrNull("fromSeq", orNull(&from))
	j.IntOrNull("toSeq", orNull(&to))
	j.IntOrNull("tsMs", orNull(&at))
	j.String("evidence", c.Evidence)
	j.Close('}')
}

// coverageText says in words what happened to a room.
func coverageText(c *store.Coverage) string {
	s := c.Code.String() + " " + report.Printable(c.Room)
	switch {
	case c.To > c.From:
		s += ", seqs " + strconv.FormatUint(c.From, 10) + " to " + strconv.FormatUint(c.To, 10)
	case c.To > 0:
		s += ", seq " + strconv.FormatUint(c.To, 10)
	}
	return s
}

// conclusionJSON writes the members that an event of the kind is about.
func conclusionJSON(j *report.Encoder, k store.EventKind, c store.Conclusion) {
	opened := k == store.EventOpened
	j.Open('{')
	if opened || k == store.EventStatus || k == store.EventRevised {
		j.StringOrNull("status", c.Status.String())
	}
	if opened || k == store.EventOutlook {
		j.StringOrNull("outlook", c.Outlook.String())
	}
	if opened || k == store.EventBinding {
		j.StringOrNull("binding", c.Binding.String())
		j.Bool("chosen", c.Chosen)
	}
	if opened || k == store.EventEvidence {
		j.StringOrNull("evidence", c.Evidence.String())
		j.StringOrNull("verdict", c.Verdict.String())
	}
	j.Close('}')
}

// causeJSON writes the entry of the log that made an event; a row's place and
// identity are null where it is no row.
func causeJSON(j *report.Encoder, r *store.Record) {
	j.Open('{')
	j.Uint("position", r.Position)
	j.String("kind", r.Kind.String())
	j.StringOrNull("room", r.Room)
	row := r.Kind == store.RecordRow || r.Kind == store.RecordSighting
	if row {
		j.Uint("generation", r.Generation)
		j.Uint("seq", r.Seq)
	} else {
		for _, name := range []string{"generation", "seq"} {
			j.Key(name)
			j.Null()
		}
	}
	if row || r.Kind == store.RecordClock {
		j.Int("atMs", r.TsMs)
	} else {
		j.Key("atMs")
		j.Null()
	}
	j.Hash("record", r.ID)
	j.Close('}')
}

// recordJSON writes the members of a record.
func recordJSON(j *report.Encoder, r *store.Record) {
	j.Hash("record", r.ID)
	j.StringOrNull("room", r.Room)
	j.Uint("generation", r.Generation)
	j.Uint("seq", r.Seq)
	j.Int("tsMs", r.TsMs)
	j.String("class", r.Class.String())
	j.StringOrNull("reason", r.Reason.String())
	j.Int("bytes", r.Size)
	j.Hash("sha256", r.Hash)
	j.Bool("kept", r.Raw != nil)
}
