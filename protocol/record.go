package protocol

import (
	"crypto/sha256"
	"encoding/binary"
)

// BoardRoom is the room that offers and accepts belong to (SPEC §2).
const BoardRoom = "tclk-offers"

// Record is one row of a room as the venue stored it (SPEC §2): the unit that
// a signature covers and that the fold consumes. The signature covers the
// UTF-8 bytes of room|nonce|text; Seq, TsMs and Generation are the venue's
// word. The byte slices may alias a caller's buffer; whoever keeps a Record
// beyond that buffer's life copies them.
type Record struct {
	Room       string // ^[a-z0-9][a-z0-9_-]{0,47}$
	Generation uint64 // the room's life, 0 when the source does not say
	Seq        uint64 // 0 … 2^53−1
	TsMs       int64  // Unix ms, cut from the row's ts
	From       []byte // did:key of a signed row, else a nickname
	Nonce      []byte // as written, nil when absent
	Sig        []byte // as written, nil when absent
	Text       []byte // the stored line, UTF-8
}

// RecordID names a record: see Record.ID.
type RecordID [32]byte

// ID names the record by sha256 over room, from, nonce and text, each behind
// its length as four big-endian bytes. The same record seen again, elsewhere
// or after a replay, has the same ID; Seq and TsMs do not enter.
func (r *Record) ID() RecordID {
	var stack [1024]byte
	b := stack[:0]
	b = appendSized(b, []byte(r.Room))
	b = appendSized(b, r.From)
	b = appendSized(b, r.Nonce)
	b = appendSized(b, r.Text)
	return sha256.Sum256(b)
}

func appendSized(dst, s []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(s)))
	return append(dst, s...)
}

// AppendMessage appends the bytes that the record's signature covers,
// room|nonce|text (SPEC §2), with the given nonce in the record's place so
// that a repair can try another spelling.
func (r *Record) AppendMessage(dst, nonce []byte) []byte {
	dst = append(dst, r.Room...)
	dst = append(dst, '|')
	dst = append(dst, nonce...)
	dst = append(dst, '|')
	return append(dst, r.Text...)
}
