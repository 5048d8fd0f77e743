package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tclk-audit/tclk-audit/protocol"
)

// The two boards: few keys, of which batches make much, and so many that a key
// seldom comes twice in a batch.
var boardKeys = []int{300, 80_000}

// Exit codes of verify that say that the audit was done: something is wrong with
// the rows, or a line is torn.
var judged = []int{1, 3}

func (b *bench) title(format string, args ...any) { b.say("\n== "+format, args...) }

// table prints rows of cells, the first of them a heading.
func (b *bench) table(rows [][]string) {
	w := tabwriter.NewWriter(b.out, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		fmt.Fprintln(w, strings.Join(r, "\t"))
	}
	w.Flush()
}

// verify is the program at its main job. Zero cores are all.
func (b *bench) verify(path string, cores int) []string {
	return []string{b.program, "verify", "--jsonl", "--cores", strconv.Itoa(cores), path}
}

// coreCounts are the numbers of cores that ratios are taken on.
func (b *bench) coreCounts() []int {
	if runtime.NumCPU() < 2 {
		b.say("this machine has one core: nothing is measured on two")
		return []int{1}
	}
	return []int{1, 2}
}

// opponent is what verify is compared with: the floor program or, where its
// source is not there, the stand-in. mark is what stands in the table.
func (b *bench) opponent(ctx context.Context) (argv func(path string, cores int) []string, name, target string, err error) {
	standing := func(path string, cores int) []string {
		return []string{b.self, standIn, "-cores", strconv.Itoa(cores), path}
	}
	if _, err := os.Stat(filepath.Join(b.floor, "go.mod")); err != nil {
		b.say("the floor program's source is not at %s: a stand-in takes its place, one encoding/json", b.floor)
		b.say("and one crypto/ed25519 call a row. It is far slower than the floor; the target does not apply to it.")
		return standing, "stand-in", "none", nil
	}
	program := filepath.Join(b.work, "floor")
	if err := build(ctx, b.floor, ".", program); err != nil {
		return nil, "", "", err
	}
	return func(path string, cores int) []string {
		return []string{program, "-room", protocol.BoardRoom, "-cores", strconv.Itoa(cores), path}
	}, "floor", "0.70", nil
}

// floorAndCores compares verify with the floor program on one and two cores,
// and its two cores with its one. The runs of one round stand next to each
// other, so the same runs serve both ratios.
func (b *bench) floorAndCores(ctx context.Context) error {
	b.title("verify --jsonl > /dev/null against the floor program, and two cores against one")
	versus, name, target := (func(string, int) []string)(nil), "", ""
	if b.wants("floor") {
		var err error
		if versus, name, target, err = b.opponent(ctx); err != nil {
			return err
		}
	}
	against := [][]string{{"board", "cores", "speed of " + name + "'s", "target", "by CPU time", name + " s", "verify s", "rows/s", "RSS MB", "others"}}
	scaling := [][]string{{"board", "two cores over one", "target", "CPU, two over one"}}
	for _, keys := range boardKeys {
		c, err := b.boardOf(ctx, b.rows, keys)
		if err != nil {
			return err
		}
		if err := b.verified(ctx, c); err != nil {
			return err
		}
		var in []contender
		cores := b.coreCounts()
		for _, n := range cores {
			if versus != nil {
				in = append(in, contender{name: fmt.Sprint(name, n), argv: versus(c.board(), n), check: checkRows(c.rows, c.rows)})
			}
			in = append(in, contender{name: fmt.Sprint("verify", n), argv: b.verify(c.board(), n)})
		}
		got, err := rounds(ctx, b.pairs, in...)
		if err != nil {
			return err
		}
		board := fmt.Sprintf("%d keys", keys)
		for _, n := range cores {
			if versus == nil {
				break
			}
			it, other := got[fmt.Sprint("verify", n)], got[fmt.Sprint(name, n)]
			against = append(against, []string{
				board, fmt.Sprint(n), ratioOf(other.each(wall), it.each(wall)).String(), target,
				ratioOf(other.each(cpu), it.each(cpu)).String(), seconds(other.wall()), seconds(it.wall()),
				fmt.Sprintf("%.0f", float64(c.rows)/it.wall().Seconds()), megabytes(it.rss()), it.others(),
			})
		}
		if len(cores) == 2 {
			one, two := got["verify1"], got["verify2"]
			scaling = append(scaling, []string{
				board, ratioOf(one.each(wall), two.each(wall)).String(), "1.70", ratioOf(two.each(cpu), one.each(cpu)).String(),
			})
		}
	}
	if len(against) > 1 {
		b.table(against)
	}
	if len(scaling) > 1 {
		b.table(scaling)
	}
	return nil
}

// flat compares the time a row of boards of three sizes.
func (b *bench) flat(ctx context.Context) error {
	b.title("time a row, from %d to %d rows (start-up taken off, as an empty file takes it)", b.rows/100, b.rows)
	empty, err := b.create("empty", ".jsonl", func(io.Writer) error { return nil })
	if err != nil {
		return err
	}
	sizes := []int64{b.rows / 100, b.rows / 10, b.rows}
	repeats := []int{10, 3, 1} // short runs are shaken more by what else happens
	out := [][]string{{"board", "cores", "rows", "us a row", "CPU us a row", "time a row / largest", "by CPU time", "target", "RSS MB", "contracts", "others"}}
	for _, keys := range boardKeys {
		boards := make([]*corpus, len(sizes))
		for i, rows := range sizes {
			if boards[i], err = b.boardOf(ctx, rows, keys); err != nil {
				return err
			}
			if err := b.verified(ctx, boards[i]); err != nil {
				return err
			}
		}
		for _, n := range b.coreCounts() {
			in := []contender{{name: "empty", argv: b.verify(empty, n), repeat: 10}}
			for i, c := range boards {
				in = append(in, contender{name: c.name, argv: b.verify(c.board(), n), repeat: repeats[i]})
			}
			got, err := rounds(ctx, b.pairs, in...)
			if err != nil {
				return err
			}
			none, largest := got["empty"], boards[len(boards)-1]
			most := got[largest.name]
			for _, c := range boards {
				s := got[c.name]
				walls, cpus := perRow(s, none, c.rows, wall), perRow(s, none, c.rows, cpu)
				target, w, p := "0.87 to 1.15", ratioOf(walls, perRow(most, none, largest.rows, wall)).String(), ratioOf(cpus, perRow(most, none, largest.rows, cpu)).String()
				if c == largest {
					target, w, p = "", "1", "1"
				}
				out = append(out, []string{
					fmt.Sprintf("%d keys", keys), fmt.Sprint(n), fmt.Sprint(c.rows),
					fmt.Sprintf("%.2f", 1e6*median(walls)), fmt.Sprintf("%.2f", 1e6*median(cpus)), w, p, target,
					megabytes(s.rss()), fmt.Sprint(c.deals), s.others(),
				})
			}
		}
	}
	b.table(out)
	return nil
}

// bad compares a board on which no signature holds with checking its rows one
// by one.
func (b *bench) bad(ctx context.Context) error {
	b.title("a board of bad signatures alone, against checking each singly, on one core")
	out := [][]string{{"rows", "CPU of verify / singly", "target", "by wall time", "singly CPU s", "verify CPU s", "RSS MB", "exit", "others"}}
	for i, rows := range []int64{b.rows / 50, b.rows / 5} {
		c, err := b.corpus(ctx, fmt.Sprintf("bad-300keys-%drows", rows),
			"--rows", fmt.Sprint(rows), "--keys", "300", "--noise", "none", "--board-only", "--bad-signatures")
		if err != nil {
			return err
		}
		c.signed = 0
		if err := b.verified(ctx, c); err != nil {
			return err
		}
		got, err := rounds(ctx, b.pairs,
			contender{name: singly, argv: []string{b.self, singly, c.board()}, check: checkRows(c.rows, 0), repeat: 3 - 2*i},
			contender{name: "verify", argv: b.verify(c.board(), 1), accept: judged, repeat: 3 - 2*i},
		)
		if err != nil {
			return err
		}
		one, it := got[singly], got["verify"]
		out = append(out, []string{
			fmt.Sprint(c.rows), ratioOf(it.each(cpu), one.each(cpu)).String(), "1.50", ratioOf(it.each(wall), one.each(wall)).String(),
			seconds(one.cpu()), seconds(it.cpu()), megabytes(it.rss()), fmt.Sprint(it[0].exit), it.others(),
		})
	}
	b.table(out)
	return nil
}

// memory measures peaks: of boards, of a board with as many rows of noise on
// top, and of a day's board.
func (b *bench) memory(ctx context.Context) error {
	b.title("peak memory of verify --jsonl > /dev/null, on all cores")
	type entry struct {
		what   string
		target string
		*corpus
	}
	var boards []entry
	for _, rows := range []int64{b.rows / 4, b.rows / 2, b.rows} {
		c, err := b.boardOf(ctx, rows, 300)
		if err != nil {
			return err
		}
		boards = append(boards, entry{"board", "", c})
	}
	plain := boards[2]
	boards[2].target = "400"
	many, err := b.boardOf(ctx, b.rows, 80_000)
	if err != nil {
		return err
	}
	boards = append(boards, entry{"board, 80000 keys", "400", many})
	// The kind chat adds its rows to each offer's story; with so many of them
	// there are about as many as the board has rows.
	rate := float64(plain.rows) / float64(plain.offers)
	noisy, err := b.corpus(ctx, fmt.Sprintf("chat-300keys-%drows", b.rows),
		"--contracts", fmt.Sprint(plain.deals), "--keys", "300", "--noise", fmt.Sprintf("chat=%.3f", rate), "--board-only")
	if err != nil {
		return err
	}
	boards = append(boards, entry{"the same contracts with chat", "the board's", noisy})
	day, err := b.day(ctx)
	if err != nil {
		return err
	}
	boards = append(boards, entry{"a day's board, 80000 keys, live noise", "one sitting", day})

	var in []contender
	for _, e := range boards {
		in = append(in, contender{name: e.name, argv: b.verify(e.board(), 0), accept: judged})
	}
	got, err := rounds(ctx, min(3, b.pairs), in...)
	if err != nil {
		return err
	}
	out := [][]string{{"what", "rows", "contracts", "file MB", "RSS MB", "target", "seconds", "rows/s", "exit", "others"}}
	for _, e := range boards {
		s := got[e.name]
		size := 0.0
		if info, err := os.Stat(e.board()); err == nil {
			size = float64(info.Size())
		}
		out = append(out, []string{
			e.what, fmt.Sprint(e.rows), fmt.Sprint(e.deals), megabytes(size), megabytes(s.rss()), e.target,
			seconds(s.wall()), fmt.Sprintf("%.0f", float64(e.rows)/s.wall().Seconds()), fmt.Sprint(s[0].exit), s.others(),
		})
	}
	b.table(out)
	half := boards[1]
	grown := got[plain.name].rss() - got[half.name].rss()
	extra := got[noisy.name].rss() - got[plain.name].rss()
	b.say("%.0f bytes more a contract from %d to %d contracts; %.0f bytes more a row of noise over %d rows of it",
		grown/float64(max(1, plain.deals-half.deals)), half.deals, plain.deals,
		extra/float64(max(1, noisy.rows-plain.rows)), noisy.rows-plain.rows)
	return nil
}

// What ends a program that a hostile input has caught.
const (
	hostileTime   = 15 * time.Minute
	hostileMemory = 4 << 30
)

// hostile measures what inputs cost that were made to do harm, in the view for
// people.
func (b *bench) hostile(ctx context.Context) error {
	b.title("hostile inputs, verify FILE: a bounded time and memory, and an answer")
	type entry struct{ what, path string }
	var inputs []entry
	for _, f := range []struct {
		what, name, suffix string
		fill               func(io.Writer) error
	}{
		{"a line of 1 GB", "long-line", ".jsonl", longLine(1e9)},
		{"gzip in gzip, 10 deep, 1 GB within", "bomb-10", ".jsonl.gz", bomb(10, oneRow(1e9))},
		{"gzip once, 1 GB of one row within", "bomb-1", ".jsonl.gz", bomb(1, oneRow(1e9))},
		{"gzip once, 1 GB of long rows within", "bomb-rows", ".jsonl.gz", bomb(1, longRows(1e9))},
		{"100,000 arrays in arrays", "deep", ".jsonl", deep(100_000, false)},
		{"100,000 arrays in arrays, within a row", "deep-row", ".jsonl", deep(100_000, true)},
	} {
		path, err := b.create(f.name, f.suffix, f.fill)
		if err != nil {
			return err
		}
		inputs = append(inputs, entry{f.what, path})
	}
	accepts, err := b.corpus(ctx, fmt.Sprintf("flood-%daccepts", b.rows),
		"--contracts", "1", "--noise", "none", "--board-only", "--flood-accepts", fmt.Sprint(b.rows))
	if err != nil {
		return err
	}
	inputs = append(inputs, entry{fmt.Sprintf("%d accepts to one offer", b.rows), accepts.board()})
	rows, err := b.corpus(ctx, fmt.Sprintf("flood-%drows", b.rows),
		"--contracts", "1", "--noise", "none", "--layout", "per-room", "--flood-rows", fmt.Sprint(b.rows))
	if err != nil {
		return err
	}
	inputs = append(inputs, entry{fmt.Sprintf("%d rows in one deal room", b.rows), rows.dir})

	out := [][]string{{"input", "stored MB", "seconds", "CPU s", "RSS MB", "exit"}}
	var answers []string
	for _, e := range inputs {
		limited, cancel := context.WithTimeout(ctx, hostileTime)
		stdout := &head{limit: 4096}
		s, errs, err := measureUpTo(limited, hostileMemory, []string{b.program, "verify", e.path}, stdout)
		cancel()
		exit := fmt.Sprint(s.exit)
		switch {
		case errors.Is(err, errMemory):
			exit, err = fmt.Sprintf("ENDED at %d GB", hostileMemory>>30), nil
		case errors.Is(err, context.DeadlineExceeded):
			exit, err = fmt.Sprintf("ENDED after %s", hostileTime), nil
		}
		if err != nil {
			return err
		}
		out = append(out, []string{e.what, megabytes(stored(e.path)), seconds(s.wall), seconds(s.cpu), megabytes(float64(s.rss)), exit})
		answers = append(answers, answer(e.what, stdout.String(), errs))
	}
	b.table(out)
	for _, a := range answers {
		b.say("%s", a)
	}
	return nil
}

// answer is the beginning of what the program printed: two lines of standard
// output (the rules, the rows) and one of standard error.
func answer(what, stdout, stderr string) string {
	const width = 160
	text := what + ":"
	for i, line := range strings.SplitN(strings.TrimSpace(stdout), "\n", 3) {
		if i < 2 && line != "" {
			text += "\n    " + printable(line, width)
		}
	}
	if line, _, _ := strings.Cut(strings.TrimSpace(stderr), "\n"); line != "" {
		text += "\n    " + printable(line, width)
	}
	return text
}

// stored is the size of a file, or of all files of a folder.
func stored(path string) float64 {
	total := int64(0)
	// What cannot be read is not counted: the figure only orients.
	_ = filepath.WalkDir(path, func(_ string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		if info, err := d.Info(); err == nil {
			total += info.Size()
		}
		return nil
	})
	return float64(total)
}
