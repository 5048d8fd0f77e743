package fold_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/internal/testkit"
	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/verify"
)

const (
	claimBy = epoch + 1_800_000
	refundA = epoch + 3_600_000
)

// SPEC §4: duplicates and replays are rejections without state change. A
// stranger who posts a party's old row again moves nothing.
func TestReplayMovesNothing(t *testing.T) {
	t.Run("reveal before the lock", func(t *testing.T) {
		s := newScene()
		d, room := s.opened(testkit.Terms{})
		early := room.Post(d.Payee, epoch+10_000, d.Reveal())
		room.Post(d.Payer, epoch+20_000, d.Lock())
		room.Replay(early, epoch+30_000)
		c := one(t, s.audit(room), d)
		if c.Status != protocol.Locked {
			t.Errorf("status %s, want locked: the replay is a rejection", c.Status)
		}
	})
	t.Run("receipt before the end", func(t *testing.T) {
		s := newScene()
		d, room := s.opened(testkit.Terms{})
		early := room.Post(d.Payer, epoch+10_000, d.Receipt(d.Payer, protocol.Claimed))
		room.Post(d.Payer, epoch+20_000, d.Lock())
		room.Post(d.Payee, epoch+30_000, d.Reveal())
		room.Replay(early, epoch+40_000)
		if c := one(t, s.audit(room), d); len(c.Receipts) != 0 {
			t.Errorf("the early receipt was revived by its replay")
		}
	})
}

// An accept after the cancel finds a cancelled offer, whatever its time.
func TestExpiredAcceptAfterCancel(t *testing.T) {
	s := newScene()
	d, _ := s.deal(testkit.Terms{})
	s.board.Post(d.Offerer.Signer, epoch, d.Offer)
	s.board.Post(d.Offerer.Signer, epoch+1000, d.CancelOffer(""))
	s.board.Post(d.Acceptor.Signer, d.Offer.ExpiresMs, d.Accept)
	c := one(t, s.audit(), d)
	wantSteps(t, c, "+offer", "+cancel", "-accept wrong-status")
	if c.Status != protocol.Cancelled {
		t.Errorf("status %s, want cancelled", c.Status)
	}
}

// Two rows of one signer in swapped places: the nonce falls at the second, the
// first counts. Either shows that the order is not the venue's.
func TestSwappedRowsOfOneParty(t *testing.T) {
	for _, tc := range []struct {
		name string
		post func(d *testkit.Deal, room *testkit.Room)
	}{
		{"lock before the cancel that ended it", func(d *testkit.Deal, room *testkit.Room) {
			room.PostNonce(d.Payer, epoch+10_000, "1788600020000", protocol.CanonicalLine(d.Lock()))
			room.PostNonce(d.Payer, epoch+20_000, "1788600010000", protocol.CanonicalLine(d.Cancel(d.Payer, "")))
		}},
		{"second lock before the first", func(d *testkit.Deal, room *testkit.Room) {
			other := d.Lock()
			other.Ref = "other"
			room.PostNonce(d.Payer, epoch+10_000, "1788600020000", protocol.CanonicalLine(other))
			room.PostNonce(d.Payer, epoch+20_000, "1788600010000", protocol.CanonicalLine(d.Lock()))
		}},
		{"counted row falls", func(d *testkit.Deal, room *testkit.Room) {
			room.PostNonce(d.Payer, epoch+10_000, "1788600020000", "hello")
			room.PostNonce(d.Payer, epoch+20_000, "1788600010000", protocol.CanonicalLine(d.Lock()))
		}},
		{"counted heartbeat falls", func(d *testkit.Deal, room *testkit.Room) {
			room.PostNonce(d.Payer, epoch+10_000, "1788600020000", "hello")
			room.PostNonce(d.Payer, epoch+20_000, "1788600010000", protocol.CanonicalLine(d.Heartbeat(d.Payer, "")))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene()
			d, room := s.opened(testkit.Terms{})
			tc.post(d, room)
			c := one(t, s.audit(room), d)
			wantFate(t, c, c.Status, fold.Conflicting, fold.Contradicted)
			wantFinding(t, c, fold.NonceOrder, fold.Anomaly)
		})
	}
}

// The cancel that closes an offer is a row of the contract that comes too late:
// what is wrong with the row is wrong with the verdict.
func TestCancelRowIsEvidence(t *testing.T) {
	for _, tc := range []struct {
		name  string
		tweak func(*fold.Row)
		nonce string
	}{
		{"a copy lacks it", func(r *fold.Row) { r.Conflict = fold.ConflictMissing }, "1788600001000"},
		{"its nonce falls", nil, "5"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene()
			d, _ := s.deal(testkit.Terms{})
			s.board.Post(d.Offerer.Signer, epoch, d.Offer)
			cancel := s.board.PostNonce(d.Offerer.Signer, epoch+1000, tc.nonce, protocol.CanonicalLine(d.CancelOffer("")))
			s.board.Post(d.Acceptor.Signer, epoch+2000, d.Accept)
			s.tweak(cancel, tc.tweak)
			if tc.tweak == nil {
				delete(s.tweaks, cancel)
			}
			wantFate(t, one(t, s.audit(), d), protocol.Cancelled, fold.Conflicting, fold.Contradicted)
		})
	}
}

// Two records at one seq: neither can be trusted, the first no more than the
// second.
func TestTwoRecordsAtOneSeq(t *testing.T) {
	t.Run("board, beside the accept", func(t *testing.T) {
		s := newScene()
		d, room := s.opened(testkit.Terms{})
		s.board.Seq--
		s.board.PostText(s.stranger(0), epoch+2000, "hello")
		wantFate(t, one(t, s.audit(room), d), protocol.Accepted, fold.Conflicting, fold.Contradicted)
	})
	t.Run("deal room, beside the terminal step", func(t *testing.T) {
		s := newScene()
		d, room := s.opened(testkit.Terms{})
		room.Post(d.Payer, epoch+10_000, d.Lock())
		room.Post(d.Payee, epoch+20_000, d.Reveal())
		room.Seq--
		room.Post(d.Payer, refundA, d.Refund())
		wantFate(t, one(t, s.audit(room), d), protocol.Claimed, fold.Conflicting, fold.Contradicted)
	})
}

// A cancel on the board that names a contract cancels nothing, whoever sends
// it, and is reported.
func TestStrangersCancelOnTheBoardIsReported(t *testing.T) {
	s := newScene()
	d, room := s.opened(testkit.Terms{})
	c := d.Cancel(s.stranger(0), "")
	s.board.Post(s.stranger(0), epoch+2000, c)
	a := s.audit(room)
	n := len(found(one(t, a, d), fold.CancelNamesNoOffer))
	for _, f := range a.Findings() {
		if f.Code == fold.CancelNamesNoOffer {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d findings cancel-names-no-offer, want one", n)
	}
}

// A secret in sight exposes every contract with its statement, also one whose
// accept stands after the reveal.
func TestExposureReachesLaterAccepts(t *testing.T) {
	s := newScene()
	d, room := s.opened(testkit.Terms{})
	s.board.Post(d.Payer, epoch+10_000, d.Lock())
	s.board.Post(d.Payee, epoch+20_000, d.Reveal()) // in the wrong room, but in sight
	other := testkit.NewDeal(s.rand, s.keys.Party(3), s.keys.Party(4), testkit.Terms{})
	other.Accept.Statement = d.Accept.Statement
	other.Seal()
	other.Open(s.board, epoch+30_000)
	deals := other.NewRoom()
	deals.Post(other.Payer, epoch+40_000, other.Lock())
	a := s.audit(room, deals)
	if len(found(one(t, a, d), fold.SecretExposed)) == 0 {
		t.Error("the first contract's secret is in sight")
	}
	wantFinding(t, one(t, a, other), fold.SecretExposed, fold.Anomaly)
}

// Under offer-room, as elsewhere, nothing after the terminal step lowers the
// evidence.
func TestOfferRoomBoardGapAfterTheEnd(t *testing.T) {
	s := newScene()
	s.opts.Rules.OfferRoom = true
	d, room := s.opened(testkit.Terms{})
	s.board.Post(d.Payer, epoch+10_000, d.Lock())
	s.board.Post(d.Payee, epoch+20_000, d.Reveal())
	s.board.PostText(s.stranger(0), epoch+30_000, "hello")
	wantFate(t, one(t, s.audit(room), d), protocol.Claimed, fold.Complete, fold.Established)
	s.board.Skip(1)
	s.board.PostText(s.stranger(0), epoch+40_000, "hello")
	wantFate(t, one(t, s.audit(room), d), protocol.Claimed, fold.Complete, fold.Established)
}

// Under offer-room a hole in the deal room may hold a party's row, which would
// take the contract away from the board: it counts wherever the board ended,
// and whichever room is read first.
func TestOfferRoomDealRoomHole(t *testing.T) {
	s := newScene()
	s.opts.Rules.OfferRoom = true
	d, room := s.opened(testkit.Terms{})
	s.board.Post(d.Payer, epoch+10_000, d.Lock())
	s.board.Post(d.Payee, epoch+20_000, d.Reveal())
	room.PostText(s.stranger(0), epoch+30_000, "hello")
	room.Skip(1)
	room.PostText(s.stranger(0), epoch+40_000, "hello")
	c := one(t, s.audit(room), d)
	wantFate(t, c, protocol.Claimed, fold.Incomplete, fold.Indeterminate)
}

// Under offer-room the reference's fold is compared with the same switch on.
func TestOfferRoomDoesNotDiverge(t *testing.T) {
	s := newScene()
	s.opts.Rules.OfferRoom = true
	d, room := s.opened(testkit.Terms{})
	s.board.Post(d.Payer, epoch+10_000, d.Lock())
	s.board.Post(d.Payee, epoch+20_000, d.Reveal())
	who := s.stranger(0)
	room.PostText(who, epoch+30_000, fmt.Sprintf(`tclk1 {"contract":"%s","from":"%s","nonce":"00aa11bb","nonce":"00aa11bb","type":"heartbeat"}`, d.ID(), who.DID))
	wantNoFinding(t, one(t, s.audit(room), d), fold.RulesDiverge)
}

// A stranger's refused frame is nobody's root cause.
func TestStrangersRefusalIsNoRoot(t *testing.T) {
	s := newScene()
	d, room := s.opened(testkit.Terms{})
	junk := d.Lock()
	junk.From = s.stranger(0).DID
	room.Post(s.stranger(0), epoch+10_000, junk)
	room.Post(d.Payee, epoch+20_000, d.Reveal())
	room.Post(d.Payee, epoch+30_000, d.Receipt(d.Payee, protocol.Claimed))
	wantSteps(t, one(t, s.audit(room), d), "+offer", "+accept", "-lock not-payer", "-reveal wrong-status", "-receipt not-terminal cascade")
}

// More than 1 MiB of strangers' rows lies between two rows of the payer: the
// venue does not compare their nonces any more, and neither does the fold,
// although it shows only so many rows of strangers.
func TestFloodSeparatesNonces(t *testing.T) {
	s := newScene()
	s.trusted = true
	d, room := s.opened(testkit.Terms{})
	flood := func() {
		for i := range fold.StepLimit {
			room.PostText(s.stranger(0), epoch+2000+int64(i), "hello")
		}
	}
	flood()
	room.PostNonce(d.Payer, epoch+20_000, "100", "hello")
	flood()
	room.PostNonce(d.Payer, epoch+40_000, "50", protocol.CanonicalLine(d.Lock()))
	c := one(t, s.audit(room), d)
	wantFate(t, c, protocol.Locked, fold.Complete, fold.Open)
	if got, want := c.StepsOmitted, fold.StepLimit; got != want {
		t.Errorf("%d steps omitted, want %d", got, want)
	}
}

// The missing row may be a lock with another ref than the one in sight.
func TestPossibleKnowsAHiddenLock(t *testing.T) {
	s := newScene()
	d, room := s.opened(testkit.Terms{})
	room.PostText(s.stranger(0), epoch+5_000, "hello")
	room.Skip(1)
	room.Post(d.Payer, epoch+10_000, d.Lock())
	r := d.Reveal()
	r.Ref = "the ref of another lock"
	room.Post(d.Payee, epoch+20_000, r)
	c := one(t, s.audit(room), d)
	wantFate(t, c, protocol.Locked, fold.Incomplete, fold.Indeterminate)
	wantPossible(t, c, protocol.Claimed, protocol.Cancelled)
}

// Under the reference's rules a cancel on the board cancels nothing, so a gap
// cannot hide one that does.
func TestReferenceBoardGap(t *testing.T) {
	s := newScene()
	s.opts.Rules.Reference = true
	d, room := s.deal(testkit.Terms{})
	s.board.Post(d.Offerer.Signer, epoch, d.Offer)
	s.board.Skip(1)
	s.board.Post(d.Acceptor.Signer, epoch+2000, d.Accept)
	wantFate(t, one(t, s.audit(room), d), protocol.Accepted, fold.Complete, fold.Open)
}

// seq rises within each generation; going back to an old generation with a seq
// that it had already is a fall.
func TestSeqFallsAcrossGenerations(t *testing.T) {
	s := newScene()
	d, room := s.opened(testkit.Terms{})
	room.PostText(s.stranger(0), epoch+5_000, "one").Generation = 1
	room.PostText(s.stranger(0), epoch+6_000, "two").Generation = 1
	room.PostText(s.stranger(0), epoch+7_000, "three").Generation = 2
	r := room.Post(d.Payer, epoch+8_000, d.Lock())
	r.Generation, r.Seq = 1, 2
	wantFate(t, one(t, s.audit(room), d), protocol.Locked, fold.Conflicting, fold.Contradicted)
}

// Statements can be copied. A hundred thousand accepts with one statement, and
// its secret in sight, cost no more each than a few do.
func TestCopiedStatementsTakeLinearTime(t *testing.T) {
	took := func(n int) time.Duration {
		s := newScene()
		s.trusted = true
		d, room := s.opened(testkit.Terms{})
		room.Post(d.Payer, epoch+2000, d.Lock())
		for i := range n {
			r := d.Rival(s.keys.Party(10))
			r.Accept.Statement = d.Accept.Statement
			r.Seal()
			s.board.Post(r.Acceptor.Signer, epoch+3000+int64(i), r.Accept)
		}
		reveal := d.Reveal()
		reveal.From = s.stranger(0).DID
		room.Post(s.stranger(0), epoch+60_000, reveal)
		a := s.audit(room)
		start := time.Now()
		for range a.Contracts() {
		}
		return time.Since(start)
	}
	small, large := took(2_000), took(16_000)
	if large > 24*small && large > 500*time.Millisecond {
		t.Errorf("16,000 copies take %v, 2,000 take %v", large, small)
	}
}

// A stranger's accept of an unknown offer with the contract's first 16 digits
// does not lift the bound on what is kept of strangers' rows.
func TestDecoyAcceptKeepsTheBound(t *testing.T) {
	kept := func(decoy bool) uint64 {
		s := newScene()
		s.trusted = true
		d, room := s.opened(testkit.Terms{})
		if decoy {
			x := *d.Accept
			x.From, x.Ref[0] = s.stranger(1).DID, x.Ref[0]^1
			x.Contract[20] ^= 1
			s.board.Post(s.stranger(1), epoch+2000, &x)
		}
		a := fold.New(s.opts)
		v := verify.New()
		for _, r := range s.board.Rows {
			a.Add(s.row(v, r))
		}
		r := room.PostText(s.stranger(0), epoch+3000, "hello")
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range 6 * fold.StepLimit {
			f := s.row(v, r)
			f.Record.Seq += uint64(i)
			f.ID[0], f.ID[1], f.ID[2] = byte(i), byte(i>>8), byte(i>>16)
			a.Add(f)
		}
		a.Finish()
		runtime.GC()
		runtime.ReadMemStats(&after)
		one(t, a, d)
		runtime.KeepAlive(a)
		return after.HeapAlloc - before.HeapAlloc
	}
	plain, decoy := kept(false), kept(true)
	if decoy > 2*plain {
		t.Errorf("with the decoy %d bytes are kept, %d without", decoy, plain)
	}
}

// copies folds two copies of one deal room, the first read first.
func copies(t *testing.T, s *scene, d *testkit.Deal, first, second []*testkit.Row) *fold.Contract {
	t.Helper()
	a := fold.New(s.opts)
	v := verify.New()
	for source, rows := range [][]*testkit.Row{s.board.Rows, first, second} {
		for _, r := range rows {
			f := s.row(v, r)
			f.Source = uint32(source)
			a.Add(f)
		}
	}
	a.Finish()
	return one(t, a, d)
}

// A copy of a room with a spoilt signature does not hide the true row of the
// other copy, whichever is read first.
func TestSpoiltCopyDoesNotHideTheTrueRow(t *testing.T) {
	for _, spoiltFirst := range []bool{true, false} {
		t.Run(fmt.Sprint("spoilt first ", spoiltFirst), func(t *testing.T) {
			s := newScene()
			d, room := s.opened(testkit.Terms{})
			lock := room.Post(d.Payer, epoch+10_000, d.Lock())
			reveal := room.Post(d.Payee, epoch+20_000, d.Reveal())
			bad := *lock
			bad.Sig = append([]byte(nil), reveal.Sig...)
			good, spoilt := []*testkit.Row{lock, reveal}, []*testkit.Row{&bad, reveal}
			c := copies(t, s, d, good, spoilt)
			if spoiltFirst {
				c = copies(t, s, d, spoilt, good)
			}
			if c.Status != protocol.Claimed {
				t.Errorf("status %s, want claimed", c.Status)
			}
		})
	}
}

// Which of two sightings is the replay is told by the room's order, not by the
// order in which copies are read.
func TestReplayAcrossCopies(t *testing.T) {
	for _, youngFirst := range []bool{true, false} {
		t.Run(fmt.Sprint("young copy first ", youngFirst), func(t *testing.T) {
			s := newScene()
			d, room := s.opened(testkit.Terms{})
			hello := room.PostText(d.Payer, epoch+5_000, "hello")
			lock := room.Post(d.Payer, epoch+10_000, d.Lock())
			beat := room.Post(d.Payer, epoch+15_000, d.Heartbeat(d.Payer, ""))
			replay := room.Replay(hello, epoch+20_000)
			last := room.PostText(s.stranger(0), epoch+25_000, "bye")
			old, young := []*testkit.Row{hello, lock, beat}, []*testkit.Row{beat, replay, last}
			c := copies(t, s, d, old, young)
			if youngFirst {
				c = copies(t, s, d, young, old)
			}
			wantFate(t, c, protocol.Locked, fold.Complete, fold.Open)
			if f := wantFinding(t, c, fold.Replay, fold.Info); f.Seq != nil && *f.Seq != replay.Seq {
				t.Errorf("the replay is seq %d, want %d", *f.Seq, replay.Seq)
			}
		})
	}
}
