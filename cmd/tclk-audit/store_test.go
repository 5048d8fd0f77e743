package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tclk-audit/tclk-audit/internal/api"
	"github.com/tclk-audit/tclk-audit/internal/audit"
	"github.com/tclk-audit/tclk-audit/internal/control"
	"github.com/tclk-audit/tclk-audit/store"
)

// TestStoreExitCodes holds the exact code of every way to end of the commands
// that work on a store, and that an error leaves standard output empty and says
// what to do.
func TestStoreExitCodes(t *testing.T) {
	board := readFile(t, casesDir+"01-clean-claimed/tclk-offers.jsonl")
	rows := strings.SplitAfter(board, "\n")
	torn := write(t, "tclk-offers.jsonl", rows[0]+rows[1][:200])
	malformed := write(t, "tclk-offers.jsonl", board+"{\"seq\":3}\n")
	forged := write(t, "tclk-offers.jsonl", strings.Replace(board, `"nonce":1700000000007,`, `"nonce":1700000000099,`, 1))
	long := write(t, "tclk-offers.jsonl", board+`{"seq":3,"text":"`+strings.Repeat("a", 4096)+"\"}\n")
	const clean, hole = casesDir + "01-clean-claimed", casesDir + "02-dropped-row-flip"
	full, none := filepath.Join(t.TempDir(), "full"), filepath.Join(t.TempDir(), "none")
	if code, _, says := invoke(t, "", "ingest", "--data", full, clean); code != 0 {
		t.Fatal(says)
	}
	holes := filepath.Join(t.TempDir(), "holes")
	if code, _, says := invoke(t, "", "ingest", "--data", holes, hole); code != 0 {
		t.Fatal(says)
	}
	fresh := func() string { return "--data=" + filepath.Join(t.TempDir(), "fresh") }
	const did = "did:key:z6MkrtxY5oCBWoKbUkWToTvWWMiQi2ceLKUWudVzaCVrGtV5"
	for _, c := range []struct {
		name  string
		code  int
		args  []string
		empty bool   // standard output stays empty
		says  string // on standard error
	}{
		// What ingest says of rows is what verify says of them.
		{"clean", 0, []string{"ingest", fresh(), clean}, false, ""},
		{"hole", 0, []string{"ingest", fresh(), hole}, false, ""},
		{"torn", 3, []string{"ingest", fresh(), torn}, false, ""},
		{"malformed", 1, []string{"ingest", fresh(), malformed}, false, ""},
		{"forged", 1, []string{"ingest", fresh(), "--room", "tclk-offers", forged}, false, ""},
		{"over the limit", 4, []string{"ingest", fresh(), "--max-line", "2KiB", long}, false, "--max-line"},
		{"always", 0, []string{"ingest", fresh(), "--sync", "always", clean}, false, ""},
		{"standard input", 0, []string{"ingest", fresh(), "-"}, false, ""},

		{"no path", 2, []string{"ingest", fresh()}, true, "hint: "},
		{"no room", 2, []string{"ingest", fresh(), "--room", "A Room", clean}, true, "hint: "},
		{"no alias", 2, []string{"ingest", fresh(), "--venue-alias", "A_b", clean}, true, "hint: an alias"},
		{"no sync", 2, []string{"ingest", fresh(), "--sync", "never", clean}, true, "batch or always"},
		{"no data", 2, []string{"ingest", "--data=", clean}, true, "hint: name the store's folder"},
		{"no such file", 4, []string{"ingest", "--data", none, "/no/such/file"}, true, "hint: check the path"},
		{"data is a file", 4, []string{"ingest", "--data", torn, clean}, true, "tclk-audit: store: "},
		{"other rules", 4, []string{"ingest", "--data", full, "--rules", "reference", clean}, true, "hint: leave the rules out"},

		{"list", 0, []string{"contracts", "--data", full}, false, ""},
		{"empty list", 0, []string{"contracts", "--data", full, "--status", "refunded", "--jsonl"}, true, ""},
		{"unknown status", 2, []string{"contracts", "--data", full, "--status", "frob"}, true, "hint: there are"},
		{"unknown sort", 2, []string{"contracts", "--data", full, "--sort", "frob"}, true, "hint: there are"},
		{"unknown offer", 2, []string{"contracts", "--data", full, "--offer", "0x1"}, true, "hint: "},
		{"no time", 2, []string{"contracts", "--data", full, "--since", "now"}, true, "RFC 3339"},
		{"json and jsonl", 2, []string{"contracts", "--data", full, "--json", "--jsonl"}, true, "do not go together"},
		{"contracts of something", 2, []string{"contracts", "--data", full, "x"}, true, "hint: "},
		{"offers", 0, []string{"offers", "--data", full}, false, ""},
		{"offers of no venue", 2, []string{"offers", "--data", full, "--venue", "A_b"}, true, "hint: an alias"},
		{"party", 0, []string{"parties", "--data", full, did}, false, ""},
		{"no party", 2, []string{"parties", "--data", full}, true, "hint: as in"},
		{"party that is none", 2, []string{"parties", "--data", full, "did/../key"}, true, "hint: a party"},
		{"show", 0, []string{"show", "--data", full, "0x0ad9e8bd"}, false, ""},
		{"show with a hole", 3, []string{"show", "--data", holes, "0x0ad9e8bd"}, false, ""},
		{"show nothing", 3, []string{"show", "--data", full, "0x00000000"}, true, "hint: 'tclk-audit contracts'"},
		{"show no id", 2, []string{"show", "--data", full, "0x1"}, true, "hint: give 0x"},
		{"show without one", 2, []string{"show", "--data", full}, true, "hint: as in"},
		{"records", 0, []string{"records", "--data", full, "tclk-offers"}, false, ""},
		{"records of no room", 2, []string{"records", "--data", full, "A Room"}, true, "hint: a room"},
		{"records without one", 2, []string{"records", "--data", full}, true, "hint: as in"},
		{"records not there", 3, []string{"records", "--data", full, "nowhere"}, true, "hint: 'tclk-audit rooms'"},
		{"events", 0, []string{"events", "--data", full}, false, ""},
		{"events from nowhere", 2, []string{"events", "--data", full, "--from", "0"}, true, "hint: "},
		{"status", 0, []string{"status", "--data", full}, false, ""},

		{"check", 0, []string{"rebuild", "--data", full, "--check"}, false, ""},
		{"check other rules", 2, []string{"rebuild", "--data", full, "--check", "--rule", "offer-room"}, true, "hint: "},
		{"backup without a folder", 2, []string{"backup", "--data", full}, true, "hint: name a folder"},
		{"backup into the store", 4, []string{"backup", "--data", full, full}, true, "name a folder outside"},
		{"compact", 0, []string{"compact", "--data", full}, false, ""},
		{"prune", 0, []string{"prune", "--data", full, "--before", "0"}, false, ""},
		{"prune without a time", 2, []string{"prune", "--data", full}, true, "hint: as in"},

		{"contracts of nothing", 4, []string{"contracts", "--data", none}, true, "hint: 'tclk-audit ingest' makes one"},
		{"show of nothing", 4, []string{"show", "--data", none, "0x0ad9e8bd"}, true, "hint: 'tclk-audit ingest' makes one"},
		{"rebuild of nothing", 4, []string{"rebuild", "--data", none}, true, "hint: 'tclk-audit ingest' makes one"},
		{"backup of nothing", 4, []string{"backup", "--data", none, none + "2"}, true, "hint: 'tclk-audit ingest' makes one"},
		{"compact of nothing", 4, []string{"compact", "--data", none}, true, "hint: 'tclk-audit ingest' makes one"},
		{"prune of nothing", 4, []string{"prune", "--data", none, "--before", "0"}, true, "hint: 'tclk-audit ingest' makes one"},
	} {
		code, stdout, stderr := invoke(t, board, c.args...)
		if code != c.code {
			t.Errorf("%s: exit %d, want %d; it said:\n%s", c.name, code, c.code, stderr)
		}
		if c.empty != (stdout == "") {
			t.Errorf("%s: standard output is %q", c.name, stdout)
		}
		if !strings.Contains(stderr, c.says) {
			t.Errorf("%s: no %q on standard error:\n%s", c.name, c.says, stderr)
		}
		for line := range strings.Lines(stderr) {
			if !strings.HasPrefix(line, "tclk-audit: ") {
				t.Errorf("%s: a line on standard error does not say whose it is: %q", c.name, line)
			}
		}
		if _, err := os.Stat(none); err == nil {
			t.Fatalf("%s: it made a store", c.name)
		}
	}
}

// TestStoreHints holds that every error of a store says what to do.
func TestStoreHints(t *testing.T) {
	for _, err := range []error{
		&store.DamagedError{File: "db", Err: errors.New("bad"), Do: "restore it"},
		&store.BehindError{Dir: "d", Log: 1, Acked: 2},
		&store.StaleError{Have: "spec, fold 1", Want: "spec, fold 2"},
		&store.StaleError{Have: "spec, fold 1", Want: "reference, fold 1"},
		&store.VersionError{Dir: "d", Have: 2, Known: 1},
		store.ErrLocked, store.ErrNoStore, control.ErrCut, syscall.ENOSPC, os.ErrExist, os.ErrPermission,
	} {
		var hinted *hintedError
		if got := storeHint(errors.Join(err, nil)); !errors.As(got, &hinted) || hinted.hint == "" || !errors.Is(got, err) {
			t.Errorf("%v: %v", err, got)
		}
	}
	if err := storeHint(nil); err != nil {
		t.Error(err)
	}
}

func TestHeadersAgree(t *testing.T) {
	if control.ExitHeader != api.ExitHeader || control.ErrorHeader != api.ErrorHeader || control.WarningHeader != api.WarningHeader {
		t.Error("who answers and who asks name headers differently")
	}
}

func TestStoreClosedPipe(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	if code, _, says := invoke(t, "", "ingest", "--data", dir, casesDir+"01-clean-claimed"); code != 0 {
		t.Fatal(says)
	}
	for _, args := range [][]string{
		{"ingest", casesDir + "01-clean-claimed"}, {"contracts"}, {"contracts", "--json"}, {"show", "0x0ad9e8bd"}, {"events"},
		{"records", "--export", "tclk-offers"}, {"status"}, {"compact"}, {"rebuild"},
	} {
		var errs bytes.Buffer
		if code := run(t.Context(), append(args, "--data", dir), strings.NewReader(""), closedPipe{}, &errs); code != audit.ExitNotFinished {
			t.Errorf("%v: exit %d, want %d", args, code, audit.ExitNotFinished)
		}
		if errs.Len() > 0 {
			t.Errorf("%v: said %q to nobody", args, errs.String())
		}
	}
}

// TestInterruptedIngest stops the reading of an input that has no end: what was
// committed by then is kept, and it says how much.
func TestInterruptedIngest(t *testing.T) {
	corpus, dir := filepath.Join(t.TempDir(), "corpus"), filepath.Join(t.TempDir(), "store")
	if code, _, says := invoke(t, "", "gen", "--contracts", "4000", "--board-only", "--noise", "none", "--out", corpus); code != 0 {
		t.Fatal(says)
	}
	in, out := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		f, err := os.Open(filepath.Join(corpus, "tclk-offers.jsonl"))
		if err != nil {
			t.Error(err)
		}
		_, err = io.Copy(out, f)
		if err = errors.Join(err, f.Close()); err != nil && ctx.Err() == nil {
			t.Error(err)
		}
	}()
	go func() {
		// The first window has ended when another process can see its rows.
		for ctx.Err() == nil {
			if code, _, _ := invoke(t, "", "contracts", "--data", dir, "--limit", "1", "--jsonl"); code == 0 {
				if _, list, _ := invoke(t, "", "contracts", "--data", dir, "--limit", "1", "--jsonl"); list != "" {
					cancel()
				}
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	var stdout, stderr bytes.Buffer
	code := run(ctx, []string{"ingest", "--data", dir, "--room", "tclk-offers", "-"}, in, &stdout, &stderr)
	_ = in.Close()
	if code != audit.ExitNotFinished || stdout.Len() > 0 {
		t.Errorf("exit %d: %s", code, stdout.String())
	}
	if m := regexp.MustCompile(`hint: [1-9]\d* rows of this run are kept; run it again`); !m.MatchString(stderr.String()) {
		t.Errorf("it said: %s", stderr.String())
	}
}
