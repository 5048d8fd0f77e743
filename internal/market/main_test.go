package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tclk-audit/tclk-audit/internal/testkit/market"
)

// A short run says its URL first and what it did last, and lists its contracts.
func TestRun(t *testing.T) {
	list := filepath.Join(t.TempDir(), "contracts")
	c, err := parseFlags([]string{"-for", "1s", "-offers", "10", "-board", "20", "-rooms", "5", "-hot", "1", "-life", "2s", "-contracts", list, "-quiet"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if err := run(t.Context(), c, &out, &errs); err != nil {
		t.Fatal(err)
	}
	url, rest, _ := strings.Cut(out.String(), "\n")
	var stats market.Stats
	if err := json.Unmarshal([]byte(rest), &stats); err != nil || !strings.HasPrefix(url, "http://127.0.0.1:") || strings.Count(rest, "\n") != 1 {
		t.Errorf("%v\n%s", err, out.String())
	}
	lines, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	contracts := 0
	for status, n := range stats.Contracts {
		contracts += n
		if got := strings.Count(string(lines), " "+status+"\n"); got != n {
			t.Errorf("%d lines say %s, and the counters %d", got, status, n)
		}
	}
	if contracts < 6 || errs.Len() > 0 {
		t.Errorf("%d contracts\n%s", contracts, errs.String())
	}
}

// With -stay it serves until it is told to stop.
func TestStay(t *testing.T) {
	c, err := parseFlags([]string{"-for", "1ms", "-stay"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	begun := time.Now()
	if err := run(ctx, c, io.Discard, io.Discard); err != nil || time.Since(begun) < 300*time.Millisecond {
		t.Errorf("%v after %s", err, time.Since(begun))
	}
}

func TestParseFlags(t *testing.T) {
	for _, args := range []string{
		"extra", "-profile 1.0", "-for 0s", "-life 10ms", "-reads 0", "-offers -1", "-offers NaN", "-board 1e9", "-rooms -1", "-rooms 3 -hot 4", "-rooms 9999",
		"-listen 0.0.0.0:80", "-listen :80", "-listen example.org:80", "-listen nothing",
	} {
		var says bytes.Buffer
		if _, err := parseFlags(strings.Fields(args), &says); err == nil || says.Len() == 0 {
			t.Errorf("%s was taken, saying %q", args, says.String())
		}
	}
}
