package main

import (
	"net/url"

	"github.com/spf13/cobra"
)

func (a *app) partiesCommand() *cobra.Command {
	var data dataFlag
	var out form
	var venue string
	cmd := &cobra.Command{
		Use:   "parties [flags] DID",
		Short: "Count a party's deals in a store",
		Long: `Counts the deals of one party, by role, status, rail and value class, and how long its
steps took. They are facts of the rows in the store; it is no score.`,
		Example: `  tclk-audit parties did:key:z6MkrtxY5oCBWoKbUkWToTvWWMiQi2ceLKUWudVzaCVrGtV5`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return &usageError{text: "parties needs one DID", hint: "as in: tclk-audit parties did:key:z6Mk..."}
			}
			q, err := a.question(cmd, out, "venue")
			if err != nil {
				return err
			}
			a.paint(q)
			return a.ask(cmd, &data, "/v1/parties/"+url.PathEscape(args[0]), q)
		},
	}
	cmd.Flags().StringVar(&venue, "venue", "", "only on the board with this `alias`")
	out.object(cmd)
	data.register(cmd)
	return cmd
}
