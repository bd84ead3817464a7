// Attention: a small map for each head, and for the chosen head the share of each piece.

const LEAST = 0.005; // a share that is worth a word

function drawAttention(place, answer) {
  const maps = answer.attention, pieces = answer.piece; // [L][A][S][S]
  const chosen = drawAttention.chosen ??= { layer: 0, head: 0, piece: 0 }; // kept while the user types
  const grid = toolbar(place, "Layers and heads", "heads");
  grid.style.gridTemplateColumns = `repeat(${maps[0].length}, 30px)`;
  const title = make("p", place), readout = make("p", place, "", "hint");
  readout.setAttribute("aria-live", "polite");
  const bar = toolbar(place, "Pieces that look");
  const chips = pieces.map((piece, index) => {
    const chip = bar.add(piece, "chip");
    for (const event of ["pointerenter", "focus"]) chip.addEventListener(event, () => look(index));
    return chip;
  });
  const heads = maps.flatMap((layer, l) => layer.map((map, h) => {
    const button = grid.add("");
    button.setAttribute("aria-label", `Layer ${l}, head ${h}`);
    button.addEventListener("click", () => choose(l, h));
    paintMap(make("canvas", button), map);
    return button;
  }));

  function choose(layer, head) {
    Object.assign(chosen, { layer: Math.min(layer, maps.length - 1), head: Math.min(head, maps[0].length - 1) });
    heads.forEach((button, index) =>
      button.setAttribute("aria-pressed", String(index === chosen.layer * maps[0].length + chosen.head)));
    title.textContent = `Layer ${chosen.layer}, head ${chosen.head}: what a piece looks at`;
    look(chosen.piece);
  }

  function look(index) {
    chosen.piece = Math.min(index, pieces.length - 1);
    const shares = maps[chosen.layer][chosen.head][chosen.piece];
    chips.forEach((chip, other) => (chip.style.background = `rgba(var(--shade), ${0.5 * Math.sqrt(shares[other])})`));
    const best = [...shares.keys()].filter((i) => shares[i] >= LEAST).sort((a, b) => shares[b] - shares[a]).slice(0, 5);
    readout.textContent = `${pieces[chosen.piece]} looks at ` +
      best.map((i) => `${pieces[i]} (place ${i}) ${percent(shares[i])}`).join(", ");
  }

  choose(chosen.layer, chosen.head);
}

function paintMap(canvas, map) {
  const size = map.length;
  canvas.width = canvas.height = size;
  canvas.setAttribute("aria-hidden", "true");
  const context = canvas.getContext("2d"), image = context.createImageData(size, size);
  const rgb = getComputedStyle(document.documentElement).getPropertyValue("--shade").split(",").map(Number);
  map.forEach((row, y) => row.forEach((share, x) =>
    image.data.set([...rgb, 255 * Math.sqrt(share)], 4 * (y * size + x))));
  context.putImageData(image, 0, 0);
}
