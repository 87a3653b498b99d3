"""A browser without a screen, and pages to look at in it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cellc import cli

NETS = Path(__file__).with_name("nets.py")
SAMPLES = Path(__file__).parents[2] / "samples"


@pytest.fixture(scope="session")
def driver() -> Iterator[Any]:
    """Chromium, driven by Selenium; skips where one of them is missing."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="Selenium is not installed")
    binary = shutil.which("chromium") or shutil.which("chromium-browser")
    chromedriver = shutil.which("chromedriver")
    if binary is None or chromedriver is None:
        pytest.skip("Chromium and chromedriver are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                     "--window-size=1500,950", "--host-resolver-rules=MAP * ~NOTFOUND"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    started = webdriver.Chrome(options=options, service=webdriver.ChromeService(chromedriver))
    yield started
    started.quit()


class Page:
    """An open page, with what tests do on it."""

    def __init__(self, driver: Any, path: Path) -> None:
        self.driver = driver
        driver.get_log("browser")
        driver.get(path.as_uri())
        self.wait("document.documentElement.dataset.ready")

    def js(self, code: str) -> Any:
        """The value of an expression of the page's."""
        return self.driver.execute_script(f"return {code}")

    def all(self, selector: str) -> list[Any]:
        """The elements that a selector finds."""
        return list(self.driver.find_elements("css selector", selector))

    def one(self, selector: str) -> Any:
        """The first of them."""
        return self.driver.find_element("css selector", selector)

    def texts(self, selector: str) -> list[str]:
        """Their texts."""
        return [e.get_property("textContent") for e in self.all(selector)]

    def box(self, name: str) -> Any:
        """A drawn Cell by the name on it."""
        return next(b for b in self.all("#graph .box")
                    if b.find_element("css selector", ".name").get_property("textContent") == name)

    def click(self, element: Any) -> None:
        """Click on an element where it is, like a user: whatever lies over it takes the click."""
        from selenium.webdriver import ActionChains  # as the driver

        ActionChains(self.driver).move_to_element(element).click().perform()

    def find(self, question: str) -> None:
        """Search, and take the first answer."""
        field = self.one("#search")
        field.clear()
        field.send_keys(question + "\n")

    def uid(self, op: str, part: str = "forward") -> int:
        """The first node of an op at the stage that is shown."""
        found = self.js("viewer.app.stage.order.find((u) => { const n = viewer.app.graph.nodes[u];"
                        f" return n.op === {op!r} && n.part === {part!r}; }})")
        assert found is not None, op
        return int(found)

    def wait(self, code: str) -> Any:
        """The value of an expression once it is true."""
        from selenium.webdriver.support.wait import WebDriverWait  # as the driver

        waiting = WebDriverWait(self.driver, 30)
        return waiting.until(lambda d: d.execute_script(f"return {code}"))

    def problems(self) -> list[str]:
        """What the browser complained of."""
        return [str(entry["message"]) for entry in self.driver.get_log("browser")]


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Reports by the arguments of `cellc inspect`, each made once."""
    made: dict[tuple[str, ...], Path] = {}

    def write(*args: str, suffix: str = ".html") -> Path:
        if args not in made:
            out = tmp_path_factory.mktemp("report") / f"report{suffix}"
            assert cli.main(["inspect", *args, "-o", str(out)]) == 0
            made[args] = out
        return made[args]

    return write


@pytest.fixture
def page(driver: Any, written: Callable[..., Path]) -> Iterator[Callable[..., Page]]:
    """Opens reports; at the end of a test the browser must have had nothing to complain of."""
    opened: list[Page] = []

    def show(*args: str) -> Page:
        opened.append(Page(driver, written(*args)))
        return opened[-1]

    yield show
    for one in opened[-1:]:
        assert one.problems() == []
        assert one.js("performance.getEntriesByType('resource').length") == 0


NET = (f"{NETS}:Net", "--input", "x=float32[2,16]", "--input", "n=int64[]", "--grad", "--values")
STEP = (f"{NETS}:Classifier", "--train", "train_step", "--input", "x=float32[8,16]",
        "--input", "label=int32[8]", "--profile", "--runs", "3")
