"""Prints golden.jsonl: one canonical line of each frame type and some hard ones.

It shares nothing with the Go code: ids come from hashlib, the canonical form
from the json module, points from the few lines of arithmetic below.
"""
import hashlib
import json

P = 2**256 - 2**32 - 977
G = (0x79BE667EF9DCBBAC55A06295CE870B07029BFCDB2DCE28D959F2815B16F81798,
     0x483ADA7726A3C4655DA4FBFC0E1108A8FD17B448A68554199C47D08FFB10D4B8)

PAYER = "did:key:z6Mkf45AzgMMAVXPhZ9TYEbB6k2Et1oMBeyCsZo6XGnEkHJv"
PAYEE = "did:key:z6Mksid8vpf3TwUBo1Wr4qZJ9TziDYvFQ9VtvEaQhWhdThzA"


def add(a, b):
    if a is None or b is None:
        return a or b
    if a[0] == b[0] and (a[1] + b[1]) % P == 0:
        return None
    if a == b:
        m = 3 * a[0] * a[0] * pow(2 * a[1], -1, P) % P
    else:
        m = (b[1] - a[1]) * pow(b[0] - a[0], -1, P) % P
    x = (m * m - a[0] - b[0]) % P
    return x, (m * (a[0] - x) - a[1]) % P


def point(k):
    q, g = None, G
    while k:
        if k & 1:
            q = add(q, g)
        g, k = add(g, g), k >> 1
    return "0x%02x%064x" % (2 + q[1] % 2, q[0])


def canonical(x):
    return json.dumps(x, sort_keys=True, separators=(",", ":"))


def sha(*parts):
    return "0x" + hashlib.sha256(b"".join(p if isinstance(p, bytes) else p.encode() for p in parts)).hexdigest()


def without(frame, *names):
    return {k: v for k, v in frame.items() if k not in names}


def offer(**members):
    f = {"type": "offer", "from": PAYER, "role": "payer", "amount": "1000000", "asset": "FLOP", "lock": "hash",
         "rails": ["flop-htlc", "x402"], "claimByMs": 1756800000000, "refundAfterMs": 1756886400000,
         "expiresMs": 1756713600000, "nonce": "9f2c81d04c9e1f7a"}
    f.update(members)
    f["id"] = sha("FLOP::tclk::v1|offer|", canonical(f))
    return f


def accept(o, **members):
    f = {"type": "accept", "from": PAYEE, "ref": o["id"], "nonce": "0011223344556677"}
    f.update(members)
    core = without(f, "type", "contract")
    f["contract"] = sha("FLOP::tclk::v1|contract|", canonical({"offer": o, "accept": core}))
    return f


def emit(name, frame, offer=None):
    row = {"name": name, "line": "tclk1 " + canonical(frame)}
    if frame["type"] == "accept":
        digits = frame["contract"][2:]
        row.update(offer=offer, room="mb-p-tclk-" + digits[:16], note=["tclk-" + digits[:2], digits[2:16]])
    print(json.dumps(row))


secret = bytes(range(32))
hash_offer = offer(job={"proto": "a2a", "id": "task-3f", "context": "ctx-1"})
hash_accept = accept(hash_offer, statement=sha(secret))
contract = hash_accept["contract"]
emit("offer", hash_offer)
emit("accept", hash_accept, "offer")
emit("lock", {"type": "lock", "from": PAYER, "contract": contract, "rail": "flop-htlc", "ref": "escrow-9001"})
emit("reveal", {"type": "reveal", "from": PAYEE, "contract": contract, "ref": "escrow-9001", "secret": "0x" + secret.hex()})
emit("refund", {"type": "refund", "from": PAYER, "contract": contract, "ref": "escrow-9001", "reason": "claim window elapsed"})
emit("cancel", {"type": "cancel", "from": PAYEE, "contract": contract, "reason": "counterparty unresponsive"})
emit("receipt", {"type": "receipt", "from": PAYEE, "contract": contract, "outcome": "claimed", "rail": "flop-htlc", "ref": "escrow-9001"})
emit("heartbeat", {"type": "heartbeat", "from": PAYER, "contract": contract, "nonce": "aa11bb22cc33dd44", "note": "still here"})

point_offer = offer(lock="point", role="payee", paymentKey=point(7), rails=["near-htlc"], amount="9" * 40, nonce="0" * 64)
point_accept = accept(point_offer, statement=point(2**200 + 5), paymentKey=point(11))
emit("point offer", point_offer)
emit("point accept", point_accept, "point offer")
emit("point lock", {"type": "lock", "from": PAYEE, "contract": point_accept["contract"], "rail": "near-htlc", "ref": "e-2",
                    "presig": {"nonce": point(13), "s": "0x%064x" % 17}})

# Texts whose escapes decide the id.
for name, text in [
        ("accents", "t\u00e2che \u2028"), ("emoji", "\U0001f600"), ("high half", "a\ud83d"), ("low half", "\ude00b"),
        ("halves in the wrong order", "\ude00\ud83d"), ("controls", "\x00\x01\b\t\n\x0b\f\r\x1f"),
        ("quotes", '"\\/'), ("last", "\uffff\x80")]:
    o = offer(job={"proto": text, "id": text})
    emit("job " + name, o)
    emit("accept of job " + name, accept(o, statement=sha(secret)), "job " + name)

# Members at their limits.
o = offer(claimByMs=2**53 - 2, refundAfterMs=2**53 - 1, expiresMs=1, asset="x" * 32, rails=["a" * 64, "PaperRail", "paper", "paper"], nonce="01234567")
emit("limits", o)
emit("bare refund", {"type": "refund", "from": PAYER, "contract": contract})
emit("bare reveal", {"type": "reveal", "from": PAYEE, "contract": contract, "secret": "0x" + "00" * 32})
emit("bare receipt", {"type": "receipt", "from": PAYEE, "contract": contract, "outcome": "cancelled"})
