package gen

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/verify"
)

// generate writes a corpus into a new folder.
func generate(t *testing.T, change func(*Options)) (string, *Manifest) {
	t.Helper()
	o := Defaults()
	o.Seed = 7
	o.Out = filepath.Join(t.TempDir(), "corpus")
	change(&o)
	if _, err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	m, err := ReadManifest(filepath.Join(o.Out, "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	return o.Out, m
}

// line is a line of a corpus as a strict reader sees it: ok where it is a row.
type line struct {
	bytes  []byte
	record protocol.Record
	ok     bool
}

// readCorpus reads every row file of a folder, by room as files or rows name it.
func readCorpus(t *testing.T, dir string) (lines []line) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		in := bufio.NewScanner(f)
		in.Buffer(nil, 1<<20)
		for in.Scan() {
			l := line{bytes: bytes.Clone(in.Bytes())}
			l.record, l.ok = readRow(l.bytes)
			if l.record.Room == "" {
				l.record.Room = strings.TrimSuffix(filepath.Base(name), ".jsonl")
			}
			lines = append(lines, l)
		}
		if err := errors.Join(in.Err(), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return lines
}

func readRow(b []byte) (r protocol.Record, ok bool) {
	var row struct {
		Seq   *uint64        `json:"seq"`
		Ts    *string        `json:"ts"`
		From  *string        `json:"from"`
		Text  *string        `json:"text"`
		Nonce jsontext.Value `json:"nonce"`
		Sig   *string        `json:"sig"`
		Room  string         `json:"room"`
	}
	if json.Unmarshal(b, &row) != nil || row.Seq == nil || row.Ts == nil || row.From == nil || row.Text == nil {
		return r, false
	}
	ms, ok := rowTime(*row.Ts)
	if !ok || row.Nonce.Kind() == '{' {
		return r, false
	}
	r = protocol.Record{Room: row.Room, Seq: *row.Seq, TsMs: ms, From: []byte(*row.From), Text: []byte(*row.Text)}
	if row.Nonce != nil {
		r.Nonce = bytes.Trim(row.Nonce, `"`)
	}
	if row.Sig != nil {
		r.Sig = []byte(*row.Sig)
	}
	return r, true
}

// rowTime reads a time of the generator's form and looks whether the day exists.
func rowTime(ts string) (int64, bool) {
	var y, mo, d, h, mi, s, us int
	if n, _ := fmt.Sscanf(ts, "%d-%d-%dT%d:%d:%d.%dZ", &y, &mo, &d, &h, &mi, &s, &us); n != 7 || mo == 2 && d > 29 {
		return 0, false
	}
	days := 365*(y-1970) + (y-1969)/4
	for m := 1; m < mo; m++ {
		days += [...]int{0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30}[m]
	}
	if y%4 == 0 && mo > 2 {
		days++
	}
	return (int64(days+d-1)*24*3600+int64(h*3600+mi*60+s))*1000 + int64(us/1000), true
}

// classify counts the lines by what verify makes of their rows.
func classify(t *testing.T, lines []line) (c RowCounts, reasons map[protocol.Reason]int64) {
	t.Helper()
	var records []protocol.Record
	seen := map[protocol.RecordID]bool{}
	for _, l := range lines {
		switch {
		case l.ok:
			records = append(records, l.record)
			id := l.record.ID()
			if seen[id] {
				c.Duplicate++
			}
			seen[id] = true
		case bytes.HasPrefix(l.bytes, []byte(`{"seq":`)) && !bytes.HasSuffix(l.bytes, []byte("}")) && utf8.Valid(l.bytes):
			c.Torn++
		default:
			c.Malformed++
		}
	}
	v := verify.New()
	results := make([]verify.Result, len(records))
	v.CheckBatch(records, results)
	reasons = map[protocol.Reason]int64{}
	budget := verify.NewBudget(1 << 20)
	for i, res := range results {
		switch res.Class {
		case verify.Authentic:
			c.Authentic++
		case verify.Unsigned:
			c.Unsigned++
		case verify.Invalid:
			if _, ok, _ := v.Repair(&records[i], budget); ok {
				c.Repaired++
				continue
			}
			c.Invalid++
			reasons[res.Reason]++
		}
	}
	return c, reasons
}

func TestRowsAreWhatTheManifestSays(t *testing.T) {
	dir, m := generate(t, func(o *Options) { o.Contracts, o.Noise = 500, AllNoise() })
	lines := readCorpus(t, dir)
	got, reasons := classify(t, lines)
	if got != m.Rows {
		t.Errorf("rows: verify finds %+v, the manifest says %+v", got, m.Rows)
	}
	if int64(len(lines)) != m.Stats.Rows {
		t.Errorf("%d lines, the manifest says %d", len(lines), m.Stats.Rows)
	}
	for _, r := range []protocol.Reason{protocol.NonceForm, protocol.SignatureForm, protocol.SenderNotDID, protocol.SignatureInvalid} {
		if reasons[r] == 0 {
			t.Errorf("no row is refused as %v", r)
		}
	}
	for i, k := range Kinds() {
		if m.Noise[k.Name] == 0 {
			t.Errorf("all noise, and nothing of kind %d, %s", i, k.Name)
		}
	}
	for _, s := range []protocol.Status{protocol.Proposed, protocol.Accepted, protocol.Locked, protocol.Claimed, protocol.Refunded, protocol.Cancelled} {
		if m.Statuses[s.String()] == 0 {
			t.Errorf("no contract is meant to end %v", s)
		}
	}
	for _, p := range plots {
		if m.Stories[p.name] == 0 {
			t.Errorf("the story %s is never told", p.name)
		}
	}
}

// Without noise every row is signed, canonical and the next of its room, and
// every id derives.
func TestWithoutNoiseEverythingIsInOrder(t *testing.T) {
	shape := regexp.MustCompile(`^\{"seq":[0-9]+,"ts":"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z",` +
		`"from":"did:key:z6Mk[1-9A-HJ-NP-Za-km-z]{44}","text":"tclk1 \{.*\}","nonce":[0-9]+,"sig":"[A-Za-z0-9_-]{86}"\}$`)
	dir, m := generate(t, func(o *Options) { o.Contracts, o.Noise = 300, Noise{} })
	lines := readCorpus(t, dir)
	if got, _ := classify(t, lines); got != m.Rows || got.Authentic != int64(len(lines)) {
		t.Errorf("of %d lines verify finds %+v, the manifest says %+v", len(lines), got, m.Rows)
	}
	contracts := map[string]Contract{}
	for _, c := range m.Contracts {
		contracts[c.Contract] = c
	}
	offers := map[protocol.ID]*protocol.Offer{}
	accepts := map[string]bool{}
	lastSeq, lastMs := map[string]uint64{}, map[string]int64{}
	nonces := map[string]string{}
	board, deals := 0, 0
	// The board first: its name sorts behind those of the deal rooms.
	slices.SortStableFunc(lines, func(a, b line) int {
		return strings.Compare(b.record.Room, a.record.Room)
	})
	for _, l := range lines {
		r := l.record
		if !shape.Match(l.bytes) {
			t.Fatalf("not the venue's row shape: %s", l.bytes)
		}
		if r.Seq != lastSeq[r.Room]+1 || r.TsMs < lastMs[r.Room] {
			t.Errorf("%s seq %d does not follow seq %d", r.Room, r.Seq, lastSeq[r.Room])
		}
		lastSeq[r.Room], lastMs[r.Room] = r.Seq, r.TsMs
		who := r.Room + string(r.From)
		if last := nonces[who]; len(last) > len(r.Nonce) || len(last) == len(r.Nonce) && last >= string(r.Nonce) {
			t.Errorf("%s seq %d: nonce %s after %s", r.Room, r.Seq, r.Nonce, last)
		}
		nonces[who] = string(r.Nonce)
		d := protocol.Decode(string(r.Text), protocol.DecodeRules{})
		if d.Reason != protocol.ReasonNone || !d.Canonical || d.Frame.Sender() != string(r.From) {
			t.Fatalf("%s seq %d: %v %s", r.Room, r.Seq, d.Reason, d.Detail)
		}
		if r.Room == protocol.BoardRoom {
			board++
		} else {
			deals++
		}
		switch f := d.Frame.(type) {
		case *protocol.Offer:
			offers[f.ID] = f
		case *protocol.Accept:
			o := offers[f.Ref]
			if o == nil || protocol.ContractID(o, f) != f.Contract {
				t.Errorf("seq %d: the contract id does not derive", r.Seq)
			}
			accepts[f.Contract.String()] = true
			if c := contracts[f.Contract.String()]; c.Room != protocol.DealRoom(f.Contract) || c.Offer != f.Ref.String() {
				t.Errorf("seq %d: the manifest says of this contract %+v", r.Seq, c)
			}
		}
	}
	if len(accepts) != len(m.Contracts) || m.Stats.Contracts != int64(len(accepts)) || m.Stats.Contracts < 300 {
		t.Errorf("%d accepts, %d contracts listed, %d counted", len(accepts), len(m.Contracts), m.Stats.Contracts)
	}
	if m.Stats.BoardRows != int64(board) || m.Stats.DealRows != int64(deals) || m.Stats.Offers != int64(len(offers)) {
		t.Errorf("counts %+v; there are %d, %d and %d offers", m.Stats, board, deals, len(offers))
	}
	for _, c := range m.Contracts {
		if c.Evidence != "complete" {
			t.Errorf("%s (%s): evidence %q without any noise", c.Contract, c.Story, c.Evidence)
		}
		if _, err := os.Stat(filepath.Join(dir, c.Room+".jsonl")); err != nil {
			t.Errorf("the room of a contract (%s) has no file: %v", c.Story, err)
		}
	}
}

// digests hashes every file of a folder.
func digests(t *testing.T, dir string) map[string][32]byte {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][32]byte{}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = sha256.Sum256(b)
	}
	return all
}

func TestSameOptionsSameBytes(t *testing.T) {
	was := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(was)
	some := func(seed uint64) func(*Options) {
		return func(o *Options) { o.Seed, o.Contracts, o.Noise = seed, 60, AllNoise() }
	}
	one, _ := generate(t, some(1))
	runtime.GOMAXPROCS(4)
	four, _ := generate(t, some(1))
	other, _ := generate(t, some(2))
	a, b, c := digests(t, one), digests(t, four), digests(t, other)
	if !maps.Equal(a, b) {
		t.Error("the bytes depend on the number of cores")
	}
	if a["tclk-offers.jsonl"] == c["tclk-offers.jsonl"] {
		t.Error("another seed gave the same board")
	}
}

func TestLayouts(t *testing.T) {
	small := func(l Layout, single, rooms bool) func(*Options) {
		return func(o *Options) {
			o.Contracts, o.Noise, o.Layout, o.Single, o.DealRooms = 40, Noise{}, l, single, rooms
		}
	}
	for _, tc := range []struct {
		name   string
		change func(*Options)
		files  []string // beside manifest.json; nil: the board and a file a room
	}{
		{"per room", small(LayoutAuto, false, true), nil},
		{"one file", small(OneFile, false, true), []string{"deals.jsonl", "tclk-offers.jsonl"}},
		{"single", small(LayoutAuto, true, true), []string{"all.jsonl"}},
		{"board only", small(LayoutAuto, false, false), []string{"tclk-offers.jsonl"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir, m := generate(t, tc.change)
			names := slices.Sorted(maps.Keys(digests(t, dir)))
			names = slices.DeleteFunc(names, func(n string) bool { return n == "manifest.json" })
			if tc.files == nil {
				if len(names) != len(m.Contracts)+1 {
					t.Errorf("%d files for %d contracts", len(names), len(m.Contracts))
				}
			} else if !slices.Equal(names, tc.files) {
				t.Errorf("files %v, want %v", names, tc.files)
			}
			if m.Stats.Files != int64(len(names)) {
				t.Errorf("%d files are counted, %d are there", m.Stats.Files, len(names))
			}
			lines := readCorpus(t, dir)
			if got, _ := classify(t, lines); got.Authentic != m.Stats.Rows {
				t.Errorf("in their rooms verify finds %+v of %d rows", got, m.Stats.Rows)
			}
			for _, c := range m.Contracts {
				want := map[bool]string{true: "complete", false: "incomplete"}[tc.files == nil]
				if c.Story == "accepted-lapsed" && c.Evidence != want && tc.name != "one file" && tc.name != "single" {
					t.Errorf("an accepted contract has evidence %q, want %q", c.Evidence, want)
				}
				if tc.name == "board only" && (c.Status == "claimed" || c.Status == "locked") {
					t.Errorf("a contract is meant to be %s without its deal room in sight", c.Status)
				}
			}
		})
	}
}

func TestBadSignatures(t *testing.T) {
	dir, m := generate(t, func(o *Options) { o.Contracts, o.Noise, o.BadSignatures = 60, AllNoise(), true })
	got, reasons := classify(t, readCorpus(t, dir))
	if got != m.Rows || got.Authentic+got.Repaired != 0 {
		t.Errorf("rows %+v, the manifest says %+v", got, m.Rows)
	}
	if reasons[protocol.SignatureInvalid] != got.Invalid {
		t.Errorf("%d of %d signatures do not even decode", got.Invalid-reasons[protocol.SignatureInvalid], got.Invalid)
	}
}

func TestFloods(t *testing.T) {
	dir, m := generate(t, func(o *Options) {
		o.Contracts, o.Noise, o.FloodAccepts, o.FloodRows = 1, Noise{}, 300, 3000
	})
	accepts, rows := map[protocol.ID]int{}, map[string]int{}
	for _, l := range readCorpus(t, dir) {
		rows[l.record.Room]++
		d := protocol.Decode(string(l.record.Text), protocol.DecodeRules{})
		if a, ok := d.Frame.(*protocol.Accept); ok {
			accepts[a.Ref]++
		}
	}
	delete(rows, protocol.BoardRoom)
	if n := slices.Max(slices.Collect(maps.Values(accepts))); n != 300 {
		t.Errorf("the most accepts to one offer are %d", n)
	}
	if n := slices.Max(slices.Collect(maps.Values(rows))); n != 3001 { // and the lock
		t.Errorf("the most rows in one deal room are %d", n)
	}
	if m.Stats.Contracts < 301 {
		t.Errorf("%d contracts are counted", m.Stats.Contracts)
	}
}

// What waits to be written depends on how many stories overlap, not on how many
// rows were written before.
func TestPlanningIsBounded(t *testing.T) {
	most := func(rows int64) (waiting, rooms int) {
		o := Defaults()
		o.Rows, o.Layout, o.Noise = rows, OneFile, LiveNoise()
		p := newPlanner(o)
		open := map[*room]bool{}
		var written int64
		p.run(func(e *entry) {
			written++
			waiting = max(waiting, len(p.queue.heap))
			if !e.room.board {
				open[e.room] = true
				if e.last {
					delete(open, e.room)
				}
				rooms = max(rooms, len(open))
			}
		}, func() bool { return false })
		if written < rows || len(open) > 0 {
			t.Errorf("of %d rows %d were written, and %d rooms never ended", rows, written, len(open))
		}
		return waiting, rooms
	}
	waiting, rooms := most(30_000)
	waitingLater, roomsLater := most(120_000)
	if waitingLater > waiting*5/4 || roomsLater > rooms*5/4 {
		t.Errorf("waiting rows grew from %d to %d, rooms from %d to %d", waiting, waitingLater, rooms, roomsLater)
	}
}

func TestRowsOption(t *testing.T) {
	_, m := generate(t, func(o *Options) { o.Rows, o.DealRooms, o.Noise = 2_000, false, Noise{} })
	if n := m.Stats.BoardRows; n < 2_000 || n > 2_020 {
		t.Errorf("%d board rows were written of 2000 asked for", n)
	}
}

func TestKeysOption(t *testing.T) {
	dir, _ := generate(t, func(o *Options) { o.Contracts, o.Keys, o.Noise = 80, 3, Noise{} })
	signers := map[string]bool{}
	for _, l := range readCorpus(t, dir) {
		signers[string(l.record.From)] = true
	}
	if len(signers) != 3 {
		t.Errorf("%d signers of 3", len(signers))
	}
}

func TestRunRefuses(t *testing.T) {
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "x"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Options){
		"no folder":     func(o *Options) { o.Out = "" },
		"a full folder": func(o *Options) { o.Out = full },
		"a file":        func(o *Options) { o.Out = filepath.Join(full, "x") },
		"two keys":      func(o *Options) { o.Keys = 2 },
		"no time":       func(o *Options) { o.StartMs = 0 },
		"far future":    func(o *Options) { o.StartMs = maxStartMs + 1 },
		"minus one":     func(o *Options) { o.Contracts = -1 },
		"bad layout":    func(o *Options) { o.Layout = 3 },
	} {
		o := Defaults()
		o.Out = filepath.Join(t.TempDir(), "new")
		change(&o)
		if _, err := Run(t.Context(), o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestRunStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	o := Defaults()
	o.Rows, o.Out = 1_000_000_000, filepath.Join(t.TempDir(), "new")
	if _, err := Run(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(filepath.Join(o.Out, "manifest.json")); err == nil {
		t.Error("a run that was stopped left a manifest")
	}
}

func TestParseNoise(t *testing.T) {
	for in, want := range map[string]string{
		"":                              "none",
		"none":                          "none",
		"all,none":                      "none",
		" gaps=0.5 , chat=2":            "chat=2,gaps=0.5",
		"torn":                          "torn=0.04",
		"gaps=1,gaps=0":                 "none",
		"none,forged=0.000001":          "forged=0.000001",
		"strangers=1000":                "strangers=1000",
		"live,none,shared-secrets=0.25": "shared-secrets=0.25",
	} {
		n, err := ParseNoise(in)
		if err != nil || n.String() != want {
			t.Errorf("ParseNoise(%q) is %s, %v; want %s", in, n, err, want)
		}
	}
	for _, in := range []string{"gap", "gaps=", "gaps=-1", "gaps=1001", "gaps=NaN", "gaps=x", ",", "all=1", "live,"} {
		if n, err := ParseNoise(in); err == nil {
			t.Errorf("ParseNoise(%q) is %s", in, n)
		}
	}
	for _, n := range []Noise{LiveNoise(), AllNoise()} {
		if back, err := ParseNoise(n.String()); err != nil || back != n {
			t.Errorf("%s reads back as %s, %v", n, back, err)
		}
	}
	names := map[string]bool{}
	for _, k := range Kinds() {
		if names[k.Name] || k.What == "" {
			t.Errorf("kind %q is listed twice or says nothing", k.Name)
		}
		names[k.Name] = true
	}
}

func TestParseLayout(t *testing.T) {
	for _, l := range []Layout{LayoutAuto, PerRoom, OneFile} {
		if back, err := ParseLayout(l.String()); err != nil || back != l {
			t.Errorf("%v reads back as %v, %v", l, back, err)
		}
	}
	if _, err := ParseLayout("folders"); err == nil {
		t.Error("no error for an unknown layout")
	}
}

// Every broken frame is refused or another's, every respelling decodes to the
// same frame, and every dialect is not tclk/1.
func TestHostileLinesAreWhatTheySay(t *testing.T) {
	p := newPlanner(Defaults())
	p.emit = func(*entry) {}
	s := &story{p: p, r: p.tale.Fork(1), t0: p.o.StartMs, now: p.o.StartMs}
	claimed(s)
	by := s.stranger()
	reasons := map[protocol.Reason]bool{}
	for v := range brokenFrameCount {
		l := s.brokenFrame(by, v)
		d := protocol.Decode(l, protocol.DecodeRules{})
		reasons[d.Reason] = true
		if d.Reason == protocol.ReasonNone && d.Frame.Sender() == by.DID || d.Reason.Ignored() {
			t.Errorf("broken frame %d is sound: %.200s", v, l)
		}
	}
	for r := protocol.LineTooLong; r <= protocol.OfferIDMismatch; r++ {
		if !reasons[r] {
			t.Errorf("no broken frame is refused as %v", r)
		}
	}
	for _, f := range []protocol.Frame{s.d.Offer, s.d.Accept, s.d.Lock(), s.d.Reveal(), s.d.Heartbeat(s.payer.Signer, "")} {
		l := protocol.CanonicalLine(f)
		for v := range 6 {
			d := protocol.Decode(respell(l, v), protocol.DecodeRules{})
			if d.Reason != protocol.ReasonNone || d.Canonical || protocol.CanonicalLine(d.Frame) != l {
				t.Errorf("%v respelt in way %d: %v %s", f.Type(), v, d.Reason, d.Detail)
			}
		}
	}
	for i, l := range dialects {
		l = strings.NewReplacer("<DID>", by.DID, "<OFFER>", s.d.Offer.ID.String(), "<32>", "0x"+strings.Repeat("ab", 32), "<8>", strings.Repeat("ab", 8)).Replace(l)
		if d := protocol.Decode(l, protocol.DecodeRules{}); d.Reason == protocol.ReasonNone {
			t.Errorf("dialect %d is tclk/1: %s", i, l)
		}
	}
	for _, l := range brokenRows {
		if _, ok := readRow([]byte(fillIn(l, 5, p.o.StartMs))); ok {
			t.Errorf("a broken row is a row: %s", l)
		}
	}
}

// BenchmarkRun writes a board; nearly all of the time goes into signing.
func BenchmarkRun(b *testing.B) {
	o := Defaults()
	o.Rows, o.DealRooms, o.Noise = 20_000, false, Noise{}
	var rows int64
	for i := range b.N {
		o.Out = filepath.Join(b.TempDir(), fmt.Sprint(i))
		stats, err := Run(b.Context(), o)
		if err != nil {
			b.Fatal(err)
		}
		rows += stats.Rows
	}
	b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
}

func TestWeakKeyIsNeverStrict(t *testing.T) {
	v := verify.New()
	for i := range 40 {
		r := protocol.Record{Room: protocol.BoardRoom, Text: fmt.Appendf(nil, "text %d", i), Nonce: []byte("1788600000000000")}
		sealWeak(&r, weakSigner)
		if res := v.Check(&r); res.Class != verify.Authentic || verify.Strict(&r) {
			t.Fatalf("text %d: %v, strict %v", i, res, verify.Strict(&r))
		}
	}
}
