package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tclk-audit/tclk-audit/internal/api"
	"github.com/tclk-audit/tclk-audit/internal/control"
	"github.com/tclk-audit/tclk-audit/store"
)

// ask is a command of this program: it opens a store and times its answers.
const ask = "ask"

// runAsk asks the handlers of a store, as show and contracts do, in this process
// and with the store open, and prints the median times.
func runAsk(args []string, out io.Writer) (err error) {
	fs := flag.NewFlagSet(ask, flag.ContinueOnError)
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() != 1 {
		return errors.New("needs one store")
	}
	s, err := store.Open(fs.Arg(0), store.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	targets, err := lockedContracts(s)
	if err != nil {
		return err
	}
	h := api.New(s, api.Options{})
	show, err := askEach(h, targets)
	if err != nil {
		return err
	}
	list, err := askEach(h, slices.Repeat([]string{"/v1/contracts?status=locked"}, 21))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "show %.3f ms, list %.3f ms\n", 1e3*median(show), 1e3*median(list))
	return err
}

// lockedContracts gives the questions for some contracts, from all over the
// store, and fails where none of its contracts is locked.
func lockedContracts(s *store.Store) ([]string, error) {
	r, err := s.Reader()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	all, err := r.Contracts(store.Filter{})
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(all, func(i store.Item) bool { return i.Status.String() == "locked" }) {
		return nil, errors.New("no contract of the store is locked")
	}
	var targets []string
	for i := 0; i < len(all); i += max(1, len(all)/200) {
		targets = append(targets, "/v1/contracts/"+all[i].Contract.String())
	}
	return targets, nil
}

// askEach returns the seconds that each answer took.
func askEach(h http.Handler, targets []string) (took []float64, err error) {
	for _, to := range targets {
		begun := time.Now()
		a, err := control.Ask(context.Background(), h, http.MethodGet, to, io.Discard)
		took = append(took, time.Since(begun).Seconds())
		if err == nil && (a.Status != http.StatusOK || a.Failed != "") {
			err = fmt.Errorf("%s: status %d: %s%s", to, a.Status, a.Said, a.Failed)
		}
		if err != nil {
			return nil, err
		}
	}
	return took, nil
}

// checkIngest returns the check of what ingest --json says: so many rows read,
// or so many files that the store had.
func checkIngest(rows, known int64) func(string) error {
	return func(stdout string) error {
		var got struct {
			Rows   *struct{ Read int64 }
			Inputs struct{ Known int64 }
		}
		if err := json.Unmarshal([]byte(stdout), &got); err != nil || got.Rows == nil || got.Rows.Read != rows || got.Inputs.Known != known {
			return fmt.Errorf("answered %q, where %d rows and %d known files are right", printable(stdout, 400), rows, known)
		}
		return nil
	}
}

// store measures what it costs to keep a board: reading it in, for the first
// time and again, its size, the answers, and opening it after a kill.
func (b *bench) store(ctx context.Context) error {
	b.title("the store, on all cores: ingest against verify --jsonl > /dev/null")
	type entry struct {
		what, memory string
		pairs        int
		*corpus
	}
	var boards []entry
	for _, keys := range boardKeys {
		c, err := b.boardOf(ctx, b.rows, keys)
		if err != nil {
			return err
		}
		if err := b.verified(ctx, c); err != nil {
			return err
		}
		boards = append(boards, entry{fmt.Sprintf("%d keys", keys), "400", b.pairs, c})
	}
	// With its deal rooms a board has some 1.7 times the rows; only there are
	// contracts locked.
	rooms, err := b.corpus(ctx, fmt.Sprintf("rooms-300keys-%drows", b.rows*6/10),
		"--rows", fmt.Sprint(b.rows*6/10), "--keys", "300", "--noise", "none", "--layout", "one-file")
	if err != nil {
		return err
	}
	day, err := b.day(ctx)
	if err != nil {
		return err
	}
	boards = append(boards, entry{"with deal rooms", "400", b.pairs, rooms}, entry{"a day's board", "", 1, day})

	data := filepath.Join(b.work, "store")
	status := contender{argv: []string{b.program, "status", "--data", data}}
	speed := [][]string{{"board", "rows", "speed of verify's", "target", "by CPU time", "target", "times faster again", "target", "rebuild / ingest", "verify s", "ingest s", "rows/s", "RSS MB", "target", "others"}}
	room := [][]string{{"board", "raw MB", "reopened / raw", "with the write-log", "target", "closed, with the write-log"}}
	asked := [][]string{{"board", "rows", "contracts", "show ms", "target", "locked ms", "target"}}
	kills := [][]string{{"board", "kills", "status s", "slowest", "target"}}
	for _, e := range boards {
		files, err := filepath.Glob(filepath.Join(e.dir, "*.jsonl"))
		if err != nil {
			return err
		}
		raw, closed, tables, whole := 0.0, 0.0, 0.0, 0.0
		for _, f := range files {
			raw += stored(f)
		}
		ingest := append([]string{b.program, "ingest", "--json", "--data", data}, files...)
		fresh := func() error { return os.RemoveAll(data) }
		got, err := rounds(ctx, e.pairs,
			contender{name: "verify", argv: append([]string{b.program, "verify", "--jsonl"}, files...), accept: judged},
			contender{name: "ingest", argv: ingest, before: fresh, accept: judged, check: checkIngest(e.all, 0)},
			contender{name: "again", argv: ingest, before: func() error {
				closed = stored(data)
				return nil
			}, check: checkIngest(0, int64(len(files)))},
			contender{name: "rebuild", argv: []string{b.program, "rebuild", "--data", data}, before: func() error {
				whole = stored(data)
				tables = whole - writeLog(data)
				return nil
			}},
		)
		if err != nil {
			return err
		}
		v, it := got["verify"], got["ingest"]
		speed = append(speed, []string{
			e.what, fmt.Sprint(e.all), ratioOf(v.each(wall), it.each(wall)).String(), "0.50", ratioOf(v.each(cpu), it.each(cpu)).String(), "0.50",
			ratioOf(it.each(wall), got["again"].each(wall)).String(), "3", ratioOf(got["rebuild"].each(wall), it.each(wall)).String(),
			seconds(v.wall()), seconds(it.wall()), fmt.Sprintf("%.0f", float64(e.all)/it.wall().Seconds()), megabytes(it.rss()), e.memory, it.others(),
		})
		room = append(room, []string{
			e.what, megabytes(raw), fmt.Sprintf("%.2f", tables/raw), fmt.Sprintf("%.2f", whole/raw), "1.20", fmt.Sprintf("%.2f", closed/raw),
		})
		switch e.corpus {
		case rooms:
			var shows, lists []float64
			if _, err := rounds(ctx, b.pairs, contender{name: ask, argv: []string{b.self, ask, data}, check: func(stdout string) error {
				var show, list float64
				_, err := fmt.Sscanf(stdout, "show %f ms, list %f ms", &show, &list)
				shows, lists = append(shows, show), append(lists, list)
				return err
			}}); err != nil {
				return err
			}
			asked = append(asked, []string{
				e.what, fmt.Sprint(e.all), fmt.Sprint(e.deals), fmt.Sprintf("%.2f", median(shows)), "5", fmt.Sprintf("%.2f", median(lists)), "50",
			})
		case day:
			var took []float64
			for i := range b.pairs {
				if err := fresh(); err != nil {
					return err
				}
				killed, err := killAfter(ctx, it.wall()*time.Duration(i+1)/time.Duration(b.pairs+1), data, ingest)
				if err != nil {
					return err
				}
				if !killed {
					continue // it was faster this time
				}
				s, err := status.run(ctx)
				if err != nil {
					return err
				}
				took = append(took, wall(s))
			}
			mid, slowest := "-", "-"
			if len(took) > 0 {
				mid, slowest = fmt.Sprintf("%.2f", median(took)), fmt.Sprintf("%.2f", slices.Max(took))
			}
			kills = append(kills, []string{e.what, fmt.Sprint(len(took)), mid, slowest, "2"})
		}
		if err := fresh(); err != nil {
			return err
		}
	}
	b.table(speed)
	b.table(room)
	b.table(asked)
	b.table(kills)
	return nil
}

// writeLog is how many bytes of a store are its write-log.
func writeLog(data string) (size float64) {
	logs, _ := filepath.Glob(filepath.Join(data, "db", "*.log")) // the pattern is right
	for _, f := range logs {
		size += stored(f)
	}
	return size
}

var errKilled = errors.New("was to be killed")

// killAfter starts an ingest, waits until it has its store open and for the time
// given, and kills it. It reports whether that came before the end.
func killAfter(ctx context.Context, wait time.Duration, data string, argv []string) (bool, error) {
	doomed, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		for open := false; !open; time.Sleep(time.Millisecond) {
			_, err := os.Stat(filepath.Join(data, "control.sock"))
			if open = err == nil; !open && doomed.Err() != nil {
				return
			}
		}
		select {
		case <-doomed.Done():
		case <-time.After(wait):
			cancel(errKilled)
		}
	}()
	s, errs, err := measure(doomed, argv, io.Discard)
	if errors.Is(err, errKilled) {
		return s.exit == -1, nil
	}
	if err == nil && s.exit != 0 && !slices.Contains(judged, s.exit) {
		err = fmt.Errorf("ingest ended with exit code %d: %s", s.exit, printable(errs, 500))
	}
	return false, err
}
