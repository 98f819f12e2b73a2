// Correcting what was found: another type, other borders, an entity less or more, a relation or label less.
//
// A state is what stands in the note: labels, entities (places in UTF-16 units) and relations between them by number. It
// is never changed; each correction makes a new one, so that going back is taking the one before. Nothing is sent: the
// correction leaves as a file, in the JSONL that `wardround data merge` and studies read.

import { charactersOf } from "./offsets.js";

const EDGE = { start: 0, end: 0 };

export class Correction {
  // `parts` are elements by name; `redraw` is called after each correction, `say` tells the reader something.
  constructor(parts, { say, redraw }) {
    Object.assign(this, { parts, say, redraw, text: "", past: [], chosen: null, selected: null });
    const { note, type, retype, border, add, remove, undo, download, moves } = parts;
    document.addEventListener("selectionchange", () => this.#select());
    note.addEventListener("click", (event) => this.#press(event.target));
    note.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.#press(event.target);
    });
    type.addEventListener("input", () => this.#tell());
    retype.addEventListener("click", () => this.#edit({ type: type.value.trim() }));
    border.addEventListener("click", () => this.#edit(this.selected));
    add.addEventListener("click", () => this.#add());
    remove.addEventListener("click", () => this.#next(without(this.state, this.chosen)));
    undo.addEventListener("click", () => this.#back());
    download.addEventListener("click", () => this.#download());
    for (const button of moves) {
      button.addEventListener("click", () => this.#move(button.dataset.edge, Number(button.dataset.by)));
    }
  }

  begin(text, state) {
    Object.assign(this, { text, state, past: [], chosen: null, selected: null });
    this.#tell();
  }

  withoutRelation(number) {
    this.#next({ ...this.state, relations: this.state.relations.filter((_, at) => at !== number) });
  }

  withoutLabel(number) {
    this.#next({ ...this.state, labels: this.state.labels.filter((_, at) => at !== number) });
  }

  // Words that are selected in the note stay so for us when a button or field is pressed.
  #select() {
    const selection = getSelection();
    if (selection.isCollapsed || !selection.rangeCount) return;
    const { startContainer, startOffset, endContainer, endOffset } = selection.getRangeAt(0);
    const start = this.#place(startContainer, startOffset);
    const end = this.#place(endContainer, endOffset);
    if (start === null || end === null) return;
    const words = this.text.slice(start, end);
    const left = start + words.length - words.trimStart().length;
    this.selected = words.trim() ? { start: left, end: left + words.trim().length } : null;
    this.parts.panel.open = true;
    this.#tell();
  }

  // A place in the page as one in the text.
  #place(node, offset) {
    const block = (node.nodeType === Node.TEXT_NODE ? node.parentElement : node).closest?.("#note .block");
    if (!block) return null;
    const before = document.createRange();
    before.setStart(block, 0);
    before.setEnd(node, offset);
    return block.block.start + before.toString().length;
  }

  #press(target) {
    const piece = target.closest?.(".entity");
    if (!piece || !getSelection().isCollapsed) return;
    this.chosen = Number(piece.dataset.number);
    this.selected = null;
    this.parts.type.value = this.state.entities[this.chosen].type;
    this.parts.panel.open = true;
    this.#tell();
  }

  #edit(values) {
    if (this.chosen === null || !values) return;
    const made = { ...this.state.entities[this.chosen], ...values, confidence: 1, corrected: true };
    if (this.#sound(made)) this.#next(replaced(this.state, this.chosen, made), made);
  }

  #move(edge, by) {
    if (this.chosen === null) return;
    const { [edge]: place } = this.state.entities[this.chosen];
    const wide = this.text.codePointAt(by > 0 ? place : place - 2) > 0xffff;
    this.#edit({ [edge]: place + (wide ? 2 * by : by) });
  }

  #add() {
    if (!this.selected) {
      this.say("Select words in the note below first.");
      return;
    }
    const made = { ...this.selected, type: this.parts.type.value.trim(), confidence: 1, corrected: true };
    if (this.#sound(made)) this.#next({ ...this.state, entities: [...this.state.entities, made] }, made);
  }

  #sound({ type, start, end }) {
    const same = (one, at) => at !== this.chosen && one.type === type && one.start === start && one.end === end;
    const wrong = !type ? "Name the type of the words first."
      : start < 0 || start >= end || end > this.text.length ? "An entity needs at least one character of the note."
        : this.state.entities.some(same) ? "There is such an entity already." : "";
    if (wrong) this.say(wrong, "wrong");
    return !wrong;
  }

  // Take a new state; `made` is the entity that stays chosen.
  #next(state, made = null) {
    this.past.push(this.state);
    this.state = ordered(state);
    this.chosen = made && this.state.entities.findIndex((one) => one === made);
    this.selected = null;
    this.say("Corrected on this page alone; download the correction to keep it.");
    this.redraw();
    this.#tell();
  }

  #back() {
    this.state = this.past.pop();
    this.chosen = null;
    this.say("");
    this.redraw();
    this.#tell();
  }

  #tell() {
    const { chosen, selected, parts } = this;
    const short = ({ start, end } = EDGE) => {
      const words = this.text.slice(start, end).replace(/\s+/g, " ");
      return words.length > 40 ? `${words.slice(0, 39)}…` : words;
    };
    const entity = this.state.entities[chosen];
    parts.told.textContent = [
      entity ? `Chosen: “${short(entity)}”.` : "",
      selected ? `Selected: “${short(selected)}”.` : "",
    ].join(" ").trim() || "Press an entity, or select words in the note.";
    for (const button of [parts.retype, parts.remove, ...parts.moves]) button.disabled = !entity;
    parts.border.disabled = !entity || !selected;
    parts.add.disabled = !selected;
    parts.undo.disabled = !this.past.length;
  }

  #download() {
    const place = charactersOf(this.text);
    const { labels, entities, relations } = this.state;
    const row = {
      id: `page-${[...crypto.getRandomValues(new Uint8Array(6))].map((one) => one.toString(16).padStart(2, "0")).join("")}`,
      text: this.text,
      ...(labels.length ? { labels: labels.map(({ name }) => name) } : {}),
      entities: entities.map(({ type, start, end }, at) => ({ id: `T${at + 1}`, type, start: place(start), end: place(end) })),
      relations: relations.map(({ type, head, tail }) => ({ type, head: `T${head + 1}`, tail: `T${tail + 1}` })),
    };
    save(`${JSON.stringify(row)}\n`, "correction.jsonl", "application/x-ndjson");
  }
}

// A button that takes something away.
export function cross(what, number, words) {
  const button = document.createElement("button");
  Object.assign(button, { type: "button", className: "off", textContent: "×" });
  button.dataset[what] = number;
  button.setAttribute("aria-label", `Take away ${words}`);
  return button;
}

// Hand a file to the reader.
export function save(content, name, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

const replaced = (state, number, made) => ({
  ...state, entities: state.entities.map((one, at) => (at === number ? made : one)),
});

// The state without an entity, and without the relations that it had.
function without(state, number) {
  const kept = state.relations.filter(({ head, tail }) => head !== number && tail !== number);
  const move = (place) => (place > number ? place - 1 : place);
  return {
    ...state,
    entities: state.entities.filter((_, at) => at !== number),
    relations: kept.map((one) => ({ ...one, head: move(one.head), tail: move(one.tail) })),
  };
}

// Entities in the order of the text, and relations that still name the same ones.
function ordered(state) {
  const entities = [...state.entities].sort((one, other) => one.start - other.start || other.end - one.end);
  const places = new Map(entities.map((one, at) => [one, at]));
  const place = (number) => places.get(state.entities[number]);
  const relations = state.relations.map((one) => ({ ...one, head: place(one.head), tail: place(one.tail) }));
  return { ...state, entities, relations };
}
