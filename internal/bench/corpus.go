package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/tclk-audit/tclk-audit/protocol"
)

// A corpus is a generated board, with deal rooms or without.
type corpus struct {
	name   string
	dir    string
	rows   int64 // on the board
	all    int64 // with those of deal rooms
	offers int64
	deals  int64 // contracts
	signed int64 // rows whose signatures hold
}

func (c *corpus) board() string { return filepath.Join(c.dir, protocol.BoardRoom+".jsonl") }

// corpus has the program generate a board, or takes the one that an earlier run
// kept. name must say all that args say.
func (b *bench) corpus(ctx context.Context, name string, args ...string) (*corpus, error) {
	c := &corpus{name: name, dir: filepath.Join(b.corpora, name)}
	err := c.readManifest()
	if err == nil || !errors.Is(err, os.ErrNotExist) {
		return c, err
	}
	part := c.dir + ".partial"
	if err := os.RemoveAll(part); err != nil {
		return nil, err
	}
	b.say("generating %s ...", name)
	argv := append([]string{b.program, "gen", "--seed", "1", "--out", part}, args...)
	s, errs, err := measure(ctx, argv, nil)
	if err != nil {
		return nil, err
	}
	if s.exit != 0 {
		return nil, fmt.Errorf("%s ended with exit code %d: %s", strings.Join(argv, " "), s.exit, printable(errs, 500))
	}
	// The folder takes its name when it is whole, so that a kept one is.
	if err := os.Rename(part, c.dir); err != nil {
		return nil, err
	}
	return c, c.readManifest()
}

func (c *corpus) readManifest() error {
	b, err := os.ReadFile(filepath.Join(c.dir, "manifest.json"))
	if err != nil {
		return err
	}
	var m struct {
		Stats struct{ Rows, BoardRows, Offers, Contracts int64 }
		Rows  struct{ Authentic int64 }
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return fmt.Errorf("the manifest in %s: %w; remove the folder", c.dir, err)
	}
	c.rows, c.all, c.offers, c.deals, c.signed = m.Stats.BoardRows, m.Stats.Rows, m.Stats.Offers, m.Stats.Contracts, m.Rows.Authentic
	return nil
}

// boardOf is a board of frames alone, all of them with good signatures.
func (b *bench) boardOf(ctx context.Context, rows int64, keys int) (*corpus, error) {
	return b.corpus(ctx, fmt.Sprintf("board-%dkeys-%drows", keys, rows),
		"--rows", fmt.Sprint(rows), "--keys", fmt.Sprint(keys), "--noise", "none", "--board-only")
}

// day is a day's board as a live venue has it.
func (b *bench) day(ctx context.Context) (*corpus, error) {
	return b.corpus(ctx, fmt.Sprintf("day-80000keys-%drows", b.rows*13/10),
		"--rows", fmt.Sprint(b.rows*13/10), "--keys", "80000", "--noise", "live", "--board-only")
}

// verified audits a corpus once before anything is measured on it: the program
// must have read every row and found every signature as it was made. It also
// brings the file into the system's cache.
func (b *bench) verified(ctx context.Context, c *corpus) error {
	if b.checked[c.name] {
		return nil
	}
	argv := []string{b.program, "verify", "--jsonl", c.board()}
	var last lastLine
	s, errs, err := measure(ctx, argv, &last)
	if err != nil {
		return err
	}
	if s.exit != 0 && s.exit != 1 {
		return fmt.Errorf("%s ended with exit code %d: %s", strings.Join(argv, " "), s.exit, printable(errs, 500))
	}
	if err := checkSummary(last.line(), c); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(argv, " "), err)
	}
	b.checked[c.name] = true
	return nil
}

// checkSummary compares the last line of verify --jsonl with what was generated.
func checkSummary(line []byte, c *corpus) error {
	var sum struct {
		Rows          *struct{ Total, Authentic, Repaired int64 }
		ContractCount int64
	}
	if err := json.Unmarshal(line, &sum); err != nil || sum.Rows == nil {
		return fmt.Errorf("the last line is no summary: %s", printable(string(line), 200))
	}
	if sum.Rows.Total != c.rows || sum.Rows.Authentic != c.signed {
		return fmt.Errorf("found %d rows, %d of them authentic, where %d and %d were generated; measured would be something else",
			sum.Rows.Total, sum.Rows.Authentic, c.rows, c.signed)
	}
	return nil
}

// lastLine keeps the last line of what is written to it.
type lastLine struct {
	text  []byte
	ended bool
}

func (l *lastLine) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		if l.ended {
			l.text, l.ended = l.text[:0], false
		}
		line, after, found := bytes.Cut(rest, []byte{'\n'})
		l.text, l.ended = append(l.text, line...), found
		rest = after
	}
	return len(p), nil
}

func (l *lastLine) line() []byte { return l.text }

// checkRows returns the check of a baseline's answer, which begins with how many
// rows it read and how many signatures it found good.
func checkRows(rows, signed int64) func(string) error {
	return func(stdout string) error {
		var r, s int64
		if _, err := fmt.Sscanf(stdout, "%d rows, %d signed", &r, &s); err != nil || r != rows || s != signed {
			return fmt.Errorf("answered %q, where %d rows and %d good signatures were generated", printable(stdout, 100), rows, signed)
		}
		return nil
	}
}

// A hostile file is made of a few bytes repeated.
const (
	rowStart = `{"seq":1,"ts":"2026-09-05T09:20:00Z","from":"nick","text":`
	goodRow  = `{"seq":2,"ts":"2026-09-05T09:20:01Z","from":"nick","text":"still here"}` + "\n"
)

// create writes a file into a folder of its own, named like the board.
func (b *bench) create(name, suffix string, fill func(io.Writer) error) (string, error) {
	dir := filepath.Join(b.work, name)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return "", err
	}
	path := filepath.Join(dir, protocol.BoardRoom+suffix)
	f, err := os.Create(path)
	if err != nil {
		return "", err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	return path, errors.Join(fill(w), w.Flush(), f.Close())
}

// repeat writes text n times.
func repeat(w io.Writer, text string, n int64) error {
	many := max(1, (64<<10)/int64(len(text)))
	block := strings.Repeat(text, int(many))
	for ; n >= many; n -= many {
		if _, err := io.WriteString(w, block); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, strings.Repeat(text, int(n)))
	return err
}

// longLine writes one row of size bytes, and a good one after it.
func longLine(size int64) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, rowStart+`"`)
		err = errors.Join(err, repeat(w, "a", size))
		_, last := io.WriteString(w, "\"}\n"+goodRow)
		return errors.Join(err, last)
	}
}

// deep writes arrays in arrays, around nothing or within a row.
func deep(depth int64, within bool) func(io.Writer) error {
	return func(w io.Writer) error {
		before, after := "", "\n"
		if within {
			before, after = rowStart+`"x","more":`, "}\n"+goodRow
		}
		_, err := io.WriteString(w, before)
		err = errors.Join(err, repeat(w, "[", depth), repeat(w, "]", depth))
		_, last := io.WriteString(w, after)
		return errors.Join(err, last)
	}
}

// oneRow writes the same row again and again, size bytes in all.
func oneRow(size int64) func(io.Writer) error {
	return func(w io.Writer) error { return repeat(w, goodRow, size/int64(len(goodRow))) }
}

// longRows writes rows of nearly a megabyte, size bytes in all. Each repeats 64
// characters of its own, which packs them some hundred times smaller, but not
// so small that the size alone gives them away.
func longRows(size int64) func(io.Writer) error {
	return func(w io.Writer) error {
		const times = 14_000
		for i := range size / (64 * times) {
			unit := fmt.Sprintf("%x", sha256.Sum256(fmt.Append(nil, i)))
			_, err := fmt.Fprintf(w, `{"seq":%d,"ts":"2026-09-05T09:20:00Z","from":"nick","text":"`, i+1)
			err = errors.Join(err, repeat(w, unit, times))
			_, last := io.WriteString(w, "\"}\n")
			if err = errors.Join(err, last); err != nil {
				return err
			}
		}
		return nil
	}
}

// bomb compresses what fill writes, levels times over.
func bomb(levels int, fill func(io.Writer) error) func(io.Writer) error {
	return func(w io.Writer) error {
		var layers []*gzip.Writer
		for range levels {
			z := gzip.NewWriter(w)
			layers = append(layers, z)
			w = z
		}
		err := fill(w)
		for i := range layers {
			err = errors.Join(err, layers[len(layers)-1-i].Close())
		}
		return err
	}
}
