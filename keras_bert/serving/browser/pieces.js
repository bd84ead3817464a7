// The pieces of the texts, as chips.

const TYPED = 20000; // UTF-16 units of a text whose pieces are asked for: more than a model reads
const CHIPS = 400; // of a text

/** What the model with the pieces is asked about these texts; two texts of a pair are truncated together. */
function piecesBody(texts, together) {
  const [text, text_pair] = texts = texts.map((text) => clipped(text, TYPED));
  if (together && texts.length === 2) return { signature_name: "pieces_pair", instances: [{ text, text_pair }] };
  return { signature_name: "pieces", instances: texts.map((text) => ({ text })) };
}

/** The reply as a list of pieces for each text. */
function piecesOf(reply, texts) {
  const lists = texts.map(() => []);
  reply.forEach((row, number) => {
    for (let i = 0; i < row.count; i++) {
      const list = reply.length === 1 ? lists[row.text[i]] : lists[number];
      list.push(Object.fromEntries(Object.entries(row).map(([name, x]) => [name, Array.isArray(x) ? x[i] : x])));
    }
  });
  return lists;
}

function drawPieces(place, texts, lists, cuts = false) {
  place.textContent = "";
  let all = 0, unknown = 0, cut = 0;
  lists.forEach((pieces, number) => {
    const bar = toolbar(place, lists.length > 1 ? `Pieces of text ${number + 1}` : "Pieces of the text");
    const unit = unitOf(texts[number]);
    pieces.forEach((piece, index) => {
      all++;
      const isUnknown = piece.piece === "[UNK]", isCut = cuts && !piece.kept;
      unknown += isUnknown;
      cut += isCut;
      if (index >= CHIPS) return;
      const chip = bar.add(piece.piece, "chip");
      make("small", chip, String(piece.id));
      chip.classList.toggle("unknown", isUnknown);
      chip.classList.toggle("cut", isCut);
      chip.classList.toggle("first-cut", isCut && (!index || pieces[index - 1].kept));
      const say = () => {
        at("piece").textContent = `${piece.piece} · id ${piece.id} · characters ${piece.start} to ${piece.end} · bytes ` +
          `${piece.start_byte} to ${piece.end_byte} · “${texts[number].slice(unit(piece.start), unit(piece.end))}”` +
          `${isUnknown ? " · not in the vocabulary" : ""}${isCut ? " · truncated: the model does not read it" : ""}`;
      };
      chip.addEventListener("pointerenter", say);
      chip.addEventListener("focus", say);
    });
    if (pieces.length > CHIPS) make("small", bar, `… ${count(pieces.length - CHIPS, "more piece")}`);
  });
  const isLong = texts.some((text) => text.length > TYPED);
  const said = [count(all, "piece") + (isLong ? ` of the first ${TYPED.toLocaleString("en")} characters` : "")];
  if (unknown) said.push(`${unknown} not in the vocabulary (dashed)`);
  if (cut) said.push(`${cut} truncated (struck out)`);
  at("pieces-about").textContent = `${said.join(", ")}. Point at a piece, or use the arrow keys, to see its place.`;
  at("piece").textContent = "";
}
