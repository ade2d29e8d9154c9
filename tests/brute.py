"""The losses once more, as loops over samples, targets and hypotheses: slow, plain and independent."""

import math
from itertools import permutations

import torch
from torch import Tensor

Rule = tuple[str, float]


def straight(a: Tensor, b: Tensor) -> Tensor:
    return torch.sqrt(sum((a[i] - b[i]) ** 2 for i in range(len(a))))


def straight_squared(a: Tensor, b: Tensor) -> Tensor:
    return sum((a[i] - b[i]) ** 2 for i in range(len(a)))


def along_the_sphere(a: Tensor, b: Tensor) -> Tensor:
    def vector(p: Tensor) -> Tensor:
        return torch.stack([p[1].cos() * p[0].cos(), p[1].cos() * p[0].sin(), p[1].sin()])

    return torch.acos((vector(a) * vector(b)).sum())


def through_the_sphere(a: Tensor, b: Tensor) -> Tensor:
    return 2 * torch.sin(along_the_sphere(a, b) / 2)


def shares(costs: list[Tensor], rule: Rule) -> tuple[list[float], list[int]]:
    """The weight of each hypothesis for one target, and the winners."""
    name, value = rule
    order = sorted(range(len(costs)), key=lambda k: (costs[k].item(), k))
    weights = [0.0] * len(costs)
    if name == "winner":
        weights[order[0]] = 1.0
        return weights, order[:1]
    if name == "top":
        for k in order[: int(value)]:
            weights[k] = 1 / value
        return weights, order[: int(value)]
    for k in order:
        weights[k] = value / (len(costs) - 1) if len(costs) > 1 else 0.0
    weights[order[0]] = 1 - value if len(costs) > 1 else 1.0
    return weights, order[:1]


def mcl(points, targets, active, distance, rule=("winner", 0.0), best_target_only=False):
    total, count = points.sum() * 0, 0
    for s in range(len(points)):
        each = []
        for m in range(targets.shape[1]):
            if active[s, m]:
                costs = [distance(targets[s, m], points[s, k]) for k in range(points.shape[1])]
                weights, _ = shares(costs, rule)
                each.append(sum(w * c for w, c in zip(weights, costs, strict=True) if w > 0))
        if best_target_only and each:
            each = [min(each, key=torch.Tensor.item)]
        total, count = total + sum(each), count + len(each)
    return total / max(count, 1)


def energy(points, probs, targets, active, distance) -> list[list[Tensor]]:
    """The energy score of each active target of each sample."""
    found = []
    for s in range(len(points)):
        hypotheses = range(points.shape[1])
        spread = sum(
            probs[s, k] * probs[s, j] * distance(points[s, k], points[s, j])
            for k in hypotheses
            for j in hypotheses
            if j != k
        )
        found.append(
            [
                sum(probs[s, k] * distance(targets[s, m], points[s, k]) for k in hypotheses) - spread / 2
                for m in range(targets.shape[1])
                if active[s, m]
            ]
        )
    return found


def winners(points, targets, active, distance, rule) -> list[list[list[int]]]:
    """For each sample, the winners of each of its active targets."""
    return [
        [
            shares([distance(targets[s, m], points[s, k]) for k in range(points.shape[1])], rule)[1]
            for m in range(targets.shape[1])
            if active[s, m]
        ]
        for s in range(len(points))
    ]


def binary_scoring(logits, won) -> Tensor:
    total = logits.sum() * 0
    for s in range(logits.shape[0]):
        positive = {k for each in won[s] for k in each}
        for k in range(logits.shape[1]):
            score = torch.sigmoid(logits[s, k])
            total = total - (torch.log(score) if k in positive else torch.log(1 - score))
    return total / logits.numel()


def cell_scoring(logits, won) -> Tensor:
    total, count = logits.sum() * 0, 0
    for s in range(logits.shape[0]):
        for each in won[s]:
            for k in each:
                log_prob = logits[s, k] - torch.log(torch.exp(logits[s]).sum())
                total = total - log_prob / (len(each) * len(won[s]))
        count += bool(won[s])
    return total / max(count, 1)


def pit(points, logits, targets, active, distance) -> Tensor:
    slots = points.shape[1]
    entropy_sum, distance_sum = points.sum() * 0, points.sum() * 0
    for s in range(len(points)):
        best = (math.inf, None, None)
        for order in permutations(range(slots)):
            entropy, length = torch.zeros(()), torch.zeros(())
            for m, k in enumerate(order):
                score = torch.sigmoid(logits[s, k])
                entropy = entropy - (torch.log(score) if active[s, m] else torch.log(1 - score))
                if active[s, m]:
                    length = length + distance(points[s, k], targets[s, m])
            if (entropy + length).item() < best[0]:
                best = ((entropy + length).item(), entropy, length)
        entropy_sum, distance_sum = entropy_sum + best[1], distance_sum + best[2]
    return entropy_sum / (len(points) * slots) + distance_sum / max(int(active.sum()), 1)
