package main

import (
	"github.com/spf13/cobra"
)

func (a *app) findingsCommand() *cobra.Command {
	var data dataFlag
	var out form
	var code, venue string
	var limit int
	cmd := &cobra.Command{
		Use:   "findings [flags]",
		Short: "Count the contracts in a store by what was found",
		Long: `Says of how many contracts in a store there is which finding. With --code it lists
them; show tells what was found in each, and where.`,
		Example: `  tclk-audit findings
  tclk-audit findings --code gap,secret-exposed`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q, err := a.question(cmd, out, "code", "venue", "limit")
			if err != nil {
				return err
			}
			a.paint(q)
			return a.ask(cmd, &data, "/v1/findings", q)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&code, "code", "", "list the contracts with a finding of one of these `codes`, with commas between")
	fs.StringVar(&venue, "venue", "", "only of the board with this `alias`")
	limitFlag(cmd, &limit, "list `N` contracts at most, 0: all (default 100 in the human form, else all)")
	out.object(cmd)
	data.register(cmd)
	return cmd
}
