package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tclk-audit/tclk-audit/store"
)

func (a *app) compactCommand() *cobra.Command {
	var data dataFlag
	cmd := &cobra.Command{
		Use:     "compact [flags]",
		Short:   "Make a store as small as it can be",
		Long:    `Rewrites the files of a store so that they take as little room as they can.`,
		Example: `  tclk-audit compact`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withStore(cmd, &data, store.Options{Existing: true}, func(s *store.Store) error {
				before, after, err := s.Compact(cmd.Context())
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(a.stdout, "%d bytes before, %d bytes after\n", before, after)
				return err
			})
		},
	}
	data.register(cmd)
	return cmd
}
