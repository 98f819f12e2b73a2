"""Whether a pretrained encoder suits texts: by the pieces that it knows, and by the languages that its README names.

    [*doubts(Path("models/biobert"), documents)]     # ["the encoder biobert does not know 12 % of …"]

Of texts that it knows next to nothing of, a task refuses it (`encoders`); what is milder, a run says and goes on.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from wardround.models.pretrained import Pretrained, packaged, read_encoder
from wardround.tasks.words import JUDGED_FROM, spread
from wardround.text.document import Document
from wardround.text.language import NAMES, language

MANY_UNKNOWN = 0.1  # of word pieces: English encoders lack less than 1 % of English notes
SPELT = 1.2  # pieces per character: a language that it knows takes one at most, whose bytes it spells two or three
HEAD = 20_000  # characters of a README that are looked at


def doubts(folder: Path, documents: Sequence[Document]) -> Iterator[str]:
    """Why the encoder in this folder may not suit these texts, each with a remedy; nothing of the texts."""
    some = [one for one in spread(documents) if one.text.strip()]
    if len(some) < JUDGED_FROM:
        return
    encoder, called = read_encoder(folder), "minilm" if folder == packaged() else folder.name
    whole, unknown = pieces(encoder, [one.text for one in some])
    each = whole / sum(len("".join(one.text.split())) for one in some)
    (written, count), *_ = Counter(one.language or language(one.text) for one in some).most_common(1)
    other = written if written and 2 * count > len(some) else ""
    why = []
    if whole and unknown / whole > MANY_UNKNOWN:
        why.append(f"does not know {100 * unknown / whole:.0f} % of the word pieces")
    elif each > SPELT:
        why.append(f"spells the texts, in {each:.1f} pieces per character")
    known = languages(folder)
    if known and other and other not in known:
        mine = " and ".join(NAMES.get(code, code) for code in known)
        why.append(f"is of {mine}, and most texts look {NAMES.get(other, other)}")
    if why:
        yield f"the encoder {called} {'; it '.join(why)}; choose one of the texts' language ({other or 'unknown'})"


def pieces(encoder: Pretrained, texts: Sequence[str]) -> tuple[int, int]:
    """How many pieces an encoder makes of texts, and how many of them it does not know."""
    rows = [one.ids for one in encoder.tokenizer.encode_batch([*texts], add_special_tokens=False)]
    return sum(map(len, rows)), sum(row.count(encoder.unknown) for row in rows)


def languages(folder: Path) -> tuple[str, ...]:
    """The codes of the languages that a README names at its head; none if it names none, or says `multilingual`."""
    try:
        with (folder / "README.md").open(encoding="utf-8", errors="replace") as file:
            head = re.match(r"---\s*\n(.*?)\n---", file.read(HEAD), re.DOTALL)
    except OSError:
        return ()
    named = re.search(r"^languages?:[ \t]*(.*(?:\n[ \t]*-.*)*)", head[1], re.MULTILINE) if head else None
    codes = (
        [code.partition("-")[0].lower() for code in re.findall(r"[A-Za-z]+(?:-[A-Za-z]+)*", named[1])] if named else []
    )
    return tuple(dict.fromkeys(codes)) if all(len(code) == 2 for code in codes) else ()
