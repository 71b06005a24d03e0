# SPDX-License-Identifier: Apache-2.0
"""What ringsum replaces: a loader in Python that hashes promised ranges of memory-mapped shards.

usage: mmap_hash.py DIR

Sixteen threads, hashlib over views of the mapping (which lets go of the interpreter's lock), the
longest range first. Checks digests and nothing else, so it is a lower bound of what such a loader
costs. Exit status: 0 identical, 1 not.
"""
import concurrent.futures
import hashlib
import json
import mmap
import pathlib
import sys

THREADS = 16


def main() -> int:
    root = pathlib.Path(sys.argv[1])
    entries = json.loads((root / "TENSORS.json").read_text())["tensors"]
    views = {}
    for name in {entry["destination_file"] for entry in entries}:
        with open(root / name, "rb") as shard:
            views[name] = memoryview(mmap.mmap(shard.fileno(), 0, access=mmap.ACCESS_READ))

    def is_identical(entry) -> bool:
        begin, end = entry["destination_byte_range"]
        view = views[entry["destination_file"]][begin:end]
        return hashlib.sha256(view).hexdigest() == entry["source_byte_range_sha256"]

    def length(entry) -> int:
        begin, end = entry["destination_byte_range"]
        return end - begin

    entries.sort(key=length, reverse=True)
    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        return 0 if all(list(pool.map(is_identical, entries))) else 1


if __name__ == "__main__":
    sys.exit(main())
