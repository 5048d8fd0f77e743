package main

import (
	"github.com/spf13/cobra"
)

func (a *app) contractsCommand() *cobra.Command {
	var data dataFlag
	var out form
	var status, outlook, finding, binding, offer, party, venue, sort string
	var since instant
	var limit int
	var secrets bool
	cmd := &cobra.Command{
		Use:   "contracts [flags]",
		Short: "List the contracts in a store",
		Long: `Lists the contracts in a store, as far as the rows that it holds establish them.
Flags narrow the list; a contract must satisfy all of them. --json and --jsonl
give each contract as verify does.`,
		Example: `  tclk-audit contracts --status locked --sort deadline
  tclk-audit contracts --finding gap --jsonl | jq -r .contract`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q, err := a.question(cmd, out, "status", "outlook", "finding", "binding", "offer", "party", "venue", "since", "sort", "limit")
			if err != nil {
				return err
			}
			ask1(q, "secrets", secrets)
			a.paint(q)
			return a.ask(cmd, &data, "/v1/contracts", q)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&status, "status", "", "only with one of these `statuses`, with commas between; none: the offer is not in sight")
	fs.StringVar(&outlook, "outlook", "", "only with one of these `outlooks` at the board's clock")
	fs.StringVar(&finding, "finding", "", "only with a finding of one of these `codes`")
	fs.StringVar(&binding, "binding", "", "only with this `binding`: bound, superseded, chosen or none")
	fs.StringVar(&offer, "offer", "", "only of the offer with this `ID`")
	fs.StringVar(&party, "party", "", "only with this party, a `did:key`")
	fs.StringVar(&venue, "venue", "", "only of the board with this `alias`")
	fs.Var(&since, "since", "only with a row at or after this `time`, RFC 3339 or Unix ms")
	fs.StringVar(&sort, "sort", "", "sort by `order`: accept, deadline or revision (default accept)")
	fs.BoolVar(&secrets, "show-secrets", false, "show the secrets of reveals")
	limitFlag(cmd, &limit, "list `N` at most, 0: all (default 100 in the human form, else all)")
	out.object(cmd)
	out.lines(cmd, "a contract")
	data.register(cmd)
	return cmd
}
