package fold_test

import (
	"bufio"
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/internal/testkit"
	"github.com/tclk-audit/tclk-audit/protocol"
)

// The deadlines to the millisecond, and what remains until the outlook changes
// by itself.
func TestOutlook(t *testing.T) {
	const expires, refund = 1_000, 2_000
	for _, tc := range []struct {
		status          protocol.Status
		expires, refund int64
		now             int64
		code            string
		remaining       int64
	}{
		{protocol.Proposed, expires, refund, 0, fold.AwaitingAccept, 1_000},
		{protocol.Proposed, expires, refund, 999, fold.AwaitingAccept, 1},
		{protocol.Proposed, expires, refund, 1_000, fold.OfferHasLapsed, 0},
		{protocol.Proposed, expires, refund, math.MaxInt64, fold.OfferHasLapsed, 0},
		{protocol.Proposed, 3_000, refund, 1_999, fold.AwaitingAccept, 1},
		{protocol.Proposed, 3_000, refund, 2_000, fold.Lapsed, 0},
		{protocol.Proposed, 3_000, refund, 3_000, fold.OfferHasLapsed, 0},
		{protocol.Accepted, expires, refund, 1_999, fold.OpenToLock, 1},
		{protocol.Accepted, expires, refund, 2_000, fold.Lapsed, 0},
		{protocol.Locked, expires, refund, 500, fold.Funded, 1_500},
		{protocol.Locked, expires, refund, 1_999, fold.Funded, 1},
		{protocol.Locked, expires, refund, 2_000, fold.Refundable, 0},
		{protocol.Claimed, expires, refund, 1, fold.Settled, 0},
		{protocol.Refunded, expires, refund, 5_000, fold.Settled, 0},
		{protocol.Cancelled, expires, refund, 1, fold.CancelledEnd, 0},
	} {
		now := tc.now
		got := fold.OutlookAt(tc.status, tc.expires, tc.refund, &now)
		if got.Code != tc.code || got.MsRemaining != tc.remaining || got.AtMs == nil || *got.AtMs != tc.now {
			t.Errorf("%s at %d: %s, %d ms; want %s, %d ms", tc.status, tc.now, got.Code, got.MsRemaining, tc.code, tc.remaining)
		}
		if none := fold.OutlookAt(tc.status, tc.expires, tc.refund, nil); none != (fold.Outlook{Code: fold.NoClock}) {
			t.Errorf("%s without a clock: %+v", tc.status, none)
		}
	}
}

// The reference's funding outlook. It differs by name: what it calls funded is
// any contract with a lock; here a lock is funded while a reveal would claim, with
// the time that remains, and refundable from then on. Its unreadable clock is no
// clock here.
func TestOutlookAgreesWithTheReference(t *testing.T) {
	f, err := os.Open("../testdata/conformance/extras/outlook.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	statuses := map[string]protocol.Status{}
	for s := protocol.Proposed; s <= protocol.Cancelled; s++ {
		statuses[s.String()] = s
	}
	n := 0
	for sc := bufio.NewScanner(f); sc.Scan(); n++ {
		var want struct {
			Status, Code                                 string
			ExpiresMs, RefundAfterMs, NowMs, MsRemaining int64
		}
		if err := json.Unmarshal(sc.Bytes(), &want); err != nil {
			t.Fatalf("line %d: %v", n+1, err)
		}
		switch want.Code {
		case "unreadable-clock":
			want.Code = fold.NoClock
		case "funded":
			if want.MsRemaining = want.RefundAfterMs - want.NowMs; want.MsRemaining <= 0 {
				want.Code, want.MsRemaining = fold.Refundable, 0
			}
		}
		got := fold.OutlookAt(statuses[want.Status], want.ExpiresMs, want.RefundAfterMs, &want.NowMs)
		if got.Code != want.Code || got.MsRemaining != want.MsRemaining {
			t.Errorf("%s: %s, %d ms; want %s, %d ms", sc.Text(), got.Code, got.MsRemaining, want.Code, want.MsRemaining)
		}
	}
	if n < 50 {
		t.Errorf("only %d lines", n)
	}
}

// The outlook goes by the venue's clock, the greatest time of a row that
// counts, unless the caller brings one.
func TestOutlookClock(t *testing.T) {
	s := newScene()
	d, room := s.locked()
	s.board.PostText(s.stranger(0), refundA-5, "hello")
	s.board.Say("alice", refundA+1_000, "nobody's word")
	s.board.PostText(s.stranger(0), refundA-10, "later, by an earlier clock")
	if o := one(t, s.audit(room), d).Outlook; o.Code != fold.Funded || o.MsRemaining != 5 {
		t.Errorf("%s, %d ms", o.Code, o.MsRemaining)
	}
	now := refundA
	s.opts.NowMs = &now
	c := one(t, s.audit(room), d)
	if c.Outlook.Code != fold.Refundable || c.Status != protocol.Locked {
		t.Errorf("%s, %s", c.Outlook.Code, c.Status)
	}
	late, _ := s.deal(testkit.Terms{})
	if got := fold.OutlookAt(protocol.Proposed, late.Offer.ExpiresMs, late.Offer.RefundAfterMs, &now).Code; got != fold.OfferHasLapsed {
		t.Errorf("%s", got)
	}
}
