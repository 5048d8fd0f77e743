package export

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tclk-audit/tclk-audit/protocol"
)

// Input is one source of rows that Open found: a file, or standard input.
type Input struct {
	// Path is the path as it was given, or the folder's path and the path
	// within it; "-" for standard input.
	Path string
	// NameRoom is the room that the file's stem, or else its folder's name,
	// says exactly: tclk-offers or mb-p-tclk- and 16 hex digits. "" when
	// neither does. NameRoomFrom says which: RoomFromFile or RoomFromFolder.
	NameRoom     string
	NameRoomFrom RoomFrom
	// FallbackRoom is the stem, or else the folder's name, if it is a valid
	// room name at all; "" when neither is. It is a guess for when finding
	// the room by signatures failed (RoomFromName).
	FallbackRoom string
	// Size is the stored size in bytes, -1 where it is not known.
	Size int64

	opts   Options
	stream io.Reader // read this instead of the file
	used   bool      // stream is being read or was
}

// SkipReason says why a file in a folder is not read. The list is closed.
type SkipReason uint8

// The reasons to skip.
const (
	SkipName      SkipReason = 1 // not .jsonl or .json, plain, .gz or .zst
	SkipNotes     SkipReason = 2 // a folder kv: the venue's notes, which are no rows
	SkipNotRows   SkipReason = 3 // JSON, but neither rows nor pages
	SkipForm      SkipReason = 4 // an archive within an archive, and the like
	SkipIrregular SkipReason = 5 // a device, pipe or socket
	SkipAgain     SkipReason = 6 // already listed under another path, or a link to a folder around it
)

var skipText = [...]string{"", "other-name", "notes", "not-rows", "other-form", "not-a-file", "already-listed"}

// String returns the reason's code.
func (r SkipReason) String() string {
	if int(r) < len(skipText) {
		return skipText[r]
	}
	return "unknown"
}

// Skipped is a file or folder within a folder that is not read.
type Skipped struct {
	Path   string
	Reason SkipReason
	Detail string // a sentence, safe to show
}

// Open lists the inputs that the paths name: files, folders of rooms, and "-"
// for standard input. A named file is an input whatever it is called. In a
// folder, .jsonl and .json files are, plain or .gz or .zst, in folders within
// it too and through symbolic links; everything else there is listed as
// skipped. The order is that of the paths, and of the names within a folder.
//
// Open reads no more of a file than it takes to tell rows and pages from other
// JSON, and of named files nothing.
//
// An unreadable path is an error; so is a *LimitError.
func Open(paths []string, opts Options) (inputs []*Input, skipped []Skipped, err error) {
	opts, err = opts.withDefaults()
	if err != nil {
		return nil, nil, err
	}
	w := walker{opts: opts, seen: make(map[string]string)}
	for _, path := range paths {
		if err := w.named(path); err != nil {
			return nil, nil, err
		}
	}
	return w.inputs, w.skipped, nil
}

// NewInput makes an input of a stream, such as a reply of the venue that was
// kept in memory. name stands for its path in positions and messages. It can
// be read once.
func NewInput(name string, stream io.Reader, opts Options) (*Input, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Input{Path: name, Size: -1, opts: opts, stream: stream}, nil
}

// Room decides the room of a row from what the user, the row, its page and the
// input's name say, in this order. It returns "" and RoomUnknown where none of
// them does: then the caller tries signatures, and at last FallbackRoom.
func (in *Input) Room(row, page string) (string, RoomFrom) {
	switch {
	case in.opts.Room != "":
		return in.opts.Room, RoomFromFlag
	case row != "":
		return row, RoomFromRow
	case page != "":
		return page, RoomFromPage
	}
	return in.NameRoom, in.NameRoomFrom
}

// Reader begins to read the input. The caller reads it to its end or closes
// it.
func (in *Input) Reader() (*Reader, error) {
	var file io.Reader
	var closer io.Closer
	if in.stream != nil {
		if in.used {
			return nil, fmt.Errorf("export: %s is a stream and was read already: save it to a file to read it twice", showPath(in.Path))
		}
		in.used = true
		file = in.stream
	} else {
		f, err := os.Open(in.Path)
		if err != nil {
			return nil, fileError("open", in.Path, err)
		}
		file, closer = f, f
	}
	src, err := newSource(in.Path, file, closer, in.opts.Limits)
	if err != nil {
		if closer != nil {
			closer.Close()
		}
		return nil, err
	}
	chunk := in.opts.ChunkBytes
	if in.Size >= 0 && in.Size < int64(chunk) {
		// A folder may hold many thousand small files: no more is set aside for
		// each than it fills. One byte over, so that its end is seen.
		chunk = max(int(in.Size)+1, leastChunk)
	}
	r := &Reader{
		path: in.Path, chunk: chunk, small: min(chunk, (in.opts.ChunkBytes+slowPart-1)/slowPart), limits: in.opts.Limits,
		src: src, line: 1,
	}
	r.sum.Compression = src.compression
	return r, nil
}

var errClosed = errors.New("export: the reader was closed")

// fileError says what was tried on which path, and what to do about it.
func fileError(verb, path string, err error) error {
	// The path stands in the message once, and safely.
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	advice := "check the disk and try again"
	switch {
	case errors.Is(err, fs.ErrNotExist):
		advice = "check the spelling, and that a link leads somewhere"
	case errors.Is(err, fs.ErrPermission):
		advice = "give yourself the right to read it, or leave it out"
	}
	return fmt.Errorf("export: cannot %s %s: %w: %s", verb, showPath(path), err, advice)
}

// walker lists inputs.
type walker struct {
	opts    Options
	inputs  []*Input
	skipped []Skipped
	seen    map[string]string // resolved path → path under which it was listed
	stdin   bool
}

func (w *walker) named(path string) error {
	if path == "-" {
		return w.standardInput()
	}
	info, err := os.Stat(path)
	if err != nil {
		return fileError("read", path, err)
	}
	if !info.IsDir() && !info.Mode().IsRegular() {
		return w.add(path, -1) // a pipe or a device: nothing to resolve
	}
	real, err := resolve(path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return w.folder(path, real, 0)
	}
	if again, err := w.again(path, real); again || err != nil {
		return err
	}
	return w.add(path, info.Size())
}

func (w *walker) standardInput() error {
	switch {
	case w.opts.Stdin == nil:
		return errors.New("export: there is no standard input to read for -: name a file instead")
	case w.stdin:
		return errors.New("export: - is given twice, but standard input can be read once only: give it once")
	}
	w.stdin = true
	w.inputs = append(w.inputs, &Input{Path: "-", Size: -1, opts: w.opts, stream: w.opts.Stdin})
	return w.count("-")
}

func (w *walker) count(path string) error {
	if len(w.inputs)+len(w.skipped) > w.opts.Limits.Files {
		return &LimitError{Path: path, Limit: LimitFiles, Max: int64(w.opts.Limits.Files)}
	}
	return nil
}

func (w *walker) skip(path string, reason SkipReason, detail string) error {
	w.skipped = append(w.skipped, Skipped{Path: path, Reason: reason, Detail: detail})
	return w.count(path)
}

func (w *walker) add(path string, size int64) error {
	in := &Input{Path: path, Size: size, opts: w.opts}
	in.NameRoom, in.NameRoomFrom, in.FallbackRoom = roomOfName(path)
	w.inputs = append(w.inputs, in)
	return w.count(path)
}

// resolve follows the links in a path.
func resolve(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		return "", fileError("resolve", path, err)
	}
	return real, nil
}

// again lists a file or folder as skipped if it was listed before under
// another path. Links make that happen; so does a folder named beside a file
// within it. The same rows twice would look like a second copy that agrees.
func (w *walker) again(path, real string) (bool, error) {
	if first, ok := w.seen[real]; ok {
		return true, w.skip(path, SkipAgain, "the same as "+showPath(first))
	}
	w.seen[real] = path
	return false, nil
}

// folder lists the files in a folder and the folders within it. A folder that
// was seen is skipped, so links in a circle end. real is path with its links
// followed.
func (w *walker) folder(path, real string, depth int) error {
	if depth > folderDepth {
		return &LimitError{Path: path, Limit: LimitFolders, Max: folderDepth}
	}
	if again, err := w.again(path, real); again || err != nil {
		return err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return fileError("list", path, err)
	}
	for _, e := range entries {
		child, realChild := filepath.Join(path, e.Name()), filepath.Join(real, e.Name())
		mode := e.Type()
		link := mode&fs.ModeSymlink != 0
		var size int64
		if link || mode.IsRegular() {
			info, err := os.Stat(child)
			switch {
			case err == nil:
				mode, size = info.Mode().Type(), info.Size()
			case link && !rowsName(e.Name()):
				// A link that leads nowhere and promises no rows.
				if err := w.skip(child, SkipIrregular, "a link that leads nowhere"); err != nil {
					return err
				}
				continue
			default:
				return fileError("read", child, err)
			}
		}
		if link {
			if realChild, err = resolve(child); err != nil {
				return err
			}
		}
		switch {
		case mode.IsDir() && e.Name() == "kv":
			err = w.skip(child, SkipNotes, "notes of the venue, not rows")
		case mode.IsDir():
			err = w.folder(child, realChild, depth+1)
		case !mode.IsRegular():
			err = w.skip(child, SkipIrregular, "not a regular file")
		case !rowsName(e.Name()):
			err = w.skip(child, SkipName, "not .jsonl or .json, plain, .gz or .zst")
		default:
			err = w.file(child, realChild, size)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// file lists a file of a folder if it holds rows.
func (w *walker) file(path, real string, size int64) error {
	if again, err := w.again(path, real); again || err != nil {
		return err
	}
	reason, detail, err := w.classify(path)
	switch {
	case err != nil:
		return err
	case reason != 0:
		return w.skip(path, reason, detail)
	}
	return w.add(path, size)
}

// classifyBytes is how much of a file is looked at to tell rows from other
// JSON.
const classifyBytes = 256 << 10

// classify decides whether a file in a folder is read. It goes by what the
// first values of the file are: a page, or an object with the members of a
// row, is enough. What is no JSON at all is read too, so that a damaged export
// is reported and not passed over.
func (w *walker) classify(path string) (reason SkipReason, detail string, err error) {
	in := Input{Path: path, opts: w.opts}
	in.opts.ChunkBytes = 16 << 10
	r, err := in.Reader()
	var form *FormError
	var damaged *DamagedError
	switch {
	case errors.As(err, &form):
		return SkipForm, form.What + ": " + form.Do, nil
	case errors.As(err, &damaged):
		return 0, "", nil // the reading will say so
	case err != nil:
		return 0, "", err
	}
	defer r.Close()
	r.head = classifyBytes
	var c Chunk
	otherJSON := false
	for {
		switch err := r.Next(&c); {
		case err == io.EOF:
			return verdict(otherJSON)
		case err != nil:
			return 0, "", nil // as above
		}
		if len(c.Pages) > 0 {
			return 0, "", nil
		}
		for i := range c.Rows {
			row := &c.Rows[i]
			switch {
			case likeRow(row.Bytes):
				return 0, "", nil
			case row.Kind != RowTooLong && isJSON(row.Bytes),
				row.Kind == RowTorn && r.headOnly && Torn(row.Bytes):
				otherJSON = true
			}
		}
	}
}

func verdict(otherJSON bool) (SkipReason, string, error) {
	if otherJSON {
		return SkipNotRows, "JSON, but neither rows nor pages", nil
	}
	return 0, "", nil
}

func isJSON(b []byte) bool {
	p := parser{b: b, replaceUTF8: true, lastWins: true}
	end := p.skipValue(p.space(0), 0)
	return end >= 0 && p.space(end) == len(b)
}

// likeRow reports whether b is a row, or was meant to be one: an object, or
// the beginning of one, with seq and another member of rows, or with all
// others that every row has. Frames, notes and other programs' logs are not.
func likeRow(b []byte) bool {
	if len(b) == 0 || b[0] != '{' {
		return false
	}
	p := parser{b: b, replaceUTF8: true, lastWins: true}
	var has [memberOther + 1]bool
	for i := p.space(1); i >= 0 && i < len(b); i = p.space(i) {
		name, _, value := p.memberName(i)
		if value < 0 {
			break
		}
		has[memberOf(name)] = true
		if i = p.skipValue(value, 1); i < 0 {
			break
		}
		if i = p.space(i); i >= len(b) || b[i] != ',' {
			break
		}
		i++
	}
	others := 0
	for _, m := range []member{memberTs, memberFrom, memberText} {
		if has[m] {
			others++
		}
	}
	return has[memberSeq] && others > 0 || others == 3
}

// rowsName reports whether a file in a folder may hold rows, by its name.
func rowsName(name string) bool {
	stem := stripCompression(name)
	ext := strings.ToLower(filepath.Ext(stem))
	return len(stem) > len(ext) && (ext == ".jsonl" || ext == ".json")
}

func stripCompression(name string) string {
	if promised(name) != Plain {
		return name[:len(name)-len(filepath.Ext(name))]
	}
	return name
}

// roomOfName finds rooms in the name of a file and of its folder.
func roomOfName(path string) (exact string, from RoomFrom, any string) {
	stem := stripCompression(filepath.Base(path))
	if ext := strings.ToLower(filepath.Ext(stem)); ext == ".jsonl" || ext == ".json" {
		stem = stem[:len(stem)-len(ext)]
	}
	folder := ""
	if abs, err := filepath.Abs(path); err == nil {
		folder = filepath.Base(filepath.Dir(abs))
	}
	switch {
	case isTclkRoom(stem):
		exact, from = stem, RoomFromFile
	case isTclkRoom(folder):
		exact, from = folder, RoomFromFolder
	}
	switch {
	case protocol.ValidRoom(stem):
		any = stem
	case protocol.ValidRoom(folder):
		any = folder
	}
	return exact, from, any
}

func isTclkRoom(name string) bool { return name == protocol.BoardRoom || protocol.IsDealRoom(name) }
