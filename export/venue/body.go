package venue

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
)

const (
	// maxRatio is how many times its size an answer may grow when it is
	// unpacked, once it is longer than ratioFloor. Rows that a hostile writer
	// chose for it grow about 570 times, and must still be read; a bomb grows
	// 1,030 times.
	maxRatio   = 800
	ratioFloor = 1 << 20 // bytes
	// wireExtra is how much longer than its text limit an answer may be on the
	// wire. Compression without effect adds less.
	wireExtra = 64 << 10
)

var errStalled = fmt.Errorf("no byte came for %s", stallTime)

// body reads an answer within its limits.
type body struct {
	a     ask
	from  io.Reader
	size  int64 // said by the header, -1 for not
	code  string
	wire  int64       // bytes read from the network
	stall *time.Timer // ends the request when the network is silent
	over  bool        // it was longer than any answer may be
	err   error       // of the network
}

func newBody(resp *http.Response, a ask, cancel context.CancelCauseFunc) *body {
	b := &body{
		a: a, from: resp.Body, size: resp.ContentLength,
		code: strings.ToLower(strings.Join(resp.Header.Values("Content-Encoding"), ",")),
	}
	b.stall = time.AfterFunc(stallTime, func() { cancel(errStalled) })
	return b
}

func (b *body) close() { b.stall.Stop() }

// Read reads from the network: it counts, and tells that the network lives.
func (b *body) Read(p []byte) (int, error) {
	if left := b.a.max + wireExtra - b.wire; left <= 0 {
		b.over = true
		return 0, errors.New("too long on the wire")
	} else if int64(len(p)) > left {
		p = p[:left]
	}
	n, err := b.from.Read(p)
	b.wire += int64(n)
	if n > 0 {
		b.stall.Reset(stallTime)
	}
	if err != nil && err != io.EOF {
		b.err = err
	}
	return n, err
}

// read returns the body as text, or a *BodyError or *CutError.
func (b *body) read() ([]byte, error) {
	var text io.Reader = b
	taken := func() int64 { return b.wire }
	packed := false
	switch b.code {
	case "", "identity":
	case "gzip", "x-gzip":
		packed = true
	default:
		return nil, &BodyError{b.a.path, BodyCompression, "the answer is compressed, and not with gzip"}
	}
	if b.size > b.a.max+wireExtra {
		return nil, b.tooLong()
	}
	if packed {
		ahead := bufio.NewReader(b)
		taken = func() int64 { return b.wire - int64(ahead.Buffered()) }
		z, err := gzip.NewReader(ahead)
		if err != nil {
			return nil, b.failed(err, 0)
		}
		defer z.Close()
		text = z
	}
	room := int64(16 << 10)
	if !packed && b.size >= 0 {
		room = b.size + 1
	}
	buf := make([]byte, 0, min(room, b.a.max+1))
	for {
		if len(buf) == cap(buf) {
			grown := make([]byte, len(buf), min(2*int64(cap(buf)), b.a.max+1))
			copy(grown, buf)
			buf = grown
		}
		n, err := text.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch size := int64(len(buf)); {
		case size > b.a.max:
			return nil, b.tooLong()
		case packed && size > ratioFloor && size > maxRatio*taken():
			return nil, &BodyError{b.a.path, BodyLimit, fmt.Sprintf("the answer grows to more than %d times its size when it is unpacked, as a compression bomb does", maxRatio)}
		case err == io.EOF:
			return buf, nil
		case err != nil:
			return nil, b.failed(err, size)
		}
	}
}

func (b *body) tooLong() error {
	return &BodyError{b.a.path, BodyLimit, fmt.Sprintf("the answer is longer than the limit of %d bytes", b.a.max)}
}

// failed tells damage from an early end.
func (b *body) failed(err error, size int64) error {
	switch {
	case b.over:
		return b.tooLong()
	case b.err != nil:
		err = b.err
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
	case err != io.ErrUnexpectedEOF:
		return &BodyError{b.a.path, BodyCompression, "the answer's compression is damaged"}
	}
	return &CutError{Asked: b.a.path, Bytes: size, Err: err}
}

// drain reads the short rest of an answer that is of no use, so that its
// connection can be used again.
func drain(r io.Reader, cancel context.CancelCauseFunc) {
	t := time.AfterFunc(drainTime, func() { cancel(errStalled) })
	defer t.Stop()
	io.CopyN(io.Discard, r, maxDrain)
}
