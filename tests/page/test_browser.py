"""The page in a headless Chromium, clicked through as a person would."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lowgraph.debug.text import printable
from tests.page.browser import Browser
from tests.page.graphs import BIDI, HOSTILE, LONG

Pages = Callable[[str], Path]
ESCAPE, DOWN, UP, LEFT, RIGHT, END = "\ue00c", "\ue015", "\ue013", "\ue012", "\ue014", "\ue010"
IN_SIGHT = """
const box = document.querySelector(arguments[0]).getBoundingClientRect();
const found = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
return found !== null && found.closest(arguments[0]) !== null;
"""


def selected(browser: Browser) -> str:
    """Heading of the inspector, and the node's number below it."""
    return f"{browser.text('#inspector h2')}, {browser.text('#inspector .sub')}"


def facts(browser: Browser) -> dict[str, str]:
    """What the inspector says of the node, by name."""
    names, told = browser.all("#inspector dt"), browser.all("#inspector dd")
    return {name.text: value.text for name, value in zip(names, told, strict=True)}


def click_node(browser: Browser, index: int) -> None:
    browser.one(f".node[data-index='{index}']").click()


def test_a_node_is_clicked_and_its_edge_followed(browser: Browser, page: Pages) -> None:
    browser.open(page("small"))
    assert browser.text("#title") == "step"
    click_node(browser, 3)
    assert selected(browser) == "gelu, node 3"
    told = browser.one("#inspector").text
    for part in ("/home/me/step.py:4", "4 × 1 × 1", "128 × 1 × 1", "forward/layer 0", "a.cu"):
        assert part in told
    rows = [row.text for row in browser.all("#inspector .arguments tr")]
    assert [row.split()[0] for row in rows] == ["y", "x", "n"]
    assert "slice 0" in rows[0] and "writes" in rows[0] and "3" in rows[2]
    browser.one("[data-edges='then'] button").click()
    assert selected(browser) == "attention_forward, node 4"
    browser.one("[data-edges='waits for'] button").click()
    assert selected(browser) == "gelu, node 3"
    assert browser.one(".node.selected").get_attribute("data-index") == "3"


def test_a_fork_is_two_links_and_a_branch_beside(browser: Browser, page: Pages) -> None:
    browser.open(page("small"), "node=0.9")
    links = [link.text for link in browser.all("[data-edges='then'] button")]
    assert links == ["10 gemm_nt", "15 gemm_nt"]
    browser.until("both in the page", lambda: len(browser.all(".node[data-index='10']")))
    trunk, branch = (browser.one(f".node[data-index='{n}']").rect for n in (15, 10))
    assert trunk["y"] == branch["y"] and trunk["x"] < branch["x"]
    frames = [frame.text for frame in browser.all(".group span")]
    assert "forward/layer 0" in frames


def test_lanes_are_streams_with_their_names(browser: Browser, page: Pages) -> None:
    browser.open(page("forked"))
    names = {lane.text: lane.rect for lane in browser.all(".lane")}
    assert list(names) == ["stream 0, captured", "stream 1"]
    boxes = {int(box.get_attribute("data-index")): box.rect for box in browser.all(".node")}
    for name, places in (("stream 0, captured", (0, 3, 4, 6)), ("stream 1", (1, 2))):
        left, bottom = names[name]["x"], names[name]["y"] + names[name]["height"]
        assert {boxes[place]["x"] for place in places} == {left}
        assert all(boxes[place]["y"] >= bottom for place in places)
    assert names["stream 0, captured"]["x"] < names["stream 1"]["x"]
    browser.open(page("forked"), "node=0.2")
    assert facts(browser)["stream"] == "stream 1"
    browser.open(page("forked"), "node=0.5")
    assert selected(browser).endswith("node 5") and "stream" not in facts(browser)
    browser.open(page("small"))
    assert browser.all(".lane") == []


def test_what_runs_in_a_node_is_a_link_away(browser: Browser, page: Pages) -> None:
    browser.open(page("bodies"), "node=0.1")
    titles = [title.text for title in browser.all(".section")]
    assert titles == ["child, run by node 1", "loop"]
    browser.one("#inspector .links:last-child button").click()
    assert selected(browser) == "gelu, node 3"
    (parent,) = [one for one in browser.all("#inspector dd button") if one.text == "1 graph"]
    parent.click()
    assert selected(browser) == "graph, node 1"


def test_arguments_without_end_are_counted(browser: Browser, page: Pages) -> None:
    browser.open(page("many"), "node=0.0")
    assert len(browser.all(".arguments tr")) == 200
    assert "and 100 arguments more" in browser.text("#inspector")
    assert len(browser.text(".node .detail")) < 250


def test_a_slice_leads_to_its_users(browser: Browser, page: Pages) -> None:
    browser.open(page("small"), "node=0.3")
    browser.one("#inspector .arguments button").click()
    assert selected(browser) == "slice 0, memory"
    assert "0x1000" in browser.one("#inspector dl").text
    users = [link.text for link in browser.all("[data-edges='used by'] li")]
    assert users[0] == "0 gemm_ntwrites" and len(users) == 10
    assert browser.all(".node.user")


@pytest.mark.parametrize(
    ("field", "text", "count"),
    [
        ("all", "GELU", "20 hits"),
        ("kernel", "gelu", "20 hits"),
        ("kernel", "layer 1", "0 hits"),
        ("stage", "layer 1", "50 hits"),
        ("slice", "slice 19", "5 hits"),
        ("file", "step.py:10", "2 hits"),
    ],
)
def test_search_finds(browser: Browser, page: Pages, field: str, text: str, count: str) -> None:
    browser.open(page("small"))
    browser.one(f"#field option[value='{field}']").click()
    browser.press("/")
    browser.one("#query").send_keys(text)
    browser.until("the hits are counted", lambda: browser.text("#hits") == count)
    browser.one("#next").click()
    assert (browser.text("#hits") == f"1 of {count}") is (count != "0 hits")


def test_hits_are_stepped_through(browser: Browser, page: Pages) -> None:
    browser.open(page("small"))
    browser.one("#query").send_keys("gelu\n")
    browser.until("the first", lambda: selected(browser) == "gelu, node 3")
    browser.one("#next").click()
    assert selected(browser) == "gelu, node 8"
    browser.one("#previous").click()
    browser.one("#previous").click()
    assert selected(browser) == "gelu, node 98"
    browser.until("it is in sight", lambda: browser.run(IN_SIGHT, ".node.selected"))
    browser.all(".results li button")[2].click()
    assert browser.text("#hits") == "3 of 20 hits"
    browser.one("#query").send_keys(ESCAPE)
    browser.until(
        "it is cleared", lambda: not browser.all(".node.hit") and not browser.text("#hits")
    )


def test_the_critical_path_is_shown_and_says_what_it_counts(browser: Browser, page: Pages) -> None:
    browser.open(page("small"), "node=0.10")
    assert "by count" in browser.text("#sidebar .critical")
    assert not browser.all(".node.path, .node.dim")
    browser.one("#path").click()
    browser.until("it shows", lambda: browser.all(".node.path"))
    on_it = {one.get_attribute("data-index") for one in browser.all(".node.path")}
    assert {"9", "15"} <= on_it and "11" not in on_it
    assert browser.one(".edge.path").get_attribute("d")
    browser.press("c")
    browser.until("it is gone", lambda: not browser.all(".node.path"))
    browser.open(page("timed"))
    assert "by time" in browser.text("#sidebar .critical")
    assert browser.all(".stages tr")[1].text.split() == ["forward", "50", "100.0"]


def test_the_memory_map_leads_to_slices_and_nodes(browser: Browser, page: Pages) -> None:
    browser.open(page("small"))
    browser.press("m")
    browser.until("bars", lambda: browser.all(".labels button"))
    bars = [one.get_attribute("title") for one in browser.all(".labels button")]
    assert bars[0] == "slice 0, 1.00 KiB at 0x1000"
    browser.all(".labels button")[2].click()
    assert selected(browser) == "slice 2, memory"
    ink = """
        const canvas = document.querySelector(arguments[0]);
        const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
        return data.filter((value, place) => place % 4 === 3 && value).length;"""
    assert browser.run(ink, ".bars") > 1000 and browser.run(ink, ".curve") > 1000
    browser.one("[data-mode='address']").click()
    browser.until("by address", lambda: "slice 0 \u00b7 1.00 KiB" in browser.one(".labels").text)
    curve = browser.one(".curve").rect
    browser.run("""
        const at = {bubbles: true, clientX: arguments[0], clientY: arguments[1]};
        document.elementFromPoint(arguments[0], arguments[1])
            .dispatchEvent(new MouseEvent('click', at));""",
        curve["x"] + curve["width"] - 12, curve["y"] + 5)  # fmt: skip
    assert selected(browser) == "attention_forward, node 99"


def test_a_use_in_a_bar_leads_to_its_node(browser: Browser, page: Pages) -> None:
    browser.open(page("small"), "view=memory")
    bars = browser.one(".bars").rect
    found = browser.run("""
        const canvas = document.querySelector('.bars');
        const names = Math.min(240, canvas.clientWidth * 0.4);
        const x = names + (7.5 / 100) * (canvas.clientWidth - names - 8);
        canvas.dispatchEvent(new MouseEvent('click',
            {bubbles: true, clientX: arguments[0] + x, clientY: arguments[1] + 36}));
        return document.querySelector('#inspector .sub').textContent;""",
        bars["x"], bars["y"])  # fmt: skip
    assert found == "node 7", "slice 1, in the second line, is used by nodes 5 to 14"


def test_a_comparison_is_a_list_and_two_pictures(browser: Browser, page: Pages) -> None:
    browser.open(page("diff"))
    assert browser.text(".verdict").startswith("an update would be: must re-instantiate (TOPOLOGY")
    rows = browser.all(".diff .row")
    assert [row.find_element("css selector", ".mark").text for row in rows] == ["~", "~", "~", "+"]
    assert "is-added" in rows[3].get_attribute("class")
    rows[1].click()
    assert selected(browser) == "gemm_nt, new node 5"
    assert browser.text("#inspector del") == "(6, 1, 1)"
    assert browser.text("#inspector ins") == "(9, 9, 1)"
    browser.one("[data-status='same']").click()
    browser.until("the same too", lambda: len(browser.all(".diff .row")) > 10)
    browser.one("[data-view='graph']").click()
    browser.until("twins", lambda: len(browser.all(".node.selected")) == 2)
    colours = {one.value_of_css_property("background-color")
               for name in ("same", "changed") for one in browser.all(f".node.is-{name}")
               if "selected" not in one.get_attribute("class")}  # fmt: skip
    assert len(colours) == 2
    browser.all(".pane")[0].find_element("css selector", ".node[data-index='3']").click()
    assert selected(browser) == "gelu, old node 3"


def test_the_keys_walk_the_graph(browser: Browser, page: Pages) -> None:
    browser.open(page("small"))
    browser.press(DOWN)
    assert selected(browser).endswith("node 0")
    browser.press(*DOWN * 10)
    assert selected(browser).endswith("node 15"), "along the branch"
    browser.press(*DOWN * 15, UP)
    assert selected(browser).endswith("node 29"), "and not into the one that joins at 30"
    browser.press(*UP * 14)
    browser.press(RIGHT)
    assert selected(browser).endswith("node 10")
    browser.press(LEFT, UP)
    assert selected(browser).endswith("node 9")
    browser.press(END)
    assert selected(browser).endswith("node 99")
    focused = "return document.activeElement.dataset.index"
    browser.until("focus goes with it", lambda: browser.run(focused) == "99")
    browser.press("?")
    assert browser.one("#help").is_displayed()
    browser.press(ESCAPE)
    assert not browser.one("#help").is_displayed()
    browser.press(ESCAPE)
    assert not browser.all("#inspector h2")


def test_light_dark_and_size_are_kept_in_the_address(browser: Browser, page: Pages) -> None:
    paper = "return getComputedStyle(document.body).backgroundColor"
    browser.open(page("small"), "theme=light")
    light = browser.run(paper)
    browser.press("t")
    dark = browser.run(paper)
    assert light != dark
    browser.run("location.hash = 'theme=light&view=memory&node=0.7&path=1&find=kernel:gelu'")
    browser.until("the address is followed", lambda: browser.run(paper) == light)
    assert selected(browser) == "layernorm_forward, node 7"
    assert browser.text("#hits") == "20 hits" and browser.all("#view .memory")
    browser.press("g", "-")
    height = "return document.querySelector('.node').getBoundingClientRect().height"
    browser.until("smaller", lambda: browser.run(height) < 30)
    browser.run("location.hash = 'theme=%3Cb%3E&view=constructor&node=9.9e9&find=x:%3Cimg%3E'")
    browser.until(
        "nonsense changes nothing", lambda: "view=graph" in browser.run("return location.hash")
    )


def test_hostile_names_are_text(browser: Browser, page: Pages) -> None:
    browser.open(page("hostile"))
    assert browser.all("img") == [] and len(browser.all("script")) == 2
    assert browser.text("#title") == HOSTILE
    for index, name in enumerate((HOSTILE, printable(BIDI), LONG)):
        click_node(browser, index)
        assert browser.text("#inspector h2") == name
    browser.press("m")
    browser.until("its bars", lambda: len(browser.all(".labels button")) == 3)
    assert browser.run("return document.documentElement.scrollWidth") <= 1280, "nothing spills"
    assert browser.driver.title.endswith(" - lowgraph"), "no name set it"


def test_the_policy_forbids_requests_and_other_scripts(browser: Browser, page: Pages) -> None:
    browser.open(page("small"))
    browser.run("""
        window.told = [];
        document.addEventListener('securitypolicyviolation',
                                  (event) => window.told.push(event.effectiveDirective));
        fetch('http://127.0.0.1:9/').catch(() => {});
        const image = document.createElement('img');
        image.src = 'http://127.0.0.1:9/';
        const script = document.createElement('script');
        script.textContent = 'document.title = "hit"';
        document.body.append(image, script);""")
    wanted = {"connect-src", "img-src", "script-src-elem"}
    browser.until("all are refused", lambda: set(browser.run("return window.told")) == wanted)
    assert browser.driver.title == "step - lowgraph"
    assert len(browser.errors()) >= 3, "the console was told"


# Milliseconds from a key to the picture that it led to, and of a scroll through the whole graph.
MEASURED = """
const picture = () => new Promise((then) => requestAnimationFrame(() => setTimeout(then)));
async function timed(work) {
  await picture();
  const start = performance.now();
  work();
  await picture();
  return performance.now() - start;
}
const press = (key) => document.body.dispatchEvent(
  new KeyboardEvent('keydown', {key, bubbles: true}));
const query = document.getElementById('query');
const scroller = document.querySelector('.scroller');
async function scrolled() {
  const start = performance.now();
  for (let part = 1; part <= 20; part += 1) {
    scroller.scrollTop = scroller.scrollHeight * part / 20;
    await picture();
  }
  return (performance.now() - start) / 20;
}
return (async () => ({
  load: performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd,
  search: await timed(() => { query.value = 'gelu'; query.form.requestSubmit(); }),
  scroll: await scrolled(),
  end: await timed(() => press('End')),
  next: await timed(() => press('ArrowUp')),
  path: await timed(() => press('c')),
  memory: await timed(() => press('m')),
  graph: await timed(() => press('g')),
}))();
"""


def test_five_thousand_nodes_are_quick(browser: Browser, page: Pages) -> None:
    runs: list[dict[str, float]] = []
    for _ in range(3):
        browser.open(page("large"))
        browser.until("it is drawn", lambda: browser.all(".node"))
        assert len(browser.all(".node")) < 100, "only what is in sight is in the page"
        runs.append(browser.run(MEASURED))
    # The least of three, as another process may have the core; ten times what a machine takes that
    # does nothing else.
    figures = {name: min(run[name] for run in runs) for name in runs[0]}
    print({name: round(ms, 1) for name, ms in figures.items()})
    assert figures.pop("load") < 5000
    assert max(figures.values()) < 1000, figures
    assert browser.text("#inspector .sub") == "node 4998"
    assert browser.text("#hits") == "1 of 1000 hits"
    browser.until("it is in sight", lambda: browser.run(IN_SIGHT, ".node.selected"))
    browser.one(".overview").click()
    browser.until("the middle", lambda: browser.all(".node[data-index^='25']"))


def test_a_phone_shows_the_selection_below(browser: Browser, page: Pages) -> None:
    browser.resize(390, 844)
    browser.open(page("small"))
    assert not browser.one("#inspector").is_displayed()
    click_node(browser, 1)
    graph, below = browser.one("#view").rect, browser.one("#inspector").rect
    assert below["y"] >= graph["y"] + graph["height"] - 1 and graph["height"] > 250
    assert browser.run("return document.documentElement.scrollWidth") <= 390
    browser.one("#toggle").click()
    assert browser.one("#sidebar").is_displayed()
