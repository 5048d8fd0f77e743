// Package gen writes corpora: signed exports of a board and its deal rooms that
// never stood on a venue, for tests and benchmarks.
//
// A corpus is a crowd of stories told at the same time. Each story is about one
// offer: nobody takes it, or somebody does and the payer never locks, or the
// deal is claimed, refunded, cancelled, told in the wrong room. Over them lies
// noise, by kind and rate: chat, forgeries, torn lines, gaps, swapped rows,
// racing accepts and what else is found on an open board ([Kinds]). The keys are
// real and so are the signatures, except where a kind of noise breaks them.
//
// A corpus is a function of its [Options]: equal options give equal bytes, on
// any machine and any number of cores. It is planned row by row in the order of
// the venue's clock, signed by all cores, and written as it is planned, so
// memory depends on how many stories overlap and not on how many rows there are.
//
// Beside the rows stands manifest.json: what was intended. It names for each
// contract the status and the evidence that an auditor should find, reached from
// the plan and not by auditing, so that the two can be compared ([Manifest]).
package gen

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tclk-audit/tclk-audit/internal/testkit"
)

// Layout says how the deal rooms' rows are put into files.
type Layout uint8

// The layouts.
const (
	// LayoutAuto is PerRoom up to 10,000 contracts, OneFile beyond.
	LayoutAuto Layout = iota
	// PerRoom writes mb-p-tclk-….jsonl files, one a room, an empty one for a
	// contract whose room was never written to.
	PerRoom
	// OneFile writes deals.jsonl, whose rows carry their room.
	OneFile
)

// String returns "auto", "per-room" or "one-file".
func (l Layout) String() string { return [...]string{"auto", "per-room", "one-file", ""}[l&3] }

// ParseLayout reads what [Layout.String] writes.
func ParseLayout(s string) (Layout, error) {
	for l := LayoutAuto; l <= OneFile; l++ {
		if s == l.String() {
			return l, nil
		}
	}
	return 0, fmt.Errorf("gen: the layout must be auto, per-room or one-file")
}

// Options say what to generate. Start from [Defaults].
type Options struct {
	Seed      uint64
	Contracts int    // stories are told until at least so many contracts exist
	Rows      int64  // if > 0, instead: until the board has at least so many rows
	Keys      int    // distinct signers that trade and chat, at least 3
	Out       string // folder to write into: a new or an empty one
	Noise     Noise
	DealRooms bool   // false: the board alone
	Layout    Layout // of the deal rooms
	Single    bool   // everything in all.jsonl, whose rows carry their room

	// BadSignatures breaks every signature: each still decodes, but covers
	// another text. What the manifest says of statuses then holds no more.
	BadSignatures bool

	StartMs int64 // when the first offer is posted, Unix ms

	// FloodAccepts is a number of valid accepts, all to one offer. FloodRows is
	// a number of strangers' rows, all in one deal room.
	FloodAccepts int64
	FloodRows    int64
}

// Defaults returns 100 contracts among 300 keys with deal rooms and the noise of
// a live board. Out is left empty.
func Defaults() Options {
	return Options{
		Contracts: 100, Keys: 300, Noise: LiveNoise(), DealRooms: true,
		StartMs: testkit.Epoch,
	}
}

// layoutLimit is how many contracts LayoutAuto gives a file each.
const layoutLimit = 10_000

// The greatest start, 2100-01-01: deadlines and clock-like nonces stay well
// inside what a venue stores.
const maxStartMs = 4_102_444_800_000

func (o *Options) check() error {
	switch {
	case o.Out == "":
		return errors.New("gen: no output folder was named")
	case o.Contracts < 0 || o.Rows < 0 || o.FloodAccepts < 0 || o.FloodRows < 0:
		return errors.New("gen: a number of contracts or rows is negative")
	case o.Keys < 3 || o.Keys > 100_000_000:
		return fmt.Errorf("gen: %d keys: between 3 and 100 million are needed", o.Keys)
	case o.StartMs < 1 || o.StartMs > maxStartMs:
		return fmt.Errorf("gen: start %d is not a time in Unix ms between 1970 and 2100", o.StartMs)
	case o.Layout > OneFile:
		return errors.New("gen: unknown layout")
	}
	return nil
}

func (o *Options) layout() Layout {
	switch {
	case o.Layout != LayoutAuto:
		return o.Layout
	case o.Contracts > layoutLimit || o.Rows > 2*layoutLimit || o.FloodAccepts > layoutLimit:
		return OneFile
	}
	return PerRoom
}

// Stats counts what was written.
type Stats struct {
	Rows      int64 `json:"rows"` // lines of all files
	BoardRows int64 `json:"boardRows"`
	DealRows  int64 `json:"dealRows"`
	Bytes     int64 `json:"bytes"`
	Files     int64 `json:"files"` // of rows, the manifest not counted
	Offers    int64 `json:"offers"`
	Contracts int64 `json:"contracts"`
}

// Run writes a corpus into o.Out: tclk-offers.jsonl and the deal rooms, or
// all.jsonl, and manifest.json. The folder is made if it is missing; one that
// holds anything is refused, since an auditor would read the old rooms too.
// When ctx ends or writing fails, what was written so far is left there without
// a manifest, and the error says so.
func Run(ctx context.Context, o Options) (Stats, error) {
	if err := o.check(); err != nil {
		return Stats{}, err
	}
	if err := prepare(o.Out); err != nil {
		return Stats{}, err
	}
	p := newPlanner(o)
	files, err := writeRows(ctx, o, p)
	p.stats.Files, p.stats.Bytes = files.count, files.bytes
	if err != nil {
		return p.stats, fmt.Errorf("gen: write a corpus into %s: %w (what is there is incomplete; remove it)", o.Out, err)
	}
	if err := writeManifest(filepath.Join(o.Out, "manifest.json"), p.manifest()); err != nil {
		return p.stats, err
	}
	return p.stats, nil
}

func prepare(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("gen: make the output folder: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("gen: look into the output folder: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("gen: the output folder %s is not empty; name a new one", dir)
	}
	return nil
}
