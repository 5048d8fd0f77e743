package double

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tclk-audit/tclk-audit/internal/testkit"
	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/verify"
)

// room is one name, through all its lives.
type room struct {
	name  string
	alive bool    // it has a file
	rows  []*Line // the file. Snapshots share it: it is appended to, or replaced
	bytes int     // of the file
	mtime time.Time

	seq        uint64 // the last one given
	life       int
	generation uint64
	bumpAt     time.Time // until then the generation shows as one less

	written int64                // bytes ever appended
	nonces  map[string]lastNonce // of this life's senders
	ever    []*Line              // all that it held
}

type lastNonce struct {
	value uint64
	end   int64 // written, after its row
}

func (r *room) shownGeneration(now time.Time) uint64 {
	if now.Before(r.bumpAt) {
		return r.generation - 1
	}
	return r.generation
}

// head is the newest seq on disk, or the retained floor of a room without rows.
func (r *room) head() uint64 {
	for i := len(r.rows) - 1; i >= 0; i-- {
		if r.rows[i].ok {
			return r.rows[i].Seq
		}
	}
	if r.alive {
		return 0
	}
	return r.seq
}

// classes returns the class markers of a room's name.
func classes(name string) map[string]bool {
	parts := strings.Split(name, "-")
	c := map[string]bool{}
	for _, p := range parts[:len(parts)-1] {
		switch p {
		case "p", "mb", "d", "e":
			c[p] = true
		default:
			return c
		}
	}
	return c
}

// readable returns the rows that a reader can get now.
func (v *Venue) readable(r *room, now time.Time) []*Line {
	rows := r.rows
	if classes(r.name)["e"] {
		dead := now.Add(-v.opt.Ephemeral)
		for len(rows) > 0 && rows[0].Stamp.Before(dead) {
			rows = rows[1:]
		}
	}
	return rows
}

// entry is a row that is to be written.
type entry struct {
	from, text string
	nonce, sig string // "" for an unsigned row
	stamp      time.Time
	into       *Line // gets a copy of the stored row, if not nil
}

// write does what every write of a row does: the reaper, the life of the room,
// the row, its announcement, the ring. The caller holds the lock.
func (v *Venue) write(name string, e entry, now time.Time) *Line {
	v.reapIfDue(now)
	r := v.rooms[name]
	if r == nil {
		r = &room{name: name}
		v.rooms[name] = r
	}
	born := !r.alive
	if born {
		r.alive, r.nonces = true, map[string]lastNonce{}
		r.life++
		v.alive++
	}
	if !born && v.faults.TornShare > 0 && v.random.Float64() < v.faults.TornShare {
		v.place(r, &Line{Life: r.life, Generation: r.generation, Raw: fmt.Appendf(nil, `{"seq":%d,"ts":"torn`, r.seq+1), Stamp: now, Time: now}, now)
	}
	l := v.appendRow(r, e, now)
	if born {
		if v.profile >= V011 {
			r.generation++
			r.bumpAt = now.Add(v.opt.BumpDelay)
			l.Generation = r.generation
		}
		if name != "events" && !classes(name)["p"] {
			v.write("events", entry{from: "server", text: "created " + name, stamp: now}, now)
		}
	}
	v.ring(r, now)
	return l
}

func (v *Venue) appendRow(r *room, e entry, now time.Time) *Line {
	r.seq++
	micros := e.stamp.UnixMicro()
	rec := protocol.Record{Seq: r.seq, TsMs: micros / 1000, From: []byte(e.from), Text: []byte(e.text)}
	if e.nonce != "" {
		n := strings.TrimLeft(e.nonce, "0")
		if n == "" {
			n = "0"
		}
		rec.Nonce = []byte(n)
		if v.profile >= V011 {
			rec.Sig = []byte(e.sig)
		}
	}
	raw := testkit.AppendRow(make([]byte, 0, len(e.from)+len(e.text)+len(e.sig)+128), &rec, int(micros%1000))
	l := &Line{Life: r.life, Generation: r.generation, Seq: r.seq, Raw: raw, Stamp: e.stamp, Time: now, ok: true, from: e.from, text: e.text}
	v.place(r, l, now)
	if e.nonce != "" {
		value, err := strconv.ParseUint(string(rec.Nonce), 10, 64)
		if err == nil {
			r.nonces[e.from] = lastNonce{value, r.written}
		}
	}
	return l
}

// place puts a line at the end of the file.
func (v *Venue) place(r *room, l *Line, now time.Time) {
	r.rows = append(r.rows, l)
	r.ever = append(r.ever, l)
	n := len(l.Raw) + 1
	r.bytes += n
	r.written += int64(n)
	v.bytes += int64(n)
	r.mtime = now
	v.counts.Rows++
}

// lastNonceOf finds the sender's last nonce within the bytes that the venue
// looks at.
func (v *Venue) lastNonceOf(r *room, did string) (uint64, bool) {
	n, ok := r.nonces[did]
	depth := int64(min(r.bytes, v.opt.ReadBudget))
	return n.value, ok && n.end > r.written-depth
}

// ring cuts the room to half of its limit where it is beyond it.
func (v *Venue) ring(r *room, now time.Time) {
	limit := v.opt.RingBytes
	if v.pressed {
		limit = min(limit, int(v.opt.TotalBytes/int64(v.opt.MaxRooms)))
	}
	if r.bytes > limit {
		v.compact(r, limit/2, now)
	}
}

func (v *Venue) compact(r *room, keep int, now time.Time) {
	n, bytes := len(r.rows), 0
	for n > 0 {
		size := len(r.rows[n-1].Raw) + 1
		if n < len(r.rows) && (bytes+size > keep || v.opt.KeepRows > 0 && len(r.rows)-n >= v.opt.KeepRows) {
			break
		}
		bytes += size
		n--
	}
	for _, l := range r.rows[:n] {
		l.gone(Overwritten, now)
	}
	r.rows = slices.Clone(r.rows[n:])
	v.bytes -= int64(r.bytes - bytes)
	r.bytes = bytes
	v.counts.Compactions++
}

// reapIfDue is the reaper, which runs inside writes alone.
func (v *Venue) reapIfDue(now time.Time) {
	if now.Sub(v.lastReap) < v.opt.ReapEvery {
		return
	}
	v.lastReap = now
	for _, r := range v.rooms {
		limit := v.opt.Idle
		if len(r.rows) <= 1 {
			limit = v.opt.Stillborn
		}
		if r.alive && now.Sub(r.mtime) > limit {
			v.reap(r, now)
		}
	}
	for ns, keys := range v.notes {
		for key, n := range keys {
			if now.Sub(n.at) > v.opt.Idle {
				delete(keys, key)
			}
		}
		if len(keys) == 0 {
			delete(v.notes, ns)
		}
	}
	v.pressed = v.bytes >= v.opt.TotalBytes
}

func (v *Venue) reap(r *room, now time.Time) {
	for _, l := range r.rows {
		l.gone(Reaped, now)
	}
	v.bytes -= int64(r.bytes)
	r.alive, r.rows, r.bytes, r.nonces = false, nil, 0, nil
	v.alive--
	if v.profile < V011 {
		r.seq = 0
	}
	v.counts.Reaps++
}

// WriteOption changes how a row is written directly.
type WriteOption func(*entry)

// Late stamps the row so long before it becomes visible: the stamp was taken
// before the lock, and the lock took its time.
func Late(d time.Duration) WriteOption {
	return func(e *entry) { e.stamp = e.stamp.Add(-d) }
}

// Stored copies the row as it was stored, its stamp among the rest.
func Stored(into *Line) WriteOption {
	return func(e *entry) { e.into = into }
}

// direct writes a row for a test: no budget, no rule of the venue stands in its
// way. The order of nonces and the signature are the test's to choose. The
// caller holds the lock.
func (v *Venue) direct(room string, e entry, opts []WriteOption) uint64 {
	now := v.opt.Now()
	e.stamp = now.Add(-v.lateness())
	for _, o := range opts {
		o(&e)
	}
	l := v.write(room, e, now)
	if e.into != nil {
		*e.into = *l
	}
	return l.Seq
}

// Say writes an unsigned row under a nickname and returns its seq. As all direct
// writes, it takes the text as it is and no budget.
func (v *Venue) Say(room, nick, text string, opts ...WriteOption) uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.direct(room, entry{from: nick, text: text}, opts)
}

// SaySigned writes a signed row and returns its seq. The nonce is that of
// NextNonce.
func (v *Venue) SaySigned(room string, by *testkit.Signer, text string, opts ...WriteOption) uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	rec := protocol.Record{Room: room, Nonce: []byte(v.nextNonce(room, by.DID)), Text: []byte(text)}
	verify.Sign(by.Key, &rec)
	return v.direct(room, entry{from: by.DID, text: text, nonce: string(rec.Nonce), sig: string(rec.Sig)}, opts)
}

// Post writes a frame, signed, and returns the row's seq.
func (v *Venue) Post(room string, by *testkit.Signer, f protocol.Frame, opts ...WriteOption) uint64 {
	return v.SaySigned(room, by, protocol.CanonicalLine(f), opts...)
}

// PostRaw writes a row of the signed lane as it is given, right or wrong, and
// returns its seq. The nonce is decimal digits; leading zeros are lost, as the
// venue loses them.
func (v *Venue) PostRaw(room, from, nonce, sig, text string, opts ...WriteOption) uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.direct(room, entry{from: from, text: text, nonce: nonce, sig: sig}, opts)
}

// NextNonce is a nonce that the venue takes from a signer in a room now: the
// clock in ms, or one more than the last.
func (v *Venue) NextNonce(room, did string) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.nextNonce(room, did)
}

func (v *Venue) nextNonce(room, did string) string {
	n := uint64(max(v.opt.Now().UnixMilli(), 0))
	if r := v.rooms[room]; r != nil && r.alive {
		n = max(n, r.nonces[did].value+1)
	}
	return strconv.FormatUint(n, 10)
}
