"""The tables and pictures of docs/results.md, made from recorded results: `python -m paper page`.

A table stands between `<!-- NAME -->` and `<!-- / -->`; what is around them is written by hand.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from paper import efficiency, harmonic_motion, numbers, troika, uea, weather
from paper.numbers import PublishedRun
from paper.runs import Result, read_results
from paper.tables import groups, model_table

_TABLE = re.compile(r"<!-- ([\w-]+) -->\n.*?<!-- / -->", re.DOTALL)
Make = Callable[[Sequence[Result], Path], str]
TABLES: dict[str, tuple[str, Make]] = {
    "accuracy": ("uea", lambda results, pictures: uea.accuracy_table(results)),
    "ppg": (
        "ppg",
        lambda results, _: model_table(results, numbers.PPG_ERROR, scale=100, digits=2),
    ),
    "troika": ("troika", lambda results, pictures: troika.report(results, pictures, ())),
    "weather": ("weather", lambda results, pictures: weather.report(results, pictures, ())),
    "motion": (
        "harmonic-motion",
        lambda results, pictures: harmonic_motion.report(results, pictures, ()),
    ),
    "forms": (
        "parameterization",
        lambda results, _: uea.accuracy_table(results, tuple(uea.FORMS)),
    ),
    "cost": (
        "efficiency",
        lambda results, pictures: efficiency.report(
            [result for result in results if result.model == "im"], pictures, ()
        ),
    ),
}
"""The experiment of each table, and how it is made."""


def rewrite(page: Path, folder: Path, published: Sequence[PublishedRun] = ()) -> None:
    """Replace all tables of a page, with pictures in a directory beside it."""

    def made(name: str) -> str:
        experiment, make = TABLES[name]
        text = make(complete(read_results(folder / experiment)), page.parent / page.stem)
        text = re.sub(r"\]\(([\w-]+\.png)\)", rf"]({page.stem}/\1)", text)
        return f"<!-- {name} -->\n{text.strip()}\n<!-- / -->"

    text = _TABLE.sub(lambda place: made(place[1]), page.read_text(encoding="utf-8"))
    page.write_text(text, encoding="utf-8")


def complete(results: Sequence[Result]) -> list[Result]:
    """The results of cells of which a run ended by the paper's protocol, not by --max-steps;
    untrained ones, and those of experiments whose protocol is not the paper's, are complete."""
    kept = []
    for cell in groups(results, "data_set", "model", "protocol", "variant").values():
        if any(_ended(result) for result in cell):
            kept += cell
    return kept


def _ended(result: Result) -> bool:
    if result.experiment in ("harmonic-motion", "troika") or not result.outcome.get("steps"):
        return True
    return result.outcome["stopped_early"]
