package testkit

import (
	"strconv"
	"time"

	"github.com/tclk-audit/tclk-audit/protocol"
	"github.com/tclk-audit/tclk-audit/verify"
)

// AppendRow appends a record as the venue's export writes it, without the
// newline: compact JSON with the members seq, ts, from, text and, where the
// record has them, nonce and sig, in that order. ts is the record's TsMs and
// micros more microseconds (0 … 999).
//
// A nonce is a bare number if it is canonical decimal, else a string. Strings
// escape what the venue escapes, " and \; control characters, which the venue
// never stores, become \u00xx, so that a hostile row is still JSON.
func AppendRow(dst []byte, r *protocol.Record, micros int) []byte {
	dst = appendRow(dst, r, micros)
	return append(dst, '}')
}

// AppendRoomRow is AppendRow with the record's room as the last member, as
// archives of many rooms write it.
func AppendRoomRow(dst []byte, r *protocol.Record, micros int) []byte {
	dst = appendRow(dst, r, micros)
	dst = appendString(append(dst, `,"room":`...), r.Room)
	return append(dst, '}')
}

func appendRow(dst []byte, r *protocol.Record, micros int) []byte {
	dst = strconv.AppendUint(append(dst, `{"seq":`...), r.Seq, 10)
	dst = append(AppendTime(append(dst, `,"ts":"`...), r.TsMs, micros), '"')
	dst = appendString(append(dst, `,"from":`...), r.From)
	dst = appendString(append(dst, `,"text":`...), r.Text)
	if r.Nonce != nil {
		dst = append(dst, `,"nonce":`...)
		if verify.NonceForm(r.Nonce) {
			dst = append(dst, r.Nonce...)
		} else {
			dst = appendString(dst, r.Nonce)
		}
	}
	if r.Sig != nil {
		dst = appendString(append(dst, `,"sig":`...), r.Sig)
	}
	return dst
}

// AppendTime appends a time as the venue writes it: 27 characters,
// YYYY-MM-DDTHH:MM:SS.ffffffZ. ms is Unix ms, micros 0 … 999 beyond it.
func AppendTime(dst []byte, ms int64, micros int) []byte {
	t := time.UnixMilli(ms).UTC().Add(time.Duration(micros) * time.Microsecond)
	return t.AppendFormat(dst, "2006-01-02T15:04:05.000000Z")
}

func appendString[T string | []byte](dst []byte, s T) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, '"')
	from := 0
	for i := range len(s) {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[from:i]...)
		if c < 0x20 {
			dst = append(dst, `\u00`...)
			dst = append(dst, digits[c>>4], digits[c&15])
		} else {
			dst = append(dst, '\\', c)
		}
		from = i + 1
	}
	dst = append(dst, s[from:]...)
	return append(dst, '"')
}
