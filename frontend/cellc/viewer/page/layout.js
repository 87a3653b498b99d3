// From boxes with layers (boxes.py) to coordinates. A folded box is a node; an unfolded one is as
// large as what is in it. Coordinates count from the top left corner of the box around.

const GAP_X = 26, GAP_Y = 38, PAD = 16, HEAD = 30, PACK = 34, PASS = 10, WIDE = 9000;
const ROUNDS = 8, MOST_IN_ROW = 14;

/** Coordinates of a box's children.
 *
 * measure(child) gives {w, h} of a node, an input or a folded box; open(box) whether it is unfolded;
 * regions(name) the boxes of the regions of a node that has some and is unfolded.
 */
function layout(box, ask) {
  const items = box.c.map((child, i) => size(child, ask, box.t[i]));
  const parts = box.p.map((layers) => part(layers, items, box));
  const whole = pack(parts);
  for (const [i, p] of parts.entries()) {
    const [dx, dy] = whole.places[i];
    for (const [n, at] of p.at) {
      const spot = { x: at.x + dx + PAD, y: at.y + dy + PAD + HEAD };
      if (n < items.length) Object.assign(items[n], spot);
      else p.passed.set(n, { ...spot, h: at.h });
    }
  }
  const passed = new Map(parts.flatMap((p) => [...p.passed]));
  return {
    items, w: whole.w + 2 * PAD, h: whole.h + 2 * PAD + HEAD,
    edges: box.e.filter(([a, b]) => a >= 0 && b >= 0).map((e) => route(e, items, passed)),
    enters: new Set(box.e.filter(([a]) => a < 0).map(([, b]) => b)),
    leaves: new Set(box.e.filter(([, b]) => b < 0).map(([a]) => a)),
  };
}

function size(child, ask, cell = "") {
  if (typeof child === "object") {
    const item = { kind: "box", box: child, name: child.k };
    if (!ask.open(child)) return { ...item, ...ask.measure(item) };
    const inner = layout(child, ask);
    return { ...item, inner, w: Math.max(inner.w, ask.measure(item).w), h: inner.h };
  }
  const item = { kind: typeof child === "number" ? "node" : "end", name: child, cell };
  const regions = typeof child === "number" ? ask.regions(child) : null;
  if (!regions) return { ...item, ...ask.measure(item) };
  return { ...item, ...beside(regions, ask), kind: "regions" };
}

/** The regions of a branch or loop, next to each other. */
function beside(regions, ask) {
  const items = [];
  let x = PAD, h = 0;
  for (const region of regions) {
    const inner = layout(region.box, ask);
    items.push({ kind: "region", name: region.key, label: region.label, inner, w: inner.w,
      h: inner.h, x, y: PAD + HEAD });
    x += inner.w + GAP_X;
    h = Math.max(h, inner.h);
  }
  for (const item of items) item.h = h;
  return { w: x - GAP_X + PAD, h: h + 2 * PAD + HEAD,
    inner: { items, edges: [], enters: new Set(), leaves: new Set() } };
}

/** What hangs together: rows one below the other, each node near those it is joined to. */
function part(layers, items, box) {
  const width = (n) => (n < items.length ? items[n].w : PASS);
  const height = (n) => (n < items.length ? items[n].h : 0);
  const rows = layers.flatMap((row) => split(row));
  const near = neighbours(rows, box);
  const centre = new Map();
  for (const row of rows) {
    let x = -row.reduce((s, n) => s + width(n) + GAP_X, -GAP_X) / 2;
    for (const n of row) {
      centre.set(n, x + width(n) / 2);
      x += width(n) + GAP_X;
    }
  }
  if (rows.some((row) => row.length > 1)) {
    for (let i = 0; i < ROUNDS; i += 1) {
      const order = i % 2 ? [...rows].reverse() : rows;
      for (const row of order) relax(row, near, centre, width);
    }
    straighten(rows, box, centre, width, items.length);
  }
  const at = new Map();
  let y = 0, left = Infinity, right = -Infinity;
  for (const row of rows) {
    const tall = Math.max(...row.map(height));
    for (const n of row) {
      const x = centre.get(n) - width(n) / 2;
      const own = n < items.length;
      at.set(n, { x, y: own ? y + (tall - height(n)) / 2 : y, h: own ? 0 : tall });
      left = Math.min(left, x);
      right = Math.max(right, x + width(n));
    }
    y += tall + (tall ? GAP_Y : 0);
  }
  for (const spot of at.values()) spot.x -= left;
  return { at, w: right - left, h: y - GAP_Y, passed: new Map() };
}

/** A row of very many nodes as several. */
function split(row) {
  const out = [];
  for (let i = 0; i < row.length; i += MOST_IN_ROW) out.push(row.slice(i, i + MOST_IN_ROW));
  return row.length > 2 * MOST_IN_ROW ? out : [row];
}

function neighbours(rows, box) {
  const near = new Map(rows.flat().map((n) => [n, []]));
  for (const [a, b, ...passed] of box.e) {
    if (a < 0 || b < 0 || !near.has(a)) continue;
    const chain = [a, ...passed, b];
    for (let i = 1; i < chain.length; i += 1) {
      near.get(chain[i - 1]).push(chain[i]);
      near.get(chain[i]).push(chain[i - 1]);
    }
  }
  return near;
}

/** Move the nodes of a row towards their neighbours; their order and their gaps stay. */
function relax(row, near, centre, width) {
  const want = row.map((n) => {
    const others = near.get(n);
    return others.length ? others.reduce((s, m) => s + centre.get(m), 0) / others.length
      : centre.get(n);
  });
  const gap = (i) => (width(row[i - 1]) + width(row[i])) / 2 + GAP_X;
  const forth = [...want], back = [...want];
  for (let i = 1; i < row.length; i += 1) forth[i] = Math.max(want[i], forth[i - 1] + gap(i));
  for (let i = row.length - 2; i >= 0; i -= 1) {
    back[i] = Math.min(want[i], back[i + 1] - gap(i + 1));
  }
  row.forEach((n, i) => centre.set(n, (forth[i] + back[i]) / 2));
  for (let i = 1; i < row.length; i += 1) {
    const least = centre.get(row[i - 1]) + gap(i);
    if (centre.get(row[i]) < least) centre.set(row[i], least);
  }
}

/** Let edges pass layers, and nodes that only follow one another stand, on one line as far as what
 * stands beside them leaves room. */
function straighten(rows, box, centre, width, count) {
  const beside = new Map();
  for (const row of rows) row.forEach((n, i) => beside.set(n, [row[i - 1], row[i + 1]]));
  const bounds = (n) => {
    const [left, right] = beside.get(n);
    const own = width(n) / 2 + (n < count ? GAP_X : PASS);
    return [left === undefined ? -Infinity : centre.get(left) + width(left) / 2 + own,
      right === undefined ? Infinity : centre.get(right) - width(right) / 2 - own];
  };
  const lines = [...box.e.map(([, , ...passed]) => passed), ...chains(box)];
  for (const line of lines.filter((l) => l.length > 1 && beside.has(l[0]))) {
    let run = [], low = -Infinity, high = Infinity;
    const settle = () => {
      const middle = run.reduce((s, n) => s + centre.get(n), 0) / run.length;
      if (low <= high) for (const n of run) centre.set(n, Math.min(Math.max(middle, low), high));
    };
    for (const n of line) {
      const [least, most] = bounds(n);
      if (run.length && Math.max(low, least) > Math.min(high, most)) {
        settle();
        [run, low, high] = [[], -Infinity, Infinity];
      }
      run.push(n);
      low = Math.max(low, least);
      high = Math.min(high, most);
    }
    settle();
  }
}

/** Nodes of which each is the only one that reads the one before, and reads nothing else. */
function chains(box) {
  const above = new Map(), below = new Map();
  const note = (table, n, m) => table.set(n, [...(table.get(n) ?? []), m]);
  for (const [a, b, ...passed] of box.e) {
    if (a < 0 || b < 0) continue;
    note(below, a, passed[0] ?? b);
    note(above, b, passed.at(-1) ?? a);
  }
  const next = (n) => {
    const [m, more] = below.get(n) ?? [];
    return more === undefined && above.get(m)?.length === 1 && m < box.c.length ? m : undefined;
  };
  const inner = new Set([...below.keys()].map(next));
  const out = [];
  for (const n of below.keys()) {
    if (inner.has(n)) continue;
    const line = [];
    for (let m = n; m !== undefined; m = next(m)) line.push(m);
    out.push(line);
  }
  return out;
}

/** Parts that do not hang together, in shelves of about the shape of a screen. */
function pack(parts) {
  const area = parts.reduce((s, p) => s + (p.w + PACK) * (p.h + PACK), 0);
  const most = Math.max(...parts.map((p) => p.w), Math.min(Math.sqrt(area * 1.8), WIDE), 0);
  const places = [];
  let x = 0, y = 0, row = 0, w = 0;
  for (const p of parts) {
    if (x && x + p.w > most) { x = 0; y += row + PACK; row = 0; }
    places.push([x, y]);
    x += p.w + PACK;
    w = Math.max(w, x - PACK);
    row = Math.max(row, p.h);
  }
  return { places, w, h: y + row };
}

function route([a, b, ...passed], items, at) {
  const from = items[a], to = items[b];
  const points = [[from.x + from.w / 2, from.y + from.h]];
  for (const n of passed) {
    const p = at.get(n);
    if (p) points.push([p.x + PASS / 2, p.y], [p.x + PASS / 2, p.y + p.h]);
  }
  points.push([to.x + to.w / 2, to.y]);
  return { a, b, points };
}

viewer.layout = layout;
viewer.HEAD = HEAD;
