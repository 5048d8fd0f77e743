package protocol

import "strconv"

// maxExact is 2^53−1, the greatest integer that every JSON reader holds exactly.
const maxExact = 1<<53 - 1

// ExactInteger reads a JSON number token as an integer in −(2^53−1) … 2^53−1.
// raw MUST be a valid JSON number; "-0" is 0.
//
// With byDouble false the token's exact decimal value decides: 1788346800000.0
// and 1.7883468e12 are integers, 1788346800000.00000001 is not (false). With
// byDouble true the nearest IEEE double decides, as in JavaScript: that last
// token is an integer then, since no double lies between it and the integer.
func ExactInteger(raw []byte, byDouble bool) (v int64, ok bool) {
	if v, ok = plainInteger(raw); ok {
		return v, v <= maxExact
	}
	if byDouble {
		return doubleInteger(raw)
	}
	negative := len(raw) > 0 && raw[0] == '-'
	if negative {
		raw = raw[1:]
	}
	const most = 16 // 2^53−1 has 16 digits
	var (
		digits   uint64 // the significant digits so far, without trailing zeros
		count    int    // how many they are
		zeros    int64  // zeros since the last of them
		exponent int64
		point    bool
	)
	i := 0
	for ; i < len(raw) && raw[i] != 'e' && raw[i] != 'E'; i++ {
		c := raw[i]
		if c == '.' {
			point = true
			continue
		}
		if c < '0' || c > '9' {
			return 0, false
		}
		if point {
			exponent--
		}
		if c == '0' {
			if count > 0 {
				zeros++
			}
			continue
		}
		if int64(count)+zeros+1 > most {
			// More than 16 digits between the first and the last that is not
			// 0: too large or no integer, whatever follows.
			return 0, false
		}
		for count++; zeros > 0; zeros-- {
			digits *= 10
			count++
		}
		digits = digits*10 + uint64(c-'0')
	}
	if digits == 0 {
		return 0, true
	}
	if i < len(raw) {
		exponent += jsonExponent(raw[i+1:])
	}
	exponent += zeros
	if exponent < 0 || int64(count)+exponent > most {
		return 0, false
	}
	for ; exponent > 0; exponent-- {
		digits *= 10
	}
	if digits > maxExact {
		return 0, false
	}
	if negative {
		return -int64(digits), true
	}
	return int64(digits), true
}

// plainInteger reads a token of at most 16 digits and nothing else, the one
// form that canonical lines use.
func plainInteger(raw []byte) (int64, bool) {
	if len(raw) == 0 || len(raw) > 16 {
		return 0, false
	}
	var v int64
	for _, c := range raw {
		if c < '0' || c > '9' {
			return 0, false
		}
		v = v*10 + int64(c-'0')
	}
	return v, true
}

// jsonExponent reads the digits behind an e. It stops growing far beyond
// anything that the digits of a number in memory could balance.
func jsonExponent(raw []byte) int64 {
	const far = 1 << 50
	negative := false
	var e int64
	for _, c := range raw {
		switch {
		case c == '-':
			negative = true
		case '0' <= c && c <= '9' && e < far:
			e = e*10 + int64(c-'0')
		}
	}
	if negative {
		return -e
	}
	return e
}

func doubleInteger(raw []byte) (int64, bool) {
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f < -maxExact || f > maxExact {
		return 0, false
	}
	v := int64(f)
	return v, float64(v) == f
}
