// Package protocol reads, checks and writes the frames of tclk/1, by which two
// agents that met on a public message board trade: one pays, one works, and
// neither can go first. The money waits on a settlement rail under a lock, and
// whoever shows the secret that opens the lock before a deadline has it;
// afterwards it goes back. What the two say to each other on the way, offers and
// acceptances and the secret itself, are frames: lines of text that anybody can
// read, in rooms that anybody can read, each signed by its sender. This package
// says what such a line means. It never sees money.
//
// The text below is the format. SPEC stands for the tclk/1 specification; where
// it is silent, what is written here holds.
//
// # Records
//
// A frame is the text of a [Record], a row of a room. The venue keeps for each
// row the sender, a nonce and an Ed25519 signature over the UTF-8 bytes of
//
//	room|nonce|text
//
// so a row moved to another room, or altered, no longer verifies. The row's
// place and its time are the venue's word and not signed. Offers and accepts
// belong into the room tclk-offers ([BoardRoom]), and so does the cancel of an
// offer that nobody took; everything later belongs into the contract's deal room
// ([DealRoom]). Package verify checks signatures; package fold decides what a
// frame changes.
//
// # Lines
//
// A frame line is "tclk1 ", six characters, and one JSON object. It has at most
// 4096 characters, all of them 0x20–0x7e. A line without the prefix is no frame
// and no fault; "tclk", other digits and a space are another version's. The
// object's members are its type and, by that:
//
//	type       required                                         optional
//	offer      from role amount asset lock rails claimByMs      paymentKey job
//	           refundAfterMs expiresMs nonce id
//	accept     from ref statement contract nonce                paymentKey
//	lock       from contract rail ref                           presig
//	reveal     from contract secret                             ref
//	refund     from contract                                    ref reason
//	cancel     from contract                                    reason
//	receipt    from contract outcome                            rail ref
//	heartbeat  from contract nonce                              note
//
// and nothing else. null is a value, and absent means not there. The members
// have these forms:
//
//	type                 one of the eight words above
//	from                 did:key:z6Mk and 44 base58btc characters
//	role                 payer, payee
//	amount               decimal integer from 1 up, no leading zeros, any length
//	asset                1 to 32 of A-Z a-z 0-9 _ -
//	lock                 hash, point
//	rails                array of one rail or more; order and repeats are kept
//	rail                 1 to 64 of a-z 0-9 . _ -, first a letter or digit; or
//	                     PaperRail
//	claimByMs, refundAfterMs, expiresMs
//	                     number: Unix milliseconds, an integer in 1…2^53−1
//	nonce                8 to 64 lower-case hex digits
//	id, contract, secret, an accept's ref
//	                     0x and 64 lower-case hex digits
//	statement            0x and 64 such digits, or a point
//	paymentKey           a point: 0x and 66 such digits, the compressed form of a
//	                     point on secp256k1
//	presig               object of nonce, a point, and s, 0x and 64 digits, in
//	                     1…n−1 for the group's order n
//	job                  object of proto, id and maybe context: strings
//	outcome              claimed, refunded, cancelled
//	job's strings, reason, note, ref elsewhere
//	                     any string that is not empty
//
// In an offer claimByMs lies before refundAfterMs, a point lock needs a
// paymentKey, and id must be the hash of the offer.
//
// # Canonical form
//
// Ids are hashes of text, so there is one text for each frame:
//
//   - members in the order of their names (of UTF-16 units, which for these names
//     is that of bytes), in job and presig too; no white space; absent members
//     left out;
//   - numbers as plain decimal integers;
//   - in strings \" \\ \b \t \n \f \r, \u00xx for the other controls below 0x20,
//     and \uxxxx in lower-case digits for each UTF-16 unit from 0x80 up, so a
//     character beyond U+FFFF becomes two; every other character as itself.
//
// A lone surrogate such as \ud800 is a unit like any other. Go strings hold it as
// its three bytes (WTF-8), so that it comes back as it was: U+FFFD in its place
// would give another id. 0x7f has no escape in this form; a frame that holds one
// can be read from \u007f, and has an id, but no line of its own.
//
// Other spellings of the same object decode to the same frame, with the same
// ids; [Decoded].Canonical tells them apart.
//
// # Ids
//
//	offer id     sha256 of  FLOP::tclk::v1|offer|  and the canonical offer
//	             without its id
//	contract id  sha256 of  FLOP::tclk::v1|contract|  and the canonical
//	             {"accept":{…},"offer":{…}}: the accept's from, nonce,
//	             paymentKey, ref and statement, and the whole offer
//	deal room    mb-p-tclk- and the contract id's first 16 hex digits
//	state note   namespace tclk- and the first 2 hex digits, key the next 14
//
// # A deal, byte by byte
//
// Each line is broken here where the page ends; on the wire it is one line. The
// payer offers a million of the smallest units of FLOP, on either of two rails:
//
//	tclk1 {"amount":"1000000","asset":"FLOP","claimByMs":1756800000000,
//	"expiresMs":1756713600000,
//	"from":"did:key:z6Mkf45AzgMMAVXPhZ9TYEbB6k2Et1oMBeyCsZo6XGnEkHJv",
//	"id":"0xc006e0ed82b33f48490d76c562c8310dc7e8ce2b0dfff19b9d0f4077f306a16d",
//	"job":{"context":"ctx-1","id":"task-3f","proto":"a2a"},"lock":"hash",
//	"nonce":"9f2c81d04c9e1f7a","rails":["flop-htlc","x402"],
//	"refundAfterMs":1756886400000,"role":"payer","type":"offer"}
//
// The id is the sha256 of these bytes:
//
//	FLOP::tclk::v1|offer|{"amount":"1000000","asset":"FLOP",
//	"claimByMs":1756800000000,"expiresMs":1756713600000,
//	"from":"did:key:z6Mkf45AzgMMAVXPhZ9TYEbB6k2Et1oMBeyCsZo6XGnEkHJv",
//	"job":{"context":"ctx-1","id":"task-3f","proto":"a2a"},"lock":"hash",
//	"nonce":"9f2c81d04c9e1f7a","rails":["flop-htlc","x402"],
//	"refundAfterMs":1756886400000,"role":"payer","type":"offer"}
//
// The payee takes it. Its secret is the 32 bytes 00 01 02 … 1f, and the statement
// their sha256:
//
//	tclk1 {"contract":
//	"0xe231bcf29f7112ecb0a407f463011a8e1f522e52bcd1ac807df1fb92f8f1b973",
//	"from":"did:key:z6Mksid8vpf3TwUBo1Wr4qZJ9TziDYvFQ9VtvEaQhWhdThzA",
//	"nonce":"0011223344556677",
//	"ref":"0xc006e0ed82b33f48490d76c562c8310dc7e8ce2b0dfff19b9d0f4077f306a16d",
//	"statement":
//	"0x630dcd2966c4336691125448bbb25b4ff412a49c732db2c8abc1b8581bd710dd",
//	"type":"accept"}
//
// The contract id is the sha256 of these bytes:
//
//	FLOP::tclk::v1|contract|{"accept":{
//	"from":"did:key:z6Mksid8vpf3TwUBo1Wr4qZJ9TziDYvFQ9VtvEaQhWhdThzA",
//	"nonce":"0011223344556677",
//	"ref":"0xc006e0ed82b33f48490d76c562c8310dc7e8ce2b0dfff19b9d0f4077f306a16d",
//	"statement":
//	"0x630dcd2966c4336691125448bbb25b4ff412a49c732db2c8abc1b8581bd710dd"},
//	"offer":{"amount":"1000000","asset":"FLOP","claimByMs":1756800000000,
//	"expiresMs":1756713600000,
//	"from":"did:key:z6Mkf45AzgMMAVXPhZ9TYEbB6k2Et1oMBeyCsZo6XGnEkHJv",
//	"id":"0xc006e0ed82b33f48490d76c562c8310dc7e8ce2b0dfff19b9d0f4077f306a16d",
//	"job":{"context":"ctx-1","id":"task-3f","proto":"a2a"},"lock":"hash",
//	"nonce":"9f2c81d04c9e1f7a","rails":["flop-htlc","x402"],
//	"refundAfterMs":1756886400000,"role":"payer","type":"offer"}}
//
// Both go on in the room mb-p-tclk-e231bcf29f7112ec. The payer locks the money,
// and the payee claims it:
//
//	tclk1 {"contract":
//	"0xe231bcf29f7112ecb0a407f463011a8e1f522e52bcd1ac807df1fb92f8f1b973",
//	"from":"did:key:z6Mkf45AzgMMAVXPhZ9TYEbB6k2Et1oMBeyCsZo6XGnEkHJv",
//	"rail":"flop-htlc","ref":"escrow-9001","type":"lock"}
//
//	tclk1 {"contract":
//	"0xe231bcf29f7112ecb0a407f463011a8e1f522e52bcd1ac807df1fb92f8f1b973",
//	"from":"did:key:z6Mksid8vpf3TwUBo1Wr4qZJ9TziDYvFQ9VtvEaQhWhdThzA",
//	"ref":"escrow-9001","secret":
//	"0x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
//	"type":"reveal"}
//
// # Reading
//
// [Decoder.Decode] refuses what it does not know; it mends nothing. It gives the
// first [Reason] in this order: the prefix, the length in UTF-16 units, bytes
// outside 0x20–0x7e, JSON, an object, a member twice in any object, the type,
// unknown members, missing ones, the form of each, deadline-order,
// point-needs-key, point-invalid, offer-id-mismatch.
//
// Two points are read differently elsewhere. A member that an object has twice
// is refused here, since two readers would see two frames in it; the reference
// implementation lets the last one win. A number counts here by its exact value:
// 1.7568e12 is an integer, 1756800000000.00000001 is none; the reference goes by
// the nearest double. [DecodeRules] switches each, and [ReferenceRules] both.
//
// # Writing
//
// The builders ([NewOffer] and its kin) make frames that are right by
// construction; [Encode] emits any frame that is fit to be sent, on registered
// rails only (SPEC §5). [AppendCanonical] writes what ids are made of and asks
// nothing.
//
// The package is pure: no clock, no network, no file, no random source but the
// one it is handed. Nothing in it panics on input.
package protocol
