package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// docsCommand writes the man pages. It is hidden: packagers and the test that
// compares docs/man with the commands use it.
func (a *app) docsCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:    "docs DIR",
		Short:  "Write the man pages into a folder",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o777); err != nil {
				return fmt.Errorf("make the folder for man pages: %w", err)
			}
			for name, page := range manPages(root) {
				if err := os.WriteFile(filepath.Join(args[0], name), []byte(page), 0o666); err != nil {
					return fmt.Errorf("write a man page: %w", err)
				}
			}
			return nil
		},
	}
}

// manPages renders every command that help lists, by file name.
func manPages(root *cobra.Command) map[string]string {
	pages := map[string]string{}
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Hidden || cmd.Name() == "help" {
			return
		}
		pages[manName(cmd)+".1"] = manPage(cmd)
		if cmd.Name() == "completion" {
			return // its page says all; the shells' own hold scripts
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(root)
	return pages
}

func manName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

func manPage(cmd *cobra.Command) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line(`.TH "%s" "1" "" "tclk\-audit" "User Commands"`, roff(strings.ToUpper(manName(cmd))))
	line(".SH NAME")
	line(`%s \- %s`, roff(manName(cmd)), roff(strings.ToLower(cmd.Short[:1])+cmd.Short[1:]))
	line(".SH SYNOPSIS")
	if cmd.HasAvailableSubCommands() {
		line(`.B %s`, roff(cmd.CommandPath()))
		line(`.I command`)
		line(`[\fIflags\fR]`)
	} else {
		line(`.B %s`, roff(cmd.UseLine()))
	}
	line(".SH DESCRIPTION")
	text := cmd.Long
	if text == "" {
		text = cmd.Short + "."
	}
	b.WriteString(roffText(text))
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	if flags := visited(cmd.LocalFlags().VisitAll); len(flags) > 0 {
		line(".SH OPTIONS")
		for _, f := range flags {
			if f.Hidden {
				continue
			}
			name := `\-\-` + roff(f.Name)
			if f.Shorthand != "" {
				name = `\-` + roff(f.Shorthand) + ", " + name
			}
			line(".TP")
			arg, usage := flagArgument(f.Usage, f.Value.Type())
			if arg == "" {
				line(`\fB%s\fR`, name)
			} else {
				line(`\fB%s\fR=\fI%s\fR`, name, roff(arg))
			}
			if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" && f.DefValue != "[]" {
				usage += " (default " + f.DefValue + ")"
			}
			line(`%s`, roff(usage))
		}
	}
	if cmd.Example != "" {
		line(".SH EXAMPLES")
		b.WriteString(roffText(cmd.Example))
	}
	var also []string
	if cmd.HasParent() {
		also = append(also, manName(cmd.Parent()))
	}
	for _, sub := range cmd.Commands() {
		if cmd.Name() != "completion" && !sub.Hidden && sub.Name() != "help" {
			also = append(also, manName(sub))
		}
	}
	line(".SH SEE ALSO")
	for i, name := range also {
		comma := ","
		if i == len(also)-1 {
			comma = ""
		}
		line(`.BR %s (1)%s`, roff(name), comma)
	}
	return b.String()
}

// visited collects what a visitor passes on.
func visited[F any](visitAll func(func(F))) []F {
	var all []F
	visitAll(func(f F) { all = append(all, f) })
	return all
}

// flagArgument splits a flag's usage as help does: a word in back quotes names
// the argument, else the value's type does, and a switch has none.
func flagArgument(usage, typ string) (arg, text string) {
	if before, rest, ok := strings.Cut(usage, "`"); ok {
		if name, after, ok := strings.Cut(rest, "`"); ok {
			return name, before + name + after
		}
	}
	if typ == "bool" {
		return "", usage
	}
	return typ, usage
}

// roff escapes a text for one line of a man page.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n", " ").Replace(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	return s
}

// roffText renders paragraphs; one with an indented line is kept as it is set.
func roffText(s string) string {
	var b strings.Builder
	for i, paragraph := range strings.Split(strings.Trim(s, "\n"), "\n\n") {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		asSet := strings.HasPrefix(paragraph, " ") || strings.Contains(paragraph, "\n ") || strings.Contains(paragraph, "\n\t")
		if asSet {
			b.WriteString(".nf\n")
		}
		for line := range strings.SplitSeq(paragraph, "\n") {
			b.WriteString(roff(line) + "\n")
		}
		if asSet {
			b.WriteString(".fi\n")
		}
	}
	return b.String()
}
