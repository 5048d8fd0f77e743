package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// median returns the middle value, of an even number of values the mean of the
// two in the middle, and 0 of none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	mid := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[mid]
	}
	return (sorted[mid-1] + sorted[mid]) / 2
}

// A ratio is the median of the ratios of pairs, with the range that they span.
type ratio struct{ mid, low, high float64 }

// ratioOf divides pair by pair. Pairs without a sensible quotient are left out.
func ratioOf(over, under []float64) ratio {
	var all []float64
	for i := range min(len(over), len(under)) {
		if over[i] > 0 && under[i] > 0 {
			all = append(all, over[i]/under[i])
		}
	}
	if len(all) == 0 {
		return ratio{}
	}
	return ratio{median(all), slices.Min(all), slices.Max(all)}
}

// String writes the median and the range: "0.83 (0.80-0.86)".
func (r ratio) String() string {
	if r == (ratio{}) {
		return "-"
	}
	return fmt.Sprintf("%.2f (%.2f-%.2f)", r.mid, r.low, r.high)
}

// A sample is what one process cost, or the mean of several.
type sample struct {
	wall, cpu time.Duration
	rss       int64   // peak resident set, bytes; 0 where the system does not tell
	others    float64 // share of the machine's time that went to other processes; <0 unknown
	exit      int     // -1 if a signal ended it
}

// mean of samples of the same command.
func mean(samples []sample) sample {
	var m sample
	for _, s := range samples {
		m.wall += s.wall
		m.cpu += s.cpu
		m.rss = max(m.rss, s.rss)
		m.others += s.others
		m.exit = s.exit
	}
	n := len(samples)
	m.wall /= time.Duration(n)
	m.cpu /= time.Duration(n)
	m.others /= float64(n)
	return m
}

// A series is one command's samples, one a round.
type series []sample

func (s series) each(f func(sample) float64) []float64 {
	out := make([]float64, len(s))
	for i := range s {
		out[i] = f(s[i])
	}
	return out
}

func wall(s sample) float64 { return s.wall.Seconds() }
func cpu(s sample) float64  { return s.cpu.Seconds() }

func (s series) wall() time.Duration {
	return time.Duration(median(s.each(wall)) * float64(time.Second))
}

func (s series) cpu() time.Duration {
	return time.Duration(median(s.each(cpu)) * float64(time.Second))
}

func (s series) rss() float64 {
	return median(s.each(func(s sample) float64 { return float64(s.rss) }))
}

// others is "-" where the system does not tell.
func (s series) others() string {
	v := median(s.each(func(s sample) float64 { return s.others }))
	if v < 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", 100*v)
}

// perRow takes the start of the program off and divides by the rows: seconds a
// row, one value a round.
func perRow(run, empty series, rows int64, f func(sample) float64) []float64 {
	out := make([]float64, min(len(run), len(empty)))
	for i := range out {
		out[i] = (f(run[i]) - f(empty[i])) / float64(rows)
	}
	return out
}

// megabytes writes bytes as MB of 10^6, "-" for none.
func megabytes(bytes float64) string {
	if bytes <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f", bytes/1e6)
}

// printable keeps one line of a program's output short and harmless.
func printable(line string, limit int) string {
	var out strings.Builder
	n := 0
	for _, r := range line {
		if n++; n > limit {
			out.WriteString("...")
			break
		}
		if r < 0x20 || r > 0x7e {
			r = '?'
		}
		out.WriteRune(r)
	}
	return strings.TrimSpace(out.String())
}
