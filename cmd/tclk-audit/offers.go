package main

import (
	"net/url"

	"github.com/spf13/cobra"
)

func (a *app) offersCommand() *cobra.Command {
	var data dataFlag
	var out form
	var list listFlags
	cmd := &cobra.Command{
		Use:     "offers [flags]",
		Short:   "List the offers in a store",
		Long:    `Lists the offers in a store, and what became of them.`,
		Example: `  tclk-audit offers --party did:key:z6MkrtxY5oCBWoKbUkWToTvWWMiQi2ceLKUWudVzaCVrGtV5`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q := url.Values{}
			if err := a.set(q, out); err != nil {
				return err
			}
			pass(cmd, q, "venue", "party", "since", "sort", "limit")
			return a.ask(cmd, &data, "/v1/offers", q)
		},
	}
	list.register(cmd, "board or deadline")
	out.register(cmd, "print one JSON line an offer")
	data.register(cmd)
	return cmd
}
