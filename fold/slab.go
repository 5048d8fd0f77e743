package fold

// The auditor keeps its contracts in slabs and an arena that hold no pointers:
// a day's board is some hundred thousand contracts, and the garbage collector
// need not walk them.

const slabChunk = 1024

// slab is a growing array whose elements never move. Indexes start at 1, so
// that 0 can mean "none".
type slab[T any] struct {
	chunks [][]T
	n      uint32
}

// add appends a zero element and returns its index.
func (s *slab[T]) add() (uint32, *T) {
	if int(s.n) == len(s.chunks)*slabChunk {
		s.chunks = append(s.chunks, make([]T, slabChunk))
	}
	s.n++
	return s.n, s.at(s.n)
}

func (s *slab[T]) at(i uint32) *T {
	i--
	return &s.chunks[i/slabChunk][i%slabChunk]
}

func (s *slab[T]) len() uint32 { return s.n }

// keptChunks is how many chunks a slab keeps when it is emptied: one huge
// contract does not hold its memory for good.
const keptChunks = 16

// reset empties the slab and keeps its first chunks.
func (s *slab[T]) reset() {
	if len(s.chunks) > keptChunks {
		clear(s.chunks[keptChunks:])
		s.chunks = s.chunks[:keptChunks]
	}
	for n, k := s.n, 0; n > 0 && k < len(s.chunks); k++ {
		used := min(n, slabChunk)
		clear(s.chunks[k][:used])
		n -= used
	}
	s.n = 0
}

const arenaChunk = 1 << 18

// ref points at bytes in an arena; 0 is none.
type ref uint64

// arena keeps byte strings of up to maxBody bytes.
type arena struct {
	chunks [][]byte
}

// put stores b and returns where.
func (a *arena) put(b []byte) ref {
	if len(b) == 0 {
		return 0
	}
	last := len(a.chunks) - 1
	if last < 0 || len(a.chunks[last])+len(b) > cap(a.chunks[last]) {
		a.chunks = append(a.chunks, make([]byte, 0, max(arenaChunk, len(b))))
		last++
	}
	c := a.chunks[last]
	at := len(c)
	a.chunks[last] = append(c, b...)
	return ref(uint64(last)<<32|uint64(at)) + 1
}

// reset empties the arena and keeps its first chunk.
func (a *arena) reset() {
	if len(a.chunks) > 0 {
		clear(a.chunks[1:])
		a.chunks = a.chunks[:1]
		a.chunks[0] = a.chunks[0][:0]
	}
}

// get returns the bytes from r to the end of its chunk; the reader knows where
// to stop.
func (a *arena) get(r ref) []byte {
	if r == 0 {
		return nil
	}
	r--
	return a.chunks[r>>32][uint32(r):]
}
