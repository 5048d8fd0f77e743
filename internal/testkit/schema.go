package testkit

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
)

// Schema is a JSON Schema as far as those in docs use one, or a document with
// schemas in it. An unknown keyword is an error, so that no rule of a file is
// passed over.
type Schema struct {
	Root map[string]any
}

// LoadSchema reads a schema.
func LoadSchema(path string) (*Schema, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var root map[string]any
	if err := json.Unmarshal(data, &root); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &Schema{Root: root}, nil
}

// Check validates a JSON text against the schema, or the definition named.
func (s *Schema) Check(def, text string) error {
	rules := s.Root
	if def != "" {
		rules = map[string]any{"$ref": "#/$defs/" + def}
	}
	return s.CheckBy(rules, text)
}

// CheckBy validates a JSON text against rules whose references lead into this
// document.
func (s *Schema) CheckBy(rules map[string]any, text string) error {
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return err
	}
	return s.value("", rules, v)
}

// At follows a reference such as #/$defs/name.
func (s *Schema) At(ref string) (map[string]any, error) {
	at := s.Root
	for word := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		next, ok := at[strings.NewReplacer("~1", "/", "~0", "~").Replace(word)].(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s leads nowhere", ref)
		}
		at = next
	}
	return at, nil
}

func (s *Schema) value(at string, rules map[string]any, v any) error {
	for word, rule := range rules {
		if err := s.keyword(at, word, rule, rules, v); err != nil {
			return err
		}
	}
	return nil
}

func (s *Schema) keyword(at, word string, rule any, rules map[string]any, v any) error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%s: "+format, append([]any{at}, args...)...)
	}
	switch word {
	case "$schema", "$id", "$defs", "title", "description":
		return nil
	case "$ref":
		def, err := s.At(rule.(string))
		if err != nil {
			return fail("%w", err)
		}
		return s.value(at, def, v)
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
