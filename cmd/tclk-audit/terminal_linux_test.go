package main

import (
	"bytes"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// terminal opens a pseudo-terminal. What is written to tty is read by the
// function returned, which closes it.
func terminal(t *testing.T) (tty *os.File, seen func() string) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminal here: %v", err)
	}
	control := func(request uintptr, arg *int32) {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, master.Fd(), request, uintptr(unsafe.Pointer(arg))); errno != 0 {
			t.Fatalf("pseudo-terminal: %v", errno)
		}
	}
	var locked, number int32
	control(syscall.TIOCSPTLCK, &locked)
	control(syscall.TIOCGPTN, &number)
	tty, err = os.OpenFile("/dev/pts/"+strconv.Itoa(int(number)), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	done := make(chan struct{})
	go func() {
		defer close(done)
		io.Copy(&out, master) // ends with an error once the last writer is gone
	}()
	t.Cleanup(func() { master.Close() })
	return tty, func() string {
		tty.Close()
		<-done
		return strings.ReplaceAll(out.String(), "\r\n", "\n")
	}
}

// TestColor: colour only on a terminal, and not against NO_COLOR.
func TestColor(t *testing.T) {
	args := [][]string{
		{"verify", casesDir + "02-dropped-row-flip"},
		{"explain", casesDir + "02-dropped-row-flip", "0x0ad9e8bd"},
	}
	for _, args := range args {
		_, plain, _ := invoke(t, "", args...)
		if strings.Contains(plain, "\x1b") {
			t.Errorf("%v: colour without a terminal", args)
		}
		for _, c := range []struct {
			name, noColor, term string
			color               bool
		}{
			{"terminal", "", "xterm", true},
			{"NO_COLOR", "1", "xterm", false},
			{"dumb terminal", "", "dumb", false},
		} {
			t.Setenv("NO_COLOR", c.noColor)
			t.Setenv("TERM", c.term)
			tty, seen := terminal(t)
			run(t.Context(), args, strings.NewReader(""), tty, io.Discard)
			out := seen()
			if strings.Contains(out, "\x1b[33mindeterminate\x1b[0m") != c.color || strings.Contains(out, "\x1b") != c.color {
				t.Errorf("%v, %s: colour is not %v:\n%q", args, c.name, c.color, out)
			}
			if !c.color && out != plain {
				t.Errorf("%v, %s: says something else than without a terminal", args, c.name)
			}
		}
	}
	// JSON has no colour anywhere.
	tty, seen := terminal(t)
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm")
	run(t.Context(), []string{"verify", "--json", casesDir + "02-dropped-row-flip"}, strings.NewReader(""), tty, io.Discard)
	if out := seen(); strings.Contains(out, "\x1b") {
		t.Errorf("JSON with colour: %q", out)
	}
}

// TestProgress: a bar only on a terminal, and only for work over a second.
func TestProgress(t *testing.T) {
	for _, c := range []struct {
		name     string
		terminal bool
		lasted   time.Duration
		bar      bool
	}{
		{"long work on a terminal", true, 2 * time.Second, true},
		{"short work on a terminal", true, 0, false},
		{"long work elsewhere", false, 2 * time.Second, false},
	} {
		var elsewhere bytes.Buffer
		a := &app{stderr: &elsewhere}
		seen := elsewhere.String
		if c.terminal {
			tty, read := terminal(t)
			a.stderr, seen = tty, read
		}
		p := a.newProgress("reading", true)
		p.begun = time.Now().Add(-c.lasted)
		for _, total := range []int64{100, -1} {
			p.set(10, total)
			p.set(60, total)
			p.close()
		}
		if out := seen(); strings.Contains(out, "reading") != c.bar || (out == "") == c.bar {
			t.Errorf("%s: %q", c.name, out)
		}
	}
}
