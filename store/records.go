package store

import (
	"encoding/binary"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/protocol"
)

// boardRow is what stands at a place on the board: what other rows' facts need
// of the row that stands there, without reading the row.
type boardRow struct {
	flags  uint8
	typ    protocol.FrameType
	signer uint64 // the first eight bytes of the sender's key
	nonce  uint64
	id     uint64 // the first eight bytes of the record's identity
	size   uint32
	source uint32
	ts     int64
}

const (
	boardCounts    = 1 << iota // the record counts under the rules in force
	boardFills                 // its seq is held
	boardReplay                // the same record stands earlier
	boardNonceFell             // the sender's nonce fell
	boardTime                  // ConflictTime, ConflictRecord, ConflictMissing
	boardRecord
	boardMissing
)

func (r *boardRow) conflict() (c fold.Conflict) {
	if r.flags&boardTime != 0 {
		c |= fold.ConflictTime
	}
	if r.flags&boardRecord != 0 {
		c |= fold.ConflictRecord
	}
	if r.flags&boardMissing != 0 {
		c |= fold.ConflictMissing
	}
	return c
}

func (r *boardRow) append(dst []byte) []byte {
	dst = append(dst, r.flags, byte(r.typ))
	dst = binary.BigEndian.AppendUint64(dst, r.signer)
	dst = binary.BigEndian.AppendUint64(dst, r.id)
	dst = binary.AppendUvarint(dst, r.nonce)
	dst = binary.AppendUvarint(dst, uint64(r.size))
	dst = binary.AppendUvarint(dst, uint64(r.source))
	return binary.AppendVarint(dst, r.ts)
}

func (d *dec) boardRow() (r boardRow) {
	r.flags, r.typ = d.byte(), protocol.FrameType(d.byte())
	if v := d.take(16); v != nil {
		r.signer, r.id = binary.BigEndian.Uint64(v), binary.BigEndian.Uint64(v[8:])
	}
	r.nonce, r.size, r.source, r.ts = d.uint(), uint32(d.uint()), uint32(d.uint()), d.int()
	return r
}

// identity is the value of a row's identity: where its record first stands.
type identity struct {
	at    place
	ts    int64
	bytes uint64 // the first eight bytes of the sha256 of the row's bytes
	from  uint32 // the source
}

func (i *identity) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, i.at.pos)
	dst = binary.AppendUvarint(dst, i.at.gen)
	dst = binary.AppendUvarint(dst, i.at.seq)
	dst = binary.AppendVarint(dst, i.ts)
	dst = binary.AppendUvarint(dst, uint64(i.from))
	return binary.BigEndian.AppendUint64(dst, i.bytes)
}

func readIdentity(b []byte) (i identity, err error) {
	d := dec{b: b}
	i.at.pos, i.at.gen, i.at.seq, i.ts, i.from = d.uint(), d.uint(), d.uint(), d.int(), uint32(d.uint())
	if v := d.take(8); v != nil {
		i.bytes = binary.BigEndian.Uint64(v)
	}
	return i, d.err
}

// roomRec is what is known of a room that is not the board.
type roomRec struct {
	name   string
	rows   uint64
	head   uint64 // rows stand up to here, as a page says
	gen    uint64 // the greatest generation seen
	first  uint64 // the least and greatest seq seen of usable rows
	last   uint64
	lastTs int64
}

func (r *roomRec) append(dst []byte) []byte {
	dst = appendRoom(dst, r.name)
	for _, v := range [...]uint64{r.rows, r.head, r.gen, r.first, r.last} {
		dst = binary.AppendUvarint(dst, v)
	}
	return binary.AppendVarint(dst, r.lastTs)
}

func readRoomRec(b []byte) (r roomRec, err error) {
	d := dec{b: b}
	r.name = d.room()
	r.rows, r.head, r.gen, r.first, r.last, r.lastTs = d.uint(), d.uint(), d.uint(), d.uint(), d.uint(), d.int()
	return r, d.err
}

// offerRec is an offer in sight, and what its contracts have to know of each
// other.
type offerRec struct {
	at      place // of its first row
	expires int64
	listed  uint64      // accepts from which a contract id derives
	bound   protocol.ID // the first valid accept's contract
	boundAt place
	locks   uint64      // contracts of it with a counted lock, see keyLocked
	first   protocol.ID // the contract of an accept of it
	more    bool        // there are others, see keyOffered
}

func (o *offerRec) append(dst []byte) []byte {
	for _, v := range [...]uint64{o.at.pos, o.at.gen, o.at.seq} {
		dst = binary.AppendUvarint(dst, v)
	}
	dst = binary.AppendVarint(dst, o.expires)
	dst = binary.AppendUvarint(dst, o.listed)
	dst = appendBool(dst, o.boundAt.pos != 0)
	if o.boundAt.pos != 0 {
		dst = append(dst, o.bound[:]...)
		for _, v := range [...]uint64{o.boundAt.pos, o.boundAt.gen, o.boundAt.seq} {
			dst = binary.AppendUvarint(dst, v)
		}
	}
	dst = binary.AppendUvarint(dst, o.locks)
	dst = appendBool(dst, o.more)
	if o.first != (protocol.ID{}) {
		dst = append(dst, o.first[:]...)
	}
	return dst
}

func readOfferRec(b []byte) (o offerRec, err error) {
	d := dec{b: b}
	o.at.pos, o.at.gen, o.at.seq, o.expires = d.uint(), d.uint(), d.uint(), d.int()
	o.listed = d.uint()
	if d.byte() != 0 {
		o.bound = d.id()
		o.boundAt.pos, o.boundAt.gen, o.boundAt.seq = d.uint(), d.uint(), d.uint()
	}
	o.locks = d.uint()
	o.more = d.byte() != 0
	if len(d.b) > 0 {
		o.first = d.id()
	}
	return o, d.err
}

// contractRec is a contract as it was last folded: what lists and other
// contracts need of it. All else is folded again from the rows when it is asked
// for.
type contractRec struct {
	offer    protocol.ID
	accept   place // the first row of the board that names the contract in an accept
	more     bool  // there are further ones, see keyAccept
	folded   bool
	revision uint64 // rises with every fold that changed something
	event    uint64 // the newest event, 0 for none

	// what it contributes to what others know
	listed    bool // in sight with its offer
	counts    bool // a valid accept
	acceptAt  place
	locked    bool
	leans     bool // on what may be missing on the board, see keyLeans
	statement [half]byte
	payerKey  protocol.Point
	payeeKey  protocol.Point
	payer     [8]byte // the first eight bytes of the sha256 of the did:keys
	payee     [8]byte
	warned    bool // its refund deadline was told to be near

	sum Brief
}

// stands is where the contract's accept stands on the board: lists are sorted by
// it.
func (c *contractRec) stands() place {
	if c.listed {
		return c.acceptAt
	}
	return c.accept
}

// Brief is the conclusions about a contract that lists show and events tell.
type Brief struct {
	Status     protocol.Status
	Evidence   fold.EvidenceAxis
	Settlement fold.Settlement
	Verdict    fold.Verdict
	Binding    fold.Binding
	Shadow     protocol.Status
	Lock       protocol.LockKind
	Chosen     bool
	Late       bool
	Outlook    OutlookCode
	// The offer's deadlines, Unix ms; 0 where the offer is not in sight.
	ExpiresMs, ClaimByMs, RefundAfterMs int64
	// Findings has a bit for each finding code of the contract.
	Findings uint64
	Steps    []BriefStep // the counted steps that moved the status, and receipts
}

// BriefStep is one counted step: its frame type and the first eight bytes of
// its record's identity.
type BriefStep struct {
	Type   protocol.FrameType
	Record [8]byte
}

// OutlookCode numbers fold's outlook codes for keeping. The numbers are stable.
type OutlookCode uint8

var outlookCodes = [...]string{
	"", fold.AwaitingAccept, fold.OfferHasLapsed, fold.OpenToLock, fold.Lapsed, fold.Funded, fold.Refundable,
	fold.Settled, fold.CancelledEnd, fold.NoClock,
}

func outlookCode(s string) OutlookCode {
	for i, c := range outlookCodes {
		if c == s {
			return OutlookCode(i)
		}
	}
	return 0
}

// String returns fold's word for the code.
func (c OutlookCode) String() string {
	if int(c) < len(outlookCodes) {
		return outlookCodes[c]
	}
	return ""
}

const (
	contractMore = 1 << iota
	contractFolded
	contractListed
	contractCounts
	contractLocked
	contractChosen
	contractLate
	contractLeans
)

func appendPlace(dst []byte, p place) []byte {
	dst = binary.AppendUvarint(dst, p.pos)
	dst = binary.AppendUvarint(dst, p.gen)
	return binary.AppendUvarint(dst, p.seq)
}

func (d *dec) place() (p place) {
	p.pos, p.gen, p.seq = d.uint(), d.uint(), d.uint()
	return p
}

func appendPoint(dst []byte, p protocol.Point) []byte {
	if p.IsZero() {
		return append(dst, 0)
	}
	return append(dst, p[:]...)
}

func (d *dec) point() (p protocol.Point) {
	if len(d.b) > 0 && d.b[0] == 0 {
		d.b = d.b[1:]
		return p
	}
	copy(p[:], d.take(len(p)))
	return p
}

func (c *contractRec) append(dst []byte) []byte {
	var flags byte
	for i, on := range [...]bool{c.more, c.folded, c.listed, c.counts, c.locked, c.sum.Chosen, c.sum.Late, c.leans} {
		if on {
			flags |= 1 << i
		}
	}
	dst = append(dst, flags)
	dst = append(dst, c.offer[:]...)
	dst = appendPlace(dst, c.accept)
	dst = binary.AppendUvarint(dst, c.revision)
	dst = binary.AppendUvarint(dst, c.event)
	if !c.folded {
		return dst
	}
	if c.listed {
		dst = appendPlace(dst, c.acceptAt)
		dst = append(dst, c.statement[:]...)
		dst = appendPoint(appendPoint(dst, c.payerKey), c.payeeKey)
		dst = append(append(dst, c.payer[:]...), c.payee[:]...)
	}
	s := &c.sum
	dst = append(dst, byte(s.Status), byte(s.Evidence), byte(s.Settlement), byte(s.Verdict), byte(s.Binding), byte(s.Shadow), byte(s.Lock), byte(s.Outlook))
	dst = appendBool(dst, c.warned)
	dst = binary.AppendVarint(dst, s.ExpiresMs)
	dst = binary.AppendVarint(dst, s.ClaimByMs-s.ExpiresMs)
	dst = binary.AppendVarint(dst, s.RefundAfterMs-s.ExpiresMs)
	dst = binary.AppendUvarint(dst, s.Findings)
	dst = binary.AppendUvarint(dst, uint64(len(s.Steps)))
	for _, st := range s.Steps {
		dst = append(append(dst, byte(st.Type)), st.Record[:]...)
	}
	return dst
}

func readContractRec(b []byte) (c contractRec, err error) {
	d := dec{b: b}
	flags := d.byte()
	c.more, c.folded, c.listed = flags&contractMore != 0, flags&contractFolded != 0, flags&contractListed != 0
	c.counts, c.locked = flags&contractCounts != 0, flags&contractLocked != 0
	c.sum.Chosen, c.sum.Late, c.leans = flags&contractChosen != 0, flags&contractLate != 0, flags&contractLeans != 0
	c.offer = d.id()
	c.accept = d.place()
	c.revision, c.event = d.uint(), d.uint()
	if !c.folded {
		return c, d.err
	}
	if c.listed {
		c.acceptAt = d.place()
		copy(c.statement[:], d.take(half))
		c.payerKey, c.payeeKey = d.point(), d.point()
		copy(c.payer[:], d.take(8))
		copy(c.payee[:], d.take(8))
	}
	s := &c.sum
	s.Status, s.Evidence, s.Settlement = protocol.Status(d.byte()), fold.EvidenceAxis(d.byte()), fold.Settlement(d.byte())
	s.Verdict, s.Binding, s.Shadow = fold.Verdict(d.byte()), fold.Binding(d.byte()), protocol.Status(d.byte())
	s.Lock, s.Outlook = protocol.LockKind(d.byte()), OutlookCode(d.byte())
	c.warned = d.byte() != 0
	s.ExpiresMs = d.int()
	s.ClaimByMs, s.RefundAfterMs = s.ExpiresMs+d.int(), s.ExpiresMs+d.int()
	s.Findings = d.uint()
	n := d.uint()
	if n > uint64(len(d.b)) {
		d.fail()
		n = 0
	}
	s.Steps = make([]BriefStep, n)
	for i := range s.Steps {
		s.Steps[i].Type = protocol.FrameType(d.byte())
		copy(s.Steps[i].Record[:], d.take(8))
	}
	return c, d.err
}

// sourceRec is one source of rows, and how far it has been read.
type sourceRec struct {
	Source
	no      uint32
	begun   uint64 // position of its entry in the log
	rows    int64  // rows in the log so far
	state   []byte // what the reader wants to find again when it goes on
	last    [8]byte
	lastRaw []byte // the bytes of the row added last, for as long as its reader keeps them
	done    bool
	digest  [32]byte
	cut     byte
	board   bool // it has rows of the board
	boardAt place
	hazy    bool // a row that could not be read stood since boardAt
}

func (s *sourceRec) append(dst []byte) []byte {
	dst = append(dst, s.venueNo)
	dst = appendBytes(dst, s.Path)
	dst = appendBytes(dst, s.Room)
	dst = appendBytes(dst, s.NameRoom)
	dst = binary.AppendVarint(dst, s.Size)
	dst = binary.AppendVarint(dst, s.TimeMs)
	dst = binary.AppendUvarint(dst, s.begun)
	dst = binary.AppendUvarint(dst, uint64(s.rows))
	dst = appendBytes(dst, s.state)
	dst = append(dst, s.last[:]...)
	var flags byte
	for i, on := range [...]bool{s.done, s.board, s.hazy} {
		if on {
			flags |= 1 << i
		}
	}
	dst = append(dst, flags, s.cut)
	dst = append(dst, s.digest[:]...)
	return appendPlace(dst, s.boardAt)
}

func readSourceRec(b []byte) (s sourceRec, err error) {
	d := dec{b: b}
	s.venueNo = d.byte()
	s.Path, s.Room, s.NameRoom, s.Size, s.TimeMs = d.string(), d.string(), d.string(), d.int(), d.int()
	s.begun, s.rows = d.uint(), int64(d.uint())
	s.state = append([]byte(nil), d.bytes()...)
	copy(s.last[:], d.take(8))
	flags := d.byte()
	s.done, s.board, s.hazy = flags&1 != 0, flags&2 != 0, flags&4 != 0
	s.cut = d.byte()
	s.digest = d.id()
	s.boardAt = d.place()
	return s, d.err
}
