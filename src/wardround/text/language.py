"""Which language a text seems to be in: by its script, and among languages in Latin letters by their commonest words.

    language("The patient has a fever")      # "en"

A guess for counting documents, not for treating patients; empty where there is too little to go by.
"""

import re
from collections import Counter
from collections.abc import Iterable

SAMPLE = 1000  # characters that are looked at
SCRIPTS = {
    "ja": "\u3040-\u30ff",
    "zh": "\u3400-\u4dbf\u4e00-\u9fff",
    "ko": "\uac00-\ud7af",
    "ru": "\u0400-\u04ff",
    "el": "\u0370-\u03ff",
    "ar": "\u0600-\u06ff",
    "he": "\u0590-\u05ff",
    "hi": "\u0900-\u097f",
    "th": "\u0e00-\u0e7f",
}
WORDS = {
    "en": "the of and to was is with for in on no not he she her his has had by are at from were this that a an as or "
    "be do but it i my",
    "de": "der die das und mit ist nicht von zu den im ein eine wurde bei auf für keine dem des sich",
    "fr": "le la les et de des du un une est pas dans avec pour par sur il elle au aux ne",
    "es": "el la los las y de del un una con no en por para se que su al es fue",
    "it": "il la le gli i e di del della un una con non in per che si è al da nel",
    "pt": "o a os as e de do da um uma com não em por para se que no na foi",
    "nl": "de het een en van met is niet in op voor te zijn bij geen werd aan die",
}
NAMES = {
    "ar": "Arabic", "de": "German", "el": "Greek", "en": "English", "es": "Spanish", "fr": "French", "he": "Hebrew",
    "hi": "Hindi", "it": "Italian", "ja": "Japanese", "ko": "Korean", "nl": "Dutch", "pt": "Portuguese",
    "ru": "Russian", "th": "Thai", "zh": "Chinese",
}  # fmt: skip
"""What a language is called, by its code."""
UNSPACED = frozenset({"zh", "ja", "th"})
"""Languages that put no space between words."""
UNSPACED_LETTERS = "".join(SCRIPTS[name] for name in sorted(UNSPACED))
LETTER_AFTER_LETTER = re.compile(f"(?<=[{UNSPACED_LETTERS}])([ \t\u3000]*)(?=[{UNSPACED_LETTERS}])")
KNOWN = {name: frozenset(words.split()) for name, words in WORDS.items()}

WORD = re.compile(r"(?<!\w)(?<!\w\.)(?:[^\W\d_]{2,}|[^\W\d_](?!\.))(?!\w)")
"""A word; neither O2 nor E. coli has a Portuguese article, nor is i.e. Italian."""


def language(text: str) -> str:
    """The code of the likely language, or nothing."""
    sample = text[:SAMPLE]
    letters = sum(map(str.isalpha, sample))
    if not letters:
        return ""
    for name, script in () if sample.isascii() else SCRIPTS.items():
        # A Chinese note is full of Latin drug names and units; Japanese has letters of its own among Chinese ones.
        if len(re.findall(f"[{script}]", sample)) > letters * (0.1 if name == "ja" else 0.2):
            return name
    words = Counter(WORD.findall(sample.casefold()))
    scores = {name: sum(words[word] for word in known) for name, known in KNOWN.items()}
    best, second = sorted(scores, key=lambda name: -scores[name])[:2]
    # One word alone may be a term of medical English: per cent, non-small, de novo; "no" and "as" are English as well.
    alone = best != "en" and sum(word in words for word in KNOWN[best] - KNOWN["en"]) < 2
    return best if scores[best] > scores[second] and not alone else ""


def mostly(texts: Iterable[str]) -> str:
    """The language of most of these texts, or nothing; short ones of no clear language count for none."""
    counts = Counter(filter(None, map(language, texts)))
    return counts.most_common(1)[0][0] if counts else ""


def has_words(text: str) -> bool:
    """Whether a text has a letter or a digit, of any script."""
    return any(map(str.isalnum, text))


def blanks_between_words(texts: Iterable[str]) -> bool:
    """Whether texts of a language without spaces have them all the same, as those of a file of tokens do.

    Words of such files have two letters on average, and clauses with a blank between them four or more.
    """
    gaps = [bool(gap) for text in texts for gap in LETTER_AFTER_LETTER.findall(text[:SAMPLE])]
    return 3 * sum(gaps) > len(gaps)
