package store

import (
	"encoding/binary"
	"errors"
	"fmt"
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
// a torn write spoils the older of two answers at most. The valid slot with the
// greater position counts.
const (
	markName = "ACKNOWLEDGED"
	slotSize = 512
)

// mark is the acknowledged position.
type mark struct {
	log    uint64 // entries of the log
	events uint64 // events
}

// markFile keeps the high-water mark. It is not for concurrent use.
type markFile struct {
	fs   vfs.FS
	path string
	f    vfs.File
	turn int
}

var markMagic = [8]byte{'t', 'c', 'l', 'k', 'm', 'a', 'r', '1'}

func (m mark) slot() []byte {
	b := make([]byte, 0, slotSize)
	b = append(b, markMagic[:]...)
	b = binary.BigEndian.AppendUint64(b, m.log)
	b = binary.BigEndian.AppendUint64(b, m.events)
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	return b[:slotSize]
}

func readSlot(b []byte) (m mark, ok bool) {
	if len(b) < 28 || [8]byte(b[:8]) != markMagic || crc32.ChecksumIEEE(b[:24]) != binary.BigEndian.Uint32(b[24:28]) {
		return m, false
	}
	return mark{binary.BigEndian.Uint64(b[8:]), binary.BigEndian.Uint64(b[16:])}, true
}

// readMark reads the mark of a store; found is false where there is none.
func readMark(fs vfs.FS, path string) (m mark, turn int, found bool, err error) {
	f, err := fs.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return m, 0, false, nil
	} else if err != nil {
		return m, 0, false, fmt.Errorf("store: reading %s: %w", path, err)
	}
	b, err := io.ReadAll(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return m, 0, false, fmt.Errorf("store: reading %s: %w", path, err)
	}
	for i := range 2 {
		if from := i * slotSize; len(b) >= from+28 {
			if s, ok := readSlot(b[from:]); ok && (!found || s.log >= m.log) {
				m, turn, found = s, 1-i, true
			}
		}
	}
	if !found {
		return m, 0, false, &DamagedError{File: path, Err: errors.New("neither of its two slots is valid"), Do: doAcceptLoss}
	}
	return m, turn, true, nil
}

// openMark opens the mark's file for writing, and makes it where there is none.
func openMark(fs vfs.FS, path string, turn int) (*markFile, error) {
	f, err := fs.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, fmt.Errorf("store: opening %s: %w", path, err)
	}
	return &markFile{fs: fs, path: path, f: f, turn: turn}, nil
}

// write makes the mark durable.
func (w *markFile) write(m mark) error {
	if _, err := w.f.WriteAt(m.slot(), int64(w.turn*slotSize)); err != nil {
		return fmt.Errorf("store: writing %s: %w", w.path, err)
	}
	if err := w.f.Sync(); err != nil {
		return fmt.Errorf("store: syncing %s: %w", w.path, err)
	}
	w.turn = 1 - w.turn
	return nil
}

func (w *markFile) close() error { return w.f.Close() }
