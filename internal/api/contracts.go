package api

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/internal/audit"
	"github.com/tclk-audit/tclk-audit/internal/report"
	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/store"
	"github.com/tclk-audit/tclk-audit/verify"
)

// The schema names of the JSON objects.
const (
	ContractsSchema = "tclk-audit.contracts/1"
	ShowSchema      = "tclk-audit.show/1"
	OffersSchema    = "tclk-audit.offers/1"
	PartySchema     = "tclk-audit.party/1"
	RoomsSchema     = "tclk-audit.rooms/1"
	RecordsSchema   = "tclk-audit.records/1"
	FindingsSchema  = "tclk-audit.findings/1"
	StatusSchema    = "tclk-audit.status/1"
	EventsSchema    = "tclk-audit.events/1"
)

// textLimit is how many entries a list for people has unless it is told: what
// fits their patience, and keeps the answer quick. Finding and sorting the
// contracts needs their records only; those that are shown are folded.
const textLimit = 100

// tableRows is how many rows are aligned with each other.
const tableRows = 1024

const (
	formatText  = "text"
	formatJSON  = "json"
	formatLines = "jsonl"
)

func validDID(s string) bool {
	_, ok := verify.DecodeDID([]byte(s))
	return ok
}

// noStatus is the word for a contract whose offer is not in sight.
const noStatus = "none"

func statusWords() []string {
	words := []string{noStatus}
	for st := protocol.Proposed; st <= protocol.Cancelled; st++ {
		words = append(words, st.String())
	}
	return words
}

func findingWords() (words []string) {
	for _, c := range fold.Codes() {
		words = append(words, c.String())
	}
	return words
}

// selection is which contracts a question is about.
type selection struct {
	store.Filter
	outlook, binding []string
	findings         uint64
	limit            int
	after            []byte
}

func (q *query) selection(textual bool) (s selection) {
	for _, w := range q.words("status", statusWords()...) {
		s.Status = append(s.Status, protocol.ParseStatus(w))
	}
	s.outlook = q.words("outlook", fold.AwaitingAccept, fold.OfferHasLapsed, fold.OpenToLock, fold.Lapsed, fold.Funded,
		fold.Refundable, fold.Settled, fold.CancelledEnd, fold.NoClock)
	s.binding = q.words("binding", fold.Bound.String(), fold.Superseded.String(), "chosen", noStatus)
	s.findings = q.codes("finding")
	s.Party = q.did("party", q.one("party"))
	s.Venue = q.venue()
	s.SinceMs = q.time("since")
	if offer := q.one("offer"); offer != "" {
		id, ok := protocol.ParseID(offer)
		if !ok {
			q.fail(fmt.Sprintf("offer %q is no offer id", offer), "give 0x and 64 hex digits")
		}
		s.Offer = id
	}
	switch q.word("sort", "accept", "deadline", "revision") {
	case "deadline":
		s.Sort = store.ByDeadline
	case "revision":
		s.Sort = store.ByRevision
	}
	s.limit = q.listLimit(textual)
	s.after = q.after()
	return s
}

// codes reads finding codes, as the bits of a Brief.
func (q *query) codes(name string) (bits uint64) {
	for _, w := range q.words(name, findingWords()...) {
		bits |= 1 << (slices.Index(findingWords(), w) + 1)
	}
	return bits
}

// listLimit is limit for a list that is text for people, or else all.
func (q *query) listLimit(textual bool) int {
	if textual {
		return q.limit(textLimit)
	}
	return q.limit(0)
}

// passes looks at what store.Filter has no room for.
func (s *selection) passes(i *store.Item) bool {
	if len(s.outlook) > 0 && !slices.Contains(s.outlook, i.Outlook.String()) || s.findings != 0 && i.Findings&s.findings == 0 {
		return false
	}
	if len(s.binding) == 0 {
		return true
	}
	return slices.Contains(s.binding, i.Binding.String()) || i.Chosen && slices.Contains(s.binding, "chosen") ||
		i.Binding == fold.BindingNone && slices.Contains(s.binding, noStatus)
}

// nearest picks what may be on the page behind a mark, without the page before
// and most of what stands behind it: a board has many contracts, and a page is
// short. They come in the order of their ids, which is that of no list.
type nearest struct {
	after []byte
	most  int // how many are wanted; 0: all
	marks [][]byte
	worst []byte // nothing behind it can be on the page; nil: that is not known yet
}

func (n *nearest) takes(mark []byte) bool {
	if bytes.Compare(mark, n.after) <= 0 || n.worst != nil && bytes.Compare(mark, n.worst) > 0 {
		return false
	}
	if n.most == 0 {
		return true
	}
	if n.marks = append(n.marks, mark); len(n.marks) >= 2*n.most {
		slices.SortFunc(n.marks, bytes.Compare)
		n.marks = n.marks[:n.most]
		n.worst = n.marks[n.most-1]
	}
	return true
}

// find lists what is selected; all is how many there are behind the page before,
// beyond the limit too, where everything was counted.
func (s *selection) find(r *store.Reader, counted bool) (p *page, all int, err error) {
	f := s.Filter
	if s.limit > 0 {
		f.Limit = s.limit + 1
	}
	if len(s.outlook)+len(s.binding)+len(s.after) > 0 || s.findings != 0 {
		near := nearest{after: s.after}
		if !counted && f.SinceMs == 0 { // which is judged last
			near.most = f.Limit
		}
		f.Keep = func(i *store.Item) bool { return s.passes(i) && near.takes(s.Sort.Mark(i)) }
	}
	items, all, err := r.List(f)
	p = &page{items: items, sort: s.Sort}
	if s.limit > 0 && len(items) > s.limit {
		p.items, p.more = items[:s.limit], true
	}
	return p, all, err
}

// page is a page of a list of contracts.
type page struct {
	items []store.Item
	sort  store.Order
	more  bool // there are others behind them
	shown int
}

// each folds the contracts one after another, until the answer is full.
func (p *page) each(r *store.Reader, out *reply, f func(*store.Item, *fold.Contract) error) error {
	for n := range p.items {
		if err := out.alive(n); err != nil {
			return err
		}
		c, err := r.Fold(p.items[n], nil)
		if err != nil {
			return err
		}
		if c != nil {
			if err := f(&p.items[n], c); err != nil {
				return err
			}
		}
		if p.shown = n + 1; out.full() {
			break
		}
	}
	return nil
}

// mark is that of the last contract shown, nil at the end of the list.
func (p *page) mark() []byte {
	if p.shown == 0 || !p.more && p.shown == len(p.items) {
		return nil
	}
	return p.sort.Mark(&p.items[p.shown-1])
}

func (h *handler) contracts(q *query, out *reply) error {
	format := q.format(formatText, formatJSON, formatLines)
	s := q.selection(format == formatText)
	show := report.Show{Secrets: q.private("secrets")}
	color := q.private("color")
	if err := q.done(); err != nil {
		return err
	}
	r, err := h.s.Reader()
	if err != nil {
		return err
	}
	defer r.Close()
	if err := q.same(out, r, format); err != nil {
		return err
	}
	items, all, err := s.find(r, format == formatText)
	if err != nil {
		return err
	}
	switch format {
	case formatJSON:
		out.kind = oneObject
		j := report.NewEncoder(out, true)
		j.Open('{')
		j.String("schema", ContractsSchema)
		j.String("rules", r.Rules().String())
		j.Key("contracts")
		j.Open('[')
		err := items.each(r, out, func(i *store.Item, c *fold.Contract) error {
			j.Element()
			contractJSON(j, i, c, show)
			return j.Err()
		})
		if err != nil {
			return err
		}
		j.Close(']')
		j.StringOrNull("next", q.cursor(out, items.mark()))
		j.Close('}')
		return endJSON(j)
	case formatLines:
		out.kind = jsonLines
		j := report.NewEncoder(out, false)
		err := items.each(r, out, func(i *store.Item, c *fold.Contract) error {
			contractJSON(j, i, c, show)
			return j.EndLine()
		})
		if err != nil {
			return err
		}
		q.cursor(out, items.mark())
		return j.Flush()
	}
	out.kind = plainText
	p := report.NewPage(out, color)
	t := table{p: p, head: report.Head("CONTRACT", "STATUS", "VERDICT", "OUTLOOK", "LEFT", "LOCK", "AMOUNT", "ASSET", "PAYER", "PAYEE", "FINDINGS")}
	venues := len(r.VenueNames()) > 1
	if venues {
		t.head = append(t.head, report.Head("VENUE")...)
	}
	err = items.each(r, out, func(i *store.Item, c *fold.Contract) error {
		row := contractRow(c)
		if venues {
			row = append(row, report.Left(i.Venue))
		}
		return t.add(row)
	})
	if err != nil {
		return err
	}
	q.cursor(out, items.mark())
	return t.end(all, "contract", "contracts")
}

func endJSON(j *report.Encoder) error {
	if err := j.EndLine(); err != nil {
		return err
	}
	return j.Flush()
}

func contractJSON(j *report.Encoder, i *store.Item, c *fold.Contract, show report.Show) {
	j.Contract(c, show, func() {
		j.String("venue", i.Venue)
		j.Uint("revision", i.Revision)
	})
}

func contractRow(c *fold.Contract) []report.Cell {
	left := ""
	if c.Outlook.MsRemaining > 0 {
		left = report.Brief(c.Outlook.MsRemaining)
	}
	return []report.Cell{
		report.Left(report.ShortID(c.ID)), report.Dash(c.Status.String()), report.VerdictCell(c.Verdict),
		report.Dash(c.Outlook.Code), report.Dash(left), report.Dash(c.Lock.String()),
		report.Left(report.Word(c.Amount)), report.Left(report.Word(c.Asset)),
		report.Left(report.ShortDID(c.Payer)), report.Left(report.ShortDID(c.Payee)), report.FindingsCell(c.Findings),
	}
}

// table writes a long list in pieces, so that it is never held as a whole.
type table struct {
	p     *report.Page
	head  []report.Cell
	rows  [][]report.Cell
	shown int
}

func (t *table) add(row []report.Cell) error {
	if t.shown == 0 {
		t.rows = append(t.rows, t.head)
	}
	t.shown++
	if t.rows = append(t.rows, row); len(t.rows) > tableRows {
		t.flush()
	}
	return t.p.Err()
}

func (t *table) flush() {
	t.p.Table(t.rows)
	t.rows = t.rows[:0]
}

// end writes what is left, and how much was not shown. all below zero stands
// for a list that was not counted.
func (t *table) end(all int, one, many string) error {
	t.flush()
	switch {
	case t.shown == 0:
		t.p.Line("no ", one)
	case all > t.shown:
		t.p.Line(report.Count(int64(t.shown)), " of ", report.Plural(int64(all), one, many), "; a greater limit shows more, 0 all")
	case all >= 0:
		t.p.Line(report.Plural(int64(all), one, many))
	}
	return t.p.Flush()
}

// digits reads a contract's id, or 8 or more of its digits, with or without 0x.
func digits(s string) (string, bool) {
	d := strings.TrimPrefix(strings.ToLower(s), "0x")
	if len(d) < 8 || len(d) > 64 {
		return "", false
	}
	_, err := hex.DecodeString(d + strings.Repeat("0", len(d)%2))
	return d, err == nil
}

// recordLimit is how many records the story for people lists.
const recordLimit = 200

func (h *handler) contract(q *query, out *reply) error {
	format := q.format(formatText, formatJSON)
	show := report.Show{Secrets: q.private("secrets"), Text: q.private("text")}
	color, everywhere, venue := q.private("color"), false, q.venue()
	if !h.o.Public { // it reads the whole log
		everywhere = q.word("sightings", "near", "all") == "all"
	}
	asked := q.r.PathValue("id")
	prefix, ok := digits(asked)
	if !ok {
		q.fail(fmt.Sprintf("%q is no contract id", asked), "give 0x and 64 hex digits, or the first 8 or more of them")
	}
	if err := q.done(); err != nil {
		return err
	}
	r, err := h.s.ReaderWith(fold.Options{KeepText: show.Text, Exact: true})
	if err != nil {
		return err
	}
	defer r.Close()
	if err := q.same(out, r, format); err != nil {
		return err
	}
	items, err := r.Contracts(store.Filter{Prefix: prefix, Venue: venue})
	switch {
	case err != nil:
		return err
	case len(items) == 0:
		return notFound("no contract 0x"+prefix+" is in sight", "'tclk-audit contracts' lists them; was the room with its accept ("+protocol.BoardRoom+") ingested?")
	case len(items) > 1:
		hint := "give more of its digits"
		if items[0].Contract == items[1].Contract {
			hint = "it is in sight on several venues: give venue"
		}
		return badRequest(fmt.Sprintf("%d contracts begin with 0x%s", len(items), prefix), hint)
	}
	item := items[0]
	story := story{h: h, r: r, item: item, show: show, color: color}
	ids := map[protocol.RecordID]uint64{}
	if story.c, err = r.Fold(item, ids); err != nil {
		return err
	}
	if story.c == nil {
		return notFound("no contract 0x"+prefix+" is in sight", "")
	}
	if story.records, err = r.Provenance(item, ids, everywhere); err != nil {
		return err
	}
	if story.events, err = r.History(item); err != nil {
		return err
	}
	switch story.c.Verdict {
	case fold.Established:
	case fold.Contradicted:
		out.exit = audit.ExitWrong
	default:
		out.exit = audit.ExitCannotTell
	}
	if format == formatJSON {
		out.kind = oneObject
		return story.json(out)
	}
	out.kind = plainText
	return story.text(out)
}

// story is one contract with what the store adds to it.
type story struct {
	h       *handler
	r       *store.Reader
	item    store.Item
	c       *fold.Contract
	events  []store.Event
	records []store.Provenance
	show    report.Show
	color   bool
}

func (s *story) json(out *reply) error {
	j := report.NewEncoder(out, true)
	j.Open('{')
	j.String("schema", ShowSchema)
	j.String("rules", s.r.Rules().String())
	j.Key("contract")
	contractJSON(j, &s.item, s.c, s.show)
	j.Key("revisions")
	j.Open('[')
	for i := range s.events {
		cause, err := s.r.Record(s.events[i].Cause)
		if err != nil {
			return err
		}
		j.Element()
		eventJSON(j, &s.events[i], &cause)
	}
	j.Close(']')
	j.Key("records")
	j.Open('[')
	for i := range s.records {
		if err := out.alive(i); err != nil {
			return err
		}
		p := &s.records[i]
		j.Element()
		j.Open('{')
		recordJSON(j, &p.Record)
		j.Key("sightings")
		j.Open('[')
		for k := range p.Sightings {
			if err := s.sightingJSON(j, &p.Sightings[k]); err != nil {
				return err
			}
		}
		j.Close(']')
		j.Close('}')
	}
	j.Close(']')
	j.Close('}')
	return endJSON(j)
}

func (s *story) sightingJSON(j *report.Encoder, r *store.Record) error {
	f, fetched, err := s.r.Fetched(r)
	if err != nil {
		return err
	}
	j.Element()
	j.Open('{')
	j.Uint("position", r.Position)
	j.String("kind", r.Kind.String())
	j.Int("source", int64(r.Where.Source))
	j.String("path", s.h.path(r.Path))
	j.Int("row", r.Where.Index)
	j.Int("line", r.Where.Line)
	j.Int("offset", r.Where.Offset)
	j.Uint("generation", r.Generation)
	j.Uint("seq", r.Seq)
	j.Int("tsMs", r.TsMs)
	j.Key("fetch")
	if fetched {
		j.Open('{')
		j.Int("timeMs", f.TimeMs)
		j.String("request", f.Request)
		j.Int("rows", int64(f.Rows))
		j.Int("bytes", f.Bytes)
		j.Hash("sha256", f.SHA256)
		j.Close('}')
	} else {
		j.Null()
	}
	j.Close('}')
	return nil
}

func (s *story) text(out *reply) error {
	err := report.Explain(out, s.c, report.ExplainOptions{Show: s.show, Color: s.color, Rules: s.r.Rules().String()})
	if err != nil {
		return err
	}
	p := report.NewPage(out, s.color)
	p.Heading(fmt.Sprintf("Revisions (now %d, on venue %s)", s.item.Revision, s.item.Venue))
	rows := [][]report.Cell{report.Head("EVENT", "REVISION", "KIND", "CHANGE", "BECAUSE OF", "AT")}
	for i := range s.events {
		e := &s.events[i]
		cause, err := s.r.Record(e.Cause)
		if err != nil {
			return err
		}
		rows = append(rows, []report.Cell{
			report.Number(int64(e.Number)), report.Number(int64(e.Revision)), report.Left(e.Kind.String()), report.Dash(change(e)),
			report.Left(causeText(&cause)), report.Left(causeTime(&cause)),
		})
	}
	p.Table(rows)
	p.Heading("Where it was seen")
	rows = [][]report.Cell{report.Head("LOG", "ROOM", "SEQ", "GEN", "TIME", "CLASS", "LINE", "BYTE", "SOURCE")}
	shown := 0
	for i := range s.records {
		for k := range s.records[i].Sightings {
			if shown++; shown <= recordLimit {
				g := &s.records[i].Sightings[k]
				rows = append(rows, []report.Cell{
					report.Number(int64(g.Position)), report.Left(report.Printable(g.Room)), report.Number(int64(g.Seq)),
					report.Number(int64(g.Generation)), report.Left(report.Clock(g.TsMs)), report.Left(g.Class.String()),
					report.Number(g.Where.Line), report.Number(g.Where.Offset), report.Left(report.Printable(s.h.path(g.Path))),
				})
			}
		}
	}
	p.Table(rows)
	if shown > recordLimit {
		p.Line("  and ", report.Count(int64(shown-recordLimit)), " more; the JSON form lists them")
	}
	return p.Flush()
}
