"""Graphs as Graphviz text, and the HTML page about an optimization."""

import re
from html.parser import HTMLParser

import onnx.parser
import pytest

import onnxgrad as og
from onnxgrad.exporters.dot import to_dot
from onnxgrad.exporters.html_report import html_report
from onnxgrad.exporters.picture import picture

HEAD = '<ir_version: 9, opset_import: ["" : 18, "own" : 1]>'
MODEL = """g (float[N, 4] x, bool c) => (float[N, 2] y, float[N, 4] z) <float[4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8}> {
    h = MatMul (x, w)
    y = If (c) <then_branch = t () => (float[N, 2] a) { a = Relu(h) },
                else_branch = e () => (float[N, 2] b) { b = Neg(h) }>
    z = Identity (x)
}"""


def load(text):
    return og.load(onnx.parser.parse_model(HEAD + text))


def test_a_picture_has_inputs_nodes_outputs_and_what_bodies_read():
    drawn = picture(load(MODEL))
    assert [(box.kind, box.label) for box in drawn.boxes] == [
        ("input", "x"),
        ("input", "c"),
        ("node", "MatMul"),
        ("node", "If"),
        ("node", "Identity"),
        ("output", "y"),
        ("output", "z"),
    ]
    assert {(arrow.start, arrow.end, arrow.captured) for arrow in drawn.arrows} == {
        (0, 2, False),
        (1, 3, False),
        (2, 3, True),
        (0, 4, False),
        (3, 5, False),
        (4, 6, False),
    }
    assert "w: float[4, 2] (constant)" in drawn.boxes[2].details
    assert "then_branch: a graph of 1 nodes" in drawn.boxes[3].details


def test_dot_has_boxes_arrows_and_quotes():
    text = to_dot(load('g (float[2] x) => (float[2] y) { y = own.Foo <note: string = "a\\"b"> (x) }'))
    assert text.startswith("digraph ")
    assert 'n1 [label="Foo"' in text
    assert 'n0 -> n1 [label="[2]", tooltip="x"];' in text
    assert text.count("{") == text.count("}")


class Checker(HTMLParser):
    """Every tag that is opened is closed, and nothing is fetched."""

    EMPTY = frozenset({"meta", "input", "rect", "br"})

    def __init__(self):
        super().__init__()
        self.open, self.count = [], {}

    def handle_starttag(self, tag, attributes):
        self.count[tag] = self.count.get(tag, 0) + 1
        assert not {"src", "href", "srcset"} & {name for name, _ in attributes}
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.count[tag] = self.count.get(tag, 0) + 1

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def page(model, **options):
    result = og.optimize_for_inference(model)
    report = og.optimization_report(result)
    return html_report(model, result, report.hits, report.seconds, **options)


def test_the_page_is_whole_and_needs_nothing_else():
    text = page(load(MODEL), title="<a & b>", checked=3)
    checker = Checker()
    checker.feed(text)
    assert checker.open == []
    assert checker.count["svg"] == 2
    assert checker.count["rect"] == 2 * len(picture(load(MODEL)).boxes)  # nothing in it can be simplified
    assert not re.search(r"https?://|@import|url\(", text)
    assert "<!--" not in text.replace("<!DOCTYPE", "")
    assert "&lt;a &amp; b&gt;" in text
    assert "checked on 3 random inputs" in text


def test_names_from_a_file_are_text_and_no_markup():
    model = load("g (float[2] x) => (float[2] y) { h = Abs(x) y = Neg(h) }")
    model.graph.inputs[0].name = "<script>alert(1)</script>"
    model.graph[0].name = "--><img src=x onerror=alert(1)>"
    text = page(model)
    assert text.count("<script>") == 1
    assert "<img" not in text


def test_a_thousand_nodes_make_a_page_of_reasonable_size():
    steps = "".join(f"h{i + 1} = Add(h{i}, h{max(i - 3, 0)}) " for i in range(1000))
    model = load(f"g (float[N,4] h0) => (float[N,4] h1000) {{ {steps} }}")
    text = page(model)
    assert len(text) < 2_000_000
    assert text.count("<rect") >= 2 * 1000


PEAKS = [
    ("g (float[256] x) => (float[256] y) { y = Abs(x) }", 2048),
    ("g (float[256] x) => (float[256] y) { a = Abs(x) b = Neg(a) c = Abs(b) y = Neg(c) }", 2048),
    ("g (float[256] x) => (float[256] y) { a = Abs(x) b = Neg(a) y = Add(b, a) }", 3072),
    ("g (float[256] x, float16[512] z) => (float[256] y) { a = Abs(x) y = Neg(a) }", 3072),
    ("g (float[N,4] x) => (float[N,4] y) { y = Abs(x) }", 32),
]


@pytest.mark.parametrize(("graph", "peak"), PEAKS)
def test_memory_is_counted_while_values_are_needed(graph, peak):
    assert og.summary(load(graph)).peak_bytes == peak
