"""The named corpora hold what their publishers say, and hostile or damaged copies are refused."""

import gzip
import io
import json
import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from data import DATA, needs_data
from wardround.corpora.cmdd import CMDD, members
from wardround.corpora.cmedtc import CMedTC
from wardround.corpora.imcs21 import IMCS21
from wardround.corpora.psytar_labels import PsyTARLabels
from wardround.corpora.toyhom import Toyhom
from wardround.text.document import Document
from wardround.text.reading import DataError, Problems

NOTE = "孩子咳嗽三天了"


@pytest.fixture
def _real(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARDROUND_DATA", str(DATA))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WARDROUND_DATA", str(tmp_path))
    for name in ("cmdd", "imcs21/dac", "imcs21/ner/dev", "cmedtc", "toyhom_im_dept"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


def spans_are_true(documents: list[Document]) -> bool:
    return all(0 <= e.start < e.end <= len(d.text) for d in documents for e in d.entities)


@needs_data
@pytest.mark.usefixtures("_real")
@pytest.mark.parametrize(
    ("split", "dialogues", "sentences", "symptoms", "odd"),
    [
        ("train", 1241, 52952, 13524, (393, 16)),
        ("valid", 413, 16935, 4037, (101, 7)),
        ("test", 413, 17118, 4072, (116, 2)),
    ],
)
def test_cmdd(split: str, dialogues: int, sentences: int, symptoms: int, odd: tuple[int, int]) -> None:
    empty, strays = odd
    problems = Problems()
    documents = list(CMDD().documents(split, problems))
    assert Counter(d.labels for d in documents) == {("0",): sentences - empty - symptoms, ("1",): symptoms}
    assert len({d.source for d in documents}) == dialogues
    assert len({d.id for d in documents}) == len(documents)
    assert problems.counts["sentence without text, skipped"] == empty
    assert problems.counts["I without B, taken as B"] == strays
    assert spans_are_true(documents)


@needs_data
@pytest.mark.usefixtures("_real")
def test_cmdd_has_no_dialogue_in_two_splits() -> None:
    sources = [source for split in CMDD.splits for source in {d.source for d in CMDD().documents(split)}]
    assert len(sources) == len(set(sources)) == 2067


@needs_data
@pytest.mark.usefixtures("_real")
def test_cmdd_spans_name_the_symptoms() -> None:
    documents = CMDD().documents("train")
    found = Counter(d.text[e.start : e.end] for d in documents for e in d.entities)
    assert {"咳嗽", "发烧", "拉肚子"} <= {name for name, _ in found.most_common(10)}


@needs_data
@pytest.mark.usefixtures("_real")
@pytest.mark.parametrize("speaker", [False, True])
def test_imcs21(speaker: bool) -> None:
    train, test = (list(IMCS21(speaker=speaker).documents(split)) for split in ("train", "test"))
    assert (len(train), len(test)) == (26_600, 6_667)
    assert Counter(label for d in train + test for label in d.labels) == {"1": 8639, "0": 33267 - 8639}
    assert Counter(e.type for d in train + test for e in d.entities) == {
        "Symptom": 12_761,
        "Medical_Examination": 3_925,
        "Drug": 2_748,
        "Drug_Category": 2_042,
        "Operation": 933,
    }
    assert train[1].text == ("医生：" if speaker else "") + "咳嗽有几天了？"
    assert [train[1].text[e.start : e.end] for e in train[1].entities] == ["咳嗽"]
    assert not {d.source for d in train} & {d.source for d in test}
    assert spans_are_true(train + test)


@needs_data
@pytest.mark.usefixtures("_real")
def test_imcs21_intents() -> None:
    corpus = IMCS21(task="intent")
    counts = Counter(label for split in corpus.splits for d in corpus.documents(split) for label in d.labels)
    assert set(counts) == set(corpus.labels)
    assert (len(counts), counts["Other"], counts["Request-Etiology"]) == (16, 11_208, 289)
    assert counts.total() == 33_267


@needs_data
@pytest.mark.usefixtures("_real")
@pytest.mark.parametrize(
    ("split", "count", "classes"), [("train", 14_610, 44), ("valid", 1_550, 39), ("test", 1_800, 39)]
)
def test_cmedtc(split: str, count: int, classes: int) -> None:
    documents = list(CMedTC().documents(split))
    labels = Counter(label for d in documents for label in d.labels)
    assert (len(documents), len(labels)) == (count, classes)
    assert not [d.id for d in documents if d.text != d.text.strip() or "&gt;" in d.text or "&lt;" in d.text]
    if split == "train":
        assert labels.most_common(3) == [("Disease", 3359), ("Multiple", 2856), ("Therapy or Surgery", 993)]
        assert sorted(labels) == sorted(CMedTC.labels)


@needs_data
@pytest.mark.usefixtures("_real")
def test_toyhom() -> None:
    """Its description says 377 repeats; 7,644 rows hold 7,266 questions, so 378."""
    problems = Problems()
    train, test = (list(Toyhom().documents(split, problems)) for split in ("train", "test"))
    assert (len(train), len(test)) == (5_818, 1_448)
    assert problems.counts == {"repeated question, dropped": 7_644 - 7_266}
    assert len({d.text for d in train + test}) == 7_266
    parts = [Counter(d.labels[0] for d in part) for part in (train, test)]
    assert [sum(part.values()) for part in parts] == [5_818, 1_448]
    assert all(parts[1][name] == (parts[0] + parts[1])[name] // 5 > 0 for name in Toyhom.labels)


@needs_data
@pytest.mark.usefixtures("_real")
def test_toyhom_seed_decides_the_cut() -> None:
    cuts = [{d.id for d in Toyhom(seed=seed).documents("test")} for seed in (0, 0, 1)]
    assert cuts[0] == cuts[1]
    assert len(cuts[0] & cuts[2]) < 0.3 * len(cuts[0])


@needs_data
@pytest.mark.usefixtures("_real")
def test_psytar_labels() -> None:
    corpus = PsyTARLabels()
    documents = {split: list(corpus.documents(split)) for split in corpus.splits}
    assert {split: len(part) for split, part in documents.items()} == {
        "train": 4_201,
        "valid": 612,
        "test": 1_189,
    }
    counts = Counter(label for d in documents["train"] for label in d.labels)
    assert counts == {"ADR": 1_528, "WD": 319, "EF": 743, "INF": 229, "SSI": 549, "DI": 436}
    assert sum(not d.labels for d in documents["train"]) == 1_476


def packed(path: Path, *entries: tuple[str, bytes], **kind: Any) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in entries:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            for key, value in kind.items():
                setattr(member, key, value)
            archive.addfile(member, io.BytesIO(content))
    return path


def dialogue(**turn: Any) -> bytes:
    usual = {"speaker": "患者", "sentence": NOTE, "label": "OOBIOOO", "normalized": ["咳嗽"], "type": ["1"]}
    return json.dumps({"example-id": "7", "dialogue-content": [usual, {**usual, **turn}]}).encode()


def refused(folder: Path) -> str:
    with pytest.raises(DataError) as caught:
        list(CMDD().documents("train"))
    message = str(caught.value)
    assert NOTE not in message
    assert message.startswith(str(folder / "cmdd" / "train.tar.gz"))
    return message.removeprefix(str(folder / "cmdd" / "train.tar.gz"))


@pytest.mark.parametrize("name", ["/etc/passwd", "../up.json", "a/../../up.json", "..\\up.json", "C:/up.json"])
def test_archive_paths_that_climb_out(folder: Path, name: str) -> None:
    packed(folder / "cmdd" / "train.tar.gz", (name, b"{}"))
    assert f": member {name!r} leads out of the archive" in refused(folder)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_archive_with_links_and_devices(folder: Path, kind: bytes) -> None:
    packed(folder / "cmdd" / "train.tar.gz", ("a.json", b""), type=kind, linkname="b.json")
    assert ": member 'a.json' is a link or a device" in refused(folder)


def test_archive_with_a_bomb(folder: Path) -> None:
    packed(folder / "cmdd" / "train.tar.gz", ("a.json", b" " * (2**24 + 1)))
    assert ": member 'a.json' has 16,777,217 bytes" in refused(folder)


def test_damaged_archive(folder: Path) -> None:
    path = packed(folder / "cmdd" / "train.tar.gz", *((f"{n}.json", dialogue()) for n in range(99)))
    whole = path.read_bytes()
    for content in (
        whole[:-20],
        whole[: len(whole) // 2],
        b"no archive",
        b"",
        gzip.compress(b"no archive" * 99),
    ):
        path.write_bytes(content)
        assert ": damaged " in refused(folder)


def test_folders_and_hidden_files_in_an_archive(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as archive:
        for name in (".", "./train"):
            member = tarfile.TarInfo(name)
            member.type = tarfile.DIRTYPE
            archive.addfile(member)
        for name in ("./train/._1.json", "./train/1.json"):
            member = tarfile.TarInfo(name)
            member.size = 2
            archive.addfile(member, io.BytesIO(b"{}"))
    assert list(members(path)) == [("./train/1.json", b"{}")]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (dialogue(label="O"), "/1.json:2: 1 tags for 7 characters"),
        (dialogue(sentence=[NOTE], label=["O"]), "/1.json:2: not a dialogue"),
        (dialogue(sentence=None), "/1.json:2: not a dialogue"),
        (b'{"example-id": "7"}', "/1.json:0: no field 'dialogue-content'"),
        (b"[]", "/1.json:0: not a dialogue"),
        (dialogue()[:-9], "/1.json: not JSON at character"),
        (b'{"\xff', "/1.json: byte 2 is not utf-8"),
    ],
)
def test_bad_dialogues(folder: Path, content: bytes, what: str) -> None:
    packed(folder / "cmdd" / "train.tar.gz", ("1.json", content))
    assert what in refused(folder)


def test_a_dialogue(folder: Path) -> None:
    packed(folder / "cmdd" / "train.tar.gz", ("train/1.json", dialogue(sentence="", label="")))
    problems = Problems()
    [document] = CMDD().documents("train", problems)
    assert (document.id, document.source, document.labels) == ("7-1", "7", ("1",))
    assert [document.text[e.start : e.end] for e in document.entities] == ["咳嗽"]
    assert str(problems) == "sentence without text, skipped: 1 (1.json:2)"


@pytest.mark.parametrize(
    ("acts", "bio", "what"),
    [
        (f"患者：{NOTE}\t3\n", "O O\n", "output.seq.bio:1: 2 tags for 10 characters in dev.txt"),
        (f"患者：{NOTE}\t3\n", "", "output.seq.bio:1: 1 tags for 10 characters in dev.txt"),
        (f"{NOTE}\t3\n", "O\n", "dev.txt:1: expected speaker"),
        (f"患者：{NOTE}\n", "O\n", "dev.txt:1: expected speaker"),
        (f"患者：{NOTE}\t3\n", " ".join("O" * 10), "dev.txt:1: intent 3 of 2"),
    ],
)
def test_imcs21_files_that_do_not_fit(folder: Path, acts: str, bio: str, what: str) -> None:
    (folder / "imcs21/dac/class.txt").write_text("A\nB\n")
    (folder / "imcs21/dac/dev.txt").write_text(acts)
    (folder / "imcs21/ner/dev/output.seq.bio").write_text(bio)
    with pytest.raises(DataError) as caught:
        list(IMCS21(task="intent").documents("test"))
    assert what in str(caught.value)
    assert NOTE not in str(caught.value)


def test_cmedtc_keeps_its_label_set(folder: Path) -> None:
    (folder / "cmedtc/dev.txt").write_text(f"Diseases\t {NOTE}\n")
    with pytest.raises(
        DataError, match=r'dev\.txt:1: unknown label \(a value of 8 characters\) — did you mean "Disease"\?'
    ):
        list(CMedTC().documents("valid"))


def test_a_missing_corpus_says_where_it_comes_from(folder: Path) -> None:
    for corpus in (CMDD(), IMCS21(), CMedTC(), Toyhom(), PsyTARLabels()):
        with pytest.raises(DataError, match=rf"^{folder}.*no such file under WARDROUND_DATA — .*from github\.com/"):
            list(corpus.documents("train"))
