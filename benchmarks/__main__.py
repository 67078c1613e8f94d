"""`python -m benchmarks`: every benchmark in turn, on the datasets under $GASSIP_DATA; status 1 if
a bar is missed."""

from benchmarks import inference, kernels, memory, search, stages, training


def main() -> int:
    results = [part.main() for part in (stages, kernels, search, training, memory, inference)]
    print(f"{sum(results)} of {len(results)} benchmarks met all their bars")
    return 0 if all(results) else 1


if __name__ == "__main__":
    raise SystemExit(main())
