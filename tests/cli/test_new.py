"""`wardround new` writes a study that runs, for files in any format, and nothing where it would have to guess."""

import json
import re
import shlex
import tomllib
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import pytest

from canaries import documents, written
from study_files import cli
from wardround.corpora.views import RelatedPairs
from wardround.federation.sites import opened
from wardround.study.load import load_study
from wardround.text.document import Document
from wardround.text.reading import Problems
from wardround.text.texts import Texts

SMALL = ("model=cnn-crf", "buckets=50", "embedding=4", "filters=4")


def halves(folder: Path, form: str, notes: list[Document] | None = None) -> Path:
    mine = documents(30) if notes is None else notes
    written(folder, form, mine[:20])
    written(folder, form, mine[20:], "test")
    return folder


def read(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("form", "task"),
    [("csv", "classification"), ("jsonl", "classification"), ("conll", "tagging"), ("brat", "tagging")],
)
def test_a_study_is_written_that_runs(form: str, task: str, tmp_path: Path) -> None:
    halves(tmp_path / "notes", form)
    ended = cli("new", "notes", *(() if form in ("csv", "conll") else ("--task", task)), cwd=tmp_path)
    assert (0, True) == (ended.code, "run it: wardround run study.toml" in ended.out), ended
    tables = read(tmp_path / "study.toml")
    assert (task, form, "fedavg") == (tables["task"]["name"], tables["corpus"]["format"], tables["method"]["name"])
    by_source = form != "brat"  # the others say where a note comes from
    assert ({"name": "source"} if by_source else {"name": "iid", "sites": 3}) == tables["partition"]
    key, names = ("labels", ["cold", "flu"]) if task == "classification" else ("types", ["drug", "effect"])
    assert names == tables["corpus"][key]
    changes = [f"--set=task.{change}" for change in SMALL if task == "tagging"]
    ended = cli("run", "study.toml", "--set=rounds=1", *changes, "--workers", 1, cwd=tmp_path)
    assert 0 == ended.code, ended


@pytest.mark.parametrize(
    "names",
    [
        ("train.tsv", "test.tsv", "devel.tsv"),
        ("NER_TrainingSet.tsv", "NER_TestSet.tsv", "NER_DevelopmentSet.tsv"),
        ("a-train.tsv", "a-test.tsv", "a-dev.tsv"),
    ],
)
def test_the_splits_of_published_corpora_are_known_by_name(names: tuple[str, ...], tmp_path: Path) -> None:
    """An official development set was passed over without a word, and a name before `Train` not understood."""
    tagged = "\n\n".join(f"Aspirin{n}\tB-drug\ngave\tO\nrash\tB-effect" for n in range(20)) + "\n"
    for number, name in enumerate((*names, "latest.tsv", "README.md", "device.tsv")):
        (tmp_path / name).write_text(tagged.replace("gave", f"gave{number}"), encoding="utf-8")
    ended = cli("new", ".", "--out", "study.toml", cwd=tmp_path)
    assert 0 == ended.code, ended
    tables = read(tmp_path / "study.toml")
    assert names == tuple(tables["corpus"][split] for split in ("train", "test", "valid"))
    assert "validation" in tables


@pytest.mark.parametrize(
    ("names", "valid"),
    [
        (("train.tsv", "test.tsv", "development-notes.tsv", "requirements-dev.txt"), None),
        (("train.tsv", "test.tsv", "how-to-train.md", "test-results.json", ".~lock.train.tsv#"), None),
        (("train_dev.tsv", "test.tsv"), None),
        (("train.tsv", "test.tsv", "train_dev.tsv", "devel.tsv"), "devel.tsv"),
        (("train-2020.tsv", "test-2021.tsv", "valid-2021.tsv"), "valid-2021.tsv"),
    ],
)
def test_only_names_that_differ_in_the_split_alone_are_splits(
    names: tuple[str, ...], valid: str | None, tmp_path: Path
) -> None:
    """Notes about development became a validation split, train_dev one beside itself, and a lock hid the training."""
    tagged = "\n\n".join(f"Aspirin{n}\tB-drug\ngave\tO\nrash\tB-effect" for n in range(20)) + "\n"
    for number, name in enumerate(names):
        (tmp_path / name).write_text(tagged.replace("gave", f"gave{number}"), encoding="utf-8")
    ended = cli("new", ".", "--out", "study.toml", cwd=tmp_path)
    assert 0 == ended.code, ended
    corpus = read(tmp_path / "study.toml")["corpus"]
    assert (*names[:2], valid) == (corpus["train"], corpus["test"], corpus.get("valid"))


def test_columns_are_filled_in_by_their_usual_names_or_as_given(tmp_path: Path) -> None:
    rows = [f"{note.text},{note.labels[0]}" for note in documents(30)]
    (tmp_path / "a.csv").write_text("\n".join(["Note,ward", *rows[:20]]) + "\n")
    (tmp_path / "b.csv").write_text("\n".join(["Note,ward", *rows[20:]]) + "\n")
    ended = cli("new", "a.csv", "b.csv", "--label-column", "ward", "--out", "new/wards.toml", cwd=tmp_path)
    assert 0 == ended.code, ended
    corpus = read(tmp_path / "new" / "wards.toml")["corpus"]
    assert ("Note", "ward", "../a.csv", "../b.csv") == tuple(corpus[key] for key in ("text", "label", "train", "test"))


def test_a_table_with_semicolons_goes_the_whole_way(tmp_path: Path) -> None:
    """As a spreadsheet of much of Europe exports it: no command asks for another sign, and each tells of this one."""
    rows = [f"{note.text}, {at};{note.labels[0]}" for at, note in enumerate(documents(30))]
    (tmp_path / "a.csv").write_text("\ufeff" + "\n".join(["Befund;ward", *rows[:20]]) + "\n", encoding="utf-8")
    (tmp_path / "b.csv").write_text("\n".join(["Befund;ward", *rows[20:]]) + "\n")
    columns = ("--text-column", "Befund", "--label-column", "ward")
    for words in (
        ("data", "check", "a.csv", *columns, "--task", "classification"),
        ("new", "a.csv", "b.csv", *columns),
        ("run", "study.toml", "--out", "run", "--set=rounds=1", "--workers", 1),
        ("evaluate", "run", "b.csv"),
        ("predict", "run", "b.csv", "--out", "found.jsonl"),
        ("data", "merge", "a.csv", "b.csv", *columns, "--out", "all.jsonl"),
    ):
        ended = cli(*words, cwd=tmp_path)
        told = "semicolons between cells instead of commas" in ended.out + ended.err
        assert (0, True, words) == (ended.code, told, words), ended
    assert 0 == cli("data", "convert", "b.csv", "b.jsonl", "--to", "jsonl", *columns, cwd=tmp_path).code
    assert rows[20].rpartition(";")[0] == json.loads((tmp_path / "b.jsonl").read_text().splitlines()[0])["text"]
    assert 30 == len((tmp_path / "all.jsonl").read_text().splitlines())


def test_a_table_that_could_be_two_needs_its_sign(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("zanzibarine, twice;flu\nzanzibarine, once;cold\n" * 20)
    numbers = ("--text-column", 1, "--label-column", 2)
    ended = cli("data", "check", "a.csv", *numbers, cwd=tmp_path)
    remedy = 'say which of them it is: give --delimiter "," or ";"'
    assert (2, True) == (ended.code, remedy in ended.out), ended
    ended = cli("new", "a.csv", "a.csv", *numbers, "--delimiter", ";", cwd=tmp_path)
    assert (0, ";") == (ended.code, read(tmp_path / "study.toml")["corpus"]["delimiter"]), ended
    assert 2 == cli("data", "check", "a.csv", "--delimiter", ";;", cwd=tmp_path).code
    assert "zanzibarine" not in ended.out + ended.err


def test_what_a_lone_file_needs_is_told_as_commands_with_the_options_that_were_given(tmp_path: Path) -> None:
    rows = [f"{note.text};{note.labels[0]}".replace(",", " ").replace(";", ",") for note in documents(30)]
    (tmp_path / "my notes.csv").write_text("\n".join(["Befund,ward", *rows]) + "\n")
    given = ("--text-column", "Befund", "--label-column", "ward", "--task", "classification", "--out", "w.toml")
    ended = cli("new", "my notes.csv", *given, cwd=tmp_path)
    assert 2 == ended.code
    commands = re.findall("wardround (.+?)(?:, then|; or|$)", ended.err.replace("\n", " "))
    assert 3 == len(commands)
    assert commands[2].split()[1:] == ["TRAIN", "TEST", *given]
    for command in commands[:2]:
        ended = cli(*shlex.split(command), cwd=tmp_path)
        assert 0 == ended.code, ended
    assert "classification" == read(tmp_path / "w.toml")["task"]["name"]


@pytest.mark.parametrize("path", [".", "../my notes", ".."])
def test_a_folder_is_named_as_the_shell_stands_in_it(path: str, tmp_path: Path) -> None:
    inner = tmp_path / "my notes" / ("inner" if path == ".." else "")
    inner.mkdir(parents=True)
    written(tmp_path / "my notes", "csv", documents(30))
    ended = cli("new", path, cwd=inner)
    assert (2, "") == (ended.code, ended.out), ended
    for command in re.findall("wardround (.+?)(?:, then|; or|$)", ended.err.replace("\n", " "))[:2]:
        ended = cli(*shlex.split(command), cwd=inner)
        assert 0 == ended.code, ended
    assert (tmp_path / "my notes-split" / "train.jsonl").is_file()


def test_what_the_files_lack_as_a_whole_no_conversion_is_offered_for(tmp_path: Path) -> None:
    for split in ("train", "test"):
        (tmp_path / f"{split}.csv").write_text("text,label\n" + "".join(f"{split} {at},flu\n" for at in range(9)))
    ended = cli("new", ".", cwd=tmp_path)
    assert (1, []) == (ended.code, [*tmp_path.glob("*.toml")])
    assert "or add texts with another label\nnothing was written; mend what is listed above\n" in ended.err


def test_what_is_left_out_of_a_list_is_where_it_is_said_to_be(tmp_path: Path) -> None:
    ends = [{"id": "T1", "type": "a", "start": 0, "end": 7}, {"id": "T2", "type": "b", "start": 21, "end": 25}]
    row = {"text": "Aspirin was given. A rash came.", "entities": ends}
    row["relations"] = [{"type": "causes", "head": "T1", "tail": "T2"}]
    for split in ("train", "test"):
        (tmp_path / f"{split}.jsonl").write_text("".join(f"{json.dumps({**row, 'id': str(at)})}\n" for at in range(30)))
    ended = cli("new", "train.jsonl", "test.jsonl", "--task", "relation", cwd=tmp_path)
    assert "10 more (data check --json lists them)" in ended.err.replace("\n", " ")
    assert 30 <= len(
        json.loads(cli("data", "check", "train.jsonl", "--task", "relation", "--json", cwd=tmp_path).out)["problems"]
    )


def test_a_label_that_only_test_texts_have_is_told_before_the_run_refuses_it(tmp_path: Path) -> None:
    rows = [f"{note.text},{note.labels[0]}" for note in documents(30)]
    (tmp_path / "a.csv").write_text("\n".join(["text,label", *rows[:20]]) + "\n")
    (tmp_path / "b.csv").write_text("\n".join(["text,label", *rows[20:], "Itches.,rash"]) + "\n")
    ended = cli("new", "a.csv", "b.csv", cwd=tmp_path)
    assert "labels" not in read(tmp_path / "study.toml")["corpus"]
    told = "labels that no training text has, and a run stops at: 1 — declare all labels first" in ended.err
    assert (0, True, True) == (ended.code, told, "when that is done, run it: wardround run study.toml" in ended.out)
    assert "rash" not in ended.out + ended.err


def wards(folder: Path, sources: int) -> None:
    """Two tables whose columns have unusual names, with a column that tells where a note comes from."""
    rows = [f"{note.text},{note.labels[0]},St. Mary's {place % sources}" for place, note in enumerate(documents(90))]
    (folder / "a.csv").write_text("\n".join(["Befund,ward,house", *rows[:60]]) + "\n")
    (folder / "b.csv").write_text("\n".join(["Befund,ward,house", *rows[60:]]) + "\n")


COLUMNS = ("--text-column", "Befund", "--label-column", "ward", "--source-column", "house")


def test_where_some_texts_name_no_source_sites_are_drawn_from_all(tmp_path: Path) -> None:
    wards(tmp_path, 2)
    head, first, *rest = (tmp_path / "a.csv").read_text().splitlines()
    (tmp_path / "a.csv").write_text("\n".join([head, first.rpartition(",")[0] + ",", *rest]) + "\n")
    assert 0 == cli("new", "a.csv", "b.csv", *COLUMNS, cwd=tmp_path).code
    assert {"name": "iid", "sites": 3} == read(tmp_path / "study.toml")["partition"]
    assert "1 of the training texts name no source, so all are cut" in (tmp_path / "study.toml").read_text()


def test_a_column_of_texts_is_no_column_of_sources(tmp_path: Path) -> None:
    wards(tmp_path, 2)
    for other in ("source", "label", "id", "patient"):
        ended = cli("new", "a.csv", "b.csv", "--text-column", "Befund", f"--{other}-column", "Befund", cwd=tmp_path)
        words = f"--text-column and --{other}-column name the same; a text is no {other}"
        assert (2, True) == (ended.code, words in ended.err), ended
    assert 0 == cli("new", "a.csv", "b.csv", *COLUMNS, cwd=tmp_path).code
    ended = cli("run", "study.toml", "--set", "corpus.source=Befund", cwd=tmp_path)
    assert (2, True) == (ended.code, "text and source name the same column" in ended.err), ended


def test_a_source_for_each_text_is_asked_about(tmp_path: Path) -> None:
    wards(tmp_path, 90)
    ended = cli("new", "a.csv", "b.csv", *COLUMNS, cwd=tmp_path)
    assert (0, True) == (ended.code, "each text has a source of its own: does --source-column house" in ended.err), (
        ended
    )


@pytest.mark.parametrize(("sources", "expected"), [(2, {"name": "source"}), (30, {"name": "source", "sites": 3})])
def test_whoever_names_the_column_of_hospitals_gets_sites_by_it(
    sources: int, expected: dict[str, Any], tmp_path: Path
) -> None:
    wards(tmp_path, sources)
    ended = cli("new", "a.csv", "b.csv", *COLUMNS, cwd=tmp_path)
    assert 0 == ended.code, ended
    assert expected == read(tmp_path / "study.toml")["partition"]


def test_metadata_of_doccano_is_listed_may_name_the_hospital_and_is_no_hindrance(tmp_path: Path) -> None:
    aspirin = {"id": 1, "label": "drug", "start_offset": 0, "end_offset": 7}
    for name in ("a", "b"):
        rows = [
            {"id": at, "text": "aspirin today", "entities": [aspirin],
             "relations": [], "Comments": [], "house": f"house-{at % 2}", "reviewer": "me"}
            for at in range(4)
        ]  # fmt: skip
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ended = cli("new", "a.jsonl", "b.jsonl", "--source-column", "house", cwd=tmp_path)
    assert (0, True) == (ended.code, 'keys that are not read: "reviewer"' in ended.err), ended
    tables = read(tmp_path / "study.toml")
    assert ("doccano", "house", {"name": "source"}) == (
        tables["corpus"]["format"], tables["corpus"]["source"], tables["partition"],
    )  # fmt: skip


def test_noise_is_told_wherever_figures_are_and_predict_knows_the_column_of_training(tmp_path: Path) -> None:
    wards(tmp_path, 2)
    cli("new", "a.csv", "b.csv", *COLUMNS, cwd=tmp_path)
    noise = ("--set=privacy.dp.epsilon=8", "--set=privacy.dp.delta=1e-3", "--set=privacy.dp.unit='example'")
    ended = cli(
        "run", "study.toml", "--out", "run", "--set=rounds=1", *noise, "--workers", 1, cwd=tmp_path, report=True
    )
    assert 0 == ended.code, ended
    words = "trained with the noise of differential privacy (ε = 8, δ = 0.001, by example, at each site)"
    assert f"fedavg: {words}, and what evaluation counts has noise as well" in ended.out
    assert f"fedavg: {words}" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    ended = cli("evaluate", "run", "b.csv", cwd=tmp_path)
    assert (0, True) == (ended.code, words.partition(" (")[0] in " ".join(ended.out.split())), ended
    (tmp_path / "new.csv").write_text("house,Befund\nnorth,a cough\n")
    ended = cli("predict", "run", "new.csv", "--out", "found.jsonl", cwd=tmp_path)
    assert "texts are read from column Befund, as those of the model's training were" in ended.err, ended
    assert "a cough" == json.loads((tmp_path / "found.jsonl").read_text())["text"]
    (tmp_path / "new.csv").write_text("note,house\na cough,north\n")  # as they are usually called
    ended = cli("predict", "run", "new.csv", "--out", "more.jsonl", cwd=tmp_path)
    assert (0, False) == (ended.code, "column" in ended.err), ended


def test_columns_by_number_mean_a_table_without_a_header(tmp_path: Path) -> None:
    rows = [f"{note.text},{note.labels[0]}" for note in documents(30)]
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("\n".join(rows) + "\n")
    ended = cli("new", "a.csv", "b.csv", "--text-column", 1, "--label-column", 2, cwd=tmp_path)
    assert 0 == ended.code, ended
    corpus = read(tmp_path / "study.toml")["corpus"]
    assert (1, 2, False) == tuple(corpus[key] for key in ("text", "label", "header"))
    kept = {key: corpus[key] for key in ("format", "train", "test", "text", "label")}  # as a study written by hand
    tables = (
        'name = "hand"\nrounds = 1\n[task]\nname = "classification"\n[method]\nname = "fedavg"\n'
        '[partition]\nname = "iid"\nsites = 2\n[corpus]\n'
    )
    lines = [f"{key} = {json.dumps(value)}\n" for key, value in kept.items()]
    (tmp_path / "hand.toml").write_text("".join([tables, *lines]))
    corpus = load_study(tmp_path / "hand.toml")[0].study.corpus
    assert 30 == len([*corpus.placed("train", Problems())]), "the first row is a note, as it is for data check"


@pytest.mark.parametrize("command", ["new", "data check"])
def test_a_table_without_the_header_that_the_other_has_is_told_as_such(command: str, tmp_path: Path) -> None:
    rows = [f"{note.text}\t{note.labels[0]}" for note in documents(30)]
    (tmp_path / "train.tsv").write_text("\n".join(rows[:20]) + "\n")
    (tmp_path / "test.tsv").write_text("\n".join(["sentence\tward", *rows[20:]]) + "\n")
    ended = cli(*command.split(), ".", "--text-column", "sentence", "--label-column", "ward", cwd=tmp_path)
    words = "train.tsv:1: no header, which test.tsv has — write the names of its columns into its first line"
    assert words in ended.out + ended.err, ended


def test_a_header_is_said_in_the_study_where_columns_are_numbered(tmp_path: Path) -> None:
    rows = [f"{at};the patient coughs since {at} days and sleeps badly;{'ab'[at % 2]}x" for at in range(40)]
    for name, some in (("a.csv", rows[:20]), ("b.csv", rows[20:])):
        (tmp_path / name).write_text("\n".join(["Nr;Befund;Diagnose", *some]) + "\n")
    numbers = ("--text-column", 2, "--label-column", 3)
    ended = cli("new", "a.csv", "b.csv", *numbers, cwd=tmp_path)
    assert (0, True) == (ended.code, "is taken for one — give --no-header if" in ended.err), ended
    assert "a.toml: classification with 21 train" in cli(
        "new", "a.csv", "b.csv", *numbers, "--no-header", "--lossy", "--out", "a.toml", cwd=tmp_path
    ).out  # fmt: skip
    headers = [read(tmp_path / name)["corpus"]["header"] for name in ("study.toml", "a.toml")]
    assert [True, False] == headers


def test_patients_that_a_run_would_know_are_in_the_study(tmp_path: Path) -> None:
    """They were listed as not read, and then read."""
    rows = [f"{note.text},{note.labels[0]},p{at // 2}" for at, note in enumerate(documents(30))]
    for name, some in (("a.csv", rows[:20]), ("b.csv", rows[20:])):
        (tmp_path / name).write_text("\n".join(["text,label,patient", *some]) + "\n")
    ended = cli("new", "a.csv", "b.csv", cwd=tmp_path)
    assert (0, False) == (ended.code, "not read" in ended.err), ended
    assert "patient" == read(tmp_path / "study.toml")["corpus"]["patient"]


def test_every_other_setting_is_a_comment_that_can_be_taken_up(tmp_path: Path) -> None:
    halves(tmp_path / "notes", "csv")
    cli("new", "notes", cwd=tmp_path)
    lines = (tmp_path / "study.toml").read_text(encoding="utf-8").splitlines()
    assert 5 < len([line for line in lines if line.startswith("# ") and "…" in line.partition("#")[2][:20]])
    taken = [line[2:] if line.startswith("# ") and " = " in line and " = …" not in line else line for line in lines]
    (tmp_path / "all.toml").write_text("\n".join(taken), encoding="utf-8")
    assert "logistic" == load_study(tmp_path / "all.toml")[0].study.task.model


def test_relations_are_declared_with_the_label_of_unrelated_pairs(tmp_path: Path) -> None:
    halves(tmp_path / "notes", "brat")
    assert 0 == cli("new", "notes", "--task", "relation", cwd=tmp_path).code
    assert ["none", "causes", "cures"] == read(tmp_path / "study.toml")["corpus"]["labels"]


def test_pairs_of_which_the_files_say_that_they_are_not_related_are_all_the_candidates(tmp_path: Path) -> None:
    ends = {"head": {"word": "ibuprofen"}, "tail": {"word": "aspirin"}}
    rows = [
        {"sentence": f"aspirin and ibuprofen {n}", **ends, "relation": ("NA", "effect", "advise")[n % 3]}
        for n in range(60)
    ]
    (tmp_path / "pairs.json").write_text(json.dumps(rows))
    assert 0 == cli("data", "split", "pairs.json", "notes", cwd=tmp_path).code
    assert 0 == cli("new", "notes", "--task", "relation", cwd=tmp_path).code
    corpus = read(tmp_path / "study.toml")["corpus"]
    assert (["NA", "advise", "effect"], "") == (corpus["labels"], corpus["none"])
    pairs = [one.labels for one in RelatedPairs(**corpus, folder=str(tmp_path)).documents("train", Problems())]
    lines = (tmp_path / "notes" / "train.jsonl").read_text().splitlines()
    assert pairs == [tuple(json.loads(line)["labels"]) for line in lines]


def test_texts_with_several_labels_and_chinese_texts_are_told_to_the_task(tmp_path: Path) -> None:
    text = "今天头痛发热两天没有咳嗽{}号"
    entity = {"id": "T1", "type": "symptom", "start": 2, "end": 4}
    for split in ("train", "test"):
        rows = [{"text": text.format(n), "labels": ["a", "b"][: n % 2 + 1], "entities": [entity]} for n in range(20)]
        (tmp_path / f"{split}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    for task, key, value in (("classification", "several", True), ("tagging", "tokens", "characters")):
        ended = cli("new", "train.jsonl", "test.jsonl", "--task", task, "--out", f"{task}.toml", cwd=tmp_path)
        assert 0 == ended.code, ended
        assert value == read(tmp_path / f"{task}.toml")["task"][key]


def test_what_would_be_a_guess_is_refused_with_what_to_do(tmp_path: Path) -> None:
    halves(tmp_path / "all", "jsonl")
    (tmp_path / "there.toml").touch()
    bare = [Document(note.id, note.text) for note in documents(30)]
    halves(tmp_path / "bare", "jsonl", bare)
    (tmp_path / "mixed").mkdir()
    halves(tmp_path / "mixed", "jsonl")
    (tmp_path / "mixed" / "test.jsonl").unlink()
    written(tmp_path / "mixed", "csv", documents(10), "test")
    for arguments, words in (
        (("all",), "choose one: --task classification (labelled texts), --task relation (pairs of entities), --task"),
        (("all", "--task", "taging"), "--task taging: did you mean tagging?"),
        (("all/train.jsonl",), "wardround data split all/train.jsonl all/train-split"),
        (("all", "--out", "there.toml"), "there.toml is there already"),
        (("bare",), "neither labels nor entities"),
        (("mixed",), "files in several formats (csv, jsonl): convert them to one; nothing was written"),
        (("nowhere",), "nowhere: there is no such file or folder"),
    ):
        ended = cli("new", *arguments, cwd=tmp_path)
        assert (2, True) == (ended.code, words in ended.err), ended
    assert ["there.toml"] == [path.name for path in tmp_path.glob("*.toml")]


def test_a_column_of_which_most_values_occur_once_is_no_column_of_labels(tmp_path: Path) -> None:
    notes = [Document(note.id, note.text, (f"{note.text} {at}",)) for at, note in enumerate(documents(30))]
    halves(tmp_path / "notes", "csv", notes)
    ended = cli("new", "notes", cwd=tmp_path)
    assert (1, True, []) == (ended.code, "does not look like labels" in ended.err, [*tmp_path.glob("*.toml")])


def test_what_a_task_would_leave_out_is_told_and_accepted_if_asked(tmp_path: Path) -> None:
    text, spans = "Aspirin was given. A rash came. It went.", ((0, 7), (21, 25))
    entities = [{"id": f"T{at}", "type": "ab"[at], "start": start, "end": end} for at, (start, end) in enumerate(spans)]
    row = {"text": text, "entities": entities, "relations": [{"type": "causes", "head": "T0", "tail": "T1"}]}
    near = {**row, "text": "Aspirin, then a rash.", "entities": [entities[0], entities[1] | {"start": 16, "end": 20}]}
    for split in ("train", "test"):
        apart = [{**near, "relations": []}] if split == "train" else []  # there is something to tell apart in training
        (tmp_path / f"{split}.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in (row, near, near, *apart)))
    arguments = ("new", "train.jsonl", "test.jsonl", "--task", "relation")
    ended = cli(*arguments, cwd=tmp_path)
    words = 'these would be lost: "relation across sentences, left out" (2); mend that, or go on with --lossy'
    assert (1, True) == (ended.code, words in ended.err), ended
    assert 0 == cli(*arguments, "--lossy", cwd=tmp_path).code
    assert ["none", "causes"] == read(tmp_path / "study.toml")["corpus"]["labels"]


def test_what_a_run_would_refuse_is_refused_with_the_way_round_it(tmp_path: Path) -> None:
    for split, count in (("train", 30), ("test", 10)):
        rows = [{"id": str(at), "text": f"note {at} of a {'flu' * (at % 2) or 'cold'}"} for at in range(count)]
        lines = [json.dumps({**row, "label": ("cold", "flu")[at % 2]}) for at, row in enumerate(rows)]
        if split == "train":
            lines[7] = lines[7].replace('"label"', '"label": "cold", "label"')
        (tmp_path / f"{split}.jsonl").write_text("\n".join(lines) + "\n")
    for more in ((), ("--lossy",)):
        ended = cli("new", "train.jsonl", "test.jsonl", *more, cwd=tmp_path)
        assert (1, []) == (ended.code, [*tmp_path.glob("*.toml")])
        assert "train.jsonl:8: a key occurs twice in a JSON object" in ended.err
        assert "a run would stop at 1 of what is listed" in ended.err
        assert bool(more) == ("of what is listed, also with --lossy; mend it" in ended.err)
    command = ended.err.partition("wardround data convert ")[2].partition(",")[0].split()
    assert 0 == cli("data", "convert", *command, cwd=tmp_path).code
    assert 0 == cli("new", "train-read.jsonl", "test.jsonl", cwd=tmp_path).code
    assert 0 == cli("run", "study.toml", "--quiet", "--set", "rounds=1", cwd=tmp_path).code


def test_quotes_that_enclose_nothing_have_an_option_that_the_study_keeps(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,label\n" + '"so" called flu,flu\n"no" cold at all,cold\n' * 20)
    ended = cli("data", "check", "a.csv", cwd=tmp_path)
    assert (2, True) == (ended.code, "or give --no-quoting" in ended.out), ended
    assert 0 == cli("data", "check", "a.csv", "--no-quoting", cwd=tmp_path).code
    ended = cli("new", "a.csv", "a.csv", "--no-quoting", cwd=tmp_path)
    assert (0, False) == (ended.code, read(tmp_path / "study.toml")["corpus"]["quoting"]), ended
    ended = cli("new", "a.csv", "--no-quoting", "--out", "b.toml", cwd=tmp_path)
    assert "wardround data split a.csv a-split --no-quoting" in ended.err


def hospitals(folder: Path, count: int) -> None:
    """A table for each of three hospitals, none of which says so in a column."""
    folder.mkdir()
    for name in ("berlin", "munich", "ulm"):
        rows = [
            f"{folder.name} {name} note {n} of a {('cough', 'rash')[n % 2]},{('flu', 'skin')[n % 2]}\n"
            for n in range(count)
        ]
        (folder / f"{name}.csv").write_text("text,label\n" + "".join(rows), encoding="utf-8")


def test_a_file_per_hospital_is_split_within_each_and_every_hospital_is_a_site(tmp_path: Path) -> None:
    hospitals(tmp_path / "notes", 40)
    told = cli("new", "notes", cwd=tmp_path).err
    assert "set some of each file, which becomes a site, aside: wardround data split notes notes-split" in told
    assert 0 == cli("data", "split", "notes", "notes-split", cwd=tmp_path).code
    assert 0 == cli("new", "notes-split", cwd=tmp_path).code
    study = load_study(tmp_path / "study.toml")[0].study
    sites = opened(study.corpus)
    assert ("berlin", "munich", "ulm") == sites.names
    for name in sites.names:
        train, test = (part.documents for part in sites.raw(name) if isinstance(part, Texts))
        assert 40 == len(train) + len(test)
        assert len(train) > len(test) > 0
        assert all(f" {name} " in one.text for one in (*train, *test))
    assert {"name": "source"} == read(tmp_path / "study.toml")["partition"]


def test_a_hospital_of_which_nothing_is_drawn_is_told(tmp_path: Path) -> None:
    hospitals(tmp_path / "notes", 40)
    (tmp_path / "notes" / "ulm.csv").write_text("text,label\na rash,skin\n", encoding="utf-8")
    ended = cli("data", "split", "notes", "halves", cwd=tmp_path)
    assert 0 == ended.code
    assert re.search(r"ulm\.csv: nothing of it goes to (train|test)", ended.err)


def test_folders_with_a_file_per_hospital_are_named_by_hospital_in_the_study(tmp_path: Path) -> None:
    hospitals(tmp_path / "learn", 12)
    hospitals(tmp_path / "try", 6)
    assert 0 == cli("new", "learn", "try", cwd=tmp_path).code
    corpus = read(tmp_path / "study.toml")["corpus"]
    assert {"berlin": "learn/berlin.csv", "munich": "learn/munich.csv", "ulm": "learn/ulm.csv"} == corpus["train"]
    assert ("berlin", "munich", "ulm") == opened(load_study(tmp_path / "study.toml")[0].study.corpus).names


def test_training_files_of_hospitals_are_sites_also_where_all_are_tried_on_the_same_texts(tmp_path: Path) -> None:
    """They were put together and cut anew without a word, which `data split` does not do."""
    hospitals(tmp_path / "learn", 12)
    hospitals(tmp_path / "tried", 6)
    ended = cli("new", "learn", "tried/ulm.csv", cwd=tmp_path)
    assert (0, True) == (ended.code, "each of the 3 training files becomes a site" in ended.out), ended
    tables = read(tmp_path / "study.toml")
    assert (3, "tried/ulm.csv") == (len(tables["corpus"]["train"]), tables["corpus"]["test"])
    assert {"name": "source"} == tables["partition"]
    ended = cli("run", "study.toml", "--quiet", "--set", "rounds=1", "--workers", 1, cwd=tmp_path)
    assert 0 == ended.code, ended


def test_codes_of_one_word_are_refused_by_check_as_by_a_run_and_cut_further_by_new(tmp_path: Path) -> None:
    """`data check` passed them, and `run` stopped."""
    rows = "".join(f"AB{at:05d},{'xy'[at % 2]}\n" for at in range(60))
    (tmp_path / "codes.csv").write_text(f"text,label\n{rows}")
    ended = cli("data", "check", "codes.csv", "--task", "classification", cwd=tmp_path)
    words = (
        'task.tokens = "words" leaves 1.0 tokens per text, about one, so that hardly any comes twice — name the column'
    )
    assert (1, True) == (ended.code, words in " ".join(ended.out.split()))
    assert 0 == cli("data", "split", "codes.csv", "codes", cwd=tmp_path).code
    ended = cli("new", "codes", cwd=tmp_path)
    assert (0, True) == (ended.code, ended.err.startswith("texts of about one word, of which hardly any comes twice"))
    assert "characters" == tomllib.loads((tmp_path / "study.toml").read_text())["task"]["tokens"]
    assert 0 == cli("run", "study.toml", "--set", "rounds=1", "--workers", 1, "--quiet", cwd=tmp_path).code


def test_words_that_come_again_can_be_learnt_one_by_one(tmp_path: Path) -> None:
    rows = "".join(f"{('fever', 'cough', 'rash', 'itch')[at % 4]},{'xy'[at % 2]}\n" for at in range(60))
    (tmp_path / "words.csv").write_text(f"text,label\n{rows}")
    assert 0 == cli("data", "check", "words.csv", "--task", "classification", cwd=tmp_path).code


def many_wards(path: Path, each: int) -> None:
    """So many texts of each of 26 wards, whose names have several words."""
    rows = (f"a note of {end} with a {end}{at},Ward of {end}\n" for end in ascii_lowercase for at in range(each))
    path.write_text(f"text,label\n{''.join(rows)}")


def test_what_training_calls_labels_is_known_among_a_few_test_texts(tmp_path: Path) -> None:
    """Two texts of each of many classes were refused as no labels, with no way on."""
    many_wards(tmp_path / "train.csv", 6)
    many_wards(tmp_path / "test.csv", 2)
    ended = cli("new", "train.csv", "test.csv", cwd=tmp_path)
    assert 0 == ended.code, ended
    assert 26 == len(read(tmp_path / "study.toml")["corpus"]["labels"])


def test_many_small_classes_are_labels_for_whoever_has_looked_at_them(tmp_path: Path) -> None:
    """The refusal named no remedy, and `--show-text`, which a run offers, changed nothing."""
    for name in ("train", "test"):
        many_wards(tmp_path / f"{name}.csv", 3)
    ended = cli("new", "train.csv", "test.csv", cwd=tmp_path)
    assert (1, False) == (ended.code, "Ward of" in ended.err)
    assert "If these are labels, give --show-text" in " ".join(ended.err.split())
    assert 1 == cli("data", "check", "train.csv", cwd=tmp_path).code
    ended = cli("data", "check", "train.csv", "--show-text", cwd=tmp_path)
    assert (0, True) == (ended.code, "not look like labels" in " ".join(ended.out.split()))
    assert 0 == cli("new", "train.csv", "test.csv", "--show-text", cwd=tmp_path).code
    assert 26 == len(read(tmp_path / "study.toml")["corpus"]["labels"])
    ended = cli("run", "study.toml", "--quiet", "--set", "rounds=1", "--workers", 1, cwd=tmp_path)
    assert 0 == ended.code, ended
