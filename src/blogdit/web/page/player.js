// Playback of one run or of several in step with each other: play, pause, step, back, slower, faster.
// A step has two moments: its block is hidden, then it is drawn.

import { make } from "./shapes.js";

const SPEEDS = [0.5, 1, 2, 4, 8, 15, 30, 60]; // steps a second
const FASTEST_SEEN = 8; // steps a second; above it a hidden block would only flicker

export class Player {
  constructor(element) {
    this.element = element;
    this.lanes = [];
    this.position = 0;
    this.playing = false;
    this.speed = 2;
    const button = (text, label, action) => {
      const made = make("button", "", text);
      made.type = "button";
      made.setAttribute("aria-label", label);
      made.title = label;
      made.addEventListener("click", action);
      return made;
    };
    this.toStart = button("|◀", "To the question", () => this.go(0));
    this.back = button("◀", "One moment back", () => this.move(-1));
    this.toggleButton = button("▶ Play", "Play", () => this.toggle());
    this.forward = button("▶", "One moment on", () => this.move(1));
    this.toEnd = button("▶|", "To the end", () => this.go(this.last));
    this.slower = button("−", "Slower", () => this.faster(-1));
    this.quicker = button("+", "Faster", () => this.faster(1));
    this.rate = make("output", "rate");
    this.slider = make("input", "time");
    Object.assign(this.slider, { type: "range", min: 0, max: 0, value: 0, step: 1 });
    this.slider.setAttribute("aria-label", "Step");
    this.slider.addEventListener("input", () => this.go(Number(this.slider.value)));
    const moves = make("span", "moves");
    moves.append(this.toStart, this.back, this.toggleButton, this.forward, this.toEnd);
    const speeds = make("span", "speeds");
    speeds.append(this.slower, this.rate, this.quicker);
    element.append(moves, this.slider, speeds);
    document.addEventListener("keydown", (event) => this.#key(event));
    this.faster(0);
    this.refresh();
  }

  #key(event) {
    if (event.target.closest?.("input, textarea, select, summary")) return; // it is typed there
    if (event.key === " " && event.target.closest?.("button, a")) return; // it is pressed
    if (event.ctrlKey || event.metaKey || event.altKey || this.element.hidden) return;
    const actions = {
      " ": () => this.toggle(), ArrowLeft: () => this.move(-1), ArrowRight: () => this.move(1),
      Home: () => this.go(0), End: () => this.go(this.last), "+": () => this.faster(1), "-": () => this.faster(-1),
    };
    if (actions[event.key]) {
      actions[event.key]();
      event.preventDefault();
    }
  }

  // How far all runs are known. Those that go on are waited for, so that runs stay in step.
  get last() {
    const end = (lane) => lane.run?.last ?? 0;
    const working = this.lanes.filter((lane) => lane.working);
    return working.length ? Math.min(...working.map(end)) : Math.max(0, ...this.lanes.map(end));
  }

  // Whether more steps may come.
  get live() {
    return this.lanes.some((lane) => lane.working);
  }

  watch(lanes) {
    this.lanes = lanes;
    this.position = 0;
    for (const lane of lanes) lane.onPick = (step) => this.go(step);
    this.refresh();
  }

  go(position) {
    this.pause();
    this.position = Math.max(0, Math.min(position, this.last));
    this.refresh();
  }

  // To the next or the last moment: a block is hidden, a block is drawn.
  move(direction) {
    const isMoment = (at) => at % 1 === 0 || this.lanes.some((lane) => lane.run?.hidesAt(at));
    const next = Math.floor(this.position * 2 + direction) / 2;
    this.go(isMoment(next) ? next : next + direction / 2);
  }

  toggle() {
    if (this.playing) this.pause();
    else this.play();
  }

  play() {
    if (this.position >= this.last && !this.live) this.position = 0;
    this.playing = true;
    this.then = null;
    this.refresh();
    this.#nextFrame();
  }

  // One loop of frames, however often play is asked for.
  #nextFrame() {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame((now) => this.#tick(now));
  }

  pause() {
    this.position = this.#moment();
    this.playing = false;
    this.refresh();
  }

  faster(change) {
    const at = Math.max(0, Math.min(SPEEDS.indexOf(this.speed) + change, SPEEDS.length - 1));
    this.speed = SPEEDS[at];
    this.rate.textContent = `${this.speed} step${this.speed === 1 ? "" : "s"}/s`;
    this.slower.disabled = at === 0;
    this.quicker.disabled = at === SPEEDS.length - 1;
  }

  #moment() {
    const isFast = this.playing && this.speed > FASTEST_SEEN;
    return isFast ? Math.floor(this.position) : Math.floor(this.position * 2) / 2;
  }

  #tick(now) {
    if (!this.playing) return;
    const passed = this.then ? Math.min(now - this.then, 250) / 1000 : 0;
    this.then = now;
    this.position = Math.min(this.position + passed * this.speed, this.last);
    if (this.#moment() !== this.drawn) this.refresh();
    if (this.position >= this.last && !this.live) this.pause();
    else this.#nextFrame();
  }

  refresh() {
    const { last } = this;
    const shown = this.#moment();
    this.drawn = shown;
    this.element.hidden = !this.lanes.some((lane) => lane.run || lane.working);
    this.element.dataset.moment = shown;
    this.slider.max = last;
    this.slider.value = Math.floor(shown);
    this.slider.setAttribute("aria-valuetext", `${Math.floor(shown)} of ${last}`);
    const label = this.playing ? "Pause" : "Play";
    if (this.toggleButton.dataset.label !== label) {
      this.toggleButton.dataset.label = label;
      this.toggleButton.textContent = this.playing ? "❚❚ Pause" : "▶ Play";
      this.toggleButton.setAttribute("aria-label", label);
      this.toggleButton.title = label;
    }
    for (const lane of this.lanes) {
      lane.element.classList.toggle("fast", this.playing && this.speed > FASTEST_SEEN);
      lane.show(Math.min(shown, lane.run?.last ?? 0));
    }
  }
}
