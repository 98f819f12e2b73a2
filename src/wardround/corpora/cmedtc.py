"""cMedTC, criteria of Chinese clinical trials in 44 classes with a long tail (CHIP-2019 task 3).

    for document in CMedTC().documents("train"): ...

The release of ChineseBLUE (Zhang et al., "Conceptualized Representation Learning for Chinese Biomedical Text
Mining", 2020). Texts are stripped and their HTML entities resolved; list numbers stay. 44 training texts
stand under two labels: counted, and kept as published.
"""

import html
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from wardround.formats.tables import Table
from wardround.text.document import Document
from wardround.text.reading import Problems, data_file, one_of

ORIGIN = "github.com/alibaba-research/ChineseBLUE, data/cMedTC"
FILES = {"train": "cmedtc/train.txt.gz", "valid": "cmedtc/dev.txt", "test": "cmedtc/test.txt"}


@dataclass(frozen=True, kw_only=True)
class CMedTC:
    """Criteria in file order; the corpus does not say which trial one belongs to."""

    views: ClassVar[tuple[str, ...]] = ("labels",)

    splits: ClassVar[tuple[str, ...]] = tuple(FILES)
    language: ClassVar[str] = "zh"
    labels: ClassVar[tuple[str, ...]] = (
        "Addictive Behavior", "Address", "Age", "Alcohol Consumer", "Allergy Intolerance", "Bedtime",
        "Blood Donation", "Capacity", "Compliance with Protocol", "Consent", "Data Accessible", "Device",
        "Diagnostic", "Diet", "Disabilities", "Disease", "Education", "Encounter", "Enrollment in other studies",
        "Ethical Audit", "Ethnicity", "Exercise", "Gender", "Healthy", "Laboratory Examinations", "Life Expectancy",
        "Literacy", "Multiple", "Neoplasm Status", "Non-Neoplasm Disease Stage", "Nursing", "Oral related",
        "Organ or Tissue Status", "Pharmaceutical Substance or Drug", "Pregnancy-related Activity", "Receptor Status",
        "Researcher Decision", "Risk Assessment", "Sexual related", "Sign", "Smoking Status",
        "Special Patient Characteristic", "Symptom", "Therapy or Surgery",
    )  # fmt: skip

    def documents(self, split: str, problems: Problems | None = None) -> Iterator[Document]:
        """The criteria of one split."""
        path = data_file(FILES[one_of(split, self.splits)], ORIGIN)
        table = Table(
            files={split: path}, format="tsv", header=False, label=1, text=2, labels=self.labels, language="zh"
        )
        for document in table.documents(split, problems):
            yield replace(document, text=html.unescape(document.text).strip())
