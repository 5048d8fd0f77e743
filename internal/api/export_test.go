package api_test

import (
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tclk-audit/tclk-audit/internal/api"
	"github.com/tclk-audit/tclk-audit/internal/audit"
	"github.com/tclk-audit/tclk-audit/internal/report"
	"github.com/tclk-audit/tclk-audit/protocol"
)

// verifyLines audits files and gives each contract's line.
func verifyLines(t *testing.T, paths ...string) []string {
	t.Helper()
	r, err := audit.Run(t.Context(), paths, audit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for c := range r.Contracts() {
		lines = append(lines, string(report.AppendContractLine(nil, c, report.Show{})))
	}
	return lines
}

// exports are folders whose stores are asked.
func exports(t *testing.T) []string {
	t.Helper()
	list, err := filepath.Glob("../../testdata/conformance/corpus/*")
	if err != nil || len(list) == 0 {
		t.Fatalf("no corpus: %v", err)
	}
	list = slices.DeleteFunc(list, func(p string) bool {
		st, err := os.Stat(p)
		return err != nil || !st.IsDir()
	})
	return append(list, demo, corpus(t, nil))
}

// TestExportedRoomsVerifyTheSame exports every room into a file of its own, and
// audits the files.
func TestExportedRoomsVerifyTheSame(t *testing.T) {
	for _, dir := range exports(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			h := api.New(filled(t, dir), api.Options{})
			rooms := map[string]bool{protocol.BoardRoom: true}
			want := verifyLines(t, dir)
			r, err := audit.Run(t.Context(), []string{dir}, audit.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for c := range r.Contracts() {
				rooms[c.Room] = true
				for i := range c.Steps {
					rooms[c.Steps[i].Room] = true
				}
			}
			for _, f := range r.Findings() {
				if f.Room != "" {
					rooms[f.Room] = true
				}
			}
			out := t.TempDir()
			for room := range rooms {
				body, _, res := ask(t, h, "/v1/rooms/"+url.PathEscape(room)+"/records?format=export")
				if res.StatusCode == 404 {
					continue
				}
				if res.Header.Get(api.ErrorHeader) != "" {
					t.Fatal(res.Header.Get(api.ErrorHeader))
				}
				if err := os.WriteFile(filepath.Join(out, room+".jsonl"), []byte(body), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			got := verifyLines(t, out)
			if d := cmp.Diff(want, got); d != "" {
				n := 0
				for i := range min(len(want), len(got)) {
					if want[i] != got[i] {
						n++
					}
				}
				t.Errorf("%d of %d, %d contracts differ: -input +export\n%.6000s", n, len(want), len(got), d)
			}
		})
	}
}

// TestExportIsByteExact holds that an export of one file gives its bytes.
func TestExportIsByteExact(t *testing.T) {
	h := api.New(filled(t, demo), api.Options{})
	files, err := filepath.Glob(filepath.Join(demo, "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		want, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		room := strings.TrimSuffix(filepath.Base(f), ".jsonl")
		if got := mustAsk(t, h, "/v1/rooms/"+room+"/records?format=export"); got != string(want) {
			t.Errorf("%s: the export differs from the file", room)
		}
	}
}

// TestExportMerges reads two overlapping copies of a board and pages of two
// lives of a room.
func TestExportMerges(t *testing.T) {
	board, err := os.ReadFile(filepath.Join(demo, "tclk-offers.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(board), "\n")
	dir := t.TempDir()
	for name, part := range map[string][]string{"a/tclk-offers.jsonl": lines[3:], "b/tclk-offers.jsonl": lines[:5]} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.Join(part, "")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	h := api.New(filled(t, filepath.Join(dir, "a"), filepath.Join(dir, "b")), api.Options{})
	if got := mustAsk(t, h, "/v1/rooms/tclk-offers/records?format=export"); got != string(board) {
		t.Errorf("the copies make\n%s", got)
	}

	room := "mb-p-tclk-c24afe77f62cd4cb"
	rows, err := os.ReadFile(filepath.Join(demo, room+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	row := strings.Split(strings.TrimSpace(string(rows)), "\n")
	pages := `{"room":"` + room + `","generation":5,"messages":[` + "\n" + row[0] + "\n]}\n" +
		`{"room":"` + room + `","generation":6,"messages":[` + "\n" + row[1] + "\n]}\n"
	path := filepath.Join(t.TempDir(), room+".jsonl")
	if err := os.WriteFile(path, []byte(pages), 0o644); err != nil {
		t.Fatal(err)
	}
	s := filled(t, filepath.Join(demo, "tclk-offers.jsonl"), path)
	if got := mustAsk(t, api.New(s, api.Options{}), "/v1/rooms/"+room+"/records?format=export"); got != pages {
		t.Errorf("two lives of a room make\n%s", got)
	}
}
