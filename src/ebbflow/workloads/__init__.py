"""Loads and rows: how much arrives when (shapes, traces, arrivals), and what arrives (tweets).

Importing this loads numpy and pyarrow, never pandas: a source does it in every executor.
"""

from ebbflow.workloads.arrivals import Arrivals
from ebbflow.workloads.expression import SHAPES, parse_load
from ebbflow.workloads.labelled_tweets import LabelledTweets, read_labelled_tweets
from ebbflow.workloads.load import Load, Scaled, Shape, Sum
from ebbflow.workloads.noise import Noise
from ebbflow.workloads.shapes import Constant, Day, Periodic, Sawtooth, Sine, Square, Stair, Step
from ebbflow.workloads.trace import Trace
from ebbflow.workloads.tweets import STOP_WORDS, Tweets

__all__ = [
    "SHAPES",
    "STOP_WORDS",
    "Arrivals",
    "Constant",
    "Day",
    "LabelledTweets",
    "Load",
    "Noise",
    "Periodic",
    "Sawtooth",
    "Scaled",
    "Shape",
    "Sine",
    "Square",
    "Stair",
    "Step",
    "Sum",
    "Trace",
    "Tweets",
    "parse_load",
    "read_labelled_tweets",
]
