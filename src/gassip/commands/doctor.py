"""gassip doctor: what is installed, where data would be found, and what the machine offers."""

import argparse
import json
import os
import platform
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from gassip import __version__
from gassip.commands.common import command
from gassip.commands.summary import print_summary

NEEDED = ("torch", "torch_geometric", "numpy", "scipy", "scikit-learn", "filelock")
EXTRAS = {
    "tables": (("pandas", "pyarrow"), "Parquet files, pandas frames"),
    "onnx": (("onnx", "onnxruntime"), "export --format onnx"),
    "executorch": (("executorch",), "export --format executorch"),
    "log": (("tensorboard",), "search --log tensorboard"),
    "ogb": (("ogb",), "datasets of OGB"),
}  # packages of each extra of pyproject.toml, and what it unlocks
LEAST_MEMORY = 2**31  # bytes under which graphs of some thousand nodes may not fit


def add(commands: Any) -> None:
    about = "show what is installed, where data would be found, and what the machine offers"
    parser = command(commands, run, "doctor", about, "gassip doctor --json")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")


def run(args: argparse.Namespace) -> int:
    found = {
        "gassip": __version__,
        "python": platform.python_version(),
        "packages": {name: version(name) for name in NEEDED},
        "extras": {name: extra(*about) for name, about in EXTRAS.items()},
        "data": data_folders(),
        "machine": machine(),
    }
    found["advice"] = advice(found)
    if args.json:
        print(json.dumps(found))
    else:
        print_summary(f"gassip {__version__}, Python {found['python']}", rows(found))
    return 0


def version(package: str) -> str | None:
    """As installed; the package itself is not imported."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def extra(packages: tuple[str, ...], unlocks: str) -> dict[str, Any]:
    installed = {name: version(name) for name in packages}
    return {"installed": all(installed.values()), "packages": installed, "unlocks": unlocks}


def data_folders() -> list[dict[str, Any]]:
    """Where datasets are looked for, in this order, and what lies there."""
    from gassip.graph.datasets import folders

    return [
        {"path": str(path), "exists": path.is_dir(), "holds": _listed(path)} for path in folders()
    ]


def _listed(path: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in path.iterdir() if not entry.name.startswith("."))
    except OSError:
        return []


def machine() -> dict[str, Any]:
    """Cores that this process may use, threads of OpenMP, memory in bytes."""
    limited = hasattr(os, "sched_getaffinity")
    memory = free = None
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        page = os.sysconf("SC_PAGE_SIZE")
        memory = page * os.sysconf("SC_PHYS_PAGES")
        if "SC_AVPHYS_PAGES" in os.sysconf_names:
            free = page * os.sysconf("SC_AVPHYS_PAGES")
    return {
        "cores": len(os.sched_getaffinity(0)) if limited else os.cpu_count() or 1,
        "cores_total": os.cpu_count(),
        "omp_num_threads": os.environ.get("OMP_NUM_THREADS"),
        "memory": memory,
        "memory_free": free,
        "max_gib": os.environ.get("GASSIP_MAX_GIB"),
    }


def advice(found: Mapping[str, Any]) -> list[str]:
    """What is not as expected, with the remedy."""
    said = [
        f"{name} is missing: pip install {name}"
        for name, version in found["packages"].items()
        if version is None
    ]
    machine = found["machine"]
    if machine["memory"] is not None and machine["memory"] < LEAST_MEMORY:
        said.append(f"only {machine['memory'] / 2**30:.1f} GiB of memory: large graphs may not fit")
    if machine["omp_num_threads"] and not machine["omp_num_threads"].isdecimal():
        said.append(f"OMP_NUM_THREADS is {machine['omp_num_threads']!r}; it must be a whole number")
    elif machine["omp_num_threads"] and int(machine["omp_num_threads"]) > machine["cores"]:
        said.append(
            f"OMP_NUM_THREADS is above the {machine['cores']} cores: threads wait for others"
        )
    given = os.environ.get("GASSIP_DATA")
    if given and not Path(given).is_dir():
        said.append(f"GASSIP_DATA names {given}, which is no folder")
    return said


def rows(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """For the summary."""
    out = [(name, version or "missing") for name, version in found["packages"].items()]
    for name, entry in found["extras"].items():
        have = "installed" if entry["installed"] else f"pip install 'gassip[{name}]'"
        out.append((f"extra {name}", f"{have} ({entry['unlocks']})"))
    for entry in found["data"]:
        holds = ", ".join(entry["holds"][:8]) or "nothing"
        out.append(("data", f"{entry['path']}: {holds if entry['exists'] else 'not there'}"))
    machine = found["machine"]
    out.append(("cores", f"{machine['cores']} of {machine['cores_total']}"))
    if machine["memory"] is not None:
        free = "" if machine["memory_free"] is None else f", {_gib(machine['memory_free'])} free"
        out.append(("memory", f"{_gib(machine['memory'])}{free}"))
    return out + [("advice", line) for line in found["advice"] or ["all is as expected"]]


def _gib(count: int) -> str:
    return f"{count / 2**30:.1f} GiB"
