"""The benchmark: lowgraph and what a user would pick instead, interleaved on one card.

Nothing is imported here: the rivals' processes take `serve` alone.
"""
