package double_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tclk-audit/tclk-audit/internal/testkit/double"
)

// An export is a snapshot: whole lines with consecutive seqs, whatever is
// written and cut meanwhile.
func TestExportsBesideWriters(t *testing.T) {
	v := double.New(double.Options{RingBytes: 20_000, ReadPerMin: 1e6})
	url := double.Serve(t, v)
	var writers, readers sync.WaitGroup
	for w := range 8 {
		writers.Go(func() {
			for i := range 200 {
				v.Say("r", "a", fmt.Sprintf("writer %d row %d", w, i))
			}
		})
	}
	for range 2 {
		readers.Go(func() {
			for range 40 {
				resp, err := http.Get(url + "/r/r/export")
				if err != nil {
					t.Error(err)
					return
				}
				b, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || len(b) > 0 && b[len(b)-1] != '\n' {
					t.Errorf("a torn export: %v", err)
					return
				}
				before := uint64(0)
				for line := range strings.SplitSeq(strings.TrimSuffix(string(b), "\n"), "\n") {
					var seq uint64
					if _, err := fmt.Sscanf(line, `{"seq":%d,`, &seq); line != "" && (err != nil || before > 0 && seq != before+1) {
						t.Errorf("seq %d after %d: %v", seq, before, err)
						return
					}
					before = seq
				}
			}
		})
	}
	writers.Wait()
	readers.Wait()
	if s := v.Stats(); s.Compactions < 5 || len(v.Held("r")) != 1600 {
		t.Errorf("%d compactions, %d rows ever", s.Compactions, len(v.Held("r")))
	}
}

func TestEphemeralRoom(t *testing.T) {
	c := &clock{}
	c.set("2026-09-01T00:00:00Z")
	v := double.New(double.Options{Now: c.now})
	v.Say("e-r", "a", "one")
	c.add(10 * time.Minute)
	v.Say("e-r", "a", "two")
	c.add(6 * time.Minute)
	if got := read(t, v, "/r/e-r?format=json"); got.Count != 1 || *got.First != 2 {
		t.Errorf("%+v", got)
	}
	if got := do(v, "GET", "/r/e-r/export", "").Body.String(); strings.Contains(got, "one") {
		t.Errorf("the export has an expired row: %s", got)
	}
}

func TestConnectionCap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := double.New(double.Options{MaxConns: 1})
		w := double.Pipe(v)
		defer w.Close()
		var first sync.WaitGroup
		first.Go(func() { get(t, w.Client, w.Origin+"/r/r?since=0&wait=5") })
		synctest.Wait()
		resp, body := get(t, w.Client, w.Origin+"/r/r")
		if resp.StatusCode != 503 || !resp.Close || body != "Service Unavailable" {
			t.Errorf("%d %q", resp.StatusCode, body)
		}
		first.Wait()
	})
}

func TestHeadCostsAReadAndWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := double.New(double.Options{})
		start := time.Now()
		w := do(v, "HEAD", "/r/r?format=json&since=0&wait=3", "")
		if w.Code != 200 || w.Body.Len() != 0 || time.Since(start) != 3*time.Second {
			t.Errorf("%d, %d bytes after %v", w.Code, w.Body.Len(), time.Since(start))
		}
		if got := v.Stats().Clients["192.0.2.1"]; got.Reads != 1 || got.Lowest != 119 {
			t.Errorf("%+v", got)
		}
	})
}

func TestCompression(t *testing.T) {
	eachProfile(t, func(t *testing.T, p double.Profile, v *double.Venue, _ *clock) {
		fill(v, "r", 50)
		plain := do(v, "GET", "/r/r?format=json", "").Body.String()
		req := httptest.NewRequest("GET", "/r/r?format=json", nil)
		req.Header.Set("Accept-Encoding", "br, gzip")
		w := httptest.NewRecorder()
		v.ServeHTTP(w, req)
		if zipped := w.Header().Get("Content-Encoding") == "gzip"; zipped != (p == double.V0145) {
			t.Fatalf("compressed: %v", zipped)
		} else if !zipped {
			return
		}
		z, err := gzip.NewReader(w.Body)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(z)
		if err != nil || string(b) != plain || w.Header().Get("Content-Length") != "" {
			t.Errorf("%v %v", err, w.Header())
		}
	})
}

func TestTextView(t *testing.T) {
	v := double.New(double.Options{ReadPerMin: 8})
	did, sig := signed("payer", "1", "hello")
	v.PostRaw("r", did, "1", sig, "hello")
	v.Say("r", "nick", "there")
	body := do(v, "GET", "/r/r?format=JSON", "").Body.String()
	for _, want := range []string{"# room r  messages 2  range 1..2\n", "<z6Mk…", "<~nick> there", "next: "} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
	if strings.Contains(body, sig) || strings.Contains(body, did) {
		t.Error("the text view shows a whole did or a signature")
	}
	// A budget that runs low is told at the end of a text, a note's too.
	v.SetNote("ns", "k", "value")
	last := ""
	for range 7 {
		last = do(v, "GET", "/kv/ns/k", "").Body.String()
	}
	if !strings.Contains(last, "value\n# budget: 0 of 8 reads left") {
		t.Errorf("%s", last)
	}
}

func TestWorkersBlurTheBudget(t *testing.T) {
	v := double.New(double.Options{ReadPerMin: 10, Workers: 4})
	served, refused := 0, 0
	for range 60 {
		switch do(v, "GET", "/r/r", "").Code {
		case 200:
			served++
		case 429:
			refused++
		}
	}
	if served <= 10 || served > 41 || refused == 0 {
		t.Errorf("%d served, %d refused of 60 at 10 a minute and 4 workers", served, refused)
	}
}
