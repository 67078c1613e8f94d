"""`python -m benchmarks [part ...]`: the benchmarks in turn, on the datasets under $GASSIP_DATA,
and last the bars that were missed. Status 1 if there is one, or if a part failed."""

import sys
import time
import traceback
from collections.abc import Sequence
from importlib import import_module

from benchmarks.timing import Bar

PARTS = ("kernels", "search", "training", "memory", "stages", "inference", "footprint")


def main(given: Sequence[str] = ()) -> int:
    bars: list[Bar] = []
    failed = []
    for name in given or PARTS:
        began = time.perf_counter()
        print(f"\n== {name}", flush=True)
        try:
            bars += import_module(f"benchmarks.{name}").main()
        except Exception:  # one part that cannot run leaves the others their turn
            traceback.print_exc()
            failed.append(name)
        print(f"{time.perf_counter() - began:.0f} s", flush=True)
    missed = [bar for bar in bars if not bar.met]
    print(f"\n{len(bars) - len(missed)} of {len(bars)} bars are met")
    for bar in missed:
        print(bar)
    for name in failed:
        print(f"FAILED  {name}")
    return 1 if missed or failed else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
