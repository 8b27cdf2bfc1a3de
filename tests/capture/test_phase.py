"""The phase table: every pair of phase and move is either allowed or has a message of its own."""

from __future__ import annotations

import pytest

from lowgraph.capture.phase import MESSAGES, MOVES, TRANSITIONS, Move, Phase, PhaseMachine
from lowgraph.errors import PhaseError

ILLEGAL = [(phase, move) for phase in Phase for move in Move if move not in MOVES[phase]]


def machine_in(phase: Phase) -> PhaseMachine:
    machine = PhaseMachine("step")
    machine.phase = phase
    return machine


def test_the_messages_are_exactly_those_of_the_illegal_moves() -> None:
    assert set(MESSAGES) == set(ILLEGAL)


@pytest.mark.parametrize(("phase", "move"), ILLEGAL)
def test_an_illegal_move_is_told_why(phase: Phase, move: Move) -> None:
    with pytest.raises(PhaseError) as refusal:
        machine_in(phase).check(move)
    text = str(refusal.value)
    assert text == f"{move.value} of 'step' in phase {phase.name}: {MESSAGES[phase, move]}"


@pytest.mark.parametrize("phase", Phase)
def test_legal_moves_pass(phase: Phase) -> None:
    for move in MOVES[phase]:
        machine_in(phase).check(move)


def test_transitions_outside_the_table_are_refused() -> None:
    for phase in Phase:
        for target in Phase:
            machine = machine_in(phase)
            if target in TRANSITIONS[phase]:
                machine.go(target)
                assert machine.phase is target
            else:
                with pytest.raises(PhaseError, match=f"{phase.name} -> {target.name}"):
                    machine.go(target)


def test_every_phase_can_be_reached_and_left_for_closed_but_a_window_cannot() -> None:
    reached = {Phase.COLD}
    for _ in Phase:
        reached |= {target for phase in reached for target in TRANSITIONS[phase]}
    assert reached == set(Phase)
    closable = {phase for phase in Phase if Phase.CLOSED in TRANSITIONS[phase]}
    assert set(Phase) - closable == {Phase.CAPTURING, Phase.CLOSED}
