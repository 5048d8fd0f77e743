package protocol

import (
	"bytes"
	"crypto/sha256"
	"io"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestSplitAndCombine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawReader(t)
		n := rapid.OneOf(rapid.IntRange(2, 5), rapid.IntRange(2, MaxShares)).Draw(t, "n")
		var (
			whole  Secret
			st     Statement
			shares []Secret
			err    error
			join   func(...Secret) (Secret, error)
		)
		if rapid.Bool().Draw(t, "point") {
			s := drawScalar(t, "witness")
			p, _ := s.Point()
			whole, st, join = Secret(s), PointStatement(p), CombineWitness
			shares, err = SplitWitness(whole, n, r)
		} else {
			whole = draw32(t, "preimage")
			st, join = HashStatement(sha256.Sum256(whole[:])), CombineSecret
			shares, err = SplitSecret(whole, n, r)
		}
		if err != nil || len(shares) != n {
			t.Fatalf("%d shares, %v", len(shares), err)
		}

		mixed := rapid.Permutation(shares).Draw(t, "order")
		got, err := join(mixed...)
		if err != nil || got != whole || !st.Opens(got) {
			t.Fatalf("all %d shares give %x, %v", n, got, err)
		}

		subset := mixed[:rapid.IntRange(1, n-1).Draw(t, "kept")]
		part, err := join(subset...)
		if err == nil && (part == whole || st.Opens(part)) {
			t.Fatalf("%d of %d shares open the lock", len(subset), n)
		}

		foreign := slices.Clone(mixed)
		foreign[0][31] ^= 1
		if wrong, err := join(foreign...); err == nil && st.Opens(wrong) {
			t.Fatal("opens with a changed share")
		}
	})
}

// Scalars that jurors mint on their own add up without anybody knowing the sum
// beforehand.
func TestCombineWitnessOfOwnScalars(t *testing.T) {
	got, err := CombineWitness(Secret{31: 5}, Secret{31: 250}, orderPlus(t, -1))
	if want := (Secret{31: 254}); err != nil || got != want {
		t.Fatalf("got %x, %v", got, err)
	}
}

func TestSharesRefuse(t *testing.T) {
	many := make([]Secret, MaxShares+1)
	for i := range many {
		many[i] = Secret{0: 1, 30: byte(i >> 8), 31: byte(i)}
	}
	for name, f := range map[string]func() error{
		"split a secret for one":     func() error { _, err := SplitSecret(Secret{1}, 1, seeded(1)); return err },
		"split a secret for -1":      func() error { _, err := SplitSecret(Secret{1}, -1, seeded(1)); return err },
		"split a secret for 256":     func() error { _, err := SplitSecret(Secret{1}, MaxShares+1, seeded(1)); return err },
		"split a witness for one":    func() error { _, err := SplitWitness(Secret{1}, 1, seeded(1)); return err },
		"split a witness for 256":    func() error { _, err := SplitWitness(Secret{1}, MaxShares+1, seeded(1)); return err },
		"split a witness of 0":       func() error { _, err := SplitWitness(Secret{}, 3, seeded(1)); return err },
		"split a witness of n":       func() error { _, err := SplitWitness(orderPlus(t, 0), 3, seeded(1)); return err },
		"combine no secret shares":   func() error { _, err := CombineSecret(); return err },
		"combine no witness shares":  func() error { _, err := CombineWitness(); return err },
		"combine 256 secret shares":  func() error { _, err := CombineSecret(many...); return err },
		"combine 256 witness shares": func() error { _, err := CombineWitness(many...); return err },
		"one secret share twice":     func() error { _, err := CombineSecret(Secret{1}, Secret{2}, Secret{1}); return err },
		"one witness share twice":    func() error { _, err := CombineWitness(Secret{1}, Secret{2}, Secret{1}); return err },
		"a witness share of 0":       func() error { _, err := CombineWitness(Secret{1}, Secret{}); return err },
		"a witness share of n":       func() error { _, err := CombineWitness(Secret{1}, orderPlus(t, 0)); return err },
		"witness shares that add up to 0": func() error {
			_, err := CombineWitness(Secret{31: 1}, orderPlus(t, -1))
			return err
		},
		// A source of zeros would give the last juror the secret itself.
		"split a secret with zeros": func() error { _, err := SplitSecret(Secret{1}, 2, zeros{}); return err },
		"split a secret with a source that repeats itself": func() error {
			_, err := SplitSecret(Secret{1}, 3, repeating{0xab})
			return err
		},
		"split a witness with a source that repeats itself": func() error {
			_, err := SplitWitness(Secret{1}, 3, repeating{0x0b})
			return err
		},
		// The only share drawn is the witness, which leaves 0 for the other.
		"split a witness with itself": func() error { _, err := SplitWitness(bytes32Of(7), 2, repeating{7}); return err },
	} {
		if err := f(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if shares, err := SplitSecret(Secret{1}, MaxShares, seeded(1)); err != nil || len(shares) != MaxShares {
		t.Errorf("the largest committee: %d shares, %v", len(shares), err)
	}
}

// The last share of a split is retried where it would be 0.
func TestSplitWitnessRetriesZero(t *testing.T) {
	first, second := bytes.Repeat([]byte{7}, 32), bytes.Repeat([]byte{9}, 32)
	shares, err := SplitWitness(bytes32Of(7), 2, io.MultiReader(bytes.NewReader(first), bytes.NewReader(second)))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := CombineWitness(shares...); err != nil || got != bytes32Of(7) || shares[0] != bytes32Of(9) {
		t.Fatalf("got %x from %x, %v", got, shares, err)
	}
}

func bytes32Of(c byte) (s Secret) {
	copy(s[:], bytes.Repeat([]byte{c}, 32))
	return s
}

// repeating answers with one byte for ever.
type repeating struct{ c byte }

func (r repeating) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = r.c
	}
	return len(p), nil
}
