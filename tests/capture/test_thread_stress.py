"""Threads that do everything the library offers, beside captures of all modes, for a second."""

from __future__ import annotations

import threading
import time

import numpy as np
from cuda.bindings import driver as cu

from lowgraph import driver
from tests.capture.micro import Micro
from tests.capture.test_refusals import assert_sound
from tests.capture.worker import Act, Worker

MODES = ("thread_local", "global", "relaxed")


def test_threads_that_do_everything_beside_captures_break_none(micro: Micro) -> None:
    """One trains, by captures and replays; others allocate, copy, poll, load, query and free."""
    stop = threading.Event()
    rounds = [0, 0, 0]
    event = driver.event.create()
    driver.event.record(event, micro.stream)

    def hammer(seed: int) -> Act:
        def act() -> None:
            chance, stream = np.random.default_rng(seed), driver.stream.create()
            while not stop.is_set():
                address = driver.memory.alloc(256)
                driver.memory.memset_d8_async(address, 1, 256, stream)
                if chance.integers(2):
                    driver.stream.synchronize(stream)
                if chance.integers(2):
                    driver.stream.is_done(micro.stream)
                if chance.integers(4) == 0:
                    driver.gate.call(cu.cuCtxSynchronize)
                with driver.stream.relaxed():
                    driver.event.is_done(event)
                driver.stream.synchronize(stream)
                driver.memory.free(address)
                rounds[seed] += 1
            driver.stream.destroy(stream)

        return act

    workers = [Worker(micro, hammer(seed), f"hammer {seed}") for seed in range(3)]
    steps = 0
    end = time.monotonic() + 1.0
    try:
        # On a busy machine a second may be too short for each of them to have its turn.
        while time.monotonic() < end or (not all(rounds) and time.monotonic() < end + 30):
            with micro.step(mode=MODES[steps % 3]) as step:
                for _ in range(3):
                    step()
                assert step.report().refusals == 0, step.report().first_refusal
            steps += 3
    finally:
        stop.set()
        answers = [worker.result() for worker in workers]
    assert answers == [None] * 3 and all(rounds) and steps >= 3
    assert micro.state() == micro.expected(steps)
    driver.event.destroy(event)
    assert_sound(micro)


def test_two_threads_train_with_graphs_of_their_own(micro: Micro) -> None:
    """Windows take turns; replays of one run beside windows of the other; neither is refused."""
    other = Micro(micro.rig)
    other.stream = driver.stream.create()
    stop = threading.Event()

    def train(mine: Micro, seed: int) -> Act:
        def act() -> int:
            steps, modes = 0, MODES[seed:] + MODES[:seed]
            while not stop.is_set() or steps < 12:
                with mine.step(mode=modes[steps // 4 % 3], label=f"step {seed}") as step:
                    for _ in range(4):
                        step()
                    assert step.report().refusals == 0, step.report().first_refusal
                steps += 4
            return steps

        return act

    workers = [Worker(micro, train(mine, seed)) for seed, mine in enumerate((micro, other))]
    time.sleep(0.5)
    stop.set()
    counts = [worker.result() for worker in workers]
    for mine, steps in zip((micro, other), counts, strict=True):
        assert isinstance(steps, int), steps
        assert mine.state() == mine.expected(steps)
    stream, other.stream = other.stream, micro.stream
    other.close()
    driver.stream.destroy(stream)
    assert_sound(micro)
