"""Two of the golden cases; `python -m tests.golden` compares all of them."""

import json

import pytest
import torch

from tests import golden

STORED = json.loads(golden.FILE.read_text(encoding="utf-8"))
HERE = golden.here(STORED["places"])


@pytest.mark.skipif(not HERE, reason="golden bits are of other processors or libraries")
@pytest.mark.parametrize("case", [("paper", "one-way", "macs"), ("best", "words", "params")])
def test_bits_are_the_golden_ones(case: tuple[str, str, str]) -> None:
    assert torch.get_num_threads() == 1
    _, plan, solution = golden.solve(*case)
    found = golden.bits(plan, solution)
    assert golden.differences(HERE[" ".join(case)], found) == []


def test_records_of_the_method_carry_the_version_of_these_bits() -> None:
    """Bits that change on purpose raise the version, so that a stale record is known as such."""
    assert STORED["versions"] == golden.VERSIONS


def test_every_case_is_stored_and_each_bit_counts() -> None:
    for place in STORED["places"]:
        assert set(place["bits"]) == {" ".join(case) for case in golden.cases()}
    assert len(golden.cases()) == 18
    one = STORED["places"][0]["bits"]["paper words free"]
    assert golden.differences(one, one) == []
    assert golden.differences(one, one | {"teacher": "0"}) == ["teacher"]
    assert golden.differences(one, {k: v for k, v in one.items() if k != "scores"}) == ["scores"]
    value = torch.zeros(4)
    assert golden.digest(value) != golden.digest(value.view(2, 2)) != golden.digest(value.int())
