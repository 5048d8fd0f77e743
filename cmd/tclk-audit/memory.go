package main

import (
	"runtime/debug"
	"runtime/metrics"
)

// What an audit keeps holds no pointers, so that collecting often is cheap,
// while the usual doubling of the heap would double its memory. So the heap may
// grow freely up to heapGoal and beyond it by heapSlack at a time, in bytes.
const (
	heapGoal  = 312 << 20
	heapSlack = 12 << 20
)

// heap keeps the collector's pace with the size of what an audit keeps.
type heap struct {
	sample  []metrics.Sample
	percent uint64
}

func newHeap() *heap {
	return &heap{sample: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}, percent: 100}
}

// pace is called as the work goes on.
func (h *heap) pace() {
	metrics.Read(h.sample)
	live := max(h.sample[0].Value.Uint64(), 1)
	room := uint64(heapSlack)
	if live+heapSlack < heapGoal {
		room = heapGoal - live
	}
	p := min(100, max(3, 100*room/live))
	if p < h.percent*9/10 || p > h.percent*11/10 {
		h.percent = p
		debug.SetGCPercent(int(p))
	}
}
