package report

import (
	"cmp"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/tclk-audit/tclk-audit/export"
	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/internal/audit"
	"github.com/tclk-audit/tclk-audit/protocol"
)

// TextOptions say how the forms for a person look.
type TextOptions struct {
	Show
	Color bool // escape sequences for colour
	All   bool // list every contract, not only those that need a look
}

// lookLimit bounds the list of contracts that need a look, so that a hostile
// board cannot fill the screen or the memory.
const lookLimit = 50

// inputLimit bounds the list of inputs, and of skipped files, in the human view.
const inputLimit = 20

// Text writes the run for a person and returns the exit code: what was read,
// the funnel from offers to receipts, the findings by code, and the contracts
// that need a look, or all of them, or the one asked for with every step.
func Text(w io.Writer, r *Run, o TextOptions) (exit int, err error) {
	p := &page{sink: sink{w: w}, color: o.Color}
	p.inputs(r)
	p.malformed(r)

	var t tally
	var look [][]cell
	needed := int64(0)
	narrow := r.Asked != nil || r.Missing != ""
	if o.All && !narrow {
		p.heading("Contracts")
		p.row(listHead, listWidth)
	}
	for c := range r.Contracts {
		t.contract(c)
		switch {
		case narrow:
		case o.All:
			p.row(listRow(c), listWidth)
		case needsLook(c):
			if needed++; needed <= lookLimit {
				look = append(look, listRow(c))
			}
		}
		if p.err != nil {
			return 0, p.err
		}
	}
	t.rest(r)

	if r.Asked != nil {
		p.asked(r.Asked, o.Show)
		p.findingList("Findings of no contract", r.Findings, lookLimit)
	} else if r.Missing != "" {
		p.heading("Contract " + Printable(r.Missing))
		p.line("  not in sight; ", plural(r.Summary.Contracts, "contract is", "contracts are"))
		p.findingList("Findings of no contract", r.Findings, lookLimit)
	} else {
		if o.All && t.contracts == 0 {
			p.line("  none")
		}
		p.funnel(r, &t)
		p.findingCounts(&t)
		if !o.All {
			p.look(look, needed, t.contracts)
		}
	}
	exit = r.Exit()
	label := "worst verdict "
	if narrow {
		label = "verdict "
	}
	p.closing(label, t.verdict(r), exit)
	return exit, p.end()
}

func (p *page) inputs(r *Run) {
	var parts []string
	for _, n := range []count{
		{"authentic", r.Rows.Authentic}, {"repaired", r.Rows.Repaired}, {"unsigned", r.Rows.Unsigned},
		{"invalid", r.Rows.Invalid}, {"malformed", r.Rows.Malformed}, {"torn", r.Rows.Torn},
	} {
		if n.n > 0 {
			parts = append(parts, number(n.n)+" "+n.name)
		}
	}
	rows := plural(r.Rows.Total, "row", "rows") + " in " + plural(int64(len(r.Inputs)), "input", "inputs")
	if len(parts) > 0 {
		rows += ": " + strings.Join(parts, ", ")
	}
	var beside []string
	if n := r.Rows.Duplicate; n > 0 {
		beside = append(beside, plural(n, "duplicate", "duplicates"))
	}
	if n := r.Rows.NotFrames; n > 0 {
		beside = append(beside, plural(n, "row is no frame", "rows are no frames"))
	}
	if len(beside) > 0 {
		rows += " (" + strings.Join(beside, ", ") + ")"
	}
	at := "no row time in sight"
	if r.Summary.ClockMs != nil {
		at = clock(*r.Summary.ClockMs)
	}
	p.table([][]cell{
		{styled("rules", bold), left(Printable(r.Rules))},
		{styled("rows", bold), left(rows)},
		{styled("frames", bold), left(frameCounts(r))},
		{styled("clock", bold), left(at)},
	})
	if len(r.Inputs) > 0 {
		p.heading("Inputs")
		table := [][]cell{{styled("PATH", dim), styled("ROOM", dim), styled("TOLD BY", dim), {"ROWS", dim, true}, styled("SEQ", dim)}}
		for i := range r.Inputs[:min(len(r.Inputs), inputLimit)] {
			in := &r.Inputs[i]
			room, from, seq := "-", "-", "-"
			if in.Room != "" {
				room = Printable(in.Room)
			}
			if in.RoomFrom != export.RoomUnknown {
				from = in.RoomFrom.String()
			}
			if in.FirstSeq != nil && in.LastSeq != nil {
				seq = number(int64(*in.FirstSeq)) + " to " + number(int64(*in.LastSeq))
			}
			table = append(table, []cell{left(Printable(in.Path)), left(room), left(from), counted(in.Rows), left(seq)})
		}
		p.table(table)
		if n := len(r.Inputs) - inputLimit; n > 0 {
			p.line("  and ", number(int64(n)), " more")
		}
	}
	for i, s := range r.Skipped {
		if i == inputLimit {
			p.line("  and ", number(int64(len(r.Skipped)-i)), " more skipped")
			break
		}
		p.line("  skipped ", Printable(s.Path), ": ", SkipText(s))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Summary.Limits)) {
		if n := r.Summary.Limits[name]; n > 0 {
			p.line("  limit met: ", Printable(name), ", ", number(n), " beyond it only counted")
		}
	}
}

// SkipText says why a file was skipped.
func SkipText(s export.Skipped) string {
	if s.Detail != "" {
		return Printable(s.Detail)
	}
	return s.Reason.String()
}

// malformed lists the first rows that could not be used.
func (p *page) malformed(r *Run) {
	if len(r.Malformed) == 0 {
		return
	}
	p.heading("Rows that could not be used")
	for i := range r.Malformed[:min(len(r.Malformed), inputLimit)] {
		p.line("  ", MalformedText(&r.Malformed[i]))
	}
	if n := r.Rows.Malformed + r.Rows.Torn - inputLimit; n > 0 {
		p.line("  and ", number(n), " more")
	}
}

// MalformedText says where a row stands and why it could not be used.
func MalformedText(m *audit.MalformedRow) string {
	s := m.Where.String() + " (byte " + number(m.Where.Offset) + "): " + m.Reason.String()
	if m.Torn {
		s += ", torn"
	}
	if m.Detail != "" {
		s += ": " + m.Detail
	}
	return Printable(s)
}

func frameCounts(r *Run) string {
	var decoded, rejected int64
	var parts []string
	for t := protocol.TypeOffer; t <= protocol.TypeHeartbeat; t++ {
		n := r.Summary.Decoded[t]
		decoded += n
		if n > 0 {
			parts = append(parts, plural(n, t.String(), t.String()+"s"))
		}
	}
	s := number(decoded) + " decoded"
	if len(parts) > 0 {
		s += " (" + strings.Join(parts, ", ") + ")"
	}
	parts = nil
	for _, reason := range sortedByText(slices.Collect(maps.Keys(r.Summary.Rejected))) {
		if n := r.Summary.Rejected[reason]; n > 0 {
			rejected += n
			parts = append(parts, number(n)+" "+reason.String())
		}
	}
	s += ", " + number(rejected) + " rejected"
	if len(parts) > 0 {
		s += " (" + strings.Join(parts, ", ") + ")"
	}
	return s
}

func (p *page) funnel(r *Run, t *tally) {
	p.heading("Funnel")
	bound, other := &t.binding[fold.Bound], &t.binding[fold.Superseded]
	var offers []string
	for _, n := range []count{{"proposed", r.Summary.Offers.Proposed}, {"cancelled", r.Summary.Offers.Cancelled}, {"expired", r.Summary.Offers.Expired}} {
		if n.n > 0 {
			offers = append(offers, number(n.n)+" "+n.name)
		}
	}
	note := ""
	if len(offers) > 0 {
		note = "; without a contract: " + strings.Join(offers, ", ")
	}
	p.line("  ", plural(r.Summary.Offers.Total, "offer", "offers"), note)
	locks := ""
	if t.noValue+t.unknown > 0 {
		locks = number(t.noValue) + " on rails that move nothing, " + number(t.unknown) + " unverified"
	}
	if t.chosen > 0 {
		if locks != "" {
			locks += "; "
		}
		locks += number(t.chosen) + " chosen"
	}
	rows := [][]cell{
		{left(""), {"BOUND", dim, true}, {"SUPERSEDED", dim, true}, left("")},
		{left("accepted"), counted(bound.accepted), counted(other.accepted), left("")},
		{left("locked"), counted(bound.locked), counted(other.locked), left(locks)},
		{left("claimed"), counted(bound.claimed), counted(other.claimed), left("")},
		{left("refunded"), counted(bound.refunded), counted(other.refunded), left("")},
		{left("cancelled"), counted(bound.cancelled), counted(other.cancelled), left("")},
		{left("receipts"), counted(bound.receipts), counted(other.receipts), left("")},
	}
	for i, row := range rows {
		for len(row) > 0 && row[len(row)-1].text == "" {
			row = row[:len(row)-1]
		}
		rows[i] = row
	}
	p.table(rows)
	if t.unbound.late > 0 {
		p.line("  ", plural(t.unbound.late, "accept", "accepts"), " came when the offer was closed")
	}
	if t.unbound.noOffer > 0 {
		p.line("  ", plural(t.unbound.noOffer, "accept names an offer", "accepts name offers"), " not in sight")
	}
	if t.shadows > 0 {
		p.line("  ", plural(t.shadows, "contract has", "contracts have"), " frames on the board that cannot count there (shadow)")
	}

	p.heading("Verdicts")
	var verdicts [][]cell
	for _, v := range []fold.Verdict{fold.Established, fold.Open, fold.Indeterminate, fold.Contradicted} {
		verdicts = append(verdicts, []cell{verdictCell(v), counted(t.verdicts[v])})
	}
	p.table(verdicts)
}

func (p *page) findingCounts(t *tally) {
	p.heading("Findings")
	var codes []fold.Code
	for _, c := range fold.Codes() {
		if t.findings[c] > 0 {
			codes = append(codes, c)
		}
	}
	if len(codes) == 0 {
		p.line("  none")
		return
	}
	slices.SortStableFunc(codes, func(a, b fold.Code) int {
		return cmp.Or(cmp.Compare(t.graver[b], t.graver[a]), cmp.Compare(t.findings[b], t.findings[a]))
	})
	rows := [][]cell{{styled("CODE", dim), styled("KIND", dim), styled("UP TO", dim), {"COUNT", dim, true}}}
	for _, c := range codes {
		rows = append(rows, []cell{left(c.String()), left(c.Kind().String()), severityCell(t.graver[c]), counted(t.findings[c])})
	}
	p.table(rows)
}

func (p *page) look(rows [][]cell, needed, contracts int64) {
	p.heading("Contracts that need a look (" + number(needed) + " of " + number(contracts) + ")")
	if needed == 0 {
		p.line("  none")
	} else {
		p.row(listHead, listWidth)
		for _, row := range rows {
			p.row(row, listWidth)
		}
		if more := needed - int64(len(rows)); more > 0 {
			p.line("  and ", number(more), " more")
		}
	}
	p.line("  --all lists every contract, --contract ID shows one with all its steps, explain tells its story.")
}

// needsLook reports whether a contract is listed by default: contradicted,
// indeterminate with a lock, or with an anomaly.
func needsLook(c *fold.Contract) bool {
	if c.Verdict == fold.Contradicted || c.Verdict == fold.Indeterminate && c.Settlement != fold.SettlementNone {
		return true
	}
	return slices.ContainsFunc(c.Findings, func(f fold.Finding) bool { return f.Severity == fold.Anomaly })
}

var (
	listHead = []cell{
		styled("CONTRACT", dim), styled("STATUS", dim), styled("VERDICT", dim), styled("EVIDENCE", dim),
		styled("BINDING", dim), styled("OUTLOOK", dim), styled("SETTLEMENT", dim), styled("FINDINGS", dim),
	}
	// listWidth is known beforehand, so that a long list is written as it comes.
	listWidth = []int{18, 9, 13, 11, 10, 15, 10, 8}
)

func listRow(c *fold.Contract) []cell {
	var codes []string
	worst := fold.SeverityNone
	for i := range c.Findings {
		f := &c.Findings[i]
		if f.Severity >= fold.Notice && !slices.Contains(codes, f.Code.String()) {
			codes = append(codes, f.Code.String())
		}
		worst = max(worst, f.Severity)
	}
	findings := severityCell(worst)
	findings.text = orDash(strings.Join(codes, ", "))
	return []cell{
		left(shortHex(c.ID)), left(orDash(c.Status.String())), verdictCell(c.Verdict), left(orDash(c.Evidence.String())),
		left(orDash(c.Binding.String())), left(orDash(Printable(c.Outlook.Code))), left(c.Settlement.String()), findings,
	}
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func verdictCell(v fold.Verdict) cell {
	st := plain
	switch v {
	case fold.Established:
		st = green
	case fold.Indeterminate:
		st = yellow
	case fold.Contradicted:
		st = red
	}
	return styled(orDash(v.String()), st)
}

func severityCell(s fold.Severity) cell {
	st := plain
	switch s {
	case fold.Notice:
		st = yellow
	case fold.Anomaly:
		st = red
	}
	return styled(orDash(s.String()), st)
}

// asked writes one contract with everything that is known of it.
func (p *page) asked(c *fold.Contract, show Show) {
	p.heading("Contract " + protocol.ID(c.ID).String())
	p.facts(c)
	p.heading("Steps")
	p.steps(c, c.Steps, show)
	if c.StepsOmitted > 0 {
		p.line("  and ", plural(int64(c.StepsOmitted), "row", "rows"), " of non-parties beyond the limit")
	}
	if len(c.ShadowSteps) > 0 {
		p.heading("Shadow: with the board's frames in place of the deal room's; shown, never counted")
		p.steps(c, c.ShadowSteps, show)
	}
	if len(c.Receipts) > 0 {
		p.heading("Receipts that count")
		rows := [][]cell{{styled("ROOM", dim), {"SEQ", dim, true}, styled("TIME", dim), styled("SIGNER", dim), styled("OUTCOME", dim), styled("RAIL", dim), styled("REF", dim)}}
		for i := range c.Receipts {
			r := &c.Receipts[i]
			rows = append(rows, []cell{
				left(Printable(r.Room)), right(number(int64(r.Seq))), left(clock(r.TsMs)), left(signer(c, r.From)),
				left(orDash(r.Outcome.String())), left(wordOrDash(r.Rail)), left(wordOrDash(r.Ref)),
			})
		}
		p.table(rows)
	}
	p.findingList("Findings of this contract", c.Findings, len(c.Findings))
}

func wordOrDash(s string) string {
	if s == "" {
		return "-"
	}
	return word(s)
}

// facts writes what a contract is and what is known of it.
func (p *page) facts(c *fold.Contract) {
	var rows [][]cell
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, []cell{left(name), left(value)})
		}
	}
	verdict := verdictCell(c.Verdict)
	status := orDash(c.Status.String())
	if c.Late {
		status += ", late (after claimByMs)"
	}
	add("status", status)
	add("evidence", orDash(c.Evidence.String()))
	rows = append(rows, []cell{left("verdict"), verdict})
	if len(c.Possible) > 0 {
		add("possible", statusList(c.Possible))
	}
	add("settlement", settlementText(c))
	add("binding", bindingText(c))
	add("outlook", outlookText(&c.Outlook))
	if c.AsOf != nil {
		add("as of", "seq "+number(int64(c.AsOf.Seq))+", "+clock(c.AsOf.TsMs))
	}
	add("leans on", Printable(strings.Join(c.LeansOn, ", ")))
	if c.Shadow != protocol.StatusNone {
		add("shadow", c.Shadow.String())
	}
	add("offer", protocol.ID(c.Offer).String())
	add("room", Printable(c.Room))
	if c.Payer != "" {
		add("payer", word(c.Payer))
		add("payee", word(c.Payee))
	}
	if c.Amount != "" {
		add("terms", word(c.Amount)+" "+word(c.Asset)+" (minimal units), "+c.Lock.String()+" lock")
	}
	if c.Rail != "" {
		rail := word(c.Rail)
		if c.RailRef != "" {
			rail += ", ref " + word(c.RailRef)
		}
		if c.Presig != "" {
			rail += ", pre-signature " + Printable(c.Presig)
		}
		add("rail", rail)
	}
	p.table(rows)
}

func statusList(all []protocol.Status) string {
	var words []string
	for _, s := range all {
		words = append(words, s.String())
	}
	return strings.Join(words, ", ")
}

func settlementText(c *fold.Contract) string {
	switch c.Settlement {
	case fold.NoValue:
		return "no-value (the rail moves nothing)"
	case fold.Unverified:
		return "unverified (nobody looked at the rail)"
	}
	return "none (no lock counted)"
}

func bindingText(c *fold.Contract) string {
	switch c.Binding {
	case fold.Bound:
		if c.Chosen {
			return "bound, chosen"
		}
		return "bound"
	case fold.Superseded:
		s := "superseded by " + protocol.ID(c.BoundTo).String()
		if c.Chosen {
			s += ", chosen"
		}
		return s
	}
	if c.Status == protocol.StatusNone {
		return "none (the offer is not in sight)"
	}
	return "none (the accept did not count)"
}

func outlookText(o *fold.Outlook) string {
	if o.Code == "" {
		return ""
	}
	s := Printable(o.Code)
	if o.MsRemaining > 0 {
		s += ", changes in " + span(o.MsRemaining)
	}
	if o.AtMs != nil {
		s += ", by the clock " + clock(*o.AtMs)
	}
	return s
}

// signer names a sender by its part in the contract.
func signer(c *fold.Contract, from string) string {
	switch {
	case from == "":
		return "-"
	case from == c.Payer:
		return "payer"
	case from == c.Payee:
		return "payee"
	}
	return shortDID(from)
}

// steps writes one line a step, and the stored text or secret below it where
// the user asked for them.
func (p *page) steps(c *fold.Contract, steps []fold.Step, show Show) {
	if len(steps) == 0 {
		p.line("  none")
		return
	}
	rows := [][]cell{{styled("ROOM", dim), {"SEQ", dim, true}, styled("TIME", dim), styled("TYPE", dim), styled("SIGNER", dim), styled("RESULT", dim)}}
	where := placesOf(c)
	for i := range steps {
		s := &steps[i]
		result := styled("ok", green)
		switch {
		case s.Ignored:
			result = styled("ignored: "+s.Reason.String(), dim)
		case !s.OK:
			result = styled("refused: "+s.Reason.String(), yellow)
			if s.CascadeOf != nil {
				result.text += ", follows from " + where.of(*s.CascadeOf)
			}
			if s.Detail != "" {
				result.text += ": " + Printable(s.Detail)
			}
		}
		if s.MarginMs != nil {
			result.text += ", margin " + signedSpan(*s.MarginMs)
		}
		if show.Secrets && s.Secret != nil {
			result.text += ", secret " + s.Secret.String()
		}
		if show.Text && s.HasText {
			result.text += ", text " + quoted(s.Text)
		}
		rows = append(rows, []cell{
			left(Printable(s.Room)), right(number(int64(s.Seq))), left(clock(s.TsMs)),
			left(orDash(s.Type.String())), left(signer(c, s.From)), result,
		})
	}
	p.table(rows)
}

func signedSpan(ms int64) string {
	if ms < 0 {
		return "-" + span(ms)
	}
	return span(ms)
}

// places finds where a step stands by its record.
type places map[protocol.RecordID]*fold.Step

func placesOf(c *fold.Contract) places {
	m := places{}
	for _, steps := range [][]fold.Step{c.ShadowSteps, c.Steps} {
		for i := range steps {
			m[steps[i].Record] = &steps[i]
		}
	}
	return m
}

func (m places) of(id protocol.RecordID) string {
	s, ok := m[id]
	if !ok {
		return "record " + id.String()[:16] + "..."
	}
	name := s.Type.String()
	if name == "" {
		name = "row"
	}
	return "the " + name + " at " + Printable(s.Room) + " seq " + number(int64(s.Seq))
}

func (p *page) findingList(title string, all []fold.Finding, limit int) {
	if len(all) == 0 {
		return
	}
	p.heading(title)
	var rows [][]cell
	for i := range all[:min(limit, len(all))] {
		f := &all[i]
		rows = append(rows, []cell{severityCell(f.Severity), left(f.Code.Kind().String()), left(f.Code.String()), left(findingText(f))})
	}
	p.table(rows)
	if n := len(all) - limit; n > 0 {
		p.line("  and ", number(int64(n)), " more (--json lists them)")
	}
}

func findingText(f *fold.Finding) string {
	var parts []string
	if f.Room != "" {
		at := Printable(f.Room)
		if f.Seq != nil {
			at += " seq " + number(int64(*f.Seq))
		}
		parts = append(parts, at)
	}
	if f.Detail != "" {
		parts = append(parts, Printable(f.Detail))
	}
	return orDash(strings.Join(parts, ": "))
}

func (p *page) closing(label string, v fold.Verdict, exit int) {
	p.line()
	p.text(bold, label)
	c := verdictCell(v)
	p.text(c.style, c.text)
	p.line(", exit ", number(int64(exit)), exitMeaning(exit))
	p.line("A verdict speaks of the rows in sight. That none is missing or renumbered is the venue's word,")
	p.line("and a frame is never money.")
}

// exitMeaning says the code in words.
func exitMeaning(exit int) string {
	switch exit {
	case 0:
		return " (nothing wrong with the rows)"
	case 1:
		return " (something is wrong with the rows)"
	case 3:
		return " (cannot tell)"
	case 4:
		return " (the work could not be done: a limit was met)"
	}
	return ""
}
