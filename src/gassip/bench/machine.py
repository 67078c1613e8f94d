"""What a run was carried out on: the commit, the machine, the memory that it took."""

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any


def reset_peak() -> None:
    """Let the peak of resident memory count from now, where the system can."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def peak_mb() -> float | None:
    """The peak of resident memory in MB; None where the system does not say or `reset_peak` has no
    effect."""
    try:
        status = Path("/proc/self/status").read_text()
        if not os.access("/proc/self/clear_refs", os.W_OK):
            return None
    except OSError:
        return None
    peaks = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
    return round(int(peaks[0]) / 1024, 1) if peaks else None


def commit_of() -> tuple[str | None, bool | None]:
    """The commit of the code that runs, and whether it was changed since; None where it is not in a
    repository."""
    where = Path(__file__).resolve().parent
    try:
        commit = _git(where, "rev-parse", "HEAD")
        return commit, bool(_git(where, "status", "--porcelain", "--untracked-files=no", "--", "."))
    except (OSError, subprocess.SubprocessError):
        return None, None


def _git(where: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", *words], cwd=where, capture_output=True, text=True, check=True, timeout=10
    )
    return done.stdout.strip()


def machine() -> dict[str, Any]:
    """CPU model, cores that may be used, memory in MB."""
    return {"cpu": cpu_model(), "cores": usable_cores(), "memory_mb": memory_mb()}


def cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def usable_cores() -> int:
    """Of this process where the system says, else of the machine."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    else:
        return os.cpu_count() or 1


def memory_mb() -> int | None:
    """Of the machine; None where the system does not say."""
    if sys.platform == "win32":
        return None
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
