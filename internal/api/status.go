package api

import (
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/tclk-audit/tclk-audit/export"
	"github.com/tclk-audit/tclk-audit/internal/audit"
	"github.com/tclk-audit/tclk-audit/internal/report"
	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/store"
)

// sourceLimit is how many of the newest sources the status lists.
const sourceLimit = 10

// errBehind is all that a public server says of a store that has lost its end.
var errBehind = errors.New("the store holds less than it acknowledged")

func (h *handler) status(q *query, out *reply) error {
	format := q.format(formatText, formatJSON)
	limit, color := q.limit(sourceLimit), q.private("color")
	if err := q.done(); err != nil {
		return err
	}
	r, err := h.s.Reader()
	if err != nil {
		return err
	}
	defer r.Close()
	st, err := r.Status()
	if err != nil {
		return err
	}
	// What stands on the disk changes without the log.
	if err := q.same(out, r, format, st.MarkEntries, st.MarkEvents, st.DiskBytes, st.WALBytes); err != nil {
		return err
	}
	if limit == 0 {
		limit = int(st.Sources)
	}
	sources, err := r.Sources(limit)
	if err != nil {
		return err
	}
	if st.Behind != nil && h.o.Public {
		st.Behind = errBehind
	}
	if st.Behind != nil {
		out.exit = audit.ExitCannotTell
		out.warn("%v", st.Behind)
		out.warn("hint: %s", store.DoAcceptLoss)
	}
	if format == formatJSON {
		out.kind = oneObject
		return h.statusJSON(report.NewEncoder(out, true), st, sources)
	}
	out.kind = plainText
	p := report.NewPage(out, color)
	h.statusText(p, st, sources)
	return p.Flush()
}

func (h *handler) statusJSON(j *report.Encoder, st *store.Status, sources []store.SourceInfo) error {
	j.Open('{')
	j.String("schema", StatusSchema)
	j.String("dir", h.path(st.Dir))
	j.Int("format", int64(st.Format))
	j.Int("fold", int64(st.Fold))
	j.String("rules", st.Rules.String())
	j.Uint("entries", st.Entries)
	j.Uint("events", st.Events)
	j.Key("mark")
	j.Open('{')
	j.Uint("entries", st.MarkEntries)
	j.Uint("events", st.MarkEvents)
	j.Bool("behind", st.Behind != nil)
	j.Close('}')
	j.Key("disk")
	j.Open('{')
	j.Int("bytes", st.DiskBytes)
	j.Int("writeLogBytes", st.WALBytes)
	j.Int("rowBytes", st.RowBytes)
	j.Close('}')
	j.Key("rows")
	j.Open('{')
	for _, n := range rowCounts(st) {
		j.Int(n.name, n.n)
	}
	j.Int("again", st.Again)
	j.Close('}')
	j.Key("limits")
	j.Open('[')
	for _, l := range limitsMet(st) {
		j.Element()
		j.Open('{')
		j.String("limit", l.name)
		j.Int("count", l.n)
		j.Close('}')
	}
	j.Close(']')
	j.Key("venues")
	j.Open('[')
	for i := range st.Venues {
		j.Element()
		venueJSON(j, &st.Venues[i])
	}
	j.Close(']')
	j.Int("sourceCount", st.Sources)
	j.Key("sources")
	j.Open('[')
	for i := range sources {
		s := &sources[i]
		j.Element()
		j.Open('{')
		j.Int("source", int64(s.Number))
		j.String("venue", s.Venue)
		j.String("path", h.path(s.Path))
		room := s.Room
		if room == "" {
			room = s.NameRoom
		}
		j.StringOrNull("room", room)
		j.Int("rows", s.Rows)
		if s.Size < 0 {
			j.Key("bytes")
			j.Null()
		} else {
			j.Int("bytes", s.Size)
		}
		j.IntOrNull("timeMs", seen(s.TimeMs))
		j.Bool("done", s.Done)
		j.Bool("cut", s.Cut != export.CutNone)
		j.Hash("sha256", s.SHA256)
		j.Close('}')
	}
	j.Close(']')
	j.Close('}')
	return endJSON(j)
}

type namedCount struct {
	name string
	n    int64
}

func rowCounts(st *store.Status) []namedCount {
	return []namedCount{
		{"authentic", st.Authentic}, {"repaired", st.Repaired}, {"unsigned", st.Unsigned}, {"invalid", st.Invalid},
		{"malformed", st.Malformed}, {"torn", st.Torn},
	}
}

func limitsMet(st *store.Status) (list []namedCount) {
	for _, l := range []namedCount{
		{"bytes kept of rows that cannot be used", st.WithoutBytes},
		{"sources with rows that may be any room's", st.CutSources},
		{"rows pruned", st.Pruned},
	} {
		if l.n > 0 {
			list = append(list, l)
		}
	}
	return list
}

func funnelCounts(f *store.Funnel) []namedCount {
	list := []namedCount{{"offers", f.Offers}, {"bound", f.Bound}, {"contracts", f.Contracts}}
	for st := protocol.Proposed; st <= protocol.Cancelled; st++ {
		list = append(list, namedCount{st.String(), f.ByStatus[st]})
	}
	return append(list, namedCount{"offerNotInSight", f.ByStatus[protocol.StatusNone]}, namedCount{"receipted", f.Receipted})
}

func venueJSON(j *report.Encoder, v *store.VenueStatus) {
	j.Open('{')
	j.String("venue", v.Alias)
	j.IntOrNull("clockMs", v.ClockMs)
	j.Key("funnel")
	j.Open('{')
	for _, n := range funnelCounts(&v.Funnel) {
		j.Int(n.name, n.n)
	}
	j.Close('}')
	j.Key("board")
	if v.AnyBoard {
		j.Open('{')
		j.Uint("firstGeneration", v.FirstGen)
		j.Uint("firstSeq", v.FirstSeq)
		j.Uint("lastGeneration", v.LastGen)
		j.Uint("lastSeq", v.LastSeq)
		j.Int("ranges", v.Ranges)
		j.Uint("held", v.Held)
		j.Uint("missing", v.Missing)
		j.Close('}')
	} else {
		j.Null()
	}
	j.Key("dealRooms")
	j.Open('{')
	j.Int("rooms", v.DealRooms)
	j.Int("rows", v.RoomRows)
	j.Int("withGaps", v.RoomsWithGaps)
	j.Close('}')
	j.Int("otherRooms", v.OtherRooms)
	j.Int("lostRows", v.LostRows)
	j.Key("coverage")
	j.Open('{')
	for _, c := range store.CoverageCodes() {
		j.Int(c.String(), v.Coverage[c])
	}
	j.Close('}')
	j.Int("graceMs", v.Settings.GraceMs)
	j.Int("warnMs", v.Settings.WarnMs)
	j.Close('}')
}

func (h *handler) statusText(p *report.Page, st *store.Status, sources []store.SourceInfo) {
	row := func(name string, format string, args ...any) []report.Cell {
		return []report.Cell{report.Left(name), report.Left(report.Printable(fmt.Sprintf(format, args...)))}
	}
	n := func(v uint64) string { return report.Count(int64(v)) }
	mark := "agrees"
	if st.Behind != nil {
		mark = "BEHIND: " + st.Behind.Error()
	}
	var total int64
	text := ""
	for _, c := range rowCounts(st) {
		total += c.n
		if c.n > 0 {
			text += ", " + report.Count(c.n) + " " + c.name
		}
	}
	p.Table([][]report.Cell{
		row("store", "%s", h.path(st.Dir)),
		row("versions", "format %d, fold %d, rules %s", st.Format, st.Fold, st.Rules),
		row("on disk", "%s bytes, %s of them write-log; %s bytes of rows were read", report.Count(st.DiskBytes), report.Count(st.WALBytes), report.Count(st.RowBytes)),
		row("log", "%s entries, %s events", n(st.Entries), n(st.Events)),
		row("acknowledged", "%s entries, %s events: %s", n(st.MarkEntries), n(st.MarkEvents), mark),
		row("rows", "%s%s; %s were second sightings", report.Count(total), text, report.Count(st.Again)),
	})
	for _, l := range limitsMet(st) {
		p.Line("  limit met: ", l.name, ", ", report.Count(l.n))
	}
	for i := range st.Venues {
		venueText(p, &st.Venues[i])
	}
	p.Heading("Sources (" + report.Count(int64(len(sources))) + " newest of " + report.Count(st.Sources) + ")")
	if len(sources) == 0 {
		p.Line("  none")
		return
	}
	rows := [][]report.Cell{report.Head("SOURCE", "VENUE", "ROWS", "READ", "SHA256", "PATH")}
	for i := range sources {
		s := &sources[i]
		read, sum := "in part", "-"
		if s.Size < 0 && !s.Done {
			read = "followed"
		}
		if s.Done {
			read, sum = "whole", hex.EncodeToString(s.SHA256[:8])
		}
		if s.Cut != export.CutNone {
			read = "cut off"
		}
		rows = append(rows, []report.Cell{
			report.Number(int64(s.Number)), report.Left(s.Venue), report.Number(s.Rows), report.Left(read), report.Left(sum),
			report.Left(report.Printable(h.path(s.Path))),
		})
	}
	p.Table(rows)
}

func venueText(p *report.Page, v *store.VenueStatus) {
	p.Heading("Venue " + v.Alias)
	left := func(name, value string) []report.Cell { return []report.Cell{report.Left(name), report.Left(value)} }
	at, board := "no row time in sight", "not in sight"
	if v.ClockMs != nil {
		at = report.Clock(*v.ClockMs)
	}
	if v.AnyBoard {
		board = fmt.Sprintf("seq %s to %s, %s held in %s, %s missing", report.Count(int64(v.FirstSeq)), report.Count(int64(v.LastSeq)),
			report.Count(int64(v.Held)), report.Plural(v.Ranges, "run", "runs"), report.Count(int64(v.Missing)))
		if v.FirstGen != v.LastGen {
			board += fmt.Sprintf("; generations %d to %d", v.FirstGen, v.LastGen)
		}
	}
	rooms := report.Plural(v.DealRooms, "room", "rooms") + " with " + report.Plural(v.RoomRows, "row", "rows") + ", " +
		report.Count(v.RoomsWithGaps) + " with gaps"
	if v.OtherRooms > 0 {
		rooms += "; " + report.Plural(v.OtherRooms, "other room", "other rooms")
	}
	funnel := ""
	for i, c := range funnelCounts(&v.Funnel) {
		if i < 3 || c.n > 0 {
			if funnel != "" {
				funnel += ", "
			}
			name := c.name
			if name == "offerNotInSight" {
				name = "without their offer"
			}
			funnel += report.Count(c.n) + " " + name
		}
	}
	lines := [][]report.Cell{left("clock", at), left("board", board), left("deal rooms", rooms), left("funnel", funnel)}
	happened := ""
	for _, c := range store.CoverageCodes() {
		if n := v.Coverage[c]; n > 0 {
			happened += ", " + report.Count(n) + " " + c.String()
		}
	}
	if happened != "" {
		lines = append(lines, left("coverage", report.Plural(v.LostRows, "row", "rows")+" known to be lost; events: "+happened[2:]))
	}
	p.Table(lines)
}
