"""A git revision as a checkout: its files are those of the object database, whatever the work tree holds.

What the work tree holds may be converted (line endings, filters), changed or absent (sparse checkout). It is
only used where git can tell that it equals the revision, because mapped files cost a third of unpacking every blob:
to find the files with a word, and to read those whose hash is that of their blob.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from hashlib import sha1, sha256
from io import FileIO
from itertools import islice
from pathlib import Path

from verl_legacy_patch.checkout import gitio
from verl_legacy_patch.checkout.base import (
    CODE,
    SOURCE_SUFFIXES,
    Candidate,
    Checkout,
    Submodule,
    package_folders,
    wanted,
)
from verl_legacy_patch.checkout.gitio import to_bytes, to_text
from verl_legacy_patch.checkout.words import options, shortest
from verl_legacy_patch.patterns import lazy
from verl_legacy_patch.scope import file_reason

# --text: a NUL byte or a "binary" attribute must not hide a source file. Threads cost more than they save.
_GREP = ("--text", "--threads=1", "--no-color", "--full-name", "--no-recurse-submodules")
_GLOB = lazy(rb"[*?\[\\]")
_SUFFIX = lazy(rb"\.(?<=[^/\t]\.)[A-Za-z]+(?=\0)")
#: Files that are read from the work tree at a time: enough that those which differ need few processes.
_GROUP = 64
#: Files with a word that a later search for longer ones is kept to: naming more costs as much as searching all.
_FEW = 1000
#: Files that are read and searched in less time than it takes to start git.
_FASTER_READ = 100
_IMPORTS = r"^[[:space:]]*(from|import)[[:space:]]+verl([.,;[:space:]]|$)"


class GitCheckout(Checkout):
    """One commit of a repository with a work tree.

    Attributes:
        tree: the full name of the base's tree.
        git_dir: the private folder of this work tree (for a linked one, not that of the repository).
        is_head: whether the base is the commit that is checked out.
    """

    base: str

    def __init__(self, root: Path, prefix: str, git_dir: Path, base: str, tree: str, is_head: bool) -> None:
        self.root = root
        self.prefix = prefix
        self.git_dir = git_dir
        self.base = base
        self.tree = tree
        self.is_head = is_head
        self._searched: list[tuple[Sequence[bytes], list[Candidate]]] = []
        self._code: dict[str, bytes] = {}  # contents of Python files by the names of their blobs

    def candidates(
        self, words: Sequence[bytes], *, suffixes: Collection[str] | None = SOURCE_SUFFIXES
    ) -> list[Candidate]:
        """Return the files of the base that hold a word. See ``Checkout``."""
        if not words:
            return []
        words = shortest(words)
        known = self._known(words, suffixes)
        if known is not None and len(known) <= _FEW:
            paths = [b":(top,literal)" + to_bytes(each.path) for each in known]
            return self._grep(words, suffixes, paths) if paths else []
        found = self._grep(words, suffixes, [*(self._pathspec or [b":(top)"]), *self._other_suffixes(suffixes)])
        if suffixes is SOURCE_SUFFIXES:
            self._searched.append((words, found))
        return found

    def code(self, words: Sequence[bytes]) -> list[bytes]:
        """Return the content of the Python files in scope that hold one of the words. See ``Checkout``."""
        words = shortest(words)
        known = [each for each in self._known(words, CODE) or () if not file_reason(each.path)]
        if not 0 < len(known) <= _FASTER_READ:
            return super().code(words)
        contents = [content for each in known if (content := self._code.get(each.sha)) is not None]
        contents += [content for _, content in self.read(each for each in known if each.sha not in self._code)]
        return [content for content in contents if _holds(content.lower(), words)]

    def _known(self, words: Sequence[bytes], suffixes: Collection[str] | None) -> list[Candidate] | None:
        """Return the files of a former search among which those with the words are; None when there was none."""
        if suffixes is None or not {*suffixes} <= {*SOURCE_SUFFIXES}:
            return None
        for parts, found in self._searched:
            if all(any(part in word for part in parts) for word in words):
                return [each for each in found if wanted(to_bytes(each.path), suffixes)]
        return None

    def _grep(
        self, words: Sequence[bytes], suffixes: Collection[str] | None, files: Sequence[bytes]
    ) -> list[Candidate]:
        start, out = 0, None
        if self._matches_work_tree and not any(wanted(path, suffixes) for path in self._converted):
            code, out, err = self._ask(words, ["--", *files])
            if code not in (0, 1) or err:
                out = None  # a file that cannot be read on disk is passed over, but its blob is there
        if out is None:
            start = len(self.base) + 1
            code, out, err = self._ask(words, [self.base, "--", *files])
            if code not in (0, 1) or "error:" in err:  # grep passes over an object that is missing, and ends well
                raise gitio.failure(err, self.root, code)
        found: list[Candidate] = []
        for hit in out.split(b"\0")[:-1]:
            path = hit[start:]
            if wanted(path, suffixes) and (entry := self._entry(path)):
                found.append(Candidate(to_text(path), *entry))
        return found

    def _ask(self, words: Sequence[bytes], where: Sequence[str | bytes]) -> tuple[int, bytes, str]:
        """Run git grep for files with one of the words; return exit code, output and error text."""
        for syntax in options(words):
            done = gitio.run(["grep", "-liz", *_GREP, *syntax, *where], self.root)
            if done[0] in (0, 1):
                break
        return done

    def named(self, paths: Iterable[str]) -> list[Candidate]:
        """Return the regular files of the base among ``paths``. See ``Checkout``."""
        entries = ((path, self._entry(to_bytes(path))) for path in paths)
        return [Candidate(path, *entry) for path, entry in entries if entry and entry[0].startswith("100")]

    def read(self, candidates: Iterable[Candidate]) -> Iterator[tuple[Candidate, bytes]]:
        """Yield each candidate with its content in the base. See ``Checkout``."""
        waiting = iter(candidates)
        while group := list(islice(waiting, _GROUP if self._matches_work_tree else None)):
            on_disk = [self._on_disk(each.path, each.sha) for each in group]
            missing = [each.sha for each, content in zip(group, on_disk, strict=True) if content is None]
            blobs = gitio.blobs(missing, self.root) if missing else iter(())
            for each, found in zip(group, on_disk, strict=True):
                content = next(blobs) if found is None else found
                if each.path.endswith(CODE) and len(self._code) < _FASTER_READ:
                    self._code[each.sha] = content
                yield each, content

    def read_path(self, path: str) -> bytes | None:
        """Return the content of one file of the base. See ``Checkout``."""
        entry = self._entry(to_bytes(path))
        if entry is None or not entry[0].startswith("100"):
            return None
        content = self._on_disk(path, entry[1])
        return gitio.read(["cat-file", "blob", entry[1]], self.root) if content is None else content

    def _on_disk(self, path: str, sha: str) -> bytes | None:
        """Return the content of a blob from the work tree, where the file is that blob; reading it costs less."""
        if not self._matches_work_tree:
            return None
        try:
            with FileIO(os.fsencode(self.root) + b"/" + to_bytes(path)) as file:
                content = file.readall()
        except OSError:
            return None
        digest = sha1 if len(sha) == 40 else sha256
        return content if digest(b"blob %d\0%b" % (len(content), content)).hexdigest() == sha else None

    def list_folder(self, folder: str) -> list[str]:
        """Return the regular files under ``folder`` in the base. See ``Checkout``."""
        start = to_bytes(folder.rstrip("/") + "/") if folder.strip("/") else b""
        paths: list[str] = []
        for entry in self._entries[bisect_left(self._entries, start, key=_path) :]:
            path = _path(entry)
            if not path.startswith(start):
                break
            if _mode(entry).startswith("100"):
                paths.append(to_text(path))
        return paths

    def has_file(self, path: str) -> bool:
        """Return whether the base has that regular file. See ``Checkout``."""
        entry = self._entry(to_bytes(path))
        return entry is not None and entry[0].startswith("100")

    def entry(self, path: str) -> tuple[str, str] | None:
        """Return mode and object name of anything the base has at ``path``: also symlinks and submodules."""
        return self._entry(to_bytes(path))

    def submodules(self) -> list[Submodule]:
        """Return the submodules of the base, and whether each is checked out. See ``Checkout``."""
        if b"160000 " not in self._listing:
            return []
        paths = [_path(entry) for entry in self._entries if _mode(entry) == "160000"]
        root = os.fsencode(self.root)
        return [Submodule(to_text(path), os.path.lexists(root + b"/" + path + b"/.git")) for path in paths]

    def dirty(self) -> list[str]:
        """Return tracked files with changes; a submodule's own state is not ours. See ``Checkout``."""
        return self._dirty

    def packages(self) -> list[str]:
        """Return the folders of ``verl`` packages in the base. See ``Checkout``."""
        listing, needle = self._listing, b"verl/__init__.py\0"
        paths: list[bytes] = []
        at = listing.find(needle)
        while at != -1:  # searching the listing as a whole: no loop over files
            end = at + len(needle) - 1
            paths.append(listing[listing.rfind(b"\t", 0, at) + 1 : end])
            at = listing.find(needle, end)
        return [to_text(folder) for folder in package_folders(paths)]

    def imports_verl(self) -> bool:
        """Return whether a Python file of the base imports verl. See ``Checkout``."""
        files = b":(top,glob)" + _GLOB.sub(rb"\\\g<0>", to_bytes(self.prefix)) + b"**/*.py"
        code, _, err = gitio.run(["grep", "-qE", *_GREP, "-e", _IMPORTS, self.base, "--", files], self.root)
        if code > 1 or code < 0:
            raise gitio.failure(err, self.root, code)
        return code == 0

    @property
    def _pathspec(self) -> list[bytes]:
        return [b":(top,literal)" + to_bytes(self.prefix)] if self.prefix else []

    @cached_property
    def _dirty(self) -> list[str]:
        options = ["status", "--porcelain=v2", "-z", "--untracked-files=no", "--ignore-submodules=all"]
        out = gitio.read([*options, "--no-renames", "--no-ahead-behind"], self.root)
        paths: set[bytes] = set()
        for entry in out.split(b"\0")[:-1]:
            if entry[:2] in (b"1 ", b"u "):  # changed: 8 fields before the path; unmerged: 10
                paths.add(entry.split(b" ", 8 if entry[:1] == b"1" else 10)[-1])
        return [to_text(path) for path in sorted(paths)]

    @cached_property
    def _listing(self) -> bytes:
        """Every entry of the base as ``… TAB path NUL``, ordered by path: both commands agree in that."""
        if self.is_head and not self._dirty:
            # The index equals the base: unpacking no tree is twice as fast, and the flags come for free.
            return gitio.read(["ls-files", "-v", "-s", "-z", "--", *self._pathspec], self.root)
        pathspec = [to_bytes(self.prefix)] if self.prefix else []
        return gitio.read(["ls-tree", "-r", "-z", "--full-tree", self.base, "--", *pathspec], self.root)

    @cached_property
    def _entries(self) -> list[bytes]:
        return self._listing.split(b"\0")[:-1]

    def _entry(self, path: bytes) -> tuple[str, str] | None:
        at = bisect_left(self._entries, path, key=_path)
        if at == len(self._entries) or _path(self._entries[at]) != path:
            return None
        fields = self._entries[at].partition(b"\t")[0].split()
        # ls-files: tag mode sha stage; ls-tree: mode type sha
        mode, sha = (fields[1], fields[2]) if len(fields) == 4 else (fields[0], fields[2])
        return mode.decode(), sha.decode()

    @cached_property
    def _matches_work_tree(self) -> bool:
        """Whether the files on disk are the base's, apart from conversion."""
        if not self.is_head or self._dirty:
            return False
        # Tag H is an ordinary entry. S (skip-worktree, sparse checkout) is not on disk, lower case
        # (assume-unchanged) may differ from the base without git looking.
        listing = self._listing
        return not listing or (listing[:2] == b"H " and listing.count(b"\0H ") == listing.count(b"\0") - 1)

    @cached_property
    def _converted(self) -> list[bytes]:
        """The files that a filter or an encoding makes differ on disk from their blobs.

        git answers for all places that hold attributes (any .gitattributes, info/attributes, the user's own).
        Line endings do not matter: no word holds one.
        """
        pathspec = self._pathspec or [b":(top)"]
        unspecified = ":(top,exclude,attr:!filter !working-tree-encoding)"
        return gitio.read(["ls-files", "-z", "--", *pathspec, unspecified], self.root).split(b"\0")[:-1]

    def _other_suffixes(self, suffixes: Collection[str] | None) -> list[bytes]:
        """Return what keeps git from reading files that are not wanted: a lock file is as big as all scripts."""
        found = self._suffixes if suffixes is not None else ()
        return [b":(top,exclude)*" + suffix for suffix in found if not wanted(b"x" + suffix, suffixes)]

    @cached_property
    def _suffixes(self) -> list[bytes]:
        return sorted(set(_SUFFIX.findall(self._listing)))


def _holds(lowered: bytes, words: Iterable[bytes]) -> bool:
    return any(word in lowered for word in words)


def _path(entry: bytes) -> bytes:
    return entry[entry.index(b"\t") + 1 :]


def _mode(entry: bytes) -> str:
    head = entry.split(b" ", 2)
    return (head[1] if len(head[0]) == 1 else head[0]).decode()
