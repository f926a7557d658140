"""The page of results, generated from result files, with missing results and their reasons."""

import json
import os
import statistics
from pathlib import Path
from typing import Any

from linoss._files import make_directory, write_text
from linoss._stderr import duration
from linoss.experiments._figures import Figures
from linoss.experiments._protocol import NAMES, Scope
from linoss.experiments._published import read_published
from linoss.experiments._results import MISSING, ExperimentResult, read_results, unique

_HEAD = """# Results

Made from result files by `python -m linoss.experiments.results_page`; no number in a table was
typed.
"""


def write_page(
    results: str | os.PathLike[str],
    page: str | os.PathLike[str],
    data_dir: str | os.PathLike[str] | None = None,
) -> None:
    """Write the page from all result files in a directory, with figures in another directory.

    An optional file `notes.json` there has notes to add: for an experiment (`"uea"`), and for
    missing results (`"uea/Heartbeat/im/variant"`, `"uea/Heartbeat/im"`, `"uea/Heartbeat"`,
    `"*/Heartbeat"` for every experiment, `"uea/*"`). Published learning curves are drawn if the
    directory of data sets (`data_dir` or `LINOSS_DATA`) has them.

    ```python
    >>> import pathlib, tempfile
    >>> from linoss.experiments import reproduce, write_page
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = reproduce("parameters", out=folder + "/runs")
    ...     write_page(folder + "/runs", folder + "/results.md")
    ...     text = pathlib.Path(folder + "/results.md").read_text()
    >>> "## Numbers of parameters" in text, "There is no result of `linoss reproduce ppg`" in text
    (True, True)

    ```
    """
    from linoss.experiments._reproduce import EXPERIMENTS, module_of

    source, page = Path(results), Path(page)
    notes = _read_words(source / "notes.json")
    figures = Figures(page.parent / page.stem, f"{page.stem}/", read_published(data_dir))
    sections = [_HEAD]
    for experiment in EXPERIMENTS:
        module = module_of(experiment)
        found = read_results(source / experiment)
        missing = _read_words(source / experiment / MISSING)
        lines = [f"## {module.TITLE}", ""]
        if experiment in notes:
            lines += [notes[experiment], ""]
        if found:
            lines += [*_provenance(found), "", module.report(found, figures).rstrip(), ""]
        lines += _not_run(experiment, module.SCOPE, found, missing, notes)
        sections.append("\n".join(lines).rstrip() + "\n")
    make_directory(page.parent)
    write_text(page, "\n".join(sections))


def _provenance(results: list[ExperimentResult]) -> list[str]:
    """Commands, seeds and times, with commit and machine."""
    lines = []
    ways = unique(_way(result) for result in results)
    for way in ways:
        chosen = [result for result in results if _way(result) == way]
        command, commit, machine, jax = way
        seeds = sorted({result.seed for result in chosen if result.seed is not None})
        seconds = [result.made["seconds"] for result in chosen]
        facts = [f"{len(chosen)} {'run' if len(chosen) == 1 else 'runs'}"]
        if seeds:
            facts.append(f"{'seed' if len(seeds) == 1 else 'seeds'} {', '.join(map(str, seeds))}")
        if sum(seconds) >= 1:
            each = f", {duration(statistics.fmean(seconds))} each" if len(seconds) > 1 else ""
            facts.append(f"{duration(sum(seconds))} of wall time{each}")
        facts += [f"commit {commit[:10]}" if commit else "of no commit", machine, f"jax {jax}"]
        dates = sorted({result.made["date"][:10] for result in chosen})
        facts.append(" to ".join(unique((dates[0], dates[-1]))))
        lines.append(f"- `{command}`: {'; '.join(facts)}")
    return lines


def _way(result: ExperimentResult) -> tuple[str, str | None, str, str]:
    made = result.made
    return made["command"], made["commit"], made["machine"], made["jax"]


def _not_run(
    experiment: str,
    scope: Scope,
    results: list[ExperimentResult],
    missing: dict[str, str],
    notes: dict[str, str],
) -> list[str]:
    """The missing results, with reasons."""
    there = {(result.data_set, result.model, result.variant) for result in results}
    there |= {(data_set, model, None) for data_set, model, _ in there}
    absent = [cell for cell in scope.cells() if cell not in there]
    reasons: dict[str, dict[str, list[str]]] = {}
    for data_set, model, variant in absent:
        names = (data_set, model, variant or "")
        keys = ["/".join((experiment, *names[:size])) for size in (3, 2, 1)]
        keys += [f"*/{data_set}", f"{experiment}/*"]
        reason = next((notes[key] for key in keys if key in notes), "no reason is given")
        if data_set in missing:
            reason = f"the data set was not at hand; it can be had from {missing[data_set]}"
        whole = (data_set, model, None) not in there
        name = NAMES[model] if whole else f"{NAMES[model]}, {variant}"
        cells = reasons.setdefault(reason, {}).setdefault(data_set, [])
        if name not in cells:
            cells.append(name)
    lines = [] if results else [f"There is no result of `linoss reproduce {experiment}`.", ""]
    if reasons:
        lines += ["Not run:", ""]
    for reason, cells in reasons.items():
        named = "; ".join(f"{data_set} ({', '.join(m)})" for data_set, m in cells.items())
        lines.append(f"- {named}: {reason}")
    return lines


def _read_words(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        words = json.loads(path.read_text())
    except ValueError as error:
        raise ValueError(f"{path}: is not JSON ({error})") from None
    if not isinstance(words, dict) or not all(isinstance(w, str) for w in words.values()):
        raise ValueError(f"{path}: expected an object of strings")
    return words
