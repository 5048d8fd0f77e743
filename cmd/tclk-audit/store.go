package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tclk-audit/tclk-audit/internal/api"
	"github.com/tclk-audit/tclk-audit/internal/audit"
	"github.com/tclk-audit/tclk-audit/internal/control"
	"github.com/tclk-audit/tclk-audit/store"
)

// dataFlag names the store that a verb works on.
type dataFlag struct{ dir string }

// dataVariable is the variable that names the store where no flag does.
const dataVariable = "TCLK_DATA"

func (f *dataFlag) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.dir, "data", "./tclk-data", "the store's `folder`; $"+dataVariable+" names another default")
}

func (f *dataFlag) path(cmd *cobra.Command) (string, error) {
	dir := f.dir
	if env := os.Getenv(dataVariable); env != "" && !cmd.Flags().Changed("data") {
		dir = env
	}
	if dir == "" {
		return "", &usageError{text: "--data is empty", hint: "name the store's folder"}
	}
	return dir, nil
}

// openStore opens a store; the database's last words are the program's.
func (a *app) openStore(dir string, o store.Options) (*store.Store, error) {
	o.Fatal = func(err error) {
		a.warn("%v", err)
		a.warn("hint: %s", "what was acknowledged is kept; see to the disk and run it again")
		os.Exit(audit.ExitNotFinished)
	}
	return store.Open(dir, o)
}

// patience is how long a command waits for a process that holds the store and
// answers nothing: one that only reads, or is about to listen or to end.
const patience = 3 * time.Second

// pause passes a moment of a wait.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(20 * time.Millisecond):
		return nil
	}
}

// withStore runs work on a store that no other process has.
func (a *app) withStore(cmd *cobra.Command, f *dataFlag, o store.Options, work func(*store.Store) error) error {
	dir, err := f.path(cmd)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	for deadline := time.Now().Add(patience); ; {
		s, err := a.openStore(dir, o)
		if errors.Is(err, store.ErrLocked) && !control.NewClient(dir).Answers(ctx) && time.Now().Before(deadline) {
			if err := pause(ctx); err != nil {
				return err
			}
			continue
		} else if err != nil {
			return storeHint(err)
		}
		return storeHint(errors.Join(work(s), s.Close()))
	}
}

// storeHint says what to do about an error of a store.
func storeHint(err error) error {
	var (
		damaged *store.DamagedError
		behind  *store.BehindError
		stale   *store.StaleError
		newer   *store.VersionError
		hinted  *hintedError
		usage   *usageError
	)
	switch {
	case err == nil || errors.As(err, &hinted) || errors.As(err, &usage):
		return err
	case errors.As(err, &damaged):
		return &hintedError{err, damaged.Do}
	case errors.As(err, &behind):
		return &hintedError{err, behind.Do()}
	case errors.As(err, &stale):
		return &hintedError{err, stale.Do()}
	case errors.As(err, &newer):
		return &hintedError{err, "install a newer version; nothing was changed"}
	case errors.Is(err, store.ErrLocked):
		return &hintedError{err, "wait until it ends, or end it; one process writes at a time"}
	case errors.Is(err, store.ErrNoStore):
		return &hintedError{err, "'tclk-audit ingest' makes one; --data or $" + dataVariable + " names another folder"}
	case errors.Is(err, control.ErrCut):
		return &hintedError{err, "the process that holds the store has ended; ask again"}
	case errors.Is(err, os.ErrExist):
		return &hintedError{err, "name a folder that is not there yet"}
	case errors.As(err, new(*store.FullError)):
		return err // it says what to do
	case errors.Is(err, syscall.ENOSPC):
		return &hintedError{err, "make room on the disk and run it again; what was acknowledged is kept"}
	}
	return hint(err)
}

// ask puts a question to the store, prints the answer, and ends as it says. The
// same handlers answer whether the store is free or a process holds it.
func (a *app) ask(cmd *cobra.Command, f *dataFlag, path string, query url.Values) error {
	dir, err := f.path(cmd)
	if err != nil {
		return err
	}
	target := path + "?" + query.Encode()
	ctx := cmd.Context()
	for deadline := time.Now().Add(patience); ; {
		answer, err := a.askOnce(ctx, dir, http.MethodGet, target)
		if errors.Is(err, control.ErrNobody) && time.Now().Before(deadline) {
			if err := pause(ctx); err != nil {
				return err
			}
			continue
		}
		if errors.Is(err, control.ErrNobody) {
			err = fmt.Errorf("%w: %s", store.ErrLocked, dir)
		}
		if err != nil {
			return storeHint(err)
		}
		return a.follow(answer)
	}
}

func (a *app) askOnce(ctx context.Context, dir, method, target string) (control.Answer, error) {
	s, err := a.openStore(dir, store.Options{ReadOnly: true})
	if errors.Is(err, store.ErrLocked) {
		return control.NewClient(dir).Ask(ctx, method, target, a.stdout)
	} else if err != nil {
		return control.Answer{}, err
	}
	answer, err := control.Ask(ctx, api.New(s, api.Options{}), method, target, a.stdout)
	if behind := s.Behind(); behind != nil && !slices.Contains(answer.Warnings, behind.Error()) {
		a.warn("%v", behind)
	}
	return answer, errors.Join(err, s.Close())
}

// follow says on standard error what an answer says, and ends as it does.
func (a *app) follow(answer control.Answer) error {
	for _, w := range answer.Warnings {
		a.warn("%s", w)
	}
	a.exit = answer.Exit
	text, hint, _ := strings.Cut(strings.TrimSpace(answer.Said), "\nhint: ")
	switch {
	case answer.Failed != "":
		return errors.New(answer.Failed)
	case answer.Status == http.StatusOK:
		return nil
	case answer.Exit == audit.ExitUsage:
		return &usageError{text: text, hint: hint}
	case answer.Exit == audit.ExitCannotTell:
		a.warn("%s", text)
		a.warn("hint: %s", hint)
		return nil
	case hint != "":
		return &hintedError{errors.New(text), hint}
	}
	return errors.New(text)
}

// spelled puts an error's hint into its text, for another process to tell.
func spelled(err error) error {
	var hinted *hintedError
	if errors.As(err, &hinted) {
		return fmt.Errorf("%w\nhint: %s", err, hinted.hint)
	}
	return err
}

// form says in which form an answer is printed.
type form struct{ asJSON, asLines bool }

func (f *form) object(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print one JSON object")
}

func (f *form) lines(cmd *cobra.Command, what string) {
	cmd.Flags().BoolVar(&f.asLines, "jsonl", false, "print one JSON line "+what)
}

// question begins a question with the form of its answer and the flags that
// were given, under their names.
func (a *app) question(cmd *cobra.Command, f form, names ...string) (url.Values, error) {
	q := url.Values{"format": {"text"}}
	switch {
	case f.asJSON && f.asLines:
		return nil, usagef("--json and --jsonl do not go together")
	case f.asJSON:
		q.Set("format", "json")
	case f.asLines:
		q.Set("format", "jsonl")
	}
	for _, name := range names {
		if flag := cmd.Flags().Lookup(name); flag.Changed {
			q.Set(name, flag.Value.String())
		}
	}
	return q, nil
}

// paint asks for colour where it can be seen.
func (a *app) paint(q url.Values) {
	if q.Get("format") == "text" && a.color() {
		q.Set("color", "1")
	}
}

// ask1 asks for what a switch stands for.
func ask1(q url.Values, name string, on bool) {
	if on {
		q.Set(name, "1")
	}
}

func limitFlag(cmd *cobra.Command, limit *int, usage string) {
	cmd.Flags().Var(number[int]{limit, 0, 1 << 30}, "limit", usage)
	cmd.Flags().Lookup("limit").DefValue = "" // it depends on the form
}
