// Package api answers questions from a store over HTTP: the read commands of
// the program, its control socket and a public server are all this handler.
//
//	GET /v1/contracts             a list of contracts
//	GET /v1/contracts/{id}        the story of one, by its id or 8 and more of its digits
//	GET /v1/offers                a list of offers
//	GET /v1/parties/{did}         a party's deals, counted
//	GET /v1/rooms/{room}/records  the rows of a room
//	GET /v1/status                what the store holds
//	GET /v1/events                the event stream
//
// Each takes format, which chooses between text for people and JSON for
// programs. Answers are streamed from one snapshot of the store, so a writer
// may go on meanwhile. What stands in rows is a stranger's words: it is written
// escaped or as length and hash, but for the export of a room, which is the
// rows themselves, and which no terminal should be shown.
//
// The exit code that a command line ends with stands in the trailer Tclk-Exit:
// 0, or for one contract that of verify --contract; 2 for a question that makes
// no sense, 3 where the store cannot tell, 4 where the work failed. A refusal
// has it as header, with status 400 and up and a body of two lines of text: what
// is wrong, and what to do. What went wrong once the answer had begun stands in
// the trailer Tclk-Error, and what is worth knowing beside it in Tclk-Warning.
package api

import (
	"context"
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

// Options say what answers may show.
type Options struct {
	// Public refuses secrets and stored texts, and shows of paths their last
	// element only.
	Public bool
	// MaxItems bounds the lists of one answer; 0: nothing does.
	MaxItems int
}

// New returns the handler of a store. It must not be used after the store was
// closed.
func New(s *store.Store, o Options) http.Handler {
	h := &handler{s: s, o: o, mux: http.NewServeMux()}
	h.handle("/v1/contracts", h.contracts)
	h.handle("/v1/contracts/{id}", h.contract)
	h.handle("/v1/offers", h.offers)
	h.handle("/v1/parties/{did}", h.party)
	h.handle("/v1/rooms/{room}/records", h.records)
	h.handle("/v1/status", h.status)
	h.handle("/v1/events", h.events)
	h.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, &problem{
			http.StatusNotFound, audit.ExitUsage, "there is nothing at this path",
			"ask for /v1/contracts, /v1/offers, /v1/parties/DID, /v1/rooms/ROOM/records, /v1/status or /v1/events",
		})
	})
	return h
}

type handler struct {
	s   *store.Store
	o   Options
	mux *http.ServeMux
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", http.MethodGet)
		refuse(w, &problem{http.StatusMethodNotAllowed, audit.ExitUsage, "the method is not GET", "nothing can be changed here"})
		return
	}
	h.mux.ServeHTTP(w, r)
}

// answer answers one kind of question.
type answer func(q *query, out *reply) error

func (h *handler) handle(path string, f answer) {
	h.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		out := &reply{w: w, ctx: r.Context()}
		values, err := url.ParseQuery(r.URL.RawQuery)
		if err == nil {
			err = f(&query{values: values, r: r, h: h}, out)
		} else {
			err = badRequest("the query cannot be read", "it is NAME=VALUE, joined by &")
		}
		out.end(err)
	})
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

func refuse(w http.ResponseWriter, p *problem) {
	head := w.Header()
	head.Set("Content-Type", "text/plain; charset=utf-8")
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set(ExitHeader, strconv.Itoa(p.exit))
	w.WriteHeader(p.status)
	body := report.Printable(p.text) + "\n"
	if p.hint != "" {
		body += "hint: " + report.Printable(p.hint) + "\n"
	}
	_, _ = w.Write([]byte(body)) // the reader has gone: nobody is left to tell
}

// reply is the body of an answer. It begins with the first byte, so that what
// goes wrong before is a refusal.
type reply struct {
	w        http.ResponseWriter
	ctx      context.Context
	kind     string // the content type
	exit     int
	warnings []string
	began    bool
}

const (
	plainText = "text/plain; charset=utf-8"
	oneObject = "application/json"
	jsonLines = "application/x-ndjson"
)

func (o *reply) Write(b []byte) (int, error) {
	if err := o.ctx.Err(); err != nil {
		return 0, err
	}
	o.begin()
	return o.w.Write(b)
}

func (o *reply) begin() {
	if o.began {
		return
	}
	o.began = true
	head := o.w.Header()
	head.Set("Content-Type", o.kind)
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Cache-Control", "no-store")
	head.Set("Trailer", ExitHeader+", "+ErrorHeader+", "+WarningHeader)
}

// warn tells something worth knowing beside the answer.
func (o *reply) warn(format string, args ...any) {
	o.warnings = append(o.warnings, report.Printable(fmt.Sprintf(format, args...)))
}

func (o *reply) end(err error) {
	var p *problem
	switch {
	case err == nil:
		o.begin()
	case o.began:
		o.exit = audit.ExitNotFinished
		o.w.Header().Set(ErrorHeader, report.Printable(err.Error()))
	case errors.As(err, &p):
		refuse(o.w, p)
		return
	case o.ctx.Err() != nil:
		refuse(o.w, &problem{http.StatusServiceUnavailable, audit.ExitNotFinished, "it was interrupted", ""})
		return
	default:
		hint := ""
		var damaged *store.DamagedError
		if errors.As(err, &damaged) {
			hint = damaged.Do
		}
		refuse(o.w, &problem{http.StatusInternalServerError, audit.ExitNotFinished, err.Error(), hint})
		return
	}
	head := o.w.Header()
	head.Set(ExitHeader, strconv.Itoa(o.exit))
	for _, w := range o.warnings {
		head.Add(WarningHeader, w)
	}
}

// query reads the parameters of a question. The first mistake is kept, and
// done tells it.
type query struct {
	values url.Values
	r      *http.Request
	h      *handler
	known  []string
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
	on := q.flag(name)
	if on && q.h.o.Public {
		q.fail(name+" is not shown here", "ask without it")
	}
	return on
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
	n := int(q.number("limit", uint64(otherwise)))
	if most := q.h.o.MaxItems; most > 0 && (n == 0 || n > most) {
		return most
	}
	return n
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
