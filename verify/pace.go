package verify

// How many rows to check at once. A batch costs less a row the larger it is,
// but one bad row makes all of it be checked again singly.
const (
	// leastBatch is the number of rows from which a batch is cheaper than
	// single checks.
	leastBatch = 2
	// startBatch is the size before anything is known of a stream.
	startBatch = 256
	// smallBatch is the size after a failure: what one bad row costs.
	smallBatch = 64
	// largestBatch: beyond it a batch gets no cheaper a row, only larger.
	largestBatch = 4096
	// patience is how many failures in a row, at the small size, end batching.
	patience = 3
	// carefulGrowth is how many batches of a size must hold, once any batch has
	// failed, before the size doubles: a stream with a bad row here and there
	// would else lose one large batch after the other. Before that one will do.
	carefulGrowth = 4
	// firstRest and longestRest bound the rows checked singly before the next
	// probe; each failed probe makes the rest four times longer. A probe
	// wastes less than half of its rows' single cost, so at the longest rest
	// a stream of bad rows costs under one per cent more than single checks.
	firstRest   = 256
	longestRest = 4096
)

// pace decides the sizes of batches from how the last ones went. It bears on
// cost alone: every size gives the same answers.
type pace struct {
	size    int // of the next batch
	growth  int // batches of this size that must hold before it doubles
	good    int // rows that held since the size last changed
	strikes int // failures in a row
	rest    int // rows still to be checked singly before the next batch
	gap     int // how long the last rest was, 0 if none
}

func newPace() pace { return pace{size: startBatch, growth: 1} }

// want says how many rows to gather next, of those left.
func (p *pace) want(left int) int {
	if p.rest > 0 {
		return min(left, p.rest, smallBatch)
	}
	// What would be left over after this batch is too little for a good one:
	// take it along, or share it out evenly.
	if left < p.size+p.size/2 {
		if left <= largestBatch {
			return left
		}
		return (left + 1) / 2
	}
	return p.size
}

// resting reports whether rows are to be checked singly for now.
func (p *pace) resting() bool { return p.rest > 0 }

// single notes that n rows were checked singly.
func (p *pace) single(n int) { p.rest = max(0, p.rest-n) }

// held notes that a batch of n rows was good.
func (p *pace) held(n int) {
	p.strikes, p.gap = 0, 0
	if p.good += n; p.good >= p.growth*p.size {
		p.size, p.good = min(2*p.size, largestBatch), 0
	}
}

// failed notes that a batch of n rows had a bad one.
func (p *pace) failed(n int) {
	p.size, p.growth, p.good = smallBatch, carefulGrowth, 0
	if n >= 2*smallBatch {
		p.strikes = 0 // nothing is known yet of small ones
		return
	}
	if p.strikes++; p.strikes >= patience {
		p.gap = max(firstRest, min(4*p.gap, longestRest))
		p.rest = p.gap
	}
}
