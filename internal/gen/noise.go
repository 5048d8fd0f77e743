package gen

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A kind of noise. Some touch a row of a story or add rows beside it (apply);
// others are stories of their own (tell).
type kind struct {
	name string
	what string
	live int64             // rate of the live mix, per million contracts
	all  int64             // rate under "all"
	use  func(*story) bool // applies to a story; false if it has no place for it
	tell func(*story)      // a story of its own
}

// noiseKinds is the number of kinds. It is a constant so that a Noise can be
// compared; a test sees to it that kinds lists as many.
const noiseKinds = 41

// Noise says how much of each kind of noise a corpus has. The zero value is none.
type Noise struct {
	rates [noiseKinds]int64 // per million contracts
}

const perMillion = 1_000_000

// maxRate bounds a rate: rows of one kind beside one contract.
const maxRate = 1000

// LiveNoise is a mix like that of the live board: what its parties, bots and
// passers-by do, and what old archives did to rows. Nothing in it is forged.
func LiveNoise() Noise {
	var n Noise
	for i := range kinds {
		n.rates[i] = kinds[i].live
	}
	return n
}

// AllNoise has every kind, often enough that a few hundred contracts meet each.
func AllNoise() Noise {
	var n Noise
	for i := range kinds {
		n.rates[i] = kinds[i].all
	}
	return n
}

// ParseNoise reads a noise setting: words with commas between them, read from
// left to right. "none", "live" and "all" set every kind; NAME sets one kind to
// the rate that "all" has; NAME=RATE sets one kind to so many occurrences per
// contract, 0 to 1000, such as 0.05. An empty setting is none. [Kinds] lists the
// names.
func ParseNoise(s string) (Noise, error) {
	var n Noise
	if strings.TrimSpace(s) == "" {
		return n, nil
	}
	for word := range strings.SplitSeq(s, ",") {
		name, rate, hasRate := strings.Cut(strings.TrimSpace(word), "=")
		switch {
		case hasRate:
		case name == "none":
			n = Noise{}
			continue
		case name == "live":
			n = LiveNoise()
			continue
		case name == "all":
			n = AllNoise()
			continue
		}
		i := kindByName(name)
		if i < 0 {
			return Noise{}, fmt.Errorf("gen: unknown kind of noise %.40q; known are none, live, all, %s", name, strings.Join(kindNames(), ", "))
		}
		n.rates[i] = kinds[i].all
		if hasRate {
			per, err := parseRate(rate)
			if err != nil {
				return Noise{}, fmt.Errorf("gen: the rate of %s: %w", name, err)
			}
			n.rates[i] = per
		}
	}
	return n, nil
}

func parseRate(s string) (int64, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f >= 0 && f <= maxRate) {
		return 0, errors.New("must be a number from 0 to 1000")
	}
	return int64(math.Round(f * perMillion)), nil
}

// String writes the setting as [ParseNoise] reads it: "none", or each kind with
// its rate.
func (n Noise) String() string {
	var words []string
	for i, rate := range n.rates {
		if rate > 0 {
			words = append(words, kinds[i].name+"="+strconv.FormatFloat(float64(rate)/perMillion, 'f', -1, 64))
		}
	}
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ",")
}

// Kind is a kind of noise, as help texts list it.
type Kind struct {
	Name string
	What string // a short phrase
}

// Kinds lists the kinds of noise.
func Kinds() []Kind {
	all := make([]Kind, len(kinds))
	for i, k := range kinds {
		all[i] = Kind{k.name, k.what}
	}
	return all
}

func kindNames() []string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = k.name
	}
	return names
}

func kindByName(name string) int {
	for i, k := range kinds {
		if k.name == name {
			return i
		}
	}
	return -1
}
