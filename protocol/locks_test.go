package protocol

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var (
	fieldPrime, _ = new(big.Int).SetString("fffffffffffffffffffffffffffffffffffffffffffffffffffffffefffffc2f", 16)
	groupOrder, _ = new(big.Int).SetString("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141", 16)
)

// bytes32 is the big-endian form of a number that fits.
func bytes32(t interface{ Fatalf(string, ...any) }, n *big.Int) (b [32]byte) {
	if n.Sign() < 0 || n.BitLen() > 256 {
		t.Fatalf("%v does not fit 32 bytes", n)
	}
	n.FillBytes(b[:])
	return b
}

func orderPlus(t testing.TB, d int64) [32]byte {
	return bytes32(t, new(big.Int).Add(groupOrder, big.NewInt(d)))
}

func mustPointHex(t testing.TB, s string) (p Point) {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != 33 {
		t.Fatalf("bad point in test: %q", s)
	}
	copy(p[:], b)
	return p
}

// seeded gives a reproducible source of the quality that builders ask for.
func seeded(seed uint64) io.Reader {
	var s [32]byte
	for i := range 8 {
		s[i] = byte(seed >> (8 * i))
	}
	return rand.NewChaCha8(s)
}

func drawReader(t *rapid.T) io.Reader { return seeded(rapid.Uint64().Draw(t, "seed")) }

func draw32(t *rapid.T, label string) (b [32]byte) {
	copy(b[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, label))
	return b
}

func drawScalar(t *rapid.T, label string) Scalar {
	for i := 0; ; i++ {
		if s := Scalar(draw32(t, label)); s.Valid() {
			return s
		}
		if i == 100 {
			t.Fatal("no valid scalar in 100 draws")
		}
	}
}

func TestPointValid(t *testing.T) {
	// The curve's x coordinates are those where x³+7 is a square, so a small
	// one plus the prime still fits 32 bytes and must be refused as no point.
	smallX := new(big.Int)
	for ; ; smallX.Add(smallX, big.NewInt(1)) {
		if y2 := curveRight(smallX); big.Jacobi(y2, fieldPrime) == 1 {
			break
		}
	}
	small := Point{2}
	*(*[32]byte)(small[1:]) = bytes32(t, smallX)
	wrapped := Point{2}
	*(*[32]byte)(wrapped[1:]) = bytes32(t, new(big.Int).Add(smallX, fieldPrime))

	g := "79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"
	for _, c := range []struct {
		name string
		p    Point
		want bool
	}{
		{"generator, even", mustPointHex(t, "02"+g), true},
		{"generator, odd", mustPointHex(t, "03"+g), true},
		{"smallest x on the curve", small, true},
		{"the same x plus the field prime", wrapped, false},
		{"absent", Point{}, false},
		{"x of zero", Point{2}, false},
		{"form byte 04", mustPointHex(t, "04"+g), false},
		{"form byte 00", mustPointHex(t, "00"+g), false},
		{"form byte 05", mustPointHex(t, "05"+g), false},
		{"x not below the field prime", mustPointHex(t, "02"+strings.Repeat("ff", 32)), false},
		{"off the curve", mustPointHex(t, "02"+strings.Repeat("00", 31)+"05"), false},
	} {
		if got := c.p.Valid(); got != c.want {
			t.Errorf("%s: Valid() = %v", c.name, got)
		}
	}
}

func curveRight(x *big.Int) *big.Int {
	y2 := new(big.Int).Exp(x, big.NewInt(3), fieldPrime)
	y2.Add(y2, big.NewInt(7))
	return y2.Mod(y2, fieldPrime)
}

// The curve equation in plain big integers is the oracle.
func TestPointValidAgreesWithTheEquation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := draw32(t, "x")
		n := new(big.Int).SetBytes(x[:])
		want := n.Cmp(fieldPrime) < 0 && big.Jacobi(curveRight(n), fieldPrime) != -1
		for _, form := range []byte{2, 3} {
			p := Point{form}
			copy(p[1:], x[:])
			if got := p.Valid(); got != want {
				t.Fatalf("form %d: Valid() = %v, the equation says %v", form, got, want)
			}
		}
	})
}

func TestScalarPoint(t *testing.T) {
	g := "79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"
	for _, c := range []struct {
		name string
		s    Scalar
		want string // "" for none
	}{
		{"one", Scalar{31: 1}, "02" + g},
		{"two", Scalar{31: 2}, "02c6047f9441ed7d6d3045406e95c07cd85c778e4b8cef3ca7abac09b95c709ee5"},
		{"order minus one", orderPlus(t, -1), "03" + g},
		{"zero", Scalar{}, ""},
		{"the order", orderPlus(t, 0), ""},
		{"order plus one", orderPlus(t, 1), ""},
		{"all ones", Scalar(bytes.Repeat([]byte{0xff}, 32)), ""},
	} {
		p, ok := c.s.Point()
		if ok != (c.want != "") || ok != c.s.Valid() {
			t.Errorf("%s: ok = %v, Valid = %v", c.name, ok, c.s.Valid())
		} else if ok && hex.EncodeToString(p[:]) != c.want {
			t.Errorf("%s: got %x", c.name, p)
		}
	}
}

func TestOpens(t *testing.T) {
	var preimage Secret
	copy(preimage[:], "thirty-two bytes of a preimage..")
	hash := HashStatement(sha256.Sum256(preimage[:]))
	one := Secret{31: 1}
	g, _ := Scalar(one).Point()
	pointAt1 := PointStatement(g)
	negG := g
	negG[0] ^= 1

	for _, c := range []struct {
		name   string
		st     Statement
		secret Secret
		want   bool
	}{
		{"hash, its preimage", hash, preimage, true},
		{"hash, another preimage", hash, one, false},
		{"hash of zeros, zeros", HashStatement(sha256.Sum256(make([]byte, 32))), Secret{}, true},
		{"point, its scalar", pointAt1, one, true},
		{"point, another scalar", pointAt1, Secret{31: 2}, false},
		{"point, the negated scalar", pointAt1, orderPlus(t, -1), false},
		{"negated point, the negated scalar", PointStatement(negG), orderPlus(t, -1), true},
		// order+1 is 1 to whoever reduces; it is no scalar here.
		{"point, its scalar plus the order", pointAt1, orderPlus(t, 1), false},
		{"point, zero", pointAt1, Secret{}, false},
		{"point, the order", pointAt1, orderPlus(t, 0), false},
		{"point off the curve", PointStatement(Point{2, 32: 5}), one, false},
		{"absent point as a statement", PointStatement(Point{}), Secret{}, false},
		{"absent statement", Statement{}, preimage, false},
		{"absent statement, zeros", Statement{}, Secret{}, false},
	} {
		if got := c.st.Opens(c.secret); got != c.want {
			t.Errorf("%s: Opens = %v", c.name, got)
		}
	}
}

func TestStatementValidAndPoint(t *testing.T) {
	g, _ := Scalar{31: 1}.Point()
	for _, c := range []struct {
		name           string
		st             Statement
		valid, isPoint bool
	}{
		{"hash", HashStatement([32]byte{}), true, false},
		{"point", PointStatement(g), true, true},
		{"point off the curve", PointStatement(Point{2, 32: 5}), false, true},
		{"absent", Statement{}, false, false},
	} {
		if got := c.st.Valid(); got != c.valid {
			t.Errorf("%s: Valid = %v", c.name, got)
		}
		p, ok := c.st.Point()
		if ok != c.isPoint || (ok && !bytes.Equal(p[:], c.st.Bytes())) {
			t.Errorf("%s: Point = %x, %v", c.name, p, ok)
		}
	}
}

// Opening compares points without compressing them; compressing is the oracle.
func TestOpensAgreesWithCompression(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawScalar(t, "a"), drawScalar(t, "b")
		pa, _ := a.Point()
		pb, _ := b.Point()
		if !PointStatement(pa).Opens(Secret(a)) {
			t.Fatal("a scalar does not open its own point")
		}
		if got := PointStatement(pa).Opens(Secret(b)); got != (pa == pb) {
			t.Fatalf("Opens = %v for points %x and %x", got, pa, pb)
		}
	})
}

func TestGenerateLocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawReader(t)
		secret, st, err := GenerateHashLock(r)
		if err != nil || st.Kind() != LockHash || !st.Opens(secret) {
			t.Fatalf("hash lock: %v, kind %v", err, st.Kind())
		}
		witness, pst, err := GeneratePointLock(r)
		if err != nil || pst.Kind() != LockPoint || !pst.Opens(witness) {
			t.Fatalf("point lock: %v, kind %v", err, pst.Kind())
		}
		if st.Opens(witness) || pst.Opens(secret) {
			t.Fatal("one lock's secret opens the other")
		}
		key, pub, err := GeneratePaymentKey(r)
		if p, ok := key.Point(); err != nil || !ok || p != pub {
			t.Fatalf("payment key: %v", err)
		}
	})
}

// A draw that is no scalar is thrown away, not reduced.
func TestMintingSkipsNonScalars(t *testing.T) {
	order := orderPlus(t, 0)
	good := Scalar{31: 7}
	stream := append(append(append([]byte(nil), make([]byte, 32)...), order[:]...), good[:]...)
	witness, _, err := GeneratePointLock(bytes.NewReader(stream))
	if err != nil || Scalar(witness) != good {
		t.Fatalf("got %x, %v", witness, err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// silent is a source that neither reads nor fails.
type silent struct{}

func (silent) Read([]byte) (int, error) { return 0, nil }

// liar claims more bytes than it was asked for.
type liar struct{}

func (liar) Read(p []byte) (int, error) { return len(p) + 1, nil }

var errSource = errors.New("source is broken")

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errSource }

// dribble hands out one byte a call, with empty reads between, and its last
// byte together with io.EOF.
type dribble struct {
	rest []byte
	idle bool
}

func (d *dribble) Read(p []byte) (int, error) {
	if d.idle = !d.idle; d.idle {
		return 0, nil
	}
	p[0] = d.rest[0]
	if d.rest = d.rest[1:]; len(d.rest) == 0 {
		return 1, io.EOF
	}
	return 1, nil
}

func TestRandomSourceFaults(t *testing.T) {
	for _, c := range []struct {
		name string
		r    io.Reader
		is   error // nil: any error
	}{
		{"fails", failing{}, errSource},
		{"ends early", strings.NewReader("too short"), io.EOF},
		{"never answers", silent{}, nil},
		{"lies about its count", liar{}, nil},
		{"absent", nil, nil},
	} {
		for name, mint := range map[string]func(io.Reader) error{
			"GenerateHashLock":   func(r io.Reader) error { _, _, err := GenerateHashLock(r); return err },
			"GeneratePointLock":  func(r io.Reader) error { _, _, err := GeneratePointLock(r); return err },
			"GeneratePaymentKey": func(r io.Reader) error { _, _, err := GeneratePaymentKey(r); return err },
			"GenerateSalt":       func(r io.Reader) error { _, err := GenerateSalt(r); return err },
			"SplitSecret":        func(r io.Reader) error { _, err := SplitSecret(Secret{1}, 3, r); return err },
			"SplitWitness":       func(r io.Reader) error { _, err := SplitWitness(Secret{1}, 3, r); return err },
			"PreSign": func(r io.Reader) error {
				g, _ := Scalar{31: 1}.Point()
				_, err := PreSign(Scalar{31: 2}, nil, g, r)
				return err
			},
		} {
			err := mint(c.r)
			if err == nil || (c.is != nil && !errors.Is(err, c.is)) {
				t.Errorf("%s with a source that %s: %v", name, c.name, err)
			}
		}
	}
	if _, _, err := GeneratePointLock(zeros{}); err == nil {
		t.Error("a source of zeros gave a point lock")
	}
}

func TestSlowSourceIsReadInFull(t *testing.T) {
	want := []byte("0123456789abcdef0123456789abcdef")
	secret, _, err := GenerateHashLock(&dribble{rest: append([]byte(nil), want...)})
	if err != nil || !bytes.Equal(secret[:], want) {
		t.Fatalf("got %q, %v", secret, err)
	}
}
