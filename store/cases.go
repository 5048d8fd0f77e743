package store

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/protocol"
)

// The limits of what is given to one fold. What lies beyond them is left out, and
// counted in the store's limits.
const (
	acceptRows   = 1024  // rows that name one contract in an accept
	namedRows    = 20000 // frames on the board or elsewhere that name one contract or offer
	secretRows   = 256   // reveals that open one statement
	siblings     = 64    // contracts with the same point whose reveals are looked at
	touchSharers = 4096  // contracts with the same statement that a reveal or a claim touches
)

// caseFolder folds one contract after another from what reader gives it.
type caseFolder struct {
	x      *fold.Excerpt
	rows   rowReader
	holder fold.Holder
	board  []boardEntry
	rooms  []posEntry
	other  []posEntry
	row    fold.Row
	at     []place // by the calls of Board
	ids    map[protocol.RecordID]uint64
}

// posEntry is an entry of the log and where it stands.
type posEntry struct {
	pos uint64
	e   entry
}

// boardEntry is a row of the board that bears on a contract.
type boardEntry struct {
	at  place
	br  boardRow
	e   entry
	row *fold.Row // where it is remembered; else e is read
}

// read fills row with the entry's.
func (b *boardEntry) read(r *rowReader, row *fold.Row) error {
	if b.row != nil {
		*row = *b.row
		return nil
	}
	return r.read(&b.e, row)
}

// view is where a fold reads from: a writer's open window, or the store as it
// was committed.
type view interface {
	getIdx(k []byte) ([]byte, error) // nil where there is none; good until the next call
	entry(pos uint64) (entry, error)
	placesOf(no uint8) *places
	boardEntry(no uint8, at place) (boardEntry, error)    // zero where there is none
	offerRec(no uint8, id protocol.ID) (*offerRec, error) // nil where there is none
	contractRec(no uint8, id protocol.ID) (*contractRec, error)
	inRoom(no uint8, room [8]byte) ([]protocol.ID, error)
	named(no uint8, list byte, id [half]byte) ([]namedRow, error)
	scan(prefix []byte, f func(k, v []byte) (bool, error)) error
	venueOf(no uint8) *venue
	cutSources() []uint32
	pathOf(source uint32) (string, error)
	ruleset() fold.Rules
}

func (w *Writer) venueOf(no uint8) *venue                              { return w.s.venues[no-1] }
func (w *Writer) cutSources() []uint32                                 { return w.s.state.cuts }
func (w *Writer) ruleset() fold.Rules                                  { return w.s.rules }
func (w *Writer) offerRec(no uint8, id protocol.ID) (*offerRec, error) { return w.p.offerRec(no, id) }
func (w *Writer) contractRec(no uint8, id protocol.ID) (*contractRec, error) {
	return w.p.contract(no, id)
}
func (w *Writer) pathOf(source uint32) (string, error) {
	rec, err := w.source(source)
	if err != nil {
		return "", err
	}
	return rec.Path, nil
}

// folded is a contract as its rows have it.
type folded struct {
	acc fold.Accepted
	at  place // of the accept's row
	o   *offerRec
	ctx fold.Context
}

// gather gives the excerpt all rows that bear on the contract. It returns false
// where no accept in sight names it.
func (c *caseFolder) gather(v view, no uint8, id protocol.ID, rec *contractRec) error {
	ven := v.venueOf(no)
	c.rows.reset()
	c.board, c.rooms, c.other, c.at = c.board[:0], c.rooms[:0], c.other[:0], c.at[:0]
	clear(c.ids)
	c.x.Reset(ven.first.seq)
	offers := []protocol.ID{rec.offer}
	accepts := []place{rec.accept}
	var k key
	if rec.more {
		err := v.scan(k.of(keyAccept, no).bytes(id[:half]).b, func(key, val []byte) (bool, error) {
			accepts = append(accepts, placeOf(key[2+half:]))
			if ref := protocol.ID(val); !slices.Contains(offers, ref) && len(offers) < siblings {
				offers = append(offers, ref)
			}
			return len(accepts) < acceptRows, nil
		})
		if err != nil {
			return err
		}
	}
	for _, at := range accepts {
		if err := c.addBoard(v, no, at); err != nil {
			return err
		}
	}
	for _, offer := range offers {
		o, err := v.offerRec(no, offer)
		if err != nil {
			return err
		}
		if o != nil {
			if err := c.addBoard(v, no, o.at); err != nil {
				return err
			}
		}
		if err := c.addNamed(v, no, 'f', offer[:half]); err != nil {
			return err
		}
	}
	if err := c.addNamed(v, no, 'f', id[:half]); err != nil {
		return err
	}
	return c.addStatement(v, no, id)
}

// addStatement adds the reveals that open the contract's statement.
func (c *caseFolder) addStatement(v view, no uint8, id protocol.ID) error {
	var seen []protocol.Statement
	for i := range c.board {
		b := &c.board[i]
		if b.br.typ != protocol.TypeAccept {
			continue
		}
		if err := b.read(&c.rows, &c.row); err != nil {
			return err
		}
		f, ok := c.row.Line.Frame.(*protocol.Accept)
		if !ok || f.Contract != id || slices.Contains(seen, f.Statement) || len(seen) >= siblings {
			continue
		}
		seen = append(seen, f.Statement)
	}
	for _, st := range seen {
		k := statementKey(st)
		if err := c.addNamed(v, no, 's', k[:]); err != nil {
			return err
		}
		if st.Kind() == protocol.LockPoint {
			if err := c.addSiblings(v, no, id, k); err != nil {
				return err
			}
		}
	}
	return nil
}

// addSiblings adds the reveals that name a contract with the same point.
func (c *caseFolder) addSiblings(v view, no uint8, id protocol.ID, st [half]byte) error {
	ids, err := sharers(v, no, keyState, st[:], siblings)
	if err != nil {
		return err
	}
	for _, other := range ids {
		if other == id {
			continue
		}
		c.x.Sibling(other)
		if err := c.addNamed(v, no, 'f', other[:half]); err != nil {
			return err
		}
		if err := c.addRoom(v, no, protocol.DealRoom(other), &c.other); err != nil {
			return err
		}
	}
	return nil
}

// sharers lists the contracts of a shared statement or key.
func sharers(v view, no uint8, kind byte, what []byte, limit int) ([]protocol.ID, error) {
	var k key
	val, err := v.getIdx(k.of(kind, no).bytes(what).b)
	if err != nil || val == nil {
		return nil, err
	}
	sh, err := readShare(val)
	if err != nil {
		return nil, err
	}
	ids := []protocol.ID{sh.first}
	if sh.count > 1 {
		prefix := len(k.b)
		err = v.scan(k.b, func(key, _ []byte) (bool, error) {
			if len(key) == prefix+32 {
				ids = append(ids, protocol.ID(key[prefix:]))
			}
			return len(ids) < limit, nil
		})
	}
	return ids, err
}

// addBoard adds a row of the board.
func (c *caseFolder) addBoard(v view, no uint8, at place) error {
	for i := range c.board {
		if c.board[i].at == at {
			return nil
		}
	}
	b, err := v.boardEntry(no, at)
	if err != nil {
		return err
	}
	if b.at != at {
		return nil // a second sighting that has no place of its own
	}
	c.board = append(c.board, b)
	return nil
}

// addNamed adds the rows of a list of frames.
func (c *caseFolder) addNamed(v view, no uint8, list byte, id []byte) error {
	rows, err := v.named(no, list, [half]byte(id))
	if err != nil {
		return err
	}
	for _, n := range rows {
		if n.board {
			err = c.addBoard(v, no, n.at)
		} else {
			err = c.addEntry(v, n.at.pos)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readNamed reads a list of frames: 'f', those that name a contract or offer, or
// 's', the reveals that open a statement.
func readNamed(v view, no uint8, list byte, id [half]byte) (rows []namedRow, err error) {
	var k key
	kind, limit := byte(keyFrame), namedRows
	if list == 's' {
		kind, limit = keySecret, secretRows
	}
	val, err := v.getIdx(k.of(keyNamed, no).byte(list).bytes(id[:]).b)
	if err != nil || val == nil {
		return nil, err
	}
	err = v.scan(k.of(kind, no).bytes(id[:]).b, func(key, val []byte) (bool, error) {
		n := namedRow{at: place{pos: binary.BigEndian.Uint64(key[len(key)-8:])}, board: len(val) > 0}
		if n.board {
			d := dec{b: val}
			n.at = d.place()
		}
		rows = append(rows, n)
		return len(rows) < limit, nil
	})
	return rows, err
}

// namedRow is a row of a list of frames: its place if it stands on the board,
// else its position alone.
type namedRow struct {
	at    place
	board bool
}

// addEntry adds a row of another room than the board.
func (c *caseFolder) addEntry(v view, pos uint64) error {
	for i := range c.other {
		if c.other[i].pos == pos {
			return nil
		}
	}
	e, err := v.entry(pos)
	if err == nil && e.kind == entryRow {
		c.other = append(c.other, posEntry{pos, e})
	}
	return err
}

// addRoom lists the entries of a room.
func (c *caseFolder) addRoom(v view, no uint8, name string, list *[]posEntry) error {
	room := roomKey(name)
	var k key
	val, err := v.getIdx(k.of(keyRoom, no).bytes(room[:]).b)
	if err != nil || val == nil {
		return err
	}
	var positions []uint64
	err = v.scan(k.of(keyRow, no).bytes(room[:]).b, func(key, _ []byte) (bool, error) {
		positions = append(positions, binary.BigEndian.Uint64(key[len(key)-8:]))
		return true, nil
	})
	if err != nil {
		return err
	}
	for _, pos := range positions {
		e, err := v.entry(pos)
		if err != nil {
			return err
		}
		if e.kind == entrySame {
			first, err := v.entry(e.first)
			if err != nil {
				return err
			}
			first.where, first.gen = e.where, e.gen
			e = first
		}
		*list = append(*list, posEntry{pos, e})
	}
	return nil
}

// give hands what was gathered to the excerpt.
func (c *caseFolder) give(v view, no uint8, id protocol.ID) error {
	ven := v.venueOf(no)
	slices.SortFunc(c.board, func(a, b boardEntry) int {
		return cmp.Or(cmp.Compare(a.at.gen, b.at.gen), cmp.Compare(a.at.seq, b.at.seq), cmp.Compare(a.at.pos, b.at.pos))
	})
	for i := range c.board {
		b := &c.board[i]
		if err := b.read(&c.rows, &c.row); err != nil {
			return err
		}
		c.row.Conflict = b.br.conflict()
		c.row.Source = b.br.source
		c.x.Board(&c.row, fold.BoardFacts{
			Holes: ven.holesBefore(b.at.gen, b.at.seq), NonceFell: b.br.flags&boardNonceFell != 0, Replay: b.br.flags&boardReplay != 0,
		})
		c.at = append(c.at, b.at)
		c.note(b.at.pos)
	}
	own := protocol.DealRoom(id)
	room := roomKey(own)
	var k key
	val, err := v.getIdx(k.of(keyRoom, no).bytes(room[:]).b)
	if err != nil {
		return err
	}
	if val != nil {
		rec, err := readRoomRec(val)
		if err != nil {
			return err
		}
		c.x.Room(own)
		if rec.head > 0 {
			c.x.Head(own, rec.head)
		}
		if err := c.addRoom(v, no, own, &c.rooms); err != nil {
			return err
		}
		if err := sortEntries(v, c.rooms); err != nil {
			return err
		}
		for i := range c.rooms {
			if err := c.giveRow(&c.rooms[i]); err != nil {
				return err
			}
		}
		for _, source := range v.cutSources() {
			c.x.Malformed("", source)
		}
	}
	c.other = slices.DeleteFunc(c.other, func(p posEntry) bool { return p.e.room == own })
	if len(c.other) == 0 {
		return nil
	}
	slices.SortStableFunc(c.other, func(a, b posEntry) int {
		return cmp.Or(cmp.Compare(a.e.room, b.e.room), cmp.Compare(a.pos, b.pos))
	})
	for i := range c.other {
		if err := c.giveRow(&c.other[i]); err != nil {
			return err
		}
	}
	return nil
}

func (c *caseFolder) note(pos uint64) {
	if c.ids != nil {
		if _, ok := c.ids[c.row.ID]; !ok {
			c.ids[c.row.ID] = pos
		}
	}
}

func (c *caseFolder) giveRow(p *posEntry) error {
	switch p.e.kind {
	case entryBad, entryEnd:
		c.x.Malformed(p.e.room, p.e.where.Source)
		return nil
	case entryRow:
	default:
		return nil
	}
	if err := c.rows.read(&p.e, &c.row); err != nil {
		return err
	}
	if c.row.Hidden {
		c.x.Malformed(p.e.room, p.e.where.Source)
	}
	c.row.Source = p.e.where.Source
	c.x.Add(&c.row)
	c.note(p.pos)
	return nil
}

// sortEntries puts entries of one room into the order of their sources' paths,
// each source in its own order: what is folded must not depend on which source
// was read first.
func sortEntries(v view, list []posEntry) error {
	several := false
	for i := range list {
		several = several || list[i].e.where.Source != list[0].e.where.Source
	}
	if !several {
		return nil
	}
	paths := map[uint32]string{}
	for i := range list {
		n := list[i].e.where.Source
		if _, ok := paths[n]; ok {
			continue
		}
		path, err := v.pathOf(n)
		if err != nil {
			return err
		}
		paths[n] = path
	}
	slices.SortStableFunc(list, func(a, b posEntry) int {
		sa, sb := a.e.where.Source, b.e.where.Source
		return cmp.Or(cmp.Compare(paths[sa], paths[sb]), cmp.Compare(sa, sb))
	})
	return nil
}

// context fills in what the other contracts say of this one, once its own
// contribution stands in the store.
func (c *caseFolder) context(v view, no uint8, id protocol.ID, f *folded) error {
	ven := v.venueOf(no)
	ctx := &f.ctx
	if ven.hasClock {
		clock := ven.concludes()
		ctx.ClockMs = &clock
	}
	if v.ruleset().OfferRoom {
		if ven.any {
			ctx.BoardHoles = ven.holesBefore(ven.last.gen, math.MaxUint64)
		}
		ctx.BoardUnfilled = ven.unfilled
	}
	if f.acc.Orphan {
		var err error
		ctx.RoomTaken, err = roomTaken(v, no, id, f.at)
		return err
	}
	var k key
	if f.o != nil {
		ctx.Raced, ctx.Bound, ctx.Locks = f.o.listed > 1, f.o.bound, int(f.o.locks)
		ctx.PayerLocks = ctx.Locks
		if f.o.locks > 1 {
			n, err := payerLocks(v, no, f.acc.Offer, didKey(f.acc.Payer))
			if err != nil {
				return err
			}
			ctx.PayerLocks = n
		}
	}
	st := statementKey(f.acc.Statement)
	val, err := v.getIdx(k.of(keyState, no).bytes(st[:]).b)
	if err != nil {
		return err
	}
	if val != nil {
		sh, err := readShare(val)
		if err != nil {
			return err
		}
		own := uint64(0)
		if f.acc.Status == protocol.Claimed {
			own = 1
		}
		ctx.SharedStatement, ctx.SiblingClaimed = sh.count > 1, sh.claimed > own
	}
	for _, pk := range [...]protocol.Point{f.acc.PayerKey, f.acc.PayeeKey} {
		if pk.IsZero() {
			continue
		}
		val, err := v.getIdx(k.of(keyPoint, no).bytes(pk[:]).b)
		if err != nil {
			return err
		}
		if val != nil {
			sh, err := readShare(val)
			if err != nil {
				return err
			}
			ctx.SharedKey = ctx.SharedKey || sh.count > 1
		}
	}
	return nil
}

// roomTaken reports whether another contract speaks for an orphan's deal room.
func roomTaken(v view, no uint8, id protocol.ID, at place) (taken bool, err error) {
	ids, err := v.inRoom(no, [8]byte(id[:8]))
	for _, other := range ids {
		rec, e := v.contractRec(no, other)
		if err = errors.Join(err, e); err != nil {
			return false, err
		}
		if other != id && rec != nil && (rec.listed || rec.accept.less(at)) {
			return true, nil
		}
	}
	return false, err
}

// payerLocks counts the offer's contracts with a counted lock by one payer.
func payerLocks(v view, no uint8, offer protocol.ID, payer [8]byte) (n int, err error) {
	var k key
	var ids []protocol.ID
	err = v.scan(k.of(keyLocked, no).bytes(offer[:half]).b, func(key, _ []byte) (bool, error) {
		ids = append(ids, protocol.ID(key[2+half:]))
		return len(ids) < touchSharers, nil
	})
	for _, id := range ids {
		rec, e := v.contractRec(no, id)
		if err = errors.Join(err, e); err != nil {
			return n, err
		}
		if rec != nil && rec.payer == payer {
			n++
		}
	}
	return n, err
}

// didKey is how a did:key stands in keys: the first eight bytes of its sha256.
func didKey(did string) (k [8]byte) {
	h := hashOf([]byte(did))
	copy(k[:], h[:])
	return k
}

// share counts the contracts that have a statement or a key in common. The
// first of them stands in the value, the others in keys of their own.
type share struct {
	count   uint64
	claimed uint64
	first   protocol.ID
}

func (s *share) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, s.count)
	dst = binary.AppendUvarint(dst, s.claimed)
	return append(dst, s.first[:]...)
}

func readShare(b []byte) (s share, err error) {
	d := dec{b: b}
	s.count, s.claimed, s.first = d.uint(), d.uint(), d.id()
	return s, d.err
}

// fold folds everything that the window touches, until nothing is touched any
// more.
func (p *projector) fold() error {
	p.folding = true
	defer func() { p.folding = false }()
	for _, v := range p.w.s.venues {
		if err := p.renonce(v); err != nil {
			return err
		}
	}
	if err := p.drain(); err != nil {
		return err
	}
	for _, v := range p.w.s.venues {
		if err := errors.Join(p.outlooks(v), p.warnings(v)); err != nil {
			return err
		}
	}
	clear(p.told)
	if err := p.drain(); err != nil {
		return err
	}
	return errors.Join(p.flush(), p.flushTails(), p.flushEvents())
}

func (p *projector) drain() error {
	for i := 0; i < len(p.pending); i++ {
		t := p.pending[i]
		delete(p.touched, touch{what: t.what, venue: t.venue, id: t.id})
		if err := p.resolve(t); err != nil {
			return err
		}
	}
	p.pending = p.pending[:0]
	return p.w.failed
}

// resolve folds the contracts that a touch means, or touches them.
func (p *projector) resolve(t touch) error {
	id := protocol.ID(t.id)
	switch t.what {
	case touchContract:
		return p.refold(t.venue, id, t.cause)
	case touchNamed:
		rec, err := p.contract(t.venue, id)
		if err != nil {
			return err
		}
		if rec != nil {
			p.touch(touchContract, t.venue, id[:], t.cause)
		}
		return p.touchOthers(t, keyOffered, protocol.ID{})
	case touchOffer:
		return p.touchOthers(t, keyOffered, protocol.ID{})
	case touchRoom:
		ids, err := p.w.inRoom(t.venue, [8]byte(t.id[:8]))
		for _, id := range ids {
			p.touch(touchContract, t.venue, id[:], t.cause)
		}
		return err
	case touchStatement:
		return p.touchShare(t, keyState, t.id[:half])
	case touchRow:
		return p.touchBoardRow(t)
	}
	return nil
}

func (p *projector) touchShare(t touch, kind byte, what []byte) error {
	ids, err := sharers(p.w, t.venue, kind, what, touchSharers)
	for _, id := range ids {
		p.touch(touchContract, t.venue, id[:], t.cause)
	}
	return err
}

// touchBoardRow touches what a row of the board bears on.
func (p *projector) touchBoardRow(t touch) error {
	at := placeOf(t.id[:])
	e, err := p.w.entry(at.pos)
	if err != nil {
		return err
	}
	p.rows.reset()
	var r fold.Row
	if err := p.rows.read(&e, &r); err != nil {
		return err
	}
	switch f := r.Line.Frame.(type) {
	case *protocol.Offer:
		p.touch(touchOffer, t.venue, f.ID[:], t.cause)
	case nil:
	default:
		if c, ok := protocol.ContractOf(f); ok {
			p.touch(touchNamed, t.venue, c[:], t.cause)
		}
	}
	return nil
}

// outlooks tells of the contracts whose outlook the venue's clock alone has
// changed. No row bears on them, so there is nothing to fold.
func (p *projector) outlooks(v *venue) error {
	if !v.hasClock {
		return nil
	}
	var due []protocol.ID
	now := v.concludes()
	for st := protocol.Proposed; st <= protocol.Locked; st++ {
		from := slices.Clone(p.k.of(keyStatus, v.no).byte(byte(st)).b)
		to := slices.Clone(p.k.u64(uint64(max(now, 0)) + 1).b)
		err := p.w.scanRange(from, to, func(k, _ []byte) (bool, error) {
			due = append(due, protocol.ID(k[3+8:]))
			return true, nil
		})
		if err != nil {
			return err
		}
	}
	for _, id := range due {
		rec, err := p.contract(v.no, id)
		if err != nil {
			return err
		}
		if rec == nil || !rec.folded {
			continue
		}
		next := *rec
		next.sum.Outlook = outlookCode(fold.OutlookAt(rec.sum.Status, rec.sum.ExpiresMs, rec.sum.RefundAfterMs, &now).Code)
		if next.sum.Outlook == rec.sum.Outlook {
			continue // the window has folded it
		}
		if err := p.write(v.no, id, rec, &next, p.w.s.state.log); err != nil {
			return err
		}
	}
	return nil
}

// refold folds one contract, and writes what changed.
func (p *projector) refold(no uint8, id protocol.ID, cause uint64) error {
	rec, err := p.contract(no, id)
	if err != nil || rec == nil {
		return err
	}
	c := &p.cases
	if c.ids == nil {
		c.ids = map[protocol.RecordID]uint64{}
		c.rows = *newRowReader(p.w.s.rules)
	}
	if err := c.gather(p.w, no, id, rec); err != nil {
		return err
	}
	if err := c.give(p.w, no, id); err != nil {
		return err
	}
	var f folded
	o, err := p.offerRec(no, rec.offer)
	if err != nil {
		return err
	}
	var bound protocol.ID
	if o != nil {
		bound = o.bound
	}
	f.acc = c.x.Accept(id, bound)
	next := *rec
	next.sum = Brief{}
	if err := p.contribute(no, id, rec, &next, &f, cause); err != nil {
		return err
	}
	if !f.acc.Listed {
		return p.unlist(no, id, rec, &next)
	}
	if f.o != nil && f.o.bound != bound && p.w.s.rules.FirstAccept {
		// Who is bound changes what the machine makes of the accept.
		f.acc = c.x.Accept(id, f.o.bound)
		if err := p.contribute(no, id, &next, &next, &f, cause); err != nil {
			return err
		}
	}
	if err := c.context(p.w, no, id, &f); err != nil {
		return err
	}
	out := c.x.Contract(id, f.ctx, &c.holder)
	if out == nil {
		return p.unlist(no, id, rec, &next)
	}
	brief(out, &next.sum)
	p.newSteps(p.venue(no), out)
	return p.conclude(no, id, rec, &next, out, &f, cause)
}

// brief takes from a contract what the store keeps of it.
func brief(c *fold.Contract, b *Brief) {
	*b = Brief{
		Status: c.Status, Evidence: c.Evidence, Settlement: c.Settlement, Verdict: c.Verdict, Binding: c.Binding, Shadow: c.Shadow,
		Lock: c.Lock, Chosen: c.Chosen, Late: c.Late, Outlook: outlookCode(c.Outlook.Code),
		ExpiresMs: c.ExpiresMs, ClaimByMs: c.ClaimByMs, RefundAfterMs: c.RefundAfterMs, Steps: b.Steps[:0],
	}
	for i := range c.Findings {
		b.Findings |= 1 << c.Findings[i].Code
	}
	for i := range c.Steps {
		s := &c.Steps[i]
		if !s.OK || s.Ignored || s.Type == protocol.TypeHeartbeat || s.Type == protocol.TypeOffer {
			continue
		}
		b.Steps = append(b.Steps, BriefStep{s.Type, [8]byte(s.Record[:8])})
	}
}

// contribute writes what the contract now means to others, and touches those
// to whom that is new.
func (p *projector) contribute(no uint8, id protocol.ID, old, next *contractRec, f *folded, cause uint64) error {
	acc := &f.acc
	was := *old
	next.listed = acc.Listed && !acc.Orphan
	if acc.Listed && acc.At > 0 && acc.At <= len(p.cases.at) {
		f.at = p.cases.at[acc.At-1]
	}
	next.counts, next.locked, next.acceptAt = next.listed && acc.Counts, next.listed && acc.Locked, f.at
	next.statement, next.payerKey, next.payeeKey, next.payer, next.payee = [half]byte{}, protocol.Point{}, protocol.Point{}, [8]byte{}, [8]byte{}
	offer := offerOf(old, acc)
	if next.listed {
		next.statement = statementKey(acc.Statement)
		next.payerKey, next.payeeKey = acc.PayerKey, acc.PayeeKey
		next.payer = didKey(acc.Payer)
	}
	claimed := next.listed && acc.Status == protocol.Claimed
	wasClaimed := was.listed && was.sum.Status == protocol.Claimed
	next.sum.Status = acc.Status
	if err := p.offerShare(no, id, offer, &was, next, f, cause); err != nil {
		return err
	}
	if was.listed != next.listed || was.statement != next.statement || wasClaimed != claimed {
		if was.listed {
			if err := p.shareOut(no, keyState, was.statement[:], id, wasClaimed, cause); err != nil {
				return err
			}
		}
		if next.listed {
			if err := p.shareIn(no, keyState, next.statement[:], id, claimed, cause); err != nil {
				return err
			}
		}
	}
	if was.payerKey != next.payerKey || was.payeeKey != next.payeeKey {
		for _, pk := range keysOf(&was) {
			if err := p.shareOut(no, keyPoint, pk[:], id, false, cause); err != nil {
				return err
			}
		}
		for _, pk := range keysOf(next) {
			if err := p.shareIn(no, keyPoint, pk[:], id, false, cause); err != nil {
				return err
			}
		}
	}
	return nil
}

// offerOf is the offer that the contract belongs to: the one under which its
// accept counts, where several rows name it.
func offerOf(old *contractRec, acc *fold.Accepted) protocol.ID {
	if acc.Listed && acc.Offer != (protocol.ID{}) {
		return acc.Offer
	}
	return old.offer
}

func keysOf(c *contractRec) []protocol.Point {
	var list []protocol.Point
	if !c.payerKey.IsZero() {
		list = append(list, c.payerKey)
	}
	if !c.payeeKey.IsZero() && c.payeeKey != c.payerKey {
		list = append(list, c.payeeKey)
	}
	return list
}

// offerShare keeps the offer's record up to date.
func (p *projector) offerShare(no uint8, id, offer protocol.ID, was, next *contractRec, f *folded, cause uint64) error {
	o, err := p.offerRec(no, offer)
	if err != nil || o == nil {
		return err
	}
	before := *o
	v := p.venue(no)
	switch {
	case next.listed && !was.listed:
		o.listed++
	case was.listed && !next.listed:
		o.listed--
	}
	switch {
	case next.counts && (o.boundAt == place{} || o.bound == id || next.acceptAt.less(o.boundAt)):
		moved := o.bound == id && o.boundAt.less(next.acceptAt)
		o.bound, o.boundAt = id, next.acceptAt
		if moved {
			if err := p.findBound(no, offer, o, id, next); err != nil {
				return err
			}
		}
	case !next.counts && o.bound == id:
		if err := p.findBound(no, offer, o, id, next); err != nil {
			return err
		}
	}
	switch {
	case next.locked && !was.locked:
		o.locks++
		err = p.set(p.k.of(keyLocked, no).bytes(offer[:half]).bytes(id[:]).b, nil)
	case was.locked && !next.locked:
		o.locks--
		err = p.w.idx.Delete(p.k.of(keyLocked, no).bytes(offer[:half]).bytes(id[:]).b, nil)
	}
	if err != nil {
		return err
	}
	f.o = o
	if *o == before {
		return nil
	}
	p.putOfferRec(no, offer, o)
	switch {
	case before.bound == protocol.ID{} && o.bound != protocol.ID{}:
		v.funnel.Bound++
	case before.bound != protocol.ID{} && o.bound == protocol.ID{}:
		v.funnel.Bound--
	}
	others := touch{what: touchOffer, venue: no, id: offer, cause: cause}
	switch {
	case o.bound != before.bound && o.listed > 1, (o.listed > 1) != (before.listed > 1):
		return p.touchOthers(others, keyOffered, id)
	case o.locks != before.locks && o.locks+before.locks > 1:
		return p.touchOthers(others, keyLocked, id)
	}
	return nil
}

// touchOthers touches the contracts of an offer, all or those with a counted
// lock, but the one that is being folded.
func (p *projector) touchOthers(t touch, kind byte, but protocol.ID) error {
	ids, err := p.ofOffer(t.venue, t.id, kind)
	for _, id := range ids {
		if id != but {
			p.touch(touchContract, t.venue, id[:], t.cause)
		}
	}
	return err
}

// ofOffer lists the contracts of an offer: all of them, keyOffered, or those
// with a counted lock, keyLocked.
func (p *projector) ofOffer(no uint8, offer protocol.ID, kind byte) ([]protocol.ID, error) {
	var ids []protocol.ID
	if kind == keyOffered {
		o, err := p.offerRec(no, offer)
		if err != nil {
			return nil, err
		}
		if o == nil {
			// Only accepts that came before their offer can name it.
			if waits, err := p.isNamed(no, 'w', offer[:half]); err != nil || !waits {
				return nil, err
			}
		} else {
			if o.first != (protocol.ID{}) {
				ids = append(ids, o.first)
			}
			if !o.more {
				return ids, nil
			}
		}
	}
	err := p.w.scan(p.k.of(kind, no).bytes(offer[:half]).b, func(k, _ []byte) (bool, error) {
		ids = append(ids, protocol.ID(k[2+half:]))
		return true, nil
	})
	return ids, err
}

// inRoom lists the contracts whose deal room begins with the id's first bytes.
func (w *Writer) inRoom(no uint8, room [8]byte) ([]protocol.ID, error) {
	ids, err := inRoom(w, no, room)
	for _, id := range w.p.fresh[roomOfContract{no, room}] {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids, err
}

func inRoom(v view, no uint8, room [8]byte) (ids []protocol.ID, err error) {
	var k key
	err = v.scan(k.of(keyContract, no).bytes(room[:]).b, func(key, _ []byte) (bool, error) {
		ids = append(ids, protocol.ID(key[2:]))
		return len(ids) < touchSharers, nil
	})
	return ids, err
}

// findBound looks for the offer's first valid accept among all.
func (p *projector) findBound(no uint8, offer protocol.ID, o *offerRec, id protocol.ID, next *contractRec) error {
	o.bound, o.boundAt = protocol.ID{}, place{}
	ids, err := p.ofOffer(no, offer, keyOffered)
	if err != nil {
		return err
	}
	for _, other := range ids {
		rec := next
		if other != id {
			if rec, err = p.contract(no, other); err != nil {
				return err
			}
		}
		if rec != nil && rec.counts && (o.boundAt == place{} || rec.acceptAt.less(o.boundAt)) {
			o.bound, o.boundAt = other, rec.acceptAt
		}
	}
	return nil
}

func (p *projector) share(no uint8, kind byte, what []byte) (share, error) {
	v, err := p.w.getIdx(p.k.of(kind, no).bytes(what).b)
	if err != nil || v == nil {
		return share{}, err
	}
	return readShare(v)
}

func (p *projector) shareIn(no uint8, kind byte, what []byte, id protocol.ID, claimed bool, cause uint64) error {
	sh, err := p.share(no, kind, what)
	if err != nil {
		return err
	}
	before := sh
	sh.count++
	if claimed {
		sh.claimed++
	}
	if sh.count == 1 {
		sh.first = id
	} else if err := p.set(p.k.of(kind, no).bytes(what).bytes(id[:]).b, nil); err != nil {
		return err
	}
	return p.putShare(no, kind, what, id, before, sh, cause)
}

func (p *projector) shareOut(no uint8, kind byte, what []byte, id protocol.ID, claimed bool, cause uint64) error {
	sh, err := p.share(no, kind, what)
	if err != nil || sh.count == 0 {
		return err
	}
	before := sh
	sh.count--
	if claimed {
		sh.claimed--
	}
	gone := id
	if sh.first == id && sh.count > 0 {
		// Another one becomes the first.
		var k key
		prefix := len(k.of(kind, no).bytes(what).b)
		err := p.w.scan(k.b, func(key, _ []byte) (bool, error) {
			if len(key) != prefix+32 {
				return true, nil
			}
			sh.first = protocol.ID(key[prefix:])
			return false, nil
		})
		if err != nil {
			return err
		}
		gone = sh.first
	}
	if err := p.w.idx.Delete(p.k.of(kind, no).bytes(what).bytes(gone[:]).b, nil); err != nil {
		return err
	}
	return p.putShare(no, kind, what, id, before, sh, cause)
}

func (p *projector) putShare(no uint8, kind byte, what []byte, id protocol.ID, before, sh share, cause uint64) error {
	k := p.k.of(kind, no).bytes(what).b
	if sh.count == 0 {
		return p.w.idx.Delete(k, nil)
	}
	p.val = sh.append(p.val[:0])
	if err := p.set(k, p.val); err != nil {
		return err
	}
	if (before.count > 1) == (sh.count > 1) && before.claimed == sh.claimed {
		return nil
	}
	ids, err := sharers(p.w, no, kind, what, touchSharers)
	for _, other := range ids {
		if other != id {
			p.touch(touchContract, no, other[:], cause)
		}
	}
	return err
}

// unlist takes a contract from the lists where the rows do not open it any
// more: its accept stands before its offer.
func (p *projector) unlist(no uint8, id protocol.ID, rec, next *contractRec) error {
	if rec.folded {
		v := p.venue(no)
		v.funnel.Contracts--
		v.funnel.count(&rec.sum, -1)
		if err := p.unindex(no, id, rec); err != nil {
			return err
		}
	}
	next.folded, next.listed, next.counts, next.locked = false, false, false, false
	p.putContract(no, id, next)
	return nil
}

func (p *projector) unindex(no uint8, id protocol.ID, rec *contractRec) error {
	var err error
	del := func(k []byte) { err = errors.Join(err, p.w.idx.Delete(k, nil)) }
	later := func(k []byte) { err = errors.Join(err, p.w.log.Delete(k, nil)) }
	later(p.statusKey(no, id, rec))
	if rec.listed {
		later(p.k.of(keyParty, no).bytes(rec.payer[:]).bytes(id[:]).b)
		later(p.k.of(keyParty, no).bytes(rec.payee[:]).bytes(id[:]).b)
	}
	if rec.leans {
		del(p.leansKey(no, id, rec))
	}
	return err
}

func (p *projector) leansKey(no uint8, id protocol.ID, rec *contractRec) []byte {
	at := rec.stands()
	return p.k.of(keyLeans, no).u64(at.gen).u64(at.seq).bytes(id[:]).b
}

// statusKey lists a contract by its status, and by when its outlook changes
// without any row.
func (p *projector) statusKey(no uint8, id protocol.ID, rec *contractRec) []byte {
	return p.k.of(keyStatus, no).byte(byte(rec.sum.Status)).u64(rec.sum.due()).bytes(id[:]).b
}

// due is when the outlook changes without any row, Unix ms; the greatest number
// where it does not.
func (b *Brief) due() uint64 {
	at := int64(-1)
	switch b.Outlook.String() {
	case fold.AwaitingAccept:
		at = b.ExpiresMs
	case fold.OpenToLock, fold.Funded:
		at = b.RefundAfterMs
	}
	if at < 0 {
		return math.MaxUint64
	}
	return uint64(at)
}

// conclude fills in the contract's record and writes what follows from it.
func (p *projector) conclude(no uint8, id protocol.ID, rec, next *contractRec, c *fold.Contract, f *folded, cause uint64) error {
	v := p.venue(no)
	next.folded = true
	next.offer = rec.offer
	if next.listed {
		next.payer, next.payee = didKey(c.Payer), didKey(c.Payee)
	}
	next.leans = f.acc.Orphan || c.Status <= protocol.Proposed || f.acc.TooLate || next.more || p.w.s.rules.OfferRoom && c.Shadow != protocol.StatusNone
	var leansOn place
	if f.o != nil && !next.leans && v.holesBefore(f.at.gen, f.at.seq) != v.holesBefore(f.o.at.gen, f.o.at.seq) {
		next.leans, leansOn = true, f.o.at
	}
	if next.leans {
		k, to := p.leansKey(no, id, next), leansOn
		if err := p.set(k, binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, to.gen), to.seq), to.pos)); err != nil {
			return err
		}
	}
	if rec.folded && rec.leans {
		if old := slices.Clone(p.leansKey(no, id, rec)); !next.leans || !slices.Equal(old, p.leansKey(no, id, next)) {
			if err := p.w.idx.Delete(old, nil); err != nil {
				return err
			}
		}
	}
	return p.write(no, id, rec, next, cause)
}

// write writes the contract's record, its places in the lists, and the events.
func (p *projector) write(no uint8, id protocol.ID, rec, next *contractRec, cause uint64) error {
	v := p.venue(no)
	changed := !rec.folded
	if !rec.folded {
		v.funnel.Contracts++
	} else {
		v.funnel.count(&rec.sum, -1)
	}
	v.funnel.count(&next.sum, 1)
	next.warned = next.warned && next.sum.Status == protocol.Locked
	if next.sum.Status == protocol.Locked && !next.warned {
		p.locks = append(p.locks, lockDue{no, uint64(max(next.sum.RefundAfterMs, 0)), id})
	}
	events := p.tell(no, id, rec, next, cause)
	if len(events) > 0 {
		changed = true
	}
	if changed {
		next.revision = rec.revision + 1
		if rec.revision > 0 {
			p.w.added.Changed++
		}
	}
	for i := range events {
		e := &events[i]
		p.w.s.state.events++
		p.w.added.Events++
		e.Revision, e.Previous = next.revision, next.event
		p.val = e.append(p.val[:0], no)
		if err := p.putEvent(p.val); err != nil {
			return err
		}
		next.event = p.w.s.state.events
	}
	if rec.folded {
		if err := p.unindexChanged(no, id, rec, next); err != nil {
			return err
		}
	}
	p.putContract(no, id, next)
	p.w.changed(v, id, next)
	// Its value changes with the accept's place, of which rec knows already.
	if !rec.folded || rec.sum.Status != next.sum.Status || rec.sum.due() != next.sum.due() ||
		!next.listed || !rec.listed || rec.acceptAt != next.acceptAt {
		if err := p.setLater(p.statusKey(no, id, next), appendPlace(nil, next.stands())); err != nil {
			return err
		}
	}
	if next.listed && (!rec.folded || rec.payer != next.payer || rec.payee != next.payee || !rec.listed) {
		return errors.Join(
			p.setLater(p.k.of(keyParty, no).bytes(next.payer[:]).bytes(id[:]).b, []byte{rolePayer}),
			p.setLater(p.k.of(keyParty, no).bytes(next.payee[:]).bytes(id[:]).b, []byte{rolePayee}))
	}
	return nil
}

const (
	rolePayer = 1
	rolePayee = 2
)

// unindexChanged removes the places in lists that the contract has no more.
func (p *projector) unindexChanged(no uint8, id protocol.ID, rec, next *contractRec) error {
	old := slices.Clone(p.statusKey(no, id, rec))
	if !slices.Equal(old, p.statusKey(no, id, next)) {
		if err := p.w.log.Delete(old, nil); err != nil {
			return err
		}
	}
	if rec.listed && (rec.payer != next.payer || rec.payee != next.payee) {
		return errors.Join(
			p.w.log.Delete(p.k.of(keyParty, no).bytes(rec.payer[:]).bytes(id[:]).b, nil),
			p.w.log.Delete(p.k.of(keyParty, no).bytes(rec.payee[:]).bytes(id[:]).b, nil))
	}
	return nil
}

func receipted(b *Brief) int64 {
	for _, s := range b.Steps {
		if s.Type == protocol.TypeReceipt {
			return 1
		}
	}
	return 0
}

// statusAfter is the status to which a counted frame of the type leads.
func statusAfter(t protocol.FrameType) protocol.Status {
	switch t {
	case protocol.TypeAccept:
		return protocol.Accepted
	case protocol.TypeLock:
		return protocol.Locked
	case protocol.TypeReveal:
		return protocol.Claimed
	case protocol.TypeRefund:
		return protocol.Refunded
	case protocol.TypeCancel:
		return protocol.Cancelled
	}
	return protocol.StatusNone
}

// tell makes the events that lead from what was told of a contract to what is
// to be said now.
func (p *projector) tell(no uint8, id protocol.ID, rec, next *contractRec, cause uint64) []Event {
	var list []Event
	add := func(kind EventKind, cause uint64, was, is Conclusion) *Event {
		list = append(list, Event{Kind: kind, Contract: id, Cause: cause, Was: was, Is: is})
		return &list[len(list)-1]
	}
	was, is := &rec.sum, &next.sum
	told := 0 // of the new steps
	status := was.Status
	if !rec.folded {
		status = is.Status
		// What came into sight at once is told step by step, but for the accept.
		if n := slices.IndexFunc(is.Steps, func(s BriefStep) bool { return s.Type == protocol.TypeAccept }); n >= 0 && len(is.Steps) > n+1 {
			status = protocol.Accepted
			told = n + 1
		} else {
			told = len(is.Steps)
		}
		c := is.conclusion()
		c.Status = status
		e := add(EventOpened, cause, Conclusion{}, c)
		e.Added = is.Findings
	} else {
		common := 0
		for common < len(was.Steps) && common < len(is.Steps) && was.Steps[common] == is.Steps[common] {
			common++
		}
		told = common
		if common < len(was.Steps) {
			// Steps that were told do not stand any more.
			to := protocol.Proposed
			for _, s := range is.Steps[:common] {
				if a := statusAfter(s.Type); a != protocol.StatusNone {
					to = a
				}
			}
			if common == len(is.Steps) {
				to = is.Status
			}
			add(EventRevised, cause, Conclusion{Status: status}, Conclusion{Status: to})
			status = to
		}
	}
	for _, s := range is.Steps[told:] {
		pos := p.cases.find(s.Record, cause)
		if s.Type == protocol.TypeReceipt {
			add(EventReceipt, pos, Conclusion{}, Conclusion{})
			continue
		}
		if to := statusAfter(s.Type); to != status && to != protocol.StatusNone {
			add(EventStatus, pos, Conclusion{Status: status}, Conclusion{Status: to})
			status = to
		}
	}
	if status != is.Status {
		add(EventStatus, cause, Conclusion{Status: status}, Conclusion{Status: is.Status})
	}
	if !rec.folded {
		return list
	}
	a, b := was.conclusion(), is.conclusion()
	if a.Outlook != b.Outlook {
		add(EventOutlook, cause, a, b)
	}
	if a.Binding != b.Binding || a.Chosen != b.Chosen {
		add(EventBinding, cause, a, b)
	}
	if a.Evidence != b.Evidence || a.Verdict != b.Verdict {
		add(EventEvidence, cause, a, b)
	}
	if was.Findings != is.Findings {
		e := add(EventFinding, cause, a, b)
		e.Added, e.Removed = is.Findings&^was.Findings, was.Findings&^is.Findings
	}
	return list
}

func (b *Brief) conclusion() Conclusion {
	return Conclusion{Status: b.Status, Outlook: b.Outlook, Binding: b.Binding, Chosen: b.Chosen, Evidence: b.Evidence, Verdict: b.Verdict}
}

// find gives the position of a record that was folded.
func (c *caseFolder) find(record [8]byte, otherwise uint64) uint64 {
	for id, pos := range c.ids {
		if [8]byte(id[:8]) == record {
			return pos
		}
	}
	return otherwise
}

// renonce finds the nonces that fall again around the rows of the board that
// came late.
func (p *projector) renonce(v *venue) error {
	t := p.tail(v.no)
	if len(t.late) == 0 {
		return nil
	}
	late := t.late
	t.late = nil
	slices.SortFunc(late, func(a, b span) int { return cmp.Or(cmp.Compare(a.gen, b.gen), cmp.Compare(a.from, b.from)) })
	for i := 0; i < len(late); {
		// Rows that stand close to each other are one run.
		j := i + 1
		for j < len(late) && late[j].gen == late[j-1].gen && late[j].from-late[j-1].to < 64 {
			j++
		}
		if err := p.renonceRun(v, place{late[i].gen, late[i].from, 0}, place{late[j-1].gen, late[j-1].to, math.MaxUint64}); err != nil {
			return err
		}
		i = j
	}
	return nil
}

func (p *projector) renonceRun(v *venue, from, to place) error {
	ps := p.w.placesOf(v.no)
	start, err := ps.back(from, nonceWindow)
	if err != nil {
		return err
	}
	var window fold.NonceWindow
	type change struct {
		at   place
		fell bool
	}
	var changes []change
	beyond := 0
	ended := true
	err = ps.each(start, func(at place, r *boardRow) (bool, error) {
		fell := r.follow(&window)
		if !at.less(from) && fell != (r.flags&boardNonceFell != 0) {
			changes = append(changes, change{at, fell})
		}
		if to.less(at) {
			if beyond += int(r.size); beyond > nonceWindow {
				ended = false
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	for _, c := range changes {
		changed, err := p.changePlace(v.no, c.at, func(br *boardRow) {
			br.flags &^= boardNonceFell
			if c.fell {
				br.flags |= boardNonceFell
			}
		})
		if err != nil {
			return err
		}
		if changed {
			p.touchPlace(v.no, c.at)
		}
	}
	if ended {
		// The run reaches the end of the board.
		p.tail(v.no).window = window
	}
	return nil
}
