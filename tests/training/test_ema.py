import torch
from torch import nn

from fewlabel.training.ema import EMA


def test_average_with_warm_up_against_a_loop() -> None:
    source = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).double()
    average = EMA(source, decay=0.9)
    expected = [p.detach().clone() for p in source.parameters()]
    for n in range(200):
        with torch.no_grad():
            for p in source.parameters():
                p.add_(torch.randn(p.shape, generator=torch.Generator().manual_seed(n), dtype=p.dtype))
        source(torch.randn(4, 2, generator=torch.Generator().manual_seed(n)).double())  # moves the buffers
        decay = min(0.9, (1 + n) / (10 + n))
        expected = [decay * e + (1 - decay) * p.detach() for e, p in zip(expected, source.parameters(), strict=True)]
        average.update(n)
    for found, value in zip(average.module.parameters(), expected, strict=True):
        torch.testing.assert_close(found, value)
        assert not found.requires_grad
    copies, originals = list(average.module.buffers()), list(source.buffers())
    assert len(copies) == 3
    assert all(torch.equal(a, b) for a, b in zip(copies, originals, strict=True))
    assert not average.module.training
