package export

import (
	"bytes"
	"io"
)

// RowKind says whether a row could be handed out whole.
type RowKind uint8

// The kinds of rows.
const (
	RowNormal  RowKind = 0 // a line or element, whole; ParseRow judges it
	RowTorn    RowKind = 1 // cut off: the input ends, or breaks, inside a row or page
	RowTooLong RowKind = 2 // longer than Limits.LineBytes
)

var rowKindText = [...]string{"normal", "torn", "too-long"}

// String returns the kind's word.
func (k RowKind) String() string {
	if int(k) < len(rowKindText) {
		return rowKindText[k]
	}
	return "unknown"
}

// RawRow is one row as it stands in the input, not yet parsed.
type RawRow struct {
	// Bytes is the row: one JSON object where all is well, or whatever stands
	// in its place. It points into the Chunk. Of a RowTooLong it holds the
	// first bytes only; of a RowTorn what is left, perhaps nothing.
	Bytes      []byte
	Line       int64  // 1-based line on which it begins, in the decompressed text
	Offset     int64  // byte offset of its first byte in the decompressed text
	Size       int64  // its length in bytes, also where Bytes is shorter
	PageRoom   string // the room of the page around it, "" outside a page
	Generation uint64 // the generation of that page, 0 when it does not say
	Kind       RowKind
}

// Page is one page of the venue's JSON view, or a write reply. A page is a
// window on a room: it may lack rows before and after. A page without rows
// still puts its room in sight.
type Page struct {
	Room       string // as it says, unchecked; "" when it does not
	Generation uint64 // 0 when it does not say
	LastSeq    uint64 // the seq that the page says it reaches to, 0 when it does not say
	Line       int64
	Offset     int64
}

// Chunk is a run of consecutive rows of one input and owns the bytes behind
// them. The zero value is ready; reuse it to reuse its buffers.
type Chunk struct {
	Rows  []RawRow
	Pages []Page // pages that begin in this chunk

	buf []byte
}

// Size is how many bytes of text the chunk keeps in memory: its rows, whole or
// not, and what was read ahead of the next chunk.
func (c *Chunk) Size() int { return len(c.buf) }

// Cut says in which way an input ends too early. The list is closed.
type Cut uint8

// The ways to end too early.
const (
	CutNone       Cut = 0
	CutNewline    Cut = 1 // the last row is whole, but the venue's final line end is missing
	CutLine       Cut = 2 // the last line breaks off
	CutPage       Cut = 3 // the last page or array breaks off
	CutCompressed Cut = 4 // the compressed stream breaks off
)

var cutText = [...]string{"", "no-final-newline", "torn-line", "torn-page", "torn-compression"}

// String returns the code, "" for CutNone.
func (c Cut) String() string {
	if int(c) < len(cutText) {
		return cutText[c]
	}
	return "unknown"
}

// Summary says what an input was, once it has been read to its end.
type Summary struct {
	// SHA256 is over the bytes as stored (compressed, where they are), in 64
	// lower-case hex digits. "" until the end was reached.
	SHA256       string
	Bytes        int64       // as stored
	Decompressed int64       // bytes of text
	Compression  Compression // how the bytes are stored
	Lines        int64       // lines of text
	Blank        int64       // blank lines among them, outside pages and arrays
	Rows         int64       // rows handed out, malformed ones too
	Pages        int64       // pages among the text
	TooLong      int64       // rows longer than Limits.LineBytes
	// Cut says whether the input ends too early. The rows before the end were
	// read, and a final row that is whole counts; but what came after it is
	// not in sight.
	Cut Cut
}

// place is where in the structure of the text the reader stands.
type place uint8

const (
	placeTop     place = iota // between lines or top-level values
	placeArray                // in a top-level array
	placePage                 // in the messages of a page
	placeTrailer              // in a page, behind its messages
)

// expect says what may come next within an array or a page's trailer.
type expect uint8

const (
	expectFirst expect = iota // the first element, or the end
	expectNext                // a comma, or the end
	expectValue               // an element or member, behind a comma
)

// skipMode says what is being passed over because it is too long.
type skipMode uint8

const (
	skipNone  skipMode = iota
	skipLine           // up to the end of the line
	skipWhole          // one JSON value
)

// longPrefix is how much of an over-long row is kept.
const longPrefix = 256

// Reader finds the rows of one input, in file order. It is not safe for
// concurrent use, except for Consumed.
type Reader struct {
	path   string
	chunk  int // bytes of a chunk
	small  int // bytes of one of the first chunks
	size   int // bytes of the one at hand
	limits Limits
	src    *source

	carry []byte // read and not yet handed out
	eof   bool   // src has no more
	err   error  // sticky: io.EOF, or what stopped the reading
	fault error  // what src failed with; reported once all before it is handed out

	off      int64 // offset in the text of the buffer's first byte
	line     int64 // line at the cursor
	midLine  bool  // something stands before the cursor on its line
	sawLine  bool  // a line outside pages and arrays was handed out
	place    place
	expect   expect
	inArray  bool // the page stands in a top-level array
	page     pageHead
	pageLate bool // it could not be seen what stands behind the page's messages
	last     byte // the last byte before the cursor

	skip     skipMode
	skipping skipper
	skipRow  RawRow

	head     int64 // stop after this much text, 0 for all of it
	headOnly bool  // stopped there

	sum Summary
}

// Next fills c with the next rows, reusing its buffers. It returns io.EOF when
// there are no more; c is empty then. Where rows fall into chunks depends on
// the input and Options.ChunkBytes alone.
//
// A LimitError, a FormError, a DamagedError or an error of the file system
// ends the reading; all rows before it have been handed out.
func (r *Reader) Next(c *Chunk) error {
	c.Rows, c.Pages = c.Rows[:0], c.Pages[:0]
	if r.err != nil {
		return r.err
	}
	// What is carried over may be a page read ahead, much longer than a chunk.
	buf := append(c.buf[:0], r.carry...)
	r.carry = r.carry[:0]
	r.size = r.chunk
	if r.off < slowChunks*int64(r.chunk) {
		r.size = r.small
	}
	if r.off > 0 {
		// About as many rows as there were in as much text so far.
		if rows := min(int(r.sum.Rows*int64(r.size)/r.off), chunkRows); cap(c.Rows) < rows {
			c.Rows = make([]RawRow, 0, min(rows+rows/8, chunkRows))
		}
	}
	for target := r.size; ; {
		buf = r.fill(buf, target)
		used := r.scan(c, buf)
		switch {
		case len(c.Rows) > 0 || len(c.Pages) > 0:
			r.carry = append(r.carry, buf[used:]...)
			r.off += int64(used)
			c.buf = buf
			r.sum.Rows += int64(len(c.Rows))
			r.sum.Pages += int64(len(c.Pages))
			return nil
		case used > 0:
			// Nothing to hand out, such as blank lines.
			buf = buf[:copy(buf, buf[used:])]
			r.off += int64(used)
			target = r.size
		case r.fault != nil || r.eof && len(buf) == 0:
			c.buf = buf[:0]
			return r.end()
		default:
			target = 2 * max(len(buf), r.size)
		}
	}
}

// end closes the input and settles what Next returns from now on.
func (r *Reader) end() error {
	if r.err == nil {
		r.err = r.fault
	}
	if r.err == nil {
		r.err = io.EOF
		r.sum.Lines = r.line - 1
		if r.src.text > 0 && r.last != '\n' {
			r.sum.Lines++
			if !r.midLine {
				r.sum.Blank++
			}
		}
		r.sum.SHA256 = r.src.digest()
	}
	r.sum.Bytes, r.sum.Decompressed = r.src.stored.Load(), r.src.text
	if err := r.src.Close(); err != nil && r.err == io.EOF {
		r.err = fileError("close", r.path, err)
	}
	r.carry = nil
	return r.err
}

// Close ends the reading early. After Next has returned an error it does
// nothing.
func (r *Reader) Close() error {
	if r.err != nil {
		return nil
	}
	r.err = errClosed
	return r.src.Close()
}

// Consumed returns how many stored bytes have been read so far, for progress.
// It may be called from any goroutine.
func (r *Reader) Consumed() int64 { return r.src.stored.Load() }

// Summary describes the input. It is complete once Next has returned io.EOF.
func (r *Reader) Summary() Summary { return r.sum }

// fill reads until buf holds target bytes or there are no more.
func (r *Reader) fill(buf []byte, target int) []byte {
	if len(buf) >= target || r.eof || r.fault != nil {
		return buf
	}
	if cap(buf) < target {
		grown := make([]byte, len(buf), target+target/8)
		copy(grown, buf)
		buf = grown
	}
	n, err := io.ReadFull(r.src, buf[len(buf):target])
	if err == nil && r.head > 0 && r.src.text >= r.head {
		r.eof, r.headOnly = true, true
	}
	switch err {
	case nil:
	case io.EOF, io.ErrUnexpectedEOF:
		r.eof = true
		if r.src.cut {
			r.sum.Cut = CutCompressed
		}
	default:
		r.fault = err
	}
	return buf[:len(buf)+n]
}

// The first chunks of an input, as much as slowChunks whole ones, are smaller by
// slowPart than later ones: so the work on a small input, too, begins early and
// is shared evenly between workers, and takes no more memory than it needs.
const (
	slowChunks = 10
	slowPart   = 2
)

// chunkRows is the most rows in a chunk: what a row costs its reader does not
// depend on its length alone.
const chunkRows = 8192

// scan finds the rows at the start of b and returns how much of it is done
// with. At most a chunk's worth is handed out, whatever was read ahead.
func (r *Reader) scan(c *Chunk, b []byte) int {
	i := 0
	for i < len(b) && i < r.size && len(c.Rows) < chunkRows {
		n, ok := r.step(c, b, i)
		if !ok {
			break
		}
		i = n
	}
	if i > 0 {
		r.last = b[i-1]
	}
	if r.eof && i == len(b) {
		r.finish(c, i)
	}
	return i
}

// finish reports what the end of the input leaves open.
func (r *Reader) finish(c *Chunk, i int) {
	if r.skip != skipNone {
		if r.skip == skipLine {
			r.cut(CutLine)
		}
		r.cut(CutPage)
		r.endSkip(c)
	}
	if r.place != placeTop {
		r.cut(CutPage)
		r.emit(c, RawRow{Kind: RowTorn, Line: r.line, Offset: r.off + int64(i)})
		r.leave()
	}
}

func (r *Reader) cut(how Cut) {
	if r.sum.Cut == CutNone {
		r.sum.Cut = how
	}
}

// leave goes back to the top level.
func (r *Reader) leave() { r.place, r.inArray, r.page = placeTop, false, pageHead{} }

func (r *Reader) emit(c *Chunk, row RawRow) {
	if r.place == placePage || r.place == placeTrailer {
		row.PageRoom, row.Generation = r.page.room, r.page.gen
	}
	c.Rows = append(c.Rows, row)
}

// emitValue hands out b[from:to], a row that is whole or torn, without the
// white space at its end. The white space counts for the limit, so that a row
// meets it or not whatever the size of the chunks.
func (r *Reader) emitValue(c *Chunk, b []byte, from, to int, kind RowKind) {
	row := RawRow{Kind: kind, Line: r.line, Offset: r.off + int64(from)}
	if to-from > r.limits.LineBytes {
		row.Kind, row.Bytes, row.Size = RowTooLong, b[from:from+min(longPrefix, r.limits.LineBytes)], int64(to-from)
		r.sum.TooLong++
	} else {
		row.Bytes = trimRight(b[from:to:to])
		row.Size = int64(len(row.Bytes))
	}
	r.emit(c, row)
}

// step takes the next thing at b[i] and returns the index behind it. It
// returns false when b ends before the thing does and more may come.
func (r *Reader) step(c *Chunk, b []byte, i int) (int, bool) {
	if r.skip != skipNone {
		return r.stepSkip(c, b, i), true
	}
	switch r.place {
	case placeTop:
		return r.stepTop(c, b, i)
	case placeTrailer:
		return r.stepTrailer(c, b, i)
	}
	return r.stepElement(c, b, i)
}

// more asks for more text, unless the value at from is over the limit already:
// then the rest of it is passed over.
func (r *Reader) more(b []byte, i, from int, mode skipMode) (int, bool) {
	if len(b)-from <= r.limits.LineBytes {
		return i, false
	}
	r.startSkip(b, from, mode)
	return from, true
}

func (r *Reader) startSkip(b []byte, from int, mode skipMode) {
	r.skip = mode
	r.skipping = skipper{}
	r.skipRow = RawRow{
		Kind: RowTooLong, Line: r.line, Offset: r.off + int64(from),
		Bytes: bytes.Clone(b[from:min(from+longPrefix, from+r.limits.LineBytes, len(b))]),
	}
}

// stepTop takes a line, or what stands at the top level in its place.
func (r *Reader) stepTop(c *Chunk, b []byte, i int) (int, bool) {
	if r.off == 0 && i == 0 {
		const mark = "\xEF\xBB\xBF"
		if bytes.HasPrefix(b, []byte(mark)) {
			// A byte order mark says how the file is written and is no part
			// of its first row.
			return len(mark), true
		}
		if !r.eof && len(b) < len(mark) && bytes.HasPrefix([]byte(mark), b) {
			return i, false
		}
	}
	k := i
	for k < len(b) && (b[k] == ' ' || b[k] == '\t' || b[k] == '\r') {
		k++
	}
	if k < len(b) {
		switch {
		case b[k] == '[' && !r.sawLine:
			r.place, r.expect, r.inArray, r.midLine = placeArray, expectFirst, true, true
			return k + 1, true
		case b[k] == '{' && !beginsRow(b[k:]):
			if !r.eof && len(b)-k < len(`{"seq"`) {
				return i, false
			}
			return r.stepObject(c, b, i, k)
		}
	}
	return r.stepLine(c, b, i, k)
}

// stepLine takes the line b[i:], whose first byte that is not a space is at k.
func (r *Reader) stepLine(c *Chunk, b []byte, i, k int) (int, bool) {
	end, next := len(b), len(b)
	if nl := bytes.IndexByte(b[k:], '\n'); nl >= 0 {
		end, next = k+nl, k+nl+1
	} else if k == len(b) && k > i {
		// Space that no line end follows yet: done with, however much it is.
		return k, true
	} else if !r.eof {
		return r.more(b, i, k, skipLine)
	}
	tooLong := end-k > r.limits.LineBytes
	isBlank := !tooLong && blank(b[k:end])
	switch {
	case isBlank:
	case next > end:
		r.emitValue(c, b, k, end, RowNormal)
		r.sawLine = true
	case !tooLong && complete(b[k:end]):
		r.cut(CutNewline)
		r.emitValue(c, b, k, end, RowNormal)
	default:
		r.cut(CutLine)
		r.emitValue(c, b, k, end, RowTorn)
	}
	switch {
	case next > end:
		if isBlank && !r.midLine {
			r.sum.Blank++
		}
		r.line++
		r.midLine = false
	case !isBlank:
		r.midLine = true
	}
	return next, true
}

// stepObject takes the object at b[k] that does not begin like a row: a page,
// or a row with other members first, on one line or over several. Where it is
// neither, its first line is taken alone.
func (r *Reader) stepObject(c *Chunk, b []byte, i, k int) (int, bool) {
	o, tooLong := r.look(b[k:], false)
	if o.state == scanDone && o.seq {
		nl := bytes.IndexByte(b[k:], '\n')
		if nl < 0 {
			return r.stepLine(c, b, i, k)
		}
		if line := trimRight(b[k : k+nl]); line[len(line)-1] == '}' {
			return r.stepLine(c, b, i, k)
		}
		o, tooLong = r.look(b[k:], true)
	}
	end := k + o.end
	severalLines := bytes.IndexByte(b[k:end], '\n') >= 0
	switch {
	case o.head.repeated, o.state == scanBad:
		return r.stepLine(c, b, i, k)
	case o.state == scanMore:
		switch {
		case !r.eof && !tooLong:
			return i, false
		case !severalLines:
			return r.stepLine(c, b, i, k)
		case tooLong:
			r.startSkip(b, k, skipWhole)
			return k, true
		}
		return r.tornEnd(c, b, k)
	case o.messages:
		return r.enterPage(c, b, i, k, o)
	case !severalLines:
		return r.stepLine(c, b, i, k)
	}
	r.emitValue(c, b, k, end, RowNormal)
	r.line += countLines(b[k:end])
	r.midLine = true
	return end, true
}

// look scans an object as far as a row may go, and tells whether it goes on
// beyond that. No more of b than that is looked at, so that the answer does
// not depend on how much has been read.
func (r *Reader) look(b []byte, whole bool) (o object, tooLong bool) {
	if len(b) > r.limits.LineBytes {
		b, tooLong = b[:r.limits.LineBytes+1], true
	}
	o = scanObject(b, whole)
	return o, tooLong && o.state == scanMore
}

// tornEnd hands out what is left at the end of the input, the beginning of a
// value on several lines, of a page or of an array.
func (r *Reader) tornEnd(c *Chunk, b []byte, i int) (int, bool) {
	r.cut(CutPage)
	r.emitValue(c, b, i, len(b), RowTorn)
	r.line += countLines(b[i:])
	r.midLine = b[len(b)-1] != '\n'
	if len(b)-i <= r.limits.LineBytes {
		r.leave() // else the page's own end is still to be reported
	}
	return len(b), true
}

// enterPage goes into the messages of the page at b[k].
func (r *Reader) enterPage(c *Chunk, b []byte, i, k int, o object) (int, bool) {
	head, late := o.head, false
	if !head.hasRoom || !head.hasGen {
		// Sorted members put room behind the messages. Rows need it before.
		tail, rest := head, b[k+o.end:]
		clipped := len(rest) > r.limits.PageBytes
		if clipped {
			rest = rest[:r.limits.PageBytes+1]
		}
		switch state := scanTail(rest, &tail); {
		case state == scanMore && !clipped && !r.eof && r.fault == nil:
			return i, false
		case state == scanBad, clipped && state == scanMore:
			late = true
		case !tail.repeated:
			head.room, head.gen = tail.room, tail.gen
		}
	}
	c.Pages = append(c.Pages, Page{Room: head.room, Generation: head.gen, LastSeq: head.last, Line: r.line, Offset: r.off + int64(k)})
	r.line += countLines(b[k : k+o.end])
	r.midLine = true
	r.page, r.pageLate = head, late
	r.place, r.expect = placePage, expectFirst
	return k + o.end, true
}

// gap passes over white space within a page or array. It returns false at
// something that is not.
func (r *Reader) gap(b []byte, i int) (int, bool) {
	k := skipSpaces(b, i)
	if k == i {
		return i, false
	}
	if n := countLines(b[i:k]); n > 0 {
		r.line += n
		r.midLine = false
	}
	return k, true
}

// stepElement takes what comes next in an array or in a page's messages.
func (r *Reader) stepElement(c *Chunk, b []byte, i int) (int, bool) {
	if k, ok := r.gap(b, i); ok {
		return k, true
	}
	switch ch := b[i]; {
	case ch == ']' && r.expect != expectValue:
		r.midLine = true
		if r.place == placePage {
			r.place, r.expect = placeTrailer, expectNext
		} else {
			r.leave()
		}
		return i + 1, true
	case ch == ',' && r.expect == expectNext:
		r.midLine = true
		r.expect = expectValue
		return i + 1, true
	case r.expect == expectNext, ch == ',', ch == ']', ch == '}', ch == ':':
		return r.broken(c, i)
	case ch == '{' && r.place == placeArray && !beginsRow(b[i:]):
		switch o, tooLong := r.look(b[i:], false); {
		case tooLong:
			r.startSkip(b, i, skipWhole)
			return i, true
		case o.state == scanMore && !r.eof:
			return i, false
		case o.messages && !o.head.repeated:
			return r.enterPage(c, b, i, i, o)
		}
	}
	n, state := skipValue(b[i:])
	switch {
	case state == scanMore && !r.eof:
		return r.more(b, i, i, skipWhole)
	case state == scanMore:
		return r.tornEnd(c, b, i)
	case state == scanBad:
		r.emitValue(c, b, i, i+n, RowTorn)
		r.line += countLines(b[i : i+n])
		r.midLine, r.sawLine = b[i+n] == '\n', true
		r.leave()
		return i + n, true
	}
	r.emitValue(c, b, i, i+n, RowNormal)
	r.line += countLines(b[i : i+n])
	r.midLine = true
	r.expect = expectNext
	return i + n, true
}

// broken leaves a page or array that cannot go on at b[i]. Where that is the
// first thing on a line, what came before was cut off and something new begins
// here; else the rest of the line goes the way of any other bad line.
func (r *Reader) broken(c *Chunk, i int) (int, bool) {
	if !r.midLine {
		r.emit(c, RawRow{Kind: RowTorn, Line: r.line, Offset: r.off + int64(i)})
	}
	r.leave()
	r.sawLine = true
	return i, true
}

// stepTrailer takes what comes behind the messages of a page.
func (r *Reader) stepTrailer(c *Chunk, b []byte, i int) (int, bool) {
	if k, ok := r.gap(b, i); ok {
		return k, true
	}
	switch ch := b[i]; {
	case ch == '}' && r.expect == expectNext:
		r.midLine = true
		if r.inArray {
			r.place, r.expect, r.page = placeArray, expectNext, pageHead{}
		} else {
			r.leave()
		}
		return i + 1, true
	case ch == ',' && r.expect == expectNext:
		r.midLine = true
		r.expect = expectValue
		return i + 1, true
	case ch != '"' || r.expect != expectValue:
		return r.broken(c, i)
	}
	w := b[i:min(len(b), i+r.limits.LineBytes+1)]
	name, value, state := scanName(w, 0)
	from, n := 0, 0
	if state == scanDone {
		from = value
		n, state = skipValue(w[value:])
	}
	switch {
	case state == scanMore && len(w) > r.limits.LineBytes:
		r.startSkip(b, i+from, skipWhole)
		return i + from, true
	case state == scanMore && !r.eof:
		return i, false
	case state == scanMore:
		return r.tornEnd(c, b, i)
	case state == scanBad, name == "messages":
		return r.broken(c, i)
	}
	head := r.page
	head.take(name, w[value:value+n])
	head.last = r.page.last // only what stands before the messages is taken
	if head.repeated {
		return r.broken(c, i)
	}
	if r.pageLate && head != r.page {
		r.fault = &LimitError{Path: r.path, Limit: LimitPage, Max: int64(r.limits.PageBytes)}
		return i, false
	}
	r.page = head
	r.line += countLines(w[:value+n])
	r.midLine = true
	r.expect = expectNext
	return i + value + n, true
}

// stepSkip passes over more of an over-long row.
func (r *Reader) stepSkip(c *Chunk, b []byte, i int) int {
	if r.skip == skipLine {
		nl := bytes.IndexByte(b[i:], '\n')
		if nl < 0 {
			r.skipRow.Size += int64(len(b) - i)
			return len(b)
		}
		r.skipRow.Size += int64(nl)
		r.endSkip(c)
		r.leave()
		return i + nl
	}
	n, state := r.skipping.feed(b[i:])
	r.skipRow.Size += int64(n)
	r.line += countLines(b[i : i+n])
	switch state {
	case scanDone:
		r.endSkip(c)
		r.midLine = true
		r.expect = expectNext
	case scanBad:
		r.endSkip(c)
		r.midLine, r.sawLine = b[i+n] == '\n', true
		r.leave()
	}
	return i + n
}

func (r *Reader) endSkip(c *Chunk) {
	r.emit(c, r.skipRow)
	r.sum.TooLong++
	r.sawLine = r.sawLine || r.skip == skipLine && r.place == placeTop
	r.skip, r.skipRow = skipNone, RawRow{}
	r.midLine = true
}
