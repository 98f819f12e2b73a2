// A note with its entities drawn over it.
//
// The text goes in as text nodes only. It is cut into blocks, and a block's entities are drawn when it comes near the
// window: a note of some megabytes has tens of thousands of them. Where entities overlap, each has a lane of its own
// below the words.

const BLOCK = 3000; // characters, then the next line break
const LONGEST = 20000; // where there is no line break
const NEAR = "900px";

export class Note {
  // `styles` is from an entity to its class names, `shown` whether it is drawn; `drawn` is called after blocks changed.
  // `before` is a note with the same text, whose place it takes.
  constructor(home, text, entities, { styles, shown, drawn, before }) {
    Object.assign(this, { home, text, styles, shown, drawn });
    lanes(entities);
    this.blocks = cut(text).map(([start, end], at) => ({
      start, end, entities: [], near: before?.blocks[at].near ?? false,
    }));
    let first = 0;
    for (const entity of entities) {
      while (this.blocks[first].end <= entity.start) first++;
      for (let at = first; at < this.blocks.length && this.blocks[at].start < entity.end; at++) {
        this.blocks[at].entities.push(entity);
      }
    }
    this.watch = new IntersectionObserver((seen) => this.#seen(seen), { rootMargin: NEAR });
    home.replaceChildren(
      ...this.blocks.map((block) => {
        block.home = document.createElement("div");
        block.home.className = "block";
        block.home.textContent = text.slice(block.start, block.end);
        block.home.block = block;
        this.watch.observe(block.home);
        return block.home;
      }),
    );
  }

  close() {
    this.watch.disconnect();
    this.home.replaceChildren();
  }

  // Draw anew what is near the window; the rest when it comes near.
  refresh() {
    for (const block of this.blocks) block.fresh = false;
    for (const block of this.blocks) if (block.near) this.#draw(block);
    this.drawn();
  }

  // The pieces of an entity on the page; its blocks are drawn if they are not.
  pieces(entity) {
    const held = this.blocks.filter((block) => block.start < entity.end && block.end > entity.start);
    for (const block of held) this.#draw(block);
    return held.flatMap((block) => [...block.home.querySelectorAll(`[data-number="${entity.number}"]`)]);
  }

  // Whether an entity is drawn by now.
  has(entity) {
    return this.blocks.some((block) => block.fresh && block.start < entity.end && block.end > entity.start);
  }

  #seen(seen) {
    for (const { target, isIntersecting } of seen) {
      target.block.near = isIntersecting;
      if (isIntersecting) this.#draw(target.block);
    }
    this.drawn();
  }

  #draw(block) {
    if (block.fresh) return;
    block.fresh = true;
    const mine = block.entities.filter(this.shown);
    if (!mine.length && !block.home.childElementCount) return; // as it is; words that are selected stay so
    const ends = new Set([block.start, block.end]);
    for (const { start, end } of mine) {
      ends.add(Math.max(start, block.start));
      ends.add(Math.min(end, block.end));
    }
    const places = [...ends].sort((one, other) => one - other);
    const parts = document.createDocumentFragment();
    for (let at = 1; at < places.length; at++) parts.append(this.#piece(places[at - 1], places[at], mine));
    block.home.replaceChildren(parts);
  }

  // The text from start to end, within one element for each entity there; the lowest lane is the innermost.
  #piece(start, end, entities) {
    let piece = document.createTextNode(this.text.slice(start, end));
    const over = entities.filter((one) => one.start <= start && one.end >= end).sort((a, b) => a.lane - b.lane);
    for (const entity of over) {
      const around = document.createElement("span");
      around.className = `entity ${this.styles(entity)} lane${Math.min(entity.lane, 3)}`;
      around.classList.toggle("last", entity.end === end);
      around.dataset.number = entity.number;
      around.dataset.type = entity.type;
      if (entity.start === start) around.tabIndex = 0;
      around.append(piece);
      piece = around;
    }
    return piece;
  }
}

function cut(text) {
  const found = [];
  for (let start = 0; start < text.length; ) {
    let end = text.indexOf("\n", start + BLOCK) + 1 || text.length;
    if (end > start + LONGEST) end = text.lastIndexOf(" ", start + LONGEST) + 1;
    if (end <= start) end = start + LONGEST;
    if (end < text.length && text.codePointAt(end - 1) > 0xffff) end++; // not within a pair
    found.push([start, end]);
    start = end;
  }
  return found;
}

// Give each entity the first lane that is free where it starts.
function lanes(entities) {
  const free = [];
  for (const entity of entities) {
    let lane = free.findIndex((end) => end <= entity.start);
    if (lane < 0) lane = free.length;
    free[lane] = entity.end;
    entity.lane = lane;
  }
}
