"""The order of the rooms, their doors, and who may print: read from the syntax trees."""

import ast
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "linoss"
ROOMS = (
    "dynamics", "kernels", "scan", "nn", "data", "training", "features", "fitted", "estimators",
    "forecasting", "search", "planning", "export", "aeon", "sktime", "cli",
)  # fmt: skip
"""A room uses only rooms before it, `data` none. The modules beside the rooms use no room."""
WRITERS = {
    "cli": "prints for people",
    "_stderr": "shows progress and messages of all other rooms, in Python as on the command line",
}
MODULES = {
    path.relative_to(SOURCE).with_suffix("").as_posix(): ast.parse(path.read_text(), str(path))
    for path in sorted(SOURCE.rglob("*.py"))
}
BESIDE = {module for module in MODULES if "/" not in module}


def room_of(module):
    return None if module in BESIDE else module.split("/")[0]


def imports(module):
    """(where, full name) of all that a module imports, at whatever depth."""
    for node in ast.walk(MODULES[module]):
        if isinstance(node, ast.Import):
            names = [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{'.' * node.level}{node.module}.{name.name}" for name in node.names]
        else:
            continue
        yield from ((f"{module}.py:{node.lineno}: {name}", name) for name in names)


def imports_of_the_package():
    """(where, module, names below `linoss`) of all imports within the package."""
    for module in MODULES:
        for where, name in imports(module):
            first, *names = name.split(".")
            if first in ("linoss", ""):
                yield where, module, names


def test_every_folder_is_a_room():
    assert {room_of(module) for module in MODULES} <= {None, *ROOMS}


def test_rooms_use_only_those_before_them():
    wrong = []
    for where, module, names in imports_of_the_package():
        room = room_of(module)
        allowed = () if room in (None, "data") else ROOMS[: ROOMS.index(room)]
        if names and names[0] in ROOMS and names[0] not in (room, *allowed):
            wrong.append(where)
    assert not [where for where in wrong if not where.startswith(("__init__", "__main__"))]


def test_rooms_import_no_name_of_the_package_but_its_version():
    """`linoss` itself is for users: rooms import rooms and the modules beside them."""
    known = {*ROOMS, *BESIDE, "__version__"}
    assert not [
        where for where, _, names in imports_of_the_package() if not names or names[0] not in known
    ]


def test_rooms_are_entered_by_their_doors():
    assert not [
        where
        for where, module, names in imports_of_the_package()
        if names[:1] != [room_of(module)]
        and any(name.startswith("_") for name in names[1:])
        and names[0] in ROOMS
    ]


def test_sizes():
    """The limits of docs/architecture.md."""
    pairs = {
        (room_of(module), names[0])
        for _, module, names in imports_of_the_package()
        if room_of(module) is not None and names[0] in ROOMS and names[0] != room_of(module)
    }
    functions = [
        node
        for tree in MODULES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    ]
    derivatives = [
        f for f in functions if "custom_vjp" in "".join(map(ast.unparse, f.decorator_list))
    ]
    assert len(pairs) <= 50
    assert len(derivatives) == 6
    assert max(f.end_lineno - f.lineno + 1 for f in functions) <= 120
    assert max(len(path.read_text().splitlines()) for path in SOURCE.rglob("*.py")) <= 600


def writes(module):
    """Lines that write on stdout or stderr, or import what does."""
    for node in ast.walk(MODULES[module]):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called in ("print", "sys.stdout.write", "sys.stderr.write"):
                yield f"{module}.py:{node.lineno}: {called}"
    yield from (w for w, name in imports(module) if name.split(".")[0] in ("rich", "typer"))


def test_only_the_command_line_prints():
    found = {module: list(writes(module)) for module in MODULES}
    needed = {place for place in WRITERS for m in MODULES if found[m] and place in (m, room_of(m))}
    assert needed == set(WRITERS)
    others = [m for m in MODULES if not {m, room_of(m)} & set(WRITERS)]
    assert not [line for module in others for line in found[module]]


def test_the_papers_experiments_use_the_doors_of_the_library():
    folder = SOURCE.parent.parent / "paper"
    names = [
        f"{path.name}: {node.module}.{name.name}"
        for path in sorted(folder.glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("linoss")
        for name in node.names
    ]
    assert names
    assert not [name for name in names if "._" in name.replace("__version__", "")]


def test_no_private_module_of_jax():
    private = ("jax._", "jaxlib")
    assert not [m for m in MODULES for _, name in imports(m) if name.startswith(private)]
