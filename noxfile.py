"""The daily tests on every supported Python and JAX: `nox`; `nox -l` lists them."""

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
