// Elements and numbers. Texts of the user and of the server only ever become text nodes, never HTML.

const data = JSON.parse(document.getElementById("data").textContent);
const at = (id) => document.getElementById(id);

function make(tag, parent, text = "", className = "") {
  const element = document.createElement(tag);
  element.textContent = text;
  if (className) element.className = className;
  parent.append(element);
  return element;
}

const percent = (share) => `${(100 * share).toFixed(1)} %`;
const count = (number, thing) => `${number.toLocaleString("en")} ${thing}${number === 1 ? "" : "s"}`;

/** A row of buttons with one tab stop, and arrow keys within it, as ARIA's toolbars have. */
function toolbar(parent, label, className = "toolbar") {
  const bar = make("div", parent, "", className);
  bar.setAttribute("role", "toolbar");
  bar.setAttribute("aria-label", label);
  const stop = (button) => {
    for (const other of bar.querySelectorAll('[tabindex="0"]')) other.tabIndex = -1;
    button.tabIndex = 0;
  };
  bar.addEventListener("focusin", (event) => stop(event.target));
  bar.addEventListener("keydown", (event) => {
    const buttons = [...bar.querySelectorAll("button")], here = buttons.indexOf(event.target);
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const next = event.key === "Home" ? 0 : event.key === "End" ? buttons.length - 1 : here + step;
    if (!buttons[next]) return;
    event.preventDefault();
    buttons[next].focus();
  });
  bar.add = (text, className) => {
    const button = make("button", bar, text, className);
    button.type = "button";
    button.tabIndex = bar.children.length === 1 ? 0 : -1;
    return button;
  };
  return bar;
}

/** A function from characters, as the server counts them, to the UTF-16 units that JavaScript counts. */
function unitOf(text) {
  if (!/[\ud800-\udfff]/.test(text)) return (character) => character;
  const begins = [0];
  for (const character of text) begins.push(begins[begins.length - 1] + character.length);
  return (character) => begins[character];
}

/** The beginning of a long text, without half a surrogate pair at its end. */
const clipped = (text, units) => (text.length <= units ? text : text.slice(0, units).replace(/[\ud800-\udbff]$/, ""));
