"""Settings of the documentation: Sphinx, Furo, pages in Markdown. Built by `make docs`."""

from isonomy import __version__

project = "Isonomy"
copyright = "the authors of Isonomy, Apache-2.0"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["_build"]

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
suppress_warnings = [
    "myst.header",  # pages that are generated may skip a level
    "myst.xref_missing",  # links to files of the repository, such as ../CONTRIBUTING.md; tests/docs checks links
    "ref.python",  # a name that is both exported and defined in a module has two targets
]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
maximum_signature_line_length = 90
python_use_unqualified_type_names = True
add_module_names = False

html_theme = "furo"
html_title = f"Isonomy {__version__}"
html_show_sourcelink = False
