"""Optimizers with groups of options that may be changed between steps, and their schedulers."""

from . import lr_scheduler
from .adam import Adam, Adamax, AdamW, NAdam, RAdam
from .optimizer import Optimizer
from .scaled import Adadelta, Adagrad, RMSprop
from .sgd import ASGD, SGD, Rprop

__all__ = [
    "ASGD", "SGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "NAdam", "Optimizer", "RAdam",
    "RMSprop", "Rprop", "lr_scheduler",
]
