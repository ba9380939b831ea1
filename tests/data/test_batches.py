import pytest
import torch
from torch import Tensor

from fewlabel.data.batches import Batches


def make(images: int, batch: int, mu: int, seed: int = 0) -> Batches:
    return Batches(torch.arange(images) % 2, torch.arange(min(images, 2)), batch, mu, seed)


def uneven(batch: int, seed: int = 0) -> tuple[Tensor, Tensor, Batches]:
    """100 images of four classes, labelled 1, 2, 5 and 20 of them."""
    labels = torch.arange(100) % 4
    labelled = torch.cat([torch.arange(c, 100, 4)[:count] for c, count in enumerate((1, 2, 5, 20))])
    labelled = labelled[torch.randperm(28, generator=torch.Generator().manual_seed(1))]
    return labels, labelled, Batches(labels, labelled, batch, 7, seed)


@pytest.mark.parametrize("batch", [1, 3, 4, 8, 10, 64])
def test_labelled_batch_is_class_balanced_however_uneven_the_labels(batch: int) -> None:
    labels, labelled, batches = uneven(batch)
    for step in range(20):
        index = batches.labelled_index(step)
        assert len(index) == batch
        assert torch.isin(index, labelled).all()
        counts = torch.bincount(labels[index], minlength=4)
        assert counts.max() - counts.min() <= 1
        assert counts.min() == batch // 4


def test_odd_places_of_the_labelled_batch_go_round_the_classes() -> None:
    labels, _, batches = uneven(5)
    counts = torch.stack([torch.bincount(labels[batches.labelled_index(step)], minlength=4) for step in range(200)])
    assert (counts.sum(0) > 200 + 25).all(), "each class has the odd place in about 50 of 200 steps"


def test_labelled_images_of_a_class_are_drawn_evenly() -> None:
    labels, labelled, batches = uneven(40)
    drawn = torch.bincount(torch.cat([batches.labelled_index(step) for step in range(200)]), minlength=100)
    for c, count in enumerate((1, 2, 5, 20)):
        share = drawn[labelled[labels[labelled] == c]] / (2000 / count)
        assert (share > 0.6).all() and (share < 1.4).all()
    assert drawn.sum() == drawn[labelled].sum() == 8000


def test_labels_of_other_images_do_not_matter() -> None:
    labels, labelled, batches = uneven(16)
    hidden = torch.full_like(labels, -1)
    hidden[labelled] = labels[labelled]
    other = Batches(hidden, labelled, 16, 7, 0)
    assert all(torch.equal(batches.labelled_index(step), other.labelled_index(step)) for step in range(5))


@pytest.mark.parametrize(
    ("images", "batch", "mu"),
    [(24, 4, 2), (25, 4, 2), (23, 1, 7), (10, 4, 7), (5, 64, 7), (8, 4, 2), (1, 4, 1)],
    ids=["divides", "one over", "prime", "batch larger", "batch far larger", "one step", "one image"],
)
@pytest.mark.parametrize("source", ["unlabelled", "second"])
def test_every_epoch_visits_every_image_exactly_once(images: int, batch: int, mu: int, source: str) -> None:
    batches = make(images, batch, mu)
    steps = -(-4 * images // (batch * mu))
    drawn = [batches.unlabelled_index(step, source) for step in range(steps)]
    assert all(len(index) == batch * mu for index in drawn)
    epochs = torch.cat(drawn)[: 4 * images].view(4, images)
    assert torch.equal(epochs.sort(1).values, torch.arange(images).expand(4, images))


def test_every_epoch_has_its_own_order() -> None:
    batches = make(50, 10, 5)
    orders = [tuple(batches.unlabelled_index(step).tolist()) for step in range(5)]
    assert len(set(orders)) == 5
    assert tuple(range(50)) not in orders


@pytest.mark.parametrize(("images", "batch", "mu"), [(25, 4, 2), (10, 4, 7), (100, 3, 1)])
def test_a_batch_depends_on_seed_and_step_alone(images: int, batch: int, mu: int) -> None:
    """Resume needs this: any order of calls, sources mixed, and a fresh object give the same positions."""
    first = make(images, batch, mu)
    forward = {
        (source, step): first.unlabelled_index(step, source)
        for source in ("unlabelled", "second")
        for step in range(30)
    }
    labelled = [first.labelled_index(step) for step in range(30)]
    second = make(images, batch, mu)
    for step in [29, 0, 15, *reversed(range(30)), 3]:
        for source in ("second", "unlabelled"):
            assert torch.equal(second.unlabelled_index(step, source), forward[source, step])
            assert torch.equal(make(images, batch, mu).unlabelled_index(step, source), forward[source, step])
        assert torch.equal(second.labelled_index(step), labelled[step])


def test_global_random_state_is_neither_used_nor_changed() -> None:
    torch.manual_seed(0)
    first = make(30, 4, 2).unlabelled_index(3), make(30, 4, 2).labelled_index(3)
    after = torch.rand(3)
    torch.manual_seed(0)
    assert torch.equal(torch.rand(3), after)
    second = make(30, 4, 2).unlabelled_index(3), make(30, 4, 2).labelled_index(3)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_another_seed_draws_otherwise() -> None:
    a, b = make(100, 16, 4, seed=0), make(100, 16, 4, seed=1)
    assert not torch.equal(a.unlabelled_index(0), b.unlabelled_index(0))
    assert not torch.equal(uneven(16, 0)[2].labelled_index(0), uneven(16, 1)[2].labelled_index(0))


def test_a_caller_may_change_what_it_was_given() -> None:
    batches = make(20, 20, 1)
    first = batches.unlabelled_index(0).clone()
    batches.unlabelled_index(0).zero_()
    assert torch.equal(batches.unlabelled_index(0), first)


def test_second_source_is_independent() -> None:
    batches = make(1000, 100, 10)
    first, second = batches.unlabelled_index(0), batches.unlabelled_index(0, "second")
    assert (first == second).sum() < 10, "about one of 1000 positions agrees by chance"
    alone = make(1000, 100, 10)
    assert torch.equal(alone.unlabelled_index(0, "second"), second)


@pytest.mark.parametrize("source", ["unlabelled", "second"])
def test_labelled_images_may_be_left_out_of_the_unlabelled(source: str) -> None:
    labels, labelled, _ = uneven(4)
    batches = Batches(labels, labelled, 4, 7, 0, labelled_among_unlabelled=False)
    drawn = torch.cat([batches.unlabelled_index(step, source) for step in range(18)])
    assert not torch.isin(drawn, labelled).any()
    others = [i for i in range(100) if i not in labelled.tolist()]
    epochs = drawn[: 7 * len(others)].view(7, len(others))
    assert torch.equal(epochs.sort(1).values, torch.tensor(others).expand_as(epochs))
    assert torch.isin(batches.labelled_index(0), labelled).all()


def test_where_all_images_are_labelled_none_is_left_out() -> None:
    batches = Batches(torch.arange(6) % 2, torch.randperm(6), 3, 2, 0, labelled_among_unlabelled=False)
    assert all(sorted(batches.unlabelled_index(step).tolist()) == list(range(6)) for step in range(4))
