package obs

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

var update = flag.Bool("update", false, "write docs/metrics.md and the golden files")

// Every family that is registered is on the list, with its labels, and every
// label value is one of those that the list allows.
func TestClosedLabels(t *testing.T) {
	_, reg := full(t)
	samples, seen := gather(t, reg)
	byName := map[string]Family{}
	for _, f := range Families() {
		byName[f.Name] = f
	}
	for _, s := range seen {
		f, known := byName[s.name]
		switch {
		case known:
			if f.Help != s.help || f.Type != s.typ {
				t.Errorf("%s is a %s (%s), the list says %s (%s)", s.name, s.typ, s.help, f.Type, f.Help)
			}
			delete(byName, s.name)
		case strings.HasPrefix(s.name, "go_"), strings.HasPrefix(s.name, "process_"):
		default:
			t.Errorf("%s is on no list", s.name)
		}
	}
	for name := range byName {
		t.Errorf("%s is on the list, and has no sample", name)
	}
	closed(t, samples)
}

// closed fails where a sample has a label or a value that its family does not
// list.
func closed(t *testing.T, samples scrape) {
	t.Helper()
	for _, s := range samples {
		if !strings.HasPrefix(s.family, Prefix) {
			for _, l := range s.labels {
				if l[0] != "quantile" && l[0] != "version" {
					t.Errorf("%s has a label %s", s.family, l[0])
				}
			}
			continue
		}
		i := slices.IndexFunc(families, func(f *Family) bool { return f.Name == s.family })
		if i < 0 {
			t.Errorf("%s is on no list", s.family)
			continue
		}
		if bad := unlisted(families[i], s.labels); bad != "" {
			t.Error(bad)
		}
	}
}

// unlisted says what is wrong with a sample's labels.
func unlisted(f *Family, labels [][2]string) string {
	if len(labels) != len(f.Labels) {
		return fmt.Sprintf("%s has the labels %q", f.Name, labels)
	}
	for _, have := range labels {
		i := slices.IndexFunc(f.Labels, func(l Label) bool { return l.Name == have[0] })
		if i < 0 || !f.Labels[i].Allows(have[1]) {
			return fmt.Sprintf("%s has a label %s=%q", f.Name, have[0], have[1])
		}
	}
	return ""
}

// The walk sees a label and a value that nobody allowed.
func TestUnlisted(t *testing.T) {
	for _, labels := range [][][2]string{
		{{"venue", "demo"}, {"status", "open"}},
		{{"venue", "demo"}, {"room", "lobby"}},
		{{"venue", "Demo\n"}, {"status", "locked"}},
		{{"venue", "demo"}},
	} {
		if unlisted(famContracts, labels) == "" {
			t.Errorf("%q passes", labels)
		}
	}
	if bad := unlisted(famContracts, [][2]string{{"venue", "demo"}, {"status", "locked"}}); bad != "" {
		t.Error(bad)
	}
}

func TestLint(t *testing.T) {
	_, reg := full(t)
	list, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(list).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestPromtool(t *testing.T) {
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not on the PATH: its checks of names are those of TestLint")
	}
	ob, _ := full(t)
	code, body := page(t, ob)
	if code != 200 {
		t.Fatalf("status %d: %s", code, body)
	}
	cmd := exec.Command(tool, "check", "metrics")
	cmd.Stdin = strings.NewReader(body)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool: %v\n%s", err, out)
	}
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what there is; where the change is meant, run go test ./internal/obs -update\n%s", path, firstDifference(string(want), string(got)))
	}
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			return "want " + w[i] + "\ngot  " + g[i]
		}
	}
	return fmt.Sprintf("want %d lines, got %d", len(w), len(g))
}

// The exposition: what dashboards and alerts rely on. Of each family it shows
// name, help, type, and every set of labels that a small store and its watcher
// have. Of histograms it shows the buckets.
func TestExposition(t *testing.T) {
	ob, _ := full(t)
	code, body := page(t, ob)
	if code != 200 {
		t.Fatalf("status %d: %s", code, body)
	}
	var b strings.Builder
	for line := range strings.Lines(body) {
		switch {
		case !strings.Contains(line, Prefix):
		case strings.HasPrefix(line, "#"):
			b.WriteString(line)
		case strings.HasPrefix(line, famBuild.Name):
			b.WriteString(famBuild.Name + "{" + strings.Join(famBuild.labelNames(), ",") + "}\n")
		default:
			b.WriteString(line[:strings.LastIndexByte(line, ' ')] + "\n")
		}
	}
	golden(t, "testdata/exposition.txt", []byte(b.String()))
}

// The page lists every family and every label value, and nothing else.
func TestPage(t *testing.T) {
	const path, begin, end = "../../docs/metrics.md", "<!-- begin %s -->\n", "<!-- end %s -->\n"
	text, err := os.ReadFile(filepath.FromSlash(path))
	if err != nil {
		t.Fatal(err)
	}
	want := string(text)
	for name, table := range map[string]string{"families": familyTable(), "labels": labelTable()} {
		from, to := fmt.Sprintf(begin, name), fmt.Sprintf(end, name)
		head, rest, ok := strings.Cut(want, from)
		_, tail, ok2 := strings.Cut(rest, to)
		if !ok || !ok2 {
			t.Fatalf("%s has no table of %s", path, name)
		}
		want = head + from + table + to + tail
	}
	golden(t, filepath.FromSlash(path), []byte(want))
}

func familyTable() string {
	var b strings.Builder
	b.WriteString("| family | type | labels | meaning |\n| --- | --- | --- | --- |\n")
	for _, f := range Families() {
		labels := "`" + strings.Join(f.labelNames(), "`, `") + "`"
		if len(f.Labels) == 0 {
			labels = ""
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.Name, f.Type, labels, f.Help)
	}
	return b.String()
}

func labelTable() string {
	var b strings.Builder
	b.WriteString("| label | of | values |\n| --- | --- | --- |\n")
	type row struct{ name, values string }
	var rows []row
	of := map[row][]string{}
	for _, f := range Families() {
		for _, l := range f.Labels {
			values := ""
			if l.Values == nil {
				values = "what matches `" + strings.ReplaceAll(l.Form.String(), "|", `\|`) + "`"
			} else {
				values = "`" + strings.Join(l.Values, "`, `") + "`"
			}
			r := row{l.Name, values}
			if of[r] == nil {
				rows = append(rows, r)
			}
			of[r] = append(of[r], "`"+strings.TrimPrefix(f.Name, Prefix)+"`")
		}
	}
	for _, r := range rows {
		families := strings.Join(of[r], ", ")
		if r.name == "venue" {
			families = "all that have it"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", r.name, families, r.values)
	}
	return b.String()
}

func TestNewTwice(t *testing.T) {
	reg := prometheus.NewRegistry()
	if _, err := New(Options{Registerer: reg}); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{Registerer: reg}); err == nil {
		t.Error("the same metrics could be registered twice")
	}
	if _, err := New(Options{Registerer: prometheus.WrapRegistererWithPrefix("x_", prometheus.NewRegistry())}); err == nil {
		t.Error("a registerer that gathers nothing was taken")
	}
	ob, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	code, body := page(t, ob)
	if code != 200 || !strings.Contains(body, famBuild.Name+"{") || strings.Contains(body, "store_up") {
		t.Errorf("an Observer of nothing serves %d: %s", code, body)
	}
}
