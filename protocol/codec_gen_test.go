package protocol

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// The generators below make frames, respell lines without changing what they
// say, and damage them.

const (
	testPayer = "did:key:z6Mkf45AzgMMAVXPhZ9TYEbB6k2Et1oMBeyCsZo6XGnEkHJv"
	testPayee = "did:key:z6Mksid8vpf3TwUBo1Wr4qZJ9TziDYvFQ9VtvEaQhWhdThzA"
)

// testPoint returns k·G.
func testPoint(k byte) Point {
	p, ok := Scalar{31: k}.Point()
	if !ok {
		panic("no point")
	}
	return p
}

// offCurve is well-formed, and no point: no x of 5 is on the curve.
var offCurve = Point{0: 2, 32: 5}

// wtf8 writes UTF-16 units as WTF-8.
func wtf8(text []uint16) string {
	var b []byte
	for i := 0; i < len(text); i++ {
		u := rune(text[i])
		if utf16.IsSurrogate(u) {
			if i+1 < len(text) {
				if r := utf16.DecodeRune(u, rune(text[i+1])); r != utf8.RuneError {
					b = utf8.AppendRune(b, r)
					i++
					continue
				}
			}
			b = append(b, byte(0xe0|u>>12), byte(0x80|u>>6&0x3f), byte(0x80|u&0x3f))
			continue
		}
		b = utf8.AppendRune(b, u)
	}
	return string(b)
}

var genUnit = rapid.OneOf(
	rapid.Uint16Range(0x20, 0x7e), rapid.Uint16Range(0x20, 0x7e),
	rapid.Uint16Range(0, 0x7f), rapid.Uint16Range(0x80, 0xffff), rapid.Uint16Range(0xd800, 0xdfff),
)

var genText = rapid.Map(rapid.SliceOfN(genUnit, 1, 12), wtf8)

// orEmpty makes an optional member.
func orEmpty(t *rapid.T, g *rapid.Generator[string], label string) string {
	if rapid.Bool().Draw(t, "has "+label) {
		return g.Draw(t, label)
	}
	return ""
}

var genHex32 = rapid.Custom(func(t *rapid.T) (b [32]byte) {
	for i := range b {
		b[i] = rapid.Byte().Draw(t, "byte")
	}
	return b
})

var (
	genDID    = rapid.SampledFrom([]string{testPayer, testPayee, "did:key:z6Mk" + strings.Repeat("f", 44)})
	genNonce  = rapid.StringMatching(`[0-9a-f]{8,64}`)
	genPoint  = rapid.Map(rapid.ByteRange(1, 40), testPoint)
	genMs     = rapid.Int64Range(1, maxExact)
	genRail   = rapid.OneOf(rapid.StringMatching(`[a-z0-9][a-z0-9._-]{0,63}`), rapid.SampledFrom([]string{"paper", "x402", "PaperRail", "flop-htlc"}))
	genAmount = rapid.StringMatching(`[1-9][0-9]{0,60}`)
)

func genKey(t *rapid.T) Point {
	if rapid.Bool().Draw(t, "has key") {
		return genPoint.Draw(t, "key")
	}
	return Point{}
}

var genOffer = rapid.Custom(func(t *rapid.T) *Offer {
	o := &Offer{
		From: genDID.Draw(t, "from"), Role: rapid.SampledFrom([]Role{RolePayer, RolePayee}).Draw(t, "role"),
		Amount: genAmount.Draw(t, "amount"), Asset: rapid.StringMatching(`[A-Za-z0-9_-]{1,32}`).Draw(t, "asset"),
		Lock: LockHash, Rails: rapid.SliceOfN(genRail, 1, 4).Draw(t, "rails"),
		ClaimByMs: rapid.Int64Range(1, maxExact-1).Draw(t, "claimBy"), ExpiresMs: genMs.Draw(t, "expires"),
		Nonce: genNonce.Draw(t, "nonce"), PaymentKey: genKey(t),
	}
	o.RefundAfterMs = rapid.Int64Range(o.ClaimByMs+1, maxExact).Draw(t, "refundAfter")
	if !o.PaymentKey.IsZero() && rapid.Bool().Draw(t, "point") {
		o.Lock = LockPoint
	}
	if rapid.Bool().Draw(t, "has job") {
		o.Job = &Job{Proto: genText.Draw(t, "proto"), ID: genText.Draw(t, "job id"), Context: orEmpty(t, genText, "context")}
	}
	o.ID = OfferID(o)
	return o
})

var genAccept = rapid.Custom(func(t *rapid.T) *Accept {
	st := HashStatement(genHex32.Draw(t, "digest"))
	if rapid.Bool().Draw(t, "point") {
		st = PointStatement(genPoint.Draw(t, "statement"))
	}
	return &Accept{
		From: genDID.Draw(t, "from"), Ref: genHex32.Draw(t, "ref"), Statement: st,
		Contract: genHex32.Draw(t, "contract"), Nonce: genNonce.Draw(t, "nonce"), PaymentKey: genKey(t),
	}
})

// genFrame makes a frame of any type that decodes.
var genFrame = rapid.Custom(func(t *rapid.T) Frame {
	from := genDID.Draw(t, "from")
	contract := ID(genHex32.Draw(t, "contract"))
	switch FrameType(rapid.IntRange(1, 8).Draw(t, "type")) {
	case TypeOffer:
		return genOffer.Draw(t, "offer")
	case TypeAccept:
		return genAccept.Draw(t, "accept")
	case TypeLock:
		l := &Lock{From: from, Contract: contract, Rail: genRail.Draw(t, "rail"), Ref: genText.Draw(t, "ref")}
		if rapid.Bool().Draw(t, "has presig") {
			l.Presig = &PreSignature{Nonce: genPoint.Draw(t, "presig nonce"), S: Scalar{31: rapid.ByteMin(1).Draw(t, "s")}}
		}
		return l
	case TypeReveal:
		return &Reveal{From: from, Contract: contract, Ref: orEmpty(t, genText, "ref"), Secret: genHex32.Draw(t, "secret")}
	case TypeRefund:
		return &Refund{From: from, Contract: contract, Ref: orEmpty(t, genText, "ref"), Reason: orEmpty(t, genText, "reason")}
	case TypeCancel:
		return &Cancel{From: from, Contract: contract, Reason: orEmpty(t, genText, "reason")}
	case TypeReceipt:
		return &Receipt{
			From: from, Contract: contract, Outcome: rapid.SampledFrom([]Status{Claimed, Refunded, Cancelled}).Draw(t, "outcome"),
			Rail: orEmpty(t, genRail, "rail"), Ref: orEmpty(t, genText, "ref"),
		}
	}
	return &Heartbeat{From: from, Contract: contract, Nonce: genNonce.Draw(t, "nonce"), Note: orEmpty(t, genText, "note")}
})

// respell writes a tree as JSON in some form that says the same: members in any
// order, white space, other escapes, other numbers.
func respell(t *rapid.T, n node) string {
	coin := func(label string) bool { return rapid.IntRange(0, 5).Draw(t, label) == 0 }
	space := func() string {
		if coin("space") {
			return strings.Repeat(" ", rapid.IntRange(1, 2).Draw(t, "spaces"))
		}
		return ""
	}
	switch n.kind {
	case '"':
		var b strings.Builder
		short := map[byte]string{'"': `\"`, '\\': `\\`, '/': `\/`, '\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`}
		for i := 0; i < len(n.text); i += 2 {
			hi, lo := n.text[i], n.text[i+1]
			raw := hi == 0 && lo >= ' ' && lo < 0x7f && lo != '"' && lo != '\\'
			switch s, ok := short[lo]; {
			case raw && !coin("escape"):
				b.WriteByte(lo)
			case hi == 0 && ok && !coin("long escape"):
				b.WriteString(s)
			case coin("capitals"):
				fmt.Fprintf(&b, `\u%02X%02X`, hi, lo)
			default:
				fmt.Fprintf(&b, `\u%02x%02x`, hi, lo)
			}
		}
		return `"` + b.String() + `"`
	case '{':
		members := slices.Clone(n.members)
		if coin("shuffle") {
			members = rapid.Permutation(members).Draw(t, "members")
		}
		var parts []string
		for _, m := range members {
			name := node{kind: '"', text: m.name}
			if rapid.IntRange(0, 40).Draw(t, "repeat") == 0 {
				parts = append(parts, name.stringify()+":"+rapid.SampledFrom([]string{"0", `"x"`, "[{}]", "null"}).Draw(t, "first value"))
			}
			spelled := name.stringify()
			if rapid.IntRange(0, 20).Draw(t, "respell name") == 0 {
				spelled = respell(t, name)
			}
			parts = append(parts, spelled+space()+":"+space()+respell(t, m.node))
		}
		return "{" + space() + strings.Join(parts, space()+","+space()) + space() + "}"
	case '[':
		var parts []string
		for _, v := range n.items {
			parts = append(parts, space()+respell(t, v)+space())
		}
		return "[" + strings.Join(parts, ",") + "]"
	case '0':
		v := n.raw
		switch rapid.IntRange(0, 12).Draw(t, "number") {
		case 0:
			return v + ".0"
		case 1:
			return v + "e0"
		case 2:
			return v + "0E-1"
		case 3:
			return v[:1] + "." + v[1:] + "0e+" + strconv.Itoa(len(v)-1)
		case 4:
			return "0." + v + "e" + strconv.Itoa(len(v))
		case 5:
			return v + ".0000000000000000001"
		}
		return v
	}
	panic("no such value in a frame")
}

// genRespelled makes a line and the frame that it says, in canonical form or
// not.
var genRespelled = rapid.Custom(func(t *rapid.T) string {
	line := CanonicalLine(genFrame.Draw(t, "frame"))
	if rapid.IntRange(0, 3).Draw(t, "keep") == 0 {
		return line
	}
	n, _ := parseNaive(line[len(LinePrefix):])
	return LinePrefix + respell(t, n)
})

// damage is what genDamaged puts into lines.
var damage = []string{
	"", "", `"`, `\`, "{", "}", "[", "]", ",", ":", " ", "0", "-", ".", "e", "1e400", "null", "true", `""`, "{}", "[]",
	`"type":"offer",`, `"type":"cancel",`, `"id":null,`, `"job":{"id":"a","proto":"b","type":"c"},`, `"ref":"x",`, `"extra":1,`,
	`"presig":{"nonce":"0x` + strings.Repeat("02", 33) + `","s":"0x` + strings.Repeat("01", 32) + `"},`,
	`"paymentKey":"` + offCurve.String() + `",`, `"statement":"` + testPoint(3).String() + `",`,
	`"rails":["paper","Paper"],`, `"claimByMs":1.5,`, `\u0061`, `\ud800`, `\u00E9`, "\x7f", "\x1f", "é", "\xff", "a", "F", "0x", "tclk1 ",
}

// genDamaged makes lines that are nearly frames.
var genDamaged = rapid.Custom(func(t *rapid.T) string {
	line := genRespelled.Draw(t, "line")
	for range rapid.IntRange(1, 3).Draw(t, "edits") {
		// The generator prefers small numbers, so count from the end.
		at := len(line) - rapid.IntRange(0, len(line)).Draw(t, "at")
		cut := min(rapid.SampledFrom([]int{0, 0, 1, 1, 2, 20}).Draw(t, "cut"), len(line)-at)
		line = line[:at] + rapid.SampledFrom(damage).Draw(t, "put") + line[at+cut:]
	}
	return line
})

// values is what genTwisted puts where a member's value was.
var values = []string{
	"null", "true", "false", "0", "1", "-0", "-1", "1.5", "1e3", "9007199254740991", "9007199254740992", "9007199254740991.4",
	"0.00000000000000000001", "1e-400", "1e400", "0e9", `""`, `"x"`, "[]", "{}", `[""]`, `["paper"]`, `["paper","X"]`, `[["paper"]]`, `["paper",null]`,
	`"` + offCurve.String() + `"`, `"` + testPoint(5).String() + `"`, `"0x` + strings.Repeat("00", 33) + `"`,
	`"0x` + strings.Repeat("00", 32) + `"`, `"0x` + strings.Repeat("ff", 32) + `"`, `"0X` + strings.Repeat("00", 32) + `"`,
	`"` + testPayer + `"`, `"` + testPayer[:55] + `"`, `"` + testPayer[:55] + `0"`, `"hash"`, `"point"`, `"payer"`, `["payer"]`,
	`"claimed"`, `"proposed"`, `"00aa11bb"`, `"00aa11b"`, `"00AA11BB"`, `"PaperRail"`, `"paperRail"`, `".a"`, `"10"`, `"01"`, `"a b"`, `"\ud800"`,
	`{"id":"a","proto":"b"}`, `{"id":"a"}`, `{"proto":"a","id":"b","id":"c"}`, `{"context":null,"id":"a","proto":"b"}`,
	`{"s":"0x` + strings.Repeat("11", 32) + `","nonce":"` + testPoint(6).String() + `"}`, `{"nonce":"` + offCurve.String() + `","s":"0x` + strings.Repeat("11", 32) + `"}`,
}

// genTwisted makes frames of which one or two members say something else, with
// an id that is right again in half of the offers.
var genTwisted = rapid.Custom(func(t *rapid.T) string {
	n, _ := parseNaive(CanonicalLine(genFrame.Draw(t, "frame"))[len(LinePrefix):])
	type member struct{ name, value string }
	var members []member
	for _, m := range n.members {
		members = append(members, member{ascii(m.name), m.node.stringify()})
	}
	members = rapid.Permutation(members).Draw(t, "members")
	for range rapid.IntRange(1, 2).Draw(t, "twists") {
		v := rapid.SampledFrom(values).Draw(t, "value")
		name := fieldNames[rapid.IntRange(0, int(fieldCount)-1).Draw(t, "name")]
		switch m := &members[0]; rapid.IntRange(0, 5).Draw(t, "twist") {
		case 0:
			m.name = name
		case 1:
			members = append(members, member{name, v})
		case 2:
			members = members[1:]
		default:
			m.value = v
		}
		members = append(members[1:], members[0])
	}
	fresh := rapid.Bool().Draw(t, "fresh id")
	var parts []string
	for _, m := range members {
		if m.name != "id" || !fresh {
			parts = append(parts, strconv.Quote(m.name)+":"+m.value)
		}
	}
	object := "{" + strings.Join(parts, ",") + "}"
	if fresh && strings.Contains(object, `"type":"offer"`) {
		object = withOfferID(object)
	}
	return LinePrefix + object
})

func hexOf(b []byte) string { return "0x" + hex.EncodeToString(b) }
