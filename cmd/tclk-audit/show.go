package main

import (
	"github.com/spf13/cobra"

	"github.com/tclk-audit/tclk-audit/internal/report"
)

func (a *app) showCommand() *cobra.Command {
	var data dataFlag
	var out form
	var show report.Show
	var venue string
	sightings := choice{value: "near", allowed: []string{"near", "all"}}
	cmd := &cobra.Command{
		Use:   "show [flags] CONTRACT",
		Short: "Tell the story of one contract in a store",
		Long: `Tells the story of one contract as explain does, from the store: with the
revisions of what was concluded, and where its rows were seen.

CONTRACT is an id, or a unique prefix of 8 or more hex digits. The exit code is
3 if the contract is not established or not in the store, and 1 if its rows
contradict each other.`,
		Example: `  tclk-audit show 0x0ad9e8bd`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return &usageError{text: "show needs one CONTRACT", hint: "as in: tclk-audit show 0x0ad9e8bd"}
			}
			digits, err := contractPrefix(args[0])
			if err != nil {
				return err
			}
			q, err := a.question(cmd, out, "venue", "sightings")
			if err != nil {
				return err
			}
			ask1(q, "secrets", show.Secrets)
			ask1(q, "text", show.Text)
			a.paint(q)
			return a.ask(cmd, &data, "/v1/contracts/0x"+digits, q)
		},
	}
	cmd.Flags().Var(&sightings, "sightings", "say `where` rows were seen as far as indexes know it (near), or by reading the whole log (all)")
	cmd.Flags().StringVar(&venue, "venue", "", "only on the board with this `alias`")
	out.object(cmd)
	registerShow(cmd, &show)
	data.register(cmd)
	return cmd
}
