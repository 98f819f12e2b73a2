"""Questions to internists from a Chinese consultation site, in 11 departments.

    for document in Toyhom(seed=0).documents("train"): ...

github.com/Toyhom/Chinese-medical-dialogue-data, MIT licence. The text is title and question, never the
answer. Of repeated questions the first stays; the others are counted. A fifth of each department is for
testing: those whose hash with the seed comes first, so the order of rows does not matter and no text is held.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from wardround.formats.tables import Table
from wardround.text.document import Document
from wardround.text.reading import Problems, data_file, digest, one_of

ORIGIN = "github.com/Toyhom/Chinese-medical-dialogue-data, 样例_内科5000-6000.csv"


@dataclass(frozen=True, kw_only=True)
class Toyhom:
    """Questions in file order, cut 80/20 within each department."""

    views: ClassVar[tuple[str, ...]] = ("labels",)

    splits: ClassVar[tuple[str, ...]] = ("train", "test")
    language: ClassVar[str] = "zh"
    labels: ClassVar[tuple[str, ...]] = (
        "肝病科", "消化科", "神经科", "心血管科", "内分泌科", "呼吸科", "肾内科", "感染科", "血液科", "普通内科",
        "风湿免疫科",
    )  # fmt: skip
    seed: int = 0
    """The seed that the test split is drawn by; if not given, the study's."""

    def documents(self, split: str, problems: Problems | None = None) -> Iterator[Document]:
        """The questions of one part; the file is read twice."""
        train = one_of(split, self.splits) == "train"
        problems = Problems() if problems is None else problems
        path = data_file("toyhom_im_dept/sample_im_5000-6000.csv.gz", ORIGIN)
        table = Table(
            files={"all": path},
            format="csv",
            delimiter=",",
            text=("title", "ask"),
            label="department",
            labels=self.labels,
            encoding="gb18030",
            language="zh",
        )
        testing = self._testing(table)
        seen = set[bytes]()
        for document in table.documents("all"):
            mark = digest(document.text)
            if (mark in testing) == train:
                continue
            if mark in seen:
                problems.note("repeated question, dropped", path, int(document.id.rpartition(":")[2]))
                continue
            seen.add(mark)
            yield document

    def _testing(self, table: Table) -> set[bytes]:
        departments: dict[str, set[bytes]] = defaultdict(set)
        for document in table.documents("all"):
            departments[document.labels[0]].add(digest(document.text))
        salt = str(self.seed).encode()
        return {
            mark
            for marks in departments.values()
            for mark in sorted(marks, key=lambda m: hashlib.blake2b(m, key=salt).digest())[: len(marks) // 5]
        }
