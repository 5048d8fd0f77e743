//go:build !novoi

package verify

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
	"math/bits"
	"math/rand/v2"

	"github.com/oasisprotocol/curve25519-voi/curve"
	"github.com/oasisprotocol/curve25519-voi/curve/scalar"
)

// keyPoint is a key's point −A, decoded once.
type keyPoint struct {
	neg     curve.EdwardsPoint
	onCurve bool
	prime   bool // known to be in the prime-order subgroup
}

func (p *keyPoint) set(raw *[32]byte) {
	if _, err := p.neg.SetCompressedY((*curve.CompressedEdwardsY)(raw)); err == nil {
		p.neg.Neg(&p.neg)
		p.onCurve = true
	}
}

// equation is one signature, decoded: it is good if sB − R − kA is of small
// order, which is what ZIP-215 asks.
type equation struct {
	key  *key
	negR curve.EdwardsPoint
	s, k [32]byte // little-endian, below the group order
	odd  bool     // R's encoding is one of the few that can be non-canonical
	bind [32]byte // first half of SHA-512(R|A|message), unreduced
}

// set decodes a signature over what preimage says behind its first 64 bytes,
// which are R and A. It returns false where no equation can be set up, and the
// signature is bad for that.
func (e *equation) set(key *key, sig *[64]byte, preimage []byte) bool {
	if !key.point.onCurve || !scalar.ScMinimalVartime(sig[32:]) {
		return false
	}
	if _, err := e.negR.SetCompressedY((*curve.CompressedEdwardsY)(sig[:32])); err != nil {
		return false
	}
	e.negR.Neg(&e.negR)
	e.key, e.odd = key, oddEncoding((*[32]byte)(sig[:32]))
	e.s = [32]byte(sig[32:])
	hash := sha512.Sum512(preimage)
	e.bind = [32]byte(hash[:32])
	k := reduce(&hash)
	_ = k.ToBytes(e.k[:])
	return true
}

// engine holds the scratch space of batches, and the tables of the keys whose
// rows were last repaired.
type engine struct {
	keys    distinct
	weights []scalar.Scalar // of the R terms
	sums    []wide          // of the A terms
	folded  []scalar.Scalar
	scalars []*scalar.Scalar
	points  []*curve.EdwardsPoint

	tables    [16]multiples
	nextTable int
}

// distinct numbers the keys of a batch in the order they come.
type distinct struct {
	list  []*key
	slots []slot // open addressing, twice as many as keys at least
	batch uint64
}

// slot holds a key's place in the list of the batch that it was filled for.
type slot struct {
	key   *key
	batch uint64
	at    int
}

// begin forgets the last batch. The next has at most n keys.
func (d *distinct) begin(n int) {
	d.list = d.list[:0]
	d.batch++
	if size := 1 << bits.Len(uint(2*n)); len(d.slots) < size {
		d.slots = make([]slot, size)
	}
}

// number returns the key's place in the list, and whether it is new there.
//
// Slots are chosen by when a key was first seen, which is nothing that its
// owner can choose, so nobody can crowd many keys into few slots.
func (d *distinct) number(k *key) (at int, first bool) {
	mask := len(d.slots) - 1
	for i := k.number & mask; ; i = (i + 1) & mask {
		s := &d.slots[i]
		if s.batch != d.batch {
			*s = slot{k, d.batch, len(d.list)}
			d.list = append(d.list, k)
			return s.at, true
		}
		if s.key == k {
			return s.at, false
		}
	}
}

// holds checks one equation.
func (e *equation) holds() bool {
	var s, k scalar.Scalar
	_, _ = s.SetBits(e.s[:])
	_, _ = k.SetBits(e.k[:])
	var r, sum curve.EdwardsPoint
	r.Neg(&e.negR)
	// The library multiplies all of it by a number of its choice, prime to the
	// group order, which makes the scalars short.
	return sum.TripleScalarMulBasepointVartime(&k, &e.key.point.neg, &s, &r).IsSmallOrder()
}

// allHold checks all equations at once. It draws a 128-bit weight z for each
// and asks whether
//
//	(Σ zᵢsᵢ)·B + Σ zᵢ(−Rᵢ) + Σ_A (Σ zᵢkᵢ over the rows of A)·(−A)
//
// is of small order. If every equation holds then so does this one, since what
// each leaves over is of small order and the final multiplication by the
// cofactor removes it. If one does not hold then, whatever the other weights,
// the sum vanishes for at most one of the 2^128 choices of its own.
//
// That needs weights which the rows' author could not foresee. They are not
// drawn from a random source but from a digest of the batch itself: of every
// sᵢ, and of every SHA-512(Rᵢ|Aᵢ|messageᵢ), which fixes Rᵢ, Aᵢ and kᵢ. Weights
// are known only once all of these are fixed, and to change any of them is to
// draw all weights anew. So somebody who wants a bad batch to pass can do no
// better than to make up batches and try: 2^t of them have a chance of 2^(t−128),
// no better than finding a collision of the hash. In return the same rows cost
// and answer the same, every time.
func (e *engine) allHold(eqs []equation) bool {
	n := len(eqs)
	bound := sha256.New()
	for i := range eqs {
		bound.Write(eqs[i].bind[:])
		bound.Write(eqs[i].s[:])
	}
	var seed [sha256.Size]byte
	bound.Sum(seed[:0])
	stream := rand.NewChaCha8(seed)

	if cap(e.weights) < n {
		size := max(n, min(2*n, largestBatch))
		e.weights = make([]scalar.Scalar, size)
		e.sums = make([]wide, size)
		e.folded = make([]scalar.Scalar, size+1)
		e.scalars = make([]*scalar.Scalar, 2*size+1)
		e.points = make([]*curve.EdwardsPoint, 2*size+1)
	}
	scalars, points := e.scalars[:0], e.points[:0]

	e.keys.begin(n)
	var base wide
	for i := range eqs {
		eq := &eqs[i]
		z0, z1 := stream.Uint64(), stream.Uint64()
		var weight [32]byte
		binary.LittleEndian.PutUint64(weight[:], z0)
		binary.LittleEndian.PutUint64(weight[8:], z1)
		_, _ = e.weights[i].SetBits(weight[:])
		scalars = append(scalars, &e.weights[i])
		points = append(points, &eq.negR)

		base.addProduct(z0, z1, &eq.s)
		term, first := e.keys.number(eq.key)
		if first {
			e.sums[term] = wide{}
		}
		e.sums[term].addProduct(z0, z1, &eq.k)
	}
	terms := len(e.keys.list)
	for i, key := range e.keys.list {
		e.folded[i] = e.sums[i].reduce()
		scalars = append(scalars, &e.folded[i])
		points = append(points, &key.point.neg)
	}
	e.folded[terms] = base.reduce()
	scalars = append(scalars, &e.folded[terms])
	points = append(points, curve.ED25519_BASEPOINT_POINT)

	var sum curve.EdwardsPoint
	return sum.MultiscalarMulVartime(scalars, points).IsSmallOrder()
}

// oddEncoding reports whether an encoded point could be written otherwise: its
// y is p or more, or 1, whose sign bit may be set or not.
func oddEncoding(b *[32]byte) bool {
	top, first := b[31]&0x7f, b[0]
	switch {
	case top == 0x7f && first >= 0xed: // y ≥ p
		for _, c := range b[1:31] {
			if c != 0xff {
				return false
			}
		}
		return true
	case top == 0 && first == 1:
		for _, c := range b[1:31] {
			if c != 0 {
				return false
			}
		}
		return true
	}
	return false
}

// allStrict reports whether crypto/ed25519, too, accepts these equations, all of
// which hold. It may say no without need, never yes without reason.
//
// The two rules differ only where R is not written canonically or where
// something of small order is in play: if R and A lie in the prime-order
// subgroup then so does what an equation leaves over, and being of small order
// it is nothing at all. So the points are tested for that, all at once: each
// goes into some of eight sums, as the bits of a byte say that follows from the
// whole batch and is never zero, and each sum is multiplied by the group order.
// A lone point with a part of small order is in at least one sum and shows
// there; of several, made to hide each other, the parts cancel in all eight with
// a chance of about one in 256.
func (e *engine) allStrict(eqs []equation) bool {
	bound := sha256.New()
	for i := range eqs {
		if eqs[i].odd {
			return false
		}
		bound.Write(eqs[i].bind[:])
		bound.Write(eqs[i].s[:])
	}
	var seed [sha256.Size]byte
	bound.Sum(seed[:0])
	stream := rand.NewChaCha8(seed)

	// Points that share a byte are summed first: one addition a point.
	var buckets [256]curve.EdwardsPoint
	var used [256]bool
	var bytes uint64
	put := func(i int, p *curve.EdwardsPoint) {
		if i%8 == 0 {
			bytes = stream.Uint64()
		}
		b := 1 + byte(bytes)%255
		bytes >>= 8
		if used[b] {
			buckets[b].Add(&buckets[b], p)
		} else {
			buckets[b].Set(p)
			used[b] = true
		}
	}
	n := 0
	e.keys.begin(len(eqs))
	for i := range eqs {
		put(n, &eqs[i].negR)
		n++
		if key := eqs[i].key; !key.point.prime {
			if _, first := e.keys.number(key); first {
				put(n, &key.point.neg)
				n++
			}
		}
	}
	for bit := range 8 {
		var sum curve.EdwardsPoint
		sum.Identity()
		for b := range buckets {
			if used[b] && b>>bit&1 == 1 {
				sum.Add(&sum, &buckets[b])
			}
		}
		if !sum.IsTorsionFree() {
			return false
		}
	}
	for _, key := range e.keys.list {
		if !key.shared { // else others may be reading it
			key.point.prime = true
		}
	}
	return true
}

// wide is a sum of products of weights and scalars, kept whole so that it need
// be reduced only once: a product has at most 381 bits, and 2^131 of them fit.
type wide [8]uint64

// addProduct adds (z0 + 2^64·z1)·x.
func (w *wide) addProduct(z0, z1 uint64, x *[32]byte) {
	var product [6]uint64
	var carry uint64
	var limbs [4]uint64
	for i := range limbs {
		limbs[i] = binary.LittleEndian.Uint64(x[i*8:])
		hi, lo := bits.Mul64(limbs[i], z0)
		var c uint64
		product[i], c = bits.Add64(lo, carry, 0)
		carry = hi + c
	}
	product[4] = carry
	carry = 0
	for i := range limbs {
		hi, lo := bits.Mul64(limbs[i], z1)
		var c uint64
		lo, c = bits.Add64(lo, carry, 0)
		hi += c
		product[i+1], c = bits.Add64(product[i+1], lo, 0)
		carry = hi + c
	}
	product[5] = carry

	carry = 0
	for i := range product {
		w[i], carry = bits.Add64(w[i], product[i], carry)
	}
	w[6], carry = bits.Add64(w[6], 0, carry)
	w[7] += carry
}

func (w *wide) reduce() scalar.Scalar {
	var b [64]byte
	for i, limb := range w {
		binary.LittleEndian.PutUint64(b[i*8:], limb)
	}
	return reduce(&b)
}

func reduce(b *[64]byte) (s scalar.Scalar) {
	_, _ = s.SetBytesModOrderWide(b[:]) // fails only on another length
	return s
}

// trial is one signature that several messages are tried under. R, s and A
// stay and only k changes, so with a table of the multiples of 8A a message
// costs one walk through the table and a comparison:
//
//	sB − R − kA is of small order  ⇔  k·8A = 8(sB − R)
type trial struct {
	eq     equation
	table  *curve.EdwardsBasepointTable // of 8A; nil: too few messages for one
	target curve.EdwardsPoint           // 8(sB − R), where there is a table
}

// multiples is a key and its table. A table takes 41 KB and as long to make as
// three checks, so a few are kept for the next row of the same key.
type multiples struct {
	key   *key
	table *curve.EdwardsBasepointTable
}

// worthTable is the number of messages from which a new table pays.
const worthTable = 6

// trial prepares to try about n messages. It returns false where none can be
// good.
func (e *engine) trial(t *trial, key *key, sig *[64]byte, n int) bool {
	if !t.eq.set(key, sig, nil) {
		return false
	}
	if t.table = e.table(key, n); t.table != nil {
		var s scalar.Scalar
		_, _ = s.SetBits(t.eq.s[:])
		t.target.MulBasepoint(curve.ED25519_BASEPOINT_TABLE, &s)
		t.target.Add(&t.target, &t.eq.negR)
		t.target.MulByCofactor(&t.target)
	}
	return true
}

// table returns the key's table, made anew if n messages are worth it, else nil.
func (e *engine) table(k *key, n int) *curve.EdwardsBasepointTable {
	for _, m := range e.tables {
		if m.key == k {
			return m.table
		}
	}
	if n < worthTable {
		return nil
	}
	var p curve.EdwardsPoint
	p.Neg(&k.point.neg)
	p.MulByCofactor(&p)
	made := multiples{k, curve.NewEdwardsBasepointTable(&p)}
	e.tables[e.nextTable] = made
	e.nextTable = (e.nextTable + 1) % len(e.tables)
	return made.table
}

// covers reports whether the signature holds over another preimage, R|A|message.
func (t *trial) covers(preimage []byte) bool {
	hash := sha512.Sum512(preimage)
	k := reduce(&hash)
	if t.table != nil {
		var p curve.EdwardsPoint
		return p.MulBasepoint(t.table, &k).Equal(&t.target) == 1
	}
	_ = k.ToBytes(t.eq.k[:])
	return t.eq.holds()
}
