"""The phases of a step, the transitions between them, and what each illegal move is told.

    COLD ──prime──> PRIMING ──capture──> CAPTURING ──────────> READY ──replay──> READY
                     ^   ^                │     │                │
                     │   │                v     └──> REFUSED <───┘ the driver refused a replay
                     │   └──prime── INVALIDATED ───────^ │ │
                     └──────────────prime────────────────┘ └──> DISABLED
    READY ──recapture──> READY, whatever comes of it; ──recapture(free_first)──> COLD, and on
    every phase but CAPTURING ──close──> CLOSED

PRIMING lasts until the capture begins. INVALIDATED: the window was left by an exception of the
body, or the driver broke it; the latter is also a refusal. REFUSED: lowgraph said no and gave the
attempt's memory back. DISABLED: after `max_refusals`, or from the start when no graph is wanted.
"""

from __future__ import annotations

import enum

from lowgraph.errors import PhaseError

__all__ = ["MESSAGES", "MOVES", "TRANSITIONS", "Move", "Phase", "PhaseMachine"]


class Phase(enum.Enum):
    """Where a step is in its life; see the module."""

    COLD = "cold"
    PRIMING = "priming"
    CAPTURING = "capturing"
    READY = "ready"
    INVALIDATED = "invalidated"
    REFUSED = "refused"
    DISABLED = "disabled"
    CLOSED = "closed"


class Move(enum.Enum):
    """What a user may ask of a step."""

    PRIME = "prime"
    CAPTURE = "capture"
    REPLAY = "replay"
    RECAPTURE = "recapture"
    CLOSE = "close"


_P = Phase
TRANSITIONS: dict[Phase, frozenset[Phase]] = {
    _P.COLD: frozenset({_P.PRIMING, _P.DISABLED, _P.CLOSED}),
    _P.PRIMING: frozenset({_P.PRIMING, _P.COLD, _P.CAPTURING, _P.CLOSED}),
    _P.CAPTURING: frozenset({_P.READY, _P.INVALIDATED, _P.REFUSED}),
    _P.READY: frozenset({_P.COLD, _P.REFUSED, _P.CLOSED}),
    _P.INVALIDATED: frozenset({_P.PRIMING, _P.REFUSED, _P.CLOSED}),
    _P.REFUSED: frozenset({_P.PRIMING, _P.DISABLED, _P.CLOSED}),
    _P.DISABLED: frozenset({_P.CLOSED}),
    _P.CLOSED: frozenset(),
}

MOVES: dict[Phase, frozenset[Move]] = {
    _P.COLD: frozenset({Move.PRIME, Move.CLOSE}),
    _P.PRIMING: frozenset({Move.PRIME, Move.CAPTURE, Move.CLOSE}),
    _P.CAPTURING: frozenset(),
    _P.READY: frozenset({Move.REPLAY, Move.RECAPTURE, Move.CLOSE}),
    _P.INVALIDATED: frozenset({Move.PRIME, Move.CLOSE}),
    _P.REFUSED: frozenset({Move.PRIME, Move.CLOSE}),
    _P.DISABLED: frozenset({Move.CLOSE}),
    _P.CLOSED: frozenset({Move.CLOSE}),
}

_INSIDE = "the body of the step is being recorded: a body may not drive its own step"
_OFF = "the step runs without a graph (see report().why_no_graph): call step()"
_OVER = "the step is closed: make a new one"
_NO_GRAPH = "there is no graph to replace: prime() and capture(), or call step()"

MESSAGES: dict[tuple[Phase, Move], str] = {
    (_P.COLD, Move.CAPTURE): "nothing is primed: run prime(), a real step, first",
    (_P.COLD, Move.REPLAY): "nothing is recorded: prime() and capture() first, or call step()",
    (_P.PRIMING, Move.REPLAY): "the step is primed but not recorded: capture() first",
    (_P.CAPTURING, Move.PRIME): _INSIDE,
    (_P.CAPTURING, Move.CAPTURE): _INSIDE,
    (_P.CAPTURING, Move.REPLAY): _INSIDE,
    (_P.CAPTURING, Move.CLOSE): _INSIDE,
    (
        _P.READY,
        Move.PRIME,
    ): "a graph is live, a priming pass would keep a second set: recapture()",
    (_P.READY, Move.CAPTURE): "a graph is live: never capture over it; call recapture()",
    (_P.INVALIDATED, Move.CAPTURE): "the last window was broken and its memory given back: prime()",
    (_P.INVALIDATED, Move.REPLAY): "the last window was broken, there is no graph: prime() again",
    (_P.REFUSED, Move.CAPTURE): "the last attempt was refused, its memory given back: prime()",
    (_P.REFUSED, Move.REPLAY): "the last attempt was refused, there is no graph: prime() again",
    (_P.COLD, Move.RECAPTURE): _NO_GRAPH,
    (_P.PRIMING, Move.RECAPTURE): "the step is primed for its first graph: capture()",
    (_P.CAPTURING, Move.RECAPTURE): _INSIDE,
    (_P.INVALIDATED, Move.RECAPTURE): _NO_GRAPH,
    (_P.REFUSED, Move.RECAPTURE): _NO_GRAPH,
    (_P.DISABLED, Move.RECAPTURE): _OFF,
    (_P.CLOSED, Move.RECAPTURE): _OVER,
    (_P.DISABLED, Move.PRIME): _OFF,
    (_P.DISABLED, Move.CAPTURE): _OFF,
    (_P.DISABLED, Move.REPLAY): _OFF,
    (_P.CLOSED, Move.PRIME): _OVER,
    (_P.CLOSED, Move.CAPTURE): _OVER,
    (_P.CLOSED, Move.REPLAY): _OVER,
}


class PhaseMachine:
    """The phase of one step; `label` is named in what it raises."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.phase = Phase.COLD

    def check(self, move: Move) -> None:
        """Raise PhaseError with the move's own message unless the present phase allows it."""
        if move not in MOVES[self.phase]:
            raise PhaseError(
                f"{move.value} of {self.label!r} in phase {self.phase.name}: "
                f"{MESSAGES[self.phase, move]}"
            )

    def go(self, phase: Phase) -> None:
        """Enter a phase. Raises PhaseError when the table has no such transition."""
        if phase not in TRANSITIONS[self.phase]:
            raise PhaseError(f"{self.label!r}: no transition {self.phase.name} -> {phase.name}")
        self.phase = phase
