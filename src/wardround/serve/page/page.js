// The page: asks the endpoint for what is found in a note, and shows it. Nothing is kept, and nothing but this server
// is asked. Whatever comes from a note or a model goes in as text, never as markup.

import { draw, element } from "./arcs.js";
import { rendered } from "./card.js";
import { Correction, cross, save } from "./correct.js";
import { Marks } from "./marks.js";
import { Note } from "./note.js";
import { unitsOf } from "./offsets.js";

const COLOURS = 6;
const ARCS = 40; // relations that are drawn at once; of more, those that are pointed at
const LEVELS = 4; // arrows above each other on a line, likewise
const FEW = 2; // for which there is room then
const LISTED = 200;
const LONG = 20000; // characters; browsers take minutes to paste megabytes as typing that can be undone
const at = (id) => document.getElementById(id);
const percent = (value) => `${Math.floor(value * 1000) / 10}\u00a0%`;
const counted = (number, one, many) => `${number} ${number === 1 ? one : many}`;

const known = await (await fetch("/model")).json();
const types = [...new Set(known.models.flatMap((model) => [...model.types, ...(model.pairs ?? []).flat()]))];
let view = null; // what is shown: the answer, entities and relations as they are by now, the note
let asking = null; // the request under way

const say = (words, kind = "") => {
  at("status").textContent = words;
  at("status").className = kind;
};
const make = (name, words, names = "") => {
  const made = document.createElement(name);
  made.className = names;
  made.textContent = words;
  return made;
};
const marks = new Marks(at("text"), {
  type: at("mark-type"), types, button: at("mark"), list: at("marked"), say,
});

const correction = new Correction({
  panel: at("correct"), note: at("note"), told: at("chosen"), type: at("correct-type"), retype: at("retype"), border: at("border"),
  add: at("add"), remove: at("remove"), undo: at("undo"), download: at("download-correction"),
  moves: at("moves").querySelectorAll("button"),
}, { say, redraw });

// What the page is about

const LANGUAGES = new Intl.DisplayNames(["en"], { type: "language" });
const language = (code) => {
  try {
    return LANGUAGES.of(code);
  } catch {
    return code; // none that is known
  }
};
at("name").textContent = known.models.map((model) => model.name).join(" + ");
document.title = `${at("name").textContent}: wardround`;
at("place").textContent = location.host;
const tongues = new Set(known.models.flatMap((model) => model.languages));
at("does").textContent = [
  ...known.models.map((model) => model.summary),
  ...(tongues.size ? [`Trained on ${[...tongues].map(language).join(", ")}`] : []),
].join(". ") + ".";
at("marks").hidden = known.finds_entities;
for (const model of known.models) at("card-text").append(rendered(model.card));
at("show-card").addEventListener("click", () => at("card").showModal());
at("close-card").addEventListener("click", () => at("card").close());

// Asking

async function ask() {
  const text = at("text").value.toWellFormed?.() ?? at("text").value;
  if (!text.trim()) {
    say("There is nothing to look at yet: paste or type a note first.");
    at("text").focus();
    return;
  }
  if (asking) return;
  const entities = known.finds_entities ? undefined : marks.entities();
  if (entities && entities.length < 2) {
    say("Mark at least two entities in the note first.");
    return;
  }
  const body = JSON.stringify({ text, entities });
  if (new Blob([body]).size > known.largest) {
    say(`The note is too large: ${(known.largest / 1e6).toFixed(0)} MB are taken. Send a part of it.`, "wrong");
    return;
  }
  asking = new AbortController();
  const began = Date.now();
  const wait = setInterval(() => say(`Working… ${Math.round((Date.now() - began) / 1000)} s`), 1000);
  working(true);
  say("Working…");
  try {
    const headers = { "Content-Type": "application/json" };
    const answer = await fetch("/predict", { method: "POST", headers, body, signal: asking.signal });
    const prediction = await answer.json();
    if (!answer.ok) throw new Error(prediction.error.message);
    show(text, prediction);
  } catch (error) {
    if (error.name === "AbortError") say("Stopped.");
    else if (error instanceof TypeError) say("The server does not answer. Is wardround serve still running?", "wrong");
    else say(error.message, "wrong");
  } finally {
    clearInterval(wait);
    asking = null;
    working(false);
  }
}

function working(yes) {
  at("find").disabled = yes;
  at("stop").hidden = !yes;
}

at("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  ask();
});
at("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    ask();
  }
});
at("text").addEventListener("paste", (event) => {
  const text = event.clipboardData.getData("text/plain");
  if (text.length < LONG) return;
  event.preventDefault();
  at("text").setRangeText(text, at("text").selectionStart, at("text").selectionEnd, "end");
  at("text").dispatchEvent(new Event("input"));
});
at("stop").addEventListener("click", () => asking?.abort());
at("clear").addEventListener("click", () => {
  at("text").value = "";
  marks.clear();
  forget();
  say("");
  at("text").focus();
});

// Showing

function forget() {
  view?.note.close();
  view = null;
  at("found").hidden = at("tip").hidden = true;
  at("note").style.lineHeight = "";
}

function show(text, prediction) {
  forget();
  const unit = unitsOf(text);
  const entities = prediction.entities.map((one) => ({ ...one, start: unit(one.start), end: unit(one.end) }));
  const { labels, relations } = prediction;
  view = { prediction, text, hidden: new Set(), least: 0, lit: [] };
  correction.begin(text, { labels, entities, relations });
  at("least").value = 0;
  at("found").hidden = false;
  at("cut").hidden = !prediction.cut;
  at("cut").textContent = `The last ${prediction.cut} tokens are beyond what the model reads for labels.`;
  at("warned").hidden = !prediction.warnings;
  at("warned").textContent = (prediction.warnings ?? []).join(" ");
  const parts = [
    counted(entities.length, "entity", "entities"),
    ...(labels.length ? [counted(labels.length, "label", "labels")] : []),
    ...(relations.length ? [counted(relations.length, "relation", "relations")] : []),
  ];
  say(entities.length || labels.length ? `Found: ${parts.join(", ")}.` : "Nothing was found in this note.");
  redraw();
}

// After an answer or a correction: everything.
function redraw() {
  const place = scrollY;
  const { labels, entities, relations } = correction.state;
  view.note?.close();
  view.entities = entities.map((one, number) => ({ ...one, number, links: [] }));
  view.relations = relations.map((one, number) => ({
    ...one, number, from: view.entities[one.head], to: view.entities[one.tail],
  }));
  for (const one of view.relations) for (const end of new Set([one.from, one.to])) end.links.push(one);
  view.lit = [];
  at("labels-part").hidden = !labels.length;
  at("relations-part").hidden = !relations.length;
  at("entities-part").hidden = at("slider").hidden = !entities.length;
  at("paper").hidden = at("correct").hidden = !entities.length && !types.length;
  at("labels").replaceChildren(...labels.map(({ name, confidence }, number) => {
    const item = make("li", `${name} `);
    item.append(make("small", percent(confidence)), cross("label", number, name));
    return item;
  }));
  if (!relations.length) at("note").style.lineHeight = view.room = "";
  view.note = new Note(at("note"), view.text, view.entities, {
    styles, shown: isShown, drawn: arrows, before: view.note,
  });
  view.svg = element("svg", { id: "arcs", "aria-hidden": "true" });
  at("note").append(view.svg);
  changed();
  scrollTo(scrollX, place);
}

function styles({ type }) {
  let number = types.indexOf(type);
  if (number < 0) number = types.push(type) - 1;
  return `c${number % COLOURS} turn${Math.floor(number / COLOURS) % 3}`;
}

const isShown = (entity) => entity.confidence >= view.least && !view.hidden.has(entity.type);
const isLinked = (one) => one.confidence >= view.least && isShown(one.from) && isShown(one.to);

// After the slider or the legend: everything that depends on what is shown.
function changed() {
  at("least-shown").textContent = percent(view.least);
  legend();
  view.linked = view.relations.filter(isLinked);
  const words = (entity) => {
    const line = view.text.slice(entity.start, entity.end).replace(/\s+/g, " ");
    return make("b", line.length > 40 ? `${line.slice(0, 39)}…` : line, `c${styles(entity)[1]}`);
  };
  at("relations").replaceChildren(...view.linked.slice(0, LISTED).map((one) => {
    const button = make("button", "", "plain");
    button.type = "button";
    button.dataset.relation = one.number;
    button.append(words(one.from), ` → ${one.type} → `, words(one.to), " ", make("small", percent(one.confidence)));
    const item = make("li", "");
    item.append(button, cross("less", one.number, one.type));
    return item;
  }));
  view.note.refresh();
}

function legend() {
  const counts = new Map();
  for (const entity of view.entities) {
    const [shown, all] = counts.get(entity.type) ?? [0, 0];
    counts.set(entity.type, [shown + (entity.confidence >= view.least), all + 1]);
  }
  at("legend").replaceChildren(...[...counts].map(([type, [shown, all]]) => {
    const button = make("button", "", `key ${styles({ type })}`);
    button.type = "button";
    button.dataset.type = type;
    button.setAttribute("aria-pressed", !view.hidden.has(type));
    button.append(make("span", type, "entity lane0"), make("small", shown === all ? `${all}` : `${shown} of ${all}`));
    const item = make("li", "");
    item.append(button);
    return item;
  }));
}

at("least").addEventListener("input", () => {
  view.least = at("least").value / 100;
  changed();
});
at("legend").addEventListener("click", (event) => {
  const type = event.target.closest("button")?.dataset.type;
  if (type === undefined) return;
  if (!view.hidden.delete(type)) view.hidden.add(type);
  changed();
  at("legend").querySelector(`[data-type="${CSS.escape(type)}"]`).focus();
});
at("download").addEventListener("click", () => {
  save(JSON.stringify(view.prediction, null, 1), "prediction.json", "application/json");
});

// Arrows, and what is pointed at

function arrows(pointed = []) {
  if (!view?.relations.length || !view.linked) return;
  const here = (one) => view.note.has(one.from) && view.note.has(one.to);
  const many = view.linked.length > ARCS;
  const all = many ? [] : view.linked.filter(here);
  const levels = paint(all);
  const crowded = many || levels > LEVELS;
  const room = crowded ? FEW : levels;
  if (room !== view.room) { // the lines go apart, or together again
    view.room = room;
    at("note").style.lineHeight = `${room ? 1.7 + room * 0.85 : 2.1}`;
    if (!crowded) paint(all);
  }
  if (crowded) paint(pointed.filter(here));
  hint(crowded);
  for (const { number } of pointed) {
    for (const part of view.svg.querySelectorAll(`[data-relation="${number}"]`)) part.classList.add("lit");
  }
}

function hint(crowded) {
  const most = view.linked.length;
  at("hint").textContent = [
    crowded ? "Too many to draw at once: point at one, or at an entity." : "",
    most > LISTED ? `The first ${LISTED} of ${most}; the JSON has all.` : "",
  ].join(" ");
  at("hint").hidden = !crowded && most <= LISTED;
}

function paint(relations) {
  const first = (entity) => view.note.pieces(entity)[0];
  const placed = relations.map((one) => ({ ...one, head: first(one.from), tail: first(one.to) }));
  return draw(view.svg, at("note"), placed.filter((one) => one.head && one.tail));
}

function point(relations, entities = []) {
  for (const piece of view?.lit ?? []) piece.classList.remove("lit");
  if (!view) return;
  const ends = new Set([...entities, ...relations.flatMap((one) => [one.from, one.to])]);
  view.lit = [...ends].flatMap((entity) => view.note.pieces(entity));
  for (const piece of view.lit) piece.classList.add("lit");
  arrows(relations);
}

function pointed(event) {
  const button = event.target.closest?.("#relations button.plain");
  if (button) {
    point([view.relations[button.dataset.relation]]);
    return;
  }
  const piece = event.target.closest?.("#note .entity");
  at("tip").hidden = !piece;
  if (!piece) {
    if (view?.lit?.length) point([]);
    return;
  }
  const here = [];
  for (let one = piece; one; one = one.parentElement.closest("#note .entity")) {
    here.push(view.entities[one.dataset.number]);
  }
  at("tip").replaceChildren(...here.map((one) => make("div", `${one.type}, ${one.corrected ? "corrected" : percent(one.confidence)}`, styles(one))));
  const box = piece.getClientRects()[0];
  const left = Math.min(box.left, innerWidth - at("tip").offsetWidth - 8);
  at("tip").style.left = `${Math.max(8, left) + scrollX}px`;
  at("tip").style.top = `${box.bottom + scrollY + 8}px`;
  point(here.flatMap((one) => one.links).filter(isLinked), here);
}

for (const kind of ["pointerover", "focusin"]) document.addEventListener(kind, pointed);
at("relations").addEventListener("click", (event) => {
  const { relation: number, less } = event.target.closest("button")?.dataset ?? {};
  if (less !== undefined) correction.withoutRelation(Number(less));
  if (number === undefined) return;
  view.note.pieces(view.relations[number].from)[0]?.scrollIntoView({ block: "center", behavior: "smooth" });
});
at("labels").addEventListener("click", (event) => {
  const number = event.target.closest("button")?.dataset.label;
  if (number !== undefined) correction.withoutLabel(Number(number));
});
addEventListener("resize", () => arrows());
