package fold

// seenSlots is the size of one generation of seen: 8 MiB.
const seenSlots = 1 << 20

// seen remembers record ids, by their first eight bytes, in two generations of
// a fixed size: memory stays bounded however many rows go by. The younger one
// is searched first; when it is full it becomes the older, and the older is
// forgotten.
type seen struct {
	young, old []uint64
	n          int
}

// probeLimit bounds a search. Ids are hashes, so that runs this long do not
// come by themselves; who makes them on purpose only makes the auditor forget
// earlier.
const probeLimit = 256

// add reports whether the id is remembered, and remembers it. full says that a
// generation had to be forgotten.
func (s *seen) add(id uint64) (known, full bool) {
	if id == 0 {
		id = 1 // 0 marks an empty slot
	}
	if 4*s.n >= 3*len(s.young) {
		full = s.grow()
	}
	slot, hit := find(s.young, id)
	if hit {
		return true, full
	}
	if slot < 0 {
		full = s.turn() || full
		slot, _ = find(s.young, id)
	}
	_, known = find(s.old, id)
	s.young[slot] = id
	s.n++
	return known, full
}

// smallest is the size that a table begins with.
const smallest = 1 << 10

// reset forgets all ids. A table that has grown is cut back: to empty it costs
// no more than a small one.
func (s *seen) reset() {
	if s.n > 0 || s.old != nil {
		s.young = s.young[:smallest]
		clear(s.young)
		s.old, s.n = nil, 0
	}
}

// find returns the slot of the id, or the one to put it into; -1 where there is
// none within the limit.
func find(slots []uint64, id uint64) (slot int, hit bool) {
	if len(slots) == 0 {
		return -1, false
	}
	mask := uint64(len(slots) - 1)
	at := (id * 0x9e3779b97f4a7c15) >> 20 & mask
	for range probeLimit {
		switch slots[at] {
		case id:
			return int(at), true
		case 0:
			return int(at), false
		}
		at = (at + 1) & mask
	}
	return -1, false
}

func (s *seen) grow() (full bool) {
	if len(s.young) >= seenSlots {
		return s.turn()
	}
	grown := make([]uint64, max(smallest, 4*len(s.young)))
	for _, id := range s.young {
		if id == 0 {
			continue
		}
		if slot, _ := find(grown, id); slot >= 0 {
			grown[slot] = id
		}
	}
	s.young = grown
	return false
}

// turn begins a new generation.
func (s *seen) turn() (full bool) {
	full = s.old != nil
	s.old, s.young, s.n = s.young, make([]uint64, max(smallest, len(s.young))), 0
	return full
}
