"""Figures as printed elsewhere: the only numbers of the pages that were not computed.

Wicker, Piratla and Weller, "Certification of Distributional Individual Fairness", NeurIPS 2023 (the paper), and
Benussi, Patane, Wicker, Laurenti and Kwiatkowska, "Individual Fairness Guarantees for Neural Networks", IJCAI 2022.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True)
class Trained:
    """A line of the paper's first table: accuracy, and mean local, empirical and adversarial distributional bounds."""

    accuracy: float
    lfc: float
    e_dfc: float
    a_dfc: float


@dataclass(frozen=True)
class Grouped:
    """A line of the paper's table of group fairness: differences between men and women."""

    demographic_parity: float
    equalised_odds: float
    equal_opportunity: float
    if_parity: float


@dataclass(frozen=True)
class Parameters:
    """A line of the paper's table of hyper-parameters."""

    learning_rate: float
    depth: int = 2
    width: int = 256
    epochs: int = 50
    delta: float = 0.02
    gamma: float = 0.025


def printed(value: float, digits: int = 3) -> str:
    """A printed figure as it was printed: with at least so many decimals, and never rounded."""
    decimals = -int(Decimal(repr(value)).as_tuple().exponent)
    return f"{value:.{max(digits, decimals)}f}"


def as_precise(value: float, told: float) -> float:
    """A number of ours, rounded to the decimals of the printed one that it is compared with."""
    return round(value, len(printed(told).partition(".")[2]))


DELTA, GAMMA, PEOPLE = 0.05, 0.1, 1000
"""Radius of similarity, of the shift, and test individuals, unless the paper states otherwise (section 5, metrics)."""

GAMMAS = {"employ": 0.15, "coverage": 0.4}
"""The gammas that the paper prints for shifts between states (section 5.3); for Income it prints none."""

TRAINING = {
    "income": {
        "ftu": Trained(0.820, 0.999, 0.999, 1.000),
        "sensr": Trained(0.782, 0.895, 0.931, 0.995),
        "f-ibp": Trained(0.771, 0.076, 0.092, 0.130),
        "l-dif": Trained(0.763, 0.035, 0.051, 0.095),
        "u-dif": Trained(0.725, 0.002, 0.002, 0.042),
    },
    "employ": {
        "ftu": Trained(0.809, 0.891, 0.906, 0.999),
        "sensr": Trained(0.743, 0.247, 0.300, 0.639),
        "f-ibp": Trained(0.743, 0.040, 0.090, 0.178),
        "l-dif": Trained(0.738, 0.025, 0.051, 0.091),
        "u-dif": Trained(0.724, 0.000, 0.006, 0.067),
    },
    "coverage": {
        "ftu": Trained(0.721, 1.000, 1.000, 1.000),
        "sensr": Trained(0.709, 0.538, 0.865, 0.899),
        "f-ibp": Trained(0.699, 0.162, 0.253, 0.288),
        "l-dif": Trained(0.698, 0.101, 0.128, 0.136),
        "u-dif": Trained(0.681, 0.000, 0.042, 0.071),
    },
}
"""The first table of the paper, "Performance of each training method across three folktables datasets"."""

GROUP = {
    "income": {
        "sgd": Grouped(0.074, 0.027, 0.006, 0.000),
        "sensr": Grouped(0.009, 0.139, 0.037, 0.021),
        "f-ibp": Grouped(0.013, 0.081, 0.014, 0.000),
        "l-dif": Grouped(0.021, 0.157, 0.020, 0.000),
        "u-dif": Grouped(0.000, 0.094, 0.004, 0.000),
    },
    "employ": {
        "sgd": Grouped(0.012, 0.103, 0.003, 0.011),
        "sensr": Grouped(0.049, 0.156, 0.017, 0.041),
        "f-ibp": Grouped(0.030, 0.119, 0.0009, 0.042),
        "l-dif": Grouped(0.016, 0.092, 0.001, 0.042),
        "u-dif": Grouped(0.009, 0.082, 0.002, 0.000),
    },
    "coverage": {
        "sgd": Grouped(0.006, 0.023, 0.0082, 0.012),
        "sensr": Grouped(0.055, 0.112, 0.074, 0.009),
        "f-ibp": Grouped(0.033, 0.070, 0.055, 0.008),
        "l-dif": Grouped(0.032, 0.069, 0.054, 0.006),
        "u-dif": Grouped(0.028, 0.064, 0.054, 0.000),
    },
}
"""The table of group fairness in the paper's appendix."""

NUMERICAL_ERROR = {
    "income": {"sgd": -0.0143, "sensr": 0.06885, "f-ibp": 0.00820, "l-dif": 0.05840, "u-dif": -0.0021},
    "employ": {"sgd": 0.03706, "sensr": 0.03659, "f-ibp": -0.00098, "l-dif": -0.00132, "u-dif": 0.008271},
    "coverage": {"sgd": 0.113219, "sensr": -0.033412, "f-ibp": 0.022244, "l-dif": 0.018893, "u-dif": -0.007846},
}
"""The table of numerical errors in the paper's appendix: the ascent's value minus the numerical optimum."""

PARAMETERS = {
    "acs-coverage": Parameters(0.001),
    "acs-employment": Parameters(0.001),
    "acs-income": Parameters(0.001),
    "adult": Parameters(0.001),
    "credit": Parameters(0.01),
    "german": Parameters(0.0025),
}
"""The table of hyper-parameters in the paper's appendix."""

WIDEST_MINUTES = {"f-ibp": "at most 5", "l-dif": "less than 60"}
"""Minutes that the paper prints for one hidden layer of more than 4000 neurons, on a laptop (section 5.2, appendix)."""

MILP_WIDTHS = (8, 16, 32, 64)
MILP_MINUTES = {"adult": (121, 169, 196, 302), "credit": (361, 354, 428, 628), "german": (12, 15, 19, 53)}
"""Minutes to train one hidden layer of so many neurons by mixed-integer programming on several GPUs (Benussi et al.),
which the paper plots beside its own."""
