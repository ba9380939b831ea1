// Which key stands for which class.

const RESERVED = new Set([..."uztm?+0"]);
export const NONE = "(none)";

export function keysOf(classes) {
  const taken = new Set(RESERVED);
  return classes.map(({ name }, position) => {
    const letter = [...name.toLowerCase()].find((one) => /\p{L}/u.test(one) && one.length === 1 && !taken.has(one)) ?? "";
    taken.add(letter);
    return { name, digit: position < 9 ? String(position + 1) : "", letter };
  });
}

export function classOf(pressed, classes) {
  if (pressed === "0") return NONE;
  const found = keysOf(classes).find(({ digit, letter }) => pressed === digit || pressed.toLowerCase() === letter);
  return pressed && found ? found.name : null;
}

export function typing(event) {
  return event.target.matches("input, textarea, select") || document.querySelector("dialog[open]") !== null;
}
