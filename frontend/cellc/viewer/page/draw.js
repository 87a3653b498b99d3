// How a node, a box and an edge look. Every text of a network is set as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";
const LINE = 15, NARROW = 84, BROAD = 270, MOST_CHIPS = 3;

const pen = document.createElement("canvas").getContext("2d");
const widths = new Map();

/** How wide a text is on a node; ops and names are bold. */
function width(text, bold) {
  const key = `${bold}${text}`;
  if (!widths.has(key)) {
    pen.font = `${bold ? "600 12.5px" : "11px"} ${getComputedStyle(document.body).fontFamily}`;
    widths.set(key, pen.measureText(text).width);
  }
  return widths.get(key);
}

const svg = (tag, attrs = {}, ...children) => {
  const e = document.createElementNS(SVG, tag);
  for (const [k, v] of Object.entries(attrs)) e.setAttribute(k, v);
  e.append(...children);
  return e;
};

/** An HTML element; children that are strings become text. */
const html = (tag, attrs = {}, ...children) => {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attrs)) {
    if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
    else if (k === "class") e.className = v;
    else if (k.startsWith("aria-")) e.setAttribute(k, v);
    else if (v !== null && v !== false) e.setAttribute(k, v === true ? "" : v);
  }
  e.append(...children.filter((c) => c !== null && c !== undefined));
  return e;
};

const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

/** The end of a path says more than its beginning. */
const tail = (text, most) => (text.length > most ? `…${text.slice(1 - most)}` : text);

/** What is written on a node: lines of [class, text]; `cell` is that of which it is the only node. */
function lines(graph, stage, uid, cell) {
  const n = graph.nodes[uid];
  const out = [["op", cut(n.op, 34)]];
  if (cell) out.unshift(["cell", tail(cell, 34)]);
  const types = n.types.length > 2 ? [...n.types.slice(0, 2), "…"] : n.types;
  if (types.length) out.push(["type", cut(types.join("  "), 38)]);
  const chips = graph.chips(uid, stage);
  for (const c of chips.slice(0, MOST_CHIPS)) {
    out.push([c.weight ? "weight" : "const", c.weight ? tail(c.text, 34) : cut(c.text, 26)]);
  }
  if (chips.length > MOST_CHIPS) out.push(["const", `and ${chips.length - MOST_CHIPS} more`]);
  const writes = graph.writes(uid, stage);
  if (writes.length) out.push(["update", `→ ${tail(writes.join(", "), 32)}`]);
  return out;
}

function measure(graph, stage, item) {
  if (item.kind === "box") {
    return { w: Math.min(Math.max(width(item.box.l, true) + 42, 126), 300), h: 46 };
  }
  if (item.kind === "end") {
    const [name, type] = endText(graph, stage, item.name);
    return { w: Math.max(width(name, true), width(type, false)) + 32, h: 38 };
  }
  const text = lines(graph, stage, item.name, item.cell);
  const longest = Math.max(...text.map(([kind, t]) => width(t, kind === "op")));
  return { w: Math.min(Math.max(longest + 30, NARROW), BROAD), h: text.length * LINE + 13 };
}

/** An input `i<value>` or output `o<position>` of a graph: its name and type. */
function endText(graph, stage, name, inside) {
  const number = parseInt(name.slice(1), 10);
  if (name[0] === "o") {
    const outputs = (inside ?? stage.graph).outputs;
    const v = outputs[number] ?? outputs[0];
    return [`output ${number}`, graph.value(v).type];
  }
  const value = graph.value(number);
  const outer = stage.outer(number);
  const shown = outer !== number ? `← ${graph.valueName(number, stage)}` : value.name;
  return [cut(shown || value.name, 40), value.type];
}

function drawNode(graph, stage, item) {
  const n = graph.nodes[item.name];
  const g = svg("g", { class: `node ${n.kind} ${n.part}`, "data-name": item.name, role: "button",
    tabindex: -1, transform: `translate(${item.x},${item.y})`,
    "aria-label": `${n.op} ${n.types.join(" ")}${n.where ? ` at ${n.where}` : ""}` });
  g.append(svg("rect", { class: "card", width: item.w, height: item.h, rx: 6 }),
    svg("rect", { class: "mark", width: 5, height: item.h - 10, x: 4, y: 5, rx: 2 }));
  lines(graph, stage, item.name, item.cell).forEach(([kind, text], i) => {
    const t = svg("text", { class: kind, x: 16, y: 19 + i * LINE });
    t.textContent = text;
    g.append(t);
  });
  return g;
}

function drawEnd(graph, stage, item) {
  const [name, type] = endText(graph, stage, item.name, item.graph);
  const g = svg("g", { class: `end ${item.name[0] === "i" ? "input" : "output"}`,
    "data-name": item.name, tabindex: -1, role: "button",
    transform: `translate(${item.x},${item.y})`, "aria-label": `${name} ${type}` });
  g.append(svg("rect", { class: "card", width: item.w, height: item.h, rx: 19 }));
  [["op", name, 16], ["type", type, 30]].forEach(([kind, text, y]) => {
    const t = svg("text", { class: kind, x: item.w / 2, y, "text-anchor": "middle" });
    t.textContent = text;
    g.append(t);
  });
  return g;
}

/** A Cell, folded or unfolded; a region or the node that holds regions. */
function drawBox(item, label, detail, open, depth) {
  const g = svg("g", { class: `box ${open ? "open" : "folded"} level${depth % 3} ${item.kind}`,
    "data-name": item.name, role: "button", tabindex: -1, "aria-expanded": open,
    transform: `translate(${item.x},${item.y})`, "aria-label": `${label}, ${detail}` });
  g.append(svg("rect", { class: "card", width: item.w, height: item.h, rx: 9 }));
  if (!open) {
    g.append(svg("rect", { class: "stack", width: item.w - 14, height: 4, x: 7, y: item.h, rx: 2 }));
  }
  const name = svg("text", { class: "name", x: 24, y: 20 });
  name.textContent = cut(label, Math.max(Math.floor((item.w - 36) / 7.2), 6));
  const sign = svg("path", { class: "fold",
    d: open ? "M10 13 h9 l-4.5 6 z" : "M12 11 v9 l6 -4.5 z" });
  const more = svg("text", { class: "type", x: open ? 36 + width(name.textContent, true) : 24,
    y: open ? 20 : 36 });
  more.textContent = open && item.w < 48 + width(label, true) + width(detail, false) ? "" : detail;
  g.append(sign, name, more);
  return g;
}

/** A smooth line down through points. */
function curve(points) {
  let d = `M${points[0][0]} ${points[0][1]}`;
  for (let i = 1; i < points.length; i += 1) {
    const [x1, y1] = points[i - 1], [x2, y2] = points[i];
    const bend = y2 >= y1 ? (y2 - y1) / 2 : 60;
    d += ` C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}`;
  }
  return d;
}

Object.assign(viewer, { svg, html, cut, tail, measure, drawNode, drawEnd, drawBox, curve });
