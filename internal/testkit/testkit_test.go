package testkit

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/verify"
)

func TestRandIsAFunctionOfItsArguments(t *testing.T) {
	draw := func(r *Rand) [4]uint64 { return [4]uint64{r.Uint64(), r.Uint64(), r.Uint64(), r.Uint64()} }
	base := draw(NewRand(1, "x"))
	if draw(NewRand(1, "x")) != base {
		t.Error("the same seed and purpose give two streams")
	}
	seen := map[[4]uint64]string{base: "seed 1"}
	for name, r := range map[string]*Rand{
		"seed 2": NewRand(2, "x"), "purpose y": NewRand(1, "y"),
		"fork 0": NewRand(1, "x").Fork(0), "fork 1": NewRand(1, "x").Fork(1),
	} {
		d := draw(r)
		if other, ok := seen[d]; ok {
			t.Errorf("%s and %s give one stream", name, other)
		}
		seen[d] = name
	}
}

func TestRandStaysInItsRange(t *testing.T) {
	r := NewRand(1, "range")
	low, high := false, false
	for range 2000 {
		if n := r.IntN(7); n < 0 || n > 6 {
			t.Fatalf("IntN(7) = %d", n)
		}
		switch n := r.Between(-3, 3); {
		case n < -3 || n > 3:
			t.Fatalf("Between(-3, 3) = %d", n)
		case n == -3:
			low = true
		case n == 3:
			high = true
		}
	}
	if !low || !high {
		t.Error("Between never drew one of its ends in 2000 draws")
	}
	if len(r.Hex(8)) != 16 {
		t.Error("Hex(8) is not 16 digits")
	}
}

func TestKeys(t *testing.T) {
	keys := NewKeys(1)
	s := keys.Signer(5)
	if pub, ok := verify.DecodeDID([]byte(s.DID)); !ok || !ed25519.PublicKey(pub[:]).Equal(s.Key.Public()) {
		t.Error("the did does not name the signer's public key")
	}
	scalar, point := keys.Payment(5)
	if p, ok := scalar.Point(); !ok || p != point {
		t.Error("the payment point is not the scalar's")
	}
	if keys.Party(5).DID != s.DID || NewKeys(1).Signer(5).DID != s.DID {
		t.Error("a key depends on more than seed and index")
	}
	if NewKeys(2).Signer(5).DID == s.DID || keys.Signer(6).DID == s.DID {
		t.Error("seed or index does not enter the key")
	}
}

func TestKeysForgetWithinTheirBound(t *testing.T) {
	keys := NewKeys(1)
	keys.limit = 8
	first, _ := keys.Signer(0), keys.Party(0)
	for i := range 50 {
		keys.Signer(i)
		keys.Payment(i)
		if len(keys.signers) > 8 || len(keys.payments) > 8 {
			t.Fatalf("after %d keys, %d signers and %d payment keys are held", i+1, len(keys.signers), len(keys.payments))
		}
	}
	if keys.Signer(0).DID != first.DID {
		t.Error("a key changed when it was derived again")
	}
}

// The rows are those of the venue's own export, signatures included: the same
// key signs the same text into the same bytes.
func TestRowsAreTheVenues(t *testing.T) {
	key := func(name string) *Signer {
		seed := sha256.Sum256([]byte(name))
		priv := ed25519.NewKeyFromSeed(seed[:])
		return &Signer{DID: verify.EncodeDID([32]byte(priv[32:])), Key: priv}
	}
	room := NewRoom("mb-p-tclk-fedcba9876543210")
	at := int64(1796054446439) // 2026-11-30T16:00:46.439Z
	room.PostNonce(key("payer"), at, "0007", "leading zero nonce one two three").Nonce = []byte("7")
	room.PostNonce(key("payer"), at+9, "9999999999999999999", "nineteen digit nonce aaaaaa")
	room.PostNonce(key("payee"), at+19, "10", "a/b//c ? # % + é |pipe|  double  spaces")
	room.Say("alice", at+20, `say "hi" \ bye`)
	for i, us := range []int{675, 309, 101, 0} {
		room.Rows[i].Micros = us
	}
	want := `{"seq":1,"ts":"2026-11-30T16:00:46.439675Z","from":"did:key:z6MkserSX3fpoTH1fQjoPmLyXQcGoqnvCVLD5tPjzbmU29GS","text":"leading zero nonce one two three","nonce":7,"sig":"GaQClZvJZik_TcTpDNfAfvXnd7gpSBzDhE8XVExOWXQO2Uo27f8A350JbtCm3YCF7cjUj4_r6QLkhMXeiNx-Dg"}
{"seq":2,"ts":"2026-11-30T16:00:46.448309Z","from":"did:key:z6MkserSX3fpoTH1fQjoPmLyXQcGoqnvCVLD5tPjzbmU29GS","text":"nineteen digit nonce aaaaaa","nonce":9999999999999999999,"sig":"7B0WwhIC3dDRj8cj-sn6OtbUAeBGJuoFFKbcN5J4Z1YWvcxyQCHtmkM3ZY-NKizxGwDj5hLZGI4EqLbyKakQCg"}
{"seq":3,"ts":"2026-11-30T16:00:46.458101Z","from":"did:key:z6MkvYNGv8wtbPUBmpKQDvevh3BvLz4NVicBSH6nKADxiaHv","text":"a/b//c ? # % + é |pipe|  double  spaces","nonce":10,"sig":"EqGY1TqEPBl16fQp6S00A-uGHvKA4a6K_XkfvYKygXeCRm_uVzI1O2oz3EjnQ6U2TG4RBG_JuFVwcxbUYW0oCg"}
{"seq":4,"ts":"2026-11-30T16:00:46.459000Z","from":"alice","text":"say \"hi\" \\ bye"}
`
	if got := string(room.JSONL()); got != want {
		t.Errorf("export:\n%swant:\n%s", got, want)
	}
}

func TestRoom(t *testing.T) {
	keys := NewKeys(3)
	a, b := keys.Signer(0), keys.Signer(1)
	room := NewRoom("mb-p-tclk-0123456789abcdef")
	first := room.PostText(a, Epoch, "one")
	second := room.PostText(a, Epoch, "two")
	room.PostText(b, Epoch+5, "three")
	if string(first.Nonce) != strconv.FormatInt(Epoch, 10) || string(second.Nonce) != strconv.FormatInt(Epoch+1, 10) {
		t.Errorf("nonces %s, %s: they must follow the clock and rise", first.Nonce, second.Nonce)
	}
	room.Skip(2)
	again := room.Replay(first, Epoch+9)
	if again.Seq != 6 || again.ID() != first.ID() {
		t.Errorf("a replay at seq %d: it must be the same record behind the gap", again.Seq)
	}
	room.Line("torn{")
	room.Drop(second)

	var v verify.Verifier
	for _, r := range room.Records() {
		if res := v.Check(&r); res.Class != verify.Authentic {
			t.Errorf("seq %d: %v, %v", r.Seq, res.Class, res.Reason)
		}
	}
	lines := string(room.JSONL())
	if n := len(room.Records()); n != 3 {
		t.Errorf("%d records left", n)
	}
	if lines[len(lines)-len("torn{\n"):] != "torn{\n" {
		t.Errorf("the raw line is not the last one of %q", lines)
	}

	var page struct {
		Room       string
		Count      int
		First_seq  int
		Last_seq   int
		Generation *int
		Messages   []struct{ Seq int }
	}
	room.Rows = room.Rows[:3]
	if err := json.Unmarshal(room.Page(4), &page); err != nil {
		t.Fatal(err)
	}
	if page.Room != room.Name || page.Count != 3 || page.First_seq != 1 || page.Last_seq != 6 || *page.Generation != 4 || len(page.Messages) != 3 {
		t.Errorf("page %+v", page)
	}
	if got := string(NewBoard().Page(0)); got != `{"room":"tclk-offers","count":0,"first_seq":null,"last_seq":0,"messages":[]}`+"\n" {
		t.Errorf("empty page %s", got)
	}
}

func TestWriteFolder(t *testing.T) {
	dir := t.TempDir()
	room := NewRoom("lobby")
	room.Say("alice", Epoch, "hello")
	if err := WriteFolder(dir, room, NewBoard()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"lobby.jsonl": string(room.JSONL()), "tclk-offers.jsonl": ""} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v", name, got, err)
		}
	}
	if WriteFolder(filepath.Join(dir, "missing"), room) == nil {
		t.Error("no error for a folder that does not exist")
	}
}

func TestDealsAreContracts(t *testing.T) {
	keys := NewKeys(9)
	for _, terms := range []Terms{
		{},
		{Role: protocol.RolePayee},
		{Lock: protocol.LockPoint},
		{Role: protocol.RolePayee, Lock: protocol.LockPoint},
		{HashKeys: true, Rails: []string{"paper", "x402"}, Job: &protocol.Job{Proto: "a2a", ID: "1"}},
	} {
		d := NewDeal(NewRand(1, "deal"), keys.Party(0), keys.Party(1), terms)
		lt, err := protocol.NewLockTerms(d.Offer, d.Accept)
		if err != nil {
			t.Fatalf("%+v: %v", terms, err)
		}
		if lt.Payer != d.Payer.DID || lt.Payee != d.Payee.DID {
			t.Errorf("%+v: payer and payee are swapped", terms)
		}
		if !d.Accept.Statement.Opens(d.Secret) {
			t.Errorf("%+v: the secret does not open the statement", terms)
		}
		if d.RoomName() != protocol.DealRoom(d.ID()) || d.NewRoom().Name != d.RoomName() {
			t.Errorf("%+v: the room is not the contract's", terms)
		}
		rival := d.Rival(keys.Party(2))
		if _, err := protocol.NewLockTerms(rival.Offer, rival.Accept); err != nil || rival.ID() == d.ID() {
			t.Errorf("%+v: a rival makes no contract of its own: %v", terms, err)
		}
		frames := []protocol.Frame{
			d.Offer, d.Accept, d.Lock(), d.Reveal(), d.Refund(), d.Cancel(d.Payee, "why"), d.CancelOffer(""),
			d.Receipt(d.Payer, protocol.Claimed), d.Receipt(d.Payer, protocol.Cancelled), d.Heartbeat(d.Payee, "note"),
		}
		if terms.Lock == protocol.LockPoint {
			l := d.PresignedLock([]byte("claim"))
			frames = append(frames, l)
			y, _ := d.Accept.Statement.Point()
			if !protocol.VerifyPreSignature(lt.PayerKey, []byte("claim"), y, *l.Presig) {
				t.Errorf("%+v: the pre-signature is not the payer's", terms)
			}
		}
		for _, f := range frames {
			got := protocol.Decode(protocol.CanonicalLine(f), protocol.DecodeRules{})
			if got.Reason != protocol.ReasonNone || !got.Canonical {
				t.Errorf("%+v: %v: %v %s", terms, f.Type(), got.Reason, got.Detail)
			}
		}
	}
}

func TestSealAfterAChange(t *testing.T) {
	keys := NewKeys(9)
	d := NewDeal(NewRand(1, "deal"), keys.Party(0), keys.Party(1), Terms{})
	before := d.ID()
	d.Offer.Amount = "7"
	d.Seal()
	if _, err := protocol.NewLockTerms(d.Offer, d.Accept); err != nil || d.ID() == before {
		t.Errorf("the ids do not follow the offer: %v", err)
	}
}
