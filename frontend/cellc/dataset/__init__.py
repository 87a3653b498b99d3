"""Input pipelines: `cellc.dataset`, under the names of `mindspore.dataset`.

Rows are numpy arrays from sources through operations to iterators, which give Tensors. All of it
is Python over numpy and runs when rows are requested; `pipeline` says how it fits together.
"""

# ruff: noqa: F403, F405  (the lists of the modules say which names these have)

from __future__ import annotations

from typing import TYPE_CHECKING

from cellc_runtime.lazy import imported, no_attribute, public_names

from . import config, transforms, vision
from .batching import BatchInfo
from .callbacks import DSCallback
from .iterators import DictIterator, TupleIterator
from .pipeline import (
    BatchDataset,
    ConcatDataset,
    Dataset,
    FilterDataset,
    MapDataset,
    ProjectDataset,
    RenameDataset,
    RepeatDataset,
    ShuffleDataset,
    SkipDataset,
    SyncWaitDataset,
    TakeDataset,
    TransferDataset,
    ZipDataset,
)
from .pipeline import zip_datasets as zip
from .samplers import (
    BuiltinSampler,
    DistributedSampler,
    IterSampler,
    PKSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    Shuffle,
    SubsetRandomSampler,
    SubsetSampler,
    WeightedRandomSampler,
)
from .schema import Schema
from .sources import MappableDataset, PaddedDataset, SourceDataset

__all__ = [
    "AGNewsDataset", "AmazonReviewDataset", "BatchDataset", "BatchInfo", "BuiltinSampler",
    "CLUEDataset", "CMUArcticDataset", "CSVDataset", "Caltech101Dataset", "Caltech256Dataset",
    "CelebADataset", "Cifar100Dataset", "Cifar10Dataset", "CityscapesDataset", "CoNLL2000Dataset",
    "CocoDataset", "ConcatDataset", "DBpediaDataset", "DIV2KDataset", "DSCallback", "Dataset",
    "DictIterator", "DistributedSampler", "EMnistDataset", "EnWik9Dataset", "FakeImageDataset",
    "FashionMnistDataset", "FilterDataset", "FlickrDataset", "Flowers102Dataset", "Food101Dataset",
    "GTZANDataset", "GeneratorDataset", "IMDBDataset", "IWSLT2016Dataset", "IWSLT2017Dataset",
    "ImageFolderDataset", "IterSampler", "KITTIDataset", "KMnistDataset", "LFWDataset",
    "LJSpeechDataset", "LSUNDataset", "LibriTTSDataset", "ManifestDataset", "MapDataset",
    "MappableDataset", "MindDataset", "MnistDataset", "Multi30kDataset", "NumpySlicesDataset",
    "OmniglotDataset", "PKSampler", "PaddedDataset", "PennTreebankDataset", "PhotoTourDataset",
    "Places365Dataset", "ProjectDataset", "QMnistDataset", "RandomSampler", "RenameDataset",
    "RenderedSST2Dataset", "RepeatDataset", "SBUDataset", "SQuADDataset", "SST2Dataset",
    "STL10Dataset", "SUN397Dataset", "SVHNDataset", "Sampler", "Schema", "SemeionDataset",
    "SequentialSampler", "Shuffle", "ShuffleDataset", "SkipDataset", "SogouNewsDataset",
    "SourceDataset", "SpeechCommandsDataset", "SubsetRandomSampler", "SubsetSampler",
    "SyncWaitDataset", "TFRecordDataset", "TakeDataset", "TextFileDataset", "TransferDataset",
    "TupleIterator", "UDPOSDataset", "USPSDataset", "VOCDataset", "WIDERFaceDataset",
    "WaitedDSCallback", "WeightedRandomSampler", "WikiTextDataset", "YahooAnswersDataset",
    "YelpReviewDataset", "YesNoDataset", "ZipDataset", "config", "transforms", "vision", "zip",
]
__dir__ = public_names(__name__)

_MODULES = ("audio", "context", "core", "dataloader", "ds", "engine", "text")
"""Modules, here or of MindSpore's older paths, that load when they are requested."""
_ELSEWHERE = {"DatasetCache": "a list and NumpySlicesDataset"}
"""Names of MindSpore that are not here, and what does their work."""

if TYPE_CHECKING:
    from ..stubs.datasets import *
    from ..train.callback.waited import WaitedDSCallback
else:
    from .annotated import *
    from .corpora import *
    from .digits import *
    from .listed import *
    from .matfiles import *
    from .pictures import (
        Cifar10Dataset,
        Cifar100Dataset,
        FakeImageDataset,
        FashionMnistDataset,
        ImageFolderDataset,
        KMnistDataset,
        MnistDataset,
    )
    from .records import MindDataset, TFRecordDataset
    from .scenes import *
    from .sources import GeneratorDataset, NumpySlicesDataset
    from .speech import *
    from .texts import CSVDataset, TextFileDataset
    from .translated import *

    def __getattr__(name: str) -> object:
        if name == "WaitedDSCallback":  # a callback of the training loop, which is above this
            return imported("..train.callback.waited", __name__).WaitedDSCallback
        if name in _MODULES:
            return imported("." + name, __name__)
        missing = no_attribute(__name__, name, _ELSEWHERE.get(name, ""))
        raise AttributeError(f"{missing}; GeneratorDataset reads data that has no class here") \
            if name.endswith("Dataset") else missing
