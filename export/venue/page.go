package venue

import (
	"context"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"
)

// maxLimit is the greatest number of rows that the venue gives in one page.
const maxLimit = 200

// Query says what of a room is asked for. A venue gives the newest rows above
// Since, not the next ones: whoever is further behind than Limit rows misses
// those in the middle.
type Query struct {
	Since int64         // rows above this seq; -1: not given, the newest rows
	Limit int           // rows, at most 200; 0: not given, the venue's 50
	Wait  time.Duration // how long the venue may wait for a row, at most Limits.MaxWait; of no effect without Since
	Bust  bool          // add a changing n=, so that no cache can answer
}

// Page is a view of a room.
type Page struct {
	Room          string
	Generation    uint64 // which life of the room this is; 0 with no rows: there was none so far
	HasGeneration bool   // false before 0.11
	FirstSeq      uint64 // of Rows, 0 where there are none
	LastSeq       uint64 // of Rows; where there are none, what the venue says, which up to 0.14.3 is the query's own since
	Rows          []Row  // seq ascends
	WaitHeld      *bool  // where a wait brought nothing: whether the venue did wait; nil where it does not say
	Reply
}

// Row is one row of a page.
type Row struct {
	Seq uint64
	Raw []byte // as one line without line end, the same bytes as in an export
}

// Room reads a page of a room. A room that does not exist is a page without
// rows.
func (c *Client) Room(ctx context.Context, room string, q Query) (*Page, error) {
	if err := checkName("room", room); err != nil {
		return nil, err
	}
	wait := min(max(0, q.Wait), c.Limits().MaxWait).Truncate(time.Millisecond)
	a := ask{path: c.roomPath(room, q, wait), kind: kindJSON, within: pageTime, max: maxPage}
	if wait > 0 {
		a.within = wait + waitExtra
	}
	body, r, _, err := c.get(ctx, a)
	if err != nil {
		return nil, err
	}
	p, kind, what := parsePage(body, room)
	if kind != 0 {
		return nil, &BodyError{a.path, kind, what}
	}
	p.Reply = r
	return p, nil
}

func (c *Client) roomPath(room string, q Query, wait time.Duration) string {
	p := "/r/" + room + "?format=json"
	if q.Since >= 0 {
		p += "&since=" + strconv.FormatInt(q.Since, 10)
	}
	if q.Limit > 0 {
		p += "&limit=" + strconv.Itoa(min(q.Limit, maxLimit))
	}
	if wait > 0 {
		p += "&wait=" + strconv.FormatFloat(wait.Seconds(), 'f', -1, 64)
	}
	if q.Bust {
		p += "&n=" + strconv.FormatUint(c.bust.Add(1), 10)
	}
	return p
}

// parsePage reads the JSON view of a room. kind is 0 where it is sound, else
// what says why not.
//
// Members that are not known here may have any value. Of the known ones none
// may stand twice, and generation and wait_held may be missing or null.
func parsePage(text []byte, room string) (p *Page, kind BodyKind, what string) {
	if !utf8.Valid(text) {
		return nil, BodyNotJSON, "the page is not UTF-8"
	}
	const (
		hasRoom = 1 << iota
		hasCount
		hasFirst
		hasLast
		hasMessages
		hasGeneration
		hasHeld
	)
	p = &Page{}
	var seen, twice int
	var count, first uint64
	var nullFirst bool
	bad := func(s string) bool {
		if what == "" {
			what = s
		}
		return true // the rest must be JSON all the same
	}
	number := func(name string, value []byte, to *uint64) bool {
		v, ok := whole(value)
		if !ok {
			return bad("the page's " + name + " is no integer")
		}
		*to = v
		return true
	}
	note := func(bit int) {
		twice |= seen & bit
		seen |= bit
	}
	json := walk(text, func(name string, value []byte) bool {
		switch name {
		case "room":
			note(hasRoom)
			if v, ok := unquote(value); !ok || v != room {
				return bad("the page is not of the room that was asked for")
			}
			p.Room = room
		case "count":
			note(hasCount)
			return number(name, value, &count)
		case "first_seq":
			note(hasFirst)
			if nullFirst = isNull(value); !nullFirst {
				return number(name, value, &first)
			}
		case "last_seq":
			note(hasLast)
			return number(name, value, &p.LastSeq)
		case "generation":
			note(hasGeneration)
			if !isNull(value) {
				p.HasGeneration = true
				return number(name, value, &p.Generation)
			}
		case "wait_held":
			note(hasHeld)
			switch string(value) {
			case "true", "false":
				held := string(value) == "true"
				p.WaitHeld = &held
			case "null":
			default:
				return bad("the page's wait_held is no boolean")
			}
		case "messages":
			note(hasMessages)
			if twice&hasMessages != 0 {
				return true
			}
			s := scanner{b: value}
			row := true
			if !s.array(0, func(value []byte) bool {
				row = p.add(value)
				return row
			}) {
				if row {
					return bad("the page's messages are no array")
				}
				return bad(fmt.Sprintf("message %d of the page is no object with an integer seq above that of the one before", len(p.Rows)+1))
			}
		}
		return true
	})
	const needed = hasRoom | hasCount | hasFirst | hasLast | hasMessages
	switch {
	case !json:
		return nil, BodyNotJSON, "the page is not JSON"
	case what != "":
	case twice != 0:
		what = "a member of the page stands twice"
	case seen&needed != needed:
		what = "the page lacks room, count, first_seq, last_seq or messages"
	case count != uint64(len(p.Rows)):
		what = fmt.Sprintf("the page counts %d messages and has %d", count, len(p.Rows))
	case len(p.Rows) == 0 && !nullFirst:
		what = "the page has a first_seq and no messages"
	case len(p.Rows) > 0:
		p.FirstSeq = p.Rows[0].Seq
		if nullFirst || first != p.FirstSeq || p.LastSeq != p.Rows[len(p.Rows)-1].Seq {
			what = "the page's first_seq and last_seq are not those of its messages"
		}
	}
	if what != "" {
		return nil, BodyShape, what
	}
	return p, 0, ""
}

// add takes a row.
func (p *Page) add(text []byte) bool {
	seq, ok := rowSeq(text)
	if n := len(p.Rows); !ok || n > 0 && seq <= p.Rows[n-1].Seq {
		return false
	}
	p.Rows = append(p.Rows, Row{Seq: seq, Raw: compact(make([]byte, 0, len(text)), text)})
	return true
}
