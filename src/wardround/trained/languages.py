"""In which languages texts are, beside those that a model was trained on; and how much of them it did not read."""

from collections import Counter
from collections.abc import Iterator

from wardround.text.document import Document
from wardround.text.language import NAMES, language
from wardround.text.prediction import Prediction
from wardround.text.shown import code
from wardround.trained.about import About

SHARE = 0.05  # of texts in another language above which there is a warning
ENOUGH = 40  # characters: of fewer in Latin letters the language is a guess


def seen_in(document: Document) -> str:
    """The code of the language that a text is said or seems to be in; nothing of a short one in Latin letters."""
    sample = document.text[:ENOUGH]
    clear = document.language or len(sample) == ENOUGH or not sample.isascii()
    return code(document.language or language(document.text)) if clear else ""


def foreign(abouts: tuple[About, ...], document: Document) -> list[str]:
    """What whoever gets the prediction of a single text should know of its language."""
    name = seen_in(document)
    return [
        f"this model was trained on {_named(known)}; the text looks {NAMES.get(name, name)}"
        for known in dict.fromkeys(about.languages for about in abouts if about.languages)
        if name and name not in known
    ]


def _named(codes: tuple[str, ...]) -> str:
    return " and ".join(NAMES.get(name, name) for name in codes)


class Languages:
    """Counts texts by language, and what was cut off them."""

    def __init__(self) -> None:
        self.texts, self.cut, self.tokens = 0, 0, 0
        self.counts = Counter[str]()

    def take(self, document: Document, prediction: Prediction) -> None:
        """One more text."""
        self.texts += 1
        self.cut += prediction.cut > 0
        self.tokens += prediction.cut
        self.counts[seen_in(document)] += 1

    def warnings(self, abouts: tuple[About, ...], what: str) -> Iterator[str]:
        """What whoever reads the predictions should know; `what` the texts are in: this file, this folder."""
        for known in dict.fromkeys(about.languages for about in abouts if about.languages):
            other = {name: n for name, n in self.counts.most_common() if name and name not in known}
            shares = [(NAMES.get(name, name), n / self.texts) for name, n in other.items() if n >= SHARE * self.texts]
            if shares:
                looks = ", ".join(f"{share:.0%} of {what} looks {name}".replace("%", " %") for name, share in shares)
                yield f"this model was trained on {_named(known)}; {looks}"
        if self.cut:
            yield f"longer than the model reads: {self.cut:,} of {self.texts:,} texts; {self.tokens:,} tokens unread"
