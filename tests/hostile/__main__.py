"""Look for what breaks, for as long as asked: python tests/hostile KIND --seconds 3600."""

import argparse
import importlib
import os
import secrets
import sys

KINDS = ("files", "runs", "runs-signed", "kernels", "kill-one", "kill-auto", "kill-search")

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python tests/hostile", description=__doc__)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--cases", type=int, help="how many; by default without end")
    parser.add_argument("--seconds", type=float, help="how long; by default without end")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**32))
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--every", type=int, default=1, help="only every so many-th case")
    given = parser.parse_args()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    module, _, which = given.kind.partition("-")
    module = importlib.import_module("kills" if module == "kill" else module)
    driver = getattr(module, which or "driver")
    from drivers import run

    print(f"seed {given.seed}", flush=True)
    findings = run(
        driver,
        given.kind,
        seed=given.seed,
        first=given.first,
        every=given.every,
        cases=given.cases,
        seconds=given.seconds,
        say=lambda line: print(line, flush=True),
    )
    sys.exit(1 if findings else 0)
