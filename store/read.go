package store

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"iter"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/protocol"
)

// Reader answers questions from the store as it was when the Reader was made.
// It is not for concurrent use; make one for each question.
type Reader struct {
	s      *Store
	snap   *pebble.Snapshot
	state  state
	venues []*venue
	cases  caseFolder
	paths  map[uint32]string
	places []*places // by venue
	got    []byte
}

// Reader returns a Reader of what is committed. Close it.
func (s *Store) Reader() (*Reader, error) {
	r := &Reader{s: s, snap: s.db.NewSnapshot(), paths: map[uint32]string{}}
	r.cases.x = fold.NewExcerpt(fold.Options{Rules: s.rules})
	r.cases.rows = *newRowReader(s.rules)
	if err := r.load(); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// ReaderWith is Reader with options of the fold: whether texts are kept, whether
// every signature is looked at, and the clock.
func (s *Store) ReaderWith(o fold.Options) (*Reader, error) {
	r, err := s.Reader()
	if err == nil {
		o.Rules = s.rules
		r.cases.x = fold.NewExcerpt(o)
	}
	return r, err
}

func (r *Reader) load() error {
	b, err := r.getIdx(metaKey(metaState))
	if err != nil {
		return err
	}
	if r.state, err = readState(b); err != nil {
		return r.s.damagedKey(metaKey(metaState), err)
	}
	return r.scan(metaKey(metaVenue), func(k, val []byte) (bool, error) {
		n := len(r.venues) + 1
		v, err := readVenue(uint8(n), val)
		if err != nil {
			return false, r.s.damagedKey(k, err)
		}
		r.venues = append(r.venues, v)
		return true, nil
	})
}

// Close ends the reading.
func (r *Reader) Close() error { return r.snap.Close() }

func (r *Reader) getIdx(k []byte) ([]byte, error) {
	v, closer, err := r.snap.Get(k)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	} else if err != nil {
		return nil, r.s.explain(err)
	}
	if r.got = append(r.got[:0], v...); r.got == nil {
		r.got = []byte{} // there, and empty
	}
	return r.got, closer.Close()
}

func (r *Reader) entry(pos uint64) (entry, error) {
	v, closer, err := r.snap.Get(logKey(nil, pos))
	if err != nil {
		return entry{}, r.s.explain(err)
	}
	e, err := readEntry(slices.Clone(v))
	if err = errors.Join(err, closer.Close()); err != nil {
		return entry{}, r.s.damagedKey(logKey(nil, pos), err)
	}
	return e, nil
}

func (r *Reader) scan(prefix []byte, f func(k, v []byte) (bool, error)) error {
	return r.scanRange(prefix, after(prefix), f)
}

func (r *Reader) scanRange(from, to []byte, f func(k, v []byte) (bool, error)) error {
	it, err := r.snap.NewIter(&pebble.IterOptions{LowerBound: slices.Clone(from), UpperBound: slices.Clone(to)})
	if err != nil {
		return r.s.explain(err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		more, err := f(it.Key(), it.Value())
		if err != nil || !more {
			return errors.Join(err, it.Close())
		}
	}
	return r.s.explain(errors.Join(it.Error(), it.Close()))
}

func (r *Reader) boardEntry(no uint8, at place) (boardEntry, error) { return readBoardEntry(r, no, at) }
func (r *Reader) contractRec(no uint8, id protocol.ID) (*contractRec, error) {
	return r.contract(no, id)
}

func (r *Reader) inRoom(no uint8, room [8]byte) ([]protocol.ID, error) { return inRoom(r, no, room) }

func (r *Reader) named(no uint8, list byte, id [half]byte) ([]namedRow, error) {
	return readNamed(r, no, list, id)
}

func (r *Reader) offerRec(no uint8, id protocol.ID) (*offerRec, error) {
	var k key
	val, err := r.getIdx(k.of(keyOffer, no).bytes(id[:]).b)
	if err != nil || val == nil {
		return nil, err
	}
	o, err := readOfferRec(val)
	if err != nil {
		return nil, r.s.damagedKey(k.b, err)
	}
	return &o, nil
}

func (r *Reader) venueOf(no uint8) *venue { return r.venues[no-1] }
func (r *Reader) cutSources() []uint32    { return r.state.cuts }
func (r *Reader) ruleset() fold.Rules     { return r.s.rules }

func (r *Reader) pathOf(source uint32) (string, error) {
	if p, ok := r.paths[source]; ok {
		return p, nil
	}
	rec, err := r.s.sourceRec(source)
	if err != nil {
		return "", err
	}
	r.paths[source] = rec.Path
	return rec.Path, nil
}

// ranges of the board are read when a contract is folded first.
func (r *Reader) board(v *venue) error {
	if v.loaded {
		return nil
	}
	v.loaded = true
	return r.scan([]byte{keyRange, v.no}, func(k, val []byte) (bool, error) {
		v.ranges = append(v.ranges, span{binary.BigEndian.Uint64(k[2:]), binary.BigEndian.Uint64(k[10:]), binary.BigEndian.Uint64(val)})
		return true, nil
	})
}

// Item is a contract in a list.
type Item struct {
	Venue    string
	Contract protocol.ID
	Offer    protocol.ID
	Revision uint64
	Brief

	no    uint8
	at    place // of its accept
	event uint64
}

// Filter narrows a list of contracts. Zero fields do not.
type Filter struct {
	Venue   string
	Status  []protocol.Status // any of them; StatusNone stands for an offer that is not in sight
	Outlook string            // at the venue's clock
	Party   string            // did:key
	Finding fold.Code
	Binding fold.Binding
	Chosen  bool
	SinceMs int64 // contracts with a row at or after this time, Unix ms; of a deal room its last row counts
	Offer   protocol.ID
	Prefix  string // of the contract's id, lower-case hex without 0x
	Limit   int    // 0: all
	Sort    Order
	// Keep, where it is not nil, is asked last, with the outlook at the venue's
	// clock.
	Keep func(*Item) bool
}

// Order is how a list of contracts is sorted.
type Order uint8

// The orders.
const (
	ByAccept   Order = iota // by venue, and by where their accept stands on the board
	ByDeadline              // by when their outlook changes next, soonest first
	ByRevision              // by their newest event, newest first
)

// Contracts lists contracts: List without how many there are.
func (r *Reader) Contracts(f Filter) ([]Item, error) {
	items, _, err := r.List(f)
	return items, err
}

// clockOutlook brings the outlook to the venue's clock, which goes on without
// the contract being folded again.
func (r *Reader) clockOutlook(i *Item) {
	v := r.venues[i.no-1]
	if v.hasClock && i.Status != protocol.StatusNone {
		now := v.concludes()
		i.Outlook = outlookCode(fold.OutlookAt(i.Status, i.ExpiresMs, i.RefundAfterMs, &now).Code)
	}
}

func (r *Reader) passes(f *Filter, no uint8, id protocol.ID, rec *contractRec) bool {
	switch {
	case f.Venue != "" && r.venues[no-1].alias != f.Venue,
		len(f.Status) > 0 && !slices.Contains(f.Status, rec.sum.Status),
		f.Finding != fold.CodeNone && rec.sum.Findings&(1<<f.Finding) == 0,
		f.Binding != fold.BindingNone && rec.sum.Binding != f.Binding,
		f.Chosen && !rec.sum.Chosen,
		f.Offer != (protocol.ID{}) && rec.offer != f.Offer,
		f.Prefix != "" && !hasHexPrefix(id, f.Prefix):
		return false
	}
	if f.Party != "" {
		k := didKey(f.Party)
		return rec.listed && (rec.payer == k || rec.payee == k)
	}
	return true
}

func hasHexPrefix(id protocol.ID, prefix string) bool {
	return len(prefix) <= 64 && hex.EncodeToString(id[:])[:len(prefix)] == prefix
}

// each calls add with the contracts that may pass the filter, by the narrowest
// list that there is.
func (r *Reader) each(f *Filter, add func(no uint8, id protocol.ID, rec *contractRec)) error {
	for _, v := range r.venues {
		if f.Venue != "" && v.alias != f.Venue {
			continue
		}
		var ids []protocol.ID
		collect := func(prefix []byte, skip int) error {
			return r.scan(prefix, func(k, _ []byte) (bool, error) {
				ids = append(ids, protocol.ID(k[skip:]))
				return true, nil
			})
		}
		var k key
		var err error
		switch {
		case f.Offer != (protocol.ID{}):
			ids, err = r.ofOffer(v.no, f.Offer)
		case f.Party != "":
			did := didKey(f.Party)
			err = collect(k.of(keyParty, v.no).bytes(did[:]).b, 2+8)
		case len(f.Status) > 0 && f.Prefix == "":
			for _, st := range f.Status {
				err = errors.Join(err, collect(k.of(keyStatus, v.no).byte(byte(st)).b, 3+8))
			}
		default:
			prefix, _ := hex.DecodeString(f.Prefix[:len(f.Prefix)/2*2])
			err = r.scan(k.of(keyContract, v.no).bytes(prefix).b, func(key, val []byte) (bool, error) {
				rec, err := readContractRec(val)
				if err != nil {
					return false, r.s.damagedKey(key, err)
				}
				add(v.no, protocol.ID(key[2:]), &rec)
				return true, nil
			})
		}
		if err != nil {
			return err
		}
		if err := r.eachOf(v.no, ids, add); err != nil {
			return err
		}
	}
	return nil
}

// ofOffer lists the contracts whose accept names the offer.
func (r *Reader) ofOffer(no uint8, offer protocol.ID) (ids []protocol.ID, err error) {
	o, err := r.offerRec(no, offer)
	if err != nil {
		return nil, err
	}
	if o != nil && o.first != (protocol.ID{}) {
		ids = append(ids, o.first)
	}
	var k key
	err = r.scan(k.of(keyOffered, no).bytes(offer[:half]).b, func(key, _ []byte) (bool, error) {
		if id := protocol.ID(key[2+half:]); o == nil || id != o.first {
			ids = append(ids, id)
		}
		return true, nil
	})
	return ids, err
}

func (r *Reader) contract(no uint8, id protocol.ID) (*contractRec, error) {
	var k key
	val, err := r.getIdx(k.of(keyContract, no).bytes(id[:]).b)
	if err != nil || val == nil {
		return nil, err
	}
	rec, err := readContractRec(val)
	if err != nil {
		return nil, r.s.damagedKey(k.b, err)
	}
	return &rec, nil
}

// Fold folds a contract of a list again, from its rows: everything that the
// store can say of it. The contract is good until the next call. records, where
// it is not nil, gets the position in the log of every record that was folded.
func (r *Reader) Fold(i Item, records map[protocol.RecordID]uint64) (*fold.Contract, error) {
	rec, err := r.contract(i.no, i.Contract)
	if err != nil || rec == nil {
		return nil, err
	}
	if err := r.board(r.venues[i.no-1]); err != nil {
		return nil, err
	}
	c := &r.cases
	c.ids = records
	if err := c.gather(r, i.no, i.Contract, rec); err != nil {
		return nil, err
	}
	if err := c.give(r, i.no, i.Contract); err != nil {
		return nil, err
	}
	var f folded
	if f.o, err = r.offerRec(i.no, rec.offer); err != nil {
		return nil, err
	}
	var bound protocol.ID
	if f.o != nil {
		bound = f.o.bound
	}
	f.acc = c.x.Accept(i.Contract, bound)
	if f.acc.Orphan {
		f.at = rec.accept
	}
	if err := c.context(r, i.no, i.Contract, &f); err != nil {
		return nil, err
	}
	return c.x.Contract(i.Contract, f.ctx, &c.holder), nil
}

// All folds every contract of a list in turn.
func (r *Reader) All(items []Item) iter.Seq2[*fold.Contract, error] {
	return func(yield func(*fold.Contract, error) bool) {
		for _, i := range items {
			c, err := r.Fold(i, nil)
			if c == nil && err == nil {
				continue
			}
			if !yield(c, err) || err != nil {
				return
			}
		}
	}
}

// Events yields the events from a number on, in order.
func (r *Reader) Events(from uint64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		err := r.eachChunk(from, func(n uint64, chunk []byte) (bool, error) {
			return eachEvent(n, chunk, func(n uint64, b []byte) (bool, error) {
				if n < from {
					return true, nil
				}
				e, err := r.event(n, slices.Clone(b))
				return err == nil && yield(e, nil), err
			})
		})
		if err != nil {
			yield(Event{}, err)
		}
	}
}

// eachChunk calls f with the chunks of events, from the one on that holds a
// number.
func (r *Reader) eachChunk(from uint64, f func(n uint64, chunk []byte) (bool, error)) error {
	it, err := r.snap.NewIter(&pebble.IterOptions{LowerBound: []byte{keyEvent}, UpperBound: after([]byte{keyEvent})})
	if err != nil {
		return r.s.explain(err)
	}
	ok := it.SeekLT(eventKey(nil, from+1))
	if !ok {
		ok = it.First()
	}
	for ; ok; ok = it.Next() {
		n := binary.BigEndian.Uint64(it.Key()[1:])
		more, err := f(n, it.Value())
		if err != nil {
			return errors.Join(r.damaged(slices.Clone(it.Key()), err), it.Close())
		}
		if !more {
			break
		}
	}
	return r.s.explain(errors.Join(it.Error(), it.Close()))
}

func (r *Reader) event(n uint64, val []byte) (Event, error) {
	e, no, err := readEvent(val)
	if err != nil {
		return e, r.s.damagedKey(eventKey(nil, n), err)
	}
	e.Number = n
	if int(no) <= len(r.venues) && no > 0 {
		e.Venue = r.venues[no-1].alias
	}
	return e, nil
}

// History lists a contract's events, oldest first.
func (r *Reader) History(i Item) ([]Event, error) {
	var list []Event
	for n := i.event; n != 0; {
		found := false
		for e, err := range r.Events(n) {
			if err != nil {
				return nil, err
			}
			found = e.Number == n
			list = append(list, e)
			break
		}
		if !found {
			return nil, r.damaged(eventKey(nil, n), errors.New("the event is not there"))
		}
		n = list[len(list)-1].Previous
	}
	slices.Reverse(list)
	return list, nil
}
