"""Which rules fire. Conditions follow the readings at a constant cost per reading.

=============  ==============================================================================
``routing``    which series a policy needs, and which triggers each reading goes to
``states``     triggers and rules that follow the readings
``measures``   means, percentiles, rates of change and forecasts of the latest readings
``ahead``      forecasts of loads, shared by the conditions on them
``coverage``   which node has been silent longest, for conditions on all nodes
``calendar``   when bounds apply
=============  ==============================================================================
"""
