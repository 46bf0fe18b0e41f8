// A run as a trace tells it: the question, every step, the result. Any moment of it can be looked at.

const CHECKPOINT = 64; // steps between two states that are kept whole: going back replays at most so many

// Every constraint, group after group, as the numbers of a trace count them; soft ones have what they cost.
export function scopesOf(question) {
  const scopes = [];
  for (const group of question.constraints ?? []) {
    const rows = group.pairs ?? group.scopes ?? [];
    rows.forEach((row, index) => {
      const more = group.results === undefined ? [] : [group.results[index]];
      const condition = group.when === undefined ? [] : [group.when[index][0]];
      const cost = Array.isArray(group.weight) ? group.weight[index] : (group.weight ?? null);
      const variables = [...new Set([...row, ...more, ...condition])];
      scopes.push({ kind: group.which ?? group.kind, variables, cost, offsets: group.offsets?.[index] ?? null });
    });
  }
  return scopes;
}

export class Run {
  constructor(record) {
    this.question = record.question;
    this.settings = record.settings ?? null;
    this.name = record.instance;
    this.size = record.question.domain_sizes.length;
    this.scopes = scopesOf(record.question);
    this.mustHold = this.scopes.filter(({ cost }) => cost === null).length;
    this.given = new Map(record.question.givens ?? []);
    this.steps = [];
    this.result = null;
    this.checkpoints = new Map();
    this.best = []; // after each step: the best answer so far
    this.fewest = []; // after each step: the fewest violated constraints of a chain so far
  }

  add(record) {
    if (record.result) {
      this.result = record.result;
      this.broken = record.violated ?? []; // what the answer violates
      this.complete = record.complete !== false;
    } else if (record.step) {
      this.steps.push(record);
      this.best.push(record.best ?? this.best.at(-1) ?? null);
      this.fewest.push(Math.min(...(record.chain_violations ?? [record.violations]), this.fewest.at(-1) ?? Infinity));
    }
  }

  // Positions 0 (the question) to `last`: the steps, and the answer if there is one.
  get last() {
    return this.steps.length + (this.result ? 1 : 0);
  }

  get optimises() {
    return this.question.objective !== undefined || (this.question.constraints ?? []).some((g) => g.weight !== undefined);
  }

  start() {
    const values = new Int32Array(this.size).fill(-1);
    for (const [variable, value] of this.given) values[variable] = value;
    return { values, sure: new Float32Array(this.size) };
  }

  // Values and confidences after a number of steps; -1 is an open variable.
  #reach(number) {
    let from = number - (number % CHECKPOINT);
    while (from > 0 && !this.checkpoints.has(from)) from -= CHECKPOINT;
    let kept = this.checkpoints.get(from) ?? this.start();
    if (this.cached?.number > from && this.cached.number <= number) [from, kept] = [this.cached.number, this.cached.state];
    const state = { values: kept.values.slice(), sure: kept.sure.slice() };
    for (let at = from; at < number; at++) {
      const step = this.steps[at];
      if (step.values) {
        state.values.set(step.values);
        step.sure.forEach((sure, variable) => (state.sure[variable] = sure / 100));
      } else {
        step.changed.forEach((variable, i) => (state.values[variable] = step.to[i]));
        step.block.forEach((variable, i) => (state.sure[variable] = step.sure[i] / 100));
      }
      if ((at + 1) % CHECKPOINT === 0 && !this.checkpoints.has(at + 1)) {
        this.checkpoints.set(at + 1, { values: state.values.slice(), sure: state.sure.slice() });
      }
    }
    return state;
  }

  // Half-way to the next step its block is hidden.
  hidesAt(position) {
    return position % 1 >= 0.5 && this.steps[Math.floor(position)] !== undefined;
  }

  // What is to be seen at a position.
  at(position) {
    const whole = Math.min(Math.floor(position), this.last);
    const number = Math.min(whole, this.steps.length);
    if (this.cached?.number !== number) this.cached = { number, state: this.#reach(number) };
    const step = this.steps[number - 1] ?? null;
    const next = this.steps[number] ?? null;
    const hides = this.hidesAt(position);
    const isAnswer = whole > this.steps.length;
    const view = {
      position: whole, step, isAnswer, hides,
      values: this.cached.state.values, sure: this.cached.state.sure,
      block: new Set(hides ? next.block : (step?.block ?? [])),
      changed: new Set(hides ? [] : (step?.changed ?? [])),
      violated: step?.violated ?? [],
    };
    if (isAnswer) {
      const values = Int32Array.from(this.result.values);
      Object.assign(view, { values, sure: new Float32Array(this.size).fill(1), block: new Set(), changed: new Set() });
      view.violated = this.broken;
    }
    return Object.assign(view, this.#marks(view));
  }

  // The variables of violated constraints, of those that must hold and of soft ones. Of variables that must differ
  // only the equal ones are marked; what a hidden variable has to do with is not known.
  #marks(view) {
    const [clashing, unmet] = [new Set(), new Set()];
    for (const number of view.violated) {
      const { cost } = this.scopes[number] ?? {};
      for (const variable of this.#guilty(number, view)) (cost === null ? clashing : unmet).add(variable);
    }
    return { clashing, unmet };
  }

  #guilty(number, { values, hides, block }) {
    const { kind, variables, offsets } = this.scopes[number] ?? { variables: [] };
    const isSeen = (variable) => !hides || !block.has(variable) || this.given.has(variable);
    const taken = variables.map((variable, at) => {
      return isSeen(variable) ? this.#meaning(variable, values[variable], offsets?.[at]) : NaN;
    });
    if (kind !== "all_different" && kind !== "not_equal") return variables.every(isSeen) ? variables : [];
    return variables.filter((_, at) => taken.indexOf(taken[at]) !== taken.lastIndexOf(taken[at])); // NaN is in no place
  }

  // What a value stands for where values are compared: a number with its offset, or a name.
  #meaning(variable, value, offset = 0) {
    const row = this.#namesOf(variable);
    const meant = row ? row[value] : value;
    return offset ? Number(meant) + offset : meant;
  }

  #namesOf(variable) {
    const { values } = this.question;
    return Array.isArray(values?.[0]) ? values[variable] : values;
  }

  // One violated constraint in words, if enough of it is seen.
  wordsOf(number, view) {
    const guilty = this.#guilty(number, view);
    if (!guilty.length) return "";
    const { kind, cost } = this.scopes[number];
    const named = (variable) => `${this.nameOf(variable)} = ${this.valueOf(variable, view.values[variable])}`;
    const shown = guilty.slice(0, 9).map(this.isGraph ? (variable) => this.nameOf(variable) : named);
    const price = cost === null ? "" : `, costs ${cost}`;
    return `${kind.replace("_", " ")}${price}: ${shown.join(", ")}${guilty.length > 9 ? ", …" : ""}`;
  }

  get isGraph() {
    return ["coloring", "maxcut", "mis"].includes(this.question.problem);
  }

  get isGrid() {
    return this.question.problem === "sudoku" || this.question.problem === "latin";
  }

  nameOf(variable) {
    const label = this.question.labels?.[variable];
    return label === undefined ? String(variable + 1) : Array.isArray(label) ? label.join(" ") : String(label);
  }

  // What a value is called: a digit, a name, a number.
  valueOf(variable, value) {
    if (value < 0) return "";
    if (this.isGrid) return symbol(value);
    const base = this.settings?.shown?.bases[variable] ?? 0;
    return String(this.#namesOf(variable)?.[value] ?? value + base);
  }

  // An objective in the numbers of the model that was asked for.
  objectiveOf(number) {
    return number === null || number === undefined ? null : number + (this.settings?.shown?.constant ?? 0);
  }
}

export function symbol(value) {
  return value < 9 ? String(value + 1) : String.fromCharCode(65 + value - 9);
}

// The runs of a trace, one for each instance; of an instance that was begun again the last one.
export class Runs {
  constructor() {
    this.byName = new Map();
  }

  add(record) {
    if (record.question) this.byName.set(record.instance, new Run(record));
    else this.byName.get(record.instance)?.add(record);
  }

  get all() {
    return [...this.byName.values()];
  }
}

// The runs of a trace, from its lines of JSON.
export function runsOf(text) {
  const runs = new Runs();
  for (const line of text.split("\n")) {
    if (!line.trim()) continue;
    try {
      runs.add(JSON.parse(line));
    } catch (error) {
      if (error instanceof SyntaxError) break; // a run that was killed has left half a line
      throw error;
    }
  }
  return runs.all;
}
