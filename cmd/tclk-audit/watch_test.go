package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tclk-audit/tclk-audit/internal/testkit"
	"github.com/tclk-audit/tclk-audit/internal/testkit/double"
	"github.com/tclk-audit/tclk-audit/protocol"
)

// said is what a command has said so far.
type said struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// hostile is a text that would break whatever shows it as it is.
const hostile = "\x1b[31m<script>alert(1)</script>\"} tclk_audit_up{venue=\"x\"} 1 \\n# HELP"

// trade puts a deal on the venue's board, and strangers' rows around it.
func trade(v *double.Venue, seed uint64) *testkit.Deal {
	keys := testkit.NewKeys(seed)
	d := testkit.NewDeal(testkit.NewRand(seed, "watch"), keys.Party(1), keys.Party(2), testkit.Terms{NowMs: time.Now().UnixMilli(), Refund: 300_000, ClaimBy: 200_000})
	v.Say(protocol.BoardRoom, "visitor", hostile)
	v.Post(protocol.BoardRoom, d.Offerer.Signer, d.Offer)
	v.Post(protocol.BoardRoom, d.Acceptor.Signer, d.Accept)
	v.Post(d.RoomName(), d.Payer, d.Lock())
	v.SaySigned(d.RoomName(), keys.Signer(7), hostile)
	return d
}

// TestWatch runs the command against a venue: it answers over HTTP and on its
// socket, warns, stops when it is told to, and a stranger's text goes nowhere.
func TestWatch(t *testing.T) {
	v := double.New(double.Options{ReadPerMin: 6000})
	url := double.Serve(t, v)
	d := trade(v, 1)
	dir := filepath.Join(t.TempDir(), "data")
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var out bytes.Buffer
	says := &said{}
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"watch", "--venue", "test=" + url, "--data", dir, "--listen", "127.0.0.1:0", "--board-every", "200ms", "--hot-every", "200ms"},
			strings.NewReader(""), &out, says)
	}()
	address := regexp.MustCompile(`"address":"([^"]+)"`)
	base := ""
	get := func(path string) (int, string) {
		res, err := http.Get(base + path)
		if err != nil {
			return 0, err.Error()
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			return 0, err.Error()
		}
		return res.StatusCode, string(body)
	}
	ready := func() bool {
		if m := address.FindStringSubmatch(says.String()); m != nil {
			base = "http://" + m[1]
		}
		if base == "" {
			return false
		}
		status, _ := get("/readyz")
		_, events := get("/api/v1/events")
		return status == 200 && strings.Contains(events, `"deadline"`) && strings.Contains(events, `"msRemaining"`)
	}
	for deadline := time.Now().Add(30 * time.Second); !ready(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it is not ready:\n%s", says)
		}
	}
	var shown []string
	for _, path := range []string{
		"/", "/healthz", "/readyz", "/metrics", "/api/v1/status", "/api/v1/contracts", "/api/v1/offers", "/api/v1/rooms", "/api/v1/events", "/api/v1/findings",
		"/api/v1/contracts/" + d.ID().String(), "/api/v1/rooms/" + d.RoomName() + "/records", "/api/v1/rooms/tclk-offers/records",
	} {
		status, body := get(path)
		if status != 200 {
			t.Errorf("%s: status %d\n%s", path, status, body)
		}
		shown = append(shown, body)
		if strings.HasPrefix(path, "/api/") && !json.Valid([]byte(body)) {
			t.Errorf("%s: it is no JSON", path)
		}
	}
	if m := shown[3]; !strings.Contains(m, `tclk_audit_contracts{status="locked",venue="test"} 1`) {
		t.Errorf("the metrics do not know of the lock:\n%s", m)
	}
	if one := shown[10]; !strings.Contains(one, `"request": "/r/tclk-offers?format=json`) {
		t.Errorf("nothing says which reply a row came with:\n%s", one)
	}
	if promtool, err := exec.LookPath("promtool"); err == nil {
		cmd := exec.Command(promtool, "check", "metrics")
		cmd.Stdin = strings.NewReader(shown[3])
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("promtool: %v\n%s", err, out)
		}
	} else {
		t.Log("promtool is not here: the metrics were not shown to it")
	}
	code, list, _ := invoke(t, "", "contracts", "--data", dir)
	if code != 0 || !strings.Contains(list, "locked") {
		t.Errorf("beside it: exit %d\n%s", code, list)
	}
	if code, _, second := invoke(t, "", "watch", "--venue", url, "--data", dir, "--listen", "none"); code != 4 || !strings.Contains(second, "hint: ") {
		t.Errorf("a second watcher: exit %d\n%s", code, second)
	}
	begun := time.Now()
	interrupt()
	select {
	case code := <-ended:
		if code != 0 {
			t.Errorf("it ended with %d\n%s", code, says)
		}
	case <-time.After(15 * time.Second):
		t.Fatal("it did not end")
	}
	if d := time.Since(begun); d > 10*time.Second {
		t.Errorf("it took %s to end", d)
	}
	for _, text := range append(shown, list, says.String(), out.String()) {
		if strings.ContainsRune(text, '\x1b') || strings.Contains(text, "<script>") {
			t.Errorf("a stranger's text got through:\n%q", text)
		}
	}
	for line := range strings.Lines(says.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("a log line is no JSON: %q", line)
		}
	}
}

// TestWatchOnce holds the exit codes of a single pass.
func TestWatchOnce(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(v *double.Venue, d *testkit.Deal)
		code  int
	}{
		{"clean", func(*double.Venue, *testkit.Deal) {}, 0},
		{"forged", func(v *double.Venue, d *testkit.Deal) {
			v.PostRaw(d.RoomName(), d.Payer.DID, "9", strings.Repeat("A", 86), "forged")
		}, 1},
		{"old", func(v *double.Venue, _ *testkit.Deal) { v.Upgrade(double.V07) }, 0},
	} {
		v := double.New(double.Options{ReadPerMin: 6000})
		d := trade(v, 2)
		c.spoil(v, d)
		code, out, says := invoke(t, "", "watch", "--once", "--venue", double.Serve(t, v), "--data", filepath.Join(t.TempDir(), "data"))
		if code != c.code || !strings.Contains(out, "contracts") {
			t.Errorf("%s: exit %d, not %d\n%s\n%s", c.name, code, c.code, out, says)
		}
	}
}

// TestWatchConfig holds which setting comes first, and that none is misread.
func TestWatchConfig(t *testing.T) {
	file := write(t, "watch.yaml", `
settle-grace: 90s
warn-before: 20m
listen: none
allow-host: [audit.example, other.example]
venues:
  - alias: live
    url: https://technocore.chat
    rooms: [lobby]
    live: 5000
    notes: true
  - url: https://second.example:8443
`)
	print := func(args ...string) string {
		code, out, says := invoke(t, "", append([]string{"watch", "--print-config"}, args...)...)
		if code != 0 {
			t.Fatalf("%v: exit %d\n%s", args, code, says)
		}
		return out
	}
	holds := func(out string, lines ...string) {
		t.Helper()
		for _, line := range lines {
			if !strings.Contains(out, line) {
				t.Errorf("%q is not in\n%s", line, out)
			}
		}
	}
	out := print("--config", file)
	holds(out, "settle-grace: 1m30s", "warn-before: 20m0s", "listen: none", "- audit.example", "live: 5000", "alias: second-example-8443", "notes: true")
	t.Setenv("TCLK_WARN_BEFORE", "30m")
	t.Setenv("TCLK_SETTLE_GRACE", "10s")
	t.Setenv("TCLK_LIVE", "7")
	holds(print("--config", file, "--warn-before", "40m"), "warn-before: 40m0s", "settle-grace: 10s", "live: 7\n")
	t.Setenv("TCLK_CONFIG", file)
	t.Setenv("TCLK_LIVE", "")
	// What is printed is a file that says the same.
	out = print()
	again := write(t, "again.yaml", out)
	if second := print("--config", again); second != out {
		t.Errorf("printed again it is another\n%s\n%s", out, second)
	}
	t.Setenv("TCLK_CONFIG", "")
	for name, text := range map[string]string{
		"unknown key":      "frob: 1\nvenues: [{url: 'https://a.example'}]\n",
		"unknown in venue": "venues: [{url: 'https://a.example', frob: 1}]\n",
		"once":             "once: true\nvenues: [{url: 'https://a.example'}]\n",
		"bad duration":     "warn-before: soon\nvenues: [{url: 'https://a.example'}]\n",
		"two documents":    "venues: [{url: 'https://a.example'}]\n---\nlisten: none\n",
		"no venue":         "listen: none\n",
		"no YAML":          "venues: [\n",
		"twice":            "listen: none\nlisten: none\nvenues: [{url: 'https://a.example'}]\n",
		"a list":           "listen: [a, b]\nvenues: [{url: 'https://a.example'}]\n",
		"no origin":        "venues: [{url: 'https://a.example/path', alias: a}]\n",
	} {
		code, out, says := invoke(t, "", "watch", "--print-config", "--config", write(t, "bad.yaml", text))
		if code != 2 || out != "" || !strings.Contains(says, "hint: ") {
			t.Errorf("%s: exit %d\n%s%s", name, code, out, says)
		}
	}
	if code, _, _ := invoke(t, "", "watch", "--config", filepath.Join(t.TempDir(), "none.yaml")); code != 4 {
		t.Errorf("a file that is not there: exit %d", code)
	}
}
