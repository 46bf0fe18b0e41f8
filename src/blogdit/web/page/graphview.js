// A graph on a canvas: colours and shapes are values, faint ones are unsure, red edges are violated.

import { addShape, colourOf, fit, make, theme, watchSize } from "./shapes.js";
import { layout } from "./layout.js";

const LEVELS = 4; // of confidence: vertices of one colour and level are drawn together

// The edges of a graph problem, or null if it is none.
export function edgesOf(question) {
  const pairs = (kind) => (question.constraints ?? []).filter((group) => group.kind === kind).flatMap((group) => group.pairs);
  if (question.problem === "coloring") return pairs("not_equal");
  if (question.problem === "mis") return pairs("conflict");
  return question.problem === "maxcut" ? (question.objective?.differ ?? []) : null;
}

export class GraphView {
  constructor(vertices, edges, problem, place = null) {
    this.element = make("canvas", "graph");
    this.element.setAttribute("role", "img");
    this.element.setAttribute("aria-label", `graph of ${vertices} vertices and ${edges.length} edges`);
    this.problem = problem;
    this.setGraph(vertices, edges, place);
    this.view = null;
    watchSize(this.element, () => this.draw());
  }

  setGraph(vertices, edges, place = null) {
    Object.assign(this, { vertices, edges, place: place ?? layout(vertices, edges), background: null });
  }

  show(view) {
    this.view = view;
    this.draw();
  }

  radiusIn(width, height) {
    return Math.max(2, Math.min(11, (Math.min(width, height) * 0.28) / Math.sqrt(this.vertices + 1)));
  }

  point(vertex, width, height) {
    const margin = this.radiusIn(width, height) * 2 + 4;
    const [x, y] = [this.place[2 * vertex], this.place[2 * vertex + 1]];
    return [margin + x * (width - 2 * margin), margin + y * (height - 2 * margin)];
  }

  // All edges, drawn once for a size and a theme.
  #edges(width, height, colours) {
    const key = [width, height, colours.edge, this.edges.length, window.devicePixelRatio].join();
    if (this.background?.key !== key) {
      const canvas = new OffscreenCanvas(this.element.width, this.element.height);
      const context = canvas.getContext("2d");
      context.scale(this.element.width / width, this.element.height / height);
      this.#stroke(context, this.edges, width, height, colours.edge, this.edges.length > 4000 ? 0.35 : 0.8);
      this.background = { key, canvas };
    }
    return this.background.canvas;
  }

  #stroke(context, edges, width, height, colour, thickness, alpha = 1) {
    context.beginPath();
    for (const [a, b] of edges) {
      context.moveTo(...this.point(a, width, height));
      context.lineTo(...this.point(b, width, height));
    }
    Object.assign(context, { strokeStyle: colour, lineWidth: thickness, globalAlpha: alpha });
    context.stroke();
    context.globalAlpha = 1;
  }

  draw() {
    const surface = fit(this.element);
    if (!surface) return;
    const { context, width, height } = surface;
    const colours = theme();
    context.clearRect(0, 0, width, height);
    context.drawImage(this.#edges(width, height, colours), 0, 0, width, height);
    const values = this.view?.values ?? null;
    if (this.problem === "maxcut" && values?.length && values[0] >= 0) {
      const cut = this.edges.filter(([a, b]) => values[a] !== values[b]);
      this.#stroke(context, cut, width, height, colours.ink, this.edges.length > 4000 ? 0.5 : 1.2);
    } else if (values) {
      const hidden = (vertex) => this.view.hides && this.view.block.has(vertex);
      const broken = this.view.violated.map((number) => this.edges[number]).filter(Boolean);
      const bad = broken.filter(([a, b]) => !hidden(a) && !hidden(b));
      this.#stroke(context, bad, width, height, colours.red, 2.5);
    }
    this.#vertices(context, width, height, colours);
  }

  #vertices(context, width, height, colours) {
    const [radius, view] = [this.radiusIn(width, height), this.view];
    const parts = new Map(); // a path for each way to look
    const rings = { drawn: new Path2D(), changed: new Path2D() };
    for (let v = 0; v < this.vertices; v++) {
      const [x, y] = this.point(v, width, height);
      const value = view?.values[v] ?? -1;
      const inBlock = view?.block.has(v);
      const hidden = value < 0 || (view.hides && inBlock);
      const level = hidden ? 0 : Math.ceil(Math.max(view.sure[v], 0.01) * LEVELS);
      const key = hidden ? "hidden" : `${value},${level}`;
      if (!parts.has(key)) parts.set(key, { path: new Path2D(), value, level, hidden });
      const shape = hidden ? 0 : this.problem === "maxcut" ? value * 8 : value; // the sides of a cut differ in shape, too
      addShape(parts.get(key).path, shape, x, y, radius);
      if (!inBlock || view.hides) continue;
      addShape(view.changed.has(v) ? rings.changed : rings.drawn, 0, x, y, radius + Math.max(1, radius * 0.3));
    }
    Object.assign(context, { strokeStyle: colours.block, lineWidth: radius > 4 ? 1.2 : 0.5 });
    context.stroke(rings.drawn);
    Object.assign(context, { strokeStyle: colours.accent, lineWidth: radius > 4 ? 2 : 1 });
    context.stroke(rings.changed);
    for (const { path, value, level, hidden } of parts.values()) {
      const out = this.problem === "mis" && value === 0;
      context.fillStyle = colours.paper;
      context.fill(path);
      context.fillStyle = hidden ? colours.hidden : out ? colours.paper : colourOf(value === 1 && this.problem === "mis" ? 0 : value);
      context.globalAlpha = hidden || out ? 1 : 0.25 + (0.75 * level) / LEVELS;
      context.fill(path);
      context.globalAlpha = 1;
      Object.assign(context, { strokeStyle: hidden ? colours.soft : colours.ink, lineWidth: radius > 4 ? 1 : 0.5 });
      context.stroke(path);
    }
  }

  describe(run, view) {
    const counts = view.violated.length ? `${view.violated.length} violated edges` : "no violated edge";
    return `${this.vertices} vertices, ${this.edges.length} edges, ${counts}`;
  }
}
