"""Tests the page of wait predictions on predictions whose quality is known."""

import numpy as np

from batchcast.events.recorded import Forecasts
from batchcast.predict.hazard.bins import BINS, quantiles
from batchcast.report.blocks import Table
from batchcast.report.wait_page import (
    Scored,
    by_group,
    chances_said,
    errors,
    finders,
    promised,
    sharpness,
    short_and_whole,
    wait_sections,
)

LEVELS = (0.1, 0.5, 0.9)
N = 4000


def drawn(seed: int, late: float = 1.0) -> tuple[Scored, np.ndarray]:
    """A method that knows the distribution of each job's wait, and waits drawn from it, multiplied by `late`."""
    random = np.random.default_rng(seed)
    chances = np.sort(random.random((N, BINS)), axis=1)
    chances[:, -1] = 1.0
    wait = np.maximum(quantiles(chances, random.random((N, 1)))[:, 0] * late, 0.0)
    said = np.maximum(quantiles(chances, np.tile(LEVELS, (N, 1))), 1.0)
    return Scored("knows", Forecasts(said[:, 1], LEVELS, said, ()), chances), wait


def series(figure, name):
    (trace,) = [trace for trace in figure.data if trace["name"] == name]
    return np.array(trace["x"], float), np.array(trace["y"], float)


def test_who_knows_the_chances_lies_on_the_diagonal_and_who_is_early_below() -> None:
    honest, wait = drawn(1)
    for figure, names in (
        (promised([honest], wait), ["knows"]),
        (chances_said([honest], wait), ["knows, within 1 h", "knows, within 1 day"]),
    ):
        for name in names:
            said, happened = series(figure, name)
            assert np.abs(said - happened).mean() < 0.05
    early, wait = drawn(2, late=20.0)
    said, happened = series(promised([early], wait), "knows")
    assert (happened < said - 0.05).all()
    said, happened = series(chances_said([early], wait), "knows, within 1 h")
    assert happened.mean() < said.mean() - 0.05


def test_a_point_alone_has_no_promise_and_no_width_but_errors_and_a_curve() -> None:
    wait = np.array([10.0, 7200.0] * 30)
    point = Scored("always 1 h", Forecasts(np.full(60, 3600.0), (), np.zeros((60, 0)), ()), None)
    assert promised([point], wait) is None
    assert chances_said([point], wait) is None
    assert sharpness([point]) is None
    (bars,) = errors([point], wait).data
    assert bars["x"][:3] == [3590.0, 3600.0, None]
    found = series(finders([point], wait, 3600.0), "always 1 h")
    assert (found[0][-1], found[1][-1]) == (0.5, 1.0), "all alike: all marked at once, half of them late"


def test_the_curve_ends_where_every_job_is_marked_and_never_falls() -> None:
    honest, wait = drawn(3)
    late, found = series(finders([honest], wait, 3600.0), "knows")
    assert (late[0], found[0], found[-1]) == (0.0, 0.0, 1.0)
    assert late[-1] == np.round((wait > 3600.0).mean(), 6)
    assert (np.diff(late) >= 0).all()
    assert (np.diff(found) >= 0).all()


def test_groups_are_the_largest_with_what_each_method_did_in_them() -> None:
    honest, wait = drawn(4)
    names = np.where(np.arange(N) % 4 == 0, "small", "large")
    names[:5] = "tiny"
    table = by_group([honest], wait, "partition", names.tolist())
    assert [row["partition"] for row in table.rows] == ["large", "small"]
    assert table.note == "1 smaller group left out."
    large = names == "large"
    assert table.rows[0]["jobs"] == large.sum()
    assert table.rows[0]["mae_s"] == np.abs(honest.forecasts.points - wait)[large].mean()
    assert 0.75 < table.rows[0]["interval_80"] < 0.85


def test_a_page_leaves_out_jobs_without_a_wait() -> None:
    honest, wait = drawn(5)
    wait[::2] = np.nan
    sections = wait_sections(Table("t", (), []), [honest], wait, {"size": ["1"] * N}, 3600.0)
    assert [section.title for section in sections] == ["Scores", "Calibration and errors", "By group"]
    assert len(sections[1].blocks) == 5
    assert sections[2].blocks[0].rows[0]["jobs"] == N / 2


def test_a_page_shows_the_first_columns_and_folds_the_others() -> None:
    from batchcast.report.tables import WAIT_COLUMNS

    keys = [column.key for column in WAIT_COLUMNS]
    rows = [{**dict.fromkeys(keys, 0.5), "predictor": name, "quick_s": quick} for name in "ab" for quick in (60, 600)]
    short, whole = short_and_whole(Table("Scores", WAIT_COLUMNS, rows, "honest clock"))
    assert isinstance(short, Table)
    assert isinstance(whole, Table)
    assert len(short.columns) <= 8
    assert [row["predictor"] for row in short.rows] == ["a", "b"], "a row a method"
    assert (whole.folded, len(whole.columns), len(whole.rows)) == (True, len(WAIT_COLUMNS), 4)
