"""3. PyTorch holds parameters and optimizer, which moves them; our captured kernels do the rest.

python examples/embedding/3_pytorch_pin.py [DEVICE]
"""

import sys
from pathlib import Path

try:
    import torch
except ImportError as error:
    sys.exit(f"{error}; pip install torch, a CPU build will do")

from lowgraph import GraphStep, Library, PersistentPool, open_device
from lowgraph.capture import CopyIn, Input
from lowgraph.cli import exit_code
from lowgraph.driver import stream as streams
from lowgraph.errors import InputMoved

SOURCE, N, D, STEPS, RATE = Path(__file__).with_suffix(".cu"), 256, 16, 20, 0.1


def main(spec: str = "auto") -> None:
    device = open_device(spec)
    library, pool, stream = Library(device), PersistentPool(device), streams.create()
    errors, gradient = (library.kernel(SOURCE, name) for name in ("errors", "gradient"))
    g, e = pool.take("g", D), pool.take("e", N)
    grad = torch.from_dlpack(g)  # the optimizer borrows it: the graph writes it where it is
    if grad.is_cuda:
        torch.cuda.set_stream(torch.cuda.ExternalStream(stream))
    x, y = torch.randn(N, D, device=grad.device), torch.randn(N, device=grad.device)
    for kind in (Input, CopyIn):  # an Input may not move, a pin is followed
        w = torch.nn.Parameter(torch.zeros_like(grad))
        w.grad, optimizer = grad, torch.optim.SGD([w], lr=RATE)
        pins = [Input("x", x), Input("y", y), kind("w", w.detach)]

        def body(s: int, pins: list = pins) -> None:
            errors(s, N // 64, 64, e, pins[0], pins[2], pins[1], N, D)
            gradient(s, 1, D, g, pins[0], e, N, D)

        step = GraphStep(body, device=device, pool=pool, library=library, stream=stream, pins=pins)
        try:
            for _ in range(STEPS):
                step()
                streams.synchronize(stream)  # the optimizer may run on the CPU
                optimizer.step()
                w.data = w.data.clone()  # as an optimizer that makes new tensors: nobody is told
            print(step.report().text())
        except InputMoved as refusal:
            print(f"refused: {refusal}")
        step.close()
    v = torch.zeros_like(grad)
    for _ in range(STEPS):  # the same in PyTorch alone: the gradient of mean((x v - y)^2)
        v -= RATE * 2 * (x.T @ (x @ v - y)) / N
    torch.testing.assert_close(w.detach(), v, rtol=1e-4, atol=1e-5)


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(*sys.argv[1:2])))
