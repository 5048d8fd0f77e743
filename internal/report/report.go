// Package report says what an audit found: as one JSON object, as one JSON
// line a contract, as a table for a person, and as the story of one contract.
//
// The JSON forms are a public interface (docs/verify.schema.json). Their
// members and their order never change within a schema version, every member
// is always present, and the same input gives the same bytes. The forms for a
// person may change.
//
// Rows are strangers' words. Nothing of them is written unescaped in any form:
// JSON is printable ASCII with <, > and & escaped, and the human forms show a
// protocol word only if it is plain, else its length and hash.
package report

import (
	"cmp"
	"io"
	"iter"
	"maps"
	"slices"

	"github.com/tclk-audit/tclk-audit/export"
	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/internal/audit"
	"github.com/tclk-audit/tclk-audit/protocol"
)

// The schema names of the JSON objects.
const (
	VerifySchema  = "tclk-audit.verify/1"
	SummarySchema = "tclk-audit.verify-summary/1"
)

// Run is everything that one audit has to report. The counts are over all
// rows of the input; Contracts, Findings and Asked are what is to be shown.
type Run struct {
	Rules     string // the rules in force, fold.Rules.String
	Inputs    []audit.Input
	Skipped   []export.Skipped
	Rows      audit.RowCounts
	Malformed []audit.MalformedRow // the first of them, torn ones too
	Summary   fold.Summary

	// Contracts yields the contracts to show in board order of their accepts.
	// It is ranged over once; a contract is not kept after its turn unless the
	// form needs it.
	Contracts iter.Seq[*fold.Contract]
	// Render, where it is not nil, yields the same contracts with what the
	// given function appends for each, made on all cores.
	Render   func(func(dst []byte, c *fold.Contract) []byte) iter.Seq2[*fold.Contract, []byte]
	Findings []fold.Finding // those of no contract, in input order
	Asked    *fold.Contract // the contract asked for; nil for all
	Missing  string         // the contract asked for where it is not in sight
	Exit     func() int     // the exit code; called after Contracts has been ranged over
}

// Of makes a run of an audit, with all its contracts: judge sees each of them
// before it is shown, and says the exit code.
func Of(r *audit.Result, judge *audit.Judgement) *Run {
	return &Run{
		Rules: r.Rules.String(), Inputs: r.Inputs, Skipped: r.Skipped, Rows: r.Rows, Malformed: r.Malformed,
		Summary: r.Summary(), Findings: r.Findings(), Exit: judge.Exit,
		Contracts: func(yield func(*fold.Contract) bool) {
			for c := range r.Contracts() {
				judge.Contract(c)
				if !yield(c) {
					return
				}
			}
		},
		Render: func(render func([]byte, *fold.Contract) []byte) iter.Seq2[*fold.Contract, []byte] {
			return func(yield func(*fold.Contract, []byte) bool) {
				for c, line := range r.Render(render) {
					judge.Contract(c)
					if !yield(c, line) {
						return
					}
				}
			}
		},
	}
}

// Ask narrows the run to one contract. The judgement is about this contract
// and the rows, not about what became of the others.
func (r *Run) Ask(c *fold.Contract, judge *audit.Judgement) {
	judge.Contract(c)
	judge.Asked(c)
	r.Asked, r.Render = c, nil
	r.Contracts = slices.Values([]*fold.Contract{c})
}

// AskMissing narrows the run to a contract that is not in sight.
func (r *Run) AskMissing(name string, judge *audit.Judgement) {
	judge.Asked(nil)
	r.Missing, r.Render = name, nil
	r.Contracts = slices.Values([]*fold.Contract(nil))
}

// Show says what of the rows may be shown beyond the protocol's own fields.
type Show struct {
	Secrets bool // the secrets of reveals
	Text    bool // the stored lines, escaped
}

// flushAt is how much is gathered before it is written.
const flushAt = 64 << 10

// sink gathers output and remembers the first write error.
type sink struct {
	w   io.Writer
	err error
}

func (s *sink) flush(buf []byte) []byte {
	if s.err == nil && len(buf) > 0 {
		_, s.err = s.w.Write(buf)
	}
	return buf[:0]
}

// tally is what one pass over the contracts gathers.
type tally struct {
	contracts int64
	worst     fold.Verdict
	verdicts  [5]int64
	binding   [3]funnel // by fold.Binding
	unbound   struct{ late, noOffer int64 }
	noValue   int64 // counted locks on rails that move nothing
	unknown   int64 // counted locks on other rails
	chosen    int64
	shadows   int64
	findings  [256]int64
	graver    [256]fold.Severity // the gravest severity seen of a code
}

// funnel counts contracts by how far they came; each count includes those that
// went further.
type funnel struct{ accepted, locked, claimed, refunded, cancelled, receipts int64 }

// verdictRank orders verdicts from the best to the worst.
func verdictRank(v fold.Verdict) int {
	switch v {
	case fold.Contradicted:
		return 4
	case fold.Indeterminate:
		return 3
	case fold.Open:
		return 2
	case fold.Established:
		return 1
	}
	return 0
}

func (t *tally) contract(c *fold.Contract) {
	t.contracts++
	if verdictRank(c.Verdict) > verdictRank(t.worst) {
		t.worst = c.Verdict
	}
	t.verdicts[c.Verdict]++
	switch {
	case c.Status == protocol.StatusNone:
		t.unbound.noOffer++
	case c.Binding == fold.BindingNone:
		t.unbound.late++
	}
	f := &t.binding[c.Binding]
	f.accepted++
	switch c.Status {
	case protocol.Locked:
		f.locked++
	case protocol.Claimed:
		f.locked++
		f.claimed++
	case protocol.Refunded:
		f.locked++
		f.refunded++
	case protocol.Cancelled:
		f.cancelled++
	}
	if len(c.Receipts) > 0 {
		f.receipts++
	}
	switch c.Settlement {
	case fold.NoValue:
		t.noValue++
	case fold.Unverified:
		t.unknown++
	}
	if c.Chosen {
		t.chosen++
	}
	if c.Shadow != protocol.StatusNone {
		t.shadows++
	}
	for i := range c.Findings {
		t.finding(&c.Findings[i])
	}
}

func (t *tally) finding(f *fold.Finding) {
	t.findings[f.Code]++
	t.graver[f.Code] = max(t.graver[f.Code], f.Severity)
}

// rest adds the findings of no contract.
func (t *tally) rest(r *Run) {
	for i := range r.Findings {
		t.finding(&r.Findings[i])
	}
	for c, n := range r.Summary.Omitted {
		t.findings[c] += n
	}
}

// verdict is the run's own: the asked contract's, else the worst of all.
func (t *tally) verdict(r *Run) fold.Verdict {
	if r.Asked != nil {
		return r.Asked.Verdict
	}
	return t.worst
}

// JSON writes the run as one object of schema [VerifySchema], indented by one
// space a level, and returns the exit code that stands in it. Contracts are
// written as they come; the findings of all of them are kept until the end,
// because they are listed in input order. The error is the writer's.
func JSON(w io.Writer, r *Run, show Show) (exit int, err error) {
	out := sink{w: w}
	e := &encoder{indent: true, first: true}
	e.open('{')
	r.head(e, VerifySchema)
	e.key("contracts")
	e.open('[')
	var t tally
	findings := slices.Clone(r.Findings)
	for c := range r.Contracts {
		t.contract(c)
		findings = append(findings, c.Findings...)
		e.element()
		e.contract(c, show)
		if len(e.buf) >= flushAt {
			e.buf = out.flush(e.buf)
		}
		if out.err != nil {
			return 0, out.err
		}
	}
	e.close(']')
	t.rest(r)
	slices.SortStableFunc(findings, func(a, b fold.Finding) int { return cmp.Compare(a.Order, b.Order) })
	exit = r.tail(e, &out, findings, &t)
	e.close('}')
	e.buf = append(e.buf, '\n')
	out.flush(e.buf)
	return exit, out.err
}

// JSONL writes one contract a line as they come, then one line of schema
// [SummarySchema]: everything of the object that [JSON] writes except the
// contracts, with the findings that belong to no contract, and the number of
// findings of each code over all contracts. It keeps nothing of a contract.
func JSONL(w io.Writer, r *Run, show Show) (exit int, err error) {
	out := sink{w: w}
	e := &encoder{first: true}
	var t tally
	for c, line := range r.lines(show) {
		t.contract(c)
		e.buf = append(e.buf, line...)
		if len(e.buf) >= flushAt {
			e.buf = out.flush(e.buf)
		}
		if out.err != nil {
			return 0, out.err
		}
	}
	t.rest(r)
	e.open('{')
	r.head(e, SummarySchema)
	e.key("contractCount")
	e.int(t.contracts)
	e.key("findingCounts")
	e.open('{')
	for _, c := range sortedByText(fold.Codes()) {
		if n := t.findings[c]; n > 0 {
			e.key(c.String())
			e.int(n)
		}
	}
	e.close('}')
	exit = r.tail(e, &out, r.Findings, &t)
	e.close('}')
	e.buf = append(e.buf, '\n')
	out.flush(e.buf)
	return exit, out.err
}

// lines yields the contracts with their lines.
func (r *Run) lines(show Show) iter.Seq2[*fold.Contract, []byte] {
	render := func(dst []byte, c *fold.Contract) []byte { return AppendContractLine(dst, c, show) }
	if r.Render != nil {
		return r.Render(render)
	}
	return func(yield func(*fold.Contract, []byte) bool) {
		var line []byte
		for c := range r.Contracts {
			line = render(line[:0], c)
			if !yield(c, line) {
				return
			}
		}
	}
}

// AppendContractLine appends a contract as one line of JSON with its newline,
// as [JSONL] writes it.
func AppendContractLine(dst []byte, c *fold.Contract, show Show) []byte {
	e := &encoder{buf: dst, first: true}
	e.contract(c, show)
	return append(e.buf, '\n')
}

// ContractJSON writes one contract as an object of its own, indented.
func ContractJSON(w io.Writer, c *fold.Contract, show Show) error {
	e := &encoder{indent: true, first: true}
	e.contract(c, show)
	e.buf = append(e.buf, '\n')
	_, err := w.Write(e.buf)
	return err
}

// head writes the members before the contracts.
func (r *Run) head(e *encoder, schema string) {
	e.key("schema")
	e.string(schema)
	e.key("rules")
	e.string(r.Rules)
	e.key("inputs")
	e.open('[')
	for i := range r.Inputs {
		in := &r.Inputs[i]
		e.element()
		e.open('{')
		e.key("path")
		e.string(in.Path)
		e.key("room")
		e.stringOrNull(in.Room)
		e.key("roomFrom")
		e.word(in.RoomFrom.String())
		e.key("rows")
		e.int(in.Rows)
		e.key("sha256")
		e.stringOrNull(in.SHA256)
		e.key("firstSeq")
		e.uintOrNull(in.FirstSeq)
		e.key("lastSeq")
		e.uintOrNull(in.LastSeq)
		e.close('}')
	}
	e.close(']')
	e.key("rows")
	e.open('{')
	for _, n := range []count{
		{"total", r.Rows.Total}, {"authentic", r.Rows.Authentic}, {"repaired", r.Rows.Repaired},
		{"unsigned", r.Rows.Unsigned}, {"invalid", r.Rows.Invalid}, {"malformed", r.Rows.Malformed},
		{"torn", r.Rows.Torn}, {"duplicate", r.Rows.Duplicate}, {"notFrames", r.Rows.NotFrames},
	} {
		e.key(n.name)
		e.int(n.n)
	}
	e.close('}')
	e.key("frames")
	e.open('{')
	e.key("decoded")
	e.open('{')
	for t := protocol.TypeOffer; t <= protocol.TypeHeartbeat; t++ {
		e.key(t.String())
		e.int(r.Summary.Decoded[t])
	}
	e.close('}')
	e.key("rejected")
	e.open('{')
	for _, reason := range sortedByText(slices.Collect(maps.Keys(r.Summary.Rejected))) {
		if n := r.Summary.Rejected[reason]; n > 0 {
			e.key(reason.String())
			e.int(n)
		}
	}
	e.close('}')
	e.close('}')
	e.key("offers")
	e.open('{')
	for _, n := range []count{
		{"total", r.Summary.Offers.Total}, {"proposed", r.Summary.Offers.Proposed}, {"bound", r.Summary.Offers.Bound},
		{"cancelled", r.Summary.Offers.Cancelled}, {"expired", r.Summary.Offers.Expired},
	} {
		e.key(n.name)
		e.int(n.n)
	}
	e.close('}')
}

type count struct {
	name string
	n    int64
}

// tail writes the members after the contracts. Findings that the audit counted
// but did not keep close the list, one entry a code, so that no reader takes
// the list for complete.
func (r *Run) tail(e *encoder, out *sink, findings []fold.Finding, t *tally) (exit int) {
	e.key("findings")
	e.open('[')
	for i := range findings {
		e.element()
		e.finding(&findings[i])
		if len(e.buf) >= flushAt {
			e.buf = out.flush(e.buf)
		}
	}
	for _, f := range r.omissions(t) {
		e.element()
		e.finding(&f)
	}
	e.close(']')
	e.key("verdict")
	e.word(t.verdict(r).String())
	exit = r.Exit()
	e.key("exit")
	e.int(int64(exit))
	return exit
}

// omissions says of each code how many findings were counted but not kept.
func (r *Run) omissions(t *tally) []fold.Finding {
	var all []fold.Finding
	for _, c := range fold.Codes() {
		if n := r.Summary.Omitted[c]; n > 0 {
			all = append(all, fold.Finding{
				Code: c, Severity: max(t.graver[c], fold.Info),
				Detail: number(n) + " more findings of this code were counted and left out",
			})
		}
	}
	return all
}

// sortedByText sorts codes by their text.
func sortedByText[T interface {
	comparable
	String() string
}](codes []T) []T {
	slices.SortFunc(codes, func(a, b T) int { return cmp.Compare(a.String(), b.String()) })
	return codes
}
