"""The type checker knows what each exchange returns, and what may not be sent."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import wardround

# All but the core is left out, the rest of the package and torch above all: nothing here turns on its types.
SETTINGS = """
[mypy]
strict = true
follow_imports = skip
[mypy-wardround.core.*]
follow_imports = silent
[mypy-torch.*,safetensors.*,numpy.*]
follow_imports_for_stubs = true
"""

HEAD = """
from wardround.core.cohort import Cohort
from wardround.core.method import Global, Method, on_site
from wardround.core.record import Message, Private
from wardround.core.site import Site
from wardround.core.weights import Weights

class Question(Message):
    number: int

class Answer(Message):
    number: int

class Secret(Private):
    number: int

class Base(Method[Global]):
    def start(self, weights: Weights, cohort: Cohort) -> Global:
        return Global(weights)
"""

RIGHT = """
class Right(Base):
    def round(self, state: Global, cohort: Cohort) -> Global:
        total = cohort.total(self.fit, state)
        reveal_type(total)
        replies = cohort.ask(self.fit, {"a": state})
        reveal_type(replies)
        reveal_type(cohort.ask(self.score, Question(1))["a"].number)
        return Global(state.weights * total.number)

    @on_site
    def fit(self, model: Global, site: Site) -> Answer:
        site.keep(Secret(1))
        reveal_type(site.recall(Secret))
        return Answer(len(site.data.train))

    @on_site
    def score(self, question: Question, site: Site) -> Answer:
        return Answer(question.number)
"""

WRONG = """
class Wrong(Base):
    def round(self, state: Global, cohort: Cohort) -> Global:
        cohort.ask(self.fit, Secret(1))  # sends a private record
        cohort.ask(self.fit, {"a": Secret(1)})  # sends a private record to one site
        cohort.total(self.fit, Question(1))  # sends another message
        cohort.total(self.fit, state).change  # looks for what is not in the reply
        cohort.total(self.plain, state)  # asks for what is no step
        return Global(state.weights)

    @on_site
    def fit(self, model: Global, site: Site) -> Answer:
        site.keep(Answer(1))  # keeps a message
        return Secret(1)  # returns a private record

    @on_site  # declares that a private record is returned
    def leak(self, model: Global, site: Site) -> Secret:
        return Secret(1)

    @on_site  # declares that a private record is taken
    def take(self, secret: Secret, site: Site) -> Answer:
        return Answer(1)

    def plain(self, model: Global, site: Site) -> Answer:
        answer = Answer(1)
        answer.number = 2  # changes a record
        return answer
"""


@pytest.fixture(scope="module")
def complaints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[int, str]]]:
    """What mypy says of both snippets, as lines and words."""
    folder = tmp_path_factory.mktemp("types")
    (folder / "mypy.ini").write_text(SETTINGS)
    (folder / "right.py").write_text(HEAD + RIGHT)
    (folder / "wrong.py").write_text(HEAD + WRONG)
    source = Path(wardround.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.devnull, "right.py", "wrong.py"],
        cwd=folder,
        env={"MYPYPATH": str(source), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    results: dict[str, list[tuple[int, str]]] = {"right.py": [], "wrong.py": []}
    for line in done.stdout.splitlines()[:-1]:
        file, number, words = line.split(":", 2)
        results[file].append((int(number), words.strip().replace("builtins.", "")))
    assert "" == done.stderr
    return results


def test_a_correct_method_passes_and_its_replies_have_their_types(complaints: dict[str, list[tuple[int, str]]]) -> None:
    types = ["right.Answer", "dict[str, right.Answer]", "int", "right.Secret"]
    assert [f'note: Revealed type is "{kind}"' for kind in types] == [words for _, words in complaints["right.py"]]


def test_what_may_not_be_sent_is_an_error_where_it_stands(complaints: dict[str, list[tuple[int, str]]]) -> None:
    lines = (HEAD + WRONG).splitlines()
    expected = {line.partition("  # ")[2] for line in lines} - {""}
    errors = [(number, words) for number, words in complaints["wrong.py"] if words.startswith("error: ")]
    actual = {lines[number - 1].partition("  # ")[2] for number, _ in errors}
    assert expected == actual
