// Package ingest reads exports into a store: the rows that internal/audit's scan
// judges, one source after another, window by window.
//
// The same files give the same log and the same events, however often the work
// was killed and begun again: windows end where they are full and at the end of
// the work, and a source that was cut short goes on behind the last row that
// the store holds.
package ingest

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/tclk-audit/tclk-audit/export"
	"github.com/tclk-audit/tclk-audit/internal/audit"
	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/store"
	"github.com/tclk-audit/tclk-audit/verify"
)

// Options of a run.
type Options struct {
	Venue    string // the venue's alias
	Room     string // the room of every row, whatever files and rows say
	Limits   export.Limits
	Cores    int
	Stdin    io.Reader
	Progress func(done, total int64)
	// Always makes each row durable before the next one is taken.
	Always bool
	// Committed is told after each window what is durable by now.
	Committed func(store.WindowCounts)
}

// Result says what a run added.
type Result struct {
	Sources int                // read, in part or whole
	Known   int                // whose bytes the store had whole
	Resumed int                // that went on where an earlier run had stopped
	Changed int                // that had changed since an earlier run had begun them
	Counts  store.WindowCounts // what is durable
	Skipped []export.Skipped
	// Of the rows that were read:
	TooLong   int64 // over the line limit
	Torn      int64 // torn lines
	Cut       int64 // inputs that end too early
	Malformed int64 // rows that could not be parsed, the too long ones too
	Forged    int64 // signatures that do not hold in a room that was certain
}

// Exit is the exit code that the rows that were read lead to. It is what an
// audit says of them, but for what it says of contracts.
func (r *Result) Exit() int {
	switch {
	case r.TooLong > 0:
		return audit.ExitNotFinished
	case r.Malformed > 0 || r.Forged > 0:
		return audit.ExitWrong
	case r.Torn > 0 || r.Cut > 0:
		return audit.ExitCannotTell
	}
	return audit.ExitClean
}

// Run reads what the paths name into the store.
func Run(ctx context.Context, s *store.Store, paths []string, o Options) (*Result, error) {
	w, err := s.NewWriter()
	if err != nil {
		return nil, err
	}
	r := &run{s: s, w: w, o: o, res: &Result{}, cursors: map[uint32]store.Cursor{}, sources: map[uint32]store.Source{}}
	r.res.Skipped, err = audit.Scan(ctx, paths, audit.ScanOptions{
		Rules: s.Rules(), Room: o.Room, Limits: o.Limits, Cores: o.Cores, Stdin: o.Stdin, Progress: o.Progress, Resume: r.resume,
	}, r)
	if err == nil {
		err = r.tick()
	}
	return r.res, errors.Join(err, w.Close())
}

type run struct {
	s       *store.Store
	w       *store.Writer
	o       Options
	res     *Result
	cursors map[uint32]store.Cursor // by the index of the input
	sources map[uint32]store.Source
	row     store.Row
	room    string // of the input that is being read
	rooms   int
}

// source describes an input. What a file is, does not change when it is read
// twice: its time is when it was written.
func (r *run) source(in *audit.ScanInput) store.Source {
	src := store.Source{Venue: r.o.Venue, Path: in.Path, Room: r.o.Room, Size: in.Size}
	if in.RoomFrom == export.RoomFromFile || in.RoomFrom == export.RoomFromFolder {
		src.NameRoom = in.Room
	}
	if st, err := os.Stat(in.Path); err == nil {
		src.TimeMs = st.ModTime().UnixMilli()
		if abs, err := filepath.Abs(in.Path); err == nil {
			src.Path = abs
		}
	}
	return src
}

// resume decides what of an input is to be read. All inputs are asked for
// before any is read, so sources are made known in the order of the reading.
func (r *run) resume(in *audit.ScanInput) (audit.Skip, error) {
	src := r.source(in)
	r.sources[in.Index] = src
	if in.Size >= 0 {
		known, err := r.isKnown(in, src)
		if err != nil || known {
			r.res.Known++
			return audit.Skip{All: true}, err
		}
	}
	cur, found, err := r.w.Find(src)
	if err != nil || !found || cur.Rows == 0 || in.Size < 0 {
		return audit.Skip{}, err
	}
	var state audit.State
	if err := json.Unmarshal(cur.State, &state); err != nil {
		return audit.Skip{}, fmt.Errorf("ingest: the cursor of %s: %w", in.Path, err)
	}
	r.cursors[in.Index] = cur
	return audit.Skip{Rows: cur.Rows, State: state, Check: func(last []byte) error { return r.check(in, cur, last) }}, nil
}

// errChanged says that a file is not the one that was begun.
var errChanged = errors.New("it has changed since an earlier run began to read it")

func (r *run) check(in *audit.ScanInput, cur store.Cursor, last []byte) error {
	h := sha256.Sum256(last)
	if last == nil || [8]byte(h[:8]) != cur.Last {
		return &ChangedError{Path: in.Path}
	}
	r.res.Resumed++
	return nil
}

// ChangedError says that a file is not the one that an earlier run began to read:
// it has the same size and time, but other rows.
type ChangedError struct{ Path string }

// Error names the file.
func (e *ChangedError) Error() string { return fmt.Sprintf("ingest: %s: %v", e.Path, errChanged) }

// isKnown reports whether the store has read a file with the same bytes whole.
func (r *run) isKnown(in *audit.ScanInput, src store.Source) (bool, error) {
	sized, err := r.s.HasSize(src.Venue, src.Size)
	if err != nil || !sized {
		return false, err
	}
	f, err := os.Open(in.Path)
	if err != nil {
		return false, err
	}
	h := sha256.New()
	_, err = io.Copy(h, f)
	if err = errors.Join(err, f.Close()); err != nil {
		return false, fmt.Errorf("ingest: reading %s: %w", in.Path, err)
	}
	n, err := r.s.Known(src, [32]byte(h.Sum(nil)))
	return n != 0, err
}

// Begin is told of an input before its rows.
func (r *run) Begin(in *audit.ScanInput) error {
	r.room, r.rooms = "", 0
	if _, ok := r.cursors[in.Index]; ok {
		return nil
	}
	cur, err := r.w.Begin(r.sources[in.Index])
	if err != nil {
		return err
	}
	r.cursors[in.Index] = cur
	if protocol.IsDealRoom(in.Room) && in.RoomFrom != export.RoomFromFound {
		// An empty room file is a room in sight.
		return r.w.Room(cur.Number, in.Room, 0, 0)
	}
	return nil
}

// Rows takes in rows of an input.
func (r *run) Rows(in *audit.ScanInput, rows []audit.Judged) error {
	cur := r.cursors[in.Index]
	for i := range rows {
		j := &rows[i]
		row := &r.row
		row.Row, row.Raw, row.RawSize, row.Index, row.Line, row.Offset = j.Row, j.Raw, j.RawSize, j.Index, j.Line, j.Offset
		row.RoomFrom, row.Malformed, row.Detail, row.Torn, row.TooLong = j.RoomFrom, j.Malformed, j.Detail, j.Torn, j.TooLong
		r.judge(j)
		if room := j.Row.Record.Room; room != "" && room != r.room {
			r.room = room
			r.rooms++
		}
		if err := r.w.Add(cur.Number, row); err != nil {
			return err
		}
		if r.o.Always || r.w.Full() {
			state, err := json.Marshal(j.After)
			if err != nil {
				return err
			}
			if err := errors.Join(r.w.State(cur.Number, state), r.tick()); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *run) tick() error {
	if err := r.w.Tick(); err != nil {
		return err
	}
	r.res.Counts = r.w.Counts()
	if r.o.Committed != nil {
		r.o.Committed(r.res.Counts)
	}
	return nil
}

// judge counts what is wrong with a row as an audit does.
func (r *run) judge(j *audit.Judged) {
	switch {
	case j.Torn:
		r.res.Torn++
	case j.Malformed != protocol.ReasonNone:
		r.res.Malformed++
	case j.Row.Verify.Class == verify.Invalid && j.RoomFrom != export.RoomFromName && j.RoomFrom != export.RoomUnknown:
		r.res.Forged++
	}
	if j.TooLong {
		r.res.TooLong++
	}
}

// Page is told of a page of an input.
func (r *run) Page(in *audit.ScanInput, page export.Page) error {
	room := page.Room
	if r.o.Room != "" {
		room = r.o.Room
	}
	if room == "" {
		room = in.Room
	}
	if !protocol.ValidRoom(room) {
		return nil
	}
	return r.w.Room(r.cursors[in.Index].Number, room, page.Generation, page.LastSeq)
}

// End is told that an input was read to its end.
func (r *run) End(in *audit.ScanInput, sum export.Summary) error {
	room := in.Room
	if r.rooms == 1 {
		room = r.room
	} else if r.rooms > 1 {
		room = ""
	}
	if sum.Cut != export.CutNone {
		r.res.Cut++
	}
	r.res.Sources++
	return r.w.End(r.cursors[in.Index].Number, sum.Rows, sum.SHA256, sum.Cut, room)
}
