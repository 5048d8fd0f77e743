package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// head keeps the first bytes that are written to it and counts the rest.
type head struct {
	bytes.Buffer
	limit int
}

func (h *head) Write(p []byte) (int, error) {
	h.Buffer.Write(firstBytes(p, max(0, h.limit-h.Len())))
	return len(p), nil
}

// measure runs a command to its end. A nil stdout is the null device, which
// costs the command a write and nobody a read. The exit code is part of the
// sample; the error is for a command that could not run, or whose ctx ended.
//
// The system counts the memory of the parent, at the moment of the start, into
// the peak of the child: so this program keeps itself small.
func measure(ctx context.Context, argv []string, stdout io.Writer) (s sample, stderr string, err error) {
	return measureUpTo(ctx, 0, argv, stdout)
}

// errMemory is why measureUpTo ended a program.
var errMemory = errors.New("took more memory than it was allowed")

// measureUpTo does the same, but ends a program that holds more than limit bytes
// of memory, where the system tells (Linux): it shall not take the machine down.
// A limit of 0 is none.
func measureUpTo(ctx context.Context, limit int64, argv []string, stdout io.Writer) (s sample, stderr string, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	errs := &head{limit: 4096}
	cmd.Stdout, cmd.Stderr = stdout, errs
	busy, known := machineBusy()
	begun := time.Now()
	if err = cmd.Start(); err == nil {
		if limit > 0 {
			go watchMemory(ctx, cmd.Process.Pid, limit, func() { cancel(errMemory) })
		}
		err = cmd.Wait()
	}
	s.wall = time.Since(begun)
	after, _ := machineBusy()
	if err != nil && cmd.ProcessState == nil {
		return s, errs.String(), fmt.Errorf("run %s: %w", strings.Join(argv, " "), err)
	}
	s.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	s.rss = peakRSS(cmd.ProcessState)
	s.exit = cmd.ProcessState.ExitCode()
	s.others = -1
	if known && s.wall > 0 {
		s.others = max(0, (after-busy-s.cpu).Seconds()/(s.wall.Seconds()*float64(runtime.NumCPU())))
	}
	return s, errs.String(), context.Cause(ctx)
}

// watchMemory calls stop once when a process holds more than limit bytes. It
// ends with ctx.
func watchMemory(ctx context.Context, pid int, limit int64, stop func()) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
		if err != nil {
			return
		}
		var size, resident int64
		if _, err := fmt.Sscan(string(b), &size, &resident); err == nil && resident*int64(os.Getpagesize()) > limit {
			stop()
			return
		}
	}
}

// A contender is a command that takes part in rounds.
type contender struct {
	name   string
	argv   []string
	before func() error              // prepares each run, unmeasured, where set
	repeat int                       // runs a round, of which the mean counts; 0 is 1
	accept []int                     // exit codes besides 0 that mean that it did its work
	check  func(stdout string) error // judges the first bytes of its output, where set
}

// rounds runs the contenders in turn, n times over, and returns the samples by
// name.
func rounds(ctx context.Context, n int, contenders ...contender) (map[string]series, error) {
	all := map[string]series{}
	for range n {
		for _, c := range contenders {
			var runs []sample
			for range max(1, c.repeat) {
				s, err := c.run(ctx)
				if err != nil {
					return nil, err
				}
				runs = append(runs, s)
			}
			all[c.name] = append(all[c.name], mean(runs))
		}
	}
	return all, nil
}

func (c *contender) run(ctx context.Context) (sample, error) {
	var stdout io.Writer
	seen := &head{limit: 4096}
	if c.check != nil {
		stdout = seen
	}
	if c.before != nil {
		if err := c.before(); err != nil {
			return sample{}, err
		}
	}
	s, errs, err := measure(ctx, c.argv, stdout)
	if err != nil {
		return s, err
	}
	ok := s.exit == 0
	for _, code := range c.accept {
		ok = ok || s.exit == code
	}
	if !ok {
		return s, fmt.Errorf("%s ended with exit code %d: %s", strings.Join(c.argv, " "), s.exit, printable(errs, 500))
	}
	if c.check != nil {
		if err := c.check(seen.String()); err != nil {
			return s, fmt.Errorf("%s: %w", strings.Join(c.argv, " "), err)
		}
	}
	return s, nil
}

// machineBusy returns the time that all cores of the machine together have
// worked since it started, where the system tells it (Linux).
func machineBusy() (time.Duration, bool) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, false
	}
	return parseBusy(string(b))
}

// parseBusy reads the first line of /proc/stat: user, nice, system, idle,
// iowait, irq, softirq and steal, in hundredths of a second.
func parseBusy(stat string) (time.Duration, bool) {
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, false
	}
	ticks := int64(0)
	for i, f := range fields[1:9] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, false
		}
		if i != 3 && i != 4 { // idle, iowait
			ticks += n
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond, true
}

func loadAverage() string {
	b, err := os.ReadFile("/proc/loadavg")
	if fields := strings.Fields(string(b)); err == nil && len(fields) >= 3 {
		return strings.Join(fields[:3], " ")
	}
	return "unknown"
}

func cpuModel() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err == nil {
		for line := range strings.Lines(string(b)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				return strings.TrimSpace(value)
			}
		}
	}
	return "unknown processor"
}
