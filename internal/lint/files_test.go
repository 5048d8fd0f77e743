package lint

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	root      = "../.."
	toolsPath = "internal/tools"
)

// repoFiles returns the paths, relative to the root and with slashes, of the
// files that are in the repository or about to be: tracked by git, or not
// ignored by it.
//
// The tree is walked as well as listed by git, because the go command only
// sees files that a test itself opens when it decides whether an old result
// still holds: without the walk a new file would not run the tests again.
func repoFiles(t *testing.T) []string {
	t.Helper()
	listed := map[string]bool{}
	for name := range bytes.SplitSeq(output(t, root, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"), []byte{0}) {
		if len(name) > 0 {
			listed[string(name)] = true
		}
	}
	var files []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if d.Name() == ".git" {
				return filepath.SkipDir
			}
			return nil
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if rel = filepath.ToSlash(rel); listed[rel] && d.Type().IsRegular() {
			files = append(files, rel)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("git lists no file of this repository")
	}
	return files
}

func inTestdata(path string) bool {
	return strings.HasPrefix(path, "testdata/") || strings.Contains(path, "/testdata/")
}

func read(t *testing.T, rel string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(rel)))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// output runs a program in a folder and returns its stdout. The test ends
// there if it fails.
func output(t *testing.T, dir, name string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s, in %s: %v\n%s", name, strings.Join(args, " "), dir, err, stderr.Bytes())
	}
	return out
}

// silent runs a linter that prints nothing when it has nothing to say.
func silent(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s %s, in %s: %v\n%s", name, strings.Join(args, " "), dir, err, out)
	}
}

func skipSlow(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: runs another program over all packages")
	}
}
