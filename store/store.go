package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/tclk-audit/tclk-audit/fold"
)

const (
	// Format is the on-disk format that this program writes. It only rises; an
	// older store is migrated when it is opened for writing.
	Format = 1
	// FoldVersion rises whenever the same rows come to other conclusions or
	// other events: then a rebuild is needed.
	FoldVersion = 1
	// engineFormat pins Pebble's own on-disk format.
	engineFormat = pebble.FormatVirtualSSTables

	memTableBytes = 32 << 20
	memTableCount = 4
	cacheBytes    = 32 << 20
	readBytes     = 160 << 20 // the cache of who only reads: contracts lie all over the store
)

// Options of a store. The zero value opens one for writing under the rules that
// it has, or the spec's where it is new.
type Options struct {
	ReadOnly bool
	Existing bool // never makes a store: ErrNoStore where there is none
	// Rules are set where the store is new. In an existing one other rules are
	// a *StaleError, unless Rules is nil: then its own stay in force.
	Rules *fold.Rules
	// AcceptLoss goes on with a store that holds less than it acknowledged.
	AcceptLoss bool
	// Rebuilding opens a store whose conclusions are stale.
	Rebuilding bool
	FS         vfs.FS // the file system; nil: the disk
	// Fatal is told of an error after which the database cannot go on, and must
	// not return. Nil panics.
	Fatal func(error)
}

var venueAlias = regexp.MustCompile(`^[a-z0-9-]{1,32}$`)

// ValidVenue reports whether a venue alias is well formed: 1 to 32 of a-z, 0-9
// and -.
func ValidVenue(alias string) bool { return venueAlias.MatchString(alias) }

// maxVenues is how many venues one store can hold.
const maxVenues = 250

// Store is an open store. Reading is safe for concurrent use.
type Store struct {
	dir    string
	fs     vfs.FS
	db     *pebble.DB
	opts   Options
	rules  fold.Rules
	was    fold.Rules // those that the conclusions were reached under
	mark   *markFile
	marked mark
	behind error // a *BehindError, or a *DamagedError of the mark
	lock   *pebble.Lock
	disk   *diskFS

	mu     sync.RWMutex
	state  state
	venues []*venue // by number-1

	faults  faults
	writing bool
}

// state is the store's counters, written with every window.
type state struct {
	log     uint64 // entries in the log: the last one's position
	events  uint64
	sources uint32
	ticks   uint64
	rows    [7]int64 // by verify.Class; 0: malformed, 5: torn, 6: second sightings
	bytes   int64    // of rows
	noBytes int64    // rows kept without their bytes
	unused  int64    // bytes kept of rows that cannot be used
	pruned  int64
	cuts    []uint32 // sources with rows that could not be read and no room could be told for
}

func (s *state) append(dst []byte) []byte {
	for _, v := range [...]uint64{s.log, s.events, uint64(s.sources), s.ticks} {
		dst = binary.AppendUvarint(dst, v)
	}
	for _, v := range s.rows {
		dst = binary.AppendVarint(dst, v)
	}
	for _, v := range [...]int64{s.bytes, s.noBytes, s.unused, s.pruned} {
		dst = binary.AppendVarint(dst, v)
	}
	dst = binary.AppendUvarint(dst, uint64(len(s.cuts)))
	for _, c := range s.cuts {
		dst = binary.AppendUvarint(dst, uint64(c))
	}
	return dst
}

func readState(b []byte) (s state, err error) {
	d := dec{b: b}
	s.log, s.events, s.sources, s.ticks = d.uint(), d.uint(), uint32(d.uint()), d.uint()
	for i := range s.rows {
		s.rows[i] = d.int()
	}
	s.bytes, s.noBytes, s.unused, s.pruned = d.int(), d.int(), d.int(), d.int()
	for range min(d.uint(), uint64(len(d.b))) {
		s.cuts = append(s.cuts, uint32(d.uint()))
	}
	return s, d.err
}

// Open opens the store in dir, and makes one where there is none unless it is
// only to be read.
//
// The errors are ErrNoStore, ErrLocked, *DamagedError, *VersionError,
// *StaleError and *FullError; a *BehindError comes from NewWriter and from Behind.
func Open(dir string, o Options) (*Store, error) {
	fs := o.FS
	if fs == nil {
		fs = vfs.Default
		if o.ReadOnly {
			fs = readers{fs}
		}
	}
	s := &Store{dir: dir, fs: fs, opts: o}
	if err := s.open(); err != nil {
		return nil, errors.Join(err, s.abandon())
	}
	return s, nil
}

func (s *Store) path(name string) string { return s.fs.PathJoin(s.dir, name) }

// Dir is the store's folder.
func (s *Store) Dir() string { return s.dir }

// Rules are the rules in force.
func (s *Store) Rules() fold.Rules { return s.rules }

func (s *Store) abandon() error {
	var err error
	if s.db != nil {
		s.disk.closing.Store(true)
		err = s.explain(s.db.Close())
	}
	if s.mark != nil {
		err = errors.Join(err, s.mark.close())
	}
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
	}
	return err
}

func (s *Store) open() (err error) {
	db := s.path("db")
	_, err = s.fs.Stat(db)
	switch {
	case err == nil:
	case !errors.Is(err, os.ErrNotExist):
		return cannot("opening", db, err)
	case s.opts.ReadOnly || s.opts.Existing || s.opts.Rebuilding:
		return noStore(s.dir)
	default:
		if err := s.makeDir(db); err != nil {
			return cannot("making", db, err)
		}
	}
	if s.lock, err = pebble.LockDirectory(db, s.fs); err != nil {
		var path *os.PathError
		if errors.As(err, &path) {
			return cannot("locking", db, err)
		}
		return fmt.Errorf("%w: %s", ErrLocked, s.dir)
	}
	exists, empty, err := s.exists(db)
	if err != nil {
		return err
	}
	m, err := readMark(s.fs, s.path(markName))
	var damaged *DamagedError
	if errors.As(err, &damaged) {
		s.behind = damaged
	} else if err != nil {
		return err
	}
	switch {
	case exists:
	case m.log > 0 || s.behind != nil && !empty:
		return &DamagedError{File: db, Err: errors.New("its newest manifest is not there"), Do: doRestore}
	case s.opts.ReadOnly || s.opts.Existing || s.opts.Rebuilding:
		return noStore(s.dir)
	default:
		// A new one, or one whose making was cut short. The mark comes first, and
		// is durable before there is a database: one without a mark has lost it.
		s.behind = nil
		if s.mark, err = openMark(s.fs, s.path(markName), m); err == nil {
			err = s.mark.write(mark{})
		}
		if err == nil {
			err = s.syncDir(s.dir)
		}
		if err != nil {
			return err
		}
	}
	if err := s.openDB(db); err != nil {
		return err
	}
	if err := s.load(m.log == 0 && s.behind == nil); err != nil {
		return err
	}
	if err := s.checkTail(); err != nil {
		return err
	}
	if s.state.log < m.log || s.state.events < m.events {
		s.behind = &BehindError{Dir: s.dir, Log: s.state.log, Acked: m.log, Events: s.state.events, AckedEvs: m.events}
	}
	accept := s.behind != nil && s.opts.AcceptLoss
	if s.opts.ReadOnly || s.behind != nil && !accept {
		return nil
	}
	if s.mark == nil {
		if s.mark, err = openMark(s.fs, s.path(markName), m); err != nil {
			return err
		}
		if err := s.syncDir(s.dir); err != nil {
			return err
		}
	}
	s.marked = m.mark
	if accept || m.log == 0 {
		s.behind = nil
		return s.acknowledge()
	}
	return nil
}

// makeDir makes a folder and those above it, durably.
func (s *Store) makeDir(dir string) error {
	if _, err := s.fs.Stat(dir); err == nil || !errors.Is(err, os.ErrNotExist) {
		return err
	}
	parent := s.fs.PathDir(dir)
	if parent != dir {
		if err := s.makeDir(parent); err != nil {
			return err
		}
	}
	if err := s.fs.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return s.syncDir(parent)
}

func (s *Store) syncDir(dir string) error {
	d, err := s.fs.OpenDir(dir)
	if err != nil {
		return cannot("syncing", dir, err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return cannot("syncing", dir, err)
	}
	return nil
}

// exists reports whether there is a database, and whether there is nothing of
// one: to begin a new one removes what belongs to none.
func (s *Store) exists(db string) (exists, empty bool, err error) {
	desc, err := pebble.Peek(db, s.fs)
	if err != nil {
		return false, false, s.explain(err)
	}
	files, err := s.fs.List(db)
	if err != nil {
		return false, false, cannot("listing", db, err)
	}
	return desc.Exists, len(files) <= 1, nil // the lock
}

// checkTail looks for holes in the part of the log that may have stood in
// write-logs alone. Pebble replays those that are there: it does not miss one
// from among them.
func (s *Store) checkTail() error {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{keyLog}, UpperBound: []byte{keyLog + 1}})
	if err != nil {
		return s.explain(err)
	}
	const memTables = memTableCount + 2 // those that wait for a flush, the open one, and one that is being flushed
	// A memtable holds so many bytes of the log at most, or one window.
	left, window := memTables*memTableBytes, 0
	next := s.state.log
	for ok := it.Last(); ok && left > 0; ok = it.Prev() {
		if pos := binary.BigEndian.Uint64(it.Key()[1:]); pos != next {
			err = &DamagedError{File: s.path("db"), Err: fmt.Errorf("entries %d to %d of the log are not there: a write-log (*.log) is lost", pos+1, next), Do: doRestore}
			return errors.Join(err, it.Close())
		}
		v, err := it.ValueAndErr()
		if err != nil {
			break
		}
		if len(v) > 0 && entryKind(v[0]) == entryTick {
			left -= min(window, memTableBytes)
			window = 0
		}
		window += len(v)
		next--
	}
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		return s.explain(err)
	}
	if left > 0 && next != 0 {
		return &DamagedError{File: s.path("db"), Err: fmt.Errorf("entries 1 to %d of the log are not there", next), Do: doRestore}
	}
	return nil
}

// acknowledge makes the mark say what the database holds.
func (s *Store) acknowledge() error {
	m := mark{s.state.log, s.state.events}
	if err := s.mark.write(m); err != nil {
		return err
	}
	s.marked = m
	return nil
}

// Behind returns a *BehindError where the store holds less than it
// acknowledged, a *DamagedError where it cannot tell, else nil.
func (s *Store) Behind() error { return s.behind }

// logger keeps Pebble quiet, and its last words.
type logger struct{ s *Store }

func (l logger) Infof(string, ...any)  {}
func (l logger) Errorf(string, ...any) {}
func (l logger) Fatalf(format string, args ...any) {
	cause := fmt.Errorf(strings.ReplaceAll(format, "%s", "%v"), args...)
	for _, a := range args {
		if err, ok := a.(error); ok {
			cause = err
		}
	}
	err := l.s.explain(cause)
	var full *FullError
	var damaged *DamagedError
	if !errors.As(err, &full) && !errors.As(err, &damaged) {
		err = fmt.Errorf("store: the database in %s cannot go on: %w: what was acknowledged is kept; see that its disk works, and run the command again", l.s.dir, cause)
	}
	if l.s.opts.Fatal != nil {
		l.s.opts.Fatal(err)
	}
	panic(err)
}

func (s *Store) engine() *pebble.Options {
	o := &pebble.Options{
		FS: s.fs, Lock: s.lock, Logger: logger{s}, ReadOnly: s.opts.ReadOnly,
		FormatMajorVersion: engineFormat, ErrorIfNotExists: false,
		MemTableSize: memTableBytes, MemTableStopWritesThreshold: memTableCount, CacheSize: cacheBytes,
		L0CompactionThreshold: 16, L0CompactionFileThreshold: 4000, L0StopWritesThreshold: 64, LBaseMaxBytes: 256 << 20, FlushSplitBytes: 4 << 20,
		MaxOpenFiles: 500,
	}
	if s.opts.ReadOnly {
		o.CacheSize = readBytes
	}
	o.EventListener = &pebble.EventListener{
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			s.faults.Lock()
			defer s.faults.Unlock()
			s.faults.damaged = info.Path
		},
		BackgroundError: s.background,
		FlushEnd: func(info pebble.FlushInfo) {
			if info.Err == nil {
				s.background(nil)
			}
		},
		CompactionEnd: func(info pebble.CompactionInfo) {
			if info.Err == nil {
				s.background(nil)
			}
		},
	}
	for i := range o.Levels {
		l := &o.Levels[i]
		l.BlockSize = 16 << 10
		l.FilterPolicy = bloom.FilterPolicy(10)
		l.Compression = func() *sstable.CompressionProfile { return sstable.SnappyCompression }
	}
	return o
}

func (s *Store) openDB(path string) (err error) {
	defer func() {
		// Pebble panics on some damaged files, and on some errors of the disk.
		r := recover()
		if e, ok := r.(error); ok && !errors.As(e, new(runtime.Error)) {
			err = s.explain(e)
		} else if r != nil {
			err = &DamagedError{File: path, Err: fmt.Errorf("%v", r), Do: doRestore}
		}
	}()
	s.disk = &diskFS{FS: s.fs, fatal: func(err error) { logger{s}.Fatalf("%v", err) }}
	o := s.engine()
	o.FS = s.disk
	s.db, err = pebble.Open(path, o)
	return s.explain(err)
}

// faults is what Pebble tells beside the errors of calls.
type faults struct {
	sync.Mutex
	damaged    string // the file that does not match its checksums
	background error  // what a compaction met
}

// background is told how flushes and compactions end. Pebble tries again at
// once, and for ever, and meanwhile writing stalls: that ends here. Damaged
// tables it leaves alone.
func (s *Store) background(err error) {
	if err != nil && !pebble.IsCorruptionError(err) {
		logger{s}.Fatalf("%v", err)
	}
	s.faults.Lock()
	defer s.faults.Unlock()
	s.faults.background = err
}

// failing returns the damage that the last flush or compaction met.
func (s *Store) failing() error {
	s.faults.Lock()
	err := s.faults.background
	s.faults.Unlock()
	return s.explain(err)
}

// fileName finds the file of a database that an error is about, and tableNumber
// the number of a table where it is named so.
var (
	fileName    = regexp.MustCompile(`\b(\d{6}\.(sst|log)|(MANIFEST|OPTIONS)-\d{6}|marker\.[a-z-]+\.\d{6}\.[A-Z0-9-]+)`)
	tableNumber = regexp.MustCompile(`\b(?:file|table) (\d{6})\b`)
)

// explain turns an error of the database into one that says what to do.
func (s *Store) explain(err error) error {
	var damaged *DamagedError
	var full *FullError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pebble.ErrNotFound), errors.Is(err, pebble.ErrClosed), errors.As(err, &damaged), errors.As(err, &full):
		return err
	case errors.Is(err, syscall.ENOSPC):
		return &FullError{Dir: s.dir, Err: err}
	}
	text := err.Error()
	file := s.path("db")
	if name := fileName.FindString(text); name != "" {
		file = s.fs.PathJoin(file, name)
	} else if m := tableNumber.FindStringSubmatch(text); m != nil {
		file = s.fs.PathJoin(file, m[1]+".sst")
	}
	switch {
	case strings.Contains(text, "unknown format major version"):
		return &VersionError{Dir: s.dir, Err: err}
	case pebble.IsCorruptionError(err):
		s.faults.Lock()
		defer s.faults.Unlock()
		if s.faults.damaged != "" {
			file = s.faults.damaged
		}
		return &DamagedError{File: file, Err: err, Do: doRestore}
	case strings.Contains(text, "key=value syntax"), strings.Contains(text, "name from options"):
		desc, e := pebble.Peek(file, s.fs)
		if e == nil && desc.OptionsFilename != "" {
			file = desc.OptionsFilename
		}
		return &DamagedError{File: file, Err: err, Do: "remove that file: it holds settings alone, and is written anew"}
	case errors.Is(err, os.ErrNotExist), strings.Contains(text, "does not exist"), strings.Contains(text, "object size mismatch"),
		strings.Contains(text, "not pristine"):
		return &DamagedError{File: file, Err: err, Do: doRestore}
	}
	return fmt.Errorf("store: %s: %w", s.path("db"), err)
}

// The meta keys.
const (
	metaFormat = "format"
	metaFold   = "fold"
	metaRules  = "rules"
	metaState  = "state"
	metaVenue  = "venue/" // and the number, three digits
)

func venueKey(n int) []byte { return metaKey(fmt.Sprintf("%s%03d", metaVenue, n)) }

func metaKey(name string) []byte { return append([]byte{keyMeta}, name...) }

func (s *Store) get(k []byte) ([]byte, error) {
	v, closer, err := s.db.Get(k)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	} else if err != nil {
		return nil, s.explain(err)
	}
	out := append([]byte{}, v...)
	return out, closer.Close()
}

// load reads what the store keeps in memory, and begins a new one.
func (s *Store) load(mayBegin bool) error {
	b, err := s.get(metaKey(metaFormat))
	if err != nil {
		return err
	}
	if b == nil {
		switch {
		case !mayBegin:
			return &DamagedError{File: s.path("db"), Err: errors.New("it is empty"), Do: doRestore}
		case s.opts.ReadOnly || s.opts.Rebuilding:
			return noStore(s.dir)
		}
		return s.begin()
	}
	d := dec{b: b}
	format := d.uint()
	switch {
	case d.err != nil:
		return &DamagedError{File: s.path("db"), Err: d.err, Do: doRestore}
	case format > Format:
		return &VersionError{Dir: s.dir, Have: format, Known: Format}
	}
	rules, err := s.get(metaKey(metaRules))
	if err != nil {
		return err
	}
	if s.rules, err = parseRules(string(rules)); err != nil {
		// A newer program knows more rules.
		if s.opts.Rules == nil || !s.opts.Rebuilding {
			return &StaleError{Dir: s.dir, Have: fmt.Sprintf("rules %q, which this program does not know", rules), Want: "rules that it knows"}
		}
		s.rules = *s.opts.Rules
	}
	s.was = s.rules
	version, err := s.get(metaKey(metaFold))
	if err != nil {
		return err
	}
	d = dec{b: version}
	have := fmt.Sprintf("%s, fold %d", s.rules, d.uint())
	want := fmt.Sprintf("%s, fold %d", s.rules, FoldVersion)
	if s.opts.Rules != nil {
		want = fmt.Sprintf("%s, fold %d", *s.opts.Rules, FoldVersion)
	}
	if have != want && !s.opts.Rebuilding {
		return &StaleError{Dir: s.dir, Have: have, Want: want}
	}
	if s.opts.Rebuilding && s.opts.Rules != nil {
		s.rules = *s.opts.Rules
	}
	if b, err = s.get(metaKey(metaState)); err != nil {
		return err
	}
	if s.state, err = readState(b); err != nil {
		return &DamagedError{File: s.path("db"), Err: err, Do: doRestore}
	}
	return s.loadVenues()
}

// parseRules reads what fold.Rules.String wrote.
func parseRules(s string) (fold.Rules, error) {
	words := strings.Split(s, "+")
	return fold.ParseRules(words[0], words[1:])
}

// begin writes what every store has.
func (s *Store) begin() error {
	if s.opts.Rules != nil {
		s.rules = *s.opts.Rules
	}
	s.was = s.rules
	b := s.db.NewBatch()
	defer b.Close()
	s.state = state{log: 1}
	e := entry{kind: entryRules, word: s.rules.String()}
	err := errors.Join(
		b.Set(metaKey(metaFormat), binary.AppendUvarint(nil, Format), nil),
		b.Set(metaKey(metaFold), binary.AppendUvarint(nil, FoldVersion), nil),
		b.Set(metaKey(metaRules), []byte(s.rules.String()), nil),
		b.Set(logKey(nil, 1), e.append(nil), nil),
		b.Set(metaKey(metaState), s.state.append(nil), nil),
		b.Commit(pebble.Sync),
		// A store that loses its write-log still knows what it is.
		s.db.Flush(),
	)
	return s.explain(err)
}

// reload forgets what a window said that was given up.
func (s *Store) reload() error {
	b, err := s.get(metaKey(metaState))
	if err != nil {
		return err
	}
	state, err := readState(b)
	if err != nil {
		return &DamagedError{File: s.path("db"), Err: err, Do: doRestore}
	}
	s.mu.Lock()
	s.state, s.venues = state, nil
	s.mu.Unlock()
	return s.loadVenues()
}

func (s *Store) loadVenues() error {
	for n := 1; ; n++ {
		b, err := s.get(venueKey(n))
		if err != nil {
			return err
		}
		if b == nil {
			return nil
		}
		v, err := readVenue(uint8(n), b)
		if err != nil {
			return &DamagedError{File: s.path("db"), Err: err, Do: doRestore}
		}
		s.venues = append(s.venues, v)
	}
}

// venueNo returns the number of a venue, 0 where the store has none of that
// alias.
func (s *Store) venueNo(alias string) uint8 {
	i := slices.IndexFunc(s.venues, func(v *venue) bool { return v.alias == alias })
	return uint8(i + 1)
}

// Close closes the store. A Writer must be closed before.
func (s *Store) Close() error { return s.abandon() }
