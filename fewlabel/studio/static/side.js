// Classes with their keys and counts; training with its curves.

import { change, listen, quietly } from "./api.js";
import { $, button, element, key, percent, tell } from "./dom.js";
import { keysOf } from "./keys.js";

const FIRST = "What is this? Type its class below and press Enter. From then on, one key is enough.";

let choose = () => undefined;
let drawn = "";

export const whenChosen = (listener) => (choose = listener);

function drawClasses(state) {
  const now = JSON.stringify(state.classes.map(({ name }) => name));
  if (now === drawn) return counts(state);
  drawn = now;
  const keys = keysOf(state.classes);
  $("classes").replaceChildren(
    ...state.classes.map(({ name }, position) =>
      element(
        "li",
        {},
        element(
          "button",
          { type: "button", class: "class", onclick: () => choose(name) },
          key(keys[position].digit),
          key(keys[position].letter),
          element("span", { class: "name" }, name),
          element("span", { class: "count" }),
        ),
        button("Rename", () => rename(name), { class: "small", "aria-label": `Rename or merge ${name}` }),
      ),
    ),
    element("li", { class: "quiet", id: "none-count" }),
  );
  return counts(state);
}

function counts(state) {
  const buttons = $("classes").querySelectorAll(".class");
  state.classes.forEach(({ name, count }, position) => {
    buttons[position].querySelector(".count").textContent = String(count);
    buttons[position].setAttribute("aria-label", `${name}, ${count} labels`);
  });
  $("none-count").textContent = state.classes.length || state.none ? `none of these: ${state.none}` : FIRST;
}

function rename(old) {
  const name = prompt(`New name of ${old} (the name of another class merges the two):`, old);
  if (name !== null && name !== old) quietly(change("rename_class", () => ({ old, new: name })).then(() => tell(`${old} is now ${name}`)));
}

export function nameClass() {
  $("new-class-name").focus();
}

$("new-class").addEventListener("submit", (event) => {
  event.preventDefault();
  const name = $("new-class-name").value;
  $("new-class-name").value = "";
  $("new-class-name").blur();
  if (name.trim()) quietly(Promise.resolve(choose(name, true)));
});

// ---- training

export function train() {
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
  const words = training.steps ? `${training.stage}: step ${training.step} of ${training.steps}${timeLeft(training.seconds_left)}` : "preparing";
  return [
    element("progress", { max: String(training.steps || 1), value: String(training.step), "aria-label": "Training" }),
    element("p", {}, words),
    curve(training.loss ?? [], "loss"),
    curve(training.kept ?? [], "pseudo-labels used"),
    ...(training.alarms ?? []).map((alarm) => element("p", { class: "problem" }, `Alarm: ${alarm}`)),
  ];
}

function outcome({ training, run, noun }) {
  const guessed = run && `${run.predicted} ${noun} guessed by ${run.name}; ${run.new_labels} labels are newer.`;
  return [
    training.status === "failed" ? element("p", { class: "problem" }, training.message || "The training has failed.") : null,
    training.status === "cancelled" ? element("p", {}, "The training was cancelled.") : null,
    guessed ? element("p", {}, guessed) : null,
  ];
}

function drawTraining(state) {
  const { training } = state;
  const running = training.status === "going on";
  $("train").hidden = running;
  $("cancel").hidden = !running;
  $("progress").replaceChildren(...(running ? progress(training) : outcome(state)).filter(Boolean));
  $("training").dataset.status = training.status;
  if (document.activeElement !== $("every")) $("every").value = String(state.every);
}

$("train").addEventListener("click", train);
$("cancel").addEventListener("click", () => quietly(change("cancel")));
$("every").addEventListener("change", (event) => quietly(change("train_every", () => ({ count: Number(event.target.value) }))));

listen((state) => {
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
