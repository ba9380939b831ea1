// The page: which view is shown, and where keys go.

import { change, keepFresh, quietly } from "./api.js";
import { $ } from "./dom.js";
import { typing } from "./keys.js";
import * as audit from "./audit.js";
import * as exports from "./exports.js";
import * as label from "./label.js";
import * as review from "./review.js";
import * as side from "./side.js";

const VIEWS = { label, review, audit, export: exports };
let view = "label";

function open(name) {
  VIEWS[view].hide();
  view = name;
  for (const tab of document.querySelectorAll(".tab")) {
    if (tab.dataset.view === name) tab.setAttribute("aria-current", "page");
    else tab.removeAttribute("aria-current");
  }
  VIEWS[view].show($("view"));
}

// A class that was clicked, or a new one that was named.
side.whenChosen((name, made = false) => {
  if (view === "label") return quietly(label.give(name));
  if (made) return quietly(change("add_class", () => ({ name })));
  return quietly(Promise.resolve(VIEWS[view].choose(name)));
});

for (const tab of document.querySelectorAll(".tab")) tab.addEventListener("click", () => open(tab.dataset.view));
$("help-button").addEventListener("click", () => $("help").showModal());

document.addEventListener("keydown", (event) => {
  if (typing(event)) {
    if (event.key === "Escape" && event.target.matches("input")) event.target.blur();
    return;
  }
  const undoing = (event.key === "z" && (event.ctrlKey || event.metaKey)) || event.key === "u";
  if (undoing && !event.altKey) {
    event.preventDefault();
    quietly(VIEWS[view].undo());
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  const onButton = event.target.matches("button, a, summary") && !event.target.matches(".cell");
  if (onButton && (event.key === "Enter" || event.key === " ")) return;
  const done = pressed(event.key);
  if (done !== false) event.preventDefault();
});

function pressed(key) {
  if (key === "?") return $("help").showModal();
  if (key === "+") return side.nameClass();
  if (key === "t" && view !== "audit") return side.train();
  return VIEWS[view].press(key);
}

open("label");
keepFresh();
