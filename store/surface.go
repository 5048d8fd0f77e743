package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"iter"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/verify"
)

// What a server needs that gives lists page by page and says when they changed.

// LastEvent is the number of the newest committed event. It costs one look-up,
// so that many may wait for the next.
func (s *Store) LastEvent() (uint64, error) {
	v, closer, err := s.db.Get(metaKey(metaState))
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, nil
	} else if err != nil {
		return 0, s.explain(err)
	}
	st, err := readState(v)
	if err = errors.Join(err, closer.Close()); err != nil {
		return 0, s.damagedKey(metaKey(metaState), err)
	}
	return st.events, nil
}

// Version names what this reader sees: readers of one store that have the same
// version find the same log, conclusions and events.
func (r *Reader) Version() ([32]byte, error) {
	b := r.state.append([]byte(r.s.rules.String() + "\x00"))
	if r.state.log > 0 {
		v, closer, err := r.snap.Get(logKey(nil, r.state.log))
		if err != nil {
			return [32]byte{}, r.s.explain(err)
		}
		b = append(b, v...)
		if err := closer.Close(); err != nil {
			return [32]byte{}, r.s.explain(err)
		}
	}
	return sha256.Sum256(b), nil
}

// Mark says where a contract stands in a list of this order: marks sort as the
// list does.
func (o Order) Mark(i *Item) []byte {
	k := o.key(i, 0)
	b := binary.BigEndian.AppendUint64(nil, k.first)
	return appendMark(b, k.no, k.at)
}

func appendMark(b []byte, no uint8, at place) []byte {
	b = append(b, no)
	for _, v := range [...]uint64{at.gen, at.seq, at.pos} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return b
}

// markBytes is how long the mark of an offer or a row is.
const markBytes = 1 + 3*8

func readMarkOf(b []byte) (no uint8, at place) {
	if len(b) != markBytes {
		return 0, place{}
	}
	return b[0], placeOf(b[1:])
}

// OffersAfter yields the offers in sight in the order of the board, each with
// its mark: those behind the offer with the mark after, or all where that is
// nil.
func (r *Reader) OffersAfter(f OfferFilter, after []byte) iter.Seq2[*MarkedOffer, error] {
	return func(yield func(*MarkedOffer, error) bool) {
		no, from := readMarkOf(after)
		from.pos++
		signer := uint64(0)
		if f.Party != "" {
			k, ok := verify.DecodeDID([]byte(f.Party))
			if !ok {
				return
			}
			signer = binary.BigEndian.Uint64(k[:])
		}
		for _, v := range r.venues {
			if f.Venue != "" && f.Venue != v.alias || v.no < no {
				continue
			}
			start := place{}
			if v.no == no {
				start = from
			}
			more := true
			err := r.placesOf(v.no).each(start, func(at place, br *boardRow) (bool, error) {
				if br.typ != protocol.TypeOffer || br.flags&boardCounts == 0 || f.Party != "" && br.signer != signer {
					return true, nil
				}
				o, err := r.offer(v, at, &f)
				if err != nil || o == nil {
					return err == nil, err
				}
				more = yield(&MarkedOffer{*o, appendMark(nil, v.no, at)}, nil)
				return more, nil
			})
			if err != nil {
				yield(nil, err)
				return
			}
			if !more {
				return
			}
		}
	}
}

// MarkedOffer is an offer and where it stands in the list.
type MarkedOffer struct {
	Offer
	Mark []byte
}

// RoomClass says what a room is for.
type RoomClass uint8

// The classes of rooms.
const (
	ClassBoard RoomClass = iota // where offers and accepts stand
	ClassDeal                   // the room of a contract
	ClassOther
)

var roomClasses = [...]string{"board", "deal", "other"}

// String returns "board", "deal" or "other".
func (c RoomClass) String() string {
	if int(c) < len(roomClasses) {
		return roomClasses[c]
	}
	return ""
}

// RoomContracts is how many contracts of one deal room are listed. Ids that
// share the 16 digits of its name do not come by chance.
const RoomContracts = 16

// RoomCoverage is how much of what happened to one room is listed.
const RoomCoverage = 16

// RoomInfo is what the store knows of a room.
type RoomInfo struct {
	Venue, Room string
	Class       RoomClass
	Generation  uint64 // the greatest that a source told; 0: none did
	Rows        uint64 // of the board the seqs that are held, else the rows
	First, Last uint64 // the least and the greatest seq of the rows; 0 where there is none
	Head        uint64 // the seq up to which the room has rows, as a page said; 0: none did
	LastMs      int64  // time of the row with the greatest seq, Unix ms; 0: there is none
	Missing     Missing
	Contracts   []protocol.ID // whose deal room it is: RoomContracts at most
	Covered     uint64        // how often something happened to it beside its rows
	Coverage    []Coverage    // of that the newest, RoomCoverage at most, oldest first
	Mark        []byte        // where it stands in the list
}

// Missing counts the seqs of a room without a row.
type Missing struct {
	Before uint64 // before the first row, of a deal room, whose history begins with 1
	Within uint64 // between the first row and the last
	Behind uint64 // behind the last, as far as a page said
}

// Sum is how many there are in all.
func (m *Missing) Sum() uint64 { return m.Before + m.Within + m.Behind }

// RoomFilter narrows a list of rooms. Zero fields do not.
type RoomFilter struct {
	Venue string
	Class []RoomClass
	Gaps  bool   // only those with missing seqs
	After []byte // behind the room with this mark
}

// Rooms yields the rooms that the store has rows of, or that a page spoke of: of
// each venue the board, the deal rooms in the order of their names, and the
// others.
func (r *Reader) Rooms(f RoomFilter) iter.Seq2[*RoomInfo, error] {
	return func(yield func(*RoomInfo, error) bool) {
		has := func(c RoomClass) bool { return len(f.Class) == 0 || slices.Contains(f.Class, c) }
		more := true
		give := func(i *RoomInfo) bool {
			more = f.Gaps && i.Missing.Sum() == 0 || yield(i, nil)
			return more
		}
		for _, v := range r.venues {
			board := roomMark(v.no, protocol.BoardRoom)
			if f.Venue != "" && v.alias != f.Venue || len(f.After) > 0 && f.After[0] > v.no {
				continue
			}
			var err error
			if has(ClassBoard) && v.any && bytes.Compare(board, f.After) > 0 {
				var i *RoomInfo
				if i, err = r.boardInfo(v); err == nil {
					err = r.coverRoom(i)
				}
				if err == nil {
					give(i)
				}
			}
			if err == nil && more && (has(ClassDeal) || has(ClassOther)) {
				from := append([]byte{keyRoom}, board...)
				if bytes.Compare(board, f.After) < 0 {
					from = append(append([]byte{keyRoom}, f.After...), 0)
				}
				err = r.scanRange(from, after([]byte{keyRoom, v.no}), func(k, val []byte) (bool, error) {
					class := ClassOther
					if k[2] == 1 {
						class = ClassDeal
					}
					if !has(class) {
						return true, nil
					}
					i, err := r.roomInfo(v, class, k, val)
					if err == nil {
						err = r.coverRoom(i)
					}
					return err == nil && give(i), err
				})
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !more {
				return
			}
		}
	}
}

// coverRoom fills in what happened to a room beside its rows.
func (r *Reader) coverRoom(i *RoomInfo) error {
	var newest []uint64
	err := r.scan(append([]byte{keyCoverage}, i.Mark...), func(k, _ []byte) (bool, error) {
		i.Covered++
		if len(newest) == RoomCoverage {
			newest = newest[1:]
		}
		newest = append(newest, binary.BigEndian.Uint64(k[len(k)-8:]))
		return true, nil
	})
	for _, pos := range newest {
		c, _, e := r.CoverageAt(pos)
		err = errors.Join(err, e)
		i.Coverage = append(i.Coverage, c.Coverage)
	}
	return err
}

func roomMark(no uint8, room string) []byte {
	name := roomKey(room)
	return append([]byte{no}, name[:]...)
}

func (r *Reader) boardInfo(v *venue) (*RoomInfo, error) {
	i := &RoomInfo{
		Venue: v.alias, Room: protocol.BoardRoom, Class: ClassBoard, Generation: v.last.gen,
		First: v.first.seq, Last: v.last.seq, Mark: roomMark(v.no, protocol.BoardRoom),
	}
	if err := r.board(v); err != nil {
		return nil, err
	}
	for n, g := range v.ranges {
		i.Rows += g.to - g.from + 1
		switch {
		case n == 0:
			if g.gen == v.first.gen && v.first.seq < g.from {
				i.Missing.Within += g.from - v.first.seq
			}
		case v.ranges[n-1].gen != g.gen && g.from <= v.ranges[n-1].to:
			i.Missing.Within += g.from - 1
		default:
			i.Missing.Within += g.from - v.ranges[n-1].to - 1
		}
	}
	br, found, err := r.placesOf(v.no).get(v.last)
	if found {
		i.LastMs = br.ts
	}
	return i, err
}

func (r *Reader) roomInfo(v *venue, class RoomClass, k, val []byte) (*RoomInfo, error) {
	rec, err := readRoomRec(val)
	if err != nil {
		return nil, r.damaged(bytes.Clone(k), err)
	}
	i := &RoomInfo{
		Venue: v.alias, Room: rec.name, Class: class, Generation: rec.gen, Rows: rec.rows, Head: rec.head,
		First: rec.first, Last: rec.last, LastMs: rec.lastTs, Mark: bytes.Clone(k[1:]),
	}
	if rec.rows > 0 {
		if class == ClassDeal && rec.first > 1 {
			i.Missing.Before = rec.first - 1
		}
		if span := rec.last - rec.first + 1; span > rec.rows {
			i.Missing.Within = span - rec.rows
		}
	}
	if rec.head > rec.last {
		i.Missing.Behind = rec.head - rec.last
	}
	if class != ClassDeal {
		return i, nil
	}
	ids, err := r.inRoom(v.no, [8]byte(k[3:]))
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		c, err := r.contract(v.no, id)
		if err != nil {
			return nil, err
		}
		if c != nil && c.folded && len(i.Contracts) < RoomContracts {
			i.Contracts = append(i.Contracts, id)
		}
	}
	return i, nil
}

// HasRoom reports whether the venue has the room: rows of it, or a page that
// spoke of it.
func (r *Reader) HasRoom(alias, room string) (bool, error) {
	i := slices.IndexFunc(r.venues, func(v *venue) bool { return v.alias == alias })
	if i < 0 || room == protocol.BoardRoom {
		return i >= 0, nil
	}
	val, err := r.getIdx(append([]byte{keyRoom}, roomMark(r.venues[i].no, room)...))
	return val != nil, err
}

// MarkedRow is a row and where it stands in its room.
type MarkedRow struct {
	Record
	Mark []byte
}

// RowsAfter yields the rows of a room that have a place in its order, those
// behind the row with the mark after, or all where that is nil. Unlike Room it
// reads of the board no more than is taken; it leaves out what has no place
// there: malformed rows, and sightings that differ in their time.
func (r *Reader) RowsAfter(alias, room string, after []byte) iter.Seq2[*MarkedRow, error] {
	return func(yield func(*MarkedRow, error) bool) {
		i := slices.IndexFunc(r.venues, func(v *venue) bool { return v.alias == alias })
		if i < 0 {
			return
		}
		no := r.venues[i].no
		at := place{}
		if len(after) > 0 {
			_, at = readMarkOf(after)
		}
		var err error
		if room == protocol.BoardRoom {
			err = r.boardAfter(no, at, yield)
		} else {
			err = r.roomAfter(alias, room, no, at, yield)
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

func (r *Reader) boardAfter(no uint8, after place, yield func(*MarkedRow, error) bool) error {
	var group []placedRow // the rows with one seq, of which each record is given once
	more := true
	flush := func() error {
		if len(group) == 0 {
			return nil
		}
		gen, seq := group[0].at.gen, group[0].at.seq
		list := onceEach(group)
		if gen == after.gen && seq == after.seq {
			list = list[slices.Index(list, after.pos)+1:]
		}
		group = group[:0]
		for _, pos := range list {
			rec, err := r.Record(pos)
			if err != nil {
				return err
			}
			if more = yield(&MarkedRow{rec, appendMark(nil, no, place{gen, seq, pos})}, nil); !more {
				break
			}
		}
		return nil
	}
	err := r.placesOf(no).each(place{gen: after.gen, seq: after.seq}, func(at place, br *boardRow) (bool, error) {
		if len(group) > 0 && (group[0].at.gen != at.gen || group[0].at.seq != at.seq) {
			if err := flush(); err != nil || !more {
				return false, err
			}
		}
		group = append(group, placedRow{at, *br})
		return true, nil
	})
	if err == nil && more {
		err = flush()
	}
	return err
}

func (r *Reader) roomAfter(alias, room string, no uint8, after place, yield func(*MarkedRow, error) bool) error {
	rr, err := r.Room(alias, room)
	if err != nil || rr == nil {
		return err
	}
	list := rr.pos
	// Where the row is not in the order any more, another copy having taken its
	// place, the list goes on by number.
	known := slices.Index(list, after.pos)
	list = list[known+1:]
	for _, pos := range list {
		rec, err := r.Record(pos)
		if err != nil {
			return err
		}
		at := place{rec.Generation, rec.Seq, pos}
		if known < 0 && after.pos != 0 && (at.gen < after.gen || at.gen == after.gen && at.seq <= after.seq) {
			continue
		}
		if !yield(&MarkedRow{rec, appendMark(nil, no, at)}, nil) {
			return nil
		}
	}
	return nil
}
