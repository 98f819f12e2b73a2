"""The named relation corpora hold what their publishers say, and damaged copies are refused."""

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from data import DATA, needs_data
from wardround.corpora.chemprot import GROUPS, ChemProt
from wardround.corpora.ddi2013 import DDI2013
from wardround.corpora.gad import EUADR, GAD
from wardround.corpora.pgr import PGR
from wardround.text.document import Document, Relation
from wardround.text.reading import DataError, Problems

Reader = GAD | EUADR | ChemProt | PGR | DDI2013


@pytest.fixture
def _real(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARDROUND_DATA", str(DATA))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WARDROUND_DATA", str(tmp_path))
    for name in ("gad/1", "euadr/1", "chemprot", "pgr/10_12_2018_corpus", "ddi2013"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


def surfaces(document: Document) -> list[str]:
    return [document.text[e.start : e.end] for e in document.entities]


def are_pairs(documents: list[Document]) -> bool:
    return len({d.id for d in documents}) == len(documents) and all(
        [e.id for e in d.entities] == ["e1", "e2"]
        and all(0 <= e.start < e.end <= len(d.text) for e in d.entities)
        and all(words.strip() == words for words in surfaces(d))
        and d.relations == (Relation(d.labels[0], "e1", "e2"),)
        and d.language == "en"
        for d in documents
    )


def counted(reader: Reader, split: str) -> tuple[Counter[str], Counter[str]]:
    problems = Problems()
    documents = list(reader.documents(split, problems))
    assert are_pairs(documents)
    labels = Counter(label for d in documents for label in d.labels)
    assert set(labels) <= set(reader.labels)
    return labels, problems.counts


@needs_data
@pytest.mark.usefixtures("_real")
def test_the_folds_of_gad() -> None:
    """Its ten test files partition 5,330 rows; of each, these sentences are also trained on."""
    tests, shared = Counter[tuple[str, str]](), []
    for fold in range(1, 11):
        train, test = (list(GAD(fold=fold).documents(split)) for split in ("train", "test"))
        assert (len(train), len(test)) == {1: (4796, 534), 10: (4798, 532)}.get(fold, (4797, 533))
        assert are_pairs(train + test)
        assert all(surfaces(d) == ["@GENE$", "@DISEASE$"] for d in train + test)
        tests.update((d.text, d.labels[0]) for d in test)
        trained = {d.text for d in train}
        shared.append(sum(d.text in trained for d in test))
        kept = {d.text for d in GAD(fold=fold, dedupe=True).documents("train")} if fold == 8 else set()
        assert not kept & {d.text for d in test}
    assert (tests.total(), len(tests), len({text for text, _ in tests})) == (5330, 5122, 5122)
    assert sum(n for (_, label), n in tests.items() if label == "1") == 2801
    assert shared == [8, 9, 4, 13, 16, 6, 16, 28, 1, 2]


@needs_data
@pytest.mark.usefixtures("_real")
def test_gad_keeps_a_share_for_validation() -> None:
    corpus = GAD(fold=2, valid=0.2, seed=3)
    parts = {split: Counter(d.labels[0] for d in corpus.documents(split)) for split in corpus.splits}
    assert parts == {
        "train": {"1": 2017, "0": 1821},
        "valid": {"1": 504, "0": 455},
        "test": {"1": 280, "0": 253},
    }
    ids = [d.id for split in corpus.splits for d in corpus.documents(split)]
    assert len(set(ids)) == 5330


@needs_data
@pytest.mark.usefixtures("_real")
def test_the_folds_of_euadr() -> None:
    labels = Counter[str]()
    for fold in range(1, 11):
        (train, found), (test, _) = (counted(EUADR(fold=fold), split) for split in ("train", "test"))
        sizes = {1: (318, 37), 2: (318, 37), 3: (319, 36)}.get(fold, (320, 35))
        assert (train.total(), test.total(), found) == (*sizes, {})
        labels += test
    assert labels == {"1": 262, "0": 93}


@needs_data
@pytest.mark.usefixtures("_real")
@pytest.mark.parametrize(
    ("split", "groups", "like_markers", "shared"),
    [
        ("train", (777, 2260, 170, 235, 727), 13, 4),
        ("valid", (552, 1103, 116, 199, 457), 16, 0),
        ("test", (667, 1667, 198, 293, 644), 10, 0),
    ],
)
def test_chemprot(split: str, groups: tuple[int, ...], like_markers: int, shared: int) -> None:
    labels, found = counted(ChemProt(), split)
    assert labels == dict(zip(("CPR:3", "CPR:4", "CPR:5", "CPR:6", "CPR:9"), groups, strict=True))
    assert +found == +Counter(
        {"characters like markers in the sentence, kept": like_markers, "text also in test": shared}
    )
    assert counted(ChemProt(dedupe=True), split)[0].total() == labels.total() - shared


@needs_data
@pytest.mark.usefixtures("_real")
def test_chemprot_without_markers() -> None:
    documents = list(ChemProt(classes="relations").documents("train"))
    assert surfaces(documents[1]) == ["Epidermal growth factor receptor", "Iressa"]
    assert "gefitinib (Iressa, ZD1839)" in documents[1].text
    assert surfaces(documents[1668])[1].startswith("(1-deoxy-1-6[[(3-iodophenyl) methyl]amino]-9H")
    assert len({d.labels for d in documents}) == len(GROUPS) == 13
    assert all(d.entities[0].start < d.entities[1].start for d in documents)


@needs_data
@pytest.mark.usefixtures("_real")
def test_chemprot_pooled() -> None:
    parts = {split: list(ChemProt(split="pooled", seed=1).documents(split)) for split in ChemProt.splits}
    assert {split: len(found) for split, found in parts.items()} == {"train": 7251, "valid": 803, "test": 2011}
    assert len({d.id for found in parts.values() for d in found}) == 10_065
    whole = Counter(d.labels[0] for found in parts.values() for d in found)
    assert {label: n // 5 for label, n in whole.items()} == Counter(d.labels[0] for d in parts["test"])


@needs_data
@pytest.mark.usefixtures("_real")
def test_a_sample_of_chemprot() -> None:
    """As FedCMC's table 3 has it: 500 training rows as the labels occur, or 100 of each; the test split stays whole."""
    whole = {d.id: d for d in ChemProt(split="pooled").documents("train")}
    shares = Counter(d.labels[0] for d in whole.values())
    plain, even = (ChemProt(split="pooled", sample=500, balanced=balanced) for balanced in (False, True))
    drawn, balanced = (list(corpus.documents("train")) for corpus in (plain, even))
    occurring = Counter(d.labels[0] for d in drawn)
    assert 500 == occurring.total()
    assert all(abs(occurring[label] / 500 - n / len(whole)) < 0.06 for label, n in shares.items())
    assert dict.fromkeys(shares, 100) == Counter(d.labels[0] for d in balanced)
    assert all(whole[d.id] == d for d in (*drawn, *balanced))
    assert [2011, 2011] == [counted(corpus, "test")[0].total() for corpus in (plain, even)]
    with pytest.raises(ValueError, match=r"a sample of 9000 rows, but \d+ can be had; lower it"):
        list(ChemProt(split="pooled", sample=9000, balanced=True).documents("train"))


@needs_data
@pytest.mark.usefixtures("_real")
def test_pgr() -> None:
    """Two of the 4,083 training rows name a gene that their sentence does not."""
    train, found = counted(PGR(), "train")
    assert train == {"True": 1443, "False": 2640 - 2}
    assert found == {"entity not in its sentence, row skipped": 2, "text also in test": 586}
    assert counted(PGR(), "test") == ({"True": 77, "False": 142}, {})
    assert counted(PGR(gold="confirmation"), "test") == ({"True": 124, "False": 95}, {})
    assert counted(PGR(gold="confirmation", dedupe=True), "train")[0].total() == 4081 - 586
    texts = [{d.text for d in PGR().documents(split)} for split in ("train", "test")]
    assert (len(texts[1]), len(texts[0] & texts[1])) == (197, 168)


@needs_data
@pytest.mark.usefixtures("_real")
def test_pgr_has_no_html_left_and_true_offsets() -> None:
    documents = [d for split in ("train", "test") for d in PGR().documents(split)]
    assert not [d.id for d in documents if "&lt" in d.text or "&quot" in d.text or "&amp" in d.text]
    assert any("FREM2—" in d.text for d in documents)
    [document] = [d for d in documents if d.id == "pgr-test-2"]
    assert surfaces(document) == ["NM23", "tumor"]
    assert document.text.endswith("(p < 0.001).")
    assert (document.source, [e.type for e in document.entities]) == ("29700912", ["GENE", "PHENOTYPE"])


@needs_data
@pytest.mark.usefixtures("_real")
def test_pgr_pooled() -> None:
    """4,302 rows less 125 exact repeats, within or between the files, less two broken ones."""
    problems = Problems()
    corpus = PGR(split="pooled", seed=1)
    parts = {split: list(corpus.documents(split, problems)) for split in corpus.splits}
    assert {split: len(found) for split, found in parts.items()} == {"train": 3008, "valid": 333, "test": 834}
    documents = [d for found in parts.values() for d in found]
    assert len({(d.text, d.labels, d.entities, d.source) for d in documents}) == 4175
    assert problems.counts["exact repeat, dropped"] == 125
    assert Counter(d.labels[0] for d in documents) == {"True": 1481, "False": 2696 - 2}


@needs_data
@pytest.mark.usefixtures("_real")
@pytest.mark.parametrize(
    ("split", "expected", "shared"),
    [
        ("train", (8088, 734, 1434, 1131, 169), 143),
        ("valid", (899, 80, 158, 129, 19), 14),
        ("test", (2049, 221, 357, 301, 92), 0),
    ],
)
def test_ddi2013(split: str, expected: tuple[int, ...], shared: int) -> None:
    labels, found = counted(DDI2013(), split)
    assert labels == dict(zip(DDI2013.labels, expected, strict=True))
    assert +found == +Counter({"text also in test": shared})


@needs_data
@pytest.mark.usefixtures("_real")
def test_ddi2013_masks_are_whole_words() -> None:
    documents = list(DDI2013().documents("train"))
    assert surfaces(documents[0]) == ["ddrug10", "ddrug13"]
    assert all(words in d.text.split() for d in documents for words in surfaces(d))


def write(path: Path, content: str) -> None:
    path.write_bytes(gzip.compress(content.encode()) if path.suffix == ".gz" else content.encode())


def refused(documents: Iterator[Document]) -> str:
    with pytest.raises(DataError) as caught:
        list(documents)
    message = str(caught.value)
    assert "asthma" not in message
    return message.rpartition("/")[2]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("@GENE$ in asthma\t1", "train.tsv:1: 0 times @DISEASE$"),
        ("@GENE$ @GENE$ and @DISEASE$, asthma\t1", "train.tsv:1: 2 times @GENE$"),
        ("@GENE$ and @DISEASE$, asthma\t2", "train.tsv:1: unknown label (a value of 1 characters)"),
        ("sentence\tlabel", "train.tsv:1: unknown label (a value of 5 characters)"),
        ("0\t@GENE$ and @DISEASE$, asthma\t1", "train.tsv:1: unknown label (a value of"),
    ],
)
def test_damaged_folds(place: Path, row: str, expected: str) -> None:
    write(place / "gad/1/train.tsv", row + "\n")
    write(place / "gad/1/test.tsv", "index\tsentence\tlabel\n")
    assert refused(GAD().documents("train")).startswith(expected)


def test_folds_have_their_header_in_the_test_file(place: Path) -> None:
    write(place / "euadr/1/test.tsv", "0\t@GENE$ and @DISEASE$, asthma\t1\n")
    assert refused(EUADR().documents("test")).startswith('test.tsv:1: no column "sentence"')
    with pytest.raises(ValueError, match="folds 1 to 10"):
        EUADR(fold=11)
    with pytest.raises(DataError, match="no such file under WARDROUND_DATA"):
        list(EUADR(fold=3).documents("test"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<< COX-2 >> and [[ aspirin ]].", ["COX-2", "aspirin"]),
        ("([[ aspirin ]])<< COX-2 >>", ["aspirin", "COX-2"]),
        ("<< COX-2 >> a >> b >>c and [[ 2-[[3-x]] ]]", ["COX-2", "2-[[3-x]]"]),
        ("<< COX-2 >> alone", None),
        ("<< COX-2 and [[ aspirin ]]", None),
        ("<< COX-2 [[ aspirin ]] >>", None),
        ("<< COX-2 [[ aspirin >> b ]]", None),
        ("<< COX-2 >> << COX-1 >> [[ aspirin ]]", None),
        ("<<  >> [[ aspirin ]]", None),
        ("<< COX-2 >>[[ aspirin ]]", ["COX-2", "aspirin"]),
        ("no markers", None),
    ],
)
def test_chemprot_markers(place: Path, text: str, expected: list[str] | None) -> None:
    problems = Problems()
    write(place / "chemprot/test.txt", json.dumps({"text": text, "label": "INHIBITOR"}))
    documents = list(ChemProt().documents("test", problems))
    assert [surfaces(d) for d in documents] == ([expected] if expected else [])
    assert problems.counts["markers missing, repeated or overlapping, row skipped"] == (expected is None)
    assert not [d for d in documents if "<< " in d.text or "[[ " in d.text]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (
            {"text": "<< a >> [[ asthma ]]", "label": "INHIBITER"},
            "unknown label (a value of 9 characters) — did you mean INHIBITOR?",
        ),
        ({"text": "<< a >> [[ asthma ]]"}, 'no "label"'),
        ({"label": "INHIBITOR"}, 'no "text"'),
        (["asthma"], "a JSON list"),
    ],
)
def test_damaged_chemprot(place: Path, row: Any, expected: str) -> None:
    write(place / "chemprot/test.txt.gz", json.dumps(row))
    assert refused(ChemProt().documents("test")).startswith(f"test.txt.gz:1: {expected}")


HEADER = (
    "FILE_ID\tSENTENCE\tGENE\tPHENOTYPE\tGENE_ID\tPHENOTYPE_ID\tGENE_START_POSITION\tGENE_END_POSITION\t"
    "PHENOTYPE_START_POSITION\tPHENOTYPE_END_POSITION\tRELATION\tCONFIRMATION (C | I | U)\n"
)


def pgr(place: Path, row: str, header: str = HEADER, **settings: Any) -> tuple[list[list[str]], str]:
    problems = Problems()
    write(place / "pgr/10_12_2018_corpus/test.tsv", header + row.replace(" | ", "\t") + "\n")
    return [surfaces(d) for d in PGR(**settings).documents("test", problems)], str(problems)


def test_pgr_moves_and_repairs_offsets(place: Path) -> None:
    row = "1 | &lt;x&amp;amp;y&gt; IL4 in asthma&quot | IL4 | asthma | 3 | H | {} | {} | TRUE | C"
    assert pgr(place, row.format("20 | 23", "27 | 33")) == ([["IL4", "asthma"]], "")
    assert pgr(place, row.format("19 | 22", "27 | 33")) == ([["IL4", "asthma"]], "offsets repaired: 1 (test.tsv:2)")
    assert pgr(place, row.format("-9 | 0", "999 | 9999"))[0] == [["IL4", "asthma"]]


def test_pgr_skips_what_no_marker_fits(place: Path) -> None:
    row = "1 | IL4 in asthma | {} | asthma | 3 | H | {} | 7 | 13 | True | {}"
    assert pgr(place, row.format("IL5", "0 | 3", "C")) == (
        [],
        "entity not in its sentence, row skipped: 1 (test.tsv:2)",
    )
    assert pgr(place, row.format("thma", "9 | 13", "C")) == ([], "entities overlap, row skipped: 1 (test.tsv:2)")
    sceptical = row.format("IL4", "0 | 3", "U")
    assert pgr(place, sceptical, gold="confirmation") == ([], "curators uncertain, row skipped: 1 (test.tsv:2)")
    assert pgr(place, sceptical) == ([["IL4", "asthma"]], "")


@pytest.mark.parametrize(
    ("row", "gold", "expected"),
    [
        ("1 | IL4 in asthma", "relation", "test.tsv:2: 2 cells under 12 names"),
        (
            "1 | IL4 in asthma | IL4 | asthma | 3 | H | 0 | x | 7 | 13 | True | C",
            "relation",
            "test.tsv:2: the position",
        ),
        (
            "1 | IL4 in asthma | IL4 | asthma | 3 | H | 0 | 3 | 7 | 13 | yes | C",
            "relation",
            "test.tsv:2: unknown label",
        ),
        ("1 | IL4 in asthma | IL4 | asthma | 3 | H | 0 | 3 | 7 | 13 | True | X", "confirmation", "test.tsv:2: unknown"),
    ],
)
def test_damaged_pgr(place: Path, row: str, gold: str, expected: str) -> None:
    with pytest.raises(DataError) as caught:
        pgr(place, row, gold=gold)
    assert str(caught.value).rpartition("/")[2].startswith(expected)
    with pytest.raises(DataError, match="no column SENTENCE"):
        pgr(place, row, header=HEADER.replace("SENTENCE", "TEXT"))


def test_pgr_confirmation_goes_with_the_official_cut() -> None:
    with pytest.raises(ValueError, match="only its test split was curated"):
        PGR(split="pooled", gold="confirmation")


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ({}, "test.json.gz: a JSON dict"),
        ([7], "test.json.gz:1: not a row"),
        ([{"sentence": "asthma"}], "test.json.gz:1: no field 'relation'"),
        (
            [("ddrug0 ddrug1", "ddrug0", "ddrug1", "advice")],
            "test.json.gz:1: unknown label (a value of 6 characters) — did you mean advise",
        ),
        (
            [("ddrug0 ddrug10", "ddrug0", "ddrug1", "NA")],
            "test.json.gz:1: (a value of 6 characters) is not a word of the sentence",
        ),
        ([("ddrug0 ddrug1", "ddrug0", "ddrug0", "NA")], "test.json.gz:1: head and tail are the same drug"),
    ],
)
def test_damaged_ddi2013(place: Path, rows: Any, expected: str) -> None:
    content = [
        dict(zip(("sentence", "head", "tail", "relation"), (r[0], {"word": r[1]}, {"word": r[2]}, r[3]), strict=True))
        if isinstance(r, tuple)
        else r
        for r in rows
    ]
    write(place / "ddi2013/test.json.gz", json.dumps(content or rows))
    assert refused(DDI2013().documents("test")).startswith(expected)


def test_a_drug_that_stands_twice_is_counted(place: Path) -> None:
    problems = Problems()
    row = {"sentence": "ddrug0 ddrug1 ddrug0", "head": {"word": "ddrug0"}, "tail": {"word": "ddrug1"}, "relation": "NA"}
    write(place / "ddi2013/test.json.gz", json.dumps([row]))
    [document] = DDI2013().documents("test", problems)
    assert [e.start for e in document.entities] == [0, 7]
    assert str(problems) == "drug occurs twice, the first taken: 1 (test.json.gz:1)"
