package store

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/verify"
)

// projector derives from the log, entry by entry, what the store concludes. It
// writes into the writer's open window and reads from it.
type projector struct {
	w    *Writer
	got  []byte // the value that getIdx read last
	k    key
	val  []byte
	rows rowReader

	pending []touch // in the order in which the window touched them
	touched map[touch]bool
	cases   caseFolder
	cache   cache
	events  eventChunk
	folding bool
	fresh   map[roomOfContract][]protocol.ID // contracts that the open window brought into sight

	// The end of the board, where rows come in order: facts of a late row are
	// found again from the rows around it.
	tails map[uint8]*tail

	warned map[uint8]uint64 // by venue: locks that were due up to here are told of, Unix ms
	locks  []lockDue        // that the open window wrote
	told   map[toldStep]bool
}

// roomOfContract is the beginning of the ids of the contracts that share a deal
// room.
type roomOfContract struct {
	venue uint8
	room  [8]byte
}

// touch names something that a row bears on: what depends on it is folded again
// when the window ends.
type touch struct {
	what  touchKind
	venue uint8
	id    [32]byte
	cause uint64 // position of the row
}

type touchKind uint8

const (
	touchContract  touchKind = 1 + iota
	touchOffer               // all contracts of an offer
	touchNamed               // the contract or offer of this id
	touchRoom                // all contracts whose id begins with these 8 bytes
	touchStatement           // all contracts with this statement, by its key
	touchRow                 // the contracts that a row of the board bears on: generation, seq and position
)

// tail follows the signers' nonces at the end of a board.
type tail struct {
	chunk  chunk // the last places
	dirty  bool
	window fold.NonceWindow
	late   []span // places before the end that the open window added, as runs
}

func newProjector(w *Writer) *projector {
	return &projector{
		w: w, rows: *newRowReader(w.s.rules), touched: map[touch]bool{}, tails: map[uint8]*tail{}, warned: map[uint8]uint64{}, told: map[toldStep]bool{},
		cache: newCache(), fresh: map[roomOfContract][]protocol.ID{}, cases: caseFolder{x: fold.NewExcerpt(fold.Options{Rules: w.s.rules})},
	}
}

// set writes a key that reads of the open window have to see.
func (p *projector) set(k, v []byte) error {
	p.w.filter.add(k)
	return p.w.idx.Set(k, v, nil)
}

// setLater writes a key that nothing reads before the window ends, or only
// through the cache.
func (p *projector) setLater(k, v []byte) error {
	p.w.filter.add(k)
	return p.w.log.Set(k, v, nil)
}

func (p *projector) touch(what touchKind, venue uint8, id []byte, cause uint64) {
	t := touch{what: what, venue: venue}
	copy(t.id[:], id)
	if !p.touched[t] {
		p.touched[t] = true
		t.cause = cause
		p.pending = append(p.pending, t)
	}
}

// scan calls f with every key that begins with prefix, in order, until it
// answers false.
func (w *Writer) scan(prefix []byte, f func(k, v []byte) (bool, error)) error {
	if !w.p.folding || !settled[prefix[0]] {
		return w.scanRange(prefix, after(prefix), f)
	}
	// To make an iterator costs more than to move it.
	if w.lists == nil {
		it, err := w.idx.NewIter(nil)
		if err != nil {
			return w.s.explain(err)
		}
		w.lists = it
	}
	it := w.lists
	it.SetBounds(prefix, after(prefix))
	for ok := it.First(); ok; ok = it.Next() {
		if more, err := f(it.Key(), it.Value()); err != nil || !more {
			return err
		}
	}
	return w.s.explain(it.Error())
}

// settled are the kinds of keys that rows write and folds do not.
var settled = [256]bool{keyFrame: true, keySecret: true, keyRow: true, keyAccept: true, keyOffered: true, keyContract: true}

func (w *Writer) scanRange(from, to []byte, f func(k, v []byte) (bool, error)) error {
	it, err := w.idx.NewIter(&pebble.IterOptions{LowerBound: slices.Clone(from), UpperBound: slices.Clone(to)})
	if err != nil {
		return w.s.explain(err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		more, err := f(it.Key(), it.Value())
		if err != nil || !more {
			return errors.Join(err, it.Close())
		}
	}
	return w.s.explain(errors.Join(it.Error(), it.Close()))
}

// load reads what the projector keeps in memory.
func (p *projector) load() error {
	for _, v := range p.w.s.venues {
		if err := p.loadBoard(v); err != nil {
			return err
		}
	}
	return nil
}

func (p *projector) loadBoard(v *venue) error {
	s := p.w.s
	v.ranges, v.lacks, v.widest = nil, nil, 0
	err := s.scan([]byte{keyRange, v.no}, func(k, val []byte) (bool, error) {
		v.ranges = append(v.ranges, span{binary.BigEndian.Uint64(k[2:]), binary.BigEndian.Uint64(k[10:]), binary.BigEndian.Uint64(val)})
		return true, nil
	})
	if err != nil {
		return err
	}
	err = s.scan([]byte{keyLack, v.no}, func(k, val []byte) (bool, error) {
		v.addLack(lack{
			binary.BigEndian.Uint64(k[2:]), binary.BigEndian.Uint64(k[10:]), binary.BigEndian.Uint64(val), binary.BigEndian.Uint32(k[18:]),
		})
		return true, nil
	})
	if err != nil || !v.any {
		return err
	}
	if err := p.loadTail(v.no); err != nil {
		return err
	}
	// The nonces at the end of the board, from the rows of the last window.
	t, ps := p.tail(v.no), s.placesOf(v.no)
	from, err := ps.back(place{^uint64(0), ^uint64(0), ^uint64(0)}, nonceWindow)
	if err != nil {
		return err
	}
	return ps.each(from, func(_ place, br *boardRow) (bool, error) {
		br.follow(&t.window)
		return true, nil
	})
}

func (p *projector) tail(venue uint8) *tail {
	t := p.tails[venue]
	if t == nil {
		t = new(tail)
		p.tails[venue] = t
	}
	return t
}

// follow moves a window of nonces on by the row, and reports whether its
// sender's nonce fell.
func (r *boardRow) follow(w *fold.NonceWindow) bool {
	if r.flags&boardCounts == 0 || r.flags&boardReplay != 0 {
		w.Skip(int(r.size))
		return false
	}
	return w.Add(r.signer, r.nonce, int(r.size))
}

func (s *Store) damagedKey(k []byte, err error) error {
	return &DamagedError{File: s.path("db"), Err: fmt.Errorf("the value of key %x: %w", k, err), Do: doRebuild}
}

// scan calls f with every committed key that begins with prefix.
func (s *Store) scan(prefix []byte, f func(k, v []byte) (bool, error)) error {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: after(prefix)})
	if err != nil {
		return s.explain(err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		more, err := f(it.Key(), it.Value())
		if err != nil || !more {
			return errors.Join(err, it.Close())
		}
	}
	return s.explain(errors.Join(it.Error(), it.Close()))
}

func (p *projector) venue(no uint8) *venue { return p.w.s.venues[no-1] }

// counts reports whether the row's record counts under the rules in force.
func (p *projector) counts(r *fold.Row) bool {
	return r.Verify.Class == verify.Authentic || r.Verify.Class == verify.Repaired && p.w.s.rules.RepairNonces
}

// row takes in one usable row that stands in the log at i.at.
func (p *projector) row(src *sourceRec, r *fold.Row, id protocol.RecordID, i identity) error {
	venueNo, v := src.venueNo, p.venue(src.venueNo)
	opens, known, have, err := p.w.identity(venueNo, r, id)
	if err != nil {
		return err
	}
	if !opens && (!known || i.at.less(have.at)) {
		p.val = i.append(p.val[:0])
		if err := p.set(p.k.of(keyIdentity, venueNo).bytes(id[:half]).b, p.val); err != nil {
			return err
		}
	}
	counts := p.counts(r) && !r.Hidden
	if counts && (!v.hasClock || r.Record.TsMs > v.clock) {
		v.clock, v.hasClock = r.Record.TsMs, true
	}
	if err := p.frame(venueNo, r, i.at); err != nil {
		return err
	}
	if r.Record.Room == protocol.BoardRoom {
		return p.boardRow(src, v, r, i, known, have)
	}
	return p.roomRow(venueNo, r, i.at)
}

// frame notes whom the row's frame concerns where it stands outside its place.
func (p *projector) frame(venue uint8, r *fold.Row, at place) error {
	f := r.Line.Frame
	if f == nil || r.Hidden {
		return nil
	}
	usable := r.Verify.Class == verify.Authentic || r.Verify.Class == verify.Repaired
	if !usable {
		return nil
	}
	room := r.Record.Room
	if rv, ok := f.(*protocol.Reveal); ok {
		st := statementKey(protocol.HashStatement(sha256.Sum256(rv.Secret[:])))
		if err := p.named(venue, 's', st[:], room, at); err != nil {
			return err
		}
		p.touch(touchStatement, venue, st[:], at.pos)
		// Under a point lock it may open what its contract's siblings have.
		if err := p.touchSiblings(venue, rv.Contract, at.pos); err != nil {
			return err
		}
	}
	c, ok := protocol.ContractOf(f)
	if !ok {
		return nil
	}
	board := room == protocol.BoardRoom
	if board && f.Type() == protocol.TypeAccept || !board && room == protocol.DealRoom(c) {
		return nil
	}
	p.touch(touchNamed, venue, c[:], at.pos)
	return p.named(venue, 'f', c[:half], room, at)
}

// touchSiblings touches the contracts with the same statement as this one.
func (p *projector) touchSiblings(venue uint8, id protocol.ID, pos uint64) error {
	rec, err := p.contract(venue, id)
	if err != nil || rec == nil || !rec.listed {
		return err
	}
	p.touch(touchStatement, venue, rec.statement[:], pos)
	return nil
}

// named puts a row into the list of an id's frames: list 'f' by contract or
// offer, list 's' by statement.
func (p *projector) named(venue uint8, list byte, id []byte, room string, at place) error {
	k := p.k.of(keyNamed, venue).byte(list).bytes(id).b
	empty := p.w.filter.absent(k)
	if err := p.set(k, nil); err != nil {
		return err
	}
	n := namedRow{at: at, board: room == protocol.BoardRoom}
	if !n.board {
		n.at = place{pos: at.pos}
	}
	p.cache.noteNamed(listKey{venue, list, [half]byte(id)}, n, empty)
	kind := byte(keyFrame)
	if list == 's' {
		kind = keySecret
	}
	p.val = p.val[:0]
	if room == protocol.BoardRoom {
		p.val = appendPlace(p.val, at)
	}
	return p.set(p.k.of(kind, venue).bytes(id).u64(at.pos).b, p.val)
}

// isNamed reports whether the list of an id holds anything.
func (p *projector) isNamed(venue uint8, list byte, id []byte) (bool, error) {
	v, err := p.w.getIdx(p.k.of(keyNamed, venue).byte(list).bytes(id).b)
	return v != nil, err
}

// statementKey is how a statement stands in keys: it is a stranger's bytes.
func statementKey(st protocol.Statement) (k [half]byte) {
	var buf [64]byte
	h := hashOf(st.AppendBytes(buf[:0]))
	copy(k[:], h[:])
	return k
}

// boardRow gives a row its place on the board.
func (p *projector) boardRow(src *sourceRec, v *venue, r *fold.Row, i identity, known bool, have identity) error {
	if r.Hidden {
		src.hazy = true
		return nil
	}
	at := i.at
	br := boardRow{
		signer: binary.BigEndian.Uint64(r.Key[:]), id: binary.BigEndian.Uint64(r.ID[:]),
		size: uint32(r.Size), source: i.from, ts: r.Record.TsMs,
	}
	if p.counts(r) {
		br.flags |= boardCounts
		br.nonce = nonceValue(r.Record.Nonce) // of others it is not kept once they are pruned
	}
	if r.Line.Frame != nil {
		br.typ = r.Line.Frame.Type()
	}
	class := r.Verify.Class
	fills := class == verify.Authentic || class == verify.Repaired || class == verify.Unsigned && !r.IsDID
	if err := p.passOver(src, v, at); err != nil {
		return err
	}
	if known && samePlace(have.at, at) && have.ts != r.Record.TsMs && have.from != i.from {
		// The same record at the same place with another time: no row of its own.
		return p.flagRow(v, have.at, boardTime)
	}
	if known && (class == verify.Authentic || class == verify.Repaired) {
		if have.at.less(at) {
			br.flags |= boardReplay
		} else if err := p.flagRow(v, have.at, boardReplay); err != nil {
			return err
		}
	}
	late := v.any && (place{at.gen, at.seq, 0}).less(place{v.last.gen, v.last.seq, ^uint64(0)})
	if late {
		if err := p.lateRow(v, at, &br); err != nil {
			return err
		}
	}
	if v.lacking(at.gen, at.seq, i.from) {
		br.flags |= boardMissing
	}
	if fills {
		br.flags |= boardFills
		if err := p.fill(v, at); err != nil {
			return err
		}
	}
	if !v.any || at.less(v.first) {
		if v.any {
			p.beginningMoved(v, at)
		}
		v.first = at
	}
	t := p.tail(v.no)
	if late {
		t.late = append(t.late, span{at.gen, at.seq, at.seq})
	} else {
		if br.follow(&t.window) {
			br.flags |= boardNonceFell
		}
		p.boardEnds(v, !fills, at)
		v.last = at
	}
	v.any = true
	if err := p.putPlace(v.no, at, br, late); err != nil {
		return err
	}
	switch f := r.Line.Frame.(type) {
	case *protocol.Offer:
		p.remember(at, br, r)
		return p.offer(v, f, r, at)
	case *protocol.Accept:
		p.remember(at, br, r)
		return p.accept(v, f, r, at)
	default:
		p.remember(at, br, r)
	case nil:
		if o, ok := r.Reference.Frame.(*protocol.Offer); ok {
			return p.refOffer(v, o, at)
		}
	}
	return nil
}

// passOver notes which seqs a source has not, and how far it has come.
func (p *projector) passOver(src *sourceRec, v *venue, at place) error {
	prev, had := src.boardAt, src.board
	hazy := src.hazy
	if had && !prev.less(place{at.gen, at.seq, 0}) {
		return nil // it goes back: that is order-violation's
	}
	src.board, src.boardAt, src.hazy = true, at, false
	if !had || hazy || prev.gen != at.gen || at.seq <= prev.seq+1 {
		return nil
	}
	l := lack{at.gen, prev.seq + 1, at.seq - 1, src.no}
	v.addLack(l)
	p.k.of(keyLack, v.no).u64(l.gen).u64(l.from)
	p.k.b = binary.BigEndian.AppendUint32(p.k.b, l.source)
	if err := p.set(p.k.b, binary.BigEndian.AppendUint64(nil, l.to)); err != nil {
		return err
	}
	if v.last.less(place{l.gen, l.from, 0}) {
		return nil // nobody has been there
	}
	var rows []place
	err := p.w.placesOf(v.no).each(place{l.gen, l.from, 0}, func(at place, _ *boardRow) (bool, error) {
		if at.gen != l.gen || at.seq > l.to {
			return false, nil
		}
		rows = append(rows, at)
		return true, nil
	})
	for _, at := range rows {
		err = errors.Join(err, p.flagRow(v, at, boardMissing))
	}
	return err
}

// lateRow compares a row with those that stand at its place already.
func (p *projector) lateRow(v *venue, at place, br *boardRow) error {
	var rows []place
	err := p.w.placesOf(v.no).each(place{at.gen, at.seq, 0}, func(o place, other *boardRow) (bool, error) {
		switch {
		case o.gen != at.gen || o.seq != at.seq:
			return false, nil
		case other.id != br.id:
			br.flags |= boardRecord
			rows = append(rows, o)
		case other.ts != br.ts:
			br.flags |= boardTime
		}
		return len(rows) < rowsAtPlace, nil
	})
	for _, at := range rows {
		err = errors.Join(err, p.flagRow(v, at, boardRecord))
	}
	return err
}

// rowsAtPlace bounds how many rows of one place are compared with a new one.
const rowsAtPlace = 64

// flagRow sets a flag of a row of the board, and touches what it bears on.
func (p *projector) flagRow(v *venue, at place, flag uint8) error {
	changed, err := p.changePlace(v.no, at, func(br *boardRow) { br.flags |= flag })
	if changed {
		p.touchPlace(v.no, at)
	}
	return err
}

func (p *projector) touchPlace(venue uint8, at place) {
	var id [24]byte
	binary.BigEndian.PutUint64(id[:], at.gen)
	binary.BigEndian.PutUint64(id[8:], at.seq)
	binary.BigEndian.PutUint64(id[16:], at.pos)
	p.touch(touchRow, venue, id[:], p.w.s.state.log)
}

// fill notes that a place of the board is held. Where that closes a hole, the
// contracts whose offer and accept lie on its two sides may say more.
func (p *projector) fill(v *venue, at place) error {
	i, changed, _ := v.fill(at.gen, at.seq)
	if !changed {
		return nil
	}
	s := v.ranges[i]
	if err := p.set(p.k.of(keyRange, v.no).u64(s.gen).u64(s.from).b, binary.BigEndian.AppendUint64(nil, s.to)); err != nil {
		return err
	}
	// What the range took over begins right behind or at the filled seq.
	if s.from < at.seq && s.to > at.seq {
		if err := p.w.idx.Delete(p.k.of(keyRange, v.no).u64(s.gen).u64(at.seq+1).b, nil); err != nil {
			return err
		}
	}
	if s.from == at.seq && s.to > at.seq {
		if err := p.w.idx.Delete(p.k.of(keyRange, v.no).u64(s.gen).u64(at.seq+1).b, nil); err != nil {
			return err
		}
	}
	if v.last.less(place{at.gen, at.seq, 0}) {
		return nil // the end of the board: nobody has come past it
	}
	return p.touchAcross(v, at)
}

// boardEnds notes whether the row at the end of the board is held. Under the
// offer-room rule contracts lean on that.
func (p *projector) boardEnds(v *venue, unfilled bool, at place) {
	gap := v.any && v.last.gen == at.gen && at.seq > v.last.seq+1
	if v.unfilled != unfilled || gap {
		v.unfilled = unfilled
		if p.w.s.rules.OfferRoom {
			p.touchAll(v, at)
		}
	}
}

// touchAcross touches the contracts that lean on a hole of the board at a place:
// their accept stands behind it.
func (p *projector) touchAcross(v *venue, at place) error {
	from := p.k.of(keyLeans, v.no).u64(at.gen).u64(at.seq).b
	return p.w.scanRange(from, after([]byte{keyLeans, v.no}), func(k, val []byte) (bool, error) {
		offer := placeOf(val)
		if offer.less(at) {
			p.touch(touchContract, v.no, k[2+16:], p.w.s.state.log)
		}
		return true, nil
	})
}

// beginningMoved is told that the first row in sight is another one: contracts
// that lean on what stood before the board's beginning may say more.
func (p *projector) beginningMoved(v *venue, at place) {
	p.touchAll(v, at)
}

func (p *projector) touchAll(v *venue, at place) {
	err := p.w.scan([]byte{keyLeans, v.no}, func(k, val []byte) (bool, error) {
		if o := placeOf(val); o == (place{}) {
			p.touch(touchContract, v.no, k[2+16:], at.pos)
		}
		return true, nil
	})
	if err != nil && p.w.failed == nil {
		p.w.failed = err
	}
}

// again takes in a second sighting that says nothing new but who else holds the
// row.
func (p *projector) again(src *sourceRec, room string, at place, pos uint64) error {
	if room == protocol.BoardRoom {
		return p.passOver(src, p.venue(src.venueNo), place{at.gen, at.seq, pos})
	}
	if d, ok := dealDigits(room); ok {
		p.touch(touchRoom, src.venueNo, d[:], pos)
	}
	key := roomKey(room)
	return p.set(p.k.of(keyRow, src.venueNo).bytes(key[:]).u64(pos).b, nil)
}

// roomRow takes in a row of a room that is not the board.
func (p *projector) roomRow(venue uint8, r *fold.Row, at place) error {
	key := roomKey(r.Record.Room)
	rec, err := p.roomRec(venue, r.Record.Room)
	if err != nil {
		return err
	}
	if rec.rows == 0 || at.seq < rec.first {
		rec.first = at.seq
	}
	if rec.rows == 0 || at.seq > rec.last {
		rec.last, rec.lastTs = at.seq, r.Record.TsMs
	}
	rec.rows++
	rec.gen = max(rec.gen, at.gen)
	p.val = rec.append(p.val[:0])
	if err := p.set(p.k.of(keyRoom, venue).bytes(key[:]).b, p.val); err != nil {
		return err
	}
	if d, ok := dealDigits(r.Record.Room); ok {
		p.touch(touchRoom, venue, d[:], at.pos)
	}
	return p.set(p.k.of(keyRow, venue).bytes(key[:]).u64(at.pos).b, nil)
}

func (p *projector) roomRec(venue uint8, name string) (roomRec, error) {
	key := roomKey(name)
	v, err := p.w.getIdx(p.k.of(keyRoom, venue).bytes(key[:]).b)
	if err != nil || v == nil {
		return roomRec{name: name}, err
	}
	return readRoomRec(v)
}

// bad takes in a row that cannot be parsed.
func (p *projector) bad(src *sourceRec, e *entry, pos uint64) error {
	switch d, deal := dealDigits(e.room); {
	case deal:
		rec, err := p.roomRec(src.venueNo, e.room)
		if err != nil {
			return err
		}
		key := roomKey(e.room)
		p.val = rec.append(p.val[:0])
		p.touch(touchRoom, src.venueNo, d[:], pos)
		return errors.Join(
			p.set(p.k.of(keyRoom, src.venueNo).bytes(key[:]).b, p.val),
			p.set(p.k.of(keyRow, src.venueNo).bytes(key[:]).u64(pos).b, nil))
	case e.room == protocol.BoardRoom:
		src.hazy = true
		p.boardEnds(p.venue(src.venueNo), true, place{})
	case e.room == "":
		return p.cut(src, e.where.Source, "")
	}
	return nil
}

// room puts a room in sight.
func (p *projector) room(src *sourceRec, name string, gen, last uint64) error {
	d, deal := dealDigits(name)
	if !deal {
		return nil
	}
	key := roomKey(name)
	had, err := p.w.getIdx(p.k.of(keyRoom, src.venueNo).bytes(key[:]).b)
	if err != nil {
		return err
	}
	rec := roomRec{name: name}
	if had != nil {
		if rec, err = readRoomRec(had); err != nil {
			return err
		}
		if rec.head >= last && rec.gen >= gen {
			return nil
		}
	}
	rec.head, rec.gen = max(rec.head, last), max(rec.gen, gen)
	p.val = rec.append(p.val[:0])
	p.touch(touchRoom, src.venueNo, d[:], p.w.s.state.log)
	return p.set(p.k.of(keyRoom, src.venueNo).bytes(key[:]).b, p.val)
}

// cut notes that a source ends too early, or has a row that could not be read:
// room is "" where it cannot be told which room that concerns.
func (p *projector) cut(src *sourceRec, source uint32, room string) error {
	switch d, deal := dealDigits(room); {
	case deal:
		key := roomKey(room)
		rec, err := p.roomRec(src.venueNo, room)
		if err != nil {
			return err
		}
		p.val = rec.append(p.val[:0])
		pos := p.w.s.state.log
		p.touch(touchRoom, src.venueNo, d[:], pos)
		return errors.Join(
			p.set(p.k.of(keyRoom, src.venueNo).bytes(key[:]).b, p.val),
			p.set(p.k.of(keyRow, src.venueNo).bytes(key[:]).u64(pos).b, nil))
	case room == protocol.BoardRoom:
		src.hazy = true
		p.boardEnds(p.venue(src.venueNo), true, place{})
		return nil
	}
	if slices.Contains(p.w.s.state.cuts, source) {
		return nil
	}
	p.w.s.state.cuts = append(p.w.s.state.cuts, source)
	// It may concern any deal room that this source has rows of, or that several
	// sources have: all of them, since it is rare.
	pos := p.w.s.state.log
	return p.w.scan([]byte{keyRoom, src.venueNo}, func(k, _ []byte) (bool, error) {
		if k[2] == 1 {
			p.touch(touchRoom, src.venueNo, k[3:], pos)
		}
		return true, nil
	})
}

// offer takes in an offer on the board.
func (p *projector) offer(v *venue, f *protocol.Offer, r *fold.Row, at place) error {
	if !p.counts(r) || f.From != string(r.Record.From) {
		return nil
	}
	return p.putOffer(v, f, at)
}

// refOffer takes in an offer that only the reference decodes. It only matters
// for what the reference would say.
func (p *projector) refOffer(v *venue, f *protocol.Offer, at place) error {
	p.touch(touchOffer, v.no, f.ID[:], at.pos)
	return p.named(v.no, 'f', f.ID[:half], protocol.BoardRoom, at)
}

func (p *projector) putOffer(v *venue, f *protocol.Offer, at place) error {
	rec, err := p.offerRec(v.no, f.ID)
	if err != nil {
		return err
	}
	switch {
	case rec == nil:
		rec = &offerRec{}
		v.funnel.Offers++
	case !at.less(rec.at):
		return nil // a replay
	default:
		if err := p.keepIdentity(v.no, rec.at.pos); err != nil {
			return err
		}
	}
	rec.at, rec.expires = at, f.ExpiresMs
	p.putOfferRec(v.no, f.ID, rec)
	if waits, err := p.isNamed(v.no, 'w', f.ID[:half]); err != nil || !waits {
		return err
	}
	rec.more = true
	p.touch(touchOffer, v.no, f.ID[:], at.pos)
	return nil
}

// accept takes in an accept on the board.
func (p *projector) accept(v *venue, f *protocol.Accept, r *fold.Row, at place) error {
	if !p.counts(r) || f.From != string(r.Record.From) {
		return nil
	}
	rec, err := p.contract(v.no, f.Contract)
	if err != nil {
		return err
	}
	if rec == nil {
		rec = &contractRec{offer: f.Ref, accept: at}
		p.w.added.Contracts++
		room := roomOfContract{v.no, [8]byte(f.Contract[:8])}
		p.fresh[room] = append(p.fresh[room], f.Contract)
	} else {
		// The earliest row stands in the record, the others in a list.
		further, offer := at, f.Ref
		if at.less(rec.accept) {
			if err := p.keepIdentity(v.no, rec.accept.pos); err != nil {
				return err
			}
			further, offer = rec.accept, rec.offer
			rec.accept, rec.offer = at, f.Ref
		}
		rec.more = true
		if err := p.set(p.k.of(keyAccept, v.no).bytes(f.Contract[:half]).place(further).b, offer[:]); err != nil {
			return err
		}
	}
	p.putContract(v.no, f.Contract, rec)
	p.touch(touchContract, v.no, f.Contract[:], at.pos)
	offer, err := p.offerRec(v.no, f.Ref)
	switch {
	case err != nil:
		return err
	case offer == nil:
		err = p.set(p.k.of(keyOffered, v.no).bytes(f.Ref[:half]).bytes(f.Contract[:]).b, nil)
	case offer.first == protocol.ID{} && !offer.more:
		offer.first = f.Contract
		p.putOfferRec(v.no, f.Ref, offer)
	case offer.first != f.Contract:
		offer.more = true
		p.putOfferRec(v.no, f.Ref, offer)
		err = p.set(p.k.of(keyOffered, v.no).bytes(f.Ref[:half]).bytes(f.Contract[:]).b, nil)
	}
	if err != nil || offer != nil && offer.at.less(at) {
		return err
	}
	// The offer may come later; then it has to look for accepts.
	return p.set(p.k.of(keyNamed, v.no).byte('w').bytes(f.Ref[:half]).b, nil)
}
