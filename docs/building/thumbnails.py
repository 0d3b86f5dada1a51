"""Small pictures of the gallery's reports, each the first figure of its answer, from kept rows.

python docs/building/thumbnails.py                # all of them, into docs/pages/thumbnails
"""

import io
from pathlib import Path

from gallery import GALLERY, REFERENCE
from PIL import Image

from latecomer.eval.results.rows import load_run
from latecomer.reports.display.pictures import Plot
from latecomer.reports.display.section import Material
from latecomer.reports.page.layout import sections
from latecomer.reports.page.page import under_shown_names
from latecomer.reports.page.questions import answers

FOLDER = Path(__file__).resolve().parents[1] / "pages" / "thumbnails"
WIDTH, HEIGHT = 320, 240
"""Pixels; a figure that is higher is cut below."""
_COLOURS, _INCHES = 32, 7.2


def thumbnail(name: str) -> bytes:
    """Draw the first figure of a kept run's answers as a small PNG."""
    run = under_shown_names(load_run(REFERENCE / name))
    plot = _first(Material.of(run))
    drawn = io.BytesIO()
    plot.draw(width=_INCHES).savefig(drawn, format="png", dpi=2 * WIDTH / _INCHES, facecolor="w")
    picture = Image.open(drawn).convert("RGB")
    small = picture.resize(
        (WIDTH, picture.height * WIDTH // picture.width), Image.Resampling.LANCZOS
    )
    kept = io.BytesIO()
    cut = small.crop((0, 0, WIDTH, min(HEIGHT, small.height)))
    cut.quantize(_COLOURS, Image.Quantize.FASTOCTREE).save(kept, format="png", optimize=True)
    return kept.getvalue()


def _first(material: Material) -> Plot:
    """Return the first figure of the answers, or else of the page beside published numbers."""
    drawn = [plot for answer in answers(material) for plot in answer.figures]
    shown = sections()["paper"].blocks(material) if not drawn else ()
    return next(iter([*drawn, *(block for block in shown if isinstance(block, Plot))]))


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for kept_run in GALLERY:
        (FOLDER / f"{kept_run}.png").write_bytes(thumbnail(kept_run))
