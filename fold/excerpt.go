package fold

import (
	"cmp"
	"math"
	"slices"

	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/verify"
)

// Excerpt folds one contract from the rows that bear on it and from what is
// known of all others. It says of the contract exactly what an Auditor says
// that got the whole board first and then the rooms in ascending order of name,
// but for Finding.Order: that only rises along the contract's findings.
//
// One Excerpt serves one contract after another, each in these steps:
//
//	x.Reset(first)           // empties it, keeps its memory
//	x.Board(row, facts)      // the rows of the board, in board order
//	x.Sibling(id)            // contracts with the same point, each where its accept stands
//	x.Room, x.Head, x.Malformed, x.Add // the rooms, in any order
//	x.Accept(id, bound)      // what the other contracts must know of this one
//	x.Contract(id, ctx, h)   // the answer
//
// # The rows of the board
//
// Let C be the contract's id and I the set of C and of every offer that an
// accept row naming C names (its ref). The rows that bear on the contract are
//
//   - offers whose id is in I, from the first row on that counts and whose
//     sender is the offer's; more of them do no harm. Those that only the
//     reference decodes (Row.Reference) as well;
//   - accepts that name C: all of them, also those of another ref, since the
//     first may be a stranger's or stand before its offer;
//   - every other frame that names a member of I: cancels and receipts of the
//     offer, and the contract's frames that stand on the board. Cancels also
//     where the nonce was repaired (verify.Repaired);
//   - reveals that open the contract's statement, wherever they stand on the
//     board: by their digest under a hash lock, under a point lock those that
//     name C or a sibling.
//
// Rows that do not bear on it do no harm, as long as they open no contract of
// another deal room.
//
// # The rooms
//
// Of the contract's deal room all rows are given, those of strangers and hidden
// ones too, with Room, Head and Malformed as an Auditor gets them. Of every
// other room, deal rooms too, the rows whose frame names C or is a reveal that
// opens the contract's statement, again whatever their signature's worth. One
// room's rows come in the order in which an Auditor would get them, so those of
// each source in their own order. A Malformed row of no room that can be told
// is given to all contracts; one of the board only through
// [Context.BoardUnfilled].
//
// # Contracts that share a deal room
//
// A deal room is named by the first 16 hex digits of the contract's id. Two
// contracts whose offers are in sight can share them (a birthday's work); their
// rows on the board should be given together: whose rows are kept beyond
// StepLimit depends on all parties. Below that limit it makes no difference.
// An orphan, an accept whose offer is not in sight, can name any id. It does not
// speak for its deal room where a contract with an offer has it, or an orphan
// that was there before: [Context.RoomTaken].
type Excerpt struct {
	a         *Auditor
	ctx       Context
	room      roomName // the contract's, when it is listed
	listed    bool
	boardRows uint64
	others    uint64 // rows of rooms so far
	holes     uint32 // of the last row of the board
	holesIn   int    // holes of the board among the rows given
	rival     uint32 // a place for the contract that is bound instead
	settled   uint32 // the contract that was folded last
	bound     protocol.ID
}

// BoardFacts is what the board's other rows say of one of its rows. What copies
// of the board or the rows beside it say against it stands in Row.Conflict: the
// row's own; where two rows follow each other at one generation and seq, what
// they say against each other, on both.
type BoardFacts struct {
	// Holes is a count that rises with every hole of the board up to and with
	// the one right before the row. Only whether it is zero matters, and whether
	// it rose between two rows.
	Holes     uint32
	NonceFell bool // the sender's nonce fell within the venue's window
	Replay    bool // the same record stands earlier on the board
}

// Context is what contracts and rows outside the excerpt say of the contract.
// The zero value is that of a contract alone and without a lock, on a board
// without faults; one with a lock that counts has Locks and PayerLocks 1. Of an
// orphan only RoomTaken matters.
type Context struct {
	BoardHoles      uint32      // BoardFacts.Holes at the end of the board; only looked at under the offer-room rule
	BoardUnfilled   bool        // rows at the end of the board fill no seq, Malformed ones too; only under the offer-room rule
	Raced           bool        // the offer has more than one listed accept, late ones and those after a cancel too
	Bound           protocol.ID // the offer's first accept that Counts: this contract's or another's; zero: there is none
	Locks           int         // contracts of the offer with a counted lock, this one included
	PayerLocks      int         // of those, by this contract's payer
	SharedStatement bool        // another contract in sight has the same statement
	SiblingClaimed  bool        // one of those is claimed
	SharedKey       bool        // another contract in sight names the payer's or the payee's payment key, on either side
	RoomTaken       bool        // an orphan: another contract speaks for its deal room
	ClockMs         *int64      // the venue's clock for the outlook, unless Options.NowMs is given; nil: none
}

// Accepted is what other contracts must know of one, and what it takes to fill
// a Context.
type Accepted struct {
	Listed bool        // the contract is one; else all is zero
	Orphan bool        // its offer is not in sight; what follows Offer and At is zero but Statement
	Offer  protocol.ID // the offer that its accept names
	At     int         // the row that opened it: which call of Board, from 1

	Counts  bool            // the accept is valid: in time, and before any cancel
	Late    bool            // it came after the offer had expired
	TooLate bool            // it came after the offer was cancelled
	Locked  bool            // a lock counts
	Status  protocol.Status // the contract's
	Payer   string          // did:key
	Exposed bool            // a reveal in sight opens its statement

	Statement          protocol.Statement
	PayerKey, PayeeKey protocol.Point // payment keys, zero where none is named
}

// keyLimit bounds the keys that an Excerpt knows from contract to contract.
const keyLimit = slabChunk

// NewExcerpt returns an empty Excerpt, for a board whose first row in sight has
// seq 1; see Reset.
func NewExcerpt(o Options) *Excerpt {
	x := &Excerpt{a: New(o)}
	x.a.told = &x.ctx
	x.a.siblings = map[protocol.ID]bool{}
	x.a.elsewhereBy = map[protocol.ID][]elsewhere{}
	x.Reset(1)
	return x
}

// Reset empties the Excerpt for the next contract and keeps its memory.
// boardFirst is the seq of the board's first row in sight.
func (x *Excerpt) Reset(boardFirst uint64) {
	a := x.a
	*x = Excerpt{a: a}
	a.recent.reset(a.offers.len())
	a.offers.reset()
	a.accepts.reset()
	a.boards.reset()
	a.rooms.reset()
	a.rows.reset()
	a.holes.reset()
	a.arena.reset()
	a.seen.reset()
	empty(&a.offerIndex)
	empty(&a.acceptIndex)
	empty(&a.orphans)
	empty(&a.orphanByID)
	empty(&a.orphanByRoom)
	empty(&a.acceptKeys)
	empty(&a.closings)
	empty(&a.refOffers)
	empty(&a.refAccepts)
	empty(&a.exposedBy)
	empty(&a.texts)
	empty(&a.roomByName)
	empty(&a.statements)
	empty(&a.elsewhere)
	empty(&a.elsewhereBy)
	empty(&a.cuts)
	empty(&a.hazy)
	empty(&a.hazyEnd)
	empty(&a.siblings)
	empty(&a.nonces)
	// Contracts share their parties and words.
	if a.keyList.len() >= keyLimit {
		a.keyList.reset()
		a.keys = map[[32]byte]uint32{}
		clear(a.dids)
		a.dids = a.dids[:0]
	}
	if len(a.words.list) >= wordLimit {
		a.words = newWords()
	}
	a.exposures, a.boardHoles = a.exposures[:0], a.boardHoles[:0]
	a.board = tracker{first: boardFirst}
	a.order, a.finished = 0, false
}

// empty clears a map; one that has grown is replaced, since clearing it would
// cost the same ever after.
func empty[K comparable, V any](m *map[K]V) {
	switch n := len(*m); {
	case n > 64:
		*m = map[K]V{}
	case n > 0:
		clear(*m)
	}
}

// Board folds in one row of the board. All of them come before any row of a
// room.
func (x *Excerpt) Board(r *Row, f BoardFacts) {
	a := x.a
	x.boardRows++
	a.order = x.boardRows
	if f.Holes > x.holes {
		a.boardHoles = append(a.boardHoles, a.order)
		x.holesIn = len(a.boardHoles)
	}
	x.holes, a.board.holes = f.Holes, uint64(f.Holes)
	switch {
	case r.Hidden:
		return
	case !a.counts(r):
		a.uncounted(r)
		return
	}
	var flags flag
	if f.NonceFell {
		flags |= flagNonceOrder
	}
	a.boardRow(r, flags, f.Replay)
	if n := a.accepts.len(); n > 0 && !x.listed {
		x.room, x.listed = roomNameOf(a.accepts.at(n).id), true
	}
}

// Sibling names another contract, or orphan, whose statement is the same point:
// a reveal that names it opens this one's, too. Call it between the rows of the
// board, where the sibling's accept stands: reveals before that look at it last.
// Leave out a contract that a reveal on the board, behind its accept, had exposed
// before this contract's accept: an Auditor does not look at it again. Hash
// statements need no siblings.
func (x *Excerpt) Sibling(id protocol.ID) { x.a.siblings[id] = true }

// Room is [Auditor.Room].
func (x *Excerpt) Room(name string) { x.a.Room(name) }

// Head is [Auditor.Head].
func (x *Excerpt) Head(name string, seq uint64) { x.a.Head(name, seq) }

// Malformed is [Auditor.Malformed], for a row of the contract's deal room, at
// its place among the room's rows, or of no room that can be told.
func (x *Excerpt) Malformed(name string, source uint32) {
	x.a.order = x.place(name) - 1
	x.a.Malformed(name, source)
}

// Add folds in one row of a room.
func (x *Excerpt) Add(r *Row) {
	a := x.a
	a.order = x.place(r.Record.Room)
	name, deal := dealRoomName(r.Record.Room)
	own := deal && x.listed && name == x.room
	counts := a.counts(r)
	if r.Hidden {
		if own {
			a.addDeal(name, r, counts, false)
		}
		return
	}
	replay := false
	if r.Verify.Class == verify.Authentic || r.Verify.Class == verify.Repaired {
		replay, _ = a.seen.add(prefix(r.ID[:]))
	}
	switch {
	case own:
		a.addDeal(name, r, counts, replay)
	case !counts || replay:
	case deal:
		a.dealFrame(name, r)
	case r.Line.Frame != nil:
		a.misplaced(r.Line.Frame, r.Record.Room)
	}
}

// place gives the next row of a room its order: behind the board, and before or
// behind the contract's deal room as the rooms' names stand to each other.
func (x *Excerpt) place(name string) uint64 {
	const band = 1 << 60
	x.others++
	at := x.others
	switch k, deal := dealRoomName(name); {
	case deal && k == x.room:
		return at + 2*band
	case name < x.room.String():
		return at + band
	}
	return at + 3*band
}

// finish does what Auditor.Finish does before any contract is folded.
func (x *Excerpt) finish() {
	a := x.a
	if a.finished {
		return
	}
	a.finished = true
	a.order = math.MaxUint64 - 2 // behind all rows
	a.dropLateOffers()
	for _, e := range a.exposures {
		a.expose(e.named, e.secret, e.order)
	}
	a.mergeRooms()
	for k, n := range a.elsewhere {
		a.elsewhereBy[k.contract] = append(a.elsewhereBy[k.contract], elsewhere{k.room, n})
	}
	for _, l := range a.elsewhereBy {
		slices.SortFunc(l, func(x, y elsewhere) int { return cmp.Compare(x.room, y.room) })
	}
}

// Accept says what the rows make of the contract. bound is as in Context; it
// changes Status and Locked only, and those only under the first-accept rule:
// where it is not known yet, zero takes the contract for the bound one if its
// accept counts. Call it when all rows are in; no more may come then, until
// Reset.
func (x *Excerpt) Accept(id, bound protocol.ID) Accepted {
	a := x.a
	x.finish()
	i := a.findAccept(&id)
	if i == 0 {
		return Accepted{}
	}
	ac := a.accepts.at(i)
	out := Accepted{Listed: true, At: int(ac.order), Statement: ac.statement}
	if ac.offer == 0 {
		out.Orphan, out.Offer = true, a.orphans[i]
		return out
	}
	x.settle(i, bound)
	st := &a.walker.state
	out.Offer = a.offers.at(ac.offer).id
	out.Late, out.TooLate = ac.flags&flagLate != 0, ac.flags&flagTooLate != 0
	out.Counts = !out.Late && !out.TooLate
	out.Locked, out.Status = ac.result.locked, ac.result.status
	out.Payer, out.PayerKey, out.PayeeKey = st.Payer, st.PayerKey, st.PayeeKey
	out.Exposed = ac.flags&flagExposed != 0
	return out
}

// settle folds contract i with the offer bound to a contract. The walker keeps
// its last state.
func (x *Excerpt) settle(i uint32, bound protocol.ID) {
	a := x.a
	ac := a.accepts.at(i)
	o := a.offers.at(ac.offer)
	switch {
	case bound == ac.id, bound == protocol.ID{}:
		o.bound = 0
		if ac.flags&(flagLate|flagTooLate) == 0 {
			o.bound = i
		}
	default:
		if x.rival == 0 {
			x.rival, _ = a.accepts.add()
			a.accepts.at(x.rival).flags = flagDropped
		}
		a.accepts.at(x.rival).id = bound
		o.bound = x.rival
	}
	a.walk(&a.walker, i, dealRoom, false)
	if a.boardDecides(i, ac) {
		a.walk(&a.walker, i, boardRoom, false)
	}
	ac.result = quick{status: a.walker.state.Status, locked: a.walker.state.Rail != ""}
	x.settled, x.bound = i, bound
}

// Contract builds the contract in h, until h is used again; nil where it is not
// listed. It may be called again with another context. Like Accept it ends the
// reading.
func (x *Excerpt) Contract(id protocol.ID, ctx Context, h *Holder) *Contract {
	a := x.a
	x.finish()
	i := a.findAccept(&id)
	if i == 0 {
		return nil
	}
	x.ctx = ctx
	a.sum.ClockMs = x.ctx.ClockMs
	if ac := a.accepts.at(i); ac.offer != 0 {
		if x.settled != i || x.bound != ctx.Bound {
			x.settle(i, ctx.Bound)
		}
		o := a.offers.at(ac.offer)
		o.locks = uint32(ctx.Locks)
		o.flags = given(o.flags, flagRaced, ctx.Raced)
		ac.flags = given(ac.flags, flagSharedStatement, ctx.SharedStatement)
		a.board.unfilled = 0
		if ctx.BoardUnfilled {
			a.board.unfilled = 1
		}
		a.boardHoles = a.boardHoles[:x.holesIn]
		if ctx.BoardHoles > x.holes {
			a.boardHoles = append(a.boardHoles, x.boardRows+1)
		}
	}
	return a.contract(i, h)
}

func given(f, bit flag, on bool) flag {
	if on {
		return f | bit
	}
	return f &^ bit
}
