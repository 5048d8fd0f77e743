package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/tclk-audit/tclk-audit/internal/report"
)

func (a *app) verifyCommand() *cobra.Command {
	var f auditFlags
	var contract string
	var asJSON, asLines, all bool
	cmd := &cobra.Command{
		Use:   "verify [flags] PATH...",
		Short: "Audit all contracts in the given exports",
		Long: `Checks every signature, folds every contract in sight, and says what the rows
prove. A PATH is an export (JSONL, ?format=json pages, an array of rows; plain,
.gz or .zst), a folder of rooms, or - for standard input. A contract needs the
board (tclk-offers) with its offer and accept, and its deal room.

By default it prints the funnel, the findings by code, and the contracts that
need a look; with --contract one contract with every step. --json prints one
object (docs/verify.schema.json), --jsonl one contract a line and a summary as
last line, for boards too large to hold.

` + exitCodes,
		Example: `  tclk-audit verify exports/
  tclk-audit verify --contract 0x0ad9e8bd tclk-offers.jsonl mb-p-tclk-0ad9e8bd2b42150a.jsonl
  tclk-audit verify --jsonl board.jsonl.zst | jq -r 'select(.status == "claimed").contract'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return &usageError{text: "verify needs a PATH", hint: "name export files or folders, or - for standard input"}
			case asJSON && asLines:
				return usagef("--json and --jsonl do not go together")
			}
			digits := ""
			if cmd.Flags().Changed("contract") {
				var err error
				if digits, err = contractPrefix(contract); err != nil {
					return err
				}
			}
			begun := time.Now()
			r, err := a.audit(cmd.Context(), &f, args, digits != "")
			if err != nil {
				return err
			}
			judge := r.Judge(f.severity())
			run := report.Of(r, judge)
			if digits != "" {
				c, err := find(r, digits)
				switch {
				case err != nil:
					return err
				case c == nil:
					a.missing(r, digits)
					run.AskMissing("0x"+digits, judge)
				default:
					run.Ask(c, judge)
				}
			}
			human := !asJSON && !asLines
			a.remarks(r, &f, human)
			switch {
			case asJSON:
				a.exit, err = report.JSON(a.stdout, run, f.show)
			case asLines:
				a.exit, err = report.JSONL(a.stdout, run, f.show)
			default:
				a.exit, err = report.Text(a.stdout, run, report.TextOptions{Show: f.show, Color: a.color(), All: all})
			}
			if err != nil {
				return err
			}
			if human || isTerminal(a.stderr) {
				a.speed(r.Rows.Total, time.Since(begun))
			}
			return nil
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&contract, "contract", "", "only this contract, with every step: an `ID` or a unique prefix of 8 or more hex digits")
	fs.BoolVar(&asJSON, "json", false, "print one JSON object")
	fs.BoolVar(&asLines, "jsonl", false, "print one JSON line a contract, and a summary as last line")
	fs.BoolVar(&all, "all", false, "list every contract, not only those that need a look")
	f.register(cmd)
	return cmd
}
