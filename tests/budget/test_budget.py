import pytest

from gassip.budget.budget import Budget, read_amount
from gassip.errors import GassipError


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("max_params", "10,000", (10_000.0, False)),
        ("max_macs", "1,234,567", (1_234_567.0, False)),
        ("max_macs", "1,000.5", (1000.5, False)),
        ("max_latency_ms", "1.5ms", (1.5, False)),
        ("max_bytes", "1,000kB", (1e6, False)),
        ("max_edges", "12.5%", (0.125, True)),
    ],
)
def test_a_comma_separates_thousands(name: str, given: str, expected: tuple[float, bool]) -> None:
    assert read_amount(name, given) == expected


@pytest.mark.parametrize("given", ["1,5", "0,25%", "1,50", "10,00", "1,5,0", "1,2345", ",5"])
def test_a_decimal_comma_is_refused_in_one_line(given: str) -> None:
    with pytest.raises(GassipError, match=r"--max-latency-ms is .*decimals need a point") as error:
        Budget(max_latency_ms=given)
    assert "\n" not in str(error.value)
