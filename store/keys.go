package store

import (
	"encoding/binary"

	"github.com/tclk-audit/tclk-audit/protocol"
)

// The kinds of keys: the first byte of each. They never change their meaning;
// docs/format/store.md describes what follows them.
const (
	keyMeta     = 'M' // versions, settings, counters
	keyLog      = 'L' // position: what was read, in order
	keySource   = 'Q' // number: a source and its cursor
	keyDigest   = 'q' // sha256 of a source's bytes, and of its rooms: its number
	keySize     = 'z' // stored bytes: a source of that size was read whole
	keyIdentity = 'I' // a row's identity: where it stands in the log
	keyBoard    = 'B' // generation, seq, position: the places of the board from here on, see places.go
	keyRange    = 'G' // generation, seq: a run of filled places of the board
	keyLack     = 'J' // generation, seq, source: places that a source has not
	keyRoom     = 'R' // room: what is known of it
	keyRow      = 'P' // room, position: a row of it
	keyLeans    = 'H' // place of the accept, contract: it leans on a hole of the board before it
	keyNamed    = 'Z' // id: some frame names it outside its place, or its room has rows
	keyFrame    = 'F' // id, position: a frame on the board or elsewhere that names it
	keyOffer    = 'O' // id: an offer
	keyContract = 'C' // id: a contract
	keyAccept   = 'A' // contract, place: a further accept that names it
	keyOffered  = 'W' // offer, contract: an accept of an offer
	keyLocked   = 'Y' // offer, contract: one with a counted lock
	keyState    = 'S' // statement: which contracts have it
	keyPoint    = 'K' // payment key: which contracts name it
	keySecret   = 'V' // statement, position: a reveal that opens it
	keyStatus   = 'X' // status, deadline, contract: where its accept stands
	keyParty    = 'D' // did:key's hash, contract: the role
	keyEvent    = 'E' // number: the events from this one on, see eventChunk
	keyUnusable = 'U' // room: bytes kept of rows that cannot be used
	keyCoverage = 'N' // room, position: what happened to the room beside its rows
	keyTail     = 'T' // room: the source that follows it
)

// derived are the kinds that a rebuild throws away.
var derived = []byte{
	keyIdentity, keyBoard, keyRange, keyLack, keyRoom, keyRow, keyLeans, keyNamed, keyFrame, keyOffer, keyContract,
	keyAccept, keyOffered, keyLocked, keyState, keyPoint, keySecret, keyStatus, keyParty, keyEvent, keyUnusable, keyCoverage,
}

// key builds keys in a reused buffer.
type key struct{ b []byte }

func (k *key) of(kind byte, venue uint8) *key {
	k.b = append(k.b[:0], kind, venue)
	return k
}

func (k *key) u64(v uint64) *key {
	k.b = binary.BigEndian.AppendUint64(k.b, v)
	return k
}

func (k *key) bytes(b []byte) *key {
	k.b = append(k.b, b...)
	return k
}

func (k *key) byte(c byte) *key {
	k.b = append(k.b, c)
	return k
}

func logKey(dst []byte, pos uint64) []byte {
	return binary.BigEndian.AppendUint64(append(dst[:0], keyLog), pos)
}

func eventKey(dst []byte, n uint64) []byte {
	return binary.BigEndian.AppendUint64(append(dst[:0], keyEvent), n)
}

func sourceKey(dst []byte, n uint32) []byte {
	return binary.BigEndian.AppendUint32(append(dst[:0], keySource), n)
}

// after returns the first key that does not begin with prefix.
func after(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}

// half is how much of a 32-byte hash stands in the keys of lists: nobody can
// make two that share it.
const half = 16

// place orders the rows of the board.
type place struct {
	gen, seq uint64
	pos      uint64 // in the log
}

func (p place) less(o place) bool {
	if p.gen != o.gen {
		return p.gen < o.gen
	}
	if p.seq != o.seq {
		return p.seq < o.seq
	}
	return p.pos < o.pos
}

func (k *key) place(p place) *key { return k.u64(p.gen).u64(p.seq).u64(p.pos) }

func placeOf(b []byte) place {
	return place{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:]), binary.BigEndian.Uint64(b[16:])}
}

// roomKey is how a room stands in keys: 0 and 8 zero bytes for the board, 1 and
// the 8 bytes of a deal room's name, 2 and 8 bytes of the name's hash for any
// other.
func roomKey(name string) (k [9]byte) {
	if name == protocol.BoardRoom {
		return k
	}
	if d, ok := dealDigits(name); ok {
		k[0] = 1
		copy(k[1:], d[:])
		return k
	}
	k[0] = 2
	h := hashOf([]byte(name))
	copy(k[1:], h[:])
	return k
}

const dealPrefix = "mb-p-tclk-"

// dealDigits reads the 16 hex digits of a deal room's name.
func dealDigits(name string) (d [8]byte, ok bool) {
	if len(name) != len(dealPrefix)+16 || name[:len(dealPrefix)] != dealPrefix {
		return d, false
	}
	for i := range 16 {
		c := name[len(dealPrefix)+i]
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		default:
			return d, false
		}
		d[i/2] = d[i/2]<<4 | c
	}
	return d, true
}

func dealName(d [8]byte) string {
	var id protocol.ID
	copy(id[:], d[:])
	return protocol.DealRoom(id)
}
