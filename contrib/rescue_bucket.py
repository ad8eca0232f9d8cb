"""The part of rescue.py that reads a copy of a bucket, as `rclone copy` and `aws s3 sync` make it.

Written from docs/object-stores.md, which defines what lies in a bucket. Use it as `rescue.py bucket`.
"""

import argparse
import base64
import bisect
import hashlib
import io
import itertools
import os
import re
import sys

from rescue import UNREADABLE, Refused, fields_of, write_to

MAX_INDEX = 1 << 24
MAX_DEPTH = 8
LEAF = 1 << 20
RAW, NODE = b"\1\x55\x12\x20", b"\1\x70\x12\x20"


# Files in blocks of IPFS: nodes (dag-pb with UnixFS) over leaves (raw).


def uvarint(number):
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + uvarint(number >> 7)


def field(number, body):
    return bytes([number << 3 | 2]) + uvarint(len(body)) + body


def node_over(parts):
    """The node over parts of a file, each with its CID, bytes of the file in it, and bytes of its blocks."""
    links = b"".join(field(2, field(1, cid) + b"\x12\0\x18" + uvarint(stored)) for cid, _, stored in parts)
    sizes = b"".join(b"\x20" + uvarint(size) for _, size, _ in parts)
    return links + field(1, b"\x08\x02\x18" + uvarint(sum(size for _, size, _ in parts)) + sizes)


def nodes_over(leaves):
    """The nodes of the profile unixfs-v1-2025 over leaves, each with its CID and size."""
    nodes, level = {}, [(cid, size, size) for cid, size in leaves]
    while len(level) > 1:
        groups, level = [level[at : at + 1024] for at in range(0, len(level), 1024)], []
        for parts in groups:
            node = node_over(parts)
            cid = NODE + hashlib.sha256(node).digest()
            nodes[cid] = node
            level.append((cid, sum(part[1] for part in parts), len(node) + sum(part[2] for part in parts)))
    return nodes


def parts_of(node):
    """The CIDs and sizes of the parts of a file that a node links to."""
    fields = list(fields_of(node))
    data = [each for number, value in fields if number == 1 for each in fields_of(value)]
    sizes = [value for number, value in data if number == 4]
    cids = [dict(fields_of(value)).get(1) for number, value in fields if number == 2]
    if dict(data).get(1) != 2 or dict(data).get(2) or len(cids) != len(sizes) or min(sizes, default=0) < 1:
        raise Refused("a block of its index is not a node of a file")
    return list(zip(cids, sizes))


class StoredFile:
    """A file in a copy of a bucket, once its index has proved its CID."""

    def __init__(self, folder, name):
        with open_plain(os.path.join(folder, "cid", name)) as file:
            index = io.BytesIO(file.read(MAX_INDEX + 1))

        def take(length):
            taken = index.read(length)
            if len(taken) < length or index.tell() > MAX_INDEX:
                raise Refused("its index is cut off, or too long")
            return taken

        def number(length=4):
            return int.from_bytes(take(length), "big")

        kind = take(8)
        if kind not in (b"sealpin\1", b"sealpin\2"):
            raise Refused("its index is of a kind that is unknown")
        self.cid, self.root = name, base64.b32decode(name[1:].upper() + "======")
        self.data, self.size = os.path.join(folder, "data", take(16).hex()), number(8)
        self.objects = [(number(), number()) for _ in range(number())]
        if kind == b"sealpin\1":
            starts = range(0, max(1, self.size), LEAF)
            leaves = [(RAW + take(32), min(LEAF, self.size - at)) for at in starts]
            self.nodes = nodes_over(leaves)
        else:
            leaves = [(RAW + take(32), number()) for _ in range(number())]
            nodes = [take(number()) for _ in range(number())]
            self.nodes = {NODE + hashlib.sha256(node).digest(): node for node in nodes}
        self.starts = [0, *itertools.accumulate(size for _, size in self.objects)]
        ends = [0, *itertools.accumulate(size for _, size in leaves)]
        self.places = {cid: (end - size, size) for (cid, size), end in zip(leaves, ends[1:])}
        if index.read(1) or ends[-1] != self.starts[-1]:
            raise Refused("its index contradicts itself")
        level = {(self.root, self.size)}
        for _ in range(MAX_DEPTH + 1):
            level = {part for each in level for part in self.parts(*each)}
        if level:
            raise Refused("its index has too many levels")
        for name, size in self.objects:
            with open_plain(self.path_of(name)) as file:
                if os.fstat(file.fileno()).st_size < size:
                    raise Refused(f"{file.name} is cut off")

    def parts(self, cid, size):
        """The parts of a node, or none of a leaf, if it has this size."""
        if cid in self.nodes:
            parts = parts_of(self.nodes[cid])
            known = sum(part[1] for part in parts)
        else:
            parts, known = [], self.places.get(cid, (0, None))[1]
        if known != size:
            raise Refused("its index does not prove its CID")
        return parts

    def path_of(self, name):
        return os.path.join(self.data, f"{name:08}")

    def leaves(self):
        """The bytes of the file in their order; every leaf is compared with its digest."""
        waiting = [(self.root, self.size)]
        while waiting:
            part = waiting.pop()
            if part[0] in self.nodes:
                waiting.extend(reversed(self.parts(*part)))
                continue
            leaf = self.read(*self.places[part[0]])
            if hashlib.sha256(leaf).digest() != part[0][4:]:
                raise Refused(f"a block of {self.data} is damaged")
            yield leaf

    def read(self, at, size):
        """Bytes of the objects as if they were one."""
        end, taken = at + size, b""
        while at < end:
            here = bisect.bisect_right(self.starts, at) - 1
            until = min(end, self.starts[here + 1])
            with open_plain(self.path_of(self.objects[here][0])) as file:
                file.seek(at - self.starts[here])
                taken += file.read(until - at)
            at = until
        return taken


class FoundFile:
    """A file of kind 1 that no index names any more: its CID follows from its bytes."""

    def __init__(self, folder, name):
        self.data, self.size = os.path.join(folder, "data", name), 0
        names = sorted(each for each in os.listdir(self.data) if re.fullmatch("[0-9]{8}", each))
        self.paths = [os.path.join(self.data, each) for each in names]
        leaves = []
        for leaf in self.leaves():
            leaves.append((RAW + hashlib.sha256(leaf).digest(), len(leaf)))
            self.size += len(leaf)
        root = next(reversed(nodes_over(leaves)), leaves[0][0])
        self.cid = "b" + base64.b32encode(root).decode().rstrip("=").lower()

    def leaves(self):
        """The bytes of all objects in their order, cut where the profile cuts a file."""
        rest = b""
        for path in self.paths:
            with open_plain(path) as file:
                while piece := file.read(LEAF):
                    rest += piece
                    if len(rest) >= LEAF:
                        yield rest[:LEAF]
                        rest = rest[LEAF:]
        if rest or not self.size:
            yield rest


def open_plain(path):
    """Opens a file that is none of those that would never end."""
    if not os.path.isfile(path):
        raise Refused(f"{path} is missing")
    return open(path, "rb")


# The command line.


def bucket(arguments):
    parser = argparse.ArgumentParser("rescue.py bucket", description="Reads a copy of a bucket.")
    parser.add_argument("folder", help="the copy, or the folder of one prefix in it")
    parser.add_argument("cid", nargs="?", help="writes this file; else all files are listed, with their bytes")
    parser.add_argument("output", nargs="?", help="a new file, or - for standard output")
    o = parser.parse_args(arguments)
    if o.cid is not None and o.output is None:
        parser.error("name an output, or - for standard output")
    files = list(entries_in(o.folder, "cid", "b[a-z2-7]{58}"))
    if o.cid is None:
        return list_files(files, o.folder)
    files.sort(key=lambda each: each[1] != o.cid)
    file = next((file for file in opened_of(files, o.folder, []) if file.cid == o.cid), None)
    if file is None:
        raise Refused(f"{o.folder} has no such file; name a folder that has the folders cid and data")
    write_to(o.output, lambda target: target.writelines(file.leaves()))


def entries_in(folder, kind, pattern):
    """A copy of a bucket and the prefixes in it, each with a name in its folder `kind` that fits a pattern."""
    for each in [folder, *sorted(entry.path for entry in os.scandir(folder) if entry.is_dir())]:
        inner = os.path.join(each, kind)
        for name in sorted(os.listdir(inner)) if os.path.isdir(inner) else []:
            if re.fullmatch(pattern, name):
                yield each, name


def opened_of(files, folder, skipped):
    """The files whose index is right, and those that no such index names. Says of each other one why it is left out."""
    named = set()
    for kind, entries in ((StoredFile, files), (FoundFile, entries_in(folder, "data", "[0-9a-f]{32}"))):
        for each, name in entries:
            path = os.path.join(each, "data", name)
            if path in named:
                continue
            try:
                file = kind(each, name)
            except (Refused, *UNREADABLE) as error:
                skipped.append(name)
                print(f"{name}: {error}", file=sys.stderr)
                continue
            if kind is FoundFile and not file.paths:
                print(f"{path} is left out: it has no objects", file=sys.stderr)
                continue
            named.add(file.data)
            yield file


def list_files(files, folder):
    count, skipped = 0, []
    for count, file in enumerate(opened_of(files, folder, skipped), 1):
        doubt = f" without an index, perhaps not whole: {file.data}" if isinstance(file, FoundFile) else ""
        print(f"{file.size:>16} {file.cid}{doubt}")
    if skipped:
        raise Refused(f"{len(skipped)} of {count + len(skipped)} files cannot be read")
    if not count:
        raise Refused(f"{folder} has no files; name a folder that has the folders cid and data")
