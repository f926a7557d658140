"""The locations of data sets, and the error for a missing one."""

import os
from pathlib import Path

from linoss.data import DataError
from linoss.experiments import _paper

VARIABLE = "LINOSS_DATA"
TRAINING, VALIDATION, TEST = PARTS = ("training", "validation", "test")
"""Parts of a pre-split data set: files such as `NAME-anything/SEED/training.npz`."""
_ARCHIVE = "https://www.timeseriesclassification.com/description.php?Dataset={}"
SOURCES = {
    **{name: _ARCHIVE.format(name) for name in _paper.UEA},
    "PPG": "https://archive.ics.uci.edu/dataset/495/ppg+dalia",
    "Weather": "https://github.com/zhouhaoyi/Informer2020 (WTH.csv of its data)",
}
"""The source of each data set."""


class MissingData(DataError):
    """A data set is missing."""

    def __init__(self, data_set: str, expected: Path):
        self.data_set, self.source = data_set, SOURCES[data_set]
        super().__init__(
            f"the data set {data_set} is missing: get it from {self.source} and put it at "
            f"{expected}"
        )


def data_directory(given: str | os.PathLike[str] | None) -> Path:
    """The directory of data sets: as given, or from the environment variable."""
    chosen = given or os.environ.get(VARIABLE)
    if not chosen:
        raise DataError(
            f"no directory of data sets is given: pass --data-dir DIRECTORY, or set {VARIABLE}"
        )
    return Path(chosen)


def find(data_set: str, data_dir: Path) -> Path:
    """The directory (UEA, PPG) or file (Weather) of a data set. Raises [`MissingData`][].

    A set of the UEA archive may be pre-split into the parts of each seed.
    """
    if data_set == "Weather":
        place = data_dir / "WTH" / "WTH.csv"
        if not place.exists():
            raise MissingData(data_set, place)
        return place
    if data_set == "PPG":
        place = data_dir / "PPG_FieldStudy"
        subjects = [f"S{number}" for number in range(1, _paper.SUBJECTS + 1)]
        missing = [name for name in subjects if not (place / name / f"{name}.pkl").exists()]
        if missing:
            others = f" (likewise {', '.join(missing[1:])})" if missing[1:] else ""
            raise MissingData(data_set, place / missing[0] / f"{missing[0]}.pkl{others}")
        return place
    place = data_dir / data_set
    for suffix in (".ts", ".arff", ".npz"):
        if all((place / f"{data_set}_{part}{suffix}").exists() for part in ("TRAIN", "TEST")):
            return place
    divided = sorted(data_dir.glob(f"{data_set}-*/*/{TEST}.npz"))
    if divided:
        return divided[0].parents[1]
    raise MissingData(data_set, place / f"{data_set}_{{TRAIN,TEST}}.ts (or .arff)")
