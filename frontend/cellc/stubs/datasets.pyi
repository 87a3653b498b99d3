"""Datasets whose constructors are made from lists of arguments.

Made by `docs/make_stubs.py`; do not edit it by hand.
"""

from ..dataset import annotated
from ..dataset import corpora
from ..dataset import digits
from ..dataset import listed
from ..dataset import matfiles
from ..dataset import pictures
from ..dataset import records
from ..dataset import sources
from ..dataset import speech
from ..dataset import texts
from ..dataset.schema import Schema
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

class AGNewsDataset(corpora.AGNewsDataset):
    def __init__(self, dataset_dir: str, usage: str | None = None, num_samples: int | None = None,
            num_parallel_workers: int | None = None, shuffle: Any = ...,
            num_shards: int | None = None, shard_id: int | None = None,
            cache: Any = None) -> None: ...
class AmazonReviewDataset(corpora.AmazonReviewDataset):
    def __init__(self, dataset_dir: str, usage: str | None = None, num_samples: int | None = None,
            num_parallel_workers: int | None = None, shuffle: Any = ...,
            num_shards: int | None = None, shard_id: int | None = None,
            cache: Any = None) -> None: ...
class CLUEDataset(corpora.CLUEDataset):
    def __init__(self, dataset_files: Any, task: str = 'AFQMC', usage: str = 'train',
            num_samples: int | None = None, num_parallel_workers: int | None = None,
            shuffle: Any = ..., num_shards: int | None = None, shard_id: int | None = None,
            cache: Any = None) -> None: ...
class CMUArcticDataset(speech.CMUArcticDataset):
    def __init__(self, dataset_dir: str, name: str | None = None, num_samples: int | None = None,
            num_parallel_workers: int | None = None, shuffle: Any = None, sampler: Any = None,
            num_shards: int | None = None, shard_id: int | None = None,
            cache: Any = None) -> None: ...
class CSVDataset(texts.CSVDataset):
    def __init__(self, dataset_files: Any, field_delim: str = ',', column_defaults: Any = None,
            column_names: Any = None, num_samples: int | None = None,
            num_parallel_workers: int | None = None, shuffle: Any = ...,
            num_shards: int | None = None, shard_id: int | None = None,
            cache: Any = None) -> None: ...
class Caltech256Dataset(listed.Caltech256Dataset):
    def __init__(self, dataset_dir: str, num_samples: int | None = None,
            num_parallel_workers: int | None = None, shuffle: Any = None, decode: bool = False,
            sampler: Any = None, num_shards: int | None = None, shard_id: int | None = None,
            cache: Any = None) -> None: ...
class CelebADataset(listed.CelebADataset):
    def __init__(self, dataset_dir: str, num_parallel_workers: int | None = None,
            shuffle: Any = None, usage: str = 'all', sampler: Any = None, decode: bool = False,
            extensions: Any = None, num_samples: int | None = None, num_shards: int | None = None,
            shard_id: int | None = None, cache: Any = None, decrypt: Any = None) -> None: ...
class Cifar100Dataset(pictures.Cifar100Dataset):
    def __init__(self, dataset_dir: str, usage: str | None = None, num_samples: int | None = None,
            num_parallel_workers: int | None = None, shuffle: Any = None, sampler: Any = None,
            num_shards: int | None = None, shard_id: int | None = None,
            cache: Any = None) -> None: ...
class Cifar10Dataset(pictures.Cifar10Dataset):
    def __init__(self, dataset_dir: str, usage: str | None = None, num_samples: int | None = None,
            num_parallel_workers: int | None = None, shuffle: Any = None, sampler: Any = None,
            num_shards: int | None = None, shard_id: int | None = None,
            cache: Any = None) -> None: ...
class CoNLL2000Dataset(corpora.CoNLL2000Dataset):
    def __init__(self, dataset_dir: str, usage: str | None = None, num_samples: int | None = None,
            shuffle: Any = ..., num_shards: int | None = None, shard_id: int | None = None,
            num_parallel_workers: int | None = None, cache: Any = None) -> None: ...
class CocoDataset(annotated.CocoDataset):
    def __init__(self, dataset_dir: str, annotation_file: str, task: str = 'Detection',
            num_samples: int | None = None, num_parallel_workers: int | None = None,
            shuffle: Any = None, decode: bool = False, sampler: Any = None,
            num_shards: int | None = None, shard_id: int | None = None, cache: Any = None,
            extra_metadata: bool = False, decrypt: Any = None) -> None: ...
class DBpediaDataset(corpora.DBpediaDataset):
    def __init__(self, dataset_dir: str, usage: str | None = None, num_samples: int | None = None,
            num_parallel_workers: int | None = None, shuffle: Any = ...,
            num_shards: int | None = None, shard_id: int | None = None,
            cache: Any = None) -> None: ...
class EMnistDataset(digits.EMnistDataset):
    def __init__(self, dataset_dir: str, name: str, usage: str | None = None,
            num_samples: int | None = None, num_parallel_workers: int | None = None,
            shuffle: Any = None, sampler: Any = None, num_shards: int | None = None,
            shard_id: int | None = None, cache: Any = None) -> None: ...
class EnWik9Dataset(corpora.EnWik9Dataset):
    def __init__(self, dataset_dir: str, num_samples: int | None = None,
            num_parallel_workers: int | None = None, shuffle: Any = True,
            num_shards: int | None = None, shard_id: int | None = None,
            cache: Any = None) -> None: ...
class FakeImageDataset(pictures.FakeImageDataset):
    def __init__(self, num_images: int = 1000, image_size: Sequence[int] = (224, 224, 3),
            num_classes: int = 10, base_seed: int = 0, num_samples: int | None = None,
            num_parallel_workers: int | None = None, shuffle: Any = None, sampler: Any = None,
            num_shards: int | None = None, shard_id: int | None = None,
            cache: Any = None) -> None: ...
class FashionMnistDataset(pictures.FashionMnistDataset):
    def __init__(self, dataset_dir: str, usage: str | None = None, num_samples: int | None = None,
            num_parallel_workers: int | None = None, shuffle: Any = None, sampler: Any = None,
            num_shards: int | None = None, shard_id: int | None = None,
            cache: Any = None) -> None: ...
class FlickrDataset(listed.FlickrDataset):
    def __init__(self, dataset_dir: str, annotation_file: str, num_samples: int | None = None,
            num_parallel_workers: int | None = None, shuffle: Any = None,
            decode: bool | None = None, sampler: Any = None, num_shards: int | None = None,
            shard_id: int | None = None, cache: Any = None) -> None: ...
class Food101Dataset(listed.Food101Dataset):
    def __init__(self, dataset_dir: str, usage: str | None = None, num_samples: int | None = None,
            num_parallel_workers: int | None = None, shuffle: Any = None, decode: bool = False,
            sampler: Any = None, num_shards: int | None = None, shard_id: int | None = None,
            cache: Any = None) -> None: ...
class GeneratorDataset(sources.GeneratorDataset):
    def __init__(self, source: Any, column_names: Any = None, column_types: Any = None,
            schema: Any = None, num_samples: int | None = None, num_parallel_workers: int = 1,
            shuffle: Any = None, sampler: Any = None, num_shards: int | None = None,
            shard_id: int | None = None, python_multiprocessing: bool = True,
            max_rowsize: Any = None, batch_sampler: Any = None,
            collate_fn: Callable[..., Any] | None = None) -> None: ...
class IMDBDataset(corpora.IMDBDataset):
    def __init__(self, dataset_dir: str, usage: str | None = None, num_samples: int | None = None,
            num_parallel_workers: int | None = None, shuffle: Any = None, sampler: Any = None,
            num_shards: int | None = None, shard_id: int | None = None,
            cache: Any = None) -> None: ...
class ImageFolderDataset(pictures.ImageFolderDataset):
    def __init__(self, dataset_dir: str, num_samples: int | None = None,
            num_parallel_workers: int | None = None, shuffle: Any = None, sampler: Any = None,
            extensions: Any = None, class_indexing: dict[str, int] | None = None,
            decode: bool = False, num_shards: int | None = None, shard_id: int | None = None,
            cache: Any = None, decrypt: Any = None) -> None: ...
class KMnistDataset(pictures.KMnistDataset):
    def __init__(self, dataset_dir: str, usage: str | None = None, num_samples: int | None = None,
            num_parallel_workers: int | None = None, shuffle: Any = None, sampler: Any = None,
            num_shards: int | None = None, shard_id: int | None = None,
            cache: Any = None) -> None: ...
class LJSpeechDataset(speech.LJSpeechDataset):
    def __init__(self, dataset_dir: str, num_samples: int | None = None,
            num_parallel_workers: int | None = None, shuffle: Any = None, sampler: Any = None,
            num_shards: int | None = None, shard_id: int | None = None,
            cache: Any = None) -> None: ...
class LSUNDataset(listed.LSUNDataset):
    def __init__(self, dataset_dir: str, usage: str | None = None, classes: Any = None,
            num_samples: int | None = None, num_parallel_workers: int | None = None,
            shuffle: Any = None, decode: bool = False, sampler: Any = None,
            num_shards: int | None = None, shard_id: int | None = None,
            cache: Any = None) -> None: ...
class LibriTTSDataset(speech.LibriTTSDataset):
    def __init__(self, dataset_dir: str, usage: str | None = None, num_samples: int | None = None,
            num_parallel_workers: int | None = None, shuffle: Any = None, sampler: Any = None,
            num_shards: int | None = None, shard_id: int | None = None,
            cache: Any = None) -> None: ...
class ManifestDataset(listed.ManifestDataset):
    def __init__(self, dataset_file: str, usage: str = 'train', num_samples: int | None = None,
            num_parallel_workers: int | None = None, shuffle: Any = None, sampler: Any = None,
            class_indexing: dict[str, int] | None = None, decode: bool = False,
            num_shards: int | None = None, shard_id: int | None = None,
            cache: Any = None) -> None: ...
class MindDataset(records.MindDataset):
    def __init__(self, dataset_files: str | list[str], columns_list: Any = None,
            num_parallel_workers: int | None = None, shuffle: Any = None,
            num_shards: int | None = None, shard_id: int | None = None, sampler: Any = None,
            padded_sample: Mapping[str, Any] | None = None, num_padded: int | None = None,
            num_samples: int | None = None, cache: Any = None) -> None: ...
class MnistDataset(pictures.MnistDataset):
    def __init__(self, dataset_dir: str, usage: str | None = None, num_samples: int | None = None,
            num_parallel_workers: int | None = None, shuffle: Any = None, sampler: Any = None,
            num_shards: int | None = None, shard_id: int | None = None,
            cache: Any = None) -> None: ...
class Multi30kDataset(corpora.Multi30kDataset):
    def __init__(self, dataset_dir: str, usage: str | None = None, language_pair: Any = None,
            num_samples: int | None = None, num_parallel_workers: int | None = None,
            shuffle: Any = None, num_shards: int | None = None, shard_id: int | None = None,
            cache: Any = None) -> None: ...
class NumpySlicesDataset(sources.NumpySlicesDataset):
    def __init__(self, data: Any, column_names: Any = None, num_samples: int | None = None,
            num_parallel_workers: int = 1, shuffle: Any = None, sampler: Any = None,
            num_shards: int | None = None, shard_id: int | None = None) -> None: ...
class OmniglotDataset(listed.OmniglotDataset):
    def __init__(self, dataset_dir: str, background: bool | None = None,
            num_samples: int | None = None, num_parallel_workers: int | None = None,
            shuffle: Any = None, decode: bool = False, sampler: Any = None,
            num_shards: int | None = None, shard_id: int | None = None,
            cache: Any = None) -> None: ...
class PennTreebankDataset(corpora.PennTreebankDataset):
    def __init__(self, dataset_dir: str, usage: str | None = None, num_samples: int | None = None,
            num_parallel_workers: int | None = None, shuffle: Any = ...,
            num_shards: int | None = None, shard_id: int | None = None,
            cache: Any = None) -> None: ...
class Places365Dataset(listed.Places365Dataset):
    def __init__(self, dataset_dir: str, usage: str | None = None, small: bool = True,
            decode: bool = False, num_samples: int | None = None,
            num_parallel_workers: int | None = None, shuffle: Any = None, sampler: Any = None,
            num_shards: int | None = None, shard_id: int | None = None,
            cache: Any = None) -> None: ...
class QMnistDataset(digits.QMnistDataset):
    def __init__(self, dataset_dir: str, usage: str | None = None, compat: bool = True,
            num_samples: int | None = None, num_parallel_workers: int | None = None,
            shuffle: Any = None, sampler: Any = None, num_shards: int | None = None,
            shard_id: int | None = None, cache: Any = None) -> None: ...
class RenderedSST2Dataset(listed.RenderedSST2Dataset):
    def __init__(self, dataset_dir: str, usage: str | None = None, num_samples: int | None = None,
            num_parallel_workers: int | None = None, shuffle: Any = None, decode: bool = False,
            sampler: Any = None, num_shards: int | None = None, shard_id: int | None = None,
            cache: Any = None) -> None: ...
class SBUDataset(listed.SBUDataset):
    def __init__(self, dataset_dir: str, num_samples: int | None = None,
            num_parallel_workers: int | None = None, shuffle: Any = None, decode: bool = False,
            sampler: Any = None, num_shards: int | None = None, shard_id: int | None = None,
            cache: Any = None) -> None: ...
class SQuADDataset(corpora.SQuADDataset):
    def __init__(self, dataset_dir: str, usage: str | None = None, num_samples: int | None = None,
            num_parallel_workers: int | None = None, shuffle: Any = ...,
            num_shards: int | None = None, shard_id: int | None = None,
            cache: Any = None) -> None: ...
class SST2Dataset(corpora.SST2Dataset):
    def __init__(self, dataset_dir: str, usage: str | None = None, num_samples: int | None = None,
            num_parallel_workers: int | None = None, shuffle: Any = ...,
            num_shards: int | None = None, shard_id: int | None = None,
            cache: Any = None) -> None: ...
class STL10Dataset(digits.STL10Dataset):
    def __init__(self, dataset_dir: str, usage: str | None = None, num_samples: int | None = None,
            num_parallel_workers: int | None = None, shuffle: Any = None, sampler: Any = None,
            num_shards: int | None = None, shard_id: int | None = None,
            cache: Any = None) -> None: ...
class SUN397Dataset(listed.SUN397Dataset):
    def __init__(self, dataset_dir: str, num_samples: int | None = None,
            num_parallel_workers: int | None = None, shuffle: Any = None, decode: bool = False,
            sampler: Any = None, num_shards: int | None = None, shard_id: int | None = None,
            cache: Any = None) -> None: ...
class SVHNDataset(matfiles.SVHNDataset):
    def __init__(self, dataset_dir: str, usage: str | None = None, num_samples: int | None = None,
            num_parallel_workers: int = 1, shuffle: Any = None, sampler: Any = None,
            num_shards: int | None = None, shard_id: int | None = None) -> None: ...
class SemeionDataset(digits.SemeionDataset):
    def __init__(self, dataset_dir: str, num_samples: int | None = None,
            num_parallel_workers: int | None = None, shuffle: Any = None, sampler: Any = None,
            num_shards: int | None = None, shard_id: int | None = None,
            cache: Any = None) -> None: ...
class SogouNewsDataset(corpora.SogouNewsDataset):
    def __init__(self, dataset_dir: str, usage: str | None = None, num_samples: int | None = None,
            shuffle: Any = ..., num_shards: int | None = None, shard_id: int | None = None,
            num_parallel_workers: int | None = None, cache: Any = None) -> None: ...
class SpeechCommandsDataset(speech.SpeechCommandsDataset):
    def __init__(self, dataset_dir: str, usage: str | None = None, num_samples: int | None = None,
            num_parallel_workers: int | None = None, shuffle: Any = None, sampler: Any = None,
            num_shards: int | None = None, shard_id: int | None = None,
            cache: Any = None) -> None: ...
class TFRecordDataset(records.TFRecordDataset):
    def __init__(self, dataset_files: Any, schema: str | Schema | None = None,
            columns_list: Any = None, num_samples: int | None = None,
            num_parallel_workers: int | None = None, shuffle: Any = ...,
            num_shards: int | None = None, shard_id: int | None = None,
            shard_equal_rows: bool = False, cache: Any = None,
            compression_type: str | None = None) -> None: ...
class TextFileDataset(texts.TextFileDataset):
    def __init__(self, dataset_files: Any, num_samples: int | None = None,
            num_parallel_workers: int | None = None, shuffle: Any = ...,
            num_shards: int | None = None, shard_id: int | None = None,
            cache: Any = None) -> None: ...
class UDPOSDataset(corpora.UDPOSDataset):
    def __init__(self, dataset_dir: str, usage: str | None = None, num_samples: int | None = None,
            shuffle: Any = ..., num_shards: int | None = None, shard_id: int | None = None,
            num_parallel_workers: int | None = None, cache: Any = None) -> None: ...
class USPSDataset(digits.USPSDataset):
    def __init__(self, dataset_dir: str, usage: str | None = None, num_samples: int | None = None,
            num_parallel_workers: int | None = None, shuffle: Any = ...,
            num_shards: int | None = None, shard_id: int | None = None,
            cache: Any = None) -> None: ...
class VOCDataset(annotated.VOCDataset):
    def __init__(self, dataset_dir: str, task: str = 'Segmentation', usage: str = 'train',
            class_indexing: dict[str, int] | None = None, num_samples: int | None = None,
            num_parallel_workers: int | None = None, shuffle: Any = None, decode: bool = False,
            sampler: Any = None, num_shards: int | None = None, shard_id: int | None = None,
            cache: Any = None, extra_metadata: bool = False, decrypt: Any = None) -> None: ...
class WikiTextDataset(corpora.WikiTextDataset):
    def __init__(self, dataset_dir: str, usage: str | None = None, num_samples: int | None = None,
            num_parallel_workers: int | None = None, shuffle: Any = ...,
            num_shards: int | None = None, shard_id: int | None = None,
            cache: Any = None) -> None: ...
class YahooAnswersDataset(corpora.YahooAnswersDataset):
    def __init__(self, dataset_dir: str, usage: str | None = None, num_samples: int | None = None,
            num_parallel_workers: int | None = None, shuffle: Any = ...,
            num_shards: int | None = None, shard_id: int | None = None,
            cache: Any = None) -> None: ...
class YelpReviewDataset(corpora.YelpReviewDataset):
    def __init__(self, dataset_dir: str, usage: str | None = None, num_samples: int | None = None,
            shuffle: Any = ..., num_shards: int | None = None, shard_id: int | None = None,
            num_parallel_workers: int | None = None, cache: Any = None) -> None: ...
class YesNoDataset(speech.YesNoDataset):
    def __init__(self, dataset_dir: str, num_samples: int | None = None,
            num_parallel_workers: int | None = None, shuffle: Any = None, sampler: Any = None,
            num_shards: int | None = None, shard_id: int | None = None,
            cache: Any = None) -> None: ...
