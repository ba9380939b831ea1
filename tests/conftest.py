"""One thread: tests run beside each other, and the nets are too small for more."""

import torch

torch.set_num_threads(1)
