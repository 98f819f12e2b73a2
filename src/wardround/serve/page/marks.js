// Entities that the reader marks, for models that relate entities and find none.

import { charactersOf } from "./offsets.js";

export class Marks {
  constructor(area, { type, types, button, list, say }) {
    Object.assign(this, { area, type, list, say, held: [] });
    for (const name of types) type.list.append(new Option(name));
    button.addEventListener("click", () => this.#mark());
    area.addEventListener("input", () => this.#keep());
  }

  // As the endpoint takes them.
  entities() {
    const place = charactersOf(this.area.value);
    return this.held.map(({ type, start, end }) => ({ type, start: place(start), end: place(end) }));
  }

  clear() {
    this.held = [];
    this.#show();
  }

  #mark() {
    const { selectionStart: start, selectionEnd: end } = this.area;
    const type = this.type.value.trim();
    if (start === end || !type) {
      this.say(type ? "Select some words in the note first." : "Name the type of the words first.");
      return;
    }
    this.held.push({ type, start, end, words: this.area.value.slice(start, end) });
    this.held.sort((one, other) => one.start - other.start);
    this.say("");
    this.#show();
  }

  // What no longer stands where it was marked is dropped.
  #keep() {
    const before = this.held.length;
    this.held = this.held.filter(({ start, end, words }) => this.area.value.slice(start, end) === words);
    if (this.held.length < before) this.say("The note was changed where words were marked; mark them again.");
    this.#show();
  }

  #show() {
    this.list.replaceChildren(
      ...this.held.map((mark) => {
        const item = document.createElement("li");
        const off = document.createElement("button");
        off.type = "button";
        off.textContent = "×";
        off.setAttribute("aria-label", `Take away ${mark.words}`);
        off.addEventListener("click", () => {
          this.held = this.held.filter((other) => other !== mark);
          this.#show();
        });
        item.append(`${mark.words} `, Object.assign(document.createElement("small"), { textContent: mark.type }), off);
        return item;
      }),
    );
  }
}
