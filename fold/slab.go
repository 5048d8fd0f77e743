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
	if s.n%slabChunk == 0 {
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

// get returns the bytes from r to the end of its chunk; the reader knows where
// to stop.
func (a *arena) get(r ref) []byte {
	if r == 0 {
		return nil
	}
	r--
	return a.chunks[r>>32][uint32(r):]
}
