"""Sources: rows from Python, arrays, images and texts, as MindSpore 2.10 gives them."""

from __future__ import annotations

import re
import struct

import numpy as np
import pytest

import cellc as ms
import cellc.dataset as ds


def listed(data):
    return [[(v.dtype.name, v.tolist()) for v in row]
            for row in data.create_tuple_iterator(num_epochs=1, output_numpy=True)]


def column(data, name):
    rows = data.create_dict_iterator(num_epochs=1, output_numpy=True)
    return [row[name].tolist() for row in rows]


def counting():
    for i in range(3):
        yield (np.array(i),)


class Counter:
    def __iter__(self):
        self.i = 0
        return self

    def __next__(self):
        self.i += 1
        if self.i > 3:
            raise StopIteration
        return self.i, f"s{self.i}"


def test_generators():
    data = ds.GeneratorDataset(counting, ["a"])
    assert listed(data) == listed(data) == [[("int64", 0)], [("int64", 1)], [("int64", 2)]]
    assert column(ds.GeneratorDataset(counting, "a", num_samples=2), "a") == [0, 1]
    assert ds.GeneratorDataset(counting, "a", num_samples=0).get_dataset_size() == 3
    words = ds.GeneratorDataset(Counter(), ["a", "b"])
    assert (column(words, "b"), words.get_dataset_size()) == (["s1", "s2", "s3"], 3)
    assert listed(ds.GeneratorDataset([(1, 2.5)], ["a", "b"])) == [[("int64", 1), ("float64", 2.5)]]
    assert listed(ds.GeneratorDataset([[1, 2]], ["a", "b"])) == [[("int64", 1), ("int64", 2)]]
    assert listed(ds.GeneratorDataset([1], ["a"])) == [[("int64", 1)]]
    assert listed(ds.GeneratorDataset(lambda: iter([(ms.Tensor([1.0]), [1, 2])]), ["a", "b"])) == [
        [("float32", [1.0]), ("int64", [1, 2])]]
    (row,) = ds.GeneratorDataset([({"x": 1}, 2), ({"x": 3}, 4)], ["a", "b"], shuffle=False).batch(2)
    assert (row[0]["x"].asnumpy().tolist(), row[1].asnumpy().tolist()) == ([1, 3], [2, 4])


def failing():
    yield (np.array(1),)
    raise KeyError("boo")


def test_errors_of_generators_say_where():
    with pytest.raises(RuntimeError, match=r"source 'failing' for column\(s\) \['a'\], row 1, "
                       r"failed: KeyError: 'boo' \(.*test_sources\.py, line \d+\)") as caught:
        list(ds.GeneratorDataset(failing, ["a"]))
    assert isinstance(caught.value.__cause__, KeyError)
    for source, names, message in (
        ([(1, 2, 3)], ["a", "b"], r"column_names is: 2 and .* is: 3 \(row 0"),
        ([(None,)], ["a"], "column 'a' of row 0: expected an array.*None"),
        ([([1, [2, 3]],)], ["a"], "column 'a' of row 0.*makes no array"),
        ([(np.array([1, "x", None], object),)], ["a"], "array of object"),
    ):
        with pytest.raises(RuntimeError, match=message):
            list(ds.GeneratorDataset(source, names))
    typed = ds.GeneratorDataset(counting, ["a"], column_types=[ms.float32])
    with pytest.raises(RuntimeError, match=r"column 'a' of row 0 should be float32 .* is int64"):
        list(typed)
    for wrong, kind, text in (
        (lambda: ds.GeneratorDataset(5, ["a"]), TypeError,
         "'source' must be a function, something iterable, or an object with __getitem__"),
        (lambda: ds.GeneratorDataset(counting), ValueError,
         "Neither columns_names nor schema are provided"),
        (lambda: ds.GeneratorDataset(counting, ["a", "a"]), ValueError,
         "'column_names' must be a name, or a list of different names"),
        (lambda: ds.GeneratorDataset(counting, ["a", ""]), ValueError,
         "'column_names' must be a name, or a list of different names"),
        (lambda: ds.GeneratorDataset(counting, ["a"], sampler=[1]), ValueError,
         "sampler is not supported if source does not have attribute '__getitem__'"),
        (lambda: ds.GeneratorDataset(counting, ["a"], num_shards=2, shard_id=0), ValueError,
         "num_shards is not supported if source does not have attribute '__getitem__'"),
        (lambda: ds.GeneratorDataset([1], ["a"], num_shards=2), ValueError,
         "num_shards and shard_id need to be passed in together"),
        (lambda: ds.GeneratorDataset([1], ["a"], num_shards=2, shard_id=2), ValueError,
         "shard_id should be less than num_shards"),
        (lambda: ds.GeneratorDataset([1], ["a"], shuffle=True, sampler=[0]), ValueError,
         "Conflicting arguments during sampler assignments. num_samples: None, num_shards"),
        (lambda: ds.GeneratorDataset([1], ["a"], collate_fn=list), ValueError,
         "collate_fn can be specified only when batch_sampler is set"),
        (lambda: ds.GeneratorDataset([1], ["a"], sampler=ds.PKSampler(1)), ValueError,
         "GeneratorDataset doesn't support PKSampler"),
    ):
        with pytest.raises(kind, match=re.escape(text)):
            wrong()


def test_batch_samplers_and_collate():
    data = ds.GeneratorDataset([1, 2, 3], ["a"], batch_sampler=[[0, 1], [2]])
    assert (column(data, "a"), data.get_dataset_size()) == ([[1, 2], [3]], 2)
    data = ds.GeneratorDataset(
        [1, 2, 3], ["a"], batch_sampler=[[0, 1], [2]],
        collate_fn=lambda a, info: np.array(a) * 10 + info.get_batch_num())
    assert column(data, "a") == [[10, 20], [31]]


def test_arrays():
    data = ds.NumpySlicesDataset(np.arange(6).reshape(3, 2), ["a"], shuffle=False)
    assert column(data, "a") == [[0, 1], [2, 3], [4, 5]]
    assert ds.NumpySlicesDataset([1, 2]).get_col_names() == ["column_0"]
    data = ds.NumpySlicesDataset(([1, 2], [3.0, 4.0]), ["x", "y"], shuffle=False)
    assert listed(data) == [[("int64", 1), ("float64", 3.0)], [("int64", 2), ("float64", 4.0)]]
    data = ds.NumpySlicesDataset({"x": [1, 2], "y": ["a", "b"]}, shuffle=False)
    assert (data.get_col_names(), column(data, "y")) == (["x", "y"], ["a", "b"])
    assert sorted(column(ds.NumpySlicesDataset([5, 6, 7]), "column_0")) == [5, 6, 7]
    assert column(ds.PaddedDataset([{"a": np.array(1)}, {"a": np.array(2)}]), "a") == [1, 2]
    for wrong, kind, text in (
        (([1, 2], [3.0]), ValueError,
         "Data length in each column is not equal: {'column_0': 2, 'column_1': 1}"),
        (3, TypeError,
         "'data' must be an array, list, tuple or dict that is not empty"),
        ([], ValueError, "'data' must be an array, list, tuple or dict that is not empty"),
    ):
        with pytest.raises(kind, match=re.escape(text)):
            ds.NumpySlicesDataset(wrong)
    with pytest.raises(ValueError, match="is 1, but required is 2"):
        ds.NumpySlicesDataset(([1], [2]), ["x"])


def write_idx(path, array):
    header = struct.pack(">I", 0x800 | array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    path.write_bytes(header + array.astype(np.uint8).tobytes())


@pytest.fixture
def mnist(tmp_path):
    draw = np.random.default_rng(0)
    for part, labels in (("train", [3, 1, 4, 1, 5]), ("t10k", [2, 7])):
        images = draw.integers(0, 256, (len(labels), 28, 28))
        write_idx(tmp_path / f"{part}-images-idx3-ubyte", images)
        write_idx(tmp_path / f"{part}-labels-idx1-ubyte", np.array(labels))
    return tmp_path


def test_mnist(mnist):
    data = ds.MnistDataset(str(mnist), "train", shuffle=False)
    first = next(data.create_dict_iterator(output_numpy=True))
    assert (first["image"].shape, first["image"].dtype) == ((28, 28, 1), np.uint8)
    assert (first["label"].tolist(), first["label"].dtype) == (3, np.uint32)
    assert column(ds.MnistDataset(str(mnist), shuffle=False), "label") == [2, 7, 3, 1, 4, 1, 5]
    assert ds.FashionMnistDataset(str(mnist), "test").get_dataset_size() == 2
    assert ds.KMnistDataset(mnist, "test", num_samples=1).get_dataset_size() == 1
    picked = ds.MnistDataset(str(mnist), "train", sampler=ds.PKSampler(2))
    assert column(picked, "label") == [1, 1, 3, 3, 4, 4, 5, 5]
    assert data.num_classes() is None
    with pytest.raises(ValueError, match="'usage' must be one of"):
        ds.MnistDataset(str(mnist), "x")
    with pytest.raises(ValueError, match="does not exist"):
        ds.MnistDataset("no such folder")


def test_broken_files_are_errors(mnist, tmp_path):
    path = mnist / "train-images-idx3-ubyte"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(RuntimeError, match="no file of the IDX format"):
        ds.MnistDataset(str(mnist), "train").get_dataset_size()
    path.write_bytes(b"\x1f")
    with pytest.raises(RuntimeError, match="no file of the IDX format"):
        ds.MnistDataset(str(mnist), "train").get_dataset_size()
    path.unlink()
    with pytest.raises(RuntimeError, match="can't read the data file 'train-images"):
        ds.MnistDataset(str(mnist), "train").get_dataset_size()
    (tmp_path / "test_batch.bin").write_bytes(b"123")
    with pytest.raises(RuntimeError, match="has 3 bytes, which are no rows of 3073"):
        ds.Cifar10Dataset(str(tmp_path), "test").get_dataset_size()


def test_cifar(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (3, 32, 32), np.uint8)
    for name, label in (("data_batch_2.bin", 2), ("data_batch_1.bin", 1), ("test_batch.bin", 9)):
        (tmp_path / name).write_bytes(bytes([label]) + pixels.tobytes())
    data = ds.Cifar10Dataset(str(tmp_path), shuffle=False)
    assert column(data, "label") == [1, 2, 9]
    image = next(data.create_tuple_iterator(output_numpy=True))[0]
    assert np.array_equal(image, pixels.transpose(1, 2, 0))
    assert column(ds.Cifar10Dataset(str(tmp_path), "train", shuffle=False), "label") == [1, 2]
    (tmp_path / "test.bin").write_bytes(bytes([3, 7]) + pixels.tobytes())
    data = ds.Cifar100Dataset(str(tmp_path), "test")
    assert data.get_col_names() == ["image", "coarse_label", "fine_label"]
    assert [r[1:] for r in listed(data)] == [[("uint32", 3), ("uint32", 7)]]


def test_folders_of_pictures(tmp_path):
    image = pytest.importorskip("PIL.Image")
    for name in ("dog", "cat"):
        (tmp_path / name).mkdir()
        shade = np.full((3, 2, 3), len(name) * ord(name[0]) % 256, np.uint8)
        image.fromarray(shade).save(tmp_path / name / "0.png")
    (tmp_path / "cat" / "1.txt").write_text("no picture")
    data = ds.ImageFolderDataset(str(tmp_path), shuffle=False, extensions=[".png"], decode=True)
    assert (data.num_classes(), data.get_class_indexing()) == (2, {"cat": 0, "dog": 1})
    rows = list(data.create_tuple_iterator(output_numpy=True, num_epochs=1))
    assert [(r[0].shape, r[0].max(), r[1].dtype, r[1].tolist()) for r in rows] == [
        ((3, 2, 3), 3 * 99 % 256, np.int32, 0), ((3, 2, 3), 300 % 256, np.int32, 1)]
    raw = next(ds.ImageFolderDataset(str(tmp_path), shuffle=False).create_tuple_iterator(
        output_numpy=True))
    assert bytes(raw[0]) == (tmp_path / "cat" / "0.png").read_bytes()
    some = ds.ImageFolderDataset(str(tmp_path), class_indexing={"dog": 5})
    assert (column(some, "label"), some.get_class_indexing()) == ([5], {"dog": 5})
    with pytest.raises(RuntimeError, match=r"1\.txt: the image is broken"):
        list(ds.ImageFolderDataset(str(tmp_path), decode=True))
    with pytest.raises(RuntimeError, match="can't find files"):
        list(ds.ImageFolderDataset(str(tmp_path), extensions=[".jpg"]))


@pytest.fixture
def texts(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"hello world\n\n  be strong \nlast")
    (tmp_path / "b.txt").write_bytes(b"one\r\ntwo\n")
    return tmp_path


def test_lines(texts):
    one, both = str(texts / "a.txt"), str(texts / "*.txt")
    assert column(ds.TextFileDataset(one, shuffle=False), "text") == [
        "hello world", "  be strong ", "last"]
    in_turn = ["hello world", "one\r", "  be strong ", "two", "last"]
    assert column(ds.TextFileDataset(both, shuffle=False), "text") == in_turn
    shuffled = column(ds.TextFileDataset([str(texts / "b.txt"), one]), "text")
    assert sorted(shuffled) == sorted(in_turn)
    assert ds.TextFileDataset(one, num_samples=2).get_dataset_size() == 2
    shards = [column(ds.TextFileDataset(both, shuffle=False, num_shards=2, shard_id=i), "text")
              for i in range(2)]
    assert shards == [["hello world", "  be strong ", "last"], ["one\r", "hello world", "two"]]
    parts = ds.TextFileDataset(both, shuffle=False).split([2, 3], randomize=False)
    assert [column(p, "text") for p in parts] == [in_turn[:2], in_turn[2:]]
    with pytest.raises(ValueError, match="did not match any files"):
        ds.TextFileDataset("no such file")


def test_tables(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('1,2.5,x\n2,3.5,"y,z"\n3,,w\n')
    names = ["a", "b", "c"]
    data = ds.CSVDataset(str(path), column_names=names, shuffle=False)
    assert column(data, "c") == ["x", "y,z", "w"]
    with pytest.raises(RuntimeError, match=r"line 3: type does not match: column 'b' .* is ''"):
        list(ds.CSVDataset(str(path), column_defaults=[1, 2.0, ""], column_names=names))
    with pytest.raises(RuntimeError, match="line 1: 3 fields for the 2 columns"):
        list(ds.CSVDataset(str(path), column_names=["a", "b"]))
    path.write_text("id,val,name\n1,2.5,x\n2,3.5,y\n")
    data = ds.CSVDataset(str(path), column_defaults=[1, 2.0], shuffle=False)
    assert (data.get_col_names(), data.get_dataset_size()) == (["id", "val", "name"], 2)
    assert listed(data)[0] == [("int32", 1), ("float32", 2.5), ("str32", "x")]
    with path.open("ab") as file:  # what stands far behind the header is not read for it
        file.write(b"3,4.5,z\n" * 10000 + b"\xff\n")
    assert ds.CSVDataset(str(path)).get_col_names() == ["id", "val", "name"]
    with pytest.raises(RuntimeError, match="cannot be read as UTF-8"):
        list(ds.CSVDataset(str(path)))
    path.write_text("id,val,name\n1,2.5,x\n2,3.5,y\n")
    other = ds.CSVDataset(str(path), field_delim=";", shuffle=False)
    assert column(other, "id,val,name") == ["1,2.5,x", "2,3.5,y"]


def test_names_that_are_not_there_say_what_to_use():
    for name, hint in (("DatasetCache", "use a list and NumpySlices"),
                       ("TedliumDataset", "GeneratorDataset reads data that has no class here")):
        with pytest.raises(AttributeError, match=hint):
            getattr(ds, name)


def test_fake_images_are_mindspores():
    data = ds.FakeImageDataset(5, (3, 4, 3), shuffle=False)
    rows = list(data.create_tuple_iterator(output_numpy=True, num_epochs=1))
    assert [int(label) for _, label in rows] == [5, 4, 4, 5, 9] and data.num_classes == 10
    assert rows[0][0].ravel().tolist() == [
        183, 215, 236, 211, 247, 246, 241, 63, 84, 103, 56, 41, 41, 97, 211, 63, 109, 239, 118, 188,
        212, 35, 178, 63, 54, 52, 19, 97, 215, 178, 178, 63, 0, 0, 0, 0]
    assert rows[1][0].ravel()[14:].tolist() == [
        0, 0, 128, 60, 59, 17, 244, 82, 249, 63, 0, 0, 0, 0, 0, 0, 0, 0, 101, 127, 224, 158]
    (first, label), *_ = ds.FakeImageDataset(
        1, [2, 2, 2], base_seed=5).create_tuple_iterator(output_numpy=True, num_epochs=1)
    assert first.ravel().tolist() == [3, 182, 132, 5, 107, 152, 187, 63] and label == 2
    for wrong in ({"num_images": 0}, {"image_size": (3, 4)}, {"image_size": (0, 4, 3)},
                  {"num_classes": 0}, {"num_images": 1.5}):
        with pytest.raises((TypeError, ValueError), match=next(iter(wrong))):
            ds.FakeImageDataset(**wrong)
