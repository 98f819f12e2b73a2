"""Which tokens suit a language, and whether those that came out of the texts can be learnt from.

    tokens_for("zh")                                        # "characters"
    refuse_useless(texts, rows, chosen="words", listed=None)

A language without spaces has no words that a pattern could find: each text, or each clause, becomes one token that
never comes again, and a model can only learn which label is the commonest. That is refused, with what to set instead.
"""

from collections.abc import Sequence
from typing import Literal

from wardround.text.language import UNSPACED, mostly

__all__ = ["Tokens", "refuse_useless", "tokens_for"]

Tokens = Literal["words", "characters", "jieba"]

JUDGED_FROM = 20  # texts: of fewer, a share says little
LOOKED_AT = 200
FEWEST_TOKENS = 1.5  # per text, on average
UNKNOWN = 1  # the number of every token that a list does not have
MOST_UNKNOWN = 0.8  # general vectors lack half the tokens of medical dialogues, and still help


def tokens_for(language: str, *, listed: bool = False) -> Tokens:
    """What a text of this language is cut into; for the words of a list, Chinese is segmented."""
    if language == "zh" and listed:
        return "jieba"
    return "characters" if language in UNSPACED else "words"


def refuse_useless(
    texts: Sequence[str], rows: Sequence[Sequence[int]], *, tokens: Tokens, listed: str | None = None
) -> None:
    """Raise an error if the numbers of these texts' tokens hold next to nothing; `listed` names the list, if one."""
    if len(texts) < JUDGED_FROM:
        return
    some = texts[:: max(len(texts) // LOOKED_AT, 1)]
    language = mostly(some)
    remedy = 'set tokens = "characters" or "jieba" in [task]'
    if tokens == "words" and language in UNSPACED:
        raise ValueError(
            f'task.tokens = "words", but most texts are in a language without spaces ({language}), '
            f"where a whole clause would be one word; {remedy}"
        )
    each = sum(map(len, rows)) / len(rows)
    if tokens != "characters" and each < FEWEST_TOKENS and sum(map(len, some)) / len(some) > each:
        raise ValueError(
            f'task.tokens = "{tokens}" leaves {each:.1f} tokens per text, about one, so that hardly any comes twice; '
            'set tokens = "characters" in [task]'
        )
    whole = sum(map(len, rows))
    unknown = sum(number == UNKNOWN for row in rows for number in row) if listed else 0
    if whole and unknown / whole > MOST_UNKNOWN:
        raise ValueError(
            f"{100 * unknown / whole:.0f} % of the tokens are not in the vectors of {listed}; choose vectors of the "
            f'texts\' language ({language or "unknown"}), or tokens that fit them: tokens = "{tokens}" now'
        )
