"""The page in a real browser, on a real server with a model that really was trained, or with one that is told."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from browser import Browser
from serving import Relates, Scripted, served
from wardround.clinic import Clinic
from wardround.formats.jsonl import read_jsonl
from wardround.formats.merge import merge
from wardround.formats.options import Options
from wardround.serve.desk import Desk
from wardround.text.document import Document, Entity
from wardround.text.reading import Problems
from wardround.trained.model import load

NOTES = [document.text for document in Clinic(hospitals=1, documents=50).stream("hospital-0", "train")]
FOUND = """[...document.querySelectorAll('#note .entity')].map(e => [e.dataset.type, e.textContent])"""
STATUS = "document.getElementById('status').textContent"
WIDER = """[...document.querySelectorAll('body *')].filter(e =>
    !e.closest('.scroll, svg, dialog') && e.getBoundingClientRect().right > innerWidth + 1
).map(e => e.outerHTML.slice(0, 80))"""


@pytest.fixture(scope="module")
def real(tagger: Path) -> Iterator[str]:
    with served(Desk(load(tagger))) as place:
        yield place


@pytest.fixture(scope="module")
def scripted(tagger: Path) -> Iterator[str]:
    with served(Desk(Scripted(load(tagger).parts))) as place:
        yield place


def opened(browser: Browser, place: str, **options: Any) -> None:
    browser.open(f"{place}/", **options)
    browser.wait("document.getElementById('place').textContent")


def find(browser: Browser, text: str) -> None:
    """Type a note into the empty field, and press the button."""
    browser.point("#text", click=True)
    browser.type(text)
    browser.point("#find", click=True)
    browser.wait(f"!document.getElementById('found').hidden && {STATUS}.startsWith('Found')")
    browser.wait("document.querySelector('#note .entity')")


def test_one_types_presses_and_sees_what_the_model_finds(browser: Browser, real: str, tagger: Path) -> None:
    opened(browser, real)
    find(browser, NOTES[0])
    expected = [[one["type"], one["words"]] for one in load(tagger)(NOTES[0]).plain()["entities"]]
    assert expected == browser.evaluate(FOUND)
    assert NOTES[0] == browser.evaluate("document.querySelector('#note .block').textContent")
    seen = browser.seen()
    assert () == seen.complaints
    assert {real} == {request[: len(real)] for request in seen.requests}
    assert "Not for clinical decisions" in browser.evaluate("document.body.innerText")


def test_places_are_right_behind_an_emoji_and_ctrl_enter_asks_too(browser: Browser, scripted: str) -> None:
    opened(browser, scripted)
    browser.point("#text", click=True)
    browser.type("😀👩‍⚕️ 𝒳 ASPIRIN, 😀 then RASH 😀")
    browser.press("Enter", control=True)
    browser.wait("document.querySelector('#note .entity')")
    assert [["drug", "ASPIRIN"], ["drug", "RASH"]] == browser.evaluate(FOUND)


def test_markup_in_a_note_a_label_or_a_relation_is_shown_and_not_run(browser: Browser, scripted: str) -> None:
    opened(browser, scripted)
    note = "<script>document.title = 'run'</script><img src=x onerror=\"document.title = 'run'\"> <b>ASPIRIN</b> RASH"
    find(browser, note)
    assert note == browser.evaluate("document.querySelector('#note .block').textContent")
    assert 0 == browser.evaluate("document.querySelectorAll('main script, main img, #note b, #labels i').length")
    assert "<i>ward</i>" in browser.evaluate("document.getElementById('labels').textContent")
    browser.wait("document.querySelector('#arcs text')")
    assert "causes <b>x</b>" == browser.evaluate("document.querySelector('#arcs text').textContent")
    assert "run" != browser.evaluate("document.title")
    assert () == browser.seen().complaints


def test_an_empty_note_gets_a_friendly_line_and_is_not_sent(browser: Browser, scripted: str) -> None:
    opened(browser, scripted)
    browser.type("  \n ")
    browser.point("#find", click=True)
    browser.wait(f"{STATUS}.includes('paste or type a note first')")
    assert [] == [request for request in browser.seen().requests if request.endswith("/predict")]


def test_overlapping_entities_are_each_drawn_whole(browser: Browser, scripted: str) -> None:
    opened(browser, scripted)
    find(browser, "an OVER LAP here")
    pieces: dict[str, str] = {}
    for kind, words in browser.evaluate(FOUND):
        pieces[kind] = pieces.get(kind, "") + words
    assert {"long": "OVER LAP", "cross": "ER L", "drug": "OVERLAP"} == pieces
    assert "an OVER LAP here" == browser.evaluate("document.querySelector('#note .block').textContent")


def test_pointing_at_an_entity_tells_its_type_and_confidence_and_at_a_relation_lights_both_ends(
    browser: Browser, scripted: str
) -> None:
    opened(browser, scripted)
    find(browser, "ASPIRIN gave her a RASH, and IBUPROFEN none")
    browser.point("#note .entity")
    browser.wait("document.getElementById('tip').textContent === 'drug, 90\\u00a0%'")
    browser.point("#relations button")
    lit = "[...document.querySelectorAll('#note .entity.lit')].map(e => e.textContent)"
    assert ["ASPIRIN", "RASH"] == browser.evaluate(lit)
    assert 2 == browser.evaluate("document.querySelectorAll('#arcs path.arc').length")
    assert 1 == browser.evaluate("document.querySelectorAll('#arcs path.arc.lit').length")


def test_of_too_many_relations_those_are_drawn_that_one_points_at(browser: Browser, scripted: str) -> None:
    opened(browser, scripted)
    find(browser, "ASPIRIN gave her a RASH. " * 30)
    arcs = "document.querySelectorAll('#arcs path.arc').length"
    browser.wait("document.getElementById('hint').textContent.includes('Too many to draw')")
    assert 59 == browser.evaluate("document.querySelectorAll('#relations li').length")
    assert 0 == browser.evaluate(arcs)
    browser.point("#relations button")
    assert 1 == browser.evaluate(arcs)


def test_the_slider_hides_what_is_less_sure(browser: Browser, scripted: str) -> None:
    opened(browser, scripted)
    find(browser, "an OVER LAP here")
    least = "{const s = document.getElementById('least'); s.value = %d; s.dispatchEvent(new Event('input'))}"
    browser.evaluate(least % 50)
    assert {"drug", "cross"} == {kind for kind, _ in browser.evaluate(FOUND)}
    browser.evaluate(least % 95)
    assert [] == browser.evaluate(FOUND)
    assert 0 == browser.evaluate("document.querySelectorAll('#arcs *, #relations li').length")


def test_entities_are_marked_by_hand_for_a_model_that_only_relates(browser: Browser, tagger: Path) -> None:
    with served(Desk(Relates(load(tagger).parts))) as place:
        opened(browser, place)
        browser.point("#text", click=True)
        browser.type("😀 ASPIRIN gave RASH")
        browser.point("#find", click=True)
        browser.wait(f"{STATUS}.includes('at least two entities')")
        browser.evaluate("document.getElementById('mark-type').value = 'drug'")
        for start, end in ((3, 10), (16, 20)):  # of UTF-16 units, as browsers count
            browser.evaluate(f"document.getElementById('text').setSelectionRange({start}, {end})")
            browser.point("#mark", click=True)
        assert ["ASPIRIN drug×", "RASH drug×"] == browser.evaluate(
            "[...document.querySelectorAll('#marked li')].map(e => e.textContent)"
        )
        sent = """new Promise(done => { const ask = window.fetch;
            window.fetch = (path, how) => { done(JSON.parse(how.body).entities); return ask(path, how); };
            document.getElementById('find').click(); })"""
        assert [(2, 9), (15, 19)] == [(one["start"], one["end"]) for one in browser.evaluate(sent)]
        browser.wait("document.querySelector('#note .entity')")


def test_the_card_is_one_click_away(browser: Browser, real: str) -> None:
    opened(browser, real)
    browser.point("#show-card", click=True)
    assert browser.evaluate("document.getElementById('card').open")
    cells = browser.evaluate("[...document.querySelectorAll('#card td')].map(e => e.textContent)")
    assert "strict F1: type and both ends equal; harmonic mean of precision and recall" in cells


def test_the_json_is_downloaded_as_it_was_answered(browser: Browser, scripted: str, tmp_path: Path) -> None:
    opened(browser, scripted)
    find(browser, "ASPIRIN")
    browser.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    browser.point("#download", click=True)
    browser.until("Page.downloadProgress", state="completed")
    assert '"words": "ASPIRIN"' in (tmp_path / "prediction.json").read_text(encoding="utf-8")


def test_a_note_of_2_mb_is_shown_and_the_page_stays_usable(browser: Browser, real: str) -> None:
    """Of tens of thousands of entities only those near the window are drawn, and the others when one goes there."""
    text = "\n\n".join(NOTES * 200)[:2_000_000].strip()
    opened(browser, real)
    browser.paste(text, "#text")
    browser.point("#find", click=True)
    browser.wait("document.querySelector('#note .entity')")
    assert len(text) == browser.evaluate("document.getElementById('note').textContent.length")
    drawn = "document.querySelectorAll('#note .entity').length"
    assert 0 < browser.evaluate(drawn) < 2_000
    last = "document.querySelector('#note .block:last-of-type')"
    assert 0 == browser.evaluate(f"{last}.querySelectorAll('.entity').length")
    browser.evaluate(f"{last}.scrollIntoView()")
    browser.wait(f"{last}.querySelector('.entity')")


def test_a_wrong_content_type_is_refused(browser: Browser, scripted: str) -> None:
    opened(browser, scripted)
    ask = "fetch('/predict', {method: 'POST', body: JSON.stringify({text: 'ASPIRIN'})}).then(a => a.status)"
    assert 415 == browser.evaluate(ask)


def test_a_page_of_another_origin_can_neither_ask_nor_read(browser: Browser, scripted: str, real: str) -> None:
    """Without its policy, which forbids it even to try."""
    browser.open(f"{real}/health")
    browser.call("Page.setBypassCSP", enabled=True)
    browser.open(f"{real}/health")
    ask = "fetch('%s', {method: 'POST', headers: {'Content-Type': 'application/json'}, body: '{\"text\": \"A\"}'})"
    read = "fetch('%s')"
    for script, path in ((ask, "/predict"), (read, "/health")):
        assert "refused" == browser.evaluate((script % (scripted + path)) + ".then(() => 'read', () => 'refused')")
    browser.call("Page.setBypassCSP", enabled=False)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_is_wider_than_the_window(browser: Browser, scripted: str, width: int, *, dark: bool) -> None:
    opened(browser, scripted, width=width, dark=dark)
    find(browser, "ASPIRIN gave RASH " * 5 + "X" * 300)
    assert [] == browser.evaluate(WIDER)
    assert width == browser.evaluate("document.documentElement.scrollWidth")
    assert () == browser.seen().complaints


def chosen(browser: Browser, words: str) -> None:
    """Press an entity by its words."""
    number = browser.evaluate(
        f"[...document.querySelectorAll('#note .entity')].find(e => e.textContent === {words!r}).dataset.number"
    )
    browser.point(f'#note .entity[data-number="{number}"]', click=True)
    browser.wait(f"document.getElementById('chosen').textContent.includes({words!r})")


def selected(browser: Browser, words: str) -> None:
    """Select words of the note, as one does with the mouse."""
    browser.evaluate(f"""(() => {{ const walk = document.createTreeWalker(document.querySelector('#note .block'), 4);
        for (let node; node = walk.nextNode();) {{ const at = node.data.indexOf({words!r}); if (at < 0) continue;
            getSelection().setBaseAndExtent(node, at, node, at + {len(words)}); return; }} }})()""")
    browser.wait(f"document.getElementById('chosen').textContent.includes('Selected: “{words.strip()}”')")


def retyped(browser: Browser, kind: str) -> None:
    browser.evaluate(f"document.getElementById('correct-type').value = {kind!r}")


def test_entities_are_corrected_and_the_download_is_merged_and_trains(
    browser: Browser, scripted: str, tmp_path: Path
) -> None:
    """Another type, other borders, one less, one more: in places of the text as Python counts them."""
    opened(browser, scripted)
    note = "😀 ASPIRIN gave her a RASH, 😀 and IBUPROFEN 😀 none; NSAID"
    find(browser, note)
    chosen(browser, "RASH")
    retyped(browser, "effect")
    browser.point("#retype", click=True)
    browser.wait("[...document.querySelectorAll('#note .entity')].some(e => e.dataset.type === 'effect')")
    for _ in range(2):
        browser.point("#moves [data-edge=start][data-by='-1']", click=True)  # "a RASH"
    chosen(browser, "NSAID")
    browser.point("#remove", click=True)
    selected(browser, "none")
    retyped(browser, "word")
    browser.point("#add", click=True)
    browser.wait(f"{STATUS}.includes('on this page alone')")
    browser.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    browser.point("#download-correction", click=True)
    browser.until("Page.downloadProgress", state="completed")
    (placed,) = read_jsonl(tmp_path / "correction.jsonl", Problems(), Options())
    document = placed.document
    assert note == document.text
    expected = [("drug", "ASPIRIN"), ("effect", "a RASH"), ("drug", "IBUPROFEN"), ("word", "none")]
    assert expected == [(one.type, note[one.start : one.end]) for one in document.entities]
    links = [(note[head.start : head.end], note[tail.start : tail.end]) for head, tail in _ends(document)]
    assert [("ASPIRIN", "a RASH"), ("a RASH", "IBUPROFEN")] == links  # that of NSAID went with it
    before = tmp_path / "before.jsonl"
    before.write_text(json.dumps({"id": "1", "text": note, "entities": [], "model": "served"}) + "\n", encoding="utf-8")
    done, counts = merge([before, tmp_path / "correction.jsonl"], tmp_path / "all.jsonl", Options())
    assert (True, 1, {"superseded": 1}) == (done.written, done.documents, dict(counts))
    assert () == browser.seen().complaints
    asked = [request for request in browser.seen().requests if request.startswith(scripted)]
    assert 1 == sum(request.endswith("/predict") for request in asked)  # corrections go nowhere


def _ends(document: Document) -> list[tuple[Entity, Entity]]:
    by_id = {one.id: one for one in document.entities}
    return [(by_id[one.head], by_id[one.tail]) for one in document.relations]


def test_selected_words_become_the_borders_and_undo_takes_them_back(browser: Browser, scripted: str) -> None:
    opened(browser, scripted)
    find(browser, "He took ASPIRIN daily")
    chosen(browser, "ASPIRIN")
    selected(browser, "daily")
    browser.point("#border", click=True)
    browser.wait("document.querySelector('#note .entity').textContent === 'daily'")
    browser.point("#undo", click=True)
    browser.wait("document.querySelector('#note .entity').textContent === 'ASPIRIN'")
    assert browser.evaluate("document.getElementById('undo').disabled")


def test_what_cannot_be_an_entity_is_told(browser: Browser, scripted: str) -> None:
    opened(browser, scripted)
    find(browser, "ASP")
    chosen(browser, "ASP")
    for _ in range(2):
        browser.point("#moves [data-edge=start][data-by='1']", click=True)
    browser.wait("document.querySelector('#note .entity').textContent === 'P'")
    browser.point("#moves [data-edge=start][data-by='1']", click=True)
    browser.wait(f"{STATUS}.includes('at least one character')")
    retyped(browser, "  ")
    browser.point("#retype", click=True)
    browser.wait(f"{STATUS}.includes('Name the type')")


def test_a_note_in_which_nothing_was_found_can_be_marked(browser: Browser, scripted: str) -> None:
    opened(browser, scripted)
    browser.point("#text", click=True)
    browser.type("no drug at all")
    browser.point("#find", click=True)
    browser.wait(f"{STATUS}.startsWith('Found: 0 entities')")
    selected(browser, "drug ")
    retyped(browser, "drug")
    browser.point("#add", click=True)
    browser.wait("document.querySelector('#note .entity')")
    assert [["drug", "drug"]] == browser.evaluate(FOUND)


def test_relations_and_labels_can_be_taken_away(browser: Browser, scripted: str) -> None:
    opened(browser, scripted)
    find(browser, "ASPIRIN gave RASH and HIVES")
    browser.point("#relations .off", click=True)
    browser.wait("document.querySelectorAll('#relations li').length === 1")
    browser.point("#labels .off", click=True)
    browser.wait("document.getElementById('labels-part').hidden")
    browser.wait("document.querySelectorAll('#note .entity').length === 3")
