package main

import (
	"github.com/spf13/cobra"
)

func (a *app) roomsCommand() *cobra.Command {
	var data dataFlag
	var out form
	var class, venue string
	var limit int
	var gaps bool
	cmd := &cobra.Command{
		Use:   "rooms [flags]",
		Short: "List the rooms in a store",
		Long: `Lists the rooms that a store has rows of: what each is for, how far it reaches,
how many of its numbers have no row, and of a deal room whose it is. Numbers are
the venue's word, and no signature covers them.`,
		Example: `  tclk-audit rooms --class deal --gaps`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q, err := a.question(cmd, out, "class", "venue", "limit")
			if err != nil {
				return err
			}
			ask1(q, "gaps", gaps)
			a.paint(q)
			return a.ask(cmd, &data, "/v1/rooms", q)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&class, "class", "", "only of these `classes`, with commas between: board, deal or other")
	fs.StringVar(&venue, "venue", "", "only of the board with this `alias`")
	fs.BoolVar(&gaps, "gaps", false, "only those in which rows are missing")
	limitFlag(cmd, &limit, "list `N` at most, 0: all (default 100 in the human form, else all)")
	out.object(cmd)
	out.lines(cmd, "a room")
	data.register(cmd)
	return cmd
}
