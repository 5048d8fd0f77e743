package fold

import "github.com/tclk-audit/tclk-audit/protocol"

// The outlook codes.
const (
	AwaitingAccept = "awaiting-accept" // proposed, an accept would still count
	OfferHasLapsed = "offer-expired"   // proposed, too late to accept
	OpenToLock     = "open"            // accepted, a lock would still count
	Lapsed         = "lapsed"          // too late to lock
	Funded         = "funded"          // locked, a reveal would still claim
	Refundable     = "refundable"      // locked, the refund window is open
	Settled        = "settled"         // claimed or refunded
	CancelledEnd   = "cancelled"
	NoClock        = "no-clock" // no row time to judge by
)

// OutlookAt says what the venue's clock alone makes of a status: nowMs is the
// greatest row time seen on the venue, nil where there is none. MsRemaining is
// the time until the outlook changes without any frame.
func OutlookAt(status protocol.Status, expiresMs, refundAfterMs int64, nowMs *int64) Outlook {
	if nowMs == nil || *nowMs < 0 {
		return Outlook{Code: NoClock}
	}
	now := *nowMs
	at := nowMs
	until := func(deadline int64, before, after string) Outlook {
		if now < deadline {
			return Outlook{Code: before, MsRemaining: deadline - now, AtMs: at}
		}
		return Outlook{Code: after, AtMs: at}
	}
	switch status {
	case protocol.Proposed:
		// An offer whose refund window opens before it expires could still be
		// accepted, but never locked: it has lapsed.
		if now < expiresMs && now >= refundAfterMs {
			return Outlook{Code: Lapsed, AtMs: at}
		}
		if now < expiresMs {
			return until(min(expiresMs, refundAfterMs), AwaitingAccept, Lapsed)
		}
		return Outlook{Code: OfferHasLapsed, AtMs: at}
	case protocol.Accepted:
		return until(refundAfterMs, OpenToLock, Lapsed)
	case protocol.Locked:
		return until(refundAfterMs, Funded, Refundable)
	case protocol.Claimed, protocol.Refunded:
		return Outlook{Code: Settled, AtMs: at}
	case protocol.Cancelled:
		return Outlook{Code: CancelledEnd, AtMs: at}
	}
	return Outlook{Code: NoClock}
}
