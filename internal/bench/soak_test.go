package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestSoakSection runs a soak of a few seconds: every row of the table is there,
// and the budget is kept to. What the machine has time for is not judged here.
func TestSoakSection(t *testing.T) {
	if testing.Short() {
		t.Skip("builds two programs and runs them for some seconds")
	}
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("the soak needs /proc")
	}
	work, err := os.MkdirTemp("", "bench-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(work); err != nil {
			t.Error(err)
		}
	})
	t.Chdir(filepath.Join("..", ".."))
	program := filepath.Join(work, "tclk-audit")
	if err := build(t.Context(), ".", "./cmd/tclk-audit", program); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	b := &bench{out: &out, work: work, config: config{
		program: program, soakConfig: soakConfig{time: 3 * time.Second, rooms: 10, hot: 1, offers: 2, board: 10, readsPerMinute: 600},
	}}
	if err := b.soak(t.Context()); err != nil && !strings.Contains(err.Error(), "the soak missed: ") {
		t.Fatal(err, out.String())
	}
	for _, row := range []string{
		"board lag, as the metrics", "board lag, as the market", "from a new accept", "between reads of a hot room", "between reads of a cold room",
		"resident memory", "heap after", "goroutines", "open connections", "429s", "reads a minute", "CPU", "rows stored", "rows held",
	} {
		if strings.Count(out.String(), "\n| "+row) != 1 {
			t.Errorf("there is not one row %q", row)
		}
	}
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "| 429s") && !strings.Contains(line, "| 0 | held |") {
			t.Error(line)
		}
	}
	if t.Failed() {
		t.Log(out.String())
	}
}

func TestBudget(t *testing.T) {
	for _, c := range []struct {
		c         soakConfig
		hot, cold time.Duration
	}{
		// 480 reads: the board 12, new rooms 60, hot rooms 300, and 108 are left.
		{soakDefaults, 20 * time.Second, 500 * time.Second},
		{soakConfig{rooms: 100, hot: 10, offers: 1, readsPerMinute: 600}, 20 * time.Second, 150 * time.Second},
		{soakConfig{rooms: 1000, hot: 200, offers: 1, readsPerMinute: 600}, 200 * time.Minute / 408, math.MaxInt64},
		{soakConfig{rooms: 1000, hot: 100, offers: 9, readsPerMinute: 600}, math.MaxInt64, math.MaxInt64},
	} {
		got := c.c.budget()
		if (got.hot-c.hot).Abs() > time.Second || (got.cold-c.cold).Abs() > time.Second {
			t.Errorf("%+v: %s and %s, not %s and %s", c.c, got.hot, got.cold, c.hot, c.cold)
		}
	}
}

func TestRise(t *testing.T) {
	var points []point
	for i := range 101 {
		y := 5.0
		if i >= 50 {
			y += float64(i-50) / 10 // 5 over the last half
		}
		points = append(points, point{float64(i), y})
	}
	if up, mid := rise(points); math.Abs(up-5) > 1e-9 || math.Abs(mid-7.5) > 1e-9 {
		t.Errorf("it rises by %g around %g", up, mid)
	}
	if up, _ := rise(points[:1]); up != 0 {
		t.Errorf("one point rises by %g", up)
	}
}

// TestJudge holds what the table calls held, missed and excluded.
func TestJudge(t *testing.T) {
	c := soakDefaults
	s := &soaker{c: c, samples: []soakSample{{0, 3, 1e6, 20, 2}, {300, 4, 1e6, 20, 2}, {600, 5, 1e6, 90, 2}}, heap: []point{{0, 1e7}, {600, 1e7}}}
	at := func(every int64) (list []int64) {
		for ms := int64(0); ms < 600_000; ms += every {
			list = append(list, 1_000_000+ms)
		}
		return list
	}
	rooms := []roomReads{
		{Class: "board", At: []int64{1_000_000, 1_300_000}, Lags: []int64{5000, 12_000}},
		{Class: "hot", At: at(20_500)},
		{Class: "cold", At: at(300_000)},
		{Class: "new", Accepted: 1_100_000, First: 1_102_000},
		{Class: "new", Accepted: 900_000}, // before the run
		{Class: "rival", Accepted: 1_100_000},
		{Class: "void", Accepted: 1_100_000},
	}
	table := s.judge(rooms, 1_000_000, 10*time.Minute)
	for _, want := range []string{
		"| board lag, as the metrics say it | 10 s | 5 s | 4.0 s | 5.0 s | 5.0 s | held |",
		"| board lag, as the market knows it | 10 s | 5 s | 5.0 s | 12.0 s | 12.0 s | **missed** |",
		"| from a new accept to the first read of its room | 10 s | - | 2.0 s | 2.0 s | 2.0 s | held |",
		"| between reads of a hot room | 20 s | 20 s | 20.5 s | 20.5 s | 20.5 s | held |",
		"| between reads of a cold room | 150 s | 500 s | 300.0 s | 300.0 s | 300.0 s | excluded by the budget |",
		"| accepts whose room was not read yet at the end |  |  |  |  | 1 |  |",
		"| goroutines | flat |  | 20.0 |  | 90.0 | **missed**: +70.00 over the last half |",
		"| heap after a collection, MB | flat |  | 10.0 |  | 10.0 | held: +0.00 over the last half |",
	} {
		if !strings.Contains(table.text.String(), want+"\n") {
			t.Errorf("not there: %s", want)
		}
	}
	if len(table.missed) != 2 {
		t.Errorf("missed: %q", table.missed)
	}
	table.stored(map[string]int64{"a": 3, "b": 1}, []roomReads{{Room: "a", Brought: 2}, {Room: "b", Brought: 2}})
	if len(table.missed) != 3 || !strings.Contains(table.text.String(), "b () 1 of 2") || strings.Contains(table.text.String(), "a () ") {
		t.Errorf("missed: %q", table.missed)
	}
	if t.Failed() {
		t.Log(table.text.String())
	}
}
