"""A look at a user's data: what is counted, what is found, what would be lost; never a note's words."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from wardround.formats.check import MOST, Finding, Survey, check
from wardround.formats.options import Options
from wardround.formats.unread import unread
from wardround.tasks import TASKS
from wardround.text.language import language
from wardround.text.shown import showing_text

NOTE = "Aspirin gave her a rash. The fever went."


def jsonl(folder: Path, *rows: Mapping[str, object]) -> Path:
    path = folder / "notes.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def looked(path: Path, task: str | None = None, **options: bool) -> Survey:
    kind = TASKS[task]() if task else None
    survey = check(path, Options(**options), task=kind)  # type: ignore[arg-type]  # all of these are switches
    assert options or "spirin" not in repr((survey.counts(), survey.findings.listed))
    return survey


def whats(survey: Survey, *, lost: bool = True) -> list[str]:
    return [one.what for one in survey.findings.listed if one.lost == lost]


ENTITIES = [{"id": "T1", "type": "drug", "start": 0, "end": 7}, {"id": "T2", "type": "effect", "start": 19, "end": 23}]
NOTHING_TO_TELL = "one type of relation, and no pair of its types that is not related: nothing to tell apart"


def test_a_key_that_stands_in_one_line_alone_may_be_of_a_note_and_is_not_shown(tmp_path: Path) -> None:
    rows = [{"text": f"note {n}", "ward": "b"} for n in range(3)] + [{"text": "note 4", "Mrs Smith has a rash": 1}]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    ((what, _),) = unread(tmp_path / "a.jsonl", Options(), "jsonl")
    assert 'keys that are not read: "ward", (not shown)' == what
    (tmp_path / "b.jsonl").write_text(json.dumps({"text": "note", "ward": "b"}))
    assert 'keys that are not read: "ward"' == next(unread(tmp_path / "b.jsonl", Options(), "jsonl"))[0]


@pytest.mark.parametrize(("name", "text", "shown"), [
    ("a.csv", "note,no chest pain\n" + "a,rash\nb,itch\n" * 9, "columns that are not read: (not shown)"),
    ("a.csv", "note,ward\nA rash,eye\n", 'columns that are not read: "ward"'),
    ("a.csv", "note,label,chief complaint\nA rash,skin,itch\n", 'columns that are not read: "chief complaint"'),
    ("a.jsonl", '{"text": "A", "no chest pain": 1}\n', "keys that are not read: (not shown)"),
    ("a.jsonl", "".join(f'{{"text": "A", "pain {n // 2 if n < 4 else n}": 1}}\n' for n in range(14)),
     "keys that are not read: (not shown)"),
])  # fmt: skip
def test_a_name_that_may_be_a_note_is_not_listed(name: str, text: str, shown: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    what, remedy = next(unread(tmp_path / name, Options(), Path(name).suffix[1:]))
    assert shown == what
    assert "(not shown)" not in remedy


def test_a_key_of_long_values_is_offered_as_the_text_where_there_is_none(tmp_path: Path) -> None:
    rows = [{"befund": f"Fever and a cough for {n} days.", "klinik": "AB"[n % 2], "nr": n} for n in range(20)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    ((_, remedy),) = unread(tmp_path / "a.jsonl", Options(), "jsonl")
    assert "texts? --text-column befund; labels? --label-column klinik" == remedy
    ((_, remedy),) = unread(tmp_path / "a.jsonl", Options(text="befund"), "jsonl")
    assert "labels? --label-column klinik" == remedy
    rows = [{f"Mrs Smith was seen on day {n} of her stay.": n, "klinik": "AB"[n % 2]} for n in range(20)]
    (tmp_path / "b.jsonl").write_text("\n".join(map(json.dumps, rows)))
    ((_, remedy),) = unread(tmp_path / "b.jsonl", Options(), "jsonl")
    assert "labels? --label-column klinik" == remedy  # names that are not shown are not offered


def test_all_that_may_be_labels_are_offered(tmp_path: Path) -> None:
    rows = [f"Fever and a cough for {n} days.,{'AB'[n % 2]},{'xyz'[n % 3]}" for n in range(20)]
    (tmp_path / "a.csv").write_text("\n".join(["befund,klinik,gruppe", *rows]))
    ((_, remedy),) = unread(tmp_path / "a.csv", Options(text="befund"), "csv")
    assert "labels? --label-column klinik or gruppe" == remedy


def test_texts_in_two_files_are_told_with_both_places(tmp_path: Path) -> None:
    for name, rows in (("test", "Rash.,a\nFever.,b\n"), ("train", "Cough.,b\nFever.,b\nCough.,b\n")):
        (tmp_path / f"{name}.csv").write_text(f"text,label\n{rows}", encoding="utf-8")
    survey = looked(tmp_path)
    (shared,) = [what for what in whats(survey, lost=False) if "also in" in what]
    assert f"test texts that are also in training: 1 ({tmp_path}/test.csv:3 = {tmp_path}/train.csv:3)" == shared
    assert 2 == survey.duplicates
    (tmp_path / "test.csv").rename(tmp_path / "other.csv")
    (shared,) = [what for what in whats(looked(tmp_path), lost=False) if "two files" in what]
    assert f"texts that occur in two files: 1 ({tmp_path}/train.csv:3 = {tmp_path}/other.csv:3)" == shared


def test_texts_of_test_and_validation_are_told_apart_from_those_of_training(tmp_path: Path) -> None:
    """A text that stands in all three was only counted beside its first place."""
    splits = {"test": "Rash.,a\nFever.,b\n", "train": "Cough.,b\nFever.,b\n", "valid": "Rash.,a\nFever.,b\nCough.,b\n"}
    for name, rows in splits.items():
        (tmp_path / f"{name}.csv").write_text(f"text,label\n{rows}", encoding="utf-8")
    told = [what.partition(" (")[0] for what in whats(looked(tmp_path), lost=False) if "also in" in what]
    assert [
        "test texts that are also in training: 1",
        "test texts that are also in validation: 2",
        "validation texts that are also in training: 2",
    ] == sorted(told)


def test_everything_is_counted(tmp_path: Path) -> None:
    related = [{"type": "causes", "head": "T1", "tail": "T2"}]
    survey = looked(
        jsonl(
            tmp_path,
            {"text": NOTE, "labels": ["allergy"], "entities": ENTITIES, "relations": related, "source": "b"},
            {"text": "患者咳嗽三天。", "labels": ["cough", "allergy"], "source": "b"},
            {"text": "Rash.", "language": "fr"},
        )
    )
    expected = {
        "formats": {"jsonl": 1},
        "documents": 3,
        "characters": len(NOTE) + 12,
        "sentences": 4,
        "tokens": 10 + 7 + 2,
        "sources": 1,
        "duplicates": 0,
        "unlabelled": 1,
        "labels": {"allergy": 2, "(not shown)": 1},
        "entities": {"(not shown)": 2},
        "relations": {"(not shown)": 1},
        "attributes": {},
        "concepts": 0,
        "discontinuous": 0,
        "predicted": 0,
        "languages": {"en": 1, "fr": 1, "zh": 1},
        "unreadable": "",
    }
    assert (expected, []) == (survey.counts(), survey.findings.listed)


def test_what_a_model_has_annotated_is_told(tmp_path: Path) -> None:
    survey = looked(jsonl(tmp_path, {"text": NOTE, "entities": ENTITIES, "model": "tagger@1"}, {"text": "Fever."}))
    expected = ["documents that a model has annotated, and nobody has confirmed: 1"]
    assert (expected, 0) == (whats(survey, lost=False), survey.findings.lost)


def test_duplicates_are_told_and_whether_they_contradict_each_other(tmp_path: Path) -> None:
    labels: tuple[list[str], ...] = ([], [], ["allergy"])
    survey = looked(jsonl(tmp_path, *({"id": str(n), "text": NOTE, "labels": said} for n, said in enumerate(labels))))
    assert 2 == survey.duplicates
    assert ["repeated text", "same text with other annotations"] == whats(survey, lost=False)
    assert [2, 3] == [one.line for one in survey.findings.listed]
    assert 0 == survey.findings.lost


def test_other_pairs_of_a_text_are_no_contradiction_unless_entities_are_learnt(tmp_path: Path) -> None:
    other = [ENTITIES[0], {"id": "T2", "type": "effect", "start": 29, "end": 34}]
    related = [{"type": "causes", "head": "T1", "tail": "T2"}]
    first, second = {"text": NOTE, "entities": ENTITIES, "relations": related}, {"text": NOTE, "entities": other}
    path = jsonl(tmp_path, first, second)
    assert [0, 0, 1] == [looked(path, task).duplicates for task in ("relation", None, "tagging")]
    survey = looked(jsonl(tmp_path, first, second, {**second, "relations": related}), "relation")
    assert ["same text with other annotations"] == [what for what in whats(survey, lost=False) if "same text" in what]


def test_a_repetition_that_the_reader_tells_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,label\na rash,x\na rash,x\n")
    assert ["repeated text"] == whats(looked(tmp_path / "a.csv"), lost=False)


def test_a_label_that_might_be_a_note_is_not_shown(tmp_path: Path) -> None:
    survey = looked(jsonl(tmp_path, {"text": "x", "labels": [NOTE]}, {"text": "y", "labels": ["allergy"]}))
    assert {"(not shown)": 2} == survey.counts()["labels"]


def test_all_errors_come_at_once_and_the_rest_is_read(tmp_path: Path) -> None:
    bad = {"id": "T3", "type": "drug", "start": 90, "end": 99}
    path = jsonl(
        tmp_path,
        {"text": 7},
        {"text": NOTE, "entities": [*ENTITIES, bad], "relations": [{"type": "x", "head": "T3", "tail": "T1"}]},
        {"text": NOTE, "entities": "none"},
    )
    path.write_text(path.read_text() + "{broken\n", encoding="utf-8")
    survey = looked(path)
    expected = [
        (1, '"text" is a int'),
        (2, 'entity "T3" ends at 99, the text has 40 characters'),
        (2, "relation of an entity that is left out, left out"),
        (3, '"entities" is a str'),
        (4, "not JSON at character 2: Expecting property name enclosed in double quotes"),
    ]
    assert expected == [(one.line, one.what) for one in survey.findings.listed]
    assert (1, 2, 5) == (survey.documents, survey.entities.total(), survey.findings.lost)


def brat(folder: Path, annotations: str, text: str = NOTE) -> Path:
    (folder / "17.txt").write_text(text, encoding="utf-8")
    (folder / "17.ann").write_text(annotations, encoding="utf-8")
    return folder


def test_shifted_offsets_are_told_with_the_remedy_and_words_only_if_asked_for(tmp_path: Path) -> None:
    path = brat(tmp_path, "T1\tdrug 1 8\tAspirin\nT2\teffect 19 23\trash\n")
    remedy = "offsets look shifted by one; try fix_offsets = true"
    expected = Finding(str(path / "17.ann"), 1, "T1 says 7 characters, text[1:8] differs", remedy, lost=True)
    survey = looked(path)
    assert ([expected], {"effect": 1}) == (survey.findings.listed, survey.entities)
    shown = looked(path, show_text=True).findings.listed[0].what
    assert 'T1 says "Aspirin", text[1:8] is "spirin "' == shown
    fixed = looked(path, fix_offsets=True)
    assert (0, ["offsets repaired"], 2) == (
        fixed.findings.lost,
        whats(fixed, lost=False),
        fixed.entities.total(),
    )


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("T1\tdrug 90 97\tAspirin", "T1 says 7 characters, text[90:97] differs"),
        ("T1\tdrug -1 7\tAspirin", "T1 goes from -1 to 7"),
        ("T1\tdrug 7 0\tAspirin", "T1 goes from 7 to 0"),
        ("T1\tdrug 0 4;5 7\tAspi in", ""),
        ("A1\tnegated T9", '"A1" names "T9", which is not in this file'),
        ("A1\tnegated", "not a line of BRAT's A kind"),
        ("N1\tReference T0 C0015230", "not a line of BRAT's N kind"),
        ("T1\tdrug 0 7", ""),
        ("T0\tdrug 0 7\tAspirin", '"T0" is already in line 1'),
        ("R1\tcauses Arg1:T0 Arg2:T9", '"R1" names "T9", which is not in this file'),
        ("E1\tcauses:T0", "event, ignored"),
        ("drug 0 7", "not a line of BRAT's"),
    ],
)
def test_brats_traps_are_told_by_line(line: str, what: str, tmp_path: Path) -> None:
    survey = looked(brat(tmp_path, f"T0\teffect 19 23\trash\n{line}\n"))
    assert ([what] if what else []) == whats(survey)
    assert all(one.line == 2 for one in survey.findings.listed)


def test_notes_without_annotations_and_the_other_way_round(tmp_path: Path) -> None:
    brat(tmp_path, "")
    (tmp_path / "18.txt").write_text("x")
    (tmp_path / "19.ann").write_text("")
    assert ["note without .ann, skipped", "its note is missing"] == whats(looked(tmp_path))


@pytest.mark.parametrize(
    ("task", "row", "what"),
    [
        ("classification", {}, ["document without a label, left out", "0 labels, where a classifier needs two"]),
        ("tagging", {}, ['no "entities"', "no document"]),
        ("tagging", {"entities": []}, ["no entity in any document"]),
        ("bags", {}, ["no entity in any document"]),
        ("relation", {"entities": ENTITIES}, ["no relation in any document"]),
        (
            "tagging",
            {"entities": [*ENTITIES, {"id": "T3", "type": "x", "start": 0, "end": 12}]},
            ["overlapping entity, left out for a longer one"],
        ),
        (
            "relation",
            {
                "entities": [*ENTITIES, {"id": "T3", "type": "effect", "start": 29, "end": 34}],
                "relations": [{"type": "x", "head": "T1", "tail": "T2"}, {"type": "x", "head": "T1", "tail": "T3"}],
            },
            ["relation across sentences, left out", NOTHING_TO_TELL],
        ),
        (None, {}, []),
    ],
)
def test_what_a_task_would_lose_is_told(
    task: str | None, row: dict[str, object], what: list[str], tmp_path: Path
) -> None:
    assert what == whats(looked(jsonl(tmp_path, {"text": NOTE, **row}), task))


def test_i2b2s_pairs_are_those_of_a_line_for_the_check_as_for_a_study(tmp_path: Path) -> None:
    (tmp_path / "1.txt").write_text("We gave Aspirin . Her rash went .\n", encoding="utf-8")
    (tmp_path / "1.con").write_text(
        'c="aspirin" 1:2 1:2||t="treatment"\nc="her rash" 1:4 1:5||t="problem"\n', encoding="utf-8"
    )
    (tmp_path / "1.rel").write_text('c="aspirin" 1:2 1:2||r="TrIP"||c="her rash" 1:4 1:5\n', encoding="utf-8")
    assert [] == looked(tmp_path, "relation").findings.listed


def test_tagging_tells_what_becomes_of_every_span_with_its_line(tmp_path: Path) -> None:
    """By the rules that training follows: what is widened is told, but only what is left out or cut is lost."""
    text = "It began.\nAspi\u200brin: a rash.\n" + "x " * 201
    path = brat(tmp_path, f"T1\tdrug 12 14\tpi\nT2\teffect 19 20\t \nT3\tlong 28 430\t{'x ' * 201}\n", text)
    expected = [
        (2, "invisible characters, left out of the word", False),
        (2, "span cuts a token, widened to it", False),
        (2, "entity without a token, left out", True),
        (3, "entity longer than a sentence may be, cut", True),
        (3, "sentence too long, cut", False),
    ]
    survey = check(path, Options(), task=TASKS["tagging"]())
    assert expected == [(one.line, one.what, one.lost) for one in survey.findings.listed]
    assert all(one.remedy for one in survey.findings.listed[1:])


def test_chinese_is_tagged_by_character_so_no_span_cuts_a_word(tmp_path: Path) -> None:
    cough = {"id": "T1", "type": "symptom", "start": 2, "end": 4}
    assert [] == looked(jsonl(tmp_path, {"text": "患者咳嗽三天。", "entities": [cough]}), "tagging").findings.listed


def test_a_file_that_breaks_off_is_unreadable_but_counted_so_far(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b'text,label\na rash,x\n"never closed,y\n')
    survey = looked(path)
    assert (1, 1) == (survey.documents, survey.findings.lost)
    assert survey.unreadable.startswith(f"{path}:3: unreadable row")


def test_a_folder_of_files_is_read_whole_and_odd_files_are_told(tmp_path: Path) -> None:
    jsonl(tmp_path, {"text": NOTE})
    (tmp_path / "b.conll").write_text("a\tO\n")
    (tmp_path / "scan.pdf").write_bytes(b"%PDF-1.7")
    survey = looked(tmp_path)
    assert ({"conll": 1, "jsonl": 1}, 2) == (survey.formats, survey.documents)
    assert ["a PDF"] == whats(survey)


def test_a_million_problems_are_counted_but_not_all_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("a\tO\n" * 99 + "b\n" * (MOST + 5))
    survey = check(path, Options(), form="conll")
    assert (MOST + 5, MOST) == (survey.findings.lost, len(survey.findings.listed))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("The patient was seen and had no fever.", "en"),
        ("Die Patientin wurde mit Fieber aufgenommen und ist nicht entlassen.", "de"),
        ("Le patient est venu avec une fièvre et pas de toux dans les bronches.", "fr"),
        ("El paciente fue ingresado con fiebre y no se quejaba de la tos.", "es"),
        ("患者服用aspirin 100mg qd，咳嗽三天", "zh"),
        ("患者は熱がある", "ja"),
        ("У пациента жар", "ru"),
        ("O paciente não tem febre, mas com dor no peito.", "pt"),
        ("Il paziente non ha febbre e i sintomi sono di ieri.", "it"),
        ("I had a rash as a child.", "en"),
        ("A rash, no fever", ""),
        ("Vascular resistance during 10 % O2, 21 % O2 / x 100", ""),
        ("Dobutamine stress tests, 5 mg per hour, 7 per cent", ""),
        ("aspirin 100 mg", ""),
        ("123 !", ""),
        ("", ""),
    ],
)
def test_languages_are_guessed_or_left_open(text: str, code: str) -> None:
    assert code == language(text)


def test_a_column_of_notes_is_no_column_of_labels(tmp_path: Path) -> None:
    rows = "".join(f"flu,rash number {n}\n" for n in range(12))
    (tmp_path / "a.csv").write_text(f"text,label\n{rows}", encoding="utf-8")
    survey = check(tmp_path / "a.csv", Options(label="label"), task=TASKS["classification"]())
    what = 'column "label" does not look like labels: 12 of 12 values occur once'
    assert what in whats(survey, lost=True)
    assert {"(not shown)": 12} == survey.counts()["labels"]
    with showing_text():
        assert 12 == len(survey.counts()["labels"])


def test_swapped_columns_are_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_text("O\tAspirin\nO\tgave\nB-effect\trash\n", encoding="utf-8")
    survey = check(tmp_path / "a.conll", Options())
    first = survey.findings.listed[0]
    assert (1, "column 2: (a value of 7 characters) is not a tag") == (first.line, first.what)
    assert "where the token should be there is a tag: columns look swapped" == first.remedy
    assert 1 == len({one.group for one in survey.findings.listed if one.line})


def test_problems_are_counted_beyond_those_that_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wardround.formats.check.MOST", 3)
    survey = looked(jsonl(tmp_path, *({"text": 7} for _ in range(9))))
    assert (3, {9}) == (len(survey.findings.listed), {survey.findings.sizes[survey.findings.listed[0].group]})


def test_what_a_classifier_would_refuse_is_refused_here(tmp_path: Path) -> None:
    rows = [{"text": f"rash {n}", "labels": ["flu", "cold"]} for n in range(2)]
    survey = check(jsonl(tmp_path, *rows), Options(), task=TASKS["classification"]())
    assert ["text with several labels"] * 2 == whats(survey, lost=True)


def test_one_label_alone_is_told_also_without_a_task(tmp_path: Path) -> None:
    rows = [{"text": f"rash {n}", "labels": ["flu"]} for n in range(10)]
    assert ["one label alone, so there is nothing to tell apart"] == whats(looked(jsonl(tmp_path, *rows)), lost=False)


def test_labels_that_look_alike_are_pointed_out(tmp_path: Path) -> None:
    rows = [{"text": f"rash {n}", "labels": [("cell", "Cell")[n % 2]]} for n in range(4)]
    assert ['labels that look alike: "Cell" 2 times, "cell" 2 times'] == whats(
        looked(jsonl(tmp_path, *rows)), lost=False
    )


def test_labels_that_look_alike_by_letters_of_another_alphabet_are_pointed_out(tmp_path: Path) -> None:
    rows = [{"text": f"rash {n}", "labels": [("no", "n\N{CYRILLIC SMALL LETTER O}", "yes")[n % 3]]} for n in range(9)]
    (told,) = whats(looked(jsonl(tmp_path, *rows)), lost=False)
    assert told.startswith("labels that look alike: ")


def test_a_short_label_of_which_two_letters_changed_places_is_called_mistyped(tmp_path: Path) -> None:
    rows = [{"text": f"rash {n}", "labels": ["yse" if n == 7 else ("yes", "no")[n % 2]]} for n in range(30)]
    (one,) = looked(jsonl(tmp_path, *rows)).findings.listed
    assert (8, True) == (one.line, one.what.endswith('is nearly "yes"'))


@pytest.mark.parametrize(("typed", "line"), [("Disaese", 41), ("Diseases", 41), ("DISEASE", None), ("Gene", None)])
def test_a_type_that_is_mistyped_once_is_told_with_its_line(typed: str, line: int | None, tmp_path: Path) -> None:
    """Without the token or what was typed; a class of its own says nothing."""
    rows = [f"zanzibarine{n}\tB-{'Disease' if n != 20 else typed}\n\n" for n in range(30)]
    (tmp_path / "a.conll").write_text("".join(rows), encoding="utf-8")
    told = [one for one in looked(tmp_path / "a.conll").findings.listed if "nearly" in one.what]
    assert ([line] if line else []) == [one.line for one in told]
    for one in told:
        assert f'occurs once, has {len(typed)} characters, and is nearly "Disease"' in one.what
        assert (False, False) == (typed in one.what, "zanzibarine" in one.what + one.remedy)


def test_labels_that_differ_in_a_digit_are_not_called_mistyped(tmp_path: Path) -> None:
    rows = [{"text": f"rash {n}", "labels": ["grade 2" if n == 3 else "grade 1"]} for n in range(12)]
    assert [] == whats(looked(jsonl(tmp_path, *rows)), lost=False)


def test_the_line_is_the_tokens(tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_text("a\tO\nb\tO\nc\tI-x\n\nd\tB-x\ne\tI-y\n", encoding="utf-8")
    assert [3, 6] == [one.line for one in check(tmp_path / "a.conll", Options()).findings.listed]


def test_columns_of_a_table_without_a_header_are_named_by_number(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,a rash,flu\n2,a cough,cold\n3,a fever,flu\n4,a pain,cold\n", encoding="utf-8")
    survey = check(tmp_path / "a.csv", Options(text="2", label="3"), form="csv")
    assert (4, {"cold": 2, "flu": 2}) == (survey.documents, survey.counts()["labels"])


def test_texts_that_are_alike_but_for_blanks_capitals_and_width_are_told_with_both_places(tmp_path: Path) -> None:
    for name, texts in {"a": ["A rash", "A cough"], "b": ["a  RASH ", "Ａ ｃｏｕｇｈ", "A fever"]}.items():
        rows = "".join(f"{text},{name}\n" for text in texts)
        (tmp_path / f"{name}.csv").write_text(f"text,label\n{rows}", encoding="utf-8")
    survey = check(tmp_path, Options())
    assert 2 == survey.duplicates
    assert any(what.startswith("texts that occur in two files: 2 (") for what in whats(survey, lost=False))
    kind = "repeated text, but for white space, capitals or full-width letters"
    assert [kind, kind] == whats(survey, lost=False)[:2]
    assert [(tmp_path / "b.csv", 2), (tmp_path / "b.csv", 3)] == [
        (Path(one.file), one.line) for one in survey.findings.listed[:2]
    ]


def test_a_label_that_a_run_would_take_for_a_note_is_told_with_its_place_and_length(tmp_path: Path) -> None:
    rows = "".join(f"rash {n},{('flu', 'cold')[n % 2]}\n" for n in range(8))
    long = "seen again today because she had another rash on both arms"
    (tmp_path / "a.csv").write_text(f"text,label\n{rows}a cough,{long}\n", encoding="utf-8")
    survey = check(tmp_path / "a.csv", Options(), task=TASKS["classification"]())
    ((line, what),) = [(one.line, one.what) for one in survey.findings.listed if "like a note" in one.what]
    assert 10 == line
    assert what.startswith(f"one of the labels has {len(long)} characters")


@pytest.mark.parametrize("text", ["No E. coli.", "No growth, i.e. sterile", "As e.g. Na", "No E. coli, Na 140"])
def test_abbreviations_make_no_romance_language_of_english(text: str) -> None:
    assert language(text) in ("", "en")


def test_a_file_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('text,label\n"so "called" flu,A\n')
    (tmp_path / "b.csv").write_text("text,label\none,A\ntwo,B\n")
    (tmp_path / "c.csv").write_text('text,label\n"a "second" cold,A\n')
    survey = check(tmp_path, Options())
    assert (2, ["a.csv", "c.csv"]) == (survey.documents, [Path(one.file).name for one in survey.findings.listed])
    assert "a.csv:2" in survey.unreadable


@pytest.mark.parametrize(
    ("train", "test", "task", "words"),
    [
        ("a,A\nb,A\n", "c,A\nd,B\n", "classification", "1 label, where a classifier needs two"),
        ("a,A\nb,B\n", "c,A\nd,C\n", "classification", "labels that no training text has: 1"),
        ("a,A\nb,B\n", "c,A\nd,B\n", "classification", ""),
    ],
    ids=["one label", "a label in test alone", "all well"],
)
def test_files_for_training_are_looked_at_by_themselves(
    train: str, test: str, task: str, words: str, tmp_path: Path
) -> None:
    for name, rows in {"train": train, "test": test}.items():
        (tmp_path / f"{name}.csv").write_text(f"text,label\n{rows}")
    survey = check(tmp_path, Options(), task=TASKS[task]())
    assert [words] * bool(words) == [one.what for one in survey.findings.listed][:1]
    assert words.startswith("1 label,") is bool(survey.findings.lost)


def test_entities_in_test_texts_alone_train_no_tagger(tmp_path: Path) -> None:
    (tmp_path / "train.conll").write_text("She\tO\nslept\tO\n\n")
    (tmp_path / "test.conll").write_text("A\tO\nrash\tB-DISEASE\n\n")
    survey = check(tmp_path, Options(), task=TASKS["tagging"]())
    (one,) = [one for one in survey.findings.listed if "no entit" in one.what]
    assert ("train.conll", True) == (Path(one.file).name, one.lost)


def related(number: int, *relations: str) -> dict[str, object]:
    """A note with a drug and an effect."""
    links = [{"type": kind, "head": "T1", "tail": "T2"} for kind in relations]
    return {"id": f"n{number}", "text": f"{NOTE} {number}", "entities": ENTITIES, "relations": links}


@pytest.mark.parametrize(("third", "expected"), [("causes", [NOTHING_TO_TELL]), ("cures", []), ("", [])])
def test_one_type_of_relation_needs_pairs_without(third: str, expected: list[str], tmp_path: Path) -> None:
    path = jsonl(tmp_path, related(1, "causes"), related(2, "causes"), related(3, *filter(None, [third])))
    assert expected == whats(looked(path, "relation"))


def test_unrelated_pairs_in_test_texts_alone_train_nothing(tmp_path: Path) -> None:
    jsonl(tmp_path, related(1, "causes"), related(2, "causes")).rename(tmp_path / "train.jsonl")
    jsonl(tmp_path, related(3, "causes"), related(4)).rename(tmp_path / "test.jsonl")
    assert [NOTHING_TO_TELL] == whats(looked(tmp_path, "relation"))


def test_a_split_without_a_document_is_refused(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("text,label\n" + "".join(f"note {n},{'ab'[n % 2]}\n" for n in range(12)))
    (tmp_path / "test.csv").write_text("text,label\n")
    assert ["no document, and it is there for test"] == whats(looked(tmp_path, "classification"))


@pytest.mark.parametrize("task", ["classification", "tagging"])
def test_texts_of_punctuation_alone_are_refused(task: str, tmp_path: Path) -> None:
    marks = [{"text": "?!" * n, "labels": ["ab"[n % 2]], "entities": [ENTITIES[0] | {"end": 1}]} for n in range(1, 9)]
    assert ["no text has a letter or a digit"] == whats(looked(jsonl(tmp_path, *marks), task))
