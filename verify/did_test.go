package verify

import (
	"math/big"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// bigBase58 decodes base58btc by the book: one big number, and one zero byte
// for each leading 1.
func bigBase58(s string) ([]byte, bool) {
	n := new(big.Int)
	for _, c := range []byte(s) {
		d := strings.IndexByte(base58Alphabet, c)
		if d < 0 {
			return nil, false
		}
		n.Add(n.Mul(n, big.NewInt(58)), big.NewInt(int64(d)))
	}
	zeros := len(s) - len(strings.TrimLeft(s, "1"))
	return append(make([]byte, zeros), n.Bytes()...), true
}

func plainDecodeDID(did string) (key [32]byte, ok bool) {
	rest, found := strings.CutPrefix(did, "did:key:z")
	if !found {
		return key, false
	}
	b, ok := bigBase58(rest)
	if !ok || len(b) != 34 || b[0] != 0xed || b[1] != 0x01 {
		return key, false
	}
	return [32]byte(b[2:]), true
}

func TestDID(t *testing.T) {
	for _, key := range [][32]byte{{}, {1}, {31: 1}, [32]byte([]byte(strings.Repeat("\xff", 32))), [32]byte(testKey("did")[32:])} {
		did := EncodeDID(key)
		if len(did) != 56 || !strings.HasPrefix(did, "did:key:z6Mk") {
			t.Errorf("%x is written %s", key, did)
		}
		if got, ok := DecodeDID([]byte(did)); !ok || got != key {
			t.Errorf("%s decodes to %x, %v, want %x", did, got, ok, key)
		}
		if got, ok := plainDecodeDID(did); !ok || got != key {
			t.Errorf("%s is %x, %v by the book, want %x", did, got, ok, key)
		}
	}
	good := EncodeDID([32]byte(testKey("did")[32:]))
	last := EncodeDID([32]byte([]byte(strings.Repeat("\xff", 32))))
	for _, wrong := range []string{
		"", "alice", good[:55], good + "1", " " + good[1:], strings.ToUpper(good), "did:key:Z" + good[9:],
		"did:web:z" + good[9:], good[:20] + "0" + good[21:], good[:20] + "O" + good[21:], good[:20] + "l" + good[21:],
		good[:20] + "é" + good[22:], "did:key:z6Mk" + strings.Repeat("z", 44), // over the last key
		"did:key:z6Mk" + strings.Repeat("1", 44), // under the first
		"did:key:z6Ml" + good[12:],               // another multicodec
		"did:key:zQ3s" + good[12:],               // secp256k1
		"did:key:z16Mk" + good[13:],              // a leading zero byte
		last[:55] + string(nextDigit(last[55])),  // one over the last key
		good[:55] + "\n", good[:55] + "\x00", "\ufeff" + good[3:],
	} {
		if key, ok := DecodeDID([]byte(wrong)); ok {
			t.Errorf("%q is taken for the key %x", wrong, key)
		}
		v := New()
		if v.keys.find([]byte(wrong)) != nil || v.decode([]byte(wrong)) != nil || len(v.fresh) != 0 {
			t.Errorf("%q finds a key", wrong)
		}
	}
}

func nextDigit(c byte) byte { return base58Alphabet[strings.IndexByte(base58Alphabet, c)+1] }

func TestDIDLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := [32]byte(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "key"))
		did := EncodeDID(key)
		if got, ok := DecodeDID([]byte(did)); !ok || got != key {
			t.Fatalf("%s decodes to %x, %v", did, got, ok)
		}
		if got, ok := plainDecodeDID(did); !ok || got != key {
			t.Fatalf("%s is %x, %v by the book", did, got, ok)
		}
		// Any one character changed: another key or none, as the book says.
		at := rapid.IntRange(0, 55).Draw(t, "at")
		other := []byte(did)
		other[at] = rapid.Byte().Draw(t, "character")
		got, ok := DecodeDID(other)
		if want, wantOK := plainDecodeDID(string(other)); ok != wantOK || got != want && ok {
			t.Fatalf("%q decodes to %x, %v, by the book %x, %v", other, got, ok, want, wantOK)
		}
	})
}

func FuzzDID(f *testing.F) {
	f.Add([]byte(EncodeDID([32]byte{})))
	f.Add([]byte(EncodeDID([32]byte(testKey("did")[32:]))))
	f.Add([]byte("did:key:z6Mk" + strings.Repeat("z", 44)))
	f.Add([]byte("did:key:z6Mk" + strings.Repeat("1", 44)))
	f.Add([]byte("did:key:zQ3shokFTS3brHcDQrn82RUDfCZESWL1ZdCEJwekUDPQiYBme"))
	f.Add([]byte("alice"))
	f.Fuzz(func(t *testing.T, did []byte) {
		before := slices.Clone(did)
		key, ok := DecodeDID(did)
		want, wantOK := plainDecodeDID(string(did))
		if ok != wantOK || ok && key != want {
			t.Fatalf("%q: %x, %v, by the book %x, %v", did, key, ok, want, wantOK)
		}
		if ok && EncodeDID(key) != string(did) {
			t.Fatalf("%q decodes but is written %s", did, EncodeDID(key))
		}
		if !slices.Equal(did, before) {
			t.Fatal("the input was changed")
		}
	})
}
