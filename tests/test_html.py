"""The review page: self-contained, complete, and alive in a real browser."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from verl_legacy_patch.checkout import open_checkout
from verl_legacy_patch.codemod import discover
from verl_legacy_patch.html import render
from verl_legacy_patch.miniature import sample
from verl_legacy_patch.plan import Plan, Problem, make_plan
from verl_legacy_patch.report import About
from verl_legacy_patch.setting import splice
from verl_legacy_patch.summary import summary
from verl_legacy_patch.target import Target

DRIVER = Path(__file__).parent / "data" / "drive_page.js"


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    root = tmp_path_factory.mktemp("sample")
    for path, content in sample():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    return make_plan(open_checkout(root), list(discover().values()), Target())


@pytest.fixture(scope="module")
def page(plan: Plan) -> str:
    return render(plan, About("sample", "0.0", None))


class Page(HTMLParser):
    """Collects what the tests ask about."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: list[str] = []
        self.controls: list[dict[str, str | None]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.links += [value for name in ("src", "href", "action") if (value := values.get(name))]
        if values.get("id"):
            self.ids.append(str(values["id"]))
        if tag in ("input", "select", "button"):
            self.controls.append({"tag": tag, "in": " ".join(self.open), **values})
        if tag not in ("input", "meta", "br", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        self.text += data


def test_nothing_is_loaded_from_elsewhere(page: str) -> None:
    assert all(link.startswith("#") for link in Page(page).links)
    assert not re.search(r"url\(|@import|fetch\(|XMLHttpRequest|https?://(?!www\.w3\.org)", page.split("<main")[0])


def test_every_place_is_there(plan: Plan, page: str) -> None:
    text = Page(page).text
    for site in plan.sites:
        assert site.path in text
        if site.action != "rewrite":
            assert " ".join(site.reason.split()) in " ".join(text.split())
    assert page.count('<article class="hunk"') >= len(plan.changes)
    for change in plan.changes:
        assert f'data-path="{html.escape(change.path)}"' in page


def test_the_changed_part_of_each_line_is_marked(page: str) -> None:
    marked = [re.sub(r"<[^>]+>", "", inner) for inner in re.findall(r"<mark>(.*?)</mark>", page)]
    assert {"bfloat16", "torch.bfloat16", "flash_attention_2", "eager"} <= set(marked)
    assert all("\n" not in text for text in marked)


def test_controls_have_labels_and_ids_are_unique(page: str) -> None:
    parsed = Page(page)
    assert len(parsed.ids) == len(set(parsed.ids))
    for control in parsed.controls:
        named = "label" in str(control["in"]) or control.get("aria-label") or control["tag"] == "button"
        assert named, control


def test_code_of_the_checkout_is_text_and_nothing_else(tmp_path: Path) -> None:
    evil = tmp_path / "verl" / "a.py"
    evil.parent.mkdir()
    (tmp_path / "verl" / "__init__.py").write_text("")
    evil.write_text('dtype = "bfloat16"  # </script><img src=x onerror=alert(1)>&amp;\n')
    plan = make_plan(open_checkout(tmp_path), list(discover().values()), Target())
    text = render(plan, About("<b>", "<i>", None))
    assert "<img" not in text and "</script><img" not in text
    assert "&lt;/script&gt;" in text and "<i>" not in text


def luminance(colour: str) -> float:
    colour = colour if len(colour) == 7 else "#" + "".join(c * 2 for c in colour[1:])
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


TOKENS = ("fg", "soft", "comment", "keyword", "literal", "string", "defined", "key")
TEXT = [
    *((front, back) for front in TOKENS for back in ("bg", "add", "del")),
    *(("fg", "add-mark"), ("fg", "del-mark"), ("fg", "panel"), ("soft", "panel"), ("link", "bg"), ("link", "panel")),
    ("review", "review-bg"),
]


def contrast(page: str, scheme: str, front: str, back: str) -> float:
    block = page[page.index(scheme) :].partition("}")[0]
    colours = dict(re.findall(r"--([\w-]+):\s*(#[0-9a-f]{3,6})", block))
    lighter, darker = sorted((luminance(colours[front]), luminance(colours[back])), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("scheme", [":root {", ":root.dark {"])
def test_contrast_is_enough_to_read(page: str, scheme: str) -> None:
    weak = {pair: ratio for pair in TEXT if (ratio := contrast(page, scheme, *pair)) < 4.5}
    assert not weak
    edges = {pair: ratio for pair in [("edge", "bg"), ("focus", "bg")] if (ratio := contrast(page, scheme, *pair)) < 3}
    assert not edges
    assert set(re.findall(r'<span class="(t[a-z])"', page)) <= set(re.findall(r"\.(t[a-z]) \{", page))


def test_classes_of_tokens_and_of_cells_do_not_meet(page: str) -> None:
    """A string must be copied with the line it stands in: what cannot be selected is numbers and signs alone."""
    tokens = set(re.findall(r'<span class="([^"]+)"', page.partition('<section class="file"')[2]))
    assert not tokens & set(re.findall(r'<td class="([^"]+)"', page))
    unselectable = re.findall(r"([^{}]+)\{[^}]*user-select: none", page.partition("</style>")[0])
    assert [selector.strip() for selector in unselectable] == [".code .at", ".code .sign"]


def test_the_counts_are_those_of_the_summary(plan: Plan, page: str) -> None:
    text = " ".join(Page(page).text.split())
    said = "\n".join(summary(plan, About("sample", "0.0", None)))
    places, files, new = re.search(r"(\d+) places in (\d+) files, and (\d+) new files", said).groups()  # type: ignore[union-attr]
    assert f"{places} places in {files} files and {new} new files change" in text
    for title, shown in (("Please review", "{} of them change"), ("Not rewritten", "{} more are for a person")):
        count = re.search(rf"{title}.*\((\d+) places\)", said)[1]  # type: ignore[index]
        assert shown.format(count) in text
    kept, unread = (re.search(rf"{title} \((\d+) ", said)[1] for title in ("Left alone", "Not looked into"))  # type: ignore[index]
    assert f"{kept} stay, with the reason; {unread} files not looked into" in text


def test_a_tick_belongs_to_what_was_seen(plan: Plan, page: str) -> None:
    """A change that is another one in the next run has another name; all the others keep theirs."""
    names = re.findall(r'data-id="(\w+)"', page)
    assert len(set(names)) == len(names)
    first = next(change for change in plan.changes if change.before)
    edits = tuple(replace(edit, replacement="float64") for edit in first.edits)
    other = first._replace(edits=edits, after=splice(first.before or b"", edits))
    changes = [other if change is first else change for change in plan.changes]
    again = re.findall(r'data-id="(\w+)"', render(replace(plan, changes=changes), About("sample", "0.0", None)))
    gone = set(names) - set(again)
    assert 0 < len(gone) < 5
    assert len(again) == len(names)


def test_skipped_files_and_notes_are_said(plan: Plan) -> None:
    target = replace(plan.target, notes=("float16 is slow here",))
    text = render(replace(plan, target=target, problems=[Problem("verl/x.py", 3, "broken <")]), About("s", None, None))
    assert "Note: float16 is slow here." in text
    assert "<code>verl/x.py:3: broken &lt;</code>" in text


def test_a_plan_without_changes_is_a_page_too(plan: Plan) -> None:
    text = Page(render(Plan(plan.target, []), About("s", None, None))).text
    assert "0 places in 0 files" in " ".join(text.split())


@pytest.mark.browser
@pytest.mark.e2e  # like those it needs more than Python and PyPI
def test_in_a_real_browser(page: str, tmp_path: Path) -> None:
    """Drive the page with its keys and filters in headless Chromium and read what came out."""
    browser = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    assert browser, "no Chromium: install it (apt-get install chromium) or name it in CHROMIUM"
    file = tmp_path / "review.html"
    file.write_text(page.replace("</body>", f"<script>{DRIVER.read_text('utf-8')}</script></body>"), "utf-8")
    quiet = ("no-sandbox", "disable-gpu", "no-first-run", "disable-quic", "disable-background-networking")
    options = ("headless", *quiet, "disable-component-update", "disable-sync", "virtual-time-budget=8000", "dump-dom")
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    command = [browser, *(f"--{option}" for option in options), profile, file.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    found = re.search(r'<pre id="driven">(.*?)</pre>', done.stdout, re.S)
    assert found, done.stderr[-2000:]
    driven = json.loads(html.unescape(found[1]))
    assert driven["errors"] == []
    assert all(driven["checks"].values()), driven["checks"]
