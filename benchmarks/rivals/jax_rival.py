"""JAX's arm of the language model, driven over pipes: one jitted step with donated arguments.

Modes: what attends, `xla` or `cudnn`; the latter takes 16-bit types on a GPU, and says so if not.
"""

from __future__ import annotations

import functools
import importlib.metadata
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lowgraph.bench.busy import traced
from lowgraph.bench.serve import serve

Tensors = dict[str, Any]
WARM_UPS = 4


class JaxArm:
    """Steps of a compiled function; the wall's time is the host's, from idle to idle."""

    def __init__(self, step: Any, state: Any, batches: list[tuple[Any, Any]]) -> None:
        self.step, self.state, self.batches = step, state, batches
        self.number, self.loss, self.told = 0, None, dict[str, Any]()

    def facts(self) -> dict[str, Any]:
        """Losses, what is included."""
        return self.told

    def advance(self) -> None:
        """The next step."""
        batch = self.batches[self.number % len(self.batches)]
        self.state, self.loss = self.step(self.state, *batch)
        self.number += 1

    def wait(self) -> None:
        """Until the last loss is there, and the state behind it."""
        import jax

        jax.block_until_ready((self.state, self.loss))

    def burst(self, steps: int) -> dict[str, float]:
        """Microseconds of a step."""
        self.wait()
        begin = time.perf_counter()
        for _ in range(steps):
            self.advance()
        host = time.perf_counter() - begin
        self.wait()
        wall = time.perf_counter() - begin
        return {"wall_us": wall * 1e6 / steps, "host_us": host * 1e6 / steps}

    def trace(self, steps: int) -> dict[str, Any]:
        """Busy time of a step."""
        return traced(self.advance, self.wait, steps)


def open_arm(spec: Mapping[str, Any]) -> dict[str, JaxArm]:
    """The arm; raises ImportError where JAX or optax is not installed."""
    import jax
    import optax

    if spec["model"] != "charlm":
        raise ValueError(f"this program has no {spec['model']}")
    jax.config.update(
        "jax_default_matmul_precision",
        "float32" if spec["precision"] == "fp32" else "tensorfloat32",
    )
    folder = Path(spec["folder"])
    weights = dict(np.load(folder / "weights.npz").items())
    data = np.load(folder / "batches.npz")
    batches = [(jax.device_put(x), jax.device_put(y))
               for x, y in zip(data["inputs"], data["targets"], strict=True)]  # fmt: skip
    optimizer = optax.adamw(spec["learning_rate"], b1=spec["beta1"], b2=spec["beta2"],
                            eps=spec["epsilon"], weight_decay=0.0)  # fmt: skip
    loss_of = functools.partial(
        _loss, shape=spec["shape"], bf16=spec["precision"] == "bf16", attention=spec["mode"]
    )

    def step(state: Any, tokens: Any, targets: Any) -> Any:
        parameters, moments = state
        loss, gradients = jax.value_and_grad(loss_of)(parameters, tokens, targets)
        updates, moments = optimizer.update(gradients, moments, parameters)
        return (optax.apply_updates(parameters, updates), moments), loss

    def fresh() -> Any:
        parameters = {name: jax.device_put(value) for name, value in weights.items()}
        return parameters, optimizer.init(parameters)

    arm = JaxArm(jax.jit(step, donate_argnums=0), fresh(), batches)
    for _ in range(WARM_UPS):
        arm.advance()
    arm.wait()
    arm.state, arm.number = fresh(), 0
    losses = []
    for _ in range(spec["steps"]):
        arm.advance()
        losses.append(float(arm.loss))  # type: ignore[arg-type]
    device = jax.devices()[0]
    kind, memory = device.platform, device.memory_stats() or {}  # a CPU tells nothing
    arm.told = {
        "memory_bytes": memory.get("peak_bytes_in_use"),
        "losses": losses, "precision": spec["precision"],
        "params": sum(value.size for value in weights.values()),
        "includes": f"jax {importlib.metadata.version('jax')} on {kind}: one jitted step with "
        f"donated state, dot_product_attention by {spec['mode']}, optax.adamw; {spec['precision']}",
    }  # fmt: skip
    return {spec["who"]: arm}


def _loss(
    w: Tensors, tokens: Any, targets: Any, *, shape: Mapping[str, int], bf16: bool, attention: str
) -> Any:
    """Mean cross-entropy; linear weights are [out, in], as PyTorch keeps them."""
    import jax
    import jax.numpy as jnp

    kind = jnp.bfloat16 if bf16 else jnp.float32
    heads = shape["heads"]

    def linear(x: Any, name: str) -> Any:
        y = x.astype(kind) @ w[f"{name}.weight"].T.astype(kind)
        bias = w.get(f"{name}.bias")
        return y if bias is None else y + bias.astype(kind)

    def norm(x: Any, name: str) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        scale = jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)
        return centred * scale * w[f"{name}.weight"] + w[f"{name}.bias"]

    x = w["e.weight"][tokens] + w["p.weight"]
    for layer in range(shape["layers"]):
        name = f"b.{layer}"
        packed = linear(norm(x, f"{name}.l1"), f"{name}.qkv")
        query, key, value = (
            part.reshape(*part.shape[:2], heads, -1) for part in jnp.split(packed, 3, axis=-1)
        )
        mixed = jax.nn.dot_product_attention(
            query, key, value, is_causal=True, implementation=attention
        )
        x = x + linear(mixed.reshape(*x.shape[:2], -1), f"{name}.o")
        hidden = jax.nn.gelu(linear(norm(x, f"{name}.l2"), f"{name}.f1"), approximate=True)
        x = x + linear(hidden, f"{name}.f2")
    logits = linear(norm(x, "n"), "hd").astype(jnp.float32)
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), targets[..., None], axis=-1)
    return -chosen.mean()


if __name__ == "__main__":
    sys.exit(serve(open_arm))
