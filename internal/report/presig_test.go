package report

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/protocol"
)

// TestClaimMessage holds each answer about a pre-signature.
func TestClaimMessage(t *testing.T) {
	message := []byte("the rail's claim message")
	dice := bytes.NewReader(bytes.Repeat([]byte("not random "), 100))
	key, pub, err := protocol.GeneratePaymentKey(dice)
	if err != nil {
		t.Fatal(err)
	}
	_, statement, err := protocol.GeneratePointLock(dice)
	if err != nil {
		t.Fatal(err)
	}
	point, _ := statement.Point()
	pre, err := protocol.PreSign(key, message, point, dice)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		change  func(*fold.Contract)
		message []byte
		want    string
	}{
		{"valid", func(*fold.Contract) {}, message, "  Valid: "},
		{"another message", func(*fold.Contract) {}, []byte("x"), "  Invalid: "},
		{"empty message", func(*fold.Contract) {}, []byte{}, "  Invalid: "},
		{"another key", func(c *fold.Contract) { c.PayerKey = point }, message, "  Invalid: "},
		{"no key", func(c *fold.Contract) { c.PayerKey = protocol.Point{} }, message, "named no payment key"},
		{"no pre-signature", func(c *fold.Contract) { c.PreSignature = nil }, message, "the lock carries none"},
		{"hash lock", func(c *fold.Contract) { c.Statement = protocol.HashStatement([32]byte{1}); c.Lock = protocol.LockHash }, message, "has a hash lock"},
		{"no lock", func(c *fold.Contract) { c.Steps = c.Steps[:2] }, message, "no lock counts"},
		{"no offer", func(c *fold.Contract) { c.Status = protocol.StatusNone }, message, "the offer is not in sight"},
		{"not asked", func(*fold.Contract) {}, nil, ""},
	} {
		contract := claimed()
		contract.Lock, contract.Statement, contract.PayerKey, contract.PreSignature = protocol.LockPoint, statement, pub, &pre
		c.change(contract)
		out := string(render(t, func(w io.Writer) error {
			return Explain(w, contract, ExplainOptions{Rules: "spec", ClaimMessage: c.message})
		}))
		if asked := c.message != nil; strings.Contains(out, "unaudited") != asked {
			t.Errorf("%s: marked as unaudited: %v", c.name, !asked)
		}
		if !strings.Contains(out, c.want) {
			t.Errorf("%s: no %q in\n%s", c.name, c.want, out)
		}
	}
}
