"""Tags to spans and back, and how broken sequences are repaired."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from wardround.text.tags import Scheme, Span, spans, split_tag, tagged


@pytest.mark.parametrize("case", oracle.params("ner_f1"))
@pytest.mark.parametrize("which", ["gold", "pred"])
def test_oracle_spans(case: oracle.Case, which: str) -> None:
    """Repaired as conlleval repairs, or only what the scheme allows."""
    inputs = case["inputs"]
    for mode, only in (("lenient", False), ("scheme", True)):
        found = [spans(tags, inputs["scheme"], scheme_only=only)[0] for tags in inputs[which]]
        assert case["expected"][mode][f"{which}_entities"] == [[list(span) for span in row] for row in found]


@pytest.mark.parametrize(
    ("scheme", "tags", "repaired"),
    [
        ("BIO", ["B-a", "I-a", "B-a", "O"], 0),
        ("BIO", ["I-a", "I-a", "O", "I-b"], 2),
        ("BIO", ["B-a", "I-b", "I-b"], 1),
        ("BIOES", ["B-a", "E-a", "S-b"], 0),
        ("BIOES", ["B-a", "I-a", "O", "E-b", "I-b"], 3),
    ],
)
def test_repairs_are_counted(scheme: Scheme, tags: list[str], repaired: int) -> None:
    assert repaired == spans(tags, scheme)[1]


def entities(length: int) -> st.SearchStrategy[list[Span]]:
    """Entities of a sentence that do not overlap."""
    cuts = st.lists(st.integers(0, length), unique=True).map(sorted)
    kinds = st.lists(st.sampled_from(["Drug", "side-effect", ""]), min_size=length, max_size=length)
    return st.tuples(cuts, kinds).map(
        lambda both: [(both[1][n], s, e) for n, (s, e) in enumerate(zip(both[0][::2], both[0][1::2], strict=False))]
    )


@given(entities(12), st.sampled_from(["BIO", "BIOES"]))
def test_spans_come_back_from_their_tags(actual: list[Span], scheme: Scheme) -> None:
    """Also types with hyphens; nothing needs repair."""
    actual = [(kind or "x", start, end) for kind, start, end in actual]
    assert (actual, 0) == spans(tagged(actual, 12, scheme), scheme)


@pytest.mark.parametrize(
    ("tag", "parts"),
    [("O", ("O", "")), ("B-a-b", ("B", "a-b")), ("I", ("I", "")), ("B-", ("", "")), ("o", ("", "")),
     ("X-a", ("", "")), ("Drug", ("", "")), ("", ("", "")), ("O-a", ("", ""))],
)  # fmt: skip
def test_what_a_tag_is(tag: str, parts: tuple[str, str]) -> None:
    assert parts == split_tag(tag)
