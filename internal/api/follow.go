package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/tclk-audit/tclk-audit/internal/audit"
	"github.com/tclk-audit/tclk-audit/internal/report"
)

// What waits for events is bounded, too.
const (
	maxStreams       = 64        // streams and questions with wait at once
	waitSeconds      = 30        // the longest wait
	heartbeatSeconds = 15        // a stream that has nothing to say says so
	slowSeconds      = 20        // a reader that takes longer for one piece of a stream is cut
	pollSeconds      = 1         // how often is looked where nobody tells of commits
	streamEvents     = 256       // events of one piece of a stream
	streamBytes      = 256 << 10 // after which a piece ends
)

// listen takes a place among those that wait; the place is to be given back.
func (h *handler) listen() (leave func(), err error) {
	select {
	case h.streams <- struct{}{}:
		return func() { <-h.streams }, nil
	default:
		return nil, busy(fmt.Sprintf("%d readers wait for events, and there is no room for another", maxStreams))
	}
}

// changed gives what is closed when there may be more events, and how long to
// wait for it at most.
func (h *handler) changed() (<-chan struct{}, time.Duration) {
	if h.o.Changed == nil {
		return nil, pollSeconds * time.Second
	}
	return h.o.Changed(), waitSeconds * time.Second
}

// await waits until there is an event with the number from or a greater one, and
// no longer than it is told.
func (h *handler) await(out *reply, from uint64, most time.Duration) error {
	leave, err := h.listen()
	if err != nil {
		return err
	}
	defer leave()
	end := time.Now().Add(most)
	for {
		changed, look := h.changed()
		last, err := h.s.LastEvent()
		left := time.Until(end)
		if err != nil || last >= from || left <= 0 {
			return err
		}
		pause := time.NewTimer(min(look, left))
		select {
		case <-changed:
		case <-pause.C:
		case <-h.o.Ending:
			end = time.Now()
		case <-out.ctx.Done():
			return out.ctx.Err()
		}
		pause.Stop()
	}
}

// stream sends events as they come, in the form of Server-Sent Events, until the
// reader goes, is too slow, or the server ends. Nothing is kept for a reader but
// the piece that it is being sent, so one that stays behind costs no memory.
func (h *handler) stream(q *query, out *reply, from uint64) error {
	leave, err := h.listen()
	if err != nil {
		return err
	}
	defer leave()
	head := out.w.Header()
	head.Set("Content-Type", eventStream)
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Cache-Control", "no-store")
	if h.o.Public {
		head.Add("Vary", "Accept")
	} else {
		head.Set("Trailer", ExitHeader+", "+ErrorHeader+", "+WarningHeader)
	}
	out.began, out.exit = true, audit.ExitNotFinished // it has no end of its own
	out.w.WriteHeader(http.StatusOK)
	if q.r.Method == http.MethodHead {
		out.exit = audit.ExitClean
		return nil
	}
	s := sender{out: out, flusher: http.NewResponseController(out.w), from: from}
	if err := s.send([]byte(": events of this store; the id is an event's number\n\n")); err != nil {
		return nil
	}
	ended, err := h.follow(&s)
	switch {
	case ended != "":
		out.exit = audit.ExitClean
		_ = s.end(ended) // the reader has gone: nobody is left to tell
		return nil
	case out.ctx.Err() != nil || errors.Is(err, errGone):
		return nil
	}
	return err
}

// errGone says that a stream's reader does not take what it is sent.
var errGone = errors.New("api: the reader has gone")

// follow sends until it must end, and says why, where the reader is to be told.
func (h *handler) follow(s *sender) (why string, err error) {
	heartbeat := time.NewTicker(heartbeatSeconds * time.Second)
	defer heartbeat.Stop()
	for {
		changed, look := h.changed()
		piece, more, err := h.piece(s)
		if err != nil {
			return "", err
		}
		if len(piece) > 0 {
			began := time.Now()
			if err := s.send(piece); err != nil {
				return "", err
			}
			if time.Since(began) > slowSeconds*time.Second {
				return "the reader is too slow", nil
			}
			heartbeat.Reset(heartbeatSeconds * time.Second)
		}
		if more {
			select {
			case <-h.o.Ending:
				return "the server ends", nil
			default:
				continue
			}
		}
		pause := time.NewTimer(look)
		select {
		case <-changed:
		case <-pause.C:
		case <-heartbeat.C:
			err = s.send([]byte(": still here\n\n"))
		case <-h.o.Ending:
			why = "the server ends"
		case <-s.out.ctx.Done():
			err = context.Cause(s.out.ctx)
		}
		pause.Stop()
		if why != "" || err != nil {
			return why, err
		}
	}
}

// piece renders the next events; more says that there are others behind them.
func (h *handler) piece(s *sender) (b []byte, more bool, err error) {
	last, err := h.s.LastEvent()
	if err != nil || last < s.from {
		return nil, false, err
	}
	r, err := h.s.Reader()
	if err != nil {
		return nil, false, err
	}
	defer r.Close()
	var buf bytes.Buffer
	n := 0
	for e, err := range r.Events(s.from) {
		if err != nil {
			return nil, false, err
		}
		if n++; n > streamEvents || buf.Len() > streamBytes {
			return buf.Bytes(), true, nil
		}
		cause, err := r.Record(e.Cause)
		if err != nil {
			return nil, false, err
		}
		fmt.Fprintf(&buf, "id: %d\nevent: %s\ndata: ", e.Number, e.Kind)
		j := report.NewEncoder(&buf, false)
		eventJSON(j, &e, &cause)
		if err := endJSON(j); err != nil {
			return nil, false, err
		}
		buf.WriteByte('\n')
		s.from = e.Number + 1
	}
	return buf.Bytes(), false, nil
}

// sender writes to the reader of a stream.
type sender struct {
	out     *reply
	flusher *http.ResponseController
	from    uint64 // the number of the next event
}

func (s *sender) send(b []byte) error {
	if _, err := s.out.w.Write(b); err != nil {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	if err := s.flusher.Flush(); err != nil {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	return nil
}

// end is the last message of a stream: why it ends, and where to go on.
func (s *sender) end(why string) error {
	var buf bytes.Buffer
	buf.WriteString("event: end\ndata: ")
	j := report.NewEncoder(&buf, false)
	j.Open('{')
	j.String("reason", why)
	j.Uint("since", s.from-1)
	j.Close('}')
	if err := endJSON(j); err != nil {
		return err
	}
	buf.WriteByte('\n')
	return s.send(buf.Bytes())
}
