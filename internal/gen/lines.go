package gen

import (
	"strconv"
	"strings"

	"github.com/tclk-audit/tclk-audit/internal/testkit"
	"github.com/tclk-audit/tclk-audit/protocol"
)

// fillIn puts seq and time into a line's <SEQ> and <TS>.
func fillIn(line string, seq uint64, tsMs int64) string {
	return strings.NewReplacer("<SEQ>", strconv.FormatUint(seq, 10), "<TS>", string(testkit.AppendTime(nil, tsMs, 0))).Replace(line)
}

// brokenRows are lines that are no rows, one of each fault.
var brokenRows = []string{
	`not json at all`,
	`null`,
	`{"seq":<SEQ>}`,
	`{"seq":"<SEQ>","ts":"<TS>","from":"bob","text":"seq is a string"}`,
	`{"seq":-1,"ts":"<TS>","from":"bob","text":"seq is negative"}`,
	`{"seq":<SEQ>.5,"ts":"<TS>","from":"bob","text":"seq is a fraction"}`,
	`{"seq":<SEQ>,"from":"bob","text":"no time"}`,
	`{"seq":<SEQ>,"ts":"2026-02-30T00:00:00.000000Z","from":"bob","text":"no such day"}`,
	`{"seq":<SEQ>,"ts":"2026-09-05T09:20:00","from":"bob","text":"no zone"}`,
	`{"seq":<SEQ>,"ts":1788600000000,"from":"bob","text":"time is a number"}`,
	`{"seq":<SEQ>,"ts":"<TS>","from":"bob","text":"one","text":"two"}`,
	`{"seq":<SEQ>,"ts":"<TS>","from":7,"text":"from is a number"}`,
	`{"seq":<SEQ>,"ts":"<TS>","from":"bob","text":null}`,
	`{"seq":<SEQ>,"ts":"<TS>","from":"bob","text":"nonce is an object","nonce":{},"sig":"x"}`,
	`{"seq":<SEQ>,"ts":"<TS>","from":"bob","text":"a raw ` + "\x1b" + ` escape"}`,
	`{"seq":<SEQ>,"ts":"<TS>","from":"bob","text":"bad UTF-8 ` + "\xff" + `"}`,
	`{"seq":<SEQ>,"ts":"<TS>","from":"bob","text":"two values"}{}`,
}

func tornLine(seq uint64, tsMs int64) string {
	return fillIn(`{"seq":<SEQ>,"ts":"<TS>","from":"did:key:z6Mk`, seq, tsMs)
}

// dialects are what speaks of deals and is not tclk/1.
var dialects = []string{
	`[tclk/1:OFFER] 50 FLOP for a haiku, answer here`,
	`tclk1 {"type":"accept","from":"<DID>","ref":"<OFFER>","statement":"<32>","nonce":"<8>"}`,
	`tclk1 {"amount":"50","asset":"FLOP","from":"<DID>","type":"offer"}`,
	`tclk2 {"from":"<DID>","offer":"<OFFER>","type":"accept"}`,
	`tclk1 {"from":"<DID>","price":"12","ref":"<OFFER>","type":"bid"}`,
	`tclk1 {"contract":"<32>","from":"<DID>","outcome":"claimed","score":5,"type":"receipt"}`,
	`tclk1: offer 20 USDC for two images`,
	`TCLK1 {"from":"<DID>","type":"heartbeat"}`,
	`tclk1`,
	`{"type":"offer","from":"<DID>","amount":"50"}`,
}

const brokenFrameCount = 21

// brokenFrame is a line that starts as a frame and does not decode, or decodes
// and is not its sender's. Each variant has one fault.
func (s *story) brokenFrame(by actor, variant int) string {
	d := s.d
	beat := protocol.CanonicalLine(d.Heartbeat(by.Signer, "note"))
	offer := *d.Offer
	offer.From = by.DID
	edit := func(line, old, new string) string { return strings.Replace(line, old, new, 1) }
	sealed := func(f protocol.Offer) string {
		f.ID = protocol.OfferID(&f)
		return protocol.CanonicalLine(&f)
	}
	switch variant {
	case 0:
		return edit(beat, `"type"`, `"tip":1,"type"`)
	case 1:
		return edit(beat, `"contract"`, `"Contract"`)
	case 2:
		return edit(beat, `"type":"heartbeat"`, `"type":"cancel","type":"heartbeat"`)
	case 3:
		return edit(protocol.CanonicalLine(d.Receipt(by.Signer, protocol.Claimed)), `"claimed"`, `["claimed"]`)
	case 4:
		return edit(beat, `"contract":"0x`, `"contract":"0X`)
	case 5:
		offer.Amount = "0"
		return sealed(offer)
	case 6:
		return edit(sealed(offer), `"claimByMs":`, `"claimByMs":0.5e-`)
	case 7:
		offer.ClaimByMs = offer.RefundAfterMs
		return sealed(offer)
	case 8:
		offer.Lock, offer.PaymentKey = protocol.LockPoint, protocol.Point{}
		return sealed(offer)
	case 9:
		offer.PaymentKey = protocol.Point{0: 2, 32: 5} // x = 5 is not on the curve
		return sealed(offer)
	case 10:
		offer.Asset += "X" // under the id of the untouched offer
		return protocol.CanonicalLine(&offer)
	case 11:
		return protocol.CanonicalLine(d.Heartbeat(by.Signer, strings.Repeat("long ", 820)))
	case 12:
		return edit(beat, "note\":\"note", "note\":\"n\u00f6te")
	case 13:
		return edit(beat, `"}`, `"`)
	case 14:
		return `tclk1 ["heartbeat"]`
	case 15:
		return `tclk1 ` + strings.Repeat("[", 4000)
	case 16:
		return edit(beat, `"note":"note"`, `"note":"`+"\x7f"+`"`)
	case 17:
		return edit(beat, `"note":"note"`, `"note":""`)
	case 18:
		return edit(beat, `"type":"heartbeat"`, `"type":null`)
	case 19:
		return protocol.LinePrefix + "{" + beat[strings.Index(beat, `"from"`):]
	default:
		other := s.offerer
		if other.clock == by.clock {
			other = s.acceptor
		}
		return protocol.CanonicalLine(d.Heartbeat(other.Signer, "in your name"))
	}
}

// respell writes a canonical line in another way that decodes to the same frame.
func respell(line string, variant int) string {
	body := strings.TrimPrefix(line, protocol.LinePrefix)
	switch variant {
	case 0:
		body = strings.Replace(body, `":`, `": `, 1)
	case 1: // the first member last
		first, rest, _ := strings.Cut(body[1:len(body)-1], `,"`)
		body = `{"` + rest + "," + first + "}"
	case 2: // the type's first letter escaped
		at := strings.LastIndex(body, `"type":"`) + len(`"type":"`)
		body = body[:at] + `\u00` + strconv.FormatInt(int64(body[at]), 16) + body[at+1:]
	case 3:
		body += " "
	default: // numbers as other languages print them, where there are any
		if strings.Contains(body, `"refundAfterMs":`) {
			at := strings.Index(body, `,"role"`)
			body = body[:at] + [...]string{".0", "e0"}[variant%2] + body[at:]
		} else {
			body = strings.Replace(body, `,`, `, `, 1)
		}
	}
	return protocol.LinePrefix + body
}
