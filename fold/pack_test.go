package fold

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tclk-audit/tclk-audit/internal/testkit"
	"github.com/tclk-audit/tclk-audit/protocol"
)

func drawOffer(t *rapid.T) *protocol.Offer {
	party := testkit.NewKeys(1).Party(rapid.IntRange(0, 3).Draw(t, "offerer"))
	ms := rapid.OneOf(rapid.Int64Range(1, 1<<53-1), rapid.SampledFrom([]int64{1, testkit.Epoch, 1<<53 - 1}))
	o := &protocol.Offer{
		From: party.DID, Role: rapid.SampledFrom([]protocol.Role{protocol.RolePayer, protocol.RolePayee}).Draw(t, "role"),
		Lock:   rapid.SampledFrom([]protocol.LockKind{protocol.LockHash, protocol.LockPoint}).Draw(t, "lock"),
		Amount: rapid.StringMatching(`[1-9][0-9]{0,40}`).Draw(t, "amount"), Asset: rapid.StringMatching(`[A-Za-z0-9_-]{1,32}`).Draw(t, "asset"),
		Rails:     rapid.SliceOfN(rapid.OneOf(rapid.StringMatching(`[a-z0-9][a-z0-9._-]{0,63}`), rapid.Just("PaperRail"), rapid.Just("paper")), 1, 5).Draw(t, "rails"),
		ClaimByMs: ms.Draw(t, "claimByMs"), RefundAfterMs: ms.Draw(t, "refundAfterMs"), ExpiresMs: ms.Draw(t, "expiresMs"),
		Nonce: rapid.StringMatching(`[0-9a-f]{8,64}`).Draw(t, "nonce"),
	}
	if o.Lock == protocol.LockPoint || rapid.Bool().Draw(t, "key") {
		_, o.PaymentKey = party.Payment()
	}
	if rapid.Bool().Draw(t, "job") {
		s := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"a2a", "\xed\xa0\x80", "\xed\xb0\x80x", "é\u2028\"\\", strings.Repeat("j", 200)}))
		o.Job = &protocol.Job{Proto: s.Draw(t, "proto"), ID: s.Draw(t, "id"), Context: s.Draw(t, "context")}
	}
	o.ID = protocol.OfferID(o)
	return o
}

// An offer that decodes comes back out of its packed form as it was: its id is
// a hash over every byte of it.
func TestPackedOfferKeepsItsID(t *testing.T) {
	kept := 0
	var got, terms protocol.Offer // filled again and again
	rapid.Check(t, func(t *rapid.T) {
		d := protocol.Decode(protocol.CanonicalLine(drawOffer(t)), protocol.DecodeRules{})
		o, ok := d.Frame.(*protocol.Offer)
		if !ok {
			t.Skipf("%s %s", d.Reason, d.Detail)
		}
		kept++
		a := New(Options{})
		ts := rapid.OneOf(rapid.Int64(), rapid.Just(testkit.Epoch)).Draw(t, "ts")
		var p packer
		a.packOffer(&p, o, ts)
		packed := append(append([]byte(nil), p.b...), "what follows in the arena"...)
		a.unpackOffer(&got, packed, o.ID, o.From, ts, true)
		if id := protocol.OfferID(&got); id != o.ID {
			t.Errorf("the id became %s\n%+v\n%+v", id, o, got)
		}
		if !reflect.DeepEqual(&got, o) {
			t.Errorf("%+v became %+v", o, got)
		}
		a.unpackOffer(&terms, packed, o.ID, o.From, ts, false)
		want := *o
		if want.Nonce, want.Job = "", nil; !reflect.DeepEqual(terms, want) {
			t.Errorf("the terms of %+v became %+v", o, terms)
		}
		if packedExpiry(packed, ts) != o.ExpiresMs || packedKey(packed) != o.PaymentKey {
			t.Error("expiry or key read alone differs")
		}
	})
	if kept < 20 {
		t.Errorf("only %d offers decoded: the generator is off", kept)
	}
}

// The list of shared words is bounded; what is beyond it is spelled out.
func TestWordsAreBounded(t *testing.T) {
	w := newWords()
	spell := func(i int) string {
		if i%100 == 99 {
			return strings.Repeat("w", wordLength+1) + fmt.Sprint(i)
		}
		return fmt.Sprint("word-", i)
	}
	var p packer
	const n = 2 * wordLimit
	for range 2 {
		for i := range n {
			w.put(&p, spell(i))
		}
	}
	if len(w.list) > wordLimit || len(w.index) > wordLimit {
		t.Errorf("%d words are kept", len(w.list))
	}
	u := unpacker(p)
	for i := range 2 * n {
		if got, want := w.get(&u), spell(i%n); got != want {
			t.Fatalf("word %d became %q", i, got)
		}
	}
}

// Post-accept frames keep all that the machine and the steps look at.
func TestPackedFrames(t *testing.T) {
	d := testkit.NewDeal(testkit.NewRand(1, "pack"), testkit.NewKeys(1).Party(0), testkit.NewKeys(1).Party(1), testkit.Terms{Lock: protocol.LockPoint})
	bare := d.Reveal()
	bare.Ref = ""
	for _, f := range []protocol.Frame{
		d.Lock(), d.PresignedLock([]byte("m")), d.Reveal(), bare, d.Refund(), d.Cancel(d.Payee, ""),
		d.Receipt(d.Payer, protocol.Claimed), d.Receipt(d.Payer, protocol.Cancelled),
	} {
		var p packer
		packFrame(&p, f)
		var fs frames
		u := unpacker{append(p.b, 0xff)}
		if got := fs.unpackFrame(&u, f.Type(), f.Sender()); !reflect.DeepEqual(got, f) {
			t.Errorf("%+v became %+v", f, got)
		}
		if len(u.b) != 1 {
			t.Errorf("%s: %d bytes left over", f.Type(), len(u.b)-1)
		}
	}
}

// A record is remembered for at least SeenLimit others, in bounded memory.
func TestSeenIsBounded(t *testing.T) {
	mix := func(i uint64) uint64 { i *= 0xbf58476d1ce4e5b9; return i ^ i>>31 }
	var s seen
	forgot := false
	for i := range uint64(3 * SeenLimit) {
		known, full := s.add(mix(i + 1))
		if known {
			t.Fatalf("record %d is taken for an earlier one", i)
		}
		forgot = forgot || full
		if i >= SeenLimit && i%100_003 == 0 {
			if known, _ := s.add(mix(i + 2 - SeenLimit)); !known {
				t.Fatalf("after record %d, the record %d before is forgotten", i, SeenLimit-1)
			}
		}
	}
	if !forgot {
		t.Error("nothing says that records were forgotten")
	}
	if len(s.young) > seenSlots || len(s.old) > seenSlots {
		t.Errorf("%d and %d slots", len(s.young), len(s.old))
	}
	for _, id := range []uint64{0, ^uint64(0)} {
		if known, _ := s.add(id); known {
			t.Errorf("id %d was never added", id)
		}
		if known, _ := s.add(id); !known {
			t.Errorf("id %d was not remembered", id)
		}
	}
}

// Who makes ids that collide on purpose makes the memory short, not large or
// slow.
func TestSeenWithCollidingIDs(t *testing.T) {
	inverse := uint64(0x9e3779b97f4a7c15)
	for range 6 { // Newton's iteration for the inverse modulo 2^64
		inverse *= 2 - 0x9e3779b97f4a7c15*inverse
	}
	if inverse*0x9e3779b97f4a7c15 != 1 {
		t.Fatal("not the inverse")
	}
	var s seen
	forgot := false
	for i := range uint64(20_000) {
		_, full := s.add((i + 1) * inverse) // all in slot 0 of any table
		forgot = forgot || full
	}
	if len(s.young) > seenSlots || !forgot {
		t.Errorf("%d slots, forgot %v", len(s.young), forgot)
	}
	if known, _ := s.add(20_000 * inverse); !known {
		t.Error("the last record is forgotten")
	}
}
