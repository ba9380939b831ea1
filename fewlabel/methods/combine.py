"""Several parts as one method: `fixmatch+icl`."""

from torch import Tensor, nn

from .method import Method, Outputs, Problem
from .step import Step


class Combine(Method):
    """Merges the inputs and the losses of its parts; a view that two parts share is computed once.

    What only a term looks at is computed apart, so that the term changes nothing in the batch norms of its base.
    """

    def __init__(self, *parts: Method) -> None:
        super().__init__()
        named = {type(part).__name__.lower(): part for part in parts}
        assert len(named) == len(parts), "a method can be a part once only"
        self.parts = nn.ModuleDict(named)
        self.uses_embedding = any(part.uses_embedding for part in parts)  # type: ignore[misc]
        self.labelled_among_unlabelled = all(part.labelled_among_unlabelled for part in parts)  # type: ignore[misc]
        self.apart = {  # type: ignore[misc]
            f"{name}.{key}": f"{name}.{group}" for name, part in named.items() for key, group in part.apart.items()
        }
        self.steady = [f"parts.{name}.{key}" for name, part in named.items() for key in part.steady]  # type: ignore[misc]

    def build(self, problem: Problem) -> None:
        for part in self._parts().values():
            part.build(problem)

    def inputs(self, step: Step) -> dict[str, Tensor]:
        return {
            f"{name}.{key}": images for name, part in self._parts().items() for key, images in part.inputs(step).items()
        }

    def loss(self, step: Step, out: Outputs) -> dict[str, Tensor]:
        terms: dict[str, Tensor] = {}
        for name, part in self._parts().items():
            own = {key.removeprefix(f"{name}."): rows for key, rows in out.items() if key.startswith(f"{name}.")}
            for term, value in part.loss(step, own).items():
                assert term not in terms, f"two parts call a term '{term}'"
                terms[term] = value
        return terms

    def _parts(self) -> dict[str, Method]:
        return dict(self.parts.items())  # type: ignore[arg-type]
