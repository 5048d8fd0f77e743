package fold

import (
	"encoding/binary"
	"strconv"

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

// delta keeps a time as its distance from another.
func (p *packer) delta(v, from int64) { p.b = binary.AppendVarint(p.b, v-from) }

// decimal keeps a decimal without leading zeros, of any length.
func (p *packer) decimal(s string) {
	if len(s) > 18 {
		p.byte(0)
		p.str(s)
		return
	}
	p.byte(1)
	p.uint(nonceValue([]byte(s)))
}

// hex keeps lower-case hex digits two to a byte.
func (p *packer) hex(s string) {
	p.uint(uint64(len(s)))
	for i := 0; i < len(s); i += 2 {
		c := hexDigit(s[i]) << 4
		if i+1 < len(s) {
			c |= hexDigit(s[i+1])
		}
		p.byte(c)
	}
}

func hexDigit(c byte) byte {
	if c >= 'a' {
		return c - 'a' + 10
	}
	return c - '0'
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

func (u *unpacker) delta(from int64) int64 {
	v, n := binary.Varint(u.b)
	u.b = u.b[n:]
	return v + from
}

func (u *unpacker) decimal() string {
	if u.byte() == 0 {
		return u.str()
	}
	return strconv.FormatUint(u.uint(), 10)
}

func (u *unpacker) hex() string {
	const digits = "0123456789abcdef"
	n := int(u.uint())
	var stack [64]byte
	s := stack[:0]
	for _, c := range u.take((n + 1) / 2) {
		s = append(s, digits[c>>4], digits[c&15])
	}
	return string(s[:n])
}

// packOffer leaves out id and from, which the offer's record holds. A day's
// board has some hundred thousand offers: deadlines are kept as distances from
// the row's time, and words that come again and again as numbers.
func (a *Auditor) packOffer(p *packer, o *protocol.Offer, ts int64) {
	p.delta(o.ExpiresMs, ts)
	kind := byte(o.Role)<<4 | byte(o.Lock)<<2
	if o.Job != nil {
		kind |= 1
	}
	if !o.PaymentKey.IsZero() {
		kind |= 2
	}
	p.byte(kind)
	p.delta(o.ClaimByMs, ts)
	p.delta(o.RefundAfterMs, ts)
	if !o.PaymentKey.IsZero() {
		p.raw(o.PaymentKey[:])
	}
	p.decimal(o.Amount)
	a.words.put(p, o.Asset)
	p.hex(o.Nonce)
	p.uint(uint64(len(o.Rails)))
	for _, r := range o.Rails {
		a.words.put(p, r)
	}
	if o.Job != nil {
		a.words.put(p, o.Job.Proto)
		p.str(o.Job.ID)
		p.str(o.Job.Context)
	}
}

// unpackOffer is the inverse of packOffer, into o, whose Rails it reuses. Nonce
// and job only matter for the contract id: without whole they are left out.
func (a *Auditor) unpackOffer(o *protocol.Offer, b []byte, id protocol.ID, from string, ts int64, whole bool) {
	u := unpacker{b}
	*o = protocol.Offer{ID: id, From: from, Rails: o.Rails[:0]}
	o.ExpiresMs = u.delta(ts)
	kind := u.byte()
	o.Role, o.Lock = protocol.Role(kind>>4), protocol.LockKind(kind>>2&3)
	o.ClaimByMs, o.RefundAfterMs = u.delta(ts), u.delta(ts)
	if kind&2 != 0 {
		copy(o.PaymentKey[:], u.take(len(o.PaymentKey)))
	}
	o.Amount = u.decimal()
	o.Asset = a.words.get(&u)
	if whole {
		o.Nonce = u.hex()
	} else {
		u.take(int(u.uint()+1) / 2)
	}
	for range u.uint() {
		o.Rails = append(o.Rails, a.words.get(&u))
	}
	if whole && kind&1 != 0 {
		o.Job = &protocol.Job{Proto: a.words.get(&u), ID: u.str(), Context: u.str()}
	}
}

// packedExpiry reads an offer's expiresMs alone.
func packedExpiry(b []byte, ts int64) int64 {
	u := unpacker{b}
	return u.delta(ts)
}

// packedKey reads an offer's payment key alone.
func packedKey(b []byte) (k protocol.Point) {
	u := unpacker{b}
	u.delta(0)
	if u.byte()&2 != 0 {
		u.delta(0)
		u.delta(0)
		copy(k[:], u.take(len(k)))
	}
	return k
}

// words numbers short strings that many offers share. It is bounded: when it
// is full, others are spelled out where they stand.
type words struct {
	index map[string]uint32
	list  []string
}

const (
	wordLimit  = 4096
	wordLength = 64
)

func newWords() words { return words{index: map[string]uint32{}} }

func (w *words) put(p *packer, s string) {
	i, ok := w.index[s]
	if !ok && len(s) <= wordLength && len(w.list) < wordLimit {
		i, ok = uint32(len(w.list)), true
		w.index[s] = i
		w.list = append(w.list, s)
	}
	if ok {
		p.uint(uint64(i) + 1)
		return
	}
	p.uint(0)
	p.str(s)
}

func (w *words) get(u *unpacker) string {
	if i := u.uint(); i != 0 {
		return w.list[i-1]
	}
	return u.str()
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
