"""What the site has beside the pages of docs/: the API reference, the tutorial, files of the root, vector pictures."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "dynascope"
COMMANDS = "%%bash\n"  # how a cell of the notebook begins that holds commands
FROM_ROOT = ("CONTRIBUTING.md", "CHANGELOG.md")
# experiments are shown by the gallery and the index of equations; of their code only the contract is for readers
HIDDEN = re.compile(r"(^|/)_|^cli/|^experiments/\w+/")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Append the API reference to the navigation, one entry per module, in folders as the sources are."""
    tree: dict[str, list[dict[str, str]]] = {}
    for module in _modules():
        tree.setdefault(str(module.parent), []).append({module.stem: f"api/{module.with_suffix('.md')}"})
    alone = tree.pop(".")
    config.nav.append(
        {"API": ["api/index.md", *({name.replace("/", "."): pages} for name, pages in tree.items()), *alone]}
    )
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add pages that are made here, and files that lie outside docs/."""
    for name, text in _made_pages():
        files.append(File.generated(config, name, content=text))
    for name in (*FROM_ROOT, *(str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("examples/*.py")))):
        files.append(File(name, str(ROOT), config.site_dir, use_directory_urls=config.use_directory_urls))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Bend links that leave docs/, and those to the notebook, to where the site has the page."""
    here = page.file.src_uri
    if here in FROM_ROOT:
        return markdown.replace("](docs/", "](")
    if "/" in here:
        return markdown
    if here == "equations.md":
        markdown = _links_to_reference(markdown)
    return markdown.replace("](../", "](").replace("](tutorial.ipynb)", "](tutorial.md)")


def _links_to_reference(markdown: str) -> str:
    """Links to functions lead to the reference; the site has no sources of tests and experiments, only their names."""
    markdown = re.sub(r"\[(`[^`]+`)\]\(\.\./(?:tests|src/dynascope/experiments)/[^)]+\)", r"\1", markdown)

    def link(found: re.Match[str]) -> str:
        anchor = f"#dynascope.{found[1].replace('/', '.')}.{found[2]}" if found[2] else ""
        return f"](api/{found[1]}.md{anchor})"

    return re.sub(r"\]\(\.\./src/dynascope/([\w/]+)\.py(?:#([\w.]+))?\)", link, markdown)


def _modules() -> list[Path]:
    """Modules in the reference, as paths below the package."""
    paths = (path.relative_to(SOURCE) for path in sorted(SOURCE.rglob("*.py")))
    return [path for path in paths if not HIDDEN.search(path.as_posix())]


def _made_pages() -> Iterator[tuple[str, str]]:
    yield "tutorial.md", notebook_page(ROOT / "docs" / "tutorial.ipynb")
    yield "api/index.md", _public_names()
    for module in _modules():
        name = "dynascope." + ".".join(module.with_suffix("").parts)
        # in a search the pages written for people come first
        yield f"api/{module.with_suffix('.md')}", f"---\nsearch: {{boost: 0.3}}\n---\n\n# {name}\n\n::: {name}\n"


def _public_names() -> str:
    """The names of `from dynascope import …`, each with its first sentence and where it is described."""
    package = griffe.load("dynascope", search_paths=[str(ROOT / "src")], allow_inspection=False)
    rows = []
    for name in sorted(package.exports or ()):
        target = package[name].final_target if package[name].is_alias else package[name]
        sentence = target.docstring.value.splitlines()[0] if target.docstring else ""
        rows.append(f"| [`{name}`][{target.path}] | {sentence} |")
    head = (
        "# Reference\n\n"
        "What `from dynascope import …` offers. It stays; every other name may change between versions. Modules are\n"
        "listed beside, in folders as the sources are.\n\n"
        "| name | what |\n| --- | --- |\n"
    )
    return head + "\n".join(rows) + "\n"


def notebook_page(path: Path) -> str:
    """A notebook as Markdown: its cells, and what they printed and drew."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        language = "console" if source.startswith(COMMANDS) else "python"
        parts.append(f"```{language}\n{source.removeprefix(COMMANDS)}\n```")
        parts += [_output(each) for each in cell["outputs"]]
    return "\n\n".join(parts)


def _output(output: dict[str, Any]) -> str:
    data = output.get("data", {"text/plain": output.get("text", "")})
    if "image/png" in data:
        content = "".join(data["image/png"]).replace("\n", "")
        return f"![Picture drawn by the cell above](data:image/png;base64,{content})"
    return f"```text\n{''.join(data['text/plain']).rstrip()}\n```"
