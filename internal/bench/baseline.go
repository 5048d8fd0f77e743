package main

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"

	"github.com/tclk-audit/tclk-audit/export"
	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/verify"
)

const (
	standIn = "stand-in"
	singly  = "singly"
)

// baselines are commands of this program: what others are measured against, and
// what asks a store. They are processes of their own, like what is measured.
var baselines = map[string]func(args []string, out io.Writer) error{
	standIn: runStandIn,
	singly:  runSingly,
	ask:     runAsk,
}

func baselineFlags(name string, args []string) (path string, cores int, err error) {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.IntVar(&cores, "cores", 1, "cores to use")
	if err := fs.Parse(args); err != nil {
		return "", 0, err
	}
	if fs.NArg() != 1 || cores < 1 {
		return "", 0, errors.New("needs one file and at least one core")
	}
	runtime.GOMAXPROCS(cores)
	return fs.Arg(0), cores, nil
}

// runStandIn takes the floor program's place where it does not exist: the
// plainest check of a board with the standard library alone, encoding/json and
// one crypto/ed25519 call a row. It is a good deal slower than the floor, so a
// ratio to it says little about the target.
func runStandIn(args []string, out io.Writer) error {
	path, cores, err := baselineFlags(standIn, args)
	if err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	const run = 1000 // lines that a worker takes at a time
	work := make(chan [][]byte, 2*cores)
	var crew sync.WaitGroup
	var lock sync.Mutex
	var rows, good int64
	for range cores {
		crew.Go(func() {
			for lines := range work {
				n := int64(0)
				for _, line := range lines {
					if plainCheck(line) {
						n++
					}
				}
				lock.Lock()
				rows, good = rows+int64(len(lines)), good+n
				lock.Unlock()
			}
		})
	}
	var lines [][]byte
	s := bufio.NewScanner(bufio.NewReaderSize(f, 1<<20))
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		if lines = append(lines, bytes.Clone(s.Bytes())); len(lines) == run {
			work <- lines
			lines = nil
		}
	}
	work <- lines
	close(work)
	crew.Wait()
	if err := s.Err(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%d rows, %d signed\n", rows, good)
	return err
}

// plainCheck reports whether crypto/ed25519 accepts the signature of a row of
// the board.
func plainCheck(line []byte) bool {
	var row struct {
		From, Text, Sig string
		Nonce           json.Number
	}
	if json.Unmarshal(line, &row) != nil || !strings.HasPrefix(row.From, "did:key:z") {
		return false
	}
	key, ok := verify.DecodeDID([]byte(row.From))
	if !ok {
		return false
	}
	sig, err := base64.RawURLEncoding.DecodeString(row.Sig)
	return err == nil && ed25519.Verify(key[:], []byte(protocol.BoardRoom+"|"+row.Nonce.String()+"|"+row.Text), sig)
}

// runSingly reads a board as the program does and checks every signature on its
// own: what a file of bad signatures costs when nothing is tried in batches.
func runSingly(args []string, out io.Writer) error {
	path, cores, err := baselineFlags(singly, args)
	if err != nil {
		return err
	}
	if cores != 1 {
		return errors.New("runs on one core")
	}
	inputs, _, err := export.Open([]string{path}, export.Options{Room: protocol.BoardRoom})
	if err != nil {
		return err
	}
	var rows int64
	counts := map[verify.Class]int64{}
	v := verify.New()
	var chunk export.Chunk
	var scratch []byte
	for _, in := range inputs {
		r, err := in.Reader()
		if err != nil {
			return err
		}
		for {
			if err := r.Next(&chunk); err == io.EOF {
				break
			} else if err != nil {
				return errors.Join(err, r.Close())
			}
			for i := range chunk.Rows {
				rec := protocol.Record{Room: protocol.BoardRoom}
				scratch = scratch[:0]
				rows++
				if chunk.Rows[i].Parse(export.ParseRules{}, &scratch, &rec).Reason == protocol.ReasonNone {
					counts[v.Check(&rec).Class]++
				}
			}
		}
		if err := r.Close(); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(out, "%d rows, %d signed, %d bad\n", rows, counts[verify.Authentic], counts[verify.Invalid])
	return err
}
