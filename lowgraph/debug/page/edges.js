"use strict";
// Edges as paths: straight to the node below, beside the lane past others, curved into a lane.

const TURN = 16; // pixels that an edge needs to change lanes: what lies between two boxes
const PORT = 0.75; // share of a box's width at which edges meet it, beside a frame's name
const MOST_EDGES = 3000; // drawn at once; more is a solid area, and slow

/** All edges of a graph: [from, to, top, bottom, left, right, room above the target's box]. */
function edgesOf(graph) {
  const room = new Map();
  graph.downwards.forEach((node, place) => {
    const above = place ? graph.downwards[place - 1].y : node.y;
    if (node.y > above) room.set(node.y, Math.max(TURN, node.y - above - graph.row));
  });
  return graph.nodes.flatMap((to) => to.waits.map((start) => {
    const from = graph.nodes[start];
    const right = Math.max(from.x + from.width, to.x + to.width) + 40;
    return [from, to, from.y + graph.row, to.y, Math.min(from.x, to.x), right, room.get(to.y)];
  }));
}

function port(node) {
  return node.x + node.width * PORT;
}

/** Commands of a path that changes from one x to another between y and y + TURN. */
function turn(from, to, y) {
  return `C${from} ${y + TURN} ${to} ${y} ${to} ${y + TURN}`;
}

/** An edge as commands of a path; `place` spreads edges that run beside each other. */
function edgePath([from, to, top, bottom, , , room], place) {
  const start = port(from);
  const end = port(to);
  if (bottom - top <= room) {
    return start === end ? `M${start} ${top}V${bottom}`
      : `M${start} ${top}${turn(start, end, top)}V${bottom}`;
  }
  const aside = from.x + from.width + 12 + (place % 4) * 5;
  const into = bottom - room; // above a frame's name
  return `M${start} ${top}${turn(start, aside, top)}V${into}${turn(aside, end, into)}V${bottom}`;
}

function arrowHead([, to]) {
  return `M${port(to)} ${to.y}l-4 -6h8z`;
}

/** The edges of a pane: one path for each look, so that thousands are a few elements. */
class EdgeLayer {
  constructor(graph) {
    this.graph = graph;
    this.edges = edgesOf(graph);
    this.element = svg("svg", "edges");
    this.paths = new Map();
    for (const look of ["plain", "path", "in", "out"]) {
      const line = svg("path", `edge ${look}`);
      const head = svg("path", `head ${look}`);
      this.element.append(line, head);
      this.paths.set(look, [line, head]);
    }
  }

  /** Draw what crosses the window [left, top, right, bottom]; returns how many were left out. */
  draw(window, selected, path) {
    const [left, top, right, bottom] = window;
    const drawn = new Map([...this.paths.keys()].map((look) => [look, [[], []]]));
    let count = 0;
    this.edges.forEach((edge, place) => {
      if (edge[3] < top || edge[2] > bottom || edge[5] < left || edge[4] > right) return;
      const look = this.look(edge, selected, path);
      if (look === "plain") {
        count += 1;
        if (count > MOST_EDGES) return;
      }
      const [lines, heads] = drawn.get(look);
      lines.push(edgePath(edge, place));
      heads.push(arrowHead(edge));
    });
    for (const [look, [line, head]] of this.paths) {
      const [lines, heads] = drawn.get(look);
      line.setAttribute("d", lines.join(""));
      head.setAttribute("d", heads.join(""));
    }
    return Math.max(0, count - MOST_EDGES);
  }

  look([from, to], selected, path) {
    if (selected === to) return "in";
    if (selected === from) return "out";
    return path && from.onPath && to.onPath ? "path" : "plain";
  }
}
