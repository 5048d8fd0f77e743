package fold

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"sort"

	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/verify"
)

// The auditor's limits. Meeting one is counted in Summary.Limits.
const (
	// StepLimit is how many rows of non-parties one contract's steps show from
	// one room; the rest are counted in StepsOmitted.
	StepLimit = 10_000
	// FindingLimit is how many findings of one code that belong to no
	// contract are kept one by one; the rest are counted.
	FindingLimit = 10_000
	// HoleLimit is how many missing seq ranges are kept of one room; the rest
	// are merged into the last.
	HoleLimit = 1_000
	// PendingLimit bounds what is kept of frames whose contract is not known
	// when they are read.
	PendingLimit = 1 << 16
	// SeenLimit bounds the memory of records already seen, by which replays
	// are told: at least this many rows back.
	SeenLimit = seenSlots / 4 * 3
	// nonceWindow is how far back the venue compares a key's nonces, in bytes
	// of rows.
	nonceWindow = 1 << 20
)

// Conflict marks on a row what the copies of its room say against each other.
type Conflict uint8

// The conflicts, as bits.
const (
	ConflictTime    Conflict = 1 << iota // the same record at the same place with two times
	ConflictRecord                       // two records at one room, generation and seq
	ConflictMissing                      // a copy that covers the row's seq lacks it
)

// Row is one usable row: parsed, with its signature judged and its line
// decoded. The auditor keeps no reference to it after Add.
type Row struct {
	Record    protocol.Record
	ID        protocol.RecordID
	Verify    verify.Result
	Key       [32]byte         // the sender's Ed25519 key, where IsDID
	IsDID     bool             // the sender is an Ed25519 did:key
	NotStrict bool             // authentic, but not under crypto/ed25519's narrower rule
	Line      protocol.Decoded // under the rules in force; only looked at where the record counts
	// Reference is the line decoded as the reference would where the rules in
	// force refuse it, else zero.
	Reference protocol.Decoded
	// Hidden marks a row that is malformed under the rules in force and usable
	// under the reference's: it only serves to find out where the two diverge.
	Hidden   bool
	Size     int // bytes of the row as stored
	Conflict Conflict
	Source   uint32 // the input it came from
}

// Options of an Auditor.
type Options struct {
	Rules    Rules
	KeepText bool   // keep the stored lines of steps
	Exact    bool   // look for signature-not-strict on every step, not only on counted ones of contracts with a lock
	NowMs    *int64 // the clock for outlooks; nil: the greatest row time seen
}

// Summary is what an audit counted.
type Summary struct {
	Decoded   [9]int64 // by protocol.FrameType
	Rejected  map[protocol.Reason]int64
	NotFrames int64 // authentic rows that are no tclk1 lines
	Duplicate int64 // rows that repeat a record seen before
	Offers    OfferCounts
	Contracts int64
	ByStatus  [7]int64 // by protocol.Status; none: the offer is not in sight
	Receipted int64    // contracts with a receipt that counts
	ClockMs   *int64   // the greatest time of an authentic row; nil without one
	Limits    map[string]int64
	Omitted   map[Code]int64 // findings beyond FindingLimit
}

// OfferCounts says what became of the offers in sight: each is in one of the
// four.
type OfferCounts struct {
	Total, Proposed, Bound, Cancelled, Expired int64
}

// Auditor folds the rows of a venue. See the package's documentation.
type Auditor struct {
	opts    Options
	arena   arena
	keys    map[[32]byte]uint32
	keyList slab[[32]byte]
	dids    []string

	offers       slab[offer]
	offerIndex   map[uint64]uint32 // first eight bytes of the id → the newest such offer, chained by offer.chain
	accepts      slab[accept]
	acceptIndex  map[uint64]uint32 // likewise: a contract id begins with the name of its deal room
	boards       slab[onBoard]
	orphans      map[uint32]protocol.ID    // the offers that orphaned accepts name
	orphanByID   map[protocol.ID]uint32    // orphaned accepts: their ids are what a stranger likes
	orphanByRoom map[roomName]uint32       // the first of those that name a deal room
	acceptKeys   map[uint32]protocol.Point // payment keys of accepts
	closings     map[uint32]closing        // by offer
	refOffers    map[protocol.ID]uint32    // offers that only the reference decodes
	refAccepts   map[uint32]uint32         // orphaned accepts that would count for one of those
	exposedBy    map[uint32]uint64         // by accept: order+1 of a reveal in sight that opens its statement
	texts        map[uint64]ref            // stored lines of offers and accepts, by order
	rooms        slab[room]
	roomByName   map[roomName]uint32
	rows         slab[row]
	holes        slab[hole]

	board      tracker
	window     NonceWindow
	statements map[uint64]uint32 // first eight bytes of a statement's sha256 → the newest such accept
	exposures  []exposure        // reveals that opened nothing known when they were read
	elsewhere  map[elsewhereKey]uint32
	seen       seen
	cuts       map[uint32]bool    // sources with torn or unplaced malformed rows
	hazy       map[hazyKey]bool   // sources of a deal room with malformed rows
	hazyEnd    map[hazyKey]uint64 // those of them where no row stands behind the malformed ones: the order of the last of these

	clockMs  int64 // the greatest time of a row that counts
	hasClock bool
	order    uint64
	findings []Finding
	kept     [codeEnd]int
	sum      Summary
	finished bool

	openOffer   protocol.Offer // of the accept being judged
	recent      recent
	words       words
	pack        packer
	scratch     frames
	walker      walker
	nonces      map[uint32]nonceMark
	claimed     map[uint64]uint32 // statement key → claimed contracts
	payerLocks  map[payerLock]uint32
	boardHoles  []uint64                  // orders of the board's holes; only kept under the offer-room rule
	openHoles   []boardHole               // the board's latest holes, which rows out of order may fill
	closedHoles []uint64                  // orders of holes that such rows have filled, rising
	paymentKeys map[protocol.Point]uint32 // → the first accept with it; the top bit: there are more
	elsewhereBy map[protocol.ID][]elsewhere

	told     *Context             // what is known of other contracts; nil but in an Excerpt
	siblings map[protocol.ID]bool // an Excerpt's contracts with the same point
}

// roomName is the 16 hex digits of a deal room's name as 8 bytes.
type roomName [8]byte

// offer is one offer in sight. Its frame is packed in the arena.
type offer struct {
	id     protocol.ID
	record protocol.RecordID
	seq    uint64
	ts     int64
	order  uint64
	body   ref
	gen    uint32
	holes  uint32 // holes of the board before this row
	chain  uint32 // another offer whose id begins alike
	from   uint32
	bound  uint32 // the first valid accept
	locks  uint32 // accepts of it with a counted lock
	flags  flag
}

// closing is what closed an offer before an accept: rows of the board.
type closing struct {
	cancel   uint32
	receipt  uint32
	repaired uint64 // order of a cancel that does not count because its nonce was repaired
}

// accept is one listed contract.
type accept struct {
	id        protocol.ID
	record    protocol.RecordID
	statement protocol.Statement
	seq       uint64
	ts        int64
	order     uint64
	gen       uint32
	holes     uint32
	chain     uint32 // an older accept with the same deal room, which its id begins with
	offer     uint32 // 0: not in sight, see Auditor.orphans
	from      uint32
	sameStmt  uint32 // an older accept with a statement that hashes alike
	board     uint32 // its frames on the board
	flags     flag
	result    quick
}

// onBoard is the frames of a contract that stand on the board.
type onBoard struct {
	head, tail uint32 // those of parties, for the shadow
	rows       uint32 // by anybody
	kept       uint32
}

// quick is what Finish learns of each contract before any is reported.
type quick struct {
	status protocol.Status
	locked bool // a lock counted
}

type flag uint32

const (
	flagNoncanonical flag = 1 << iota
	flagNotStrict
	flagRefOnly // counts under the reference's rules only
	flagHidden
	flagConflictTime
	flagConflictRecord
	flagConflictMissing
	flagNonceOrder
	flagReplay
	flagLate    // accept: too late
	flagTooLate // accept: the offer was cancelled before
	flagDropped // accept: listed no more, its offer turned up after it
	flagLapsedAtBirth
	flagRepaired // an authentic row by a repaired nonce
	flagNick     // the sender is a nickname, kept in the body
	flagImpossible
	flagNonParty
	flagLost            // accept: it stood before its offer's row, whose first sighting may be lost
	flagKey             // accept: it names a payment key
	flagSharedStatement // accept: another has the same statement
	flagClosed          // offer: a row of the board cancelled it
	flagExposed         // accept: a reveal in sight opens its statement
	flagRaced           // offer: it has more than one listed accept
	flagListed          // offer: it has one
	flagDisorder        // its seq did not rise
	flagFiller          // no row: seq to ts are those of rows of non-parties that are not kept, size of them
)

func conflictFlags(c Conflict) flag {
	var f flag
	if c&ConflictTime != 0 {
		f |= flagConflictTime
	}
	if c&ConflictRecord != 0 {
		f |= flagConflictRecord
	}
	if c&ConflictMissing != 0 {
		f |= flagConflictMissing
	}
	return f
}

const flagAnyConflict = flagConflictTime | flagConflictRecord | flagConflictMissing

// row is one kept row of a deal room, or of the board for a shadow.
type row struct {
	record protocol.RecordID
	seq    uint64
	ts     int64
	order  uint64
	nonce  uint64
	body   ref
	gen    uint64
	from   uint32
	next   uint32
	size   uint32
	source uint32
	flags  flag
	typ    protocol.FrameType
	class  verify.Class
	reason protocol.Reason
}

// hole is a range of seqs that no authenticated row fills. It is noticed by
// the row with the given order, before which it lies.
type hole struct {
	from, to uint64
	order    uint64
	next     uint32
}

// boardHole is a range of seqs of the board that no row in sight held when the
// row with the given order came.
type boardHole struct {
	gen, from, to uint64
	order         uint64
}

// tracker follows the seqs of one room.
type tracker struct {
	seen        bool
	filled      bool // some row has filled its seq
	gen         uint64
	firstGen    uint64
	first       uint64 // the first row in sight
	last        uint64
	lastTs      int64
	lastRecord  protocol.RecordID
	lastOrder   uint64
	beforeOrder uint64 // of the row before
	top         uint64 // greatest seq filled in this generation
	topGen      uint64
	lastFilled  uint64 // order of the last row that filled
	holes       uint64
	disorder    uint64 // order+1 of the first row whose seq did not rise
	unfilled    uint64 // order+1 of the last row that filled nothing and was not followed by one that did
	unfilledSeq uint64 // its greatest seq
}

type room struct {
	name       roomName
	track      tracker
	head, tail uint32
	holeHead   uint32
	holeTail   uint32
	holeCount  uint32
	kept       uint32 // rows of non-parties kept
	source     uint32 // the first input with rows of it, +1
	manySource bool
	inSight    bool
	headSeq    uint64 // the room has rows up to here, as a page says
	conflict   uint64 // order+1 of the first row with conflicting metadata
	impossible uint64 // order+1 of the first row that the venue cannot have stored
}

// payerLock counts one payer's counted locks on one offer's contracts.
type payerLock struct{ offer, payer uint32 }

type hazyKey struct {
	room   roomName
	source uint32
}

type exposure struct {
	secret protocol.Secret
	named  protocol.ID
	order  uint64
}

type elsewhereKey struct {
	contract protocol.ID
	room     string
}

// New returns an empty auditor.
func New(o Options) *Auditor {
	a := &Auditor{
		opts:         o,
		keys:         map[[32]byte]uint32{},
		offerIndex:   map[uint64]uint32{},
		acceptIndex:  map[uint64]uint32{},
		orphans:      map[uint32]protocol.ID{},
		orphanByID:   map[protocol.ID]uint32{},
		orphanByRoom: map[roomName]uint32{},
		acceptKeys:   map[uint32]protocol.Point{},
		closings:     map[uint32]closing{},
		refOffers:    map[protocol.ID]uint32{},
		refAccepts:   map[uint32]uint32{},
		exposedBy:    map[uint32]uint64{},
		texts:        map[uint64]ref{},
		words:        newWords(),
		roomByName:   map[roomName]uint32{},
		statements:   map[uint64]uint32{},
		elsewhere:    map[elsewhereKey]uint32{},
		cuts:         map[uint32]bool{},
		hazy:         map[hazyKey]bool{},
		hazyEnd:      map[hazyKey]uint64{},
	}
	a.sum.Rejected = map[protocol.Reason]int64{}
	a.sum.Limits = map[string]int64{}
	a.sum.Omitted = map[Code]int64{}
	return a
}

func (a *Auditor) limit(name string) { a.sum.Limits[name]++ }

// counts reports whether the row's record counts under the rules in force.
func (a *Auditor) counts(r *Row) bool {
	return r.Verify.Class == verify.Authentic || r.Verify.Class == verify.Repaired && a.opts.Rules.RepairNonces
}

// Room says that a room is in sight although it may hold no row.
func (a *Auditor) Room(name string) {
	if k, ok := dealRoomName(name); ok {
		a.room(k).inSight = true
	}
}

// Head is Room for a source that says up to which seq the room has rows: where
// those are not in sight, they are missing.
func (a *Auditor) Head(name string, seq uint64) {
	if k, ok := dealRoomName(name); ok {
		rm := a.room(k)
		rm.inSight, rm.headSeq = true, max(rm.headSeq, seq)
	}
}

// Malformed tells the auditor of a row that could not be used: it may have
// been a true one. Room is "" where the row's room cannot be told.
func (a *Auditor) Malformed(name string, source uint32) {
	a.order++
	switch k, ok := dealRoomName(name); {
	case ok:
		rm := a.room(k)
		rm.inSight = true
		rm.track.unfilled, rm.track.unfilledSeq = a.order+1, math.MaxUint64
		a.hazy[hazyKey{k, source}] = true
		a.hazyEnd[hazyKey{k, source}] = a.order
	case name == protocol.BoardRoom:
		a.board.unfilled, a.board.unfilledSeq = a.order+1, math.MaxUint64
	case name == "":
		a.cuts[source] = true
	}
}

func dealRoomName(name string) (k roomName, ok bool) {
	const prefix = "mb-p-tclk-"
	if len(name) != len(prefix)+16 || name[:len(prefix)] != prefix {
		return k, false
	}
	for i := 0; i < 16; i++ {
		c := name[len(prefix)+i]
		var v byte
		switch {
		case c >= '0' && c <= '9':
			v = c - '0'
		case c >= 'a' && c <= 'f':
			v = c - 'a' + 10
		default:
			return k, false
		}
		k[i/2] = k[i/2]<<4 | v
	}
	return k, true
}

func (k roomName) String() string {
	var id protocol.ID
	copy(id[:], k[:])
	return protocol.DealRoom(id)
}

func (a *Auditor) room(k roomName) *room {
	if i, ok := a.roomByName[k]; ok {
		return a.rooms.at(i)
	}
	i, rm := a.rooms.add()
	rm.name = k
	a.roomByName[k] = i
	return rm
}

// key gives the number of the row's sender; 0 where it is no did:key.
func (a *Auditor) key(r *Row) uint32 {
	if !r.IsDID {
		return 0
	}
	if i := a.knownKey(r); i != 0 {
		return i
	}
	i, k := a.keyList.add()
	*k = r.Key
	a.keys[r.Key] = i
	return i
}

// knownKey is key without taking up room for a new one.
func (a *Auditor) knownKey(r *Row) uint32 {
	if !r.IsDID {
		return 0
	}
	return a.keys[r.Key]
}

// did gives the did:key of a number. Each is spelled out once: a board's keys
// come back again and again.
func (a *Auditor) did(i uint32) string {
	if i == 0 {
		return ""
	}
	for uint32(len(a.dids)) <= i {
		a.dids = append(a.dids, "")
	}
	if a.dids[i] == "" {
		a.dids[i] = verify.EncodeDID(*a.keyList.at(i))
	}
	return a.dids[i]
}

// Finding adds a finding that the caller made, at the current place.
func (a *Auditor) Finding(f Finding) {
	f.Order = a.order
	a.found(f)
}

// found keeps a finding that belongs to no contract.
func (a *Auditor) found(f Finding) {
	if a.told != nil {
		return // an excerpt speaks of its contract only
	}
	if f.Severity == SeverityNone {
		f.Severity = codeTable[f.Code].base
	}
	if a.kept[f.Code] >= FindingLimit {
		a.sum.Omitted[f.Code]++
		return
	}
	a.kept[f.Code]++
	a.findings = append(a.findings, f)
}

// rowFinding is found for a row that belongs to no contract.
func (a *Auditor) rowFinding(c Code, r *Row, detail string) {
	if a.told != nil {
		return
	}
	seq := r.Record.Seq
	a.found(Finding{Code: c, Room: r.Record.Room, Seq: &seq, Detail: detail, Order: a.order})
}

// Add folds one row in. Rows of one room must come in the room's order.
func (a *Auditor) Add(r *Row) {
	a.order++
	if r.Hidden {
		if k, ok := dealRoomName(r.Record.Room); ok {
			a.addDeal(k, r, a.counts(r), false)
		}
		return
	}
	counts := a.counts(r)
	if counts {
		a.clockMs, a.hasClock = max(a.clockMs, r.Record.TsMs), true
	}
	// An id does not cover the signature: a spoilt copy is no record.
	replay := false
	if r.Verify.Class == verify.Authentic || r.Verify.Class == verify.Repaired {
		var full bool
		if replay, full = a.seen.add(prefix(r.ID[:])); full {
			a.limit("records remembered for replays")
		}
		if replay {
			a.sum.Duplicate++
		}
	}
	if counts {
		switch {
		case r.Line.Reason.Ignored():
			a.sum.NotFrames++
		case r.Line.Reason != protocol.ReasonNone:
			a.sum.Rejected[r.Line.Reason]++
		default:
			a.sum.Decoded[r.Line.Frame.Type()]++
		}
	}
	if k, ok := dealRoomName(r.Record.Room); ok {
		a.addDeal(k, r, counts, replay)
		return
	}
	if r.Record.Room == protocol.BoardRoom {
		a.addBoard(r, counts, replay)
		a.publicRowFindings(r, replay)
		return
	}
	a.publicRowFindings(r, replay)
	if counts && r.Line.Frame != nil {
		a.sum.Rejected[protocol.WrongRoom]++
		if !replay {
			a.misplaced(r.Line.Frame, r.Record.Room)
		}
	}
}

// publicRowFindings reports what is to be said of a row of a room that belongs
// to no contract.
func (a *Auditor) publicRowFindings(r *Row, replay bool) {
	if d, ok := impossible(r, false); ok {
		a.rowFinding(ImpossibleRow, r, d)
	}
	switch {
	case r.Verify.Class == verify.Repaired:
		a.rowFinding(NonceRepaired, r, repairedDetail(r.Verify.SignedNonce))
	case r.Verify.OtherRoom != "":
		a.rowFinding(SignedForOtherRoom, r, "the signature verifies in "+r.Verify.OtherRoom)
	}
	if replay && r.Verify.Class == verify.Authentic {
		a.rowFinding(Replay, r, "the same record stands earlier")
	}
	if r.Line.Frame != nil && !r.Line.Canonical && !a.listed() {
		a.rowFinding(NoncanonicalLine, r, noncanonicalDetail)
	}
	if r.Conflict != 0 {
		a.rowFinding(ConflictingMetadata, r, conflictDetail(r.Conflict))
	}
}

// listed reports whether the row just folded opened a contract, whose findings
// then tell of it.
func (a *Auditor) listed() bool {
	n := a.accepts.len()
	return n > 0 && a.accepts.at(n).order == a.order
}

const noncanonicalDetail = "the line decodes but is not its own canonical form"

func repairedDetail(nonce string) string { return "the signature covers the nonce " + Show(nonce) }

func conflictDetail(c Conflict) string {
	switch {
	case c&ConflictTime != 0:
		return "the same record at the same seq with two times"
	case c&ConflictRecord != 0:
		return "two records at one seq"
	}
	return "a copy that covers this seq lacks the record"
}

// impossible tells a row that the venue would never store.
func impossible(r *Row, mailbox bool) (string, bool) {
	if r.IsDID {
		return "", false
	}
	if mailbox {
		return "a row without a did:key sender in a room that takes signed rows only", true
	}
	if bytes.IndexByte(r.Record.From, ':') >= 0 {
		return "a nickname with a colon", true
	}
	return "", false
}

// misplaced notes a good frame in a room that is neither the board nor its
// contract's deal room.
func (a *Auditor) misplaced(f protocol.Frame, roomName string) {
	c, ok := protocol.ContractOf(f)
	if !ok {
		return
	}
	if rv, isReveal := f.(*protocol.Reveal); isReveal {
		a.exposed(rv)
	}
	k := elsewhereKey{c, roomName}
	if _, ok := a.elsewhere[k]; !ok && len(a.elsewhere) >= PendingLimit {
		a.limit("frames in other rooms")
		return
	}
	a.elsewhere[k]++
}

// exposed marks the contracts whose statement a published secret opens. It is
// looked at again in Finish, for contracts that come later.
func (a *Auditor) exposed(f *protocol.Reveal) {
	a.expose(f.Contract, f.Secret, a.order)
	if len(a.exposures) >= PendingLimit {
		a.limit("reveals remembered for later contracts")
		return
	}
	a.exposures = append(a.exposures, exposure{f.Secret, f.Contract, a.order})
}

// expose reports whether the secret's contract is known. A hash statement is
// found by its digest; a point costs a scalar multiplication and is only tried
// on the contract that the reveal names.
func (a *Auditor) expose(contract protocol.ID, secret protocol.Secret, order uint64) bool {
	hit := a.exposeAll(protocol.HashStatement(sha256.Sum256(secret[:])), order)
	i := a.findAccept(&contract)
	if i == 0 && a.siblings[contract] {
		i = a.accepts.len() // its secret opens this excerpt's contract
	}
	if i == 0 {
		return hit
	}
	if ac := a.accepts.at(i); !a.exposedBefore(i, ac, order) && ac.statement.Kind() == protocol.LockPoint && ac.statement.Opens(secret) {
		a.exposeAll(ac.statement, order)
	}
	return true
}

// exposedBefore reports whether a reveal at an earlier place, or any that came
// after the accept, has exposed it already. Only an Excerpt gets rooms out of
// their order.
func (a *Auditor) exposedBefore(i uint32, ac *accept, order uint64) bool {
	return ac.flags&flagExposed != 0 && (a.told == nil || a.finished || a.exposedBy[i] <= order+1)
}

// exposeAll marks every accept with the statement.
func (a *Auditor) exposeAll(st protocol.Statement, order uint64) bool {
	hit := false
	for i := a.statements[statementKey(st)]; i != 0; {
		ac := a.accepts.at(i)
		if ac.statement == st {
			hit = true
			if a.exposedBefore(i, ac, order) {
				break // and so are the older ones
			}
			ac.flags |= flagExposed
			a.exposedBy[i] = order + 1
		}
		i = ac.sameStmt
	}
	return hit
}

// statementKey spreads statements, whose bytes a stranger may choose.
func statementKey(s protocol.Statement) uint64 {
	var buf [33]byte
	digest := sha256.Sum256(s.AppendBytes(buf[:0]))
	return prefix(digest[:])
}

// prefix is the first eight bytes of a hash.
func prefix(hash []byte) uint64 { return binary.BigEndian.Uint64(hash) }

// findOffer returns the offer with the id, 0 for none.
func (a *Auditor) findOffer(id *protocol.ID) uint32 {
	i := a.offerIndex[prefix(id[:])]
	for i != 0 && a.offers.at(i).id != *id {
		i = a.offers.at(i).chain
	}
	return i
}

// findAccept returns the listed contract with the id, 0 for none.
func (a *Auditor) findAccept(id *protocol.ID) uint32 {
	i := a.acceptIndex[prefix(id[:])]
	for i != 0 {
		ac := a.accepts.at(i)
		if ac.id == *id && ac.flags&flagDropped == 0 {
			break
		}
		i = ac.chain
	}
	if i == 0 {
		i = a.orphanByID[*id]
	}
	return i
}

// seqRules follows one row in a room's tracker. It reports a hole before the
// row, whether its seq failed to rise, and what contradicts the row before.
func (t *tracker) seqRules(gen, seq uint64, id protocol.RecordID, ts int64, order uint64, fills bool) (holeFrom, holeTo uint64, disorder bool, c Conflict) {
	switch {
	case gen == 0:
		gen = t.gen // the source does not say: the life goes on
	case t.seen && t.gen == 0:
		t.gen, t.topGen, t.firstGen = gen, gen, gen
	}
	if !t.seen {
		t.seen, t.first, t.firstGen = true, seq, gen
	} else if gen < t.gen || gen == t.gen && seq <= t.last {
		disorder = true
		if t.disorder == 0 {
			t.disorder = order + 1
		}
		if gen == t.gen && seq == t.last {
			if id != t.lastRecord {
				c |= ConflictRecord
			} else if ts != t.lastTs {
				c |= ConflictTime
			}
		}
	}
	relabelled := seq == t.last && id == t.lastRecord
	t.gen, t.last, t.lastRecord, t.lastTs = gen, seq, id, ts
	t.beforeOrder, t.lastOrder = t.lastOrder, order
	if !fills {
		t.unfilled, t.unfilledSeq = order+1, max(t.unfilledSeq, seq)
		return 0, 0, disorder, c
	}
	switch {
	case !t.filled:
		// What lies before the first row in sight is starts-after-first's; what
		// lies between it and the first that fills is a hole.
		if seq > t.first {
			holeFrom, holeTo = t.first, seq-1
		}
		t.top, t.topGen = seq, gen
	case gen != t.topGen && relabelled:
		// The venue labels the first row of a new life late: it is seen under
		// the old generation and again under the new one.
		t.topGen = gen
		if seq == t.first {
			t.firstGen = gen
		}
	case gen != t.topGen && seq <= t.top:
		// An old venue counts from 1 again in a new life.
		if seq > 1 {
			holeFrom, holeTo = 1, seq-1
		}
		t.top, t.topGen = seq, gen
	case seq > t.top:
		if seq > t.top+1 {
			holeFrom, holeTo = t.top+1, seq-1
		}
		t.top, t.topGen = seq, gen
	}
	t.filled, t.lastFilled = true, order
	t.unfilled, t.unfilledSeq = 0, 0
	if holeTo != 0 || holeFrom != 0 {
		t.holes++
	}
	return holeFrom, holeTo, disorder, c
}

// NonceWindow follows each signer's greatest nonce on the board over the last
// MiB of rows, which is as far as the venue compares them. The zero value is
// that of a board's beginning.
type NonceWindow struct {
	ring  []windowRow
	head  int
	bytes uint64
	top   map[uint64]int // signer → its entry with the greatest nonce, as an absolute index
	base  int
}

type windowRow struct {
	signer uint64
	nonce  uint64
	size   uint32
}

// Add takes in a row of size bytes and reports whether its signer's nonce fell.
// A signer goes by the first eight bytes of its key: to share those with
// another's key is beyond anybody.
func (w *NonceWindow) Add(signer, nonce uint64, size int) bool {
	if w.top == nil {
		w.top = map[uint64]int{}
	}
	w.evict(size)
	fell := false
	if at, ok := w.top[signer]; ok && w.ring[at-w.base].nonce > nonce {
		fell = true
	} else {
		w.top[signer] = w.base + len(w.ring)
	}
	w.ring = append(w.ring, windowRow{signer, nonce, uint32(size)})
	return fell
}

// evict makes room for a row: what lies further back than the window is
// forgotten.
func (w *NonceWindow) evict(size int) {
	w.bytes += uint64(size)
	for w.head < len(w.ring) && w.bytes > nonceWindow {
		old := &w.ring[w.head]
		if at, ok := w.top[old.signer]; ok && at == w.base+w.head {
			delete(w.top, old.signer)
		}
		w.bytes -= uint64(old.size)
		w.head++
	}
	if w.head > 4096 && w.head*2 > len(w.ring) {
		w.ring = append(w.ring[:0], w.ring[w.head:]...)
		w.base += w.head
		w.head = 0
	}
}

// Skip moves the window past a row that takes no part: one that does not count,
// a replay, one whose seq does not rise.
func (w *NonceWindow) Skip(size int) {
	w.evict(size)
	w.ring = append(w.ring, windowRow{size: uint32(size)})
}

// nonceValue reads a canonical decimal nonce; what does not fit is the
// greatest value, so that two such nonces never seem to fall.
func nonceValue(n []byte) uint64 {
	if len(n) > 20 {
		return ^uint64(0)
	}
	var v uint64
	for _, c := range n {
		if c < '0' || c > '9' {
			return ^uint64(0)
		}
		hi := v * 10
		if v > (^uint64(0))/10 || hi > ^uint64(0)-uint64(c-'0') {
			return ^uint64(0)
		}
		v = hi + uint64(c-'0')
	}
	return v
}

// Findings returns the findings that belong to no contract, in input order.
// Call it after Finish.
func (a *Auditor) Findings() []Finding {
	sort.SliceStable(a.findings, func(i, j int) bool { return a.findings[i].Order < a.findings[j].Order })
	return a.findings
}

// Summary returns the counts. Call it after Finish.
func (a *Auditor) Summary() Summary { return a.sum }
