// Requests to the server that sent this page, and how they look as a line of curl.

const pathOf = (model) => `/v1/models/${encodeURIComponent(model)}`;

class Refused extends Error {}
class Unreachable extends Error {}

/** The predictions for a body. */
async function predict(model, body) {
  let reply, parsed;
  try {
    reply = await fetch(`${pathOf(model)}:predict`, {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
    });
    parsed = await reply.json();
  } catch {
    throw new Unreachable("The server does not answer. Is it still running? This page tries again every second.");
  }
  if (!reply.ok) throw new Refused(`The server refused the request: ${parsed.error}`);
  return parsed.predictions;
}

/** Resolves once the server answers again. */
async function reachable() {
  for (;;) {
    await new Promise((go) => setTimeout(go, 1000));
    try {
      if ((await fetch(pathOf(data.asked ?? data.pieces))).ok) return;
    } catch {
      // not yet
    }
  }
}

/**
 * Calls `run` now, or, while it runs, once more after it: however often this is called, one request is under way, and
 * the last one is answered. `run` gets a function that says whether its answer has become stale.
 */
function onlyTheLast(run) {
  let running = false, again = false;
  return async () => {
    again = running;
    if (running) return;
    running = true;
    do {
      again = false;
      await run(() => again);
    } while (again);
    running = false;
  };
}

const SHOWN = 4000; // characters of a request or a reply; the button copies all of them

/** JSON for reading: long lists of numbers are shortened. */
function readable(value) {
  const short = (key, x) =>
    Array.isArray(x) && x.length > 12 && x.every((one) => typeof one === "number")
      ? [...x.slice(0, 4), `… ${x.length} numbers in all`] : x;
  return JSON.stringify(value, short, 1);
}

function drawRequest(details, model, body, reply) {
  for (const old of details.querySelectorAll("pre, button")) old.remove();
  details.hidden = !body;
  if (!body) return;
  const quoted = JSON.stringify(body).replaceAll("'", "'\\''"); // for a shell
  const line = `curl -s '${location.origin}${pathOf(model)}:predict' -d '${quoted}'`;
  for (const [name, text] of [["curl", line], ["reply", readable({ predictions: reply })]]) {
    const rest = text.length - SHOWN;
    const pre = make("pre", details, clipped(text, SHOWN) + (rest > 0 ? ` … ${count(rest, "more character")}` : ""));
    pre.tabIndex = 0; // it scrolls
    pre.setAttribute("role", "region");
    pre.setAttribute("aria-label", name === "curl" ? "The request as a line of curl" : "The reply as JSON");
    if (!navigator.clipboard || name !== "curl") continue; // browsers have it for this machine and for https
    const button = make("button", details, "Copy the curl line");
    button.type = "button";
    button.addEventListener("click", () => navigator.clipboard.writeText(text));
  }
}
