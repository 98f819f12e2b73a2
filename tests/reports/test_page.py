"""The page: what it says, that names are only ever text, that it is the same every time, and needs nothing else."""

import html
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from run_folders import make_run, make_sweep
from study_files import cli, script, small_study
from wardround.cli.app import main
from wardround.reports.figures import Spread
from wardround.reports.html import bytes_of, describe_p, figure, join, plus_minus, signed, table, tag
from wardround.reports.page import page, write_report
from wardround.reports.read import read_runs

EVIL = "<script>alert('x')</script>\"&"
VOID = {"meta", "link", "br"}


def page_of(*paths: Path) -> str:
    return page(read_runs(paths))


def words_of(markup: str) -> str:
    """The page's text as a reader has it."""
    body = re.sub(r"<(style|title)\b.*?</\1>", " ", markup, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", re.sub(r"</(p|td|th|li|h\d|dt|dd)>", " ", body))).split())


class Elements(HTMLParser):
    """Every element with its attributes; it fails where tags do not close in order."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(markup)
        assert [] == self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert tag == self.open.pop()


LOADED = """
import sys
from pathlib import Path
from wardround.reports.page import write_report
write_report([Path(sys.argv[1])], Path("report.html"))
print(sorted({"rjieba", "scipy.special", "scipy.stats"} & set(sys.modules)))
"""


def test_what_few_need_is_loaded_when_it_is_needed(tmp_path: Path) -> None:
    """Tests of significance by a report of several seeds, and jieba's dictionary by Chinese texts."""
    (tmp_path / "loaded.py").write_text(LOADED, encoding="utf-8")
    one = script(tmp_path / "loaded.py", make_run(tmp_path / "one"), cwd=tmp_path)
    three = make_sweep(tmp_path / "three", {"fedavg": [0.70, 0.71, 0.73], "scaffold": [0.80, 0.812, 0.82]})
    assert [(0, "[]\n"), (0, "['scipy.special', 'scipy.stats']\n")] == [
        (ended.code, ended.out) for ended in (one, script(tmp_path / "loaded.py", three, cwd=tmp_path))
    ]


# what it says


def test_the_summary_names_the_best_method_by_how_much_and_that_it_is_significant(tmp_path: Path) -> None:
    finals = {"fedavg": [0.70, 0.71, 0.72], "scaffold": [0.80, 0.812, 0.82], "local": [0.6, 0.5, 0.65]}
    words = words_of(page_of(make_sweep(tmp_path, finals)))
    assert (
        "Of 2 federated methods, scaffold had the highest accuracy on the test split in the last round: 0.811 ± "
        in words
    )
    assert "(mean ± standard deviation over 3 seeds), 0.101 above fedavg." in words
    assert "The difference is significant at the 5 % level (paired t-test over 3 common seeds, p < 0.001 after" in words
    assert "Holm's correction for 3 comparisons)." in words
    assert "For reference, each site training alone (local): 0.583" in words
    assert "Per round under scaffold, each site that took part sent 500 bytes to the coordinator." in words
    assert "This tells: how notes move it; how many examples the site has. The method sees only the sum" in words


def test_who_gains_from_a_model_of_its_own_is_told_by_site(tmp_path: Path) -> None:
    """Beside the better of two shared models, in the direction of the figure."""
    sites = {
        "fedavg": {"north": 0.50, "south": 0.70, "west": 0.60},
        "fedprox": {"north": 0.40, "south": 0.40, "west": 0.40},
        "ditto": {"north": 0.75, "south": 0.65, "west": 0.60},
        "local": {"north": 0.20, "south": 0.10, "west": 0.30},
    }
    runs = [make_run(tmp_path / name, name, each=each, sites=tuple(each), data="a") for name, each in sites.items()]
    words = words_of(page_of(*runs))
    assert "accuracy, test split at each site beside fedavg's, the shared model with the best mean" in words
    assert "ditto north +0.2500 south -0.0500 1 1 1" in words
    assert "local north -0.3000 south -0.6000 0 3 0" in words
    assert "Who gains" not in words_of(page_of(*runs[:2]))


def test_only_federated_methods_are_ranked_whatever_a_reference_is_called(tmp_path: Path) -> None:
    """A method of one's own that pools all data, and the coordinator alone, would win; they are references."""
    sweep = make_sweep(tmp_path / "a", {"fedavg": [0.6], "scaffold": [0.7], "public": [0.8]})
    own = make_run(tmp_path / "b", "mine:Pooling", values=[0.5, 0.9])
    for name in ("run.json", "metrics.json"):
        content = json.loads((own / name).read_text())
        (own / name).write_text(json.dumps({**content, "pooled": True}))
    words = words_of(page_of(sweep, own))
    assert "Of 2 federated methods, scaffold had the highest accuracy" in words
    assert "For reference, all data in one place, which only a simulation can do (mine:Pooling): 0.900" in words
    assert "For reference, the coordinator alone, on public examples (public): 0.800" in words
    assert "mine:Poolingreference: all data in one place 0.9000" in words
    assert "publicreference: the coordinator alone, on public examples 0.8000" in words


def test_a_difference_that_may_be_chance_is_called_that(tmp_path: Path) -> None:
    finals = {"fedavg": [0.7, 0.5, 0.6], "scaffold": [0.5, 0.8, 0.61]}
    words = words_of(page_of(make_sweep(tmp_path, finals)))
    assert "The difference is not significant at the 5 % level" in words
    assert "it may be chance." in words


def test_without_enough_seeds_it_says_why_there_is_no_test(tmp_path: Path) -> None:
    words = words_of(page_of(make_sweep(tmp_path, {"fedavg": [0.7], "scaffold": [0.8]})))
    assert "was not tested: needs at least 3 common seeds, there is 1." in words
    assert "No paired test between methods: needs at least 3 common seeds, there is 1." in words


def test_a_single_run_is_told_as_one(tmp_path: Path) -> None:
    words = words_of(page_of(make_run(tmp_path / "a")))
    assert "fedavg reached an accuracy of 0.600 (one seed, so its spread is not known) on the test split" in words
    assert "1 run (all finished), 1 method, 1 seed" in words


def test_test_texts_that_were_trained_on_are_told_in_the_summary(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "a")
    assert "also in training" not in words_of(page_of(folder))
    known = json.loads((folder / "data.json").read_text())
    (folder / "data.json").write_text(json.dumps({**known, "leaked": 1300}))
    words = words_of(page_of(folder)).partition("Results Final figures")[0]
    assert "Test examples whose text is also in training: 1,300. Figures on them are too good; take them out" in words
    assert "also in validation" not in words
    (folder / "data.json").write_text(json.dumps({**known, "test_in_valid": 20, "leaked_valid": 3}))
    words = words_of(page_of(folder)).partition("Results Final figures")[0]
    assert "Test examples whose text is also in validation: 20. The round was chosen by them; take them out" in words
    assert "Validation examples whose text is also in training: 3. They favour what is learnt by heart; take" in words


def test_generated_data_are_no_claim_about_patients(tmp_path: Path) -> None:
    assert "Generated data (synthetic); not a claim about patients." in page_of(make_run(tmp_path / "a"))
    bags = make_run(tmp_path / "b", corpus={"name": "clinic-bags"})
    assert "Generated data (clinic-bags); not a claim about patients." in page_of(bags)
    assert "not a claim" not in page_of(make_run(tmp_path / "c", corpus={"name": "bc5cdr-bags"}))


def test_an_unfinished_run_is_said_to_be_one(tmp_path: Path) -> None:
    done = make_run(tmp_path / "a", "fedavg", 0)
    going = make_run(tmp_path / "b", "scaffold", 0, [0.4], rounds=2, finished=False)
    late = make_run(tmp_path / "c", "fedavg", 1, [0.4], rounds=2, finished=False)
    words = words_of(page_of(done, going, late))
    assert "3 runs (1 finished)" in words
    assert "Not finished, so provisional and not compared: scaffold (round 1 of 2)." in words
    assert "1 run of 3 is not finished and left out: fedavg seed 1." in words
    assert "not finished: round 1 of 2" in words


def test_a_run_that_has_only_just_begun_has_a_page(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "a", finished=False)
    for name in ("journal.jsonl", "data.json", "wire.json", "fingerprint"):
        (folder / name).unlink()
    words = words_of(page_of(folder))
    assert "No round has been evaluated yet, so there are no figures." in words
    assert "No messages on record yet (wire.json): fedavg." in words


def test_a_run_whose_sites_tell_of_no_label_has_ended_without_a_figure(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "a")
    journal = folder / "journal.jsonl"
    lines = [json.loads(line) | {"metrics": {}} for line in journal.read_text(encoding="utf-8").splitlines()]
    journal.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    words = words_of(page_of(folder))
    assert "There are no figures: none were counted, or sites kept back every label" in words
    assert "evaluated yet" not in words


def test_studies_on_other_data_are_summed_up_apart(tmp_path: Path) -> None:
    for alpha in (0.1, 1.0):
        make_sweep(tmp_path / f"{alpha}", {"fedavg": [0.7], "scaffold": [0.7 + alpha / 10]}, corpus={"alpha": alpha})
    words = words_of(page_of(tmp_path / "0.1", tmp_path / "1.0"))
    assert "corpus.alpha = 0.1 Of 2 federated methods, scaffold had the highest accuracy" in words
    assert "corpus.alpha = 1.0 Of 2 federated methods, scaffold had the highest accuracy" in words


def test_every_figure_has_its_definition(tmp_path: Path) -> None:
    words = words_of(page_of(make_run(tmp_path / "a")))
    assert "accuracy Hits over examples; over sites, weighted by their numbers of examples." in words
    assert "loss Mean cross-entropy per example (natural logarithm)." in words


def test_figures_of_relations_are_named_in_full_and_those_of_single_classes_folded(tmp_path: Path) -> None:
    more = {"micro_f1_without_negative": 0.4, "macro_f1_without_negative": 0.3, "f1[CPR:3]": 0.25, "f1[none]": 0.75}
    markup = page_of(make_run(tmp_path / "a", more=more))
    words = words_of(markup)
    assert "micro-F1 without the negative class" in words
    assert (
        "micro-F1 without the negative class F1 = 2·hits / (2·hits + false alarms + misses) of all classes but" in words
    )
    assert "F1 F1 = 2·hits / (2·hits + false alarms + misses) of one class alone." in words
    folded = markup[markup.index("Each class by itself, test split") :]
    assert "F1 of CPR:3" in folded[: folded.index("</details>")]
    assert 1 == markup.count("F1 of CPR:3")  # no chart of it, and no column among the others


def test_rounds_to_target_tell_how_many_seeds_reached_it(tmp_path: Path) -> None:
    stop = {"metric": "accuracy", "target": 0.6, "early": False}
    words = words_of(page_of(make_sweep(tmp_path, {"fedavg": [0.7, 0.5, 0.6]}, stop=stop)))
    assert "Rounds to target (accuracy, test split ≥ 0.6)" in words
    assert "fedavg 2 of 3 2.0 ± 0.0 2.00 kB" in words
    assert "the study sets no target" in words_of(page_of(make_run(tmp_path / "without")))


def test_the_wire_is_told_in_words(tmp_path: Path) -> None:
    words = words_of(page_of(make_sweep(tmp_path, {"fedavg": [0.7], "scaffold": [0.8], "centralised": [0.9]})))
    assert "fedavg; scaffold Step fit, leaves the site: Update, 2.66 kB" in words
    assert "change (610 numbers in 2 tensors, float32, 2.44 kB). Reveals: how notes move it." in words
    assert "weight (a whole number). Reveals: how many examples the site has." in words
    assert "numbers (4 numbers, float64, 32 bytes)" in words
    assert "centralised pools the notes of all sites in one place, which is possible only in a simulation" in words


def test_settings_that_differ_are_marked(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / f"{mu}", "fedprox", using={"mu": mu}) for mu in (0.1, 0.25)]
    made = page_of(*runs)
    assert "<mark>mu = 0.25</mark>" in made
    assert "<mark>lr" not in made


def test_sites_left_out_are_listed(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "a")
    lines = [json.loads(raw) for raw in (folder / "journal.jsonl").read_text().splitlines()]
    lines[1]["left_out"] = {"north": "timed out"}
    (folder / "journal.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert "Sites left out of rounds (1)" in page_of(folder)
    assert "north timed out 0 2" in words_of(page_of(folder))
    summary = "Under fedavg, north was left out of 1 round, first of round 2: timed out."
    assert summary in words_of(page_of(folder))


def test_a_run_on_files_which_have_no_name_has_its_page(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "a")
    study = (folder / "study.toml").read_text(encoding="utf-8").replace('name = "synthetic"', 'format = "csv"')
    assert 'format = "csv"' in study
    (folder / "study.toml").write_text(study, encoding="utf-8")
    words = words_of(page_of(folder))
    assert "fedavg reached an accuracy of 0.600" in words
    assert "enerated data" not in words


def test_results_by_site_are_shown_where_they_are_known(tmp_path: Path) -> None:
    each = {"north": 0.25, "south": 0.75, "west": 0.5}
    words = words_of(page_of(make_run(tmp_path / "a", each=each)))
    assert "fedavg north 3 0.2500 0.3750 0.5000 0.6250 0.7500" in words
    assert "Results by site are not known" in words_of(page_of(make_run(tmp_path / "b")))


# names are text


def test_markup_in_a_name_stays_text(tmp_path: Path) -> None:
    folder = make_run(
        tmp_path / "a", EVIL, sites=(EVIL, "south"), labels=(EVIL, "drug"), each={EVIL: 0.1, "south": 0.9},
        name=EVIL, description=EVIL, corpus={"name": EVIL, "path": EVIL},
    )  # fmt: skip
    other = make_run(tmp_path / EVIL.replace("/", "-"), "fedavg", seed=1, corpus={"name": EVIL, "path": "x"})
    wire = json.loads((folder / "wire.json").read_text())
    (folder / "wire.json").write_text(
        json.dumps([{**row, "bytes": "1", "reveals": EVIL, "field": EVIL} for row in wire])
    )
    metrics = json.loads((folder / "metrics.json").read_text())
    (folder / "metrics.json").write_text(json.dumps({**metrics, "stopped": EVIL, "versions": {EVIL: EVIL}}))
    journal = (folder / "journal.jsonl").read_text()
    left_out = json.dumps({EVIL: EVIL})
    (folder / "journal.jsonl").write_text(
        journal.replace('"left_out": {}', f'"left_out": {left_out}').replace('"loss"', json.dumps(EVIL))
    )
    made = page_of(folder, other)
    elements = Elements(made).elements
    assert not {"script", "img", "iframe", "object", "embed"} & {name for name, _ in elements}
    assert not [name for _, attributes in elements for name in attributes if name.startswith("on")]
    assert "alert" in made


def test_text_is_escaped_and_markup_is_not() -> None:
    assert '<td class="a&quot;b">&lt;b&gt;<b>x</b></td>' == tag("td", "<b>", tag("b", "x"), class_='a"b')
    assert "&lt;<b>1</b>, 2" == join(["<", tag("b", 1)]) + ", 2"
    assert "<b>1</b>&lt;<b>2</b>" == join([tag("b", 1), None, tag("b", 2)], "<")
    assert '<line stroke-width="2"/>' == tag("line", stroke_width=2, x=None)
    assert '<th scope="row"><div>&lt;</div></th>' in table("c", ["a"], [["<"]])


# nothing else is needed


def test_the_page_asks_for_nothing_from_elsewhere(tmp_path: Path) -> None:
    made = page_of(make_sweep(tmp_path, {"fedavg": [0.7, 0.8, 0.9], "local": [0.5, 0.6, 0.7]}))
    assert not re.search(r"https?:|//[a-z]", made)
    assert not re.search(r"@import|url\(", made)
    elements = Elements(made).elements
    links = {attributes[name] for _, attributes in elements for name in ("href", "src") if name in attributes}
    targets = {f"#{attributes['id']}" for _, attributes in elements if "id" in attributes}
    assert links - {"data:,"} == targets
    assert "script" not in {name for name, _ in elements}
    policy = next(a["content"] for name, a in elements if name == "meta" and "http-equiv" in a)
    assert policy is not None
    assert "default-src 'none'" in policy


def test_the_page_can_be_found_through_by_headings_captions_and_names_of_pictures(tmp_path: Path) -> None:
    made = page_of(make_sweep(tmp_path, {"fedavg": [0.7, 0.8, 0.9], "local": [0.5, 0.6, 0.7]}))
    elements = Elements(made).elements
    assert 1 == len([name for name, _ in elements if name == "h1"])
    assert made.count("<table") == made.count("<caption>")
    pictures = re.findall(r'<svg [^>]*role="img"[^>]*>(<title>)?', made)
    assert pictures
    assert all(pictures)
    hidden = [attributes for name, attributes in elements if name == "svg" and attributes.get("role") != "img"]
    assert all("true" == attributes.get("aria-hidden") for attributes in hidden)


def test_the_same_runs_give_the_same_bytes(tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path / "sweep", {"fedavg": [0.7, 0.8, 0.9], "scaffold": [0.75, 0.8, 0.8]})
    first = write_report([sweep], tmp_path / "one" / "report.html").read_bytes()
    again = write_report([sweep], sweep / "report.html")
    assert first == again.read_bytes()
    assert str(tmp_path).encode() not in first
    before = again.stat().st_mtime_ns
    assert before == write_report([sweep], sweep / "report.html").stat().st_mtime_ns


def test_twelve_runs_of_two_hundred_rounds_stay_below_two_megabytes(tmp_path: Path) -> None:
    sites = [f"site-{number:03}" for number in range(100)]
    labels = [f"label {number}" for number in range(40)]
    each = {site: (index * 37 % 100) / 100 for index, site in enumerate(sites)}
    for method in ("fedavg", "fedprox", "scaffold", "feddyn"):
        for seed in range(3):
            values = [0.9 - 0.5 / (1 + number / 20) + 0.013 * seed for number in range(200)]
            make_run(tmp_path / f"{method}{seed}", method, seed, values, sites=sites, labels=labels, each=each)
    assert len(page_of(tmp_path).encode()) < 2_000_000


# figures


def test_figures_read_as_in_print() -> None:
    assert ["0.1235", "−0.1235", "0.0000", "1,234.5"] == [
        figure(0.12345678),
        figure(-0.12345678),
        figure(-1e-9),
        figure(1234.5, 1),
    ]
    assert ["+0.10", "−0.10", "0.00"] == [signed(0.1, 2), signed(-0.1, 2), signed(0.0, 2)]
    assert ["0.50\xa0±\xa00.10", "0.50", "—"] == [
        plus_minus(Spread(2, 0.5, 0.1), 2),
        plus_minus(Spread(1, 0.5), 2),
        plus_minus(None),
    ]
    assert ["p\xa0<\xa00.001", "p\xa0=\xa00.012", "p\xa0=\xa00.500"] == [describe_p(p) for p in (0.0002, 0.012, 0.5)]
    sizes = {
        0: "0 bytes",
        1: "1 byte",
        999: "999 bytes",
        1000: "1.00 kB",
        12345: "12.3 kB",
        1.4e6: "1.40 MB",
        5e9: "5.00 GB",
    }
    assert list(sizes.values()) == [bytes_of(size) for size in sizes]
    assert ["100 kB", "1.00 MB"] == [bytes_of(99_960), bytes_of(999_999.7)]


# the command


def test_report_writes_beside_the_run_or_where_it_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    one, two = make_run(tmp_path / "one"), make_run(tmp_path / "two", "scaffold")
    for arguments, expected in (
        ([one], one / "report.html"),
        ([one, two], Path("report.html")),
        ([one, "--out", tmp_path / "x" / "y.html"], tmp_path / "x" / "y.html"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["report", *map(str, arguments)])
        assert (0, f"the report is in {expected}\n") == (ended.value.code, capsys.readouterr().out)
        assert expected.read_text().startswith("<!DOCTYPE html>")


def test_report_refuses_what_is_no_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["report", str(tmp_path)])
    assert 2 == ended.value.code
    assert "holds no run" in capsys.readouterr().err


def test_a_run_and_a_grid_end_with_their_report(tmp_path: Path) -> None:
    path = small_study(tmp_path)
    ended = cli("run", path, "--out", "run", "--workers", 1, "--quiet", cwd=tmp_path, report=True)
    assert (0, "") == (ended.code, ended.err)
    assert "the report is in run/report.html" in ended.out.splitlines()
    assert "fedavg reached" in words_of((tmp_path / "run" / "report.html").read_text())
    grid = small_study(tmp_path, "grid.toml", seeds=[1, 2], rounds=2, grid={"method.lr": [0.1, 0.2]})
    ended = cli("run", grid, "--out", "grid", "--workers", 2, "--quiet", cwd=tmp_path, report=True)
    assert (0, "") == (ended.code, ended.err)
    assert "the runs are in grid, a folder for each cell; the first is grid/" in ended.out
    assert ended.out.endswith("the report is in grid/report.html\n")
    assert "Of 2 federated methods, fedavg, lr = 0." in words_of((tmp_path / "grid" / "report.html").read_text())
    assert [tmp_path / "grid" / "report.html"] == list((tmp_path / "grid").rglob("report.html"))


def test_a_report_that_fails_does_not_spoil_the_run(tmp_path: Path) -> None:
    path = small_study(tmp_path)
    assert 0 == cli("run", path, "--out", "run", "--quiet", "--workers", 1, cwd=tmp_path).code
    (tmp_path / "run" / "report.html").mkdir()
    ended = cli("run", path, "--out", "run", "--quiet", "--workers", 1, "--resume", cwd=tmp_path, report=True)
    assert 0 == ended.code
    assert "the run is complete, but its report could not be written" in ended.err
    assert "wardround report run" in ended.err


def test_of_many_methods_the_best_are_drawn_and_all_are_listed(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / f"{mu}", using={"mu": mu}, values=[0.1, mu / 100]) for mu in range(30, 10, -1)] + [
        make_run(tmp_path / "local", "local", values=[0.1, 0.12])
    ]
    made = page_of(*runs)
    assert "Shown are the 12 best of 20 methods; the figures of all are in Results." in words_of(made)
    curves = made[made.index('id="curves"') : made.index('id="communication"')]
    drawn = re.findall(r"<span>fedavg, mu = (\d+)</span>", curves)
    assert list(range(19, 31)) == sorted(map(int, drawn))
    assert "<span>local</span>" in curves
    assert 20 == len(set(re.findall(r"fedavg, mu = (\d+)<", made[: made.index('id="curves"')])))
    assert "Shown are" not in words_of(page_of(*runs[:12]))
    going = [make_run(tmp_path / f"going-{mu}", using={"mu": mu}, finished=False) for mu in range(20)]
    made = page_of(*going, *runs[:2])
    assert "Shown are 12, the finished ones first, of 22 methods" in words_of(made)
    assert 12 == len(re.findall(r"<li>", made[made.index('id="curves"') : made.index('id="communication"')]))
