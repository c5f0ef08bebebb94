"""Large models by what their authors published: sizes, data, hardware and time, each row with its source.

A number that nobody published is None. Days are those of the whole training on all devices together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from regard.cost.published import PUBLISHED
from regard.cost.sizes import parameters, preset

VASWANI = "Vaswani et al. 2017, section 5 and table 3"
NVIDIA = "Narayanan et al. 2021, figure 1"
DEVLIN = "Devlin et al. 2019, section 3 and appendix A.2; data: Liu et al. 2019"
KHAN = "as estimated by Khan 2019, BERT, RoBERTa, DistilBERT, XLNet: which one to use?"
TURC = "Turc et al. 2019"
LEE = "Lee et al. 2020 (BioBERT 1.1, begun as BERT-Base); 23 days not confirmed: NVIDIA 2019 gives over 10"
RADFORD = "Radford et al. 2019, table 2"
SHOEYBI = "Shoeybi et al. 2019, table 1"
SHOEYBI_EPOCHS = f"{SHOEYBI}; days: 300,000 steps at 2.27 days for 68,507, section 4.2 and table 2"
SHOEYBI_DAYS = f"{SHOEYBI} (32 heads, in the model of table 2 24); days: abstract of the first version"
JOHNSON = "days: Johnson 2019, lecture on attention, not confirmed: the authors give none"
BROWN = "Brown et al. 2020, table 2.1"
RAFFEL = "Raffel et al. 2020"
SCAO = "Le Scao et al. 2022; Luccioni et al. 2022"
TOUVRON = "Touvron et al. 2023 (LLaMA), tables 2 and 15"
TOUVRON2 = "Touvron et al. 2023 (Llama 2), tables 1 and 2"
DOSOVITSKIY = "Dosovitskiy et al. 2021, tables 1 and 2"


@dataclass(frozen=True)
class Training:
    """The hardware that a model was trained on, and for how long."""

    device: str
    count: int | None = None
    days: float | None = None
    total_days: float | None = None
    """Days of one device, where only these were published."""

    @property
    def device_days(self) -> float | None:
        """Return the days that the training would take on a single device."""
        return self.count * self.days if self.count is not None and self.days is not None else self.total_days

    def __str__(self) -> str:
        count = "" if self.count is None else f"{self.count:,}x "
        return f"{count}{self.device}" + ("" if self.days is None else f" ({format_days(self.days)})")


@dataclass(frozen=True)
class LargeModel:
    """A model as it was published."""

    name: str
    date: str
    """Year and month."""
    parameters: float
    """As published, rounded as there."""
    sizes: tuple[int, int, int] | None
    """Layers, of both halves where there are two; features; heads."""
    source: str
    preset: str | None = None
    """What `regard cost` knows it by."""
    data: str = ""
    tokens: float | None = None
    """Tokens that were read in training."""
    trainings: tuple[Training, ...] = ()

    @property
    def year(self) -> int:
        """When it was published."""
        return int(self.date[:4])

    @property
    def computed_parameters(self) -> int | None:
        """The parameters of the preset, counted in the model itself or by its equations."""
        if self.preset is None:
            return None
        return PUBLISHED[self.preset].parameters if self.preset in PUBLISHED else parameters(preset(self.preset))

    @property
    def operations(self) -> float | None:
        """Operations of the training, six for each parameter and token; None where the tokens are not known."""
        return None if self.tokens is None else 6 * self.parameters * self.tokens

    def record(self) -> dict[str, Any]:
        """Return all of it as JSON."""
        trainings = [{**asdict(training), "device_days": training.device_days} for training in self.trainings]
        computed = {"computed_parameters": self.computed_parameters, "operations": self.operations}
        return {**asdict(self), **computed, "trainings": trainings}


def format_days(days: float) -> str:
    """Format days as the papers do: hours below a day, years above ten."""
    if days < 1:
        return f"{24 * days:g} hours"
    if days > 3650:
        return f"{days / 365.25:,.0f} years"
    return "1 day" if days == 1 else f"{days:g} days"


def _list_gpt3() -> Iterator[LargeModel]:
    """Yield the eight sizes of GPT-3."""
    for size, preset_name, count, sizes in (
        ("Small", "gpt3-small", 125e6, (12, 768, 12)),
        ("Medium", "gpt3-medium", 350e6, (24, 1024, 16)),
        ("Large", "gpt3-large", 760e6, (24, 1536, 16)),
        ("XL", "gpt3-xl", 1.3e9, (24, 2048, 24)),
        ("2.7B", "gpt3-2.7b", 2.7e9, (32, 2560, 32)),
        ("6.7B", "gpt3-6.7b", 6.7e9, (32, 4096, 32)),
        ("13B", "gpt3-13b", 13e9, (40, 5140, 40)),
    ):
        yield LargeModel(f"GPT-3 {size}", "2020-05", count, sizes, BROWN, preset_name, tokens=300e9)
    years = Training("V100 at 28 TFLOPS", 1, 355 * 365.25)
    source = f"{BROWN}; 355 years, 4.6 million dollars: Li 2020, as estimated"
    yield LargeModel(
        "GPT-3 175B", "2020-05", 175e9, (96, 12288, 96), source, "gpt3", "570 GB", tokens=300e9, trainings=(years,)
    )


LARGE_MODELS = (
    LargeModel(
        "Transformer-Base", "2017-06", 65e6, (12, 512, 8), VASWANI, "base", "4.5M pairs",
        trainings=(Training("P100", 8, 0.5),),
    ),
    LargeModel(
        "Transformer-Big", "2017-06", 213e6, (12, 1024, 16), VASWANI, "big", "4.5M pairs",
        trainings=(Training("P100", 8, 3.5),),
    ),
    LargeModel("ELMo", "2018-02", 94e6, None, NVIDIA),
    LargeModel(
        "GPT", "2018-06", 117e6, (12, 768, 12), "Radford et al. 2018, section 4.1; hardware: OpenAI 2018", "gpt1",
        "BooksCorpus", trainings=(Training("P600", 8, 30),),
    ),
    LargeModel(
        "BERT-Base", "2018-10", 110e6, (12, 768, 12), f"{DEVLIN}; V100: {KHAN}", "bert-base", "16 GB",
        trainings=(Training("TPU", 16, 4), Training("V100", 8, 12)),
    ),
    LargeModel(
        "BERT-Large", "2018-10", 340e6, (24, 1024, 16), f"{DEVLIN}; V100: {KHAN}", "bert-large", "16 GB",
        trainings=(Training("TPU", 64, 4), Training("V100", 280, 1)),
    ),
    LargeModel(
        "BioBERT", "2019-01", 110e6, (12, 768, 12), LEE, "biobert", "4.5B words",
        trainings=(Training("V100", 8, 23),),
    ),
    LargeModel("GPT-2 Small", "2019-02", 117e6, (12, 768, 12), RADFORD, "gpt2", "40 GB"),
    LargeModel("GPT-2 Medium", "2019-02", 345e6, (24, 1024, 16), RADFORD, "gpt2-medium", "40 GB"),
    LargeModel("GPT-2 Large", "2019-02", 762e6, (36, 1280, 20), RADFORD, "gpt2-large", "40 GB"),
    LargeModel("GPT-2 XL", "2019-02", 1542e6, (48, 1600, 25), RADFORD, "gpt2-xl", "40 GB"),
    LargeModel(
        "XLNet-Large", "2019-06", 340e6, (24, 1024, 16), "Yang et al. 2019 (first version), section 3.1",
        "xlnet-large", "126 GB", trainings=(Training("TPUv3", 512, 2.5),),
    ),
    LargeModel(
        "RoBERTa", "2019-07", 355e6, (24, 1024, 16), "Liu et al. 2019", "roberta-large",
        "160 GB", trainings=(Training("V100", 1024, 1),),
    ),
    LargeModel("smallBERT", "2019-08", 29.1e6, (4, 512, 8), TURC, "bert-small", "16 GB"),
    LargeModel(
        "Megatron-LM 1.2B", "2019-09", 1.2e9, (40, 1536, 16), SHOEYBI, "megatron-1.2b", "174 GB",
        trainings=(Training("V100", 64),),
    ),
    LargeModel(
        "Megatron-LM 2.5B", "2019-09", 2.5e9, (54, 1920, 20), SHOEYBI_EPOCHS, "megatron-2.5b", "174 GB",
        trainings=(Training("V100", 128, 9.9),),
    ),
    LargeModel(
        "Megatron-LM 4.2B", "2019-09", 4.2e9, (64, 2304, 24), f"{SHOEYBI}; {JOHNSON}", "megatron-4.2b", "174 GB",
        trainings=(Training("V100", 256, 10),),
    ),
    LargeModel(
        "Megatron-LM 8.3B", "2019-09", 8.3e9, (72, 3072, 32), SHOEYBI_DAYS, "megatron-8.3b", "174 GB",
        trainings=(Training("V100", 512, 9.2),),
    ),
    LargeModel(
        "DistilBERT", "2019-10", 66e6, (6, 768, 12), "Sanh et al. 2019", "distilbert-base", "16 GB",
        trainings=(Training("V100", 8, 90 / 24),),
    ),
    LargeModel("T5-Small", "2019-10", 60e6, (12, 512, 8), RAFFEL, "t5-small", "750 GB"),
    LargeModel("T5-11B", "2019-10", 11e9, (48, 1024, 128), RAFFEL, "t5-11b", "750 GB"),
    LargeModel("Turing-NLG", "2020-02", 17.2e9, (78, 4256, 28), f"{NVIDIA}; sizes: Rosset 2020"),
    *_list_gpt3(),
    LargeModel(
        "ViT-L/16", "2020-10", 307e6, (24, 1024, 16), DOSOVITSKIY, "vit-l16", "303M pictures",
        trainings=(Training("TPUv3 core", total_days=680),),
    ),
    LargeModel(
        "ViT-H/14", "2020-10", 632e6, (32, 1280, 16), DOSOVITSKIY, "vit-h14", "303M pictures",
        trainings=(Training("TPUv3 core", total_days=2500),),
    ),
    LargeModel("BLOOM 560M", "2022-07", 559e6, (24, 1024, 16), SCAO, "bloom-560m", "1.6 TB"),
    LargeModel(
        "BLOOM 176B", "2022-07", 176.247e9, (70, 14336, 112), SCAO, "bloom-176b", "1.6 TB", tokens=366e9,
        trainings=(Training("A100", 384, total_days=1_082_990 / 24),),
    ),
    LargeModel(
        "LLaMA 65B", "2023-02", 65.2e9, (80, 8192, 64), TOUVRON, "llama-65b", tokens=1.4e12,
        trainings=(Training("A100", 2048, total_days=1_022_362 / 24),),
    ),
    LargeModel(
        "Llama 2 70B", "2023-07", 70e9, (80, 8192, 64), TOUVRON2, "llama2-70b", tokens=2e12,
        trainings=(Training("A100", total_days=1_720_320 / 24),),
    ),
)  # fmt: skip
"""Models of text, and two of pictures, in the order of their publication."""
