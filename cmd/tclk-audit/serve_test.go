package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestServe runs the command, asks it, reads the store beside it, and interrupts
// it while a reader waits.
func TestServe(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if code, _, says := invoke(t, "", "ingest", "--data", dir, filepath.Join(repoRoot, "testdata", "demo")); code != 0 {
		t.Fatal(says)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	says, to := io.Pipe()
	var out bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"serve", "--data", dir, "--listen", "127.0.0.1:0", "--allow-host", "audit.example"}, strings.NewReader(""), &out, to)
		_ = to.Close()
	}()
	lines := bufio.NewScanner(says)
	if !lines.Scan() {
		t.Fatal("it says nothing")
	}
	base, ok := strings.CutPrefix(lines.Text(), "tclk-audit: answering on ")
	if !ok {
		t.Fatalf("it says %q", lines.Text())
	}
	for host, status := range map[string]int{"audit.example": 200, "other.example": 421} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"api/v1/contracts/0xc24afe77", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil || res.Body.Close() != nil || res.StatusCode != status || (status == 200) != strings.Contains(string(body), `"status": "refunded"`) {
			t.Errorf("%s: status %d, %v\n%s", host, res.StatusCode, err, body)
		}
	}
	if code, shown, _ := invoke(t, "", "status", "--data", dir); code != 0 || !strings.Contains(shown, "13 events") {
		t.Errorf("beside it: exit %d\n%s", code, shown)
	}
	waiting := make(chan error, 1)
	go func() {
		res, err := http.Get(base + "api/v1/events?wait=30&since=13")
		if err == nil {
			_, err = io.Copy(io.Discard, res.Body)
		}
		waiting <- err
	}()
	time.Sleep(100 * time.Millisecond)
	interrupt()
	select {
	case code := <-ended:
		if code != 0 || out.Len() > 0 {
			t.Errorf("interrupted: exit %d, %q on standard output", code, out.String())
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it does not end")
	}
	if err := <-waiting; err != nil {
		t.Errorf("who waited: %v", err)
	}
	if code, _, says := invoke(t, "", "serve", "--data", dir, "--listen", "nowhere"); code != 4 || !strings.Contains(says, "hint: --listen names another address") {
		t.Errorf("an address that makes no sense: exit %d, %s", code, says)
	}
	if code, _, says := invoke(t, "", "serve", "--data", filepath.Join(dir, "none")); code != 4 || !strings.Contains(says, "hint: ") {
		t.Errorf("no store: exit %d, %s", code, says)
	}
}
