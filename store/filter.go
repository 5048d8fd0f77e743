package store

import "encoding/binary"

// filter tells which keys are certainly not in the store, so that a lookup of a
// new one, by far the most, costs no search. It never says that a key is absent
// that is there. It is made anew for each writer, from the keys, and left off
// where those are too many: then lookups are slower, and nothing else.
type filter struct {
	bits []uint64
	off  bool
}

const (
	filterWords = 1 << 20 // 8 MiB
	// filterKeys is up to how many keys are read into a filter when a writer
	// begins: about a second's work.
	filterKeys = 3_000_000
)

// filtered are the kinds of keys that a filter knows.
var filtered = func() (f [256]bool) {
	for _, k := range []byte{keyIdentity, keyOffer, keyContract, keyState, keyPoint, keyNamed, keyRoom} {
		f[k] = true
	}
	return f
}()

func hashKey(k []byte) uint64 {
	const m = 0x9e3779b97f4a7c15
	h := uint64(len(k)) * m
	for len(k) >= 8 {
		h = (h ^ binary.LittleEndian.Uint64(k)) * m
		h ^= h >> 29
		k = k[8:]
	}
	for _, c := range k {
		h = (h ^ uint64(c)) * m
	}
	return h ^ h>>32
}

// probe gives a word and the three bits in it that stand for a key.
func (f *filter) probe(k []byte) (word int, mask uint64) {
	h := hashKey(k)
	return int(h >> 44), 1<<(h&63) | 1<<(h>>6&63) | 1<<(h>>12&63)
}

func (f *filter) add(k []byte) {
	if !f.off && filtered[k[0]] {
		w, m := f.probe(k)
		f.bits[w] |= m
	}
}

// absent reports whether the key is certainly not there.
func (f *filter) absent(k []byte) bool {
	if f.off || !filtered[k[0]] {
		return false
	}
	w, m := f.probe(k)
	return f.bits[w]&m != m
}

// load reads the store's keys into the filter.
func (f *filter) load(s *Store) error {
	f.bits = make([]uint64, filterWords)
	n := 0
	for k, on := range filtered {
		if !on {
			continue
		}
		err := s.scan([]byte{byte(k)}, func(key, _ []byte) (bool, error) {
			f.add(key)
			n++
			return n <= filterKeys, nil
		})
		if err != nil {
			return err
		}
	}
	if f.off = n > filterKeys; f.off {
		f.bits = nil
	}
	return nil
}
