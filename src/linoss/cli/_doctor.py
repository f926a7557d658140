"""`linoss doctor`: a description of the install, for troubleshooting and reports."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from linoss.cli._options import Json
from linoss.cli._output import show_json, show_line, show_table

_REQUIRED = ("jax", "jaxlib", "equinox", "optax", "numpy", "scikit-learn")
_OPTIONAL = {
    "aeon": ("data", "UEA files; linoss.aeon"),
    "pandas": ("data", "dates and forecasting tables"),
    "pyarrow": ("data", "reads .parquet"),
    "sktime": ("sktime", "linoss.sktime"),
    "optuna": ("search", "searches settings"),
    "sqlalchemy": ("search", "storage of searches"),
    "psycopg": ("search", "storage in PostgreSQL"),
    "onnx": ("export", "exports to ONNX"),
    "flatbuffers": ("export", "exports to StableHLO"),
    "tensorboardX": ("watch", "writes TensorBoard event files"),
}
_VARIABLES = ("LINOSS_", "JAX_", "XLA_FLAGS")
_SECRET = "LINOSS_STORAGE"  # may hold a password


def doctor(json: Json = False) -> None:
    """Show versions, devices and engines, and why the native kernels were not built.

    Include it in bug reports: it names no files except those in environment variables.
    """
    import jax

    from linoss import __version__, kernels
    from linoss._programs import keep_programs
    from linoss.kernels import OUTSIDE_KERNELS
    from linoss.scan import engines

    versions = {"linoss": __version__, "python": platform.python_version()}
    versions |= {name: _version(name) for name in _REQUIRED}
    optional = {
        name: {"version": _version(name), "extra": extra, "use": use}
        for name, (extra, use) in _OPTIONAL.items()
    }
    has_affinity = hasattr(os, "sched_getaffinity")
    machine: dict[str, Any] = {
        "devices": [f"{device.platform}:{device.id}" for device in jax.devices()],
        "cores": len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count(),
        "engines": list(engines()),
        "instruction_set": kernels.instruction_set(),
        "fast_precisions": kernels.fast_precisions(),
        "compiled_programs": "not kept" if keep_programs() is None else "kept",
    }
    names = sorted(name for name in os.environ if name.startswith(_VARIABLES))
    variables = {name: "(set)" if name == _SECRET else os.environ[name] for name in names}
    if json:
        facts = {"versions": versions, "optional": optional, **machine}
        show_json({**facts, "environment": variables})
        return
    show_table("Versions", ("", ""), versions.items())
    rows = [
        (name, each["version"] or f'pip install ".[{each["extra"]}]"', each["use"])
        for name, each in optional.items()
    ]
    show_table("Optional", ("", "", "what it is for"), rows)
    words = {n: ", ".join(v) if isinstance(v, list) else v for n, v in machine.items()}
    show_table("Machine", ("", ""), [(n.replace("_", " "), v) for n, v in words.items()])
    if variables:
        show_table("Environment", ("", ""), variables.items())
    if machine["instruction_set"] is None:
        show_line(
            "There are no native kernels: no C++ compiler was found when linoss was installed, or "
            "their build failed. pip install -v shows why."
        )
    else:
        slower = (f"{words} ({factor:g} times)" for words, factor in OUTSIDE_KERNELS.items())
        show_line(f"Slower than native blocks: {'; '.join(slower)}.")


def environment() -> dict[str, str]:
    """Versions and the kind of machine, without personal data."""
    import jax

    from linoss import __version__
    from linoss.scan import resolve_engine

    return {
        "linoss": __version__,
        "jax": jax.__version__,
        "python": platform.python_version(),
        "engine": resolve_engine("auto"),
        "device": jax.default_backend(),
        "machine": f"{platform.system()} {platform.machine()}",
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
