// How to solve: every control with one line that says what it does.

import { make } from "./shapes.js";

const BLOCKS = [
  ["", "the model's", "The rule that is stored with the model; the page says which it was."],
  ["random", "random", "Each free variable is in the block with the same probability."],
  ["margin", "margin", "The variables that the sampler is least sure of."],
  ["critical", "critical", "Variables of violated constraints first."],
  ["related", "related", "All variables of constraints that are drawn at random."],
  ["all", "all", "Everything at once: diffusion without blocks (DiT)."],
];
const BUNDLED = ["", "the problem's", "The bundled network for this kind of problem; the page says which it was."];
const FINISHERS = [
  ["auto", "auto", "A search that fits the problem follows the sampler, if it is not done."],
  ["none", "none", "The sampler alone."],
  ["exact", "exact", "CP-SAT follows; only it can prove something."],
  ["annealing", "annealing", "Simulated annealing follows: cuts, weighted sets."],
  ["swaps", "swaps", "Swaps of vertices follow: independent sets."],
  ["tabu", "tabu", "Tabu search follows: colourings."],
  ["descent", "descent", "Greedy moves follow until none helps."],
];
// Pairs of runs: what each side changes, and how it is called when the server has said what it took.
const COMPARISONS = {
  "": ["nothing", "One run.", [{}], () => ""],
  margin: [
    "margin against random", "Blocks of the least certain variables, and random ones.",
    [{ block: "margin" }, { block: "random" }], ({ block }) => `${block} blocks`,
  ],
  random: [
    "this rule against random", "The block rule above, and random blocks.",
    [{}, { block: "random" }], ({ block }) => `${block} blocks`,
  ],
  untrained: [
    "trained against untrained", "The network, and the same network before training.",
    [{}, { model: "untrained" }], ({ model }) => (model.endsWith("untrained") ? "untrained" : `trained: ${model}`),
  ],
  dit: [
    "blocked against DiT", "The network, and one that was trained to draw everything at once.",
    [{}, { model: "dit", block: "all" }], ({ model, block }) => (block === "all" ? `DiT: ${model}` : `blocked: ${model}`),
  ],
  all: [
    "blocked against all at once", "The same weights: a block, or every variable, in each step.",
    [{}, { block: "all" }], ({ block }) => (block === "all" ? "everything at once" : `${block} blocks`),
  ],
  seed: [
    "another seed", "The same with other random numbers.",
    [{}, { seed: 1 }], ({ options }) => `seed ${options.seed}`,
  ],
};

export class SettingsPanel {
  constructor(element) {
    this.element = element;
    this.models = [];
    this.inputs = {};
    this.#choice("block", "Block rule", BLOCKS);
    this.#pair();
    this.#number("chains", "Chains", 1, 1, 16, "Independent runs of the sampler; the picture shows the first.");
    this.#number("steps", "Steps", 200, 1, 5000, "The sampler's budget. It ends earlier when a puzzle is solved.");
    this.#choice("finish", "Finisher", FINISHERS);
    this.#choice("model", "Model", [BUNDLED]);
    this.#number("seed", "Seed", 0, 0, 2 ** 31, "The same seed and settings give the same run.");
    this.#choice("vs", "Side by side", Object.entries(COMPARISONS).map(([value, [text, why]]) => [value, text, why]));
  }

  #field(name, label, input, why) {
    const box = make("div", "control");
    const row = make("label", "row", label);
    row.append(input);
    const words = make("p", "why", why);
    words.id = `why-${name}`;
    input.id = `set-${name}`;
    input.setAttribute("aria-describedby", words.id);
    box.append(row, words);
    this.element.append(box);
    this.inputs[name] = input;
    return words;
  }

  #choice(name, label, choices) {
    const select = make("select");
    const words = this.#field(name, label, select, choices[0][2]);
    this.#fill(select, choices);
    select.addEventListener("change", () => {
      words.textContent = select.selectedOptions[0]?.dataset.why ?? "";
    });
  }

  #fill(select, choices) {
    select.replaceChildren(...choices.map(([value, text, why]) => {
      const option = make("option", "", text);
      option.value = value;
      option.dataset.why = why;
      return option;
    }));
  }

  #number(name, label, value, min, max, why) {
    const input = make("input");
    Object.assign(input, { type: "number", min, max, value });
    this.#field(name, label, input, why);
  }

  #pair() {
    const box = make("div", "control");
    const row = make("div", "row", "Share, %");
    const pair = make("span", "pair");
    for (const [name, label] of [["from", "Largest share of the variables in a block, per cent"], ["to", "Smallest share"]]) {
      const input = make("input");
      Object.assign(input, { type: "number", min: 1, max: 100, id: `set-${name}`, placeholder: name });
      input.setAttribute("aria-label", label);
      input.setAttribute("aria-describedby", "why-share");
      pair.append(input);
      this.inputs[name] = input;
    }
    const words = make("p", "why", "How much of the problem a block holds, at the start and at the end of a cycle.");
    words.id = "why-share";
    row.append(pair);
    box.append(row, words);
    this.element.append(box);
  }

  setModels(models) {
    this.models = models;
    const rows = models.map(({ name, summary }) => [name, name, summary]);
    this.#fill(this.inputs.model, [BUNDLED, ...rows]);
  }

  // What the server takes at most.
  setLimits({ chains, steps }) {
    this.inputs.chains.max = chains;
    this.inputs.steps.max = steps;
  }

  // What the controls say, as texts.
  values() {
    return Object.fromEntries(Object.entries(this.inputs).map(([name, input]) => [name, input.value]));
  }

  set(values) {
    for (const [name, input] of Object.entries(this.inputs)) {
      if (values[name] === undefined) continue;
      input.value = values[name];
      input.dispatchEvent(new Event("change"));
    }
  }

  // The part of a request that says how to solve; `changed` is laid over what the controls say.
  request(changed = {}) {
    const { block, from, to, chains, steps, finish, model, seed } = { ...this.values(), ...changed };
    const options = { finish, chains: Number(chains || 1), steps: Number(steps || 200), seed: Number(seed || 0) };
    if (block) options.block = block;
    const asked = { options };
    if (model) asked.model = model;
    if (from || to) {
      const largest = Number(from || to) / 100;
      asked.share = [largest, Math.min(Number(to || from) / 100, largest)];
    }
    return asked;
  }

  // The runs to make: one, or two side by side. The title of a run depends on what the server has taken for it.
  runs() {
    const { vs, seed } = this.values();
    const [, , sides, title] = COMPARISONS[vs];
    return sides.map((changed) => {
      const { seed: more = 0, ...others } = changed;
      return { title, request: this.request({ ...others, seed: Number(seed || 0) + more }) };
    });
  }
}
