"""Word vectors are read whole or in part from each format; a broken row is named by its line."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data import VECTORS, needs_vectors
from wardround.text.reading import DataError, Problems
from wardround.text.vectors import read_vectors

GLOVE = "fever 0.5 -1 2e-1\ncough 1 2 3\nat last 4 5 6\n"


def written(tmp_path: Path, content: str, name: str = "vectors.txt") -> Path:
    path = tmp_path / name
    path.write_bytes(gzip.compress(content.encode()) if name.endswith(".gz") else content.encode())
    return path


def refused(path: Path) -> str:
    with pytest.raises(DataError) as caught:
        read_vectors(path)
    message = str(caught.value)
    assert message.startswith(f"{path}:")
    message = message.removeprefix(f"{path}:")
    assert "cough" not in message
    return message


@pytest.mark.parametrize("name", ["vectors.txt", "vectors.txt.gz", "vectors.vec"])
@pytest.mark.parametrize("header", ["", "3 3\n"])
@pytest.mark.parametrize("change", [("", ""), ("\n", "\r\n"), ("\n", " \n"), (" ", "\t")])
def test_text_formats(tmp_path: Path, name: str, header: str, change: tuple[str, str]) -> None:
    content = header + GLOVE.replace(*change) if change[0] else header + GLOVE
    read = read_vectors(written(tmp_path, content, name))
    assert read.words == ["fever", "cough", "at last"]
    assert read.vectors.dtype == np.float32
    np.testing.assert_array_equal(read.vectors, np.array([[0.5, -1, 0.2], [1, 2, 3], [4, 5, 6]], np.float32))


@pytest.mark.parametrize("kind", ["text", "npz"])
def test_only_the_words_asked_for(tmp_path: Path, kind: str) -> None:
    path = written(tmp_path, GLOVE)
    if kind == "npz":
        whole = read_vectors(path)
        path = tmp_path / "vectors.npz"
        np.savez(path, words=np.array(whole.words), vectors=whole.vectors.astype(np.float64))
    read = read_vectors(path, {"at last", "unheard of"})
    assert read.words == ["at last"]
    assert read.vectors.tolist() == [[4, 5, 6]]
    assert read_vectors(path, set()).vectors.shape == (0, 3)


def test_words_that_are_odd_spaces_or_numbers(tmp_path: Path) -> None:
    read = read_vectors(written(tmp_path, "\u3000 1 2\n\xa0 3 4\n5 6 7\n\u2028 8 9\n"))
    assert read.words == ["\u3000", "\xa0", "5", "\u2028"]


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ("cough 1 2", "3: 2 numbers where others have 3"),
        ("cough 1 2 3 4", "3: 4 numbers where others have 3"),
        ("cough", "3: 0 numbers where others have 3"),
        ("cough 1 x 3", "3: a value that is not a number"),
        ("cough 1 nan 3", "3: a value that is not finite"),
        ("cough 1 -inf 3", "3: a value that is not finite"),
        ("cough 1 1e39 3", "3: a value that is not finite"),
    ],
)
@pytest.mark.parametrize("header", ["4 3\n", "first 0 0 0\n"])
def test_bad_rows(tmp_path: Path, header: str, row: str, what: str) -> None:
    assert refused(written(tmp_path, f"{header}fever 1 2 3\n{row}\nlast 1 2 3\n")).startswith(what)


def test_a_file_without_numbers_is_no_file_of_vectors(tmp_path: Path) -> None:
    assert refused(written(tmp_path, "id,text,label\nn1,cough,flu\n")).startswith("1: no numbers")


def test_repeated_and_missing_words_are_counted(tmp_path: Path) -> None:
    problems = Problems()
    read = read_vectors(written(tmp_path, "cough 1 2\ncough 3 4\n 5 6\n"), problems=problems)
    assert (read.words, read.vectors.tolist()) == (["cough"], [[1, 2]])
    assert str(problems) == (
        "repeated word, dropped: 1 (vectors.txt:2)\nvector without a word, dropped: 1 (vectors.txt:3)"
    )


def test_files_that_are_cut_empty_or_binary(tmp_path: Path) -> None:
    message = refused(written(tmp_path, "4 3\n" + GLOVE))
    assert message.startswith("1: the first line promises 4 vectors, the file holds 3")
    assert " no vectors" in refused(written(tmp_path, ""))
    assert "binary" in refused(written(tmp_path, "", "vectors.bin"))
    (tmp_path / "latin.txt").write_bytes("fièvre 1 2\n".encode("latin-1"))
    assert refused(tmp_path / "latin.txt").startswith("1: byte 2 is not utf-8; it looks like latin-1")
    assert read_vectors(tmp_path / "latin.txt", encoding="latin-1").words == ["fièvre"]


@pytest.mark.parametrize(
    ("arrays", "what"),
    [
        ({"word": np.array(["a"]), "vectors": np.ones((1, 2))}, ' no array "words" — rename "word"'),
        ({"words": np.array(["a"])}, ' no array "vectors"'),
        ({"words": np.array(["a"], object), "vectors": np.ones((1, 2))}, " not an .npz of plain arrays"),
        ({"words": np.array([1]), "vectors": np.ones((1, 2))}, " words are int64 of 1 axes"),
        ({"words": np.array(["a"]), "vectors": np.ones(2)}, " words are <U1 of 1 axes, vectors float64 of 1"),
        ({"words": np.array(["a"]), "vectors": np.ones((2, 2))}, " 1 words for 2 vectors"),
        (
            {"words": np.array(["a", "b"]), "vectors": np.array([[1], [np.nan]])},
            "2: a value that is not finite",
        ),
        (
            {"words": np.array(["a", "b"]), "vectors": np.array([[1], [1e39]])},
            "2: a value that is not finite",
        ),
    ],
)
def test_bad_npz(tmp_path: Path, arrays: dict[str, Any], what: str) -> None:
    np.savez(tmp_path / "vectors.npz", **arrays)
    assert refused(tmp_path / "vectors.npz").startswith(what)


def test_npz_that_is_none(tmp_path: Path) -> None:
    assert "no such file" in refused(tmp_path / "vectors.npz")
    assert "plain arrays" in refused(written(tmp_path, GLOVE, "vectors.npz"))
    np.savez_compressed(tmp_path / "cut.npz", words=np.array(["a"]), vectors=np.ones((1, 2)))
    (tmp_path / "cut.npz").write_bytes((tmp_path / "cut.npz").read_bytes()[:-30])
    assert "plain arrays" in refused(tmp_path / "cut.npz")


def test_repeated_words_in_npz(tmp_path: Path) -> None:
    np.savez(tmp_path / "vectors.npz", words=np.array(["a", "a"]), vectors=np.array([[1.0], [2.0]]))
    problems = Problems()
    assert read_vectors(tmp_path / "vectors.npz", problems=problems).vectors.tolist() == [[1]]
    assert str(problems) == "repeated word, dropped: 1 (vectors.npz:2)"


@needs_vectors
@pytest.mark.parametrize(("name", "count"), [("glove-100d", 44_188), ("zh-word2vec-100d", 16_456)])
def test_real_vectors(name: str, count: int) -> None:
    read = read_vectors(VECTORS / f"{name}.npz")
    assert read.vectors.shape == (count, 100)
    assert len(set(read.words)) == count
