// Elements are made from text, never from markup: names of files and classes are shown as they are.

export const $ = (id) => document.getElementById(id);

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "class") made.className = value;
    else if (typeof value === "boolean") made.toggleAttribute(name, value);
    else if (value !== undefined && value !== null) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export const button = (text, onclick, attributes = {}) => element("button", { type: "button", onclick, ...attributes }, text);

export const key = (letter) => (letter ? element("kbd", {}, letter) : null);

export const percent = (share) => `${(100 * share).toFixed(0)}%`;

let forgotten;

export function tell(text) {
  $("status").textContent = text;
  clearTimeout(forgotten);
  forgotten = setTimeout(() => ($("status").textContent = ""), 6000);
}
