package layering

// A Row says what one package may import. Paths are relative to the module.
type Row struct {
	Pkg  string
	Pure bool // no I/O, no clock, no goroutine, no changing package variable

	Own     []string // packages of this module
	TestOwn []string // packages of this module that only its tests may import
	Testkit bool     // may import the packages of testkits outside tests

	Third       []string // other modules
	ThirdTagged []string // other modules, only in files that the default build leaves out
}

const (
	audit   = "internal/audit"
	report  = "internal/report"
	ingest  = "internal/ingest"
	api     = "internal/api"
	control = "internal/control"
	watch   = "internal/watch"
	obs     = "internal/obs"
	venue   = "export/venue"
	serve   = "internal/serve"
	gen     = "internal/gen"

	// testkit makes keys and transcripts with secrets that everybody knows, so
	// nothing that ships may lean on it except the generator of test corpora.
	testkit = "internal/testkit"

	// The venue of the tests.
	double = testkit + "/double"

	// The agents that trade on it.
	market = testkit + "/market"
)

// testkits are the packages that only tests may import, and what makes things
// for tests.
var testkits = []string{testkit, double, market}

// Table has one row per package of the module and nothing else. Imports point
// down: protocol ← verify ← fold ← export ← store ← internal ← cmd. Nobody imports
// cmd.
var Table = []Row{
	{
		Pkg:   "protocol",
		Pure:  true,
		Third: []string{"github.com/decred/dcrd/dcrec/secp256k1/v4"},
	},
	{
		Pkg:         "verify",
		Pure:        true,
		Own:         []string{"protocol"},
		Third:       []string{"github.com/oasisprotocol/curve25519-voi"},
		ThirdTagged: []string{"github.com/hdevalence/ed25519consensus"}, // the build without curve25519-voi
	},
	{
		Pkg:  "fold",
		Pure: true,
		Own:  []string{"protocol", "verify"},
	},
	{
		Pkg:   "export",
		Own:   []string{"protocol"},
		Third: []string{"github.com/klauspost/compress"},
	},
	{
		Pkg: "export/venue",
		Own: []string{"protocol"},
		Third: []string{
			"github.com/klauspost/compress",
			"golang.org/x/time",
		},
	},
	{
		Pkg:   "store",
		Own:   []string{"protocol", "verify", "fold", "export"},
		Third: []string{"github.com/cockroachdb/pebble/v2"},
		// What crashes is a store while it is filled.
		TestOwn: []string{ingest, gen},
	},
	{
		Pkg:     ingest,
		Own:     []string{"protocol", "verify", "export", "store", audit},
		TestOwn: []string{"fold", gen},
	},
	{
		Pkg: control,
	},
	{
		Pkg: watch,
		Own: []string{"protocol", "verify", "fold", "export", venue, "store", audit},
	},
	{
		Pkg:   obs,
		Own:   []string{"protocol", "verify", "fold", "store", audit, watch, report},
		Third: []string{"github.com/prometheus/client_golang"},
		// Its tests observe watchers of the venue of the tests.
		TestOwn: []string{"export", venue, ingest},
	},
	{
		Pkg:   audit,
		Own:   []string{"protocol", "verify", "fold", "export"},
		Third: []string{"golang.org/x/sync"},
		// The auditor is held to what the generator intended.
		TestOwn: []string{gen},
	},
	{
		Pkg: report,
		Own: []string{"protocol", "fold", "export", audit},
	},
	{
		Pkg: api,
		Own: []string{"protocol", "verify", "fold", "export", "store", audit, report},
		// Its tests ask stores that hold the bundled exports and made-up boards.
		TestOwn: []string{ingest, gen},
	},
	{
		Pkg: serve,
		Own: []string{"docs", "store", api, report},
		// Its tests ask a server about stores that hold exports and made-up boards.
		TestOwn: []string{"fold", "protocol", ingest, gen},
	},
	{
		Pkg: "docs",
	},
	{
		Pkg: testkit,
		Own: []string{"protocol", "verify"},
	},
	{
		Pkg:     double,
		Own:     []string{"protocol", "verify"},
		Testkit: true,
	},
	{
		Pkg:     market,
		Own:     []string{"protocol"},
		Testkit: true,
	},
	{
		Pkg:     "internal/market",
		Testkit: true,
	},
	{
		Pkg:     gen,
		Own:     []string{"protocol", "verify"},
		Testkit: true,
	},
	{
		Pkg: "internal/bench",
		Own: []string{"protocol", "verify", "export", "store", api, control},
	},
	{
		Pkg: "internal/layering",
	},
	{
		Pkg: "internal/lint",
	},
	{
		Pkg: "cmd/tclk-audit",
		Own: []string{"protocol", "fold", "export", "store", audit, report, ingest, watch, obs, api, control, serve, gen},
		Third: []string{
			"github.com/schollz/progressbar/v3",
			"github.com/spf13/cobra",
			"go.yaml.in/yaml/v3",
			"golang.org/x/term",
		},
	},
}

// testThird are the modules that the tests of any package may use.
var testThird = []string{
	"github.com/go-json-experiment/json",     // the second opinion on JSON
	"github.com/google/go-cmp",               // differences
	"github.com/hdevalence/ed25519consensus", // the second opinion on signatures
	"github.com/rogpeppe/go-internal",        // testscript
	"pgregory.net/rapid",                     // properties
}

// pureStd is the standard library of the pure packages: computation alone.
var pureStd = []string{
	"bytes",
	"cmp",
	"crypto/ed25519",
	"crypto/sha256",
	"crypto/sha512",
	"crypto/subtle",
	"encoding/base64",
	"encoding/binary",
	"encoding/hex",
	"errors",
	"fmt",
	"hash",
	"io",
	"iter",
	"maps",
	"math",
	"math/big",
	"math/bits",
	"math/rand/v2",
	"slices",
	"sort",
	"strconv",
	"strings",
	"unicode",
	"unicode/utf16",
	"unicode/utf8",
}

// pureOnly narrows a package of pureStd to the names listed. Of io: the reader
// that randomness comes from, and reading it. Of math/rand/v2: the stream that
// a seed alone determines, never the generators that the runtime seeds.
var pureOnly = map[string][]string{
	"io":           {"Reader", "ReadFull", "EOF", "ErrUnexpectedEOF"},
	"math/rand/v2": {"ChaCha8", "NewChaCha8"},
}

// effectNames are functions of allowed packages that reach a terminal or a
// stream.
var effectNames = map[string][]string{
	"fmt": {
		"Print", "Printf", "Println", "Fprint", "Fprintf", "Fprintln",
		"Scan", "Scanf", "Scanln", "Fscan", "Fscanf", "Fscanln",
	},
}

// clockNames are what a package that may not know the time must not use. The
// allow-list already bars the time package; this names the reason, and stays
// if time itself (durations, say) is allowed one day.
var clockNames = []string{
	"After", "AfterFunc", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until",
}
