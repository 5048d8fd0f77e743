package gen

import (
	"strconv"

	"github.com/tclk-audit/tclk-audit/internal/testkit"
	"github.com/tclk-audit/tclk-audit/protocol"
)

// The times of a deal, in ms. They are what bots on the live board use.
const (
	second = 1000
	minute = 60 * second
	hour   = 60 * minute
	day    = 24 * hour
)

// story is one offer and what becomes of it, while it is being told. The whole
// plan of a story is made when it begins; its rows then wait in the queue.
type story struct {
	p    *planner
	r    *testkit.Rand
	t0   int64 // when the offer is posted
	now  int64 // how far the plan has come
	room *room // the deal room of d

	d                 *testkit.Deal
	offerer, acceptor actor
	payer, payee      actor

	offer, accept *entry   // posted ones
	lock, ending  *entry   // the counted lock, the terminal step
	steps         []*entry // the parties' frames that count, in order
	spoken        []*entry // all frames of theirs in the deal room
	contracts     []*outcome
	main          *outcome // the contract of d
	offerGone     bool     // the offer was cancelled
	altered       bool     // its evidence was tampered with already
}

// tell plans the story that begins now.
func (p *planner) tell(atMs int64) {
	s := &story{p: p, r: p.tale.Fork(p.told), t0: atMs, now: atMs}
	p.nowMs = max(p.nowMs, atMs)
	p.told++
	name, tell := p.nextStory(s.r)
	p.stories[name]++
	tell(s)
	for i := range kinds {
		k := &kinds[i]
		// Half the time more than the rate and half the time less, lest two
		// kinds always meet in one story.
		p.owed[i] += s.r.Between(0, 2*p.o.Noise.rates[i])
		if k.use == nil {
			continue
		}
		for p.owed[i] >= perMillion && k.use(s) {
			p.owed[i] -= perMillion
			p.noise[i]++
		}
	}
	for _, c := range s.contracts {
		p.keep(c, name)
	}
	if p.told == 1 {
		s.floods()
	}
}

// nextStory takes a kind of noise that is a story of its own and is owed, else
// draws an ordinary one.
func (p *planner) nextStory(r *testkit.Rand) (name string, tell func(*story)) {
	for i := range kinds {
		if kinds[i].tell != nil && p.owed[i] >= perMillion {
			p.owed[i] -= perMillion
			p.noise[i]++
			return kinds[i].name, kinds[i].tell
		}
	}
	n := r.IntN(plotWeight)
	for i := range plots {
		if n -= plots[i].weight; n < 0 {
			return plots[i].name, plots[i].tell
		}
	}
	panic("gen: the weights of the plots do not add up")
}

// keep books a contract that the story opened.
func (p *planner) keep(c *outcome, name string) {
	c.story = name
	p.planned++
	p.stats.Contracts++
	p.statuses[statusWord(c.status)]++
	if len(p.kept) < manifestLimit {
		p.kept = append(p.kept, c)
	}
}

// plots are the ordinary stories, with what share of a thousand each has. The
// shares follow the live board: most offers find no taker, many deals end after
// the accept, and many are told on the board.
var plots = []struct {
	name   string
	weight int
	tell   func(*story)
}{
	{"offer-open", 60, offerOpen},
	{"offer-expired", 250, offerExpired},
	{"offer-cancelled", 30, offerCancelled},
	{"accept-after-cancel", 15, acceptAfterCancel},
	{"accept-late", 40, acceptLate},
	{"lapsed-at-birth", 10, lapsedAtBirth},
	{"accepted-open", 60, acceptedOpen},
	{"accepted-lapsed", 130, acceptedLapsed},
	{"cancelled", 40, cancelled},
	{"locked-funded", 20, lockedFunded},
	{"locked-refundable", 30, lockedRefundable},
	{"claimed", 150, claimed},
	{"claimed-late", 20, claimedLate},
	{"refunded", 50, refunded},
	{"superseded", 45, superseded},
	{"chosen-later", 10, chosenLater},
	{"misposted", 40, misposted},
}

const plotWeight = 1000

func offerOpen(s *story) {
	s.draft(testkit.Terms{Expires: 30 * day, ClaimBy: 31 * day, Refund: 32 * day})
	s.postOffer()
}

func offerExpired(s *story) {
	s.draft(testkit.Terms{})
	s.postOffer()
}

func offerCancelled(s *story) {
	s.draft(testkit.Terms{})
	s.postOffer()
	s.wait(10*second, 5*minute)
	s.post(s.offerer, s.d.CancelOffer(testkit.Pick(s.r, cancelReasons)))
	s.offerGone = true
}

func acceptAfterCancel(s *story) {
	offerCancelled(s)
	s.wait(second, minute)
	s.postAccept()
	s.main.unbound(protocol.Cancelled)
	s.main.terminal = true
}

func acceptLate(s *story) {
	s.draft(testkit.Terms{})
	s.postOffer()
	s.now = s.d.Offer.ExpiresMs
	if s.r.Chance(800) {
		s.wait(second, 20*minute)
	}
	s.postAccept()
	s.main.unbound(protocol.Proposed)
}

func lapsedAtBirth(s *story) {
	s.draft(testkit.Terms{Expires: 2 * hour, ClaimBy: 5 * minute, Refund: 10 * minute})
	s.postOffer()
	s.now = s.d.Offer.RefundAfterMs
	s.wait(0, hour)
	s.postAccept()
	s.main.expect("lapsed-at-birth")
}

func acceptedOpen(s *story) {
	s.open(testkit.Terms{Expires: 10 * minute, ClaimBy: 20 * day, Refund: 30 * day})
	s.heartbeats(2)
}

func acceptedLapsed(s *story) {
	s.open(testkit.Terms{})
	s.heartbeats(1)
}

func cancelled(s *story) {
	s.open(testkit.Terms{})
	s.heartbeats(1)
	s.wait(10*second, 20*minute)
	by := testkit.Pick(s.r, []actor{s.payer, s.payee})
	s.end(protocol.Cancelled, by, s.d.Cancel(by.Signer, testkit.Pick(s.r, cancelReasons)))
	s.receipts(protocol.Cancelled)
}

func lockedFunded(s *story) {
	s.open(testkit.Terms{ClaimBy: 20 * day, Refund: 30 * day})
	s.postLock()
	s.heartbeats(3)
}

func lockedRefundable(s *story) {
	s.open(testkit.Terms{})
	s.postLock()
	s.heartbeats(1)
}

func claimed(s *story) {
	s.open(testkit.Terms{})
	s.heartbeats(1)
	s.postLock()
	s.heartbeats(2)
	s.wait(5*second, 15*minute)
	s.end(protocol.Claimed, s.payee, s.reveal())
	s.receipts(protocol.Claimed)
}

func claimedLate(s *story) {
	s.open(testkit.Terms{})
	s.postLock()
	s.now = s.d.Offer.ClaimByMs
	s.wait(second, 29*minute)
	s.end(protocol.Claimed, s.payee, s.reveal())
	s.main.inRooms(func(c *outcome) { c.late = true; c.expect("late-reveal") })
	s.receipts(protocol.Claimed)
}

func refunded(s *story) {
	s.open(testkit.Terms{})
	s.postLock()
	s.heartbeats(2)
	s.now = s.d.Offer.RefundAfterMs
	if s.r.Chance(900) { // else at the very moment the window opens
		s.wait(second, hour)
	}
	s.end(protocol.Refunded, s.payer, s.refund())
	s.receipts(protocol.Refunded)
}

func superseded(s *story) {
	s.open(testkit.Terms{})
	for range 1 + s.r.IntN(3) {
		s.rival()
	}
	s.postLock()
	s.wait(5*second, 15*minute)
	s.end(protocol.Claimed, s.payee, s.reveal())
	s.receipts(protocol.Claimed)
}

func chosenLater(s *story) {
	s.open(testkit.Terms{})
	s.take(s.rival())
	s.postLock()
	s.main.inRooms(func(c *outcome) { c.expect("lock-on-superseded") })
	s.wait(5*second, 15*minute)
	s.end(protocol.Claimed, s.payee, s.reveal())
	s.receipts(protocol.Claimed)
}

// misposted is a deal of parties who never found the deal room: all of it stands
// on the board.
func misposted(s *story) {
	s.open(testkit.Terms{})
	s.wait(5*second, 5*minute)
	s.post(s.payer, s.d.Lock())
	s.main.shadow = protocol.Locked
	if s.r.Chance(800) {
		s.wait(5*second, 15*minute)
		s.post(s.payee, s.reveal())
		s.main.shadow = protocol.Claimed
		for _, by := range []actor{s.payer, s.payee} {
			s.wait(second, minute)
			s.post(by, s.d.Receipt(by.Signer, protocol.Claimed))
		}
	}
	s.main.expect("wrong-room")
}

// The texts that parties write.
var (
	cancelReasons = []string{"changed my mind", "found another worker", "no capacity today", "terms unclear"}
	heartbeatWord = []string{"", "working", "50 percent", "rendering, please wait", "uploading the result"}
	assets        = []string{"FLOP", "FLOP", "FLOP", "USDC", "TEST", "SAT"}
	protocols     = []string{"a2a", "a2a", "acp", "blockrewards"}
	jobs          = []string{
		"render eight frames of the attached scene at 1920x1080, no watermark, PNG",
		"transcribe one hour of audio, two speakers, time stamps for each sentence",
		"translate the linked page into Portuguese, keep the markup and the tables",
		"write unit tests for the module named in the note, coverage above 90 percent",
		"label 500 images, classes as in the note, one reviewer",
	}
	railChoices = [][]string{
		{"paper"}, {"paper"}, {"paper"}, {"paper"}, {"paper"}, {"paper", "x402"},
		{"flop-htlc", "paper"}, {"flop-htlc"}, {"flop-htlc", "x402"}, {"evm-htlc", "near-htlc", "paper"},
		{"memory"}, {"btc-htlc"}, {"PaperRail"}, {"paperrail", "x402"}, {"my.own_rail"},
	}
)

// wait lets time pass.
func (s *story) wait(lo, hi int64) { s.now += s.r.Between(lo, hi) }

// draft makes the deal: who trades what. The times that terms leave out are the
// usual ones.
func (s *story) draft(t testkit.Terms) {
	s.offerer = s.p.anybody(s.r)
	s.acceptor = s.p.anybody(s.r, s.offerer)
	s.draftBetween(t)
}

func (s *story) draftBetween(t testkit.Terms) {
	r := s.r
	t.NowMs = s.t0
	if t.Role == protocol.RoleNone {
		t.Role = protocol.RolePayer
		if r.Chance(175) {
			t.Role = protocol.RolePayee
		}
	}
	if t.Lock == protocol.LockNone {
		t.Lock = protocol.LockHash
		if r.Chance(80) {
			t.Lock = protocol.LockPoint
		}
		t.HashKeys = r.Chance(20) // hardly anybody on the live board does
	}
	t.Amount = strconv.Itoa(1 + r.IntN(5_000_000))
	t.Asset = testkit.Pick(r, assets)
	t.Rails = testkit.Pick(r, railChoices)
	if r.Chance(850) {
		task := r.Hex(4)
		t.Job = &protocol.Job{Proto: testkit.Pick(r, protocols), ID: "task-" + task}
		if r.Chance(850) {
			t.Job.Context = "/kv/tclk-job-" + task[:2] + "/task-" + task + ": " + testkit.Pick(r, jobs)
		}
	}
	s.d = testkit.NewDeal(r, s.offerer.Party, s.acceptor.Party, t)
	s.d.Rail = testkit.Pick(r, s.d.Offer.Rails)
	s.sides()
}

func (s *story) sides() {
	s.payer, s.payee = s.offerer, s.acceptor
	if s.d.Offer.Role == protocol.RolePayee {
		s.payer, s.payee = s.acceptor, s.offerer
	}
}

// anybody draws somebody who is none of those named. Some trade far more than
// others.
func (p *planner) anybody(r *testkit.Rand, except ...actor) actor {
draw:
	for {
		n := uint64(p.o.Keys)
		a, b := r.IntN(int(n)), r.IntN(int(n))
		i := min(a, b) // busy keys have small numbers
		for _, x := range except {
			if x.Signer != nil && x.clock == i {
				continue draw
			}
		}
		return actor{p.keys.Party(i), i}
	}
}

func (s *story) stranger() actor { return s.p.anybody(s.r, s.offerer, s.acceptor) }

// post puts a frame of somebody's onto the board, now.
func (s *story) post(by actor, f protocol.Frame) *entry {
	return s.add(&entry{room: s.p.board, by: by, frame: f})
}

// say puts a frame of a party's into the deal room, now.
func (s *story) say(by actor, f protocol.Frame) *entry {
	e := s.add(&entry{room: s.room, by: by, frame: f})
	s.spoken = append(s.spoken, e)
	return e
}

// add schedules an entry for now, unless it has a time of its own.
func (s *story) add(e *entry) *entry {
	if e.atMs == 0 {
		e.atMs = s.now
	}
	if e.by.Signer == weakSigner && e.seal == nil {
		e.seal = sealWeak
	}
	s.p.schedule(e)
	return e
}

func (s *story) postOffer() {
	s.offer = s.post(s.offerer, s.d.Offer)
	s.p.stats.Offers++
}

// open posts the offer and, in time, the accept.
func (s *story) open(t testkit.Terms) {
	s.draft(t)
	s.postOffer()
	s.wait(2*second, 4*minute)
	s.postAccept()
}

// postAccept posts the deal's accept and opens the book on its contract.
func (s *story) postAccept() {
	s.accept = s.post(s.acceptor, s.d.Accept)
	s.main = s.book(s.d, s.accept)
	s.main.binding = "bound"
	s.room = s.main.room
}

// rival posts another acceptor's accept, which comes later.
func (s *story) rival() (*testkit.Deal, actor, *outcome) {
	by := s.stranger()
	d := s.d.Rival(by.Party)
	d.Rail = s.d.Rail
	s.wait(20, 10*second)
	c := s.book(d, s.post(by, d.Accept))
	c.binding = "superseded"
	c.boundTo = s.contracts[0].id
	c.expect("superseded")
	return d, by, c
}

// take turns the story to a rival's deal.
func (s *story) take(d *testkit.Deal, by actor, c *outcome) {
	s.d, s.acceptor, s.main, s.room = d, by, c, c.room
	s.sides()
}

// book opens the book on the contract of a deal: accepted, until more is said.
func (s *story) book(d *testkit.Deal, accept *entry) *outcome {
	c := &outcome{
		id: d.ID(), offer: d.Offer.ID, status: protocol.Accepted,
		room: &room{name: d.RoomName()}, dealRooms: s.p.o.DealRooms,
		openFile: s.p.o.layout() == PerRoom && !s.p.o.Single,
	}
	if d.Offer.Role == protocol.RolePayee {
		c.expect("payer-minted")
	}
	s.contracts = append(s.contracts, c)
	p := s.p
	if s.offer != nil {
		watch(s.offer, func(*entry) { c.holesAtOffer, c.doubtsAtOffer = p.board.holes, p.doubts })
		watch(accept, func(*entry) {
			c.boardHole = p.board.holes != c.holesAtOffer
			c.boardDoubt = p.doubts != c.doubtsAtOffer
		})
	}
	if c.openFile {
		p.schedule(&entry{room: c.room, atMs: s.now, open: true})
	}
	return c
}

// watch adds to what happens when an entry gets its place.
func watch(e *entry, then func(*entry)) {
	if first := e.then; first != nil {
		e.then = func(e *entry) { first(e); then(e) }
	} else {
		e.then = then
	}
}

// step posts a party's frame that counts into the deal room.
func (s *story) step(by actor, f protocol.Frame) *entry {
	e := s.say(by, f)
	s.steps = append(s.steps, e)
	s.counted(by)
	return e
}

// counted notes that a party's frame in the deal room counts.
func (s *story) counted(by actor) {
	if by.clock == s.offerer.clock {
		s.main.offererCounted = true
	}
}

func (s *story) postLock() {
	s.wait(20*second, 5*minute)
	f := s.d.Lock()
	if s.d.Offer.Lock == protocol.LockPoint && s.r.Chance(500) {
		f = s.d.PresignedLock([]byte("claim " + s.d.Ref))
	}
	s.lock = s.step(s.payer, f)
	s.main.inRooms(func(c *outcome) {
		c.status, c.chosen = protocol.Locked, true
		if r, err := protocol.NormalizeRail(f.Rail); err == nil && !r.MovesValue() {
			c.expect("no-value-rail")
		}
	})
}

// reveal and refund name the lock's ref mostly; older senders did not.
func (s *story) reveal() *protocol.Reveal {
	f := s.d.Reveal()
	if s.r.Chance(300) {
		f.Ref = ""
	}
	return f
}

func (s *story) refund() *protocol.Refund {
	f := s.d.Refund()
	if s.r.Chance(300) {
		f.Ref = ""
	}
	if s.r.Chance(200) {
		f.Reason = "not delivered"
	}
	return f
}

// end posts the terminal step.
func (s *story) end(to protocol.Status, by actor, f protocol.Frame) {
	s.ending = s.step(by, f)
	c := s.main
	c.inRooms(func(c *outcome) { c.status, c.terminal = to, true })
	watch(s.ending, func(*entry) { c.ended, c.holesAtEnd = true, c.room.holes })
}

// receipts posts receipts of both parties, one or none.
func (s *story) receipts(outcome protocol.Status) {
	for _, by := range []actor{s.payer, s.payee} {
		if s.r.Chance(450) {
			s.wait(second, 10*minute)
			s.say(by, s.d.Receipt(by.Signer, outcome))
			if s.ending != nil {
				s.counted(by)
			}
		}
	}
}

func (s *story) heartbeats(most int) {
	for range s.r.IntN(most + 1) {
		by := testkit.Pick(s.r, []actor{s.payer, s.payee})
		s.wait(10*second, 2*minute)
		s.say(by, s.d.Heartbeat(by.Signer, testkit.Pick(s.r, heartbeatWord)))
		s.counted(by)
	}
}
