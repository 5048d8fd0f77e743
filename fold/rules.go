package fold

import (
	"fmt"
	"strings"

	"github.com/tclk-audit/tclk-audit/protocol"
)

// Rules say under which reading of the protocol a verdict is reached. The zero
// value is the spec without switches.
type Rules struct {
	Reference    bool // do as the reference implementation does, point by point
	OfferRoom    bool // where a deal room holds no row of a party, the board's frames decide
	FirstAccept  bool // an accept after the first valid one is refused
	RepairNonces bool // a row that verifies with a repaired nonce counts
}

// The switches that may stand on top of either base, in printing order.
const (
	SwitchOfferRoom    = "offer-room"
	SwitchFirstAccept  = "first-accept"
	SwitchRepairNonces = "repair-nonces"
)

// ParseRules reads a base ("spec" or "reference") and switches; an unknown
// word is an error that lists the known ones.
func ParseRules(base string, switches []string) (Rules, error) {
	var r Rules
	switch base {
	case "spec", "":
	case "reference":
		r.Reference = true
	default:
		return r, fmt.Errorf("unknown rules %q: use spec or reference", base)
	}
	for _, s := range switches {
		switch s {
		case SwitchOfferRoom:
			r.OfferRoom = true
		case SwitchFirstAccept:
			r.FirstAccept = true
		case SwitchRepairNonces:
			r.RepairNonces = true
		default:
			return r, fmt.Errorf("unknown rule %q: use %s, %s or %s", s, SwitchOfferRoom, SwitchFirstAccept, SwitchRepairNonces)
		}
	}
	return r, nil
}

// String names the rules in force, e.g. "spec" or "reference+repair-nonces".
func (r Rules) String() string {
	var b strings.Builder
	b.WriteString("spec")
	if r.Reference {
		b.Reset()
		b.WriteString("reference")
	}
	for _, s := range []struct {
		on   bool
		name string
	}{{r.OfferRoom, SwitchOfferRoom}, {r.FirstAccept, SwitchFirstAccept}, {r.RepairNonces, SwitchRepairNonces}} {
		if s.on {
			b.WriteByte('+')
			b.WriteString(s.name)
		}
	}
	return b.String()
}

// Decode gives the decoding rules that belong to these rules.
func (r Rules) Decode() protocol.DecodeRules {
	if r.Reference {
		return protocol.ReferenceRules()
	}
	return protocol.DecodeRules{}
}
