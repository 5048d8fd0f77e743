package serve_test

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/internal/gen"
	"github.com/tclk-audit/tclk-audit/internal/ingest"
	"github.com/tclk-audit/tclk-audit/internal/serve"
	"github.com/tclk-audit/tclk-audit/store"
)

const demo = "../../testdata/demo"

// running is a server over a store that is filled, with a client for it.
type running struct {
	*serve.Server
	store  *store.Store
	client *http.Client
	base   string
}

func filled(t testing.TB, paths ...string) *store.Store {
	t.Helper()
	s, err := store.Open(t.TempDir(), store.Options{Rules: &fold.Rules{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := ingest.Run(t.Context(), s, paths, ingest.Options{Venue: "file"}); err != nil {
		t.Fatal(err)
	}
	return s
}

// corpus writes a made-up board with every kind of noise.
func corpus(t testing.TB) string {
	t.Helper()
	o := gen.Defaults()
	o.Seed, o.Contracts, o.Out, o.Noise = 7, 40, filepath.Join(t.TempDir(), "corpus"), gen.AllNoise()
	if _, err := gen.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	return o.Out
}

func start(t testing.TB, dir string, change func(*serve.Options)) *running {
	t.Helper()
	o := serve.Options{
		Addr: "127.0.0.1:0", Store: filled(t, dir), Failed: func(err error) { t.Error(err) },
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain; version=0.0.4")
			_, _ = io.WriteString(w, "up 1\n")
		}),
	}
	if change != nil {
		change(&o)
	}
	srv, err := serve.Listen(o)
	if err != nil {
		t.Fatal(err)
	}
	s := &running{Server: srv, store: o.Store, client: &http.Client{Transport: &http.Transport{}}, base: "http://" + srv.Addr().String()}
	s.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	t.Cleanup(func() { s.close(t) })
	return s
}

func (s *running) close(t testing.TB) {
	t.Helper()
	s.client.CloseIdleConnections()
	ctx, quit := context.WithTimeout(context.Background(), 10*time.Second)
	defer quit()
	if err := s.Close(ctx); err != nil {
		t.Error(err)
	}
}

// request makes a request; headers are names and values in turn.
func (s *running) request(t testing.TB, method, path string, headers ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.base+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

func (s *running) do(t testing.TB, method, path string, headers ...string) (*http.Response, string) {
	t.Helper()
	res, err := s.client.Do(s.request(t, method, path, headers...))
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer res.Body.Close()
	var body strings.Builder
	if _, err := io.Copy(&body, res.Body); err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return res, body.String()
}

func (s *running) get(t testing.TB, path string, headers ...string) (*http.Response, string) {
	t.Helper()
	return s.do(t, http.MethodGet, path, headers...)
}
