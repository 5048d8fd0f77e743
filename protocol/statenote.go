package protocol

import (
	"errors"
	"strings"
)

// StateNoteValue is what a contract's state note says: a status and, once
// locked, the rail's reference (SPEC §2). The note is world-writable and moved
// by compare-and-set; it saves polling and proves nothing. Where it differs
// from the fold of the signed frames, the frames are right.
type StateNoteValue struct {
	Status  Status // proposed … cancelled, never none
	RailRef string // 1–256 printable ASCII characters without a space, or ""
}

// maxRailRef bounds the rail reference of a state note, in bytes.
const maxRailRef = 256

// ParseStateNote reads the value of a state note: a status word, or a status
// word, one space and a rail reference. Anything else is false.
func ParseStateNote(value string) (StateNoteValue, bool) {
	word, ref, hasRef := strings.Cut(value, " ")
	if hasRef && !isRailRef(ref) {
		return StateNoteValue{}, false
	}
	status := ParseStatus(word)
	if status == StatusNone {
		return StateNoteValue{}, false
	}
	return StateNoteValue{Status: status, RailRef: ref}, true
}

// FormatStateNote writes the value of a state note, the inverse of
// [ParseStateNote]. The error says which half cannot be written.
func FormatStateNote(v StateNoteValue) (string, error) {
	if v.Status < Proposed || v.Status > Cancelled {
		return "", errors.New("protocol: format a state note: the status is none of the six")
	}
	if v.RailRef == "" {
		return v.Status.String(), nil
	}
	if !isRailRef(v.RailRef) {
		return "", errors.New("protocol: format a state note: the rail reference must be 1–256 printable ASCII characters without a space")
	}
	return v.Status.String() + " " + v.RailRef, nil
}

func isRailRef(s string) bool {
	if len(s) < 1 || len(s) > maxRailRef {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
