// Package store is an auditor's memory: every row that was seen, when and
// where, and every conclusion drawn from the rows, in a Pebble database.
//
// The venue forgets within the hour. So the store keeps an append-only log of
// what was read: sources, rows with their exact bytes, second sightings, rooms
// in sight, settings, and ticks. That log is the event; everything else in the
// store (indexes, contracts, the event stream) is a projection that follows
// from it alone and can be thrown away and built again, byte for byte
// (Store.Rebuild).
//
// A Writer appends to the log. When it has gathered a window of rows, or is
// told to, it ends the window with a tick: it folds again the contracts that
// the window's rows touch, writes what changed as numbered events, and commits
// rows, indexes, contracts, events and the source's cursor in one atomic,
// synced batch. So a killed process loses at most its open window, and resumes
// where its last tick stood.
//
// One process writes. How far the log was acknowledged is kept beside the
// database, too (see mark.go), because a database that lost the end of its
// write-log does not notice.
//
// Every key and value is described in docs/format/store.md.
package store
