package protocol

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestDealRoom(t *testing.T) {
	id, _ := ParseID("0x57a15be390ad4733" + strings.Repeat("0", 48))
	if room := DealRoom(id); room != "mb-p-tclk-57a15be390ad4733" {
		t.Errorf("room %s", room)
	}
	if ns, key := StateNote(id); ns != "tclk-57" || key != "a15be390ad4733" {
		t.Errorf("note %s/%s", ns, key)
	}
	rapid.Check(t, func(t *rapid.T) {
		id := ID(genHex32.Draw(t, "id"))
		if room := DealRoom(id); !IsDealRoom(room) || !ValidRoom(room) {
			t.Fatalf("%s is no deal room", room)
		}
	})
	for _, room := range []string{
		"", "mb-p-tclk-", "mb-p-tclk-57a15be390ad473", "mb-p-tclk-57a15be390ad47333", "mb-p-tclk-57A15be390ad4733",
		"mb-p-tclk_57a15be390ad4733", "b-p-tclk-57a15be390ad47333", "mb-p-tclk-57a15be390ad473g", " mb-p-tclk-57a15be390ad473", BoardRoom,
	} {
		if IsDealRoom(room) {
			t.Errorf("%q is taken for a deal room", room)
		}
	}
}

// The hand-written grammars are the regular expressions they stand for.
func TestGrammars(t *testing.T) {
	grammars := map[string]struct {
		want *regexp.Regexp
		got  func(string) bool
	}{
		"room":   {regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,47}$`), ValidRoom},
		"rail":   {naiveForms["rail"], func(s string) bool { return isWireRail([]byte(s)) }},
		"asset":  {naiveForms["asset"], func(s string) bool { return isAsset([]byte(s)) }},
		"amount": {naiveForms["amount"], func(s string) bool { return isAmount([]byte(s)) }},
		"nonce":  {naiveForms["nonce"], func(s string) bool { return isFrameNonce([]byte(s)) }},
		"did":    {naiveForms["from"], IsDID},
	}
	char := rapid.SampledFrom(strings.Split("abfgz059AFZlIOo_-. \n\x00é", ""))
	text := rapid.OneOf(
		rapid.Map(rapid.SliceOfN(char, 0, 70), func(s []string) string { return strings.Join(s, "") }),
		rapid.StringMatching(`[a-z0-9][a-z0-9_-]{0,50}`), rapid.StringMatching(`[0-9a-f]{7,66}`), rapid.StringMatching(`[0-9]{0,5}`),
		rapid.StringMatching(`did:key:z6Mk[1-9A-Za-z]{43,45}`), rapid.StringMatching(`did:key:z6M[a-k][1-9A-HJ-NP-Za-km-z]{44}`),
		rapid.SampledFrom([]string{"PaperRail", "PaperRai", "paperRail", strings.Repeat("a", 48), strings.Repeat("a", 49), strings.Repeat("a", 64), strings.Repeat("a", 65)}),
		rapid.SampledFrom([]string{testPayer, testPayer + "1", testPayer[1:], "did:web:z6Mk" + testPayer[12:]}),
	)
	rapid.Check(t, func(t *rapid.T) {
		s := text.Draw(t, "text")
		for name, g := range grammars {
			if got := g.got(s); got != g.want.MatchString(s) {
				t.Fatalf("%s: %q is taken: %v", name, s, got)
			}
		}
	})
}
