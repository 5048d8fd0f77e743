package main

import (
	"net/url"

	"github.com/spf13/cobra"

	"github.com/tclk-audit/tclk-audit/internal/report"
)

// listFlags narrow and order what a store lists.
type listFlags struct {
	venue, party, sort string
	since              instant
	limit              int
}

func (f *listFlags) register(cmd *cobra.Command, sorts string) {
	fs := cmd.Flags()
	fs.StringVar(&f.venue, "venue", "", "only of the board with this `alias`")
	fs.StringVar(&f.party, "party", "", "only with this party, a `did:key`")
	fs.Var(&f.since, "since", "only with a row at or after this `time`, RFC 3339 or Unix ms")
	fs.StringVar(&f.sort, "sort", "", "sort by `order`: "+sorts)
	fs.Var(number[int]{&f.limit, 0, 1 << 30}, "limit", "list `N` at most (default 0: all)")
}

func (a *app) contractsCommand() *cobra.Command {
	var data dataFlag
	var out form
	var list listFlags
	var show report.Show
	var status, outlook, finding, binding, offer string
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
			q := url.Values{}
			if err := a.set(q, out); err != nil {
				return err
			}
			pass(cmd, q, "status", "outlook", "finding", "binding", "offer", "venue", "party", "since", "sort", "limit")
			flag01(q, "secrets", show.Secrets)
			flag01(q, "text", show.Text)
			return a.ask(cmd, &data, "/v1/contracts", q)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&status, "status", "", "only with this `status`; with commas: any of them")
	fs.StringVar(&outlook, "outlook", "", "only with this `outlook` at the board's clock")
	fs.StringVar(&finding, "finding", "", "only with a finding of this `code`")
	fs.StringVar(&binding, "binding", "", "only with this `binding`")
	fs.StringVar(&offer, "offer", "", "only of the offer with this `ID`")
	list.register(cmd, "accept, deadline or revision")
	out.register(cmd, "print one JSON line a contract")
	registerShow(cmd, &show)
	data.register(cmd)
	return cmd
}
