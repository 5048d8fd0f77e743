package protocol

import "testing"

// benchLine is the canonical line of a case of decode.jsonl.
func benchLine(b *testing.B, name string) []byte {
	for _, c := range decodeCases(b) {
		if c.Name == name {
			return []byte(c.Line)
		}
	}
	b.Fatalf("no case %q", name)
	return nil
}

func benchmarkDecode(b *testing.B, name string, want bool) {
	line := benchLine(b, name)
	d := NewDecoder(DecodeRules{})
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		if got := d.Decode(line); (got.Frame != nil) != want {
			b.Fatal(got.Reason, got.Detail)
		}
	}
}

func BenchmarkDecodeOffer(b *testing.B)      { benchmarkDecode(b, "valid offer", true) }
func BenchmarkDecodePointOffer(b *testing.B) { benchmarkDecode(b, "valid offerPoint", true) }
func BenchmarkDecodeAccept(b *testing.B)     { benchmarkDecode(b, "valid accept", true) }
func BenchmarkDecodeAcceptKey(b *testing.B)  { benchmarkDecode(b, "valid acceptKey", true) }
func BenchmarkDecodeLock(b *testing.B)       { benchmarkDecode(b, "valid lock", true) }
func BenchmarkDecodeSpaced(b *testing.B)     { benchmarkDecode(b, "spaces offer", true) }
func BenchmarkDecodeRefused(b *testing.B)    { benchmarkDecode(b, "missing accept.contract", false) }

func BenchmarkOfferID(b *testing.B) {
	o := Decode(string(benchLine(b, "valid offer")), DecodeRules{}).Frame.(*Offer)
	b.ReportAllocs()
	for b.Loop() {
		if OfferID(o) != o.ID {
			b.Fatal("another id")
		}
	}
}

func BenchmarkContractID(b *testing.B) {
	o := Decode(string(benchLine(b, "valid offer")), DecodeRules{}).Frame.(*Offer)
	a := Decode(string(benchLine(b, "valid accept")), DecodeRules{}).Frame.(*Accept)
	b.ReportAllocs()
	for b.Loop() {
		if ContractID(o, a) != a.Contract {
			b.Fatal("another id")
		}
	}
}
