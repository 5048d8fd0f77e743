package fold

import (
	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/verify"
)

// roomFindings says what is to be said of a deal room's rows and seqs. With a
// judging it also looks at what concerns that contract's counted steps, and
// lowers its evidence.
func (a *Auditor) roomFindings(rm *room, contract protocol.ID, j *judging) []Finding {
	name := rm.name.String()
	var list []Finding
	add := func(code Code, sev Severity, order uint64, seq uint64, detail string) {
		if sev == SeverityNone {
			sev = codeTable[code].base
		}
		list = append(list, Finding{Code: code, Severity: sev, Contract: contract, Room: name, Seq: &seq, Detail: detail, Order: order})
	}
	t := &rm.track
	if startsAfterFirst(t) {
		add(StartsAfterFirst, SeverityNone, a.firstOrder(rm), t.first, "the first row in sight is not the room's first")
	}
	for h := rm.holeHead; h != 0; h = a.holes.at(h).next {
		g := a.holes.at(h)
		add(Gap, Notice, g.order, g.to+1, missing(g.from, g.to))
	}
	if t.unfilled != 0 && t.unfilledSeq > t.top && t.unfilledSeq != ^uint64(0) {
		add(Gap, Notice, t.unfilled-1, t.unfilledSeq, missing(t.top+1, t.unfilledSeq))
	}
	if rm.headMissing() {
		add(Gap, Notice, max(t.lastFilled, a.firstOrder(rm)), rm.headSeq, missing(max(t.top, t.last)+1, rm.headSeq))
	}
	if t.unfilled != 0 && t.unfilledSeq == ^uint64(0) {
		add(Gap, Notice, t.unfilled-1, t.last, "a row behind this one could not be read")
	}
	counted := map[uint64]bool{}
	if j != nil && j.w.accepted {
		for k := range j.w.steps {
			if s := &j.w.steps[k]; s.row != nil && s.counted() {
				counted[s.order] = true
			}
		}
	}
	if a.nonces == nil {
		a.nonces = map[uint32]nonceMark{}
	}
	clear(a.nonces)
	var pos uint64
	shown := 0
	for k := rm.head; k != 0; k = a.rows.at(k).next {
		r := a.rows.at(k)
		if r.flags&flagFiller != 0 {
			pos += r.nonce
			continue
		}
		pos += uint64(r.size)
		if r.flags&(flagHidden|flagFiller) != 0 {
			continue
		}
		isCounted := counted[r.order]
		fell, concerns := false, false
		if r.class == verify.Authentic && r.flags&(flagReplay|flagDisorder) == 0 {
			m, known := a.nonces[r.from]
			switch {
			case known && m.gen == r.gen && pos-m.pos < nonceWindow && r.nonce < m.top:
				fell, concerns = true, isCounted || m.counted
			default:
				a.nonces[r.from] = nonceMark{r.nonce, r.gen, pos, isCounted}
			}
		}
		if shown++; shown > StepLimit && !isCounted {
			continue
		}
		if fell {
			// Where the room's beginning is not in sight, the lower nonce may be
			// a replay by anybody of a row that is not in sight.
			sev := Info
			if concerns && !startsAfterFirst(t) && r.order <= j.end {
				sev = Anomaly
				j.lower(Conflicting)
			}
			add(NonceOrder, sev, r.order, r.seq, "the sender's nonce fell while seq rose")
		}
		if r.flags&flagDisorder != 0 {
			add(OrderViolation, Anomaly, r.order, r.seq, "seq does not rise")
		}
		if r.flags&flagAnyConflict != 0 {
			add(ConflictingMetadata, SeverityNone, r.order, r.seq, conflictDetail(conflictOf(r.flags)))
		}
		if r.flags&flagImpossible != 0 {
			add(ImpossibleRow, SeverityNone, r.order, r.seq, "a row without a did:key sender in a room that takes signed rows only")
		}
		if r.flags&flagReplay != 0 && r.class == verify.Authentic {
			add(Replay, SeverityNone, r.order, r.seq, "the same record stands earlier")
		}
		if r.flags&flagNoncanonical != 0 {
			add(NoncanonicalLine, SeverityNone, r.order, r.seq, noncanonicalDetail)
		}
		switch r.class {
		case verify.Repaired:
			add(NonceRepaired, SeverityNone, r.order, r.seq, a.rowNotes(r).detail)
		case verify.Invalid:
			if other := a.rowNotes(r).detail; other != "" {
				add(SignedForOtherRoom, SeverityNone, r.order, r.seq, "the signature verifies in "+other)
			}
		}
		if j != nil && r.flags&flagNotStrict != 0 {
			if isCounted && j.ac.result.locked {
				j.lower(Conflicting)
			}
			if isCounted && j.ac.result.locked || a.opts.Exact {
				add(SignatureNotStrict, SeverityNone, r.order, r.seq, notStrictDetail)
			}
		}
	}
	return list
}

func (a *Auditor) firstOrder(rm *room) uint64 {
	if rm.head == 0 {
		return 0
	}
	return a.rows.at(rm.head).order
}

func conflictOf(f flag) Conflict {
	var c Conflict
	if f&flagConflictTime != 0 {
		c |= ConflictTime
	}
	if f&flagConflictRecord != 0 {
		c |= ConflictRecord
	}
	if f&flagConflictMissing != 0 {
		c |= ConflictMissing
	}
	return c
}
