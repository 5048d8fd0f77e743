package store

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// markName is the file, beside the database, that holds the high-water mark: how
// far the log and the events were acknowledged. Pebble opens a database that
// lost the end of its write-log as if that end had never been written; only
// something outside it can tell.
//
// The file has two slots of slotSize bytes, written in turn and synced, so that
// a torn write spoils the older of two answers at most. Each slot has a number
// that rises with every write, and the valid slot with the greater one counts.
const (
	markName  = "ACKNOWLEDGED"
	slotSize  = 512
	slotBytes = 36 // of them used
)

// mark is the acknowledged position.
type mark struct {
	log    uint64 // entries of the log
	events uint64 // events
}

// markSlot is a mark as it was written.
type markSlot struct {
	mark
	number uint64 // of the write, from 1
}

// markFile keeps the high-water mark. It is not for concurrent use.
type markFile struct {
	path string
	f    vfs.File
	last markSlot
}

var markMagic = [8]byte{'t', 'c', 'l', 'k', 'm', 'a', 'r', '1'}

func (m markSlot) append(b []byte) []byte {
	b = append(b, markMagic[:]...)
	b = binary.BigEndian.AppendUint64(b, m.number)
	b = binary.BigEndian.AppendUint64(b, m.log)
	b = binary.BigEndian.AppendUint64(b, m.events)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

func readSlot(b []byte) (m markSlot, ok bool) {
	if len(b) < slotBytes || [8]byte(b[:8]) != markMagic || crc32.ChecksumIEEE(b[:slotBytes-4]) != binary.BigEndian.Uint32(b[slotBytes-4:]) {
		return m, false
	}
	return markSlot{mark{binary.BigEndian.Uint64(b[16:]), binary.BigEndian.Uint64(b[24:])}, binary.BigEndian.Uint64(b[8:])}, true
}

// readMark reads the mark of a store. One that is missing or damaged is a
// *DamagedError.
func readMark(fs vfs.FS, path string) (m markSlot, err error) {
	f, err := fs.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return m, &DamagedError{File: path, Err: os.ErrNotExist, Do: DoAcceptLoss}
	} else if err != nil {
		return m, cannot("reading", path, err)
	}
	b, err := io.ReadAll(io.LimitReader(f, 2*slotSize))
	if err = errors.Join(err, f.Close()); err != nil {
		return m, cannot("reading", path, err)
	}
	for i := range 2 {
		if s, ok := readSlot(b[min(i*slotSize, len(b)):]); ok && s.number > m.number {
			m = s
		}
	}
	if m.number == 0 {
		return m, &DamagedError{File: path, Err: errors.New("neither of its two slots is valid"), Do: DoAcceptLoss}
	}
	return m, nil
}

// openMark opens the mark's file for writing, and makes it where there is none.
func openMark(fs vfs.FS, path string, last markSlot) (*markFile, error) {
	f, err := fs.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, cannot("opening", path, err)
	}
	return &markFile{path: path, f: f, last: last}, nil
}

// write makes the mark durable.
func (w *markFile) write(m mark) error {
	next := markSlot{m, w.last.number + 1}
	slot := next.append(make([]byte, 0, slotSize))[:slotSize]
	if _, err := w.f.WriteAt(slot, int64(next.number%2)*slotSize); err != nil {
		return cannot("writing", w.path, err)
	}
	if err := w.f.Sync(); err != nil {
		return cannot("syncing", w.path, err)
	}
	w.last = next
	return nil
}

func (w *markFile) close() error { return w.f.Close() }
