package verify

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hdevalence/ed25519consensus"
	"pgregory.net/rapid"

	"github.com/tclk-audit/tclk-audit/protocol"
)

// Three rows that a real venue stored, with keys of known seeds.
var venueRows = []protocol.Record{
	{Room: "mb-p-tclk-fedcba9876543210", Seq: 1, From: []byte("did:key:z6MkserSX3fpoTH1fQjoPmLyXQcGoqnvCVLD5tPjzbmU29GS"), Text: []byte("leading zero nonce one two three"), Nonce: []byte("7"), Sig: []byte("GaQClZvJZik_TcTpDNfAfvXnd7gpSBzDhE8XVExOWXQO2Uo27f8A350JbtCm3YCF7cjUj4_r6QLkhMXeiNx-Dg")},
	{Room: "mb-p-tclk-fedcba9876543210", Seq: 2, From: []byte("did:key:z6MkserSX3fpoTH1fQjoPmLyXQcGoqnvCVLD5tPjzbmU29GS"), Text: []byte("nineteen digit nonce aaaaaa"), Nonce: []byte("9999999999999999999"), Sig: []byte("7B0WwhIC3dDRj8cj-sn6OtbUAeBGJuoFFKbcN5J4Z1YWvcxyQCHtmkM3ZY-NKizxGwDj5hLZGI4EqLbyKakQCg")},
	{Room: "mb-p-tclk-fedcba9876543210", Seq: 3, From: []byte("did:key:z6MkvYNGv8wtbPUBmpKQDvevh3BvLz4NVicBSH6nKADxiaHv"), Text: []byte("a/b//c ? # % + é |pipe|  double  spaces"), Nonce: []byte("10"), Sig: []byte("EqGY1TqEPBl16fQp6S00A-uGHvKA4a6K_XkfvYKygXeCRm_uVzI1O2oz3EjnQ6U2TG4RBG_JuFVwcxbUYW0oCg")},
}

func TestVenueRows(t *testing.T) {
	v := New()
	for i, want := range []Result{verdict(false), verdict(true), verdict(true)} {
		if got := v.Check(&venueRows[i]); got != want {
			t.Errorf("row %d: %+v, want %+v", i+1, got, want)
		}
		if got := Strict(&venueRows[i]); got != (want.Class == Authentic) {
			t.Errorf("row %d: Strict = %v", i+1, got)
		}
	}
	nonce, ok, untried := v.Repair(&venueRows[0], NewBudget(100))
	if nonce != "0007" || !ok || untried {
		t.Errorf("Repair = %q, %v, %v, want the nonce 0007", nonce, ok, untried)
	}
	// The author's own key, room, nonce and text give the very same row.
	for i, name := range []string{"payer", "payer", "payee"} {
		r := venueRows[i]
		if i == 0 {
			r.Nonce = []byte("0007")
		}
		r.From, r.Sig = nil, nil
		Sign(testKey(name), &r)
		if !bytes.Equal(r.From, venueRows[i].From) || !bytes.Equal(r.Sig, venueRows[i].Sig) {
			t.Errorf("row %d: signed anew it is by %s with %s", i+1, r.From, r.Sig)
		}
	}
}

// What is wrong with a row's form, and which of two wrongs is named.
func TestForms(t *testing.T) {
	good := row("17", "a text")
	Sign(testKey("forms"), &good)
	short := good.Sig[:85]
	for _, c := range []struct {
		name string
		edit func(*protocol.Record)
		want protocol.Reason
	}{
		{"as signed", func(r *protocol.Record) {}, protocol.ReasonNone},
		{"room in upper case", func(r *protocol.Record) { r.Room = "Lobby" }, protocol.RoomName},
		{"no room", func(r *protocol.Record) { r.Room = "" }, protocol.RoomName},
		{"room with a newline", func(r *protocol.Record) { r.Room += "\n" }, protocol.RoomName},
		{"room of 49", func(r *protocol.Record) { r.Room = strings.Repeat("a", 49) }, protocol.RoomName},
		{"room of 48", func(r *protocol.Record) { r.Room = strings.Repeat("a", 48) }, protocol.SignatureInvalid},
		{"no nonce", func(r *protocol.Record) { r.Nonce = nil }, protocol.Unsigned},
		{"no signature", func(r *protocol.Record) { r.Sig = nil }, protocol.Unsigned},
		{"neither, by a nickname", func(r *protocol.Record) { r.Nonce, r.Sig, r.From = nil, nil, []byte("alice") }, protocol.Unsigned},
		{"empty nonce", func(r *protocol.Record) { r.Nonce = []byte{} }, protocol.NonceForm},
		{"empty signature", func(r *protocol.Record) { r.Sig = []byte{} }, protocol.SignatureForm},
		{"nonce 017", func(r *protocol.Record) { r.Nonce = []byte("017") }, protocol.NonceForm},
		{"nonce 1e3", func(r *protocol.Record) { r.Nonce = []byte("1e3") }, protocol.NonceForm},
		{"signature of 85", func(r *protocol.Record) { r.Sig = short }, protocol.SignatureForm},
		{"nickname, signed", func(r *protocol.Record) { r.From = []byte("alice") }, protocol.SenderNotDID},
		{"no sender", func(r *protocol.Record) { r.From = nil }, protocol.SenderNotDID},
		{"DID of 55", func(r *protocol.Record) { r.From = r.From[:55] }, protocol.SenderNotDID},
		{"another key", func(r *protocol.Record) { r.From = []byte(EncodeDID([32]byte{1})) }, protocol.SignatureInvalid},
		{"another seq and time", func(r *protocol.Record) { r.Seq, r.TsMs, r.Generation = 9, 9, 9 }, protocol.ReasonNone},
		// Two wrongs at once: the earlier in the order of checks is named.
		{"room and nothing signed", func(r *protocol.Record) { r.Room, r.Nonce = "Lobby", nil }, protocol.RoomName},
		{"no signature, bad nonce", func(r *protocol.Record) { r.Sig, r.Nonce = nil, []byte("01") }, protocol.Unsigned},
		{"bad nonce, bad signature", func(r *protocol.Record) { r.Nonce, r.Sig = []byte("01"), short }, protocol.NonceForm},
		{"bad signature, nickname", func(r *protocol.Record) { r.Sig, r.From = short, []byte("alice") }, protocol.SignatureForm},
		{"nickname, other text", func(r *protocol.Record) { r.From, r.Text = []byte("alice"), nil }, protocol.SenderNotDID},
	} {
		r := good
		c.edit(&r)
		want := Result{Class: Invalid, Reason: c.want}
		switch c.want {
		case protocol.ReasonNone:
			want.Class = Authentic
		case protocol.Unsigned:
			want.Class = Unsigned
		}
		v := New()
		// The good row before and after: what a verifier has seen changes nothing.
		out := make([]Result, 3)
		v.CheckBatch([]protocol.Record{good, r, good}, out)
		if out[0] != verdict(true) || out[1] != want || out[2] != verdict(true) {
			t.Errorf("%s: in a batch %+v, want %+v", c.name, out, want)
		}
		for range 2 {
			if got := v.Check(&r); got != want {
				t.Errorf("%s: %+v, want %+v", c.name, got, want)
			}
		}
		if got := Strict(&r); got != (want.Class == Authentic) {
			t.Errorf("%s: Strict = %v", c.name, got)
		}
		if want.Class != Authentic && want.Reason != protocol.SignatureInvalid {
			b := NewBudget(100)
			if nonce, ok, untried := v.Repair(&r, b); ok || untried || b.Left() != 100 {
				t.Errorf("%s: Repair = %q, %v, %v with %d checks left; there is nothing to repair", c.name, nonce, ok, untried, b.Left())
			}
			if room, untried := v.OtherRoom(&r, []string{good.Room, "lobby"}, b); room != "" || untried || b.Left() != 100 {
				t.Errorf("%s: OtherRoom = %q, %v with %d checks left", c.name, room, untried, b.Left())
			}
		}
	}
}

func TestClassWords(t *testing.T) {
	for c, want := range map[Class]string{Unchecked: "unchecked", Authentic: "authentic", Repaired: "repaired", Unsigned: "unsigned", Invalid: "invalid", 77: "unknown-class"} {
		if got := c.String(); got != want {
			t.Errorf("Class %d is %q, want %q", c, got, want)
		}
	}
}

func TestNonceForm(t *testing.T) {
	for nonce, want := range map[string]bool{
		"0": true, "7": true, "10": true, "9999999999999999999": true, strings.Repeat("9", 5000): true,
		"": false, "00": false, "07": false, "-0": false, "-3": false, "+1": false, "1e3": false, "7.0": false, " 1": false,
		"1 ": false, "12\n": false, "0x5": false, "１": false, "1_000": false, "\x00": false,
	} {
		if got := NonceForm([]byte(nonce)); got != want {
			t.Errorf("NonceForm(%q) = %v", nonce, got)
		}
	}
}

func TestSignatureText(t *testing.T) {
	raw := [64]byte(bytes.Repeat([]byte{0xfb, 0xef, 0xbe, 0x01}, 16))
	text := base64.RawURLEncoding.AppendEncode(nil, raw[:])
	if got, ok := DecodeSignature(text); !ok || got != raw {
		t.Fatalf("DecodeSignature(%s) = %x, %v", text, got, ok)
	}
	// Of the sixteen last characters that carry the same bytes one is right.
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	var accepted []byte
	for c := range 256 {
		other := slices.Clone(text)
		other[85] = byte(c)
		if got, ok := DecodeSignature(other); ok {
			accepted = append(accepted, byte(c))
			if !bytes.Equal(base64.RawURLEncoding.AppendEncode(nil, got[:]), other) {
				t.Errorf("%s decodes to what is not written so", other)
			}
		}
	}
	if string(accepted) != "AQgw" {
		t.Errorf("a signature may end in any of %q, want A, Q, g, w", accepted)
	}
	// In every other place exactly the alphabet is accepted.
	for at := range 85 {
		for c := range 256 {
			other := slices.Clone(text)
			other[at] = byte(c)
			if _, ok := DecodeSignature(other); ok != (strings.IndexByte(alphabet, byte(c)) >= 0) {
				t.Fatalf("character %#02x at %d: %v", c, at, ok)
			}
		}
	}
	for _, wrong := range []string{"", string(text[:85]), string(text) + "A", string(text) + "==", string(text[:84]) + "==", string(text[:86]) + "\n", strings.Repeat("A", 88), string(text[:40]) + "\n" + string(text[41:])} {
		if _, ok := DecodeSignature([]byte(wrong)); ok {
			t.Errorf("%q is accepted", wrong)
		}
	}
}

// mixed returns rows of a few keys in which the rows of bad fail, each in one
// of the ways in which a row can.
func mixed(n, keys int, bad func(i int) bool) ([]protocol.Record, []Result) {
	rows := signedRows(n, keys)
	want := make([]Result, n)
	for i := range rows {
		want[i] = verdict(true)
		if !bad(i) {
			continue
		}
		want[i] = verdict(false)
		switch i % 7 {
		case 0:
			spoil(&rows[i])
		case 1:
			rows[i].Nonce = append(slices.Clone(rows[i].Nonce), '0')
		case 2:
			rows[i].Room = "lobby"
		case 3: // s out of range
			sig := slices.Clone(rows[i].Sig)
			copy(sig[60:], "____________")
			rows[i].Sig = sig
		case 4:
			rows[i].From = []byte(EncodeDID([32]byte{2})) // not on the curve
		case 5:
			rows[i].Sig = nil
			want[i] = Result{Class: Unsigned, Reason: protocol.Unsigned}
		case 6:
			rows[i].From = []byte("nick")
			want[i] = Result{Class: Invalid, Reason: protocol.SenderNotDID}
		}
	}
	return rows, want
}

// Streams with bad rows in the worst places: every row gets its own answer,
// whatever the verifier has made of the stream so far.
func TestBadRowsInStreams(t *testing.T) {
	if _, ok := decodePoint([32]byte{2}); ok {
		t.Fatal("y=2 is on the curve")
	}
	random := rand.New(rand.NewPCG(1, 2))
	for name, bad := range map[string]func(int) bool{
		"none":           func(int) bool { return false },
		"all":            func(int) bool { return true },
		"the first":      func(i int) bool { return i == 0 },
		"the last":       func(i int) bool { return i == 1999 },
		"one in 64":      func(i int) bool { return i%64 == 63 },
		"half":           func(i int) bool { return i%2 == 0 },
		"first half":     func(i int) bool { return i < 1000 },
		"last half":      func(i int) bool { return i >= 1000 },
		"three in a 100": func(int) bool { return random.IntN(100) < 3 },
	} {
		rows, want := mixed(2000, 13, bad)
		out := make([]Result, len(rows))
		v := New()
		v.CheckBatch(rows, out)
		for i := range rows {
			if out[i] != want[i] {
				t.Fatalf("bad: %s: row %d: %+v, want %+v", name, i, out[i], want[i])
			}
		}
		// Once more, in calls of every size, by the same verifier.
		clear(out)
		for at, n := 0, 0; at < len(rows); at, n = at+n, n+1 {
			end := min(at+n, len(rows))
			v.CheckBatch(rows[at:end], out[at:end])
		}
		if !slices.Equal(out, want) {
			t.Errorf("bad: %s: in calls of growing size some answer differs", name)
		}
	}
}

// CheckBatch is Check row by row, and both agree with another library, single
// and in batches.
func TestBatchIsSingle(t *testing.T) {
	v := New()
	pool, _ := mixed(300, 7, func(i int) bool { return i%3 == 0 })
	for _, vec := range vectors(t) {
		pool = append(pool, vec.row)
	}
	rapid.Check(t, func(t *rapid.T) {
		v.pace.size = rapid.SampledFrom([]int{1, 2, 64, 256, 4096}).Draw(t, "size")
		v.pace.rest = rapid.SampledFrom([]int{0, 0, 0, 5}).Draw(t, "rest")
		picks := rapid.SliceOfN(rapid.IntRange(0, len(pool)-1), 0, 100).Draw(t, "rows")
		rows := make([]protocol.Record, len(picks))
		for i, p := range picks {
			rows[i] = pool[p]
		}
		out := make([]Result, len(rows))
		v.CheckBatch(rows, out)
		batch, whole, single := ed25519consensus.NewBatchVerifier(), true, New()
		for i := range rows {
			if got := single.Check(&rows[i]); got != out[i] {
				t.Fatalf("row %d: Check %+v, CheckBatch %+v", i, got, out[i])
			}
			if out[i].Reason != protocol.ReasonNone && out[i].Reason != protocol.SignatureInvalid {
				continue
			}
			key, okKey := DecodeDID(rows[i].From)
			sig, okSig := DecodeSignature(rows[i].Sig)
			if !okKey || !okSig {
				t.Fatalf("row %d: %+v for a row of wrong form", i, out[i])
			}
			message := rows[i].AppendMessage(nil, rows[i].Nonce)
			if ok := ed25519consensus.Verify(ed25519.PublicKey(key[:]), message, sig[:]); ok != (out[i].Class == Authentic) {
				t.Fatalf("row %d: %+v, ed25519consensus says %v", i, out[i], ok)
			}
			if Strict(&rows[i]) && out[i].Class != Authentic {
				t.Fatalf("row %d: %+v, but crypto/ed25519 accepts it", i, out[i])
			}
			batch.Add(ed25519.PublicKey(key[:]), message, sig[:])
			whole = whole && out[i].Class == Authentic
		}
		if whole && len(rows) > 0 && rowsJudged(out) > 0 && !batch.Verify() {
			t.Fatal("all rows hold, but not in a batch of ed25519consensus")
		}
	})
}

func rowsJudged(out []Result) (n int) {
	for _, r := range out {
		if r.Class == Authentic {
			n++
		}
	}
	return n
}

// A verifier keeps no row: changing the caller's buffer afterwards changes no
// later answer.
func TestNothingAliased(t *testing.T) {
	rows := signedRows(3, 3)
	v := New()
	out := make([]Result, 3)
	v.CheckBatch(rows, out)
	kept := slices.Clone(rows[0].From)
	for i := range rows[0].From {
		rows[0].From[i] = 'x'
	}
	again := signedRows(1, 3)[0]
	if !bytes.Equal(again.From, kept) {
		t.Fatal("the test's rows differ from run to run")
	}
	if got := v.Check(&again); got != verdict(true) {
		t.Errorf("%+v after the buffer of an earlier row was reused", got)
	}
	if got := v.Check(&rows[0]); got.Reason != protocol.SenderNotDID {
		t.Errorf("%+v for a sender that is no DID any more", got)
	}
}

// Verifiers that share their keys give the answers of one alone, at the same
// time, and decode no key that another has decoded.
func TestSharedKeys(t *testing.T) {
	rows := signedRows(600, 50)
	rows[7].Text = []byte("changed")
	want := make([]Result, len(rows))
	New().CheckBatch(rows, want)
	keys := NewKeys(new(sync.Mutex))
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			v := NewSharing(keys)
			for range 3 {
				got := make([]Result, len(rows))
				v.CheckBatch(rows, got)
				if !slices.Equal(got, want) || v.Check(&rows[0]) != want[0] {
					t.Error("not the answers of a Verifier alone")
				}
			}
		})
	}
	all.Wait()
	v := NewSharing(keys)
	v.find(rows)
	if slices.Contains(v.found, nil) || keys.count < 50 || keys.count > 4*50 {
		t.Errorf("%d keys were decoded, or not all are known", keys.count)
	}
	var zero Verifier
	zero.CheckBatch(rows, want)
	if zero.Check(&rows[0]) != want[0] {
		t.Error("a zero Verifier does not work")
	}
}

// More keys than the table holds: it stays within its bound, and every answer
// stays right, also for keys that were dropped and come again.
func TestManyKeys(t *testing.T) {
	v := New()
	honest := signedRows(20, 20)
	out := make([]Result, len(honest))
	check := func(when string) {
		t.Helper()
		v.CheckBatch(honest, out)
		for i := range out {
			if out[i] != verdict(true) {
				t.Fatalf("%s: row %d: %+v", when, i, out[i])
			}
		}
	}
	check("at first")
	var raw [32]byte
	var sig [64]byte
	row := protocol.Record{Room: "r", Nonce: honest[0].Nonce, Sig: honest[0].Sig}
	for i := range 2*keysPerGeneration + 10 {
		raw[0], raw[1], raw[2] = byte(i), byte(i>>8), byte(i>>16)
		row.From = []byte(EncodeDID(raw))
		if key, _ := v.forms(&row, &sig); key == nil || key.raw != raw {
			t.Fatal("a DID is refused")
		}
		if n := len(v.keys.current) + len(v.keys.old); n > 2*keysPerGeneration {
			t.Fatalf("%d keys kept", n)
		}
		if i == keysPerGeneration {
			check("when the first generation is full")
		}
	}
	if v.keys.current[keyTail(honest[0].From[len(didPrefix):])] != nil {
		t.Fatal("a key that was not used is still in the newest generation")
	}
	check("after a flood of other keys")
	if v.keys.current[keyTail(honest[0].From[len(didPrefix):])] == nil {
		t.Error("a key in use is not in the newest generation")
	}
}

// How much a stream costs: good ones go in large batches, bad ones in none.
func TestPace(t *testing.T) {
	p := newPace()
	run := func(rows int, good func(at int) bool) (batched, largest int) {
		for at := 0; at < rows; {
			n := p.want(rows - at)
			if n < 1 || n > largestBatch || n > rows-at {
				t.Fatalf("%d rows wanted of %d left", n, rows-at)
			}
			ok := true
			for i := at; i < at+n; i++ {
				ok = ok && good(i)
			}
			switch {
			case p.resting():
				p.single(n)
			case ok:
				p.held(n)
				batched, largest = batched+n, max(largest, n)
			default:
				p.failed(n)
				batched, largest = batched+n, max(largest, n)
			}
			at += n
		}
		return batched, largest
	}
	all, none := func(int) bool { return true }, func(int) bool { return false }
	if batched, largest := run(20000, all); batched != 20000 || largest != largestBatch {
		t.Errorf("good stream: %d rows in batches of up to %d", batched, largest)
	}
	if p.size != largestBatch {
		t.Errorf("after a good stream the next batch has %d rows", p.size)
	}
	p.failed(largestBatch)
	if p.size != smallBatch || p.resting() {
		t.Errorf("after one failure: %+v, want batches of %d", p, smallBatch)
	}
	if batched, _ := run(100*longestRest, none); float64(batched) > 0.02*100*longestRest {
		t.Errorf("bad stream: %d of %d rows went through a batch in vain", batched, 100*longestRest)
	}
	if batched, largest := run(200000, all); batched < 200000-longestRest || largest != largestBatch {
		t.Errorf("good again: %d of 200000 rows in batches of up to %d", batched, largest)
	}
	// From the start, too, a stream of bad rows wastes little.
	p = newPace()
	if batched, _ := run(16384, none); batched > 1000 {
		t.Errorf("bad from the start: %d of 16384 rows went through a batch in vain", batched)
	}
	// One bad row in 500: what fails are small batches.
	p = newPace()
	failed := 0
	run(500000, func(at int) bool {
		if at%500 == 250 {
			failed += p.size
		}
		return at%500 != 250
	})
	if perBad := failed / 1000; perBad > 256 {
		t.Errorf("one bad row in 500 costs %d single checks", perBad)
	}
}

// On good rows the batch equation decides, not the row by row check; and no
// memory is taken for each row.
func TestBatchIsUsed(t *testing.T) {
	rows := signedRows(1024, 16)
	out := make([]Result, len(rows))
	v := New()
	v.CheckBatch(rows, out)
	if v.pace.strikes != 0 || v.pace.size <= startBatch {
		t.Errorf("after 1024 good rows the next batch has %d rows", v.pace.size)
	}
	if per := testing.AllocsPerRun(3, func() { v.CheckBatch(rows, out) }) / float64(len(rows)); per > rowAllocations {
		t.Errorf("%.2f allocations a row", per)
	}
	single := New()
	single.Check(&rows[0])
	if per := testing.AllocsPerRun(10, func() { single.Check(&rows[0]) }); per > 4 { // what the strict rule's library takes, and the copy that novoi makes
		t.Errorf("%.0f allocations for a single check", per)
	}
}

func ExampleVerifier_Check() {
	r := protocol.Record{Room: "tclk-offers", Nonce: []byte("1788343200000"), Text: []byte("hello")}
	Sign(testKey("alice"), &r)
	v := New()
	fmt.Println(v.Check(&r).Class)
	r.Room = "lobby"
	fmt.Println(v.Check(&r).Class, v.Check(&r).Reason)
	// Output:
	// authentic
	// invalid signature-invalid
}
