package protocol

import (
	"encoding/hex"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// wireSig is a pre-signature or signature as the extras spell it.
type wireSig struct{ Nonce, S string }

func (w wireSig) parse() (nonce Point, s Scalar, ok bool) {
	nonce, okNonce := ParsePoint(w.Nonce)
	s, okS := ParseScalar(w.S)
	return nonce, s, okNonce && okS
}

func parseMsg(s string) ([]byte, bool) {
	digits, found := strings.CutPrefix(s, "0x")
	msg, err := hex.DecodeString(digits)
	return msg, found && err == nil
}

func TestConformanceAdaptor(t *testing.T) {
	seen := map[string]int{}
	for i, v := range extras[struct {
		PublicKey, Msg, Statement, Witness string
		Pre, Sig                           wireSig
		Extracted                          string
		VerifySignature                    bool
		Checks                             []struct {
			N, PublicKey, Msg, Statement string
			Pre                          wireSig
			OK                           bool
		}
	}](t, "adaptor.jsonl") {
		pub, ok1 := ParsePoint(v.PublicKey)
		msg, ok2 := parseMsg(v.Msg)
		statement, ok3 := ParsePoint(v.Statement)
		witness, ok4 := ParseSecret(v.Witness)
		preNonce, preS, ok5 := v.Pre.parse()
		sigNonce, sigS, ok6 := v.Sig.parse()
		extracted, ok7 := ParseSecret(v.Extracted)
		if !ok1 || !ok2 || !ok3 || !ok4 || !ok5 || !ok6 || !ok7 {
			t.Fatalf("line %d does not parse", i+1)
		}
		pre, sig := PreSignature{Nonce: preNonce, S: preS}, Signature{Nonce: sigNonce, S: sigS}

		if !PointStatement(statement).Opens(witness) {
			t.Errorf("line %d: the witness does not open the statement", i+1)
		}
		if got, err := Adapt(pre, witness); err != nil || got != sig {
			t.Errorf("line %d: Adapt = %v, %v", i+1, got, err)
		}
		if got, ok := ExtractWitness(pre, sig, statement); !ok || got != extracted {
			t.Errorf("line %d: ExtractWitness = %v, %v", i+1, got, ok)
		}
		if got := VerifySignature(pub, msg, sig); got != v.VerifySignature {
			t.Errorf("line %d: VerifySignature = %v", i+1, got)
		}
		for _, c := range v.Checks {
			seen[c.N]++
			pub, ok1 := ParsePoint(c.PublicKey)
			msg, ok2 := parseMsg(c.Msg)
			statement, ok3 := ParsePoint(c.Statement)
			nonce, s, ok4 := c.Pre.parse()
			got := ok1 && ok2 && ok3 && ok4 && VerifyPreSignature(pub, msg, statement, PreSignature{Nonce: nonce, S: s})
			if got != c.OK {
				t.Errorf("line %d, check %q: got %v", i+1, c.N, got)
			}
		}
	}
	// A check that vanished from the data would make this test weaker unseen.
	for _, name := range []string{"ok", "msg", "statement", "key", "s0", "short s", "nonce", "odd msg"} {
		if seen[name] != 12 {
			t.Errorf("check %q ran %d times", name, seen[name])
		}
	}
}

func TestAdaptorCycle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key, y, stranger := drawScalar(t, "key"), drawScalar(t, "witness"), drawScalar(t, "stranger")
		if key == y || key == stranger || y == stranger {
			t.Skip("the scalars must differ")
		}
		pub, _ := key.Point()
		statement, _ := y.Point()
		other, _ := stranger.Point()
		msg := rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(t, "msg")
		pre, err := PreSign(key, msg, statement, drawReader(t))
		if err != nil {
			t.Fatal(err)
		}
		if !VerifyPreSignature(pub, msg, statement, pre) {
			t.Fatal("the pre-signature does not verify")
		}
		sig, err := Adapt(pre, Secret(y))
		if err != nil || !VerifySignature(pub, msg, sig) {
			t.Fatalf("the completed signature does not verify: %v", err)
		}
		if got, ok := ExtractWitness(pre, sig, statement); !ok || got != Secret(y) {
			t.Fatalf("extracted %v, %v", got, ok)
		}

		// A pre-signature is no signature, and the reverse.
		if VerifySignature(pub, msg, Signature(pre)) || VerifyPreSignature(pub, msg, statement, PreSignature(sig)) {
			t.Fatal("one passes for the other")
		}
		longer := append(msg[:len(msg):len(msg)], 0)
		flipped := pre
		flipped.Nonce[0] ^= 1
		for name, verifies := range map[string]bool{
			"another message":   VerifyPreSignature(pub, longer, statement, pre) || VerifySignature(pub, longer, sig),
			"another key":       VerifyPreSignature(other, msg, statement, pre) || VerifySignature(other, msg, sig),
			"another statement": VerifyPreSignature(pub, msg, other, pre),
			"a negated nonce":   VerifyPreSignature(pub, msg, statement, flipped),
		} {
			if verifies {
				t.Fatalf("verifies with %s", name)
			}
		}
		bit := rapid.IntRange(0, 255).Draw(t, "bit")
		bent, bentSig := pre, sig
		bent.S[bit/8] ^= 1 << (bit % 8)
		bentSig.S[bit/8] ^= 1 << (bit % 8)
		if VerifyPreSignature(pub, msg, statement, bent) || VerifySignature(pub, msg, bentSig) {
			t.Fatal("verifies with a changed scalar")
		}
		if _, ok := ExtractWitness(pre, bentSig, statement); ok {
			t.Fatal("extracts from a changed signature")
		}

		// The wrong witness completes to something that nobody accepts.
		if wrong, err := Adapt(pre, Secret(stranger)); err == nil && VerifySignature(pub, msg, wrong) {
			t.Fatal("the wrong witness completes the signature")
		}

		// Extraction is tied to this pre-signature, not to any pair whose
		// scalars happen to differ by the witness.
		second, err := PreSign(key, longer, statement, seeded(99))
		if err != nil {
			t.Fatal(err)
		}
		foreign, err := Adapt(second, Secret(y))
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := ExtractWitness(pre, Signature{Nonce: foreign.Nonce, S: sig.S}, statement); ok {
			t.Fatal("extracts although the nonce is another pre-signature's")
		}
		if _, ok := ExtractWitness(pre, foreign, statement); ok {
			t.Fatal("extracts from another pre-signature's completion")
		}
		if _, ok := ExtractWitness(pre, sig, other); ok {
			t.Fatal("extracts for another statement")
		}
	})
}

// Nonce reuse over two messages gives a key away, so a source that repeats
// itself must not repeat a nonce.
func TestPreSignSurvivesARepeatingSource(t *testing.T) {
	statement, _ := Scalar{31: 9}.Point()
	other, _ := Scalar{31: 8}.Point()
	nonces := map[Point]string{}
	for name, sign := range map[string]func() (PreSignature, error){
		"first":             func() (PreSignature, error) { return PreSign(Scalar{31: 2}, []byte("a"), statement, zeros{}) },
		"another message":   func() (PreSignature, error) { return PreSign(Scalar{31: 2}, []byte("b"), statement, zeros{}) },
		"another statement": func() (PreSignature, error) { return PreSign(Scalar{31: 2}, []byte("a"), other, zeros{}) },
		"another key":       func() (PreSignature, error) { return PreSign(Scalar{31: 3}, []byte("a"), statement, zeros{}) },
		"another draw":      func() (PreSignature, error) { return PreSign(Scalar{31: 2}, []byte("a"), statement, seeded(1)) },
	} {
		pre, err := sign()
		if err != nil {
			t.Fatal(err)
		}
		if twin, twice := nonces[pre.Nonce]; twice {
			t.Errorf("%q and %q share a nonce", name, twin)
		}
		nonces[pre.Nonce] = name
	}
}

func TestAdaptorRefuses(t *testing.T) {
	g, _ := Scalar{31: 1}.Point()
	negG := g
	negG[0] ^= 1
	offCurve := Point{2, 32: 5}
	key := Scalar{31: 2}
	pub, _ := key.Point()
	pre, err := PreSign(key, nil, g, seeded(1))
	if err != nil {
		t.Fatal(err)
	}
	sig, err := Adapt(pre, Secret{31: 1})
	if err != nil {
		t.Fatal(err)
	}
	order := orderPlus(t, 0)
	minusOne := orderPlus(t, -1)

	for name, f := range map[string]func() error{
		"pre-sign with key 0":              func() error { _, err := PreSign(Scalar{}, nil, g, seeded(1)); return err },
		"pre-sign with key n":              func() error { _, err := PreSign(order, nil, g, seeded(1)); return err },
		"pre-sign off the curve":           func() error { _, err := PreSign(key, nil, offCurve, seeded(1)); return err },
		"pre-sign for no statement":        func() error { _, err := PreSign(key, nil, Point{}, seeded(1)); return err },
		"adapt with witness 0":             func() error { _, err := Adapt(pre, Secret{}); return err },
		"adapt with witness n":             func() error { _, err := Adapt(pre, order); return err },
		"adapt scalar 0":                   func() error { _, err := Adapt(PreSignature{Nonce: g}, Secret{31: 1}); return err },
		"adapt scalar n":                   func() error { _, err := Adapt(PreSignature{Nonce: g, S: order}, Secret{31: 1}); return err },
		"adapt a nonce off the curve":      func() error { _, err := Adapt(PreSignature{Nonce: offCurve, S: key}, Secret{31: 1}); return err },
		"adapt a nonce that cancels":       func() error { _, err := Adapt(PreSignature{Nonce: negG, S: key}, Secret{31: 1}); return err },
		"adapt to a completed scalar of 0": func() error { _, err := Adapt(PreSignature{Nonce: g, S: minusOne}, Secret{31: 1}); return err },
	} {
		if f() == nil {
			t.Errorf("%s: no error", name)
		}
	}

	for name, accepted := range map[string]bool{
		"pre, key off the curve":       VerifyPreSignature(offCurve, nil, g, pre),
		"pre, no key":                  VerifyPreSignature(Point{}, nil, g, pre),
		"pre, statement off the curve": VerifyPreSignature(pub, nil, offCurve, pre),
		"pre, nonce off the curve":     VerifyPreSignature(pub, nil, g, PreSignature{Nonce: offCurve, S: pre.S}),
		"pre, nonce cancels statement": VerifyPreSignature(pub, nil, g, PreSignature{Nonce: negG, S: pre.S}),
		"pre, scalar 0":                VerifyPreSignature(pub, nil, g, PreSignature{Nonce: pre.Nonce}),
		"pre, scalar n":                VerifyPreSignature(pub, nil, g, PreSignature{Nonce: pre.Nonce, S: order}),
		"sig, key off the curve":       VerifySignature(offCurve, nil, sig),
		"sig, nonce off the curve":     VerifySignature(pub, nil, Signature{Nonce: offCurve, S: sig.S}),
		"sig, scalar 0":                VerifySignature(pub, nil, Signature{Nonce: sig.Nonce}),
		"sig, scalar n":                VerifySignature(pub, nil, Signature{Nonce: sig.Nonce, S: order}),
	} {
		if accepted {
			t.Errorf("%s: verifies", name)
		}
	}

	for name, c := range map[string]struct {
		pre       PreSignature
		sig       Signature
		statement Point
	}{
		"statement off the curve": {pre, sig, offCurve},
		"pre scalar n":            {PreSignature{Nonce: pre.Nonce, S: order}, sig, g},
		"sig scalar n":            {pre, Signature{Nonce: sig.Nonce, S: order}, g},
		"equal scalars":           {pre, Signature{Nonce: sig.Nonce, S: pre.S}, g},
	} {
		if got, ok := ExtractWitness(c.pre, c.sig, c.statement); ok || got != (Secret{}) {
			t.Errorf("extract with %s: %v, %v", name, got, ok)
		}
	}
}
