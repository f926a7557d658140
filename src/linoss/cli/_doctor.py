"""`linoss doctor`: a description of the install, for troubleshooting."""

import os
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from linoss.cli._options import Json
from linoss.cli._output import show_json, show_line, show_table

_REQUIRED = ("jax", "jaxlib", "equinox", "optax", "numpy", "scikit-learn")
_OPTIONAL = {
    "aeon": ("data", "reads .ts and .arff; linoss.aeon"),
    "pandas": ("data", "reads dates and forecasting tables"),
    "pyarrow": ("data", "reads .parquet"),
    "sktime": ("sktime", "linoss.sktime"),
    "optuna": ("search", "searches settings"),
    "sqlalchemy": ("search", "keeps studies"),
    "psycopg": ("search", "stores studies in PostgreSQL"),
    "onnx": ("export", "exports to ONNX"),
    "tensorboardX": ("watch", "writes TensorBoard event files"),
}
_VARIABLES = ("LINOSS_", "JAX_", "XLA_FLAGS")
_SECRET = "LINOSS_STORAGE"  # may hold a password


def doctor(json: Json = False) -> None:
    """Show versions, devices and engines, and why the native kernels were not built.

    Include it in bug reports: it names no files except those in environment variables.
    """
    facts = _examine()
    if json:
        show_json(facts)
        return
    from linoss.kernels import OUTSIDE_KERNELS

    show_table("Versions", ("", ""), facts["versions"].items())
    rows = [(name, *entry.values()) for name, entry in facts["optional"].items()]
    rows = [(name, held or f'pip install ".[{extra}]"', use) for name, held, extra, use in rows]
    show_table("Optional", ("", "", "what it is for"), rows)
    show_table(
        "Machine", ("", ""), [(key.replace("_", " "), _words(facts[key])) for key in _MACHINE]
    )
    if facts["environment"]:
        show_table("Environment", ("", ""), facts["environment"].items())
    if facts["build_failure"] is not None:
        show_line("The native kernels were not built. The last lines of the build:")
        show_line(facts["build_failure"])
    elif facts["instruction_set"] is not None:
        slower = (f"{words} ({factor:g} times)" for words, factor in OUTSIDE_KERNELS.items())
        show_line(f"Slower than native blocks: {'; '.join(slower)}.")
    else:
        show_line("There are no native kernels: linoss was installed without a C++ compiler.")


_MACHINE = ("devices", "cores", "engines", "instruction_set", "compiled_programs")


def _examine() -> dict[str, Any]:
    import platform

    import jax

    from linoss import __version__, kernels
    from linoss._programs import keep_programs
    from linoss.scan import engines

    known = {"linoss": __version__, "python": platform.python_version()}
    return {
        "versions": known | {name: _version(name) for name in _REQUIRED},
        "optional": {
            name: {"version": _version(name), "extra": extra, "use": use}
            for name, (extra, use) in _OPTIONAL.items()
        },
        "devices": [f"{device.platform}:{device.id}" for device in jax.devices()],
        "cores": _cores(),
        "engines": engines(),
        "instruction_set": kernels.instruction_set(),
        "compiled_programs": "not kept" if keep_programs() is None else "kept",
        "build_failure": kernels.build_failure(),
        "environment": {
            name: "(set)" if name == _SECRET else value
            for name, value in sorted(os.environ.items())
            if name.startswith(_VARIABLES)
        },
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cores() -> int:
    """Number of cores available to this process."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _words(value: Any) -> str:
    if value is None:
        return "–"
    return ", ".join(value) if isinstance(value, list | tuple) else str(value)
