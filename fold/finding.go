package fold

import "github.com/tclk-audit/tclk-audit/protocol"

// Code names what the auditor found. The list is closed: a code never changes
// its meaning or number, and new codes are only appended.
type Code uint8

// The finding codes, in the order of the reference table.
const (
	CodeNone             Code = 0
	NoncanonicalLine     Code = 1
	SignatureNotStrict   Code = 2
	NonceRepaired        Code = 3
	RoomFound            Code = 4
	RoomDoubtful         Code = 5
	SignedForOtherRoom   Code = 6
	HintsNotTried        Code = 7
	Replay               Code = 8
	ConflictingMetadata  Code = 9
	ImpossibleRow        Code = 10
	Gap                  Code = 11
	OrderViolation       Code = 12
	TimeViolation        Code = 13
	NonceOrder           Code = 14
	TimeUncorroborated   Code = 15
	StartsAfterFirst     Code = 16
	DealRoomNotInSight   Code = 17
	NoAnchor             Code = 18
	OfferNotInSight      Code = 19
	TornLine             Code = 20
	WrongRoom            Code = 21
	LateReveal           Code = 22
	SupersededAccept     Code = 23
	LockOnSuperseded     Code = 24
	PayerMinted          Code = 25
	CancelNamesNoOffer   Code = 26
	Equivocation         Code = 27
	SecretExposed        Code = 28
	LapsedAtBirth        Code = 29
	RulesDiverge         Code = 30
	NoValueRail          Code = 31
	SharedKeyOrStatement Code = 32
	codeEnd                   = 33
)

// Kind tells what a finding is about: Evidence findings say how far the rows
// can be trusted; Conduct findings say what parties or strangers did and never
// change evidence or the exit code.
type Kind uint8

// The two kinds.
const (
	KindNone Kind = 0
	Evidence Kind = 1
	Conduct  Kind = 2
)

// String returns "evidence" or "conduct".
func (k Kind) String() string {
	switch k {
	case Evidence:
		return "evidence"
	case Conduct:
		return "conduct"
	}
	return ""
}

// Severity grades a finding. The zero value is none; a greater value is graver.
type Severity uint8

// The severities: a fact worth knowing, somebody should look, something is wrong.
const (
	SeverityNone Severity = 0
	Info         Severity = 1
	Notice       Severity = 2
	Anomaly      Severity = 3
)

// String returns "info", "notice" or "anomaly".
func (s Severity) String() string {
	switch s {
	case Info:
		return "info"
	case Notice:
		return "notice"
	case Anomaly:
		return "anomaly"
	}
	return ""
}

type codeInfo struct {
	text string
	kind Kind
	base Severity
}

// codeTable gives each code's text, kind and the severity it has where the
// reference table names only one; a Finding may carry a graver or milder one.
var codeTable = [codeEnd]codeInfo{
	NoncanonicalLine:     {"noncanonical-line", Conduct, Info},
	SignatureNotStrict:   {"signature-not-strict", Evidence, Anomaly},
	NonceRepaired:        {"nonce-repaired", Evidence, Notice},
	RoomFound:            {"room-found", Evidence, Info},
	RoomDoubtful:         {"room-doubtful", Evidence, Notice},
	SignedForOtherRoom:   {"signed-for-other-room", Evidence, Notice},
	HintsNotTried:        {"hints-not-tried", Evidence, Info},
	Replay:               {"replay", Conduct, Info},
	ConflictingMetadata:  {"conflicting-metadata", Evidence, Anomaly},
	ImpossibleRow:        {"impossible-row", Evidence, Anomaly},
	Gap:                  {"gap", Evidence, Info},
	OrderViolation:       {"order-violation", Evidence, Notice},
	TimeViolation:        {"time-violation", Evidence, Notice},
	NonceOrder:           {"nonce-order", Evidence, Info},
	TimeUncorroborated:   {"time-uncorroborated", Evidence, Notice},
	StartsAfterFirst:     {"starts-after-first", Evidence, Notice},
	DealRoomNotInSight:   {"deal-room-not-in-sight", Evidence, Info},
	NoAnchor:             {"no-anchor", Evidence, Notice},
	OfferNotInSight:      {"offer-not-in-sight", Evidence, Info},
	TornLine:             {"torn-line", Evidence, Notice},
	WrongRoom:            {"wrong-room", Conduct, Info},
	LateReveal:           {"late-reveal", Conduct, Notice},
	SupersededAccept:     {"superseded", Conduct, Info},
	LockOnSuperseded:     {"lock-on-superseded", Conduct, Notice},
	PayerMinted:          {"payer-minted", Conduct, Notice},
	CancelNamesNoOffer:   {"cancel-names-no-offer", Conduct, Notice},
	Equivocation:         {"equivocation", Conduct, Anomaly},
	SecretExposed:        {"secret-exposed", Conduct, Anomaly},
	LapsedAtBirth:        {"lapsed-at-birth", Conduct, Notice},
	RulesDiverge:         {"rules-diverge", Evidence, Notice},
	NoValueRail:          {"no-value-rail", Conduct, Info},
	SharedKeyOrStatement: {"shared-key-or-statement", Conduct, Info},
}

// String returns the kebab-case code.
func (c Code) String() string {
	if int(c) < len(codeTable) {
		return codeTable[c].text
	}
	return "unknown-finding"
}

// Kind tells whether the code is about evidence or conduct.
func (c Code) Kind() Kind {
	if int(c) < len(codeTable) {
		return codeTable[c].kind
	}
	return KindNone
}

// Severity is how grave a finding of the code is unless the case makes it graver
// or milder, which the finding itself says.
func (c Code) Severity() Severity {
	if int(c) < len(codeTable) {
		return codeTable[c].base
	}
	return SeverityNone
}

// Gravest is how grave a finding of the code can be: some are graver in a deal
// room than on the board, or where a party's own row is concerned.
func (c Code) Gravest() Severity {
	switch c {
	case Gap:
		return Notice
	case OrderViolation, NonceOrder, LockOnSuperseded, SecretExposed:
		return Anomaly
	}
	return c.Severity()
}

// Codes lists every finding code, in table order.
func Codes() []Code {
	all := make([]Code, 0, codeEnd-1)
	for c := Code(1); c < codeEnd; c++ {
		all = append(all, c)
	}
	return all
}

// Finding is one thing the auditor found. Contract, Offer, Room and Seq are
// zero, "" and nil where the finding is not about one.
type Finding struct {
	Code     Code
	Severity Severity
	Contract protocol.ID
	Offer    protocol.ID
	Room     string
	Seq      *uint64
	Detail   string // a sentence with the particulars, safe to show
	Order    uint64 // where in the input it belongs; findings are listed by it
}
