// Package testkit makes keys, deals and room exports for tests and for the
// corpus generator.
//
// A test says what happened (an offer, two accepts, a lock, a reveal that came
// too late), and the kit writes it down as the venue would have: signed rows
// with rising seq, time and nonce, one JSON object a line. Everything derives
// from a seed, so a test sees the same bytes on every run and machine.
//
//	keys := testkit.NewKeys(1)
//	deal := testkit.NewDeal(testkit.NewRand(1, "deal"), keys.Party(0), keys.Party(1), testkit.Terms{})
//	board := testkit.NewBoard()
//	deal.Open(board, testkit.Epoch)
//	room := deal.NewRoom()
//	room.Post(deal.Payer, testkit.Epoch+60_000, deal.Lock())
//	room.Post(deal.Payee, testkit.Epoch+90_000, deal.Reveal())
//	board.JSONL() // the export
//
// Rows are values that a test may change after they were signed: that is how
// forged, tampered and torn exports are made.
//
// The keys and secrets are known to everybody who has this source. They are for
// tests alone; no other package that ships may import this one.
package testkit

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math/bits"
)

// Epoch is a moment for tests to start at, in Unix ms: 2026-09-05T09:20:00Z.
const Epoch int64 = 1_788_600_000_000

// digest is the kit's only source of bytes: sha256 over a purpose, a seed and an
// index, each of a fixed or delimited length.
func digest(purpose string, seed, index uint64) [32]byte {
	b := append([]byte("tclk-audit testkit|"), purpose...)
	b = append(b, '|')
	b = binary.BigEndian.AppendUint64(b, seed)
	b = binary.BigEndian.AppendUint64(b, index)
	return sha256.Sum256(b)
}

// Rand is a small deterministic random source (splitmix64). It is its own, and
// not the standard library's, so that a seed gives the same corpus under every
// Go release. It implements io.Reader, so the builders of package protocol can
// mint nonces from it. It must not be used for anything secret, nor by two
// goroutines at once.
type Rand struct{ state uint64 }

// NewRand returns the source that a seed has for a purpose: equal arguments give
// equal streams, and any difference gives an unrelated one.
func NewRand(seed uint64, purpose string) *Rand {
	d := digest("rand "+purpose, seed, 0)
	return &Rand{binary.BigEndian.Uint64(d[:])}
}

// Fork returns the source of an index under this one, without drawing from it.
func (r *Rand) Fork(index uint64) *Rand {
	d := digest("fork", r.state, index)
	return &Rand{binary.BigEndian.Uint64(d[:])}
}

// Uint64 draws 64 bits.
func (r *Rand) Uint64() uint64 {
	r.state += 0x9e3779b97f4a7c15
	z := r.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// IntN draws from 0 … n−1; n must be positive.
func (r *Rand) IntN(n int) int {
	hi, _ := bits.Mul64(r.Uint64(), uint64(n))
	return int(hi)
}

// Between draws from lo … hi, both included.
func (r *Rand) Between(lo, hi int64) int64 {
	hi64, _ := bits.Mul64(r.Uint64(), uint64(hi-lo)+1)
	return lo + int64(hi64)
}

// Chance is true in perMille of 1,000 draws.
func (r *Rand) Chance(perMille int) bool { return r.IntN(1000) < perMille }

// Hex draws n bytes and returns their 2n lower-case hex digits.
func (r *Rand) Hex(n int) string {
	b := make([]byte, n)
	r.fill(b)
	return hex.EncodeToString(b)
}

// Read fills p and never fails.
func (r *Rand) Read(p []byte) (int, error) {
	r.fill(p)
	return len(p), nil
}

func (r *Rand) fill(p []byte) {
	var word [8]byte
	for len(p) > 0 {
		binary.LittleEndian.PutUint64(word[:], r.Uint64())
		p = p[copy(p, word[:]):]
	}
}

// Pick draws one of the choices.
func Pick[T any](r *Rand, choices []T) T { return choices[r.IntN(len(choices))] }
