package double_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tclk-audit/tclk-audit/internal/testkit/double"
)

// get reads a whole answer.
func get(t *testing.T, client *http.Client, url string) (*http.Response, string) {
	t.Helper()
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

func TestLongPollInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := double.New(double.Options{})
		w := double.Pipe(v)
		defer w.Close()

		start := time.Now()
		_, body := get(t, w.Client, w.Origin+"/r/quiet?format=json&since=0&wait=60")
		if d := time.Since(start); d != 10*time.Second {
			t.Errorf("a wait of 60 s in a quiet room took %v", d)
		}
		if !strings.Contains(body, `"wait_held":true`) {
			t.Errorf("the wait was not held: %s", body)
		}

		time.AfterFunc(3200*time.Millisecond, func() { v.Say("quiet", "a", "hello") })
		start = time.Now()
		_, body = get(t, w.Client, w.Origin+"/r/quiet?format=json&since=0&wait=10")
		if d := time.Since(start); d != 3500*time.Millisecond {
			t.Errorf("a row after 3.2 s came after %v", d)
		}
		if !strings.Contains(body, `"text":"hello"`) || strings.Contains(body, "wait_held") {
			t.Errorf("the reply to a wait that ended: %s", body)
		}
	})
}
