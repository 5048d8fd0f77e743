package main

import (
	"net/url"

	"github.com/spf13/cobra"
)

func (a *app) eventsCommand() *cobra.Command {
	var data dataFlag
	var out form
	var since int64
	var limit int
	cmd := &cobra.Command{
		Use:   "events [flags]",
		Short: "List what changed in a store, in order",
		Long: `Lists every change of what the store concludes about a contract, in the order in
which it came, numbered without gaps: its status, outlook, binding, evidence and
findings, and every receipt that counts, each with the row that caused it.`,
		Example: `  tclk-audit events --since 1200 --jsonl`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q := url.Values{}
			if err := a.set(q, out); err != nil {
				return err
			}
			pass(cmd, q, "since", "limit")
			return a.ask(cmd, &data, "/v1/events", q)
		},
	}
	fs := cmd.Flags()
	fs.Var(number[int64]{&since, 0, 1 << 62}, "since", "only from event number `N` on")
	fs.Var(number[int]{&limit, 0, 1 << 30}, "limit", "list `N` at most (default 0: all)")
	out.register(cmd, "print one JSON line an event")
	data.register(cmd)
	return cmd
}
