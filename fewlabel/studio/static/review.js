// A grid of pictures: select the wrong ones, confirm the rest, or give the selected ones another class.

import { ask, change, current, quietly } from "./api.js";
import { button, element, percent, tell } from "./dom.js";
import { classOf } from "./keys.js";

let view, grid, heading;
let list = { what: "review", parameters: {} };
let pictures = [];
let selected = new Set();
let focused = 0;
let page = 0;
let count = 0;
let more = false; // are there further pages?
let dragging = null;

const SOURCES = { labelled: "Labelled", suspicious: "Suspicious labels", duplicates: "Near-duplicates", search: "Found", similar: "Like this" };
const SPOKEN = 100; // letters of a text

async function load(what, parameters = {}, at = 0) {
  const wanted = { what, parameters };
  list = wanted;
  page = at;
  let answer = { pictures: [], count: 0 };
  try {
    answer = await ask(what, { ...parameters, page: String(at) });
  } catch (error) {
    tell(error.message);
  }
  if (list !== wanted) return; // something else was asked for in the meantime
  ({ pictures, count, more = false } = answer);
  if (page && !pictures.length) return load(what, parameters, page - 1);
  selected = new Set();
  const inside = grid?.contains(document.activeElement);
  focused = Math.max(0, Math.min(focused, pictures.length - 1));
  draw();
  if (inside) move(0);
}

function draw() {
  if (!view?.contains(grid)) return; // another view is shown by now
  const { class: name } = list.parameters;
  const title = list.what === "review" ? `Guessed ${name}` : name ? `${SOURCES[list.what]} ${name}` : SOURCES[list.what];
  heading.textContent = `${title}: ${count}`;
  grid.replaceChildren(...pictures.map(cell));
  grid.classList.toggle("texts", pictures[0]?.text !== undefined);
  if (!pictures.length) grid.append(element("p", {}, "Nothing to show."));
  view.querySelector("#more").hidden = !more;
  view.querySelector("#less").hidden = page === 0;
  view.querySelector("#confirm").hidden = list.what !== "review";
}

function cell(picture, position) {
  const words = picture.told ?? (picture.label ? `labelled ${picture.label}` : picture.guess ? `${picture.guess} ${percent(picture.confidence)}` : "");
  return element(
    "button",
    {
      type: "button",
      class: "cell",
      "data-position": String(position),
      "aria-pressed": String(selected.has(picture.number)),
      "aria-label": `${picture.text?.slice(0, SPOKEN) ?? picture.name}, ${words}`,
      onfocus: () => (focused = position),
      onpointerdown: (event) => {
        if (event.button !== 0 || event.pointerType === "touch") return; // a finger scrolls
        event.preventDefault();
        event.currentTarget.focus();
        dragging = !selected.has(picture.number);
        mark(position, dragging);
      },
      onpointerenter: (event) => dragging !== null && event.buttons & 1 && mark(position, dragging),
      onclick: (event) => (event.detail === 0 || event.pointerType === "touch") && mark(position, !selected.has(picture.number)),
    },
    picture.text === undefined
      ? element("img", { src: `/picture/${picture.number}?size=small&v=${picture.version}`, alt: "", loading: "lazy", draggable: "false" })
      : element("q", {}, picture.text),
    element("span", {}, words),
  );
}

function mark(position, on) {
  const { number } = pictures[position];
  if (on) selected.add(number);
  else selected.delete(number);
  grid.children[position].setAttribute("aria-pressed", String(on));
}

for (const end of ["pointerup", "pointercancel"]) document.addEventListener(end, () => (dragging = null));

async function reassign(label) {
  const here = grid.contains(document.activeElement) && pictures[focused];
  const numbers = selected.size ? [...selected] : here ? [here.number] : [];
  if (!numbers.length) return tell("select some first");
  await change("label", () => ({ numbers, label }));
  tell(`${numbers.length} labelled ${label}`);
  drop(new Set(numbers));
}

async function confirmRest() {
  if (list.what !== "review") return;
  const numbers = pictures.map(({ number }) => number).filter((number) => !selected.has(number));
  if (!numbers.length) return;
  await change("label", () => ({ numbers, label: list.parameters.class }));
  tell(`${numbers.length} confirmed as ${list.parameters.class}`);
  drop(new Set(numbers));
}

function drop(numbers) {
  if (list.what !== "review") return load(list.what, list.parameters, page);
  const kept = selected;
  return load("review", list.parameters, page).then(() => {
    pictures.forEach(({ number }, position) => kept.has(number) && !numbers.has(number) && mark(position, true));
  });
}

function move(step) {
  const cells = grid.querySelectorAll(".cell");
  if (cells.length) cells[Math.max(0, Math.min(cells.length - 1, focused + step))].focus();
}

function columns() {
  return getComputedStyle(grid).gridTemplateColumns.split(" ").length;
}

export function press(pressed) {
  const moves = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns(), ArrowUp: -columns() };
  if (pressed in moves) return move(moves[pressed]);
  if (pressed === " " && pictures[focused]) return mark(focused, !selected.has(pictures[focused].number));
  if (pressed === "Enter") return quietly(confirmRest());
  if (pressed === "m" && pictures[focused]) return load("similar", { number: String(pictures[focused].number) });
  const label = classOf(pressed, current()?.classes ?? []);
  if (label !== null) return quietly(reassign(label));
  return false;
}

export const choose = (label) => reassign(label);

export async function undo() {
  const answer = await change("undo");
  tell(answer.undone ? "undone" : "there is nothing to undo");
  await load(list.what, list.parameters, page);
}

export function show(where) {
  view = where;
  const state = current();
  const guessed = Object.entries(state?.run?.classes ?? {});
  const search = element("input", { id: "search", type: "search", placeholder: state?.sortable ? "part of a file name" : "part of the text", "aria-label": "Search" });
  heading = element("h2", { id: "review-title" });
  grid = element("div", { id: "grid", role: "group", "aria-labelledby": "review-title" });
  view.replaceChildren(
    element(
      "div",
      { class: "row", role: "group", "aria-label": "What to look at" },
      ...guessed.map(([name, number]) => button(`${name} ${number}`, () => load("review", { class: name }), { class: "pick" })),
      button("Suspicious labels", () => load("suspicious"), { id: "suspicious" }),
      button("Near-duplicates", () => load("duplicates"), { id: "duplicates" }),
    ),
    element(
      "div",
      { class: "row" },
      element("form", { id: "search-form", onsubmit: (event) => (event.preventDefault(), load("search", { text: search.value })) }, search),
      ...(state?.classes ?? []).map(({ name }) => button(`labelled ${name}`, () => load("labelled", { class: name }), { class: "small" })),
    ),
    heading,
    element("p", { class: "quiet" }, "Click or drag to select the wrong ones. Enter confirms the others; the key of a class is for the selected ones."),
    grid,
    element(
      "div",
      { class: "row" },
      button("Confirm the rest", () => quietly(confirmRest()), { id: "confirm", class: "main" }),
      button("Undo", () => quietly(undo()), { id: "undo" }),
      button("More like this", () => press("m"), { id: "like" }),
      button("Previous page", () => load(list.what, list.parameters, page - 1), { id: "less" }),
      button("Next page", () => load(list.what, list.parameters, page + 1), { id: "more" }),
    ),
  );
  if (guessed.length) load("review", { class: guessed[0][0] });
  else {
    view.replaceChildren(element("p", {}, "Train first: then the guesses can be reviewed here."));
  }
}

export const hide = () => undefined;
