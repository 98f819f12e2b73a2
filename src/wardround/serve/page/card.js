// A model's card: the few forms of Markdown that cards are written in, made of elements and text nodes.

export function rendered(markdown) {
  const parts = document.createDocumentFragment();
  let block = null; // the list, table or paragraph that lines go on
  const into = (name) => {
    if (block?.localName !== name) parts.append((block = document.createElement(name)));
    return block;
  };
  for (const line of markdown.split("\n")) {
    const title = /^(#{1,3}) (.*)/.exec(line);
    if (!line.trim()) block = null;
    else if (title) {
      parts.append(inline(`h${title[1].length + 1}`, title[2]));
      block = null;
    } else if (line.startsWith("- ")) into("ul").append(inline("li", line.slice(2)));
    else if (line.startsWith("|")) row(into("table"), line);
    else into("p").append(...inline("p", `${line} `).childNodes);
  }
  for (const table of parts.querySelectorAll("table")) {
    const around = document.createElement("div");
    around.className = "scroll";
    table.replaceWith(around);
    around.append(table);
  }
  return parts;
}

function row(table, line) {
  if (/^[|\s:-]+$/.test(line)) return; // below the head
  const made = document.createElement("tr");
  const kind = table.rows.length ? "td" : "th";
  made.append(...line.replace(/^\||\|\s*$/g, "").split("|").map((cell) => inline(kind, cell.trim())));
  table.append(made);
}

function inline(name, text) {
  const made = document.createElement(name);
  for (const part of text.split(/(\*\*[^*]+\*\*|`[^`]+`)/)) {
    const kind = part.startsWith("**") ? "strong" : part.startsWith("`") ? "code" : "";
    if (!kind) made.append(part);
    else {
      const inner = document.createElement(kind);
      inner.textContent = part.replace(/^(\*\*|`)|(\*\*|`)$/g, "");
      made.append(inner);
    }
  }
  return made;
}
