package gen

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/tclk-audit/tclk-audit/protocol"
)

// manifestLimit is how many contracts the manifest lists.
const manifestLimit = 10_000

// Manifest is what manifest.json says: how the corpus was made and what it is
// meant to hold. Nothing in it was found by auditing.
type Manifest struct {
	Schema  string          `json:"schema"` // "tclk-audit.gen/1"
	Options ManifestOptions `json:"options"`
	Stats   Stats           `json:"stats"`

	// Rows counts lines by what a signature check makes of them.
	Rows     RowCounts        `json:"rows"`
	Stories  map[string]int64 `json:"stories"`  // by plot
	Statuses map[string]int64 `json:"statuses"` // contracts, by intended status
	Noise    map[string]int64 `json:"noise"`    // occurrences, by kind

	Contracts        []Contract `json:"contracts"` // the first 10,000, as they were planned
	ContractsOmitted int64      `json:"contractsOmitted"`
}

// ManifestOptions repeat the options that decide the bytes.
type ManifestOptions struct {
	Seed          uint64 `json:"seed"`
	Contracts     int    `json:"contracts"`
	Rows          int64  `json:"rows"`
	Keys          int    `json:"keys"`
	Noise         string `json:"noise"`
	DealRooms     bool   `json:"dealRooms"`
	Layout        string `json:"layout"`
	Single        bool   `json:"single"`
	BadSignatures bool   `json:"badSignatures"`
	StartMs       int64  `json:"startMs"`
	FloodAccepts  int64  `json:"floodAccepts"`
	FloodRows     int64  `json:"floodRows"`
}

// RowCounts counts lines by class.
type RowCounts struct {
	Authentic int64 `json:"authentic"`
	Repaired  int64 `json:"repaired"` // verifies with another spelling of its nonce
	Unsigned  int64 `json:"unsigned"`
	Invalid   int64 `json:"invalid"`
	Malformed int64 `json:"malformed"`
	Torn      int64 `json:"torn"`
	Duplicate int64 `json:"duplicate"` // repeat a record; also in one of the others
}

// Contract is what an auditor is meant to find about one contract, from the
// files of the corpus and under the default rules. An empty Evidence or Verdict
// means that the plan does not determine it.
type Contract struct {
	Contract string `json:"contract"`
	Offer    string `json:"offer"`
	Room     string `json:"room"`
	Story    string `json:"story"`
	Status   string `json:"status"` // "" where the offer is not in sight
	Binding  string `json:"binding"`
	BoundTo  string `json:"boundTo,omitempty"`
	Chosen   bool   `json:"chosen"`
	Late     bool   `json:"late"`
	Shadow   string `json:"shadow,omitempty"` // "" says nothing
	Evidence string `json:"evidence"`
	Verdict  string `json:"verdict"`
	// Findings are codes that must be among the contract's; nonce-repaired only
	// as far as the auditor's budget for repairs goes.
	Findings []string `json:"findings"`
}

func (p *planner) manifest() *Manifest {
	o := p.o
	m := &Manifest{
		Schema: "tclk-audit.gen/1",
		Options: ManifestOptions{
			Seed: o.Seed, Contracts: o.Contracts, Rows: o.Rows, Keys: o.Keys, Noise: o.Noise.String(),
			DealRooms: o.DealRooms, Layout: o.layout().String(), Single: o.Single, BadSignatures: o.BadSignatures,
			StartMs: o.StartMs, FloodAccepts: o.FloodAccepts, FloodRows: o.FloodRows,
		},
		Stats: p.stats,
		Rows: RowCounts{
			Authentic: p.classes[authentic], Repaired: p.classes[repaired], Unsigned: p.classes[unsigned],
			Invalid: p.classes[invalid], Malformed: p.classes[malformed], Torn: p.classes[torn], Duplicate: p.repeats,
		},
		Stories: p.stories, Statuses: p.statuses, Noise: map[string]int64{},
		Contracts: []Contract{}, ContractsOmitted: p.stats.Contracts - int64(len(p.kept)),
	}
	for i, n := range p.noise {
		if n > 0 {
			m.Noise[kinds[i].name] = n
		}
	}
	cut := o.Single && p.cut
	for _, c := range p.kept {
		m.Contracts = append(m.Contracts, c.contract(cut))
	}
	return m
}

func (c *outcome) contract(cut bool) Contract {
	evidence := c.evidence(cut)
	out := Contract{
		Contract: c.id.String(), Offer: c.offer.String(), Room: c.room.name, Story: c.story,
		Status: c.status.String(), Binding: c.binding, Chosen: c.chosen, Late: c.late, Shadow: c.shadow.String(),
		Evidence: evidence, Verdict: c.verdict(evidence), Findings: append([]string{}, c.codes...),
	}
	if c.boundTo != (protocol.ID{}) {
		out.BoundTo = c.boundTo.String()
	}
	if !c.inSight() && c.status == protocol.Accepted {
		out.Findings = append(out.Findings, "deal-room-not-in-sight")
	}
	return out
}

func writeManifest(path string, m *Manifest) error {
	b, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return fmt.Errorf("gen: encode the manifest: %w", err)
	}
	if err := os.WriteFile(path, append(b, '\n'), 0o666); err != nil {
		return fmt.Errorf("gen: write the manifest: %w", err)
	}
	return nil
}

// ReadManifest reads a corpus's manifest.json.
func ReadManifest(path string) (*Manifest, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("gen: read a manifest: %w", err)
	}
	m := new(Manifest)
	if err := json.Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("gen: read the manifest %s: %w", path, err)
	}
	return m, nil
}
