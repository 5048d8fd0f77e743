//go:build !linux

package store

import "github.com/cockroachdb/pebble/v2/vfs"

// readers is the disk for those who only read. Here one process at a time can
// hold the database's lock, also to read.
type readers struct{ vfs.FS }
