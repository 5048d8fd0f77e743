// Command tclk-audit says what a transcript of tclk/1 contracts proves, what it
// does not, and why.
//
// Rules of this program's surface: standard output carries the result and
// nothing else, standard error the rest, each line of it behind "tclk-audit:".
// An error is followed by a hint. The exit code is decided in run and nowhere
// else. What a row says never reaches a terminal unescaped.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tclk-audit/tclk-audit/internal/audit"
	"github.com/tclk-audit/tclk-audit/internal/report"
)

func main() { os.Exit(run(interruptible(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// grace is how long an interrupted verb may take to end by itself. One that is
// stuck in a read of a terminal or pipe never would.
const grace = time.Second

// run is the program: it runs the verb that args name and returns the exit
// code. It is the only place that decides one; which of 0, 1 and 3 an audit
// ends with is the audit's answer.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr}
	root := a.root()
	root.SetArgs(args)
	done := make(chan error, 1)
	go func() { done <- root.ExecuteContext(ctx) }()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		select {
		case err = <-done:
		case <-time.After(max(grace, time.Duration(a.grace.Load()))):
			err = ctx.Err()
		}
	}

	var usage *usageError
	switch {
	case err == nil:
		return a.exit
	case errors.Is(err, syscall.EPIPE):
		// The reader has gone: nothing to say, and nobody to say it to.
		return audit.ExitNotFinished
	case errors.As(err, &usage) || !a.started.Load():
		a.warn("%v", err)
		hint := "run '" + a.name + " --help' for usage"
		if usage != nil && usage.hint != "" {
			hint = usage.hint
		}
		a.warn("hint: %s", hint)
		return audit.ExitUsage
	case ctx.Err() != nil:
		a.warn("interrupted before the work was done")
		if kept := a.kept.Load(); kept != nil {
			a.warn("hint: %s", *kept)
		} else {
			a.warn("hint: nothing was decided; run it again")
		}
		return audit.ExitNotFinished
	default:
		a.warn("%v", err)
		var hinted *hintedError
		if errors.As(err, &hinted) {
			a.warn("hint: %s", hinted.hint)
		}
		return audit.ExitNotFinished
	}
}

// interruptible returns a context that ends at SIGINT or SIGTERM; a second one
// ends the process. A closed pipe is left to the write that meets it.
func interruptible() context.Context {
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx
}

// app is what the verbs share.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	name           string                 // the command as typed, for hints
	started        atomic.Bool            // flags and arguments were understood
	exit           int                    // what a verb answered
	grace          atomic.Int64           // how long the verb may take to end, ns; at least grace
	kept           atomic.Pointer[string] // what a verb leaves behind that is interrupted
}

// usageError says that the command line cannot be understood or followed.
type usageError struct{ text, hint string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error {
	return &usageError{text: fmt.Sprintf(format, args...)}
}

// hintedError adds what to do next to an error.
type hintedError struct {
	err  error
	hint string
}

func (e *hintedError) Error() string { return e.err.Error() }
func (e *hintedError) Unwrap() error { return e.err }

// print writes to standard output.
func (a *app) print(out []byte) error {
	if len(out) == 0 {
		return nil
	}
	_, err := a.stdout.Write(out)
	return err
}

// warn writes one line to standard error, in printable ASCII: paths and
// arguments may be a stranger's.
func (a *app) warn(format string, args ...any) {
	fmt.Fprintln(a.stderr, "tclk-audit: "+report.Printable(fmt.Sprintf(format, args...)))
}

const about = `Audits tclk/1 contracts from exports of a message board: checks every signature,
folds every contract, and says what the transcript proves, what it does not,
and why.

A frame is never money. "claimed" means that the signed transcript establishes
a claim; only the settlement rail can say what was paid.`

const exitCodes = `Exit codes:
  0  nothing wrong
  1  something is wrong: a malformed row, a signature that stays invalid in a
     room that was certain, a contract whose rows contradict each other, or an
     evidence finding at or above --fail-on
  2  usage
  3  cannot tell: a torn line, or the contract asked for is not established
  4  the work could not be done: input or output failed, a limit was met, or
     it was interrupted
What parties did to each other never changes the code.`

// root builds the command tree. Help, completion and man pages come from it.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "tclk-audit",
		Short:         "Say what a transcript of tclk/1 contracts proves",
		Long:          about + "\n\n" + exitCodes,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			err := &usageError{text: fmt.Sprintf("unknown command %q", args[0])}
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				err.hint = "did you mean " + strings.Join(near, " or ") + "?"
			}
			return err
		},
		RunE: func(*cobra.Command, []string) error { return usagef("no command given") },
		PersistentPreRun: func(*cobra.Command, []string) {
			a.started.Store(true)
		},
		SuggestionsMinimumDistance: 2,
	}
	a.name = root.Name()
	root.Version = thisBuild().String()
	root.SetVersionTemplate("{{.Version}}")
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		a.name = cmd.CommandPath()
		return usagef("%v", err)
	})
	root.SetHelpCommand(&cobra.Command{
		Use:   "help [command]",
		Short: "Help about a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			of, _, err := root.Find(args)
			if err != nil || of == root && len(args) > 0 {
				return usagef("no help for %q: no such command", strings.Join(args, " "))
			}
			of.InitDefaultHelpFlag()
			return of.Help()
		},
	})
	for _, cmd := range []*cobra.Command{
		a.verifyCommand(), a.explainCommand(), a.decodeCommand(), a.genCommand(),
		a.ingestCommand(), a.watchCommand(), a.contractsCommand(), a.offersCommand(), a.partiesCommand(), a.showCommand(), a.roomsCommand(), a.recordsCommand(),
		a.findingsCommand(), a.eventsCommand(), a.statusCommand(), a.serveCommand(), a.rebuildCommand(), a.backupCommand(), a.compactCommand(), a.pruneCommand(),
		a.versionCommand(), a.docsCommand(root),
	} {
		check := cmd.Args
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			a.name = cmd.CommandPath()
			if check == nil {
				return nil
			}
			return check(cmd, args)
		}
		root.AddCommand(cmd)
	}
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			cmd.Args = cobra.ArbitraryArgs
			cmd.RunE = func(*cobra.Command, []string) error {
				return &usageError{text: "completion needs a shell", hint: "bash, zsh, fish or powershell"}
			}
		}
	}
	return root
}
