package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/tclk-audit/tclk-audit/internal/audit"
)

type decodedLine struct {
	OK                              bool
	Type, Reason, Detail, Canonical *string
	Findings                        []string
	Frame                           map[string]any
}

func decodeAll(t *testing.T, stdin string, args ...string) []decodedLine {
	t.Helper()
	code, out, errs := invoke(t, stdin, append([]string{"decode"}, args...)...)
	if code != 0 || errs != "" {
		t.Fatalf("exit %d: %s", code, errs)
	}
	var all []decodedLine
	for line := range strings.Lines(out) {
		for i := range len(line) - 1 {
			if c := line[i]; c < 0x20 || c > 0x7e || c == '<' || c == '>' || c == '&' {
				t.Fatalf("byte %#x in %s", c, line)
			}
		}
		var d decodedLine
		if err := json.Unmarshal([]byte(line), &d); err != nil {
			t.Fatal(err)
		}
		all = append(all, d)
	}
	return all
}

// TestDecodeConformance decodes every line of the reference's collection under
// its rules.
func TestDecodeConformance(t *testing.T) {
	// the collection's words for ours, where they differ
	ours := map[string]string{
		"not-tclk": "not-a-frame", "too-long": "line-too-long", "non-ascii": "line-not-ascii", "bad-json": "frame-not-json",
		"not-object": "frame-not-object", "bad-point": "point-invalid", "payment-key-missing": "point-needs-key",
	}
	type vector struct {
		Name, Line, Code string
		Type, Canonical  *string
		OK               bool
	}
	var vectors []vector
	var lines strings.Builder
	for text := range strings.Lines(readFile(t, "../../testdata/conformance/decode.jsonl")) {
		var v vector
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(v.Line, "\r\n\ufffd") {
			continue // not one line of text
		}
		vectors = append(vectors, v)
		lines.WriteString(v.Line + "\n")
	}
	if len(vectors) < 300 {
		t.Fatalf("only %d vectors", len(vectors))
	}
	got := decodeAll(t, lines.String(), "--rules", "reference")
	if len(got) != len(vectors) {
		t.Fatalf("%d answers for %d lines", len(got), len(vectors))
	}
	for i, v := range vectors {
		g := got[i]
		reason := v.Code
		if o, ok := ours[reason]; ok {
			reason = o
		}
		if g.OK != v.OK || str(g.Type) != str(v.Type) || str(g.Canonical) != str(v.Canonical) {
			t.Errorf("%s: ok %v, type %q, want %v, %q; canonical %q, want %q", v.Name, g.OK, str(g.Type), v.OK, str(v.Type), str(g.Canonical), str(v.Canonical))
		}
		if r := str(g.Reason); r != reason && !(r == "other-version" && reason == "not-a-frame") {
			t.Errorf("%s: reason %q, want %q", v.Name, r, reason)
		}
		if g.OK != (g.Frame != nil) || g.OK && g.Frame["type"] != str(g.Type) {
			t.Errorf("%s: frame %v", v.Name, g.Frame)
		}
		if wrong := g.OK && len(g.Findings) == 0 != (v.Line == str(v.Canonical)); wrong {
			t.Errorf("%s: findings %v", v.Name, g.Findings)
		}
	}
}

func TestDecodeLines(t *testing.T) {
	long := "tclk1 " + strings.Repeat("a", 5*lineBuffer)
	chat := strings.Repeat("b", 5*lineBuffer)
	stdin := strings.Join([]string{
		heartbeat, heartbeat + "\r", "", long, "hello", chat, "tclk2 {}", strings.Replace(heartbeat, ":", ": ", 1),
		"tclk1 {\"type\":\"<b>\x1b[0m\"}", heartbeat, // no line end after the last
	}, "\n")
	type answer struct{ reason, finding string }
	want := []answer{
		{"", ""},
		{"", ""},
		{"not-a-frame", ""},
		{"line-too-long", ""},
		{"not-a-frame", ""},
		{"not-a-frame", ""},
		{"other-version", ""},
		{"", "noncanonical-line"},
		{"line-not-ascii", ""},
		{"", ""},
	}
	got := decodeAll(t, stdin)
	if len(got) != len(want) {
		t.Fatalf("%d answers for %d lines", len(got), len(want))
	}
	for i, w := range want {
		g := got[i]
		if g.OK != (w.reason == "") || str(g.Reason) != w.reason || strings.Join(g.Findings, ",") != w.finding {
			t.Errorf("line %d: %+v, want %+v", i+1, g, w)
		}
	}
	if d := str(got[3].Detail); !strings.Contains(d, "65536 bytes") {
		t.Errorf("the long line's detail is %q", d)
	}
	if got := decodeAll(t, ""); len(got) != 0 {
		t.Errorf("no input gives %v", got)
	}
	if got := decodeAll(t, heartbeat, "-"); len(got) != 1 || !got[0].OK {
		t.Errorf("decode -: %v", got)
	}
}

// TestDecodeRules: the reference keeps the last of two members.
func TestDecodeRules(t *testing.T) {
	line := strings.Replace(heartbeat, `"type":"heartbeat"`, `"type":"cancel","type":"heartbeat"`, 1)
	if g := decodeAll(t, line)[0]; str(g.Reason) != "duplicate-member" {
		t.Errorf("spec: %+v", g)
	}
	if g := decodeAll(t, line, "--rules", "reference")[0]; !g.OK || len(g.Findings) != 1 {
		t.Errorf("reference: %+v", g)
	}
}

// TestDecodeAnswersAtOnce: who writes one line and waits gets its answer.
func TestDecodeAnswersAtOnce(t *testing.T) {
	in, say := io.Pipe()
	hear, out := io.Pipe()
	done := make(chan int)
	go func() {
		done <- run(t.Context(), []string{"decode"}, in, out, io.Discard)
		out.Close()
	}()
	answer := make([]byte, 4096)
	for range 3 {
		if _, err := io.WriteString(say, heartbeat+"\n"); err != nil {
			t.Fatal(err)
		}
		n, err := hear.Read(answer)
		if err != nil || !bytes.HasSuffix(answer[:n], []byte("}\n")) {
			t.Fatalf("%q, %v", answer[:n], err)
		}
	}
	say.Close()
	if code := <-done; code != 0 {
		t.Errorf("exit %d", code)
	}
}

func TestDecodeReadError(t *testing.T) {
	var out, errs bytes.Buffer
	broken := io.MultiReader(strings.NewReader(heartbeat+"\n"), iotest.ErrReader(errors.New("the disk is gone")))
	if code := run(t.Context(), []string{"decode"}, broken, &out, &errs); code != audit.ExitNotFinished {
		t.Errorf("exit %d, want %d", code, audit.ExitNotFinished)
	}
	if !strings.Contains(errs.String(), "the disk is gone") {
		t.Errorf("it said %q", errs.String())
	}
	if bytes.Count(out.Bytes(), []byte("\n")) != 1 {
		t.Errorf("the line before the error was not answered: %q", out.String())
	}
}
