"""Formulas as MathML, which browsers draw themselves: no script, no font and no network is needed."""

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator


def inline(writer: HTML5Translator, node: nodes.math) -> None:
    """A formula in a sentence."""
    writer.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def block(writer: HTML5Translator, node: nodes.math_block) -> None:
    """A formula on a line of its own, with its number if it has one."""
    number = get_node_equation_number(writer, node) if node.get("number") else ""
    anchor = f' id="{node["ids"][0]}"' if node.get("ids") else ""
    label = f'<span class="equation-number">({number})</span>' if number else ""
    formula = tex2mathml(node.astext(), as_block=True).replace(
        "<mo movablelimits", '<mo class="large" movablelimits'
    )
    writer.body.append(f'<div class="equation"{anchor}>{formula}{label}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
