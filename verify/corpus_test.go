package verify

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tclk-audit/tclk-audit/protocol"
)

// readRows reads an export as leniently as will do here: nonces keep the text
// they are written with, lines that are no row are left out.
func readRows(t *testing.T, path, room string) []protocol.Record {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var rows []protocol.Record
	for line := range bytes.Lines(data) {
		var m struct {
			Room, From, Text, Sig *string
			Seq, Nonce            any
		}
		d := json.NewDecoder(bytes.NewReader(line))
		d.UseNumber()
		if d.Decode(&m) != nil || m.From == nil || m.Text == nil {
			continue
		}
		r := protocol.Record{Room: room, From: []byte(*m.From), Text: []byte(*m.Text)}
		if m.Room != nil {
			r.Room = *m.Room
		}
		if n, ok := m.Seq.(json.Number); ok {
			seq, _ := n.Int64()
			r.Seq = uint64(seq)
		}
		switch n := m.Nonce.(type) {
		case string:
			r.Nonce = []byte(n)
		case json.Number:
			r.Nonce = []byte(n.String())
		}
		if m.Sig != nil {
			r.Sig = []byte(*m.Sig)
		}
		rows = append(rows, r)
	}
	return rows
}

// What the reference implementation says of every row of its corpus whose
// place names it: the same reason, and the same rows that only ZIP-215 accepts.
func TestCorpus(t *testing.T) {
	reasons := map[string]protocol.Reason{
		"unsigned":         protocol.Unsigned,
		"bad-nonce":        protocol.NonceForm,
		"bad-sig-encoding": protocol.SignatureForm,
		"bad-did":          protocol.SenderNotDID,
		"bad-signature":    protocol.SignatureInvalid,
	}
	type step struct {
		Room, Code string
		Seq        uint64
	}
	type fold struct{ Steps []step }
	dirs, err := filepath.Glob("../testdata/conformance/corpus/*/expected.json")
	if err != nil || len(dirs) < 60 {
		t.Fatalf("%d folders of the corpus in sight: %v", len(dirs), err)
	}
	counts := map[protocol.Reason]int{}
	lax := 0
	v := New()
	for _, expected := range dirs {
		dir := filepath.Dir(expected)
		data, err := os.ReadFile(expected)
		if err != nil {
			t.Fatal(err)
		}
		var e struct {
			Contracts  []fold
			BoardFold  fold
			AllFold    fold
			Zip215Only []step
		}
		if err := json.Unmarshal(data, &e); err != nil {
			t.Fatal(err)
		}
		type place struct {
			room string
			seq  uint64
		}
		said := map[place]protocol.Reason{}
		onlyZip215 := map[place]bool{}
		for _, f := range append(e.Contracts, e.BoardFold, e.AllFold) {
			for _, s := range f.Steps {
				// Another code is about a row that passed this check.
				said[place{s.Room, s.Seq}] = reasons[s.Code]
			}
		}
		for _, s := range e.Zip215Only {
			onlyZip215[place{s.Room, s.Seq}] = true
		}
		files, _ := filepath.Glob(filepath.Join(dir, "*.jsonl"))
		for _, file := range files {
			rows := readRows(t, file, strings.TrimSuffix(filepath.Base(file), ".jsonl"))
			seen := map[uint64]int{}
			for i := range rows {
				seen[rows[i].Seq]++
			}
			out := make([]Result, len(rows))
			v.CheckBatch(rows, out)
			for i := range rows {
				at := place{rows[i].Room, rows[i].Seq}
				want, told := said[at]
				if !told || seen[rows[i].Seq] > 1 {
					continue
				}
				if out[i].Reason != want {
					t.Errorf("%s seq %d: %q, the reference says %q", file, at.seq, out[i].Reason, want)
				}
				counts[want]++
				if out[i].Class == Authentic {
					if strict := Strict(&rows[i]); strict == onlyZip215[at] {
						t.Errorf("%s seq %d: Strict = %v", file, at.seq, strict)
					} else if !strict {
						lax++
					}
				}
			}
		}
	}
	for _, r := range []protocol.Reason{protocol.ReasonNone, protocol.Unsigned, protocol.NonceForm, protocol.SignatureForm, protocol.SignatureInvalid} {
		if counts[r] == 0 {
			t.Errorf("the corpus holds no row for the reason %q", r)
		}
	}
	if lax == 0 {
		t.Error("the corpus holds no row that only ZIP-215 accepts")
	}
	t.Logf("rows by reason: %v; accepted by ZIP-215 alone: %d", counts, lax)
}

// Single records as the reference's own tests hold them.
func TestRecords(t *testing.T) {
	data, err := os.ReadFile("../testdata/conformance/extras/records.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	reasons := map[string]protocol.Reason{
		"":                                protocol.ReasonNone,
		"record has an invalid room name": protocol.RoomName,
		"record is unsigned":              protocol.Unsigned,
	}
	n := 0
	for line := range bytes.Lines(data) {
		var c struct {
			Name, Reason string
			Record       json.RawMessage
		}
		if err := json.Unmarshal(line, &c); err != nil {
			t.Fatal(err)
		}
		want, ours := reasons[c.Reason]
		var m struct {
			Room, Sender, Line string
			Nonce, Signature   *string
		}
		if !ours || json.Unmarshal(c.Record, &m) != nil {
			continue // a fault that has no form in a Record
		}
		r := protocol.Record{Room: m.Room, From: []byte(m.Sender), Text: []byte(m.Line)}
		if m.Nonce != nil {
			r.Nonce = []byte(*m.Nonce)
		}
		if m.Signature != nil {
			r.Sig = []byte(*m.Signature)
		}
		if got := New().Check(&r); got.Reason != want {
			t.Errorf("%s: %q, want %q", c.Name, got.Reason, want)
		}
		n++
	}
	if n < 8 {
		t.Errorf("only %d records could be tried", n)
	}
}

// Two public cases: zeros lost from a nonce, and a reveal signed for the board.
func TestCases(t *testing.T) {
	v := New()
	failing := func(dir string) (rows []protocol.Record, rooms []string) {
		files, err := filepath.Glob(filepath.Join("../testdata/cases", dir, "*.jsonl"))
		if err != nil || len(files) == 0 {
			t.Fatalf("case %s is not in sight: %v", dir, err)
		}
		for _, file := range files {
			room := strings.TrimSuffix(filepath.Base(file), ".jsonl")
			rooms = append(rooms, room)
			all := readRows(t, file, room)
			out := make([]Result, len(all))
			v.CheckBatch(all, out)
			for i := range all {
				if out[i].Class == Authentic {
					continue
				}
				if out[i] != verdict(false) {
					t.Errorf("%s seq %d: %+v", file, all[i].Seq, out[i])
				}
				rows = append(rows, all[i])
			}
		}
		return rows, rooms
	}
	rows, _ := failing("24-leading-zero-nonce")
	if len(rows) != 1 {
		t.Fatalf("24: %d rows fail, want 1", len(rows))
	}
	nonce, ok, _ := v.Repair(&rows[0], NewBudget(100))
	if want := "0" + string(rows[0].Nonce); !ok || !strings.HasSuffix(nonce, want) {
		t.Errorf("24: repaired to %q, %v", nonce, ok)
	}
	rows, rooms := failing("19-reveal-wrong-room-signature")
	if len(rows) != 1 {
		t.Fatalf("19: %d rows fail, want 1", len(rows))
	}
	if room, _ := v.OtherRoom(&rows[0], append(rooms, "lobby", protocol.BoardRoom), NewBudget(100)); room == "" {
		t.Error("19: no other room found")
	} else {
		t.Logf("19: signed for %s, stands in %s", room, rows[0].Room)
	}
}

// Rows of the live board, where a copy is in sight: every signed one holds, or
// does with the digits that a double dropped.
func TestRealRows(t *testing.T) {
	root := "../../shared/data/real"
	if _, err := os.Stat(root); errors.Is(err, fs.ErrNotExist) {
		t.Skip("no copy of the live rows here")
	}
	v := New()
	for _, c := range []struct {
		file, room                          string
		rows, authentic, repaired, unsigned int
	}{
		{"board-2026-09-05/tclk-offers.jsonl", protocol.BoardRoom, 71, 69, 2, 0},
		{"board-2026-09-10/tclk-offers.jsonl", protocol.BoardRoom, 30, -1, 0, -1},
		{"deal-0xc2e1c808/deal_0xc2e1c808.jsonl", "", 5, 5, 0, 0},
		{"rehearsal-swap/tclk-offers/rehearsal.jsonl", protocol.BoardRoom, 4, 4, 0, 0},
	} {
		rows := readRows(t, filepath.Join(root, c.file), c.room)
		out := make([]Result, len(rows))
		v.CheckBatch(rows, out)
		authentic, repaired, unsigned := 0, 0, 0
		for i := range rows {
			switch {
			case out[i].Class == Authentic:
				authentic++
				if !Strict(&rows[i]) {
					t.Errorf("%s seq %d: crypto/ed25519 refuses a row of the venue", c.file, rows[i].Seq)
				}
			case out[i].Class == Unsigned:
				unsigned++
			default:
				b := NewBudget(3000)
				if nonce, ok, _ := v.Repair(&rows[i], b); ok {
					repaired++
					t.Logf("%s seq %d: %s stands for %s (%d checks)", c.file, rows[i].Seq, rows[i].Nonce, nonce, 3000-b.Left())
				}
			}
		}
		got := fmt.Sprint(len(rows), authentic, repaired, unsigned)
		if c.authentic < 0 { // every signed one
			c.authentic, c.unsigned = len(rows)-unsigned, unsigned
		}
		if want := fmt.Sprint(c.rows, c.authentic, c.repaired, c.unsigned); got != want {
			t.Errorf("%s: rows, authentic, repaired, unsigned: %s, want %s", c.file, got, want)
		}
	}
}
