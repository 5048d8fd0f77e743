package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
)

// Name is the socket's name in the store's folder.
const Name = "control.sock"

// private is a folder that only its owner may enter, where the socket is made.
const private = ".control"

// longestPath is how long a socket's path may be: the smallest limit of the
// systems is 104 bytes, its end included.
const longestPath = 100

// short returns a way to dir on which a name of n bytes fits into a socket's
// address, and what to call when it is not needed any more.
func short(dir string, n int) (string, func(), error) {
	if len(dir)+1+n <= longestPath {
		return dir, func() {}, nil
	}
	if f, err := os.Open(dir); err == nil {
		way := fmt.Sprintf("/proc/self/fd/%d", f.Fd())
		if _, err := os.Stat(way); err == nil {
			return way, func() { _ = f.Close() }, nil
		}
		_ = f.Close()
	}
	return "", nil, fmt.Errorf("control: the path of %s is longer than the %d bytes that a socket's may have", filepath.Join(dir, Name), longestPath)
}

func dial(ctx context.Context, dir string) (net.Conn, error) {
	way, done, err := short(dir, len(Name))
	if err != nil {
		return nil, err
	}
	defer done()
	return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(way, Name))
}

// listen makes the socket. Its caller holds the store, so one that is there
// belongs to a process that has died and is replaced. It is made in a folder
// that nobody else may enter and moved to its place when its mode is right, so
// that nobody ever finds it open.
func listen(dir string) (_ net.Listener, err error) {
	way, done, err := short(dir, len(private)+1+len(Name))
	if err != nil {
		return nil, err
	}
	defer done()
	path := filepath.Join(way, Name)
	if st, err := os.Lstat(path); err == nil {
		if st.Mode().Type() != os.ModeSocket {
			return nil, fmt.Errorf("control: %s is there and is no socket", filepath.Join(dir, Name))
		}
		if conn, err := net.Dial("unix", path); err == nil {
			return nil, errors.Join(fmt.Errorf("control: another process answers on %s", filepath.Join(dir, Name)), conn.Close())
		}
	}
	room := filepath.Join(way, private)
	defer os.RemoveAll(room)
	if err := errors.Join(os.RemoveAll(room), os.Mkdir(room, 0o700)); err != nil {
		return nil, fmt.Errorf("control: %w", err)
	}
	made := filepath.Join(room, Name)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: made, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("control: %w", err)
	}
	l.SetUnlinkOnClose(false) // it will not be there
	if err := errors.Join(os.Chmod(made, 0o600), os.Rename(made, path)); err != nil {
		return nil, errors.Join(fmt.Errorf("control: %w", err), l.Close())
	}
	return l, nil
}
