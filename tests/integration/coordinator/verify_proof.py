# SPDX-License-Identifier: Apache-2.0
"""A second reader of proof files, from docs/LEDGER.md alone: hashes by hashlib, the signature by the openssl command.

Usage: verify_proof.py FILE [PUBLIC_KEY_PEM]; exit code 0: the proof holds, 8: it does not.
"""
import base64
import hashlib
import json
import os
import subprocess
import sys
import tempfile

HEAD_TYPE = "application/vnd.berth.ledger-head+json"


def digest(text):
    kind, _, digits = text.partition(":")
    if kind != "sha256" or len(digits) != 64:
        raise ValueError("not a digest: " + text)
    return bytes.fromhex(digits)


def root_of(leaf, index, size, path):
    """RFC 6962 2.1.1: from a leaf of a tree of `size` up to its root."""
    path = list(path)
    if not 0 <= index < size:
        raise ValueError("a tree of %d events has none at %d" % (size, index))

    def climb(m, n):
        if n == 1:
            return leaf
        k = 1
        while 2 * k < n:
            k *= 2
        sibling = path.pop()
        if m < k:
            return hashlib.sha256(b"\x01" + climb(m, k) + sibling).digest()
        return hashlib.sha256(b"\x01" + sibling + climb(m - k, n - k)).digest()

    root = climb(index, size)
    if path:
        raise ValueError("the path is too long")
    return root


def is_signed(proof, key_pem):
    head = proof["head"]
    body = json.dumps(
        {"fleet": proof["fleet"], "leaf": head["leaf"], "root": head["root"], "size": head["size"]},
        sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    text = b"DSSEv1 %d %s %d " % (len(HEAD_TYPE), HEAD_TYPE.encode(), len(body)) + body
    with tempfile.TemporaryDirectory() as folder:
        paths = {}
        for name, content in (("key", key_pem), ("text", text), ("signature", base64.b64decode(head["signature"]))):
            paths[name] = os.path.join(folder, name)
            with open(paths[name], "wb") as file:
                file.write(content)
        return subprocess.run(
            ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", paths["key"], "-rawin", "-in", paths["text"],
             "-sigfile", paths["signature"]], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        proof = json.load(file)
    key = proof["key"].encode()
    if len(sys.argv) > 2:
        with open(sys.argv[2], "rb") as file:
            key = file.read()
    leaf = hashlib.sha256(b"\x00" + base64.b64decode(proof["event"])).digest()
    try:
        root = root_of(leaf, proof["sequence"] - 1, proof["head"]["size"], map(digest, proof["path"]))
    except (IndexError, ValueError) as error:
        print("no path to a root:", error)
        return 8
    if root != digest(proof["head"]["root"]):
        print("the path leads to another root")
        return 8
    if not is_signed(proof, key):
        print("the head is not signed with this key")
        return 8
    return 0


if __name__ == "__main__":
    sys.exit(main())
