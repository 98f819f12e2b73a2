"""What in a note looks as if it named somebody: dates, telephone numbers, numbers of patients, names.

    [(kind, start), …] = looks_like("Seen on 3 May 2024, tel. 020 7946 0958")

Rules for English and Chinese, by how such things are written: a date has a day and a month that there are, numbers of
patients stand behind what they are called or have a right check digit, a name stands behind a title or what it is
called. They find what is written in usual ways and nothing else: none found is no proof that there is none. What is
found is counted and never shown. Names without a title need a language model: `presidio` has one, an extra.
"""

import re
from collections.abc import Callable, Iterable, Iterator

MONTHS = (
    "jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sep(?:t(?:ember)?)?|oct(?:ober)?|"
    "nov(?:ember)?|dec(?:ember)?"
)
SURNAMES = (
    "王李张刘陈杨黄赵吴周徐孙马朱胡郭何高林罗郑梁谢宋唐许韩冯邓曹彭曾肖田董袁潘于蒋蔡余杜叶程苏魏吕丁任沈姚卢姜崔钟谭陆汪范金石廖贾夏韦"
    "付方白邹孟熊秦邱江尹薛闫段雷侯龙史陶黎贺顾毛郝龚邵万钱严覃武戴莫孔向汤"
)
TITLES, PART = "Mr|Mrs|Ms|Miss|Mx|Dr|Prof|Professor|Sister|Nurse", "[A-Z][A-Za-z'’-]+"
WHEN = "on|since|until|dated?|admitted|discharged|seen|born|DOB"  # what stands before a day; else 3/5 is a strength
DOSE = "(?:m|µ|k)?(?:c?g|l|iu|units)"
DAY = r"(?:3[01]|[12]\d|0?[1-9])(?:st|nd|rd|th)?"
NOT_BEFORE, NOT_AFTER = "(?<![A-Za-z0-9_.])", "(?![A-Za-z0-9_])"  # Chinese characters have no blanks between
PLAIN = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}  # full-width letters, digits and signs
NINE = "一二三四五六七八九"
COMPOUND = "欧阳|司马|上官|诸葛|东方|皇甫|尉迟|公孙|慕容|令狐|夏侯"
WEIGHTS = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)  # GB 11643
CHECK = "10X98765432"
REMEDY = "replace it before anybody else reads the note; --phi counts and does not show"


def _day(match: re.Match[str]) -> bool:
    """Whether two of the numbers can be a day and a month, whichever comes first."""
    numbers = [int(part) for part in re.findall(r"\d+", match[0])]
    small = [number for number in numbers if number <= 31][:2]
    return len(small) == 2 and min(small) in range(1, 13) and max(small) in range(1, 32)


def _written(match: re.Match[str]) -> bool:
    """The same of a date that begins with its year, and may have a time behind it."""
    _, month, day = re.findall(r"\d+", match[0])[:3]
    return 1 <= int(month) <= 12 and 1 <= int(day) <= 31


def _chinese(match: re.Match[str]) -> bool:
    """Whether the check digit of an identity number is right."""
    digits = match[0].upper()
    return CHECK[sum(int(digit) * weight for digit, weight in zip(digits, WEIGHTS, strict=False)) % 11] == digits[17]


def _british(match: re.Match[str]) -> bool:
    """Whether the check digit of an NHS number is right."""
    digits = [int(digit) for digit in match[0] if digit.isdigit()]
    rest = 11 - sum(digit * weight for digit, weight in zip(digits, range(10, 1, -1), strict=False)) % 11
    return rest % 11 == digits[9]


def _capital(match: re.Match[str]) -> bool:
    """Whether the month is written as a name, or a year says that it is one: one may 3 times a day."""
    return any(letter.isupper() for letter in match[0]) or bool(re.search(r"\d{4}$", match[0]))


def _uneven(match: re.Match[str]) -> bool:
    """Whether it is no range of doses, such as 200-1000: these are round."""
    return any(int(number) % 50 for number in match[0].split("-"))


def _any(_: re.Match[str]) -> bool:
    return True


def _rule(pattern: str) -> "re.Pattern[str]":
    return re.compile(pattern, re.IGNORECASE)


NUMBER = "looks like a patient number"
TELEPHONE = "looks like a telephone number"
DATE = "looks like a date"
NAME = "looks like a name"
MAIL = "looks like an e-mail address"
RULES: tuple[tuple[str, "re.Pattern[str]", Callable[[re.Match[str]], bool]], ...] = (
    (MAIL, _rule(r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+"), _any),
    (NUMBER, _rule(rf"{NOT_BEFORE}\d{{17}}[\dX]{NOT_AFTER}"), _chinese),
    (NUMBER, _rule(rf"{NOT_BEFORE}\d{{3}}[ -]?\d{{3}}[ -]?\d{{4}}{NOT_AFTER}"), _british),
    (NUMBER, _rule(rf"{NOT_BEFORE}\d{{3}}-\d{{2}}-\d{{4}}{NOT_AFTER}"), _any),
    (
        NUMBER,
        _rule(
            r"\b(?:MRN|(?:medical )?record|patient|hospital|chart|NHS|case|account|insurance|SSN|social security)\s*"
            r"(?:id|no|nr|num|number|#)?\.?\s*(?:is\b)?[:#]?\s*(?=[A-Z0-9-]*\d{4}|(?:\d\d-){2}\d\d)[A-Z]{0,3}[\d-]{4,}\b"
        ),
        _any,
    ),
    (NUMBER, _rule(r"(?:病历|住院|门诊|病案|登记|医保|身份证|就诊卡|床位?)号?码?\s*[:：#]?\s*[A-Z]{0,3}\d{4,}"), _any),
    (NUMBER, _rule(r"(?:ID|编)号\s*[:：#]?\s*[A-Z]{0,3}\d{4,}"), _any),
    (TELEPHONE, _rule(rf"{NOT_BEFORE}\+\d{{1,3}}[ .-]?\(?\d{{1,4}}\)?(?:[ .-]?\d{{2,4}}){{2,4}}{NOT_AFTER}"), _any),
    (TELEPHONE, _rule(rf"{NOT_BEFORE}\(?[2-9]\d{{2}}\)?[ .-]\d{{3}}[ .-]\d{{4}}{NOT_AFTER}"), _any),
    (TELEPHONE, _rule(rf"{NOT_BEFORE}[2-9]\d{{2}}[2-9]\d{{6}}{NOT_AFTER}"), _any),
    (TELEPHONE, _rule(rf"{NOT_BEFORE}1[3-9]\d{{9}}{NOT_AFTER}"), _any),
    (TELEPHONE, _rule(rf"{NOT_BEFORE}0\d{{2,4}}[ -]\d{{3,4}}[ -]?\d{{3,4}}{NOT_AFTER}"), _any),
    (
        TELEPHONE,
        _rule(
            r"(?:\b(?:tel|phone|telephone|mobile|cell|fax|pager)\b|电话|手机)\.?\s*(?:no|号码?)?\.?\s*[:：]?\s*"
            r"[\d() ./-]{6,}\d"
        ),
        _any,
    ),
    (TELEPHONE, _rule(rf"(?<![A-Za-z0-9_.-])[2-9]\d{{2}}-\d{{4}}(?![A-Za-z0-9_-]| ?{DOSE}\b)"), _uneven),
    (DATE, _rule(rf"{NOT_BEFORE}(?:19|20)\d\d([-/.])\d{{1,2}}\1\d{{1,2}}(?:T[\d:.Z+-]+)?{NOT_AFTER}"), _written),
    (DATE, _rule(rf"{NOT_BEFORE}(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01]){NOT_AFTER}"), _any),
    (DATE, _rule(rf"{NOT_BEFORE}\d{{1,2}}([-/.])\d{{1,2}}\1(?:(?:19|20)\d\d|\d\d){NOT_AFTER}"), _day),
    (DATE, _rule(rf"\b(?:{WHEN}):? \d{{1,2}}/\d{{1,2}}(?![A-Za-z0-9_/%-]|\.\d| ?(?:of|to|tab|pill|dose)\b)"), _day),
    (DATE, _rule(rf"{NOT_BEFORE}{DAY}(?: of)?[ -](?:{MONTHS})\.?(?:,?[ -](?:19|20)?\d\d)?{NOT_AFTER}"), _capital),
    (DATE, _rule(rf"\b(?:{MONTHS})\.? {DAY}(?:,? (?:19|20)\d\d)?{NOT_AFTER}"), _capital),
    (DATE, _rule(rf"\b(?:{MONTHS})\.?,? (?:19|20)\d\d{NOT_AFTER}"), _capital),
    (DATE, _rule(f"[〇零{NINE}]{{4}}年(?:[{NINE}十]{{1,2}}月(?:[{NINE}十]{{1,3}}[日号])?)?"), _any),
    (DATE, _rule(r"(?:(?:19|20)\d\d\s*年\s*)?(?:1[0-2]|0?[1-9])\s*月\s*(?:3[01]|[12]\d|0?[1-9])\s*[日号]"), _any),
    (DATE, _rule(r"(?:19|20)\d\d\s*年\s*(?:1[0-2]|0?[1-9])\s*月"), _any),
    (NAME, re.compile(rf"\b(?:{TITLES})\b\.? (?:[A-Z]\.? )*{PART}(?: {PART})?"), _any),
    (NAME, re.compile(r"\b(?:DR|MRS|MISS|PROF)\b\.? (?:[A-Z]\.? )*[A-Z][A-Z'’-]{2,}\b"), _any),  # MR, MS: findings
    (NAME, re.compile(rf"\b(?:[Pp]atient|[Nn]ame|NAME|PATIENT)(?: name)?: *{PART},? [A-Z][A-Za-z'’-]*"), _any),
    (NAME, re.compile(rf"\b[Nn]ame is {PART} {PART}"), _any),
    (NAME, re.compile(rf"(?:姓名|患者|病人)\s*[:：]\s*(?:{COMPOUND}|[{SURNAMES}])[\u4e00-\u9fff]{{1,2}}"), _any),
    (NAME, re.compile(rf"(?:患者|病人)\s*(?:{COMPOUND}|[{SURNAMES}])[\u4e00-\u9fff]{{1,2}}[，,、]\s*[男女]"), _any),
    (NAME, re.compile(rf"[{SURNAMES}][\u4e00-\u9fff]{{0,2}}(?:先生|女士|小姐|医生|大夫|主任|教授|护士长?)"), _any),
    (NAME, re.compile(rf"[{SURNAMES}]某某?"), _any),
)  # fmt: skip
"""In the order in which they are believed: what one has taken, no later one takes again."""

Finder = Callable[[str], Iterable[tuple[str, int, int]]]
"""Another way to find such things: their kinds, beginnings and ends in a text, the most certain first."""


def looks_like(text: str, more: Finder | None = None) -> Iterator[tuple[str, int]]:
    """What kinds of things a text seems to have, and where each begins; `more` is believed last."""
    taken: list[tuple[int, int]] = []
    for kind, start, end in (*_by_rules(text.translate(PLAIN)), *(more(text) if more else ())):
        if not any(start < other_end and other < end for other, other_end in taken):
            taken.append((start, end))
            yield kind, start


def _by_rules(text: str) -> Iterator[tuple[str, int, int]]:
    for kind, pattern, holds in RULES:
        yield from ((kind, *match.span()) for match in pattern.finditer(text) if holds(match))
