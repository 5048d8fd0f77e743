package venue

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// ErrNoExport says that the venue has no export: it is older than 0.11, and
// only its pages can be read. It stands behind a *StatusError (errors.Is).
var ErrNoExport = errors.New("venue: no export before version 0.11")

// NameError says that a room, a namespace or a key cannot have that name at the
// venue. Nothing was sent.
type NameError struct {
	What string // "room", "namespace" or "key"
	Name string // as it was given: a stranger's text
}

// Error says what was wrong, and names the name by its length and hash.
func (e *NameError) Error() string {
	sum := sha256.Sum256([]byte(e.Name))
	return fmt.Sprintf("venue: no %s can be called text(%d bytes, sha256 %s...): names are 1 to 48 of a-z, 0-9, _ and -, and begin with a letter or digit",
		e.What, len(e.Name), hex.EncodeToString(sum[:4]))
}

// LimitedError says that the venue refused a request because its read budget
// for this address is spent (429). All calls of the client wait until the time
// is over.
type LimitedError struct {
	Asked      string        // path and query
	RetryAfter time.Duration // as the venue said it, at most maxPause
}

// Error says how long to wait.
func (e *LimitedError) Error() string {
	return fmt.Sprintf("venue: GET %s: the read budget of this address is spent (429): try again after %s, and lower the share of the budget if it happens often", e.Asked, e.RetryAfter)
}

// StatusError says that the answer had another status than 200, 429 or a
// redirect.
type StatusError struct {
	Asked string // path and query
	Code  int    // HTTP status
	HTML  bool   // the answer is a page for a browser: of something in front of the venue, since the venue's own errors are plain text

	export bool
}

// Error says what the status means for a reader.
func (e *StatusError) Error() string {
	do := "try again later"
	switch {
	case e.HTML:
		do = "it comes from something in front of the venue; try again later"
	case e.export && e.Code == 404:
		do = "the venue is older than 0.11 and has no export; read its pages"
	case e.Code == 404:
		do = "there is no such thing at this origin; check that it is a venue"
	case e.Code == 431:
		do = "a proxy adds too many headers"
	case e.Permanent():
		do = "the venue will not answer this request; asking again does not help"
	}
	return fmt.Sprintf("venue: GET %s: status %d: %s", e.Asked, e.Code, do)
}

// Permanent reports whether the same request will be refused again: 400, 403,
// 404, 405 and 410 as the venue itself says them, in plain text.
func (e *StatusError) Permanent() bool {
	switch e.Code {
	case 400, 403, 404, 405, 410:
		return !e.HTML
	}
	return false
}

// Is makes the 404 of an export an ErrNoExport.
func (e *StatusError) Is(target error) bool {
	return target == ErrNoExport && e.export && e.Code == 404 && !e.HTML
}

// BodyKind says what is wrong with a body. The list is closed.
type BodyKind uint8

// What can be wrong with a body.
const (
	BodyHTML        BodyKind = 1 // a page for a browser, whatever its status
	BodyType        BodyKind = 2 // another Content-Type than was to come
	BodyNotJSON     BodyKind = 3 // no JSON, or no UTF-8
	BodyShape       BodyKind = 4 // JSON, but not of the shape that was to come
	BodyLimit       BodyKind = 5 // longer than the limit, or grown too much from its compressed form
	BodyCompression BodyKind = 6 // compressed in a way that was not asked for, or damaged
)

var bodyKindText = [...]string{"", "html", "type", "not-json", "shape", "limit", "compression"}

// String returns the kind's code.
func (k BodyKind) String() string {
	if int(k) < len(bodyKindText) {
		return bodyKindText[k]
	}
	return "unknown"
}

// BodyError says that an answer came whole, with status 200, and cannot be
// used. Nothing of it was.
type BodyError struct {
	Asked  string // path and query
	Kind   BodyKind
	Detail string // what exactly, in words of this package
}

// Error says what is wrong and what to do.
func (e *BodyError) Error() string {
	do := "try again later; if it stays so, check that the origin is a venue"
	switch e.Kind {
	case BodyLimit:
		do = "raise the limit if the venue is trusted"
	case BodyCompression:
		do = "try again later; if it stays so, look at what stands between here and the venue"
	}
	return fmt.Sprintf("venue: GET %s: %s: %s", e.Asked, e.Detail, do)
}

// CutError says that an answer began and did not come whole. Nothing of it was
// used.
type CutError struct {
	Asked   string // path and query
	Bytes   int64  // as text, so many came
	LastSeq uint64 // of an export, the last seq that came, 0 for none
	AtLeast uint64 // of an export, the seq that it had to reach
	Err     error  // what ended it, nil where it ended as if it were whole
}

// Error says how far it came.
func (e *CutError) Error() string {
	why := "it has no line end at its end"
	switch {
	case e.Err != nil:
		why = printable(e.Err.Error())
	case e.LastSeq < e.AtLeast:
		why = fmt.Sprintf("its last seq is %d, and the room has reached %d", e.LastSeq, e.AtLeast)
	}
	return fmt.Sprintf("venue: GET %s: the answer was cut short after %d bytes (%s): try again", e.Asked, e.Bytes, why)
}

// Unwrap returns what ended the answer.
func (e *CutError) Unwrap() error { return e.Err }

// RedirectError says that the answer points to another place. It was not
// followed.
type RedirectError struct {
	Asked string // path and query
	Code  int    // HTTP status
	Place string // the Location as it came: a stranger's text, at most 2048 bytes
}

// Error names the place by its length and hash.
func (e *RedirectError) Error() string {
	sum := sha256.Sum256([]byte(e.Place))
	return fmt.Sprintf("venue: GET %s: status %d points to text(%d bytes, sha256 %s...): redirects are not followed; set the origin to where the venue is, with the right scheme",
		e.Asked, e.Code, len(e.Place), hex.EncodeToString(sum[:4]))
}

// NetworkError says that no answer came: no connection, a failed handshake, or
// a venue that was silent for too long.
type NetworkError struct {
	Asked string // path and query
	Err   error
}

// Error says what failed.
func (e *NetworkError) Error() string {
	return fmt.Sprintf("venue: GET %s: no answer (%s): check the network and the origin, or try again later", e.Asked, printable(e.Err.Error()))
}

// Unwrap returns what failed.
func (e *NetworkError) Unwrap() error { return e.Err }

// Temporary reports whether the same call is worth another try: after a 429, a
// 5xx, HTML, a cut answer, a failed connection or a deadline, but not after a
// refusal that stands, an answer over a limit, or a cancelled context.
func Temporary(err error) bool {
	var (
		limited  *LimitedError
		status   *StatusError
		body     *BodyError
		cut      *CutError
		redirect *RedirectError
		network  *NetworkError
	)
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return false
	case errors.As(err, &limited), errors.As(err, &cut), errors.As(err, &network):
		return true
	case errors.As(err, &status):
		return !status.Permanent()
	case errors.As(err, &body):
		return body.Kind != BodyLimit
	case errors.As(err, &redirect):
		return redirect.Code != 301 && redirect.Code != 308
	}
	return errors.Is(err, context.DeadlineExceeded)
}

// printable makes an error of the network fit for a log: ASCII, without control
// characters, and short.
func printable(s string) string {
	const most = 300
	cut := len(s) > most
	if cut {
		s = s[:most]
	}
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			s = strconv.QuoteToASCII(s)
			s = s[1 : len(s)-1]
			break
		}
	}
	if cut {
		s += "..."
	}
	return s
}
