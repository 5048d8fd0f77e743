package market

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tclk-audit/tclk-audit/protocol"
)

// Contract is what the agents of one contract have done so far.
type Contract struct {
	ID     protocol.ID
	Room   string
	Status protocol.Status // that its rows establish under the rules of the specification
	Script string          // what the agents mean to do
}

// Contracts lists all contracts in the order of their accepts.
func (m *Market) Contracts() []Contract {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := make([]Contract, len(m.deals))
	for i, d := range m.deals {
		list[i] = Contract{d.ID(), d.RoomName(), d.status, d.script}
	}
	return list
}

// Stats is what the market did and what its venue counted.
type Stats struct {
	Seconds   float64          `json:"seconds"`   // since the market was made
	Trading   bool             `json:"trading"`   // false once Run has ended
	Scripts   map[string]int   `json:"scripts"`   // contracts by what their agents mean to do
	Contracts map[string]int   `json:"contracts"` // by the status that their rows establish
	Rows      map[string]int   `json:"rows"`      // by class of the room
	RowsRead  uint64           `json:"rowsRead"`  // of them, those that were there at the last read of their room
	Unread    int              `json:"unread"`    // rooms that were never read
	Requests  map[string]int64 `json:"requests"`  // to the venue, by kind
	Reads     int64            `json:"reads"`     // that took a token
	Limited   int64            `json:"limited"`   // 429s for an exceeded budget
	LeastLeft float64          `json:"leastLeft"` // tokens of the budget, at the lowest
	Open      int64            `json:"open"`      // connections now
	Opened    int64            `json:"opened"`    // connections ever
	BytesSent int64            `json:"bytesSent"`
}

// Stats returns the counters.
func (m *Market) Stats() Stats {
	m.mu.Lock()
	s := Stats{
		Seconds: time.Since(m.begun).Seconds(), Trading: m.ended.IsZero(),
		Scripts: maps.Clone(m.byScript), Contracts: map[string]int{}, Rows: maps.Clone(m.rows),
	}
	rooms := make([]string, 0, len(m.deals)+1)
	rooms = append(rooms, protocol.BoardRoom)
	for _, d := range m.deals {
		s.Contracts[d.status.String()]++
		rooms = append(rooms, d.RoomName())
	}
	m.mu.Unlock()
	s.RowsRead, s.Unread = m.looks.rows(rooms)
	s.Open, s.Opened = m.looks.connections()
	v := m.v.Stats()
	s.Requests, s.Limited, s.BytesSent = v.Requests, v.Limited, v.BytesSent
	s.LeastLeft = -1
	for _, c := range v.Clients {
		if s.Reads == 0 || c.Lowest < s.LeastLeft {
			s.LeastLeft = c.Lowest
		}
		s.Reads += c.Reads
	}
	return s
}

// Reads is how one room was read. Times are Unix ms.
type Reads struct {
	Room     string  `json:"room"`
	Class    string  `json:"class"`
	Accepted int64   `json:"acceptedMs"` // when its accept was posted; 0 for none
	Locked   int64   `json:"lockedMs"`   // when its lock was
	Reads    int64   `json:"reads"`
	Brought  uint64  `json:"brought"` // rows, up to the last read
	First    int64   `json:"firstMs"` // 0: it was never read
	Last     int64   `json:"lastMs"`
	Longest  int64   `json:"longestMs"` // between two reads
	At       []int64 `json:"atMs"`      // when the reads ended
	// Lags belongs to the board: at each read, how old the oldest row was that no
	// read had brought before, in ms; 0 where there was none.
	Lags []int64 `json:"lagsMs,omitempty"`
}

// Reads says how the rooms were read whose name begins with a prefix: the board,
// and those of contracts.
func (m *Market) Reads(prefix string) []Reads {
	m.mu.Lock()
	list := []Reads{{Room: protocol.BoardRoom, Class: ClassBoard}}
	for _, d := range m.deals {
		r := Reads{Room: d.RoomName(), Class: d.class, Accepted: d.accepted.UnixMilli()}
		if !d.locked.IsZero() {
			r.Locked = d.locked.UnixMilli()
		}
		list = append(list, r)
	}
	m.mu.Unlock()
	list = slices.DeleteFunc(list, func(r Reads) bool { return !strings.HasPrefix(r.Room, prefix) })
	for i := range list {
		m.looks.fill(&list[i])
	}
	return list
}

// boardAge is how old the row of the board with a seq is; 0 where there is none.
func (m *Market) boardAge(seq uint64, now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if seq == 0 || seq > uint64(len(m.board)) {
		return 0
	}
	return now.Sub(m.board[seq-1])
}
