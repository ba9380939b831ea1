"""The paper's tables and figures, declared as data: run a grid, show ours beside the paper's."""
