package protocol

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
)

// The naive reader below says what a line is by plain means: a tree of JSON
// values, regular expressions, rationals, strings as UTF-16. It shares no code
// with the decoder, which is held against it.

// node is a JSON value: kind is its first character ('"', '{', '[', 't', 'f',
// 'n', or '0' for a number).
type node struct {
	kind    byte
	raw     string // a number's token
	text    string // a string's UTF-16 units, two bytes each
	members []naiveMember
	items   []node
}

type naiveMember struct {
	name string
	node node
}

// get returns the last member of that name.
func (n node) get(name string) (node, bool) {
	for _, m := range slices.Backward(n.members) {
		if m.name == units(name) {
			return m.node, true
		}
	}
	return node{}, false
}

// repeats tells whether any object in the tree has a member twice.
func (n node) repeats() bool {
	seen := map[string]bool{}
	for _, m := range n.members {
		if seen[m.name] || m.node.repeats() {
			return true
		}
		seen[m.name] = true
	}
	return slices.ContainsFunc(n.items, node.repeats)
}

// units spells a WTF-8 string as UTF-16 units.
func units(s string) string {
	var b strings.Builder
	put := func(u rune) { b.WriteByte(byte(u >> 8)); b.WriteByte(byte(u)) }
	for len(s) > 0 {
		if len(s) >= 3 && s[0] == 0xed && s[1] >= 0xa0 {
			put(0xd000 | rune(s[1]&0x3f)<<6 | rune(s[2]&0x3f))
			s = s[3:]
			continue
		}
		r := []rune(s)[0]
		for _, u := range utf16.Encode([]rune{r}) {
			put(rune(u))
		}
		s = s[len(string(r)):]
	}
	return b.String()
}

// ascii turns units back into a string where all are ASCII; "" otherwise.
func ascii(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i += 2 {
		if text[i] != 0 || text[i+1] > 0x7f {
			return ""
		}
		b.WriteByte(text[i+1])
	}
	return b.String()
}

// parseNaive parses text that json.Valid has passed.
func parseNaive(s string) (node, string) {
	s = strings.TrimLeft(s, " \t\r\n")
	switch s[0] {
	case '"':
		return parseNaiveString(s)
	case '{':
		n := node{kind: '{'}
		for s = strings.TrimLeft(s[1:], " \t\r\n,"); s[0] != '}'; s = strings.TrimLeft(s, " \t\r\n,") {
			var name, v node
			name, s = parseNaiveString(s)
			s = strings.TrimLeft(s, " \t\r\n")
			v, s = parseNaive(s[1:])
			n.members = append(n.members, naiveMember{name.text, v})
		}
		return n, s[1:]
	case '[':
		n := node{kind: '['}
		for s = strings.TrimLeft(s[1:], " \t\r\n"); s[0] != ']'; s = strings.TrimLeft(s, " \t\r\n,") {
			var v node
			v, s = parseNaive(s)
			n.items = append(n.items, v)
		}
		return n, s[1:]
	case 't', 'n':
		return node{kind: s[0]}, s[4:]
	case 'f':
		return node{kind: s[0]}, s[5:]
	}
	end := strings.IndexFunc(s, func(r rune) bool { return !strings.ContainsRune("+-.eE0123456789", r) })
	if end < 0 {
		end = len(s)
	}
	return node{kind: '0', raw: s[:end]}, s[end:]
}

func parseNaiveString(s string) (node, string) {
	n := node{kind: '"'}
	for s = s[1:]; s[0] != '"'; {
		if s[0] != '\\' {
			r := []rune(s)[0]
			n.text += units(string(r))
			s = s[len(string(r)):]
			continue
		}
		if s[1] == 'u' {
			u, _ := strconv.ParseUint(s[2:6], 16, 16)
			n.text += string([]byte{byte(u >> 8), byte(u)})
			s = s[6:]
			continue
		}
		short := map[byte]string{'"': `"`, '\\': `\`, '/': "/", 'b': "\b", 'f': "\f", 'n': "\n", 'r': "\r", 't': "\t"}
		n.text += units(short[s[1]])
		s = s[2:]
	}
	return n, s[1:]
}

// stringify writes a tree in canonical form, the way JavaScript would.
func (n node) stringify() string {
	switch n.kind {
	case '"':
		var b strings.Builder
		for i := 0; i < len(n.text); i += 2 {
			u := rune(n.text[i])<<8 | rune(n.text[i+1])
			if u >= 0x80 {
				fmt.Fprintf(&b, `\u%04x`, u)
				continue
			}
			quoted, err := json.Marshal(string(u))
			if err != nil {
				panic(err)
			}
			// Go escapes these three for HTML's sake; JavaScript does not.
			switch u {
			case '<', '>', '&':
				quoted = []byte{'"', byte(u), '"'}
			}
			b.Write(quoted[1 : len(quoted)-1])
		}
		return `"` + b.String() + `"`
	case '{':
		var parts []string
		seen := map[string]bool{}
		for _, m := range slices.Backward(n.members) {
			if !seen[m.name] {
				seen[m.name] = true
				parts = append(parts, node{kind: '"', text: m.name}.stringify()+":"+m.node.stringify())
			}
		}
		slices.Sort(parts)
		return "{" + strings.Join(parts, ",") + "}"
	case '[':
		var parts []string
		for _, v := range n.items {
			parts = append(parts, v.stringify())
		}
		return "[" + strings.Join(parts, ",") + "]"
	case '0':
		v, _ := naiveInteger(n.raw, true)
		return strconv.FormatInt(v, 10)
	}
	return map[byte]string{'t': "true", 'f': "false", 'n': "null"}[n.kind]
}

// naiveInteger is ExactInteger by rationals or doubles. Exponents that would
// make a huge rational are judged by their double alone, which is 0 or infinite.
func naiveInteger(raw string, byDouble bool) (int64, bool) {
	if !byDouble {
		if i := strings.IndexAny(raw, "eE"); i >= 0 {
			if e, err := strconv.ParseInt(raw[i+1:], 10, 64); err != nil || e > 9999 || e < -9999 {
				return 0, !strings.ContainsAny(raw[:i], "123456789")
			}
		}
		r, _ := new(big.Rat).SetString(raw)
		if !r.IsInt() || r.Num().CmpAbs(big.NewInt(maxExact)) > 0 {
			return 0, false
		}
		return r.Num().Int64(), true
	}
	f, _ := strconv.ParseFloat(raw, 64)
	b, acc := big.NewFloat(0).SetFloat64(0), big.Exact
	if f >= -maxExact && f <= maxExact {
		b.SetFloat64(f)
		v, accuracy := b.Int64()
		return v, accuracy == acc
	}
	return 0, false
}

// naiveOrder is n of secp256k1.
var naiveOrder, _ = new(big.Int).SetString("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141", 16)

// naiveForms holds what each string member must look like.
var naiveForms = map[string]*regexp.Regexp{
	"from":   regexp.MustCompile(`^did:key:z6Mk[1-9A-HJ-NP-Za-km-z]{44}$`),
	"amount": regexp.MustCompile(`^[1-9][0-9]*$`), "asset": regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`),
	"role": regexp.MustCompile(`^(payer|payee)$`), "lock": regexp.MustCompile(`^(hash|point)$`),
	"nonce": regexp.MustCompile(`^[0-9a-f]{8,64}$`), "ref of accept": regexp.MustCompile(`^0x[0-9a-f]{64}$`),
	"contract": regexp.MustCompile(`^0x[0-9a-f]{64}$`), "secret": regexp.MustCompile(`^0x[0-9a-f]{64}$`),
	"statement": regexp.MustCompile(`^0x([0-9a-f]{64}|[0-9a-f]{66})$`), "paymentKey": regexp.MustCompile(`^0x[0-9a-f]{66}$`),
	"rail":         regexp.MustCompile(`^([a-z0-9][a-z0-9._-]{0,63}|PaperRail)$`),
	"outcome":      regexp.MustCompile(`^(claimed|refunded|cancelled)$`),
	"presig.nonce": regexp.MustCompile(`^0x[0-9a-f]{66}$`), "presig.s": regexp.MustCompile(`^0x[0-9a-f]{64}$`),
}

// naiveMembers is SPEC §3's table: required members, then optional ones.
var naiveMembers = map[string][2]string{
	"offer":     {"type from role amount asset lock rails claimByMs refundAfterMs expiresMs nonce id", "paymentKey job"},
	"accept":    {"type from ref statement contract nonce", "paymentKey"},
	"lock":      {"type from contract rail ref", "presig"},
	"reveal":    {"type from contract secret", "ref"},
	"refund":    {"type from contract", "ref reason"},
	"cancel":    {"type from contract", "reason"},
	"receipt":   {"type from contract outcome", "rail ref"},
	"heartbeat": {"type from contract nonce", "note"},
}

// naiveResult is what the naive reader makes of a line. canonical is "" unless
// the line is a frame.
type naiveResult struct {
	reasons   []Reason // any of these may be given: none of the checks among them comes first
	canonical string
	typ       string
	repeats   bool
}

func naiveDecode(line string, rules DecodeRules) naiveResult {
	one := func(r Reason) naiveResult { return naiveResult{reasons: []Reason{r}} }
	if !strings.HasPrefix(line, "tclk1 ") {
		if regexp.MustCompile(`^tclk[0-9]+ `).MatchString(line) {
			return one(OtherVersion)
		}
		return one(NotAFrame)
	}
	if len(utf16.Encode([]rune(line))) > 4096 {
		return one(LineTooLong)
	}
	if !regexp.MustCompile(`^[ -~]*$`).MatchString(line) {
		return one(LineNotASCII)
	}
	if !json.Valid([]byte(line[6:])) {
		return one(FrameNotJSON)
	}
	n, _ := parseNaive(line[6:])
	if n.kind != '{' {
		return one(FrameNotObject)
	}
	repeats := n.repeats()
	typ := ""
	if v, ok := n.get("type"); ok && v.kind == '"' {
		typ = ascii(v.text)
	}
	shape, known := naiveMembers[typ]
	if !known {
		typ = ""
	}
	res := naiveResult{typ: typ, repeats: repeats}
	if repeats && !rules.LastDuplicateWins {
		res.reasons = []Reason{DuplicateMember}
		return res
	}
	if !known {
		res.reasons = []Reason{UnknownType}
		return res
	}
	required, optional := strings.Fields(shape[0]), strings.Fields(shape[1])
	for _, m := range n.members {
		if name := ascii(m.name); !slices.Contains(required, name) && !slices.Contains(optional, name) {
			res.reasons = []Reason{UnknownField}
			return res
		}
	}
	for _, name := range required {
		if _, ok := n.get(name); !ok {
			res.reasons = []Reason{MissingField}
			return res
		}
	}
	res.reasons = naiveFields(n, typ, rules)
	if len(res.reasons) == 0 {
		res.canonical = "tclk1 " + n.stringify()
	}
	return res
}

func naiveFields(n node, typ string, rules DecodeRules) (reasons []Reason) {
	bad := func(r Reason) { reasons = append(reasons, r) }
	fits := func(v node, form string) bool {
		return v.kind == '"' && naiveForms[form].MatchString(ascii(v.text))
	}
	times := map[string]int64{}
	var points []string
	for _, m := range n.members {
		name := ascii(m.name)
		v, _ := n.get(name)
		switch name {
		case "type", "id":
		case "ref", "reason", "note":
			if name == "ref" && typ == "accept" {
				if !fits(v, "ref of accept") {
					bad(BadField)
				}
			} else if v.kind != '"' || v.text == "" {
				bad(BadField)
			}
		case "claimByMs", "refundAfterMs", "expiresMs":
			ms, ok := int64(0), v.kind == '0'
			if ok {
				ms, ok = naiveInteger(v.raw, rules.NumbersByDouble)
			}
			if !ok || ms < 1 {
				bad(BadField)
			}
			times[name] = ms
		case "rails":
			if v.kind != '[' || len(v.items) == 0 {
				bad(BadField)
			}
			for _, r := range v.items {
				if !fits(r, "rail") {
					bad(BadField)
				}
			}
		case "job":
			reasons = append(reasons, naiveNested(v, "id proto", "context", func(_ string, v node) Reason {
				if v.kind != '"' || v.text == "" {
					return BadField
				}
				return ReasonNone
			})...)
		case "presig":
			reasons = append(reasons, naiveNested(v, "nonce s", "", func(name string, v node) Reason {
				if !fits(v, "presig."+name) {
					return BadField
				}
				if name == "nonce" {
					points = append(points, ascii(v.text))
				} else if s, _ := new(big.Int).SetString(ascii(v.text)[2:], 16); s.Sign() == 0 || s.Cmp(naiveOrder) >= 0 {
					return BadField
				}
				return ReasonNone
			})...)
		default:
			if !fits(v, name) {
				bad(BadField)
			} else if name == "paymentKey" || name == "statement" && len(ascii(v.text)) == 68 {
				points = append(points, ascii(v.text))
			}
		}
	}
	if len(reasons) > 0 {
		return reasons
	}
	if typ == "offer" {
		if times["claimByMs"] >= times["refundAfterMs"] {
			return []Reason{DeadlineOrder}
		}
		lock, _ := n.get("lock")
		if _, ok := n.get("paymentKey"); !ok && ascii(lock.text) == "point" {
			return []Reason{PointNeedsKey}
		}
	}
	for _, p := range points {
		b, err := hex.DecodeString(p[2:])
		if err != nil {
			return []Reason{BadField}
		}
		if _, err := secp256k1.ParsePubKey(b); err != nil {
			return []Reason{PointInvalid}
		}
	}
	if typ == "offer" {
		rest := node{kind: '{'}
		for _, m := range n.members {
			if m.name != units("id") {
				rest.members = append(rest.members, m)
			}
		}
		sum := sha256.Sum256([]byte("FLOP::tclk::v1|offer|" + rest.stringify()))
		id, _ := n.get("id")
		if id.kind != '"' || ascii(id.text) != "0x"+hex.EncodeToString(sum[:]) {
			return []Reason{OfferIDMismatch}
		}
	}
	return nil
}

func naiveNested(v node, required, optional string, check func(string, node) Reason) (reasons []Reason) {
	if v.kind != '{' {
		return []Reason{BadField}
	}
	for _, m := range v.members {
		name := ascii(m.name)
		if !slices.Contains(strings.Fields(required+" "+optional), name) {
			reasons = append(reasons, UnknownField)
			continue
		}
		last, _ := v.get(name)
		if r := check(name, last); r != ReasonNone {
			reasons = append(reasons, r)
		}
	}
	for _, name := range strings.Fields(required) {
		if _, ok := v.get(name); !ok {
			reasons = append(reasons, MissingField)
		}
	}
	return reasons
}
