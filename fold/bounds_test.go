package fold_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/internal/testkit"
	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/verify"
)

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
	small, large := least(took, 2_000), least(took, 16_000)
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

// Many accept one offer: each costs the same, and the first stays bound.
func TestManyAcceptsOfOneOffer(t *testing.T) {
	took := func(n int) time.Duration {
		s := newScene()
		s.trusted = true
		d, room := s.opened(testkit.Terms{})
		var last *testkit.Deal
		for i := range n - 1 {
			last = d.Rival(s.keys.Party(10 + i%50))
			s.board.Post(last.Acceptor.Signer, epoch+2000+int64(i), last.Accept)
		}
		start := time.Now()
		a := s.audit(room)
		contracts, superseded := 0, 0
		for c := range a.Contracts() {
			contracts++
			if c.Binding == fold.Superseded && c.BoundTo == d.ID() {
				superseded++
			}
		}
		took := time.Since(start)
		if contracts != n || superseded != n-1 {
			t.Errorf("%d contracts, %d superseded; want %d and %d", contracts, superseded, n, n-1)
		}
		if c := one(t, a, last); c.Binding != fold.Superseded {
			t.Errorf("the last accept is %q", c.Binding)
		}
		return took
	}
	small, large := least(took, 2_500), least(took, 20_000)
	if large > 32*small && large > time.Second {
		t.Errorf("20,000 accepts take %v, 2,500 take %v", large, small)
	}
}

// A flood of strangers' rows in one deal room: the parties' rows count, the
// steps stay bounded, what is left out is counted.
func TestFloodedDealRoom(t *testing.T) {
	s := newScene()
	s.trusted = true
	d, room := s.opened(testkit.Terms{})
	flood := func(n int) {
		for i := range n {
			room.PostText(s.stranger(i%100), epoch+2000+int64(i), "hello")
		}
	}
	flood(15_000)
	room.Post(d.Payer, epoch+40_000, d.Lock())
	flood(15_000)
	room.Post(d.Payee, epoch+60_000, d.Reveal())
	a := s.audit(room)
	c := one(t, a, d)
	wantFate(t, c, protocol.Claimed, fold.Complete, fold.Established)
	if len(c.Steps) != fold.StepLimit+4 || c.StepsOmitted != 30_000-fold.StepLimit {
		t.Errorf("%d steps and %d omitted", len(c.Steps), c.StepsOmitted)
	}
	if len(a.Summary().Limits) == 0 {
		t.Error("nothing says that a limit was met")
	}
}

// A room with a hole between any two rows: the holes that are listed are
// bounded, and the evidence is what it is with one.
func TestManyHoles(t *testing.T) {
	s := newScene()
	s.trusted = true
	d, room := s.opened(testkit.Terms{})
	for i := range 3 * fold.HoleLimit {
		room.PostText(s.stranger(0), epoch+2000+int64(i), "hello")
		room.Skip(1)
	}
	room.Post(d.Payer, epoch+40_000, d.Lock())
	c := one(t, s.audit(room), d)
	wantFate(t, c, protocol.Locked, fold.Incomplete, fold.Indeterminate)
	gaps := found(c, fold.Gap)
	if len(gaps) != fold.HoleLimit {
		t.Errorf("%d gaps, want %d", len(gaps), fold.HoleLimit)
	}
	if last := gaps[len(gaps)-1].Detail; last != fmt.Sprintf("seq %d to %d are missing", 2*fold.HoleLimit, room.Seq-1) {
		t.Errorf("the last gap: %s", last)
	}
}

// Findings of one code that belong to no contract are kept up to a bound, the
// rest is counted.
func TestManyFindings(t *testing.T) {
	s := newScene()
	s.trusted = true
	for i := range fold.FindingLimit + 7 {
		s.board.Skip(1)
		s.board.PostText(s.stranger(0), epoch+int64(i), "hello")
	}
	a := s.audit()
	n := 0
	for _, f := range a.Findings() {
		if f.Code == fold.Gap {
			n++
		}
	}
	if got := a.Summary().Omitted[fold.Gap]; n+int(got) != fold.FindingLimit+6 || n > fold.FindingLimit {
		t.Errorf("%d gaps kept, %d omitted", n, got)
	}
}

// Contracts are found by the first digits of their ids.
func TestFind(t *testing.T) {
	s := newScene()
	x, y := s.race()
	a := s.audit()
	full := x.ID().String()[2:]
	for _, tc := range []struct {
		prefix string
		limit  int
		want   int
	}{{full, 9, 1}, {full[:7], 9, 1}, {"", 9, 2}, {"", 1, 1}, {full + "0", 9, 0}, {strings.ToUpper(full), 9, 0}, {"zz", 9, 0}} {
		ids := a.Find(tc.prefix, tc.limit)
		if len(ids) != tc.want {
			t.Errorf("%q: %d contracts, want %d", tc.prefix, len(ids), tc.want)
		}
		if tc.want == 1 && tc.prefix != "" && ids[0] != x.ID() {
			t.Errorf("%q: %s", tc.prefix, ids[0])
		}
	}
	if a.Contract(y.ID()) == nil || a.Contract(protocol.ID{}) != nil {
		t.Error("Contract finds the wrong ones")
	}
}

// least is the least of three tries, so that a busy machine does not look like
// slow code.
func least(took func(int) time.Duration, n int) time.Duration {
	return min(took(n), took(n), took(n))
}
