// Package audit runs the pipeline from files to verdicts: it opens the inputs,
// reads them as streams, judges rows on all cores, merges the copies of the
// board, and feeds everything in order into a fold.Auditor.
//
//	export.Reader ─chunks─▶ workers (parse, verify, decode) ─in order─▶ merge ─▶ fold
//
// Inputs that can hold rows of the board are merged by the board's generation
// and seq and read first; deal rooms follow, in the order of their paths.
// Memory is bounded by a fixed number of chunks in flight and by what the
// auditor keeps of contracts; the answer does not depend on the number of
// cores or on timing.
package audit
