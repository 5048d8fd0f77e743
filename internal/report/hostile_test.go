package report

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"github.com/tclk-audit/tclk-audit/export"
	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/protocol"
)

// nasty are texts that do harm where they are shown as they are.
var nasty = []string{
	"\x1b[2J\x1b]0;owned\a", "\x1b[31mred", "<script>alert(1)</script>", "&lt;", "\x00", "\x7f", "\u009b31m",
	"a\nb", "a\r\nb", "\u202egnp.exe", "\u2028", "\"},{\"x\":\"", "\\", "\\u0041", "\xff\xfe", "\xed\xa0\x80", "é", "𝕏",
	"$(reboot)", "`id`", "%s%n", "did:key:z6Mk\x1b[0m",
}

func hostileText() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.SampledFrom(nasty),
		rapid.String(),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 40), func(b []byte) string { return string(b) }),
	)
}

// hostile is a contract with a stranger's text wherever a string fits.
func hostile(t *rapid.T) *fold.Contract {
	text := func(name string) string { return hostileText().Draw(t, name) }
	c := rapid.SampledFrom([]func() *fold.Contract{claimed, flipped, torn, lateAccept, orphan}).Draw(t, "shape")()
	c.Room, c.Payer, c.Payee = text("room"), text("payer"), text("payee")
	c.Amount, c.Asset, c.Rail, c.RailRef, c.Presig = text("amount"), text("asset"), text("rail"), text("ref"), text("presig")
	c.LeansOn = []string{text("fact")}
	c.Outlook.Code = text("outlook")
	steps := []*fold.Step{}
	for i := range c.Steps {
		steps = append(steps, &c.Steps[i])
	}
	for i := range c.ShadowSteps {
		steps = append(steps, &c.ShadowSteps[i])
	}
	for _, s := range steps {
		s.Room, s.From, s.Detail = text("room"), text("from"), text("detail")
		s.Text, s.HasText, s.Rail, s.Ref = text("text"), true, text("rail"), text("ref")
	}
	for i := range c.Receipts {
		r := &c.Receipts[i]
		r.Room, r.From, r.Rail, r.Ref = text("room"), text("from"), text("rail"), text("ref")
	}
	for i := range c.Findings {
		f := &c.Findings[i]
		f.Room, f.Detail = text("room"), text("detail")
	}
	return c
}

// TestHostileText holds that no form lets anything through but printable
// ASCII and newlines, whatever the rows hold and whatever is asked for.
func TestHostileText(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := hostile(rt)
		text := func(name string) string { return hostileText().Draw(rt, name) }
		run := func() *Run {
			r := board()
			r.Rules = "spec"
			r.Inputs[0].Path, r.Inputs[0].Room = text("path"), text("room")
			r.Skipped = []export.Skipped{{Path: text("path"), Reason: export.SkipNotRows, Detail: text("why")}}
			r.Malformed[0].Where.Path, r.Malformed[0].Detail, r.Missing = text("path"), text("detail"), text("asked")
			r.Findings[0].Detail, r.Findings[0].Room = text("detail"), text("room")
			r.Contracts = slices.Values([]*fold.Contract{c})
			return r
		}
		show := Show{Secrets: rapid.Bool().Draw(rt, "secrets"), Text: rapid.Bool().Draw(rt, "text")}
		for name, out := range forms(t, run, c, show) {
			for i, b := range out {
				if b != '\n' && (b < 0x20 || b > 0x7e) {
					rt.Fatalf("%s: byte %#x at %d: %q", name, b, i, out[max(0, i-20):min(len(out), i+20)])
				}
			}
			if name == "verify.json" || name == "contract.json" {
				if bytes.ContainsAny(out, "<>&") {
					rt.Fatalf("%s: markup", name)
				}
				if !jsontext.Value(out).IsValid() && utf8.ValidString(c.Amount) {
					// a lone surrogate is the one thing that strict JSON minds
					if !json.Valid(out) {
						rt.Fatalf("%s is not JSON: %s", name, out)
					}
				}
			}
		}
	})
}

// TestWordsOfRowsAreHidden holds that the forms for a person show a word that
// a row brought only if it is plain, and the stored line only if asked.
func TestWordsOfRowsAreHidden(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := rapid.SampledFrom([]func() *fold.Contract{claimed, flipped, torn, lateAccept, orphan}).Draw(rt, "shape")()
		evil := func(name string) string { return "<evil " + hostileText().Draw(rt, name) + ">" }
		c.Amount, c.Asset, c.Rail, c.RailRef = evil("amount"), evil("asset"), evil("rail"), evil("ref")
		c.Payer = evil("payer")
		for i := range c.Steps {
			s := &c.Steps[i]
			s.From, s.Rail, s.Ref, s.Text, s.HasText = evil("from"), evil("rail"), evil("ref"), evil("text"), true
		}
		for i := range c.Receipts {
			r := &c.Receipts[i]
			r.From, r.Rail, r.Ref = evil("from"), evil("rail"), evil("ref")
		}
		run := func() *Run { return &Run{Contracts: slices.Values([]*fold.Contract{c}), Exit: func() int { return 0 }} }
		for name, out := range forms(t, run, c, Show{}) {
			if bytes.Contains(out, []byte("<evil")) {
				rt.Fatalf("%s shows it", name)
			}
		}
	})
}

// TestStringsSurvive holds that an escaped string says what the original said.
func TestStringsSurvive(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := rapid.String().Draw(rt, "s")
		var back string
		if err := json.Unmarshal(AppendString(nil, s), &back); err != nil {
			rt.Fatal(err)
		}
		if back != s {
			rt.Fatalf("%q came back as %q", s, back)
		}
	})
	for _, c := range []struct{ in, want string }{
		{"\xed\xa0\x80", `"\ud800"`}, // a lone surrogate keeps its code
		{"a\xed\xb0\x80", `"a\udc00"`},
		{"\xff", `"\ufffd"`},
		{"\xed\xa0", `"\ufffd\ufffd"`},
		{"<>&\x7f\x1b\n", `"\u003c\u003e\u0026\u007f\u001b\n"`},
		{"𝕏", `"\ud835\udd4f"`},
		{`"\`, `"\"\\"`},
	} {
		if got := string(AppendString(nil, c.in)); got != c.want {
			t.Errorf("AppendString(%q) = %s, want %s", c.in, got, c.want)
		}
	}
}

// TestDecodedFrameIsEscaped holds that a frame with a stranger's words comes
// out as ASCII that means the same.
func TestDecodedFrameIsEscaped(t *testing.T) {
	reason := "<b>&\x7f\x1b[0m é\xed\xa0\x80"
	d := protocol.Decoded{Frame: &protocol.Cancel{From: payerDID, Contract: id(1), Reason: reason}, Canonical: true}
	out := AppendDecoded(nil, &d, "cancel")
	for _, b := range out {
		if b != '\n' && (b < 0x20 || b > 0x7e || b == '<' || b == '&') {
			t.Fatalf("byte %#x in %s", b, out)
		}
	}
	var got struct {
		Canonical string
		Frame     struct{ Reason, Contract, Type string }
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	// encoding/json reads a lone surrogate as U+FFFD; the bytes keep it
	want := string(utf16.Decode([]uint16{0xd800}))
	if want := "<b>&\x7f\x1b[0m é" + want; got.Frame.Reason != want || got.Frame.Type != "cancel" {
		t.Errorf("the frame says %q, want %q", got.Frame.Reason, want)
	}
	if got.Canonical != protocol.CanonicalLine(d.Frame) {
		t.Errorf("canonical is %q", got.Canonical)
	}
	if !bytes.Contains(out, []byte(`\ud800`)) {
		t.Error("the lone surrogate is lost")
	}
}

func TestExplainEscapesUnasked(t *testing.T) {
	c := claimed()
	c.Asset, c.Rail, c.RailRef = "<b>", "a b", "\x1b[2J"
	c.Steps[2].Rail, c.Steps[2].Ref = c.Rail, c.RailRef
	out := render(t, func(w io.Writer) error { return Explain(w, c, ExplainOptions{Rules: "spec"}) })
	for _, bad := range []string{"<b>", "a b,", "[2J"} {
		if bytes.Contains(out, []byte(bad)) {
			t.Errorf("explain shows %q", bad)
		}
	}
	if !bytes.Contains(out, []byte("text(3 bytes, sha256 ")) {
		t.Error("explain does not say what it hides")
	}
}
