package export

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tclk-audit/tclk-audit/protocol"
)

// boardRow makes a row like those of the live board: an offer, 740 bytes.
func boardRow(n int) string {
	did := "did:key:z6MkwUAG1meLHXchUrh5KGcMnAy3DcaxcmDeD3gwuKjDvD2o"
	text := fmt.Sprintf(`tclk1 {\"amount\":\"124422757\",\"asset\":\"FLOP\",\"claimByMs\":1788346800000,\"expiresMs\":1788343800000,\"from\":\"%s\",\"id\":\"0x%064x\",\"lock\":\"hash\",\"nonce\":\"%016x\",\"rails\":[\"flop-htlc\",\"x402\"],\"refundAfterMs\":1788350400000,\"role\":\"payer\",\"type\":\"offer\"}`, did, n*7919, n)
	return fmt.Sprintf(`{"seq":%d,"ts":"2026-09-02T10:00:%02d.471972Z","from":"%s","text":"%s","nonce":%d,"sig":"%s"}`,
		n+1, n%60, did, text, 1788343200471000000+n, strings.Repeat("Q", 86))
}

func boardRows(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(boardRow(i))
		b.WriteByte('\n')
	}
	return b.String()
}

func BenchmarkParseRow(b *testing.B) {
	for name, row := range map[string]string{
		"offer": boardRow(1),
		"chat":  `{"seq":1,"ts":"2026-11-30T15:55:14.251240Z","from":"alice","text":"` + strings.Repeat("hello room ", 50) + `"}`,
		"room":  strings.TrimSuffix(boardRow(1), "}") + `,"room":"mb-p-tclk-0123456789abcdef","_from":"x"}`,
	} {
		b.Run(name, func(b *testing.B) {
			line := []byte(row)
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			var scratch []byte
			var rec protocol.Record
			for b.Loop() {
				scratch = scratch[:0]
				room, reason, _ := ParseRow(line, ParseRules{}, &scratch, &rec)
				if reason != protocol.ReasonNone {
					b.Fatal(reason)
				}
				rec.Room = room
			}
		})
	}
}

func BenchmarkParseTime(b *testing.B) {
	ts := []byte("2026-09-02T10:00:00.471972Z")
	for b.Loop() {
		if _, ok := ParseTime(ts, false); !ok {
			b.Fatal("refused")
		}
	}
}

func BenchmarkReader(b *testing.B) {
	const n = 20_000
	rows := boardRows(n)
	page := func(text string) string {
		return `{"room":"tclk-offers","count":20000,"first_seq":1,"last_seq":20000,"generation":1,"messages":[` +
			strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", ",") + "]}\n"
	}
	unordered := strings.ReplaceAll(strings.ReplaceAll(rows, `,"nonce"`, `,"x":1,"nonce"`), `{"seq"`, `{"z":0,"seq"`)
	for _, f := range []struct {
		name string
		text []byte
	}{
		{"jsonl", []byte(rows)},
		{"jsonl-other-order", []byte(unordered)},
		{"page", []byte(page(rows))},
		{"jsonl.gz", gz([]byte(rows))},
		{"jsonl.zst", zst([]byte(rows))},
	} {
		b.Run(f.name, func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "tclk-offers.jsonl")
			if err := os.WriteFile(path, f.text, 0o644); err != nil {
				b.Fatal(err)
			}
			inputs, _, err := Open([]string{path}, Options{})
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(rows)))
			b.ReportAllocs()
			var c Chunk
			for b.Loop() {
				r, err := inputs[0].Reader()
				if err != nil {
					b.Fatal(err)
				}
				count := 0
				for err = r.Next(&c); err == nil; err = r.Next(&c) {
					count += len(c.Rows)
				}
				if err != io.EOF || count != n {
					b.Fatal(count, err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/row")
		})
	}
}
