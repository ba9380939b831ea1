// Classes with their keys and counts; training with its curves.

import { change, current, listen, quietly } from "./api.js";
import { $, button, element, key, percent, tell } from "./dom.js";
import { keysOf } from "./keys.js";

let choose = () => undefined;
let drawn = "";
let trained = 0; // labels when the last training was started
const EVERY = "fewlabel-train-every";

export const whenChosen = (listener) => (choose = listener);

function drawClasses(state) {
  const now = JSON.stringify([state.classes, state.none]);
  if (now === drawn) return;
  drawn = now;
  const keys = keysOf(state.classes);
  $("classes").replaceChildren(
    ...state.classes.map(({ name, count }, position) =>
      element(
        "li",
        {},
        element(
          "button",
          { type: "button", class: "class", onclick: () => choose(name), "aria-label": `${name}, ${count} labels` },
          key(keys[position].digit),
          key(keys[position].letter),
          element("span", { class: "name" }, name),
          element("span", { class: "count" }, String(count)),
        ),
        button("Rename", () => rename(name), { class: "small", "aria-label": `Rename or merge ${name}` }),
      ),
    ),
    element("li", { class: "quiet" }, `none of these: ${state.none}`),
  );
}

function rename(old) {
  const name = prompt(`New name of ${old} (the name of another class merges the two):`, old);
  if (name !== null && name !== old) quietly(change("rename_class", { old, new: name }).then(() => tell(`${old} is now ${name}`)));
}

export function nameClass() {
  $("new-class-name").focus();
}

$("new-class").addEventListener("submit", (event) => {
  event.preventDefault();
  const name = $("new-class-name").value;
  $("new-class-name").value = "";
  $("new-class-name").blur();
  quietly(choose(name, true));
});

// ---- training

export function train() {
  trained = current()?.labelled ?? 0;
  return quietly(change("train").then(() => tell("training has begun")));
}

function curve(points, title) {
  if (points.length < 2) return null;
  const NS = "http://www.w3.org/2000/svg";
  const top = Math.max(...points.map(([, value]) => value), 1e-9);
  const end = points.at(-1)[0];
  const path = points.map(([step, value]) => `${(100 * step) / end},${38 - (36 * value) / top}`).join(" ");
  const svg = document.createElementNS(NS, "svg");
  svg.setAttribute("viewBox", "0 0 100 40");
  svg.setAttribute("role", "img");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-label", `${title}: now ${points.at(-1)[1]}`);
  const line = document.createElementNS(NS, "polyline");
  line.setAttribute("points", path);
  svg.append(line);
  return element("figure", { class: "curve" }, svg, element("figcaption", {}, `${title}: ${points.at(-1)[1].toFixed(2)}`));
}

function timeLeft(seconds) {
  if (seconds === null || seconds === undefined) return "";
  return seconds < 90 ? `, about ${Math.ceil(seconds)} s left` : `, about ${Math.round(seconds / 60)} min left`;
}

function progress(training) {
  const bar = element("progress", { max: String(training.steps || 1), value: String(training.step), "aria-label": "Training" });
  const words = training.steps ? `${training.stage}: step ${training.step} of ${training.steps}${timeLeft(training.seconds_left)}` : "preparing";
  return [
    bar,
    element("p", {}, words),
    curve(training.loss ?? [], "loss"),
    curve(training.kept ?? [], "pseudo-labels used"),
    ...(training.alarms ?? []).map((alarm) => element("p", { class: "problem" }, `Alarm: ${alarm}`)),
    button("Cancel", () => quietly(change("cancel")), { id: "cancel" }),
  ];
}

function drawTraining(state) {
  const { training, run, labelled } = state;
  const running = training.status === "going on";
  const parts = [];
  if (running) parts.push(...progress(training));
  else {
    if (training.status === "failed") parts.push(element("p", { class: "problem" }, training.message || "The training has failed."));
    if (training.status === "cancelled") parts.push(element("p", {}, "The training was cancelled."));
    if (run) parts.push(element("p", {}, `${run.predicted} pictures guessed by ${run.name}; ${run.new_labels} labels are newer.`));
    parts.push(button("Train", train, { id: "train", class: "main" }));
  }
  parts.push(everySetting());
  const box = $("training");
  if (!box.contains(document.activeElement) || running !== box.dataset.running) box.replaceChildren(...parts.filter(Boolean));
  box.dataset.running = running;
  box.dataset.status = training.status;
  const every = Number(localStorage.getItem(EVERY) ?? 0);
  if (every && !running && labelled - trained >= every && state.classes.filter(({ count }) => count).length > 1) train();
}

function everySetting() {
  const input = element("input", {
    id: "every",
    type: "number",
    min: "0",
    max: "1000",
    value: localStorage.getItem(EVERY) ?? "0",
    onchange: (event) => {
      trained = current()?.labelled ?? 0;
      localStorage.setItem(EVERY, event.target.value);
    },
  });
  return element("p", { class: "row quiet" }, element("label", { for: "every" }, "Train after every"), input, "new labels (0: never)");
}

let began = false;

listen((state) => {
  if (!began) {
    trained = state.labelled;
    began = true;
  }
  $("folder").textContent = state.folder;
  $("problem").hidden = !state.problem;
  $("problem").textContent = state.problem;
  drawClasses(state);
  drawTraining(state);
  const { background } = state;
  $("background").textContent = background ? `${background.title}: ${percent(background.done / background.total)}` : "";
  $("note").textContent = state.note;
  $("saved").textContent = `${state.labelled} of ${state.pictures} labelled, saved in ${state.labels_file}`;
});
