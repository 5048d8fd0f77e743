package protocol

import "testing"

func TestStatusMaps(t *testing.T) {
	for _, c := range []struct {
		s        Status
		a2a, acp string
	}{
		{StatusNone, "", ""},
		{Proposed, "submitted", "request"},
		{Accepted, "submitted", "negotiation"},
		{Locked, "working", "transaction"},
		{Claimed, "completed", "completed"},
		{Refunded, "failed", "rejected"},
		{Cancelled, "canceled", "rejected"},
		{Cancelled + 1, "", ""},
	} {
		if c.s.A2A() != c.a2a || c.s.ACP() != c.acp {
			t.Errorf("%v: a2a %q, acp %q", c.s, c.s.A2A(), c.s.ACP())
		}
	}
}
