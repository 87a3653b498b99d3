"""The sample of a day: nothing is left out for ever, and a day's part is small."""

import pytest

from .. import daily


@pytest.mark.parametrize("cases", [1, 3, 40])
def test_every_case_has_its_day(cases: int) -> None:
    function, seconds = "tests/ops/test_some.py::test_it", 4.5 * daily.BUDGET
    ids = [f"{function}[{i}]" for i in range(cases)]
    days = [set(ids) - daily.left_for_other_days(ids, {function: seconds}, day)
            for day in range(20786, 20791)]
    assert sorted(i for kept in days for i in kept) == sorted(ids)
    assert max(map(len, days)) <= -(-cases // 5)


def test_functions_without_a_cost_and_rules_of_the_code_run_every_day() -> None:
    costs = {"tests/ops/test_long.py::test_it": 100.0, "tests/structure/test_x.py::test_it": 100.0}
    ids = ["tests/ops/test_new.py::test_it", "tests/structure/test_x.py::test_it"]
    assert not daily.left_for_other_days(ids, costs, 20786)
    days = [daily.left_for_other_days(["tests/ops/test_long.py::test_it"], costs, day)
            for day in range(100)]
    assert days.count(set()) == 1


def test_costs_name_functions_that_exist(request: pytest.FixtureRequest) -> None:
    """A function that was renamed would run whole, every day."""
    gone = [name for name in daily.recorded()
            if f"def {name.rpartition('::')[2]}(" not in
            (request.config.rootpath / name.partition("::")[0]).read_text()]
    assert not gone
