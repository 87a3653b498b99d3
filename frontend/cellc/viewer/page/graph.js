// The graph on the canvas: what is unfolded, zoom and pan, what is selected, and the keys.
// Only what is near the visible part is in the document, so large graphs stay quick.

const { svg, measure, drawNode, drawEnd, drawBox, curve, layout } = viewer;
const FAR = 0.34, LEAST = 0.02, MOST = 3, AT_START = 24, MARGIN = 400, FEW = 700;

class GraphView {
  constructor(app) {
    this.app = app;
    this.svg = document.getElementById("graph");
    this.root = svg("g");
    this.links = svg("g", { class: "links" });
    const tip = svg("marker", { id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7,
      markerHeight: 7, orient: "auto-start-reverse" }, svg("path", { d: "M0 0 L8 4 L0 8 z" }));
    this.svg.append(svg("defs", {}, tip), this.root);
    this.at = { x: 0, y: 0, k: 1 };
    this.open = new Set();
    this.unfolded = new Map();
    this.drawn = new Map();
    this.items = [];
    this.listen();
  }

  // --- what is shown -------------------------------------------------------------------------

  /** Show a stage; Cells that were unfolded stay so. */
  show(graph, stage, keep = true) {
    const first = this.graph !== graph;
    this.graph = graph;
    this.stage = stage;
    if (first) {
      this.open = this.unfolded.get(graph) ?? this.atStart(stage.graph.box);
      this.unfolded.set(graph, this.open);
    }
    this.arrange();
    if (first || !keep) this.home();
  }

  /** The Cells that are unfolded at first: as many as give a picture one can read. */
  atStart(box) {
    const open = new Set();
    let shown = box.c.length;
    let queue = box.c.filter((c) => typeof c === "object");
    while (queue.length) {
      queue.sort((a, b) => a.c.length - b.c.length);
      const next = queue.shift();
      if (shown + next.c.length > AT_START) break;
      open.add(next.k);
      shown += next.c.length;
      queue = queue.concat(next.c.filter((c) => typeof c === "object"));
    }
    const loops = this.stage.graph.nodes.filter((u) => this.stage.regions.has(u));
    for (const uid of loops) {
      const inside = this.stage.regions.get(uid).reduce((sum, r) => sum + r.box.c.length, 0);
      if (shown + inside > AT_START) break;
      shown += inside;
      open.add(`r${uid}`);
    }
    return open;
  }

  arrange() {
    const ask = {
      measure: (item) => measure(this.graph, this.stage, item),
      open: (box) => this.open.has(box.k),
      regions: (uid) => this.regions(uid),
    };
    const whole = layout(this.stage.graph.box, ask);
    this.size = { w: whole.w, h: whole.h };
    this.items = [];
    this.index = new Map();
    this.flatten(whole, 0, -viewer.HEAD, 0, null, this.stage.graph);
    for (const e of this.drawn.values()) e.remove();
    this.drawn.clear();
    this.root.replaceChildren();
    this.refresh();
  }

  /** The regions of an unfolded branch or loop, as boxes with names. */
  regions(uid) {
    const regions = this.stage.regions.get(uid);
    if (!regions || !this.open.has(`r${uid}`)) return null;
    const names = { cond: ["then", "else"], while: ["condition", "body"], scan: ["body"] };
    const labels = names[this.graph.nodes[uid].op] ?? [];
    return regions.map((r, i) => ({ box: r.box, key: `r${uid}.${i}`, label: labels[i] ?? r.name,
      graph: r }));
  }

  /** Items and edges with absolute coordinates; boxes before what is in them. */
  flatten(place, dx, dy, depth, parent, inside) {
    for (const item of place.items) {
      item.x += dx;
      item.y += dy;
      item.depth = depth;
      item.parent = parent;
      item.graph = inside;
      this.add(item);
      if (item.inner) this.flatten(item.inner, item.x, item.y, depth + 1, item,
        this.inside(item) ?? inside);
    }
    for (const [i, item] of place.items.entries()) {
      if (!parent || parent.kind === "regions") break;
      if (place.enters.has(i)) this.add(this.stub(item, parent, true));
      const out = place.leaves.has(i) && this.stub(item, parent, false);
      if (out && out.near) this.add(out);
    }
    for (const [i, e] of place.edges.entries()) {
      const points = e.points.map(([x, y]) => [x + dx, y + dy]);
      const xs = points.map((p) => p[0]), ys = points.map((p) => p[1]);
      this.add({ kind: "edge", name: `${parent?.name ?? ""}~${i}`, points, x: Math.min(...xs),
        y: Math.min(...ys), w: Math.max(...xs) - Math.min(...xs),
        h: Math.max(...ys) - Math.min(...ys), from: place.items[e.a].name,
        to: place.items[e.b].name });
    }
  }

  inside(item) {
    if (item.kind !== "region") return null;
    const [uid, i] = item.name.slice(1).split(".").map(Number);
    return this.stage.regions.get(uid)[i];
  }

  /** A short line that says that a node reads from outside its box, or is read there. */
  stub(item, parent, up) {
    const x = item.x + item.w / 2;
    const y = up ? item.y : item.y + item.h;
    const border = up ? parent.y + viewer.HEAD : parent.y + parent.h;
    const near = Math.abs(y - border) < 22;
    return { kind: "stub", name: `${item.name}${up ? "^" : "v"}`, x, w: 1, near, up,
      y: up ? (near ? border : y - 12) : y, h: near ? Math.abs(y - border) : 12 };
  }

  add(item) {
    this.items.push(item);
    if (item.kind !== "edge" && item.kind !== "stub") this.index.set(item.name, item);
  }

  // --- drawing -------------------------------------------------------------------------------

  refresh() {
    const { x, y, k } = this.at;
    this.root.setAttribute("transform", `translate(${x},${y}) scale(${k})`);
    this.svg.classList.toggle("far", k < FAR);
    const box = this.svg.getBoundingClientRect();
    const left = (-x - MARGIN) / k, top = (-y - MARGIN) / k;
    const right = (box.width - x + MARGIN) / k, bottom = (box.height - y + MARGIN) / k;
    const all = this.items.length < FEW;
    const wanted = new Set();
    for (const item of this.items) {
      if (all || (item.x < right && item.x + item.w > left && item.y < bottom
          && item.y + item.h > top)) wanted.add(item);
    }
    for (const [item, e] of this.drawn) {
      if (!wanted.has(item)) { e.remove(); this.drawn.delete(item); }
    }
    const layers = this.layers();
    for (const item of wanted) {
      if (this.drawn.has(item)) continue;
      const e = this.draw(item);
      this.drawn.set(item, e);
      layers[item.kind === "edge" || item.kind === "stub" ? 1 : item.inner ? 0 : 2].append(e);
    }
    this.paint();
  }

  /** Unfolded boxes lie below edges, and these below nodes. */
  layers() {
    if (!this.root.firstChild) this.root.append(svg("g"), svg("g"), svg("g"), this.links);
    return this.root.children;
  }

  draw(item) {
    switch (item.kind) {
      case "edge": return svg("path", { class: "edge", d: curve(item.points),
        "marker-end": "url(#tip)" });
      case "stub": return svg("path", { class: `stub ${item.near ? "near" : ""}`,
        d: `M${item.x} ${item.y} v${item.h}` });
      case "end": return drawEnd(this.graph, this.stage, item);
      case "node": return this.stage.regions.has(item.name) ? this.folded(item)
        : drawNode(this.graph, this.stage, item);
      case "regions": return drawBox(item, this.graph.nodes[item.name].op,
        this.graph.nodes[item.name].types.join("  "), true, item.depth);
      case "region": return drawBox(item, item.label, "", true, item.depth);
      default: return drawBox(item, item.box.l, viewer.count(item.box.n, "node"),
        Boolean(item.inner), item.depth);
    }
  }

  folded(item) {
    const g = drawNode(this.graph, this.stage, item);
    g.classList.add("holds");
    g.setAttribute("aria-expanded", "false");
    g.append(svg("path", { class: "fold", d: `M${item.w - 18} 9 v9 l6 -4.5 z` }));
    return g;
  }

  /** Colours of the overlay, and what is selected. */
  paint() {
    const { selected, overlay } = this.app;
    for (const [item, e] of this.drawn) {
      if (item.kind === "edge") {
        e.classList.toggle("lit", this.touches(item.from) && this.touches(item.to));
        continue;
      }
      if (item.kind === "stub") continue;
      const uids = this.uidsOf(item);
      const hit = item.kind === "node" || item.kind === "regions" ? selected.has(item.name)
        : item.kind === "box" && !item.inner && uids.some((u) => selected.has(u));
      e.classList.toggle("selected", hit || this.app.focus === item.name);
      const [color, dim] = this.look(item, uids, overlay);
      e.style.setProperty("--fill", color);
      e.classList.toggle("coloured", Boolean(color));
      e.classList.toggle("dim", dim);
    }
    this.connect();
  }

  /** The colour of an item, and whether it steps back; worked out once for an overlay and stage. */
  look(item, uids, overlay) {
    const { pass, before, base } = this.app;
    const key = `${this.graph.name} ${pass} ${before} ${base} ${overlay.id}`;
    if (this.lookKey !== key) {
      this.lookKey = key;
      this.looks = new Map();
    }
    if (!this.looks.has(item)) {
      const plain = item.inner || item.kind === "end";
      this.looks.set(item, plain ? ["", false] : [overlay.color(uids) || "", overlay.dims(uids, item)]);
    }
    return this.looks.get(item);
  }

  touches(name) {
    return this.app.selected.has(name) || this.app.focus === name;
  }

  uidsOf(item) {
    if (item.kind === "box") return item.uids ??= [...nodesOf(item.box)];
    return item.kind === "node" || item.kind === "regions" ? [item.name] : [];
  }

  /** The true edges of the selected node, to wherever its neighbours are visible. */
  connect() {
    this.links.replaceChildren();
    const uid = this.app.primary;
    if (uid === null || !this.stage.has(uid)) return;
    const me = this.visible(uid);
    if (!me) return;
    const n = this.graph.nodes[uid];
    const users = this.graph.users(this.stage);
    const sources = new Set((this.stage.operands.get(uid) ?? [])
      .map((v) => this.sourceItem(v)).filter((i) => i && i !== me));
    const readers = new Set(n.types.flatMap((_, i) => users.get(n.first + i) ?? [])
      .map((u) => this.visible(u)).filter((i) => i && i !== me));
    for (const s of sources) this.link(s, me, "link in");
    for (const r of [...readers].slice(0, 60)) this.link(me, r, "link out");
    for (const other of this.graph.counterparts(uid, this.stage).slice(0, 12)) {
      const item = this.visible(other);
      if (item && item !== me) this.link(me, item, "link pair");
    }
  }

  sourceItem(v) {
    const outer = this.index.has(`i${v}`) ? v : this.stage.outer(v);
    const made = this.graph.producer[outer];
    return made >= 0 ? this.visible(made) : this.index.get(`i${outer}`);
  }

  link(a, b, kind) {
    if (kind === "link pair") {  // beside the nodes, not over them
      const [x1, y1, x2, y2] = [a.x + a.w, a.y + a.h / 2, b.x + b.w, b.y + b.h / 2];
      const bow = Math.max(x1, x2) + Math.min(60 + Math.abs(y2 - y1) / 8, 240);
      this.links.append(svg("path", { class: kind, d: `M${x1} ${y1} C${bow} ${y1} ${bow} ${y2} ${x2} ${y2}`,
        "marker-end": "url(#tip)" }));
      return;
    }
    const down = b.y >= a.y;
    const from = [a.x + a.w / 2, down ? a.y + a.h : a.y], to = [b.x + b.w / 2, down ? b.y : b.y + b.h];
    this.links.append(svg("path", { class: kind, d: curve([from, to]), "marker-end": "url(#tip)" }));
  }

  /** The item that shows a node: its own, or the folded box that it is in. */
  visible(uid) {
    const own = this.index.get(uid);
    if (own) return own;
    return this.homes().get(uid);
  }

  homes() {
    if (this.homesOf !== this.items) {
      this.homesOf = this.items;
      this.homeTable = new Map();
      for (const item of this.items) {
        if (item.kind === "box" && !item.inner) {
          for (const uid of this.uidsOf(item)) this.homeTable.set(uid, item);
        }
        if (item.kind === "node" && this.stage.regions.has(item.name)) {
          for (const uid of this.within(item.name)) this.homeTable.set(uid, item);
        }
      }
      for (const item of this.items) {
        if (item.kind !== "box" || item.inner) continue;
        for (const uid of this.uidsOf(item)) {
          if (!this.stage.regions.has(uid)) continue;
          for (const inner of this.within(uid)) this.homeTable.set(inner, item);
        }
      }
    }
    return this.homeTable;
  }

  /** The nodes in the regions of a node. */
  within(uid) {
    return (this.stage.regions.get(uid) ?? []).flatMap((r) =>
      r.nodes.flatMap((u) => [u, ...this.within(u)]));
  }

  // --- unfolding -----------------------------------------------------------------------------

  toggle(key) {
    const before = this.index.get(key) ?? this.index.get(Number(key.slice(1)));
    const was = before && { x: before.x, y: before.y };
    if (!this.open.delete(key)) this.open.add(key);
    this.arrange();
    const after = this.index.get(key) ?? this.index.get(Number(key.slice(1)));
    if (was && after) {  // what was folded stays under the pointer
      this.at.x += (was.x - after.x) * this.at.k;
      this.at.y += (was.y - after.y) * this.at.k;
      this.refresh();
    }
  }

  foldAll() {
    this.open.clear();
    this.arrange();
    this.home();
  }

  unfoldLevel() {
    const holds = (i) => i.kind === "node" && this.stage.regions.has(i.name);
    const folded = this.items.filter((i) => (i.kind === "box" && !i.inner) || holds(i));
    const least = folded.reduce((m, i) => Math.min(m, i.depth), Infinity);
    for (const i of folded) if (i.depth === least) this.open.add(i.box?.k ?? `r${i.name}`);
    this.arrange();
    this.home();
  }

  /** Unfold whatever is around a node. */
  reveal(uid) {
    const path = find(this.stage.graph.box, uid, (u) => this.within(u).includes(uid));
    let changed = false;
    for (const key of path ?? []) {
      if (!this.open.has(key)) { this.open.add(key); changed = true; }
    }
    const holder = this.stage.graph.nodes.find((u) => this.within(u).includes(uid));
    if (holder !== undefined) changed = this.revealIn(holder, uid) || changed;
    if (changed) this.arrange();
  }

  revealIn(holder, uid) {
    this.open.add(`r${holder}`);
    for (const region of this.stage.regions.get(holder)) {
      for (const key of find(region.box, uid, () => false) ?? []) this.open.add(key);
      for (const u of region.nodes) if (this.within(u).includes(uid)) this.revealIn(u, uid);
    }
    return true;
  }

  // --- zoom and pan --------------------------------------------------------------------------

  home() {
    const box = this.svg.getBoundingClientRect();
    const k = Math.min(Math.max(Math.min((box.width - 40) / this.size.w,
      (box.height - 40) / this.size.h), 0.8), 1);
    const whole = this.size.w * k;
    this.at = { k, x: (box.width - whole) / 2, y: Math.max((box.height - this.size.h * k) / 2, 14) };
    if (whole > box.width) this.at.x = 20;
    this.refresh();
  }

  fit() {
    const box = this.svg.getBoundingClientRect();
    const k = Math.max(Math.min((box.width - 30) / this.size.w, (box.height - 30) / this.size.h, 1.2),
      LEAST);
    this.at = { k, x: (box.width - this.size.w * k) / 2, y: (box.height - this.size.h * k) / 2 };
    this.refresh();
  }

  zoom(factor, cx, cy) {
    const box = this.svg.getBoundingClientRect();
    const x = cx ?? box.width / 2, y = cy ?? box.height / 2;
    const k = Math.min(Math.max(this.at.k * factor, LEAST), MOST);
    const f = k / this.at.k;
    this.at = { k, x: x - (x - this.at.x) * f, y: y - (y - this.at.y) * f };
    this.soon();
  }

  pan(dx, dy) {
    this.at.x += dx;
    this.at.y += dy;
    this.soon();
  }

  soon() {
    this.pending ??= requestAnimationFrame(() => { this.pending = null; this.refresh(); });
  }

  /** Bring an item into view. */
  centre(item) {
    const box = this.svg.getBoundingClientRect();
    if (this.at.k < 0.6) this.at.k = 0.85;
    const tall = Math.min(item.h, box.height / this.at.k);
    this.at.x = box.width / 2 - (item.x + item.w / 2) * this.at.k;
    this.at.y = box.height / 2 - (item.y + tall / 2) * this.at.k;
    this.refresh();
  }

  // --- events --------------------------------------------------------------------------------

  listen() {
    this.svg.addEventListener("wheel", (e) => {
      e.preventDefault();
      const box = this.svg.getBoundingClientRect();
      if (e.shiftKey) this.pan(-e.deltaY - e.deltaX, 0);
      else this.zoom(Math.exp(-e.deltaY * 0.0015), e.clientX - box.left, e.clientY - box.top);
    }, { passive: false });
    this.svg.addEventListener("pointerdown", (e) => {
      if (e.button) return;
      this.drag = { x: e.clientX, y: e.clientY, moved: false, id: e.pointerId };
    });
    this.svg.addEventListener("pointermove", (e) => this.dragged(e));
    this.svg.addEventListener("pointerup", () => { setTimeout(() => { this.drag = null; }); });
    this.svg.addEventListener("click", (e) => this.clicked(e));
    this.svg.addEventListener("dblclick", (e) => this.clicked(e, true));
    this.svg.addEventListener("keydown", (e) => this.key(e));
    window.addEventListener("resize", () => this.soon());
  }

  dragged(e) {
    if (!this.drag || !e.buttons) return;
    const dx = e.clientX - this.drag.x, dy = e.clientY - this.drag.y;
    if (!this.drag.moved && Math.hypot(dx, dy) < 4) return;
    if (!this.drag.moved) this.svg.setPointerCapture(this.drag.id);
    Object.assign(this.drag, { x: e.clientX, y: e.clientY, moved: true });
    this.pan(dx, dy);
  }

  clicked(e, twice = false) {
    if (this.drag?.moved) return;
    const g = e.target.closest("[data-name]");
    if (!g) {
      if (!twice) this.app.select([]);
      return;
    }
    const item = this.itemOf(g.dataset.name);
    if (!item) return;
    const sign = e.target.classList.contains("fold");
    if (item.kind === "box") {
      if (twice) return;
      if (!item.inner || sign) this.toggle(item.box.k);
      else this.choose(item);
      return;
    }
    if ((sign || twice) && this.stage.regions.has(item.name)) this.toggle(`r${item.name}`);
    else if (!twice) this.choose(item);
  }

  itemOf(name) {
    return this.index.get(name) ?? this.index.get(Number(name));
  }

  choose(item) {
    if (item.kind === "end") this.app.select([], { focus: item.name });
    else if (item.kind === "box") this.app.select(this.uidsOf(item), { focus: item.name, box: item.box });
    else if (item.kind === "region") this.app.select([], { focus: item.name });
    else this.app.select([item.name], { primary: item.name });
  }

  /** The item that the keys act on. */
  current() {
    if (this.app.focus !== null) return this.itemOf(String(this.app.focus));
    return this.app.primary !== null ? this.visible(this.app.primary) : null;
  }

  key(e) {
    const steps = { ArrowDown: [0, 1], ArrowUp: [0, -1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    if (steps[e.key]) {
      e.preventDefault();
      if (e.shiftKey) this.pan(-60 * steps[e.key][0], -60 * steps[e.key][1]);
      else this.step(...steps[e.key]);
    } else if (e.key === "Enter" || e.key === " ") {
      e.preventDefault();
      const item = this.current();
      if (item?.kind === "box") this.toggle(item.box.k);
      else if (item && this.stage.regions.has(item.name)) this.toggle(`r${item.name}`);
    }
  }

  /** To the nearest item in a direction. */
  step(dx, dy) {
    const from = this.current();
    const items = [...this.index.values()].filter((i) => i.kind !== "region");
    let best = null, least = Infinity;
    const [x, y] = from ? middle(from) : [0, -1];
    for (const item of items) {
      if (item === from) continue;
      const [ix, iy] = middle(item);
      const ahead = (ix - x) * dx + (iy - y) * dy;
      const aside = Math.abs((ix - x) * dy) + Math.abs((iy - y) * dx);
      if (ahead <= 1) continue;
      const far = ahead + aside * 2;
      if (far < least) { least = far; best = item; }
    }
    best ??= from ? null : items[0];
    if (!best) return;
    this.choose(best);
    this.centre(best.inner ? { ...best, h: viewer.HEAD } : best);
    this.announce(best);
  }

  announce(item) {
    const e = this.drawn.get(item);
    this.svg.setAttribute("aria-activedescendant", "");
    if (e) {
      e.id = "active";
      this.svg.setAttribute("aria-activedescendant", "active");
      for (const other of this.root.querySelectorAll("#active")) if (other !== e) other.removeAttribute("id");
    }
  }
}

const middle = (i) => [i.x + i.w / 2, i.inner ? i.y + 10 : i.y + i.h / 2];

function* nodesOf(box) {
  for (const c of box.c) {
    if (typeof c === "number") yield c;
    else if (typeof c === "object") yield* nodesOf(c);
  }
}

/** The keys of the boxes around a node, outermost first. */
function find(box, uid, holds) {
  for (const c of box.c) {
    if (c === uid || (typeof c === "number" && holds(c))) return [];
    if (typeof c !== "object") continue;
    const inner = find(c, uid, holds);
    if (inner) return [c.k, ...inner];
  }
  return null;
}

Object.assign(viewer, { GraphView, nodesOf });
