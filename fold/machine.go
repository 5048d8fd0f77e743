package fold

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/tclk-audit/tclk-audit/protocol"
)

// State is one contract in the state machine of SPEC §4. The zero value is a
// contract of which nothing has been seen.
type State struct {
	Status    protocol.Status
	Offer     *protocol.Offer
	Contract  protocol.ID // set by the accept
	Statement protocol.Statement
	Payer     string // did:key; set by the accept, with the offerer's side from the offer
	Payee     string
	PayerKey  protocol.Point
	PayeeKey  protocol.Point
	Rail      string // as the counted lock spells it
	RailRef   string
	Presig    *protocol.PreSignature
	Late      bool // claimed after claimByMs
}

// Event is one frame at the time its row carries, in Unix ms.
type Event struct {
	Frame protocol.Frame
	AtMs  int64

	offerJSON []byte // an accept's offer in canonical JSON, where it is at hand
}

// Outcome says what the machine made of an event. A refused event leaves the
// state as it was.
type Outcome struct {
	OK       bool
	Reason   protocol.Reason
	Detail   string
	Guarded  bool  // a deadline guard judged the event
	MarginMs int64 // where Guarded: how far the time was from the other answer; ≤ 0 where the guard refused
}

var okOutcome = Outcome{OK: true}

func refuse(r protocol.Reason, detail string) Outcome { return Outcome{Reason: r, Detail: detail} }

func guarded(o Outcome, marginMs int64) Outcome {
	o.Guarded, o.MarginMs = true, marginMs
	return o
}

// Apply advances a contract by one frame (SPEC §4). It judges the frame only:
// that the record was authentic, signed by the frame's sender and stood in the
// right room is the caller's to check first. It never fails on bad input: a
// frame that does not fit is refused with a reason and the state unchanged.
func (r Rules) Apply(s State, e Event) (State, Outcome) {
	out := r.step(&s, e)
	return s, out
}

// step is Apply in place: s is only changed when the outcome is OK.
func (r Rules) step(s *State, e Event) Outcome {
	switch f := e.Frame.(type) {
	case *protocol.Offer:
		if s.Status != protocol.StatusNone {
			return refuse(protocol.AlreadyOpen, "the offer is open already")
		}
		s.Status, s.Offer = protocol.Proposed, f
		return okOutcome
	case *protocol.Accept:
		return s.accept(f, e.AtMs, e.offerJSON)
	case *protocol.Lock:
		return s.lock(f, e.AtMs)
	case *protocol.Reveal:
		return s.reveal(f, e.AtMs)
	case *protocol.Refund:
		return s.refund(f, e.AtMs)
	case *protocol.Cancel:
		return s.cancel(f)
	case *protocol.Receipt:
		return s.receipt(f, r.Reference)
	case *protocol.Heartbeat:
		return s.heartbeat(f)
	}
	return refuse(protocol.UnknownType, "no frame")
}

func (s *State) wrongStatus(t protocol.FrameType) Outcome {
	if s.Status == protocol.StatusNone {
		return refuse(protocol.NoContract, "no contract is open yet")
	}
	return refuse(protocol.WrongStatus, t.String()+" in status "+s.Status.String())
}

func otherContract(t protocol.FrameType) Outcome {
	return refuse(protocol.OtherContract, t.String()+" names a different contract")
}

func (s *State) isParty(did string) bool { return did == s.Payer || did == s.Payee }

// accept checks the expiry last, so that OfferExpired means that all else was
// right: such an accept still names its contract, it only came too late.
func (s *State) accept(f *protocol.Accept, at int64, offerJSON []byte) Outcome {
	if s.Status != protocol.Proposed {
		return s.wrongStatus(protocol.TypeAccept)
	}
	o := s.Offer
	switch {
	case f.Ref != o.ID:
		return refuse(protocol.OtherOffer, "accept.ref names a different offer")
	case f.From == o.From:
		return refuse(protocol.OwnOffer, "the offerer cannot accept its own offer")
	case f.Contract != contractID(o, f, offerJSON):
		return refuse(protocol.ContractIDMismatch, "the contract id does not derive from offer and accept")
	case o.Lock == protocol.LockPoint && f.PaymentKey.IsZero():
		return refuse(protocol.AcceptorKeyMissing, "a point lock needs the acceptor's paymentKey")
	case f.Statement.Kind() != o.Lock:
		return refuse(protocol.StatementKind, "the statement does not fit a "+o.Lock.String()+" lock")
	}
	margin := o.ExpiresMs - at
	if margin <= 0 {
		return guarded(refuse(protocol.OfferExpired, "the offer has expired"), margin)
	}
	s.bind(f.From, f.PaymentKey, f.Statement, f.Contract)
	s.Status = protocol.Accepted
	return guarded(okOutcome, margin)
}

func contractID(o *protocol.Offer, f *protocol.Accept, offerJSON []byte) protocol.ID {
	if offerJSON != nil {
		return protocol.ContractIDOf(offerJSON, f)
	}
	return protocol.ContractID(o, f)
}

// bind fills in the terms that an accept adds to the offer's.
func (s *State) bind(from string, key protocol.Point, statement protocol.Statement, contract protocol.ID) {
	o := s.Offer
	s.Contract, s.Statement = contract, statement
	if o.Role == protocol.RolePayer {
		s.Payer, s.PayerKey, s.Payee, s.PayeeKey = o.From, o.PaymentKey, from, key
	} else {
		s.Payer, s.PayerKey, s.Payee, s.PayeeKey = from, key, o.From, o.PaymentKey
	}
}

func (s *State) lock(f *protocol.Lock, at int64) Outcome {
	switch {
	case s.Status != protocol.Accepted:
		return s.wrongStatus(protocol.TypeLock)
	case f.Contract != s.Contract:
		return otherContract(protocol.TypeLock)
	case f.From != s.Payer:
		return refuse(protocol.NotPayer, "only the payer locks")
	}
	margin := s.Offer.RefundAfterMs - at
	if margin <= 0 {
		return guarded(refuse(protocol.RefundWindowOpen, "the refund window is open already"), margin)
	}
	if !protocol.RailOffered(s.Offer.Rails, f.Rail) {
		return guarded(refuse(protocol.RailNotOffered, "rail "+Show(f.Rail)+" was not offered"), margin)
	}
	s.Status, s.Rail, s.RailRef, s.Presig = protocol.Locked, f.Rail, f.Ref, f.Presig
	return guarded(okOutcome, margin)
}

func (s *State) reveal(f *protocol.Reveal, at int64) Outcome {
	switch {
	case s.Status != protocol.Locked:
		return s.wrongStatus(protocol.TypeReveal)
	case f.Contract != s.Contract:
		return otherContract(protocol.TypeReveal)
	case f.Ref != "" && f.Ref != s.RailRef:
		return refuse(protocol.OtherRailRef, "reveal names a different rail ref")
	case f.From != s.Payee:
		return refuse(protocol.NotPayee, "only the payee reveals")
	}
	margin := s.Offer.RefundAfterMs - at
	if margin <= 0 {
		return guarded(refuse(protocol.RefundWindowOpen, "the refund window is open"), margin)
	}
	if !s.Statement.Opens(f.Secret) {
		return guarded(refuse(protocol.WrongSecret, "the secret does not open the statement"), margin)
	}
	// SPEC §3.4: late is after claimByMs, not at it.
	s.Status, s.Late = protocol.Claimed, at > s.Offer.ClaimByMs
	return guarded(okOutcome, margin)
}

func (s *State) refund(f *protocol.Refund, at int64) Outcome {
	switch {
	case s.Status != protocol.Locked:
		return s.wrongStatus(protocol.TypeRefund)
	case f.Contract != s.Contract:
		return otherContract(protocol.TypeRefund)
	case f.Ref != "" && f.Ref != s.RailRef:
		return refuse(protocol.OtherRailRef, "refund names a different rail ref")
	case f.From != s.Payer:
		return refuse(protocol.NotPayer, "only the payer refunds")
	}
	margin := at - s.Offer.RefundAfterMs
	if margin < 0 {
		return guarded(refuse(protocol.RefundWindowClosed, "the refund window is not open yet"), margin)
	}
	s.Status = protocol.Refunded
	return guarded(okOutcome, margin)
}

// cancel knows both forms: before an accept it must name the offer and come
// from its author, afterwards it must name the contract and come from a party.
func (s *State) cancel(f *protocol.Cancel) Outcome {
	switch s.Status {
	case protocol.Proposed:
		if f.Contract != s.Offer.ID {
			return otherContract(protocol.TypeCancel)
		}
		if f.From != s.Offer.From {
			return refuse(protocol.NotParty, "cancel from a non-party")
		}
	case protocol.Accepted:
		if f.Contract != s.Contract {
			return otherContract(protocol.TypeCancel)
		}
		if !s.isParty(f.From) {
			return refuse(protocol.NotParty, "cancel from a non-party")
		}
	default:
		return s.wrongStatus(protocol.TypeCancel)
	}
	s.Status = protocol.Cancelled
	return okOutcome
}

func (s *State) heartbeat(f *protocol.Heartbeat) Outcome {
	switch {
	case s.Status != protocol.Accepted && s.Status != protocol.Locked:
		return s.wrongStatus(protocol.TypeHeartbeat)
	case f.Contract != s.Contract:
		return otherContract(protocol.TypeHeartbeat)
	case !s.isParty(f.From):
		return refuse(protocol.NotParty, "heartbeat from a non-party")
	}
	return okOutcome
}

func (s *State) receipt(f *protocol.Receipt, exactRail bool) Outcome {
	switch {
	case s.Status == protocol.StatusNone:
		return s.wrongStatus(protocol.TypeReceipt)
	case !s.Status.Terminal():
		return refuse(protocol.NotTerminal, "receipt in status "+s.Status.String()+", before a terminal one")
	case f.Contract != s.Contract:
		return otherContract(protocol.TypeReceipt)
	case !s.isParty(f.From):
		return refuse(protocol.NotParty, "receipt from a non-party")
	case f.Outcome != s.Status:
		return refuse(protocol.OutcomeMismatch, "receipt outcome "+f.Outcome.String()+", the contract is "+s.Status.String())
	}
	if s.Status == protocol.Cancelled {
		if f.Rail != "" || f.Ref != "" {
			return refuse(protocol.ReceiptRailOnCancelled, "a cancelled contract's receipt names no rail or ref")
		}
		return okOutcome
	}
	same := protocol.SameRail(f.Rail, s.Rail)
	if exactRail {
		same = f.Rail == s.Rail
	}
	switch {
	case f.Rail != "" && !same:
		return refuse(protocol.ReceiptRailMismatch, "receipt rail "+Show(f.Rail)+", the lock's is "+Show(s.Rail))
	case f.Ref != "" && f.Ref != s.RailRef:
		return refuse(protocol.ReceiptRefMismatch, "receipt ref is not the lock's")
	}
	return okOutcome
}

// Show makes a stranger's word safe to stand in a sentence: as it is when it
// is a short plain token, else only its length and the start of its sha256.
func Show(s string) string {
	if len(s) > 0 && len(s) <= 32 {
		plain := true
		for i := 0; i < len(s); i++ {
			c := s[i]
			if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-') {
				plain = false
				break
			}
		}
		if plain {
			return s
		}
	}
	sum := sha256.Sum256([]byte(s))
	return fmt.Sprintf("(%d bytes, sha256 %s…)", len(s), hex.EncodeToString(sum[:4]))
}
