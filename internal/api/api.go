// Package api answers questions about a store over HTTP.
package api

import (
	"fmt"
	"net/http"

	"github.com/tclk-audit/tclk-audit/store"
)

// Options of the handlers.
type Options struct{}

// New returns the handlers.
func New(s *store.Store, _ Options) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Tclk-Exit", "0")
		fmt.Fprintf(w, "rules %s\n", s.Rules())
	})
	return mux
}
