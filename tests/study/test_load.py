"""A study file is checked whole before anything is done: what is wrong with it, where, and what to do instead."""

import math
from pathlib import Path
from typing import Any

import pytest

from encoder_folders import tiny_encoder
from study_files import cli, small_study, write_module
from wardround.methods import ELSEWHERE, METHODS
from wardround.study.load import cells, load_study
from wardround.study.settings import StudyError

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "rounds 0": ({"rounds": 0}, "rounds = 0: should be greater than or equal to 1"),
    "rounds -1": ({"rounds": -1}, "rounds = -1: should be greater than or equal to 1"),
    "rounds NaN": ({"rounds": math.nan}, "rounds = NaN: should be a valid integer"),
    "rounds infinite": ({"rounds": math.inf}, "rounds = Infinity: should be a valid integer"),
    "rounds 2.5": ({"rounds": 2.5}, "rounds = 2.5: should be a valid integer"),
    "rounds text": ({"rounds": "3"}, "rounds = '3': should be a valid integer"),
    "rounds yes": ({"rounds": True}, "rounds = true: should be a valid integer"),
    "no rounds": ({"rounds": None}, "rounds is missing"),
    "no method": ({"method": None}, "method is missing"),
    "unknown key": ({"round": 3}, "round is unknown; did you mean 'rounds'?"),
    "unknown key in a table": ({"method": {"lrr": 1}}, "method.lrr is unknown; did you mean 'lr'?"),
    "unknown key far from any": (
        {"sites": {"xyz": 1}},
        "sites.xyz is unknown; known: fraction, per_round, private, quorum, share",
    ),
    "key of the corpus in the task": (
        {"task": {"name": "classification", "labels": ["a"]}, "corpus": {"format": "csv", "train": "a", "test": "b"}},
        "task.labels is unknown; it belongs in [corpus]; move it there",
    ),
    "key of the study in a table": (
        {"method": {"rounds": 3}},
        "method.rounds is unknown; it belongs at the top of the file, above all tables; move it there",
    ),
    "key of a table at the top": ({"fraction": 0.5}, "fraction is unknown; it belongs in [sites] or in [public]; move"),
    "mistyped as another table's": ({"method": {"epoch": 3}}, "method.epoch is unknown; did you mean 'epochs'?"),
    "unknown method": ({"method": {"name": "fedavgg"}}, "method.name = 'fedavgg' is unknown; did you mean 'fedavg'?"),
    "unknown corpus": ({"corpus": {"name": "sythetic"}}, "corpus.name = 'sythetic' is unknown; did you mean"),
    "unknown task": ({"task": {"name": "feature"}}, "task.name = 'feature' is unknown; did you mean 'features'?"),
    "unknown partition": ({"partition": {"name": "iiid", "sites": 3}}, "partition.name = 'iiid' is unknown; did you"),
    "unknown choice": (
        {"method": {"optimizer": "adamm"}},
        "method.optimizer = 'adamm': should be 'sgd', 'adam' or 'adamw'",
    ),
    "a share for files": (
        {"corpus": {"format": "conll", "train": "a", "test": "b", "valid": 0.1}},
        "corpus.valid = 0.1: should name files; a share of the training examples is share = 0.1 in [validation]",
    ),
    "a value for a table": ({"method": "fedavg"}, "method = 'fedavg': should be a table"),
    "NaN in a number": ({"method": {"lr": math.nan}}, "method.lr = NaN: should be a finite number"),
    "infinity in a number": ({"method": {"lr": math.inf}}, "method.lr = Infinity: should be a finite number"),
    "NaN in a list": ({"method": {"betas": [0.9, math.nan]}}, "method.betas.1 = NaN: should be a finite number"),
    "NaN in the corpus": ({"corpus": {"alpha": math.nan}}, "corpus.alpha = NaN: should be a finite number"),
    "learning rate 0": ({"method": {"lr": 0}}, "method.lr = 0: should be greater than 0"),
    "settings that do not go together": (
        {"method": {"name": "scaffold", "optimizer": "adam"}},
        'method: scaffold\'s controls are mean gradients of SGD steps; set optimizer = "sgd"',
    ),
    "C of 0": ({"sites": {"fraction": 0.0}}, "sites.fraction = 0.0: should be greater than 0"),
    "C above 1": ({"sites": {"fraction": 1.5}}, "sites.fraction = 1.5: should be less than or equal to 1"),
    "C of NaN": ({"sites": {"fraction": math.nan}}, "sites.fraction = NaN: should be a finite number"),
    "quorum 0": ({"sites": {"quorum": 0}}, "sites.quorum = 0: should be greater than or equal to 1"),
    "quorum above the sites": (
        {"sites": {"quorum": 4}},
        "sites.quorum = 4, but 3 of 3 sites take part",
    ),
    "quorum above the cohort": (
        {"sites": {"quorum": 3, "fraction": 0.67}},
        "sites.quorum = 3, but 2 of 3 sites take part in a round; lower it",
    ),
    "more per round than there are": (
        {"sites": {"per_round": 4}},
        "sites.per_round = 4, but there are 3 sites; lower it",
    ),
    "a corpus without what the task takes": (
        {"corpus": {"name": "clinic"}, "task": {"name": "relation"}},
        "set corpus.name = 'clinic-pairs', or task.name = 'classification' or 'tagging'",
    ),
    "no sites": ({"corpus": {"sites": 0}}, "corpus: sites is 0: use 1 or more"),
    "a partition that cannot be": (
        {"partition": {"name": "dirichlet", "sites": 30, "alpha": 0.1, "min_per_site": 50}},
        "cannot give that many to each of 30 sites: lower min_per_site or use fewer sites",
    ),
    "a run name that climbs": ({"name": "../../x"}, "name = '../../x' becomes a folder's name; use up to 100 letters"),
    "a run name with dots": ({"name": "a..b"}, "name = 'a..b' becomes a folder's name"),
    "a run name with a slash": ({"name": "/etc/x"}, "name = '/etc/x' becomes a folder's name"),
    "a run name with a backslash": ({"name": "a\\b"}, "name = 'a\\\\b' becomes a folder's name"),
    "an empty run name": ({"name": ""}, "name = '' becomes a folder's name"),
    "a run name too long for a folder": ({"name": "x" * 300}, "becomes a folder's name; use up to 100 letters"),
    "a number for a name": ({"name": 3}, "name = 3: should be a valid string"),
    "evaluation never": ({"evaluation": {"every": 0}}, "evaluation.every = 0: should be greater than or equal to 1"),
    "evaluation of nothing": ({"evaluation": {"splits": []}}, "evaluation.splits = []: "),
    "an unknown split": ({"evaluation": {"splits": ["tst"]}}, "evaluation.splits.0 = 'tst': should be 'test', 'train'"),
    "a split that sites lack": ({"evaluation": {"splits": ["valid"]}}, "evaluation.splits has 'valid', but the sites"),
    "a target of NaN": ({"stop": {"target": math.nan}}, "stop.target = NaN: should be a finite number"),
    "no target": ({"stop": {"metric": "loss"}}, "stop.target is missing"),
    "a target for an unknown metric": (
        {"stop": {"metric": "acuracy", "target": 0.5, "on_test_figures": True}},
        "stop.metric = 'acuracy' is not measured; known: accuracy, macro_f1, loss",
    ),
    "a target on a split that is not tried": (
        {"stop": {"metric": "train_loss", "target": 0.5}},
        (
            "stop.metric = 'train_loss' is not measured; known: accuracy, macro_f1, loss, examples; "
            "add evaluation.splits = ['test', 'train']"
        ),
    ),
    "a target on validation texts that nobody sets aside": (
        {"stop": {"metric": "valid_accuracy", "target": 0.5}},
        "stop.metric = 'valid_accuracy' is of validation texts, and none are tried; add [validation], with share = 0.1",
    ),
    "a target on the test split": (
        {"stop": {"target": 0.5}},
        (
            "stop.metric = 'accuracy' is a figure of the test split, which would then look better than it is: choose "
            "the round with [validation], or add [validation] and stop by stop.metric = 'valid_accuracy'; stop.early = "
            "false only notes it, and stop.on_test_figures = true stops all the same"
        ),
    ),
    "no validation examples": (
        {"validation": {}},
        (
            '[validation]: the corpus has no validation split; name files with valid = "…" in [corpus], or set some '
            "aside with validation.share = 0.1"
        ),
    ),
    "a validation share of nothing": ({"validation": {"share": 0}}, "validation.share = 0: should be greater than 0"),
    "a validation share of all": ({"validation": {"share": 1.2}}, "validation.share = 1.2: should be less than 1"),
    "a validation share of NaN": ({"validation": {"share": math.nan}}, "validation.share = NaN: should be a finite"),
    "sites too small to validate": (
        {"validation": {"share": 0.01}},
        "[validation]: validation.share = 0.01 by document leaves every site without one; raise it",
    ),
    "validation by nobody": ({"validation": {"by": "ward"}}, "validation.by = 'ward': should be 'document', 'source'"),
    "validation by patients nobody names": (
        {"validation": {"share": 0.2, "by": "patient"}},
        'validation.by: there is an example without a patient; name its column with patient = "…" in [corpus]',
    ),
    "an unknown figure to choose by": (
        {"validation": {"share": 0.2, "metric": "acuracy"}},
        "validation.metric = 'acuracy' is not measured; known: accuracy, macro_f1, loss",
    ),
    "no patience": (
        {"validation": {"share": 0.2, "patience": 0}},
        "validation.patience = 0: should be greater than or equal to 1",
    ),
    "a negative seed": ({"seed": -1}, "seed = -1: should be greater than or equal to 0"),
    "a seed of NaN": ({"seed": math.nan}, "seed = NaN: should be a valid integer"),
    "no seeds": ({"seeds": []}, "seeds = []: "),
    "seeds that are no list": ({"seeds": 3}, "seeds = 3: should be a valid array"),
    "a seed twice": ({"seeds": [1, 1]}, "grid: two cells are both called 'seed=1'; list each value once"),
    "a grid that is no table": ({"grid": 3}, 'grid = 3: should be a table of lists, e.g. "method.mu" = [0.01, 0.1]'),
    "a grid without a list": ({"grid": {"method.lr": 3}}, "grid.method.lr = 3: should be a list of values, e.g. "),
    "a grid with an empty list": ({"grid": {"method.lr": []}}, "grid.method.lr = []: should be a list of values"),
    "a grid with a wrong value": ({"grid": {"method.lr": [0.1, -1.0]}}, "method.lr = -1.0: should be greater than 0"),
    "a grid with an unknown key": ({"grid": {"methd.lr": [1.0]}}, "methd is unknown; did you mean 'method'?"),
    "a grid below a value": ({"grid": {"name.x": [1]}}, "grid: name.x cannot be set: name = 'small' is a value"),
    "a module that is not there": (
        {"method": {"name": "nowhere:Mine"}},
        "method.name = 'nowhere:Mine' cannot be imported: No module named 'nowhere'; looked beside the study file",
    ),
    "a class that is not there": ({"method": {"name": "json:Mine"}}, "module 'json' has no attribute 'Mine'"),
    "a class that is no method": ({"method": {"name": "json:JSONDecoder"}}, "method.name = 'json:JSONDecoder' is not "),
}


@pytest.mark.parametrize(("changes", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_study_ends_with_one_message_and_code_2_and_leaves_nothing(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    path = small_study(tmp_path, **changes)
    ended = cli("run", path, "--workers", 1, cwd=tmp_path)
    first, *problems = ended.err.removeprefix("small: reading the data\n").splitlines()
    assert (2, f"{path}: 1 problem", 1) == (ended.code, first, len(problems))
    assert message in problems[0]
    assert [path] == list(tmp_path.rglob("*"))


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    path = small_study(
        tmp_path, rounds=0, nam="x", sites={"quorum": 0, "frction": 0.5}, method={"lr": -1}, grid={"seed": 4}
    )
    expected = [
        f"{path}: 6 problems",
        'grid.seed = 4: should be a list of values, e.g. "method.mu" = [0.01, 0.1]',
        "rounds = 0: should be greater than or equal to 1",
        "sites.quorum = 0: should be greater than or equal to 1",
        "sites.frction is unknown; did you mean 'fraction'?",
        "nam is unknown; did you mean 'name'?",
        "method.lr = -1: should be greater than 0",
    ]
    assert expected == [line.strip() for line in cli("run", path, cwd=tmp_path).err.splitlines()]


def test_what_is_wrong_with_generated_hospitals_is_told_beside_the_rest(tmp_path: Path) -> None:
    wrong = {"name": "clinic", "documents": -3, "noise": 2.0}
    path = small_study(tmp_path, method={"name": "fedavgg"}, corpus=wrong)
    with pytest.raises(StudyError) as told:
        load_study(path)
    assert {"method.name", "corpus.documents", "corpus.noise"} == {one.split(" ")[0] for one in told.value.problems}


def test_a_setting_of_several_types_is_told_once_with_all_of_them(tmp_path: Path) -> None:
    task = {"name": "relation", "layers": 0, "freeze": "some"}
    path = small_study(tmp_path, task=task)
    expected = [
        f"{path}: 2 problems",
        "task.layers = 0: should be greater than or equal to 1, or should be 'all'",
        "task.freeze = 'some': should be a valid integer, or should be 'nothing'",
    ]
    ended = cli("run", path, cwd=tmp_path)
    assert expected == [line.strip() for line in ended.err.splitlines()]


def test_a_problem_of_many_cells_is_told_once(tmp_path: Path) -> None:
    path = small_study(tmp_path, rounds=0, seeds=[1, 2, 3])
    assert (
        f"{path}: 1 problem\n  rounds = 0: should be greater than or equal to 1\n" == cli("run", path, cwd=tmp_path).err
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty; a study has at least name, rounds, method, task, corpus"),
        (b"# nothing yet\n", "the file is empty; a study has at least name, rounds, method, task, corpus"),
        (b'name = "x"\nrounds = = 3\n', "not valid TOML: Invalid value (at line 2, column 10)"),
        (b'name = "x"\nname = "y"\n', "(at line 2, column"),
        (b'name = "x"\n[method\n', "(at line 2, column"),
        (b"\x80\x02pickle", "a study is a text file in UTF-8"),
        ('name = "ä"'.encode("latin-1"), "a study is a text file in UTF-8"),
        ('name = "x"'.encode("utf-16"), "a study is a text file in UTF-8"),
        (b'name = "x\0"', "not valid TOML: Illegal character"),
    ],
    ids=["empty", "only a comment", "syntax", "twice", "open table", "binary", "Latin-1", "UTF-16", "NUL"],
)
def test_a_file_that_is_no_study_is_named_with_the_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "study.toml"
    path.write_bytes(content)
    ended = cli("run", path, cwd=tmp_path)
    assert (2, f"{path}: 1 problem") == (ended.code, ended.err.splitlines()[0])
    assert message in ended.err


def test_a_missing_file_is_answered_with_the_nearest_one(tmp_path: Path) -> None:
    small_study(tmp_path)
    expected = "stdy.toml: 1 problem\n  there is no such file; did you mean study.toml?\n"
    assert expected == cli("run", "stdy.toml", cwd=tmp_path).err


def test_a_folder_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    ended = cli("run", tmp_path, cwd=tmp_path)
    assert 2 == ended.code
    assert "a study is a text file in UTF-8" in ended.err


def test_windows_line_ends_and_a_byte_order_mark_do_no_harm(tmp_path: Path) -> None:
    path = small_study(tmp_path)
    plain = load_study(path)[0].study
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert plain.fingerprint == load_study(path)[0].study.fingerprint


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def broken(:\n", "cannot be imported: invalid syntax (mine.py, line 1)"),
        ("\nx = 1 / 0\n", "cannot be imported: ZeroDivisionError: division by zero (mine.py:2)"),
        ("Mine = 3\n", "method.name = 'mine:Mine' is not "),
        ("class Mine: pass\n", "method.name = 'mine:Mine' is not "),
    ],
)
def test_a_users_module_that_does_not_work_is_told_with_its_line(tmp_path: Path, source: str, message: str) -> None:
    write_module(tmp_path, source)
    path = small_study(tmp_path, method={"name": "mine:Mine"})
    ended = cli("run", path, cwd=tmp_path)
    assert (2, True) == (ended.code, message in ended.err)


# --set


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("method.lr=0.25", 0.25),
        ("method.lr = 1", 1.0),
        ("method.optimizer=adam", "adam"),
        ('method.optimizer="adam"', "adam"),
        ('evaluation.splits=["train", "test"]', ["train", "test"]),
        ("sites.fraction=0.5", 0.5),
        ("evaluation.each=true", True),
        ("name=other", "other"),
        ("seed=3", 3),
    ],
)
def test_set_changes_one_setting(tmp_path: Path, change: str, expected: object) -> None:
    actual: Any = load_study(small_study(tmp_path), [change])[0].study.resolved
    for part in change.partition("=")[0].strip().split("."):
        actual = actual[part]
    assert expected == actual


def test_set_lays_a_table_over_the_one_that_is_there(tmp_path: Path) -> None:
    method = load_study(small_study(tmp_path), ["method={name='fedprox', mu=0.5}"])[0].study.resolved["method"]
    assert ("fedprox", 0.5, 0.1) == (method["name"], method["mu"], method["lr"])


def test_an_empty_grid_on_the_command_line_leaves_one_run(tmp_path: Path) -> None:
    path = small_study(tmp_path, grid={"method.lr": [0.1, 0.2]})
    assert [""] == [cell.label for cell in load_study(path, ["grid={}"])]


@pytest.mark.parametrize("key", ["grid.method.lr", 'grid."method.lr"'])
def test_set_changes_a_list_of_the_grid(tmp_path: Path, key: str) -> None:
    path = small_study(tmp_path, grid={"method.lr": [0.1, 0.2]})
    assert [0.3] == [cell.study.resolved["method"]["lr"] for cell in load_study(path, [f"{key}=[0.3]"])]


def test_the_last_set_wins(tmp_path: Path) -> None:
    assert 5 == load_study(small_study(tmp_path), ["rounds=4", "rounds=5"])[0].study.rounds


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("rounds", "--set rounds: 1 problem\n  write it as key=value, e.g. --set method.mu=0.1\n"),
        (
            "name.x=3",
            "--set name.x=3: 1 problem\n  name.x cannot be set: name = 'small' is a value, not a table\n",
        ),
        ("rounds=", "study.toml: 1 problem\n  rounds = '': should be a valid integer\n"),
        ("rounds=nan", "study.toml: 1 problem\n  rounds = NaN: should be a valid integer\n"),
        ("rouns=3", "study.toml: 1 problem\n  rouns is unknown; did you mean 'rounds'?\n"),
    ],
)
def test_a_wrong_set_is_told_like_a_wrong_file(tmp_path: Path, change: str, expected: str) -> None:
    small_study(tmp_path)
    ended = cli("run", "study.toml", "--set", change, cwd=tmp_path)
    assert (2, expected) == (ended.code, ended.err)


# grid and seeds


def test_a_study_without_a_grid_is_one_cell(tmp_path: Path) -> None:
    assert [""] == [cell.label for cell in load_study(small_study(tmp_path))]


def test_a_grid_gives_every_combination_and_seeds_are_one_more_list(tmp_path: Path) -> None:
    path = small_study(
        tmp_path,
        seeds=[1, 2],
        grid={"method": [{"name": "fedavg"}, {"name": "fedprox", "mu": 0.5}], "sites.fraction": [0.5, 1.0]},
    )
    expected = [
        "fedavg,fraction=0.5,seed=1",
        "fedavg,fraction=0.5,seed=2",
        "fedavg,fraction=1.0,seed=1",
        "fedavg,fraction=1.0,seed=2",
        "fedprox,mu=0.5,fraction=0.5,seed=1",
        "fedprox,mu=0.5,fraction=0.5,seed=2",
        "fedprox,mu=0.5,fraction=1.0,seed=1",
        "fedprox,mu=0.5,fraction=1.0,seed=2",
    ]
    cells = load_study(path)
    assert expected == [cell.label for cell in cells]
    assert [0.5, 0.5, 1.0, 1.0] * 2 == [cell.study.sites.fraction for cell in cells]
    assert [1, 2] * 4 == [cell.study.seed for cell in cells]


def test_each_seed_draws_its_own_data(tmp_path: Path) -> None:
    assert [4, 5] == [cell.study.corpus.seed for cell in load_study(small_study(tmp_path, seeds=[4, 5]))]


def test_a_cells_label_is_a_harmless_folder_name(tmp_path: Path) -> None:
    path = small_study(tmp_path, grid={"description": ["../../x y", "b/c"], "sites": [{}, {"per_round": 2}]})
    expected = [
        "description=..-..-x-y,sites",
        "description=..-..-x-y,per_round=2",
        "description=b-c,sites",
        "description=b-c,per_round=2",
    ]
    assert expected == [cell.label for cell in load_study(path)]


# the resolved study


@pytest.mark.parametrize("method", METHODS)
def test_a_resolved_study_loads_as_the_same_study(tmp_path: Path, method: str) -> None:
    path = small_study(
        tmp_path,
        method={"name": method},
        partition={"name": "source"},
        stop={"target": 0.5, "early": False},
        validation={"share": 0.2},
    )
    study = load_study(path)[0].study
    again = tmp_path / "again.toml"
    again.write_text(study.toml(), encoding="utf-8")
    reloaded = load_study(again)[0].study
    assert (study.fingerprint, study.resolved) == (reloaded.fingerprint, reloaded.resolved)
    assert (study.method, study.corpus, study.partition) == (reloaded.method, reloaded.corpus, reloaded.partition)


def test_a_fingerprint_is_of_what_decides_the_result_and_nothing_else(tmp_path: Path) -> None:
    path = small_study(tmp_path)

    def fingerprint(*changes: str) -> str:
        return load_study(path, changes)[0].study.fingerprint

    assert fingerprint() == fingerprint("rounds=9", "name=other", "description=new")
    others = ["seed=8", "method.lr=0.2", "corpus.sites=4", "sites.fraction=0.5", "evaluation.every=2"]
    others += ["stop={target=1, early=false}", "validation.share=0.1", "validation.share=0.2", "validation.patience=3"]
    assert len(others) + 1 == len({fingerprint(), *(fingerprint(other) for other in others)})


def test_a_study_error_lists_its_problems(tmp_path: Path) -> None:
    with pytest.raises(StudyError) as caught:
        load_study(small_study(tmp_path, rounds=0, seed=-1))
    assert 2 == len(caught.value.problems)


def test_a_pull_that_diverges_whatever_the_data_is_refused_with_the_largest_that_does_not() -> None:
    tables: dict[str, Any] = {
        "name": "pulled",
        "rounds": 1,
        "corpus": {"name": "clinic"},
        "task": {"name": "classification"},
        "method": {"name": "fedprox", "mu": 1.0, "lr": 8.0},
    }
    with pytest.raises(StudyError, match=r"mu = 1 with lr = 8 diverges .* set mu below 0.25"):
        cells(tables)
    tables["method"] = {"name": "fedprox", "mu": 1.0, "optimizer": "adam"}
    assert 0.02 == cells(tables)[0].study.resolved["method"]["lr"]


@pytest.mark.parametrize(("name", "mu", "lr"), [("fedprox", 0.1, 1.0), ("fedpa", 0.001, 8.0), ("fedprox", 0.0, 8.0)])
def test_a_rate_that_a_study_leaves_open_does_not_outrun_the_pull(name: str, mu: float, lr: float) -> None:
    tables: dict[str, Any] = {
        "name": "pulled",
        "rounds": 1,
        "corpus": {"name": "clinic"},
        "task": {"name": "classification"},
        "method": {"name": name, "mu": mu},
    }
    assert lr == cells(tables)[0].study.resolved["method"]["lr"]


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ({"name": "fedavg"}, ("sgd", 8.0, 16)),
        ({"name": "fedavg", "batch": 4}, ("sgd", 8.0, 4)),
        ({"name": "fedavg", "lr": 2.0}, ("sgd", 2.0, 10)),
        ({"name": "fedavg", "optimizer": "adam"}, ("adam", 0.02, 16)),
        ({"name": "fedpap"}, ("adam", 0.02, 16)),
    ],
    ids=str,
)
def test_a_rate_that_a_study_leaves_open_is_the_one_that_suits_the_model(
    method: dict[str, Any], expected: tuple[str, float, int]
) -> None:
    tables = {"name": "open", "rounds": 1, "corpus": {"name": "clinic"}, "task": {"name": "classification"}}
    told = cells({**tables, "method": method})[0].study.resolved["method"]
    assert expected == (told["optimizer"], told["lr"], told["batch"])


@pytest.mark.parametrize(
    ("method", "task", "expected"),
    [
        ({"name": "fedavg"}, {}, 2),
        ({"name": "local"}, {}, 2),  # as far from its optimum as a site of a federation
        ({"name": "fedavg", "epochs": 3}, {}, 3),
        ({"name": "fedavg", "lr": 2.0}, {}, 1),  # a rate of one's own brings nothing else along
        ({"name": "fedavg", "steps": 5}, {}, 1),  # no passes are counted
        ({"name": "fedavg", "optimizer": "adam"}, {}, 1),
        ({"name": "fedavg"}, {"weighting": "none"}, 1),
        ({"name": "centralised"}, {}, 1),  # one pass over all notes
        ({"name": "fedsgd"}, {}, 1),  # one step
    ],
    ids=str,
)
def test_a_site_with_a_weighed_bag_of_words_goes_twice_over_its_texts_in_a_round(
    method: dict[str, Any], task: dict[str, Any], expected: int
) -> None:
    tables = {"name": "open", "rounds": 1, "corpus": {"name": "clinic"}, "task": {"name": "classification", **task}}
    assert expected == cells({**tables, "method": method})[0].study.resolved["method"]["epochs"]


@pytest.mark.parametrize(
    ("method", "unsaid"),
    [
        ({"lr": 0.01}, "optimizer = 'sgd', batch = 10, epochs = 1;"),
        ({"lr": 0.01, "optimizer": "adam", "batch": 8}, "epochs = 1;"),
        ({"lr": 0.01, "optimizer": "adam", "batch": 8, "epochs": 2}, ""),
        ({"lr": 0.01, "optimizer": "adam", "batch": 8, "steps": 3}, ""),
        ({"batch": 4}, ""),
    ],
)
def test_a_rate_of_ones_own_says_what_else_is_not_filled_in(method: dict[str, Any], unsaid: str) -> None:
    """A grid over `lr` alone trained taggers by SGD, in other batches and half the passes, without a word."""
    tables = {"name": "n", "rounds": 2, "corpus": {"name": "clinic"}, "task": {"name": "tagging"}}
    notes = cells({**tables, "method": {"name": "fedavg", **method}})[0].study.notes
    words = (
        f"not filled in beside it: {unsaid} measured together: optimizer = 'adam', lr = 0.003, batch = 8, epochs = 2"
    )
    assert [words] * bool(unsaid) == [note.partition("model is ")[2] for note in notes]


def test_adapters_and_heads_have_rates_of_their_own(tmp_path: Path) -> None:
    task = {"name": "tagging", "model": "encoder", "encoder": str(tiny_encoder(tmp_path))}
    tables = {"name": "open", "rounds": 1, "corpus": {"name": "clinic"}, "method": {"name": "fedavg"}}
    heads = ({"freeze": 2}, 3e-3), ({"freeze": 1, "layers": 1}, 3e-3), ({"freeze": 1}, 5e-5)
    for more, rate in (({}, 5e-5), ({"adapter": {"rank": 2}}, 3e-4), *heads):
        settings = cells({**tables, "task": {**task, **more}})[0].study.resolved["method"]
        assert ("adam", rate) == (settings["optimizer"], settings["lr"])


@pytest.mark.parametrize(
    ("corpus", "task", "method", "expected"),
    [
        ("clinic", "tagging", "fedavg", ("adam", 0.003, 8, 2)),
        ("clinic", "tagging", "centralised", ("adam", 0.003, 8, 1)),
        ("clinic", "tagging", "scaffold", ("sgd", 0.03, 8, 2)),  # which is for SGD alone
        ("clinic", "tagging", "fednova", ("sgd", 0.03, 8, 2)),
        ("clinic-bags", "bags", "fedavg", ("sgd", 0.3, 16, 1)),
    ],
)
def test_taggers_and_bags_have_rates_of_their_own(
    corpus: str, task: str, method: str, expected: tuple[str, float, int, int]
) -> None:
    tables = {"name": "open", "rounds": 1, "corpus": {"name": corpus}, "task": {"name": task}}
    settings = cells({**tables, "method": {"name": method}})[0].study.resolved["method"]
    local = settings.get("optimizer", "sgd"), settings["lr"], settings["batch"], settings.get("epochs", 1)
    assert expected == local


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("ccvr", '[finish] head = "ccvr"'), ("CCVR", '[finish] head = "ccvr"'), ("lora", "task.adapter = { rank = 8 }"),
        ("krum", '[robust] rule = "krum"'), ("dp_sgd", "[privacy.dp]"), ("forget", "wardround model forget RUN SITE"),
        ("secagg", "[privacy] secure_aggregation = true"),
    ],
)  # fmt: skip
def test_what_is_no_method_but_something_else_here_is_named(name: str, place: str) -> None:
    assert not ELSEWHERE.keys() & METHODS.keys()
    tables = {"name": "x", "rounds": 1, "method": {"name": name}, "task": {"name": "features"},
              "corpus": {"name": "synthetic"}}  # fmt: skip
    with pytest.raises(StudyError) as refused:
        cells(tables)
    assert f"method.name = {name!r} is no method but " in str(refused.value)
    assert place in str(refused.value)
