import itertools
from math import isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gassip.draw.scale import FONT, Form, Scale, per_cent, plain, short, spanning, ticks, width


def test_a_linear_scale_by_hand() -> None:
    scale = Scale(0.0, 10.0, 100.0, 300.0)
    assert [scale(0), scale(5), scale(10)] == [100, 200, 300]


def test_a_log_scale_by_hand() -> None:
    scale = Scale(1.0, 100.0, 0.0, 200.0, log=True)
    assert isclose(scale(10), 100.0) and isclose(scale(100), 200.0)


def test_round_ticks_by_hand() -> None:
    assert ticks(Scale(0.0, 10.0, 0.0, 400.0), plain) == [0, 2, 4, 6, 8, 10]
    assert ticks(Scale(0.71, 0.83, 0.0, 400.0), per_cent) == [0.72, 0.74, 0.76, 0.78, 0.8, 0.82]
    log = ticks(Scale(900.0, 120_000.0, 0.0, 400.0, log=True), short)
    assert log == [1e3, 3e3, 1e4, 3e4, 1e5]


def test_numbers_are_short() -> None:
    assert [short(v) for v in (0, 950, 1200, 3e6, 999_950)] == ["0", "950", "1.2k", "3M", "1M"]
    assert per_cent(0.825) == "82.5" and plain(-0.5) == "−0.5"


def test_the_scale_of_one_value_or_none_can_be_drawn() -> None:
    for values in ([], [3.0], [0.0], [float("nan")]):
        scale = spanning(values, 0.0, 100.0)
        assert scale.low < scale.high
    assert spanning([5.0], 0.0, 100.0, log=True)(5.0) == pytest.approx(50.0)


@given(
    st.floats(-1e6, 1e6, allow_nan=False),
    st.floats(1e-6, 1e6, allow_nan=False),
    st.floats(60, 600),
    st.sampled_from([plain, per_cent, short]),
)
def test_labels_of_ticks_never_overlap(low: float, span: float, px: float, form: Form) -> None:
    scale = Scale(low, low + span, 0.0, px)
    if scale.low == scale.high:
        return
    found = ticks(scale, form)
    assert 1 <= len(found) <= 6
    for a, b in itertools.pairwise(found):
        assert scale(b) - scale(a) >= (width(form(a)) + width(form(b))) / 2


@given(st.floats(1e-3, 1e9), st.floats(1.01, 1e9), st.floats(60, 600))
def test_labels_of_log_ticks_never_overlap(low: float, factor: float, px: float) -> None:
    scale = Scale(low, low * factor, 0.0, px, log=True)
    found = ticks(scale, short)
    for a, b in itertools.pairwise(found):
        assert scale(b) - scale(a) >= (width(short(a)) + width(short(b))) / 2
    upright = ticks(scale, short, upright=True)
    places = [scale(value) for value in upright]
    assert all(b - a >= FONT for a, b in itertools.pairwise(places))
