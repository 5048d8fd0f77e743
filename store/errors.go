package store

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
)

// ErrLocked says that another process has the store open.
var ErrLocked = errors.New("store: another process has it open")

// ErrNoStore says that there is no store in the folder.
var ErrNoStore = errors.New("store: there is none in this folder")

// What a user can do, in the words of the command line.
const (
	doRestore = "restore the folder from a backup; the rows of files can also be ingested again into a new one"
	doRebuild = "run 'tclk-audit rebuild'"
	doFree    = "free some space and run the command again; what was acknowledged is kept"
	doUpdate  = "use a newer program"
)

// DoAcceptLoss is what a user can do about a store that has lost the end of what
// it acknowledged.
const DoAcceptLoss = "restore the folder from a backup, or go on without what is lost with --accept-loss"

func noStore(dir string) error {
	return fmt.Errorf("%w: %s", ErrNoStore, dir)
}

// cannot says what was tried, on what, and what to do where that is known.
func cannot(doing, path string, err error) error {
	do := ""
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return &FullError{Dir: path, Err: err}
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EROFS):
		do = ": see that this user may write there, or name another folder with --data"
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EEXIST):
		do = ": a store is a folder: name another with --data"
	}
	return fmt.Errorf("store: %s %s: %w%s", doing, path, err, do)
}

// DamagedError says that a file of the store is damaged. Nothing that was read
// from it is used.
type DamagedError struct {
	File string // the file, or the folder where the file is not known
	Err  error
	Do   string // what to do next
}

// Error names the file and the damage.
func (e *DamagedError) Error() string {
	what, _, _ := strings.Cut(e.Err.Error(), "\n") // Pebble goes on with more of the same
	return fmt.Sprintf("store: %s is damaged: %s", e.File, what)
}

// Unwrap returns the cause.
func (e *DamagedError) Unwrap() error { return e.Err }

// FullError says that the disk is full.
type FullError struct {
	Dir string
	Err error
}

// Error says what to do next, too.
func (e *FullError) Error() string {
	return fmt.Sprintf("store: the disk of %s is full (%v): %s", e.Dir, e.Err, doFree)
}

// Unwrap returns the cause.
func (e *FullError) Unwrap() error { return e.Err }

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
		e.Dir, e.Log, e.Events, e.Acked, e.AckedEvs, e.Acked-min(e.Acked, e.Log), e.AckedEvs-min(e.AckedEvs, e.Events))
}

// Do says what to do next.
func (e *BehindError) Do() string { return DoAcceptLoss }

// VersionError says that the store was written by a newer program.
type VersionError struct {
	Dir         string
	Have, Known uint64
	Err         error // of the database, where its own format is the newer one
}

// Error names both versions.
func (e *VersionError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("store: %s was written by a newer program (%v): %s", e.Dir, e.Err, doUpdate)
	}
	return fmt.Sprintf("store: %s has format %d, and this program knows formats up to %d: %s", e.Dir, e.Have, e.Known, doUpdate)
}

// Unwrap returns the cause.
func (e *VersionError) Unwrap() error { return e.Err }

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
