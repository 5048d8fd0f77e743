package store

import (
	"encoding/binary"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/protocol"
)

// recent remembers values in two generations: when the younger one is full it
// becomes the older, and the older is forgotten.
type recent[K comparable, V any] struct {
	young, old map[K]V
	limit      int
}

func newRecent[K comparable, V any](limit int) recent[K, V] {
	return recent[K, V]{young: map[K]V{}, limit: limit}
}

func (r *recent[K, V]) get(k K) (V, bool) {
	if v, ok := r.young[k]; ok {
		return v, true
	}
	v, ok := r.old[k]
	if ok {
		r.put(k, v)
	}
	return v, ok
}

func (r *recent[K, V]) put(k K, v V) {
	if len(r.young) >= r.limit {
		r.old, r.young = r.young, make(map[K]V, r.limit)
	}
	r.young[k] = v
}

func (r *recent[K, V]) drop(k K) {
	delete(r.young, k)
	delete(r.old, k)
}

// The limits of what a projector remembers of the store: in each of two
// generations.
const (
	recentOffers    = 12 << 10
	recentContracts = 8 << 10
	recentRows      = 12 << 10
	recentLists     = 12 << 10
	recentList      = 64 // rows of a list that is remembered
)

type offerKey struct {
	venue uint8
	id    protocol.ID
}

type listKey struct {
	venue uint8
	list  byte
	id    [half]byte
}

// cache holds the offers and contracts that the open window has changed, which
// are written when it ends, and some of those read or written of late.
type cache struct {
	offers    recent[offerKey, *offerRec]
	contracts recent[offerKey, *contractRec]
	rows      recent[uint64, *boardEntry] // rows of the board with a frame, by position
	lists     recent[listKey, []namedRow] // whole lists of frames

	dirtyOffers    map[offerKey]*offerRec
	dirtyContracts map[offerKey]*contractRec
}

func newCache() cache {
	return cache{
		offers: newRecent[offerKey, *offerRec](recentOffers), contracts: newRecent[offerKey, *contractRec](recentContracts),
		rows: newRecent[uint64, *boardEntry](recentRows), lists: newRecent[listKey, []namedRow](recentLists),
		dirtyOffers: map[offerKey]*offerRec{}, dirtyContracts: map[offerKey]*contractRec{},
	}
}

// offerRec returns an offer's record, nil where there is none. A caller that
// changes it puts it back.
func (p *projector) offerRec(venue uint8, id protocol.ID) (*offerRec, error) {
	ck := offerKey{venue, id}
	if rec := p.cache.dirtyOffers[ck]; rec != nil {
		return rec, nil
	}
	if rec, ok := p.cache.offers.get(ck); ok {
		return rec, nil
	}
	k := p.k.of(keyOffer, venue).bytes(id[:]).b
	v, err := p.w.getIdx(k)
	if err != nil || v == nil {
		return nil, err
	}
	rec, err := readOfferRec(v)
	if err != nil {
		return nil, p.w.s.damagedKey(k, err)
	}
	p.cache.offers.put(ck, &rec)
	return &rec, nil
}

func (p *projector) putOfferRec(venue uint8, id protocol.ID, rec *offerRec) {
	p.cache.dirtyOffers[offerKey{venue, id}] = rec
}

// contract returns a contract's record, nil where there is none.
func (p *projector) contract(venue uint8, id protocol.ID) (*contractRec, error) {
	ck := offerKey{venue, id}
	if rec := p.cache.dirtyContracts[ck]; rec != nil {
		return rec, nil
	}
	if rec, ok := p.cache.contracts.get(ck); ok {
		return rec, nil
	}
	k := p.k.of(keyContract, venue).bytes(id[:]).b
	v, err := p.w.getIdx(k)
	if err != nil || v == nil {
		return nil, err
	}
	rec, err := readContractRec(v)
	if err != nil {
		return nil, p.w.s.damagedKey(k, err)
	}
	p.cache.contracts.put(ck, &rec)
	return &rec, nil
}

func (p *projector) putContract(venue uint8, id protocol.ID, rec *contractRec) {
	p.cache.dirtyContracts[offerKey{venue, id}] = rec
}

// named reads a list of frames.
func (w *Writer) named(no uint8, list byte, id [half]byte) ([]namedRow, error) {
	lk := listKey{no, list, id}
	if rows, ok := w.p.cache.lists.get(lk); ok {
		return rows, nil
	}
	rows, err := readNamed(w, no, list, id)
	if err == nil && len(rows) > 0 && len(rows) < recentList {
		w.p.cache.lists.put(lk, rows)
	}
	return rows, err
}

// noteNamed keeps what is remembered of a list true to one more row. empty tells
// that there was none before.
func (c *cache) noteNamed(lk listKey, n namedRow, empty bool) {
	rows, ok := c.lists.get(lk)
	switch {
	case ok && len(rows) < recentList:
		c.lists.put(lk, append(rows, n))
	case ok:
		c.lists.drop(lk)
	case empty:
		c.lists.put(lk, []namedRow{n})
	}
}

// flush writes the records that the window changed.
func (p *projector) flush() error {
	for ck, rec := range p.cache.dirtyOffers {
		p.val = rec.append(p.val[:0])
		if err := p.setLater(p.k.of(keyOffer, ck.venue).bytes(ck.id[:]).b, p.val); err != nil {
			return err
		}
		p.cache.offers.put(ck, rec)
	}
	for ck, rec := range p.cache.dirtyContracts {
		p.val = rec.append(p.val[:0])
		if err := p.setLater(p.k.of(keyContract, ck.venue).bytes(ck.id[:]).b, p.val); err != nil {
			return err
		}
		p.cache.contracts.put(ck, rec)
	}
	clear(p.fresh)
	clear(p.cache.dirtyOffers)
	clear(p.cache.dirtyContracts)
	return nil
}

// remember keeps a row of the board for the folds to come.
func (p *projector) remember(at place, br boardRow, r *fold.Row) {
	row := *r
	rec := &row.Record
	b := make([]byte, 0, len(rec.From)+len(rec.Nonce)+len(rec.Text))
	b = append(append(append(b, rec.From...), rec.Nonce...), rec.Text...)
	from, nonce := len(rec.From), len(rec.From)+len(rec.Nonce)
	if rec.Nonce != nil {
		rec.Nonce = b[from:nonce:nonce]
	}
	rec.From, rec.Text, rec.Sig = b[:from:from], b[nonce:], nil
	rec.Room = protocol.BoardRoom
	p.cache.rows.put(at.pos, &boardEntry{at: at, br: br, row: &row})
}

// boardEntry reads a row of the board.
func (w *Writer) boardEntry(no uint8, at place) (boardEntry, error) {
	if e, ok := w.p.cache.rows.get(at.pos); ok && e.at == at {
		return *e, nil
	}
	return readBoardEntry(w, no, at)
}

func readBoardEntry(v view, no uint8, at place) (b boardEntry, err error) {
	br, found, err := v.placesOf(no).get(at)
	if err != nil || !found {
		return b, err
	}
	b.br = br
	b.at = at
	b.e, err = v.entry(at.pos)
	return b, err
}

// known finds the identity of a counted offer or accept on the board by the
// record that it opens: such rows need no key of their own. asked tells that
// the row is one of those.
func (p *projector) known(venue uint8, r *fold.Row) (asked, known bool, i identity, err error) {
	if r.Record.Room != protocol.BoardRoom || r.Hidden || !p.counts(r) {
		return false, false, i, nil
	}
	var at place
	switch f := r.Line.Frame.(type) {
	case *protocol.Offer:
		if f.From != string(r.Record.From) {
			return false, false, i, nil
		}
		rec, err := p.offerRec(venue, f.ID)
		if err != nil || rec == nil {
			return true, false, i, err
		}
		at = rec.at
	case *protocol.Accept:
		if f.From != string(r.Record.From) {
			return false, false, i, nil
		}
		rec, err := p.contract(venue, f.Contract)
		if err != nil || rec == nil {
			return true, false, i, err
		}
		at = rec.accept
	default:
		return false, false, i, nil
	}
	e, err := p.w.entry(at.pos)
	if err != nil {
		return true, false, i, err
	}
	p.rows.reset()
	var first fold.Row
	if err := p.rows.read(&e, &first); err != nil {
		return true, false, i, err
	}
	if first.ID != r.ID {
		return false, false, i, nil // another record of the same frame: it has a key
	}
	h := hashOf(e.raw)
	return true, true, identity{at: at, ts: first.Record.TsMs, bytes: binary.BigEndian.Uint64(h[:]), from: e.where.Source}, nil
}

// keepIdentity gives the row that opened an offer or contract so far a key of
// its own, since an earlier one takes its place.
func (p *projector) keepIdentity(venue uint8, pos uint64) error {
	e, err := p.w.entry(pos)
	if err != nil {
		return err
	}
	p.rows.reset()
	var r fold.Row
	if err := p.rows.read(&e, &r); err != nil {
		return err
	}
	h := hashOf(e.raw)
	i := identity{at: place{e.gen, r.Record.Seq, pos}, ts: r.Record.TsMs, bytes: binary.BigEndian.Uint64(h[:]), from: e.where.Source}
	return p.set(p.k.of(keyIdentity, venue).bytes(r.ID[:half]).b, i.append(nil))
}
