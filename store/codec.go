package store

import (
	"encoding/binary"
	"errors"
)

// errShort says that a stored value ends before what it should hold.
var errShort = errors.New("the value is cut short or damaged")

// dec reads a stored value from its beginning. After the first mistake it
// reads zeros and err is set.
type dec struct {
	b   []byte
	err error
}

func (d *dec) fail() {
	d.err = errShort
	d.b = nil
}

func (d *dec) byte() byte {
	if len(d.b) == 0 {
		d.fail()
		return 0
	}
	c := d.b[0]
	d.b = d.b[1:]
	return c
}

func (d *dec) uint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *dec) int() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

// take returns the next n bytes, which alias the value.
func (d *dec) take(n int) []byte {
	if n < 0 || n > len(d.b) {
		d.fail()
		return nil
	}
	v := d.b[:n:n]
	d.b = d.b[n:]
	return v
}

func (d *dec) bytes() []byte { return d.take(int(min(d.uint(), 1<<31))) }

func (d *dec) string() string { return string(d.bytes()) }

func (d *dec) id() (id [32]byte) {
	copy(id[:], d.take(32))
	return id
}

func appendBytes[T ~string | ~[]byte](dst []byte, s T) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

func appendBool(dst []byte, v bool) []byte {
	if v {
		return append(dst, 1)
	}
	return append(dst, 0)
}
