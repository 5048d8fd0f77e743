package double

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tclk-audit/tclk-audit/verify"
)

// sweep turns what cannot be seen or breaks a line into spaces and trims.
func sweep(s string) string {
	return strings.TrimFunc(strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Cs, unicode.Co, unicode.Zl, unicode.Zp) {
			return ' '
		}
		return r
	}, s), unicode.IsSpace)
}

var (
	nonceForm = regexp.MustCompile(`^[0-9]{1,19}$`)
	sigForm   = regexp.MustCompile(`^[A-Za-z0-9_-]{86}$`)
)

func (c *call) say(name, nick, text string) reply {
	if rep, ok := c.startWrite(); !ok {
		return rep
	}
	return c.sayChecked(name, nick, text)
}

func (c *call) saySigned(name, did, sig, nonce, text string) reply {
	if rep, ok := c.startWrite(); !ok {
		return rep
	}
	return c.signedChecked(name, did, sig, nonce, text)
}

// startWrite charges the budget and runs the reaper, as any write does.
func (c *call) startWrite() (reply, bool) {
	if rep, ok := c.chargeWrite(); !ok {
		return rep, false
	}
	c.v.mu.Lock()
	c.v.reapIfDue(c.now)
	c.v.mu.Unlock()
	return reply{}, true
}

// postRow is a write whose text stands in the body.
func (c *call) postRow(name string) reply {
	if rep, ok := c.startWrite(); !ok {
		return rep
	}
	fields, rep, ok := c.object()
	if !ok {
		return rep
	}
	get := func(key string) (string, bool, reply) {
		v, present := fields[key]
		if !present {
			return "", false, refuse(400, "bad "+key+": required")
		}
		switch v := v.(type) {
		case string:
			return v, true, reply{}
		case json.Number:
			if c.profile < V011 {
				return v.String(), true, reply{}
			}
		}
		return "", false, refuse(400, "bad "+key+": must be a string")
	}
	var vals [4]string
	keys := []string{"from", "text"}
	if _, signed := fields["did"]; signed {
		keys = []string{"did", "sig", "nonce", "text"}
	} else if _, named := fields["from"]; !named && c.profile < V011 {
		fields["from"] = "anon"
	}
	for i, k := range keys {
		s, ok, rep := get(k)
		if !ok {
			return rep
		}
		vals[i] = s
	}
	if len(keys) == 2 {
		return c.sayChecked(name, vals[0], vals[1])
	}
	return c.signedChecked(name, vals[0], vals[1], vals[2], vals[3])
}

// postedBody reads the body of a POST.
func (c *call) postedBody() ([]byte, reply, bool) {
	if c.profile >= V0145 {
		control := http.NewResponseController(c.w)
		control.SetReadDeadline(time.Now().Add(postTime))
		defer control.SetReadDeadline(time.Time{})
	}
	body, err := io.ReadAll(io.LimitReader(c.r.Body, maxPost+1))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		rep := refuse(408, "the body took longer than 10 seconds")
		rep.header = append(rep.header, [2]string{"Connection", "close"})
		return nil, rep, false
	case err != nil:
		return nil, refuse(400, "the body could not be read"), false
	case len(body) > maxPost:
		return nil, refuse(413, fmt.Sprintf("the body is longer than %d bytes", maxPost)), false
	}
	return body, reply{}, true
}

// object reads the body of a POST as a JSON object.
func (c *call) object() (map[string]any, reply, bool) {
	body, rep, ok := c.postedBody()
	if !ok {
		return nil, rep, false
	}
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.UseNumber()
	var fields map[string]any
	if err := d.Decode(&fields); err != nil || fields == nil {
		return nil, refuse(400, "bad JSON: expected an object"), false
	}
	return fields, reply{}, true
}

func checkText(text string) (string, reply, bool) {
	text = sweep(text)
	switch n := utf8.RuneCountInString(text); {
	case n == 0:
		return "", refuse(400, "empty text"), false
	case n > maxText:
		return "", refuse(400, fmt.Sprintf("text too long: %d characters, at most %d", n, maxText)), false
	}
	return text, reply{}, true
}

func (c *call) sayChecked(name, nick, text string) reply {
	if rep, ok := badName(name, nick); !ok {
		return rep
	}
	text, rep, ok := checkText(text)
	if !ok {
		return rep
	}
	return c.store(name, entry{from: nick, text: text})
}

func (c *call) signedChecked(name, did, sig, nonce, text string) reply {
	if rep, ok := badName(name); !ok {
		return rep
	}
	if !nonceForm.MatchString(nonce) {
		return refuse(400, "bad nonce: expected 1-19 digits")
	}
	key, ok := verify.DecodeDID([]byte(did))
	if !ok {
		return refuse(400, "bad did: expected did:key:z6Mk…")
	}
	if !sigForm.MatchString(sig) {
		return refuse(400, "bad sig: expected 86 base64url characters")
	}
	text, rep, ok := checkText(text)
	if !ok {
		return rep
	}
	canonical := sig
	if c.profile < V011 {
		// The last character carries two bits that old versions ignore.
		const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
		i := strings.IndexByte(alphabet, sig[85])
		canonical = sig[:85] + alphabet[i&^15:][:1]
	}
	raw, ok := verify.DecodeSignature([]byte(canonical))
	if !ok || !ed25519.Verify(key[:], []byte(name+"|"+nonce+"|"+text), raw[:]) {
		return refuse(403, fmt.Sprintf("signature does not verify for %s.\nit must cover exactly this string, UTF-8, Ed25519, base64url:\n%s|%s|%s", did, name, nonce, text))
	}
	return c.store(name, entry{from: did, text: text, nonce: nonce, sig: sig})
}

// store judges a row by the room that it is for, and stores it.
func (c *call) store(name string, e entry) reply {
	v := c.v
	e.stamp = v.opt.Now() // before the lock, as the venue takes it
	v.mu.Lock()
	defer v.mu.Unlock()
	e.stamp = e.stamp.Add(-v.lateness())
	now := v.opt.Now()
	if name == "events" {
		return refuse(403, "/r/events is written by the server alone")
	}
	if classes(name)["mb"] && e.nonce == "" {
		return refuse(403, "/r/"+name+" is a mailbox (mb-): it takes signed writes only, so a message in it is attributable and a sender can be ignored by key.\nsend: GET /r/"+name+"/say-signed/<did:key>/<sig>/<nonce>/<text> — see /llms.txt")
	}
	r := v.rooms[name]
	if r == nil || !r.alive {
		if v.alive >= v.opt.MaxRooms {
			return refuse(400, "no more rooms: the venue is full")
		}
		if wait, ok := v.client(c).create.take(c.now); !ok {
			v.counts.Limited++
			return c.limited("room creation", "reads and writes to rooms that exist", v.opt.RoomsPerDay, "day", wait)
		}
	}
	if !c.copyAllowed(name, e.text) {
		return refuse(422, fmt.Sprintf("duplicate text: /r/%s already holds %d copies of this message from the last %ds; more are refused until that window passes.\n&ref=422-%08x-%04x",
			name, v.opt.DupeMaxCopies, int(v.opt.DupeWindow.Seconds()), v.random.Uint32(), v.random.Uint32()&0xffff))
	}
	if e.nonce != "" && r != nil && r.alive {
		n, err := strconv.ParseUint(e.nonce, 10, 64)
		if before, known := v.lastNonceOf(r, e.from); err != nil || known && n <= before {
			return refuse(400, fmt.Sprintf("nonce must increase: the last one of this key in /r/%s is %d", name, before))
		}
	}
	l := v.write(name, e, now)
	w := v.window(name, 0, false, replyRows, now)
	rep := reply{status: 200, cache: noStore, robots: true}
	if c.query().json {
		rep.ctype, rep.body = "application/json", c.json(w, query{}, "", l)
	} else {
		rep.ctype, rep.body = textPlain, c.text(w, "", "")
	}
	return rep
}
