#!/usr/bin/env python3
"""Signs parcels, and checks signed ones: "Signed parcels" in docs/links.md.

Needs Python 3.9 or newer and the package `cryptography`.

    parcel-signature.py sign --key private.key --service https://sealpin.example/ --id 000S… parcel.json > signed.json
    parcel-signature.py check --service https://sealpin.example/ --id 000S… signed.json
    parcel-signature.py check --service https://… --id 9f2c… --own age1tag1… delivered.json

`check` prints valid, wrong, elsewhere, others or unsigned, and who signed; it exits with 0 for valid only.
"""

import argparse
import base64
import hashlib
import json
import re
import sys
from urllib.parse import urlsplit

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

LETTERS = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
PREFIX = "sealpin-signer"


def bech32_checksum(prefix, values):
    check = 1
    for value in [ord(c) >> 5 for c in prefix] + [0] + [ord(c) & 31 for c in prefix] + values:
        top, check = check >> 25, (check & 0x1FFFFFF) << 5 ^ value
        for bit, generator in enumerate((0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)):
            check ^= generator if top >> bit & 1 else 0
    return check


def signer_text(public):
    number = int.from_bytes(public, "big") << 4
    values = [number >> 5 * (51 - place) & 31 for place in range(52)]
    check = bech32_checksum(PREFIX, values + [0] * 6) ^ 1
    values += [check >> 5 * (5 - place) & 31 for place in range(6)]
    return PREFIX + "1" + "".join(LETTERS[value] for value in values)


def bech32_bytes(text, wanted):
    """32 bytes after a prefix."""
    prefix, _, rest = text.rpartition("1")
    values = [LETTERS.find(letter) for letter in rest]
    right = prefix == wanted and len(values) == 58 and -1 not in values and bech32_checksum(prefix, values) == 1
    if not right or values[51] & 15:
        raise ValueError(f"the text that begins with {wanted} is mistyped")
    number = 0
    for value in values[:52]:
        number = number << 5 | value
    return (number >> 4).to_bytes(32, "big")


def field(data):
    return len(data).to_bytes(4, "big") + data


def message(service, share_id, recipients, parcel):
    names = sorted(recipients) or ["link"]
    fields = [b"sealpin/parcel-signature/v1", service.encode(), share_id.encode(), len(names).to_bytes(4, "big")]
    fields += [name.encode() for name in names] + [hashlib.sha256(parcel).digest()]
    return b"".join(map(field, fields))


def origin(url):
    parts = urlsplit(url)
    usual = {"https": 443, "http": 80}.get(parts.scheme)
    port = "" if parts.port in (None, usual) else f":{parts.port}"
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}{port}"


def key_of(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    post_quantum = re.search("^SEALPIN-SECRET-KEY-PQ-1[A-Z0-9]+$", text, re.M)
    if post_quantum:
        secret = bech32_bytes(post_quantum.group().lower(), "sealpin-secret-key-pq-")
    else:
        private = serialization.load_pem_private_key(text.encode(), None)
        secret = private.private_numbers().private_value.to_bytes(32, "big")
    seed = HKDF(hashes.SHA256(), 32, None, b"sealpin/v1 sign").derive(secret)
    return Ed25519PrivateKey.from_private_bytes(seed)


def sign(o):
    key = key_of(o.key)
    with open(o.parcel, encoding="utf-8") as file:
        parcel = file.read().rstrip(" ")
    service = origin(o.service)
    signature = key.sign(message(service, o.id, o.to, parcel.encode()))
    text = json.dumps(
        {
            "v": 2,
            "service": service,
            "id": o.id,
            "recipients": sorted(o.to),
            "signer": signer_text(key.public_key().public_bytes_raw()),
            "signature": base64.b64encode(signature).decode().rstrip("="),
            "parcel": parcel,
        }
    )
    print(text + " " * (-len(text) % 256), end="")
    return 0


def check(o):
    with open(o.parcel, encoding="utf-8") as file:
        signed = json.load(file)
    if signed.get("v") != 2:
        print("unsigned")
        return 1
    public = Ed25519PublicKey.from_public_bytes(bech32_bytes(signed["signer"], PREFIX))
    signature = base64.b64decode(signed["signature"] + "=" * (-len(signed["signature"]) % 4), validate=True)
    covered = message(signed["service"], signed["id"], signed["recipients"], signed["parcel"].encode())
    for_reader = set(o.own) & set(signed["recipients"]) if o.own else not signed["recipients"]
    try:
        public.verify(signature, covered)
        here = signed["service"] == origin(o.service) and signed["id"] == o.id
        state = "elsewhere" if not here else "valid" if for_reader else "others"
    except InvalidSignature:
        state = "wrong"
    print(state, signed["signer"])
    return 0 if state == "valid" else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for run, flags in ((sign, ["--key"]), (check, [])):
        command = commands.add_parser(run.__name__)
        for flag in [*flags, "--service", "--id"]:
            command.add_argument(flag, required=True)
        flag, about = ("--to", "a recipient") if run is sign else ("--own", "a recipient whose key opened it")
        command.add_argument(flag, action="append", default=[], help=about)
        command.add_argument("parcel")
        command.set_defaults(run=run)
    o = parser.parse_args()
    return o.run(o)


if __name__ == "__main__":
    sys.exit(main())
