package venue

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// agentDocument is cut down to what matters, in the venue's form.
const agentDocument = `{"name":"technocore.chat","version":"0.13.1","limits":{"reads_per_minute_per_ip":600,"writes_per_minute_per_ip":300,
 "rooms":250000,"room_ring_bytes":10485760,"retention_seconds":604800,"long_poll_seconds":10,"note":"per address"}}`

// documents makes a client for a venue with these two documents; "" is a 404,
// "<" HTML, "5" a 500, ">" a redirect, "429" and "cut" what they say, "!" no
// answer at all.
func documents(t *testing.T, config, agent *string, o Options) *Client {
	o.Transport = carry(func(r *http.Request) (*http.Response, error) {
		doc := *agent
		if r.URL.Path == "/config" {
			doc = *config
		}
		switch {
		case doc == "":
			return answer(r, 404, kindText, "404 no route matched."), nil
		case doc == "<":
			return answer(r, 200, "text/html", "<html>"), nil
		case doc == "5":
			return answer(r, 500, kindText, "Internal Server Error"), nil
		case doc == "429":
			resp := answer(r, 429, kindText, "429")
			resp.Header.Set("Retry-After", "1")
			return resp, nil
		case doc == ">":
			return answer(r, 307, "", ""), nil
		case doc == "cut":
			resp := answer(r, 200, kindJSON, "")
			resp.Body = io.NopCloser(iotest.ErrReader(io.ErrUnexpectedEOF))
			return resp, nil
		case doc == "!":
			return nil, io.ErrUnexpectedEOF
		}
		resp := answer(r, 200, kindJSON, strings.TrimPrefix(doc, "stale"))
		if strings.HasPrefix(doc, "stale") {
			resp.Header.Set("X-Origin-Fallback", "1")
		}
		return resp, nil
	})
	return client(t, o)
}

func TestDiscover(t *testing.T) {
	type want struct {
		version, source string
		found           bool
		reads           int
		wait            time.Duration
		waiters         int
		stillborn       time.Duration
		retention       time.Duration
		features        bool
	}
	const day = 24 * time.Hour
	config := func(settings string) string { return `{"version":"0.14.5","settings":{` + settings + `}}` }
	for _, tc := range []struct {
		name, config, agent string
		want                want
	}{
		{"neither", "", "", want{"", "no /config (status 404), no /.well-known/agent.json (status 404): defaults", false, 120, 10 * time.Second, 4, day, 7 * day, true}},
		{"both", config(`"rate_read":600,"max_wait":20.5,"max_waiters_per_ip":2,"stillborn_seconds":43200`), agentDocument,
			want{"0.14.5", "/config, /.well-known/agent.json", true, 600, 20500 * time.Millisecond, 2, day / 2, 7 * day, true}},
		{"the smaller budget counts", config(`"rate_read":1200`), agentDocument,
			want{"0.14.5", "/config, /.well-known/agent.json", true, 600, 10 * time.Second, 4, day, 7 * day, true}},
		{"also the other way", config(`"rate_read":60`), "stale" + agentDocument,
			want{"0.14.5", "/config, /.well-known/agent.json (a stored copy)", true, 60, 10 * time.Second, 4, day, 7 * day, true}},
		{"agent alone", "<", agentDocument,
			want{"0.13.1", "no /config (the answer is HTML, not application/json), /.well-known/agent.json", true, 600, 10 * time.Second, 4, day, 7 * day, true}},
		{"config alone", config(`"rate_read":30.0`), "5",
			want{"0.14.5", "/config, no /.well-known/agent.json (status 500)", true, 30, 10 * time.Second, 4, day, 7 * day, true}},
		{"old", "", strings.Replace(agentDocument, "0.13.1", "0.7.0", 1),
			want{"0.7.0", "no /config (status 404), /.well-known/agent.json", true, 600, 10 * time.Second, 4, day, 7 * day, false}},
		{"nothing to be believed", `{"version":"0.14.5\u001b[31m","settings":{"rate_read":0,"max_wait":-1,"max_waiters_per_ip":"4","stillborn_seconds":1e300}}`, `{"limits":{"reads_per_minute_per_ip":null}}`,
			want{"", "/config, /.well-known/agent.json", true, 120, 10 * time.Second, 4, day, 7 * day, true}},
		{"other shapes", `{"settings":[]}`, `{}`,
			want{"", "no /config (the document has no object settings), no /.well-known/agent.json (the document has no object limits): defaults", false, 120, 10 * time.Second, 4, day, 7 * day, true}},
		{"no answers of use", "429", ">",
			want{"", "no /config (status 429), no /.well-known/agent.json (status 307): defaults", false, 120, 10 * time.Second, 4, day, 7 * day, true}},
		{"a version without end", `{"version":"` + strings.Repeat("1", 65) + `","settings":{}}`, "\xff",
			want{"", "/config, no /.well-known/agent.json (the document is not UTF-8)", true, 120, 10 * time.Second, 4, day, 7 * day, true}},
		{"cut", "cut", "",
			want{"", "no /config (the answer was cut short), no /.well-known/agent.json (status 404): defaults", false, 120, 10 * time.Second, 4, day, 7 * day, true}},
		{"no JSON", `{"settings":{}`, "!",
			want{"", "no /config (the document is not JSON), no /.well-known/agent.json (no answer): defaults", false, 120, 10 * time.Second, 4, day, 7 * day, true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := documents(t, &tc.config, &tc.agent, Options{})
				l, err := c.Discover(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				got := want{l.Version, l.Source, l.Found, l.ReadsPerMinute, l.MaxWait, l.WaitersPerIP, l.Stillborn, l.Retention, l.Exports && l.Signatures && l.Generations}
				if got != tc.want || l.Exports != l.Signatures || l.Exports != l.Generations || l.RoomRingBytes != 10<<20 {
					t.Errorf("got  %+v\nwant %+v", got, tc.want)
				}
				if c.Limits() != l {
					t.Errorf("%+v", c.Limits())
				}
				if b := c.Budget(); b.Full != 0.8*float64(l.ReadsPerMinute) || b.Taken != 0 || b.Left > 61 {
					t.Errorf("%+v", b)
				}
			})
		})
	}
}

// A venue that cannot be reached is an error, and the limits are good all the
// same; what was found before stays when nothing is found any more.
func TestDiscoverAgain(t *testing.T) {
	config, agent := "!", "!"
	c := documents(t, &config, &agent, Options{})
	l, err := c.Discover(t.Context())
	if !errors.As(err, new(*NetworkError)) || !Temporary(err) || l.Found || l.ReadsPerMinute != 120 {
		t.Errorf("%+v, %v", l, err)
	}

	agent = agentDocument
	if l, err = c.Discover(t.Context()); err != nil || l.ReadsPerMinute != 600 {
		t.Errorf("%+v, %v", l, err)
	}
	if b := c.Budget(); b.Full != 480 || b.Left > 61 {
		t.Errorf("a greater budget gave tokens at once: %+v", b)
	}

	agent = "<"
	if l, err = c.Discover(t.Context()); err != nil || l.ReadsPerMinute != 600 || !l.Found || !strings.HasSuffix(l.Source, ": kept what was found before") {
		t.Errorf("%+v, %v", l, err)
	}

	agent = strings.Replace(agentDocument, "600", "24", 1)
	if l, err = c.Discover(t.Context()); err != nil || l.ReadsPerMinute != 24 {
		t.Errorf("%+v, %v", l, err)
	}
	if b := c.Budget(); b.Full < 19 || b.Full > 20 || b.Left > b.Full {
		t.Errorf("%+v", b)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if l, err = c.Discover(ctx); !errors.Is(err, context.Canceled) || l.ReadsPerMinute != 24 {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestReadsGiven(t *testing.T) {
	config, agent := "", agentDocument
	c := documents(t, &config, &agent, Options{ReadsPerMinute: 50, Share: 0.5})
	if b := c.Budget(); b.Full != 25 {
		t.Errorf("%+v", b)
	}
	l, err := c.Discover(t.Context())
	if err != nil || l.ReadsPerMinute != 50 || l.Published != 600 {
		t.Errorf("%+v, %v", l, err)
	}
	if b := c.Budget(); b.Full != 25 {
		t.Errorf("%+v", b)
	}
}

func TestVersions(t *testing.T) {
	for v, want := range map[string]bool{ // has exports
		"0.7.0": false, "0.10": false, "0.10.9": false, "0.9.7-rc1": false, "0.10-dev": false,
		"0.11.0": true, "0.11": true, "0.14.5+port-of-0.7.0": true, "1.0.0": true, "1.2": true,
		"": true, "dev": true, "0": true, "0.x": true, "-1.2": true, "0.99999999999": true,
	} {
		s := said{version: v}
		if got := s.limits().Exports; got != want {
			t.Errorf("%q: %v", v, got)
		}
	}
}

func FuzzDocuments(f *testing.F) {
	for _, c := range captures(f) {
		if c.path == "/config" {
			f.Add(c.body)
		}
	}
	f.Add([]byte(agentDocument))
	f.Add([]byte(`{"version":7,"settings":{"rate_read":1e999,"rate_read":5,"max_wait":0.0001}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if depth(text) > maxDepth {
			return
		}
		for _, parse := range []func([]byte) (said, error){parseConfig, parseAgent} {
			s, err := parse(text)
			if err == nil && !jsontext.Value(text).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) {
				t.Fatal("taken, and the referee says it is no JSON")
			}
			l := s.limits()
			if l.ReadsPerMinute < 1 || l.ReadsPerMinute > maxReads || l.MaxWait < 0 || l.MaxWait > 10*time.Minute || l.WaitersPerIP < 0 ||
				l.Stillborn < time.Minute || l.Retention < time.Minute || l.RoomRingBytes < 1 || strings.ContainsAny(l.Version, "\x1b\n<\"") || len(l.Version) > 64 {
				t.Fatalf("%+v", l)
			}
		}
	})
}
