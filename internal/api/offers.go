package api

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/internal/report"
	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/store"
)

func (h *handler) offers(q *query, out *reply) error {
	format := q.format(formatText, formatJSON, formatLines)
	f := store.OfferFilter{Venue: q.venue(), Party: q.did("party", q.one("party"))}
	for _, w := range q.words("status", store.OfferProposed.String(), store.OfferBound.String(), store.OfferCancelled.String(), store.OfferExpired.String()) {
		f.Status = append(f.Status, store.ParseOfferStatus(w))
	}
	limit, after := q.listLimit(format == formatText), q.after()
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
	// each calls f with the offers up to the limit, and gives the mark of the
	// last where there are more.
	each := func(take func(*store.Offer) error) (mark []byte, err error) {
		n := 0
		for o, err := range r.OffersAfter(f, after) {
			if err == nil {
				err = out.alive(n)
			}
			if err != nil {
				return nil, err
			}
			if n++; limit > 0 && n > limit || out.full() {
				return mark, nil
			}
			if err := take(&o.Offer); err != nil {
				return nil, err
			}
			mark = o.Mark
		}
		return nil, nil
	}
	switch format {
	case formatJSON:
		out.kind = oneObject
		j := report.NewEncoder(out, true)
		j.Open('{')
		j.String("schema", OffersSchema)
		j.String("rules", r.Rules().String())
		j.Key("offers")
		j.Open('[')
		mark, err := each(func(o *store.Offer) error {
			j.Element()
			offerJSON(j, o)
			return j.Err()
		})
		if err != nil {
			return err
		}
		j.Close(']')
		j.StringOrNull("next", q.cursor(out, mark))
		j.Close('}')
		return endJSON(j)
	case formatLines:
		out.kind = jsonLines
		j := report.NewEncoder(out, false)
		mark, err := each(func(o *store.Offer) error {
			offerJSON(j, o)
			return j.EndLine()
		})
		if err != nil {
			return err
		}
		q.cursor(out, mark)
		return j.Flush()
	}
	out.kind = plainText
	t := table{
		p:    report.NewPage(out, color),
		head: report.Head("OFFER", "STATUS", "AUTHOR", "ROLE", "LOCK", "AMOUNT", "ASSET", "RAILS", "EXPIRES", "CONTRACTS"),
	}
	mark, err := each(func(o *store.Offer) error { return t.add(offerRow(o)) })
	if err != nil {
		return err
	}
	if mark != nil {
		q.cursor(out, mark)
		if err := t.end(-1, "", ""); err != nil {
			return err
		}
		t.p.Line("the first ", report.Count(int64(t.shown)), "; a greater limit shows more, 0 all")
		return t.p.Flush()
	}
	return t.end(t.shown, "offer", "offers")
}

func offerRow(o *store.Offer) []report.Cell {
	rails := make([]string, 0, len(o.Rails))
	for i, r := range o.Rails {
		if i == 4 {
			rails = append(rails, "...")
			break
		}
		rails = append(rails, report.Word(r))
	}
	return []report.Cell{
		report.Left(report.ShortID(o.ID)), report.Left(o.Status.String()), report.Left(report.ShortDID(o.From)),
		report.Left(o.Role.String()), report.Left(o.Lock.String()), report.Left(report.Word(o.Amount)), report.Left(report.Word(o.Asset)),
		report.Dash(strings.Join(rails, " ")), report.Left(report.Clock(o.ExpiresMs)), report.Number(int64(o.Accepts)),
	}
}

func offerJSON(j *report.Encoder, o *store.Offer) {
	j.Open('{')
	j.ID("offer", o.ID)
	j.String("status", o.Status.String())
	j.String("from", o.From)
	j.String("role", o.Role.String())
	j.String("lock", o.Lock.String())
	j.String("amount", o.Amount)
	j.String("asset", o.Asset)
	j.Key("rails")
	j.Open('[')
	for _, r := range o.Rails {
		j.Text(r)
	}
	j.Close(']')
	j.Int("expiresMs", o.ExpiresMs)
	j.Int("claimByMs", o.ClaimByMs)
	j.Int("refundAfterMs", o.RefundAfterMs)
	j.Uint("seq", o.Seq)
	j.Int("tsMs", o.TsMs)
	j.ID("bound", o.Bound)
	j.Uint("contractCount", o.Accepts)
	j.Key("contracts")
	j.Open('[')
	for _, id := range o.Contracts {
		j.IDText(id)
	}
	j.Close(']')
	j.String("venue", o.Venue)
	j.Close('}')
}

func (h *handler) party(q *query, out *reply) error {
	format := q.format(formatText, formatJSON)
	did, venue, color := q.did("party", q.r.PathValue("did")), q.venue(), q.private("color")
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
	p, err := r.Party(did, venue, out.ctx.Err)
	if err != nil {
		return err
	}
	if p.Contracts == 0 {
		return notFound("no deal of "+did+" is in sight", "'tclk-audit offers --party' lists its offers")
	}
	if format == formatJSON {
		out.kind = oneObject
		j := report.NewEncoder(out, true)
		partyJSON(j, p, r.Rules().String())
		return endJSON(j)
	}
	out.kind = plainText
	page := report.NewPage(out, color)
	partyText(page, p)
	return page.Flush()
}

func settlements() []fold.Settlement {
	return []fold.Settlement{fold.NoValue, fold.Unverified, fold.SettlementNone}
}

func railsOf(p *store.Party) []string {
	return slices.SortedFunc(maps.Keys(p.Rails), func(a, b string) int {
		return cmp.Or(cmp.Compare(p.Rails[b], p.Rails[a]), cmp.Compare(a, b))
	})
}

func partyJSON(j *report.Encoder, p *store.Party, rules string) {
	j.Open('{')
	j.String("schema", PartySchema)
	j.String("rules", rules)
	j.String("party", p.DID)
	j.Int("contracts", p.Contracts)
	j.Key("roles")
	j.Open('{')
	j.Int(protocol.RolePayer.String(), p.Payer)
	j.Int(protocol.RolePayee.String(), p.Payee)
	j.Close('}')
	j.Key("statuses")
	j.Open('{')
	for st := protocol.Proposed; st <= protocol.Cancelled; st++ {
		j.Int(st.String(), p.ByStatus[st])
	}
	j.Close('}')
	j.Key("rails")
	j.Open('[')
	for _, rail := range railsOf(p) {
		j.Element()
		j.Open('{')
		j.String("rail", rail)
		j.Int("contracts", p.Rails[rail])
		j.Close('}')
	}
	j.Close(']')
	j.Key("settlements")
	j.Open('{')
	for _, s := range settlements() {
		j.Int(s.String(), p.Values[s])
	}
	j.Close('}')
	j.Key("findings")
	j.Open('{')
	for _, c := range fold.Codes() {
		if n := p.Findings[c]; n > 0 {
			j.Int(c.String(), n)
		}
	}
	j.Close('}')
	latencyJSON(j, "acceptToLock", &p.AcceptToLock)
	latencyJSON(j, "lockToReveal", &p.LockToReveal)
	j.IntOrNull("firstMs", seen(p.FirstMs))
	j.IntOrNull("lastMs", seen(p.LastMs))
	j.Close('}')
}

func seen(ms int64) *int64 {
	if ms == 0 {
		return nil
	}
	return &ms
}

func latencyJSON(j *report.Encoder, name string, l *store.Latency) {
	median, most := &l.MedianMs, &l.MaxMs
	if l.Count == 0 {
		median, most = nil, nil
	}
	j.Key(name)
	j.Open('{')
	j.Int("count", l.Count)
	j.IntOrNull("medianMs", median)
	j.IntOrNull("maxMs", most)
	j.Close('}')
}

func partyText(page *report.Page, p *store.Party) {
	page.Line("Party ", report.Word(p.DID))
	page.Line()
	row := func(name, value string) []report.Cell { return []report.Cell{report.Left(name), report.Left(value)} }
	rows := [][]report.Cell{row("deals", report.Count(p.Contracts)+": "+report.Count(p.Payer)+" as payer, "+report.Count(p.Payee)+" as payee")}
	if p.FirstMs != 0 {
		rows = append(rows, row("first row", report.Clock(p.FirstMs)), row("last row", report.Clock(p.LastMs)))
	}
	rows = append(rows, row("accept to lock", latencyText(&p.AcceptToLock)), row("lock to reveal", latencyText(&p.LockToReveal)))
	page.Table(rows)
	counts := func(title string, add func(func(string, int64))) {
		rows := [][]report.Cell{}
		add(func(name string, n int64) {
			if n > 0 {
				rows = append(rows, []report.Cell{report.Left(name), report.Number(n)})
			}
		})
		page.Heading(title)
		if len(rows) == 0 {
			page.Line("  none")
		}
		page.Table(rows)
	}
	counts("Status", func(add func(string, int64)) {
		for st := protocol.Proposed; st <= protocol.Cancelled; st++ {
			add(st.String(), p.ByStatus[st])
		}
	})
	counts("Rails of counted locks", func(add func(string, int64)) {
		for _, rail := range railsOf(p) {
			add(report.Word(rail), p.Rails[rail])
		}
	})
	counts("Settlement", func(add func(string, int64)) {
		for _, s := range settlements() {
			add(s.String(), p.Values[s])
		}
	})
	counts("Deals with a finding", func(add func(string, int64)) {
		for _, c := range fold.Codes() {
			add(c.String(), p.Findings[c])
		}
	})
	page.Line()
	page.Line("These are counts of what rows say, and no judgement. Keys are free: one person may have many.")
}

func latencyText(l *store.Latency) string {
	if l.Count == 0 {
		return "-"
	}
	return "median " + report.Span(l.MedianMs) + ", at most " + report.Span(l.MaxMs) + ", in " + report.Plural(l.Count, "deal", "deals")
}
