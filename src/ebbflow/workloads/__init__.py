"""Loads and rows: how much arrives when (shapes, traces, arrivals), and what arrives (tweets).

=================  ==========================================================================================
``load``           a load: rows per second over time; sums and multiples of loads
``shapes``         loads given by a formula: constant, sine, step, noise, …
``trace``          recorded loads: trace files, and the counted rows of a run
``series``         a load as the means of even steps, for forecasters
``expression``     the text form of a load, ``sine(base=100, peak=900, period=10m) + constant(50)``
``arrival_times``  when each row of a load arrives
``tweets``         generated tweets, and labelled tweets from a file
``hashing``        random numbers by counter, which make loads and tweets reproducible
=================  ==========================================================================================

Importing this package loads numpy and pyarrow but never pandas: every executor of a source imports it.
"""

from ebbflow.workloads.arrival_times import Arrivals
from ebbflow.workloads.expression import SHAPES, parse_load
from ebbflow.workloads.load import Load, Scaled, Shape, Sum
from ebbflow.workloads.shapes import Constant, Day, Noise, Periodic, Sawtooth, Sine, Square, Stair, Step
from ebbflow.workloads.trace import Recorded, Trace
from ebbflow.workloads.tweets import STOP_WORDS, LabelledTweets, Tweets, read_labelled_tweets

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
    "Recorded",
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
