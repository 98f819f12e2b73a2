"""Tokens lose nothing but white space, numbers are the same everywhere, the cache survives its neighbours."""

import logging
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data import DATA, needs_data
from wardround.text.reading import DataError
from wardround.text.segment import (
    Cache,
    Characters,
    Hashed,
    Jieba,
    ListedWords,
    Segmenter,
    Vocabulary,
    Words,
    hashed,
)

TEXT = "患者CT示肺炎，体温38.5度 2 days"
JIEBA = Jieba()


def terms(tmp_path: Path, content: str) -> Path:
    path = tmp_path / "terms.txt"
    path.write_text(content, encoding="utf-8")
    return path


def test_words() -> None:
    assert Words()("The patient's CT:\tO2 ↓ (88%)") == (
        ["the", "patient", "'", "s", "ct", ":", "o2", "↓", "(", "88", "%", ")"]
    )


def test_characters() -> None:
    kept = ["患", "者", "CT", "示", "肺", "炎", "，", "体", "温", "38.5", "度", "2", "days"]
    assert Characters()(TEXT) == kept
    assert Characters(runs=False)(TEXT) == [char for char in TEXT if char != " "]


def test_jieba() -> None:
    assert JIEBA(TEXT) == ["患者", "CT", "示", "肺炎", "，", "体温", "38.5", "度", "2", "days"]


def test_terms_are_kept_whole(tmp_path: Path) -> None:
    text = "有大便粘液和中等度热"
    assert {"大便粘液", "中等度热"}.isdisjoint(JIEBA(text))
    listed = terms(tmp_path, "\ufeff大便粘液\r\n\r\n中等度热 20 n\r\n")
    assert Jieba(terms=listed)(text) == ["有", "大便粘液", "和", "中等度热"]


@needs_data
def test_a_symptom_list() -> None:
    path = DATA / "imcs21" / "symptom_norm.csv"
    segmenter = Jieba(terms=path)
    names = path.read_text(encoding="utf-8").split()[1:]
    whole = [name for name in names if segmenter(f"宝宝{name}吗") == ["宝宝", name, "吗"]]
    assert len(whole) > 0.95 * len(names)


def test_bad_terms(tmp_path: Path) -> None:
    path = terms(tmp_path, "咳嗽\n" + "患" * 200)
    with pytest.raises(DataError, match=r"terms\.txt:2: a term of 200 characters — one term per line"):
        Jieba(terms=path)("咳嗽")
    path.write_bytes("咳嗽\n".encode("gb18030"))
    with pytest.raises(DataError, match=r"terms\.txt:1: byte 0 is not utf-8; it looks like gb18030"):
        Jieba(terms=path)("咳嗽")


@pytest.mark.parametrize("segmenter", [Words(), Characters(), Characters(runs=False), JIEBA])
@given(text=st.text())
def test_nothing_is_lost_but_white_space(segmenter: Segmenter, text: str) -> None:
    tokens = segmenter(text)
    assert all(token and not token.isspace() for token in tokens)
    visible = re.sub("[\\s\u00ad\u200b-\u200f\u2060\ufeff\ud800-\udfff]", "", text)
    assert bool(tokens) == bool(visible)


def test_equal_words_are_equal() -> None:
    """Decomposed letters and invisible characters do not make another word."""
    assert Words()("cafe\u0301 fe\u200bver") == ["café", "fever"]
    assert JIEBA("\ufeff咳\u200b嗽") == ["咳嗽"]


@pytest.mark.parametrize("segmenter", [Words(), Characters(), JIEBA])
@pytest.mark.parametrize("text", ["a" * 1_000_000, "患" * 400_000, "患者 " * 150_000])
def test_a_megabyte_is_cut_in_one_go(segmenter: Segmenter, text: str) -> None:
    assert "".join(segmenter(text)) == text.replace(" ", "")


def test_segmenters_cross_processes(tmp_path: Path) -> None:
    segmenter = Jieba(terms=terms(tmp_path, "大便粘液"))
    segmenter("有")
    again = pickle.loads(pickle.dumps(segmenter))  # noqa: S301 - our own bytes
    assert again("有大便粘液") == ["有", "大便粘液"]


def test_hashes_are_the_same_everywhere() -> None:
    assert [hashed(token, 1000) for token in ("咳嗽", "fever", "")] == [210, 175, 520]


@given(token=st.text(), buckets=st.integers(2, 50))
def test_bucket_0_is_padding(token: str, buckets: int) -> None:
    assert 1 <= hashed(token, buckets) < buckets


@pytest.mark.parametrize("buckets", [-1, 0, 1, 2**32])
def test_impossible_buckets(buckets: int) -> None:
    with pytest.raises(ValueError, match=f"buckets is {buckets}: use a number from 2"):
        Hashed(buckets=buckets)


def test_listed_words() -> None:
    vocabulary = ListedWords(["fever", "cough", "fever"])
    assert [vocabulary(word) for word in ("fever", "cough", "rash")] == [2, 3, 1]
    assert vocabulary.size == 5


class Counting:
    """Words, and how often they were asked for."""

    settings = "counting"

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, text: str) -> list[str]:
        self.calls += 1
        return text.split()


TEXTS = ["fever and cough", "", "no fever", "fever and cough", "患者 咳嗽"]
NUMBERS = [[Hashed()(token) for token in text.split()] for text in TEXTS]


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(Counting(), Hashed(), tmp_path)


def again(cache: Cache) -> tuple[list[list[int]], int]:
    """What a new process would read, and how many texts it would have to cut."""
    counting = Counting()
    return list(Cache(counting, Hashed(), cache.path.parents[1]).encode(TEXTS)), counting.calls


def test_each_text_is_cut_once(cache: Cache) -> None:
    assert list(cache.encode(TEXTS)) == NUMBERS
    assert list(cache.encode(TEXTS)) == NUMBERS
    assert isinstance(cache.segmenter, Counting)
    assert cache.segmenter.calls == 4
    assert again(cache) == (NUMBERS, 0)


def test_the_cache_holds_no_text(cache: Cache) -> None:
    list(cache.encode(TEXTS))
    content = cache.path.read_bytes()
    assert not [word for text in TEXTS for word in text.split() if word.encode() in content]
    assert (cache.path.stat().st_mode & 0o077, cache.path.parent.stat().st_mode & 0o077) == (0, 0)


def test_settings_do_not_mix(tmp_path: Path) -> None:
    listed = terms(tmp_path, "大便粘液")
    segmenters: list[Segmenter] = [
        Words(),
        Characters(),
        Characters(runs=False),
        Jieba(),
        Jieba(terms=listed),
    ]
    vocabularies: list[Vocabulary] = [Hashed(buckets=9), Hashed(), ListedWords(["a"]), ListedWords(["b"])]
    paths = {Cache(s, v, tmp_path).path for s in segmenters for v in vocabularies}
    assert len(paths) == 20
    before = Cache(Jieba(terms=listed), Hashed(), tmp_path).path
    listed.write_text("中等度热", encoding="utf-8")
    assert Cache(Jieba(terms=listed), Hashed(), tmp_path).path != before


def test_the_usual_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("WARDROUND_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Cache(Words(), Hashed()).path.parents[1] == tmp_path / ".cache" / "wardround"


def test_a_torn_file_at_any_byte(cache: Cache) -> None:
    """Whatever a crash leaves, answers are right, and what is added after it is found again."""
    list(cache.encode(TEXTS))
    whole = cache.path.read_bytes()
    for size in range(len(whole)):
        cache.path.write_bytes(whole[:size])
        numbers, calls = again(cache)
        assert numbers == NUMBERS
        assert calls > 0
        assert again(cache) == (NUMBERS, 0)


def test_a_flipped_bit_anywhere(cache: Cache) -> None:
    list(cache.encode(TEXTS))
    whole = cache.path.read_bytes()
    for at in range(len(whole)):
        cache.path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        assert again(cache)[0] == NUMBERS
        assert again(cache) == (NUMBERS, 0)


def test_a_cache_that_is_removed_or_replaced_meanwhile(cache: Cache) -> None:
    list(cache.encode(TEXTS))
    cache.path.unlink()
    assert list(cache.encode(TEXTS)) == NUMBERS
    cache.path.unlink()
    other = ["a longer text than any of the others here", *TEXTS[::-1]]
    list(Cache(Counting(), Hashed(), cache.path.parents[1]).encode(other))
    assert list(cache.encode(TEXTS)) == NUMBERS


def test_what_another_process_added_is_found(cache: Cache) -> None:
    list(cache.encode(TEXTS[:1]))
    list(Cache(Counting(), Hashed(), cache.path.parents[1]).encode(TEXTS[1:]))
    assert isinstance(cache.segmenter, Counting)
    before = cache.segmenter.calls
    assert list(cache.encode(TEXTS)) == NUMBERS
    assert cache.segmenter.calls == before


def test_two_processes_at_once(tmp_path: Path) -> None:
    script = """
import sys
from pathlib import Path
from wardround.text import segment
segment.FLUSH = 200
cache = segment.Cache(segment.Words(), segment.Hashed(), Path(sys.argv[1]))
for _ in range(2):
    list(cache.encode(f"text {n} " + "word " * (n % 50) for n in range(int(sys.argv[2]), 3000, 2)))
    list(cache.encode(f"text {n} of both" for n in range(500)))
"""
    running = [subprocess.Popen([sys.executable, "-c", script, str(tmp_path), str(start)]) for start in (0, 1)]
    assert [process.wait(300) for process in running] == [0, 0]
    cache = Cache(Words(), Hashed(), tmp_path)
    before = cache.path.stat().st_size
    texts = [f"text {n} " + "word " * (n % 50) for n in range(3000)]
    assert list(cache.encode(texts)) == [[Hashed()(word) for word in text.split()] for text in texts]
    assert cache.path.stat().st_size == before


def test_a_reader_that_stops_early_leaves_what_it_did(cache: Cache) -> None:
    numbers = cache.encode(TEXTS)
    next(numbers)
    del numbers
    assert again(cache)[1] == 3


def test_a_folder_that_cannot_be_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The work goes on without a cache, and the log says why without saying what."""
    (tmp_path / "file").touch()
    with caplog.at_level(logging.WARNING):
        assert list(Cache(Counting(), Hashed(), tmp_path / "file").encode(TEXTS)) == NUMBERS
    assert "segments not kept: " in caplog.text
    assert "fever" not in caplog.text
