// What one takes away.

import { current, demand } from "./api.js";
import { button, element, tell } from "./dom.js";

const KINDS = [
  ["predictions.csv", "Predictions as a table", "A row for each: its class, the confidence, and room for corrections."],
  ["sorted", "Pictures sorted into folders", "Copies, one folder per class; the pictures themselves stay where they are."],
  ["model.onnx", "The model as ONNX", "For other programs."],
];

export function show(view) {
  const run = current()?.run;
  if (!run) {
    view.replaceChildren(element("p", {}, "Train first: there is nothing to export yet."));
    return;
  }
  const note = run.new_labels ? `${run.new_labels} labels are newer than this training: train again to include them.` : "";
  view.replaceChildren(
    element("h2", {}, `Export of ${run.name}`),
    element("p", { class: "problem", hidden: !note }, note),
    ...KINDS.filter(([name]) => name !== "sorted" || current().sortable).map(([name, title, text]) => part(name, title, text)),
    element("section", {}, element("h3", {}, "Report"), element("p", {}, element("a", { href: "/download/report.html", download: "report.html" }, "Download report.html"))),
  );
}

function part(name, title, text) {
  const result = element("p", { id: `made-${name.split(".")[0]}` });
  const make = async () => {
    result.textContent = "One moment.";
    try {
      const made = await demand("export", { what: name });
      result.replaceChildren(`${made.text} ${made.file} `);
      if (name !== "sorted") result.append(element("a", { href: `/download/${name}`, download: name }, "Download"));
      tell(`${title}: done`);
    } catch (error) {
      result.textContent = error.message;
    }
  };
  return element("section", {}, element("h3", {}, title), element("p", {}, text), button("Make", make, { id: `make-${name.split(".")[0]}`, "aria-label": `Make: ${title}` }), result);
}

export const press = () => false;
export const choose = () => undefined;
export const undo = async () => undefined;
export const hide = () => undefined;
