package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tclk-audit/tclk-audit/internal/gen"
	"github.com/tclk-audit/tclk-audit/internal/report"
)

// maxRows bounds what a corpus is asked for: about a terabyte of rows.
const maxRows = 1_000_000_000

func (a *app) genCommand() *cobra.Command {
	o := gen.Defaults()
	var noise string
	var boardOnly, asJSON bool
	start := &instant{ms: &o.StartMs}
	layout := &choice{value: gen.LayoutAuto.String(), allowed: []string{
		gen.LayoutAuto.String(), gen.PerRoom.String(), gen.OneFile.String(),
	}}
	var kinds strings.Builder
	for _, k := range gen.Kinds() {
		fmt.Fprintf(&kinds, "  %-22s %s\n", k.Name, k.What)
	}
	cmd := &cobra.Command{
		Use:   "gen --seed N --contracts N --out DIR",
		Short: "Generate signed test exports",
		Long: `Writes exports of a board and its deal rooms that never stood on a venue, in the
venue's row shape, signed with real keys that everybody can derive: for tests and
benchmarks. The same options give the same bytes. Rows are written as they are
made, so a corpus may be of any size. Beside the rows stands manifest.json, which
says of each contract what was intended.

Kinds of noise, for --noise:
` + strings.TrimSuffix(kinds.String(), "\n"),
		Example: `  tclk-audit gen --seed 1 --contracts 100 --out corpus
  tclk-audit gen --rows 1000000 --keys 80000 --noise none --board-only --out big
  tclk-audit gen --noise live,torn=0.1 --out torn`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			n, err := gen.ParseNoise(noise)
			if err != nil {
				return usagef("%v", err)
			}
			o.Noise = n
			if o.Layout, err = gen.ParseLayout(layout.value); err != nil {
				return usagef("%v", err)
			}
			if o.Out == "" {
				return &usageError{text: "gen needs --out", hint: "name a new or empty folder, such as --out corpus"}
			}
			o.DealRooms = !boardOnly
			o.StartMs = *start.ms
			stats, err := gen.Run(cmd.Context(), o)
			if err != nil {
				return err
			}
			if asJSON {
				out, err := json.Marshal(struct {
					Schema string `json:"schema"`
					gen.Stats
				}{"tclk-audit.gen/1", stats})
				if err != nil {
					return err
				}
				return a.print(append(out, '\n'))
			}
			_, err = fmt.Fprintf(a.stdout, "%s: %d rows (%d on the board, %d in deal rooms) of %d contracts in %d files, %d bytes\n",
				report.Printable(o.Out), stats.Rows, stats.BoardRows, stats.DealRows, stats.Contracts, stats.Files, stats.Bytes)
			return err
		},
	}
	f := cmd.Flags()
	f.Uint64Var(&o.Seed, "seed", o.Seed, "same `seed`, same corpus")
	f.Var(number[int]{&o.Contracts, 0, maxRows}, "contracts", "generate at least `N` contracts")
	f.Var(number[int64]{&o.Rows, 0, maxRows}, "rows", "instead: generate until the board has at least `N` rows")
	f.Var(number[int]{&o.Keys, 3, 100_000_000}, "keys", "`N` distinct signers")
	f.StringVar(&o.Out, "out", o.Out, "the `folder` to write into, new or empty")
	f.StringVar(&noise, "noise", "live", "`kinds` with commas between: none, live, all, or a kind with =rate per contract")
	f.BoolVar(&boardOnly, "board-only", false, "no deal rooms")
	f.Var(layout, "layout", "deal rooms in `auto`, per-room or one-file")
	f.BoolVar(&o.Single, "single", false, "everything in all.jsonl, whose rows carry their room")
	f.BoolVar(&o.BadSignatures, "bad-signatures", false, "break every signature")
	f.Var(start, "start", "`time` of the first offer, RFC 3339 or Unix ms")
	f.Var(number[int64]{&o.FloodAccepts, 0, maxRows}, "flood-accepts", "add `N` valid accepts to one offer")
	f.Var(number[int64]{&o.FloodRows, 0, maxRows}, "flood-rows", "add `N` strangers' rows to one deal room")
	f.BoolVar(&asJSON, "json", false, "print what was written as a JSON object")
	return cmd
}
