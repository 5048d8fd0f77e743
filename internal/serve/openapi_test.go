package serve_test

import (
	"encoding/json"
	"flag"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tclk-audit/tclk-audit/docs"
	"github.com/tclk-audit/tclk-audit/internal/testkit"
)

var update = flag.Bool("update", false, "fold the schemas of docs into docs/openapi.json again")

const docsDir = "../../docs"

func document(t testing.TB) *testkit.Schema {
	t.Helper()
	s, err := testkit.LoadSchema(filepath.Join(docsDir, "openapi.json"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestDocumentHoldsTheSchemas holds that what the document says of bodies is
// what docs/*.schema.json say.
func TestDocumentHoldsTheSchemas(t *testing.T) {
	want := map[string]any{}
	for _, name := range []string{"contracts", "show", "offers", "party", "rooms", "records", "findings", "status", "events", "problem"} {
		text, err := os.ReadFile(filepath.Join(docsDir, name+".schema.json"))
		if err != nil {
			t.Fatal(err)
		}
		text = regexp.MustCompile(`"#/\$defs/([a-z0-9_]+)"`).ReplaceAll(text, []byte(`"#/components/schemas/`+name+`.$1"`))
		var schema map[string]any
		if err := json.Unmarshal(text, &schema); err != nil {
			t.Fatal(err)
		}
		defs, _ := schema["$defs"].(map[string]any)
		for _, left := range []string{"$schema", "$id", "$defs"} {
			delete(schema, left)
		}
		want[name] = schema
		for def, rules := range defs {
			want[name+"."+def] = rules
		}
	}
	if *update {
		foldIn(t, want)
		return
	}
	got, err := document(t).At("#/components/schemas")
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("the schemas of docs/openapi.json are not those of docs: %v; go test ./internal/serve -update folds them in", err)
	}
}

// foldIn writes the schemas as the last member of the document, whose other
// members keep their order.
func foldIn(t *testing.T, schemas map[string]any) {
	t.Helper()
	text, err := json.MarshalIndent(schemas, "   ", " ")
	if err != nil {
		t.Fatal(err)
	}
	before, _, ok := strings.Cut(string(docs.OpenAPI), `"schemas": {`)
	if !ok {
		t.Fatal("the document has no place for schemas")
	}
	after := before + `"schemas": ` + string(text) + "\n }\n}\n"
	if err := os.WriteFile(filepath.Join(docsDir, "openapi.json"), []byte(after), 0o644); err != nil { //nolint:gosec // a document
		t.Fatal(err)
	}
}

// TestDocumentedPaths holds that the server answers what the document lists, and
// the other way round.
func TestDocumentedPaths(t *testing.T) {
	s := start(t, demo, nil)
	paths, err := document(t).At("#/paths")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := slices.Sorted(maps.Keys(paths)), s.Paths(); !slices.Equal(got, want) {
		t.Errorf("the document has the paths\n%q\nthe server\n%q", got, want)
	}
	for path := range paths {
		if res, body := s.get(t, fill(t, s, path)); res.StatusCode != http.StatusOK {
			t.Errorf("%s: status %d\n%s", path, res.StatusCode, body)
		}
	}
}

// fill gives the variable parts of a path the names of things in the demo.
func fill(t testing.TB, s *running, path string) string {
	t.Helper()
	did := ""
	if strings.Contains(path, "{did}") {
		_, body := s.get(t, "/api/v1/contracts?limit=1")
		var list struct{ Contracts []struct{ Payer string } }
		if err := json.Unmarshal([]byte(body), &list); err != nil {
			t.Fatal(err)
		}
		did = list.Contracts[0].Payer
	}
	return strings.NewReplacer("{id}", "0xc24afe77", "{did}", did, "{room}", "mb-p-tclk-c24afe77f62cd4cb").Replace(path)
}

// operation is what the document says of GET of a path.
func operation(t testing.TB, doc *testkit.Schema, path string) (params []map[string]any, answers map[string]any) {
	t.Helper()
	op, err := doc.At("#/paths/" + strings.ReplaceAll(path, "/", "~1") + "/get")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range op["parameters"].([]any) {
		params = append(params, follow(t, doc, p))
	}
	return params, op["responses"].(map[string]any)
}

// follow takes a reference, or what stands in its place.
func follow(t testing.TB, doc *testkit.Schema, v any) map[string]any {
	t.Helper()
	o := v.(map[string]any)
	ref, ok := o["$ref"].(string)
	if !ok {
		return o
	}
	to, err := doc.At(ref)
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// TestDocumentedParameters asks each path with a parameter that nobody knows:
// the refusal lists those that there are.
func TestDocumentedParameters(t *testing.T) {
	s, doc := start(t, demo, nil), document(t)
	for _, path := range s.Paths() {
		if !strings.HasPrefix(path, "/api/v1/") || strings.HasSuffix(path, ".json") {
			continue
		}
		var want []string
		params, _ := operation(t, doc, path)
		for _, p := range params {
			if p["in"] == "query" {
				want = append(want, p["name"].(string))
			}
			if p["in"] == "path" && !strings.Contains(path, "{"+p["name"].(string)+"}") {
				t.Errorf("%s has no part %s", path, p["name"])
			}
		}
		slices.Sort(want)
		res, body := s.get(t, fill(t, s, path)+"?no-such=1")
		var said struct{ Hint string }
		if err := json.Unmarshal([]byte(body), &said); err != nil || res.StatusCode != http.StatusBadRequest {
			t.Fatalf("%s: status %d, %v\n%s", path, res.StatusCode, err, body)
		}
		if got := strings.Split(strings.TrimPrefix(said.Hint, "there are "), ", "); !slices.Equal(got, want) {
			t.Errorf("%s takes %q, the document has %q", path, got, want)
		}
	}
}

// checkAnswer validates an answer against what the document says of it.
func checkAnswer(t testing.TB, doc *testkit.Schema, path string, res *http.Response, body string) {
	t.Helper()
	_, answers := operation(t, doc, path)
	status := http.StatusText(res.StatusCode)
	a, ok := answers[res.Status[:3]]
	if !ok {
		t.Errorf("%s: the document does not know %d %s\n%s", path, res.StatusCode, status, body)
		return
	}
	content, _ := follow(t, doc, a)["content"].(map[string]any)
	kind, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";")
	if len(content) == 0 {
		if body != "" || kind != "" {
			t.Errorf("%s: %d has a body of %s", path, res.StatusCode, kind)
		}
		return
	}
	of, ok := content[kind].(map[string]any)
	if !ok {
		t.Errorf("%s: the document does not know %s of %d", path, kind, res.StatusCode)
		return
	}
	rules := of["schema"].(map[string]any)
	var texts []string
	switch kind {
	case "text/plain":
		return
	case "application/x-ndjson":
		texts = slices.Collect(strings.Lines(body))
	case "text/event-stream":
		for _, m := range regexp.MustCompile(`(?m)^data: (.*)$`).FindAllStringSubmatch(body, -1) {
			texts = append(texts, m[1])
		}
	default:
		texts = []string{body}
	}
	for _, text := range texts {
		if err := doc.CheckBy(rules, text); err != nil {
			t.Errorf("%s: %d %s: %v\n%.1500s", path, res.StatusCode, kind, err, text)
		}
	}
}

// TestAnswersPassTheDocument asks for everything in every form that the document
// lists, over the bundled export and a noisy board.
func TestAnswersPassTheDocument(t *testing.T) {
	doc := document(t)
	seen := map[string]bool{}
	see := func(path string, res *http.Response, body string) {
		t.Helper()
		checkAnswer(t, doc, path, res, body)
		kind, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";")
		seen[path+" "+res.Status[:3]+" "+kind] = true
	}
	for _, dir := range []string{demo, corpus(t)} {
		s := start(t, dir, nil)
		ask := func(path, query string) {
			t.Helper()
			to := path
			if dir == demo {
				to = fill(t, s, path)
			} else if strings.Contains(path, "{") {
				return
			}
			res, body := s.get(t, to+query)
			see(path, res, body)
			if etag := res.Header.Get("ETag"); etag != "" {
				res, body = s.get(t, to+query, "If-None-Match", `"x", W/`+etag)
				if res.StatusCode != http.StatusNotModified {
					t.Errorf("%s%s: its ETag gives %d", path, query, res.StatusCode)
				}
				see(path, res, body)
			}
			res, body = s.do(t, http.MethodPost, to+query)
			see(path, res, body)
			res, body = s.get(t, to+query, "Host", "evil.example")
			see(path, res, body)
			res, body = s.get(t, to+query, "Origin", "https://evil.example")
			see(path, res, body)
		}
		for _, path := range s.Paths() {
			ask(path, "")
			if !strings.HasPrefix(path, "/api/v1/") || strings.HasSuffix(path, ".json") {
				continue
			}
			params, _ := operation(t, doc, path)
			for _, p := range params {
				if p["in"] != "query" {
					continue
				}
				name, schema := p["name"].(string), follow(t, doc, p["schema"])
				if items, ok := schema["items"]; ok {
					schema = follow(t, doc, items)
				}
				words, _ := schema["enum"].([]any)
				for _, w := range words {
					if w != "sse" {
						ask(path, "?"+name+"="+w.(string))
					}
				}
				ask(path, "?"+name+"=1")
				ask(path, "?"+name+"=%00")
			}
		}
		ask("/api/v1/events", "?format=json&since=3&limit=2")
		res, err := s.client.Do(s.request(t, http.MethodGet, "/api/v1/events?format=sse&since=5"))
		if err != nil {
			t.Fatal(err)
		}
		s.close(t)
		body, err := io.ReadAll(res.Body)
		if err != nil || res.Body.Close() != nil || !strings.Contains(string(body), "event: end") {
			t.Errorf("the stream ends with %v\n%s", err, body)
		}
		see("/api/v1/events", res, string(body))
	}
	// What can be met without a fault was met.
	paths, err := doc.At("#/paths")
	if err != nil {
		t.Fatal(err)
	}
	for path := range paths {
		_, answers := operation(t, doc, path)
		for status, a := range answers {
			content, _ := follow(t, doc, a)["content"].(map[string]any)
			if !slices.Contains([]string{"200", "304", "400", "403", "405", "421"}, status) {
				continue
			}
			for kind := range content {
				if status != "200" && kind == "text/plain" {
					continue
				}
				if !seen[path+" "+status+" "+kind] {
					t.Errorf("%s never answered %s %s", path, status, kind)
				}
			}
			if len(content) == 0 && !seen[path+" "+status+" "] {
				t.Errorf("%s never answered %s", path, status)
			}
		}
	}
}
