// Package watch follows the board of a venue and the deal rooms that matter, and
// keeps a store current with what it reads.
//
// A venue forgets within the hour, answers each read with the newest rows alone,
// and has a budget of reads for each address. So the watcher has one scheduler
// for all rooms. It reads the board first, then rooms that were never read, then
// those that a deadline is near for, then all others, the more rarely the longer
// nothing happened in them. A few requests are under way at once; what they bring
// is judged and stored by one goroutine, in windows that hold the rows, all that
// follows from them, and how far the rooms were read.
//
// What could not be read is said: rows that a ring dropped before they were
// seen, rooms that were removed, rows that are not what they were. Each is an
// entry of the store's log and an event.
//
// The board and each room have a source of their own in the store, for as long
// as their rows follow each other without a loss. It is what a restarted watcher
// goes on from.
package watch
