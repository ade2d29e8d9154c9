"""How the site is built: `make docs`. Nothing is fetched, neither now nor by who reads it."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

import matplotlib  # noqa: E402

import torchmcl  # noqa: E402

project = "torchmcl"
author = "the authors of torchmcl"
version = release = torchmcl.__version__
project_copyright = author

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "commands",
    "mathml",
]
html_math_renderer = "mathml"
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
nitpicky = True
nitpick_ignore_regex = [
    ("py:(class|exc|meth|attr|func|mod)", ".*")
]  # names in signatures; links in prose are py:obj

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
default_role = "code"
napoleon_numpy_docstring = False
napoleon_use_rtype = False
python_display_short_literal_types = True
add_module_names = False
python_use_unqualified_type_names = True
maximum_signature_line_length = 90

html_theme = "furo"
html_title = f"torchmcl {version}"
# The font draws formulas where the reader's machine has none for mathematics.
html_static_path = ["_static", f"{matplotlib.get_data_path()}/fonts/ttf/DejaVuSerif.ttf"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
