"""The paper's experiments, each by one command, with the paper's numbers beside ours."""

from linoss.experiments._page import write_page
from linoss.experiments._reproduce import EXPERIMENTS, command, reproduce

__all__ = ["EXPERIMENTS", "command", "reproduce", "write_page"]
