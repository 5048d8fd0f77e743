package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tclk-audit/tclk-audit/internal/obs"
	"github.com/tclk-audit/tclk-audit/internal/serve"
	"github.com/tclk-audit/tclk-audit/internal/watch"
	"github.com/tclk-audit/tclk-audit/store"
)

// watchGrace is how long watch may take to stop. It is to be done within ten
// seconds.
const watchGrace = 10 * time.Second

func (a *app) watchCommand() *cobra.Command {
	f := &watchFlags{}
	var printConfig bool
	cmd := &cobra.Command{
		Use:   "watch [flags]",
		Short: "Follow the rooms of a venue into a store",
		Long: `Follows the board of a venue, and the deal rooms of the contracts that are made
there, for as long as it runs: reads what is new, verifies and folds it, and keeps
it in the store. What the venue forgot before it could be read is told as lost.

It stops at SIGTERM or SIGINT within ten seconds and goes on from there when it is
run again. SIGHUP reads the configuration again; rooms, live rooms, intervals and
budgets change then, and all else needs a restart. Meanwhile the commands that
read, and backup, work beside it, and it answers over HTTP at --listen.

Every setting can stand in the environment, as TCLK_ and the flag's name in capitals
with _ for -, lists with commas (TCLK_ROOM=a,b); and in the YAML file of --config
under the flag's name, but for --once and --accept-loss, which are about one run, and
--venue: there venues is a list, each with a url, perhaps an alias and rooms, and any
of the settings from --notes to --hot-before. Flags come before the environment, and
that before the file; --venue stands in place of all venues of the file.

A venue's alias is what the store and the metrics call it. Without one it is made
from the host. The same venue under another alias is another one to the store.

With --once it reads the board and each room one time and exits with the codes of
verify for the rows that were new to the store and the contracts that they bear on:
0 nothing wrong, 1 something is wrong, 3 a torn line, 4 a room could not be read, or
it was interrupted. Rows known to be lost do not change the code. Without --once it
exits with 0 when it was told to stop, and with 4 where the store failed.`,
		Example: `  tclk-audit watch --venue https://technocore.chat --data /var/lib/tclk
  tclk-audit watch --config /etc/tclk/watch.yaml --print-config
  tclk-audit watch --venue live=https://technocore.chat --once`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.resolve(cmd)
			if err != nil {
				return err
			}
			for _, name := range c.stray {
				a.warn("%s is set, and there is no such setting", name)
			}
			if printConfig {
				return a.printConfig(c)
			}
			return a.watch(cmd, f, c)
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&f.config, "config", "", "read settings from this YAML `file`")
	cmd.Flags().BoolVar(&printConfig, "print-config", false, "print the settings that are in force as YAML, and do nothing")
	return cmd
}

func (a *app) watch(cmd *cobra.Command, f *watchFlags, c *watchConfig) error {
	if err := c.options.Check(); err != nil {
		return &usageError{text: err.Error(), hint: "see the flag or the file that says so"}
	}
	a.grace.Store(int64(watchGrace))
	o := store.Options{AcceptLoss: c.flags.acceptLoss}
	if c.flags.rulesGiven {
		r, err := c.flags.rules.rules()
		if err != nil {
			return err
		}
		o.Rules = &r
	}
	return a.withStore(cmd, &c.flags.data, o, func(s *store.Store) error {
		return a.follow1(cmd, f, c, s)
	})
}

// follow1 watches into an open store.
func (a *app) follow1(cmd *cobra.Command, f *watchFlags, c *watchConfig, s *store.Store) (err error) {
	ctx, stop := context.WithCancel(cmd.Context())
	defer stop()
	view := a.newView(c)
	logger := view.logger
	var w *watch.Watcher
	observer, err := obs.New(obs.Options{
		Version: thisBuild().Version, Store: s, Log: logger,
		State: func() watch.State {
			if w == nil {
				return watch.State{}
			}
			return w.State()
		},
	})
	if err != nil {
		return err
	}
	defer observer.Close()
	c.options.Listener = view.listener(observer.Listener())
	if w, err = watch.New(s, c.options); err != nil {
		return err
	}
	defer a.answer(cmd.Context(), s)()
	if c.flags.surface.listen != "none" && !c.flags.once {
		srv, err := a.surface(c, s, w, observer.Handler(), logger)
		if err != nil {
			return err
		}
		defer func() {
			ctx, quit := context.WithTimeout(context.Background(), parting)
			defer quit()
			err = errors.Join(err, srv.Close(ctx))
		}()
		context.AfterFunc(ctx, func() {
			ctx, quit := context.WithTimeout(context.Background(), parting)
			defer quit()
			_ = srv.Close(ctx) // closed again above, which tells
		})
	}
	if c.flags.once {
		return a.once(ctx, w)
	}
	defer a.reloads(ctx, cmd, f, c, w, logger)()
	defer view.run(ctx, w)()
	logger.Info("watching", slog.Int("venues", len(c.options.Venues)), slog.String("store", s.Dir()))
	err = w.Run(ctx)
	if err == nil {
		logger.Info("stopped")
	}
	return err
}

// once makes a single pass and ends as verify would.
func (a *app) once(ctx context.Context, w *watch.Watcher) error {
	p, err := w.Once(ctx)
	if err != nil {
		return err
	}
	if p == nil {
		kept := "what was read is kept; run it again to go on"
		a.kept.Store(&kept)
		return context.Cause(ctx)
	}
	a.exit = p.Exit()
	_, err = fmt.Fprintf(a.stdout, `  rows       %d new (%d malformed, %d torn, %d forged), %d known to be lost
  contracts  %d new or changed, %d contradicted
  rooms      %d could not be read
`, p.Rows, p.Malformed, p.Torn, p.Forged, p.Lost, p.Contracts, p.Contradicted, p.Unread)
	return err
}

// surface serves the store over HTTP beside the watcher.
func (a *app) surface(c *watchConfig, s *store.Store, w *watch.Watcher, metrics http.Handler, logger *slog.Logger) (*serve.Server, error) {
	o := c.flags.surface.options(a, s)
	o.Changed, o.Metrics = w.Changed, metrics
	o.Failed = func(err error) { logger.Error("an answer failed", slog.String("error", err.Error())) }
	o.Ready = func() (bool, string) {
		st := w.State()
		lag, ok := st.Lag()
		switch {
		case !ok:
			return false, "the board has not been read to its end yet"
		case lag > c.flags.readyLag:
			return false, fmt.Sprintf("the board was read to its end %s ago", lag.Round(time.Second))
		}
		return true, ""
	}
	srv, err := serve.Listen(o)
	if err != nil {
		return nil, &hintedError{err, "--listen names another address, or none"}
	}
	logger.Info("answering", slog.String("address", srv.Addr().String()))
	return srv, nil
}

// reloads reads the configuration again at each SIGHUP.
func (a *app) reloads(ctx context.Context, cmd *cobra.Command, f *watchFlags, began *watchConfig, w *watch.Watcher, logger *slog.Logger) (stop func()) {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	done := make(chan struct{})
	quit, cancel := context.WithCancel(ctx)
	go func() {
		defer close(done)
		for {
			select {
			case <-quit.Done():
				return
			case <-hup:
			}
			c, err := f.resolve(cmd)
			var restart []string
			if err == nil {
				restart = c.needRestart(began)
				c.options.Settle, c.options.WarnBefore = began.options.Settle, began.options.WarnBefore
				err = w.Reload(quit, c.options)
			}
			if err != nil {
				logger.Error("the configuration stays as it was", slog.String("error", err.Error()))
				continue
			}
			if len(restart) > 0 {
				logger.Warn("the configuration was read again", slog.String("restart", strings.Join(restart, ", ")))
				continue
			}
			logger.Info("the configuration was read again")
		}
	}()
	return func() {
		signal.Stop(hup)
		cancel()
		<-done
	}
}
