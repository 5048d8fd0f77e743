package verify_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/verify"
)

// looseRows are the corpus's rows that ZIP-215 accepts and crypto/ed25519
// refuses.
func looseRows(t *testing.T) []protocol.Record {
	t.Helper()
	var loose []protocol.Record
	for _, dir := range []string{"48-small-order-keys", "49-noncanonical-signatures"} {
		files, err := filepath.Glob("../testdata/conformance/corpus/" + dir + "/*.jsonl")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %d files", dir, err, len(files))
		}
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			room := strings.TrimSuffix(filepath.Base(file), ".jsonl")
			for _, line := range strings.Split(strings.TrimSpace(string(b)), "\n") {
				var row struct {
					From, Text, Sig string
					Nonce           json.Number
				}
				if json.Unmarshal([]byte(line), &row) != nil || row.Sig == "" {
					continue
				}
				r := protocol.Record{
					Room: room, From: []byte(row.From), Nonce: []byte(row.Nonce.String()), Sig: []byte(row.Sig), Text: []byte(row.Text),
				}
				sig, err := base64.RawURLEncoding.DecodeString(row.Sig)
				key, ok := verify.DecodeDID(r.From)
				if err != nil || !ok {
					continue
				}
				if verify.New().Check(&r).Class == verify.Authentic && !ed25519.Verify(key[:], r.AppendMessage(nil, r.Nonce), sig) {
					loose = append(loose, r)
				}
			}
		}
	}
	if len(loose) < 10 {
		t.Fatalf("only %d such rows in the corpus", len(loose))
	}
	return loose
}

func honest(n int) []protocol.Record {
	rows := make([]protocol.Record, n)
	for i := range rows {
		var seed [32]byte
		seed[0], seed[1] = byte(i%50), 7
		rows[i] = protocol.Record{Room: "tclk-offers", Nonce: fmt.Append(nil, 1000+i), Text: fmt.Appendf(nil, "row %d", i)}
		verify.Sign(ed25519.NewKeyFromSeed(seed[:]), &rows[i])
	}
	return rows
}

// A row that the venue's own rule refuses is told from its neighbours, alone
// and in a batch of any size, with good and with bad signatures around it.
func TestNotStrictRowsAreTold(t *testing.T) {
	for _, bad := range []bool{false, true} {
		for _, around := range []int{0, 3, 40, 600} {
			for k, loose := range looseRows(t) {
				if k%3 != 0 && around == 600 {
					continue
				}
				rows := honest(around)
				if bad && around > 2 {
					rows[1].Text = []byte("not what was signed")
				}
				at := around / 2
				rows = append(rows[:at:at], append([]protocol.Record{loose}, rows[at:]...)...)
				out := make([]verify.Result, len(rows))
				verify.New().CheckBatch(rows, out)
				for i := range rows {
					want := i == at
					if out[i].NotStrict != want {
						t.Fatalf("%d rows around, bad %v: row %d (%s) not strict %v, want %v", around, bad, i, out[i].Class, out[i].NotStrict, want)
					}
				}
				if r := verify.New().Check(&loose); !r.NotStrict {
					t.Fatalf("row %d alone: not strict is false", k)
				}
			}
		}
	}
}

// All of them together, too.
func TestManyNotStrictRows(t *testing.T) {
	loose := looseRows(t)
	rows := append(honest(300), loose...)
	out := make([]verify.Result, len(rows))
	verify.New().CheckBatch(rows, out)
	for i := range rows {
		if want := i >= 300; out[i].NotStrict != want {
			t.Errorf("row %d: not strict %v, want %v", i, out[i].NotStrict, want)
		}
	}
}
