package api_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/tclk-audit/tclk-audit/internal/api"
	"github.com/tclk-audit/tclk-audit/internal/gen"
	"github.com/tclk-audit/tclk-audit/internal/ingest"
	"github.com/tclk-audit/tclk-audit/store"
)

// benchStore holds a made-up board. TCLK_BENCH_ROWS says how many rows its board
// has at least; TCLK_BENCH_STORE names a folder that keeps it for the next time.
func benchStore(b *testing.B) *store.Store {
	b.Helper()
	rows := int64(20_000)
	if s := os.Getenv("TCLK_BENCH_ROWS"); s != "" {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		rows = n
	}
	dir := os.Getenv("TCLK_BENCH_STORE")
	if dir == "" {
		dir = b.TempDir()
	}
	s, err := store.Open(filepath.Join(dir, strconv.FormatInt(rows, 10)), store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	if known, err := has(s); err != nil || known {
		return s
	}
	out := corpus(b, func(o *gen.Options) {
		o.Rows, o.Contracts, o.Keys, o.Noise, o.Layout = rows, 0, 3000, gen.LiveNoise(), gen.OneFile
	})
	if _, err := ingest.Run(b.Context(), s, []string{out}, ingest.Options{Venue: "file"}); err != nil {
		b.Fatal(err)
	}
	return s
}

func has(s *store.Store) (bool, error) {
	r, err := s.Reader()
	if err != nil {
		return false, err
	}
	defer r.Close()
	return r.LastEvent() > 0, nil
}

// nowhere is the answer that nobody reads.
type nowhere struct{ head http.Header }

func (n *nowhere) Header() http.Header         { return n.head }
func (n *nowhere) Write(b []byte) (int, error) { return io.Discard.Write(b) }
func (n *nowhere) WriteHeader(int)             {}

func BenchmarkAsk(b *testing.B) {
	s := benchStore(b)
	h := api.New(s, api.Options{})
	r, err := s.Reader()
	if err != nil {
		b.Fatal(err)
	}
	items, err := r.Contracts(store.Filter{Limit: 1000})
	if err != nil {
		b.Fatal(err)
	}
	if err := r.Close(); err != nil {
		b.Fatal(err)
	}
	did := partyOf(b, h)
	for _, path := range []string{
		"show", "/v1/contracts?status=locked", "/v1/contracts?status=locked&format=jsonl&limit=100", "/v1/contracts", "/v1/offers",
		"/v1/parties/" + did, "/v1/contracts?since=1", "/v1/status", "/v1/events?limit=1000",
	} {
		b.Run(path, func(b *testing.B) {
			n := 0
			for b.Loop() {
				to := path
				if path == "show" {
					to = "/v1/contracts/" + items[n%len(items)].Contract.String()
					n += 37
				}
				w := &nowhere{head: http.Header{}}
				h.ServeHTTP(w, httptest.NewRequestWithContext(b.Context(), http.MethodGet, to, nil))
				if w.head.Get(api.ExitHeader) == "4" {
					b.Fatal(w.head)
				}
			}
		})
	}
}
