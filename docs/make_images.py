"""The pictures of the viewer in the guide: `python docs/make_images.py`.

They are taken in Chromium without a screen, which tests/viewer needs too.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from PIL import Image
from selenium import webdriver

from cellc import cli

DOCS = Path(__file__).parent
SAMPLES = DOCS.parent / "samples"
SIZE = (1600, 1000)
COLOURS = 96

SHOTS: dict[str, tuple[tuple[str, ...], str]] = {
    "inspect_resnet": (
        (f"{SAMPLES / 'resnet.py'}:ResNet50", "--input", "x=float32[1,3,224,224]", "--profile"),
        """const v = viewer.app.view; viewer.app.toOverlay('time');
        for (const k of ['/stages', '/stages/0', '/stages/0/0', '/stages/1', '/stages/2',
          '/stages/3']) v.open.add(k);
        v.arrange(); viewer.app.toTab('Kernels'); v.home(); v.pan(0, -430); v.refresh()"""),
    "inspect_gpt": (
        (f"{SAMPLES / 'gpt.py'}:GPT", "--input", "tokens=int32[1,64]"),
        """const a = viewer.app; a.toStage(2);
        const max = a.stage.order.find((u) => a.graph.nodes[u].op === 'reduce_max');
        a.show(max); a.view.at.k = 0.8; a.view.centre(a.view.visible(max)); a.view.pan(-60, 60);
        a.view.refresh(); document.querySelector('.rewrite').open = true"""),
    "inspect_training": (
        (f"{SAMPLES / 'lenet.py'}:LeNet5", "--train", "train_step", "--profile",
         "--input", "x=float32[64,1,32,32]", "--input", "label=int32[64]"),
        """const a = viewer.app; document.documentElement.dataset.theme = 'dark';
        a.toStage(a.graph.stages.length - 1); a.toOverlay('fusion');
        const call = a.graph.code.calls.findIndex((c) => c.label.startsWith('add+reduce_max'));
        a.showCall(call); const uid = a.graph.code.calls[call].nodes[1];
        a.goTo(uid)"""),
}
"""By name: what is inspected, and what is done on the page."""


def browser() -> Any:
    """Chromium without a screen."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                     f"--window-size={SIZE[0]},{SIZE[1]}"):
        options.add_argument(argument)
    found = webdriver.Chrome(
        options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    found.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": SIZE[0], "height": SIZE[1], "deviceScaleFactor": 1, "mobile": False})
    return found


def main(names: list[str]) -> None:
    """Take the pictures of these names, or all."""
    driver = browser()
    with tempfile.TemporaryDirectory() as folder:
        for name in names or SHOTS:
            args, script = SHOTS[name]
            page = Path(folder) / f"{name}.html"
            if cli.main(["inspect", *args, "-o", str(page)]):
                raise SystemExit(1)
            driver.get(page.as_uri())
            driver.execute_script(script)
            time.sleep(1)  # texts of kernels are read when they are first shown
            raw = Path(folder) / f"{name}.png"
            driver.save_screenshot(str(raw))
            small = Image.open(raw).convert("RGB").quantize(COLOURS)
            small.save(DOCS / "images" / f"{name}.png", optimize=True)
    driver.quit()


if __name__ == "__main__":
    main(sys.argv[1:])
