package store

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/tclk-audit/tclk-audit/export"
	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/verify"
)

// entryKind tells the entries of the log apart: the first byte of each. They
// never change their meaning, and new ones are only appended.
type entryKind uint8

const (
	entryRow      entryKind = 1  // a usable row: the first sighting of its record, or one that differs
	entrySame     entryKind = 2  // the same record at the same place again, byte for byte
	entryBad      entryKind = 3  // a row that cannot be parsed
	entryRoom     entryKind = 4  // a room in sight, perhaps with how far it reaches
	entrySource   entryKind = 5  // a source begins
	entryEnd      entryKind = 6  // a source ends
	entryTick     entryKind = 7  // a window ends: what it touches is folded
	entryRules    entryKind = 8  // the rules in force from here on
	entryCoverage entryKind = 9  // what happened to a room beside its rows
	entryClock    entryKind = 10 // the venue's clock, by other means than a row
	entryFetch    entryKind = 11 // a reply, whose rows follow
	entrySettings entryKind = 12 // how a venue is concluded about from here on
)

// Where says where in a source a row stood.
type Where struct {
	Source uint32 // the source's number in this store
	Index  int64  // 0-based number of the row within the source
	Line   int64  // 1-based line of the decompressed text
	Offset int64  // byte offset in the decompressed text
}

const (
	rowHidden    = 1 << iota // malformed as these rules read it, usable as the reference does
	rowNotStrict             // authentic, but not under crypto/ed25519's narrower rule
	rowUntried               // the search for the cause of a failed signature was cut short
	rowAgain                 // the record stands in the log already, in another place or with other metadata
	rowNoBytes               // bytes holds sha256 and length: the row was over a limit, or was pruned
)

// entry is one entry of the log. Which fields it uses depends on its kind; all
// byte slices alias what it was read from.
type entry struct {
	kind  entryKind
	venue uint8
	where Where
	room  string
	gen   uint64

	// rows
	flags       uint8
	class       verify.Class
	reason      protocol.Reason // of an invalid, unsigned or malformed row
	roomFrom    export.RoomFrom
	signedNonce string
	otherRoom   string
	raw         []byte // without line end; sha256 and 8 bytes of length where rowNoBytes
	first       uint64 // entrySame: position of the row that it repeats

	// entryBad
	torn, tooLong bool
	detail        string
	size          int64 // the row's length where raw is shorter

	// the other kinds
	seq    uint64
	to     uint64
	ms     int64
	word   string // rules, evidence, request
	digest [32]byte
	cut    export.Cut
	rows   int64

	coverage CoverageCode
	settings Settings
}

func appendRoom(dst []byte, name string) []byte {
	if name == protocol.BoardRoom {
		return append(dst, 0)
	}
	if d, ok := dealDigits(name); ok {
		return append(append(dst, 1), d[:]...)
	}
	return appendBytes(append(dst, 2), name)
}

func (d *dec) room() string {
	switch d.byte() {
	case 0:
		if d.err != nil {
			return ""
		}
		return protocol.BoardRoom
	case 1:
		var k [8]byte
		copy(k[:], d.take(8))
		return dealName(k)
	case 2:
		return d.string()
	}
	d.fail()
	return ""
}

func (e *entry) appendWhere(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(e.where.Source))
	dst = binary.AppendUvarint(dst, uint64(e.where.Index))
	dst = binary.AppendUvarint(dst, uint64(e.where.Line))
	return binary.AppendUvarint(dst, uint64(e.where.Offset))
}

func (d *dec) where() (w Where) {
	w.Source, w.Index, w.Line, w.Offset = uint32(d.uint()), int64(d.uint()), int64(d.uint()), int64(d.uint())
	return w
}

// append encodes the entry.
func (e *entry) append(dst []byte) []byte {
	dst = append(dst, byte(e.kind), e.venue)
	switch e.kind {
	case entryRow:
		dst = e.appendWhere(dst)
		dst = appendRoom(dst, e.room)
		dst = binary.AppendUvarint(dst, e.gen)
		dst = append(dst, e.flags, byte(e.class), byte(e.reason), byte(e.roomFrom))
		dst = appendBytes(dst, e.signedNonce)
		dst = appendBytes(dst, e.otherRoom)
		dst = append(dst, e.raw...)
	case entrySame:
		dst = e.appendWhere(dst)
		dst = binary.AppendUvarint(dst, e.gen)
		dst = append(dst, byte(e.roomFrom))
		dst = binary.AppendUvarint(dst, e.first)
	case entryBad:
		dst = e.appendWhere(dst)
		dst = appendRoom(dst, e.room)
		dst = binary.AppendUvarint(dst, e.gen)
		dst = append(dst, e.flags, byte(e.reason))
		dst = appendBool(appendBool(dst, e.torn), e.tooLong)
		dst = appendBytes(dst, e.detail)
		dst = binary.AppendUvarint(dst, uint64(e.size))
		dst = append(dst, e.raw...)
	case entryRoom:
		dst = binary.AppendUvarint(dst, uint64(e.where.Source))
		dst = appendRoom(dst, e.room)
		dst = binary.AppendUvarint(dst, e.gen)
		dst = binary.AppendUvarint(dst, e.seq)
	case entrySource:
		dst = binary.AppendUvarint(dst, uint64(e.where.Source))
	case entryEnd:
		dst = binary.AppendUvarint(dst, uint64(e.where.Source))
		dst = binary.AppendUvarint(dst, uint64(e.rows))
		dst = append(dst, e.digest[:]...)
		dst = append(dst, byte(e.cut))
		dst = appendRoom(dst, e.room)
	case entryRules:
		dst = appendBytes(dst, e.word)
	case entryCoverage:
		dst = binary.AppendUvarint(dst, uint64(e.where.Source))
		dst = appendRoom(dst, e.room)
		dst = append(dst, byte(e.coverage))
		dst = binary.AppendUvarint(dst, e.gen)
		dst = binary.AppendUvarint(dst, e.seq)
		dst = binary.AppendUvarint(dst, e.to)
		dst = binary.AppendVarint(dst, e.ms)
		dst = appendBytes(dst, e.word)
	case entryClock:
		dst = binary.AppendVarint(dst, e.ms)
	case entryFetch:
		dst = binary.AppendUvarint(dst, uint64(e.where.Source))
		dst = binary.AppendVarint(dst, e.ms)
		for _, n := range [...]uint64{e.gen, e.seq, e.to, uint64(e.rows), uint64(e.size)} {
			dst = binary.AppendUvarint(dst, n)
		}
		dst = append(dst, e.digest[:]...)
		dst = appendBytes(dst, e.word)
	case entrySettings:
		dst = binary.AppendVarint(dst, e.settings.GraceMs)
		dst = binary.AppendVarint(dst, e.settings.WarnMs)
	}
	return dst
}

// readEntry decodes an entry of the log.
func readEntry(b []byte) (e entry, err error) {
	d := dec{b: b}
	e.kind, e.venue = entryKind(d.byte()), d.byte()
	switch e.kind {
	case entryRow:
		e.where, e.room, e.gen = d.where(), d.room(), d.uint()
		e.flags, e.class, e.reason, e.roomFrom = d.byte(), verify.Class(d.byte()), protocol.Reason(d.byte()), export.RoomFrom(d.byte())
		e.signedNonce, e.otherRoom = d.string(), d.string()
		e.raw = d.b
	case entrySame:
		e.where, e.gen, e.roomFrom, e.first = d.where(), d.uint(), export.RoomFrom(d.byte()), d.uint()
	case entryBad:
		e.where, e.room, e.gen = d.where(), d.room(), d.uint()
		e.flags, e.reason = d.byte(), protocol.Reason(d.byte())
		e.torn, e.tooLong, e.detail, e.size = d.byte() != 0, d.byte() != 0, d.string(), int64(d.uint())
		e.raw = d.b
	case entryRoom:
		e.where.Source, e.room, e.gen, e.seq = uint32(d.uint()), d.room(), d.uint(), d.uint()
	case entrySource:
		e.where.Source = uint32(d.uint())
	case entryEnd:
		e.where.Source, e.rows, e.digest, e.cut, e.room = uint32(d.uint()), int64(d.uint()), d.id(), export.Cut(d.byte()), d.room()
	case entryTick:
	case entryRules:
		e.word = d.string()
	case entryCoverage:
		e.where.Source, e.room, e.coverage = uint32(d.uint()), d.room(), CoverageCode(d.byte())
		e.gen, e.seq, e.to, e.ms, e.word = d.uint(), d.uint(), d.uint(), d.int(), d.string()
	case entryClock:
		e.ms = d.int()
	case entryFetch:
		e.where.Source, e.ms = uint32(d.uint()), d.int()
		e.gen, e.seq, e.to, e.rows, e.size = d.uint(), d.uint(), d.uint(), int64(d.uint()), int64(d.uint())
		e.digest, e.word = d.id(), d.string()
	case entrySettings:
		e.settings.GraceMs, e.settings.WarnMs = d.int(), d.int()
	default:
		return e, fmt.Errorf("an entry of unknown kind %d", e.kind)
	}
	return e, d.err
}

// noBytes is what stands in place of a row's bytes that are not kept: their
// sha256 and length, and what the row's place needs.
func noBytes(raw []byte, r *fold.Row) []byte {
	h := sha256.Sum256(raw)
	b := binary.BigEndian.AppendUint64(h[:], uint64(len(raw)))
	b = append(b, r.ID[:]...)
	b = binary.AppendUvarint(b, r.Record.Seq)
	b = binary.AppendVarint(b, r.Record.TsMs)
	return appendBytes(b, r.Record.From[:min(len(r.Record.From), maxFrom)])
}

// maxFrom is how much of a sender is kept of a row without its bytes. A
// did:key is shorter.
const maxFrom = 64

func hashOf(b []byte) [32]byte { return sha256.Sum256(b) }

// rowReader turns entries into rows as the fold wants them. What it returns
// aliases the entry and the reader's scratch space until its next reset.
type rowReader struct {
	parse     export.ParseRules
	decoder   *protocol.Decoder
	reference *protocol.Decoder
	rules     fold.Rules
	scratch   []byte
}

func newRowReader(rules fold.Rules) *rowReader {
	r := &rowReader{rules: rules, decoder: protocol.NewDecoder(rules.Decode())}
	if rules.Reference {
		r.parse = export.ReferenceRules()
	} else {
		r.reference = protocol.NewDecoder(protocol.ReferenceRules())
	}
	return r
}

func (r *rowReader) reset() { r.scratch = r.scratch[:0] }

// verdict is what was found out about the row's signature when it was read.
func (e *entry) verdict() verify.Result {
	return verify.Result{
		Class: e.class, Reason: e.reason, NotStrict: e.flags&rowNotStrict != 0, SignedNonce: e.signedNonce,
		OtherRoom: e.otherRoom, Untried: e.flags&rowUntried != 0,
	}
}

// readStub fills row from an entry without the row's bytes.
func (r *rowReader) readStub(e *entry, row *fold.Row) error {
	d := dec{b: e.raw}
	d.take(32)
	if size := d.take(8); size != nil {
		row.Size = int(binary.BigEndian.Uint64(size)) + 1
	}
	row.ID = d.id()
	rec := &row.Record
	rec.Room, rec.Generation, rec.Seq, rec.TsMs, rec.From = e.room, e.gen, d.uint(), d.int(), d.bytes()
	row.Key, row.IsDID = verify.DecodeDID(rec.From)
	row.Verify = e.verdict()
	return d.err
}

// read fills row from an entry of a usable row.
func (r *rowReader) read(e *entry, row *fold.Row) error {
	*row = fold.Row{Size: len(e.raw) + 1, Source: e.where.Source, Hidden: e.flags&rowHidden != 0}
	if e.flags&rowNoBytes != 0 {
		return r.readStub(e, row)
	}
	parse := r.parse
	if row.Hidden {
		parse = export.ReferenceRules()
	}
	rec := &row.Record
	if _, reason, _ := export.ParseRow(e.raw, parse, &r.scratch, rec); reason != protocol.ReasonNone {
		return fmt.Errorf("a stored row is no row: %v", reason)
	}
	rec.Room, rec.Generation = e.room, e.gen
	row.ID = rec.ID()
	row.Key, row.IsDID = verify.DecodeDID(rec.From)
	row.Verify = e.verdict()
	row.NotStrict = row.Verify.NotStrict
	if e.class != verify.Authentic && e.class != verify.Repaired {
		return nil
	}
	row.Line = r.decoder.Decode(rec.Text)
	if r.reference != nil && row.Line.Frame == nil && (row.Line.Reason == protocol.DuplicateMember || row.Line.Reason == protocol.BadField) {
		row.Reference = r.reference.Decode(rec.Text)
	}
	if row.Hidden && row.Line.Frame == nil {
		row.Line = row.Reference
	}
	return nil
}
