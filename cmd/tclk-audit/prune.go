package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tclk-audit/tclk-audit/store"
)

func (a *app) pruneCommand() *cobra.Command {
	var data dataFlag
	var before instant
	cmd := &cobra.Command{
		Use:   "prune --before TIME",
		Short: "Drop the bytes of old rows that cannot be used",
		Long: `Drops from a store the bytes of rows that cannot be used and are older than a
time: those without a signature, with one that does not hold, and malformed ones.
Their sha256 and length stay. A row that counts is never touched, and no
conclusion changes. A row is as old as its own time says; one that has none is as
old as the file that it came from.`,
		Example: `  tclk-audit prune --before 2026-09-01T00:00:00Z`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if before.ms == nil {
				return &usageError{text: "prune needs --before", hint: "as in: tclk-audit prune --before 2026-09-01T00:00:00Z"}
			}
			var p store.Pruned
			err := a.withStore(cmd, &data, store.Options{Existing: true}, func(s *store.Store) (err error) {
				p, err = s.Prune(cmd.Context(), *before.ms)
				return err
			})
			if err != nil {
				return err
			}
			// Opening it once more takes away write-logs that held the bytes.
			return a.withStore(cmd, &data, store.Options{Existing: true}, func(*store.Store) error {
				_, err = fmt.Fprintf(a.stdout, "the bytes of %d rows are gone: %d unsigned, %d whose signature does not hold, %d malformed; %d bytes in all\n",
					p.Unsigned+p.Invalid+p.Malformed, p.Unsigned, p.Invalid, p.Malformed, p.Bytes)
				return err
			})
		},
	}
	cmd.Flags().Var(&before, "before", "drop what is older than this `time`, RFC 3339 or Unix ms")
	data.register(cmd)
	return cmd
}
