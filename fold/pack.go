package fold

import (
	"encoding/binary"

	"github.com/tclk-audit/tclk-audit/protocol"
)

// Packed forms of offers and deal-room frames. Only what the fold or a report
// needs again is kept; strings go behind their length.

type packer struct{ b []byte }

func (p *packer) uint(v uint64)  { p.b = binary.AppendUvarint(p.b, v) }
func (p *packer) str(s string)   { p.uint(uint64(len(s))); p.b = append(p.b, s...) }
func (p *packer) bytes(s []byte) { p.uint(uint64(len(s))); p.b = append(p.b, s...) }
func (p *packer) raw(s []byte)   { p.b = append(p.b, s...) }
func (p *packer) byte(c byte)    { p.b = append(p.b, c) }
func (p *packer) point(k protocol.Point) {
	if k.IsZero() {
		p.byte(0)
		return
	}
	p.raw(k[:])
}

type unpacker struct{ b []byte }

func (u *unpacker) uint() uint64 {
	v, n := binary.Uvarint(u.b)
	u.b = u.b[n:]
	return v
}

func (u *unpacker) str() string {
	n := u.uint()
	s := string(u.b[:n])
	u.b = u.b[n:]
	return s
}

func (u *unpacker) take(n int) []byte {
	s := u.b[:n]
	u.b = u.b[n:]
	return s
}

func (u *unpacker) byte() byte { return u.take(1)[0] }

func (u *unpacker) id() (id protocol.ID) {
	copy(id[:], u.take(len(id)))
	return id
}

func (u *unpacker) point() (k protocol.Point) {
	if u.b[0] == 0 {
		u.take(1)
		return k
	}
	copy(k[:], u.take(len(k)))
	return k
}

// packOffer leaves out id and from, which the offer's record holds.
func packOffer(p *packer, o *protocol.Offer) {
	p.byte(byte(o.Role)<<4 | byte(o.Lock))
	p.uint(uint64(o.ClaimByMs))
	p.uint(uint64(o.RefundAfterMs))
	p.uint(uint64(o.ExpiresMs))
	p.point(o.PaymentKey)
	p.str(o.Amount)
	p.str(o.Asset)
	p.str(o.Nonce)
	p.uint(uint64(len(o.Rails)))
	for _, r := range o.Rails {
		p.str(r)
	}
	if o.Job == nil {
		p.byte(0)
		return
	}
	p.byte(1)
	p.str(o.Job.Proto)
	p.str(o.Job.ID)
	p.str(o.Job.Context)
}

func unpackOffer(b []byte, id protocol.ID, from string) *protocol.Offer {
	u := unpacker{b}
	o := &protocol.Offer{ID: id, From: from}
	k := u.byte()
	o.Role, o.Lock = protocol.Role(k>>4), protocol.LockKind(k&15)
	o.ClaimByMs, o.RefundAfterMs, o.ExpiresMs = int64(u.uint()), int64(u.uint()), int64(u.uint())
	o.PaymentKey = u.point()
	o.Amount, o.Asset, o.Nonce = u.str(), u.str(), u.str()
	o.Rails = make([]string, u.uint())
	for i := range o.Rails {
		o.Rails[i] = u.str()
	}
	if u.byte() == 1 {
		o.Job = &protocol.Job{Proto: u.str(), ID: u.str(), Context: u.str()}
	}
	return o
}

// packFrame keeps of a post-accept frame what the machine and the steps need.
func packFrame(p *packer, f protocol.Frame) {
	switch f := f.(type) {
	case *protocol.Lock:
		p.raw(f.Contract[:])
		p.str(f.Rail)
		p.str(f.Ref)
		if f.Presig == nil {
			p.byte(0)
			return
		}
		p.byte(1)
		p.raw(f.Presig.Nonce[:])
		p.raw(f.Presig.S[:])
	case *protocol.Reveal:
		p.raw(f.Contract[:])
		p.str(f.Ref)
		p.raw(f.Secret[:])
	case *protocol.Refund:
		p.raw(f.Contract[:])
		p.str(f.Ref)
	case *protocol.Cancel:
		p.raw(f.Contract[:])
	case *protocol.Receipt:
		p.raw(f.Contract[:])
		p.byte(byte(f.Outcome))
		p.str(f.Rail)
		p.str(f.Ref)
	case *protocol.Heartbeat:
		p.raw(f.Contract[:])
	}
}

// frames is room for one unpacked frame of each kind, so that replaying a
// contract allocates nothing.
type frames struct {
	lock      protocol.Lock
	presig    protocol.PreSignature
	reveal    protocol.Reveal
	refund    protocol.Refund
	cancel    protocol.Cancel
	receipt   protocol.Receipt
	heartbeat protocol.Heartbeat
}

// unpackFrame is the inverse of packFrame, nil for types that are not packed.
func (fs *frames) unpackFrame(u *unpacker, t protocol.FrameType, from string) protocol.Frame {
	switch t {
	case protocol.TypeLock:
		f := &fs.lock
		*f = protocol.Lock{From: from, Contract: u.id(), Rail: u.str(), Ref: u.str()}
		if u.byte() == 1 {
			copy(fs.presig.Nonce[:], u.take(len(fs.presig.Nonce)))
			copy(fs.presig.S[:], u.take(len(fs.presig.S)))
			f.Presig = &fs.presig
		}
		return f
	case protocol.TypeReveal:
		f := &fs.reveal
		*f = protocol.Reveal{From: from, Contract: u.id(), Ref: u.str()}
		copy(f.Secret[:], u.take(len(f.Secret)))
		return f
	case protocol.TypeRefund:
		fs.refund = protocol.Refund{From: from, Contract: u.id(), Ref: u.str()}
		return &fs.refund
	case protocol.TypeCancel:
		fs.cancel = protocol.Cancel{From: from, Contract: u.id()}
		return &fs.cancel
	case protocol.TypeReceipt:
		f := &fs.receipt
		*f = protocol.Receipt{From: from, Contract: u.id(), Outcome: protocol.Status(u.byte())}
		f.Rail, f.Ref = u.str(), u.str()
		return f
	case protocol.TypeHeartbeat:
		fs.heartbeat = protocol.Heartbeat{From: from, Contract: u.id()}
		return &fs.heartbeat
	}
	return nil
}
