"""What looks as if it named somebody is counted by kind and line, and shown to nobody."""

import json
from pathlib import Path

import pytest

from study_files import cli
from wardround.formats.phi import DATE, MAIL, NAME, NUMBER, TELEPHONE, looks_like


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("seen on 2024-05-04", [DATE]),
        ("2024-05-03T08:15:00Z, 20240503, May 2024", [DATE, DATE, DATE]),
        ("2024.5.3入院，２０２４年５月３日，二〇二四年五月三日", [DATE, DATE, DATE]),
        ("手机号13812345678转，4155550134，Tel:030 / 123456", [TELEPHONE, TELEPHONE, TELEPHONE]),
        ("MRN 00-12-34-56, hospital number is 483920, account #12345678", [NUMBER, NUMBER, NUMBER]),
        ("9434765919，ID号：0012345", [NUMBER, NUMBER]),
        ("患者王小明，男，患者：欧阳修，patient name is Anna Bell", [NAME, NAME, NAME]),
        ("anna.bell@example.org", [MAIL]),
        ("fluid 1500 ml, 1.5 mg 2024 units, 20241399", []),
        ("seen on 04/05/2024 and 4.5.24", [DATE, DATE]),
        ("3 May 2024, 3rd of June, Jan 5, 2020", [DATE, DATE, DATE]),
        ("2024年3月5日入院，3月7日出院，2023年11月起", [DATE, DATE, DATE]),
        ("Mr. John Smith was seen by Dr Jones", [NAME, NAME]),
        ("Patient: Smith, John", [NAME]),
        ("姓名：王小明，李医生查房，患者张某", [NAME, NAME, NAME]),
        ("MRN: 00123456; record no. 123456", [NUMBER, NUMBER]),
        ("NHS 943 476 5919", [NUMBER]),
        ("SSN 078-05-1120", [NUMBER]),
        ("住院号：12345678，身份证 11010519491231002X", [NUMBER, NUMBER]),
        ("call +44 20 7946 0958 or (415) 555-0132", [TELEPHONE, TELEPHONE]),
        ("Tel. 020 7946 0958", [TELEPHONE]),
        ("电话 13812345678，010-62345678", [TELEPHONE, TELEPHONE]),
        ("BP 120/80, Hb 12.5 g/dl, 5 mg 3 times; it may 3 times fail", []),
        ("ratio 1.5.2, T4 N1, 45/50/60, dose 2024 mg", []),
        ("患者男，45岁，血压120/80mmHg，体温36.5度，月经规律", []),
        ("110105194912310021", []),
        ("seen on 3/5, DATE: 12/24, since 5/3.", [DATE, DATE, DATE]),
        ("power 3/5 in the arm, on 3/4 of a pill, on 120/80, on 45/50, 4/5 of them", []),
        ("call 555-0134", [TELEPHONE]),
        ("200-1000 mg, 250-1225 units, 500-6000", []),
        ("SEEN BY DR SMITH AND MRS A. O'NEIL", [NAME, NAME]),
        ("MR IMAGING IN MS PATIENTS", []),
        ("943 476 5910", [TELEPHONE]),
    ],
)
def test_usual_ways_of_writing_are_known_and_figures_are_left_alone(text: str, kinds: list[str]) -> None:
    assert sorted(kinds) == sorted(kind for kind, _ in looks_like(text))


def test_data_check_counts_by_kind_and_line_and_prints_nothing_of_it(tmp_path: Path) -> None:
    notes = ["Mrs Ada Lovelace, MRN: 7654321", "nothing here", "again on 10 December 1815, tel. 020 7946 0958"]
    path = tmp_path / "notes.jsonl"
    path.write_text("".join(json.dumps({"id": str(at), "text": text}) + "\n" for at, text in enumerate(notes)))
    plain, phi = (cli("data", "check", path, *more, cwd=tmp_path) for more in ([], ["--phi"]))
    assert (0, 0) == (plain.code, phi.code)
    assert "looks like" not in plain.out
    for kind, line in ((NAME, 1), (NUMBER, 1), (DATE, 3), (TELEPHONE, 3)):
        assert f"{path}:{line}: {kind}" in phi.out
    assert "1 that look like a date" in phi.out
    for secret in ("Lovelace", "7654321", "1815", "7946"):
        assert secret not in phi.out + phi.err
    listed = json.loads(cli("data", "check", path, "--phi", "--json", cwd=tmp_path).out)["problems"]
    assert [(1, NUMBER), (1, NAME), (3, TELEPHONE), (3, DATE)] == [(one["line"], one["what"]) for one in listed]
