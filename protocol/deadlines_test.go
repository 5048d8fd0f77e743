package protocol

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestValidateDeadlines(t *testing.T) {
	const expires, claimBy, refundAfter = 10_000, 20_000, 30_000
	offer := Offer{ExpiresMs: expires, ClaimByMs: claimBy, RefundAfterMs: refundAfter}
	with := func(change func(*Offer)) Offer { o := offer; change(&o); return o }

	for _, c := range []struct {
		name string
		o    Offer
		now  int64
		tol  DeadlineTolerance
		want []DeadlineProblem
	}{
		{"good", offer, 0, DeadlineTolerance{}, nil},
		{"last moment before expiry", offer, expires - 1, DeadlineTolerance{}, nil},
		{"at expiry", offer, expires, DeadlineTolerance{}, []DeadlineProblem{ExpiryTooClose}},
		{"margin just kept", offer, expires - 501, DeadlineTolerance{MarginMs: 500}, nil},
		{"margin just missed", offer, expires - 500, DeadlineTolerance{MarginMs: 500}, []DeadlineProblem{ExpiryTooClose}},
		{"at claimBy", offer, claimBy, DeadlineTolerance{}, []DeadlineProblem{ExpiryTooClose, ClaimByTooClose}},
		{"negative margin", offer, expires, DeadlineTolerance{MarginMs: -500}, []DeadlineProblem{ExpiryTooClose}},
		{"window just wide enough", offer, 0, DeadlineTolerance{ClaimWindowMs: 10_000}, nil},
		{"window too short", offer, 0, DeadlineTolerance{ClaimWindowMs: 10_001}, []DeadlineProblem{ClaimWindowTooShort}},
		{"claimBy at refundAfter", with(func(o *Offer) { o.ClaimByMs = refundAfter }), 0, DeadlineTolerance{}, []DeadlineProblem{ClaimByNotBeforeRefund}},
		{"claimBy one before refundAfter", with(func(o *Offer) { o.ClaimByMs = refundAfter - 1 }), 0, DeadlineTolerance{}, nil},
		{"claimBy after refundAfter, window asked for", with(func(o *Offer) { o.ClaimByMs = refundAfter + 1 }), 0, DeadlineTolerance{ClaimWindowMs: 5}, []DeadlineProblem{ClaimByNotBeforeRefund}},
		{"expiry after claimBy", with(func(o *Offer) { o.ExpiresMs = claimBy + 1 }), 0, DeadlineTolerance{}, []DeadlineProblem{ExpiryAfterClaimBy}},
		{"expiry at claimBy", with(func(o *Offer) { o.ExpiresMs = claimBy }), 0, DeadlineTolerance{}, nil},
		{"no times", Offer{}, 0, DeadlineTolerance{}, []DeadlineProblem{DeadlineOutOfRange}},
		{"negative time", with(func(o *Offer) { o.ExpiresMs = -1 }), 0, DeadlineTolerance{}, []DeadlineProblem{DeadlineOutOfRange}},
		{"largest time", with(func(o *Offer) { o.RefundAfterMs = 1<<53 - 1 }), 0, DeadlineTolerance{}, nil},
		{"time beyond exact numbers", with(func(o *Offer) { o.RefundAfterMs = 1 << 53 }), 0, DeadlineTolerance{}, []DeadlineProblem{DeadlineOutOfRange}},
		{"clock at its end", offer, math.MaxInt64, DeadlineTolerance{}, []DeadlineProblem{ExpiryTooClose, ClaimByTooClose}},
		{"clock at its beginning", offer, math.MinInt64, DeadlineTolerance{}, nil},
		{"endless margin", offer, 0, DeadlineTolerance{MarginMs: math.MaxInt64, ClaimWindowMs: math.MaxInt64}, []DeadlineProblem{ClaimWindowTooShort, ExpiryTooClose, ClaimByTooClose}},
	} {
		if got := ValidateDeadlines(&c.o, c.now, c.tol); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

// Waiting, or asking for more, never makes a problem go away.
func TestDeadlinesGetNoBetter(t *testing.T) {
	ms := rapid.Int64Range(-5, 40)
	rapid.Check(t, func(t *rapid.T) {
		o := Offer{ExpiresMs: ms.Draw(t, "expires"), ClaimByMs: ms.Draw(t, "claimBy"), RefundAfterMs: ms.Draw(t, "refundAfter")}
		now, tol := ms.Draw(t, "now"), DeadlineTolerance{MarginMs: ms.Draw(t, "margin"), ClaimWindowMs: ms.Draw(t, "window")}
		before := ValidateDeadlines(&o, now, tol)
		after := ValidateDeadlines(&o, now+rapid.Int64Range(0, 9).Draw(t, "wait"), DeadlineTolerance{
			MarginMs: tol.MarginMs + rapid.Int64Range(0, 9).Draw(t, "more margin"), ClaimWindowMs: tol.ClaimWindowMs + rapid.Int64Range(0, 9).Draw(t, "more window")})
		for _, p := range before {
			if !slices.Contains(after, p) {
				t.Fatalf("%v went away: %v, then %v", p, before, after)
			}
		}
		if !slices.IsSorted(after) {
			t.Fatalf("out of order: %v", after)
		}
	})
}

func TestDeadlineProblemText(t *testing.T) {
	seen := map[string]DeadlineProblem{}
	for p := DeadlineOutOfRange; p <= ExpiryAfterClaimBy; p++ {
		text := p.String()
		if text == "" {
			t.Errorf("problem %d has no text", p)
		}
		if other, twice := seen[text]; twice {
			t.Errorf("problems %d and %d are both %q", other, p, text)
		}
		seen[text] = p
	}
	if DeadlineProblem(0).String() != "" || (ExpiryAfterClaimBy+1).String() != "" {
		t.Error("no problem has a text")
	}
}
