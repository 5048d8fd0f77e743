package watch

import (
	"bufio"
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/tclk-audit/tclk-audit/internal/testkit/double"
	"github.com/tclk-audit/tclk-audit/store"
)

// childVariable makes the test's program a watcher: of the store and the venue
// that it names.
const childVariable = "TCLK_WATCH_CHILD"

func TestMain(m *testing.M) {
	if what := os.Getenv(childVariable); what != "" {
		dir, url, _ := strings.Cut(what, " ")
		if err := child(dir, url); err != nil {
			println(err.Error())
			os.Exit(4)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// quick reads everything often, for a venue with a large budget.
func quick(url string) Options {
	return Options{Settle: -1, Venues: []Venue{{
		Alias: "sim", Origin: url, BoardEvery: minEvery, HotEvery: 2 * minEvery, ColdEvery: 5 * minEvery,
	}}}
}

func child(dir, url string) error {
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		return err
	}
	defer st.Close()
	w, err := New(st, quick(url))
	if err != nil {
		return err
	}
	os.Stdout.WriteString("watching\n")
	return w.Run(context.Background())
}

// A watcher that is killed at any moment has lost nothing when it goes on, and
// has nothing twice.
func TestKill(t *testing.T) {
	kills := 20
	if testing.Short() {
		kills = 4
	}
	s := newSim(t, 11, double.Options{ReadPerMin: 60_000, RingBytes: 1 << 20})
	s.wire.Close()
	url := double.Serve(t, s.v)
	ctx, cancel := context.WithCancel(context.Background())
	traded := make(chan struct{})
	go func() {
		defer close(traded)
		for ctx.Err() == nil {
			s.trade(time.Second, 60)
		}
	}()
	rnd := rand.New(rand.NewPCG(11, 3)) // the sim's own is the agents'
	for n := range kills {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childVariable+"="+s.dir+" "+url)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if !bufio.NewScanner(out).Scan() {
			t.Fatalf("start %d: the watcher did not begin: %v", n, cmd.Wait())
		}
		time.Sleep(time.Duration(rnd.IntN(900)) * time.Millisecond)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
	}
	cancel()
	<-traded
	st := s.open()
	defer st.Close()
	_, stop := s.watch(st, quick(url))
	time.Sleep(4 * time.Second)
	stop()
	s.compare(st)
	s.sound(st)
	r, err := st.Reader()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if r.LastEvent() == 0 {
		t.Error("nothing was seen")
	}
	t.Logf("%d deals, %d events", len(s.deals), r.LastEvent())
}
