package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/tclk-audit/tclk-audit/internal/api"
	"github.com/tclk-audit/tclk-audit/internal/control"
	"github.com/tclk-audit/tclk-audit/internal/ingest"
	"github.com/tclk-audit/tclk-audit/internal/report"
	"github.com/tclk-audit/tclk-audit/store"
)

// lastAnswers is how long answers that are under way when the work is done may
// still take.
const lastAnswers = 10 * time.Second

func (a *app) ingestCommand() *cobra.Command {
	var data dataFlag
	var in inputFlags
	var rules ruleFlags
	var venue string
	var acceptLoss, asJSON bool
	sync := choice{value: "batch", allowed: []string{"batch", "always"}}
	cmd := &cobra.Command{
		Use:   "ingest [flags] PATH...",
		Short: "Read exports into a store",
		Long: `Reads into a store what verify reads: each row with its bytes, where it was seen,
and what follows from it. A store that is not there is made. A file that the
store has whole is not read again, one whose reading was cut short goes on where it
stopped, so the same command can be run as often as you like.

While it runs, commands that only read, and backup, work beside it.

An interrupted run keeps what it says it keeps, and the same command goes on from
there.

Exit codes are those of verify for the rows that this run read; what the rows
say of contracts does not change them:
  0  nothing wrong with the rows
  1  a malformed row, or a signature that does not hold in a room that was
     certain
  2  usage
  3  a torn line, or an input that ends too early
  4  the work could not be done, was interrupted, or a row was over --max-line`,
		Example: `  tclk-audit ingest exports/
  tclk-audit ingest --venue-alias archive --data /var/lib/tclk 2026-*.jsonl.zst`,
		RunE: func(cmd *cobra.Command, paths []string) error {
			if len(paths) == 0 {
				return &usageError{text: "ingest needs a PATH", hint: "name export files or folders, or - for standard input"}
			}
			if !store.ValidVenue(venue) {
				return &usageError{text: fmt.Sprintf("--venue-alias %q is no alias", venue), hint: "an alias is 1 to 32 of a-z, 0-9 and -"}
			}
			if err := in.apply(); err != nil {
				return err
			}
			o := store.Options{AcceptLoss: acceptLoss}
			if cmd.Flags().Changed("rules") || cmd.Flags().Changed("rule") {
				r, err := rules.rules()
				if err != nil {
					return err
				}
				o.Rules = &r
			}
			for _, path := range paths {
				if _, err := os.Stat(path); path != "-" && err != nil {
					return hint(err) // before a store is made
				}
			}
			return a.withStore(cmd, &data, o, func(s *store.Store) error {
				defer a.answer(cmd.Context(), s)()
				return a.ingest(cmd.Context(), s, paths, &in, ingest.Options{Venue: venue, Always: sync.value == "always"}, asJSON)
			})
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&venue, "venue-alias", "file", "what the store calls the board that the rows are from: an `alias` of a-z, 0-9 and -")
	fs.Var(&sync, "sync", "make rows durable `when`: batch, some thousand at a time, or always, each before the next")
	fs.BoolVar(&acceptLoss, "accept-loss", false, "go on with a store that has lost the end of what it acknowledged")
	fs.BoolVar(&asJSON, "json", false, "print what was new as a JSON object")
	data.register(cmd)
	in.register(cmd)
	rules.register(cmd, "fold under `spec` or reference: of a new store; one that is there keeps its own")
	return cmd
}

// answer lets other processes ask about the store until the function that it
// returns is called, or ctx ends.
func (a *app) answer(ctx context.Context, s *store.Store) (done func()) {
	srv, err := control.Serve(s.Dir(), control.WithBackup(api.New(s, api.Options{}), func(dir string) error { return spelled(storeHint(s.Backup(dir))) }))
	if err != nil {
		a.warn("nothing can be asked while this runs: %v", err)
		return func() {}
	}
	// An input that never ends must not keep the socket.
	stop := context.AfterFunc(ctx, func() { _ = srv.Close(ctx) })
	return func() {
		stop()
		ctx, cancel := context.WithTimeout(ctx, lastAnswers)
		defer cancel()
		if err := srv.Close(ctx); err != nil {
			a.warn("%v", err)
		}
	}
}

func (a *app) ingest(ctx context.Context, s *store.Store, paths []string, in *inputFlags, o ingest.Options, asJSON bool) error {
	bar, memory := a.newProgress("reading", true), newHeap()
	defer bar.close()
	var rows int64
	keep := func(c store.WindowCounts) {
		rows = c.Rows
		kept := fmt.Sprintf("%d rows of this run are kept; run it again to go on", c.Rows)
		a.kept.Store(&kept)
	}
	keep(store.WindowCounts{})
	o.Room, o.Limits, o.Cores, o.Stdin, o.Committed = in.room, in.limits(), in.cores, a.stdin, keep
	o.Progress = func(done, total int64) {
		memory.pace()
		bar.set(done, total)
	}
	begun := time.Now()
	res, err := ingest.Run(ctx, s, paths, o)
	bar.close()
	if err != nil {
		if rows > 0 && ctx.Err() == nil {
			a.warn("%s", *a.kept.Load())
		}
		var changed *ingest.ChangedError
		if errors.As(err, &changed) {
			return &hintedError{err, "give it another name or time, and it is read as a new file"}
		}
		return err
	}
	a.skipped(res.Skipped)
	a.tooLong(res.TooLong, in)
	a.exit = res.Exit()
	if isTerminal(a.stderr) {
		a.speed(res.Counts.Rows, time.Since(begun))
	}
	if asJSON {
		return a.ingestedJSON(s, res)
	}
	return a.ingested(s, res)
}

func (a *app) ingested(s *store.Store, r *ingest.Result) error {
	c := &r.Counts
	_, err := fmt.Fprintf(a.stdout, `  store      %s, rules %s
  inputs     %d read (%d of them resumed), %d known, %d skipped
  rows       %d read: %d new, %d seen before, %d unusable (%d malformed, %d torn, %d forged)
  contracts  %d new, %d changed
  events     %d
`, report.Printable(s.Dir()), s.Rules(), r.Sources, r.Resumed, r.Known, len(r.Skipped),
		c.Rows, c.New, c.Again, c.Unusable, r.Malformed, r.Torn, r.Forged, c.Contracts, c.Changed, c.Events)
	return err
}

func (a *app) ingestedJSON(s *store.Store, r *ingest.Result) error {
	type skipped struct {
		Path string `json:"path"`
		Why  string `json:"why"`
	}
	type inputs struct {
		Read    int       `json:"read"`
		Resumed int       `json:"resumed"`
		Known   int       `json:"known"`
		Skipped []skipped `json:"skipped"`
	}
	type rows struct {
		Read         int64 `json:"read"`
		Bytes        int64 `json:"bytes"`
		New          int64 `json:"new"`
		SeenBefore   int64 `json:"seenBefore"`
		Unusable     int64 `json:"unusable"`
		WithoutBytes int64 `json:"withoutBytes"`
		Malformed    int64 `json:"malformed"`
		TooLong      int64 `json:"tooLong"`
		Torn         int64 `json:"torn"`
		Forged       int64 `json:"forged"`
	}
	type contracts struct {
		New     int64 `json:"new"`
		Changed int64 `json:"changed"`
	}
	c := &r.Counts
	list := make([]skipped, len(r.Skipped))
	for i, s := range r.Skipped {
		list[i] = skipped{s.Path, report.SkipText(s)}
	}
	out, err := json.Marshal(struct {
		Schema    string    `json:"schema"`
		Store     string    `json:"store"`
		Rules     string    `json:"rules"`
		Inputs    inputs    `json:"inputs"`
		Rows      rows      `json:"rows"`
		Contracts contracts `json:"contracts"`
		Events    int64     `json:"events"`
		Exit      int       `json:"exit"`
	}{
		"tclk-audit.ingest/1", s.Dir(), s.Rules().String(),
		inputs{r.Sources, r.Resumed, r.Known, list},
		rows{c.Rows, c.Bytes, c.New, c.Again, c.Unusable, c.WithoutRaw, r.Malformed, r.TooLong, r.Torn, r.Forged},
		contracts{c.Contracts, c.Changed}, c.Events, r.Exit(),
	})
	if err != nil {
		return err
	}
	return a.print(append(out, '\n'))
}
