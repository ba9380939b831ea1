// One large picture, or one text; a key labels it and shows the next, which is loaded already.

import { change, current, listen, lookingAt, quietly } from "./api.js";
import { button, element, key, percent, tell } from "./dom.js";
import { NONE, classOf } from "./keys.js";

const PRELOADED = 5;
const loaded = new Map();
let queue = [];
let shown = null;
let image, words, caption, guess;

const address = (picture) => `/picture/${picture.number}?size=large&v=${picture.version}`;

function preload(pictures) {
  const wanted = new Set(pictures.filter(({ text }) => text === undefined).map(address));
  for (const old of loaded.keys()) if (!wanted.has(old)) loaded.delete(old);
  for (const one of wanted) {
    if (!loaded.has(one)) {
      const made = new Image();
      made.src = one;
      loaded.set(one, made);
      made.decode().catch(() => undefined);
    }
  }
}

function next(pictures) {
  queue = pictures;
  shown = queue[0] ?? null;
  preload(queue.slice(0, PRELOADED));
  draw();
}

function draw() {
  if (!image) return;
  image.hidden = shown === null || shown.text !== undefined;
  words.hidden = shown?.text === undefined;
  if (shown === null) {
    caption.textContent = current() && !current().problem ? `There are no ${current().noun} left to label.` : "";
    guess.replaceChildren();
    return;
  }
  if (shown.text === undefined) drawPicture();
  else {
    words.textContent = shown.text;
    caption.textContent = shown.name;
  }
  guess.replaceChildren();
  if (shown.label) guess.append(`labelled ${shown.label}`);
  else if (shown.guess) guess.append(`guess: ${shown.guess}, ${percent(shown.confidence)} `, key("Enter"));
}

function drawPicture() {
  if (image.getAttribute("src") !== address(shown)) swap(loaded.get(address(shown)));
  image.alt = `Picture ${shown.name}`;
  const broken = image.complete && !image.naturalWidth;
  caption.textContent = broken ? `${shown.name}: this picture cannot be shown, skip it.` : shown.name;
}

// The element that was loaded beforehand takes the place of the one that is shown: it need not be decoded again.
function swap(made) {
  made.id = "picture";
  made.className = "";
  made.onclick = zoom;
  made.onerror = draw;
  made.hidden = false;
  image.replaceWith(made);
  image = made;
}

export function give(label) {
  const about = () => (shown && label ? { numbers: [shown.number], label, before: shown.label } : null);
  return change("label", about, (answer) => {
    next(answer.queue);
    tell(`${label} saved`);
  });
}

function skip() {
  return change("skip", () => (shown ? { number: shown.number } : null), (answer) => next(answer.queue));
}

export function undo() {
  return change("undo", undefined, (answer) => {
    tell(answer.undone ? "undone" : "there is nothing to undo");
    next(answer.queue);
  });
}

const zoom = () => (words.hidden ? image : words).classList.toggle("zoomed");

export function show(view) {
  image = element("img", { id: "picture", alt: "" });
  words = element("blockquote", { id: "text", hidden: true });
  caption = element("figcaption", { id: "name" });
  guess = element("p", { id: "guess", class: "quiet" });
  view.replaceChildren(
    element("figure", { id: "stage", tabindex: "0" }, image, words, caption),
    guess,
    element(
      "div",
      { class: "row", role: "group", "aria-label": "This one" },
      button("Undo", () => quietly(undo()), { id: "undo" }),
      button("Skip", () => quietly(skip()), { id: "skip" }),
      button("None of these", () => quietly(give(NONE)), { id: "none" }),
      button("Zoom", zoom, { id: "zoom" }),
    ),
  );
  next(queue.length ? queue : (current()?.queue ?? []));
}

export function hide() {
  image = null;
}

export function press(pressed) {
  if (pressed === " " || pressed === "ArrowRight") return quietly(skip());
  if (pressed === "z") return zoom();
  if (pressed === "Enter" && shown?.guess && !shown.label) return quietly(give(shown.guess));
  const label = classOf(pressed, current()?.classes ?? []);
  if (label !== null) return quietly(give(label));
  return false;
}

lookingAt(() => (shown ? { shown: String(shown.number) } : {}));

// The order may become better while one looks; the picture that is looked at stays, unless another page has labelled it.
listen((state) => {
  const same = state.shown && state.shown.number === shown?.number;
  const elsewhere = same && ((state.shown.label && !shown.label) || state.shown.audited);
  if (!shown || state.problem || elsewhere) return next(state.queue);
  const rest = state.queue.filter(({ number }) => number !== shown.number);
  const now = same ? state.shown : state.queue.find(({ number }) => number === shown.number);
  queue = [now ?? shown, ...rest]; // there may be a new guess
  shown = queue[0];
  preload(queue.slice(0, PRELOADED));
  draw();
});
