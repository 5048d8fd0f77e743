package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/tclk-audit/tclk-audit/internal/serve"
	"github.com/tclk-audit/tclk-audit/store"
)

// surfaceFlags say where and to whom a store is shown over HTTP.
type surfaceFlags struct {
	listen  string
	hosts   []string
	origins []string
	pprof   bool
}

func (f *surfaceFlags) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.listen, "listen", serve.DefaultAddr, "answer on this `address`, host:port")
	fs.StringArrayVar(&f.hosts, "allow-host", nil, "also answer to this host `name`; may be given again")
	fs.StringArrayVar(&f.origins, "cors-origin", nil, "let web pages of this `origin` read the API; may be given again")
	fs.BoolVar(&f.pprof, "pprof", false, "serve profiles under /debug/pprof/")
}

// options are those of a server for the store; what else it needs is the
// caller's.
func (f *surfaceFlags) options(a *app, s *store.Store) serve.Options {
	return serve.Options{
		Addr: f.listen, Store: s, AllowHosts: f.hosts, AllowOrigins: f.origins, PProf: f.pprof,
		Failed: func(err error) { a.warn("%v", err) },
	}
}

// parting is how long answers that are under way may take when the server ends.
const parting = 700 * time.Millisecond

func (a *app) serveCommand() *cobra.Command {
	var data dataFlag
	var surface surfaceFlags
	cmd := &cobra.Command{
		Use:   "serve [flags]",
		Short: "Show a store over HTTP, read-only",
		Long: `Answers questions about a store over HTTP until it is interrupted: contracts,
offers, rooms, records, findings, events and status as JSON under /api/v1, which
/api/v1/openapi.json describes. Nothing can be changed through it, and neither
secrets nor stored texts are shown. It holds the store for reading: meanwhile
other commands can read it too, and none can write.

Only requests for the address it listens on, localhost, 127.0.0.1, [::1] and the
names of --allow-host are answered.`,
		Example: `  tclk-audit serve --data /var/lib/tclk
  curl -s 'http://127.0.0.1:9464/api/v1/contracts?status=locked&sort=deadline'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := a.withStore(cmd, &data, store.Options{ReadOnly: true}, func(s *store.Store) error {
				o := surface.options(a, s)
				o.Ready = func() (bool, string) {
					return s.Behind() == nil, "the store holds less than it acknowledged"
				}
				srv, err := serve.Listen(o)
				if err != nil {
					return &hintedError{err, "--listen names another address"}
				}
				if err := s.Behind(); err != nil {
					a.warn("%v", err)
				}
				a.warn("answering on http://%s/", srv.Addr())
				select {
				case <-cmd.Context().Done():
				case <-srv.Done():
				}
				ctx, quit := context.WithTimeout(context.Background(), parting)
				defer quit()
				return srv.Close(ctx)
			})
			if errors.Is(err, store.ErrLocked) {
				return &hintedError{err, "one process writes to it, and answers itself what the other commands ask; serve it when that has ended, or serve a copy (tclk-audit backup)"}
			}
			return err
		},
	}
	surface.register(cmd)
	data.register(cmd)
	return cmd
}
