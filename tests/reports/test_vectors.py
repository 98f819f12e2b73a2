"""The section on classifier vectors: there if a method noted how alike they are."""

import json
from pathlib import Path

from run_folders import make_run
from wardround.reports.page import page
from wardround.reports.read import read_runs


def with_similarity(folder: Path, *rounds: dict[str, dict[str, float]]) -> Path:
    made = make_run(folder)
    journal = made / "journal.jsonl"
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    for line, told in zip(lines, rounds, strict=False):
        line["noted"] = {"similarity": told}
    journal.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return made


def test_a_run_without_them_has_no_such_section(tmp_path: Path) -> None:
    assert "Classifier vectors" not in page(read_runs([make_run(tmp_path / "a")]))


def test_the_first_and_the_last_round_are_drawn_and_the_least_alike_is_framed(tmp_path: Path) -> None:
    first = {"a": {"x": 0.25, "y": -0.5, "z": 0.1}, "b": {"x": 0.125, "y": 0.5, "z": 0.2}}
    markup = page(read_runs([with_similarity(tmp_path / "a", first, {"a": {"x": 0.75, "y": 0.5, "z": 0.0}})]))
    assert 'href="#vectors"' in markup
    assert "a, y: -0.5000" in markup.replace("\u2212", "-")
    assert "seed 0, round 1: how alike" in markup
    assert "seed 0, round 2: how alike" in markup
    section = markup[markup.index('id="vectors"') :]
    assert 3 + 3 == section[: section.index("</section>")].count('class="major"')
    assert "both majors come from one site" not in markup


def test_with_two_classes_the_page_says_what_that_means(tmp_path: Path) -> None:
    told = page(read_runs([with_similarity(tmp_path / "a", {"a": {"x": 0.1, "y": 0.1}, "b": {"x": 0.2, "y": 0.2}})]))
    assert "both majors come from one site" in told
