package main

import (
	"net/url"

	"github.com/spf13/cobra"

	"github.com/tclk-audit/tclk-audit/internal/report"
)

func (a *app) showCommand() *cobra.Command {
	var data dataFlag
	var out form
	var show report.Show
	var venue string
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
			q := url.Values{}
			if err := a.set(q, out); err != nil {
				return err
			}
			pass(cmd, q, "venue")
			flag01(q, "secrets", show.Secrets)
			flag01(q, "text", show.Text)
			return a.ask(cmd, &data, "/v1/contracts/0x"+digits, q)
		},
	}
	cmd.Flags().StringVar(&venue, "venue", "", "only on the board with this `alias`")
	out.register(cmd, "")
	registerShow(cmd, &show)
	data.register(cmd)
	return cmd
}
