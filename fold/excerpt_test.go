package fold_test

import (
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/internal/testkit"
	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/verify"
)

// venue is a world's rows as the fold gets them, room by room.
type venue struct {
	opts  fold.Options
	board []event
	rooms map[string][]event
	known []string // rooms that are in sight, rows or not
	heads map[string]uint64
	clock *int64
}

// event is a row, or one that could not be used where row is nil.
type event struct {
	row    *fold.Row
	source uint32
	facts  fold.BoardFacts
}

func chance(t *rapid.T, n int, what string) bool { return rapid.IntRange(0, n-1).Draw(t, what) == 0 }

// drawVenue draws a hostile world.
func drawVenue(t *rapid.T, o fold.Options) (*venue, *fold.BoardWatch) {
	w := drawWorld(t)
	w.opts = o
	if chance(t, 2, "more deals") {
		w.drawPoints(t)
	}
	if chance(t, 6, "beginning lost") {
		w.board.Skip(3)
	}
	w.drawHostile(t)
	for range rapid.IntRange(1, 2).Draw(t, "rounds") {
		w.drawRows(t, 12)
		w.drawDeals(t)
		w.drawHostile(t)
	}

	ven := &venue{opts: o, rooms: map[string][]event{}, heads: map[string]uint64{}}
	v := verify.New()
	ven.board = w.events(t, v, w.board.Rows, 0)
	for _, name := range w.names {
		if !chance(t, 6, "not in sight") {
			ven.known = append(ven.known, name)
		}
		if chance(t, 6, "head") {
			ven.heads[name] = w.rooms[name].Seq + uint64(rapid.IntRange(0, 1).Draw(t, "beyond"))
		}
		for source := range uint32(1 + rapid.IntRange(0, 4).Draw(t, "copies")/4) {
			ven.rooms[name] = append(ven.rooms[name], w.events(t, v, w.rooms[name].Rows, source+1)...)
		}
	}
	if chance(t, 8, "torn") {
		ven.rooms[""] = []event{{source: 1}}
	}
	watch := fold.NewBoardWatch(o)
	for i := range ven.board {
		if e := &ven.board[i]; e.row != nil {
			e.facts = watch.See(e.row)
		} else {
			watch.Malformed()
		}
	}
	return ven, watch
}

// drawPoints adds deals with payment keys, and rivals that share a statement.
func (w *world) drawPoints(t *rapid.T) {
	for i := range 2 {
		terms := testkit.Terms{Lock: rapid.SampledFrom([]protocol.LockKind{protocol.LockHash, protocol.LockPoint}).Draw(t, "lock"), HashKeys: true, Expires: 1000, ClaimBy: 2000, Refund: 3000}
		d := testkit.NewDeal(w.rand, w.keys.Party(20+i), w.keys.Party(21), terms)
		r := d.Rival(w.keys.Party(22))
		if rapid.Bool().Draw(t, "share") {
			r.Accept.Statement, r.Secret = d.Accept.Statement, d.Secret
			r.Seal()
		}
		w.deals = append(w.deals, d, r)
		w.room(d.RoomName())
	}
}

// drawDeals carries some deals on as their parties meant to.
func (w *world) drawDeals(t *rapid.T) {
	for _, d := range w.deals {
		room, now := w.room(d.RoomName()), epoch+500
		if chance(t, 5, "on the board") {
			room = w.board
		}
		for _, f := range []protocol.Frame{d.Lock(), d.Reveal(), d.Receipt(d.Payer, protocol.Claimed)} {
			if chance(t, 3, "stop") {
				break
			}
			now += 100
			who := d.Payer
			if f.Type() == protocol.TypeReveal {
				who = d.Payee
			}
			room.Post(who, now, f)
		}
	}
}

// drawHostile posts what strangers like: frames in wrong rooms, accepts that
// name any id, cancels and reveals on the board.
func (w *world) drawHostile(t *rapid.T) {
	now := epoch + int64(rapid.IntRange(0, 3000).Draw(t, "hostile time"))
	for range rapid.IntRange(0, 6).Draw(t, "hostile rows") {
		d := rapid.SampledFrom(w.deals).Draw(t, "deal")
		other := rapid.SampledFrom(w.deals).Draw(t, "other deal")
		where := w.room(rapid.SampledFrom([]string{"lobby", "zoo", other.RoomName(), d.RoomName(), protocol.BoardRoom}).Draw(t, "where"))
		switch rapid.IntRange(0, 7).Draw(t, "hostile") {
		case 0, 1:
			who, f := w.drawFrame(t, d)
			where.Post(who, now, f)
		case 2: // an accept that names any id
			f := *d.Accept
			f.Contract = rapid.SampledFrom([]protocol.ID{d.ID(), other.ID(), other.Offer.ID, {1}}).Draw(t, "id")
			f.Contract[31] ^= byte(rapid.IntRange(0, 1).Draw(t, "room mate"))
			if chance(t, 2, "ref") {
				f.Ref = rapid.SampledFrom([]protocol.ID{other.Offer.ID, {2}}).Draw(t, "refs")
			}
			who := w.stranger(0)
			f.From = who.DID
			w.board.Post(who, now, &f)
		case 3:
			if chance(t, 2, "offer") {
				w.board.Post(d.Offerer.Signer, now, d.Offer)
			}
			w.board.Post(d.Offerer.Signer, now, d.CancelOffer(""))
			if chance(t, 2, "receipt") {
				w.board.Post(d.Offerer.Signer, now, &protocol.Receipt{From: d.Offerer.DID, Contract: d.Offer.ID, Outcome: protocol.Cancelled})
			}
		case 4: // a secret where it does not belong
			f := d.Reveal()
			f.From = w.stranger(1).DID
			if chance(t, 2, "under another name") {
				f.Contract = other.ID()
			}
			where.Post(w.stranger(1), now, f)
		case 5:
			w.board.Post(d.Offerer.Signer, now, d.Offer)
		case 6:
			f := drawAny(t, d)
			who := w.stranger(2)
			if f.Sender() == d.Payer.DID {
				who = d.Payer
			}
			where.Post(who, now, f)
		default:
			if len(where.Rows) > 0 {
				where.Replay(rapid.SampledFrom(where.Rows).Draw(t, "old"), now)
			}
		}
	}
}

// events judges rows, and spoils some.
func (w *world) events(t *rapid.T, v *verify.Verifier, rows []*testkit.Row, source uint32) (list []event) {
	for _, r := range rows {
		f := w.row(v, r)
		f.Source = source
		if sum := crc32.ChecksumIEEE(f.Record.Text); sum%16 == 0 { // what the reference alone decodes, wherever it stands
			f.Reference, f.Line = f.Line, protocol.Decoded{Reason: protocol.UnknownField}
			if w.opts.Rules.Reference {
				f.Reference = protocol.Decoded{}
			}
		}
		spoil := rapid.IntRange(0, 39).Draw(t, "spoil")
		if _, ok := f.Line.Frame.(*protocol.Cancel); ok && spoil > 26 {
			spoil = 0 // a repaired cancel casts doubt on the accepts behind it
		}
		switch spoil {
		case 0, 1:
			if f.Verify.Class != verify.Authentic {
				break
			}
			f.Verify = verify.Result{Class: verify.Repaired, Reason: protocol.SignatureInvalid, SignedNonce: "000" + string(f.Record.Nonce)}
			if spoil == 0 {
				break
			}
			f.Verify = verify.Result{Class: verify.Invalid, Reason: protocol.SignatureInvalid, OtherRoom: "elsewhere"}
		case 2:
			f.Hidden = true
		case 3:
			f.Line.Canonical = false
		case 4:
			f.NotStrict = true
		case 5:
			f.Conflict = fold.Conflict(rapid.IntRange(1, 7).Draw(t, "conflict"))
		case 6:
			f.Record.Seq--
		case 7:
			f.Record.TsMs += 700
		case 8:
			f.Record.Nonce = []byte("5")
			f.ID = f.Record.ID()
		case 9:
			f.Record.Generation = uint64(rapid.IntRange(1, 2).Draw(t, "generation"))
		case 10, 11:
			continue
		case 12:
			list = append(list, event{source: source})
		}
		list = append(list, event{row: f, source: source})
	}
	return list
}

func clone(r *fold.Row) *fold.Row { c := *r; return &c }

// whole folds it all: the board, then the rooms by name.
func (ven *venue) whole() *fold.Auditor {
	a := fold.New(ven.opts)
	for _, name := range ven.known {
		a.Room(name)
	}
	for name, seq := range ven.heads {
		a.Head(name, seq)
	}
	add := func(name string, list []event) {
		for _, e := range list {
			if e.row == nil {
				a.Malformed(name, e.source)
			} else {
				a.Add(clone(e.row))
			}
		}
	}
	add(protocol.BoardRoom, ven.board)
	for _, name := range slices.Sorted(maps.Keys(ven.rooms)) {
		add(name, ven.rooms[name])
	}
	end := protocol.Record{Room: "zz-last", Seq: 1, Text: []byte("the last row of all")}
	a.Add(&fold.Row{Record: end, ID: end.ID()})
	a.Finish()
	ven.clock = a.Summary().ClockMs
	return a
}

// bears lists the ids of which the board's rows bear on the contract, and the
// statements that its accepts name.
func (ven *venue) bears(id protocol.ID) (ids map[protocol.ID]bool, statements []protocol.Statement) {
	ids = map[protocol.ID]bool{id: true}
	for _, e := range ven.board {
		if e.row == nil {
			continue
		}
		if f, ok := e.row.Line.Frame.(*protocol.Accept); ok && f.Contract == id {
			ids[f.Ref] = true
			statements = append(statements, f.Statement)
		}
	}
	return ids, statements
}

// feed gives the excerpt what bears on a contract, and returns which rows of
// the board it gave.
func (ven *venue) feed(x *fold.Excerpt, id protocol.ID, siblings map[protocol.ID]int, first uint64, roomOrder []string) (given []int) {
	ids, statements := ven.bears(id)
	opens := func(f protocol.Frame) bool {
		rv, ok := f.(*protocol.Reveal)
		if !ok {
			return false
		}
		_, named := siblings[rv.Contract]
		return slices.ContainsFunc(statements, func(s protocol.Statement) bool {
			return (s.Kind() == protocol.LockHash || rv.Contract == id || named) && s.Opens(rv.Secret)
		})
	}
	x.Reset(first)
	for i, e := range ven.board {
		for s, at := range siblings {
			if at == i {
				x.Sibling(s)
			}
		}
		if e.row == nil {
			continue
		}
		wanted := false
		switch f := e.row.Line.Frame.(type) {
		case nil:
			o, ok := e.row.Reference.Frame.(*protocol.Offer)
			wanted = ok && ids[o.ID]
		case *protocol.Offer:
			wanted = ids[f.ID]
		case *protocol.Accept:
			wanted = f.Contract == id
		default:
			c, _ := protocol.ContractOf(f)
			wanted = ids[c] || opens(f)
		}
		if wanted {
			given = append(given, i)
			x.Board(clone(e.row), e.facts)
		}
	}
	own := protocol.DealRoom(id)
	if slices.Contains(ven.known, own) {
		x.Room(own)
	}
	if seq, ok := ven.heads[own]; ok {
		x.Head(own, seq)
	}
	for _, name := range roomOrder {
		for _, e := range ven.rooms[name] {
			switch {
			case e.row == nil:
				if name == own || name == "" {
					x.Malformed(name, e.source)
				}
			case name == own:
				x.Add(clone(e.row))
			case e.row.Line.Frame != nil:
				if c, ok := protocol.ContractOf(e.row.Line.Frame); ok && c == id || opens(e.row.Line.Frame) {
					x.Add(clone(e.row))
				}
			}
		}
	}
	return given
}

// told is one contract's answer to what the others must know, and the row of
// the board that opened it.
type told struct {
	fold.Accepted
	at int
}

// context puts together what all others say of a contract.
func context(id protocol.ID, all map[protocol.ID]told) fold.Context {
	me := all[id]
	var ctx fold.Context
	boundAt, listed := -1, 0
	for other, o := range all {
		if !o.Listed || o.Orphan {
			continue
		}
		if o.Offer == me.Offer {
			listed++
			if o.Counts && (boundAt < 0 || o.at < boundAt) {
				boundAt, ctx.Bound = o.at, other
			}
			if o.Locked {
				ctx.Locks++
				if o.Payer == me.Payer {
					ctx.PayerLocks++
				}
			}
		}
		if other == id {
			continue
		}
		if o.Statement == me.Statement {
			ctx.SharedStatement = true
			ctx.SiblingClaimed = ctx.SiblingClaimed || o.Status == protocol.Claimed
		}
		for _, k := range []protocol.Point{me.PayerKey, me.PayeeKey} {
			ctx.SharedKey = ctx.SharedKey || !k.IsZero() && (k == o.PayerKey || k == o.PayeeKey)
		}
	}
	ctx.Raced = listed > 1
	return ctx
}

// Folded from the rows that bear on it, a contract is what it is in the whole.
func TestExcerptIsTheWhole(t *testing.T) {
	seen := map[string]int{}
	for bits := range 16 {
		if testing.Short() && bits%5 != 0 {
			continue
		}
		rules := fold.Rules{Reference: bits&1 != 0, OfferRoom: bits&2 != 0, FirstAccept: bits&4 != 0, RepairNonces: bits&8 != 0}
		t.Run(rules.String(), func(t *testing.T) {
			o := fold.Options{Rules: rules, KeepText: bits%3 == 0, Exact: bits%5 == 0}
			x, h := fold.NewExcerpt(o), new(fold.Holder)
			rapid.Check(t, func(t *rapid.T) { testExcerpt(t, o, x, h, seen) })
		})
	}
	t.Log(seen)
	if testing.Short() {
		return
	}
	for _, what := range []string{
		"orphan", "raced", "superseded", "two locks of a payer", "shared statement", "sibling claimed", "shared key", "room taken",
		"holes", "nonce fell", "replay", "conflict", "shadow", "exposed", "lost", "too late", "late", "point sibling", "elsewhere", "unlisted",
		"rules diverge", "equivocation", "board decides",
	} {
		if seen[what] == 0 {
			t.Errorf("no board had: %s", what)
		}
	}
}

func testExcerpt(t *rapid.T, o fold.Options, x *fold.Excerpt, h *fold.Holder, seen map[string]int) {
	ven, watch := drawVenue(t, o)
	a := ven.whole()
	ids := map[protocol.ID]bool{}
	for _, e := range ven.board {
		if e.row != nil {
			if f, ok := e.row.Line.Frame.(*protocol.Accept); ok {
				ids[f.Contract] = true
			}
		}
	}
	order := slices.SortedFunc(maps.Keys(ids), func(a, b protocol.ID) int { return slices.Compare(a[:], b[:]) })
	order = rapid.Permutation(order).Draw(t, "contracts")
	rooms := rapid.Permutation(slices.Sorted(maps.Keys(ven.rooms))).Draw(t, "rooms")
	all := map[protocol.ID]told{}
	accept := func(id, bound protocol.ID) {
		given := ven.feed(x, id, a.Siblings(id), watch.First(), rooms)
		got := told{Accepted: x.Accept(id, bound)}
		if got.Listed {
			got.at = given[got.At-1]
		}
		all[id] = got
	}
	for _, id := range order {
		accept(id, protocol.ID{})
	}
	if o.Rules.FirstAccept {
		for _, id := range order {
			accept(id, context(id, all).Bound)
		}
	}
	for _, id := range order {
		want := a.Contract(id)
		ctx := context(id, all)
		ctx.BoardHoles, ctx.BoardUnfilled, ctx.ClockMs, ctx.RoomTaken = watch.Holes(), watch.Unfilled(), ven.clock, a.RoomTaken(id)
		siblings := a.Siblings(id)
		given := ven.feed(x, id, siblings, watch.First(), rooms)
		if rapid.Bool().Draw(t, "another context first") {
			x.Contract(id, fold.Context{Raced: true, SharedStatement: true, Bound: protocol.ID{3}, Locks: 2, BoardHoles: 1 << 20, BoardUnfilled: true}, h)
		}
		got := x.Contract(id, ctx, h)
		if (want == nil) != (got == nil) || all[id].Listed != (want != nil) {
			t.Fatalf("%s: listed in the whole %t, in the excerpt %t", id, want != nil, got != nil)
		}
		if want == nil {
			seen["unlisted"]++
			continue
		}
		for _, c := range []*fold.Contract{want, got} {
			for i := range c.Findings {
				c.Findings[i].Order = 0
			}
		}
		if diff := gocmp.Diff(want, got, compareStatements, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("rules %s, %s, context %+v: whole (-), excerpt (+):\n%s", o.Rules, id, ctx, diff)
		}
		tally(seen, ven, want, all[id], ctx, given, siblings)
	}
}

// tally counts what the boards had, so that the test cannot pass on dull ones.
func tally(seen map[string]int, ven *venue, c *fold.Contract, me told, ctx fold.Context, given []int, siblings map[protocol.ID]int) {
	count := func(what string, yes bool) {
		if yes {
			seen[what]++
		}
	}
	seen["contracts"]++
	count("orphan", me.Orphan)
	count("raced", ctx.Raced)
	count("superseded", c.Binding == fold.Superseded)
	count("two locks of a payer", ctx.PayerLocks > 1)
	count("shared statement", ctx.SharedStatement)
	count("sibling claimed", ctx.SiblingClaimed && me.Exposed)
	count("shared key", ctx.SharedKey)
	count("room taken", me.Orphan && ctx.RoomTaken)
	count("shadow", c.ShadowSteps != nil)
	count("exposed", me.Exposed)
	count("late", me.Late)
	count("too late", me.TooLate)
	count("point sibling", len(siblings) > 0 && me.Exposed)
	for _, i := range given {
		e := ven.board[i]
		count("holes", e.facts.Holes > 0)
		count("nonce fell", e.facts.NonceFell)
		count("replay", e.facts.Replay)
		count("conflict", e.row.Conflict != 0)
	}
	for _, f := range c.Findings {
		count("elsewhere", f.Code == fold.WrongRoom && f.Room != protocol.BoardRoom)
		count("rules diverge", f.Code == fold.RulesDiverge)
		count("equivocation", f.Code == fold.Equivocation)
	}
	count("lost", !me.Orphan && !me.Counts && len(c.Possible) == 5)
	count("board decides", len(c.Steps) > 2 && c.Steps[2].Room == protocol.BoardRoom && c.Binding != fold.BindingNone)
	seen[fmt.Sprint("status ", c.Status)]++
	seen["verdict "+c.Verdict.String()]++
}

// simple is an offer and its accept, decoded.
func simple(tb testing.TB) (*testkit.Deal, []*fold.Row) {
	s := newScene()
	d, _ := s.opened(testkit.Terms{})
	v := verify.New()
	var rows []*fold.Row
	for _, r := range s.board.Rows {
		rows = append(rows, s.row(v, r))
	}
	return d, rows
}

// foldSimple folds an offer and its accept.
func foldSimple(x *fold.Excerpt, id protocol.ID, rows []*fold.Row, h *fold.Holder) *fold.Contract {
	x.Reset(1)
	for _, r := range rows {
		x.Board(r, fold.BoardFacts{})
	}
	return x.Contract(id, fold.Context{Bound: id}, h)
}

// A used Excerpt folds most contracts in the memory it has.
func TestExcerptKeepsItsMemory(t *testing.T) {
	d, rows := simple(t)
	x, h := fold.NewExcerpt(fold.Options{}), new(fold.Holder)
	got := testing.AllocsPerRun(1000, func() {
		if c := foldSimple(x, d.ID(), rows, h); c.Status != protocol.Accepted || c.Binding != fold.Bound {
			t.Fatalf("%s, %s", c.Status, c.Binding)
		}
	})
	if got > 4 {
		t.Errorf("%v allocations a contract", got)
	}
}

func BenchmarkExcerpt(b *testing.B) {
	d, rows := simple(b)
	x, h := fold.NewExcerpt(fold.Options{}), new(fold.Holder)
	b.ReportAllocs()
	for b.Loop() {
		foldSimple(x, d.ID(), rows, h)
	}
}

func BenchmarkExcerptAccept(b *testing.B) {
	d, rows := simple(b)
	x := fold.NewExcerpt(fold.Options{})
	b.ReportAllocs()
	for b.Loop() {
		x.Reset(1)
		for _, r := range rows {
			x.Board(r, fold.BoardFacts{})
		}
		x.Accept(d.ID(), protocol.ID{})
	}
}
