#!/usr/bin/env python3
"""Opens every kind of Sealpin and age file, without Sealpin.

Written from shared/README.md, which defines the formats, with Python 3.9 or newer and the package `cryptography`
(https://cryptography.io) alone, version 3.4 or newer; for post-quantum keys 48 or newer.

    rescue.py letter.age letter.pdf                            # asks for the password
    rescue.py --key private.key letter.age letter.pdf          # with a private key file, or account.key of `key export`
    rescue.py --file-key key.txt letter.sealpin letter.pdf     # with the key of this one file
    rescue.py --key account.key --header header payload out    # a header that is stored apart
    rescue.py --key private.key letter.car letter.pdf          # a CAR file (`sealpin export`, `ipfs dag export`)
    rescue.py bucket copy                                      # what a copy of a bucket has: bytes and CIDs
    rescue.py bucket copy bafy… letter.age                     # one file of it, as it was stored
    rescue.py --link link.txt blob letter.pdf                  # the blob of a link; or a kept record or delivery:
                                                               # its parcel, and who signed it
    rescue.py backup folder files                              # the folder of `sealpin backup`
    rescue.py words private.key                                # a private key from its 24 words

For the last five, the files rescue_….py and bip39-english.txt must be beside this one. The output appears when all of
it is authentic. With `-` it goes to standard output as it is read, and only exit code 0 says that it is complete.
"""

import argparse
import base64
import getpass
import hashlib
import hmac
import importlib
import io
import os
import re
import sys
import tempfile
import unicodedata
import warnings
from contextlib import suppress

from cryptography.exceptions import InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, x25519
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

AGE = b"age-encryption.org/v1\n"
SEALPIN = b"sealpin/v1\n"
DETACHED = b"sealpin/v1 detached\n"
ARMOR = b"-----BEGIN AGE ENCRYPTED FILE-----"
ARMOR_END = b"-----END AGE ENCRYPTED FILE-----"
MAX_HEADER = 1 << 20
MAX_STANZAS = 1024
MAX_BLOCK = 1 << 22
MAX_KEYS = 1 << 16
BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
BECH32 = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
UNREADABLE = (OSError, EOFError, ValueError, TypeError, LookupError, OverflowError, MemoryError, UnsupportedAlgorithm)


class Refused(Exception):
    """The file does not open, and why."""


# Helpers of the format: base64 without padding, base62, Bech32, HKDF.


def unbase64(text):
    raw = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    if base64.b64encode(raw).decode().rstrip("=") != text:
        raise Refused("the header has base64 that is not canonical")
    return raw


def unbase64_of(sizes, texts):
    """The bytes of texts in base64, as many of each as `sizes` has."""
    parts = [unbase64(text) for text in texts]
    if [len(part) for part in parts] != sizes:
        raise Refused("a part of the header has the wrong length")
    return parts


def file_key_of_text(text):
    sizes = {22: 16, 43: 32}
    if len(text) not in sizes or any(digit not in BASE62 for digit in text):
        raise Refused("a file key has 22 or 43 letters and digits")
    number = 0
    for digit in text:
        number = number * 62 + BASE62.index(digit)
    if number >> 8 * sizes[len(text)]:
        raise Refused("that is not a file key, or not a link: its number is too large")
    return number.to_bytes(sizes[len(text)], "big")


def bech32_check(prefix, values):
    """The checksum over a prefix and values of 5 bits; 1 if the last six of them are the right one."""
    check = 1
    for value in [ord(c) >> 5 for c in prefix] + [0] + [ord(c) & 31 for c in prefix] + values:
        top = check >> 25
        check = (check & 0x1FFFFFF) << 5 ^ value
        for bit, generator in enumerate((0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)):
            check ^= generator if top >> bit & 1 else 0
    return check


def bech32_bytes(text):
    """The bytes of a Bech32 text (BIP 173, without its length limit)."""
    prefix, _, rest = text.lower().rpartition("1")
    values = [BECH32.find(letter) for letter in rest]
    is_whole = prefix != "" and len(values) >= 6 and -1 not in values and text in (text.lower(), text.upper())
    if not is_whole or bech32_check(prefix, values) != 1:
        raise Refused("a key is mistyped")
    number, bits = 0, 5 * (len(values) - 6)
    for value in values[:-6]:
        number = number << 5 | value
    return (number >> bits % 8).to_bytes(bits // 8, "big")


def bech32_text(prefix, data):
    """The Bech32 text of bytes; `prefix` in lower case."""
    number, count = int.from_bytes(data, "big") << -8 * len(data) % 5, (8 * len(data) + 4) // 5
    values = [number >> 5 * at & 31 for at in reversed(range(count))]
    check = bech32_check(prefix, values + [0] * 6) ^ 1
    values += [check >> 5 * at & 31 for at in reversed(range(6))]
    return prefix + "1" + "".join(BECH32[value] for value in values)


def hkdf(ikm, salt, info, length=32):
    return HKDF(hashes.SHA256(), length, salt, info).derive(ikm)


def extract(salt, ikm):
    return hmac.new(salt or bytes(32), ikm, hashlib.sha256).digest()


# HPKE in base mode (RFC 9180): the key schedule, and DHKEM for P-256.


def labeled_extract(suite, salt, label, ikm):
    return extract(salt, b"HPKE-v1" + suite + label + ikm)


def labeled_expand(suite, prk, label, info, length):
    info = length.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info
    return HKDFExpand(hashes.SHA256(), length, info).derive(prk)


def hpke_open(kem, aead, shared, info, ciphertext):
    suite = b"HPKE" + kem.to_bytes(2, "big") + (b"\0\1\0\2" if aead is AESGCM else b"\0\1\0\3")
    context = b"\0" + labeled_extract(suite, b"", b"psk_id_hash", b"")
    context += labeled_extract(suite, b"", b"info_hash", info)
    secret = labeled_extract(suite, shared, b"secret", b"")
    key = labeled_expand(suite, secret, b"key", context, 32)
    nonce = labeled_expand(suite, secret, b"base_nonce", context, 12)
    return aead(key).decrypt(nonce, ciphertext, b"")


def dhkem_p256(key, enc):
    dh = p256_exchange(key, enc)
    prk = labeled_extract(b"KEM\0\x10", b"", b"eae_prk", dh)
    return labeled_expand(b"KEM\0\x10", prk, b"shared_secret", enc + point_of(key), 32)


def p256_exchange(key, point):
    return key.exchange(ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point))


def point_of(key, compressed=False):
    forms, point = serialization.PublicFormat, serialization.Encoding.X962
    return key.public_key().public_bytes(point, forms.CompressedPoint if compressed else forms.UncompressedPoint)


def raw_public(key):
    return key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)


def age_tag(info, enc, digest):
    return extract(info, enc + digest[:4])[:4]


# Keys. Each has `unwrap(name, arguments, body, is_age)`: the file key, or None for other stanzas.


class P256Key:
    def __init__(self, key):
        self.key = key

    def unwrap(self, name, arguments, body, is_age):
        if name != ("p256tag" if is_age else "p256"):
            return None
        *tag, enc = unbase64_of([4, 65] if is_age else [65], arguments)
        info = b"age-encryption.org/p256tag" if is_age else b"sealpin/v1 p256"
        if tag and tag[0] != age_tag(info, enc, hashlib.sha256(point_of(self.key, compressed=True)).digest()):
            return None
        return hpke_open(0x0010, ChaCha20Poly1305 if is_age else AESGCM, dhkem_p256(self.key, enc), info, body)


class X25519Key:
    def __init__(self, raw):
        self.key = x25519.X25519PrivateKey.from_private_bytes(raw)

    def unwrap(self, name, arguments, body, is_age):
        if not is_age or name != "X25519":
            return None
        [share] = unbase64_of([32], arguments)
        secret = self.key.exchange(x25519.X25519PublicKey.from_public_bytes(share))
        kek = hkdf(secret, share + raw_public(self.key), b"age-encryption.org/v1/X25519")
        return ChaCha20Poly1305(kek).decrypt(bytes(12), body, b"")


class HybridKey:
    """ML-KEM-768 with P-256, or with X25519."""

    def __init__(self, seed, with_p256):
        try:
            from cryptography.hazmat.primitives.asymmetric import mlkem
        except ImportError:
            raise Refused("post-quantum keys need version 48 or newer of the package cryptography") from None
        expanded = hashlib.shake_256(seed).digest(192 if with_p256 else 96)
        self.kem = mlkem.MLKEM768PrivateKey.from_seed_bytes(expanded[:64])
        if with_p256:
            numbers = (int.from_bytes(expanded[at : at + 32], "big") for at in range(64, 192, 32))
            self.curve = ec.derive_private_key(next(n for n in numbers if 0 < n < P256_ORDER), ec.SECP256R1())
        else:
            self.curve = x25519.X25519PrivateKey.from_private_bytes(expanded[64:])
        self.seed, self.with_p256 = seed, with_p256
        self.name = "mlkem768p256tag" if with_p256 else "mlkem768x25519"

    def unwrap(self, name, arguments, body, is_age):
        if not is_age or name != self.name:
            return None
        info = b"age-encryption.org/" + name.encode()
        *tag, enc = unbase64_of([4, 1153] if self.with_p256 else [1120], arguments)
        kem_part, curve_part = enc[:1088], enc[1088:]
        if self.with_p256:
            own, label = point_of(self.curve), b"MLKEM768-P256"
            if tag[0] != age_tag(info, enc, hashlib.sha256(own).digest()):
                return None
            dh = p256_exchange(self.curve, curve_part)
        else:
            own, label = raw_public(self.curve), bytes.fromhex("5c2e2f2f5e5c")
            dh = self.curve.exchange(x25519.X25519PublicKey.from_public_bytes(curve_part))
        shared = hashlib.sha3_256(self.kem.decapsulate(kem_part) + dh + curve_part + own + label).digest()
        return hpke_open(0x0050 if self.with_p256 else 0x647A, ChaCha20Poly1305, shared, info, body)


class Password:
    def __init__(self, ask):
        self.ask = ask

    def unwrap(self, name, arguments, body, is_age):
        if name != "scrypt" and (is_age or name != "pbkdf2-sha512"):
            return None
        [salt], cost = unbase64_of([16], arguments[:-1]), arguments[-1]
        lowest, highest = (220_000, 10_000_000) if name != "scrypt" else (1, 22) if is_age else (10, 20)
        if not re.fullmatch("[1-9][0-9]*", cost) or not lowest <= int(cost) <= highest:
            raise Refused("the cost of the password is out of range")
        given = self.ask()
        for password in dict.fromkeys([unicodedata.normalize("NFC", given), given]):
            if name == "scrypt":
                label = b"age-encryption.org/v1/scrypt" if is_age else b"sealpin/v1 scrypt"
                kek = Scrypt(label + salt, 32, 1 << int(cost), r=8, p=1).derive(password.encode())
            else:
                label = b"sealpin/v1 pbkdf2-sha512"
                kek = hashlib.pbkdf2_hmac("sha512", password.encode(), label + salt, int(cost), 32)
            with suppress(InvalidTag):
                return (ChaCha20Poly1305 if is_age else AESGCM)(kek).decrypt(bytes(12), body, b"")
        raise Refused("wrong password, or a damaged header")


def keys_in(text, ask):
    """The private keys in a key file, which may itself be protected with a password."""
    if len(text) > MAX_KEYS:
        raise Refused("the key file is too large")
    if text.startswith((AGE, ARMOR)):
        plain = io.BytesIO()
        open_container(io.BytesIO(text), plain, [Password(ask)], None)
        text = plain.getvalue()
    text, keys = re.sub(r"(?m)^[ \t]*#.*", "", text.decode("utf-8-sig", "replace")), []
    for block in re.findall("-----BEGIN (?:EC )?PRIVATE KEY-----.*?-----END (?:EC )?PRIVATE KEY-----", text, re.S):
        key = serialization.load_pem_private_key(block.encode(), None)
        if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
            raise Refused("a private key is of another kind than P-256")
        keys.append(P256Key(key))
    for line in re.findall(r"(?m)^[ \t]*((?:AGE-SECRET-KEY-(?:PQ-)?|SEALPIN-SECRET-KEY-PQ-)1\S+)[ \t\r]*$", text):
        secret = bech32_bytes(line)
        keys.append(HybridKey(secret, line.startswith("SEALPIN")) if "-PQ-" in line else X25519Key(secret))
    if not keys:
        raise Refused("there is no private key in that file")
    return keys


# The header.


def read_stanza(first, line):
    """The stanza that begins with the line `first`: name, arguments, body. `line` gives each line that follows."""
    body = [line()]
    while len(body[-1]) == 64:
        body.append(line())
    if len(body[-1]) > 64 or not re.fullmatch("->(?: [!-~]+)+", first):
        raise Refused("the header is damaged")
    name, *arguments = first[3:].split(" ")
    return name, arguments, unbase64("".join(body))


def read_header(source, version):
    """The stanzas, the bytes that the MAC covers, and the MAC."""
    covered, stanzas = bytearray(version), []

    def line():
        start = len(covered)
        covered.extend(source.readline(MAX_HEADER - start))
        if covered[start:][-1:] != b"\n" or len(stanzas) > MAX_STANZAS:
            raise Refused("the header is cut off, or too long")
        return covered[start:-1].decode()

    while not (first := line()).startswith("---"):
        stanzas.append(read_stanza(first, line))
    if not stanzas or not first.startswith("--- "):
        raise Refused("the header is damaged")
    return stanzas, bytes(covered[: -len(first) + 2]), unbase64_of([32], [first[4:]])[0]


def file_key_in(source, version, identities, file_key):
    """The file key of a container, once the MAC of its header matches; and the header's stanzas."""
    is_age = version == AGE
    stanzas, covered, mac = read_header(source, version)
    if len(stanzas) > 1 and any(name == "scrypt" or (name == "pbkdf2-sha512" and not is_age) for name, *_ in stanzas):
        raise Refused("a password must be the only way to open a file")
    if file_key is None:
        file_key = unwrapped(stanzas, identities, is_age)
    if len(file_key) != (16 if is_age else 32):
        raise Refused("the file key is not one of this format")
    label = b"header" if is_age else b"sealpin/v1 header"
    if not hmac.compare_digest(mac, hmac.new(hkdf(file_key, b"", label), covered, hashlib.sha256).digest()):
        raise Refused("the header was changed, or the file key is of another file")
    return file_key, stanzas


def unwrapped(stanzas, identities, is_age):
    for stanza in stanzas:
        for identity in identities:
            with suppress(InvalidTag):
                if (file_key := identity.unwrap(*stanza, is_age)) is not None:
                    return file_key
    if any(name in ("scrypt", "pbkdf2-sha512") for name, *_ in stanzas):
        raise Refused("a password opens it, and not a key")
    raise Refused("none of the keys opens it" if identities else "a private key opens it: use --key")


# The payload.


def decrypt_chunks(source, size, is_last_short, decrypt, write):
    """Decrypts chunks of `size` bytes and a tag, in order; `decrypt(index, is_last, chunk)`. Gives the last one."""
    chunk, index = source.read(size + 16), 0
    while True:
        following = source.read(size + 16)
        is_last = following == b""
        if len(chunk) < 16 or (is_last and is_last_short and len(chunk) == size + 16):
            raise Refused("the file is cut off: the output is incomplete")
        if is_last and not is_last_short and len(chunk) == 16 and index > 0:
            raise Refused("the file has an empty chunk at its end")
        try:
            write(plain := decrypt(index, is_last, chunk))
        except InvalidTag:
            raise Refused(f"chunk {index} is damaged, or the file is cut off there") from None
        if is_last:
            return plain
        chunk, index = following, index + 1


def age_payload(source, file_key, write):
    aead = ChaCha20Poly1305(hkdf(file_key, source.read(16), b"payload"))
    decrypt = lambda index, is_last, chunk: aead.decrypt(index.to_bytes(11, "big") + bytes([is_last]), chunk, b"")
    return decrypt_chunks(source, 65536, False, decrypt, write)


def sealpin_payload(source, file_key, write):
    salt, commitment = source.read(24), source.read(32)
    input_key = hkdf(file_key, b"", b"sealpin/v1 payload")
    info = b"c2sp.org/chunked-encryption@v1+AEAD_AES_256_GCM\0" + salt + b"sealpin/v1"
    derived = HKDFExpand(hashes.SHA512(), 76, info).derive(input_key)
    if not hmac.compare_digest(derived[44:], commitment):
        raise Refused("the file key is of another file, or the payload is damaged")
    aead, base = AESGCM(derived[:32]), int.from_bytes(derived[32:44], "big")
    decrypt = lambda index, _, chunk: aead.decrypt((base ^ index).to_bytes(12, "big"), chunk, b"")
    return decrypt_chunks(source, 16384, True, decrypt, write)


def pieces_of_armor(line, source):
    """The bytes in armor, of which `line` is the first line: the others have 64 characters, the last of them fewer."""
    is_right, size = line.rstrip(b"\r\n") == ARMOR, 48
    while not (line := source.readline(128)).startswith(ARMOR_END):
        text = line[:-1].removesuffix(b"\r")
        piece = base64.b64decode(text)
        if not is_right or size != 48 or not 0 < len(text) <= 64 or base64.b64encode(piece) != text:
            raise Refused("its armor is damaged or cut off")
        size = len(piece)
        yield piece
    if not re.fullmatch(ARMOR_END.decode() + r"\r?(?:\n\s{0,1023})?", (line + source.read(1025)).decode()):
        raise Refused("its armor has something after its end")


def open_container(source, target, identities, file_key, header=None):
    """Opens what `source` has; gives its last chunk. `header`: where the header is stored apart."""
    start = first = source.readline(1024)
    # Only armor may have blank lines before it.
    while start.isspace() and source.tell() <= 1024:
        start = source.readline(1024)
    if start.strip().startswith(ARMOR):
        pieces, source = pieces_of_armor(start.lstrip(), source), tempfile.TemporaryFile()
        source.writelines(pieces)
        source.seek(0)
        first = source.readline(1024)
    if first == DETACHED:
        if header is not None:
            if header.readline(1024) != SEALPIN:
                raise Refused("that is not the header of a payload")
            file_key, _ = file_key_in(header, SEALPIN, identities, file_key)
        if file_key is None:
            raise Refused("its header is stored elsewhere: use --header or --file-key")
        return sealpin_payload(source, file_key, target.write)
    if first not in (AGE, SEALPIN):
        raise Refused("it is not an encrypted file of a version that is known")
    file_key, stanzas = file_key_in(source, first, identities, file_key)
    if first == AGE:
        return age_payload(source, file_key, target.write)
    if any(name == "file" for name, *_ in stanzas) and source.readline(1024) != DETACHED:
        raise Refused("the payload does not follow its header")
    return sealpin_payload(source, file_key, target.write)


# CAR files (https://ipld.io/specs/transport/car/carv1/): blocks of IPFS, to be put together.


def varint(source):
    number, shift = 0, 0
    while True:
        byte = source.read(1)
        if byte == b"" or shift > 63:
            raise EOFError
        number |= (byte[0] & 127) << shift
        shift += 7
        if byte[0] < 128:
            return number


def fields_of(node):
    """The fields of a protobuf message that are bytes."""
    source = io.BytesIO(node)
    while source.tell() < len(node):
        tag = varint(source)
        value = varint(source)
        yield tag >> 3, source.read(min(value, len(node))) if tag & 7 == 2 else value


def blob_of_car(source, cid=None):
    """The pieces of the blob in a CAR, whose root is `cid` or else that of the CAR; every block must have its CID."""
    end = room = source.seek(0, os.SEEK_END)
    source.seek(0)
    length = varint(source)
    if length > MAX_BLOCK:
        raise Refused("the header of the CAR is too long")
    header = source.read(length)
    at = header.find(b"\xd8\x2a\x58\x25\x00")
    waiting, blocks = [cid or header[at + 5 : at + 41]], {}
    while source.tell() < end:
        length = varint(source)
        if not 36 <= length <= min(MAX_BLOCK, end - source.tell()):
            raise Refused("the CAR is cut off or damaged")
        cid = source.read(36)
        blocks[cid] = (source.tell(), length - 36)
        source.seek(length - 36, os.SEEK_CUR)
    while waiting:
        cid = waiting.pop()
        if cid not in blocks or cid[:1] != b"\x01" or cid[2:4] != b"\x12\x20":
            raise Refused("a block is missing in the CAR, or is of a kind that is unknown")
        offset, length = blocks[cid]
        # A CAR has a block as often as its file, so no blob costs more than its CAR.
        room -= length + 37
        if room < 0:
            raise Refused("the CAR has fewer blocks than its file")
        source.seek(offset)
        block = source.read(length)
        if hashlib.sha256(block).digest() != cid[4:]:
            raise Refused("a block of the CAR is damaged")
        if cid[1] == 0x55:
            yield block
        else:
            links = [dict(fields_of(link)).get(1) for number, link in fields_of(block) if number == 2]
            waiting.extend(reversed(links))


def is_car(source):
    start = source.read(16)
    source.seek(0)
    return b"\xa2eroots" in (start[1:8], start[2:9])


# The command line.


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--key", help="a private key file")
    parser.add_argument("--password-file", help="a file with the password; else SEALPIN_PASSWORD, or you are asked")
    parser.add_argument("--file-key", help="a file with the key of this one file, or - for standard input")
    parser.add_argument("--header", help="the header of the file, where it is stored apart")
    parser.add_argument("input")
    parser.add_argument("output")
    parser.add_argument("--link", help="a file with the link that leads to it, or - for standard input")
    if sys.argv[1:2] in (["bucket"], ["backup"], ["words"]):
        module = importlib.import_module("rescue_bucket" if sys.argv[1] == "bucket" else "rescue_backup")
        return getattr(module, sys.argv[1])(sys.argv[2:])
    o = parser.parse_args()
    ask = lambda: password_from(o.password_file)
    identities = [Password(ask)]
    if o.key is not None:
        with open(o.key, "rb") as file:
            identities = keys_in(file.read(MAX_KEYS + 1), ask)
    file_key = None
    if o.file_key is not None:
        with sys.stdin if o.file_key == "-" else open(o.file_key, encoding="ascii") as file:
            file_key = file_key_of_text(file.read(MAX_KEYS).strip())
    header = None if o.header is None else open(o.header, "rb")
    with open(o.input, "rb") as source, tempfile.TemporaryFile() as blob:
        if is_car(source):
            blob.writelines(blob_of_car(source))
            blob.seek(0)
            source = blob
        if o.link is None:
            return write_to(o.output, lambda target: tell(open_container(source, target, identities, file_key, header)))
        import rescue_backup

        with sys.stdin if o.link == "-" else open(o.link, encoding="utf-8") as file:
            link = file.read(8194)
        write_to(o.output, lambda target: rescue_backup.open_linked(link, source, target, identities, ask))


def tell(plain):
    """Says of a signed parcel that nothing has looked at its signature."""
    if plain.startswith(b"{") and b'"sealpin-signer1' in plain:
        print("rescue.py: it is a signed parcel, and its signature was not checked: use --link, too", file=sys.stderr)


def typed(question, instead):
    """What a person types at the terminal; `instead`: where it is taken from without one."""
    warnings.simplefilter("error", getpass.GetPassWarning)
    try:
        return getpass.getpass(question)
    except (EOFError, getpass.GetPassWarning):
        raise Refused(f"nothing was typed, or there is no terminal to ask at: use {instead}") from None


def password_from(password_file):
    if password_file is None:
        return os.environ.get("SEALPIN_PASSWORD") or typed("Password: ", "--password-file or SEALPIN_PASSWORD")
    with open(password_file, encoding="utf-8", newline="") as file:
        return re.sub(r"\r?\n\Z", "", file.read(MAX_KEYS), count=1)


def write_to(output, write):
    """Lets `write` write a file, which appears when it is complete, or to standard output."""
    if output == "-":
        write(sys.stdout.buffer)
        return sys.stdout.buffer.flush()
    if os.path.exists(output):
        raise Refused(f"{output} exists")
    descriptor, part = tempfile.mkstemp(".part", ".rescue-", os.path.dirname(output) or ".")
    try:
        with open(descriptor, "wb") as target:
            write(target)
        os.rename(part, output)
    except BaseException:
        os.unlink(part)
        raise


def failure():
    """Runs the command line; gives the sentence with which it failed, or None."""
    try:
        main()
    except Refused as error:
        return f"rescue.py: {error}"
    except (InvalidTag, *UNREADABLE) as error:
        return f"rescue.py: it cannot be read: {type(error).__name__}: {error}"


if __name__ == "__main__":
    # rescue_bucket.py raises what the module has that it imports, so that one runs.
    sys.dont_write_bytecode = True
    import rescue

    for stream in (sys.stdout, sys.stderr):
        # A name or path that the terminal cannot show is no reason to stop.
        stream.reconfigure(errors="backslashreplace")
    sys.exit(rescue.failure())
