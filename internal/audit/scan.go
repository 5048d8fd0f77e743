package audit

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/tclk-audit/tclk-audit/export"
	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/verify"
)

// scanAllowance is how many checks for repairs and hints each input of a scan
// has, beside the shares of its rows (shareOfFailed, shareOfVerified).
const scanAllowance = 1_024

// wholeSearch is about what the search for a rounded nonce takes. One that
// cannot be afforded is not begun: pieces of searches find little and cost more.
const wholeSearch = 256

// percent is how finely a State counts checks: the shares are hundredths.
const percent = 100

// ScanOptions say how a Scan reads and judges. The zero value scans under the
// spec's rules on all cores.
type ScanOptions struct {
	Rules  fold.Rules
	Room   string // the room of every row, whatever files and rows say
	Limits export.Limits
	Cores  int // workers; 0: GOMAXPROCS
	Stdin  io.Reader
	// Progress is told how many stored bytes are done, of how many (-1:
	// unknown), now and then, always from the goroutine of the sink.
	Progress func(done, total int64)
	// Rooms are those in which a failed signature is tried after the ones that
	// the row itself speaks for. Nil: those that the inputs' names say.
	Rooms []string
	// Resume, if set, is asked once for each input what of it is known
	// already. All are asked in order, before the first is read.
	Resume func(in *ScanInput) (Skip, error)
}

// Skip is what a caller knows of an input already. The zero value is nothing.
type Skip struct {
	All   bool  // the whole input: it is not opened, and the sink hears nothing of it
	Rows  int64 // that many rows: they are read, but not judged
	State State // After of the last of them
	// Check, if set, is called where the skipped rows end, with the bytes of
	// the last one as Judged.Raw had them, or with nil where the input has
	// fewer rows. It comes after Begin and before all else, on the sink's
	// goroutine. Its error ends the scan.
	Check func(last []byte) error
}

// State is all that the judgement of an input's next row depends on, beside the
// input itself. The zero value is that of the first row. Callers only keep it.
type State struct {
	Room    string // found by trying signatures
	Balance int64  // hundredths of a check: what the rows gave to the budget, less what was spent
	Search  Search
}

// left is how many checks may be spent.
func (s *State) left() int { return int((scanAllowance*percent + s.Balance) / percent) }

// ScanInput is one input of a Scan.
type ScanInput struct {
	Path  string
	Size  int64  // stored bytes, -1 where it is not known
	Index uint32 // in the order of the scan, skipped inputs counted too
	// Room is that of rows and pages that do not say theirs, "" where it cannot
	// be told. From Begin on it may be one found by trying signatures.
	Room     string
	RoomFrom export.RoomFrom

	begun bool
	state State
}

// Judged is one row of an input, judged. It is valid until the sink returns.
type Judged struct {
	// Row is the row as the fold wants it, but for Conflict. Of a malformed row
	// it holds the room only, if that can be told; it is whole where Hidden.
	Row          fold.Row
	Raw          []byte // its bytes without the line end; of an over-long row the first ones
	RawSize      int64  // all its bytes
	Line, Offset int64  // where it begins in the text
	Index        int64  // its number in the input from 0, malformed rows counted too
	RoomFrom     export.RoomFrom
	Malformed    protocol.Reason // why it cannot be used
	Detail       string
	Torn         bool
	TooLong      bool
	After        State // for a scan that goes on behind this row
}

// Sink takes what a Scan finds, input after input: Begin, then rows and pages
// as they stand in the input, then End. All calls come from the goroutine that
// called Scan. An error ends the scan.
type Sink interface {
	Begin(in *ScanInput) error
	// Rows takes some rows, which come next. rows is used again afterwards.
	Rows(in *ScanInput, rows []Judged) error
	// Page takes a page where it begins. Pages in front of the last skipped row
	// are passed over.
	Page(in *ScanInput, page export.Page) error
	// End says what the input was. It is missing where an error cut it short.
	End(in *ScanInput, sum export.Summary) error
}

// Scan judges the rows of the inputs that the paths name, without folding them.
// Inputs that may hold rows of the board come first, then the deal rooms, both
// in the order of the paths.
//
// What is said of a row depends on the options, the rooms in sight and the rows
// of its input up to it alone, but for the search for the room of an input that
// nothing names, which looks at the first few rows: not on what other inputs
// hold, on cores, or on where a scan was resumed.
//
// Bad rows are judged rows; an error means that the work could not be done, and
// comes after the rows before it.
func Scan(ctx context.Context, paths []string, o ScanOptions, sink Sink) (skipped []export.Skipped, err error) {
	if o.Cores <= 0 {
		o.Cores = runtime.GOMAXPROCS(0)
	}
	inputs, skipped, err := export.Open(paths, export.Options{Room: o.Room, Limits: o.Limits, Stdin: o.Stdin, ChunkBytes: chunkBytes})
	if err != nil {
		return nil, err
	}
	s := &scan{sink: sink, rows: make([]Judged, 0, scanRows)}
	s.opts, s.lazy = Options{Rules: o.Rules, Room: o.Room, Cores: o.Cores, Progress: o.Progress}, true
	if s.rooms = o.Rooms; s.rooms == nil {
		s.roomsInSight(inputs)
	}
	s.keys = verify.NewKeys(new(sync.Mutex))
	s.fixer = newWorker(o.Rules, s.rooms, s.keys)
	all, err := s.order(inputs, o.Resume)
	if err != nil {
		return skipped, err
	}
	return skipped, s.do(ctx, all)
}

// scanRows is the most rows that a sink is given at once.
const scanRows = 512

// scan is one Scan in progress: a run that ends in a sink instead of a fold.
type scan struct {
	run
	sink Sink
	rows []Judged // not yet given to the sink
}

// order puts the inputs in reading order and makes the one stream of all.
func (s *scan) order(inputs []*export.Input, resume func(*ScanInput) (Skip, error)) (*stream, error) {
	var board, deals, read []*export.Input
	for _, in := range inputs {
		if room, _ := in.Room("", ""); protocol.IsDealRoom(room) {
			deals = append(deals, in)
		} else {
			board = append(board, in)
		}
	}
	finder := newWorker(s.opts.Rules, s.rooms, s.keys)
	all := &stream{look: func(in *input, rows []export.RawRow) {
		if _, from := in.Input.Room("", ""); from == export.RoomUnknown && in.foundRoom == "" {
			finder.peekRoom(in, rows)
		}
	}}
	for i, ex := range append(board, deals...) {
		in := &input{Input: ex, index: uint32(i)}
		in.scan = &ScanInput{Path: in.Path, Size: in.Size, Index: in.index}
		in.scan.Room, in.scan.RoomFrom = in.room("", "")
		if resume != nil {
			var err error
			if in.resume, err = resume(in.scan); err != nil {
				return nil, err
			}
			if in.resume.All {
				continue
			}
		}
		in.scan.state, in.foundRoom = in.resume.State, in.resume.State.Room
		all.inputs, read = append(all.inputs, in), append(read, ex)
	}
	s.total = totalSize(read)
	return all, nil
}

func (s *scan) do(ctx context.Context, all *stream) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	work := make(chan *job)
	s.workers(ctx, g, work)
	s.start(all, 1)
	// What ends the reading must not end the work on what was read.
	var unread error
	g.Go(func() error {
		defer close(work)
		unread = s.read(ctx, all, work)
		return nil
	})
	if err := s.drain(ctx, all); err != nil {
		cancel()
		g.Wait()
		return err
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if unread != nil {
		return firstCause(unread)
	}
	return nil
}

// drain gives the sink all that comes out of the pipeline.
func (s *scan) drain(ctx context.Context, all *stream) error {
	for {
		var j *job
		select {
		case next, ok := <-all.jobs:
			if !ok {
				return nil
			}
			j = next
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case <-j.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		s.progress(j)
		items := j.items
		for k := range j.parts[:j.used] {
			p := &j.parts[k]
			if err := s.part(p, items); err != nil {
				return err
			}
			items = items[p.items():]
		}
		all.free <- j
	}
}

// items is how many items of its job belong to the part.
func (p *part) items() int {
	if p.ends {
		return 1
	}
	return len(p.chunk.Rows) - p.skip
}

// part gives the sink one chunk of an input, or its end.
func (s *scan) part(p *part, items []item) error {
	in, known := p.input.scan, p.input.resume.Rows
	if !in.begun {
		in.begun, in.state.Room = true, p.input.foundRoom
		in.Room, in.RoomFrom = p.input.room("", "")
		if err := s.sink.Begin(in); err != nil {
			return err
		}
	}
	in.state.Search = p.search
	pages := p.chunk.Pages
	for i := range p.chunk.Rows {
		raw, index := &p.chunk.Rows[i], p.first+int64(i)
		for ; len(pages) > 0 && pages[0].Offset <= raw.Offset; pages = pages[1:] {
			if err := s.page(in, &pages[0], index >= known); err != nil {
				return err
			}
		}
		if i >= p.skip {
			if err := s.judged(in, raw, index, &items[i-p.skip]); err != nil {
				return err
			}
		} else if index == known-1 {
			if err := p.input.check(append([]byte{}, raw.Bytes...)); err != nil {
				return err
			}
		}
	}
	behind := p.first + int64(len(p.chunk.Rows))
	for i := range pages {
		if err := s.page(in, &pages[i], behind >= known); err != nil {
			return err
		}
	}
	if err := s.flush(in); err != nil || !p.ends {
		return err
	}
	if behind < known {
		if err := p.input.check(nil); err != nil {
			return err
		}
	}
	return s.sink.End(in, p.sum)
}

// check has the caller look at the last skipped row.
func (in *input) check(last []byte) error {
	if in.resume.Check == nil {
		return nil
	}
	if err := in.resume.Check(last); err != nil {
		return fmt.Errorf("%s: %w", in.Path, err)
	}
	return nil
}

// page gives the sink a page behind the rows before it.
func (s *scan) page(in *ScanInput, page *export.Page, wanted bool) error {
	if !wanted {
		return nil
	}
	if err := s.flush(in); err != nil {
		return err
	}
	return s.sink.Page(in, *page)
}

func (s *scan) flush(in *ScanInput) error {
	if len(s.rows) == 0 {
		return nil
	}
	rows := s.rows
	s.rows = s.rows[:0]
	return s.sink.Rows(in, rows)
}

// judged completes the judgement of a row and lines it up for the sink.
func (s *scan) judged(in *ScanInput, raw *export.RawRow, index int64, it *item) error {
	if it.malformed == protocol.ReasonNone || it.hidden {
		in.state.Search = it.search
		s.fixer.settle(&in.state, &it.row)
	}
	it.row.Source = in.Index
	s.rows = append(s.rows, Judged{
		Row: it.row, Raw: raw.Bytes, RawSize: raw.Size, Line: raw.Line, Offset: raw.Offset, Index: index,
		RoomFrom: it.roomFrom, Malformed: it.malformed, Detail: it.detail, Torn: it.torn, TooLong: it.tooLong, After: in.state,
	})
	if len(s.rows) < cap(s.rows) {
		return nil
	}
	return s.flush(in)
}
