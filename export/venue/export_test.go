package venue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// room makes a client for a venue whose only export is this.
func room(t *testing.T, body string, header ...string) *Client {
	return serve(t, respond(200, body, append([]string{"Content-Type", "application/x-ndjson; charset=utf-8"}, header...)...))
}

func TestExportLines(t *testing.T) {
	const torn = `{"seq":99,"ts":"torn`
	lines := []string{`{"seq":7,"text":"a"}`, torn, `  `, ``, `{"text":"no seq"}`, `{"seq":8.5}`, "{\"seq\":8,\"text\":\"\xff\"}", ` {"seq" : 9} `, `[1]`}
	text := strings.Join(lines, "\n") + "\n"
	for _, packed := range []bool{false, true} {
		c := room(t, text, "X-Room-Generation", "3")
		if packed {
			c = room(t, string(zipped(text)), "X-Room-Generation", "3", "Content-Encoding", "gzip")
		}
		var got []string
		e, err := c.Export(t.Context(), "x", 9, func(line []byte, seq uint64, ok bool) error {
			got = append(got, fmt.Sprint(string(line), " ", seq, " ", ok))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		want := []string{
			`{"seq":7,"text":"a"} 7 true`, torn + ` 0 false`, `{"text":"no seq"} 0 false`, `{"seq":8.5} 0 false`,
			"{\"seq\":8,\"text\":\"\xff\"} 0 false", ` {"seq" : 9}  9 true`, `[1] 0 false`,
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("got:\n%s", strings.Join(got, "\n"))
		}
		if e.FirstSeq != 7 || e.LastSeq != 9 || e.Lines != 7 || e.Unreadable != 5 || e.Generation != 3 || !e.HasGeneration || e.Bytes != int64(len(text)) {
			t.Errorf("%+v", e)
		}
	}
}

// Of an export that is not whole no line is given out.
func TestExportCut(t *testing.T) {
	for _, tc := range []struct {
		name, body string
		header     []string
		atLeast    uint64
		says       string
	}{
		{"no line end", `{"seq":1}` + "\n" + `{"seq":2}`, nil, 1, "no line end"},
		{"within a line", `{"seq":1}` + "\n" + `{"se`, nil, 0, "no line end"},
		{"at a line end", `{"seq":1}` + "\n", nil, 2, "its last seq is 1, and the room has reached 2"},
		{"only torn lines", `{"seq":` + "\n", nil, 1, "its last seq is 0"},
		{"empty", "", nil, 1, "its last seq is 0"},
		{"by the network", `{"seq":1}` + "\n", []string{"Content-Length", "100"}, 0, "unexpected EOF"},
		{"within gzip", string(zipped(`{"seq":1}` + "\n")[:20]), []string{"Content-Encoding", "gzip"}, 0, "unexpected EOF"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := room(t, tc.body, tc.header...)
			e, err := c.Export(t.Context(), "x", tc.atLeast, func(line []byte, _ uint64, _ bool) error {
				t.Errorf("given out: %s", line)
				return nil
			})
			var cut *CutError
			if e != nil || !errors.As(err, &cut) || cut.AtLeast > tc.atLeast || !strings.Contains(err.Error(), tc.says) || !Temporary(err) {
				t.Fatalf("%+v, %v", e, err)
			}
			plain(t, err)
		})
	}
}

func TestExportRefused(t *testing.T) {
	never := func([]byte, uint64, bool) error { t.Error("a line"); return nil }
	for _, tc := range []struct {
		h   http.HandlerFunc
		old bool
	}{
		{respond(404, "404 no route matched.", "Content-Type", kindText), true},
		{respond(404, "<html>", "Content-Type", "text/html"), false},
		{respond(400, "400", "Content-Type", kindText), false},
		{respond(500, "500", "Content-Type", kindText), false},
	} {
		_, err := serve(t, tc.h).Export(t.Context(), "x", 0, never)
		if !errors.As(err, new(*StatusError)) || errors.Is(err, ErrNoExport) != tc.old {
			t.Errorf("%v", err)
		}
		plain(t, err)
	}
	// A page's 404 says nothing of exports.
	_, err := serve(t, respond(404, "", "Content-Type", kindText)).Room(t.Context(), "x", Query{})
	if errors.Is(err, ErrNoExport) {
		t.Error(err)
	}
	if _, err := room(t, "{}\n", "Content-Type", kindJSON).Export(t.Context(), "x", 0, never); !errors.As(err, new(*BodyError)) {
		t.Errorf("%v", err)
	}
}

func TestExportLimit(t *testing.T) {
	line := `{"seq":1,"text":"` + strings.Repeat("a", 80) + `"}` + "\n"
	for _, tc := range []struct {
		lines int
		ok    bool
	}{{10, true}, {11, false}} {
		s := room(t, strings.Repeat(line, tc.lines))
		c := client(t, Options{Origin: s.Origin(), MaxExport: int64(10 * len(line))})
		t.Cleanup(c.Close)
		n := 0
		_, err := c.Export(t.Context(), "x", 0, func([]byte, uint64, bool) error { n++; return nil })
		var e *BodyError
		if tc.ok && (err != nil || n != 10) || !tc.ok && (!errors.As(err, &e) || e.Kind != BodyLimit || n != 0) {
			t.Errorf("%d lines: %d, %v", tc.lines, n, err)
		}
	}
}

// The caller's own error comes back as it is, and ends the export.
func TestExportStops(t *testing.T) {
	mine := errors.New("the disk is full")
	n := 0
	_, err := room(t, "{\"seq\":1}\n{\"seq\":2}\n").Export(t.Context(), "x", 0, func([]byte, uint64, bool) error { n++; return mine })
	if err != mine || n != 1 || Temporary(err) {
		t.Errorf("%d, %v", n, err)
	}
}

// At most two exports are in memory; others wait for them, and for no token
// meanwhile.
func TestExportsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now, most := 0, 0
		c := client(t, Options{Transport: carry(func(r *http.Request) (*http.Response, error) {
			return answer(r, 200, kindLines, "{\"seq\":1}\n"), nil
		})})
		turn := make(chan struct{}, 1)
		count := func(n int) {
			turn <- struct{}{}
			now += n
			most = max(most, now)
			<-turn
		}
		done := make(chan error)
		for range 6 {
			go func() {
				_, err := c.Export(t.Context(), "x", 0, func([]byte, uint64, bool) error {
					count(1)
					defer count(-1)
					time.Sleep(time.Minute)
					return nil
				})
				done <- err
			}()
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Export(ctx, "x", 0, nil); !errors.Is(err, context.DeadlineExceeded) || c.Budget().Taken != 2 {
			t.Errorf("%v, %+v", err, c.Budget())
		}
		begin := time.Now().Add(-time.Second)
		for range 6 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(begin); most != 2 || took != 3*time.Minute {
			t.Errorf("%d at once, %s", most, took)
		}
	})
}

// An export of 10 MiB, in pieces and compressed, as a busy room has it.
func TestExportLarge(t *testing.T) {
	var b bytes.Buffer
	seq := uint64(0)
	for b.Len() < 10<<20 {
		seq++
		fmt.Fprintf(&b, `{"seq":%d,"ts":"2026-11-30T16:00:12.077710Z","from":"a","text":"%x"}`+"\n", seq, bytes.Repeat([]byte{byte(seq), byte(seq >> 8)}, 200))
	}
	packed := zipped(b.String())
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", kindLines)
		w.Header().Set("Content-Encoding", "gzip")
		for rest := packed; len(rest) > 0; {
			n := min(len(rest), 64<<10)
			w.Write(rest[:n])
			w.(http.Flusher).Flush()
			rest = rest[n:]
		}
	})
	want := uint64(0)
	e, err := c.Export(t.Context(), "x", seq, func(line []byte, seq uint64, ok bool) error {
		if want++; !ok || seq != want {
			return io.ErrNoProgress
		}
		return nil
	})
	if err != nil || e.LastSeq != seq || e.Bytes != int64(b.Len()) {
		t.Errorf("%+v, %v", e, err)
	}
}
