package store

import (
	"io"
	"os"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// readers is the disk for those who only read: any number of them hold the
// database's lock together, and a writer holds it alone.
type readers struct{ vfs.FS }

// ofdSetLock is fcntl's F_OFD_SETLK: the lock belongs to the open file, so that
// it also stands against one of this process.
const ofdSetLock = 37

func (readers) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	shared := syscall.Flock_t{Type: syscall.F_RDLCK, Whence: io.SeekStart}
	if err := syscall.FcntlFlock(f.Fd(), ofdSetLock, &shared); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}
