package protocol

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
)

// BuildError is why a builder refused its arguments: the reason for which a
// reader would reject the frame, and the particulars in Err, without a
// stranger's text. errors.Is finds ErrUnknownRail and its kin in it. A builder's
// only other error is that of its random source.
type BuildError struct {
	Type   FrameType // the frame that was to be built; accept for NewLockTerms
	Reason Reason
	Err    error
}

// Error implements error.
func (e *BuildError) Error() string {
	return "protocol: build " + e.Type.String() + ": " + e.Reason.String() + ": " + e.Err.Error()
}

// Unwrap returns the particulars.
func (e *BuildError) Unwrap() error { return e.Err }

func refuse(t FrameType, r Reason, detail string) error {
	return &BuildError{Type: t, Reason: r, Err: errors.New(detail)}
}

// finish lets the encoder judge every field, so that a frame from a builder can
// always be emitted.
func finish(f Frame) error {
	_, err := Encode(f)
	if enc, ok := errors.AsType[*EncodeError](err); ok {
		return refuse(f.Type(), enc.Reason, enc.Detail)
	}
	return err
}

// mintNonce returns 16 lower-case hex digits. Nonces keep two frames from
// serialising identically, which the venue would refuse as a duplicate; they
// are not secret.
func mintNonce(t FrameType, r io.Reader) (string, error) {
	var b [8]byte
	if err := fill(r, b[:]); err != nil {
		return "", fmt.Errorf("protocol: build %s: mint a nonce: %w", t, err)
	}
	return hex.EncodeToString(b[:]), nil
}

// NewOffer completes an offer (SPEC §3.1): rails are normalised, repeats
// removed and sorted, a nonce is minted from r and the id computed. Nonce and
// ID of the argument are ignored; nothing in the result shares memory with it.
// The caller fills From, Role, Amount, Asset, Lock, Rails, the three times, for
// a point lock PaymentKey, and Job if there is one. Check the times with
// [ValidateDeadlines] first. The rails paper and memory hold nothing of value.
func NewOffer(r io.Reader, o Offer) (*Offer, error) {
	rails, err := NormalizeRails(o.Rails)
	if err != nil {
		return nil, &BuildError{Type: TypeOffer, Reason: BadField, Err: err}
	}
	o.Rails = make([]string, len(rails))
	for i, rail := range rails {
		o.Rails[i] = string(rail)
	}
	if o.Job != nil {
		job := *o.Job
		o.Job = &job
	}
	if o.Nonce, err = mintNonce(TypeOffer, r); err != nil {
		return nil, err
	}
	o.ID = OfferID(&o)
	if err := finish(&o); err != nil {
		return nil, err
	}
	return &o, nil
}

// NewAccept closes an offer's terms for the counterparty (SPEC §3.2): a nonce is
// minted from r and the contract id computed. The statement is the payee's: it
// comes from [GenerateHashLock] or [GeneratePointLock], run by the payee, its
// arbiter or its committee. key is required for a point lock and may be the zero
// Point otherwise. The offer comes from [Decode] or [NewOffer].
//
// Refused are one's own offer, a statement of the other lock kind or off the
// curve, a missing or invalid key, and an offer whose id is not its hash. What
// needs a clock is left to [ValidateDeadlines]: an accept at or after expiresMs
// counts for nothing.
func NewAccept(r io.Reader, offer *Offer, from string, st Statement, key Point) (*Accept, error) {
	nonce, err := mintNonce(TypeAccept, r)
	if err != nil {
		return nil, err
	}
	a := &Accept{From: from, Ref: offer.ID, Statement: st, Nonce: nonce, PaymentKey: key}
	a.Contract = ContractID(offer, a)
	if err := checkHandshake(offer, a); err != nil {
		return nil, err
	}
	if err := finish(a); err != nil {
		return nil, err
	}
	return a, nil
}

// checkHandshake holds an accept against its offer, by the rules of SPEC §3.1,
// §3.2 and §4 that need no clock.
func checkHandshake(o *Offer, a *Accept) error {
	switch {
	case o.Role != RolePayer && o.Role != RolePayee:
		return refuse(TypeAccept, BadField, "the offer's role is neither payer nor payee")
	case OfferID(o) != o.ID:
		return refuse(TypeAccept, OfferIDMismatch, "the offer's id is not its hash; take offers from Decode or NewOffer")
	case o.Lock == LockPoint && !o.PaymentKey.Valid():
		return refuse(TypeAccept, PointNeedsKey, "the offer has a point lock but no payment key on the curve")
	case a.Ref != o.ID:
		return refuse(TypeAccept, OtherOffer, "the accept names another offer")
	case a.From == o.From:
		return refuse(TypeAccept, OwnOffer, "the offer is the acceptor's own")
	case ContractID(o, a) != a.Contract:
		return refuse(TypeAccept, ContractIDMismatch, "the contract id does not derive from this offer and accept")
	case o.Lock == LockPoint && a.PaymentKey.IsZero():
		return refuse(TypeAccept, AcceptorKeyMissing, "a point lock needs the acceptor's payment key")
	case a.Statement.Kind() == LockNone || a.Statement.Kind() != o.Lock:
		return refuse(TypeAccept, StatementKind, "the statement does not fit the offer's lock kind")
	case !a.Statement.Valid():
		return refuse(TypeAccept, PointInvalid, "the statement is not a point on the curve")
	case !a.PaymentKey.IsZero() && !a.PaymentKey.Valid():
		return refuse(TypeAccept, PointInvalid, "the acceptor's payment key is not a point on the curve")
	}
	return nil
}

// LockTerms is what an accepted contract comes down to (SPEC §5): what a rail
// enforces, and what the builders of the deal room's frames need. Make it with
// [NewLockTerms].
type LockTerms struct {
	Contract      ID
	Lock          LockKind
	Statement     Statement
	Amount        string // decimal integer, rail-native minimal units
	Asset         string
	Rails         []string // as the offer spells them
	Payer         string   // did:key; the offer's role decides who it is
	Payee         string   // did:key
	PayerKey      Point    // zero when absent
	PayeeKey      Point    // zero when absent
	ClaimByMs     int64    // Unix ms
	RefundAfterMs int64    // Unix ms
}

// NewLockTerms derives the terms of a contract from its offer and accept
// (SPEC §3.2, §5), after checking that they fit each other: ids, parties,
// statement and keys, as [NewAccept] does. Whether the accept came in time is
// not checked, since that needs the row's time.
func NewLockTerms(offer *Offer, accept *Accept) (LockTerms, error) {
	if err := checkHandshake(offer, accept); err != nil {
		return LockTerms{}, err
	}
	t := LockTerms{
		Contract: accept.Contract, Lock: offer.Lock, Statement: accept.Statement,
		Amount: offer.Amount, Asset: offer.Asset, Rails: slices.Clone(offer.Rails),
		Payer: offer.From, Payee: accept.From,
		PayerKey: offer.PaymentKey, PayeeKey: accept.PaymentKey,
		ClaimByMs: offer.ClaimByMs, RefundAfterMs: offer.RefundAfterMs,
	}
	if offer.Role == RolePayee {
		t.Payer, t.Payee = t.Payee, t.Payer
		t.PayerKey, t.PayeeKey = t.PayeeKey, t.PayerKey
	}
	return t, nil
}

// isParty reports whether the did is the payer's or the payee's.
func (t *LockTerms) isParty(did string) bool { return did == t.Payer || did == t.Payee }

// emittedRail normalises a rail for a new frame and demands that the offer
// lists it.
func (t *LockTerms) emittedRail(ft FrameType, rail string) (string, error) {
	r, err := NormalizeRail(rail)
	if err != nil {
		return "", &BuildError{Type: ft, Reason: BadField, Err: err}
	}
	if !RailOffered(t.Rails, string(r)) {
		reason := RailNotOffered
		if ft == TypeReceipt {
			reason = ReceiptRailMismatch
		}
		return "", refuse(ft, reason, "the offer does not list the rail "+string(r))
	}
	return string(r), nil
}

// NewLock announces, for the payer, that the money is locked on a rail
// (SPEC §3.3). rail is normalised and must be one that the offer lists; ref is
// the rail's own reference, not empty. presig is nil, or for a point lock the
// payer's pre-signature under the statement; it is copied, and not verified
// here, since what it signs is the rail's affair. A lock counts only before
// refundAfterMs.
func NewLock(t LockTerms, rail, ref string, presig *PreSignature) (*Lock, error) {
	rail, err := t.emittedRail(TypeLock, rail)
	if err != nil {
		return nil, err
	}
	l := &Lock{From: t.Payer, Contract: t.Contract, Rail: rail, Ref: ref}
	if presig != nil {
		if t.Lock != LockPoint {
			return nil, refuse(TypeLock, BadField, "a pre-signature belongs to a point lock")
		}
		copied := *presig
		l.Presig = &copied
	}
	if err := finish(l); err != nil {
		return nil, err
	}
	return l, nil
}

// NewReveal claims, for the payee, by publishing the secret (SPEC §3.4). It
// refuses a secret that does not open the statement. ref is the lock's; it
// should be given and may be "". Posting the frame IS the claim: post it only
// while the lock stands on its rail, and before claimByMs.
func NewReveal(t LockTerms, ref string, secret Secret) (*Reveal, error) {
	if !t.Statement.Opens(secret) {
		return nil, refuse(TypeReveal, WrongSecret, "the secret does not open the contract's statement")
	}
	f := &Reveal{From: t.Payee, Contract: t.Contract, Ref: ref, Secret: secret}
	if err := finish(f); err != nil {
		return nil, err
	}
	return f, nil
}

// NewRefund takes the money back for the payer (SPEC §3.5). ref is the lock's;
// it should be given and may be "". reason may be "". A refund counts only at or
// after refundAfterMs.
func NewRefund(t LockTerms, ref, reason string) (*Refund, error) {
	f := &Refund{From: t.Payer, Contract: t.Contract, Ref: ref, Reason: reason}
	if err := finish(f); err != nil {
		return nil, err
	}
	return f, nil
}

// NewCancel ends an accepted contract before any lock, for either party
// (SPEC §3.5); it belongs into the deal room. reason may be "".
func NewCancel(t LockTerms, from, reason string) (*Cancel, error) {
	if !t.isParty(from) {
		return nil, refuse(TypeCancel, NotParty, "the sender is neither payer nor payee")
	}
	return newCancel(from, t.Contract, reason)
}

// NewCancelOffer withdraws an offer that nobody has accepted, for its author: it
// names the offer's id as the contract and belongs onto the board. reason may be
// "".
func NewCancelOffer(offer *Offer, reason string) (*Cancel, error) {
	if OfferID(offer) != offer.ID {
		return nil, refuse(TypeCancel, OfferIDMismatch, "the offer's id is not its hash; take offers from Decode or NewOffer")
	}
	return newCancel(offer.From, offer.ID, reason)
}

func newCancel(from string, contract ID, reason string) (*Cancel, error) {
	f := &Cancel{From: from, Contract: contract, Reason: reason}
	if err := finish(f); err != nil {
		return nil, err
	}
	return f, nil
}

// NewReceipt acknowledges, for either party, the terminal status that a contract
// reached (SPEC §3.5): outcome is Claimed, Refunded or Cancelled. rail and ref
// are the lock's and may be ""; rail is normalised and must be one that the
// offer lists. A cancelled contract has no lock, so its receipt names neither.
func NewReceipt(t LockTerms, from string, outcome Status, rail, ref string) (*Receipt, error) {
	switch {
	case !t.isParty(from):
		return nil, refuse(TypeReceipt, NotParty, "the sender is neither payer nor payee")
	case !outcome.Terminal():
		return nil, refuse(TypeReceipt, NotTerminal, "the outcome must be claimed, refunded or cancelled")
	case outcome == Cancelled && (rail != "" || ref != ""):
		return nil, refuse(TypeReceipt, ReceiptRailOnCancelled, "a cancelled contract's receipt names no rail and no ref")
	}
	if rail != "" {
		var err error
		if rail, err = t.emittedRail(TypeReceipt, rail); err != nil {
			return nil, err
		}
	}
	f := &Receipt{From: from, Contract: t.Contract, Outcome: outcome, Rail: rail, Ref: ref}
	if err := finish(f); err != nil {
		return nil, err
	}
	return f, nil
}

// NewHeartbeat makes a sign of life of either party, with a fresh nonce from r
// (SPEC §3.6). It counts while the contract is accepted or locked, moves nothing
// and proves nothing about money. note is public and may be "".
func NewHeartbeat(r io.Reader, t LockTerms, from, note string) (*Heartbeat, error) {
	if !t.isParty(from) {
		return nil, refuse(TypeHeartbeat, NotParty, "the sender is neither payer nor payee")
	}
	nonce, err := mintNonce(TypeHeartbeat, r)
	if err != nil {
		return nil, err
	}
	f := &Heartbeat{From: from, Contract: t.Contract, Nonce: nonce, Note: note}
	if err := finish(f); err != nil {
		return nil, err
	}
	return f, nil
}
