package gen

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/tclk-audit/tclk-audit/internal/testkit"
	"github.com/tclk-audit/tclk-audit/protocol"
)

var update = flag.Bool("update", false, "write testdata/demo again")

const demoDir = "../../testdata/demo"

// demo is the export that `make demo` audits: three offers, four contracts.
//
//   - Two painters race for the first offer. The first one's contract is claimed;
//     the other's accept stays superseded.
//   - Nobody delivers on the second, and the payer takes its money back.
//   - The third is a dispute: between lock and refund a row is missing. Was the
//     money claimed in time? The export cannot tell.
func demo() []*testkit.Room {
	keys := testkit.NewKeys(2026)
	source := testkit.NewRand(2026, "demo")
	const minute = int64(60_000)
	at := testkit.Epoch

	board := testkit.NewBoard()
	job := func(id, context string) *protocol.Job { return &protocol.Job{Proto: "a2a", ID: id, Context: context} }

	portrait := testkit.NewDeal(source, keys.Party(0), keys.Party(1), testkit.Terms{
		NowMs: at, Amount: "250000", Rails: []string{"flop-htlc", "x402"}, Job: job("portrait-17", "a portrait in oil, by noon"),
	})
	slower := portrait.Rival(keys.Party(2))
	board.Post(portrait.Offerer.Signer, at, portrait.Offer)
	board.Post(portrait.Acceptor.Signer, at+41_250, portrait.Accept)
	board.Post(slower.Acceptor.Signer, at+41_910, slower.Accept)
	won := portrait.NewRoom()
	won.Post(portrait.Payer, at+3*minute, portrait.Lock())
	won.Post(portrait.Payee, at+9*minute, portrait.Heartbeat(portrait.Payee, "varnish is drying"))
	won.Post(portrait.Payee, at+21*minute, portrait.Reveal())
	won.Post(portrait.Payee, at+22*minute, portrait.Receipt(portrait.Payee, protocol.Claimed))
	won.Post(portrait.Payer, at+23*minute, portrait.Receipt(portrait.Payer, protocol.Claimed))

	at += 5 * minute
	lesson := testkit.NewDeal(source, keys.Party(3), keys.Party(4), testkit.Terms{
		NowMs: at, Role: protocol.RolePayee, Amount: "900", Asset: "USDC", Rails: []string{"evm-htlc"}, Job: job("lesson-4", ""),
	})
	board.Post(lesson.Offerer.Signer, at, lesson.Offer)
	board.PostText(keys.Signer(5), at+minute, "is anybody else waiting for a lesson?")
	board.Post(lesson.Acceptor.Signer, at+2*minute, lesson.Accept)
	missed := lesson.NewRoom()
	missed.Post(lesson.Payer, at+6*minute, lesson.Lock())
	missed.Post(lesson.Payer, at+64*minute, lesson.Refund())
	missed.Post(lesson.Payer, at+65*minute, lesson.Receipt(lesson.Payer, protocol.Refunded))

	at += 5 * minute
	video := testkit.NewDeal(source, keys.Party(6), keys.Party(7), testkit.Terms{
		NowMs: at, Amount: "4000000", Rails: []string{"flop-htlc"}, Job: job("video-9", "a minute of video"),
	})
	board.Post(video.Offerer.Signer, at, video.Offer)
	board.Post(video.Acceptor.Signer, at+3*minute, video.Accept)
	disputed := video.NewRoom()
	disputed.Post(video.Payer, at+5*minute, video.Lock())
	reveal := disputed.Post(video.Payee, at+28*minute, video.Reveal())
	disputed.Post(video.Payer, at+61*minute, video.Refund())
	disputed.Drop(reveal)

	for i, row := range board.Rows {
		row.Micros = 137 * (i + 1) % 1000
	}
	return []*testkit.Room{board, won, slower.NewRoom(), missed, disputed}
}

// TestDemoExport holds the bundled export to its recipe. After a change of the
// recipe: go test ./internal/gen -run TestDemoExport -update
func TestDemoExport(t *testing.T) {
	want := map[string][]byte{}
	rows := 0
	for _, room := range demo() {
		want[room.Name+".jsonl"] = room.JSONL()
		rows += len(room.Rows)
	}
	if rows >= 20 {
		t.Errorf("the demo has %d rows; it is to be read by people", rows)
	}
	if *update {
		if err := os.RemoveAll(demoDir); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(demoDir, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := testkit.WriteFolder(demoDir, demo()...); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(demoDir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != len(want) {
		t.Errorf("%s has %d files, the recipe %d", demoDir, len(entries), len(want))
	}
	for _, e := range entries {
		got, err := os.ReadFile(filepath.Join(demoDir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if w, ok := want[e.Name()]; !ok || !bytes.Equal(got, w) {
			t.Errorf("%s is not what the recipe makes", e.Name())
		}
	}
}
