package report

import (
	"slices"
	"strings"

	"github.com/tclk-audit/tclk-audit/export"
	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/internal/audit"
	"github.com/tclk-audit/tclk-audit/protocol"
)

const (
	payerDID    = "did:key:z6MkrtxY5oCBWoKbUkWToTvWWMiQi2ceLKUWudVzaCVrGtV5"
	payeeDID    = "did:key:z6MkgsLhsq7ZeevjGzYD83JMG9SDJafjZVPUPSQWb6Uqhm78"
	strangerDID = "did:key:z6MkgtPtC4V6byqySinJykLYHMdkGxpXoG2gvHFGmRdKZReq"

	startMs     = int64(1780000000000)
	hour        = int64(3_600_000)
	expiresMs   = startMs + hour
	claimByMs   = startMs + 2*hour
	refundMs    = startMs + 3*hour
	lockMargin  = refundMs - (startMs + 240_000)
	claimMargin = refundMs - (startMs + 540_000)
)

func id(b byte) (id protocol.ID) {
	for i := range id {
		id[i] = b + byte(i)
	}
	return id
}

func rec(b byte) protocol.RecordID { return protocol.RecordID(id(b)) }

func ptr[T any](v T) *T { return &v }

// claimed is a clean contract from offer to receipt.
func claimed() *fold.Contract {
	contract := id(0x0a)
	room := protocol.DealRoom(contract)
	return &fold.Contract{
		ID: contract, Offer: id(0xe0), Room: room,
		Status: protocol.Claimed, Evidence: fold.Complete, Settlement: fold.NoValue, Verdict: fold.Established,
		AsOf: &fold.AsOf{Seq: 3, TsMs: startMs + 600_000}, LeansOn: []string{"ts", "row-order"},
		Binding: fold.Bound, Chosen: true,
		Outlook: fold.Outlook{Code: fold.Settled, AtMs: ptr(startMs + 600_000)},
		Payer:   payerDID, Payee: payeeDID, Lock: protocol.LockHash, Amount: "2500", Asset: "TEST",
		ClaimByMs: claimByMs, RefundAfterMs: refundMs, ExpiresMs: expiresMs,
		Rail: "paper", RailRef: "escrow-7", Presig: "absent",
		Steps: []fold.Step{
			{Room: protocol.BoardRoom, Seq: 1, TsMs: startMs, Type: protocol.TypeOffer, From: payerDID, OK: true, Record: rec(1)},
			{
				Room: protocol.BoardRoom, Seq: 2, TsMs: startMs + 60_000, Type: protocol.TypeAccept, From: payeeDID, OK: true,
				MarginMs: ptr(expiresMs - startMs - 60_000), Record: rec(2),
			},
			{
				Room: room, Seq: 1, TsMs: startMs + 240_000, Type: protocol.TypeLock, From: payerDID, OK: true,
				MarginMs: ptr(lockMargin), Record: rec(3), Rail: "paper", Ref: "escrow-7",
			},
			{
				Room: room, Seq: 2, TsMs: startMs + 540_000, Type: protocol.TypeReveal, From: payeeDID, OK: true,
				MarginMs: ptr(claimMargin), Record: rec(4), Ref: "escrow-7",
				Secret: ptr(protocol.Secret(id(0x50))), HasText: true, Text: `tclk1 {"contract":"0x0a0b"}`,
			},
			{
				Room: room, Seq: 3, TsMs: startMs + 600_000, Type: protocol.TypeReceipt, From: payerDID, OK: true,
				Record: rec(5), Outcome: protocol.Claimed, Rail: "paper", Ref: "escrow-7",
			},
		},
		Receipts: []fold.Receipt{{
			Room: room, Seq: 3, TsMs: startMs + 600_000, From: payerDID,
			Outcome: protocol.Claimed, Rail: "paper", Ref: "escrow-7", Record: rec(5),
		}},
		Findings: []fold.Finding{{
			Code: fold.NoValueRail, Severity: fold.Info, Contract: contract, Offer: id(0xe0),
			Detail: "rail paper moves nothing", Order: 7,
		}},
	}
}

// flipped is the same contract with its lock and reveal missing and a refund
// in sight: a hole that could hold them.
func flipped() *fold.Contract {
	c := claimed()
	c.ID, c.Room = id(0x1b), protocol.DealRoom(id(0x1b))
	c.Status, c.Evidence, c.Verdict = protocol.Refunded, fold.Incomplete, fold.Indeterminate
	c.Settlement = fold.Unverified
	c.Possible = []protocol.Status{protocol.Claimed, protocol.Cancelled}
	c.LeansOn = []string{"ts", "missing-rows"}
	c.Rail = "flop-htlc"
	c.Steps = c.Steps[:3:3]
	c.Steps[2].Room, c.Steps[2].Rail = c.Room, "flop-htlc"
	c.Steps = append(c.Steps,
		fold.Step{
			Room: c.Room, Seq: 4, TsMs: refundMs + 4_200, Type: protocol.TypeRefund, From: payerDID, OK: true,
			MarginMs: ptr(int64(4_200)), Record: rec(6), Ref: "escrow-7",
		},
		fold.Step{
			Room: c.Room, Seq: 5, TsMs: refundMs + 9_000, Type: protocol.TypeReveal, From: payeeDID,
			Reason: protocol.WrongStatus, Detail: "reveal in status refunded", CascadeOf: ptr(rec(6)), Record: rec(7),
		},
		fold.Step{
			Room: c.Room, Seq: 6, TsMs: refundMs + 9_500, From: strangerDID, OK: true, Ignored: true,
			Reason: protocol.NotAFrame, Record: rec(8), HasText: true, Text: "thanks, here is the report",
		},
		fold.Step{
			Room: c.Room, Seq: 7, TsMs: refundMs + 9_900, From: "bob", Reason: protocol.Unsigned,
			Detail: "no signature", Record: rec(9),
		},
		fold.Step{
			Room: c.Room, Seq: 8, TsMs: refundMs + 9_950, Type: protocol.TypeReveal, From: payeeDID,
			Reason: protocol.RefundWindowOpen, Detail: "the refund window is open", MarginMs: ptr(int64(-9_950)), Record: rec(10),
		})
	c.StepsOmitted = 12
	c.Receipts = nil
	c.Shadow = protocol.Claimed
	c.ShadowSteps = claimed().Steps[:2]
	c.Findings = []fold.Finding{
		{
			Code: fold.Gap, Severity: fold.Notice, Contract: c.ID, Room: c.Room, Seq: ptr(uint64(2)),
			Detail: "seq 2 to 3 missing", Order: 3,
		},
		{Code: fold.WrongRoom, Severity: fold.Info, Contract: c.ID, Room: protocol.BoardRoom, Detail: "2 frames in tclk-offers", Order: 9},
	}
	return c
}

// torn is a contract whose rows contradict each other.
func torn() *fold.Contract {
	c := claimed()
	c.ID, c.Room = id(0x2c), protocol.DealRoom(id(0x2c))
	c.Evidence, c.Verdict = fold.Conflicting, fold.Contradicted
	c.Binding, c.BoundTo, c.Late = fold.Superseded, id(0x0a), true
	c.Findings = []fold.Finding{
		{Code: fold.ConflictingMetadata, Severity: fold.Anomaly, Contract: c.ID, Room: c.Room, Seq: ptr(uint64(2)), Detail: "one record with two times", Order: 1},
		{Code: fold.LockOnSuperseded, Severity: fold.Anomaly, Contract: c.ID, Room: c.Room, Detail: "one payer locked two contracts of one offer", Order: 8},
	}
	return c
}

// lateAccept is a contract whose accept did not count.
func lateAccept() *fold.Contract {
	return &fold.Contract{
		ID: id(0x3d), Offer: id(0xe1), Room: protocol.DealRoom(id(0x3d)),
		Status: protocol.Proposed, Evidence: fold.Complete, Settlement: fold.SettlementNone, Verdict: fold.Open,
		AsOf: &fold.AsOf{Seq: 9, TsMs: expiresMs + 1}, LeansOn: []string{"ts"},
		Outlook: fold.Outlook{Code: fold.OfferHasLapsed, AtMs: ptr(expiresMs + 1)},
		Payer:   payerDID, Payee: payeeDID, Lock: protocol.LockPoint, Amount: "1", Asset: "FLOP",
		ClaimByMs: claimByMs, RefundAfterMs: refundMs, ExpiresMs: expiresMs,
		Steps: []fold.Step{
			{Room: protocol.BoardRoom, Seq: 8, TsMs: startMs, Type: protocol.TypeOffer, From: payeeDID, OK: true, Record: rec(20)},
			{
				Room: protocol.BoardRoom, Seq: 9, TsMs: expiresMs + 1, Type: protocol.TypeAccept, From: payerDID,
				Reason: protocol.OfferExpired, Detail: "the offer has expired", MarginMs: ptr(int64(-1)), Record: rec(21),
			},
		},
	}
}

// orphan is an accept whose offer is not in sight.
func orphan() *fold.Contract {
	return &fold.Contract{
		ID: id(0x4e), Offer: id(0xe2), Room: protocol.DealRoom(id(0x4e)),
		Evidence: fold.Incomplete, Verdict: fold.Indeterminate,
		Possible: []protocol.Status{protocol.Accepted, protocol.Locked, protocol.Claimed, protocol.Refunded, protocol.Cancelled},
		Outlook:  fold.Outlook{Code: fold.NoClock},
		Steps: []fold.Step{{
			Room: protocol.BoardRoom, Seq: 11, TsMs: startMs, Type: protocol.TypeAccept, From: strangerDID,
			Reason: protocol.NoContract, Detail: "no offer in sight that it accepts", Record: rec(30),
		}},
		Findings: []fold.Finding{{
			Code: fold.OfferNotInSight, Severity: fold.Info, Contract: id(0x4e), Offer: id(0xe2), Detail: "its offer is not among the rows", Order: 5,
		}},
	}
}

// board is a run with a contract of every kind.
func board() *Run {
	all := []*fold.Contract{claimed(), flipped(), torn(), lateAccept(), orphan()}
	return &Run{
		Rules: "spec+repair-nonces",
		Inputs: []audit.Input{
			{
				Path: "room/tclk-offers.jsonl", Room: "tclk-offers", RoomFrom: export.RoomFromFile, Rows: 11,
				SHA256: strings.Repeat("ab", 32), FirstSeq: ptr(uint64(1)), LastSeq: ptr(uint64(11)),
			},
			{Path: "-", Rows: 1234},
		},
		Skipped: []export.Skipped{{Path: "room/README.md", Reason: export.SkipName}},
		Malformed: []audit.MalformedRow{
			{Where: export.Position{Path: "room/tclk-offers.jsonl", Line: 7, Offset: 4711}, Reason: protocol.RowTime, Detail: "ts is no time"},
			{Where: export.Position{Path: "-", Line: 1234, Offset: 99999}, Reason: protocol.RowNotJSON, Torn: true},
		},
		Rows: audit.RowCounts{Total: 1245, Authentic: 1200, Repaired: 4, Unsigned: 30, Invalid: 6, Malformed: 3, Torn: 2, Duplicate: 5, NotFrames: 17},
		Summary: fold.Summary{
			Decoded:  [9]int64{protocol.TypeOffer: 9, protocol.TypeAccept: 5, protocol.TypeLock: 1},
			Rejected: map[protocol.Reason]int64{protocol.UnknownType: 2, protocol.BadField: 1, protocol.Unsigned: 0},
			Offers:   fold.OfferCounts{Total: 9, Proposed: 3, Bound: 4, Cancelled: 1, Expired: 1},
			ClockMs:  ptr(refundMs + 9_950),
			Omitted:  map[fold.Code]int64{fold.Gap: 41},
			Limits:   map[string]int64{"board frames of one contract": 7},
		},
		Contracts: slices.Values(all),
		Findings: []fold.Finding{
			{Code: fold.RoomFound, Severity: fold.Info, Room: "tclk-offers", Detail: "found by trying 3 rooms", Order: 0},
			{Code: fold.Gap, Severity: fold.Info, Room: "tclk-offers", Seq: ptr(uint64(6)), Detail: "seq 6 to 7 missing", Order: 4},
		},
		Exit: func() int { return 1 },
	}
}

// asked narrows the run to one contract.
func (r *Run) asked(c *fold.Contract) *Run {
	r.Contracts = slices.Values([]*fold.Contract{c})
	r.Asked = c
	return r
}
