package verify

import (
	"strconv"

	"github.com/tclk-audit/tclk-audit/protocol"
)

// Budget bounds how many signatures Repair and OtherRoom may check, over as
// many rows as it is handed to. It is not for concurrent use.
type Budget struct{ left int }

// NewBudget returns a budget of that many checks.
func NewBudget(checks int) *Budget { return &Budget{left: max(0, checks)} }

// Left returns how many checks remain.
func (b *Budget) Left() int { return b.left }

// spend takes one check and reports whether there was one to take.
func (b *Budget) spend() bool {
	if b.left == 0 {
		return false
	}
	b.left--
	return true
}

const (
	// nonceDigits is the most that the venue takes in a nonce as sent, zeros
	// included; nothing longer can have been signed there.
	nonceDigits = 19
	largest     = 9999999999999999999
	// Doubles tell integers up to 2^53 apart, a number of 16 digits; repairs
	// begin one digit above.
	leastRounded = 17
)

// Repair looks for the nonce that the author of a row signed, where the row
// fails with SignatureInvalid as written. It tries what venues and archives
// are known to do to a nonce:
//
//   - leading zeros dropped: every zero-padded spelling of up to 19 digits, the
//     most that the venue takes;
//   - passed through a double: for nonces of 17 to 19 digits (and 10^19, which
//     is what doubles make of the largest of them), every integer of up to 19
//     digits that rounds to the same double, those nearest to the written one
//     first. Some languages write a double's shortest digits and fill up with
//     zeros, so 1789061374248692500 may stand for any of 255 nonces; at most
//     2,049 share one double.
//
// The nonce as written is not tried again. ok tells whether a nonce was found
// under which the signature holds in the row's own room; untried that the
// budget ran out first. A row whose form is wrong has nothing to try.
func (v *Verifier) Repair(r *protocol.Record, b *Budget) (nonce string, ok, untried bool) {
	var sig [64]byte
	key, reason := v.forms(r, &sig)
	if reason != protocol.ReasonNone {
		return "", false, false
	}
	var s spellings
	s.of(r.Nonce)
	var t trial
	if n := min(b.left, s.count); n > 0 && !v.engine.trial(&t, key, &sig, n) {
		return "", false, false
	}
	for s.next() {
		if !b.spend() {
			return "", false, true
		}
		if t.covers(v.covered(r, key, &sig, s.text)) {
			return string(s.text), true, false
		}
	}
	return "", false, false
}

// OtherRoom looks for a room among rooms in which the signature of a row holds
// as written, where it fails in its own. The row's own room and names that no
// room can have are passed over. It returns "" if there is none; untried tells
// that the budget ran out before the last room.
func (v *Verifier) OtherRoom(r *protocol.Record, rooms []string, b *Budget) (room string, untried bool) {
	var sig [64]byte
	key, reason := v.forms(r, &sig)
	if reason != protocol.ReasonNone {
		return "", false
	}
	var t trial
	if n := min(b.left, len(rooms)); n > 0 && !v.engine.trial(&t, key, &sig, n) {
		return "", false
	}
	elsewhere := *r
	for _, room := range rooms {
		if room == r.Room || !protocol.ValidRoom(room) {
			continue
		}
		if !b.spend() {
			return "", true
		}
		elsewhere.Room = room
		if t.covers(v.covered(&elsewhere, key, &sig, r.Nonce)) {
			return room, false
		}
	}
	return "", false
}

// spellings walks the nonces that may have been signed where another is
// written. text is the one at hand, good until the next call of next.
type spellings struct {
	text  []byte
	count int // an upper bound on how many there are

	written     []byte
	zeros       int    // of the last padded spelling
	value       uint64 // of the written nonce, 0 where no rounding is undone
	distance    uint64 // from value, of the last integers tried
	down, up    bool   // integers below and above may still round like value
	upNext      bool   // value+distance is the next one
	buf         [nonceDigits]byte
	sameRounded float64
}

func (s *spellings) of(written []byte) {
	*s = spellings{written: written}
	s.count = max(0, nonceDigits-len(written))
	if len(written) < leastRounded || len(written) > nonceDigits+1 {
		return
	}
	value, err := strconv.ParseUint(string(written), 10, 64)
	if err != nil {
		return
	}
	s.value, s.sameRounded = value, float64(value)
	s.down, s.up = true, true
	s.count += s.width()
}

// width returns how many integers beside the value may round as it does: the
// distance between doubles of its size.
func (s *spellings) width() int {
	spacing := 1
	for f := s.sameRounded; f >= 1<<53; f /= 2 {
		spacing *= 2
	}
	return spacing
}

// next moves to the next spelling and reports whether there is one.
func (s *spellings) next() bool {
	if len(s.written)+s.zeros < nonceDigits {
		s.zeros++
		s.text = s.buf[:0]
		for range s.zeros {
			s.text = append(s.text, '0')
		}
		s.text = append(s.text, s.written...)
		return true
	}
	// Integers round alike in one run around the value: each way, the first
	// that rounds otherwise ends the search.
	for s.down || s.up {
		var n uint64
		if s.upNext {
			s.upNext = false
			n = s.value + s.distance
			if !s.up || n < s.value || float64(n) != s.sameRounded {
				s.up = false
				continue
			}
		} else {
			s.upNext = true
			s.distance++
			n = s.value - s.distance
			if !s.down || n > s.value || float64(n) != s.sameRounded {
				s.down = false
				continue
			}
		}
		if n <= largest {
			s.text = strconv.AppendUint(s.buf[:0], n, 10)
			return true
		}
	}
	return false
}
