// Search without a server, and a button that copies commands. Without this file every page still reads as it does.
"use strict";
const base = document.currentScript.dataset.base;
const box = document.querySelector("search");
const [field, list, note] = ["input", "ol", "p"].map((name) => box.querySelector(name));
const most = 12;
let sections = null;

function searchable(entries) {  // called by search-index.js, which is loaded when somebody begins to search
  sections = entries.map(([address, title, heading, text]) => (
    {address, title, heading, text, low: [title, heading, text].map((part) => part.toLowerCase())}));
  show();
}

function load() {
  if (sections || document.querySelector("script[src$='search-index.js']")) return;
  const script = document.createElement("script");
  script.src = base + "search-index.js";
  document.head.append(script);
}

function found(words) {
  const score = (section) => {
    let sum = 0;
    for (const word of words) {
      const [title, heading, text] = section.low.map((part) => part.includes(word));
      if (!title && !heading && !text) return 0;
      sum += 4 * heading + 2 * title + text;
    }
    return sum;
  };
  return sections.map((section) => [score(section), section]).filter(([sum]) => sum)
    .sort((one, other) => other[0] - one[0]).map(([, section]) => section);
}

function excerpt(section, words) {
  const at = Math.max(0, section.low[2].indexOf(words.find((word) => section.low[2].includes(word)) ?? "") - 40);
  return (at ? "…" : "") + section.text.slice(at, at + 130) + (section.text.length > at + 130 ? "…" : "");
}

function show() {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  list.replaceChildren();
  note.textContent = "";
  if (!words.length || !sections) return;
  const all = found(words);
  for (const section of all.slice(0, most)) {
    const link = document.createElement("a");
    link.href = base + section.address;
    const name = document.createElement("strong");
    name.textContent = section.heading ? `${section.title}: ${section.heading}` : section.title;
    const text = document.createElement("span");
    text.textContent = excerpt(section, words);
    link.append(name, text);
    list.append(document.createElement("li"));
    list.lastChild.append(link);
  }
  note.textContent = all.length ? `${all.length} found${all.length > most ? `, the first ${most} are shown` : ""}`
    : "Nothing has all of these words.";
}

function clear() {
  field.value = "";
  show();
}

box.hidden = false;
field.addEventListener("focus", load);
field.addEventListener("input", show);
list.addEventListener("click", clear);
document.addEventListener("keydown", (event) => {
  const links = [...list.querySelectorAll("a")];
  const at = links.indexOf(document.activeElement);
  const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
  if (event.key === "/" && document.activeElement !== field) field.focus();
  else if (event.key === "Escape" && box.contains(document.activeElement)) { clear(); field.focus(); }
  else if (event.key === "Enter" && document.activeElement === field && links.length) links[0].click();
  else if (step && links.length && box.contains(document.activeElement)) (links[at + step] ?? field).focus();
  else return;
  event.preventDefault();
});

const nav = document.querySelector("nav"), current = nav.querySelector("[aria-current]");
if (current && getComputedStyle(nav).position === "sticky") nav.scrollTop = current.offsetTop - nav.offsetTop - 120;

for (const figure of document.querySelectorAll("figure.code")) {
  const text = figure.querySelector("pre").textContent;
  const lines = text.split("\n").filter((line) => line.startsWith("$ ")).map((line) => line.slice(2));
  const copied = figure.classList.contains("console") ? lines.join("\n") : text;
  if (!navigator.clipboard || !copied) continue;
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(copied);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  figure.prepend(button);
}
