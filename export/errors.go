package export

import (
	"crypto/sha256"
	"fmt"
	"strconv"
)

// Limit names one of the limits of this package. The list is closed.
type Limit uint8

// The limits that stop the reading of an input or the listing of a folder. An
// over-long row does not stop it and is therefore none of them: see RowTooLong.
const (
	LimitDecompressed Limit = 1 // Limits.DecompressedBytes
	LimitRatio        Limit = 2 // Limits.Ratio
	LimitPage         Limit = 3 // Limits.PageBytes
	LimitFiles        Limit = 4 // Limits.Files
	LimitFolders      Limit = 5 // folders within folders, 64, fixed
)

var limitText = [...]string{"", "decompressed-bytes", "compression-ratio", "page-bytes", "files", "folder-depth"}

// String returns the limit's code.
func (l Limit) String() string {
	if int(l) < len(limitText) {
		return limitText[l]
	}
	return "unknown"
}

// LimitError says that a limit stopped the work on Path. Rows handed out
// before it are good, but the input was not read to its end.
type LimitError struct {
	Path  string
	Limit Limit
	Max   int64 // the limit's value, in its own unit
}

// Error says which limit was met and how to raise it.
func (e *LimitError) Error() string {
	p := showPath(e.Path)
	switch e.Limit {
	case LimitDecompressed:
		return fmt.Sprintf("export: %s grows beyond the limit of %d decompressed bytes: raise --max-decompressed if the file is trusted", p, e.Max)
	case LimitRatio:
		return fmt.Sprintf("export: %s grows to more than %d times its size when decompressed, as a compression bomb does: raise --max-ratio if the file is trusted", p, e.Max)
	case LimitPage:
		return fmt.Sprintf("export: %s holds a page whose room or generation stands behind its messages, too far to be read ahead (limit %d bytes): raise --max-page, or put them before the messages", p, e.Max)
	case LimitFiles:
		return fmt.Sprintf("export: more than %d files at %s: raise --max-files, or name fewer folders", e.Max, p)
	case LimitFolders:
		return fmt.Sprintf("export: folders lie more than %d deep at %s: name the inner folder instead", e.Max, p)
	}
	return fmt.Sprintf("export: limit %s met at %s", e.Limit, p)
}

// FormError says that a file is in a form that this package does not read,
// such as a zip archive or gzip within gzip. Nothing of it was read.
type FormError struct {
	Path string
	What string // what the file is
	Do   string // what to do with it
}

// Error says what the file is and what to do.
func (e *FormError) Error() string {
	return fmt.Sprintf("export: %s is %s, not rows: %s", showPath(e.Path), e.What, e.Do)
}

// DamagedError says that the compression of a file is damaged. Rows handed out
// before it came from the part before the damage; what follows is lost. A file
// that merely ends too early is no error: see CutCompressed.
type DamagedError struct {
	Path string
	Err  error
}

// Error says what failed.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("export: the compression of %s is damaged: %v: fetch the file again, or decompress it by hand", showPath(e.Path), e.Err)
}

// Unwrap returns the decompressor's error.
func (e *DamagedError) Unwrap() error { return e.Err }

// showPath gives a path for a message. Names in an archive may be a stranger's
// and hold control characters or escape sequences.
func showPath(p string) string {
	for _, r := range p {
		if !strconv.IsPrint(r) {
			return strconv.QuoteToASCII(p)
		}
	}
	return p
}

// showText gives a stranger's text for a message: itself where it is short and
// plain, else its length and the start of its sha256.
func showText(s string) string {
	plain := len(s) >= 1 && len(s) <= 32
	for i := 0; plain && i < len(s); i++ {
		c := s[i]
		plain = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '.' || c == '-'
	}
	if plain {
		return `"` + s + `"`
	}
	sum := sha256.Sum256([]byte(s))
	return fmt.Sprintf("a text of %d bytes (sha256 %x…)", len(s), sum[:6])
}
