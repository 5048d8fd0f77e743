package main

import (
	"net/url"

	"github.com/spf13/cobra"
)

func (a *app) statusCommand() *cobra.Command {
	var data dataFlag
	var out form
	cmd := &cobra.Command{
		Use:   "status [flags]",
		Short: "Say what a store holds",
		Long: `Says what a store holds: its versions and rules, sizes and counts, and each room
with how far it has been read and what is missing in it.`,
		Example: `  tclk-audit status --data /var/lib/tclk`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q := url.Values{}
			if err := a.set(q, out); err != nil {
				return err
			}
			return a.ask(cmd, &data, "/v1/status", q)
		},
	}
	out.register(cmd, "")
	data.register(cmd)
	return cmd
}
