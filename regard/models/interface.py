"""The interface of models and their configs for training, checkpoints and cost, with defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from torch import Tensor, nn

from regard.config.fields import Section


@dataclass(frozen=True, kw_only=True)
class Backbone:
    """The part of a model that another one can start from: its family, its sizes and the prefixes of its weights."""

    family: str
    """Models of one family share the names of sizes and parts of the backbone."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """The setting of this model for each size, by the family's name of the size."""
    sizes: Mapping[str, Any] = field(default_factory=dict)
    """The value of each size; a model without a setting for a true value cannot start from this backbone."""
    weights: Mapping[str, str] = field(default_factory=dict)
    """The prefix of each part's weights in this model, by the family's name of the part."""
    embedding_scale: float = 1.0
    """Factor of the token embeddings."""
    same_model_settings: tuple[str, ...] = ()
    """Further settings, taken over only by the same model with any head."""
    resizable: tuple[str, ...] = ()
    """Settings that may change with the data; the model's `resize_weights` adapts the weights."""
    interchangeable: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Values of a setting that share the same weights, such as soft and hard attention."""
    trained_with_head: tuple[str, ...] = ()
    """Prefixes of weights that are trained with a new head if the backbone is frozen."""
    inner: str = ""
    """The section of the config that is a complete model, such as the image encoder of a captioner."""


def read_settings(config: Any, settings: Mapping[str, str]) -> dict[str, Any]:
    """Return the sizes of a config by the family's names, from the settings that hold them."""
    return {name: getattr(config, setting) for name, setting in settings.items()}


class ModelConfig(Section):
    """The config of a model; every setting has a default, so that a model can be chosen by its name alone."""

    name: Any
    """The model's name in recipes."""
    sizes_known: ClassVar[bool] = True
    """False if the model has a size that only its data or its weights tell."""
    reads_whole: ClassVar[bool] = False
    """True if it reads sequences of one length, and no part of one."""

    def build(self) -> nn.Module:
        """Return a model with this config; those of Regard are built by their names."""
        raise NotImplementedError

    @property
    def parameters(self) -> int:
        """Return the approximate number of parameters; 0: not known before the model is built."""
        return 0

    @property
    def context(self) -> int | None:
        """Return the longest sequence that it reads, in tokens; None: any, or it reads no sequences."""
        return None

    @property
    def predicts_masked(self) -> bool:
        """True if it predicts masked tokens alone."""
        return False

    @property
    def phrase(self) -> str:
        """Return a short description of the model."""
        return str(self.name)

    @property
    def backbone(self) -> Backbone | None:
        """Return the part that another model can start from; None if there is none."""
        return None


@dataclass(frozen=True, kw_only=True)
class LabellerDefaults:
    """The default training settings of a model that labels texts."""

    learning_rate: float = 1e-3
    """The highest learning rate."""
    tuning_learning_rate: float | None = None
    """The highest learning rate for a pre-trained backbone; None: the model has none and is trained as a new model."""
    epochs: int = 5
    longest_text: int | None = None
    """Most tokens of a text; None: the tokenizer's default."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the model for datasets of any size."""
    small_dataset_settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the model for a few thousand texts, which override `settings`."""


class LabellerConfig(ModelConfig):
    """The config of a model that labels texts or their tokens."""

    input_style: ClassVar[Literal["plain", "bert", "gpt"]] = "plain"
    """How texts and pairs of them are laid out for it."""
    labeller_defaults: ClassVar[LabellerDefaults] = LabellerDefaults()

    @property
    def token_features(self) -> int:
        """Return the number of features of a token's vector."""
        raise NotImplementedError

    @property
    def vectors(self) -> str | None:
        """Return the file of word vectors that known words start from; None: every word starts from a random one."""
        return None

    @property
    def counts_labels(self) -> bool:
        """True if its `weigh` counts the words of all training texts by label before it is trained."""
        return False


@dataclass(frozen=True, kw_only=True)
class Traits:
    """How a model is compiled, recorded and saved."""

    capturable: bool = True
    """True if steps have fixed shapes, so that they can be captured as CUDA graphs and compiled."""
    compilable: bool = True
    """True if whole steps can be compiled; otherwise they are only captured."""
    compiled: tuple[str, ...] = ()
    """Submodules to compile if whole steps are not."""
    transient: tuple[str, ...] = ()
    """Tensors needed only for training: saved with the training state, not with the weights."""
    learned_buffers: tuple[str, ...] = ()
    """Buffers that the model updates itself, without gradients."""


class Model(nn.Module):
    """A module with traits and further methods; the defaults here also hold for plain modules."""

    traits: Traits = Traits()
    stack: Any = None
    """The generating blocks, as a `Stack` that the fast path can step; None if there are none."""

    def resize_weights(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the weights of such a model of other sizes, resized for this one."""
        return dict(tensors)

    @staticmethod
    def read_sizes(config: Any, tensors: Mapping[str, Tensor]) -> Any:
        """Return the config with the sizes that follow only from the weights."""
        return config


class TokenModel(Model):
    """A model that predicts the tokens of a vocabulary."""

    bias: nn.Parameter | None
    """Bias of the logits, if any."""

    def __init__(self) -> None:
        super().__init__()
        self.register_parameter("bias", None)

    @property
    def prediction(self) -> Tensor:
        """The matrix that turns features into logits."""
        raise NotImplementedError

    @property
    def has_logits(self) -> bool:
        """True if it has a head over its vocabulary, which may be left out where only features are used."""
        return True

    def logits(self, features: Tensor) -> Tensor:
        """Return the logits of all tokens in the vocabulary."""
        raise NotImplementedError


def traits_of(model: nn.Module) -> Traits:
    """Return how a module is compiled, recorded and saved."""
    return model.traits if isinstance(model, Model) else Traits()


def config_of_model(model: nn.Module) -> ModelConfig | None:
    """Return the config that a model was built from; None for a plain module."""
    config = vars(model).get("config")
    return config if isinstance(config, ModelConfig) else None
