// How good are the guesses? A person answers for 30 pictures, without seeing what was guessed.

import { ask, change, current, demand, quietly } from "./api.js";
import { button, element, key, percent, tell } from "./dom.js";
import { classOf, keysOf } from "./keys.js";

let view;
let audit = { status: "none" };
let last = null; // the number of the picture that was answered last

async function load(promise) {
  try {
    audit = await promise;
    draw();
  } catch (error) {
    tell(error.message);
  }
}

const open = () => (audit.status === "asking" ? audit.pictures.find(({ label }) => !label) : undefined);

function draw() {
  if (!view) return;
  const drawing = { "no run": noRun, none: offer, asking: question, done: result, elsewhere };
  view.replaceChildren(...drawing[audit.status]());
}

const noRun = () => [element("p", {}, "Train first: an audit measures the predictions of a training.")];
const elsewhere = () => [element("p", {}, `An audit of ${audit.run} was begun on the command line: finish it there.`)];

function offer() {
  return [
    element("h2", {}, "How good are the guesses?"),
    element("p", {}, `You will see 30 ${current()?.noun ?? "pictures"} without their guesses, sure and unsure ones. From your answers follows the accuracy, with its interval. They are kept apart and are not trained on.`),
    button("Begin the audit", () => load(demand("start_audit")), { id: "begin-audit", class: "main" }),
  ];
}

const example = ({ number, version, name, text }) =>
  text === undefined ? element("img", { id: "picture", src: `/picture/${number}?size=large&v=${version}`, alt: `Picture ${name}` }) : element("blockquote", { id: "text" }, text);

function question() {
  const picture = open();
  const keys = keysOf(named());
  const answered = audit.pictures.filter(({ label }) => label).length;
  return [
    element("h2", {}, `Audit: ${(current()?.noun ?? "pictures").slice(0, -1)} ${answered + 1} of ${audit.pictures.length}`),
    element("figure", { id: "stage" }, example(picture), element("figcaption", {}, picture.name)),
    element(
      "div",
      { class: "row" },
      button("Undo", () => back(), { id: "undo" }),
      ...audit.classes.map((name, position) => element("button", { type: "button", class: "pick", onclick: () => answer(name) }, key(keys[position].digit), " ", key(keys[position].letter), ` ${name}`)),
      button("None of these", () => answer("(none)"), { id: "none" }),
    ),
  ];
}

function result() {
  const { share, low, high } = audit.accuracy;
  return [
    element("h2", {}, `Accuracy: ${percent(share)}`),
    element("p", { id: "audited" }, `95% interval: ${percent(low)} to ${percent(high)}, of ${audit.run}`),
    ...audit.words.map((words) => element("p", {}, words)),
    element("p", { class: "quiet" }, "They are kept apart and are not trained on. After the next training a new audit can be made."),
  ];
}

// What a key is about is decided when its turn comes, as in the label view.
function answer(label) {
  const about = () => {
    const picture = open();
    if (!picture) return null;
    last = picture.number;
    return { number: picture.number, label };
  };
  return quietly(change("answer_audit", about, take));
}

const back = () => quietly(change("answer_audit", () => (last === null ? null : { number: last, label: "" }), take));

function take(state) {
  audit = state;
  draw();
}

const named = () => audit.classes.map((name) => ({ name }));

export const choose = (name) => (audit.status === "asking" && audit.classes.includes(name) ? answer(name) : undefined);
export const undo = async () => back();

export function press(pressed) {
  if (audit.status !== "asking") return false;
  const label = classOf(pressed, named());
  return label === null ? false : answer(label);
}

export function show(where) {
  view = where;
  view.replaceChildren(element("p", {}, "One moment."));
  load(ask("audit"));
}

export const hide = () => (view = null);
