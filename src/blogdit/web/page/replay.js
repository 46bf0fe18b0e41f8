// The page of `blogdit export`: a trace that lies in the page itself.

import { Lane } from "./lane.js";
import { Player } from "./player.js";
import { runsOf } from "./trace.js";

async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

async function replay(text) {
  const player = new Player(document.getElementById("transport"));
  const lanes = runsOf(await unpacked(text)).map((run) => {
    const lane = new Lane(run.name);
    document.getElementById("lanes").append(lane.element);
    lane.begin(run);
    return lane;
  });
  player.watch(lanes);
  player.play();
}

const packedTrace = document.getElementById("trace");
if (packedTrace) replay(packedTrace.textContent.trim());
