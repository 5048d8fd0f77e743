package verify

import (
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tclk-audit/tclk-audit/protocol"
)

// testKey returns the same private key for the same name, every time.
func testKey(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(name))
	return ed25519.NewKeyFromSeed(seed[:])
}

// signedRows returns n rows of a board, of about 500 bytes each, by that many
// different keys in turn.
func signedRows(n, keys int) []protocol.Record {
	text := "tclk1 " + strings.Repeat(`{"a board row":"of the usual length"}`, 13)
	privs := make([]ed25519.PrivateKey, keys)
	for i := range privs {
		privs[i] = testKey(fmt.Sprint("bench", i))
	}
	rows := make([]protocol.Record, n)
	for i := range rows {
		rows[i] = protocol.Record{Room: protocol.BoardRoom, Nonce: fmt.Append(nil, 1788343200000+int64(i)), Text: []byte(text)}
		Sign(privs[i*7919%keys], &rows[i])
	}
	return rows
}

// spoil makes a row fail in the most expensive way: nothing shows before the
// curve arithmetic.
func spoil(r *protocol.Record) {
	r.Text = append([]byte("not "), r.Text...)
}

// against measures judge beside base, in turns, so that a slow moment of the
// machine falls on both. It reports the median over all turns of how many times
// as fast judge is, and the median times. Both handle the given number of rows.
func against(b *testing.B, baseRows int, base func(), rows int, judge func()) {
	timed := func(f func(), rows int) float64 {
		start := time.Now()
		f()
		return float64(time.Since(start).Nanoseconds()) / float64(rows)
	}
	base()
	judge()
	var ratios, bases, judged []float64
	for b.Loop() {
		before := timed(base, baseRows)
		each := timed(judge, rows)
		after := timed(base, baseRows)
		ratios = append(ratios, (before+after)/2/each)
		bases = append(bases, (before+after)/2)
		judged = append(judged, each)
	}
	for _, m := range [][]float64{ratios, bases, judged} {
		slices.Sort(m)
	}
	b.ReportMetric(ratios[len(ratios)/2], "x")
	b.ReportMetric(bases[len(bases)/2], "base-ns/row")
	b.ReportMetric(judged[len(judged)/2], "ns/row")
	b.ReportMetric(0, "ns/op")
}

// strictly returns a baseline of 64 checks by crypto/ed25519.
func strictly(rows []protocol.Record) (int, func()) {
	sample := rows[:min(64, len(rows))]
	return len(sample), func() {
		for i := range sample {
			Strict(&sample[i])
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	for _, state := range []string{"known-key", "new-key"} {
		b.Run(state, func(b *testing.B) {
			rows := signedRows(64, 64)
			v := New()
			n, base := strictly(rows)
			against(b, n, base, len(rows), func() {
				if state == "new-key" {
					v = New()
				}
				for i := range rows {
					v.Check(&rows[i])
				}
			})
		})
	}
}

// BenchmarkBatch: known keys unless it says new.
func BenchmarkBatch(b *testing.B) {
	for _, c := range []struct {
		rows, keys int
		fresh      bool
	}{
		{2, 2, false}, {3, 3, false}, {4, 4, false}, {8, 8, false}, {16, 16, false}, {64, 64, false}, {256, 256, false},
		{1024, 300, false}, {1024, 1024, false}, {1024, 1024, true},
		{2048, 300, false}, {4096, 300, false}, {4096, 4096, false}, {4096, 4096, true},
	} {
		name := fmt.Sprintf("rows=%d/keys=%d", c.rows, c.keys)
		if c.fresh {
			name += "/new"
		}
		b.Run(name, func(b *testing.B) {
			rows := signedRows(c.rows, c.keys)
			out := make([]Result, c.rows)
			v := New()
			n, base := strictly(rows)
			against(b, n, base, c.rows, func() {
				if c.fresh {
					v.keys = NewKeys(alone{})
				}
				v.pace.size = c.rows
				v.CheckBatch(rows, out)
			})
		})
	}
}

// BenchmarkFewRows compares small batches with single checks: leastBatch is
// the number of rows from which x is above 1.
func BenchmarkFewRows(b *testing.B) {
	for n := 2; n <= 8; n++ {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			rows := signedRows(n, n)
			v := New()
			eqs := make([]equation, n)
			for i := range rows {
				var sig [64]byte
				k, _ := v.forms(&rows[i], &sig)
				eqs[i].set(k, &sig, v.covered(&rows[i], k, &sig, rows[i].Nonce))
			}
			against(b, n*16, func() {
				for range 16 {
					for i := range eqs {
						eqs[i].holds()
					}
				}
			}, n*16, func() {
				for range 16 {
					v.engine.allHold(eqs)
				}
			})
		})
	}
}

// BenchmarkBadRows compares CheckBatch on streams with bad rows with single
// checks of the same rows.
func BenchmarkBadRows(b *testing.B) {
	const n = 16384
	rows := signedRows(n, 300)
	for _, one := range []int{1, 2, 16, 64, 256, 1024, n} {
		b.Run(fmt.Sprintf("1-in-%d", one), func(b *testing.B) {
			bad := slices.Clone(rows)
			for i := range bad {
				if i*6151%n%one == 0 {
					spoil(&bad[i])
				}
			}
			out := make([]Result, n)
			single, v := New(), New()
			against(b, n, func() {
				for i := range bad {
					single.Check(&bad[i])
				}
			}, n, func() {
				v.pace = newPace()
				for at := 0; at < n; at += 4096 {
					v.CheckBatch(bad[at:at+4096], out[at:at+4096])
				}
			})
		})
	}
}

// BenchmarkRepair reports the cost of one candidate nonce beside that of one
// single check.
func BenchmarkRepair(b *testing.B) {
	for _, c := range []struct {
		nonce string
		tried int
	}{{"1788343200123", 6}, {"7", 18}, {"1789061374248692500", 254}} {
		b.Run(c.nonce, func(b *testing.B) {
			rows := signedRows(32, 32)
			for i := range rows {
				rows[i].Nonce = []byte(c.nonce)
			}
			v := New()
			next := 0
			against(b, len(rows), func() {
				for i := range rows {
					v.Check(&rows[i])
				}
			}, c.tried, func() {
				v.Repair(&rows[next%len(rows)], NewBudget(c.tried))
				next++
			})
		})
	}
}
