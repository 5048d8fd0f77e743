package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/tclk-audit/tclk-audit/internal/control"
	"github.com/tclk-audit/tclk-audit/internal/report"
	"github.com/tclk-audit/tclk-audit/store"
)

func (a *app) backupCommand() *cobra.Command {
	var data dataFlag
	cmd := &cobra.Command{
		Use:   "backup [flags] DIR",
		Short: "Copy a store, also while it is written to",
		Long: `Copies a store into a new folder, as it stands now, also while ingest runs. The
copy is a store: --data DIR works on it, and moving it back restores it.

On the same disk, files that never change are shared between the two, so that it
takes hardly any time or room. Copy the folder to another disk to be safe from
the loss of this one.`,
		Example: `  tclk-audit backup backups/monday`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return &usageError{text: "backup needs one DIR", hint: "name a folder that is not there yet"}
			}
			dir, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			err = a.withStore(cmd, &data, store.Options{Existing: true}, func(s *store.Store) error { return s.Backup(dir) })
			if !errors.Is(err, store.ErrLocked) {
				return a.backedUp(dir, err)
			}
			path, _ := data.path(cmd)
			answer, asked := control.NewClient(path).Ask(cmd.Context(), http.MethodPost, "/v1/backup?dir="+url.QueryEscape(dir), a.stdout)
			if errors.Is(asked, control.ErrNobody) {
				return err
			}
			if asked == nil {
				asked = a.follow(answer)
			}
			return a.backedUp(dir, storeHint(asked))
		},
	}
	data.register(cmd)
	return cmd
}

func (a *app) backedUp(dir string, err error) error {
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "%s is a copy of the store\n", report.Printable(dir))
	return err
}
