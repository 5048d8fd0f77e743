package main

import "github.com/spf13/cobra"

func (a *app) offersCommand() *cobra.Command {
	var data dataFlag
	var out form
	var status, party, venue string
	var limit int
	cmd := &cobra.Command{
		Use:     "offers [flags]",
		Short:   "List the offers in a store",
		Long:    `Lists the offers in a store, and what became of them.`,
		Example: `  tclk-audit offers --party did:key:z6MkrtxY5oCBWoKbUkWToTvWWMiQi2ceLKUWudVzaCVrGtV5`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q, err := a.question(cmd, out, "status", "party", "venue", "limit")
			if err != nil {
				return err
			}
			a.paint(q)
			return a.ask(cmd, &data, "/v1/offers", q)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&status, "status", "", "only with one of these `statuses`: proposed, bound, cancelled, expired; with commas between")
	fs.StringVar(&party, "party", "", "only with this party, a `did:key`")
	fs.StringVar(&venue, "venue", "", "only of the board with this `alias`")
	limitFlag(cmd, &limit, "list `N` at most, 0: all (default 100 in the human form, else all)")
	out.object(cmd)
	out.lines(cmd, "an offer")
	data.register(cmd)
	return cmd
}
