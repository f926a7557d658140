"""Work in two processes that takes a minute: `python interrupted_together.py FOLDER`."""

import functools
import sys
import time
from pathlib import Path

from paper.runs import in_processes


def sleep(item, folder):
    (folder / str(item)).touch()
    time.sleep(10)


if __name__ == "__main__":
    work = functools.partial(sleep, folder=Path(sys.argv[1]))
    list(in_processes(work, range(12), 2))
