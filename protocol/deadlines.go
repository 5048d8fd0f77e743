package protocol

// DeadlineProblem is one reason not to commit to an offer's deadlines. The zero
// value is none.
type DeadlineProblem uint8

// The problems that ValidateDeadlines looks for, in the order in which it
// returns them.
const (
	// DeadlineOutOfRange: a deadline is not in 1 … 2^53−1. No frame can carry
	// it, so nothing else is judged.
	DeadlineOutOfRange DeadlineProblem = 1
	// ClaimByNotBeforeRefund: claimByMs ≥ refundAfterMs. No frame can carry it.
	ClaimByNotBeforeRefund DeadlineProblem = 2
	// ClaimWindowTooShort: refundAfterMs − claimByMs is less than the window
	// asked for, so a slow reveal may meet the refund.
	ClaimWindowTooShort DeadlineProblem = 3
	// ExpiryTooClose: expiresMs is not later than now by more than the margin,
	// so an accept may be refused.
	ExpiryTooClose DeadlineProblem = 4
	// ClaimByTooClose: claimByMs is not later than now by more than the margin,
	// so a reveal may be late.
	ClaimByTooClose DeadlineProblem = 5
	// ExpiryAfterClaimBy: expiresMs > claimByMs, so the offer can be accepted
	// when it is too late to claim in time, or even to lock.
	ExpiryAfterClaimBy DeadlineProblem = 6
)

var deadlineProblemText = [...]string{"", "deadline-out-of-range", "claim-by-not-before-refund",
	"claim-window-too-short", "expiry-too-close", "claim-by-too-close", "expiry-after-claim-by"}

// String returns the kebab-case code of the problem, or "" for none.
func (p DeadlineProblem) String() string {
	if int(p) < len(deadlineProblemText) {
		return deadlineProblemText[p]
	}
	return ""
}

// DeadlineTolerance is how much risk a party takes on an offer's deadlines. The
// zero value takes all that the protocol allows.
type DeadlineTolerance struct {
	// MarginMs is how far, in ms, the party's own clock, the venue's clock and
	// the rail's may lie apart, with the time to act. Negative counts as 0.
	MarginMs int64
	// ClaimWindowMs is the least refundAfterMs − claimByMs, in ms, that the
	// party wants between the last safe reveal and the first refund.
	ClaimWindowMs int64
}

// ValidateDeadlines judges an offer's deadlines at nowMs, the party's own clock
// in Unix ms, before the party commits to it (SPEC §3.1, §7). It returns every
// problem found, nil when there is none. Only the first two kinds make an offer
// impossible on the wire; the others are the party's own risk, and each party
// sets its own tolerance.
func ValidateDeadlines(o *Offer, nowMs int64, t DeadlineTolerance) []DeadlineProblem {
	for _, ms := range [...]int64{o.ClaimByMs, o.RefundAfterMs, o.ExpiresMs} {
		if ms < 1 || ms > maxExact {
			return []DeadlineProblem{DeadlineOutOfRange}
		}
	}
	// Inside these bounds no difference below can overflow.
	nowMs = min(max(nowMs, 0), maxExact)
	margin := max(t.MarginMs, 0)

	var problems []DeadlineProblem
	if window := o.RefundAfterMs - o.ClaimByMs; window <= 0 {
		problems = append(problems, ClaimByNotBeforeRefund)
	} else if window < t.ClaimWindowMs {
		problems = append(problems, ClaimWindowTooShort)
	}
	if o.ExpiresMs-nowMs <= margin {
		problems = append(problems, ExpiryTooClose)
	}
	if o.ClaimByMs-nowMs <= margin {
		problems = append(problems, ClaimByTooClose)
	}
	if o.ExpiresMs > o.ClaimByMs {
		problems = append(problems, ExpiryAfterClaimBy)
	}
	return problems
}
