package fold

import "github.com/tclk-audit/tclk-audit/protocol"

// EvidenceAxis says how far the rows behind a contract can be trusted.
type EvidenceAxis uint8

// The evidence axis, from best to worst.
const (
	EvidenceNone EvidenceAxis = 0
	Complete     EvidenceAxis = 1
	Incomplete   EvidenceAxis = 2
	Conflicting  EvidenceAxis = 3
)

// String returns "complete", "incomplete" or "conflicting".
func (e EvidenceAxis) String() string {
	return [...]string{"", "complete", "incomplete", "conflicting"}[e&3]
}

// Settlement says what is known about money. Without a rail observer a lock is
// Unverified, or NoValue on the rails that move nothing (SPEC §5).
type Settlement uint8

// The settlement values that need no rail observer.
const (
	SettlementNone Settlement = 0 // no lock counted
	NoValue        Settlement = 1 // paper, memory
	Unverified     Settlement = 2
)

// String returns "none", "no-value" or "unverified".
func (s Settlement) String() string {
	switch s {
	case NoValue:
		return "no-value"
	case Unverified:
		return "unverified"
	}
	return "none"
}

// Verdict is what the transcript proves about a contract.
type Verdict uint8

// The verdicts: terminal on complete evidence; not terminal, complete so far;
// cannot tell; the rows contradict each other.
const (
	VerdictNone   Verdict = 0
	Established   Verdict = 1
	Open          Verdict = 2
	Indeterminate Verdict = 3
	Contradicted  Verdict = 4
)

// String returns "established", "open", "indeterminate" or "contradicted".
func (v Verdict) String() string {
	switch v {
	case Established:
		return "established"
	case Open:
		return "open"
	case Indeterminate:
		return "indeterminate"
	case Contradicted:
		return "contradicted"
	}
	return ""
}

// Binding tells whether a contract's accept was the first valid one of its
// offer. None: the accept did not count (late, offer cancelled or not in sight).
type Binding uint8

// The bindings.
const (
	BindingNone Binding = 0
	Bound       Binding = 1
	Superseded  Binding = 2
)

// String returns "bound", "superseded" or "".
func (b Binding) String() string {
	switch b {
	case Bound:
		return "bound"
	case Superseded:
		return "superseded"
	}
	return ""
}

// Contract is everything the audit says about one contract: one offer and one
// accept from which the contract id derives, or an accept whose offer is not
// in sight (Status none).
type Contract struct {
	ID    protocol.ID
	Offer protocol.ID
	Room  string // the derived deal room

	Status     protocol.Status // none where the offer is not in sight
	Evidence   EvidenceAxis
	Settlement Settlement
	Verdict    Verdict
	AsOf       *AsOf             // how far the rows in sight reach
	Possible   []protocol.Status // where Indeterminate: what a missing row could lead to
	LeansOn    []string          // unsigned facts used: "ts", "seq", "row-order", "missing-rows"
	Binding    Binding
	BoundTo    protocol.ID // where Superseded: the bound contract
	Chosen     bool        // the only contract of its offer with a counted lock; false where Binding is none
	Shadow     protocol.Status
	Outlook    Outlook

	Payer, Payee  string // did:key; "" where the offer is not in sight
	Lock          protocol.LockKind
	Amount, Asset string
	ClaimByMs     int64 // the offer's deadlines, Unix ms; 0 where it is not in sight
	RefundAfterMs int64
	ExpiresMs     int64
	Rail, RailRef string // as the counted lock wrote them; "" without one
	Statement     protocol.Statement
	PayerKey      protocol.Point         // zero where the payer named none
	PreSignature  *protocol.PreSignature // of the counted lock
	Presig        string                 // "present" or "absent" on the counted lock; "" without one
	Late          bool                   // claimed after claimByMs

	Steps        []Step
	StepsOmitted int // rows of non-parties left out beyond StepLimit
	ShadowSteps  []Step
	Receipts     []Receipt // those that count
	Findings     []Finding
}

// Holder is memory for one contract at a time, for who builds many. The zero
// value is ready.
type Holder struct {
	contract Contract
	asOf     AsOf     // what AsOf points at
	ints     []int64  // what the steps' margins point at
	seqs     []uint64 // what the findings' seqs point at
	judging  judging
}

// reset empties the contract and keeps its memory.
func (h *Holder) reset() *Contract {
	c := &h.contract
	*c = Contract{
		Possible: c.Possible[:0], LeansOn: c.LeansOn[:0], Steps: c.Steps[:0], ShadowSteps: c.ShadowSteps[:0],
		Receipts: c.Receipts[:0], Findings: c.Findings[:0],
	}
	h.ints, h.seqs = h.ints[:0], h.seqs[:0]
	return c
}

func (h *Holder) int(v int64) *int64 {
	h.ints = append(h.ints, v)
	return &h.ints[len(h.ints)-1]
}

func (h *Holder) seq(v uint64) *uint64 {
	h.seqs = append(h.seqs, v)
	return &h.seqs[len(h.seqs)-1]
}

func (h *Holder) setAsOf(seq uint64, ts int64) {
	h.asOf = AsOf{seq, ts}
	h.contract.AsOf = &h.asOf
}

// AsOf is the last row in sight that bears on a contract.
type AsOf struct {
	Seq  uint64
	TsMs int64
}

// Outlook is what the venue's clock alone says about a contract.
type Outlook struct {
	Code        string // awaiting-accept, offer-expired, open, lapsed, funded, refundable, settled, cancelled, no-clock
	MsRemaining int64  // until the outlook changes by itself; 0 where it does not
	AtMs        *int64 // the clock, nil for no-clock
}

// Step is one row of a contract's history and what the fold made of it.
type Step struct {
	Room       string
	Generation uint64
	Seq        uint64
	TsMs       int64
	Type       protocol.FrameType // none where the line did not decode
	From       string             // the record's sender; a nickname only if it is a valid one, else ""
	OK         bool
	Ignored    bool // no frame and no defect; OK is true
	Reason     protocol.Reason
	Detail     string
	CascadeOf  *protocol.RecordID // the refused step that this refusal follows from
	MarginMs   *int64             // where a deadline guard judged: ms to the deadline
	Record     protocol.RecordID

	Secret  *protocol.Secret // of a reveal; shown only when asked for
	Text    string           // the stored line, kept only when asked for
	HasText bool
	Rail    string // of a lock or receipt
	Ref     string // of a lock, reveal, refund or receipt
	Outcome protocol.Status
}

// Receipt is a receipt frame that counts (SPEC §3.5).
type Receipt struct {
	Room    string
	Seq     uint64
	TsMs    int64
	From    string
	Outcome protocol.Status
	Rail    string
	Ref     string
	Record  protocol.RecordID
}
