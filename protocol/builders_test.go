package protocol

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const (
	didPayer    = "did:key:z6MkgtPtC4V6byqySinJykLYHMdkGxpXoG2gvHFGmRdKZReq"
	didPayee    = "did:key:z6MkfsNhHo7sB96veSfjEP3gDb5RF3gv3diHHEpj3PdbtYb6"
	didStranger = "did:key:z6Mkffffffffffffffffffffffffffffffffffffffffffff"
)

// cmpStatements lets cmp compare statements, whose fields are not exported.
var cmpStatements = cmp.Comparer(func(a, b Statement) bool { return a == b })

// checkLine demands what every built frame owes: it can be emitted, and a
// reader gets the same frame back from a canonical line.
func checkLine(t interface {
	Helper()
	Fatalf(string, ...any)
}, f Frame) {
	t.Helper()
	line, err := Encode(f)
	if err != nil {
		t.Fatalf("a built %s cannot be encoded: %v", f.Type(), err)
	}
	got := Decode(line, DecodeRules{})
	if got.Reason != ReasonNone || !got.Canonical {
		t.Fatalf("a built %s does not decode: %v %s, canonical %v\n%s", f.Type(), got.Reason, got.Detail, got.Canonical, line)
	}
	if diff := cmp.Diff(f, got.Frame, cmpStatements); diff != "" {
		t.Fatalf("a built %s decodes to another frame (-built +read):\n%s", f.Type(), diff)
	}
}

// A deal is an offer and the accept that closes it, with what opens it.
type deal struct {
	offer  *Offer
	accept *Accept
	terms  LockTerms
	secret Secret
	key    Scalar // the payer's
}

func newDeal(t testing.TB, lock LockKind, role Role, rails ...string) deal {
	t.Helper()
	r := seeded(7)
	var d deal
	var st Statement
	var err error
	var payerKey, payeeKey Point
	if lock == LockHash {
		d.secret, st, err = GenerateHashLock(r)
	} else {
		d.secret, st, err = GeneratePointLock(r)
		d.key, payerKey, _ = GeneratePaymentKey(r)
		_, payeeKey, _ = GeneratePaymentKey(r)
	}
	if err != nil {
		t.Fatal(err)
	}
	offerer, acceptor, offererKey, acceptorKey := didPayer, didPayee, payerKey, payeeKey
	if role == RolePayee {
		offerer, acceptor, offererKey, acceptorKey = didPayee, didPayer, payeeKey, payerKey
	}
	d.offer, err = NewOffer(r, Offer{
		From: offerer, Role: role, Amount: "1000000", Asset: "FLOP", Lock: lock, Rails: rails,
		ExpiresMs: 1_000, ClaimByMs: 2_000, RefundAfterMs: 3_000, PaymentKey: offererKey,
	})
	if err != nil {
		t.Fatal(err)
	}
	if d.accept, err = NewAccept(r, d.offer, acceptor, st, acceptorKey); err != nil {
		t.Fatal(err)
	}
	if d.terms, err = NewLockTerms(d.offer, d.accept); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestBuildEveryFrame(t *testing.T) {
	for _, lock := range []LockKind{LockHash, LockPoint} {
		for _, role := range []Role{RolePayer, RolePayee} {
			d := newDeal(t, lock, role, "paper", "flop-htlc")
			r := seeded(8)
			var presig *PreSignature
			if lock == LockPoint {
				statement, _ := d.accept.Statement.Point()
				pre, err := PreSign(d.key, []byte("claim"), statement, r)
				if err != nil {
					t.Fatal(err)
				}
				presig = &pre
			}
			for name, build := range map[string]func() (Frame, error){
				"offer":        func() (Frame, error) { return d.offer, nil },
				"accept":       func() (Frame, error) { return d.accept, nil },
				"lock":         func() (Frame, error) { return NewLock(d.terms, "flop-htlc", "escrow-1", presig) },
				"bare lock":    func() (Frame, error) { return NewLock(d.terms, "flop-htlc", "escrow-1", nil) },
				"reveal":       func() (Frame, error) { return NewReveal(d.terms, "escrow-1", d.secret) },
				"bare reveal":  func() (Frame, error) { return NewReveal(d.terms, "", d.secret) },
				"refund":       func() (Frame, error) { return NewRefund(d.terms, "escrow-1", "no delivery") },
				"bare refund":  func() (Frame, error) { return NewRefund(d.terms, "", "") },
				"cancel":       func() (Frame, error) { return NewCancel(d.terms, didPayee, "too busy") },
				"bare cancel":  func() (Frame, error) { return NewCancel(d.terms, didPayer, "") },
				"withdrawal":   func() (Frame, error) { return NewCancelOffer(d.offer, "sold") },
				"receipt":      func() (Frame, error) { return NewReceipt(d.terms, didPayer, Claimed, "flop-htlc", "escrow-1") },
				"bare receipt": func() (Frame, error) { return NewReceipt(d.terms, didPayee, Refunded, "", "") },
				"cancelled":    func() (Frame, error) { return NewReceipt(d.terms, didPayee, Cancelled, "", "") },
				"heartbeat":    func() (Frame, error) { return NewHeartbeat(r, d.terms, didPayee, "half done") },
				"bare beat":    func() (Frame, error) { return NewHeartbeat(r, d.terms, didPayer, "") },
			} {
				f, err := build()
				if err != nil {
					t.Errorf("%v lock, %v opens, %s: %v", lock, role, name, err)
					continue
				}
				checkLine(t, f)
			}
		}
	}
}

// Whoever opens, the payer locks and refunds and the payee reveals.
func TestLockTermsFollowTheRole(t *testing.T) {
	for _, role := range []Role{RolePayer, RolePayee} {
		d := newDeal(t, LockPoint, role, "x402")
		payerKey, _ := d.key.Point()
		if d.terms.Payer != didPayer || d.terms.Payee != didPayee || d.terms.PayerKey != payerKey || d.terms.PayeeKey.IsZero() {
			t.Errorf("%v opens: %+v", role, d.terms)
		}
		want := LockTerms{
			Contract: ContractID(d.offer, d.accept), Lock: LockPoint, Statement: d.accept.Statement,
			Amount: "1000000", Asset: "FLOP", Rails: []string{"x402"}, Payer: didPayer, Payee: didPayee,
			PayerKey: d.terms.PayerKey, PayeeKey: d.terms.PayeeKey, ClaimByMs: 2_000, RefundAfterMs: 3_000,
		}
		if diff := cmp.Diff(want, d.terms, cmpStatements); diff != "" {
			t.Errorf("%v opens (-want +got):\n%s", role, diff)
		}
		lock, err1 := NewLock(d.terms, "x402", "r", nil)
		reveal, err2 := NewReveal(d.terms, "r", d.secret)
		refund, err3 := NewRefund(d.terms, "r", "")
		if err := errors.Join(err1, err2, err3); err != nil {
			t.Fatal(err)
		}
		if lock.From != didPayer || refund.From != didPayer || reveal.From != didPayee {
			t.Errorf("%v opens: lock by %s, refund by %s, reveal by %s", role, lock.From, refund.From, reveal.From)
		}
	}
}

func TestNewOfferCompletes(t *testing.T) {
	in := Offer{
		From: didPayer, Role: RolePayer, Amount: "5", Asset: "USDC", Lock: LockHash,
		Rails:     []string{" X402", "PaperRail", "paper", "flop-htlc"},
		ExpiresMs: 1, ClaimByMs: 2, RefundAfterMs: 3,
		Nonce: "not a nonce", ID: ID{1}, Job: &Job{Proto: JobA2A, ID: "task-1", Context: "ctx"},
	}
	rails := slices.Clone(in.Rails)
	o, err := NewOffer(strings.NewReader("\x00\x01\x02\x03\xfc\xfd\xfe\xff"), in)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"flop-htlc", "paper", "x402"}; !slices.Equal(o.Rails, want) {
		t.Errorf("rails %q", o.Rails)
	}
	if o.Nonce != "00010203fcfdfeff" {
		t.Errorf("nonce %q", o.Nonce)
	}
	if o.ID != OfferID(o) {
		t.Error("the id is not the offer's hash")
	}
	if !slices.Equal(in.Rails, rails) || in.Nonce != "not a nonce" || in.ID != (ID{1}) {
		t.Error("the argument was changed")
	}
	in.Job.ID, in.Rails[0] = "task-2", "near-htlc"
	if o.Job.ID != "task-1" || o.ID != OfferID(o) {
		t.Error("the offer shares memory with the argument")
	}
	checkLine(t, o)

	// The order and spelling of the list change nothing but the nonce's part.
	in.Job.ID, in.Rails = "task-1", []string{"paper-rail", "flop-htlc", "x402"}
	again, err := NewOffer(strings.NewReader("\x00\x01\x02\x03\xfc\xfd\xfe\xff"), in)
	if err != nil || again.ID != o.ID {
		t.Errorf("the same set in another spelling has another id: %v", err)
	}
}

func TestBuildersCopyThePresignature(t *testing.T) {
	d := newDeal(t, LockPoint, RolePayer, "x402")
	pre := PreSignature{Nonce: d.terms.PayerKey, S: Scalar{31: 1}}
	lock, err := NewLock(d.terms, "x402", "r", &pre)
	if err != nil {
		t.Fatal(err)
	}
	pre.S = Scalar{31: 2}
	if lock.Presig.S != (Scalar{31: 1}) {
		t.Error("the lock shares the pre-signature with its caller")
	}
}

// Each refusal carries the reason for which readers would reject the frame.
func TestBuildersRefuse(t *testing.T) {
	hash := newDeal(t, LockHash, RolePayer, "paper", "flop-htlc")
	point := newDeal(t, LockPoint, RolePayer, "x402")
	g, _ := Scalar{31: 1}.Point()
	offCurve := Point{2, 32: 5}
	good := PreSignature{Nonce: g, S: Scalar{31: 1}}

	offer := func(change func(*Offer)) error {
		o := *point.offer
		change(&o)
		_, err := NewOffer(seeded(1), o)
		return err
	}
	accept := func(d deal, change func(*Offer), from string, st Statement, key Point) error {
		o := *d.offer
		change(&o)
		_, err := NewAccept(seeded(1), &o, from, st, key)
		return err
	}
	terms := func(change func(*Offer, *Accept)) error {
		o, a := *point.offer, *point.accept
		change(&o, &a)
		_, err := NewLockTerms(&o, &a)
		return err
	}
	same := func(*Offer) {}
	one := func(_ any, err error) error { return err }

	for _, c := range []struct {
		name string
		err  error
		want Reason
		is   error // a sentinel inside, or nil
	}{
		{"offer without rails", offer(func(o *Offer) { o.Rails = nil }), BadField, ErrNoRails},
		{"offer with an empty rail", offer(func(o *Offer) { o.Rails = []string{" "} }), BadField, ErrEmptyRail},
		{"offer with an unregistered rail", offer(func(o *Offer) { o.Rails = []string{"paper", "acme"} }), BadField, ErrUnknownRail},
		{"offer with a malformed rail", offer(func(o *Offer) { o.Rails = []string{"flop-htlc."} }), BadField, ErrMalformedRail},

		{"accept of one's own offer", accept(hash, same, didPayer, hash.accept.Statement, Point{}), OwnOffer, nil},
		{"accept with no statement", accept(hash, same, didPayee, Statement{}, Point{}), StatementKind, nil},
		{"hash offer, point statement", accept(hash, same, didPayee, PointStatement(g), Point{}), StatementKind, nil},
		{"point offer, hash statement", accept(point, same, didPayee, HashStatement([32]byte{}), g), StatementKind, nil},
		{"point offer, no key", accept(point, same, didPayee, PointStatement(g), Point{}), AcceptorKeyMissing, nil},
		{"point offer, key off the curve", accept(point, same, didPayee, PointStatement(g), offCurve), PointInvalid, nil},
		{"hash offer, key off the curve", accept(hash, same, didPayee, hash.accept.Statement, offCurve), PointInvalid, nil},
		{"point offer, statement off the curve", accept(point, same, didPayee, PointStatement(offCurve), g), PointInvalid, nil},
		{"offer changed after its id", accept(point, func(o *Offer) { o.Amount = "2" }, didPayee, PointStatement(g), g), OfferIDMismatch, nil},
		{"offer without a role", accept(point, func(o *Offer) { o.Role = RoleNone; o.ID = OfferID(o) }, didPayee, PointStatement(g), g), BadField, nil},
		{"point offer without its key", accept(point, func(o *Offer) { o.PaymentKey = Point{}; o.ID = OfferID(o) }, didPayee, PointStatement(g), g), PointNeedsKey, nil},

		{"terms of another offer", terms(func(o *Offer, a *Accept) { a.Ref = ID{1} }), OtherOffer, nil},
		{"terms with a wrong contract id", terms(func(o *Offer, a *Accept) { a.Contract = ID{1} }), ContractIDMismatch, nil},
		{"terms with a changed accept", terms(func(o *Offer, a *Accept) { a.Nonce = "00000000" }), ContractIDMismatch, nil},
		{"terms with a changed offer", terms(func(o *Offer, a *Accept) { o.ClaimByMs++ }), OfferIDMismatch, nil},
		{"terms with a statement off the curve", terms(func(o *Offer, a *Accept) {
			a.Statement = PointStatement(offCurve)
			a.Contract = ContractID(o, a)
		}), PointInvalid, nil},
		{"terms with a key off the curve", terms(func(o *Offer, a *Accept) {
			a.PaymentKey = offCurve
			a.Contract = ContractID(o, a)
		}), PointInvalid, nil},
		{"terms with oneself", terms(func(o *Offer, a *Accept) { a.From = o.From; a.Contract = ContractID(o, a) }), OwnOffer, nil},

		{"lock on a rail not offered", one(NewLock(hash.terms, "x402", "r", nil)), RailNotOffered, nil},
		{"lock on an unregistered rail", one(NewLock(hash.terms, "acme", "r", nil)), BadField, ErrUnknownRail},
		{"presig on a hash lock", one(NewLock(hash.terms, "paper", "r", &good)), BadField, nil},
		{"presig nonce off the curve", one(NewLock(point.terms, "x402", "r", &PreSignature{Nonce: offCurve, S: good.S})), PointInvalid, nil},
		{"presig scalar 0", one(NewLock(point.terms, "x402", "r", &PreSignature{Nonce: g})), BadField, nil},
		{"presig scalar n", one(NewLock(point.terms, "x402", "r", &PreSignature{Nonce: g, S: orderPlus(t, 0)})), BadField, nil},

		{"reveal with a wrong preimage", one(NewReveal(hash.terms, "", Secret{1})), WrongSecret, nil},
		{"reveal with a wrong witness", one(NewReveal(point.terms, "", Secret{1})), WrongSecret, nil},
		{"reveal of nothing", one(NewReveal(LockTerms{}, "", Secret{})), WrongSecret, nil},

		{"cancel by a stranger", one(NewCancel(hash.terms, didStranger, "")), NotParty, nil},
		{"withdrawal of a changed offer", one(NewCancelOffer(&Offer{From: didPayer}, "")), OfferIDMismatch, nil},
		{"receipt by a stranger", one(NewReceipt(hash.terms, didStranger, Claimed, "", "")), NotParty, nil},
		{"receipt for a status that is not terminal", one(NewReceipt(hash.terms, didPayer, Locked, "", "")), NotTerminal, nil},
		{"receipt for no status", one(NewReceipt(hash.terms, didPayer, StatusNone, "", "")), NotTerminal, nil},
		{"receipt with a rail on cancelled", one(NewReceipt(hash.terms, didPayer, Cancelled, "paper", "")), ReceiptRailOnCancelled, nil},
		{"receipt with a ref on cancelled", one(NewReceipt(hash.terms, didPayer, Cancelled, "", "r")), ReceiptRailOnCancelled, nil},
		{"receipt with a rail not offered", one(NewReceipt(hash.terms, didPayer, Claimed, "x402", "")), ReceiptRailMismatch, nil},
		{"receipt with an unregistered rail", one(NewReceipt(hash.terms, didPayer, Claimed, "acme", "")), BadField, ErrUnknownRail},
		{"heartbeat by a stranger", one(NewHeartbeat(seeded(1), hash.terms, didStranger, "")), NotParty, nil},
	} {
		var be *BuildError
		if !errors.As(c.err, &be) || be.Reason != c.want {
			t.Errorf("%s: got %v, want %v", c.name, c.err, c.want)
			continue
		}
		if c.is != nil && !errors.Is(c.err, c.is) {
			t.Errorf("%s: %v is not %v", c.name, c.err, c.is)
		}
		if !strings.Contains(c.err.Error(), c.want.String()) || !strings.Contains(c.err.Error(), be.Type.String()) {
			t.Errorf("%s: the text %q names neither frame nor reason", c.name, c.err)
		}
	}
}

// What the encoder refuses, the builders refuse.
func TestBuildersRefuseBadFields(t *testing.T) {
	base := func() Offer {
		return Offer{From: didPayer, Role: RolePayer, Amount: "1", Asset: "FLOP", Lock: LockHash,
			Rails: []string{"paper"}, ExpiresMs: 1, ClaimByMs: 2, RefundAfterMs: 3}
	}
	if _, err := NewOffer(seeded(1), base()); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Offer){
		"no sender":                         func(o *Offer) { o.From = "" },
		"a sender that is no DID":           func(o *Offer) { o.From = "bob" },
		"no role":                           func(o *Offer) { o.Role = RoleNone },
		"a role out of range":               func(o *Offer) { o.Role = 9 },
		"no amount":                         func(o *Offer) { o.Amount = "" },
		"an amount with a leading zero":     func(o *Offer) { o.Amount = "01" },
		"an amount of zero":                 func(o *Offer) { o.Amount = "0" },
		"a negative amount":                 func(o *Offer) { o.Amount = "-1" },
		"an amount over the line cap":       func(o *Offer) { o.Amount = strings.Repeat("9", 4096) },
		"no asset":                          func(o *Offer) { o.Asset = "" },
		"an asset with a dot":               func(o *Offer) { o.Asset = "a.b" },
		"an asset of 33 characters":         func(o *Offer) { o.Asset = strings.Repeat("x", 33) },
		"no lock":                           func(o *Offer) { o.Lock = LockNone },
		"a point lock without key":          func(o *Offer) { o.Lock = LockPoint },
		"a key off the curve":               func(o *Offer) { o.PaymentKey = Point{2, 32: 5} },
		"no expiry":                         func(o *Offer) { o.ExpiresMs = 0 },
		"a negative time":                   func(o *Offer) { o.ClaimByMs = -2 },
		"a time beyond 2^53-1":              func(o *Offer) { o.RefundAfterMs = 1 << 53 },
		"claimBy at refundAfter":            func(o *Offer) { o.ClaimByMs = 3 },
		"a job without an id":               func(o *Offer) { o.Job = &Job{Proto: "a2a"} },
		"a job without a proto":             func(o *Offer) { o.Job = &Job{ID: "1"} },
		"a job with a DEL":                  func(o *Offer) { o.Job = &Job{Proto: "a2a", ID: "\x7f"} },
		"a job with bytes that are no text": func(o *Offer) { o.Job = &Job{Proto: "a2a", ID: "\xff"} },
		"a job over the line cap":           func(o *Offer) { o.Job = &Job{Proto: "a2a", ID: strings.Repeat("x", 4096)} },
	} {
		o := base()
		change(&o)
		got, err := NewOffer(seeded(1), o)
		if be, ok := errors.AsType[*BuildError](err); !ok || be.Reason == ReasonNone || got != nil {
			t.Errorf("offer with %s: %v, %v", name, got, err)
		}
	}

	d := newDeal(t, LockHash, RolePayer, "paper")
	long := strings.Repeat("x", 4096)
	for name, build := range map[string]func() (Frame, error){
		"accept from no DID": func() (Frame, error) {
			return frameOrNil(NewAccept(seeded(1), d.offer, "bob", d.accept.Statement, Point{}))
		},
		"lock without ref":        func() (Frame, error) { return frameOrNil(NewLock(d.terms, "paper", "", nil)) },
		"lock with a long ref":    func() (Frame, error) { return frameOrNil(NewLock(d.terms, "paper", long, nil)) },
		"reveal with a long ref":  func() (Frame, error) { return frameOrNil(NewReveal(d.terms, long, d.secret)) },
		"refund with a DEL":       func() (Frame, error) { return frameOrNil(NewRefund(d.terms, "", "\x7f")) },
		"refund without terms":    func() (Frame, error) { return frameOrNil(NewRefund(LockTerms{}, "", "")) },
		"cancel with long reason": func() (Frame, error) { return frameOrNil(NewCancel(d.terms, didPayer, long)) },
		"receipt with a long ref": func() (Frame, error) { return frameOrNil(NewReceipt(d.terms, didPayer, Claimed, "paper", long)) },
		"heartbeat with a DEL":    func() (Frame, error) { return frameOrNil(NewHeartbeat(seeded(1), d.terms, didPayer, "\x7f")) },
	} {
		f, err := build()
		if be, ok := errors.AsType[*BuildError](err); !ok || be.Reason == ReasonNone || f != nil {
			t.Errorf("%s: %v, %v", name, f, err)
		}
	}

	for name, build := range map[string]func() error{
		"offer": func() error { _, err := NewOffer(failing{}, base()); return err },
		"accept": func() error {
			_, err := NewAccept(failing{}, d.offer, didPayee, d.accept.Statement, Point{})
			return err
		},
		"heartbeat": func() error { _, err := NewHeartbeat(failing{}, d.terms, didPayer, ""); return err },
	} {
		if err := build(); !errors.Is(err, errSource) {
			t.Errorf("%s with a broken random source: %v", name, err)
		}
	}
}

// frameOrNil keeps a nil pointer from becoming a Frame that is not nil.
func frameOrNil[F interface {
	comparable
	Frame
}](f F, err error) (Frame, error) {
	var none F
	if f == none {
		return nil, err
	}
	return f, err
}

// An old offer may spell a rail by its alias or list one that nobody registered.
func TestLockUnderHistoricalRails(t *testing.T) {
	d := newDeal(t, LockHash, RolePayer, "x402")
	o := *d.offer
	o.Rails = []string{"PaperRail", "acme", "acme"}
	o.ID = OfferID(&o)
	a, err := NewAccept(seeded(1), &o, didPayee, d.accept.Statement, Point{})
	if err != nil {
		t.Fatal(err)
	}
	terms, err := NewLockTerms(&o, a)
	if err != nil {
		t.Fatal(err)
	}
	lock, err := NewLock(terms, "paper", "note-1", nil)
	if err != nil || lock.Rail != "paper" {
		t.Fatalf("lock by the canonical id: %+v, %v", lock, err)
	}
	if _, err := NewLock(terms, "acme", "r", nil); !errors.Is(err, ErrUnknownRail) {
		t.Errorf("a new lock on an unregistered rail: %v", err)
	}
	terms.Rails[0] = "x402"
	if o.Rails[0] != "PaperRail" {
		t.Error("the terms share memory with the offer")
	}
}

// Whatever the arguments, a builder gives an emittable frame or an error.
func TestBuildersEmitOrRefuse(t *testing.T) {
	text := rapid.OneOf(rapid.Just(""), rapid.StringMatching(`[ -~]{1,12}`), rapid.String(),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 6), func(b []byte) string { return string(b) }))
	ms := rapid.OneOf(rapid.Int64Range(1, 50), rapid.Int64Range(1_700_000_000_000, 1_800_000_000_000), rapid.Int64())
	rapid.Check(t, func(t *rapid.T) {
		r := drawReader(t)
		in := Offer{
			From: didPayer, Role: Role(rapid.IntRange(1, 2).Draw(t, "role")),
			Amount: rapid.OneOf(rapid.StringMatching(`[1-9][0-9]{0,30}`), text).Draw(t, "amount"),
			Asset:  rapid.OneOf(rapid.StringMatching(`[A-Za-z0-9_-]{1,32}`), text).Draw(t, "asset"),
			Lock:   LockKind(rapid.IntRange(1, 2).Draw(t, "lock")), Rails: rapid.SliceOfN(noisyRail(), 1, 3).Draw(t, "rails"),
			ExpiresMs: ms.Draw(t, "expires"), ClaimByMs: ms.Draw(t, "claimBy"), RefundAfterMs: ms.Draw(t, "refundAfter"),
		}
		key, pub, _ := GeneratePaymentKey(r)
		if rapid.Bool().Draw(t, "with a key") {
			in.PaymentKey = pub
		}
		if rapid.Bool().Draw(t, "with a job") {
			in.Job = &Job{Proto: text.Draw(t, "proto"), ID: text.Draw(t, "job id"), Context: text.Draw(t, "context")}
		}
		if o, err := NewOffer(r, in); err == nil {
			checkLine(t, o)
		} else if o != nil {
			t.Fatalf("an offer together with %v", err)
		}

		// A sound offer for the frames that come after one.
		in.Amount, in.Asset, in.Job, in.PaymentKey, in.Rails = "7", "FLOP", nil, pub, []string{"x402"}
		in.ExpiresMs, in.ClaimByMs, in.RefundAfterMs = 1, 2, 3
		o, err := NewOffer(r, in)
		if err != nil {
			t.Fatal(err)
		}
		secret, st, _ := GenerateHashLock(r)
		var presig *PreSignature
		if in.Lock == LockPoint {
			secret, st, _ = GeneratePointLock(r)
			y, _ := st.Point()
			pre, err := PreSign(key, nil, y, r)
			if err != nil {
				t.Fatal(err)
			}
			presig = &pre
		}
		a, err := NewAccept(r, o, didPayee, st, pub)
		if err != nil {
			t.Fatal(err)
		}
		checkLine(t, a)
		terms, err := NewLockTerms(o, a)
		if err != nil {
			t.Fatal(err)
		}
		party := rapid.SampledFrom([]string{didPayer, didPayee}).Draw(t, "party")
		outcome := rapid.SampledFrom([]Status{Claimed, Refunded, Cancelled}).Draw(t, "outcome")
		ref, say := text.Draw(t, "ref"), text.Draw(t, "say")
		for _, build := range []func() (Frame, error){
			func() (Frame, error) { return frameOrNil(NewLock(terms, "x402", ref, presig)) },
			func() (Frame, error) { return frameOrNil(NewReveal(terms, ref, secret)) },
			func() (Frame, error) { return frameOrNil(NewRefund(terms, ref, say)) },
			func() (Frame, error) { return frameOrNil(NewCancel(terms, party, say)) },
			func() (Frame, error) { return frameOrNil(NewCancelOffer(o, say)) },
			func() (Frame, error) { return frameOrNil(NewReceipt(terms, party, outcome, "X402", ref)) },
			func() (Frame, error) { return frameOrNil(NewHeartbeat(r, terms, party, say)) },
		} {
			f, err := build()
			if (f == nil) != (err != nil) {
				t.Fatalf("frame %v, error %v", f, err)
			}
			if f != nil {
				checkLine(t, f)
			}
		}
	})
}
