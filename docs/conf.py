"""The site of `make docs`: Sphinx reads these Markdown files as GitHub does.

`index.rst` lists every page.  The build is strict: a link that leads nowhere, an anchor that no
page has and a page that the list does not name are errors.
"""

project = "Graveler"
extensions = ["myst_parser"]
# GitHub knows none of these; a page that used them would not read the same there.
myst_disable_syntax = ["myst_role", "myst_line_comment", "myst_target", "myst_block_break"]
myst_heading_anchors = 4
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
html_theme = "furo"
html_title = "Graveler"
html_show_copyright = False
html_show_sphinx = False
html_copy_source = False
templates_path: list[str] = []
pygments_style = "friendly"
pygments_dark_style = "github-dark"
highlight_language = "none"
