// The page: which tool is chosen, what was typed, and when to ask.

const PAUSE = 120; // milliseconds without a keystroke
const values = Object.create(null); // what was typed, by the name of the field; tools share fields
const boxes = new Map();
const tools = toolsFor(data.signatures);
let tool = tools[0], timer = 0, waiting = false;

const ask = onlyTheLast(async (stale) => {
  const typed = Object.fromEntries(tool.fields.map(({ name, sample }) => [name, values[name] ?? sample]));
  const empty = tool.fields.every(({ name, optional }) => optional || !typed[name].trim());
  const shown = await Promise.allSettled([showAnswer(tool, typed, empty, stale), showPieces(tool, typed, empty, stale)]);
  const error = shown.find(({ reason }) => reason)?.reason;
  if (!stale() || error instanceof Unreachable) at("error").textContent = error?.message ?? "";
  if (error instanceof Unreachable) askAgain();
  else if (error && !(error instanceof Refused)) reportError(error);
});

async function askAgain() {
  if (waiting) return;
  waiting = true;
  await reachable();
  waiting = false;
  ask();
}

async function showAnswer(asked, typed, empty, stale) {
  const body = empty ? null : asked.body(typed), place = at("answer");
  place.setAttribute("aria-busy", String(Boolean(body)));
  let reply = null;
  try {
    if (body) await asked.ask?.(typed);
    if (body) reply = await predict(data.asked, body);
  } finally {
    if (!stale()) {
      place.setAttribute("aria-busy", "false");
      place.textContent = at("said").textContent = "";
    }
  }
  if (stale()) return;
  drawn("answer", () => {
    if (reply) at("said").textContent = asked.draw(place, reply[0], typed, write, reply);
    else at("said").textContent = asked.hint || (empty ? "Type a text." : "");
    drawRequest(at("answer-request"), data.asked, body, reply);
  });
}

async function showPieces(asked, typed, empty, stale) {
  const texts = asked.texts(typed);
  if (!data.pieces) {
    at("pieces-about").textContent = "This export is too old to show its pieces. Export the model again.";
    at("pieces-request").hidden = true;
    return;
  }
  const body = empty || !texts.length ? null : piecesBody(texts, asked.together);
  const reply = body && (await predict(data.pieces, body));
  if (stale()) return;
  drawn("pieces", () => {
    const lists = body ? piecesOf(reply, texts) : [];
    drawPieces(at("pieces"), texts, lists, asked.cuts);
    at("words").textContent = "";
    if (lists.length) asked.words?.(at("words"), typed, lists[0], write);
    drawRequest(at("pieces-request"), data.pieces, body, reply);
  });
}

/** Draw, and measure how long it takes until the browser has painted it. */
function drawn(name, draw) {
  const start = performance.now();
  draw();
  requestAnimationFrame(() => setTimeout(() => performance.measure(`${name} drawn`, { start }), 0));
}

/** Put a text into a box, as if it had been typed. */
function write(name, text) {
  const inWords = at("words").contains(document.activeElement);
  values[name] = boxes.get(name).value = text;
  ask().then(() => inWords && at("words").querySelector("button")?.focus());
}

function soon() {
  clearTimeout(timer);
  timer = setTimeout(ask, PAUSE);
}

function drawFields() {
  at("fields").textContent = "";
  boxes.clear();
  for (const { name, label, sample, rows = 2 } of tool.fields) {
    const box = make("textarea", make("label", at("fields"), label));
    box.rows = rows;
    box.dir = "auto";
    box.spellcheck = false;
    box.value = values[name] ?? sample;
    box.addEventListener("input", (event) => {
      if (event.isComposing) return; // a syllable of Korean is complete at compositionend
      values[name] = box.value;
      soon();
    });
    box.addEventListener("compositionend", () => {
      values[name] = box.value;
      soon();
    });
    boxes.set(name, box);
  }
  at("words").textContent = "";
}

function drawTools() {
  at("tools").hidden = tools.length < 2;
  for (const one of tools) {
    const label = make("label", at("tools")), radio = make("input", label);
    radio.type = "radio";
    radio.name = "tool";
    radio.checked = one === tool;
    label.append(one.title);
    radio.addEventListener("change", () => {
      tool = one;
      drawFields();
      ask();
    });
  }
}

at("name").textContent = document.title = data.name;
at("about").textContent = data.about;
at("fields").addEventListener("submit", (event) => event.preventDefault());
drawTools();
drawFields();
ask();
