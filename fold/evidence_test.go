package fold_test

import (
	"testing"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/internal/testkit"
	"github.com/tclk-audit/tclk-audit/protocol"
)

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

// What the rows of a deal room and of the board say about themselves, and how
// far that lowers a verdict: the exact evidence, verdict and possible outcomes.
func TestEvidence(t *testing.T) {
	established := fate{protocol.Claimed, fold.Complete, fold.Established}
	contradicted := fate{protocol.Claimed, fold.Conflicting, fold.Contradicted}
	incomplete := fate{protocol.Claimed, fold.Incomplete, fold.Indeterminate}
	quiet := []fold.Code{
		fold.Gap, fold.OrderViolation, fold.TimeViolation, fold.NonceOrder, fold.TimeUncorroborated, fold.StartsAfterFirst,
		fold.ConflictingMetadata, fold.ImpossibleRow, fold.SignatureNotStrict, fold.RulesDiverge, fold.Equivocation, fold.WrongRoom,
	}
	tell(t, []story{
		{
			name:  "nothing wrong",
			post:  func(s *scene) (*testkit.Deal, []*testkit.Room) { return rooms(s.claimed()) },
			fate:  established,
			steps: []string{"+offer", "+accept", "+lock", "+reveal"},
			lacks: quiet,
		},
		{
			name: "a hole before the terminal step",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.locked()
				room.Skip(1)
				room.Post(d.Payee, epoch+20_000, d.Reveal())
				return rooms(d, room)
			},
			fate:  incomplete,
			finds: []find{{fold.Gap, fold.Notice}},
			check: func(t *testing.T, _ *scene, c *fold.Contract) {
				f := found(c, fold.Gap)[0]
				if f.Detail != "seq 2 is missing" || *f.Seq != 3 || f.Room != c.Room {
					t.Errorf("%+v", f)
				}
			},
		},
		{
			name: "a hole before the refund could hold the reveal",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.locked()
				room.Skip(3)
				room.Post(d.Payer, refundA, d.Refund())
				return rooms(d, room)
			},
			fate:     fate{protocol.Refunded, fold.Incomplete, fold.Indeterminate},
			possible: []protocol.Status{protocol.Claimed},
			finds:    []find{{fold.Gap, fold.Notice}},
		},
		{
			name: "a hole after the terminal step",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.claimed()
				room.Skip(1)
				room.Post(d.Payer, epoch+30_000, d.Receipt(d.Payer, protocol.Claimed))
				return rooms(d, room)
			},
			fate:  established,
			finds: []find{{fold.Gap, fold.Notice}},
		},
		{
			name: "an open contract with a hole",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.locked()
				room.Skip(1)
				room.PostText(d.Payee, epoch+20_000, "here it is")
				return rooms(d, room)
			},
			fate:     fate{protocol.Locked, fold.Incomplete, fold.Indeterminate},
			possible: []protocol.Status{protocol.Claimed},
		},
		{
			name: "an unsigned row leaves a hole",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.locked()
				room.PostText(d.Payee, epoch+15_000, "an old row").Sig = nil
				room.Post(d.Payee, epoch+20_000, d.Reveal())
				return rooms(d, room)
			},
			fate:  incomplete,
			steps: []string{"+offer", "+accept", "+lock", "-? unsigned", "+reveal"},
			finds: []find{{fold.Gap, fold.Notice}},
			lacks: []fold.Code{fold.ImpossibleRow},
		},
		{
			name: "an invalid row leaves a hole",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.locked()
				bad := room.Post(d.Payee, epoch+15_000, d.Cancel(d.Payee, ""))
				bad.Text = []byte(protocol.CanonicalLine(d.Reveal()))
				room.Post(d.Payee, epoch+20_000, d.Reveal())
				return rooms(d, room)
			},
			fate:  incomplete,
			steps: []string{"+offer", "+accept", "+lock", "-? signature-invalid", "+reveal"},
			finds: []find{{fold.Gap, fold.Notice}},
		},
		{
			name: "a bad row at the end of an open contract",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.locked()
				room.PostText(d.Payee, epoch+15_000, "an old row").Sig = nil
				return rooms(d, room)
			},
			fate:     fate{protocol.Locked, fold.Incomplete, fold.Indeterminate},
			possible: []protocol.Status{protocol.Claimed, protocol.Refunded},
			finds:    []find{{fold.Gap, fold.Notice}},
		},
		{
			name: "a bad row after the terminal step",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.claimed()
				room.PostText(d.Payee, epoch+30_000, "an old row").Sig = nil
				return rooms(d, room)
			},
			fate: established,
		},
		{
			name: "the room begins after its first row",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.opened(testkit.Terms{})
				room.Skip(1)
				room.Post(d.Payer, epoch+10_000, d.Lock())
				room.Post(d.Payee, epoch+20_000, d.Reveal())
				return rooms(d, room)
			},
			fate:     incomplete,
			possible: []protocol.Status{protocol.Cancelled},
			finds:    []find{{fold.StartsAfterFirst, fold.Notice}},
			lacks:    []fold.Code{fold.Gap},
		},
		{
			name: "a generation shows that a room rightly begins above 1",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.opened(testkit.Terms{})
				room.Skip(40)
				room.Post(d.Payer, epoch+10_000, d.Lock()).Generation = 2
				room.Post(d.Payee, epoch+20_000, d.Reveal()).Generation = 2
				return rooms(d, room)
			},
			fate:  established,
			lacks: quiet,
		},
		{
			name: "the first generation begins at 1",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.opened(testkit.Terms{})
				room.Skip(40)
				room.Post(d.Payer, epoch+10_000, d.Lock()).Generation = 1
				room.Post(d.Payee, epoch+20_000, d.Reveal()).Generation = 1
				return rooms(d, room)
			},
			fate:     incomplete,
			possible: []protocol.Status{protocol.Cancelled},
			finds:    []find{{fold.StartsAfterFirst, fold.Notice}},
		},
		{
			name: "an old venue begins a new life at 1",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.opened(testkit.Terms{})
				room.PostText(d.Payer, epoch+5_000, "hello").Generation = 1
				room.Seq = 0
				room.Post(d.Payer, epoch+10_000, d.Lock()).Generation = 2
				room.Post(d.Payee, epoch+20_000, d.Reveal()).Generation = 2
				return rooms(d, room)
			},
			fate:  established,
			lacks: quiet,
		},
		{
			name: "seq falls within one life",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.opened(testkit.Terms{})
				room.PostText(s.stranger(0), epoch+5_000, "hello")
				room.PostText(s.stranger(1), epoch+6_000, "hello").Seq = 1
				room.Seq = 2
				room.Rows[0].Seq = 2
				room.Post(d.Payer, epoch+10_000, d.Lock())
				room.Post(d.Payee, epoch+20_000, d.Reveal())
				return rooms(d, room)
			},
			fate:  contradicted,
			finds: []find{{fold.OrderViolation, fold.Anomaly}},
		},
		{
			name: "seq falls after the terminal step",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.claimed()
				room.PostText(s.stranger(0), epoch+30_000, "hello").Seq = 1
				return rooms(d, room)
			},
			fate:  established,
			finds: []find{{fold.OrderViolation, fold.Anomaly}},
		},
		{
			name: "seq falls on the board",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				s.board.PostText(s.stranger(0), epoch-2000, "hello").Seq = 2
				s.board.PostText(s.stranger(0), epoch-1000, "hello").Seq = 1
				return rooms(s.claimed())
			},
			fate: established,
		},
		{
			name: "one record at one seq with two times",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.locked()
				twin := *room.Rows[0]
				twin.TsMs++
				room.Rows = append(room.Rows, &twin)
				room.Post(d.Payee, epoch+20_000, d.Reveal())
				return rooms(d, room)
			},
			fate: contradicted,
			check: func(t *testing.T, _ *scene, c *fold.Contract) {
				if len(found(c, fold.ConflictingMetadata)) == 0 {
					t.Error("no finding conflicting-metadata")
				}
			},
		},
		{
			name: "a copy lacks a row before the terminal step",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.claimed()
				s.conflict(room.Rows[0], fold.ConflictMissing)
				return rooms(d, room)
			},
			fate:  contradicted,
			finds: []find{{fold.ConflictingMetadata, fold.Anomaly}},
		},
		{
			name: "a copy lacks a row after the terminal step",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.claimed()
				s.conflict(room.Post(d.Payer, epoch+30_000, d.Receipt(d.Payer, protocol.Claimed)), fold.ConflictMissing)
				return rooms(d, room)
			},
			fate:  established,
			finds: []find{{fold.ConflictingMetadata, fold.Anomaly}},
		},
		{
			name: "copies of the offer's row contradict each other",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.claimed()
				s.conflict(s.board.Rows[0], fold.ConflictTime)
				return rooms(d, room)
			},
			fate:  contradicted,
			finds: []find{{fold.ConflictingMetadata, fold.Anomaly}},
		},
		{
			name: "copies of somebody else's row on the board contradict each other",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				s.conflict(s.board.PostText(s.stranger(0), epoch-1000, "hello"), fold.ConflictTime)
				return rooms(s.claimed())
			},
			fate:  established,
			lacks: quiet,
		},
		{
			name: "a row that the venue cannot have stored",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.locked()
				room.Say("alice", epoch+15_000, "hello")
				room.Post(d.Payee, epoch+20_000, d.Reveal())
				return rooms(d, room)
			},
			fate:  contradicted,
			steps: []string{"+offer", "+accept", "+lock", "-? unsigned", "+reveal"},
			finds: []find{{fold.ImpossibleRow, fold.Anomaly}},
		},
		{
			name: "such a row after the terminal step",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.claimed()
				room.Say("alice", epoch+30_000, "hello")
				return rooms(d, room)
			},
			fate:  established,
			finds: []find{{fold.ImpossibleRow, fold.Anomaly}},
		},
		{
			name: "unsigned chat on the board is no hole",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.deal(testkit.Terms{})
				s.board.Post(d.Offerer.Signer, epoch, d.Offer)
				s.board.Say("alice", epoch+500, "hello")
				s.board.Post(d.Acceptor.Signer, epoch+1000, d.Accept)
				return rooms(d, room)
			},
			fate:  fate{protocol.Accepted, fold.Complete, fold.Open},
			lacks: quiet,
		},
		{
			name: "a row on the board that lost its signature could hide a cancel",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.deal(testkit.Terms{})
				s.board.Post(d.Offerer.Signer, epoch, d.Offer)
				s.board.Post(d.Offerer.Signer, epoch+500, d.CancelOffer("")).Sig = nil
				s.board.Post(d.Acceptor.Signer, epoch+1000, d.Accept)
				return rooms(d, room)
			},
			fate:     fate{protocol.Accepted, fold.Incomplete, fold.Indeterminate},
			possible: []protocol.Status{protocol.Cancelled},
		},
		{
			name: "a gap on the board between offer and accept could hide a cancel",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.deal(testkit.Terms{})
				s.board.Post(d.Offerer.Signer, epoch, d.Offer)
				s.board.Skip(1)
				s.board.Post(d.Acceptor.Signer, epoch+1000, d.Accept)
				return rooms(d, room)
			},
			fate:     fate{protocol.Accepted, fold.Incomplete, fold.Indeterminate},
			possible: []protocol.Status{protocol.Cancelled},
		},
		{
			name: "the offerer went on, so it had not cancelled",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.deal(testkit.Terms{})
				s.board.Post(d.Offerer.Signer, epoch, d.Offer)
				s.board.Skip(1)
				s.board.Post(d.Acceptor.Signer, epoch+1000, d.Accept)
				room.Post(d.Payer, epoch+10_000, d.Lock())
				room.Post(d.Payee, epoch+20_000, d.Reveal())
				return rooms(d, room)
			},
			fate: established,
		},
		{
			name: "the acceptor going on shows nothing about the offerer",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.deal(testkit.Terms{})
				s.board.Post(d.Offerer.Signer, epoch, d.Offer)
				s.board.Skip(1)
				s.board.Post(d.Acceptor.Signer, epoch+1000, d.Accept)
				room.Post(d.Payee, epoch+10_000, d.Heartbeat(d.Payee, ""))
				return rooms(d, room)
			},
			fate:     fate{protocol.Accepted, fold.Incomplete, fold.Indeterminate},
			possible: []protocol.Status{protocol.Cancelled},
		},
		{
			name: "gaps on the board elsewhere are normal",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				s.board.Skip(1000)
				s.board.PostText(s.stranger(0), epoch-1000, "hello")
				s.board.Skip(1)
				d, room := s.claimed()
				s.board.Skip(1)
				s.board.PostText(s.stranger(0), epoch+5000, "hello")
				return rooms(d, room)
			},
			fate:  established,
			lacks: []fold.Code{fold.Gap},
		},
		{
			name: "a party's nonce falls at a counted row",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.opened(testkit.Terms{})
				room.PostNonce(d.Payer, epoch+9_000, "12", "hello")
				room.PostNonce(d.Payer, epoch+10_000, "11", protocol.CanonicalLine(d.Lock()))
				room.Post(d.Payee, epoch+20_000, d.Reveal())
				return rooms(d, room)
			},
			fate:  contradicted,
			finds: []find{{fold.NonceOrder, fold.Anomaly}},
		},
		{
			name: "equal nonces of two records do not fall",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.opened(testkit.Terms{})
				room.PostNonce(d.Payer, epoch+9_000, "11", "hello")
				room.PostNonce(d.Payer, epoch+10_000, "11", protocol.CanonicalLine(d.Lock()))
				room.Post(d.Payee, epoch+20_000, d.Reveal())
				return rooms(d, room)
			},
			fate:  established,
			lacks: quiet,
		},
		{
			name: "a stranger's nonce falls",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.locked()
				room.PostNonce(s.stranger(0), epoch+11_000, "12", "hello")
				room.PostNonce(s.stranger(0), epoch+12_000, "11", "hello")
				room.Post(d.Payee, epoch+20_000, d.Reveal())
				return rooms(d, room)
			},
			fate:  established,
			finds: []find{{fold.NonceOrder, fold.Info}},
		},
		{
			name: "a party's nonce falls where nothing counts",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.locked()
				room.PostNonce(d.Payee, epoch+11_000, "12", "hello")
				room.PostNonce(d.Payee, epoch+12_000, "11", "hello again")
				room.Post(d.Payee, epoch+20_000, d.Reveal())
				return rooms(d, room)
			},
			fate:  established,
			finds: []find{{fold.NonceOrder, fold.Info}},
		},
		{
			name: "a party's nonce falls after the terminal step",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.claimed()
				room.PostNonce(d.Payer, epoch+30_000, "5", protocol.CanonicalLine(d.Receipt(d.Payer, protocol.Claimed)))
				return rooms(d, room)
			},
			fate:  established,
			finds: []find{{fold.NonceOrder, fold.Info}},
		},
		{
			name: "a nonce falls in a new life",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.opened(testkit.Terms{})
				room.PostNonce(d.Payer, epoch+9_000, "12", "hello").Generation = 1
				room.PostNonce(d.Payer, epoch+10_000, "11", protocol.CanonicalLine(d.Lock())).Generation = 2
				room.Post(d.Payee, epoch+20_000, d.Reveal()).Generation = 2
				return rooms(d, room)
			},
			fate:  established,
			lacks: quiet,
		},
		{
			name: "nonces beyond 64 bits never seem to fall",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.opened(testkit.Terms{})
				room.PostNonce(d.Payer, epoch+9_000, "99999999999999999999999", "hello")
				room.PostNonce(d.Payer, epoch+10_000, "99999999999999999999998", protocol.CanonicalLine(d.Lock()))
				room.Post(d.Payee, epoch+20_000, d.Reveal())
				return rooms(d, room)
			},
			fate: established,
		},
		{
			name: "the acceptor's nonce falls on the board",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.deal(testkit.Terms{})
				s.board.PostNonce(d.Acceptor.Signer, epoch-1000, "1788600009999", "hello")
				s.board.Post(d.Offerer.Signer, epoch, d.Offer)
				s.board.PostNonce(d.Acceptor.Signer, epoch+1000, "1788600001000", protocol.CanonicalLine(d.Accept))
				room.Post(d.Payer, epoch+10_000, d.Lock())
				room.Post(d.Payee, epoch+20_000, d.Reveal())
				return rooms(d, room)
			},
			fate:  contradicted,
			finds: []find{{fold.NonceOrder, fold.Anomaly}},
		},
		{
			name: "time falls, but far from every deadline",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.opened(testkit.Terms{})
				room.Post(d.Payer, epoch+20_000, d.Lock())
				room.Post(d.Payee, epoch+10_000, d.Reveal())
				return rooms(d, room)
			},
			fate:  established,
			finds: []find{{fold.TimeViolation, fold.Notice}},
		},
		{
			name: "time falls by more than a deadline's margin",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.opened(testkit.Terms{})
				room.Post(d.Payer, refundA-1_000, d.Lock())
				room.PostNonce(d.Payee, refundA-2_001, "9", protocol.CanonicalLine(d.Reveal()))
				return rooms(d, room)
			},
			fate:     incomplete,
			possible: []protocol.Status{protocol.Accepted},
			finds:    []find{{fold.TimeViolation, fold.Notice}, {fold.LateReveal, fold.Notice}},
		},
		{
			name: "time falls by no more than the margin",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.opened(testkit.Terms{})
				room.Post(d.Payer, refundA-1_000, d.Lock())
				room.PostNonce(d.Payee, refundA-2_000, "9", protocol.CanonicalLine(d.Reveal()))
				return rooms(d, room)
			},
			fate:  established,
			finds: []find{{fold.TimeViolation, fold.Notice}},
		},
		{
			name: "time falls at rows that do not count",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.locked()
				room.PostText(s.stranger(0), 1, "hello")
				room.PostText(d.Payer, 2, "hello")
				room.Post(d.Payee, epoch+20_000, d.Reveal())
				return rooms(d, room)
			},
			fate:  established,
			lacks: []fold.Code{fold.TimeViolation},
		},
		{
			name: "a row's time is off its sender's own clock",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.locked()
				room.PostNonce(d.Payee, epoch+11_000, "1788600010950", "on it")
				room.PostNonce(d.Payee, refundA-1_000, "1788603603000", protocol.CanonicalLine(d.Reveal()))
				return rooms(d, room)
			},
			fate:  established,
			finds: []find{{fold.TimeUncorroborated, fold.Notice}},
		},
		{
			name: "a row's time agrees with its sender's clock",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.locked()
				room.PostNonce(d.Payee, epoch+11_000, "1788600010950", "on it")
				room.PostNonce(d.Payee, refundA-1_000, "1788603599000", protocol.CanonicalLine(d.Reveal()))
				return rooms(d, room)
			},
			fate:  established,
			lacks: []fold.Code{fold.TimeUncorroborated},
		},
		{
			name: "nonces in microseconds and nanoseconds are clocks, too",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.locked()
				room.PostNonce(d.Payee, epoch+11_000, "1788600010950123", "on it")
				room.PostNonce(d.Payee, refundA-1_000, "1788603603000123456", protocol.CanonicalLine(d.Reveal()))
				return rooms(d, room)
			},
			fate:  established,
			finds: []find{{fold.TimeUncorroborated, fold.Notice}},
		},
		{
			name: "nonces that are no clock say nothing about time",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.locked()
				room.PostNonce(d.Payee, epoch+11_000, "1700000000001", "on it")
				room.PostNonce(d.Payee, refundA-1_000, "1700000000002", protocol.CanonicalLine(d.Reveal()))
				return rooms(d, room)
			},
			fate:  established,
			lacks: []fold.Code{fold.TimeUncorroborated},
		},
		{
			name: "a counted step's signature is not strict",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.claimed()
				s.tweak(room.Rows[1], func(r *fold.Row) { r.NotStrict = true })
				return rooms(d, room)
			},
			fate:  contradicted,
			finds: []find{{fold.SignatureNotStrict, fold.Anomaly}},
		},
		{
			name: "the accept's signature is not strict",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.claimed()
				s.tweak(s.board.Rows[1], func(r *fold.Row) { r.NotStrict = true })
				return rooms(d, room)
			},
			fate:  contradicted,
			finds: []find{{fold.SignatureNotStrict, fold.Anomaly}},
		},
		{
			name: "a row that does not count has a signature that is not strict",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.locked()
				s.tweak(room.PostText(s.stranger(0), epoch+11_000, "hello"), func(r *fold.Row) { r.NotStrict = true })
				room.Post(d.Payee, epoch+20_000, d.Reveal())
				return rooms(d, room)
			},
			fate:  established,
			lacks: []fold.Code{fold.SignatureNotStrict},
		},
		{
			name: "no lock, no look at signatures",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.opened(testkit.Terms{})
				s.tweak(s.board.Rows[1], func(r *fold.Row) { r.NotStrict = true })
				return rooms(d, room)
			},
			fate:  fate{protocol.Accepted, fold.Complete, fold.Open},
			lacks: []fold.Code{fold.SignatureNotStrict},
		},
		{
			name: "a party's row with a repaired nonce is not folded",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.locked()
				s.repaired(room.Post(d.Payee, epoch+20_000, d.Reveal()))
				return rooms(d, room)
			},
			fate:     fate{protocol.Locked, fold.Incomplete, fold.Indeterminate},
			possible: []protocol.Status{protocol.Claimed},
			steps:    []string{"+offer", "+accept", "+lock", "-reveal signature-invalid"},
			finds:    []find{{fold.NonceRepaired, fold.Notice}},
			lacks:    []fold.Code{fold.Gap},
		},
		{
			name:  "repair-nonces folds it",
			rules: fold.Rules{RepairNonces: true},
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.locked()
				s.repaired(room.Post(d.Payee, epoch+20_000, d.Reveal()))
				return rooms(d, room)
			},
			fate:  established,
			steps: []string{"+offer", "+accept", "+lock", "+reveal"},
			finds: []find{{fold.NonceRepaired, fold.Notice}},
		},
		{
			name: "a stranger's row with a repaired nonce only fills its place",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.locked()
				s.repaired(room.PostText(s.stranger(0), epoch+11_000, "hello"))
				room.Post(d.Payee, epoch+20_000, d.Reveal())
				return rooms(d, room)
			},
			fate:  established,
			finds: []find{{fold.NonceRepaired, fold.Notice}},
			lacks: []fold.Code{fold.Gap},
		},
		{
			name: "a party's repaired row after the terminal step",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, room := s.claimed()
				s.repaired(room.Post(d.Payer, epoch+30_000, d.Receipt(d.Payer, protocol.Claimed)))
				return rooms(d, room)
			},
			fate: established,
		},
		{
			name: "the deal room is not in sight",
			post: func(s *scene) (*testkit.Deal, []*testkit.Room) {
				d, _ := s.opened(testkit.Terms{})
				return d, nil
			},
			fate:     fate{protocol.Accepted, fold.Incomplete, fold.Indeterminate},
			possible: []protocol.Status{protocol.Locked, protocol.Claimed, protocol.Refunded, protocol.Cancelled},
			finds:    []find{{fold.DealRoomNotInSight, fold.Info}},
		},
		{
			name:  "an empty deal room is in sight",
			post:  func(s *scene) (*testkit.Deal, []*testkit.Room) { return rooms(s.opened(testkit.Terms{})) },
			fate:  fate{protocol.Accepted, fold.Complete, fold.Open},
			lacks: append([]fold.Code{fold.DealRoomNotInSight}, quiet...),
		},
	})
}

// A deal room whose offer and accept are nowhere: it is no verdict on anybody.
func TestNoAnchor(t *testing.T) {
	s := newScene()
	d, room := s.deal(testkit.Terms{})
	room.Post(d.Payer, epoch+10_000, d.Lock())
	room.Skip(1)
	room.Post(d.Payee, epoch+20_000, d.Reveal())
	a := s.audit(room)
	for c := range a.Contracts() {
		t.Errorf("contract %s is listed", c.ID)
	}
	var anchors, gaps int
	for _, f := range a.Findings() {
		switch f.Code {
		case fold.NoAnchor:
			anchors++
			if f.Severity != fold.Notice || f.Contract != d.ID() || f.Room != room.Name {
				t.Errorf("%+v", f)
			}
		case fold.Gap:
			gaps++
		}
	}
	if anchors != 1 || gaps != 1 {
		t.Errorf("%d findings no-anchor and %d gap, want one each", anchors, gaps)
	}
	if got := a.Summary().Rejected[protocol.NoContract]; got != 2 {
		t.Errorf("%d frames without a contract, want 2", got)
	}
}

// An accept whose offer lies before the first row in sight is listed, not
// judged.
func TestOfferNotInSight(t *testing.T) {
	s := newScene()
	d, room := s.deal(testkit.Terms{})
	s.board.Skip(1000)
	s.board.Post(d.Acceptor.Signer, epoch+1000, d.Accept)
	room.Post(d.Payer, epoch+10_000, d.Lock())
	room.PostText(d.Payee, epoch+11_000, "a deliverable")
	c := one(t, s.audit(room), d)
	wantFate(t, c, protocol.StatusNone, fold.Incomplete, fold.Indeterminate)
	wantPossible(t, c, protocol.Proposed, protocol.Accepted, protocol.Locked, protocol.Claimed, protocol.Refunded, protocol.Cancelled)
	wantSteps(t, c, "-accept no-contract", "-lock no-contract cascade", "~not-a-frame")
	wantFinding(t, c, fold.OfferNotInSight, fold.Info)
	if c.Offer != d.Offer.ID || c.Binding != fold.BindingNone || c.Payer != "" || c.Outlook.Code != fold.NoClock {
		t.Errorf("%+v", c)
	}
}

// signature-not-strict is looked for on every step where the caller asks for it.
func TestExactLooksAtEverySignature(t *testing.T) {
	s := newScene()
	s.opts.Exact = true
	d, room := s.opened(testkit.Terms{})
	s.tweak(room.PostText(s.stranger(0), epoch+5_000, "hello"), func(r *fold.Row) { r.NotStrict = true })
	c := one(t, s.audit(room), d)
	wantFinding(t, c, fold.SignatureNotStrict, fold.Anomaly)
	wantFate(t, c, protocol.Accepted, fold.Complete, fold.Open)
}

// An edited time shows at a row that it made too late, as it does at one that
// counts.
func TestRefusedRowIsOffItsSendersClock(t *testing.T) {
	s := newScene()
	d, room := s.locked()
	room.PostNonce(d.Payee, epoch+11_000, "1788600010950", "on it")
	room.PostNonce(d.Payee, refundA, "1788600020000", protocol.CanonicalLine(d.Reveal()))
	c := one(t, s.audit(room), d)
	wantSteps(t, c, "+offer", "+accept", "+lock", "~not-a-frame", "-reveal refund-window-open")
	wantFate(t, c, protocol.Locked, fold.Complete, fold.Open)
	wantFinding(t, c, fold.TimeUncorroborated, fold.Notice)
}

// A stranger's replay of a party's row bears the replay's time and the row's
// nonce: it says nothing about the party's clock.
func TestReplayIsNotOffItsSendersClock(t *testing.T) {
	s := newScene()
	d, room := s.opened(testkit.Terms{})
	early := room.Post(d.Payee, epoch+9_000, d.Reveal())
	room.Post(d.Payer, epoch+10_000, d.Lock())
	room.PostText(d.Payee, epoch+11_000, "on it")
	room.Replay(early, refundA)
	wantNoFinding(t, one(t, s.audit(room), d), fold.TimeUncorroborated)
}

// The venue compares a key's nonces over about 1 MiB of rows, and no further
// back: on the board as in a deal room.
func TestNonceWindowOnTheBoard(t *testing.T) {
	for _, rows := range []int{10, 6_000} {
		s := newScene()
		s.trusted = true
		d, room := s.deal(testkit.Terms{})
		s.board.PostNonce(d.Acceptor.Signer, epoch-1000, "1788600009999", "hello")
		s.board.Post(d.Offerer.Signer, epoch, d.Offer)
		size := 0
		for i := range rows {
			r := s.board.PostText(s.stranger(0), epoch+int64(i%1000), "hello")
			size += len(testkit.AppendRow(nil, &r.Record, 0)) + 1
		}
		s.board.PostNonce(d.Acceptor.Signer, epoch+1000, "1788600001000", protocol.CanonicalLine(d.Accept))
		want := fate{protocol.Accepted, fold.Conflicting, fold.Contradicted}
		if size > 1<<20 {
			want = fate{protocol.Accepted, fold.Complete, fold.Open}
		}
		wantFate(t, one(t, s.audit(room), d), want.Status, want.Evidence, want.Verdict)
	}
}
