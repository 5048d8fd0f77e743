// Package api answers questions from a store over HTTP: the read commands of
// the program, its control socket and a public server are all this handler.
//
//	GET /v1/contracts             a list of contracts
//	GET /v1/contracts/{id}        the story of one, by its id or 8 and more of its digits
//	GET /v1/offers                a list of offers
//	GET /v1/parties/{did}         a party's deals, counted
//	GET /v1/rooms                 the rooms that the store holds, and what is missing in them
//	GET /v1/rooms/{room}/records  the rows of a room
//	GET /v1/findings              how many contracts have which finding, and which ones
//	GET /v1/status                what the store holds
//	GET /v1/events                the event stream, also as it grows
//
// Each takes format, which chooses between text for people and JSON for
// programs. Answers are streamed from one snapshot of the store, so a writer
// may go on meanwhile. What stands in rows is a stranger's words: it is written
// escaped or as length and hash, but for the export of a room, which is the
// rows themselves, and which no terminal should be shown.
//
// A list of JSON that ends before its end says so: its member next is what the
// parameter after takes, null at the end, and a public server says the same in
// the header Link. JSON has a strong ETag.
//
// The exit code that a command line ends with stands in the trailer Tclk-Exit:
// 0, or for one contract that of verify --contract; 2 for a question that makes
// no sense, 3 where the store cannot tell, 4 where the work failed. A refusal
// has it as header, with status 400 and up and a body of two lines of text: what
// is wrong, and what to do. What went wrong once the answer had begun stands in
// the trailer Tclk-Error, and what is worth knowing beside it in Tclk-Warning.
//
// A public server has no such trailers, for the readers of its answers look at
// none: it holds an answer until it is whole, unless it is very long, and cuts
// the connection where such a one fails. It speaks JSON unless it is asked for
// text, refuses with a JSON problem, and says nothing of what failed inside.
package api

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tclk-audit/tclk-audit/internal/audit"
	"github.com/tclk-audit/tclk-audit/internal/report"
	"github.com/tclk-audit/tclk-audit/store"
)

// The headers and trailers of answers.
const (
	ExitHeader    = "Tclk-Exit"
	ErrorHeader   = "Tclk-Error"
	WarningHeader = "Tclk-Warning"
)

// What one answer of a public server may cost.
const (
	maxAnswers    = 4       // questions that are worked on at once
	queueSeconds  = 10      // how long a question waits for its turn
	answerSeconds = 60      // how long an answer may take
	pageBytes     = 2 << 20 // after so many bytes a list ends and names the next page
	heldBytes     = 4 << 20 // an answer is held up to this, so that it comes whole or not at all
)

// Options say what answers may show, and how a store that grows is followed.
type Options struct {
	// Public refuses secrets and stored texts, shows of paths their last element
	// only, says nothing of failures but that they happened, and bounds what
	// answers cost.
	Public bool
	// MaxItems bounds the lists of one answer; 0: nothing does.
	MaxItems int
	// Items is how long a list is where no limit is given; 0: all.
	Items int
	// Changed gives a channel that is closed at the next commit, for those that
	// wait for events. Nil: they look once a second.
	Changed func() <-chan struct{}
	// Ending is closed when waiting is to end: a server stops. Nil: nobody may
	// wait for events, for nothing would end it.
	Ending <-chan struct{}
	// Failed is told of what a public answer does not say: errors of the store.
	// It may be called from several goroutines. Nil: nobody is.
	Failed func(error)
}

// route is a path and who answers there.
type route struct {
	path    string
	answer  func(*handler, *query, *reply) error
	waiting bool // it may wait for what comes, and takes no turn
}

func routes() []route {
	return []route{
		{"/v1/contracts", (*handler).contracts, false},
		{"/v1/contracts/{id}", (*handler).contract, false},
		{"/v1/offers", (*handler).offers, false},
		{"/v1/parties/{did}", (*handler).party, false},
		{"/v1/rooms", (*handler).rooms, false},
		{"/v1/rooms/{room}/records", (*handler).records, false},
		{"/v1/findings", (*handler).findings, false},
		{"/v1/status", (*handler).status, false},
		{"/v1/events", (*handler).events, true},
	}
}

// Paths lists the paths that are answered, with the names of their variable
// parts in braces.
func Paths() (list []string) {
	for _, r := range routes() {
		list = append(list, r.path)
	}
	return list
}

// New returns the handler of a store. It must not be used after the store was
// closed.
func New(s *store.Store, o Options) http.Handler {
	h := &handler{
		s: s, o: o, mux: http.NewServeMux(), turns: make(chan struct{}, maxAnswers), streams: make(chan struct{}, maxStreams),
	}
	_, _ = rand.Read(h.salt[:]) // it never fails
	for _, r := range routes() {
		h.handle(r)
	}
	h.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		h.refuse(w, r, &problem{http.StatusNotFound, audit.ExitUsage, "there is nothing at this path", "ask for one of " + strings.Join(Paths(), ", ")})
	})
	return h
}

type handler struct {
	s       *store.Store
	o       Options
	mux     *http.ServeMux
	salt    [16]byte      // of ETags: those of another process or store never match
	turns   chan struct{} // of a public server's answers
	streams chan struct{} // of those that wait for events
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		h.refuse(w, r, &problem{http.StatusMethodNotAllowed, audit.ExitUsage, "the method is neither GET nor HEAD", "nothing can be changed here"})
		return
	}
	h.mux.ServeHTTP(w, r)
}

func (h *handler) handle(to route) {
	h.mux.HandleFunc(to.path, func(w http.ResponseWriter, r *http.Request) {
		out := &reply{w: w, r: r, h: h, ctx: r.Context(), done: func() {}}
		defer func() { out.done() }() // also where the answer panics
		values, err := url.ParseQuery(r.URL.RawQuery)
		switch {
		case err != nil:
			err = badRequest("the query cannot be read", "it is NAME=VALUE, joined by &")
		case h.o.Public && !to.waiting:
			var quit context.CancelFunc
			out.ctx, quit = context.WithTimeout(out.ctx, answerSeconds*time.Second)
			defer quit()
			err = out.turn()
		}
		if err == nil {
			err = to.answer(h, &query{values: values, r: r, h: h}, out)
		}
		out.end(err)
	})
}

// turn waits until the answer may be worked on.
func (o *reply) turn() error {
	wait := time.NewTimer(queueSeconds * time.Second)
	defer wait.Stop()
	select {
	case o.h.turns <- struct{}{}:
	case <-o.ctx.Done():
		return o.ctx.Err()
	case <-wait.C:
		return busy("too many questions are worked on")
	}
	o.done = func() {
		<-o.h.turns
		o.done = func() {}
	}
	return nil
}

// problem is a refusal.
type problem struct {
	status, exit int
	text, hint   string
}

func (p *problem) Error() string { return p.text }

func badRequest(text, hint string) *problem {
	return &problem{http.StatusBadRequest, audit.ExitUsage, text, hint}
}

func notFound(text, hint string) *problem {
	return &problem{http.StatusNotFound, audit.ExitCannotTell, text, hint}
}

func busy(text string) *problem {
	return &problem{http.StatusServiceUnavailable, audit.ExitNotFinished, text, "ask again in a moment"}
}

// retrySeconds is when somebody who was refused for want of room may ask again.
const retrySeconds = 5

func (h *handler) refuse(w http.ResponseWriter, r *http.Request, p *problem) {
	head := w.Header()
	head.Set(ExitHeader, strconv.Itoa(p.exit))
	if h.o.Public {
		Refuse(w, r, p.status, p.text, p.hint)
		return
	}
	refuseText(w, p.status, p.text, p.hint)
}

// Refuse answers that a question is refused: with a JSON problem (RFC 9457)
// where who asks reads JSON, else with two lines of text. hint says what to do,
// "" where nothing can be done.
func Refuse(w http.ResponseWriter, r *http.Request, status int, text, hint string) {
	head := w.Header()
	head.Set("Cache-Control", "no-store")
	head.Add("Vary", "Accept")
	if status == http.StatusServiceUnavailable {
		head.Set("Retry-After", strconv.Itoa(retrySeconds))
	}
	if !readsJSON(r) {
		refuseText(w, status, text, hint)
		return
	}
	head.Set("Content-Type", "application/problem+json")
	head.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	j := report.NewEncoder(w, true)
	j.Open('{')
	j.Int("status", int64(status))
	j.String("title", http.StatusText(status))
	j.String("detail", report.Printable(text))
	j.StringOrNull("hint", report.Printable(hint))
	j.Close('}')
	_ = endJSON(j) // the reader has gone: nobody is left to tell
}

// readsJSON reports whether who asks reads JSON: unless text is asked for, or
// another kind alone is accepted.
func readsJSON(r *http.Request) bool {
	if f := r.URL.Query().Get("format"); f != "" {
		return f != formatText
	}
	accept := strings.ToLower(strings.Join(r.Header.Values("Accept"), ","))
	return accept == "" || strings.Contains(accept, "json") || strings.Contains(accept, "*/*") || strings.Contains(accept, eventStream)
}

func refuseText(w http.ResponseWriter, status int, text, hint string) {
	head := w.Header()
	head.Set("Content-Type", plainText)
	head.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	body := report.Printable(text) + "\n"
	if hint != "" {
		body += "hint: " + report.Printable(hint) + "\n"
	}
	_, _ = w.Write([]byte(body)) // the reader has gone: nobody is left to tell
}

// reply is the body of an answer. It begins with the first byte, so that what
// goes wrong before is a refusal; a public server holds the answer.
type reply struct {
	w        http.ResponseWriter
	r        *http.Request
	h        *handler
	ctx      context.Context
	kind     string // the content type
	exit     int
	warnings []string
	etag     string
	next     string // the query of the next page
	began    bool
	held     []byte
	size     int    // bytes so far
	done     func() // it is not worked on any more
}

const (
	plainText   = "text/plain; charset=utf-8"
	oneObject   = "application/json"
	jsonLines   = "application/x-ndjson"
	eventStream = "text/event-stream"
)

func (o *reply) Write(b []byte) (int, error) {
	if err := o.ctx.Err(); err != nil {
		return 0, err
	}
	o.size += len(b)
	if o.h.o.Public && !o.began && o.size <= heldBytes {
		o.held = append(o.held, b...)
		return len(b), nil
	}
	if err := o.flush(); err != nil {
		return 0, err
	}
	return o.w.Write(b)
}

// flush begins the answer with what was held of it.
func (o *reply) flush() (err error) {
	o.begin()
	if len(o.held) > 0 {
		_, err = o.w.Write(o.held)
		o.held = nil
	}
	return err
}

func (o *reply) begin() {
	if o.began {
		return
	}
	o.began = true
	head := o.w.Header()
	head.Set("Content-Type", o.kind)
	head.Set("X-Content-Type-Options", "nosniff")
	o.cacheable()
	if o.next != "" {
		head.Set("Link", "<?"+o.next+`>; rel="next"`)
	}
	if !o.h.o.Public {
		head.Set("Trailer", ExitHeader+", "+ErrorHeader+", "+WarningHeader)
	}
}

func (o *reply) cacheable() {
	head := o.w.Header()
	if o.h.o.Public {
		head.Add("Vary", "Accept")
	}
	head.Set("Cache-Control", "no-store")
	if o.etag != "" {
		head.Set("Cache-Control", "no-cache")
		head.Set("ETag", o.etag)
	}
}

// full reports whether a list must end here and name its next page.
func (o *reply) full() bool { return o.h.o.Public && o.size >= pageBytes }

// warn tells something worth knowing beside the answer.
func (o *reply) warn(format string, args ...any) {
	o.warnings = append(o.warnings, report.Printable(fmt.Sprintf(format, args...)))
}

// errSame says that who asks has the answer.
var errSame = errors.New("api: the answer is the same")

func (o *reply) end(err error) {
	var p *problem
	switch {
	case err == nil:
	case errors.Is(err, errSame):
		o.cacheable()
		o.w.WriteHeader(http.StatusNotModified)
		return
	case o.began && o.h.o.Public:
		o.failed(err)
		panic(http.ErrAbortHandler)
	case o.began:
		o.exit = audit.ExitNotFinished
		o.w.Header().Set(ErrorHeader, report.Printable(err.Error()))
	case errors.As(err, &p):
		o.h.refuse(o.w, o.r, p)
		return
	case o.ctx.Err() != nil:
		o.h.refuse(o.w, o.r, busy("it was interrupted"))
		return
	case o.h.o.Public:
		o.failed(err)
		o.h.refuse(o.w, o.r, &problem{http.StatusInternalServerError, audit.ExitNotFinished, "the store could not answer", "who runs the server finds the cause in its log"})
		return
	default:
		hint := ""
		var damaged *store.DamagedError
		if errors.As(err, &damaged) {
			hint = damaged.Do
		}
		o.h.refuse(o.w, o.r, &problem{http.StatusInternalServerError, audit.ExitNotFinished, err.Error(), hint})
		return
	}
	head := o.w.Header()
	sent := o.began
	if o.h.o.Public {
		if sent {
			return
		}
		o.done() // a slow reader keeps no turn
	} else {
		o.begin()
	}
	head.Set(ExitHeader, strconv.Itoa(o.exit))
	for _, w := range o.warnings {
		head.Add(WarningHeader, w)
	}
	if o.h.o.Public {
		head.Set("Content-Length", strconv.Itoa(len(o.held)))
		_ = o.flush() // the reader has gone: nobody is left to tell
	}
}

// failed tells who runs a public server what went wrong, unless it is only that
// the reader has gone.
func (o *reply) failed(err error) {
	if o.h.o.Failed != nil && o.ctx.Err() == nil {
		o.h.o.Failed(err)
	}
}

// query reads the parameters of a question. The first mistake is kept, and
// done tells it.
type query struct {
	values url.Values
	r      *http.Request
	h      *handler
	known  []string
	begins []string // parameters that say where a list begins: after stands in their place
	err    error
}

func (q *query) fail(text, hint string) {
	if q.err == nil {
		q.err = badRequest(text, hint)
	}
}

// done tells the first mistake, and asks for nothing that nobody reads.
func (q *query) done() error {
	for name := range q.values {
		if !slices.Contains(q.known, name) {
			slices.Sort(q.known)
			q.fail(fmt.Sprintf("there is no parameter %q", name), "there are "+strings.Join(q.known, ", "))
		}
	}
	return q.err
}

// one reads a parameter that is given once, or not.
func (q *query) one(name string) string {
	q.known = append(q.known, name)
	if len(q.values[name]) > 1 {
		q.fail(name+" is given twice", "give it once")
	}
	return q.values.Get(name)
}

// list reads a parameter of many values, repeated or joined by commas.
func (q *query) list(name string) (words []string) {
	q.known = append(q.known, name)
	for _, v := range q.values[name] {
		for w := range strings.SplitSeq(v, ",") {
			if w != "" && !slices.Contains(words, w) {
				words = append(words, w)
			}
		}
	}
	return words
}

// words reads a parameter of words that are known.
func (q *query) words(name string, known ...string) []string {
	words := q.list(name)
	for _, w := range words {
		if !slices.Contains(known, w) {
			q.fail(fmt.Sprintf("%s %q is not known", name, w), "there are "+strings.Join(known, ", "))
		}
	}
	return words
}

// word reads a parameter that is one of some words, by default the first.
func (q *query) word(name string, known ...string) string {
	w := q.one(name)
	if w == "" {
		return known[0]
	}
	if !slices.Contains(known, w) {
		q.fail(fmt.Sprintf("%s %q is not known", name, w), "there are "+strings.Join(known, ", "))
	}
	return w
}

// flag reads a parameter that is 1 or 0.
func (q *query) flag(name string) bool { return q.word(name, "0", "1") == "1" }

// private reads a flag that a public server refuses.
func (q *query) private(name string) bool {
	if q.h.o.Public {
		if q.values.Has(name) {
			q.fail(name+" is not shown here", "ask without it")
		}
		return false
	}
	return q.flag(name)
}

// format reads in which form the answer is: by default the first, of a public
// server the first of JSON.
func (q *query) format(words ...string) string {
	f := q.word("format", words...)
	if q.h.o.Public && !q.values.Has("format") {
		for _, w := range words {
			if w == formatJSON {
				return w
			}
		}
	}
	return f
}

// number reads a parameter that counts.
func (q *query) number(name string, otherwise uint64) uint64 {
	s := q.one(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(s, 10, 53)
	if err != nil {
		q.fail(fmt.Sprintf("%s %q is no number", name, s), "give a whole number from 0")
	}
	return n
}

// limit reads how long a list may be; 0 stands for all.
func (q *query) limit(otherwise int) int {
	if usual := q.h.o.Items; usual > 0 && (otherwise == 0 || otherwise > usual) {
		otherwise = usual
	}
	n := int(q.number("limit", uint64(otherwise)))
	if most := q.h.o.MaxItems; most > 0 && (n == 0 || n > most) {
		return most
	}
	return n
}

// question names what is asked, whichever page of it and in whichever form.
func (q *query) question() [32]byte {
	v := url.Values{}
	for name, list := range q.values {
		if !slices.Contains([]string{"limit", "after", "format", "color"}, name) && !slices.Contains(q.begins, name) {
			v[name] = list
		}
	}
	return sha256.Sum256([]byte(q.r.URL.Path + "?" + v.Encode()))
}

// cursorTag is how many bytes of a cursor name the question that it belongs to.
const cursorTag = 6

// after reads the cursor behind which a list goes on: the mark of the last that
// was given; nil for the beginning.
func (q *query) after() []byte {
	s := q.one("after")
	if s == "" {
		return nil
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	tag := q.question()
	if err != nil || len(b) <= cursorTag || string(b[:cursorTag]) != string(tag[:cursorTag]) {
		q.fail("after is no cursor of this list", "it is what next said in an answer to the same question; without it the list begins")
		return nil
	}
	return b[cursorTag:]
}

// cursor names the page behind the entry with a mark, for the answer to tell;
// "" where mark is nil, at the end.
func (q *query) cursor(out *reply, mark []byte) string {
	if mark == nil {
		return ""
	}
	tag := q.question()
	next := base64.RawURLEncoding.EncodeToString(append(tag[:cursorTag:cursorTag], mark...))
	if q.h.o.Public {
		v := url.Values{}
		for name, list := range q.values {
			v[name] = list
		}
		for _, other := range q.begins {
			v.Del(other)
		}
		v.Set("after", next)
		out.next = v.Encode()
	}
	return next
}

// same gives a JSON answer its ETag, from what the store holds and what is
// asked, and fails with errSame where who asks has that answer. more is what the
// answer depends on besides.
func (q *query) same(out *reply, r *store.Reader, format string, more ...any) error {
	if format != formatJSON && format != formatLines {
		return nil
	}
	version, err := r.Version()
	if err != nil {
		return err
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%x %x %s %s?%s %v", q.h.salt, version, format, q.r.URL.Path, q.values.Encode(), more))
	out.etag = `"` + hex.EncodeToString(sum[:16]) + `"`
	for _, list := range q.r.Header.Values("If-None-Match") {
		for tag := range strings.SplitSeq(list, ",") {
			if strings.TrimPrefix(strings.TrimSpace(tag), "W/") == out.etag {
				return errSame
			}
		}
	}
	return nil
}

// time reads RFC 3339 or Unix ms; 0 where it is not given.
func (q *query) time(name string) int64 {
	s := q.one(name)
	if s == "" {
		return 0
	}
	if ms, err := strconv.ParseInt(s, 10, 64); err == nil && ms > 0 {
		return ms
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil || t.UnixMilli() <= 0 {
		q.fail(fmt.Sprintf("%s %q is no time", name, s), "give Unix milliseconds, or RFC 3339 as in 2026-01-31T12:00:00Z")
		return 0
	}
	return t.UnixMilli()
}

// venue reads the alias of a venue; "" stands for all.
func (q *query) venue() string {
	v := q.one("venue")
	if v != "" && !store.ValidVenue(v) {
		q.fail(fmt.Sprintf("venue %q is no alias", v), "an alias is 1 to 32 of a-z, 0-9 and -")
	}
	return v
}

// did reads a did:key; "" where it is not given.
func (q *query) did(name, value string) string {
	if value != "" && !validDID(value) {
		q.fail(fmt.Sprintf("%s %q is no did:key", name, value), "a party is did:key:z6Mk and 44 more characters")
	}
	return value
}

// path shows where a source lies.
func (h *handler) path(p string) string {
	if h.o.Public {
		return filepath.Base(p)
	}
	return p
}

// alive says, now and then in a loop, whether anybody still wants the answer.
func (o *reply) alive(n int) error {
	if n%64 == 0 {
		return o.ctx.Err()
	}
	return nil
}
