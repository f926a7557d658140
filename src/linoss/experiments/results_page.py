"""Regenerate the page of results:

    python -m linoss.experiments.results_page RESULTS docs/results.md

RESULTS is the directory that experiments wrote into.
"""

import argparse

from linoss.experiments import write_page


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(
        prog="python -m linoss.experiments.results_page",
        description="Write the page of results from result files.",
    )
    parser.add_argument("results", metavar="RESULTS", help="directory of the experiments' results")
    parser.add_argument("page", metavar="PAGE", help="file to write, such as docs/results.md")
    parser.add_argument(
        "--data-dir", metavar="DIR", help="directory of data sets, for published learning curves"
    )
    options = parser.parse_args()
    write_page(options.results, options.page, options.data_dir)


if __name__ == "__main__":
    main()
