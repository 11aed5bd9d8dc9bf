"""The pictures of the review page in the README, taken from the demo's checkout with headless Chromium.

    python scripts/review_page.py            take them (CHROMIUM names the browser, if it is not on the PATH)
    python scripts/review_page.py --check    say whether the page has changed since, and exit with 1

Fonts differ from one machine to the next, and so do pictures. What is compared is the page: its style, its script,
and the text that it shows.
"""

from __future__ import annotations

import re
import sys
import tempfile
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(ROOT), str(HERE)]  # the latter is missing under PYTHONSAFEPATH

from chromium import Chromium, find  # noqa: E402

if TYPE_CHECKING:
    from PIL import Image

DOCS = ROOT / "docs"
#: What the page was when the pictures were taken.
SEAL = DOCS / "review.sha256"
MADE_WITH = ("page.css", "page.html.j2", "page.js")


class Picture(NamedTuple):
    """What is shown: a name, the size of the screen, and a script that brings the page to the place."""

    name: str
    width: int
    height: int
    script: str


PICTURES = (
    Picture("review-desktop", 1200, 800, "document.querySelector('.counts a[data-grade=review]').click()"),
    Picture("review-phone", 390, 800, "scrollTo(0, 0)"),
)


def page() -> str:
    """Return the review page of the demo's checkout."""
    from verl_legacy_patch.checkout import open_checkout, verl_version
    from verl_legacy_patch.codemod import discover
    from verl_legacy_patch.html import render
    from verl_legacy_patch.miniature import make_repository, own_git
    from verl_legacy_patch.plan import make_plan
    from verl_legacy_patch.report import About
    from verl_legacy_patch.target import Target

    with tempfile.TemporaryDirectory() as folder, own_git(Path(folder)):
        root = Path(folder, "verl")
        base = make_repository(root)
        checkout = open_checkout(root)
        plan = make_plan(checkout, list(discover().values()), Target())
        return render(plan, About("~/verl", verl_version(checkout), base))


def seal(text: str) -> str:
    """Return a name for the page: for what it is made with, and for the text that it shows.

    Folded explanations are left out, and so are the version and the markup, which follows Pygments.
    """
    from verl_legacy_patch import __version__

    parts = [(ROOT / "verl_legacy_patch/html" / name).read_text(encoding="utf-8") for name in MADE_WITH]
    body = text.partition("<body")[2].partition("<script>")[0].replace(f"verl-patch {__version__}", "")
    body = re.sub(r'<div class="doc">.*?</div>', "", body, flags=re.DOTALL)
    parts.append(" ".join(re.sub(r"<[^>]*>", " ", body).split()))
    return sha256("\0".join(parts).encode()).hexdigest()


def main(arguments: list[str]) -> int:
    """Take the pictures or check them; return the exit code."""
    check = arguments == ["--check"]
    if arguments and not check:
        print(__doc__, file=sys.stderr)
        return 2
    text = page()
    if check:
        if SEAL.read_text(encoding="ascii").strip() == seal(text):
            return 0
        print("the review page has changed since its pictures were taken: run python scripts/review_page.py")
        return 1
    browser = find()
    if browser is None:
        print("no Chromium: install it (apt-get install chromium) or name it in CHROMIUM", file=sys.stderr)
        return 1
    take(text, browser)
    SEAL.write_text(f"{seal(text)}\n", encoding="ascii", newline="\n")
    return 0


def take(text: str, browser: str) -> None:
    """Write every picture, light and dark."""
    with tempfile.TemporaryDirectory() as folder, Chromium(browser) as chromium:
        file = Path(folder, "review.html")
        file.write_text(text, encoding="utf-8", newline="\n")
        for picture in PICTURES:
            for scheme in ("light", "dark"):
                chromium.open(file.as_uri(), picture.width, picture.height, dark=scheme == "dark")
                chromium.run(picture.script)
                chromium.run("new Promise((done) => setTimeout(done, 300))")
                target = DOCS / f"{picture.name}-{scheme}.png"
                small(chromium.picture()).save(target, optimize=True)
                print(f"{target.relative_to(ROOT)}: {target.stat().st_size // 1024} KiB")


def small(png: bytes) -> Image.Image:
    """Return a picture with a palette instead of true colours, which a page has few of."""
    from PIL import Image

    return Image.open(BytesIO(png)).convert("RGB").quantize(128, dither=Image.Dither.NONE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
