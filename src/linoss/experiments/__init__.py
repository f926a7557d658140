"""The paper's experiments, each by one command, compared with the paper's numbers."""

from linoss.experiments._page import write_page
from linoss.experiments._reproduce import EXPERIMENTS, ChoiceError, reproduce
from linoss.experiments._results import ExperimentResult, read_results

__all__ = [
    "EXPERIMENTS",
    "ChoiceError",
    "ExperimentResult",
    "read_results",
    "reproduce",
    "write_page",
]
