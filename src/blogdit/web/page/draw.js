// Draw a graph: click for a vertex, drag from one vertex to another for an edge, click both again to take it away.

import { GraphView } from "./graphview.js";

const REACH = 18; // pixels around a vertex that count as the vertex

export class GraphPad {
  constructor(onChange) {
    this.onChange = onChange;
    this.drawing = false;
    this.view = new GraphView(0, [], "coloring", new Float64Array(0));
    const canvas = this.view.element;
    canvas.addEventListener("pointerdown", (event) => this.#down(event));
    canvas.addEventListener("pointerup", (event) => this.#up(event));
  }

  set(vertices, edges, place = null) {
    this.view.setGraph(vertices, edges, place);
    this.view.show(null);
    this.#name();
  }

  #name() {
    const { vertices, edges, element } = this.view;
    element.setAttribute("aria-label", `graph of ${vertices} vertices and ${edges.length} edges`);
  }

  #where(event) {
    const box = this.view.element.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top, box.width, box.height];
  }

  #nearest(x, y, width, height) {
    let [found, best] = [-1, REACH];
    for (let v = 0; v < this.view.vertices; v++) {
      const [vx, vy] = this.view.point(v, width, height);
      const far = Math.hypot(vx - x, vy - y);
      if (far < best) [found, best] = [v, far];
    }
    return found;
  }

  #down(event) {
    if (!this.drawing) return;
    this.view.element.setPointerCapture(event.pointerId);
    const [x, y, width, height] = this.#where(event);
    this.from = this.#nearest(x, y, width, height);
    if (this.from < 0) this.from = this.#add(x, y, width, height);
  }

  #up(event) {
    if (!this.drawing || this.from === undefined) return;
    const to = this.#nearest(...this.#where(event));
    if (to >= 0 && to !== this.from) this.#toggle(Math.min(this.from, to), Math.max(this.from, to));
    this.from = undefined;
    this.#name();
    this.view.draw();
    this.onChange(this.view.vertices, this.view.edges);
  }

  #add(x, y, width, height) {
    const margin = this.view.radiusIn(width, height) * 2 + 4;
    const share = (at, size) => Math.max(0, Math.min(1, (at - margin) / (size - 2 * margin)));
    const place = Float64Array.from([...this.view.place, share(x, width), share(y, height)]);
    this.view.setGraph(this.view.vertices + 1, this.view.edges, place);
    return this.view.vertices - 1;
  }

  #toggle(a, b) {
    const others = this.view.edges.filter(([c, d]) => c !== a || d !== b);
    const edges = others.length < this.view.edges.length ? others : [...others, [a, b]];
    this.view.setGraph(this.view.vertices, edges, this.view.place);
  }
}
