package fold_test

import (
	"cmp"
	"slices"
	"strconv"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/internal/testkit"
	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/verify"
)

// world is a random venue: some deals, rivals among them, and what parties,
// wrong parties and strangers posted on the board and into the deal rooms.
type world struct {
	*scene
	deals []*testkit.Deal
	rooms map[string]*testkit.Room
	names []string // of the deal rooms, in order of appearance
}

var allRules = []fold.Rules{
	{}, {Reference: true}, {OfferRoom: true}, {FirstAccept: true}, {RepairNonces: true}, {Reference: true, OfferRoom: true, FirstAccept: true},
}

func drawWorld(t *rapid.T) *world {
	w := &world{scene: newScene(), rooms: map[string]*testkit.Room{}}
	w.trusted = true
	w.opts.Rules = rapid.SampledFrom(allRules).Draw(t, "rules")
	w.rand = testkit.NewRand(rapid.Uint64().Draw(t, "seed"), "world")
	for i := range rapid.IntRange(1, 2).Draw(t, "offers") {
		terms := testkit.Terms{
			Role: rapid.SampledFrom([]protocol.Role{protocol.RolePayer, protocol.RolePayee}).Draw(t, "role"), Expires: 1000, ClaimBy: 2000, Refund: 3000,
			Rails: rapid.SampledFrom([][]string{{"flop-htlc"}, {"paper", "x402"}, {"old.rail"}}).Draw(t, "rails"),
		}
		d := testkit.NewDeal(w.rand, w.keys.Party(3*i), w.keys.Party(3*i+1), terms)
		w.deals = append(w.deals, d)
		for range rapid.IntRange(0, 2).Draw(t, "rivals") {
			r := d.Rival(w.keys.Party(3*i + rapid.IntRange(1, 2).Draw(t, "rival")))
			if rapid.IntRange(0, 3).Draw(t, "copies the statement") == 0 {
				r.Accept.Statement = d.Accept.Statement
				r.Seal()
			}
			w.deals = append(w.deals, r)
		}
	}
	for _, d := range w.deals {
		w.room(d.RoomName())
	}
	return w
}

func (w *world) room(name string) *testkit.Room {
	if name == protocol.BoardRoom {
		return w.board
	}
	r := w.rooms[name]
	if r == nil {
		r = testkit.NewRoom(name)
		w.rooms[name] = r
		w.names = append(w.names, name)
	}
	return r
}

// drawFrame draws a frame of a deal and who posts it; mostly the right one.
func (w *world) drawFrame(t *rapid.T, d *testkit.Deal) (*testkit.Signer, protocol.Frame) {
	who := d.Payer
	if rapid.Bool().Draw(t, "payee") {
		who = d.Payee
	}
	var f protocol.Frame
	switch rapid.IntRange(0, 9).Draw(t, "frame") {
	case 0:
		return d.Offerer.Signer, d.Offer
	case 1:
		return d.Acceptor.Signer, d.Accept
	case 2:
		return d.Offerer.Signer, d.CancelOffer("")
	case 3, 4:
		l := d.Lock()
		if rapid.IntRange(0, 3).Draw(t, "other ref") == 0 {
			l.Ref = "other"
		}
		who, f = d.Payer, l
	case 5, 6:
		r := d.Reveal()
		switch rapid.IntRange(0, 4).Draw(t, "reveal") {
		case 0:
			r.Ref = ""
		case 1:
			r.Ref = "other"
		case 2:
			r.Secret[0] ^= 1
		}
		who, f = d.Payee, r
	case 7:
		r := d.Refund()
		r.Ref = rapid.SampledFrom([]string{"", r.Ref, "other"}).Draw(t, "ref")
		who, f = d.Payer, r
	case 8:
		f = d.Cancel(who, "")
	default:
		if rapid.Bool().Draw(t, "heartbeat") {
			f = d.Heartbeat(who, "")
		} else {
			f = d.Receipt(who, rapid.SampledFrom([]protocol.Status{protocol.Claimed, protocol.Refunded, protocol.Cancelled}).Draw(t, "outcome"))
		}
	}
	if rapid.IntRange(0, 5).Draw(t, "stranger") == 0 {
		who = w.stranger(rapid.IntRange(0, 2).Draw(t, "which"))
		if rapid.Bool().Draw(t, "under own name") {
			f = underName(f, who.DID)
		}
	}
	return who, f
}

// underName is the frame with another sender.
func underName(f protocol.Frame, did string) protocol.Frame {
	switch f := f.(type) {
	case *protocol.Lock:
		g := *f
		g.From = did
		return &g
	case *protocol.Reveal:
		g := *f
		g.From = did
		return &g
	case *protocol.Refund:
		g := *f
		g.From = did
		return &g
	case *protocol.Cancel:
		g := *f
		g.From = did
		return &g
	case *protocol.Receipt:
		g := *f
		g.From = did
		return &g
	case *protocol.Heartbeat:
		g := *f
		g.From = did
		return &g
	}
	return f
}

// drawRows posts random rows. The venue's time goes on by up to 400 ms a row,
// and now and then a little back.
func (w *world) drawRows(t *rapid.T, n int) {
	now := epoch
	for _, d := range w.deals {
		if rapid.IntRange(0, 7).Draw(t, "no offer") != 0 {
			w.board.Post(d.Offerer.Signer, now, d.Offer)
		}
		if rapid.IntRange(0, 7).Draw(t, "no accept") != 0 {
			w.board.Post(d.Acceptor.Signer, now+1, d.Accept)
		}
	}
	for range rapid.IntRange(0, n).Draw(t, "rows") {
		now += rapid.Int64Range(-50, 400).Draw(t, "ms")
		d := rapid.SampledFrom(w.deals).Draw(t, "deal")
		room := w.room(d.RoomName())
		if rapid.IntRange(0, 4).Draw(t, "board") == 0 {
			room = w.board
		}
		switch rapid.IntRange(0, 11).Draw(t, "kind") {
		case 0:
			room.PostText(w.stranger(0), now, "hello")
		case 1:
			if len(room.Rows) > 0 {
				room.Replay(rapid.SampledFrom(room.Rows).Draw(t, "old row"), now)
			}
		case 2:
			if room == w.board {
				room.Say("nick", now, "hello")
			} else {
				room.PostText(d.Payee, now, "a deliverable")
			}
		case 3:
			room.Skip(uint64(rapid.IntRange(0, 1).Draw(t, "missing")))
		case 4:
			who, f := w.drawFrame(t, d)
			room.PostNonce(who, now, strconv.Itoa(rapid.IntRange(0, 9).Draw(t, "nonce")), protocol.CanonicalLine(f))
		default:
			who, f := w.drawFrame(t, d)
			if f.Type() <= protocol.TypeAccept && rapid.IntRange(0, 3).Draw(t, "right room") != 0 {
				room = w.board
			}
			room.Post(who, now, f)
		}
	}
}

// fold folds the rows in an order that keeps each room's own.
func (w *world) fold(order []*testkit.Row) *fold.Auditor {
	a := fold.New(w.opts)
	v := verify.New()
	for _, name := range w.names {
		a.Room(name)
	}
	for _, r := range order {
		a.Add(w.row(v, r))
	}
	a.Finish()
	return a
}

// plainOrder is the board, then the rooms.
func (w *world) plainOrder() (order []*testkit.Row) {
	order = append(order, w.board.Rows...)
	for _, name := range w.names {
		order = append(order, w.rooms[name].Rows...)
	}
	return order
}

// shuffled is an order across rooms that keeps the order within each.
func (w *world) shuffled(t *rapid.T) (order []*testkit.Row) {
	var heads [][]*testkit.Row
	heads = append(heads, w.board.Rows)
	for _, name := range w.names {
		heads = append(heads, w.rooms[name].Rows)
	}
	for {
		heads = slices.DeleteFunc(heads, func(h []*testkit.Row) bool { return len(h) == 0 })
		if len(heads) == 0 {
			return order
		}
		i := rapid.IntRange(0, len(heads)-1).Draw(t, "room")
		n := rapid.IntRange(1, len(heads[i])).Draw(t, "run")
		order = append(order, heads[i][:n]...)
		heads[i] = heads[i][n:]
	}
}

// contracts collects what an audit says, without the input order.
func contracts(a *fold.Auditor) map[protocol.ID]*fold.Contract {
	all := map[protocol.ID]*fold.Contract{}
	for c := range a.Contracts() {
		for i := range c.Findings {
			c.Findings[i].Order = 0
		}
		slices.SortFunc(c.Findings, func(x, y fold.Finding) int {
			return cmp.Or(cmp.Compare(x.Code, y.Code), cmp.Compare(x.Room, y.Room), cmp.Compare(seqOf(x), seqOf(y)), cmp.Compare(x.Detail, y.Detail))
		})
		all[c.ID] = c
	}
	return all
}

func seqOf(f fold.Finding) uint64 {
	if f.Seq == nil {
		return 0
	}
	return *f.Seq + 1
}

var compareStatements = gocmp.Comparer(func(x, y protocol.Statement) bool { return x == y })

// The rooms may be read in any order, and piece by piece.
func TestOrderAcrossRoomsDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		w.drawRows(t, 24)
		want := contracts(w.fold(w.plainOrder()))
		got := contracts(w.fold(w.shuffled(t)))
		if diff := gocmp.Diff(want, got, compareStatements); diff != "" {
			t.Errorf("rules %s: board first (-), another order (+):\n%s", w.opts.Rules, diff)
		}
	})
}

// fates is what strangers must not change: status, evidence and verdict.
func fates(a *fold.Auditor) map[protocol.ID]fate {
	m := map[protocol.ID]fate{}
	for c := range a.Contracts() {
		m[c.ID] = fate{c.Status, c.Evidence, c.Verdict}
	}
	return m
}

// Strangers may post authentic rows wherever they like, each at the next seq:
// chat, frames under their own or a borrowed name, copies of the parties'
// lines, replays of rows in sight. No contract's status, evidence or verdict
// changes.
func TestStrangersChangeNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		w.drawRows(t, 16)
		want := fates(w.fold(w.plainOrder()))
		rooms := []*testkit.Room{w.board}
		for _, name := range w.names {
			rooms = append(rooms, w.rooms[name])
		}
		for _, room := range rooms {
			w.infiltrate(t, room)
		}
		got := fates(w.fold(w.plainOrder()))
		for id, f := range want {
			if got[id] != f {
				t.Errorf("rules %s: %s was %v, with strangers %v", w.opts.Rules, id, f, got[id])
			}
		}
	})
}

// infiltrate inserts strangers' rows into a room; the rows after move up, as
// they would have at the venue.
func (w *world) infiltrate(t *rapid.T, room *testkit.Room) {
	extra := testkit.NewRoom(room.Name)
	var rows, old []*testkit.Row // old are the rows that are worth a replay
	offers := map[protocol.ID]bool{}
	shift := uint64(0)
	for i := 0; i <= len(room.Rows); i++ {
		for rapid.IntRange(0, 2).Draw(t, "stranger here") == 0 {
			var at uint64
			ts := epoch
			if len(rows) > 0 {
				at, ts = rows[len(rows)-1].Seq, rows[len(rows)-1].TsMs
			} else if len(room.Rows) > 0 && room.Rows[0].Seq != 1 {
				break // the room's beginning is not in sight, nor what came before
			}
			who := w.stranger(rapid.IntRange(0, 5).Draw(t, "which"))
			var r *testkit.Row
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				r = extra.PostText(who, ts, "noise "+strconv.Itoa(i))
			case 1:
				_, f := w.drawFrame(t, rapid.SampledFrom(w.deals).Draw(t, "deal"))
				r = extra.Post(who, ts, underName(f, who.DID))
			default:
				if len(old) == 0 || w.opts.Rules.Reference {
					continue // the reference lets an old row count where it stands again
				}
				r = extra.Replay(rapid.SampledFrom(old).Draw(t, "old row"), ts)
			}
			r.Seq = at + 1
			rows, shift = append(rows, r), shift+1
		}
		if i < len(room.Rows) {
			moved := *room.Rows[i]
			moved.Seq += shift
			rows = append(rows, &moved)
			// An accept before its offer does count when it is posted again.
			f := protocol.Decode(string(moved.Text), protocol.DecodeRules{}).Frame
			accept, ok := f.(*protocol.Accept)
			if moved.Sig != nil && (!ok || offers[accept.Ref]) {
				old = append(old, &moved)
			}
			if o, ok := f.(*protocol.Offer); ok {
				offers[o.ID] = true
			}
		}
	}
	room.Rows = rows
	room.Seq += shift
}
