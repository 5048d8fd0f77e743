package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tclk-audit/tclk-audit/export/venue"
	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/store"
)

const (
	maxAsked     = 6       // requests under way at one venue
	maxRooms     = 200_000 // rooms known of one venue
	rankEvery    = 10 * time.Second
	limitsEvery  = time.Hour
	refusedAgain = 15 * time.Minute // a room that was refused is asked for again
	exportAgain  = 10 * time.Minute // a room whose exports failed is exported again
	rewriteAgain = time.Hour        // a room that was rewritten is stored anew at most so often
	maxHints     = 20_000           // rooms that nothing but a hint speaks for
	maxDropped   = 100_000          // hints that were let go and are remembered
	dealExports  = 1                // exports of other rooms than the board under way
	limitsAgain  = 30 * time.Second // where the venue did not say them
	notesSweep   = time.Hour        // all namespaces once
	namespaces   = 256
	maxBackoff   = time.Minute
	outageAfter  = 5               // failures in a row, of any room
	againBoard   = 12              // reads of the board, and the row at the cursor is read again
	freshRun     = 3               // reads in a row of rooms that were never read, where others are due
	hotRun       = 4               // reads in a row of hot rooms, where others are due that are not
	youngTime    = 5 * time.Minute // after something happened in a room, more may come of it soon
	onceTries    = 3
	maxHintKeys  = 10_000 // of one namespace
	clockStep    = 10 * time.Second
	forever      = time.Duration(1<<63 - 1)
	stillborn    = 4 // a room of one row is read after so small a part of the time after which it is removed
)

// site is one venue that is watched.
type site struct {
	w      *Watcher
	o      Venue
	client *venue.Client
	limits venue.Limits

	exports   bool
	said      bool // what the venue lacks
	rooms     map[string]*room
	board     *room
	fresh     queue
	hot       queue
	young     queue
	rest      queue
	waiting   []*room // those beyond Options.Live, in no order
	live      int
	full      bool            // maxRooms was met
	moved     []*room         // whose contracts changed with the last commit
	hinted    int             // rooms that nothing but a hint speaks for, as last counted
	dropped   map[string]bool // hints that were let go
	exporting int             // exports of deal rooms under way
	runs      [3]int          // reads in a row from fresh, hot and young
	ranked    time.Time
	asked     int   // requests under way
	sent      int64 // requests that take a token, since the start
	failures  int   // in a row
	paused    time.Time

	heard   int64 // the venue's clock as its replies say, Unix ms; 0: not yet
	heardAt time.Time
	ts      int64 // the greatest time of a row
	skewed  bool  // its Date header is not believed
	clocked int64 // what the store was told of the clock

	discover time.Time // when limits are asked for next
	asking   bool      // for them
	unsure   int       // how often in a row what the venue says of itself could not be had whole
	notes    time.Time // when the next namespace is read
	space    int

	caught  time.Time // when the board was last read to its end
	lag     int64     // rows of the board that were seen to be there and are not read
	refused int64     // 429s so far
}

func newSite(w *Watcher, o Venue) (*site, error) {
	c, err := venue.New(venue.Options{
		Origin: o.Origin, Share: o.Share, ReadsPerMinute: o.ReadsPerMinute, UserAgent: "tclk-audit watch", Transport: o.Transport,
	})
	if err != nil {
		return nil, err
	}
	s := &site{w: w, o: o, client: c, limits: c.Limits(), exports: true, rooms: map[string]*room{}}
	return s, nil
}

// load finds the rooms that the store knows of.
func (s *site) load() error {
	now := s.w.now()
	s.board = s.know(protocol.BoardRoom, now)
	for _, name := range s.o.Rooms {
		s.name(name, now)
	}
	r, err := s.w.store.Reader()
	if err != nil {
		return err
	}
	defer r.Close()
	if ms, ok := r.Clock(s.o.Alias); ok {
		s.ts = ms
	}
	tails, err := s.w.store.Tails(s.o.Alias)
	if err != nil {
		return err
	}
	for _, t := range tails {
		room := s.know(t.Room, now)
		if room == nil {
			continue
		}
		room.source = t.Number
		if len(t.State) == 0 {
			continue
		}
		if room.tail, err = readTail(t.State); err != nil {
			return err
		}
		if at := time.UnixMilli(room.tail.ReadMs); at.Before(now) {
			room.active = at
		}
		room.hint = room.class == ClassDeal
		if room.tail.Gone && room.tail.Says {
			room.probe = probeFloor // it may not have come to that
		}
	}
	items, err := r.Contracts(store.Filter{Venue: s.o.Alias, Status: []protocol.Status{protocol.StatusNone, protocol.Accepted, protocol.Locked}})
	if err != nil {
		return err
	}
	for i := range items {
		it := &items[i]
		if over := s.clock(now) - it.RefundAfterMs; it.Status != protocol.StatusNone && s.rooms[protocol.DealRoom(it.Contract)] == nil {
			if it.Status == protocol.Accepted && over > s.o.Linger.Milliseconds() || over > refundLinger.Milliseconds() {
				seen, err := r.HasRoom(s.o.Alias, protocol.DealRoom(it.Contract))
				if err != nil {
					return err
				}
				if seen {
					continue // it was let go
				}
			}
		}
		s.contract(it)
	}
	for _, t := range tails {
		room := s.rooms[t.Room]
		if room == nil || room.class != ClassDeal || !room.hint {
			continue
		}
		items, err := r.Contracts(store.Filter{Venue: s.o.Alias, Prefix: t.Room[len(t.Room)-16:]})
		if err != nil {
			return err
		}
		for i := range items {
			s.contract(&items[i])
		}
	}
	for _, room := range s.rooms {
		if terminal(room.deal.status) && room.tail.TsMs > 0 {
			room.ended = time.UnixMilli(room.tail.TsMs)
		}
		s.place(room, now)
	}
	return nil
}

// know returns a room, and makes it known; nil where too many are.
func (s *site) know(name string, now time.Time) *room {
	if r := s.rooms[name]; r != nil {
		return r
	}
	if len(s.rooms) >= maxRooms {
		if !s.full {
			s.full = true
			s.w.o.Listener.notice(s.o.Alias, s.o.Alias, true, fmt.Sprintf("%d rooms are known: further ones are not followed", maxRooms))
		}
		return nil
	}
	r := &room{name: name, class: ClassOther, known: now, active: now}
	switch {
	case name == protocol.BoardRoom:
		r.class = ClassBoard
	case protocol.IsDealRoom(name):
		r.class = ClassDeal
	}
	s.rooms[name] = r
	return r
}

// name follows a room because the user says so.
func (s *site) name(name string, now time.Time) {
	if r := s.know(name, now); r != nil {
		r.named, r.hint = true, false
	}
}

// contract takes in what was concluded about a contract: its room is followed
// for as long as something may come of it.
func (s *site) contract(i *store.Item) {
	now := s.w.now()
	name := protocol.DealRoom(i.Contract)
	r := s.rooms[name]
	if r == nil {
		if i.Status != protocol.StatusNone && i.Status != protocol.Accepted && i.Status != protocol.Locked {
			return
		}
		if i.Status == protocol.StatusNone && !s.mayHint(name) {
			return
		}
		if r = s.know(name, now); r == nil {
			return
		}
		r.hint = true
	}
	was := r.deal
	if !r.hint && was.status != protocol.StatusNone && i.Status == protocol.StatusNone {
		return // another contract with the same room
	}
	r.deal.about(i)
	if i.Status != protocol.StatusNone {
		r.hint = false
	}
	if terminal(i.Status) && (r.ended.IsZero() || !terminal(was.status)) {
		r.ended = now
	}
	if was.status != i.Status {
		r.active = now
	}
	if s.w.running {
		// It may be told in the middle of a commit: nothing can be written then.
		s.moved = append(s.moved, r)
	}
}

// settleMoved gives the rooms their turn whose contracts changed.
func (s *site) settleMoved(now time.Time) {
	moved := s.moved
	s.moved = nil
	for _, r := range moved {
		s.place(r, now)
	}
}

// place gives a room its turn: when, and before which others.
func (s *site) place(r *room, now time.Time) {
	if r.asked || r.disabled || s.rooms[r.name] != r {
		return
	}
	n, letGo := s.needs(r, now)
	r.need = n
	if letGo {
		s.letGo(r)
		return
	}
	if s.w.once && r.failed == 0 && !r.pending() && !r.read.IsZero() && r.read.After(s.w.began) {
		s.retire(r)
		return
	}
	if !r.live && n != needBoard && !r.named {
		if s.live >= s.o.Live {
			if !r.waits {
				r.waits = true
				s.waiting = append(s.waiting, r)
			}
			return
		}
		r.live = true
		s.live++
	}
	due := now
	switch {
	case r.failed > 0:
		due = r.retry
	case r.pending(), r.read.IsZero() && r.source == 0:
	default:
		due = r.readAt(now).Add(s.interval(r, n, now))
	}
	q := &s.rest
	switch {
	case n == needFresh, r.pending() && r.failed == 0:
		q = &s.fresh
	case n == needHot:
		q = &s.hot
	case n <= needRaced && (r.source == 0 || now.Sub(r.active) < youngTime):
		q = &s.young
	}
	r.enter(q, due)
}

// readAt is when a room was read last; of one that was read before a restart,
// then.
func (r *room) readAt(now time.Time) time.Time {
	if !r.read.IsZero() {
		return r.read
	}
	if at := time.UnixMilli(r.tail.ReadMs); r.tail.ReadMs > 0 && at.Before(now) {
		return at
	}
	return r.known
}

// pending reports whether the room's last read asks for another at once.
func (r *room) pending() bool { return r.export || r.probe != probeNone }

// retire gives up a room's place among the live ones.
func (s *site) retire(r *room) {
	r.leave()
	if r.live {
		r.live = false
		s.live--
		s.promote()
	}
}

// promote gives the place of a room that was let go to the one that waits and is
// needed most.
func (s *site) promote() {
	now := s.w.now()
	for s.live < s.o.Live && len(s.waiting) > 0 {
		best := 0
		for i, r := range s.waiting {
			if s.before(r, s.waiting[best], now) {
				best = i
			}
		}
		r := s.waiting[best]
		s.waiting[best] = s.waiting[len(s.waiting)-1]
		s.waiting = s.waiting[:len(s.waiting)-1]
		r.waits = false
		s.place(r, now)
	}
}

// letGo stops following a room.
func (s *site) letGo(r *room) {
	s.retire(r)
	delete(s.rooms, r.name)
	if r.hint {
		if s.dropped == nil || len(s.dropped) >= maxDropped {
			s.dropped = map[string]bool{}
		}
		s.dropped[r.name] = true
	}
	s.full = false
	if r.source == 0 {
		return
	}
	if err := s.end(r); err != nil {
		s.w.failed = errors.Join(s.w.failed, err)
	}
	s.w.soil(r)
}

// rank says how much a room is needed among those that want to be live: first
// by need, and then by which deadline comes first. A room of one row that the
// venue may soon remove comes before.
func (s *site) rank(r *room, now time.Time) (need, int64) {
	n, _ := s.needs(r, now)
	if r.tail.Rows <= 1 && n != needHint && now.Sub(r.known) > s.limits.Stillborn/stillborn && now.Sub(r.readAt(now)) > s.limits.Stillborn/stillborn {
		n = needFresh
	}
	return n, r.deal.refundMs
}

func (s *site) before(a, b *room, now time.Time) bool {
	an, ad := s.rank(a, now)
	bn, bd := s.rank(b, now)
	return cmp.Or(cmp.Compare(an, bn), cmp.Compare(ad, bd), cmp.Compare(a.name, b.name)) < 0
}

// review places rooms again, now and then: deadlines come near, and quiet rooms
// are let go. Where more want to be live than can be, those that are needed
// most are.
func (s *site) review(now time.Time) {
	if now.Sub(s.ranked) < rankEvery {
		return
	}
	s.ranked = now
	s.full, s.hinted = false, 0
	all := make([]*room, 0, len(s.rooms))
	for _, r := range s.rooms {
		if r.hint {
			s.hinted++
		}
		if n, letGo := s.needs(r, now); !r.asked && !r.disabled && (letGo || n != r.need) {
			s.place(r, now)
		}
		if s.rooms[r.name] == r && r.class != ClassBoard && !r.named && !r.disabled && (r.live || r.waits) {
			all = append(all, r)
		}
	}
	if len(s.waiting) == 0 {
		return
	}
	type ranked struct {
		r    *room
		need need
		at   int64
	}
	order := make([]ranked, len(all))
	for i, r := range all {
		n, at := s.rank(r, now)
		order[i] = ranked{r, n, at}
	}
	slices.SortFunc(order, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.need, b.need), cmp.Compare(a.at, b.at), cmp.Compare(a.r.name, b.r.name))
	})
	s.waiting = s.waiting[:0]
	var enter []*room
	for i, o := range order {
		r := o.r
		switch wants := i < s.o.Live; {
		case wants && !r.live:
			r.waits = false
			enter = append(enter, r)
		case !wants && r.live && !r.asked:
			r.leave()
			r.live = false
			s.live--
			r.waits = true
			s.waiting = append(s.waiting, r)
		case !wants && !r.live:
			s.waiting = append(s.waiting, r)
		}
	}
	for _, r := range enter {
		s.place(r, now)
	}
}

// next returns the room whose turn it is, and where there is none how long it
// takes until there is.
func (s *site) next(now time.Time) (*room, time.Duration) {
	left := forever
	ready := func(q *queue) *room {
		r := q.first()
		if r == nil {
			return nil
		}
		if d := r.due.Sub(now); d > 0 {
			left = min(left, d)
			return nil
		}
		return r
	}
	if b := s.board; b.queue != nil {
		if d := b.due.Sub(now); d <= 0 {
			return b, 0
		} else {
			left = min(left, d)
		}
	}
	if d := s.paused.Sub(now); d > 0 {
		return nil, min(left, d)
	}
	// None of them must keep the others from being read.
	queues := [...]*room{ready(&s.fresh), ready(&s.hot), ready(&s.young), ready(&s.rest)}
	most := [...]int{freshRun, hotRun, 1}
	for i, r := range queues {
		if r == nil {
			continue
		}
		others := false
		for _, o := range queues[i+1:] {
			others = others || o != nil
		}
		if !others {
			return r, 0
		}
		if s.runs[i]++; s.runs[i] <= most[i] {
			return r, 0
		}
		s.runs[i] = 0
	}
	return nil, left
}

// tokens says how long until a request can be sent without waiting.
func (s *site) tokens() time.Duration {
	if d := s.client.Ready(); d > 0 {
		return d
	}
	b := s.client.Budget()
	// Those that were sent may not have taken theirs yet.
	if on := s.sent - b.Taken; on > 0 && b.Left-float64(on) < 1 {
		return 20 * time.Millisecond
	}
	return 0
}

// dispatch sends what can be sent, and says how long until there is more.
func (s *site) dispatch(ctx context.Context, now time.Time) time.Duration {
	wake := forever
	if !s.asking {
		if d := s.discover.Sub(now); d <= 0 {
			s.askLimits(ctx)
		} else if !s.w.once {
			wake = d
		}
	}
	if s.asking && s.discover.IsZero() {
		return wake // the budget is not known yet
	}
	for s.asked < maxAsked {
		r, d := s.next(now)
		if r != nil && r.class != ClassBoard && s.asked >= maxAsked-1 {
			// One is kept for the board.
			if b := s.board; b.queue != nil {
				wake = min(wake, max(b.due.Sub(now), 0))
			}
			return wake
		}
		if r == nil {
			wake = min(wake, d)
			if n := s.dispatchNotes(ctx, now); n > 0 {
				wake = min(wake, n)
			}
			return wake
		}
		if d := s.tokens(); d > 0 {
			return min(wake, d)
		}
		if r.export && r.class != ClassBoard {
			if s.exporting >= dealExports {
				r.enter(r.queue, now.Add(time.Second))
				continue
			}
			s.exporting++
		}
		s.ask(ctx, r)
	}
	return wake
}

// result is what a request brought.
type result struct {
	s      *site
	r      *room
	kind   string // page, export, notes, limits
	q      venue.Query
	page   *venue.Page
	export *venue.Export
	lines  []line
	keys   []string
	space  string
	limits venue.Limits
	err    error
	took   time.Duration
}

func (s *site) ask(ctx context.Context, r *room) {
	r.leave()
	r.asked = true
	s.asked++
	s.sent++
	r.polls++
	res := &result{s: s, r: r, kind: "page"}
	if r.export {
		res.kind = "export"
		atLeast := r.atLeast
		s.w.run(ctx, res, func(ctx context.Context) {
			res.export, res.err = s.client.Export(ctx, r.name, atLeast, func(raw []byte, seq uint64, ok bool) error {
				res.lines = append(res.lines, line{seq, ok, raw})
				return nil
			})
		})
		return
	}
	q := venue.Query{Since: int64(r.tail.Cursor), Limit: pageRows, Bust: true}
	switch {
	case r.probe == probeBare:
		q.Since = -1
	case r.probe == probeFloor:
		q.Since, q.Limit = floorSeq, 1
	case r.tail.Cursor > 0 && r.tail.Hash != "" && !r.tail.Gone && (r.class != ClassBoard || r.polls%againBoard == 0):
		// With the row at the cursor: that it is gone, or another one, shows in
		// no other way. It costs no more reads.
		q.Since--
	}
	res.q = q
	s.w.run(ctx, res, func(ctx context.Context) { res.page, res.err = s.client.Room(ctx, r.name, q) })
}

func (s *site) askLimits(ctx context.Context) {
	s.asking = true
	res := &result{s: s, kind: "limits"}
	s.w.run(ctx, res, func(ctx context.Context) { res.limits, res.err = s.client.Discover(ctx) })
}

// dispatchNotes reads the next namespace of notes where nothing else is to do.
func (s *site) dispatchNotes(ctx context.Context, now time.Time) time.Duration {
	if !s.o.Notes || s.w.once && s.space >= namespaces {
		return 0
	}
	if d := s.notes.Sub(now); d > 0 && !s.w.once {
		return d
	}
	if d := s.tokens(); d > 0 {
		return d
	}
	s.notes = now.Add(notesSweep / namespaces)
	space := fmt.Sprintf("tclk-%02x", s.space%namespaces)
	s.space++
	s.asked++
	s.sent++
	res := &result{s: s, kind: "notes", space: space}
	s.w.run(ctx, res, func(ctx context.Context) { res.keys, res.err = s.client.NoteKeys(ctx, space) })
	return notesSweep / namespaces
}

// handle takes in what a request brought.
func (s *site) handle(res *result) error {
	now := s.w.now()
	if l := &s.w.o.Listener; l.Request != nil {
		l.Request(s.o.Alias, res.kind, Code(res.err), res.took)
	}
	if res.kind == "limits" {
		s.asking = false
		s.learn(res, now)
		return nil
	}
	s.asked--
	if res.r == nil {
		s.hints(res, now)
		return nil
	}
	r := res.r
	r.asked = false
	if res.kind == "export" && r.class != ClassBoard {
		s.exporting--
	}
	if s.rooms[r.name] != r {
		return nil // it was let go meanwhile
	}
	if res.err != nil {
		s.fail(r, res, now)
		s.place(r, now)
		return nil
	}
	s.failures, r.failed, r.refused, r.read = 0, 0, false, now
	var err error
	if res.kind == "export" {
		s.hear(&res.export.Reply)
		err = s.exported(r, res.export, res.lines)
	} else {
		s.hear(&res.page.Reply)
		if r.class == ClassBoard && res.page.LastSeq > r.tail.Cursor && len(res.page.Rows) > 0 {
			s.lag = int64(res.page.LastSeq - r.tail.Cursor)
		}
		err = s.page(r, res.q, res.page)
	}
	if err != nil {
		return err
	}
	if r.class == ClassBoard && !r.pending() {
		s.caught, s.lag = now, 0
	}
	s.place(r, now)
	return nil
}

// fail decides when a room is read again after a failure.
func (s *site) fail(r *room, res *result, now time.Time) {
	var status *venue.StatusError
	var limited *venue.LimitedError
	switch {
	case errors.Is(res.err, venue.ErrNoExport) && !r.tail.Says && (!s.limits.Found || !s.limits.Exports):
		s.exports, r.export = false, false
		s.tellLacks()
		return
	case errors.As(res.err, &limited):
		s.refused++
		// The budget pauses all requests meanwhile.
		r.failed++
		s.failures++
		r.retry = now.Add(time.Second)
		s.giveUp(r, res.err)
		return
	case errors.Is(res.err, context.Canceled):
		return
	case errors.As(res.err, &status) && status.Permanent() && r.class != ClassBoard && res.kind == "page":
		// The venue itself refuses no room. What stands in front of it may change
		// its mind.
		r.failed++
		r.refused, r.retry = true, now.Add(refusedAgain)
		s.w.o.Listener.notice(s.o.Alias, r.name, true, "it is asked for again in "+refusedAgain.String()+": "+res.err.Error())
		if s.w.once {
			r.disabled = true
			s.w.unread++
			s.retire(r)
		}
		return
	}
	if res.kind == "export" {
		// The room may have become another one: look again.
		if r.tries++; r.tries == 1 {
			r.triedFirst = now
		}
		r.tried, r.export = now, false
	}
	r.failed++
	s.failures++
	r.retry = now.Add(backoff(r.failed))
	if s.failures >= outageAfter {
		s.paused = now.Add(backoff(s.failures - outageAfter + 1))
	}
	s.giveUp(r, res.err)
}

// giveUp tells of a failure; a single pass does not try for ever.
func (s *site) giveUp(r *room, err error) {
	last := s.w.once && r.failed >= onceTries
	s.w.o.Listener.notice(s.o.Alias, r.name, last || r.failed >= outageAfter, err.Error())
	if last {
		r.disabled = true
		s.w.unread++
		s.retire(r)
	}
}

// backoff is how long to wait after so many failures in a row: between nothing
// and twice as long each time, up to a limit.
func backoff(failures int) time.Duration {
	most := min(maxBackoff, time.Second<<min(failures-1, 10))
	return most/4 + time.Duration(rand.Int64N(int64(most)*3/4+1))
}

// learn takes in what the venue says of itself.
func (s *site) learn(res *result, now time.Time) {
	s.limits = res.limits
	s.discover, s.unsure = now.Add(limitsEvery), s.unsure+1
	if res.limits.Firm {
		s.unsure = 0
	} else {
		s.discover = now.Add(min(limitsEvery, limitsAgain<<min(s.unsure-1, 10)))
	}
	if res.err != nil {
		s.w.o.Listener.notice(s.o.Alias, s.o.Alias, false, res.err.Error())
		return
	}
	s.exports = res.limits.Exports
	s.tellLacks()
}

// tellLacks says once what an old venue cannot give.
func (s *site) tellLacks() {
	if s.said || s.exports && s.limits.Signatures {
		return
	}
	s.said = true
	if !s.exports {
		s.w.o.Listener.notice(s.o.Alias, s.o.Alias, true, "the venue has no exports: rows that a read skips are lost")
	}
	if !s.limits.Signatures {
		s.w.o.Listener.notice(s.o.Alias, s.o.Alias, true,
			"the venue's rows carry no signatures, so nothing that they say counts and no accept names a room: rooms are those of --room and --notes")
	}
}

// mayHint reports whether a room that nothing but a hint speaks for is followed:
// anybody can make hints.
func (s *site) mayHint(name string) bool {
	if s.dropped[name] {
		return false
	}
	if s.hinted >= maxHints {
		if !s.full {
			s.full = true
			s.w.o.Listener.notice(s.o.Alias, s.o.Alias, true, fmt.Sprintf("%d rooms are known by hints alone: further ones are not followed", maxHints))
		}
		return false
	}
	s.hinted++
	return true
}

// hints takes in the keys of a namespace of notes.
func (s *site) hints(res *result, now time.Time) {
	if res.err != nil {
		s.w.o.Listener.notice(s.o.Alias, s.o.Alias, s.w.once, res.err.Error())
		if s.w.once {
			s.w.unread++
		}
		return
	}
	for _, key := range res.keys[:min(len(res.keys), maxHintKeys)] {
		name := "mb-p-" + res.space + key
		if len(key) != 14 || !protocol.IsDealRoom(name) || s.rooms[name] != nil || !s.mayHint(name) {
			continue
		}
		if r := s.know(name, now); r != nil {
			r.hint = true
			s.place(r, now)
		}
	}
}

// Code is a short word for how a request ended, from a closed list.
func Code(err error) string {
	var (
		status   *venue.StatusError
		limited  *venue.LimitedError
		body     *venue.BodyError
		cut      *venue.CutError
		redirect *venue.RedirectError
		network  *venue.NetworkError
	)
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &limited):
		return "limited"
	case errors.As(err, &status):
		switch {
		case status.Code >= 500:
			return "server-error"
		case status.Permanent():
			return "refused"
		}
		return "status"
	case errors.As(err, &body):
		return "bad-body"
	case errors.As(err, &cut):
		return "cut"
	case errors.As(err, &redirect):
		return "redirect"
	case errors.As(err, &network):
		return "network"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	}
	return "other"
}

// Codes lists the words of Code.
func Codes() []string {
	return []string{"ok", "limited", "server-error", "refused", "status", "bad-body", "cut", "redirect", "network", "cancelled", "other"}
}
