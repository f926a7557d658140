"""The paper's experiments, each by one command, compared with the paper's numbers."""

from linoss.experiments._page import write_page
from linoss.experiments._protocol import NAMES
from linoss.experiments._reproduce import EXPERIMENTS, ChoiceError, Experiment, reproduce
from linoss.experiments._results import ExperimentResult, read_results

__all__ = [
    "EXPERIMENTS",
    "NAMES",
    "ChoiceError",
    "Experiment",
    "ExperimentResult",
    "read_results",
    "reproduce",
    "write_page",
]
