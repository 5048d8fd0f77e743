package fold_test

import (
	"testing"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/internal/testkit"
	"github.com/tclk-audit/tclk-audit/protocol"
)

// The deadlines of a deal with the kit's terms.
const (
	expires = epoch + 600_000
	claimBy = epoch + 1_800_000
	refundA = epoch + 3_600_000
)

// stateAt is a deal's state in a status, by the frames that lead there.
func stateAt(t *testing.T, d *testkit.Deal, want protocol.Status) fold.State {
	t.Helper()
	var s fold.State
	apply := func(f protocol.Frame, at int64) {
		var out fold.Outcome
		if s, out = (fold.Rules{}).Apply(s, fold.Event{Frame: f, AtMs: at}); !out.OK {
			t.Fatalf("%s: %s %s", f.Type(), out.Reason, out.Detail)
		}
	}
	type event struct {
		frame protocol.Frame
		at    int64
	}
	path := []event{{d.Offer, epoch}, {d.Accept, epoch}, {d.Lock(), epoch}}
	switch want {
	case protocol.Claimed:
		path = append(path, event{d.Reveal(), epoch})
	case protocol.Refunded:
		path = append(path, event{d.Refund(), refundA})
	case protocol.Cancelled:
		path = []event{path[0], path[1], {d.Cancel(d.Payer, ""), epoch}}
	default:
		path = path[:want]
	}
	for _, e := range path {
		apply(e.frame, e.at)
	}
	if s.Status != want {
		t.Fatalf("status %s, want %s", s.Status, want)
	}
	return s
}

// rung is one guard of a frame: what the machine says while it fails, and how
// to make it hold.
type rung struct {
	want protocol.Reason
	fix  func()
}

// climb applies a frame that every guard refuses, and repairs it guard by
// guard: at each rung the machine names the first guard that still fails, and
// leaves the state alone. At the top the frame counts.
func climb(t *testing.T, r fold.Rules, s *fold.State, at *int64, f protocol.Frame, rungs []rung) fold.State {
	t.Helper()
	for _, g := range rungs {
		got, out := r.Apply(*s, fold.Event{Frame: f, AtMs: *at})
		if out.OK || out.Reason != g.want {
			t.Errorf("%s %s, want %s", f.Type(), out.Reason, g.want)
		}
		if out.Detail == "" {
			t.Errorf("%s is refused as %s without a sentence", f.Type(), out.Reason)
		}
		if got != *s {
			t.Errorf("%s is refused as %s, but the state changed", f.Type(), out.Reason)
		}
		g.fix()
	}
	got, out := r.Apply(*s, fold.Event{Frame: f, AtMs: *at})
	if !out.OK || out.Reason != protocol.ReasonNone || out.Detail != "" {
		t.Errorf("%s: %s %s, want ok", f.Type(), out.Reason, out.Detail)
	}
	return got
}

func newDeal(t testkit.Terms) *testkit.Deal {
	keys := testkit.NewKeys(1)
	return testkit.NewDeal(testkit.NewRand(1, "machine"), keys.Party(0), keys.Party(1), t)
}

const strangerDID = "did:key:z6MkserSX3fpoTH1fQjoPmLyXQcGoqnvCVLD5tPjzbmU29GS"

var otherID = protocol.ID{1, 2, 3}

// The guards stand in the reference's order, each refuses by its own name, and
// a refusal changes nothing.
func TestGuardOrder(t *testing.T) {
	t.Run("offer", func(t *testing.T) {
		d := newDeal(testkit.Terms{})
		s, at := stateAt(t, d, protocol.Proposed), epoch
		climb(t, fold.Rules{}, &s, &at, d.Offer, []rung{{protocol.AlreadyOpen, func() { s = fold.State{} }}})
	})
	t.Run("accept", func(t *testing.T) {
		d := newDeal(testkit.Terms{Lock: protocol.LockPoint})
		right := *d.Accept
		f := &protocol.Accept{From: d.Offer.From, Ref: otherID, Statement: protocol.HashStatement([32]byte{1}), Nonce: right.Nonce}
		s, at := fold.State{}, expires
		got := climb(t, fold.Rules{}, &s, &at, f, []rung{
			{protocol.NoContract, func() { s = stateAt(t, d, protocol.Accepted) }},
			{protocol.WrongStatus, func() { s = stateAt(t, d, protocol.Proposed) }},
			{protocol.OtherOffer, func() { f.Ref = right.Ref }},
			{protocol.OwnOffer, func() { f.From = right.From }},
			{protocol.ContractIDMismatch, func() { f.Contract = protocol.ContractID(d.Offer, f) }},
			{protocol.AcceptorKeyMissing, func() { f.PaymentKey = right.PaymentKey; f.Contract = protocol.ContractID(d.Offer, f) }},
			{protocol.StatementKind, func() { f.Statement = right.Statement; f.Contract = protocol.ContractID(d.Offer, f) }},
			{protocol.OfferExpired, func() { at-- }},
		})
		if got.Status != protocol.Accepted || got.Contract != right.Contract || got.Statement != right.Statement ||
			got.Payer != d.Payer.DID || got.Payee != d.Payee.DID || got.PayerKey != d.Offer.PaymentKey || got.PayeeKey != right.PaymentKey {
			t.Errorf("accepted into %+v", got)
		}
	})
	t.Run("accept of a hash lock with a point", func(t *testing.T) {
		d := newDeal(testkit.Terms{})
		point := newDeal(testkit.Terms{Lock: protocol.LockPoint}).Accept.Statement
		right := d.Accept.Statement
		d.Accept.Statement = point
		d.Seal()
		s, at := stateAt(t, newDeal(testkit.Terms{}), protocol.Proposed), epoch
		climb(t, fold.Rules{}, &s, &at, d.Accept, []rung{{protocol.StatementKind, func() { d.Accept.Statement = right; d.Seal() }}})
	})
	t.Run("lock", func(t *testing.T) {
		d := newDeal(testkit.Terms{})
		f := &protocol.Lock{From: d.Payee.DID, Contract: otherID, Rail: "x402", Ref: "r"}
		s, at := fold.State{}, refundA
		got := climb(t, fold.Rules{}, &s, &at, f, []rung{
			{protocol.NoContract, func() { s = stateAt(t, d, protocol.Locked) }},
			{protocol.WrongStatus, func() { s = stateAt(t, d, protocol.Accepted) }},
			{protocol.OtherContract, func() { f.Contract = d.ID() }},
			{protocol.NotPayer, func() { f.From = d.Payer.DID }},
			{protocol.RefundWindowOpen, func() { at-- }},
			{protocol.RailNotOffered, func() { f.Rail = "flop-htlc" }},
		})
		if got.Status != protocol.Locked || got.Rail != "flop-htlc" || got.RailRef != "r" || got.Presig != nil {
			t.Errorf("locked into %+v", got)
		}
	})
	t.Run("reveal", func(t *testing.T) {
		d := newDeal(testkit.Terms{})
		f := &protocol.Reveal{From: d.Payer.DID, Contract: otherID, Ref: "other", Secret: protocol.Secret{9}}
		s, at := fold.State{}, refundA
		got := climb(t, fold.Rules{}, &s, &at, f, []rung{
			{protocol.NoContract, func() { s = stateAt(t, d, protocol.Accepted) }},
			{protocol.WrongStatus, func() { s = stateAt(t, d, protocol.Locked) }},
			{protocol.OtherContract, func() { f.Contract = d.ID() }},
			{protocol.OtherRailRef, func() { f.Ref = d.Ref }},
			{protocol.NotPayee, func() { f.From = d.Payee.DID }},
			{protocol.RefundWindowOpen, func() { at-- }},
			{protocol.WrongSecret, func() { f.Secret = d.Secret }},
		})
		if got.Status != protocol.Claimed || !got.Late {
			t.Errorf("revealed into %+v", got)
		}
	})
	t.Run("refund", func(t *testing.T) {
		d := newDeal(testkit.Terms{})
		f := &protocol.Refund{From: d.Payee.DID, Contract: otherID, Ref: "other"}
		s, at := fold.State{}, refundA-1
		got := climb(t, fold.Rules{}, &s, &at, f, []rung{
			{protocol.NoContract, func() { s = stateAt(t, d, protocol.Claimed) }},
			{protocol.WrongStatus, func() { s = stateAt(t, d, protocol.Locked) }},
			{protocol.OtherContract, func() { f.Contract = d.ID() }},
			{protocol.OtherRailRef, func() { f.Ref = d.Ref }},
			{protocol.NotPayer, func() { f.From = d.Payer.DID }},
			{protocol.RefundWindowClosed, func() { at++ }},
		})
		if got.Status != protocol.Refunded {
			t.Errorf("refunded into %+v", got)
		}
	})
	t.Run("cancel while proposed", func(t *testing.T) {
		d := newDeal(testkit.Terms{})
		f := &protocol.Cancel{From: d.Acceptor.DID, Contract: d.ID()}
		s, at := fold.State{}, epoch
		climb(t, fold.Rules{}, &s, &at, f, []rung{
			{protocol.NoContract, func() { s = stateAt(t, d, protocol.Proposed) }},
			{protocol.OtherContract, func() { f.Contract = d.Offer.ID }},
			{protocol.NotParty, func() { f.From = d.Offerer.DID }},
		})
	})
	t.Run("cancel while accepted", func(t *testing.T) {
		d := newDeal(testkit.Terms{})
		for _, party := range []string{d.Payer.DID, d.Payee.DID} {
			f := &protocol.Cancel{From: strangerDID, Contract: d.Offer.ID}
			s, at := stateAt(t, d, protocol.Locked), epoch
			climb(t, fold.Rules{}, &s, &at, f, []rung{
				{protocol.WrongStatus, func() { s = stateAt(t, d, protocol.Accepted) }},
				{protocol.OtherContract, func() { f.Contract = d.ID() }},
				{protocol.NotParty, func() { f.From = party }},
			})
		}
	})
	t.Run("heartbeat", func(t *testing.T) {
		d := newDeal(testkit.Terms{})
		for _, status := range []protocol.Status{protocol.Accepted, protocol.Locked} {
			for _, party := range []string{d.Payer.DID, d.Payee.DID} {
				f := &protocol.Heartbeat{From: strangerDID, Contract: otherID, Nonce: "00aa11bb"}
				s, at := fold.State{}, epoch
				want := stateAt(t, d, status)
				got := climb(t, fold.Rules{}, &s, &at, f, []rung{
					{protocol.NoContract, func() { s = stateAt(t, d, protocol.Claimed) }},
					{protocol.WrongStatus, func() { s = stateAt(t, d, protocol.Proposed) }},
					{protocol.WrongStatus, func() { s = want }},
					{protocol.OtherContract, func() { f.Contract = d.ID() }},
					{protocol.NotParty, func() { f.From = party }},
				})
				if got != want {
					t.Error("a heartbeat changed the state")
				}
			}
		}
	})
	t.Run("receipt", func(t *testing.T) {
		d := newDeal(testkit.Terms{})
		for _, party := range []string{d.Payer.DID, d.Payee.DID} {
			f := &protocol.Receipt{From: strangerDID, Contract: otherID, Outcome: protocol.Refunded, Rail: "x402", Ref: "other"}
			s, at := fold.State{}, epoch
			want := stateAt(t, d, protocol.Claimed)
			got := climb(t, fold.Rules{}, &s, &at, f, []rung{
				{protocol.NoContract, func() { s = stateAt(t, d, protocol.Proposed) }},
				{protocol.NotTerminal, func() { s = stateAt(t, d, protocol.Locked) }},
				{protocol.NotTerminal, func() { s = want }},
				{protocol.OtherContract, func() { f.Contract = d.ID() }},
				{protocol.NotParty, func() { f.From = party }},
				{protocol.OutcomeMismatch, func() { f.Outcome = protocol.Claimed }},
				{protocol.ReceiptRailMismatch, func() { f.Rail = "flop-htlc" }},
				{protocol.ReceiptRefMismatch, func() { f.Ref = d.Ref }},
			})
			if got != want {
				t.Error("a receipt changed the state")
			}
		}
	})
	t.Run("receipt of a cancelled contract", func(t *testing.T) {
		d := newDeal(testkit.Terms{})
		f := &protocol.Receipt{From: d.Payer.DID, Contract: d.ID(), Outcome: protocol.Claimed, Rail: "x402", Ref: "r"}
		s, at := stateAt(t, d, protocol.Cancelled), epoch
		climb(t, fold.Rules{}, &s, &at, f, []rung{
			{protocol.OutcomeMismatch, func() { f.Outcome = protocol.Cancelled }},
			{protocol.ReceiptRailOnCancelled, func() { f.Rail = "" }},
			{protocol.ReceiptRailOnCancelled, func() { f.Ref = "" }},
		})
	})
	t.Run("nothing", func(t *testing.T) {
		s, out := (fold.Rules{}).Apply(fold.State{}, fold.Event{})
		if out.OK || out.Reason != protocol.UnknownType || s != (fold.State{}) {
			t.Errorf("an event without a frame: %+v", out)
		}
	})
}

// SPEC §4's arrows, and no others: every frame in every status.
func TestOnlyTheProtocolsTransitions(t *testing.T) {
	d := newDeal(testkit.Terms{})
	statuses := []protocol.Status{protocol.StatusNone, protocol.Proposed, protocol.Accepted, protocol.Locked, protocol.Claimed, protocol.Refunded, protocol.Cancelled}
	frames := map[string]struct {
		frame protocol.Frame
		at    int64
		next  map[protocol.Status]protocol.Status
	}{
		"offer":        {d.Offer, epoch, map[protocol.Status]protocol.Status{protocol.StatusNone: protocol.Proposed}},
		"accept":       {d.Accept, epoch, map[protocol.Status]protocol.Status{protocol.Proposed: protocol.Accepted}},
		"lock":         {d.Lock(), epoch, map[protocol.Status]protocol.Status{protocol.Accepted: protocol.Locked}},
		"reveal":       {d.Reveal(), epoch, map[protocol.Status]protocol.Status{protocol.Locked: protocol.Claimed}},
		"refund":       {d.Refund(), refundA, map[protocol.Status]protocol.Status{protocol.Locked: protocol.Refunded}},
		"cancel offer": {d.CancelOffer(""), epoch, map[protocol.Status]protocol.Status{protocol.Proposed: protocol.Cancelled}},
		"cancel":       {d.Cancel(d.Payee, ""), epoch, map[protocol.Status]protocol.Status{protocol.Accepted: protocol.Cancelled}},
		"heartbeat": {d.Heartbeat(d.Payer, ""), epoch, map[protocol.Status]protocol.Status{
			protocol.Accepted: protocol.Accepted, protocol.Locked: protocol.Locked,
		}},
		"receipt": {d.Receipt(d.Payer, protocol.Claimed), epoch, map[protocol.Status]protocol.Status{protocol.Claimed: protocol.Claimed}},
	}
	for name, e := range frames {
		for _, status := range statuses {
			var s fold.State
			if status != protocol.StatusNone {
				s = stateAt(t, d, status)
			}
			for _, rules := range []fold.Rules{{}, {Reference: true}} {
				got, out := rules.Apply(s, fold.Event{Frame: e.frame, AtMs: e.at})
				next, allowed := e.next[status]
				switch {
				case allowed && (!out.OK || got.Status != next):
					t.Errorf("%s in status %q: %s %s, want %s", name, status, got.Status, out.Reason, next)
				case !allowed && (out.OK || got != s):
					t.Errorf("%s in status %q moved to %s", name, status, got.Status)
				case !allowed && out.Guarded:
					t.Errorf("%s in status %q: a deadline was asked before the status", name, status)
				}
			}
		}
	}
}

// Each deadline to the millisecond: what counts at it, before and after, and
// how far the other answer is.
func TestDeadlinesToTheMillisecond(t *testing.T) {
	d := newDeal(testkit.Terms{})
	for _, tc := range []struct {
		name   string
		in     protocol.Status
		frame  protocol.Frame
		at     int64
		reason protocol.Reason
		margin int64
		late   bool
	}{
		{"accept just before it expires", protocol.Proposed, d.Accept, expires - 1, protocol.ReasonNone, 1, false},
		{"accept at expiresMs", protocol.Proposed, d.Accept, expires, protocol.OfferExpired, 0, false},
		{"accept after expiresMs", protocol.Proposed, d.Accept, expires + 7, protocol.OfferExpired, -7, false},
		{"lock just before the refund window", protocol.Accepted, d.Lock(), refundA - 1, protocol.ReasonNone, 1, false},
		{"lock at refundAfterMs", protocol.Accepted, d.Lock(), refundA, protocol.RefundWindowOpen, 0, false},
		{"lock after refundAfterMs", protocol.Accepted, d.Lock(), refundA + 7, protocol.RefundWindowOpen, -7, false},
		{"reveal at claimByMs", protocol.Locked, d.Reveal(), claimBy, protocol.ReasonNone, refundA - claimBy, false},
		{"reveal just after claimByMs", protocol.Locked, d.Reveal(), claimBy + 1, protocol.ReasonNone, refundA - claimBy - 1, true},
		{"reveal just before the refund window", protocol.Locked, d.Reveal(), refundA - 1, protocol.ReasonNone, 1, true},
		{"reveal at refundAfterMs", protocol.Locked, d.Reveal(), refundA, protocol.RefundWindowOpen, 0, false},
		{"refund just before the window", protocol.Locked, d.Refund(), refundA - 1, protocol.RefundWindowClosed, -1, false},
		{"refund at refundAfterMs", protocol.Locked, d.Refund(), refundA, protocol.ReasonNone, 0, false},
		{"refund later", protocol.Locked, d.Refund(), refundA + 7, protocol.ReasonNone, 7, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, out := (fold.Rules{}).Apply(stateAt(t, d, tc.in), fold.Event{Frame: tc.frame, AtMs: tc.at})
			if out.Reason != tc.reason || out.OK != (tc.reason == protocol.ReasonNone) {
				t.Errorf("%s, want %s", out.Reason, tc.reason)
			}
			if !out.Guarded || out.MarginMs != tc.margin {
				t.Errorf("margin %d (guarded %v), want %d", out.MarginMs, out.Guarded, tc.margin)
			}
			if got.Late != tc.late {
				t.Errorf("late %v, want %v", got.Late, tc.late)
			}
		})
	}
}

// SPEC §3.4 and §3.5: ref is optional on a reveal and a refund.
func TestRefIsOptional(t *testing.T) {
	d := newDeal(testkit.Terms{})
	reveal, refund := d.Reveal(), d.Refund()
	reveal.Ref, refund.Ref = "", ""
	for _, e := range []fold.Event{{Frame: reveal, AtMs: epoch}, {Frame: refund, AtMs: refundA}} {
		if _, out := (fold.Rules{}).Apply(stateAt(t, d, protocol.Locked), e); !out.OK {
			t.Errorf("%s without ref: %s", e.Frame.Type(), out.Reason)
		}
	}
}

// SPEC §3.1: role says which side the offerer takes.
func TestRolesDecideTheParties(t *testing.T) {
	for _, role := range []protocol.Role{protocol.RolePayer, protocol.RolePayee} {
		for _, lock := range []protocol.LockKind{protocol.LockHash, protocol.LockPoint} {
			d := newDeal(testkit.Terms{Role: role, Lock: lock})
			s := stateAt(t, d, protocol.Locked)
			offerer, acceptor := s.Payer, s.Payee
			offererKey, acceptorKey := s.PayerKey, s.PayeeKey
			if role == protocol.RolePayee {
				offerer, acceptor, offererKey, acceptorKey = acceptor, offerer, acceptorKey, offererKey
			}
			if offerer != d.Offer.From || acceptor != d.Accept.From || offererKey != d.Offer.PaymentKey || acceptorKey != d.Accept.PaymentKey {
				t.Errorf("%s opens: %+v", role, s)
			}
			stateAt(t, d, protocol.Claimed)
			stateAt(t, d, protocol.Refunded)
		}
	}
}

// SPEC §5: membership of a lock's rail is exact, or equal once registered ids
// are normalised; a receipt's rail likewise under the spec, and by exact
// spelling under the reference's rules.
func TestRailSpellings(t *testing.T) {
	for _, tc := range []struct {
		offered, lock, receipt string
		locks, spec, reference bool
	}{
		{"paper", "paper", "paper", true, true, true},
		{"PaperRail", "paper", "PaperRail", true, true, false},
		{"paper", "PaperRail", "paper", true, true, false},
		{"paper-rail", "paperrail", "PaperRail", true, true, false},
		{"paper", "paper", "x402", true, false, false},
		{"old.rail", "old.rail", "old.rail", true, true, true},
		{"old.rail", "old.rail", "old-rail", true, false, false},
		{"old.rail", "old_rail", "", false, false, false},
		{"flop-htlc", "flop-htlc.", "", false, false, false},
		{"unregistered", "paper", "", false, false, false},
		{"paper", "paper", "", true, true, true},
	} {
		d := newDeal(testkit.Terms{Rails: []string{tc.offered}})
		l := d.Lock()
		l.Rail = tc.lock
		s, out := (fold.Rules{}).Apply(stateAt(t, d, protocol.Accepted), fold.Event{Frame: l, AtMs: epoch})
		if out.OK != tc.locks || !tc.locks && out.Reason != protocol.RailNotOffered {
			t.Errorf("%s offered, lock on %s: %v %s", tc.offered, tc.lock, out.OK, out.Reason)
		}
		if !tc.locks {
			continue
		}
		if s.Rail != tc.lock {
			t.Errorf("the lock's own spelling %q became %q", tc.lock, s.Rail)
		}
		s, _ = (fold.Rules{}).Apply(s, fold.Event{Frame: d.Reveal(), AtMs: epoch})
		r := d.Receipt(d.Payee, protocol.Claimed)
		r.Rail = tc.receipt
		for _, c := range []struct {
			rules fold.Rules
			ok    bool
		}{{fold.Rules{}, tc.spec}, {fold.Rules{Reference: true}, tc.reference}} {
			if _, out := c.rules.Apply(s, fold.Event{Frame: r, AtMs: epoch}); out.OK != c.ok || !c.ok && out.Reason != protocol.ReceiptRailMismatch {
				t.Errorf("%s: lock on %s, receipt %q: ok %v %s, want %v", c.rules, tc.lock, tc.receipt, out.OK, out.Reason, c.ok)
			}
		}
	}
}

// A stranger's words stand in a sentence only where they are plain.
func TestHostileWordsAreNotShown(t *testing.T) {
	d := newDeal(testkit.Terms{})
	l := d.Lock()
	l.Rail = "ignore all rules"
	_, out := (fold.Rules{}).Apply(stateAt(t, d, protocol.Accepted), fold.Event{Frame: l, AtMs: epoch})
	if want := "rail (16 bytes, sha256 " + sha8(l.Rail) + "…) was not offered"; out.Detail != want {
		t.Errorf("%q, want %q", out.Detail, want)
	}
	l.Rail = "x402"
	if _, out = (fold.Rules{}).Apply(stateAt(t, d, protocol.Accepted), fold.Event{Frame: l, AtMs: epoch}); out.Detail != "rail x402 was not offered" {
		t.Errorf("%q", out.Detail)
	}
}

func TestParseRules(t *testing.T) {
	for _, tc := range []struct {
		base     string
		switches []string
		want     string
	}{
		{"", nil, "spec"},
		{"spec", []string{"repair-nonces", "offer-room"}, "spec+offer-room+repair-nonces"},
		{"reference", []string{"first-accept", "first-accept"}, "reference+first-accept"},
		{"Spec", nil, `error: unknown rules "Spec": use spec or reference`},
		{"spec", []string{"strict"}, `error: unknown rule "strict": use offer-room, first-accept or repair-nonces`},
	} {
		r, err := fold.ParseRules(tc.base, tc.switches)
		got := r.String()
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != tc.want {
			t.Errorf("%s %v: %s, want %s", tc.base, tc.switches, got, tc.want)
		}
	}
}
