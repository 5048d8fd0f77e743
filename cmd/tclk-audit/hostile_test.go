package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tclk-audit/tclk-audit/internal/audit"
	"github.com/tclk-audit/tclk-audit/internal/testkit"
	"github.com/tclk-audit/tclk-audit/protocol"
)

// evil is text that does harm where it is shown as it is.
const evil = "\x1b[2J\x1b]0;owned\x07<script>alert(1)</script>&\x7f\u009b\u202e\u2028"

// evilFrame is the same without DEL, which no frame line can carry: it stands
// escaped on the line and as it is in the decoded string.
var evilFrame = strings.ReplaceAll(evil, "\x7f", "")

// hostileExport writes a board and a deal room with harm in every field that a
// stranger or a party can write, and returns the contract.
func hostileExport(t *testing.T, dir string) protocol.ID {
	t.Helper()
	keys := testkit.NewKeys(1)
	source := testkit.NewRand(1, "hostile")
	deal := testkit.NewDeal(source, keys.Party(0), keys.Party(1), testkit.Terms{})
	deal.Offer.Job = &protocol.Job{Proto: "a2a<b>", ID: evilFrame, Context: evilFrame}
	deal.Seal()
	board := testkit.NewBoard()
	deal.Open(board, testkit.Epoch)
	board.Say("nick", testkit.Epoch+2_000, evil)
	board.Say("<b>"+evil, testkit.Epoch+3_000, evil)
	board.PostText(keys.Signer(2), testkit.Epoch+4_000, `x","from":"y`+evil)
	board.Line(`{"seq":` + evil)
	board.PostText(keys.Signer(2), testkit.Epoch+5_000, `tclk1 {"type":"<b>`+evil+`"}`)
	board.PostText(keys.Signer(2), testkit.Epoch+6_000, `tclk1 {"type":"\u001b[2J<b>","<i>":1}`)
	room := deal.NewRoom()
	lock := deal.Lock()
	lock.Ref = "<script>alert(1)</script>"
	room.Post(deal.Payer, testkit.Epoch+10_000, lock)
	room.PostText(keys.Signer(3), testkit.Epoch+11_000, evil)
	room.Post(deal.Payee, testkit.Epoch+12_000, deal.Heartbeat(deal.Payee, evilFrame))
	room.Post(deal.Payee, testkit.Epoch+13_000, deal.Cancel(deal.Payee, evilFrame))
	reveal := deal.Reveal()
	reveal.Ref = lock.Ref
	room.Post(deal.Payee, testkit.Epoch+14_000, reveal)
	receipt := deal.Receipt(deal.Payer, protocol.Claimed)
	receipt.Ref = lock.Ref
	room.Post(deal.Payer, testkit.Epoch+15_000, receipt)
	if err := testkit.WriteFolder(dir, board, room); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"\x1b[31mred.jsonl", "<b>.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(evil+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return deal.ID()
}

func checkPrintable(t *testing.T, what, out string) {
	t.Helper()
	for i := range len(out) {
		if c := out[i]; c != '\n' && (c < 0x20 || c > 0x7e) {
			t.Errorf("%s: byte %#x in %q", what, c, out[max(0, i-60):min(len(out), i+20)])
			return
		}
	}
}

// TestHostileExport holds that nothing a row or a file name says reaches
// standard output or error unescaped, whatever the form and whatever is shown.
func TestHostileExport(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "export\x1b[0m")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	id := hostileExport(t, dir).String()
	for _, args := range [][]string{
		{"verify", dir},
		{"verify", "--all", dir},
		{"verify", "--json", dir},
		{"verify", "--jsonl", dir},
		{"verify", "--contract", id, dir},
		{"explain", dir, id},
		{"explain", "--json", dir, id},
	} {
		for _, show := range [][]string{nil, {"--show-secrets", "--show-text"}} {
			args := append(args[:len(args):len(args)], show...)
			code, out, errs := invoke(t, "", args...)
			if code != 1 { // the broken rows are malformed
				t.Errorf("%v: exit %d: %s", args[:2], code, errs)
			}
			what := strings.Join(args, " ")
			checkPrintable(t, what, out)
			checkPrintable(t, what+" (stderr)", errs)
			if strings.HasPrefix(args[1], "--json") {
				if strings.ContainsAny(out, "<>&") {
					t.Errorf("%v: markup in JSON", args)
				}
				for text := range strings.SplitAfterSeq(strings.TrimSpace(out), "\n}") {
					if args[1] == "--jsonl" {
						break
					}
					if text != "" && !json.Valid([]byte(text)) {
						t.Errorf("%v: no JSON", args)
					}
				}
			} else if show == nil && strings.Contains(out, "script") {
				t.Errorf("%v: shows a stranger's text unasked", args)
			}
		}
	}
	_, out, _ := invoke(t, "", "verify", "--json", dir)
	if !strings.Contains(out, `"railRef": "\u003cscript\u003ealert(1)\u003c/script\u003e"`) || !strings.Contains(out, `"status": "claimed"`) {
		t.Error("the hostile deal is not claimed under its own ref")
	}
}

// TestHostileNoise does the same with every kind of noise that a corpus has.
func TestHostileNoise(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "corpus")
	if code, _, errs := invoke(t, "", "gen", "--seed", "11", "--contracts", "300", "--noise", "all,escapes=2", "--out", dir); code != 0 {
		t.Fatalf("gen: %s", errs)
	}
	_, lines, _ := invoke(t, "", "verify", "--jsonl", dir)
	var ids []string
	for line := range strings.Lines(lines) {
		var c struct{ Contract string }
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			t.Fatal(err)
		}
		if c.Contract != "" {
			ids = append(ids, c.Contract)
		}
	}
	if len(ids) < 300 {
		t.Fatalf("only %d contracts", len(ids))
	}
	runs := [][]string{
		{"verify", dir}, {"verify", "--all", dir}, {"verify", "--json", "--show-text", "--show-secrets", dir},
		{"verify", "--jsonl", "--show-text", dir},
	}
	for i := 0; i < len(ids); i += 40 {
		runs = append(runs, []string{"explain", "--show-text", dir, ids[i]}, []string{"verify", dir, "--contract", ids[i]})
	}
	for _, args := range runs {
		code, out, errs := invoke(t, "", args...)
		if code == audit.ExitNotFinished || code == audit.ExitUsage || out == "" {
			t.Errorf("%v: exit %d: %s", args, code, errs)
		}
		checkPrintable(t, strings.Join(args, " "), out)
		checkPrintable(t, strings.Join(args, " ")+" (stderr)", errs)
	}
}
