package main

import (
	"encoding/hex"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tclk-audit/tclk-audit/internal/report"
)

func (a *app) explainCommand() *cobra.Command {
	var f auditFlags
	var asJSON bool
	var message string
	cmd := &cobra.Command{
		Use:   "explain [flags] PATH... CONTRACT",
		Short: "Tell the story of one contract",
		Long: `Tells the story of one contract for a person: who promised what, each step with
its time, margin and signer, what is proven, what is not, and what would change
the answer. The exit code is that of verify --contract.

CONTRACT is an id, or a unique prefix of 8 or more hex digits. The paths are
read as verify reads them.

--claim-message checks the lock's pre-signature over the rail's claim message,
which no transcript holds, with cryptography that nobody has audited.

` + exitCodes,
		Example: `  tclk-audit explain exports/ 0x0ad9e8bd`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return &usageError{text: "explain needs a PATH and a CONTRACT", hint: "as in: tclk-audit explain exports/ 0x0ad9e8bd"}
			}
			paths, asked := args[:len(args)-1], args[len(args)-1]
			digits, err := contractPrefix(asked)
			if err != nil {
				return err
			}
			o := report.ExplainOptions{Show: f.show, Color: a.color()}
			if cmd.Flags().Changed("claim-message") {
				if asJSON {
					return usagef("--json and --claim-message do not go together")
				}
				if o.ClaimMessage, err = hex.DecodeString(strings.TrimPrefix(message, "0x")); err != nil {
					return &usageError{text: "--claim-message is no hex", hint: "give the message's bytes as hex digits"}
				}
			}
			begun := time.Now()
			r, err := a.audit(cmd.Context(), &f, paths, true)
			if err != nil {
				return err
			}
			c, err := find(r, digits)
			if err != nil {
				return err
			}
			a.remarks(r, &f, false)
			judge := r.Judge(f.severity())
			if c == nil {
				a.missing(r, digits)
				judge.Asked(nil)
				a.exit = judge.Exit()
				return nil
			}
			judge.Contract(c)
			judge.Asked(c)
			a.exit = judge.Exit()
			if asJSON {
				return report.ContractJSON(a.stdout, c, f.show)
			}
			o.Rules = r.Rules.String()
			if err := report.Explain(a.stdout, c, o); err != nil {
				return err
			}
			if isTerminal(a.stderr) {
				a.speed(r.Rows.Total, time.Since(begun))
			}
			return nil
		},
	}
	fs := cmd.Flags()
	fs.BoolVar(&asJSON, "json", false, "print the contract as a JSON object")
	fs.StringVar(&message, "claim-message", "", "check the lock's pre-signature over this message, in `hex`")
	f.register(cmd)
	return cmd
}
