// Relations as arrows above the words: from a head up, along, and down to its tail. One that goes from a line to another
// leaves the first at its side and comes back at the other's. On a line, arrows that would cross are put above each other.

const SVG = "http://www.w3.org/2000/svg";
const STEP = 13; // pixels from one level to the next
const TURN = 5;
const LETTER = 6.1; // width, about

export function element(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

// Draw relations (each with `head` and `tail`, pieces on the page) over a note; tells how many levels the fullest line has.
export function draw(svg, home, relations) {
  const frame = home.getBoundingClientRect();
  svg.replaceChildren();
  const uses = new Map(); // of an entity's middle, so that arrows stand beside each other
  const all = relations.flatMap((relation) => strokes(relation, frame, uses));
  const levels = levelled(all);
  for (const stroke of all) svg.append(...drawn(stroke));
  return levels;
}

function anchor(piece, frame, uses) {
  const box = piece.getClientRects()[0];
  const key = piece.dataset.number;
  const turn = uses.get(key) ?? 0;
  uses.set(key, turn + 1);
  const aside = (turn % 2 ? 1 : -1) * Math.ceil(turn / 2) * 7;
  const room = Math.max(0, box.width / 2 - 2);
  const x = box.left + box.width / 2 + Math.max(-room, Math.min(room, aside));
  return { x: x - frame.left, y: box.top - frame.top };
}

// What is drawn of a relation: one stroke on a line, or one on each of two.
function strokes(relation, frame, uses) {
  const head = anchor(relation.head, frame, uses);
  const tail = anchor(relation.tail, frame, uses);
  const common = { label: relation.type, number: relation.number };
  if (Math.abs(head.y - tail.y) < 8) return [{ ...common, from: head.x, to: tail.x, y: head.y, starts: true, ends: true }];
  const down = head.y < tail.y;
  return [
    { ...common, from: head.x, to: down ? frame.width : 0, y: head.y, starts: true },
    { ...common, from: down ? 0 : frame.width, to: tail.x, y: tail.y, ends: true },
  ].map((stroke) => ({ ...stroke, width: frame.width }));
}

// Give each stroke the lowest level that is free, short ones first; the number of levels.
function levelled(all) {
  const taken = [];
  for (const stroke of all) {
    const half = (stroke.label.length * LETTER) / 2 + 4;
    const middle = (stroke.from + stroke.to) / 2;
    stroke.middle = Math.max(half, stroke.width ? Math.min(stroke.width - half, middle) : middle);
    stroke.left = Math.min(stroke.from, stroke.to, stroke.middle - half);
    stroke.right = Math.max(stroke.from, stroke.to, stroke.middle + half);
  }
  const ordered = [...all].sort((one, other) => one.right - one.left - (other.right - other.left));
  for (const stroke of ordered) {
    const beside = taken.filter(
      (other) => Math.abs(other.y - stroke.y) < 8 && other.left < stroke.right && other.right > stroke.left,
    );
    stroke.level = 0;
    while (beside.some((other) => other.level === stroke.level)) stroke.level++;
    taken.push(stroke);
  }
  return all.reduce((most, stroke) => Math.max(most, stroke.level + 1), 0);
}

function drawn({ from, to, y, level, label, middle, number, starts, ends }) {
  const top = y - 5 - (level + 0.6) * STEP;
  const way = to > from ? 1 : -1;
  const turn = Math.min(TURN, Math.abs(to - from) / 2) * way;
  const start = starts ? `M${from} ${y - 1}V${top + TURN}Q${from} ${top} ${from + turn} ${top}` : `M${from} ${top}`;
  const end = ends ? `H${to - turn}Q${to} ${top} ${to} ${top + TURN}V${y - 3}` : `H${to}`;
  const line = element("path", { d: start + end, class: "arc", "data-relation": number });
  const words = element("text", { x: middle, y: top + 3.5, "text-anchor": "middle", "data-relation": number });
  words.textContent = label;
  const tip = ends ? [element("path", { d: `M${to} ${y}l-3.5 -6h7z`, class: "tip", "data-relation": number })] : [];
  return [line, ...tip, words];
}
