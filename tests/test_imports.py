"""The rooms of the package in their order: imports point from a later room to an earlier one."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import gassip

SOURCE = Path(gassip.__file__).parent
# low to high; of two prefixes that fit a module the longer counts; rooms of one line do not know
# each other. The package itself comes first: it runs before any module and may import none.
ORDER = (
    ("__init__",),
    ("errors", "threads"),
    ("operations", "draw"),
    ("best.rules", "best.edge_ranking"),  # without torch: settings read rules and names of rankings
    ("settings",),
    ("graph",),
    ("large",),
    ("runs.output",),  # files that are written: no numpy, for flags and commands
    ("runs.format",),  # the folder's format without torch, for deploy and for runs
    ("metrics",),
    ("nn",),
    ("train",),
    ("paper",),
    ("best",),
    ("runs",),
    ("deploy",),
    ("large.rows",),  # nets of rows; hops and imports are far below
    ("budget", "report"),
    ("baselines",),
    ("methods",),
    ("bench", "estimator"),
    ("reproduce",),
    ("commands",),
    ("cli",),
    ("__main__", "runtime"),
)
RANK = {room: rank for rank, rooms in enumerate(ORDER) for room in rooms}
# imports inside functions that point up, and why they may
DEFERRED = {
    ("settings.presets", "best.facts"): "a preset reads the graph; settings alone do without torch",
    ("deploy.labelling", "commands.common"): "its own command line, `python -m gassip.runtime`",
    ("deploy.prediction", "commands.common"): "its own command line, `python -m gassip.runtime`",
    ("commands.completion", "cli"): "it completes the parser of the whole command line",
    ("best.edge_ranking", "graph.undirected"): "settings read the names of rankings without torch",
    ("best.edge_ranking", "graph.similarity"): "settings read the names of rankings without torch",
}
WITHOUT_TORCH = (
    "errors",
    "operations",
    "draw.chart",
    "settings",
    "settings.settings",
    "best.rules",
    "best.edge_ranking",
    "graph.files",
    "graph.checks",
    "graph.labels",
    "graph.tables",
    "graph.preparation",
    "graph.store",
    "large.importing",
    "large.block_model",
    "large.hops",
    "runs.format",
    "report.report",
    "report.compare",
    "deploy.runtime",
    "deploy.labelling",
    "deploy.numpy_forward",
    "deploy.by_rows",
    "runtime",
    "methods",
    "reproduce.experiments",
    "cli",
)

Arrow = tuple[str, str]


def name_of(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__") or "__init__"


MODULES = {name_of(path): path for path in SOURCE.rglob("*.py")}


def room(module: str) -> str:
    """The longest prefix of a module that has a place in the order."""
    prefix = module
    while prefix not in RANK:
        assert "." in prefix, f"{module} has no place in ORDER"
        prefix = prefix.rpartition(".")[0]
    return prefix


def typing_only(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and any(
        isinstance(part, ast.Name) and part.id == "TYPE_CHECKING" for part in ast.walk(node.test)
    )


def imports(node: ast.AST, deferred: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    """Those run when a module is imported, or (deferred) only when a function is called."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.Import, ast.ImportFrom)) and not deferred:
            yield child
        elif typing_only(child):
            assert isinstance(child, ast.If)
            yield from imports(ast.Module(child.orelse, []), deferred)
        elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if deferred:
                yield from imports(child, False)
        else:
            yield from imports(child, deferred)


def targets(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """Modules of the package that an import reads, without `gassip.`."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    else:
        assert node.level == 0, "imports are written out"
        names = [f"{node.module}.{alias.name}" for alias in node.names]
    for name in names:
        if name.split(".")[0] == "gassip":
            found = name.partition(".")[2]
            while found and found not in MODULES:
                found = found.rpartition(".")[0]
            yield found or "__init__"


def arrows(*, deferred: bool) -> set[Arrow]:
    found = set()
    for module, path in MODULES.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in imports(tree, deferred):
            found |= {(module, target) for target in targets(node)}
    return found


def upward(found: set[Arrow]) -> set[Arrow]:
    """Arrows to another room that does not come before."""
    rooms = {(a, b): (room(a), room(b)) for a, b in found}
    return {own for own, (a, b) in rooms.items() if a != b and RANK[b] >= RANK[a]}


def test_every_module_has_a_place() -> None:
    assert all(room(module) for module in MODULES)
    used = {room(module) for module in MODULES}
    assert used == set(RANK), "ORDER names a room that there is not"


def test_imports_point_one_way() -> None:
    found = arrows(deferred=False)
    assert len(found) > 400  # or nothing was drawn
    assert upward(found) == set()


def test_the_package_itself_imports_nothing() -> None:
    assert not [own for own in arrows(deferred=False) if own[0] == "__init__"]


def test_no_two_modules_import_each_other() -> None:
    graph: dict[str, set[str]] = {}
    for module, target in arrows(deferred=False):
        graph.setdefault(module, set()).add(target)
    assert len(list(TopologicalSorter(graph).static_order())) > 100


def test_imports_inside_functions_that_point_up_have_a_reason() -> None:
    assert upward(arrows(deferred=True)) == set(DEFERRED)


def test_an_arrow_against_the_order_is_seen() -> None:
    assert upward({("graph.csr", "nn.net"), ("nn.net", "graph.csr")}) == {("graph.csr", "nn.net")}
    assert upward({("graph.files", "runs.format")}) == {("graph.files", "runs.format")}
    assert upward({("settings.best", "best.trials")}) == {("settings.best", "best.trials")}
    assert not upward({("settings.best", "best.rules"), ("nn.net", "nn.propagate")})
    tree = ast.parse(
        "if TYPE_CHECKING:\n import gassip.nn\nelse:\n import gassip.errors\n"
        "try:\n import gassip.metrics\nexcept ImportError:\n pass\n"
        "def f():\n from gassip.nn import net\nclass A:\n import gassip.cli\n"
    )
    found = [[*targets(node)] for node in imports(tree, False)]
    assert found == [["errors"], ["metrics"], ["cli"]]
    assert [[*targets(node)] for node in imports(tree, True)] == [["nn.net"]]


def test_at_most_ten_modules_at_the_top() -> None:
    top = [path.name for path in SOURCE.glob("*.py")]
    assert len(top) <= 10, sorted(top)


@pytest.fixture(scope="module")
def heavy() -> dict[str, str]:
    """What of torch and its friends each module brings along, imported in a process of its own."""
    commands = [module for module in MODULES if room(module) == "commands"]
    code = (
        "import importlib, sys\n"
        "for name in sys.argv[1:]:\n"
        "    importlib.import_module('gassip.' + name)\n"
        "    there = {'torch', 'torch_geometric', 'sklearn', 'matplotlib'} & sys.modules.keys()\n"
        "    print(name, *sorted(there))\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, *WITHOUT_TORCH, *sorted(commands)],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(SOURCE.parent), "PATH": ""},
    )
    lines = (line.partition(" ") for line in run.stdout.splitlines())
    return {name: rest for name, _, rest in lines}


def test_settings_formats_runtime_and_commands_do_without_torch(heavy: dict[str, str]) -> None:
    assert set(WITHOUT_TORCH) < set(heavy) and "commands.search" in heavy
    # one process for all: the first that brings something is the one to blame
    assert next(((name, rest) for name, rest in heavy.items() if rest), None) is None


def test_the_command_line_starts_without_numpy() -> None:
    code = "import sys, gassip.cli; gassip.cli.build_parser(); print(*sorted(sys.modules))"
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(SOURCE.parent), "PATH": ""},
    )
    assert not {"numpy", "scipy", "rich"} & set(run.stdout.split())
