"""The pictures of the review page: when they are out of date."""

from __future__ import annotations

import pytest

from scripts import review_page


@pytest.fixture(scope="module")
def page() -> str:
    return review_page.page()


def test_what_a_reader_sees_counts(page: str) -> None:
    sealed = review_page.seal(page)
    assert sealed == review_page.seal(page)
    for old, new in (("float32", "float64"), ("What changes", "What is changed"), ("fsdp_workers.py", "workers.py")):
        assert review_page.seal(page.replace(old, new)) != sealed


def test_what_nobody_sees_does_not(page: str) -> None:
    sealed = review_page.seal(page)
    assert review_page.seal(page.replace(f"verl-patch {review_page_version()}", "verl-patch 99.0")) != sealed
    without_markup = page.replace('<span class="tk">', "<span>")
    assert review_page.seal(without_markup) == sealed
    head, mark, rest = page.partition('<div class="doc">')
    assert review_page.seal(f"{head}{mark}another explanation {rest}") == sealed


def review_page_version() -> str:
    from verl_legacy_patch import __version__

    return __version__


def test_the_style_and_the_script_count(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sealed = review_page.seal(page)
    for name in review_page.MADE_WITH:
        monkeypatch.setattr(review_page, "MADE_WITH", tuple(one for one in review_page.MADE_WITH if one != name))
        assert review_page.seal(page) != sealed
        monkeypatch.undo()
