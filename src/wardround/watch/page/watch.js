// The page as it changes: parts come as markup that the server has escaped, and only what differs is touched, so that
// focus, selection and scrolling stay where they are. Nothing but this server is asked.

const at = (id) => document.getElementById(id);
let lost = 0; // since when the stream is gone

const alike = (old, fresh) => old.nodeType === fresh.nodeType && old.nodeName === fresh.nodeName;

function morph(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return;
  }
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  children(old, fresh);
}

function children(old, fresh) {
  const [before, after] = [[...old.childNodes], [...fresh.childNodes]];
  after.forEach((node, index) => {
    const known = before[index];
    if (!known) old.append(node);
    else if (alike(known, node)) morph(known, node);
    else known.replaceWith(node);
  });
  before.slice(after.length).forEach((node) => node.remove());
}

function show({ parts, news }) {
  for (const [name, markup] of Object.entries(parts)) {
    const place = document.querySelector(`[data-part="${name}"]`);
    if (!place) continue;
    const fresh = document.createElement("template");
    fresh.innerHTML = markup;
    children(place, fresh.content);
  }
  if (news) at("news").textContent = news;
}

const line = (words, kind = "") => {
  at("line").textContent = words;
  at("line").className = `soft ${kind}`;
};

const source = new EventSource(document.body.dataset.events);
source.onopen = () => {
  lost = 0;
  line(`live, from ${location.host}`);
};
source.onmessage = (event) => show(JSON.parse(event.data));
source.onerror = () => {
  lost ||= Date.now();
  const since = new Date(lost).toLocaleTimeString();
  line(source.readyState === EventSource.CLOSED
    ? `No connection since ${since}: load the page again; what is shown may be old.`
    : `No connection since ${since}, trying again; what is shown may be old.`, "wrong");
};

// The one thing that can be done

let stopping = "";
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-stop]");
  if (!button) return;
  stopping = button.dataset.stop;
  at("stop-name").textContent = button.dataset.name;
  at("stop-error").textContent = "";
  at("stop").showModal();
});
at("stop-no").addEventListener("click", () => at("stop").close());
at("stop-yes").addEventListener("click", async () => {
  const answer = await fetch(`/stop/${stopping}`, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: "{}",
  }).catch(() => null);
  if (answer?.ok) at("stop").close();
  else at("stop-error").textContent = (await answer?.json().catch(() => null))?.error ?? "That did not get through.";
});
