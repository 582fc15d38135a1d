"""The report of the experiments: its numbers are those of the JSON, and a browser shows all of it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from helpers.browser import DESK, PHONE, look, print_page

from experiments import report
from experiments.cells import cell_text, seconds
from experiments.results import FOLDER, load

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("report")
    html, markdown = folder / "page.html", folder / "docs" / "experiments.md"
    assert report.main(["--html", str(html), "--markdown", str(markdown)]) == 0
    return html, markdown


def test_every_experiment_has_results_in_the_repository() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == set(report.SECTIONS)


def test_the_page_in_the_documentation_is_made_from_the_results(pages: tuple[Path, Path]) -> None:
    """A change of either without `make report` fails here."""
    assert (ROOT / "docs/experiments.md").read_text(encoding="utf-8") == pages[1].read_text(encoding="utf-8")


def test_every_figure_of_the_markdown_is_beside_it(pages: tuple[Path, Path]) -> None:
    named = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", pages[1].read_text(encoding="utf-8"))
    assert len(named) >= 6
    for page in (pages[1], ROOT / "docs/experiments.md"):
        assert all(
            (page.parent / name).read_text(encoding="utf-8").rstrip().endswith("</svg>") for name in named
        )


def test_numbers_on_the_page_are_those_of_the_json(pages: tuple[Path, Path]) -> None:
    html, markdown = (page.read_text(encoding="utf-8") for page in pages)
    cells = load(FOLDER / "table1.json")["cells"]
    shown = [cell_text(cell, ["x", "b"]) for cell in cells.values()]
    assert shown
    assert all(text in html and text in markdown for text in shown)


def test_a_number_that_changes_in_the_json_changes_on_the_page(tmp_path: Path) -> None:
    record = load(FOLDER / "table1.json")
    name = next(name for name in record["cells"] if name.endswith("/altdiff"))
    record["cells"][name]["total"]["median"] = 4321.0
    (tmp_path / "table1.json").write_text(json.dumps(record), encoding="utf-8")
    html = tmp_path / "page.html"
    report.main(["--results", str(tmp_path), "--html", str(html), "--markdown", str(tmp_path / "page.md")])
    text = html.read_text(encoding="utf-8")
    assert "4321 (" in text
    assert "Not run yet: python -m experiments.table2" in text


@pytest.mark.parametrize("kept", [0, 1, 3])
def test_a_run_that_was_interrupted_has_a_page_too(kept: int, tmp_path: Path) -> None:
    """The first cells of each experiment alone, and one experiment as a whole."""
    for path in FOLDER.glob("*.json"):
        record = load(path)
        count = len(record["cells"]) if path.stem == "table6" else kept
        record["cells"] = dict(list(record["cells"].items())[:count])
        (tmp_path / path.name).write_text(json.dumps(record), encoding="utf-8")
    html = tmp_path / "page.html"
    pages = ["--html", str(html), "--markdown", str(tmp_path / "page.md")]
    assert report.main(["--results", str(tmp_path), *pages]) == 0
    assert "Table 6" in html.read_text(encoding="utf-8")


def test_results_of_quick_runs_are_said_to_be_such(pages: tuple[Path, Path]) -> None:
    quick = [path.stem for path in FOLDER.glob("*.json") if load(path)["quick"]]
    text = pages[1].read_text(encoding="utf-8")
    assert ("QUICK RUN" in text) == bool(quick)


def test_a_wrong_answer_is_called_wrong_and_an_absent_one_says_why() -> None:
    times = {"median": 2.0, "low": 2.0, "high": 2.0, "count": 1}
    cell: dict[str, Any] = {"total": times, "errors": {"x": 0.3}}
    assert cell_text(cell, ["x"]) == "2, wrong (error 0.3)"
    assert cell_text({"total": times, "errors": {"x": 1e-9}}, ["x"]) == "2 (1e-09)"
    assert cell_text({"total": times, "errors": {"x": "inf"}}, ["x"]) == "2, wrong (error inf)"
    assert cell_text({"total": times, "errors": {"x": "nan"}}, ["x"]).startswith("2, wrong")
    assert cell_text({"problem": "did not finish in 5 s"}, ["x"]) == "did not finish in 5 s"
    assert cell_text(None, ["x"]) == "not run"


def test_times_have_three_digits() -> None:
    assert [seconds(value) for value in (1234.5, 1.2345, 0.012345, 0.00012345)] == [
        "1234",
        "1.23",
        "0.0123",
        "1.2e-04",
    ]


def test_without_results_there_is_a_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert report.main(["--results", str(tmp_path)]) == 2
    assert "run an experiment first" in capsys.readouterr().err


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_a_browser_shows_the_whole_page(
    pages: tuple[Path, Path], size: tuple[int, int], tmp_path: Path
) -> None:
    seen = look(pages[0], size, tmp_path)
    assert seen["faults"] == []
    assert seen["console"] == []
    assert seen["missing"] == 0
    assert len(seen["drawings"]) >= 6
    assert all(seen["drawings"])
    assert seen["tables"] >= 9
    assert seen["wide"] <= 0, "the page scrolls sideways; only its tables may"
    assert seen["text"] >= 14


def test_the_browser_notices_a_missing_image_and_an_error(tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text(
        "<!DOCTYPE html><html><head></head><body><img src='none.png'><script>nothing()</script></body></html>"
    )
    seen = look(page, DESK, tmp_path)
    assert seen["missing"] == 1
    assert any("nothing" in fault for fault in seen["faults"])


def test_the_page_can_be_printed(pages: tuple[Path, Path], tmp_path: Path) -> None:
    content = print_page(pages[0], tmp_path)
    assert content.startswith(b"%PDF")
    assert len(content) > 20_000
