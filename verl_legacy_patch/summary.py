"""What a plan says to people: the end summary and the commit message.

Launch scripts repeat the same setting dozens of times. So places are grouped by what is said about them, those in
verl itself come first, and folders beside it are counted after the first few files.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from verl_legacy_patch import __version__
from verl_legacy_patch.checkout.gitio import show
from verl_legacy_patch.plan import Plan
from verl_legacy_patch.report import About
from verl_legacy_patch.rewrite import WHOLE_FILE
from verl_legacy_patch.setting import Site

SUBJECT = "Choose {dtype} and {attn} attention for GPUs without bfloat16"
REVIEW = "Please review, these change behaviour and not only precision"
DECIDE = "Not rewritten, a person has to decide"

_IN_VERL, _BESIDE = 10, 2  # files listed per group: of verl itself, of each folder beside it
_COUNT = re.compile(r" \((\d+) places\)$")
_BACKEND = " cannot run below compute capability 8.0"


def summary(plan: Plan, about: About) -> list[str]:
    """Return the lines of the end summary: what changes, what needs a person, what was left alone and why."""
    verl = f"verl {about.verl_version}" if about.verl_version else "this checkout"
    base = f" ({about.base[:10]})" if about.base else ""
    lines = [show(f"{verl}{base}: {plan.target}"), *(f"Note: {show(note)}." for note in plan.target.notes), ""]
    rewritten = plan.rewritten()
    if rewritten:
        changed = sum(change.status == "modified" for change in plan.changes)
        added = len(plan.changes) - changed
        new = f", and {number(added, 'new file')}" if added else ""
        lines.append(f"{number(len(rewritten), 'place')} in {number(changed, 'file')}{new}{_apart(rewritten)}:")
        lines += [f"  {row}" for row in _by_codemod(plan)]
    else:
        lines.append("Nothing to rewrite: no place is left that verl-patch can change for this GPU.")
    review, decide = _review(plan), _only(plan, "report")
    for title, sites in ((REVIEW, review), (DECIDE, decide)):
        if sites:
            lines += ["", f"{title} ({number(len(sites), 'place')}):"]
            lines += [f"  {row}" for row in _grouped(sites, _IN_VERL, _BESIDE)]
    lines += _left_alone(_only(plan, "keep"))
    if len(review) + len(decide) > _IN_VERL:
        lines += ["", "Every single place, these and those left alone: --dry-run --format json"]
    return lines


def commit_message(plan: Plan, about: About, codemod: str = "") -> str:
    """Return the message of the patch commit: what, why, what to review, and the trailers that find it again.

    ``codemod`` is the one that has a commit of its own; its name tells the subjects of a row of commits apart.
    """
    subject = SUBJECT.format(dtype=plan.target.dtype, attn=plan.target.attn)
    lines = [
        f"{subject}: {codemod}" if codemod else subject,
        "",
        f"Rewritten by verl-patch {__version__} for compute capability {plan.target.capability}:",
        "",
        *(f"  {row}" for row in _by_codemod(plan)),
    ]
    for title, sites in ((REVIEW, _review(plan)), (DECIDE, _only(plan, "report"))):
        if sites:
            lines += ["", f"{title}:", "", *(f"  {row}" for row in _grouped(sites, len(sites), 0))]
    if plan.problems:
        lines += ["", "Skipped, these could not be rewritten:", ""]
        lines += [f"  {show(str(problem))}" for problem in plan.problems]
    lines += [
        "",
        f"Verl-Patch-Version: {__version__}",
        f"Verl-Patch-Target: {plan.target.dtype} {plan.target.attn} {plan.target.capability}",
    ]
    if about.base:
        lines.append(f"Verl-Patch-Base: {about.base}")
    if about.branch:
        lines.append(f"Verl-Patch-From: {about.branch}")
    return "\n".join(lines) + "\n"


def number(count: int, noun: str) -> str:
    """Return ``1 file``, ``2 files``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def places_in(sites: Sequence[Site]) -> str:
    """Return ``3 places in 2 files``."""
    return f"{number(len(sites), 'place')} in {number(len({site.path for site in sites}), 'file')}"


def in_verl(path: str) -> bool:
    """Return whether a file is part of verl itself, which every run uses; scripts and recipes are beside it."""
    return not _folder(path)


def _apart(sites: Sequence[Site]) -> str:
    """Return how many of the places are in verl itself: the others are many, and matter to those who run them."""
    own = sum(in_verl(site.path) for site in sites)
    beside = len(sites) - own
    return f" ({own:,} of the places in verl itself, {beside:,} in scripts and recipes)" if own and beside else ""


def _by_codemod(plan: Plan) -> Iterator[str]:
    sites, files = Counter[str](), {codemod.name: set[str]() for codemod in plan.codemods}
    for site in plan.rewritten():
        sites[site.codemod] += 1
        files[site.codemod].add(site.path)
    width = max((len(name) for name in sites), default=0)
    for codemod in plan.codemods:
        if count := sites[codemod.name]:
            where = number(len(files[codemod.name]), "file")
            yield f"{codemod.name:{width}} {count:4} in {where:9} {codemod.summary_for(plan.target)}"


def _grouped(sites: Iterable[Site], in_verl: int, beside: int) -> Iterator[str]:
    """Yield the places, those that have the same said about them together.

    Args:
        sites: in the order of their paths.
        in_verl: files to list of verl itself, for each group.
        beside: files to list of each folder beside it; the others are counted.
    """
    groups: dict[str, tuple[str, dict[str, list[Site]]]] = {}
    for site in sites:
        said = _said(site)
        group = groups.setdefault(said.lower(), (said, {}))  # True and true are the same
        group[1].setdefault(_folder(site.path), []).append(site)
    # what concerns verl itself concerns every run
    for said, folders in sorted(groups.values(), key=lambda group: "" not in group[1]):
        yield said
        for folder, places in sorted(folders.items()):
            yield from (f"  {row}" for row in _places(folder, places, beside if folder else in_verl))


def _places(folder: str, sites: Sequence[Site], limit: int) -> Iterator[str]:
    files: dict[str, list[int]] = {}
    for site in sites:
        files.setdefault(site.path, []).append(site.line)
    rows = [(path, ",".join(map(str, dict.fromkeys(lines)))) for path, lines in files.items()]
    listed = rows if len(rows) <= limit + 1 else rows[:limit]  # "1 more" takes as much room as that one
    for path, lines in listed:
        yield f"{show(path)}:{lines}"
    if left := len(rows) - len(listed):
        count = sum(len(lines) for lines in list(files.values())[len(listed) :])
        places = number(count, "more place" if listed else "place")
        yield f"{show(folder or 'verl/')}: {places} in {number(left, 'file')}"


def _folder(path: str) -> str:
    """Return an empty string for a file of verl itself, else the folder of launch scripts or the like around it."""
    parts = path.split("/")
    script = path.endswith(".sh")
    if "verl" in parts[:-1] and not script:
        return ""
    depth = min(2 if parts[0] == "verl" else 1, len(parts) - 1)
    return "/".join(parts[:depth]) + "/" if depth else "./"


def _said(site: Site) -> str:
    """Return what is said about a place, without what differs between places of the same kind."""
    reason = re.sub(r"^(follows \S+?):\d+$", r"\1", site.reason)
    if site.action == "rewrite" and not reason:
        before, after = _short(site.before), _short((site.after or "").strip(" ,\n"))
        return f"{site.codemod}: {before} -> {after}" if before else f"{site.codemod}: adds {after}"
    return f"{site.codemod}: {show(reason) or _short(site.before)}"


def _left_alone(sites: Sequence[Site]) -> Iterator[str]:
    """Yield what was looked at and stays, by reason, and the files that nobody looked into."""
    counts, files = Counter[str](), dict[str, set[str]]()
    for site in sites:
        if site.codemod != WHOLE_FILE:
            reason, count = kind_of(site)
            counts[reason] += count
            files.setdefault(reason, set()).add(site.path)
    unread = Counter(site.reason for site in sites if site.codemod == WHOLE_FILE)
    if counts:
        yield from ("", f"Left alone ({number(sum(counts.values()), 'place')}):")
        for reasons, row in _counted(counts):
            yield f"{row} ({number(len(set().union(*(files[reason] for reason in reasons))), 'file')})"
    if unread:
        yield from ("", f"Not looked into ({number(sum(unread.values()), 'file')} with words that count elsewhere):")
        yield from (row for _, row in _counted(unread))


def _counted(reasons: Counter[str]) -> Iterator[tuple[list[str], str]]:
    """Yield reasons with a row for them, the most frequent first; the backends share a row."""
    backends = [reason for reason, _ in reasons.most_common() if reason.endswith(_BACKEND)]
    together = Counter(reasons)
    if backends:
        together[backends[0]] = sum(together.pop(reason) for reason in backends)
    width = len(f"{max(together.values()):,}")
    names = ", ".join(name.removesuffix(_BACKEND) for name in backends)
    for reason, count in together.most_common():
        text = f"what{_BACKEND}: {names}" if reason in backends else reason
        yield backends if reason in backends else [reason], f"  {count:{width},}  {show(text)}"


def kind_of(site: Site) -> tuple[str, int]:
    """Return a kept site's reason without the name it is about, so that equal ones add up, and its places."""
    match = _COUNT.search(site.reason)
    text = site.reason[: match.start()] if match else site.reason
    return _kind(text), int(match[1]) if match else 1


def _kind(text: str) -> str:
    if text.startswith("follows ") and text.endswith(", which stays"):
        return "follows a file that stays"
    return "a key that is no dtype key" if text.endswith("is no dtype key") else text


def _review(plan: Plan) -> list[Site]:
    return [site for site in plan.rewritten() if site.grade == "review"]


def _only(plan: Plan, action: str) -> list[Site]:
    return [site for site in plan.sites if site.action == action]


def _short(text: str) -> str:
    line = show(" ".join(text.split()))
    return line if len(line) <= 60 else line[:57] + "..."
