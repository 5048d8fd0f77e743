package report

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/protocol"
)

// schema is a JSON Schema as far as docs/verify.schema.json uses one. An
// unknown keyword is an error, so that no rule of the file is passed over.
type schema struct {
	root map[string]any
}

func loadSchema(t *testing.T) *schema {
	t.Helper()
	data, err := os.ReadFile("../../docs/verify.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var root map[string]any
	if err := json.Unmarshal(data, &root); err != nil {
		t.Fatal(err)
	}
	return &schema{root: root}
}

// check validates a JSON text against the schema, or the definition named.
func (s *schema) check(def, text string) error {
	rules := any(s.root)
	if def != "" {
		rules = map[string]any{"$ref": "#/$defs/" + def}
	}
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return err
	}
	return s.value(def, rules.(map[string]any), v)
}

func (s *schema) value(at string, rules map[string]any, v any) error {
	for word, rule := range rules {
		if err := s.keyword(at, word, rule, rules, v); err != nil {
			return err
		}
	}
	return nil
}

func (s *schema) keyword(at, word string, rule any, rules map[string]any, v any) error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%s: "+format, append([]any{at}, args...)...)
	}
	switch word {
	case "$schema", "$id", "$defs", "title", "description":
		return nil
	case "$ref":
		name := strings.TrimPrefix(rule.(string), "#/$defs/")
		def, ok := s.root["$defs"].(map[string]any)[name]
		if !ok {
			return fail("no definition %s", name)
		}
		return s.value(at, def.(map[string]any), v)
	case "anyOf":
		var last error
		for _, r := range rule.([]any) {
			if last = s.value(at, r.(map[string]any), v); last == nil {
				return nil
			}
		}
		return last
	case "type":
		names, ok := rule.([]any)
		if !ok {
			names = []any{rule}
		}
		for _, n := range names {
			if isType(n.(string), v) {
				return nil
			}
		}
		return fail("%v is not %v", v, rule)
	case "const":
		if v != rule {
			return fail("%v is not %v", v, rule)
		}
	case "enum":
		if !slices.Contains(rule.([]any), v) {
			return fail("%v is none of %v", v, rule)
		}
	case "pattern":
		if str, ok := v.(string); ok && !regexp.MustCompile(rule.(string)).MatchString(str) {
			return fail("%q does not match %s", str, rule)
		}
	case "minimum":
		if n, ok := v.(float64); ok && n < rule.(float64) {
			return fail("%v is below %v", n, rule)
		}
	case "items":
		list, _ := v.([]any)
		for i, item := range list {
			if err := s.value(fmt.Sprintf("%s[%d]", at, i), rule.(map[string]any), item); err != nil {
				return err
			}
		}
	case "required":
		if o, ok := v.(map[string]any); ok {
			for _, name := range rule.([]any) {
				if _, ok := o[name.(string)]; !ok {
					return fail("no %s", name)
				}
			}
		}
	case "properties":
		if o, ok := v.(map[string]any); ok {
			for name, r := range rule.(map[string]any) {
				if member, ok := o[name]; ok {
					if err := s.value(at+"."+name, r.(map[string]any), member); err != nil {
						return err
					}
				}
			}
		}
	case "additionalProperties":
		o, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		known, _ := rules["properties"].(map[string]any)
		for name, member := range o {
			if _, ok := known[name]; ok {
				continue
			}
			r, ok := rule.(map[string]any)
			if !ok {
				return fail("unknown member %s", name)
			}
			if err := s.value(at+"."+name, r, member); err != nil {
				return err
			}
		}
	case "propertyNames":
		if o, ok := v.(map[string]any); ok {
			for name := range o {
				if err := s.value(at+"."+name, rule.(map[string]any), name); err != nil {
					return err
				}
			}
		}
	default:
		return fail("the checker does not know the keyword %s", word)
	}
	return nil
}

func isType(name string, v any) bool {
	switch v := v.(type) {
	case nil:
		return name == "null"
	case bool:
		return name == "boolean"
	case string:
		return name == "string"
	case float64:
		return name == "number" || name == "integer" && v == math.Trunc(v)
	case []any:
		return name == "array"
	case map[string]any:
		return name == "object"
	}
	return false
}

func TestSchemaListsEveryCode(t *testing.T) {
	s := loadSchema(t)
	enum := func(path ...string) []string {
		var v any = s.root["$defs"]
		for _, p := range path {
			v = v.(map[string]any)[p]
		}
		var out []string
		for _, w := range v.([]any) {
			if w != nil {
				out = append(out, w.(string))
			}
		}
		return out
	}
	var reasons, codes []string
	for _, r := range protocol.Reasons() {
		reasons = append(reasons, r.String())
	}
	for _, c := range fold.Codes() {
		codes = append(codes, c.String())
	}
	for _, c := range []struct {
		name      string
		got, want []string
	}{
		{"step.reason", enum("step", "properties", "reason", "enum"), reasons},
		{"rejected", enum("rejected", "propertyNames", "enum"), reasons},
		{"finding.code", enum("finding", "properties", "code", "enum"), codes},
		{"findingCounts", enum("findingCounts", "propertyNames", "enum"), codes},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s lists %v, the code has %v", c.name, c.got, c.want)
		}
	}
}

// TestSchemaChecker makes sure that the checker refuses what it should.
func TestSchemaChecker(t *testing.T) {
	s := loadSchema(t)
	good := string(AppendContractLine(nil, claimed(), Show{}))
	if err := s.check("contract", good); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, from, to string }{
		{"unknown member", `"flips":null`, `"flips":null,"x":1`},
		{"missing member", `"flips":null,`, ``},
		{"wrong word", `"status":"claimed"`, `"status":"paid"`},
		{"wrong type", `"stepsOmitted":0`, `"stepsOmitted":"0"`},
		{"negative", `"stepsOmitted":0`, `"stepsOmitted":-1`},
		{"not an id", `"contract":"0x`, `"contract":"0X`},
		{"inside a step", `"ignored":false`, `"ignored":null`},
	} {
		bad := strings.Replace(good, c.from, c.to, 1)
		if bad == good {
			t.Fatalf("%s: %s does not occur", c.name, c.from)
		}
		if err := s.check("contract", bad); err == nil {
			t.Errorf("%s: accepted", c.name)
		}
	}
}

// TestProgramFitsSchema validates what the program printed about bundled
// exports, as its own golden tests hold it.
func TestProgramFitsSchema(t *testing.T) {
	s := loadSchema(t)
	files, err := filepath.Glob("../../cmd/tclk-audit/testdata/json/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden file of the program: %v", err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.check("", string(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
