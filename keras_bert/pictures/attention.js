"use strict";
(() => {
  // === Data ===

  const data = JSON.parse(document.getElementById("data").textContent);
  const { layers, heads, pieces, second } = data;
  const count = pieces.length;
  const special = new Set([0, count - 1, ...(second ? [second - 1] : [])]);
  const maps = new Array(layers).fill(null); // for each layer its codes [A, S, S], once they are unpacked
  const weight = (code) => (code / 255) ** 2;

  async function unpack(text) {
    const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  /** The codes of the chosen head, [S, S]. */
  const chosenMap = () => maps[chosen.layer]?.subarray(chosen.head * count * count, (chosen.head + 1) * count * count);

  // === State ===

  const chosen = { layer: 0, head: 0 };
  let active = null; // the token under the pointer or the keyboard: { side: "from" | "to", index, [other] }
  let pinned = null; // the token that was clicked

  // === Elements ===

  const at = (id) => document.getElementById(id);
  function make(tag, parent, text = "", className = "") {
    const element = document.createElement(tag);
    if (text !== "") element.textContent = text;
    if (className) element.className = className;
    parent.append(element);
    return element;
  }

  function percent(share) {
    if (share < 0.0005) return "under 0.1 %";
    if (share >= 0.0995) return `${Math.round(share * 100)} %`;
    return `${(share * 100).toFixed(1)} %`;
  }

  // === Colours ===

  const dark = matchMedia("(prefers-color-scheme: dark)");
  const RAMPS = {
    light: [[246, 248, 251], [160, 200, 240], [38, 116, 204], [7, 34, 84]],
    dark: [[27, 32, 40], [33, 76, 128], [94, 168, 240], [236, 246, 255]],
  };
  let ramp; // a colour for each code; its lightness only rises or only falls, so that it can be read without color

  function setRamp() {
    const stops = RAMPS[dark.matches ? "dark" : "light"];
    const colors = new Uint8ClampedArray(256 * 4); // RGBA
    for (let code = 0; code < 256; code++) {
      const place = (code / 255) * (stops.length - 1);
      const low = Math.min(Math.floor(place), stops.length - 2);
      for (let c = 0; c < 3; c++) colors[code * 4 + c] = stops[low][c] + (stops[low + 1][c] - stops[low][c]) * (place - low);
      colors[code * 4 + 3] = 255;
    }
    ramp = new Uint32Array(colors.buffer);
  }

  function paint(canvas, codes, width, height) {
    canvas.width = width;
    canvas.height = height;
    const image = new ImageData(width, height);
    new Uint32Array(image.data.buffer).set(Uint32Array.from(codes, (code) => ramp[code]));
    canvas.getContext("2d").putImageData(image, 0, 0);
  }

  // === All heads ===

  const THUMB = 72; // pixels; of a longer text, each pixel shows the largest weight that falls on it
  const cells = []; // for each layer its buttons
  const thumbs = []; // for each layer the codes of its small maps

  function buildGrid() {
    const grid = at("grid");
    const size = Math.min(110, Math.max(26, Math.floor(560 / heads)));
    grid.style.gridTemplateColumns = `auto repeat(${heads}, minmax(26px, ${size}px))`;
    grid.style.setProperty("--grid", `${heads * (size + 5) + 24}px`);
    make("span", grid);
    for (let head = 0; head < heads; head++) make("span", grid, String(head));
    for (let layer = 0; layer < layers; layer++) {
      make("span", grid, String(layer));
      cells.push([]);
      for (let head = 0; head < heads; head++) {
        const button = make("button", grid);
        button.type = "button";
        button.setAttribute("aria-label", `Layer ${layer}, head ${head}`);
        button.title = `layer ${layer}, head ${head}`;
        button.addEventListener("click", () => choose(layer, head));
        make("canvas", button, "", count <= THUMB ? "exact" : "");
        cells[layer].push(button);
      }
    }
    grid.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
      if (!step) return;
      event.preventDefault();
      choose(chosen.layer + step[0], chosen.head + step[1]);
      cells[chosen.layer][chosen.head].focus();
    });
  }

  function shrink(codes) {
    if (count <= THUMB) return codes;
    const small = new Uint8Array(THUMB * THUMB);
    for (let i = 0; i < count; i++) {
      const row = Math.floor((i * THUMB) / count) * THUMB;
      for (let j = 0; j < count; j++) {
        const place = row + Math.floor((j * THUMB) / count);
        if (codes[i * count + j] > small[place]) small[place] = codes[i * count + j];
      }
    }
    return small;
  }

  function paintRow(layer) {
    const side = Math.min(count, THUMB);
    thumbs[layer].forEach((codes, head) => paint(cells[layer][head].firstChild, codes, side, side));
  }

  function buildLegend() {
    for (const share of [0, 0.01, 0.05, 0.2, 0.5, 1]) {
      make("li", document.querySelector("#legend ol"), `${share * 100} %`).style.left = `${Math.sqrt(share) * 100}%`;
    }
  }

  // === The map of one head ===

  const mapCanvas = document.querySelector("#map-frame canvas");

  function buildMap() {
    mapCanvas.classList.toggle("exact", count <= 256);
    at("map-frame").style.maxWidth = `${Math.min(560, Math.max(240, count * 20))}px`;
    const place = (event) => {
      const box = mapCanvas.getBoundingClientRect();
      const cell = (part) => Math.min(count - 1, Math.max(0, Math.floor(part * count)));
      const index = cell((event.clientY - box.top) / box.height), other = cell((event.clientX - box.left) / box.width);
      return { side: "from", index, other };
    };
    mapCanvas.addEventListener("pointermove", (event) => setActive(place(event)));
    mapCanvas.addEventListener("pointerleave", () => setActive(pinned));
    mapCanvas.addEventListener("click", (event) => {
      pinned = place(event);
      setActive(pinned);
      at("scroller").scrollTo({ top: middle(pinned.index) - at("scroller").clientHeight / 2 });
    });
  }

  /** A bar on the map for the active token, and for the other one if the pointer is on the map. */
  function showPlace() {
    const row = active && (active.side === "from" ? active.index : active.other);
    const column = active && (active.side === "to" ? active.index : active.other);
    for (const [id, index, start, size] of [["map-row", row, "top", "height"], ["map-column", column, "left", "width"]]) {
      at(id).hidden = !Number.isInteger(index);
      at(id).style[start] = `${(index / count) * 100}%`;
      at(id).style[size] = `max(3px, ${100 / count}%)`;
    }
    const map = chosenMap();
    at("map-place").textContent = map && Number.isInteger(row) && Number.isInteger(column)
      ? `${pieces[row]} → ${pieces[column]}: ${percent(weight(map[row * count + column]))}`
      : "Each row is a token that looks, each column a token that is looked at.";
  }

  // === One head ===

  const ROW = 24, GAP = 14, TOP = 6; // as in the style sheet
  const MOST = 3000; // lines drawn at once; if there are more, the heaviest
  const lists = { from: at("from"), to: at("to") };
  const middle = (index) => TOP + index * ROW + (second && index >= second ? GAP : 0) + ROW / 2;

  function buildTokens() {
    for (const [side, list] of Object.entries(lists)) {
      pieces.forEach((piece, index) => {
        const item = make("li", list);
        item.id = `${side}-${index}`;
        item.setAttribute("role", "option");
        item.classList.toggle("second", Boolean(second) && index === second);
        const label = make("span", item);
        label.title = piece;
        if (special.has(index)) label.classList.add("special");
        if (piece.startsWith("##") && piece.length > 2) {
          make("span", label, "##", "mark");
          label.append(piece.slice(2));
        } else label.append(piece);
        make("small", item);
        item.addEventListener("pointerenter", () => setActive({ side, index }));
        item.addEventListener("click", () => {
          const same = pinned && pinned.side === side && pinned.index === index;
          pinned = same ? null : { side, index };
          setActive(pinned);
        });
      });
      list.addEventListener("pointerleave", () => setActive(pinned));
      list.addEventListener("blur", () => setActive(pinned));
      list.addEventListener("keydown", (event) => walk(event, side));
    }
  }

  function walk(event, side) {
    const index = active && active.side === side ? active.index : -1;
    const next = { ArrowDown: index + 1, ArrowUp: index - 1, Home: 0, End: count - 1 }[event.key];
    if (event.key === "Escape") setActive((pinned = null));
    else if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      const other = event.key === "ArrowLeft" ? "from" : "to";
      lists[other].focus({ preventScroll: true });
      setActive({ side: other, index: Math.max(index, 0) });
    } else if (next !== undefined) {
      setActive({ side, index: Math.min(Math.max(next, 0), count - 1) });
      lists[side].children[active.index].scrollIntoView({ block: "nearest" });
    } else return;
    event.preventDefault();
  }

  /** The codes between the active token and each token of the other side. */
  function activeCodes() {
    const map = chosenMap();
    return pieces.map((_, other) =>
      active.side === "from" ? map[active.index * count + other] : map[other * count + active.index]);
  }

  function setActive(token) {
    active = token;
    showTokens();
    showReadout();
    showPlace();
    drawSoon();
  }

  function showTokens() {
    for (const [side, list] of Object.entries(lists)) {
      const codes = active && active.side !== side && maps[chosen.layer] ? activeCodes() : null;
      const rgb = `var(--${side === "to" ? "from" : "to"}-rgb)`;
      for (let index = 0; index < count; index++) {
        const item = list.children[index];
        const [label, share] = item.children;
        const selected = Boolean(active) && active.side === side && active.index === index;
        item.setAttribute("aria-selected", String(selected));
        label.style.background = codes ? `rgba(${rgb}, ${(codes[index] / 255) * 0.55})` : "";
        share.textContent = codes && weight(codes[index]) >= 0.005 ? percent(weight(codes[index])) : "";
      }
      if (active && active.side === side) list.setAttribute("aria-activedescendant", `${side}-${active.index}`);
      else list.removeAttribute("aria-activedescendant");
    }
  }

  function showReadout() {
    const readout = at("readout");
    readout.textContent = "";
    if (!active || !maps[chosen.layer]) {
      make("span", readout, "Point at a token on the left to see what it looks at, or on the right to see what looks " +
        "at it. Click to keep it selected; move with the arrow keys.", "hint");
      return;
    }
    const codes = activeCodes();
    const best = [...codes.keys()].sort((a, b) => codes[b] - codes[a]).slice(0, 6).filter((index) => codes[index] > 12);
    const line = make("span", readout, "", active.side);
    make("b", line, pieces[active.index]);
    line.append(active.side === "from" ? " looks at " : " is looked at by ");
    if (!best.length) line.append("all tokens a little");
    for (const [place, index] of best.entries()) {
      if (place) line.append(" · ");
      const item = make("i", line);
      make("b", item, pieces[index]);
      make("small", item, ` ${percent(weight(codes[index]))}`);
    }
  }

  // === Lines ===

  let lines = []; // of the chosen head: [code, from, to], the light ones first
  let waiting = false;

  function findLines() {
    lines = [];
    const map = chosenMap();
    if (!map) return;
    const leave = at("special").checked;
    const kept = (to) => !(leave && special.has(to));
    const seen = new Uint32Array(256);
    for (let from = 0; from < count; from++) {
      if (leave && special.has(from)) continue;
      for (let to = 0; to < count; to++) if (kept(to)) seen[map[from * count + to]]++;
    }
    let least = 255, total = seen[255];
    while (least > 13 && total + seen[least - 1] <= MOST) total += seen[--least]; // 13: a quarter of a hundredth
    for (let from = 0; from < count; from++) {
      if (leave && special.has(from)) continue;
      for (let to = 0; to < count; to++) {
        const code = map[from * count + to];
        if (code >= least && kept(to)) lines.push([code, from, to]);
      }
    }
    lines.sort((a, b) => a[0] - b[0]);
    at("drawn").textContent = `Lines show shares of ${percent(weight(least))} and more.`;
  }

  function drawSoon() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      draw();
    });
  }

  function draw() {
    const scroller = at("scroller"), canvas = at("lines"), context = canvas.getContext("2d");
    const width = scroller.clientWidth, height = scroller.clientHeight, scale = devicePixelRatio || 1;
    canvas.style.marginBottom = `-${height}px`;
    canvas.style.height = `${height}px`;
    if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
    }
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    if (!maps[chosen.layer]) return;
    const left = lists.from.offsetLeft + lists.from.offsetWidth + 2, right = lists.to.offsetLeft - 2;
    const style = getComputedStyle(document.documentElement);
    const scrolled = scroller.scrollTop;

    function line(code, heaviest, from, to, color) {
      const y1 = middle(from) - scrolled, y2 = middle(to) - scrolled;
      if (Math.max(y1, y2) < 0 || Math.min(y1, y2) > height) return;
      context.globalAlpha = 0.1 + 0.8 * (code / heaviest) ** 1.7;
      context.lineWidth = 0.6 + 3 * weight(code);
      context.strokeStyle = color;
      context.beginPath();
      context.moveTo(left, y1);
      context.bezierCurveTo((left + right) / 2, y1, (left + right) / 2, y2, right, y2);
      context.stroke();
    }

    if (!active) {
      const color = style.getPropertyValue("--from");
      const heaviest = lines.length && lines[lines.length - 1][0];
      for (const [code, from, to] of lines) line(code, heaviest, from, to, color);
      return;
    }
    const color = style.getPropertyValue(`--${active.side}`);
    const codes = activeCodes(), heaviest = Math.max(...codes);
    codes.forEach((code, other) => {
      if (code < 8) return;
      if (active.side === "from") line(code, heaviest, active.index, other, color);
      else line(code, heaviest, other, active.index, color);
    });
  }

  // === Choice ===

  function choose(layer, head) {
    if (layer < 0 || layer >= layers || head < 0 || head >= heads) return;
    const before = cells[chosen.layer][chosen.head];
    before.setAttribute("aria-pressed", "false");
    before.tabIndex = -1;
    Object.assign(chosen, { layer, head });
    cells[layer][head].setAttribute("aria-pressed", "true");
    cells[layer][head].tabIndex = 0;
    at("head-title").textContent = `Layer ${layer} · Head ${head}`;
    at("layer-down").disabled = layer === 0;
    at("layer-up").disabled = layer === layers - 1;
    at("head-down").disabled = head === 0;
    at("head-up").disabled = head === heads - 1;
    findLines();
    if (maps[layer]) paint(mapCanvas, chosenMap(), count, count);
    else mapCanvas.getContext("2d").clearRect(0, 0, mapCanvas.width, mapCanvas.height);
    setActive(active || pinned);
  }

  function buildControls() {
    at("layer-down").addEventListener("click", () => choose(chosen.layer - 1, chosen.head));
    at("layer-up").addEventListener("click", () => choose(chosen.layer + 1, chosen.head));
    at("head-down").addEventListener("click", () => choose(chosen.layer, chosen.head - 1));
    at("head-up").addEventListener("click", () => choose(chosen.layer, chosen.head + 1));
    at("special").addEventListener("change", () => {
      findLines();
      drawSoon();
    });
    at("scroller").addEventListener("scroll", drawSoon, { passive: true });
    new ResizeObserver(drawSoon).observe(at("scroller"));
    dark.addEventListener("change", () => {
      setRamp();
      paintLegend();
      thumbs.forEach((_, layer) => paintRow(layer));
      if (maps[chosen.layer]) paint(mapCanvas, chosenMap(), count, count);
      drawSoon();
    });
  }

  const paintLegend = () =>
    paint(document.querySelector("#legend canvas"), Uint8Array.from({ length: 256 }, (_, code) => code), 256, 1);

  function buildHeader() {
    const parts = [data.model, `${layers} layers × ${heads} heads`, `${count} tokens`];
    if (data.cut) parts.push("the text is truncated");
    document.title = `Attention: ${data.texts.join(" / ").slice(0, 60)}`;
    at("about").textContent = parts.filter(Boolean).join(" · ");
    data.texts.forEach((text, index) => {
      const row = make("div", at("texts"));
      make("dt", row, data.texts.length > 1 ? "AB"[index] : "");
      make("dd", row, text).dir = "auto";
    });
  }

  async function start() {
    buildHeader();
    setRamp();
    buildGrid();
    buildLegend();
    paintLegend();
    buildMap();
    buildTokens();
    buildControls();
    choose(0, 0);
    setActive(null);
    if (typeof DecompressionStream === "undefined") {
      at("readout").textContent = "This page needs a browser of 2023 or later.";
      return;
    }
    for (let layer = 0; layer < layers; layer++) {
      maps[layer] = await unpack(data.maps[layer]);
      thumbs[layer] = cells[layer].map((_, head) =>
        shrink(maps[layer].subarray(head * count * count, (head + 1) * count * count)));
      paintRow(layer);
      if (layer === chosen.layer) choose(layer, chosen.head);
    }
    document.body.dataset.ready = "yes";
  }

  start();
})();
