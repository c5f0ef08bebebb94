"""What a model was trained on is looked for where a recipe names files, and nowhere else."""

from types import SimpleNamespace

from regard.data.training_sample import TrainingSample
from regard.tasks.text_labels.tagged_file import TaggedFile
from regard.training import provenance


def test_a_setting_that_looks_like_a_path_is_not_read(tmp_path, monkeypatch):
    """A separator of "/" is no folder to read all files of."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "_").mkdir()
    (tmp_path / "_" / "private.txt").write_text("not trained on/X\n")
    (tmp_path / "tagged.txt").write_text("the/DET cat/NOUN\n")
    file = TaggedFile(path="tagged.txt")
    read = []
    monkeypatch.setattr(
        provenance.TrainingSample,
        "of",
        classmethod(lambda cls, files, unit, before=None: read.extend(files) or TrainingSample.parse({})),
    )
    assert provenance._sample_examples(SimpleNamespace(train=(file,)), {"train": []}, {}) is None
    assert read == ["tagged.txt"]
    assert (file.separator, file.blank) == ("/", "_")
