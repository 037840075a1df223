#!/bin/bash
# One would guess: an optimizer of torch computes in the type of its parameters, as AdamW does. Muon's five Newton-Schulz
# steps on float64 matrices then agree with the same formula in float64 to about 1e-15.
# What happens: torch.optim.Muon rounds the gradient to bfloat16 first, whatever the type of the parameters is: the step is
# off by about 1 %. On a CPU without instructions for bfloat16 (AMD Zen 3) it also takes about ten times as long as the
# same in float32, which no option changes.
# Seen with torch 2.13.0: parameters float64, relative difference of the step 1e-02
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
cat > "$work/try.py" <<'PY'
import time

import torch

generator = torch.Generator().manual_seed(1)
weight = torch.nn.Parameter(torch.zeros(60, 124, dtype=torch.float64))
gradient = torch.randn(60, 124, dtype=torch.float64, generator=generator)
weight.grad = gradient.clone()
optimizer = torch.optim.Muon([weight], lr=1.0, weight_decay=0.0, momentum=0.0)
optimizer.step()

x = gradient / gradient.norm()
for _ in range(5):
    products = x @ x.mT
    x = 3.4445 * x + (-4.7750 * products + 2.0315 * products @ products) @ x
off = ((-weight.detach() - x).norm() / x.norm()).item()


def seconds(step):
    step()
    start = time.process_time()
    for _ in range(20):
        step()
    return time.process_time() - start


def in_float32():
    for each in large:
        y = each.grad / each.grad.norm()
        y = y.mT if len(y) > y.shape[1] else y
        for _ in range(5):
            products = y @ y.mT
            y = 3.4445 * y + (-4.7750 * products + 2.0315 * products @ products) @ y


torch.set_num_threads(1)
large = [torch.nn.Parameter(torch.randn(rows, columns)) for rows, columns in ((496, 124), (124, 496), (124, 124))]
for each in large:
    each.grad = torch.randn_like(each)
ratio = seconds(torch.optim.Muon(large, lr=0.0).step) / seconds(in_float32)
print("torch", torch.__version__, "parameters", weight.dtype, f"relative difference of the step {off:.0e}")
print(f"processor time of a step over the same in float32 (depends on the CPU): {ratio:.1f}")
assert 3e-3 < off < 3e-2, "Muon computes otherwise now"
PY
cd "$work" && venv/bin/python try.py
