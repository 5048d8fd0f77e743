// Package lint keeps the repository tidy. It has no code, only tests, so that
// the one command a contributor runs, `go test ./...`, also checks format,
// vet, staticcheck, go.mod, the words in the files, and the facts that the
// docs state about the code.
//
// The linters are pinned in internal/tools/go.mod, a module of its own: what
// they depend on never enters the program's go.mod. The go command builds them
// once and keeps them in its cache.
//
// `go test -short` skips what runs another program over all packages.
package lint
