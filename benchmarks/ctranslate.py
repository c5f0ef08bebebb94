"""CTranslate2, a peer of the generating benchmark, given the very weights of our model."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

Ids = list[list[int]]
MODEL, TO = "en-fr", "fr"  # the translator in the box, and into which language
LONGEST = 200  # tokens of a translation


class CTranslate2:
    """Our weights in CTranslate2's format and runtime."""

    def __init__(self, model: Any, folder: Path, *, device: str, precision: str, eos: int, bos: int):
        import ctranslate2

        names = [f"t{number}" for number in range(model.config.vocab)]
        names[eos], names[bos] = "</s>", "<s>"
        spec = specification(model)
        spec.register_source_vocabulary(names)
        spec.register_target_vocabulary(names)
        spec.validate()
        spec.optimize(quantization=None if precision == "float32" else precision)
        folder.mkdir(parents=True, exist_ok=True)
        spec.save(str(folder))
        self.names, self.numbers = names, {name: number for number, name in enumerate(names)}
        self.translator = ctranslate2.Translator(str(folder), device=device, compute_type=precision)

    def words(self, source: Ids) -> list[list[str]]:
        """Token ids by name, which is all that it reads."""
        return [[self.names[number] for number in ids] for ids in source]

    def __call__(self, source: list[list[str]], *, beams: int, length: int) -> tuple[list[list[str]], list[float]]:
        """Answers of exactly this length, by name, and their scores."""
        found = self.translator.translate_batch(
            source,
            beam_size=beams,
            max_decoding_length=length,
            min_decoding_length=length,
            max_batch_size=len(source),
            return_scores=True,
            length_penalty=1,
        )
        return [answer.hypotheses[0] for answer in found], [answer.scores[0] for answer in found]


class CTranslate2Translator:
    """The weights of the translator in the box in CTranslate2; sentences in, translations out."""

    def __init__(self, precision: str) -> None:
        import regard

        self.text = regard.load(MODEL, device="cpu")
        end, begin = self.text.end, self.text.begin
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model"
            self.model = CTranslate2(self.text.model, path, device="cpu", precision=precision, eos=end, bos=begin)

    def translate(self, texts: list[str], beams: int) -> list[str]:
        """Translate sentences, each by itself: nothing is split, copied or put back."""
        answers = self.model.translator.translate_batch(
            self.model.words(self.text.encode_many(texts, TO)), beam_size=beams, max_decoding_length=LONGEST
        )
        tokens = [[self.model.numbers[name] for name in answer.hypotheses[0]] for answer in answers]
        return [self.text.target.decode(ids) for ids in tokens]


def specification(model: Any) -> Any:
    """A Transformer in CTranslate2's terms."""
    from ctranslate2.specs import TransformerSpec
    from ctranslate2.specs.common_spec import Activation

    config = model.config
    assert (config.positions, config.share, config.activation) == ("sinusoidal", "all", "relu")
    layers = (config.encoder, config.decoder)
    spec = TransformerSpec.from_config(layers, config.heads, pre_norm=config.norm == "pre", activation=Activation.RELU)
    spec.config.decoder_start_token = "<s>"
    spec.config.layer_norm_epsilon = 1e-5
    weight, table = _array(model.embedding.weight), _array(model.encoder_positions.table)
    spec.encoder.embeddings[0].weight = spec.decoder.embeddings.weight = spec.decoder.projection.weight = weight
    for side, blocks, norm in (
        (spec.encoder, model.encoder, model.encoder_norm),
        (spec.decoder, model.decoder, model.decoder_norm),
    ):
        side.position_encodings.encodings = table
        if config.norm == "pre":
            _norm(side.layer_norm, norm)
        for layer, block in zip(side.layer, blocks, strict=True):
            own = block.attention
            _linear(layer.self_attention.linear[0], own.query, own.key, own.value)
            _linear(layer.self_attention.linear[1], own.output)
            _norm(layer.self_attention.layer_norm, block.after_attention.norm)
            if side is spec.decoder:
                cross = block.cross
                for place, maps in enumerate([(cross.query,), (cross.key, cross.value), (cross.output,)]):
                    _linear(layer.attention.linear[place], *maps)
                _norm(layer.attention.layer_norm, block.after_cross.norm)
            _linear(layer.ffn.linear_0, block.mlp.inner)
            _linear(layer.ffn.linear_1, block.mlp.outer)
            _norm(layer.ffn.layer_norm, block.after_mlp.norm)
    return spec


def _linear(spec: Any, *maps: nn.Linear) -> None:
    spec.weight = np.concatenate([_array(each.weight) for each in maps])
    spec.bias = np.concatenate([_array(each.bias) for each in maps])


def _norm(spec: Any, norm: nn.Module) -> None:
    spec.gamma, spec.beta = _array(norm.weight), _array(norm.bias)


def _array(tensor: Any) -> np.ndarray:
    """Return a copy of the tensor in float32: converting to int8 writes into the arrays it is given."""
    return tensor.detach().float().cpu().numpy().copy()
