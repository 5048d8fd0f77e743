package store

import (
	"errors"
	"fmt"
	"strings"
)

// ErrLocked says that another process has the store open.
var ErrLocked = errors.New("store: another process has it open")

// ErrNoStore says that there is no store in the folder.
var ErrNoStore = errors.New("store: there is none in this folder")

// What a user can do, in the words of the command line.
const (
	doRestore    = "restore the folder from a backup; the rows of files can also be ingested again into a new one"
	doRebuild    = "run 'tclk-audit rebuild'"
	doAcceptLoss = "restore the folder from a backup, or go on without what is lost with --accept-loss"
)

// DamagedError says that a file of the store is damaged. Nothing that was read
// from it is used.
type DamagedError struct {
	File string // the file, or the folder where the file is not known
	Err  error
	Do   string // what to do next
}

// Error names the file and the damage.
func (e *DamagedError) Error() string { return fmt.Sprintf("store: %s is damaged: %v", e.File, e.Err) }

// Unwrap returns the cause.
func (e *DamagedError) Unwrap() error { return e.Err }

// BehindError says that the database holds less than was acknowledged: its
// write-log has lost its end. Reading still works; writing is refused until the
// loss is accepted (Options.AcceptLoss).
type BehindError struct {
	Dir              string
	Log, Acked       uint64 // entries of the log: held, and acknowledged
	Events, AckedEvs uint64 // events: held, and acknowledged
}

// Error says how much is missing.
func (e *BehindError) Error() string {
	return fmt.Sprintf("store: %s holds %d entries and %d events, but %d and %d were acknowledged: %d entries and %d events are lost",
		e.Dir, e.Log, e.Events, e.Acked, e.AckedEvs, e.Acked-e.Log, e.AckedEvs-min(e.AckedEvs, e.Events))
}

// Do says what to do next.
func (e *BehindError) Do() string { return doAcceptLoss }

// VersionError says that the store was written by a newer program.
type VersionError struct {
	Dir         string
	Have, Known uint64
}

// Error names both versions.
func (e *VersionError) Error() string {
	return fmt.Sprintf("store: %s has format %d, and this program knows formats up to %d: use a newer program", e.Dir, e.Have, e.Known)
}

// StaleError says that the conclusions in the store were reached under other
// rules, or by another fold, than this program would use.
type StaleError struct {
	Dir        string
	Have, Want string
}

// Error names both.
func (e *StaleError) Error() string {
	return fmt.Sprintf("store: the conclusions in %s were reached under %s, not %s", e.Dir, e.Have, e.Want)
}

// Do says what to do next.
func (e *StaleError) Do() string {
	have, _, _ := strings.Cut(e.Have, ",")
	if want, _, _ := strings.Cut(e.Want, ","); have != want {
		return "leave the rules out to go on under the store's own; 'tclk-audit rebuild' can change its switches"
	}
	return doRebuild
}
