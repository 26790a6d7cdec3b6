"""Run docs/tutorial.ipynb and store what its cells print and draw: `make tutorial`, after a change that shows in it."""

import os
import re
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).with_name("tutorial.ipynb")


def main() -> None:
    """Run all cells in an empty folder and write the notebook back."""
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    os.environ["COLUMNS"] = "95"  # tables of the command line are laid out for a page
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        place = {"metadata": {"path": folder}}
        NotebookClient(notebook, timeout=600, resources=place, coalesce_streams=True).execute()
    nbformat.write(tidied(notebook), NOTEBOOK)


def tidied(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Leave out what differs from run to run or from terminal to terminal: counts, times, progress, colours."""
    notebook.metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    for cell in notebook.cells:
        cell.metadata = {}
        if cell.cell_type != "code":
            continue
        cell.execution_count = None
        cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
        for output in cell.outputs:
            if output.output_type == "execute_result":
                output.execution_count = None
            if "text" in output:
                plain = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", output.text)
                output.text = re.sub(r" +$", "", plain, flags=re.MULTILINE)
    return notebook


if __name__ == "__main__":
    main()
