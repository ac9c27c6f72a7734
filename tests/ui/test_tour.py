"""The tour of the documents stays true: a reader who does what it says gets where it says."""

import re
from pathlib import Path

from playwright.sync_api import Browser

from tests.ui.tour import DOCUMENT, PICTURES, fresh, tour

BYTES_MAX = 60_000
PICTURES_MAX = 8
_PICTURE = re.compile(r"!\[[^]]+\]\(page/([\w-]+)\.png\)")
# Buttons, fields and tabs stand in the text as *Name*.
_NAME = re.compile(r"\*([A-Z][^*]+)\*")


def test_each_step_of_the_tour_works_and_its_words_are_on_the_page(
    browser: Browser, tmp_path: Path
) -> None:
    text = DOCUMENT.read_text(encoding="utf-8").replace("\n", " ")
    taken: list[str] = []
    seen: list[str] = []
    with fresh(browser, tmp_path / "store") as (shown, _):

        def on_click(words: str) -> None:
            seen.append(words)

        shown.page.expose_function("__see", on_click)
        shown.page.add_init_script(
            """addEventListener("pointerdown", () => __see(document.body.innerText +
                 [...document.querySelectorAll("[aria-label], textarea")].map(
                   (each) => each.ariaLabel ?? each.value).join("\\n")), true)"""
        )
        tour(shown, taken.append)
    assert taken == _PICTURE.findall(text)
    shown_words = "\n".join(seen)
    named = {name for name in _NAME.findall(text)}
    assert named
    assert not {name for name in named if name not in shown_words}


def test_the_pictures_are_few_and_small() -> None:
    sizes = {picture.name: picture.stat().st_size for picture in PICTURES.glob("*.png")}
    assert 0 < len(sizes) <= PICTURES_MAX
    assert max(sizes.values()) <= BYTES_MAX, sizes
