package protocol

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The documented preimage, written out.
func TestVoteCommitmentBytes(t *testing.T) {
	contract := ID{0: 0xab, 31: 0xcd}
	salt := "0x" + strings.Repeat("5a", 32)
	sum := sha256.Sum256([]byte("FLOP::tclk::v1|vote|0xab" + strings.Repeat("00", 30) + "cd|pay the payee|" + salt))
	want := "0x" + hex.EncodeToString(sum[:])
	got, err := VoteCommitment(contract, "pay the payee", salt)
	if err != nil || got != want {
		t.Fatalf("got %s, %v; want %s", got, err, want)
	}
	if !VerifyVoteCommitment(want, contract, "pay the payee", salt) {
		t.Error("does not verify")
	}
}

func TestVoteCommitmentRefuses(t *testing.T) {
	good := "0x" + strings.Repeat("5a", 32)
	for _, c := range []struct{ name, verdict, salt string }{
		{"no verdict", "", good},
		{"a verdict with a line end", "pay\n", good},
		{"a verdict outside ASCII", "zahlen für", good},
		{"a verdict with DEL", "pay\x7f", good},
		{"a verdict over 256 bytes", strings.Repeat("v", 257), good},
		{"no salt", "pay", ""},
		{"a salt without 0x", "pay", good[2:]},
		{"a short salt", "pay", good[:64]},
		{"a long salt", "pay", good + "00"},
		{"an upper-case salt", "pay", strings.ToUpper(good)},
		{"a salt with a bar", "pay", good[:64] + "|0"},
	} {
		if got, err := VoteCommitment(ID{}, c.verdict, c.salt); err == nil || got != "" {
			t.Errorf("%s: got %s", c.name, got)
		}
	}
	if _, err := VoteCommitment(ID{}, strings.Repeat("v", 256), good); err != nil {
		t.Errorf("a verdict of 256 bytes: %v", err)
	}
}

func TestVerifyVoteCommitment(t *testing.T) {
	verdict := rapid.StringMatching(`[ -~]{1,20}`)
	rapid.Check(t, func(t *rapid.T) {
		r := drawReader(t)
		salt, err := GenerateSalt(r)
		if err != nil {
			t.Fatal(err)
		}
		other, _ := GenerateSalt(r)
		contract := ID(draw32(t, "contract"))
		v := verdict.Draw(t, "verdict")
		c, err := VoteCommitment(contract, v, salt)
		if err != nil || !VerifyVoteCommitment(c, contract, v, salt) {
			t.Fatalf("%q does not verify: %v", v, err)
		}
		lifted := contract
		lifted[rapid.IntRange(0, 31).Draw(t, "byte")] ^= 1
		changed := verdict.Draw(t, "other verdict")
		for name, verifies := range map[string]bool{
			"another contract":   VerifyVoteCommitment(c, lifted, v, salt),
			"another salt":       VerifyVoteCommitment(c, contract, v, other),
			"another verdict":    changed != v && VerifyVoteCommitment(c, contract, changed, salt),
			"upper-case hex":     VerifyVoteCommitment(strings.ToUpper(c), contract, v, salt),
			"hex without 0x":     VerifyVoteCommitment(c[2:], contract, v, salt),
			"an empty string":    VerifyVoteCommitment("", contract, v, salt),
			"a salt of bad form": VerifyVoteCommitment(c, contract, v, salt[2:]),
		} {
			if verifies {
				t.Fatalf("verifies with %s", name)
			}
		}
	})
}
