package gen

import (
	"github.com/tclk-audit/tclk-audit/internal/testkit"
	"github.com/tclk-audit/tclk-audit/protocol"
)

// floods starts the floods that the options ask for. A flood plans one row at a
// time, so that it costs no memory here; the auditor is to do as well.
func (s *story) floods() {
	if n := s.p.o.FloodAccepts; n > 0 {
		f := s.aside()
		f.draft(testkit.Terms{Expires: 30 * day, ClaimBy: 31 * day, Refund: 32 * day})
		f.postOffer()
		f.wait(second, second)
		f.postAccept()
		f.p.keep(f.main, "flood")
		f.floodAccept(f.accept, n-1)
	}
	if n := s.p.o.FloodRows; n > 0 {
		f := s.aside()
		f.open(testkit.Terms{ClaimBy: 20 * day, Refund: 30 * day})
		f.postLock()
		f.p.keep(f.main, "flood")
		f.floodRow(f.lock, n)
	}
}

// aside is another story at the same time.
func (s *story) aside() *story { return &story{p: s.p, r: s.r, t0: s.t0, now: s.t0} }

// floodAccept posts n accepts after an entry, each when the one before it has
// its place.
func (s *story) floodAccept(after *entry, n int64) {
	if n == 0 {
		return
	}
	watch(after, func(e *entry) {
		by := s.stranger()
		d := s.d.Rival(by.Party)
		next := s.add(&entry{room: s.p.board, by: by, frame: d.Accept, atMs: e.atMs + 2})
		c := &outcome{
			id: d.ID(), offer: d.Offer.ID, status: protocol.Accepted, room: &room{name: d.RoomName()},
			binding: "superseded", boundTo: s.contracts[0].id, dealRooms: s.p.o.DealRooms,
			openFile: s.contracts[0].openFile,
		}
		c.expect("superseded")
		c.unsure = true
		if c.openFile {
			s.p.schedule(&entry{room: c.room, atMs: next.atMs, open: true})
		}
		s.p.keep(c, "flood")
		s.floodAccept(next, n-1)
	})
}

// floodRow posts n rows of strangers into the deal room after an entry.
func (s *story) floodRow(after *entry, n int64) {
	if n == 0 {
		return
	}
	watch(after, func(e *entry) {
		by := s.stranger()
		next := s.add(&entry{room: s.room, by: by, atMs: e.atMs + 2, frame: s.d.Heartbeat(by.Signer, "flood")})
		s.floodRow(next, n-1)
	})
}
