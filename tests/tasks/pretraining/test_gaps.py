"""How probable answers are in a gap: as the logits of `transformers` say, token by token, whatever the batch."""

import dataclasses
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer as Engine
from tokenizers import decoders, pre_tokenizers, processors
from tokenizers import models as kinds

from regard import interop, models
from regard.attention.masks import Grid
from regard.data.roles import BYTES
from regard.tasks.pretraining.filler import Filler
from regard.tasks.pretraining.gaps import split_at_gaps
from regard.tasks.pretraining.restorer import Restorer
from regard.tasks.pretraining.tokenising import encode
from regard.tasks.pretraining.writer import Writer
from regard.tasks.promptable import Gap, Promptable
from regard.tasks.writing import WritingConfig
from tests.interop.making import scattered
from tests.tasks.pretraining.making import made
from tests.tasks.pretraining.small import prepared

MERGES = [*((a, b) for a in "Ġabdgo" for b in "abdgo"), ("Ġg", "oo"), ("Ġb", "ad"), ("Ġgoo", "d"), ("Ġba", "d")]
WORDS = ["good", "bad", "very", "film", "a", "it", "was", ".", "##ly", "##dd", "go", "ba"]


def bpe(folder: Path) -> int:
    """A byte-level tokenizer that joins a blank with what follows; how many tokens it has."""
    names = ["<|endoftext|>", *sorted(BYTES)]
    vocab = {name: number for number, name in enumerate(names)}
    merges = []
    for one, other in MERGES:
        if one in vocab and other in vocab and one + other not in vocab:
            vocab[one + other] = len(vocab)
            merges.append((one, other))
    engine = Engine(kinds.BPE(vocab, merges))
    engine.pre_tokenizer, engine.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    engine.add_special_tokens(["<|endoftext|>"])
    engine.save(str(folder / "tokenizer.json"))
    return len(vocab)


def wordpiece(folder: Path) -> int:
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    engine = Engine(kinds.WordPiece({name: id for id, name in enumerate(names)}, unk_token="[UNK]"))
    engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    engine.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    engine.decoder = decoders.WordPiece()
    engine.add_special_tokens(names[:5])
    engine.save(str(folder / "tokenizer.json"))
    return len(names)


@pytest.fixture(scope="module")
def gpt(tmp_path_factory):
    """Our GPT and theirs, with the same weights in float64."""
    import transformers

    folder = tmp_path_factory.mktemp("gpt")
    shape = {"n_positions": 48, "n_embd": 24, "n_layer": 2, "n_head": 4, "bos_token_id": 0, "eos_token_id": 0}
    theirs = scattered(transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=bpe(folder), **shape)).eval())
    theirs.save_pretrained(folder)
    found = interop.read(folder)
    ours = models.revive(dataclasses.asdict(found.shape), found.tensors).double()
    return Writer(ours, found.tokenizer, WritingConfig()), theirs.double()


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    import transformers

    folder = tmp_path_factory.mktemp("bert")
    shape = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 40}
    sizes = {"vocab_size": wordpiece(folder), "max_position_embeddings": 34, **shape}
    theirs = scattered(transformers.BertForMaskedLM(transformers.BertConfig(**sizes)).eval())
    theirs.save_pretrained(folder)
    found = interop.read(folder)
    ours = models.revive(dataclasses.asdict(found.shape), found.tensors).double()
    return Filler(ours, found.tokenizer), theirs.double()


@pytest.fixture(scope="module")
def t5() -> Restorer:
    return made("span-corruption", double=True).restorer()


GAPS = [
    Gap("a film: ", ".", ("good", "bad", "good dad")),
    Gap("it was ", "", ("good bad", "good good", "go")),
    Gap("bad bad bad, it was a ", " film", ("dad", "good", "bad")),
]


def close(one, other) -> None:
    assert [[len(ids) for ids in some] for some in one] == [[len(ids) for ids in some] for some in other]
    for some, others in zip(one, other, strict=True):
        for values, wanted in zip(some, others, strict=True):
            torch.testing.assert_close(torch.tensor(values), torch.tensor(wanted), rtol=0, atol=1e-9)


@torch.no_grad()
def test_a_gpt_weighs_answers_as_transformers_does(gpt):
    writer, theirs = gpt
    expected = []
    for gap in GAPS:
        some = []
        for answer in gap.candidates:
            whole, first = (writer.tokenizer.encode(text) for text in (gap.before + answer, gap.before.rstrip()))
            ids = [0, *whole]
            chances = theirs(torch.tensor([ids])).logits[0].log_softmax(-1)
            some.append([float(chances[place - 1, ids[place]]) for place in range(1 + len(first), len(ids))])
        expected.append(some)
    close(writer.score_candidates(GAPS), expected)


def test_the_blank_before_an_answer_belongs_to_it(gpt):
    writer, _ = gpt
    own = writer.tokenizer
    blank, bare = own.encode(" good"), own.encode("good")
    assert blank != bare
    assert writer.pieces(Gap("a film: ", "", ("good",))) == [blank]
    assert writer.pieces(Gap("a film:", "", ("good",))) == [bare]
    assert writer.pieces(Gap("a film:\n", "", ("good",))) == [bare]
    assert writer.pieces(Gap("", "", ("good",))) == [bare]


def test_answers_that_melt_with_what_stands_before_them_are_compared_from_there(gpt):
    """Of "goo" and "d" one token is made, and none of "goo" and "a"."""
    writer, _ = gpt
    gap = Gap("so goo", "", ("d", "a"))
    [(before, answers)] = split_at_gaps(writer.tokenizer, [gap])
    for answer, ids in zip(gap.candidates, answers, strict=True):
        assert [*before, *ids] == writer.tokenizer.encode(gap.before + answer)
    assert len(before) < len(writer.tokenizer.encode(gap.before))


@pytest.mark.parametrize("kind", ["bpe", "unigram", "words", "characters"])
def test_a_text_is_split_as_it_is_tokenised_whole(kind):
    own = prepared(kind).tokenizer
    befores = ["the old wolf: ", "Why?\nthe horses of Nürnberg, 1984:\n\n ", "can't  ", "", "a", "sleep;", "漢字 "]
    gaps = [Gap(before, "", ("sleep", "the old", "…why?")) for before in befores]
    for gap, (before, answers) in zip(gaps, split_at_gaps(own, gaps), strict=True):
        for answer, ids in zip(gap.candidates, answers, strict=True):
            assert [*before, *ids] == encode(own, gap.before + answer)
            assert ids


@torch.no_grad()
def test_a_bert_weighs_answers_as_transformers_does(bert):
    filler, theirs = bert
    own = filler.tokenizer
    expected = []
    for gap in GAPS:
        before, after = own.encode(gap.before), own.encode(gap.after)
        some = []
        for answer in gap.candidates:
            ids, values = own.encode(answer), []
            for place, token in enumerate(ids):
                masks = [own.mask] * (len(ids) - place)
                read = [own.begin, *before, *ids[:place], *masks, *after, own.separator]
                logits = theirs(torch.tensor([read])).logits[0, 1 + len(before) + place]
                values.append(float(logits.log_softmax(-1)[token]))
            some.append(values)
        expected.append(some)
    close(filler.score_candidates(GAPS), expected)


@torch.no_grad()
def test_a_t5_weighs_a_span_and_its_end(t5):
    own, gaps = t5.tokenizer, [Gap("the ", " dog", ("old", "a", "wolf")), Gap("an ", "", ("old", "ol"))]
    gap, end = own.find_special("<extra_id_0>"), own.end
    expected = []
    for each in gaps:
        read = [*own.encode(each.before.rstrip()), gap, *([*own.encode("a dog")[1:]] if each.after else []), end]
        some = []
        for answer in each.candidates:
            said = [*own.encode(f"a {answer}")[1:], end]
            fed = [own.filler, gap, *said[:-1]]
            grids = tuple(Grid(torch.tensor([len(ids)]), len(ids)) for ids in (read, fed))
            logits = t5.model.logits(t5.model(torch.tensor([read]), torch.tensor([fed]), layouts=grids))[0]
            chances = logits.log_softmax(-1)
            some.append([float(chances[1 + place, token]) for place, token in enumerate(said)])
        expected.append(some)
    close(t5.score_candidates(gaps), expected)


@pytest.mark.parametrize("family", ["gpt", "bert"])
def test_company_never_changes_an_answer(family, request):
    face, _ = request.getfixturevalue(family)
    assert isinstance(face, Promptable)
    alone = [face.score_candidates([gap])[0] for gap in GAPS]
    close(face.score_candidates(GAPS), alone)
    close(face.score_candidates(GAPS[::-1]), alone[::-1])
    single = [
        [face.score_candidates([dataclasses.replace(gap, candidates=(one,))])[0][0] for one in gap.candidates]
        for gap in GAPS
    ]
    close(alone, single)


def test_company_never_changes_an_answer_of_a_t5(t5):
    gaps = [Gap("the ", " dog", ("old", "a")), Gap("an old wolf runs ", "", ("after", "the old dog"))]
    assert isinstance(t5, Promptable)
    close(t5.score_candidates(gaps), [t5.score_candidates([gap])[0] for gap in gaps])


def test_company_never_changes_what_is_written(gpt):
    writer, _ = gpt
    gaps = [Gap("a film: "), Gap("it was a very bad dad, "), Gap("go")]
    together = writer.complete(gaps, length=6)
    assert together == [writer.complete([gap], length=6)[0] for gap in gaps]
    for gap, text in zip(gaps, together, strict=True):
        [whole] = writer.write(gap.before.rstrip(), length=6, temperature=0, samples=1)
        assert whole.text.removeprefix(gap.before.rstrip()).strip() == text
