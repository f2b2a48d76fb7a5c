"""The notebooks of examples/ as pages, with the outputs that they are committed with."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[2] / "examples"
# Objects that show themselves as HTML; frames are as readable as text.
_SHOWN_AS_HTML = ("Shelves(", "Shelf(", "Explanation(")


def pages(pictures: Path) -> dict[str, str]:
    """The text of each page, by name; pictures are written to a folder beside the pages."""
    pictures.mkdir(parents=True, exist_ok=True)
    return {f"notebooks/{path.stem}": _page(path, pictures) for path in sorted(EXAMPLES.glob("*.ipynb"))}


def _page(path: Path, pictures: Path) -> str:
    parts = []
    for number, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"]):
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        has_commands = any(line.lstrip().startswith("!") for line in source.splitlines())  # no Python to a highlighter
        parts.append(f"```{'text' if has_commands else 'python'}\n{source}\n```")
        for at, output in enumerate(cell["outputs"]):
            parts.append(_output(output, pictures / f"{path.stem}-{number}-{at}.png"))
    title, *rest = parts
    download = f"{{download}}`The notebook itself <../../../examples/{path.name}>`."
    return "\n\n".join([title, download, *filter(None, rest)]) + "\n"


def _output(output: dict[str, Any], picture: Path) -> str:
    if output["output_type"] == "stream":
        return _text("".join(output["text"]))
    data = output.get("data", {})
    plain = "".join(data.get("text/plain", ""))
    if "image/png" in data:
        picture.write_bytes(base64.b64decode("".join(data["image/png"])))
        return f"![output]({picture.parent.name}/{picture.name})"
    if "text/markdown" in data:
        return "".join(data["text/markdown"])
    if "text/html" in data and plain.startswith(_SHOWN_AS_HTML):
        html = "".join(data["text/html"])
        return f'```{{raw}} html\n<div class="notebook-output">{html}</div>\n```'
    return _text(plain)


def _text(text: str) -> str:
    text = text.strip("\n")
    return f"```{{code-block}} text\n:class: notebook-output\n\n{text}\n```" if text else ""
