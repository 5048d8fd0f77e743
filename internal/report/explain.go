package report

import (
	"io"
	"slices"
	"strings"

	"github.com/tclk-audit/tclk-audit/fold"
	"github.com/tclk-audit/tclk-audit/protocol"
)

// ExplainOptions say what the story of a contract shows.
type ExplainOptions struct {
	Show
	Color bool
	Rules string
	// ClaimMessage is the rail's claim message under which the lock's
	// pre-signature is to be checked; nil not to. No transcript holds it.
	ClaimMessage []byte
}

// flipLimit bounds the list of what would change the answer.
const flipLimit = 64

// strangerLimit bounds the legend of signers who are no party.
const strangerLimit = 20

// Explain writes the story of one contract for a person: who promised what,
// each step with its time, margin and signer, what is proven, what is not, and
// what would change the answer.
func Explain(w io.Writer, c *fold.Contract, o ExplainOptions) error {
	p := &page{sink: sink{w: w}, color: o.Color}
	t := teller{page: p, c: c, o: o, where: placesOf(c)}
	t.title()
	t.who()
	t.terms()
	t.story()
	t.receipts()
	t.proven()
	t.notProven()
	t.flips()
	if o.ClaimMessage != nil {
		t.presignature()
	}
	p.findingList("Findings", c.Findings, len(c.Findings))
	p.line()
	p.line("Rules: ", Printable(o.Rules), ". ", "A frame is never money; only the rail can say what was paid.")
	return p.end()
}

// teller holds what the parts of a story share.
type teller struct {
	*page
	c     *fold.Contract
	o     ExplainOptions
	where places
}

func (t *teller) item(st style, parts ...string) {
	t.buf = append(t.buf, "  - "...)
	t.text(st, strings.Join(parts, ""))
	t.line()
}

func (t *teller) title() {
	c := t.c
	t.text(bold, "Contract "+c.ID.String())
	t.line()
	t.line()
	v := verdictCell(c.Verdict)
	switch {
	case c.Status == protocol.StatusNone:
		t.line("The offer of this contract is not in sight, so nothing can be said of its status.")
		if c.Verdict != fold.VerdictNone {
			t.table([][]cell{{left("verdict"), v}, {left("evidence"), left(orDash(c.Evidence.String()))}})
		}
		return
	case c.Verdict == fold.Established:
		t.line(capital(c.Status.String()), ": the rows in sight establish it.")
	case c.Verdict == fold.Open:
		t.line(capital(c.Status.String()), " so far: the contract is not at its end, and rows may come after those in sight.")
	case c.Verdict == fold.Indeterminate:
		s := "The rows in sight lead to " + c.Status.String() + ", but the evidence is incomplete"
		if len(c.Possible) > 0 {
			s += ": a missing row could make it " + orList(c.Possible)
		}
		t.line(s, ".")
	case c.Verdict == fold.Contradicted:
		t.line("The rows in sight lead to ", c.Status.String(), ", but they contradict each other.")
	}
	t.line()
	t.facts(c)
}

func (t *teller) who() {
	c := t.c
	t.heading("Who")
	rows := [][]cell{}
	if c.Payer != "" {
		rows = append(rows,
			[]cell{left("payer"), left(shortDID(c.Payer)), left(word(c.Payer))},
			[]cell{left("payee"), left(shortDID(c.Payee)), left(word(c.Payee))})
	}
	var others []string
	more := 0
	for i := range c.Steps {
		from := c.Steps[i].From
		if from == "" || from == c.Payer || from == c.Payee || slices.Contains(others, from) {
			continue
		}
		if len(others) == strangerLimit {
			more++
			continue
		}
		others = append(others, from)
	}
	for _, from := range others {
		role := "no party"
		if c.Payer == "" {
			role = "signer"
		}
		rows = append(rows, []cell{left(role), left(shortDID(from)), left(word(from))})
	}
	if len(rows) == 0 {
		t.line("  nobody in sight")
	}
	t.table(rows)
	if more > 0 {
		t.line("  and more rows of others")
	}
}

func (t *teller) terms() {
	c := t.c
	if c.Status == protocol.StatusNone {
		return
	}
	t.heading("Terms")
	if o := t.counted(protocol.TypeOffer); o != nil {
		t.line("  opened by the ", signer(c, o.From))
	}
	t.table([][]cell{
		{left("price"), left(word(c.Amount) + " " + word(c.Asset) + ", in the rail's minimal units")},
		{left("lock"), left(c.Lock.String() + ": whoever knows the secret behind the statement can claim")},
		{left("accept before"), left(clock(c.ExpiresMs) + "  expiresMs")},
		{left("reveal by"), left(clock(c.ClaimByMs) + "  claimByMs; later is late, and a gamble against the refund")},
		{left("refund from"), left(clock(c.RefundAfterMs) + "  refundAfterMs; no lock or reveal counts from then on")},
	})
	if c.Binding == fold.Superseded {
		t.line("  Another accept of this offer came first: ", c.BoundTo.String(), " is the bound contract.")
		if c.Chosen {
			t.line("  The payer chose this one: it is the only contract of the offer with a lock that counts.")
		}
	}
}

func (t *teller) story() {
	t.heading("What happened")
	if len(t.c.Steps) == 0 {
		t.line("  nothing in sight")
	}
	for i := range t.c.Steps {
		t.step(i+1, &t.c.Steps[i])
	}
	if n := t.c.StepsOmitted; n > 0 {
		t.line("  And ", plural(int64(n), "more row", "more rows"), " of non-parties beyond the limit.")
	}
	if len(t.c.ShadowSteps) > 0 {
		t.heading("The same with the board's frames in place of the deal room's")
		t.line("  Frames after the accept belong in the deal room. These stand on the board, so they do not count;")
		t.line("  if they did, the contract would be ", orDash(t.c.Shadow.String()), ".")
		for i := range t.c.ShadowSteps {
			t.step(i+1, &t.c.ShadowSteps[i])
		}
	}
}

func (t *teller) step(n int, s *fold.Step) {
	what := s.Type.String()
	switch {
	case what != "":
	case s.Ignored:
		what = "a line that is no frame"
	default:
		what = "a line that is no valid frame"
	}
	t.buf = append(t.buf, "  "...)
	head := number(int64(n)) + ". " + clock(s.TsMs) + "  " + Printable(s.Room) + " seq " + number(int64(s.Seq)) + "  "
	t.text(plain, head)
	t.text(bold, what)
	t.line(" ", t.by(s))
	t.buf = append(t.buf, "     "...)
	switch {
	case s.Ignored:
		t.text(dim, "Ignored, no defect ("+s.Reason.String()+").")
		t.line()
	case s.OK:
		t.text(green, "Counts.")
		t.line(" ", t.meaning(s))
	default:
		t.text(yellow, "Does not count: "+s.Reason.String()+".")
		if s.Detail != "" {
			t.buf = append(t.buf, ' ')
			t.text(plain, sentence(Printable(s.Detail)))
		}
		if s.CascadeOf != nil {
			t.buf = append(t.buf, ' ')
			t.text(plain, "It follows from "+t.where.of(*s.CascadeOf)+".")
		}
		t.line()
	}
	if s.MarginMs != nil {
		t.line("     ", t.margin(s))
	}
	if t.o.Secrets && s.Secret != nil {
		t.line("     Secret: ", s.Secret.String())
	}
	if t.o.Text && s.HasText {
		t.line("     Text: ", quoted(s.Text))
	}
}

func (t *teller) by(s *fold.Step) string {
	who := signer(t.c, s.From)
	switch {
	case s.From == "":
		return "by a sender without a valid name"
	case s.Reason == protocol.Unsigned:
		return "as from " + who + ", not signed"
	case unproven(s.Reason):
		return "as from " + who + ", not proven"
	case who == "payer" || who == "payee":
		return "signed by the " + who
	}
	return "signed by " + who
}

// unproven reports whether a reason says that the signature did not hold.
func unproven(r protocol.Reason) bool {
	switch r {
	case protocol.NonceForm, protocol.SignatureForm, protocol.SenderNotDID, protocol.SignatureInvalid, protocol.RoomName:
		return true
	}
	return false
}

// meaning says what a step that counts amounts to.
func (t *teller) meaning(s *fold.Step) string {
	c := t.c
	who := "The " + signer(c, s.From)
	ref := ""
	if s.Ref != "" {
		ref = ", ref " + word(s.Ref)
	}
	switch s.Type {
	case protocol.TypeOffer:
		price := word(c.Amount) + " " + word(c.Asset)
		if s.From == c.Payee {
			return who + " offers to deliver for " + price + " under a " + c.Lock.String() + " lock."
		}
		return who + " offers " + price + " under a " + c.Lock.String() + " lock."
	case protocol.TypeAccept:
		return who + " accepts and names the statement to lock under; contract id and deal room follow from it."
	case protocol.TypeLock:
		return who + " says that the money is locked on rail " + word(s.Rail) + ref + ". Only the rail can confirm it."
	case protocol.TypeReveal:
		claim := who + " publishes a secret" + ref + ", and it opens the statement: that is the claim."
		if c.Late {
			claim += " It is late: after claimByMs the rail decides between it and the refund."
		}
		return claim
	case protocol.TypeRefund:
		return who + " takes the money back" + ref + "."
	case protocol.TypeCancel:
		return who + " calls it off before any lock."
	case protocol.TypeReceipt:
		return who + " acknowledges the end: " + orDash(s.Outcome.String()) + "."
	case protocol.TypeHeartbeat:
		return "A sign of life; it changes nothing."
	}
	return ""
}

// margin says how far a deadline guard was from the other answer. The guards
// are: accept, lock and reveal before their deadline, refund at or after it.
func (t *teller) margin(s *fold.Step) string {
	m := *s.MarginMs
	if s.Type == protocol.TypeRefund {
		if m >= 0 {
			return "Margin: " + span(m) + " after the refund window opened."
		}
		return "Margin: " + span(-m) + " too early for the refund window."
	}
	deadline := "the refund window opened"
	if s.Type == protocol.TypeAccept {
		deadline = "the offer expired"
	}
	if m > 0 {
		return "Margin: " + span(m) + " before " + deadline + "."
	}
	if m == 0 {
		return "Margin: at the very millisecond that " + deadline + ", which is too late."
	}
	return "Margin: " + span(-m) + " after " + deadline + "."
}

func (t *teller) receipts() {
	if len(t.c.Receipts) == 0 {
		return
	}
	t.heading("Receipts that count")
	for i := range t.c.Receipts {
		r := &t.c.Receipts[i]
		s := "the " + signer(t.c, r.From) + " acknowledges " + orDash(r.Outcome.String())
		if r.Rail != "" {
			s += " on rail " + word(r.Rail)
		}
		if r.Ref != "" {
			s += ", ref " + word(r.Ref)
		}
		t.item(plain, s, " (", clock(r.TsMs), ", ", Printable(r.Room), " seq ", number(int64(r.Seq)), ")")
	}
}

func (t *teller) counted(ft protocol.FrameType) *fold.Step {
	for i := range t.c.Steps {
		if s := &t.c.Steps[i]; s.Type == ft && s.OK && !s.Ignored {
			return s
		}
	}
	return nil
}

func (t *teller) proven() {
	c := t.c
	t.heading("What is proven")
	if c.Status == protocol.StatusNone {
		t.item(plain, "That the signer of the accept signed it. What was accepted is not in sight.")
		return
	}
	if c.Verdict == fold.Contradicted {
		t.item(red, "Each step that counts carries its signer's valid signature; together they cannot all be as the venue's files say.")
	} else {
		t.item(plain, "Each step that counts carries its signer's valid signature over room, nonce and text.")
	}
	if t.counted(protocol.TypeAccept) != nil {
		t.item(plain, "Payer and payee signed these terms, and the contract id is the hash of both frames.")
	}
	if t.counted(protocol.TypeLock) != nil {
		t.item(plain, "The payer signed that the money is locked under this contract's statement on rail ", wordOrDash(c.Rail), ".")
	}
	if s := t.counted(protocol.TypeReveal); s != nil {
		t.item(plain, "The payee published the secret; anybody can check that it opens the statement.")
	}
	if t.counted(protocol.TypeRefund) != nil {
		t.item(plain, "The payer signed that the money went back to it.")
	}
	if s := t.counted(protocol.TypeCancel); s != nil {
		t.item(plain, "The ", signer(c, s.From), " signed the cancellation.")
	}
	if c.Verdict == fold.Established {
		if slices.ContainsFunc(c.Steps, func(s fold.Step) bool { return s.Room != protocol.BoardRoom }) {
			t.item(plain, "No row of the deal room is missing up to the end, as far as the numbers of the rows can show.")
		}
	}
}

func (t *teller) notProven() {
	c := t.c
	t.heading("What is not proven")
	switch c.Settlement {
	case fold.NoValue:
		t.item(plain, "That anything of value moved: rail ", wordOrDash(c.Rail), " moves nothing.")
	case fold.Unverified:
		t.item(plain, "That money was locked, paid or returned: nobody asked rail ", wordOrDash(c.Rail), ".")
	default:
		t.item(plain, "That any money was ever locked: no lock counts.")
	}
	t.item(plain, "That the work was done, or done well: no frame speaks of it.")
	t.item(plain, "That no row was removed and the rest renumbered: completeness is the venue's word.")
	if len(c.LeansOn) > 0 {
		var facts []string
		for _, f := range c.LeansOn {
			facts = append(facts, unsignedFact(f))
		}
		t.item(plain, "What no signature covers and this answer leans on: ", strings.Join(facts, ", "), ".")
	}
	switch c.Verdict {
	case fold.Open:
		t.item(plain, "What came after the last row in sight.")
	case fold.Indeterminate:
		t.item(yellow, "The status: see the evidence findings below for what is missing.")
	case fold.Contradicted:
		t.item(red, "The status: see the evidence findings below for the contradiction.")
	}
}

// unsignedFact says in words what a verdict leans on.
func unsignedFact(code string) string {
	switch code {
	case "ts":
		return "the venue's row times (ts)"
	case "seq":
		return "the venue's row numbers (seq)"
	case "row-order":
		return "the order of the rows"
	case "missing-rows":
		return "that nothing decisive stands in the missing rows"
	}
	return Printable(code)
}

// flips lists what would change the answer: other row times, since no
// signature covers them, and rows that may be missing.
func (t *teller) flips() {
	c := t.c
	t.heading("What would change it")
	n := 0
	add := func(parts ...string) {
		if n++; n <= flipLimit {
			t.item(plain, parts...)
		}
	}
	for i := range c.Steps {
		s := &c.Steps[i]
		if s.MarginMs == nil {
			continue
		}
		at := "the " + s.Type.String() + " at " + Printable(s.Room) + " seq " + number(int64(s.Seq))
		m := *s.MarginMs
		refund := s.Type == protocol.TypeRefund
		switch {
		case s.OK && refund:
			add(at, " flips to refused if its true time is at least ", span(m+1), " earlier")
		case s.OK:
			add(at, " flips to refused if its true time is ", span(m), " later or more")
		case refund && m < 0 && s.Reason == protocol.RefundWindowClosed:
			add(at, " could count if its true time is at least ", span(-m), " later")
		case !refund && m <= 0 && (s.Reason == protocol.RefundWindowOpen || s.Reason == protocol.OfferExpired):
			add(at, " could count if its true time is at least ", span(-m+1), " earlier")
		}
	}
	if len(c.Possible) > 0 {
		add("a row that is missing could make it ", orList(c.Possible))
	}
	for i := range c.Findings {
		switch f := &c.Findings[i]; f.Code {
		case fold.Gap, fold.StartsAfterFirst, fold.DealRoomNotInSight, fold.TornLine, fold.NoAnchor, fold.NonceRepaired:
			add(f.Code.String(), ": ", findingText(f))
		}
	}
	if c.Shadow != protocol.StatusNone && c.Shadow != c.Status {
		add("under --rule offer-room the board's frames could decide: ", c.Shadow.String())
	}
	if n > flipLimit {
		t.line("  and ", number(int64(n-flipLimit)), " more")
	}
	if n == 0 {
		t.line("  Nothing that was looked at here: no deadline judged a step and no row is known to be missing.")
	}
}

// orList joins statuses as "a, b or c".
func orList(all []protocol.Status) string {
	var words []string
	for _, s := range all {
		words = append(words, s.String())
	}
	if n := len(words); n > 1 {
		return strings.Join(words[:n-1], ", ") + " or " + words[n-1]
	}
	return strings.Join(words, "")
}

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// sentence ends a detail with a full stop and begins it with a capital.
func sentence(s string) string {
	if !strings.HasSuffix(s, ".") {
		s += "."
	}
	return capital(s)
}
