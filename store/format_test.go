package store

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/tclk-audit/tclk-audit/export"
	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/internal/testkit"
	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/verify"
)

var updateFormat = flag.Bool("update", false, "rewrite the golden files")

// onPage reads a value as docs/format/store.md says, and shares no code with
// the package's own decoders. What does not fit panics.
type onPage struct {
	b   []byte
	out []string
}

func (p *onPage) say(name string, v any) { p.out = append(p.out, fmt.Sprintf("%s=%v", name, v)) }

func (p *onPage) n(n int) []byte {
	if n > len(p.b) {
		panic(fmt.Sprintf("%d bytes are left, and not %d", len(p.b), n))
	}
	v := p.b[:n]
	p.b = p.b[n:]
	return v
}

func (p *onPage) u() (v uint64) {
	for i := 0; ; i += 7 {
		c := p.n(1)[0]
		v |= uint64(c&0x7f) << i
		if c < 0x80 {
			if c == 0 && i > 0 {
				panic("a uvarint is longer than it can be")
			}
			return v
		}
	}
}

func (p *onPage) i() int64 { u := p.u(); return int64(u>>1) ^ -int64(u&1) }

func (p *onPage) uvarints(names ...string) {
	for _, name := range names {
		p.say(name, p.u())
	}
}

func (p *onPage) varints(names ...string) {
	for _, name := range names {
		p.say(name, p.i())
	}
}

func (p *onPage) u8s(names ...string) {
	for _, name := range names {
		p.say(name, p.n(1)[0])
	}
}

func (p *onPage) u64(name string) { p.say(name, binary.BigEndian.Uint64(p.n(8))) }
func (p *onPage) u32(name string) { p.say(name, binary.BigEndian.Uint32(p.n(4))) }

func (p *onPage) bool(name string) bool {
	c := p.n(1)[0]
	if c > 1 {
		panic("a bool is neither 0 nor 1")
	}
	p.say(name, c == 1)
	return c == 1
}

func (p *onPage) text(name string)       { p.say(name, fmt.Sprintf("%q", p.n(int(p.u())))) }
func (p *onPage) hex(name string, n int) { p.say(name, hex.EncodeToString(p.n(n))) }

func (p *onPage) place(name string) {
	pos, gen, seq := p.u(), p.u(), p.u()
	p.say(name, fmt.Sprintf("%d/%d@%d", gen, seq, pos))
}

func (p *onPage) placeKey(name string) {
	b := p.n(24)
	p.say(name, fmt.Sprintf("%d/%d@%d", binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:]), binary.BigEndian.Uint64(b[16:])))
}

func (p *onPage) point(name string) {
	c := p.n(1)[0]
	switch c {
	case 0:
		p.say(name, "none")
	case 2, 3:
		p.say(name, hex.EncodeToString(append([]byte{c}, p.n(32)...)))
	default:
		panic("no point")
	}
}

func (p *onPage) room() {
	switch p.n(1)[0] {
	case 0:
		p.say("room", "tclk-offers")
	case 1:
		p.say("room", "mb-p-tclk-"+hex.EncodeToString(p.n(8)))
	case 2:
		p.text("room")
	default:
		panic("no room")
	}
}

func (p *onPage) where() { p.uvarints("source", "index", "line", "offset") }

func (p *onPage) stubOrRest(flags byte) {
	if flags&16 == 0 {
		p.say("raw", len(p.b))
		p.n(len(p.b))
		return
	}
	p.hex("sha256", 32)
	p.u64("length")
	p.hex("record", 32)
	p.uvarints("seq")
	p.varints("time")
	p.text("sender")
}

func (p *onPage) entry() {
	kind := p.n(1)[0]
	p.say("entry", kind)
	p.u8s("venue")
	switch kind {
	case 1:
		p.where()
		p.room()
		p.uvarints("gen")
		flags := p.n(1)[0]
		p.say("flags", flags)
		p.u8s("class", "reason", "roomFrom")
		p.text("nonce")
		p.text("other")
		p.stubOrRest(flags)
	case 2:
		p.where()
		p.uvarints("gen")
		p.u8s("roomFrom")
		p.uvarints("first")
	case 3:
		p.where()
		p.room()
		p.uvarints("gen")
		flags := p.n(1)[0]
		p.say("flags", flags)
		p.u8s("reason")
		p.bool("torn")
		p.bool("tooLong")
		p.text("detail")
		p.uvarints("length")
		p.stubOrRest(flags)
	case 4:
		p.uvarints("source")
		p.room()
		p.uvarints("gen", "last")
	case 5:
		p.uvarints("source")
	case 6:
		p.uvarints("source", "rows")
		p.hex("sha256", 32)
		p.u8s("cut")
		p.room()
	case 7:
	case 8:
		p.text("rules")
	case 9:
		p.uvarints("source")
		p.room()
		p.u8s("code")
		p.uvarints("gen", "from", "to")
		p.varints("time")
		p.text("evidence")
	case 10:
		p.varints("time")
	case 11:
		p.uvarints("source")
		p.varints("time")
		p.uvarints("gen", "first", "last", "rows", "bytes")
		p.hex("sha256", 32)
		p.text("request")
	case 12:
		p.varints("grace", "warn")
	default:
		panic("no entry")
	}
}

func (p *onPage) meta(name string) {
	switch {
	case name == "format" || name == "fold":
		p.uvarints("version")
	case name == "rules":
		p.say("rules", string(p.n(len(p.b))))
	case name == "state":
		p.uvarints("log", "events", "sources", "ticks")
		p.varints("malformed", "authentic", "repaired", "unsigned", "invalid", "torn", "again", "bytes", "noBytes", "kept", "pruned")
		for range p.u() {
			p.uvarints("cut")
		}
	case strings.HasPrefix(name, "venue/"):
		p.text("alias")
		p.bool("hasClock")
		p.varints("clock", "heard", "grace", "warn")
		p.varints("offers", "bound", "contracts", "receipted", "chosen", "none", "proposed", "accepted", "locked", "claimed", "refunded", "cancelled")
		for _, by := range []struct {
			name string
			n    int
		}{{"outlook", 10}, {"binding", 3}, {"evidence", 4}} {
			for i := range by.n {
				p.varints(fmt.Sprintf("%s%d", by.name, i))
			}
		}
		p.varints("lost")
		for c := 1; c <= 9; c++ {
			p.varints(fmt.Sprintf("coverage%d", c))
		}
		p.bool("any")
		p.bool("unfilled")
		p.place("first")
		p.place("last")
	default:
		panic("no meta key")
	}
}

func (p *onPage) event() {
	kind := p.n(1)[0]
	p.say("event", kind)
	p.u8s("venue")
	p.hex("contract", 32)
	p.uvarints("revision", "cause", "previous")
	for _, side := range []string{"was.", "is."} {
		if kind == 1 && side == "was." {
			continue
		}
		switch kind {
		case 1, 2, 8:
			p.u8s(side + "status")
		}
		if kind == 1 || kind == 3 {
			p.u8s(side + "outlook")
		}
		if kind == 1 || kind == 4 {
			p.u8s(side + "binding")
			p.bool(side + "chosen")
		}
		if kind == 1 || kind == 5 {
			p.u8s(side+"evidence", side+"verdict")
		}
	}
	if kind == 1 || kind == 6 {
		p.uvarints("came", "went")
	}
	switch kind {
	case 9:
		p.varints("deadline", "clock")
	case 10:
		p.u8s("code")
	}
}

func (p *onPage) contract() {
	flags := p.n(1)[0]
	p.say("flags", flags)
	p.hex("offer", 32)
	p.place("accept")
	p.uvarints("revision", "event")
	if flags&2 == 0 {
		return
	}
	if flags&4 != 0 {
		p.place("opens")
		p.hex("statement", 16)
		p.point("payerKey")
		p.point("payeeKey")
		p.hex("payer", 8)
		p.hex("payee", 8)
	}
	p.u8s("status", "evidence", "settlement", "verdict", "binding", "other", "lock", "outlook")
	p.bool("warned")
	p.varints("expires", "+claimBy", "+refundAfter")
	p.uvarints("findings")
	for range p.u() {
		p.u8s("step")
		p.hex("record", 8)
	}
}

// decodeByPage reads a key and its value.
func decodeByPage(k, v []byte) (line string, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	key, val := &onPage{b: k}, &onPage{b: v}
	kind := key.n(1)[0]
	if !strings.ContainsRune("MLQE", rune(kind)) {
		key.u8s("v")
	}
	roomKey := func() { key.hex("room", 9) }
	switch kind {
	case 'M':
		name := string(key.n(len(key.b)))
		key.say("name", name)
		val.meta(name)
	case 'L':
		key.u64("pos")
		val.entry()
	case 'Q':
		key.u32("source")
		val.u8s("venue")
		val.text("path")
		val.text("room")
		val.text("nameRoom")
		val.varints("size", "time")
		val.uvarints("begun", "rows")
		val.text("state")
		val.hex("last", 8)
		val.u8s("flags", "cut")
		val.hex("sha256", 32)
		val.place("board")
	case 'q':
		key.hex("sha256", 32)
		key.hex("rooms", 8)
		val.u32("source")
	case 'z':
		key.u64("size")
	case 'I':
		key.hex("id", 16)
		val.place("at")
		val.varints("time")
		val.uvarints("source")
		val.hex("bytes", 8)
	case 'B':
		key.placeKey("first")
		for range val.u() {
			val.uvarints("+seq")
			val.varints("+pos")
			val.u8s("flags", "type")
			val.hex("sender", 8)
			val.hex("record", 8)
			val.uvarints("nonce", "size", "source")
			val.varints("time")
		}
	case 'G':
		key.u64("gen")
		key.u64("from")
		val.u64("to")
	case 'J':
		key.u64("gen")
		key.u64("from")
		key.u32("source")
		val.u64("to")
	case 'R':
		roomKey()
		val.room()
		val.uvarints("rows", "head", "gen", "first", "last")
		val.varints("time")
	case 'P':
		roomKey()
		key.u64("pos")
	case 'H':
		key.u64("gen")
		key.u64("seq")
		key.hex("contract", 32)
		val.placeKey("offer")
	case 'Z':
		key.say("list", string(key.n(1)))
		key.hex("half", 16)
	case 'F', 'V':
		key.hex("half", 16)
		key.u64("pos")
		if len(v) > 0 {
			val.place("at")
		}
	case 'O':
		key.hex("offer", 32)
		val.place("at")
		val.varints("expires")
		val.uvarints("listed")
		if val.bool("bound") {
			val.hex("contract", 32)
			val.place("boundAt")
		}
		val.uvarints("locks")
		val.bool("more")
		if len(val.b) > 0 {
			val.hex("one", 32)
		}
	case 'C':
		key.hex("contract", 32)
		val.contract()
	case 'A':
		key.hex("half", 16)
		key.placeKey("at")
		val.hex("offer", 32)
	case 'W', 'Y':
		key.hex("half", 16)
		key.hex("contract", 32)
	case 'S', 'K':
		if kind == 'S' {
			key.hex("statement", 16)
		} else {
			key.point("key")
		}
		if len(key.b) > 0 {
			key.hex("contract", 32)
			break
		}
		val.uvarints("count", "claimed")
		val.hex("first", 32)
	case 'X':
		key.u8s("status")
		key.u64("due")
		key.hex("contract", 32)
		val.place("accept")
	case 'D':
		key.hex("did", 8)
		key.hex("contract", 32)
		val.u8s("role")
	case 'E':
		key.u64("first")
		for len(val.b) > 0 {
			e := &onPage{b: val.n(int(val.u()))}
			e.event()
			if len(e.b) > 0 {
				panic("an event has bytes left over")
			}
			val.out = append(val.out, "{"+strings.Join(e.out, " ")+"}")
		}
	case 'U':
		roomKey()
		val.uvarints("bytes")
	case 'N':
		roomKey()
		key.u64("pos")
		val.u8s("code")
	case 'T':
		roomKey()
		val.u32("source")
	default:
		panic("no kind of key")
	}
	if len(key.b)+len(val.b) > 0 {
		panic(fmt.Sprintf("%d bytes of the key and %d of the value are left over", len(key.b), len(val.b)))
	}
	return fmt.Sprintf("%c %s: %s", kind, strings.Join(key.out, " "), strings.Join(val.out, " ")), nil
}

// formatFeed writes rooms into a store as a reader of files would.
type formatFeed struct {
	t *testing.T
	w *Writer
}

func (f *formatFeed) ok(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// source adds a source with the rows; cut tells that it ends too early.
func (f *formatFeed) source(venue, path string, room *testkit.Room, rows []*testkit.Row, cut export.Cut) {
	f.t.Helper()
	cur, err := f.w.Begin(Source{Venue: venue, Path: path, NameRoom: room.Name, Size: int64(len(rows)) * 100, TimeMs: testkit.Epoch})
	f.ok(err)
	f.ok(f.w.Room(cur.Number, room.Name, 1, room.Seq))
	var offset int64
	for n, r := range rows {
		raw := []byte(r.Raw)
		if r.Raw == "" {
			raw = testkit.AppendRow(nil, &r.Record, r.Micros)
		}
		row := Row{Raw: raw, RawSize: int64(len(raw)), Index: int64(n), Line: int64(n) + 1, Offset: offset, RoomFrom: export.RoomFromFile}
		offset += int64(len(raw)) + 1
		var scratch []byte
		_, row.Malformed, row.Detail = export.ParseRow(raw, export.ParseRules{}, &scratch, &row.Record)
		row.Record.Room, row.Record.Generation = room.Name, 1
		if row.Malformed == protocol.ReasonNone {
			f.judge(&row)
		} else {
			row.Torn = cut == export.CutLine
		}
		f.ok(f.w.Add(cur.Number, &row))
	}
	f.ok(f.w.End(cur.Number, int64(len(rows)), fmt.Sprintf("%064x", cur.Number), cut, room.Name))
}

// tail follows a deal room as a watcher does, until the lock in it is warned
// about.
func (f *formatFeed) tail(d *testkit.Deal, at int64) {
	f.t.Helper()
	f.ok(f.w.Set("file", Settings{GraceMs: 60_000, WarnMs: 600_000}))
	room := d.NewRoom()
	room.Post(d.Payer, at+100_000, d.Lock())
	for _, name := range []string{room.Name, "hall"} {
		cur, err := f.w.Follow(Source{Venue: "file", Path: "https://venue.example/r/" + name, Room: name, Size: -1, TimeMs: testkit.Epoch})
		f.ok(err)
		f.ok(f.w.Cover(cur.Number, Coverage{Code: LostOverwritten, Room: name, Generation: 1, From: 7, To: 8, TsMs: at, Evidence: "the first row is 9"}))
		if name == "hall" {
			f.ok(f.w.End(cur.Number, 0, strings.Repeat("0", 64), export.CutNone, name))
			continue
		}
		f.ok(f.w.Fetch(cur.Number, Fetch{TimeMs: at, Generation: 1, First: 1, Last: 1, Rows: 1, Bytes: 400, SHA256: [32]byte{7}, Request: "/r/" + name + "?since=0"}))
		row := Row{Raw: testkit.AppendRow(nil, &room.Rows[0].Record, 0), RoomFrom: export.RoomFromPage}
		row.Record = room.Rows[0].Record
		row.Record.Room, row.Record.Generation = name, 1
		f.judge(&row)
		f.ok(f.w.Add(cur.Number, &row))
	}
	f.ok(f.w.Tick())
	f.ok(f.w.Clock("file", d.Offer.RefundAfterMs-300_000))
	f.ok(f.w.Tick())
}

func (f *formatFeed) judge(row *Row) {
	rec := &row.Record
	row.ID, row.Size = rec.ID(), len(row.Raw)+1
	row.Key, row.IsDID = verify.DecodeDID(rec.From)
	row.Verify = verify.New().Check(rec)
	if row.Verify.Class == verify.Invalid {
		if bytes.HasPrefix(rec.Text, []byte("repair")) {
			row.Verify = verify.Result{Class: verify.Repaired, SignedNonce: "00" + string(rec.Nonce)}
		}
	}
	row.NotStrict = row.Verify.NotStrict
	if row.Verify.Class == verify.Authentic || row.Verify.Class == verify.Repaired {
		row.Row.Line = protocol.NewDecoder(fold.Rules{}.Decode()).Decode(rec.Text)
	}
}

// formatStore makes a store that has every kind of key and returns its content.
func formatStore(t *testing.T) map[string]string {
	fs := vfs.NewMem()
	s, err := Open("data", Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	w, err := s.NewWriter()
	if err != nil {
		t.Fatal(err)
	}
	f := &formatFeed{t, w}
	keys, rnd, at := testkit.NewKeys(1), testkit.NewRand(1, "format"), testkit.Epoch
	board := testkit.NewBoard()

	deal := testkit.NewDeal(rnd, keys.Party(0), keys.Party(1), testkit.Terms{})
	deal.Open(board, at)
	rival := deal.Rival(keys.Party(2))
	board.Post(rival.Acceptor.Signer, at+2000, rival.Accept)
	board.Post(deal.Acceptor.Signer, at+3000, deal.Accept)
	point := testkit.NewDeal(rnd, keys.Party(3), keys.Party(4), testkit.Terms{Lock: protocol.LockPoint})
	offer, accept := point.Open(board, at+4000)
	board.Skip(2)
	second := testkit.NewDeal(rnd, keys.Party(3), keys.Party(4), testkit.Terms{Lock: protocol.LockPoint, Role: protocol.RolePayee})
	second.Open(board, at+6000)
	orphan := testkit.NewDeal(rnd, keys.Party(5), keys.Party(6), testkit.Terms{})
	board.Post(orphan.Acceptor.Signer, at+8000, orphan.Accept)
	board.Post(deal.Payer, at+9000, deal.Lock()) // the wrong room
	board.Say("visitor", at+9100, "good morning")
	board.PostText(keys.Signer(7), at+9200, "a text").Text = []byte("another text")
	board.PostNonce(keys.Signer(7), at+9300, "007", "repair me").Nonce = []byte("7")
	board.Line(`{"seq":`)
	board.Replay(offer, at+9400)

	room := deal.NewRoom()
	room.Post(deal.Payer, at+60_000, deal.Lock())
	room.Post(deal.Payee, at+90_000, deal.Reveal())
	room.Post(deal.Payer, at+95_000, deal.Receipt(deal.Payer, protocol.Claimed))
	room.Line("not a row")
	other := rival.NewRoom()
	other.Post(rival.Payer, at+61_000, rival.Lock())
	hall := testkit.NewRoom("hall")
	hall.Post(deal.Payee, at+70_000, deal.Reveal())

	f.source("file", "board.jsonl", board, board.Rows[:4], export.CutNone)
	f.ok(w.Tick())
	f.source("file", "rest.jsonl", board, board.Rows[6:], export.CutLine)
	f.source("file", "room.jsonl", room, room.Rows, export.CutNone)
	f.source("file", "other.jsonl", other, other.Rows, export.CutNone)
	f.source("file", "hall.jsonl", hall, hall.Rows, export.CutNone)
	f.ok(w.Tick())
	f.source("file", "late.jsonl", board, []*testkit.Row{board.Rows[0], offer, accept, board.Rows[len(board.Rows)-1]}, export.CutNone)
	f.source("second", "board.jsonl", board, board.Rows[:2], export.CutNone)
	cur, err := w.Begin(Source{Venue: "second", Path: "https://venue.example/board", Room: protocol.BoardRoom, Size: -1, TimeMs: testkit.Epoch})
	f.ok(err)
	f.ok(w.State(cur.Number, []byte(`{"Room":""}`)))
	f.ok(w.Tick())
	f.tail(point, at)
	f.ok(errors.Join(w.Close(), s.Close()))

	content := map[string]string{}
	db, err := pebble.Open("data/db", &pebble.Options{FS: fs, ReadOnly: true})
	f.ok(err)
	it, err := db.NewIter(nil)
	f.ok(err)
	for ok := it.First(); ok; ok = it.Next() {
		content[string(it.Key())] = string(it.Value())
	}
	f.ok(errors.Join(it.Error(), it.Close(), db.Close()))
	for _, e := range []entry{
		{kind: entryRow, venue: 1, room: "hall", flags: rowNoBytes, class: verify.Unsigned, raw: noBytes([]byte("row"), &fold.Row{})},
	} {
		content[string(logKey(nil, uint64(len(content))+1000))] = string(e.append(nil))
	}
	return content
}

func TestFormat(t *testing.T) {
	content := formatStore(t)
	if !maps.Equal(content, formatStore(t)) {
		t.Error("the same input gives two stores")
	}
	kinds, entries := map[byte]bool{}, map[byte]bool{}
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(content)) {
		v := content[k]
		line, err := decodeByPage([]byte(k), []byte(v))
		if err != nil {
			t.Errorf("%x = %x: %v", k, v, err)
		}
		kinds[k[0]] = true
		if k[0] == keyLog {
			entries[v[0]] = true
		}
		fmt.Fprintf(&b, "# %s\n%x = %x\n", line, k, v)
	}
	for c := range constants(t, "keys.go", `(?m)^\tkey\w+ += '(.)'`) {
		if !kinds[c[0]] {
			t.Errorf("no key of kind %s", c)
		}
	}
	for k := byte(1); k <= 12; k++ {
		if !entries[k] {
			t.Errorf("no log entry of kind %d", k)
		}
	}
	slot := string(markSlot{mark{51, 24}, 4}.append(nil))
	if crc := crc32.ChecksumIEEE([]byte(slot[:32])); len(slot) != 36 || slot[:8] != "tclkmar1" || slot[32:] != string(binary.BigEndian.AppendUint32(nil, crc)) {
		t.Errorf("a slot of the mark is %x", slot)
	}
	fmt.Fprintf(&b, "# ACKNOWLEDGED, a slot: write=4 log=51 events=24\n%x\n", slot)
	const golden = "testdata/format.golden"
	if *updateFormat {
		if err := os.WriteFile(golden, []byte(b.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	got, all := strings.Split(b.String(), "\n"), strings.Split(string(want), "\n")
	for i := range max(len(got), len(all)) {
		if i >= len(got) || i >= len(all) || got[i] != all[i] {
			t.Fatalf("%s: line %d differs (-update rewrites it, and the format's version may have to rise):\n%s", golden, i+1, strings.Join(got[min(i, len(got)):min(i+1, len(got))], ""))
		}
	}
}

// constants are what a pattern finds in a file.
func constants(t *testing.T, path, pattern string) map[string]bool {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, m := range regexp.MustCompile(pattern).FindAllSubmatch(b, -1) {
		found[string(m[1])] = true
	}
	if len(found) == 0 {
		t.Fatalf("%s: nothing matches %s", path, pattern)
	}
	return found
}

// The page lists the kinds that the code has, and no others.
func TestFormatPage(t *testing.T) {
	const page = "../docs/format/store.md"
	for _, c := range []struct{ file, inCode, onPage string }{
		{"keys.go", `(?m)^\tkey\w+ += '(.)'`, "(?m)^\\| `(.)` \\|"},
		{"log.go", `(?m)^\tentry\w+ +entryKind = (\d+)`, `(?m)^\| (\d+) \|`},
	} {
		code, doc := constants(t, c.file, c.inCode), constants(t, page, c.onPage)
		for _, bits := range []string{"0"} { // the tables of flags begin with a bit
			delete(doc, bits)
		}
		if !maps.Equal(code, doc) {
			t.Errorf("%s has %v, the page %v", c.file, slices.Sorted(maps.Keys(code)), slices.Sorted(maps.Keys(doc)))
		}
	}
}
