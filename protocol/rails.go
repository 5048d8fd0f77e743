package protocol

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Rail is the id of a settlement rail: what can hold a contract's amount under
// its statement and deadlines (SPEC §5). A Rail from this package is one of the
// registered canonical ids; wire frames carry plain strings, since old frames
// may spell a rail in ways that the registry does not know.
type Rail string

// The registered rails (SPEC §5). Paper and memory hold nothing of value: they
// MUST NOT be offered as settlement outside a test or rehearsal venue.
const (
	RailBTC    Rail = "btc-htlc"
	RailEVM    Rail = "evm-htlc"
	RailFLOP   Rail = "flop-htlc"
	RailMemory Rail = "memory"
	RailNEAR   Rail = "near-htlc"
	RailPaper  Rail = "paper"
	RailX402   Rail = "x402"
)

// The ways in which a rail id or list can be wrong. Test with errors.Is: a
// malformed id, a well-formed one that nobody registered and an empty one are
// different mistakes, and none of them is "no rail in common".
var (
	ErrEmptyRail     = errors.New("protocol: rail id is empty")
	ErrMalformedRail = errors.New("protocol: malformed rail id")
	ErrUnknownRail   = errors.New("protocol: unknown rail id")
	ErrNoRails       = errors.New("protocol: rail list is empty")
)

// Rails lists the registered rails in lexical order.
func Rails() []Rail {
	return []Rail{RailBTC, RailEVM, RailFLOP, RailMemory, RailNEAR, RailPaper, RailX402}
}

// Registered reports whether the rail is spelled as one of the registered
// canonical ids. An alias is not.
func (r Rail) Registered() bool {
	switch r {
	case RailBTC, RailEVM, RailFLOP, RailMemory, RailNEAR, RailPaper, RailX402:
		return true
	}
	return false
}

// MovesValue reports whether a lock on the rail can hold anything of value
// (SPEC §5). It is false for paper and memory under every spelling that
// normalises to them. It is true for a rail that is not registered, because
// nothing is known about it: read true as "unverified", never as "paid".
func (r Rail) MovesValue() bool {
	canonical, fault := normalizeRail(string(r))
	return fault != nil || (canonical != RailPaper && canonical != RailMemory)
}

// NormalizeRail turns a rail id from configuration or a capability note into
// the registered canonical id (SPEC §5): white space around it is trimmed, ASCII
// letters are lowered, the grammar ^[a-z0-9]+(-[a-z0-9]+)*$ is demanded, and the
// aliases paperrail and paper-rail become paper. Nothing else is rewritten. The
// error matches ErrEmptyRail, ErrMalformedRail or ErrUnknownRail.
//
// Never normalise a rail inside a frame that somebody signed: ids are computed
// over the spelling as it stands. Use [SameRail] and [RailOffered] there.
func NormalizeRail(s string) (Rail, error) {
	r, fault := normalizeRail(s)
	switch fault {
	case nil:
		return r, nil
	case ErrEmptyRail:
		return "", fault
	}
	return "", fmt.Errorf("%w: %s", fault, safeText(s))
}

// normalizeRail answers with a bare sentinel, so that comparing rails in a fold
// builds no error text.
func normalizeRail(s string) (Rail, error) {
	s = strings.TrimFunc(s, isScriptSpace)
	if s == "" {
		return "", ErrEmptyRail
	}
	s = lowerASCII(s)
	if !isRailID(s) {
		return "", ErrMalformedRail
	}
	if s == "paperrail" || s == "paper-rail" {
		return RailPaper, nil
	}
	if r := Rail(s); r.Registered() {
		return r, nil
	}
	return "", ErrUnknownRail
}

// isScriptSpace is the set that JavaScript's trim removes, since the reference
// normalises with it: unicode.IsSpace differs at U+0085 and U+FEFF.
func isScriptSpace(c rune) bool {
	switch {
	case '\t' <= c && c <= '\r', c == ' ', c == 0xa0, c == 0x1680,
		0x2000 <= c && c <= 0x200a, c == 0x2028, c == 0x2029, c == 0x202f,
		c == 0x205f, c == 0x3000, c == 0xfeff:
		return true
	}
	return false
}

// lowerASCII lowers A–Z alone: Unicode lowering would turn the Kelvin sign
// into a k.
func lowerASCII(s string) string {
	for i := range len(s) {
		if 'A' <= s[i] && s[i] <= 'Z' {
			b := []byte(s)
			for ; i < len(b); i++ {
				if 'A' <= b[i] && b[i] <= 'Z' {
					b[i] += 'a' - 'A'
				}
			}
			return string(b)
		}
	}
	return s
}

// isRailID is the grammar ^[a-z0-9]+(-[a-z0-9]+)*$.
func isRailID(s string) bool {
	afterDash := true
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
			afterDash = false
		case c == '-' && !afterDash:
			afterDash = true
		default:
			return false
		}
	}
	return !afterDash
}

// NormalizeRails normalises a list of rails into the set that an offer of a new
// sender carries: each id normalised, repeats removed, lexical order
// (SPEC §3.1, §5). The error is ErrNoRails for an empty list, else that of the
// first bad id.
func NormalizeRails(rails []string) ([]Rail, error) {
	if len(rails) == 0 {
		return nil, ErrNoRails
	}
	set := make([]Rail, 0, min(len(rails), len(Rails())))
	for _, s := range rails {
		r, err := NormalizeRail(s)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(set, r) {
			set = append(set, r)
		}
	}
	slices.Sort(set)
	return set, nil
}

// CommonRails returns the rails that both lists name after normalisation, in
// lexical order; it is empty, without an error, where two good lists share
// none. An empty list or a bad id in either is an error as in [NormalizeRails]:
// a typing mistake must not look like a refusal to deal.
func CommonRails(a, b []string) ([]Rail, error) {
	setA, err := NormalizeRails(a)
	if err != nil {
		return nil, err
	}
	setB, err := NormalizeRails(b)
	if err != nil {
		return nil, err
	}
	common := make([]Rail, 0, len(setA))
	for _, r := range setA {
		if slices.Contains(setB, r) {
			common = append(common, r)
		}
	}
	return common, nil
}

// RailsMatch reports whether two parties share at least one rail: a non-empty
// intersection of the normalised sets, whatever the order, equality or
// inclusion of the lists (SPEC §4, §5). Errors are those of [CommonRails].
func RailsMatch(a, b []string) (bool, error) {
	common, err := CommonRails(a, b)
	return len(common) > 0, err
}

// SameRail reports whether two spellings from frames name one rail (SPEC §5):
// equal strings, or two spellings of one registered id. A spelling that does
// not normalise to a registered id equals only itself.
func SameRail(a, b string) bool {
	if a == b {
		return true
	}
	ra, fault := normalizeRail(a)
	if fault != nil {
		return false
	}
	rb, fault := normalizeRail(b)
	return fault == nil && ra == rb
}

// RailOffered reports whether a lock's rail is in the offer's set, by the
// comparison of [SameRail] (SPEC §4).
func RailOffered(offered []string, rail string) bool {
	for _, o := range offered {
		if SameRail(o, rail) {
			return true
		}
	}
	return false
}

// safeText shows a stranger's text in an error: itself where it is short and
// harmless, else only its length and a hash prefix to find it by.
func safeText(s string) string {
	if isPlainWord(s) {
		return `"` + s + `"`
	}
	sum := sha256.Sum256([]byte(s))
	return fmt.Sprintf("%d bytes, sha256 %s…", len(s), hex.EncodeToString(sum[:4]))
}

// isPlainWord is the grammar ^[A-Za-z0-9_.-]{1,32}$.
func isPlainWord(s string) bool {
	if len(s) < 1 || len(s) > 32 {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '.', c == '-':
		default:
			return false
		}
	}
	return true
}
