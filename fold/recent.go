package fold

// recentOffers is how many offers' canonical JSON is kept whole.
const recentOffers = 4096

// recent keeps the canonical JSON of the newest offers: most accepts follow
// their offer closely, and making the JSON again is the greater part of what a
// contract id costs. An older offer is unpacked instead.
type recent struct {
	slots []recentOffer
}

type recentOffer struct {
	offer uint32
	json  []byte
}

func (r *recent) put(offer uint32, json []byte) {
	if int(offer%recentOffers) >= len(r.slots) {
		if len(r.slots) < recentOffers {
			r.slots = append(r.slots, make([]recentOffer, max(16, len(r.slots)))...)
		}
		if int(offer%recentOffers) >= len(r.slots) {
			return
		}
	}
	s := &r.slots[offer%recentOffers]
	s.offer, s.json = offer, append(s.json[:0], json...)
}

// reset forgets the offers 1 to n and keeps the memory of their JSON.
func (r *recent) reset(n uint32) {
	for i := range min(int(n), len(r.slots)-1) + 1 {
		r.slots[i].offer = 0
	}
}

// get returns nil where the offer is not among them.
func (r *recent) get(offer uint32) []byte {
	if at := int(offer % recentOffers); at < len(r.slots) && r.slots[at].offer == offer {
		return r.slots[at].json
	}
	return nil
}
