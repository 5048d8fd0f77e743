package store

import (
	"encoding/binary"
	"encoding/hex"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/protocol"
)

// EventKind says what an event tells. The numbers are stable.
type EventKind uint8

// The kinds of events.
const (
	EventOpened   EventKind = 1  // a contract came into sight, with all that is said of it
	EventStatus   EventKind = 2  // a counted step moved the status
	EventOutlook  EventKind = 3  // the venue's clock, or the status, changed the outlook
	EventBinding  EventKind = 4  // bound or superseded, chosen or not
	EventEvidence EventKind = 5  // how far the rows can be trusted, and what that amounts to
	EventFinding  EventKind = 6  // findings came or went
	EventReceipt  EventKind = 7  // a receipt was accepted
	EventRevised  EventKind = 8  // a step that was told before does not stand any more
	EventDeadline EventKind = 9  // a lock nears its refund deadline without a reveal
	EventCoverage EventKind = 10 // rows of a room were lost, or the room is not what it was; it is about no contract
)

var eventKinds = [...]string{"", "opened", "status", "outlook", "binding", "evidence", "finding", "receipt", "revised", "deadline", "coverage"}

// String returns the kind's word.
func (k EventKind) String() string {
	if int(k) < len(eventKinds) {
		return eventKinds[k]
	}
	return ""
}

// Event is one change of what the store concludes about a contract, or
// something that happened to a room.
type Event struct {
	Number   uint64 // from 1, without gaps
	Kind     EventKind
	Venue    string
	Contract protocol.ID
	Revision uint64 // of the contract: the fold that told it
	Cause    uint64 // position in the log of the row that did it
	Previous uint64 // the contract's event before, 0 for none

	Was, Is Conclusion // Was is zero for EventOpened
	// Added and Removed have a bit for each finding code, of EventFinding and
	// EventOpened.
	Added, Removed uint64

	DeadlineMs int64        // of EventDeadline, Unix ms
	ClockMs    int64        // of EventDeadline: the venue's clock then, by rows and by other means
	Coverage   CoverageCode // of EventCoverage; its cause says more, see Reader.CoverageAt

	raw []byte
}

// Conclusion is the part of a contract that an event's kind is about.
type Conclusion struct {
	Status   protocol.Status
	Outlook  OutlookCode
	Binding  fold.Binding
	Chosen   bool
	Evidence fold.EvidenceAxis
	Verdict  fold.Verdict
}

// ID names the event: the first 16 bytes, in hex, of the sha256 of its number
// and content. The same log gives the same ids.
func (e *Event) ID() string {
	b := append([]byte("tclk-audit.event/1"), binary.BigEndian.AppendUint64(nil, e.Number)...)
	h := hashOf(append(b, e.raw...))
	return hex.EncodeToString(h[:16])
}

// Codes lists the finding codes of a set of bits.
func Codes(bits uint64) []fold.Code {
	var list []fold.Code
	for _, c := range fold.Codes() {
		if bits&(1<<c) != 0 {
			list = append(list, c)
		}
	}
	return list
}

func (c Conclusion) append(dst []byte, k EventKind) []byte {
	if k == EventOpened || k == EventStatus || k == EventRevised {
		dst = append(dst, byte(c.Status))
	}
	if k == EventOpened || k == EventOutlook {
		dst = append(dst, byte(c.Outlook))
	}
	if k == EventOpened || k == EventBinding {
		dst = appendBool(append(dst, byte(c.Binding)), c.Chosen)
	}
	if k == EventOpened || k == EventEvidence {
		dst = append(dst, byte(c.Evidence), byte(c.Verdict))
	}
	return dst
}

func (d *dec) conclusion(k EventKind) (c Conclusion) {
	if k == EventOpened || k == EventStatus || k == EventRevised {
		c.Status = protocol.Status(d.byte())
	}
	if k == EventOpened || k == EventOutlook {
		c.Outlook = OutlookCode(d.byte())
	}
	if k == EventOpened || k == EventBinding {
		c.Binding, c.Chosen = fold.Binding(d.byte()), d.byte() != 0
	}
	if k == EventOpened || k == EventEvidence {
		c.Evidence, c.Verdict = fold.EvidenceAxis(d.byte()), fold.Verdict(d.byte())
	}
	return c
}

func (e *Event) append(dst []byte, venue uint8) []byte {
	dst = append(dst, byte(e.Kind), venue)
	dst = append(dst, e.Contract[:]...)
	dst = binary.AppendUvarint(dst, e.Revision)
	dst = binary.AppendUvarint(dst, e.Cause)
	dst = binary.AppendUvarint(dst, e.Previous)
	if e.Kind != EventOpened {
		dst = e.Was.append(dst, e.Kind)
	}
	dst = e.Is.append(dst, e.Kind)
	if e.Kind == EventOpened || e.Kind == EventFinding {
		dst = binary.AppendUvarint(dst, e.Added)
		dst = binary.AppendUvarint(dst, e.Removed)
	}
	switch e.Kind {
	case EventDeadline:
		dst = binary.AppendVarint(dst, e.DeadlineMs)
		dst = binary.AppendVarint(dst, e.ClockMs)
	case EventCoverage:
		dst = append(dst, byte(e.Coverage))
	}
	return dst
}

func readEvent(b []byte) (e Event, venue uint8, err error) {
	d := dec{b: b}
	e.raw = b
	e.Kind, venue = EventKind(d.byte()), d.byte()
	e.Contract = d.id()
	e.Revision, e.Cause, e.Previous = d.uint(), d.uint(), d.uint()
	if e.Kind != EventOpened {
		e.Was = d.conclusion(e.Kind)
	}
	e.Is = d.conclusion(e.Kind)
	if e.Kind == EventOpened || e.Kind == EventFinding {
		e.Added, e.Removed = d.uint(), d.uint()
	}
	switch e.Kind {
	case EventDeadline:
		e.DeadlineMs, e.ClockMs = d.int(), d.int()
	case EventCoverage:
		e.Coverage = CoverageCode(d.byte())
	}
	return e, venue, d.err
}

// eventChunk gathers events that stand behind one key, that of the first of
// them, each behind its length. A window begins a new one.
type eventChunk struct {
	n int
	b []byte
}

// chunkEvents is how many events a chunk holds at most.
const chunkEvents = 256

// putEvent adds the event whose number was given last.
func (p *projector) putEvent(b []byte) error {
	c := &p.events
	c.n++
	c.b = appendBytes(c.b, b)
	if c.n < chunkEvents {
		return nil
	}
	return p.flushEvents()
}

// flushEvents writes the events gathered so far.
func (p *projector) flushEvents() error {
	c := &p.events
	if c.n == 0 {
		return nil
	}
	first := p.w.s.state.events - uint64(c.n) + 1
	err := p.setLater(eventKey(nil, first), c.b)
	c.n, c.b = 0, c.b[:0]
	return err
}

// eachEvent calls f with the events of a chunk whose first has the number n.
func eachEvent(n uint64, chunk []byte, f func(n uint64, b []byte) (bool, error)) (more bool, err error) {
	d := dec{b: chunk}
	for ; len(d.b) > 0; n++ {
		b := d.bytes()
		if d.err != nil {
			return false, d.err
		}
		if more, err := f(n, b); err != nil || !more {
			return false, err
		}
	}
	return true, d.err
}
