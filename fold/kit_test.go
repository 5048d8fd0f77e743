package fold_test

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/internal/testkit"
	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/verify"
)

const epoch = testkit.Epoch

// scene is a venue in memory: what its rooms hold and how they are folded.
type scene struct {
	keys  *testkit.Keys
	rand  *testkit.Rand
	board *testkit.Room
	opts  fold.Options

	// tweaks change rows on their way into the fold.
	tweaks map[*testkit.Row]func(*fold.Row)
	// trusted takes every signed row as authentic, without asking.
	trusted bool
}

func newScene() *scene {
	return &scene{
		keys: testkit.NewKeys(1), rand: testkit.NewRand(1, "fold"), board: testkit.NewBoard(),
		tweaks: map[*testkit.Row]func(*fold.Row){},
	}
}

// The people of most scenes; strangers begin at 10.
func (s *scene) payer() testkit.Party { return s.keys.Party(0) }
func (s *scene) payee() testkit.Party { return s.keys.Party(1) }

func (s *scene) stranger(i int) *testkit.Signer { return s.keys.Signer(10 + i) }

// deal is a deal of which nothing is posted yet, and its empty deal room.
func (s *scene) deal(t testkit.Terms) (*testkit.Deal, *testkit.Room) {
	d := testkit.NewDeal(s.rand, s.payer(), s.payee(), t)
	return d, d.NewRoom()
}

// opened is a deal whose offer and accept stand on the board.
func (s *scene) opened(t testkit.Terms) (*testkit.Deal, *testkit.Room) {
	d, room := s.deal(t)
	d.Open(s.board, epoch)
	return d, room
}

// tweak changes a row on its way into the fold, after it was judged.
func (s *scene) tweak(r *testkit.Row, f func(*fold.Row)) { s.tweaks[r] = f }

// row judges a row as the pipeline does.
func (s *scene) row(v *verify.Verifier, r *testkit.Row) *fold.Row {
	f := &fold.Row{Record: r.Record, ID: r.Record.ID(), Size: len(testkit.AppendRow(nil, &r.Record, r.Micros)) + 1}
	if s.trusted && r.Sig != nil {
		f.Verify.Class = verify.Authentic
	} else {
		f.Verify = v.Check(&r.Record)
	}
	f.Key, f.IsDID = verify.DecodeDID(r.From)
	f.NotStrict = f.Verify.NotStrict
	if f.Verify.Class == verify.Authentic {
		s.decode(f)
	}
	if tweak := s.tweaks[r]; tweak != nil {
		tweak(f)
	}
	return f
}

func (s *scene) decode(f *fold.Row) {
	f.Line = protocol.Decode(string(f.Record.Text), s.opts.Rules.Decode())
	if f.Line.Frame == nil && !s.opts.Rules.Reference {
		f.Reference = protocol.Decode(string(f.Record.Text), protocol.ReferenceRules())
	}
}

// repaired makes a row one whose signature covers another spelling of its nonce.
func (s *scene) repaired(r *testkit.Row) {
	s.tweak(r, func(f *fold.Row) {
		f.Verify = verify.Result{Class: verify.Repaired, Reason: protocol.SignatureInvalid, SignedNonce: "000" + string(f.Record.Nonce)}
		s.decode(f)
	})
}

// conflict marks what two copies of a room say against each other.
func (s *scene) conflict(r *testkit.Row, c fold.Conflict) {
	s.tweak(r, func(f *fold.Row) { f.Conflict = c })
}

// audit folds the board, then the rooms.
func (s *scene) audit(rooms ...*testkit.Room) *fold.Auditor {
	a := fold.New(s.opts)
	v := verify.New()
	for _, room := range append([]*testkit.Room{s.board}, rooms...) {
		a.Room(room.Name)
		for _, r := range room.Rows {
			a.Add(s.row(v, r))
		}
	}
	a.Finish()
	return a
}

// one is the contract of a deal.
func one(t *testing.T, a *fold.Auditor, d *testkit.Deal) *fold.Contract {
	t.Helper()
	c := a.Contract(d.ID())
	if c == nil {
		t.Fatalf("the contract is not listed")
	}
	return c
}

// fate is the short form of what the audit says about a contract.
type fate struct {
	Status   protocol.Status
	Evidence fold.EvidenceAxis
	Verdict  fold.Verdict
}

func wantFate(t *testing.T, c *fold.Contract, s protocol.Status, e fold.EvidenceAxis, v fold.Verdict) {
	t.Helper()
	if got, want := (fate{c.Status, c.Evidence, c.Verdict}), (fate{s, e, v}); got != want {
		t.Errorf("%s, %s, %s; want %s, %s, %s", got.Status, got.Evidence, got.Verdict, want.Status, want.Evidence, want.Verdict)
	}
}

func wantPossible(t *testing.T, c *fold.Contract, want ...protocol.Status) {
	t.Helper()
	if diff := cmp.Diff(want, c.Possible); diff != "" && len(want)+len(c.Possible) > 0 {
		t.Errorf("possible (-want +got):\n%s", diff)
	}
}

// found lists a contract's findings of one code.
func found(c *fold.Contract, code fold.Code) (list []fold.Finding) {
	for _, f := range c.Findings {
		if f.Code == code {
			list = append(list, f)
		}
	}
	return list
}

// wantFinding is the one finding of a code with a severity.
func wantFinding(t *testing.T, c *fold.Contract, code fold.Code, sev fold.Severity) fold.Finding {
	t.Helper()
	list := found(c, code)
	if len(list) != 1 {
		t.Errorf("%d findings %s, want one", len(list), code)
		return fold.Finding{}
	}
	if list[0].Severity != sev {
		t.Errorf("%s is %s, want %s", code, list[0].Severity, sev)
	}
	return list[0]
}

func wantNoFinding(t *testing.T, c *fold.Contract, codes ...fold.Code) {
	t.Helper()
	for _, f := range c.Findings {
		if slices.Contains(codes, f.Code) {
			t.Errorf("unexpected finding %s: %s", f.Code, f.Detail)
		}
	}
}

// step is the short form of a step: "+lock", "-lock wrong-status", "~" for
// ignored.
func brief(s *fold.Step) string {
	typ := s.Type.String()
	if typ == "" {
		typ = "?"
	}
	switch {
	case s.Ignored:
		return "~" + s.Reason.String()
	case s.OK:
		return "+" + typ
	case s.CascadeOf != nil:
		return "-" + typ + " " + s.Reason.String() + " cascade"
	}
	return "-" + typ + " " + s.Reason.String()
}

func briefs(c *fold.Contract) (list []string) {
	for i := range c.Steps {
		list = append(list, brief(&c.Steps[i]))
	}
	return list
}

func wantSteps(t *testing.T, c *fold.Contract, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, briefs(c)); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

// sha8 is the start of a word's sha256, as it is shown in place of the word.
func sha8(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:4])
}

// story is one venue, and all that the audit must say of its deal.
type story struct {
	name  string
	rules fold.Rules
	// post tells what happened. It returns the deal and the deal rooms in sight.
	post     func(s *scene) (*testkit.Deal, []*testkit.Room)
	fate     fate
	possible []protocol.Status
	steps    []string // nil: not looked at
	finds    []find   // each exactly once
	lacks    []fold.Code
	check    func(t *testing.T, s *scene, c *fold.Contract)
}

// find is a finding's code and severity.
type find struct {
	code fold.Code
	sev  fold.Severity
}

func tell(t *testing.T, stories []story) {
	t.Helper()
	for _, st := range stories {
		t.Run(st.name, func(t *testing.T) {
			s := newScene()
			s.opts.Rules = st.rules
			d, rooms := st.post(s)
			c := one(t, s.audit(rooms...), d)
			wantFate(t, c, st.fate.Status, st.fate.Evidence, st.fate.Verdict)
			wantPossible(t, c, st.possible...)
			if st.steps != nil {
				wantSteps(t, c, st.steps...)
			}
			for _, f := range st.finds {
				wantFinding(t, c, f.code, f.sev)
			}
			wantNoFinding(t, c, st.lacks...)
			if st.check != nil {
				st.check(t, s, c)
			}
			if t.Failed() {
				for _, f := range c.Findings {
					t.Logf("finding %s %s %s: %s", f.Code, f.Severity, f.Room, f.Detail)
				}
			}
		})
	}
}

// locked and claimed are deals that got that far without a fault.
func (s *scene) locked() (*testkit.Deal, *testkit.Room) {
	d, room := s.opened(testkit.Terms{})
	room.Post(d.Payer, epoch+10_000, d.Lock())
	return d, room
}

func (s *scene) claimed() (*testkit.Deal, *testkit.Room) {
	d, room := s.locked()
	room.Post(d.Payee, epoch+20_000, d.Reveal())
	return d, room
}

func rooms(d *testkit.Deal, r ...*testkit.Room) (*testkit.Deal, []*testkit.Room) { return d, r }
