"""Fine-tuning and asking an encoder: ours over a plain loop of transformers, on the same batches in the same run.

    python benchmarks/encoders.py [--size tiny|small|half|base] [--repeats N] [--batch N] [--only WORD] [--quick]

A random BERT (`base`: 12 layers of 768, `half`: 6 of them, `small`: 6 layers of 384) on generated texts. Each
comparison is of two ways that take turns; a ratio is that of two neighbours in CPU time of this process, and printed
are the median and the quartiles.

- *relation, tagging, classification*, sequences of 64 and 128: a step of Adam by our model in its one buffer, over a
  step by `AutoModel` with a linear head and `torch.optim.Adam`, in which everything trains; both must begin with the
  same loss. Then ours with two thirds of the layers frozen and cached, over the same plain loop, and over a plain loop
  in which they are frozen too and run again in each step. Where the processor has instructions for it, all trained
  and cached also with our products in bf16, over the plain loop in fp32.
- *predict*: texts of mixed length through a trained model of ours, over `transformers.pipeline` with its defaults, that
  is one text at a time; for relations, over `text-classification` of the same sentences with markers in them. Ours in
  fp32 and, where the processor has it, in bf16, the pipeline in fp32. *answered*: the same in fp32 over the bare
  products of the encoder's matrices with as many tokens as there are, without padding: what an exact answer costs
  whoever gives it.
- *products in bf16*: the same bare products in bf16, over those in fp32: whether bf16 can pay on this processor at all.
- *trunk*: the frozen layers of sentences of one length together, over one by one.
- *evaluation*: batches by a budget of tokens, over batches of 64 sentences.
"""

import argparse
import json
import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from torch.nn import functional

from relation import Run, compared
from sentences import Sentences
from wardround.core.bench import Bench
from wardround.core.device import CPU, Device, tried
from wardround.core.optimizer import Adam
from wardround.models.pretrained import packaged, read_encoder
from wardround.runs.loop import one_thread
from wardround.tasks.batching import budgeted, grouped
from wardround.tasks.candidates import Candidates
from wardround.tasks.classification import Classification
from wardround.tasks.relation import Relations
from wardround.tasks.tagging import Tagging
from wardround.tasks.trunk import Trunk
from wardround.text.document import Document
from wardround.text.prediction import Prediction
from wardround.text.texts import Texts

SIZES = {"tiny": (3, 64), "small": (6, 384), "half": (6, 768), "base": (12, 768)}
LENGTHS = (64, 128)
LR = 1e-5
LABELS = Sentences.labels
TYPES = ("chemical", "gene")
MARKERS = (("[E1]", "[/E1]"), ("[E2]", "[/E2]"))


def main() -> None:
    """Measure and print the ratios."""
    options = _options()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}", end=", ")
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, one thread", end=", ")
    print(f"{options.size}, {options.repeats} repeats, batches of {options.batch}")
    results: dict[str, Any] = {}
    with one_thread(), tempfile.TemporaryDirectory() as folder:
        os.environ["WARDROUND_CACHE"] = f"{folder}/cache"
        encoder = _random_bert(Path(folder) / "encoder", *SIZES[options.size])
        lengths = LENGTHS[:1] if options.quick else () if options.only.startswith("predict") else LENGTHS
        for name, mine, theirs, steps, aim in _comparisons(encoder, options.batch, lengths, quick=options.quick):
            if options.only in name:
                results[name] = compared(name, mine, theirs, steps, options.repeats, aim)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--size", choices=SIZES, default="half", help="of the random encoder (half)")
    parser.add_argument("--repeats", type=int, default=3, help="how often everyone's turn comes (3)")
    parser.add_argument("--batch", type=int, default=8, help="texts per step (8)")
    parser.add_argument("--only", default="", metavar="WORD", help="comparisons with this in their names, e.g. predict")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the ratios here")
    parser.add_argument("--quick", action="store_true", help="one repeat, one length, few texts: does it work at all?")
    options = parser.parse_args()
    if options.repeats < 1 or options.batch < 1:
        parser.error("--repeats and --batch: use 1 or more")
    if options.quick:
        options.repeats, options.size = 1, "tiny"
    return options


def _random_bert(folder: Path, layers: int, width: int) -> Path:
    """A BERT of this size, with the vocabulary of MiniLM."""
    transformers.utils.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    torch.manual_seed(0)
    config = transformers.BertConfig(
        hidden_size=width, num_hidden_layers=layers, num_attention_heads=width // 64, intermediate_size=4 * width,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    bert: Any = transformers.BertModel
    bert(config, add_pooling_layer=False).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt"):
        if (packaged() / name).exists():
            shutil.copyfile(packaged() / name, folder / name)
    return folder


def _comparisons(
    encoder: Path, size: int, lengths: Sequence[int], *, quick: bool
) -> Iterator[tuple[str, Run, Run, int, float | None]]:
    """Name, our way, the other way, steps in each, and what the ratio should not exceed."""
    layers = read_encoder(encoder).shape.layers
    for length in lengths:
        texts = _texts(2 * size, length)
        for name, bound in _tasks(encoder, length).items():
            parts = torch.split(torch.arange(2 * size), size)
            whole, examples = bound(), bound().examples(texts[name])
            plain = Plain(encoder, 0, whole, examples)
            batches = [examples.batch(part) for part in parts]
            bf16, absent = tried(None, "bf16")
            mine = _steps(whole, batches, plain, parts[0])
            narrow = None if absent else _steps(whole, batches, plain, parts[0], bf16)  # both before any step is taken
            yield f"{name} {length}, all trained", mine, plain.steps(parts), len(parts), 1.0
            if narrow:
                yield f"{name} {length}, all trained, bf16", narrow, plain.steps(parts), len(parts), 0.7
            frozen = 2 * layers // 3
            task = bound(freeze=frozen)
            cached = task.examples(texts[name])
            partly = Plain(encoder, frozen, task, examples)
            inputs = [cached.batch(part) for part in parts]
            mine = _steps(task, inputs, partly, parts[0])
            narrow = None if absent else _steps(task, inputs, partly, parts[0], bf16)
            words = f"{name} {length}, {frozen} cached"
            yield words, mine, plain.steps(parts), len(parts), 0.25
            if narrow:
                yield f"{words}, bf16", narrow, plain.steps(parts), len(parts), 0.25
            yield f"{words} / frozen", mine, partly.steps(parts), len(parts), None
    yield from _asking(encoder, 8 if quick else 48)
    yield from _grouping(encoder, 12 if quick else 64)


# the steps


def _texts(count: int, length: int) -> dict[str, Texts]:
    """The same sentences as pairs, with entities, and with labels; long enough for every sequence to be full."""
    documents = list(Sentences(count=8 * count).documents("train"))
    pairs = tuple(sorted(documents, key=lambda one: -len(one.text))[:count])  # all with more than 64 pieces
    labelled = tuple(Document(one.id, (one.text + " ") * (length // 32), labels=one.labels) for one in pairs)
    tagged = tuple(Document(one.id, _words(one.text, length), entities=_within(one, length)) for one in pairs)
    return {"relation": Texts(pairs), "tagging": Texts(tagged), "classification": Texts(labelled)}


def _words(text: str, length: int) -> str:
    """As many words as leave room for both ends, each one piece but for the two entities."""
    words = (text.split() * 4)[: length - 12]
    return " ".join(words)


def _within(document: Document, length: int) -> tuple[Any, ...]:
    end = len(_words(document.text, length))
    return tuple(one for one in document.entities if one.end <= end)


def _tasks(encoder: Path, length: int) -> dict[str, Callable[..., Any]]:
    common: dict[str, Any] = {"encoder": str(encoder), "dropout": 0.0, "remember": False}

    class Corpus:
        labels, types, negative = LABELS, TYPES, LABELS[0]

    return {
        "relation": lambda **more: Relations(**common, longest=length, **more).bind(Corpus()),
        "tagging": lambda **more: Tagging(**common, model="encoder", **more).bind(Corpus()),
        "classification": lambda **more: Classification(**common, model="encoder", longest=length, **more).bind(
            Corpus()
        ),
    }


def _steps(task: Any, batches: Sequence[Any], plain: "Plain", first: Tensor, device: Device = CPU) -> Run:
    """Local training as a site does it, on one buffer; it must begin with the loss of the plain loop."""
    bench = Bench.of(task, device=device)
    plain.head.load_state_dict(bench.model.get_submodule(plain.place).state_dict())
    with torch.no_grad():
        mine, theirs = task.loss(bench.model.eval(), batches[0]), plain.loss(first)
    if not torch.allclose(mine, theirs, rtol=1e-3 if device.plain else 0.05):
        raise SystemExit(f"not the same work: a loss of {float(mine):.4f} and one of {float(theirs):.4f}")

    def work(_: Path) -> None:
        optimizer = Adam(LR, (0.9, 0.999), 1e-8, bench.flat)
        for batch in batches:
            bench.gradient.zero_()
            task.loss(bench.model.train(), batch).backward()
            optimizer.step(bench.flat, bench.gradient)

    return work


class Plain(nn.Module):
    """`AutoModel` with a linear head, as a script would have it, frozen up to a layer."""

    def __init__(self, encoder: Path, frozen: int, task: Any, examples: Any) -> None:
        super().__init__()
        self.kind, self.examples = type(task).__name__, examples
        self.bert: Any = transformers.AutoModel.from_pretrained(encoder, add_pooling_layer=False)
        if self.kind == "RelationTask":
            table = self.bert.resize_token_embeddings(task.encoder.shape.vocabulary + 4, mean_resizing=False)
            with torch.no_grad():
                table.weight[-4:] = task.parts._more  # noqa: SLF001 -- the markers' rows, to begin alike
        self.place = {"RelationTask": "classifier", "TaggingTask": "crf.emit"}.get(self.kind, "linear")
        head: Any = Bench.of(task).model.get_submodule(self.place)
        self.head = nn.Linear(head.in_features, head.out_features)
        for part in [self.bert.embeddings, *self.bert.encoder.layer[:frozen]] if frozen else []:
            part.requires_grad_(requires_grad=False)

    def loss(self, rows: Tensor) -> Tensor:
        """The mean loss over these rows, of texts or (summed) of sentences."""
        batch = self.examples.batch(rows)
        inputs, real = batch.inputs[:2] if isinstance(batch.inputs, tuple) else (batch.inputs, batch.real)
        states = self.bert(input_ids=inputs, attention_mask=real.long()).last_hidden_state  # (B, L, width)
        if self.kind == "TaggingTask":
            homes, lengths = batch.inputs.homes, batch.inputs.lengths
            scores = self.head(states.flatten(0, 1)[homes])  # (B, words, tags)
            tags = batch.tags.masked_fill(torch.arange(homes.shape[1]) >= lengths[:, None], -100)
            return functional.cross_entropy(scores.flatten(0, 1), tags.flatten(), reduction="sum") / len(rows)
        if self.kind == "RelationTask":
            chosen = states.take_along_dim(batch.places[:, :, None], 1)  # (B, Q, width)
            sums = torch.stack([(chosen * (batch.parts == part)[:, :, None]).sum(1) for part in range(3)], 1)
            features = functional.layer_norm(sums, sums.shape[-1:]).flatten(1)  # (B, 3 · width)
        else:
            features = states[:, 0]  # (B, width)
        return functional.cross_entropy(self.head(features), batch.labels)

    def steps(self, parts: Sequence[Tensor]) -> Run:
        """A plain loop."""

        def work(_: Path) -> None:
            self.train()
            optimizer = torch.optim.Adam([p for p in self.parameters() if p.requires_grad], lr=LR)
            for part in parts:
                optimizer.zero_grad()
                self.loss(part).backward()  # type: ignore[no-untyped-call]
                optimizer.step()

        return work


# what learns nothing


def _asking(encoder: Path, count: int) -> Iterator[tuple[str, Run, Run, int, float | None]]:
    """Texts of mixed length through a model, through a pipeline and through bare products."""
    documents = list(Sentences(count=count).documents("train"))
    texts = [one.text for one in documents]
    tokenizer = transformers.AutoTokenizer.from_pretrained(encoder)
    tokenizer.add_tokens([mark for pair in MARKERS for mark in pair])
    products = _products(encoder, tokenizer, texts)
    bf16, absent = tried(None, "bf16")
    if not absent:
        yield "products in bf16", _products(encoder, tokenizer, texts, torch.bfloat16), products, len(texts), None
    for name, kind, work, given in (
        (
            "relation",
            transformers.AutoModelForSequenceClassification,
            "text-classification",
            [*map(_marked, documents)],
        ),
        ("classification", transformers.AutoModelForSequenceClassification, "text-classification", texts),
        ("tagging", transformers.AutoModelForTokenClassification, "token-classification", texts),
    ):
        task = _tasks(encoder, 128)[name]()
        labels = len(task.tags) if name == "tagging" else len(LABELS)
        model: Any = kind.from_pretrained(encoder, num_labels=labels).eval()
        model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
        asked: Any = transformers.pipeline(work, model=model, tokenizer=tokenizer)  # type: ignore[call-overload]
        if name == "relation":  # as a trained one would, which knows what it was shown
            task = replace(task, candidates=Candidates((TYPES,)))
        notes = [Prediction(one.text, entities=one.entities if name == "relation" else ()) for one in documents]
        mine, piped = _predicting(task, task.model().eval(), notes), _piped(asked, given)
        yield f"predict {name}", mine, piped, len(texts), 0.33
        yield f"{name} answered / products", mine, products, len(texts), None
        if not absent:
            narrow = _predicting(task, bf16.lend(task.model().eval()), notes, bf16)
            yield f"predict {name}, bf16", narrow, piped, len(texts), 0.33


def _marked(document: Document) -> str:
    """A sentence as a script would give it to a classifier: markers around the two entities."""
    text = document.text
    for entity, (opening, closing) in sorted(
        zip(document.entities, MARKERS, strict=True), key=lambda both: -both[0].start
    ):
        words = f"{opening} {entity.type} {closing}"
        text = text[: entity.start] + words + text[entity.end :]
    return text


def _products(encoder: Path, tokenizer: Any, texts: Sequence[str], kind: torch.dtype = torch.float32) -> Run:
    """All linear maps of the encoder on all tokens of all texts, and nothing else."""
    shape = read_encoder(encoder).shape
    tokens = sum(min(len(one), 128) for one in tokenizer(texts)["input_ids"])
    inputs = torch.split(torch.randn(tokens, shape.width, dtype=kind), 2048)
    wide, narrow = (nn.Linear(a, b, dtype=kind) for a, b in ((shape.width, shape.inner), (shape.inner, shape.width)))
    square = nn.Linear(shape.width, shape.width, dtype=kind)

    @torch.no_grad()
    def work(_: Path) -> None:
        for states in inputs:
            for _layer in range(shape.layers):
                for _part in range(4):
                    square(states)
                narrow(wide(states))

    return work


def _piped(asked: Any, texts: Sequence[str]) -> Run:
    return lambda _: asked(texts)


def _predicting(task: Any, model: nn.Module, texts: Sequence[Prediction], device: Device = CPU) -> Run:
    def work(_: Path) -> None:
        with torch.no_grad(), device.products():
            task.predict(model, texts)

    return work


def _grouping(encoder: Path, count: int) -> Iterator[tuple[str, Run, Run, int, float | None]]:
    pretrained = read_encoder(encoder)
    texts = [one.text for one in Sentences(count=8 * count).documents("train")]
    rows = sorted([list(one.ids) for one in pretrained.tokenizer.encode_batch(texts)], key=len)[3 * count : 4 * count]
    trunk = Trunk(pretrained.part(range(2 * pretrained.shape.layers // 3), embeddings=True), remember=False)
    together, alone = (lambda _: trunk.states(rows)), (lambda _: [trunk.states([row]) for row in rows])
    yield "trunk together", together, alone, len(rows), 0.82
    task = _tasks(encoder, 128)["classification"]()
    documents = (Document(str(at), text, labels=LABELS[:1]) for at, text in enumerate(texts[: 2 * count]))
    examples, model = task.examples(Texts(tuple(documents))), task.model().eval()

    def asked(batches: Callable[[Tensor], list[Tensor]]) -> Run:
        @torch.no_grad()
        def work(_: Path) -> None:
            for some in batches(examples.tokens.lengths):
                task.scored(model, examples.batch(some))

        return work

    yield "evaluation by tokens", asked(budgeted), asked(lambda lengths: grouped(lengths, 64, None)), 2 * count, 0.6


if __name__ == "__main__":
    main()
