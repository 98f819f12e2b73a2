"""Lines come out as they are in the file, or an error names file, line and remedy, and never the note."""

import gzip
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wardround.text.json_text import parse_json
from wardround.text.reading import (
    BLOCK,
    LONGEST_LINE,
    DataError,
    Problems,
    data_file,
    data_folder,
    lines_with_ends,
    nearest,
    one_of,
    open_text,
    text_blocks,
)
from wardround.text.tags import bio_spans

NOTE = "患者咳嗽三天，有痰"
LATIN = "Le patient a été hospitalisé à Orléans, fièvre élevée"


def written(tmp_path: Path, content: bytes, name: str = "notes.txt") -> Path:
    path = tmp_path / name
    path.write_bytes(content)
    return path


def refused(path: Path, encoding: str | None = None, *, note: str = NOTE) -> str:
    with pytest.raises(DataError) as caught:
        list(open_text(path, encoding))
    message = str(caught.value)
    assert path.name in message
    assert note[:4] not in message
    return message


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_any_line_end(tmp_path: Path, end: str) -> None:
    path = written(tmp_path, f"a{end}{end}{NOTE}{end}last".encode())
    assert list(open_text(path)) == ["a", "", NOTE, "last"]
    assert "".join(lines_with_ends(path)) == f"a{end}{end}{NOTE}{end}last"


@given(lines=st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]))))
def test_what_was_written_is_read(lines: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    """Other separators of Unicode (NEL, U+2028) do not end a line."""
    text = "".join(f"{line}\n" for line in lines).removeprefix("\ufeff")
    folder = tmp_path_factory.mktemp("any")
    path = written(folder, b"\xef\xbb\xbf" + text.encode())
    assert [line.removesuffix("\n") for line in text.split("\n")[:-1]] == list(open_text(path))


def test_crlf_across_blocks_is_one_line_end(tmp_path: Path) -> None:
    first = "x" * (BLOCK - 1)
    assert list(open_text(written(tmp_path, f"{first}\r\nsecond\r\n".encode()))) == [first, "second"]


@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_tells_the_encoding(tmp_path: Path, codec: str) -> None:
    assert list(open_text(written(tmp_path, f"{NOTE}\r\n上\n".encode(codec)))) == [NOTE, "上"]


def test_gzip_by_content_whatever_the_name(tmp_path: Path) -> None:
    assert list(open_text(written(tmp_path, gzip.compress(NOTE.encode()), "notes.txt"))) == [NOTE]
    assert list(open_text(written(tmp_path, NOTE.encode(), "notes.txt.gz"))) == [NOTE]


def test_empty_file_has_no_lines(tmp_path: Path) -> None:
    assert list(open_text(written(tmp_path, b""))) == []
    assert list(open_text(written(tmp_path, b"\xff\xfe"))) == []


@pytest.mark.parametrize(
    ("text", "codec", "likely"),
    [
        (NOTE, "gb18030", "gb18030"),
        (NOTE, "utf-16-le", "utf-16-le"),
        (NOTE, "utf-16-be", "utf-16-be"),
        ("Cough for three days", "utf-16-le", "utf-16-le"),
        (LATIN, "latin-1", "latin-1"),
        ("“fever” for 3 days", "cp1252", "cp1252"),
    ],
)
def test_wrong_encoding_is_named_with_the_likely_one(tmp_path: Path, text: str, codec: str, likely: str) -> None:
    """The remedy works: what the message proposes reads the file."""
    path = written(tmp_path, f"id\tnote\n1\t{text}\n".encode(codec))
    message = refused(path, note=text)
    assert f'set encoding = "{likely}"' in message
    assert list(open_text(path, likely)) == ["id\tnote", f"1\t{text}"]


def test_wrong_encoding_names_line_and_byte(tmp_path: Path) -> None:
    path = written(tmp_path, b"first\n12345" + LATIN.encode("latin-1"))
    at = len("first\n12345") + LATIN.index("é")
    assert f"{path}:2: byte {at} is not utf-8; it looks like latin-1" in refused(path, note=LATIN)
    with pytest.raises(DataError, match=rf":2: byte {at} is not utf-8"):
        list(text_blocks(path))


def test_latin_1_mixed_into_utf_8(tmp_path: Path) -> None:
    path = written(tmp_path, f"{NOTE}\n".encode() * 3 + LATIN.encode("latin-1"))
    assert f"{path}:4: " in refused(path, note=LATIN)


def test_utf_8_read_as_gb18030(tmp_path: Path) -> None:
    assert 'encoding = "utf-8"' in refused(written(tmp_path, f"{NOTE}。x\n".encode()), "gb18030")


def test_cut_within_a_character(tmp_path: Path) -> None:
    assert ":1: byte 24: the file ends within a character" in refused(written(tmp_path, NOTE.encode()[:-1]))
    assert ":2: byte 4 after the mark is not utf-16-le" in refused(written(tmp_path, f"a\n{NOTE}".encode("utf-16")[:7]))


def test_unknown_encoding_offers_the_nearest(tmp_path: Path) -> None:
    assert 'did you mean "gb18030"?' in refused(written(tmp_path, b"a"), "gb-18030x")
    assert "one of utf-8" in refused(written(tmp_path, b"a"), "rot13")


def test_mark_and_setting_disagree(tmp_path: Path) -> None:
    path = written(tmp_path, NOTE.encode("utf-8-sig"))
    assert "leave encoding out" in refused(path, "gb18030")
    assert list(open_text(path, "utf-8")) == [NOTE]


def test_nul_is_counted_and_kept(tmp_path: Path) -> None:
    problems = Problems()
    path = written(tmp_path, b"one\nt\0wo\nthree, long enough\n")
    assert list(open_text(path, problems=problems)) == ["one", "t\0wo", "three, long enough"]
    assert str(problems) == "NUL character: 1 (notes.txt:2)"


def test_a_long_line_is_read_and_an_endless_one_refused(tmp_path: Path) -> None:
    long = "痛" * 350_000
    assert list(open_text(written(tmp_path, long.encode()))) == [long]
    bomb = written(tmp_path, gzip.compress(b"a\n" + b"x" * (LONGEST_LINE + BLOCK)), "bomb.gz")
    assert f"{bomb}:2: the line is longer than 16,777,216 bytes" in refused(bomb, note="xxxx")


def test_damaged_or_missing_files(tmp_path: Path) -> None:
    packed = gzip.compress(NOTE.encode() * 1000)
    assert "damaged gzip" in refused(written(tmp_path, packed[:-9], "cut.gz"))
    assert "damaged gzip" in refused(written(tmp_path, packed[:20] + b"\xff" * 9 + packed[29:], "bad.gz"))
    assert f"no such file — did you mean {tmp_path}/bad.gz?" in refused(tmp_path / "bda.gz")
    assert "no such file" in refused(tmp_path / "no" / "folder.txt")
    assert "directory" in refused(tmp_path)


def test_an_error_crosses_processes() -> None:
    error = DataError(Path("notes.csv"), 3, "empty label", "label or remove the row")
    assert str(error) == "notes.csv:3: empty label — label or remove the row"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301 - our own bytes


def test_problems_keep_the_first_places_only() -> None:
    problems = Problems()
    for line in range(1, 9):
        problems.note("empty text", Path("folder/notes.csv"), line)
    assert str(problems) == "empty text: 8 (notes.csv:1, notes.csv:2, notes.csv:3)"
    assert problems.counts == {"empty text": 8}


def test_nearest_ignores_capitals() -> None:
    assert nearest("note_text", ["ID", "NOTE_TEXT"]) == "NOTE_TEXT"
    assert nearest("note_text", ["ID", "x"]) is None


def test_unknown_split_is_named() -> None:
    with pytest.raises(ValueError, match='no split "valid": use one of train, dev'):
        one_of("valid", ("train", "dev"))


def test_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WARDROUND_DATA", raising=False)
    with pytest.raises(DataError, match="WARDROUND_DATA: is not set — set it to the folder that holds the corp"):
        data_folder()
    with pytest.raises(DataError, match=r"WARDROUND_DATA: is not set .* holds a/b\.txt\.gz \(from the moon\)"):
        data_file("a/b.txt.gz", "the moon")
    monkeypatch.setenv("WARDROUND_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"b\.txt\.gz: no such file under WARDROUND_DATA — .* from the moon"):
        data_file("a/b.txt.gz", "the moon")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b.txt").touch()
    assert data_file("a/b.txt.gz", "the moon") == tmp_path / "a" / "b.txt"


@pytest.mark.parametrize("text", [f'{{"text": "{NOTE}', "[" * 100_000, "9" * 5000, ""])
def test_bad_json(text: str) -> None:
    with pytest.raises(DataError, match=r"^notes\.jsonl:7: ") as caught:
        parse_json(text, "notes.jsonl", 7)
    assert NOTE not in str(caught.value)


def test_bio_spans() -> None:
    tags = ["O", "B-A", "I-A", "B-A", "I-B", "O", "I-B", "I-B"]
    assert bio_spans(tags) == ([("A", 1, 3), ("A", 3, 4), ("B", 4, 5), ("B", 6, 8)], 2)
    assert bio_spans("OBIOI") == ([("", 1, 3), ("", 4, 5)], 1)


@pytest.mark.parametrize("read", [open_text, text_blocks])
def test_a_missing_mark_is_an_error_of_the_data(tmp_path: Path, read: Callable[..., Iterator[str]]) -> None:
    with pytest.raises(DataError, match="does not start with its mark") as caught:
        list(read(written(tmp_path, b"Aspirin gave her a rash.\n"), "utf-16"))
    assert '"utf-16-le"' in str(caught.value)
