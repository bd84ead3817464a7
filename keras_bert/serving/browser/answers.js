// How answers are drawn: bars, and texts with marks.

/** Rows { label, score } as bars, best first. choose: makes each row a button. */
function drawBars(place, rows, choose = null, shown = percent) {
  const list = make("ol", place, "", "bars");
  for (const row of [...rows].sort((a, b) => b.score - a.score)) {
    const item = make("li", list);
    const inside = choose ? make("button", item) : item;
    if (choose) {
      inside.type = "button";
      inside.addEventListener("click", () => choose(row));
    }
    make("i", inside).style.width = `${100 * Math.min(1, Math.max(0, row.score))}%`;
    make("span", inside, row.label).dir = "auto";
    make("span", inside, shown(row.score));
  }
}

const AROUND = 1000; // units of an unmarked stretch of text that are shown next to a mark

/** The text as it was typed, with marks { start, end, label } in characters of the server. */
function drawMarked(place, text, marks) {
  const paragraph = make("p", place, "", "marked");
  paragraph.dir = "auto";
  paragraph.tabIndex = 0; // it scrolls
  paragraph.setAttribute("role", "region");
  paragraph.setAttribute("aria-label", "The text with marks");
  const unit = unitOf(text);
  let written = 0;
  const plain = (end) => {
    const part = text.slice(written, end);
    paragraph.append(part.length <= 2 * AROUND ? part : `${part.slice(0, AROUND)} … ${part.slice(-AROUND)}`);
  };
  for (const { start, end, label } of [...marks].sort((a, b) => a.start - b.start)) {
    plain(unit(start));
    const mark = make("mark", paragraph, text.slice(unit(start), unit(end)));
    if (label) make("b", mark, label);
    written = unit(end);
  }
  plain(text.length);
  paragraph.querySelector("mark")?.scrollIntoView?.({ block: "nearest" });
}

/** Whether the model read all of a text; part of a headline. */
const cutNote = (answer) => (answer.truncated ? " · the text was truncated" : "");
