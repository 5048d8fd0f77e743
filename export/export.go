// Package export reads rows of venue rooms from files: the first step of an
// audit, and the only one that touches the disk.
//
// A venue room is an append-only list of rows. People keep rooms in several
// shapes, and this package reads all of them into one stream of rows with
// their positions:
//
//   - the venue's export: one JSON object a line (JSONL);
//   - replies of the venue's JSON view ("pages"): an object with room,
//     generation and a messages array, compact or indented, one or many in a
//     file, also mixed line by line with bare rows;
//   - a JSON array of rows or pages;
//   - any of these compressed with gzip or zstd;
//   - a folder of rooms, one file or one folder a room.
//
// The work is cut in two so that the dear half can run in parallel. A [Reader]
// finds where rows begin and end and hands them out in [Chunk]s, in file
// order; [ParseRow] turns the bytes of one row into a protocol.Record. Bad
// input is never an error: a line that is no row, a torn line and an over-long
// line come out as rows with a reason, and all other rows are still read. Only
// what stops the reading is an error: an unreadable file, damaged compression,
// a limit met.
//
// Everything is bounded: memory by the chunk size, the row limit and the page
// limit ([Limits]), whatever the size of the input.
package export

import (
	"fmt"
	"io"

	"github.com/tclk-audit/tclk-audit/protocol"
)

// Position says where a row stood, so that a finding can name it.
type Position struct {
	Path   string // the input's path as it was given or found, "-" for standard input
	Line   int64  // 1-based line on which the row begins, in the decompressed text
	Offset int64  // byte offset of the row's first byte in the decompressed text
}

// String returns path:line.
func (p Position) String() string { return fmt.Sprintf("%s:%d", showPath(p.Path), p.Line) }

// RoomFrom says how the room of a row was decided. A row of an export does not
// carry its room, but its signature covers it (SPEC §2).
type RoomFrom uint8

// The ways to a room, strongest first.
const (
	RoomUnknown    RoomFrom = 0 // not decided: try signatures, then the fallback name
	RoomFromFlag   RoomFrom = 1 // the user said so
	RoomFromRow    RoomFrom = 2 // the row's own room member
	RoomFromPage   RoomFrom = 3 // the room member of the page around the row
	RoomFromFile   RoomFrom = 4 // the file's stem, exactly a tclk room
	RoomFromFolder RoomFrom = 5 // the folder's name, exactly a tclk room
	RoomFromFound  RoomFrom = 6 // found by trying signatures (done by the caller)
	RoomFromName   RoomFrom = 7 // any stem or folder that is a valid room name
)

var roomFromText = [...]string{"", "flag", "row", "page", "file", "folder", "found", "name"}

// String returns the word of the list, "" for RoomUnknown.
func (f RoomFrom) String() string {
	if int(f) < len(roomFromText) {
		return roomFromText[f]
	}
	return "unknown"
}

// Options says how inputs are opened and read. The zero value is usable.
type Options struct {
	// Room is the room of every row, whatever the rows or names say. "" leaves
	// it to them.
	Room string
	// Limits bound what one input may cost. Zero fields take their defaults.
	Limits Limits
	// Stdin is read for the path "-". Nil means that "-" is refused.
	Stdin io.Reader
	// ChunkBytes is how much decompressed text goes into one Chunk, in bytes,
	// 1 MiB by default. A row or page header that is longer makes its chunk
	// longer.
	ChunkBytes int
}

// Limits bound what an input may cost. A zero field means its default.
type Limits struct {
	// LineBytes is the longest row, in bytes, 1 MiB by default (the venue's
	// own are under 17 KiB). A longer one is reported as RowTooLong and never
	// held in memory whole.
	LineBytes int
	// PageBytes is how far a page whose room or generation does not stand
	// before its messages is read ahead to find them, in bytes, 16 MiB by
	// default (the venue's own pages are under 4 MiB).
	PageBytes int
	// DecompressedBytes is the most that one compressed input may grow to, in
	// bytes, 16 GiB by default.
	DecompressedBytes int64
	// Ratio is the most that a compressed input may grow beyond 64 MiB, as
	// output over input, 1000 by default.
	Ratio int64
	// Files is the most inputs and skipped files together, 1,000,000 by
	// default.
	Files int
}

const (
	defaultChunkBytes        = 1 << 20
	defaultLineBytes         = 1 << 20
	defaultPageBytes         = 16 << 20
	defaultDecompressedBytes = 16 << 30
	defaultRatio             = 1000
	defaultFiles             = 1_000_000

	// leastChunk is the least that is read at once.
	leastChunk = 4 << 10
	// ratioFloor is the output below which no ratio is judged: small exports
	// of many like rows compress very well.
	ratioFloor = 64 << 20
	// folderDepth bounds the folders within folders. Rooms lie one or two deep.
	folderDepth = 64
	// zstdWindow bounds the memory that a zstd frame may ask for. It is the
	// largest window that the zstd tool makes without --long.
	zstdWindow = 128 << 20
)

func (o Options) withDefaults() (Options, error) {
	if o.Room != "" && !protocol.ValidRoom(o.Room) {
		return o, fmt.Errorf("export: %s is not a room name: a room is 1 to 48 of a-z, 0-9, _ and -, and begins with a letter or digit", showText(o.Room))
	}
	l := &o.Limits
	if o.ChunkBytes < 0 || l.LineBytes < 0 || l.PageBytes < 0 || l.DecompressedBytes < 0 || l.Ratio < 0 || l.Files < 0 {
		return o, fmt.Errorf("export: a limit is negative: give a positive number, or 0 for the default")
	}
	setDefault(&o.ChunkBytes, defaultChunkBytes)
	setDefault(&l.LineBytes, defaultLineBytes)
	setDefault(&l.PageBytes, defaultPageBytes)
	setDefault(&l.DecompressedBytes, defaultDecompressedBytes)
	setDefault(&l.Ratio, defaultRatio)
	setDefault(&l.Files, defaultFiles)
	return o, nil
}

func setDefault[T int | int64](v *T, def T) {
	if *v == 0 {
		*v = def
	}
}
