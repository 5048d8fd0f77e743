package testkit

import (
	"github.com/tclk-audit/tclk-audit/protocol"
)

// Terms are what the parties of a deal agree on. Zero values take the defaults
// named beside them.
type Terms struct {
	NowMs    int64             // the moment the offer's deadlines count from; Epoch
	Role     protocol.Role     // the offerer's side; payer
	Lock     protocol.LockKind // hash
	Amount   string            // "1000000"
	Asset    string            // "FLOP"
	Rails    []string          // as written on the wire; flop-htlc
	Expires  int64             // ms from NowMs; 10 minutes
	ClaimBy  int64             // ms from NowMs; 30 minutes
	Refund   int64             // ms from NowMs; 60 minutes
	Job      *protocol.Job     // none
	HashKeys bool              // name payment keys under a hash lock too
}

// Deal is one offer and one accept, and what the parties know: it makes every
// frame of the contract. Its frames are plain values that a test may change.
type Deal struct {
	Offerer, Acceptor Party
	Payer, Payee      *Signer

	Offer  *protocol.Offer
	Accept *protocol.Accept
	Secret protocol.Secret // what opens the accept's statement

	Rail string // what Lock and Receipt name; the offer's first rail
	Ref  string // what Lock, Reveal, Refund and Receipt name

	source *Rand
}

// NewDeal makes a deal from the source: nonces, secret and ref are drawn from
// it. The secret is the payee's, or the payer's where the payee opened, since
// the acceptor mints it.
func NewDeal(source *Rand, offerer, acceptor Party, t Terms) *Deal {
	if t.NowMs == 0 {
		t.NowMs = Epoch
	}
	o := &protocol.Offer{
		From: offerer.DID, Role: or(t.Role, protocol.RolePayer), Lock: or(t.Lock, protocol.LockHash),
		Amount: or(t.Amount, "1000000"), Asset: or(t.Asset, "FLOP"), Rails: t.Rails, Job: t.Job,
		ExpiresMs:     t.NowMs + or(t.Expires, 600_000),
		ClaimByMs:     t.NowMs + or(t.ClaimBy, 1_800_000),
		RefundAfterMs: t.NowMs + or(t.Refund, 3_600_000),
		Nonce:         source.Hex(8),
	}
	if len(o.Rails) == 0 {
		o.Rails = []string{string(protocol.RailFLOP)}
	}
	if o.Lock == protocol.LockPoint || t.HashKeys {
		_, o.PaymentKey = offerer.Payment()
	}
	o.ID = protocol.OfferID(o)
	return Take(source, o, offerer, acceptor)
}

// Take is the deal that an acceptor makes of an offer whose id is right.
func Take(source *Rand, o *protocol.Offer, offerer, acceptor Party) *Deal {
	d := &Deal{
		Offerer: offerer, Acceptor: acceptor, Payer: offerer.Signer, Payee: acceptor.Signer,
		Offer: o, Rail: o.Rails[0], Ref: "escrow-" + source.Hex(6), source: source,
	}
	if o.Role == protocol.RolePayee {
		d.Payer, d.Payee = d.Payee, d.Payer
	}
	a := &protocol.Accept{From: acceptor.DID, Ref: o.ID, Nonce: source.Hex(8)}
	if !o.PaymentKey.IsZero() {
		_, a.PaymentKey = acceptor.Payment()
	}
	var err error
	if o.Lock == protocol.LockPoint {
		d.Secret, a.Statement, err = protocol.GeneratePointLock(source)
	} else {
		d.Secret, a.Statement, err = protocol.GenerateHashLock(source)
	}
	if err != nil {
		panic("testkit: a Rand never fails: " + err.Error())
	}
	// The offer is only read: others may be writing it out at the same time.
	a.Contract = protocol.ContractID(o, a)
	d.Accept = a
	return d
}

// Rival is another acceptor's deal on the same offer.
func (d *Deal) Rival(acceptor Party) *Deal { return Take(d.source, d.Offer, d.Offerer, acceptor) }

// Seal computes both ids again, after a test changed the offer or the accept.
func (d *Deal) Seal() {
	d.Offer.ID = protocol.OfferID(d.Offer)
	d.Accept.Ref = d.Offer.ID
	d.Accept.Contract = protocol.ContractID(d.Offer, d.Accept)
}

// ID is the contract's id.
func (d *Deal) ID() protocol.ID { return d.Accept.Contract }

// RoomName is the name of the contract's deal room.
func (d *Deal) RoomName() string { return protocol.DealRoom(d.ID()) }

// NewRoom returns the contract's deal room, empty.
func (d *Deal) NewRoom() *Room { return NewRoom(d.RoomName()) }

// Open posts the offer at a time in Unix ms, and the accept a second later.
func (d *Deal) Open(board *Room, atMs int64) (offer, accept *Row) {
	return board.Post(d.Offerer.Signer, atMs, d.Offer), board.Post(d.Acceptor.Signer, atMs+1000, d.Accept)
}

// Lock is the payer's lock.
func (d *Deal) Lock() *protocol.Lock {
	return &protocol.Lock{From: d.Payer.DID, Contract: d.ID(), Rail: d.Rail, Ref: d.Ref}
}

// PresignedLock is the payer's lock with a pre-signature over message under the
// statement of a point lock.
func (d *Deal) PresignedLock(message []byte) *protocol.Lock {
	payer := d.Offerer
	if d.Offer.Role == protocol.RolePayee {
		payer = d.Acceptor
	}
	key, _ := payer.Payment()
	statement, _ := d.Accept.Statement.Point()
	presig, err := protocol.PreSign(key, message, statement, d.source)
	if err != nil {
		panic("testkit: pre-sign a point lock: " + err.Error())
	}
	l := d.Lock()
	l.Presig = &presig
	return l
}

// Reveal is the payee's reveal.
func (d *Deal) Reveal() *protocol.Reveal {
	return &protocol.Reveal{From: d.Payee.DID, Contract: d.ID(), Ref: d.Ref, Secret: d.Secret}
}

// Refund is the payer's refund.
func (d *Deal) Refund() *protocol.Refund {
	return &protocol.Refund{From: d.Payer.DID, Contract: d.ID(), Ref: d.Ref}
}

// Cancel is a cancel of the accepted contract by a signer.
func (d *Deal) Cancel(by *Signer, reason string) *protocol.Cancel {
	return &protocol.Cancel{From: by.DID, Contract: d.ID(), Reason: reason}
}

// CancelOffer is the offerer's cancel of the offer, for the board.
func (d *Deal) CancelOffer(reason string) *protocol.Cancel {
	return &protocol.Cancel{From: d.Offerer.DID, Contract: d.Offer.ID, Reason: reason}
}

// Receipt is a signer's receipt for an outcome. It names the deal's rail and
// ref, except for a cancelled contract, which has neither.
func (d *Deal) Receipt(by *Signer, outcome protocol.Status) *protocol.Receipt {
	r := &protocol.Receipt{From: by.DID, Contract: d.ID(), Outcome: outcome}
	if outcome != protocol.Cancelled {
		r.Rail, r.Ref = d.Rail, d.Ref
	}
	return r
}

// Heartbeat is a signer's sign of life.
func (d *Deal) Heartbeat(by *Signer, note string) *protocol.Heartbeat {
	return &protocol.Heartbeat{From: by.DID, Contract: d.ID(), Nonce: d.source.Hex(8), Note: note}
}

// or returns v, or the default where v is the zero value.
func or[T comparable](v, byDefault T) T {
	var zero T
	if v == zero {
		return byDefault
	}
	return v
}
