"""Compile every loss as one graph and compare it with itself; run as a script."""

import torch

from cases import losses, problem


def main() -> None:
    points, logits, targets, active = problem(6, 3, 5, 2, seed=9)
    points, logits = points.detach().float().requires_grad_(), logits.detach().float().requires_grad_()
    for name, loss in losses().items():
        compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
        values = []
        for call in (compiled, loss):
            torch.manual_seed(0)
            value = call(points, logits, targets.float(), active)
            values.append(
                (
                    value,
                    *torch.autograd.grad(value, [points, logits], materialize_grads=True, allow_unused=True),
                )
            )
        for ours, theirs in zip(*values, strict=True):
            torch.testing.assert_close(ours, theirs)
        print(name, "compiled as one graph")


if __name__ == "__main__":
    main()
