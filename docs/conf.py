"""Settings of the documentation site; `make docs` builds it."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_site"))

import tastespace  # noqa: E402

project = "tastespace"
author = copyright = "The tastespace founders"
version = release = tastespace.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "site_extension",
]
exclude_patterns = ["_site", "_static", "_build"]

# Pages are Markdown. A heading is linked by its text, as on code hosts: page.md#its-text.
myst_enable_extensions = ["deflist", "html_image", "attrs_inline"]
myst_heading_anchors = 4

smartquotes = False  # flags begin with two hyphens

# Docstrings write `name` for what may be linked; what is not in the reference is shown as code.
default_role = "py:obj"
autodoc_typehints = "none"  # the signature says it
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
python_display_short_literal_types = True
python_use_unqualified_type_names = True
maximum_signature_line_length = 88
toc_object_entries_show_parents = "hide"
add_module_names = False

html_theme = "furo"
html_title = "tastespace"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_show_sphinx = False
html_last_updated_fmt = None
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#0060a0",
        "color-brand-content": "#0060a0",
    },
    "dark_css_variables": {
        "color-brand-primary": "#6fb8ea",
        "color-brand-content": "#6fb8ea",
    },
    "top_of_page_buttons": [],
}
pygments_style = "friendly"
pygments_dark_style = "github-dark"
copybutton_exclude = ".linenos, .gp, .go"
