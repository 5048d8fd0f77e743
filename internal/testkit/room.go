package testkit

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/verify"
)

// Row is one line of a room's export. A test may change any of it before the
// export is written; nothing is signed again.
type Row struct {
	protocol.Record
	Micros int    // 0 … 999: microseconds of ts beyond TsMs
	Raw    string // if not empty, the line is this, whatever the record says
}

// Room writes the export of one room, row by row. The zero value is not of use;
// see [NewRoom].
type Room struct {
	Name string
	Seq  uint64 // of the last row; the next one takes Seq+1. A test may change it
	Rows []*Row

	nonces map[string]uint64 // the last nonce of each sender
}

// NewRoom returns an empty room.
func NewRoom(name string) *Room { return &Room{Name: name, nonces: map[string]uint64{}} }

// NewBoard returns an empty board.
func NewBoard() *Room { return NewRoom(protocol.BoardRoom) }

// Post appends a frame, signed, at a time in Unix ms. Any signer may post any
// frame: whether the frame's from fits is for the auditor to find.
func (r *Room) Post(by *Signer, atMs int64, f protocol.Frame) *Row {
	return r.PostText(by, atMs, protocol.CanonicalLine(f))
}

// PostText appends a text, signed. The nonce is the signer's clock in ms, or one
// more than its last nonce in this room if that is greater.
func (r *Room) PostText(by *Signer, atMs int64, text string) *Row {
	n := max(r.nonces[by.DID]+1, uint64(max(atMs, 0)))
	r.nonces[by.DID] = n
	return r.PostNonce(by, atMs, strconv.FormatUint(n, 10), text)
}

// PostNonce appends a text, signed under a nonce of the caller's choice.
func (r *Room) PostNonce(by *Signer, atMs int64, nonce, text string) *Row {
	row := r.add(atMs, text)
	row.Nonce = []byte(nonce)
	verify.Sign(by.Key, &row.Record)
	return row
}

// Say appends an unsigned text under a nickname.
func (r *Room) Say(nick string, atMs int64, text string) *Row {
	row := r.add(atMs, text)
	row.From = []byte(nick)
	return row
}

// Replay appends a row's record again, at a new place.
func (r *Room) Replay(old *Row, atMs int64) *Row {
	row := r.add(atMs, string(old.Text))
	row.From, row.Nonce, row.Sig = old.From, old.Nonce, old.Sig
	return row
}

// Line appends a line as it is, without a newline of its own. It takes no seq.
func (r *Room) Line(raw string) *Row {
	row := &Row{Raw: raw}
	r.Rows = append(r.Rows, row)
	return row
}

// Skip leaves out the next n seqs, as a dropped row does.
func (r *Room) Skip(n uint64) { r.Seq += n }

// Drop removes a row and leaves its seq empty.
func (r *Room) Drop(row *Row) {
	for i, x := range r.Rows {
		if x == row {
			r.Rows = append(r.Rows[:i:i], r.Rows[i+1:]...)
			return
		}
	}
}

func (r *Room) add(atMs int64, text string) *Row {
	r.Seq++
	row := &Row{Record: protocol.Record{Room: r.Name, Seq: r.Seq, TsMs: atMs, Text: []byte(text)}}
	r.Rows = append(r.Rows, row)
	return row
}

// Records returns the room's records in order, without the lines that were
// appended raw. The slices are the rows' own.
func (r *Room) Records() []protocol.Record {
	records := make([]protocol.Record, 0, len(r.Rows))
	for _, row := range r.Rows {
		if row.Raw == "" {
			records = append(records, row.Record)
		}
	}
	return records
}

// JSONL returns the room's export: one row a line, each ended by a newline.
func (r *Room) JSONL() []byte { return r.export(AppendRow) }

// RoomJSONL returns the same with the room in every row.
func (r *Room) RoomJSONL() []byte { return r.export(AppendRoomRow) }

func (r *Room) export(appendRow func([]byte, *protocol.Record, int) []byte) []byte {
	var b []byte
	for _, row := range r.Rows {
		if row.Raw != "" {
			b = append(b, row.Raw...)
		} else {
			b = appendRow(b, &row.Record, row.Micros)
		}
		b = append(b, '\n')
	}
	return b
}

// Page returns the room as the venue's ?format=json view, one compact line.
// generation 0 leaves that member out, as venues before 0.11 do.
func (r *Room) Page(generation uint64) []byte {
	records := r.Records()
	first, last := "null", uint64(0)
	if len(records) > 0 {
		first, last = strconv.FormatUint(records[0].Seq, 10), records[len(records)-1].Seq
	}
	b := fmt.Appendf(nil, `{"room":"%s","count":%d,"first_seq":%s,"last_seq":%d`, r.Name, len(records), first, last)
	if generation != 0 {
		b = fmt.Appendf(b, `,"generation":%d`, generation)
	}
	b = append(b, `,"messages":[`...)
	b = append(b, bytes.ReplaceAll(bytes.TrimSuffix(r.JSONL(), []byte("\n")), []byte("\n"), []byte(","))...)
	return append(b, "]}\n"...)
}

// WriteFolder writes the rooms into a folder, one NAME.jsonl each.
func WriteFolder(dir string, rooms ...*Room) error {
	for _, r := range rooms {
		if err := os.WriteFile(filepath.Join(dir, r.Name+".jsonl"), r.JSONL(), 0o666); err != nil {
			return fmt.Errorf("testkit: write a room: %w", err)
		}
	}
	return nil
}
