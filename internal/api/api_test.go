package api_test

import (
	"bytes"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/internal/api"
	"github.com/tclk-audit/tclk-audit/internal/gen"
	"github.com/tclk-audit/tclk-audit/internal/ingest"
	"github.com/tclk-audit/tclk-audit/store"
)

var update = flag.Bool("update", false, "write the golden files again")

const demo = "../../testdata/demo"

// filled returns a store that holds the given exports.
func filled(t testing.TB, paths ...string) *store.Store {
	t.Helper()
	rules := fold.Rules{}
	s, err := store.Open(t.TempDir(), store.Options{Rules: &rules})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	add(t, s, "file", paths...)
	return s
}

func add(t testing.TB, s *store.Store, venue string, paths ...string) {
	t.Helper()
	if _, err := ingest.Run(t.Context(), s, paths, ingest.Options{Venue: venue}); err != nil {
		t.Fatal(err)
	}
}

// corpus writes a made-up board with every kind of noise.
func corpus(t testing.TB, change func(*gen.Options)) string {
	t.Helper()
	o := gen.Defaults()
	o.Seed, o.Contracts, o.Out, o.Noise = 7, 120, filepath.Join(t.TempDir(), "corpus"), gen.AllNoise()
	if change != nil {
		change(&o)
	}
	if _, err := gen.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	return o.Out
}

// ask asks as the command line does.
func ask(t testing.TB, h http.Handler, path string) (body, exit string, res *http.Response) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	res = w.Result()
	return w.Body.String(), w.Header().Get(api.ExitHeader), res
}

func mustAsk(t testing.TB, h http.Handler, path string) string {
	t.Helper()
	body, exit, res := ask(t, h, path)
	if res.StatusCode != http.StatusOK || exit == "" || exit == "4" {
		t.Fatalf("%s: status %d, exit %q, %s\n%s", path, res.StatusCode, exit, res.Trailer.Get(api.ErrorHeader), body)
	}
	return body
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s: -golden +got\n%s", name, d)
	}
}

// TestTextForms holds what people see of the bundled export.
func TestTextForms(t *testing.T) {
	s := filled(t, demo)
	h := api.New(s, api.Options{})
	abs, err := filepath.Abs(demo)
	if err != nil {
		t.Fatal(err)
	}
	clean := strings.NewReplacer(abs, "DEMO", s.Dir(), "DATA")
	for name, path := range map[string]string{
		"contracts.txt": "/v1/contracts",
		"limited.txt":   "/v1/contracts?limit=2&sort=revision",
		"show.txt":      "/v1/contracts/0xc24afe77",
		"offers.txt":    "/v1/offers",
		"party.txt":     "/v1/parties/" + partyOf(t, h),
		"board.txt":     "/v1/rooms/tclk-offers/records",
		"texts.txt":     "/v1/rooms/mb-p-tclk-c24afe77f62cd4cb/records?text=1&limit=2",
		"events.txt":    "/v1/events?format=text&limit=12",
		"rooms.txt":     "/v1/rooms",
		"findings.txt":  "/v1/findings",
		"found.txt":     "/v1/findings?code=gap,superseded",
		"status.txt":    "/v1/status",
	} {
		got := clean.Replace(mustAsk(t, h, path))
		if name == "status.txt" {
			got = withoutSizes(got)
		}
		golden(t, name, got)
		for _, c := range []byte(got) {
			if c != '\n' && (c < 0x20 || c > 0x7e) {
				t.Fatalf("%s holds byte %#x", name, c)
			}
		}
	}
}

// withoutSizes leaves out what depends on the database's mood.
func withoutSizes(s string) string {
	var b bytes.Buffer
	for line := range strings.Lines(s) {
		if !strings.HasPrefix(line, "  on disk") {
			b.WriteString(line)
		}
	}
	return b.String()
}
