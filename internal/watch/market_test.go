package watch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tclk-audit/tclk-audit/internal/testkit/double"
	"github.com/tclk-audit/tclk-audit/internal/testkit/market"
	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/store"
)

// What the watcher concludes about each contract of a market is what its agents
// did, after half an hour of trade in which every deadline passed for some.
func TestMarket(t *testing.T) {
	for _, profile := range []double.Profile{double.V011, double.V0145} {
		t.Run(profile.Version(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSim(t, 1, double.Options{Profile: profile, ReadPerMin: 600})
				defer s.wire.Close()
				m := market.New(s.v, market.Options{Offers: 0.1, Board: 0.5, Rooms: 20, Hot: 3, Life: 8 * time.Minute, Seed: uint64(profile)})
				st := s.open()
				_, stop := s.watch(st, s.options())
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
				defer cancel()
				m.Run(ctx)
				time.Sleep(10 * time.Minute) // the last rows of quiet rooms are read
				stop()
				agree(t, st, m)
				s.compare(st)
				if err := st.Close(); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// agree holds the contracts of the store against those of the market.
func agree(t *testing.T, st *store.Store, m *market.Market) {
	t.Helper()
	r, err := st.Reader()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	items, err := r.Contracts(store.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	saw := map[protocol.ID]protocol.Status{}
	for i := range items {
		saw[items[i].Contract] = items[i].Status
	}
	did := m.Contracts()
	ends := map[protocol.Status]int{}
	for _, c := range did {
		ends[c.Status]++
		if got, ok := saw[c.ID]; !ok || got != c.Status {
			t.Errorf("%s (%s): the store says %q, the agents made it %q", c.ID, c.Script, got, c.Status)
		}
	}
	if len(items) != len(did) {
		t.Errorf("%d contracts in the store, %d were made", len(items), len(did))
	}
	for _, s := range []protocol.Status{protocol.Proposed, protocol.Accepted, protocol.Locked, protocol.Claimed, protocol.Refunded, protocol.Cancelled} {
		if ends[s] == 0 {
			t.Errorf("no contract came to be %s", s)
		}
	}
	t.Logf("%d contracts: %v", len(did), ends)
}
