package gen

import (
	"slices"

	"github.com/tclk-audit/tclk-audit/protocol"
)

// outcome is what the plan intends an auditor to find about one contract.
type outcome struct {
	id, offer protocol.ID
	story     string
	room      *room

	status  protocol.Status // StatusNone: the offer is not in sight
	binding string          // bound, superseded or ""
	boundTo protocol.ID
	chosen  bool
	late    bool
	shadow  protocol.Status
	codes   []string // findings that must be among those of the contract

	dealRooms bool // the corpus has deal rooms
	openFile  bool // … and this one has a file even if it is empty

	// What the board had lost when offer and accept were posted.
	holesAtOffer, doubtsAtOffer uint64
	boardHole, boardDoubt       bool
	offererCounted              bool // the offerer signed a frame that counts

	terminal   bool // the plan ends in a terminal status
	ended      bool // the terminal step has its place
	holesAtEnd uint64

	conflict bool // the evidence is meant to contradict itself
	weak     bool // the evidence is meant to be incomplete
	unsure   bool // the evidence cannot be told from the plan
}

func (c *outcome) expect(code string) {
	if !slices.Contains(c.codes, code) {
		c.codes = append(c.codes, code)
	}
}

// unbound says that the accept did not count: what the contract came to is
// its status, and nothing follows from its terms.
func (c *outcome) unbound(status protocol.Status, codes ...string) {
	c.status, c.binding, c.codes = status, "", codes
}

// inRooms says what holds only where the deal rooms are in sight.
func (c *outcome) inRooms(say func(*outcome)) {
	if c.dealRooms {
		say(c)
	}
}

// evidence is the intended evidence, "" where the plan does not determine it.
// cut says that the end of the file with the deal rooms' rows is missing.
func (c *outcome) evidence(cut bool) string {
	holes := c.room.holes
	if c.ended {
		holes = c.holesAtEnd
	}
	switch {
	case c.conflict:
		return "conflicting"
	case c.unsure:
		return ""
	case c.status == protocol.StatusNone:
		return ""
	case !c.inSight():
		if c.status != protocol.Accepted {
			return "" // nothing in a deal room could change it
		}
		return "incomplete"
	case holes > 0 || c.weak:
		return "incomplete"
	case cut && (c.status == protocol.Accepted || c.status == protocol.Locked):
		return "incomplete" // what ends it may have been cut off
	case cut && c.binding == "":
		return ""
	case c.offererCounted, c.status == protocol.Cancelled && c.binding == "": // no cancel of the offer can be hidden
	case c.boardHole:
		return "incomplete"
	case c.boardDoubt:
		return ""
	}
	if !c.ended && c.room.unread > 0 {
		return "" // an unreadable last row: nothing shows its seq
	}
	return "complete"
}

// inSight says whether an auditor can know the deal room.
func (c *outcome) inSight() bool {
	return c.dealRooms && (c.openFile || c.room.seq > 0)
}

// verdict follows from status and evidence.
func (c *outcome) verdict(evidence string) string {
	switch evidence {
	case "conflicting":
		return "contradicted"
	case "incomplete":
		return "indeterminate"
	case "complete":
		if c.status.Terminal() {
			return "established"
		}
		return "open"
	}
	return ""
}

func statusWord(s protocol.Status) string {
	if s == protocol.StatusNone {
		return "offer-not-in-sight"
	}
	return s.String()
}
