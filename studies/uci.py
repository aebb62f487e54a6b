"""The table of the first experiment on Adult, Credit and German, with the paper's table of hyper-parameters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from isonomy.arithmetic import at_most
from studies import Result, Setting, Store
from studies.measures import averaged, measured, row_of, table
from studies.methods import RIDGE, Way
from studies.models import Case, Size, cases
from studies.tables import UCI, Dataset
from studies.training import SEEDS, draw, forms, tuning


def run(setting: Setting, store: Store, *, datasets: Sequence[Dataset] = UCI, size: Size | None = None) -> Result:
    """Adult, Credit and German."""
    size = size or Size.of(setting)
    tried = cases(datasets, size, setting)
    data, found = measured(tried, setting, store)
    means = averaged(data)
    return Result(
        name="uci",
        title="Ways of training on Adult, Credit and German",
        story=(
            f"Networks {size.shape} with the paper's hyper-parameters (depth, width, learning "
            f"rate, epochs, delta, gamma), trained in every way; certificates of up to {size.people:,} test "
            f"individuals, {setting.seeds} seed{'s' * (setting.seeds > 1)}. **LFC** is the mean local violation that "
            "is proved, **A-DFC** the largest mean violation of any population within gamma: of each network none "
            f"exceeds *upper*, and an explicit one attains *lower*. {SEEDS} The paper uses these tables for its "
            "timings and prints no accuracies or bounds for them, so nothing stands in brackets, and its methods are "
            "those that were trained in box form; the tables have no states or years, so there is no E-DFC.",
            *_gains(means, tried),
            *_factors(means, tried),
            *forms(means, tried, "What is not always better: our bound in place of the box form in the loss"),
            f"The metric is the sensitive subspace with ridge {RIDGE:g}, fitted on the training split, the domain "
            "unbounded. Protected are race and sex in Adult, marital status with sex, age and foreign workers in "
            "German, sex in Credit (in the paper's columns, where no network sees it: FTU is SGD there); the paper "
            f"protects sex alone. {tuning(tried)} Those of German were chosen at a larger delta and gamma.",
            *found.words(),
        ),
        tables=tuple((_caption(case), table(means, case, {})) for case in tried),
        data=data,
        draw=lambda drawn: draw(drawn, means, tried, {}),
        size=(7.2, 4.0),
        alt="Accuracy against the mean violation under every shift within gamma, a panel for each dataset and a mark "
        "for each way of training; a line leads from the lower bound to the upper one.",
    )


def _caption(case: Case) -> str:
    dataset = case.dataset
    return (
        f"**{dataset.title}** ({dataset.words}), delta {dataset.delta:g}, gamma {dataset.gamma:g}, {case.epochs} "
        f"epochs, learning rate {dataset.learning_rate:g}; means of the seeds."
    )


def _gains(means: pd.DataFrame, tried: Sequence[Case]) -> list[str]:
    """What the strongest method costs and gives, in our form and in the box form."""
    told = []
    for case in tried:
        plain, ours, box = (row_of(means, case, way) for way in (Way("sgd"), Way("u-dif"), Way("u-dif", box=True)))
        if np.isfinite([plain["a_dfc_upper"], ours["a_dfc_upper"], box["a_dfc_upper"]]).all():
            told.append(
                f"{case.dataset.title}: accuracy {ours['accuracy']:.4f} with A-DFC at most "
                f"{at_most(ours['a_dfc_upper'])}, in box form {box['accuracy']:.4f} with "
                f"{at_most(box['a_dfc_upper'])}, plain {plain['accuracy']:.4f} with {at_most(plain['a_dfc_upper'])}"
            )
    return [f"**U-DIF**, means of the seeds. {'; '.join(told)}."] if told else []


def _factors(means: pd.DataFrame, tried: Sequence[Case]) -> list[str]:
    """How much smaller our local bound is than the paper's, of the same networks."""
    rows = [row_of(means, case, way) for case in tried for way in case.size.ways]
    factors = [row["lfc_by_box"] / row["lfc"] for row in rows if row["lfc"] > 0]
    if not factors:
        return []
    return [
        "**What is better, and why.** *LFC by the box* is the paper's bound for the same network: the width of an "
        "interval that was propagated from the box around the similar set. It is "
        f"{min(factors):.1f} to {max(factors):.1f} times *LFC*, of which a factor of at most 2 is due to the width in "
        "place of the largest change. The rest is looseness: our certificates take the similar set as it is and "
        "compare two runs of the network neuron by neuron."
    ]
