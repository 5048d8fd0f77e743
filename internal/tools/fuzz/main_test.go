package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func write(t *testing.T, root, name, text string) {
	t.Helper()
	path := filepath.Join(root, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

func TestFind(t *testing.T) {
	root := t.TempDir()
	write(t, root, "a/a_test.go", "package a\nfunc FuzzOne(f *testing.F) {}\nfunc FuzzTwo(fz *testing.F) {\n}\nfunc Fuzzy(t *testing.T) {}\n// func FuzzNot(f *testing.F) {}\n")
	write(t, root, "a/b/b_test.go", "package b\nfunc FuzzThree(f *testing.F) {}\n")
	write(t, root, "a/a.go", "package a\nfunc FuzzFour(f *testing.F) {}\n")
	write(t, root, "a/testdata/x_test.go", "package x\nfunc FuzzFive(f *testing.F) {}\n")
	write(t, root, "tools/go.mod", "module tools\n")
	write(t, root, "tools/x_test.go", "package x\nfunc FuzzSix(f *testing.F) {}\n")
	got, err := find(root)
	if err != nil {
		t.Fatal(err)
	}
	want := []target{{"./a", "FuzzOne"}, {"./a", "FuzzTwo"}, {"./a/b", "FuzzThree"}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A target that holds passes; one that fails ends the run and shows its
// output.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: builds and runs fuzz targets")
	}
	root := t.TempDir()
	write(t, root, "go.mod", "module example.org/x\n\ngo 1.26\n")
	write(t, root, "good/x_test.go", "package good\n\nimport \"testing\"\n\nfunc FuzzGood(f *testing.F) {\n\tf.Add(1)\n\tf.Fuzz(func(t *testing.T, n int) {})\n}\n")
	var out strings.Builder
	if err := run(root, 50*time.Millisecond, "", &out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "1/1 ./good FuzzGood") {
		t.Errorf("output: %s", out.String())
	}

	write(t, root, "bad/x_test.go", "package bad\n\nimport \"testing\"\n\nfunc FuzzBad(f *testing.F) {\n\tf.Add(1)\n\tf.Fuzz(func(t *testing.T, n int) { t.Error(\"a defect\") })\n}\n")
	err := run(root, 50*time.Millisecond, "Bad", &out)
	if err == nil || !strings.Contains(err.Error(), "a defect") {
		t.Errorf("a failing target: %v", err)
	}

	if err := run(root, time.Second, "NoSuchName", &out); err == nil {
		t.Error("a run of no target passed")
	}
}

func TestStoppedLate(t *testing.T) {
	for out, want := range map[string]bool{
		"--- FAIL: FuzzX (3.01s)\n    context deadline exceeded\nFAIL":                              true,
		"--- FAIL: FuzzX (0.01s)\n    --- FAIL: FuzzX (0.00s)\n        x_test.go:9: a defect":       false,
		"context deadline exceeded\nFailing input written to testdata/fuzz/FuzzX/1":                 false,
		"fuzzing process hung or terminated unexpectedly: exit status 2\ncontext deadline exceeded": false,
		"--- FAIL: FuzzX\n    panic: runtime error: context deadline exceeded":                      false,
	} {
		if got := stoppedLate(out); got != want {
			t.Errorf("%q: got %v, want %v", out, got, want)
		}
	}
}

func TestLastCount(t *testing.T) {
	for out, want := range map[string]string{
		"fuzz: elapsed: 0s, execs: 12 (9/sec)\nfuzz: elapsed: 3s, execs: 3456 (99/sec), new interesting: 1\nPASS": "3456 inputs, ok",
		"fuzz: elapsed: 3s, gathering baseline coverage: 7/90 completed\nPASS":                                    "not beyond its seeds, ok",
	} {
		if got := lastCount(out); got != want {
			t.Errorf("%q: got %q, want %q", out, got, want)
		}
	}
}
