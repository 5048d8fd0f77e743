package double_test

import (
	"bufio"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tclk-audit/tclk-audit/internal/testkit/double"
	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/verify"
)

// clock is a clock that a test sets.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) set(s string) {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		panic(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = t
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

const dealRoom = "mb-p-tclk-fedcba9876543210"

// signed makes the signature of one of the two keys that the captured rows have.
func signed(who, nonce, text string) (did, sig string) {
	seed := sha256.Sum256([]byte(who))
	key := ed25519.NewKeyFromSeed(seed[:])
	rec := protocol.Record{Room: dealRoom, Nonce: []byte(nonce), Text: []byte(text)}
	verify.Sign(key, &rec)
	return string(rec.From), string(rec.Sig)
}

// capturedVenue is the venue that the captures were made on, as far as they
// show it.
func capturedVenue(c *clock) *double.Venue {
	v := double.New(double.Options{ReadPerMin: 1_000_000, WritePerMin: 1_000_000, RoomsPerDay: 1_000_000, Now: c.now})
	announced := func(name string) {
		c.add(time.Second)
		v.Say(name, "a", "x")
	}
	c.set("2026-11-30T15:00:00Z")
	announced("fill-one")
	v.Say("fill-one", "a", strings.Repeat("x", 9<<20))
	announced("fill-two")
	for _, name := range []string{"w1", "w2", "w3", "w4", "w4", "w5xxxxxxxxxxxxxxx"} {
		v.Reap(name)
		announced(name)
	}
	announced("gap")
	for n := 2; n <= 299; n++ {
		v.Say("gap", "a", fmt.Sprintf("m%d", n))
	}
	c.set("2026-11-30T15:59:38.617651Z")
	v.Say("gap", "a", "m300")
	c.set("2026-11-30T15:59:44.563444Z")
	v.Say("gap", "z", "late")
	for range 5 {
		v.Say("reapme", "a", "m")
	}
	v.Reap("reapme")
	c.set("2026-11-30T16:00:12.077710Z")
	v.Say("reapme", "a", "reborn-aaaaaaaaaaaaaaaaaaaaaaa")
	for _, row := range []struct{ at, who, nonce, text string }{
		{"2026-11-30T16:00:46.439675Z", "payer", "0007", "leading zero nonce one two three"},
		{"2026-11-30T16:00:46.448309Z", "payer", "9999999999999999999", "nineteen digit nonce aaaaaa"},
		{"2026-11-30T16:00:46.458101Z", "payee", "10", "a/b//c ? # % + é |pipe|  double  spaces"},
	} {
		c.set(row.at)
		did, sig := signed(row.who, row.nonce, row.text)
		v.PostRaw(dealRoom, did, row.nonce, sig, row.text)
	}
	// What the captures do not show makes up the rest of the bytes.
	const later = 388 + // of the rows that follow
		len(`{"seq":1,"ts":"2026-11-30T16:01:06.614139Z","from":"a","text":"x"}`) + 1 +
		len(`{"seq":12,"ts":"2026-11-30T16:01:06.614139Z","from":"server","text":"created conexp"}`) + 1 +
		len(`{"seq":13,"ts":"2026-11-30T16:02:59.836823Z","from":"server","text":"created lobby"}`) + 1
	rest := 15_250_030 - later
	for _, name := range v.Rooms() {
		rest -= v.Room(name).Bytes
	}
	v.Say("fill-two", "a", strings.Repeat("x", rest-len(`{"seq":2,"ts":"2026-11-30T16:00:46.458101Z","from":"a","text":""}`)-1))
	c.set("2026-11-30T16:01:06.614139Z")
	v.Say("conexp", "a", "x")
	c.set("2026-11-30T16:02:59.836823Z")
	for n := 1; n <= 5; n++ {
		v.Say("lobby", "a", strings.Repeat("m", 11+n/4+n/5))
		c.add(time.Millisecond)
	}
	v.SetNote("tclk-ab", "0123456789abcd", "locked")
	c.set("2026-11-30T16:04:00.9Z")
	return v
}

// A capture is a request and the answer to it.
type capture struct {
	method, target string
	status         string
	header         map[string]string
	body           string
}

func readCaptures(t *testing.T) []capture {
	t.Helper()
	text, err := os.ReadFile("testdata/captures.txt")
	if err != nil {
		t.Fatal(err)
	}
	var all []capture
	for part := range strings.SplitSeq(string(text), "--- REQUEST: curl ") {
		head, rest, ok := strings.Cut(part, "\n")
		if !ok {
			continue
		}
		c := capture{method: "GET", header: map[string]string{}}
		words := strings.Fields(head)
		_, c.target, _ = strings.Cut(words[len(words)-1], ":8767")
		switch words[0] {
		case "-I":
			c.method = "HEAD"
		case "-X":
			c.method = words[1]
		}
		headers, body, _ := strings.Cut(rest, "\n\n")
		c.body = strings.TrimRight(body, "\n")
		s := bufio.NewScanner(strings.NewReader(headers))
		s.Scan()
		c.status = strings.TrimPrefix(s.Text(), "HTTP/1.1 ")
		for s.Scan() {
			name, value, _ := strings.Cut(s.Text(), ": ")
			c.header[strings.ToLower(name)] = value
		}
		all = append(all, c)
	}
	return all
}

func TestCaptures(t *testing.T) {
	var c clock
	url := double.Serve(t, capturedVenue(&c))
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	defer client.CloseIdleConnections()
	captures := readCaptures(t)
	if len(captures) < 15 {
		t.Fatalf("%d captures were read", len(captures))
	}
	for _, want := range captures {
		t.Run(want.method+" "+want.target, func(t *testing.T) {
			req, err := http.NewRequest(want.method, url+want.target, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			if resp.Status != want.status {
				t.Errorf("status %s, want %s", resp.Status, want.status)
			}
			if want.target == "/config" {
				// The captured server was no release and had headers of its own.
				want.body = strings.Replace(want.body, "+port-of-0.7.0", "", 1)
				delete(want.header, "cache-control")
				delete(want.header, "content-length")
			}
			if got := strings.TrimRight(string(body), "\n"); got != want.body {
				t.Errorf("body\n%s\nwant\n%s", got, want.body)
			}
			got := map[string]string{}
			for name, values := range resp.Header {
				got[strings.ToLower(name)] = strings.Join(values, ", ")
			}
			if len(resp.TransferEncoding) > 0 {
				got["transfer-encoding"] = resp.TransferEncoding[0]
			}
			delete(want.header, "date")
			for name, value := range want.header {
				if got[name] != value {
					t.Errorf("%s: %q, want %q", name, got[name], value)
				}
			}
			for name := range got {
				if _, ok := want.header[name]; !ok && name != "date" && want.target != "/config" {
					t.Errorf("the venue sends no %s", name)
				}
			}
		})
	}
}
