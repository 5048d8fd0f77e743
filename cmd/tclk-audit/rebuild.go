package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/tclk-audit/tclk-audit/internal/audit"
	"github.com/tclk-audit/tclk-audit/store"
)

func (a *app) rebuildCommand() *cobra.Command {
	var data dataFlag
	var rules ruleFlags
	var check bool
	cmd := &cobra.Command{
		Use:   "rebuild [flags]",
		Short: "Draw all conclusions of a store again",
		Long: `Throws away all that follows from the rows of a store, and draws every conclusion
again from the rows alone. It repairs a store whose conclusions are damaged, and
brings one up to date that an older version has written.

--check changes nothing: it draws the conclusions aside and compares them with
those in the store, byte for byte. The exit code is 1 at a difference.

--rule sets other switches from here on. What counts as a row was decided under
--rules when it was read, so a store keeps its base rules.`,
		Example: `  tclk-audit rebuild --check`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o := store.Options{Rebuilding: true}
			if cmd.Flags().Changed("rules") || cmd.Flags().Changed("rule") {
				if check {
					return usagef("--check and other rules do not go together")
				}
				r, err := rules.rules()
				if err != nil {
					return err
				}
				o.Rules = &r
			}
			return a.withStore(cmd, &data, o, func(s *store.Store) error {
				bar, memory := a.newProgress("folding", false), newHeap()
				defer bar.close()
				err := s.Rebuild(cmd.Context(), check, func(done, total uint64) {
					memory.pace()
					bar.set(int64(done), int64(total))
				})
				bar.close()
				var differs *store.DifferenceError
				if errors.As(err, &differs) {
					a.warn("%v", differs)
					a.warn("hint: 'tclk-audit rebuild' draws the conclusions again")
					a.exit = audit.ExitWrong
					return nil
				}
				if err != nil {
					return err
				}
				if check {
					return a.print([]byte("the conclusions are what the rows give\n"))
				}
				return a.print([]byte("all conclusions were drawn again\n"))
			})
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "change nothing; compare, and exit 1 at a difference")
	data.register(cmd)
	rules.register(cmd, "the base rules of the store, `spec` or reference")
	return cmd
}
