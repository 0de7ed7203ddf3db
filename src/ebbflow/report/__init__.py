"""Pages and figures of runs, and the live view of a running loop.

Templates are in ``templates/``, style sheets and scripts in ``static/``; colours are set in ``static/colors.css``.
"""
