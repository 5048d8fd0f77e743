package api

import (
	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/internal/report"
	"github.com/tclk-audit/tclk-audit/store"
)

// findings says of how many contracts there is which finding, and of which
// where a code is asked for. It reads what was concluded and folds nothing.
func (h *handler) findings(q *query, out *reply) error {
	format := q.format(formatText, formatJSON)
	asked, venue := q.codes("code"), q.venue()
	limit, color, after := q.listLimit(format == formatText), q.private("color"), q.after()
	if after != nil && asked == 0 {
		q.fail("after goes on with the contracts of a code", "give code")
	}
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
	counts := map[fold.Code]int64{}
	near := nearest{after: after}
	if limit > 0 && format != formatText {
		near.most = limit + 1
	}
	f := store.Filter{Venue: venue, Keep: func(i *store.Item) bool {
		for _, c := range store.Codes(i.Findings) {
			counts[c]++
		}
		return i.Findings&asked != 0 && near.takes(store.ByAccept.Mark(i))
	}}
	if limit > 0 {
		f.Limit = limit + 1
	}
	items, all, err := r.List(f)
	if err != nil {
		return err
	}
	var mark []byte
	if limit > 0 && len(items) > limit {
		items = items[:limit]
		mark = store.ByAccept.Mark(&items[limit-1])
	}
	if format == formatJSON {
		out.kind = oneObject
		j := report.NewEncoder(out, true)
		j.Open('{')
		j.String("schema", FindingsSchema)
		j.String("rules", r.Rules().String())
		j.Key("findings")
		j.Open('[')
		eachCode(asked, func(c fold.Code) {
			j.Element()
			j.Open('{')
			j.String("code", c.String())
			j.String("kind", c.Kind().String())
			j.String("severity", c.Gravest().String())
			j.Int("contracts", counts[c])
			j.Close('}')
		})
		j.Close(']')
		j.Key("contracts")
		if asked == 0 {
			j.Null()
		} else {
			j.Open('[')
			for i := range items {
				j.Element()
				briefJSON(j, &items[i])
			}
			j.Close(']')
		}
		j.StringOrNull("next", q.cursor(out, mark))
		j.Close('}')
		return endJSON(j)
	}
	out.kind = plainText
	p := report.NewPage(out, color)
	t := table{p: p, head: report.Head("CODE", "KIND", "SEVERITY", "CONTRACTS")}
	eachCode(asked, func(c fold.Code) {
		if asked == 0 && counts[c] == 0 {
			return
		}
		err = t.add([]report.Cell{
			report.Left(c.String()), report.Left(c.Kind().String()), report.Left(c.Gravest().String()), report.Number(counts[c]),
		})
	})
	if err != nil {
		return err
	}
	if asked == 0 {
		return t.end(t.shown, "finding code", "finding codes")
	}
	t.flush()
	p.Line()
	t = table{p: p, head: report.Head("CONTRACT", "STATUS", "VERDICT", "EVIDENCE", "BINDING", "VENUE", "FINDINGS")}
	for i := range items {
		if err := t.add(briefRow(&items[i])); err != nil {
			return err
		}
	}
	q.cursor(out, mark)
	return t.end(all, "contract", "contracts")
}

// eachCode calls f with the codes asked for, or all.
func eachCode(asked uint64, f func(fold.Code)) {
	for _, c := range fold.Codes() {
		if asked == 0 || asked&(1<<c) != 0 {
			f(c)
		}
	}
}

// briefRow shows what was concluded of a contract.
func briefRow(i *store.Item) []report.Cell {
	codes := ""
	for _, c := range codeWords(i.Findings) {
		if codes != "" {
			codes += " "
		}
		codes += c
	}
	return []report.Cell{
		report.Left(report.ShortID(i.Contract)), report.Dash(i.Status.String()), report.VerdictCell(i.Verdict), report.Dash(i.Evidence.String()),
		report.Dash(i.Binding.String()), report.Left(i.Venue), report.Dash(codes),
	}
}

func briefJSON(j *report.Encoder, i *store.Item) {
	j.Open('{')
	j.ID("contract", i.Contract)
	j.ID("offer", i.Offer)
	j.StringOrNull("status", i.Status.String())
	j.StringOrNull("evidence", i.Evidence.String())
	j.StringOrNull("verdict", i.Verdict.String())
	j.StringOrNull("binding", i.Binding.String())
	j.StringOrNull("outlook", i.Outlook.String())
	j.Key("findings")
	j.Open('[')
	for _, c := range codeWords(i.Findings) {
		j.Text(c)
	}
	j.Close(']')
	j.String("venue", i.Venue)
	j.Uint("revision", i.Revision)
	j.Close('}')
}
