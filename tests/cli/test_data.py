"""`wardround data`: exit codes, messages that name options, and nothing half-written."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from study_files import cli
from wardround.corpora.views import MarkedTexts
from wardround.formats.options import Options
from wardround.formats.register import TARGETS

NOTE = "Aspirin gave her a rash. The fever went."
ROW = {
    "id": "17",
    "text": NOTE,
    "labels": ["allergy"],
    "entities": [
        {"id": "T1", "type": "drug", "start": 0, "end": 7},
        {"id": "T2", "type": "rash", "start": 19, "end": 23},
    ],
    "relations": [{"type": "causes", "head": "T1", "tail": "T2"}],
}


def jsonl(folder: Path, count: int = 1) -> Path:
    path = folder / "notes.jsonl"
    rows = (json.dumps({**ROW, "id": str(n), "text": f"{NOTE} {n}"}) + "\n" for n in range(count))
    path.write_text("".join(rows), encoding="utf-8")
    return path


def shifted(folder: Path) -> Path:
    (folder / "notes").mkdir()
    (folder / "notes" / "17.txt").write_text(NOTE)
    (folder / "notes" / "17.ann").write_text("T1\tdrug 1 8\tAspirin\nT2\trash 19 23\trash\n")
    return folder / "notes"


def test_check_tells_what_is_there(tmp_path: Path) -> None:
    path = jsonl(tmp_path, 2)
    first, second = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    path.write_text(f"{json.dumps(first)}\n{json.dumps({**second, 'relations': []})}\n", encoding="utf-8")
    ended = cli("data", "check", path, "--task", "relation", cwd=tmp_path)
    assert (0, "") == (ended.code, ended.err)
    lines = [" ".join(line.split()) for line in ended.out.splitlines()]
    for line in ("documents 2", "sentences 6", "duplicates 0", "languages en 2", "labels: 2 of 1 kinds"):
        assert line in lines
    assert "drug 2 50.0% ██████████" in lines
    assert "nothing would be lost" == lines[-1]
    assert "spirin" not in ended.out


def test_check_tells_of_offsets_and_names_its_own_option(tmp_path: Path) -> None:
    notes = shifted(tmp_path)
    ended = cli("data", "check", "notes", cwd=tmp_path)
    assert 1 == ended.code
    expected = (
        "notes/17.ann:1: T1 says 7 characters, text[1:8] differs — offsets look shifted by one; try --fix-offsets"
    )
    assert expected in ended.out.splitlines()
    assert "spirin" not in ended.out + ended.err
    assert 'T1 says "Aspirin", text[1:8] is "spirin "' in cli("data", "check", notes, "--show-text", cwd=tmp_path).out
    assert 0 == cli("data", "check", notes, "--fix-offsets", cwd=tmp_path).code


def test_check_for_machines(tmp_path: Path) -> None:
    ended = cli("data", "check", shifted(tmp_path), "--json", cwd=tmp_path)
    told = json.loads(ended.out)
    assert (1, 1, 1) == (ended.code, told["lost"], told["documents"])
    problem = told["problems"][0]
    assert ("17.ann", 1, True) == (Path(problem["file"]).name, problem["line"], problem["lost"])
    assert "offsets look shifted by one; try --fix-offsets" == problem["remedy"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check", "none.jsonl"], "none.jsonl: no such file — did you mean notes.jsonl?"),
        (["check", "folder/nots.jsonl"], "folder/nots.jsonl: no such file — did you mean folder/notes.jsonl?"),
        (
            ["check", "notes.jsonl", "--task", "relations"],
            "--task relations: did you mean relation? use one of bags, classification, relation, tagging",
        ),
        (["check", "notes.jsonl", "--from", "brta"], "--from brta: did you mean brat?"),
        (["check", "notes.jsonl", "--from", "brat"], "notes.jsonl: not a folder"),
        (["check", "latin.csv"], "it looks like latin-1 — give --encoding latin-1"),
        (["check", "rows.csv", "--text-column", "note_text"], 'no column "note_text" — did you mean "NOTE_TEXTS"?'),
        (["check", "rows.csv"], 'no column "text" — name it with --text-column, or by its number from 1 to '),
        (["check", "tabs.csv"], "tabs.csv:1: tabs between cells instead of commas"),
        (["check", "tabs.csv"], 'no column "text" — name it with --text-column: nr, frage'),
        (["check", "german.csv"], 'no column "text" — name it with --text-column: nr, frage'),
        (["check", "picture.png"], "picture.png: a binary file, not text"),
        (["convert", "notes.jsonl", "out", "--to", "bio"], "--to bio: did you mean bioc?"),
        (["convert", "notes.jsonl", "out", "--to", "omop"], "needs a person and a date"),
        (["convert", "notes.jsonl", "notes.jsonl", "--to", "jsonl"], "notes.jsonl: exists already — name another"),
        (["convert", "min.json", "out", "--to", "jsonl"], "JSON-MIN, which drops relations"),
        (["convert", "notes.jsonl", "notes.jsonl/out", "--to", "csv", "--lossy"], "nothing was written"),
    ],
)
def test_wrong_usage_and_unreadable_input_end_with_code_2(tmp_path: Path, arguments: list[str], message: str) -> None:
    jsonl(tmp_path)
    (tmp_path / "latin.csv").write_bytes("text,label\nété,x\n".encode("latin-1"))
    (tmp_path / "rows.csv").write_text("NOTE_TEXTS,x\na,b\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "notes.jsonl").write_text("{}")
    (tmp_path / "tabs.csv").write_text("nr\tfrage\n1\twas nun\n")
    (tmp_path / "german.csv").write_text("nr,frage\n1,was nun\n2,und dann\n")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(32)) * 9)
    (tmp_path / "min.json").write_text(json.dumps([{"id": 1, "text": NOTE, "annotator": 1}]))
    before = sorted(tmp_path.rglob("*"))
    ended = cli("data", *arguments, cwd=tmp_path)
    assert 2 == ended.code
    assert message in " ".join((ended.out + ended.err).split())
    assert "sentences" not in ended.out  # of a table of zeros
    assert "Traceback" not in ended.err
    assert before == sorted(tmp_path.rglob("*"))


def test_each_file_is_named_once_with_its_lines_and_keys_that_are_not_read_are_told_once(tmp_path: Path) -> None:
    for name, key in (("one", "text"), ("other", "note")):
        lines = (json.dumps({key: f"A cough for {at} days.", "ward": "AB"[at % 2]}) + "\n" for at in range(30))
        (tmp_path / f"{name}.jsonl").write_text("".join(lines))
    ended = cli("data", "check", "other.jsonl", cwd=tmp_path)
    missing = f'no "text": 30 — it must be a string\n  at other.jsonl:{", ".join(map(str, range(1, 21)))} and 10 more'
    assert missing in ended.out
    assert ended.out.endswith("other.jsonl: no document — mend what is listed above\n")
    ended = cli("data", "check", "one.jsonl", cwd=tmp_path)
    assert 'one.jsonl: keys that are not read: "ward" (30 times)' in ended.out
    assert "not ours" not in ended.out
    assert ended.out.endswith("problems by which something would be lost: 30\n")


def test_convert_writes_what_was_read(tmp_path: Path) -> None:
    path = jsonl(tmp_path, 3)
    ended = cli("data", "convert", path, "out.xml", "--to", "bioc", cwd=tmp_path)
    assert (0, "documents in out.xml: 3\n", "") == (ended.code, ended.out, ended.err)
    cli("data", "convert", "out.xml", "back.jsonl", "--to", "jsonl", cwd=tmp_path)
    told = [[json.loads(row) for row in file.read_text().splitlines()] for file in (path, tmp_path / "back.jsonl")]
    assert told[0] == told[1]


def test_what_the_target_cannot_hold_is_listed_and_not_dropped(tmp_path: Path) -> None:
    path = jsonl(tmp_path, 2)
    ended = cli("data", "convert", path, "out.csv", "--to", "csv", cwd=tmp_path)
    assert 1 == ended.code
    expected = [
        "csv has no place for: entities: 4 (notes.jsonl:1, notes.jsonl:2)",
        "csv has no place for: relations: 2 (notes.jsonl:1, notes.jsonl:2)",
        "nothing was written; --lossy writes the rest, --to jsonl holds everything that was read",
    ]
    assert expected == ended.err.splitlines()
    assert [path] == list(tmp_path.iterdir())
    ended = cli("data", "convert", path, "out.csv", "--to", "csv", "--lossy", cwd=tmp_path)
    assert (0, expected[:2]) == (ended.code, ended.err.splitlines())
    assert ["id,text,label,source,language", f"0,{NOTE} 0,allergy,,", f"1,{NOTE} 1,allergy,,"] == (
        tmp_path / "out.csv"
    ).read_text().splitlines()


def test_what_reading_would_lose_stops_a_conversion_too(tmp_path: Path) -> None:
    notes = shifted(tmp_path)
    ended = cli("data", "convert", notes, "out.jsonl", "--to", "jsonl", cwd=tmp_path)
    assert 1 == ended.code
    assert "try --fix-offsets" in ended.err
    assert not (tmp_path / "out.jsonl").exists()
    assert 0 == cli("data", "convert", notes, "out.jsonl", "--to", "jsonl", "--fix-offsets", cwd=tmp_path).code
    assert 0 == json.loads((tmp_path / "out.jsonl").read_text())["entities"][0]["start"]


@pytest.mark.parametrize("form", TARGETS)
def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, form: str) -> None:
    path = jsonl(tmp_path, 100)
    with path.open("a") as file:
        file.write(json.dumps({"id": "long", "text": NOTE * 100}) + "\n")
    ended = cli("data", "convert", path, "out", "--to", form, "--lossy", cwd=tmp_path, file_limit=2000)
    expected = "no room left to write out; nothing was written: make room and try again"
    assert (1, expected) == (ended.code, ended.err.splitlines()[-1])
    assert "Traceback" not in ended.err
    assert [path] == list(tmp_path.iterdir())


def test_options_reach_the_reader(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(
        "nr;note;ward,befund\n".replace(";", ",").encode() + "7,Fièvre,b,x|y\n".encode("latin-1")
    )
    arguments = ("--text-column", "note", "--label-column", "befund", "--separator", "|", "--id-column", "nr",
                 "--source-column", "ward", "--encoding", "latin-1", "--language", "fr")  # fmt: skip
    ended = cli("data", "convert", "a.csv", "a.jsonl", "--to", "jsonl", *arguments, cwd=tmp_path)
    assert (0, "") == (ended.code, ended.err)
    expected = {"id": "7", "text": "Fièvre", "labels": ["x", "y"], "entities": [], "source": "b", "language": "fr"}
    assert expected == json.loads((tmp_path / "a.jsonl").read_text(encoding="utf-8"))
    assert {
        "delimiter",
        "encoding",
        "language",
        "text",
        "label",
        "id",
        "source",
        "patient",
        "separator",
        "fix_offsets",
        "show_text",
    } == set(Options.__slots__) - {
        "labelled",
        "needs",
        "concepts",
        "flags",
        "header",
        "quoting",
        "token",
        "tag",
        "scheme",
        "bare",
        "tags",
    }
    # which `predict` and views decide, or a study says


def notes(folder: Path, texts: Sequence[str], source: str = "") -> Path:
    """A JSONL of these texts."""
    path = folder / "notes.jsonl"
    rows = [{"id": str(at), "text": text, "source": source and f"{source}{at % 3}"} for at, text in enumerate(texts)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_split_sets_a_share_aside_and_equal_texts_stay_together(tmp_path: Path) -> None:
    notes(tmp_path, [f"Note {at % 60}." for at in range(120)])
    ended = cli("data", "split", "notes.jsonl", "out", "--test", "0.3", cwd=tmp_path)
    assert (0, "") == (ended.code, ended.err)
    train, test = (
        [json.loads(line) for line in (tmp_path / "out" / f"{side}.jsonl").read_text().splitlines()]
        for side in ("train", "test")
    )
    sides = f"documents in out: train.jsonl {len(train)}, test.jsonl {len(test)}\n"
    assert f"{sides}write a study for them: wardround new out\n" == ended.out
    assert 120 == len(train) + len(test)
    assert 36 == len(test)
    assert set() == {row["text"] for row in train} & {row["text"] for row in test}
    again = cli("data", "split", "notes.jsonl", "again", "--test", "0.3", cwd=tmp_path)
    assert 0 == again.code
    assert (tmp_path / "out" / "test.jsonl").read_bytes() == (tmp_path / "again" / "test.jsonl").read_bytes()


def test_split_by_source_keeps_a_source_whole(tmp_path: Path) -> None:
    notes(tmp_path, [f"Note {at}." for at in range(60)], source="ward ")
    ended = cli("data", "split", "notes.jsonl", "out", "--by", "source", "--test", "0.5", "--seed", "1", cwd=tmp_path)
    assert 0 == ended.code, ended.err
    sides = [
        {json.loads(line)["source"] for line in (tmp_path / "out" / f"{side}.jsonl").read_text().splitlines()}
        for side in ("train", "test")
    ]
    assert set() == sides[0] & sides[1]
    assert {"ward 0", "ward 1", "ward 2"} == sides[0] | sides[1]


def test_split_sets_a_second_share_aside_and_can_keep_patients_whole(tmp_path: Path) -> None:
    labels = ("well", "ill")
    rows = [{"id": str(at), "text": f"Note {at}.", "label": labels[at % 2], "who": f"p{at % 30}"} for at in range(240)]
    (tmp_path / "notes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    shares = ("--test", "0.2", "--valid", "0.2", "--by", "patient", "--patient-column", "who")
    ended = cli("data", "split", "notes.jsonl", "out", *shares, cwd=tmp_path)
    assert (0, "") == (ended.code, ended.err)
    sides = [
        [json.loads(line)["patient"] for line in (tmp_path / "out" / f"{side}.jsonl").read_text().splitlines()]
        for side in ("train", "test", "valid")
    ]
    assert 240 == sum(map(len, sides))
    assert 30 == len({name for side in sides for name in side}) == sum(len({*side}) for side in sides)
    drafted = cli("new", "out", cwd=tmp_path)
    assert (0, "") == (drafted.code, drafted.err)
    ended = cli("run", "study.toml", "--set", "rounds=2", "--workers", 1, "--quiet", cwd=tmp_path)
    assert (0, "") == (ended.code, ended.err)
    assert "is kept, the best by valid_accuracy; the figures are those of that round" in ended.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--test", "1.5"], "--test 1.5: a share between 0 and 1"),
        (["--by", "sorce"], "--by sorce: did you mean source?"),
        (["--by", "source"], "notes.jsonl:1: a document without a source — name its column with --source-column"),
        (["--by", "patient"], "notes.jsonl:1: a document without a patient — name its column with --patient-column"),
        (
            ["--by", "source", "--source-column", "text", "--valid", "0.1"],
            "nothing would go to valid: 2 documents, and",
        ),
        (["--valid", "1.2"], "--valid 1.2: a share that leaves some to train on beside --test 0.2"),
        (["--valid", "0.8"], "--valid 0.8: a share that leaves some to train on beside --test 0.2"),
        (["--valid", "0.0001", "--test", "0.5", "--seed", "3"], "nothing would go to "),
    ],
)
def test_a_split_that_cannot_be_is_refused_and_leaves_nothing(tmp_path: Path, options: list[str], message: str) -> None:
    notes(tmp_path, ["One.", "Two."])
    ended = cli("data", "split", "notes.jsonl", "out", *options, cwd=tmp_path)
    assert 2 == ended.code
    assert message in ended.err
    assert ["notes.jsonl"] == sorted(path.name for path in tmp_path.iterdir())


def test_one_document_cannot_be_split(tmp_path: Path) -> None:
    notes(tmp_path, ["One."])
    ended = cli("data", "split", "notes.jsonl", "out", cwd=tmp_path)
    assert (2, ["notes.jsonl"]) == (ended.code, sorted(path.name for path in tmp_path.iterdir()))
    assert "notes.jsonl: nothing would go to test: 1 documents, and a test share of 0.2" in ended.err


def test_every_hospital_gives_its_share_rounded_and_a_small_one_gives_one(tmp_path: Path) -> None:
    """A hash sent 42 of 150 to a test share of 0.2, and nothing at all of a small hospital."""
    sizes = {"north": 75, "south": 69, "west": 4, "east": 2, "one": 1}
    rows = [
        {"id": f"{name}{at}", "text": f"Note {name} {at}.", "source": name}
        for name in sizes
        for at in range(sizes[name])
    ]
    for out, order in (("out", rows), ("turned", rows[::-1])):
        (tmp_path / f"{out}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in order), encoding="utf-8")
        ended = cli("data", "split", f"{out}.jsonl", out, "--test", "0.2", "--valid", "0.1", cwd=tmp_path)
        assert 0 == ended.code, ended.err
    sides = {
        side: Counter(
            json.loads(line)["source"] for line in (tmp_path / "out" / f"{side}.jsonl").read_text().splitlines()
        )
        for side in ("test", "valid")
    }
    assert {"north": 15, "south": 14, "west": 1, "east": 1} == sides["test"]
    assert {"north": 8, "south": 7, "west": 1} == sides["valid"]
    mine, turned = (sorted((tmp_path / out / "test.jsonl").read_text().splitlines()) for out in ("out", "turned"))
    assert mine == turned


def test_what_stays_together_is_drawn_until_the_share_of_documents_is_reached(tmp_path: Path) -> None:
    """Sentences with many pairs made 114 of 500 of a share of 0.2."""
    rows = [
        {"id": f"{at}-{n}", "text": f"Note {at}."}
        for at in range(40)
        for n in range(20 if at % 20 == 0 else at % 5 + 1)
    ]
    (tmp_path / "notes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    for seed in range(5):
        ended = cli("data", "split", "notes.jsonl", f"out{seed}", "--test", "0.2", "--seed", seed, cwd=tmp_path)
        assert 0 == ended.code, ended.err
        assert abs(len((tmp_path / f"out{seed}" / "test.jsonl").read_text().splitlines()) - 0.2 * len(rows)) < 2


def test_short_dialogues_are_drawn_from_all_together_so_that_the_share_is_the_share(tmp_path: Path) -> None:
    rows = [{"id": str(at), "text": f"Line {at}.", "source": f"dialogue {at // 3}"} for at in range(300)]
    (tmp_path / "notes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    ended = cli("data", "split", "notes.jsonl", "out", "--test", "0.2", cwd=tmp_path)
    assert "documents in out: train.jsonl 240, test.jsonl 60" == ended.out.splitlines()[0]


@pytest.mark.parametrize(("sources", "each", "test", "valid"), [(12, 1, 2, 1), (20, 2, 8, 4), (2, 2, 2, 0)])
def test_sources_of_a_note_or_two_are_drawn_from_too(
    sources: int, each: int, test: int, valid: int, tmp_path: Path
) -> None:
    """Twelve sources of one note gave nothing to test on, and twenty of two gave half."""
    rows = [
        {"id": f"{at}-{n}", "text": f"Note {at} {n}.", "source": f"ward {at}"}
        for at in range(sources)
        for n in range(each)
    ]
    (tmp_path / "notes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    more = ("--valid", "0.1") if valid else ()
    ended = cli("data", "split", "notes.jsonl", "out", "--test", "0.2", *more, cwd=tmp_path)
    assert 0 == ended.code, ended.err
    for side, count in (("test", test), ("valid", valid)):
        path = tmp_path / "out" / f"{side}.jsonl"
        assert count == (len(path.read_text().splitlines()) if path.exists() else 0)


def test_texts_that_differ_by_blanks_and_capitals_are_on_one_side(tmp_path: Path) -> None:
    """They were called leaks by `data check` right after `data split` had put them there."""
    notes(tmp_path, [text for at in range(40) for text in (f"Note {at}.", f"NOTE  {at}.")])
    assert 0 == cli("data", "split", "notes.jsonl", "out", cwd=tmp_path).code
    assert "texts that" not in cli("data", "check", "out", cwd=tmp_path).out


def test_a_split_loses_nothing_in_silence(tmp_path: Path) -> None:
    path = notes(tmp_path, [f"Note {at}." for at in range(30)])
    path.write_text(path.read_text() + '{"id": "bad", "text": 5}\n', encoding="utf-8")
    ended = cli("data", "split", "notes.jsonl", "out", cwd=tmp_path)
    assert 1 == ended.code
    assert "notes.jsonl:31" in ended.err
    assert not (tmp_path / "out").exists()
    assert 0 == cli("data", "split", "notes.jsonl", "out", "--lossy", cwd=tmp_path).code


def test_sentences_without_entities_can_be_trained_on_after_convert_and_split(tmp_path: Path) -> None:
    rows = "".join(f"Aspirin{n}\tB-DRUG\nhelped\tO\n\nNothing\tO\nfound{n}\tO\n\n" for n in range(20))
    (tmp_path / "notes.conll").write_text(rows, encoding="utf-8")
    assert 0 == cli("data", "convert", "notes.conll", "notes.jsonl", "--to", "jsonl", cwd=tmp_path).code
    assert 0 == cli("data", "split", "notes.jsonl", "notes", cwd=tmp_path).code
    reader = MarkedTexts(
        format="jsonl", train=str(tmp_path / "notes/train.jsonl"), test=str(tmp_path / "notes/test.jsonl")
    )
    found = [len(document.entities) for split in ("train", "test") for document in reader.documents(split)]
    assert [0] * 20 + [1] * 20 == sorted(found)
