// Colours that colour-blind people can tell apart (Okabe and Ito), and a shape for every eight of them.

export const COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#7f7f7f"];

const UNSURE = [0.95, 0.8, 0.6, 0.4]; // probabilities of a value, below each of which it is drawn with more tint

// The mark of a value by its probability.
export function tint(sure) {
  const level = UNSURE.filter((limit) => sure < limit).length;
  return level ? `unsure-${level}` : "";
}

// Adds the shape of a value to a path.
export function addShape(path, value, x, y, r) {
  const corners = [0, 4, 3, 5, 6][Math.floor(value / COLOURS.length) % 5];
  if (corners === 0) {
    path.moveTo(x + r, y);
    path.arc(x, y, r, 0, 2 * Math.PI);
    return;
  }
  const turn = -Math.PI / 2 + (corners === 4 ? Math.PI / 4 : 0);
  for (let i = 0; i < corners; i++) {
    const angle = turn + (2 * Math.PI * i) / corners;
    const [cx, cy] = [x + 1.15 * r * Math.cos(angle), y + 1.15 * r * Math.sin(angle)];
    if (i === 0) path.moveTo(cx, cy);
    else path.lineTo(cx, cy);
  }
  path.closePath();
}

export function colourOf(value) {
  return COLOURS[value % COLOURS.length];
}

const isDark = matchMedia("(prefers-color-scheme: dark)");
let colours = null; // asked for once: the answer makes the browser work out the whole page
isDark.addEventListener("change", () => (colours = null));

// The page's colours as the style sheet has them now: light or dark.
export function theme() {
  if (colours === null) {
    const style = getComputedStyle(document.documentElement);
    const named = ["ink", "soft", "line", "paper", "hidden", "red", "accent", "edge", "block"];
    colours = Object.fromEntries(named.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  }
  return colours;
}

const sizes = new WeakMap(); // of canvases, in CSS pixels

// Draws a canvas again when its size has changed, and remembers the size.
export function watchSize(canvas, draw) {
  new ResizeObserver(([{ contentRect }]) => {
    sizes.set(canvas, contentRect);
    draw();
  }).observe(canvas);
}

// A canvas as sharp as the screen: its context, in CSS pixels, and its size. Null while it is not to be seen.
export function fit(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const { width = 0, height = 0 } = sizes.get(canvas) ?? {};
  if (!width || !height) return null;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return { context, width, height };
}

// An element with a class and a text; the text is never markup.
export function make(tag, className = "", text = "") {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text) element.textContent = text;
  return element;
}
