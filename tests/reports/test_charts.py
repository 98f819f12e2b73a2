"""Charts: ticks, scales, markers, dots and the map of labels, also where there is much or little to draw."""

import re

import pytest

from wardround.reports.heatmap import MOST_LABELS, MOST_SITES, heat_map, shade
from wardround.reports.plots import BOTTOM, HIGH, TOP, Axis, Series, curves, dots, key
from wardround.reports.svg import Scale, cut, decimals, fit, width_of

ROUNDS = [(1.0, 0.4, 0.1), (2.0, 0.5, 0.05), (3.0, 0.55, None)]


@pytest.mark.parametrize(
    ("scale", "most", "expected"),
    [
        (Scale(0.2, 0.9, 0, 1), 7, [0.2, 0.4, 0.6, 0.8]),
        (Scale(0, 1, 0, 1), 6, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (Scale(1, 200, 0, 1), 9, [50, 100, 150, 200]),
        (Scale(900, 210_000, 0, 1, log=True), 6, [1e3, 3e3, 1e4, 3e4, 1e5]),
        (Scale(5, 50, 0, 1, log=True), 6, [5, 10, 20, 50]),
        (Scale(1, 1e9, 0, 1, log=True), 5, [1, 100, 1e4, 1e6, 1e8]),
    ],
)
def test_ticks_are_round_and_not_too_many(scale: Scale, most: int, expected: list[float]) -> None:
    assert expected == pytest.approx(scale.ticks(most))


def test_a_scale_has_round_ends_and_room_for_a_single_value() -> None:
    found = fit([0.31, 0.93], 0, 1)
    assert [0.2, 1.0] == pytest.approx([found.low, found.high])
    single = fit([0.5, 0.5], 0, 100)
    assert 50 == pytest.approx(single(0.5))
    assert 0 == decimals([0.0, 20.0])
    assert 2 == decimals([0.0, 0.05])


def test_a_log_scale_puts_the_geometric_mean_in_the_middle() -> None:
    assert 50 == pytest.approx(Scale(1, 100, 0, 100, log=True)(10))


def test_a_chart_has_a_line_per_series_a_band_where_there_is_a_spread_and_a_title() -> None:
    told = [Series("fedavg", 0, ROUNDS), Series("local", 0, [(1.0, 0.2, None)], reference=True)]
    made = curves(told, Axis("round"), Axis("accuracy", target=0.5), "accuracy by <round>", told)
    assert made.startswith(
        '<svg viewBox="0 0 430 275" role="img" class="chart"><title>accuracy by &lt;round&gt;</title>'
    )
    assert 2 == made.count('class="curve"')
    assert 1 == made.count('class="band c0"')
    assert 1 == made.count('class="target"')
    assert "fedavg: 0.5500 at the end" in made
    assert "nan" not in made


def test_a_share_and_its_band_stay_between_nothing_and_all() -> None:
    told = [Series("fedavg", 0, [(0.1, 0.98, 0.2), (0.9, 0.05, 0.3)])]
    made = curves(told, Axis("recall", share=True), Axis("precision", share=True), "", told)
    assert ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"] == re.findall(r'text-anchor="end"[^>]*>([\d.-]+)<', made)
    (band,) = re.findall(r'd="([^"]+)Z"', made)
    heights = [float(place.split()[1]) for place in re.findall(r"[\d.]+ [\d.]+", band)]
    assert [TOP, HIGH - BOTTOM] == [min(heights), max(heights)]


def test_bytes_over_a_wide_range_are_drawn_on_a_log_axis() -> None:
    told = [Series("a", 0, [(1000.0, 0.1, None), (1e6, 0.9, None)])]
    made = curves(told, Axis("bytes uploaded", log=True, bytes=True), Axis("accuracy"), "", told)
    assert ["1 kB", "10 kB", "100 kB", "1 MB"] == re.findall(r">(\d+ [kM]B)<", made)
    assert "bytes uploaded, logarithmic" in made


def test_twenty_four_methods_all_look_different() -> None:
    series = [Series(f"m{index}", index) for index in range(24)] + [Series("r", index, (), True) for index in range(2)]
    looks = [(one.colour, one.dash, re.sub(r"[\d.,-]+", "", one.mark(0, 0))) for one in series]
    assert 26 == len(set(looks))
    assert 26 == key(series).count("<li>")


def test_dots_stand_on_each_other_where_they_meet_and_say_their_site() -> None:
    values = {f"site-{number}": 0.5 for number in range(4)} | {"far": 1.0}
    made = dots(Series("fedavg", 0), values, {site: f"note of {site}" for site in values}, (0.0, 1.0))
    places = re.findall(r'cx="([\d.]+)" cy="([\d.]+)"', made)
    assert 5 == len(set(places))
    assert 2 == len({x for x, _ in places})
    assert "note of site-3" in made
    assert "fedavg: 5 sites from 0.5000 to 1.0000, median 0.5000" in made


def test_the_map_has_a_cell_per_count_that_is_not_zero_and_says_it() -> None:
    made = heat_map({"north": {"drug": 12, "dose": 0}, "south": {"drug": 3, "dose": 40}}, "labels by site")
    assert 3 == made.count('class="cell"')
    assert "south, dose: 40 examples, 93 % of the site&#x27;s" in made
    assert ["12", "40", "3"] == re.findall(r'class="in(?: dark)?">(\d+)<', made)


def test_a_hundred_sites_still_fit_and_more_are_the_largest_hundred() -> None:
    counts = {f"site-{number:03}": {"drug": number + 1} for number in range(250)}
    made = heat_map(counts, "")
    assert MOST_SITES == made.count('class="cell"')
    assert "site-249" in made
    assert "site-149<" not in made
    wide = re.search(r'width="([\d.]+)"', made)
    assert wide is not None
    assert float(wide[1]) < 1050
    assert 'class="in' not in made  # too small to print a number in


def test_more_labels_than_can_be_read_become_one_row() -> None:
    counts = {"north": {f"label-{number}": 100 - number for number in range(60)}}
    made = heat_map(counts, "")
    assert MOST_LABELS == made.count('class="cell"')
    assert "21 other labels" in made


def test_a_site_without_examples_is_an_empty_column() -> None:
    assert 0 == heat_map({"north": {}}, "").count('class="cell"')


def test_shades_go_by_the_logarithm() -> None:
    assert [0.1, 0.55, 1.0] == pytest.approx([shade(1, 100), shade(10, 100), shade(100, 100)])
    assert 1.0 == shade(1, 1)


def test_long_names_are_cut_and_chinese_ones_count_double() -> None:
    assert "aspirin" == cut("aspirin", 100)
    assert width_of(cut("a very long name of a site", 60)) <= 60
    assert cut("a very long name of a site", 60).endswith("…")
    assert 2 * width_of("ab") == width_of("药物")
