package protocol

// The values of Job.Proto that SPEC §6 defines. Any other word is allowed.
const (
	JobA2A = "a2a" // Job.ID is the A2A task id, Job.Context its context id
	JobACP = "acp" // Job.ID is the Virtuals ACP job id
)

// A2A returns the A2A task state that a client watching the task sees for the
// status (SPEC §6), or "" for none. It restates the fold; it proves no work.
func (s Status) A2A() string {
	switch s {
	case Proposed, Accepted:
		return "submitted"
	case Locked:
		return "working"
	case Claimed:
		return "completed"
	case Refunded:
		return "failed"
	case Cancelled:
		return "canceled"
	}
	return ""
}

// ACP returns the Virtuals ACP phase for the status (SPEC §6), or "" for none.
// Evaluation has no status of its own: the reveal belongs into it. A phase is
// never proof of execution.
func (s Status) ACP() string {
	switch s {
	case Proposed:
		return "request"
	case Accepted:
		return "negotiation"
	case Locked:
		return "transaction"
	case Claimed:
		return "completed"
	case Refunded, Cancelled:
		return "rejected"
	}
	return ""
}
