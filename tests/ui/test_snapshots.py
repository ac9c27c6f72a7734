"""Twelve pages look as they did: in light and dark, of one lake, at one time.

Glyphs differ between browsers and fonts.  So the pictures count where the engine is the one that
made them (`engine.txt`); elsewhere the test prints how far they differ.  After a change of the
looks, or with another Chromium:

    .venv/bin/python -m tests.ui.test_snapshots     # then look at the pictures
"""

import argparse
import base64
import hashlib
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser, Page

from tests.ui import pictures
from tests.ui.pictures import PICTURES
from tests.ui.png import packed
from tests.ui.scene import launched

FOLDER: Final = Path(__file__).parent / "snapshots"
ENGINE: Final = FOLDER / "engine.txt"
SHARE_MAX: Final = 0.003  # of the pixels
BYTES_MAX: Final = 400_000  # of all pictures together
_PROBE: Final = "<p style='font:14px sans-serif'>Hamburgefonstiv 0123</p><code>Wig lakefs://</code>"
_CANVAS: Final = """
const drawn = async (base64, width) => {
  const answer = await fetch("data:image/png;base64," + base64);
  const image = await createImageBitmap(await answer.blob());
  const height = Math.round((image.height * width) / image.width);
  const canvas = new OffscreenCanvas(width, height);
  const pen = canvas.getContext("2d", { alpha: false, willReadFrequently: true });
  pen.imageSmoothingQuality = "high";
  pen.drawImage(image, 0, 0, width, height);
  const pixels = pen.getImageData(0, 0, width, height);
  pixels.data.forEach((each, at) => { pixels.data[at] = at % 4 === 3 ? each : each & 0xf0; });
  pen.putImageData(pixels, 0, 0);
  return [canvas, pixels.data];
};
"""
# Two fifths of the size: where everything is, and its colours; not each edge of a letter.
_SHRUNK: Final = f"""async (png) => {{ {_CANVAS}
  const [{{ width, height }}, data] = await drawn(png, 480);
  const colours = data.filter((_, at) => at % 4 !== 3);
  return [width, height, btoa(Array.from(colours, (each) => String.fromCharCode(each)).join(""))];
}}"""
_DIFFERENT: Final = f"""async ([one, other]) => {{ {_CANVAS}
  const [[, left], [, right]] = [await drawn(one, 480), await drawn(other, 480)];
  if (left.length !== right.length) return 1;
  let count = 0;
  for (let at = 0; at < left.length; at += 4)
    if ([0, 1, 2].some((add) => Math.abs(left[at + add] - right[at + add]) > 32)) count += 1;
  return count / (left.length / 4);
}}"""


def test_twelve_pages_look_as_they_did(browser: Browser) -> None:
    page = browser.new_page()
    try:
        shares: dict[str, float] = {}
        for name, picture in _taken(browser, page):
            kept = base64.b64encode((FOLDER / f"{name}.png").read_bytes()).decode()
            shares[name] = page.evaluate(_DIFFERENT, [picture, kept])
        engine = _engine(browser, page)
    finally:
        page.close()
    changed = {name: f"{share:.2%}" for name, share in shares.items() if share > SHARE_MAX}
    if engine != ENGINE.read_text(encoding="utf-8"):
        pytest.skip(f"the pictures were made by another engine than {engine!r}; changed: {changed}")
    update = "if that is right: .venv/bin/python -m tests.ui.test_snapshots"
    assert not changed, f"{changed}; {update}"


def test_the_snapshots_are_all_there_and_small() -> None:
    names = {f"{each.name}-{scheme}.png" for each in PICTURES for scheme in ("light", "dark")}
    sizes = {each.name: each.stat().st_size for each in FOLDER.glob("*.png")}
    assert set(sizes) == names and len(names) == 24
    assert sum(sizes.values()) <= BYTES_MAX


def _taken(browser: Browser, canvas: Page) -> Iterator[tuple[str, str]]:
    """The name of each picture, and itself, in the size in which they are kept."""
    with pictures.lake() as (client, known), pictures.shown(browser, client, known) as scene:
        for each in PICTURES:
            for scheme, image in pictures.taken(scene, each, known):
                whole = base64.b64encode(image).decode()
                width, height, pixels = canvas.evaluate(_SHRUNK, whole)
                small = packed(width, height, base64.b64decode(pixels))
                yield f"{each.name}-{scheme}", base64.b64encode(small).decode()


def _engine(browser: Browser, page: Page) -> str:
    """What draws: the browser, the machine, and how a line of text looks in its fonts."""
    page.set_content(_PROBE)
    fonts = hashlib.sha256(page.screenshot()).hexdigest()[:16]
    return f"Chromium {browser.version}, {platform.system()} {platform.machine()}, fonts {fonts}\n"


def main() -> None:
    """Make the pictures anew."""
    argparse.ArgumentParser(description="Makes the pictures of the pages anew.").parse_args()
    FOLDER.mkdir(exist_ok=True)
    with launched() as browser:
        page = browser.new_page()
        for name, picture in _taken(browser, page):
            (FOLDER / f"{name}.png").write_bytes(base64.b64decode(picture))
        ENGINE.write_text(_engine(browser, page), encoding="utf-8")


if __name__ == "__main__":
    main()
