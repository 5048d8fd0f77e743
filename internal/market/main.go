// Market serves a simulated venue on this machine and trades on it, for whoever
// wants to see a watcher at work: agents make deals over a board and its deal
// rooms, some keep their word, and strangers talk in between.
//
// The first line of its output is the venue's URL. When it is over, or at SIGINT
// and SIGTERM, it says in one line of JSON what its agents did and what the venue
// counted. Under /_market/ the same server tells the truth about itself, at no
// cost to the venue's budget: stats, reads?prefix=NAME, held?room=NAME.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/tclk-audit/tclk-audit/internal/testkit/double"
	"github.com/tclk-audit/tclk-audit/internal/testkit/market"
)

// config is what the flags say.
type config struct {
	listen    string
	time      time.Duration
	stay      bool
	profile   double.Profile
	reads     int
	market    market.Options
	contracts string
	quiet     bool
}

var profiles = map[string]double.Profile{"0.7": double.V07, "0.11": double.V011, "0.14": double.V0145}

func main() {
	c, err := parseFlags(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, c, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "market:", err)
		os.Exit(1)
	}
}

// The most of each that the flags take.
const (
	maxRate  = 1000
	maxRooms = 5000 // the venue has room for little more
	maxReads = 1_000_000
)

func parseFlags(args []string, stderr io.Writer) (config, error) {
	var c config
	fs := flag.NewFlagSet("market", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&c.listen, "listen", "127.0.0.1:0", "serve at this `address` of this machine")
	fs.DurationVar(&c.time, "for", time.Minute, "trade for so long")
	fs.BoolVar(&c.stay, "stay", false, "go on serving after that, until it is told to stop")
	profile := fs.String("profile", "0.14", "behave as this `version` of the venue: 0.7, 0.11 or 0.14")
	fs.IntVar(&c.reads, "reads", 600, "allow a client `N` reads a minute")
	fs.Float64Var(&c.market.Offers, "offers", 1, "accepts a second")
	fs.Float64Var(&c.market.Board, "board", 0, "rows a second on the board in all, filled up with chat")
	fs.DurationVar(&c.market.Life, "life", time.Hour, "from an offer to its refund deadline")
	fs.IntVar(&c.market.Rooms, "rooms", 0, "`N` contracts are locked from the start, with far deadlines")
	fs.IntVar(&c.market.Hot, "hot", 0, "`N` of them with a refund deadline 14 minutes ahead")
	fs.Uint64Var(&c.market.Seed, "seed", 1, "of what the agents do")
	fs.StringVar(&c.contracts, "contracts", "", "at the end write each contract and its status into this `file`, sorted")
	fs.BoolVar(&c.quiet, "quiet", false, "do not say every ten seconds how it goes")
	if err := fs.Parse(args); err != nil {
		return c, err
	}
	c.profile = profiles[*profile]
	err := func() error {
		switch o := &c.market; {
		case fs.NArg() > 0:
			return fmt.Errorf("market takes flags only, not %q", fs.Arg(0))
		case c.profile == 0:
			return fmt.Errorf("-profile %q: there are 0.7, 0.11 and 0.14", *profile)
		case c.time <= 0 || o.Life < time.Second:
			return errors.New("-for must be positive, and -life a second at least")
		case c.reads < 1 || c.reads > maxReads:
			return fmt.Errorf("-reads must be between 1 and %d", maxReads)
		case !(o.Offers >= 0 && o.Offers <= maxRate) || !(o.Board >= 0 && o.Board <= maxRate):
			return fmt.Errorf("-offers and -board must be between 0 and %d", maxRate)
		case o.Rooms < 0 || o.Rooms > maxRooms || o.Hot < 0 || o.Hot > o.Rooms:
			return fmt.Errorf("-rooms must be between 0 and %d, and -hot no more", maxRooms)
		}
		return local(c.listen)
	}()
	if err != nil {
		fmt.Fprintln(stderr, "market:", err)
		fs.Usage()
	}
	return c, err
}

// local refuses addresses that others can reach: nothing here is meant for them.
func local(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("-listen: %w", err)
	}
	if ip := net.ParseIP(host); host != "localhost" && !ip.IsLoopback() {
		return fmt.Errorf("-listen %s: only addresses of this machine itself, as 127.0.0.1:0", address)
	}
	return nil
}

// reportEvery is how often it says how it goes.
const reportEvery = 10 * time.Second

func run(ctx context.Context, c config, stdout, stderr io.Writer) (err error) {
	ln, err := net.Listen("tcp", c.listen)
	if err != nil {
		return fmt.Errorf("%w: -listen names another address", err)
	}
	v := double.New(double.Options{Profile: c.profile, ReadPerMin: c.reads, Seed: c.market.Seed})
	m := market.New(v, c.market)
	s := m.Server()
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	defer func() {
		s.Close()
		if e := <-served; !errors.Is(e, http.ErrServerClosed) {
			err = errors.Join(err, e)
		}
	}()
	if _, err := fmt.Fprintf(stdout, "http://%s\n", ln.Addr()); err != nil {
		return err
	}
	trading, stop := context.WithTimeout(ctx, c.time)
	defer stop()
	if !c.quiet {
		go report(trading, m, stderr)
	}
	m.Run(trading)
	if c.stay {
		<-ctx.Done()
	}
	if c.contracts != "" {
		if err := writeContracts(c.contracts, m); err != nil {
			return err
		}
	}
	return json.NewEncoder(stdout).Encode(m.Stats())
}

func report(ctx context.Context, m *market.Market, stderr io.Writer) {
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s := m.Stats()
		fmt.Fprintf(stderr, "market: %.0f s, %d contracts, %d rows on the board, %d reads, %d refused\n",
			s.Seconds, len(m.Contracts()), s.Rows[market.ClassBoard], s.Reads, s.Limited)
	}
}

// writeContracts writes one line a contract, so that lists can be compared.
func writeContracts(path string, m *market.Market) (err error) {
	var lines []string
	for _, c := range m.Contracts() {
		lines = append(lines, fmt.Sprintf("%s %s", c.ID, c.Status))
	}
	slices.Sort(lines)
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("%w: -contracts names a file that can be written", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriter(f)
	for _, line := range lines {
		fmt.Fprintln(w, line)
	}
	return w.Flush()
}
