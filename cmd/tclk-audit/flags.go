package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// choice is a flag with a closed set of values.
type choice struct {
	value   string
	allowed []string
}

func (c *choice) String() string { return c.value }
func (c *choice) Type() string   { return strings.Join(c.allowed, "|") }

func (c *choice) Set(s string) error {
	if !slices.Contains(c.allowed, s) {
		return fmt.Errorf("must be %s", orList(c.allowed))
	}
	c.value = s
	return nil
}

// choices is a flag that may be given several times, or once with commas.
type choices struct {
	values  []string
	allowed []string
}

func (c *choices) String() string { return strings.Join(c.values, ",") }
func (c *choices) Type() string   { return "list" }

func (c *choices) Set(s string) error {
	for word := range strings.SplitSeq(s, ",") {
		if !slices.Contains(c.allowed, word) {
			return fmt.Errorf("each must be %s", orList(c.allowed))
		}
		if !slices.Contains(c.values, word) {
			c.values = append(c.values, word)
		}
	}
	return nil
}

// Replace and GetSlice make it a list for a configuration file.
func (c *choices) Replace(words []string) error {
	c.values = nil
	for _, w := range words {
		if err := c.Set(w); err != nil {
			return err
		}
	}
	return nil
}

func (c *choices) GetSlice() []string { return c.values }

func orList(words []string) string {
	n := len(words) - 1
	return strings.Join(words[:n], ", ") + " or " + words[n]
}

// size is a number of bytes: digits alone, or with KiB, MiB or GiB.
type size int64

var sizeUnits = []struct {
	name  string
	bytes int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

func (s *size) Type() string { return "bytes" }

func (s *size) String() string {
	for _, u := range sizeUnits {
		if n := int64(*s); n != 0 && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(*s), 10)
}

func (s *size) Set(text string) error {
	digits, unit := text, int64(1)
	for _, u := range sizeUnits {
		if before, ok := strings.CutSuffix(text, u.name); ok {
			digits, unit = before, u.bytes
		}
	}
	n, err := strconv.ParseUint(digits, 10, 62)
	if err != nil || n == 0 || n > uint64(1<<62)/uint64(unit) {
		return fmt.Errorf("must be a number of bytes above 0, such as 65536, 64KiB or 16GiB")
	}
	*s = size(n) * size(unit)
	return nil
}

// instant is a time: RFC 3339 with a zone, or Unix milliseconds.
type instant struct{ ms *int64 }

// maxMs is the greatest time that the protocol can write: 2^53−1.
const maxMs = 1<<53 - 1

func (i *instant) Type() string { return "time" }

func (i *instant) String() string {
	if i.ms == nil {
		return ""
	}
	return strconv.FormatInt(*i.ms, 10)
}

func (i *instant) Set(s string) error {
	ms, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			return fmt.Errorf("must be RFC 3339 with a zone, such as 2026-05-28T20:30:00Z, or Unix milliseconds")
		}
		ms = t.UnixMilli()
	}
	if ms < 0 || ms > maxMs {
		return fmt.Errorf("must not be before 1970 or beyond 2^53-1 ms")
	}
	i.ms = &ms
	return nil
}

// number is a whole number within bounds.
type number[N ~int | ~int64] struct {
	value    *N
	min, max int64
}

func (n number[N]) Type() string { return "number" }

func (n number[N]) String() string {
	if n.value == nil {
		return "0"
	}
	return strconv.FormatInt(int64(*n.value), 10)
}

func (n number[N]) Set(s string) error {
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil || v < n.min || v > n.max {
		return fmt.Errorf("must be a whole number from %d to %d", n.min, n.max)
	}
	*n.value = N(v)
	return nil
}
