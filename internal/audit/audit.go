package audit

import (
	"context"
	"fmt"
	"io"
	"iter"
	"runtime"
	"sync"

	"github.com/tclk-audit/tclk-audit/export"
	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/protocol"
)

// Options of a run. The zero value audits under the spec's rules on all cores.
type Options struct {
	Rules    fold.Rules
	Room     string // the room of every row, whatever files and rows say
	Limits   export.Limits
	Cores    int    // workers; 0: GOMAXPROCS
	KeepText bool   // keep the stored lines of steps
	Exact    bool   // look for signature-not-strict on every step
	NowMs    *int64 // the clock for outlooks; nil: the venue's clock in the files
	Stdin    io.Reader
	// Progress is told how many stored bytes are done, of how many (-1:
	// unknown), now and then, always from the same goroutine of the run.
	Progress func(done, total int64)
}

// Input is what one source of rows was.
type Input struct {
	Path     string
	Room     string // "" where it holds several rooms, or none could be told
	RoomFrom export.RoomFrom
	Rows     int64 // all its rows, malformed ones too
	SHA256   string
	FirstSeq *uint64 // of the first and last usable row; nil for several rooms
	LastSeq  *uint64
	last     uint64
	Cut      export.Cut

	rooms   int // distinct rooms so far, up to 2
	checked int64
	failed  int64
	untried int64
	index   uint32
}

// RowCounts counts the rows of all inputs. Each row is in exactly one of
// Authentic, Repaired, Unsigned, Invalid, Malformed and Torn.
type RowCounts struct {
	Total, Authentic, Repaired, Unsigned, Invalid, Malformed, Torn int64
	Duplicate, NotFrames                                           int64
}

// MalformedRow is a row that could not be used, and why.
type MalformedRow struct {
	Where  export.Position
	Reason protocol.Reason
	Detail string
	Torn   bool
}

// MalformedLimit is how many malformed rows a Result lists one by one; all are
// counted.
const MalformedLimit = 1000

// Result is a finished audit.
type Result struct {
	Rules     fold.Rules
	Inputs    []Input
	Skipped   []export.Skipped
	Rows      RowCounts
	Malformed []MalformedRow // the first MalformedLimit
	Bytes     int64          // stored bytes read

	auditor    *fold.Auditor
	cores      int
	wrongSigs  int64 // signatures that stay invalid in rooms that were certain
	tooLong    int64 // rows over the line limit
	tornInputs int64
}

// Run audits the inputs that the paths name. Bad rows are part of the result;
// an error means that the work could not be done: an unreadable path, a limit
// met, or the context's end.
func Run(ctx context.Context, paths []string, o Options) (*Result, error) {
	if o.Cores <= 0 {
		o.Cores = runtime.GOMAXPROCS(0)
	}
	eo := export.Options{Room: o.Room, Limits: o.Limits, Stdin: o.Stdin, ChunkBytes: chunkBytes}
	inputs, skipped, err := export.Open(paths, eo)
	if err != nil {
		return nil, err
	}
	r := &run{
		opts: o,
		res: &Result{Rules: o.Rules, Skipped: skipped, cores: o.Cores, auditor: fold.New(fold.Options{
			Rules: o.Rules, KeepText: o.KeepText, Exact: o.Exact, NowMs: o.NowMs,
		})},
		total: totalSize(inputs),
	}
	if err := r.do(ctx, inputs); err != nil {
		return nil, err
	}
	r.res.auditor.Finish()
	s := r.res.auditor.Summary()
	r.res.Rows.Duplicate, r.res.Rows.NotFrames = s.Duplicate+r.merged, s.NotFrames
	return r.res, nil
}

func totalSize(inputs []*export.Input) (total int64) {
	for _, in := range inputs {
		if in.Size < 0 {
			return -1
		}
		total += in.Size
	}
	return total
}

// Summary returns the fold's counts.
func (r *Result) Summary() fold.Summary { return r.auditor.Summary() }

// Contracts yields every contract in board order of its accept, built one at a
// time.
func (r *Result) Contracts() iter.Seq[*fold.Contract] { return r.auditor.Contracts() }

// Render builds every contract and what render appends for it, on all cores,
// and yields them in board order of the accepts. Contract and bytes are good
// until the next.
func (r *Result) Render(render func(dst []byte, c *fold.Contract) []byte) iter.Seq2[*fold.Contract, []byte] {
	return func(yield func(*fold.Contract, []byte) bool) {
		cores := max(1, r.cores)
		free, order := make(chan *page, 2*cores), make(chan *page, 2*cores)
		work, stop := make(chan *page), make(chan struct{})
		for range cap(free) {
			free <- &page{done: make(chan struct{}, 1)}
		}
		var workers sync.WaitGroup
		for range cores {
			workers.Go(func() {
				view := r.auditor.View()
				for p := range work {
					p.fill(view, render)
					p.done <- struct{}{}
				}
			})
		}
		workers.Go(func() {
			defer close(order)
			defer close(work)
			for from := 0; from < r.auditor.Len(); from += pageContracts {
				select {
				case p := <-free:
					p.from, p.to = from, min(from+pageContracts, r.auditor.Len())
					order <- p
					work <- p
				case <-stop:
					return
				}
			}
		})
		defer workers.Wait()
		defer close(stop)
		for p := range order {
			<-p.done
			at := 0
			for i, c := range p.contracts {
				if !yield(c, p.bytes[at:p.ends[i]]) {
					return
				}
				at = p.ends[i]
			}
			free <- p
		}
	}
}

// pageContracts is how many contracts are rendered at a time.
const pageContracts = 256

// page is a run of contracts on their way through Render.
type page struct {
	from, to  int
	contracts []*fold.Contract
	store     []*fold.Holder // reused from page to page
	bytes     []byte
	ends      []int // of each contract's bytes
	done      chan struct{}
}

func (p *page) fill(view *fold.Auditor, render func([]byte, *fold.Contract) []byte) {
	p.contracts, p.bytes, p.ends = p.contracts[:0], p.bytes[:0], p.ends[:0]
	for i := p.from; i < p.to; i++ {
		n := len(p.contracts)
		if n == len(p.store) {
			p.store = append(p.store, new(fold.Holder))
		}
		if c := view.Slot(i, p.store[n]); c != nil {
			p.bytes = render(p.bytes, c)
			p.contracts, p.ends = append(p.contracts, c), append(p.ends, len(p.bytes))
		}
	}
}

// Find returns the ids of at most limit contracts that begin with the given
// lower-case hex digits.
func (r *Result) Find(prefix string, limit int) []protocol.ID { return r.auditor.Find(prefix, limit) }

// Contract returns one contract, nil where it is not in sight.
func (r *Result) Contract(id protocol.ID) *fold.Contract { return r.auditor.Contract(id) }

// Findings returns the findings that belong to no contract, in input order.
func (r *Result) Findings() []fold.Finding { return r.auditor.Findings() }

// The exit codes of an audit.
const (
	ExitClean       = 0 // nothing is wrong with the rows
	ExitWrong       = 1 // something is wrong
	ExitUsage       = 2
	ExitCannotTell  = 3 // a torn line, or the contract asked for is not established
	ExitNotFinished = 4 // the work could not be done
)

// Judgement gathers what decides the exit code of an audit while its contracts
// go by: what parties did to each other never does.
type Judgement struct {
	res          *Result
	failOn       fold.Severity
	contradicted bool
	graveFinding bool
	asked        *fold.Contract
	missing      bool
}

// Judge begins a judgement. failOn is the severity from which an evidence
// finding makes the audit fail; SeverityNone: none does.
func (r *Result) Judge(failOn fold.Severity) *Judgement {
	j := &Judgement{res: r, failOn: failOn}
	for _, f := range r.Findings() {
		j.finding(f)
	}
	return j
}

func (j *Judgement) finding(f fold.Finding) {
	if j.failOn != fold.SeverityNone && f.Code.Kind() == fold.Evidence && f.Severity >= j.failOn {
		j.graveFinding = true
	}
}

// Contract takes one contract into account.
func (j *Judgement) Contract(c *fold.Contract) {
	j.contradicted = j.contradicted || c.Verdict == fold.Contradicted
	for _, f := range c.Findings {
		j.finding(f)
	}
}

// Asked says that the audit was asked for one contract: c, or nil where it is
// not in sight.
func (j *Judgement) Asked(c *fold.Contract) { j.asked, j.missing = c, c == nil }

// Exit returns the exit code of a finished audit.
func (j *Judgement) Exit() int {
	r := j.res
	switch {
	case r.tooLong > 0:
		return ExitNotFinished
	case r.Rows.Malformed > 0 || r.wrongSigs > 0 || j.contradicted || j.graveFinding:
		return ExitWrong
	case r.Rows.Torn > 0 || r.tornInputs > 0:
		return ExitCannotTell
	case j.missing || j.asked != nil && j.asked.Verdict != fold.Established:
		return ExitCannotTell
	}
	return ExitClean
}

// TooLong is how many rows were over the line limit and could not be read.
func (r *Result) TooLong() int64 { return r.tooLong }

func seqPtr(v uint64) *uint64 { return &v }

func plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
