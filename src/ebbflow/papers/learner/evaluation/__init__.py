"""The evaluation that the thesis announces as its chapter 6 and leaves empty (``ebbflow bench learner``)."""
