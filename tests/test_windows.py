"""Nothing is used that Windows does not have: modules, names of os and signal."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "gassip"
MODULES = {"fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "curses", "readline"}
MODULES |= {"syslog", "posix", "crypt", "nis", "spwd"}
NAMES = {
    "os": (
        "fork", "getuid", "geteuid", "getgid", "mkfifo", "mknod", "sched_getaffinity", "sysconf",
        "uname", "getpgid", "setsid", "killpg", "nice", "chown", "getloadavg", "statvfs", "wait",
        "posix_fallocate", "posix_fadvise", "sync", "chroot",
    ),
    "signal": ("SIGALRM", "SIGKILL", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGCHLD", "setitimer"),
}  # fmt: skip


def uses(tree: ast.AST) -> set[str]:
    """os.fork and the like, wherever they stand."""
    return {
        f"{node.value.id}.{node.attr}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.attr in NAMES.get(node.value.id, ())
    }


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: path.stem)
def test_names_that_windows_lacks_are_asked_for_first(path: Path) -> None:
    """A module that uses one also asks for it or for the system, or is ready for its absence."""
    text = path.read_text(encoding="utf-8")
    found = uses(ast.parse(text))
    careful = any(word in text for word in ("hasattr(", "AttributeError", "sys.platform"))
    assert not found or careful, f"{path.name} uses {', '.join(sorted(found))}"


def imported(tree: ast.AST) -> set[str]:
    """The modules that a file imports, also inside functions."""
    found = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {own.name.partition(".")[0] for own in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add((node.module or "").partition(".")[0])
    return found


def test_modules_that_windows_lacks_are_not_imported() -> None:
    for path in sorted(SOURCE.rglob("*.py")):
        odd = imported(ast.parse(path.read_text(encoding="utf-8"))) & MODULES
        assert not odd, f"{path} imports {odd}"
