"""The review page: self-contained, complete, and alive in a real browser."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from scripts.chromium import Chromium, find
from verl_legacy_patch.checkout import open_checkout
from verl_legacy_patch.codemod import discover
from verl_legacy_patch.html import render
from verl_legacy_patch.plan import Plan, Problem, make_plan
from verl_legacy_patch.report import About
from verl_legacy_patch.setting import splice
from verl_legacy_patch.summary import summary
from verl_legacy_patch.target import Target

ROOT = Path(__file__).resolve().parent.parent
DRIVER = ROOT / "tests" / "data" / "drive_page.js"


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
    hunks = page.count('<article class="hunk"')
    assert f"{places} places in {files} files and {new} new files change, shown as {hunks} changes" in text
    shown_as = (("Please review", "{} of them change"), ("Not rewritten", "{} other places are not rewritten"))
    for title, shown in shown_as:
        count = re.search(rf"{title}.*\((\d+) places\)", said)[1]  # type: ignore[index]
        assert shown.format(count) in text
    review = [site for site in plan.rewritten() if site.grade == "review"]
    own = sum(site.path.startswith("verl/") for site in review)
    assert 0 < own < len(review) and f"{own} in verl itself, the others in scripts and recipes" in text
    kept, unread = (re.search(rf"{title} \((\d+) ", said)[1] for title in ("Left alone", "Not looked into"))  # type: ignore[index]
    assert f"{kept} stay, with the reason; {unread} files not looked into" in text


def test_a_tick_belongs_to_what_was_seen(plan: Plan, page: str) -> None:
    """A change that is another one in the next run has another name; all the others keep theirs."""
    names = re.findall(r'data-id="(\w+)"', page)
    assert len(set(names)) == len(names)
    first = next(change for change in plan.changes if change.before)
    edits = tuple(edit._replace(replacement="float64") for edit in first.edits)
    other = first._replace(edits=edits, after=splice(first.before or b"", edits))
    changes = [other if change is first else change for change in plan.changes]
    again = re.findall(r'data-id="(\w+)"', render(replace(plan, changes=changes), About("sample", "0.0", None)))
    gone = set(names) - set(again)
    assert 0 < len(gone) < 5
    assert len(again) == len(names)


def test_skipped_files_and_notes_are_said(plan: Plan) -> None:
    target = plan.target._replace(notes=("float16 is slow here",))
    text = render(replace(plan, target=target, problems=[Problem("verl/x.py", 3, "broken <")]), About("s", None, None))
    assert "Note: float16 is slow here." in text
    assert "<code>verl/x.py:3: broken &lt;</code>" in text


def test_a_plan_without_changes_is_a_page_too(plan: Plan) -> None:
    text = Page(render(Plan(plan.target, []), About("s", None, None))).text
    assert "0 places in 0 files" in " ".join(text.split())


# --- in a real browser


@pytest.fixture(scope="module")
def chromium() -> Iterator[Chromium]:
    browser = find()
    assert browser, "no Chromium: install it (apt-get install chromium) or name it in CHROMIUM"
    with Chromium(browser) as started:
        yield started


def many(plan: Plan) -> Plan:
    """Return a plan as long as that of a real release."""
    changes = [change._replace(path=f"part{n}/{change.path}") for n in range(6) for change in plan.changes]
    sites = [site._replace(path=f"part{n}/{site.path}") for n in range(6) for site in plan.sites]
    return replace(plan, changes=changes, sites=sites)


@pytest.mark.browser
@pytest.mark.e2e  # like those it needs more than Python and PyPI
def test_keys_filters_and_ticks(chromium: Chromium, page: str, tmp_path: Path) -> None:
    file = tmp_path / "review.html"
    file.write_text(page, "utf-8")
    chromium.open(file.as_uri(), 1200, 900)
    driven = chromium.run(DRIVER.read_text("utf-8"))
    chromium.run("localStorage.clear()")
    assert driven["errors"] == []
    assert all(driven["checks"].values()), driven["checks"]


@pytest.mark.browser
@pytest.mark.e2e
@pytest.mark.parametrize("width", [390, 820, 1440])
def test_nothing_is_wider_than_the_screen(chromium: Chromium, plan: Plan, width: int, tmp_path: Path) -> None:
    long = plan.sites[0]._replace(action="report", after=None, reason="set " + "a_long.key_of.hydra" * 20)
    file = tmp_path / "review.html"
    file.write_text(render(replace(plan, sites=[*plan.sites, long]), About("s", "0.0", "0" * 40)), "utf-8")
    for dark in (False, True):
        chromium.open(file.as_uri(), width, 900, dark=dark)
        assert chromium.run("document.documentElement.classList.contains('dark')") is dark
        chromium.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        assert chromium.run("innerWidth") == width  # a phone makes room for what is too wide
        assert chromium.run("document.documentElement.scrollWidth") == width


@pytest.mark.browser
@pytest.mark.e2e
def test_a_long_page_is_there_within_a_second(chromium: Chromium, plan: Plan, tmp_path: Path) -> None:
    file = tmp_path / "review.html"
    file.write_text(render(many(plan), About("s", "0.0", "0" * 40)), "utf-8")
    assert min(chromium.open(file.as_uri(), 1440, 900) for _ in range(3)) < 1
    assert chromium.run("document.querySelectorAll('.hunk').length") > 150
    split = "(() => { const at = performance.now(); document.getElementById('split').click();"
    assert chromium.run(split + " document.body.offsetHeight; return performance.now() - at; })()") < 1000


@pytest.mark.browser
@pytest.mark.e2e
def test_the_pictures_script_takes_pictures(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from scripts import review_page

    browser = find()
    assert browser
    monkeypatch.setattr(review_page, "DOCS", tmp_path)
    monkeypatch.setattr(review_page, "ROOT", tmp_path)
    review_page.take(page, browser)
    made = sorted(tmp_path.glob("*.png"))
    assert [file.name for file in made] == sorted(file.name for file in (ROOT / "docs").glob("review-*.png"))
    for file in made:
        assert file.stat().st_size < 60_000
        assert file.read_bytes()[16:26] == (ROOT / "docs" / file.name).read_bytes()[16:26]
