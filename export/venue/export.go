package venue

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Export is what was learned of a room's file beside its lines.
type Export struct {
	Room          string
	Generation    uint64 // X-Room-Generation
	HasGeneration bool
	FirstSeq      uint64 // of the first line that has one, 0 for none: what is below is gone
	LastSeq       uint64 // of the last line that has one, 0 for none
	Lines         int    // that were given out
	Unreadable    int    // of them, those that are no JSON object with an integer seq
	Reply
}

// Export reads the file of a room, which is all that the venue still has of it,
// and gives each complete line to f in order, without its line end. seq is read
// from it; ok is false, and seq 0, where the line is no JSON object with an
// integer seq, such as a fragment that a crash left. Blank lines are left out.
// A line is f's only until it returns.
//
// Nothing is given to f before all has come: where the body was cut, does not
// end in a line end, or does not reach the seq atLeast, the error is a
// *CutError. Give as atLeast the last seq of a page that was just read, because
// a file that was cut between two lines cannot be told otherwise. An error of f
// ends the export and is returned as it is.
//
// A client holds at most two exports at once; further calls wait. So f must not
// call Export.
func (c *Client) Export(ctx context.Context, room string, atLeast uint64, f func(line []byte, seq uint64, ok bool) error) (*Export, error) {
	if err := checkName("room", room); err != nil {
		return nil, err
	}
	a := ask{path: "/r/" + room + "/export", kind: kindLines, within: exportTime, max: c.opts.MaxExport, export: true}
	select {
	case c.exports <- struct{}{}:
		defer func() { <-c.exports }()
	case <-ctx.Done():
		return nil, fmt.Errorf("venue: GET %s: while it waited for other exports: %w", a.path, ctx.Err())
	}
	body, r, h, err := c.get(ctx, a)
	if err != nil {
		return nil, err
	}
	if n := len(body); n > 0 && body[n-1] != '\n' {
		return nil, &CutError{Asked: a.path, Bytes: int64(n)}
	}
	e := &Export{Room: room, Reply: r}
	if v := h.Get("X-Room-Generation"); v != "" {
		e.Generation, err = strconv.ParseUint(v, 10, 64)
		e.HasGeneration = err == nil
	}
	if e.LastSeq = lastSeq(body); e.LastSeq < atLeast {
		return nil, &CutError{Asked: a.path, Bytes: int64(len(body)), LastSeq: e.LastSeq, AtLeast: atLeast}
	}
	for rest := body; len(rest) > 0; {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte{'\n'})
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		seq, ok := lineSeq(line)
		e.Lines++
		switch {
		case !ok:
			e.Unreadable++
		case e.Lines-e.Unreadable == 1:
			e.FirstSeq = seq
		}
		if err := f(line, seq, ok); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// lastSeq is the seq of the last line that has one.
func lastSeq(body []byte) uint64 {
	for len(body) > 0 {
		body = body[:len(body)-1] // its line end
		from := bytes.LastIndexByte(body, '\n') + 1
		if seq, ok := lineSeq(body[from:]); ok {
			return seq
		}
		body = body[:from]
	}
	return 0
}

func lineSeq(line []byte) (uint64, bool) {
	if !utf8.Valid(line) {
		return 0, false
	}
	return rowSeq(line)
}
