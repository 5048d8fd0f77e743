package fold_test

import (
	"math"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/internal/testkit"
	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/verify"
)

// Where nothing is hostile, the auditor's fold of a contract is Apply, step by
// step: the same answers for the same reasons, with the same margins.
func TestFoldIsApplyInPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		w.opts.Rules = fold.Rules{}
		d := w.deals[0]
		w.deals = w.deals[:1]
		w.board.Post(d.Offerer.Signer, epoch, d.Offer)
		w.board.Post(d.Acceptor.Signer, epoch+1, d.Accept)
		room := w.room(d.RoomName())
		var frames []fold.Event
		now := epoch + 1
		for range rapid.IntRange(0, 12).Draw(t, "rows") {
			now += rapid.Int64Range(0, 600).Draw(t, "ms")
			who, f := w.drawFrame(t, d)
			if f.Type() <= protocol.TypeAccept || f.Sender() != who.DID {
				continue
			}
			room.Post(who, now, f)
			frames = append(frames, fold.Event{Frame: f, AtMs: now})
		}
		var s fold.State
		var outs []fold.Outcome
		for _, e := range append([]fold.Event{{Frame: d.Offer, AtMs: epoch}, {Frame: d.Accept, AtMs: epoch + 1}}, frames...) {
			var out fold.Outcome
			s, out = (fold.Rules{}).Apply(s, e)
			outs = append(outs, out)
		}
		c := w.fold(w.plainOrder()).Contract(d.ID())
		if c.Status != s.Status || c.Rail != s.Rail || c.RailRef != s.RailRef || c.Late != s.Late || len(c.Steps) != len(outs) {
			t.Fatalf("the fold says %s, %d steps; Apply says %s, %d", c.Status, len(c.Steps), s.Status, len(outs))
		}
		for i, o := range outs {
			got := c.Steps[i]
			margin := int64(math.MaxInt64)
			if got.MarginMs != nil {
				margin = *got.MarginMs
			}
			if got.OK != o.OK || got.Reason != o.Reason || o.Guarded != (got.MarginMs != nil) || o.Guarded && o.MarginMs != margin {
				t.Errorf("step %d: %v %s %d, Apply says %+v", i, got.OK, got.Reason, margin, o)
			}
		}
	})
}

// Keeping the stored lines changes nothing else.
func TestTextChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		w.drawRows(t, 16)
		w.drawJunk(t, epoch+500)
		plain := contracts(w.fold(w.plainOrder()))
		w.opts.KeepText = true
		text := contracts(w.fold(w.plainOrder()))
		lines := map[string]bool{}
		for _, r := range w.plainOrder() {
			lines[string(r.Text)] = true
		}
		for _, c := range text {
			for _, steps := range [][]fold.Step{c.Steps, c.ShadowSteps} {
				for i := range steps {
					if !steps[i].HasText || !lines[steps[i].Text] {
						t.Errorf("%s step %d: text %q was never posted", c.ID, i, steps[i].Text)
					}
					steps[i].Text, steps[i].HasText = "", false
				}
			}
		}
		if diff := gocmp.Diff(plain, text, compareStatements); diff != "" {
			t.Errorf("without (-) and with (+) texts:\n%s", diff)
		}
	})
}

// drawAny draws a frame in which everything that decodes may stand: edge
// numbers, empty and long words, foreign spellings.
func drawAny(t *rapid.T, d *testkit.Deal) protocol.Frame {
	id := rapid.SampledFrom([]protocol.ID{{}, d.ID(), d.Offer.ID, otherID}).Draw(t, "contract")
	from := rapid.SampledFrom([]string{d.Payer.DID, d.Payee.DID, strangerDID}).Draw(t, "from")
	word := rapid.SampledFrom([]string{"", "x", "escrow", strings.Repeat("r", 128), `"\`, "é\x00\u2028", "\xed\xa0\x80"}).Draw(t, "word")
	rail := rapid.SampledFrom([]string{"", "paper", "PaperRail", "old.rail", strings.Repeat("a", 64)}).Draw(t, "rail")
	ms := rapid.SampledFrom([]int64{1, epoch, 1<<53 - 1})
	switch rapid.IntRange(1, 8).Draw(t, "type") {
	case 1:
		o := *d.Offer
		o.From, o.Rails = from, []string{rail, rail}
		o.Amount = strings.Repeat("9", rapid.SampledFrom([]int{1, 18, 19, 20, 300}).Draw(t, "digits"))
		o.ExpiresMs, o.ClaimByMs, o.RefundAfterMs = ms.Draw(t, "expires"), ms.Draw(t, "claim"), ms.Draw(t, "refund")
		o.Job = &protocol.Job{Proto: word, ID: word, Context: word}
		o.ID = protocol.OfferID(&o)
		return &o
	case 2:
		a := *d.Accept
		a.From, a.Contract = from, id
		if rapid.Bool().Draw(t, "seal") {
			a.Contract = protocol.ContractID(d.Offer, &a)
		}
		return &a
	case 3:
		return &protocol.Lock{From: from, Contract: id, Rail: rail, Ref: word, Presig: &protocol.PreSignature{}}
	case 4:
		return &protocol.Reveal{From: from, Contract: id, Ref: word, Secret: d.Secret}
	case 5:
		return &protocol.Refund{From: from, Contract: id, Ref: word, Reason: word}
	case 6:
		return &protocol.Cancel{From: from, Contract: id, Reason: word}
	case 7:
		return &protocol.Receipt{From: from, Contract: id, Outcome: protocol.Status(rapid.IntRange(0, 6).Draw(t, "outcome")), Rail: rail, Ref: word}
	}
	return &protocol.Heartbeat{From: from, Contract: id, Nonce: "00", Note: word}
}

// Whatever frame stands wherever, at any time and seq: no panic, and the sums
// add up.
func TestAnyFrameAnywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		w.drawRows(t, 8)
		w.opts.KeepText = rapid.Bool().Draw(t, "texts")
		rows := w.plainOrder()
		a, v := fold.New(w.opts), verify.New()
		add := func(f *fold.Row) {
			f.Conflict = fold.Conflict(rapid.IntRange(0, 7).Draw(t, "conflict"))
			f.NotStrict = rapid.Bool().Draw(t, "not strict")
			f.Hidden = rapid.IntRange(0, 9).Draw(t, "hidden") == 0
			f.Source = uint32(rapid.IntRange(0, 2).Draw(t, "source"))
			a.Add(f)
		}
		for _, r := range rows {
			add(w.row(v, r))
			for rapid.IntRange(0, 2).Draw(t, "another") == 0 {
				d := rapid.SampledFrom(w.deals).Draw(t, "deal")
				f := drawAny(t, d)
				x := w.room("lobby").PostText(w.stranger(0), epoch, "")
				x.From = []byte(f.Sender())
				x.Room = rapid.SampledFrom([]string{protocol.BoardRoom, d.RoomName(), "lobby"}).Draw(t, "where")
				x.Seq = rapid.SampledFrom([]uint64{0, 1, 5, 1<<53 - 1}).Draw(t, "seq")
				x.Generation = rapid.SampledFrom([]uint64{0, 1, 2, 1 << 40}).Draw(t, "generation")
				x.TsMs = rapid.SampledFrom([]int64{math.MinInt64 / 4, -1, 0, epoch, math.MaxInt64 / 4}).Draw(t, "ts")
				x.Nonce = []byte(rapid.SampledFrom([]string{"0", "7", "18446744073709551615", "99999999999999999999999"}).Draw(t, "nonce"))
				row := w.row(v, x)
				row.Line = protocol.Decoded{Frame: f, Canonical: rapid.Bool().Draw(t, "canonical")}
				add(row)
			}
		}
		a.Finish()
		var n, byStatus int64
		for c := range a.Contracts() {
			n++
			if (c.Verdict == fold.Indeterminate) != (c.Evidence == fold.Incomplete) || (c.Verdict == fold.Contradicted) != (c.Evidence == fold.Conflicting) {
				t.Errorf("evidence %s, verdict %s", c.Evidence, c.Verdict)
			}
			if len(c.Possible) > 0 && c.Verdict != fold.Indeterminate {
				t.Errorf("possible outcomes of a contract that is %s", c.Verdict)
			}
		}
		sum := a.Summary()
		for _, k := range sum.ByStatus {
			byStatus += k
		}
		if o := sum.Offers; sum.Contracts != n || byStatus != n || o.Total != o.Proposed+o.Bound+o.Cancelled+o.Expired {
			t.Errorf("%d contracts yielded, %+v", n, sum)
		}
	})
}
