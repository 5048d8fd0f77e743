//go:build novoi

package verify

// rowAllocations is how many allocations a row of a batch may cost: this
// build's library cannot tell cheaply which rows the strict rule accepts.
const rowAllocations = 4
