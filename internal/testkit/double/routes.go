package double

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// route is where a request goes.
type route struct {
	kind   string // in Stats.Requests
	writes bool
	run    func(*call) reply
}

var nameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,47}$`)

// find chooses the route by the decoded path, so that an escaped slash in a name
// ends at no route.
func (c *call) find() route {
	path, method := c.r.URL.Path, c.r.Method
	allow := func(methods ...string) bool { return slices.Contains(methods, method) }
	seg := strings.Split(strings.TrimPrefix(path, "/"), "/")
	if strings.ContainsRune(strings.Join(seg[:min(len(seg), 3)], ""), '\n') {
		return route{kind: "none", run: noRoute}
	}
	filled := func(n int) bool { return len(seg) >= n && !slices.Contains(seg[:n], "") }
	read := func(kind string, run func(*call) reply) route {
		if !allow("GET", "HEAD") {
			return notAllowed("GET, HEAD")
		}
		return route{kind: kind, run: run}
	}
	switch {
	case len(seg) == 2 && seg[0] == "r" && filled(2):
		switch {
		case allow("GET", "HEAD"):
			return route{kind: "room", run: func(c *call) reply { return c.readRoom(seg[1]) }}
		case allow("POST"):
			return route{kind: "say", writes: true, run: func(c *call) reply { return c.postRow(seg[1]) }}
		}
		return notAllowed("GET, HEAD, POST")
	case len(seg) == 3 && seg[0] == "r" && seg[2] == "export" && filled(3) && c.profile >= V011:
		return read("export", func(c *call) reply { return c.export(seg[1]) })
	case len(seg) >= 5 && seg[0] == "r" && seg[2] == "say" && filled(4):
		if !c.mayWriteByGet() {
			return notAllowed("GET")
		}
		return route{kind: "say", writes: true, run: func(c *call) reply { return c.say(seg[1], seg[3], strings.Join(seg[4:], "/")) }}
	case len(seg) >= 7 && seg[0] == "r" && seg[2] == "say-signed" && filled(6):
		if !c.mayWriteByGet() {
			return notAllowed("GET")
		}
		return route{kind: "say", writes: true, run: func(c *call) reply {
			return c.saySigned(seg[1], seg[3], seg[4], seg[5], strings.Join(seg[6:], "/"))
		}}
	case path == "/rooms":
		return read("rooms", (*call).listRooms)
	case len(seg) == 2 && seg[0] == "kv" && filled(2):
		return read("notes", func(c *call) reply { return c.listNotes(seg[1]) })
	case len(seg) == 3 && seg[0] == "kv" && filled(3):
		switch {
		case allow("GET", "HEAD"):
			return route{kind: "note", run: func(c *call) reply { return c.readNote(seg[1], seg[2]) }}
		case allow("POST"):
			return route{kind: "set", writes: true, run: func(c *call) reply { return c.postNote(seg[1], seg[2]) }}
		}
		return notAllowed("GET, HEAD, POST")
	case len(seg) >= 5 && seg[0] == "kv" && seg[3] == "set" && filled(4):
		if !c.mayWriteByGet() {
			return notAllowed("GET")
		}
		return route{kind: "set", writes: true, run: func(c *call) reply { return c.writeNote(seg[1], seg[2], strings.Join(seg[4:], "/")) }}
	case path == "/config" && c.profile >= V011:
		return read("config", (*call).config)
	case path == "/.well-known/agent.json":
		return read("agent", (*call).agent)
	case path == "/healthz":
		return read("document", func(*call) reply {
			return reply{status: 200, ctype: textPlain, cache: noStore, body: []byte("ok\n")}
		})
	case slices.Contains([]string{"/", "/llms.txt", "/skill.md", "/patterns.md", "/auth.md", "/openapi.json"}, path),
		path == "/interop.md" && c.profile >= V011:
		return read("document", (*call).document)
	case len(path) > 1 && strings.HasSuffix(path, "/"):
		// The same path without the slash, where that is a route.
		short := *c
		r := *c.r
		u := *c.r.URL
		u.Path, u.RawPath = strings.TrimSuffix(u.Path, "/"), strings.TrimSuffix(u.RawPath, "/")
		r.URL, short.r = &u, &r
		if !strings.HasSuffix(u.Path, "/") && short.find().kind != "none" {
			to := "http://" + c.r.Host + u.RequestURI()
			return route{kind: "none", run: func(*call) reply {
				return reply{status: 307, header: [][2]string{{"Location", to}}}
			}}
		}
	}
	return route{kind: "none", run: noRoute}
}

// mayWriteByGet reports whether the method writes at a URL that writes. Old
// versions take HEAD for GET there, too, and write.
func (c *call) mayWriteByGet() bool {
	return c.r.Method == http.MethodGet || c.r.Method == http.MethodHead && c.profile < V0145
}

func noRoute(*call) reply {
	return refuse(404, `no route matched. This service is small enough to list in full:
  GET /r/<room>                            read the newest messages
  GET /r/<room>?since=<seq>&wait=10        wait for the next one
  GET /r/<room>/say/<nick>/<text>          post — <text> is URL-encoded
  GET /kv/<ns>/<key>                       read a note
  GET /kv/<ns>/<key>/set/<value>           write one
  GET /rooms · GET /r/events               what exists · what is new
Names match /^[a-z0-9][a-z0-9_-]{0,47}$/, so an uppercase or spaced name 400s and a
path with a missing segment lands here. The full manual is one fetch and is never
rate limited: GET /llms.txt (machine-readable: /openapi.json).`)
}

func notAllowed(methods string) route {
	return route{kind: "none", run: func(c *call) reply {
		r := refuse(405, c.r.Method+` is not accepted here. This service answers GET everywhere and POST on /r/<room> and /kv/<ns>/<key> — nothing else.
this path accepts: `+methods+`.
every operation, writes included, is reachable with a plain GET: /r/<room>/say/<nick>/<text> posts a message, /kv/<ns>/<key>/set/<value> writes a note. POST exists only for bodies too long or too non-Latin for a URL.
there is nothing to delete or update in place: rooms are append-only and a note is overwritten by writing it again. See /llms.txt.`)
		r.header = append(r.header, [2]string{"Allow", methods})
		return r
	}}
}

// badName answers a name that breaks the grammar, if one does.
func badName(names ...string) (reply, bool) {
	for _, n := range names {
		if !nameForm.MatchString(n) {
			return refuse(400, `bad name '`+n+`': expected /^[a-z0-9][a-z0-9_-]{0,47}$/ — lowercase letters, digits, - and _, 1-48 characters, starting with a letter or digit. Usual causes: uppercase (lowercase it), a space or %20 (use - instead), a dot or slash, an empty segment, or over 48 characters. This rule covers <room>, <nick>, <ns> and <key>; only <text> and <value> are free-form.`), false
		}
	}
	return reply{}, true
}
