package audit_test

import (
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tclk-audit/tclk-audit/export"
	"github.com/tclk-audit/tclk-audit/internal/audit"
)

// Long rows that pack into almost nothing: what is in memory is bounded by the
// text itself, not by the stored bytes it comes from. A row too long to be read
// counts too.
func TestLongRowsInACompressedFileStayBounded(t *testing.T) {
	t.Run("long", func(t *testing.T) { longRows(t, 100, 900_000) })
	t.Run("too long", func(t *testing.T) { longRows(t, 100, 1_500_000) })
}

func longRows(t *testing.T, rows, size int) {
	path := filepath.Join(t.TempDir(), "tclk-offers.ndjson.gz")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(f)
	text := strings.Repeat("a b", size/3)
	for i := 1; i <= rows; i++ {
		fmt.Fprintf(z, `{"room":"tclk-offers","seq":%d,"ts":%d,"from":"x","text":"%s"}`+"\n", i, 1764000000000+i, text)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}

	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	before, peak := m.HeapAlloc, m.HeapAlloc
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				peak = max(peak, m.HeapAlloc)
			}
		}
	}()
	_, err = audit.Run(context.Background(), []string{path}, audit.Options{Cores: 2, Limits: export.Limits{Ratio: 1 << 20}})
	close(stop)
	<-stopped
	if err != nil {
		t.Fatal(err)
	}
	if grown := peak - before; grown > uint64(rows*size/2) {
		t.Errorf("%d rows of %d bytes took %d bytes of memory", rows, size, grown)
	}
}
