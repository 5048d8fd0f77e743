package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/tclk-audit/tclk-audit/internal/audit"
	"github.com/tclk-audit/tclk-audit/protocol"
)

var update = flag.Bool("update", false, "rewrite the golden files, scripts and man pages")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"tclk-audit": main})
}

// TestScripts runs testdata/*.txtar, one a behaviour. $CASES holds the bundled
// exports.
func TestScripts(t *testing.T) {
	cases, err := filepath.Abs("../../testdata/cases")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("CASES", cases)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"await": await, "mode": mode},
	})
}

// await FILE waits until there is such a file.
func await(ts *testscript.TestScript, _ bool, args []string) {
	for range 1000 {
		if _, err := os.Lstat(ts.MkAbs(args[0])); err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	ts.Fatalf("there is still no %s", args[0])
}

// mode FILE OCTAL holds the permissions of a file.
func mode(ts *testscript.TestScript, _ bool, args []string) {
	st, err := os.Lstat(ts.MkAbs(args[0]))
	ts.Check(err)
	if got := fmt.Sprintf("%#o", st.Mode().Perm()); got != args[1] {
		ts.Fatalf("%s has the mode %s", args[0], got)
	}
}

// invoke runs the program within the test and returns what it said.
func invoke(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

const casesDir = "../../testdata/cases/"

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(readFile(t, path), got); diff != "" {
		t.Errorf("%s differs (-want +got); run with -update if it should:\n%s", path, diff)
	}
}

// TestExitCodes holds the exact code of every way to end, and that an error
// leaves standard output empty and says what to do.
func TestExitCodes(t *testing.T) {
	board := readFile(t, casesDir+"01-clean-claimed/tclk-offers.jsonl")
	rows := strings.SplitAfter(board, "\n")
	torn := write(t, "tclk-offers.jsonl", rows[0]+rows[1][:200])
	malformed := write(t, "tclk-offers.jsonl", board+"{\"seq\":3}\n")
	forged := write(t, "tclk-offers.jsonl", strings.Replace(board, `"nonce":1700000000007,`, `"nonce":1700000000099,`, 1))
	long := write(t, "tclk-offers.jsonl", board+`{"seq":3,"text":"`+strings.Repeat("a", 4096)+"\"}\n")
	const clean, hole, gone, badTime = casesDir + "01-clean-claimed", casesDir + "02-dropped-row-flip",
		casesDir + "32-accept-missing-contract", casesDir + "30-bad-time"
	const id = "0x0ad9e8bd2b42150ad873e364138183d6edd7e7067a507e8c5a7bc44422a2c7e0"

	for _, c := range []struct {
		name  string
		code  int
		args  []string
		empty bool   // standard output stays empty
		says  string // on standard error
	}{
		{"clean board", 0, []string{"verify", clean}, false, "rows/s"},
		{"clean contract", 0, []string{"verify", clean, "--contract", id}, false, ""},
		{"prefix without 0x, upper case", 0, []string{"verify", clean, "--contract", "0AD9E8BD"}, false, ""},
		{"board with a hole", 0, []string{"verify", hole}, false, ""},
		{"board without a contract", 0, []string{"verify", gone}, false, ""},
		{"contract with a hole", 3, []string{"verify", hole, "--contract", id}, false, ""},
		{"contract with a hole, explained", 3, []string{"explain", hole, id}, false, ""},
		{"hole fails on notice", 1, []string{"verify", hole, "--fail-on", "notice"}, false, ""},
		{"hole never fails", 0, []string{"verify", hole, "--fail-on", "never"}, false, ""},
		{"torn line", 3, []string{"verify", torn}, false, ""},
		{"malformed row", 1, []string{"verify", malformed}, false, ""},
		{"malformed row, never fail", 1, []string{"verify", "--fail-on=never", malformed}, false, ""},
		{"malformed row goes before not established", 1, []string{"verify", badTime, "--contract", id}, false, ""},
		{"malformed row in JSON is named beside it", 1, []string{"verify", "--json", badTime}, false, "row-time"},
		{"forged row", 1, []string{"verify", forged}, false, ""},
		{"conduct alone", 0, []string{"verify", casesDir + "12-reveal-at-refundAfter"}, false, ""},
		{"contract not in sight", 3, []string{"verify", clean, "--contract", "0x00000000"}, false, "hint: "},
		{"contract not in sight, explained", 3, []string{"explain", clean, "0x00000000"}, true, "hint: "},
		{"contract not in sight, malformed row", 1, []string{"verify", badTime, "--contract", "0x00000000"}, false, "hint: "},
		{"row over the limit", 4, []string{"verify", "--max-line", "2KiB", long}, false, "--max-line"},

		{"no path", 2, []string{"verify"}, true, "hint: "},
		{"no contract", 2, []string{"explain", clean}, true, "hint: "},
		{"no command", 2, nil, true, "hint: "},
		{"unknown command", 2, []string{"audit"}, true, "hint: "},
		{"near miss", 2, []string{"verfy"}, true, "did you mean verify?"},
		{"unknown flag", 2, []string{"verify", "--frob", clean}, true, "unknown flag: --frob"},
		{"unknown shorthand", 2, []string{"verify", "-x", clean}, true, "hint: "},
		{"json and jsonl", 2, []string{"verify", "--json", "--jsonl", clean}, true, "hint: "},
		{"contract too short", 2, []string{"verify", clean, "--contract", "0x0ad9e8b"}, true, "hint: "},
		{"contract empty", 2, []string{"verify", clean, "--contract", ""}, true, "hint: "},
		{"contract too long", 2, []string{"verify", clean, "--contract", id + "0"}, true, "hint: "},
		{"contract no hex", 2, []string{"explain", clean, "0x0ad9e8bg"}, true, "hint: "},
		{"unknown rules", 2, []string{"verify", "--rules", "mine", clean}, true, "must be spec or reference"},
		{"unknown rule", 2, []string{"verify", "--rule", "offer-room,mine", clean}, true, "first-accept"},
		{"unknown severity", 2, []string{"verify", "--fail-on", "info", clean}, true, "anomaly, notice or never"},
		{"no time", 2, []string{"verify", "--now", "2026-05-28 20:00", clean}, true, "RFC 3339"},
		{"time without zone", 2, []string{"verify", "--now", "2026-05-28T20:00:00", clean}, true, "RFC 3339"},
		{"no size", 2, []string{"verify", "--max-line", "10kB", clean}, true, "64KiB"},
		{"no room", 2, []string{"verify", "--room", "A Room", clean}, true, "hint: "},
		{"claim message no hex", 2, []string{"explain", "--claim-message", "0xzz", clean, id}, true, "hint: "},
		{"claim message in JSON", 2, []string{"explain", "--json", "--claim-message", "00", clean, id}, true, "hint: "},
		{"two lines", 2, []string{"decode", "a", "b"}, true, "hint: "},
		{"version of something", 2, []string{"version", "x"}, true, "hint: "},
		{"help on nothing", 2, []string{"help", "frob"}, true, "hint: "},
		{"completion of no shell", 2, []string{"completion", "cmd"}, true, "hint: "},
		{"gen without a folder", 2, []string{"gen"}, true, "--out"},
		{"gen with unknown noise", 2, []string{"gen", "--out", t.TempDir(), "--noise", "frob"}, true, "hint: "},
		{"gen with too few keys", 2, []string{"gen", "--out", t.TempDir(), "--keys", "2"}, true, "hint: "},

		{"no such file", 4, []string{"verify", "/no/such/file"}, true, "hint: "},
		{"not a folder to write into", 4, []string{"gen", "--out", clean + "/tclk-offers.jsonl"}, true, "tclk-audit: "},

		{"help", 0, []string{"--help"}, false, ""},
		{"help of a verb", 0, []string{"help", "verify"}, false, ""},
		{"version", 0, []string{"version"}, false, ""},
		{"a frame", 0, []string{"decode", heartbeat}, false, ""},
		{"no frame", 1, []string{"decode", "tclk1 {}"}, false, ""},
		{"chat", 1, []string{"decode", "hello"}, false, ""},
	} {
		code, stdout, stderr := invoke(t, "", c.args...)
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
	}
}

const heartbeat = `tclk1 {"contract":"0x0ad9e8bd2b42150ad873e364138183d6edd7e7067a507e8c5a7bc44422a2c7e0",` +
	`"from":"did:key:z6MkrtxY5oCBWoKbUkWToTvWWMiQi2ceLKUWudVzaCVrGtV5","nonce":"00aa11bb","type":"heartbeat"}`

// closedPipe is a standard output whose reader has gone.
type closedPipe struct{}

func (closedPipe) Write([]byte) (int, error) { return 0, syscall.EPIPE }

func TestClosedPipe(t *testing.T) {
	for _, args := range [][]string{
		{"verify", casesDir + "01-clean-claimed"},
		{"verify", "--json", casesDir + "01-clean-claimed"},
		{"verify", "--jsonl", casesDir + "01-clean-claimed"},
		{"explain", casesDir + "01-clean-claimed", "0x0ad9e8bd"},
		{"decode", heartbeat},
		{"decode"},
		{"version"},
	} {
		var errs bytes.Buffer
		if code := run(t.Context(), args, strings.NewReader(heartbeat), closedPipe{}, &errs); code != audit.ExitNotFinished {
			t.Errorf("%v: exit %d, want %d", args, code, audit.ExitNotFinished)
		}
		if errs.Len() > 0 {
			t.Errorf("%v: said %q to nobody", args, errs.String())
		}
	}
}

// never is a standard input that never says anything.
type never struct{ quit chan struct{} }

func (n never) Read([]byte) (int, error) { <-n.quit; return 0, io.EOF }

func TestInterrupted(t *testing.T) {
	for _, args := range [][]string{{"decode"}, {"verify", "-"}, {"verify", casesDir}} {
		stdin := never{make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		if args[len(args)-1] == casesDir {
			cancel()
		} else {
			time.AfterFunc(10*time.Millisecond, cancel)
		}
		var out, errs bytes.Buffer
		if code := run(ctx, args, stdin, &out, &errs); code != audit.ExitNotFinished {
			t.Errorf("%v: exit %d, want %d", args, code, audit.ExitNotFinished)
		}
		if !strings.Contains(errs.String(), "interrupted") || out.Len() > 0 {
			t.Errorf("%v: said %q and %q", args, out.String(), errs.String())
		}
		cancel()
		close(stdin.quit)
	}
}

func TestAmbiguousContract(t *testing.T) {
	a, b := protocol.ID{1, 2, 3, 4, 5}, protocol.ID{1, 2, 3, 4, 6}
	if id, err := onlyOne([]protocol.ID{a}, "01020304"); err != nil || *id != a {
		t.Errorf("one: %v, %v", id, err)
	}
	if id, err := onlyOne(nil, "01020304"); err != nil || id != nil {
		t.Errorf("none: %v, %v", id, err)
	}
	_, err := onlyOne([]protocol.ID{a, b}, "01020304")
	if usage, ok := err.(*usageError); !ok || !strings.Contains(usage.text, "2 contracts begin with 0x01020304") {
		t.Errorf("two: %v", err)
	}
	_, err = onlyOne(make([]protocol.ID, foundLimit), "01020304")
	if err == nil || !strings.Contains(err.Error(), "1000 or more") {
		t.Errorf("many: %v", err)
	}
}

func TestFlagValues(t *testing.T) {
	for _, c := range []struct {
		text string
		want int64
	}{{"1", 1}, {"4096", 4096}, {"64KiB", 64 << 10}, {"3MiB", 3 << 20}, {"16GiB", 16 << 30}} {
		var s size
		if err := s.Set(c.text); err != nil || int64(s) != c.want {
			t.Errorf("size %q: %d, %v", c.text, s, err)
		}
		var again size
		if err := again.Set(s.String()); err != nil || again != s {
			t.Errorf("size %q prints as %q", c.text, s.String())
		}
	}
	for _, bad := range []string{"", "0", "-1", "1.5MiB", "KiB", "1TiB", "9223372036854775807GiB", " 1"} {
		var s size
		if err := s.Set(bad); err == nil {
			t.Errorf("size %q is accepted as %d", bad, s)
		}
	}
	for _, c := range []struct {
		text string
		want int64
	}{
		{"0", 0}, {"1780000000000", 1780000000000},
		{"2026-05-28T20:26:40Z", 1780000000000}, {"2026-05-28T22:26:40.5+02:00", 1780000000500},
		{"2026-05-28T20:26:40.0009Z", 1780000000000},
	} {
		var i instant
		if err := i.Set(c.text); err != nil || *i.ms != c.want {
			t.Errorf("instant %q: %v, %v", c.text, i, err)
		}
	}
	for _, bad := range []string{"", "-1", "9007199254740992", "2026-02-30T00:00:00Z", "1969-12-31T23:59:59Z", "now"} {
		var i instant
		if err := i.Set(bad); err == nil {
			t.Errorf("instant %q is accepted", bad)
		}
	}
}

// TestManPages compares docs/man with the commands.
func TestManPages(t *testing.T) {
	const dir = "../../docs/man"
	a := &app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard}
	pages := manPages(a.root())
	if *update {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	written := filepath.Join(t.TempDir(), "man")
	if code, _, errs := invoke(t, "", "docs", written); code != 0 {
		t.Fatalf("docs: exit %d: %s", code, errs)
	}
	for name, page := range pages {
		golden(t, filepath.Join(dir, name), page)
		if readFile(t, filepath.Join(written, name)) != page {
			t.Errorf("the docs command writes another %s", name)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if _, ok := pages[e.Name()]; !ok {
			t.Errorf("%s/%s belongs to no command", dir, e.Name())
		}
	}
	for _, want := range []string{"tclk-audit.1", "tclk-audit-verify.1", "tclk-audit-explain.1", "tclk-audit-decode.1", "tclk-audit-gen.1"} {
		if pages[want] == "" {
			t.Errorf("no page %s", want)
		}
	}
}
