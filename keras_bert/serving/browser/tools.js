// What can be asked of the served model, found by the inputs and outputs of its signatures.
//
// A tool has a `title`, the `fields` to fill in, the `body` of the request for their values, and `draw`, which shows the
// prediction and returns a headline. `texts` are those whose pieces are shown; `together`: a pair, in one row of the
// model; `cuts`: whether the model truncates them. `ask` is there where one request is not enough.

const field = (name, label, sample = "", more = {}) => ({ name, label, sample, ...more });
const TEXT = field("text", "Text", SAMPLES.text);
const ROWS = 64; // of a list, in one request

const one = (signature_name, row) => ({ signature_name, instances: [row] });
const withPair = (values, others) => (values.text_pair
  ? one("pair", { text: values.text, text_pair: values.text_pair, ...others })
  : one("serving_default", { text: values.text, ...others }));
const bothTexts = ({ text, text_pair }) => (text_pair ? [text, text_pair] : [text]);
const cosine = (a, b) => {
  const dot = (x, y) => x.reduce((sum, value, i) => sum + value * y[i], 0);
  return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
};

/** The numbers and categories that a model reads beside a text: the fields to fill in, and their part of a request. */
function othersOf(inputs) {
  const found = Object.entries(inputs).filter(([name]) => name !== "text" && name !== "text_pair")
    .map(([name, { dtype }]) => ({ name, isNumber: dtype === "DT_FLOAT" }));
  const value = ({ name, isNumber }, typed) => (isNumber ? Number(typed[name].trim() || NaN) : typed[name]);
  return {
    fields: found.map(({ name, isNumber }) => (isNumber
      ? field(name, `${name} (a number)`, "0", { rows: 1, optional: true })
      : field(name, name, "", { rows: 1, optional: true }))),
    of: (typed) => Object.fromEntries(found.map((one) => [one.name, value(one, typed)])),
  };
}

function toolsFor(signatures) {
  const has = (names, kind) => names.every((name) => name in (signatures.serving_default?.[kind] ?? {}));
  const gives = (...names) => has(names, "outputs"), takes = (...names) => has(names, "inputs");
  const tools = [];
  const second = takes("text_pair") ? field("text_pair", "Second text", SAMPLES.other)
    : field("text_pair", "Second text (only for pairs)", "", { optional: true });
  const others = othersOf(signatures.serving_default?.inputs ?? {});

  if (gives("labels", "scores") && takes("text")) tools.push({
    title: "Labels", together: true, cuts: true,
    fields: [TEXT, ...("pair" in signatures ? [second] : []), ...others.fields],
    body: (values) => withPair(values, others.of(values)), texts: bothTexts,
    draw(place, answer) {
      drawBars(place, answer.labels.map((label, i) => ({ label, score: answer.scores[i] })));
      return `${answer.label || "(not sure)"} · ${percent(answer.score)}${cutNote(answer)}`;
    },
  });
  else if (gives("type", "start", "end", "count")) tools.push({
    title: "Entities", fields: [field("text", "Text", SAMPLES.entities)],
    body: ({ text }) => one("serving_default", { text }), texts: ({ text }) => [text],
    draw(place, answer, { text }) {
      const found = [...Array(answer.count).keys()];
      drawMarked(place, text, found.map((i) => ({ start: answer.start[i], end: answer.end[i], label: answer.type[i] })));
      drawBars(place, found.map((i) => ({ label: `${answer.text[i]} · ${answer.type[i]}`, score: answer.score[i] })));
      return count(answer.count, "mark");
    },
  });
  else if (takes("question", "context")) tools.push({
    title: "Answer in a context",
    fields: [field("question", "Question", SAMPLES.question), field("context", "Context", SAMPLES.context, { rows: 6 })],
    body: ({ question, context }) => one("answers" in signatures ? "answers" : "serving_default", { question, context }),
    texts: ({ question, context }) => [question, context],
    draw(place, answer, { context }) {
      const columns = ["text", "start", "end", "score"].map((name) => [answer[name]].flat());
      const rows = columns[0].slice(0, answer.count ?? 1)
        .map((text, i) => ({ label: text || "(no answer)", start: columns[1][i], end: columns[2][i], score: columns[3][i] }));
      drawMarked(place, context, rows.slice(0, 1).filter(({ start }) => start >= 0).map((row) => ({ ...row, label: "" })));
      drawBars(place, rows);
      return `${rows[0].label} · ${percent(rows[0].score)}${answer.truncated ? " · the question was truncated" : ""}`;
    },
  });
  else if (takes("prompt", "choices")) {
    const number = Number(signatures.serving_default.inputs.choices.tensor_shape.dim[1].size);
    const names = [...Array(number).keys()].map((i) => `choice ${i + 1}`);
    const choices = (values) => names.map((name) => values[name]);
    tools.push({
      title: "Choices",
      fields: [field("prompt", "Prompt", SAMPLES.prompt),
        ...names.map((name, i) => field(name, `Choice ${i + 1}`, SAMPLES.choices[i % SAMPLES.choices.length]))],
      body: (values) => one("serving_default", { prompt: values.prompt, choices: choices(values) }),
      texts: (values) => [values.prompt, ...choices(values)],
      draw(place, answer, values) {
        drawBars(place, choices(values).map((label, i) => ({ label, score: answer.scores[i] })));
        return `${answer.choice} · ${percent(answer.score)}${cutNote(answer)}`;
      },
    });
  } else if (gives("score") && takes("text")) tools.push({
    title: "Score", cuts: true,
    fields: [TEXT, ...(takes("text_pair") || "pair" in signatures ? [second] : []), ...others.fields],
    together: !takes("text_pair"), // otherwise each text has a row, and the vectors of the two are compared
    body: (values) => (takes("text_pair")
      ? one("serving_default", { text: values.text, text_pair: values.text_pair }) : withPair(values, others.of(values))),
    texts: bothTexts,
    draw(place, answer) {
      if (takes("text_pair")) drawBars(place, [{ label: "cosine", score: answer.score }], null, (x) => x.toFixed(4));
      return `Score ${answer.score.toFixed(4)}${cutNote(answer)}`;
    },
  });

  if ("fill_mask" in signatures) tools.push({
    title: "Masked words", fields: [field("text", "Text", SAMPLES.masked)], cuts: true,
    body: ({ text }) => (text.includes(MASK) ? one("fill_mask", { text }) : null), texts: ({ text }) => [text],
    draw(place, answer, { text }, write) {
      drawFillings(place, text, answer, (text) => write("text", text));
      return answer.count ? answer.token.slice(0, answer.count).map((best) => best[0]).join(", ") : "No word is masked.";
    },
    words: (place, { text }, pieces, write) => drawWords(place, text, pieces, (text) => write("text", text)),
  });
  if ("is_next" in signatures) tools.push({
    title: "Next sentence", together: true, cuts: true,
    fields: [field("text", "Text", SAMPLES.sentence), field("text_pair", "Does this follow?", SAMPLES.next)],
    body: ({ text, text_pair }) => one("is_next", { text, text_pair }), texts: bothTexts,
    draw(place, answer) {
      drawBars(place, [{ label: "follows", score: answer.score }, { label: "does not", score: 1 - answer.score }]);
      return `${answer.is_next ? "It follows" : "It does not follow"}${cutNote(answer)}`;
    },
  });
  if (gives("embedding")) {
    tools.push({
      title: "Two texts", cuts: true, fields: [TEXT, field("other", "Another text", SAMPLES.other)],
      body: ({ text, other }) => ({ signature_name: "serving_default", instances: [{ text }, { text: other }] }),
      texts: ({ text, other }) => [text, other],
      draw(place, answer, values, write, all) {
        const score = cosine(all[0].embedding, all[1].embedding);
        drawBars(place, [{ label: "cosine", score }], null, (x) => x.toFixed(4));
        return `Cosine ${score.toFixed(4)}${cutNote({ truncated: all[0].truncated || all[1].truncated })}`;
      },
    });
    const known = { list: null, vectors: [] }; // the list is embedded again only when it changes
    tools.push({
      title: "Nearest of a list", cuts: true,
      fields: [field("text", "Text", SAMPLES.query),
        field("list", "List, one text per line", SAMPLES.list.join("\n"), { rows: 6 })],
      body: ({ text }) => one("serving_default", { text }), texts: ({ text }) => [text],
      async ask({ list }) {
        if (known.list === list) return;
        const texts = list.split("\n").filter((line) => line.trim()), vectors = [];
        for (let i = 0; i < texts.length; i += ROWS) {
          const instances = texts.slice(i, i + ROWS).map((text) => ({ text }));
          const rows = await predict(data.asked, { signature_name: "serving_default", instances });
          vectors.push(...rows.map((row, place) => ({ label: instances[place].text, vector: row.embedding })));
        }
        Object.assign(known, { list, vectors });
      },
      draw(place, answer) {
        const rows = known.vectors.map(({ label, vector }) => ({ label, score: cosine(answer.embedding, vector) }));
        const best = rows.sort((a, b) => b.score - a.score).slice(0, 50);
        drawBars(place, best, null, (x) => x.toFixed(4));
        return best.length ? `${best[0].label} · ${best[0].score.toFixed(4)}` : "The list is empty.";
      },
    });
  }
  if ("attention" in signatures) {
    const short = (text) => clipped(text, 200); // the maps grow with the square of the length
    tools.push({
      title: "Attention", fields: [TEXT], cuts: true, texts: ({ text }) => [short(text)],
      body: ({ text }) => one("attention", { text: short(text) }),
      draw(place, answer, { text }) {
        drawAttention(place, answer);
        return text.length > 200 ? "Attention of the first 200 characters" : cutNote(answer).slice(3);
      },
    });
  }
  if (signatures.serving_default) return tools.length ? tools : [rawTool(signatures.serving_default)];
  const hint = 'This export has no part named "text", so there is no answer.';
  return [{ title: "Pieces", fields: [TEXT], cuts: true, body: () => null, texts: ({ text }) => [text], hint }];
}

/** A task of a user: its strings are asked for, and the answer is shown as it comes. */
function rawTool(signature) {
  const inputs = Object.entries(signature.inputs);
  const boxes = ([name, { dtype, tensor_shape: { dim } }]) => {
    if (dtype !== "DT_STRING" || dim.length > 2 || (dim.length === 2 && dim[1].size === "-1")) return null;
    return dim.length < 2 ? [name] : [...Array(Number(dim[1].size)).keys()].map((i) => `${name} ${i + 1}`);
  };
  const of = new Map(inputs.map((input) => [input[0], boxes(input)]));
  const askable = inputs.length && ![...of.values()].includes(null);
  const names = askable ? [...of.values()].flat() : [];
  const value = (values, name) => (of.get(name)[0] === name ? values[name] : of.get(name).map((box) => values[box]));
  return {
    title: "Answer", fields: names.map((name) => field(name, name, SAMPLES.text, { rows: 3 })),
    body: (values) => (askable
      ? one("serving_default", Object.fromEntries(inputs.map(([name]) => [name, value(values, name)]))) : null),
    texts: (values) => names.map((name) => values[name]),
    draw(place, answer) {
      const pre = make("pre", place, clipped(readable(answer), 20000));
      pre.tabIndex = 0;
      pre.setAttribute("role", "region");
      pre.setAttribute("aria-label", "The answer as JSON");
      return "";
    },
    hint: askable ? "" : "This model does not take plain texts, so this page cannot ask it.",
  };
}
