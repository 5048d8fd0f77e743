package venue

import (
	"context"
	"errors"
	"strings"
	"unicode/utf8"
)

// NoteKeys lists the keys of a namespace, in the venue's order. A namespace that
// nobody has written to has none. Anybody can write notes: they are hints.
func (c *Client) NoteKeys(ctx context.Context, ns string) ([]string, error) {
	if err := checkName("namespace", ns); err != nil {
		return nil, err
	}
	a := ask{path: "/kv/" + ns + "?format=json", kind: kindJSON, within: pageTime, max: maxPage}
	body, _, _, err := c.get(ctx, a)
	if err != nil {
		return nil, err
	}
	keys, kind, what := parseKeys(body, ns)
	if kind != 0 {
		return nil, &BodyError{a.path, kind, what}
	}
	return keys, nil
}

// parseKeys reads a list of keys. kind is 0 where it is sound, else what says
// why not.
func parseKeys(text []byte, ns string) (keys []string, kind BodyKind, what string) {
	var names, lists int
	sound := true
	json := utf8.Valid(text) && walk(text, func(name string, value []byte) bool {
		switch name {
		case "ns":
			names++
			v, ok := unquote(value)
			sound = sound && ok && v == ns
		case "keys":
			lists++
			s := scanner{b: value}
			sound = s.array(0, func(value []byte) bool {
				key, ok := unquote(value)
				keys = append(keys, key)
				return ok && checkName("key", key) == nil
			}) && sound
		}
		return true
	})
	switch {
	case !json:
		return nil, BodyNotJSON, "the list of keys is not JSON"
	case !sound || names != 1 || lists != 1:
		return nil, BodyShape, "the list of keys is not one of names, or of another namespace"
	}
	return keys, 0, ""
}

// Note reads a note. found is false where there is none. The value is a
// stranger's text, and only a hint: the venue wraps it into lines of its own,
// which are taken off as far as they can be told from it.
func (c *Client) Note(ctx context.Context, ns, key string) (value string, found bool, err error) {
	if err := errors.Join(checkName("namespace", ns), checkName("key", key)); err != nil {
		return "", false, err
	}
	a := ask{path: "/kv/" + ns + "/" + key, kind: kindText, within: pageTime, max: maxNote}
	body, _, _, err := c.get(ctx, a)
	var status *StatusError
	if errors.As(err, &status) && status.Code == 404 && !status.HTML {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	if !utf8.Valid(body) {
		return "", false, &BodyError{a.path, BodyShape, "the note is not UTF-8"}
	}
	return strip(string(body)), true, nil
}

const (
	bannerStart = "!! UNTRUSTED"
	footerStart = "# budget:"
)

// strip takes the venue's own lines off a note: the banner and the empty line
// in front of the value, the line end behind it, and the line about the budget
// that may follow. A value is one line and not empty, so only a last line that
// is not the first can be that.
func strip(body string) string {
	if first, rest, ok := strings.Cut(body, "\n"); ok && strings.HasPrefix(first, bannerStart) {
		body = strings.TrimPrefix(rest, "\n")
	}
	body = strings.TrimRight(body, "\n")
	if i := strings.LastIndexByte(body, '\n'); i >= 0 && strings.HasPrefix(body[i+1:], footerStart) {
		body = strings.TrimRight(body[:i], "\n")
	}
	return body
}
