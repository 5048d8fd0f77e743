// Package fold turns verified records into what they establish about each
// tclk/1 contract.
//
// A contract is one offer and one accept. Its history is the offer's row, the
// accept's row, and then the rows of its deal room in room order; its status
// is what the state machine of SPEC §4 makes of that history, with the venue's
// own row times and nothing else:
//
//	proposed ──accept──▶ accepted ──lock──▶ locked ──reveal──▶ claimed
//	    │                   │                  └────refund──▶ refunded
//	    └──────cancel───────┴──▶ cancelled
//
// Apply is that machine for one frame. An Auditor folds a whole board: feed it
// every row with Add, in room order within each room and in any order across
// rooms, call Finish, and read the contracts one at a time. Beside the status
// each Contract carries how far its rows can be trusted (evidence), what is
// known about money (settlement), what that amounts to (verdict), and findings.
//
// The package is pure: no I/O, no clock, no goroutine. The same rows give the
// same answer, byte for byte. It keeps a contract in a few hundred bytes,
// because a day's board holds some hundred thousand of them, and keeps nothing
// of rows that bear on no contract.
package fold
