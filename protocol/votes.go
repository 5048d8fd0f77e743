package protocol

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

const voteDomain = "FLOP::tclk::v1|vote|"

// maxVerdict bounds a verdict, in bytes.
const maxVerdict = 256

// VoteCommitment returns what a juror posts before anybody reveals a vote
// (SPEC §8.3): 0x + 64 lower-case hex digits, the sha256 of
//
//	FLOP::tclk::v1|vote|<contract>|<verdict>|<salt>
//
// with the contract id and the salt in their wire form, 0x + 64 lower-case hex
// digits. SPEC fixes what is hashed but not these bytes; no two inputs share
// them, since the contract has a fixed length and the salt holds no '|'. The
// contract keeps a verdict from being lifted into another deal, and the salt
// keeps it from being guessed.
//
// verdict is 1–256 printable ASCII characters; salt comes from [GenerateSalt].
// Anything else is an error.
func VoteCommitment(contract ID, verdict, salt string) (string, error) {
	if !isVerdict(verdict) {
		return "", errors.New("protocol: commit to a vote: the verdict must be 1–256 printable ASCII characters")
	}
	if _, ok := ParseSecret(salt); !ok {
		return "", errors.New("protocol: commit to a vote: the salt must be 0x and 64 lower-case hex digits; mint it with GenerateSalt")
	}
	sum := sha256.Sum256([]byte(voteDomain + contract.String() + "|" + verdict + "|" + salt))
	return "0x" + hex.EncodeToString(sum[:]), nil
}

// VerifyVoteCommitment reports whether a verdict and salt, revealed in the
// second round, are those that the juror committed to for this contract
// (SPEC §8.3). The commitment must stand in the exact form that
// [VoteCommitment] returns.
func VerifyVoteCommitment(commitment string, contract ID, verdict, salt string) bool {
	want, err := VoteCommitment(contract, verdict, salt)
	return err == nil && commitment == want
}

// GenerateSalt mints the salt of one vote from r: 32 random bytes as 0x + 64
// lower-case hex digits. Verdicts come from a set of about two, so a commitment
// without a secret salt hides nothing; a salt must serve one vote only. r must
// be a cryptographic random source; the error is r's.
func GenerateSalt(r io.Reader) (string, error) {
	var b [32]byte
	if err := fill(r, b[:]); err != nil {
		return "", fmt.Errorf("protocol: mint a salt: %w", err)
	}
	return "0x" + hex.EncodeToString(b[:]), nil
}

func isVerdict(s string) bool {
	if len(s) < 1 || len(s) > maxVerdict {
		return false
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
