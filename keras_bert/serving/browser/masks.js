// Masked words: click a word to mask it, and a guess to put it in.

const MASK = "[MASK]";

/** The words of a text as buttons. pieces: of this text; write: sets the text. */
function drawWords(place, text, pieces, write) {
  place.textContent = "";
  const unit = unitOf(text), words = [];
  for (const { piece, start, end } of pieces) {
    const last = words[words.length - 1];
    if (piece.startsWith("##") && last && start <= last.end) last.end = Math.max(last.end, end);
    else words.push({ start, end });
  }
  if (!words.length) return;
  make("p", place, "Click a word to mask it.", "hint");
  const bar = toolbar(place, "Words to mask");
  for (const { start, end } of words.slice(0, CHIPS)) {
    const word = text.slice(unit(start), unit(end)), button = bar.add(word);
    button.setAttribute("aria-pressed", String(word === MASK));
    button.addEventListener("click", () => {
      if (word !== MASK) write(text.slice(0, unit(start)) + MASK + text.slice(unit(end)));
    });
  }
}

function drawFillings(place, text, answer, write) {
  const unit = unitOf(text);
  for (let mask = 0; mask < answer.count; mask++) {
    const before = text.slice(0, unit(answer.start[mask])), after = text.slice(unit(answer.end[mask]));
    const rows = answer.token[mask].map((label, place) => ({ label, score: answer.score[mask][place] }));
    make("p", place, `${MASK} ${mask + 1}. Click a guess to put it in.`, "hint");
    // A piece that continues a word is joined to it.
    drawBars(place, rows, ({ label }) =>
      write(label.startsWith("##") ? before.trimEnd() + label.slice(2) + after : before + label + after));
  }
}
