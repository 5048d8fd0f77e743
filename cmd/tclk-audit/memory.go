package main

import (
	"runtime/debug"
	"runtime/metrics"
)

// heapSlack is how much garbage the heap may gather before it is collected, in
// bytes. What an audit keeps holds no pointers, so that collecting often is
// cheap, while the usual doubling would double its memory.
const heapSlack = 32 << 20

// heap keeps the collector's pace with the size of what an audit keeps.
type heap struct {
	sample  []metrics.Sample
	percent int
}

func newHeap() *heap {
	return &heap{sample: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}, percent: 100}
}

// pace is called as the work goes on.
func (h *heap) pace() {
	metrics.Read(h.sample)
	live := max(h.sample[0].Value.Uint64(), 1)
	p := int(min(100, max(8, 100*heapSlack/live)))
	if p != h.percent && (p < h.percent*9/10 || p > h.percent) {
		h.percent = p
		debug.SetGCPercent(p)
	}
}
