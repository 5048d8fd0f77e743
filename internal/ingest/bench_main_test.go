package ingest_test

import (
	"os"
	"runtime/pprof"
	"testing"
	"time"

	"github.com/tclk-audit/tclk-audit/fold"
)

func TestSpeedTmp(t *testing.T) {
	path := os.Getenv("SPEED")
	if path == "" {
		t.Skip()
	}
	dir := "/tmp/w/store"
	os.RemoveAll(dir)
	s := open(t, dir, fold.Rules{})
	if f := os.Getenv("PROF"); f != "" {
		w, _ := os.Create(f)
		pprof.StartCPUProfile(w)
		defer pprof.StopCPUProfile()
	}
	at := time.Now()
	res := load(t, s, path)
	t.Logf("%v %+v", time.Since(at), res.Counts)
	s.Close()
}
