package export

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"strings"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Compression says how the bytes of an input are stored.
type Compression uint8

// The compressions.
const (
	Plain Compression = 0
	Gzip  Compression = 1
	Zstd  Compression = 2
)

var compressionText = [...]string{"", "gzip", "zstd"}

// String returns the compression's name, "" for Plain.
func (c Compression) String() string {
	if int(c) < len(compressionText) {
		return compressionText[c]
	}
	return "unknown"
}

const (
	gzipMagic = "\x1f\x8b"
	zstdMagic = "\x28\xb5\x2f\xfd"
)

// compressionOf tells the compression from the first bytes. The name decides
// nothing: browsers and proxies decompress what they save and keep the name.
func compressionOf(head []byte) Compression {
	switch {
	case bytes.HasPrefix(head, []byte(gzipMagic)):
		return Gzip
	case bytes.HasPrefix(head, []byte(zstdMagic)), isSkippableFrame(head):
		return Zstd
	}
	return Plain
}

// isSkippableFrame knows the frame that some tools put before a zstd frame.
func isSkippableFrame(head []byte) bool {
	return len(head) >= 4 && head[0]&0xf0 == 0x50 && string(head[1:4]) == "\x2a\x4d\x18"
}

// promised tells the compression that a file's name promises.
func promised(path string) Compression {
	switch lower := strings.ToLower(path); {
	case strings.HasSuffix(lower, ".gz"):
		return Gzip
	case strings.HasSuffix(lower, ".zst"):
		return Zstd
	}
	return Plain
}

// otherForms are files that people have beside rows, told by their first
// bytes.
var otherForms = []struct {
	magic    string
	at       int
	what, do string
}{
	{"PK\x03\x04", 0, "a zip archive", "extract it first"},
	{"BZh", 0, "compressed with bzip2", "decompress it first"},
	{"\xfd7zXZ\x00", 0, "compressed with xz", "decompress it first"},
	{"ustar", 257, "a tar archive", "extract it first"},
	{"\xff\xfe", 0, "UTF-16 text", "convert it to UTF-8 first"},
	{"\xfe\xff", 0, "UTF-16 text", "convert it to UTF-8 first"},
	{"\x00\x05\x16\x07", 0, "a macOS resource file", "leave it out"},
}

// formHead is how many first bytes the forms above need.
const formHead = 512

func checkForm(path string, head []byte) error {
	for _, f := range otherForms {
		if len(head) >= f.at && bytes.HasPrefix(head[f.at:], []byte(f.magic)) {
			return &FormError{Path: path, What: f.what, Do: f.do}
		}
	}
	return nil
}

// source is the text of one input: it reads the stored bytes, hashes them and
// decompresses them, within the limits. It returns io.EOF at the end, also
// where a compressed stream breaks off; cut is set then.
type source struct {
	path        string
	limits      Limits
	compression Compression

	file   io.Reader
	closer io.Closer // nil if the file is not ours to close
	hash   hash.Hash
	stored atomic.Int64 // bytes read from file
	ioErr  error        // what file failed with

	in   io.Reader // the text, without the part in head
	zstd *zstd.Decoder
	head []byte // text that was read to look at it
	text int64  // bytes of text given out
	err  error  // sticky
	cut  bool
}

// newSource begins to read a file and finds out how it is stored. It returns a
// *FormError if it is in no form that can be read.
func newSource(path string, file io.Reader, closer io.Closer, limits Limits) (*source, error) {
	s := &source{path: path, limits: limits, file: file, closer: closer, hash: sha256.New()}
	stored, err := readHead(storedReader{s})
	if err != nil {
		return nil, s.classify(err)
	}
	if err := checkForm(path, stored); err != nil {
		return nil, err
	}
	s.compression = compressionOf(stored)
	whole := io.MultiReader(bytes.NewReader(stored), storedReader{s})
	switch s.compression {
	case Gzip:
		z, err := gzip.NewReader(bufio.NewReaderSize(whole, 128<<10))
		if err == io.ErrUnexpectedEOF || err == io.EOF {
			s.cut = true
			s.in = bytes.NewReader(nil)
			break
		}
		if err != nil {
			return nil, s.classify(err)
		}
		s.in = z
	case Zstd:
		z, err := zstd.NewReader(whole, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(zstdWindow))
		if err != nil {
			return nil, s.classify(err)
		}
		s.in, s.zstd = z, z
	default:
		// A download that broke off within the first bytes of a compressed
		// file is no room without rows.
		if want := promised(path); want == Gzip && strings.HasPrefix(gzipMagic, string(stored)) ||
			want == Zstd && strings.HasPrefix(zstdMagic, string(stored)) {
			s.cut = true
			stored = nil
		}
		s.head, s.in = stored, storedReader{s}
		return s, nil
	}
	// What is compressed twice is not decompressed twice: one file must not
	// hide its size behind layers.
	head, err := readHead(s)
	if err != nil {
		s.release()
		return nil, err
	}
	s.head, s.text, s.err = head, 0, nil
	if compressionOf(head) != Plain {
		s.release()
		return nil, &FormError{Path: path, What: "compressed twice", Do: "decompress it once by hand"}
	}
	if err := checkForm(path, head); err != nil {
		s.release()
		return nil, err
	}
	return s, nil
}

func readHead(r io.Reader) ([]byte, error) {
	head := make([]byte, formHead)
	n, err := io.ReadFull(r, head)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil
	}
	return head[:n], err
}

// storedReader reads the file as it is stored.
type storedReader struct{ s *source }

func (r storedReader) Read(p []byte) (int, error) {
	n, err := r.s.file.Read(p)
	r.s.hash.Write(p[:n])
	r.s.stored.Add(int64(n))
	if err != nil && err != io.EOF {
		r.s.ioErr = err
	}
	return n, err
}

func (s *source) Read(p []byte) (n int, err error) {
	if s.err != nil {
		return 0, s.err
	}
	if len(s.head) > 0 {
		n = copy(p, s.head)
		s.head = s.head[n:]
	} else {
		n, err = s.in.Read(p)
	}
	s.text += int64(n)
	if err != nil && err != io.EOF {
		if s.compression != Plain && s.ioErr == nil && errors.Is(err, io.ErrUnexpectedEOF) {
			s.cut = true
			err = io.EOF
		} else {
			err = s.classify(err)
		}
	}
	if s.compression != Plain {
		if s.text > s.limits.DecompressedBytes {
			err = &LimitError{Path: s.path, Limit: LimitDecompressed, Max: s.limits.DecompressedBytes}
		} else if s.text > ratioFloor && s.text/s.limits.Ratio > s.stored.Load() {
			err = &LimitError{Path: s.path, Limit: LimitRatio, Max: s.limits.Ratio}
		}
	}
	s.err = err
	return n, err
}

// classify tells an unreadable file from damaged compression.
func (s *source) classify(err error) error {
	switch {
	case s.ioErr != nil:
		return fileError("read", s.path, s.ioErr)
	case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return &FormError{Path: s.path, What: "compressed with a zstd window of over 128 MiB", Do: "decompress it by hand"}
	}
	return &DamagedError{Path: s.path, Err: err}
}

// digest returns the sha256 of all stored bytes. The decompressors read to the
// end of the file, so nothing is left to read.
func (s *source) digest() string { return hex.EncodeToString(s.hash.Sum(nil)) }

func (s *source) release() {
	if s.zstd != nil {
		s.zstd.Close()
		s.zstd = nil
	}
}

// Close releases the decompressor and closes the file.
func (s *source) Close() error {
	s.release()
	if s.closer == nil {
		return nil
	}
	return s.closer.Close()
}
