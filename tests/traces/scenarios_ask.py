"""Every other call that the driver layer and its guards know: outside, in a capture, by another
thread, without a context."""

from __future__ import annotations

from tests.traces.scenario import EVERY_MODE, Scenario
from tests.traces.verbs_ask import CALLS, ON_STREAM

_ONE = ("THREAD_LOCAL",)

SCENARIOS = (
    *(Scenario(f"outside a capture: {name}", f"ask {name}; sync s") for name in CALLS),
    *(Scenario(f"in a capture: {name}", f"begin s; launch s; ask {name} s; launch s; end s g",
               EVERY_MODE) for name in CALLS),
    *(Scenario(f"asked in a blocking capture: {name}",
               f"begin b; launch b; ask {name} b; launch b; end b g", EVERY_MODE)
      for name in CALLS),
    *(Scenario(f"asked in a capture, by another thread: {name}",
               f"begin s; launch s; @ask {name} s; launch s; end s g", EVERY_MODE)
      for name in CALLS),
    *(Scenario(f"asked after an invalidation: {name}",
               f"begin s; launch s; query s; ask {name} s; end s g", EVERY_MODE) for name in CALLS),
    *(Scenario(f"asked without a context: {name}", f"@ctx_clear; @ask {name}; @ctx_restore; sync s",
               _ONE) for name in CALLS),
    *(Scenario(f"on the legacy stream beside a capture: {name}",
               f"begin s; launch s; ask {name} legacy; launch s; end s g", EVERY_MODE)
      for name in ON_STREAM),
    *(Scenario(f"on the legacy stream beside a blocking capture: {name}",
               f"begin b; launch b; ask {name} legacy; launch b; end b g", EVERY_MODE)
      for name in ON_STREAM),
    *(Scenario(f"on another stream beside a capture: {name}",
               f"begin s; launch s; ask {name} t; launch s; end s g", EVERY_MODE)
      for name in ON_STREAM),
    *(Scenario(f"captured and launched: {name}", f"begin s; ask {name} s; end s g; "
               "instantiate g x; graph_launch x s; sync s; update x g", EVERY_MODE)
      for name in ON_STREAM),
)  # fmt: skip
