"""The page in a real browser: clicks, keys, search, folding, diffs, linked panes, hostile names."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cellc import cli

from .conftest import NET, NETS, SAMPLES, STEP, Page
from .nets import HOSTILE, Classifier

Open = Callable[..., Page]


def test_cells_fold_and_unfold(page: Open) -> None:
    p = page(*NET)
    p.click(p.one("#foldall"))
    names = p.texts("#graph .box.folded .name")
    assert "blocks" in names
    before = len(p.all("#graph .node"))
    p.click(p.box("blocks"))
    assert "0" in p.texts("#graph .box.folded .name")
    p.click(p.box("0"))
    assert len(p.all("#graph .node")) > before
    assert p.box("0").get_attribute("aria-expanded") == "true"
    p.click(p.box("0").find_element("css selector", ".fold"))
    assert p.box("0").get_attribute("aria-expanded") == "false"
    assert len(p.all("#graph .node")) == before


def test_loops_and_branches_are_boxes_with_their_bodies(page: Open) -> None:
    p = page(*NET)
    p.js(f"viewer.app.goTo({p.uid('sigmoid')})")
    regions = p.texts("#graph .box.region > .name")
    assert {"condition", "body", "then", "else"} <= set(regions)
    assert "sigmoid" in p.texts("#graph .node .op")
    # A capture is called by the weight that it is.
    p.js("viewer.app.view.unfoldLevel()")
    p.js("viewer.app.view.unfoldLevel()")
    p.js("viewer.app.view.fit()")
    assert "gate.weight" in p.texts("#graph .node .weight")


def test_nothing_overlaps_and_everything_is_in_its_box(page: Open) -> None:
    p = page(*STEP)
    for _ in range(4):
        p.js("viewer.app.view.unfoldLevel()")
    bad = p.js("""(() => {
      const items = viewer.app.view.items.filter((i) => i.kind !== "edge" && i.kind !== "stub");
      const bad = [];
      for (const a of items) {
        const b = a.parent;
        if (b && (a.x < b.x || a.y < b.y || a.x + a.w > b.x + b.w + .5
            || a.y + a.h > b.y + b.h + .5))
          bad.push([String(a.name), "outside", String(b.name)]);
        for (const c of items) {
          if (a === c || a.parent !== c.parent || items.indexOf(c) < items.indexOf(a)) continue;
          if (a.x < c.x + c.w && c.x < a.x + a.w && a.y < c.y + c.h && c.y < a.y + a.h)
            bad.push([String(a.name), "over", String(c.name)]);
        }
      }
      return bad;
    })()""")
    assert bad == []
    upwards = p.js("""viewer.app.view.items.filter((i) => i.kind === "edge"
      && i.points[0][1] >= i.points.at(-1)[1]).map((i) => [String(i.from), String(i.to)])""")
    assert upwards == []


@pytest.mark.parametrize(("question", "op"), [
    ("softmax", "softmax"), ("head.weight", "matmul"), ("float32[2,4]", "matmul"),
    ("int64", "while"), ("nets.py:48", "tanh"), ("blocks.1 relu", "relu"),
])
def test_search_by_op_weight_shape_type_and_line(page: Open, question: str, op: str) -> None:
    p = page(*NET)
    if question == "nets.py:48":  # wherever the line is
        line = next(i for i, text in enumerate(NETS.read_text().splitlines(), 1)
                    if "ops.tanh" in text)
        question = f"nets.py:{line}"
    p.one("#search").send_keys(question)
    assert op in p.texts("#found b")
    index = p.texts("#found b").index(op)
    p.click(p.all("#found button")[index])
    assert p.one("#inspector h2").text == op
    assert p.js("viewer.app.view.visible(viewer.app.primary).name === viewer.app.primary")
    selected = p.one("#graph .selected").rect
    canvas = p.one("#canvas").rect
    assert canvas["x"] <= selected["x"] <= canvas["x"] + canvas["width"]
    assert canvas["y"] <= selected["y"] <= canvas["y"] + canvas["height"]


def test_search_without_an_answer_says_so(page: Open) -> None:
    p = page(*NET)
    p.one("#search").send_keys("no such node")
    assert p.texts("#found .total") == ["0 nodes"]


def test_a_pass_shows_what_it_did(page: Open) -> None:
    p = page(*NET)
    stages = p.texts(".stages > li > .stage .name")
    assert stages[0] == "traced" and "expand" in stages and "split-reductions" not in stages
    assert "split-reductions" in p.texts(".quiet .stage .name")
    expand = next(s for s in p.all(".stages > li > .stage") if "expand" in s.text)
    p.click(expand)
    assert p.texts(".stage[aria-current=true] .name") == ["expand"]
    said = p.one(".stage[aria-current=true] .summary").text
    assert "softmax → reduce_max, sub, normal_exp" in said
    made = p.js("[...viewer.app.stage.order].filter((u) => viewer.app.overlay.color([u])"
                " === 'var(--rewritten)').map((u) => viewer.app.graph.nodes[u].op)")
    assert {"reduce_max", "normal_exp", "reduce_sum", "div"} <= set(made)
    p.click(next(b for b in p.all(".switch button") if b.text == "before"))
    gone = p.js("[...viewer.app.stage.order].filter((u) => viewer.app.overlay.color([u])"
                " === 'var(--rewritten)').map((u) => viewer.app.graph.nodes[u].op)")
    assert "softmax" in gone and "reduce_max" not in gone
    rewrite = next(r for r in p.all(".rewrite") if "softmax" in r.text)
    p.click(rewrite.find_element("css selector", "summary"))
    p.click(rewrite.find_element("css selector", ".link"))
    assert "softmax" in p.texts("#graph .node.selected .op")


def test_any_two_stages_are_compared(page: Open) -> None:
    p = page(*NET)
    last = p.js("viewer.app.graph.stages.length - 1")
    p.js(f"viewer.app.toStage({last}, false, 0)")
    assert "Up to" in p.one("#inspector h2.pass").text
    assert any("softmax" in t and "reduce_max" in t for t in p.texts(".rewrite summary"))
    found = p.js(f"""(() => {{
      const g = viewer.app.graph, c = g.change(0, {last});
      const [a, b] = [0, {last}].map((i) => new Set(g.stages[i].operands.keys()));
      const gone = [...c.gone, ...c.rewritten.flatMap((r) => r[0])];
      const made = [...c.new, ...c.rewritten.flatMap((r) => r[1])];
      return [gone.length === [...a].filter((u) => !b.has(u)).length
          && gone.every((u) => !b.has(u)),
        made.length === [...b].filter((u) => !a.has(u)).length && made.every((u) => !a.has(u))];
    }})()""")
    assert found == [True, True]
    p.js("viewer.app.side(true)")
    assert p.js("viewer.app.stage.index") == 0
    assert "softmax" in p.texts("#graph .coloured .op")


def test_source_nest_llvm_and_assembly_follow_the_selection(page: Open) -> None:
    p = page(*STEP)
    p.find("relu blocks.0")
    lit = p.texts(".source .line.lit span")
    assert any("ops.relu(self.dense(" in text for text in lit)
    assert "relu" in p.one(".column:nth-child(2) .what").text
    assert p.texts(".nest .line span")
    p.wait("document.querySelectorAll('.asm .line').length > 5")
    assert any("define" in text for text in p.texts(".llvm .line span"))
    assert any("%rdi" in text or "x0" in text for text in p.texts(".asm .line span"))


def test_a_line_of_assembly_lights_up_its_llvm_and_back(page: Open) -> None:
    p = page(*STEP)
    p.find("relu blocks.0")
    p.wait("document.querySelectorAll('.asm .line').length > 5")
    number = p.js("viewer.app.code.text.lines.findIndex((l) => l > 0)")
    p.driver.execute_script(f"document.querySelectorAll('.asm .line')[{number}].click()")
    first = p.js("viewer.app.code.text.lines")[number]
    assert p.js("[...document.querySelectorAll('.llvm .line.lit')].map((l) => +l.dataset.line)") \
        == [first]
    p.driver.execute_script(f"document.querySelectorAll('.llvm .line')[{first - 1}].click()")
    back = p.js("[...document.querySelectorAll('.asm .line.lit')].map((l) => +l.dataset.line)")
    assert number + 1 in back


def test_a_line_of_a_nest_selects_its_nodes(page: Open) -> None:
    p = page(*STEP)
    p.js("viewer.app.toStage(viewer.app.graph.stages.length - 1)")
    call = p.js("viewer.app.graph.code.calls.findIndex((c) => c.nest && /= exp\\(/.test(c.nest)"
                " && c.nodes.some((u) => viewer.app.graph.nodes[u].op === 'exp'))")
    p.js(f"viewer.app.showCall({call})")
    p.driver.execute_script("""[...document.querySelectorAll('.nest .line')]
      .find((l) => /= exp\\(/.test(l.textContent)).querySelector('span').click()""")
    ops = p.js("[...viewer.app.selected].map((u) => viewer.app.graph.nodes[u].op)")
    assert ops and set(ops) == {"exp"}
    assert any("= exp(" in text for text in p.texts(".nest .line.lit span"))
    p.click(p.one(".nest .ref"))
    node = p.js("viewer.app.graph.nodes[viewer.app.primary]")
    assert p.one("#inspector h2").text == node["op"]


def test_a_line_of_source_selects_its_nodes(page: Open) -> None:
    p = page(*STEP)
    p.find("relu blocks.0")
    p.driver.execute_script("document.querySelector('.source .line.lit').click()")
    ops = p.js("[...viewer.app.selected].map((u) => viewer.app.graph.nodes[u].op)")
    assert {"relu", "matmul"} <= set(ops)


def test_gradient_nodes_and_forward_nodes_are_linked(page: Open) -> None:
    p = page(*STEP)
    p.find("relu blocks.1")
    assert "Its gradient" in p.one("#inspector").text
    forward = p.js("viewer.app.primary")
    p.one("#graph").send_keys("g")
    node = p.js("viewer.app.graph.nodes[viewer.app.primary]")
    assert node["part"] == "gradient"
    assert node["scope"] == p.js(f"viewer.app.graph.nodes[{forward}].scope")
    assert "Forward nodes it comes from" in p.one("#inspector").text
    assert p.all("#graph .link.pair")


def test_overlays(page: Open) -> None:
    p = page(*STEP)

    def colours(overlay: str) -> set[str]:
        p.js(f"viewer.app.toOverlay({overlay!r})")
        return set(p.js("viewer.app.stage.order.map((u) => viewer.app.overlay.color([u]))")) - {""}

    names = p.texts("#overlay option")
    assert "Time per kernel" in names and "Values" not in names
    for overlay in ("time", "cost", "fusion", "parts", "peak", "types"):
        assert len(colours(overlay)) > 1, overlay
    p.js("viewer.app.toOverlay('time')")
    assert p.all("#graph .coloured") and "kernel call" in p.one("#legend").text
    assert p.js("Math.abs(viewer.app.overlay.total() - viewer.app.graph.code.calls"
                ".reduce((s, c) => s + c.time, 0)) < 1e-12")


def test_casts_and_packed_weights_are_shown(page: Open) -> None:
    p = page(f"{NETS}:Mixed", "--input", "x=float32[64,16]")
    p.js("viewer.app.toOverlay('types')")
    assert "float16" in p.texts("#legend span")
    assert "2 casts" in p.one("#legend").text or "3 casts" in p.one("#legend").text
    cast = p.uid("cast")
    others = p.js("viewer.app.stage.order.filter((u) => viewer.app.graph.nodes[u].op !== 'cast')"
                  ".map((u) => viewer.app.overlay.color([u]))")
    assert p.js(f"viewer.app.overlay.color([{cast}])") not in others
    p.js("viewer.app.toOverlay('packed')")
    assert p.js("viewer.app.stage.order.some((u) => viewer.app.overlay.color([u]))")
    assert "dense.weight" in p.js("viewer.app.graph.code.packed.flatMap((b) => b.of)")


def test_what_is_computed_again_is_shown(page: Open) -> None:
    p = page(f"{SAMPLES / 'gpt.py'}:GPT", "--train", "train_step", "--input", "x=int32[1,32]",
             "--input", "y=int32[1,32]", "--recompute-budget", "13MiB")
    stages = p.texts(".stages > li > .stage .name")
    assert stages[0] == "traced" and "expand" in stages and stages[-1] == "recompute"
    p.js("viewer.app.toStage(viewer.app.graph.stages.length - 1)")
    p.js("viewer.app.toOverlay('again')")
    assert p.js("viewer.app.overlay.find().size") > 3
    assert "temporaries" in p.one(".plan").get_property("textContent")


def test_values(page: Open) -> None:
    p = page(f"{NETS}:Nan", "--input", "x=float32[4,8]", "--values")
    p.find("log")
    facts = p.one("#inspector").text
    assert "minimum" in facts and "NaN" in facts
    assert int(p.one("#inspector b.bad").text) > 0
    assert p.all(".histogram rect")
    p.js("viewer.app.toOverlay('values')")
    assert "350" in p.js(f"viewer.app.overlay.color([{p.uid('log')}])")


def test_memory_and_kernels(page: Open) -> None:
    p = page(*STEP)
    p.click(p.one("[data-tab=Memory]"))
    buffers = p.js("viewer.app.graph.code.buffers")
    assert len(p.all(".arena .buffer")) == len(buffers)
    assert p.js("viewer.atPeak(viewer.app.graph.code.buffers).bytes") \
        <= p.js("viewer.app.graph.code.arena")
    assert p.all(".buffer.peak") and p.texts(".lists ol:first-of-type li")
    p.click(p.one("[data-tab=Kernels]"))
    calls = p.js("viewer.app.graph.code.calls.length")
    assert len(p.all("[data-call]")) == calls
    p.click(p.all("[data-call]")[0])
    assert p.js("viewer.app.selected.size") > 0
    assert p.texts("[role=tab][aria-selected=true]") == ["Code"]


def test_the_keyboard_is_enough(page: Open) -> None:
    p = page(*NET)
    graph = p.one("#graph")
    p.click(p.one("#foldall"))
    kinds = []
    for key in ("\ue015", "\ue015", "\ue012", "\ue015", "\ue014", "\ue015"):  # down, left, right
        graph.send_keys(key)
        kinds.append(p.js("viewer.app.view.current().kind"))
        if kinds[-1] == "box":
            break
    assert kinds[0] == "end" and kinds[-1] == "box"
    count = p.js("viewer.app.view.items.length")
    graph.send_keys("\ue007")
    assert p.js("viewer.app.view.items.length") > count
    graph.send_keys("]")
    assert p.js("viewer.app.pass") == 1
    graph.send_keys("m")
    assert p.texts("[role=tab][aria-selected=true]") == ["Memory"]
    graph.send_keys("/")
    assert p.js("document.activeElement.id") == "search"
    p.driver.switch_to.active_element.send_keys("\ue00c")
    graph.send_keys("?")
    assert p.one("#keys").is_displayed()


def test_zoom_pan_and_fit(page: Open) -> None:
    p = page(*NET)
    scale = p.js("viewer.app.view.at.k")
    p.click(p.one("#zoomin"))
    assert p.wait("viewer.app.view.at.k") > scale
    p.click(p.one("#fit"))
    inside = p.js("""(() => {
      const box = document.querySelector("#graph").getBoundingClientRect();
      const { at, size } = viewer.app.view;
      return at.x >= 0 && at.y >= 0 && at.x + size.w * at.k <= box.width
        && at.y + size.h * at.k <= box.height;
    })()""")
    assert inside
    from selenium.webdriver import ActionChains  # as the driver
    x = p.js("viewer.app.view.at.x")
    ActionChains(p.driver).move_to_element_with_offset(p.one("#canvas"), -300, -150) \
        .click_and_hold().move_by_offset(60, 40).release().perform()
    assert p.wait(f"Math.abs(viewer.app.view.at.x - {x} - 60) < 2")


def test_light_and_dark(page: Open) -> None:
    p = page(*NET)
    ground = "getComputedStyle(document.body).backgroundColor"
    light = p.js(ground)
    p.click(p.one("#theme"))
    dark = p.js(ground)
    assert light != dark
    p.click(p.one("#theme"))
    assert p.js(ground) == light


def test_two_graphs_in_one_page(page: Open) -> None:
    p = page(*NET)
    assert p.texts("#graphs option") == ["forward", "gradient"]
    p.driver.execute_script("const g = document.getElementById('graphs'); g.value = '1';"
                            "g.dispatchEvent(new Event('change'))")
    assert p.js("viewer.app.graph.name") == "gradient"
    assert "gradient" in p.texts("#graph .box .name")


def test_hostile_names_stay_text(page: Open, tmp_path: Path) -> None:
    file = tmp_path / "a<b>&\"'.py"
    file.write_text(textwrap.dedent(NETS.read_text()) + "\n# </script><!--\n")
    p = page(f"{file}:Hostile", "--input", "x=float32[2,4]", "--values")
    p.js("viewer.app.view.unfoldLevel()")
    p.js("viewer.app.view.unfoldLevel()")
    p.find("matmul onerror")
    p.wait("document.querySelectorAll('.asm .line').length > 5")
    assert p.js("window.pwned") is None
    assert p.all("img") == [] and p.all("i.none img") == []
    assert p.js("document.scripts.length") == p.js(
        "2 + document.querySelectorAll('script[type=\"application/gzip\"]').length")
    assert any("onerror" in t for t in p.texts("#inspector b"))
    assert p.js("viewer.app.graph.data.values.some(([, name]) => name === "
                "viewer.app.graph.chips(viewer.app.primary, viewer.app.stage).at(-1).text)")
    assert HOSTILE in p.js("viewer.app.graph.data.values.map(([, name]) => name)")
    assert p.texts(".column:first-child .what") == [file.name]


def test_resnet_50s_training_step_opens_within_two_seconds(
    page: Open, tmp_path: Path
) -> None:
    file = tmp_path / "step.py"
    file.write_text(textwrap.dedent(f"""
        import sys
        sys.path.insert(0, {str(SAMPLES)!r})
        import resnet
        from cellc import nn

        class Net(resnet.ResNet):
            def __init__(self):
                super().__init__(resnet.Bottleneck, [3, 4, 6, 3], 10, 8)

        def step(net):
            loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
            optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9)
            return nn.TrainOneStepCell(nn.WithLossCell(net, loss), optimizer).set_train()
        """))
    p = page(f"{file}:Net", "--train", "step", "--input", "x=float32[2,3,32,32]",
             "--input", "label=int32[2]")
    assert p.js("viewer.app.graph.stages[0].count") > 1000
    assert float(p.js("document.documentElement.dataset.ready")) < 2000
    assert p.js("viewer.app.graph.stages.at(-1).count") > 1000


def test_a_transformer_of_96_layers_is_usable(page: Open, tmp_path: Path) -> None:
    file = tmp_path / "deep.py"
    file.write_text(textwrap.dedent(f"""
        import sys
        sys.path.insert(0, {str(SAMPLES)!r})
        import gpt

        class Net(gpt.GPT):
            def __init__(self):
                super().__init__(64, 8, 16, 96, 2, 0.0)
        """))
    p = page(f"{file}:Net", "--input", "tokens=int32[1,8]")
    assert float(p.js("document.documentElement.dataset.ready")) < 2000
    p.click(p.one("#foldall"))
    assert len(p.all("#graph .box, #graph .node")) < 20
    p.click(p.box("blocks"))
    assert p.js("viewer.app.view.items.filter((i) => i.kind === 'box' && !i.inner"
                " && i.name.startsWith('/blocks/')).length") == 96
    took = timed(p, "const v = viewer.app.view; for (const i of v.items) if (i.kind === 'box')"
                 " v.open.add(i.box.k); v.arrange()")
    assert p.js("viewer.app.view.items.length") > 1000 and took < 2000
    assert p.js("viewer.app.view.drawn.size") < 800  # what is out of sight is not drawn
    assert timed(p, "viewer.app.view.pan(0, -4000), viewer.app.view.refresh()") < 500
    assert timed(p, "viewer.searchNodes(viewer.app, 'softmax blocks.95')") < 500


def timed(p: Page, code: str) -> Any:
    """Milliseconds that a piece of the page's work takes."""
    start = "const t = performance.now()"
    return p.js(f"(() => {{ {start}; {code}; return performance.now() - t }})()")


def test_ranks_of_collectives(page: Open) -> None:
    """Each bucket of gradients, with its ranks and what one of them sends."""
    step = tuple(a for a in STEP if a not in ("--profile", "--runs", "3"))
    p = page(*step, "--ranks", "4")
    p.js("viewer.app.toTab('Ranks')")
    graph = p.js("viewer.app.graph.data.ranks")
    assert [row[1:3] for row in graph] == [["all_reduce", [0, 1, 2, 3]]] * len(graph)
    assert len(p.all(".meet")) == len(graph) > 0
    assert [len(m.find_elements("css selector", "circle")) for m in p.all(".meet")] \
        == [4] * len(graph)
    weights = sum(p.size for p in Classifier().get_parameters())
    # Up to 16 KiB each rank sends everything to each of the three others.
    assert sum(row[3] for row in graph) == 3 * 4 * weights < 3 << 14
    assert "all_reduce" in p.texts(".ranks .lists li")[0]
    p.click(p.all(".meet circle")[0])
    assert p.js("viewer.app.primary") == graph[0][0]
    assert len(p.all(".meet.lit")) == 1
    alone = page(*STEP)
    alone.js("viewer.app.toTab('Ranks')")
    assert "one process" in alone.one("#pane").get_property("textContent")


def test_search_finds_what_a_pass_has_expanded(page: Open) -> None:
    p = page(*NET)
    last = p.js("viewer.app.graph.stages.length - 1")
    p.js(f"viewer.app.toStage({last})")
    p.one("#search").send_keys("softmax")
    assert p.texts("#found .total") == ["0 nodes here, 1 at other stages"]
    stages = p.js("viewer.app.graph.stages.map((s) => s.name)")
    assert p.texts("#found .absent") == [
        f"expanded by pass {stages.index('expand')}: "
        "expand → reduce_max, sub, normal_exp, reduce_sum, …"]
    p.click(p.one("#found button"))
    assert p.texts("#graph .node.selected .op") == ["softmax"]


def test_kernels_say_to_which_part_they_belong(page: Open) -> None:
    p = page(*STEP)
    p.js("viewer.app.toTab('Kernels')")
    parts = p.texts(".kernels td.part")
    assert {"forward", "gradient"} <= set(parts) and any("update" in part for part in parts)
    assert not any(page(*NET).texts(".kernels td.part"))


def test_an_update_has_a_box_for_each_parameter(page: Open) -> None:
    p = page(*STEP)
    box = "viewer.app.stage.graph.box.c.find((b) => b.l === 'optimizer' || b.l === 'update')"
    names = p.js(f"({box}).c.map((c) => c.l ?? viewer.app.graph.nodes[c].op)")
    own = [q.name for q in Classifier().get_parameters()]
    single = p.js(f"Object.values(({box}).t)")
    assert set(own) <= {*names, *single}


def test_inputs_of_a_training_step_have_their_names(page: Open) -> None:
    p = page(*STEP)
    assert {"x", "label"} <= set(p.texts("#graph .end text"))


def test_tiles_of_a_product_stand_where_there_is_no_nest(page: Open) -> None:
    p = page(*STEP)
    p.js("viewer.app.toStage(viewer.app.graph.stages.length - 1)")
    call = p.js("viewer.app.graph.code.calls.findIndex((c) => c.family === 'gemm' && !c.nest)")
    p.js(f"viewer.app.showCall({call}, true)")
    p.wait("/tile of/.test(document.querySelector('.nest').textContent)")
    text = "\n".join(p.texts(".nest .line span"))
    assert "matmul." in text and "stay in registers" in text
    rows, columns = (int(n) for n in text.partition("tile of ")[2].split(":")[0].split(" x "))
    assert f"@tile_{rows}x{columns}" in "\n".join(p.texts(".llvm .line span"))


def test_two_sets_of_options(page: Open) -> None:
    p = page(f"{NETS}:Classifier", "--input", "x=float32[2,16]", "--diff", "numerics=strict",
             "numerics=fast")
    assert p.one("#inspector h2.pass").text == "numerics=fast"
    assert p.one("#tabs [aria-selected=true]").text == "Compare"
    rows = [[c.get_property("textContent") for c in r.find_elements("css selector", "td")]
            for r in p.all(".compare tbody tr")]
    gone, new = next(row for row in rows if row[0].startswith("div."))
    assert new.startswith("mul.") and ", 0.0625)" in new and ", 16)" in gone
    assert all(left == right for left, right in rows if left.startswith("rsqrt."))
    p.click(next(c for c in p.all(".compare td.gone") if c.text == gone))
    assert p.texts("#graph .node.selected .op") == ["div"] and p.js("viewer.app.before")
    assert any("div" in t and "mul" in t for t in p.texts(".rewrite summary"))
    assert p.texts(".facts dt")[:2] == ["numerics=strict", "numerics=fast"]


def test_the_compilations_of_a_script(driver: Any, tmp_path: Path) -> None:
    script = tmp_path / "again.py"
    script.write_text(textwrap.dedent("""\
        import numpy as np, mindspore as ms
        from mindspore import nn
        class Net(nn.Cell):
            def __init__(self):
                super().__init__()
                self.dense, self.flag = nn.Dense(4, 4), False
            def construct(self, x):
                return self.dense(x) * 2 if self.flag else self.dense(x)
        ms.set_context(mode=ms.GRAPH_MODE)
        net, x = Net(), ms.Tensor(np.ones((2, 4), np.float32))
        net(x)
        net.flag = True
        net(x)
        net(ms.Tensor(np.ones((3, 4), np.float32)))
        net(ms.Tensor(np.ones((5, 4), np.float32)))
        """))
    out = tmp_path / "report.html"
    assert cli.main(["run", "--report", str(out), str(script)]) == 0
    p = Page(driver, out)
    assert p.one("#tabs [aria-selected=true]").text == "Compilations"
    rows = [[c.get_property("textContent") for c in r.find_elements("css selector", "td")]
            for r in p.all(".compilations tbody tr")]
    assert [row[2] for row in rows] == [f"again.py:{n}" for n in (11, 13, 14, 15)]
    assert rows[0][4] == "the first of this network"
    assert "flag of Net: False -> True (read at again.py:8)" in rows[1][4]
    assert "what helps: make it an argument or a Parameter" in rows[1][4]
    assert rows[3][4].startswith("served by the graph with open sizes")
    assert len(p.all(".compilations tr.again")) == 2
    assert "mul" not in p.js("[...viewer.app.stage.order].map((u) => viewer.app.graph.nodes[u].op)")
    p.click(p.all(".compilations tbody tr")[1])
    assert "mul" in p.js("[...viewer.app.stage.order].map((u) => viewer.app.graph.nodes[u].op)")
    assert p.one("#graphs").get_property("value") == "1"
    assert p.problems() == []


def test_a_narrow_window_has_one_column(page: Open) -> None:
    p = page(*NET)
    size = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": False}
    try:
        p.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        assert p.js("document.documentElement.scrollWidth") == 390
        for selector in ("#canvas", "#inspector", "#side"):
            assert p.js(f"document.querySelector('{selector}').clientWidth") > 370
    finally:
        p.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
