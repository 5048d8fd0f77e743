package gen

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/tclk-audit/tclk-audit/internal/testkit"
	"github.com/tclk-audit/tclk-audit/protocol"
)

// batch is a run of entries that one core signs and writes out.
type batch struct {
	entries []*entry
	out     []byte
	ends    []int // where each entry's line ends in out
	done    chan struct{}
}

const batchRows = 256

// writeRows plans, signs and writes. One goroutine plans, all cores sign, one
// writes: the batches are written in the order they were planned in, whichever
// core is done first, so the bytes do not depend on the cores.
func writeRows(ctx context.Context, o Options, p *planner) (files *fileSet, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	files = &fileSet{o: o}
	if err := files.start(); err != nil {
		return files, err
	}

	workers := runtime.GOMAXPROCS(0)
	free := make(chan *batch, 4*workers)
	for range cap(free) {
		free <- &batch{done: make(chan struct{}, 1)}
	}
	todo := make(chan *batch, cap(free))
	inOrder := make(chan *batch, cap(free))

	var crew sync.WaitGroup
	for range workers {
		crew.Go(func() {
			w := rowWriter{o: o}
			for b := range todo {
				w.write(b)
				b.done <- struct{}{}
			}
		})
	}
	crew.Go(func() {
		var failed error
		for b := range inOrder {
			<-b.done
			if failed == nil {
				if failed = files.add(b); failed != nil {
					stop(failed)
				}
			}
			clear(b.entries)
			b.entries = b.entries[:0]
			free <- b
		}
	})

	now := <-free
	send := func() {
		todo <- now
		inOrder <- now
		now = <-free
	}
	p.run(func(e *entry) {
		now.entries = append(now.entries, e)
		if len(now.entries) == batchRows {
			send()
		}
	}, func() bool { return ctx.Err() != nil })
	if len(now.entries) > 0 {
		send()
	}
	close(todo)
	close(inOrder)
	crew.Wait()
	return files, errors.Join(context.Cause(ctx), files.finish())
}

// rowWriter turns entries into lines. It needs nothing but the entry.
type rowWriter struct {
	o    Options
	text []byte
}

func (w *rowWriter) write(b *batch) {
	b.out, b.ends = b.out[:0], b.ends[:0]
	for _, e := range b.entries {
		if !e.open {
			b.out = w.line(b.out, e)
			if !e.cut {
				b.out = append(b.out, '\n')
			}
		}
		b.ends = append(b.ends, len(b.out))
	}
}

func (w *rowWriter) line(dst []byte, e *entry) []byte {
	if e.raw != nil {
		return append(dst, e.raw(e.seq, e.tsMs)...)
	}
	said := e
	if e.of != nil {
		said = e.of
	}
	w.text = append(w.text[:0], said.text...)
	if said.text == "" {
		w.text = protocol.AppendCanonical(append(w.text, protocol.LinePrefix...), said.frame)
	}
	r := protocol.Record{Room: e.room.name, Seq: e.seq, TsMs: e.tsMs, Text: w.text}
	if said.by.Signer == nil {
		r.From = []byte(said.nick)
	} else {
		if said.class != unsigned {
			r.Nonce = []byte(e.nonce)
		}
		w.seal(said)(&r, said.by.Signer)
	}
	if w.o.Single || !e.room.board && w.o.layout() == OneFile {
		return testkit.AppendRoomRow(dst, &r, e.micros)
	}
	return testkit.AppendRow(dst, &r, e.micros)
}

func (w *rowWriter) seal(e *entry) func(*protocol.Record, *testkit.Signer) {
	switch {
	case w.o.BadSignatures && e.class != unsigned:
		return sealOther
	case e.seal != nil:
		return e.seal
	}
	return sealProperly
}

// fileSet is the files of a corpus.
type fileSet struct {
	o     Options
	count int64
	bytes int64

	main, deals *outFile
	rooms       map[*room][]byte // rooms that are not complete yet, PerRoom
}

type outFile struct {
	f *os.File
	w *bufio.Writer
}

func (s *fileSet) open(name string) (*outFile, error) {
	f, err := os.Create(filepath.Join(s.o.Out, name))
	if err != nil {
		return nil, err
	}
	s.count++
	return &outFile{f, bufio.NewWriterSize(f, 1<<20)}, nil
}

func (s *fileSet) start() (err error) {
	if s.o.Single {
		s.main, err = s.open("all.jsonl")
		s.deals = s.main
		return err
	}
	if s.main, err = s.open(protocol.BoardRoom + ".jsonl"); err != nil || !s.o.DealRooms {
		return err
	}
	if s.o.layout() == OneFile {
		s.deals, err = s.open("deals.jsonl")
		return err
	}
	s.rooms = map[*room][]byte{}
	return nil
}

func (s *fileSet) add(b *batch) error {
	from := 0
	for i, e := range b.entries {
		line := b.out[from:b.ends[i]]
		from = b.ends[i]
		s.bytes += int64(len(line))
		var to io.Writer
		switch {
		case e.room.board:
			to = s.main.w
		case s.deals != nil:
			to = s.deals.w
		default:
			if err := s.addToRoom(e, line); err != nil {
				return err
			}
			continue
		}
		if _, err := to.Write(line); err != nil {
			return err
		}
	}
	return nil
}

// heldBytes is how much of a room waits for the rest of it before it is written.
const heldBytes = 1 << 20

// addToRoom keeps a room's lines until it is complete, so that no file is open
// for a room: some thousand are in use at a time. Only a flood is written in
// parts.
func (s *fileSet) addToRoom(e *entry, line []byte) error {
	held := append(s.rooms[e.room], line...)
	if !e.last && len(held) < heldBytes {
		s.rooms[e.room] = held
		return nil
	}
	s.rooms[e.room] = held[:0]
	if e.last {
		delete(s.rooms, e.room)
		s.count++
	}
	f, err := os.OpenFile(filepath.Join(s.o.Out, e.room.name+".jsonl"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(held)
	return errors.Join(err, f.Close())
}

// finish closes the files, all of them whatever fails.
func (s *fileSet) finish() (err error) {
	for _, f := range []*outFile{s.main, s.deals} {
		if f != nil {
			err = errors.Join(err, f.close())
		}
	}
	return err
}

// close flushes and closes. A second call does nothing: under Single both names
// are one file.
func (f *outFile) close() error {
	if f.f == nil {
		return nil
	}
	err := errors.Join(f.w.Flush(), f.f.Close())
	f.f = nil
	return err
}
