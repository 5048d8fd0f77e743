package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tclk-audit/tclk-audit/export"
	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/internal/audit"
	"github.com/tclk-audit/tclk-audit/internal/report"
	"github.com/tclk-audit/tclk-audit/protocol"
)

// ruleFlags say under which rules contracts are folded.
type ruleFlags struct {
	base     choice
	switches choices
}

func (f *ruleFlags) register(cmd *cobra.Command, usage string) {
	f.base = choice{value: "spec", allowed: []string{"spec", "reference"}}
	f.switches.allowed = []string{fold.SwitchOfferRoom, fold.SwitchFirstAccept, fold.SwitchRepairNonces}
	fs := cmd.Flags()
	fs.Var(&f.base, "rules", usage)
	fs.Var(&f.switches, "rule", "switch `rules` on top: offer-room, first-accept, repair-nonces; with commas or repeated")
}

func (f *ruleFlags) rules() (fold.Rules, error) {
	rules, err := fold.ParseRules(f.base.value, f.switches.values)
	if err != nil {
		return rules, usagef("%v", err)
	}
	return rules, nil
}

// inputFlags are the flags of every verb that reads exports.
type inputFlags struct {
	room      string
	cores     int
	line      size
	page      size
	unpacked  size
	maxRatio  int64
	maxInputs int
}

func (f *inputFlags) register(cmd *cobra.Command) {
	f.line, f.page, f.unpacked, f.maxRatio, f.maxInputs = 1<<20, 16<<20, 16<<30, 1000, 1_000_000
	fs := cmd.Flags()
	fs.StringVar(&f.room, "room", "", "the `room` of every row, whatever files and rows say")
	fs.Var(number[int]{&f.cores, 0, 1024}, "cores", "use `N` cores (default 0: all)")
	fs.Var(&f.line, "max-line", "the longest row, in `bytes`")
	fs.Var(&f.page, "max-page", "how far a page is read ahead for its room, in `bytes`")
	fs.Var(&f.unpacked, "max-decompressed", "the most that a compressed input may grow to, in `bytes`")
	fs.Var(number[int64]{&f.maxRatio, 1, 1 << 40}, "max-ratio", "the most that a compressed input may grow, `N` times its size")
	fs.Var(number[int]{&f.maxInputs, 1, 1 << 30}, "max-files", "the most files to open, `N`")
}

// apply checks the flags and sets what holds for the whole program.
func (f *inputFlags) apply() error {
	if f.room != "" && !protocol.ValidRoom(f.room) {
		return &usageError{
			text: fmt.Sprintf("--room %q is no room name", f.room),
			hint: "a room is 1 to 48 of a-z, 0-9, _ and -, and begins with a letter or digit",
		}
	}
	if f.cores > 0 {
		runtime.GOMAXPROCS(f.cores)
	}
	return nil
}

func (f *inputFlags) limits() export.Limits {
	return export.Limits{
		LineBytes: int(f.line), PageBytes: int(f.page), DecompressedBytes: int64(f.unpacked),
		Ratio: f.maxRatio, Files: f.maxInputs,
	}
}

// tooLong says that rows were over the limit.
func (a *app) tooLong(n int64, f *inputFlags) {
	if n > 0 {
		a.warn("%d rows are longer than %s and were not read", n, f.line.String())
		a.warn("hint: raise --max-line if the file is trusted")
	}
}

// auditFlags are the flags of every verb that audits exports.
type auditFlags struct {
	inputFlags
	ruleFlags
	now    instant
	failOn choice
	show   report.Show
}

func (f *auditFlags) register(cmd *cobra.Command) {
	f.inputFlags.register(cmd)
	f.ruleFlags.register(cmd, "audit under `spec` or reference")
	f.failOn = choice{value: "anomaly", allowed: []string{"anomaly", "notice", "never"}}
	fs := cmd.Flags()
	fs.Var(&f.now, "now", "the clock for outlooks as `time`, RFC 3339 or Unix ms (default: the venue's clock in the files)")
	fs.Var(&f.failOn, "fail-on", "exit 1 for an evidence finding from this `severity` on: anomaly, notice or never")
	registerShow(cmd, &f.show)
}

func registerShow(cmd *cobra.Command, show *report.Show) {
	cmd.Flags().BoolVar(&show.Secrets, "show-secrets", false, "show the secrets of reveals")
	cmd.Flags().BoolVar(&show.Text, "show-text", false, "show the stored lines of steps, escaped: strangers' words")
}

func (f *auditFlags) severity() fold.Severity {
	switch f.failOn.value {
	case "anomaly":
		return fold.Anomaly
	case "notice":
		return fold.Notice
	}
	return fold.SeverityNone
}

// audit reads and folds what the paths name.
func (a *app) audit(ctx context.Context, f *auditFlags, paths []string, exact bool) (*audit.Result, error) {
	if err := f.apply(); err != nil {
		return nil, err
	}
	rules, err := f.rules()
	if err != nil {
		return nil, err
	}
	bar, memory := a.newProgress("reading", true), newHeap()
	defer bar.close()
	r, err := audit.Run(ctx, paths, audit.Options{
		Rules: rules, Room: f.room, Cores: f.cores, KeepText: f.show.Text, Exact: exact, NowMs: f.now.ms,
		Stdin: a.stdin,
		Progress: func(done, total int64) {
			memory.pace()
			bar.set(done, total)
		},
		Limits: f.limits(),
	})
	if err != nil {
		return nil, hint(err)
	}
	return r, nil
}

// hint says what to do about an error of the environment where its own words
// do not.
func hint(err error) error {
	switch {
	case errors.Is(err, os.ErrNotExist):
		return &hintedError{err, "check the path; - is standard input"}
	case errors.Is(err, os.ErrPermission):
		return &hintedError{err, "make it readable for this user"}
	}
	return err
}

// remarks says on standard error what has no place in a JSON object: limits
// that were met, files that were skipped, rows that could not be used.
func (a *app) remarks(r *audit.Result, f *auditFlags, human bool) {
	a.tooLong(r.TooLong(), &f.inputFlags)
	if human {
		return // the view lists the others
	}
	a.skipped(r.Skipped)
	for i := range r.Malformed {
		if i == remarkLimit {
			a.warn("and %d more rows that could not be used", r.Rows.Malformed+r.Rows.Torn-remarkLimit)
			break
		}
		a.warn("%s", report.MalformedText(&r.Malformed[i]))
	}
	limits := r.Summary().Limits
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		a.warn("a limit was met: %s, %d beyond it only counted", name, limits[name])
	}
}

// remarkLimit is how many of a kind are told one by one on standard error.
const remarkLimit = 10

func (a *app) skipped(list []export.Skipped) {
	for i, s := range list {
		if i == remarkLimit {
			a.warn("and %d more skipped", len(list)-remarkLimit)
			break
		}
		a.warn("skipped %s: %s", s.Path, report.SkipText(s))
	}
}

// speed says how fast it went.
func (a *app) speed(rows int64, took time.Duration) {
	per := float64(rows) / max(took.Seconds(), 1e-6)
	a.warn("%d rows in %.2f s, %.0f rows/s", rows, took.Seconds(), per)
}

// contractPrefix reads a contract id or its beginning: at least 8 hex digits,
// with or without 0x. It returns the digits in lower case.
func contractPrefix(s string) (string, error) {
	digits := strings.ToLower(s)
	digits = strings.TrimPrefix(digits, "0x")
	for i := range len(digits) {
		if c := digits[i]; !('0' <= c && c <= '9' || 'a' <= c && c <= 'f') {
			return "", badContract(s)
		}
	}
	if len(digits) < 8 || len(digits) > 64 {
		return "", badContract(s)
	}
	return digits, nil
}

func badContract(s string) error {
	return &usageError{
		text: fmt.Sprintf("%q is no contract id", s),
		hint: "give 0x and 64 hex digits, or the first 8 or more of them",
	}
}

// foundLimit bounds how many contracts of one prefix are counted.
const foundLimit = 1000

// find returns the one contract that begins with the digits, nil for none.
func find(r *audit.Result, digits string) (*fold.Contract, error) {
	id, err := onlyOne(r.Find(digits, foundLimit), digits)
	if id == nil {
		return nil, err
	}
	return r.Contract(*id), nil
}

func onlyOne(ids []protocol.ID, digits string) (*protocol.ID, error) {
	switch len(ids) {
	case 0:
		return nil, nil
	case 1:
		return &ids[0], nil
	}
	n := fmt.Sprint(len(ids))
	if len(ids) == foundLimit {
		n += " or more"
	}
	return nil, &usageError{
		text: fmt.Sprintf("%s contracts begin with 0x%s", n, digits),
		hint: "give more digits, such as " + ids[0].String(),
	}
}

// missing says that a contract is not in sight.
func (a *app) missing(r *audit.Result, digits string) {
	a.warn("no contract 0x%s is in sight; contracts in the inputs: %d", digits, r.Summary().Contracts)
	a.warn("hint: 'tclk-audit verify --all' lists them; was the room with its accept (%s) given?", protocol.BoardRoom)
}

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(f.Fd()))
}

// color reports whether the human forms may use colour.
func (a *app) color() bool {
	return isTerminal(a.stdout) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
