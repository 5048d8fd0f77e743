package verify

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"math/big"
	"slices"
	"testing"

	"github.com/hdevalence/ed25519consensus"

	"github.com/tclk-audit/tclk-audit/protocol"
)

// vector is a record made of a key and a signature that were put together by
// hand, and what ZIP-215 says of it.
type vector struct {
	name  string
	row   protocol.Record
	valid bool
}

// verdict is the answer that the vector must get.
func (v *vector) verdict() Result {
	want := verdict(v.valid)
	want.NotStrict = v.valid && !Strict(&v.row)
	return want
}

func row(nonce, text string) protocol.Record {
	return protocol.Record{Room: "mb-p-tclk-fedcba9876543210", Nonce: []byte(nonce), Text: []byte(text)}
}

func assembled(name string, valid bool, r protocol.Record, key [32]byte, sigR, sigS [32]byte) vector {
	r.From = []byte(EncodeDID(key))
	r.Sig = base64.RawURLEncoding.AppendEncode(nil, slices.Concat(sigR[:], sigS[:]))
	return vector{name, r, valid}
}

// vectors returns the cases on which Ed25519 libraries differ: more than the
// 259 that the choice of the library was made by.
func vectors(t testing.TB) []vector {
	t.Helper()
	var all []vector
	zero := [32]byte{}
	small := smallOrderEncodings()
	if len(small) != 14 {
		t.Fatalf("%d encodings of small-order points, want 14", len(small))
	}

	// 196: every encoding of a small-order point as A and as R, s = 0. All hold.
	for i, a := range small {
		for j, r := range small {
			all = append(all, assembled(fmt.Sprintf("A=%d,R=%d of small order", i, j), true, row("1", "Zcash"), a, r, zero))
		}
	}
	// With s = 1 none of them does.
	for i, a := range small {
		all = append(all, assembled(fmt.Sprintf("A=%d of small order, s=1", i), false, row("1", "Zcash"), a, small[i], littleEndian(big.NewInt(1))))
	}
	// Small-order A with a true R = sB holds, whatever the message.
	ten := big.NewInt(10)
	for i, a := range small {
		r := basePt.wide().times(ten).affine().encode()
		all = append(all, assembled(fmt.Sprintf("A=%d of small order, R=sB", i), true, row("2", "anything"), a, r, littleEndian(ten)))
	}
	// Small-order R, under a true key: s = ka.
	secret := big.NewInt(987654321987654321)
	trueKey := basePt.wide().times(secret).affine().encode()
	for i, r := range small {
		rec := row("3", "s = ka")
		s := new(big.Int).Mod(mul(challenge(r[:], trueKey[:], rec.AppendMessage(nil, rec.Nonce)), secret), orderL)
		all = append(all, assembled(fmt.Sprintf("R=%d of small order", i), true, rec, trueKey, r, littleEndian(s)))
	}
	// 64: A and R each with every torsion part; an honest s for the honest
	// parts holds under the cofactored rule alone. Beside each the same with a
	// wrong s, and with s not reduced.
	for i, ta := range torsion() {
		for j, tr := range torsion() {
			nonce := big.NewInt(int64(1000 + 8*i + j))
			a := basePt.wide().times(secret).plus(ta.wide()).affine().encode()
			r := basePt.wide().times(nonce).plus(tr.wide()).affine().encode()
			rec := row(fmt.Sprint(10+8*i+j), "mixed order")
			k := challenge(r[:], a[:], rec.AppendMessage(nil, rec.Nonce))
			s := new(big.Int).Mod(add(nonce, mul(k, secret)), orderL)
			all = append(all,
				assembled(fmt.Sprintf("A+T%d, R+T%d", i, j), true, rec, a, r, littleEndian(s)),
				assembled(fmt.Sprintf("A+T%d, R+T%d, s+1", i, j), false, rec, a, r, littleEndian(new(big.Int).Mod(add(s, big.NewInt(1)), orderL))),
				assembled(fmt.Sprintf("A+T%d, R+T%d, s+L", i, j), false, rec, a, r, littleEndian(add(s, orderL))))
			if seven := add(s, mul(big.NewInt(7), orderL)); seven.BitLen() <= 256 {
				all = append(all, assembled(fmt.Sprintf("A+T%d, R+T%d, s+7L", i, j), false, rec, a, r, littleEndian(seven)))
			}
		}
	}
	// s = L and its neighbours, where s = 0 would hold.
	for d := int64(-1); d <= 1; d++ {
		all = append(all, assembled(fmt.Sprintf("s=L%+d", d), false, row("4", "x"), small[0], small[0], littleEndian(add(orderL, big.NewInt(d)))))
	}
	all = append(all, assembled("s all ones", false, row("4", "x"), small[0], small[0], [32]byte(bytes.Repeat([]byte{0xff}, 32))))
	// Points that are not on the curve, as A and as R; and the y from p on,
	// which fold to 0 … 18, the second spelling of a few points.
	off := 0
	for y := int64(0); y < 40; y++ {
		b := littleEndian(big.NewInt(y))
		if y >= 20 {
			b = littleEndian(add(fieldP, big.NewInt(y-20)))
			if y == 39 {
				break
			}
		}
		_, on := decodePoint(b)
		if !on {
			off++
		}
		all = append(all,
			assembled(fmt.Sprintf("A: y=%d", y), on && zip215(b, []byte("mb-p-tclk-fedcba9876543210|5|y"), [64]byte(slices.Concat(small[0][:], zero[:]))), row("5", "y"), b, small[0], zero),
			assembled(fmt.Sprintf("R: y=%d", y), on && zip215(small[0], []byte("mb-p-tclk-fedcba9876543210|5|y"), [64]byte(slices.Concat(b[:], zero[:]))), row("5", "y"), small[0], b, zero))
	}
	if off == 0 {
		t.Fatal("every y tried is on the curve")
	}
	// Honest rows, and each with one bit of one part turned.
	for i := range 8 {
		good := row(fmt.Sprint(100+i), "an honest row")
		Sign(testKey(fmt.Sprint("honest", i)), &good)
		all = append(all, vector{fmt.Sprintf("honest %d", i), good, true})
		text, nonce, room, sig := good, good, good, good
		text.Text = []byte("an honest roW")
		nonce.Nonce = []byte(fmt.Sprint(101 + i))
		room.Room = "mb-p-tclk-fedcba9876543211"
		sig.Sig = slices.Clone(good.Sig)
		sig.Sig[i*10] ^= 'A' ^ 'B'
		if _, ok := DecodeSignature(sig.Sig); !ok {
			sig.Sig[i*10] = 'A'
		}
		all = append(all,
			vector{fmt.Sprintf("honest %d, other text", i), text, false},
			vector{fmt.Sprintf("honest %d, other nonce", i), nonce, false},
			vector{fmt.Sprintf("honest %d, other room", i), room, false},
			vector{fmt.Sprintf("honest %d, other signature", i), sig, bytes.Equal(sig.Sig, good.Sig)})
	}
	return all
}

// parts takes a well-formed row apart for another judge.
func parts(t testing.TB, r *protocol.Record) (key [32]byte, message []byte, sig [64]byte) {
	t.Helper()
	key, okKey := DecodeDID(r.From)
	sig, okSig := DecodeSignature(r.Sig)
	if !okKey || !okSig {
		t.Fatalf("not a well-formed row: %s %s", r.From, r.Sig)
	}
	return key, r.AppendMessage(nil, r.Nonce), sig
}

func verdict(valid bool) Result {
	if valid {
		return Result{Class: Authentic}
	}
	return Result{Class: Invalid, Reason: protocol.SignatureInvalid}
}

// Every judge gives the answer that ZIP-215 demands, and crypto/ed25519 accepts
// nothing beyond it.
func TestVectors(t *testing.T) {
	v := New()
	strict, valid := 0, 0
	for _, vec := range vectors(t) {
		key, message, sig := parts(t, &vec.row)
		if got := zip215(key, message, sig); got != vec.valid {
			t.Fatalf("%s: the definition says %v, the vector %v", vec.name, got, vec.valid)
		}
		if got := ed25519consensus.Verify(ed25519.PublicKey(key[:]), message, sig[:]); got != vec.valid {
			t.Errorf("%s: ed25519consensus says %v, want %v", vec.name, got, vec.valid)
		}
		if got := v.Check(&vec.row); got != vec.verdict() {
			t.Errorf("%s: Check = %+v, want valid %v", vec.name, got, vec.valid)
		}
		if got := Strict(&vec.row); got != ed25519.Verify(key[:], message, sig[:]) {
			t.Errorf("%s: Strict = %v, crypto/ed25519 says otherwise", vec.name, got)
		} else if got {
			strict++
			if !vec.valid {
				t.Errorf("%s: crypto/ed25519 accepts what ZIP-215 refuses", vec.name)
			}
		}
		if vec.valid {
			valid++
		}
	}
	if strict < 8 || strict >= valid {
		t.Errorf("crypto/ed25519 accepts %d of the %d valid vectors: they do not tell the two rules apart", strict, valid)
	}
}

// In a batch of any size, among any others, each vector keeps its answer.
func TestVectorsInBatches(t *testing.T) {
	all := vectors(t)
	for _, size := range []int{1, 2, 3, 16, 64, 256, len(all)} {
		for _, order := range []string{"as they stand", "valid first"} {
			vecs := slices.Clone(all)
			if order == "valid first" {
				slices.SortStableFunc(vecs, func(a, b vector) int {
					if a.valid == b.valid {
						return 0
					} else if a.valid {
						return -1
					}
					return 1
				})
			}
			v := New()
			for group := range slices.Chunk(vecs, size) {
				v.pace = newPace() // so that each group is tried as one batch
				v.pace.size = size
				rows := make([]protocol.Record, len(group))
				for i := range group {
					rows[i] = group[i].row
				}
				out := make([]Result, len(rows))
				v.CheckBatch(rows, out)
				for i := range group {
					if out[i] != group[i].verdict() {
						t.Errorf("batches of %d, %s: %s: %+v, want valid %v", size, order, group[i].name, out[i], group[i].valid)
					}
				}
			}
		}
	}
}

// The batch equation itself holds for all valid vectors together, and for no
// batch with one invalid vector in it: nothing is left to the row by row check.
func TestBatchEquation(t *testing.T) {
	v := New()
	var good, bad []equation
	for _, vec := range vectors(t) {
		var sig [64]byte
		key, reason := v.forms(&vec.row, &sig)
		if reason != protocol.ReasonNone {
			t.Fatalf("%s: %v", vec.name, reason)
		}
		var eq equation
		if !eq.set(key, &sig, v.covered(&vec.row, key, &sig, vec.row.Nonce)) {
			if vec.valid {
				t.Errorf("%s: a valid signature cannot be decoded", vec.name)
			}
			continue
		}
		if vec.valid {
			good = append(good, eq)
		} else {
			bad = append(bad, eq)
		}
	}
	if len(bad) == 0 {
		t.Fatal("no bad equation to try")
	}
	for n := 1; n <= len(good); n += 1 + n/3 {
		if !v.engine.allHold(good[:n]) {
			t.Errorf("the first %d valid vectors do not hold together", n)
		}
	}
	if !v.engine.allHold(good) {
		t.Error("the valid vectors do not hold together")
	}
	for i, eq := range bad {
		at := i % len(good)
		if v.engine.allHold(slices.Concat(good[:at], []equation{eq}, good[at:min(len(good), at+20)])) {
			t.Errorf("bad equation %d passes in a batch", i)
		}
	}
	// Two wrongs that cancel in a plain sum: s one up in one row, one down in
	// another. Only the weights show them.
	up, down := signedRows(1, 1)[0], signedRows(2, 1)[1]
	for i, r := range []*protocol.Record{&up, &down} {
		key, _, sig := parts(t, r)
		s := fromLittleEndian(sig[32:])
		s = new(big.Int).Mod(add(s, big.NewInt(int64(1-2*i))), orderL)
		*r = assembled("", false, *r, key, [32]byte(sig[:32]), littleEndian(s)).row
	}
	out := make([]Result, 2)
	v.CheckBatch([]protocol.Record{up, down}, out)
	if out[0] != verdict(false) || out[1] != verdict(false) {
		t.Errorf("two errors that cancel pass: %+v", out)
	}
}

// A row is repaired, and found in another room, by the same rule: the shorter
// way in which candidates are tried agrees with Check on every vector.
func TestVectorsAsCandidates(t *testing.T) {
	v := New()
	for i, vec := range vectors(t) {
		// The signed room becomes "another" one. With few rooms to try each is
		// checked in full, with many by way of a table.
		few := []string{vec.row.Room}
		many := []string{"a", "b", "c", "d", "e", "f", "g", vec.row.Room}
		moved := vec.row
		moved.Room = "lobby"
		if v.Check(&moved).Class == Authentic {
			continue // a key of small order may hold in any room
		}
		for _, rooms := range [][]string{few, many} {
			if i%2 == 0 {
				v.engine = engine{} // no tables yet
			}
			got, untried := v.OtherRoom(&moved, rooms, NewBudget(100))
			// Small-order keys may hold in one of the others.
			want := ""
			for _, room := range rooms {
				elsewhere := vec.row
				elsewhere.Room = room
				if v.Check(&elsewhere).Class == Authentic {
					want = room
					break
				}
			}
			if got != want || untried {
				t.Errorf("%s: OtherRoom(%d rooms) = %q, %v, want %q", vec.name, len(rooms), got, untried, want)
			}
		}
	}
}
