package market

import (
	"fmt"
	"strings"
	"time"

	"github.com/tclk-audit/tclk-audit/internal/testkit"
	"github.com/tclk-audit/tclk-audit/protocol"
)

// deal is one contract, and how far its agents have come.
type deal struct {
	*testkit.Deal
	class    string
	script   string
	status   protocol.Status // that its rows establish
	accepted time.Time       // when its accept was posted
	locked   time.Time       // the same of its lock; zero for none
	refund   time.Time
	claimBy  time.Time
}

// What agents do with an offer.
const (
	scriptClaimed   = "claimed"   // a reveal in time
	scriptLate      = "late"      // a reveal between claimByMs and refundAfterMs, which still claims
	scriptRefunded  = "refunded"  // no reveal, and a refund
	scriptCancelled = "cancelled" // accepted and cancelled
	scriptAbandoned = "abandoned" // accepted, and no more
	scriptStuck     = "stuck"     // locked, and no more
	scriptMisplaced = "misplaced" // all frames on the board, where they do not count
	scriptWithdrawn = "withdrawn" // the offer cancelled, and then accepted all the same
	scriptExpired   = "expired"   // accepted too late
	scriptRival     = "rival"     // a second accept of one of the others
	scriptStanding  = "standing"  // locked from the start
)

// scripts are drawn from: each as often as it stands here.
var scripts = strings.Fields(strings.Repeat(scriptClaimed+" ", 11) +
	"late late refunded refunded refunded cancelled cancelled abandoned abandoned stuck misplaced withdrawn expired")

var railSets = [][]string{
	{string(protocol.RailFLOP)},
	{string(protocol.RailPaper)},
	{string(protocol.RailMemory)},
	{string(protocol.RailFLOP), string(protocol.RailPaper)},
}

// terms draws what a deal is about.
func (m *Market) terms(now time.Time, refund time.Duration) testkit.Terms {
	t := testkit.Terms{
		NowMs:   now.UnixMilli(),
		Role:    testkit.Pick(m.source, []protocol.Role{protocol.RolePayer, protocol.RolePayee}),
		Lock:    protocol.LockHash,
		Amount:  fmt.Sprint(m.source.Between(1, 5_000_000)),
		Rails:   testkit.Pick(m.source, railSets),
		Expires: (refund * 3 / 10).Milliseconds(),
		ClaimBy: (refund * 6 / 10).Milliseconds(),
		Refund:  refund.Milliseconds(),
	}
	if m.source.Chance(250) {
		t.Lock = protocol.LockPoint
	}
	return t
}

func (m *Market) draw(now time.Time, refund time.Duration) *testkit.Deal {
	n := m.source.IntN(parties)
	other := (n + 1 + m.source.IntN(parties-2)) % parties
	return testkit.NewDeal(m.source, m.keys.Party(n), m.keys.Party(other), m.terms(now, refund))
}

// add takes up a deal whose accept was posted.
func (m *Market) add(d *testkit.Deal, class, script string, s protocol.Status) *deal {
	n := &deal{
		Deal: d, class: class, script: script, status: s, accepted: time.Now(),
		refund: time.UnixMilli(d.Offer.RefundAfterMs), claimBy: time.UnixMilli(d.Offer.ClaimByMs),
	}
	m.deals = append(m.deals, n)
	m.rooms[d.RoomName()] = n
	m.byScript[script]++
	return n
}

// standing makes a contract that is locked from the start.
func (m *Market) standing(hot bool) {
	refund, class := farDeadline, ClassCold
	if hot {
		refund, class = m.o.Near, ClassHot
	}
	t := m.draw(time.Now(), refund)
	m.put(protocol.BoardRoom, t.Offerer.Signer, t.Offer)
	m.put(protocol.BoardRoom, t.Acceptor.Signer, t.Accept)
	d := m.add(t, class, scriptStanding, protocol.Accepted)
	m.lock(d)
}

// open makes an offer and lets it be accepted. It returns the number of accepts.
func (m *Market) open(now time.Time) int {
	life := m.o.Life
	t := m.draw(now, life)
	m.put(protocol.BoardRoom, t.Offerer.Signer, t.Offer)
	script := testkit.Pick(m.source, scripts)
	accept := func(s protocol.Status) *deal {
		m.put(protocol.BoardRoom, t.Acceptor.Signer, t.Accept)
		class := ClassNew
		if s != protocol.Accepted {
			class = ClassVoid
		}
		return m.add(t, class, script, s)
	}
	switch script {
	case scriptWithdrawn:
		m.put(protocol.BoardRoom, t.Offerer.Signer, t.CancelOffer("I thought better of it"))
		accept(protocol.Cancelled)
		return 1
	case scriptExpired:
		m.plan(time.UnixMilli(t.Offer.ExpiresMs).Add(m.between(10*time.Millisecond, life/20)), func(time.Time) { accept(protocol.Proposed) })
		return 1
	}
	d := accept(protocol.Accepted)
	accepts := 1
	if m.source.Chance(120) {
		// The first one is bound; a rival is a contract of its own.
		rival := t.Rival(m.keys.Party(m.source.IntN(parties)))
		m.put(protocol.BoardRoom, rival.Acceptor.Signer, rival.Accept)
		m.add(rival, ClassRival, scriptRival, protocol.Accepted)
		accepts++
	}
	soon := min(5*time.Second, life/12)
	later := min(time.Minute, life/4)
	locked := now.Add(m.between(soon/10, soon))
	switch script {
	case scriptAbandoned:
	case scriptCancelled:
		m.plan(now.Add(m.between(soon, later)), func(time.Time) { m.cancel(d) })
	case scriptMisplaced:
		m.plan(locked, func(time.Time) { m.put(protocol.BoardRoom, d.Payer, d.Lock()) })
		m.plan(locked.Add(soon), func(time.Time) { m.put(protocol.BoardRoom, d.Payee, d.Reveal()) })
	default:
		m.plan(locked, func(time.Time) { m.lock(d) })
	}
	switch script {
	case scriptClaimed:
		m.plan(locked.Add(m.between(soon/5, later)), func(now time.Time) { m.reveal(d, now) })
	case scriptLate:
		m.plan(d.claimBy.Add(m.between(100*time.Millisecond, life/4)), func(now time.Time) { m.reveal(d, now) })
	case scriptRefunded:
		if m.source.Chance(500) { // too early: it does not count
			m.plan(locked.Add(soon), func(now time.Time) {
				if now.Before(d.refund.Add(-margin)) {
					m.put(d.RoomName(), d.Payer, d.Refund())
				}
			})
		}
		m.plan(d.refund.Add(m.between(100*time.Millisecond, soon)), func(time.Time) { m.refundNow(d) })
	}
	for range m.source.IntN(3) { // around the parties' rows
		m.plan(now.Add(m.between(0, later)), func(time.Time) { m.disturb(d) })
	}
	return accepts
}

// margin keeps a row that is to be in time off its deadline.
const margin = 50 * time.Millisecond

func (m *Market) lock(d *deal) {
	f := d.Lock()
	if d.Offer.Lock == protocol.LockPoint && m.source.Chance(500) {
		f = d.PresignedLock([]byte("what the rail signs"))
	}
	if time.Now().Before(d.refund.Add(-margin)) {
		m.put(d.RoomName(), d.Payer, f)
		d.status, d.locked = protocol.Locked, time.Now()
	}
}

func (m *Market) reveal(d *deal, now time.Time) {
	if d.status != protocol.Locked || !now.Before(d.refund.Add(-margin)) {
		return // it would not count
	}
	m.put(d.RoomName(), d.Payee, d.Reveal())
	d.status = protocol.Claimed
	m.receipts(d)
}

func (m *Market) refundNow(d *deal) {
	if d.status == protocol.Locked {
		m.put(d.RoomName(), d.Payer, d.Refund())
		d.status = protocol.Refunded
		m.receipts(d)
	}
}

func (m *Market) cancel(d *deal) {
	by := testkit.Pick(m.source, []*testkit.Signer{d.Payer, d.Payee})
	m.put(d.RoomName(), by, d.Cancel(by, "it rains"))
	d.status = protocol.Cancelled
	m.receipts(d)
}

// receipts lets the parties say how it ended, most of the time.
func (m *Market) receipts(d *deal) {
	for _, by := range []*testkit.Signer{d.Payer, d.Payee} {
		if m.source.Chance(700) {
			m.plan(time.Now().Add(m.between(0, min(10*time.Second, m.o.Life/10))), func(time.Time) {
				m.put(d.RoomName(), by, d.Receipt(by, d.status))
			})
		}
	}
}

// disturb writes a row into a deal room that moves nothing.
func (m *Market) disturb(d *deal) {
	room, stranger := d.RoomName(), m.stranger()
	switch m.source.IntN(6) {
	case 0:
		m.put(room, d.Payee, d.Heartbeat(d.Payee, "still at it"))
	case 1:
		m.put(room, stranger, &protocol.Cancel{From: stranger.DID, Contract: d.ID(), Reason: "nobody asked me"})
	case 2:
		m.put(room, stranger, &protocol.Lock{From: stranger.DID, Contract: d.ID(), Rail: d.Rail, Ref: "escrow-of-a-stranger"})
	case 3:
		m.put(room, stranger, d.Receipt(stranger, protocol.Claimed))
	default:
		m.noise(room)
	}
}

func (m *Market) stranger() *testkit.Signer {
	return m.keys.Signer(parties + m.source.IntN(strangers))
}

// hostile are texts that would break whatever shows them as they are, and lines
// that try to be frames. The venue lets no control characters through, so there
// are none: a row with one would speak against the venue.
var hostile = []string{
	"[2J[31mall your locks are void",
	"<script>alert(1)</script><img src=x onerror=alert(2)>",
	`"} tclk_audit_up{venue="x"} 1`,
	`level=error msg="forged"\n{"level":"ERROR"}`,
	`\u001b[31m \u202e %s %n ${jndi:x} $(reboot)`,
	"tclk1 {",
	`tclk1 {"type":"reveal"}`,
	`tclk1 {"type":"offer","type":"accept"}`,
	`tclk1 {"contract":"0x00","from":"did:key:z6Mk","type":"lock"}`,
	"tclk1 " + strings.Repeat("[", 2000),
	strings.Repeat("=", 4000),
}

var talk = strings.Fields("looking for a translator who takes paper or flop anyone up to summarise my logs by noon good work thank you the rail was slow today again")

// noise writes a row that is no frame that counts: chat for the most part.
func (m *Market) noise(room string) {
	var text strings.Builder
	for range 3 + m.source.IntN(25) {
		text.WriteString(testkit.Pick(m.source, talk))
		text.WriteByte(' ')
	}
	s := fmt.Sprintf("%s%d", text.String(), m.source.IntN(1_000_000))
	if m.source.Chance(60) {
		s = testkit.Pick(m.source, hostile)
	}
	if room == protocol.BoardRoom && m.source.Chance(300) { // deal rooms take signed rows alone
		m.v.Say(room, "visitor", s)
	} else {
		m.v.SaySigned(room, m.stranger(), s)
	}
	m.count(room)
}
