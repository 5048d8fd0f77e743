package protocol

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Members stand in the order of their names, by which the decoder judges
// whether a line is canonical.
func TestFieldsAreSorted(t *testing.T) {
	if !slices.IsSorted(fieldNames[:]) {
		t.Errorf("the fields are not in order: %q", fieldNames)
	}
	for i, name := range fieldNames {
		if f := fieldOf([]byte(name)); f != field(i) {
			t.Errorf("%s is field %d, want %d", name, f, i)
		}
	}
}

// The tables of members say what SPEC §3's does.
func TestFrameShapes(t *testing.T) {
	for ft := TypeOffer; ft <= TypeHeartbeat; ft++ {
		want := naiveMembers[ft.String()]
		for i, set := range []fieldSet{frameShapes[ft].required, frameShapes[ft].optional} {
			names := strings.Fields(want[i])
			slices.Sort(names)
			if got := set.list(); got != strings.Join(names, ", ") {
				t.Errorf("%s: members %s, want %s", ft, got, strings.Join(names, ", "))
			}
		}
	}
}

func TestEncode(t *testing.T) {
	offer := func(change func(*Offer)) *Offer {
		o := &Offer{From: testPayer, Role: RolePayer, Amount: "1", Asset: "A", Lock: LockHash, Rails: []string{"paper", "flop-htlc"},
			ClaimByMs: 5, RefundAfterMs: 6, ExpiresMs: 4, Nonce: "00aa11bb"}
		change(o)
		if o.ID == (ID{}) {
			o.ID = OfferID(o)
		}
		return o
	}
	accept := func(change func(*Accept)) *Accept {
		a := &Accept{From: testPayee, Ref: ID{1}, Statement: HashStatement([32]byte{2}), Contract: ID{3}, Nonce: "00aa11bb"}
		change(a)
		return a
	}
	lock := func(rail, ref string) *Lock { return &Lock{From: testPayer, Contract: ID{1}, Rail: rail, Ref: ref} }
	for _, test := range []struct {
		name string
		f    Frame
		want Reason
		err  error
	}{
		{"offer, rails in any order", offer(func(o *Offer) {}), ReasonNone, nil},
		{"offer with a lone surrogate", offer(func(o *Offer) { o.Job = &Job{Proto: "a\xed\xa0\x80", ID: "é"} }), ReasonNone, nil},
		{"alias", offer(func(o *Offer) { o.Rails = []string{"PaperRail"} }), BadField, ErrRailAlias},
		{"old alias", offer(func(o *Offer) { o.Rails = []string{"x402", "paper-rail"} }), BadField, ErrRailAlias},
		{"unknown rail", offer(func(o *Offer) { o.Rails = []string{"acme"} }), BadField, ErrUnknownRail},
		{"malformed rail", offer(func(o *Offer) { o.Rails = []string{"flop.htlc"} }), BadField, ErrMalformedRail},
		{"rail twice", offer(func(o *Offer) { o.Rails = []string{"x402", "paper", "x402"} }), BadField, ErrRepeatedRail},
		{"no rails", offer(func(o *Offer) { o.Rails = nil }), BadField, nil},
		{"no role", offer(func(o *Offer) { o.Role = RoleNone }), BadField, nil},
		{"no lock kind", offer(func(o *Offer) { o.Lock = LockNone }), BadField, nil},
		{"no time", offer(func(o *Offer) { o.ExpiresMs = 0 }), BadField, nil},
		{"time before 1970", offer(func(o *Offer) { o.ClaimByMs = -1 }), BadField, nil},
		{"time beyond 2^53", offer(func(o *Offer) { o.RefundAfterMs = maxExact + 1 }), BadField, nil},
		{"deadlines", offer(func(o *Offer) { o.ClaimByMs = 6 }), DeadlineOrder, nil},
		{"point lock without key", offer(func(o *Offer) { o.Lock = LockPoint }), PointNeedsKey, nil},
		{"key off the curve", offer(func(o *Offer) { o.PaymentKey = offCurve }), PointInvalid, nil},
		{"wrong id", offer(func(o *Offer) { o.ID = ID{1} }), OfferIDMismatch, nil},
		{"empty job", offer(func(o *Offer) { o.Job = &Job{Proto: "a2a"} }), BadField, nil},
		{"DEL", offer(func(o *Offer) { o.Job = &Job{Proto: "a2a", ID: "\x7f"} }), LineNotASCII, nil},
		{"too long", offer(func(o *Offer) { o.Job = &Job{Proto: "a2a", ID: strings.Repeat("é", 700)} }), LineTooLong, nil},
		{"not UTF-8", offer(func(o *Offer) { o.Job = &Job{Proto: "a2a", ID: "\xff"} }), BadField, nil},
		{"a pair as two surrogates", offer(func(o *Offer) { o.Job = &Job{Proto: "a2a", ID: "\xed\xa0\xbd\xed\xb8\x80"} }), BadField, nil},
		{"accept", accept(func(a *Accept) {}), ReasonNone, nil},
		{"accept of a point", accept(func(a *Accept) { a.Statement, a.PaymentKey = PointStatement(testPoint(2)), testPoint(3) }), ReasonNone, nil},
		{"no statement", accept(func(a *Accept) { a.Statement = Statement{} }), BadField, nil},
		{"statement off the curve", accept(func(a *Accept) { a.Statement = PointStatement(offCurve) }), PointInvalid, nil},
		{"nonce in capitals", accept(func(a *Accept) { a.Nonce = "00AA11BB" }), BadField, nil},
		{"no sender", accept(func(a *Accept) { a.From = "" }), BadField, nil},
		{"lock", lock("paper", "r"), ReasonNone, nil},
		{"lock on an alias", lock("PaperRail", "r"), BadField, ErrRailAlias},
		{"lock on an unknown rail", lock("acme", "r"), BadField, ErrUnknownRail},
		{"lock without ref", lock("paper", ""), BadField, nil},
		{"lock with a bad ref", lock("paper", "\xc3"), BadField, nil},
		{"presig", &Lock{From: testPayer, Contract: ID{1}, Rail: "x402", Ref: "r", Presig: &PreSignature{Nonce: testPoint(2), S: Scalar{31: 1}}}, ReasonNone, nil},
		{"empty presig", &Lock{From: testPayer, Contract: ID{1}, Rail: "x402", Ref: "r", Presig: &PreSignature{}}, BadField, nil},
		{"reveal", &Reveal{From: testPayee, Contract: ID{1}}, ReasonNone, nil},
		{"reveal with a bad ref", &Reveal{From: testPayee, Ref: "\x80"}, BadField, nil},
		{"refund", &Refund{From: testPayer, Ref: "r", Reason: "late\n"}, ReasonNone, nil},
		{"refund with a bad reason", &Refund{From: testPayer, Reason: "\x80"}, BadField, nil},
		{"cancel", &Cancel{From: testPayer, Reason: "r"}, ReasonNone, nil},
		{"cancel with a bad reason", &Cancel{From: testPayer, Reason: "\x80"}, BadField, nil},
		{"receipt", &Receipt{From: testPayer, Outcome: Claimed, Rail: "paper", Ref: "r"}, ReasonNone, nil},
		{"receipt without rail", &Receipt{From: testPayer, Outcome: Cancelled}, ReasonNone, nil},
		{"receipt of an alias", &Receipt{From: testPayer, Outcome: Claimed, Rail: "paperrail"}, BadField, ErrRailAlias},
		{"receipt of no outcome", &Receipt{From: testPayer}, BadField, nil},
		{"receipt of a status that is no outcome", &Receipt{From: testPayer, Outcome: Locked}, BadField, nil},
		{"receipt with a bad ref", &Receipt{From: testPayer, Outcome: Claimed, Ref: "\x80"}, BadField, nil},
		{"heartbeat", &Heartbeat{From: testPayer, Nonce: "00aa11bb", Note: "n"}, ReasonNone, nil},
		{"heartbeat with a bad note", &Heartbeat{From: testPayer, Nonce: "00aa11bb", Note: "\x80"}, BadField, nil},
	} {
		line, err := Encode(test.f)
		if test.want == ReasonNone {
			if err != nil || line != CanonicalLine(test.f) {
				t.Errorf("%s: %q, %v", test.name, line, err)
			}
			continue
		}
		var refused *EncodeError
		if line != "" || !errors.As(err, &refused) || refused.Reason != test.want || refused.Detail == "" {
			t.Errorf("%s: %q, %v, want %s", test.name, line, err, test.want)
			continue
		}
		if test.err != nil && !errors.Is(err, test.err) {
			t.Errorf("%s: %v, want %v", test.name, err, test.err)
		}
		if !strings.Contains(err.Error(), test.want.String()) {
			t.Errorf("%s: the error does not name its reason: %v", test.name, err)
		}
	}
	for _, f := range []Frame{
		nil, (*Offer)(nil), (*Accept)(nil), (*Lock)(nil), (*Reveal)(nil), (*Refund)(nil), (*Cancel)(nil), (*Receipt)(nil), (*Heartbeat)(nil),
	} {
		if line, err := Encode(f); err == nil {
			t.Errorf("a nil frame encodes to %q", line)
		}
	}
}

// Whatever Encode lets out, every reader takes, as it was meant.
func TestEncodedFramesDecode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := genFrame.Draw(t, "frame")
		line, err := Encode(f)
		if err != nil {
			return
		}
		for _, rules := range []DecodeRules{{}, ReferenceRules()} {
			if got := Decode(line, rules); got.Frame == nil || !got.Canonical || CanonicalLine(got.Frame) != line {
				t.Fatalf("%q: %q %s", line, got.Reason, got.Detail)
			}
		}
	})
}

// Strings that are no WTF-8 still give ASCII JSON, with U+FFFD for what is
// wrong; and only they change on the way.
func TestCanonicalStrings(t *testing.T) {
	for s, want := range map[string]string{
		"": `""`, "a b~": `"a b~"`, `"\/`: `"\"\\/"`, "\x00\b\t\n\v\f\r\x1f\x7f": `"\u0000\b\t\n\u000b\f\r\u001f` + "\x7f" + `"`,
		"é\u2028\uffff": `"\u00e9\u2028\uffff"`, "😀": `"\ud83d\ude00"`, "\U00010000\U0010ffff": `"\ud800\udc00\udbff\udfff"`, "\xed\xa0\xbd": `"\ud83d"`, "\xed\xb8\x80": `"\ude00"`,
		"\xff": `"\ufffd"`, "a\xc3b": `"a\ufffdb"`, "\xed\xa0\xbd\xed\xb8\x80": `"\ud83d\ude00"`, "<&>": `"<&>"`,
	} {
		if got := appendString(nil, s); string(got) != want {
			t.Errorf("%q is written %s, want %s", s, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		s := string(rapid.SliceOf(rapid.OneOf(rapid.Byte(), rapid.SampledFrom([]byte{0xed, 0xa0, 0xb8, 0x80, 0xf0, 0x9f}))).Draw(t, "bytes"))
		written := appendString(nil, s)
		if firstUnprintable([]byte(strings.ReplaceAll(string(written), "\x7f", ""))) >= 0 {
			t.Fatalf("%q is written %q", s, written)
		}
		read, canonical := appendUnescaped(nil, written[1:len(written)-1])
		if !canonical || isWTF8(s) != (string(read) == s) {
			t.Fatalf("%q is written %q and read %q; WTF-8 %v", s, written, read, isWTF8(s))
		}
	})
}
