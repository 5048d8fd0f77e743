package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tclk-audit/tclk-audit/protocol"
)

func (a *app) recordsCommand() *cobra.Command {
	var data dataFlag
	var out form
	var venue string
	var export, text bool
	var limit int
	cmd := &cobra.Command{
		Use:   "records [flags] ROOM",
		Short: "Print the rows of a room in a store",
		Long: `Prints the rows of a room that a store holds; show says where each was seen. Of a
row whose bytes are not kept it says the sha256 and the length.

--export prints the bytes of the rows and nothing else, in the room's order: a file
of them leads verify to the same verdicts. It holds strangers' words as they are;
write it to a file.`,
		Example: `  tclk-audit records tclk-offers
  tclk-audit records --export tclk-offers > tclk-offers.jsonl`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return &usageError{text: "records needs one ROOM", hint: "as in: tclk-audit records " + protocol.BoardRoom}
			}
			if !protocol.ValidRoom(args[0]) {
				return &usageError{
					text: fmt.Sprintf("%q is no room name", args[0]),
					hint: "a room is 1 to 48 of a-z, 0-9, _ and -, and begins with a letter or digit",
				}
			}
			q, err := a.question(cmd, out, "venue", "limit")
			if err != nil {
				return err
			}
			if out.asJSON && (export || text) {
				return usagef("--json goes with neither --export nor --show-text")
			}
			if export {
				q.Set("format", "export")
			}
			ask1(q, "text", text)
			return a.ask(cmd, &data, "/v1/rooms/"+args[0]+"/records", q)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&venue, "venue", "", "only of the board with this `alias`")
	fs.BoolVar(&export, "export", false, "print the rows' bytes and nothing else")
	fs.BoolVar(&text, "show-text", false, "show the rows, escaped: strangers' words")
	limitFlag(cmd, &limit, "print `N` at most, 0: all (default all)")
	out.object(cmd)
	data.register(cmd)
	return cmd
}
