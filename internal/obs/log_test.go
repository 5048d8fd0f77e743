package obs

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/tclk-audit/tclk-audit/export/venue"
	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/internal/watch"
	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/store"
)

// hostile are texts that would do harm where they came through as they are.
var hostile = []string{
	"evil\n# TYPE evil_total counter\nevil_total 1",
	`evil"} 1` + "\r\n" + `evil{x="`,
	"\x1b[31mevil\x1b]0;title\x07",
	`evil\n\" \\`,
	"evil\u202e\u2028\x00\xff",
	"<script>evil</script>",
	strings.Repeat("evil ", 10_000),
}

// Whatever strangers write, the metrics have no line of theirs, and the log none
// that is not ours.
func TestHostile(t *testing.T) {
	for _, format := range []string{"json", "text"} {
		var out bytes.Buffer
		state := watch.State{At: time.Now()}
		ob, reg := newObserver(t, Options{
			Version: hostile[0], State: func() watch.State { return state }, Log: NewLogger(&out, format, slog.LevelDebug),
		})
		l := ob.Listener()
		records := 0
		for _, text := range hostile {
			quoted := string(quote(text))
			rows := judged(t, protocol.BoardRoom,
				`{"seq":1,"ts":"2026-11-30T16:00:46.458101Z","from":`+quoted+`,"text":`+quoted+`}`,
				`{"seq":2,"ts":`+quoted+`,"from":"visitor","text":"x"}`, text)
			for i := range rows {
				l.Row("sim", watch.ClassBoard, &rows[i])
			}
			l.Row(text, watch.ClassBoard, &rows[0])
			l.Request(text, text, text, time.Second)
			l.Request("sim", text, text, time.Second)
			c := &fold.Contract{Room: text, Rail: text, Amount: text}
			s := fold.Step{Type: protocol.TypeReveal, OK: true, From: text, Text: text, Rail: text, Ref: text, Detail: text}
			l.Store.Step("sim", c, &s)
			s.OK, s.Reason = false, protocol.NotPayee
			l.Store.Step("sim", c, &s)
			l.Coverage("sim", watch.ClassOther, store.Coverage{Code: store.LostReaped, Room: text, Evidence: text})
			l.Coverage(text, watch.ClassOther, store.Coverage{Code: store.CoverageCode(99), Room: text})
			l.Notice("sim", text, true, text)
			l.Notice(text, text, false, text)
			records += 4
			state.Venues = []watch.VenueState{
				{Alias: "sim", Limits: venue.Limits{Found: true, Version: text}, Needs: map[string]int{text: 1}, Classes: map[watch.Class]watch.ClassState{watch.Class(text): {Rooms: 3}}},
				{Alias: text},
			}
			samples, _ := gather(t, reg)
			closed(t, samples)
			code, body := page(t, ob)
			if code != 200 {
				t.Fatalf("status %d: %s", code, body)
			}
			for line := range strings.Lines(body) {
				if strings.Contains(line, "evil") || strings.Contains(line, "<script") || strings.Contains(line, "\x1b") {
					t.Fatalf("the metrics hold %q", line)
				}
			}
		}
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if len(lines) != records {
			t.Errorf("%s: %d records are %d lines", format, records, len(lines))
		}
		for _, line := range lines {
			if len(line) > 4*maxText {
				t.Errorf("%s: a record has %d bytes", format, len(line))
			}
			if i := strings.IndexFunc(line, func(r rune) bool { return r < 0x20 || r > 0x7e || r == utf8.RuneError }); i >= 0 {
				t.Errorf("%s: %q stands in %q", format, line[i], line)
			}
		}
	}
}

func quote(s string) []byte {
	var b bytes.Buffer
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x20:
			b.WriteString(`\u00`)
			b.WriteByte("0123456789abcdef"[r>>4])
			b.WriteByte("0123456789abcdef"[r&15])
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.Bytes()
}

func TestLogger(t *testing.T) {
	var out bytes.Buffer
	log := NewLogger(&out, "text", slog.LevelWarn)
	log.Info("not written")
	log.Warn("written", "error", errors.New("no \x1b[31mred\nline"), "stringer", protocol.Locked)
	got := out.String()
	if strings.Count(got, "\n") != 1 || strings.Contains(got, "\x1b") || !strings.Contains(got, "level=WARN msg=written") || !strings.Contains(got, "stringer=locked") {
		t.Errorf("%q", got)
	}
	if strings.Contains(got, "not written") {
		t.Error("a record below the level was written")
	}
}

// A notice that comes again and again does not fill the disk, and does not keep
// other records out. What was left out is counted.
func TestLogLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		ob, reg := newObserver(t, Options{Log: NewLogger(&out, "json", slog.LevelInfo)})
		l := ob.Listener()
		for range 1000 {
			l.Notice("sim", "sim", false, "again")
		}
		l.Notice("sim", "sim", true, "serious")
		l.Notice("other", "other", false, "elsewhere")
		if n := strings.Count(out.String(), `"text":"again"`); n != logBurst {
			t.Errorf("%d of 1000 equal notices were written, want %d", n, logBurst)
		}
		for _, text := range []string{"serious", "elsewhere"} {
			if !strings.Contains(out.String(), text) {
				t.Errorf("the notice %q was not written", text)
			}
		}
		s, _ := gather(t, reg)
		s.want(t, map[string]float64{`log_records_dropped_total{kind="notice"}`: 1000 - logBurst, `log_records_dropped_total{kind="serious-notice"}`: 0})
		time.Sleep(logEvery)
		out.Reset()
		l.Notice("sim", "sim", false, "again")
		if !strings.Contains(out.String(), `"dropped":970`) {
			t.Errorf("what was left out is not said: %s", out.String())
		}
	})
}
