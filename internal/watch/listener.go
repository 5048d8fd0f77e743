package watch

import (
	"time"

	"github.com/tclk-audit/tclk-audit/internal/audit"
	"github.com/tclk-audit/tclk-audit/store"
)

// Class says what kind of a room it is.
type Class string

// The classes of rooms.
const (
	ClassBoard Class = "board"
	ClassDeal  Class = "deal"
	ClassOther Class = "other" // named by the user
)

// Classes lists them.
func Classes() []Class { return []Class{ClassBoard, ClassDeal, ClassOther} }

// Listener is told what the watcher does, on its goroutine: it must be quick.
// Nil functions are not called.
type Listener struct {
	// Request is told of each answer of a venue: ask is page, export, notes or
	// limits, and code how it ended, see Code.
	Request func(venue, ask, code string, took time.Duration)
	// Row is told of each row that was stored. It is good until it returns.
	Row func(venue string, class Class, row *audit.Judged)
	// Coverage is told of what happened to a room beside its rows.
	Coverage func(venue string, class Class, c store.Coverage)
	// Notice is told what an operator may want to know, in words of ours. about
	// is a room or the venue's alias.
	Notice func(venue, about string, serious bool, text string)
	// Store is passed on to the store's writer.
	Store store.Listener
}

func (l *Listener) notice(venue, about string, serious bool, text string) {
	if l.Notice != nil {
		l.Notice(venue, about, serious, text)
	}
}
