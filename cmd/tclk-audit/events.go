package main

import (
	"github.com/spf13/cobra"
)

func (a *app) eventsCommand() *cobra.Command {
	var data dataFlag
	var out form
	from := int64(1)
	var limit int
	cmd := &cobra.Command{
		Use:   "events [flags]",
		Short: "List what changed in a store, in order",
		Long: `Lists every change of what the store concludes about a contract, in the order in
which it came, numbered without gaps: its status, outlook, binding, evidence and
findings, and every receipt that counts, each with the row that caused it.`,
		Example: `  tclk-audit events --from 1200 --jsonl`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q, err := a.question(cmd, out, "from", "limit")
			if err != nil {
				return err
			}
			return a.ask(cmd, &data, "/v1/events", q)
		},
	}
	fs := cmd.Flags()
	fs.Var(number[int64]{&from, 1, 1 << 53}, "from", "only from event number `N` on")
	limitFlag(cmd, &limit, "list `N` at most, 0: all (default all)")
	out.lines(cmd, "an event")
	data.register(cmd)
	return cmd
}
