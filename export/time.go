package export

// ParseTime reads a row's ts: RFC 3339 with upper-case T and Z or an offset
// from -23:59 to +23:59, any number of fraction digits, no leap second, at or
// after 1970-01-01T00:00:00Z. The result is Unix milliseconds; finer digits
// are cut, not rounded, because deadlines are judged at the millisecond that
// has begun (SPEC §2).
//
// A day that its month does not have is refused; with rollOver, days up to 31
// run over into the next month, as in the reference.
func ParseTime(ts []byte, rollOver bool) (ms int64, ok bool) {
	if len(ts) < len("2006-01-02T15:04:05Z") ||
		ts[4] != '-' || ts[7] != '-' || ts[10] != 'T' || ts[13] != ':' || ts[16] != ':' {
		return 0, false
	}
	century, year := twoDigits(ts[0:]), twoDigits(ts[2:])
	month, day := twoDigits(ts[5:]), twoDigits(ts[8:])
	hour, minute, second := twoDigits(ts[11:]), twoDigits(ts[14:]), twoDigits(ts[17:])
	if century < 0 || year < 0 || month < 1 || month > 12 || day < 1 || day > 31 ||
		hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59 {
		return 0, false
	}
	year += 100 * century
	if !rollOver && day > monthDays(year, month) {
		return 0, false
	}

	i := 19
	var milli int64
	if ts[i] == '.' {
		i++
		first, scale := i, int64(100)
		for ; i < len(ts) && ts[i] >= '0' && ts[i] <= '9'; i++ {
			milli += int64(ts[i]-'0') * scale
			scale /= 10
		}
		if i == first {
			return 0, false
		}
	}

	var offset int64 // minutes
	switch rest := ts[i:]; {
	case len(rest) == 1 && rest[0] == 'Z':
	case len(rest) == 6 && (rest[0] == '+' || rest[0] == '-') && rest[3] == ':':
		h, m := twoDigits(rest[1:]), twoDigits(rest[4:])
		if h < 0 || h > 23 || m < 0 || m > 59 {
			return 0, false
		}
		offset = int64(60*h + m)
		if rest[0] == '-' {
			offset = -offset
		}
	default:
		return 0, false
	}

	minutes := (daysSinceEpoch(year, month)+int64(day-1))*1440 + int64(60*hour+minute) - offset
	ms = (minutes*60+int64(second))*1000 + milli
	return ms, ms >= 0
}

// twoDigits reads two decimal digits, or returns -1.
func twoDigits(s []byte) int {
	a, b := s[0]-'0', s[1]-'0'
	if a > 9 || b > 9 {
		return -1
	}
	return int(a)*10 + int(b)
}

func monthDays(year, month int) int {
	switch month {
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

// daysSinceEpoch counts the days from 1970-01-01 to the first of the month in
// the Gregorian calendar. Years begin in March here, so that the leap day is
// the last day of a year and needs no case of its own.
func daysSinceEpoch(year, month int) int64 {
	y, m := int64(year), int64(month)-3
	if m < 0 {
		y, m = y-1, m+12
	}
	era := y / 400
	if y < 0 {
		era = -1
	}
	ofEra := y - era*400
	ofYear := (153*m + 2) / 5
	return era*146097 + ofEra*365 + ofEra/4 - ofEra/100 + ofYear - 719468
}
