"""From notes and public facts to bags: what is a bag, what is NA, and what is odd is counted and named."""

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data import needs_data
from wardround.cli.app import main
from wardround.clinic.bags import ClinicBags
from wardround.corpora.align import align, related_types
from wardround.corpora.register import CORPORA
from wardround.corpora.views import BaggedSentences
from wardround.federation.describe import describe
from wardround.federation.partition import BySource, Evenly
from wardround.federation.sites import federate, opened
from wardround.formats.bags import write_bags
from wardround.formats.jsonl import read_jsonl
from wardround.formats.options import Options
from wardround.formats.pubtator import read_pubtator
from wardround.text.document import Document, Entity, Placed
from wardround.text.facts import UNRELATED, BagSentence, Fact, Facts, number, read_facts
from wardround.text.pairs import CROWD
from wardround.text.reading import DataError, Problems
from wardround.text.shown import showing_text
from wardround.trained.folder import TrainingTexts

TEXT = "Aspirin gave her a rash. Ibuprofen did not; aspirin again."
CAUSES = Facts([Fact("D1", "causes", "D9")])
PAIRS = {("drug", "problem")}


def note(*entities: tuple[str, str, int, int], text: str = TEXT) -> Placed:
    return Placed(Document("n", text, (), tuple(Entity(*plain) for plain in entities)), Path("n.txt"), 1)


def plain(rows: list[BagSentence]) -> list[tuple[str, str, str, str]]:
    """Head, relation and tail of each sentence, and what stands at the place of its head."""
    return [
        (row.fact.head, row.fact.relation, row.fact.tail, row.text[row.entities[0].start : row.entities[0].end])
        for row in rows
    ]


ASPIRIN, RASH, IBUPROFEN = ("D1", "drug", 0, 7), ("D9", "problem", 19, 23), ("D2", "drug", 25, 34)


def test_a_pair_with_a_fact_has_its_relation_and_one_without_is_na() -> None:
    found = note(ASPIRIN, RASH, IBUPROFEN, ("D8", "problem", 52, 57))
    rows = list(align([found], CAUSES, PAIRS))
    assert [("D1", "causes", "D9", "Aspirin"), ("D2", UNRELATED, "D8", "Ibuprofen")] == plain(rows)
    assert "Aspirin gave her a rash." == rows[0].text
    assert [rows[0].fact, rows[1].fact] == list(Counter(row.fact for row in rows))


def test_a_pair_with_two_relations_is_in_two_bags() -> None:
    both = Facts([Fact("D1", "causes", "D9"), Fact("D1", "worsens", "D9")])
    assert ["causes", "worsens"] == [row.labels[0] for row in align([note(ASPIRIN, RASH)], both, PAIRS)]


def test_of_several_mentions_the_nearest_two_stand_for_the_pair() -> None:
    text = "Aspirin, yes aspirin, gave her a rash."
    found = note(("D1", "drug", 0, 7), ("D1", "drug", 13, 20), ("D9", "problem", 33, 37), text=text)
    assert [("D1", "causes", "D9", "aspirin")] == plain(list(align([found], CAUSES, PAIRS)))


def test_where_both_orders_are_allowed_the_facts_decide_or_else_the_text() -> None:
    pairs = {("problem", "problem")}
    text = "Rash, fever and cough."
    found = note(("P1", "problem", 0, 4), ("P2", "problem", 6, 11), ("P3", "problem", 16, 21), text=text)
    known = Facts([Fact("P2", "presents_with", "P1")])
    facts = {(row.fact.head, row.fact.relation, row.fact.tail) for row in align([found], known, pairs)}
    assert {("P2", "presents_with", "P1"), ("P1", UNRELATED, "P3"), ("P2", UNRELATED, "P3")} == facts


def test_what_is_odd_in_notes_is_counted_and_the_rest_is_aligned() -> None:
    problems = Problems()
    odd = [("D3", "drug", 50, 99), ("-1", "drug", 25, 34), ("D4|D1", "drug", 0, 7), RASH, ("D9", "problem", 3, 1)]
    rows = list(align([note(*odd)], CAUSES, PAIRS, problems=problems))
    assert [("D4", UNRELATED, "D9", "Aspirin"), ("D1", "causes", "D9", "Aspirin")] == plain(rows)
    assert {
        "mention outside the text, left out": 2,
        "mention without an id, left out": 1,
        "id that is not in the knowledge base, its pairs are NA": 1,
    } == dict(problems.counts)


def test_a_pair_whose_mentions_only_overlap_is_counted() -> None:
    problems = Problems()
    rows = list(align([note(("D1", "drug", 0, 12), ("D9", "problem", 8, 12))], CAUSES, PAIRS, problems=problems))
    assert ([], {"entities overlap, pair skipped": 1}) == (rows, dict(problems.counts))


def test_types_that_may_be_related_are_those_of_facts_that_occur() -> None:
    assert {("drug", "problem")} == related_types([note(ASPIRIN, RASH, IBUPROFEN)], CAUSES)


# facts


def test_facts_are_read_with_or_without_names_of_columns(tmp_path: Path) -> None:
    (tmp_path / "named.tsv").write_text("tail\tnote\thead\trelation\nD9\tx\tD1\tcauses\n")
    (tmp_path / "bare.tsv").write_text("D1\tcauses\tD9\n\n")
    for name in ("named.tsv", "bare.tsv"):
        assert ("causes",) == read_facts(tmp_path / name).relations("D1", "D9")


def test_what_is_odd_in_facts_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "facts.tsv"
    path.write_text("D1\tNA\tD9\nD1\tcauses\tD9\nD1\tcauses\tD9\nD1\tworsens\tD9\nD2\tcures\tD9\nD2\tNA\tD8\n")
    problems = Problems()
    known = read_facts(path, ["causes", "worsens", "prevents"], problems)
    assert [("causes", "worsens"), (UNRELATED,)] == [known.relations(head, "D9") for head in ("D1", "D2")]
    assert {
        "repeated fact": 1,
        "pair both related and NA, taken as related": 1,
        "another relation of the same pair, a bag of its own": 1,
        "fact of a relation that is not in the study, left out": 1,
        "relation asked for of which there is no fact": 1,
    } == dict(problems.counts)
    assert ["facts.tsv:1"] == problems.places["pair both related and NA, taken as related"]


def test_facts_of_other_relations_alone_are_an_error_that_names_them(tmp_path: Path) -> None:
    (tmp_path / "facts.tsv").write_text("".join(f"D{n}\t{name}\tD9\n" for n in (1, 2) for name in ("causes", "cures")))
    with pytest.raises(DataError, match=r"no facts of cause — ask for one of its relations: causes, cures$"):
        read_facts(tmp_path / "facts.tsv", ["cause"])


def test_what_is_odd_in_facts_is_told_once_for_both_splits(tmp_path: Path) -> None:
    (tmp_path / "facts.tsv").write_text("D1\tcauses\tD9\nD1\tcauses\tD9\n")
    (tmp_path / "n.jsonl").write_text('{"text": "x", "entities": []}\n')
    reader = BaggedSentences(
        format="jsonl",
        train="n.jsonl",
        test="n.jsonl",
        kb="facts.tsv",
        pairs=(("drug", "problem"),),
        folder=str(tmp_path),
    )
    problems = Problems()
    assert [] == [row for split in ("train", "test") for row in reader.documents(split, problems)]
    assert 1 == problems.counts["repeated fact"]
    assert ["drug", "problem"] == problems.places["type in pairs that no entity has"]


@pytest.mark.parametrize(("text", "said"), [("", "no facts"), ("D1\tcauses\n", ":1: 2 cells"), ("D1\t\tD9\n", ":1: 3")])
def test_facts_that_are_none_are_an_error_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "facts.tsv").write_text(text)
    with pytest.raises(DataError, match=said):
        read_facts(tmp_path / "facts.tsv")


def test_a_facts_number_is_the_same_everywhere_and_depends_on_all_three_parts() -> None:
    assert 4312934274707610180 == number(Fact("D1", "causes", "D9"))
    others = {number(Fact(*parts)) for parts in (("D1", "causes", "D8"), ("D9", "causes", "D1"), ("D1", "NA", "D9"))}
    assert 3 == len(others - {number(Fact("D1", "causes", "D9"))})


# files

PUBTATOR = """\
7|t|Aspirin rash.
7|a|It was aspirin.
7\t0\t7\tAspirin\tChemical\tD1
7\t8\t12\trash\tDisease\tD9|D8\trash|itch
7\t21\t28\taspirin\tChemical\tD1
7\tCID\tD1\tD9

8|t|Nothing.
8|a|
"""


def test_pubtator_files_are_their_own_facts_and_name_concepts(tmp_path: Path) -> None:
    for split in ("train", "test"):
        (tmp_path / f"{split}.txt").write_text(PUBTATOR)
    reader = BaggedSentences(format="pubtator", train="train.txt", test="test.txt", folder=str(tmp_path))
    problems = Problems()
    rows: list[Any] = list(reader.documents("train", problems))
    assert [("D1", "CID", "D9", "Aspirin"), ("D1", UNRELATED, "D8", "Aspirin")] == plain(rows)
    with pytest.raises(
        ValueError, match=r"does not look like relations: 1 of 1 values occur once; .* \(relations = \[…\]\)"
    ):
        _ = reader.labels
    with showing_text():
        assert ((UNRELATED, "CID"), "7") == (reader.labels, rows[0].source)
    unseen = BaggedSentences(
        format="pubtator", train="train.txt", test="test.txt", folder=str(tmp_path), unseen=True, relations=("CID",)
    )
    assert [] == list(unseen.documents("test", problems))
    assert 2 == problems.counts["test sentence whose pair training has too, left out"]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("7\t0\tx\tAspirin\tChemical\tD1", "is not a whole number"),
        ("9\t0\t7\tAspirin\tChemical\tD1", "another document"),
        ("7\t0", "2 cells"),
    ],
)
def test_a_broken_pubtator_line_is_an_error_with_its_place(tmp_path: Path, row: str, said: str) -> None:
    (tmp_path / "x.txt").write_text(f"7|t|Aspirin rash.\n7|a|\n{row}\n")
    with pytest.raises(DataError, match=rf"x\.txt:3: .*{said}"):
        list(read_pubtator(tmp_path / "x.txt", Problems(), Options(concepts=True)))


def test_mentions_that_stand_elsewhere_are_moved_and_counted(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("7|t|The aspirin rash.\n7|a|\n7\t3\t10\taspirin\tChemical\tD1\n")
    problems = Problems()
    (placed,) = read_pubtator(tmp_path / "x.txt", problems, Options(concepts=True))
    assert (4, 11) == (placed.document.entities[0].start, placed.document.entities[0].end)
    assert {"mention whose words are elsewhere, moved": 1} == dict(problems.counts)


def test_bags_come_back_as_they_were_written(tmp_path: Path) -> None:
    placed = note(ASPIRIN, RASH, IBUPROFEN, ("D8", "problem", 52, 57))
    placed = placed._replace(document=replace(placed.document, patient="p7"))
    rows = list(align([placed], CAUSES, PAIRS))
    assert {"p7"} == {row.patient for row in rows}
    (tmp_path / "bags.jsonl").write_text("".join(f"{line}\n" for line in write_bags(rows)))
    reader = BaggedSentences(format="bags", train="bags.jsonl", test="bags.jsonl", folder=str(tmp_path))
    assert rows == list(reader.documents("train"))


def test_a_sentence_whose_mention_lies_outside_is_left_out_of_its_bag(tmp_path: Path) -> None:
    plain = [{"text": "ab", "head": [0, 1], "tail": [1, 3]}, {"text": "ab", "head": [0, 1], "tail": [1, 2]}]
    line = json.dumps({"head": "D1", "relation": "causes", "tail": "D9", "sentences": plain})
    (tmp_path / "bags.jsonl").write_text(line)
    problems = Problems()
    reader = BaggedSentences(format="bags", train="bags.jsonl", test="bags.jsonl", folder=str(tmp_path))
    assert 1 == len(list(reader.documents("train", problems)))
    assert {"mention outside the text, sentence left out": 1} == dict(problems.counts)


def bag(relation: str = "causes", *spans: tuple[list[int], list[int]]) -> str:
    """A line of a file of bags, with a sentence for each head and tail."""
    plain = [{"text": "ab", "head": head, "tail": tail} for head, tail in spans]
    return json.dumps({"head": "D1", "relation": relation, "tail": "D9", "sentences": plain}) + "\n"


def test_bags_are_not_taken_for_notes(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text(bag("causes", ([0, 1], [1, 2])))
    with pytest.raises(
        DataError, match=r'x\.jsonl:1: a bag of sentences, no note — in a study: \[corpus\] format = "bags"'
    ):
        list(read_jsonl(tmp_path / "x.jsonl", Problems(), Options()))


def test_what_is_odd_in_bags_is_counted(tmp_path: Path) -> None:
    (tmp_path / "x").write_text(bag() + bag("causes", ([0, 2], [1, 2])) + bag("causes", ([0, 1], [1, 2])))
    problems = Problems()
    assert 1 == len(
        list(BaggedSentences(format="bags", train="x", test="x", folder=str(tmp_path)).documents("train", problems))
    )
    assert {"bag without a sentence": 1, "entities overlap, sentence left out": 1} == dict(problems.counts)


def test_sentences_of_relations_that_are_not_in_the_study_are_left_out_and_counted(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("".join(bag(name, ([0, 1], [1, 2])) for name in ("causes", "cures", "NA")))
    reader = BaggedSentences(format="bags", train="x", test="x", relations=("causes",), folder=str(tmp_path))
    for split in reader.splits:
        problems = Problems()
        assert ["causes", "NA"] == [row.labels[0] for row in reader.documents(split, problems)]
        said = f"sentence of a relation that is not in the study, left out: 1 ({split}:2)"
        assert said == str(problems)


@pytest.mark.parametrize(
    ("relations", "said"), [(("NA", "causes"), "'NA', which is always there"), (("causes", "causes"), "'causes' twice")]
)
def test_declared_relations_are_named_once_and_na_is_none_of_them(relations: tuple[str, ...], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        BaggedSentences(format="bags", train="x", test="x", relations=relations)


def test_a_test_split_without_a_fact_says_so(tmp_path: Path) -> None:
    (tmp_path / "train").write_text(bag("causes", ([0, 1], [1, 2])))
    (tmp_path / "test").write_text(bag("NA", ([0, 1], [1, 2])))
    problems = Problems()
    reader = BaggedSentences(format="bags", train="train", test="test", folder=str(tmp_path), relations=("causes",))
    assert 1 == len(list(reader.documents("test", problems)))
    assert ["no fact to find, so no precision and recall"] == list(problems.counts)


def test_an_entitys_id_may_be_a_number_and_a_concept_may_be_empty(tmp_path: Path) -> None:
    entities = [
        {"id": 672, "type": "gene", "start": 0, "end": 1},
        {"id": "D9", "concept": None, "type": "disease", "start": 1, "end": 2},
        {"id": [1], "type": "gene", "start": 0, "end": 1},
    ]
    (tmp_path / "n.jsonl").write_text(json.dumps({"text": "ab", "entities": entities}))
    problems = Problems()
    (found,) = read_jsonl(tmp_path / "n.jsonl", problems, Options(concepts=True))
    assert ["672", "D9"] == [entity.id for entity in found.document.entities]
    assert 1 == sum(problems.counts.values())


def test_every_sentence_of_a_long_note_gives_its_own_pair() -> None:
    many = 2_000
    text = "Aspirin rash.\n" * many
    places = [(name, kind, 14 * at + start, 14 * at + end) for at in range(many) for name, kind, start, end in
              (("D1", "drug", 0, 7), ("D9", "problem", 8, 12))]  # fmt: skip
    rows = list(align([note(*places, text=text)], CAUSES, PAIRS, scope="line"))
    assert {("D1", "causes", "D9", "Aspirin")} == {*plain(rows)}
    assert [f"n:{14 * at}" for at in range(many)] == [row.id for row in rows]


def test_a_sentence_of_more_mentions_than_a_note_has_is_counted_and_gives_no_pair() -> None:
    places = [(f"D{at}", ("drug", "problem")[at % 2], 2 * at, 2 * at + 1) for at in range(CROWD + 1)]
    problems = Problems()
    assert [] == list(align([note(*places, text="x " * (CROWD + 1))], CAUSES, PAIRS, problems=problems))
    assert problems.counts["sentence of more than 1,000 entities, none of its pairs is read"] == 1


def test_opennre_sentences_whose_mention_lies_outside_are_counted(tmp_path: Path) -> None:
    ends = ([0, 1], [-1, 1], [1, 1], [1, 9])
    (tmp_path / "x").write_text("\n".join(
        json.dumps({"text": "ab", "h": {"id": "1", "pos": pos}, "t": {"id": "2", "pos": [1, 2]}, "relation": "causes"})
        for pos in ends
    ))  # fmt: skip
    problems = Problems()
    assert 1 == len(
        list(BaggedSentences(format="opennre", train="x", test="x", folder=str(tmp_path)).documents("train", problems))
    )
    assert "mention outside the text, sentence left out: 3 (x:2, x:3, x:4)" == str(problems)


def test_opennre_files_keep_the_ids_of_the_knowledge_base(tmp_path: Path) -> None:
    lines = [
        {"text": "Aspirin gave her a rash .", "h": {"id": "/m/1", "pos": [0, 7]}, "t": {"id": "/m/9", "pos": [19, 23]}},
        {"token": ["Aspirin", "rash"], "h": {"pos": [0, 1]}, "t": {"pos": [1, 2]}, "entity_pair": "a|r"},
        {"token": ["Aspirin", "rash"], "h": {"pos": [0, 1]}, "t": {"pos": [1, 2]}},
    ]
    labels = ["causes", "none", "causes"]
    text = "\n".join(json.dumps({**line, "relation": label}) for line, label in zip(lines, labels, strict=True))
    (tmp_path / "x.txt").write_text(text)
    problems = Problems()
    reader = BaggedSentences(format="opennre", train="x.txt", test="x.txt", folder=str(tmp_path), unrelated="none")
    rows: list[Any] = list(reader.documents("train", problems))
    facts = [("/m/1", "causes", "/m/9"), ("a|r", UNRELATED, "a|r"), ("aspirin", "causes", "rash")]
    assert facts == [(row.fact.head, row.fact.relation, row.fact.tail) for row in rows]
    assert {"entity without an id, its name stands for it": 2} == dict(problems.counts)


def test_mirgene_lines_give_a_sentence_per_relation_and_none_is_na(tmp_path: Path) -> None:
    """A generated file in the layout that the published loader reads."""
    lines = ["R_MIRTAR 22391563 4 miR-223|FOXO1 dep:a b\t<e1>miR-223</e1> regulates <e2>FOXO1</e2> .",
             "NONE 7 1 miR-1|TP53 dep:a\tNo <e2>TP53</e2> with <e1>miR-1</e1> at p <0.05> ."]  # fmt: skip
    for split in ("train", "test"):
        (tmp_path / split).write_text("\n".join(lines))
    rows: list[Any] = list(
        BaggedSentences(format="mirgene", train="train", test="test", folder=str(tmp_path)).documents("train")
    )
    expected = [("miR-223|FOXO1", "R_MIRTAR", "miR-223|FOXO1", "miR-223"), ("miR-1|TP53", "NA", "miR-1|TP53", "miR-1")]
    assert expected == plain(rows)
    assert ["miR-223 regulates FOXO1 .", "No TP53 with miR-1 at p <0.05> ."] == [row.text for row in rows]
    with pytest.raises(DataError, match='nothing is marked "MIR" — it has 2 other marks; set tags'):
        list(
            BaggedSentences(
                format="mirgene", train="train", test="test", folder=str(tmp_path), tags=("MIR", "GENE")
            ).documents("train")
        )


def test_align_writes_bags_of_the_clinics_own_files_and_tells_what_is_odd(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["clinic", "write", str(tmp_path / "c"), "--kind", "distant", "--hospitals", "1", "--documents", "40"]
    for command in (
        [*arguments, "--quiet"],
        ["align", "--kb", str(tmp_path / "c" / "facts.tsv"), "--texts",
         str(tmp_path / "c" / "hospital-0" / "train" / "documents.jsonl"), "--out", str(tmp_path / "bags.jsonl")],
    ):  # fmt: skip
        with pytest.raises(SystemExit) as end:
            main(command)
        assert 0 == (end.value.code or 0)
    assert "40 sentences in" in capsys.readouterr().out
    again = BaggedSentences(format="jsonl",
        train="c/hospital-0/train/documents.jsonl", test="c/hospital-0/test/documents.jsonl",
        kb="c/facts.tsv", folder=str(tmp_path),
    )  # fmt: skip
    aligned = BaggedSentences(format="bags", train="bags.jsonl", test="bags.jsonl", folder=str(tmp_path))
    facts = [Counter(row.fact for row in reader.documents("train")) for reader in (again, aligned)]  # type: ignore[attr-defined]
    truth = Counter(row.fact for row in ClinicBags(hospitals=1, sentences=40)._rows("train", Problems()))
    assert [truth, truth] == facts


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("--pair", "drug"), "--pair drug: write the types"),
        (("--scope", "page"), "--scope page: use"),
        (("--format", "xml"), "--format xml: use jsonl or pubtator"),
        (("--kb", "none.tsv"), "no such file"),
        (("--pair", "drgu:problem"), '--pair drgu: no entity has this type; did you mean "drug"?'),
        (("--relation", "cures"), "no facts of cures — ask for one of its relations: causes"),
        (("--texts", "{}/empty.jsonl"), "empty.jsonl: no note — name the file that holds the notes"),
        (("--out", "{}/n.jsonl"), "n.jsonl: exists already — name another with --out, or remove it first"),
        (("--texts", "{}/latin.jsonl"), "it looks like latin-1 — give --encoding latin-1, or repair"),
        ((), "in the data: mention without an id, left out: 1 (n.jsonl:1)"),
    ],
)
def test_align_says_what_is_wrong(
    tmp_path: Path, change: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "facts.tsv").write_text("D1\tcauses\tD9\nD2\tcauses\tD9\n")
    entities = [
        {"type": kind, "start": 0, "end": 1, "id": name}
        for kind, name in (("drug", "-"), ("problem", "D9"), ("drug", "D7"))
    ]
    (tmp_path / "n.jsonl").write_text(json.dumps({"text": "x", "entities": entities}))
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "latin.jsonl").write_bytes('{"text": "café noir"}'.encode("latin-1"))
    options = ["--kb", str(tmp_path / "facts.tsv"), "--texts", str(tmp_path / "n.jsonl"), "--out", str(tmp_path / "o")]
    with pytest.raises(SystemExit) as end:
        main(["align", *options, *(part.format(tmp_path) for part in change)])
    assert 2 == end.value.code
    assert message in capsys.readouterr().err
    assert "entities" in (tmp_path / "n.jsonl").read_text()


def test_pubtators_own_facts_of_other_relations_are_left_out_and_their_pairs_are_na(tmp_path: Path) -> None:
    lines = ["1|t|Aspirin rash", "1|a|", "1\t0\t7\tAspirin\tChemical\tD1", "1\t8\t12\trash\tDisease\tD9",
             "1\tcures\tD1\tD9", ""]  # fmt: skip
    (tmp_path / "x.pubtator").write_text("\n".join(lines))
    problems = Problems()
    reader = BaggedSentences(format="pubtator",
        train="x.pubtator", test="x.pubtator", relations=("causes",), pairs=(("Chemical", "Disease"),),
        folder=str(tmp_path),
    )  # fmt: skip
    assert [UNRELATED] == [row.labels[0] for row in reader.documents("train", problems)]
    assert "fact of a relation that is not in the study, left out" in problems.counts


def test_what_may_be_a_note_is_not_taken_for_a_relation(tmp_path: Path) -> None:
    (tmp_path / "notes.tsv").write_text("1\tMrs Smith has HIV, and took aspirin\tx\n")
    with pytest.raises(DataError, match=r"no facts of causes — are its columns as they should be\?$"):
        read_facts(tmp_path / "notes.tsv", ["causes"])


def canary_bag(number: int, relation: str) -> str:
    """A bag of two sentences, each of which has an id of its own."""
    told = [{"id": f"s{number}{at}", "text": f"ab {number} {at}", "head": [0, 1], "tail": [1, 2]} for at in (1, 2)]
    kinds = {"head_type": f"the {relation}", "tail_type": "problem"}
    return json.dumps({"head": f"D{number}", "relation": relation, "tail": "E1", **kinds, "sentences": told}) + "\n"


def test_a_relation_that_is_written_once_is_no_name_however_many_sentences_its_bag_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [canary_bag(at, ("causes", "NA")[at % 2]) for at in range(12)]
    (tmp_path / "x.jsonl").write_text("".join([*rows, canary_bag(12, "seen, zqword")]))
    with pytest.raises(SystemExit) as ended:
        main(["data", "check", str(tmp_path / "x.jsonl"), "--task", "bags"])
    said = capsys.readouterr().out
    assert 0 == ended.value.code
    assert "relations: 13 of 3 kinds" in said
    assert "x.jsonl:13: one of the types of relations has 12 characters" in said
    assert "zqword" not in said
    reader = BaggedSentences(format="bags", train="x.jsonl", test="x.jsonl", folder=str(tmp_path))
    with pytest.raises(ValueError, match=r"1 of 3 relations is long, or rare and worded .* stands in x\.jsonl:13;"):
        _ = reader.labels
    known = BaggedSentences(
        format="bags", train="x.jsonl", test="x.jsonl", relations=("causes", "seen, zqword"), folder=str(tmp_path)
    )
    assert (("the NA", "problem"), ("the causes", "problem")) == TrainingTexts(opened(known)).pairs


# sites


@pytest.mark.parametrize("partition", [Evenly(sites=4), BySource(sites=2), BySource()])
def test_training_sentences_scatter_and_test_pairs_stay_whole(partition: Any) -> None:
    reader = ClinicBags(hospitals=3, sentences=60, test_sentences=40)
    sites: Any = federate(opened(reader), partition, 0)
    whole = list(reader.documents("test"))
    held = [{(row.fact.head, row.fact.tail) for row in sites.raw(name)[1].documents} for name in sites.names]
    assert len(whole) == sum(len(sites.raw(name)[1]) for name in sites.names)
    assert {(row.fact.head, row.fact.tail) for row in whole} == set().union(*held)  # type: ignore[attr-defined]
    assert sum(map(len, held)) == len(set().union(*held))
    trained = Counter(row.fact for name in sites.names for row in set(sites.raw(name)[0].documents))
    assert 180 == trained.total()


def test_by_document_a_note_is_never_split() -> None:
    sites = federate(opened(ClinicBags(hospitals=3, sentences=20, test_sentences=5)), BySource(), 0)
    assert [{name} for name in sites.names] == [set(sites.raw(name)[0].sources) for name in sites.names]


def test_without_noise_training_keeps_what_is_true_and_the_test_stays_as_it_is() -> None:
    noisy, true = (ClinicBags(hospitals=1, sentences=80, truths=truths) for truths in (False, True))
    kept = [row for row in noisy._rows("train", Problems()) if row.expressed or row.fact.relation == UNRELATED]
    assert kept == list(true._rows("train", Problems()))
    assert list(noisy.documents("test")) == list(true.documents("test"))


def test_sites_without_bags_are_named() -> None:
    sites = federate(opened(ClinicBags(hospitals=1, sentences=2, test_sentences=2)), Evenly(sites=4), 0)
    assert ["site without training examples: 2 (site-2, site-3)"] == describe(sites)["problems"]


@pytest.mark.parametrize(("background", "given_away"), [(0, True), (1, False)])
def test_background_noise_does_not_give_the_relation_away(background: float, given_away: bool) -> None:
    reader = ClinicBags(hospitals=2, sentences=400, noise=0, background=background, unrelated=0.6)
    rows = list(reader._rows("train", Problems()))
    failing = re.compile("despite|in spite of|refractory|little effect|did nothing|no better")
    said = {row.fact.relation for row in rows if failing.search(row.text) and not row.expressed}
    assert given_away == (said == {"may_cause"})
    bags = {row.fact for row in rows}
    assert 0.6 == pytest.approx(sum(fact.relation == UNRELATED for fact in bags) / len(bags), abs=0.1)


def test_the_clinic_says_which_sentences_express_their_fact() -> None:
    rows = list(ClinicBags(hospitals=2, sentences=300, expression=0.3)._rows("train", Problems()))
    said = [row.expressed for row in rows if row.fact.relation != UNRELATED]
    assert 0.3 == pytest.approx(np.mean([bool(one) for one in said]), abs=0.06)
    assert {False} == {row.expressed for row in rows if row.fact.relation == UNRELATED}


@needs_data
@pytest.mark.parametrize(
    ("name", "sizes", "related"),
    [
        ("bc5cdr-bags", (7826, 2700), (1253, 479)),
        ("dti-bags", (6084, 6253), (83, 83)),
        ("pgr-bags", (3495, 219), (740, 116)),
    ],
)
def test_public_corpora_have_as_many_bags_as_they_are_known_to_have(
    name: str, sizes: tuple[int, int], related: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    from data import DATA  # noqa: PLC0415 -- only where there are data

    monkeypatch.setenv("WARDROUND_DATA", str(DATA))
    reader = CORPORA[name]()
    rows = [list(reader.documents(split)) for split in ("train", "test")]
    assert sizes == tuple(map(len, rows))
    bags = [{row.fact for row in split if row.fact.relation != UNRELATED} for split in rows]
    assert related == tuple(map(len, bags))
    assert set(reader.labels) == {row.labels[0] for row in rows[0]}


@needs_data
def test_one_sentence_per_test_bag_takes_the_size_away_from_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    from data import DATA  # noqa: PLC0415 -- only where there are data

    monkeypatch.setenv("WARDROUND_DATA", str(DATA))
    rows = list(CORPORA["dti-bags"](most=1).documents("test"))
    assert {1} == set(Counter((row.fact.head, row.fact.tail) for row in rows).values())
