package protocol

import (
	"fmt"
	"strings"
)

// capabilityPrefix opens the token that an agent puts into its venue DID note.
const capabilityPrefix = "tclk1:"

// maxNoteBytes bounds a note that is looked at: the venue keeps at most 8192
// code points, which are at most four bytes each.
const maxNoteBytes = 4 * 8192

// ParseCapability finds the capability token tclk1:<rail>,<rail> in a venue DID
// note and returns the rails that it advertises, normalised (SPEC §2, §5). The
// first white-space-delimited token with the prefix decides; it is false where
// there is none, where that token has an empty, malformed or unregistered id,
// and for notes over 32768 bytes.
//
// The note is world-writable: a capability is a hint whether a message is worth
// sending, never evidence of anything.
func ParseCapability(note string) ([]Rail, bool) {
	if len(note) > maxNoteBytes {
		return nil, false
	}
	for token := range strings.FieldsFuncSeq(note, isScriptSpace) {
		list, found := strings.CutPrefix(token, capabilityPrefix)
		if !found {
			continue
		}
		rails, err := NormalizeRails(strings.Split(list, ","))
		return rails, err == nil
	}
	return nil, false
}

// FormatCapability writes the capability token for a list of rails, normalised,
// without repeats and in lexical order (SPEC §2, §5). Errors are those of
// [NormalizeRails].
func FormatCapability(rails []string) (string, error) {
	set, err := NormalizeRails(rails)
	if err != nil {
		return "", fmt.Errorf("protocol: format a capability token: %w", err)
	}
	words := make([]string, len(set))
	for i, r := range set {
		words[i] = string(r)
	}
	return capabilityPrefix + strings.Join(words, ","), nil
}
