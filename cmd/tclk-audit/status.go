package main

import (
	"github.com/spf13/cobra"
)

func (a *app) statusCommand() *cobra.Command {
	var data dataFlag
	var out form
	var limit int
	cmd := &cobra.Command{
		Use:   "status [flags]",
		Short: "Say what a store holds",
		Long: `Says what a store holds: its versions and rules, sizes and counts, and each room
with how far it has been read and what is missing in it.`,
		Example: `  tclk-audit status --data /var/lib/tclk`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q, err := a.question(cmd, out, "limit")
			if err != nil {
				return err
			}
			a.paint(q)
			return a.ask(cmd, &data, "/v1/status", q)
		},
	}
	limitFlag(cmd, &limit, "list the `N` newest sources, 0: all (default 10)")
	out.object(cmd)
	data.register(cmd)
	return cmd
}
