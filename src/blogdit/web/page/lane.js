// One run on the page: its picture, its curves, and the facts in words.

import { Curve } from "./curve.js";
import { edgesOf, GraphView } from "./graphview.js";
import { GridView } from "./gridview.js";
import { make } from "./shapes.js";
import { TableView } from "./tableview.js";

const VALID = ["solved", "optimal", "feasible"];
const MOST_LISTED = 4; // violated constraints

export function viewOf(run, place = null) {
  const edges = edgesOf(run.question);
  if (edges) return new GraphView(run.size, edges, run.question.problem, place);
  if (run.isGrid) return new GridView(Math.sqrt(run.size), run.question.problem === "sudoku");
  return new TableView(run);
}

// A lane for each run of a trace.
export function lanesOf(runs) {
  return runs.map((run) => {
    const lane = new Lane(run.name);
    lane.begin(run);
    return lane;
  });
}

export class Lane {
  constructor(title = "") {
    this.element = make("article", "lane");
    this.title = make("h2", "lane-title", title);
    this.picture = make("div", "picture");
    this.curve = new Curve("curve of every chain");
    this.curve.element.title = "A line for every chain; the thick one is in the picture. Click to go there.";
    this.curve.onPick = (step) => this.onPick(step);
    this.facts = make("dl", "facts");
    this.legend = legend();
    this.verdict = make("p", "verdict");
    this.verdict.setAttribute("role", "status");
    this.broken = make("ul", "broken");
    const words = [this.verdict, this.legend, this.facts, this.curve.element, this.broken];
    this.element.append(this.title, this.picture, ...words);
    this.rows = new Map();
    this.run = null;
    this.working = false;
    this.onPick = () => {}; // gets the step that was pointed at in the curve
  }

  setTitle(text) {
    this.title.textContent = text;
  }

  // A picture without a run: a puzzle that is typed, a graph that is drawn.
  preview(view, words) {
    this.run = null;
    this.#picture(view);
    this.verdict.textContent = words;
  }

  begin(run, place = null) {
    this.run = run;
    this.#picture(viewOf(run, place));
    this.show(0);
  }

  #picture(view) {
    this.view = view;
    this.picture.replaceChildren(view.element);
    this.legend.dataset.of = view.element.tagName === "CANVAS" ? "graph" : "cells";
    this.rows.clear();
    this.facts.replaceChildren();
    this.broken.replaceChildren();
    this.brokenKey = "";
    this.broken.hidden = this.curve.element.hidden = true;
    this.verdict.textContent = "";
    this.verdict.className = "verdict";
  }

  show(position) {
    const run = this.run;
    if (!run) return;
    const view = run.at(position);
    this.view.show(view, run.given);
    this.view.element.setAttribute("aria-label", `${run.name}: ${this.view.describe(run, view)}`);
    this.#curves(view);
    this.#facts(view);
    this.#verdict(view);
    this.#violated(view);
  }

  #curves(view) {
    const run = this.run;
    this.curve.element.hidden = run.steps.length < 2;
    if (run.steps.length < 2) return;
    const name = run.optimises ? "chain_objectives" : "chain_violations";
    if (this.plotted !== run.steps.length || this.plottedRun !== run) {
      const chains = run.steps[0][name]?.length ?? 0;
      const of = (step, chain) => (run.optimises ? run.objectiveOf(step[name][chain]) : step[name][chain]);
      const value = (step, chain) => (run.optimises && step.chain_violations[chain] ? null : of(step, chain));
      this.series = Array.from({ length: chains }, (_, chain) => run.steps.map((step) => value(step, chain)));
      Object.assign(this, { plotted: run.steps.length, plottedRun: run });
    }
    const what = run.optimises ? "objective, where valid" : "violated constraints";
    const label = this.series.length > 1 ? `${what}, each chain` : what;
    this.curve.set(this.series, Math.min(view.position, run.steps.length) - 1, label, null, !run.optimises);
  }

  #fact(name, value) {
    if (!this.rows.has(name)) {
      const [pair, detail] = [make("div"), make("dd")];
      pair.append(make("dt", "", name), detail);
      this.facts.append(pair);
      this.rows.set(name, detail);
    }
    const detail = this.rows.get(name);
    if (detail.textContent !== value) detail.textContent = value;
  }

  #facts(view) {
    const { run } = this;
    const { step } = view;
    const number = Math.min(view.position, run.steps.length);
    const seconds = run.steps.at(-1)?.seconds ?? 0;
    this.#fact("Step", `${number} of ${run.steps.length}`);
    this.#fact("Block", step ? `${step.block.length} of ${run.size - run.given.size} variables` : "none yet");
    this.#fact("Changed", step ? String(step.changed.length) : "none yet");
    this.#fact("Violated", view.isAnswer ? String(run.result.violations) : step ? String(step.violations) : "none yet");
    if (run.optimises) {
      const now = run.objectiveOf(view.isAnswer ? run.result.objective : step?.chain_objectives?.[0]);
      const best = run.objectiveOf(view.isAnswer ? run.result.objective : run.best[number - 1]?.objective);
      this.#fact("Objective", now === null ? "none yet" : shown(now));
      this.#fact("Best so far", best === null ? "none yet" : shown(best));
    } else {
      const fewest = view.isAnswer ? run.result.violations : run.fewest[number - 1];
      this.#fact("Best so far", fewest === undefined ? "none yet" : `${fewest} violated`);
    }
    this.#fact("Confidence", step ? `${Math.round(100 * step.confidence)} %` : "none yet");
    this.#fact("Speed", seconds ? `${(run.steps.length / seconds).toFixed(1)} steps/s` : "not known yet");
    this.#fact("Model", String(run.result?.model ?? run.settings?.model ?? "not known yet"));
    if (run.settings?.block) this.#fact("Block rule", run.settings.block);
  }

  // What happens at this moment, or at the end what the exact check says.
  #verdict(view) {
    const { run } = this;
    const valid = view.isAnswer && VALID.includes(run.result.status);
    const text = view.isAnswer ? this.#answer(run.result, valid) : this.#moment(view);
    if (this.verdict.textContent === text) return;
    this.verdict.setAttribute("aria-live", view.isAnswer ? "polite" : "off"); // steps would be read out without an end
    this.verdict.textContent = text;
    this.verdict.className = `verdict ${view.isAnswer ? (valid ? "good" : "bad") : ""}`;
  }

  #moment(view) {
    const { run } = this;
    const number = Math.min(view.position, run.steps.length);
    if (view.hides) return `Step ${number + 1}: a block of ${count(run.steps[number].block.length, "variable")} is hidden.`;
    if (this.working && this.waiting && number === run.steps.length) return "The finisher is at work.";
    if (!view.step) return `The question: ${count(run.size - run.given.size, "open variable")}.`;
    const { changed, violations, chain_objectives: objectives } = view.step;
    const value = run.optimises ? `, objective ${shown(run.objectiveOf(objectives[0]))}` : "";
    const wrong = run.mustHold ? `, ${violations} violated` : "";
    return `Step ${number}: the block is drawn anew. ${changed.length} changed${value}${wrong}.`;
  }

  #answer(result, valid) {
    const { run } = this;
    const who = result.found_by === "sampler" ? `the sampler in ${count(result.steps, "step")}` : (result.found_by ?? "nobody");
    const total = run.mustHold;
    const checked = valid
      ? `exact check: ${total ? `all ${total} constraints hold` : "valid"}`
      : `exact check: ${result.violations} of ${total} constraints violated`;
    const proof = result.proved_by ? `, proved by ${result.proved_by}` : "";
    const value = result.objective == null ? "" : `, objective ${shown(run.objectiveOf(result.objective))}`;
    const cut = run.complete ? "" : " Stopped before its budget was spent.";
    return `${valid ? "✓" : "✗"} ${result.status}${value}${proof}. Found by ${who}; ${checked}.${cut}`;
  }

  #violated(view) {
    const { run } = this;
    this.broken.hidden = false;
    const lines = view.violated.slice(0, MOST_LISTED).map((number) => run.wordsOf(number, view)).filter(Boolean);
    const more = view.violated.length - MOST_LISTED;
    if (more > 0 && !view.hides) lines.push(`and ${more} more violated`);
    const key = lines.join("\n");
    if (this.brokenKey === key) return;
    this.brokenKey = key;
    this.broken.replaceChildren(...lines.map((line) => {
      const item = make("li", "", line);
      item.title = line;
      return item;
    }));
  }
}

function legend() {
  const words = [["hides", "hidden block"], ["ring", "just drawn"], ["unsure", "unsure"], ["red", "violated"]];
  const line = make("p", "legend");
  line.append(...words.map(([mark, text]) => {
    const part = make("span");
    part.append(make("span", `mark ${mark}`), text);
    return part;
  }));
  return line;
}

function count(number, what) {
  return `${number} ${what}${number === 1 ? "" : "s"}`;
}

function shown(number) {
  return String(Number(Number(number).toPrecision(8)));
}
