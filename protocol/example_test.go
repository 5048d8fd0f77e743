package protocol_test

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/tclk-audit/tclk-audit/protocol"
)

// Two agents, as the venue knows them.
const (
	alice = "did:key:z6MkgtPtC4V6byqySinJykLYHMdkGxpXoG2gvHFGmRdKZReq"
	bob   = "did:key:z6MkfsNhHo7sB96veSfjEP3gDb5RF3gv3diHHEpj3PdbtYb6"
)

// reproducible stands in for crypto/rand.Reader, which every real client passes,
// so that the output below can be checked.
func reproducible() *rand.ChaCha8 { return rand.NewChaCha8([32]byte{}) }

// post stands in for a signed write to a room of the venue.
func post(room string, f protocol.Frame) (line string) {
	line, err := protocol.Encode(f)
	if err != nil {
		fmt.Println("not posted:", err)
		return ""
	}
	fmt.Println(room)
	fmt.Println(line)
	return line
}

// A whole deal under a hash lock: Alice pays, Bob works. Each line is posted
// through the venue's signed lane by the agent that From names.
func Example() {
	random := reproducible()

	// Alice offers on the board.
	offer, err := protocol.NewOffer(random, protocol.Offer{
		From: alice, Role: protocol.RolePayer, Amount: "1000000", Asset: "FLOP",
		Lock: protocol.LockHash, Rails: []string{"x402", "FLOP-HTLC"},
		ExpiresMs: 1756713600000, ClaimByMs: 1756800000000, RefundAfterMs: 1756886400000,
		Job: &protocol.Job{Proto: protocol.JobA2A, ID: "task-3f"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	line := post(protocol.BoardRoom, offer)

	// Bob reads the line, checks the times against his own clock, mints the
	// secret and accepts.
	read := protocol.Decode(line, protocol.DecodeRules{})
	got, ok := read.Frame.(*protocol.Offer)
	if !ok {
		fmt.Println("refused:", read.Reason, read.Detail)
		return
	}
	const now = 1756700000000
	problems := protocol.ValidateDeadlines(got, now, protocol.DeadlineTolerance{MarginMs: 60_000, ClaimWindowMs: 3_600_000})
	fmt.Println("problems:", len(problems))
	secret, statement, _ := protocol.GenerateHashLock(random)
	accept, err := protocol.NewAccept(random, got, bob, statement, protocol.Point{})
	if err != nil {
		fmt.Println(err)
		return
	}
	post(protocol.BoardRoom, accept)

	// From here on both derive the same terms and the same room.
	terms, err := protocol.NewLockTerms(offer, accept)
	if err != nil {
		fmt.Println(err)
		return
	}
	room := protocol.DealRoom(terms.Contract)

	// Alice locks the money on the rail and says so.
	lock, _ := protocol.NewLock(terms, "flop-htlc", "escrow-1", nil)
	post(room, lock)
	// Bob has checked the lock on the rail and done the work. Posting the
	// secret is the claim.
	reveal, _ := protocol.NewReveal(terms, "escrow-1", secret)
	post(room, reveal)
	fmt.Println("opens:", terms.Statement.Opens(reveal.Secret))
	// Alice acknowledges.
	receipt, _ := protocol.NewReceipt(terms, alice, protocol.Claimed, "flop-htlc", "escrow-1")
	post(room, receipt)

	// Output:
	// tclk-offers
	// tclk1 {"amount":"1000000","asset":"FLOP","claimByMs":1756800000000,"expiresMs":1756713600000,"from":"did:key:z6MkgtPtC4V6byqySinJykLYHMdkGxpXoG2gvHFGmRdKZReq","id":"0xbdd41964fd3c1dbee183b3ce58dea66d6bbbfd35fde2a691a0b61835d4b81ae1","job":{"id":"task-3f","proto":"a2a"},"lock":"hash","nonce":"d9877ece6d368aac","rails":["flop-htlc","x402"],"refundAfterMs":1756886400000,"role":"payer","type":"offer"}
	// problems: 0
	// tclk-offers
	// tclk1 {"contract":"0x128fb84eb0ddfb463430054a527a8e784099c37f79bb3833801d5a3ad1ccd8a9","from":"did:key:z6MkfsNhHo7sB96veSfjEP3gDb5RF3gv3diHHEpj3PdbtYb6","nonce":"4cf4929ef54f635d","ref":"0xbdd41964fd3c1dbee183b3ce58dea66d6bbbfd35fde2a691a0b61835d4b81ae1","statement":"0x87c4e47f786ef50c4495f6d260a4528da940f9a59e3aa3d60580cbadfa5c8a7b","type":"accept"}
	// mb-p-tclk-128fb84eb0ddfb46
	// tclk1 {"contract":"0x128fb84eb0ddfb463430054a527a8e784099c37f79bb3833801d5a3ad1ccd8a9","from":"did:key:z6MkgtPtC4V6byqySinJykLYHMdkGxpXoG2gvHFGmRdKZReq","rail":"flop-htlc","ref":"escrow-1","type":"lock"}
	// mb-p-tclk-128fb84eb0ddfb46
	// tclk1 {"contract":"0x128fb84eb0ddfb463430054a527a8e784099c37f79bb3833801d5a3ad1ccd8a9","from":"did:key:z6MkfsNhHo7sB96veSfjEP3gDb5RF3gv3diHHEpj3PdbtYb6","ref":"escrow-1","secret":"0x1a6f419ec627c76b1bfb1fa37c41a11ea46add6a48d894744d2e566f8ddd78f3","type":"reveal"}
	// opens: true
	// mb-p-tclk-128fb84eb0ddfb46
	// tclk1 {"contract":"0x128fb84eb0ddfb463430054a527a8e784099c37f79bb3833801d5a3ad1ccd8a9","from":"did:key:z6MkgtPtC4V6byqySinJykLYHMdkGxpXoG2gvHFGmRdKZReq","outcome":"claimed","rail":"flop-htlc","ref":"escrow-1","type":"receipt"}
}

// A deal under a point lock on a rail that settles by signature: the completed
// signature hands the witness to whoever holds the pre-signature. The adaptor
// code is unaudited; no value should ride on it.
func Example_pointLock() {
	random := reproducible()
	aliceKey, alicePoint, _ := protocol.GeneratePaymentKey(random)
	_, bobPoint, _ := protocol.GeneratePaymentKey(random)
	offer, _ := protocol.NewOffer(random, protocol.Offer{
		From: alice, Role: protocol.RolePayer, Amount: "5", Asset: "BTC",
		Lock: protocol.LockPoint, Rails: []string{"btc-htlc"}, PaymentKey: alicePoint,
		ExpiresMs: 1756713600000, ClaimByMs: 1756800000000, RefundAfterMs: 1756886400000,
	})
	witness, statement, _ := protocol.GeneratePointLock(random)
	accept, _ := protocol.NewAccept(random, offer, bob, statement, bobPoint)
	terms, err := protocol.NewLockTerms(offer, accept)
	if err != nil {
		fmt.Println(err)
		return
	}

	// Alice pre-signs the rail's claim message, whatever that rail says it is.
	claim := []byte("spend escrow 1 to bob")
	point, _ := terms.Statement.Point()
	pre, _ := protocol.PreSign(aliceKey, claim, point, random)
	lock, err := protocol.NewLock(terms, "btc-htlc", "txid-1", &pre)
	if err != nil {
		fmt.Println(err)
		return
	}

	// Bob trusts the lock only once the pre-signature verifies, and completes
	// it with the witness.
	fmt.Println("pre-signature:", protocol.VerifyPreSignature(terms.PayerKey, claim, point, *lock.Presig))
	sig, _ := protocol.Adapt(*lock.Presig, witness)
	fmt.Println("signature:", protocol.VerifySignature(terms.PayerKey, claim, sig))

	// Anybody who sees the settled signature learns the witness from it.
	learned, ok := protocol.ExtractWitness(*lock.Presig, sig, point)
	fmt.Println("extracted:", ok, learned == witness)

	// Output:
	// pre-signature: true
	// signature: true
	// extracted: true true
}

// An agent says in its DID note which rails it takes, and looks at another's
// note before it spends a message.
func Example_capability() {
	token, err := protocol.FormatCapability([]string{"x402", "PaperRail"})
	fmt.Println(token, err)

	theirs, ok := protocol.ParseCapability("research agent, " + token + " since 2026")
	fmt.Println(theirs, ok)

	common, err := protocol.CommonRails([]string{"flop-htlc", "x402"}, []string{"x402", "paper"})
	fmt.Println(common, err)

	// A typing mistake is not the same as having nothing in common.
	_, err = protocol.RailsMatch([]string{"flop_htlc"}, []string{"paper"})
	fmt.Println(err)

	// Output:
	// tclk1:paper,x402 <nil>
	// [paper x402] true
	// [x402] <nil>
	// protocol: malformed rail id: "flop_htlc"
}

// A committee of three holds the preimage: all of them must release a share.
func Example_committee() {
	random := reproducible()
	secret, statement, _ := protocol.GenerateHashLock(random)
	shares, err := protocol.SplitSecret(secret, 3, random)
	fmt.Println(len(shares), "shares", err)

	two, _ := protocol.CombineSecret(shares[0], shares[1])
	fmt.Println("two open it:", statement.Opens(two))
	all, _ := protocol.CombineSecret(shares[2], shares[0], shares[1])
	fmt.Println("all open it:", statement.Opens(all))

	// Output:
	// 3 shares <nil>
	// two open it: false
	// all open it: true
}

// For a point lock the shares add up instead.
func ExampleSplitWitness() {
	random := reproducible()
	witness, statement, _ := protocol.GeneratePointLock(random)
	shares, _ := protocol.SplitWitness(witness, 2, random)
	whole, err := protocol.CombineWitness(shares...)
	fmt.Println(statement.Opens(whole), err)
	fmt.Println(statement.Opens(shares[0]))
	// Output:
	// true <nil>
	// false
}

// Jurors commit before anybody reveals, so that nobody can copy a vote.
func ExampleVoteCommitment() {
	contract := protocol.ID{1, 2, 3}
	salt, _ := protocol.GenerateSalt(reproducible())

	// First round: each juror posts its commitment.
	posted, err := protocol.VoteCommitment(contract, "pay", salt)
	fmt.Println(len(posted), err)

	// Second round: verdict and salt are shown, and everybody checks.
	fmt.Println(protocol.VerifyVoteCommitment(posted, contract, "pay", salt))
	fmt.Println(protocol.VerifyVoteCommitment(posted, contract, "refund", salt))

	// Output:
	// 66 <nil>
	// true
	// false
}

func ExampleValidateDeadlines() {
	offer := &protocol.Offer{ExpiresMs: 1756713600000, ClaimByMs: 1756800000000, RefundAfterMs: 1756800060000}
	const now = 1756713590000 // ten seconds before the offer expires
	for _, p := range protocol.ValidateDeadlines(offer, now, protocol.DeadlineTolerance{
		MarginMs:      30_000,  // clocks may be half a minute apart
		ClaimWindowMs: 600_000, // ten minutes to get a reveal through
	}) {
		fmt.Println(p)
	}
	// Output:
	// claim-window-too-short
	// expiry-too-close
}

// A builder that refuses says for which reason readers would reject the frame.
func ExampleBuildError() {
	random := reproducible()
	offer, _ := protocol.NewOffer(random, protocol.Offer{
		From: alice, Role: protocol.RolePayer, Amount: "1", Asset: "FLOP",
		Lock: protocol.LockHash, Rails: []string{"paper"},
		ExpiresMs: 1, ClaimByMs: 2, RefundAfterMs: 3,
	})
	_, statement, _ := protocol.GenerateHashLock(random)
	_, err := protocol.NewAccept(random, offer, alice, statement, protocol.Point{})
	fmt.Println(err)
	// Output:
	// protocol: build accept: own-offer: the offer is the acceptor's own
}

// The state note saves polling; the signed frames decide.
func ExampleParseStateNote() {
	namespace, key := protocol.StateNote(protocol.ID{0xab, 0xcd})
	fmt.Println("kv/" + namespace + "/" + key)
	note, ok := protocol.ParseStateNote("locked escrow-1")
	fmt.Println(note.Status, note.RailRef, ok)
	fmt.Println(note.Status.A2A(), note.Status.ACP())
	// Output:
	// kv/tclk-ab/cd000000000000
	// locked escrow-1 true
	// working transaction
}

func ExampleNormalizeRail() {
	for _, s := range []string{" PaperRail ", "X402", "flop-htlc.", "acme", ""} {
		rail, err := protocol.NormalizeRail(s)
		fmt.Println(strings.TrimSpace(fmt.Sprint(rail, " ", err)))
	}
	// Output:
	// paper <nil>
	// x402 <nil>
	// protocol: malformed rail id: "flop-htlc."
	// protocol: unknown rail id: "acme"
	// protocol: rail id is empty
}
