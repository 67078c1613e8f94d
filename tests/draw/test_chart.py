import itertools
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from gassip.draw.bars import Histogram, histogram
from gassip.draw.chart import MOST_POINTS, Panel, Place, Series, apart, panel, shortened
from gassip.draw.scale import width
from gassip.draw.svg import clean, document, element, written

HOSTILE = '<script>alert("x")</script> & ]]> \x00'


def texts(svg: str) -> list[str]:
    return [own.text or "" for own in ElementTree.fromstring(svg).iter() if own.tag == "text"]


def test_a_curve_goes_through_its_points() -> None:
    one = Series(name="a", x=[0.0, 10.0], y=[0.0, 1.0])
    drawn = Panel(title="t", series=[one], bounds=(0.0, 1.0))
    svg = written(panel(drawn, Place(width=152.0, height=170.0)))
    # 152 px less 40 and 12: 40 to 140; 170 less 40 and 30: 40 to 140, 0 at the bottom
    assert 'd="M40.0 140.0L140.0 40.0"' in svg


def test_points_that_are_no_numbers_are_left_out() -> None:
    one = Series(name="a", x=[1.0, 2.0, 3.0], y=[1.0, float("nan"), 3.0])
    assert one.points() == [0, 2]


def test_a_long_curve_is_thinned_and_keeps_its_end() -> None:
    xs = [float(k) for k in range(100_001)]
    kept = Series(name="a", x=xs, y=xs).points()
    assert len(kept) <= MOST_POINTS + 1 and kept[-1] == 100_000


def test_every_point_is_named_where_there_is_room() -> None:
    one = Series(name="a", x=[1, 10, 100], y=[1, 2, 3], names=["p", "q", "r"], line=False, size=3)
    svg = written(panel(Panel(title="t", series=[one], log=True)))
    assert {"p", "q", "r"} <= set(texts(svg))


def test_names_at_one_place_do_not_lie_on_each_other() -> None:
    count = 60
    one = Series(
        name="a", x=[1.0] * count, y=[1.0] * count, names=["name"] * count, line=False, size=3
    )
    svg = ElementTree.fromstring(written(panel(Panel(title="t", series=[one]))))
    spots = [own for own in svg.iter() if own.text == "name"]
    boxes = [(float(own.get("x", 0)), float(own.get("y", 0))) for own in spots]
    assert 1 <= len(boxes) < count
    for at, (x, y) in enumerate(boxes):
        for other_x, other_y in boxes[:at]:
            assert abs(x - other_x) >= width("name") - 0.1 or abs(y - other_y) >= 11


def test_nothing_of_the_users_text_becomes_markup() -> None:
    one = Series(name=HOSTILE, x=[1, 2], y=[1, 2], names=[HOSTILE] * 2, tips=[HOSTILE] * 2, size=2)
    other = Series(name=HOSTILE, x=[1, 2], y=[1, 2])
    drawn = Panel(title=HOSTILE, unit=HOSTILE, below=HOSTILE, series=[one, other])
    whole = document([panel(drawn)], 340, 230, HOSTILE)
    tree = ElementTree.fromstring(whole)
    assert not [own for own in tree.iter() if "script" in own.tag]
    assert b"<script" not in whole and clean("a\x00b") == "a\ufffdb"


def test_a_panel_without_series_is_drawn() -> None:
    assert "nothing yet" in written(panel(Panel(title="nothing yet", series=[])))


def test_a_histogram_stacks_its_counts() -> None:
    own = Histogram(title="t", edges=[0, 0.5, 1], lower=[1, 3], upper=[2, 0], cut=0.5)
    svg = ElementTree.fromstring(written(histogram(own)))
    bars = [one for one in svg.iter("rect") if one.find("title") is not None]
    heights = [float(bar.get("height", 0)) for bar in bars]
    assert len(bars) == 3 and abs(heights[1] - 2 * heights[0]) < 0.02
    assert bars[0].findtext("title") == "0 to 0.5: 1 kept, 2 removed"
    assert "cut 0.5" in texts(written(histogram(own)))


@given(st.lists(st.floats(0, 200), max_size=12).map(sorted))
def test_names_of_curves_move_apart(places: list[float]) -> None:
    moved = apart(places, 13.0, 0.0, 200.0)
    assert all(b - a >= 13.0 - 1e-9 for a, b in itertools.pairwise(moved))
    assert not moved or (moved[0] >= 0 and moved[-1] <= 200)


def test_a_long_text_ends_in_an_ellipsis() -> None:
    assert shortened("short", 100) == "short"
    cut = shortened("x" * 100, 60)
    assert cut.endswith("…") and width(cut) <= 60


def test_a_number_is_written_short() -> None:
    assert written(element("g", x=1.50, class_="a", stroke_width=2)) == (
        '<g x="1.5" class="a" stroke-width="2" />'
    )
