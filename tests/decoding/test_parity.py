"""Agreement with an outside implementation of the same searches, on a small random GPT-2."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from regard.decoding.beam import Beam, search
from regard.decoding.constraints import Forbid, MinimumLength, NoRepeat
from regard.decoding.generate import generate

transformers = pytest.importorskip("transformers")
EOS, VOCAB, LIMIT = 0, 30, 9


@dataclass
class Text:
    """A state that is nothing but the text so far."""

    tokens: Tensor

    def reorder(self, parents: Tensor) -> "Text":
        return Text(self.tokens.gather(1, parents[..., None].expand_as(self.tokens)))

    def keep(self, rows: Tensor) -> "Text":
        return Text(self.tokens[rows])


class Rereader:
    """A language model that reads everything again at every step: slow, and hard to get wrong."""

    def __init__(self, model):
        self.model = model

    def start(self, prompt: Tensor, *, beams: int, limit: int) -> tuple[Tensor, Text]:
        return self.read(Text(prompt[:, None].repeat(1, beams, 1)))

    def step(self, tokens: Tensor, state: Text) -> tuple[Tensor, Text]:
        return self.read(Text(torch.cat([state.tokens, tokens[..., None]], -1)))

    def read(self, state: Text) -> tuple[Tensor, Text]:
        logits = self.model(state.tokens.flatten(0, 1)).logits[:, -1]
        return logits.unflatten(0, state.tokens.shape[:2]), state


@pytest.fixture
def gpt():
    """A model sharp enough that ends come now and then."""
    config = transformers.GPT2Config(
        vocab_size=VOCAB,
        n_embd=16,
        n_layer=1,
        n_head=2,
        n_positions=32,
        tie_word_embeddings=False,
        bos_token_id=1,
        eos_token_id=EOS,
    )
    model = transformers.GPT2LMHeadModel(config).eval()
    torch.nn.init.normal_(model.transformer.wte.weight)
    torch.nn.init.normal_(model.transformer.wpe.weight)
    torch.nn.init.normal_(model.lm_head.weight, std=0.7)
    model.lm_head.weight.data[EOS] *= 1.2
    return model


@pytest.fixture
def prompt():
    return torch.randint(3, VOCAB, (8, 2))


def theirs(gpt, prompt, **settings):
    """What transformers writes after the prompt, the end token cut off, and its scores if there are any."""
    settings = {"max_new_tokens": LIMIT, "pad_token_id": EOS, "do_sample": False, **settings}
    out = gpt.generate(
        prompt, attention_mask=torch.ones_like(prompt), return_dict_in_generate=True, output_scores=True, **settings
    )
    texts = [row.tolist() for row in out.sequences[:, prompt.shape[1] :]]
    return [text[: text.index(EOS)] if EOS in text else text for text in texts], getattr(out, "sequences_scores", None)


RULES = {
    "free": ({}, []),
    "forbidden": ({"bad_words_ids": [[5], [7, 9], [11, 12, 13]]}, [Forbid([[5], [7, 9], [11, 12, 13]])]),
    "long": ({"min_new_tokens": 4}, [MinimumLength(4)]),
}


@pytest.mark.parametrize("rule", RULES)
def test_greedy_answers_are_theirs(gpt, prompt, rule):
    settings, constraints = RULES[rule]
    ours = generate(Rereader(gpt), (prompt,), limit=LIMIT, eos=EOS, constraints=constraints)
    expected, _ = theirs(gpt, prompt, **settings)
    assert [own[0].tokens for own in ours] == expected
    assert any(own[0].finished for own in ours) or rule == "long"


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("beams", [2, 4])
def test_beam_search_answers_and_scores_are_theirs(gpt, prompt, rule, beams):
    settings, constraints = RULES[rule]
    beam = Beam(beams=beams, length_penalty=0.0)
    ours = search(Rereader(gpt), (prompt,), beam, limit=LIMIT, eos=EOS, constraints=constraints)
    expected, scores = theirs(
        gpt, prompt, num_beams=beams, length_penalty=0.0, early_stopping=True, num_return_sequences=beams, **settings
    )
    # they rank an unfinished answer by its score alone, so compare with their best finished one
    for example, [answer] in enumerate(ours):
        own = list(zip(expected, scores.tolist(), strict=True))[example * beams : (example + 1) * beams]
        finished = [(text, score) for text, score in own if len(text) < LIMIT] or own
        assert answer.tokens == finished[0][0]
        assert answer.score == pytest.approx(finished[0][1], abs=1e-4)
    assert any(own[0].finished for own in ours) or rule == "long"


def test_no_repetition_removes_what_theirs_removes():  # alone, for they count repetitions of the prompt too
    written = torch.randint(3, (40, 1, 12))
    for size in (1, 2, 3):
        scores = torch.zeros(40, 1, 3)
        NoRepeat(size).forbid(scores, written, torch.arange(40), -1)
        expected = transformers.NoRepeatNGramLogitsProcessor(size)(written[:, 0], torch.zeros(40, 3))
        torch.testing.assert_close(scores[:, 0], expected)
