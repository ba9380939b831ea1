// Requests to the studio's own server, and the state that all views share.

import { tell } from "./dom.js";

let state = null;
const listeners = [];

let looking = () => ({});

export const current = () => state;
export const lookingAt = (parameters) => (looking = parameters);
export const listen = (listener) => listeners.push(listener);

function take(answer) {
  if (!answer || answer.queue === undefined) return answer;
  state = answer;
  for (const listener of listeners) listener(state);
  return answer;
}

async function request(path, options) {
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Error("The studio does not answer: was it stopped? Every label up to now is saved.");
  }
  const content = answer.headers.get("content-type")?.startsWith("application/json")
    ? await answer.json()
    : { error: await answer.text() };
  if (!answer.ok) throw new Error(content.error);
  return content;
}

export function ask(name, parameters = {}) {
  return request(`/api/${name}?${new URLSearchParams(parameters)}`).then((answer) => (name === "state" ? take(answer) : answer));
}

const post = (name, body) =>
  request(`/api/${name}`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });

// One change after the other, in the order of the keys: a quick second key waits for the first. What it is about is
// decided when its turn comes, since by then another picture is shown; null means that there is nothing to do.
let last = Promise.resolve();

export function change(name, body = () => ({}), after = () => undefined) {
  const send = async () => {
    const wanted = body();
    if (wanted === null) return null;
    const answer = take(await post(name, wanted));
    after(answer);
    return answer;
  };
  const done = last.then(send);
  last = done.catch(() => undefined);
  return done.catch((error) => {
    tell(error.message);
    ask("state").catch(() => undefined);
    throw error;
  });
}

// What takes long does not make changes wait.
export const demand = (name, body = {}) => post(name, body);

export const quietly = (promise) => promise.catch(() => undefined);

export function keepFresh() {
  const again = async () => {
    try {
      await ask("state", looking());
    } catch (error) {
      tell(error.message);
    }
    setTimeout(again, state?.training.status === "going on" || state?.background ? 700 : 2500);
  };
  again();
}
