"""Build src/gassip/deploy/native/gassip.wasm from wasm.c and core.c.

    apt-get install clang lld
    python tools/build_wasm.py

The module that is shipped was built by clang 14.0.6 (Debian 12): with that version the bytes are
the same again, which a test checks. Another version makes an equal module of other bytes.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

NATIVE = Path(__file__).parent.parent / "src" / "gassip" / "deploy" / "native"
SHIPPED = NATIVE / "gassip.wasm"
SHIPPED_BY = "14.0.6"
FLAGS = (
    "--target=wasm32",
    "-std=c99",
    "-O2",
    "-msimd128",
    "-ffreestanding",
    "-fno-builtin",
    "-nostdlib",
    "-fvisibility=hidden",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wl,--no-entry",
    "-Wl,--strip-all",
    "-Wl,--export=__heap_base",
    "-Wl,-z,stack-size=16384",
)


def compiler() -> str | None:
    """clang with a linker for WebAssembly, or None."""
    return "clang" if shutil.which("clang") and shutil.which("wasm-ld") else None


def version() -> str:
    """Of clang, such as 14.0.6."""
    said = subprocess.run(["clang", "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"version (\d+\.\d+\.\d+)", said)
    return found[1] if found else "unknown"


def build(out: Path) -> None:
    done = subprocess.run(
        ["clang", *FLAGS, "wasm.c", "-o", str(out.resolve())],
        cwd=NATIVE,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(done.stderr)


def main() -> int:
    if compiler() is None:
        sys.exit("there is no clang with wasm-ld: apt-get install clang lld")
    build(SHIPPED)
    print(f"written to {SHIPPED}: {SHIPPED.stat().st_size:,} bytes, by clang {version()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
