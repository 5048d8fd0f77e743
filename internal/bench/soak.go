package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// What the soak asks of the watcher.
const (
	maxLag     = 10 * time.Second
	maxFirst   = 10 * time.Second
	hotEvery   = 20 * time.Second
	coldEvery  = 150 * time.Second
	boardEvery = 5 * time.Second // as the watcher reads it by default
	maxSoakRSS = 250e6
	maxSoakCPU = 0.25 // of one core
	share      = 0.8  // of the budget, which the watcher keeps to by default

	// A read is due so long after the last one ended, and then takes its turn:
	// what is asked every 20 s is not asked again after 20.0 s.
	turn = 1.10

	// Flat is what rises by no more over the last half of the run.
	flatShare = 0.10

	sampleEvery  = 2 * time.Second
	collectEvery = 30 * time.Second // the watcher's heap, to learn what is left of it
	maxWarmUp    = 15 * time.Minute
	settleTime   = time.Minute
	stopTime     = 15 * time.Second
)

// soakConfig is the load.
type soakConfig struct {
	time           time.Duration
	rooms, hot     int
	offers, board  float64
	readsPerMinute int
}

var soakDefaults = soakConfig{time: 10 * time.Minute, rooms: 1000, hot: 100, offers: 1, board: 15, readsPerMinute: 600}

// marketStats is what the soak reads of the market's counters.
type marketStats struct {
	Rows      map[string]int64 `json:"rows"`
	Reads     int64            `json:"reads"`
	Limited   int64            `json:"limited"`
	LeastLeft float64          `json:"leastLeft"`
	Open      float64          `json:"open"`
}

// roomReads is how the market says that a room was read.
type roomReads struct {
	Room     string  `json:"room"`
	Class    string  `json:"class"`
	Brought  int64   `json:"brought"`
	Accepted int64   `json:"acceptedMs"`
	Locked   int64   `json:"lockedMs"`
	First    int64   `json:"firstMs"`
	At       []int64 `json:"atMs"`
	Lags     []int64 `json:"lagsMs"`
}

// soakSample is how things stood at one moment of the run.
type soakSample struct {
	at                       float64 // seconds since the run began
	lag                      float64 // s, as the metrics say it
	rss, goroutines, sockets float64
}

// soaker is one soak.
type soaker struct {
	c             soakConfig
	market, watch *exec.Cmd
	marketSaid    *said
	watchSaid     *said
	venue, answer string // URLs
	data          string

	begun   time.Time
	samples []soakSample
	heap    []point // after a collection
}

// said is what a program has said so far, up to a limit.
type said struct {
	mu sync.Mutex
	head
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.head.Write(p)
}

func (s *said) find(form *regexp.Regexp) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := form.FindSubmatch(s.Bytes()); m != nil {
		return string(m[1])
	}
	return ""
}

// soak runs the watcher on a simulated market in another process and holds it to
// what is asked of it. It ends with an error where it misses that.
func (b *bench) soak(ctx context.Context) (err error) {
	c := b.soakConfig
	s := &soaker{c: c, data: filepath.Join(b.work, "soak"), marketSaid: &said{head: head{limit: 1 << 16}}, watchSaid: &said{head: head{limit: 1 << 16}}}
	program := filepath.Join(b.work, "market")
	if err := build(ctx, ".", "./internal/market", program); err != nil {
		return err
	}
	b.say("\nsoak: %d live rooms, %d of them hot, %g accepts a second, a board at %g rows/s, %d reads a minute",
		c.rooms, c.hot, c.offers, c.board, c.readsPerMinute)
	s.market = exec.CommandContext(ctx, program, "-for", "24h", "-quiet", "-rooms", fmt.Sprint(c.rooms), "-hot", fmt.Sprint(c.hot),
		"-offers", fmt.Sprint(c.offers), "-board", fmt.Sprint(c.board), "-reads", fmt.Sprint(c.readsPerMinute))
	s.market.Stdout, s.market.Stderr = s.marketSaid, os.Stderr
	if err := s.market.Start(); err != nil {
		return fmt.Errorf("run the market: %w", err)
	}
	defer func() { _, _ = s.market.Process.Kill(), s.market.Wait() }()
	if s.venue, err = awaitText(ctx, s.marketSaid, regexp.MustCompile(`^(http://\S+)\n`)); err != nil {
		return fmt.Errorf("the market: %w", err)
	}
	s.watch = exec.CommandContext(ctx, b.program, "watch", "--venue", "soak="+s.venue, "--data", s.data, "--listen", "127.0.0.1:0", "--pprof", "--log-format", "json")
	s.watch.Stderr = s.watchSaid
	if err := s.watch.Start(); err != nil {
		return fmt.Errorf("run the watcher: %w", err)
	}
	ended := false
	defer func() {
		if !ended {
			_, _ = s.watch.Process.Kill(), s.watch.Wait()
		}
	}()
	address, err := awaitText(ctx, s.watchSaid, regexp.MustCompile(`"address":"([^"]+)"`))
	if err != nil {
		return fmt.Errorf("the watcher: %w\n%s", err, printable(s.watchSaid.String(), 500))
	}
	s.answer = "http://" + address

	warm := time.Now()
	for unread := -1; unread != 0; {
		if err := sleep(ctx, sampleEvery); err != nil {
			return err
		}
		var rooms []roomReads
		if err := get(ctx, s.venue+"/_market/reads", &rooms); err != nil {
			return err
		}
		unread = 0
		for _, r := range rooms {
			if (r.Class == "hot" || r.Class == "cold") && r.First == 0 {
				unread++
			}
		}
		if time.Since(warm) > maxWarmUp {
			return fmt.Errorf("%d of %d rooms were not read within %s", unread, c.rooms, maxWarmUp)
		}
	}
	// What was new meanwhile waits behind them: that ends, too.
	if err := sleep(ctx, min(settleTime, c.time/10)); err != nil {
		return err
	}
	b.say("warm-up, until each of them was read once and some more: %s; now %s", time.Since(warm).Round(time.Second), c.time)

	before, cpu0, busy0, err := s.begin(ctx)
	if err != nil {
		return err
	}
	if err := s.follow(ctx); err != nil {
		return err
	}
	took := time.Since(s.begun)
	cpu1, err := cpuTime(s.watch.Process.Pid)
	if err != nil {
		return err
	}
	marketCPU, err := cpuTime(s.market.Process.Pid)
	if err != nil {
		return err
	}
	busy1, known := machineBusy()
	var rooms []roomReads
	var after, last marketStats
	if err := errors.Join(get(ctx, s.venue+"/_market/reads", &rooms), get(ctx, s.venue+"/_market/stats", &after)); err != nil {
		return err
	}
	if err := s.watch.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	ended = true
	timer := time.AfterFunc(stopTime, func() { _ = s.watch.Process.Kill() })
	werr := s.watch.Wait()
	timer.Stop()
	if werr != nil {
		return fmt.Errorf("the watcher ended badly: %w\n%s", werr, printable(s.watchSaid.String(), 500))
	}
	var end []roomReads
	if err := errors.Join(get(ctx, s.venue+"/_market/reads", &end), get(ctx, s.venue+"/_market/stats", &last)); err != nil {
		return err
	}
	stored, err := b.storedRows(ctx, s.data)
	if err != nil {
		return err
	}
	if known {
		own := cpu1 - cpu0
		b.say("CPU of the watcher over all: %s; the market since its start: %s; other programs took %.0f %% of the machine, the market among them",
			own.Round(time.Millisecond), marketCPU.Round(time.Millisecond), 100*max(0, (busy1-busy0-own).Seconds())/(took.Seconds()*float64(runtime.NumCPU())))
	}
	t := s.judge(rooms, s.begun.UnixMilli(), took)
	t.rate("429s for an exceeded budget", 0, float64(after.Limited), "%.0f")
	t.plain("reads a minute, of them allowed", fmt.Sprintf("%.0f of %d; tokens left at the lowest %.0f",
		float64(after.Reads-before.Reads)/took.Minutes(), c.readsPerMinute, after.LeastLeft))
	t.rate("CPU, % of one core", 100*maxSoakCPU, 100*(cpu1-cpu0).Seconds()/took.Seconds(), "%.1f")
	held := int64(0)
	for _, n := range last.Rows {
		held += n
	}
	t.stored(stored, end)
	t.plain("rows held by the venue in all", fmt.Sprint(held))
	b.say("%s", t.text.String())
	if len(t.missed) > 0 {
		return fmt.Errorf("the soak missed: %s", strings.Join(t.missed, "; "))
	}
	return nil
}

// begin takes the counters from which the run counts.
func (s *soaker) begin(ctx context.Context) (before marketStats, cpu, busy time.Duration, err error) {
	if err = get(ctx, s.venue+"/_market/stats", &before); err != nil {
		return
	}
	busy, _ = machineBusy()
	s.begun = time.Now()
	cpu, err = cpuTime(s.watch.Process.Pid)
	return
}

// follow samples until the run is over.
func (s *soaker) follow(ctx context.Context) error {
	var collected time.Time
	for time.Since(s.begun) < s.c.time {
		if time.Since(collected) > collectEvery {
			collected = time.Now()
			heap, err := s.collect(ctx)
			if err != nil {
				return err
			}
			s.heap = append(s.heap, point{time.Since(s.begun).Seconds(), heap})
		}
		x, err := s.sample(ctx)
		if err != nil {
			return err
		}
		s.samples = append(s.samples, x)
		if err := sleep(ctx, sampleEvery); err != nil {
			return err
		}
	}
	return nil
}

// sample reads the watcher's metrics and what the system says of it.
func (s *soaker) sample(ctx context.Context) (x soakSample, err error) {
	m, err := metrics(ctx, s.answer+"/metrics")
	if err != nil {
		return x, err
	}
	var st marketStats
	if err := get(ctx, s.venue+"/_market/stats", &st); err != nil {
		return x, err
	}
	now := time.Now()
	x = soakSample{at: now.Sub(s.begun).Seconds(), lag: math.Inf(1), goroutines: m["go_goroutines"], sockets: st.Open, rss: m["process_resident_memory_bytes"]}
	if at, ok := m[`tclk_audit_board_caught_up_timestamp_seconds{venue="soak"}`]; ok {
		x.lag = float64(now.UnixMicro())/1e6 - at
	}
	return x, nil
}

var heapAlloc = regexp.MustCompile(`(?m)^# HeapAlloc = ([0-9]+)$`)

// collect makes the watcher collect its garbage, and returns the bytes that are
// left.
func (s *soaker) collect(ctx context.Context) (float64, error) {
	b, err := fetch(ctx, s.answer+"/debug/pprof/heap?gc=1&debug=1")
	if err != nil {
		return 0, err
	}
	m := heapAlloc.FindSubmatch(b)
	if m == nil {
		return 0, errors.New("the heap profile of the watcher does not say HeapAlloc")
	}
	return strconv.ParseFloat(string(m[1]), 64)
}

// judge makes the table of what was measured since a time in Unix ms.
func (s *soaker) judge(rooms []roomReads, from int64, took time.Duration) *table {
	to := from + took.Milliseconds()
	var first, second, lock, lag []float64
	gaps := map[string][]float64{}
	late, slow := 0, []string(nil)
	for _, r := range rooms {
		for i, d := range r.Lags {
			if r.At[i] >= from {
				lag = append(lag, float64(d)/1000)
			}
		}
		if (r.Class == "new" || r.Class == "rival") && r.Accepted >= from {
			list := &first
			if r.Class == "rival" {
				list = &second
			}
			switch {
			case r.First > 0:
				*list = append(*list, float64(max(r.First-r.Accepted, 0))/1000)
			case to-r.Accepted > maxFirst.Milliseconds():
				*list = append(*list, float64(to-r.Accepted)/1000)
				late++
			}
			if n := len(first); list == &first && n > 0 && first[n-1] > maxFirst.Seconds() {
				slow = append(slow, fmt.Sprintf("%s at %d s", r.Room, (r.Accepted-from)/1000))
			}
		}
		if r.Class == "new" && r.Locked >= from {
			next := to
			if i := slices.IndexFunc(r.At, func(at int64) bool { return at >= r.Locked }); i >= 0 {
				next = r.At[i]
			}
			lock = append(lock, float64(max(next-r.Locked, 0))/1000)
		}
		if r.Class != "hot" && r.Class != "cold" && r.Class != "board" {
			continue
		}
		// A gap of which the run saw a part counts with that part, where it is
		// already too long.
		for i, at := range r.At {
			next, whole := to, false
			if i+1 < len(r.At) {
				next, whole = r.At[i+1], at >= from
			}
			d := float64(min(next, to)-max(at, from)) / 1000
			if d > 0 && (whole && next <= to || d > s.asked(r.Class).Seconds()) {
				gaps[r.Class] = append(gaps[r.Class], d)
			}
		}
	}
	var lagSaid, rss, goroutines, sockets []point
	for _, x := range s.samples {
		lagSaid = append(lagSaid, point{x.at, x.lag})
		rss, goroutines, sockets = append(rss, point{x.at, x.rss}), append(goroutines, point{x.at, x.goroutines}), append(sockets, point{x.at, x.sockets})
	}
	t := &table{}
	t.head()
	b := s.c.budget()
	t.times("board lag, as the metrics say it", maxLag, boardEvery, values(lagSaid), 1)
	t.times("board lag, as the market knows it", maxLag, boardEvery, lag, 1)
	t.times("from a new accept to the first read of its room", maxFirst, 0, first, 1)
	t.row("the same of a second accept to an offer", "-", "-", seconds1(second, 0.5), seconds1(second, 0.99), seconds1(second, 1), "")
	t.row("from a lock in such a room to the read that brings it", "-", "-", seconds1(lock, 0.5), seconds1(lock, 0.99), seconds1(lock, 1), "")
	t.times("between reads of a hot room", hotEvery, b.hot, gaps["hot"], turn)
	t.times("between reads of a cold room", coldEvery, b.cold, gaps["cold"], turn)
	if late > 0 {
		t.plain("accepts whose room was not read yet at the end", fmt.Sprint(late))
	}
	if len(slow) > 0 {
		t.plain("accepts whose room was read late", strings.Join(slow[:min(len(slow), 5)], ", "))
	}
	t.rate("resident memory, MB, max", maxSoakRSS/1e6, slices.Max(values(rss))/1e6, "%.0f")
	t.flat("heap after a collection, MB", scale(s.heap, 1e-6))
	t.flat("goroutines", goroutines)
	t.flat("open connections to the venue", sockets)
	return t
}

// asked is how often rooms of a class are to be read.
func (s *soaker) asked(class string) time.Duration {
	switch class {
	case "hot":
		return hotEvery
	case "cold":
		return coldEvery
	}
	return boardEvery
}

// allowed is how often rooms can be read at best.
type allowed struct{ hot, cold time.Duration }

// budget is what the watcher's share of the budget allows, when the board comes
// first, then first reads of new rooms, then hot rooms, and then all others.
// Reads of new rooms after their first one come out of the same share, and are
// not in this sum.
func (c *soakConfig) budget() allowed {
	every := func(rooms int, asked time.Duration, left float64) (time.Duration, float64) {
		need := float64(rooms) * time.Minute.Seconds() / asked.Seconds()
		if need <= left {
			return asked, left - need
		}
		if left <= 0 {
			return math.MaxInt64, 0
		}
		return time.Duration(float64(rooms) / left * float64(time.Minute)), 0
	}
	left := share*float64(c.readsPerMinute) - float64(time.Minute/boardEvery) - 60*c.offers
	var a allowed
	a.hot, left = every(c.hot, hotEvery, left)
	a.cold, _ = every(c.rooms-c.hot, coldEvery, left)
	return a
}

// storedRows counts the rows in a store, by room.
func (b *bench) storedRows(ctx context.Context, data string) (map[string]int64, error) {
	out, err := exec.CommandContext(ctx, b.program, "status", "--json", "--limit", "0", "--data", data).Output()
	if err != nil {
		return nil, fmt.Errorf("ask the store for its status: %w", err)
	}
	var st struct {
		Sources []struct {
			Room string `json:"room"`
			Rows int64  `json:"rows"`
		} `json:"sources"`
	}
	if err := json.Unmarshal(out, &st); err != nil {
		return nil, fmt.Errorf("read the status of the store: %w", err)
	}
	rows := map[string]int64{}
	for _, s := range st.Sources {
		rows[s.Room] += s.Rows
	}
	return rows, nil
}

// point is a value at a time in seconds.
type point struct{ at, value float64 }

func values(points []point) []float64 {
	out := make([]float64, len(points))
	for i, p := range points {
		out[i] = p.value
	}
	return out
}

func scale(points []point, by float64) []point {
	out := slices.Clone(points)
	for i := range out {
		out[i].value *= by
	}
	return out
}

// rise is by how much the line through the last half of the points rises over
// it, and mid their mean.
func rise(points []point) (rise, mid float64) {
	if len(points) < 2 {
		return 0, 0
	}
	end := points[len(points)-1].at
	half := points[slices.IndexFunc(points, func(p point) bool { return p.at >= end/2 }):]
	var n, x, y, xx, xy float64
	for _, p := range half {
		n, x, y, xx, xy = n+1, x+p.at, y+p.value, xx+p.at*p.at, xy+p.at*p.value
	}
	if d := n*xx - x*x; d > 0 {
		rise = (n*xy - x*y) / d * (half[len(half)-1].at - half[0].at)
	}
	return rise, y / n
}

// quantile is the least value that is not below the share q of all.
func quantile(all []float64, q float64) float64 {
	if len(all) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

// table is what the soak says in the end.
type table struct {
	text   strings.Builder
	missed []string
}

func (t *table) head() {
	fmt.Fprintf(&t.text, "\n| | asked | the budget allows | p50 | p99 | max | |\n| --- | --- | --- | --- | --- | --- | --- |\n")
}

func (t *table) row(cells ...string) {
	fmt.Fprintf(&t.text, "| %s |\n", strings.Join(cells, " | "))
}

// verdict says whether something is as asked, and notes where not.
func (t *table) verdict(what string, ok bool) string {
	if ok {
		return "held"
	}
	t.missed = append(t.missed, what)
	return "**missed**"
}

// times judges times in seconds: the 99th of a hundred must not be above what is
// asked by more than a factor. What the budget excludes is not judged.
func (t *table) times(what string, asked, best time.Duration, all []float64, factor float64) {
	max, p99 := quantile(all, 1), quantile(all, 0.99)
	judged := p99
	if factor == 1 {
		judged = max
	}
	allows := "-"
	if best == math.MaxInt64 {
		allows = "no read"
	} else if best > 0 {
		allows = fmt.Sprintf("%.0f s", best.Seconds())
	}
	verdict := ""
	switch {
	case len(all) == 0:
		verdict = t.verdict(what+": nothing was measured", false)
	case best > asked:
		verdict = "excluded by the budget"
	default:
		verdict = t.verdict(what, judged <= asked.Seconds()*factor)
	}
	t.row(what, fmt.Sprintf("%.0f s", asked.Seconds()), allows, seconds1(all, 0.5), seconds1(all, 0.99), seconds1(all, 1), verdict)
}

// seconds1 writes a quantile of seconds.
func seconds1(all []float64, q float64) string {
	if len(all) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f s", quantile(all, q))
}

func (t *table) rate(what string, most, value float64, form string) {
	asked := fmt.Sprintf("at most %.0f", most)
	if most == 0 {
		asked = "none"
	}
	t.row(what, asked, "", "", "", fmt.Sprintf(form, value), t.verdict(what, value <= most))
}

func (t *table) flat(what string, points []point) {
	up, mid := rise(points)
	t.row(what, "flat", "", fmt.Sprintf("%.1f", quantile(values(points), 0.5)), "", fmt.Sprintf("%.1f", quantile(values(points), 1)),
		fmt.Sprintf("%s: %+.2f over the last half", t.verdict(what, up <= max(flatShare*mid, 1)), up))
}

// stored judges that the rows of each room which were there when it was read last
// are in the store.
func (t *table) stored(stored map[string]int64, rooms []roomReads) {
	var have, want int64
	var wrong []string
	for _, r := range rooms {
		have, want = have+stored[r.Room], want+r.Brought
		if stored[r.Room] < r.Brought {
			wrong = append(wrong, fmt.Sprintf("%s (%s) %d of %d", r.Room, r.Class, stored[r.Room], r.Brought))
		}
	}
	what := "rows stored, of those that were there at the last read of their room"
	verdict := t.verdict(what, len(wrong) == 0)
	if len(wrong) > 0 {
		verdict += ": " + strings.Join(wrong[:min(len(wrong), 5)], ", ")
	}
	t.row(what, fmt.Sprint(want), "", "", "", fmt.Sprint(have), verdict)
}

func (t *table) plain(what, value string) { t.row(what, "", "", "", "", value, "") }

// metrics reads the samples of a page of metrics, by name with labels.
func metrics(ctx context.Context, url string) (map[string]float64, error) {
	b, err := fetch(ctx, url)
	if err != nil {
		return nil, err
	}
	m := map[string]float64{}
	lines := bufio.NewScanner(bytes.NewReader(b))
	for lines.Scan() {
		name, value, ok := cutLast(lines.Text(), " ")
		if v, err := strconv.ParseFloat(value, 64); ok && err == nil && !strings.HasPrefix(name, "#") {
			m[name] = v
		}
	}
	return m, lines.Err()
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// cpuTime is the time that a process has worked, from /proc (Linux).
func cpuTime(pid int) (time.Duration, error) {
	path := fmt.Sprintf("/proc/%d/stat", pid)
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("%w: the soak needs /proc, as on Linux", err)
	}
	// The name in the second field may hold anything; what follows does not.
	_, rest, _ := cutLast(string(b), ")")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("%s has too few fields", path)
	}
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond, errors.Join(err1, err2)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// awaitText waits until a program has said something of a form.
func awaitText(ctx context.Context, from *said, form *regexp.Regexp) (string, error) {
	for range 300 {
		if s := from.find(form); s != "" {
			return s, nil
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return "", err
		}
	}
	return "", errors.New("it did not start within 30 s")
}

func fetch(ctx context.Context, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: status %d", url, res.StatusCode)
	}
	return b, err
}

func get(ctx context.Context, url string, to any) error {
	b, err := fetch(ctx, url)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, to); err != nil {
		return fmt.Errorf("%s: %w", url, err)
	}
	return nil
}
