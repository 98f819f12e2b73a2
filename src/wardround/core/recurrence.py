"""The gradients of an LSTM's gates, which torch keeps to itself: what single units' gradients are made of.

    before, gates = gate_gradients(lstm, inputs, states, gradient)     # (B, T, hidden), (B, T, 4 · hidden)

One layer, one direction, batch first, no projection. The states are known, so all gates are one product; what runs
through time is the cell, forwards, and back-propagation through it, backwards.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional


def simple(lstm: nn.LSTM) -> bool:
    """Whether it is of the kind that this file knows."""
    return lstm.num_layers == 1 and not lstm.bidirectional and lstm.batch_first and not lstm.proj_size


def gate_gradients(lstm: nn.LSTM, inputs: Tensor, states: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """The state before each token, and the gradient of each token's gates before their activation."""
    before = functional.pad(states[:, :-1], (0, 0, 1, 0))  # (B, T, hidden)
    own: dict[str, Tensor] = dict(lstm.named_parameters())
    bias = own["bias_ih_l0"] + own["bias_hh_l0"] if lstm.bias else None
    sums = functional.linear(inputs, own["weight_ih_l0"], bias) + functional.linear(before, own["weight_hh_l0"])
    first, forget, fresh, out = sums.transpose(0, 1).chunk(4, 2)  # (T, B, hidden) each
    first, forget, fresh, out = first.sigmoid(), forget.sigmoid(), fresh.tanh(), out.sigmoid()
    added = first * fresh
    cells = [torch.zeros_like(added[0])]
    for kept, new in zip(forget, added, strict=True):
        cells.append(torch.addcmul(new, kept, cells[-1]))
    cell = torch.stack(cells[1:]).tanh()
    old = torch.stack(cells[:-1])  # c before each token
    # What a gate's gradient is per unit of the cell's (first three) or of the state's (the last).
    per_cell = torch.stack([fresh * first * (1 - first), old * forget * (1 - forget), first * (1 - fresh.square())], 2)
    per_state = cell * out * (1 - out)
    through = out * (1 - cell.square())  # dc / dh
    length, batch, hidden = cell.shape
    gates = inputs.new_empty(length, batch, 4, hidden)
    state, carried = gradient[:, -1], torch.zeros_like(cell[0])
    steps = list(zip(per_cell, per_state, through, forget, gradient.transpose(0, 1), strict=True))
    for at in range(length - 1, -1, -1):
        cell_parts, state_part, share, kept, _ = steps[at]
        carried = torch.addcmul(carried, state, share)
        torch.mul(cell_parts, carried[:, None], out=gates[at, :, :3])
        torch.mul(state_part, state, out=gates[at, :, 3])
        if at:
            state = torch.addmm(steps[at - 1][4], gates[at].flatten(1), own["weight_hh_l0"])
            carried = carried * kept
    return before, gates.flatten(2).transpose(0, 1)
