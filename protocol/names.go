package protocol

import "encoding/hex"

// dealRoomPrefix opens the name of every deal room: mb- lets only signed rows
// in, p- keeps the room out of the venue's listing.
const dealRoomPrefix = "mb-p-tclk-"

// DealRoom names the room that carries everything after the accept (SPEC §2):
// "mb-p-tclk-" and the first 16 hex digits of the contract id. Anybody who read
// the board can derive it, so it is no secret.
func DealRoom(contract ID) string {
	var b [len(dealRoomPrefix) + 16]byte
	copy(b[:], dealRoomPrefix)
	hex.Encode(b[len(dealRoomPrefix):], contract[:8])
	return string(b[:])
}

// IsDealRoom reports whether a room name has the exact form of a deal room's:
// "mb-p-tclk-" and 16 lower-case hex digits.
func IsDealRoom(room string) bool {
	const n = len(dealRoomPrefix)
	return len(room) == n+16 && room[:n] == dealRoomPrefix && isLowerHex(room[n:])
}

// ValidRoom reports whether the venue could have a room of that name:
// ^[a-z0-9][a-z0-9_-]{0,47}$.
func ValidRoom(room string) bool {
	if len(room) < 1 || len(room) > 48 || room[0] == '_' || room[0] == '-' {
		return false
	}
	for i := range len(room) {
		if roomByte[room[i]] == 0 {
			return false
		}
	}
	return true
}

// StateNote names the note that points at a contract's status (SPEC §2):
// namespace "tclk-" and the first two hex digits of the contract id, key the 14
// digits after them. Anybody may write the note: it is a hint and never
// evidence.
func StateNote(contract ID) (namespace, key string) {
	digits := hex.EncodeToString(contract[:8])
	return "tclk-" + digits[:2], digits[2:]
}

// The character classes of names and fields. A table costs one load a byte
// where a row is checked a million times.
var (
	roomByte   = byteSet("abcdefghijklmnopqrstuvwxyz0123456789_-")
	railByte   = byteSet("abcdefghijklmnopqrstuvwxyz0123456789._-")
	assetByte  = byteSet("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
	base58Byte = byteSet("123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz")
)

func byteSet(members string) (set [256]byte) {
	for i := range len(members) {
		set[members[i]] = 1
	}
	return set
}

// didPrefix opens every Ed25519 did:key: the multibase letter z and the first
// characters that the key type's two bytes always give.
const didPrefix = "did:key:z6Mk"

// didLength is the length of a frame's from member.
const didLength = 56

// IsDID reports whether s has the form that a frame's from must have (SPEC §3):
// "did:key:z6Mk" and 44 base58btc characters, 56 in all. It does not decode the
// key: package verify does, where a signature is checked.
func IsDID(s string) bool { return isDID(s) }

func isDID[T string | []byte](s T) bool {
	if len(s) != didLength || string(s[:len(didPrefix)]) != didPrefix {
		return false
	}
	for i := len(didPrefix); i < didLength; i++ {
		if base58Byte[s[i]] == 0 {
			return false
		}
	}
	return true
}

// isAmount is the grammar [1-9][0-9]*.
func isAmount(s []byte) bool {
	if len(s) == 0 || s[0] == '0' {
		return false
	}
	for _, c := range s {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// isAsset is the grammar [A-Za-z0-9_-]{1,32}.
func isAsset(s []byte) bool {
	if len(s) < 1 || len(s) > 32 {
		return false
	}
	for _, c := range s {
		if assetByte[c] == 0 {
			return false
		}
	}
	return true
}

// isWireRail is the set of rail spellings that a decoder takes (SPEC §5), wider
// than the registry: ^[a-z0-9][a-z0-9._-]{0,63}$, and the one alias in capitals
// that live traffic used before the registry.
func isWireRail(s []byte) bool {
	if len(s) < 1 || len(s) > 64 || s[0] == '.' || s[0] == '_' || s[0] == '-' {
		return false
	}
	for _, c := range s {
		if railByte[c] == 0 {
			return string(s) == "PaperRail"
		}
	}
	return true
}

// isFrameNonce is 8–64 lower-case hex digits.
func isFrameNonce(s []byte) bool {
	return len(s) >= 8 && len(s) <= 64 && isLowerHex(s)
}
