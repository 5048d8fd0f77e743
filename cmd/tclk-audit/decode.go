package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/tclk-audit/tclk-audit/internal/report"
	"github.com/tclk-audit/tclk-audit/protocol"
)

// lineBuffer is the longest line that is looked at whole, in bytes. The
// protocol allows 4096 characters, so a longer one is no frame whatever
// follows.
const lineBuffer = 64 << 10

func (a *app) decodeCommand() *cobra.Command {
	rules := &choice{value: "spec", allowed: []string{"spec", "reference"}}
	cmd := &cobra.Command{
		Use:   "decode [LINE|-]",
		Short: "Decode frame lines to JSON",
		Long: `Decodes frame lines, one a line, to one JSON object a line: ok, type, reason,
detail, findings, canonical, frame. Every line gets its object, an empty one
too; a CR before the LF does not belong to the line. type is what the line says
of itself, also where it does not decode.

Without an argument, or with -, lines are read from standard input.

Exit codes: lines that do not decode are normal, so reading standard input ends
with 0 whatever they hold. A LINE given as argument is a question about this one
line: 0 if it is a frame, 1 if not. 2 is usage, 4 that input or output failed.`,
		Example: `  tclk-audit decode < lines.txt
  tclk-audit decode 'tclk1 {"type":"heartbeat"}'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			d := protocol.NewDecoder(decodeRules(rules.value))
			if len(args) == 1 && args[0] != "-" {
				out, ok := appendDecoded(nil, d, []byte(args[0]))
				if !ok {
					a.exit = 1
				}
				return a.print(out)
			}
			return a.decodeLines(cmd.Context(), d)
		},
	}
	cmd.Flags().Var(rules, "rules", "decode as this: `spec` or reference")
	return cmd
}

func decodeRules(name string) protocol.DecodeRules {
	if name == "reference" {
		return protocol.ReferenceRules()
	}
	return protocol.DecodeRules{}
}

func appendDecoded(dst []byte, d *protocol.Decoder, line []byte) ([]byte, bool) {
	decoded := d.Decode(line)
	typ, _ := protocol.LineType(string(line))
	return report.AppendDecoded(dst, &decoded, typ), decoded.Frame != nil
}

func (a *app) decodeLines(ctx context.Context, d *protocol.Decoder) error {
	in := bufio.NewReaderSize(a.stdin, lineBuffer)
	var out []byte
	for {
		line, err := in.ReadSlice('\n')
		long := errors.Is(err, bufio.ErrBufferFull)
		switch {
		case long || err == nil || errors.Is(err, io.EOF) && len(line) > 0:
		case errors.Is(err, io.EOF):
			return a.print(out)
		default:
			return errors.Join(a.print(out), fmt.Errorf("read lines from standard input: %w", err))
		}
		if long {
			out = appendLongLine(out, d, line)
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = in.ReadSlice('\n')
				if ctx.Err() != nil {
					return ctx.Err()
				}
			}
		} else {
			line = bytes.TrimSuffix(line, []byte("\n"))
			line = bytes.TrimSuffix(line, []byte("\r"))
			out, _ = appendDecoded(out, d, line)
		}
		// Answer at once when no more input is at hand: somebody may be waiting.
		if in.Buffered() == 0 || len(out) >= lineBuffer {
			if err := a.print(out); err != nil {
				return err
			}
			out = out[:0]
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// appendLongLine answers for a line of which only the start is in memory. That
// much settles the answer: too long if it is a frame line at all.
func appendLongLine(dst []byte, d *protocol.Decoder, start []byte) []byte {
	decoded := d.Decode(start)
	if decoded.Detail != "" {
		decoded.Detail = fmt.Sprintf("the line has more than %d bytes; a frame line has at most 4096 characters", len(start))
	}
	return report.AppendDecoded(dst, &decoded, "")
}
