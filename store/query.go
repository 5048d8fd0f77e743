package store

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"iter"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/tclk-audit/tclk-audit/export"
	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/verify"
)

// List lists contracts, and says how many pass the filter whatever its limit.
// It reads their records and folds nothing, but for SinceMs the few whose
// frames stand outside their places.
func (r *Reader) List(f Filter) (items []Item, total int, err error) {
	if f.indexed() {
		return r.listByStatus(&f)
	}
	var order []sortKey
	var failed error
	add := func(no uint8, id protocol.ID, rec *contractRec) {
		if failed != nil || !rec.folded || !r.passes(&f, no, id, rec) {
			return
		}
		i := r.item(no, id, rec)
		if f.Outlook != "" && i.Outlook.String() != f.Outlook || f.Keep != nil && !f.Keep(&i) {
			return
		}
		if f.SinceMs != 0 {
			var recent bool
			if recent, failed = r.since(&i, f.SinceMs); !recent {
				return
			}
		}
		order = append(order, f.Sort.key(&i, len(items)))
		items = append(items, i)
	}
	if err := r.each(&f, add); err != nil || failed != nil {
		return nil, 0, errors.Join(err, failed)
	}
	slices.SortFunc(order, sortKey.compare)
	total = len(order)
	if f.Limit > 0 && total > f.Limit {
		order = order[:f.Limit]
	}
	sorted := make([]Item, len(order))
	for i, k := range order {
		sorted[i] = items[k.index]
	}
	return sorted, total, nil
}

func (r *Reader) item(no uint8, id protocol.ID, rec *contractRec) Item {
	i := Item{
		Venue: r.venues[no-1].alias, Contract: id, Offer: rec.offer, Revision: rec.revision, Brief: rec.sum,
		no: no, at: rec.stands(), event: rec.event,
	}
	r.clockOutlook(&i)
	return i
}

// indexed reports whether the list by status knows all that is asked.
func (f *Filter) indexed() bool {
	return f.Limit > 0 && f.Sort != ByRevision && f.Keep == nil && f.Outlook == "" && f.Party == "" && f.Finding == fold.CodeNone &&
		f.Binding == fold.BindingNone && !f.Chosen && f.SinceMs == 0 && f.Offer == (protocol.ID{}) && f.Prefix == ""
}

// listByStatus lists contracts by what stands in the list by status alone, and
// reads the records of those within the limit.
func (r *Reader) listByStatus(f *Filter) (items []Item, total int, err error) {
	type listed struct {
		sortKey
		id protocol.ID
	}
	compare := func(a, b listed) int { return a.compare(b.sortKey) }
	var best []listed
	statuses := f.Status
	if len(statuses) == 0 {
		for st := protocol.StatusNone; st <= protocol.Cancelled; st++ {
			statuses = append(statuses, st)
		}
	}
	for _, v := range r.venues {
		if f.Venue != "" && v.alias != f.Venue {
			continue
		}
		for _, st := range statuses {
			err := r.scan([]byte{keyStatus, v.no, byte(st)}, func(k, val []byte) (bool, error) {
				d := dec{b: val}
				l := listed{sortKey{no: v.no, at: d.place()}, protocol.ID(k[3+8:])}
				if d.err != nil {
					return false, r.damaged(k, d.err)
				}
				if f.Sort == ByDeadline {
					l.first = binary.BigEndian.Uint64(k[3:])
				}
				total++
				// Twice the limit is kept, and now and then the better half of it.
				if len(best) >= 2*f.Limit {
					slices.SortFunc(best, compare)
					best = best[:f.Limit]
				}
				best = append(best, l)
				return true, nil
			})
			if err != nil {
				return nil, 0, err
			}
		}
	}
	slices.SortFunc(best, compare)
	for _, l := range best[:min(len(best), f.Limit)] {
		rec, err := r.contract(l.no, l.id)
		if err != nil {
			return nil, 0, err
		}
		if rec != nil {
			items = append(items, r.item(l.no, l.id, rec))
		}
	}
	return items, total, nil
}

// sortKey is what a contract is sorted by: small, since there may be many.
type sortKey struct {
	first uint64
	no    uint8
	at    place
	index int
}

func (o Order) key(i *Item, index int) sortKey {
	k := sortKey{no: i.no, at: i.at, index: index}
	switch o {
	case ByDeadline:
		k.first = i.due()
	case ByRevision:
		k.first = ^i.event
	}
	return k
}

func (k sortKey) compare(o sortKey) int {
	return cmp.Or(
		cmp.Compare(k.first, o.first), cmp.Compare(k.no, o.no), cmp.Compare(k.at.gen, o.at.gen), cmp.Compare(k.at.seq, o.at.seq),
		cmp.Compare(k.at.pos, o.at.pos), cmp.Compare(k.index, o.index))
}

// eachOf reads the records of contracts. In the order of their keys that costs
// a step of one iterator each, and no look-up.
func (r *Reader) eachOf(no uint8, ids []protocol.ID, add func(no uint8, id protocol.ID, rec *contractRec)) error {
	if len(ids) == 0 {
		return nil
	}
	slices.SortFunc(ids, func(a, b protocol.ID) int { return bytes.Compare(a[:], b[:]) })
	it, err := r.snap.NewIter(&pebble.IterOptions{LowerBound: []byte{keyContract, no}, UpperBound: after([]byte{keyContract, no})})
	if err != nil {
		return r.s.explain(err)
	}
	var k key
	for i, id := range ids {
		if i > 0 && id == ids[i-1] || !it.SeekGE(k.of(keyContract, no).bytes(id[:]).b) || !bytes.Equal(it.Key(), k.b) {
			continue
		}
		rec, err := readContractRec(it.Value())
		if err != nil {
			return errors.Join(r.damaged(k.b, err), it.Close())
		}
		add(no, id, &rec)
	}
	return r.s.explain(errors.Join(it.Error(), it.Close()))
}

// since reports whether a contract has a row at or after a time: its accept,
// the last of its deal room, or a frame that stands elsewhere.
func (r *Reader) since(i *Item, ms int64) (bool, error) {
	var k key
	br, found, err := r.placesOf(i.no).get(i.at)
	if err != nil || found && br.ts >= ms {
		return err == nil, err
	}
	var val []byte
	room := roomKey(protocol.DealRoom(i.Contract))
	if val, err = r.getIdx(k.of(keyRoom, i.no).bytes(room[:]).b); err != nil {
		return false, err
	}
	if val != nil {
		rec, err := readRoomRec(val)
		if err != nil {
			return false, r.damaged(k.b, err)
		}
		if rec.rows > 0 && rec.lastTs >= ms {
			return true, nil
		}
	}
	for _, id := range [...]protocol.ID{i.Contract, i.Offer} {
		if val, err = r.getIdx(k.of(keyNamed, i.no).byte('f').bytes(id[:half]).b); err != nil {
			return false, err
		}
		if val == nil {
			continue
		}
		c, err := r.Fold(*i, nil)
		if err != nil || c == nil {
			return false, err
		}
		return slices.ContainsFunc(c.Steps, func(s fold.Step) bool { return s.TsMs >= ms }), nil
	}
	return false, nil
}

// RecordKind says what an entry of the log is.
type RecordKind uint8

// The kinds of entries.
const (
	RecordRow       = RecordKind(entryRow)
	RecordSighting  = RecordKind(entrySame)
	RecordMalformed = RecordKind(entryBad)
	RecordRoom      = RecordKind(entryRoom)
	RecordSource    = RecordKind(entrySource)
	RecordEnd       = RecordKind(entryEnd)
	RecordTick      = RecordKind(entryTick)
	RecordRules     = RecordKind(entryRules)
	RecordCoverage  = RecordKind(entryCoverage)
	RecordClock     = RecordKind(entryClock)
	RecordFetch     = RecordKind(entryFetch)
	RecordSettings  = RecordKind(entrySettings)
)

var recordKinds = [...]string{"", "row", "sighting", "malformed", "room", "source", "end", "tick", "rules", "coverage", "clock", "fetch", "settings"}

// String returns the kind's word.
func (k RecordKind) String() string {
	if int(k) < len(recordKinds) {
		return recordKinds[k]
	}
	return ""
}

// Record is an entry of the log as a reader sees it. Which fields are set
// depends on its kind: of a sighting those of the row that it repeats, with its
// own position and place in its source.
type Record struct {
	Position   uint64 // in the log
	Kind       RecordKind
	Venue      string
	Room       string // "" where the entry is about none, or none could be told
	Generation uint64
	Seq        uint64
	TsMs       int64
	ID         protocol.RecordID // zero where the row is malformed
	Class      verify.Class      // of a row
	Reason     protocol.Reason
	Hidden     bool // only the reference implementation reads it as a row
	Torn       bool
	Where      Where
	Path       string   // of the source
	Raw        []byte   // nil where the bytes were not kept, see Hash
	Size       int64    // of the bytes, without line end
	Hash       [32]byte // sha256 of the bytes; of a longer row than is kept, of what is

	// Coverage is what happened to the room, of an entry that is about that.
	Coverage *Coverage

	again bool
}

// Usable reports whether the row's signature holds, or does with another
// spelling of its nonce.
func (r *Record) Usable() bool {
	return r.Kind != RecordMalformed && (r.Class == verify.Authentic || r.Class == verify.Repaired)
}

// Record reads an entry of the log.
func (r *Reader) Record(pos uint64) (Record, error) {
	e, err := r.entry(pos)
	if err != nil {
		return Record{}, err
	}
	return r.record(pos, &e)
}

func (r *Reader) record(pos uint64, e *entry) (Record, error) {
	rec := Record{Position: pos, Kind: RecordKind(e.kind), Room: e.room, Generation: e.gen, Seq: e.seq, Where: e.where}
	if n := int(e.venue); n > 0 && n <= len(r.venues) {
		rec.Venue = r.venues[n-1].alias
	}
	var err error
	if e.where.Source != 0 {
		if rec.Path, err = r.pathOf(e.where.Source); err != nil {
			return rec, err
		}
	}
	row := e
	switch e.kind {
	case entrySame:
		first, err := r.entry(e.first)
		if err != nil {
			return rec, err
		}
		row = &first
		rec.Room = first.room
		if rec.Generation == 0 {
			rec.Generation = first.gen
		}
	case entryBad:
		rec.Torn, rec.Reason, rec.Size = e.torn, e.reason, e.size
		if e.flags&rowNoBytes != 0 {
			copy(rec.Hash[:], e.raw)
			return rec, nil
		}
		rec.Raw, rec.Hash = e.raw, hashOf(e.raw)
		rec.Size = max(rec.Size, int64(len(e.raw)))
		return rec, nil
	case entryRow:
	case entryCoverage:
		c := e.covered()
		rec.TsMs, rec.Coverage = e.ms, &c
		return rec, nil
	case entryClock:
		rec.TsMs = e.ms
		return rec, nil
	default:
		return rec, nil
	}
	rec.Class, rec.Reason = row.class, row.reason
	rec.Hidden, rec.again = row.flags&rowHidden != 0, row.flags&rowAgain != 0
	if row.flags&rowNoBytes != 0 {
		d := dec{b: row.raw}
		copy(rec.Hash[:], d.take(32))
		if n := d.take(8); n != nil {
			rec.Size = int64(binary.BigEndian.Uint64(n))
		}
		rec.ID, rec.Seq, rec.TsMs = d.id(), d.uint(), d.int()
		return rec, d.err
	}
	parse := r.cases.rows.parse
	if rec.Hidden {
		parse = export.ReferenceRules()
	}
	var p protocol.Record
	r.cases.rows.scratch = r.cases.rows.scratch[:0]
	export.ParseRow(row.raw, parse, &r.cases.rows.scratch, &p)
	p.Room = row.room
	rec.Seq, rec.TsMs, rec.ID = p.Seq, p.TsMs, p.ID()
	rec.Raw, rec.Size, rec.Hash = row.raw, int64(len(row.raw)), sha256.Sum256(row.raw)
	return rec, nil
}

// Provenance is a record and where it was seen.
type Provenance struct {
	Record
	Sightings []Record // all that are known, the record's own first
}

// Provenance says where the records that Fold gave for a contract were seen, in
// the order of board, rooms and seqs. Of the rows of rooms it knows every
// sighting. For rows of the board it looks at those that stand at the same
// place, and only where all is set through the whole log, for no list has the
// sightings that say nothing new.
func (r *Reader) Provenance(i Item, records map[protocol.RecordID]uint64, all bool) ([]Provenance, error) {
	list := make([]Provenance, 0, len(records))
	for _, pos := range records {
		rec, err := r.Record(pos)
		if err != nil {
			return nil, err
		}
		list = append(list, Provenance{Record: rec, Sightings: []Record{rec}})
	}
	slices.SortFunc(list, func(a, b Provenance) int {
		return cmp.Or(
			cmp.Compare(deep(a.Room), deep(b.Room)), cmp.Compare(a.Room, b.Room), cmp.Compare(a.Generation, b.Generation),
			cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Position, b.Position))
	})
	s := sightings{r: r, list: list, byID: map[protocol.RecordID]int{}, byPos: map[uint64]int{}}
	rooms := map[string]bool{}
	for n := range list {
		s.byID[list[n].ID], s.byPos[list[n].Position] = n, n
		if list[n].Room != protocol.BoardRoom {
			rooms[list[n].Room] = true
		}
	}
	if all {
		return list, s.scanLog(i.no)
	}
	var positions []uint64
	var k key
	add := func(k, _ []byte) (bool, error) {
		positions = append(positions, binary.BigEndian.Uint64(k[len(k)-8:]))
		return true, nil
	}
	for room := range rooms {
		name := roomKey(room)
		if err := r.scan(k.of(keyRow, i.no).bytes(name[:]).b, add); err != nil {
			return nil, err
		}
	}
	for n := range list {
		if list[n].Room != protocol.BoardRoom {
			continue
		}
		gen, seq := list[n].Generation, list[n].Seq
		err := r.placesOf(i.no).each(place{gen, seq, 0}, func(at place, _ *boardRow) (bool, error) {
			if at.gen != gen || at.seq != seq {
				return false, nil
			}
			positions = append(positions, at.pos)
			return true, nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(positions)
	for _, pos := range slices.Compact(positions) {
		e, err := r.entry(pos)
		if err != nil {
			return nil, err
		}
		if err := s.see(pos, &e); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// deep sorts the board before the rooms.
func deep(room string) int {
	if room == protocol.BoardRoom {
		return 0
	}
	return 1
}

// sightings finds where records were seen besides.
type sightings struct {
	r     *Reader
	list  []Provenance
	byID  map[protocol.RecordID]int
	byPos map[uint64]int // of rows
}

func (s *sightings) see(pos uint64, e *entry) error {
	n, ok := 0, false
	switch e.kind {
	case entrySame:
		n, ok = s.byPos[e.first]
	case entryRow:
		if _, had := s.byPos[pos]; had {
			return nil
		}
		ok = true
	}
	if !ok {
		return nil
	}
	rec, err := s.r.record(pos, e)
	if err != nil {
		return err
	}
	if e.kind == entryRow {
		if n, ok = s.byID[rec.ID]; !ok {
			return nil
		}
		s.byPos[pos] = n
	}
	s.list[n].Sightings = append(s.list[n].Sightings, rec)
	return nil
}

func (s *sightings) scanLog(no uint8) error {
	return s.r.scan([]byte{keyLog}, func(k, val []byte) (bool, error) {
		if len(val) < 2 || val[1] != no || entryKind(val[0]) != entrySame && entryKind(val[0]) != entryRow {
			return true, nil
		}
		e, err := readEntry(val)
		if err != nil {
			return false, s.r.damaged(k, err)
		}
		if e.kind == entryRow && e.flags&rowAgain == 0 {
			return true, nil
		}
		e.raw = slices.Clone(e.raw)
		return true, s.see(binary.BigEndian.Uint64(k[1:]), &e)
	})
}

func (r *Reader) damaged(k []byte, err error) error { return r.s.damagedKey(k, err) }

// VenueNames lists the venues in the store.
func (r *Reader) VenueNames() []string {
	names := make([]string, len(r.venues))
	for i, v := range r.venues {
		names[i] = v.alias
	}
	return names
}

// Rules are the rules in force.
func (r *Reader) Rules() fold.Rules { return r.s.rules }

// Clock is a venue's clock: the greatest time of a row that counts, Unix ms.
func (r *Reader) Clock(venue string) (ms int64, ok bool) {
	for _, v := range r.venues {
		if v.alias == venue {
			return v.clock, v.hasClock
		}
	}
	return 0, false
}

// OfferStatus says what became of an offer, at the venue's clock.
type OfferStatus uint8

// What becomes of offers.
const (
	OfferProposed  OfferStatus = 1
	OfferBound     OfferStatus = 2 // an accept counts
	OfferCancelled OfferStatus = 3
	OfferExpired   OfferStatus = 4
)

var offerStatuses = [...]string{"", "proposed", "bound", "cancelled", "expired"}

// String returns the status's word.
func (s OfferStatus) String() string {
	if int(s) < len(offerStatuses) {
		return offerStatuses[s]
	}
	return ""
}

// ParseOfferStatus reads the word of an offer's status; 0 for any other word.
func ParseOfferStatus(s string) OfferStatus {
	return OfferStatus(max(0, slices.Index(offerStatuses[:], s)))
}

// OfferFilter narrows a list of offers. Zero fields do not.
type OfferFilter struct {
	Venue  string
	Status []OfferStatus
	Party  string // did:key of who made it
}

// OfferContracts is how many contracts of one offer are listed.
const OfferContracts = 256

// Offer is an offer in sight.
type Offer struct {
	protocol.Offer
	Venue     string
	Status    OfferStatus
	Position  uint64 // of its first row
	Seq       uint64
	TsMs      int64
	Accepts   uint64        // contracts that accept it
	Bound     protocol.ID   // the contract of the first valid accept, zero for none
	Contracts []protocol.ID // the first OfferContracts of them, in no order that means anything
}

// Offers yields the offers in sight in the order of the board. It holds one at
// a time.
func (r *Reader) Offers(f OfferFilter) iter.Seq2[*Offer, error] {
	return func(yield func(*Offer, error) bool) {
		var signer uint64
		if f.Party != "" {
			k, ok := verify.DecodeDID([]byte(f.Party))
			if !ok {
				return
			}
			signer = binary.BigEndian.Uint64(k[:])
		}
		for _, v := range r.venues {
			if f.Venue != "" && f.Venue != v.alias {
				continue
			}
			more := true
			err := r.placesOf(v.no).each(place{}, func(at place, br *boardRow) (bool, error) {
				if br.typ != protocol.TypeOffer || br.flags&boardCounts == 0 || f.Party != "" && br.signer != signer {
					return true, nil
				}
				o, err := r.offer(v, at, &f)
				if err != nil || o == nil {
					return err == nil, err
				}
				more = yield(o, nil)
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

// offer reads the offer of a row, nil where it is not the offer's first row or
// does not pass the filter.
func (r *Reader) offer(v *venue, at place, f *OfferFilter) (*Offer, error) {
	e, err := r.entry(at.pos)
	if err != nil {
		return nil, err
	}
	row := &r.cases.row
	r.cases.rows.reset()
	if err := r.cases.rows.read(&e, row); err != nil {
		return nil, err
	}
	frame, ok := row.Line.Frame.(*protocol.Offer)
	if !ok || f.Party != "" && frame.From != f.Party {
		return nil, nil
	}
	var k key
	val, err := r.getIdx(k.of(keyOffer, v.no).bytes(frame.ID[:]).b)
	if err != nil || val == nil {
		return nil, err
	}
	rec, err := readOfferRec(val)
	if err != nil {
		return nil, r.damaged(k.b, err)
	}
	if rec.at != at {
		return nil, nil
	}
	o := &Offer{Offer: *frame, Venue: v.alias, Position: at.pos, Seq: at.seq, TsMs: row.Record.TsMs, Accepts: rec.listed, Bound: rec.bound}
	if o.Status, err = r.offerStatus(v, at, frame, &rec); err != nil {
		return nil, err
	}
	if len(f.Status) > 0 && !slices.Contains(f.Status, o.Status) {
		return nil, nil
	}
	if rec.listed == 0 {
		return o, nil
	}
	ids, err := r.ofOffer(v.no, frame.ID)
	for _, id := range ids {
		if len(o.Contracts) == OfferContracts {
			break
		}
		c, err := r.contract(v.no, id)
		if err != nil {
			return nil, err
		}
		if c != nil && c.listed && c.offer == frame.ID {
			o.Contracts = append(o.Contracts, id)
		}
	}
	return o, err
}

func (r *Reader) offerStatus(v *venue, at place, o *protocol.Offer, rec *offerRec) (OfferStatus, error) {
	if rec.bound != (protocol.ID{}) {
		return OfferBound, nil
	}
	cancelled, err := r.offerCancelled(v, at, o)
	switch {
	case err != nil:
		return 0, err
	case cancelled:
		return OfferCancelled, nil
	case v.hasClock && v.concludes() >= o.ExpiresMs:
		return OfferExpired, nil
	}
	return OfferProposed, nil
}

// offerCancelled reports whether its author called the offer off on the board.
// The reference implementation knows no such cancel.
func (r *Reader) offerCancelled(v *venue, at place, o *protocol.Offer) (bool, error) {
	if r.s.rules.Reference {
		return false, nil
	}
	var k key
	val, err := r.getIdx(k.of(keyNamed, v.no).byte('f').bytes(o.ID[:half]).b)
	if err != nil || val == nil {
		return false, err
	}
	found := false
	n := 0
	err = r.scan(k.of(keyFrame, v.no).bytes(o.ID[:half]).b, func(at8, _ []byte) (bool, error) {
		pos := binary.BigEndian.Uint64(at8[len(at8)-8:])
		e, err := r.entry(pos)
		if err != nil || e.kind != entryRow || e.room != protocol.BoardRoom {
			return err == nil, err
		}
		var row fold.Row
		if err := r.cases.rows.read(&e, &row); err != nil {
			return false, err
		}
		c, ok := row.Line.Frame.(*protocol.Cancel)
		if ok && c.Contract == o.ID && c.From == o.From && string(row.Record.From) == o.From {
			p := place{e.gen, row.Record.Seq, pos}
			br, there, err := r.placesOf(v.no).get(p)
			if err != nil {
				return false, err
			}
			found = there && at.less(p) && br.flags&boardCounts != 0 && br.flags&boardReplay == 0
		}
		n++
		return !found && n < namedRows, nil
	})
	return found, err
}

// Latency sums up how long a step took, in ms.
type Latency struct {
	Count     int64
	MedianMs  int64
	MaxMs     int64
	durations []int64
}

func (l *Latency) add(from, to *fold.Step) {
	if from != nil && to != nil {
		l.durations = append(l.durations, to.TsMs-from.TsMs)
	}
}

func (l *Latency) end() {
	slices.Sort(l.durations)
	if n := len(l.durations); n > 0 {
		l.Count, l.MedianMs, l.MaxMs = int64(n), l.durations[(n-1)/2], l.durations[n-1]
	}
	l.durations = nil
}

// Party is what the store knows of a party's deals: counts, and no judgement.
type Party struct {
	DID          string
	Contracts    int64
	Payer, Payee int64
	ByStatus     [7]int64         // by protocol.Status
	Rails        map[string]int64 // contracts with a counted lock
	Values       [3]int64         // by fold.Settlement
	Findings     map[fold.Code]int64
	AcceptToLock Latency
	LockToReveal Latency
	FirstMs      int64 // of the party's own rows in its deals; 0 where there are none
	LastMs       int64
}

// Party folds every deal of a party and counts. stop is asked now and then, and
// its error ends the work.
func (r *Reader) Party(did, venue string, stop func() error) (*Party, error) {
	items, err := r.Contracts(Filter{Party: did, Venue: venue})
	if err != nil {
		return nil, err
	}
	p := &Party{DID: did, Rails: map[string]int64{}, Findings: map[fold.Code]int64{}}
	for c, err := range r.All(items) {
		if err == nil {
			err = stop()
		}
		if err != nil {
			return nil, err
		}
		p.add(c)
	}
	p.AcceptToLock.end()
	p.LockToReveal.end()
	return p, nil
}

func (p *Party) add(c *fold.Contract) {
	switch p.DID {
	case c.Payer:
		p.Payer++
	case c.Payee:
		p.Payee++
	default:
		return // another party whose key begins alike
	}
	p.Contracts++
	p.ByStatus[c.Status]++
	p.Values[c.Settlement]++
	if c.Rail != "" {
		p.Rails[c.Rail]++
	}
	for i := range c.Findings {
		if slices.IndexFunc(c.Findings[:i], func(f fold.Finding) bool { return f.Code == c.Findings[i].Code }) < 0 {
			p.Findings[c.Findings[i].Code]++
		}
	}
	var counted [protocol.TypeHeartbeat + 1]*fold.Step
	for i := range c.Steps {
		s := &c.Steps[i]
		if s.OK && !s.Ignored && counted[s.Type] == nil {
			counted[s.Type] = s
		}
		if s.From == p.DID && (s.OK || s.Type != 0) {
			if p.FirstMs == 0 || s.TsMs < p.FirstMs {
				p.FirstMs = s.TsMs
			}
			p.LastMs = max(p.LastMs, s.TsMs)
		}
	}
	p.AcceptToLock.add(counted[protocol.TypeAccept], counted[protocol.TypeLock])
	p.LockToReveal.add(counted[protocol.TypeLock], counted[protocol.TypeReveal])
}

// SourceInfo is a source, and how far it was read.
type SourceInfo struct {
	Number uint32
	Source
	Rows   int64
	Done   bool
	SHA256 [32]byte // of its bytes, where it is done
	Cut    export.Cut
}

// Sources lists the newest sources, newest first.
func (r *Reader) Sources(limit int) ([]SourceInfo, error) {
	var list []SourceInfo
	for n := r.state.sources; n > 0 && len(list) < limit; n-- {
		val, err := r.getIdx(sourceKey(nil, n))
		if err != nil {
			return nil, err
		}
		rec, err := readSourceRec(val)
		if err != nil {
			return nil, r.damaged(sourceKey(nil, n), err)
		}
		src := SourceInfo{Number: n, Source: rec.Source, Rows: rec.rows, Done: rec.done, SHA256: rec.digest, Cut: export.Cut(rec.cut)}
		if no := int(rec.venueNo); no > 0 && no <= len(r.venues) {
			src.Venue = r.venues[no-1].alias
		}
		list = append(list, src)
	}
	return list, nil
}

// Status is what a store holds.
type Status struct {
	Dir    string
	Format int
	Fold   int
	Rules  fold.Rules

	Entries, Events, Ticks uint64
	Sources                int64
	Authentic, Repaired    int64 // rows, each in one of these six
	Unsigned, Invalid      int64
	Malformed, Torn        int64
	Again                  int64 // of those, sightings that said nothing new
	RowBytes               int64 // of all rows, with their line ends
	UnusableBytes          int64 // kept of rows that cannot be used
	WithoutBytes           int64 // rows whose bytes were not kept, for a limit
	Pruned                 int64
	CutSources             int64 // with rows that could not be read and may be any room's

	// The high-water mark: what was acknowledged, as the file beside the
	// database has it. Behind is not nil where the store held less when it was
	// opened.
	MarkEntries, MarkEvents uint64
	Behind                  error // a *BehindError, or a *DamagedError of the mark

	DiskBytes, WALBytes int64
	Venues              []VenueStatus
}

// VenueStatus is what a store holds of one venue.
type VenueStatus struct {
	Alias    string
	ClockMs  *int64
	Settings Settings
	Funnel   Funnel
	// Coverage counts what happened to rooms beside their rows, and LostRows the
	// rows that are known to be lost.
	Coverage map[CoverageCode]int64
	LostRows int64

	AnyBoard              bool
	FirstGen, FirstSeq    uint64 // of the board's rows in sight
	LastGen, LastSeq      uint64
	Ranges                int64  // runs of rows of the board without a hole
	Held, Missing         uint64 // seqs within sight, by whether a row is there
	DealRooms, OtherRooms int64
	RoomRows              int64
	RoomsWithGaps         int64 // fewer rows than their numbers span, or than a page said
}

// Status says what the store holds.
func (r *Reader) Status() (*Status, error) {
	st := &r.state
	m := r.s.db.Metrics()
	s := &Status{
		Dir: r.s.dir, Format: Format, Fold: FoldVersion, Rules: r.s.rules, Entries: st.log, Events: st.events, Ticks: st.ticks,
		Sources: int64(st.sources), Authentic: st.rows[verify.Authentic], Repaired: st.rows[verify.Repaired],
		Unsigned: st.rows[verify.Unsigned], Invalid: st.rows[verify.Invalid], Malformed: st.rows[0], Torn: st.rows[5], Again: st.rows[6],
		RowBytes: st.bytes, UnusableBytes: st.unused, WithoutBytes: st.noBytes, Pruned: st.pruned, CutSources: int64(len(st.cuts)),
		Behind: r.s.behind, DiskBytes: int64(m.DiskSpaceUsage()), WALBytes: int64(m.WAL.PhysicalSize),
	}
	mark, err := readMark(r.s.fs, r.s.path(markName))
	if err != nil && s.Behind == nil {
		return nil, err
	}
	s.MarkEntries, s.MarkEvents = mark.log, mark.events
	for _, v := range r.venues {
		vs, err := r.venueStatus(v)
		if err != nil {
			return nil, err
		}
		s.Venues = append(s.Venues, vs)
	}
	return s, nil
}

func (r *Reader) venueStatus(v *venue) (VenueStatus, error) {
	s := VenueStatus{
		Alias: v.alias, Funnel: v.funnel, AnyBoard: v.any, FirstGen: v.first.gen, FirstSeq: v.first.seq,
		LastGen: v.last.gen, LastSeq: v.last.seq, Settings: v.settings, LostRows: v.lost, Coverage: map[CoverageCode]int64{},
	}
	for _, c := range CoverageCodes() {
		if n := v.coverage[c]; n > 0 {
			s.Coverage[c] = n
		}
	}
	if v.hasClock {
		s.ClockMs = &v.clock
	}
	if err := r.board(v); err != nil {
		return s, err
	}
	s.Ranges = int64(len(v.ranges))
	s.Held, s.Missing, _ = v.holes()
	err := r.scan([]byte{keyRoom, v.no}, func(k, val []byte) (bool, error) {
		if k[2] != 1 {
			s.OtherRooms++
			return true, nil
		}
		rec, err := readRoomRec(val)
		if err != nil {
			return false, r.damaged(k, err)
		}
		s.DealRooms++
		s.RoomRows += int64(rec.rows)
		if rec.rows > 0 && (rec.last-rec.first+1 > rec.rows || rec.first > 1) || rec.head > rec.last {
			s.RoomsWithGaps++
		}
		return true, nil
	})
	return s, err
}

// RoomRows are a room's rows, ready to be read in order.
type RoomRows struct {
	Venue, Room string
	// Generations lists the lives of the room that its rows are of; 0 is that of
	// rows whose source does not say.
	Generations []uint64
	// Head is the seq up to which the room has rows, as a page said; 0 where
	// none did.
	Head uint64
	// Conflicts counts the rows that copies of the room contradict each other
	// about in a way that one list of rows cannot show: a copy lacks the row, or
	// ends too early.
	Conflicts int64

	r   *Reader
	no  uint8
	pos []uint64           // a deal room's rows, in order
	add map[place][]uint64 // rows of the board that have no place of their own, behind the place
}

// Room prepares to read a room's rows; nil where the venue has no such room.
func (r *Reader) Room(alias, room string) (*RoomRows, error) {
	i := slices.IndexFunc(r.venues, func(v *venue) bool { return v.alias == alias })
	if i < 0 {
		return nil, nil
	}
	v := r.venues[i]
	rr := &RoomRows{Venue: alias, Room: room, r: r, no: v.no}
	if room == protocol.BoardRoom {
		return rr, rr.loadBoard(v)
	}
	name := roomKey(room)
	var k key
	val, err := r.getIdx(k.of(keyRoom, v.no).bytes(name[:]).b)
	if err != nil || val == nil {
		return nil, err
	}
	rec, err := readRoomRec(val)
	if err != nil {
		return nil, r.damaged(k.b, err)
	}
	rr.Head = rec.head
	return rr, rr.loadRoom(room)
}

func (rr *RoomRows) loadBoard(v *venue) error {
	r := rr.r
	var extra bool
	gens := map[uint64]bool{}
	err := r.placesOf(v.no).each(place{}, func(at place, br *boardRow) (bool, error) {
		gens[at.gen] = true
		extra = extra || br.flags&boardTime != 0
		if br.flags&boardMissing != 0 {
			rr.Conflicts++
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	for g := range gens {
		rr.Generations = append(rr.Generations, g)
	}
	slices.Sort(rr.Generations)
	if extra || r.state.rows[0]+r.state.rows[5] > 0 {
		return rr.loadUnplaced()
	}
	return nil
}

// loadUnplaced looks through the log for the rows of the board that have no
// place of their own: malformed ones, and records seen with another time.
func (rr *RoomRows) loadUnplaced() error {
	rr.add = map[place][]uint64{}
	r := rr.r
	return r.scan([]byte{keyLog}, func(k, val []byte) (bool, error) {
		if len(val) < 2 || val[1] != rr.no {
			return true, nil
		}
		kind := entryKind(val[0])
		if kind != entryRow && kind != entryBad {
			return true, nil
		}
		e, err := readEntry(val)
		if err != nil {
			return false, r.damaged(k, err)
		}
		pos := binary.BigEndian.Uint64(k[1:])
		switch {
		case e.room != protocol.BoardRoom:
		case kind == entryBad || e.flags&rowHidden != 0:
			at, err := rr.before(pos, e.where.Source)
			if err != nil {
				return false, err
			}
			rr.add[at] = append(rr.add[at], pos)
		case e.flags&rowAgain != 0:
			rec, err := r.record(pos, &e)
			if err != nil {
				return false, err
			}
			at := place{rec.Generation, rec.Seq, pos}
			if _, found, err := r.placesOf(rr.no).get(at); err != nil || found {
				return err == nil, err
			}
			at.pos = 0
			rr.add[at] = append(rr.add[at], pos)
		}
		return true, nil
	})
}

// lookBack is how many entries are looked at for the row before one that has no
// place.
const lookBack = 1 << 14

// before finds the place of the row that stands before a row in its source; the
// zero place where there is none near.
func (rr *RoomRows) before(pos uint64, source uint32) (place, error) {
	for p := pos - 1; p > 0 && pos-p < lookBack; p-- {
		e, err := rr.r.entry(p)
		if err != nil {
			return place{}, err
		}
		if e.kind == entrySource && e.where.Source == source {
			break
		}
		if e.where.Source != source || e.kind != entryRow && e.kind != entrySame || e.flags&rowHidden != 0 {
			continue
		}
		rec, err := rr.r.record(p, &e)
		if err != nil {
			return place{}, err
		}
		if rec.Room == protocol.BoardRoom {
			return place{rec.Generation, rec.Seq, 0}, nil
		}
	}
	return place{}, nil
}

// roomEntry is a row of a room on its way into one order.
type roomEntry struct {
	pos     uint64
	source  uint32
	at      place // never falls within its source; pos is unused
	own     place
	id      protocol.RecordID
	ts      int64
	usable  bool
	isRow   bool
	dropped bool
}

// loadRoom puts the rows of a room into one order as a fold does: by generation
// and seq, each source in its own order, the same record at the same place
// once.
func (rr *RoomRows) loadRoom(name string) error {
	r := rr.r
	var list []posEntry
	if err := r.cases.addRoom(r, rr.no, name, &list); err != nil {
		return err
	}
	if err := sortEntries(r, list); err != nil {
		return err
	}
	entries := make([]roomEntry, 0, len(list))
	gens := map[uint64]bool{}
	for i := range list {
		e := &list[i].e
		if e.kind == entryEnd {
			rr.Conflicts++
			continue
		}
		rec, err := r.record(list[i].pos, e)
		if err != nil {
			return err
		}
		gens[rec.Generation] = true
		entries = append(entries, roomEntry{
			pos: list[i].pos, source: e.where.Source, own: place{gen: rec.Generation, seq: rec.Seq}, id: rec.ID, ts: rec.TsMs,
			usable: rec.Usable(), isRow: e.kind == entryRow && !rec.Hidden,
		})
	}
	if len(gens) == 2 && gens[0] {
		// Where one life alone is known, rows that do not say are of it.
		delete(gens, 0)
	}
	for g := range gens {
		rr.Generations = append(rr.Generations, g)
	}
	slices.Sort(rr.Generations)
	rr.pos = mergeRoom(entries, rr.Generations)
	return nil
}

func mergeRoom(entries []roomEntry, gens []uint64) []uint64 {
	var at place
	several := false
	for i := range entries {
		e := &entries[i]
		if i == 0 || e.source != entries[i-1].source {
			at = place{}
			several = several || i > 0
		}
		if e.own.gen == 0 {
			if e.own.gen = at.gen; len(gens) == 1 {
				e.own.gen = gens[0]
			}
		}
		if e.isRow && at.less(e.own) {
			at = e.own
		}
		e.at = at
	}
	if several {
		slices.SortStableFunc(entries, func(a, b roomEntry) int {
			return cmp.Or(cmp.Compare(a.at.gen, b.at.gen), cmp.Compare(a.at.seq, b.at.seq))
		})
		type sight struct {
			at place
			id protocol.RecordID
			ts int64
		}
		first := map[sight]int{}
		for i := range entries {
			e := &entries[i]
			if !e.isRow {
				continue
			}
			k := sight{e.own, e.id, e.ts}
			n, ok := first[k]
			switch {
			case !ok:
				first[k] = i
			case entries[n].source == e.source: // it stands twice in one source
			case e.usable && !entries[n].usable:
				entries[n].pos, entries[n].usable, e.dropped = e.pos, true, true
			default:
				e.dropped = true
			}
		}
	}
	list := make([]uint64, 0, len(entries))
	for i := range entries {
		if !entries[i].dropped {
			list = append(list, entries[i].pos)
		}
	}
	return list
}

// All yields the rows in the room's order. A record is good until the next.
func (rr *RoomRows) All() iter.Seq2[*Record, error] {
	if rr.Room == protocol.BoardRoom {
		return rr.boardRows
	}
	return func(yield func(*Record, error) bool) {
		for _, pos := range rr.pos {
			rec, err := rr.r.Record(pos)
			if !yield(&rec, err) || err != nil {
				return
			}
		}
	}
}

// boardRows reads the board place by place.
func (rr *RoomRows) boardRows(yield func(*Record, error) bool) {
	stopped := false
	give := func(pos uint64) error {
		if stopped {
			return nil
		}
		rec, err := rr.r.Record(pos)
		if err == nil {
			stopped = !yield(&rec, nil)
		}
		return err
	}
	var group []placedRow
	flush := func() error {
		if len(group) == 0 {
			return nil
		}
		at := group[0].at
		for _, pos := range onceEach(group) {
			if err := give(pos); err != nil {
				return err
			}
		}
		group = group[:0]
		return rr.giveAll(place{at.gen, at.seq, 0}, give)
	}
	err := rr.giveAll(place{}, give)
	if err == nil {
		err = rr.r.placesOf(rr.no).each(place{}, func(at place, br *boardRow) (bool, error) {
			if len(group) > 0 && (group[0].at.gen != at.gen || group[0].at.seq != at.seq) {
				if err := flush(); err != nil {
					return false, err
				}
			}
			group = append(group, placedRow{at, *br})
			return !stopped, nil
		})
	}
	if err == nil {
		err = flush()
	}
	if err != nil && !stopped {
		yield(nil, err)
	}
}

func (rr *RoomRows) giveAll(at place, give func(uint64) error) error {
	for _, pos := range rr.add[at] {
		if err := give(pos); err != nil {
			return err
		}
	}
	return nil
}

// onceEach gives the rows of one place, each record once: where copies have it,
// the one that counts.
func onceEach(group []placedRow) []uint64 {
	list := make([]uint64, 0, len(group))
	for i := range group {
		g := &group[i]
		same := func(o placedRow) bool { return o.br.id == g.br.id && o.br.source != g.br.source && o.br.ts == g.br.ts }
		if i > 0 && slices.ContainsFunc(group[:i], same) {
			continue
		}
		pos := g.at.pos
		if g.br.flags&boardCounts == 0 {
			for _, o := range group[i+1:] {
				if same(o) && o.br.flags&boardCounts != 0 {
					pos = o.at.pos
					break
				}
			}
		}
		list = append(list, pos)
	}
	return list
}

// LastEvent is the number of the newest event.
func (r *Reader) LastEvent() uint64 { return r.state.events }
