package protocol

import (
	"crypto/sha256"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// sha is 0x and the hex of the sha256 of a string.
func sha(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hexOf(sum[:])
}

// The ids are what SPEC §3.1 and §3.2 say, computed by the naive reader.
func TestIDsAgainstNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, a := genOffer.Draw(t, "offer"), genAccept.Draw(t, "accept")
		strip := func(f Frame, names ...string) string {
			n, _ := parseNaive(string(AppendCanonical(nil, f)))
			kept := node{kind: '{'}
			for _, m := range n.members {
				if !strings.Contains(strings.Join(names, " "), ascii(m.name)) {
					kept.members = append(kept.members, m)
				}
			}
			return kept.stringify()
		}
		if want := sha("FLOP::tclk::v1|offer|" + strip(o, "id")); OfferID(o).String() != want {
			t.Fatalf("offer id %s, want %s", OfferID(o), want)
		}
		want := sha(`FLOP::tclk::v1|contract|{"accept":` + strip(a, "type", "contract") + `,"offer":` + strip(o) + "}")
		if ContractID(o, a).String() != want {
			t.Fatalf("contract id %s, want %s", ContractID(o, a), want)
		}
	})
}

// Every member that the parties agreed on moves the contract id; what does not
// belong to it leaves it alone.
func TestContractIDBindsTerms(t *testing.T) {
	o := &Offer{From: testPayer, Role: RolePayer, Amount: "5", Asset: "A", Lock: LockHash, Rails: []string{"paper"},
		ClaimByMs: 1, RefundAfterMs: 2, ExpiresMs: 3, Nonce: "00aa11bb", PaymentKey: testPoint(2), Job: &Job{Proto: "p", ID: "i", Context: "c"}}
	a := &Accept{From: testPayee, Ref: ID{1}, Statement: HashStatement([32]byte{2}), Nonce: "00aa11bb", PaymentKey: testPoint(3)}
	base := ContractID(o, a)
	for name, change := range map[string]func(o *Offer, a *Accept){
		"offer from": func(o *Offer, a *Accept) { o.From = testPayee }, "role": func(o *Offer, a *Accept) { o.Role = RolePayee },
		"amount": func(o *Offer, a *Accept) { o.Amount = "6" }, "asset": func(o *Offer, a *Accept) { o.Asset = "B" },
		"lock": func(o *Offer, a *Accept) { o.Lock = LockPoint }, "rails": func(o *Offer, a *Accept) { o.Rails = []string{"paper", "paper"} },
		"claimBy": func(o *Offer, a *Accept) { o.ClaimByMs++ }, "refundAfter": func(o *Offer, a *Accept) { o.RefundAfterMs++ },
		"expires": func(o *Offer, a *Accept) { o.ExpiresMs++ }, "offer nonce": func(o *Offer, a *Accept) { o.Nonce = "00aa11bc" },
		"offer id": func(o *Offer, a *Accept) { o.ID[0]++ }, "offer key": func(o *Offer, a *Accept) { o.PaymentKey = Point{} },
		"job": func(o *Offer, a *Accept) { o.Job = nil }, "job context": func(o *Offer, a *Accept) { o.Job = &Job{Proto: "p", ID: "i"} },
		"accept from": func(o *Offer, a *Accept) { a.From = testPayer }, "ref": func(o *Offer, a *Accept) { a.Ref[0]++ },
		"statement":    func(o *Offer, a *Accept) { a.Statement = HashStatement([32]byte{3}) },
		"accept nonce": func(o *Offer, a *Accept) { a.Nonce = "00aa11bc" }, "accept key": func(o *Offer, a *Accept) { a.PaymentKey = Point{} },
	} {
		o2, a2 := *o, *a
		change(&o2, &a2)
		if ContractID(&o2, &a2) == base {
			t.Errorf("%s does not enter the contract id", name)
		}
		id := OfferID(&o2)
		if strings.HasPrefix(name, "accept") || name == "ref" || name == "statement" || name == "offer id" {
			if id != OfferID(o) {
				t.Errorf("%s enters the offer id", name)
			}
		} else if id == OfferID(o) {
			t.Errorf("%s does not enter the offer id", name)
		}
	}
	a2 := *a
	a2.Contract = ID{9}
	if ContractID(o, &a2) != base {
		t.Error("the accept's own contract member enters the contract id")
	}
}

func TestTextForms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := genHex32.Draw(t, "bytes")
		text := hexOf(b[:])
		if id, ok := ParseID(text); !ok || id != ID(b) || id.String() != text {
			t.Fatalf("ParseID(%s) = %s %v", text, id, ok)
		}
		if s, ok := ParseSecret(text); !ok || s != Secret(b) || s.String() != text {
			t.Fatalf("ParseSecret(%s) = %s %v", text, s, ok)
		}
		if s, ok := ParseScalar(text); !ok || s != Scalar(b) || s.String() != text {
			t.Fatalf("ParseScalar(%s) = %s %v", text, s, ok)
		}
		if s, ok := ParseStatement(text); !ok || s != HashStatement(b) || s.String() != text {
			t.Fatalf("ParseStatement(%s) = %s %v", text, s, ok)
		}
		if got := RecordID(b).String(); got != text[2:] {
			t.Fatalf("record id %s, want %s", got, text[2:])
		}
		p := Point{0: rapid.Byte().Draw(t, "first")}
		copy(p[1:], b[:])
		if q, ok := ParsePoint(p.String()); !ok || q != p || p.String() != hexOf(p[:]) {
			t.Fatalf("ParsePoint(%s) = %s %v", p, q, ok)
		}
		if s, ok := ParseStatement(p.String()); !ok || s != PointStatement(p) || s.String() != p.String() {
			t.Fatalf("ParseStatement(%s) = %s %v", p, s, ok)
		}
	})
	if got := (Statement{}).String(); got != "" {
		t.Errorf("an absent statement shows as %q", got)
	}
	good := "0x" + strings.Repeat("0a", 32)
	for _, bad := range []string{
		"", "0x", good[2:], good[:65], good + "a", good + "aa", "0X" + good[2:], strings.ToUpper(good), "1x" + good[2:],
		good[:65] + "g", good[:65] + "A", " " + good[1:], good[:65] + "\x00", good[:10] + "é" + good[12:],
	} {
		if _, ok := ParseID(bad); ok {
			t.Errorf("ParseID takes %q", bad)
		}
		if _, ok := ParseSecret(bad); ok {
			t.Errorf("ParseSecret takes %q", bad)
		}
		if _, ok := ParseScalar(bad); ok {
			t.Errorf("ParseScalar takes %q", bad)
		}
		if _, ok := ParsePoint(bad); ok && len(bad) != 68 {
			t.Errorf("ParsePoint takes %q", bad)
		}
		if _, ok := ParseStatement(bad); ok && len(bad) != 68 {
			t.Errorf("ParseStatement takes %q", bad)
		}
	}
}

func TestWords(t *testing.T) {
	for ft := FrameType(1); ft <= TypeHeartbeat; ft++ {
		if got := ParseFrameType(ft.String()); got != ft || ft.String() == "" {
			t.Errorf("type %d is written %q and read %d", ft, ft, got)
		}
	}
	for s := Status(1); s <= Cancelled; s++ {
		if got := ParseStatus(s.String()); got != s || s.String() == "" {
			t.Errorf("status %d is written %q and read %d", s, s, got)
		}
	}
	for _, r := range []Role{RolePayer, RolePayee} {
		if got := ParseRole(r.String()); got != r {
			t.Errorf("role %d is written %q and read %d", r, r, got)
		}
	}
	for _, k := range []LockKind{LockHash, LockPoint} {
		if got := ParseLockKind(k.String()); got != k {
			t.Errorf("lock kind %d is written %q and read %d", k, k, got)
		}
	}
	for _, word := range []string{"", "Offer", "offer ", "canceled", "paid"} {
		if ParseFrameType(word) != TypeNone || ParseStatus(word) != StatusNone || ParseRole(word) != RoleNone || ParseLockKind(word) != LockNone {
			t.Errorf("%q is taken for a word of the protocol", word)
		}
	}
}
