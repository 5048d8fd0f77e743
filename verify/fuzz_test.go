package verify

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"regexp"
	"slices"
	"testing"

	"github.com/hdevalence/ed25519consensus"

	"github.com/tclk-audit/tclk-audit/protocol"
)

func FuzzSignature(f *testing.F) {
	f.Add(venueRows[0].Sig)
	f.Add(bytes.Repeat([]byte("A"), 86))
	f.Add(append(bytes.Repeat([]byte("_"), 85), 'w'))
	f.Add(append(bytes.Repeat([]byte("A"), 85), 'B'))
	f.Add(append(bytes.Repeat([]byte("A"), 84), '=', '='))
	f.Add(append(bytes.Repeat([]byte("A"), 85), '\n'))
	f.Add([]byte("sSuoepHC29QQolEtg9CRHYb7//BB4Ptc7E7CwFMm9zmjKMBpbZaJ+NkGQLNkmIagM9UQqvoBFub+r2NbiFzSCw"))
	f.Fuzz(func(t *testing.T, sig []byte) {
		raw, ok := DecodeSignature(sig)
		want, err := base64.RawURLEncoding.Strict().DecodeString(string(sig))
		if wantOK := err == nil && len(want) == 64 && len(sig) == 86; ok != wantOK {
			t.Fatalf("%q: %v, encoding/base64 says %v", sig, ok, wantOK)
		} else if ok && (raw != [64]byte(want) || base64.RawURLEncoding.EncodeToString(raw[:]) != string(sig)) {
			t.Fatalf("%q decodes to %x", sig, raw)
		}
	})
}

var (
	nonceForm = regexp.MustCompile(`\A(0|[1-9][0-9]*)\z`)
	roomForm  = regexp.MustCompile(`\A[a-z0-9][a-z0-9_-]{0,47}\z`)
)

// FuzzCheck judges any row whatever, and the same row signed by a true key,
// beside a judge made of other parts.
func FuzzCheck(f *testing.F) {
	for _, r := range venueRows {
		f.Add(r.Room, r.From, r.Nonce, r.Sig, r.Text)
	}
	f.Add("Lobby", []byte("alice"), []byte("01"), []byte{}, []byte("x"))
	f.Add("lobby", []byte("alice"), []byte("1"), []byte("A"), []byte("|"))
	f.Add("a", []byte(EncodeDID([32]byte{1})), []byte("0"), bytes.Repeat([]byte("A"), 86), []byte{})
	f.Add("a", []byte(EncodeDID([32]byte{1})), []byte("1789061374248692500"), bytes.Repeat([]byte("A"), 86), []byte{})
	f.Fuzz(func(t *testing.T, room string, from, nonce, sig, text []byte) {
		given := protocol.Record{Room: room, From: from, Nonce: nonce, Sig: sig, Text: text}
		signed := given
		Sign(testKey("fuzz"), &signed)
		rows := []protocol.Record{given, signed, given}
		v := New()
		out := make([]Result, 3)
		v.CheckBatch(rows, out)
		for i := range rows {
			r := &rows[i]
			want := Result{Class: Invalid}
			key, okKey := plainDecodeDID(string(r.From))
			raw, err := base64.RawURLEncoding.Strict().DecodeString(string(r.Sig))
			switch {
			case !roomForm.MatchString(r.Room):
				want.Reason = protocol.RoomName
			case r.Nonce == nil || r.Sig == nil:
				want = Result{Class: Unsigned, Reason: protocol.Unsigned}
			case !nonceForm.Match(r.Nonce):
				want.Reason = protocol.NonceForm
			case err != nil || len(r.Sig) != 86:
				want.Reason = protocol.SignatureForm
			case !okKey:
				want.Reason = protocol.SenderNotDID
			case !ed25519consensus.Verify(ed25519.PublicKey(key[:]), slices.Concat([]byte(r.Room), []byte("|"), r.Nonce, []byte("|"), r.Text), raw):
				want.Reason = protocol.SignatureInvalid
			default:
				want.Class, want.NotStrict = Authentic, !Strict(r)
			}
			if out[i] != want {
				t.Fatalf("row %d: CheckBatch %+v, want %+v", i, out[i], want)
			}
			if got := v.Check(r); got != want {
				t.Fatalf("row %d: Check %+v, want %+v", i, got, want)
			}
			if Strict(r) && want.Class != Authentic {
				t.Fatalf("row %d: Strict, but %+v", i, want)
			}
			if want.Reason != protocol.SignatureInvalid {
				continue
			}
			b := NewBudget(40)
			if signedNonce, ok, _ := v.Repair(r, b); ok {
				fixed := *r
				fixed.Nonce = []byte(signedNonce)
				if message := fixed.AppendMessage(nil, fixed.Nonce); !ed25519consensus.Verify(ed25519.PublicKey(key[:]), message, raw) {
					t.Fatalf("row %d: repaired to %s, which does not verify", i, signedNonce)
				}
			}
			if b.Left() < 0 {
				t.Fatalf("%d checks left", b.Left())
			}
		}
	})
}

func FuzzNonce(f *testing.F) {
	for _, n := range []string{"0", "7", "0007", "9999999999999999999", "10000000000000000000", "1789061374248692500", "18446744073709551615", "1e3", "-0", "12\n", ""} {
		f.Add([]byte(n))
	}
	f.Fuzz(func(t *testing.T, nonce []byte) {
		if got := NonceForm(nonce); got != nonceForm.Match(nonce) {
			t.Fatalf("NonceForm(%q) = %v", nonce, got)
		}
		if !NonceForm(nonce) {
			return
		}
		seen := map[string]bool{string(nonce): true}
		var s spellings
		for s.of(nonce); s.next(); {
			if seen[string(s.text)] || len(s.text) > nonceDigits || len(seen) > 2100 {
				t.Fatalf("%s for %s: twice, too long or too many", s.text, nonce)
			}
			seen[string(s.text)] = true
		}
	})
}
