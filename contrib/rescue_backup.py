"""The part of rescue.py that opens links, backups and backup words.

Written from docs/links.md, docs/backups.md and the section "Backup words" of cli/README.md. Use it as
`rescue.py backup`, `rescue.py words` and `rescue.py --link`.
"""

import argparse
import base64
import hashlib
import io
import json
import os
import re
import sys
import tempfile
import unicodedata
import zlib

from cryptography.exceptions import InvalidSignature, InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

import rescue
from rescue import AGE, DETACHED, SEALPIN, UNREADABLE, Password, Refused

MAX_RECORD = 1 << 22
MAX_PARCEL = 49152
MAX_LINK = 8192
CID = re.compile(r"b[a-z2-7]{58}")
FILE_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
ADDRESS = re.compile(r"(https?://(?:[0-9a-z.-]+|\[[0-9a-f:.]+\])(?::[0-9]+)?)/(?:.*/)?([^/]+)/?", re.A | re.I)
INBOX = re.compile(r"sp_[0-9A-Za-z]{71}\.age1tag1[02-9ac-hj-np-z]{59}")
SIGNER = re.compile("sealpin-signer1[02-9ac-hj-np-z]{58}")
SIGNED = {"v", "service", "id", "recipients", "signer", "signature", "parcel"}


def opened(data, identities, file_key=None, header=None):
    target = io.BytesIO()
    rescue.open_container(io.BytesIO(data), target, identities, file_key, header)
    return target.getvalue()


def read_small(path, most=MAX_RECORD):
    if not os.path.isfile(path):
        raise Refused(f"{path} is missing")
    with open(path, "rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise Refused(f"{path} is too large")
    return data


# Links (docs/links.md).


def link_key(text):
    """What a link opens: (service and ID of a share, secret), (service and ID of the API key of an inbox, None), or
    (None, file key of a blob or None)."""
    trimmed = re.sub("^[^0-9A-Za-z]+", "", text)
    parts = re.match(r"([^#?]*?)(?:%23|(?:\?[^#]*)?#)(\w*(?:\.+\w+)*)", trimmed, re.A)
    address = parts and ADDRESS.fullmatch(parts.group(1))
    if len(text) > MAX_LINK or not address:
        raise Refused("that is not a link")
    (origin, page), fragment = address.groups(), parts.group(2)
    origin = origin_of(origin.lower())
    if page == "s" and re.fullmatch("1[0-9A-Za-z]{71}", fragment):
        checked(fragment)
        rescue.file_key_of_text(fragment[1:23])
        return (origin, fragment[1:23]), rescue.file_key_of_text(fragment[23:66])
    if page == "drop" and INBOX.fullmatch(fragment):
        checked(fragment[:74])
        rescue.bech32_bytes(fragment[75:])
        return (origin, hashlib.sha256(fragment[:74].encode()).hexdigest()[:16]), None
    if page == "b" and CID.fullmatch(fragment):
        return None, None
    if page == "b" and CID.fullmatch(fragment[:59]) and fragment[59:60] == "." and len(fragment) in (88, 109):
        checked(fragment)
        return None, rescue.file_key_of_text(fragment[60:-6])
    raise Refused("that is not a link to files, or a part of it is missing")


def origin_of(address):
    """The origin of an address, as a signature has it: without the usual port."""
    return address.removesuffix(":443" if address.startswith("https:") else ":80")


def checked(fragment):
    """Compares the checksum at the end: CRC-32 in six digits of base62."""
    if fragment[-6:] != base62_text(zlib.crc32(fragment[:-6].encode()), 6):
        raise Refused("a part of the link is missing or mistyped: its checksum does not match")


def open_linked(text, source, target, identities, ask):
    """Opens the blob of a link, or the parcel in a record or delivery that somebody has kept."""
    place, key = link_key(text)
    if place is None:
        return rescue.open_container(source, target, identities, key)
    record, own = source.read(MAX_PARCEL + 1025), None
    if key is None:
        parcel = record
    elif record.startswith(SEALPIN) and not record.startswith(DETACHED):
        # The digits of the secret, a dot, and the sender's password.
        secret = base62_text(int.from_bytes(key, "big"), 43)
        parcel = opened(record, [Password(lambda: f"{secret}.{unicodedata.normalize('NFC', ask())}")])
    else:
        parcel = opened(record, [], key)
    if parcel.startswith(AGE):
        parcel, own = opened(parcel, identities), [recipient_of(each) for each in identities]
    if len(parcel) > MAX_PARCEL:
        raise Refused("the record has no parcel")
    signed = json_of(parcel, (1, 2))
    if signed.get("v") == 2:
        parcel = signed_parcel(signed, place, own)
    if "files" not in json_of(parcel):
        raise Refused("the record has no parcel")
    target.write(parcel.rstrip(b" ") + b"\n")


def recipient_of(identity):
    """The public key of a key, as a signature names it; None for a password."""
    if isinstance(identity, rescue.P256Key):
        return rescue.bech32_text("age1tag", rescue.point_of(identity.key, compressed=True))
    if isinstance(identity, rescue.X25519Key):
        return rescue.bech32_text("age", rescue.raw_public(identity.key))
    if isinstance(identity, rescue.HybridKey):
        prefix, form = ("age1tagpq", rescue.point_of) if identity.with_p256 else ("age1pq", rescue.raw_public)
        return rescue.bech32_text(prefix, rescue.raw_public(identity.kem) + form(identity.curve))
    return None


def signed_parcel(claim, place, own):
    """The parcel of a signed one. Says on standard error who signed it, or why that is not known."""
    signer, parcel = text_of(claim, "signer", SIGNER), text_of(claim, "parcel").encode()
    public = rescue.bech32_bytes(signer)
    names = claim.get("recipients")
    is_known = set(claim) == SIGNED and isinstance(names, list) and all(isinstance(name, str) for name in names)
    if not is_known or rescue.bech32_text("sealpin-signer", public) != signer:
        raise Refused("its signature is damaged, or of a version that is unknown")
    given = text_of(claim, "service"), text_of(claim, "id")
    listed = [name.encode() for name in sorted(names)] or [b"link"]
    fields = [b"sealpin/parcel-signature/v1", *(each.encode() for each in given), len(listed).to_bytes(4, "big")]
    fields += [*listed, hashlib.sha256(parcel).digest()]
    message = b"".join(len(field).to_bytes(4, "big") + field for field in fields)
    signature, doubt = rescue.unbase64(text_of(claim, "signature")), None
    try:
        ed25519.Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        doubt = "something was changed, or somebody claims to be somebody else"
    except UnsupportedAlgorithm:
        doubt = "this computer cannot check it"
    if doubt is None and given != place:
        doubt = "it was signed for another link"
    if doubt is None and (bool(names) if own is None else not set(own) & set(names)):
        doubt = "it was signed for other recipients"
    said = f"signed by {signer}" if doubt is None else f"not proven to be signed by {signer}: {doubt}"
    print(f"rescue.py: {said}", file=sys.stderr)
    return parcel


def base62_text(number, length):
    text = ""
    while len(text) < length:
        number, digit = divmod(number, 62)
        text = rescue.BASE62[digit] + text
    return text


# Backups (docs/backups.md).


def text_of(record, name, pattern=None):
    value = record.get(name)
    if not isinstance(value, str) or (pattern is not None and not pattern.fullmatch(value)):
        raise Refused(f"its record has no {name}")
    return value


def json_of(data, versions=(1,)):
    try:
        value = json.loads(data)
    except RecursionError:
        value = None
    if not isinstance(value, dict) or value.get("v", 1) not in versions:
        raise Refused("its record or parcel is damaged, or of a version that is unknown")
    return value


def file_details(stanzas, file_key, file_id):
    """What the `file` stanza of a header says of the file with this ID."""
    for name, arguments, body in stanzas:
        if name == "file" and arguments == [file_id]:
            key = rescue.hkdf(file_key, b"", b"sealpin/v1 file")
            return json_of(AESGCM(key).decrypt(body[:12], body[12:], file_id.encode()))
    raise Refused("its header is that of another file")


class Backup:
    def __init__(self, folder, ask):
        self.folder = folder
        json_of(read_small(os.path.join(folder, "backup.json"), 1 << 28))
        self.keys = rescue.keys_in(read_small(os.path.join(folder, "account.key"), rescue.MAX_KEYS), ask)

    def records(self):
        names = sorted(os.listdir(os.path.join(self.folder, "files")))
        return [name[:-5] for name in names if name.endswith(".json") and FILE_ID.fullmatch(name[:-5])]

    def open(self, file_id):
        """The name of a file, and a function that writes it."""
        record = json_of(read_small(os.path.join(self.folder, "files", f"{file_id}.json")))
        if record.get("fileId") != file_id:
            raise Refused("its record is that of another file")
        cid = text_of(record, "cid", CID)
        if record.get("header") is None:
            details = json_of(opened(base64.b64decode(text_of(record, "sealed"), validate=True), self.keys))
            name = details.get("filename") or details.get("name")
            return self.named(name, file_id, cid), lambda target: target.writelines(self.pieces(cid))
        header = io.BytesIO(base64.b64decode(text_of(record, "header"), validate=True))
        file_key, stanzas = rescue.file_key_in(header, header.readline(1024), self.keys, None)
        details = file_details(stanzas, file_key, file_id)
        name = details.get("filename")

        def write(target):
            with tempfile.TemporaryFile() as blob:
                blob.writelines(self.pieces(cid))
                blob.seek(0)
                rescue.open_container(blob, target, [], file_key)

        return safe_name(name, file_id), write

    def named(self, name, file_id, cid):
        """Containers that somebody stored keep their password or key: their name says so."""
        start = next(self.pieces(cid), b"")
        end = ".age" if start.startswith(AGE) else ".sealpin" if start.startswith(SEALPIN) else ""
        return safe_name(name, file_id) + end

    def pieces(self, cid):
        path = os.path.join(self.folder, "blobs", f"{cid}.car")
        if not os.path.isfile(path):
            raise Refused("its blob is missing")
        with open(path, "rb") as source:
            yield from rescue.blob_of_car(source, base64.b32decode(cid[1:].upper() + "======"))


def safe_name(name, file_id):
    """A name that leads nowhere else, and is none of those that mean something."""
    if not isinstance(name, str) or name == "":
        return file_id
    visible = "".join("_" if c in '/\\:*?"<>|' or unicodedata.category(c)[0] == "C" else c for c in name)
    cut = visible.encode("utf-8", "replace")[:200].decode("utf-8", "ignore")
    return "_" + cut[1:] if cut[:1] in ("", ".", "-", " ") else cut


def free_path(folder, name):
    stem, dot, end = name.partition(".")
    for number in range(1, 100_000):
        path = os.path.join(folder, name if number == 1 else f"{stem} ({number}){dot}{end}")
        if not os.path.lexists(path):
            return path
    raise Refused(f"there are too many files called {name}")


def backup(arguments):
    parser = argparse.ArgumentParser("rescue.py backup", description="Opens the folder of a backup.")
    parser.add_argument("--password-file", help="a file with the password of account.key")
    parser.add_argument("folder")
    parser.add_argument("output", nargs="?", help="a new folder for the files; else they are listed")
    o = parser.parse_args(arguments)
    copy = Backup(o.folder, lambda: rescue.password_from(o.password_file))
    if o.output is not None:
        os.makedirs(o.output, exist_ok=False)
    damaged = still_sealed = 0
    for file_id in copy.records():
        try:
            name, write = copy.open(file_id)
            if o.output is not None:
                rescue.write_to(free_path(o.output, name), write)
            print(name)
            still_sealed += name.endswith((".age", ".sealpin"))
        except (Refused, InvalidTag, *UNREADABLE) as error:
            damaged += 1
            print(f"{file_id}: {error}", file=sys.stderr)
    if still_sealed:
        said = "1 file stays" if still_sealed == 1 else f"{still_sealed} files stay"
        print(f"{said} encrypted; each opens with its own password or key: rescue.py <file> <output>", file=sys.stderr)
    if damaged:
        raise Refused(f"{damaged} file{'' if damaged == 1 else 's'} of the backup cannot be read")


# Backup words (BIP 39): the 32 bytes of a key, and a checksum of 8 bits.


def secret_of_words(text):
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bip39-english.txt")
    known = read_small(here).decode("ascii").split()
    words = re.findall(r"[^\W\d_]+", text.lower())
    for place, word in enumerate(words, 1):
        if word not in known:
            raise Refused(f"word {place} is not one of the list of words")
    if len(words) != 24 or len(known) != 2048:
        raise Refused(f"these are {len(words)} words, and a key has 24")
    bits = 0
    for word in words:
        bits = bits << 11 | known.index(word)
    secret = (bits >> 8).to_bytes(32, "big")
    if hashlib.sha256(secret).digest()[0] != bits & 255:
        raise Refused("the checksum of the words does not match: one is wrong, or two are swapped")
    return secret


def words(arguments):
    parser = argparse.ArgumentParser("rescue.py words", description="Makes a private key again from its 24 words.")
    parser.add_argument("--words-file", help="a file with the words; else you are asked")
    parser.add_argument("--post-quantum", action="store_true", help="it is a post-quantum key")
    parser.add_argument("output", help="the new key file, or - for standard output")
    o = parser.parse_args(arguments)
    given = rescue.typed("Words: ", "--words-file") if o.words_file is None else read_small(o.words_file).decode()
    secret = secret_of_words(given)
    if o.post_quantum:
        text = rescue.bech32_text("sealpin-secret-key-pq-", secret).upper() + "\n"
    else:
        number = int.from_bytes(secret, "big")
        if not 0 < number < rescue.P256_ORDER:
            raise Refused("these are not the words of a P-256 key: try --post-quantum")
        form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        text = ec.derive_private_key(number, ec.SECP256R1()).private_bytes(*form).decode()
    rescue.write_to(o.output, lambda target: target.write(text.encode()))
