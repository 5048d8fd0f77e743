package report

import (
	"github.com/tclk-audit/tclk-audit/protocol"
)

// presignature checks the lock's pre-signature under the claim message that
// the user brought (SPEC §3.3).
func (t *teller) presignature() {
	c := t.c
	t.heading("Pre-signature under the given claim message (unaudited cryptography)")
	statement, isPoint := c.Statement.Point()
	switch {
	case c.Status == protocol.StatusNone:
		t.line("  Cannot be checked: the offer is not in sight.")
	case t.counted(protocol.TypeLock) == nil:
		t.line("  Cannot be checked: no lock counts.")
	case c.PreSignature == nil:
		t.line("  Cannot be checked: the lock carries none.")
	case !isPoint:
		t.line("  Cannot be checked: the contract has a ", c.Lock.String(), " lock, and a pre-signature needs a point.")
	case c.PayerKey.IsZero():
		t.line("  Cannot be checked: the payer named no payment key.")
	case protocol.VerifyPreSignature(c.PayerKey, t.o.ClaimMessage, statement, *c.PreSignature):
		t.text(green, "  Valid")
		t.line(": made by the payer's payment key over this message; the secret completes it to a signature.")
	default:
		t.text(red, "  Invalid")
		t.line(": the secret does not complete it to a signature of the payer's payment key over this message.")
	}
	t.line("  The message is your word: no row holds it.")
}
